-- What people look at. Everyone sees the queries of the roles that he is a
-- member of; pg_monitor and superusers see all.

CREATE FUNCTION streamx.query_status(
		OUT id bigint, OUT name text, OUT state text, OUT owner regrole, OUT sink text,
		OUT output_mode text, OUT trigger text, OUT batch_id bigint, OUT watermark timestamptz,
		OUT input_rows_per_second float8, OUT processed_rows_per_second float8,
		OUT batch_duration interval, OUT state_rows bigint, OUT state_bytes bigint,
		OUT input_rows bigint, OUT output_rows bigint, OUT late_rows bigint, OUT wal_bytes bigint,
		OUT restarts integer, OUT failures_in_a_row integer, OUT last_error text,
		OUT last_error_at timestamptz, OUT hint text, OUT retry_at timestamptz,
		OUT waits_for text, OUT pid integer, OUT heartbeat timestamptz, OUT started_at timestamptz,
		OUT created_at timestamptz, OUT ended_at timestamptz, OUT incarnation uuid,
		OUT run_id uuid, OUT options jsonb)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sx_api_query_status' LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION streamx.query_status() IS
	'The rows of streamx.queries: what is wanted, and what the workers told.';

CREATE FUNCTION streamx.query_visible(id bigint) RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_query_visible' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION streamx.query_visible(bigint) IS
	'May the current role see this continuous query?';

CREATE VIEW streamx.queries AS
	SELECT * FROM streamx.query_status();
COMMENT ON VIEW streamx.queries IS
	'Continuous queries: state, rates, watermark, last error and what to do about it.';
COMMENT ON COLUMN streamx.queries.state IS
	'created, starting, running, waiting for a worker, retrying, sink_blocked, sink_ahead, sink_unknown, stopped, failed or finished.';

-- The checkpoint is not the users' to read; its progress is. MATERIALIZED: the
-- right to see is decided once per query, not per batch.
CREATE VIEW streamx.progress WITH (security_barrier) AS
	WITH visible AS MATERIALIZED (
		SELECT q.id, q.name FROM streamx.query q
		WHERE streamx.query_visible(q.id)
			AND q.database = (SELECT d.oid FROM pg_catalog.pg_database d
							  WHERE d.datname = pg_catalog.current_database()))
	SELECT v.name AS query, b.batch AS batch_id, b.batch_timestamp, b.watermark, b.next_watermark,
		(p.json ->> 'numInputRows')::bigint AS input_rows,
		(p.json #>> '{sink,numOutputRows}')::bigint AS output_rows,
		(p.json ->> 'inputRowsPerSecond')::float8 AS input_rows_per_second,
		(p.json ->> 'processedRowsPerSecond')::float8 AS processed_rows_per_second,
		pg_catalog.make_interval(secs => (p.json ->> 'batchDuration')::float8 / 1000) AS duration,
		(p.json #>> '{sink,metrics,walBytes}')::bigint AS wal_bytes,
		b.owes_no_data, b.lineage, p.json AS progress
	FROM visible v
		JOIN streamx.batch b ON b.query = v.id AND b.batch >= 0
		CROSS JOIN LATERAL (SELECT b.progress::jsonb AS json OFFSET 0) p;
COMMENT ON VIEW streamx.progress IS
	'The retained batches of each query: rows, rates, duration, watermark, WAL.';

CREATE VIEW streamx.sources WITH (security_barrier) AS
	SELECT p.query, p.batch_id, s.json ->> 'description' AS source,
		s.json -> 'startOffset' AS start_offset, s.json -> 'endOffset' AS end_offset,
		(s.json ->> 'numInputRows')::bigint AS input_rows,
		(s.json ->> 'inputRowsPerSecond')::float8 AS input_rows_per_second,
		(s.json ->> 'processedRowsPerSecond')::float8 AS processed_rows_per_second
	FROM (SELECT DISTINCT ON (query) query, batch_id, progress
		  FROM streamx.progress ORDER BY query, batch_id DESC) p
		CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(p.progress -> 'sources') s(json);
COMMENT ON VIEW streamx.sources IS 'How far each query has read each of its streams, as of its newest batch.';

CREATE VIEW streamx.state_operators WITH (security_barrier) AS
	SELECT p.query, p.batch_id, (o.position - 1)::integer AS operator_id,
		o.json ->> 'operatorName' AS operator,
		(o.json ->> 'numRowsTotal')::bigint AS rows_total,
		(o.json ->> 'numRowsUpdated')::bigint AS rows_updated,
		(o.json ->> 'numRowsRemoved')::bigint AS rows_removed,
		(o.json ->> 'numRowsDroppedByWatermark')::bigint AS rows_late,
		(o.json #>> '{customMetrics,numRowsInNoWindow}')::bigint AS rows_in_no_window,
		(o.json ->> 'memoryUsedBytes')::bigint AS memory_bytes
	FROM (SELECT DISTINCT ON (query) query, batch_id, progress
		  FROM streamx.progress ORDER BY query, batch_id DESC) p
		CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(p.progress -> 'stateOperators')
			WITH ORDINALITY o(json, position);
COMMENT ON VIEW streamx.state_operators IS
	'The stateful operators of each query and what their state holds, as of its newest batch; 0 is nearest the sink.';

CREATE VIEW streamx.late_rows WITH (security_barrier) AS
	SELECT p.query, p.batch_id, (o.position - 1)::integer AS operator_id,
		o.json ->> 'operatorName' AS operator, p.watermark,
		(o.json ->> 'numRowsDroppedByWatermark')::bigint AS rows
	FROM streamx.progress p
		CROSS JOIN LATERAL pg_catalog.jsonb_array_elements(p.progress -> 'stateOperators')
			WITH ORDINALITY o(json, position)
	WHERE (o.json ->> 'numRowsDroppedByWatermark')::bigint > 0;
COMMENT ON VIEW streamx.late_rows IS
	'The retained batches that dropped rows as late, and how many.';

-- The books of each batch: what goes into a step is counted by who gives it, what becomes of it by the step.
CREATE VIEW streamx.conservation_steps WITH (security_barrier) AS
	SELECT p.query, p.batch_id, n.position::integer AS step,
		CASE WHEN n.source IS NOT NULL THEN p.progress #>> ARRAY['sources', n.source::text, 'description']
			WHEN n.segment IS NOT NULL THEN 'segment ' || n.segment
			ELSE 'operator ' || coalesce(n.operator, n.uncounted) || ' ' ||
				(p.progress #>> ARRAY['stateOperators', coalesce(n.operator, n.uncounted)::text, 'operatorName'])
			END AS name,
		c.rows_in, c.from_state, c.multiplied, c.rows_out, c.filtered, c.late, c.duplicate, c.no_window,
		c.refused, c.quarantined, c.dropped, c.into_state,
		CASE WHEN n.uncounted IS NULL THEN
			c.rows_in + c.from_state + c.multiplied = c.rows_out + c.filtered + c.late + c.duplicate +
				c.no_window + c.refused + c.quarantined + c.dropped + c.into_state END AS balanced
	FROM streamx.progress p
		CROSS JOIN LATERAL ROWS FROM (pg_catalog.jsonb_to_recordset(p.progress -> 'conservation') AS (
			source integer, segment integer, operator integer, uncounted integer, "in" bigint,
			made bigint, multiplied bigint, "out" bigint, filtered bigint, late bigint, duplicate bigint,
			"noWindow" bigint, refused bigint, quarantined bigint, dropped bigint, taken bigint))
			WITH ORDINALITY n(source, segment, operator, uncounted, rows_in, made, multiplied, rows_out,
				filtered, late, duplicate, no_window, refused, quarantined, dropped, taken, position)
		CROSS JOIN LATERAL (SELECT coalesce(n.rows_in, 0), coalesce(n.made, 0), coalesce(n.multiplied, 0),
			coalesce(n.rows_out, 0), coalesce(n.filtered, 0), coalesce(n.late, 0), coalesce(n.duplicate, 0),
			coalesce(n.no_window, 0), coalesce(n.refused, 0), coalesce(n.quarantined, 0),
			coalesce(n.dropped, 0), coalesce(n.taken, 0))
			c(rows_in, from_state, multiplied, rows_out, filtered, late, duplicate, no_window, refused,
				quarantined, dropped, into_state);
COMMENT ON VIEW streamx.conservation_steps IS
	'What became of the rows in each source, segment and operator of the retained batches; not balanced: rows are unaccounted for.';

-- What flows from step to step is neither in nor out, so the sums of the steps hold for the batch.
CREATE VIEW streamx.conservation WITH (security_barrier) AS
	SELECT p.query, p.batch_id, s.rows_in, s.from_state, s.multiplied, p.output_rows AS rows_out,
		s.filtered, s.late, s.duplicate, s.no_window, s.refused, s.quarantined, s.dropped, s.into_state,
		s.steps_balanced AND s.rows_in = p.input_rows + s.dropped AND
			s.rows_in + s.from_state + s.multiplied = p.output_rows + s.filtered + s.late + s.duplicate +
				s.no_window + s.refused + s.quarantined + s.dropped + s.into_state AS balanced
	FROM streamx.progress p
		CROSS JOIN LATERAL (SELECT
			coalesce(sum(n."in") FILTER (WHERE n.source IS NOT NULL), 0)::bigint,
			coalesce(sum(n.made), 0)::bigint, coalesce(sum(n.multiplied), 0)::bigint,
			coalesce(sum(n.filtered), 0)::bigint, coalesce(sum(n.late), 0)::bigint,
			coalesce(sum(n.duplicate), 0)::bigint, coalesce(sum(n."noWindow"), 0)::bigint,
			coalesce(sum(n.refused), 0)::bigint, coalesce(sum(n.quarantined), 0)::bigint,
			coalesce(sum(n.dropped), 0)::bigint, coalesce(sum(n.taken), 0)::bigint,
			coalesce(pg_catalog.bool_and(coalesce(n."in", 0) + coalesce(n.made, 0) + coalesce(n.multiplied, 0) =
				coalesce(n."out", 0) + coalesce(n.filtered, 0) + coalesce(n.late, 0) + coalesce(n.duplicate, 0) +
				coalesce(n."noWindow", 0) + coalesce(n.refused, 0) + coalesce(n.quarantined, 0) +
				coalesce(n.dropped, 0) + coalesce(n.taken, 0)) FILTER (WHERE n.uncounted IS NULL), true)
				AND CASE WHEN count(n.uncounted) = 0 THEN true END
			FROM pg_catalog.jsonb_to_recordset(p.progress -> 'conservation') AS n(
				source integer, segment integer, operator integer, uncounted integer, "in" bigint,
				made bigint, multiplied bigint, "out" bigint, filtered bigint, late bigint, duplicate bigint,
				"noWindow" bigint, refused bigint, quarantined bigint, dropped bigint, taken bigint))
			s(rows_in, from_state, multiplied, filtered, late, duplicate, no_window, refused, quarantined,
				dropped, into_state, steps_balanced);
COMMENT ON VIEW streamx.conservation IS
	'A row for each retained batch: rows in, rows out, and what became of all others; balanced: none is unaccounted for, in no step of the batch.';
COMMENT ON COLUMN streamx.conservation.balanced IS
	'rows_in + from_state + multiplied = rows_out + filtered + late + duplicate + no_window + refused + quarantined + dropped + into_state, in each step and in all.';

CREATE FUNCTION streamx.verify(query text, OUT kind text, OUT key jsonb, OUT expected jsonb, OUT found jsonb,
		OUT detail text) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sx_api_verify' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION streamx.verify(text) IS
	'Compares the sink of a query, a table, with the answer of the query as a batch over the rows that it has read; a row for each difference and for what could not be checked, none if all is well.';

CREATE VIEW streamx.failures WITH (security_barrier) AS
	SELECT q.name AS query, f.at, f.batch AS batch_id, f.sqlstate, f.message, f.detail, f.hint,
		f.context, f.offsets
	FROM streamx.query q JOIN streamx.failure f ON f.query = q.id
	WHERE streamx.query_visible(q.id);
COMMENT ON VIEW streamx.failures IS 'The last failures of each query, at most 100.';

CREATE VIEW streamx.quarantine WITH (security_barrier) AS
	SELECT q.name AS query, r.id, r.at, r.batch AS batch_id, r.stream::pg_catalog.regclass AS stream, r.position,
		r.data, r.record, r.record_position, r.sqlstate, r.message, r.requeued
	FROM streamx.query q JOIN streamx.quarantine_row r ON r.query = q.id
	WHERE streamx.query_visible(q.id);
COMMENT ON VIEW streamx.quarantine IS
	'Malformed records, and rows that made a batch fail and were left out of it, with the error; queries with option on_error = quarantine.';

GRANT SELECT ON streamx.queries, streamx.quarantine, streamx.progress, streamx.sources, streamx.state_operators,
	streamx.late_rows, streamx.failures, streamx.conservation, streamx.conservation_steps TO PUBLIC;
