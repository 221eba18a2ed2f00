-- from_json: Spark's answers (sources.md 4.1, 4.4), record by record.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
BEGIN;
CREATE SCHEMA format_from_json;
SET search_path = format_from_json, public;
SET intervalstyle = 'postgres';
SELECT no_plan();

CREATE TYPE ab AS (a int, b text);
CREATE TYPE abc AS (a int, b text, _corrupt_record text);

-- The table of 4.4. IS NULL of a composite asks its columns; IS NOT DISTINCT FROM NULL asks for the value itself.
SELECT is(from_json(json, NULL::ab)::text, result, format('from_json of %L', json))
FROM (VALUES (NULL, NULL), ('', NULL), (E' \n', NULL),
	('bad', '(,)'), ('{"a":1', '(,)'), ('[1]', '(,)'), ('[{"a":1}]', '(,)'), ('null', '(,)'),
	('{"a":"x","b":"ok"}', '(,ok)'), ('{}', '(,)'), ('{"c":1}', '(,)'), ('{"a":1} junk', '(1,)'),
	('{"a":1.5}', '(,)'), ('{"a":99999999999}', '(,)')) AS v (json, result);
SELECT ok(from_json('', NULL::ab) IS NOT DISTINCT FROM NULL, 'a blank payload is NULL');
SELECT ok(from_json('bad', NULL::ab) IS DISTINCT FROM NULL, 'a malformed one is a row of NULLs, not NULL');

-- The table of 4.1, with the corrupt-record column.
SELECT is(from_json(json, NULL::abc)::text, result, format('with a corrupt-record column: %s', json))
FROM (VALUES ('{"a":1,"b":"x"}', '(1,x,)'), ('bad', '(,,bad)'),
	('{"a":"s","b":"y"}', '(,y,"{""a"":""s"",""b"":""y""}")'), ('{"b":5}', '(,5,)')) AS v (json, result);

-- Modes.
SELECT throws_ok($$ SELECT from_json('{"a":"x"}', NULL::ab, '{"mode": "FAILFAST"}') $$, '22000', 'malformed record', 'FAILFAST raises a data exception');
SELECT throws_ok($$ SELECT from_json('{}', NULL::ab, '{"mode": "dropmalformed"}') $$, '0A000', NULL, 'DROPMALFORMED is refused');
SELECT throws_ok($$ SELECT from_json('{}', NULL::ab, '{"mode": "loose"}') $$, 'HV024', NULL, 'an unknown mode is refused');
SELECT throws_ok($$ SELECT from_json('{}', NULL::ab, '{"moode": "failfast"}') $$, '22023', NULL, 'an unknown option is refused');
SELECT throws_ok($$ SELECT from_json('{}', NULL::int) $$, '42804', NULL, 'only composites are made');

-- Numbers.
CREATE TYPE numbers AS (i2 smallint, i4 int, i8 bigint, f4 real, f8 float8, n numeric, m numeric(8,2));
SELECT is(from_json(json, NULL::numbers)::text, result, json)
FROM (VALUES
	('{"i2":32767,"i4":-2147483648,"i8":9223372036854775807}', '(32767,-2147483648,9223372036854775807,,,,)'),
	('{"i2":32768,"i4":2147483648,"i8":9223372036854775808}', '(,,,,,,)'),
	('{"i8":-9223372036854775808}', '(,,-9223372036854775808,,,,)'),
	('{"i4":"7"}', '(,,,,,,)'), ('{"i4":true}', '(,,,,,,)'), ('{"i4":1e2}', '(,,,,,,)'), ('{"i4":-0}', '(,0,,,,,)'),
	('{"f8":0.1,"f4":0.1}', '(,,,0.1,0.1,,)'), ('{"f8":1e400,"f4":1e39}', '(,,,,,,)'),
	('{"f8":123456789012345678901234567890}', '(,,,,1.2345678901234568e+29,,)'),
	('{"f8":"NaN","f4":"-Infinity"}', '(,,,-Infinity,NaN,,)'), ('{"f8":NaN}', '(,,,,NaN,,)'), ('{"f8":-INF}', '(,,,,-Infinity,,)'),
	('{"f8":4.9e-324}', '(,,,,5e-324,,)'), ('{"f8":1.7976931348623157e308}', '(,,,,1.7976931348623157e+308,,)'),
	('{"n":0.00001000,"m":123456.5}', '(,,,,,0.00001000,123456.50)'), ('{"n":-12345678901234567890.123,"m":-0.005}', '(,,,,,-12345678901234567890.123,-0.01)'),
	('{"n":1e20,"m":1234567}', '(,,,,,100000000000000000000,)'), ('{"n":"12.50","m":"x"}', '(,,,,,12.50,)'), ('{"n":0,"m":0}', '(,,,,,0,0.00)')) AS v (json, result);

-- Times. Without a zone: the session's; numbers: seconds.
CREATE TYPE times AS (t timestamptz, l timestamp, d date);
SET timezone = 'Europe/Berlin';
SELECT is((t.r).t AT TIME ZONE 'UTC', utc::timestamp, json)
FROM (SELECT from_json(json, NULL::times) AS r, json, utc FROM (VALUES
	('{"t":"2026-01-15T10:00:00Z"}', '2026-01-15 10:00'), ('{"t":"2026-01-15 10:00:00.123456789+02:30"}', '2026-01-15 07:30:00.123456'),
	('{"t":"2026-01-15T10:00:00"}', '2026-01-15 09:00'), ('{"t":"2026-07-15 10:00"}', '2026-07-15 08:00'), ('{"t":"2026-07-15"}', '2026-07-14 22:00'),
	('{"t":"2026-01-15T10:00:00-0800"}', '2026-01-15 18:00'), ('{"t":"2026-01-15T10:00:00 America/New_York"}', '2026-01-15 15:00'),
	('{"t":"1969-12-31T23:59:59.5Z"}', '1969-12-31 23:59:59.5'), ('{"t":0}', '1970-01-01'), ('{"t":-1}', '1969-12-31 23:59:59'), ('{"t":1768471200}', '2026-01-15 10:00'),
	('{"t":"2024-02-29T00:00:00Z"}', '2024-02-29'), ('{"t":"2023-02-29T00:00:00Z"}', NULL), ('{"t":"now"}', NULL), ('{"t":"tomorrow 10:00"}', NULL), ('{"t":1.5}', NULL),
	('{"t":9223372036854775807}', NULL), ('{"t":"0001-01-01T00:00:00Z"}', '0001-01-01'), ('{"t":""}', NULL)) AS v (json, utc)) t;
SELECT is((from_json('{"t":1768471200123}', NULL::times, '{"epoch_unit": "milliseconds"}')).t, '2026-01-15 10:00:00.123Z', 'milliseconds by option');
SELECT is((from_json('{"t":"2026-01-15 10:00"}', NULL::times, '{"timeZone": "Asia/Tokyo"}')).t, '2026-01-15 01:00Z', 'time zone by option');
SELECT is((from_json('{"l":"2026-01-15T10:00:00.5"}', NULL::times)).l, '2026-01-15 10:00:00.5', 'a timestamp without zone');
SELECT is((from_json('{"l":"2026-01-15T10:00:00Z"}', NULL::times)).l, NULL, 'takes no instant');
SELECT is((from_json('{"d":"2026-01-15"}', NULL::times)).d, '2026-01-15', 'a date');

-- The fast reader of times agrees with the server's, in a zone with summer time.
SELECT is((SELECT count(*) FROM generate_series('1900-01-01'::timestamptz, '2050-01-01', '7 days 5 hours 13 minutes 7.25 seconds') g
	WHERE (from_json(json_build_object('t', to_char(g, 'YYYY-MM-DD HH24:MI:SS.US'))::text, NULL::times)).t IS DISTINCT FROM to_char(g, 'YYYY-MM-DD HH24:MI:SS.US')::timestamptz),
	0::bigint, 'local times of 150 years');
RESET timezone;

-- Text.
SELECT is((from_json(json, NULL::ab)).b, result, json)
FROM (VALUES ('{"b":"a\"\\\/\b\f\n\r\tz"}', E'a"\\/\b\f\n\r\tz'), ('{"b":"\u00e4\u20ac\ud83d\ude00"}', 'ä€😀'), ('{"b":"ä€😀"}', 'ä€😀'),
	('{"b":true}', 'true'), ('{"b":1.50}', '1.50'), ('{"b":{"x": [1, 2]}}', '{"x": [1, 2]}'), ('{"b":null}', NULL), ('{"b":""}', ''),
	('{"b":"\u0000"}', NULL), ('{"b":"\ud800"}', NULL), ('{"b":"\udc00x"}', NULL), ('{"b":"\ud800\u0041"}', NULL), ('{"b":"\x"}', NULL),
	('{"b":"x', NULL), (E'{"b":"a\nb"}', NULL), ('{"b":''single''}', 'single'), ('{''b'':''it\''s''}', 'it''s')) AS v (json, result);
SELECT is((from_json('{"b":"' || repeat('x', n) || 'ä' || repeat('y', n) || '"}', NULL::ab)).b, repeat('x', n) || 'ä' || repeat('y', n), 'a string around ' || n)
FROM (VALUES (14), (15), (16), (17), (62), (63), (64), (126), (127), (10000), (300000)) AS v (n);
SELECT is(from_json('{"a":1,"b":"a\u0000b"}', NULL::ab, '{"invalid_text": "replace"}')::text, '(1,a' || U&'\FFFD' || 'b)', 'U+0000 replaced');
SELECT is(from_json('{"a":3,"b":"\ud800"}', NULL::ab, '{"invalidText": "replace"}')::text, '(3,' || U&'\FFFD' || ')', 'half a surrogate pair replaced');
SELECT is(from_json('\x7b2262223a22c328227d'::bytea, NULL::ab)::text, '(,)', 'broken UTF-8 is malformed');
SELECT is(from_json('\x7b2262223a22c328227d'::bytea, NULL::ab, '{"invalid_text": "replace"}')::text, '(,"' || U&'\FFFD' || '(")', 'or replaced');
SELECT is(from_json('\xc328'::bytea, NULL::abc)::text, '(,,"' || U&'\FFFD' || '(")', 'bytes that are no JSON at all');
SELECT is(from_json('\x00'::bytea, NULL::ab)::text, '(,)', 'a zero byte');
SELECT is(from_json('\xefbbbf7b2261223a317d'::bytea, NULL::ab)::text, '(1,)', 'a byte order mark is skipped');

-- Fields.
SELECT is(from_json('{"a":1,"a":2,"b":"x","b":null}', NULL::ab)::text, '(2,)', 'the last of two fields wins');
SELECT is(from_json('{"A":1,"B":"x"}', NULL::ab)::text, '(,)', 'names are compared exactly');
SELECT is(from_json('{"\u0061":1}', NULL::ab)::text, '(1,)', 'also names with escapes');
SELECT is(from_json('{"x":{"a":9,"y":[{"a":8},[]]},"a":1}', NULL::ab)::text, '(1,)', 'not those of nested objects');
SELECT is(from_json(json, NULL::ab)::text, '(,)', 'broken beside the wanted fields: ' || json)
FROM (VALUES ('{"a":1,"x":tru}'), ('{"a":1,"x":01}'), ('{"a":1,"x":[1,]}'), ('{"a":1,}'), ('{"a":1 "b":"x"}'), ('{"a":1,"x":{"y":}}'), ('{"a":1,"x":"\q"}'), ('{"a":1,"x":1.}'), ('{"a":1x}'), ('{a:1}'), ('{"a":1/*c*/}'), ('{"a" 1}')) AS v (json);
SELECT is(from_json(json, NULL::ab, options)::text, '(1,x)', options::text)
FROM (VALUES ('{a:1,b:"x"}', '{"allowUnquotedFieldNames": true}'::jsonb), (E'{"a":1/*c*/,//d\n"b":"x"}', '{"allowComments": "true"}'), ('{"a":01,"b":"x"}', '{"allowNumericLeadingZeros": true}'), ('{"a":1,"b":"\x"}', '{"allowBackslashEscapingAnyCharacter": true}')) AS v (json, options);
SELECT is(from_json('{''a'':1}', NULL::ab, '{"allowSingleQuotes": false}')::text, '(,)', 'single quotes can be refused');

-- Deep nesting and long records end in an error of the record.
SELECT is(from_json('{"x":' || repeat('[', n) || repeat(']', n) || ',"a":1}', NULL::ab)::text, result, n || ' brackets')
FROM (VALUES (900, '(1,)'), (2000, '(,)'), (500000, '(,)')) AS v (n, result);
SELECT is(from_json('{"x":' || repeat('{"x":', 500000), NULL::ab)::text, '(,)', 'and unbalanced');
SELECT is((from_json('{"a":' || repeat('9', 100000) || '}', NULL::ab)).a, NULL, 'a huge number');
SELECT is((from_json('{"n":' || repeat('9', 200000) || '}', NULL::numbers)).n, NULL, 'too huge even for numeric');

-- Other types: input functions, whose errors are those of the field.
CREATE TYPE mood AS ENUM ('good', 'bad');
CREATE DOMAIN positive AS int CHECK (VALUE > 0);
CREATE TYPE inner_type AS (x int, y text[]);
CREATE TYPE others AS (m mood, p positive, u uuid, j jsonb, k json, c inner_type, l int[], by bytea, bo boolean, v varchar(3), iv interval);
SELECT is(from_json(json, NULL::others)::text, result, json)
FROM (VALUES
	('{"m":"good","p":5,"u":"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"}', '(good,5,a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,,,,,,,,)'),
	('{"m":"ugly","p":-5,"u":"x","bo":true}', '(,,,,,,,,t,,)'), ('{"m":"ugly","p":5,"bo":"true"}', '(,5,,,,,,,,,)'),
	('{"j":{"b":1,"a":[1.50,null,"x"]},"k":{"b":1, "a":2}}', '(,,,"{""a"": [1.50, null, ""x""], ""b"": 1}","{""b"":1, ""a"":2}",,,,,,)'),
	('{"j":"text","k":7}', '(,,,"""text""",7,,,,,,)'), ('{"j":{"a":"\u0000"},"p":1}', '(,1,,,,,,,,,)'),
	('{"c":{"x":1,"y":["p","q,r"]},"l":[1,2,null]}', '(,,,,,"(1,""{p,""""q,r""""}"")","{1,2,NULL}",,,,)'),
	('{"c":{"x":"z"},"l":[[1,2],[3,4]]}', '(,,,,,,"{{1,2},{3,4}}",,,,)'), ('{"l":[[1],[2,3]],"c":5,"bo":false}', '(,,,,,,,,f,,)'), ('{"l":[],"c":{}}', '(,,,,,"(,)",{},,,,)'),
	('{"by":"aGk=","v":"äöü","iv":"1 day"}', '(,,,,,,,"\\x6869",,äöü,"1 day")'), ('{"by":"\\xff00","v":"four"}', '(,,,,,,,"\\xff00",,,)'), ('{"by":"*","bo":null}', '(,,,,,,,,,,)')) AS v (json, result);
SELECT is(from_json('{"a":1,"b":"x"}'::jsonb, NULL::ab)::text, '(1,x)', 'from jsonb');
SELECT is((SELECT string_agg((from_json(j, NULL::ab)).a::text, ',' ORDER BY o) FROM (VALUES (1, '{"a":1,"b":"x"}'), (2, '{"b":"x","a":2}'), (3, '{"x":1,"a":3}'), (4, '{"a":4}'), (5, '{"aa":9,"a":5}')) AS v (o, j)),
	'1,2,3,4,5', 'fields may come in any order, and in another one with each record');

-- The other functions.
SELECT is(from_csv(csv, NULL::abc, options)::text, result, format('from_csv of %L', csv))
FROM (VALUES (NULL, '{}'::jsonb, NULL), ('', '{}', NULL), ('1,x', '{}', '(1,x,)'), ('bad,y', '{}', '(,y,"bad,y")'), ('1;x', '{"sep": ";"}', '(1,x,)')) AS v (csv, options, result);
SELECT is(from_avro(avro, NULL::ab, schema)::text, result, format('from_avro of %L', avro))
FROM (VALUES (NULL::bytea, '"int"', NULL), ('\x020278', '{"type":"record","name":"r","fields":[{"name":"a","type":"int"},{"name":"b","type":"string"}]}', '(1,x)'), ('\x027802', '{"type":"record","name":"r","fields":[{"name":"b","type":"string"},{"name":"a","type":"int"}]}', '(1,x)'), ('\x02', '{"type":"record","name":"r","fields":[{"name":"b","type":"string"}]}', '(,)')) AS v (avro, schema, result);
SELECT throws_ok($$ SELECT from_avro('\x', NULL::ab, 'no schema') $$, 'HV024', NULL, 'a schema that is none');

SELECT * FROM finish();
ROLLBACK;
