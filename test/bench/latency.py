"""
From the time an INSERT of 200 rows is due (20,000 rows/s, open loop) to the time its
rows are in the result that another session sees.

A hand-made solution shows them when its statement returns. For streamx a process
looks for a group that only this INSERT has, by the result's key, again after 0.5 ms:
the poll's own time is in the figure.
"""
import multiprocessing
import time

import peers
import streams
from server import Meter, connect, sql
from workload import NAMES, P2, lines, milliseconds, percentile

PER_INSERT = 200
WINDOW_START = "date_bin('10 s', '%s'::timestamptz, '2000-01-01 00:00:00+00'::timestamptz)"


def literal(line):
    return "(%s,%s,%s,'%s','%s','%s','%s')" % tuple(line.decode().rstrip("\n").split(","))


def statements(rate, seconds, target, sentinels):
    """One INSERT per 200 rows; with sentinels each has a row of auction -(number + 1) more."""
    rows = lines()[:rate * seconds]
    result = []
    for i in range(0, len(rows), PER_INSERT):
        values = [literal(line) for line in rows[i:i + PER_INSERT]]
        if sentinels:
            when = rows[i + PER_INSERT - 1].decode().split(",")[5]
            values.append(f"({-(i // PER_INSERT + 1)},0,0,'','','{when}','')")
        result.append(f"INSERT INTO {target} ({NAMES}) VALUES {','.join(values)}")
    return result


def sentinel_times(rate, seconds):
    rows = lines()[:rate * seconds]
    return [rows[i + PER_INSERT - 1].decode().split(",")[5] for i in range(0, len(rows), PER_INSERT)]


def watch(pipe, relation, times):
    """In a process of its own: when each sentinel's group is first seen."""
    connection = connect()
    sql(connection, f"PREPARE seen (timestamptz, int) AS SELECT 1 FROM {relation} WHERE w = $1 AND auction = $2")
    cursor = connection.cursor()
    windows = [sql(connection, f"SELECT {WINDOW_START % t}::text")[0][0] for t in times]
    seen = []
    pipe.send("ready")
    give_up = None
    for i, window in enumerate(windows):
        while True:
            cursor.execute(f"EXECUTE seen ('{window}', {-(i + 1)})")
            if cursor.rowcount:
                break
            if pipe.poll():                 # the writer is done: 20 s more
                pipe.recv()
                give_up = time.time() + 20
            if give_up and time.time() > give_up:
                pipe.send(seen)
                return
            time.sleep(0.0005)
        seen.append(time.time())
    pipe.send(seen)


def insert_on_time(connection, todo, rate):
    """Returns (due, returned) times of the statements."""
    cursor = connection.cursor()
    due, returned = [], []
    start = time.time()
    for i, statement in enumerate(todo):
        at = start + i * PER_INSERT / rate
        now = time.time()
        if now < at:
            time.sleep(at - now)
        due.append(at)
        cursor.execute(statement)
        returned.append(time.time())
    return due, returned


def summary(due, returned, visible):
    statement = sorted(r - d for d, r in zip(due, returned))
    lag = sorted(v - d for d, v in zip(due, visible))
    return {"insert_p50_ms": milliseconds(percentile(statement, .5)), "insert_p99_ms": milliseconds(percentile(statement, .99)),
            "visible_p50_ms": milliseconds(percentile(lag, .5)), "visible_p99_ms": milliseconds(percentile(lag, .99)),
            "visible_max_ms": milliseconds(lag[-1] if lag else None), "seen": len(lag), "of": len(due)}


def by_hand(connection, peer, rate=20000, seconds=10):
    load, prepare = peers.set_up(connection, peer, P2)
    if prepare:
        prepare(connection)
    todo = statements(rate, seconds, "stage" if peer == "staging" else "bids", False)
    if peer == "staging":
        todo = [f"BEGIN; {s}; {P2.upsert('stage')}; COMMIT" for s in todo]
    meter = Meter(connection)
    due, returned = insert_on_time(connection, todo, rate)
    record = {"workload": "latency", "system": peer, "rate": rate, **meter.stop(len(todo) * PER_INSERT),
              **summary(due, returned, returned)}
    record.pop("rss_private_mb"), record.pop("rss_highest_mb")
    if prepare:
        sql(connection, "DROP TABLE stage")
    peers.clean(connection)
    return record


def streamx(connection, rate=20000, seconds=20, store="rocksdb"):
    streams.create(connection, P2, "table", "update", "256MB", store)
    streams.start(connection)
    streams.drain(connection)
    todo = statements(rate, seconds, streams.STREAM, True)
    here, there = multiprocessing.Pipe()
    watcher = multiprocessing.get_context("fork").Process(target=watch, args=(there, P2.result, sentinel_times(rate, seconds)))
    watcher.start()
    here.recv()
    meter = Meter(connection)
    due, returned = insert_on_time(connection, todo, rate)
    here.send("done")
    visible = here.recv()
    record = {"workload": "latency", "system": "streamx", "state_store": store, "rate": rate,
              **meter.stop(len(todo) * PER_INSERT), **summary(due, returned, visible)}
    record["batches"] = sql(connection, "SELECT batch_id + 1 FROM streamx.queries WHERE name = %s", streams.QUERY)[0][0]
    watcher.join()
    streams.clean(connection)
    return record
