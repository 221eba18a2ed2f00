/*
 * avro.h
 *		What the files that read and write Avro share.
 */
#ifndef SX_FORMAT_AVRO_H
#define SX_FORMAT_AVRO_H

#include "format/avro_schema.h"
#include "format/column.h"
#include "format/schema_registry.h"

/* Confluent's wire format: a zero byte and the schema's id, big-endian, before the value. */
#define SX_AVRO_MAGIC_BYTES	5

/* One record in Avro. */
typedef struct SxAvroReader
{
	const SxTextRules *rules;
	const unsigned char *start;
	const unsigned char *at;
	const unsigned char *end;
	SxRowBuffer *out;
	SxRowCells	cells;
	int64		items;			/* of arrays and maps so far */
	const char *error;			/* constant: the bytes are no value of the schema */
	bool		no_memory;

	/* JSON of a nested value in the making; malloc'ed, kept for the next */
	char	   *json;
	size_t		json_len;
	size_t		json_size;
} SxAvroReader;

/* Reads a value of the node and leaves it. False: see error and no_memory. Thread: any, both. */
extern bool sx_avro_skip(SxAvroReader *reader, const SxAvroNode *node, int depth);

/* ... into the column. A value that does not fit leaves NULL and an error of the row. */
extern bool sx_avro_read_column(SxAvroReader *reader, const SxAvroNode *node, const SxColumn *column);

/* The branch of a union that comes, and of those within; NULL: error. */
extern const SxAvroNode *sx_avro_branch(SxAvroReader *reader, const SxAvroNode *node);

/* Writing. Thread: main. */
extern SxEncoder *sx_avro_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options);
extern bool sx_avro_encode(SxEncoder *encoder, TupleTableSlot *slot, StringInfo out);

#endif
