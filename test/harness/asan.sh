# asan.sh: the server of a test build under the address sanitizer.  Sourced by check.sh
# when SX_ASAN is set.  Our libraries are compiled with it; the server is not, but finds
# the sanitizer's malloc() and string functions preloaded, and streamx_memory_test (on
# 15) gives every palloc() its own malloc(): so that reads past a chunk, or of memory
# that a reset context had, are found in every test.

ASAN_FLAGS="-fsanitize=address -fno-omit-frame-pointer"

# In front of the copied server: pg_ctl, initdb and pg_regress start "postgres" beside themselves.
asan_wrap()
{
	local runtime lib real=$PG_BIN/postgres.real

	mkdir -p "$WORK/asan"
	[ "$(id -u)" != 0 ] || chown postgres "$WORK/asan"
	# libstdc++ too: the sanitizer looks for what it wraps of it when the process starts
	for lib in libasan.so libstdc++.so.6; do
		lib=$(gcc -print-file-name=$lib)
		[ -e "$lib" ] || fail "no $lib: install gcc's libasan"
		runtime="${runtime:+$runtime:}$(readlink -f "$lib")"
	done
	mv "$PG_BIN/postgres" "$real"
	cat >"$PG_BIN/postgres" <<SH
#!/bin/sh
LD_PRELOAD=$runtime
ASAN_OPTIONS=detect_leaks=0:abort_on_error=1:disable_coredump=1:detect_odr_violation=0:allocator_may_return_null=1:log_path=$WORK/asan/log
export LD_PRELOAD ASAN_OPTIONS
exec "$real" "\$@"
SH
	chmod 755 "$PG_BIN/postgres"
}

# Every report is a failure; "passed failed" for check.sh.
asan_count()
{
	local reports

	reports=$(find "$WORK/asan" -name 'log.*' -size +0 | sort)
	if [ -z "$reports" ]; then
		echo 1 0
		return
	fi
	cp $reports "$LOGS/"
	grep -h 'ERROR: AddressSanitizer' $reports | sed 's/==[0-9]*==//; s/0x[0-9a-f]*/0x/g' | sort | uniq -c | sort -rn | head -20 | sed 's/^/    /' >&2
	echo 0 "$(printf '%s\n' "$reports" | wc -l)"
}
