-- Ranges of batches: by snapshots, cut between pages, the same at every reading.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

-- a reader: where it is, and what each of its batches had
CREATE TABLE sr_at (at jsonb);
CREATE FUNCTION sr_read(max_rows bigint DEFAULT NULL) RETURNS TABLE (a int) LANGUAGE plpgsql AS $$
DECLARE
	_start jsonb; _end jsonb;
BEGIN
	SELECT at INTO _start FROM sr_at;
	_end = streamx.stream_next('sr_s', _start, max_rows);
	IF _end IS NOT NULL THEN
		RETURN QUERY SELECT r.a FROM streamx.stream_rows(NULL::sr_s, _start, _end) r;
		UPDATE sr_at SET at = _end;
	END IF;
END $$;
CREATE FUNCTION sr_begin() RETURNS void LANGUAGE sql AS 'DELETE FROM sr_at; INSERT INTO sr_at VALUES (NULL)';

CREATE FOREIGN TABLE sr_s (a int, pad text) SERVER streamx;
SELECT sr_begin();
SELECT is_empty('SELECT sr_read()', 'nothing in an empty stream');
INSERT INTO sr_s VALUES (1), (2);
SELECT results_eq('SELECT sr_read()', 'VALUES (1), (2)', 'what is there');
SELECT is_empty('SELECT sr_read()', 'and not again');
INSERT INTO sr_s VALUES (3);
BEGIN; INSERT INTO sr_s VALUES (4); ROLLBACK;
INSERT INTO sr_s VALUES (5);
SELECT results_eq('SELECT sr_read()', 'VALUES (3), (5)', 'what is new, but not what was rolled back');
BEGIN;
INSERT INTO sr_s VALUES (6);
SAVEPOINT p;
INSERT INTO sr_s VALUES (7);
ROLLBACK TO p;
SELECT is_empty('SELECT sr_read()', 'rows of the own transaction belong to a later batch');
INSERT INTO sr_s VALUES (8);
COMMIT;
SELECT results_eq('SELECT sr_read()', 'VALUES (6), (8)', 'namely this one');

-- cuts
INSERT INTO sr_s SELECT g, repeat('x', 70) FROM generate_series(1001, 2000) g;
CREATE TABLE sr_batches (batch int, a int);
INSERT INTO sr_batches SELECT 1, * FROM sr_read(100);
INSERT INTO sr_s VALUES (9);
INSERT INTO sr_batches SELECT 2, * FROM sr_read(100);
INSERT INTO sr_s VALUES (10);
INSERT INTO sr_batches SELECT 3, * FROM sr_read(300);
SELECT results_eq('SELECT a FROM sr_batches', 'SELECT generate_series(1001, (SELECT max(a) FROM sr_batches))', 'cut batches follow each other in order');
SELECT ok(min(n) >= 100 AND max(n) < 500, 'about as large as asked for') FROM (SELECT count(*) AS n FROM sr_batches GROUP BY batch) b;

-- storage is rewritten in the middle of it
ALTER FOREIGN TABLE sr_s ADD COLUMN c int DEFAULT 1;
INSERT INTO sr_batches SELECT 4, * FROM sr_read(100);
VACUUM FULL;
INSERT INTO sr_batches SELECT 5, * FROM sr_read(100);
INSERT INTO sr_batches SELECT 6, * FROM sr_read();
SELECT results_eq('SELECT a FROM sr_batches', 'SELECT generate_series(1001, 2000)', 'a rewrite of the storage moves no cut');
SELECT ok(count(*) > 0, 'batch ' || b || ' had rows') FROM generate_series(4, 6) b JOIN sr_batches ON batch = b GROUP BY b ORDER BY b;
SELECT results_eq('SELECT sr_read()', 'VALUES (9), (10)', 'then come the rows that came meanwhile');
VACUUM FULL;
VACUUM FREEZE;
SELECT is_empty('SELECT sr_read()', 'VACUUM brings nothing back');
INSERT INTO sr_s VALUES (11);
SELECT results_eq('SELECT sr_read()', 'VALUES (11)', 'and hides nothing new');

-- again and again the same, and from anywhere
SELECT sr_begin();
CREATE TABLE sr_offsets (n serial, at jsonb);
DO $$ DECLARE _at jsonb; BEGIN
	LOOP
		_at = streamx.stream_next('sr_s', _at, 150);
		EXIT WHEN _at IS NULL;
		INSERT INTO sr_offsets (at) VALUES (_at);
	END LOOP;
END $$;
SELECT ok(count(*) BETWEEN 4 AND 10, 'several batches') FROM sr_offsets;
CREATE VIEW sr_ranges AS SELECT n, lag(at) OVER (ORDER BY n) AS start, at AS "end" FROM sr_offsets;
SELECT results_eq('SELECT r.a FROM sr_ranges, streamx.stream_rows(NULL::sr_s, start, "end") r ORDER BY n', 'SELECT a FROM sr_s', 'together they are all rows, in order');
SELECT results_eq('SELECT r.a FROM sr_ranges, streamx.stream_rows(NULL::sr_s, start, "end") r ORDER BY n', 'SELECT r.a FROM sr_ranges, streamx.stream_rows(NULL::sr_s, start, "end") r ORDER BY n', 'at every reading');
SELECT is((SELECT count(*) FROM sr_offsets x, sr_offsets y, streamx.stream_rows(NULL::sr_s, x.at, y.at) WHERE x.n >= y.n), 0::bigint, 'there is nothing between an offset and an earlier one');
SELECT is((SELECT count(*) FROM streamx.stream_rows(NULL::sr_s, (SELECT at FROM sr_offsets WHERE n = 2), (SELECT at FROM sr_offsets ORDER BY n DESC LIMIT 1))), (SELECT count(*) FROM sr_ranges, streamx.stream_rows(NULL::sr_s, start, "end") WHERE n > 2), 'a range over several cuts');

-- offsets that are none
SELECT throws_ok($$SELECT streamx.stream_next('sr_s', '{}')$$, 'SX003', NULL, 'an offset without content');
SELECT throws_ok($$SELECT streamx.stream_next('sr_s', '{"snapshot": "5:4:", "first": 1, "heaps": []}')$$, 'SX003', NULL, 'a snapshot that is none');
SELECT throws_ok($$SELECT streamx.stream_next('sr_s', '{"snapshot": "4:4:", "first": 1, "heaps": [[1, 2]]}')$$, 'SX003', NULL, 'heaps that are none');
SELECT throws_ok($$SELECT streamx.stream_next('sr_s', '{"snapshot": "900000000000:900000000000:", "first": 1, "heaps": []}')$$, 'SX003', NULL, 'transactions that are not there yet');
SELECT throws_ok('SELECT streamx.stream_rows(1, NULL, NULL)', '42809', NULL, 'rows of something else');

DROP VIEW sr_ranges;
DROP TABLE sr_at, sr_batches, sr_offsets;
DROP FUNCTION sr_read, sr_begin;
DROP FOREIGN TABLE sr_s;
SELECT * FROM finish();
