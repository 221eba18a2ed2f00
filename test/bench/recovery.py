"""
How soon a query with 1.8 million keys goes on after a kill -9.

Measured from the moment the server accepts a connection again to the next commit
of the query; a row is inserted at once so that there is something to commit.
"""
import os
import shutil
import time

import psycopg2

import streams
from server import DATA, connect_when_up, gone, kill9, one, postmaster, query_workers, sql, start
from workload import P7


def last_batch(connection, query):
    return one(connection, "SELECT coalesce(max(batch), -1) FROM streamx.batch WHERE query = %s", query)


def kill_worker(connection):
    kill9(query_workers(connection, streams.QUERY)[0])
    try:
        while True:             # until the postmaster notices and ends the others
            sql(connection, "SELECT 1")
            time.sleep(0.005)
    except psycopg2.Error:
        pass


def kill_postmaster(connection, before_start=None):
    pid = postmaster()
    kill9(pid)
    while not gone(pid):
        time.sleep(0.01)
    time.sleep(1)               # its children see it and end
    if before_start:
        before_start()
    start()


def remove_stores():
    """Every query's store directory: what is left is the changelog."""
    home = os.path.join(DATA, "streamx")
    for name in os.listdir(home) if os.path.isdir(home) else []:
        shutil.rmtree(os.path.join(home, name))


def lose_store(connection):
    kill_postmaster(connection, remove_stores)


def streamx(connection, store="rocksdb", memory="256MB"):
    """Returns (records, a new connection)."""
    streams.create(connection, P7, "table", "update", memory, store)
    streams.start(connection)
    streams.fill(100000)
    streams.drain(connection)
    query = streams.query_id(connection)
    P7.expected(connection)     # now: the unlogged reference is empty after a crash
    sql(connection, "CHECKPOINT")
    records = []
    kills = {"worker": kill_worker, "postmaster": kill_postmaster, "postmaster, store deleted": lose_store}
    for what, kill in kills.items():
        before = last_batch(connection, query)
        kill(connection)
        connection, accepted = connect_when_up()
        sql(connection, f"INSERT INTO {streams.STREAM} (auction, bidder, price, date_time) SELECT -1, -1, 0, '2026-01-01 00:33:20+00'")
        while last_batch(connection, query) <= before and time.time() < accepted + 120:
            time.sleep(0.005)
        seconds = time.time() - accepted
        streams.drain(connection)
        records.append({"workload": "recovery", "system": "streamx", "state_store": store, "state_memory": memory, "killed": what,
                        "to_next_commit_s": round(seconds, 2), **P7.check(connection)})
    streams.clean(connection)
    return records, connection

