/*
 * kafka_decode.h
 *		Which columns of a Kafka stream are decoded, and its records as slots.
 */
#ifndef SX_SOURCE_KAFKA_DECODE_H
#define SX_SOURCE_KAFKA_DECODE_H

#include "source/kafka_reader.h"

/* Of the columns that come from the value those that a scan wants; never NULL. */
extern Bitmapset *sx_kafka_columns_needed(SxKafkaSource *source, const SxScan *scan);

/* From now on these are decoded, besides what was needed before. */
extern void sx_kafka_need_columns(SxKafkaSource *source, const Bitmapset *columns);

/* The rows of a chunk, with these columns at least; decoded here if they are not. */
extern SxRowBuffer *sx_kafka_decoded_rows(SxKafkaSource *source, SxKafkaChunk *chunk,
										  const Bitmapset *columns);

extern SxFiller *sx_kafka_make_filler(SxKafkaSource *source);

/*
 * Row n of rows, or if nothing is decoded record n of the chunk, as a stored slot.
 * False: it is malformed and no row of the stream.
 */
extern bool sx_kafka_fill_slot(SxKafkaSource *source, SxFiller *filler, const SxKafkaPart *part,
							   const SxKafkaChunk *chunk, SxRowBuffer *rows, int64 n,
							   AttrNumber last_needed, TupleTableSlot *slot);

#endif
