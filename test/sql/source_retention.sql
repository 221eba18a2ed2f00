-- Storage is given back when every query has read it, or when retention is over.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

-- rows per generation, 'free' for empty heaps
CREATE FUNCTION sx_rotate(n int) RETURNS void LANGUAGE plpgsql AS $$ BEGIN
	FOR i IN 1..n LOOP PERFORM streamx.rotate_streams(); END LOOP; END $$;
CREATE FUNCTION so_state(stream regclass) RETURNS text LANGUAGE sql AS $$
	SELECT string_agg(CASE WHEN generation = 0 THEN 'free' ELSE generation || CASE WHEN sealed IS NOT NULL THEN ' sealed' WHEN retired_at IS NOT NULL THEN ' retired' ELSE '' END END, ', ' ORDER BY slot)
	FROM streamx.stream s WHERE s.stream = $1 $$;
-- queries that read up to an offset: their rows are written by hand, nothing runs
CREATE FUNCTION so_query(name text, view regclass) RETURNS void LANGUAGE sql AS $$
	INSERT INTO streamx.query (id, name, incarnation, database, cluster, view, sink_kind, output_mode, trigger, options, settings, wanted, created_at)
	SELECT nextval('streamx.query_id'), $1, gen_random_uuid(), 0, system_identifier, $2, 'noop', 'append', 'default', '{}', '{}', 'created', now()
	FROM pg_control_system();
	-- what INSERT puts there counts as restored from a dump
	UPDATE streamx.query SET database = d.oid FROM pg_database d WHERE datname = current_database() AND query.name = $1 $$;
CREATE FUNCTION so_batch(query text, batch bigint, stream regclass, "end" jsonb) RETURNS void LANGUAGE sql AS $$
	INSERT INTO streamx.batch (query, batch, incarnation, lineage, batch_timestamp, owes_no_data, offsets, inputs, progress)
	SELECT id, $2, incarnation, gen_random_uuid(), now(), false,
		json_build_object('version', 1, 'sources', json_build_array(json_build_object('relation', $3::oid::bigint, 'end', $4)))::text,
		'{"version": 1, "policy": "min", "inputs": []}', '{}'
	FROM streamx.query WHERE name = $1 $$;
CREATE FUNCTION so_drop(name text) RETURNS void LANGUAGE sql AS $$
	DELETE FROM streamx.batch b USING streamx.query q WHERE q.id = b.query AND q.name = $1;
	DELETE FROM streamx.query q WHERE q.name = $1 $$;

-- no query: retention alone decides
CREATE FOREIGN TABLE so_s (a int) SERVER streamx OPTIONS (retention '0 seconds');
CREATE FOREIGN TABLE so_week (a int) SERVER streamx;
INSERT INTO so_s VALUES (1);
INSERT INTO so_week VALUES (1);
SELECT sx_rotate(1);
SELECT is(so_state('so_s'), '1 retired, 2, free', 'another heap becomes the current one');
INSERT INTO so_s VALUES (2);
SELECT results_eq('SELECT a FROM so_s', 'VALUES (1), (2)', 'both are read, in order');
SELECT sx_rotate(1);
SELECT is(so_state('so_s'), '1 sealed, 2 retired, 3', 'the old one is sealed');
INSERT INTO so_s VALUES (3);
SELECT results_eq('SELECT a FROM so_s', 'VALUES (1), (2), (3)', 'three heaps are read in order');
SELECT sx_rotate(1);
SELECT is(so_state('so_s'), '4, 2 sealed, 3 retired', 'emptied, and used again');
SELECT results_eq('SELECT a FROM so_s', 'VALUES (2), (3)', 'its rows are gone');
SELECT sx_rotate(10);
SELECT is_empty('SELECT a FROM so_s', 'all of them in the end');
SELECT results_eq('SELECT a FROM so_week', 'VALUES (1)', 'not those of a stream with a longer retention');
SELECT is(so_state('so_week'), '1, free, free', 'whose heap is not full either');

-- a transaction that still writes keeps its heap
CREATE FOREIGN TABLE so_t (a int) SERVER streamx OPTIONS (retention '0 seconds');
INSERT INTO so_t VALUES (1);
BEGIN;
SELECT sx_rotate(2);
INSERT INTO so_t VALUES (2);
SELECT is(so_state('so_t'), '1 sealed, 2, free', 'its own rows go to the new heap');
COMMIT;
DROP FOREIGN TABLE so_t;

-- a query holds what it has not read
ALTER FOREIGN TABLE so_week RENAME TO so_q;
CREATE VIEW so_view AS SELECT a FROM so_q;
SELECT so_query('so_reader', 'so_view');
ALTER FOREIGN TABLE so_q OPTIONS (ADD retention '0 seconds');
SELECT streamx.stream_next('so_q') AS first \gset
SELECT so_batch('so_reader', 1, 'so_q', :'first');
SELECT sx_rotate(1);
ALTER FOREIGN TABLE so_q OPTIONS (SET retention '1 day');
SELECT sx_rotate(2);
SELECT is(so_state('so_q'), 'free, 2, free', 'a heap that was read is emptied before retention is over');
INSERT INTO so_q VALUES (2);
ALTER FOREIGN TABLE so_q OPTIONS (SET retention '0 seconds');
SELECT sx_rotate(1);
ALTER FOREIGN TABLE so_q OPTIONS (SET retention '1 day');
SELECT sx_rotate(5);
SELECT is(so_state('so_q'), '3, 2 sealed, free', 'one that was not read is kept');
INSERT INTO so_q VALUES (3);
SELECT streamx.stream_next('so_q', :'first') AS second \gset
SELECT results_eq(format('SELECT * FROM streamx.stream_rows(NULL::so_q, %L, %L)', :'first', :'second'), 'VALUES (2), (3)', 'and read across the heaps');
SELECT so_batch('so_reader', 2, 'so_q', :'second');
SELECT sx_rotate(2);
SELECT is(so_state('so_q'), '3, free, free', 'then it is emptied');
SELECT is((SELECT count(*) FROM streamx.stream_loss WHERE stream = 'so_q'::regclass), 0::bigint, 'nothing was lost so far');

-- an idle query whose position is older than the seal has lost nothing
ALTER FOREIGN TABLE so_q OPTIONS (SET retention '0 seconds');
SELECT sx_rotate(3);
SELECT is(so_state('so_q'), 'free, 4, free', 'its heap is emptied');
SELECT lives_ok(format('SELECT streamx.stream_next(''so_q'', %L)', :'second'), 'and it goes on');
SELECT is((SELECT count(*) FROM streamx.stream_loss WHERE stream = 'so_q'::regclass), 0::bigint, 'no loss is noted');

-- retention over, rows unread: the query is told
INSERT INTO so_q VALUES (4);
SELECT sx_rotate(3);
SELECT is_empty('SELECT a FROM so_q', 'rows are removed');
SELECT throws_ok(format('SELECT streamx.stream_next(''so_q'', %L)', :'second'), 'SX002', 'rows of stream public.so_q were removed before they were read', 'a query that had not read them fails');
INSERT INTO so_q VALUES (5);
SELECT is(streamx.stream_next('so_q') IS NOT NULL, true, 'a new one takes what is left');
SELECT sx_rotate(1);
SELECT is((SELECT count(*) FROM streamx.stream_loss WHERE stream = 'so_q'::regclass), 1::bigint, 'the loss is remembered as long as the query is there');
SELECT so_drop('so_reader');
SELECT sx_rotate(3);
SELECT is((SELECT count(*) FROM streamx.stream_loss WHERE stream = 'so_q'::regclass), 0::bigint, 'and forgotten with it');

-- a query that has not run yet, through another view
CREATE VIEW so_v AS SELECT a FROM so_s;
CREATE VIEW so_w AS SELECT a + 1 FROM so_v;
SELECT so_query('so_waiting', 'so_w');
INSERT INTO so_s VALUES (10);
SELECT sx_rotate(1);
ALTER FOREIGN TABLE so_s OPTIONS (SET retention '1 day');
SELECT sx_rotate(3);
SELECT results_eq('SELECT a FROM so_s', 'VALUES (10)', 'holds rows until retention is over');
SELECT so_drop('so_waiting');
DROP VIEW so_view, so_w, so_v;
DROP FOREIGN TABLE so_s, so_q;
DROP FUNCTION sx_rotate, so_state, so_query, so_batch, so_drop;
SELECT * FROM finish();
