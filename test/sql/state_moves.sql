-- A state goes with its query from one store to the other and back, with and without
-- changelog, in any order, whatever part of it is in the store.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT plan(18);

CREATE FOREIGN TABLE mv (k int, v int) SERVER streamx;
SELECT create_query('mv_q', 'SELECT k, count(*) AS n, sum(v) AS s FROM mv GROUP BY k', 'mv_out', 'update',
	options => '{"state_store": "table", "state_memory": "1MB", "batches_to_retain": 3}') \g /dev/null

-- 12,000 keys are more than 1 MB; each step touches a third of them
CREATE PROCEDURE mv_step(n int, options jsonb) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM alter_query('mv_q', options => mv_step.options);
	PERFORM start_query('mv_q');
	INSERT INTO mv SELECT i * 3 + n % 3, i % 10 + n FROM generate_series(1, 4000) i;
	COMMIT;
	PERFORM process_all_available('mv_q');
	INSERT INTO mv SELECT i, 1 FROM generate_series(1, 100) i;
	COMMIT;
	PERFORM process_all_available('mv_q');
	PERFORM stop_query('mv_q');
	COMMIT;
END $$;
CREATE VIEW mv_state AS SELECT (key ->> 'k')::int AS k, (value ->> 'count')::bigint AS n, (value ->> 'sum')::bigint AS s FROM streamx.state('mv_q');
CREATE FUNCTION mv_check(what text) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT is_empty('(TABLE mv_out EXCEPT TABLE streamx_query.mv_q) UNION ALL (TABLE streamx_query.mv_q EXCEPT TABLE mv_out)', what)
	UNION ALL
	SELECT is_empty('(TABLE mv_out EXCEPT TABLE mv_state) UNION ALL (TABLE mv_state EXCEPT TABLE mv_out)', what || ': the state is the result')
$$;

CALL mv_step(0, '{}');
SELECT mv_check('in the table');
CALL mv_step(1, '{"state_store": "rocksdb"}');
SELECT mv_check('moved to rocksdb');
SELECT is(pg_relation_size('streamx_data.state_store_' || id), 0::bigint, 'nothing is left in the table') FROM streamx.queries WHERE name = 'mv_q';
CALL mv_step(2, '{"changelog_checkpointing": false}');
SELECT mv_check('without changelog');
CALL mv_step(3, '{"state_store": "table"}');
SELECT mv_check('moved back without changelog');
CALL mv_step(4, '{"changelog_checkpointing": true}');
SELECT mv_check('with changelog again');
CALL mv_step(5, '{"state_store": "rocksdb", "changelog_checkpointing": false}');
SELECT mv_check('both at once');
CALL mv_step(6, '{"changelog_checkpointing": null, "state_memory": "64MB"}');
SELECT mv_check('in memory alone');
SELECT isnt_empty('SELECT * FROM streamx.state_changes(''mv_q'', (SELECT max(batch_id) FROM streamx.progress WHERE query = ''mv_q''))', 'changes key by key are there again');
SELECT throws_like('SELECT * FROM streamx.state_changes(''mv_q'', 0)', 'batch % has no record of its single changes', 'and were not while they were not written');
SELECT is((SELECT count(*) FROM streamx.failures WHERE query = 'mv_q'), 0::bigint, 'nothing failed');

SELECT drop_query('mv_q') \g /dev/null
DROP VIEW mv_state;
DROP FUNCTION mv_check(text);
DROP PROCEDURE mv_step(int, jsonb);
DROP TABLE mv_out;
DROP FOREIGN TABLE mv;
SELECT * FROM finish();
