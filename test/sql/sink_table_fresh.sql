-- Many new groups at once are inserted without a look for a row of theirs; the sink stays true all the same.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('stf', 'k int, n int');

SELECT create_query('stf', 'SELECT k, sum(n) AS total FROM stf GROUP BY k', sink => 'stf_sink', output_mode => 'update');
SELECT start_query('stf');
INSERT INTO stf SELECT k, 1 FROM generate_series(1, 3000) k;
SELECT process_all_available('stf');
SELECT set_eq('SELECT * FROM stf_sink', 'SELECT k, 1::bigint FROM generate_series(1, 3000) k', 'a table gets its new groups');
INSERT INTO stf SELECT k, 1 FROM generate_series(2001, 6000) k;
SELECT process_all_available('stf');
SELECT set_eq('SELECT * FROM stf_sink', 'SELECT * FROM streamx_query.stf', 'new and old groups of one batch');
SELECT is((SELECT total FROM stf_sink WHERE k = 2500), 2::bigint, 'the old ones are updated');

-- somebody else's rows stand where new groups go
INSERT INTO stf_sink SELECT k, -1 FROM generate_series(7000, 7100) k;
INSERT INTO stf SELECT k, 1 FROM generate_series(5000, 9000) k;
SELECT process_all_available('stf');
SELECT set_eq('SELECT * FROM stf_sink', 'SELECT * FROM streamx_query.stf', 'a row with the key of a new group is overwritten, as every upsert does');
SELECT is((SELECT count(*) FROM streamx.failures WHERE query = 'stf'), 0::bigint, 'and that is no failure');
INSERT INTO stf_sink SELECT k, -1 FROM generate_series(10000, 10100) k;
INSERT INTO stf SELECT k, 1 FROM generate_series(9000, 12000) k;
SELECT process_all_available('stf');
SELECT set_eq('SELECT * FROM stf_sink', 'SELECT * FROM streamx_query.stf', 'again');
SELECT is((SELECT count(*) FROM streamx.failures WHERE query = 'stf'), 0::bigint, 'still none');
SELECT drop_query('stf');

-- a table that was filled before
SELECT create_query('stf_again', 'SELECT k, count(*) AS total FROM stf GROUP BY k', sink => 'stf_sink', output_mode => 'update');
SELECT start_query('stf_again');
SELECT process_all_available('stf_again');
SELECT set_eq('SELECT * FROM stf_sink', 'SELECT * FROM streamx_query.stf_again', 'a query into a table that an earlier one filled');
SELECT is((SELECT sum((p -> 'sink' ->> 'numOutputRows')::int) FROM recent_progress('stf_again') p), 12000::bigint, 'each row is counted once');
SELECT drop_query('stf_again');

-- another error of the INSERT is what it was
CREATE TABLE stf_check (k int UNIQUE NULLS NOT DISTINCT, total bigint CHECK (total < 5));
SELECT create_query('stf_check', 'SELECT k, sum(n) AS total FROM stf GROUP BY k', sink => 'stf_check', output_mode => 'update');
INSERT INTO stf VALUES (1, 100);
SELECT start_query('stf_check');
SELECT throws_matching($$SELECT process_all_available('stf_check')$$, 'check constraint', 'a failing CHECK fails the query');
SELECT is_empty('SELECT * FROM stf_check', 'and nothing is written');
SELECT drop_query('stf_check');

DROP FOREIGN TABLE stf;
DROP TABLE stf_sink, stf_check;
SELECT * FROM finish();
