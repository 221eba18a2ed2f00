/*
 * avro_encode.c
 *		Rows into records of Avro. Thread: main.
 *
 * The schema is option avro_schema, or made of the columns: each a union of null
 * and its type. With a registry the schema is registered under schema_registry_subject
 * and values begin with its id. Types that Avro doesn't have are written as
 * their text; nested ones can only go into fields of strings, as JSON.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "port/pg_bswap.h"
#include "utils/builtins.h"
#include "utils/date.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "base/threads.h"
#include "format/avro.h"

#define EPOCH_DAYS	(POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE)

typedef struct AvroColumn
{
	int			index;			/* -1: the schema's field has no column */
	Oid			type;
	const SxAvroNode *node;		/* of the value */
	int			null_branch;	/* of its union, -1: none */
	int			value_branch;	/* -1: no union */
	const char *name;
	FmgrInfo	output;
} AvroColumn;

typedef struct AvroEncoder
{
	SxEncoder	base;
	SxAvroSchema *schema;		/* malloc'ed */
	MemoryContextCallback callback;
	bool		framed;
	int32		id;
	int			ncolumns;
	AvroColumn *columns;
} AvroEncoder;

/* ---- the schema ---- */

static const char *
avro_type(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return "\"boolean\"";
		case INT2OID:
		case INT4OID:
			return "\"int\"";
		case INT8OID:
			return "\"long\"";
		case FLOAT4OID:
			return "\"float\"";
		case FLOAT8OID:
			return "\"double\"";
		case BYTEAOID:
			return "\"bytes\"";
		case DATEOID:
			return "{\"type\":\"int\",\"logicalType\":\"date\"}";
		case TIMESTAMPTZOID:
			return "{\"type\":\"long\",\"logicalType\":\"timestamp-micros\"}";
		case TIMESTAMPOID:
			return "{\"type\":\"long\",\"logicalType\":\"local-timestamp-micros\"}";
		default:
			return "\"string\"";
	}
}

/* A letter or underscore, then those and digits. */
static bool
is_avro_name(const char *name)
{
	for (const char *at = name; *at != '\0'; at++)
		if (*at != '_' && !(*at >= 'a' && *at <= 'z') && !(*at >= 'A' && *at <= 'Z') &&
			!(at > name && *at >= '0' && *at <= '9'))
			return false;
	return name[0] != '\0';
}

static const char *
field_name(const SxFormatTarget *target, int i)
{
	if (target->fields != NULL && target->fields[i] != NULL)
		return target->fields[i];
	return NameStr(TupleDescAttr(target->desc, i)->attname);
}

static bool
is_written(const SxFormatTarget *target, int i)
{
	return !TupleDescAttr(target->desc, i)->attisdropped &&
		(target->from_value == NULL || target->from_value[i]);
}

static char *
schema_of_columns(const SxFormatTarget *target)
{
	StringInfoData json;
	bool		first = true;

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"type\":\"record\",\"name\":\"row\",\"fields\":[");
	for (int i = 0; i < target->desc->natts; i++)
	{
		if (!is_written(target, i))
			continue;
		if (!is_avro_name(field_name(target, i)))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_NAME),
					 errmsg("column \"%s\" cannot be a field of Avro", field_name(target, i)),
					 errdetail("Names in Avro are made of letters, digits and underscores."),
					 errhint("Rename the column, or give it a column option \"field\".")));
		appendStringInfo(&json, "%s{\"name\":\"%s\",\"type\":[\"null\",%s]}", first ? "" : ",",
						 field_name(target, i), avro_type(TupleDescAttr(target->desc, i)->atttypid));
		first = false;
	}
	appendStringInfoString(&json, "]}");
	return json.data;
}

static void
release_schema(void *arg)
{
	sx_avro_schema_free(((AvroEncoder *) arg)->schema);
}

static void
open_schema(AvroEncoder *encoder, const char *json)
{
	char		error[SX_REGISTRY_ERROR];

	encoder->callback.func = release_schema;
	encoder->callback.arg = encoder;
	encoder->schema = sx_avro_schema_parse(json, strlen(json), error);
	if (encoder->schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid Avro schema: %s", error)));
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &encoder->callback);
	if (encoder->schema->root->type != SX_AVRO_RECORD)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("the Avro schema of rows is not a record")));
}

static void
register_schema(AvroEncoder *encoder, const SxFormatOptions *options, const char *json)
{
	SxSchemaRegistry *registry;
	char		error[SX_REGISTRY_ERROR] = "";
	SxRegistryResult result;

	if (options->registry_subject == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"schema_registry_subject\" is missing"),
				 errdetail("The schema of what is written is registered under a subject."),
				 errhint("It is usually the topic's name with \"-value\" behind.")));
	registry = sx_registry_open(options);
	sx_threads_begin();
	result = sx_registry_register(registry, options->registry_subject, json, &encoder->id, error);
	sx_threads_end();
	sx_registry_close(registry);
	if (result == SX_REGISTRY_NO_MEMORY)
		sx_format_out_of_memory();
	if (result != SX_REGISTRY_OK)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("cannot register the Avro schema"),
				 errdetail("%s", error),
				 errhint("Check \"schema_registry_url\" of the stream, and user and password in the user mapping.")));
	encoder->framed = true;
}

static void
open_column(AvroColumn *column, const SxFormatTarget *target, const SxAvroNode *node, const char *name)
{
	column->index = -1;
	column->name = name;
	column->null_branch = column->value_branch = -1;
	column->node = node;
	for (int i = 0; node->type == SX_AVRO_UNION && i < node->n; i++)
	{
		if (node->children[i]->type == SX_AVRO_NULL)
			column->null_branch = i;
		else if (column->value_branch < 0)
		{
			column->value_branch = i;
			column->node = node->children[i];
		}
	}
	if (node->type == SX_AVRO_NULL)
		column->null_branch = -2;	/* no union, and nothing to write */
	for (int i = 0; i < target->desc->natts; i++)
	{
		Oid			output;
		bool		is_varlena;

		if (!is_written(target, i) || strcmp(field_name(target, i), name) != 0)
			continue;
		column->index = i;
		column->type = TupleDescAttr(target->desc, i)->atttypid;
		getTypeOutputInfo(column->type, &output, &is_varlena);
		fmgr_info(output, &column->output);
	}
	if (column->index < 0 && column->null_branch == -1)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("field \"%s\" of the Avro schema has no column", name),
				 errdetail("It cannot be null.")));
}

SxEncoder *
sx_avro_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	AvroEncoder *encoder = palloc0(sizeof(AvroEncoder));
	const char *json = options->avro_schema != NULL ? options->avro_schema : schema_of_columns(target);
	const SxAvroNode *root;

	sx_format_check_encoding();
	encoder->base.routine = &sx_avro_format;
	open_schema(encoder, json);
	root = encoder->schema->root;
	encoder->ncolumns = root->n;
	encoder->columns = palloc0(sizeof(AvroColumn) * Max(root->n, 1));
	for (int i = 0; i < root->n; i++)
		open_column(&encoder->columns[i], target, root->children[i], root->names[i]);
	if (options->registry_url != NULL)
		register_schema(encoder, options, json);
	return &encoder->base;
}

/* ---- values ---- */

static void
write_long(StringInfo out, int64 value)
{
	uint64		bits = ((uint64) value << 1) ^ (uint64) (value >> 63);

	while (bits >= 0x80)
	{
		appendStringInfoCharMacro(out, (char) (bits | 0x80));
		bits >>= 7;
	}
	appendStringInfoCharMacro(out, (char) bits);
}

static void
write_block(StringInfo out, const char *bytes, int len)
{
	write_long(out, len);
	appendBinaryStringInfo(out, bytes, len);
}

static void
write_real(StringInfo out, double value, bool is_double)
{
	unsigned char bytes[8];
	int			n = is_double ? 8 : 4;
	uint64		bits = 0;
	float		single = (float) value;

	if (is_double)
		memcpy(&bits, &value, 8);
	else
		memcpy(&bits, &single, 4);
#ifdef WORDS_BIGENDIAN
	if (!is_double)
		bits >>= 32;
#endif
	for (int i = 0; i < n; i++)
		bytes[i] = bits >> (8 * i);
	appendBinaryStringInfo(out, (char *) bytes, n);
}

static void
misfit(const AvroColumn *column)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("column \"%s\" of type %s does not fit its field in the Avro schema", column->name,
					format_type_be(column->type)),
			 errhint("Cast the column, or let its field be a string.")));
}

static double
real_of(const AvroColumn *column, Datum value)
{
	switch (column->type)
	{
		case FLOAT4OID:
			return DatumGetFloat4(value);
		case FLOAT8OID:
			return DatumGetFloat8(value);
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		case INT8OID:
			return (double) DatumGetInt64(value);
		case NUMERICOID:
			return DatumGetFloat8(DirectFunctionCall1(numeric_float8, value));
		default:
			misfit(column);
			return 0;
	}
}

static int64
micros_of(Datum value)
{
	Timestamp	timestamp = DatumGetTimestamp(value);

	if (TIMESTAMP_NOT_FINITE(timestamp))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("an infinite timestamp cannot be written to Avro")));
	return timestamp + EPOCH_DAYS * USECS_PER_DAY;
}

static int64
whole_of(const AvroColumn *column, Datum value)
{
	SxAvroLogical logical = column->node->logical;
	bool		millis = logical == SX_AVRO_TIMESTAMP_MILLIS || logical == SX_AVRO_LOCAL_MILLIS;
	int64		micros;

	switch (column->type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		case INT8OID:
			return DatumGetInt64(value);
		case DATEOID:
			if (DATE_NOT_FINITE(DatumGetDateADT(value)))
				misfit(column);
			return (int64) DatumGetDateADT(value) + EPOCH_DAYS;
		case TIMEOID:
			return logical == SX_AVRO_TIME_MILLIS ? DatumGetTimeADT(value) / 1000 : DatumGetTimeADT(value);
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			micros = micros_of(value);
			if (!millis)
				return micros;
			return micros / 1000 - (micros % 1000 < 0);
		default:
			misfit(column);
			return 0;
	}
}

static void
write_symbol(const AvroColumn *column, const char *text, StringInfo out)
{
	for (int i = 0; i < column->node->n; i++)
	{
		if (strcmp(column->node->names[i], text) != 0)
			continue;
		write_long(out, i);
		return;
	}
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("value \"%s\" of column \"%s\" is no symbol of its enum in the Avro schema", text,
					column->name)));
}

static void
write_value(AvroColumn *column, Datum value, StringInfo out)
{
	bytea	   *bytes;
	char	   *text;
	int64		whole;

	switch (column->node->type)
	{
		case SX_AVRO_BOOLEAN:
			if (column->type != BOOLOID)
				misfit(column);
			appendStringInfoCharMacro(out, DatumGetBool(value) ? 1 : 0);
			return;
		case SX_AVRO_INT:
			whole = whole_of(column, value);
			if (whole != (int32) whole)
				ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						 errmsg("value of column \"%s\" is out of range for type int of Avro",
								column->name)));
			write_long(out, whole);
			return;
		case SX_AVRO_LONG:
			write_long(out, whole_of(column, value));
			return;
		case SX_AVRO_FLOAT:
		case SX_AVRO_DOUBLE:
			write_real(out, real_of(column, value), column->node->type == SX_AVRO_DOUBLE);
			return;
		case SX_AVRO_BYTES:
		case SX_AVRO_FIXED:
			if (column->type != BYTEAOID)
				misfit(column);
			bytes = DatumGetByteaPP(value);
			if (column->node->type == SX_AVRO_BYTES)
				write_block(out, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			else if (VARSIZE_ANY_EXHDR(bytes) == column->node->size)
				appendBinaryStringInfo(out, VARDATA_ANY(bytes), column->node->size);
			else
				ereport(ERROR,
						(errcode(ERRCODE_STRING_DATA_LENGTH_MISMATCH),
						 errmsg("column \"%s\" has %d bytes instead of %zu", column->name,
								(int) VARSIZE_ANY_EXHDR(bytes), column->node->size)));
			return;
		case SX_AVRO_STRING:
			text = OutputFunctionCall(&column->output, value);
			write_block(out, text, strlen(text));
			return;
		case SX_AVRO_ENUM:
			write_symbol(column, OutputFunctionCall(&column->output, value), out);
			return;
		default:
			misfit(column);
	}
}

bool
sx_avro_encode(SxEncoder *base, TupleTableSlot *slot, StringInfo out)
{
	AvroEncoder *encoder = (AvroEncoder *) base;

	slot_getallattrs(slot);
	if (encoder->framed)
	{
		uint32		id = pg_hton32((uint32) encoder->id);

		appendStringInfoCharMacro(out, 0);
		appendBinaryStringInfo(out, (char *) &id, sizeof(id));
	}
	for (int i = 0; i < encoder->ncolumns; i++)
	{
		AvroColumn *column = &encoder->columns[i];

		if (column->index >= 0 && !slot->tts_isnull[column->index] && column->null_branch != -2)
		{
			if (column->value_branch >= 0)
				write_long(out, column->value_branch);
			write_value(column, slot->tts_values[column->index], out);
		}
		else if (column->null_branch >= 0)
			write_long(out, column->null_branch);
		else if (column->null_branch == -1)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("column \"%s\" is NULL, which its field in the Avro schema cannot be",
							column->name)));
	}
	return true;
}
