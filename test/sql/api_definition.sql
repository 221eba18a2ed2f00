-- create_query, alter_query, drop_query and what is refused; nothing runs here.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE FOREIGN TABLE def_s (k int, v float8, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TABLE def_out (k int, n bigint);
CREATE FUNCTION def_f(bigint) RETURNS void LANGUAGE sql AS 'SELECT';
CREATE FUNCTION sqlstate_of(sql text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE sql;
	RETURN '00000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT no_plan();

SELECT lives_ok($$SELECT create_query('def_q', 'SELECT k, v FROM def_s WHERE v > 1', 'def_new')$$, 'a query is created');
SELECT is((SELECT state FROM streamx.queries WHERE name = 'def_q'), 'created', 'it is created, not started');
SELECT has_table('def_new'::name, 'its missing sink table is made');
SELECT columns_are('public', 'def_new', ARRAY['k', 'v'], 'with the columns of the query');
SELECT is((SELECT sink FROM streamx.queries WHERE name = 'def_q'), 'public.def_new', 'the view shows the sink');
SELECT is((SELECT relowner::regrole::text FROM pg_class WHERE oid = 'streamx_query.def_q'::regclass),
	current_user::text, 'its view belongs to the owner of the query');
SELECT is((SELECT wanted FROM streamx.query WHERE name = 'def_q'), 'created', 'so says the catalog');
INSERT INTO def_s VALUES (1, 0.5, '2026-01-01 00:00Z'), (2, 2, '2026-01-01 00:00Z');
SELECT results_eq('SELECT k FROM streamx_query.def_q', ARRAY[2], 'its view is the batch answer');

-- names and texts
SELECT is(sqlstate_of($$SELECT create_query('def_q', 'SELECT k FROM def_s', 'noop')$$), '42710', 'a name twice');
SELECT is(sqlstate_of($$SELECT create_query('', 'SELECT k FROM def_s', 'noop')$$), '42602', 'no name');
SELECT is(sqlstate_of($$SELECT create_query(NULL, 'SELECT k FROM def_s', 'noop')$$), '22004', 'NULL as a name');
SELECT is(sqlstate_of(format('SELECT create_query(%L, %L, %L)', repeat('x', 64), 'SELECT k FROM def_s', 'noop')), '42622', 'a name of 64 bytes');
SELECT is(sqlstate_of(format('SELECT create_query(%L, %L, %L)', repeat('x', 63), 'SELECT k FROM def_s', 'noop')), '00000', 'one of 63 bytes is fine');
SELECT lives_ok($$SELECT create_query('de"f ;--Ä', 'SELECT k FROM def_s', 'noop')$$, 'and one with odd characters');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k FROM', 'noop')$$), '42601', 'a syntax error');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT nope FROM def_s', 'noop')$$), '42703', 'an unknown column');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k FROM def_s; SELECT 1', 'noop')$$), '42601', 'two statements');
SELECT is(sqlstate_of($$SELECT create_query('def_x', '', 'noop')$$), '42601', 'no statement');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'DELETE FROM def_out', 'noop')$$), '42601', 'not a SELECT');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k INTO x FROM def_s', 'noop')$$), '0A000', 'SELECT INTO');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'WITH d AS (DELETE FROM def_out RETURNING *) SELECT k FROM def_s', 'noop')$$), '0A000', 'a modifying WITH');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k FROM def_s WHERE k = $1', 'noop')$$), '42P02', 'a parameter');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k, v AS k FROM def_s', 'noop')$$), '42701', 'a column name twice');
CREATE TEMPORARY TABLE def_temp (k int);
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT s.k FROM def_s s JOIN def_temp t USING (k)', 'noop')$$), '0A000', 'a temporary table');
SELECT is((SELECT count(*) FROM pg_class WHERE relname = 'def_x'), 0::bigint, 'a refused query leaves nothing behind');

-- modes, triggers, options
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k FROM def_s', 'noop', 'upsert')$$), '22023', 'an unknown output mode');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k, count(*) AS n FROM def_s GROUP BY k', 'noop')$$), 'SX005', 'append mode over groups that are never final');
SELECT is(sqlstate_of(format('SELECT create_query(%L, %L, %L, trigger => %L)', 'def_x', 'SELECT k FROM def_s', 'noop', t)), e, 'trigger ' || t)
	FROM (VALUES ('1 month', '22023'), ('-1 s', '22023'), ('soon', '22023'), ('', '22023'), ('realtime 5 minutes', '22023')) x(t, e);
SELECT is(sqlstate_of(format('SELECT create_query(%L, %L, %L, options => %L)', 'def_x', 'SELECT k FROM def_s', 'noop', o)), '22023', 'options ' || o)
	FROM (VALUES ('{"nope": 1}'), ('[1]'), ('{"state_store": "memory"}'), ('{"state_memory": "1 kB"}'), ('{"batch_rows": 0}'),
		('{"idle_timeout": "1 month"}'), ('{"batch_rows": 1, "batchRows": 2}'), ('{"directory": "x"}'),
		('{"directory": "/tmp"}'), ('{"max_retries": {}}'), ('{"no_data_batches": "perhaps"}')) x(o);
SELECT lives_ok($$SELECT create_query('def_o', 'SELECT k FROM def_s', 'noop', trigger => '1 minute 30 s',
	options => '{"stateMemory": "8MB", "max_future_skew": "off", "noDataBatches": false, "idleTimeout": "00:05"}')$$, 'right ones are taken');
SELECT is((SELECT options - 'state_store' FROM streamx.queries WHERE name = 'def_o'),
	'{"state_memory": "8MB", "max_future_skew": "off", "no_data_batches": false, "idle_timeout": "00:05"}', 'under one spelling');
SELECT is((SELECT trigger FROM streamx.queries WHERE name = 'def_o'), '90 seconds', 'and so is the interval');
SET streamx.state_store = 'table';
SELECT create_query('def_t', 'SELECT k FROM def_s', 'noop');
SELECT is((SELECT options ->> 'state_store' FROM streamx.queries WHERE name = 'def_t'), 'table', 'the store of the session is kept with the query');
RESET streamx.state_store;

-- sinks
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k FROM def_s')$$), '22023', 'no sink');
SELECT is(sqlstate_of($$SELECT create_query('def_x', 'SELECT k FROM def_s', 'noop', foreach_batch => 'def_f(bigint)')$$), '22023', 'a sink and a function');
SELECT lives_ok($$SELECT create_query('def_e', 'SELECT k FROM def_s', foreach_batch => 'def_f(bigint)')$$, 'a function alone');
SELECT is((SELECT sink FROM streamx.queries WHERE name = 'def_e'), 'foreach_batch def_f(bigint)', 'is what the view shows');
SELECT is((SELECT sink_function FROM streamx.query WHERE name = 'def_e'), 'public.def_f(bigint)', 'and the catalog, by its signature');
CREATE TABLE noop (k int);
SELECT create_query('def_n', 'SELECT k FROM def_s', 'noop');
SELECT is((SELECT sink FROM streamx.queries WHERE name = 'def_n'), 'public.noop', 'a table called noop is a table');
SELECT drop_query('def_n');
DROP TABLE noop;

-- what the query needs is not dropped unnoticed
SELECT is(sqlstate_of('DROP TABLE def_new'), '2BP01', 'the sink table is not dropped under the query');
SELECT is(sqlstate_of('DROP FUNCTION def_f(bigint)'), '2BP01', 'nor the function');
SELECT is(sqlstate_of('DROP FOREIGN TABLE def_s'), '2BP01', 'nor the stream');
SELECT is(sqlstate_of('ALTER FOREIGN TABLE def_s ALTER v TYPE numeric'), '0A000', 'nor a column changed');
ALTER TABLE def_new RENAME TO def_renamed;
SELECT is((SELECT sink FROM streamx.queries WHERE name = 'def_q'), 'public.def_renamed', 'a renamed sink is followed');
ALTER FUNCTION def_f(bigint) RENAME TO def_g;
SELECT is((SELECT sink FROM streamx.queries WHERE name = 'def_e'), 'foreach_batch def_g(bigint)', 'and a renamed function');

-- alter
SELECT lives_ok($$SELECT alter_query('def_q', query => 'SELECT k, v FROM def_s WHERE v > 0')$$, 'another condition');
SELECT is((SELECT count(*) FROM streamx_query.def_q), 2::bigint, 'is in the view');
SELECT is(sqlstate_of($$SELECT alter_query('def_q', query => 'SELECT k, v::text AS t FROM def_s')$$), '42703', 'other columns must fit the sink');
SELECT lives_ok($$SELECT alter_query('def_q', query => 'SELECT k AS kk FROM def_s', sink => 'def_other')$$, 'or come with another one');
SELECT has_table('def_other'::name, 'which is made');
SELECT lives_ok('DROP TABLE def_renamed', 'the old one is free');
CREATE VIEW def_view AS SELECT kk FROM streamx_query.def_q;
SELECT is(sqlstate_of($$SELECT alter_query('def_q', query => 'SELECT v FROM def_s', sink => 'noop')$$), '2BP01', 'columns that others use are not taken away');
DROP VIEW def_view;
SELECT alter_query('def_q', options => '{"batchRows": 7}');
SELECT alter_query('def_q', options => '{"maxPending": 3}');
SELECT is((SELECT options - 'state_store' FROM streamx.queries WHERE name = 'def_q'), '{"batch_rows": 7, "max_pending": 3}', 'options are added');
SELECT alter_query('def_q', options => '{"batch_rows": null}');
SELECT is((SELECT options - 'state_store' FROM streamx.queries WHERE name = 'def_q'), '{"max_pending": 3}', 'and removed by null');
SELECT is(sqlstate_of($$SELECT alter_query('def_q', options => '{"nope": null}')$$), '22023', 'an unknown one is an error also then');
SELECT is(sqlstate_of($$SELECT alter_query('nope', trigger => 'once')$$), '42704', 'a query that is not there');

-- rollback
BEGIN;
SELECT create_query('def_r', 'SELECT k FROM def_s', 'def_r_out');
ROLLBACK;
SELECT is((SELECT count(*) FROM streamx.query WHERE name = 'def_r'), 0::bigint, 'after ROLLBACK there is no query');
SELECT hasnt_table('def_r_out'::name, 'and no sink');
BEGIN;
SELECT drop_query('def_q');
ROLLBACK;
SELECT is((SELECT count(*) FROM streamx.query WHERE name = 'def_q'), 1::bigint, 'a drop that was rolled back');
BEGIN;
SELECT alter_query('def_q', trigger => '5 s');
ROLLBACK;
SELECT is((SELECT trigger FROM streamx.queries WHERE name = 'def_q'), 'default', 'an alter that was rolled back');

-- ids of restored rows are skipped
SELECT setval('streamx.query_id', (SELECT min(id) FROM streamx.query), false) IS NOT NULL;
SELECT lives_ok($$SELECT create_query('def_i', 'SELECT k FROM def_s', 'noop')$$, 'a sequence that lost its value does no harm');

-- a row that SQL inserts (a restored dump) was never started
CREATE TEMPORARY TABLE def_row AS SELECT * FROM streamx.query WHERE name = 'def_i';
DELETE FROM streamx.query WHERE name = 'def_i';
UPDATE def_row SET wanted = 'running', layout = 'x';
INSERT INTO streamx.query SELECT * FROM def_row;
SELECT is((SELECT state FROM streamx.queries WHERE name = 'def_i'), 'created', 'a restored row is a query that was never started');
SELECT is((SELECT concat(database, layout) FROM streamx.query WHERE name = 'def_i'), '0', 'of no database and without state');

-- queries that would feed each other, through views and third ones too
CREATE FOREIGN TABLE loop_a (k int) SERVER streamx;
CREATE FOREIGN TABLE loop_b (k int) SERVER streamx;
CREATE FOREIGN TABLE loop_c (k int) SERVER streamx;
CREATE VIEW loop_view AS SELECT k FROM loop_b WHERE k > 0;
SELECT create_query('loop_ab', 'SELECT k FROM loop_a', 'loop_b');
SELECT create_query('loop_bc', 'SELECT k FROM loop_view', 'loop_c');
SELECT is(sqlstate_of($$SELECT create_query('loop_ba', 'SELECT k FROM loop_b', 'loop_a')$$), '0A000', 'two queries that feed each other are refused');
SELECT throws_like($$SELECT create_query('loop_ca', 'SELECT k FROM loop_c', 'loop_a')$$,
	'results of query "loop_ca" would come back to it through stream "loop_c"', 'so are three');
SELECT lives_ok($$SELECT create_query('loop_cd', 'SELECT k FROM loop_c', 'loop_out')$$, 'a table ends the way');
SELECT is(sqlstate_of($$SELECT alter_query('loop_cd', sink => 'loop_a')$$), '0A000', 'altering a query is looked at, too');
SELECT lives_ok($$SELECT create_query('loop_bb', 'SELECT k FROM loop_b', 'loop_c')$$, 'two ways to one stream are no loop');
CREATE OR REPLACE VIEW loop_view AS SELECT b.k FROM loop_b b UNION ALL SELECT c.k FROM loop_c c;
SELECT is(sqlstate_of($$SELECT start_query('loop_bc')$$), '0A000', 'a view that closed a loop is found at the start');
SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'loop%';
DROP FOREIGN TABLE loop_a, loop_b, loop_c CASCADE;

-- drop
SELECT drop_query(name) FROM streamx.queries;
SELECT is((SELECT count(*) FROM streamx.query), 0::bigint, 'all are dropped');
SELECT is((SELECT count(*) FROM pg_class WHERE relnamespace = 'streamx_query'::regnamespace), 0::bigint, 'with their views');
SELECT is(sqlstate_of($$SELECT drop_query('def_q')$$), '42704', 'a second time is an error');
SELECT lives_ok($$SELECT drop_query('def_q', if_exists => true)$$, 'unless if_exists');

-- dropped from below
SELECT create_query('def_q', 'SELECT k FROM def_s', 'def_out2');
DROP VIEW streamx_query.def_q;
SELECT is((SELECT count(*) FROM streamx.query), 0::bigint, 'DROP VIEW drops the query');
SELECT create_query('def_q', 'SELECT k FROM def_s', 'def_out2');
DROP TABLE def_out2 CASCADE;
SELECT is((SELECT count(*) FROM streamx.query), 0::bigint, 'DROP TABLE CASCADE of its sink too');
SELECT create_query('def_q', 'SELECT k FROM def_s', 'def_out2');
DROP FOREIGN TABLE def_s CASCADE;
SELECT is((SELECT count(*) FROM streamx.query), 0::bigint, 'and of its stream');

-- a catalog that the library does not know: an error, and no crash, as of a database whose extension was not updated
BEGIN;
ALTER TABLE streamx.query ADD COLUMN later int;
SELECT throws_ok($$SELECT drop_query('def_q')$$, '55000', 'table streamx.query is of another version of streamx than the library', 'a column that is not known');
ROLLBACK;
SELECT * FROM finish();
