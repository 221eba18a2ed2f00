-- What a running query uses is changed under it.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE clicks (id int, k int) SERVER streamx;
CREATE TABLE names (k int, name text);
INSERT INTO names VALUES (1, 'one'), (2, 'two');
CREATE VIEW named AS SELECT k, name FROM names WHERE k < 100;
CREATE FUNCTION shown(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '<' || t || '>' $$;
CREATE FUNCTION added(state bigint, x int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(state, 0) + x; END $$;
CREATE AGGREGATE total(int) (sfunc = added, stype = bigint);

SELECT create_query('joined', 'SELECT c.id, shown(n.name) AS name FROM clicks c JOIN named n USING (k)', sink => 'joined') \g /dev/null
SELECT create_query('totals', 'SELECT k, total(id) AS n FROM clicks GROUP BY k', sink => 'totals', output_mode => 'update') \g /dev/null
SELECT start_query('joined'), start_query('totals') \g /dev/null
INSERT INTO clicks VALUES (1, 1);
SELECT process_all_available('joined'), process_all_available('totals') \g /dev/null
SELECT is((SELECT string_agg(name, ',' ORDER BY id) FROM joined), '<one>', 'a stream joined with a view');

CREATE OR REPLACE FUNCTION shown(t text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT '[' || t || ']' $$;
INSERT INTO clicks VALUES (2, 2);
SELECT process_all_available('joined') \g /dev/null
SELECT is((SELECT string_agg(name, ',' ORDER BY id) FROM joined), '<one>,[two]', 'a replaced function, inlined in the plan, is noticed');

CREATE OR REPLACE VIEW named AS SELECT k, upper(name) AS name FROM names;
INSERT INTO clicks VALUES (3, 1);
SELECT process_all_available('joined') \g /dev/null
SELECT is((SELECT string_agg(name, ',' ORDER BY id) FROM joined), '<one>,[two],[ONE]', 'a replaced view is noticed');

ALTER TABLE names ADD COLUMN more int;
ALTER TABLE names DROP COLUMN more;
CREATE INDEX ON names (k);
ANALYZE names;
INSERT INTO clicks VALUES (4, 2);
SELECT process_all_available('joined') \g /dev/null
SELECT is((SELECT string_agg(name, ',' ORDER BY id) FROM joined), '<one>,[two],[ONE],[TWO]', 'other columns and indexes come and go');

CREATE OR REPLACE FUNCTION added(state bigint, x int) RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN RETURN coalesce(state, 0) + 1000 * x; END $$;
INSERT INTO clicks VALUES (5, 1);
SELECT process_all_available('totals') \g /dev/null
SELECT is((SELECT n FROM totals WHERE k = 1), 5004::bigint, 'a replaced transition function is noticed');

SELECT throws_ok('ALTER TABLE names ALTER COLUMN k TYPE bigint', '0A000', NULL, 'a column in use cannot change its type');
SELECT throws_ok('ALTER TABLE names DROP COLUMN name', '2BP01', NULL, 'a column in use cannot be dropped');
SELECT throws_ok('DROP FUNCTION shown(text)', '2BP01', NULL, 'a function in use cannot be dropped');
SELECT throws_ok('ALTER FOREIGN TABLE clicks DROP COLUMN k', '2BP01', NULL, 'a column of the stream in use cannot be dropped');

-- a role that loses a right
CREATE ROLE exec_owner LOGIN;
GRANT SELECT ON clicks, names TO exec_owner;
GRANT CREATE ON SCHEMA public TO exec_owner;
SET ROLE exec_owner;
SELECT create_query('owned', 'SELECT c.id, n.name FROM clicks c JOIN names n USING (k)', sink => 'owned', options => '{"starting_offsets": "latest", "max_retries": 0}') \g /dev/null
SELECT start_query('owned') \g /dev/null
RESET ROLE;
SELECT process_all_available('owned') \g /dev/null
INSERT INTO clicks VALUES (6, 1);
SELECT process_all_available('owned') \g /dev/null
SELECT is((SELECT string_agg(name, ',') FROM owned), 'one', 'the owner may read the table');
REVOKE SELECT ON names FROM exec_owner;
INSERT INTO clicks VALUES (7, 1);
SELECT throws_like($$SELECT process_all_available('owned')$$, '%permission denied for table names%', 'rights are checked for every batch');
SELECT stop_query('owned') \g /dev/null

-- CASCADE takes the view of the query along, and so the query
DROP TABLE names CASCADE;
INSERT INTO clicks VALUES (8, 1);
SELECT throws_like($$SELECT process_all_available('joined')$$, '%does not exist%', 'a table dropped with CASCADE takes the query along');
SELECT process_all_available('totals') \g /dev/null
SELECT is((SELECT n FROM totals WHERE k = 1), 26004::bigint, 'others go on');

SELECT stop_query('totals'), drop_query('totals') \g /dev/null
DROP TABLE joined, totals, owned;
DROP FOREIGN TABLE clicks CASCADE;
DROP AGGREGATE total(int);
DROP FUNCTION shown, added;
REVOKE ALL ON SCHEMA public FROM exec_owner;
DROP ROLE exec_owner;
SELECT * FROM finish();
