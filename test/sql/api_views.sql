-- What last_progress and the views say, and to whom.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE FOREIGN TABLE view_s (k int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE ROLE view_owner LOGIN;
CREATE ROLE view_member LOGIN IN ROLE view_owner;
CREATE ROLE view_monitor LOGIN IN ROLE pg_monitor;
CREATE ROLE view_stranger LOGIN;
GRANT CREATE ON SCHEMA public TO view_owner;
GRANT SELECT ON view_s TO view_owner;
SELECT no_plan();

SET ROLE view_owner;
SELECT create_query('view_q', 'SELECT tumble(ts, ''1 minute'') AS w, count(*) AS n FROM view_s GROUP BY w', 'view_out');
RESET ROLE;
SELECT is(last_progress('view_q'), NULL, 'no progress before the first batch');
SELECT start_query('view_q');
INSERT INTO view_s VALUES (1, '2026-01-15 10:00:00.1234Z'), (2, '2026-01-15 10:00:30Z');
SELECT process_all_available('view_q', '60 s');
INSERT INTO view_s VALUES (3, '2026-01-15 10:05:00Z');
SELECT process_all_available('view_q', '60 s');
INSERT INTO view_s VALUES (4, '2026-01-15 10:00:00Z'), (5, '2026-01-15 10:05:10Z');
SELECT process_all_available('view_q', '60 s');
SELECT is((SELECT n FROM view_out), 2::bigint, 'the first window is out');

CREATE TEMPORARY TABLE p AS SELECT row_number() OVER () AS i, p FROM recent_progress('view_q') p;
SELECT is((SELECT array_agg((p ->> 'batchId')::int ORDER BY i) FROM p), (SELECT array_agg(b ORDER BY b) FROM generate_series(0, (SELECT count(*) - 1 FROM p)) b)::int[],
	'recent_progress has the batches in their order');
SELECT is((SELECT p FROM p ORDER BY i DESC LIMIT 1), last_progress('view_q'), 'last_progress is the last of them');
SELECT is((SELECT array_agg(key ORDER BY key COLLATE "C") FROM p, jsonb_object_keys(p) key WHERE i = 1),
	ARRAY['batchDuration', 'batchId', 'conservation', 'durationMs', 'eventTime', 'id', 'name', 'numInputRows', 'processedRowsPerSecond', 'runId', 'sink', 'sources', 'stateOperators', 'timestamp'],
	'the first batch has Spark''s fields and its books; there is no rate of input yet');
SELECT is((SELECT p -> 'eventTime' FROM p WHERE i = 1),
	'{"avg": "2026-01-15T10:00:15.061Z", "max": "2026-01-15T10:00:30.000Z", "min": "2026-01-15T10:00:00.123Z"}', 'event times, and no watermark while it is unset');
SELECT is((SELECT p #>> '{eventTime,watermark}' FROM p ORDER BY i DESC LIMIT 1), '2026-01-15T10:05:00.000Z', 'the watermark that the batch used');
SELECT is((SELECT p ->> 'name' FROM p WHERE i = 1), 'view_q', 'the name');
SELECT is((SELECT p ->> 'id' FROM p WHERE i = 1), (SELECT incarnation::text FROM streamx.queries), 'the id');
SELECT is((SELECT p ->> 'runId' FROM p ORDER BY i DESC LIMIT 1), (SELECT run_id::text FROM streamx.queries), 'the id of the run');
SELECT matches((SELECT p ->> 'timestamp' FROM p WHERE i = 1), '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$', 'the time of the trigger');
SELECT is((SELECT sum((p ->> 'numInputRows')::int) FROM p), 5::bigint, 'every row is counted');
SELECT is((SELECT sum((p #>> '{sink,numOutputRows}')::int) FROM p), 1::bigint, 'and every row of the result');
SELECT is((SELECT p #>> '{stateOperators,0,operatorName}' FROM p WHERE i = 1), 'stateStoreSave', 'operators have Spark''s names');
SELECT is((SELECT array_agg(key ORDER BY key COLLATE "C") FROM p, jsonb_object_keys(p #> '{stateOperators,0}') key WHERE i = 1),
	ARRAY['commitTimeMs', 'memoryUsedBytes', 'numRowsDroppedByWatermark', 'numRowsRemoved', 'numRowsTotal', 'numRowsUpdated', 'numShufflePartitions', 'numStateStoreInstances', 'operatorName'],
	'and fields');
SELECT is((SELECT array_agg(key ORDER BY key COLLATE "C") FROM p, jsonb_object_keys(p -> 'durationMs') key WHERE i = 1),
	ARRAY['addBatch', 'commitOffsets', 'latestOffset', 'queryPlanning', 'triggerExecution'], 'and durations');

-- views
SELECT is((SELECT state FROM streamx.queries), 'running', 'queries: state');
SELECT is((SELECT owner::text FROM streamx.queries), 'view_owner', 'queries: owner');
SELECT is((SELECT watermark FROM streamx.queries), '2026-01-15 10:05:00Z', 'queries: watermark');
SELECT is((SELECT batch_id FROM streamx.queries), (SELECT count(*) - 1 FROM p), 'queries: batch');
SELECT is((SELECT input_rows FROM streamx.queries), 5::bigint, 'queries: rows in');
SELECT is((SELECT output_rows FROM streamx.queries), 1::bigint, 'queries: rows out');
SELECT is((SELECT late_rows FROM streamx.queries), 1::bigint, 'queries: late rows');
SELECT is((SELECT state_rows FROM streamx.queries), 1::bigint, 'queries: rows of state');
SELECT ok((SELECT wal_bytes > 0 AND batch_duration > '0' AND heartbeat > now() - interval '1 minute' FROM streamx.queries), 'queries: WAL, duration, heartbeat');
SELECT is((SELECT count(*) FROM streamx.progress), (SELECT count(*) FROM p), 'progress: a row for each batch');
SELECT is((SELECT sum(input_rows) FROM streamx.progress), 5::numeric, 'progress: rows');
SELECT is((SELECT source FROM streamx.sources), 'stream[public.view_s]', 'sources');
SELECT is((SELECT operator || rows_total FROM streamx.state_operators), 'stateStoreSave1', 'state_operators');
SELECT is((SELECT sum(rows) FROM streamx.late_rows), 1::numeric, 'late_rows');
SELECT ok((SELECT count(*) > 0 FROM explain_query('view_q')), 'explain_query');

-- rights
CREATE FUNCTION seen() RETURNS text LANGUAGE sql AS $$
	SELECT concat_ws(' ', (SELECT count(*) FROM streamx.queries), (SELECT count(*) > 0 FROM streamx.progress),
		(SELECT count(*) > 0 FROM streamx.sources), (SELECT count(*) > 0 FROM streamx.state_operators),
		(SELECT count(*) > 0 FROM streamx.late_rows)) $$;
CREATE FUNCTION code_of(sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	RETURN '00000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SET ROLE view_owner;
SELECT is(seen(), '1 t t t t', 'the owner sees his query');
SET ROLE view_member;
SELECT is(seen(), '1 t t t t', 'a member of the owner too');
SELECT is(code_of($$SELECT alter_query('view_q', trigger => '1 s')$$), '00000', 'and may alter it');
SET ROLE view_monitor;
SELECT is(seen(), '1 t t t t', 'pg_monitor sees it');
SELECT is(code_of($$SELECT stop_query('view_q')$$), '42501', 'and may not stop it');
SELECT is(code_of($$SELECT last_progress('view_q')$$), '00000', 'but see its progress');
SET ROLE view_stranger;
SELECT is(seen(), '0 f f f f', 'a stranger sees nothing');
SELECT is(code_of(format('SELECT %s', f)), '42501', 'and may not call ' || f) FROM (VALUES
	($$stop_query('view_q')$$), ($$start_query('view_q')$$), ($$drop_query('view_q')$$), ($$alter_query('view_q', trigger => '1 s')$$),
	($$last_progress('view_q')$$), ($$recent_progress('view_q')$$), ($$explain_query('view_q')$$), ($$process_all_available('view_q')$$),
	($$await_termination('view_q')$$)) x(f);
SELECT is(code_of($$SELECT * FROM streamx.query$$), '42501', 'nor read the catalog');
SELECT is(code_of($$SELECT * FROM streamx.batch$$), '42501', 'nor the checkpoint');
SELECT is(code_of($$SELECT * FROM streamx.failure$$), '42501', 'nor failures');
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT k FROM view_s', 'noop')$$), '42501', 'nor read the stream by a query');
RESET ROLE;
GRANT SELECT ON view_s TO view_stranger;
CREATE TABLE view_secret (k int);
SET ROLE view_stranger;
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT k FROM view_s', 'view_secret')$$), '42501', 'nor write another''s table');
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT s.k FROM view_s s JOIN view_secret USING (k)', 'noop')$$), '42501', 'nor read it');
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT k FROM view_s WHERE k IN (SELECT k FROM view_secret)', 'noop')$$), '42501', 'also in a subquery');
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT k FROM view_s', 'view_new')$$), '42501', 'nor create a table where he may not');
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT k FROM view_s', 'directory', options => '{"directory": "/tmp"}')$$), '42501', 'nor write files');
SELECT is(code_of($$CREATE VIEW streamx_query.view_x AS SELECT 1$$), '42501', 'nor make views beside ours');
SELECT is(code_of($$SELECT create_query('view_x', 'SELECT k FROM view_s', 'noop')$$), '00000', 'what he may he may');
SELECT drop_query('view_x');
RESET ROLE;

-- rights taken away later
REVOKE SELECT ON view_s FROM view_owner;
SELECT is(code_of($$SELECT stop_query('view_q')$$), '00000', 'a superuser may stop it');
SELECT is(code_of($$SELECT start_query('view_q')$$), '42501', 'it does not start when its owner lost a right');
SELECT drop_query('view_q');
DROP FOREIGN TABLE view_s;
DROP OWNED BY view_owner;
DROP ROLE view_member, view_owner, view_monitor, view_stranger;
SELECT * FROM finish();
