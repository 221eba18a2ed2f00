/*
 * kafka_bounds.h
 *		Where a query begins, and what a plain SELECT reads: the options that name
 *		offsets and times.
 */
#ifndef SX_SOURCE_KAFKA_BOUNDS_H
#define SX_SOURCE_KAFKA_BOUNDS_H

#include "source/kafka_reader.h"

typedef struct SxKafkaRange
{
	int64		begin;
	int64		end;
} SxKafkaRange;

/* By the starting options; latest: the query wants the end, whatever they say. */
extern SxOffset *sx_kafka_initial(SxSource *source, bool latest, const SxChoose *choose);

/* Of a plain SELECT, by part: from the starting options (the beginning) to the ending ones (the end now). */
extern SxKafkaRange *sx_kafka_batch_ranges(SxKafkaSource *source);

/* Moves begins up to the first record at or after this time (ms); to the end if there is none. */
extern void sx_kafka_begin_at_time(SxKafkaSource *source, int64 ms, SxKafkaRange *ranges);

#endif
