-- CREATE, ALTER and DROP STREAM as statements.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
LOAD 'streamx_syntax';
BEGIN;
SELECT no_plan();

-- a wrapper that takes any option
CREATE FOREIGN DATA WRAPPER sx_any;
CREATE SERVER sx_any FOREIGN DATA WRAPPER sx_any;

CREATE VIEW stream_columns AS
	SELECT attrelid::regclass::text AS stream, attname, format_type(atttypid, atttypmod) AS type,
		attnotnull, attfdwoptions[1] AS option
	FROM pg_attribute JOIN pg_foreign_table ON ftrelid = attrelid
	WHERE attnum > 0 AND NOT attisdropped;
CREATE FUNCTION watermarks(stream text) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(attname || ' ' || coalesce(option, '-'), ', ' ORDER BY attname)
	FROM stream_columns WHERE stream = $1 $$;

-- CREATE
CREATE STREAM s1 (id bigint, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '10 seconds');
SELECT is(watermarks('s1'), 'id -, ts watermark=10 seconds', 'WATERMARK FOR becomes an option of its column');
SELECT is(srvname, 'streamx', 'a stream without SERVER is on server streamx')
	FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = 's1'::regclass;

create stream s2 (watermark for ts as ts, id bigint, ts timestamp with time zone);
SELECT is(watermarks('s2'), 'id -, ts watermark=0 seconds', 'a watermark may come first, and without a delay');
CREATE STREAM s3 (ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE, id int);
SELECT is(watermarks('s3'), 'id -, ts watermark=00:01:00', 'INTERVAL with a field keeps its meaning');
CREATE STREAM s4 (ts timestamptz, WATERMARK FOR ts AS (ts - '5 s'::interval));
SELECT is(watermarks('s4'), 'ts watermark=5 s', 'the interval may be a cast');
CREATE STREAM s5 (ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '1 month');
SELECT is(watermarks('s5'), 'ts watermark=1 month', 'the interval may have months');

CREATE STREAM s6 (a int, b text OPTIONS (path '$.b'), ts timestamptz, WATERMARK FOR ts AS ts)
	SERVER sx_any OPTIONS (topic 'x', "Quoted ü" 'it''s', e E'\t');
SELECT is(ftoptions, ARRAY['topic=x', 'Quoted ü=it''s', E'e=\t'], 'OPTIONS go to the foreign table')
	FROM pg_foreign_table WHERE ftrelid = 's6'::regclass;
SELECT is(watermarks('s6'), 'a -, b path=$.b, ts watermark=0 seconds', 'columns keep their own options');
SELECT is(srvname, 'sx_any', 'SERVER says where')
	FROM pg_foreign_table JOIN pg_foreign_server s ON s.oid = ftserver WHERE ftrelid = 's6'::regclass;
CREATE STREAM s7 () SERVER "sx_any";
SELECT has_foreign_table('s7', 'a stream may have no columns');

CREATE STREAM IF NOT EXISTS s1 (other int);
SELECT is(watermarks('s1'), 'id -, ts watermark=10 seconds', 'IF NOT EXISTS leaves a stream that is there');
CREATE STREAM IF NOT EXISTS s8 (id int);
SELECT has_foreign_table('s8', 'IF NOT EXISTS makes one that is not');

CREATE SCHEMA "Öd";
CREATE STREAM "Öd"."The ""Stream""" ("Zeit für" timestamptz, ü int,
	WATERMARK FOR "Zeit für" AS "Zeit für" - INTERVAL '3 s');
SELECT is(watermarks('"Öd"."The ""Stream"""'), 'Zeit für watermark=3 s, ü -', 'quoted names work');
CREATE STREAM U&"d\0061t" (a int);
SELECT has_foreign_table('dat', 'names with Unicode escapes work');
CREATE STREAM "Öd".u (a int);
SELECT has_foreign_table('Öd', 'u', 'qualified names work');

CREATE /* a /* nested */ comment; DROP STREAM s1 */ STREAM -- and; more
	c1 (a int, -- WATERMARK FOR a AS a
		ts timestamptz /* , */, WATERMARK /**/ FOR ts -- x
		AS ts - INTERVAL '1 '
			's' -- y
	) /* tail */ SERVER /**/ sx_any -- end
	OPTIONS (a 'b;c') -- done
;
SELECT is(watermarks('c1'), 'a -, ts watermark=1 s', 'comments may stand anywhere');

CREATE/**/STREAM c2 (a int);
SELECT has_foreign_table('c2', 'a comment between the two words');
CREATE -- one
	STREAM c3 (a int);
SELECT has_foreign_table('c3', 'a comment to the end of the line between the two words');
DROP
	STREAM c2, c3;
SELECT hasnt_foreign_table('c3', 'a new line between the two words');

CREATE STREAM con (a int NOT NULL CHECK (a > 0), b int DEFAULT 7, c int GENERATED ALWAYS AS (a * 2) STORED,
	ts timestamptz DEFAULT '2020-01-01 00:00+00', CONSTRAINT ordered CHECK (b > a), WATERMARK FOR ts AS ts);
SELECT is((SELECT string_agg(conname, ',' ORDER BY conname) FROM pg_constraint
		WHERE conrelid = 'con'::regclass AND contype = 'c'),
	'con_a_check,ordered', 'constraints are kept');
SELECT col_not_null('con', 'a', 'NOT NULL is kept');
SELECT col_default_is('con', 'b', '7', 'DEFAULT is kept');
SELECT is(watermarks('con'), 'a -, b -, c -, ts watermark=0 seconds', 'with a watermark beside them');

-- LIKE
CREATE TABLE model (id int NOT NULL, name text COLLATE "C" DEFAULT 'x' CHECK (name <> ''),
	up text GENERATED ALWAYS AS (upper(name)) STORED, gone int, ts timestamptz, PRIMARY KEY (id));
ALTER TABLE model DROP COLUMN gone;
ALTER TABLE model ADD CONSTRAINT after CHECK (ts > '2000-01-01' OR id > 0);
COMMENT ON COLUMN model.name IS 'a comment';
COMMENT ON CONSTRAINT after ON model IS 'another comment';
CREATE STREAM like1 (LIKE model, WATERMARK FOR ts AS ts - INTERVAL '2 s');
SELECT is(watermarks('like1'), 'id -, name -, ts watermark=2 s, up -', 'WATERMARK FOR finds a column of LIKE');
SELECT is((SELECT string_agg(attname || ' ' || type, ', ' ORDER BY attname) FROM stream_columns
		WHERE stream = 'like1' AND attnotnull), 'id integer', 'LIKE copies NOT NULL');
SELECT col_hasnt_default('like1', 'name', 'LIKE alone copies no default');
CREATE STREAM like2 (extra int, LIKE model INCLUDING ALL, WATERMARK FOR ts AS ts);
SELECT is((SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum)
		FROM pg_attribute WHERE attrelid = 'like2'::regclass AND attnum > 0),
	'extra integer, id integer, name text, up text, ts timestamp with time zone',
	'LIKE and other columns come in their order');
SELECT col_default_is('like2', 'name', 'x', 'INCLUDING DEFAULTS copies defaults');
SELECT is((SELECT attgenerated FROM pg_attribute WHERE attrelid = 'like2'::regclass AND attname = 'up'), 's',
	'INCLUDING GENERATED copies generated columns');
SELECT is((SELECT pg_get_expr(adbin, adrelid) FROM pg_attrdef WHERE adrelid = 'like2'::regclass AND adnum = 4),
	'upper(name)', 'over the columns of the stream');
SELECT is((SELECT string_agg(conname || ' ' || conkey::text, ' ' ORDER BY conname) FROM pg_constraint
		WHERE conrelid = 'like2'::regclass AND contype = 'c'),
	'after {5,2} model_name_check {3}', 'INCLUDING CONSTRAINTS copies checks');
SELECT is(col_description('like2'::regclass, 3), 'a comment', 'INCLUDING COMMENTS copies comments of columns');
SELECT is(obj_description(oid, 'pg_constraint'), 'another comment', 'and of constraints') FROM pg_constraint
	WHERE conrelid = 'like2'::regclass AND conname = 'after';
INSERT INTO like2 (extra, id, ts) VALUES (1, 2, '2020-01-01 00:00+00');
SELECT is((SELECT (extra, id, name, up)::text FROM like2), '(1,2,x,X)', 'and all of it works');
SELECT throws_ok($$ INSERT INTO like2 (extra, id, name) VALUES (1, 2, '') $$, '23514', NULL, 'the checks, too');
CREATE TABLE whole (a int, CHECK (whole IS NOT NULL));
SELECT throws_ok($$ SELECT create_stream('like3', '(LIKE whole INCLUDING ALL)') $$, '0A000',
	'constraint "whole_check" cannot be copied to a stream', 'a check of the whole row cannot be copied');
CREATE STREAM like4 (LIKE model, LIKE whole);
SELECT is((SELECT count(*) FROM pg_attribute WHERE attrelid = 'like4'::regclass AND attnum > 0), 5::bigint, 'LIKE two tables');
CREATE STREAM IF NOT EXISTS like2 (LIKE model INCLUDING ALL);
SELECT is((SELECT count(*) FROM pg_constraint WHERE conrelid = 'like2'::regclass AND contype = 'c'), 2::bigint,
	'IF NOT EXISTS with LIKE adds nothing to a stream that is there');

-- ALTER
ALTER STREAM s1 ADD COLUMN extra int, ALTER COLUMN id SET NOT NULL;
SELECT col_not_null('s1', 'id', 'ALTER STREAM is ALTER FOREIGN TABLE');
ALTER STREAM s1 RENAME COLUMN extra TO more;
SELECT is(watermarks('s1'), 'id -, more -, ts watermark=10 seconds', 'columns can be renamed');
ALTER STREAM s1 SET WATERMARK FOR ts AS ts - INTERVAL '1 h', DROP COLUMN more;
SELECT is(watermarks('s1'), 'id -, ts watermark=1 h', 'SET WATERMARK changes the delay, among other commands');
ALTER STREAM s1 ADD COLUMN ts2 timestamptz;
ALTER STREAM s1 ALTER COLUMN id DROP NOT NULL, SET WATERMARK FOR ts2 AS ts2;
SELECT is(watermarks('s1'), 'id -, ts -, ts2 watermark=0 seconds', 'SET WATERMARK moves it to another column');
ALTER STREAM IF EXISTS ONLY public.s1 DROP WATERMARK;
SELECT is(watermarks('s1'), 'id -, ts -, ts2 -', 'DROP WATERMARK takes it away');
ALTER STREAM s1 SET WATERMARK FOR ts AS ts;
SELECT is(watermarks('s1'), 'id -, ts watermark=0 seconds, ts2 -', 'SET WATERMARK adds one');
ALTER STREAM IF EXISTS nobody SET WATERMARK FOR ts AS ts;
ALTER STREAM s1 RENAME TO s1b;
ALTER STREAM s1b SET SCHEMA "Öd";
SELECT has_foreign_table('Öd', 's1b', 'streams can be renamed and moved');
ALTER STREAM s6 OPTIONS (SET topic 'y', ADD z 'z');
SELECT is(ftoptions[1], 'topic=y', 'options can be changed') FROM pg_foreign_table WHERE ftrelid = 's6'::regclass;

-- a column of that name
CREATE STREAM w (watermark timestamptz, WATERMARK FOR watermark AS watermark - INTERVAL '1 s');
SELECT is(watermarks('w'), 'watermark watermark=1 s', 'a column may be named watermark');
ALTER STREAM w DROP WATERMARK;
SELECT is(watermarks('w'), 'watermark -', 'DROP WATERMARK leaves the column');
ALTER STREAM w ADD COLUMN a int, DROP COLUMN watermark;
SELECT is(watermarks('w'), 'a -', 'DROP COLUMN watermark drops it');
ALTER STREAM w ADD COLUMN watermark int;
ALTER STREAM w DROP "watermark";
SELECT is(watermarks('w'), 'a -', 'and so does DROP with the name quoted');

-- DROP
CREATE VIEW on_s2 AS SELECT * FROM s2;
SELECT throws_ok('DROP FOREIGN TABLE s2', '2BP01', NULL, 'the view depends on the stream');
DROP STREAM s2, s3 CASCADE;
SELECT hasnt_view('on_s2', 'DROP STREAM CASCADE drops what depends on it');
DROP STREAM IF EXISTS nobody, s4 RESTRICT;
SELECT hasnt_foreign_table('s4', 'DROP STREAM drops a list');

-- several statements in one string
CREATE STREAM m1 (a int)\; CREATE TABLE m2 (b int)\; SELECT 1 WHERE false\;
	CREATE STREAM m3 (ts timestamptz, WATERMARK FOR ts AS ts) SERVER sx_any OPTIONS (a ';')\; DROP STREAM m1;
SELECT is(watermarks('m3'), 'ts watermark=0 seconds', 'several statements in one string');
SELECT hasnt_foreign_table('m1', 'each of them is run');
SELECT has_table('m2', 'and the others stay what they are');

-- SQL functions are parsed the same way
CREATE FUNCTION make_stream() RETURNS void LANGUAGE sql AS
	'CREATE STREAM in_function (ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''4 s'')';
SELECT make_stream();
SELECT is(watermarks('in_function'), 'ts watermark=4 s', 'CREATE STREAM in a function in SQL');

SELECT * FROM finish();
ROLLBACK;
