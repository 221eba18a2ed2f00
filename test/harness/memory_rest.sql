-- memory_rest.sql: what valgrind.sh lets a server do, last part, after its worker was
-- killed: orders at bad moments, more rows, results, views, DROP.
\set ON_ERROR_STOP 1
SET client_min_messages = warning;
SET jit = off;

SELECT stop_query(name) FROM streamx.queries WHERE name LIKE 'update%';
INSERT INTO s SELECT k, 'second', k, '2026-01-01 00:05Z'::timestamptz + k * interval '0.1 second' FROM generate_series(1, 4000, 3) k;
SELECT start_query(name) FROM streamx.queries WHERE name LIKE 'update%';

-- cancelled while it waits, stopped while it runs, altered, dropped while it runs
SET statement_timeout = '50ms';
\set ON_ERROR_STOP 0
SELECT process_all_available('complete');
SELECT count(*) FROM s a, s b, s c;
\set ON_ERROR_STOP 1
RESET statement_timeout;
SELECT stop_query('complete');
SELECT alter_query('complete', options => '{"batch_rows": 500}');
BEGIN;
SELECT start_query('complete');
ROLLBACK;
SELECT start_query('complete');
INSERT INTO s SELECT k, 'third', k, '2026-01-01 00:20Z' FROM generate_series(1, 1500) k;
SELECT drop_query('noop');

SELECT process_all_available(name) FROM streamx.queries WHERE name <> 'fails';
SELECT sum(input_rows) FROM streamx.queries;
SELECT * FROM streamx.queries;
SELECT * FROM streamx.sources;
SELECT * FROM streamx.state_operators;
SELECT * FROM streamx.failures;
SELECT * FROM streamx.quarantine;
SELECT jsonb_pretty(last_progress('update_table'));
SELECT explain_query(name) FROM streamx.queries;

CREATE FUNCTION check_results() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	w wanted;
	differing bigint;
BEGIN
	FOR w IN SELECT * FROM wanted LOOP
		EXECUTE format('SELECT count(*) FROM ((TABLE %I EXCEPT ALL (%s)) UNION ALL ((%s) EXCEPT ALL TABLE %I)) x',
					   w.result, w.query, w.query, w.result) INTO differing;
		IF differing > 0 THEN
			RAISE 'query %: % rows differ', w.name, differing;
		END IF;
	END LOOP;
	IF (SELECT count(*) FROM copied) <> (SELECT count(*) FROM s WHERE k < 100) OR
		(SELECT count(*) FROM bad) <> (SELECT count(*) FROM s WHERE k < 5 AND k <> 0) OR
		(SELECT count(*) FROM streamx.quarantine) <> (SELECT count(*) FROM s WHERE k = 0) OR
		(SELECT state FROM streamx.queries WHERE name = 'fails') <> 'failed' OR
		NOT EXISTS (SELECT FROM seen)
	THEN
		RAISE 'the other sinks are not what they should be';
	END IF;
END $$;
SELECT check_results();

SELECT drop_query(name) FROM streamx.queries;
DROP STREAM s, copied CASCADE;
DROP EXTENSION streamx CASCADE;
