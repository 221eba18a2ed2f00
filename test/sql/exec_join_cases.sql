-- What went wrong with joins of streams elsewhere.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

-- CASE-01: an outer join that later denies a match: the sides keep their rows for different times
CREATE FOREIGN TABLE ejc_l (id int, ts timestamptz OPTIONS (watermark '0 seconds')) SERVER streamx;
CREATE FOREIGN TABLE ejc_r (id int, ts timestamptz OPTIONS (watermark '0 seconds')) SERVER streamx;
CREATE TABLE ejc_runs AS SELECT 'ejc_' || s AS name, s AS store FROM unnest('{rocksdb,table}'::text[]) s;
SELECT create_query(name, $$SELECT l.id, l.ts AS lts, r.ts AS rts FROM ejc_l l LEFT JOIN ejc_r r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$,
	sink => name, options => jsonb_build_object('state_store', store)) FROM ejc_runs \g /dev/null
SELECT start_query(name) FROM ejc_runs \g /dev/null
INSERT INTO ejc_l VALUES (1, '2026-01-15 10:00:00Z');
INSERT INTO ejc_r VALUES (1, '2026-01-15 10:00:00Z');
SELECT process_all_available(name) FROM ejc_runs \g /dev/null
INSERT INTO ejc_l VALUES (9, '2026-01-15 10:00:03Z');
INSERT INTO ejc_r VALUES (9, '2026-01-15 10:00:03Z');
SELECT process_all_available(name) FROM ejc_runs \g /dev/null
INSERT INTO ejc_l VALUES (9, '2026-01-15 10:00:20Z');
INSERT INTO ejc_r VALUES (9, '2026-01-15 10:00:20Z');
SELECT process_all_available(name) FROM ejc_runs \g /dev/null
INSERT INTO ejc_l VALUES (9, '2026-01-15 10:01:00Z');
INSERT INTO ejc_r VALUES (9, '2026-01-15 10:01:00Z');
SELECT process_all_available(name) FROM ejc_runs \g /dev/null
SELECT results_eq(format('SELECT * FROM %I ORDER BY lts', name), $$VALUES (1, '2026-01-15 10:00:00Z'::timestamptz, '2026-01-15 10:00:00Z'::timestamptz),
	(9, '2026-01-15 10:00:03Z', '2026-01-15 10:00:03Z'), (9, '2026-01-15 10:00:20Z', '2026-01-15 10:00:20Z'), (9, '2026-01-15 10:01:00Z', '2026-01-15 10:01:00Z')$$,
	name || ': a matched row does not come again when its partner is gone') FROM ejc_runs ORDER BY name;
SELECT drop_query(name) FROM ejc_runs \g /dev/null

-- CASE-02: a key that gets a row in the batch that drops its old one
CREATE FOREIGN TABLE ejk_l (id int, ts timestamptz OPTIONS (watermark '10 minutes')) SERVER streamx;
CREATE FOREIGN TABLE ejk_r (id int, ts timestamptz OPTIONS (watermark '10 minutes')) SERVER streamx;
CREATE TABLE ejk_runs AS SELECT format('ejk_%s_%s', s, CASE drained WHEN 'true' THEN 'drained' ELSE 'not_drained' END) AS name, s AS store, drained
	FROM unnest('{rocksdb,table}'::text[]) s, unnest('{true,false}'::text[]) drained;
SELECT create_query(name, $$SELECT l.id, l.ts AS lts, r.ts AS rts FROM ejk_l l LEFT JOIN ejk_r r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + interval '5 minutes'$$,
	sink => name, options => jsonb_build_object('state_store', store, 'no_data_batches', drained)) FROM ejk_runs \g /dev/null
SELECT start_query(name) FROM ejk_runs \g /dev/null
INSERT INTO ejk_l VALUES (1, '2026-01-15 10:00Z');
SELECT process_all_available(name) FROM ejk_runs \g /dev/null
INSERT INTO ejk_l VALUES (7, '2026-01-15 11:00Z');
INSERT INTO ejk_r VALUES (7, '2026-01-15 11:00Z');
SELECT process_all_available(name) FROM ejk_runs \g /dev/null
INSERT INTO ejk_l VALUES (1, '2026-01-15 10:55Z');
SELECT process_all_available(name) FROM ejk_runs \g /dev/null
INSERT INTO ejk_r VALUES (1, '2026-01-15 10:56Z');
SELECT process_all_available(name) FROM ejk_runs \g /dev/null
SELECT results_eq(format('SELECT * FROM %I ORDER BY lts', name), $$VALUES (1, '2026-01-15 10:00Z'::timestamptz, NULL::timestamptz),
	(1, '2026-01-15 10:55Z', '2026-01-15 10:56Z'), (7, '2026-01-15 11:00Z', '2026-01-15 11:00Z')$$, name) FROM ejk_runs ORDER BY name;
SELECT drop_query(name) FROM ejk_runs \g /dev/null

-- CASE-04: an unmatched row that could be contradicted is refused
CREATE FOREIGN TABLE ejc_plain (id int, ts timestamptz) SERVER streamx;
SELECT throws_like(format('SELECT create_query(''ejc_no'', %L, sink => ''noop'')', query), pattern, why) FROM (VALUES
	('SELECT l.id FROM ejc_l l LEFT JOIN ejc_plain r ON l.id = r.id AND l.ts = r.ts', '%LEFT JOIN of two streams needs a watermark on "r"%', 'no watermark on the nullable side'),
	('SELECT l.id FROM ejc_plain l RIGHT JOIN ejc_r r ON l.id = r.id AND l.ts = r.ts', '%RIGHT JOIN of two streams needs a watermark on "l"%', 'nor on the left'),
	('SELECT l.id FROM ejc_l l LEFT JOIN ejc_r r ON l.id = r.id', '%LEFT JOIN of two streams needs a bound on the event time%', 'no bound'),
	($$SELECT l.id FROM ejc_l l LEFT JOIN ejc_r r ON l.id = r.id AND l.ts < r.ts$$, '%needs a bound on the event time%', 'a bound on the wrong side'),
	($$SELECT l.id FROM ejc_l l LEFT JOIN ejc_r r ON l.id = r.id AND r.ts <= l.ts + interval '1 month'$$, '%needs a bound on the event time%', 'months have no length'),
	('SELECT l.id FROM ejc_l l WHERE NOT EXISTS (SELECT 1 FROM ejc_r r WHERE r.id = l.id)', '%NOT EXISTS of two streams needs a bound%', 'NOT EXISTS without one'),
	('SELECT l.id FROM ejc_l l WHERE l.id NOT IN (SELECT r.id FROM ejc_r r)', '%NOT IN or ALL is not supported over a stream%', 'NOT IN'),
	('SELECT l.id FROM ejc_l l WHERE l.id = 1 OR EXISTS (SELECT 1 FROM ejc_r r WHERE r.id = l.id)', '%this subquery in an expression%', 'EXISTS under OR'),
	('SELECT l.id FROM ejc_l l JOIN ejc_r r ON l.id < r.id', '%needs an equality%', 'no equality')) q(query, pattern, why);
DROP FOREIGN TABLE ejc_l, ejc_r, ejk_l, ejk_r, ejc_plain;
SELECT finish();
