/*
 * kafka_target.h
 *		The outside end of an outbox: a topic, written under one identity.
 *
 * Identity is the incarnation of a query, or of a stream that SQL inserts into.
 * Whoever has it alone (take) publishes intents with their batch ids; the last
 * one that is in Kafka is the mark, an offset of the consumer group that has the
 * identity's name, committed in the same Kafka transaction as the records.
 *
 *	 transactional.id	streamx-<system identifier>-<identity>-0-0
 *	 group				streamx-<identity>
 *	 offset				next batch id, of partition 0 of the mark's topic; 0: no batch yet
 *	 metadata			{"batch":5,"token":"<text>","timeline":1,"run":"<uuid>","at":<seconds>}
 *
 * "run" names the process that writes; it is committed before the first intent
 * (begin), so that one that lost its right can tell whether another took it, or
 * only its own transaction ran out of time.
 *
 * "token" stands for what the batch holds: a server and its copy may both have a
 * batch of that id, with other rows.
 *
 * Order at start: mark (fences nobody), take, mark again, begin, then intents.
 */
#ifndef SX_SINK_KAFKA_TARGET_H
#define SX_SINK_KAFKA_TARGET_H

#include "nodes/pg_list.h"

typedef struct SxKafkaTarget SxKafkaTarget;

/* What a stream says as a place to write to; CurrentMemoryContext. */
typedef struct SxKafkaStream
{
	Oid			relid;
	char	   *name;			/* for people */
	char	   *topic;			/* NULL: rows name it */
	char	   *mark_topic;		/* where the mark is */
	char	   *format;			/* NULL: raw */
	List	   *format_options;
	char	   *key_columns;	/* NULL: none */
	int			max_bytes;		/* of a record */
} SxKafkaStream;

/* Errors if the stream cannot be written to. */
extern SxKafkaStream *sx_kafka_stream_read(Oid relid);

/*
 * Makes the producer; connects to nothing yet. Lives in CurrentMemoryContext, and
 * stream as long. user: whose user mapping; answer_ms: that brokers may take for an answer.
 */
extern SxKafkaTarget *sx_kafka_target_open(const SxKafkaStream *stream, Oid user,
										   const char *identity, int answer_ms);

/*
 * The last batch that is there, -1: none. *foreign, if not NULL: says that the
 * mark was written by a server with another history than this one's, or NULL.
 * Waits for the brokers; errors if they are away or the topic does not exist.
 */
extern int64 sx_kafka_target_mark(SxKafkaTarget *target, const char **foreign);

/* The token of the batch that the mark names, as it was read last; "" if there is none. */
extern const char *sx_kafka_target_token(SxKafkaTarget *target);

/* Fences all others of the identity, ends what they have begun. */
extern void sx_kafka_target_take(SxKafkaTarget *target);

/* Starts publishing; mark as just read. */
extern void sx_kafka_target_begin(SxKafkaTarget *target, int64 mark);

/*
 * What the topic takes of a batch of records; -1: not known, or records are compressed.
 * Asks the brokers where nothing is known, or anew; they may take two seconds.
 */
extern int	sx_kafka_target_topic_limit(SxKafkaTarget *target, const char *topic, bool anew);

/* The same of the stream's topic as it was when the mark was read; -1 too where rows name their topics. */
extern int	sx_kafka_target_known_limit(SxKafkaTarget *target);

/* An intent, or a piece of one. False: come again when the latch is set. */
extern bool sx_kafka_target_put(SxKafkaTarget *target, const char *bytes, int len);
extern bool sx_kafka_target_end(SxKafkaTarget *target, int64 batch_id, const char *token);

/* The newest batch that is there; raises the error of a failure. */
extern int64 sx_kafka_target_published(SxKafkaTarget *target);

/* After a failure: what is there really; begin may follow. Raises an error if that cannot be told yet. */
extern int64 sx_kafka_target_resume(SxKafkaTarget *target);

/* What a long transaction waits for, for people; NULL: nothing to be said. Renews an old mark. */
extern const char *sx_kafka_target_look(SxKafkaTarget *target);

/* Nothing was handed over that is not there. */
extern bool sx_kafka_target_idle(SxKafkaTarget *target);

/* Never raises an error; within a second. */
extern void sx_kafka_target_close(SxKafkaTarget *target);

#endif
