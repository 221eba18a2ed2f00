-- librdkafka's errors, by its mock cluster: what is transient, what is permanent.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
CREATE EXTENSION streamx_kafka_test;
SELECT no_plan();

-- Every code that the library knows has a kind; those without are the library's own business.
SELECT set_eq('SELECT kind, sqlstate, class FROM kafka_error_kinds()', $$VALUES
	('again', '40001', 'transient'), ('away', '08006', 'transient'), ('busy', '53000', 'transient'),
	('corrupt', 'XX001', 'deterministic'), ('credentials', '28000', 'deterministic'), ('exists', '42P07', 'deterministic'),
	('fenced', 'SX009', 'permanent'), ('forbidden', '42501', 'deterministic'), ('internal', 'HV000', 'deterministic'),
	('no topic', 'HV00R', 'deterministic'), ('offset gone', 'SX002', 'permanent'), ('ok', '00000', 'none'),
	('setting', '22023', 'deterministic'), ('tls', '28000', 'deterministic'), ('too large', '54000', 'deterministic'),
	('unsupported', '0A000', 'deterministic')$$, 'kinds and their SQLSTATEs');
SELECT is((SELECT string_agg(name, ' ' ORDER BY code) FROM kafka_error_kinds() WHERE kind = 'internal' AND code BETWEEN -199 AND 90),
	'_FAIL _FS _UNKNOWN_GROUP _EXISTING_SUBSCRIPTION _CONFLICT _STATE _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION _READ_ONLY _NOENT _INVALID_TYPE _FATAL _INCONSISTENT _APPLICATION _END UNKNOWN NON_EMPTY_GROUP GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC',
	'no other code of this library is without a kind');
SELECT is((SELECT class FROM kafka_error_kinds() WHERE name = e.name), e.class, e.name || ' is ' || e.class)
FROM (VALUES ('_TRANSPORT', 'transient'), ('_ALL_BROKERS_DOWN', 'transient'), ('_RESOLVE', 'transient'), ('_TIMED_OUT', 'transient'),
	('_MSG_TIMED_OUT', 'transient'), ('LEADER_NOT_AVAILABLE', 'transient'), ('COORDINATOR_NOT_AVAILABLE', 'transient'),
	('NOT_ENOUGH_REPLICAS', 'transient'), ('KAFKA_STORAGE_ERROR', 'transient'), ('CONCURRENT_TRANSACTIONS', 'transient'),
	('_AUTHENTICATION', 'deterministic'), ('SASL_AUTHENTICATION_FAILED', 'deterministic'), ('_SSL', 'deterministic'),
	('TOPIC_AUTHORIZATION_FAILED', 'deterministic'), ('UNKNOWN_TOPIC_OR_PART', 'deterministic'), ('MSG_SIZE_TOO_LARGE', 'deterministic'),
	('_FENCED', 'permanent'), ('PRODUCER_FENCED', 'permanent'), ('OFFSET_OUT_OF_RANGE', 'permanent')) AS e (name, class);

-- The same through a client and a cluster that answers so.
SELECT kafka_mock_start(1) AS b \gset
SELECT format('CREATE SERVER ke FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers %L)', :'b') \gexec
SELECT kafka_mock_topic('t', 2) \g /dev/null
SELECT is(kafka_call_topics('ke'), 't/2', 'topics of a cluster');
SELECT is(kafka_call_offsets('ke', 't'), '0-0', 'a call that blocks comes back with its answer');

-- errors of a topic
CREATE FUNCTION ke_topic(error int) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM kafka_mock_topic_error('t', error);
	PERFORM kafka_call_topic('ke', 't');
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	PERFORM kafka_mock_topic_error('t', 0);
	RETURN SQLSTATE;
END $$;
SELECT is(ke_topic(error), sqlstate, 'topic: ' || name) FROM (VALUES (29, '42501', 'not authorized'), (3, 'HV00R', 'unknown'), (17, '22023', 'no legal name')) AS e (error, sqlstate, name);

-- errors of the answers to requests: 2 offsets (first and last, of which the later answer counts), 22 producer id, 0 produce, 26 end of a transaction, 10 coordinator
CREATE FUNCTION ke_call(api int, errors int[], call text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	PERFORM kafka_mock_fail(api, VARIADIC errors);
	EXECUTE 'SELECT ' || call;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;
SELECT is(ke_call(2, ARRAY[error, error], $$kafka_call_offsets('ke', 't')$$), sqlstate, 'offsets: ' || name)
FROM (VALUES (29, '42501', 'not authorized')) AS e (error, sqlstate, name);
SELECT is(ke_call(api, ARRAY[error], format($$kafka_call_transaction('ke', 't', 'id%s')$$, row_number() OVER ())), sqlstate, 'transaction: ' || name)
FROM (VALUES (22, 53, '42501', 'its id is not authorized'), (22, 90, 'SX009', 'fenced at the beginning'), (26, 47, 'SX009', 'fenced at the end'),
	(0, 10, '54000', 'a record too large'), (0, 29, '42501', 'the topic not authorized'), (22, 51, 'none', 'concurrent, and the library tries again'),
	(10, 15, 'none', 'no coordinator yet, and the library tries again')) AS e (api, error, sqlstate, name);

-- nobody there
SELECT kafka_mock_down(1) \g /dev/null
SELECT throws_ok($$SELECT kafka_call_topics('ke')$$, '08006', 'could not read the topics of the Kafka cluster', 'a broker that is down');
SELECT kafka_mock_up(1) \g /dev/null
SELECT is(kafka_call_topics('ke'), 't/2', 'and up again');
SELECT kafka_mock_delay(1, 6000) \g /dev/null
SELECT throws_ok($$SELECT kafka_call_topics('ke')$$, '08006', NULL, 'a broker that takes too long');
CREATE SERVER ke_nowhere FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers 'no-such-host.invalid:9092');
SELECT throws_ok($$SELECT kafka_call_topics('ke_nowhere')$$, '08006', NULL, 'a name that nobody knows');

-- a call that blocks is left at once when somebody cancels, and the session goes on
SELECT clock_timestamp() AS before \gset
SET statement_timeout = '300ms';
SELECT kafka_call_blocking('ke', 30);
SET statement_timeout = 0;
SELECT cmp_ok(clock_timestamp() - :'before', '<', interval '3 seconds', 'a call that blocks can be cancelled');
SELECT kafka_mock_delay(1, 0) \g /dev/null
SELECT is(kafka_call_topics('ke'), 't/2', 'afterwards all is as before');

DROP SERVER ke, ke_nowhere;
DROP FUNCTION ke_topic, ke_call;
SELECT kafka_mock_stop() \g /dev/null
DROP EXTENSION streamx_kafka_test;
SELECT * FROM finish();
