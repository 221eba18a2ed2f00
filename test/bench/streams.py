"""
The same work by a stream and a continuous query.

The stream has the columns of bids. Its watermark lags the event time by 5 s with
one session (jitter of 3 s, copies of rows up to 1 s old) and by 10 minutes with two, which
take chunks of up to 100 s of event time side by side: no row is late in any run,
and late_rows is recorded to show it.
"""
import json

from server import Meter, one, sql
from workload import COLUMNS, ROWS, WORKLOADS, chunk_times, chunks, close_all, copy, feed, size_mb

QUERY = "bench_query"
STREAM = "bids"


def clean(connection):
    if one(connection, "SELECT count(*) FROM streamx.query WHERE name = %s", QUERY):
        sql(connection, "SELECT stop_query(%s)", QUERY)
        sql(connection, "SELECT drop_query(%s)", QUERY)
    for (name,) in sql(connection, "SELECT c.relname FROM pg_class c WHERE c.relkind = 'f' AND c.relname = %s", STREAM):
        sql(connection, f"DROP FOREIGN TABLE {name} CASCADE")
    sql(connection, "DROP TABLE IF EXISTS bids, r_p2, r_p7 CASCADE")


def create(connection, w, sink, mode, memory, store, sessions=1, **options):
    clean(connection)
    delay = f"{4 + 2000000 // ROWS} seconds" if sessions == 1 else "10 minutes"
    sql(connection, "SELECT create_stream(%s, %s)", STREAM,
        f"{COLUMNS}, WATERMARK FOR date_time AS date_time - INTERVAL '{delay}'")
    sql(connection, "SELECT create_query(%s, %s, sink => %s, output_mode => %s, options => %s)", QUERY,
        w.stream_query.format(s=STREAM), w.result if sink == "table" else sink, mode,
        json.dumps({"state_memory": memory, "state_store": store, "max_future_skew": "off", **options}))


def start(connection):
    sql(connection, "SELECT start_query(%s)", QUERY)


def drain(connection):
    sql(connection, "SELECT process_all_available(%s)", QUERY)


def fill(chunk):
    """All rows into the stream, by one session."""
    close_all(feed(chunks(chunk), 1, lambda c, cursor, text: copy(cursor, STREAM, text))[2])


def close_windows(connection):
    """Append mode gives a window when the watermark has passed it: one last row from far ahead."""
    sql(connection, f"INSERT INTO {STREAM} (auction, bidder, price, date_time)"
        " SELECT -1, -1, 0, max(date_time) + interval '1 hour' FROM bids_all")


def query_id(connection):
    return one(connection, "SELECT id FROM streamx.query WHERE name = %s", QUERY)


def facts(connection, w, sink):
    """Whether the result is right, and what the views say of the run."""
    record = {}
    record["late_rows"] = int(one(connection, "SELECT coalesce(sum(rows), 0) FROM streamx.late_rows WHERE query = %s", QUERY))
    record["state_rows"] = int(one(connection, "SELECT coalesce(state_rows, 0) FROM streamx.queries WHERE name = %s", QUERY))
    record["query_wal_mb"] = round(one(connection, "SELECT wal_bytes FROM streamx.queries WHERE name = %s", QUERY) / 1e6)
    record["batches"] = one(connection, "SELECT batch_id FROM streamx.queries WHERE name = %s", QUERY) + 1
    if sink == "table":
        record.update(w.check(connection), result_mb=size_mb(connection, w.result))
    elif w.name == "p7":        # nothing is ever evicted: the state is the result
        record["equal"] = record["state_rows"] == w.expected(connection)[0]
    return record


def describe(workload, sink, mode, memory, store):
    return {"workload": workload, "system": "streamx", "sink": sink, "mode": mode, "state_memory": memory, "state_store": store}


def end_to_end(connection, workload, chunk, sessions, sink="table", mode="update", memory="256MB", store="rocksdb"):
    """From the first COPY to the last row in the result."""
    w = WORKLOADS[workload]
    create(connection, w, sink, mode, memory, store, sessions)
    start(connection)
    drain(connection)
    texts = chunks(chunk)
    meter = Meter(connection)
    taken, errors, connections = feed(texts, sessions, lambda c, cursor, text: copy(cursor, STREAM, text))
    if mode == "append":
        close_windows(connection)
    drain(connection)
    record = {**describe(workload, sink, mode, memory, store), "measure": "end to end", "chunk": chunk,
              "sessions": sessions, **meter.stop(ROWS), **chunk_times(taken), "retried": len(errors)}
    close_all(connections)
    record.update(facts(connection, w, sink))
    clean(connection)
    return record


def alone(connection, workload, sink, mode="update", memory="256MB", store="rocksdb"):
    """The query on a full stream: from start_query, and from its first batch, to drained."""
    w = WORKLOADS[workload]
    create(connection, w, sink, mode, memory, store)
    fill(100000)
    if mode == "append":
        close_windows(connection)
    meter = Meter(connection)
    start(connection)
    drain(connection)
    end = one(connection, "SELECT clock_timestamp()")
    record = {**describe(workload, sink, mode, memory, store), "measure": "alone", **meter.stop(ROWS)}
    first = one(connection, "SELECT min(batch_timestamp) FROM streamx.batch WHERE query = %s", query_id(connection))
    record["rows_s_from_first_batch"] = round(ROWS / (end - first).total_seconds())
    record.update(facts(connection, w, sink))
    clean(connection)
    return record
