"""
The same work by streamx and by Spark, taking turns.

Both read the topic from its beginning to its end (available_now) and both are
timed from the start of the query to its end. Spark's first run in a process is
cold, when its code is not yet compiled; the figures to compare are of warm runs.
CPU is that of the server and of Spark: of a result that goes into a table the
server does its part for both. The broker's is told apart.
"""
import time

import kafka
from kafka import QUERY, WORKLOADS
from server import Meter, cpu_below, cpu_of, gone, memory_of, one, query_workers, sql
from spark import Spark

# (workload, sink, streamx's state_memory, wanted ratio)
CASES = (("W1", "table", None, 3), ("W2", "noop", None, 4), ("W2", "table", None, 4),
         ("W3", "noop", None, 6), ("W4", "noop", None, 4), ("W5i", "noop", None, 6), ("W5l", "noop", None, 6),
         ("W6w", "noop", None, 5), ("W6d", "noop", None, 5), ("W7", "noop", None, 4), ("W7", "noop", "32MB", 1.5),
         ("W8", "noop", None, 3))


class Side:
    """What one run takes, of server, Spark and broker."""

    def __init__(self, connection, broker, rows, spark=None):
        self.rows = rows
        self.spark = spark
        self.broker = broker
        self.meter = Meter(connection)
        self.spark_cpu = cpu_below(spark.process.pid) if spark else 0
        self.broker_cpu = cpu_of(broker)
        self.meter.start = time.time()

    def stop(self, wall):
        spark_cpu = cpu_below(self.spark.process.pid) - self.spark_cpu if self.spark else 0
        broker_cpu = cpu_of(self.broker) - self.broker_cpu
        record = self.meter.stop(self.rows)
        server_cpu = record["cpu_s"]
        used = server_cpu + spark_cpu
        found = {"wall_s": round(wall, 3), "rows_per_s": round(self.rows / wall), "rows_per_cpu_s": round(self.rows / used),
                 "cpu_s": round(used, 2), "broker_cpu_s": round(broker_cpu, 2), "wal_mb": record["wal_mb"], "load": record["load"],
                 "foreign_cores": round(max(0, record["foreign_cores"] - (spark_cpu + broker_cpu) / record["wall_s"]), 2)}
        if self.spark:
            found["rows_per_spark_cpu_s"] = round(self.rows / spark_cpu)
            found["rss_mb"] = memory_of(self.spark.jvm)[1]
        else:
            found["rss_mb"] = self.meter.memory.resident
            found["rss_private_mb"], found["rss_highest_mb"] = record["rss_private_mb"], record["rss_highest_mb"]
        return found


# ---------------------------------------------------------------- streamx

def streamx(connection, w, sink, memory, broker):
    kafka.clean(connection)
    kafka.make_server(connection)
    for topic in w.topics:
        kafka.make_stream(connection, topic, kafka.OTHER_COLUMNS.get(topic, kafka.COLUMNS), starting_offsets="earliest")
    if sink == "table":
        sql(connection, f"CREATE TABLE result ({w.columns})")
    options = {"batches_to_retain": 1000, **({"state_memory": memory} if memory else {})}
    kafka.make_query(connection, w.query.format(s="bids"), "result" if sink == "table" else sink, w.mode, "available_now", **options)
    side = Side(connection, broker, w.rows)
    start = time.time()
    sql(connection, "SELECT start_query(%s)", QUERY)
    if not one(connection, "SELECT await_termination(%s, '10 minutes')", QUERY):
        raise TimeoutError("the query has not ended")
    wall = time.time() - start
    # its CPU is counted when the server has seen it end
    kafka.wait_for("the worker's end", lambda: not query_workers(connection, QUERY))
    kafka.wait_for("the worker's reaping", lambda: all(gone(p) for p in side.meter.memory.workers - set(query_workers(connection))))
    record = side.stop(wall)
    record.update(outcome(connection))
    if sink == "table":
        record["found"] = w.fingerprint(connection, "result")
    kafka.clean(connection)
    return record


def outcome(connection):
    """What the batches say of themselves."""
    rows, out, late, batches = (int(x) for x in sql(
        connection, "SELECT sum(input_rows), sum(output_rows), (SELECT coalesce(sum(rows), 0) FROM streamx.late_rows WHERE query = %s),"
        " count(*) FILTER (WHERE input_rows > 0) FROM streamx.progress WHERE query = %s", QUERY, QUERY)[0])
    state = one(connection, "SELECT coalesce(sum(rows_total), 0)::bigint FROM streamx.state_operators WHERE query = %s", QUERY)
    return {"rows": rows, "out_rows": out, "state_rows": state, "late_rows": late, "batches": batches}


# ---------------------------------------------------------------- Spark

def by_spark(connection, w, sink, spark, count, broker):
    table = f"spark_{w.name.lower()}"
    if sink == "table":
        sql(connection, f"DROP TABLE IF EXISTS {table}")
        sql(connection, f"CREATE TABLE {table} ({w.columns})")
    spark.prepare(count and sink != "table")
    side = Side(connection, broker, w.rows, spark)
    start = time.time()
    spark.run()
    record = side.stop(time.time() - start)
    record.update(spark.facts())
    if sink == "table":
        record["found"] = w.fingerprint(connection, table)
        record["out_rows"] = record["found"][0]
        sql(connection, f"DROP TABLE {table}")
    return record


# ---------------------------------------------------------------- both

def is_right(connection, w, sink, record):
    """All rows of a table are compared, of noop their number; in update mode groups come several times."""
    wanted = w.expected(connection)
    if record["rows"] != w.rows or record["late_rows"] != 0:
        return False
    if sink == "table":
        return record["found"] == wanted
    if w.mode == "update":
        return record["state_rows"] == wanted[0]
    return record.get("out_rows", wanted[0]) == wanted[0]


def case(connection, name, sink, memories, runs, broker, systems, note):
    """
    Runs one workload with one sink: Spark cold, then in turn streamx with each
    of the memories, and Spark. Calls note(system, state_memory, cold, record).
    """
    w = WORKLOADS[name]
    w.expected(connection)
    spark = Spark(kafka.BROKERS, name, sink, kafka.DELAY) if "spark" in systems else None

    def one_run(system, memory=None, cold=False):
        if system == "spark":
            record = by_spark(connection, w, sink, spark, cold, broker)
        else:
            record = streamx(connection, w, sink, memory, broker)
        record["equal"] = is_right(connection, w, sink, record)
        note(system, memory, cold, record)

    try:
        if spark:
            one_run("spark", cold=True)
        for _ in range(runs):
            if "streamx" in systems:
                for memory in memories:
                    one_run("streamx", memory)
            if spark:
                one_run("spark")
    except BaseException:
        if spark:
            spark.close(0)
        raise
    if spark:
        spark.close()
