-- Wrong options, values, names, texts and settings: an error that says what is wrong, and nothing is left behind.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

CREATE FOREIGN TABLE ro_s (k int, ts timestamptz OPTIONS (watermark '10 s')) SERVER streamx;

-- The error must have the SQLSTATE, and say what to do or why.
CREATE FUNCTION refused(statement text, state text, says text, why text) RETURNS SETOF text LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
	context text;
BEGIN
	EXECUTE statement;
	RETURN NEXT fail(why || ' is refused');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT, detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT, context = PG_EXCEPTION_CONTEXT;
	RETURN NEXT is(SQLSTATE, state, why || ' is refused');
	RETURN NEXT matches(message || detail || hint || context, says, 'and the error of ' || why || ' says so');
END $$;

-- ---- streams ----
SELECT refused('CREATE FOREIGN TABLE ro_x (a int) SERVER streamx OPTIONS (' || o || ')', state, says, 'stream option ' || o)
FROM (VALUES
	($$nonsense 'a'$$, 'HV00D', 'Legal options'),
	($$connector 'banana'$$, 'HV024', 'Legal values'),
	($$retention 'banana'$$, '22007', 'option "retention"'),
	($$retention '-1 day'$$, 'HV024', 'at least zero'),
	($$rows_per_second '5'$$, 'HV00D', 'does not fit connector'),
	($$retention '1 day', "Retention" '1 day'$$, '42601', 'given twice'),
	($$connector 'rate', retention '1 day'$$, 'HV00D', 'does not fit connector')) x(o, state, says);
SELECT refused('CREATE FOREIGN TABLE ro_x (ts timestamptz, n bigint) SERVER streamx OPTIONS (connector ''rate'', ' || o || ')', state, says, 'rate option ' || o)
FROM (VALUES
	($$rows_per_second '-1'$$, 'HV024', 'greater than zero'),
	($$rows_per_second 'x'$$, 'HV024', 'greater than zero'),
	($$rows_per_second '99999999999999999999'$$, 'HV024', 'greater than zero'),
	($$num_partitions '0'$$, 'HV024', 'greater than zero'),
	($$ramp_up_time 'x'$$, '22007', 'option "ramp_up_time"')) x(o, state, says);
SELECT refused('CREATE FOREIGN TABLE ro_x (' || c || ') SERVER streamx', state, says, 'column ' || c)
FROM (VALUES
	($$ts timestamptz OPTIONS (watermark 'banana')$$, '22007', 'option "watermark"'),
	($$ts timestamptz OPTIONS (watermark '-5 s')$$, '22023', 'negative'),
	($$ts timestamptz OPTIONS (watermark '999999999 days')$$, '22015', 'too large'),
	($$ts int OPTIONS (watermark '5 s')$$, '42809', 'timestamptz'),
	($$ts timestamptz OPTIONS (banana '5 s')$$, 'HV00D', 'watermark'),
	($$a timestamptz OPTIONS (watermark '5 s'), b timestamptz OPTIONS (watermark '5 s')$$, '42P16', 'two watermark')) x(c, state, says);
SELECT refused(format('SELECT create_stream(%L, %L)', n, d), state, says, format('create_stream(%s, %s)', n, d))
FROM (VALUES
	('', 'a int', '42602', 'invalid name'),
	(NULL, 'a int', '22004', 'null'),
	('ro_x', NULL, '22004', 'null'),
	('no_such.ro_x', 'a int', '3F000', 'no_such'),
	('a.b.c.d', 'a int', '42601', 'too many dotted'),
	('ro_x', 'a int) ; DROP TABLE ro_s; --', '42601', 'syntax error'),
	('ro_x', 'a no_such', '42704', 'no_such'),
	('ro_x', 'a int, a int', '42701', 'more than once'),
	('ro_x', 'a int, WATERMARK FOR b AS b - INTERVAL ''1 s''', '42703', 'does not exist'),
	('pg_temp.ro_x', 'a int', '0A000', 'temporary')) x(n, d, state, says);
SELECT is(to_regclass('ro_x'), NULL, 'and there is no stream');
SELECT refused(s, state, says, s)
FROM (VALUES
	('UPDATE ro_s SET k = 1', '0A000', 'only appended'),
	('DELETE FROM ro_s', '0A000', 'only appended'),
	('TRUNCATE ro_s', '0A000', 'retention'),
	('ALTER FOREIGN TABLE ro_s OPTIONS (ADD connector ''rate'')', '42P16', 'rate')) x(s, state, says);

-- ---- names and texts of queries ----
SELECT refused(format('SELECT create_query(%L, %L, %L)', n, q, s), state, says, format('create_query(%s, %s, %s)', left(n, 20), q, s))
FROM (VALUES
	(NULL, 'SELECT k FROM ro_s', 'noop', '22004', 'NULL'),
	('', 'SELECT k FROM ro_s', 'noop', '42602', 'needs a name'),
	(repeat('x', 64), 'SELECT k FROM ro_s', 'noop', '42622', '63 bytes'),
	('q', NULL, 'noop', '22004', 'NULL'),
	('q', '', 'noop', '42601', '0 statements'),
	('q', 'SELEC', 'noop', '42601', 'syntax error'),
	('q', 'SELECT k FROM ro_s; SELECT 1', 'noop', '42601', '2 statements'),
	('q', 'INSERT INTO ro_s VALUES (1)', 'noop', '42601', 'must be a SELECT'),
	('q', 'SELECT k INTO zz FROM ro_s', 'noop', '0A000', 'INTO'),
	('q', 'SELECT 1', 'noop', 'SX006', 'no stream'),
	('q', 'SELECT * FROM no_such', 'noop', '42P01', 'no_such'),
	('q', 'SELECT $1 FROM ro_s', 'noop', '42P02', 'parameter'),
	('q', 'SELECT k, k FROM ro_s', 'noop', '42701', 'more than once'),
	('q', 'SELECT FROM ro_s', 'noop', '42P16', 'at least one result column'),
	('q', 'SELECT ROW(1, 2) AS n FROM ro_s', 'noop', '42P16', 'record'),
	('q', 'SELECT k FROM ro_s FOR UPDATE', 'noop', 'SX006', 'locked'),
	('q', 'SELECT k FROM ro_s', NULL, '22023', 'no sink'),
	('q', 'SELECT k FROM ro_s', '', '42602', 'invalid name'),
	('q', 'SELECT k FROM ro_s', 'a.b.c.d', '42601', 'too many dotted'),
	('q', 'SELECT k FROM ro_s', 'no_such.t', '3F000', 'no_such'),
	('q', 'SELECT k FROM ro_s', 'pg_temp.t', '42809', 'another process'),
	('q', 'SELECT k FROM ro_s', 'pg_catalog.pg_class', '42501', 'system catalog'),
	('q', 'SELECT k FROM ro_s', 'streamx.failure', '42501', 'system catalog'),
	('q', 'SELECT k, ts FROM ro_s', 'ro_s', '0A000', 'which it reads')) x(n, q, s, state, says);
CREATE FOREIGN TABLE ro_rate (ts timestamptz, n bigint) SERVER streamx OPTIONS (connector 'rate');
SELECT refused($$SELECT create_query('q', 'SELECT ts, k::bigint AS n FROM ro_s', 'ro_rate')$$, '42809', 'takes none', 'a stream that takes no rows as sink');

-- ---- modes, triggers, options ----
SELECT refused(format('SELECT create_query(''q'', ''SELECT k FROM ro_s'', ''noop'', %L, %L)', m, t), state, says, format('mode %s, trigger %s', m, t))
FROM (VALUES
	('banana', 'default', '22023', 'append, update or complete'),
	(NULL, 'default', '22004', 'NULL'),
	('complete', 'default', 'SX005', 'aggregation'),
	('append', 'banana', '22023', 'invalid trigger'),
	('append', '', '22023', 'invalid trigger'),
	('append', NULL, '22004', 'NULL'),
	('append', '-1 s', '22023', 'negative'),
	('append', '1 month', '22023', 'months'),
	('append', '999999999999 days', '22023', 'invalid trigger')) x(m, t, state, says);
SELECT refused(format('SELECT create_query(''q'', ''SELECT k FROM ro_s'', ''noop'', options => %L)', o), '22023', says, 'options ' || left(o, 40))
FROM (VALUES
	('[]', 'JSON object'), ('1', 'JSON object'), ('{"banana": 1}', 'Options are'), ('{"password": "s3cr3t!"}', 'unknown query option "password"'),
	('{"stateStore": "redis"}', 'rocksdb or table'), ('{"stateStore": "table", "state_store": "rocksdb"}', 'given twice'),
	('{"state_memory": "1kB"}', '1 MB'), ('{"state_memory": "1000TB"}', '1 MB'), ('{"state_memory": -5}', '1 MB'),
	('{"state_memory": 1e400}', '1 MB'), ('{"state_memory": {"a": 1}}', 'not a scalar'), ('{"batch_rows": 0}', 'at least 1'),
	('{"batches_to_retain": 1}', 'at least 2'), ('{"idle_timeout": "x"}', 'interval'), ('{"max_future_skew": "1 month"}', 'interval'),
	('{"max_retries": -7}', 'no limit'), ('{"starting_offsets": "middle"}', 'earliest'), ('{"directory": "relative"}', 'absolute'),
	('{"directory": "/tmp"}', 'only for the sink')) x(o, says);
SELECT is((SELECT count(*) FROM streamx.queries), 0::bigint, 'none of them left a query');
SELECT is((SELECT count(*) FROM pg_class WHERE relnamespace = 'streamx_query'::regnamespace), 0::bigint, 'or a view');

-- ---- the other functions ----
SELECT refused(s, state, says, s)
FROM (VALUES
	('SELECT start_query(''none'')', '42704', 'streamx.queries'), ('SELECT stop_query(''none'')', '42704', 'streamx.queries'),
	('SELECT drop_query(''none'')', '42704', 'streamx.queries'), ('SELECT alter_query(''none'')', '42704', 'streamx.queries'),
	('SELECT process_all_available(''none'')', '42704', 'streamx.queries'), ('SELECT await_termination(''none'')', '42704', 'streamx.queries'),
	('SELECT explain_query(''none'')', '42704', 'streamx.queries'), ('SELECT last_progress(''none'')', '42704', 'streamx.queries'),
	('SELECT start_query(NULL)', '22004', 'NULL'), ('SELECT stop_query(NULL)', '22004', 'NULL'), ('SELECT drop_query(NULL)', '22004', 'NULL')) x(s, state, says);
SELECT create_query(E'we"ird ''%\n; -- \u00fc', 'SELECT k AS "a""b''c", count(*) AS "n, \" FROM ro_s GROUP BY k', '"sink "" '' %"', 'update');
SELECT start_query(E'we"ird ''%\n; -- \u00fc');
INSERT INTO ro_s VALUES (1), (1);
SELECT process_all_available(E'we"ird ''%\n; -- \u00fc', '30 s');
SELECT results_eq('SELECT * FROM "sink "" '' %"', 'VALUES (1, 2::bigint)', 'a query, its columns and its sink may have any names');
SELECT drop_query(E'we"ird ''%\n; -- \u00fc');
SELECT create_query(repeat('y', 63), 'SELECT k FROM ro_s', repeat('z', 63));
SELECT start_query(repeat('y', 63));
SELECT process_all_available(repeat('y', 63), '30 s');
SELECT is((SELECT count(*) FROM zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz), 2::bigint, 'of 63 bytes, too');
SELECT refused(s, state, says, s)
FROM (VALUES
	('SELECT start_query(repeat(''y'', 63), ''banana'')', '22023', 'new_incarnation'),
	('SELECT stop_query(repeat(''y'', 63), ''-1 s'')', '22023', 'negative'),
	('SELECT process_all_available(repeat(''y'', 63), ''-1 s'')', '22023', 'negative'),
	('SELECT alter_query(repeat(''y'', 63), trigger => ''banana'')', '22023', 'invalid trigger'),
	('SELECT alter_query(repeat(''y'', 63), options => ''{"x": 1}'')', '22023', 'Options are'),
	('SELECT alter_query(repeat(''y'', 63), query => ''SELECT none FROM ro_s'')', '42703', 'none'),
	('SELECT alter_query(repeat(''y'', 63), sink => ''ro_s'')', '0A000', 'which it reads')) x(s, state, says);
INSERT INTO ro_s VALUES (2);
SELECT process_all_available(repeat('y', 63), '30 s');
SELECT is((SELECT count(*) FROM zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz), 3::bigint, 'a running query goes on after changes that were refused');
SELECT drop_query(repeat('y', 63));

-- ---- settings ----
SELECT refused(s, state, says, s)
FROM (VALUES
	('SET streamx.state_memory = ''1kB''', '22023', 'valid range'), ('SET streamx.state_store = ''redis''', '22023', 'rocksdb, table'),
	('SET streamx.state_directory = ''relative''', '22023', 'absolute'), ('SET streamx.stop_timeout = ''-1''', '22023', 'valid range'),
	('SET streamx.banana = 1', '42602', 'reserved'), ('SET streamx.enabled = off', '55P02', 'cannot be changed now'),
	('SET streamx.max_queries = 3', '55P02', 'restarting')) x(s, state, says);

-- ---- layouts don't depend on the session ----
SET quote_all_identifiers = on;
SELECT create_query('ro_quoted', 'SELECT k, sum(k) AS n FROM ro_s GROUP BY k', 'ro_quoted', 'update');
SELECT start_query('ro_quoted');
SELECT process_all_available('ro_quoted', '30 s');
RESET quote_all_identifiers;
SELECT stop_query('ro_quoted');
SELECT lives_ok($$SELECT start_query('ro_quoted')$$, 'a query starts again whatever quote_all_identifiers was');
SELECT drop_query('ro_quoted');

DROP FOREIGN TABLE ro_s, ro_rate;
DROP TABLE "sink "" ' %", zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz, ro_quoted;
DROP FUNCTION refused;
SELECT * FROM finish();
