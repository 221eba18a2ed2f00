-- Options of Kafka servers, user mappings, streams and columns: an allow-list by level.
-- The only broker here is a mock, for IMPORT FOREIGN SCHEMA.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
CREATE EXTENSION streamx_kafka_test;
SELECT no_plan();

CREATE FUNCTION ko_server(options text) RETURNS text LANGUAGE sql RETURN
	'CREATE SERVER ko_x FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers ''b:1'', ' || options || ')';
CREATE FUNCTION ko_mapping(options text) RETURNS text LANGUAGE sql RETURN
	'CREATE USER MAPPING FOR PUBLIC SERVER ko OPTIONS (' || options || ')';
CREATE FUNCTION ko_stream(options text) RETURNS text LANGUAGE sql RETURN
	'CREATE FOREIGN TABLE ko_x (id int) SERVER ko OPTIONS (topic ''t'', format ''json'', ' || options || ')';
-- message, detail and hint of an error
CREATE FUNCTION ko_error(sql text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE m text; d text; h text; s text;
BEGIN
	EXECUTE sql;
	RETURN 'no error';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS m = MESSAGE_TEXT, d = PG_EXCEPTION_DETAIL, h = PG_EXCEPTION_HINT, s = RETURNED_SQLSTATE;
	RETURN concat_ws(E'\n', s || ' ' || m, d, h);
END $$;

CREATE SERVER ko FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers 'b1:9092,b2:9092');

-- refused everywhere, with the reason
SELECT alike(ko_error(format(CASE at WHEN 'server' THEN ko_server('%I ''s3cr3t!''') WHEN 'mapping' THEN ko_mapping('%I ''s3cr3t!''') ELSE ko_stream('%I ''s3cr3t!''') END, name)),
	E'HV00D Kafka option "' || name || E'" is not allowed\n' || reason || '%', name || ' is refused on a ' || at)
FROM (VALUES
	('kafka.auto.offset.reset', 'Where a query begins is the stream''s business%"starting_offsets"'),
	('kafka.key.deserializer', 'Keys are read as bytes.'),
	('kafka.value.deserializer', 'Values are read as bytes.'),
	('kafka.key.serializer', 'Keys are written as bytes.'),
	('kafka.value.serializer', 'Values are written as bytes.'),
	('kafka.enable.auto.commit', 'Offsets belong to the query''s checkpoint'),
	('kafka.interceptor.classes', 'Interceptors are Java code.'),
	('kafka.plugin.library.paths', 'A plugin would run code'),
	('kafka.ssl.engine.location', 'An engine would run code'),
	('kafka.ssl.engine.id', 'An engine would run code'),
	('kafka.ssl.providers', 'A provider would run code'),
	('kafka.sasl.kerberos.kinit.cmd', 'Kerberos would run a command'),
	('kafka.sasl.kerberos.keytab', 'Kerberos would run a command'),
	('kafka.some.other.cmd', 'A command would run'),
	('kafka.sasl.login.callback.handler.class', 'Login classes are Java code.'),
	('kafka.debug', 'Debug output may show'),
	('kafka.log_level', 'Messages of the library'),
	('kafka.transactional.id', 'It is made of the query''s incarnation'),
	('kafka.enable.idempotence', 'Writing is always idempotent'),
	('kafka.group.instance.id', 'Partitions are assigned by the query'),
	('kafka.partitioner.class', 'Partitioners are Java code.%"kafka.partitioner"'),
	('kafka.ssl.truststore.location', 'Key stores of Java%"ssl_ca_pem"'),
	('kafka.ssl.keystore.location', 'Key stores are not read%"ssl_key_pem"'),
	('kafka.allow.auto.create.topics', 'A mistyped name would make a topic.'),
	('kafka.statistics.interval.ms', 'Figures are in the view'),
	('kafka.test.mock.num.brokers', 'That is for tests')) AS r (name, reason),
	(VALUES ('server'), ('mapping'), ('stream')) AS l (at);

-- secrets stand in user mappings only
SELECT alike(ko_error(format(CASE at WHEN 'server' THEN ko_server('%I ''s3cr3t!''') ELSE ko_stream('%I ''s3cr3t!''') END, name)),
	E'HV00D Kafka option "%" cannot stand on a ' || at || E'\nEverybody can read%\nSet % on the user mapping.', name || ' cannot stand on a ' || at)
FROM (VALUES ('kafka.sasl.password'), ('kafka.sasl.username'), ('kafka.sasl.jaas.config'), ('kafka.ssl.key.pem'),
	('kafka.ssl.key.password'), ('kafka.ssl.keystore.key'), ('kafka.sasl.oauthbearer.token'),
	('kafka.sasl.oauthbearer.client.secret'), ('schema_registry_password')) AS r (name),
	(VALUES ('server'), ('stream')) AS l (at);
SELECT alike(ko_error(ko_stream(format('%I ''x''', name))), 'HV00D%cannot stand on a stream%on the server.', name || ' is the server''s')
FROM (VALUES ('kafka.bootstrap.servers'), ('kafka.security.protocol'), ('kafka.sasl.mechanism'),
	('kafka.ssl.ca.location'), ('schema_registry_url')) AS r (name);
SELECT alike(ko_error(ko_mapping(format('%I ''x''', name))), 'HV00D%cannot stand on a user mapping%', name || ' is not the user mapping''s')
FROM (VALUES ('bootstrap_servers'), ('security_protocol'), ('fetch_min_bytes')) AS r (name);

-- no secret in an error
SELECT unalike(ko_error(sql), '%s3cr3t%', 'no secret in: ' || split_part(ko_error(sql), E'\n', 1))
FROM (VALUES (ko_mapping($$user 'u', pasword 's3cr3t!'$$)), (ko_mapping($$password 's3cr3t!', password_ 's3cr3t!'$$)),
	(ko_mapping($$sasl_jaas_config 'NoLoginModule required password="s3cr3t!";'$$)),
	(ko_mapping($$sasl_oauthbearer_client_secret 's3cr3t!', sasl_oauthbearer_bogus 's3cr3t!'$$)),
	(ko_server($$sasl_password 's3cr3t!'$$)), (ko_stream($$bogus 's3cr3t!'$$))) AS s (sql);

-- unknown ones, with what there is
SELECT alike(ko_error(ko_server($$bogus '1'$$)), 'HV00D invalid Kafka option "bogus" of a server%Legal options: bootstrap_servers,%', 'an unknown option of a server');
SELECT alike(ko_error(ko_mapping($$bogus '1'$$)), 'HV00D invalid Kafka option "bogus" of a user mapping%sasl_password%', 'an unknown option of a user mapping');
SELECT alike(ko_error(ko_stream($$bogus '1'$$)), 'HV00D invalid option "bogus" of a Kafka stream%starting_offsets%', 'an unknown option of a stream');
SELECT alike(ko_error(ko_stream($$"kafka.bogus" '1'$$)), 'HV00D invalid Kafka option "kafka.bogus" of a stream%kafka.fetch.min.bytes%', 'an unknown setting of the client');
SELECT alike(ko_error('CREATE FOREIGN TABLE ko_x (id int OPTIONS (bogus ''1'')) SERVER ko OPTIONS (topic ''t'', format ''json'')'),
	'HV00D invalid option "bogus" of a column%', 'an unknown option of a column');
SELECT alike(ko_error('CREATE FOREIGN DATA WRAPPER ko_w VALIDATOR streamx.kafka_validator OPTIONS (a ''1'')'),
	'HV00D invalid option "a" of foreign-data wrapper%', 'the wrapper has no options');

-- values
SELECT alike(ko_error('CREATE SERVER ko_x FOREIGN DATA WRAPPER streamx_kafka'), 'HV00J option "bootstrap_servers" must be set%', 'a server says where');
SELECT alike(ko_error(ko_server($$security_protocol 'sasl_ssl'$$)), 'HV00J option "sasl_mechanism" must be set%', 'SASL wants a mechanism');
SELECT alike(ko_error(ko_server($$security_protocol 'bogus'$$)), 'HV024 invalid value%librdkafka: %', 'the library''s words are in the detail');
SELECT alike(ko_error(ko_server($$security_protocol 'sasl_ssl', sasl_mechanism 'GSSAPI'$$)), 'HV024%Kerberos would run a command%Legal values: PLAIN%', 'no Kerberos');
SELECT alike(ko_error(ko_stream($$"kafka.fetch.min.bytes" 'many'$$)), 'HV024 invalid value%', 'a number must be one');
SELECT alike(ko_error(ko_stream($$"kafka.fetch.max.wait.ms" '1 month'$$)), 'HV024%Months differ%', 'a duration has no months');
SELECT alike(ko_error(ko_stream($$"kafka.metadata.max.age.ms" '0'$$)), 'HV024%between 1 ms and 1 hour%', 'a refresh has limits');
SELECT alike(ko_error(ko_stream($$starting_offsets 'earliest', startingOffsets 'latest'$$)), '42601 option "startingoffsets" is given twice%', 'two spellings of one option');
SELECT alike(ko_error(ko_server($$client_id 'a', "kafka.client.id" 'b'$$)), '42601 option%given twice%', 'two spellings on a server');

-- what is taken, and what the library makes of it
SELECT lives_ok(ko_stream($$startingOffsets 'earliest', failOnDataLoss 'false', "kafkaConsumer.pollTimeoutMs" '1000', minPartitions '4',
	"kafka.group.id" 'g', "kafka.session.timeout.ms" '60000', "kafka.request.timeout.ms" '60000', includeHeaders 'true'$$), 'a stream in Spark''s words');
DROP FOREIGN TABLE ko_x;
CREATE SERVER ko_all FOREIGN DATA WRAPPER streamx_kafka OPTIONS (
	bootstrap_servers 'ns.servicebus.windows.net:9093', security_protocol 'SASL_SSL', "kafka.sasl.mechanism" 'PLAIN',
	metadata_max_age_ms '3 minutes', connections_max_idle_ms '180000', "kafka.fetch.max.wait.ms" '50', buffer_memory '33554432');
CREATE USER MAPPING FOR PUBLIC SERVER ko_all OPTIONS ("kafka.sasl.jaas.config"
	'org.apache.kafka.common.security.plain.PlainLoginModule required username="$ConnectionString" password="Endpoint=sb://ns;Key=a\"b=";');
SELECT is(kafka_settings('ko_all'),
	'bootstrap.servers=ns.servicebus.windows.net:9093, security.protocol=SASL_SSL, sasl.mechanism=PLAIN, '
	'topic.metadata.refresh.interval.ms=180000, metadata.max.age.ms=540000, connections.max.idle.ms=180000, '
	'fetch.wait.max.ms=50, queue.buffering.max.kbytes=32768, sasl.username=$ConnectionString, sasl.password=***',
	'Java''s names are translated, durations are milliseconds, JAAS is taken apart, secrets are not printed');
SELECT is(kafka_redact('ko_all', 'login with Endpoint=sb://ns;Key=a"b= and again Endpoint=sb://ns;Key=a"b=.'), 'login with *** and again ***.', 'what a library says is redacted');
ALTER SERVER ko_all OPTIONS (SET connections_max_idle_ms '100000', DROP "kafka.fetch.max.wait.ms");
SELECT unalike(kafka_settings('ko_all'), '%fetch.wait.max.ms%', 'ALTER SERVER counts at the next connection');
SELECT throws_ok($$ALTER SERVER ko_all OPTIONS (DROP bootstrap_servers)$$, 'HV00J', NULL, 'ALTER is checked as well');

-- files
CREATE ROLE ko_user;
GRANT USAGE ON FOREIGN DATA WRAPPER streamx_kafka TO ko_user;
GRANT USAGE ON FOREIGN SERVER ko TO ko_user;
GRANT CREATE ON SCHEMA public TO ko_user;
SELECT lives_ok(ko_server($$ssl_ca_location '/etc/ssl/certs/ca-certificates.crt'$$), 'who may read files may name one');
DROP SERVER ko_x;
SET ROLE ko_user;
SELECT alike(ko_error(ko_server($$ssl_ca_location '/etc/passwd'$$)), '42501 permission denied to use Kafka option "ssl_ca_location"%pg_read_server_files%', 'others may not');
SELECT alike(ko_error($$CREATE USER MAPPING FOR ko_user SERVER ko OPTIONS (ssl_key_location '/etc/ssl/private/x.key')$$), '42501%', 'nor in a user mapping');
SELECT lives_ok($$CREATE USER MAPPING FOR ko_user SERVER ko OPTIONS (user 'u', password 's3cr3t!')$$, 'a user has a mapping of his own');
SELECT is(kafka_settings('ko'), 'bootstrap.servers=b1:9092,b2:9092, sasl.username=u, sasl.password=***', 'and it is what he connects with');
RESET ROLE;
SELECT is(kafka_settings('ko'), 'bootstrap.servers=b1:9092,b2:9092', 'others have none');
CREATE ROLE ko_other;
SET ROLE ko_other;
SELECT is((SELECT umoptions::text FROM pg_user_mappings WHERE srvname = 'ko'), NULL, 'nobody else sees it');
SELECT is((SELECT count(*)::int FROM pg_foreign_server WHERE srvoptions::text LIKE '%s3cr3t%'), 0, 'no server shows a secret');
RESET ROLE;
CREATE SERVER ko_file FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers 'b:1', ssl_ca_location '/etc/ssl/certs/ca-certificates.crt');
ALTER SERVER ko_file OWNER TO ko_user;
SELECT throws_ok($$SELECT kafka_settings('ko_file')$$, '42501', NULL, 'the right to a file is checked anew when a client is made');

-- columns
SELECT lives_ok($$CREATE FOREIGN TABLE ko_c (k text OPTIONS (metadata 'key'), id int, ts timestamptz OPTIONS (watermark '5 s')) SERVER ko OPTIONS (topic 't', format 'json')$$, 'metadata and watermark columns');
SELECT throws_ok($$CREATE FOREIGN TABLE ko_x (id int, ts timestamp OPTIONS (watermark '5 s')) SERVER ko OPTIONS (topic 't', format 'json')$$, '42809', NULL, 'a watermark is checked as on other streams');
SELECT throws_ok($$CREATE TEMP TABLE ko_t (a int); CREATE FOREIGN TABLE pg_temp.ko_x (id int) SERVER ko OPTIONS (topic 't', format 'json')$$, '0A000', NULL, 'a stream is not temporary');
SELECT lives_ok($$SELECT create_stream('ko_s', $d$(id int, k bytea OPTIONS (metadata 'key'), ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '5 seconds') SERVER ko OPTIONS (topic 't', format 'json', starting_offsets 'earliest')$d$)$$, 'create_stream() takes server, options and metadata');
SELECT is((SELECT string_agg(option_name || '=' || option_value, ' ' ORDER BY option_name) FROM information_schema.column_options WHERE table_name = 'ko_s'), 'metadata=key watermark=5 seconds', 'as column options');
ALTER FOREIGN TABLE ko_s OPTIONS (SET starting_offsets 'latest', ADD "kafka.fetch.min.bytes" '1'), ADD COLUMN o bigint OPTIONS (metadata 'offset');
SELECT throws_ok($$ALTER FOREIGN TABLE ko_s OPTIONS (ADD "kafka.debug" 'all')$$, 'HV00D', NULL, 'ALTER FOREIGN TABLE is checked');
SELECT throws_ok($$DROP SERVER ko$$, '2BP01', NULL, 'a server with streams stays');
DROP FOREIGN TABLE ko_s;
CREATE STREAM ko_s (id int, k text OPTIONS (metadata 'key'), h jsonb OPTIONS (metadata 'headers'), ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL '5 seconds')
	SERVER ko OPTIONS (subscribePattern 'orders-.*', format 'json', "kafka.isolation.level" 'read_committed');
SELECT is((SELECT string_agg(option_name || '=' || option_value, ' ' ORDER BY option_name) FROM information_schema.foreign_table_options WHERE foreign_table_name = 'ko_s'),
	'format=json kafka.isolation.level=read_committed subscribepattern=orders-.*', 'CREATE STREAM takes server and options');
SELECT is((SELECT string_agg(column_name || ' ' || option_name || '=' || option_value, ', ' ORDER BY column_name) FROM information_schema.column_options WHERE table_name = 'ko_s'),
	'h metadata=headers, k metadata=key, ts watermark=5 seconds', 'and metadata columns beside a watermark');
ALTER STREAM ko_s OPTIONS (SET format 'csv');
SELECT throws_ok($$ALTER FOREIGN TABLE ko_s OPTIONS (ADD "kafka.sasl.password" 'x')$$, 'HV00D', NULL, 'its ALTER is checked');
SELECT throws_ok($$ALTER FOREIGN TABLE ko_s OPTIONS (ADD topic 't')$$, 'HV024', NULL, 'and its topics are named once');
DROP STREAM ko_s;

-- IMPORT FOREIGN SCHEMA, from a mock cluster
SELECT kafka_mock_start(1) AS b \gset
SELECT format('ALTER SERVER ko OPTIONS (SET bootstrap_servers %L)', :'b') \gexec
SELECT kafka_mock_topic(t, 1) FROM unnest(ARRAY['orders', 'Odd "name', '__internal', repeat('x', 70)]) AS t \g /dev/null
CREATE SCHEMA ko_all;
IMPORT FOREIGN SCHEMA kafka FROM SERVER ko INTO ko_all;
SELECT set_eq($$SELECT relname::text FROM pg_class WHERE relnamespace = 'ko_all'::regnamespace$$, ARRAY['orders', 'Odd "name'], 'every topic becomes a stream, but the cluster''s own and names that are too long');
SELECT is((SELECT string_agg(attname || ' ' || format_type(atttypid, atttypmod), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = 'ko_all.orders'::regclass AND attnum > 0),
	'key bytea, value bytea, topic text, partition integer, offset bigint, timestamp timestamp with time zone, timestamp_type integer, headers jsonb', 'with the columns of format raw');
SELECT is((SELECT string_agg(option_name || '=' || option_value, ' ' ORDER BY option_name) FROM information_schema.foreign_table_options WHERE foreign_table_name = 'Odd "name'), 'format=raw topic=Odd "name', 'and its topic');
CREATE SCHEMA ko_some;
IMPORT FOREIGN SCHEMA kafka LIMIT TO (orders, __internal) FROM SERVER ko INTO ko_some OPTIONS (include_headers 'false');
SELECT set_eq($$SELECT relname::text FROM pg_class WHERE relnamespace = 'ko_some'::regnamespace$$, ARRAY['orders', '__internal'], 'LIMIT TO: these, also of the cluster''s own');
SELECT hasnt_column('ko_some', 'orders', 'headers', 'without headers');
CREATE SCHEMA ko_rest;
IMPORT FOREIGN SCHEMA kafka EXCEPT (orders) FROM SERVER ko INTO ko_rest;
SELECT set_eq($$SELECT relname::text FROM pg_class WHERE relnamespace = 'ko_rest'::regnamespace$$, ARRAY['Odd "name'], 'EXCEPT: the others');
SELECT throws_ok($$IMPORT FOREIGN SCHEMA kafka FROM SERVER ko INTO ko_rest OPTIONS (bogus '1')$$, 'HV00D', NULL, 'options are checked');
SELECT kafka_mock_stop() \g /dev/null
DROP SCHEMA ko_all, ko_some, ko_rest CASCADE;
DROP SERVER ko, ko_all, ko_file CASCADE;
REVOKE CREATE ON SCHEMA public FROM ko_user;
REVOKE USAGE ON FOREIGN DATA WRAPPER streamx_kafka FROM ko_user;
DROP ROLE ko_user, ko_other;
DROP FUNCTION ko_server, ko_mapping, ko_stream, ko_error;
DROP EXTENSION streamx_kafka_test;
SELECT * FROM finish();
