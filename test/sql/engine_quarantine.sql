-- Option on_error = quarantine: rows that make a batch fail are put aside, one by
-- one, and the others are processed (CASE-28: text that PostgreSQL cannot hold).
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE SCHEMA engine_quarantine;
SET search_path = engine_quarantine, public;
SELECT plan(20);
CREATE FOREIGN TABLE bytes (raw bytea) SERVER streamx;
CREATE FOREIGN TABLE more (raw bytea) SERVER streamx;
CREATE TABLE out (id int, n text);
SELECT start_query(name => 'q', query => $$
	SELECT (j ->> 'id')::int AS id, j ->> 'n' AS n
	FROM (SELECT convert_from(raw, 'UTF8')::jsonb AS j FROM (SELECT raw FROM bytes UNION ALL SELECT raw FROM more) b) x $$,
	sink => 'out', options => '{"on_error": "quarantine"}');
INSERT INTO bytes VALUES
	('{"id":1,"n":"a\\u0000b"}'), ('{"id":2,"n":"ok"}'), ('{"id":3,"n":"\\ud800"}'), ('\xc328'),
	(convert_to(U&'{"id":5,"n":"\+01F600"}', 'UTF8'));
SELECT lives_ok($$ SELECT process_all_available('q', '30 s') $$, 'bad rows do not stop the query');
SELECT results_eq($$ SELECT id, n FROM out ORDER BY id $$, $$ VALUES (2, 'ok'), (5, U&'\+01F600') $$, 'the good rows are in the sink');
SELECT results_eq($$ SELECT data ->> 'raw' FROM streamx.quarantine WHERE query = 'q' ORDER BY position $$,
	$$ VALUES ('\x' || encode('{"id":1,"n":"a\\u0000b"}', 'hex')), ('\x' || encode('{"id":3,"n":"\\ud800"}', 'hex')), ('\xc328') $$,
	'the bad rows are in quarantine with all their bytes');
SELECT results_eq($$ SELECT sqlstate FROM streamx.quarantine WHERE query = 'q' ORDER BY position $$, $$ VALUES ('22P05'), ('22P02'), ('22021') $$,
	'each with its own error');
SELECT results_eq($$ SELECT DISTINCT stream::text, batch_id FROM streamx.quarantine $$, $$ VALUES ('bytes', 0::bigint) $$, 'and its stream and batch');
SELECT is((SELECT batch_id FROM streamx.queries WHERE name = 'q'), 0::bigint, 'it was one batch');
SELECT is((SELECT state FROM streamx.queries WHERE name = 'q'), 'running', 'the query runs on');

-- again after a restart: still each row once
SELECT stop_query('q');
SELECT start_query('q');
BEGIN;
INSERT INTO more SELECT convert_to(format('{"id":%s,"n":"m"}', g), 'UTF8') FROM generate_series(100, 2999) g;
INSERT INTO more VALUES ('{"id":"x"}');
INSERT INTO bytes SELECT CASE WHEN g % 500 = 0 THEN '{' ELSE convert_to(format('{"id":%s,"n":"b"}', g), 'UTF8') END FROM generate_series(3000, 5999) g;
COMMIT;
SELECT process_all_available('q', '60 s');
SELECT is((SELECT count(*) FROM out), 2 + 2900 + 2994::bigint, 'good rows of two streams arrive once');
SELECT is((SELECT count(DISTINCT id) FROM out), 2 + 2900 + 2994::bigint, 'none of them twice');
SELECT is((SELECT count(*) FROM streamx.quarantine), 3 + 1 + 6::bigint, 'bad rows are found in a large transaction');
SELECT is((SELECT count(*) FROM streamx.quarantine WHERE stream = 'more'::regclass), 1::bigint, 'each under its stream');

-- an error that no row is guilty of stops the query as ever
ALTER TABLE out ADD CONSTRAINT never CHECK (id <> 7000 OR n <> 'y');
CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''sink is broken''; END';
CREATE TRIGGER t BEFORE INSERT ON out FOR EACH STATEMENT EXECUTE FUNCTION broken();
INSERT INTO bytes VALUES ('{"id":6000,"n":"z"}');
SELECT throws_like($$ SELECT process_all_available('q', '60 s') $$, '%sink is broken%', 'a sink that refuses everything fails the query');
SELECT is((SELECT count(*) FROM streamx.quarantine), 10::bigint, 'and no row is blamed for it');
DROP TRIGGER t ON out;
SELECT start_query('q');
SELECT process_all_available('q', '60 s');
SELECT is((SELECT n FROM out WHERE id = 6000), 'z', 'once the sink is mended the row arrives');

-- a row that the sink refuses is guilty
INSERT INTO bytes VALUES ('{"id":7000,"n":"y"}'), ('{"id":7001,"n":"y"}');
SELECT process_all_available('q', '60 s');
SELECT is((SELECT string_agg(id::text, ',') FROM out WHERE n = 'y'), '7001', 'a row that breaks a CHECK of the sink is put aside');

-- too many of them are rather a broken query
SELECT stop_query('q');
SELECT alter_query('q', options => '{"on_error": "quarantine", "quarantine_limit": 12}');
SELECT start_query('q');
INSERT INTO bytes VALUES ('{'), ('{'), ('{"id":8000,"n":"l"}');
SELECT throws_like($$ SELECT process_all_available('q', '60 s') $$, '%quarantine_limit%', 'a full quarantine fails the query');
SELECT is((SELECT count(*) FROM out WHERE n = 'l'), 0::bigint, 'nothing of that batch is there');
SELECT alter_query('q', options => '{"quarantine_limit": 100}');
SELECT start_query('q');
SELECT process_all_available('q', '60 s');
SELECT is((SELECT count(*) FROM out WHERE n = 'l'), 1::bigint, 'with a higher limit it goes on');
SELECT drop_query('q');
SELECT is((SELECT count(*) FROM streamx.quarantine_row), 0::bigint, 'dropping the query empties its quarantine');

-- rows of which each goes well alone are not put aside; the query fails with their error
CREATE FOREIGN TABLE nums (v bigint) SERVER streamx;
SELECT start_query(name => 'q', query => 'SELECT sum(v)::int AS s FROM nums', sink => 'sums', output_mode => 'update', options => '{"on_error": "quarantine"}');
INSERT INTO nums VALUES (2000000000), (1), (2000000000), (2);
SELECT throws_like($$ SELECT process_all_available('q', '60 s') $$, '%integer out of range%', 'what only several rows together make is told as it is');
SELECT drop_query('q');
SELECT * FROM finish();
DROP SCHEMA engine_quarantine CASCADE;
