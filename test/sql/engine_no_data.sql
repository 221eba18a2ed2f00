-- When a batch without data runs, and that one that is owed is not forgotten.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
CREATE FUNCTION batches(query text) RETURNS TABLE (batch bigint, rows int, owes boolean) LANGUAGE sql AS $$
	SELECT b.batch, (b.progress::jsonb->>'numInputRows')::int, owes_no_data FROM streamx.batch b
	JOIN streamx.query q ON q.id = b.query WHERE q.name = $1 ORDER BY 1 $$;
SELECT create_stream('en', 'k int, ts timestamptz, WATERMARK FOR ts AS ts');
CREATE VIEW en_windows AS SELECT tumble(ts, '10 seconds') AS w FROM en;

SELECT create_query('en_off', 'SELECT lower(w) AS start, count(*) AS n FROM en_windows GROUP BY w', sink => 'en_off', options => '{"no_data_batches": false}');
SELECT create_query('en_plain', 'SELECT k, ts FROM en', sink => 'en_plain');
SELECT create_query('en_complete', 'SELECT lower(w) AS start, count(*) AS n FROM en_windows GROUP BY w', sink => 'en_complete', output_mode => 'complete');
SELECT create_query('en_update', 'SELECT k, count(*) AS n FROM en GROUP BY k', sink => 'en_update', output_mode => 'update');
SELECT start_query('en_off'), start_query('en_plain'), start_query('en_complete'), start_query('en_update');
INSERT INTO en VALUES (1, '2024-01-01 00:00:05Z'), (1, '2024-01-01 00:00:30Z');
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'en\_%';
SELECT results_eq($$SELECT * FROM batches('en_plain')$$, 'VALUES (0::bigint, 2, false)', 'none for a stateless query');
SELECT results_eq($$SELECT * FROM batches('en_complete')$$, 'VALUES (0::bigint, 2, false)', 'none in complete mode');
SELECT results_eq($$SELECT * FROM batches('en_update')$$, 'VALUES (0::bigint, 2, true), (1, 0, false)', 'one in update mode, though nothing can be evicted');
SELECT cmp_ok(processed_rows_per_second, '>', 0::float8, 'it leaves the rate of the batch with rows in streamx.queries')
	FROM streamx.queries WHERE name = 'en_update';
SELECT results_eq($$SELECT * FROM batches('en_off')$$, 'VALUES (0::bigint, 2, false)', 'none when they are switched off');
SELECT is_empty('TABLE en_off', 'then nothing closes yet');
INSERT INTO en VALUES (1, '2024-01-01 00:00:31Z');
SELECT process_all_available('en_off');
SELECT results_eq('TABLE en_off', $$VALUES ('2024-01-01Z'::timestamptz, 1::bigint)$$, 'but with the next data');

-- D12: what "once" leaves owing runs at the next start
SELECT create_query('en_owed', 'SELECT lower(w) AS start, count(*) AS n FROM en_windows GROUP BY w', sink => 'en_owed', trigger => 'once');
SELECT start_query('en_owed');
SELECT ok(await_termination('en_owed', '30 s'), 'once ends');
SELECT results_eq($$SELECT * FROM batches('en_owed')$$, 'VALUES (0::bigint, 3, true)', 'its batch owes another one');
SELECT is_empty('TABLE en_owed', 'and has closed nothing');
SELECT start_query('en_owed');
SELECT ok(await_termination('en_owed', '30 s'), 'the next run ends');
SELECT results_eq($$SELECT * FROM batches('en_owed')$$, 'VALUES (0::bigint, 3, true), (1, 0, false)', 'the owed batch runs at the next start');
SELECT results_eq('TABLE en_owed', $$VALUES ('2024-01-01Z'::timestamptz, 1::bigint)$$, 'and closes what was due');
SELECT start_query('en_owed');
SELECT ok(await_termination('en_owed', '30 s'), 'a third run ends');
SELECT is((SELECT count(*) FROM batches('en_owed')), 2::bigint, 'with nothing left to do');

SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'en\_%';
DROP VIEW en_windows;
DROP FOREIGN TABLE en;
DROP TABLE en_off, en_plain, en_complete, en_update, en_owed;
DROP FUNCTION batches;
SELECT * FROM finish();
