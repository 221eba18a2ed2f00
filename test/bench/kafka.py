"""The broker, the topics, and streamx's queries over them."""
import json
import os
import subprocess
import time

from server import WORK, one, sql

ROWS = int(os.environ.get("ROWS") or 2000000)
BROKERS = os.environ.get("BROKERS", "")
TOPIC = os.path.join(WORK, "topic")
PARTITIONS = 4
QUERY = "bench_query"
# Event time has a jitter of 3 s, and copies come up to 1,000 rows later.
DELAY = f"{4 + 2000000 // ROWS} seconds"
COLUMNS = ("auction bigint, bidder bigint, price bigint, channel text, url text,"
           " date_time bigint, extra text")
EVENT_TIME = "to_timestamp(date_time::float8 / 1000)"


# ---------------------------------------------------------------- topics

def topic(command, name, *args, **options):
    """Runs test/bench/topic.c; returns the JSON of its last line."""
    done = subprocess.run([TOPIC, command, BROKERS, name, *map(str, args)], stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"topic {command} {name}: {done.stderr.strip()}")
    return json.loads(done.stderr.splitlines()[-1]) if done.stderr else {}


def make_topic(name, *settings):
    topic("create", name, PARTITIONS, *settings)


# ---------------------------------------------------------------- queries

def windows(window, delay=DELAY):
    return (f"SELECT lower(w) AS wstart, auction, count(*) AS n, sum(price)::bigint AS total"
            f" FROM (SELECT {window} AS w, auction, price"
            f" FROM (SELECT watermark({EVENT_TIME}, '{delay}') AS ts, auction, price FROM {{s}}) b) c"
            " GROUP BY w, auction")


WINDOW_COLUMNS = "wstart timestamptz, auction bigint, n bigint, total bigint"


class Workload:
    def __init__(self, name, query, mode, columns, wanted):
        self.name = name
        self.query = query              # over a stream {s}
        self.mode = mode
        self.columns = columns          # of the result
        self.wanted = wanted            # the same rows by plain SQL over bids_all

    def fingerprint(self, connection, relation):
        """Number of rows, and a hash that does not depend on their order."""
        return [int(x) for x in sql(connection, "SELECT count(*), coalesce(sum(hashtextextended(r::text, 0)::numeric), 0)"
                                    f" FROM {relation} r")[0]]

    def expected(self, connection):
        if not hasattr(self, "_expected"):
            self._expected = self.fingerprint(connection, f"({self.wanted})")
        return self._expected


def _closed(size, slide):
    """The windows that the watermark has passed at the end."""
    n = size // slide
    return (f"SELECT wstart, auction, count(*) AS n, sum(price)::bigint AS total FROM"
            f" (SELECT date_bin('{slide} s', date_time, '2000-01-01 00:00:00+00') - k * interval '{slide} s' AS wstart,"
            f" auction::bigint, price FROM bids_all, generate_series(0, {n - 1}) k) w"
            f" WHERE wstart + interval '{size} s' <= (SELECT max(date_time) - interval '{DELAY}' FROM bids_all)"
            " GROUP BY wstart, auction")


WORKLOADS = {
    "W1": Workload("W1", "SELECT auction, bidder, price * 0.908::float8 AS price_eur, channel, url,"
                   f" {EVENT_TIME} AS ts FROM {{s}} WHERE price >= 10000", "append",
                   "auction bigint, bidder bigint, price_eur double precision, channel text, url text, ts timestamptz",
                   "SELECT auction::bigint, bidder::bigint, price * 0.908::float8 AS price_eur, channel, url, date_time AS ts"
                   " FROM bids_all WHERE price >= 10000"),
    "W2": Workload("W2", windows("tumble(ts, '10 seconds')"), "append", WINDOW_COLUMNS, _closed(10, 10)),
    "W3": Workload("W3", windows("hop(ts, '10 seconds', '2 seconds')"), "append", WINDOW_COLUMNS, _closed(10, 2)),
    "W7": Workload("W7", "SELECT bidder, auction, count(*) AS n FROM {s} GROUP BY bidder, auction", "update",
                   "bidder bigint, auction bigint, n bigint",
                   "SELECT bidder::bigint, auction::bigint, count(*) AS n FROM bids_all GROUP BY bidder, auction"),
}


def make_reference(connection):
    """bids_all: the rows of the topic in a plain table."""
    sql(connection, "DROP TABLE IF EXISTS bids_all")
    sql(connection, "CREATE UNLOGGED TABLE bids_all (auction int, bidder int, price bigint, channel text, url text,"
        " date_time timestamptz, extra text)")
    sql(connection, f"COPY bids_all FROM PROGRAM '{WORK}/gen_bids {ROWS}' (FORMAT csv)")
    sql(connection, "VACUUM (FREEZE, ANALYZE) bids_all")


# ---------------------------------------------------------------- streamx

def clean(connection):
    if one(connection, "SELECT count(*) FROM streamx.query WHERE name = %s", QUERY):
        sql(connection, "SELECT stop_query(%s)", QUERY)
        sql(connection, "SELECT drop_query(%s)", QUERY)
    for (name,) in sql(connection, "SELECT ftrelid::regclass::text FROM pg_foreign_table t, pg_foreign_server s"
                       " WHERE s.oid = t.ftserver AND s.srvname = 'bench_broker'"):
        sql(connection, f"DROP FOREIGN TABLE {name} CASCADE")
    sql(connection, "DROP TABLE IF EXISTS result")


def make_server(connection):
    if not one(connection, "SELECT count(*) FROM pg_foreign_server WHERE srvname = 'bench_broker'"):
        sql(connection, "CREATE SERVER bench_broker FOREIGN DATA WRAPPER streamx_kafka"
            f" OPTIONS (bootstrap_servers '{BROKERS}')")


def make_stream(connection, name, columns=COLUMNS, **options):
    options = ", ".join(f"{k} '{v}'" for k, v in {"topic": name, "format": "json", **options}.items())
    sql(connection, f"CREATE FOREIGN TABLE {name} ({columns}) SERVER bench_broker OPTIONS ({options})")


def make_query(connection, query, sink, mode, trigger="default", **options):
    sql(connection, "SELECT create_query(%s, %s, sink => %s, output_mode => %s, trigger => %s, options => %s)", QUERY,
        query, sink, mode, trigger, json.dumps({"state_store": "rocksdb", "max_future_skew": "off", **options}))


def query_id(connection):
    return one(connection, "SELECT id FROM streamx.query WHERE name = %s", QUERY)


def last_batch(connection, query):
    return one(connection, "SELECT coalesce(max(batch), -1) FROM streamx.batch WHERE query = %s", query)


def wait_for(what, condition, limit=120.0, pause=0.005):
    """The condition's first true value."""
    end = time.time() + limit
    while True:
        value = condition()
        if value:
            return value
        if time.time() > end:
            raise TimeoutError(f"after {limit:.0f} s still waiting for {what}")
        time.sleep(pause)
