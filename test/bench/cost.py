"""
What batches cost besides their rows: WAL, flushes, log tables, tiny batches, idle queries.
"""
import time

import streams
from server import cpu_now, cpu_of, memory_of, one, query_workers, settle, sql

KEYS = 2000000
CHANGED = 20000
BATCHES = 2000
CATALOGS = ("streamx.batch", "streamx.query", "pg_class", "pg_attribute", "pg_depend", "pg_statistic", "pg_shdepend", "pg_type")


def clean(connection, name):
    if one(connection, "SELECT count(*) FROM streamx.query WHERE name = %s", name):
        sql(connection, "SELECT stop_query(%s)", name)
        sql(connection, "SELECT drop_query(%s)", name)


def fresh(connection, name="cost"):
    clean(connection, name)
    sql(connection, "DROP FOREIGN TABLE IF EXISTS events CASCADE")
    sql(connection, "SELECT create_stream('events', 'k bigint, v bigint')")


def create(connection, name="cost", store="rocksdb"):
    sql(connection, "SELECT create_query(%s, 'SELECT k, count(*) AS c, sum(v) AS s FROM events GROUP BY k',"
        " sink => 'noop', output_mode => 'update', options => jsonb_build_object('state_store', %s::text))", name, store)


def start(connection, name="cost"):
    sql(connection, "SELECT start_query(%s)", name)
    sql(connection, "SELECT process_all_available(%s)", name)


def in_result(connection, name="cost"):
    """(batches, WAL bytes of the query)"""
    batch, wal = sql(connection, "SELECT batch_id, wal_bytes FROM streamx.queries WHERE name = %s", name)[0]
    return batch + 1, wal


def log_tables(connection, name="cost"):
    """The hidden tables that hold the query's changelog and snapshots."""
    query = one(connection, "SELECT id FROM streamx.query WHERE name = %s", name)
    return [r[0] for r in sql(connection, "SELECT c.oid::regclass::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                              " WHERE c.relkind = 'r' AND n.nspname = 'streamx_data' AND c.relname LIKE %s",
                              f"state\\_log\\_{query}\\_%")]


def log_bytes(connection, name="cost"):
    return sum(one(connection, "SELECT pg_total_relation_size(%s::regclass)", t) for t in log_tables(connection, name))


def log_contents(connection, name="cost"):
    """(bytes of changes per batch of the last 50, bytes of the newest snapshot of every key group)"""
    rows = " UNION ALL ".join(f"SELECT batch, place, length(data) AS bytes FROM {t}" for t in log_tables(connection, name))
    newest = sql(connection, "SELECT batch_id FROM streamx.queries WHERE name = %s", name)[0][0]
    changes = one(connection, f"SELECT coalesce(avg(bytes), 0) FROM (SELECT batch, sum(bytes) AS bytes FROM ({rows}) r"
                  f" WHERE place >> 56 = 0 AND batch > {newest - 50} GROUP BY batch) b")
    state = one(connection, "SELECT coalesce(sum(bytes), 0) FROM (SELECT bytes, rank() OVER (PARTITION BY place >> 48 ORDER BY batch DESC) AS age"
                f" FROM ({rows}) r WHERE place >> 56 = 1) s WHERE age = 1")
    return float(changes), float(state)


def changing_keys(connection, store="rocksdb", batches=BATCHES):
    """2 M keys of which 1 % change per batch."""
    fresh(connection)
    create(connection, store=store)
    start(connection)
    for part in range(10):
        sql(connection, "INSERT INTO events SELECT g, g FROM generate_series(%s::bigint, %s::bigint) g",
            part * KEYS // 10, (part + 1) * KEYS // 10 - 1)
    sql(connection, "SELECT process_all_available('cost')")
    full_log = log_bytes(connection)
    insert_wal = wal_of_insert(connection)
    settle()
    batches0, wal0 = in_result(connection)
    lsn0 = one(connection, "SELECT pg_current_wal_insert_lsn()")
    # the WAL writer's own rhythm and the end of each WAL file are no batch's
    sql(connection, "ALTER SYSTEM SET wal_writer_delay = '10s'")
    sql(connection, "SELECT pg_reload_conf()")
    syncs0 = one(connection, "SELECT wal_sync FROM pg_stat_wal")
    worker = query_workers(connection, "cost")[0]
    cpu0, start_time = cpu_of(worker), time.time()
    largest_log = 0
    for b in range(batches):
        change(connection, b)
        sql(connection, "SELECT process_all_available('cost')")
        if b % 100 == 99:
            largest_log = max(largest_log, log_bytes(connection))
    wall = time.time() - start_time
    batches1, wal1 = in_result(connection)
    all_wal = one(connection, "SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", lsn0)
    time.sleep(1.5)             # the worker reports its statistics at most once a second
    syncs1 = one(connection, "SELECT wal_sync FROM pg_stat_wal")
    files = one(connection, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint / size - (%s::pg_lsn - '0/0'::pg_lsn)::bigint / size"
                " FROM (SELECT setting::bigint AS size FROM pg_settings WHERE name = 'wal_segment_size') s", lsn0)
    sql(connection, "ALTER SYSTEM RESET wal_writer_delay")
    sql(connection, "SELECT pg_reload_conf()")
    done = batches1 - batches0
    changes, state = log_contents(connection)
    record = {"workload": "cost", "system": "streamx", "measure": "1 % of 2 M keys per batch", "state_store": store,
              "batches": done, "rows_s": round(batches * CHANGED / wall), "worker_cpu_ms_per_batch": round((cpu_of(worker) - cpu0) * 1e3 / done, 2),
              "batch_wal_kb_per_batch": round((wal1 - wal0) / done / 1e3, 1),
              "wal_kb_per_batch": round((float(all_wal) - insert_wal * batches) / done / 1e3, 1),
              "changelog_kb_per_batch": round(changes / 1e3, 1), "state_compressed_mb": round(state / 1e6, 1), "flushes_per_batch": round((syncs1 - syncs0 - files - batches) / done, 2),
              "log_after_load_mb": round(full_log / 1e6), "log_largest_mb": round(largest_log / 1e6),
              "log_at_end_mb": round(log_bytes(connection) / 1e6), "worker_private_mb": memory_of(worker)[0]}
    clean(connection, "cost")
    return record


def change(connection, b):
    """1 % of the keys, spread over all of them."""
    sql(connection, f"INSERT INTO events SELECT ({b}::bigint * 7919 + g * 101) % {KEYS}, g FROM generate_series(1::bigint, {CHANGED}) g")


def wal_of_insert(connection, times=20):
    """What the client's INSERT alone writes; the query is stopped meanwhile."""
    sql(connection, "SELECT stop_query('cost')")
    lsn = one(connection, "SELECT pg_current_wal_insert_lsn()")
    for b in range(times):
        change(connection, b)
    written = one(connection, "SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", lsn)
    start(connection)
    return float(written) / times


def tiny(connection, store="rocksdb", batches=10000):
    """Batches of one row."""
    fresh(connection)
    create(connection, store=store)
    start(connection)
    run_tiny(connection, 200)
    settle()
    batches0, wal0 = in_result(connection)
    worker = query_workers(connection, "cost")[0]
    cpu0, start_time = cpu_of(worker), time.time()
    run_tiny(connection, batches)
    wall = time.time() - start_time
    batches1, wal1 = in_result(connection)
    done = batches1 - batches0
    record = {"workload": "cost", "system": "streamx", "measure": "one-row batches", "state_store": store, "batches": done,
              "worker_cpu_ms_per_batch": round((cpu_of(worker) - cpu0) * 1e3 / done, 3), "wal_kb_per_batch": round((wal1 - wal0) / done / 1e3, 2),
              "ms_per_batch": round(wall * 1e3 / done, 2)}
    clean(connection, "cost")
    return record


def run_tiny(connection, batches, first=0):
    cursor = connection.cursor()
    for i in range(first, first + batches):
        cursor.execute("INSERT INTO events VALUES (%s, 1)", (i % 1000,))
        cursor.execute("SELECT process_all_available('cost')")


def idle(connection, queries=50, seconds=20):
    """Running queries that get nothing."""
    fresh(connection)
    settle()
    cpu0 = cpu_now()
    time.sleep(seconds)
    without = cpu_now() - cpu0
    for i in range(queries):
        create(connection, f"idle{i}")
    for i in range(queries):
        start(connection, f"idle{i}")
    time.sleep(3)
    cpu0 = cpu_now()
    time.sleep(seconds)
    used = cpu_now() - cpu0
    workers = query_workers(connection)
    record = {"workload": "cost", "system": "streamx", "measure": f"{queries} idle queries", "running": len(workers),
              "cpu_percent": round((used - without) / seconds * 100, 2), "cpu_percent_without": round(without / seconds * 100, 2),
              "private_mb_each": round(sum(memory_of(p)[0] for p in workers) / max(1, len(workers)), 1)}
    for i in range(queries):
        clean(connection, f"idle{i}")
    return record


def long_run(connection, store="rocksdb", marks=(20000, 100000, 200000)):
    """Does anything grow with the number of batches?"""
    fresh(connection)
    create(connection, store=store)
    start(connection)
    records, done = [], 0
    for mark in marks:
        start_time = time.time()
        run_tiny(connection, mark - done, done)
        worker = query_workers(connection, "cost")[0]
        record = {"workload": "cost", "system": "streamx", "measure": f"after {mark} tiny batches", "state_store": store,
                  "ms_per_batch": round((time.time() - start_time) * 1e3 / (mark - done), 2),
                  "worker_private_mb": memory_of(worker)[0], "log_mb": round(log_bytes(connection) / 1e6, 1)}
        for name in CATALOGS:
            record[f"{name.split('.')[-1]}_kb"] = one(connection, "SELECT pg_total_relation_size(%s::regclass)", name) // 1024
        records.append(record)
        done = mark
    clean(connection, "cost")
    return records
