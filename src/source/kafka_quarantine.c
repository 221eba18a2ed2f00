/*
 * kafka_quarantine.c
 *		Records of a Kafka stream on their way into the quarantine, and back.
 *
 * In the quarantine a record is its value's bytes and a position: topic, partition
 * and offset, and what else of the record columns of the stream show, but headers.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"

#include "format/fill.h"
#include "source/kafka_decode.h"
#include "source/kafka_quarantine.h"
#include "source/kafka_reader.h"

char *
sx_kafka_record_position(const SxKafkaSource *source, const SxKafkaPart *part,
						 const SxKafkaRecord *record)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"topic\":");
	escape_json(&json, part->topic);
	appendStringInfo(&json, ",\"partition\":%d,\"offset\":" INT64_FORMAT, part->partition,
					 record->offset);
	if (source->columns.has_metadata)
		appendStringInfo(&json, ",\"timestamp\":" INT64_FORMAT ",\"timestampType\":%d",
						 record->timestamp, record->timestamp_type);
	if (record->key != NULL)
	{
		Datum		hex = DirectFunctionCall2(binary_encode, PointerGetDatum(record->key),
											  CStringGetTextDatum("hex"));

		appendStringInfo(&json, ",\"key\":\"%s\"", TextDatumGetCString(hex));
	}
	appendStringInfoChar(&json, '}');
	return json.data;
}

/* ---- back ---- */

/* A field of the position; NULL: it isn't there. */
static char *
position_field(Datum position, const char *name)
{
	LOCAL_FCINFO(fcinfo, 2);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 2, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = position;
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = CStringGetTextDatum(name);
	fcinfo->args[1].isnull = false;
	result = jsonb_object_field_text(fcinfo);
	return fcinfo->isnull ? NULL : TextDatumGetCString(result);
}

static int64
position_number(Datum position, const char *name, int64 otherwise)
{
	char	   *text = position_field(position, name);

	return text == NULL ? otherwise : pg_strtoint64(text);
}

/* What the position says of the record. */
static void
read_position(const char *text, SxKafkaPart *part, SxKafkaRecord *record)
{
	Datum		position = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	char	   *key = position_field(position, "key");

	part->topic = position_field(position, "topic");
	if (part->topic == NULL)
		part->topic = "";
	part->topic_text = cstring_to_text(part->topic);
	part->partition = position_number(position, "partition", -1);
	record->offset = position_number(position, "offset", -1);
	record->timestamp = position_number(position, "timestamp", 0);
	record->timestamp_type = position_number(position, "timestampType", -1);
	if (key != NULL)
		record->key = DatumGetPointer(DirectFunctionCall2(binary_decode, CStringGetTextDatum(key),
														  CStringGetTextDatum("hex")));
}

/* Freed with the context, whatever happens meanwhile. */
typedef struct Decoding
{
	MemoryContextCallback callback;
	SxDecoder  *decoder;
	SxRowBuffer *rows;
} Decoding;

static void
release(void *arg)
{
	Decoding   *decoding = arg;

	if (decoding->decoder != NULL)
		sx_decoder_close(decoding->decoder);
	sx_row_buffer_destroy(decoding->rows);
}

static SxRowBuffer *
decode(SxKafkaSource *source, const SxMalformed *record)
{
	SxFormatTarget target = {
		.desc = source->columns.desc,
		.from_value = source->columns.from_value,
		.fields = source->columns.fields,
	};
	Decoding   *decoding = palloc0(sizeof(Decoding));

	decoding->callback.func = release;
	decoding->callback.arg = decoding;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &decoding->callback);
	decoding->decoder = source->columns.routine->open_decoder(&target, source->columns.format);
	decoding->rows = sx_row_buffer_create(source->columns.desc->natts, true);
	if (decoding->rows == NULL)
		sx_format_out_of_memory();
	if (!sx_decode(decoding->decoder, record->raw, record->len, decoding->rows))
		sx_format_raise_failure(decoding->rows);
	return decoding->rows;
}

const char *
sx_kafka_reread(SxSource *base, const SxMalformed *record, SxRowReceiver receive, void *arg)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	SxKafkaPart part = {0};
	SxKafkaRecord it = {0};
	SxKafkaChunk chunk = {.nrecords = 1, .records = &it};
	TupleTableSlot *slot = MakeSingleTupleTableSlot(source->columns.desc, &TTSOpsVirtual);
	SxFiller   *filler = NULL;
	SxRowBuffer *rows = NULL;
	const char *error = NULL;

	read_position(record->where, &part, &it);
	if (source->columns.decodes)
	{
		rows = decode(source, record);
		filler = sx_kafka_make_filler(source);
	}
	else
		it.value = cstring_to_text_with_len(record->raw, record->len);
	source->part_now = &part;	/* for the text of an error */
	source->chunk_now = &chunk;
	for (int64 n = 0; n < (rows != NULL ? rows->nrows : 1) && error == NULL; n++)
	{
		ExecClearTuple(slot);
		memset(slot->tts_isnull, true, source->columns.desc->natts * sizeof(bool));
		if (rows != NULL && sx_filler_fill(filler, rows, n, MaxAttrNumber, slot) != SX_FILL_ROW)
			error = sx_row_buffer_row(rows, n)->error;
		else if (source->columns.has_metadata)
			error = sx_kafka_columns_fill(&source->columns, &part, &it, MaxAttrNumber, slot);
		ExecStoreVirtualTuple(slot);
		if (error == NULL)
			receive(arg, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	return error == NULL ? NULL : pstrdup(error);
}
