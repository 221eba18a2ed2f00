-- streamx.state over handlers: a store for each variable and one for the timers; lists and
-- maps row by row or as arrays; older batches and changes; both stores.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE sh (k numeric, what text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TYPE sh_stat AS (n bigint, last text);
-- each row says what is to be done
CREATE FUNCTION sh_handler(key numeric, rows sh[], timer timestamptz) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	r sh;
	stat sh_stat := state_get('stat', NULL::sh_stat);
BEGIN
	FOREACH r IN ARRAY rows LOOP
		CASE r.what
			WHEN 'count' THEN
				stat := ROW(coalesce(stat.n, 0) + 1, r.v)::sh_stat;
				PERFORM state_put('stat', stat);
			WHEN 'forget' THEN PERFORM state_clear('stat'), state_clear('seen');
			WHEN 'see' THEN PERFORM state_list_append('seen', r.v);
			WHEN 'put' THEN PERFORM state_map_put('by_v', r.v::numeric / 2, 'is ' || r.v);
			WHEN 'drop' THEN PERFORM state_map_remove('by_v', r.v::numeric * 0.50);
			WHEN 'null' THEN PERFORM state_put('stat', NULL::sh_stat), state_list_append('seen', NULL::int);
			WHEN 'timer' THEN PERFORM timer_set(r.ts + r.v * interval '1 second');
			ELSE RETURN NEXT r.what;
		END CASE;
	END LOOP;
END $$;
SELECT create_query('sh_' || store, $$SELECT r FROM sh t CROSS JOIN LATERAL transform_with_state('sh_handler', t.k, t, NULL::text, time_mode => 'event',
		state => ARRAY[value_state('stat', NULL::sh_stat), list_state('seen', NULL::int), map_state('by_v', NULL::numeric, NULL::text)]) AS r$$,
	sink => 'sh_' || store, options => jsonb_build_object('state_store', store, 'max_future_skew', 'off'))
	FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
SELECT start_query('sh_' || store) FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
CREATE PROCEDURE sh_step(VARIADIC rows text[]) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sh SELECT split_part(r, ' ', 1)::numeric, split_part(r, ' ', 2), split_part(r, ' ', 3)::int,
		'2026-01-15 10:00:00+00'::timestamptz + split_part(r, ' ', 4)::interval FROM unnest(rows) r;
	COMMIT;
	PERFORM process_all_available('sh_rocksdb');
	PERFORM process_all_available('sh_table');
END $$;
-- batches 0, 2 and 4, and one after each for the watermark; equal keys with other texts
CALL sh_step('1.0 count 5 1s', '1.00 see 7 1s', '1 see 8 1s', '2 see 9 1s', '1.0 put 1 1s', '1.0 put 2 1s', '2 put 3 1s', '1 timer 30 1s', '2 timer 5 1s', '2 timer 40 1s');
CALL sh_step('1.000 see 3 2s', '1.0 drop 1 2s', '2 count 1 2s', '2 null 0 2s', '3 count 1 2s');
CALL sh_step('2 forget 0 25s', '3 count 2 25s', '1 timer 3 25s');

SELECT results_eq(format($$ SELECT (key ->> 'k')::numeric, value, expires_at FROM streamx.state('sh_%s', store => 'stat') ORDER BY 1 $$, store),
	$$ VALUES (1.0, '{"value": {"n": 1, "last": "5"}}'::jsonb, NULL::timestamptz), (3, '{"value": {"n": 2, "last": "2"}}', NULL) $$, 'values, by name: ' || store)
	FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq(format($$ SELECT (key ->> 'k')::numeric, (key ->> 'list_index')::int, value FROM streamx.state('sh_%s', store => 'seen') ORDER BY 1, 2 $$, store),
	$$ VALUES (1::numeric, 0, '{"list_element": 7}'::jsonb), (1, 1, '{"list_element": 8}'), (1, 2, '{"list_element": 3}') $$, 'a list, element by element: ' || store)
	FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq(format($$ SELECT (key ->> 'k')::numeric, (key ->> 'user_map_key')::numeric, value FROM streamx.state('sh_%s', store => 'by_v') ORDER BY 1, 2 $$, store),
	$$ VALUES (1::numeric, 1.0, '{"user_map_value": "is 2"}'::jsonb), (2, 1.5, '{"user_map_value": "is 3"}') $$, 'a map, entry by entry: ' || store)
	FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq(format($$ SELECT (key ->> 'k')::numeric, value ->> 'expiration_timestamp', expires_at - '2026-01-15 10:00:00+00' FROM streamx.state('sh_%s', store => 'registered timers') ORDER BY expires_at $$, store),
	$$ VALUES (1::numeric, '2026-01-15T10:00:28+00:00', interval '28 s'), (1, '2026-01-15T10:00:31+00:00', '31 s'), (2, '2026-01-15T10:00:41+00:00', '41 s') $$, 'timers that have not fired: ' || store)
	FROM unnest('{rocksdb,table}'::text[]) store;

-- as arrays
SELECT results_eq($$ SELECT (key ->> 'k')::numeric, key - 'k', value FROM streamx.state('sh_table', store => 'seen', flatten => false) $$,
	$$ VALUES (1::numeric, '{}'::jsonb, '{"list_value": [7, 8, 3]}'::jsonb) $$, 'a list of a key whose texts differ is one');
SELECT results_eq($$ SELECT (key ->> 'k')::numeric, value FROM streamx.state('sh_table', store => 'seen', batch_id => 2, flatten => false) ORDER BY 1 $$,
	$$ VALUES (1::numeric, '{"list_value": [7, 8, 3]}'::jsonb), (2, '{"list_value": [9, null]}') $$, 'a list of an older batch, with NULL');
SELECT results_eq($$ SELECT (key ->> 'k')::numeric, k::numeric, v FROM streamx.state('sh_rocksdb', store => 'by_v', batch_id => 0, flatten => false), jsonb_each_text(value -> 'map_value') AS e(k, v) ORDER BY 1, 2 $$,
	$$ VALUES (1::numeric, 0.5, 'is 1'), (1, 1, 'is 2'), (2, 1.5, 'is 3') $$, 'a map as an object');
SELECT results_eq($$ SELECT count(*) FROM streamx.state('sh_table', store => 'stat', flatten => false) $$, 'VALUES (2::bigint)', 'a value is what it is');

-- older batches
SELECT results_eq(format($$ SELECT (key ->> 'k')::numeric, value -> 'value' ->> 'n' FROM streamx.state('sh_%s', store => 'stat', batch_id => 2) ORDER BY 1 $$, store),
	$$ VALUES (1::numeric, '1'), (2, NULL), (3, '1') $$, 'values of an older batch, one of them NULL: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq($$ SELECT value FROM streamx.state('sh_table', store => 'stat', batch_id => 2) WHERE key ->> 'k' = '2' $$, $$ VALUES ('{"value": null}'::jsonb) $$, 'which is not nothing');
SELECT results_eq($$ SELECT s.key = g.key AND s.value = g.value FROM streamx.state('sh_table', store => 'by_v') s, LATERAL streamx.state('sh_table', store => 'by_v', group_id => s.key_group) g WHERE s.key = g.key $$,
	$$ VALUES (true), (true) $$, 'a key group alone');

-- changes
SELECT results_eq(format($$ SELECT batch_id, change_type, (key ->> 'k')::numeric, value -> 'value' ->> 'n' FROM streamx.state_changes('sh_%s', 0, store => 'stat') ORDER BY 1, 3 $$, store),
	$$ VALUES (0::bigint, 'update', 1::numeric, '1'), (2, 'update', 2, NULL), (2, 'update', 3, '1'), (4, 'delete', 2, NULL), (4, 'update', 3, '2') $$, 'changes of values: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq($$ SELECT batch_id, change_type, (key ->> 'k')::numeric, key ->> 'list_index', value ->> 'list_element' FROM streamx.state_changes('sh_table', 1, store => 'seen') ORDER BY 1, 3, 4 $$,
	$$ VALUES (2::bigint, 'update', 1::numeric, '2', '3'), (2, 'update', 2, '1', NULL), (4, 'delete', 2, '0', NULL), (4, 'delete', 2, '1', NULL) $$, 'of elements');
SELECT results_eq(format($$ SELECT batch_id, change_type, (key ->> 'k')::numeric, (key ->> 'user_map_key')::numeric, value ->> 'user_map_value' FROM streamx.state_changes('sh_%s', 0, store => 'by_v') ORDER BY 1, 3, 4 $$, store),
	$$ VALUES (0::bigint, 'update', 1::numeric, 0.5, 'is 1'), (0, 'update', 1, 1, 'is 2'), (0, 'update', 2, 1.5, 'is 3'), (2, 'delete', 1, 0.5, NULL) $$, 'of entries; the one that took its place is as it was: ' || store) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT results_eq($$ SELECT change_type, (key ->> 'k')::numeric, expires_at - '2026-01-15 10:00:00+00' FROM streamx.state_changes('sh_table', 0, store => 'registered timers') ORDER BY batch_id, 3 $$,
	$$ VALUES ('update', 2::numeric, interval '6 s'), ('update', 1, '31 s'), ('update', 2, '41 s'), ('update', 1, '28 s'), ('delete', 2, '6 s') $$, 'and of timers: the one that fired is gone');

-- what there is
SELECT results_eq($$ SELECT operator_id, operator, store, min_batch_id, properties FROM streamx.state_metadata('sh_table') $$,
	$$ VALUES (0, 'transformWithStateExec', 'by_v', 0::bigint, '{"key": {"k": "numeric", "user_map_key": "numeric"}, "value": {"user_map_value": "text"}, "variable": "map", "ttl": null, "time_mode": "event"}'::jsonb),
	(0, 'transformWithStateExec', 'seen', 0, '{"key": {"k": "numeric", "list_index": "bigint"}, "value": {"list_element": "integer"}, "variable": "list", "ttl": null, "time_mode": "event"}'),
	(0, 'transformWithStateExec', 'stat', 0, '{"key": {"k": "numeric"}, "value": {"value": "sh_stat"}, "variable": "value", "ttl": null, "time_mode": "event"}'),
	(0, 'transformWithStateExec', 'registered timers', 0, '{"key": {"k": "numeric"}, "value": {"expiration_timestamp": "timestamp with time zone"}, "time_mode": "event"}') $$, 'stores and their columns');
SELECT throws_ok($$ SELECT * FROM streamx.state('sh_table', store => 'nothing') $$, '22023', NULL, 'a variable that is not there');

-- ttl: when it goes; and the older forms
CREATE FUNCTION sh_ttl(key text, rows sh[], timer timestamptz) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT state_list_append('l', 1, interval '1 hour');
	SELECT state_list_append('l', 2);
	SELECT state_map_put('m', 'x'::text, 2);
	SELECT ''::text WHERE false
$$;
CREATE FUNCTION sh_old(key text, rows sh[], timer timestamptz) RETURNS text LANGUAGE sql AS $$
	SELECT state_put('state', coalesce(state_get('state', 0), 0) + cardinality(rows));
	SELECT timeout_set('2026-01-15 10:01:00+00'::timestamptz);
	SELECT state_get('state', 0)::text
$$;
CREATE TABLE sh_out (batch bigint, k text, r text);
CREATE FUNCTION sh_take(batch_id bigint) RETURNS void LANGUAGE sql AS '';
SELECT create_query('sh_ttl', $$SELECT r FROM sh t CROSS JOIN LATERAL transform_with_state('sh_ttl', t.what, t, NULL::text, time_mode => 'processing',
	state => ARRAY[list_state('l', NULL::int, ttl => '1 day'), map_state('m', NULL::text, NULL::int, ttl => '2 days')]) AS r$$, sink => 'noop') \g /dev/null
SELECT create_query('sh_old', $$SELECT t.what, r FROM sh t CROSS JOIN LATERAL map_groups_with_state('sh_old', t.what, t, NULL::text, state => 0, timeout => 'event') r$$, foreach_batch => 'sh_take(bigint)'::regprocedure, output_mode => 'update') \g /dev/null
SELECT start_query('sh_ttl'), start_query('sh_old') \g /dev/null
CALL sh_step('1 timer 1 26s');
SELECT process_all_available('sh_ttl'), process_all_available('sh_old') \g /dev/null
SELECT results_eq($$ SELECT DISTINCT key ->> 'list_index', value ->> 'list_element', round(extract(epoch FROM expires_at - clock_timestamp()) / 3600) FROM streamx.state('sh_ttl', store => 'l') ORDER BY 1 $$,
	$$ VALUES ('0', '1', 1::numeric), ('1', '2', 24) $$, 'elements with the time at which they go');
SELECT results_eq($$ SELECT value, round(extract(epoch FROM expires_at - clock_timestamp()) / 3600) FROM streamx.state('sh_ttl', store => 'm', flatten => false) LIMIT 1 $$,
	$$ VALUES ('{"map_value": {"x": 2}}'::jsonb, 48::numeric) $$, 'entries, too');
SELECT is((SELECT (properties ->> 'ttl')::interval FROM streamx.state_metadata('sh_ttl') WHERE store = 'm'), interval '2 days', 'the ttl');
SELECT results_eq($$ SELECT sum((value ->> 'value')::int) FROM streamx.state('sh_old') $$, $$ SELECT count(*) FROM sh $$, 'the state of the older forms');
SELECT results_eq($$ SELECT DISTINCT expires_at FROM streamx.state('sh_old', store => 'registered timers') $$, $$ VALUES ('2026-01-15 10:01:00+00'::timestamptz) $$, 'and their timeouts');

SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'sh\_%' \g /dev/null
DROP FUNCTION sh_handler(numeric, sh[], timestamptz), sh_ttl(text, sh[], timestamptz), sh_old(text, sh[], timestamptz), sh_take(bigint);
DROP FOREIGN TABLE sh;
DROP TABLE sh_rocksdb, sh_table, sh_out;
DROP PROCEDURE sh_step(text[]);
DROP TYPE sh_stat;
SELECT * FROM finish();
