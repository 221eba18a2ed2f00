-- memory_setup.sql: what valgrind.sh lets a server do, first part: streams, queries,
-- the first batches.  Every kind of state, sink and failure once; few rows.
\set ON_ERROR_STOP 1
SET client_min_messages = warning;
SET jit = off;
CREATE EXTENSION streamx;

-- streams: the statements, the function, mistakes
CREATE STREAM s (k int, t text, n numeric, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '10 seconds');
CREATE STREAM IF NOT EXISTS s (k int); CREATE STREAM "Odd name" (a int[], b jsonb DEFAULT '{}', CHECK (a[1] > 0));
SELECT create_stream('copied', '(k int, n bigint)');
ALTER STREAM "Odd name" ADD COLUMN c text DEFAULT 'new';
\set ON_ERROR_STOP 0
CREATE STREAM wrong (k int, WATERMARK FOR nothing AS nothing - INTERVAL '1 second');
INSERT INTO "Odd name" VALUES ('{0}');
SELECT create_query('wrong', 'SELECT k, rank() OVER () FROM s', sink => 'noop');
\set ON_ERROR_STOP 1
INSERT INTO "Odd name" VALUES ('{1,2}', '{"a": [1, "x"]}'), ('{3}', NULL);
ALTER STREAM "Odd name" ALTER COLUMN c TYPE varchar(10);
SELECT * FROM "Odd name";
DROP STREAM "Odd name";

-- what every query should come to: checked at the end
CREATE TABLE wanted (name text, query text, result text);
CREATE FUNCTION run(name text, query text, mode text, options jsonb DEFAULT '{}', batch text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM create_query(name, query, sink => name, output_mode => mode, options => options);
	INSERT INTO wanted VALUES (name, coalesce(batch, query), name);
END $$;

-- 1 MB holds a part of these groups, so the rest is spilled and read again
SELECT run('update_' || store, 'SELECT k, count(*) AS n, max(t) AS t, sum(n) AS s, array_agg(DISTINCT k % 3) AS a FROM s GROUP BY k', 'update',
	jsonb_build_object('state_store', store, 'state_memory', '1MB', 'batch_rows', 2000)) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT run('append_' || store, $$SELECT tumble(ts, '1 minute') AS w, t, count(*) AS n, avg(n) AS a, string_agg(k::text, ',' ORDER BY k) AS ks FROM s GROUP BY w, t$$, 'append',
	jsonb_build_object('state_store', store),
	$$SELECT * FROM (SELECT tumble(ts, '1 minute') AS w, t, count(*) AS n, avg(n) AS a, string_agg(k::text, ',' ORDER BY k) AS ks FROM s GROUP BY w, t) a
	  WHERE upper(w) <= (SELECT max(ts) - interval '10 seconds' FROM s)$$) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT run('complete', $$SELECT hop(ts, '1 minute', '30 seconds') AS w, min(t) AS t, percentile_disc(0.5) WITHIN GROUP (ORDER BY n) AS p FROM s WHERE k < 50 GROUP BY w HAVING count(*) > 1$$, 'complete');
SELECT run('plain', $$SELECT s.k, s.t || b.name AS t FROM s JOIN (VALUES (1, 'one'), (2, 'two')) b(k, name) USING (k)
	UNION ALL SELECT k, NULL FROM s WHERE k > 2990$$, 'append');
-- many open sessions of a key lie in pieces
SELECT run('sessions_' || store, $$SELECT session(ts, interval '200 ms' + k % 3 * interval '100 ms') AS w, t, count(*) AS n, array_agg(k ORDER BY k) AS ks FROM s WHERE t <> 'copied' GROUP BY w, t$$, 'update',
	jsonb_build_object('state_store', store, 'state_memory', '1MB'),
	$$SELECT tstzrange(min(ts), max(until)) AS w, t, count(*) AS n, array_agg(k ORDER BY k) AS ks FROM (
	  SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY t ORDER BY ts, until) AS island FROM (
	  SELECT *, coalesce(ts > max(until) OVER (PARTITION BY t ORDER BY ts, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS starts FROM (
	  SELECT *, ts + interval '200 ms' + k % 3 * interval '100 ms' AS until FROM s WHERE t <> 'copied') b) f) g GROUP BY t, island$$) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT run('distinct', $$SELECT DISTINCT t, k % 50 AS k FROM s WHERE t <> 'copied'$$, 'append');
SELECT create_query('once', 'SELECT DISTINCT ON (within_watermark(n)) n, t FROM s', sink => 'once');
SELECT run('joined_' || store, $$SELECT a.k, a.t, b.k AS bk, b.n FROM (SELECT * FROM s WHERE t ~ '^group|^second|^third') a LEFT JOIN s b ON a.n = b.n AND b.k < 1000 AND b.ts BETWEEN a.ts AND a.ts + interval '10 seconds'$$, 'append',
	jsonb_build_object('state_store', store, 'state_memory', '1MB'),
	$$SELECT a.k, a.t, b.k AS bk, b.n FROM (SELECT * FROM s WHERE t ~ '^group|^second|^third') a LEFT JOIN s b ON a.n = b.n AND b.k < 1000 AND b.ts BETWEEN a.ts AND a.ts + interval '10 seconds'
	  WHERE b.k IS NOT NULL OR a.ts <= (SELECT max(ts) - interval '20.001 seconds' FROM s)$$) FROM unnest('{rocksdb,table}'::text[]) store;
SELECT run('semi', $$SELECT a.k FROM s a WHERE EXISTS (SELECT 1 FROM s b WHERE b.t = a.t AND b.k = a.k + 7 AND b.ts > a.ts AND b.ts < a.ts + interval '1 minute')$$, 'append');
SELECT create_query('stream', 'SELECT k, 1 AS n FROM s WHERE k < 100', sink => 'copied');
SELECT create_query('dir', 'SELECT k, t FROM s WHERE k < 100', sink => 'directory', options => jsonb_build_object('directory', current_setting('memory.directory')));
SELECT create_query('noop', 'SELECT DISTINCT_k FROM (SELECT k AS DISTINCT_k FROM s) x', sink => 'noop');
CREATE TABLE seen (batch bigint, rows bigint);
CREATE FUNCTION each(batch_id bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO seen SELECT batch_id, count(*) FROM batch;
END $$;
SELECT create_query('each', 'SELECT k, count(*) FROM s GROUP BY k', output_mode => 'update', foreach_batch => 'each(bigint)');
CREATE TYPE handled AS (n bigint, ks int[], m text, at timestamptz);
CREATE FUNCTION handle(key text, rows s[], timer timestamptz) RETURNS SETOF handled LANGUAGE plpgsql AS $$
BEGIN
	PERFORM state_put('n', coalesce(state_get('n', NULL::bigint), 0) + cardinality(rows)), state_map_put('m', coalesce(r.n, 0), r.t), state_list_append('ks', r.k), timer_set(r.ts + interval '5 seconds')
	FROM unnest(rows[:20]) r;
	BEGIN
		PERFORM state_clear('m'), state_list_put('ks', '{1,2}'), timer_set('2026-01-01 00:00Z'), 1 / state_list_length('ks') - 1;
		PERFORM 1 / 0;
	EXCEPTION WHEN division_by_zero THEN NULL;
	END;
	PERFORM state_map_remove('m', x) FROM unnest((state_map_keys('m', NULL::numeric))[3:]) x;
	IF timer IS NOT NULL THEN
		PERFORM state_clear('ks');
	END IF;
	RETURN NEXT (state_get('n', NULL::bigint), state_list_get('ks', NULL::int), state_map_values('m', NULL::text)::text, timer)::handled;
END $$;
SELECT create_query('handled_' || store, $$SELECT h.n, h.ks, h.m, h.at FROM s CROSS JOIN LATERAL transform_with_state('handle', t, s, NULL::handled, time_mode => 'event',
	state => ARRAY[value_state('n', NULL::bigint), map_state('m', NULL::numeric, NULL::text), list_state('ks', NULL::int)]) h$$, sink => 'handled_' || store,
	options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM unnest('{rocksdb,table}'::text[]) store;
CREATE FUNCTION handle_time(key int, rows int[], timer timestamptz) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	IF timer IS NULL THEN
		PERFORM state_put('state', cardinality(rows)), timeout_set(interval '1 millisecond');
	END IF;
	RETURN state_get('state', NULL::int);
END $$;
SELECT create_query('timed_out', $$SELECT k % 10 AS k, h.rows FROM s, map_groups_with_state('handle_time', k % 10, k, NULL::int, state => NULL::int, timeout => 'processing') h(rows)$$, sink => 'timed_out', output_mode => 'update');
SELECT create_query('bad', 'SELECT 1 / k AS one FROM s WHERE k < 5', sink => 'bad', options => '{"on_error": "quarantine"}');
SELECT create_query('fails', 'SELECT 1 / k AS one FROM s WHERE k < 5', sink => 'fails');
SELECT start_query(name) FROM streamx.queries;

INSERT INTO s SELECT k, 'group ' || k % 7, k / 3.0, '2026-01-01 00:00Z'::timestamptz + k * interval '0.1 second' FROM generate_series(0, 2999) k;
BEGIN;
INSERT INTO s VALUES (1, 'rolled back', 1, '2026-01-01 00:06Z');
SAVEPOINT a;
INSERT INTO s VALUES (2, 'rolled back', 1, '2026-01-01 00:06Z');
ROLLBACK TO a;
ROLLBACK;
COPY s FROM stdin;
7	copied	1.5	2026-01-01 00:04Z
8	copied	\N	2026-01-01 00:04:59Z
9	\N	2.5	2026-01-01 00:05Z
\.
SELECT process_all_available(name) FROM streamx.queries WHERE name <> 'fails';
