-- The functions that people call. They check rights themselves and write the
-- catalog through the library; PUBLIC may call them.

CREATE FUNCTION @extschema@.create_query(name text, query text, sink text DEFAULT NULL,
		output_mode text DEFAULT 'append', trigger text DEFAULT 'default',
		foreach_batch regprocedure DEFAULT NULL, options jsonb DEFAULT '{}') RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_create_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.create_query(text, text, text, text, text, regprocedure, jsonb) IS
	'Checks and records a continuous query; nothing runs until start_query. A missing sink table is created.';

CREATE FUNCTION @extschema@.start_query(name text, on_rewind text DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_start_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.start_query(text, text) IS
	'Starts a continuous query from its checkpoint when the transaction commits; on_rewind decides about a sink that is ahead.';

CREATE FUNCTION @extschema@.start_query(name text, reset_state boolean) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_start_query_anew' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.start_query(text, boolean) IS
	'With reset_state => true starts a continuous query anew: its state and offsets are given up.';

-- sink has no default here: start_query(text, text) must mean one function only.
CREATE FUNCTION @extschema@.start_query(name text, query text, sink text,
		output_mode text DEFAULT 'append', trigger text DEFAULT 'default',
		foreach_batch regprocedure DEFAULT NULL, options jsonb DEFAULT '{}') RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_create_and_start_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.start_query(text, text, text, text, text, regprocedure, jsonb) IS
	'Creates a continuous query and starts it when the transaction commits.';

CREATE FUNCTION @extschema@.stop_query(name text, timeout interval DEFAULT NULL) RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_stop_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.stop_query(text, interval) IS
	'Stops a query after its running batch, which is aborted after the timeout (default streamx.stop_timeout); false if its worker still did not end. Its checkpoint stays.';

CREATE FUNCTION @extschema@.drop_query(name text, if_exists boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_drop_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.drop_query(text, boolean) IS
	'Removes a continuous query with its state and checkpoint. Its sink stays.';

CREATE FUNCTION @extschema@.alter_query(name text, query text DEFAULT NULL, sink text DEFAULT NULL,
		output_mode text DEFAULT NULL, trigger text DEFAULT NULL, options jsonb DEFAULT NULL,
		reset_state boolean DEFAULT false) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_alter_query' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.alter_query(text, text, text, text, text, jsonb, boolean) IS
	'Changes a continuous query and says for each operator whether its state is kept; options are added to the old ones, null removes one.';

CREATE FUNCTION @extschema@.alter_query_effect(name text, query text DEFAULT NULL, output_mode text DEFAULT NULL,
		options jsonb DEFAULT NULL, reset_state boolean DEFAULT false,
		OUT operator_id integer, OUT operator text, OUT effect text, OUT detail text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'sx_api_alter_query_effect' LANGUAGE C STABLE PARALLEL UNSAFE ROWS 5;
COMMENT ON FUNCTION @extschema@.alter_query_effect(text, text, text, jsonb, boolean) IS
	'What alter_query would mean for the state of each operator and the offsets of each stream: new, kept, rebuilt, lost, or refused by the next start. Changes nothing.';

CREATE FUNCTION @extschema@.process_all_available(name text, timeout interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_process_all_available' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.process_all_available(text, interval) IS
	'Returns when all that was available at the call is processed, batches without data included; raises the error of a query that fails.';

CREATE FUNCTION @extschema@.await_termination(name text, timeout interval DEFAULT NULL) RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_await_termination' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.await_termination(text, interval) IS
	'Waits until a query has ended: true, or false when the time is over; raises the error of a query that failed.';

CREATE FUNCTION @extschema@.await_any_termination(timeout interval DEFAULT NULL) RETURNS text
	AS 'MODULE_PATHNAME', 'sx_api_await_any_termination' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.await_any_termination(interval) IS
	'Name of a query that ended since the session or the last reset_terminated() began; raises its error if it failed. NULL when the time is over.';

CREATE FUNCTION @extschema@.reset_terminated() RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_reset_terminated' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.reset_terminated() IS
	'Forgets queries that ended, so that await_any_termination() waits for the next one.';

CREATE FUNCTION @extschema@.last_progress(name text) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'sx_api_last_progress' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION @extschema@.last_progress(text) IS
	'The newest batch of a query as Spark''s StreamingQueryProgress; NULL before the first one.';

CREATE FUNCTION @extschema@.recent_progress(name text) RETURNS SETOF jsonb
	AS 'MODULE_PATHNAME', 'sx_api_recent_progress' LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION @extschema@.recent_progress(text) IS
	'The retained batches of a query, oldest first, as Spark''s StreamingQueryProgress.';

CREATE FUNCTION @extschema@.explain_query(name text) RETURNS SETOF text
	AS 'MODULE_PATHNAME', 'sx_api_explain_query' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE ROWS 50;
COMMENT ON FUNCTION @extschema@.explain_query(text) IS
	'The operators of a continuous query, the plan of each segment, and what the state holds.';

-- Whatever drops the view of a query (a cascade, DROP OWNED) drops the query.
CREATE FUNCTION streamx.on_drop() RETURNS event_trigger
	AS 'MODULE_PATHNAME', 'sx_api_on_drop' LANGUAGE C;
REVOKE ALL ON FUNCTION streamx.on_drop() FROM PUBLIC;
COMMENT ON FUNCTION streamx.on_drop() IS 'Forgets continuous queries whose view was dropped.';
CREATE EVENT TRIGGER streamx_on_drop ON sql_drop EXECUTE FUNCTION streamx.on_drop();
COMMENT ON EVENT TRIGGER streamx_on_drop IS 'Forgets continuous queries whose view was dropped.';
ALTER EVENT TRIGGER streamx_on_drop ENABLE ALWAYS;

CREATE FUNCTION @extschema@.requeue(query text, ids bigint[] DEFAULT NULL, data json DEFAULT NULL, record bytea DEFAULT NULL)
	RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sx_api_requeue';
COMMENT ON FUNCTION @extschema@.requeue(text, bigint[], json, bytea) IS
	'Gives rows in quarantine (all, or those of these ids) back to their query, whose next batch takes them; for one id its row or record can be replaced. Returns how many.';
