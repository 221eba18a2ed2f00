-- Batches of a query in the session's own transaction, for tests.

CREATE FUNCTION @extschema@.run_batch(name text, OUT batch_id bigint, OUT input_rows bigint, OUT output_rows bigint,
		OUT late_rows bigint, OUT watermark timestamptz, OUT next_watermark timestamptz, OUT batch_timestamp timestamptz,
		OUT progress jsonb)
	AS 'MODULE_PATHNAME', 'sx_api_run_batch' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.run_batch(text) IS
	'Runs one batch of a query that is not started, in the caller''s own transaction: it reads what that has inserted, and a ROLLBACK takes it back. All NULL when there was nothing to do.';

CREATE FUNCTION @extschema@.advance_time(name text, "to" timestamptz) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_advance_time' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.advance_time(text, timestamptz) IS
	'Sets the processing time of the batches that run_batch() runs, now() in the query included, until the transaction ends; it never goes back.';

CREATE FUNCTION streamx.batch_timestamp() RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sx_api_batch_timestamp' LANGUAGE C STABLE PARALLEL RESTRICTED;
COMMENT ON FUNCTION streamx.batch_timestamp() IS
	'The processing time of the batch that runs in this process; now() while none does.';
