-- Formats csv and raw: records into rows and back (sources.md 4.1, 4.2).
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS streamx_format_test;
BEGIN;
CREATE SCHEMA format_csv_raw;
SET search_path = format_csv_raw, public;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT no_plan();

CREATE TYPE ab AS (a int, b text);
CREATE TYPE abc AS (a int, b text, _corrupt_record text);
CREATE FUNCTION utf8(VARIADIC t text[]) RETURNS bytea[] LANGUAGE sql AS $$ SELECT array_agg(convert_to(x, 'UTF8') ORDER BY o) FROM unnest(t) WITH ORDINALITY u (x, o) $$;

-- The table of 4.1, PERMISSIVE and DROPMALFORMED.
CREATE TABLE lines (line text, permissive text, dropmalformed text);
INSERT INTO lines VALUES ('1,x', '(1,x,)', '(1,x)'), ('bad,y', '(,y,"bad,y")', NULL), ('3', '(3,,3)', NULL),
	('4,z,extra', '(4,z,"4,z,extra")', NULL), ('', NULL, NULL), ('"5","q""q"', '(5,"""q""""q""",)', '(5,"""q""""q""")'), (',', '(,,)', '(,)');
SELECT is((SELECT row_text FROM format_decode('csv', utf8(line), NULL::abc)), permissive, 'permissive: ' || line) FROM lines;
SELECT is((SELECT row_text FROM format_decode('csv', utf8(line), NULL::ab, '{mode,dropmalformed}')), dropmalformed, 'dropmalformed: ' || line) FROM lines;
SELECT is((SELECT string_agg(fate, ' ' ORDER BY record) FROM format_decode('csv', (SELECT array_agg(convert_to(line, 'UTF8')) FROM lines), NULL::ab, '{mode,dropmalformed}')),
	'row dropped dropped dropped row row', 'a blank line is no row, and not a dropped one');
SELECT is((SELECT string_agg(fate, ' ' ORDER BY record) FROM format_decode('csv', (SELECT array_agg(convert_to(line, 'UTF8')) FROM lines), NULL::ab, '{on_error,quarantine}')),
	'row quarantine quarantine quarantine row row', 'with a quarantine the malformed go there');
SELECT is((SELECT string_agg(fate, ' ' ORDER BY record) FROM format_decode('csv', (SELECT array_agg(convert_to(line, 'UTF8')) FROM lines), NULL::ab, '{on_error,quarantine,mode,permissive}')),
	'row row row row row row', 'unless the stream says permissive');
SELECT is((SELECT string_agg(fate, ' ' ORDER BY record) FROM format_decode('csv', (SELECT array_agg(convert_to(line, 'UTF8')) FROM lines), NULL::abc, '{on_error,quarantine}')),
	'row row row row row row', 'or has a column for them');
SELECT throws_ok($$ SELECT * FROM format_decode('csv', utf8('1,a', 'x,b'), NULL::ab, '{mode,failfast}') $$, '22000', 'malformed record at record 1', 'FAILFAST names the record');
SELECT is((SELECT string_agg(error, '; ' ORDER BY record) FROM format_decode('csv', utf8('x,b', '1', '1,2,3', '99999999999,'), NULL::ab)),
	'column "a": invalid integer: "x"; 1 fields instead of 2; 3 fields instead of 2; column "a": integer out of range: "99999999999"', 'errors name the column and the reason');

-- Quotes, escapes, white space, lines.
CREATE TYPE three AS (x text, y text, z text);
SELECT is((SELECT string_agg(row_text, ' ') FROM format_decode('csv', utf8(line), NULL::three, options)), result, line || ' ' || options::text)
FROM (VALUES ('a,"b,c",d', '{}'::text[], '(a,"b,c",d)'), ('a,"b\"c",d', '{}', '(a,"b""c",d)'), ('a,"b""c",d', '{escape,"\""}', '(a,"b""c",d)'),
	('a,"b\\c",\d', '{}', '(a,"b\\c","\\d")'), ('a,"b" ,d', '{}', '(a,b,d)'), ('a,"b"x,d', '{}', '(a,"""b""x",d)'), ('a,b"c"d,e', '{}', '(a,"b""c""d",e)'),
	('a, "b" ,d ', '{}', '(a," ""b"" ","d ")'), ('a, "b" ,d ', '{ignoreLeadingWhiteSpace,true,ignoreTrailingWhiteSpace,true}', '(a,b,d)'), ('a,"",c', '{}', '(a,,c)'),
	('a,"",c', '{null_value,"NULL",empty_value,empty}', '(a,empty,c)'), ('a,NULL,', '{nullValue,"NULL"}', '(a,,"")'), ('a;b;c', '{sep,;}', '(a,b,c)'), (E'a\tb\tc', '{delimiter,"\\t"}', '(a,b,c)'),
	(E'a,b,c\r\nd,e,f\n\n', '{}', '(a,b,c) (d,e,f)'), (E'a,"b\nc",d', '{multiLine,true}', E'(a,"b\nc",d)'), (E'a,"b\nc",d', '{}', E'(a,"""b",) ("c""",d,)'),
	(E'#a,b,c\nd,e,f', '{comment,#}', '(d,e,f)'), ('a,"b,c', '{}', '(a,"""b",c)'), ('''a,b'',c,d', '{quote,''}', '("a,b",c,d)'), ('"a",b,c', '{quote,""}', '("""a""",b,c)')) AS v (line, options, result);
SELECT is((SELECT row_text FROM format_decode('csv', utf8(',,,,,'), NULL::three, '{max_columns,4}')), '(,,)', 'max_columns');
SELECT is((SELECT error FROM format_decode('csv', utf8(',,,,,'), NULL::three, '{max_columns,4}')), 'more fields than max_columns', 'and its error');
CREATE TYPE values_ AS (f float8, t timestamptz, by bytea, bo boolean, n numeric(5,2), l int[]);
SELECT is((SELECT row_text FROM format_decode('csv', utf8(line), NULL::values_, options)), result, line)
FROM (VALUES ('NaN,2026-01-15 10:00:00Z,hi,TRUE,1.5,"{1,2}"', '{}'::text[], '(NaN,"2026-01-15 10:00:00+00","\\x6869",t,1.50,"{1,2}")'), ('-Inf,x,\x00ff,yes,12345,', '{}', '(-Infinity,,"\\x00ff",,,)'),
	('inf,,,,1.005,{', '{positive_inf,inf}', '(Infinity,,,,1.01,)')) AS v (line, options, result);
SELECT is((SELECT row_text FROM format_decode('csv', ARRAY[NULL, '\xc328'::bytea, '\x310061'], NULL::ab) WHERE record = 0), '(,)', 'a tombstone is a row of NULLs');
SELECT is((SELECT string_agg(coalesce(error, 'none'), '; ' ORDER BY record) FROM format_decode('csv', ARRAY[NULL, '\x312cc328'::bytea, '\x312c0061'], NULL::ab)),
	'none; column "b": text with bytes that are not UTF-8, or U+0000: "?("; column "b": text with bytes that are not UTF-8, or U+0000: "?a"', 'and no malformed one');
SELECT is((SELECT raw FROM format_decode('csv', ARRAY['\x312cc328'::bytea], NULL::ab)), '\x312cc328'::bytea, 'the bytes of a malformed record are at hand');

-- Writing.
SELECT is(convert_from(format_encode('csv', ROW(a, b, c)::three, options), 'UTF8'), result, 'written: ' || result)
FROM (VALUES ('a', 'b,c', 'd"e', '{}'::text[], 'a,"b,c","d\"e"'), (NULL, '', ' x ', '{}', ',"", x '), ('a\b', E'x\ny', 'z', '{}', E'a\\b,"x\ny",z'), ('a', 'b"', NULL, '{escape,"\"",nullValue,"NULL",sep,;}', 'a;"b""";NULL'), ('#', 'b', 'c', '{comment,#,quoteAll,true}', '"#","b","c"')) AS v (a, b, c, options, result);
SELECT is(convert_from(format_encode('csv', ROW(1.5, '2026-01-15 10:00:00.5Z', '\x00ff', true, 2, '{1,2}')::values_, '{time_zone,Europe/Berlin}'), 'UTF8'), '1.5,2026-01-15T11:00:00.5+01:00,\x00ff,true,2.00,"{1,2}"', 'values of other types');
SELECT is((SELECT row_text FROM format_decode('csv', ARRAY[format_encode('csv', r, '{null_value,~}')], NULL::three, '{null_value,~,multi_line,true}')), r::text, 'read back: ' || r::text)
FROM (VALUES (ROW('a"b', E'c\\', E'\r\n')::three), (ROW(',', '"', '\"')::three), (ROW(NULL, ' ', 'ä')::three), (ROW('', '\\', '""')::three)) AS v (r);

-- raw.
CREATE TYPE raw_bytes AS (value bytea);
CREATE TYPE raw_text AS (value text, _corrupt_record bytea);
CREATE TYPE raw_json AS (value jsonb);
SELECT is((SELECT array_agg(row_text ORDER BY record) FROM format_decode('raw', ARRAY['\x00ff'::bytea, '', NULL], NULL::raw_bytes)), ARRAY['("\\x00ff")', '("\\x")', '()'], 'raw bytes');
SELECT is((SELECT array_agg(row_text ORDER BY record) FROM format_decode('raw', ARRAY['\x6869'::bytea, '\xc328', '\x61c328', NULL], NULL::raw_text)),
	ARRAY['(hi,)', '(,"\\xc328")', '(,"\\x61c328")', '(,)'], 'raw text, and what is none');
SELECT is((SELECT array_agg(row_text ORDER BY record) FROM format_decode('raw', ARRAY['\x6869'::bytea, '\x61c328'], NULL::raw_text, '{invalid_text,replace}')),
	ARRAY['(hi,)', '("a' || U&'\FFFD' || '(",)'], 'or replaced');
SELECT is((SELECT array_agg(row_text ORDER BY record) FROM format_decode('raw', utf8('{"a":1}', '{'), NULL::raw_json)), ARRAY['("{""a"": 1}")', '()'], 'raw jsonb');
SELECT throws_ok($$ SELECT * FROM format_decode('raw', utf8('x'), NULL::ab) $$, '42P16', NULL, 'two columns for one value are refused');
SELECT is(format_encode('raw', ROW('\x00ff')::raw_bytes), '\x00ff'::bytea, 'raw bytes written');
SELECT is(format_encode('raw', ROW(NULL)::raw_bytes), NULL, 'NULL is a tombstone');
SELECT is(format_encode('raw', ROW('{"a": 1}')::raw_json), convert_to('{"a": 1}', 'UTF8'), 'and other types as their text');
SELECT throws_ok($$ SELECT * FROM format_decode('xml', utf8('x'), NULL::ab) $$, 'HV024', NULL, 'an unknown format is refused');

SELECT * FROM finish();
ROLLBACK;
