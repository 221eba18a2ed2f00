-- What cannot run as a stream is refused by create_query with the clause, the
-- reason and, where there is one, a rewrite.
\set VERBOSITY default
SET client_min_messages = warning;
CREATE FOREIGN TABLE s (k text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE l (id bigint, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE r (id bigint, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FOREIGN TABLE plain (k text, v int, ts timestamptz) SERVER streamx;
CREATE TABLE dim (k text PRIMARY KEY, name text);

-- output modes
SELECT create_query('q', 'SELECT k, count(*) AS n FROM s GROUP BY k', sink => 'noop');
SELECT create_query('q', 'SELECT k, count(*) AS n FROM plain GROUP BY k', sink => 'noop');
SELECT create_query('q', 'SELECT k, v FROM s', sink => 'noop', output_mode => 'complete');
SELECT create_query('q', 'SELECT k, v FROM s', sink => 'noop', output_mode => 'replace');
SELECT create_query('q', $$SELECT tumble(window_time(w), '20 seconds') AS w2, count(*) AS n
	FROM (SELECT tumble(ts, '10 seconds') AS w, k, count(*) AS n FROM s GROUP BY w, k) a GROUP BY w2$$,
	sink => 'noop', output_mode => 'update');
SELECT create_query('q', 'SELECT k, v FROM s ORDER BY v', sink => 'noop');
SELECT create_query('q', 'SELECT k, count(*) AS n FROM s GROUP BY k ORDER BY n', sink => 'noop', output_mode => 'update');
SELECT create_query('q', 'SELECT k FROM s LIMIT 3', sink => 'noop', output_mode => 'update');

-- clauses
SELECT create_query('q', 'SELECT k FROM s OFFSET 3', sink => 'noop');
SELECT create_query('q', 'SELECT k FROM s ORDER BY v FETCH FIRST 3 ROWS WITH TIES', sink => 'noop');
SELECT create_query('q', 'SELECT k, rank() OVER (PARTITION BY k ORDER BY v) AS r FROM s', sink => 'noop');
SELECT create_query('q', 'SELECT k, v, count(*) AS n FROM s GROUP BY ROLLUP (k, v)', sink => 'noop', output_mode => 'update');
SELECT create_query('q', 'SELECT id FROM l EXCEPT SELECT id FROM r', sink => 'noop');
SELECT create_query('q', 'SELECT id FROM l INTERSECT SELECT id FROM r', sink => 'noop');
SELECT create_query('q', 'SELECT k FROM s UNION ALL SELECT k FROM dim', sink => 'noop');
SELECT create_query('q', 'WITH RECURSIVE x AS (SELECT id FROM l UNION ALL SELECT id + 1 FROM x) SELECT id FROM x', sink => 'noop');
SELECT create_query('q', 'SELECT random() AS r, count(*) AS n FROM s GROUP BY r', sink => 'noop', output_mode => 'update');
SELECT create_query('q', 'SELECT k FROM dim', sink => 'noop');

-- joins and subqueries
SELECT create_query('q', 'SELECT dim.name, s.v FROM dim LEFT JOIN s ON s.k = dim.k', sink => 'noop');
SELECT create_query('q', 'SELECT dim.name, s.v FROM s RIGHT JOIN dim ON s.k = dim.k', sink => 'noop');
SELECT create_query('q', 'SELECT dim.name, s.v FROM s FULL JOIN dim ON s.k = dim.k', sink => 'noop');
SELECT create_query('q', 'SELECT k FROM dim WHERE k NOT IN (SELECT k FROM s)', sink => 'noop');

-- windows and watermarks
SELECT create_query('q', $$SELECT hop(ts, size => '5 seconds', slide => '10 seconds') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT tumble(ts, '1 month') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT tumble(ts, '0 seconds') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT tumble(ts, '5 seconds', '5 seconds') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT tumble(ts, make_interval(secs => v)) AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT a.n, s.k FROM (SELECT k, count(*) AS n FROM s GROUP BY k) a JOIN s ON s.k = a.k$$, sink => 'noop', output_mode => 'complete');
SELECT create_query('q', $$SELECT tumble(ts, '5 s') AS w, hop(ts, '5 s', '1 s') AS h, count(*) AS n FROM s GROUP BY w, h$$, sink => 'noop');
SELECT create_query('q', $$SELECT k, watermark(ts, '-5 seconds') AS ts FROM plain$$, sink => 'noop');
SELECT create_query('q', $$SELECT k, watermark(ts, '5 seconds') AS ts FROM s$$, sink => 'noop');
SELECT create_query('q', $$SELECT k FROM plain WHERE watermark(ts, '5 seconds') > '2026-01-01'$$, sink => 'noop');

-- duplicates
SELECT create_query('q', 'SELECT DISTINCT ON (k) k, v FROM s ORDER BY k, v', sink => 'noop');
SELECT create_query('q', 'SELECT DISTINCT k FROM s', sink => 'noop', output_mode => 'complete');
SELECT create_query('q', 'SELECT DISTINCT ON (within_watermark(k)) k, v FROM plain', sink => 'noop');
SELECT create_query('q', 'SELECT DISTINCT ON (within_watermark(k), v) k, v FROM s', sink => 'noop');
SELECT create_query('q', 'SELECT DISTINCT within_watermark(k) FROM s', sink => 'noop');
SELECT create_query('q', 'SELECT within_watermark(k) FROM s', sink => 'noop');
SELECT create_query('q', 'SELECT DISTINCT random() AS r FROM s', sink => 'noop');
SELECT create_query('q', 'SELECT id FROM l UNION SELECT id FROM r UNION ALL SELECT id FROM l', sink => 'noop');
SELECT create_query('q', 'SELECT DISTINCT n FROM (SELECT k, count(*) AS n FROM s GROUP BY k) a', sink => 'noop', output_mode => 'update');
SELECT within_watermark(1);

-- sessions
SELECT create_query('q', $$SELECT session(ts, '5 s') AS w, k FROM s$$, sink => 'noop');
SELECT create_query('q', $$SELECT session(ts, random() * interval '5 s') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT session(ts, '1 month') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT session(ts, '0') AS w, count(*) AS n FROM s GROUP BY w$$, sink => 'noop');
SELECT create_query('q', $$SELECT session(ts, '5 s') AS w, count(*) AS n FROM s GROUP BY w, k$$, sink => 'sessions', output_mode => 'update');
SELECT create_query('q', $$SELECT session(ts, '5 s') AS w, k, count(*) AS n FROM s GROUP BY w, k$$, sink => 'plain', output_mode => 'update');
SELECT create_query('q', $$SELECT session(ts, '5 s') AS w, count(*) AS n FROM s GROUP BY w UNION ALL SELECT session(ts, '5 s'), 1 FROM s GROUP BY 1$$, sink => 'sessions', output_mode => 'update');
SELECT session(now(), '5 s');

-- joins of streams
SELECT create_query('q', 'SELECT l.id, r.v FROM l JOIN r ON l.id < r.id', sink => 'noop');
SELECT create_query('q', 'SELECT l.id, r.v FROM l JOIN r ON l.id = r.id', sink => 'noop', output_mode => 'complete');
SELECT create_query('q', 'SELECT l.id, r.v FROM l LEFT JOIN r ON l.id = r.id AND l.ts = r.ts', sink => 'noop', output_mode => 'update');
SELECT create_query('q', 'SELECT l.id, r.v FROM l LEFT JOIN r ON l.id = r.id', sink => 'noop');
SELECT create_query('q', 'SELECT s.v FROM s LEFT JOIN plain p ON s.k = p.k AND s.ts = p.ts', sink => 'noop');
SELECT create_query('q', 'SELECT l.id FROM l WHERE EXISTS (SELECT FROM r WHERE r.id = l.id)', sink => 'noop');
SELECT create_query('q', 'SELECT l.id FROM l WHERE EXISTS (SELECT max(v) FROM r WHERE r.id = l.id GROUP BY id)', sink => 'noop');
SELECT create_query('q', 'SELECT l.id, EXISTS (SELECT FROM r WHERE r.id = l.id) AS e FROM l', sink => 'noop');
SELECT create_query('q', 'SELECT l.id FROM l WHERE id NOT IN (SELECT id FROM r)', sink => 'noop');
SELECT create_query('q', 'SELECT l.id FROM l JOIN r ON l.id = r.id AND random() < l.v + r.v', sink => 'noop');
SELECT create_query('q', 'SELECT l.id FROM l LEFT JOIN r ON l.id = r.id AND l.ts = r.ts AND l.v < (SELECT count(*) FROM dim WHERE r.v > 0)', sink => 'noop');

-- nothing of all that left a trace
SELECT count(*) FROM streamx.queries;

DROP FOREIGN TABLE s, l, r, plain;
DROP TABLE dim;
