-- foreach_batch, a stream, a directory.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('so', 'k text, ts timestamptz, WATERMARK FOR ts AS ts');

-- foreach_batch: the rows of each batch, empty ones too
CREATE TABLE so_log (batch bigint, k text, at timestamptz DEFAULT now());
CREATE TABLE so_calls (batch bigint, rows bigint);
SET check_function_bodies = off;	-- there is no table "batch" here
CREATE FUNCTION so_each(batch_id bigint) RETURNS void LANGUAGE sql AS $$
	INSERT INTO so_log (batch, k) SELECT batch_id, k FROM batch;
	INSERT INTO so_calls SELECT batch_id, count(*) FROM batch;
$$;
SELECT create_query('so_each', $$SELECT k, w, count(*) AS n FROM (SELECT k, tumble(ts, '10 seconds') AS w FROM so) s GROUP BY k, w$$,
	output_mode => 'update', foreach_batch => 'so_each(bigint)');
SELECT start_query('so_each');
INSERT INTO so VALUES ('a', '2024-01-01Z'), ('b', '2024-01-01Z');
SELECT process_all_available('so_each');
INSERT INTO so VALUES ('c', '2024-01-01 00:01Z');
SELECT process_all_available('so_each');
SELECT set_eq('TABLE so_calls', 'VALUES (0::bigint, 2::bigint), (1, 0), (2, 1), (3, 0)', 'it is called for every batch, and sees only its rows');
SELECT results_eq('SELECT DISTINCT l.at FROM so_log l WHERE batch = 0',
	$$SELECT batch_timestamp FROM streamx.batch WHERE batch = 0 AND query = (SELECT id FROM streamx.query WHERE name = 'so_each')$$,
	'now() is the batch timestamp');
SELECT is((SELECT count(DISTINCT l.xmin::text) FROM so_log l JOIN so_calls c USING (batch) WHERE l.xmin = c.xmin AND batch = 0), 1::bigint,
	'in one transaction');
SELECT drop_query('so_each');

-- a stream behind a stream
SELECT create_stream('so_second', 'k text, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('so_first', 'SELECT upper(k) AS k, ts FROM so', sink => 'so_second');
SELECT create_query('so_then', 'SELECT k, count(*) AS n FROM so_second GROUP BY k', sink => 'so_then', output_mode => 'update');
SELECT start_query('so_first'), start_query('so_then');
SELECT process_all_available('so_first');
SELECT process_all_available('so_then');
SELECT set_eq('SELECT * FROM so_then', $$VALUES ('A', 1::bigint), ('B', 1), ('C', 1)$$, 'a query reads what another one wrote into a stream');
SELECT drop_query('so_first'), drop_query('so_then');

-- CASE-31: the same name again is another query
COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; rm -rf sx_directory; mkdir sx_directory';
SELECT current_setting('data_directory') || '/sx_directory' AS dir \gset
SELECT create_query('so_dir', 'SELECT k, ts FROM so', sink => 'directory', options => format('{"directory": "%s"}', :'dir')::jsonb);
SELECT start_query('so_dir');
SELECT process_all_available('so_dir');
INSERT INTO so VALUES ('d', '2024-01-01 00:02Z');
SELECT process_all_available('so_dir');
CREATE VIEW so_files AS
	SELECT f, line FROM pg_ls_dir('sx_directory') f,
		regexp_split_to_table(rtrim(pg_read_file('sx_directory/' || f), E'\n'), E'\n') line
	WHERE f LIKE '%.jsonl';
CREATE FUNCTION so_wait(lines bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..200 LOOP
		EXIT WHEN (SELECT count(*) FROM so_files) >= lines;
		PERFORM pg_sleep(0.05);
	END LOOP;
	RETURN (SELECT count(*) FROM so_files);
END $$;
SELECT is(so_wait(4), 4::bigint, 'a line of JSON for each row');
SELECT is((SELECT count(DISTINCT f) FROM so_files), 2::bigint, 'in a file for each batch');
SELECT is((SELECT count(*) FROM streamx.intent), 0::bigint, 'the outbox is empty');
SELECT is(pg_read_file('sx_directory/' || f), E'1\n', 'the mark is the last batch id') FROM pg_ls_dir('sx_directory') f WHERE f LIKE '%.mark';
SELECT drop_query('so_dir');
SELECT create_query('so_dir', 'SELECT k, ts FROM so WHERE k <> ''a''', sink => 'directory', options => format('{"directory": "%s"}', :'dir')::jsonb);
SELECT start_query('so_dir');
SELECT process_all_available('so_dir');
SELECT is(so_wait(7), 7::bigint, 'a new query of the old name writes all its rows beside the old ones');

-- the sink is not there: batches go on until max_pending wait
SELECT drop_query('so_dir');
SELECT create_query('so_dir', 'SELECT k, ts FROM so', sink => 'directory',
	options => format('{"directory": "%s", "max_pending": 3}', :'dir')::jsonb);
COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; rm -rf sx_directory/*';
SELECT start_query('so_dir');
SELECT process_all_available('so_dir');
SELECT is(so_wait(4), 4::bigint, 'the first batch is there');
SELECT drop_query('so_dir');

COPY (SELECT 1) TO PROGRAM 'cat >/dev/null; rm -rf sx_directory';
DROP VIEW so_files;
DROP FOREIGN TABLE so, so_second;
DROP TABLE so_log, so_calls, so_then;
DROP FUNCTION so_each, so_wait;
SELECT * FROM finish();
