-- Handlers with state: timers by event time and by processing time, which fire while no
-- rows come, ttl, timeouts of the older forms, the initial state.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE tm (k text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TABLE tm_queries (name text, query text, mode text DEFAULT 'append');

-- waits for what a query does by itself
CREATE PROCEDURE tm_wait(condition text) LANGUAGE plpgsql AS $$
DECLARE
	holds boolean;
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXECUTE 'SELECT ' || condition INTO holds;
		EXIT WHEN holds;
		COMMIT;
		PERFORM pg_sleep(0.05);
	END LOOP;
END $$;

CREATE TYPE tm_out AS (what text, at timestamptz);
-- a timer for each row, v seconds after it; the handler of a timer sets one more, a second later, until :00:07
CREATE FUNCTION tm_handler(key text, rows tm[], timer timestamptz) RETURNS SETOF tm_out LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM timer_set(r.ts + r.v * interval '1 second'), timer_set(r.ts + r.v * interval '1 second') FROM unnest(rows) r;
		RETURN NEXT (cardinality(timer_list())::text, current_watermark())::tm_out;
	ELSE
		RETURN NEXT (cardinality(timer_list()) || ' then', timer)::tm_out;
		IF extract(second FROM timer) < 7 THEN
			PERFORM timer_set(timer + interval '1 second');
		END IF;
	END IF;
END $$;
INSERT INTO tm_queries SELECT 'tm_event_' || store, $$SELECT t.k, r.* FROM tm t CROSS JOIN LATERAL transform_with_state('tm_handler', t.k, t, NULL::tm_out, time_mode => 'event') r$$
	FROM unnest('{rocksdb,table}'::text[]) store;

-- the older form: one timeout, strictly before the watermark, cleared by every call
CREATE FUNCTION tm_group(key text, rows tm[], timer timestamptz) RETURNS tm_out LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM state_put('state', coalesce(state_get('state', NULL::int), 0) + cardinality(rows));
		IF rows[1].v > 0 THEN
			PERFORM timeout_set(greatest('2026-01-15 10:00:20Z', current_watermark()));
		END IF;
	END IF;
	RETURN (state_get('state', NULL::int)::text, timer);
END $$;
INSERT INTO tm_queries VALUES ('tm_group', $$SELECT t.k, r.* FROM tm t CROSS JOIN LATERAL map_groups_with_state('tm_group', t.k, t, NULL::tm_out, state => NULL::int, timeout => 'event') r$$, 'update');
CREATE TABLE tm_group (batch bigint, k text, what text, at timestamptz);
CREATE FUNCTION tm_take(batch_id bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO tm_group SELECT batch_id, * FROM batch; END';

SELECT create_query(name, query, sink => CASE WHEN mode = 'append' THEN name END, output_mode => mode, foreach_batch => CASE WHEN mode = 'update' THEN 'tm_take(bigint)'::regprocedure END,
	options => jsonb_build_object('state_store', CASE WHEN name ~ 'table' THEN 'table' ELSE 'rocksdb' END)) FROM tm_queries \g /dev/null
SELECT start_query(name) FROM tm_queries \g /dev/null
INSERT INTO tm VALUES ('a', 3, '2026-01-15 10:00:00Z'), ('a', 1, '2026-01-15 10:00:02Z'), ('b', 1, '2026-01-15 10:00:01Z'), ('c', 0, '2026-01-15 10:00:03.5Z');
SELECT process_all_available(name) FROM tm_queries \g /dev/null
SELECT stop_query(name) FROM tm_queries \g /dev/null
SELECT start_query(name) FROM tm_queries \g /dev/null
INSERT INTO tm VALUES ('w', 3600, '2026-01-15 10:00:14Z');
SELECT process_all_available(name) FROM tm_queries \g /dev/null
-- late by the watermark 10:00:04; the timer of z lies before it and fires at once
INSERT INTO tm VALUES ('late', 1, '2026-01-15 10:00:04Z'), ('z', 0, '2026-01-15 10:00:04.1Z'), ('a', 0, '2026-01-15 10:00:29Z');
SELECT process_all_available(name) FROM tm_queries \g /dev/null
INSERT INTO tm VALUES ('w', 3600, '2026-01-15 10:00:30Z');
SELECT process_all_available(name) FROM tm_queries \g /dev/null
INSERT INTO tm VALUES ('w', 3600, '2026-01-15 10:00:30.001Z');
SELECT process_all_available(name) FROM tm_queries \g /dev/null

SELECT results_eq(format($$SELECT k, string_agg(what || to_char(at, ' SS.MS'), ', ' ORDER BY at) FROM %I WHERE what LIKE '%%then' GROUP BY k ORDER BY k$$, 'tm_event_' || store), $$VALUES
	('a', '1 then 03.000, 2 then 04.000, 2 then 05.000, 2 then 06.000, 2 then 07.000'), ('b', '1 then 02.000, 1 then 03.000, 1 then 04.000, 1 then 05.000, 1 then 06.000, 1 then 07.000'),
	('c', '1 then 03.500, 1 then 04.500, 1 then 05.500, 1 then 06.500, 1 then 07.500'), ('z', '1 then 04.100, 1 then 05.100, 1 then 06.100, 1 then 07.100')$$,
	store || ': timers fire when the watermark has come to them') FROM unnest('{rocksdb,table}'::text[]) store;
SELECT is((SELECT string_agg(k || what, ' ' ORDER BY k, what) FROM tm_event_table WHERE what NOT LIKE '%then' AND k <> 'w'), 'a1 a2 b1 c1 z1', 'timers of the same time are one, and are listed');
SELECT is_empty($$SELECT * FROM tm_event_rocksdb WHERE k = 'late'$$, 'late rows are dropped');
SELECT bag_eq('TABLE tm_event_rocksdb', 'TABLE tm_event_table', 'both stores keep the same timers');
SELECT is((SELECT string_agg(k || what, ' ' ORDER BY batch, k) FROM tm_group WHERE at IS NULL), 'a2 b1 c1 w1 a3 z1 w2 w3', 'a row for each key and batch');

-- by processing time, while no rows come
CREATE FUNCTION tm_later(key text, rows int[], timer timestamptz) RETURNS SETOF tm_out LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM timer_set(current_processing_time() + rows[1] * interval '1 millisecond');
	ELSIF current_processing_time() < timer OR now() <> current_processing_time() THEN
		RAISE 'too early';
	ELSE
		RETURN NEXT ('fired', timer)::tm_out;
	END IF;
END $$;
CREATE FOREIGN TABLE tp (k text, v int) SERVER streamx;
SELECT create_query('tm_later', $$SELECT t.k, r.what FROM tp t CROSS JOIN LATERAL transform_with_state('tm_later', t.k, t.v, NULL::tm_out, time_mode => 'processing') r$$, sink => 'tm_later') \g /dev/null
SELECT start_query('tm_later') \g /dev/null
INSERT INTO tp VALUES ('past', -1000), ('soon', 200), ('never', 3600000);
SELECT process_all_available('tm_later') \g /dev/null
SELECT results_eq($$SELECT k FROM tm_later WHERE k <> 'soon'$$, $$VALUES ('past')$$, 'a timer for a time that has passed fires in its batch');
CALL tm_wait($$EXISTS (SELECT FROM tm_later WHERE k = 'soon')$$);
SELECT results_eq($$SELECT k, what FROM tm_later ORDER BY k$$, $$VALUES ('past', 'fired'), ('soon', 'fired')$$, 'one fires while no rows come');
INSERT INTO tp VALUES ('stopped', 300);
SELECT process_all_available('tm_later') \g /dev/null
SELECT stop_query('tm_later') \g /dev/null
SELECT pg_sleep(0.4) \g /dev/null
SELECT start_query('tm_later') \g /dev/null
CALL tm_wait($$EXISTS (SELECT FROM tm_later WHERE k = 'stopped')$$);
SELECT results_eq($$SELECT k FROM tm_later ORDER BY k$$, $$VALUES ('past'), ('soon'), ('stopped')$$, 'one that was due while the query was stopped fires after its start');

-- ttl: what is old is not seen, and goes by itself
CREATE FUNCTION tm_ttl(key text, rows int[], timer timestamptz) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	RETURN NEXT concat_ws(' ', state_get('v', NULL::int), state_exists('v'), state_list_get('l', NULL::int)::text, state_map_keys('m', NULL::text)::text, state_map_size('m'));
	IF rows[1] = 1 THEN
		PERFORM state_put('v', 1), state_list_append('l', 1), state_list_append('l', 2, interval '1 hour'), state_list_append('l', 3),
			state_map_put('m', 'a', 1), state_map_put('m', 'b', 2, interval '1 hour'), state_map_put('m', 'c', 3), state_map_put('m', 'c', 4, interval '1 hour');
	ELSIF rows[1] = 2 THEN
		PERFORM state_map_remove('m', 'b'), state_map_put('m', 'd', 1, interval '1 hour'), state_put('v', 5, interval '1 hour'), state_list_put('l', ARRAY[7, 8], interval '1 hour');
	ELSIF rows[1] = 3 THEN
		PERFORM state_clear('m'), state_clear('l'), state_clear('v');
	END IF;
END $$;
INSERT INTO tm_queries SELECT 'tm_ttl_' || store, $$SELECT r FROM tp t CROSS JOIN LATERAL transform_with_state('tm_ttl', t.k, t.v, NULL::text, time_mode => 'processing',
	state => ARRAY[value_state('v', NULL::int, '200 milliseconds'), list_state('l', NULL::int, ttl => '200 milliseconds'), map_state('m', NULL::text, NULL::int, ttl => '200 milliseconds')]) r WHERE t.k = 'ttl'$$
	FROM unnest('{rocksdb,table}'::text[]) store;
CREATE TABLE tm_ttl (query text, line text);
SELECT create_query(name, query, sink => name, options => jsonb_build_object('state_store', CASE WHEN name ~ 'table' THEN 'table' ELSE 'rocksdb' END)) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
SELECT start_query(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
INSERT INTO tp VALUES ('ttl', 1);
SELECT process_all_available(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
CALL tm_wait($$(SELECT bool_and((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::int = 3) FROM tm_queries WHERE name ~ 'ttl')$$);
SELECT is((SELECT bool_and((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::int = 3) FROM tm_queries WHERE name ~ 'ttl'), true, 'what has gone is removed while no rows come');
INSERT INTO tp VALUES ('ttl', 2);
SELECT process_all_available(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
SELECT stop_query(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
SELECT start_query(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
INSERT INTO tp VALUES ('ttl', 3);
SELECT process_all_available(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
INSERT INTO tp VALUES ('ttl', 4);
SELECT process_all_available(name) FROM tm_queries WHERE name ~ 'ttl' \g /dev/null
SELECT bag_eq(format('TABLE %I', 'tm_ttl_' || store), $$VALUES ('f {} {} 0'), ('f {2} {c,b} 2'), ('5 t {7,8} {c,d} 2'), ('f {} {} 0')$$, store || ': each value, element and entry has its own time')
	FROM unnest('{rocksdb,table}'::text[]) store;
SELECT is((SELECT sum((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::int) FROM tm_queries WHERE name ~ 'ttl'), 0::bigint, 'nothing is left');

-- the initial state, before the first rows; keys that have no rows too; only once
CREATE TABLE tm_before (k text, n int);
INSERT INTO tm_before VALUES ('a', 10), ('a', 1), ('b', 20);
CREATE FUNCTION tm_begin(key text, rows tm_before[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM state_put('n', (SELECT sum(r.n)::int FROM unnest(rows) r)), timer_set('2026-01-15 11:00Z');
END $$;
CREATE FUNCTION tm_count(key text, rows tm[], timer timestamptz) RETURNS SETOF int LANGUAGE plpgsql AS $$
BEGIN
	PERFORM state_put('n', coalesce(state_get('n', NULL::int), 0) + cardinality(rows));
	RETURN NEXT state_get('n', NULL::int);
END $$;
SELECT create_query('tm_initial', $$SELECT t.k, n FROM tm t CROSS JOIN LATERAL transform_with_state('tm_count', t.k, t, NULL::int, time_mode => 'event',
	state => ARRAY[value_state('n', NULL::int)], initial_state => 'tm_before', initial_handler => 'tm_begin') n WHERE ts > '2026-01-15 10:30Z'$$, sink => 'tm_initial') \g /dev/null
SELECT start_query('tm_initial') \g /dev/null
SELECT process_all_available('tm_initial') \g /dev/null
INSERT INTO tm VALUES ('a', 1, '2026-01-15 10:31Z'), ('c', 1, '2026-01-15 10:31Z');
SELECT process_all_available('tm_initial') \g /dev/null
SELECT stop_query('tm_initial') \g /dev/null
SELECT start_query('tm_initial') \g /dev/null
INSERT INTO tm VALUES ('a', 1, '2026-01-15 10:32Z'), ('x', 1, '2026-01-15 11:32Z');
SELECT process_all_available('tm_initial') \g /dev/null
SELECT bag_eq('TABLE tm_initial', $$VALUES ('a', 12), ('c', 1), ('a', 13), ('x', 1), ('a', 13), ('b', 20)$$, 'the initial state is there before the rows, and timers set in it fire');

-- step by step, with a clock that is moved
CREATE FOREIGN TABLE tq (k text, v int) SERVER streamx;
CREATE FUNCTION tm_step(key text, rows int[], timer timestamptz) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM timer_set(current_processing_time() + rows[1] * interval '1 second'), state_put('seen', rows[1]);
	ELSE
		RETURN NEXT concat_ws(' ', key, state_get('seen', NULL::int), extract(epoch FROM current_processing_time() - timer)::int);
	END IF;
END $$;
BEGIN;
SELECT create_query('tm_steps', $q$SELECT r FROM tq, transform_with_state('tm_step', k, v, NULL::text, time_mode => 'processing', state => ARRAY[value_state('seen', NULL::int, '90 seconds')]) r$q$, sink => 'tm_steps') \g /dev/null
INSERT INTO tq VALUES ('a', 60), ('b', 120);
SELECT advance_time('tm_steps', '2026-01-15 10:00Z') \g /dev/null
SELECT results_eq('SELECT batch_id, input_rows, output_rows FROM run_batch(''tm_steps'')', 'VALUES (0::bigint, 2::bigint, 0::bigint)', 'a batch sets timers');
SELECT advance_time('tm_steps', '2026-01-15 10:00:59.999999Z') \g /dev/null
SELECT is((SELECT batch_id FROM run_batch('tm_steps')), NULL, 'before its time none is due');
SELECT advance_time('tm_steps', '2026-01-15 10:01Z') \g /dev/null
SELECT results_eq('SELECT batch_id, output_rows FROM run_batch(''tm_steps'')', 'VALUES (1::bigint, 1::bigint)', 'then one is');
SAVEPOINT s;
SELECT advance_time('tm_steps', '2026-01-15 10:02:01Z') \g /dev/null
SELECT run_batch('tm_steps') \g /dev/null
ROLLBACK TO s;
SELECT advance_time('tm_steps', '2026-01-15 10:02:02Z') \g /dev/null
SELECT run_batch('tm_steps') \g /dev/null
SELECT bag_eq('TABLE tm_steps', $$VALUES ('a 60 0'), ('b 2')$$, 'and what has gone by its ttl is not seen');
ROLLBACK;

SELECT drop_query(name) FROM streamx.queries \g /dev/null
DROP FOREIGN TABLE tm, tp, tq CASCADE;
SELECT finish();
