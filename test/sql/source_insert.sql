-- INSERT and COPY into a stream, and what a plain SELECT sees of it.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

CREATE FOREIGN TABLE si_s (a int, b text, ts timestamptz OPTIONS (watermark '10 seconds')) SERVER streamx;
INSERT INTO si_s VALUES (1, 'one', '2026-01-01Z'), (2, NULL, NULL);
SELECT results_eq('SELECT a, b FROM si_s', $$VALUES (1, 'one'), (2, NULL)$$, 'rows come in the order of insertion');
INSERT INTO si_s (b, a) SELECT 'r' || g, g FROM generate_series(3, 5000) g;
SELECT results_eq('SELECT count(*), sum(a), count(b), count(ts) FROM si_s', 'VALUES (5000::bigint, 12502500::bigint, 4999::bigint, 1::bigint)', 'INSERT ... SELECT of more rows than the buffer holds');

COPY si_s FROM stdin;
6001	copied	2026-01-02 00:00:00+00
6002	\N	\N
\.
SELECT results_eq('SELECT a, b, ts FROM si_s WHERE a > 6000', $$VALUES (6001, 'copied', '2026-01-02Z'::timestamptz), (6002, NULL, NULL)$$, 'COPY');
SELECT results_eq($$INSERT INTO si_s VALUES (7001, 'back') RETURNING a + 1, b, tableoid::regclass::text$$, $$VALUES (7002, 'back', 'si_s')$$, 'RETURNING');
SELECT results_eq('WITH i AS (INSERT INTO si_s SELECT g FROM generate_series(8001, 8003) g RETURNING a) SELECT count(*) FROM i', 'VALUES (3::bigint)', 'INSERT in WITH');

-- transactions
CREATE FOREIGN TABLE si_t (a int) SERVER streamx;
BEGIN;
INSERT INTO si_t VALUES (1);
SAVEPOINT p;
INSERT INTO si_t VALUES (2);
SELECT is(count(*), 2::bigint, 'a transaction sees its own rows') FROM si_t;
ROLLBACK TO p;
INSERT INTO si_t VALUES (3);
COMMIT;
BEGIN;
INSERT INTO si_t VALUES (4);
ROLLBACK;
DO $$ BEGIN
	INSERT INTO si_t VALUES (5);
	BEGIN
		INSERT INTO si_t VALUES (6);
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO si_t VALUES (7);
	END;
END $$;
SELECT throws_ok('INSERT INTO si_t SELECT 10 / (3 - g) FROM generate_series(1, 3) g', '22012', NULL, 'a statement that fails');
SELECT results_eq('SELECT a FROM si_t', 'VALUES (1), (3), (5), (7)', 'only what was committed is there');
BEGIN;
DECLARE c CURSOR FOR SELECT a FROM si_t;
INSERT INTO si_t VALUES (8);
SELECT results_eq('FETCH ALL c', 'VALUES (1), (3), (5), (7)', 'a cursor keeps its snapshot');
COMMIT;
BEGIN ISOLATION LEVEL SERIALIZABLE;
INSERT INTO si_t VALUES (9);
COMMIT;
SELECT results_eq('SELECT max(a) FROM si_t', 'VALUES (9)', 'other isolation levels');

-- what the table's definition asks for
CREATE FUNCTION si_positive(i int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN i > 0; END';
CREATE DOMAIN si_even AS int CHECK (value % 2 = 0);
CREATE SEQUENCE si_seq;
CREATE FOREIGN TABLE si_c (
	id bigint NOT NULL DEFAULT nextval('si_seq'),
	v int CHECK (si_positive(v)),
	e si_even,
	twice int GENERATED ALWAYS AS (v * 2) STORED,
	note text DEFAULT 'none') SERVER streamx;
INSERT INTO si_c (v) VALUES (1), (2);
INSERT INTO si_c (v, e, note) VALUES (3, 4, NULL);
COPY si_c (v) FROM stdin;
4
\.
SELECT results_eq('SELECT id, v, e::int, twice, note FROM si_c', $$VALUES (1::bigint, 1, NULL::int, 2, 'none'), (2, 2, NULL, 4, 'none'), (3, 3, 4, 6, NULL), (4, 4, NULL, 8, 'none')$$, 'defaults and generated columns');
SELECT throws_ok('INSERT INTO si_c VALUES (NULL, 1)', '23502', NULL, 'NOT NULL holds');
SELECT throws_ok('INSERT INTO si_c (v) VALUES (5), (-1)', '23514', NULL, 'CHECK holds');
SELECT throws_ok('INSERT INTO si_c (e) VALUES (3)', '23514', NULL, 'so do domains');
SELECT is(count(*), 4::bigint, 'and nothing of those statements is left') FROM si_c;

-- triggers
CREATE FOREIGN TABLE si_g (a int, n int) SERVER streamx;
CREATE TABLE si_log (what text, rows bigint);
CREATE FUNCTION si_before() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	IF NEW.a = 13 THEN RETURN NULL; END IF;
	NEW.n = (SELECT count(*) FROM si_g); RETURN NEW; END $$;
CREATE FUNCTION si_after() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
	INSERT INTO si_log SELECT TG_LEVEL, count(*) FROM si_g; RETURN NULL; END $$;
CREATE TRIGGER before BEFORE INSERT ON si_g FOR EACH ROW EXECUTE FUNCTION si_before();
CREATE TRIGGER after_row AFTER INSERT ON si_g FOR EACH ROW EXECUTE FUNCTION si_after();
CREATE TRIGGER after_all AFTER INSERT ON si_g FOR EACH STATEMENT EXECUTE FUNCTION si_after();
INSERT INTO si_g SELECT g FROM generate_series(11, 14) g;
SELECT results_eq('SELECT a, n FROM si_g', 'VALUES (11, 0), (12, 1), (14, 2)', 'a row trigger changes rows, leaves one out and sees the rows before');
SELECT results_eq('SELECT what, rows FROM si_log', $$VALUES ('ROW', 3::bigint), ('ROW', 3), ('ROW', 3), ('STATEMENT', 3)$$, 'after triggers see all of them');

-- partitions
CREATE TABLE si_p (k int, v text) PARTITION BY RANGE (k);
CREATE TABLE si_p1 PARTITION OF si_p FOR VALUES FROM (0) TO (10);
CREATE FOREIGN TABLE si_p2 PARTITION OF si_p FOR VALUES FROM (10) TO (20) SERVER streamx;
INSERT INTO si_p SELECT g, 'v' || g FROM generate_series(5, 14) g;
COPY si_p FROM stdin;
15	v15
1	v1
\.
SELECT results_eq('SELECT k FROM si_p2', 'SELECT generate_series(10, 15)', 'rows are routed into a stream');
SELECT is(count(*), 12::bigint, 'and read through the parent') FROM si_p;
SELECT throws_ok($$INSERT INTO si_p2 VALUES (25, 'x')$$, '23514', NULL, 'the partition''s bounds hold');

-- large values
CREATE FOREIGN TABLE si_l (a int, big text, bigs text[]) SERVER streamx;
CREATE TABLE si_big AS SELECT g AS a, string_agg(md5(g::text || i::text), '') AS big FROM generate_series(1, 3) g, generate_series(1, 3000) i GROUP BY g;
INSERT INTO si_l SELECT a, big, ARRAY[big, NULL, 'x'] FROM si_big ORDER BY a;
SELECT results_eq('SELECT a, big, bigs[1] FROM si_l', 'SELECT a, big, big FROM si_big ORDER BY a', 'values that are stored out of line');
SELECT is(pg_column_size(big) > 90000, true, 'they are large') FROM si_big LIMIT 1;

-- planning
SELECT results_eq('SELECT s.a FROM si_t s JOIN si_t t USING (a) ORDER BY 1', 'VALUES (1), (3), (5), (7), (8), (9)', 'a self-join');
SELECT results_eq('SELECT x.a, (SELECT max(t.a) FROM si_t t WHERE t.a < x.a) FROM si_t x WHERE x.a < 6', 'VALUES (1, NULL), (3, 1), (5, 3)', 'a scan that is begun again');
SELECT results_eq('SELECT (s).b, (s).ts FROM (SELECT s FROM si_s s WHERE a = 1) x', $$VALUES ('one', '2026-01-01Z'::timestamptz)$$, 'the whole row');
SELECT results_eq('SELECT ts FROM si_s WHERE a = 6001', $$VALUES ('2026-01-02Z'::timestamptz)$$, 'a column without the ones before it');
PREPARE si_q(int) AS SELECT b FROM si_s WHERE a = $1;
EXECUTE si_q(1);
ALTER FOREIGN TABLE si_s ADD COLUMN late int;
EXECUTE si_q(6001);

-- an error while a session learns where the rows lie leaves nothing behind
CREATE FOREIGN TABLE si_k (a int) SERVER streamx;
SELECT throws_like($t$DO $do$ BEGIN
	DELETE FROM streamx.stream WHERE stream = 'si_k'::regclass AND slot = 1;
	COPY si_k FROM PROGRAM 'echo 1';
END $do$ $t$, 'stream % has 2 heaps', 'a catalog that lacks a row');
SELECT lives_ok('INSERT INTO si_k VALUES (1)', 'the next write looks anew');

-- what streams refuse
SELECT throws_like('UPDATE si_t SET a = 1', 'cannot update stream "si_t"', 'UPDATE');
SELECT throws_like('DELETE FROM si_t', 'cannot delete from stream "si_t"', 'DELETE');
SELECT throws_like('TRUNCATE si_t', 'cannot truncate stream "si_t"', 'TRUNCATE');
SELECT throws_ok('MERGE INTO si_t USING si_log ON false WHEN NOT MATCHED THEN INSERT VALUES (1)', '0A000', NULL, 'MERGE');

DROP FOREIGN TABLE si_s, si_t, si_c, si_g, si_l, si_k;
DROP TABLE si_p, si_log, si_big;
DROP DOMAIN si_even;
DROP SEQUENCE si_seq;
DROP FUNCTION si_positive, si_before, si_after;
SELECT * FROM finish();
