\echo Use "CREATE EXTENSION streamx" to load this file. \quit

-- What is wanted and what was committed. Owners of queries have no rights on
-- these tables: the C code of registry/ and checkpoint/ reads and writes them.

CREATE SCHEMA streamx;
GRANT USAGE ON SCHEMA streamx TO PUBLIC;
COMMENT ON SCHEMA streamx IS 'Catalog and views of streamx.';

-- The views of the continuous queries: SELECT * FROM streamx_query.<name> is the batch answer.
CREATE SCHEMA streamx_query;
GRANT USAGE ON SCHEMA streamx_query TO PUBLIC;
COMMENT ON SCHEMA streamx_query IS 'A view for each continuous query; selecting from it gives the batch answer.';

CREATE SEQUENCE streamx.query_id;

CREATE TABLE streamx.query (
	id bigint PRIMARY KEY,
	name text COLLATE "C" NOT NULL UNIQUE,
	incarnation uuid NOT NULL,
	database oid NOT NULL,			-- 0: restored from a dump
	cluster bigint NOT NULL,		-- system identifier: function OIDs hold there
	view regclass NOT NULL,
	sink_kind text NOT NULL,
	sink_name text,
	sink_relation regclass,
	sink_function text,				-- signature; regprocedure would block pg_upgrade
	sink_function_oid oid,
	output_mode text NOT NULL,
	trigger text NOT NULL,
	options jsonb NOT NULL,
	settings text[] NOT NULL,
	wanted text NOT NULL,
	layout text,
	created_at timestamptz NOT NULL,
	on_rewind text,
	ended_at timestamptz
);
COMMENT ON TABLE streamx.query IS 'Continuous queries and whether they should run; read streamx.queries instead.';
COMMENT ON SEQUENCE streamx.query_id IS 'Ids of continuous queries.';

-- A dump carries the definitions only. The library writes without triggers, so
-- this one sees the rows that COPY restores: they become "created".
CREATE FUNCTION streamx.query_restored() RETURNS trigger
	LANGUAGE c AS 'MODULE_PATHNAME', 'sx_api_query_restored';
REVOKE ALL ON FUNCTION streamx.query_restored() FROM PUBLIC;
COMMENT ON FUNCTION streamx.query_restored() IS 'Makes a query restored from a dump one that was never started.';
CREATE TRIGGER query_restored BEFORE INSERT ON streamx.query
	FOR EACH ROW EXECUTE FUNCTION streamx.query_restored();
SELECT pg_catalog.pg_extension_config_dump('streamx.query', '');
SELECT pg_catalog.pg_extension_config_dump('streamx.query_id', '');

-- One row per committed batch; the newest batches_to_retain stay. Batch -1 is the first start of a query that begins
-- at the latest rows.
CREATE TABLE streamx.batch (
	query bigint NOT NULL,
	batch bigint NOT NULL,
	incarnation uuid NOT NULL,
	lineage uuid NOT NULL,
	batch_timestamp timestamptz NOT NULL,
	watermark timestamptz,			-- NULL: unset
	next_watermark timestamptz,
	owes_no_data boolean NOT NULL,
	due text,						-- JSON: what is due by next_watermark and waits for the next batch
	last_intent bigint,				-- newest batch with output for an outside sink
	offsets text NOT NULL,			-- JSON
	inputs text NOT NULL,			-- JSON
	progress text NOT NULL			-- JSON
);
CREATE UNIQUE INDEX batch_query_batch ON streamx.batch (query, batch);
COMMENT ON TABLE streamx.batch IS 'The checkpoint: offsets, watermarks, lineage and progress of each batch.';

-- The outbox: what a committed batch owes a sink outside PostgreSQL.
CREATE TABLE streamx.intent (
	query bigint NOT NULL,
	batch bigint NOT NULL,
	part int NOT NULL,
	data bytea NOT NULL
);
ALTER TABLE streamx.intent ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX intent_query_batch ON streamx.intent (query, batch, part);
COMMENT ON TABLE streamx.intent IS 'The outbox: batches committed here and not yet known to be in their outside sink.';

CREATE TABLE streamx.failure (
	query bigint NOT NULL,
	at timestamptz NOT NULL,
	batch bigint,
	sqlstate text NOT NULL,
	message text NOT NULL,
	detail text,
	hint text,
	context text,
	offsets text
);
CREATE INDEX failure_query_at ON streamx.failure (query, at);
COMMENT ON TABLE streamx.failure IS 'The last failures of each query; read streamx.failures instead.';

-- Rows that made a batch fail and were left out of it (option on_error).
-- Malformed records of a source have no row (data), but their bytes.
CREATE SEQUENCE streamx.quarantine_id;
CREATE TABLE streamx.quarantine_row (
	id bigint NOT NULL,
	query bigint NOT NULL,
	at timestamptz NOT NULL,
	batch bigint NOT NULL,
	stream oid NOT NULL,
	position bigint,				-- ordinal in the batch's range of the stream
	data json,						-- the row
	record bytea,					-- its bytes at the source
	record_position json,			-- where they are there
	sqlstate text NOT NULL,
	message text NOT NULL,
	requeued boolean NOT NULL		-- goes into the next batch
);
CREATE INDEX quarantine_row_query ON streamx.quarantine_row (query, requeued, id);
COMMENT ON SEQUENCE streamx.quarantine_id IS 'Ids of rows in quarantine.';
COMMENT ON TABLE streamx.quarantine_row IS 'Rows and records that no batch could take; read streamx.quarantine instead.';

REVOKE ALL ON streamx.query, streamx.batch, streamx.intent, streamx.failure,
	streamx.quarantine_row FROM PUBLIC;
