-- Keys of joins of streams: what "=" of their types says; keys with thousands of rows;
-- tables, CTEs and LATERAL beside the streams; restarts with another definition.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

-- A server without citext gets ordinary text there, and rows whose case does not differ.
SELECT count(*) > 0 AS has_citext FROM pg_available_extensions WHERE name = 'citext' \gset
\if :has_citext
CREATE EXTENSION IF NOT EXISTS citext;
\else
CREATE DOMAIN citext AS text;
\endif

CREATE FOREIGN TABLE ek_l (id int, k int, n numeric, f float8, c citext, d date, v int, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE FOREIGN TABLE ek_r (id int, k bigint, n numeric, f float4, c citext, d timestamptz, v int, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE TABLE ek_dim (k int, name text);
INSERT INTO ek_dim SELECT i, 'dim ' || i FROM generate_series(1, 3) i;
CREATE TABLE ek_queries (name text, query text);
INSERT INTO ek_queries SELECT name, format(query, $$r.ts BETWEEN l.ts - interval '5 seconds' AND l.ts + interval '5 seconds'$$) FROM (VALUES
	('ek_numeric', 'SELECT l.id, r.id AS rid FROM ek_l l LEFT JOIN ek_r r ON l.n = r.n AND %s'),
	('ek_float', 'SELECT l.id, r.id AS rid FROM ek_l l FULL JOIN ek_r r ON l.f = r.f AND %s'),
	('ek_citext', 'SELECT l.id, r.id AS rid FROM ek_l l FULL JOIN ek_r r ON l.c = r.c AND %s'),
	('ek_mixed', 'SELECT l.id, r.id AS rid FROM ek_l l LEFT JOIN ek_r r ON l.k = r.k AND l.n = r.n AND l.f = r.f AND %s'),
	('ek_date', 'SELECT l.id, r.id AS rid FROM ek_l l JOIN ek_r r ON l.d = r.d AND %s'),
	('ek_anti', 'SELECT l.id, NULL::int AS rid FROM ek_l l WHERE NOT EXISTS (SELECT 1 FROM ek_r r WHERE r.c = l.c AND r.n = l.n AND %s ORDER BY r.id)'),
	('ek_in', 'SELECT l.id, NULL::int AS rid FROM ek_l l WHERE l.n IN (SELECT r.n FROM ek_r r WHERE %s ORDER BY r.id)'),
	('ek_dims', 'SELECT l.id, r.id AS rid FROM (ek_l l JOIN ek_dim d ON d.k = l.k) LEFT JOIN (ek_r r LEFT JOIN ek_dim e ON e.k = r.k) ON l.k = r.k AND e.name = d.name AND %s'),
	('ek_dim_above', $$SELECT l.id, r.id AS rid FROM ek_l l JOIN ek_r r ON l.k = r.k AND %s LEFT JOIN ek_dim d ON d.k = r.k WHERE coalesce(d.name, '') <> 'dim 2'$$),
	('ek_cte', 'WITH big AS (SELECT * FROM ek_l WHERE v >= 0), names AS (SELECT k FROM ek_dim WHERE k < 3) SELECT l.id, r.id AS rid FROM big l LEFT JOIN ek_r r ON l.k = r.k AND %s WHERE l.k IN (SELECT k FROM names)'),
	('ek_lateral', 'SELECT l.id, x.id AS rid FROM ek_l l CROSS JOIN LATERAL (SELECT l.k + 0 AS k) y JOIN (SELECT r.*, z.k2 FROM ek_r r, LATERAL (SELECT r.k AS k2) z) x ON y.k = x.k2 AND x.ts BETWEEN l.ts - interval ''5 seconds'' AND l.ts + interval ''5 seconds'''),
	('ek_values', 'SELECT l.id, r.id AS rid FROM ek_l l JOIN ek_r r ON l.k = r.k AND %s, LATERAL (VALUES (l.v, r.v)) x(a, b) WHERE x.a <= x.b')) q(name, query);
CREATE TABLE ek_runs AS SELECT name || '_' || s AS name, query, s AS store FROM ek_queries, unnest('{rocksdb,table}'::text[]) s
	WHERE s = 'rocksdb' OR name = 'ek_citext';
SELECT create_query(name, query, sink => name, options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM ek_runs \g /dev/null

SELECT start_query(name) FROM ek_runs \g /dev/null
INSERT INTO ek_l VALUES (1, 1, 1.0, 0, 'Abc', '2026-01-15', 1, '2026-01-15 10:00Z'), (2, 2, 'NaN', 'NaN', 'x', '2026-01-16', 2, '2026-01-15 10:00:01Z'),
	(3, NULL, NULL, NULL, NULL, NULL, 3, '2026-01-15 10:00:02Z'), (4, 3, 2.50, '-0', 'abc', '2026-01-15', -4, '2026-01-15 10:00:03Z'), (5, 1, 1, 1.5, 'y', NULL, 5, NULL);
SELECT process_all_available(name) FROM ek_runs \g /dev/null
SELECT stop_query(name) FROM ek_runs \g /dev/null
SELECT start_query(name) FROM ek_runs \g /dev/null
INSERT INTO ek_r VALUES (1, 1, 1.00, '-0', 'Abc', '2026-01-15', 2, '2026-01-15 10:00Z'), (2, 2, 'NaN', 'NaN', 'x', '2026-01-15 00:00:01Z', 2, '2026-01-15 10:00:05Z'),
	(3, NULL, NULL, NULL, NULL, NULL, 3, '2026-01-15 10:00:02Z'), (4, 3, 2.5, 0, 'Abc', '2026-01-16', 4, '2026-01-15 10:00:03Z'), (5, 1, 1.000, 1.5, 'y', NULL, 5, NULL);
\if :has_citext
INSERT INTO ek_r VALUES (6, 3, 2.500, 0, 'ABC', '2026-01-15', 4, '2026-01-15 10:00:03.5Z');
\endif
SELECT process_all_available(name) FROM ek_runs \g /dev/null
INSERT INTO ek_l VALUES (7, 3, 2.5000, 0, 'aBC', '2026-01-15', 1, '2026-01-15 10:00:08.5Z'), (8, 9, 9, 9, 'Abc', '2026-01-15', 9, '2026-01-15 10:00:08.501Z');
SELECT process_all_available(name) FROM ek_runs \g /dev/null
INSERT INTO ek_l VALUES (-1, -1, -1, -1, 'end', '2027-01-15', -1, '2026-01-16 10:00Z');
INSERT INTO ek_r VALUES (-2, -2, -2, -2, 'stop', '2028-01-15', -1, '2026-01-16 10:00Z');
SELECT process_all_available(name) FROM ek_runs \g /dev/null
-- those whose event time is NULL never go
SELECT is_empty(format('(SELECT * FROM %1$I EXCEPT ALL SELECT * FROM streamx_query.%1$I) UNION ALL (SELECT * FROM (SELECT * FROM streamx_query.%1$I EXCEPT ALL SELECT * FROM %1$I) x
		WHERE id IS DISTINCT FROM 5 AND rid IS DISTINCT FROM 5 AND coalesce(id, 0) >= 0 AND coalesce(rid, 0) >= 0)', name), name || ' is what its batch query answers')
	FROM ek_runs ORDER BY name;
SELECT drop_query(name) FROM ek_runs \g /dev/null

-- one key with thousands of rows: pages are full, rows go from their middle and from their beginning
CREATE FOREIGN TABLE eh_l (k int, v int, ts timestamptz OPTIONS (watermark '20 seconds')) SERVER streamx;
CREATE FOREIGN TABLE eh_r (k int, v int, ts timestamptz OPTIONS (watermark '20 seconds')) SERVER streamx;
CREATE TABLE eh_queries (name text, query text);
INSERT INTO eh_queries VALUES
	('eh_left', $$SELECT l.v, r.v AS rv FROM eh_l l LEFT JOIN eh_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '1 second' AND r.v > l.v$$),
	('eh_full', $$SELECT l.v, r.v AS rv FROM eh_l l FULL JOIN eh_r r ON l.k = r.k AND r.ts > l.ts - interval '1 second' AND r.ts < l.ts$$),
	('eh_inner', $$SELECT l.v, r.v AS rv FROM eh_l l JOIN eh_r r ON l.k = r.k AND r.v - l.v = l.v$$),
	('eh_lower', $$SELECT l.v, r.v AS rv FROM eh_l l JOIN eh_r r ON l.k = r.k AND r.ts >= l.ts AND r.v - l.v = 7$$),
	('eh_exists', $$SELECT l.v, 0 AS rv FROM eh_l l WHERE EXISTS (SELECT 1 FROM eh_r r WHERE r.k = l.k AND (r.v - l.v) % 64 = 0 AND r.ts BETWEEN l.ts AND l.ts + interval '10 seconds')$$),
	('eh_window', $$SELECT l.v, r.v AS rv FROM (SELECT *, tumble(ts, '1 minute') AS w FROM eh_l) l LEFT JOIN (SELECT *, tumble(ts, '1 minute') AS w FROM eh_r) r ON l.w = r.w AND l.k = r.k AND r.v - l.v / 2 = 0$$);
CREATE TABLE eh_runs AS SELECT name || '_' || s AS name, query, s AS store FROM eh_queries, unnest('{rocksdb,table}'::text[]) s WHERE s = 'rocksdb' OR name = 'eh_left';
SELECT create_query(name, query, sink => name, options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM eh_runs \g /dev/null
SELECT start_query(name) FROM eh_runs \g /dev/null
CREATE FUNCTION eh_insert(part int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO eh_l SELECT 1, i, timestamptz '2026-01-15 10:00Z' + part * interval '15 seconds' + (i * 7919 % 15000) * interval '1 ms' FROM generate_series(1, 500) i;
	INSERT INTO eh_r SELECT 1, i, timestamptz '2026-01-15 10:00Z' + part * interval '15 seconds' + (i * 6947 % 15000) * interval '1 ms' FROM generate_series(1, 150) i;
$$;
SELECT eh_insert(0) \g /dev/null
SELECT process_all_available(name) FROM eh_runs \g /dev/null
SELECT eh_insert(1) \g /dev/null
SELECT process_all_available(name) FROM eh_runs \g /dev/null
SELECT stop_query(name) FROM eh_runs \g /dev/null
SELECT eh_insert(2) \g /dev/null
SELECT start_query(name) FROM eh_runs \g /dev/null
SELECT process_all_available(name) FROM eh_runs \g /dev/null
SELECT eh_insert(3) \g /dev/null
SELECT process_all_available(name) FROM eh_runs \g /dev/null
INSERT INTO eh_l VALUES (-1, -1, '2026-01-16 10:00Z');
INSERT INTO eh_r VALUES (-2, -1, '2026-01-16 10:00Z');
SELECT process_all_available(name) FROM eh_runs \g /dev/null
SELECT is_empty(format('(SELECT * FROM %1$I EXCEPT ALL SELECT * FROM streamx_query.%1$I) UNION ALL (SELECT * FROM (SELECT * FROM streamx_query.%1$I EXCEPT ALL SELECT * FROM %1$I) x
		WHERE v IS DISTINCT FROM -1 AND rv IS DISTINCT FROM -1)', name), name || ' is what its batch query answers')
	FROM eh_runs ORDER BY name;
SELECT is((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::int, 2, name || ': only the rows after the watermark are kept')
	FROM eh_runs WHERE name !~ 'inner|lower' ORDER BY name;

-- another range is another layout, of which alter_query warns; another condition isn't
SET client_min_messages = error;
SELECT stop_query('eh_left_table') \g /dev/null
SELECT alter_query('eh_left_table', query => $$SELECT l.v, r.v AS rv FROM eh_l l LEFT JOIN eh_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '2 seconds'$$) \g /dev/null
SELECT throws_like($$SELECT start_query('eh_left_table')$$, '%does not fit its new definition%', 'a range that keeps rows longer does not fit the state');
SELECT alter_query('eh_left_table', query => $$SELECT l.k AS v, r.v AS rv FROM eh_l l LEFT JOIN eh_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '1 second'$$) \g /dev/null
SELECT throws_like($$SELECT start_query('eh_left_table')$$, '%does not fit its new definition%', 'another column of the same type does not, either');
SELECT alter_query('eh_left_table', query => $$SELECT l.v, r.v AS rv FROM eh_l l LEFT JOIN eh_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '1 second' AND r.v < l.v$$) \g /dev/null
SELECT lives_ok($$SELECT start_query('eh_left_table')$$, 'another condition besides keys and range does');
SET client_min_messages = warning;
SELECT drop_query(name) FROM eh_runs \g /dev/null

-- a row more for a key with 20,000 rows puts the row and its page, not the rest
SELECT create_query('eh_hot', $$SELECT l.v FROM eh_l l LEFT JOIN eh_r r ON l.k = r.k AND r.ts BETWEEN l.ts AND l.ts + interval '1 second'$$, sink => 'noop') \g /dev/null
SELECT start_query('eh_hot') \g /dev/null
INSERT INTO eh_l SELECT 5, i, timestamptz '2026-01-17 10:00Z' + (i::bigint * 7919 * 104729 % 19000000) * interval '1 us' FROM generate_series(1, 20000) i;
SELECT process_all_available('eh_hot') \g /dev/null
INSERT INTO eh_l VALUES (5, 0, '2026-01-17 10:00:20Z');
SELECT process_all_available('eh_hot') \g /dev/null
INSERT INTO eh_l VALUES (5, 0, '2026-01-17 10:00:20Z');
SELECT process_all_available('eh_hot') \g /dev/null
INSERT INTO eh_r VALUES (5, 0, '2026-01-17 10:00:20Z');
SELECT process_all_available('eh_hot') \g /dev/null
SELECT (last_progress('eh_hot') ->> 'batchId')::bigint AS last, id AS hot FROM streamx.query WHERE name = 'eh_hot' \gset
SELECT string_agg(format('SELECT batch, octet_length(data) AS bytes FROM streamx_data.%I', relname), ' UNION ALL ') AS log FROM pg_class
	WHERE relnamespace = 'streamx_data'::regnamespace AND relkind = 'r' AND relname LIKE 'state\_log\_' || :hot || '\_%' \gset
-- snapshots are written in some batches, too
SELECT cmp_ok(min(bytes), '<', 20000::bigint, 'a row more for a key with many rows writes a page')
	FROM (SELECT sum(bytes) AS bytes FROM (:log) l WHERE batch > 2 AND batch <= :last GROUP BY batch) b;
SELECT drop_query('eh_hot') \g /dev/null

-- what can't be
CREATE ROLE ek_nobody LOGIN;
GRANT SELECT ON ek_l TO ek_nobody;
SELECT throws_like(format('SELECT create_query(''ek_no'', %L, sink => ''noop'')', query), pattern, why) FROM (VALUES
	('SELECT l.id FROM ek_l l JOIN ek_r r ON l.k = r.k AND random() * l.v < r.v', '%a condition of a join of two streams is volatile%', 'a volatile condition'),
	($$SELECT l.id FROM ek_l l LEFT JOIN ek_r r ON l.k = r.k AND l.v > random() AND r.ts BETWEEN l.ts AND l.ts + interval '1 second'$$, '%is volatile%', 'also of one side'),
	($$SELECT l.id FROM ek_l l LEFT JOIN ek_r r ON l.k = r.k AND r.v > (SELECT max(k) FROM ek_dim WHERE k < l.v) AND r.ts BETWEEN l.ts AND l.ts + interval '1 second'$$, '%subquery in the condition of a join%', 'a subquery over both sides'),
	('SELECT l.id FROM ek_l l, LATERAL (SELECT * FROM ek_r r WHERE r.k = l.k) r', '%LATERAL subquery over a stream cannot use columns of another stream%', 'LATERAL from stream to stream')) q(query, pattern, why);
SET ROLE ek_nobody;
SELECT throws_ok($$SELECT create_query('ek_no', 'SELECT l.id FROM ek_l l JOIN ek_r r ON l.k = r.k', sink => 'noop')$$, '42501', NULL, 'the right to read both streams is needed');
RESET ROLE;
DROP FOREIGN TABLE ek_l, ek_r, eh_l, eh_r;
DROP OWNED BY ek_nobody;
DROP ROLE ek_nobody;
SELECT finish();
