-- Handlers with state: values, lists and maps of a key, in PL/pgSQL, SQL and C, over
-- batches with a restart between them, both stores, with keys of awkward equality.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE EXTENSION IF NOT EXISTS streamx_handler_test;
SELECT no_plan();

CREATE FOREIGN TABLE tr (k numeric, name text, v int, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE TABLE tr_queries (name text, query text);
CREATE TYPE tr_pair AS (a int, b text);

-- a value, of a row type, and a map whose keys are numbers of any scale
CREATE TYPE tr_stat AS (n bigint, longest text);
CREATE TYPE tr_out AS (n bigint, longest text, names bigint, of_v bigint);
CREATE FUNCTION tr_handler(key numeric, rows tr[], timer timestamptz) RETURNS SETOF tr_out LANGUAGE plpgsql AS $$
DECLARE
	stat tr_stat := state_get('stat', NULL::tr_stat);
	r tr;
BEGIN
	FOREACH r IN ARRAY rows LOOP
		stat.n := coalesce(stat.n, 0) + 1;
		IF stat.longest IS NULL OR length(r.name) > length(stat.longest) THEN
			stat.longest := r.name;
		END IF;
		PERFORM state_map_put('by_v', r.v::numeric / 2, coalesce(state_map_get('by_v', r.v * 0.50, NULL::bigint), 0) + 1);
		PERFORM state_list_append('names', r.name);
	END LOOP;
	PERFORM state_put('stat', stat);
	RETURN NEXT (stat.n, stat.longest, state_list_length('names'),
		(SELECT sum(x) FROM unnest(state_map_values('by_v', NULL::bigint)) x))::tr_out;
END $$;
INSERT INTO tr_queries SELECT 'tr_all_' || store, $q$SELECT t.k, r.n, r.longest, r.names, r.of_v
	FROM tr t CROSS JOIN LATERAL transform_with_state('tr_handler', t.k, t, NULL::tr_out,
		state => ARRAY[value_state('stat', NULL::tr_stat), list_state('names', NULL::text), map_state('by_v', NULL::numeric, NULL::bigint)]) AS r$q$
	FROM unnest('{rocksdb,table}'::text[]) store;

-- in SQL, with a key of two columns, rows of another type, a condition on either side, an alias of the result
CREATE FUNCTION tr_in_sql(key tr_pair, rows int[], timer timestamptz) RETURNS SETOF bigint LANGUAGE sql AS $$
	SELECT state_put('sum', coalesce(state_get('sum', 0::bigint), 0) + (SELECT sum(r) FROM unnest(rows) r));
	SELECT state_get('sum', NULL::bigint) WHERE (key).b IS NOT NULL
$$;
INSERT INTO tr_queries VALUES ('tr_sql', $$SELECT ((t.v % 3, t.name)::tr_pair).a AS a, x.total, x.total * 2 AS twice
	FROM (SELECT * FROM tr WHERE v > 0 AND name <> 'nobody') t
	JOIN LATERAL transform_with_state('tr_in_sql', (t.v % 3, t.name)::tr_pair, t.v, NULL::bigint, state => ARRAY[value_state('sum', 0::bigint)]) AS x(total) ON t.v < 1000
	WHERE x.total > 5$$);

-- in C
INSERT INTO tr_queries VALUES ('tr_c', $$SELECT t.v, n FROM tr t, transform_with_state('count_rows_in_c', t.v, t.v, NULL::bigint, state => ARRAY[value_state('n', NULL::bigint)]) n$$);

-- what a handler does in a block whose error it catches is undone
CREATE FUNCTION tr_catches(key text, rows tr[], timer timestamptz) RETURNS SETOF tr_out LANGUAGE plpgsql AS $$
DECLARE
	kept bigint;
BEGIN
	PERFORM state_put('n', coalesce(state_get('n', NULL::bigint), 0) + cardinality(rows));
	FOR i IN 1 .. 3 LOOP
		BEGIN
			PERFORM state_put('n', -1::bigint), state_list_append('l', 'lost'), state_map_put('m', key, 'lost'), timer_set('2020-01-01Z');
			BEGIN
				PERFORM state_clear('n'), state_map_put('m', key, 'inner');
			EXCEPTION WHEN division_by_zero THEN NULL;
			END;
			IF i <> 2 THEN
				PERFORM 1 / 0;
			END IF;
			PERFORM state_put('n', 1000000::bigint + cardinality(rows)), timer_delete('2020-01-01Z');
		EXCEPTION WHEN division_by_zero THEN
			kept := state_get('n', NULL::bigint);
		END;
	END LOOP;
	RETURN NEXT (kept, state_map_get('m', key, NULL::text), state_list_length('l'), cardinality(timer_list()))::tr_out;
END $$;
INSERT INTO tr_queries VALUES ('tr_caught', $$SELECT r.* FROM tr CROSS JOIN LATERAL transform_with_state('tr_catches', tr.name, tr, NULL::tr_out, time_mode => 'event',
	state => ARRAY[value_state('n', NULL::bigint), list_state('l', NULL::text), map_state('m', NULL::text, NULL::text)]) r$$);

-- a large key comes in pieces
CREATE FUNCTION tr_piece(key int, rows tr[], timer timestamptz) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT cardinality(rows)::bigint';
INSERT INTO tr_queries VALUES ('tr_pieces', $$SELECT key.k, n FROM (SELECT 1 AS k, tr FROM tr) key, transform_with_state('tr_piece', key.k, key.tr, NULL::bigint, max_rows => 700) n$$);

-- the watermark passes through, and an aggregation stands above
CREATE TYPE tr_event AS (at timestamptz, n bigint);
CREATE FUNCTION tr_events(key text, rows tr[], timer timestamptz) RETURNS SETOF tr_event LANGUAGE sql AS 'SELECT (r.ts, 1)::tr_event FROM unnest(rows) r';
INSERT INTO tr_queries VALUES ('tr_above', $$SELECT w, count(*) AS n FROM (SELECT tumble(r.at, '1 minute') AS w
	FROM tr t CROSS JOIN LATERAL transform_with_state('tr_events', t.name, t, NULL::tr_event, time_mode => 'event', event_time_column => 'at') r) x GROUP BY w$$);
INSERT INTO tr_queries VALUES ('tr_same', $$SELECT tumble(r.at, '1 minute') AS w, count(*) AS n
	FROM tr t CROSS JOIN LATERAL transform_with_state('tr_events', t.name, t, NULL::tr_event, time_mode => 'event', event_time_column => 'at') r GROUP BY 1$$);
-- a join of streams below
CREATE FOREIGN TABLE tj (name text, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
CREATE FUNCTION tr_joined(key text, rows timestamptz[], timer timestamptz) RETURNS SETOF bigint LANGUAGE sql AS 'SELECT cardinality(rows)::bigint';
INSERT INTO tr_queries VALUES ('tr_join', $$SELECT DISTINCT t.name, n FROM tr t JOIN tj ON t.name = tj.name AND t.ts BETWEEN tj.ts - interval '1 minute' AND tj.ts + interval '1 minute'
	CROSS JOIN LATERAL transform_with_state('tr_joined', t.name, tj.ts, NULL::bigint, time_mode => 'event') n$$);
-- and below
CREATE TYPE tr_count AS (n bigint, name text);
CREATE FUNCTION tr_of_counts(key text, rows tr_count[], timer timestamptz) RETURNS SETOF tr_count LANGUAGE sql AS 'SELECT r.* FROM unnest(rows) r WHERE r.n > 1';
INSERT INTO tr_queries VALUES ('tr_below', $$SELECT r.* FROM (SELECT tumble(ts, '1 minute') AS w, name, count(*) AS n FROM tr GROUP BY 1, name) c
	CROSS JOIN LATERAL transform_with_state('tr_of_counts', c.name, (c.n, c.name)::tr_count, NULL::tr_count, time_mode => 'event') r$$);

SELECT create_query(name, query, sink => name, options => jsonb_build_object('state_store', CASE WHEN name ~ 'table' THEN 'table' ELSE 'rocksdb' END, 'state_memory', '1MB'))
	FROM tr_queries \g /dev/null

INSERT INTO tj VALUES ('name 1', '2026-01-15 10:00:06Z'), ('name 1', '2026-01-15 10:00:07Z'), ('nothing', '2026-01-15 10:30Z');
INSERT INTO tr VALUES (1.0, 'a', 1, '2026-01-15 10:00Z'), (1.00, 'bb', 2, '2026-01-15 10:00Z'), (NULL, 'ccc', 2, '2026-01-15 10:00:01Z'), ('NaN', 'a', 3, '2026-01-15 10:00:02Z');
SELECT start_query(name) FROM tr_queries \g /dev/null
SELECT process_all_available(name) FROM tr_queries \g /dev/null
SELECT stop_query(name) FROM tr_queries \g /dev/null
SELECT start_query(name) FROM tr_queries \g /dev/null
INSERT INTO tr SELECT i % 300 + 0.000, 'name ' || i % 40, i % 50, '2026-01-15 10:00:05Z' FROM generate_series(1, 3000) i;
SELECT process_all_available(name) FROM tr_queries \g /dev/null
SELECT stop_query(name) FROM tr_queries \g /dev/null
SELECT start_query(name) FROM tr_queries \g /dev/null
INSERT INTO tr VALUES (1.000, 'dddddddddddd', 4, '2026-01-15 10:30Z'), (NULL, 'e', 4, '2026-01-15 10:30Z'), ('NaN', 'ff', 4, '2026-01-15 10:30Z');
SELECT process_all_available(name) FROM tr_queries \g /dev/null

SELECT results_eq(format($$SELECT k, n, longest, names, of_v FROM %I WHERE k = 1 OR k = 'NaN' OR k IS NULL ORDER BY k, n$$, 'tr_all_' || store),
	$$VALUES (1::numeric, 2::bigint, 'bb', 2::bigint, 2::bigint), (1, 12, 'name 21', 12, 12), (1, 13, 'dddddddddddd', 13, 13),
		('NaN', 1, 'a', 1, 1), ('NaN', 2, 'ff', 2, 2), (NULL, 1, 'ccc', 1, 1), (NULL, 2, 'ccc', 2, 2)$$,
	store || ': values, lists and maps of a key, whatever its scale') FROM unnest('{rocksdb,table}'::text[]) store;
SELECT is((SELECT count(*) FROM tr_all_rocksdb), 3 + 300 + 3::bigint, 'a call for each key and batch');
SELECT bag_eq('TABLE tr_all_rocksdb', 'TABLE tr_all_table', 'both stores keep the same');
SELECT results_eq($$SELECT total, twice FROM tr_sql WHERE a = 1 ORDER BY total LIMIT 1$$,
	$$SELECT s, s * 2 FROM (SELECT sum(v) AS s FROM tr WHERE v > 0 AND v % 3 = 1 AND ts < '2026-01-15 10:30Z' AND name LIKE 'name%' GROUP BY name) x ORDER BY 1 LIMIT 1$$,
	'a handler in SQL with a key of two columns');
SELECT results_eq('SELECT v, max(n) FROM tr_c GROUP BY v ORDER BY v', 'SELECT v, count(*) FROM tr GROUP BY v ORDER BY v', 'a handler in C');
SELECT is_empty('SELECT * FROM tr_caught WHERE n NOT BETWEEN 1000001 AND 1000075 OR longest <> ''inner'' OR names <> 1 OR of_v <> 0', 'what was undone is not there, what was not is');
SELECT results_eq('SELECT n FROM tr_pieces ORDER BY n', $$VALUES (3::bigint), (4), (200), (700), (700), (700), (700)$$, 'max_rows cuts the rows of a key');
SELECT results_eq('SELECT lower(w), n FROM tr_above', $$VALUES ('2026-01-15 10:00Z'::timestamptz, 3004::bigint)$$, 'an aggregation above goes by the watermark that passes');
SELECT results_eq('SELECT lower(w), n FROM tr_same', $$VALUES ('2026-01-15 10:00Z'::timestamptz, 3004::bigint)$$, 'in the same query, too');
SELECT bag_eq('TABLE tr_join', $$VALUES ('name 1', 150::bigint)$$, 'a handler over a join of streams');
SELECT results_eq('SELECT sum(n), count(*) FROM tr_below', $$VALUES (3002::numeric, 41::bigint)$$, 'a handler over what an aggregation has closed');
SELECT is((SELECT (last_progress('tr_all_table') #>> '{stateOperators,0,numRowsTotal}')::int), (SELECT 302 * 2 + count(DISTINCT (k, v))::int FROM tr), 'a row for each value, list and entry of a map');

SELECT is_empty('SELECT * FROM streamx.conservation WHERE NOT balanced', 'no row is lost on its way');

-- state survives another handler; variables come and go, of another type they don't
SELECT stop_query('tr_all_table') \g /dev/null
SELECT lives_ok($q$SELECT alter_query('tr_all_table', query => $$SELECT t.k, r.n, r.longest, r.names, r.of_v
	FROM tr t CROSS JOIN LATERAL transform_with_state('tr_handler', t.k, t, NULL::tr_out, state => ARRAY[value_state('more', NULL::text),
		map_state('by_v', NULL::numeric, NULL::bigint), list_state('names', NULL::text), value_state('stat', NULL::tr_stat)]) AS r$$)$q$, 'a variable more, in another order');
ALTER TYPE tr_stat ADD ATTRIBUTE shortest text;
SELECT start_query('tr_all_table') \g /dev/null
INSERT INTO tr VALUES (1, 'eeeeeeeeeeeeeeeeeee', 4, '2026-01-15 10:31Z');
SELECT process_all_available('tr_all_table') \g /dev/null
SELECT results_eq('SELECT n, longest FROM tr_all_table WHERE k = 1 ORDER BY n DESC LIMIT 1', $$VALUES (14::bigint, 'eeeeeeeeeeeeeeeeeee')$$, 'its row type has a column more');
SELECT stop_query('tr_all_table') \g /dev/null
SELECT alter_query('tr_all_table', query => $$SELECT t.k, r.n, r.longest, r.names, r.of_v
	FROM tr t CROSS JOIN LATERAL transform_with_state('tr_handler', t.k, t, NULL::tr_out, state => ARRAY[
		map_state('by_v', NULL::numeric, NULL::bigint), list_state('names', NULL::varchar), value_state('stat', NULL::tr_stat)]) AS r$$) \g /dev/null
SELECT throws_like($$SELECT start_query('tr_all_table')$$, '%does not fit%', 'a list of another type is refused at the start');

-- a column less, while the query runs
ALTER TYPE tr_stat DROP ATTRIBUTE shortest, ADD ATTRIBUTE "odd, (name" int;
INSERT INTO tr VALUES (1, 'f', 4, '2026-01-15 10:32Z');
SELECT process_all_available('tr_all_rocksdb') \g /dev/null
SELECT results_eq('SELECT n, longest FROM tr_all_rocksdb WHERE k = 1 ORDER BY n DESC LIMIT 1', $$VALUES (15::bigint, 'eeeeeeeeeeeeeeeeeee')$$, 'a row type of the state may lose and get columns');
-- another type: refused by PostgreSQL 15, because the query's view uses it, and by the query on newer ones
CREATE FUNCTION tr_alter() RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	ALTER TYPE tr_stat ALTER ATTRIBUTE n TYPE int;
	RETURN true;
EXCEPTION WHEN feature_not_supported THEN
	RETURN false;
END $$;
SELECT tr_alter() AS altered \gset
\if :altered
INSERT INTO tr VALUES (1, 'g', 4, '2026-01-15 10:33Z');
SELECT throws_like($$SELECT process_all_available('tr_all_rocksdb')$$, '%a row type in the state of a handler was altered%', 'other changes are refused');
\else
SELECT pass('other changes are refused');
\endif

SELECT drop_query(name) FROM streamx.queries \g /dev/null

-- more state than memory
CREATE FOREIGN TABLE tc (k int, v int) SERVER streamx;
CREATE FUNCTION tc_handler(key int, rows int[], timer timestamptz) RETURNS SETOF bigint LANGUAGE sql AS $$
	SELECT state_put('sum', coalesce(state_get('sum', NULL::bigint), 0) + (SELECT sum(r) FROM unnest(rows) r)), state_put('pad', repeat('x', key % 200)),
		state_list_append_all('l', rows), state_map_put('m', rows[1], key);
	SELECT state_get('sum', NULL::bigint) * 1000 + state_list_length('l') * 10 + state_map_size('m')
$$;
SELECT create_query('tc_' || store, $$SELECT k, n FROM tc, transform_with_state('tc_handler', k, v, NULL::bigint,
	state => ARRAY[value_state('sum', NULL::bigint), value_state('pad', NULL::text), list_state('l', NULL::int), map_state('m', NULL::int, NULL::int)]) n$$,
	sink => 'tc_' || store, options => jsonb_build_object('state_store', store, 'state_memory', '1MB')) FROM unnest('{rocksdb,table}'::text[]) store \g /dev/null
SELECT start_query(name) FROM streamx.queries \g /dev/null
INSERT INTO tc SELECT i % 3000, i / 3000 FROM generate_series(0, 5999) i;
SELECT process_all_available(name) FROM streamx.queries \g /dev/null
SELECT stop_query(name) FROM streamx.queries \g /dev/null
SELECT start_query(name) FROM streamx.queries \g /dev/null
INSERT INTO tc SELECT i % 3000, 2 + i / 3000 FROM generate_series(0, 5999) i;
SELECT process_all_available(name) FROM streamx.queries \g /dev/null
SELECT results_eq(format('SELECT n, count(*) FROM %I GROUP BY n ORDER BY n', 'tc_' || store), $$VALUES (1021::bigint, 3000::bigint), (6042, 3000)$$, store || ': more state than memory')
	FROM unnest('{rocksdb,table}'::text[]) store;

SELECT drop_query(name) FROM streamx.queries \g /dev/null
DROP FOREIGN TABLE tr, tc, tj CASCADE;
SELECT finish();
