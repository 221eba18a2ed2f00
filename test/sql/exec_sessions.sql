-- Session windows: random rows in batches with restarts in between against a reference in
-- plain SQL that merges by gaps and islands, in every output mode, on both stores.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();
SELECT setseed(0.25) \g /dev/null

CREATE FOREIGN TABLE es (id int, n numeric, t text, v bigint, gap interval, ts timestamptz OPTIONS (watermark '30 seconds')) SERVER streamx;
CREATE TABLE es_rows (batch int, id serial, n numeric, t text, v bigint, gap interval, ts timestamptz);
-- numbers of unequal scales, NULLs; gaps of none, zero and less; times that are none, and some that come late
INSERT INTO es_rows (batch, n, t, v, gap, ts)
SELECT batch, CASE WHEN i % 50 = 0 THEN NULL WHEN i % 2 = 0 THEN (random() * 160)::int::numeric(10,0) ELSE (random() * 160)::int::numeric(10,2) END,
	md5(i::text), CASE WHEN i % 9 <> 0 THEN (random() * 1000)::int END,
	CASE WHEN i % 40 = 0 THEN NULL WHEN i % 41 = 0 THEN '0' WHEN i % 43 = 0 THEN '-3 s' ELSE (random() * 5000)::int * interval '1 ms' END,
	CASE WHEN i % 97 = 0 THEN NULL WHEN i % 101 = 0 THEN 'infinity' ELSE
	timestamptz '2026-01-15 10:00Z' + batch * interval '20 s' + (random() * 60000)::int * interval '1 ms' END
FROM generate_series(1, 6) batch, generate_series(1, 800) i;

-- Two values make one by combine functions, with or without bytes of their own, or by their arguments.
CREATE AGGREGATE es_xor(bigint) (sfunc = int8xor, stype = bigint, initcond = '0');
\set columns 'count(*) AS c, sum(v) AS s, avg(v::numeric) AS a, max(t) AS m, bool_or(v > 900) AS o, array_agg(v ORDER BY v, id) AS l, count(DISTINCT v % 7) AS d, percentile_disc(0.5) WITHIN GROUP (ORDER BY v) AS p, es_xor(v) AS x, count(v) FILTER (WHERE v < 500) AS f'

CREATE TABLE es_queries (name text, query text, mode text, store text, per_row bool, keyed bool, having_less int);
INSERT INTO es_queries SELECT name || '_' || store, format(query, :'columns'), mode, store, per_row, keyed, having_less FROM (VALUES
	('es_append', $$SELECT session(ts, '2 s') AS w, n, %s FROM es GROUP BY w, n$$, 'append', false, true, NULL),
	('es_gaps', $$SELECT w, n, %s FROM (SELECT session(ts, gap) AS w, * FROM es) e GROUP BY n, w$$, 'append', true, true, NULL),
	('es_alone', $$SELECT session(ts, '20 ms') AS w, %s FROM es GROUP BY w$$, 'append', false, false, NULL),
	('es_update', $$SELECT session(ts, '2 s') AS w, n, %s FROM es GROUP BY w, n$$, 'update', false, true, NULL),
	('es_update_gaps', $$SELECT session(ts, gap) AS w, n, %s FROM es GROUP BY w, n$$, 'update', true, true, NULL),
	('es_update_few', $$SELECT session(ts, '2 s') AS w, n, %s FROM es GROUP BY w, n HAVING count(*) < 3$$, 'update', false, true, 3),
	('es_complete', $$SELECT session(ts, '2 s') AS w, n, %s FROM es GROUP BY w, n$$, 'complete', false, true, NULL),
	('es_complete_gaps', $$SELECT session(ts, gap) AS w, n, %s FROM es GROUP BY w, n$$, 'complete', true, true, NULL)) q(name, query, mode, per_row, keyed, having_less),
	LATERAL (SELECT CASE WHEN name ~ 'gaps|few|alone' THEN 'table' ELSE 'rocksdb' END) s(store);

-- Batch by batch: open sessions and the rows that are not late are merged, then those that have ended close.
CREATE FUNCTION es_reference(per_row bool, keyed bool, closes bool) RETURNS TABLE (n numeric, st timestamptz, en timestamptz, ids int[], closed bool)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
	late timestamptz;
	evict timestamptz;
BEGIN
	CREATE TEMP TABLE open (n numeric, st timestamptz, en timestamptz, ids int[]) ON COMMIT DROP;
	CREATE TEMP TABLE final (n numeric, st timestamptz, en timestamptz, ids int[]) ON COMMIT DROP;
	FOR b IN 1 .. 6 LOOP
		evict := (SELECT max(ts) - interval '30 s' FROM es_rows WHERE batch <= b AND isfinite(ts));
		INSERT INTO open SELECT CASE WHEN keyed THEN r.n END, ts, ts + g, ARRAY[id]
			FROM es_rows r, LATERAL (SELECT CASE WHEN per_row THEN r.gap WHEN keyed THEN '2 s' ELSE '20 ms' END AS g) x
			WHERE batch = b AND isfinite(ts) AND g > '0' AND (NOT closes OR late IS NULL OR ts + g > late);
		CREATE TEMP TABLE merged ON COMMIT DROP AS
			SELECT n, min(st) AS st, max(en) AS en, array_agg(i) AS ids FROM (
				SELECT *, count(*) FILTER (WHERE first) OVER (PARTITION BY n ORDER BY st, en, ids) AS island FROM (
					SELECT *, coalesce(st > max(en) OVER (PARTITION BY n ORDER BY st, en, ids ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS first
					FROM open) f) g, unnest(ids) i
			GROUP BY n, island;
		TRUNCATE open;
		INSERT INTO open SELECT * FROM merged WHERE NOT closes OR en > evict;
		INSERT INTO final SELECT * FROM merged WHERE closes AND en <= evict;
		DROP TABLE merged;
		late := evict;
	END LOOP;
	RETURN QUERY SELECT *, true FROM final UNION ALL SELECT *, false FROM open;
	DROP TABLE open, final;
END $$;

SELECT create_query(name, query, sink => name, output_mode => mode, options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM es_queries \g /dev/null
SELECT start_query(name) FROM es_queries \g /dev/null
INSERT INTO es SELECT id, n, t, v, gap, ts FROM es_rows WHERE batch = 1;
SELECT process_all_available(name) FROM es_queries \g /dev/null
INSERT INTO es SELECT id, n, t, v, gap, ts FROM es_rows WHERE batch = 2;
SELECT process_all_available(name) FROM es_queries \g /dev/null
SELECT stop_query(name) FROM es_queries \g /dev/null
SELECT start_query(name) FROM es_queries \g /dev/null
INSERT INTO es SELECT id, n, t, v, gap, ts FROM es_rows WHERE batch = 3;
SELECT process_all_available(name) FROM es_queries \g /dev/null
INSERT INTO es SELECT id, n, t, v, gap, ts FROM es_rows WHERE batch = 4 ORDER BY id DESC;
SELECT process_all_available(name) FROM es_queries \g /dev/null
INSERT INTO es SELECT id, n, t, v, gap, ts FROM es_rows WHERE batch = 5;
SELECT process_all_available(name) FROM es_queries \g /dev/null
SELECT stop_query(name) FROM es_queries \g /dev/null
SELECT start_query(name) FROM es_queries \g /dev/null
INSERT INTO es SELECT id, n, t, v, gap, ts FROM es_rows WHERE batch = 6;
SELECT process_all_available(name) FROM es_queries \g /dev/null

CREATE TABLE es_merged AS
	SELECT per_row, keyed, closes, row_number() OVER () AS number, r.* FROM
		(SELECT DISTINCT per_row, keyed, mode <> 'complete' AS closes FROM es_queries) q, es_reference(per_row, keyed, closes) r;
SELECT format('CREATE TABLE es_wanted AS SELECT per_row, keyed, closes, closed, tstzrange(st, en) AS w, m.n, %s FROM es_merged m, unnest(ids) AS i(id) JOIN es_rows USING (id) GROUP BY number, per_row, keyed, closes, closed, st, en, m.n',
	:'columns') \gexec

-- Append has what has closed, update also what is open.
SELECT is_empty(format('(SELECT * FROM %1$I EXCEPT ALL %2$s) UNION ALL (%2$s EXCEPT ALL SELECT * FROM %1$I)', name,
		format('SELECT w, %s c, s, a, m, o, l, d, p, x, f FROM es_wanted WHERE per_row = %L AND keyed = %L AND closes = %L %s %s',
			CASE WHEN keyed THEN 'n,' END, per_row, keyed, mode <> 'complete', CASE WHEN mode = 'append' THEN 'AND closed' END,
			CASE WHEN having_less IS NOT NULL THEN 'AND c < ' || having_less END)),
		name || ' is what merging batch by batch gives')
	FROM es_queries ORDER BY name;
SELECT cmp_ok((SELECT count(*) FROM es_wanted WHERE closes AND closed AND keyed AND NOT per_row), '>', 100::bigint, 'many sessions have closed');
SELECT cmp_ok((SELECT count(*) FROM es_wanted WHERE closes AND NOT closed AND keyed AND NOT per_row), '>', 50::bigint, 'others are open');
SELECT cmp_ok((SELECT max(c) FROM es_wanted WHERE closes AND keyed), '>', 10::bigint, 'some have many rows');
SELECT is((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::bigint,
		(SELECT count(*) FROM es_wanted w WHERE w.per_row = q.per_row AND w.keyed = q.keyed AND w.closes = (q.mode <> 'complete') AND NOT w.closed),
		name || ': state rows are open sessions')
	FROM es_queries q ORDER BY name;
SELECT is((SELECT sum((p #>> '{stateOperators,0,numRowsDroppedByWatermark}')::int) FROM recent_progress('es_gaps_table') p),
	(SELECT count(*) FROM es_rows WHERE isfinite(ts) AND gap > '0') -
	(SELECT sum(cardinality(ids)) FROM es_merged WHERE per_row AND keyed AND closes)::bigint, 'late rows are counted, and no others');

-- Nothing is left of what has closed.
INSERT INTO es (id, n, v, gap, ts) VALUES (0, -1, 1, '1 s', '2026-01-16 10:00Z');
SELECT process_all_available(name) FROM es_queries \g /dev/null
SELECT is((last_progress(name) #>> '{stateOperators,0,numRowsTotal}')::int, 1, name || ': one session is open after a day')
	FROM es_queries WHERE mode <> 'complete' ORDER BY name;

-- CASE-14: a late row bridges two sessions
CREATE FOREIGN TABLE ec (k text, ts timestamptz OPTIONS (watermark '30 minutes')) SERVER streamx;
SELECT create_query('ec_14', $$SELECT session(ts, '5 minutes') AS w, k, count(*) AS n FROM ec GROUP BY w, k$$, sink => 'ec_14') \g /dev/null
SELECT start_query('ec_14') \g /dev/null
INSERT INTO ec VALUES ('k', '2026-01-15 10:00Z'), ('k', '2026-01-15 10:08Z');
SELECT process_all_available('ec_14') \g /dev/null
INSERT INTO ec VALUES ('k', '2026-01-15 10:04Z');
SELECT process_all_available('ec_14') \g /dev/null
INSERT INTO ec VALUES ('z', '2026-01-15 11:00Z');
SELECT process_all_available('ec_14') \g /dev/null
SELECT results_eq('TABLE ec_14', $$VALUES (tstzrange('2026-01-15 10:00Z', '2026-01-15 10:13Z'), 'k', 3::bigint)$$, 'a late row makes one session of two');
SELECT drop_query('ec_14') \g /dev/null
DROP FOREIGN TABLE ec;

-- CASE-15: a row exactly one gap after the last one; all at once, and each row in a batch of its own, in any order
CREATE FOREIGN TABLE ec (k int, ts timestamptz OPTIONS (watermark '1 hour')) SERVER streamx;
SELECT create_query('ec_15', $$SELECT k, session(ts, '5 minutes') AS w, count(*) AS n FROM ec GROUP BY w, k$$, sink => 'ec_15') \g /dev/null
SELECT start_query('ec_15') \g /dev/null
INSERT INTO ec VALUES (0, '2026-01-15 10:00:00Z'), (0, '2026-01-15 10:05:00Z'), (0, '2026-01-15 10:10:01Z');
SELECT process_all_available('ec_15') \g /dev/null
INSERT INTO ec VALUES (1, '2026-01-15 10:00:00Z'), (2, '2026-01-15 10:00:00Z'), (3, '2026-01-15 10:05:00Z'), (4, '2026-01-15 10:05:00Z'), (5, '2026-01-15 10:10:01Z'), (6, '2026-01-15 10:10:01Z');
SELECT process_all_available('ec_15') \g /dev/null
INSERT INTO ec VALUES (1, '2026-01-15 10:05:00Z'), (2, '2026-01-15 10:10:01Z'), (3, '2026-01-15 10:00:00Z'), (4, '2026-01-15 10:10:01Z'), (5, '2026-01-15 10:00:00Z'), (6, '2026-01-15 10:05:00Z');
SELECT process_all_available('ec_15') \g /dev/null
INSERT INTO ec VALUES (1, '2026-01-15 10:10:01Z'), (2, '2026-01-15 10:05:00Z'), (3, '2026-01-15 10:10:01Z'), (4, '2026-01-15 10:00:00Z'), (5, '2026-01-15 10:05:00Z'), (6, '2026-01-15 10:00:00Z');
SELECT process_all_available('ec_15') \g /dev/null
INSERT INTO ec VALUES (9, '2026-01-15 12:00Z');
SELECT process_all_available('ec_15') \g /dev/null
SELECT set_eq('TABLE ec_15', $$SELECT k, w, n FROM generate_series(0, 6) k, (VALUES (tstzrange('2026-01-15 10:00:00Z', '2026-01-15 10:10:00Z'), 2::bigint),
	(tstzrange('2026-01-15 10:10:01Z', '2026-01-15 10:15:01Z'), 1)) s(w, n)$$, 'sessions that touch are one, a second apart they are two, in every order');
SELECT is((SELECT count(*) FROM ec_15), 14::bigint, 'each once');
SELECT drop_query('ec_15') \g /dev/null
DROP FOREIGN TABLE ec;

-- CASE-16: a session is open for gap and delay after its last row
CREATE FOREIGN TABLE ec (k text, ts timestamptz OPTIONS (watermark '5 minutes')) SERVER streamx;
SELECT create_query('ec_16', $$SELECT session(ts, '10 minutes') AS w, k, count(*) AS n FROM ec GROUP BY w, k$$, sink => 'ec_16') \g /dev/null
SELECT start_query('ec_16') \g /dev/null
INSERT INTO ec VALUES ('k', '2026-01-15 10:00Z');
SELECT process_all_available('ec_16') \g /dev/null
INSERT INTO ec VALUES ('z', '2026-01-15 10:12Z');
SELECT process_all_available('ec_16') \g /dev/null
INSERT INTO ec VALUES ('k', '2026-01-15 10:09Z');
SELECT process_all_available('ec_16') \g /dev/null
SELECT is((SELECT count(*) FROM ec_16), 0::bigint, 'nothing is written while a row may come');
INSERT INTO ec VALUES ('z', '2026-01-15 12:00Z');
SELECT process_all_available('ec_16') \g /dev/null
SELECT set_eq('TABLE ec_16', $$VALUES (tstzrange('2026-01-15 10:00Z', '2026-01-15 10:19Z'), 'k', 2::bigint), (tstzrange('2026-01-15 10:12Z', '2026-01-15 10:22Z'), 'z', 1)$$,
	'then once, with all its rows');
SELECT is((SELECT sum((p #>> '{stateOperators,0,numRowsDroppedByWatermark}')::int) FROM recent_progress('ec_16') p), 0::bigint, 'no row was late');
SELECT drop_query('ec_16') \g /dev/null
DROP FOREIGN TABLE ec;

-- Update mode: what foreach_batch gets when a session grows, and when a row comes that changes no window.
CREATE FOREIGN TABLE ec (k text, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CREATE TABLE ec_seen (batch bigint, op text, k text, w tstzrange, n bigint);
CREATE FUNCTION ec_take(batch_id bigint) RETURNS void LANGUAGE plpgsql AS 'BEGIN INSERT INTO ec_seen SELECT batch_id, op, k, w, n FROM batch; END';
SELECT create_query('ec_each', $$SELECT session(ts, '10 s') AS w, k, count(*) AS n FROM ec GROUP BY w, k$$, foreach_batch => 'ec_take(bigint)', output_mode => 'update', options => '{"no_data_batches": false}') \g /dev/null
SELECT create_query('ec_bounds', $$SELECT upper(w) AS until, k, n FROM (SELECT session(ts, '10 s') AS w, k, count(*) AS n FROM ec GROUP BY 1, 2) s$$, sink => 'ec_bounds', output_mode => 'update') \g /dev/null
SELECT start_query(name) FROM unnest('{ec_each,ec_bounds}'::text[]) name \g /dev/null
INSERT INTO ec VALUES ('a', '2026-01-15 10:00:00Z'), ('a', '2026-01-15 10:00:15Z'), ('b', '2026-01-15 10:00:00Z');
SELECT process_all_available(name) FROM unnest('{ec_each,ec_bounds}'::text[]) name \g /dev/null
INSERT INTO ec VALUES ('a', '2026-01-15 10:00:07Z'), ('b', '2026-01-15 10:00:00Z');
SELECT process_all_available(name) FROM unnest('{ec_each,ec_bounds}'::text[]) name \g /dev/null
SELECT results_eq('SELECT op, k, lower(w), upper(w), n FROM ec_seen WHERE batch = 0 ORDER BY k, w', $$VALUES
	('upsert', 'a', '2026-01-15 10:00:00Z'::timestamptz, '2026-01-15 10:00:10Z'::timestamptz, 1::bigint),
	('upsert', 'a', '2026-01-15 10:00:15Z', '2026-01-15 10:00:25Z', 1),
	('upsert', 'b', '2026-01-15 10:00:00Z', '2026-01-15 10:00:10Z', 1)$$, 'sessions that begin are written');
SELECT results_eq('SELECT op, k, lower(w), upper(w), n FROM ec_seen WHERE batch = 1 ORDER BY op, k, w', $$VALUES
	('delete', 'a', '2026-01-15 10:00:00Z'::timestamptz, '2026-01-15 10:00:10Z'::timestamptz, NULL::bigint),
	('delete', 'a', '2026-01-15 10:00:15Z', '2026-01-15 10:00:25Z', NULL),
	('upsert', 'a', '2026-01-15 10:00:00Z', '2026-01-15 10:00:25Z', 3),
	('upsert', 'b', '2026-01-15 10:00:00Z', '2026-01-15 10:00:10Z', 2)$$, 'the windows of those that became one are deleted; one that stays as it is, is not');
SELECT set_eq('TABLE ec_bounds', $$VALUES ('2026-01-15 10:00:25Z'::timestamptz, 'a', 3::bigint), ('2026-01-15 10:00:10Z', 'b', 2)$$, 'the end of a session is a key of its rows');

-- A key with thousands of open sessions: a batch writes those that it touches. Then rows that join
-- sessions of several pieces, that lie within a piece or before all, and a watermark in the midst.
CREATE FOREIGN TABLE em (n numeric, v int, ts timestamptz OPTIONS (watermark '3 hours')) SERVER streamx;
CREATE TABLE em_rows (n numeric, v int, ts timestamptz);
CREATE FUNCTION em_sessions(closed_by timestamptz) RETURNS TABLE (w tstzrange, n numeric, vs int[]) LANGUAGE sql AS $$
	SELECT tstzrange(min(ts), max(ts) + interval '1 s'), n, array_agg(v ORDER BY v) FROM (
		SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY n ORDER BY ts) AS island FROM (
			SELECT *, coalesce(ts > lag(ts) OVER (PARTITION BY n ORDER BY ts) + interval '1 s', true) AS starts FROM em_rows) s) i
	GROUP BY n, island HAVING max(ts) + interval '1 s' <= closed_by
$$;
SELECT create_query('em_' || mode || '_' || store, 'SELECT session(ts, ''1 s'') AS w, n, array_agg(v ORDER BY v) AS vs FROM em GROUP BY w, n',
	sink => 'em_' || mode || '_' || store, output_mode => mode, options => jsonb_build_object('state_store', store))
	FROM (VALUES ('append', 'table'), ('update', 'rocksdb'), ('complete', 'rocksdb')) q(mode, store) \g /dev/null
CREATE VIEW em_names AS SELECT name, CASE WHEN name LIKE '%append%' THEN '-infinity' ELSE 'infinity' END::timestamptz AS closed_by FROM streamx.queries WHERE name LIKE 'em\_%';
CREATE PROCEDURE em_put(n numeric, vs int[], at interval[]) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO em_rows SELECT n, v, timestamptz '2026-01-15 10:00Z' + a FROM unnest(vs, at) r(v, a);
	INSERT INTO em SELECT n, v, timestamptz '2026-01-15 10:00Z' + a FROM unnest(vs, at) r(v, a);
	COMMIT;
	PERFORM stop_query(name), start_query(name) FROM em_names;
	COMMIT;
	PERFORM process_all_available(name) FROM em_names;
	COMMIT;
END $$;
CREATE FUNCTION em_numbers(low int, high int) RETURNS int[] LANGUAGE sql AS 'SELECT ARRAY(SELECT generate_series(low, high))';
CREATE FUNCTION em_times(low int, high int, step interval) RETURNS interval[] LANGUAGE sql AS 'SELECT ARRAY(SELECT i * step FROM generate_series(low, high) i)';
CREATE FUNCTION em_right(watermark timestamptz) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	q record;
BEGIN
	FOR q IN SELECT * FROM em_names ORDER BY name LOOP
		RETURN NEXT set_eq(format('TABLE %I', q.name), format('SELECT * FROM em_sessions(%L)', greatest(q.closed_by, watermark)), q.name || ' has what it should by watermark ' || watermark);
	END LOOP;
END $$;
CALL em_put(1.0, em_numbers(1, 3000), em_times(1, 3000, '4 s'));
SELECT em_right('2026-01-15 10:20Z');
CREATE FUNCTION em_log() RETURNS bigint LANGUAGE sql AS $$
	SELECT sum((xpath('/row/n/text()', query_to_xml(format('SELECT coalesce(sum(octet_length(data)), 0) AS n FROM %s', c.oid::regclass), false, true, '')))[1]::text::bigint)::bigint
	FROM pg_class c, streamx.query q WHERE q.name = 'em_update_rocksdb' AND c.relname LIKE format('state\_log\_%s\_%%', q.id) AND c.relkind = 'r'
$$;
CREATE PROCEDURE em_put_few() LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1 .. 40 LOOP
		INSERT INTO em_rows SELECT 1, 7000 + i, '2026-01-15 13:19:52.5Z';
		INSERT INTO em SELECT 1.00, 7000 + i, '2026-01-15 13:19:52.5Z';
		COMMIT;
		PERFORM process_all_available('em_update_rocksdb');
		COMMIT;
	END LOOP;
END $$;
SELECT em_log() AS em_log \gset
CALL em_put_few();
SELECT cmp_ok(em_log() - :em_log, '<', 1000000::bigint, 'batches of a row do not write all sessions of its key');
CALL em_put(1, '{7102,7103,7104,7105,7106,7107}', '{5001 s,5000 s,7003 s,5003 s,7001 s,6000.5 s}');
SELECT em_right('2026-01-15 10:20Z');
CALL em_put(1, em_numbers(8001, 8300), em_times(8001, 8300, '1 s'));
SELECT em_right('2026-01-15 10:20Z');
CALL em_put(2, '{9001}', '{18000 s}');
SELECT em_right('2026-01-15 12:00Z');
CALL em_put(1, '{9002,9003}', '{7201 s,12000.5 s}');
SELECT em_right('2026-01-15 12:00Z');
CALL em_put(2, '{9004}', '{36000 s}');
SELECT em_right('2026-01-15 17:00Z');
SELECT is(last_progress(name) #>> '{stateOperators,0,numRowsTotal}', '1', 'one is open in ' || name) FROM em_names WHERE name !~ 'complete' ORDER BY name;

-- What is refused
SELECT throws_ok($$SELECT create_query('ec_no', 'SELECT session(ts, ''10 s'') AS w, count(*) AS n FROM ec GROUP BY w, k', sink => 'ec_no', output_mode => 'update')$$,
	'42P10', NULL, 'update mode needs the whole key');
SELECT throws_ok($$SELECT create_query('ec_no', 'SELECT lower(session(ts, length(k) * interval ''1 s'')) AS w, count(*) AS n FROM ec GROUP BY session(ts, length(k) * interval ''1 s'')', sink => 'ec_no', output_mode => 'update')$$,
	'42P10', NULL, 'with gaps of their own two sessions may begin alike');
SELECT throws_like(format('SELECT create_query(''ec_no'', %L, sink => ''ec_no'')', query), message, 'refused: ' || message) FROM (VALUES
	('SELECT session(ts, ''10 s'') AS w FROM ec', 'session() outside the grouping columns'),
	('SELECT k, count(session(ts, ''10 s'')) AS n FROM ec GROUP BY tumble(ts, ''1 s''), k', 'session() outside the grouping columns'),
	('SELECT session(ts, ''1 month'') AS w, count(*) AS n FROM ec GROUP BY w', 'window gap must not contain months or years'),
	('SELECT session(ts, ''0'') AS w, count(*) AS n FROM ec GROUP BY w', 'the gap of session() must be greater than zero'),
	('SELECT session(ts, NULL) AS w, count(*) AS n FROM ec GROUP BY w', 'the gap of session() must not be null'),
	('SELECT session(ts, random() * interval ''1 s'') AS w, count(*) AS n FROM ec GROUP BY w', 'the gap of session() is volatile'),
	('SELECT session(ts, ''1 s'') AS w, ts, count(*) AS n FROM ec GROUP BY w, ts', 'more than one event time among the grouping columns'),
	('SELECT session(ts, ''1 s'') AS w, tumble(ts, ''1 s'') AS x, count(*) AS n FROM ec GROUP BY w, x', 'more than one event time among the grouping columns')) r(query, message);
CREATE FOREIGN TABLE ec_out (w tstzrange, n bigint) SERVER streamx;
SELECT throws_like($$SELECT create_query('ec_no', 'SELECT session(ts, ''10 s'') AS w, count(*) AS n FROM ec GROUP BY w', sink => 'ec_out', output_mode => 'update')$$,
	'session windows in output mode "update" need a sink that can delete rows', 'a stream can only be added to');
SELECT throws_like($$SELECT create_query('ec_no', 'SELECT session(ts, ''10 s'') AS w, count(*) AS op FROM ec GROUP BY w', foreach_batch => 'ec_take(bigint)', output_mode => 'update')$$,
	'query "ec_no" has a column "op"', 'its name is taken');

SELECT drop_query(name) FROM streamx.queries \g /dev/null
DROP FOREIGN TABLE es, ec, ec_out, em;
SELECT finish();
