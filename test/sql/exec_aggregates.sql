-- Every aggregate of pg_aggregate, in every form, over two batches with a restart
-- between them gives what one SELECT over all rows gives. None is refused.
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

CREATE TYPE mood AS ENUM ('sad', 'ok', 'glad');
-- a server built without libxml has the type xml and its aggregate, but no values: xmlagg is left out there
CREATE FUNCTION server_has_xml() RETURNS bool LANGUAGE plpgsql AS $$
BEGIN
	RETURN xmlelement(name a) IS NOT NULL;
EXCEPTION WHEN feature_not_supported THEN
	RETURN false;
END $$;
-- a value of each type that aggregates take, as an expression of the row's number
CREATE TABLE sample (type regtype PRIMARY KEY, expr text);
INSERT INTO sample VALUES
	('int2', '(i % 100)::int2'), ('int4', 'i::int'), ('int8', 'i * 1000000000000007'),
	('numeric', '(i / 7.0)::numeric(20, 6)'), ('float4', '(i * 0.5)::float4'), ('float8', '(i * 0.25)::float8'),
	('money', '(i * 1.5)::numeric::money'), ('text', '''t'' || i'), ('varchar', '(''v'' || i)::varchar'),
	('bpchar', '(''b'' || i)::char(5)'), ('bytea', 'decode(lpad(to_hex(i), 4, ''0''), ''hex'')'), ('bool', 'i % 3 = 0'),
	('date', 'date ''2024-01-01'' + i::int'), ('time', 'time ''00:00'' + i * interval ''1 second'''),
	('timetz', 'timetz ''00:00+01'' + i * interval ''1 second'''),
	('timestamp', 'timestamp ''2024-01-01'' + i * interval ''1 minute'''),
	('timestamptz', 'timestamptz ''2024-01-01 00:00Z'' + i * interval ''1 minute'''),
	('interval', 'i * interval ''1 hour'''), ('oid', 'i::oid'), ('tid', 'format(''(%s,1)'', i)::tid'),
	('inet', 'inet ''192.0.2.0'' + i'), ('pg_lsn', 'format(''0/%s'', i)::pg_lsn'), ('xid8', 'i::text::xid8'),
	('bit', '(i % 2)::int::bit(1)'), ('varbit', 'i::int::bit(8)::varbit'),
	('json', 'json_build_object(''a'', i)'), ('jsonb', 'jsonb_build_object(''a'', i)'), ('xml', 'xmlelement(name a, i)'),
	('int4range', 'int4range(i::int, i::int + 2)'),
	('int4multirange', 'int4multirange(int4range(i::int, i::int + 2), int4range(i::int + 10, i::int + 20))'),
	('int4[]', 'ARRAY[i::int, i::int + 1]'), ('mood', '(enum_range(NULL::mood))[i % 3 + 1]');
-- what stands for a polymorphic type
CREATE TABLE stands_for (type regtype PRIMARY KEY, actual regtype);
INSERT INTO stands_for VALUES ('anyelement', 'int4'), ('anynonarray', 'int4'), ('anyarray', 'int4[]'),
	('anyrange', 'int4range'), ('anymultirange', 'int4multirange'), ('anyenum', 'mood'), ('anycompatible', 'int4'),
	('anycompatiblearray', 'int4[]'), ('"any"', 'text');
DELETE FROM sample WHERE type = 'xml'::regtype AND NOT server_has_xml();
CREATE FUNCTION column_of(type regtype) RETURNS text LANGUAGE sql AS $$
	SELECT 'c_' || regexp_replace(coalesce((SELECT actual FROM stands_for s WHERE s.type = $1), $1)::text, '[^a-z0-9]+', '_', 'g') $$;

-- aggregates of users
CREATE FUNCTION pl_add(state numeric, x numeric) RETURNS numeric LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(state, 0) + coalesce(x, 0); END $$;
CREATE FUNCTION pl_show(state numeric) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN '<' || state || '>'; END $$;
CREATE AGGREGATE pl_sum(numeric) (sfunc = pl_add, stype = numeric, finalfunc = pl_show);
CREATE FUNCTION pl_last(state anyelement, x anyelement) RETURNS anyelement LANGUAGE plpgsql STRICT AS $$ BEGIN RETURN x; END $$;
CREATE AGGREGATE any_last(anyelement) (sfunc = pl_last, stype = anyelement);
-- NULL from a strict transition function is for ever, before the restart as after it
CREATE FUNCTION pl_dies(state int, x int) RETURNS int LANGUAGE plpgsql STRICT AS $$ BEGIN RETURN CASE WHEN x < 20 THEN NULL ELSE state + x END; END $$;
CREATE AGGREGATE dies(int) (sfunc = pl_dies, stype = int);
CREATE AGGREGATE lives(int) (sfunc = pl_dies, stype = int, initcond = '100');
CREATE AGGREGATE appended(anycompatible) (sfunc = array_append, stype = anycompatiblearray, initcond = '{}');
CREATE FUNCTION sql_glue(state text, VARIADIC parts text[]) RETURNS text LANGUAGE sql AS $$ SELECT coalesce(state, '') || coalesce(array_to_string(parts, '-'), '') $$;
CREATE AGGREGATE glue(VARIADIC text[]) (sfunc = sql_glue, stype = text);
CREATE TYPE low_high AS (low int, high int);
CREATE FUNCTION widen(state low_high, x int) RETURNS low_high LANGUAGE sql AS $$ SELECT ROW(least(state.low, x), greatest(state.high, x))::low_high $$;
CREATE AGGREGATE extent(int) (sfunc = widen, stype = low_high);
CREATE FUNCTION typed(state text, x anyelement) RETURNS anyelement LANGUAGE plpgsql AS $$ BEGIN RETURN state; END $$;
CREATE FUNCTION to_text(state text, x anyelement) RETURNS text LANGUAGE plpgsql AS $$ BEGIN RETURN x::text; END $$;
CREATE AGGREGATE extra(anyelement) (sfunc = to_text, stype = text, finalfunc = typed, finalfunc_extra);

-- 100 rows in two halves, with NULLs here and there
SELECT format('CREATE TABLE all_rows AS SELECT i %% 3 AS k, %s, i FROM generate_series(0::bigint, 99) i',
		string_agg(format('CASE WHEN %s THEN %s END AS %s',
				CASE WHEN type IN ('int4'::regtype, 'numeric', 'float8', 'bool') THEN 'i % 11 <> 0' ELSE 'true' END,
				expr, column_of(type)), ', ' ORDER BY type::text))
	FROM sample \gexec
SELECT format('CREATE FOREIGN TABLE some_rows (%s) SERVER streamx',
		string_agg(format('%I %s', attname, format_type(atttypid, atttypmod)), ', ' ORDER BY attnum))
	FROM pg_attribute WHERE attrelid = 'all_rows'::regclass AND attnum > 0 \gexec

CREATE TABLE calls (id serial, call text, query text);
CREATE TABLE ordinary AS
	SELECT p.oid, p.pronargs,
		format('%s(%s%s)', p.oid::regproc, CASE WHEN p.pronargs = 0 THEN '*' END,
			(SELECT string_agg(column_of(t::regtype), ', ' ORDER BY o) FROM unnest(p.proargtypes) WITH ORDINALITY u(t, o))) AS call
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid
	WHERE a.aggkind = 'n' AND NOT (p.proname ~ '^jsonb?_object_agg' OR p.proname = 'glue')
		AND ('xml'::regtype <> ALL (p.proargtypes::regtype[]) OR server_has_xml())
		AND 'record'::regtype <> ALL (p.proargtypes::regtype[]);	-- no column has that type
INSERT INTO calls (call) SELECT call FROM ordinary ORDER BY oid;
INSERT INTO calls (call) SELECT call || ' FILTER (WHERE c_smallint % 4 > 1)' FROM ordinary ORDER BY oid;
INSERT INTO calls (call) SELECT call || ' FILTER (WHERE false)' FROM ordinary ORDER BY oid;
INSERT INTO calls (call) SELECT replace(call, ')', ' ORDER BY i % 7 DESC, i)') FROM ordinary WHERE pronargs > 0 ORDER BY oid;
INSERT INTO calls (call) SELECT regexp_replace(call, '\(', '(DISTINCT ') FROM ordinary
	WHERE pronargs = 1 AND call !~ 'c_(xml|json)\)$' ORDER BY oid;
INSERT INTO calls (call) SELECT regexp_replace(call, '\((.*)\)', '(DISTINCT \1 ORDER BY \1 DESC)') FROM ordinary
	WHERE pronargs = 1 AND call !~ 'c_(xml|json)\)$' ORDER BY oid;
-- the object aggregates need keys that aren't NULL
INSERT INTO calls (call) SELECT format('%s(c_bigint, %s)', p.oid::regproc, c) FROM pg_proc p, unnest(ARRAY['c_text', 'c_jsonb', 'c_int4range']) c
	WHERE p.prokind = 'a' AND p.proname ~ '^jsonb?_object_agg' ORDER BY p.oid, c;
-- ordered-set and hypothetical-set aggregates, for each type that they take
INSERT INTO calls (call) SELECT format('%s(%s) WITHIN GROUP (ORDER BY %s %s)', p.proname, fraction, column_of(arg), direction)
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid,
		LATERAL (SELECT p.proargtypes[p.pronargs - 1]::regtype) x (arg),
		LATERAL (SELECT CASE WHEN p.proargtypes[0] = 'float8[]'::regtype THEN 'ARRAY[0.1, NULL, 0.75]::float8[]' ELSE '0.5' END) y (fraction),
		(VALUES ('ASC'), ('DESC NULLS LAST')) d (direction)
	WHERE a.aggkind = 'o' AND p.proname ~ '^percentile' ORDER BY p.oid, direction;
INSERT INTO calls (call) SELECT format('mode() WITHIN GROUP (ORDER BY %s)', c) FROM unnest(ARRAY['c_boolean', 'c_bit', 'c_text']) c;
INSERT INTO calls (call) SELECT format('%s(40, ''t5'') WITHIN GROUP (ORDER BY c_integer DESC, c_text)%s', p.proname, filter)
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = a.aggfnoid, (VALUES (''), (' FILTER (WHERE c_boolean)')) f (filter)
	WHERE a.aggkind = 'h' ORDER BY p.oid, filter;
INSERT INTO calls (call) SELECT format('percentile_disc(k / 4.0) WITHIN GROUP (ORDER BY c_numeric)');
-- 18 has min and max of rows
INSERT INTO calls (call) SELECT format('%s(ROW(c_integer, c_text))::text', p.proname) FROM pg_proc p
	WHERE p.prokind = 'a' AND p.proargtypes[0] = 'record'::regtype ORDER BY p.oid;
-- what else an aggregate's argument list can be
INSERT INTO calls (call) VALUES
	('glue(c_text, c_character_varying)'), ('glue(VARIADIC ARRAY[c_text, NULL, c_character_varying])'),
	('glue(DISTINCT c_text, c_character_varying)'), ('count(DISTINCT (c_integer, c_text))'), ('count((c_integer, c_text))'),
	('array_agg(ROW(c_integer, c_text, c_bytea))::text'), ('json_agg(ROW(c_integer, c_text))'), ('array_agg(ARRAY[ROW(c_integer, c_text)])::text'),
	('array_agg(DISTINCT c_boolean ORDER BY c_boolean DESC NULLS LAST)'), ('string_agg(DISTINCT c_text, '','')'),
	('string_agg(c_text, '','' ORDER BY c_text COLLATE "C" DESC)'), ('sum(c_bigint * 90)'), ('avg(c_bigint * 90)'),
	('sum(c_integer + c_smallint) FILTER (WHERE c_text IS NOT NULL AND c_boolean)'), ('min(c_text COLLATE "C")'),
	('appended(c_int4range)'), ('appended(c_text)'), ('any_last(c_jsonb)'), ('any_last(c_text)'), ('extra(c_tid)'),
	('max(ARRAY[c_text])'), ('max(c_numeric) + min(c_numeric) * count(*)');

-- a row of a table holds some fifty results
UPDATE calls SET query = 'aggregates_' || id / 50;
CREATE TABLE queries AS
	SELECT query, string_agg(format('(%s) AS a%s', call, id), ', ' ORDER BY id) AS list FROM calls GROUP BY query;
CREATE TABLE refused (query text, error text);
DO $$
DECLARE q record;
BEGIN
	FOR q IN SELECT * FROM queries ORDER BY query LOOP
		BEGIN
			PERFORM create_query(q.query, format('SELECT k, %s FROM some_rows GROUP BY k', q.list), sink => q.query, output_mode => 'update');
		EXCEPTION WHEN OTHERS THEN
			INSERT INTO refused VALUES (q.query, SQLERRM);
		END;
	END LOOP;
END $$;
SELECT is_empty('SELECT * FROM refused', 'no aggregate is refused');
SELECT ok(count(*) > 700, 'there are hundreds of calls') FROM calls;

INSERT INTO some_rows SELECT * FROM all_rows WHERE i < 50 ORDER BY i;
SELECT start_query(query) FROM queries ORDER BY query \g /dev/null
SELECT process_all_available(query) FROM queries ORDER BY query \g /dev/null
SELECT stop_query(query) FROM queries ORDER BY query \g /dev/null
INSERT INTO some_rows SELECT * FROM all_rows WHERE i >= 50 ORDER BY i;
SELECT start_query(query) FROM queries ORDER BY query \g /dev/null
SELECT process_all_available(query) FROM queries ORDER BY query \g /dev/null

-- 16 and newer would give sorted rows to an aggregate that asks for no order, beside one that does
SELECT set_config(name, 'off', false) FROM pg_settings WHERE name = 'enable_presorted_aggregate' \g /dev/null
CREATE TABLE got (k bigint, column_name text, value text);
CREATE TABLE wanted (LIKE got);
DO $$
DECLARE q record;
BEGIN
	FOR q IN SELECT * FROM queries LOOP
		EXECUTE format('INSERT INTO got SELECT k, key, value FROM %I t, jsonb_each_text(to_jsonb(t) - ''k'')', q.query);
		EXECUTE format('INSERT INTO wanted SELECT k, key, value FROM (SELECT k, %s FROM (SELECT * FROM all_rows ORDER BY k, i) r GROUP BY k) t, jsonb_each_text(to_jsonb(t) - ''k'')', q.list);
	END LOOP;
END $$;
SELECT is((SELECT count(*) FROM got), (SELECT count(*) * 3 FROM calls), 'each call has a result in each group');
SELECT is_empty($$
	SELECT call, k, left(g.value, 60) AS got, left(w.value, 60) AS wanted
	FROM got g FULL JOIN wanted w USING (k, column_name) LEFT JOIN calls c ON column_name = 'a' || c.id
	WHERE g.value IS DISTINCT FROM w.value $$,
	'two batches with a restart between them give what one SELECT gives');

SELECT stop_query(query), drop_query(query) FROM queries ORDER BY query \g /dev/null
DROP FOREIGN TABLE some_rows CASCADE;
SELECT format('DROP TABLE %I', query) FROM queries \gexec
DROP TABLE sample, stands_for, calls, queries, ordinary, refused, got, wanted, all_rows CASCADE;
DROP AGGREGATE pl_sum(numeric), any_last(anyelement), dies(int), lives(int), appended(anycompatible), glue(VARIADIC text[]), extent(int), extra(anyelement);
DROP FUNCTION server_has_xml, column_of, pl_add, pl_show, pl_last, pl_dies, sql_glue, widen, typed, to_text;
DROP TYPE low_high, mood;
SELECT * FROM finish();
