-- A table that keeps the newest row of each named key: what is refused, and what it holds.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SELECT no_plan();
SELECT create_stream('stk_inserted', 'k text, v int');
CREATE FOREIGN TABLE stk ("timestamp" timestamptz, value bigint) SERVER streamx OPTIONS (connector 'rate', rows_per_second '1000');
CREATE FOREIGN TABLE stk_other ("timestamp" timestamptz, value bigint) SERVER streamx OPTIONS (connector 'rate', rows_per_second '1');
CREATE TABLE stk_names (k bigint PRIMARY KEY, name text);

CREATE FUNCTION stk_refused(query text, options text, mode text DEFAULT 'update', sink text DEFAULT 'stk_none') RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
BEGIN
	PERFORM create_query('stk_refused', query, sink => sink, output_mode => mode, options => options::jsonb);
	RAISE EXCEPTION 'not refused';	-- and taken back
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL;
	RETURN rtrim(message || ' ' || detail);
END $$;

SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"key_columns": "k"}', 'append'), '%needs output mode "update"%', 'append mode');
SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"key_columns": "x"}'), 'column "x" of option "key_columns" does not exist%', 'a column that is not there');
SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"key_columns": "k, k"}'), '%names column "k" twice%', 'a column twice');
SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"key_columns": "k,,"}'), '%is not a list of columns%', 'no list');
SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"delete_when": "k"}'), '%needs a table and option "key_columns"%', 'deletions without a key');
SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"key_columns": "k", "delete_when": "gone"}'), 'column "gone" of option "delete_when" does not exist%', 'deletions by a column that is not there');
SELECT alike(stk_refused('SELECT value AS k, 1 AS gone FROM stk', '{"key_columns": "k", "delete_when": "gone"}'), '%must be boolean%', 'deletions by a number');
SELECT alike(stk_refused('SELECT value AS k FROM stk', '{"key_columns": "k"}', 'update', 'noop'), '%is only for a table or a stream of Kafka%', 'another sink');
SELECT alike(stk_refused('SELECT k, v FROM stk_inserted', '{"key_columns": "k"}'), '%stream "stk_inserted", whose rows come from INSERT may change%', 'a stream that has no order');
SELECT alike(stk_refused(query, '{"key_columns": "k"}'), format('%%%s may change that order%%', why), why || ' has no order')
FROM (VALUES ('SELECT value % 5 AS k, count(*) AS n FROM stk GROUP BY 1', 'an aggregation, DISTINCT or LIMIT'),
	('SELECT DISTINCT value % 5 AS k FROM stk', 'an aggregation, DISTINCT or LIMIT'),
	('SELECT value AS k FROM stk UNION ALL SELECT value FROM stk_other', 'UNION ALL'),
	('SELECT n.k, n.name FROM stk s JOIN stk_names n ON n.k = s.value', 'a join'),
	('SELECT s.value AS k, n.name FROM stk s LEFT JOIN stk_names n ON n.k = s.value', 'a join'),
	('SELECT k FROM (SELECT s.value AS k FROM stk s, stk_names n) q', 'a join'),
	('SELECT value AS k FROM stk WHERE value IN (SELECT k FROM stk_names)', 'a subquery in WHERE'),
	('SELECT value AS k FROM stk WHERE EXISTS (SELECT FROM stk_names WHERE k = value)', 'a subquery in WHERE')) AS v (query, why);
CREATE TABLE stk_other_key (k bigint, v bigint UNIQUE);
SELECT alike(stk_refused('SELECT value AS k, value AS v FROM stk', '{"key_columns": "k"}', 'update', 'stk_other_key'), '%has no unique index on the key%', 'a table with another key');
SELECT is((SELECT count(*) FROM pg_class WHERE relname = 'stk_none'), 0::bigint, 'what is refused makes no table');

-- what keeps the order
SELECT is(stk_refused(query, '{"key_columns": "k"}'), 'not refused', query)
FROM (VALUES ('SELECT value AS k FROM stk WHERE value % 3 = 0'),
	('WITH c AS (SELECT value % 10 AS k, value FROM stk) SELECT k, value FROM c WHERE value > 0'),
	('SELECT s.value AS k, (SELECT name FROM stk_names WHERE k = s.value) AS name FROM stk s'),
	('SELECT g AS k, s.value FROM stk s CROSS JOIN LATERAL generate_series(s.value, s.value + 1) g'),
	('SELECT unnest(ARRAY[value, value + 1]) AS k FROM stk')) AS v (query);

-- key k has the values k, k + 7, k + 14, ...; each third value deletes it
SELECT create_query('stk', 'SELECT value % 7 AS k, (value % 2)::int AS part, value AS v, value % 3 = 0 AS gone FROM stk', sink => 'stk_sink',
	output_mode => 'update', options => '{"key_columns": "k, part", "delete_when": "gone", "batch_rows": 100}');
SELECT is(pg_get_constraintdef(oid), 'PRIMARY KEY (k, part)', 'a table that is made has the primary key') FROM pg_constraint WHERE conrelid = 'stk_sink'::regclass AND contype = 'p';
SELECT start_query('stk');
DO $$ BEGIN
	FOR i IN 1..600 LOOP
		EXIT WHEN EXISTS (SELECT FROM recent_progress('stk') p WHERE (p ->> 'numInputRows')::int > 0);
		PERFORM pg_sleep(0.05);
		COMMIT;
	END LOOP;
END $$;
SELECT stop_query('stk');
SELECT cmp_ok(sum((p ->> 'numInputRows')::int), '>', 0::bigint, 'rows were read') AS x, sum((p ->> 'numInputRows')::int) AS n FROM recent_progress('stk') p \gset
SELECT :'x';
SELECT set_eq('SELECT k, part, v FROM stk_sink', format($$
	SELECT k, part, v FROM (SELECT DISTINCT ON (v %% 7, v %% 2) v %% 7 AS k, (v %% 2)::int AS part, v FROM generate_series(0, %s - 1::bigint) v ORDER BY v %% 7, v %% 2, v DESC) x
	WHERE v %% 3 <> 0$$, :n), 'the newest row of each key is there, unless it deletes');
SELECT drop_query('stk');

DROP FUNCTION stk_refused;
DROP FOREIGN TABLE stk, stk_other;
DROP TABLE stk_sink, stk_names, stk_other_key;
DROP FOREIGN TABLE stk_inserted;
SELECT * FROM finish();
