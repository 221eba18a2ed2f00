-- A mock cluster lives in the session that started it, and ends with it.  It listens on
-- 127.0.0.1, so other sessions and workers reach it, too.
CREATE FUNCTION kafka_mock_start(brokers int) RETURNS text
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION kafka_mock_start(int) IS 'Starts a mock cluster; returns its bootstrap servers.';
CREATE FUNCTION kafka_mock_stop() RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_mock_topic(topic text, partitions int) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
-- The next requests of this kind (key of Kafka's protocol) are answered by these errors.
CREATE FUNCTION kafka_mock_fail(api int, VARIADIC errors int[]) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
-- All further requests for this topic's metadata say this error; 0: none.
CREATE FUNCTION kafka_mock_topic_error(topic text, error int) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_mock_down(broker int) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_mock_up(broker int) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_mock_delay(broker int, ms int) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';

-- What streamx's client does with a cluster; errors are those that users see.
CREATE FUNCTION kafka_call_topics(server text) RETURNS text
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_call_topic(server text, topic text) RETURNS int
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_call_offsets(server text, topic text) RETURNS text
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_call_transaction(server text, topic text, id text) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
-- A call of the library that does not come back for so long.
CREATE FUNCTION kafka_call_blocking(server text, seconds int) RETURNS void
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';

CREATE FUNCTION kafka_settings(server text) RETURNS text
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_redact(server text, line text) RETURNS text
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_error_kinds(OUT code int, OUT name text, OUT kind text, OUT sqlstate text, OUT class text)
	RETURNS SETOF record LANGUAGE c STRICT AS 'MODULE_PATHNAME';
CREATE FUNCTION kafka_library_version() RETURNS int
	LANGUAGE c STRICT AS 'MODULE_PATHNAME';
