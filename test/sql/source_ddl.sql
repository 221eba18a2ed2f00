-- Storage follows the stream: CREATE, ALTER, DROP.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

-- heaps of a stream as "name type" per slot, and how many hidden tables there are
CREATE FUNCTION sd_columns(stream regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT string_agg(a.attname || ' ' || CASE WHEN a.attisdropped THEN '-' ELSE format_type(a.atttypid, a.atttypmod) END, ', ' ORDER BY a.attnum)
	FROM streamx.stream s JOIN pg_attribute a ON a.attrelid = s.heap AND a.attnum > 0
	WHERE s.stream = $1 AND NOT a.attisdropped GROUP BY s.slot ORDER BY s.slot $$;
CREATE FUNCTION sd_hidden() RETURNS bigint LANGUAGE sql AS $$
	SELECT count(*) FROM pg_class WHERE relnamespace = 'streamx_data'::regnamespace AND relkind = 'r' $$;
CREATE TABLE sd_before AS SELECT sd_hidden() AS n;

CREATE FOREIGN TABLE sd_s (a int, b varchar(5), ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
SELECT results_eq($$SELECT sd_columns('sd_s')$$, $$SELECT 'sx_xid xid8, c1 integer, c2 character varying(5), c3 timestamp with time zone'::text FROM generate_series(1, 3)$$, 'three heaps with the stream''s columns');
SELECT results_eq($$SELECT DISTINCT deptype::text FROM pg_depend d JOIN streamx.stream s ON d.objid = s.heap AND d.classid = 'pg_class'::regclass WHERE s.stream = 'sd_s'::regclass AND d.refclassid = 'pg_extension'::regclass$$, $$VALUES ('e')$$, 'they are members of the extension');
SELECT results_eq($$SELECT DISTINCT c.relowner = e.extowner, c.relacl IS NULL FROM pg_class c, pg_extension e WHERE e.extname = 'streamx' AND c.relnamespace = 'streamx_data'::regnamespace$$, 'VALUES (true, true)', 'of its owner, without grants');

INSERT INTO sd_s VALUES (1, 'one', '2026-01-01Z'), (2, 'two', NULL);
ALTER FOREIGN TABLE sd_s ADD COLUMN n numeric(10,2);
INSERT INTO sd_s VALUES (3, 'three', NULL, 3.5);
SELECT results_eq('SELECT a, n FROM sd_s', 'VALUES (1, NULL), (2, NULL), (3, 3.5)', 'ADD COLUMN');
ALTER FOREIGN TABLE sd_s RENAME COLUMN a TO "A b";
ALTER FOREIGN TABLE sd_s RENAME TO "sd S";
SELECT results_eq('SELECT "A b" FROM "sd S"', 'VALUES (1), (2), (3)', 'RENAME of a column and of the stream');
INSERT INTO "sd S" ("A b") VALUES (4);
ALTER FOREIGN TABLE "sd S" RENAME TO sd_s;
ALTER FOREIGN TABLE sd_s RENAME COLUMN "A b" TO a;
ALTER TABLE sd_s DROP COLUMN ts;
INSERT INTO sd_s VALUES (5, 'five', 5);
SELECT results_eq('SELECT * FROM sd_s WHERE a > 3', $$VALUES (4, NULL::varchar, NULL::numeric), (5, 'five', 5.00)$$, 'DROP COLUMN, by ALTER TABLE');
SELECT results_eq($$SELECT sd_columns('sd_s')$$, $$SELECT 'sx_xid xid8, c1 integer, c2 character varying(5), c4 numeric(10,2)'::text FROM generate_series(1, 3)$$, 'is one in the heaps as well');
ALTER FOREIGN TABLE sd_s ALTER COLUMN b TYPE text, ADD COLUMN d text DEFAULT 'dflt', ADD COLUMN g int GENERATED ALWAYS AS (a + 100) STORED;
INSERT INTO sd_s (a, b) VALUES (6, 'longer than five');
SELECT results_eq('SELECT a, b, d, g FROM sd_s WHERE a IN (1, 6)', $$VALUES (1, 'one'::text, 'dflt'::text, 101), (6, 'longer than five', 'dflt', 106)$$, 'several at once, stored rows get default and generated values');
ALTER FOREIGN TABLE sd_s ALTER COLUMN n TYPE int;
SELECT results_eq('SELECT a, n FROM sd_s WHERE n IS NOT NULL', 'VALUES (3, 4), (5, 5)', 'a type that needs a cast');
SELECT throws_ok('ALTER FOREIGN TABLE sd_s ALTER COLUMN d TYPE int', '42804', NULL, 'a type without assignment cast is refused');
SELECT throws_ok('ALTER FOREIGN TABLE sd_s ALTER COLUMN b TYPE varchar(3)', '22001', NULL, 'and one that a stored value does not fit');
SELECT throws_ok('ALTER FOREIGN TABLE sd_s ADD COLUMN z int NOT NULL', '23502', NULL, 'a NOT NULL column needs a default for stored rows');
SELECT is((SELECT g FROM sd_s WHERE a = 6), 106, 'nothing of that has happened');
BEGIN;
ALTER FOREIGN TABLE sd_s ADD COLUMN r int DEFAULT 1;
INSERT INTO sd_s (a, r) VALUES (7, 7);
ROLLBACK;
INSERT INTO sd_s (a) VALUES (8);
SELECT results_eq('SELECT a FROM sd_s WHERE a > 6', 'VALUES (8)', 'ALTER can be rolled back');
BEGIN;
INSERT INTO sd_s (a) VALUES (9);
ALTER FOREIGN TABLE sd_s ADD COLUMN v int DEFAULT 9;
INSERT INTO sd_s (a) VALUES (10);
COMMIT;
SELECT results_eq('SELECT a, v FROM sd_s WHERE a > 6', 'VALUES (8, 9), (9, 9), (10, 9)', 'ALTER behind rows of its own transaction');

-- code of users runs with the rights of the stream's owner
CREATE ROLE sd_user;
GRANT CREATE ON SCHEMA public TO sd_user;
SET ROLE sd_user;
CREATE FOREIGN TABLE sd_u (a int) SERVER streamx;
INSERT INTO sd_u VALUES (1);
CREATE FUNCTION sd_who() RETURNS text LANGUAGE sql VOLATILE AS 'SELECT current_user::text';
CREATE FUNCTION sd_yes(t text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN IF current_user <> 'sd_user' THEN RAISE 'evaluated by %', current_user; END IF; RETURN true; END $$;
CREATE DOMAIN sd_dom AS text CHECK (sd_yes(value));
ALTER FOREIGN TABLE sd_u ADD COLUMN w text DEFAULT sd_who(), ADD COLUMN d sd_dom, ADD COLUMN e sd_dom DEFAULT 'e';
RESET ROLE;
SELECT results_eq('SELECT a, w, e::text FROM sd_u', $$VALUES (1, 'sd_user', 'e')$$, 'a default is computed as the owner');
ALTER FOREIGN TABLE sd_u ADD COLUMN x text DEFAULT sd_who();
SELECT results_eq('SELECT x FROM sd_u', $$VALUES ('sd_user')$$, 'also when a superuser alters the stream');

-- DROP in all its forms
DROP FOREIGN TABLE sd_s;
SELECT is((SELECT count(*) FROM streamx.stream WHERE stream::oid NOT IN (SELECT oid FROM pg_class)), 0::bigint, 'no row is left of a dropped stream');
BEGIN;
DROP FOREIGN TABLE sd_u;
ROLLBACK;
SELECT is((SELECT count(*) FROM sd_u), 1::bigint, 'DROP can be rolled back');
CREATE SCHEMA sd_schema;
CREATE FOREIGN TABLE sd_schema.one (a int) SERVER streamx;
CREATE TYPE sd_schema.mood AS ENUM ('good', 'bad');
CREATE FOREIGN TABLE sd_other (a sd_schema.mood, b int) SERVER streamx;
INSERT INTO sd_other VALUES ('good', 1);
DROP SCHEMA sd_schema CASCADE;
SELECT results_eq('SELECT * FROM sd_other', 'VALUES (1)', 'DROP SCHEMA CASCADE takes a column of a type in it');
INSERT INTO sd_other VALUES (2);
SELECT results_eq('SELECT * FROM sd_other', 'VALUES (1), (2)', 'and the stream goes on');
ALTER FOREIGN TABLE sd_other ADD COLUMN c int;
INSERT INTO sd_other VALUES (3, 3);
SELECT results_eq('SELECT * FROM sd_other', 'VALUES (1, NULL), (2, NULL), (3, 3)', 'also after a further ALTER');
CREATE TABLE sd_parent (a int) ;
CREATE FOREIGN TABLE sd_child (a int) INHERITS (sd_parent) SERVER streamx;
INSERT INTO sd_child VALUES (1);
ALTER TABLE sd_parent ADD COLUMN b int DEFAULT 2;
INSERT INTO sd_child VALUES (3, 4);
SELECT results_eq('SELECT * FROM sd_parent', 'VALUES (1, 2), (3, 4)', 'ALTER of a parent');
DROP TABLE sd_parent CASCADE;
CREATE SERVER sd_server FOREIGN DATA WRAPPER streamx;
CREATE FOREIGN TABLE sd_on_server (a int) SERVER sd_server;
INSERT INTO sd_on_server VALUES (1);
SELECT is((SELECT count(*) FROM sd_on_server), 1::bigint, 'a server of one''s own');
DROP SERVER sd_server CASCADE;
DROP OWNED BY sd_user;
DROP ROLE sd_user;
DROP FOREIGN TABLE sd_other;
BEGIN;
CREATE FOREIGN TABLE sd_gone (a int) SERVER streamx;
INSERT INTO sd_gone VALUES (1);
ROLLBACK;
SELECT is(sd_hidden(), (SELECT n FROM sd_before), 'every hidden table went with its stream');
SELECT throws_ok('DROP TABLE ' || (SELECT 'streamx.stream'), '2BP01', NULL, 'the catalog cannot be dropped');

-- options
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (a int) SERVER streamx OPTIONS (topic 'x')$$, 'invalid option "topic" of a stream', 'an unknown option');
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (a int OPTIONS (watermrk '1 s')) SERVER streamx$$, 'invalid option "watermrk" of a column of a stream', 'an unknown option of a column');
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (a int) SERVER streamx OPTIONS (connector 'kafka')$$, 'invalid value for option "connector": "kafka"', 'an unknown connector');
SELECT throws_ok($$CREATE FOREIGN TABLE sd_x (a int) SERVER streamx OPTIONS (retention 'soon')$$, '22007', NULL, 'a retention that is no interval');
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (a int) SERVER streamx OPTIONS (retention '-1 day')$$, 'invalid value for option "retention": "-1 day"', 'a negative one');
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (a int) SERVER streamx OPTIONS (rows_per_second '1')$$, 'option "rows_per_second" does not fit connector "table"', 'an option of another connector');
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (t timestamptz, v bigint) SERVER streamx OPTIONS (connector 'rate', rows_per_second '1', "rowsPerSecond" '2')$$, 'option "rows_per_second" is given twice', 'one option in two spellings');
SELECT throws_like($$CREATE SERVER sd_x FOREIGN DATA WRAPPER streamx OPTIONS (a 'b')$$, 'invalid option "a" of a server of streamx', 'an option of a server');
SELECT throws_ok($$CREATE FOREIGN TABLE pg_temp.sd_x (a int) SERVER streamx$$, '0A000', 'stream "sd_x" cannot be temporary', 'temporary streams');

-- watermarks
SELECT throws_like($$CREATE FOREIGN TABLE sd_x (ts timestamptz OPTIONS (watermark '-1 second')) SERVER streamx$$, 'delay of a watermark is negative', 'a negative delay');
SELECT throws_ok($$CREATE FOREIGN TABLE sd_x (ts timestamptz OPTIONS (watermark 'x')) SERVER streamx$$, '22007', NULL, 'a delay that is no interval');
SELECT throws_ok($$CREATE FOREIGN TABLE sd_x (ts timestamp OPTIONS (watermark '1 second')) SERVER streamx$$, '42809', NULL, 'a watermark on a column without time zone');
SELECT throws_ok($$CREATE FOREIGN TABLE sd_x (a timestamptz OPTIONS (watermark '1 s'), b timestamptz OPTIONS (watermark '1 s')) SERVER streamx$$, '42P16', NULL, 'two watermark columns');
CREATE FOREIGN TABLE sd_w (a timestamptz OPTIONS (watermark '1 month'), b timestamptz, c timestamp) SERVER streamx;
SELECT throws_ok($$ALTER FOREIGN TABLE sd_w ALTER COLUMN b OPTIONS (ADD watermark '1 s')$$, '42P16', NULL, 'a second one by ALTER');
SELECT throws_ok($$ALTER FOREIGN TABLE sd_w ALTER COLUMN a TYPE timestamp$$, '42809', NULL, 'or a type that does not carry one');
SELECT throws_ok($$ALTER FOREIGN TABLE sd_w OPTIONS (ADD connector 'rate')$$, '42P16', NULL, 'columns that do not fit another connector');
DROP FOREIGN TABLE sd_w;
CREATE FOREIGN TABLE sd_w (a timestamptz, b bigint) SERVER streamx;
SELECT throws_like($$ALTER FOREIGN TABLE sd_w OPTIONS (ADD connector 'rate')$$, 'connector of stream "sd_w" cannot be changed', 'the connector stays');
DROP FOREIGN TABLE sd_w;

DROP TABLE sd_before;
DROP FUNCTION sd_columns, sd_hidden;
SELECT * FROM finish();
