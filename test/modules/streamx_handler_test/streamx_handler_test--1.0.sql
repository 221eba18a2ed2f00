\echo Use "CREATE EXTENSION streamx_handler_test" to load this file. \quit

-- How many rows the key has had; the state is a value "n" of type bigint.
CREATE FUNCTION count_rows_in_c(key integer, rows integer[], timer timestamptz) RETURNS bigint
LANGUAGE C AS 'MODULE_PATHNAME';
