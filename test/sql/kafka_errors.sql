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
CREATE TEMP TABLE ke_kinds (kind, names) AS VALUES
	('again', '_IN_PROGRESS _PREV_IN_PROGRESS _PARTIAL _RETRY _PURGE_QUEUE _PURGE_INFLIGHT _GAPLESS_GUARANTEE _MAX_POLL_EXCEEDED _ASSIGNMENT_LOST ILLEGAL_GENERATION
		UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_TXN_STATE INVALID_PRODUCER_ID_MAPPING
		CONCURRENT_TRANSACTIONS OPERATION_NOT_ATTEMPTED UNKNOWN_PRODUCER_ID MEMBER_ID_REQUIRED UNSTABLE_OFFSET_COMMIT'),
	('away', '_DESTROY _TRANSPORT _RESOLVE _MSG_TIMED_OUT _ALL_BROKERS_DOWN _TIMED_OUT _WAIT_COORD _OUTDATED _TIMED_OUT_QUEUE _WAIT_CACHE _INTR _UNKNOWN_BROKER
		LEADER_NOT_AVAILABLE NOT_LEADER_FOR_PARTITION REQUEST_TIMED_OUT BROKER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE STALE_CTRL_EPOCH NETWORK_EXCEPTION
		COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR NOT_CONTROLLER TRANSACTION_COORDINATOR_FENCED FETCH_SESSION_ID_NOT_FOUND
		INVALID_FETCH_SESSION_EPOCH LISTENER_NOT_FOUND FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH STALE_BROKER_EPOCH OFFSET_NOT_AVAILABLE
		PREFERRED_LEADER_NOT_AVAILABLE ELIGIBLE_LEADERS_NOT_AVAILABLE'),
	('busy', '_CRIT_SYS_RESOURCE _QUEUE_FULL _ISR_INSUFF NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND KAFKA_STORAGE_ERROR LOG_DIR_NOT_FOUND
		REASSIGNMENT_IN_PROGRESS THROTTLING_QUOTA_EXCEEDED'),
	('corrupt', '_BAD_MSG _BAD_COMPRESSION _UNDERFLOW INVALID_MSG INVALID_TIMESTAMP INVALID_RECORD'),
	('credentials', '_AUTHENTICATION UNSUPPORTED_SASL_MECHANISM ILLEGAL_SASL_STATE SASL_AUTHENTICATION_FAILED DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_NOT_FOUND
		DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED DELEGATION_TOKEN_EXPIRED'),
	('exists', 'TOPIC_ALREADY_EXISTS'),
	('fenced', '_FENCED INVALID_PRODUCER_EPOCH FENCED_INSTANCE_ID PRODUCER_FENCED'),
	('forbidden', 'TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED POLICY_VIOLATION TRANSACTIONAL_ID_AUTHORIZATION_FAILED
		DELEGATION_TOKEN_AUTHORIZATION_FAILED'),
	('internal', '_FAIL _FS _UNKNOWN_GROUP _EXISTING_SUBSCRIPTION _CONFLICT _STATE _KEY_SERIALIZATION _VALUE_SERIALIZATION _KEY_DESERIALIZATION _VALUE_DESERIALIZATION
		_READ_ONLY _NOENT _INVALID_TYPE _FATAL _INCONSISTENT _APPLICATION _END UNKNOWN NON_EMPTY_GROUP GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED
		ELECTION_NOT_NEEDED NO_REASSIGNMENT_IN_PROGRESS GROUP_SUBSCRIBED_TO_TOPIC'),
	('no topic', '_UNKNOWN_PARTITION _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART'),
	('offset gone', '_AUTO_OFFSET_RESET OFFSET_OUT_OF_RANGE'),
	('ok', '_PARTITION_EOF _NODE_UPDATE _ASSIGN_PARTITIONS _REVOKE_PARTITIONS _NO_OFFSET _NOOP NO_ERROR'),
	('setting', '_INVALID_ARG _NOT_CONFIGURED TOPIC_EXCEPTION INVALID_REQUIRED_ACKS INCONSISTENT_GROUP_PROTOCOL INVALID_GROUP_ID INVALID_SESSION_TIMEOUT
		INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_CONFIG INVALID_REQUEST INVALID_TRANSACTION_TIMEOUT
		INVALID_PRINCIPAL_TYPE'),
	('tls', '_SSL'),
	('too large', 'INVALID_MSG_SIZE MSG_SIZE_TOO_LARGE OFFSET_METADATA_TOO_LARGE RECORD_LIST_TOO_LARGE INVALID_COMMIT_OFFSET_SIZE'),
	('unsupported', '_UNKNOWN_PROTOCOL _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE UNSUPPORTED_VERSION UNSUPPORTED_FOR_MESSAGE_FORMAT SECURITY_DISABLED TOPIC_DELETION_DISABLED
		UNSUPPORTED_COMPRESSION_TYPE');
SELECT is((SELECT string_agg(n.name || coalesce(nullif(' is ' || e.kind, ' is ' || k.kind), ''), ' ' ORDER BY n.i) FROM regexp_split_to_table(k.names, '\s+') WITH ORDINALITY n (name, i)
	LEFT JOIN kafka_error_kinds() e USING (name)), regexp_replace(k.names, '\s+', ' ', 'g'), 'codes of kind ' || k.kind)
FROM ke_kinds k;
SELECT is((SELECT string_agg(name, ' ' ORDER BY code) FROM kafka_error_kinds() WHERE code BETWEEN -199 AND 90
	AND name NOT IN (SELECT regexp_split_to_table(names, '\s+') FROM ke_kinds)), NULL, 'no code of this library is without a kind');

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
