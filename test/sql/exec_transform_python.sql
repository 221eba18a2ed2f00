-- A handler in PL/Python, where the server has that.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT plan(2);

SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'plpython3u') AS python \gset
\if :python
CREATE EXTENSION IF NOT EXISTS plpython3u;
CREATE FOREIGN TABLE tpy (device text, value float8, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TYPE tpy_out AS (what text, mean float8, seen int);
-- a mean that forgets; values by their whole part are counted in a map, a timer tells of it
CREATE FUNCTION tpy_smooth(key text, rows tpy[], timer timestamptz) RETURNS SETOF tpy_out LANGUAGE plpython3u AS $$
    def ask(text, types=(), values=()):
        return plpy.execute(plpy.prepare("SELECT %s AS v" % text, list(types)), list(values))[0]["v"]

    if timer is not None:
        sizes = ask("state_map_size('seen')")
        ask("state_clear('seen')")
        return [("timer", ask("state_get('mean', NULL::float8)"), sizes)]
    mean = ask("state_get('mean', NULL::float8)")
    for row in sorted(rows, key=lambda r: r["ts"]):
        mean = row["value"] if mean is None else 0.75 * mean + 0.25 * row["value"]
        ask("state_map_put('seen', $1, 1)", ["int"], [int(row["value"])])
        ask("timer_set($1::timestamptz + interval '1 minute')", ["text"], [row["ts"]])
    try:
        with plpy.subtransaction():
            ask("state_put('mean', -1::float8)")
            plpy.execute("SELECT 1 / 0")
    except plpy.SPIError:
        pass                # what was put is undone
    if ask("state_get('mean', NULL::float8)") == -1:
        plpy.error("a subtransaction's value stayed")
    ask("state_put('mean', $1)", ["float8"], [mean])
    return [("rows", mean, ask("state_map_size('seen')"))]
$$;
CREATE TABLE tpy_queries AS SELECT 'tpy_' || store AS name, store FROM unnest('{rocksdb,table}'::text[]) store;
SELECT create_query(name, $$SELECT t.device, r.* FROM tpy t CROSS JOIN LATERAL transform_with_state('tpy_smooth', t.device, t, NULL::tpy_out, time_mode => 'event',
	state => ARRAY[value_state('mean', NULL::float8), map_state('seen', NULL::int, NULL::int)]) r$$, sink => name, options => jsonb_build_object('state_store', store)) FROM tpy_queries \g /dev/null
SELECT start_query(name) FROM tpy_queries \g /dev/null
INSERT INTO tpy VALUES ('pump', 4, '2026-01-15 10:00:00Z'), ('pump', 8, '2026-01-15 10:00:00.5Z'), ('fan', 1, '2026-01-15 10:00:05Z');
SELECT process_all_available(name) FROM tpy_queries \g /dev/null
SELECT stop_query(name) FROM tpy_queries \g /dev/null
SELECT start_query(name) FROM tpy_queries \g /dev/null
INSERT INTO tpy VALUES ('pump', 5.5, '2026-01-15 10:00:30Z'), ('fan', 1, '2026-01-15 10:01:12Z');
SELECT process_all_available(name) FROM tpy_queries \g /dev/null
SELECT bag_eq(format('TABLE %I', name), $$VALUES ('pump', 'rows', 5::float8, 2), ('fan', 'rows', 1, 1), ('pump', 'rows', 5.125, 3), ('fan', 'rows', 1, 1),
	('pump', 'timer', 5.125, 3), ('pump', 'timer', 5.125, 0)$$, name || ': a handler in Python keeps its state, over a restart') FROM tpy_queries ORDER BY name;
SELECT drop_query(name) FROM tpy_queries \g /dev/null
DROP FOREIGN TABLE tpy CASCADE;
DROP EXTENSION plpython3u CASCADE;
\else
SELECT skip('the server has no plpython3u', 2);
\endif
SELECT finish();
