"""
What a PostgreSQL user would write by hand, kept current chunk by chunk.

copy      plain COPY into a table, no result: the limit
oneshot   one GROUP BY over the loaded table: the limit
staging   COPY into a temporary table, upsert its groups, commit; keeps no raw rows
trigger   AFTER INSERT statement trigger on the raw table upserts the new rows' groups
batch     after each chunk, upserts what has an id past the last one; with two
          sessions it loses rows silently (ids below max(id) that are not committed)
"""
from server import Meter, one, sql
from workload import COLUMNS, WORKLOADS, ROWS, chunk_times, chunks, close_all, copy, feed, size_mb

PEERS = ("copy", "staging", "trigger", "batch")


def clean(connection):
    sql(connection, "DROP TABLE IF EXISTS bids, r_p2, r_p7, progress CASCADE")
    sql(connection, "DROP FUNCTION IF EXISTS upsert_new CASCADE")


def _stage(connection):
    sql(connection, f"CREATE TEMP TABLE stage ({COLUMNS}) ON COMMIT DELETE ROWS")


def set_up(connection, peer, w):
    """Makes the peer's objects; returns (function that loads a chunk, what each session does first)."""
    clean(connection)
    id_column = "id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, " if peer == "batch" else ""
    sql(connection, f"CREATE TABLE bids ({id_column}{COLUMNS})")
    if peer != "copy":
        sql(connection, f"CREATE TABLE {w.result} ({w.key_types}, {w.aggregate_types}, PRIMARY KEY ({w.keys}))")

    def plain(connection, cursor, text):
        copy(cursor, "bids", text)

    def staging(connection, cursor, text):
        cursor.execute("BEGIN")
        copy(cursor, "stage", text)
        cursor.execute(w.upsert("stage"))
        cursor.execute("COMMIT")

    def batch(connection, cursor, text):
        copy(cursor, "bids", text)
        cursor.execute("BEGIN; SELECT last, (SELECT max(id) FROM bids) FROM progress FOR UPDATE")
        last, newest = cursor.fetchone()
        cursor.execute(w.upsert("bids", f"WHERE id > {last} AND id <= {newest}"))
        cursor.execute("UPDATE progress SET last = %s; COMMIT", (newest,))

    if peer == "staging":
        return staging, _stage
    if peer == "trigger":
        sql(connection, "CREATE FUNCTION upsert_new() RETURNS trigger LANGUAGE plpgsql AS"
            f" $$BEGIN {w.upsert('fresh')}; RETURN NULL; END$$")
        sql(connection, "CREATE TRIGGER t AFTER INSERT ON bids REFERENCING NEW TABLE AS fresh"
            " FOR EACH STATEMENT EXECUTE FUNCTION upsert_new()")
    elif peer == "batch":
        sql(connection, "CREATE TABLE progress (last bigint)")
        sql(connection, "INSERT INTO progress VALUES (0)")
        return batch, None
    return plain, None


def throughput(connection, peer, workload, chunk, sessions):
    w = WORKLOADS[workload]
    load, prepare = set_up(connection, peer, w)
    texts = chunks(chunk)
    meter = Meter(connection)
    taken, errors, connections = feed(texts, sessions, load, prepare)
    record = {"workload": workload, "system": peer, "chunk": chunk, "sessions": sessions, **meter.stop(ROWS),
              **chunk_times(taken), "retried": len(errors)}
    close_all(connections)
    record.pop("rss_private_mb"), record.pop("rss_highest_mb")
    if peer != "copy":
        record.update(w.check(connection), result_mb=size_mb(connection, w.result))
    clean(connection)
    return record


def oneshot(connection, workload):
    w = WORKLOADS[workload]
    sql(connection, "SET work_mem = '256MB'")
    meter = Meter(connection)
    groups = one(connection, f"SELECT count(*) FROM {w.batch_answer()}")
    record = {"workload": workload, "system": "oneshot", **meter.stop(ROWS), "groups": groups}
    sql(connection, "RESET work_mem")
    record.pop("rss_private_mb"), record.pop("rss_highest_mb")
    return record
