-- available_now, once and intervals; batches cut by batch_rows.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
CREATE FUNCTION batches(query text) RETURNS TABLE (batch bigint, rows int) LANGUAGE sql AS $$
	SELECT b.batch, (b.progress::jsonb->>'numInputRows')::int FROM streamx.batch b
	JOIN streamx.query q ON q.id = b.query WHERE q.name = $1 ORDER BY 1 $$;

-- CASE-07: a run every hour must close what the run before left open
SELECT create_stream('et_seven', 'ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''1 minute''');
SELECT create_query('et_seven', $$
	SELECT lower(w) AS start, count(*) AS n FROM (SELECT tumble(ts, '5 minutes') AS w FROM et_seven) s GROUP BY w $$,
	sink => 'et_seven_sink', trigger => 'available_now');
INSERT INTO et_seven VALUES ('2024-01-01 10:00:00Z'), ('2024-01-01 10:00:30Z');
SELECT start_query('et_seven');
SELECT ok(await_termination('et_seven', '30 s'), 'available_now ends by itself');
SELECT is(state, 'finished', 'and is finished') FROM streamx.queries WHERE name = 'et_seven';
SELECT is_empty('TABLE et_seven_sink', 'the first run closes nothing');
INSERT INTO et_seven VALUES ('2024-01-01 10:10:00Z');
SELECT start_query('et_seven');
SELECT ok(await_termination('et_seven', '30 s'), 'the second run ends');
SELECT results_eq('TABLE et_seven_sink', $$VALUES ('2024-01-01 10:00:00Z'::timestamptz, 2::bigint)$$,
	'the second run closes the window with its no-data batch');
SELECT start_query('et_seven');
SELECT ok(await_termination('et_seven', '30 s'), 'a run without new rows ends');
SELECT is((SELECT count(*) FROM et_seven_sink), 1::bigint, 'and emits nothing twice');
SELECT is((SELECT count(*) FROM batches('et_seven')), 4::bigint, 'and uses no batch id');
SELECT drop_query('et_seven');

-- CASE-06: three inputs, in each run only some of them have rows
SELECT create_stream('et_a', 'ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('et_b', 'ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('et_c', 'ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('et_six', $$
	SELECT lower(w) AS start, count(*) AS n FROM (
		SELECT tumble(ts, '10 minutes') AS w FROM (
			SELECT ts FROM et_a UNION ALL SELECT ts FROM et_b UNION ALL SELECT ts FROM et_c) u) s
	GROUP BY w $$, sink => 'et_six_sink', trigger => 'available_now');
CREATE FUNCTION watermark_of(query text) RETURNS timestamptz LANGUAGE sql AS $$
	SELECT b.next_watermark FROM streamx.batch b JOIN streamx.query q ON q.id = b.query
	WHERE q.name = $1 ORDER BY batch DESC LIMIT 1 $$;
INSERT INTO et_a VALUES ('2024-01-01 10:01Z');
INSERT INTO et_b VALUES ('2024-01-01 10:02Z');
SELECT start_query('et_six');
SELECT ok(await_termination('et_six', '30 s'), 'run 1 ends');
SELECT is(watermark_of('et_six'), NULL, 'unset while an input was never seen');
INSERT INTO et_b VALUES ('2024-01-01 10:30Z');
INSERT INTO et_c VALUES ('2024-01-01 10:31Z');
SELECT start_query('et_six');
SELECT ok(await_termination('et_six', '30 s'), 'run 2 ends');
SELECT is(watermark_of('et_six'), '2024-01-01 10:01Z', 'an input counts that was seen in an earlier run');
INSERT INTO et_a VALUES ('2024-01-01 10:40Z');
SELECT start_query('et_six');
SELECT ok(await_termination('et_six', '30 s'), 'run 3 ends');
SELECT is(watermark_of('et_six'), '2024-01-01 10:30Z', 'the slowest input rules');
SELECT results_eq('TABLE et_six_sink', $$VALUES ('2024-01-01 10:00Z'::timestamptz, 2::bigint)$$,
	'the window comes out once, the later ones stay open');
SELECT drop_query('et_six');

-- once: everything in one batch, whatever batch_rows says, and no trailing no-data batch
SELECT create_stream('et_many', 'n int, ts timestamptz, WATERMARK FOR ts AS ts');
INSERT INTO et_many SELECT i, '2024-01-01Z'::timestamptz + i * interval '1 second' FROM generate_series(1, 20000) i;
SELECT create_query('et_once', $$
	SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 hour') AS w FROM et_many) s GROUP BY w $$,
	sink => 'noop', trigger => 'once', options => '{"batch_rows": 1000}');
SELECT start_query('et_once');
SELECT ok(await_termination('et_once', '30 s'), 'once ends by itself');
SELECT results_eq($$SELECT * FROM batches('et_once')$$, 'VALUES (0::bigint, 20000)', 'once is one batch');
SELECT drop_query('et_once');

-- available_now with a bound: several batches, together everything
SELECT create_query('et_cut', 'SELECT n FROM et_many', sink => 'et_cut_sink', trigger => 'available_now',
	options => '{"batch_rows": 1000}');
SELECT start_query('et_cut');
SELECT ok(await_termination('et_cut', '30 s'), 'available_now ends with a bound too');
SELECT cmp_ok((SELECT count(*) FROM batches('et_cut')), '>=', 10::bigint, 'batch_rows cuts batches');
SELECT cmp_ok((SELECT max(rows) FROM batches('et_cut')), '<', 2000, 'about where it says');
SELECT is((SELECT count(*) || ' ' || count(DISTINCT n) FROM et_cut_sink), '20000 20000', 'every row once');
SELECT is_empty($$SELECT * FROM batches('et_cut') WHERE rows = 0$$, 'a stateless query has no no-data batch');
SELECT drop_query('et_cut');

-- an interval: the first batch at once, the next at a tick
SELECT create_query('et_tick', 'SELECT n FROM et_many', sink => 'noop', trigger => '1 second');
SELECT start_query('et_tick');
SELECT process_all_available('et_tick', '30 s');
INSERT INTO et_many VALUES (0, '2024-01-01Z');
SELECT process_all_available('et_tick', '30 s');
INSERT INTO et_many VALUES (0, '2024-01-01Z');
SELECT process_all_available('et_tick', '30 s');
SELECT is((SELECT count(*) FROM batches('et_tick') WHERE rows = 1), 2::bigint, 'rows after the first batch come in later ones');
SELECT is((SELECT bool_and(extract(milliseconds FROM batch_timestamp) % 1000 < 500) FROM streamx.batch
	WHERE query = (SELECT id FROM streamx.query WHERE name = 'et_tick') AND batch > 0), true,
	'batches start shortly after a multiple of the interval');
SELECT drop_query('et_tick');

-- realtime: a row is there soon after its INSERT, and the progress says how soon
SELECT create_stream('et_now', 'n int');
SELECT create_query('et_now', 'SELECT n, count(*) AS c FROM et_now GROUP BY n', sink => 'et_now_sink', output_mode => 'update', trigger => 'realtime');
SELECT is((SELECT trigger FROM streamx.queries WHERE name = 'et_now'), 'realtime', 'the trigger is shown');
SELECT matches((SELECT l FROM explain_query('et_now') l LIMIT 1), '^Trigger realtime', 'and explained');
SELECT start_query('et_now');
SELECT process_all_available('et_now', '30 s');
CREATE PROCEDURE insert_and_see(rows int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. rows LOOP
		INSERT INTO et_now VALUES (i);
		COMMIT;
		FOR attempt IN 1 .. 18000 LOOP
			EXIT WHEN EXISTS (SELECT FROM et_now_sink WHERE n = i);
			PERFORM pg_sleep(0.01);
			COMMIT;
		END LOOP;
	END LOOP;
END $$;
CALL insert_and_see(5);
SELECT is((SELECT count(*) FROM et_now_sink), 5::bigint, 'every row was seen after its INSERT, though nobody asked for it');
SELECT results_eq($$SELECT k, count(*) FROM jsonb_each(last_progress('et_now') -> 'latencies') l(k, v), jsonb_object_keys(v) p
	WHERE p IN ('P0', 'P50', 'P90', 'P95', 'P99') GROUP BY k ORDER BY k COLLATE "C"$$,
	$$VALUES ('e2eLatencyMs', 5::bigint), ('processingLatencyMs', 5), ('sourceQueuingLatencyMs', 5)$$, 'latencies of the batches before');
SELECT ok((SELECT (l #>> '{e2eLatencyMs,P50}')::float8 BETWEEN (l #>> '{processingLatencyMs,P0}')::float8 AND 2500
	AND (l #>> '{e2eLatencyMs,P0}')::float8 <= (l #>> '{e2eLatencyMs,P99}')::float8
	FROM (SELECT last_progress('et_now') -> 'latencies') p(l)), 'half of them sooner than any look without a wake-up could be');
SELECT alter_query('et_now', trigger => 'default');
SELECT start_query('et_now');
INSERT INTO et_now VALUES (0);
SELECT process_all_available('et_now', '30 s');
SELECT ok(NOT last_progress('et_now') ? 'latencies', 'only trigger realtime has them');

-- what holds rows back does not go with it; no stream of ours has such an option yet
BEGIN;
UPDATE pg_foreign_table SET ftoptions = array_append(ftoptions, 'maxOffsetsPerTrigger=100') WHERE ftrelid = 'et_now'::regclass;
SELECT throws_ok($$SELECT alter_query('et_now', trigger => 'realtime')$$, '0A000',
	'option "maxOffsetsPerTrigger" of stream "et_now" cannot be used with trigger "realtime"', 'a bound is refused');
SELECT throws_ok($$SELECT create_query('et_more', 'SELECT n FROM et_now', sink => 'noop', trigger => 'real_time')$$, '0A000', NULL, 'for a new query, too');
ROLLBACK;
SELECT drop_query('et_now');

DROP FOREIGN TABLE et_seven, et_a, et_b, et_c, et_many, et_now;
DROP TABLE et_seven_sink, et_six_sink, et_cut_sink, et_now_sink;
DROP FUNCTION batches, watermark_of;
DROP PROCEDURE insert_and_see;
SELECT * FROM finish();
