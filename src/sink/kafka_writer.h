/*
 * kafka_writer.h
 *		INSERT and COPY into a stream of Kafka, as far as the commit.
 *
 * Rows become records at once, with what Kafka would refuse refused, and wait in
 * streamx.kafka_outbox, in the transaction that inserts them. The publisher
 * (worker/publisher.c) carries out what is committed.
 */
#ifndef SX_SINK_KAFKA_WRITER_H
#define SX_SINK_KAFKA_WRITER_H

#include "nodes/execnodes.h"

/* The callbacks of SxKafkaWriter (source/kafka.h). */
extern void sx_kafka_writer_begin(ResultRelInfo *rel);
extern TupleTableSlot *sx_kafka_writer_insert(EState *estate, ResultRelInfo *rel, TupleTableSlot *slot);
extern void sx_kafka_writer_end(EState *estate, ResultRelInfo *rel);

#endif
