/*
 * kafka_ask.h
 *		What the broker is asked: which partitions there are, and where they begin
 *		and end.
 *
 * librdkafka's calls for this block, so they run on threads (kafka/client.h): either
 * the main thread waits for the answer and can be cancelled meanwhile, or it looks
 * now and then whether it has come.
 */
#ifndef SX_SOURCE_KAFKA_ASK_H
#define SX_SOURCE_KAFKA_ASK_H

#include <signal.h>

#include "kafka/client.h"

typedef enum SxKafkaQuestion
{
	SX_KAFKA_ASK_TOPICS,		/* which partitions these topics have; none named: all topics */
	SX_KAFKA_ASK_ENDS,			/* first and next offset of partitions */
	SX_KAFKA_ASK_TIMES			/* first offset at or after a time */
} SxKafkaQuestion;

typedef struct SxKafkaAsked
{
	char	   *topic;
	int32		partition;		/* of a topic that is not there: -1 */
	int64		time;			/* asked: milliseconds since 1970 */
	int64		low;			/* answers */
	int64		high;
	int64		offset;			/* -1: no record so late */
	rd_kafka_resp_err_t error;
} SxKafkaAsked;

/* malloc'ed: threads work on it. */
typedef struct SxKafkaAsk
{
	SxKafkaQuestion question;
	int			timeout_ms;
	int			n;
	int			size;
	SxKafkaAsked *asked;

	/* set by the thread as the last thing it does */
	volatile sig_atomic_t done;

	/* answer to TOPICS */
	int			nfound;
	SxKafkaAsked *found;
} SxKafkaAsk;

/* Thread: main, as all below. */
extern SxKafkaAsk *sx_kafka_ask_make(SxKafkaQuestion question, int timeout_ms);
extern void sx_kafka_ask_add(SxKafkaAsk *ask, const char *topic, int32 partition, int64 time);

/* Waits; interrupts are answered. If it raises an error the question is freed. */
extern void sx_kafka_ask_wait(SxKafkaClient *client, SxKafkaAsk *ask);

/* Doesn't wait: an error if no thread could be started. See kafka/handle.h for the job. */
extern struct SxKafkaJob *sx_kafka_ask_begin(SxKafkaClient *client, SxKafkaAsk *ask);

extern void sx_kafka_ask_free(void *ask);

#endif
