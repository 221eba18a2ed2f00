-- In update mode a table sink needs to know which columns identify a row; a join
-- above the aggregation must not make several rows of one.
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE SCHEMA plan_result_key;
SET search_path = plan_result_key, public;
SELECT plan(19);
CREATE FOREIGN TABLE s (k text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TABLE dim (k text, kind int, name text);
CREATE TABLE keyed (k text, kind int, name text, PRIMARY KEY (k));
CREATE TABLE double_keyed (k text, kind int, name text, UNIQUE (k, kind));
CREATE TABLE partly (k text, name text);
CREATE UNIQUE INDEX ON partly (k) WHERE name IS NOT NULL;
CREATE TABLE late (k text UNIQUE DEFERRABLE, name text);
CREATE FUNCTION refused(text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM create_query('q', $1, sink => 'q_out', output_mode => 'update');
	PERFORM drop_query('q');
	DROP TABLE q_out;
	RETURN NULL;
EXCEPTION WHEN OTHERS THEN
	RETURN SQLERRM;
END $$;
CREATE FUNCTION agg() RETURNS text LANGUAGE sql AS $$ SELECT '(SELECT tumble(ts, ''10 s'') AS w, k, count(*) AS n FROM s GROUP BY w, k) a' $$;

SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' LEFT JOIN dim d ON d.k = a.k'), 'rows of query "q" may have the same key', 'a join that may find several rows is refused');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' LEFT JOIN keyed d ON d.k = a.k'), NULL, 'a join by a primary key is not');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' JOIN keyed d USING (k)'), NULL, 'nor one with USING');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ', keyed d WHERE a.k = d.k AND a.n > 1'), NULL, 'nor one in WHERE');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' JOIN double_keyed d ON d.k = a.k'), 'rows of query "q" may have the same key', 'half of a key is not enough');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' JOIN double_keyed d ON d.k = a.k AND d.kind = 3'), NULL, 'a constant counts');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' JOIN partly d ON d.k = a.k'), 'rows of query "q" may have the same key', 'a partial unique index is not enough');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' JOIN late d ON d.k = a.k'), 'rows of query "q" may have the same key', 'nor is a deferrable one');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' JOIN keyed d ON d.k > a.k'), 'rows of query "q" may have the same key', 'nor anything but equality');
SELECT is(refused('SELECT a.w, a.k, a.n, d.name FROM ' || agg() || ' LEFT JOIN LATERAL (SELECT name FROM dim WHERE dim.k = a.k LIMIT 1) d ON true'), NULL, 'one row by LIMIT is');
SELECT is(refused('SELECT a.w, a.k, a.n, d.names FROM ' || agg() || ' LEFT JOIN LATERAL (SELECT count(name) AS names FROM dim WHERE dim.k = a.k) d ON true'), NULL, 'one row by an aggregate is');
SELECT is(refused('SELECT a.w, a.k, unnest(ARRAY[1, 2]) AS u FROM ' || agg()), 'rows of query "q" may have the same key', 'a set-returning function is refused');
SELECT is(refused('SELECT a.w, a.n FROM ' || agg()), 'grouping column "k" is not in the result of query "q"', 'a missing grouping column is named');
SELECT is(refused('SELECT lower(w) AS at, k, n FROM ' || agg()), NULL, 'the start of a window stands for the window');
SELECT is(refused('SELECT k, count(*) AS n FROM s GROUP BY k UNION ALL SELECT v::text, count(*) FROM s GROUP BY v'), 'rows of query "q" may have the same key', 'groups of several branches have no key');
SELECT is(refused('SELECT n, k FROM (SELECT k, count(*) AS n FROM s GROUP BY k UNION ALL SELECT k, v FROM s) x'), 'rows of query "q" may have the same key', 'nor in a subquery');
SELECT is(refused('SELECT DISTINCT k FROM s UNION ALL SELECT x.k FROM s x JOIN s y USING (k)'), NULL, 'rows that don''t change need none');
SELECT is(refused('SELECT k, n, name FROM (SELECT k, count(*) AS n FROM s GROUP BY k) a JOIN (SELECT max(name) AS name FROM (TABLE keyed UNION ALL TABLE dim) u) d ON true'), NULL, 'a UNION ALL of tables is no branch of the result');
-- in complete mode rows without a key are compared as a whole
SELECT create_query('q', 'WITH a AS (SELECT k, count(*) AS n FROM s GROUP BY k) SELECT x.k, y.k AS other FROM a x JOIN a y USING (n)', sink => 'q_out', output_mode => 'complete') \g /dev/null
INSERT INTO s VALUES ('a', 1, '2026-01-15 10:00Z'), ('b', 1, '2026-01-15 10:00Z'), ('c', 1, '2026-01-15 10:00Z'), ('c', 1, '2026-01-15 10:00Z');
SELECT FROM run_batch('q') \g /dev/null
SELECT bag_eq('TABLE q_out', $$VALUES ('a', 'a'), ('a', 'b'), ('b', 'a'), ('b', 'b'), ('c', 'c')$$, 'a complete result joined with itself has no key of one');
SELECT drop_query('q') \g /dev/null
SELECT * FROM finish();
DROP SCHEMA plan_result_key CASCADE;
