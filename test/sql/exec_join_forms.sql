-- A join's conditions in many forms: nested, as rows, with times shifted. Each against the batch query.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE ejf_l (a int, b int, ts timestamptz OPTIONS (watermark '40 seconds')) SERVER streamx;
CREATE FOREIGN TABLE ejf_r (a int, b int, ts timestamptz OPTIONS (watermark '40 seconds')) SERVER streamx;
CREATE TABLE ejf_queries AS SELECT 'ejf_' || row_number() OVER () AS name, what, query FROM (VALUES
	('rows are equal, and a range', $$SELECT l.a, l.b, l.ts AS lts, r.ts AS rts FROM ejf_l l LEFT JOIN ejf_r r ON (l.a, l.b) = (r.a, r.b) AND r.ts BETWEEN l.ts AND l.ts + interval '5 s'$$),
	('nested in ON', $$SELECT l.a, l.b, l.ts AS lts, r.ts AS rts FROM ejf_l l FULL JOIN ejf_r r ON r.ts BETWEEN l.ts AND l.ts + interval '5 s' AND (l.a = r.a AND (l.b = r.b AND true))$$),
	('nested in WHERE', $$SELECT l.a, l.b, l.ts AS lts, r.ts AS rts FROM ejf_l l, ejf_r r WHERE l.b > 0 AND (r.ts >= l.ts AND (l.a = r.a AND r.ts - l.ts < interval '5 s'))$$),
	('nested around EXISTS and in it', $$SELECT l.a, l.b, l.ts AS lts FROM ejf_l l WHERE l.b > 0 AND (l.a > 1 AND EXISTS (SELECT FROM ejf_r r WHERE r.b = l.b AND (r.a = l.a AND r.ts BETWEEN l.ts AND l.ts + interval '5 s')))$$),
	('common to the branches of an OR', $$SELECT l.a, l.b, l.ts AS lts, r.b AS rb, r.ts AS rts FROM ejf_l l LEFT JOIN ejf_r r ON (l.a = r.a AND l.ts = r.ts AND l.b = 1) OR (r.b = 2 AND l.ts = r.ts AND r.a = l.a) OR (l.a = r.a AND l.ts = r.ts AND r.b = 0)$$),
	('the right time is later', $$SELECT l.a, l.ts AS lts, r.ts AS rts FROM ejf_l l LEFT JOIN ejf_r r ON l.a = r.a AND r.ts = l.ts + interval '7 s'$$),
	('the left time is later', $$SELECT l.a, l.ts AS lts, r.ts AS rts FROM ejf_l l LEFT JOIN ejf_r r ON l.a = r.a AND l.ts = r.ts + interval '7 s'$$),
	('both shifted, the times alone', $$SELECT l.a, l.ts AS lts, r.ts AS rts FROM ejf_l l FULL JOIN ejf_r r ON l.ts + interval '30 s' = r.ts - interval '5 s'$$),
	('their difference', $$SELECT l.a, l.ts AS lts, r.ts AS rts FROM ejf_l l RIGHT JOIN ejf_r r ON l.a = r.a AND r.ts - l.ts = interval '6 s'$$),
	('not there, shifted by more than the delay', $$SELECT l.a, l.ts AS lts FROM ejf_l l WHERE NOT EXISTS (SELECT FROM ejf_r r WHERE r.ts = l.ts + interval '1 minute' AND r.a = l.a)$$),
	('three streams', $$SELECT l.a, l.ts AS lts, r.ts AS rts, x.ts AS xts FROM ejf_l l LEFT JOIN ejf_r r ON l.a = r.a AND r.ts = l.ts + interval '2 s' LEFT JOIN ejf_l x ON x.a = l.a AND x.ts = l.ts - interval '2 s'$$)) q(what, query);
SELECT create_query(name, query, sink => name, options => '{"max_future_skew": "off"}') FROM ejf_queries \g /dev/null
SELECT start_query(name) FROM ejf_queries \g /dev/null
-- the sides take turns, each a minute ahead of the other
INSERT INTO ejf_l SELECT i % 4, i % 3, timestamptz '2026-01-15 10:00Z' + i * interval '1 s' FROM generate_series(1, 40) i;
SELECT process_all_available(name) FROM ejf_queries \g /dev/null
INSERT INTO ejf_r SELECT i % 4, i % 5, timestamptz '2026-01-15 10:00Z' + i * interval '1 s' FROM generate_series(1, 80) i;
INSERT INTO ejf_r VALUES (1, 1, NULL);
SELECT process_all_available(name) FROM ejf_queries \g /dev/null
INSERT INTO ejf_l SELECT i % 4, i % 3, timestamptz '2026-01-15 10:00Z' + i * interval '1 s' FROM generate_series(41, 110) i;
SELECT process_all_available(name) FROM ejf_queries \g /dev/null
INSERT INTO ejf_r SELECT i % 4, i % 5, timestamptz '2026-01-15 10:00Z' + i * interval '1 s' FROM generate_series(81, 140) i;
SELECT process_all_available(name) FROM ejf_queries \g /dev/null
INSERT INTO ejf_l VALUES (NULL, 0, '2026-01-16 10:00Z');
INSERT INTO ejf_r VALUES (NULL, 0, '2026-01-16 10:00Z');
SELECT process_all_available(name) FROM ejf_queries \g /dev/null
-- what is left waits: the last rows, and those without a time, which never go
SELECT bag_eq(format('SELECT * FROM %I', name), format($$SELECT * FROM streamx_query.%I q WHERE NOT (to_jsonb(q) ->> 'lts' IS NULL AND to_jsonb(q) ->> 'rts' IS NULL)
	AND NOT coalesce(to_jsonb(q) ->> 'lts' > '2026-01-16' AND to_jsonb(q) ->> 'rts' IS NULL OR to_jsonb(q) ->> 'rts' > '2026-01-16' AND to_jsonb(q) ->> 'lts' IS NULL, false)$$, name), what)
FROM ejf_queries ORDER BY name;
SELECT is_empty(format('SELECT * FROM streamx.verify(%L) WHERE kind <> ''note''', name), 'verify: ' || what) FROM ejf_queries ORDER BY name;
SELECT is_empty('SELECT * FROM streamx.conservation WHERE NOT balanced', 'no row is lost on its way');
SELECT matches((SELECT string_agg(e, E'\n') FROM explain_query((SELECT name FROM ejf_queries WHERE what = 'the right time is later')) e), 'left removed: ts <= watermark - 7.001 s', 'a shift is a bound');
SELECT matches((SELECT detail FROM ejf_queries, alter_query_effect(name, replace(query, '5 s', '9 s')) WHERE what = 'nested in WHERE' AND effect = 'refused'),
	'^Rows of the left side were removed by "column \d <= watermark - 5.000 s" when the checkpoint was written and are by "column \d <= watermark - 9.000 s" now.$', 'another range is refused in words');
SELECT drop_query(name) FROM ejf_queries \g /dev/null
DROP FOREIGN TABLE ejf_l, ejf_r;
SELECT finish();
