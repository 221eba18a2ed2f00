-- Format avro: bytes that another implementation wrote (fastavro), and our own.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS streamx_format_test;
BEGIN;
CREATE SCHEMA format_avro;
SET search_path = format_avro, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT no_plan();

CREATE TABLE schemas (name text, json text);
INSERT INTO schemas VALUES ('all', $${"type": "record", "name": "r", "namespace": "x.y", "fields": [{"name": "b", "type": "boolean"}, {"name": "i", "type": "int"}, {"name": "l", "type": "long"}, {"name": "f", "type": "float"}, {"name": "d", "type": "double"}, {"name": "s", "type": ["null", "string"]}, {"name": "by", "type": "bytes"}, {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}}, {"name": "fx", "type": {"type": "fixed", "name": "F", "size": 3}}, {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}}, {"name": "tu", "type": [{"type": "long", "logicalType": "timestamp-micros"}, "null"]}, {"name": "dt", "type": {"type": "int", "logicalType": "date"}}, {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20, "scale": 3}}, {"name": "arr", "type": {"type": "array", "items": "int"}}, {"name": "m", "type": {"type": "map", "values": "string"}}, {"name": "rec", "type": ["null", {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}, {"name": "again", "type": ["null", "In"]}]}]}]}$$);
CREATE FUNCTION schema_of(text) RETURNS text LANGUAGE sql AS 'SELECT json FROM schemas WHERE name = $1';
CREATE FUNCTION decode_one(record bytea, type anyelement, schema text, OUT row_text text, OUT error text) LANGUAGE plpgsql AS
	$$ BEGIN SELECT d.row_text, d.error INTO row_text, error FROM format_decode('avro', ARRAY[record], type, ARRAY['avro_schema', schema]) d; END $$;
CREATE TABLE bytes (n int, b bytea);
INSERT INTO bytes VALUES (1, '\x01ffffffff0ffeffffffffffffffff010000c03f9a9999999999b9bf020cc3a422e282ac0400ff04616263f685c891f86600018cb5020ed423aba294b479060203060004026b027602710277000202020400'), (2, '\x0000010000c07f000000000000f07f0000000000000002010205000000');

CREATE TYPE natural_types AS (b bool, i int, l bigint, f real, d float8, s text, by bytea, e text, fx bytea, ts timestamptz, tu timestamptz, dt date, dec numeric, arr int[], m jsonb, rec jsonb);
SELECT is((SELECT row_text FROM bytes, decode_one(b, NULL::natural_types, schema_of('all')) WHERE n = 1),
	'(t,-2147483648,9223372036854775807,1.5,-0.1,"ä""€","\\x00ff",C,"\\x616263","2026-01-15 10:00:00.123+00","1969-12-31 23:59:59.999999+00",2024-02-29,-12345678901234.567,"{1,-2,3}","{""k"": ""v"", ""q"": ""w""}","{""x"": 1, ""again"": {""x"": 2, ""again"": null}}")', 'every type of Avro');
SELECT is((SELECT row_text FROM bytes, decode_one(b, NULL::natural_types, schema_of('all')) WHERE n = 2),
	'(f,0,-1,NaN,Infinity,,"\\x",A,"\\x000000","1970-01-01 00:00:00+00",,1969-12-31,0.005,{},{},)', 'and their small values');
CREATE TYPE part AS (x int, again jsonb);
CREATE TYPE other_types AS (dec text, tu timestamp, ts text, l numeric, e varchar(1), rec part, arr jsonb, nothing int, m text, i bigint, dt timestamptz);
SELECT is((SELECT row_text FROM bytes, decode_one(b, NULL::other_types, schema_of('all')) WHERE n = 1),
	'(-12345678901234.567,"1969-12-31 23:59:59.999999",2026-01-15T10:00:00.123000Z,9223372036854775807,C,"(1,""{""""x"""": 2, """"again"""": null}"")","[1, -2, 3]",,"{""k"":""v"",""q"":""w""}",-2147483648,"2024-02-29 00:00:00+00")', 'in other columns, in another order, some left out');
CREATE TYPE misfits AS (b int, s date, l int, arr int);
SELECT is((SELECT row_text || error FROM bytes, decode_one(b, NULL::misfits, schema_of('all')) WHERE n = 1), '(,,,)column "b": invalid integer: "true"', 'what does not fit is NULL, and the record malformed');

-- Broken bytes: an error of the record, never more; every cut of a good one.
SELECT is((SELECT count(*) FROM bytes, generate_series(0, length(b) - 1) cut, decode_one(substr(b, 1, cut), NULL::natural_types, schema_of('all')) d WHERE d.error IS NULL OR d.row_text <> '(,,,,,,,,,,,,,,,)'), 0::bigint, 'a record cut anywhere is malformed');
SELECT is((SELECT error FROM bytes, decode_one(b || '\x00', NULL::natural_types, schema_of('all')) WHERE n = 2), 'invalid Avro at byte 30: bytes behind the value', 'and one with more bytes');
SELECT setseed(0.42);
SELECT is((SELECT count(*) FROM bytes, generate_series(1, 3000) g, LATERAL decode_one(set_byte(set_byte(b, (random() * (length(b) - 1))::int, (random() * 255)::int), (random() * (length(b) - 1) + g * 0)::int, (random() * 255)::int), NULL::natural_types, schema_of('all')) d WHERE d.row_text IS NULL), 0::bigint, 'changed bytes give a row or an error of the row');
SELECT is((decode_one('\xfeffffffffffffffff01', NULL::part, '{"type":"array","items":"null"}')).error, 'invalid Avro at byte 11: too many items in arrays or maps', 'a huge array of nothing');
SELECT is((decode_one('\x' , NULL::part, '{"type":"record","name":"r","fields":[{"name":"x","type":"r"}]}')).error, 'invalid Avro at byte 1: nested too deeply', 'a type that holds itself');
SELECT is((decode_one('\x0a', NULL::part, '["null","int"]')).error, 'invalid Avro at byte 2: no such branch of a union', 'no such branch');
SELECT is((decode_one('\xffffffffffffffffffff01', NULL::part, '"long"')).error, 'invalid Avro at byte 11: integer of more than 64 bits', 'too long an integer');
CREATE TYPE one AS (x bigint);
SELECT is((decode_one('\x0e', NULL::one, '"int"')).row_text, '(7)', 'a value that is no record goes into the only column');
SELECT is((SELECT array_agg(row_text ORDER BY record) FROM format_decode('avro', ARRAY[NULL, '\x0e'::bytea], NULL::one, ARRAY['avro_schema', '"int"'])), ARRAY['()', '(7)'], 'a tombstone is a row of NULLs');

-- Schemas that are none.
SELECT throws_like(format('SELECT * FROM format_decode(''avro'', ARRAY[''\x''::bytea], NULL::one, ARRAY[''avro_schema'', %L])', json), '%' || message || '%', message)
FROM (VALUES ('{', 'not valid JSON'), ('"strnig"', 'type "strnig" is not defined'), ('{"type":"record","name":"r"}', 'a list is expected'), ('{"type":"record","fields":[]}', 'without a name'), ('7', 'a name, a list or an object'),
	('{"type":"array"}', 'without the type of its items'), (repeat('{"type":', 100) || '"int"' || repeat('}', 100), 'nested too deeply')) AS v (json, message);
SELECT throws_ok($$ SELECT * FROM format_decode('avro', ARRAY['\x'::bytea], NULL::one) $$, 'HV00J', NULL, 'no schema at all');
SELECT throws_like($$ SELECT * FROM format_decode('avro', ARRAY['\x'::bytea], NULL::one, '{schema_registry_url,ftp://x}') $$, '%invalid URL%', 'a registry is asked by HTTP');
SELECT throws_like($$ SELECT * FROM format_decode('avro', ARRAY['\x'::bytea], NULL::one, '{schema_registry_url,http://me:secret@x}') $$, '%holds a user name%', 'and its password is no part of the URL');

-- Writing.
CREATE TYPE flat AS (b bool, i int, l bigint, f real, d float8, s text, by bytea, e text, fx bytea, ts timestamptz, tu timestamptz, dt date);
INSERT INTO schemas VALUES ('flat', (SELECT json_build_object('type', 'record', 'name', 'r', 'fields', json_agg(f))::text FROM schemas, json_array_elements(json::json -> 'fields') WITH ORDINALITY AS x (f, o) WHERE o <= 12));
SELECT is(written, substr(b, 1, length(written)), 'written as another implementation does: ' || n)
FROM bytes, decode_one(b, NULL::flat, schema_of('all')) d, LATERAL (SELECT format_encode('avro', d.row_text::flat, ARRAY['avro_schema', schema_of('flat')]) AS written) w;
SELECT is((SELECT row_text FROM decode_one(format_encode('avro', r), NULL::flat, '{"type":"record","name":"row","fields":[' || (SELECT string_agg(format('{"name":"%s","type":["null",%s]}', n, t), ',') FROM (VALUES ('b', '"boolean"'), ('i', '"int"'), ('l', '"long"'), ('f', '"float"'), ('d', '"double"'), ('s', '"string"'), ('by', '"bytes"'), ('e', '"string"'), ('fx', '"bytes"'), ('ts', '{"type":"long","logicalType":"timestamp-micros"}'), ('tu', '{"type":"long","logicalType":"timestamp-micros"}'), ('dt', '{"type":"int","logicalType":"date"}')) AS v (n, t)) || ']}')), r::text, 'with the schema of the columns: ' || r::text)
FROM (VALUES (ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)::flat), (ROW(true, -1, 1, 0.5, -2.5, 'ä', '\x00', '', '\x', '1969-01-01Z', '2026-01-15 10:00:00.000001Z', '1960-02-29')::flat)) AS v (r);
SELECT throws_ok($$ SELECT format_encode('avro', ROW(NULL)::one, ARRAY['avro_schema', '{"type":"record","name":"r","fields":[{"name":"x","type":"int"}]}']) $$, '23502', NULL, 'NULL where the schema has none');
SELECT throws_ok($$ SELECT format_encode('avro', ROW(3000000000)::one, ARRAY['avro_schema', '{"type":"record","name":"r","fields":[{"name":"x","type":"int"}]}']) $$, '22003', NULL, 'a number that is too large');
SELECT throws_ok($$ SELECT format_encode('avro', ROW(1)::one, ARRAY['avro_schema', '{"type":"record","name":"r","fields":[{"name":"y","type":"int"}]}']) $$, '42703', NULL, 'a field without a column');

SELECT * FROM finish();
ROLLBACK;
