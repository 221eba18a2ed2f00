/*
 * topic_limit.h
 *		How much a topic takes at once.
 *
 * A topic has a limit of its own, max.message.bytes, for what a broker writes down
 * as one: a batch of records, compressed. The library knows nothing of it.
 */
#ifndef SX_KAFKA_TOPIC_LIMIT_H
#define SX_KAFKA_TOPIC_LIMIT_H

#include "kafka/client.h"

/*
 * -1: nobody says so within the time, or the user lacks the ACL DescribeConfigs.
 * Raises no error but that of an interrupt.
 */
extern int	sx_kafka_topic_limit(SxKafkaClient *client, const char *topic, int timeout_ms);

/* Are records compressed on their way? Then what they take is known too late. */
extern bool sx_kafka_compresses(const SxKafkaSettings *settings);

/*
 * Bytes of a batch that holds this record alone, not compressed. headers: bytes of
 * their names and values, and what their lengths take. Thread: any.
 */
extern int64 sx_kafka_batch_bytes(bool has_key, size_t key, bool has_value, size_t value,
								  uint32 nheaders, size_t headers);

/* Bytes of a length in Kafka's encoding (zigzag, seven bits a byte). Thread: any. */
extern int	sx_kafka_length_bytes(int64 length);

#endif
