-- streamx.state: what the operators keep, as of the last batch or an older one, read
-- beside the running query, and what each batch changed.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

-- a windowed count and sum, in both stores; batches 0 to 4
CREATE FOREIGN TABLE sr (k text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
SELECT create_query('sr_' || store, 'SELECT tumble(ts, ''10 seconds'') AS w, k, count(*) AS n, sum(v) AS s, sum(v) FILTER (WHERE v > 1) AS big FROM sr GROUP BY w, k',
	sink => 'sr_' || store, options => jsonb_build_object('state_store', store, 'max_future_skew', 'off'))
	FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
SELECT start_query('sr_' || store) FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
CREATE PROCEDURE sr_step(VARIADIC rows text[]) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sr SELECT split_part(r, ' ', 1), split_part(r, ' ', 2)::int, '2026-01-15 10:00:00+00'::timestamptz + split_part(r, ' ', 3)::interval FROM unnest(rows) r;
	COMMIT;
	PERFORM process_all_available('sr_rocksdb');
	PERFORM process_all_available('sr_table');
END $$;
CALL sr_step('a 1 1s', 'a 2 2s', 'b 5 3s');
CALL sr_step('a 4 4s', 'c 7 12s');
CALL sr_step('d 1 41s');

SELECT is(streamx.state('sr_rocksdb')::text, streamx.state('sr_table')::text, 'one key is left, in either store');
SELECT results_eq($$ SELECT key, value, expires_at FROM streamx.state('sr_rocksdb') $$,
	$$ SELECT '{"k": "d", "w": "[\"2026-01-15 10:00:40+00\",\"2026-01-15 10:00:50+00\")"}'::jsonb, '{"sum": 1, "count": 1, "sum_2": null}'::jsonb, '2026-01-15 10:00:50+00'::timestamptz $$,
	'its key and its values by name');
SELECT results_eq($$ SELECT key ->> 'k', value ->> 'count', value ->> 'sum', value ->> 'sum_2', expires_at - '2026-01-15 10:00:00+00' FROM streamx.state('sr_table', batch_id => 0) ORDER BY 1 $$,
	$$ VALUES ('a', '2', '3', '2', interval '10 s'), ('b', '1', '5', '5', '10 s') $$, 'the state after the first batch');
SELECT set_config('sr.last', (SELECT max(batch_id)::text FROM streamx.progress WHERE query = 'sr_table'), false) \g /dev/null
SELECT results_eq(format($$ SELECT key ->> 'k', (value ->> 'count')::int FROM streamx.state('sr_%s', batch_id => %s) ORDER BY 1 $$, store, batch_id),
	format($$ SELECT k, n::int FROM (VALUES ('a', 3), ('b', 1), ('c', 1)) x(k, n) $$), format('and after the second one (%s)', store))
	FROM (SELECT replace(query, 'sr_', '') AS store, max(batch_id) AS batch_id FROM streamx.progress WHERE query IN ('sr_rocksdb', 'sr_table') AND input_rows = 2 GROUP BY 1) p ORDER BY store;
SELECT is_empty($$ SELECT key, value FROM streamx.state('sr_table', batch_id => 0, snapshot_start_batch_id => 0) EXCEPT SELECT key, value FROM streamx.state('sr_table', batch_id => 0) $$, 'from a snapshot and the changes after it');
SELECT results_eq($$ SELECT s.key_group = g.key_group AND s.key = g.key FROM streamx.state('sr_table', batch_id => 0) s, LATERAL streamx.state('sr_table', batch_id => 0, group_id => s.key_group) g WHERE s.key = g.key $$,
	$$ VALUES (true), (true) $$, 'a key group alone');
SELECT results_eq($$ SELECT lower(k.w), k.k, v.count FROM streamx.state('sr_table', batch_id => 0), jsonb_to_record(key) k(w tstzrange, k text), jsonb_to_record(value) v(count bigint) ORDER BY 2 $$,
	$$ VALUES ('2026-01-15 10:00:00+00'::timestamptz, 'a', 2::bigint), ('2026-01-15 10:00:00+00', 'b', 1) $$, 'with the query''s own types again');

-- one snapshot: the rows of the sink and the state are of one batch
SELECT is((SELECT sum(n) FROM sr_table)::bigint + (SELECT sum((value ->> 'count')::bigint) FROM streamx.state('sr_table'))::bigint, 6::bigint, 'no row is in neither or in both');

-- changes: as Spark's change feed
SELECT results_eq(format($$ SELECT change_type, key ->> 'k', value ->> 'count' FROM streamx.state_changes('%s', 0) ORDER BY batch_id, change_type DESC, 2 $$, q),
	$$ VALUES ('update', 'a', '2'), ('update', 'b', '1'), ('update', 'a', '3'), ('update', 'c', '1'), ('update', 'd', '1'), ('delete', 'a', NULL), ('delete', 'b', NULL), ('delete', 'c', NULL) $$,
	'every change, and what the watermark dropped: ' || q) FROM unnest('{sr_rocksdb,sr_table}'::text[]) q;
SELECT results_eq($$ SELECT change_type, key ->> 'k', value ->> 'count' FROM streamx.state_changes('sr_table', 0, 0) ORDER BY 2 $$,
	$$ VALUES ('update', 'a', '2'), ('update', 'b', '1') $$, 'of the first batch only');
SELECT results_eq($$ SELECT DISTINCT c.change_type, c.key ->> 'k' FROM streamx.progress p, streamx.state_changes('sr_table', p.batch_id) c
	WHERE p.query = 'sr_table' AND p.batch_id = (SELECT max(batch_id) FROM streamx.progress WHERE query = 'sr_table') ORDER BY 2 $$,
	$$ VALUES ('delete', 'a'), ('delete', 'b'), ('delete', 'c') $$, 'the last batch dropped the closed windows');

-- metadata
SELECT results_eq($$ SELECT operator_id, operator, store, key_groups, min_batch_id, properties FROM streamx.state_metadata('sr_table') $$,
	$$ VALUES (0, 'stateStoreSave', 'default', 256, 0::bigint, '{"key": {"k": "text", "w": "tstzrange"}, "value": {"sum": "bigint", "count": "bigint", "sum_2": "bigint"}}'::jsonb) $$, 'what there is to read');
SELECT is((SELECT max_batch_id FROM streamx.state_metadata('sr_table')), (SELECT max(batch_id) FROM streamx.progress WHERE query = 'sr_table'), 'up to the last batch');

-- panes, keys that are equal with other bytes, dedup, limit, a global aggregate, two operators
CREATE FOREIGN TABLE sr2 (n numeric, f float8, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
SELECT create_query(name, query, sink => name, output_mode => mode, options => '{"max_future_skew": "off"}') FROM (VALUES
	('sr_hop', 'SELECT hop(ts, ''10 seconds'', ''5 seconds'') AS w, count(*) AS n FROM sr2 GROUP BY w', 'append'),
	('sr_num', 'SELECT n, count(*) AS c, string_agg(v::text, '','') AS vs FROM sr2 GROUP BY n', 'update'),
	('sr_float', 'SELECT f, sum(v) AS c FROM sr2 GROUP BY f', 'update'),
	('sr_global', 'SELECT max(v) AS m, avg(v) AS a FROM sr2', 'complete'),
	('sr_dedup', 'SELECT DISTINCT ON (n) n, v FROM sr2', 'append'),
	('sr_within', 'SELECT DISTINCT ON (within_watermark(v)) v, ts FROM sr2', 'append'),
	('sr_limit', 'SELECT v FROM sr2 LIMIT 3', 'append'),
	('sr_chain', 'SELECT tumble(ts, ''10 seconds'') AS w, count(*) AS n FROM (SELECT DISTINCT ON (v, ts) v, ts FROM sr2) d GROUP BY w', 'append'),
	('sr_none', 'SELECT v FROM sr2', 'append')) q(name, query, mode) \g /dev/null
SELECT start_query(name) FROM streamx.queries WHERE name IN ('sr_hop', 'sr_num', 'sr_float', 'sr_global', 'sr_dedup', 'sr_within', 'sr_limit', 'sr_chain', 'sr_none') \g /dev/null
INSERT INTO sr2 VALUES (1.0, 0, 1, '2026-01-15 10:00:01+00'), (1.00, '-0', 2, '2026-01-15 10:00:06+00'), (NULL, 'NaN', 3, '2026-01-15 10:00:07+00'), (2, 'NaN', 3, '2026-01-15 10:00:07+00');
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'sr\_%' \g /dev/null
INSERT INTO sr2 VALUES (1.000, 0, 4, '2026-01-15 10:00:02+00');
SELECT process_all_available(name) FROM streamx.queries WHERE name LIKE 'sr\_%' \g /dev/null
SELECT results_eq($$ SELECT key ->> 'w', value FROM streamx.state('sr_hop') ORDER BY 1 $$,
	$$ VALUES ('["2026-01-15 10:00:00+00","2026-01-15 10:00:05+00")', '{"count": 2}'::jsonb), ('["2026-01-15 10:00:05+00","2026-01-15 10:00:10+00")', '{"count": 3}') $$, 'panes of sliding windows');
SELECT results_eq($$ SELECT key::text, value FROM streamx.state('sr_num') ORDER BY 1 $$,
	$$ VALUES ('{"n": 1.0}', '{"count": 3, "string_agg": "1,2,4"}'::jsonb), ('{"n": 2}', '{"count": 1, "string_agg": "3"}'), ('{"n": null}', '{"count": 1, "string_agg": "3"}') $$, 'numbers of any scale are one key, as it came first');
SELECT results_eq($$ SELECT key::text, value ->> 'sum' FROM streamx.state('sr_float') ORDER BY 1 $$, $$ VALUES ('{"f": "NaN"}', '6'), ('{"f": 0}', '7') $$, 'both zeros are one');
SELECT results_eq($$ SELECT key, value ->> 'max', round((value ->> 'avg')::numeric, 2) FROM streamx.state('sr_global') $$, $$ VALUES ('{}'::jsonb, '4', 2.60) $$, 'no key');
SELECT results_eq($$ SELECT key::text, value, expires_at FROM streamx.state('sr_dedup') ORDER BY 1 $$, $$ VALUES ('{"n": 1.0}', '{}'::jsonb, NULL::timestamptz), ('{"n": 2}', '{}', NULL), ('{"n": null}', '{}', NULL) $$, 'keys that were seen');
SELECT results_eq($$ SELECT key ->> 'v', expires_at - '2026-01-15 10:00:00+00' FROM streamx.state('sr_within') ORDER BY 1 $$, $$ VALUES ('1', interval '11 s'), ('2', '16 s'), ('3', '17 s'), ('4', '12 s') $$, 'with the time when they are forgotten');
SELECT results_eq($$ SELECT key, value FROM streamx.state('sr_limit') $$, $$ VALUES ('{}'::jsonb, '{"rows": 3}'::jsonb) $$, 'rows that a LIMIT let through');
SELECT results_eq($$ SELECT operator_id, operator, s.rows FROM streamx.state_metadata('sr_chain') m, LATERAL (SELECT count(*) AS rows FROM streamx.state('sr_chain', m.operator_id)) s ORDER BY 1 $$,
	$$ VALUES (0, 'stateStoreSave', 1::bigint), (1, 'dedupe', 4::bigint) $$, 'operators by number');

-- a join: a store per side
CREATE FOREIGN TABLE sr_l (id int, what text, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE sr_r (id int, price numeric, at timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
SELECT create_query('sr_join', 'SELECT l.id, l.what, r.price FROM sr_l l LEFT JOIN sr_r r ON l.id = r.id AND r.at BETWEEN l.ts AND l.ts + interval ''5 seconds''', 'sr_join', options => '{"max_future_skew": "off"}') \g /dev/null
SELECT start_query('sr_join') \g /dev/null
INSERT INTO sr_l VALUES (1, 'a', '2026-01-15 10:00:01+00'), (2, 'b', '2026-01-15 10:00:02+00'), (NULL, 'c', '2026-01-15 10:00:03+00');
SELECT process_all_available('sr_join') \g /dev/null
INSERT INTO sr_r VALUES (1, 1.50, '2026-01-15 10:00:03+00'), (3, 7, '2026-01-15 10:00:04+00');
SELECT process_all_available('sr_join') \g /dev/null
SELECT results_eq($$ SELECT key, value ->> 'what', (value ->> 'matched')::boolean FROM streamx.state('sr_join', store => 'left') ORDER BY 2 $$,
	$$ VALUES ('{"id": 1}'::jsonb, 'a', true), ('{"id": 2}', 'b', false), ('{"id": null}', 'c', false) $$, 'rows of the left side');
SELECT results_eq($$ SELECT key, value -> 'price' FROM streamx.state('sr_join', store => 'right') ORDER BY 1 $$,
	$$ VALUES ('{"id": 1}'::jsonb, '1.50'::jsonb), ('{"id": 3}', '7') $$, 'and of the right one');
INSERT INTO sr_l VALUES (1, 'd', '2026-01-15 10:00:04+00');
SELECT process_all_available('sr_join') \g /dev/null
SELECT results_eq($$ SELECT change_type, key ->> 'id', value ->> 'what', (value ->> 'matched')::boolean FROM streamx.state_changes('sr_join', 0, store => 'left') ORDER BY batch_id, 3 $$,
	$$ VALUES ('update', '1', 'a', false), ('update', '2', 'b', false), ('update', NULL, 'c', false), ('update', '1', 'a', true), ('update', '1', 'd', false) $$, 'its changes are those of rows, though a key has several');
SELECT results_eq($$ SELECT store FROM streamx.state_metadata('sr_join') $$, $$ VALUES ('left'), ('right') $$, 'both are in the metadata');

-- what is not there
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_none') $$, '22023', 'the query keeps no state', 'a query without state says so');
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table', 1) $$, '22023', 'the query has no stateful operator 1', 'an operator that is not there');
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table', 0, 'left') $$, '22023', 'operator 0 (stateStoreSave) has no store "left"', 'a store that is not there');
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table', batch_id => -1) $$, '22023', 'batch_id must not be negative', 'a batch before the first');
SELECT throws_like($$ SELECT * FROM streamx.state('sr_table', batch_id => 1000) $$, '%has not committed batch 1000', 'a batch to come');
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table', batch_id => 0, snapshot_start_batch_id => 1) $$, '22023', NULL, 'a snapshot after the batch');
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table', group_id => 256) $$, '22023', 'key group 256 does not exist', 'a key group that is not there');
SELECT throws_ok($$ SELECT * FROM streamx.state_changes('sr_table', 1, 0) $$, '22023', NULL, 'changes from the end to the beginning');
SELECT throws_ok($$ SELECT * FROM streamx.state_changes('sr_table', NULL) $$, '22004', NULL, 'changes from nowhere');
SELECT throws_ok($$ SELECT * FROM streamx.state('nobody') $$, '42704', NULL, 'a query that is not there');

-- rights: the owner's, and those of who may read everything
CREATE ROLE sr_role;
SET ROLE sr_role;
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table') $$, '42501', 'must be owner of query "sr_table"', 'others don''t see the state');
SELECT throws_ok($$ SELECT * FROM streamx.state_changes('sr_table', 0) $$, '42501', NULL, 'nor its changes');
SELECT throws_ok($$ SELECT * FROM streamx.state_metadata('sr_table') $$, '42501', NULL, 'nor what there would be');
RESET ROLE;
GRANT pg_monitor TO sr_role;
SET ROLE sr_role;
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_table') $$, '42501', NULL, 'who watches the server does not see rows');
SELECT lives_ok($$ SELECT * FROM streamx.state_metadata('sr_table') $$, 'but what there is');
RESET ROLE;
REVOKE pg_monitor FROM sr_role;
GRANT pg_read_all_data TO sr_role;
SET ROLE sr_role;
SELECT isnt_empty($$ SELECT * FROM streamx.state('sr_table') $$, 'who may read all data sees it');
RESET ROLE;
DROP ROLE sr_role;

-- an owner's functions run with his rights, whoever looks
CREATE ROLE sr_owner LOGIN;
GRANT CREATE ON SCHEMA public TO sr_owner;
SET ROLE sr_owner;
CREATE FUNCTION sr_final(bigint) RETURNS text LANGUAGE sql AS 'SELECT current_user::text';
CREATE AGGREGATE sr_who(*) (sfunc = int8inc, stype = bigint, initcond = '0', finalfunc = sr_final);
CREATE FOREIGN TABLE sr3 (k int) SERVER streamx;
SELECT create_query('sr_owned', 'SELECT k, sr_who(*) AS who FROM sr3 GROUP BY k', 'sr_owned', 'update') \g /dev/null
SELECT start_query('sr_owned') \g /dev/null
INSERT INTO sr3 VALUES (1);
SELECT process_all_available('sr_owned') \g /dev/null
RESET ROLE;
SELECT results_eq($$ SELECT value ->> 'sr_who' FROM streamx.state('sr_owned') $$, $$ VALUES ('sr_owner') $$, 'a superuser who looks lends them no rights');
SELECT is(current_user::text, session_user::text, 'and stays who he is');

-- a definition that does not fit the state
SELECT stop_query('sr_owned') \g /dev/null
SELECT alter_query('sr_owned', query => 'SELECT k::bigint AS k, sr_who(*) AS who FROM sr3 GROUP BY k::bigint', sink => 'sr_owned2') \g /dev/null
SELECT throws_ok($$ SELECT * FROM streamx.state('sr_owned') $$, 'SX001', NULL, 'a state of another definition is not guessed at');

SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'sr\_%' \g /dev/null
DROP FOREIGN TABLE sr, sr2, sr3, sr_l, sr_r;
DROP TABLE sr_rocksdb, sr_table, sr_hop, sr_num, sr_float, sr_global, sr_dedup, sr_within, sr_limit, sr_chain, sr_none, sr_join, sr_owned, sr_owned2;
DROP AGGREGATE sr_who(*);
DROP FUNCTION sr_final(bigint);
DROP PROCEDURE sr_step(text[]);
DROP OWNED BY sr_owner;
DROP ROLE sr_owner;
SELECT * FROM finish();
