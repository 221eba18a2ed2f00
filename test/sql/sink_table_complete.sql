-- Complete mode changes only what differs.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('stc', 'k text, n int');

SELECT create_query('stc', 'SELECT k, sum(n) AS total FROM stc GROUP BY k HAVING sum(n) > 0', sink => 'stc_sink', output_mode => 'complete');
SELECT start_query('stc');
INSERT INTO stc VALUES ('a', 1), ('b', 2), (NULL, 5);
SELECT process_all_available('stc');
CREATE TEMP TABLE was AS SELECT ctid AS c, xmin::text AS x, k FROM stc_sink;
INSERT INTO stc VALUES ('a', 1), ('c', 7), (NULL, -5);
SELECT process_all_available('stc');
SELECT set_eq('SELECT * FROM stc_sink', $$VALUES ('a', 2::bigint), ('b', 2), ('c', 7)$$, 'the sink is the complete result');
SELECT is((SELECT count(*) FROM stc_sink s JOIN was ON was.x = s.xmin::text AND was.c = s.ctid AND was.k = s.k), 1::bigint,
	'a row that did not change was not written');
SELECT drop_query('stc');

-- without the key in the result: rows are counted
SELECT create_query('stc_rows', 'SELECT sum(n) AS total, ''{}''::json AS j FROM stc GROUP BY k', sink => 'stc_rows', output_mode => 'complete');
SELECT start_query('stc_rows');
SELECT process_all_available('stc_rows');
SELECT set_eq('SELECT total, count(*) FROM stc_rows GROUP BY total', $$VALUES (2::bigint, 2::bigint), (7, 1), (0, 1)$$, 'equal rows are as many as there are groups');
DELETE FROM was;
INSERT INTO was SELECT ctid, xmin::text, total::text FROM stc_rows;
INSERT INTO stc VALUES ('a', 5);
SELECT process_all_available('stc_rows');
SELECT set_eq('SELECT total, count(*) FROM stc_rows GROUP BY total', $$VALUES (2::bigint, 1::bigint), (7, 2), (0, 1)$$, 'and change with them');
SELECT is((SELECT count(*) FROM stc_rows s JOIN was ON was.x = s.xmin::text AND was.c = s.ctid), 3::bigint, 'the others stay untouched');
SELECT drop_query('stc_rows');

-- ORDER BY and LIMIT above the aggregation
SELECT create_query('stc_top', 'SELECT k, sum(n) AS total FROM stc GROUP BY k ORDER BY total DESC, k LIMIT 2', sink => 'stc_top', output_mode => 'complete');
SELECT start_query('stc_top');
SELECT process_all_available('stc_top');
SELECT set_eq('SELECT k, total FROM stc_top', $$VALUES ('a', 7::bigint), ('c', 7)$$, 'the first two');
INSERT INTO stc VALUES ('b', 100);
SELECT process_all_available('stc_top');
SELECT set_eq('SELECT k, total FROM stc_top', $$VALUES ('b', 102::bigint), ('a', 7)$$, 'who falls out is deleted');
SELECT drop_query('stc_top');

DROP FOREIGN TABLE stc;
DROP TABLE stc_sink, stc_rows, stc_top;
SELECT * FROM finish();
