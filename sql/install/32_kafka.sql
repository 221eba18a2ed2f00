-- Topics of Kafka as streams.

CREATE FUNCTION streamx.kafka_handler() RETURNS fdw_handler
	LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'sx_api_kafka_handler';
COMMENT ON FUNCTION streamx.kafka_handler() IS 'Handler of foreign-data wrapper streamx_kafka.';

CREATE FUNCTION streamx.kafka_validator(options text[], catalog oid) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME', 'sx_api_kafka_validator';
COMMENT ON FUNCTION streamx.kafka_validator(text[], oid) IS 'Checks the options of Kafka servers, user mappings, streams and columns.';

CREATE FOREIGN DATA WRAPPER streamx_kafka
	HANDLER streamx.kafka_handler VALIDATOR streamx.kafka_validator;
COMMENT ON FOREIGN DATA WRAPPER streamx_kafka IS 'Topics of Apache Kafka as streams: a server is a cluster, a user mapping holds the secrets.';
