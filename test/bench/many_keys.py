"""
20 million keys: a count per key over Kafka, far more state than state_memory holds.

Topic "keys" has KEYS records, each of another key, scattered, and then a fifth as
many of keys drawn at random. Both read it from its first record to its last, once:
Spark's only run is its cold one (its code is compiled within the first seconds of many minutes).
The two can be measured in runs of their own (SYSTEMS): what the other had is taken from
the results that are there.
"""
import json
import os
import time

import kafka
from cost import log_tables
from kafka import QUERY
from server import one, sql
from side_by_side import Side, by_spark, outcome
from spark import Spark

KEYS = int(os.environ.get("ROWS") or 20000000)
ROWS = KEYS + KEYS // 5
MEMORY = "256MB"
WANTED_RATIO = 2
COLUMNS = "k bigint, v bigint"


class Keys:
    """As kafka.Workload, for Side."""
    name = "KEYS"
    rows = ROWS
    mode = "update"


def fill():
    kafka.make_topic("keys")
    return kafka.topic("fill", "keys", KEYS, "keys")


def is_right(record):
    return record["rows"] == ROWS and record["late_rows"] == 0 and record["state_rows"] == KEYS


def changelog_mb(connection):
    """Bytes of the batches' changes; as many batches are kept as there are."""
    return sum(one(connection, f"SELECT coalesce(sum(length(data)), 0)::bigint FROM {t} WHERE place >> 56 = 0")
               for t in log_tables(connection, QUERY)) / 1e6


def sums_are_right(connection):
    """What is in the state, key by key; minutes with 20 million."""
    return list(sql(connection, "SELECT count(*), sum((value->>'count')::bigint)::bigint, min((key->>'k')::bigint),"
                    " max((key->>'k')::bigint) FROM streamx.state(%s)", QUERY)[0]) == [KEYS, ROWS, 0, KEYS - 1]


def by_streamx(connection, broker):
    kafka.clean(connection)
    kafka.make_server(connection)
    kafka.make_stream(connection, "keys", COLUMNS, starting_offsets="earliest")
    kafka.make_query(connection, "SELECT k, count(*) AS n, max(v) AS newest FROM keys GROUP BY k", "noop", "update", "available_now",
                     state_memory=MEMORY, batches_to_retain=100000)
    side = Side(connection, broker, ROWS)
    start = time.time()
    sql(connection, "SELECT start_query(%s)", QUERY)
    if not one(connection, "SELECT await_termination(%s, '20 minutes')", QUERY):
        raise TimeoutError("the query has not ended")
    wall = time.time() - start
    record = side.stop(wall)
    record.update(outcome(connection))
    record["changelog_mb"] = round(changelog_mb(connection))
    record["wal_per_changelog"] = round(record["wal_mb"] / record["changelog_mb"], 2)
    record["equal"] = is_right(record) and (KEYS > 3000000 or sums_are_right(connection))
    kafka.clean(connection)
    return record


def spark_once(connection, broker):
    spark = Spark(kafka.BROKERS, Keys.name, "noop", kafka.DELAY)
    try:
        record = by_spark(connection, Keys, "noop", spark, False, broker)
    except BaseException:
        spark.close(0)
        raise
    spark.close()
    record["equal"] = is_right(record)
    return record


def remembered(workload):
    """What an earlier run with as many keys had, or None."""
    path = os.environ.get("RESULTS", "")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        found = [r for r in json.load(f) if r.get("workload") == workload and r.get("keys") == KEYS]
    return found[0] if found else None


def run(connection, broker, systems):
    """Yields a record for each system that is measured now."""
    spark = remembered("keys20m spark")
    filled = fill()
    print(f"topic keys: {filled['rows']} rows of {filled['mb'] * 1e6 / filled['rows']:.0f} bytes, {filled['wall_s']:.0f} s", flush=True)
    if "spark" in systems:
        spark = {"workload": "keys20m spark", "keys": KEYS, **spark_once(connection, broker)}
        yield spark
    if "streamx" in systems:
        ours = {"workload": "keys20m", "keys": KEYS, "state_memory": MEMORY, **by_streamx(connection, broker)}
        if spark:
            ours.update(spark_rows_per_s=spark["rows_per_s"], spark_rows_per_cpu_s=spark["rows_per_cpu_s"],
                        key_ratio=round(ours["rows_per_s"] / spark["rows_per_s"], 2),
                        key_cpu_ratio=round(ours["rows_per_cpu_s"] / spark["rows_per_cpu_s"], 2))
        yield ours
