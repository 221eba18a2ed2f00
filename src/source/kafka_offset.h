/*
 * kafka_offset.h
 *		Positions in the partitions of topics: {"topic":{"0":100,"1":57}}.
 *
 * A number is the next offset to be read, so an end is exclusive. The same JSON
 * with -2 (the beginning) and -1 (the end) stands in options of streams.
 */
#ifndef SX_SOURCE_KAFKA_OFFSET_H
#define SX_SOURCE_KAFKA_OFFSET_H

#include "source/source.h"

#define SX_KAFKA_LATEST		(-1)
#define SX_KAFKA_EARLIEST	(-2)
#define SX_KAFKA_NO_OFFSET	(-3)	/* the partition isn't in it */

typedef struct SxKafkaPosition
{
	const char *topic;
	int32		partition;
	int64		offset;
} SxKafkaPosition;

/* By topic (bytes) and partition, each once. */
typedef struct SxKafkaPositions
{
	int			n;
	SxKafkaPosition *at;
} SxKafkaPositions;

typedef struct SxKafkaOffset
{
	SxOffset	base;
	SxKafkaPositions positions;
} SxKafkaOffset;

/* Room for n positions, none in it yet. */
extern SxKafkaOffset *sx_kafka_offset_make(const SxSourceRoutine *routine, int n);

/* Copies the topic's name. Keep them sorted: append in order, or sort afterwards. */
extern void sx_kafka_positions_append(SxKafkaPositions *positions, const char *topic,
									  int32 partition, int64 offset);
extern void sx_kafka_positions_sort(SxKafkaPositions *positions);
extern const SxKafkaPosition *sx_kafka_positions_find(const SxKafkaPositions *positions,
													  const char *topic, int32 partition);

/* SX_KAFKA_NO_OFFSET if the partition isn't in it. */
extern int64 sx_kafka_offset_at(const SxKafkaOffset *offset, const char *topic, int32 partition);

extern char *sx_kafka_positions_print(const SxKafkaPositions *positions);

/*
 * {"topic":{"partition":number}}, numbers at least `least`; with lists, as option
 * assign has them ({"topic":[0,1]}), offsets are 0. Returns what is wrong, or NULL.
 * In CurrentMemoryContext.
 */
extern const char *sx_kafka_positions_parse(const char *text, bool lists, int64 least,
											SxKafkaPositions *result);

#endif
