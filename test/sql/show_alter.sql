-- What alter_query says of the state, and what a start refuses.
CREATE FOREIGN TABLE alter_s (k int, j int, v int) SERVER streamx;
SELECT create_query('alter_q', 'SELECT k, count(*) AS n FROM alter_s GROUP BY k', 'alter_out', 'update');
SELECT alter_query('alter_q', options => '{"batch_rows": 1000}');
SELECT start_query('alter_q');
INSERT INTO alter_s VALUES (1, 1, 1), (1, 2, 2), (2, 1, 3);
SELECT process_all_available('alter_q', '60 s');

-- what a change would mean
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT k AS key, count(*) AS n FROM alter_s WHERE v > 1 GROUP BY k');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT k, j, count(*) AS n FROM alter_s GROUP BY k, j');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT count(*) AS n FROM alter_s');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT k, count(*) AS n, max(v) AS m FROM alter_s GROUP BY k');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT DISTINCT k FROM alter_s', output_mode => 'append');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT k FROM alter_s', output_mode => 'append');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT v, count(*) AS n FROM (SELECT DISTINCT k, v FROM alter_s) d GROUP BY v');
SELECT * FROM alter_query_effect('alter_q', options => '{"state_store": "table"}');
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT k::bigint AS k, count(*) AS n FROM alter_s GROUP BY k::bigint', reset_state => true);
SELECT * FROM alter_query_effect('alter_q', query => 'SELECT k, count(*) FROM alter_out GROUP BY k');

-- fits: the state goes on
SELECT alter_query('alter_q', query => 'SELECT k, count(*) AS n FROM alter_s WHERE v > 1 GROUP BY k');
INSERT INTO alter_s VALUES (1, 1, 1), (1, 1, 9);
SELECT process_all_available('alter_q', '60 s');
SELECT * FROM alter_out ORDER BY k;

-- doesn't fit, and the query runs: refused at once, it runs on
SELECT alter_query('alter_q', query => 'SELECT k + j AS k, sum(v) AS n FROM alter_s GROUP BY k + j, k');
SELECT alter_query('alter_q', query => 'SELECT k::bigint AS k, count(*) AS n FROM alter_s GROUP BY k::bigint');
INSERT INTO alter_s VALUES (1, 1, 9);
SELECT process_all_available('alter_q', '60 s');
SELECT * FROM alter_out ORDER BY k;

-- doesn't fit, and the query is stopped: accepted, and refused by the start
SELECT stop_query('alter_q');
SELECT alter_query('alter_q', query => 'SELECT k, sum(v) AS n FROM alter_s GROUP BY k');
SELECT start_query('alter_q');
-- taken back
SELECT alter_query('alter_q', query => 'SELECT k, count(*) AS n FROM alter_s GROUP BY k');
SELECT start_query('alter_q');
INSERT INTO alter_s VALUES (1, 1, 9);
SELECT process_all_available('alter_q', '60 s');
SELECT * FROM alter_out ORDER BY k;

-- or begun anew
SELECT stop_query('alter_q');
TRUNCATE alter_out;
SELECT alter_query('alter_q', query => 'SELECT k, sum(v) AS n FROM alter_s GROUP BY k', reset_state => true);
SELECT start_query('alter_q');
SELECT process_all_available('alter_q', '60 s');
SELECT * FROM alter_out ORDER BY k;
SELECT stop_query('alter_q');
TRUNCATE alter_out;
SELECT alter_query('alter_q', query => 'SELECT k, max(v) AS n FROM alter_s GROUP BY k');
SELECT start_query('alter_q', reset_state => true);
SELECT process_all_available('alter_q', '60 s');
SELECT * FROM alter_out ORDER BY k;

SELECT drop_query('alter_q');
DROP FOREIGN TABLE alter_s;
DROP TABLE alter_out;
