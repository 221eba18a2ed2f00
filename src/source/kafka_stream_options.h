/*
 * kafka_stream_options.h
 *		What a stream of wrapper streamx_kafka says about reading: topics, where
 *		to begin, how much at once.
 */
#ifndef SX_SOURCE_KAFKA_STREAM_OPTIONS_H
#define SX_SOURCE_KAFKA_STREAM_OPTIONS_H

#include "nodes/pg_list.h"

#include "source/kafka_offset.h"

typedef enum SxKafkaTopics
{
	SX_KAFKA_SUBSCRIBE,			/* all partitions of these topics */
	SX_KAFKA_PATTERN,			/* of the topics whose whole name matches */
	SX_KAFKA_ASSIGN				/* these partitions and no others */
} SxKafkaTopics;

typedef enum SxKafkaBoundKind
{
	SX_KAFKA_AT_EARLIEST,
	SX_KAFKA_AT_LATEST,
	SX_KAFKA_AT_OFFSETS,		/* by partition; may be -1, -2 */
	SX_KAFKA_AT_TIME,			/* the same for all */
	SX_KAFKA_AT_TIMES			/* by partition */
} SxKafkaBoundKind;

typedef struct SxKafkaBound
{
	bool		given;
	SxKafkaBoundKind kind;
	SxKafkaPositions positions; /* offsets, or milliseconds since 1970 */
	int64		time;			/* milliseconds since 1970 */
} SxKafkaBound;

typedef struct SxKafkaStreamOptions
{
	SxKafkaTopics topics;
	List	   *names;			/* of char *: subscribe */
	char	   *pattern;
	SxKafkaPositions assigned;

	SxKafkaBound starting;
	SxKafkaBound ending;		/* batch reads */
	bool		late_time_is_end;	/* starting_offsets_by_timestamp_strategy latest */
	bool		fail_on_data_loss;
	bool		read_committed; /* kafka.isolation.level */

	int64		max_offsets;	/* per trigger; 0: none */
	int64		min_offsets;
	int64		max_trigger_delay;	/* microseconds */

	size_t		prefetch;		/* bytes of decoded rows: of a batch, and of the one prefetched */
	int64		discovery_interval; /* microseconds between looks for new partitions */
	char	   *commit_group;	/* group that is told the offsets, NULL: none */
} SxKafkaStreamOptions;

/*
 * From the DefElems of the foreign table; skips what isn't about reading. Raises
 * errors that name the legal values, and where two options contradict each other.
 */
extern void sx_kafka_stream_options_parse(List *options, SxKafkaStreamOptions *result);

/* Is this one of them? The names for a hint, separated by commas. */
extern bool sx_kafka_stream_option_known(const char *name);
extern const char *sx_kafka_stream_option_names(void);

#endif
