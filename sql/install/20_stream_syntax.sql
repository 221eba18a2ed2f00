-- CREATE STREAM as a function.

CREATE FUNCTION @extschema@.create_stream(name text, definition text, if_not_exists boolean DEFAULT false)
	RETURNS void
	VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE
	LANGUAGE C
	AS 'MODULE_PATHNAME', 'sx_api_create_stream';
GRANT EXECUTE ON FUNCTION @extschema@.create_stream(text, text, boolean) TO PUBLIC;
COMMENT ON FUNCTION @extschema@.create_stream(text, text, boolean) IS
	'Makes a stream from what follows the name in CREATE STREAM: columns and watermark in parentheses, SERVER, OPTIONS. Works in PL/pgSQL, DO and SPI, too.';
