/*
 * kafka_writer_limit.h
 *		What a topic takes at once, for statements that insert into its stream.
 */
#ifndef SX_SINK_KAFKA_WRITER_LIMIT_H
#define SX_SINK_KAFKA_WRITER_LIMIT_H

#include "utils/relcache.h"

/* For one statement; CurrentMemoryContext. */
extern void *sx_kafka_writer_limit_open(Relation stream);

/* SxKafkaRowsConfig.topic_limit, with what open returned. */
extern int	sx_kafka_writer_limit(void *arg, const char *topic, bool anew);

#endif
