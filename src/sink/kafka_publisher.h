/*
 * kafka_publisher.h
 *		A thread that carries intents into Kafka, a transaction at a time.
 *
 * The calls of librdkafka's transactions block, and publishing must not hold up
 * the next batch. So the main thread hands over the bytes of intents in pieces
 * and goes on; this thread produces their records, adds the mark and commits.
 * What is handed over while a transaction runs goes out together in the next
 * one, in order, each intent whole.
 *
 * After a failure nothing more is published until reset(): the caller reads the
 * mark first, because a commit whose answer was lost may have happened.
 *
 * When something happened it wakes the process (base/wake.h). All functions: main
 * thread. The publisher's own uses malloc'ed memory only.
 */
#ifndef SX_SINK_KAFKA_PUBLISHER_H
#define SX_SINK_KAFKA_PUBLISHER_H

#include "kafka/client.h"

typedef struct SxKafkaPublisher SxKafkaPublisher;

typedef struct SxKafkaPublisherConfig
{
	SxKafkaClient *client;		/* a producer whose transactions are initialised */
	const char *group;			/* of the mark; copied */
	const char *mark_topic;		/* the mark is an offset of its partition 0; copied */
	long long	published;		/* the mark as it is */
} SxKafkaPublisherConfig;

typedef struct SxKafkaFailure
{
	rd_kafka_resp_err_t code;
	int			fenced;			/* another producer has the transactional.id */
	int			fatal;			/* this producer handle is of no more use */
	char		message[512];
} SxKafkaFailure;

/* NULL: no memory or no thread. */
extern SxKafkaPublisher *sx_kafka_publisher_start(const SxKafkaPublisherConfig *config);

/*
 * A piece of the intent of one batch; its records are whole. False: enough waits
 * already, or a failure; woken when it is worth another try. An intent has one piece at least, which may
 * be empty; end() follows the last one and carries the metadata of the mark.
 */
extern int	sx_kafka_publisher_put(SxKafkaPublisher *self, const char *bytes, size_t len);
extern int	sx_kafka_publisher_end(SxKafkaPublisher *self, long long batch_id, const char *metadata);

/* The newest batch that is in Kafka; -1: none yet. */
extern long long sx_kafka_publisher_published(SxKafkaPublisher *self);

/* True after a failure; then nothing is published any more. */
extern int	sx_kafka_publisher_failed(SxKafkaPublisher *self, SxKafkaFailure *failure);

/* Forgets a failure and what was handed over. False: its transaction is not aborted yet. */
extern int	sx_kafka_publisher_reset(SxKafkaPublisher *self);

/* After a reset: what the mark says. */
extern void sx_kafka_publisher_set_published(SxKafkaPublisher *self, long long batch_id);

/* Milliseconds that the running transaction takes; 0: none runs. */
extern long long sx_kafka_publisher_busy(SxKafkaPublisher *self);

/*
 * Ends the thread, or leaves it behind, within half a second whatever the brokers
 * do; an open transaction is left to init_transactions or its timeout. The client
 * may be closed then. The publisher is gone.
 */
extern void sx_kafka_publisher_stop(SxKafkaPublisher *self);

#endif
