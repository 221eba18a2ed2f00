-- Records into rows: what a stream's format does, as functions.

CREATE FUNCTION @extschema@.from_json("json" text, type anyelement, options jsonb DEFAULT '{}')
	RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_from_json' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.from_json(text, anyelement, jsonb) IS
	'A JSON object as a composite of the second argument''s type (NULL::mytype), with the rules of Spark''s from_json; NULL for NULL and blank text.';

CREATE FUNCTION @extschema@.from_json("json" bytea, type anyelement, options jsonb DEFAULT '{}')
	RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_from_json_bytea' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.from_json(bytea, anyelement, jsonb) IS
	'from_json of bytes, such as the value of a Kafka record; broken UTF-8 makes it malformed, not an error.';

CREATE FUNCTION @extschema@.from_json("json" jsonb, type anyelement, options jsonb DEFAULT '{}')
	RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_from_json_jsonb' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.from_json(jsonb, anyelement, jsonb) IS
	'from_json of a jsonb value.';

CREATE FUNCTION @extschema@.from_csv(csv text, type anyelement, options jsonb DEFAULT '{}')
	RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_from_csv' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.from_csv(text, anyelement, jsonb) IS
	'A line of CSV as a composite of the second argument''s type, its columns by their place; NULL for NULL and blank text.';

CREATE FUNCTION @extschema@.from_avro(avro bytea, type anyelement, schema text, options jsonb DEFAULT '{}')
	RETURNS anyelement
	AS 'MODULE_PATHNAME', 'sx_api_from_avro' LANGUAGE C STABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.from_avro(bytea, anyelement, text, jsonb) IS
	'A record of Avro, written with this schema, as a composite of the second argument''s type.';
