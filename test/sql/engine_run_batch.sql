-- run_batch() and advance_time(): a query step by step in the session's own transaction. It reads what the transaction
-- has inserted, ROLLBACK takes back whatever it did, and after COMMIT a worker goes on from there.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO';
SELECT no_plan();
SELECT create_stream('rb', 'k int, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''10 seconds''');
CREATE VIEW rb_stores AS SELECT store FROM unnest('{rocksdb,table}'::text[]) AS store;
-- what of a batch is the same every time
CREATE FUNCTION step(name text) RETURNS text LANGUAGE sql AS $$
	SELECT format('%s: %s in, %s late, %s out, %s then %s', batch_id, input_rows, late_rows, output_rows,
		coalesce(to_char(watermark, 'MI:SS'), 'none'), coalesce(to_char(next_watermark, 'MI:SS'), 'none'))
	FROM run_batch(name) WHERE batch_id IS NOT NULL $$;
CREATE FUNCTION at(t text) RETURNS timestamptz LANGUAGE sql AS $$ SELECT ('2024-01-01 00:' || t || 'Z')::timestamptz $$;
CREATE FUNCTION differs(sink text, query text) RETURNS text LANGUAGE sql AS $$ SELECT format('(TABLE %1$I EXCEPT ALL TABLE streamx_query.%2$I)
	UNION ALL (TABLE streamx_query.%2$I EXCEPT ALL TABLE %1$I)', sink, query) $$;
CREATE FUNCTION records(name text) RETURNS bigint LANGUAGE sql AS
	$$ SELECT count(*) FROM streamx.batch b JOIN streamx.query q ON q.id = b.query WHERE q.name = $1 $$;

-- windows, both stores: the transaction's own rows, late ones, batches without data, and all of it taken back
SELECT create_query('rb_w_' || store, $$ SELECT to_char(lower(w), 'MI') AS minute, k, count(*) AS n
	FROM (SELECT k, tumble(ts, '1 minute') AS w FROM rb) s GROUP BY w, k $$, sink => 'rb_w_' || store, options => jsonb_build_object('state_store', store))
FROM rb_stores;
CREATE FUNCTION windows(store text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q text := 'rb_w_' || store;
BEGIN
	RETURN NEXT is(step(q), NULL, store || ': without a row there is nothing to do');
	INSERT INTO rb VALUES (1, at('00:05')), (1, at('00:50')), (2, at('00:30'));
	RETURN NEXT is(step(q), '0: 3 in, 0 late, 0 out, none then 00:40', store || ': rows of the transaction are read');
	RETURN NEXT is(step(q), '1: 0 in, 0 late, 0 out, 00:40 then 00:40', store || ': the watermark asks for a batch without data');
	RETURN NEXT is(step(q), NULL, store || ': and then there is nothing to do');
	INSERT INTO rb VALUES (1, at('01:30')), (3, at('01:05'));
	RETURN NEXT is(step(q), '2: 2 in, 0 late, 0 out, 00:40 then 01:20', store || ': only the new rows are read');
	RETURN NEXT is(step(q), '3: 0 in, 0 late, 2 out, 01:20 then 01:20', store || ': the first minute is closed');
	RETURN NEXT results_eq(format('SELECT * FROM %I ORDER BY 1, 2', q), $r$ VALUES ('00', 1, 2::bigint), ('00', 2, 1) $r$, store || ': with the rows of both batches');
	INSERT INTO rb VALUES (2, at('00:59')), (3, at('01:06'));
	RETURN NEXT is(step(q), '4: 2 in, 1 late, 0 out, 01:20 then 01:20', store || ': a row of it is late now');
	INSERT INTO rb VALUES (9, at('03:00'));
	RETURN NEXT is(step(q), '5: 1 in, 0 late, 0 out, 01:20 then 02:50', store || ': the clock of the events moves');
	RETURN NEXT is(step(q), '6: 0 in, 0 late, 2 out, 02:50 then 02:50', store || ': the second minute is closed');
	RETURN NEXT is((SELECT n FROM run_query_rows(q) WHERE k = 3), 2::bigint, store || ': without the late row');
	RETURN NEXT is((SELECT count(*) FROM recent_progress(q)), 7::bigint, store || ': the progress has them all');
END $$;
CREATE FUNCTION run_query_rows(name text) RETURNS TABLE (k int, n bigint) LANGUAGE plpgsql AS
	$$ BEGIN RETURN QUERY EXECUTE format('SELECT k, n FROM %I', name); END $$;
BEGIN;
SELECT windows('rocksdb');
ROLLBACK;
BEGIN;
SELECT windows('table');
ROLLBACK;
SELECT is_empty('TABLE rb_w_rocksdb', 'after ROLLBACK no row is in the sink'), is(records('rb_w_rocksdb') + records('rb_w_table'), 0::bigint, 'no batch has run'),
	is_empty('TABLE rb', 'and none is in the stream');
BEGIN;
SELECT windows('rocksdb');
ROLLBACK;

-- COMMIT: a worker goes on, behind what was read, and in the middle of the transaction's rows
SELECT create_query('rb_n_' || store, 'SELECT k, count(*) AS n, min(ts) AS first FROM rb GROUP BY k', sink => 'rb_n_' || store, output_mode => 'update',
	options => jsonb_build_object('state_store', store))
FROM rb_stores;
BEGIN;
INSERT INTO rb SELECT k % 3, at('00:00') + k * interval '1 s' FROM generate_series(1, 9) k;
SELECT is(step('rb_n_' || store), '0: 9 in, 0 late, 3 out, none then 59:59', store || ': a batch that will be committed') FROM rb_stores;
INSERT INTO rb SELECT k % 3, at('01:00') + k * interval '1 s' FROM generate_series(1, 3) k;
COMMIT;
SELECT start_query('rb_n_' || store) FROM rb_stores;
SELECT process_all_available('rb_n_' || store, '60 s') FROM rb_stores;
SELECT results_eq(format('SELECT k, n FROM rb_n_%s ORDER BY 1', store), 'VALUES (0, 4::bigint), (1, 4), (2, 4)', store || ': the worker reads the rest, once') FROM rb_stores;
INSERT INTO rb VALUES (7, at('02:00'));
SELECT process_all_available('rb_n_' || store, '60 s') FROM rb_stores;
SELECT is_empty(differs('rb_n_' || store, 'rb_n_' || store), store || ': and what comes later') FROM rb_stores;
-- a session between two runs of the worker, rolled back and committed; the rows of other transactions too
SELECT stop_query('rb_n_' || store) FROM rb_stores;
INSERT INTO rb VALUES (7, at('02:01')), (8, at('02:01'));
BEGIN;
INSERT INTO rb VALUES (7, at('02:02'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_n_' || store)), '(3,2)', store || ': what was there and what is new') FROM rb_stores;
SELECT is((SELECT n FROM run_query_rows('rb_n_' || store) WHERE k = 7), 3::bigint, store || ': the worker''s state is found') FROM rb_stores;
ROLLBACK;
BEGIN;
INSERT INTO rb VALUES (8, at('02:03'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_n_' || store)), '(3,2)', store || ': the same after a rollback') FROM rb_stores;
COMMIT;
SELECT start_query('rb_n_' || store) FROM rb_stores;
INSERT INTO rb VALUES (0, at('02:04'));
SELECT process_all_available('rb_n_' || store, '60 s') FROM rb_stores;
SELECT is_empty(differs('rb_n_' || store, 'rb_n_' || store), store || ': the worker has all of it again') FROM rb_stores;
SELECT is((SELECT count(*) FROM streamx.failures WHERE query LIKE 'rb\_n\_%'), 0::bigint, 'nothing failed');

-- while the worker runs
SELECT throws_ok($$ SELECT run_batch('rb_n_table') $$, '55006', 'query "rb_n_table" is run by its worker', 'a session does not take a query from its worker');
SELECT throws_ok($$ SELECT advance_time('rb_n_table', now()) $$, '55006', NULL, 'nor sets its clock');
BEGIN;
SELECT stop_query('rb_n_table');
INSERT INTO rb VALUES (5, at('02:05'));
SELECT is((run_batch('rb_n_table')).output_rows, 1::bigint, 'stopped in the same transaction it can be stepped');
ROLLBACK;
INSERT INTO rb VALUES (5, at('02:06'));
SELECT process_all_available('rb_n_table', '60 s');
SELECT is((SELECT n FROM rb_n_table WHERE k = 5), 1::bigint, 'and after ROLLBACK the worker goes on');
SELECT drop_query('rb_n_' || store) FROM rb_stores;
DROP TABLE rb_n_rocksdb, rb_n_table;

-- savepoints
SELECT create_query('rb_s', 'SELECT k, count(*) AS n FROM rb WHERE ts >= ''2024-02-01Z'' GROUP BY k', sink => 'rb_s', output_mode => 'update');
CREATE FUNCTION day(n int) RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2024-02-01Z'::timestamptz + n * interval '1 day' $$;
BEGIN;
INSERT INTO rb VALUES (1, day(0));
SELECT is((run_batch('rb_s')).output_rows, 1::bigint, 'a batch before the savepoint');
INSERT INTO rb VALUES (2, day(0));
SAVEPOINT a;
INSERT INTO rb VALUES (1, day(1)), (3, day(1));
SELECT is((run_batch('rb_s')).input_rows, 3::bigint, 'one behind it reads all that is new');
SAVEPOINT b;
INSERT INTO rb VALUES (1, day(1));
SELECT is((run_batch('rb_s')).input_rows, 1::bigint, 'and another one');
ROLLBACK TO a;
SELECT results_eq('SELECT k, n FROM rb_s', 'VALUES (1, 1::bigint)', 'ROLLBACK TO takes the results back');
SELECT is((run_batch('rb_s')).input_rows, 1::bigint, 'what was inserted before the savepoint is to be read again');
INSERT INTO rb VALUES (1, day(2));
SELECT is((run_batch('rb_s')).input_rows, 1::bigint, 'and what comes after it');
SELECT results_eq('SELECT k, n FROM rb_s ORDER BY 1', 'VALUES (1, 2::bigint), (2, 1)', 'the state went back as well');
SAVEPOINT c;
INSERT INTO rb VALUES (4, day(3));
RELEASE c;
SELECT is((run_batch('rb_s')).input_rows, 1::bigint, 'rows of a subtransaction count');
INSERT INTO rb VALUES (4, day(3));
COMMIT;
SELECT start_query('rb_s');
SELECT process_all_available('rb_s', '60 s');
SELECT is_empty(differs('rb_s', 'rb_s'), 'a worker goes on behind it all');
SELECT drop_query('rb_s');
DROP TABLE rb_s;

-- all of it in one transaction: streams that feed each other, a union, a static table, a stream as sink
BEGIN;
SELECT create_stream('rb_a', 'k int, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('rb_b', 'k int, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_stream('rb_m', 'k int, name text');
CREATE TABLE rb_names (k int, name text);
INSERT INTO rb_names VALUES (1, 'one'), (2, 'two');
SELECT create_query('rb_1', 'SELECT k, name FROM (SELECT * FROM rb_a UNION ALL SELECT * FROM rb_b) u JOIN rb_names USING (k)', sink => 'rb_m');
SELECT create_query('rb_2', 'SELECT name, count(*) AS n FROM rb_m GROUP BY name', sink => 'rb_2', output_mode => 'complete');
INSERT INTO rb_a VALUES (1, at('00:01')), (2, at('00:02'));
INSERT INTO rb_b VALUES (1, at('00:01')), (3, at('00:02'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_1')), '(4,3)', 'several streams are read');
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_2')), '(3,2)', 'the next query reads what this one has written');
INSERT INTO rb_b VALUES (2, at('00:03'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_1')), '(1,1)', 'one of them has a new row');
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_2')), '(1,2)', 'which comes through');
SELECT results_eq('SELECT name, n FROM rb_2 ORDER BY 1', $$ VALUES ('one', 2::bigint), ('two', 2) $$, 'the result');
SELECT is(run_batch('rb_2'), NULL, 'all is done');
ROLLBACK;
SELECT hasnt_table('rb_names'), is((SELECT count(*) FROM streamx.queries WHERE name IN ('rb_1', 'rb_2')), 0::bigint, 'nothing is left of it');

-- processing time
SELECT create_query('rb_t', $$ SELECT k, now() AS now, current_timestamp(0) AS c, current_date AS d, localtimestamp AS l FROM rb WHERE k >= 50 AND ts > now() - interval '1 hour' $$, sink => 'rb_t');
BEGIN;
SELECT advance_time('rb_t', '2024-01-01 01:00:00.25Z');
INSERT INTO rb VALUES (50, at('00:30')), (51, '2023-12-31 23:00Z');
SELECT is((SELECT (batch_timestamp, output_rows)::text FROM run_batch('rb_t')), '("2024-01-01 01:00:00.25+00",1)', 'the batch has the time that was set');
SELECT results_eq('TABLE rb_t', $$ VALUES (50, '2024-01-01 01:00:00.25Z'::timestamptz, '2024-01-01 01:00Z'::timestamptz, '2024-01-01'::date, '2024-01-01 01:00:00.25'::timestamp) $$, 'and the query has it');
SELECT throws_ok($$ SELECT advance_time('rb_t', '2024-01-01 00:59Z') $$, '22023', 'processing time of query "rb_t" cannot go back', 'it does not go back');
SELECT throws_ok($$ SELECT advance_time('rb_t', 'infinity') $$, '22023', NULL, 'nor to the end');
SAVEPOINT a;
SELECT advance_time('rb_t', '2024-01-01 03:00Z');
INSERT INTO rb VALUES (52, at('30:00'));
SELECT is((run_batch('rb_t')).output_rows, 0::bigint, 'what is an hour old is too old');
ROLLBACK TO a;
INSERT INTO rb VALUES (52, at('30:00'));
SELECT is((SELECT (batch_timestamp, output_rows)::text FROM run_batch('rb_t')), '("2024-01-01 01:00:00.25+00",1)', 'ROLLBACK TO sets the clock back');
ROLLBACK;
BEGIN;
INSERT INTO rb VALUES (53, now());
SELECT is((run_batch('rb_t')).batch_timestamp, now(), 'by itself it is the time of the transaction');
SELECT is(streamx.batch_timestamp(), now(), 'as it is outside of a batch');
SELECT throws_ok($$ SELECT advance_time('rb_t', now() - interval '1 s') $$, '22023', NULL, 'nor does it go behind a batch');
ROLLBACK;
SELECT drop_query('rb_t');
DROP TABLE rb_t;
-- rows that a generator has by the clock; a stream that sleeps
BEGIN;
CREATE FOREIGN TABLE rb_rate (timestamp timestamptz, value bigint) SERVER streamx OPTIONS (connector 'rate', rows_per_second '10');
SELECT create_query('rb_r', 'SELECT value FROM rb_rate', sink => 'rb_r');
SELECT advance_time('rb_r', '2024-01-01Z');
SELECT is(run_batch('rb_r'), NULL, 'no second has passed');
SELECT advance_time('rb_r', '2024-01-01 00:00:02Z');
SELECT is((run_batch('rb_r')).output_rows, 20::bigint, 'two seconds, ten rows each');
SELECT create_stream('rb_a', 'k int, ts timestamptz, WATERMARK FOR ts AS ts'), create_stream('rb_b', 'k int, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('rb_i', 'SELECT k, count(*) AS n FROM (SELECT k, tumble(ts, ''1 minute'') AS w FROM (SELECT * FROM rb_a UNION ALL SELECT * FROM rb_b) u) s GROUP BY k, w',
	sink => 'rb_i', options => '{"idle_timeout": "1 minute", "max_future_skew": "off"}');
SELECT advance_time('rb_i', '2024-01-01Z');
INSERT INTO rb_a VALUES (1, '2024-01-01 00:00Z'), (1, '2024-01-01 00:10Z');
SELECT is((SELECT (input_rows, next_watermark)::text FROM run_batch('rb_i')), '(2,)', 'a stream without rows holds the watermark');
SELECT is(run_batch('rb_i'), NULL, 'and nothing is owed');
SELECT advance_time('rb_i', '2024-01-01 00:02Z');
INSERT INTO rb_a VALUES (1, '2024-01-01 00:10Z');
SELECT is((SELECT (input_rows, next_watermark)::text FROM run_batch('rb_i')), '(1,"2024-01-01 00:10:00+00")', 'until it is taken to sleep');
SELECT is((run_batch('rb_i')).output_rows, 1::bigint, 'and the window is closed');
ROLLBACK;

-- the clock of a join's condition; its state goes back with a savepoint
BEGIN;
SELECT create_stream('rb_a', 'k int, ts timestamptz, WATERMARK FOR ts AS ts'), create_stream('rb_b', 'k int, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('rb_j', $$ SELECT a.k, b.ts FROM rb_a a JOIN rb_b b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval '1 hour'
	AND greatest(a.ts, b.ts) < now() + a.k * interval '0 s' $$, sink => 'rb_j', options => '{"max_future_skew": "off"}');
SELECT advance_time('rb_j', at('10:00'));
INSERT INTO rb_a VALUES (1, at('05:00')), (2, at('05:00'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_j')), '(2,0)', 'one side of a join');
SAVEPOINT a;
INSERT INTO rb_b VALUES (1, at('06:00')), (2, at('12:00'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_j')), '(2,1)', 'the other side, of which one row is of the future');
ROLLBACK TO a;
SELECT advance_time('rb_j', at('13:00'));
INSERT INTO rb_b VALUES (1, at('06:00')), (2, at('12:00'));
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_j')), '(2,2)', 'and now of the past');
ROLLBACK;

-- errors are the session's, and leave the query as it was
SELECT create_query('rb_e', 'SELECT k, 100 / k AS part FROM rb WHERE ts >= ''2024-03-01Z''', sink => 'rb_e');
SELECT create_query('rb_q', 'SELECT k, 100 / k AS part FROM rb WHERE ts >= ''2024-03-01Z''', sink => 'rb_q', options => '{"on_error": "quarantine"}');
BEGIN;
INSERT INTO rb VALUES (5, '2024-03-01Z');
SELECT is((run_batch('rb_e')).batch_id, 0::bigint, 'a good batch');
SAVEPOINT a;
INSERT INTO rb VALUES (0, '2024-03-01Z');
SELECT throws_ok($$ SELECT run_batch('rb_e') $$, '22012', 'division by zero', 'the error of a batch is raised');
SELECT throws_ok($$ SELECT run_batch('rb_e') $$, '22012', 'division by zero', 'again, when it is run again');
ROLLBACK TO a;
INSERT INTO rb VALUES (4, '2024-03-01Z');
SELECT is((SELECT (batch_id, output_rows)::text FROM run_batch('rb_e')), '(1,1)', 'without the row it goes on');
SELECT results_eq('SELECT part FROM rb_e ORDER BY 1', 'VALUES (20), (25)', 'with all results');
INSERT INTO rb VALUES (0, '2024-03-01Z'), (10, '2024-03-01Z');
SELECT is((SELECT (output_rows, progress ->> 'numQuarantinedRows')::text FROM run_batch('rb_q')), '(3,1)', 'with on_error => quarantine the row is put aside');
SELECT is((SELECT message FROM streamx.quarantine WHERE query = 'rb_q'), 'division by zero', 'in the same transaction');
SELECT is(requeue('rb_q', (SELECT array_agg(id) FROM streamx.quarantine WHERE query = 'rb_q'), data => '{"k": 2, "ts": "2024-03-02T00:00:00Z"}'), 1::bigint, 'mended');
SELECT is((run_batch('rb_q')).output_rows, 1::bigint, 'it comes with the next batch');
SELECT results_eq('SELECT part FROM rb_q ORDER BY 1', 'VALUES (10), (20), (25), (50)', 'and then all is there');
-- an altered query is another one from the next batch on
SELECT alter_query('rb_e', query => 'SELECT k, 1000 / k AS part FROM rb WHERE ts >= ''2024-03-01Z'' AND k > 0');
SELECT is((SELECT (input_rows, output_rows)::text FROM run_batch('rb_e')), '(2,1)', 'an altered query goes on where the old one was');
SELECT is((SELECT max(part) FROM rb_e), 100, 'with its new SELECT');
ROLLBACK;
SELECT is_empty('TABLE rb_e', 'nothing of it stays'), is_empty($$ SELECT * FROM streamx.quarantine WHERE query = 'rb_q' $$, 'in quarantine neither');
SELECT throws_ok($$ INSERT INTO rb SELECT (run_batch('rb_e')).batch_id, now() $$, '55006', NULL, 'not while the stream is being written');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT throws_ok($$ SELECT run_batch('rb_e') $$, '0A000', 'run_batch() needs isolation level READ COMMITTED', 'a snapshot that stays is refused');
ROLLBACK;
BEGIN READ ONLY;
SELECT throws_ok($$ SELECT run_batch('rb_e') $$, '25006', NULL, 'so is a read-only transaction');
ROLLBACK;
SELECT throws_ok($$ SELECT run_batch('rb_none') $$, '42704', NULL, 'the query must exist');
SELECT throws_ok($$ SELECT run_batch(NULL) $$, '22004', NULL, 'and be named');
SELECT create_query('rb_d', 'SELECT k FROM rb', sink => 'directory', options => '{"directory": "/tmp"}');
SELECT throws_ok($$ SELECT run_batch('rb_d') $$, '0A000', 'query "rb_d" writes outside PostgreSQL', 'sinks outside are refused');
BEGIN;
SELECT alter_query('rb_d', sink => 'rb_d', options => '{"directory": null}');
INSERT INTO rb VALUES (1, now());
SELECT ok((run_batch('rb_d')).output_rows > 0, 'and can be replaced for the time of a transaction');
ROLLBACK;
BEGIN;
CREATE SERVER rb_broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers 'b:1');
CREATE FOREIGN TABLE rb_topic (k int) SERVER rb_broker OPTIONS (topic 't', format 'json');
SELECT create_query('rb_k', 'SELECT k FROM rb_topic', sink => 'rb_k');
SELECT throws_ok($$ SELECT run_batch('rb_k') $$, '0A000', 'query "rb_k" reads from Kafka', 'topics are not read');
SELECT create_query('rb_k2', 'SELECT k FROM rb', sink => 'rb_topic');
SELECT throws_ok($$ SELECT run_batch('rb_k2') $$, '0A000', 'query "rb_k2" writes outside PostgreSQL', 'nor written');
ROLLBACK;
SELECT drop_query(q) FROM unnest('{rb_d,rb_e,rb_q}'::text[]) q;
DROP TABLE rb_e, rb_q;

-- other roles: what runs has the owner's rights
CREATE ROLE rb_owner LOGIN;
CREATE ROLE rb_other;
GRANT CREATE, USAGE ON SCHEMA public TO rb_owner;
GRANT SELECT, INSERT ON rb TO rb_owner;
SET ROLE rb_owner;
SELECT create_query('rb_u', 'SELECT k, current_user::text AS who FROM rb WHERE ts >= ''2024-04-01Z''', sink => 'rb_u');
CREATE TABLE rb_seen (batch_id bigint, k int);
CREATE FUNCTION rb_take(bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO rb_seen SELECT $1, k FROM batch; END';
SELECT create_query('rb_f', 'SELECT k FROM rb WHERE ts >= ''2024-04-01Z''', foreach_batch => 'rb_take(bigint)');
RESET ROLE;
BEGIN;
INSERT INTO rb VALUES (1, '2024-04-01Z');
SET ROLE rb_other;
SELECT throws_ok($$ SELECT run_batch('rb_u') $$, '42501', 'must be owner of query "rb_u"', 'others may not run it');
RESET ROLE;
SELECT is((run_batch('rb_u')).output_rows, 1::bigint, 'a superuser may');
SELECT is((SELECT who FROM rb_u), 'rb_owner', 'it runs as the owner'), is(current_user::text, session_user::text, 'and then the session is who it was');
SELECT throws_ok($$ SELECT run_batch('rb_f') $$, '42501', 'only its owner can run a batch of query "rb_f"', 'a function is for its owner to call');
SET LOCAL ROLE rb_owner;
SELECT is((run_batch('rb_f')).batch_id, 0::bigint, 'who calls it');
INSERT INTO rb VALUES (2, '2024-04-01Z');
SAVEPOINT a;
SELECT is((run_batch('rb_f')).batch_id, 1::bigint, 'batch by batch');
ROLLBACK TO a;
INSERT INTO rb VALUES (3, '2024-04-01Z');
SELECT is((run_batch('rb_f')).batch_id, 1::bigint, 'also after a savepoint');
SELECT results_eq('SELECT batch_id, k FROM rb_seen ORDER BY 1, 2', 'VALUES (0::bigint, 1), (1, 2), (1, 3)', 'with the rows of each');
ROLLBACK;
CREATE TEMPORARY TABLE batch (mine int);
SET ROLE rb_owner;
BEGIN;
INSERT INTO rb VALUES (1, '2024-04-01Z');
SELECT throws_ok($$ SELECT run_batch('rb_f') $$, '42P07', NULL, 'the user''s own table of that name is not touched');
ROLLBACK;
RESET ROLE;
DROP TABLE pg_temp.batch;
SELECT drop_query('rb_u'), drop_query('rb_f');
DROP TABLE rb_u, rb_seen;
DROP FUNCTION rb_take;
REVOKE ALL ON SCHEMA public FROM rb_owner;
REVOKE ALL ON rb FROM rb_owner;
DROP ROLE rb_owner, rb_other;

-- what a batch calls cannot take its own query away, nor run another one's batch
CREATE FUNCTION rb_try(call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE call;
	RETURN 'went through';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ' ' || SQLERRM;
END $$;
SELECT create_query('rb_other', 'SELECT k FROM rb', sink => 'noop');
SELECT create_query('rb_own', $q$SELECT k, c.call, rb_try(c.call) AS told FROM rb, (VALUES
	(1, 'SELECT run_batch(''rb_other'')'), (2, 'SELECT advance_time(''rb_own'', now())'), (3, 'SELECT start_query(''rb_own'', reset_state => true)'),
	(4, 'SELECT stop_query(''rb_own'')'), (5, 'SELECT alter_query(''rb_own'', trigger => ''1 second'')'), (6, 'SELECT drop_query(''rb_own'')'),
	(7, 'DROP FUNCTION rb_try CASCADE'), (8, 'DROP EXTENSION streamx CASCADE'), (9, 'SELECT start_query(''rb_other'')')) c(n, call)
	WHERE k = 77 AND ts >= '2024-06-01Z' AND n > 0$q$, sink => 'rb_calls_sink');
BEGIN;
INSERT INTO rb VALUES (77, '2024-06-01Z');
SELECT is((run_batch('rb_own')).output_rows, 9::bigint, 'a batch that calls what would end its query goes on');
SELECT results_eq('SELECT told FROM rb_calls_sink ORDER BY call COLLATE "C"', $$ VALUES
	('55006 continuous queries cannot be ended from within a batch of one'),
	('55006 query "rb_own" cannot be started, stopped, altered or dropped from within its own batch'),
	('55006 advance_time() cannot be called from within a batch'),
	('55006 query "rb_own" cannot be started, stopped, altered or dropped from within its own batch'),
	('55006 query "rb_own" cannot be started, stopped, altered or dropped from within its own batch'),
	('55006 run_batch() cannot be called from within a batch'),
	('went through'),
	('55006 query "rb_own" cannot be started, stopped, altered or dropped from within its own batch'),
	('55006 query "rb_own" cannot be started, stopped, altered or dropped from within its own batch') $$, 'and each call says why not');
ROLLBACK;
SELECT drop_query('rb_own'), drop_query('rb_other');
DROP TABLE rb_calls_sink;
DROP FUNCTION rb_try;

-- a store that a worker left: it is behind after a session's batches, and catches up
SELECT create_query('rb_c_' || store, 'SELECT k, count(*) AS n, max(ts) AS last, max(repeat(''x'', 300)) AS fill FROM rb WHERE k >= 1000 GROUP BY k', sink => 'noop', output_mode => 'update',
	options => jsonb_build_object('state_store', store, 'state_memory', '1MB', 'max_future_skew', 'off'))
FROM rb_stores;
INSERT INTO rb SELECT k, '2025-01-01Z' FROM generate_series(1000, 8999) k;
SELECT start_query('rb_c_' || store) FROM rb_stores;
SELECT process_all_available('rb_c_' || store, '60 s') FROM rb_stores;
SELECT stop_query('rb_c_' || store) FROM rb_stores;
BEGIN;
INSERT INTO rb SELECT k, '2025-01-02Z' FROM generate_series(1000, 5999) k;
SELECT is((run_batch('rb_c_' || store)).output_rows, 5000::bigint, store || ': a rolled back batch over a state that was partly in the store') FROM rb_stores;
ROLLBACK;
BEGIN;
INSERT INTO rb SELECT k, '2025-01-03Z' FROM generate_series(1000, 3999) k;
SELECT is((run_batch('rb_c_' || store)).output_rows, 3000::bigint, store || ': a committed one') FROM rb_stores;
COMMIT;
SELECT alter_query('rb_c_' || store, sink => 'rb_c_' || store, query => 'SELECT k, count(*) AS n, max(ts) AS last, max(repeat(''x'', 300)) AS fill FROM rb WHERE k >= 1000 GROUP BY k') FROM rb_stores;
SELECT start_query('rb_c_' || store) FROM rb_stores;
INSERT INTO rb SELECT k, '2025-01-04Z' FROM generate_series(1000, 8999) k;
SELECT process_all_available('rb_c_' || store, '60 s') FROM rb_stores;
SELECT is_empty(differs('rb_c_' || store, 'rb_c_' || store), store || ': the worker''s state has both') FROM rb_stores;
SELECT drop_query('rb_c_' || store) FROM rb_stores;
DROP TABLE rb_c_rocksdb, rb_c_table;

SELECT drop_query('rb_w_' || store) FROM rb_stores;
DROP TABLE rb_w_rocksdb, rb_w_table;
DROP VIEW rb_stores;
DROP FOREIGN TABLE rb;
DROP FUNCTION step, windows, run_query_rows, at, day, differs, records;
SELECT * FROM finish();
