-- Texts and positions of errors in CREATE, ALTER and DROP STREAM.
LOAD 'streamx_syntax';
SET client_min_messages = warning;
CREATE FOREIGN DATA WRAPPER sx_any;
CREATE SERVER sx_any FOREIGN DATA WRAPPER sx_any;
CREATE TABLE sx_table (a int);
CREATE STREAM ok (ts timestamptz, plain timestamp, WATERMARK FOR ts AS ts) SERVER sx_any;

-- the watermark
CREATE STREAM x (a int, WATERMARK FOR b AS b);
CREATE STREAM x (a int, WATERMARK FOR a AS a - INTERVAL '5 s');
CREATE STREAM x (a timestamp, WATERMARK FOR a AS a);
CREATE STREAM x (a timestamptz, b int, WATERMARK FOR a AS b);
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a + INTERVAL '1 s');
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a - INTERVAL '1 s' * 2);
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS now());
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a - '1 s');
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a - $1);
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a - INTERVAL '-5 seconds');
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a - INTERVAL 'soon');
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a - INTERVAL);
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a -);
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS);
CREATE STREAM x (a timestamptz, WATERMARK FOR a);
CREATE STREAM x (a timestamptz, WATERMARK FOR AS a);
CREATE STREAM x (a timestamptz, WATERMARK FOR select AS a);
CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a, WATERMARK FOR a AS a);
CREATE STREAM x (a timestamptz OPTIONS (watermark '1 s'), WATERMARK FOR a AS a) SERVER sx_any;
CREATE STREAM x (a timestamptz WATERMARK FOR a AS a);
CREATE STREAM x (WATERMARK FOR a AS a, );
CREATE STREAM x (a timestamptz, , WATERMARK FOR a AS a);
CREATE STREAM x (a nonsense, WATERMARK FOR a AS a);

-- the rest of CREATE
CREATE STREAM;
CREATE STREAM x;
SELECT 'CREATE STREAM x (a int' \gexec
SELECT 'CREATE STREAM x (a int; CREATE STREAM y (b int)' \gexec
SELECT 'CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a' \gexec
SELECT 'CREATE STREAM x (a timestamptz, WATERMARK FOR ' \gexec
SELECT 'CREATE STREAM x (a text DEFAULT ''open' \gexec
CREATE STREAM IF EXISTS x (a int);
CREATE STREAM x AS SELECT 1;
CREATE STREAM x (a) AS SELECT 1;
CREATE STREAM x OF sx_table;
CREATE STREAM x (a int) INHERITS (sx_table);
CREATE STREAM x (a int) PARTITION BY LIST (a);
CREATE STREAM x (a int) SERVER;
CREATE STREAM x (a int) SERVER nobody;
CREATE STREAM x (a int) OPTIONS (a 'b') SERVER sx_any;
CREATE STREAM x (a int) SERVER sx_any OPTIONS (a);
CREATE STREAM x (a int) SERVER sx_any OPTIONS (ADD a 'b');
CREATE STREAM x (a int) SERVER sx_any OPTIONS (a 'b') TABLESPACE t;
CREATE STREAM x (a int) SERVER sx_any OPTIONS (a 'b', a 'c');
CREATE STREAM x (a int PRIMARY KEY);
CREATE STREAM x (a int, a int);
CREATE STREAM x (LIKE nobody);
CREATE STREAM x (LIKE pg_class_oid_index);
CREATE STREAM no_schema.x (a int);
CREATE STREAM ok (a int);
CREATE TEMP STREAM x (a int);
CREATE OR REPLACE STREAM x (a int);
CREATE "stream" x (a int);

-- positions count characters, behind other statements and many lines too
CREATE STREAM x ("Größe" int, "Zeit für" timestamptz, WATERMARK FOR "Zeit für" AS "Zeit für" - INTERVAL '1 s', b bogus);
CREATE STREAM x ("Größe" timestamptz, WATERMARK FOR "Größe" AS "Größe" - INTERVAL '1 s', b int) SERVER sx_any OPTIONS (ä 'ö' ü);
CREATE STREAM x ("Größe" timestamptz, WATERMARK FOR "Größe" AS "Größe" - INTERVAL '1 s', b int,);
SELECT 'ä' WHERE false\; CREATE STREAM x (a timestamptz, WATERMARK FOR "ö" AS "ö")\; SELECT 1;
SELECT 'ä' WHERE false\; CREATE STREAM x (a timestamptz, WATERMARK FOR a AS a) SERVER sx_any\; SELECT nobody;
CREATE STREAM x (
	a timestamptz,
	WATERMARK FOR a
		AS a - INTERVAL '1 s' DAY DAY
) SERVER sx_any;

-- ALTER and DROP
ALTER STREAM ok SET WATERMARK FOR nobody AS nobody;
ALTER STREAM ok ADD COLUMN b int, SET WATERMARK FOR plain AS plain;
ALTER STREAM ok SET WATERMARK FOR ts AS ts - INTERVAL '-1 s';
ALTER STREAM ok SET WATERMARK FOR ts AS ts, DROP WATERMARK;
ALTER STREAM ok SET WATERMARK ts AS ts;
ALTER STREAM ok SET WATERMARK FOR ts AS ts -, ADD COLUMN c int;
ALTER STREAM ok SET WATERMARK FOR ts AS;
ALTER STREAM ok DROP WATERMARK, ADD COLUMN c bogus;
ALTER STREAM ok DROP WATERMARK;
ALTER STREAM ok DROP WATERMARK;
ALTER STREAM ok ADD PRIMARY KEY (ts);
ALTER STREAM nobody SET WATERMARK FOR ts AS ts;
ALTER STREAM sx_table SET WATERMARK FOR a AS a;
ALTER STREAM sx_table ADD COLUMN b int;
ALTER STREAM sx_table RENAME TO y;
ALTER STREAM ok;
ALTER STREAM ALL IN TABLESPACE a SET TABLESPACE b;
DROP STREAM sx_table;
DROP STREAM nobody;
DROP STREAM;
DROP STREAM ok nobody;

-- in a transaction that has failed
BEGIN;
SELECT 1/0;
CREATE STREAM x (ts timestamptz, WATERMARK FOR ts AS ts);
ROLLBACK;

-- a notice of the lexer comes once
SET client_min_messages = notice;
CREATE STREAM a_name_that_is_longer_than_the_sixty_three_bytes_a_name_may_have_in_postgres (a int) SERVER sx_any;
DROP STREAM a_name_that_is_longer_than_the_sixty_three_bytes_a_name_may_hav;

-- create_stream() shows its definition
SELECT create_stream('x', '("Größe" int, b bogus)');
SELECT create_stream('x', 'a int, b');
SELECT create_stream('x', '(a timestamptz, WATERMARK FOR b AS b)');
SELECT create_stream('x', '(a int) SERVER sx_any OPTIONS (a');

DROP STREAM ok;
DROP TABLE sx_table;
DROP FOREIGN DATA WRAPPER sx_any CASCADE;
