-- streamx.state over session windows: the open ones with their results so far, also of a
-- key with very many; older batches and changes; both stores.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE ss (k numeric, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
SELECT create_query('ss_' || store, 'SELECT session(ts, ''5 seconds'') AS w, k, count(*) AS n, sum(v) AS s FROM ss GROUP BY w, k',
	sink => 'ss_' || store, options => jsonb_build_object('state_store', store, 'max_future_skew', 'off'))
	FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
SELECT create_query('ss_all', 'SELECT session(ts, ''5 seconds'') AS w, sum(v) AS s FROM ss GROUP BY w', sink => 'ss_all', output_mode => 'complete',
	options => '{"max_future_skew": "off"}') \g /dev/null
SELECT start_query(name) FROM streamx.queries WHERE name LIKE 'ss\_%' \g /dev/null
CREATE PROCEDURE ss_step(VARIADIC rows text[]) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO ss SELECT split_part(r, ' ', 1)::numeric, split_part(r, ' ', 2)::int, '2026-01-15 10:00:00+00'::timestamptz + split_part(r, ' ', 3)::interval FROM unnest(rows) r;
	COMMIT;
	PERFORM process_all_available(name) FROM streamx.queries WHERE name LIKE 'ss\_%';
END $$;
-- seconds since the beginning
CREATE FUNCTION ss_window(key jsonb) RETURNS text LANGUAGE sql AS $$
	SELECT extract(epoch FROM lower(w) - '2026-01-15 10:00:00+00')::int || '-' || extract(epoch FROM upper(w) - '2026-01-15 10:00:00+00')::int
	FROM (SELECT (key ->> 'w')::tstzrange AS w) x
$$;
CREATE VIEW ss_changes AS SELECT query, batch_id, change_type, ss_window(key) AS w, key -> 'k' AS k, value ->> 'sum' AS s
	FROM unnest('{ss_rocksdb,ss_table}'::text[]) query, LATERAL streamx.state_changes(query, 0);

-- batches 0, 2 and 4, and one after each for the watermark
CALL ss_step('1.0 1 1s', '1.00 2 3s', '2 4 2s', '1.0 8 12s');
CALL ss_step('1.000 16 8s', '3 32 14s');
CALL ss_step('3 64 30s');
SELECT results_eq(format($$ SELECT ss_window(key), (key ->> 'k')::numeric, value, expires_at = upper((key ->> 'w')::tstzrange) FROM streamx.state('ss_%s') ORDER BY 1 $$, store),
	$$ VALUES ('30-35', 3::numeric, '{"sum": 64, "count": 1}'::jsonb, true) $$, 'the open one, with when it closes: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq(format($$ SELECT ss_window(key), key -> 'k', value FROM streamx.state('ss_%s', batch_id => 0) ORDER BY 1 $$, store),
	$$ VALUES ('1-8', '1.0'::jsonb, '{"sum": 3, "count": 2}'::jsonb), ('12-17', '1.0', '{"sum": 8, "count": 1}'), ('2-7', '2', '{"sum": 4, "count": 1}') $$, 'after the first batch: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq(format($$ SELECT ss_window(key), value ->> 'sum' FROM streamx.state('ss_%s', batch_id => 2) ORDER BY 1 $$, store),
	$$ VALUES ('1-17', '27'), ('14-19', '32'), ('2-7', '4') $$, 'the row that touched two made one of them: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq($$ SELECT ss_window(key), value, expires_at FROM streamx.state('ss_all') ORDER BY 1 $$,
	$$ VALUES ('1-19', '{"sum": 63}'::jsonb, NULL::timestamptz), ('30-35', '{"sum": 64}', NULL) $$, 'without keys, in complete mode they stay');
SELECT results_eq($$ SELECT operator, store, properties FROM streamx.state_metadata('ss_table') $$,
	$$ VALUES ('sessionWindowStateStoreSaveExec', 'default', '{"key": {"k": "numeric", "w": "tstzrange"}, "value": {"sum": "bigint", "count": "bigint"}}'::jsonb) $$, 'what there is to read');

-- changes
SELECT results_eq(format($$ SELECT batch_id, change_type, w, s FROM ss_changes WHERE query = %L ORDER BY 1, 2, 3 $$, query),
	$$ VALUES (0::bigint, 'update', '1-8', '3'), (0, 'update', '12-17', '8'), (0, 'update', '2-7', '4'),
	(2, 'delete', '1-8', NULL), (2, 'delete', '12-17', NULL), (2, 'update', '1-17', '27'), (2, 'update', '14-19', '32'), (4, 'update', '30-35', '64'),
	(5, 'delete', '1-17', NULL), (5, 'delete', '14-19', NULL), (5, 'delete', '2-7', NULL) $$, 'one that grows is another; closed ones go: ' || query) FROM unnest('{ss_rocksdb,ss_table}'::text[]) query;

-- very many of a key, of which most go into pieces: they are as they were
CREATE FOREIGN TABLE ss_long (k int, v int, ts timestamptz OPTIONS (watermark '1 day')) SERVER streamx;
SELECT create_query('sl_' || store, 'SELECT session(ts, ''5 seconds'') AS w, k, sum(v) AS s FROM ss_long GROUP BY w, k',
	sink => 'sl_' || store, options => jsonb_build_object('state_store', store, 'max_future_skew', 'off'))
	FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
SELECT start_query(name) FROM streamx.queries WHERE name LIKE 'sl\_%' \g /dev/null
INSERT INTO ss_long SELECT 1, i, '2026-01-15 10:00:00+00'::timestamptz + i * interval '10 seconds' FROM generate_series(1, 64) i;
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'sl\_%' \g /dev/null
INSERT INTO ss_long SELECT 1, i, '2026-01-15 10:00:00+00'::timestamptz + i * interval '10 seconds' FROM generate_series(65, 66) i;
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'sl\_%' \g /dev/null
-- the third one is in a piece: this touches it
INSERT INTO ss_long VALUES (1, 100, '2026-01-15 10:00:32+00');
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'sl\_%' \g /dev/null
SELECT results_eq(format($$ SELECT count(*), count(DISTINCT key), sum((value ->> 'sum')::int) FROM (SELECT DISTINCT batch_id FROM streamx.progress WHERE query = 'sl_%1$s' AND input_rows > 0) b, LATERAL streamx.state('sl_%1$s', batch_id => b.batch_id) GROUP BY b.batch_id ORDER BY b.batch_id $$, store),
	$$ VALUES (64::bigint, 64::bigint, 2080::bigint), (66, 66, 2211), (66, 66, 2311) $$, 'each once: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq(format($$ SELECT change_type, ss_window(key), value ->> 'sum' FROM streamx.state_changes('sl_%s', 1) ORDER BY batch_id, 1, 2 $$, store),
	$$ VALUES ('update', '650-655', '65'), ('update', '660-665', '66'), ('delete', '30-35', NULL), ('update', '30-37', '103') $$, 'those that were put into a piece or taken out of it have not changed: ' || store)
	FROM unnest('{rocksdb,table}'::text[]) store;

SELECT drop_query(name) FROM streamx.queries WHERE name ~ '^s[sl]_' \g /dev/null
DROP VIEW ss_changes;
DROP FUNCTION ss_window(jsonb);
DROP FOREIGN TABLE ss, ss_long;
DROP TABLE ss_rocksdb, ss_table, ss_all, sl_rocksdb, sl_table;
DROP PROCEDURE ss_step(text[]);
SELECT * FROM finish();
