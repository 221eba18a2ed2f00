"""
How soon a query over Kafka goes on after a kill -9 in the middle of its work.

W7, 100,000 rows per batch, killed after the tenth of them: from the kill of the
worker, which makes the server restart, and from the start of a server whose
postmaster was killed, to the next commit.
"""
import time

import psycopg2

import kafka
from kafka import QUERY, WORKLOADS
from recovery import kill_worker
from server import connect_when_up, gone, kill9, postmaster, sql, start

BATCH_ROWS = kafka.ROWS // 20
KILLED_AFTER = 9
SPARK_RECORDED_S = 18.4         # median of 3: restart of driver and JVM to the first commit; 11.7 from the query's start


def kill_postmaster():
    """Returns when the server is started again."""
    pid = postmaster()
    kill9(pid)
    while not gone(pid):
        time.sleep(0.01)
    time.sleep(1)               # its children see it and end
    begin = time.time()
    start()
    return begin


def wait_for_batch(connection, query, batch):
    """Through broken connections; returns (connection, when it was seen)."""
    while True:
        try:
            if kafka.last_batch(connection, query) >= batch:
                return connection, time.time()
            time.sleep(0.005)
        except psycopg2.Error:
            connection, _ = connect_when_up()


def once(connection, killed, sink, memory):
    w = WORKLOADS["W7"]
    wanted = w.expected(connection)     # now: the unlogged reference is empty after a crash
    kafka.clean(connection)
    kafka.make_server(connection)
    kafka.make_stream(connection, "bids", starting_offsets="earliest")
    kafka.make_query(connection, w.query.format(s="bids"), "result" if sink == "table" else sink, w.mode,
                     batch_rows=BATCH_ROWS, state_memory=memory)
    query = kafka.query_id(connection)
    sql(connection, "CHECKPOINT")
    sql(connection, "SELECT start_query(%s)", QUERY)
    kafka.wait_for("the tenth batch", lambda: kafka.last_batch(connection, query) >= KILLED_AFTER)
    if killed == "worker":
        begin = time.time()
        kill_worker(connection)
    else:
        begin = kill_postmaster()
    connection, accepted = connect_when_up()
    before = kafka.last_batch(connection, query)
    connection, committed = wait_for_batch(connection, query, before + 1)
    sql(connection, "SELECT process_all_available(%s, '5 minutes')", QUERY)
    if sink == "table":
        equal = w.fingerprint(connection, "result") == wanted
    else:
        equal = sql(connection, "SELECT sum(rows_total) FROM streamx.state_operators WHERE query = %s", QUERY)[0][0] == wanted[0]
    kafka.clean(connection)
    return connection, {"workload": "recovery", "killed": killed, "sink": sink, "state_memory": memory, "killed_after_batch": before,
                        "to_next_commit_s": round(committed - begin, 2),
                        "of_which_until_server_accepts_s": round(accepted - begin, 2),
                        "spark_recorded_s": SPARK_RECORDED_S, "equal": equal}
