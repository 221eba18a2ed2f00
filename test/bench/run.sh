#!/usr/bin/env bash
# run.sh: `make bench`, from an empty Debian 12: builds a release into a copy of the
# server, starts a private cluster, measures the hand-made solutions and streamx in
# turn and prints the ratios. ONLY, RUNS, LONG: see README.md here.
set -u
. "$(dirname "$0")/../harness/lib.sh"

bench=
stopped()
{
	trap '' INT TERM HUP
	[ -z "$bench" ] || { kill "$bench" 2>/dev/null; wait "$bench"; }
	say "stopped"
	clean_up
	exit 130
}
trap stopped INT TERM HUP
trap clean_up EXIT

need_packages $BUILD_PACKAGES python3 python3-psycopg2
find_pg_config
make_work bench
src=$WORK/src
mkdir "$src"
(cd "$top" && tar -cf - --exclude='*.o' --exclude='*.so' --exclude=.git --exclude=log .) | tar -xf - -C "$src"
copy_server "$WORK/pg"
[ "$(id -u)" != 0 ] || chown -R postgres "$WORK"

say "building a release for $("$PG_CONFIG" --version | cut -d' ' -f1-2)"
build()
{
	as_server make -s -C "$src" -j2 all install PG_CONFIG="$PG_CONFIG" &&
	as_server gcc -O2 -Wall -o "$WORK/gen_bids" "$src/test/bench/gen_bids.c" -lm
}
build >"$WORK/build.log" 2>&1 </dev/null || { tail -30 "$WORK/build.log" >&2; fail "the build failed"; }

start_cluster "$WORK" "shared_buffers = 512MB" "max_wal_size = 4GB" "max_worker_processes = 80" ||
	fail "PostgreSQL does not start"
as_server env WORK="$WORK" PG_BIN="$PG_BIN" PGHOST="$PGHOST" PGPORT="$PGPORT" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" \
	ONLY="${ONLY:-}" RUNS="${RUNS:-}" LONG="${LONG:-}" ROWS="${ROWS:-}" SYSTEMS="${SYSTEMS:-}" \
	"$PYTHON" -u "$src/test/bench/bench.py" &
bench=$!
wait $bench
status=$?
bench=
[ ! -f "$WORK/results.json" ] || cp "$WORK/results.json" "$top/test/bench/results.json"
[ -z "${KEEP_LOG:-}" ] || cp "$WORK/server.log" "$KEEP_LOG"
exit $status
