-- Windows of all shapes: what an aggregation keeps over three batches with a restart
-- is what the batch query answers; late rows are counted.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
SELECT no_plan();

CREATE FOREIGN TABLE events (k int, v int, ts timestamptz OPTIONS (watermark '1000 days')) SERVER streamx;
CREATE FOREIGN TABLE strict_events (ts timestamptz OPTIONS (watermark '0')) SERVER streamx;

CREATE TABLE windows (name text, call text);
INSERT INTO windows VALUES
	('w_tumble', $$tumble(ts, '10 seconds')$$),
	('w_offset', $$tumble(ts, '10 seconds', '3 seconds')$$),
	('w_negative', $$tumble(ts, '1 hour', '-15 minutes')$$),
	('w_week', $$tumble(ts, '7 days')$$),
	('w_micro', $$tumble(ts, '1 microsecond')$$),
	('w_hop', $$hop(ts, '10 seconds', '5 seconds')$$),
	('w_uneven', $$hop(ts, '10 seconds', '4 seconds', '1 second')$$),
	('w_many', $$hop(ts, '1 minute', '1 second')$$);
CREATE TABLE queries AS
	SELECT name, format('SELECT lower(w) AS start, upper(w) AS stop, k, count(*) AS n, sum(v) AS v, array_agg(v ORDER BY v) AS l
		FROM (SELECT %s AS w, k, v FROM events) e GROUP BY w, k', call) AS query FROM windows
	UNION ALL	-- the window is also used below, so it is made there
	SELECT name || '_below', format('SELECT w AS start, k, count(*) AS n, min(upper(w)) AS stop, max(v) AS v
		FROM (SELECT %s AS w, k, v FROM events) e WHERE NOT isempty(w) GROUP BY w, k', call) FROM windows WHERE name <> 'w_many'
	UNION ALL	-- kept as panes where the windows slide
	SELECT name || '_panes', format('SELECT lower(w) AS start, upper(w) AS stop, k, count(*) AS n, sum(v) AS v, avg(v::bigint) AS a, max(ts) AS last
		FROM (SELECT %s AS w, k, v, ts FROM events) e GROUP BY w, k', call) FROM windows WHERE call LIKE 'hop%'
	UNION ALL VALUES
	('w_time', 'SELECT ts, count(*) AS n FROM events GROUP BY ts'),
	('w_key', $$SELECT tumble(ts, '10 seconds') AS start, k % 2 AS odd, count(v) AS n FROM events GROUP BY 1, 2$$);
SELECT create_query(name, query, sink => name, output_mode => 'update') FROM queries \g /dev/null

-- 600 rows within half an hour, in two batches, and odd times in a third
INSERT INTO events SELECT i % 3, i, '2024-02-29 23:50Z'::timestamptz + (i * 7919 % 600) * interval '2 seconds 1 microsecond' FROM generate_series(1, 300) i;
SELECT start_query(name) FROM queries \g /dev/null
SELECT process_all_available(name) FROM queries \g /dev/null
SELECT stop_query(name) FROM queries \g /dev/null
SELECT start_query(name) FROM queries \g /dev/null
INSERT INTO events SELECT i % 3, i, '2024-02-29 23:50Z'::timestamptz + (i * 7919 % 600) * interval '2 seconds 1 microsecond' FROM generate_series(301, 600) i;
SELECT process_all_available(name) FROM queries \g /dev/null
INSERT INTO events VALUES (0, 1, '2024-03-01 00:00Z'), (0, 2, '2024-02-29 23:59:59.999999Z'), (1, 3, '2024-03-01 00:00:09.999999Z'),
	(NULL, 4, '2024-03-01 00:00:10Z'), (NULL, 5, NULL), (1, 6, 'infinity'), (1, 7, '-infinity');
SELECT process_all_available(name) FROM queries \g /dev/null

CREATE FUNCTION difference(name text) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE format('SELECT ''only in the sink: '' || t::text FROM (TABLE %1$I EXCEPT ALL TABLE streamx_query.%1$I) t
		UNION ALL SELECT ''missing: '' || t::text FROM (TABLE streamx_query.%1$I EXCEPT ALL TABLE %1$I) t LIMIT 10', name);
END $$;
SELECT is_empty(format('SELECT * FROM difference(%L)', name), name || ' is what its batch query answers')
	FROM queries ORDER BY name;
SELECT results_eq($$SELECT name FROM queries q WHERE EXISTS (SELECT FROM explain_query(q.name) line WHERE line LIKE '%kept as panes%') ORDER BY name COLLATE "C"$$,
	$$VALUES ('w_hop_panes'), ('w_many_panes'), ('w_uneven_panes')$$, 'sliding windows are panes where aggregates combine');
SELECT results_eq($$SELECT (last_progress('w_uneven_panes') -> 'stateOperators' -> 0 ->> 'numRowsTotal')::bigint$$,
	'SELECT count(*) FROM w_uneven_panes', 'panes are shown as the windows by key that they make up');
SELECT throws_ok(format('SELECT alter_query(%L, query => %L)', name, replace(query, '10 seconds', '20 seconds')), 'SX001', NULL,
	'other windows don''t fit the panes that are there') FROM queries WHERE name = 'w_uneven_panes';

-- before 1970, and what is late
SELECT create_query('w_late', $$SELECT extract(epoch FROM lower(w))::float8 AS start, count(*) AS n
	FROM (SELECT hop(ts, '10 seconds', '5 seconds') AS w FROM strict_events) e GROUP BY w$$, sink => 'w_late') \g /dev/null
SELECT start_query('w_late') \g /dev/null
INSERT INTO strict_events VALUES ('1969-12-31 23:59:59.999Z'), ('1969-12-31 23:59:50Z');
SELECT process_all_available('w_late') \g /dev/null
-- the watermark is -0.001: [-15,-5) is closed, [-10,0) is not
INSERT INTO strict_events VALUES ('1969-12-31 23:59:51Z'), ('1969-12-31 23:59:46Z'), ('1969-12-31 23:59:49.999Z'), ('1970-01-01 00:00:05Z'), (NULL);
SELECT process_all_available('w_late') \g /dev/null
SELECT results_eq('SELECT start, n FROM w_late ORDER BY start', $$VALUES (-15::float8, 1::bigint), (-10, 3), (-5, 1)$$,
	'windows before 1970; a row is late in one window and counts in another');
SELECT is(sum((p -> 'stateOperators' -> 0 ->> 'numRowsDroppedByWatermark')::int), 2::bigint,
	'a row that is late in all its windows is counted once, others are not counted')
	FROM recent_progress('w_late') p;
SELECT is(last_progress('w_late') -> 'stateOperators' -> 0 ->> 'numRowsTotal', '2', 'open windows are what is left in the state');

-- a query whose windows get another size: those that are open keep theirs
CREATE FOREIGN TABLE resized (ts timestamptz OPTIONS (watermark '0')) SERVER streamx;
SELECT create_query('w_resized', $$SELECT tumble(ts, '10 seconds') AS w, count(*) AS n FROM resized GROUP BY w$$, sink => 'w_resized'),
	create_query('w_resized_all', $$SELECT tumble(ts, '10 seconds') AS w, count(*) AS n FROM resized GROUP BY w$$, sink => 'w_resized_all', output_mode => 'complete') \g /dev/null
INSERT INTO resized VALUES ('2026-01-15 10:00:05Z');
SELECT start_query(name) FROM unnest('{w_resized,w_resized_all}'::text[]) name \g /dev/null
SELECT process_all_available(name), stop_query(name) FROM unnest('{w_resized,w_resized_all}'::text[]) name \g /dev/null
SELECT alter_query('w_resized', $$SELECT tumble(ts, '1 minute') AS w, count(*) AS n FROM resized GROUP BY w$$) \g /dev/null
-- windows that never close cannot be resized: a warning
SELECT alter_query('w_resized_all', $$SELECT tumble(ts, '1 minute') AS w, count(*) AS n FROM resized GROUP BY w$$) \g /dev/null
SELECT start_query('w_resized') \g /dev/null
INSERT INTO resized VALUES ('2026-01-15 10:00:06Z'), ('2026-01-15 10:00:50Z');
SELECT process_all_available('w_resized') \g /dev/null
INSERT INTO resized VALUES ('2026-01-15 11:00Z');
SELECT process_all_available('w_resized') \g /dev/null
SELECT results_eq('SELECT lower(w), upper(w), n FROM w_resized ORDER BY 2', $$VALUES ('2026-01-15 10:00Z'::timestamptz, '2026-01-15 10:00:10Z'::timestamptz, 1::bigint),
	('2026-01-15 10:00Z', '2026-01-15 10:01Z', 2)$$, 'an open window keeps its size when the query gets windows of another');

SELECT stop_query(name), drop_query(name) FROM (SELECT name FROM queries UNION ALL VALUES ('w_late'), ('w_resized'), ('w_resized_all')) q \g /dev/null
SELECT format('DROP TABLE %I', name) FROM queries \gexec
DROP TABLE windows, queries, w_late, w_resized, w_resized_all;
DROP FOREIGN TABLE events, strict_events, resized CASCADE;
DROP FUNCTION difference;
SELECT * FROM finish();
