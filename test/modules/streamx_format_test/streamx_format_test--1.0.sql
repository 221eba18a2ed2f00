\echo Use "CREATE EXTENSION streamx_format_test" to load this file. \quit

-- The rows of records, decoded on a thread; options: name, value, name, value ...
CREATE FUNCTION format_decode(format text, records bytea[], type anyelement, options text[] DEFAULT '{}',
	OUT record int, OUT row_text text, OUT fate text, OUT error text, OUT raw bytea) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'format_test_decode' LANGUAGE C;
-- One row as bytes.
CREATE FUNCTION format_encode(format text, value anyelement, options text[] DEFAULT '{}') RETURNS bytea
	AS 'MODULE_PATHNAME', 'format_test_encode' LANGUAGE C;
-- Nanoseconds per record for decoding, filling a slot, and encoding.
CREATE FUNCTION format_bench(format text, records bytea[], type anyelement, times int, options text[] DEFAULT '{}',
	OUT records bigint, OUT decode_ns float8, OUT fill_ns float8, OUT encode_ns float8, OUT buffer_bytes bigint) RETURNS record
	AS 'MODULE_PATHNAME', 'format_test_bench' LANGUAGE C;
