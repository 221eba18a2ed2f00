-- What only looks like CREATE STREAM reaches the server as it is.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
LOAD 'streamx_syntax';
BEGIN;
SELECT no_plan();

SELECT is('CREATE STREAM a (b int); DROP STREAM c', 'CREATE ' || 'STREAM a (b int); DROP ' || 'STREAM c', 'string literals');
SELECT is($x$; create stream s (a int, watermark for a as a)$x$, '; create ' || 'stream s (a int, watermark for a as a)', 'dollar quotes');
SELECT is(E'\'; drop stream x', concat('''', '; drop ', 'stream x'), 'escape strings');
SELECT 1 AS "create stream x" WHERE false; -- ; create stream y (a int)
SELECT 1 /* ; create stream y (a int); /* drop stream y */ */ WHERE false;
SELECT is((SELECT 'drop stream' FROM (SELECT 1) AS "; create stream"), concat('drop', ' stream'), 'quoted names');
SELECT 1 WHERE false; SELECT is(U&'create \0073tream', concat('create', ' stream'), 'Unicode strings');

CREATE TABLE stream (stream int, watermark int, server text, options text);
INSERT INTO stream VALUES (1, 2, 'a', 'b');
ALTER TABLE stream ADD COLUMN "create stream" int;
UPDATE stream SET watermark = 3, "create stream" = stream;
SELECT is((SELECT watermark FROM stream stream WHERE stream.stream = 1), 3, 'a table and columns named stream');
CREATE VIEW create_stream AS SELECT watermark FROM stream;
DROP VIEW create_stream;
CREATE INDEX stream_watermark ON stream (watermark);
COMMENT ON TABLE stream IS 'create stream';
ALTER TABLE stream RENAME COLUMN watermark TO w;
ALTER TABLE stream ADD COLUMN watermark timestamptz;
ALTER TABLE stream DROP watermark, DROP w;
SELECT hasnt_column('stream', 'watermark', 'ALTER TABLE DROP watermark means the column');
CREATE TYPE pg_temp.watermark AS ENUM ('a');
CREATE TABLE t (a pg_temp.watermark, watermark pg_temp.watermark, CHECK (watermark > 'a'));
SELECT has_column('t', 'watermark', 'a type and a column named watermark');
DROP TABLE stream;

CREATE FUNCTION f() RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	-- create stream x (a int);
	RETURN 'create stream x (a int)';
END $$;
SELECT is(f(), concat('create', ' stream x (a int)'), 'bodies of functions');

PREPARE p (int) AS SELECT $1 AS stream;
SELECT is((SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'PREPARE p (int) AS SELECT $1 AS stream%'), 1::bigint,
	'the text of a prepared statement');

-- neighbours of a statement of ours
CREATE TABLE "STREAM" (a text)\; CREATE STREAM s (a int)\; INSERT INTO "STREAM" VALUES ('create stream z (q int)')\; DROP STREAM s;
SELECT is((SELECT a FROM "STREAM"), concat('create', ' stream z (q int)'), 'literals beside a statement of ours');

SELECT * FROM finish();
ROLLBACK;
