/*
 * kafka_columns.c
 *		Which column of a Kafka stream is what of a record.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "source/kafka_columns.h"
#include "source/stream_options.h"

typedef struct ColumnWord
{
	const char *word;
	SxKafkaColumn kind;
	Oid			types[3];
	const char *types_text;
} ColumnWord;

static const ColumnWord column_words[] = {
	{"key", SX_KAFKA_KEY, {BYTEAOID, TEXTOID, VARCHAROID}, "bytea or text"},
	{"value", SX_KAFKA_VALUE, {BYTEAOID, TEXTOID, VARCHAROID}, "bytea or text"},
	{"topic", SX_KAFKA_TOPIC, {TEXTOID, VARCHAROID}, "text"},
	{"partition", SX_KAFKA_PARTITION, {INT4OID}, "integer"},
	{"offset", SX_KAFKA_OFFSET, {INT8OID}, "bigint"},
	{"timestamp", SX_KAFKA_TIMESTAMP, {TIMESTAMPTZOID}, "timestamp with time zone"},
	{"timestamp_type", SX_KAFKA_TIMESTAMP_TYPE, {INT4OID}, "integer"},
	{"headers", SX_KAFKA_HEADERS, {JSONBOID, TEXTOID}, "jsonb or text"},
};

static const ColumnWord *
find_word(const char *word)
{
	for (int i = 0; i < lengthof(column_words); i++)
		if (sx_option_is(word, column_words[i].word))
			return &column_words[i];
	return NULL;
}

bool
sx_kafka_column_parse(const char *word, SxKafkaColumn *result)
{
	const ColumnWord *it = find_word(word);

	if (it == NULL)
		return false;
	*result = it->kind;
	return true;
}

static const char *
column_option(Oid relid, AttrNumber attnum, const char *name)
{
	ListCell   *lc;

	foreach(lc, GetForeignColumnOptions(relid, attnum))
	{
		DefElem    *def = (DefElem *) lfirst(lc);

		if (sx_option_is(def->defname, name))
			return defGetString(def);
	}
	return NULL;
}

static void
check_type(Form_pg_attribute att, const ColumnWord *word)
{
	for (int i = 0; i < lengthof(word->types); i++)
		if (att->atttypid == word->types[i])
			return;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_DATA_TYPE),
			 errmsg("column \"%s\" of type %s cannot hold the %s of a Kafka record",
					NameStr(att->attname), format_type_be(att->atttypid), word->word),
			 errhint("Declare the column as %s.", word->types_text)));
}

/* Without option format the columns of Spark's Kafka source mean format raw. */
static bool
all_have_raw_names(TupleDesc desc)
{
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped &&
			find_word(NameStr(TupleDescAttr(desc, i)->attname)) == NULL)
			return false;
	return true;
}

static SxKafkaColumn
column_kind(Relation rel, Form_pg_attribute att, bool raw)
{
	const char *option;
	const ColumnWord *word;

	if (att->attisdropped)
		return SX_KAFKA_DROPPED;
	option = column_option(RelationGetRelid(rel), att->attnum, "metadata");
	if (option == NULL && !raw)
		return SX_KAFKA_FROM_VALUE;
	word = find_word(option != NULL ? option : NameStr(att->attname));
	if (word == NULL && option != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"metadata\" of column \"%s\": \"%s\"",
						NameStr(att->attname), option),
				 errhint("Legal values: key, value, topic, partition, offset, timestamp, timestamp_type, headers.")));
	if (word == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_COLUMN_NAME_NOT_FOUND),
				 errmsg("column \"%s\" is nothing that format \"raw\" knows",
						NameStr(att->attname)),
				 errdetail("Its columns are key, value, topic, partition, offset, timestamp, timestamp_type and headers."),
				 errhint("Rename the column, say what it is by its option \"metadata\", or use another format for the value.")));
	check_type(att, word);
	return word->kind;
}

void
sx_kafka_columns_make(Relation rel, List *format_options, SxKafkaColumns *columns)
{
	TupleDesc	desc = RelationGetDescr(rel);
	bool		raw;

	memset(columns, 0, sizeof(*columns));
	columns->desc = CreateTupleDescCopy(desc);
	columns->kinds = palloc0(sizeof(SxKafkaColumn) * Max(desc->natts, 1));
	columns->from_value = palloc0(sizeof(bool) * Max(desc->natts, 1));
	columns->fields = palloc0(sizeof(char *) * Max(desc->natts, 1));
	columns->format = sx_format_options_parse(format_options);
	if (columns->format->format == NULL && !all_have_raw_names(desc))
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("stream \"%s\" does not say what format its records have",
						RelationGetRelationName(rel)),
				 errhint("Add option \"format\": json, csv, avro or raw.")));
	raw = columns->format->format == NULL || pg_strcasecmp(columns->format->format, "raw") == 0;
	columns->corrupt = raw ? 0 : sx_format_corrupt_column(desc, columns->format);
	for (int i = 0; i < desc->natts; i++)
	{
		SxKafkaColumn kind;

		if (columns->corrupt == i + 1)
			kind = SX_KAFKA_FROM_VALUE;
		else
			kind = column_kind(rel, TupleDescAttr(desc, i), raw);
		columns->kinds[i] = kind;
		if (kind == SX_KAFKA_FROM_VALUE)
			columns->fields[i] = column_option(RelationGetRelid(rel), i + 1, "field");
		columns->from_value[i] = kind == SX_KAFKA_FROM_VALUE;
		columns->decodes |= columns->from_value[i];
		columns->has_metadata |= kind != SX_KAFKA_FROM_VALUE && kind != SX_KAFKA_DROPPED;
		columns->keep.key |= kind == SX_KAFKA_KEY;
		columns->keep.value |= kind == SX_KAFKA_VALUE;
		columns->keep.headers |= kind == SX_KAFKA_HEADERS;
	}
	columns->keep.undecoded = columns->decodes;
	if (columns->decodes)
		columns->routine = sx_format_routine(columns->format->format);
}

/* ---- a record ---- */

/* Text must be valid in the database's encoding; bytea takes anything. */
static const char *
fill_bytes(Oid type, const void *varlena, Datum *value, bool *isnull)
{
	if (varlena == NULL)
		return NULL;
	if (type != BYTEAOID &&
		!pg_verify_mbstr(GetDatabaseEncoding(), VARDATA(varlena),
						 VARSIZE(varlena) - VARHDRSZ, true))
		return "invalid byte sequence in a text column";
	*value = PointerGetDatum(varlena);
	*isnull = false;
	return NULL;
}

/* Readable bytes as text, others as bytea prints them. */
static void
header_string(const char *data, size_t len, JsonbValue *result)
{
	result->type = jbvString;
	if (pg_verify_mbstr(GetDatabaseEncoding(), data, len, true) &&
		memchr(data, '\0', len) == NULL)
	{
		result->val.string.val = pnstrdup(data, len);
		result->val.string.len = len;
	}
	else
	{
		char	   *hex = palloc(len * 2 + 3);

		strcpy(hex, "\\x");
		hex_encode(data, len, hex + 2);
		result->val.string.val = hex;
		result->val.string.len = len * 2 + 2;
	}
}

static Jsonb *
headers_to_jsonb(const SxKafkaRecord *record)
{
	JsonbParseState *state = NULL;
	JsonbValue	value;
	JsonbValue *result;

	(void) pushJsonbValue(&state, WJB_BEGIN_ARRAY, NULL);
	for (int i = 0; i < record->nheaders; i++)
	{
		const SxKafkaHeader *header = &record->headers[i];

		(void) pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
		value.type = jbvString;
		value.val.string.val = "key";
		value.val.string.len = 3;
		(void) pushJsonbValue(&state, WJB_KEY, &value);
		header_string(header->name, strlen(header->name), &value);
		(void) pushJsonbValue(&state, WJB_VALUE, &value);
		value.type = jbvString;
		value.val.string.val = "value";
		value.val.string.len = 5;
		(void) pushJsonbValue(&state, WJB_KEY, &value);
		if (header->value != NULL)
			header_string(header->value, header->len, &value);
		else
			value.type = jbvNull;
		(void) pushJsonbValue(&state, WJB_VALUE, &value);
		(void) pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	}
	result = pushJsonbValue(&state, WJB_END_ARRAY, NULL);
	return JsonbValueToJsonb(result);
}

static void
fill_headers(Oid type, const SxKafkaRecord *record, Datum *value, bool *isnull)
{
	Jsonb	   *json;

	if (record->nheaders == 0)
		return;
	json = headers_to_jsonb(record);
	*isnull = false;
	*value = type == JSONBOID ? JsonbPGetDatum(json) :
		CStringGetTextDatum(JsonbToCString(NULL, &json->root, VARSIZE(json)));
}

static void
fill_timestamp(const SxKafkaRecord *record, Datum *value, bool *isnull)
{
	int64		ms = record->timestamp;

	if (record->timestamp_type < 0 ||
		ms < INT64CONST(-210866803200000) || ms > INT64CONST(9223371331199999))
		return;					/* none, or none that a timestamp can be */
	*value = TimestampTzGetDatum(ms * 1000 -
								 (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY);
	*isnull = false;
}

const char *
sx_kafka_columns_fill(const SxKafkaColumns *columns, const SxKafkaPart *part,
					  const SxKafkaRecord *record, AttrNumber last_needed, TupleTableSlot *slot)
{
	int			n = Min(columns->desc->natts, last_needed);
	const char *wrong = NULL;

	for (int i = 0; i < n; i++)
	{
		Datum	   *value = &slot->tts_values[i];
		bool	   *isnull = &slot->tts_isnull[i];
		Oid			type = TupleDescAttr(columns->desc, i)->atttypid;
		const char *error = NULL;

		switch (columns->kinds[i])
		{
			case SX_KAFKA_FROM_VALUE:
			case SX_KAFKA_DROPPED:
				break;
			case SX_KAFKA_KEY:
				error = fill_bytes(type, record->key, value, isnull);
				break;
			case SX_KAFKA_VALUE:
				error = fill_bytes(type, record->value, value, isnull);
				break;
			case SX_KAFKA_TOPIC:
				*value = PointerGetDatum(part->topic_text);
				*isnull = false;
				break;
			case SX_KAFKA_PARTITION:
				*value = Int32GetDatum(part->partition);
				*isnull = false;
				break;
			case SX_KAFKA_OFFSET:
				*value = Int64GetDatum(record->offset);
				*isnull = false;
				break;
			case SX_KAFKA_TIMESTAMP:
				fill_timestamp(record, value, isnull);
				break;
			case SX_KAFKA_TIMESTAMP_TYPE:
				*value = Int32GetDatum(record->timestamp_type);
				*isnull = record->timestamp_type < 0;
				break;
			case SX_KAFKA_HEADERS:
				fill_headers(type, record, value, isnull);
				break;
		}
		if (error != NULL)
			wrong = error;
	}
	return wrong;
}
