/*
 * avro_schema.h
 *		Avro schemas, with logical types. malloc'ed; Thread: any.
 */
#ifndef SX_FORMAT_AVRO_SCHEMA_H
#define SX_FORMAT_AVRO_SCHEMA_H

#include "postgres_ext.h"

typedef enum SxAvroType
{
	SX_AVRO_NULL,
	SX_AVRO_BOOLEAN,
	SX_AVRO_INT,
	SX_AVRO_LONG,
	SX_AVRO_FLOAT,
	SX_AVRO_DOUBLE,
	SX_AVRO_BYTES,
	SX_AVRO_STRING,
	SX_AVRO_RECORD,
	SX_AVRO_ENUM,
	SX_AVRO_ARRAY,
	SX_AVRO_MAP,
	SX_AVRO_UNION,
	SX_AVRO_FIXED
} SxAvroType;

typedef enum SxAvroLogical
{
	SX_AVRO_PLAIN,
	SX_AVRO_DECIMAL,
	SX_AVRO_DATE,
	SX_AVRO_TIME_MILLIS,
	SX_AVRO_TIME_MICROS,
	SX_AVRO_TIMESTAMP_MILLIS,
	SX_AVRO_TIMESTAMP_MICROS,
	SX_AVRO_LOCAL_MILLIS,
	SX_AVRO_LOCAL_MICROS
} SxAvroLogical;

typedef struct SxAvroNode
{
	struct SxAvroNode *next;	/* of all nodes of the schema */
	SxAvroType	type;
	SxAvroLogical logical;
	int			scale;			/* decimal */
	size_t		size;			/* fixed */
	char	   *name;			/* full name: record, enum, fixed */
	int			n;				/* fields, branches, symbols; 1 for array and map */
	struct SxAvroNode **children;	/* not of an enum */
	char	  **names;			/* of fields and symbols */
} SxAvroNode;

typedef struct SxAvroSchema
{
	SxAvroNode *root;
	SxAvroNode *all;
} SxAvroSchema;

#define SX_AVRO_ERROR	200		/* bytes of an error text */

/* NULL: error says why. */
extern SxAvroSchema *sx_avro_schema_parse(const char *json, size_t len, char *error);
extern void sx_avro_schema_free(SxAvroSchema *schema);

#endif
