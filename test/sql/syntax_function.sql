-- create_stream(): CREATE STREAM in PL/pgSQL, DO and SPI, with the caller's rights.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
BEGIN;
SELECT no_plan();

CREATE FUNCTION watermark_of(stream regclass) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(attname || ' ' || attfdwoptions[1], ', ') FROM pg_attribute
	WHERE attrelid = stream AND attfdwoptions IS NOT NULL $$;
CREATE FOREIGN DATA WRAPPER sx_any;
CREATE SERVER sx_any FOREIGN DATA WRAPPER sx_any;

SELECT create_stream('f1', '(a int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''10 seconds'')');
SELECT is(watermark_of('f1'), 'ts watermark=10 seconds', 'a definition in parentheses');
SELECT create_stream('f2', 'ts timestamptz, WATERMARK FOR ts AS ts -- no delay');
SELECT is(watermark_of('f2'), 'ts watermark=0 seconds', 'a definition without parentheses');
SELECT create_stream('f3', $$
	-- what is in it
	/* and more */ (a int NOT NULL CHECK (a > 0)) SERVER sx_any OPTIONS (topic 'x') $$);
SELECT is(ftoptions, ARRAY['topic=x'], 'SERVER and OPTIONS, after a comment')
	FROM pg_foreign_table WHERE ftrelid = 'f3'::regclass;
SELECT col_not_null('f3', 'a', 'with constraints');
CREATE SCHEMA "Some where";
SELECT create_stream('"Some where"."F ""4"""', 'a int');
SELECT has_foreign_table('Some where', 'F "4"', 'the name may be qualified and quoted');
CREATE TABLE model (id int DEFAULT 5, ts timestamptz);
SELECT create_stream('f5', '(LIKE model INCLUDING DEFAULTS, WATERMARK FOR ts AS ts)');
SELECT is(watermark_of('f5'), 'ts watermark=0 seconds', 'LIKE and a watermark');
SELECT col_default_is('f5', 'id', '5', 'and what LIKE includes');
SELECT create_stream('f5', 'a int', if_not_exists => true);
SELECT has_column('f5', 'ts', 'if_not_exists leaves a stream that is there');
SELECT throws_ok($$ SELECT create_stream('f5', 'a int') $$, '42P07', 'relation "f5" already exists',
	'without it that is an error');

DO $do$
BEGIN
	FOR i IN 1..3 LOOP
		PERFORM create_stream('loop' || i, format('(ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL %L)', i || ' s'));
	END LOOP;
END $do$;
SELECT is(watermark_of('loop3'), 'ts watermark=3 s', 'in a DO block');
SELECT throws_ok($$ DO 'BEGIN CREATE STREAM d (a int); END' $$, '42601', NULL,
	'where the statement does not exist, even with the library');
SELECT has_foreign_table('loop1', 'in a loop');

-- what cannot be right
SELECT throws_ok($$ SELECT create_stream('x', '(a int); DROP TABLE model') $$, '42601',
	'definition of a stream must not hold another statement', 'no second statement');
SELECT throws_ok($$ SELECT create_stream('x', '(a int) AS SELECT 1') $$, '42601',
	'syntax error at or near "AS"', 'no query');
SELECT throws_ok($$ SELECT create_stream('x', '(a int) WITH (b = 1)') $$, '42601',
	'syntax error at or near "WITH"', 'no storage parameters');
SELECT throws_ok($$ SELECT create_stream('x', 'a int PRIMARY KEY') $$, '0A000', NULL, 'no primary key');
SELECT throws_ok($$ SELECT create_stream('x', 'a int, WATERMARK FOR a AS a') $$, '42804', NULL, 'no watermark on an integer');
SELECT throws_ok($$ SELECT create_stream('x', 'a timestamp, WATERMARK FOR a AS a') $$, '42804', NULL,
	'no watermark on a timestamp without time zone');
SELECT throws_ok($$ SELECT create_stream('x', 'a int, WATERMARK FOR b AS b') $$, '42703', NULL, 'no watermark on nothing');
SELECT throws_ok($$ SELECT create_stream('x', 't timestamptz, WATERMARK FOR t AS t - INTERVAL ''-1 s''') $$,
	'22023', NULL, 'no negative delay');
SELECT throws_ok($$ SELECT create_stream('x', 't timestamptz, WATERMARK FOR t AS t - INTERVAL ''soon''') $$,
	'22007', NULL, 'no delay that is no interval');
SELECT throws_ok($$ SELECT create_stream(NULL, 'a int') $$, '22004', NULL, 'no null name');
SELECT throws_ok($$ SELECT create_stream('x', NULL) $$, '22004', NULL, 'no null definition');
SELECT throws_ok($$ SELECT create_stream('a b', 'a int') $$, '42602', NULL, 'no broken name');
SELECT throws_ok($$ SELECT create_stream('no_such_schema.x', 'a int') $$, '3F000', NULL, 'no unknown schema');

-- rights: those of CREATE FOREIGN TABLE
CREATE ROLE sx_syntax_role;
GRANT CREATE ON SCHEMA public TO sx_syntax_role;
SET LOCAL ROLE sx_syntax_role;
SELECT throws_ok($$ SELECT create_stream('r1', '(a int) SERVER sx_any') $$, '42501',
	'permission denied for foreign server sx_any', 'USAGE on the server is needed');
SELECT throws_ok($$ SELECT create_stream('"Some where".r1', '(a int)') $$, '42501', NULL, 'CREATE on the schema is needed');
SELECT throws_ok($$ SELECT create_stream('r1', '(LIKE model)') $$, '42501',
	'permission denied for table model', 'SELECT on the table of LIKE is needed');
RESET ROLE;
GRANT USAGE ON FOREIGN SERVER sx_any TO sx_syntax_role;
SET LOCAL ROLE sx_syntax_role;
SELECT lives_ok($$ SELECT create_stream('r1', '(a int) SERVER sx_any') $$, 'and is enough');
RESET ROLE;
SELECT is((SELECT relowner::regrole::text FROM pg_class WHERE relname = 'r1'), 'sx_syntax_role', 'the stream is the caller''s');

SET LOCAL transaction_read_only = on;
SELECT throws_ok($$ SELECT create_stream('x', 'a int') $$, '25006', NULL, 'not in a read-only transaction');
SELECT * FROM finish();
ROLLBACK;
