-- What comes out of aggregations and LIMIT per output mode, batch by batch.
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

CREATE FOREIGN TABLE visits (page text, ms int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
-- each batch as a row: batch id, then its rows
CREATE TABLE output (query text, batch bigint, row text);
CREATE FUNCTION make_recorder(name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE FUNCTION %I(batch_id bigint) RETURNS void LANGUAGE plpgsql AS $f$
		BEGIN INSERT INTO output SELECT %L, batch_id, b::text FROM batch b; END $f$', 'record_' || name, name);
END $$;
CREATE FUNCTION batches(name text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(format('%s: %s', batch, rows), E'\n' ORDER BY batch)
	FROM (SELECT batch, string_agg(row, ' ' ORDER BY row COLLATE "C") AS rows FROM output WHERE query = name GROUP BY batch) b $$;

CREATE TABLE queries (name text, mode text, query text);
INSERT INTO queries VALUES
	('append_window', 'append', $$SELECT lower(w) AS start, page, count(*) AS n, sum(ms) AS ms FROM (SELECT tumble(ts, '10 seconds') AS w, page, ms FROM visits) v GROUP BY w, page$$),
	('append_hop', 'append', $$SELECT extract(epoch FROM lower(w))::int % 100 AS start, count(*) AS n FROM (SELECT hop(ts, '20 seconds', '10 seconds') AS w FROM visits) v GROUP BY w$$),
	('append_time', 'append', 'SELECT ts, count(*) AS n FROM visits GROUP BY ts'),
	('update_window', 'update', $$SELECT lower(w) AS start, page, count(*) AS n FROM (SELECT tumble(ts, '10 seconds') AS w, page FROM visits) v GROUP BY w, page$$),
	('update_plain', 'update', 'SELECT page, max(ms) AS ms FROM visits GROUP BY page'),
	('update_having', 'update', 'SELECT page, count(*) AS n FROM visits GROUP BY page HAVING count(*) < 3'),
	('update_all', 'update', 'SELECT count(*) AS n, sum(ms) AS ms FROM visits WHERE ms > 3'),
	('complete_plain', 'complete', 'SELECT page, count(*) AS n FROM visits GROUP BY page'),
	('complete_window', 'complete', $$SELECT lower(w) AS start, count(*) AS n FROM (SELECT tumble(ts, '10 seconds') AS w FROM visits) v GROUP BY w$$),
	('complete_above', 'complete', 'SELECT count(*) AS pages, max(n) AS most FROM (SELECT page, count(*) AS n FROM visits GROUP BY page) v'),
	('complete_all', 'complete', 'SELECT count(*) AS n FROM visits WHERE ms > 3'),
	('limited', 'append', 'SELECT page, ms FROM visits WHERE ms IS NOT NULL LIMIT 4'),
	('chained', 'append', $$SELECT lower(w2) AS start, sum(n) AS n, count(*) AS groups FROM (SELECT tumble(window_time(w), '20 seconds') AS w2, n
		FROM (SELECT w, page, count(*) AS n FROM (SELECT tumble(ts, '10 seconds') AS w, page FROM visits) v GROUP BY w, page) a) b GROUP BY w2$$);
SELECT make_recorder(name) FROM queries \g /dev/null
SELECT create_query(name, query, foreach_batch => format('record_%s(bigint)', name)::regprocedure, output_mode => mode) FROM queries \g /dev/null
SELECT create_query('kept_true', 'SELECT page, count(*) AS n FROM visits GROUP BY page HAVING count(*) < 3',
	sink => 'kept_true', output_mode => 'update') \g /dev/null
INSERT INTO queries VALUES ('kept_true');
SELECT start_query(name) FROM queries \g /dev/null

-- 00:01 00:02 | 00:25 and a late-to-be | NULL, late | closes all
INSERT INTO visits VALUES ('a', 1, '2024-01-01 00:00:01Z'), ('a', 5, '2024-01-01 00:00:02Z'), ('b', 3, '2024-01-01 00:00:12Z');
SELECT process_all_available(name) FROM queries \g /dev/null
SELECT stop_query(name) FROM queries \g /dev/null
SELECT start_query(name) FROM queries \g /dev/null
INSERT INTO visits VALUES ('a', 4, '2024-01-01 00:00:25Z'), ('c', NULL, '2024-01-01 00:00:09Z');
SELECT process_all_available(name) FROM queries \g /dev/null
INSERT INTO visits VALUES (NULL, 7, NULL), ('b', 9, '2024-01-01 00:00:09.999Z'), ('b', 2, 'infinity'), ('b', 2, '2024-01-01 00:00:15Z');
SELECT process_all_available(name) FROM queries \g /dev/null
INSERT INTO visits VALUES ('z', 0, '2024-01-01 00:01:40Z');
SELECT process_all_available(name) FROM queries \g /dev/null

-- Batches 0, 2, 4, 5 have rows; 1, 3, 6 follow where the watermark rose (2, 15, 90 seconds).
SELECT is(batches('append_window'), $$3: ("2024-01-01 00:00:00+00",a,2,6) ("2024-01-01 00:00:00+00",c,1,)
6: ("2024-01-01 00:00:10+00",b,2,5) ("2024-01-01 00:00:20+00",a,1,4)$$,
	'append: a group comes out once, when its window is closed; rows of closed windows and without a time are dropped');
SELECT is(batches('append_hop'), $$3: (90,3)
6: (0,6) (10,3) (20,1)$$, 'append: a row counts in those of its windows that are still open');
SELECT is(batches('append_time'), $$1: ("2024-01-01 00:00:01+00",1) ("2024-01-01 00:00:02+00",1)
3: ("2024-01-01 00:00:09+00",1) ("2024-01-01 00:00:12+00",1)
6: ("2024-01-01 00:00:25+00",1)$$, 'append: grouped by the event time, a time equal to the watermark is late and final');
SELECT is(last_progress('append_time') -> 'stateOperators' -> 0 ->> 'numRowsTotal', '3',
	'NULL and infinity are groups that never close');
SELECT is(batches('update_window'), $$0: ("2024-01-01 00:00:00+00",a,2) ("2024-01-01 00:00:10+00",b,1)
2: ("2024-01-01 00:00:00+00",c,1) ("2024-01-01 00:00:20+00",a,1)
4: ("2024-01-01 00:00:10+00",b,2)
5: ("2024-01-01 00:01:40+00",z,1)$$, 'update: touched groups with their new value; closed ones go in silence');
SELECT is(last_progress('update_window') -> 'stateOperators' -> 0 ->> 'numRowsTotal', '1', 'update: closed groups leave the state');
SELECT is(batches('update_plain'), $$0: (a,5) (b,3)
2: (a,5) (c,)
4: (,7) (b,9)
5: (z,0)$$, 'update: a touched group comes out even if its value is what it was');
SELECT is(batches('update_having'), $$0: (a,2) (b,1)
2: (c,1)
4: (,1)
5: (z,1)$$, 'update: a group that no longer fulfils HAVING gives no row');
SELECT results_eq('SELECT page, n FROM kept_true ORDER BY page', $$VALUES ('c', 1::bigint), ('z', 1), (NULL, 1)$$,
	'update: from a table it is deleted');
SELECT is(batches('update_all'), $$0: (1,5)
1: (1,5)
2: (2,9)
3: (2,9)
4: (4,25)
5: (4,25)
6: (4,25)$$, 'update: an aggregate without GROUP BY gives a row in every batch');
SELECT is(batches('complete_plain'), $$0: (a,2) (b,1)
1: (a,3) (b,1) (c,1)
2: (,1) (a,3) (b,4) (c,1)
3: (,1) (a,3) (b,4) (c,1) (z,1)$$, 'complete: all groups in every batch');
SELECT is(batches('complete_window'), $$0: ("2024-01-01 00:00:00+00",2) ("2024-01-01 00:00:10+00",1)
1: ("2024-01-01 00:00:00+00",3) ("2024-01-01 00:00:10+00",1) ("2024-01-01 00:00:20+00",1)
2: ("2024-01-01 00:00:00+00",4) ("2024-01-01 00:00:10+00",2) ("2024-01-01 00:00:20+00",1)
3: ("2024-01-01 00:00:00+00",4) ("2024-01-01 00:00:10+00",2) ("2024-01-01 00:00:20+00",1) ("2024-01-01 00:01:40+00",1)$$,
	'complete: nothing is late, no window is closed');
SELECT is(batches('complete_above'), $$0: (2,2)
1: (3,3)
2: (4,4)
3: (5,4)$$, 'complete: an aggregate over the complete result');
SELECT is(batches('complete_all'), $$0: (1)
1: (2)
2: (4)
3: (4)$$, 'complete: without GROUP BY');
SELECT is(batches('limited'), $$0: (a,1) (a,5) (b,3)
1: (a,4)$$, 'LIMIT counts over the life of the query');
SELECT is(batches('chained'), $$6: ("2024-01-01 00:00:00+00",5,3) ("2024-01-01 00:00:20+00",1,1)$$,
	'an aggregation over closed windows closes its own in the same batch');

SELECT stop_query(name), drop_query(name) FROM queries \g /dev/null
DROP TABLE output, queries, kept_true;
DROP FOREIGN TABLE visits CASCADE;
SELECT format('DROP FUNCTION %s', oid::regprocedure) FROM pg_proc WHERE proname ~ '^record_.' AND pronamespace = 'public'::regnamespace \gexec
DROP FUNCTION make_recorder, batches;
SELECT * FROM finish();
