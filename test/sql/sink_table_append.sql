-- Rows that are only added go into a plain table in bulk; into any other as INSERT would put them there.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('sta', 'k int, t text');
CREATE FUNCTION sta_run(name text, query text DEFAULT 'SELECT k, t FROM sta') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	PERFORM create_query(name, query, sink => name);
END $$;

-- more rows than are written together, other columns, another order, and indexes
CREATE TABLE sta_plain (gone point, t text, k int NOT NULL, other numeric);
ALTER TABLE sta_plain DROP COLUMN gone;
CREATE INDEX ON sta_plain (k);
CREATE UNIQUE INDEX ON sta_plain ((k + 1)) WHERE t IS NOT NULL;
SELECT sta_run('sta_plain');
SELECT start_query('sta_plain');
INSERT INTO sta SELECT k, nullif('t' || k, 't7') FROM generate_series(1, 5000) k;
SELECT process_all_available('sta_plain');
SELECT set_eq('SELECT k, t, other FROM sta_plain', 'SELECT k, t, NULL::numeric FROM sta', 'columns find their places');
SET enable_seqscan = off;
SELECT is((SELECT count(*) FROM sta_plain WHERE k BETWEEN 1001 AND 3000), 2000::bigint, 'an index has all rows');
RESET enable_seqscan;
INSERT INTO sta VALUES (5001, repeat('long', 100000)), (5002, '');
SELECT process_all_available('sta_plain');
SELECT is((SELECT md5(t) FROM sta_plain WHERE k = 5001), md5(repeat('long', 100000)), 'a long value goes out of line');
SELECT is((SELECT count(*) FROM sta_plain), 5002::bigint, 'each row is there once');

-- what the table refuses is an error, and nothing of the batch is there
ALTER TABLE sta_plain ADD CONSTRAINT short CHECK (length(t) < 500000);
INSERT INTO sta SELECT k, repeat('x', CASE k WHEN 7500 THEN 500000 ELSE 1 END) FROM generate_series(6001, 9000) k;
SELECT throws_matching($$SELECT process_all_available('sta_plain')$$, 'violates check constraint "short"', 'a failing CHECK fails the query');
SELECT is((SELECT count(*) FROM sta_plain WHERE k > 6000), 0::bigint, 'and nothing is written');
ALTER TABLE sta_plain DROP CONSTRAINT short;
SELECT start_query('sta_plain');
SELECT process_all_available('sta_plain');
SELECT is((SELECT count(*) FROM sta_plain WHERE k > 6000), 3000::bigint, 'afterwards it goes on');
INSERT INTO sta VALUES (NULL, 'no number');
SELECT throws_matching($$SELECT process_all_available('sta_plain')$$, 'null value in column "k"', 'a NULL that may not be fails the query');
ALTER TABLE sta_plain ALTER k DROP NOT NULL;
SELECT start_query('sta_plain');
SELECT process_all_available('sta_plain');
INSERT INTO sta VALUES (1, 'again');
SELECT throws_matching($$SELECT process_all_available('sta_plain')$$, 'duplicate key value', 'a key that is there fails the query');
SELECT matches((SELECT hint FROM streamx.failures WHERE query = 'sta_plain' ORDER BY at DESC LIMIT 1), 'not written by this query', 'with a hint');
SELECT drop_query('sta_plain');

-- what is more than adding rows
DELETE FROM sta_plain;
SELECT create_stream('sta_few', 'k int, t text');
CREATE TABLE sta_default (k bigint, t varchar(3), made text DEFAULT 'by default', id int GENERATED ALWAYS AS IDENTITY, twice bigint GENERATED ALWAYS AS (k * 2) STORED);
CREATE TABLE sta_trigger (k int, t text);
CREATE FUNCTION sta_trigger() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.t := NEW.t || '!'; RETURN NEW; END $$;
CREATE TRIGGER t BEFORE INSERT ON sta_trigger FOR EACH ROW EXECUTE FUNCTION sta_trigger();
CREATE TABLE sta_key (k int PRIMARY KEY);
INSERT INTO sta_key VALUES (1), (2);
CREATE TABLE sta_foreign (k int REFERENCES sta_key, t text);
CREATE TABLE sta_part (k int, t text) PARTITION BY LIST (k);
CREATE TABLE sta_part_1 PARTITION OF sta_part FOR VALUES IN (1);
CREATE TABLE sta_part_2 PARTITION OF sta_part FOR VALUES IN (2);
CREATE TABLE sta_rule (k int, t text);
CREATE TABLE sta_ruled (k int, t text);
CREATE RULE r AS ON INSERT TO sta_rule DO INSTEAD INSERT INTO sta_ruled VALUES (NEW.k, 'by rule');
CREATE DOMAIN sta_positive AS int CHECK (VALUE > 0);
CREATE TABLE sta_domain (k sta_positive, t text);
SELECT sta_run('sta_default', $$SELECT k, left(t, 3) AS t FROM sta_few$$);
SELECT sta_run(name, 'SELECT k, t FROM sta_few') FROM unnest(ARRAY['sta_trigger', 'sta_foreign', 'sta_part', 'sta_part_1', 'sta_rule', 'sta_domain']) name;
SELECT start_query(name) FROM streamx.queries WHERE name LIKE 'sta\_%' ORDER BY name;
INSERT INTO sta_few VALUES (1, 'one'), (2, 'two');
SELECT process_all_available(name) FROM streamx.queries WHERE name IN ('sta_default', 'sta_trigger', 'sta_foreign', 'sta_part', 'sta_rule', 'sta_domain') ORDER BY name;
SELECT results_eq('SELECT k, t, made, id, twice FROM sta_default ORDER BY k',
	$$VALUES (1::bigint, 'one'::varchar(3), 'by default', 1, 2::bigint), (2, 'two', 'by default', 2, 4)$$, 'casts, defaults, identity and generated columns');
SELECT results_eq('SELECT k, t FROM sta_trigger ORDER BY k', $$VALUES (1, 'one!'), (2, 'two!')$$, 'triggers');
SELECT results_eq('SELECT k, t FROM sta_part_2', $$VALUES (2, 'two')$$, 'partitions');
SELECT throws_matching($$SELECT process_all_available('sta_part_1')$$, 'violates partition constraint', 'one partition takes its own rows only');
SELECT results_eq('SELECT k, t FROM sta_ruled ORDER BY k', $$VALUES (1, 'by rule'), (2, 'by rule')$$, 'rules');
SELECT is((SELECT count(*) FROM sta_domain), 2::bigint, 'domains');
INSERT INTO sta_few VALUES (0, 'nil');
SELECT throws_matching($$SELECT process_all_available('sta_foreign')$$, 'violates foreign key', 'foreign keys');
SELECT throws_matching($$SELECT process_all_available('sta_domain')$$, 'violates check constraint', 'a domain is checked');
SELECT drop_query(name) FROM streamx.queries WHERE name LIKE 'sta\_%' ORDER BY name;

-- rights are those of the query's owner, and so are the policies
SET client_min_messages = warning;
CREATE ROLE sta_user LOGIN;
CREATE TABLE sta_own (k int, t text);
ALTER TABLE sta_own ENABLE ROW LEVEL SECURITY;
CREATE POLICY small ON sta_own FOR INSERT TO sta_user WITH CHECK (k < 10);
GRANT INSERT ON sta_own TO sta_user;
GRANT INSERT, SELECT ON sta_few TO sta_user;
CREATE TABLE sta_some (k int, t text);
GRANT INSERT (k) ON sta_some TO sta_user;
SET ROLE sta_user;
SELECT sta_run('sta_own', 'SELECT k, t FROM sta_few WHERE k > 5');
SELECT start_query('sta_own');
INSERT INTO sta_few VALUES (9, 'nine');
SELECT process_all_available('sta_own');
INSERT INTO sta_few VALUES (11, 'eleven');
SELECT throws_matching($$SELECT process_all_available('sta_own')$$, 'row-level security', 'row-level security holds for the owner of the query');
SELECT drop_query('sta_own');
RESET ROLE;
SELECT results_eq('SELECT k, t FROM sta_own', $$VALUES (9, 'nine')$$, 'only rows that the policy allows are there');

DROP FOREIGN TABLE sta, sta_few;
DROP TABLE sta_plain, sta_default, sta_trigger, sta_foreign, sta_key, sta_part, sta_rule, sta_ruled, sta_domain, sta_own, sta_some;
DROP FUNCTION sta_run, sta_trigger;
DROP DOMAIN sta_positive;
DROP OWNED BY sta_user;
DROP ROLE sta_user;
SELECT * FROM finish();
