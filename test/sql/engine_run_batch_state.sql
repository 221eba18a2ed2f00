-- run_batch() and advance_time() with session windows and handlers: their state and clocks in
-- the session's own transaction, taken back by ROLLBACK, and the worker's after COMMIT.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT no_plan();

CREATE FOREIGN TABLE rs (k int, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FUNCTION at(seconds int) RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2024-01-01Z'::timestamptz + seconds * interval '1 s' $$;
CREATE FUNCTION rs_handler(key int, rows rs[], timer timestamptz) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NOT NULL THEN
		RETURN NEXT format('%s silent since %s, %s rows', key, to_char(timer - interval '1 minute', 'MI:SS'), state_get('n', 0));
		PERFORM state_clear('n');
	ELSE
		PERFORM state_put('n', coalesce(state_get('n', NULL::int), 0) + cardinality(rows));
		PERFORM timer_delete(t) FROM unnest(timer_list()) t;
		PERFORM timer_set(current_processing_time() + interval '1 minute');
	END IF;
END $$;
CREATE FUNCTION rs_old(key int, rows rs[], timer timestamptz) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM state_put('state', coalesce(state_get('state', NULL::int), 0) + cardinality(rows)), timeout_set(at(60));
		RETURN 'n ' || state_get('state', 0);
	END IF;
	RETURN 'out ' || state_get('state', 0);
END $$;
CREATE TABLE rs_old (k int, r text);
CREATE FUNCTION rs_take(batch_id bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO rs_old SELECT * FROM batch; END';
CREATE VIEW rs_stores AS SELECT store FROM unnest('{rocksdb,table}'::text[]) AS store;
SELECT create_query(format('rs_%s_%s', kind, store), query, sink => format('rs_%s_%s', kind, store), options => jsonb_build_object('state_store', store, 'max_future_skew', 'off'))
	FROM rs_stores, (VALUES ('session', 'SELECT extract(epoch FROM lower(w) - at(0))::int AS s, extract(epoch FROM upper(w) - at(0))::int AS e, k, n FROM (SELECT session(ts, ''5 seconds'') AS w, k, count(*) AS n FROM rs GROUP BY w, k) x'),
		('handler', 'SELECT r FROM rs, transform_with_state(''rs_handler'', rs.k, rs, NULL::text, time_mode => ''processing'', state => ARRAY[value_state(''n'', NULL::int)]) r')) q(kind, query) \g /dev/null
SELECT create_query('rs_old', 'SELECT rs.k, r FROM rs, map_groups_with_state(''rs_old'', rs.k, rs, NULL::text, state => 0, timeout => ''event'') r', output_mode => 'update', foreach_batch => 'rs_take(bigint)') \g /dev/null

-- sessions: grow, merge, close, are late
CREATE FUNCTION ran(q text) RETURNS text LANGUAGE sql AS $$ SELECT format('%s in, %s late, %s out', input_rows, late_rows, output_rows) FROM run_batch(q) WHERE batch_id IS NOT NULL $$;

-- sessions
CREATE FUNCTION rs_sessions(store text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text := 'rs_session_' || store;
	n bigint;
BEGIN
	INSERT INTO rs VALUES (1, 1, at(1)), (1, 1, at(9)), (2, 1, at(3));
	RETURN NEXT is(ran(q), '3 in, 0 late, 0 out', store || ': rows of the transaction');
	RETURN NEXT is((SELECT count(*) FROM streamx.state(q)), 3::bigint, store || ': open sessions can be seen');
	BEGIN
		INSERT INTO rs VALUES (1, 1, at(5));
		PERFORM run_batch(q);
		RAISE EXCEPTION USING ERRCODE = 'ZZ001', MESSAGE = (SELECT count(*) FROM streamx.state(q))::text;
	EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
		RETURN NEXT is(SQLERRM, '2', store || ': a row between two makes one of them');
	END;
	RETURN NEXT is((SELECT count(*) FROM streamx.state(q)), 3::bigint, store || ': and a subtransaction that is rolled back takes it apart');
	INSERT INTO rs VALUES (2, 1, at(24));
	RETURN NEXT is(ran(q), '1 in, 0 late, 0 out', store || ': the clock of the events moves');
	RETURN NEXT is(ran(q), '0 in, 0 late, 3 out', store || ': and closes what lies behind');
	RETURN NEXT results_eq(format('SELECT s, e, k, n FROM %I ORDER BY 1', q), 'VALUES (1, 6, 1, 1::bigint), (3, 8, 2, 1), (9, 14, 1, 1)', store || ': as they were');
	INSERT INTO rs VALUES (1, 1, at(4)), (1, 1, at(12));
	RETURN NEXT is(ran(q), '2 in, 1 late, 0 out', store || ': a late row');
END $$;
BEGIN;
SELECT rs_sessions('rocksdb');
ROLLBACK;
BEGIN;
SELECT rs_sessions('table');
ROLLBACK;
SELECT is_empty(format('TABLE rs_session_%s', store), store || ': nothing is left') FROM rs_stores;

-- a handler: timers go by the clock that the session sets
CREATE FUNCTION rs_handlers(store text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text := 'rs_handler_' || store;
BEGIN
	PERFORM advance_time(q, at(0));
	INSERT INTO rs VALUES (1, 1, at(0)), (1, 1, at(0)), (2, 1, at(0));
	RETURN NEXT is(ran(q), '3 in, 0 late, 0 out', store || ': the handler takes its rows');
	RETURN NEXT results_eq(format('SELECT (key ->> ''k'')::int, (value ->> ''value'')::int FROM streamx.state(%L) ORDER BY 1', q), 'VALUES (1, 2), (2, 1)', store || ': and keeps them');
	PERFORM run_batch(q);		-- for the watermark
	RETURN NEXT is(ran(q), NULL, store || ': no timer is due');
	PERFORM advance_time(q, at(30));
	INSERT INTO rs VALUES (2, 1, at(0));
	RETURN NEXT is(ran(q), '1 in, 0 late, 0 out', store || ': its timer is set anew');
	PERFORM advance_time(q, at(59));
	RETURN NEXT is(ran(q), NULL, store || ': a second too early');
	BEGIN
		PERFORM advance_time(q, at(60));
		RETURN NEXT is(ran(q), '0 in, 0 late, 1 out', store || ': now it is time');
		RAISE EXCEPTION USING ERRCODE = 'ZZ001', MESSAGE = (SELECT count(*) FROM streamx.state(q))::text;
	EXCEPTION WHEN SQLSTATE 'ZZ001' THEN
		RETURN NEXT is(SQLERRM, '1', store || ': its state is gone');
	END;
	RETURN NEXT is((SELECT count(*) FROM streamx.state(q)), 2::bigint, store || ': a subtransaction that is rolled back brings it again');
	RETURN NEXT unalike(coalesce(ran(q), 'none'), '%1 out', store || ': and the clock back');
	PERFORM advance_time(q, at(100));
	RETURN NEXT is(ran(q), '0 in, 0 late, 2 out', store || ': later both are');
	RETURN NEXT results_eq(format('SELECT r FROM %I ORDER BY 1', q), $r$ VALUES ('1 silent since 00:00, 2 rows'), ('2 silent since 00:30, 2 rows') $r$, store || ': in order');
	RETURN NEXT is_empty(format('SELECT * FROM streamx.state(%L, store => ''registered timers'')', q), store || ': no timer is left');
END $$;
BEGIN;
SELECT rs_handlers('rocksdb');
ROLLBACK;
BEGIN;
SELECT rs_handlers('table');
ROLLBACK;
SELECT is_empty(format('TABLE rs_handler_%s', store), store || ': nothing is left') FROM rs_stores;

-- the older form: a timeout by event time
BEGIN;
INSERT INTO rs VALUES (1, 1, at(1)), (1, 1, at(2)), (2, 1, at(3));
SELECT is(ran('rs_old'), '3 in, 0 late, 2 out', 'each key is called once');
INSERT INTO rs VALUES (3, 1, at(71));
SELECT is(ran('rs_old'), '1 in, 0 late, 1 out', 'the clock of the events moves');
SELECT is(ran('rs_old'), '0 in, 0 late, 3 out', 'the timeouts are over');
SELECT results_eq('SELECT k, r FROM rs_old WHERE r LIKE ''out%'' ORDER BY 1', $$ VALUES (1, 'out 2'), (2, 'out 1'), (3, 'out 1') $$, 'of all keys');
ROLLBACK;

-- COMMIT: the worker goes on
BEGIN;
INSERT INTO rs VALUES (1, 1, at(1)), (1, 1, at(3)), (2, 1, at(3));
SELECT is(ran('rs_session_' || store), '3 in, 0 late, 0 out', store || ': sessions that are committed') FROM rs_stores;
SELECT is(ran('rs_old'), '3 in, 0 late, 2 out', 'and what a handler keeps');
COMMIT;
SELECT start_query('rs_session_' || store) FROM rs_stores \g /dev/null
SELECT start_query('rs_old') \g /dev/null
INSERT INTO rs VALUES (1, 1, at(7)), (3, 1, at(100));
SELECT process_all_available(name, '60 s') FROM streamx.queries WHERE name ~ '^rs_(session|old)' \g /dev/null
SELECT results_eq(format('SELECT s, e, k, n FROM rs_session_%s ORDER BY 1', store), 'VALUES (1, 12, 1, 3::bigint), (3, 8, 2, 1)', store || ': the worker goes on with them') FROM rs_stores;
SELECT results_eq('SELECT k, r FROM rs_old WHERE k < 3 ORDER BY r', $$ VALUES (2, 'n 1'), (1, 'n 2'), (1, 'n 3'), (2, 'out 1'), (1, 'out 3') $$, 'and with that');

-- two-phase commit
BEGIN;
SELECT is(ran('rs_handler_table'), '5 in, 0 late, 0 out', 'a batch');
PREPARE TRANSACTION 'rs';

SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'rs\_%' \g /dev/null
DROP FUNCTION rs_handler(int, rs[], timestamptz), rs_old(int, rs[], timestamptz), rs_take(bigint), rs_sessions(text), rs_handlers(text), ran(text), at(int);
DROP VIEW rs_stores;
DROP FOREIGN TABLE rs;
DROP TABLE rs_session_rocksdb, rs_session_table, rs_handler_rocksdb, rs_handler_table, rs_old;
SELECT * FROM finish();
