-- start_query, stop_query, process_all_available and the functions that wait.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE FOREIGN TABLE wait_s (k int, v int) SERVER streamx;
CREATE TABLE wait_out (k int, v int);
CREATE FUNCTION error_of(sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT no_plan();

-- an own start that isn't committed
BEGIN;
SELECT start_query('wait_q', 'SELECT k, v FROM wait_s', 'wait_out');
SELECT is(error_of($$SELECT process_all_available('wait_q')$$), '55000 query "wait_q" was started in this transaction',
	'process_all_available does not wait for the own transaction');
SELECT is(error_of($$SELECT await_termination('wait_q')$$), '55000 query "wait_q" was started in this transaction',
	'nor does await_termination');
ROLLBACK;
SELECT is((SELECT count(*) FROM streamx.queries), 0::bigint, 'after ROLLBACK there is no query');

SELECT create_query('wait_q', 'SELECT k, v FROM wait_s', 'wait_out');
SELECT is(error_of($$SELECT process_all_available('wait_q')$$), '55000 query "wait_q" is not running', 'a query that was not started is not waited for');
SELECT is(error_of($$SELECT await_termination('wait_q')$$), '55000 query "wait_q" was never started', 'by neither');
SELECT is(error_of($$SELECT process_all_available('nope')$$), '42704 query "nope" does not exist', 'nor one that is not there');
INSERT INTO wait_s SELECT i, i FROM generate_series(1, 100) i;
SELECT start_query('wait_q');
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 100::bigint, 'what was there is processed');
INSERT INTO wait_s SELECT i, i FROM generate_series(101, 200) i;
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 200::bigint, 'and what came later');
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT state FROM streamx.queries), 'running', 'it runs');
SELECT is(await_termination('wait_q', '0.1 s'), false, 'await_termination gives up after its time');
SELECT is(await_any_termination('0.1 s'), NULL, 'and so does await_any_termination');
SELECT is(error_of($$SELECT await_termination('wait_q', '-1 s')$$), '22023 timeout must not be negative', 'which is not negative');
SELECT start_query('wait_q');
SELECT is((SELECT state FROM streamx.queries), 'running', 'starting it twice changes nothing');

-- stop
SELECT is(stop_query('wait_q'), true, 'stop_query stops it');
SELECT is((SELECT state FROM streamx.queries), 'stopped', 'which the view says');
SELECT is((SELECT pid FROM streamx.queries), NULL, 'and there is no process');
SELECT is(stop_query('wait_q'), true, 'again is no error');
SELECT is(await_termination('wait_q'), true, 'await_termination returns at once');
SELECT is(await_any_termination('10 s'), 'wait_q', 'await_any_termination names it');
SELECT is(await_any_termination('10 s'), 'wait_q', 'and again');
SELECT reset_terminated();
SELECT is(await_any_termination('0.1 s'), NULL, 'until reset_terminated()');
SELECT is(error_of($$SELECT process_all_available('wait_q')$$), '55000 query "wait_q" is not running', 'nothing is processed now');
INSERT INTO wait_s VALUES (201, 201);
BEGIN;
SELECT start_query('wait_q');
ROLLBACK;
SELECT is((SELECT state FROM streamx.queries), 'stopped', 'a start that was rolled back');
SELECT start_query('wait_q');
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 201::bigint, 'it goes on where it was');
BEGIN;
SELECT stop_query('wait_q');
ROLLBACK;
INSERT INTO wait_s VALUES (202, 202);
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 202::bigint, 'after a stop that was rolled back too');
BEGIN;
SELECT stop_query('wait_q');
SELECT start_query('wait_q');
COMMIT;
INSERT INTO wait_s VALUES (203, 203);
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 203::bigint, 'and after stop and start in one transaction');
SELECT is((SELECT count(*) FROM streamx.batch b WHERE query = (SELECT id FROM streamx.query WHERE name = 'wait_q') AND b.batch = 0), 1::bigint, 'batches are counted on');

-- anew
SELECT stop_query('wait_q');
TRUNCATE wait_out;
SELECT start_query('wait_q', reset_state => true);
SELECT process_all_available('wait_q', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 203::bigint, 'with reset_state it reads all again');
SELECT is(error_of($$SELECT start_query('wait_q', 'SELECT k FROM wait_s')$$), '22023 invalid value for "on_rewind": "SELECT k FROM wait_s"', 'a SELECT is no on_rewind');
SELECT drop_query('wait_q');
SELECT is((SELECT count(*) FROM streamx.batch), 0::bigint, 'a dropped query has no checkpoint');

-- once, available_now
SELECT start_query('wait_once', 'SELECT k, v FROM wait_s', 'wait_out', trigger => 'available_now');
SELECT is(await_termination('wait_once', '60 s'), true, 'available_now ends');
SELECT is((SELECT state FROM streamx.queries WHERE name = 'wait_once'), 'finished', 'as finished');
SELECT is(await_any_termination('10 s'), 'wait_once', 'which await_any_termination knows');
SELECT is((SELECT count(*) FROM wait_out), 406::bigint, 'when all is read');
SELECT process_all_available('wait_once');
SELECT drop_query('wait_once');

-- a failure
SELECT reset_terminated();
SELECT start_query('wait_bad', 'SELECT k / (v - v) AS k, v FROM wait_s', 'wait_out');
SELECT is(error_of($$SELECT process_all_available('wait_bad', '60 s')$$), 'SX007 query "wait_bad" failed: division by zero', 'waiters get the error of a query that fails');
SELECT is(error_of($$SELECT await_termination('wait_bad', '60 s')$$), 'SX007 query "wait_bad" failed: division by zero', 'later ones too');
SELECT is(error_of($$SELECT await_any_termination('60 s')$$), 'SX007 query "wait_bad" failed: division by zero', 'by whatever function');
SELECT is((SELECT state || ' ' || last_error FROM streamx.queries WHERE name = 'wait_bad'), 'failed division by zero', 'and the view says so');
SELECT is((SELECT count(*) FROM streamx.failures WHERE query = 'wait_bad' AND sqlstate = '22012' AND batch_id = 0), 3::bigint, 'each failure is there, with its batch');
SELECT lives_ok($$SELECT stop_query('wait_bad')$$, 'a failed query can be stopped');
SELECT is((SELECT state FROM streamx.queries WHERE name = 'wait_bad'), 'failed', 'and stays failed');
SELECT lives_ok($$SELECT alter_query('wait_bad', query => 'SELECT k, v FROM wait_s')$$, 'altered');
SELECT start_query('wait_bad');
SELECT process_all_available('wait_bad', '60 s');
SELECT is((SELECT count(*) FROM wait_out), 609::bigint, 'and started again');
SELECT drop_query('wait_bad');
SELECT * FROM finish();
