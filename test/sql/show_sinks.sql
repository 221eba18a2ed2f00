-- What create_query says about sinks that do not fit.
\set VERBOSITY default
\set ECHO queries
SET client_min_messages = warning;
SELECT create_stream('ss', 'id int, name text, ts timestamptz');

-- CASE-40: the sink's key is not the result's key
CREATE TABLE ss_by_name (id int, name text PRIMARY KEY);
SELECT create_query('ss', 'SELECT id, max(name) AS name FROM ss GROUP BY id', sink => 'ss_by_name', output_mode => 'update');
SELECT create_query('ss', 'SELECT id, max(name) AS name FROM ss GROUP BY id', sink => 'ss_by_name', output_mode => 'complete');
-- a key that may be NULL needs NULLS NOT DISTINCT
CREATE TABLE ss_distinct (id int UNIQUE, name text);
SELECT create_query('ss', 'SELECT id, max(name) AS name FROM ss GROUP BY id', sink => 'ss_distinct', output_mode => 'update');
-- the key is not in the result
SELECT create_query('ss', 'SELECT max(name) AS name FROM ss GROUP BY id', sink => 'ss_new', output_mode => 'update');

-- columns
CREATE TABLE ss_columns (id int, must int NOT NULL);
SELECT create_query('ss', 'SELECT id, name FROM ss', sink => 'ss_columns');
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'ss_columns');
CREATE TABLE ss_types (id int, name point, made int GENERATED ALWAYS AS (id + 1) STORED);
SELECT create_query('ss', 'SELECT id, name FROM ss', sink => 'ss_types');
SELECT create_query('ss', 'SELECT id, id AS made FROM ss', sink => 'ss_types');

-- kinds
CREATE VIEW ss_view AS SELECT 1 AS id;
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'ss_view');
CREATE TEMP TABLE ss_temp (id int);
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'pg_temp.ss_temp');
CREATE FOREIGN DATA WRAPPER ss_wrapper;
CREATE SERVER ss_server FOREIGN DATA WRAPPER ss_wrapper;
CREATE FOREIGN TABLE ss_foreign (id int) SERVER ss_server;
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'ss_foreign');
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'no_such_schema.t');
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'streamx.batch');

-- functions and directories
CREATE FUNCTION ss_function(x int) RETURNS void LANGUAGE sql AS '';
SELECT create_query('ss', 'SELECT id FROM ss', foreach_batch => 'ss_function(int)');
CREATE FUNCTION ss_set(x bigint) RETURNS SETOF int LANGUAGE sql AS 'SELECT 1';
SELECT create_query('ss', 'SELECT id FROM ss', foreach_batch => 'ss_set(bigint)');
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'directory');
SELECT create_query('ss', 'SELECT id FROM ss', sink => 'directory', options => '{"directory": "/no/such/directory"}');
SELECT create_query('ss', 'SELECT id, count(*) FROM ss GROUP BY id', sink => 'directory', output_mode => 'complete', options => '{"directory": "/tmp"}');

-- rights
CREATE ROLE ss_user LOGIN;
GRANT CREATE ON SCHEMA public TO ss_user;
CREATE TABLE ss_private (id int PRIMARY KEY, name text);
SET ROLE ss_user;
SELECT create_stream('ss_own', 'id int, name text');
SELECT create_query('ss', 'SELECT id FROM ss_own', sink => 'ss_private');
SELECT create_query('ss', 'SELECT id, max(name) AS name FROM ss_own GROUP BY id', sink => 'ss_private', output_mode => 'update');
SELECT create_query('ss', 'SELECT id FROM ss_own', sink => 'directory', options => '{"directory": "/tmp"}');
SELECT create_query('ss', 'SELECT id FROM ss_own', sink => 'ss');
RESET ROLE;
SELECT count(*) FROM streamx.queries WHERE name = 'ss';

DROP OWNED BY ss_user;
DROP ROLE ss_user;
DROP FOREIGN TABLE ss;
DROP FOREIGN DATA WRAPPER ss_wrapper CASCADE;
DROP TABLE ss_by_name, ss_distinct, ss_columns, ss_types, ss_private;
DROP VIEW ss_view;
DROP FUNCTION ss_function, ss_set;
