"""
From the time a record is produced (20,000 per second, open loop) to the time its
result is committed, seen from outside.

Rows, offsets and state of a batch are one commit, so a row is in the result when
the batch that covers its offset can be seen: a process looks for new batches again
after a millisecond, and the topic is read back afterwards to learn which record was
produced when. For Kafka to Kafka a consumer that reads committed records only
notes when each came. Times of records are whole milliseconds, rounded down.
"""
import json
import multiprocessing
import multiprocessing.pool
import os
import subprocess
import time

import psycopg2

import kafka
from kafka import BROKERS, QUERY, TOPIC, windows
from server import Meter, connect, one, sql
from workload import milliseconds, percentile

RATE = 20000
SECONDS = int(os.environ.get("SECONDS_OF_LATENCY") or 60)
WARM = SECONDS / 3              # of them don't count
KEYS = max(1000, kafka.ROWS // 2)
TRIGGER = os.environ.get("TRIGGER") or "realtime"

# p50 and p99 in ms of Spark 4.2.0 on the development machine, quiet or nearly so: 20,000 rows/s, 60 s, of which the last 40 count
RECORDED = {"W1": (548, 1043), "W2": (969, 1701), "W2, 1 M keys": (969, 1701),
            "Kafka to Kafka": (2, 172)}


# ---------------------------------------------------------------- when a batch can be seen

def ends(text, name):
    """{partition: end} of a topic, wherever it stands in the offsets of a batch."""
    found = {}

    def look(value):
        if isinstance(value, dict):
            if isinstance(value.get(name), dict):
                found.update({int(p): int(o) for p, o in value[name].items()})
            for v in value.values():
                look(v)
        elif isinstance(value, list):
            for v in value:
                look(v)
        elif isinstance(value, str) and value.startswith(("{", "[")):
            look(json.loads(value))

    look(json.loads(text))
    return found


def watch_batches(pipe, query, name):
    """In a process of its own: [(seen at, {partition: end})] until told to end."""
    connection = connect()
    cursor = connection.cursor()
    cursor.execute("PREPARE news (bigint, bigint) AS SELECT batch, offsets FROM streamx.batch"
                   " WHERE query = $1 AND batch > $2 ORDER BY batch")
    last = kafka.last_batch(connection, query)
    seen = []
    pipe.send("ready")
    while not pipe.poll():
        cursor.execute(f"EXECUTE news ({query}, {last})")
        now = time.time()
        for batch, offsets in cursor.fetchall():
            seen.append((now, offsets))
            last = batch
        time.sleep(0.001)
    pipe.recv()
    pipe.send([(at, ends(offsets, name)) for at, offsets in seen])


def records_of(name):
    """[(partition, offset, date_time in ms, price)] of a topic, by partition and offset."""
    done = subprocess.run([TOPIC, "dump", BROKERS, name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=True)
    return sorted(tuple(map(int, line.split())) for line in done.stdout.splitlines())


def lags(records, seen, begin):
    """Seconds from a record's time to when its batch was seen, of those that count."""
    result = []
    at, partition = 0, None
    for p, offset, ms, _ in records:
        if p != partition:
            at, partition = 0, p
        while at < len(seen) and seen[at][1].get(p, 0) <= offset:
            at += 1
        if at == len(seen):
            break               # nobody saw the rest
        if counts(ms, begin):
            result.append(seen[at][0] - ms / 1000)
    return sorted(result)


def counts(ms, begin):
    return begin + WARM <= ms / 1000 < begin + SECONDS - 1


def summary(lag):
    return {f"p{name}_ms": milliseconds(percentile(lag, q)) for name, q in ((50, .5), (90, .9), (99, .99))} | {
        "max_ms": milliseconds(lag[-1] if lag else None), "of": len(lag)}


def produce(name, auctions):
    begin = time.time()
    kafka.topic("live", name, RATE, SECONDS, auctions)
    return begin


def run(connection, query, sink, mode):
    """Starts the query; returns its trigger when it has done what was there before."""
    for trigger in (TRIGGER, "default"):
        try:
            kafka.make_query(connection, query, sink, mode, trigger)
            sql(connection, "SELECT start_query(%s)", QUERY)
            sql(connection, "SELECT process_all_available(%s, '2 minutes')", QUERY)
            return trigger
        except psycopg2.Error as e:         # a version without this trigger
            if e.pgcode != "0A000" or trigger == "default":
                raise
            sql(connection, "SELECT drop_query(%s, true)", QUERY)


def describe(name, trigger, meter, connection, lag):
    record = meter.stop(RATE * SECONDS)
    spark = RECORDED[name]
    kept = {k: record[k] for k in ("cpu_s", "client_cpu_s", "foreign_cores", "load", "rss_private_mb", "rss_highest_mb", "wal_mb")}
    batches = one(connection, "SELECT batch_id + 1 FROM streamx.queries WHERE name = %s", QUERY)
    return {"workload": "latency", "case": name, "rate": RATE, "trigger": trigger, **summary(lag),
            "spark_recorded_p50_ms": spark[0], "spark_recorded_p99_ms": spark[1], "batches": batches,
            "rss_mb": meter.memory.resident, **kept}


# ---------------------------------------------------------------- the cases

def into_table(connection, name, query, mode, auctions, check, before=lambda: None):
    """check: SQL over result that gives [how many rows of the topic, with what price at least] it stands for"""
    kafka.clean(connection)
    kafka.make_server(connection)
    kafka.make_topic("live_in")
    kafka.make_stream(connection, "live_in", starting_offsets="earliest")
    before()
    trigger = run(connection, query.format(s="live_in"), "result", mode)
    here, there = multiprocessing.Pipe()
    watcher = multiprocessing.get_context("fork").Process(target=watch_batches, args=(there, kafka.query_id(connection), "live_in"))
    watcher.start()
    here.recv()
    meter = Meter(connection)
    begin = produce("live_in", auctions)
    sql(connection, "SELECT process_all_available(%s, '2 minutes')", QUERY)
    time.sleep(0.1)
    here.send("done")
    seen = here.recv()
    watcher.join()
    records = records_of("live_in")
    result = describe(name, trigger, meter, connection, lags(records, seen, begin))
    counted, least = sql(connection, check)[0]
    result["equal"] = counted == sum(1 for r in records if r[3] >= least)
    kafka.clean(connection)
    return result


def stateless(connection):
    return into_table(connection, "W1", kafka.WORKLOADS["W1"].query, "append", 20000, "SELECT count(*), 10000 FROM result")


def windowed(connection):
    return into_table(connection, "W2", windows("tumble(ts, '10 seconds')", "5 seconds"), "update", 20000,
                      "SELECT sum(n), 0 FROM result")


def many_keys(connection):
    """Every row changes one of a million live groups; all of them are there before."""
    return into_table(connection, "W2, 1 M keys", windows("tumble(ts, '1 day')", "5 seconds"), "update", KEYS,
                      "SELECT sum(n), 0 FROM result", lambda: kafka.topic("load", "live_in", KEYS))


def kafka_to_kafka(connection):
    name = "Kafka to Kafka"
    kafka.clean(connection)
    kafka.make_server(connection)
    kafka.make_topic("live_in")
    kafka.make_topic("live_out")
    kafka.make_stream(connection, "live_in", starting_offsets="earliest")
    kafka.make_stream(connection, "live_out", "auction bigint, bidder bigint, price bigint, channel text, date_time bigint",
                      key_columns="auction")
    trigger = run(connection, "SELECT auction, bidder, price, channel, date_time FROM live_in WHERE price >= 10000", "live_out", "append")
    watcher = subprocess.Popen([TOPIC, "watch", BROKERS, "live_out"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if watcher.stderr.readline() != "ready\n":
        raise RuntimeError("the consumer did not start")
    meter = Meter(connection)
    reader = multiprocessing.pool.ThreadPool(1).apply_async(watcher.communicate)
    begin = produce("live_in", 20000)
    came = [tuple(map(float, line.split())) for line in reader.get(120)[0].splitlines()]
    lag = sorted((at - ms) / 1000 for ms, at in came if counts(ms, begin))
    result = describe(name, trigger, meter, connection, lag)
    result["equal"] = len(came) == sum(1 for r in records_of("live_in") if r[3] >= 10000)
    kafka.clean(connection)
    return result


CASES = (stateless, windowed, many_keys, kafka_to_kafka)
