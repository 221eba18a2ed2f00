-- INSERT and COPY into streams of Kafka: what their transactions left for the publisher.

CREATE TABLE streamx.kafka_outbox (
	stream oid NOT NULL,
	database oid NOT NULL,			-- another one's: a copy of it, published there
	xid xid8 NOT NULL,				-- top transaction
	seq bigint NOT NULL,			-- order within it
	rows bigint NOT NULL,
	data bytea NOT NULL				-- records, see src/sink/kafka_intent.h
);
CREATE INDEX kafka_outbox_stream ON streamx.kafka_outbox (stream, xid, seq);
COMMENT ON TABLE streamx.kafka_outbox IS 'Rows inserted into streams of Kafka and not yet known to be there; read streamx.outbox instead.';

CREATE TABLE streamx.kafka_publication (
	stream oid PRIMARY KEY,
	identity uuid NOT NULL,			-- transactional id and mark are named by it
	database oid NOT NULL,
	batch bigint NOT NULL,			-- newest one that was begun, -1: none
	transactions pg_snapshot,		-- that it holds: all that see it; NULL: it is published
	lineage uuid,					-- of batch; in its mark, too
	state text NOT NULL,			-- publishing, sink_ahead, sink_unknown, failed
	on_rewind text,
	error text,
	error_at timestamptz,
	max_bytes int					-- that the topic takes at once; NULL: not known
);
COMMENT ON TABLE streamx.kafka_publication IS 'How far the publisher is with each stream of Kafka; read streamx.outbox instead.';
REVOKE ALL ON streamx.kafka_outbox, streamx.kafka_publication FROM PUBLIC;

CREATE VIEW streamx.outbox WITH (security_barrier) AS
	SELECT c.oid::pg_catalog.regclass AS stream, coalesce(p.state, 'publishing') AS state,
		coalesce(w.transactions, 0) AS transactions, coalesce(w.rows, 0) AS rows, coalesce(w.bytes, 0) AS bytes,
		p.batch AS batch_id, p.error AS last_error, p.error_at AS last_error_at
	FROM pg_catalog.pg_class c
		JOIN pg_catalog.pg_foreign_table f ON f.ftrelid = c.oid
		LEFT JOIN streamx.kafka_publication p ON p.stream = c.oid
		LEFT JOIN (SELECT o.stream, count(DISTINCT o.xid) AS transactions, sum(o.rows)::bigint AS rows,
					   sum(pg_catalog.octet_length(o.data))::bigint AS bytes
				   FROM streamx.kafka_outbox o
				   WHERE o.database = (SELECT d.oid FROM pg_catalog.pg_database d
									   WHERE d.datname = pg_catalog.current_database())
				   GROUP BY o.stream) w ON w.stream = c.oid
	WHERE (p.stream IS NOT NULL OR w.stream IS NOT NULL)
		AND pg_catalog.has_table_privilege(c.oid, 'INSERT');
COMMENT ON VIEW streamx.outbox IS
	'Streams of Kafka that SQL inserts into: what is committed and waits to be published, and the last error.';
GRANT SELECT ON streamx.outbox TO PUBLIC;

CREATE FUNCTION resume_publishing(stream regclass, on_rewind text DEFAULT NULL) RETURNS void
	LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME', 'sx_api_resume_publishing';
COMMENT ON FUNCTION resume_publishing(regclass, text) IS
	'Publishes again what was inserted into a stream of Kafka, after its state was sink_ahead, sink_unknown or failed; on_rewind as in start_query. For the owner of the stream.';
