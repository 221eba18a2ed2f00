-- Batches that are cut: in proportion over the sources, and smaller ones after running out of memory.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
CREATE FUNCTION batches(query text) RETURNS TABLE (batch bigint, rows int, first int, second int) LANGUAGE sql AS $$
	SELECT b.batch, (b.progress::jsonb->>'numInputRows')::int,
		(b.progress::jsonb->'sources'->0->>'numInputRows')::int, (b.progress::jsonb->'sources'->1->>'numInputRows')::int
	FROM streamx.batch b JOIN streamx.query q ON q.id = b.query WHERE q.name = $1 ORDER BY 1 $$;

-- one stream has ten times the rows of the other
SELECT create_stream('el_big', 'n int, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('el_small', 'n int, ts timestamptz, WATERMARK FOR ts AS ts');
INSERT INTO el_big SELECT i, '2024-01-01Z'::timestamptz + i * interval '1 second' FROM generate_series(1, 50000) i;
INSERT INTO el_small SELECT i, '2024-01-01Z'::timestamptz + i * interval '10 seconds' FROM generate_series(1, 5000) i;
SELECT create_query('el', $$
	SELECT w, count(*) AS n FROM (SELECT tumble(ts, '1 hour') AS w FROM (SELECT ts FROM el_big UNION ALL SELECT ts FROM el_small) u) s GROUP BY w $$,
	sink => 'el_sink', trigger => 'available_now', options => '{"batch_rows": 5500, "multiple_watermark_policy": "max"}');
SELECT start_query('el');
SELECT ok(await_termination('el', '30 s'), 'a backlog is caught up with');
SELECT cmp_ok((SELECT count(*) FROM batches('el') WHERE rows > 0), '>=', 9::bigint, 'in several batches');
SELECT is_empty($$SELECT * FROM batches('el') WHERE batch < 8 AND rows > 0 AND (first < second * 5 OR first > second * 20)$$,
	'the sources advance together');
SELECT is((SELECT sum((op->>'numRowsDroppedByWatermark')::int) FROM streamx.batch b JOIN streamx.query q ON q.id = b.query,
	jsonb_array_elements(b.progress::jsonb->'stateOperators') op WHERE q.name = 'el'), 0::bigint,
	'so that no row is late, even by the fastest');
SELECT drop_query('el');

-- a batch that needs too much memory is run again over fewer rows
CREATE TABLE el_rows (rows bigint);
CREATE FUNCTION el_each(batch_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF (SELECT count(*) FROM batch) > 2000 THEN
		RAISE EXCEPTION 'out of memory' USING ERRCODE = 'out_of_memory';
	END IF;
	INSERT INTO el_rows SELECT count(*) FROM batch;
END $$;
SELECT create_query('el_each', 'SELECT n FROM el_small', foreach_batch => 'el_each(bigint)');
SELECT start_query('el_each');
SELECT process_all_available('el_each', '60 s');
SELECT is((SELECT sum(rows) FROM el_rows), 5000::numeric, 'out of memory: every row is processed');
SELECT cmp_ok((SELECT max(rows) FROM el_rows), '<=', 2000::bigint, 'in batches that fit');
SELECT drop_query('el_each');

DROP FOREIGN TABLE el_big, el_small;
DROP TABLE el_sink, el_rows;
DROP FUNCTION batches, el_each;
SELECT * FROM finish();
