-- Rights: GRANT on the stream is what counts, the storage is nobody's.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

CREATE ROLE sg_owner;
CREATE ROLE sg_writer;
CREATE ROLE sg_reader;
GRANT CREATE ON SCHEMA public TO sg_owner;
SET ROLE sg_owner;
CREATE FOREIGN TABLE sg_s (a int, secret text) SERVER streamx;
INSERT INTO sg_s VALUES (1, 'x');
GRANT INSERT ON sg_s TO sg_writer;
GRANT SELECT (a) ON sg_s TO sg_reader;
RESET ROLE;
SELECT set_config('sg.heap', (SELECT 'streamx_data.' || relname FROM streamx.stream JOIN pg_class ON oid = heap WHERE stream = 'sg_s'::regclass AND slot = 0), false) <> '' AS known \gset

SET ROLE sg_writer;
INSERT INTO sg_s VALUES (2, 'y');
SELECT throws_ok('SELECT * FROM sg_s', '42501', NULL, 'a writer may not read');
SELECT throws_ok($$SELECT streamx.stream_next('sg_s')$$, '42501', NULL, 'not by ranges either');
SELECT throws_ok($$SELECT * FROM streamx.stream_rows(NULL::sg_s, NULL, '{"snapshot": "3:3:", "first": 1, "heaps": []}')$$, '42501', NULL, 'nor their rows');
SELECT throws_ok('ALTER FOREIGN TABLE sg_s ADD COLUMN b int', '42501', NULL, 'nor alter the stream');
SELECT throws_ok('SELECT streamx.rotate_streams()', '42501', NULL, 'nor free storage');
RESET ROLE;
SET ROLE sg_reader;
SELECT results_eq('SELECT a FROM sg_s', 'VALUES (1), (2)', 'a reader reads what it was granted');
SELECT throws_ok('SELECT secret FROM sg_s', '42501', NULL, 'and no other column');
SELECT throws_ok('INSERT INTO sg_s VALUES (3)', '42501', NULL, 'and may not write');
RESET ROLE;
SET ROLE sg_owner;
SELECT throws_ok('SELECT * FROM ' || current_setting('sg.heap'), '42501', NULL, 'not even the owner reads the storage');
SELECT throws_ok('INSERT INTO ' || current_setting('sg.heap') || ' VALUES (''1'', 1)', '42501', NULL, 'or writes it');
SELECT throws_ok('DROP TABLE ' || current_setting('sg.heap'), '42501', NULL, 'or drops it');
SELECT throws_ok('SELECT * FROM streamx.stream', '42501', NULL, 'or reads the catalog');
SELECT is(streamx.stream_next('sg_s') IS NOT NULL, true, 'the owner may read ranges');
RESET ROLE;
SELECT throws_ok('DROP TABLE ' || current_setting('sg.heap'), '2BP01', NULL, 'a superuser cannot drop the storage by itself');
GRANT sg_owner TO sg_reader;
ALTER FOREIGN TABLE sg_s OWNER TO sg_reader;
SET ROLE sg_reader;
ALTER FOREIGN TABLE sg_s ADD COLUMN b int DEFAULT 5;
INSERT INTO sg_s VALUES (4, 'z', 6);
SELECT results_eq('SELECT a, b FROM sg_s', 'VALUES (1, 5), (2, 5), (4, 6)', 'a new owner alters it');
RESET ROLE;
DROP FOREIGN TABLE sg_s;
DROP OWNED BY sg_owner, sg_writer, sg_reader;
DROP ROLE sg_owner, sg_writer, sg_reader;
SELECT * FROM finish();
