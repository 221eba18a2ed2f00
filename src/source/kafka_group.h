/*
 * kafka_group.h
 *		Tells committed offsets to a consumer group, for tools that show lag.
 */
#ifndef SX_SOURCE_KAFKA_GROUP_H
#define SX_SOURCE_KAFKA_GROUP_H

#include "source/kafka_reader.h"

/* A batch that ends there is committed; told to the group once that is on disk. Never fails. */
extern void sx_kafka_group_committed(SxKafkaSource *source, const SxKafkaOffset *end,
									 XLogRecPtr commit);

/* What is due is told; waits for no answer. Called now and then. */
extern void sx_kafka_group_tell(SxKafkaSource *source);

extern void sx_kafka_group_close(SxKafkaSource *source);

#endif
