/*
 * kafka_rows.h
 *		Rows as records for Kafka: what is key, value, headers, topic, partition.
 *
 * A stream of format raw takes Spark's columns by their names. Without a column
 * "value", and in any other format, the value is the row in the stream's format,
 * and the key comes from named key columns, or from a column of the stream with
 * the option metadata 'key'.
 */
#ifndef SX_SINK_KAFKA_ROWS_H
#define SX_SINK_KAFKA_ROWS_H

#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

typedef struct SxKafkaRows SxKafkaRows;

typedef struct SxKafkaRowsConfig
{
	Relation	stream;
	TupleDesc	desc;			/* of the rows: the stream's own, or a query's result */
	bool		is_result;		/* columns are matched by name */
	const char *topic;			/* of the stream; NULL: each row names its own */
	const char *format;			/* of the stream; NULL: raw */
	List	   *format_options;	/* of the stream */
	const char *key_columns;	/* comma-separated; NULL: none */
	int			max_bytes;		/* of a record */

	/*
	 * Optional. What the topic takes of a batch of records, -1: not known. anew: it
	 * would be the reason to refuse a record, so what is known is asked for again.
	 */
	int			(*topic_limit) (void *arg, const char *topic, bool anew);
	void	   *topic_limit_arg;
} SxKafkaRowsConfig;

/* Checks; errors with hints. In CurrentMemoryContext; desc is copied. */
extern SxKafkaRows *sx_kafka_rows_open(const SxKafkaRowsConfig *config);

/* Appends the row's record; an error if Kafka could not take it. */
extern void sx_kafka_rows_put(SxKafkaRows *rows, TupleTableSlot *slot, StringInfo intent);

/*
 * Are the named key columns these ones of desc, in any order? Then a tombstone
 * can be sent for a key: the slot has the columns in the order of keys.
 */
extern bool sx_kafka_rows_has_key(SxKafkaRows *rows, int nkeys, const AttrNumber *keys);
extern void sx_kafka_rows_put_tombstone(SxKafkaRows *rows, TupleTableSlot *slot,
										int nkeys, const AttrNumber *keys, StringInfo intent);

/* A new intent begins: its first record names its topic. Rows are counted from here, for people. */
extern void sx_kafka_rows_begin(SxKafkaRows *rows);

/* A new part of it, whose first record names its topic, too. */
extern void sx_kafka_rows_next_part(SxKafkaRows *rows);

#endif
