/*
 * kafka_quarantine.h
 *		Records of a Kafka stream on their way into the quarantine, and back.
 */
#ifndef SX_SOURCE_KAFKA_QUARANTINE_H
#define SX_SOURCE_KAFKA_QUARANTINE_H

#include "source/kafka_reader.h"

/* JSON of where the record is; in CurrentMemoryContext. */
extern char *sx_kafka_record_position(const SxKafkaSource *source, const SxKafkaPart *part,
									  const SxKafkaRecord *record);

/* The routine's reread. */
extern const char *sx_kafka_reread(SxSource *source, const SxMalformed *record,
								   SxRowReceiver receive, void *arg);

#endif
