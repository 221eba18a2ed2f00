-- What the log promises: it is complete or it says so; its tables are hidden.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE EXTENSION streamx_state_test;
SELECT plan(21);

-- ten batches of 3000 keys of their own
CALL state_fill(-1, 'rocksdb', 65536, 10, 3000);
SELECT is(state_rows(-1, 'rocksdb', 65536, 9), 30000::bigint, 'a state comes back from its log');
SELECT is(state_rows(-1, 'rocksdb', 300, 9), 30000::bigint, 'with little memory, too');
SELECT is(state_rows(-1, 'table', 300, 9), 30000::bigint, 'and in the other store');

SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 10)', 'SX003', NULL,
	'a batch that the log does not have is missed');
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 8)', 'SX003', NULL,
	'a batch too many is noticed');
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, -1)', 'SX003', NULL,
	'a log is not taken for an empty one');

BEGIN;
DELETE FROM streamx_data."state_log_-1_3" WHERE batch = 4;
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'a batch missing in the middle of a part is noticed');
ROLLBACK;
BEGIN;
DELETE FROM streamx_data."state_log_-1_3" WHERE batch = 9;
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'the last batch missing in one part is noticed');
ROLLBACK;
BEGIN;
DELETE FROM streamx_data."state_log_-1_3" WHERE batch = 0;
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'the first batch missing in one part is noticed');
ROLLBACK;
BEGIN;
DELETE FROM streamx_data."state_log_-1_3";
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'an empty table in the place of a full one is noticed');
ROLLBACK;
BEGIN;
UPDATE streamx_data."state_log_-1_3" SET data = set_byte(data, 60, get_byte(data, 60) # 1) WHERE batch = 5;
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'a changed bit is noticed');
ROLLBACK;
BEGIN;
UPDATE streamx_data."state_log_-1_3" SET batch = 3 WHERE batch = 4;
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'a section in the place of another is noticed');
ROLLBACK;
BEGIN;
DELETE FROM streamx.state_generation WHERE query = -1 AND part = 5;
SELECT throws_ok('SELECT state_rows(-1, ''rocksdb'', 65536, 9)', 'SX003', NULL,
	'a part without a table is noticed');
ROLLBACK;
SELECT is(state_rows(-1, 'table', 65536, 9), 30000::bigint, 'and nothing of it was touched');

SELECT is((SELECT count(*) FROM pg_depend d JOIN pg_class c ON d.objid = c.oid
	WHERE d.classid = 'pg_class'::regclass AND d.deptype = 'e' AND c.relname ~ '^state_(log|store)_-1'),
	(SELECT count(*) FROM pg_class WHERE relname ~ '^state_(log|store)_-1' AND relkind = 'r'),
	'its tables belong to the extension');
SELECT is((SELECT string_agg(DISTINCT attstorage::text, '') FROM pg_attribute
	WHERE attrelid = 'streamx_data."state_log_-1_0"'::regclass AND attname = 'data'), 'p', 'rows of the log are plain');
CREATE ROLE state_nobody;
SET ROLE state_nobody;
SELECT throws_ok('SELECT count(*) FROM streamx_data."state_log_-1_3"', '42501', NULL, 'nobody else may read the log');
SELECT throws_ok('SELECT count(*) FROM streamx.state_generation', '42501', NULL, 'nor which tables there are');
RESET ROLE;
DROP ROLE state_nobody;
SELECT state_drop(-1);
SELECT is((SELECT count(*) FROM pg_class WHERE relname ~ '^state_(log|store)_-1'), 0::bigint, 'a drop leaves no table');
SELECT is((SELECT count(*) FROM streamx.state_generation WHERE query = -1), 0::bigint, 'and no row');

-- 2000 batches over the same 30000 keys would be 11 MB: old tables are used again
CALL state_fill(-2, 'rocksdb', 65536, 2000, 3000);
SELECT ok((SELECT max(generation) >= 2 AND count(*) <= 24 AND
		sum(pg_relation_size(format('streamx_data."state_log_-2_%s"', slot)::regclass)) < 3000000
	FROM streamx.state_generation WHERE query = -2), 'the log rotates and stays small');
SELECT state_drop(-2);
SELECT * FROM finish();
DROP EXTENSION streamx_state_test;
