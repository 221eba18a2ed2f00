-- verify: values that are equal and look different are no difference, in keys, in values and
-- where there is no key; those that are not equal are one.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

-- A server without citext or without ICU gets ordinary text there.
SELECT count(*) > 0 AS has_citext FROM pg_available_extensions WHERE name = 'citext' \gset
SELECT count(*) > 0 AS has_icu FROM pg_collation WHERE collname = 'und-x-icu' \gset
\if :has_citext
CREATE EXTENSION IF NOT EXISTS citext;
\else
CREATE DOMAIN citext AS text;
\endif
\if :has_icu
CREATE COLLATION ve_without_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
\else
CREATE COLLATION ve_without_case FROM "C";
\endif
CREATE TYPE ve_two AS (a citext, b numeric);
-- what came, what equals it, and what does not
CREATE TABLE ve_kinds (kind text, type text, came text, equal text, other text);
INSERT INTO ve_kinds VALUES
	('citext', 'citext', 'Straße', 'STRAßE', 'Strasse'),
	('collated', 'text COLLATE ve_without_case', 'Abc', 'aBC', 'abd'),
	('numeric', 'numeric', '1.0', '1.000', '1.0001'),
	('float8', 'float8', '-0', '0', '1e-300'),
	('interval', 'interval', '1 month', '30 days', '31 days'),
	('jsonb', 'jsonb', '{"a": 1.0}', '{"a": 1}', '{"a": 2}'),
	('of_citext', 'citext[]', '{a,B}', '{A,b}', '{a}'),
	('pair', 've_two', '(a,1)', '(A,1.0)', '(a,2)');
UPDATE ve_kinds SET equal = came WHERE (kind ~ 'citext|pair' AND NOT :'has_citext') OR (type ~ 'COLLATE' AND NOT :'has_icu');
SELECT format('CREATE FOREIGN TABLE ve_%s (k %s, v int) SERVER streamx', kind, type) FROM ve_kinds \gexec
-- the key of the result; in two columns of which none is a key; as a value
SELECT create_query(format('ve_%s_%s', kind, form), format(query, kind), sink => format('ve_%s_%s_sink', kind, form), output_mode => mode)
	FROM ve_kinds, (VALUES ('key', 'SELECT k, count(*) AS n FROM ve_%s GROUP BY k', 'complete'),
		('row', 'SELECT k, v FROM ve_%s', 'append'),
		('value', 'SELECT v, array_agg(k) AS k FROM ve_%s GROUP BY v', 'complete')) f(form, query, mode)
	WHERE NOT (kind ~ '^(pair|of_)' AND form = 'value') \g /dev/null
SELECT format('INSERT INTO ve_%s VALUES (%L, 1), (%L, 2), (NULL, 3)', kind, came, other) FROM ve_kinds \gexec
SELECT run_batch(name) FROM streamx.queries WHERE name LIKE 've\_%' \g /dev/null

SELECT is_empty(format('SELECT * FROM streamx.verify(%L)', name), name || ': nothing differs') FROM streamx.queries WHERE name LIKE 've\_%' ORDER BY name COLLATE "C";
-- in the sink: as if the other one had come first
SELECT format('UPDATE ve_%1$s_%2$s_sink SET k = %3$s WHERE %4$s', kind, form,
		CASE WHEN form = 'value' THEN format('ARRAY[%L]::%s[]', equal, split_part(type, ' COLLATE', 1)) ELSE quote_literal(equal) END,
		CASE WHEN form = 'key' THEN format('k = %L::%s', came, type) ELSE 'v = 1' END)
	FROM ve_kinds, unnest('{key,row,value}'::text[]) form WHERE NOT (kind ~ '^(pair|of_)' AND form = 'value') \gexec
SELECT is_empty(format('SELECT * FROM streamx.verify(%L)', name), name || ': what is equal is no difference') FROM streamx.queries WHERE name LIKE 've\_%' ORDER BY name COLLATE "C";
-- and what is not
SELECT format('DELETE FROM ve_%s_%s_sink WHERE k IS NULL OR %s', kind, form, CASE WHEN form IN ('row', 'value') THEN 'v = 2' ELSE format('k = %L::%s', other, type) END)
	FROM ve_kinds, unnest('{key,row,value}'::text[]) form WHERE NOT (kind ~ '^(pair|of_)' AND form = 'value') \gexec
SELECT format('INSERT INTO ve_%s_row_sink VALUES (%L, 2), (%L, 3)', kind, came, other) FROM ve_kinds \gexec
SELECT is((SELECT string_agg(kind, ' ' ORDER BY kind) FROM streamx.verify(name)),
	CASE WHEN name LIKE '%row' THEN 'missing missing unexpected unexpected' WHEN name LIKE '%value' THEN 'missing' ELSE 'missing missing' END, name || ': what is not is one')
	FROM streamx.queries WHERE name LIKE 've\_%' ORDER BY name COLLATE "C";

SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 've\_%' \g /dev/null
SELECT format('DROP FOREIGN TABLE ve_%s', kind) FROM ve_kinds \gexec
SELECT format('DROP TABLE %I', relname) FROM pg_class WHERE relname LIKE 've\_%sink' AND relkind = 'r' \gexec
DROP TABLE ve_kinds;
DROP TYPE ve_two;
DROP COLLATION ve_without_case;
\if :has_citext
DROP EXTENSION citext;
\else
DROP DOMAIN citext;
\endif
SELECT * FROM finish();
