-- A handler of a timer that sets one which is due again: one batch for each, but what was
-- available is processed after the first.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE dt (k int) SERVER streamx;
CREATE FUNCTION dt_handler(key int, rows dt[], timer timestamptz) RETURNS SETOF timestamptz LANGUAGE sql AS $$
	SELECT timer_set(coalesce(timer + interval '1 s', '2024-01-01Z'));
	SELECT timer
$$;
SELECT create_query('dt_' || t, $$ SELECT t FROM dt, transform_with_state('dt_handler', dt.k, dt, NULL::timestamptz, time_mode => 'processing') t $$,
	sink => 'dt_' || t, trigger => t) FROM unnest('{default,available_now}'::text[]) t \g /dev/null
CREATE PROCEDURE dt_wait() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXIT WHEN (SELECT state FROM streamx.queries WHERE name = 'dt_available_now') = 'finished';
		COMMIT;
		PERFORM pg_sleep(0.02);
	END LOOP;
END $$;
INSERT INTO dt VALUES (1);
SELECT start_query('dt_available_now') \g /dev/null
CALL dt_wait();
SELECT is(state, 'finished', 'available_now comes to its end') FROM streamx.queries WHERE name = 'dt_available_now';
SELECT results_eq('SELECT t FROM dt_available_now ORDER BY 1', $$ VALUES ('2024-01-01 00:00:00Z'::timestamptz), ('2024-01-01 00:00:01Z'), (NULL) $$, 'after its rows and one batch without');
SELECT start_query('dt_available_now') \g /dev/null
SELECT lives_ok($$ SELECT process_all_available('dt_available_now', '60 s') $$, 'nobody waits longer for it');
CALL dt_wait();
SELECT is((SELECT max(t) FROM dt_available_now), '2024-01-01 00:00:02Z'::timestamptz, 'the next run goes on by one');

SELECT start_query('dt_default') \g /dev/null
SELECT lives_ok($$ SELECT process_all_available('dt_default', '60 s') $$, 'whoever waits for what is available need not wait for the timers');
SELECT cmp_ok((SELECT count(t) FROM dt_default), '>=', 1::bigint, 'which fire meanwhile');
INSERT INTO dt VALUES (2);
SELECT lives_ok($$ SELECT process_all_available('dt_default', '60 s') $$, 'nor with new rows');
SELECT is((SELECT count(*) FROM dt_default WHERE t IS NULL), 2::bigint, 'these are processed');

SELECT drop_query('dt_' || t) FROM unnest('{default,available_now}'::text[]) t \g /dev/null
DROP FUNCTION dt_handler(int, dt[], timestamptz);
DROP PROCEDURE dt_wait();
DROP FOREIGN TABLE dt;
DROP TABLE dt_default, dt_available_now;
SELECT * FROM finish();
