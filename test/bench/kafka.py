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
# Beside the bids; auctions are always as many as there are in bids.h.
AUCTIONS = 200000
OTHER_COLUMNS = {
    "auctions": "id bigint, item_name text, description text, initial_bid bigint, reserve bigint, date_time bigint,"
                " expires bigint, seller bigint, category int, extra text",
    "ads": "user_id text, page_id text, ad_id text, ad_type text, event_type text, event_time bigint, ip_address text"}


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
    def __init__(self, name, query, mode, columns, wanted, topics=("bids",), rows=ROWS):
        self.name = name
        self.topics = topics
        self.rows = rows                # of all topics
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


# Rows of a bidder that are no farther apart than 10 s; touching ones are one session.
SESSIONS = (
    "SELECT min(t) AS wstart, max(t) + interval '10 s' AS wend, bidder::bigint, count(*) AS n"
    " FROM (SELECT bidder, t, count(*) FILTER (WHERE first) OVER (PARTITION BY bidder ORDER BY t, i) AS session"
    " FROM (SELECT bidder, date_time AS t, i, coalesce(date_time - lag(date_time) OVER (PARTITION BY bidder ORDER BY date_time, i)"
    " > interval '10 s', true) AS first FROM (SELECT *, row_number() OVER () AS i FROM bids_all) b) a) s GROUP BY bidder, session"
    f" HAVING max(t) + interval '10 s' <= (SELECT max(date_time) - interval '{DELAY}' FROM bids_all)")


def _join(name, join):
    on = "auction = id AND {ts} BETWEEN {ats} AND {ats} + interval '20 seconds'"
    # an unmatched bid comes out when the watermark, that of the slower topic, has passed it
    passed = (f"(SELECT least((SELECT max(date_time) FROM bids_all), (SELECT max(date_time) FROM auctions_all)) - interval '{DELAY}'"
              " - interval '1 ms')")
    return Workload(
        name, "SELECT auction, bidder, price, ts, seller, category"
        f" FROM (SELECT watermark({EVENT_TIME}, '{DELAY}') AS ts, auction, bidder, price FROM {{s}}) b"
        f" {join} (SELECT watermark({EVENT_TIME}, '{DELAY}') AS ats, id, seller, category FROM auctions) u"
        f" ON {on.format(ts='ts', ats='ats')}", "append",
        "auction bigint, bidder bigint, price bigint, ts timestamptz, seller bigint, category int",
        "SELECT auction::bigint, bidder::bigint, price, b.date_time AS ts, seller::bigint, category"
        f" FROM bids_all b {join} auctions_all u ON {on.format(ts='b.date_time', ats='u.date_time')}"
        f" WHERE id IS NOT NULL OR b.date_time <= {passed}", topics=("bids", "auctions"), rows=ROWS + AUCTIONS)


def _distinct(name, keys):
    return Workload(
        name, f"SELECT DISTINCT ON ({keys}) auction, bidder, price, ts, channel"
        f" FROM (SELECT watermark({EVENT_TIME}, '{DELAY}') AS ts, auction, bidder, price, channel FROM {{s}}) b", "append",
        "auction bigint, bidder bigint, price bigint, ts timestamptz, channel text",
        "SELECT DISTINCT ON (auction, bidder, price, date_time) auction::bigint, bidder::bigint, price, date_time AS ts, channel FROM bids_all")


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
    "W4": Workload("W4", "SELECT lower(w) AS wstart, upper(w) AS wend, bidder, count(*) AS n"
                   f" FROM (SELECT session(ts, '10 seconds') AS w, bidder"
                   f" FROM (SELECT watermark({EVENT_TIME}, '{DELAY}') AS ts, bidder FROM {{s}}) b) c GROUP BY w, bidder", "append",
                   "wstart timestamptz, wend timestamptz, bidder bigint, n bigint", SESSIONS),
    "W5i": _join("W5i", "JOIN"),
    "W5l": _join("W5l", "LEFT JOIN"),
    "W6w": _distinct("W6w", "within_watermark(auction, bidder, price, ts)"),
    "W6d": _distinct("W6d", "auction, bidder, price, ts"),
    "W8": Workload("W8", "SELECT lower(w) AS wstart, campaign_id, count(*) AS n"
                   " FROM (SELECT tumble(ts, '10 seconds') AS w, campaign_id"
                   f" FROM (SELECT watermark(to_timestamp(event_time::float8 / 1000), '{DELAY}') AS ts, ad_id FROM ads"
                   " WHERE event_type = 'view') a JOIN campaigns USING (ad_id)) c GROUP BY w, campaign_id", "append",
                   "wstart timestamptz, campaign_id int, n bigint",
                   "SELECT wstart, campaign_id, count(*) AS n FROM (SELECT date_bin('10 s', event_time, '2000-01-01 00:00:00+00') AS wstart, ad_id"
                   " FROM ads_all WHERE event_type = 'view') a JOIN campaigns USING (ad_id)"
                   f" WHERE wstart + interval '10 s' <= (SELECT max(event_time) - interval '{DELAY}' FROM ads_all WHERE event_type = 'view')"
                   " GROUP BY wstart, campaign_id", topics=("ads",)),
}


def make_reference(connection):
    """bids_all: the rows of the topic in a plain table."""
    sql(connection, "DROP TABLE IF EXISTS bids_all")
    sql(connection, "CREATE UNLOGGED TABLE bids_all (auction int, bidder int, price bigint, channel text, url text,"
        " date_time timestamptz, extra text)")
    sql(connection, f"COPY bids_all FROM PROGRAM '{WORK}/gen_bids {ROWS}' (FORMAT csv)")
    sql(connection, "VACUUM (FREEZE, ANALYZE) bids_all")


def make_other_reference(connection, kind):
    """The same of the other topics; the campaigns are a table of the query, too."""
    tables = {"auctions": {"auctions": ("auctions_all", "id bigint, date_time timestamptz, seller bigint, category int")},
              "ads": {"ads": ("ads_all", "ad_id text, event_type text, event_time timestamptz"),
                      "campaigns": ("campaigns", "ad_id text, campaign_id int")}}
    for rows, (table, columns) in tables[kind].items():
        sql(connection, f"DROP TABLE IF EXISTS {table}")
        sql(connection, f"CREATE TABLE {table} ({columns})")
        sql(connection, f"COPY {table} FROM PROGRAM '{WORK}/gen_bids {ROWS} 42 {rows}' (FORMAT csv)")
        sql(connection, f"VACUUM (FREEZE, ANALYZE) {table}")


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
