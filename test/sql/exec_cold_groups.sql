-- Groups that only the store holds are fetched many at a time, and the rows that want them wait:
-- whatever the number of windows, with values by reference.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT plan(5);
SELECT create_stream('cg_s', 'k int, v numeric, t text, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''1 hour''');
CREATE VIEW cg_queries AS SELECT store, kind, 'cg_' || kind || '_' || store AS name FROM unnest('{rocksdb,table}'::text[]) store, unnest('{plain,hop}'::text[]) kind
	WHERE store = 'rocksdb' OR kind = 'plain';
SELECT create_query(name, CASE kind
	WHEN 'plain' THEN 'SELECT k, count(*) AS c, sum(v) AS s, count(DISTINCT v) AS d, string_agg(t, '','' ORDER BY t) AS a, max(v) FILTER (WHERE v > 3) AS f FROM cg_s GROUP BY k'
	ELSE 'SELECT k, w, count(*) AS c, max(t) AS t FROM (SELECT k, hop(ts, ''8 seconds'', ''2 seconds'') AS w, t FROM cg_s) s GROUP BY k, w' END,
	sink => name, output_mode => 'update', options => jsonb_build_object('state_store', store, 'state_memory', '1MB', 'batch_rows', 1000000, 'max_future_skew', 'off'))
FROM cg_queries;
SELECT start_query(name) FROM cg_queries;
INSERT INTO cg_s SELECT k, k % 5, 'a' || k, '2026-01-01Z'::timestamptz + k % 60 * interval '1 s' FROM generate_series(1, 20000) k;
SELECT process_all_available(name, '120 s') FROM cg_queries;
-- old keys and new ones, some of them often; one batch of many chunks
INSERT INTO cg_s SELECT k * 7919 % 25000 + 1, k % 7, 'b' || k, '2026-01-01Z'::timestamptz + k % 60 * interval '1 s' FROM generate_series(1, 30000) k;
SELECT process_all_available(name, '120 s') FROM cg_queries;
SELECT is((SELECT count(*) FROM streamx.progress WHERE query LIKE 'cg\_%' AND input_rows = 30000), 3::bigint, 'the rows that wait are one batch');
-- more bytes than may wait
INSERT INTO cg_s SELECT k, 1, repeat('long ', 200), '2026-01-01Z'::timestamptz + k % 60 * interval '1 s' FROM generate_series(1, 6000) k;
SELECT process_all_available(name, '120 s') FROM cg_queries;
SELECT is_empty(format('(TABLE %1$I EXCEPT TABLE streamx_query.%1$I) UNION ALL (TABLE streamx_query.%1$I EXCEPT TABLE %1$I)', name), name || ' is the batch answer')
FROM cg_queries ORDER BY name COLLATE "C";
SELECT is((SELECT count(*) FROM streamx.failures WHERE query LIKE 'cg\_%'), 0::bigint, 'nothing failed');
SELECT drop_query(name) FROM cg_queries;
DROP TABLE cg_plain_rocksdb, cg_plain_table, cg_hop_rocksdb;
DROP VIEW cg_queries;
DROP FOREIGN TABLE cg_s;
SELECT * FROM finish();
