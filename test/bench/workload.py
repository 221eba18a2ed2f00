"""The rows, the two queries, and how a result is compared with the batch answer."""
import io
import os
import subprocess
import threading
import time

import psycopg2

from server import WORK, connect, one, sql

COLUMNS = ("auction int, bidder int, price bigint, channel text, url text,"
           " date_time timestamptz, extra text")
NAMES = "auction, bidder, price, channel, url, date_time, extra"
ROWS = int(os.environ.get("ROWS") or 2000000)
WINDOW = "date_bin('10 s', date_time, '2000-01-01 00:00:00+00'::timestamptz)"


class Workload:
    def __init__(self, name, keys, key_types, batch_select, stream_query, aggregates, aggregate_types, update,
                 hashed, total):
        self.name = name
        self.keys = keys                    # columns of the result that identify a row
        self.key_types = key_types
        self.batch_select = batch_select    # keys as a plain SELECT computes them
        self.stream_query = stream_query    # the continuous query over a stream {s}
        self.aggregates = aggregates
        self.aggregate_types = aggregate_types
        self.update = update                # of the hand-made upsert
        self.hashed = hashed
        self.total = total
        self.result = f"r_{name}"

    def upsert(self, source, where=""):
        return (f"INSERT INTO {self.result} AS a SELECT {self.batch_select}, {self.aggregates} FROM {source} {where}"
                f" GROUP BY 1, 2 ON CONFLICT ({self.keys}) DO UPDATE SET {self.update}")

    def fingerprint(self, connection, relation):
        row = sql(connection, f"SELECT count(*), coalesce(sum(c), 0)::bigint, coalesce({self.total}, 0)::text,"
                  f" coalesce(sum(hashtextextended({self.hashed}, 0)::numeric), 0)::text FROM {relation}")[0]
        return list(row)

    def batch_answer(self, relation="bids_all"):
        return f"(SELECT {self.batch_select}, {self.aggregates} FROM {relation} GROUP BY 1, 2) x"

    def expected(self, connection):
        if not hasattr(self, "_expected"):
            self._expected = self.fingerprint(connection, self.batch_answer())
        return self._expected

    def check(self, connection, relation=None):
        """{'equal': True} when every row of the result is that of the batch answer"""
        wanted = self.expected(connection)
        found = self.fingerprint(connection, relation or f"(SELECT * FROM {self.result} WHERE auction >= 0) x")
        record = {"equal": found == wanted, "groups": found[0]}
        if found != wanted:
            record.update(found=found, wanted=wanted)
        return record


P2 = Workload("p2", "w, auction", "w timestamptz, auction int", f"{WINDOW} AS w, auction",
              "SELECT lower(win) AS w, auction, count(*) AS c, sum(price) AS s"
              " FROM (SELECT tumble(date_time, '10 seconds') AS win, auction, price FROM {s}) b GROUP BY win, auction",
              "count(*) AS c, sum(price) AS s", "c bigint, s numeric", "c = a.c + excluded.c, s = a.s + excluded.s",
              "extract(epoch from w)::bigint || ',' || auction || ',' || c || ',' || s", "sum(s)")
P7 = Workload("p7", "bidder, auction", "bidder int, auction int", "bidder, auction",
              "SELECT bidder, auction, count(*) AS c FROM {s} GROUP BY bidder, auction",
              "count(*) AS c", "c bigint", "c = a.c + excluded.c",
              "bidder || ',' || auction || ',' || c", "0")
WORKLOADS = {"p2": P2, "p7": P7}


# ---------------------------------------------------------------- rows

_lines = []


def lines():
    """All rows as CSV lines; made by gen_bids once."""
    if not _lines:
        text = subprocess.run([os.path.join(WORK, "gen_bids"), str(ROWS)], check=True, stdout=subprocess.PIPE).stdout
        _lines.extend(text.splitlines(keepends=True))
    return _lines


def chunks(size):
    rows = lines()
    return [b"".join(rows[i:i + size]) for i in range(0, len(rows), size)]


def make_reference(connection):
    """bids_all: every row in a plain table, for the batch answers and one-shot queries."""
    sql(connection, "DROP TABLE IF EXISTS bids_all")
    sql(connection, f"CREATE UNLOGGED TABLE bids_all ({COLUMNS})")
    cursor = connection.cursor()
    for text in chunks(500000):
        copy(cursor, "bids_all", text)
    sql(connection, "VACUUM (FREEZE, ANALYZE) bids_all")


def copy(cursor, target, text):
    cursor.copy_expert(f"COPY {target} ({NAMES}) FROM STDIN (FORMAT csv)", io.BytesIO(text), size=1 << 18)


def feed(texts, sessions, one_chunk, prepare=None):
    """
    Has `sessions` clients take the chunks in turn, each the next free one, and
    load it by one_chunk(connection, cursor, text), again after a deadlock.
    Returns (seconds per chunk, errors that were retried, the clients' connections):
    they stay open until the caller has measured, since the CPU of a server
    process that just ends is for a moment nowhere to be seen.
    """
    lock = threading.Lock()
    waiting = list(reversed(texts))
    taken, errors, failures, connections = [], [], [], []

    def client():
        connection = connect()
        connections.append(connection)
        cursor = connection.cursor()
        if prepare:
            prepare(connection)
        while not failures:
            with lock:
                if not waiting:
                    break
                text = waiting.pop()
            begin = time.time()
            while True:
                try:
                    one_chunk(connection, cursor, text)
                    break
                except (psycopg2.errors.DeadlockDetected, psycopg2.errors.SerializationFailure) as e:
                    errors.append(type(e).__name__)
                    cursor.execute("ROLLBACK")
            taken.append(time.time() - begin)

    def guarded():
        try:
            client()
        except Exception as e:          # shown by the caller: a thread has nobody above it
            failures.append(e)

    threads = [threading.Thread(target=guarded) for _ in range(sessions)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if failures:
        raise failures[0]
    return sorted(taken), errors, connections


def close_all(connections):
    for connection in connections:
        connection.close()


def percentile(sorted_values, q):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * q))] if sorted_values else None


def milliseconds(value):
    return None if value is None else round(value * 1e3, 2)


def chunk_times(taken):
    return {"chunk_p50_ms": milliseconds(percentile(taken, .5)), "chunk_max_ms": milliseconds(taken[-1])}


def size_mb(connection, relation):
    return round(one(connection, "SELECT pg_total_relation_size(%s::regclass)", relation) / 1e6)
