#!/usr/bin/env bash
# check.sh [--verbose] [suite...]: every test, on a machine with nothing installed.
#
# Works on a copy of the tree and of the server in a temporary folder: the test
# build (assertions, crash points) is never installed where people use it.  A
# line per suite; the last line is the sum, the exit status says the same.
set -u
. "$(dirname "$0")/lib.sh"
ASAN_FLAGS=
[ -z "${SX_ASAN:-}" ] || . "$(dirname "$0")/asan.sh"

verbose=
[ "${1:-}" = --verbose ] && { verbose=1; shift; }
suites=${*:-lint regress isolation tap kafka oracle property docs crash valgrind}
started=$SECONDS

# seconds that a suite may take
limit_of()
{
	[ -z "${SX_ASAN:-}" ] || { echo 7200; return; }
	case $1 in
		lint)      echo 120 ;;
		regress)   echo 420 ;;
		isolation) echo 240 ;;
		tap)       echo 900 ;;
		kafka)     echo 1500 ;;
		oracle)    [ -n "${SX_ORACLE_LONG:-}" ] && echo 3600 || echo 420 ;;
		property)  [ -n "${SX_PROPERTY:-}" ] && echo 14400 || echo 300 ;;
		docs)      echo 240 ;;
		crash)     [ -n "${SX_CRASH_LONG:-}" ] && echo 14400 || echo 420 ;;
		upgrade)   echo 300 ;;
		valgrind)  echo 600 ;;
		*)         echo 600 ;;
	esac
}

stopped() { trap '' INT TERM HUP; say "stopped"; clean_up; exit 130; }
trap stopped INT TERM HUP
trap clean_up EXIT

need_packages $BUILD_PACKAGES $TEST_PACKAGES \
	$(case " $suites " in *" valgrind "*) echo valgrind ;; esac) \
	$(case " $suites " in *" kafka "*) echo $KAFKA_PACKAGES ;; esac)
find_pg_config
make_work check
SRC=$WORK/src LOGS=$WORK/log
mkdir "$SRC" "$LOGS"
copy_tree "$SRC"
if [ -n "${CASES:-}" ]; then
	cp -r "$CASES" "$WORK/cases" || fail "cannot read CASES=$CASES"
	CASES=$WORK/cases
fi

# The broker is downloaded by whoever runs this, and copied to where the server's user can
# read it.  The older one is for what the system's librdkafka cannot do with a newer.
SX_KAFKA_CACHE=
case " $suites " in *" kafka "*)
	mkdir "$WORK/kafka-cache"
	for version in 4.2.0 3.9.1; do
		jars=$(SX_KAFKA_VERSION=$version "$top/test/harness/kafka.sh" fetch) || fail "no broker to test with"
		cp -r "$jars" "$WORK/kafka-cache/" && chmod -R a+rX "$WORK/kafka-cache" || fail "no room for the broker"
	done
	SX_KAFKA_CACHE=$WORK/kafka-cache ;;
esac

# build_for name: copies the server of PG_CONFIG and installs a test build there
build_for()
{
	local tree=$1

	say "building for $("$PG_CONFIG" --version | cut -d' ' -f1-2), with warnings as errors, assertions and crash points"
	copy_server "$WORK/pg.${tree##*/}"
	# pgTAP is SQL only; a server from elsewhere borrows Debian's
	[ -f "$("$PG_CONFIG" --sharedir)/extension/pgtap.control" ] ||
		cp /usr/share/postgresql/15/extension/pgtap* "$("$PG_CONFIG" --sharedir)/extension/" 2>/dev/null
	# a server built by a newer compiler asks for warnings that ours does not know
	cat >"$WORK/cc" <<'SH'
#!/bin/sh
for a; do shift; [ "$a" = -Wmissing-variable-declarations ] || set -- "$@" "$a"; done
exec gcc "$@"
SH
	chmod 755 "$WORK/cc"
	[ "$(id -u)" != 0 ] || chown -R postgres "$WORK"
	if ! as_server make -s -C "$tree" -j2 all install test-modules PG_CONFIG="$PG_CONFIG" CC="$WORK/cc" \
		PG_CFLAGS="${ASAN_FLAGS:--Werror} -DUSE_ASSERT_CHECKING" SX_CPPFLAGS="-DSX_CRASH_POINTS $ASAN_FLAGS" \
		>"$LOGS/build.log" 2>&1 </dev/null
	then
		grep -E 'error|Error|warning' "$LOGS/build.log" | head -20
		say "the build failed"
		say "0 passed, 1 failed"
		exit 1
	fi
}

OLD_BIN=
if [ -n "${SX_OLD_PG_CONFIG:-}" ]; then
	new=$PG_CONFIG
	mkdir "$WORK/old"
	copy_tree "$WORK/old"
	PG_CONFIG=$SX_OLD_PG_CONFIG find_pg_config
	build_for "$WORK/old"
	OLD_BIN=$PG_BIN
	PG_CONFIG=$new find_pg_config
fi
build_for "$SRC"
[ -z "${SX_ASAN:-}" ] || asan_wrap

passed=0 failed=0 skipped=0
for suite in $suites; do
	begin=$SECONDS
	log=$LOGS/$suite.log
	run() { as_server env WORK="$WORK" PG_CONFIG="$PG_CONFIG" CI="${CI:-}" CASES="${CASES:-}" TESTS="${TESTS:-}" \
			SX_CRASH_LONG="${SX_CRASH_LONG:-}" SX_ORACLE_LONG="${SX_ORACLE_LONG:-}" SX_PROPERTY="${SX_PROPERTY:-}" SX_OLD_BIN="$OLD_BIN" STORES="${STORES:-}" SX_KAFKA_CACHE="$SX_KAFKA_CACHE" \
			SX_ASAN="${SX_ASAN:-}" timeout -k 15 "$(limit_of "$suite")" bash "$SRC/test/harness/suite.sh" "$suite"; }
	# in the background, so that a Ctrl-C is answered at once
	if [ -n "$verbose" ]; then
		run </dev/null 2>&1 > >(tee "$log") &
	else
		run >"$log" 2>&1 </dev/null &
	fi
	wait $!
	rc=$?
	p=0 f=0 s=0
	read -r p f s < <(sed -n 's/^SUITE \([0-9]*\) \([0-9]*\) \([0-9]*\)$/\1 \2 \3/p' "$log" | tail -1)
	p=${p:-0} f=${f:-0} s=${s:-0}
	note=
	if [ $rc = 124 ] || [ $rc = 137 ]; then
		note=" (stopped after $(limit_of "$suite") s)"
		f=$((f + 1))
	elif [ $rc != 0 ] && [ "$f" = 0 ]; then
		note=" (the runner itself failed)"
		f=1
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s))
	printf '%-10s %5d passed %4d failed%s %5d s%s\n' "$suite" "$p" "$f" \
		"$([ "$s" -gt 0 ] && printf ' (%d skipped)' "$s")" $((SECONDS - begin)) "$note"
	if [ "$f" != 0 ] && [ -z "$verbose" ]; then
		grep -aE '^ *not ok|^FAIL|\.\.\. FAILED|Wstat: [1-9]' "$log" | head -30 | sed 's/^/    /' | grep . || note="$note "
		[ -n "$note" ] && tail -15 "$log" | sed 's/^/    /'
	fi
	for pidfile in $(find "$WORK" -name postmaster.pid 2>/dev/null); do
		stop_cluster "${pidfile%/*}"
	done
done

if [ -n "${SX_ASAN:-}" ]; then
	read -r p f < <(asan_count)
	printf '%-10s %5d passed %4d failed\n' sanitizer "$p" "$f"
	passed=$((passed + p)) failed=$((failed + f))
fi
if [ $failed != 0 ] && mkdir -p "$top/log" 2>/dev/null && cp -r "$LOGS" "$top/log/check.$$" 2>/dev/null; then
	say "details: log/check.$$/"
fi
say "(took $((SECONDS - started)) s$([ $skipped -gt 0 ] && echo ", $skipped skipped"))"
say "$passed passed, $failed failed"
[ $failed = 0 ]
