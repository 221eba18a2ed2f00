-- Handlers with state: markers of a continuous query, and what a handler calls.

CREATE DOMAIN streamx.state_variable AS text;
COMMENT ON DOMAIN streamx.state_variable IS
	'What value_state(), list_state() and map_state() give: the declaration of a variable in the argument state of transform_with_state().';

CREATE FUNCTION @extschema@.transform_with_state(handler regproc, key "any", "row" "any", output anyelement,
		state streamx.state_variable[] DEFAULT '{}', time_mode text DEFAULT 'none',
		event_time_column text DEFAULT NULL, initial_state regclass DEFAULT NULL,
		initial_handler regproc DEFAULT NULL, max_rows integer DEFAULT 100000) RETURNS SETOF anyelement
	AS 'MODULE_PATHNAME', 'sx_api_transform' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.transform_with_state(regproc, "any", "any", anyelement, streamx.state_variable[], text, text, regclass, regproc, integer) IS
	'In FROM of a continuous query: calls handler(key, rows, timer) once for each key with rows in a batch and once for each timer that is due; its rows are the result.';

CREATE FUNCTION @extschema@.flat_map_groups_with_state(handler regproc, key "any", "row" "any", output anyelement,
		state "any", timeout text DEFAULT 'none', max_rows integer DEFAULT 100000) RETURNS SETOF anyelement
	AS 'MODULE_PATHNAME', 'sx_api_transform' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.flat_map_groups_with_state(regproc, "any", "any", anyelement, "any", text, integer) IS
	'The older form of transform_with_state: one value called "state" and one timeout for each key, which every call clears.';

CREATE FUNCTION @extschema@.map_groups_with_state(handler regproc, key "any", "row" "any", output anyelement,
		state "any", timeout text DEFAULT 'none', max_rows integer DEFAULT 100000) RETURNS SETOF anyelement
	AS 'MODULE_PATHNAME', 'sx_api_transform' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.map_groups_with_state(regproc, "any", "any", anyelement, "any", text, integer) IS
	'As flat_map_groups_with_state, for a handler that returns one row for each call; output mode update only.';

CREATE FUNCTION @extschema@.value_state(name text, type "any", ttl interval DEFAULT NULL) RETURNS streamx.state_variable
	AS 'MODULE_PATHNAME', 'sx_api_state_variable' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.value_state(text, "any", interval) IS
	'Declares a variable that holds one value for each key, of the type of NULL::type; with ttl it goes so long after it was written.';

CREATE FUNCTION @extschema@.list_state(name text, type "any", ttl interval DEFAULT NULL) RETURNS streamx.state_variable
	AS 'MODULE_PATHNAME', 'sx_api_state_variable' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.list_state(text, "any", interval) IS
	'Declares a variable that holds a list of values for each key; with ttl each element goes so long after it was written.';

CREATE FUNCTION @extschema@.map_state(name text, key_type "any", type "any", ttl interval DEFAULT NULL) RETURNS streamx.state_variable
	AS 'MODULE_PATHNAME', 'sx_api_state_variable' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.map_state(text, "any", "any", interval) IS
	'Declares a variable that holds a map for each key; with ttl each entry goes so long after it was written.';

-- What follows is for handlers: it sees the state of the key that is being handled.

CREATE FUNCTION @extschema@.state_get(name text, type anyelement) RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_state_get' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_get(text, anyelement) IS
	'In a handler: the value of a variable, NULL if it has none; type is a NULL of its type.';

CREATE FUNCTION @extschema@.state_exists(name text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_state_exists' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_exists(text) IS
	'In a handler: whether a variable has a value (NULL is one), a list an element, a map an entry.';

CREATE FUNCTION @extschema@.state_put(name text, value "any", ttl interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_state_put' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_put(text, "any", interval) IS
	'In a handler: gives a variable a value; ttl instead of the one that it was declared with.';

CREATE FUNCTION @extschema@.state_clear(name text) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_state_clear' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_clear(text) IS
	'In a handler: takes the value of a variable away, or all of a list or a map.';

CREATE FUNCTION @extschema@.state_list_get(name text, type anyelement) RETURNS anyarray
	AS 'MODULE_PATHNAME', 'sx_api_state_list_get' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_list_get(text, anyelement) IS
	'In a handler: the elements of a list in the order in which they were appended.';

CREATE FUNCTION @extschema@.state_list_length(name text) RETURNS bigint
	AS 'MODULE_PATHNAME', 'sx_api_state_list_length' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_list_length(text) IS
	'In a handler: how many elements a list has.';

CREATE FUNCTION @extschema@.state_list_append(name text, value "any", ttl interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_state_list_append' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_list_append(text, "any", interval) IS
	'In a handler: appends an element to a list.';

CREATE FUNCTION @extschema@.state_list_append_all(name text, "values" "any", ttl interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_state_list_append_all' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_list_append_all(text, "any", interval) IS
	'In a handler: appends the elements of an array to a list.';

CREATE FUNCTION @extschema@.state_list_put(name text, "values" "any", ttl interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_state_list_put' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_list_put(text, "any", interval) IS
	'In a handler: makes a list consist of the elements of an array, which must not be empty.';

CREATE FUNCTION @extschema@.state_map_get(name text, key "any", type anyelement) RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_state_map_get' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_get(text, "any", anyelement) IS
	'In a handler: the value that a map has for a key, NULL if it has none.';

CREATE FUNCTION @extschema@.state_map_exists(name text, key "any") RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_state_map_exists' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_exists(text, "any") IS
	'In a handler: whether a map has an entry for a key.';

CREATE FUNCTION @extschema@.state_map_put(name text, key "any", value "any", ttl interval DEFAULT NULL) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_state_map_put' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_put(text, "any", "any", interval) IS
	'In a handler: gives a map a value for a key.';

CREATE FUNCTION @extschema@.state_map_remove(name text, key "any") RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_state_map_remove' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_remove(text, "any") IS
	'In a handler: takes the entry of a key out of a map; false if there was none.';

CREATE FUNCTION @extschema@.state_map_keys(name text, type anyelement) RETURNS anyarray
	AS 'MODULE_PATHNAME', 'sx_api_state_map_keys' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_keys(text, anyelement) IS
	'In a handler: the keys of a map, in the order of state_map_values().';

CREATE FUNCTION @extschema@.state_map_values(name text, type anyelement) RETURNS anyarray
	AS 'MODULE_PATHNAME', 'sx_api_state_map_values' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_values(text, anyelement) IS
	'In a handler: the values of a map, in the order of state_map_keys().';

CREATE FUNCTION @extschema@.state_map_size(name text) RETURNS bigint
	AS 'MODULE_PATHNAME', 'sx_api_state_map_size' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.state_map_size(text) IS
	'In a handler: how many entries a map has.';

CREATE FUNCTION @extschema@.timer_set(at timestamptz) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_timer_set' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.timer_set(timestamptz) IS
	'In a handler: has it called again for this key when the clock of its time mode has come to the time.';

CREATE FUNCTION @extschema@.timer_delete(at timestamptz) RETURNS boolean
	AS 'MODULE_PATHNAME', 'sx_api_timer_delete' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.timer_delete(timestamptz) IS
	'In a handler: takes a timer of this key back; false if there was none.';

CREATE FUNCTION @extschema@.timer_list() RETURNS timestamptz[]
	AS 'MODULE_PATHNAME', 'sx_api_timer_list' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.timer_list() IS
	'In a handler: the timers of this key, the earliest first.';

CREATE FUNCTION @extschema@.timeout_set(at timestamptz) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_timeout_set' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.timeout_set(timestamptz) IS
	'In a handler of map_groups_with_state or flat_map_groups_with_state with timeout event: when the key times out, if no rows come before.';

CREATE FUNCTION @extschema@.timeout_set(after interval) RETURNS void
	AS 'MODULE_PATHNAME', 'sx_api_timeout_set_after' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.timeout_set(interval) IS
	'In a handler of map_groups_with_state or flat_map_groups_with_state with timeout processing: how long after this batch the key times out, if no rows come before.';

CREATE FUNCTION @extschema@.current_watermark() RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sx_api_current_watermark' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.current_watermark() IS
	'In a handler: the watermark of the batch, NULL before there is one.';

CREATE FUNCTION @extschema@.current_processing_time() RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sx_api_current_processing_time' LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION @extschema@.current_processing_time() IS
	'In a handler: the timestamp of the batch, which timers and TTL of time mode processing are compared with.';
