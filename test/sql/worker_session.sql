-- A worker runs as the session that created its query saw the world, and with
-- settings of its own where a role's would do harm.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE FOREIGN TABLE ses_s (ts timestamptz) SERVER streamx;
CREATE ROLE ses_owner LOGIN;
ALTER ROLE ses_owner SET statement_timeout = '10 ms';
ALTER ROLE ses_owner SET lock_timeout = '10 ms';
ALTER ROLE ses_owner SET default_transaction_read_only = on;
ALTER ROLE ses_owner SET timezone = 'Asia/Tokyo';
CREATE SCHEMA ses_a;
CREATE SCHEMA ses_b;
GRANT USAGE ON SCHEMA ses_a, ses_b TO ses_owner;
CREATE FUNCTION ses_b.where_am_i() RETURNS text LANGUAGE sql AS 'SELECT ''b''';
CREATE FUNCTION show(name text) RETURNS text LANGUAGE sql AS 'SELECT current_setting(name)';
CREATE FUNCTION slow() RETURNS text LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.1); RETURN 'slow'; END $$;
CREATE TABLE ses_out (at text, f text, who text, session text, path text, jit text, parallel text, app text, slow text);
GRANT SELECT ON ses_s TO ses_owner;
GRANT INSERT ON ses_out TO ses_owner;
SELECT no_plan();

SET ROLE ses_owner;
SET timezone = 'Europe/Berlin';
SET datestyle = 'SQL, DMY';
SET search_path = ses_a, ses_b, public;
SELECT create_query('ses_q', $q$ SELECT ts::text AS at, where_am_i() AS f, current_user::text AS who, session_user::text AS session,
	show('search_path') AS path, show('jit') AS jit, show('max_parallel_workers_per_gather') AS parallel,
	show('application_name') AS app, slow() AS slow FROM ses_s $q$, 'ses_out');
RESET datestyle;
RESET timezone;
RESET search_path;
RESET ROLE;
-- a function that would be found first if the text were analysed again
CREATE FUNCTION ses_a.where_am_i() RETURNS text LANGUAGE sql AS 'SELECT ''a''';
SELECT start_query('ses_q');
INSERT INTO ses_s VALUES ('2026-10-25 00:30Z');
SELECT process_all_available('ses_q', '60 s');
SELECT is(at, '25/10/2026 02:30:00 CEST', 'time zone and date style are those of the creation') FROM ses_out;
SELECT is(f, 'b', 'functions are those of the creation') FROM ses_out;
SELECT is(who || ' ' || session, 'ses_owner ses_owner', 'user and session user are the owner') FROM ses_out;
SELECT is(path, 'ses_a, ses_b, public', 'the search_path is that of the creation') FROM ses_out;
SELECT is(jit || parallel, 'off0', 'neither JIT nor parallel workers') FROM ses_out;
SELECT is(app, 'streamx: ses_q', 'the application name is the query') FROM ses_out;
SELECT is(slow, 'slow', 'timeouts of the role do not hold') FROM ses_out;

-- the owner's other queries and roles
SELECT is((SELECT usename::text FROM pg_stat_activity WHERE application_name = 'streamx: ses_q'), 'ses_owner', 'the process is the owner''s');
SELECT throws_ok('DROP ROLE ses_owner', '2BP01', NULL, 'the role cannot be dropped under its query');
SELECT drop_query('ses_q');
DROP FOREIGN TABLE ses_s;
DROP OWNED BY ses_owner;
DROP ROLE ses_owner;
SELECT * FROM finish();
