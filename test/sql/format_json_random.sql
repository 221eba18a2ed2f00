-- Random JSON, good and broken: from_json agrees with PostgreSQL's own jsonb. The
-- seed is printed when something differs; set it to see that again.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
BEGIN;
CREATE SCHEMA format_json_random;
SET search_path = format_json_random, public;
SELECT plan(5);
SELECT extract(epoch FROM clock_timestamp())::int % 100000 AS seed \gset
SELECT setseed(:seed / 100000.0);
CREATE TYPE picked AS (a text, b jsonb, n numeric, "ä" text);

CREATE FUNCTION pick(VARIADIC words text[]) RETURNS text LANGUAGE sql VOLATILE AS $$ SELECT words[1 + floor(random() * array_length(words, 1))::int] $$;
CREATE FUNCTION random_string() RETURNS text LANGUAGE sql VOLATILE AS
	$$ SELECT '"' || coalesce(string_agg(pick('a', 'b', 'xyz', ' ', '\n', '\"', '\\', '\/', '\u0041', '\u00e4', 'ä', '€', '😀', '\ud83d\ude00', 'abcdefghijklmnopqrstuvwxyz', '{', ']', ',', '\t'), ''), '') || '"' FROM generate_series(1, floor(random() * 6)::int + 0 * length(pick('a', 'b'))) $$;
CREATE FUNCTION random_value(depth int) RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	kind int := floor(random() * CASE WHEN depth > 3 THEN 6 ELSE 8 END);
	result text := '';
	gap text := pick('', '', '', ' ', E'\n ', E'\t');
BEGIN
	CASE kind
		WHEN 0 THEN RETURN pick('true', 'false', 'null');
		WHEN 1, 2 THEN RETURN pick('0', '-0', '1', '-17', '123456789012345678', '12345678901234567890123', '0.5', '-1.25e3', '1E-7', '100e10', '3.14159');
		WHEN 3, 4, 5 THEN RETURN random_string();
		WHEN 6 THEN
			FOR i IN 1 .. floor(random() * 4) LOOP
				result := result || CASE WHEN i > 1 THEN ',' ELSE '' END || gap || random_value(depth + 1) || gap;
			END LOOP;
			RETURN '[' || result || ']';
		ELSE
			FOR i IN 1 .. floor(random() * 5) LOOP
				result := result || CASE WHEN i > 1 THEN ',' ELSE '' END || gap || pick('"a"', '"b"', '"n"', '"ä"', '"\u0061"', '"other"', random_string()) || gap || ':' || gap || random_value(depth + 1) || gap;
			END LOOP;
			RETURN '{' || result || '}';
	END CASE;
END $$;
CREATE FUNCTION random_object() RETURNS text LANGUAGE plpgsql VOLATILE AS $$
DECLARE
	result text;
BEGIN
	LOOP
		result := random_value(0);
		EXIT WHEN result LIKE '{%';
	END LOOP;
	RETURN result;
END $$;
-- PostgreSQL's own reading; NULL: it refuses.
CREATE FUNCTION own(document text) RETURNS jsonb LANGUAGE plpgsql STABLE AS $$ BEGIN RETURN document::jsonb; EXCEPTION WHEN OTHERS THEN RETURN NULL; END $$;
CREATE FUNCTION is_number(j jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$ SELECT jsonb_typeof(j) = 'number' $$;

CREATE TABLE good AS SELECT random_object() AS json FROM generate_series(1, 4000);
CREATE TABLE read AS SELECT json, json::jsonb AS own, from_json(json, NULL::picked) AS r FROM good;
CREATE FUNCTION seed_of(n bigint) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN IF n > 0 THEN RAISE WARNING 'differs with seed %', current_setting('format.seed'); END IF; RETURN n; END $$;
SELECT set_config('format.seed', :'seed', true) \g /dev/null
SELECT is(seed_of(count(*)), 0::bigint, 'strings are those that jsonb reads') FROM read
	WHERE (jsonb_typeof(own -> 'a') = 'string' AND (r).a IS DISTINCT FROM own ->> 'a') OR (jsonb_typeof(own -> 'ä') = 'string' AND (r)."ä" IS DISTINCT FROM own ->> 'ä')
		OR (own -> 'a' IS NULL AND (r).a IS NOT NULL) OR (jsonb_typeof(own -> 'a') IN ('object', 'array', 'boolean') AND (r).a::jsonb IS DISTINCT FROM own -> 'a');
SELECT is(seed_of(count(*)), 0::bigint, 'so are nested values') FROM read WHERE (r).b IS DISTINCT FROM NULLIF(own -> 'b', 'null');
SELECT is(seed_of(count(*)), 0::bigint, 'and numbers') FROM read WHERE is_number(own -> 'n') AND (r).n IS DISTINCT FROM (own ->> 'n')::numeric;

-- Broken by a change of one to three characters, or cut: malformed if and only if jsonb refuses it (what follows the document is ignored here).
CREATE TABLE broken AS
	SELECT CASE WHEN random() < 0.2 THEN left(json, floor(random() * length(json))::int)
		ELSE overlay(json PLACING pick('', ',', '"', '\', '{', '}', '[', ']', ':', '0', '1', 'e', '.', '-', E'\t', 'nul', '\u', '\ud800', 'x') FROM 1 + floor(random() * length(json))::int FOR floor(random() * 3)::int) END AS json
	FROM good WHERE length(json) > 2;
CREATE TYPE whole AS (_corrupt_record text);
CREATE TYPE any_field AS (no_such_field int, _corrupt_record text);
SELECT is(seed_of(count(*)), 0::bigint, 'what jsonb refuses is malformed, and what it takes is not')
FROM (SELECT json, own(json) AS own, (from_json(json, NULL::any_field, '{"allow_single_quotes": false, "allow_non_numeric_numbers": false}'))._corrupt_record IS NOT NULL AS malformed FROM broken) b
WHERE trim(json, E' \t\n') <> '' AND malformed <> (own IS NULL OR jsonb_typeof(own) <> 'object')
	AND NOT (own IS NULL AND own(regexp_replace(json, '(\\\\)|\\u[dD][89a-fA-F]..|\\u0000', '\1x', 'g')) IS NOT NULL)	-- text that only jsonb cannot hold, in a field that is not read
	AND NOT (own IS NULL AND json ~ '[0-9][eE][-+]?[0-9]{4}')	-- and numbers that only numeric cannot
	AND NOT (own IS NULL AND NOT malformed AND EXISTS (SELECT FROM generate_series(1, length(json)) n WHERE jsonb_typeof(own(left(json, n))) = 'object'));
SELECT lives_ok($$ SELECT from_json(set_byte(convert_to(json, 'UTF8'), floor(random() * (octet_length(json) - 1))::int, floor(random() * 256)::int), NULL::picked) FROM good $$, 'changed bytes give a row, never an error');
SELECT * FROM finish();
ROLLBACK;
