-- Groups are what "=" of their types says, before a restart as after it, and the
-- first key seen stands for its group.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';
SELECT no_plan();

-- A server without citext or without ICU gets ordinary text there, and rows whose case does not differ.
SELECT count(*) > 0 AS has_citext FROM pg_available_extensions WHERE name = 'citext' \gset
SELECT count(*) > 0 AS has_icu FROM pg_collation WHERE collname = 'und-x-icu' \gset
\if :has_citext
CREATE EXTENSION IF NOT EXISTS citext;
\else
CREATE DOMAIN citext AS text;
\endif
\if :has_icu
CREATE COLLATION any_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION any_case FROM "C";
\endif
CREATE TYPE pair AS (n numeric, t text);
CREATE TYPE mood AS ENUM ('sad', 'glad');
CREATE DOMAIN amount AS numeric CHECK (value > -1000);
CREATE FOREIGN TABLE keys (
	batch int, n numeric, f float8, c citext, a text COLLATE any_case, i interval, b char(4), j jsonb,
	ar numeric[], p pair, d amount, m money, v varbit, e mood, t text, u uuid, r numrange, tz timetz) SERVER streamx;

-- three rows of two groups per type in the first batch, three in the second
CREATE TABLE input (LIKE keys);
INSERT INTO input VALUES
	(1, 1.0, 0.0, 'Abc', 'Abc', '1 day', 'x', '{"a": 1.0}', '{1.0,NULL}', '(1.0,a)', 1.0, 1, '101', 'sad', 'a', '11111111-1111-1111-1111-111111111111', '[1.0,2)', '10:00+00'),
	(1, 1.00, '-0.0', 'ABC', 'ABC', '24 hours', 'x ', '{"a": 1}', '{1,NULL}', '(1,a)', 1, 1.00, '101', 'sad', 'a', '11111111-1111-1111-1111-111111111111', '[1,2)', '10:00+00'),
	(1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(2, 1.000, 0, 'abc', 'abc', '1 day', 'x  ', '{"a": 1.00}', '{1.00,NULL}', '(1.000,a)', 1.00, 1, '101', 'sad', 'a', '11111111-1111-1111-1111-111111111111', '[1.00,2)', '10:00+00'),
	(2, 'NaN', 'NaN', 'abcd', 'abcd', '1 month', 'xy', '{"a": 2}', '{}', '(,)', 'NaN', 2, '1010', 'glad', 'A', '21111111-1111-1111-1111-111111111111', 'empty', '11:00+01'),
	(2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
	(3, 'NaN', 'NaN', 'ABCD', 'Abcd', '30 days', 'xy', '{"a": 2.0}', '{}', '(,)', 'NaN', 2.00, '1010', 'glad', 'A', '21111111-1111-1111-1111-111111111111', 'empty', '11:00+01');
UPDATE input SET c = CASE length(c) WHEN 3 THEN 'Abc' WHEN 4 THEN 'abcd' END WHERE NOT :'has_citext';
UPDATE input SET a = CASE length(a) WHEN 3 THEN 'Abc' WHEN 4 THEN 'abcd' END WHERE NOT :'has_icu';

CREATE TABLE columns AS
	SELECT attname AS name, 'key_' || attname AS query FROM pg_attribute
	WHERE attrelid = 'input'::regclass AND attnum > 1;
SELECT create_query(query, format('SELECT %I AS key, count(*) AS n, min(batch) AS first FROM keys GROUP BY %1$I', name),
	sink => query, output_mode => 'update') FROM columns \g /dev/null
SELECT create_query('key_many', 'SELECT n, c, a, ar, count(*) AS rows FROM keys GROUP BY n, c, a, ar',
	sink => 'key_many', output_mode => 'update') \g /dev/null
SELECT create_query('key_record', 'SELECT (ROW(n, c)).f1 AS x, count(*) AS rows FROM keys GROUP BY ROW(n, c)',
	sink => 'noop', output_mode => 'complete') \g /dev/null
SELECT create_query('key_expression', 'SELECT lower(t) AS key, count(*) AS n FROM keys GROUP BY lower(t)',
	sink => 'key_expression', output_mode => 'update') \g /dev/null
CREATE TABLE queries AS SELECT query FROM columns UNION ALL VALUES ('key_many'), ('key_expression');

INSERT INTO keys SELECT * FROM input WHERE batch = 1;
SELECT start_query(query) FROM queries \g /dev/null
SELECT process_all_available(query) FROM queries \g /dev/null
INSERT INTO keys SELECT * FROM input WHERE batch = 2;
SELECT process_all_available(query) FROM queries \g /dev/null
SELECT stop_query(query) FROM queries \g /dev/null
INSERT INTO keys SELECT * FROM input WHERE batch = 3;
SELECT start_query(query) FROM queries \g /dev/null
SELECT process_all_available(query) FROM queries \g /dev/null

CREATE FUNCTION groups_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE format('SELECT string_agg(format(''%%s: %%s'', coalesce(key::text, ''NULL''), n), '', '' ORDER BY first, key IS NULL) FROM %I', query) INTO result;
	RETURN result;
END $$;
SELECT is(groups_of('key_n'), '1.0: 3, NULL: 2, NaN: 2', 'numeric: the scale is no part of the key, NaN equals NaN');
SELECT is(groups_of('key_f'), '0: 3, NULL: 2, NaN: 2', 'float8: 0 equals -0');
SELECT is(groups_of('key_c'), 'Abc: 3, NULL: 2, abcd: 2', 'citext: case is no part of the key');
SELECT is(groups_of('key_a'), 'Abc: 3, NULL: 2, abcd: 2', 'text with a nondeterministic collation');
SELECT is(groups_of('key_i'), '1 day: 3, NULL: 2, 1 mon: 2', 'interval: 24 hours are a day, 30 days a month');
SELECT is(groups_of('key_b'), 'x: 3, NULL: 2, xy: 2', 'char(n): trailing blanks are no part of the key');
SELECT is(groups_of('key_j'), '{"a": 1.0}: 3, NULL: 2, {"a": 2}: 2', 'jsonb: numbers by value');
SELECT is(groups_of('key_ar'), '{1.0,NULL}: 3, NULL: 2, {}: 2', 'arrays: by their elements');
SELECT is(groups_of('key_p'), '(1.0,a): 3, NULL: 2, (,): 2', 'composite types: by their columns, NULLs are equal');
SELECT is(groups_of('key_d'), '1.0: 3, NULL: 2, NaN: 2', 'a domain: as its base type');
SELECT is(groups_of('key_m'), '$1.00: 3, NULL: 2, $2.00: 2', 'money, which has no hash function');
SELECT is(groups_of('key_v'), '101: 3, NULL: 2, 1010: 2', 'varbit, which has no hash function');
SELECT is(groups_of('key_e'), 'sad: 3, NULL: 2, glad: 2', 'an enum');
SELECT is(groups_of('key_t'), 'a: 3, NULL: 2, A: 2', 'text: by its bytes');
SELECT is(groups_of('key_u'), '11111111-1111-1111-1111-111111111111: 3, NULL: 2, 21111111-1111-1111-1111-111111111111: 2', 'uuid');
SELECT is(groups_of('key_r'), '[1.0,2): 3, NULL: 2, empty: 2', 'numrange: bounds by value');
SELECT is(groups_of('key_tz'), '10:00:00+00: 3, NULL: 2, 11:00:00+01: 2', 'timetz: the zone is part of the key');
SELECT is((SELECT string_agg(format('%s %s %s %s: %s', n, c, a COLLATE "C", ar, rows), ', ' ORDER BY rows DESC, n) FROM key_many),
	'1.0 Abc Abc {1.0,NULL}: 3, NaN abcd abcd {}: 2,    : 2', 'several of them together');
SELECT results_eq('SELECT * FROM key_expression ORDER BY key', $$VALUES ('a', 5::bigint), (NULL, 2)$$, 'an expression');

SELECT start_query('key_record') \g /dev/null
SELECT process_all_available('key_record') \g /dev/null
SELECT is(last_progress('key_record') -> 'stateOperators' -> 0 ->> 'numRowsTotal', '3', 'an anonymous row is a key');

SELECT stop_query(query), drop_query(query) FROM (SELECT query FROM queries UNION ALL VALUES ('key_record')) q \g /dev/null
SELECT format('DROP TABLE %I', query) FROM queries \gexec
DROP TABLE columns, queries, input;
DROP FOREIGN TABLE keys CASCADE;
DROP FUNCTION groups_of;
DROP TYPE pair, mood;
DROP DOMAIN amount;
DROP COLLATION any_case;
\if :has_citext
DROP EXTENSION citext;
\else
DROP DOMAIN citext;
\endif
SELECT * FROM finish();
