-- Policies, idle inputs, far-future rows, time zones.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
CREATE FUNCTION watermark_of(query text) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT b.next_watermark FROM streamx.batch b JOIN streamx.query q ON q.id = b.query
	WHERE q.name = $1 ORDER BY batch DESC LIMIT 1 $$;

SELECT create_stream('ewm_a', 'ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('ewm_b', 'ts timestamptz, WATERMARK FOR ts AS ts');
CREATE VIEW ewm AS SELECT ts FROM ewm_a UNION ALL SELECT ts FROM ewm_b;

SELECT create_query('ewm_min', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM ewm) s GROUP BY w$$,
	sink => 'ewm_min');
SELECT create_query('ewm_max', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM ewm) s GROUP BY w$$,
	sink => 'ewm_max', options => '{"multipleWatermarkPolicy": "max"}');
SELECT create_query('ewm_idle', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM ewm) s GROUP BY w$$,
	sink => 'ewm_idle', options => '{"idle_timeout": "1 second"}');
INSERT INTO ewm_a VALUES ('2024-01-01 00:00:10Z'), ('2024-01-01 00:05:00Z');
INSERT INTO ewm_b VALUES ('2024-01-01 00:00:20Z');
SELECT start_query(name) FROM streamx.queries WHERE name LIKE 'ewm\_%' ORDER BY name;
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'ewm\_%' ORDER BY name;
SELECT is(watermark_of('ewm_min'), '2024-01-01 00:00:20Z', 'min: the slowest input rules');
SELECT is(watermark_of('ewm_max'), '2024-01-01 00:05:00Z', 'max: the fastest input rules');
SELECT is((SELECT n FROM ewm_max WHERE lower(w) = '2024-01-01Z'), 2::bigint, 'and closes windows');

-- ewm_b falls asleep; ewm_a goes on
CREATE PROCEDURE ewm_feed() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..300 LOOP
		IF EXISTS (SELECT FROM ewm_idle) THEN RETURN; END IF;
		INSERT INTO ewm_a VALUES ('2024-01-01 00:06:00Z');
		COMMIT;
		PERFORM pg_sleep(0.1);
	END LOOP;
END $$;
CALL ewm_feed();
SELECT is((SELECT n FROM ewm_idle WHERE lower(w) = '2024-01-01Z'), 2::bigint, 'idle_timeout: a silent input stops holding the watermark');
SELECT is(watermark_of('ewm_idle'), '2024-01-01 00:06:00Z', 'which is that of the others');
INSERT INTO ewm_b VALUES ('2024-01-01 00:00:30Z');
SELECT process_all_available('ewm_idle');
SELECT is(watermark_of('ewm_idle'), '2024-01-01 00:06:00Z', 'and never goes back when the input wakes up');
SELECT process_all_available('ewm_min');
SELECT is_empty('TABLE ewm_min', 'without idle_timeout nothing closes');

-- the policy is of the first start
SELECT stop_query('ewm_max');
UPDATE streamx.query SET options = '{"multiple_watermark_policy": "min"}' WHERE name = 'ewm_max';
SELECT start_query('ewm_max');
INSERT INTO ewm_a VALUES ('2024-01-01 00:10:00Z');
SELECT process_all_available('ewm_max');
SELECT is(watermark_of('ewm_max'), '2024-01-01 00:10:00Z', 'a policy changed afterwards is ignored');

-- D13
SELECT create_stream('ewm_future', 'ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('ewm_guarded', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM ewm_future) s GROUP BY w$$,
	sink => 'noop');
SELECT create_query('ewm_unguarded', $$SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 minute') AS w FROM ewm_future) s GROUP BY w$$,
	sink => 'noop', options => '{"max_future_skew": "off"}');
INSERT INTO ewm_future VALUES ('2024-01-01Z'), ('3000-01-01Z'), ('infinity'), ('-infinity'), (NULL);
SELECT start_query('ewm_guarded'), start_query('ewm_unguarded');
SELECT process_all_available('ewm_guarded'), process_all_available('ewm_unguarded');
SELECT is(watermark_of('ewm_guarded'), '2024-01-01Z', 'an event time far in the future does not move the watermark');
SELECT is(watermark_of('ewm_unguarded'), '3000-01-01Z', 'unless the guard is off');

-- CASE-12: the hour that exists twice
SET timezone = 'Europe/Berlin';
SELECT create_stream('ewm_hour', 'ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('ewm_hour', $$SELECT lower(w) AS start, upper(w) AS "end", count(*) AS n
	FROM (SELECT tumble(ts, '1 hour') AS w FROM ewm_hour) s GROUP BY w$$, sink => 'ewm_hour_sink');
SELECT start_query('ewm_hour');
INSERT INTO ewm_hour VALUES ('2025-10-26 00:30Z'), ('2025-10-26 00:59:59Z'), ('2025-10-26 01:00Z'), ('2025-10-26 01:30Z');
INSERT INTO ewm_hour VALUES ('2025-10-26 03:00Z');
SELECT process_all_available('ewm_hour');
SELECT results_eq('SELECT start, "end", n FROM ewm_hour_sink ORDER BY start',
	$$VALUES ('2025-10-26 00:00Z'::timestamptz, '2025-10-26 01:00Z'::timestamptz, 2::bigint),
	('2025-10-26 01:00Z', '2025-10-26 02:00Z', 2)$$, 'both passes through the repeated hour are windows of their own');
SELECT is((SELECT string_agg(to_char(start, 'HH24:MI'), ' ') FROM ewm_hour_sink), '02:00 02:00', 'though they print alike');
RESET timezone;

-- a watermark before the first instant there is would be one that no view can show
SELECT create_stream('ewm_old', 'ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''1 day''');
SELECT create_query('ewm_old_days', 'SELECT tumble(ts, ''1 day'') AS w, count(*) AS n FROM ewm_old GROUP BY w', sink => 'ewm_old_days');
INSERT INTO ewm_old VALUES ('4714-11-24 12:00:00Z BC');
SELECT is((SELECT next_watermark FROM run_batch('ewm_old_days')), NULL, 'the watermark stays unset');
SELECT is((SELECT watermark FROM streamx.queries WHERE name = 'ewm_old_days'), NULL, 'and the query can be shown');
INSERT INTO ewm_old VALUES ('4714-11-26 12:00:00Z BC');
SELECT is((SELECT next_watermark FROM run_batch('ewm_old_days')), '4714-11-25 12:00:00Z BC', 'a later one is there');
SELECT is((SELECT output_rows FROM run_batch('ewm_old_days')), 1::bigint, 'and closes the first day');

SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'ewm\_%';
DROP VIEW ewm;
DROP FOREIGN TABLE ewm_a, ewm_b, ewm_future, ewm_hour, ewm_old;
DROP TABLE ewm_min, ewm_max, ewm_idle, ewm_hour_sink, ewm_old_days;
DROP PROCEDURE ewm_feed;
DROP FUNCTION watermark_of;
SELECT * FROM finish();
