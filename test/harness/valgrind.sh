#!/usr/bin/env bash
# valgrind.sh: a representative part with every server process under valgrind.
# Run by suite.sh.  memory_setup.sql and memory_rest.sql go through every kind of
# stream, query, state and sink, with a killed worker between them; then some of the
# oracle's cases.  What counts is an error with a frame of ours in one of its stacks;
# what the server does by itself is not our business.
#
# streamx_memory_test gives every palloc() its own malloc(), so that a read past a
# chunk or of memory that a reset context had is found, too.
set -u
. "$(dirname "$0")/lib.sh"
find_pg_config
dir=$WORK/valgrind
mkdir -p "$dir/logs" "$dir/out"

ok=0 bad=0
# result status sentence: one line of TAP
result()
{
	if [ "$1" = 0 ]; then ok=$((ok + 1)); echo "ok - $2"; else bad=$((bad + 1)); echo "not ok - $2"; fi
}

# valgrind in front of the server: pg_ctl starts "postgres" beside itself
real=$PG_BIN/postgres.real
mv "$PG_BIN/postgres" "$real" || exit 1
trap 'mv "$real" "$PG_BIN/postgres"; chmod 755 "$PG_BIN/postgres"' EXIT
cp "$real" "$PG_BIN/postgres"
start_cluster "$dir" "fsync = off" "shared_buffers = 32MB" "wal_sync_method = fdatasync" \
	"jit = off" "memory.directory = '$dir/out'" || exit 1
stop_cluster "$dir/data"
sed -i "s/^shared_preload_libraries = '/&streamx_memory_test,/" "$dir/data/postgresql.conf"

# Frames of ours are those that say (src/...): the debug information names the file.
cat >"$PG_BIN/postgres" <<SH
#!/bin/sh
exec valgrind --quiet --trace-children=yes --leak-check=no --error-limit=no \\
	--num-callers=40 --fullpath-after="$top/" \\
	--suppressions="$top/test/harness/valgrind.supp" --log-file="$dir/logs/%p.log" "$real" "\$@"
SH
chmod 755 "$PG_BIN/postgres"
as_server "$PG_BIN/pg_ctl" -D "$dir/data" -l "$dir/server.log" -w -t 180 start >/dev/null || { tail -20 "$dir/server.log"; exit 1; }
grep -q 'chunks of memory contexts are checked' "$dir/server.log"
result $? "the chunks of memory contexts are checked"

# Statements that should fail say so by switching ON_ERROR_STOP off.
play() { psql -qXAt -f "$top/test/harness/$1" >"$dir/$1.out" 2>&1 || { tail -5 "$dir/$1.out"; return 1; }; }

createdb memory
export PGDATABASE=memory
play memory_setup.sql
result $? "streams, queries of every kind and their first batches"
kill -9 "$(psql -qXAtc "SELECT pid FROM streamx.queries WHERE name = 'update_rocksdb'")"
result $? "a worker is killed"
for i in $(seq 300); do
	sleep 0.2
	grep -q 'all server processes terminated; reinitializing' "$dir/server.log" &&
		psql -qXAtc 'SELECT 1' >/dev/null 2>&1 && break
done
play memory_rest.sql
result $? "restarts, rebuilt state, results, DROP"
createdb formats
PGDATABASE=formats psql -qXAtc 'CREATE EXTENSION pgtap; CREATE EXTENSION streamx; CREATE EXTENSION streamx_format_test'
for test in format_from_json format_csv_raw format_avro; do
	PGDATABASE=formats psql -qXAt -f "$top/test/sql/$test.sql" >"$dir/$test.out" 2>&1
	! grep -E '^not ok|ERROR' "$dir/$test.out"
	result $? "decoders and encoders: $test"
done
export PGDATABASE=postgres

cases=tumble_restart,union_all_two,join_full_null_keys
"$PYTHON" test/oracle/run.py --jobs 2 --only $cases --state-memory 4MB
result $? "cases of the oracle"
as_server "$PG_BIN/pg_ctl" -D "$dir/data" -m fast -w -t 180 stop >/dev/null
result $? "the server stops"

# One block per error, told apart by an empty line.
errors=$(for log in "$dir"/logs/*.log; do awk '
	function tell() { if (block ~ /\(src\/[a-z]+\//) { n++; print block > "/dev/stderr" } block = "" }
	{ sub(/^==[0-9]+== ?/, "") }
	/^$/ { tell(); next }
	{ block = block $0 "\n" }
	END { tell(); print n + 0 }' "$log"; done | awk '{ n += $1 } END { print n + 0 }')
processes=$(ls "$dir"/logs/*.log 2>/dev/null | wc -l)
[ "$processes" -gt 20 ]
result $? "valgrind looked at $processes processes"
[ "$errors" = 0 ]
result $? "valgrind found $errors errors in streamx"
echo "SUITE $ok $bad 0"
