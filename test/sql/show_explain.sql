-- explain_query, as people see it. How much memory is used depends on the machine.
\set QUIET 1
\pset pager off
\pset tuples_only true
\pset format unaligned
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
CREATE FOREIGN TABLE se (id int, k text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE se_plain (id int, at timestamptz) SERVER streamx;
CREATE TABLE se_dim (k text, name text);
CREATE FUNCTION se_explain(query text) RETURNS SETOF text LANGUAGE sql AS
	$$ SELECT regexp_replace(l, 'memory [1-9]\d* bytes', 'memory some bytes') FROM explain_query($1) l $$;
SELECT create_query('se_copy', 'SELECT id FROM se_plain WHERE id > 5', sink => 'noop');
SELECT create_query('se_windows', $$SELECT w, k, count(*), avg(v), array_agg(v ORDER BY id) FROM (SELECT tumble(ts, '1 minute') AS w, k, v, id FROM se) s GROUP BY w, k$$,
	sink => 'noop', options => '{"state_store": "table"}');
SELECT create_query('se_hop', $$SELECT hop(ts, '10 seconds', '5 seconds') AS w, count(*) FROM se GROUP BY w$$, sink => 'se_hop', output_mode => 'update', options => '{"state_store": "rocksdb"}');
SELECT create_query('se_chain', $$SELECT tumble(t, '1 hour') AS h, count(*) FROM (SELECT DISTINCT ON (k, ts) k, ts AS t FROM se) d LEFT JOIN se_dim USING (k) GROUP BY h$$, sink => 'noop');
SELECT create_query('se_within', $$SELECT DISTINCT ON (within_watermark(id)) id, t FROM (SELECT id, watermark(at, '1 hour') AS t FROM se_plain UNION ALL SELECT id, ts FROM se) u$$, sink => 'noop');
SELECT create_query('se_join', 'SELECT a.id, b.v FROM se a LEFT JOIN se b ON a.k = b.k AND a.v > 0 AND b.ts BETWEEN a.ts AND a.ts + interval ''1 minute''', sink => 'noop');
SELECT create_query('se_session', 'SELECT session(ts, ''1 minute'') AS w, k, count(*) FROM se GROUP BY w, k', sink => 'noop');
SELECT create_query('se_limit', 'SELECT id FROM se_plain LIMIT 10', sink => 'noop', trigger => 'realtime');
SELECT se_explain('se_copy');
SELECT se_explain('se_windows');
INSERT INTO se VALUES (1, 'a', 1, '2024-01-01 00:00:00Z'), (2, 'b', 1, '2024-01-01 00:02:00Z');
INSERT INTO se_plain VALUES (1, '2024-01-01 00:00:00Z'), (2, '2024-01-01 00:00:00Z');
SELECT start_query(name) FROM streamx.queries WHERE name LIKE 'se%' \g /dev/null
SELECT process_all_available(name, '60 s') FROM streamx.queries WHERE name LIKE 'se%' \g /dev/null
SELECT se_explain('se_windows');
SELECT se_explain('se_hop');
SELECT se_explain('se_chain');
SELECT se_explain('se_within');
SELECT se_explain('se_join');
SELECT se_explain('se_session');
SELECT se_explain('se_limit');
SELECT stop_query(name) FROM streamx.queries WHERE name LIKE 'se%' \g /dev/null
SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'se%' \g /dev/null
DROP FOREIGN TABLE se, se_plain;
DROP TABLE se_dim, se_hop;
DROP FUNCTION se_explain;
