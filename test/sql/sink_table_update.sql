-- A table in update mode is kept true: upserts, deletes, NULL keys, everything a table can have.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('stu', 'k text, n numeric, ts timestamptz');

-- the sink is created, with the result's key
SELECT create_query('stu', 'SELECT k, sum(n) AS total, count(*) AS rows FROM stu GROUP BY k HAVING sum(n) >= 0',
	sink => 'stu_sink', output_mode => 'update');
SELECT has_table('stu_sink', 'a missing sink is created');
SELECT is(pg_get_constraintdef(oid), 'UNIQUE NULLS NOT DISTINCT (k)', 'with a unique key over the grouping columns')
	FROM pg_constraint WHERE conrelid = 'stu_sink'::regclass;
SELECT is(relreplident, 'f', 'and a replica identity for nullable keys') FROM pg_class WHERE oid = 'stu_sink'::regclass;
SELECT start_query('stu');
INSERT INTO stu VALUES ('a', 1), ('b', 2), (NULL, 3);
SELECT process_all_available('stu');
SELECT set_eq('SELECT * FROM stu_sink', $$VALUES ('a', 1::numeric, 1::bigint), ('b', 2, 1), (NULL, 3, 1)$$, 'new groups are inserted');
CREATE TEMP TABLE was AS SELECT xmin::text AS x, k FROM stu_sink;
INSERT INTO stu VALUES ('a', 1.50), (NULL, 1), ('b', 0);
SELECT process_all_available('stu');
SELECT set_eq('SELECT k, total::text, rows FROM stu_sink', $$VALUES ('a', '2.50', 2::bigint), ('b', '2', 2), (NULL, '4', 2)$$,
	'groups of the batch are updated, the one with key NULL too');
INSERT INTO stu VALUES ('a', -10), (NULL, -10);
SELECT process_all_available('stu');
SELECT set_eq('SELECT k, total FROM stu_sink', $$VALUES ('b', 2::numeric)$$, 'a group that stops fulfilling HAVING is deleted');
INSERT INTO stu VALUES ('a', 10), (NULL, 10);
SELECT process_all_available('stu');
SELECT set_eq('SELECT k, total FROM stu_sink', $$VALUES ('a', 2.50::numeric), ('b', 2), (NULL, 4)$$, 'and is back when it fulfils it again');
SELECT drop_query('stu');
SELECT is((SELECT count(*) FROM stu_sink), 3::bigint, 'drop_query leaves the sink');

-- a table of the user: other columns, defaults, triggers, another order of columns, partitions
CREATE TABLE stu_user (
	id bigint GENERATED ALWAYS AS IDENTITY,
	rows int NOT NULL,
	"Key with "" quote" text NOT NULL,
	note text DEFAULT 'written by a query',
	PRIMARY KEY ("Key with "" quote")
) PARTITION BY LIST ("Key with "" quote");
CREATE TABLE stu_user_a PARTITION OF stu_user FOR VALUES IN ('a');
CREATE TABLE stu_user_rest PARTITION OF stu_user DEFAULT;
CREATE TABLE stu_log (op text, k text);
CREATE FUNCTION stu_trigger() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO stu_log VALUES (TG_OP, NEW."Key with "" quote");
	RETURN NEW;
END $$;
CREATE TRIGGER t AFTER INSERT OR UPDATE ON stu_user FOR EACH ROW EXECUTE FUNCTION stu_trigger();
SELECT create_query('stu_user', 'SELECT k AS "Key with "" quote", count(*) AS rows FROM stu WHERE k IS NOT NULL GROUP BY k',
	sink => 'stu_user', output_mode => 'update');
SELECT start_query('stu_user');
SELECT process_all_available('stu_user');
INSERT INTO stu VALUES ('a', 0);
SELECT process_all_available('stu_user');
SELECT set_eq('SELECT "Key with "" quote", rows, note FROM stu_user',
	$$VALUES ('a', 5, 'written by a query'), ('b', 2, 'written by a query')$$,
	'columns are found by name, others get their defaults, types are assigned');
SELECT is((SELECT rows FROM stu_user_a), 5, 'rows go to their partition');
SELECT set_eq('SELECT op, k, count(*) FROM stu_log GROUP BY op, k',
	$$VALUES ('INSERT', 'a', 1::bigint), ('INSERT', 'b', 1), ('UPDATE', 'a', 1)$$, 'triggers fire, and only where something changed');

-- renamed under the query
ALTER TABLE stu_user RENAME TO stu_renamed;
INSERT INTO stu VALUES ('c', 0);
SELECT process_all_available('stu_user');
SELECT is((SELECT count(*) FROM stu_renamed), 3::bigint, 'a renamed sink is still the sink');

-- users change sink rows meanwhile
UPDATE stu_renamed SET note = 'touched', rows = -1 WHERE "Key with "" quote" = 'a';
DELETE FROM stu_renamed WHERE "Key with "" quote" = 'b';
INSERT INTO stu VALUES ('a', 0), ('b', 0);
SELECT process_all_available('stu_user');
SELECT set_eq('SELECT "Key with "" quote", rows, note FROM stu_renamed',
	$$VALUES ('a', 6, 'touched'), ('b', 3, 'written by a query'), ('c', 1, 'written by a query')$$,
	'a changed group gets its true value, whatever a user made of the row');
SELECT drop_query('stu_user');

-- no GROUP BY: one row
SELECT create_query('stu_all', 'SELECT count(*) AS rows, max(k) AS last FROM stu', sink => 'stu_all', output_mode => 'update');
SELECT start_query('stu_all');
SELECT process_all_available('stu_all');
INSERT INTO stu VALUES ('z', 0);
SELECT process_all_available('stu_all');
SELECT results_eq('TABLE stu_all', $$SELECT count(*), max(k) FROM stu$$, 'an aggregate without GROUP BY is one row that changes');
SELECT drop_query('stu_all');

-- several keys, one of them a window
SELECT create_stream('stu_w', 'k numeric, ts timestamptz, WATERMARK FOR ts AS ts');
SELECT create_query('stu_w', $$SELECT k, w, count(*) AS n FROM (SELECT k, tumble(ts, '1 minute') AS w FROM stu_w) s GROUP BY k, w$$,
	sink => 'stu_w_sink', output_mode => 'update');
SELECT start_query('stu_w');
INSERT INTO stu_w VALUES (1.0, '2024-01-01Z'), (1.00, '2024-01-01Z'), (NULL, '2024-01-01Z');
SELECT process_all_available('stu_w');
INSERT INTO stu_w VALUES (1, '2024-01-01Z');
SELECT process_all_available('stu_w');
SELECT set_eq('SELECT k, lower(w), n FROM stu_w_sink', $$VALUES (1::numeric, '2024-01-01Z'::timestamptz, 3::bigint), (NULL, '2024-01-01Z', 1)$$,
	'keys that are equal are one row, whatever their scale');
SELECT drop_query('stu_w');

DROP FOREIGN TABLE stu, stu_w;
DROP TABLE stu_sink, stu_renamed, stu_log, stu_all, stu_w_sink;
DROP FUNCTION stu_trigger;
SELECT * FROM finish();
