-- DISTINCT over three batches with a restart: what passes is one row of each key, the
-- first one, whatever the keys' types; what the watermark has passed goes.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE ed (n numeric, f float8, t text, b bytea, j jsonb, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE ed_plain (id int, n numeric, f float8, t text) SERVER streamx;
CREATE TABLE ed_dim (id int, name text);
INSERT INTO ed_dim VALUES (1, 'one'), (2, 'two');
CREATE TABLE ed_queries (name text, query text, store text);
INSERT INTO ed_queries SELECT name || '_' || store, query, store FROM (VALUES
	('ed_all', 'SELECT DISTINCT n, f, t FROM ed_plain'),
	('ed_numeric', 'SELECT DISTINCT ON (n) id, n FROM ed_plain'),
	('ed_float', 'SELECT DISTINCT ON (f) id, f FROM ed_plain'),
	('ed_expression', 'SELECT DISTINCT ON (id % 7, length(t)) id, t FROM ed_plain'),
	('ed_union', 'SELECT id FROM ed_plain WHERE id % 2 = 0 UNION SELECT id % 10 FROM ed_plain'),
	('ed_above_join', 'SELECT DISTINCT d.name FROM ed_plain p LEFT JOIN ed_dim d ON d.id = p.id'),
	('ed_below_join', 'SELECT d.name, x.id FROM (SELECT DISTINCT id % 5 AS id FROM ed_plain) x LEFT JOIN ed_dim d ON d.id = x.id')) q(name, query),
	(VALUES ('rocksdb'), ('table')) s(store);
SELECT create_query(name, query, sink => name, options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM ed_queries \g /dev/null

-- 1.0 and 1.00, -0 and 0, NaN, NULL, and 20,000 keys of which each comes twice
INSERT INTO ed_plain VALUES (1, 1.0, 0, 'a'), (2, 1.00, '-0', 'a'), (3, 'NaN', 'NaN', NULL), (4, NULL, NULL, '');
SELECT start_query(name) FROM ed_queries \g /dev/null
SELECT process_all_available(name) FROM ed_queries \g /dev/null
SELECT stop_query(name) FROM ed_queries \g /dev/null
SELECT start_query(name) FROM ed_queries \g /dev/null
INSERT INTO ed_plain SELECT i, i % 10000 + 10, i % 10000 + 10, repeat('x', i % 300) FROM generate_series(10, 20009) i;
SELECT process_all_available(name) FROM ed_queries \g /dev/null
INSERT INTO ed_plain VALUES (5, 1.000, '0', 'a'), (6, 'NaN', 'NaN', NULL), (7, NULL, NULL, '');
INSERT INTO ed_plain SELECT i, i % 10000 + 10.00, i % 10000 + 10, repeat('x', i % 300) FROM generate_series(10, 20009) i;
SELECT process_all_available(name) FROM ed_queries \g /dev/null

-- DISTINCT without ON: the batch answer
SELECT is_empty(format('(TABLE %1$I EXCEPT ALL TABLE streamx_query.%1$I) UNION ALL (TABLE streamx_query.%1$I EXCEPT ALL TABLE %1$I)', name),
		name || ' is what its batch query answers')
	FROM ed_queries WHERE query NOT LIKE '%DISTINCT ON%' ORDER BY name;
SELECT is((SELECT count(*) FROM ed_numeric_rocksdb), (SELECT count(DISTINCT n) + 1 FROM ed_plain), 'a row for each number and one for NULL, whatever the scale');
SELECT is((SELECT count(*) FROM ed_float_table), (SELECT count(DISTINCT f) + 1 FROM ed_plain), 'zeros of both signs are one key, NaN is one');
SELECT results_eq('SELECT id FROM ed_numeric_table WHERE id < 10 ORDER BY id', 'VALUES (1), (3), (4)', 'the first row of a key passes');
SELECT results_eq('SELECT id FROM ed_float_rocksdb WHERE id < 10 ORDER BY id', 'VALUES (1), (3), (4)', 'of floats, too');
SELECT is((SELECT count(*) FROM ed_expression_rocksdb), (SELECT count(DISTINCT (id % 7, length(t))) FROM ed_plain), 'keys can be expressions that are not selected');

-- late and expired, with the event time among the keys, beside them, and not selected at all
CREATE TABLE ed_timed (name text, query text);
INSERT INTO ed_timed VALUES
	('edt_time', 'SELECT DISTINCT t, ts FROM ed'),
	('edt_window', $$SELECT DISTINCT t, tumble(ts, '1 minute') AS w FROM ed$$),
	('edt_beside', 'SELECT DISTINCT ON (t) t, ts FROM ed'),
	('edt_hidden', 'SELECT DISTINCT t FROM ed'),
	('edt_hidden_deep', 'SELECT DISTINCT t FROM (SELECT t FROM (SELECT t, n FROM ed) a UNION ALL SELECT t FROM ed WHERE false) b'),
	('edt_union', 'SELECT t FROM ed UNION SELECT t FROM ed WHERE false UNION (SELECT t FROM ed WHERE t < ''b'' UNION ALL SELECT t FROM ed WHERE false)'),
	('edt_within', 'SELECT DISTINCT ON (within_watermark(t, n)) t, ts FROM ed'),
	('edt_within_hidden', 'SELECT DISTINCT ON (within_watermark(t)) t FROM (SELECT t FROM ed) a'),
	('edt_grouped', $$SELECT DISTINCT t, count(*) AS n FROM ed GROUP BY tumble(ts, '1 minute'), t$$),
	('edt_grouped_on', $$SELECT DISTINCT ON (length(t)) t FROM ed GROUP BY tumble(ts, '1 minute'), t, length(t) HAVING count(*) > 2$$),
	('edt_grouped_union', $$SELECT t, count(*) AS n FROM ed GROUP BY tumble(ts, '1 minute'), t UNION SELECT t, count(*) FROM ed WHERE t > 'b' GROUP BY tumble(ts, '1 minute'), t$$),
	('edt_limit', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM (SELECT t, ts FROM ed LIMIT 5) d) e GROUP BY w$$),
	('edt_then_count', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM (SELECT DISTINCT ON (t, ts) t, ts FROM ed) d) e GROUP BY w$$);
SELECT create_query(name, query, sink => name) FROM ed_timed \g /dev/null
SELECT start_query(name) FROM ed_timed \g /dev/null
INSERT INTO ed (t, ts) VALUES ('a', '2026-01-15 10:00Z'), ('a', '2026-01-15 10:00Z'), ('b', '2026-01-15 10:00:30Z');
SELECT process_all_available(name) FROM ed_timed \g /dev/null
-- late by the watermark 10:00:20; a again, not late; c new
INSERT INTO ed (t, ts) VALUES ('z', '2026-01-15 10:00:20Z'), ('a', '2026-01-15 10:00:40Z'), ('c', '2026-01-15 10:00:45Z'), ('n', NULL), ('n', NULL);
SELECT process_all_available(name) FROM ed_timed \g /dev/null
INSERT INTO ed (t, ts) VALUES ('d', '2026-01-15 11:00Z');
SELECT process_all_available(name) FROM ed_timed \g /dev/null

SELECT results_eq('SELECT t, ts FROM edt_time ORDER BY 1, 2', $$VALUES ('a', '2026-01-15 10:00Z'::timestamptz), ('a', '2026-01-15 10:00:40Z'),
	('b', '2026-01-15 10:00:30Z'), ('c', '2026-01-15 10:00:45Z'), ('d', '2026-01-15 11:00Z'), ('n', NULL)$$, 'with the time in the key');
SELECT results_eq('SELECT t, lower(w) FROM edt_window ORDER BY 1', $$VALUES ('a', '2026-01-15 10:00Z'::timestamptz), ('b', '2026-01-15 10:00Z'),
	('c', '2026-01-15 10:00Z'), ('d', '2026-01-15 11:00Z'), ('z', '2026-01-15 10:00Z')$$, 'with a window in the key: late by its end');
SELECT results_eq(format('SELECT t FROM %I ORDER BY 1', name), $$VALUES ('a'), ('b'), ('c'), ('d'), ('n')$$, name || ': the late row does not pass')
	FROM unnest('{edt_beside,edt_hidden,edt_hidden_deep,edt_union}'::text[]) name;
SELECT results_eq(format('SELECT t FROM %I ORDER BY 1', name), $$VALUES ('a'), ('a'), ('b'), ('c'), ('d'), ('n')$$, name || ': a comes again after the delay')
	FROM unnest('{edt_within,edt_within_hidden}'::text[]) name;
SELECT results_eq('SELECT lower(w), n FROM edt_then_count ORDER BY 1', $$VALUES ('2026-01-15 10:00Z'::timestamptz, 4::bigint)$$, 'an aggregation above');
SELECT results_eq('SELECT lower(w), n FROM edt_limit ORDER BY 1', $$VALUES ('2026-01-15 10:00Z'::timestamptz, 5::bigint)$$, 'the watermark passes LIMIT');
SELECT results_eq(format('SELECT t, n FROM %I ORDER BY 1', name), $$VALUES ('a', 3::bigint), ('b', 1), ('c', 1), ('z', 1)$$, name || ': over an aggregation of the same level, the window not selected')
	FROM unnest('{edt_grouped,edt_grouped_union}'::text[]) name;
SELECT results_eq('TABLE edt_grouped_on', $$VALUES ('a')$$, 'DISTINCT ON, too');
SELECT results_eq($$SELECT q.name, (last_progress(q.name) #>> '{stateOperators,0,numRowsTotal}')::int FROM ed_timed q WHERE q.name NOT IN ('edt_then_count', 'edt_limit', 'edt_grouped', 'edt_grouped_on', 'edt_grouped_union') ORDER BY 1$$,
	$$VALUES ('edt_beside', 5), ('edt_hidden', 5), ('edt_hidden_deep', 5), ('edt_time', 2), ('edt_union', 5), ('edt_window', 1), ('edt_within', 1), ('edt_within_hidden', 1)$$,
	'keys whose time has passed are gone');
SELECT is((SELECT sum((p #>> '{stateOperators,0,customMetrics,numDroppedDuplicateRows}')::int) FROM recent_progress('edt_time') p), 2::bigint, 'duplicates are counted');
SELECT is((SELECT sum((p #>> '{stateOperators,0,numRowsDroppedByWatermark}')::int) FROM recent_progress('edt_hidden_deep') p), 1::bigint, 'late rows too');

SELECT drop_query(name) FROM streamx.queries \g /dev/null
DROP FOREIGN TABLE ed, ed_plain;
SELECT finish();
