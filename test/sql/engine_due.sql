-- Many keys due at once: they go in batches of their own, some key groups in each, also
-- through a chain, and over a failure and a new start in the middle.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

SELECT create_stream('du', 'k int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''10 seconds''');
SELECT create_stream('du_other', 'k int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''10 seconds''');
CREATE VIEW du_windows AS SELECT w, k, count(*) AS n FROM (SELECT tumble(ts, '10 minutes') AS w, k FROM du) d GROUP BY w, k;
CREATE VIEW du_left AS SELECT a.k, a.ts, b.k AS other FROM du a LEFT JOIN du_other b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '1 minute';
CREATE FUNCTION du_handler(key int, rows du[], timer timestamptz) RETURNS SETOF timestamptz LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM timer_set(r.ts + interval '1 minute') FROM unnest(rows) r;
	ELSE
		RETURN NEXT timer;
	END IF;
END $$;
CREATE TABLE du_queries (name text, query text, fails_after int);
INSERT INTO du_queries VALUES
	('du_tumble', 'SELECT lower(w) AS start, k, n FROM du_windows', 300),
	('du_hop', 'SELECT lower(w) AS start, k, count(*) AS n FROM (SELECT hop(ts, ''10 minutes'', ''5 minutes'') AS w, k FROM du) d GROUP BY w, k', 300),
	('du_session', 'SELECT lower(w) AS start, k, count(*) AS n FROM (SELECT session(ts, ''1 minute'') AS w, k FROM du) d GROUP BY w, k', 300),
	('du_dedup', 'SELECT DISTINCT ON (within_watermark(k)) k, ts FROM du', NULL),
	('du_unmatched', 'SELECT * FROM du_left', 300),
	('du_timers', 'SELECT t.k, r AS at FROM du t CROSS JOIN LATERAL transform_with_state(''du_handler'', t.k, t, NULL::timestamptz, time_mode => ''event'') r', 300),
	('du_chain', 'SELECT lower(w2) AS start, k, sum(n) AS n FROM (SELECT tumble(window_time(w), ''1 hour'') AS w2, k, n FROM du_windows) d GROUP BY w2, k', 300),
	('du_chain_one', 'SELECT lower(w2) AS start, count(*) AS keys, sum(n) AS n FROM (SELECT tumble(window_time(w), ''15 minutes'') AS w2, n FROM du_windows) d GROUP BY w2', NULL),
	('du_sessions_count', 'SELECT lower(w2) AS start, count(*) AS n FROM (SELECT tumble(window_time(w), ''1 hour'') AS w2 FROM
		(SELECT session(ts, ''1 minute'') AS w, k FROM du) s GROUP BY w, k) d GROUP BY w2', NULL),
	('du_left_count', 'SELECT lower(w) AS start, count(*) AS n, count(other) AS matched FROM (SELECT tumble(ts, ''1 minute'') AS w, other FROM du_left) d GROUP BY w', NULL);
SELECT create_query(name, query, sink => name || '_sink', options => jsonb_build_object('batch_rows', 100, 'state_store', CASE WHEN number % 2 = 0 THEN 'rocksdb' ELSE 'table' END))
	FROM (SELECT *, row_number() OVER () AS number FROM du_queries) q \g /dev/null

-- the sink breaks while a part of the due rows is in it
CREATE TABLE du_broken (sink text, rows int);
INSERT INTO du_broken SELECT name || '_sink', fails_after FROM du_queries WHERE fails_after IS NOT NULL;
CREATE FUNCTION du_break() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
	n int;
BEGIN
	EXECUTE format('SELECT count(*) FROM %I', TG_TABLE_NAME) INTO n;
	IF n >= (SELECT rows FROM du_broken WHERE sink = TG_TABLE_NAME) THEN
		RAISE division_by_zero;
	END IF;
	RETURN NULL;
END $$;
SELECT 'SELECT start_query(' || quote_literal(name) || ');' FROM du_queries \gexec
SELECT format('CREATE TRIGGER du_break AFTER INSERT ON %I FOR EACH STATEMENT EXECUTE FUNCTION du_break()', name || '_sink') FROM du_queries \gexec

INSERT INTO du SELECT g, '2026-01-01 00:00:00Z'::timestamptz + g % 300 * interval '1 ms' FROM generate_series(1, 1000) g;
INSERT INTO du_other SELECT g, '2026-01-01 00:00:01Z'::timestamptz FROM generate_series(1, 1000, 50) g;
SELECT process_all_available(name) FROM du_queries \g /dev/null

-- the watermark jumps over all of them
INSERT INTO du VALUES (0, '2026-01-01 12:00:00Z');
INSERT INTO du_other VALUES (0, '2026-01-01 12:00:00Z');
CREATE FUNCTION du_error(query text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM process_all_available(query, '30 s');
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT is(du_error(name) <> 'none', fails_after IS NOT NULL, name || CASE WHEN fails_after IS NULL THEN ' goes through' ELSE ' breaks off' END) FROM du_queries ORDER BY name;
CREATE VIEW du_batches AS SELECT q.name, b.batch, b.due, b.watermark, b.next_watermark, p.input_rows, p.output_rows
	FROM streamx.batch b JOIN streamx.query q ON q.id = b.query JOIN streamx.progress p ON p.query = q.name AND p.batch_id = b.batch WHERE q.name LIKE 'du\_%';
SELECT is(due IS NOT NULL, fails_after IS NOT NULL, name || CASE WHEN fails_after IS NULL THEN ' has nothing left' ELSE ' has left something' END)
	FROM du_queries JOIN (SELECT DISTINCT ON (name) * FROM du_batches ORDER BY name, batch DESC) b USING (name) ORDER BY name;
SELECT is((SELECT string_agg(kind, ',') FROM streamx.verify('du_tumble')), 'not checked', 'a result of which a part is missing is not compared');

-- a new process goes on; what came meanwhile waits until all is out
TRUNCATE du_broken;
INSERT INTO du VALUES (-1, '2026-01-02 12:00:00Z');
INSERT INTO du_other VALUES (-1, '2026-01-02 12:00:00Z');
SELECT start_query(name) FROM du_queries WHERE fails_after IS NOT NULL \g /dev/null
SELECT is(du_error(name), 'none', name || ' comes to the end') FROM du_queries ORDER BY name;
SELECT is_empty(format('SELECT * FROM streamx.verify(%L)', name), name || ': each key is in the result once') FROM du_queries WHERE name NOT IN ('du_timers', 'du_dedup', 'du_session', 'du_sessions_count') ORDER BY name;
SELECT results_eq('SELECT k, start, n FROM du_session_sink ORDER BY k', $$SELECT k, ts, 1::bigint FROM du WHERE ts < '2026-01-02Z' ORDER BY k$$, 'so is each session');
SELECT results_eq('SELECT n FROM du_sessions_count_sink ORDER BY start', 'VALUES (1000::bigint), (1)', 'and in the count above');
SELECT results_eq('SELECT k, at FROM du_timers_sink ORDER BY k', $$SELECT k, ts + interval '1 minute' FROM du WHERE ts < '2026-01-02Z' ORDER BY k$$, 'each timer has fired once');
SELECT is((SELECT count(*) FROM du_chain_sink), 1001::bigint, 'no row of the lower operator is late for the upper one');
SELECT results_eq('SELECT n, keys FROM du_chain_one_sink ORDER BY start', 'VALUES (1000::numeric, 1000::bigint), (1, 1)', 'nor is one left out of a sum');
SELECT results_eq('SELECT sum(n), sum(matched) FROM du_left_count_sink', 'VALUES (1001::numeric, 21::numeric)', 'nor above a join');
SELECT is_empty($$SELECT * FROM streamx.late_rows WHERE query LIKE 'du\_%' AND rows > 0$$, 'no row was late');
SELECT is_empty($$SELECT * FROM streamx.conservation WHERE query LIKE 'du\_%' AND NOT balanced$$, 'every row is accounted for');
SELECT is_empty($$SELECT name FROM du_batches GROUP BY name HAVING count(*) FILTER (WHERE due IS NOT NULL) < 3$$, 'each query took several batches for it');
SELECT is_empty($$SELECT * FROM (SELECT *, lag(due) OVER (PARTITION BY name ORDER BY batch) AS waited FROM du_batches) b WHERE waited IS NOT NULL AND input_rows > 0$$,
	'in which it read nothing');
SELECT is_empty($$SELECT * FROM du_batches WHERE name IN ('du_tumble', 'du_session', 'du_timers', 'du_unmatched') AND input_rows = 0 AND output_rows > 200$$, 'none of them gave many more rows than batch_rows');
SELECT is_empty($$SELECT * FROM (SELECT *, lag(watermark) OVER (PARTITION BY name ORDER BY batch) AS before FROM du_batches) b WHERE due IS NOT NULL AND watermark <> before$$,
	'the watermark waits for the last of them');
SELECT is_empty($$SELECT name, state_rows FROM streamx.queries WHERE name LIKE 'du\_%' AND state_rows > 6$$, 'and the state is empty then but for the last row');

SELECT drop_query(name) FROM du_queries \g /dev/null
DROP FOREIGN TABLE du, du_other CASCADE;
SELECT format('DROP TABLE %I', name || '_sink') FROM du_queries \gexec
DROP TABLE du_queries, du_broken;
DROP FUNCTION du_break, du_error;
SELECT * FROM finish();
