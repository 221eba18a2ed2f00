-- requeue: rows in quarantine go through their query once more, exactly once.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE SCHEMA engine_requeue;
SET search_path = engine_requeue, public;
SELECT plan(26);
CREATE FOREIGN TABLE raw (id int, n text, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE TABLE divisor (d int);
INSERT INTO divisor VALUES (0);
CREATE TABLE out (id int, n int, q int);
SELECT start_query(name => 'q', query => $$ SELECT id, n::int AS n, 10 / CASE WHEN id = 3 THEN d ELSE 1 END AS q FROM raw, divisor $$,
	sink => 'out', options => '{"on_error": "quarantine"}');
INSERT INTO raw VALUES (1, '1', '2026-01-15 10:00Z'), (2, 'two', '2026-01-15 10:01Z'), (3, '3', '2026-01-15 10:02Z'), (4, '4', '2026-01-15 10:03Z'), (5, 'five', '2026-01-15 10:04Z');
SELECT process_all_available('q', '30 s');
SELECT results_eq($$ SELECT id FROM out ORDER BY id $$, $$ VALUES (1), (4) $$, 'good rows are in the sink');
SELECT results_eq($$ SELECT data ->> 'id', requeued FROM streamx.quarantine WHERE query = 'q' ORDER BY id $$, $$ VALUES ('2', false), ('3', false), ('5', false) $$, 'three are in quarantine');
SELECT is((SELECT (last_progress('q') ->> 'numQuarantinedRows')::int), 3, 'the progress counts them');
SELECT is((SELECT (last_progress('q') ->> 'numInputRows')::int), 5, 'among those read');

-- Nothing is mended: they come back, each once, with new ids.
SELECT is(requeue('q'), 3::bigint, 'requeue says how many');
SELECT process_all_available('q', '30 s');
SELECT results_eq($$ SELECT data ->> 'id', requeued FROM streamx.quarantine WHERE query = 'q' ORDER BY data ->> 'id' $$, $$ VALUES ('2', false), ('3', false), ('5', false) $$, 'rows that fail again are in quarantine again');
SELECT is((SELECT count(*) FROM out), 2::bigint, 'and not in the sink');

-- The cause is mended.
UPDATE divisor SET d = 2;
SELECT requeue('q', ARRAY(SELECT id FROM streamx.quarantine WHERE query = 'q' AND data ->> 'id' = '3'));
SELECT process_all_available('q', '30 s');
SELECT results_eq($$ SELECT id, n, q FROM out WHERE id = 3 $$, $$ VALUES (3, 3, 5) $$, 'a row whose cause was mended is in the sink');
SELECT is((SELECT count(*) FROM streamx.quarantine WHERE query = 'q'), 2::bigint, 'and gone from the quarantine');

-- The row is mended.
SELECT requeue('q', ARRAY(SELECT id FROM streamx.quarantine WHERE query = 'q' AND data ->> 'id' = '2'), data => '{"id": 2, "n": "2", "ts": "2026-01-15T10:01:00Z"}');
SELECT process_all_available('q', '30 s');
SELECT results_eq($$ SELECT id, n FROM out WHERE id = 2 $$, $$ VALUES (2, 2) $$, 'a mended row is in the sink');
SELECT requeue('q', ARRAY(SELECT id FROM streamx.quarantine WHERE query = 'q'), data => '{"id": "many"}');
SELECT process_all_available('q', '30 s');
SELECT is((SELECT message FROM streamx.quarantine WHERE query = 'q'), 'invalid input syntax for type integer: "many"', 'a mended row that is none waits on, with the error');
SELECT is((SELECT state FROM streamx.queries WHERE name = 'q'), 'running', 'and the query runs on');

-- A rollback takes it back; good and bad together.
BEGIN;
SELECT requeue('q', NULL);
ROLLBACK;
SELECT process_all_available('q', '30 s');
SELECT is((SELECT requeued FROM streamx.quarantine WHERE query = 'q'), false, 'a requeue that is rolled back was none');
SELECT stop_query('q');
SELECT requeue('q', ARRAY(SELECT id FROM streamx.quarantine WHERE query = 'q'), data => '{"id": 5, "n": "5"}');
INSERT INTO raw VALUES (6, 'six', '2026-01-15 10:05Z'), (7, '7', '2026-01-15 10:06Z');
SELECT is((SELECT requeued FROM streamx.quarantine WHERE query = 'q'), true, 'a stopped query takes it when it is started');
SELECT start_query('q');
SELECT process_all_available('q', '30 s');
SELECT results_eq($$ SELECT id FROM out ORDER BY id $$, $$ VALUES (1), (2), (3), (4), (5), (7) $$, 'together with new rows, of which one is bad');
SELECT results_eq($$ SELECT data ->> 'id' FROM streamx.quarantine WHERE query = 'q' $$, $$ VALUES ('6') $$, 'which alone goes into quarantine');

-- Refusals.
SELECT throws_ok($$ SELECT requeue('q', ARRAY[-5::bigint]) $$, 'P0002', NULL, 'an id that is not there');
SELECT throws_ok($$ SELECT requeue('q', data => '{}') $$, '22023', NULL, 'a mended row needs its id');
SELECT throws_ok($$ SELECT requeue('q', ARRAY[1, 2]::bigint[], data => '{}') $$, '22023', NULL, 'and only one');
CREATE ROLE requeue_other;
SET ROLE requeue_other;
SELECT throws_ok($$ SELECT public.requeue('q') $$, '42501', NULL, 'only the owner gives rows back');
RESET ROLE;

-- A row given back keeps its event time: it may be late.
CREATE TABLE counts (minute timestamptz, n bigint);
SELECT start_query(name => 'w', query => $$ SELECT lower(w) AS minute, count(n) AS n FROM (SELECT tumble(ts, '1 minute') AS w, n::int AS n FROM raw) r GROUP BY w $$,
	sink => 'counts', options => '{"on_error": "quarantine"}');
SELECT process_all_available('w', '30 s');
SELECT is((SELECT count(*) FROM streamx.quarantine WHERE query = 'w'), 3::bigint, 'a windowed query has its own quarantine');
INSERT INTO raw VALUES (8, '8', '2026-01-15 12:00Z');
SELECT process_all_available('w', '30 s');
SELECT requeue('w', ARRAY[id], data => '{"n": "1", "ts": "2026-01-15T10:01:30Z"}') FROM streamx.quarantine WHERE query = 'w' AND data ->> 'id' = '2';
SELECT process_all_available('w', '30 s');
SELECT is((SELECT sum(rows) FROM streamx.late_rows WHERE query = 'w'), 1::numeric, 'a late row given back is counted as late');
SELECT is((SELECT count(*) FROM streamx.quarantine WHERE query = 'w'), 2::bigint, 'and gone from the quarantine');
SELECT requeue('w', ARRAY[id], data => '{"n": "1", "ts": "2026-01-15T12:00:30Z"}') FROM streamx.quarantine WHERE query = 'w' AND data ->> 'id' = '5';
INSERT INTO raw VALUES (9, '9', '2026-01-15 13:00Z');
SELECT process_all_available('w', '30 s');
SELECT results_eq($$ SELECT n FROM counts WHERE minute = '2026-01-15 12:00Z' $$, $$ VALUES (2::bigint) $$, 'one that is not is counted in its window');

-- A full quarantine.
SELECT alter_query('q', options => '{"quarantine_limit": 1}');
SELECT start_query('q');
INSERT INTO raw VALUES (10, 'ten', '2026-01-15 13:05Z');
SELECT throws_like($$ SELECT process_all_available('q', '60 s') $$, '%quarantine_limit%', 'a full quarantine fails the query');
SELECT drop_query('q');
SELECT drop_query('w');
SELECT is((SELECT count(*) FROM streamx.quarantine_row), 0::bigint, 'dropping the query empties its quarantine');
SELECT * FROM finish();
DROP ROLE requeue_other;
DROP SCHEMA engine_requeue CASCADE;
