-- The state against a model, at random: put, get, remove, scan, expire, prepare (also
-- several times), commit, abort, maintenance, clean and unclean reopening, a store
-- of a lost history, changelog on and off. An error names its seed and step.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE EXTENSION streamx_state_test;
SELECT plan(11);

CALL state_property_test(1, 300, 'rocksdb', 65536);
SELECT is(:'SQLSTATE'::text, '00000', 'all in memory, seed 1');
CALL state_property_test(2, 300, 'table', 65536, false);
SELECT is(:'SQLSTATE'::text, '00000', 'all in memory, without changelog, seed 2');
CALL state_property_test(3, 300, 'rocksdb', 500);
SELECT is(:'SQLSTATE'::text, '00000', 'RocksDB holds most of it, seed 3');
CALL state_property_test(4, 300, 'rocksdb', 1500);
SELECT is(:'SQLSTATE'::text, '00000', 'RocksDB holds some of it, seed 4');
CALL state_property_test(5, 300, 'rocksdb', 500, false);
SELECT is(:'SQLSTATE'::text, '00000', 'RocksDB, without changelog, seed 5');
CALL state_property_test(6, 300, 'table', 500);
SELECT is(:'SQLSTATE'::text, '00000', 'the table holds most of it, seed 6');
CALL state_property_test(7, 300, 'table', 1500);
SELECT is(:'SQLSTATE'::text, '00000', 'the table holds some of it, seed 7');
CALL state_property_test(8, 300, 'table', 500, false);
SELECT is(:'SQLSTATE'::text, '00000', 'the table, without changelog, seed 8');
CALL state_property_test(1001, 400, 'rocksdb', 900);
SELECT is(:'SQLSTATE'::text, '00000', 'the newest batch stands in a table that a complete one follows, seed 1001');

SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS seed \gset
CALL state_property_test(:seed, 300, 'rocksdb', 700);
SELECT is(:'SQLSTATE'::text, '00000', 'RocksDB, a seed of today');
CALL state_property_test(:seed, 300, 'table', 700);
SELECT is(:'SQLSTATE'::text, '00000', 'the table, a seed of today');

SELECT * FROM finish();
DROP EXTENSION streamx_state_test;
