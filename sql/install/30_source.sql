-- Streams: foreign tables of wrapper streamx, and where their rows lie.

CREATE FUNCTION streamx.streamx_handler() RETURNS fdw_handler
	LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'sx_api_streamx_handler';
COMMENT ON FUNCTION streamx.streamx_handler() IS 'Handler of foreign-data wrapper streamx.';

CREATE FUNCTION streamx.streamx_validator(options text[], catalog oid) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'sx_api_streamx_validator';
COMMENT ON FUNCTION streamx.streamx_validator(text[], oid) IS 'Checks the options of streams and of their columns.';

CREATE FOREIGN DATA WRAPPER streamx
	HANDLER streamx.streamx_handler VALIDATOR streamx.streamx_validator;
COMMENT ON FOREIGN DATA WRAPPER streamx IS 'Streams that SQL inserts into, and generated ones (connector rate).';

CREATE SERVER streamx FOREIGN DATA WRAPPER streamx;
COMMENT ON SERVER streamx IS 'Server of the streams that have no outside server; everybody may use it.';
GRANT USAGE ON FOREIGN SERVER streamx TO PUBLIC;

-- The rows of INSERT-able streams: hidden tables that belong to the extension.

CREATE TABLE streamx.stream (
	stream regclass NOT NULL,
	slot smallint NOT NULL,
	heap regclass NOT NULL,
	generation bigint NOT NULL,		-- 0: free; the largest one of a stream is being written
	started_at timestamptz,			-- when it became the one to write to
	retired_at timestamptz,			-- when another one did
	sealed xid8,					-- younger than every row in it
	last_xid xid8					-- youngest committed transaction in it
);
CREATE UNIQUE INDEX stream_stream_slot ON streamx.stream (stream, slot);
COMMENT ON TABLE streamx.stream IS 'The three hidden tables of each INSERT-able stream, used in turn.';

CREATE TABLE streamx.stream_loss (
	stream regclass NOT NULL,
	generation bigint NOT NULL,
	xid xid8 NOT NULL,
	at timestamptz NOT NULL
);
CREATE INDEX stream_loss_stream ON streamx.stream_loss (stream);
COMMENT ON TABLE streamx.stream_loss IS 'Storage freed by retention before every query had read it, with a transaction that a query had not read.';

REVOKE ALL ON streamx.stream, streamx.stream_loss FROM PUBLIC;

CREATE FUNCTION streamx.stream_ddl() RETURNS event_trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'sx_api_stream_ddl';
COMMENT ON FUNCTION streamx.stream_ddl() IS 'Makes the storage of a new stream and lets it follow ALTER.';

CREATE FUNCTION streamx.stream_drop() RETURNS event_trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'sx_api_stream_drop';
COMMENT ON FUNCTION streamx.stream_drop() IS 'Drops the storage of dropped streams.';

CREATE EVENT TRIGGER streamx_ddl ON ddl_command_end
	WHEN TAG IN ('CREATE FOREIGN TABLE', 'ALTER FOREIGN TABLE', 'ALTER TABLE', 'IMPORT FOREIGN SCHEMA')
	EXECUTE FUNCTION streamx.stream_ddl();
CREATE EVENT TRIGGER streamx_drop ON sql_drop
	EXECUTE FUNCTION streamx.stream_drop();
-- Also in a session that applies replicated commands.
COMMENT ON EVENT TRIGGER streamx_ddl IS 'Follows changes of streams.';
COMMENT ON EVENT TRIGGER streamx_drop IS 'Gives back the storage of dropped streams.';
ALTER EVENT TRIGGER streamx_ddl ENABLE ALWAYS;
ALTER EVENT TRIGGER streamx_drop ENABLE ALWAYS;

CREATE FUNCTION streamx.stream_next(stream regclass, start jsonb DEFAULT NULL, max_rows bigint DEFAULT NULL)
	RETURNS jsonb LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sx_api_stream_next';
COMMENT ON FUNCTION streamx.stream_next(regclass, jsonb, bigint) IS 'Offset of the end of the batch that would begin at the given offset (NULL: the beginning), or NULL when there is no row.';

CREATE FUNCTION streamx.stream_rows(row_type anyelement, start jsonb, "end" jsonb)
	RETURNS SETOF anyelement LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sx_api_stream_rows';
COMMENT ON FUNCTION streamx.stream_rows(anyelement, jsonb, jsonb) IS 'The rows of a stream after one offset up to another, as a batch reads them: SELECT * FROM streamx.stream_rows(NULL::clicks, start, "end").';

CREATE FUNCTION streamx.rotate_streams()
	RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sx_api_rotate_streams';
REVOKE ALL ON FUNCTION streamx.rotate_streams() FROM PUBLIC;
COMMENT ON FUNCTION streamx.rotate_streams() IS 'Gives back the storage of streams where retention and their readers allow it, as the scheduler does every few seconds.';
