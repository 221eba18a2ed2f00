-- From INSERT to windows in a table: batches, watermarks, late rows, no-data batches.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();

SELECT create_stream('ew_clicks', 'url text, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''5 seconds''');
SELECT create_query('ew', $$
	SELECT lower(w) AS start, url, count(*) AS n
	FROM (SELECT tumble(ts, '10 seconds') AS w, url FROM ew_clicks) c
	GROUP BY w, url $$, sink => 'ew_sink');
SELECT start_query('ew');

INSERT INTO ew_clicks VALUES ('a', '2024-01-01 00:00:10Z'), ('a', '2024-01-01 00:00:12Z');
SELECT process_all_available('ew');
SELECT is_empty('TABLE ew_sink', 'an open window is not in the sink');
SELECT results_eq($$SELECT batch, watermark, next_watermark, owes_no_data FROM streamx.batch
	WHERE query = (SELECT id FROM streamx.query WHERE name = 'ew') ORDER BY batch$$,
	$$VALUES (0::bigint, NULL::timestamptz, '2024-01-01 00:00:07Z'::timestamptz, true),
	(1, '2024-01-01 00:00:07Z', '2024-01-01 00:00:07Z', false)$$,
	'a data batch is followed by a no-data batch that applies its watermark');
SELECT is((SELECT count(DISTINCT xmin::text) FROM streamx.batch
	WHERE query = (SELECT id FROM streamx.query WHERE name = 'ew')), 1::bigint,
	'both are one transaction');
SELECT is((SELECT count(DISTINCT lineage) FROM streamx.batch
	WHERE query = (SELECT id FROM streamx.query WHERE name = 'ew')), 2::bigint,
	'each has a lineage of its own');

INSERT INTO ew_clicks VALUES ('a', '2024-01-01 00:00:25Z');
SELECT process_all_available('ew');
SELECT results_eq('SELECT start, url, n FROM ew_sink',
	$$VALUES ('2024-01-01 00:00:10Z'::timestamptz, 'a', 2::bigint)$$,
	'a window is emitted once its end is at the watermark');

INSERT INTO ew_clicks VALUES ('a', '2024-01-01 00:00:19.5Z'), ('b', '2024-01-01 00:00:30Z');
SELECT process_all_available('ew');
INSERT INTO ew_clicks VALUES ('b', '2024-01-01 00:00:20.5Z');
SELECT process_all_available('ew');
SELECT is((SELECT count(*) FROM ew_sink), 1::bigint, 'a row of a closed window changes nothing');
SELECT is((SELECT (last_progress('ew')->>'batchId')::int), 6, 'a row older than the watermark whose window is open runs no no-data batch');
SELECT is((SELECT count(*) FROM streamx.batch b, jsonb_array_elements(b.progress::jsonb->'stateOperators') op
	WHERE query = (SELECT id FROM streamx.query WHERE name = 'ew')
	AND (op->>'numRowsDroppedByWatermark')::int = 1), 1::bigint, 'the late row is counted');

SELECT stop_query('ew');
SELECT start_query('ew');
SELECT process_all_available('ew');
SELECT is((SELECT max(batch) FROM streamx.batch WHERE query = (SELECT id FROM streamx.query WHERE name = 'ew')),
	6::bigint, 'a restart runs no batch by itself');
INSERT INTO ew_clicks VALUES ('c', '2024-01-01 00:01:00Z');
SELECT process_all_available('ew');
SELECT results_eq('SELECT start, url, n FROM ew_sink ORDER BY start, url',
	$$VALUES ('2024-01-01 00:00:10Z'::timestamptz, 'a', 2::bigint), ('2024-01-01 00:00:20Z', 'a', 1),
	('2024-01-01 00:00:20Z', 'b', 1), ('2024-01-01 00:00:30Z', 'b', 1)$$,
	'the state is there after a restart');

-- rows of a transaction that is rolled back, and of one that commits late
BEGIN;
INSERT INTO ew_clicks VALUES ('x', '2024-01-01 00:01:01Z');
ROLLBACK;
SELECT process_all_available('ew');
SELECT is((SELECT sum((progress::jsonb->>'numInputRows')::int) FROM streamx.batch
	WHERE query = (SELECT id FROM streamx.query WHERE name = 'ew')), 7::bigint, 'every committed row was input once');

-- windows that could not be shown: the row is in none, and the table can be read
SELECT create_query('ew_end_' || q.name, format('SELECT %s AS w, url, count(*) AS n FROM ew_clicks GROUP BY w, url', q.f), sink => 'ew_end_' || q.name, output_mode => 'update')
FROM (VALUES ('tumble', 'tumble(ts, ''1 hour'')'), ('panes', 'hop(ts, ''2 hours'', ''1 hour'')')) AS q(name, f);
SELECT create_query('ew_end_rows', 'SELECT hop(ts, ''2 hours'', ''1 hour'') AS w, length(url)::numeric AS l, count(*) AS n FROM ew_clicks GROUP BY w, l', sink => 'ew_end_rows', output_mode => 'update');
BEGIN;
INSERT INTO ew_clicks VALUES ('last', '294276-12-31 23:59:59Z'), ('first', '4714-11-24 00:30:00Z BC');
SELECT is((run_batch(name)).batch_id, 0::bigint, name || ': a batch') FROM unnest('{ew_end_tumble,ew_end_panes,ew_end_rows}'::text[]) AS name;
SELECT is((SELECT no_window FROM streamx.conservation WHERE query = name), CASE name WHEN 'ew_end_tumble' THEN 1 ELSE 2 END::bigint, name || ': rows at the ends of time are counted') FROM unnest('{ew_end_tumble,ew_end_panes,ew_end_rows}'::text[]) AS name;
SELECT is_empty(format('SELECT * FROM streamx.verify(%L)', name), name || ': the batch over the same rows gives the same') FROM unnest('{ew_end_tumble,ew_end_panes,ew_end_rows}'::text[]) AS name;
SELECT lives_ok('SELECT w::text FROM ' || name, name || ': the table can be read') FROM unnest('{ew_end_tumble,ew_end_panes,ew_end_rows}'::text[]) AS name;
ROLLBACK;
SELECT drop_query(name) FROM unnest('{ew_end_tumble,ew_end_panes,ew_end_rows}'::text[]) AS name;
DROP TABLE ew_end_tumble, ew_end_panes, ew_end_rows;

-- a slide far too small makes more windows than can be shown: the batch can be cancelled
CREATE FUNCTION ew_cancelled(query text) RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	PERFORM run_batch(query);
	RETURN false;
EXCEPTION WHEN query_canceled THEN
	RETURN true;
END $$;
SELECT create_query('ew_tiny_' || mode, $$SELECT hop(ts, '10 days', '1 microsecond') AS w, count(*) AS n FROM ew_clicks GROUP BY w$$, sink => 'noop', output_mode => mode)
FROM unnest('{update,complete}'::text[]) AS mode;
SET statement_timeout = '200 ms';
SELECT ok(ew_cancelled('ew_tiny_update'), 'update mode: a batch of a great many windows is cancelled');
SELECT ok(ew_cancelled('ew_tiny_complete'), 'complete mode: so it is');
RESET statement_timeout;
SELECT drop_query('ew_tiny_' || mode) FROM unnest('{update,complete}'::text[]) AS mode;
DROP FUNCTION ew_cancelled;

SELECT drop_query('ew');
DROP FOREIGN TABLE ew_clicks;
DROP TABLE ew_sink;
SELECT * FROM finish();
