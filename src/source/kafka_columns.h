/*
 * kafka_columns.h
 *		Which column of a Kafka stream is what of a record.
 *
 * Columns with option "metadata", and those of format raw by their names, are taken
 * from the record; the others are decoded from its value by the stream's format.
 */
#ifndef SX_SOURCE_KAFKA_COLUMNS_H
#define SX_SOURCE_KAFKA_COLUMNS_H

#include "utils/relcache.h"

#include "format/format.h"
#include "source/kafka_fetch.h"

typedef enum SxKafkaColumn
{
	SX_KAFKA_FROM_VALUE,		/* by the format */
	SX_KAFKA_KEY,
	SX_KAFKA_VALUE,
	SX_KAFKA_TOPIC,
	SX_KAFKA_PARTITION,
	SX_KAFKA_OFFSET,
	SX_KAFKA_TIMESTAMP,
	SX_KAFKA_TIMESTAMP_TYPE,
	SX_KAFKA_HEADERS,
	SX_KAFKA_DROPPED			/* the column is */
} SxKafkaColumn;

typedef struct SxKafkaColumns
{
	TupleDesc	desc;			/* a copy */
	SxKafkaColumn *kinds;		/* by column */
	bool	   *from_value;		/* by column, for the format */
	const char **fields;		/* by column: its name in the value, NULL: the column's own */
	bool		decodes;		/* there is one */
	bool		has_metadata;	/* there is another kind */
	const SxFormatRoutine *routine;
	SxFormatOptions *format;
	AttrNumber	corrupt;		/* corrupt-record column, 0: none */
	SxKafkaKeep keep;
} SxKafkaColumns;

/*
 * By the columns of the stream and these options of its format; raises errors about
 * columns that don't fit.
 */
extern void sx_kafka_columns_make(Relation rel, List *format_options, SxKafkaColumns *columns);

/* The word of column option metadata; false: unknown. */
extern bool sx_kafka_column_parse(const char *word, SxKafkaColumn *result);

/*
 * Columns of the record up to last_needed. By-reference ones are in the chunk or
 * in CurrentMemoryContext. Returns NULL, or what is wrong with it (broken text).
 */
extern const char *sx_kafka_columns_fill(const SxKafkaColumns *columns, const SxKafkaPart *part,
										 const SxKafkaRecord *record, AttrNumber last_needed,
										 TupleTableSlot *slot);

#endif
