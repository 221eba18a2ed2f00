-- What went wrong with operators elsewhere, case by case, on both stores, with a restart
-- between all batches. Joins without one: exec_join_cases; refusals (CASE-04) are there, too.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SET timezone = 'UTC';
SELECT no_plan();

-- queries case_<store>; each step is a transaction, after which all is processed
CREATE PROCEDURE ca_play(query text, steps text[]) LANGUAGE plpgsql AS $$
DECLARE
	stores text[] := '{rocksdb,table}';
	store text;
	step text;
BEGIN
	FOREACH store IN ARRAY stores LOOP
		PERFORM create_query('ca_' || store, query, sink => 'ca_' || store, options => jsonb_build_object('state_store', store, 'state_memory', '1MB'));
	END LOOP;
	FOREACH step IN ARRAY steps LOOP
		COMMIT;
		EXECUTE step;
		PERFORM start_query('ca_' || s) FROM unnest(stores) s;
		COMMIT;
		PERFORM process_all_available('ca_' || s) FROM unnest(stores) s;
		PERFORM stop_query('ca_' || s) FROM unnest(stores) s;
	END LOOP;
	COMMIT;
END $$;
CREATE FUNCTION ca_check(wanted text, what text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	store text;
BEGIN
	FOREACH store IN ARRAY '{rocksdb,table}'::text[] LOOP
		RETURN NEXT bag_eq('TABLE ca_' || store, wanted, what || ', ' || store);
		PERFORM drop_query('ca_' || store);
		EXECUTE 'DROP TABLE ca_' || store;
	END LOOP;
END $$;

CREATE FOREIGN TABLE ca_l (id int, ts timestamptz OPTIONS (watermark '0 seconds')) SERVER streamx;
CREATE FOREIGN TABLE ca_r (id int, ts timestamptz OPTIONS (watermark '0 seconds')) SERVER streamx;
CALL ca_play($$SELECT l.id, l.ts, r.ts AS rts FROM ca_l l LEFT JOIN ca_r r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + interval '5 seconds'$$, ARRAY[
	$$INSERT INTO ca_l VALUES (1, '2026-01-15 10:00:00Z'); INSERT INTO ca_r VALUES (1, '2026-01-15 10:00:00Z')$$,
	$$INSERT INTO ca_l VALUES (9, '2026-01-15 10:00:03Z'); INSERT INTO ca_r VALUES (9, '2026-01-15 10:00:03Z')$$,
	$$INSERT INTO ca_l VALUES (9, '2026-01-15 10:00:20Z'); INSERT INTO ca_r VALUES (9, '2026-01-15 10:00:20Z')$$,
	$$INSERT INTO ca_l VALUES (9, '2026-01-15 10:01:00Z'); INSERT INTO ca_r VALUES (9, '2026-01-15 10:01:00Z')$$]);
SELECT ca_check($$SELECT id, ts, ts AS rts FROM (VALUES (1, '2026-01-15 10:00:00Z'::timestamptz), (9, '2026-01-15 10:00:03Z'), (9, '2026-01-15 10:00:20Z'), (9, '2026-01-15 10:01:00Z')) v (id, ts)$$,
	'CASE-01: an outer join does not deny a match that it has shown');
DROP FOREIGN TABLE ca_l, ca_r CASCADE;

CREATE FOREIGN TABLE ca_l (id int, ts timestamptz OPTIONS (watermark '10 minutes')) SERVER streamx;
CREATE FOREIGN TABLE ca_r (id int, ts timestamptz OPTIONS (watermark '10 minutes')) SERVER streamx;
CALL ca_play($$SELECT l.id, l.ts, r.ts AS rts FROM ca_l l LEFT JOIN ca_r r ON l.id = r.id AND r.ts BETWEEN l.ts AND l.ts + interval '5 minutes'$$, ARRAY[
	$$INSERT INTO ca_l VALUES (1, '2026-01-15 10:00Z')$$,
	$$INSERT INTO ca_l VALUES (7, '2026-01-15 11:00Z'); INSERT INTO ca_r VALUES (7, '2026-01-15 11:00Z')$$,
	$$INSERT INTO ca_l VALUES (1, '2026-01-15 10:55Z')$$,
	$$INSERT INTO ca_r VALUES (1, '2026-01-15 10:56Z')$$]);
SELECT ca_check($$VALUES (1, '2026-01-15 10:00Z'::timestamptz, NULL::timestamptz), (1, '2026-01-15 10:55Z', '2026-01-15 10:56Z'), (7, '2026-01-15 11:00Z', '2026-01-15 11:00Z')$$,
	'CASE-02: a key gets a row and loses one');
DROP FOREIGN TABLE ca_l, ca_r CASCADE;

CREATE FOREIGN TABLE ca (k text, ts timestamptz OPTIONS (watermark '0 seconds')) SERVER streamx;
SET timezone = 'Europe/Berlin';
CALL ca_play($$SELECT tumble(ts, '1 hour') AS w, count(*) AS n FROM ca GROUP BY w$$, ARRAY[
	$$INSERT INTO ca VALUES ('', '2025-10-26 00:30Z'), ('', '2025-10-26 00:59:59Z'), ('', '2025-10-26 01:00Z'), ('', '2025-10-26 01:30Z')$$,
	$$INSERT INTO ca VALUES ('', '2025-10-26 03:00Z')$$]);
SELECT ca_check($$VALUES (tstzrange('2025-10-26 00:00Z', '2025-10-26 01:00Z'), 2::bigint), (tstzrange('2025-10-26 01:00Z', '2025-10-26 02:00Z'), 2)$$,
	'CASE-12: an hour that exists twice is two windows');
RESET timezone;
SET timezone = 'UTC';
DROP FOREIGN TABLE ca CASCADE;

CREATE FOREIGN TABLE ca (k text, ts timestamptz OPTIONS (watermark '30 minutes')) SERVER streamx;
CALL ca_play($$SELECT k, session(ts, '5 minutes') AS w, count(*) AS n FROM ca GROUP BY w, k$$, ARRAY[
	$$INSERT INTO ca VALUES ('k', '2026-01-15 10:00Z'), ('k', '2026-01-15 10:08Z')$$,
	$$INSERT INTO ca VALUES ('k', '2026-01-15 10:04Z')$$,
	$$INSERT INTO ca VALUES ('z', '2026-01-15 11:00Z')$$]);
SELECT ca_check($$VALUES ('k', tstzrange('2026-01-15 10:00Z', '2026-01-15 10:13Z'), 3::bigint)$$, 'CASE-14: a late row makes one session of two');
DROP FOREIGN TABLE ca CASCADE;

CREATE FOREIGN TABLE ca (k text, ts timestamptz OPTIONS (watermark '1 hour')) SERVER streamx;
CALL ca_play($$SELECT k, session(ts, '5 minutes') AS w, count(*) AS n FROM ca GROUP BY w, k$$, ARRAY[
	$$INSERT INTO ca VALUES ('up', '2026-01-15 10:00:00Z'), ('down', '2026-01-15 10:10:01Z'), ('one', '2026-01-15 10:10:01Z'), ('one', '2026-01-15 10:00:00Z'), ('one', '2026-01-15 10:05:00Z')$$,
	$$INSERT INTO ca VALUES ('up', '2026-01-15 10:05:00Z'), ('down', '2026-01-15 10:05:00Z')$$,
	$$INSERT INTO ca VALUES ('up', '2026-01-15 10:10:01Z'), ('down', '2026-01-15 10:00:00Z')$$,
	$$INSERT INTO ca VALUES ('z', '2026-01-15 12:00Z')$$]);
SELECT ca_check($$SELECT k, w, n FROM unnest('{up,down,one}'::text[]) k, (VALUES (tstzrange('2026-01-15 10:00:00Z', '2026-01-15 10:10:00Z'), 2::bigint),
	(tstzrange('2026-01-15 10:10:01Z', '2026-01-15 10:15:01Z'), 1)) v (w, n)$$, 'CASE-15: a row exactly one gap after the last one, in any order');
DROP FOREIGN TABLE ca CASCADE;

CREATE FOREIGN TABLE ca (k text, ts timestamptz OPTIONS (watermark '5 minutes')) SERVER streamx;
CALL ca_play($$SELECT k, session(ts, '10 minutes') AS w, count(*) AS n FROM ca GROUP BY w, k$$, ARRAY[
	$$INSERT INTO ca VALUES ('k', '2026-01-15 10:00Z')$$,
	$$INSERT INTO ca VALUES ('z', '2026-01-15 10:12Z')$$,
	$$INSERT INTO ca VALUES ('k', '2026-01-15 10:09Z')$$,
	$$INSERT INTO ca VALUES ('z', '2026-01-15 12:00Z')$$]);
SELECT ca_check($$VALUES ('k', tstzrange('2026-01-15 10:00Z', '2026-01-15 10:19Z'), 2::bigint), ('z', tstzrange('2026-01-15 10:12Z', '2026-01-15 10:22Z'), 1)$$,
	'CASE-16: a session is open for gap and delay after its last row');
DROP FOREIGN TABLE ca CASCADE;

CREATE FOREIGN TABLE ca (v int, device int, ts timestamptz OPTIONS (watermark '1 minute')) SERVER streamx;
CALL ca_play('SELECT DISTINCT ON (device, ts) v, device, ts FROM ca', ARRAY[
	$$INSERT INTO ca VALUES (999, 1, '2026-01-15 10:00Z'), (0, 1, '2026-01-15 10:00Z'), (5, 2, '2026-01-15 10:00Z')$$,
	$$INSERT INTO ca VALUES (1, 3, '2026-01-15 10:10Z')$$,
	$$INSERT INTO ca VALUES (7, 1, '2026-01-15 10:00Z'), (8, 4, '2026-01-15 10:09:30Z')$$]);
SELECT results_eq(format('SELECT (sum((p #>> ''{stateOperators,0,customMetrics,numDroppedDuplicateRows}'')::int), sum((p #>> ''{stateOperators,0,numRowsDroppedByWatermark}'')::int),
	(last_progress(%1$L) #>> ''{stateOperators,0,numRowsTotal}'')::int)::text FROM recent_progress(%1$L) p', 'ca_' || s), $$VALUES ('(1,1,2)')$$,
	'CASE-17: a duplicate, a late row, and two keys that are newer than the watermark, ' || s) FROM unnest('{rocksdb,table}'::text[]) s;
SELECT ca_check($$VALUES (999, 1, '2026-01-15 10:00Z'::timestamptz), (5, 2, '2026-01-15 10:00Z'), (1, 3, '2026-01-15 10:10Z'), (8, 4, '2026-01-15 10:09:30Z')$$,
	'CASE-17: the event time of a key is found wherever it stands');
DROP FOREIGN TABLE ca CASCADE;

CREATE FOREIGN TABLE ca (id int, ts timestamptz OPTIONS (watermark '10 minutes')) SERVER streamx;
CALL ca_play('SELECT id FROM (SELECT DISTINCT ON (within_watermark(id)) * FROM ca) d', ARRAY[
	$$INSERT INTO ca VALUES (5, '2026-01-15 10:00Z'), (NULL, '2026-01-15 10:00Z'), (NULL, '2026-01-15 10:01Z'), (5, '2026-01-15 10:02Z')$$,
	$$INSERT INTO ca VALUES (6, '2026-01-15 11:00Z')$$,
	$$INSERT INTO ca VALUES (5, '2026-01-15 10:55Z'), (NULL, '2026-01-15 10:56Z')$$]);
SELECT ca_check('VALUES (5), (NULL), (6), (5), (NULL)', 'CASE-19: the event time is not selected, and NULL is a key');
DROP FOREIGN TABLE ca CASCADE;
SELECT finish();
