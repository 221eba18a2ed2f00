-- State as relations. The functions check rights themselves: of the query's owner
-- and pg_read_all_data for the rows of the state, of who sees the query in the
-- views for what it looks like. STABLE: they see what their statement sees.

CREATE FUNCTION streamx.state(query text, operator integer DEFAULT 0, store text DEFAULT NULL,
		batch_id bigint DEFAULT NULL, group_id integer DEFAULT NULL,
		snapshot_start_batch_id bigint DEFAULT NULL, flatten boolean DEFAULT true,
		OUT key jsonb, OUT value jsonb, OUT expires_at timestamptz, OUT key_group integer)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sx_api_state' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 10000;
COMMENT ON FUNCTION streamx.state(text, integer, text, bigint, integer, bigint, boolean) IS
	'The state of a stateful operator of a continuous query (0 is nearest the sink) after its last batch, or after an older one that is still kept; flatten => false shows lists and maps of handlers as arrays and objects.';

CREATE FUNCTION streamx.state_changes(query text, from_batch_id bigint, to_batch_id bigint DEFAULT NULL,
		operator integer DEFAULT 0, store text DEFAULT NULL, group_id integer DEFAULT NULL,
		OUT batch_id bigint, OUT change_type text, OUT key jsonb, OUT value jsonb,
		OUT expires_at timestamptz, OUT key_group integer)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sx_api_state_changes' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 10000;
COMMENT ON FUNCTION streamx.state_changes(text, bigint, bigint, integer, text, integer) IS
	'What batches changed in the state of a stateful operator: an update with the new value, or a delete.';

CREATE FUNCTION streamx.state_metadata(query text,
		OUT operator_id integer, OUT operator text, OUT store text, OUT key_groups integer,
		OUT min_batch_id bigint, OUT max_batch_id bigint, OUT properties jsonb)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sx_api_state_metadata' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION streamx.state_metadata(text) IS
	'The stateful operators of a continuous query, their stores, the columns of these, and the batches whose state can be read.';
