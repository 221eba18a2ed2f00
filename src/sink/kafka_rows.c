/*
 * kafka_rows.c
 *		A row becomes a record; what Kafka would refuse is refused here.
 *
 * Everything is checked while the rows' transaction can still be rolled back:
 * after its commit a record that cannot be sent would block all behind it.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "mb/pg_wchar.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "format/format.h"
#include "kafka/settings.h"
#include "kafka/topic_limit.h"
#include "sink/kafka_intent.h"
#include "sink/kafka_rows.h"

/* What a record needs beside key and value, by the library's own reckoning. */
#define RECORD_OVERHEAD	70
#define MAX_TOPIC		249
#define MAX_KEY_SHOWN	60		/* bytes, in an error */

typedef enum Part
{
	PART_KEY, PART_VALUE, PART_HEADERS, PART_TOPIC, PART_PARTITION, NPARTS
} Part;

static const char *const part_names[] = {"key", "value", "headers", "topic", "partition"};

struct SxKafkaRows
{
	MemoryContext row_context;	/* reset for every row */
	char	   *stream;			/* its name, for people */
	TupleDesc	desc;
	char	   *topic;			/* of all rows, or NULL */
	int			max_bytes;
	AttrNumber	part[NPARTS];	/* column that is it, 0: none */

	/* the row in a format */
	bool	   *from_value;		/* by column: it is in the value */
	const char **fields;		/* by column: its name there, NULL: its own */
	SxEncoder  *encoder;		/* NULL: the value is a column */
	StringInfoData value;

	/* the key of named columns */
	int			nkeys;
	AttrNumber *keys;
	TupleDesc	key_desc;		/* of several: a JSON object */
	FmgrInfo   *key_out;		/* of one: its text */

	char	   *last_topic;		/* that the intent names last, with a zero behind it; NULL: none yet */
	int			last_topic_size;
	int			topic_limit;	/* its own; -1: not known */
	int			(*ask_topic_limit) (void *arg, const char *topic, bool anew);
	void	   *ask_arg;
	int64		number;			/* of the row */
};

/* ---- bytes ---- */

static void
put_bytes(StringInfo out, const char *data, int len)
{
	uint32		n = len;

	appendBinaryStringInfo(out, (char *) &n, sizeof(n));
	appendBinaryStringInfo(out, data, len);
}

static void
put_null(StringInfo out)
{
	uint32		n = SX_KAFKA_NULL;

	appendBinaryStringInfo(out, (char *) &n, sizeof(n));
}

/* Text goes out as UTF-8, whatever the database is in. */
static char *
utf8(const char *text, int *len)
{
	char	   *converted = pg_server_to_any(text, *len, PG_UTF8);

	if (converted != text)
		*len = strlen(converted);
	return converted;
}

/* A column of type bytea, or one that is text. */
static const char *
bytes_of(Datum value, Oid type, int *len)
{
	struct varlena *data;

	if (type == JSONBOID)
	{
		char	   *text = JsonbToCString(NULL, &DatumGetJsonbP(value)->root, -1);

		*len = strlen(text);
		return utf8(text, len);
	}
	data = PG_DETOAST_DATUM_PACKED(value);
	*len = VARSIZE_ANY_EXHDR(data);
	return type == BYTEAOID ? VARDATA_ANY(data) : utf8(VARDATA_ANY(data), len);
}

/* ---- checks ---- */

static Oid
base_type(TupleDesc desc, AttrNumber attnum)
{
	return getBaseType(TupleDescAttr(desc, attnum - 1)->atttypid);
}

static bool
is_bytes(Oid type)
{
	return type == BYTEAOID || type == TEXTOID || type == VARCHAROID || type == BPCHAROID ||
		type == JSONOID || type == JSONBOID;
}

/* An array of (name text, value bytea), or jsonb as the source gives it. */
static bool
is_headers(Oid type)
{
	Oid			element = get_element_type(type);
	TupleDesc	desc;
	bool		ok;

	if (type == JSONBOID)
		return true;
	if (!OidIsValid(element) || get_typtype(element) != TYPTYPE_COMPOSITE)
		return false;
	desc = lookup_rowtype_tupdesc(element, -1);
	ok = desc->natts == 2 && base_type(desc, 1) == TEXTOID &&
		(base_type(desc, 2) == BYTEAOID || base_type(desc, 2) == TEXTOID);
	ReleaseTupleDesc(desc);
	return ok;
}

static void
check_part(const SxKafkaRows *rows, Part part)
{
	static const char *const wanted[] = {
		"bytea, text, json or jsonb", "bytea, text, json or jsonb",
		"jsonb, or an array of a composite type (key text, value bytea)", "text", "integer"
	};
	Oid			type;
	bool		ok = true;

	if (rows->part[part] == 0)
		return;
	type = base_type(rows->desc, rows->part[part]);
	switch (part)
	{
		case PART_KEY:
		case PART_VALUE:
			ok = is_bytes(type);
			break;
		case PART_HEADERS:
			ok = is_headers(type);
			break;
		case PART_TOPIC:
			ok = type == TEXTOID || type == VARCHAROID;
			break;
		case PART_PARTITION:
			ok = type == INT4OID || type == INT2OID || type == INT8OID;
			break;
		case NPARTS:
			break;
	}
	if (!ok)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of type %s cannot be the %s of a Kafka record",
						NameStr(TupleDescAttr(rows->desc, rows->part[part] - 1)->attname),
						format_type_be(TupleDescAttr(rows->desc, rows->part[part] - 1)->atttypid),
						part_names[part]),
				 errhint("It must be %s: cast it in the query.", wanted[part])));
}

static AttrNumber
column_named(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return i + 1;
	}
	return InvalidAttrNumber;
}

/* ---- what is what ---- */

/* An option of a column of the stream, or NULL. */
static const char *
column_option(Relation stream, AttrNumber attnum, const char *name)
{
	ListCell   *lc;

	foreach(lc, GetForeignColumnOptions(RelationGetRelid(stream), attnum))
	{
		DefElem    *option = lfirst(lc);

		if (sx_kafka_name_is(option->defname, name))
			return defGetString(option);
	}
	return NULL;
}

/* As in Spark: by name. */
static void
find_raw_parts(SxKafkaRows *rows)
{
	for (int part = 0; part < NPARTS; part++)
		rows->part[part] = column_named(rows->desc, part_names[part]);
}

/* The result's column must be one of the stream, of its type: no value is changed on the way. */
static AttrNumber
matching_column(const SxKafkaRowsConfig *config, Form_pg_attribute att)
{
	TupleDesc	desc = RelationGetDescr(config->stream);
	AttrNumber	attnum = column_named(desc, NameStr(att->attname));

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("stream \"%s\" has no column \"%s\"",
						RelationGetRelationName(config->stream), NameStr(att->attname)),
				 errhint("Columns of the query go into the stream's columns of their names: give it another name, or leave it out.")));
	if (TupleDescAttr(desc, attnum - 1)->atttypid != att->atttypid)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of the query is of type %s, that of stream \"%s\" is of type %s",
						NameStr(att->attname), format_type_be(att->atttypid),
						RelationGetRelationName(config->stream),
						format_type_be(TupleDescAttr(desc, attnum - 1)->atttypid)),
				 errhint("Cast it in the query.")));
	return attnum;
}

/* Any other format: columns with the option metadata are parts of the record, all others are in the value. */
static void
find_parts(SxKafkaRows *rows, const SxKafkaRowsConfig *config)
{
	for (int i = 0; i < rows->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(rows->desc, i);
		AttrNumber	column;
		const char *metadata;
		bool		found = false;

		if (att->attisdropped)
			continue;
		column = config->is_result ? matching_column(config, att) : i + 1;
		metadata = column_option(config->stream, column, "metadata");
		rows->fields[i] = column_option(config->stream, column, "field");
		for (int part = 0; metadata != NULL && part < NPARTS; part++)
			if (pg_strcasecmp(metadata, part_names[part]) == 0)
			{
				rows->part[part] = i + 1;
				found = true;
			}
		/* offset, timestamp and timestamp_type are Kafka's to give. */
		rows->from_value[i] = metadata == NULL && !found;
	}
}

/* A raw stream and a result without the column "value": everything is data. */
static void
all_columns(SxKafkaRows *rows)
{
	memset(rows->part, 0, sizeof(rows->part));
	for (int i = 0; i < rows->desc->natts; i++)
		rows->from_value[i] = !TupleDescAttr(rows->desc, i)->attisdropped;
}

static void
open_encoder(SxKafkaRows *rows, const SxKafkaRowsConfig *config, bool raw)
{
	const SxFormatRoutine *routine = sx_format_routine(raw ? "json" : config->format);
	SxFormatTarget target = {
		.desc = rows->desc,
		.from_value = rows->from_value,
		.fields = rows->fields,
	};

	if (routine->open_encoder == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("rows cannot be written to Kafka in format \"%s\"", config->format),
				 errhint("Use format \"json\" or \"raw\".")));
	rows->encoder = routine->open_encoder(&target, sx_format_options_parse(config->format_options));
	initStringInfo(&rows->value);
}

static TupleDesc
project(TupleDesc desc, int n, const AttrNumber *columns)
{
	TupleDesc	projected = CreateTemplateTupleDesc(n);

	for (int i = 0; i < n; i++)
	{
		TupleDescCopyEntry(projected, i + 1, desc, columns[i]);
		TupleDescAttr(projected, i)->attisdropped = false;
	}
	return BlessTupleDesc(projected);
}

static void
find_keys(SxKafkaRows *rows, const char *key_columns)
{
	List	   *names;
	ListCell   *lc;

	if (key_columns == NULL)
		return;
	if (rows->part[PART_KEY] != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the key of stream \"%s\" is given twice", rows->stream),
				 errdetail("Column \"%s\" is the key, and option \"key_columns\" names others.",
						   NameStr(TupleDescAttr(rows->desc, rows->part[PART_KEY] - 1)->attname)),
				 errhint("Leave one of them out.")));
	if (!SplitIdentifierString(pstrdup(key_columns), ',', &names) || names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"key_columns\" is not a list of columns: \"%s\"", key_columns),
				 errhint("Separate names by commas; names that need quotes stand in double quotes.")));
	rows->keys = palloc(sizeof(AttrNumber) * list_length(names));
	foreach(lc, names)
	{
		AttrNumber	attnum = column_named(rows->desc, lfirst(lc));

		if (attnum == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("key column \"%s\" does not exist", (char *) lfirst(lc)),
					 errhint("Option \"key_columns\" names columns of the rows that are written.")));
		rows->keys[rows->nkeys++] = attnum;
	}
	if (rows->nkeys > 1)
		rows->key_desc = project(rows->desc, rows->nkeys, rows->keys);
	else
	{
		Oid			output;
		bool		is_varlena;

		rows->key_out = palloc0(sizeof(FmgrInfo));
		getTypeOutputInfo(TupleDescAttr(rows->desc, rows->keys[0] - 1)->atttypid, &output, &is_varlena);
		fmgr_info(output, rows->key_out);
	}
}

SxKafkaRows *
sx_kafka_rows_open(const SxKafkaRowsConfig *config)
{
	SxKafkaRows *rows = palloc0(sizeof(SxKafkaRows));
	bool		raw = config->format == NULL || pg_strcasecmp(config->format, "raw") == 0;

	rows->row_context = AllocSetContextCreate(CurrentMemoryContext, "kafka row",
											  ALLOCSET_DEFAULT_SIZES);
	rows->stream = pstrdup(RelationGetRelationName(config->stream));
	rows->desc = CreateTupleDescCopy(config->desc);
	rows->topic = config->topic != NULL ? pstrdup(config->topic) : NULL;
	rows->max_bytes = config->max_bytes;
	rows->ask_topic_limit = config->topic_limit;
	rows->ask_arg = config->topic_limit_arg;
	rows->from_value = palloc0(sizeof(bool) * Max(rows->desc->natts, 1));
	rows->fields = palloc0(sizeof(char *) * Max(rows->desc->natts, 1));
	if (raw)
		find_raw_parts(rows);
	else
		find_parts(rows, config);
	if (raw && rows->part[PART_VALUE] == 0)
	{
		if (!config->is_result)
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_COLUMN),
					 errmsg("stream \"%s\" has no column \"value\"", rows->stream),
					 errhint("Give it the columns of a Kafka record, or a format such as \"json\".")));
		all_columns(rows);
	}
	for (int part = 0; part < NPARTS; part++)
		check_part(rows, part);
	if (rows->part[PART_VALUE] == 0)
		open_encoder(rows, config, raw);
	find_keys(rows, config->key_columns);
	if (rows->topic == NULL && rows->part[PART_TOPIC] == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" names no topic to write to", rows->stream),
				 errhint("Give the stream the option \"topic\", or the rows a column \"topic\".")));
	return rows;
}

void
sx_kafka_rows_begin(SxKafkaRows *rows)
{
	rows->number = 0;
	sx_kafka_rows_next_part(rows);
}

void
sx_kafka_rows_next_part(SxKafkaRows *rows)
{
	if (rows->last_topic != NULL)
		pfree(rows->last_topic);
	rows->last_topic = NULL;
}

/* ---- one row ---- */

static text *
row_as_json(TupleDesc desc, Datum *values, bool *nulls)
{
	HeapTuple	tuple = heap_form_tuple(desc, values, nulls);

	return DatumGetTextPP(DirectFunctionCall1(row_to_json, HeapTupleGetDatum(tuple)));
}

static const char *
text_bytes(text *value, int *len)
{
	*len = VARSIZE_ANY_EXHDR(value);
	return utf8(VARDATA_ANY(value), len);
}

/* NULL: the value is NULL. */
static const char *
encode_value(SxKafkaRows *rows, TupleTableSlot *slot, int *len)
{
	AttrNumber	attnum = rows->part[PART_VALUE];

	if (attnum != 0)
		return slot->tts_isnull[attnum - 1] ? NULL :
			bytes_of(slot->tts_values[attnum - 1], base_type(rows->desc, attnum), len);
	resetStringInfo(&rows->value);
	if (!sx_encode(rows->encoder, slot, &rows->value))
		return NULL;
	*len = rows->value.len;
	return rows->value.data;
}

/* One column as its text (bytea as it is), several as a JSON object. */
static const char *
encode_named_key(SxKafkaRows *rows, Datum *values, bool *nulls, int *len)
{
	Oid			type;
	char	   *text;

	if (rows->nkeys > 1)
		return text_bytes(row_as_json(rows->key_desc, values, nulls), len);
	if (nulls[0])
		return NULL;
	type = base_type(rows->desc, rows->keys[0]);
	if (is_bytes(type))
		return bytes_of(values[0], type, len);
	text = OutputFunctionCall(rows->key_out, values[0]);
	*len = strlen(text);
	return utf8(text, len);
}

static const char *
encode_key(SxKafkaRows *rows, TupleTableSlot *slot, int *len)
{
	AttrNumber	attnum = rows->part[PART_KEY];
	Datum	   *values;
	bool	   *nulls;

	if (attnum != 0)
		return slot->tts_isnull[attnum - 1] ? NULL :
			bytes_of(slot->tts_values[attnum - 1], base_type(rows->desc, attnum), len);
	if (rows->nkeys == 0)
		return NULL;
	values = palloc(sizeof(Datum) * rows->nkeys);
	nulls = palloc(sizeof(bool) * rows->nkeys);
	for (int i = 0; i < rows->nkeys; i++)
	{
		values[i] = slot->tts_values[rows->keys[i] - 1];
		nulls[i] = slot->tts_isnull[rows->keys[i] - 1];
	}
	return encode_named_key(rows, values, nulls, len);
}

static void
bad_header(const SxKafkaRows *rows, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("headers of a record for stream \"%s\" are not valid", rows->stream),
			 errdetail("%s", why),
			 errhint("As jsonb they are an array such as '[{\"key\": \"a\", \"value\": \"b\"}]'.")));
}

static uint32
array_headers(SxKafkaRows *rows, Datum value, StringInfo out)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	Datum	   *elements;
	bool	   *nulls;
	int			n;
	int16		typlen;
	bool		typbyval;
	char		typalign;

	get_typlenbyvalalign(ARR_ELEMTYPE(array), &typlen, &typbyval, &typalign);
	deconstruct_array(array, ARR_ELEMTYPE(array), typlen, typbyval, typalign,
					  &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		HeapTupleHeader tuple;
		bool		isnull = true;
		Datum		field = (Datum) 0;
		int			len;
		const char *bytes;

		if (!nulls[i])
		{
			tuple = DatumGetHeapTupleHeader(elements[i]);
			field = GetAttributeByNum(tuple, 1, &isnull);
		}
		if (isnull)
			bad_header(rows, "A header has no key.");
		bytes = bytes_of(field, TEXTOID, &len);
		put_bytes(out, bytes, len);
		field = GetAttributeByNum(tuple, 2, &isnull);
		if (isnull)
			put_null(out);
		else
		{
			TupleDesc	desc = lookup_rowtype_tupdesc(ARR_ELEMTYPE(array), -1);

			bytes = bytes_of(field, base_type(desc, 2), &len);
			ReleaseTupleDesc(desc);
			put_bytes(out, bytes, len);
		}
	}
	return n;
}

static uint32
jsonb_headers(SxKafkaRows *rows, Datum value, StringInfo out)
{
	Jsonb	   *json = DatumGetJsonbP(value);
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	element;
	uint32		n = 0;

	if (!JB_ROOT_IS_ARRAY(json) || JB_ROOT_IS_SCALAR(json))
		bad_header(rows, "They are not a JSON array.");
	it = JsonbIteratorInit(&json->root);
	(void) JsonbIteratorNext(&it, &element, true);	/* WJB_BEGIN_ARRAY */
	while ((token = JsonbIteratorNext(&it, &element, true)) == WJB_ELEM)
	{
		JsonbValue	found;
		JsonbValue *name = NULL;
		JsonbValue *content = NULL;
		int			len;
		char	   *bytes;

		if (element.type == jbvBinary && JsonContainerIsObject(element.val.binary.data))
			name = getKeyJsonValueFromContainer(element.val.binary.data, "key", 3, NULL);
		if (name == NULL || name->type != jbvString)
			bad_header(rows, "A header is not an object with a string \"key\".");
		len = name->val.string.len;
		bytes = utf8(pnstrdup(name->val.string.val, len), &len);
		put_bytes(out, bytes, len);
		content = getKeyJsonValueFromContainer(element.val.binary.data, "value", 5, &found);
		if (content == NULL || content->type == jbvNull)
			put_null(out);
		else if (content->type == jbvString)
		{
			len = content->val.string.len;
			bytes = utf8(pnstrdup(content->val.string.val, len), &len);
			put_bytes(out, bytes, len);
		}
		else
			bad_header(rows, "The value of a header is not a string.");
		n++;
	}
	return n;
}

/* Count and all; false: the record has none. */
static bool
encode_headers(SxKafkaRows *rows, TupleTableSlot *slot, StringInfo out)
{
	AttrNumber	attnum = rows->part[PART_HEADERS];
	uint32		n = 0;

	if (attnum == 0 || slot->tts_isnull[attnum - 1])
		return false;
	appendBinaryStringInfo(out, (char *) &n, sizeof(n));
	if (base_type(rows->desc, attnum) == JSONBOID)
		n = jsonb_headers(rows, slot->tts_values[attnum - 1], out);
	else
		n = array_headers(rows, slot->tts_values[attnum - 1], out);
	memcpy(out->data, &n, sizeof(n));
	return n > 0;
}

static const char *
row_topic(SxKafkaRows *rows, TupleTableSlot *slot, int *len)
{
	AttrNumber	attnum = rows->part[PART_TOPIC];
	const char *topic;

	if (rows->topic != NULL)
	{
		*len = strlen(rows->topic);
		return rows->topic;
	}
	if (slot == NULL || slot->tts_isnull[attnum - 1])
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("a record for stream \"%s\" has no topic", rows->stream),
				 errdetail("Column \"topic\" is NULL, and the stream has no option \"topic\"."),
				 errhint("Leave such rows out, or give the stream the option \"topic\".")));
	topic = bytes_of(slot->tts_values[attnum - 1], TEXTOID, len);
	if (*len == 0 || *len > MAX_TOPIC ||
		strspn(topic, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") < *len ||
		(topic[0] == '.' && (*len == 1 || (*len == 2 && topic[1] == '.'))))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("\"%s\" cannot be the name of a topic", pnstrdup(topic, Min(*len, MAX_TOPIC))),
				 errdetail("A topic has 1 to %d letters, digits, dots, underscores and hyphens.", MAX_TOPIC)));
	return topic;
}

static int32
row_partition(SxKafkaRows *rows, TupleTableSlot *slot)
{
	AttrNumber	attnum = rows->part[PART_PARTITION];
	int64		partition;
	Datum		value;

	if (attnum == 0 || slot->tts_isnull[attnum - 1])
		return -1;
	value = slot->tts_values[attnum - 1];
	switch (base_type(rows->desc, attnum))
	{
		case INT2OID:
			partition = DatumGetInt16(value);
			break;
		case INT4OID:
			partition = DatumGetInt32(value);
			break;
		default:
			partition = DatumGetInt64(value);
	}
	if (partition < 0 || partition > PG_INT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("%lld cannot be the partition of a record for stream \"%s\"",
						(long long) partition, rows->stream)));
	return partition;
}

/* Which row, for an error: its number, and its key if that can be shown. */
static char *
describe_row(const SxKafkaRows *rows, const char *key, int key_len)
{
	int			shown;

	if (key == NULL || GetDatabaseEncoding() != PG_UTF8 || !pg_verify_mbstr(PG_UTF8, key, key_len, true))
		return psprintf("Row %lld", (long long) rows->number);
	shown = pg_mbcliplen(key, key_len, MAX_KEY_SHOWN);
	return psprintf("Row %lld, with key \"%.*s%s\"", (long long) rows->number,
					shown, key, shown < key_len ? "..." : "");
}

static void
check_own_limit(const SxKafkaRows *rows, int64 size, const char *key, int key_len)
{
	if (size > rows->max_bytes)
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("a record for stream \"%s\" is too large for Kafka", rows->stream),
				 errdetail("%s: key, value and headers have %lld bytes, %d are allowed.",
						   describe_row(rows, key, key_len), (long long) size, rows->max_bytes),
				 errhint("Raise the option \"kafka.message.max.bytes\" of the stream and \"max.message.bytes\" of the topic.")));
}

/* Of the topic that was named last. A broker that has raised its limit meanwhile is asked first. */
static void
check_topic_limit(SxKafkaRows *rows, int64 size, const char *key, int key_len)
{
	if (rows->topic_limit < 0 || size <= rows->topic_limit)
		return;
	rows->topic_limit = rows->ask_topic_limit(rows->ask_arg, rows->last_topic, true);
	if (rows->topic_limit >= 0 && size > rows->topic_limit)
		ereport(ERROR,
				(errcode(ERRCODE_STRING_DATA_RIGHT_TRUNCATION),
				 errmsg("a record for stream \"%s\" is too large for topic \"%s\"",
						rows->stream, rows->last_topic),
				 errdetail("%s: its record needs %lld bytes, the topic takes %d.",
						   describe_row(rows, key, key_len), (long long) size, rows->topic_limit),
				 errhint("Raise \"max.message.bytes\" of the topic, or leave such rows out.")));
}

/* What the names and values of encoded headers take in a record. */
static size_t
header_bytes(StringInfo headers, uint32 *n)
{
	const char *at = headers->data + sizeof(*n);
	const char *end = headers->data + headers->len;
	size_t		size = 0;

	memcpy(n, headers->data, sizeof(*n));
	for (uint32 i = 0; i < 2 * *n; i++)
	{
		SxKafkaBytes bytes;

		at = sx_kafka_bytes_read(at, end, &bytes);
		size += bytes.len + sx_kafka_length_bytes(bytes.data != NULL ? (int64) bytes.len : -1);
	}
	return size;
}

static void
name_topic(SxKafkaRows *rows, const char *topic, int topic_len)
{
	if (rows->last_topic != NULL)
		pfree(rows->last_topic);
	rows->last_topic = MemoryContextAlloc(GetMemoryChunkContext(rows), topic_len + 1);
	memcpy(rows->last_topic, topic, topic_len);
	rows->last_topic[topic_len] = '\0';
	rows->last_topic_size = topic_len;
	rows->topic_limit = rows->ask_topic_limit == NULL ? -1 :
		rows->ask_topic_limit(rows->ask_arg, rows->last_topic, false);
}

static void
put_record(SxKafkaRows *rows, const char *topic, int topic_len, int32 partition,
		   const char *key, int key_len, const char *value, int value_len,
		   StringInfo headers, StringInfo intent)
{
	bool		names_topic = rows->last_topic == NULL ||
		rows->last_topic_size != topic_len || memcmp(rows->last_topic, topic, topic_len) != 0;
	uint32		nheaders = 0;
	size_t		header_size = headers != NULL ? header_bytes(headers, &nheaders) : 0;

	check_own_limit(rows, (int64) RECORD_OVERHEAD + key_len + value_len + (headers ? headers->len : 0),
					key, key_len);
	if (names_topic)
		name_topic(rows, topic, topic_len);
	check_topic_limit(rows, sx_kafka_batch_bytes(key != NULL, key_len, value != NULL, value_len,
												 nheaders, header_size), key, key_len);
	appendStringInfoChar(intent,
						 (names_topic ? SX_KAFKA_TOPIC : 0) |
						 (partition >= 0 ? SX_KAFKA_PARTITION : 0) |
						 (key != NULL ? SX_KAFKA_KEY : 0) |
						 (value != NULL ? SX_KAFKA_VALUE : 0) |
						 (headers != NULL ? SX_KAFKA_HEADERS : 0));
	if (names_topic)
		put_bytes(intent, topic, topic_len);
	if (partition >= 0)
		appendBinaryStringInfo(intent, (char *) &partition, sizeof(partition));
	if (key != NULL)
		put_bytes(intent, key, key_len);
	if (value != NULL)
		put_bytes(intent, value, value_len);
	if (headers != NULL)
		appendBinaryStringInfo(intent, headers->data, headers->len);
}

void
sx_kafka_rows_put(SxKafkaRows *rows, TupleTableSlot *slot, StringInfo intent)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(rows->row_context);
	StringInfoData headers;
	const char *topic;
	const char *key;
	const char *value;
	int			topic_len;
	int			key_len = 0;
	int			value_len = 0;
	bool		has_headers = false;

	slot_getallattrs(slot);
	rows->number++;
	topic = row_topic(rows, slot, &topic_len);
	key = encode_key(rows, slot, &key_len);
	value = encode_value(rows, slot, &value_len);
	if (rows->part[PART_HEADERS] != 0)
	{
		initStringInfo(&headers);
		has_headers = encode_headers(rows, slot, &headers);
	}
	put_record(rows, topic, topic_len, row_partition(rows, slot), key, key_len,
			   value, value_len, has_headers ? &headers : NULL, intent);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(rows->row_context);
}

/* ---- tombstones ---- */

static int
position_of(AttrNumber attnum, int n, const AttrNumber *columns)
{
	for (int i = 0; i < n; i++)
		if (columns[i] == attnum)
			return i;
	return -1;
}

bool
sx_kafka_rows_has_key(SxKafkaRows *rows, int nkeys, const AttrNumber *keys)
{
	if (rows->nkeys == 0 || rows->topic == NULL)
		return false;
	for (int i = 0; i < rows->nkeys; i++)
		if (position_of(rows->keys[i], nkeys, keys) < 0)
			return false;
	for (int i = 0; i < nkeys; i++)
		if (position_of(keys[i], rows->nkeys, rows->keys) < 0)
			return false;
	return true;
}

void
sx_kafka_rows_put_tombstone(SxKafkaRows *rows, TupleTableSlot *slot,
							int nkeys, const AttrNumber *keys, StringInfo intent)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(rows->row_context);
	Datum	   *values = palloc(sizeof(Datum) * rows->nkeys);
	bool	   *nulls = palloc(sizeof(bool) * rows->nkeys);
	const char *topic;
	const char *key;
	int			topic_len;
	int			key_len = 0;

	slot_getallattrs(slot);
	for (int i = 0; i < rows->nkeys; i++)
	{
		int			at = position_of(rows->keys[i], nkeys, keys);

		values[i] = slot->tts_values[at];
		nulls[i] = slot->tts_isnull[at];
	}
	topic = row_topic(rows, NULL, &topic_len);
	key = encode_named_key(rows, values, nulls, &key_len);
	put_record(rows, topic, topic_len, -1, key, key_len, NULL, 0, NULL, intent);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(rows->row_context);
}
