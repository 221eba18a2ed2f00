-- verify: the sink against the query as a batch over the rows that it has read.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE av (id int, k int, v numeric, f float8, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE av_other (id int, k int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE av_plain (id int, k numeric) SERVER streamx;
CREATE TABLE av_dim (k int PRIMARY KEY, name text);
INSERT INTO av_dim SELECT i, 'name ' || i FROM generate_series(0, 6) i;
CREATE TABLE av_queries (name text, query text, mode text DEFAULT 'append');
INSERT INTO av_queries (name, query) VALUES
	('av_copy', 'SELECT id, v, f FROM av WHERE id % 3 <> 0'),
	('av_join', 'SELECT id, name FROM av LEFT JOIN av_dim USING (k)'),
	('av_union', 'SELECT id, k FROM av_plain UNION ALL SELECT id, k FROM av'),
	('av_tumble', 'SELECT tumble(ts, ''10 seconds'') AS w, k, count(*) AS n, sum(v) AS sv, sum(f) AS sf FROM av GROUP BY w, k'),
	('av_hop', 'SELECT lower(w) AS start, n FROM (SELECT hop(ts, ''10 seconds'', ''3 seconds'') AS w, count(*) AS n FROM av GROUP BY w) x WHERE n > 1'),
	('av_raw', 'SELECT ts, count(DISTINCT k) AS n FROM av GROUP BY ts'),
	('av_inner', 'SELECT a.id, b.id AS other, v FROM av a JOIN av_other b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''3 seconds'' AND b.id <> a.id'),
	('av_left', 'SELECT a.id, b.id AS other FROM av a LEFT JOIN av_other b ON a.id = b.id AND a.v > 3 AND b.ts BETWEEN a.ts - interval ''1 second'' AND a.ts + interval ''3 seconds'''),
	('av_full', 'SELECT a.id, b.id AS other, coalesce(a.ts, b.ts) AS ts FROM av a FULL JOIN av_other b ON a.k = b.k AND a.ts = b.ts'),
	('av_semi', 'SELECT id, k FROM av a WHERE EXISTS (SELECT FROM av_other b WHERE a.k = b.k AND a.ts = b.ts)'),
	('av_anti', 'SELECT id, k FROM av a WHERE NOT EXISTS (SELECT FROM av_other b WHERE a.k = b.k AND a.ts = b.ts)'),
	('av_join_count', 'SELECT tumble(a.ts, ''10 seconds'') AS w, count(*) AS n FROM av a JOIN av_other b ON a.k = b.k AND a.ts = b.ts GROUP BY w'),
	('av_session', 'SELECT session(ts, ''0.5 seconds'') AS w, k, count(*) AS n, sum(v) AS sv, sum(f) AS sf FROM av GROUP BY w, k'),
	('av_session_all', 'SELECT session(ts, v * interval ''0.01 second'') AS w, count(*) AS n FROM av GROUP BY w HAVING count(*) > 1'),
	('av_hidden', 'SELECT k, count(*) AS n FROM av GROUP BY tumble(ts, ''7 seconds''), k'),
	('av_distinct', 'SELECT DISTINCT k FROM av_plain'),
	('av_distinct_count', 'SELECT tumble(ts, ''10 seconds'') AS w, count(*) AS n FROM (SELECT DISTINCT k, ts FROM av) d GROUP BY w'),
	('av_chain', 'SELECT tumble(window_time(w), ''20 seconds'') AS w2, sum(n) AS n FROM (SELECT tumble(ts, ''10 seconds'') AS w, k, count(*) AS n FROM av GROUP BY w, k) x GROUP BY 1');
INSERT INTO av_queries VALUES
	('av_group', 'SELECT k, count(*) AS n, sum(f) AS sf, array_agg(id ORDER BY id) AS ids FROM av_plain JOIN LATERAL (SELECT 1.5 AS f) x ON true GROUP BY k', 'update'),
	('av_having', 'SELECT k, count(*) AS n FROM av GROUP BY k HAVING count(*) % 2 = 0', 'update'),
	('av_windows', 'SELECT hop(ts, ''10 seconds'', ''5 seconds'') AS w, k, avg(v) AS a FROM av GROUP BY w, k', 'update'),
	('av_session_update', 'SELECT session(ts, ''1 second'') AS w, k, count(*) AS n FROM av GROUP BY w, k', 'update'),
	('av_session_complete', 'SELECT k, session(ts, ''1 second'') AS w, max(v) AS v FROM av GROUP BY w, k', 'complete'),
	('av_total', 'SELECT count(*) AS n, max(ts) AS last FROM av', 'update'),
	('av_complete', 'SELECT k, count(*) AS n FROM av GROUP BY k', 'complete');
SELECT create_query(name, query, sink => name || '_sink', output_mode => mode) FROM av_queries \g /dev/null
SELECT is((SELECT string_agg(kind || ': ' || detail, '; ') FROM streamx.verify('av_copy')), 'not checked: the query has not committed a batch yet', 'before the first batch');

-- out of order by less than the delay: no row is late
CREATE PROCEDURE av_round(round int) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO av SELECT i, nullif(i % 7, 6), i % 13 + 0.50, i / 7.0,
		timestamptz '2024-01-01 00:00:00Z' + (i / 10 + (i * 37) % 9) * interval '1 second' FROM generate_series(round * 300 + 1, round * 300 + 300) i ORDER BY (i * 71) % 300;
	INSERT INTO av_other SELECT i, nullif(i % 5, 4), timestamptz '2024-01-01 00:00:00Z' + (i / 10 + (i * 31) % 9) * interval '1 second'
		FROM generate_series(round * 300 + 1, round * 300 + 300) i WHERE i % 3 > 0;
	INSERT INTO av_plain SELECT i, CASE WHEN i % 2 = 0 THEN (i % 5)::numeric(10, 0) ELSE (i % 5)::numeric(10, 2) END FROM generate_series(round * 100 + 1, round * 100 + 100) i;
END $$;
SELECT start_query(name) FROM av_queries \g /dev/null
CALL av_round(0);
SELECT process_all_available(name, '60 s') FROM av_queries \g /dev/null
SELECT stop_query(name) FROM av_queries \g /dev/null
SELECT start_query(name) FROM av_queries \g /dev/null
CALL av_round(1);
SELECT process_all_available(name, '60 s') FROM av_queries \g /dev/null
CALL av_round(2);
SELECT process_all_available(name, '60 s') FROM av_queries \g /dev/null

SELECT is_empty(format('SELECT * FROM streamx.verify(%L)', name), name || ': nothing differs') FROM av_queries ORDER BY name;
SELECT is((SELECT string_agg(name, ' ' ORDER BY name) FROM av_queries WHERE (xpath('count(//row)', query_to_xml(format('TABLE %I', name || '_sink'), true, false, '')))[1]::text = '0'), NULL, 'and there is something in every sink');

-- rows that the query has not read yet don't count
SELECT stop_query('av_copy') \g /dev/null
INSERT INTO av VALUES (10001, 1, 1, 1, '2024-01-01 00:01:40Z');
SELECT is_empty($$SELECT * FROM streamx.verify('av_copy')$$, 'of a stopped query: the rows that it has read');
SELECT start_query('av_copy') \g /dev/null
SELECT process_all_available(name, '60 s') FROM av_queries \g /dev/null

-- what is taken out, put in or changed is found
SET client_min_messages = warning;
DELETE FROM av_tumble_sink WHERE k = 3 AND lower(w) = '2024-01-01 00:00:20Z';
SELECT results_eq($$SELECT kind, key, expected ->> 'k', found FROM streamx.verify('av_tumble')$$,
	$$VALUES ('missing', NULL::jsonb, '3', NULL::jsonb)$$, 'a row that is missing');
INSERT INTO av_group_sink (k, n) VALUES (77, 1);
UPDATE av_group_sink SET n = n + 1 WHERE k = 2;
DELETE FROM av_group_sink WHERE k = 4;
SELECT results_eq($$SELECT kind, (key -> 'k')::numeric, expected ->> 'n', found ->> 'n' FROM streamx.verify('av_group') ORDER BY kind$$,
	$$VALUES ('different', 2.0, '60', '61'), ('missing', 4.0, '60', NULL), ('unexpected', 77.0, NULL, '1')$$, 'by the key of the result');
INSERT INTO av_copy_sink SELECT * FROM av_copy_sink WHERE id = 5;
SELECT results_eq($$SELECT kind, expected = found, detail FROM streamx.verify('av_copy')$$,
	$$VALUES ('unexpected', true, 'expected 1 times, found 2 times')$$, 'a row that is there twice');
UPDATE av_complete_sink SET n = 0 WHERE k IS NULL;
SELECT results_eq($$SELECT kind, key::text, found ->> 'n' FROM streamx.verify('av_complete')$$,
	$$VALUES ('different', '{"k": null}', '0')$$, 'of the key NULL');
DELETE FROM av_session_sink WHERE k = 1 AND n > 1;
SELECT is((SELECT string_agg(DISTINCT kind, ' ') FROM streamx.verify('av_session')), 'missing', 'of sessions');
DELETE FROM av_distinct_sink WHERE k = 0;
SELECT results_eq($$SELECT kind, (expected -> 'k')::numeric FROM streamx.verify('av_distinct')$$, $$VALUES ('missing', 0.0)$$, 'of DISTINCT');
DELETE FROM av_left_sink WHERE other IS NULL AND id = 7;
SELECT results_eq($$SELECT kind, expected::text FROM streamx.verify('av_left')$$, $$VALUES ('missing', '{"id": 7, "other": null}')$$, 'of rows that found none to join');
UPDATE av_join_sink SET name = 'other' WHERE id = 8;
SELECT results_eq($$SELECT kind FROM streamx.verify('av_join') ORDER BY kind$$, $$VALUES ('missing'), ('note'), ('unexpected')$$, 'a note says that tables are read as they are now');
SELECT matches((SELECT detail FROM streamx.verify('av_join') WHERE kind = 'note'), '^ordinary tables', 'of queries that read some');

-- what cannot be checked is said
SELECT create_query('av_random', 'SELECT id, random() AS r FROM av', sink => 'av_random_sink') \g /dev/null
SELECT create_query('av_now', 'SELECT id, now() AS at FROM av', sink => 'av_now_sink') \g /dev/null
SELECT create_query('av_limit', 'SELECT id FROM av LIMIT 3', sink => 'av_limit_sink') \g /dev/null
SELECT create_query('av_within', 'SELECT DISTINCT ON (within_watermark(k)) k FROM av', sink => 'av_within_sink') \g /dev/null
SELECT create_query('av_noop', 'SELECT id FROM av', sink => 'noop') \g /dev/null
SELECT create_query('av_latest', 'SELECT id FROM av', sink => 'av_latest_sink', options => '{"starting_offsets": "latest"}') \g /dev/null
SELECT create_query('av_guilty', 'SELECT id, 10 / (k - 1) AS x FROM av', sink => 'av_guilty_sink', options => '{"on_error": "quarantine", "quarantine_limit": 1000}') \g /dev/null
SELECT start_query(n) FROM unnest('{av_random,av_now,av_limit,av_within,av_noop,av_latest,av_guilty}'::text[]) n \g /dev/null
SELECT process_all_available(n, '60 s') FROM unnest('{av_random,av_now,av_limit,av_within,av_noop,av_latest,av_guilty}'::text[]) n \g /dev/null
INSERT INTO av VALUES (20001, 2, 1, 1, '2024-01-01 00:01:40Z'), (20002, 2, 1, 1, '2024-01-01 00:00:40Z');
SELECT process_all_available(name, '60 s') FROM streamx.queries WHERE name LIKE 'av%' \g /dev/null
SELECT results_eq(format('SELECT DISTINCT kind FROM streamx.verify(%L)', n), $$VALUES ('not checked')$$, n || ' cannot be judged') FROM unnest('{av_random,av_now,av_limit,av_within}'::text[]) n;
SELECT matches(detail, '^LIMIT', 'and why') FROM streamx.verify('av_limit') ORDER BY detail LIMIT 1;
SELECT is_empty($$SELECT * FROM streamx.verify('av_latest')$$, 'a query that began with the latest rows is checked from there');
SELECT is((SELECT count(*) FROM av_latest_sink), 2::bigint, 'which has two rows');
SELECT throws_ok($$SELECT * FROM streamx.verify('av_noop')$$, '0A000', NULL, 'a sink that is no table');
SELECT throws_ok($$SELECT * FROM streamx.verify('nobody')$$, '42704', NULL, 'a query that is not there');
SELECT matches((SELECT detail FROM streamx.verify('av_windows') WHERE kind = 'not checked'), '^1 rows came late', 'late rows');
SELECT is_empty($$SELECT * FROM streamx.verify('av_guilty')$$, 'rows in quarantine are left out');
SELECT cmp_ok((SELECT count(*) FROM streamx.quarantine WHERE query = 'av_guilty'), '>', 80::bigint, 'of which there are some');
DELETE FROM av_guilty_sink WHERE id = 3;
SELECT results_eq($$SELECT kind, expected::text FROM streamx.verify('av_guilty')$$, $$VALUES ('missing', '{"x": 5, "id": 3}')$$, 'what is missing is found all the same');
SELECT requeue('av_guilty', (SELECT array_agg(id) FROM (SELECT id FROM streamx.quarantine WHERE query = 'av_guilty' ORDER BY id LIMIT 1) q),
	data => '{"id": 1, "k": 2, "ts": "2024-01-01T00:00:10Z"}') \g /dev/null
SELECT process_all_available('av_guilty', '60 s') \g /dev/null
SELECT results_eq($$SELECT kind, detail ~ '^\d+ rows were put into the quarantine, and not all' FROM streamx.verify('av_guilty')$$, $$VALUES ('not checked', true)$$, 'once one was given back it is not known');

-- the ends of time: what the watermark never passes is in neither
CREATE FOREIGN TABLE av_ends (k int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE av_ends_other (k int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
INSERT INTO av_ends VALUES (1, '-infinity'), (2, 'infinity'), (3, '2024-01-01Z'), (4, '294276-12-31Z'), (5, '2025-01-01Z');
INSERT INTO av_ends_other VALUES (3, '2024-01-01Z'), (6, '294276-12-31Z'), (7, '-infinity'), (8, '2025-01-01Z');
CREATE VIEW av_ends_near AS SELECT k, ts FROM av_ends WHERE ts BETWEEN '1900-01-01Z' AND '2100-01-01Z';
SELECT create_query('av_ends_' || name, query, sink => 'av_ends_' || name || '_sink') FROM (VALUES
	('raw', 'SELECT ts, count(*) AS n FROM av_ends GROUP BY ts'),
	('full', 'SELECT a.k, b.k AS other FROM av_ends_near a FULL JOIN av_ends_other b ON a.k = b.k AND b.ts BETWEEN a.ts - interval ''100000 days'' AND a.ts + interval ''100000 days''')) q(name, query) \g /dev/null
SELECT run_batch(name) FROM streamx.queries, generate_series(1, 3) WHERE name LIKE 'av\_ends%' \g /dev/null
SELECT is_empty(format('SELECT * FROM streamx.verify(%L)', name), name || ' has what the watermark has passed') FROM streamx.queries WHERE name LIKE 'av\_ends%' ORDER BY name;

CREATE ROLE av_other;
SET ROLE av_other;
SELECT throws_ok($$SELECT * FROM streamx.verify('av_copy')$$, '42501', NULL, 'only the owner may');
RESET ROLE;
DROP ROLE av_other;

SELECT stop_query(name) FROM streamx.queries WHERE name LIKE 'av%' \g /dev/null
SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'av%' \g /dev/null
SELECT format('DROP TABLE %I', relname) FROM pg_class WHERE relname LIKE 'av%sink' AND relkind = 'r' \gexec
DROP VIEW av_ends_near;
DROP FOREIGN TABLE av, av_other, av_plain, av_ends, av_ends_other;
DROP TABLE av_dim, av_queries;
DROP PROCEDURE av_round;
SELECT * FROM finish();
