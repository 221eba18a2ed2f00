#!/usr/bin/env bash
# run.sh: `make bench`, from an empty Debian 12: builds a release into a copy of the
# server, starts a private cluster, and measures in turn hand-made SQL and streamx
# (bench.py), then Spark and streamx over a Kafka broker of its own (kafka_bench.py).
# ONLY, RUNS, LONG, ROWS, SYSTEMS: see README.md here.
set -u
. "$(dirname "$0")/../harness/lib.sh"

SQL_PARTS="p2 p7 latency cost recovery"
# run only when asked for: far more keys than fit into memory
SQL_EXTRA="keycost recover1g due5m"
KAFKA_EXTRA="keys20m"
KAFKA_PARTS="w1 w2 w3 w4 w5i w5l w6w w6d w7 w8 klatency krecovery"
RESULTS=${RESULTS:-$top/test/bench/results.json}

# choose: ONLY into the parts of each half; "sql" and "kafka" are all of one.
choose()
{
	local part

	sql_only= kafka_only=
	for part in $(echo "${ONLY:-sql,kafka}" | tr ',' ' '); do
		case " $SQL_PARTS $SQL_EXTRA sql | $KAFKA_PARTS $KAFKA_EXTRA kafka " in
			*" $part "*"|"*) [ "$part" = sql ] && part=$(echo $SQL_PARTS | tr ' ' ','); sql_only="$sql_only,$part" ;;
			*"|"*" $part "*) [ "$part" = kafka ] && part=$(echo $KAFKA_PARTS | tr ' ' ','); kafka_only="$kafka_only,$part" ;;
			*) fail "ONLY: there is no part $part; there are sql ($SQL_PARTS $SQL_EXTRA) and kafka ($KAFKA_PARTS $KAFKA_EXTRA)" ;;
		esac
	done
	sql_only=${sql_only#,} kafka_only=${kafka_only#,}
}

# What was measured is kept, also of a run that is stopped or fails.
keep()
{
	[ ! -f "$WORK/results.json" ] || "$PYTHON" "$top/test/bench/results.py" sql "$WORK/results.json" "$RESULTS"
	[ ! -f "$WORK/results.kafka.json" ] || "$PYTHON" "$top/test/bench/results.py" kafka "$WORK/results.kafka.json" "$RESULTS"
	[ -z "${KEEP_LOG:-}" ] || cp "$WORK/server.log" "$KEEP_LOG"
}

bench= WORK=
finish()
{
	[ ! -d "$WORK/broker" ] || "$top/test/harness/kafka.sh" stop "$WORK/broker"
	clean_up
}
stopped()
{
	trap '' INT TERM HUP
	[ -z "$bench" ] || { kill "$bench" 2>/dev/null; wait "$bench"; }
	[ -z "$WORK" ] || keep
	say "stopped"
	finish
	exit 130
}
trap stopped INT TERM HUP
trap finish EXIT

choose
need_packages $BUILD_PACKAGES python3 python3-psycopg2
if [ -n "$kafka_only" ]; then
	need_packages $KAFKA_PACKAGES python3-venv
	"$top/test/harness/kafka.sh" fetch || exit 1
	case ",${SYSTEMS:-spark}," in *,spark,*)
		say "Spark: fetching it unless it is in the cache"
		"$top/test/bench/spark.sh" fetch || exit 1
	esac
fi
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
	as_server gcc -O2 -Wall -o "$WORK/gen_bids" "$src"/test/bench/{gen_bids,bids}.c -lm &&
	{ [ -z "$kafka_only" ] ||
		as_server gcc -O2 -Wall -D_GNU_SOURCE -o "$WORK/topic" "$src"/test/bench/{topic,bids}.c -lm -lrdkafka; }
}
build >"$WORK/build.log" 2>&1 </dev/null || { tail -30 "$WORK/build.log" >&2; fail "the build failed"; }

# Spark's JDBC knows no sockets of files.
port=$("$PYTHON" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start_cluster "$WORK" "shared_buffers = 512MB" "max_wal_size = 4GB" "max_worker_processes = 80" \
	"port = $port" "listen_addresses = '127.0.0.1'" || fail "PostgreSQL does not start"
export PGPORT=$port

# measure program as-whom ONLY: runs one half; sets status
status=0
measure()
{
	local program=$1 only=$2
	shift 2

	"$@" env WORK="$WORK" PG_BIN="$PG_BIN" PGHOST="$PGHOST" PGPORT="$PGPORT" PGUSER="$PGUSER" PGDATABASE="$PGDATABASE" \
		ONLY="$only" RUNS="${RUNS:-}" LONG="${LONG:-}" ROWS="${ROWS:-}" SYSTEMS="${SYSTEMS:-}" RESULTS="$RESULTS" \
		"$PYTHON" -u "$src/test/bench/$program" &
	bench=$!
	wait $bench || status=1
	bench=
}

[ -z "$sql_only" ] || measure bench.py "$sql_only" as_server
if [ -n "$kafka_only" ]; then
	"$top/test/harness/kafka.sh" start "$WORK/broker" --heap 1g || fail "the broker does not start"
	export BROKERS BROKER_PID
	BROKERS=$("$top/test/harness/kafka.sh" address "$WORK/broker")
	BROKER_PID=$(cat "$WORK/broker/broker.pid")
	measure kafka_bench.py "$kafka_only"
fi
keep
exit $status
