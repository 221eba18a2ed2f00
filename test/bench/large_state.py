"""
State far larger than state_memory: what a batch costs with more and more keys, how long
it takes to make a lost store again, and millions of keys that are due at once.

KEYS is 20 million; ROWS makes it smaller.
"""
import json
import os
import random
import time

from cost import log_bytes
from recovery import last_batch, lose_store
from server import Meter, connect_when_up, cpu_of, memory_of, one, query_workers, settle, sql

KEYS = int(os.environ.get("ROWS") or 20000000)
DUE = KEYS // 4
TEXTS = KEYS // 4               # keys of 200 bytes each: 1 GB
LOAD = 500000                   # rows of an INSERT
CHANGED = 20000                 # rows of a batch whose cost is measured
BATCHES = 40
NAME = "large"
MEMORY = "256MB"


def clean(connection):
    if one(connection, "SELECT count(*) FROM streamx.query WHERE name = %s", NAME):
        sql(connection, "SELECT stop_query(%s, '5 minutes')", NAME)
        sql(connection, "SELECT drop_query(%s)", NAME)
    for stream in ("events", "others"):
        sql(connection, f"DROP FOREIGN TABLE IF EXISTS {stream} CASCADE")
    sql(connection, "DROP TABLE IF EXISTS large_result")


def create(connection, query, sink="noop", mode="update", columns="k bigint, v bigint", streams=("events",), **options):
    clean(connection)
    for stream in streams:
        sql(connection, "SELECT create_stream(%s, %s)", stream, columns)
    sql(connection, "SELECT create_query(%s, %s, sink => %s, output_mode => %s, options => %s)", NAME, query, sink, mode,
        json.dumps({"state_memory": MEMORY, "max_future_skew": "off", **options}))
    sql(connection, "SELECT start_query(%s)", NAME)
    sql(connection, "SELECT process_all_available(%s)", NAME)


def load(connection, keys, select):
    """The rows select gives for g from 0 to keys - 1."""
    for first in range(0, keys, LOAD):
        sql(connection, f"INSERT INTO events SELECT {select} FROM generate_series({first}::bigint, {min(first + LOAD, keys) - 1}::bigint) g")
        drain(connection)


def drain(connection):
    sql(connection, "SELECT process_all_available(%s, '10 minutes')", NAME)


def query_id(connection):
    return one(connection, "SELECT id FROM streamx.query WHERE name = %s", NAME)


def state_rows(connection):
    return int(one(connection, "SELECT coalesce(sum(rows_total), 0) FROM streamx.state_operators WHERE query = %s", NAME))


def worker_of(connection):
    return query_workers(connection, NAME)[0]


# ---------------------------------------------------------------- cost per batch

def batch_cost(connection, keys):
    """Batches of CHANGED rows of keys drawn at random, once the state has them all."""
    create(connection, "SELECT k, count(*) AS n, max(v) AS newest FROM events GROUP BY k", batches_to_retain=1000)
    meter = Meter(connection)
    load(connection, keys, "g, g")
    loaded = meter.stop(keys)
    drawn = random.Random(42)
    worker = worker_of(connection)
    settle()
    first = last_batch(connection, query_id(connection))
    cpu = cpu_of(worker)
    for b in range(BATCHES):
        offset, step = drawn.randrange(keys), drawn.randrange(keys) | 1
        sql(connection, f"INSERT INTO events SELECT ({offset} + g * {step}) % {keys}, g FROM generate_series(1::bigint, {CHANGED}) g")
        drain(connection)
    cpu = cpu_of(worker) - cpu
    took = [float(r[0]) for r in sql(connection, "SELECT extract(epoch FROM duration) * 1000 FROM streamx.progress"
                                     " WHERE query = %s AND batch_id > %s AND input_rows > 0 ORDER BY 1", NAME, first)]
    record = {"workload": "keycost", "system": "streamx", "measure": f"{keys} keys", "keys": keys, "state_memory": MEMORY,
              "load_rows_per_cpu_s": loaded["rows_per_cpu_s"], "load_wall_s": loaded["wall_s"],
              "batch_cpu_ms": round(cpu * 1e3 / BATCHES, 1), "batch_p50_ms": round(took[len(took) // 2], 1),
              "batch_max_ms": round(took[-1], 1), "cpu_us_per_row": round(cpu * 1e6 / BATCHES / CHANGED, 2),
              "rss_private_mb": max(loaded["rss_private_mb"], memory_of(worker)[0]), "log_mb": round(log_bytes(connection, NAME) / 1e6),
              "foreign_cores": loaded["foreign_cores"], "equal": state_rows(connection) == keys}
    return record


# ---------------------------------------------------------------- recovery

def recover(connection, what, equal):
    """From the server's start, its store deleted, to the next commit; returns (record, connection)."""
    query = query_id(connection)
    sql(connection, "CHECKPOINT")
    before = last_batch(connection, query)
    lose_store(connection)
    connection, accepted = connect_when_up()
    sql(connection, "INSERT INTO events (k) VALUES (-1)")
    while last_batch(connection, query) <= before and time.time() < accepted + 300:
        time.sleep(0.01)
    seconds = time.time() - accepted
    drain(connection)
    worker = worker_of(connection)
    record = {"workload": "recover1g", "system": "streamx", "measure": what, "killed": "postmaster, store deleted", "state_memory": MEMORY,
              "to_next_commit_s": round(seconds, 2), "worker_cpu_s": round(cpu_of(worker), 2),
              "rss_private_mb": memory_of(worker)[0], "equal": equal(connection)}
    return record, connection


def recovery(connection):
    """1 GB: keys with 200 bytes each."""
    create(connection, "SELECT k, max(t) AS newest FROM events GROUP BY k", columns="k bigint, t text")
    load(connection, TEXTS, "g, md5(g::text) || md5((g + 1)::text) || md5((g + 2)::text) || md5((g + 3)::text) || md5((g + 4)::text) || md5((g + 5)::text)")
    log = log_bytes(connection, NAME)
    record, connection = recover(connection, f"{TEXTS} keys of 200 bytes", lambda c: state_rows(c) == TEXTS + 1)
    record["log_mb"] = round(log / 1e6)
    clean(connection)
    return record, connection


# ---------------------------------------------------------------- keys due at once

JUMP = "'2026-01-02 12:00:00+00'"
LAST = "'2026-01-05 12:00:00+00'"
TIMES = "k bigint, v bigint, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '10 minutes'"
WINDOWS = "SELECT w, k, count(*) AS n, sum(v)::bigint AS total FROM (SELECT tumble(ts, '1 hour') AS w, k, v FROM events) e GROUP BY w, k"
# what is due, how many, the query, and what the sink must hold of (rows, sum) afterwards
CASES = {
    "windows": (1, f"SELECT k, n, total FROM ({WINDOWS}) x", "count(*), sum(total)", lambda n: (n, n * (n - 1) // 2)),
    "chain": (1, f"SELECT count(*) AS k, sum(n)::bigint AS n, sum(total)::bigint AS total FROM (SELECT tumble(window_time(w), '1 day') AS d, n, total"
              f" FROM ({WINDOWS}) x) y GROUP BY d", "sum(k)::bigint, sum(total)::bigint", lambda n: (n, n * (n - 1) // 2)),
    "sessions": (5, "SELECT k, count(*) AS n, sum(v)::bigint AS total FROM (SELECT session(ts, '1 hour') AS w, k, v FROM events) e GROUP BY w, k",
                 "count(*), sum(total)", lambda n: (n, n * (n - 1) // 2)),
    "unmatched rows of a left join": (5, "SELECT a.k, b.k AS n, a.v AS total FROM events a LEFT JOIN others b ON a.k = b.k"
                                      " AND b.ts BETWEEN a.ts AND a.ts + interval '1 hour'", "count(*), sum(total)", lambda n: (n, n * (n - 1) // 2)),
    "deduplication": (5, "SELECT DISTINCT ON (within_watermark(k)) k, 1 AS n, v AS total FROM events", "count(*), sum(total)",
                      lambda n: (n, n * (n - 1) // 2))}


def due(connection, what):
    """All keys in one hour; then a row of the next day makes them due."""
    part, query, answer, wanted = CASES[what]
    keys = DUE // part
    create(connection, query, "large_result", "append", TIMES, ("events", "others"), batches_to_retain=1000)
    sql(connection, "INSERT INTO others VALUES (-9, 0, '2026-01-01 00:00:00+00')")
    load(connection, keys, "g, g, '2026-01-01 00:10:00+00'::timestamptz + g % 1000 * interval '1 ms'")
    first = last_batch(connection, query_id(connection))
    rows = state_rows(connection)
    meter = Meter(connection)
    for time_of in (JUMP, LAST):
        sql(connection, f"INSERT INTO others VALUES (-2, 0, {time_of})")
        sql(connection, f"INSERT INTO events VALUES (-1, 0, {time_of})")
        drain(connection)
    measured = meter.stop(keys)
    slowest, batches = sql(connection, "SELECT max(extract(epoch FROM duration)) , count(*) FROM streamx.progress"
                           " WHERE query = %s AND batch_id > %s", NAME, first)[0]
    found = tuple(int(x) for x in sql(connection, f"SELECT {answer} FROM large_result WHERE total > 0 OR k >= 0")[0])
    late = int(one(connection, "SELECT coalesce(sum(rows), 0) FROM streamx.late_rows WHERE query = %s", NAME))
    # the row that came first of those far ahead has closed, too
    extra = 1 if what == "chain" else 0
    record = {"workload": "due5m", "system": "streamx", "measure": f"{keys} {what}", "keys": keys, "state_memory": MEMORY,
              "slowest_batch_s": round(float(slowest), 2), "batches": batches, "state_rows_before": rows,
              **{k: measured[k] for k in ("wall_s", "cpu_s", "wal_mb", "rss_private_mb", "foreign_cores", "load")},
              "late_rows": late, "equal": (found[0] - extra, found[1]) == wanted(keys) and late == 0}
    if not record["equal"]:
        record.update(found=found, wanted=wanted(keys))
    clean(connection)
    return record
