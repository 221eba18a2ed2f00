-- Handlers with state that cannot be: refused by create_query with a reason; and errors
-- of a handler that runs, which name the key.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE te (k text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE te_plain (k text, v int) SERVER streamx;
CREATE TYPE te_out AS (k text, n bigint, at timestamptz);
CREATE FUNCTION te_ok(key text, rows int[], timer timestamptz) RETURNS SETOF te_out LANGUAGE sql AS 'SELECT NULL::te_out';
CREATE FUNCTION te_one(key text, rows int[], timer timestamptz) RETURNS te_out LANGUAGE sql AS 'SELECT NULL::te_out';
CREATE FUNCTION te_strict(key text, rows int[], timer timestamptz) RETURNS SETOF te_out STRICT LANGUAGE sql AS 'SELECT NULL::te_out';
CREATE FUNCTION te_table(key text, rows int[], timer timestamptz) RETURNS TABLE (k text, n bigint, at timestamptz) LANGUAGE sql AS 'SELECT key, 1::bigint, now()';
CREATE FUNCTION te_begin(key text, rows te_out[]) RETURNS void LANGUAGE sql AS '';
CREATE TYPE te_key AS (a text, b int);
CREATE VIEW te_initial AS SELECT 'x'::text AS k;

CREATE FUNCTION refusal(query text, mode text DEFAULT 'append') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	PERFORM create_query('te_refused', query, sink => 'noop', output_mode => mode);
	PERFORM drop_query('te_refused');
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n    ', SQLSTATE || ' ' || message, nullif(detail, ''), nullif(hint, ''));
END $$;

\set call 'transform_with_state(\'te_ok\', k, v, NULL::te_out'
SELECT refusal(q, m) FROM (VALUES
	(1, 'SELECT r.* FROM te, ' || :'call' || ') r', 'append'),
	(2, 'SELECT r.* FROM te, ' || :'call' || ') r', 'update'),
	(3, 'SELECT r.* FROM te, ' || :'call' || ') r', 'complete'),
	(4, 'SELECT v, r.* FROM te, ' || :'call' || ') r', 'append'),
	(5, 'SELECT r.* FROM te LEFT JOIN LATERAL ' || :'call' || ') r ON true', 'append'),
	(6, 'SELECT ' || :'call' || ') FROM te', 'append'),
	(7, 'SELECT r.* FROM te, ' || :'call' || ') r, ' || replace(:'call', ' k,', ' te.k,') || ') q', 'append'),
	(8, 'SELECT r.* FROM te, transform_with_state(''te_one'', v, v, NULL::te_out) r', 'append'),
	(9, 'SELECT r.* FROM te, transform_with_state(''te_strict'', k, v, NULL::te_out) r', 'append'),
	(10, 'SELECT r.* FROM te, transform_with_state(''te_table'', k, v, NULL::te_out) r', 'append'),
	(11, 'SELECT r.* FROM te, transform_with_state(''te_one'', k, v, NULL::te_out) r', 'append'),
	(12, 'SELECT r.* FROM te, transform_with_state(''te_ok'', ROW(k, v), v, NULL::te_out) r', 'append'),
	(13, 'SELECT r.* FROM te, transform_with_state(''te_ok'', k || random(), v, NULL::te_out) r', 'append'),
	(14, 'SELECT r.* FROM te_plain, ' || :'call' || ', time_mode => ''event'') r', 'append'),
	(15, 'SELECT r.* FROM te, ' || :'call' || ', time_mode => ''sometimes'') r', 'append'),
	(16, 'SELECT r.* FROM te, ' || :'call' || ', state => ARRAY[value_state(''n'', NULL::int), list_state(''n'', NULL::int)]) r', 'append'),
	(17, 'SELECT r.* FROM te, ' || :'call' || ', state => ARRAY[value_state(''a b'', NULL::int)]) r', 'append'),
	(18, 'SELECT r.* FROM te, ' || :'call' || ', state => ARRAY[value_state(''n'', NULL)]) r', 'append'),
	(19, 'SELECT r.* FROM te, ' || :'call' || ', state => ARRAY[value_state(''n'', 1, ''1 hour'')]) r', 'append'),
	(20, 'SELECT r.* FROM te, ' || :'call' || ', state => ARRAY[''value n int'']) r', 'append'),
	(21, 'SELECT r.* FROM te, ' || :'call' || ', time_mode => ''processing'', state => ARRAY[value_state(''n'', 1, ''0'')]) r', 'append'),
	(31, 'SELECT r.* FROM te, ' || :'call' || ', state => ARRAY[map_state(''m'', NULL::json, NULL::int)]) r', 'append'),
	(22, 'SELECT r.* FROM te, ' || :'call' || ', event_time_column => ''n'') r', 'append'),
	(23, 'SELECT r.* FROM te, ' || :'call' || ', event_time_column => ''at'', time_mode => ''processing'') r', 'append'),
	(24, 'SELECT r.* FROM te, ' || :'call' || ', initial_state => ''te_initial'') r', 'append'),
	(25, 'SELECT r.* FROM te, ' || :'call' || ', initial_state => ''te_initial'', initial_handler => ''te_begin'') r', 'append'),
	(26, 'SELECT r.* FROM te, ' || :'call' || ', max_rows => 0) r', 'append'),
	(27, 'SELECT r.* FROM te, map_groups_with_state(''te_one'', k, v, NULL::te_out, 1) r', 'append'),
	(28, 'SELECT r.* FROM te, map_groups_with_state(''te_ok'', k, v, NULL::te_out, 1) r', 'update'),
	(29, 'SELECT DISTINCT r.k FROM te, flat_map_groups_with_state(''te_ok'', k, v, NULL::te_out, 1, ''event'') r', 'append'),
	(30, 'SELECT r.* FROM te_initial i, ' || replace(:'call', ' v,', ' 1,') || ') r WHERE EXISTS (SELECT FROM te)', 'append')) x(i, q, m) ORDER BY i;

INSERT INTO te VALUES ('a', 1, '2026-01-15 10:00Z');
SELECT throws_like($$SELECT * FROM te, transform_with_state('te_ok', k, v, NULL::te_out) r$$, '%continuous queries only%', 'in a batch query a handler means nothing');
SELECT throws_like($$SELECT state_get('n', NULL::int)$$, 'state_get() was called outside a handler', 'state functions are for handlers');
SELECT throws_like($$SELECT value_state('n', NULL::int)$$, '%argument "state"%', 'declarations are for queries');

-- errors of calls: each key is one, caught and told by the handler
CREATE TYPE te_told AS (call text, told text);
CREATE FUNCTION te_calls(key text, rows int[], timer timestamptz) RETURNS SETOF te_told LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE key;
	RETURN NEXT (key, 'went through')::te_told;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN NEXT (key, concat_ws(E'\n    ', SQLSTATE || ' ' || message, nullif(detail, ''), nullif(hint, '')))::te_told;
END $$;
SELECT create_query('te_event', $$SELECT r.* FROM te, transform_with_state('te_calls', k, v, NULL::te_told, time_mode => 'event',
	state => ARRAY[value_state('n', NULL::bigint), list_state('l', NULL::int), list_state('a', NULL::int[]), map_state('m', NULL::text, NULL::int)]) r$$, sink => 'te_event') \g /dev/null
SELECT create_query('te_none', $$SELECT r.* FROM te, transform_with_state('te_calls', k, v, NULL::te_told) r$$, sink => 'te_none') \g /dev/null
SELECT create_query('te_groups', $$SELECT r.* FROM te, flat_map_groups_with_state('te_calls', k, v, NULL::te_told, 1, 'processing') r$$, sink => 'te_groups') \g /dev/null
SELECT start_query(name) FROM streamx.queries \g /dev/null
INSERT INTO te SELECT c, 1, '2026-01-15 10:00Z' FROM unnest(ARRAY[
	$$SELECT state_get('x', NULL::int)$$, $$SELECT state_get('n', NULL::int)$$, $$SELECT state_get(NULL, NULL::int)$$, $$SELECT state_get('l', NULL::int)$$,
	$$SELECT state_put('n', 1)$$, $$SELECT state_put('n', '1')$$, $$SELECT state_put('n', 'one')$$, $$SELECT state_put('n', NULL)$$, $$SELECT state_put('n', 1::bigint, '1 hour')$$,
	$$SELECT state_list_put('l', '{}')$$, $$SELECT state_list_put('l', NULL)$$, $$SELECT state_list_put('l', ARRAY['a'])$$, $$SELECT state_list_append_all('l', '{1,2}')$$, $$SELECT state_list_append('a', '{1,2}')$$, $$SELECT state_list_append_all('a', '{{1,2}}')$$, $$SELECT state_list_put('a', ARRAY[1,2])$$, $$SELECT state_list_append('m', 1)$$,
	$$SELECT state_map_put('m', NULL, 1)$$, $$SELECT state_map_put('m', 1, 1)$$, $$SELECT state_map_put('m', 'a', 1.5)$$, $$SELECT state_map_keys('m', NULL::int)$$, $$SELECT state_map_get('m', 'a', NULL::text)$$,
	$$SELECT timer_set(NULL)$$, $$SELECT timer_set('infinity')$$, $$SELECT timeout_set('2026-01-15Z'::timestamptz)$$]) c;
SELECT process_all_available('te_event') \g /dev/null
SELECT call, told FROM te_event ORDER BY call COLLATE "C";
SELECT stop_query('te_event') \g /dev/null
INSERT INTO te SELECT c, 1, '2026-01-15 10:00Z' FROM unnest(ARRAY[
	$$SELECT timer_set('2026-01-15Z')$$, $$SELECT timeout_set('2026-01-15Z'::timestamptz)$$, $$SELECT timeout_set(interval '-1 second')$$, $$SELECT timeout_set(interval '1 second')$$, $$SELECT timer_list()$$]) c;
SELECT process_all_available('te_none'), process_all_available('te_groups') \g /dev/null
SELECT call, told FROM te_none WHERE call ~ 'timer' GROUP BY call, told ORDER BY call COLLATE "C";
SELECT call, told FROM te_groups WHERE call ~ 'time[ro]' GROUP BY call, told ORDER BY call COLLATE "C";

-- an error that nobody catches fails the query, nothing of the batch stays, and the context names the key
CREATE FUNCTION te_fails(key te_key, rows int[], timer timestamptz) RETURNS SETOF te_out LANGUAGE plpgsql AS $$
BEGIN
	PERFORM state_put('n', coalesce(state_get('n', NULL::bigint), 0) + cardinality(rows));
	RETURN NEXT (key.a, state_get('n', NULL::bigint), CASE WHEN key.b = 3 THEN '2026-01-15 09:00Z' ELSE '2026-01-15 11:00Z' END::timestamptz)::te_out;
	PERFORM 1 / (key.b - 2);
END $$;
SELECT create_query('te_failing', $$SELECT r.k, r.n FROM te, transform_with_state('te_fails', (te.k, v)::te_key, v, NULL::te_out, time_mode => 'event',
	event_time_column => 'at', state => ARRAY[value_state('n', NULL::bigint)]) r WHERE te.k = 'fails'$$, sink => 'te_failing') \g /dev/null
SELECT start_query('te_failing') \g /dev/null
INSERT INTO te VALUES ('fails', 1, '2026-01-15 10:01Z');
SELECT process_all_available('te_failing') \g /dev/null
INSERT INTO te VALUES ('fails', 1, '2026-01-15 10:01Z'), ('fails', 2, '2026-01-15 10:01Z');
SELECT throws_like($$SELECT process_all_available('te_failing')$$, '%division by zero%', 'an error of a handler fails the query');
SELECT matches((SELECT context FROM streamx.failures WHERE query = 'te_failing' ORDER BY at DESC LIMIT 1), 'handler te_fails, key \(fails,2\)\s+operator 0 \(handler with state\)\s+streaming query "te_failing", batch', 'its context names the key');
CREATE OR REPLACE FUNCTION te_fails(key te_key, rows int[], timer timestamptz) RETURNS SETOF te_out LANGUAGE plpgsql AS $$
BEGIN
	PERFORM state_put('n', coalesce(state_get('n', NULL::bigint), 0) + cardinality(rows));
	RETURN NEXT (key.a, state_get('n', NULL::bigint), CASE WHEN key.b = 3 THEN '2026-01-15 09:00Z' ELSE '2026-01-15 11:00Z' END::timestamptz)::te_out;
END $$;
SELECT start_query('te_failing') \g /dev/null
SELECT process_all_available('te_failing') \g /dev/null
SELECT bag_eq('TABLE te_failing', $$VALUES ('fails', 1::bigint), ('fails', 2), ('fails', 1)$$, 'with a handler that works it goes on from the state of before');
INSERT INTO te VALUES ('fails', 3, '2026-01-15 10:01Z');
SELECT throws_like($$SELECT process_all_available('te_failing')$$, '%older than the watermark%', 'a row with an event time that is late above is an error');

SELECT drop_query(name) FROM streamx.queries \g /dev/null
DROP VIEW te_initial;
DROP FOREIGN TABLE te, te_plain CASCADE;
SELECT finish();
