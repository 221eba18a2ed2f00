-- The books of each batch: what goes in comes out, stays, or is counted as what became of it.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

CREATE FOREIGN TABLE mc (id int, k int, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE mc_other (id int, k int, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TABLE mc_dim (k int, name text);
INSERT INTO mc_dim VALUES (1, 'a'), (1, 'b'), (2, 'c');
CREATE FUNCTION mc_handler(key int, rows mc[], timer timestamptz) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
	PERFORM state_put('n', coalesce(state_get('n', NULL::bigint), 0) + cardinality(rows));
	RETURN NEXT state_get('n', NULL::bigint);
END $$;
CREATE TABLE mc_queries (name text, query text, mode text DEFAULT 'append', options jsonb DEFAULT '{}');
INSERT INTO mc_queries (name, query) VALUES
	('mc_copy', 'SELECT id, v FROM mc'),
	('mc_where', 'SELECT id FROM mc WHERE v % 2 = 0'),
	('mc_unnest', 'SELECT id, unnest(ARRAY[1, 2, 3]) AS x FROM mc'),
	('mc_inner', 'SELECT id, name FROM mc JOIN mc_dim USING (k)'),
	('mc_left', 'SELECT id, name FROM mc LEFT JOIN mc_dim USING (k) WHERE v > 1'),
	('mc_empty', 'SELECT id FROM mc JOIN mc_dim USING (k) WHERE name = ''none'''),
	('mc_union', 'SELECT id FROM mc UNION ALL SELECT id FROM mc WHERE v > 2 UNION ALL SELECT id FROM mc_other'),
	('mc_tumble', 'SELECT tumble(ts, ''10 seconds'') AS w, count(*) FROM mc GROUP BY w'),
	('mc_hop', 'SELECT hop(ts, ''10 seconds'', ''5 seconds'') AS w, k, count(*) FROM mc GROUP BY w, k'),
	('mc_hop_rows', 'SELECT hop(ts, ''10 seconds'', ''5 seconds'') AS w, array_agg(v) FROM mc GROUP BY w'),
	('mc_range', 'SELECT w, count(*), max(lower(w)) FROM (SELECT tumble(ts, ''10 seconds'') AS w FROM mc) x GROUP BY w'),
	('mc_raw', 'SELECT ts, count(*) FROM mc WHERE k = 1 GROUP BY ts'),
	('mc_having', 'SELECT tumble(ts, ''10 seconds'') AS w, count(*) AS n FROM mc GROUP BY w HAVING count(*) > 2'),
	('mc_join', 'SELECT a.id, b.v FROM mc a JOIN mc_other b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + interval ''2 seconds'''),
	('mc_outer', 'SELECT a.id, b.id AS other FROM mc a LEFT JOIN mc_other b ON a.id = b.id AND a.v > 2 AND b.ts BETWEEN a.ts - interval ''1 second'' AND a.ts + interval ''2 seconds'''),
	('mc_full', 'SELECT a.id, b.id AS other FROM mc a FULL JOIN mc_other b ON a.k = b.k AND a.ts = b.ts'),
	('mc_semi', 'SELECT id FROM mc a WHERE EXISTS (SELECT FROM mc_other b WHERE a.k = b.k AND a.ts = b.ts)'),
	('mc_anti', 'SELECT id FROM mc a WHERE NOT EXISTS (SELECT FROM mc_other b WHERE a.k = b.k AND a.ts = b.ts)'),
	('mc_join_count', 'SELECT tumble(a.ts, ''10 seconds'') AS w, count(*) FROM mc a JOIN mc_other b ON a.k = b.k AND a.ts = b.ts GROUP BY w'),
	('mc_transform', 'SELECT x.k, r AS n FROM mc x CROSS JOIN LATERAL transform_with_state(''mc_handler'', x.k, x, NULL::bigint, state => ARRAY[value_state(''n'', NULL::bigint)]) AS r'),
	('mc_session', 'SELECT session(ts, ''5 seconds'') AS w, k, count(*) FROM mc GROUP BY w, k'),
	('mc_session_row', 'SELECT session(ts, v * interval ''1 second'') AS w, count(*) FROM mc GROUP BY w'),
	('mc_distinct', 'SELECT DISTINCT k FROM mc'),
	('mc_distinct_on', 'SELECT DISTINCT ON (k, ts) id, k, ts FROM mc'),
	('mc_within', 'SELECT DISTINCT ON (within_watermark(k)) k, v FROM mc'),
	('mc_limit', 'SELECT id FROM mc WHERE v > 0 LIMIT 5'),
	('mc_no_limit', 'SELECT id FROM mc LIMIT 0'),
	('mc_dedup_count', 'SELECT tumble(ts, ''10 seconds'') AS w, count(*) FROM (SELECT DISTINCT k, ts FROM mc) d GROUP BY w'),
	('mc_chain', 'SELECT tumble(window_time(w), ''20 seconds'') AS w, sum(n) AS n FROM (SELECT tumble(ts, ''10 seconds'') AS w, k, count(*) AS n FROM mc GROUP BY w, k) x GROUP BY 1');
INSERT INTO mc_queries (name, query, mode) VALUES
	('mc_group', 'SELECT k, count(*) FROM mc GROUP BY k', 'update'),
	('mc_group_having', 'SELECT k, count(*) FROM mc GROUP BY k HAVING count(*) > 2', 'update'),
	('mc_total', 'SELECT count(*), sum(v) FROM mc', 'update'),
	('mc_windows', 'SELECT hop(ts, ''10 seconds'', ''5 seconds'') AS w, count(*) FROM mc GROUP BY w', 'update'),
	('mc_complete', 'SELECT k, count(*) FROM mc GROUP BY k', 'complete'),
	('mc_top', 'SELECT k, n FROM (SELECT k, count(*) AS n FROM mc GROUP BY k) x ORDER BY n DESC LIMIT 1', 'complete');
INSERT INTO mc_queries (name, query, mode, options) VALUES
	('mc_guilty', 'SELECT id, 10 / v AS x FROM mc', 'append', '{"on_error": "quarantine"}'),
	('mc_guilty_twice', 'SELECT id, 10 / v AS x FROM mc WHERE k = 1 UNION ALL SELECT id, v FROM mc', 'append', '{"on_error": "quarantine"}'),
	('mc_guilty_group', 'SELECT k, sum(10 / v) AS x FROM mc GROUP BY k', 'update', '{"on_error": "quarantine"}');
SELECT create_query(name, query, sink => CASE mode WHEN 'update' THEN name WHEN 'complete' THEN name ELSE 'noop' END,
	output_mode => mode, options => options) FROM mc_queries \g /dev/null
SELECT start_query(name) FROM mc_queries \g /dev/null

INSERT INTO mc SELECT i, i % 4, i % 5, timestamptz '2024-01-01 00:00:00Z' + (i % 50) * interval '1 second' FROM generate_series(1, 100) i;
INSERT INTO mc VALUES (101, 1, 1, NULL), (102, NULL, 2, 'infinity'), (103, NULL, NULL, '-infinity');
INSERT INTO mc_other SELECT i, i % 4, i % 5, timestamptz '2024-01-01 00:00:00Z' + (i % 50) * interval '1 second' FROM generate_series(1, 100) i;
SELECT process_all_available(name, '60 s') FROM mc_queries \g /dev/null
SELECT stop_query(name) FROM mc_queries WHERE name LIKE '%o%' \g /dev/null
SELECT start_query(name) FROM mc_queries WHERE name LIKE '%o%' \g /dev/null
-- late ones among them
INSERT INTO mc SELECT i, i % 4, i % 5, timestamptz '2024-01-01 00:00:00Z' + i * interval '1 second' FROM generate_series(1, 120) i;
SELECT process_all_available(name, '60 s') FROM mc_queries \g /dev/null
-- more than a chunk
INSERT INTO mc SELECT i, i % 4, 1 + i % 5, timestamptz '2024-01-01 00:05:00Z' + i * interval '10 milliseconds' FROM generate_series(1, 5000) i;
SELECT process_all_available(name, '60 s') FROM mc_queries \g /dev/null

SELECT is((SELECT count(DISTINCT query) FROM streamx.conservation WHERE query IN (SELECT name FROM mc_queries)),
	(SELECT count(*) FROM mc_queries), 'every query has books');
SELECT is_empty($$SELECT * FROM streamx.conservation WHERE query LIKE 'mc%' AND balanced IS NOT TRUE$$, 'every batch balances');
SELECT is_empty($$SELECT * FROM streamx.conservation_steps WHERE query LIKE 'mc%' AND balanced IS NOT TRUE$$, 'and every step of it');
SELECT is_empty($$SELECT query, batch_id FROM streamx.conservation JOIN streamx.progress USING (query, batch_id)
	WHERE query LIKE 'mc%' AND (rows_in <> input_rows OR rows_out <> output_rows)$$, 'in and out are what the progress says');
SELECT is_empty($$SELECT query FROM streamx.conservation WHERE query LIKE 'mc%' GROUP BY query
	HAVING sum(rows_in) <> 5223 AND sum(rows_in) <> 5323 AND query NOT IN ('mc_union', 'mc_guilty_twice')$$, 'all rows have come in, each once');

CREATE FUNCTION mc_sums(query text, OUT sums text) LANGUAGE sql AS $$
	SELECT string_agg(key || ' ' || n, ', ' ORDER BY key) FROM (
		SELECT j.key, sum(j.value::bigint) AS n FROM streamx.conservation c, jsonb_each_text(to_jsonb(c) - '{query,batch_id,balanced}'::text[]) j
		WHERE c.query = $1 GROUP BY j.key) s WHERE n <> 0 $$;
SELECT is(mc_sums('mc_copy'), 'rows_in 5223, rows_out 5223', 'a copy');
SELECT is((SELECT sum(filtered) FROM streamx.conservation WHERE query = 'mc_where'),
	(SELECT count(*) FILTER (WHERE (v % 2 = 0) IS NOT TRUE)::numeric FROM mc), 'what a filter left out');
SELECT is(mc_sums('mc_unnest'), 'multiplied 10446, rows_in 5223, rows_out 15669', 'unnesting multiplies');
SELECT is(mc_sums('mc_empty'), 'filtered 5223, rows_in 5223', 'what a join with an empty table never read is filtered, too');
SELECT is(mc_sums('mc_no_limit'), 'refused 5223, rows_in 5223', 'behind a LIMIT');
SELECT is(mc_sums('mc_distinct'), 'duplicate 5179, late 39, rows_in 5223, rows_out 5', 'duplicates, and late rows');
SELECT matches(mc_sums('mc_total'), '^from_state (\d), into_state 5223, rows_in 5223, rows_out \1$', 'an aggregate takes rows and gives results');
SELECT is((SELECT (sum(no_window), sum(late) > 0)::text FROM streamx.conservation WHERE query = 'mc_tumble'), '(3,t)', 'rows in no window, and late ones');
SELECT is((SELECT sum(quarantined) FROM streamx.conservation WHERE query = 'mc_guilty'), 44::numeric, 'rows in quarantine');
SELECT is((SELECT sum(rows_in) FROM streamx.conservation WHERE query = 'mc_guilty_twice'), 10446::numeric, 'a stream that is read twice counts twice');
SELECT is((SELECT (progress -> 'totals' ->> 'quarantined')::int FROM streamx.progress WHERE query = 'mc_guilty' ORDER BY batch_id DESC LIMIT 1), 44, 'the last batch knows how many in all');
SELECT is((SELECT (progress -> 'totals' ->> 'late')::numeric FROM streamx.progress WHERE query = 'mc_tumble' ORDER BY batch_id DESC LIMIT 1),
	(SELECT sum(late) FROM streamx.conservation WHERE query = 'mc_tumble'), 'and how many were late, over a restart');
SELECT is_empty($$SELECT * FROM streamx.conservation_steps above JOIN streamx.conservation_steps below USING (query, batch_id)
	WHERE query = 'mc_dedup_count' AND below.name = 'operator 1 dedupe' AND above.name = 'segment 1' AND above.rows_in <> below.rows_out$$,
	'what one step gives the next one gets');

-- given back from the quarantine they come in again
SELECT is(requeue('mc_guilty', (SELECT array_agg(id ORDER BY id) FROM (SELECT id FROM streamx.quarantine WHERE query = 'mc_guilty' LIMIT 1) q),
	data => '{"id": 1, "k": 1, "v": 1}'), 1::bigint, 'a row is given back');
SELECT process_all_available('mc_guilty', '60 s') \g /dev/null
SELECT is((SELECT sum(rows_in) FROM streamx.conservation WHERE query = 'mc_guilty'), 5224::numeric, 'and comes in again');
SELECT is_empty($$SELECT * FROM streamx.conservation WHERE query = 'mc_guilty' AND balanced IS NOT TRUE$$, 'which balances, too');

SELECT stop_query(name) FROM mc_queries \g /dev/null
SELECT drop_query(name) FROM mc_queries \g /dev/null
DROP TABLE mc_dim, mc_group, mc_group_having, mc_total, mc_windows, mc_complete, mc_top, mc_guilty_group, mc_queries;
DROP FUNCTION mc_sums, mc_handler;
DROP FOREIGN TABLE mc, mc_other;
SELECT * FROM finish();
