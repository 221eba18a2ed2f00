-- What a sink can refuse: the query fails with a hint, nothing is lost, and it goes on once the cause is gone.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('sf', 'k int, ts timestamptz');
CREATE FUNCTION wait_for_state(query text, wanted text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	is_state text;
BEGIN
	FOR i IN 1..600 LOOP
		SELECT state INTO is_state FROM streamx.queries WHERE name = query;
		EXIT WHEN is_state = wanted;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN is_state;
END $$;

-- a row of a user holds a key
CREATE TABLE sf_sink (k int PRIMARY KEY);
INSERT INTO sf_sink VALUES (2);
SELECT create_query('sf', 'SELECT k FROM sf', sink => 'sf_sink');
SELECT start_query('sf');
INSERT INTO sf VALUES (1), (2), (3);
SELECT is(wait_for_state('sf', 'failed'), 'failed', 'a key that is taken fails the query');
SELECT matches(hint, 'not written by this query', 'the hint says whose row it is'),
	is(sqlstate, '23505', 'the SQLSTATE is the server''s'), is(batch_id, 0::bigint, 'the batch is named')
	FROM (SELECT * FROM streamx.failures WHERE query = 'sf' ORDER BY at DESC LIMIT 1) f;
SELECT results_eq('SELECT k FROM sf_sink', 'VALUES (2)', 'nothing of the batch is in the sink');
DELETE FROM sf_sink WHERE k = 2;
SELECT start_query('sf');
SELECT process_all_available('sf');
SELECT results_eq('SELECT k FROM sf_sink ORDER BY k', 'VALUES (1), (2), (3)', 'with the row gone the query goes on, nothing is lost');

-- a CHECK that fails
ALTER TABLE sf_sink ADD CONSTRAINT small CHECK (k < 100);
INSERT INTO sf VALUES (4), (100);
SELECT is(wait_for_state('sf', 'failed'), 'failed', 'a failing CHECK fails the query');
ALTER TABLE sf_sink DROP CONSTRAINT small;
SELECT start_query('sf');
SELECT process_all_available('sf');
SELECT results_eq('SELECT k FROM sf_sink ORDER BY k', 'VALUES (1), (2), (3), (4), (100)', 'and without it all rows are there');

-- a column that is dropped, a sink that is dropped
ALTER TABLE sf_sink RENAME k TO other;
INSERT INTO sf VALUES (5);
SELECT is(wait_for_state('sf', 'failed'), 'failed', 'a column that is gone fails the query');
ALTER TABLE sf_sink RENAME other TO k;
SELECT start_query('sf');
SELECT process_all_available('sf');
SELECT is((SELECT count(*) FROM sf_sink), 6::bigint, 'back again, it goes on');
SELECT drop_query('sf');

-- a function that raises
CREATE FUNCTION sf_each(batch_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sf_sink SELECT k + 1000 FROM batch;
	IF EXISTS (SELECT FROM sf_stop) THEN RAISE EXCEPTION 'not today'; END IF;
END $$;
CREATE TABLE sf_stop (x int);
INSERT INTO sf_stop VALUES (1);
SELECT create_query('sf_each', 'SELECT k FROM sf', foreach_batch => 'sf_each(bigint)');
SELECT start_query('sf_each');
SELECT is(wait_for_state('sf_each', 'failed'), 'failed', 'a function that raises fails the query');
SELECT is((SELECT count(*) FROM sf_sink WHERE k > 1000), 0::bigint, 'what it wrote is undone');
TRUNCATE sf_stop;
SELECT start_query('sf_each');
SELECT process_all_available('sf_each');
SELECT is((SELECT count(*) FROM sf_sink WHERE k > 1000), 6::bigint, 'then it is called for the same rows');
SELECT drop_query('sf_each');

DROP FOREIGN TABLE sf;
DROP TABLE sf_sink, sf_stop;
DROP FUNCTION sf_each, wait_for_state;
SELECT * FROM finish();
