#!/usr/bin/env bash
# valgrind.sh: a representative part with every server process under valgrind.
# Run by suite.sh.  What counts is an error with a frame of ours in its stack; the
# server's own (padding written to disk and the like) is not our business.
set -u
. "$(dirname "$0")/lib.sh"
find_pg_config
dir=$WORK/valgrind
mkdir -p "$dir/logs"

# valgrind in front of the server: pg_ctl starts "postgres" beside itself
real=$PG_BIN/postgres.real
mv "$PG_BIN/postgres" "$real" || exit 1
trap 'mv "$real" "$PG_BIN/postgres"; chmod 755 "$PG_BIN/postgres"' EXIT
cp "$real" "$PG_BIN/postgres"
start_cluster "$dir" "fsync = off" "shared_buffers = 32MB" "wal_sync_method = fdatasync" || exit 1
stop_cluster "$dir/data"

cat >"$PG_BIN/postgres" <<SH
#!/bin/sh
exec -a "$PG_BIN/postgres" valgrind --quiet --trace-children=yes --leak-check=no --error-limit=no \\
	--read-var-info=no --num-callers=25 --undef-value-errors=yes \\
	--suppressions="$top/test/harness/valgrind.supp" --log-file="$dir/logs/%p.log" "$real" "\$@"
SH
sed -i 's/^exec -a [^ ]* /exec /' "$PG_BIN/postgres"
chmod 755 "$PG_BIN/postgres"
as_server "$PG_BIN/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 180 start >/dev/null || { tail -20 "$dir/server.log"; exit 1; }

cases=tumble_append,tumble_update,hop_update,static_left,tumble_restart,union_all_two,tumble_array_agg,division_by_zero,global_limit,tumble_complete_w
"$PYTHON" test/oracle/run.py --jobs 2 --only $cases --state-memory 4MB
rc=$?
as_server "$PG_BIN/pg_ctl" -D "$dir/data" -m fast -w -t 180 stop >/dev/null

# One block per error; ours if a frame is in our library.
errors=$(cat "$dir"/logs/*.log 2>/dev/null | awk '
	{ sub(/^==[0-9]+== ?/, "") }
	/^$/ { if (block ~ /streamx/) { n++; print block > "/dev/stderr" } block = ""; next }
	{ block = block $0 "\n" }
	END { if (block ~ /streamx/) { n++; print block > "/dev/stderr" } print n + 0 }')
processes=$(ls "$dir"/logs/*.log 2>/dev/null | wc -l)
ok=0 bad=0
[ $rc = 0 ] && ok=$((ok + 1)) || { bad=$((bad + 1)); echo "not ok - the cases pass under valgrind"; }
[ "$processes" -gt 5 ] && ok=$((ok + 1)) || { bad=$((bad + 1)); echo "not ok - valgrind looked at $processes processes"; }
[ "$errors" = 0 ] && ok=$((ok + 1)) || { bad=$((bad + 1)); echo "not ok - valgrind found $errors errors in streamx"; }
echo "SUITE $ok $bad 0"
