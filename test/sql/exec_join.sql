-- Joins of streams, over several batches with restarts: the result is that of the
-- batch query over all rows once the watermark has passed them, and the state is
-- empty then.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE ej_l (k int, n numeric, t text, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE FOREIGN TABLE ej_r (k bigint, n numeric, t text, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE FOREIGN TABLE ej_u (k int, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE TABLE ej_dim (k int, name text);
INSERT INTO ej_dim SELECT i, 'dim ' || i FROM generate_series(1, 40) i;

CREATE TABLE ej_queries (name text, query text, rows_left int);
INSERT INTO ej_queries VALUES
	('ej_inner', $$SELECT l.k, l.t, r.t AS rt FROM ej_l l JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, 2),
	('ej_where', $$SELECT l.k, l.t, r.t AS rt FROM ej_l l, ej_r r WHERE l.k = r.k AND r.ts - l.ts <= interval '5 seconds' AND NOT l.ts > r.ts AND l.t <> 'x1'$$, 2),
	('ej_both', $$SELECT l.k, l.t, r.t AS rt FROM ej_l l JOIN ej_r r USING (k) WHERE l.ts - interval '3 seconds' < r.ts AND r.ts - interval '5 seconds' <= l.ts$$, 2),
	('ej_extra', $$SELECT l.k, l.t, r.t AS rt FROM ej_l l JOIN ej_r r ON l.k = r.k AND l.n < r.n AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, 2),
	('ej_numeric', $$SELECT l.k, l.n, r.n AS rn FROM ej_l l JOIN ej_r r ON l.n = r.n AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, 2),
	('ej_expression', $$SELECT l.k, l.t FROM ej_l l JOIN ej_r r ON lower(l.t) = r.t AND l.k % 10 = r.k % 10 AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, 2),
	('ej_left', $$SELECT l.k, l.t, r.k AS rk, r.t AS rt FROM ej_l l LEFT JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds' AND l.t <> 'x1' AND r.t <> 'x2'$$, 2),
	('ej_right', $$SELECT l.k, l.t, r.k AS rk, r.t AS rt FROM ej_l l RIGHT JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts - interval '5 seconds' AND l.ts + interval '5 seconds' AND l.t <> 'x1' AND r.t <> 'x2'$$, 2),
	('ej_full', $$SELECT l.k, l.t, r.k AS rk, r.t AS rt FROM ej_l l FULL JOIN ej_r r ON l.k = r.k AND l.t <> 'x1' AND r.t <> 'x2' AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, 2),
	('ej_exists', $$SELECT l.k, l.t FROM ej_l l WHERE l.t <> 'x1' AND EXISTS (SELECT 1 FROM ej_r r WHERE r.k = l.k AND r.t <> 'x2' AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds')$$, 2),
	('ej_in', $$SELECT l.k, l.t FROM ej_l l WHERE l.k IN (SELECT r.k FROM ej_r r WHERE r.ts BETWEEN l.ts AND l.ts + interval '5 seconds')$$, 2),
	('ej_not_exists', $$SELECT l.k, l.t FROM ej_l l WHERE l.t <> 'x1' AND NOT EXISTS (SELECT 1 FROM ej_r r WHERE r.k = l.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds')$$, 2),
	('ej_window', $$SELECT l.k, l.t, r.t AS rt FROM (SELECT *, tumble(ts, '10 seconds') AS w FROM ej_l) l LEFT JOIN (SELECT *, tumble(ts, '10 seconds') AS w FROM ej_r) r ON l.w = r.w AND l.k = r.k$$, 2),
	('ej_self', $$SELECT a.k, a.t, b.t AS bt FROM ej_l a JOIN ej_l b ON a.k = b.k AND b.ts > a.ts AND b.ts <= a.ts + interval '5 seconds'$$, 2),
	('ej_three', $$SELECT l.k, l.t, r.t AS rt FROM ej_l l JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds' JOIN ej_u u ON u.k = l.k AND u.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, NULL),
	('ej_dim', $$SELECT l.k, l.t, d.name FROM ej_l l JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds' LEFT JOIN ej_dim d ON d.k = r.k$$, 2),
	('ej_filter_above', $$SELECT l.k, l.t FROM ej_l l LEFT JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds' WHERE r.k IS NULL AND l.k > 3$$, 2),
	('ej_count', $$SELECT tumble(lts, '1 minute') AS w, k, count(*) AS n FROM (SELECT l.k, l.ts AS lts FROM ej_l l JOIN ej_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds') j GROUP BY w, k$$, NULL);
CREATE TABLE ej_runs AS SELECT q.name || '_' || s AS name, query, s AS store, rows_left FROM ej_queries q, unnest('{rocksdb,table}'::text[]) s
	WHERE s = 'rocksdb' OR q.name IN ('ej_left', 'ej_three');
SELECT create_query(name, query, sink => name, options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM ej_runs \g /dev/null

-- five parts of time; within each the rows come in no order. Keys are scarce, some are NULL
CREATE FUNCTION ej_insert(part int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO ej_l SELECT nullif(i * 7 % 41, 0), ((i * 7 % 41) || CASE i % 3 WHEN 0 THEN '.0' ELSE '' END)::numeric, 'x' || i % 4,
		timestamptz '2026-01-15 10:00Z' + part * interval '1 minute' + (i * 7919 % 60000) * interval '1 ms' FROM generate_series(1, 300) i;
	INSERT INTO ej_r SELECT nullif(i * 11 % 43, 0), (i * 11 % 43) * 1.00, 'x' || i % 5,
		timestamptz '2026-01-15 10:00Z' + part * interval '1 minute' + (i * 6947 % 60000) * interval '1 ms' FROM generate_series(1, 300) i;
	INSERT INTO ej_u SELECT i % 41, timestamptz '2026-01-15 10:00Z' + part * interval '1 minute' + (i * 104729 % 60000) * interval '1 ms' FROM generate_series(1, 150) i;
$$;
SELECT start_query(name) FROM ej_runs \g /dev/null
SELECT ej_insert(0) \g /dev/null
SELECT process_all_available(name) FROM ej_runs \g /dev/null
SELECT ej_insert(1) \g /dev/null
SELECT stop_query(name) FROM ej_runs \g /dev/null
SELECT start_query(name) FROM ej_runs \g /dev/null
SELECT process_all_available(name) FROM ej_runs \g /dev/null
SELECT ej_insert(2) \g /dev/null
SELECT ej_insert(3) \g /dev/null
SELECT stop_query(name) FROM ej_runs \g /dev/null
SELECT start_query(name) FROM ej_runs \g /dev/null
SELECT process_all_available(name) FROM ej_runs \g /dev/null
SELECT ej_insert(4) \g /dev/null
SELECT process_all_available(name) FROM ej_runs \g /dev/null
-- the watermark passes them all; keys that match nothing
INSERT INTO ej_l VALUES (-1, -1, 'end', '2026-01-16 10:00Z');
INSERT INTO ej_r VALUES (-2, -2, 'end', '2026-01-16 10:00Z');
INSERT INTO ej_u VALUES (-3, '2026-01-16 10:00Z');
SELECT process_all_available(name) FROM ej_runs \g /dev/null

SELECT is_empty(format('(TABLE %1$I EXCEPT ALL TABLE streamx_query.%1$I) UNION ALL (SELECT * FROM (TABLE streamx_query.%1$I EXCEPT ALL TABLE %1$I) x WHERE x::text !~ %2$L)', name, '-[123]'),
		name || ' is what its batch query answers')
	FROM ej_runs ORDER BY name;
SELECT is((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::int, rows_left, name || ': only the rows after the watermark are kept')
	FROM ej_runs WHERE rows_left IS NOT NULL ORDER BY name;
SELECT is_empty(format('SELECT kind, key, detail FROM streamx.verify(%L)', name), name || ': verify finds nothing') FROM ej_runs
	WHERE name IN ('ej_left_rocksdb', 'ej_full_rocksdb', 'ej_exists_rocksdb', 'ej_not_exists_rocksdb', 'ej_window_rocksdb', 'ej_three_table') ORDER BY name;
SELECT is_empty($$SELECT * FROM streamx.conservation WHERE query LIKE 'ej\_%' AND NOT balanced$$, 'every row is accounted for');
SELECT isnt((SELECT count(*) FROM ej_left_table WHERE rk IS NULL), 0::bigint, 'there were rows without a match');

SELECT drop_query(name) FROM ej_runs \g /dev/null
DROP FOREIGN TABLE ej_l, ej_r, ej_u;
SELECT finish();
