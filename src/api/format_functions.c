/*
 * format_functions.c
 *		from_json, from_csv, from_avro: one record into a composite.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"
#include "utils/varlena.h"

#include "format/fill.h"

PG_FUNCTION_INFO_V1(sx_api_from_json);
PG_FUNCTION_INFO_V1(sx_api_from_json_bytea);
PG_FUNCTION_INFO_V1(sx_api_from_json_jsonb);
PG_FUNCTION_INFO_V1(sx_api_from_csv);
PG_FUNCTION_INFO_V1(sx_api_from_avro);

/* What stays between the calls of one statement, in the function's own context. */
typedef struct RecordReader
{
	MemoryContext context;
	MemoryContextCallback callback;
	Oid			type;
	int32		typmod;
	pg_tz	   *zone;			/* the session's, when the options were read */
	Jsonb	   *options;
	char	   *schema;			/* from_avro's argument, or NULL */
	TupleDesc	desc;
	SxDecoder  *decoder;		/* malloc'ed, as is buffer */
	SxRowBuffer *buffer;
	SxFiller   *filler;
	TupleTableSlot *slot;
} RecordReader;

static void
release_reader(void *arg)
{
	RecordReader *reader = arg;

	if (reader->decoder != NULL)
		sx_decoder_close(reader->decoder);
	sx_row_buffer_destroy(reader->buffer);
	reader->decoder = NULL;
	reader->buffer = NULL;
}

/* The fields of a JSON object as options. */
static List *
options_list(Jsonb *options, const char *function)
{
	List	   *list = NIL;
	JsonbIterator *it;
	JsonbValue	value;
	JsonbIteratorToken token;
	char	   *name = NULL;

	if (!JB_ROOT_IS_OBJECT(options))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("options of %s must be a JSON object", function),
				 errhint("Such as '{\"mode\": \"failfast\"}'.")));
	it = JsonbIteratorInit(&options->root);
	while ((token = JsonbIteratorNext(&it, &value, true)) != WJB_DONE)
	{
		char	   *text;

		if (token == WJB_KEY)
		{
			name = pnstrdup(value.val.string.val, value.val.string.len);
			if (!sx_format_option_known(name))
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
						 errmsg("option \"%s\" of %s is not known", name, function),
						 errhint("Options of formats: %s.", sx_format_option_names())));
			continue;
		}
		if (token != WJB_VALUE || value.type == jbvNull)
			continue;
		if (value.type == jbvString)
			text = pnstrdup(value.val.string.val, value.val.string.len);
		else
		{
			Jsonb	   *scalar = JsonbValueToJsonb(&value);

			text = JsonbToCString(NULL, &scalar->root, VARSIZE(scalar));
		}
		list = lappend(list, makeDefElem(name, (Node *) makeString(text), -1));
	}
	return list;
}

static void
open_reader(RecordReader *reader, const SxFormatRoutine *routine, const char *function)
{
	SxFormatOptions *options;
	SxFormatTarget target = {0};
	TupleDesc	desc;

	if (!type_is_rowtype(reader->type) || reader->type == RECORDOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("%s cannot make a value of type %s", function, format_type_be(reader->type)),
				 errdetail("The second argument gives the type of the result, which is a composite type."),
				 errhint("Write it as NULL::name_of_type; a table's or stream's name is a type, too.")));
	desc = lookup_rowtype_tupdesc_domain(reader->type, reader->typmod, false);
	reader->desc = CreateTupleDescCopy(desc);
	ReleaseTupleDesc(desc);
	options = sx_format_options_parse(options_list(reader->options, function));
	if (reader->schema != NULL)
		options->avro_schema = reader->schema;
	options->no_arrays = true;
	if (options->mode == SX_MODE_DROPMALFORMED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s does not support mode \"dropmalformed\"", function),
				 errdetail("A function gives a value for each row; it cannot leave the row out."),
				 errhint("Use mode \"permissive\" or \"failfast\".")));
	target.desc = reader->desc;
	routine->check(&target, options);
	reader->decoder = routine->open_decoder(&target, options);
	reader->buffer = sx_row_buffer_create(reader->desc->natts, false);
	if (reader->buffer == NULL)
		sx_format_out_of_memory();
	reader->filler = sx_filler_create(&target, options, false, NULL, NULL);
	reader->slot = MakeSingleTupleTableSlot(reader->desc, &TTSOpsVirtual);
}

static bool
reader_fits(const RecordReader *reader, const Jsonb *options, const char *schema)
{
	return reader->decoder != NULL && reader->zone == session_timezone &&
		VARSIZE(reader->options) == VARSIZE(options) &&
		memcmp(reader->options, options, VARSIZE(options)) == 0 &&
		(schema == NULL || strcmp(schema, reader->schema) == 0);
}

/* Arguments: the record, the type, the schema if there is one, the options. */
static RecordReader *
get_reader(FunctionCallInfo fcinfo, const SxFormatRoutine *routine, const char *function)
{
	RecordReader *reader = fcinfo->flinfo->fn_extra;
	Jsonb	   *options = PG_GETARG_JSONB_P(PG_NARGS() - 1);
	char	   *schema = PG_NARGS() == 4 ? text_to_cstring(PG_GETARG_TEXT_PP(2)) : NULL;
	MemoryContext context;
	MemoryContext oldcontext;

	if (reader != NULL && reader_fits(reader, options, schema))
		return reader;
	if (reader != NULL)
		MemoryContextDelete(reader->context);
	fcinfo->flinfo->fn_extra = NULL;
	context = AllocSetContextCreate(fcinfo->flinfo->fn_mcxt, "streamx record", ALLOCSET_SMALL_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	reader = palloc0(sizeof(RecordReader));
	reader->context = context;
	reader->callback.func = release_reader;
	reader->callback.arg = reader;
	MemoryContextRegisterResetCallback(context, &reader->callback);
	reader->type = get_fn_expr_argtype(fcinfo->flinfo, 1);
	reader->typmod = -1;
	reader->zone = session_timezone;
	reader->options = palloc(VARSIZE(options));
	memcpy(reader->options, options, VARSIZE(options));
	reader->schema = schema != NULL ? pstrdup(schema) : NULL;
	open_reader(reader, routine, function);
	MemoryContextSwitchTo(oldcontext);
	fcinfo->flinfo->fn_extra = reader;
	return reader;
}

static Datum
read_record(FunctionCallInfo fcinfo, const SxFormatRoutine *routine, const char *function,
			const char *data, size_t len)
{
	RecordReader *reader = get_reader(fcinfo, routine, function);
	Datum		result;

	sx_row_buffer_reset(reader->buffer, 1024 * 1024);
	if (!sx_decode(reader->decoder, data, len, reader->buffer))
		sx_format_raise_failure(reader->buffer);
	if (reader->buffer->nrows == 0)
	{
		fcinfo->isnull = true;	/* blank */
		return (Datum) 0;
	}
	ExecClearTuple(reader->slot);
	(void) sx_filler_fill(reader->filler, reader->buffer, 0, MaxAttrNumber, reader->slot);
	ExecStoreVirtualTuple(reader->slot);
	result = HeapTupleHeaderGetDatum(DatumGetHeapTupleHeader(ExecFetchSlotHeapTupleDatum(reader->slot)));
	return result;
}

static Datum
null_result(FunctionCallInfo fcinfo)
{
	fcinfo->isnull = true;
	return (Datum) 0;
}

/* from_json(json text, type anyelement, options jsonb) */
Datum
sx_api_from_json(PG_FUNCTION_ARGS)
{
	text	   *json;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		return null_result(fcinfo);
	json = PG_GETARG_TEXT_PP(0);
	return read_record(fcinfo, &sx_json_format, "from_json()", VARDATA_ANY(json),
					   VARSIZE_ANY_EXHDR(json));
}

/* from_json(json bytea, type anyelement, options jsonb) */
Datum
sx_api_from_json_bytea(PG_FUNCTION_ARGS)
{
	return sx_api_from_json(fcinfo);
}

/* from_json(json jsonb, type anyelement, options jsonb) */
Datum
sx_api_from_json_jsonb(PG_FUNCTION_ARGS)
{
	Jsonb	   *json;
	StringInfoData printed;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		return null_result(fcinfo);
	json = PG_GETARG_JSONB_P(0);
	initStringInfo(&printed);
	(void) JsonbToCString(&printed, &json->root, VARSIZE(json));
	return read_record(fcinfo, &sx_json_format, "from_json()", printed.data, printed.len);
}

/* from_csv(csv text, type anyelement, options jsonb) */
Datum
sx_api_from_csv(PG_FUNCTION_ARGS)
{
	text	   *csv;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2))
		return null_result(fcinfo);
	csv = PG_GETARG_TEXT_PP(0);
	return read_record(fcinfo, &sx_csv_format, "from_csv()", VARDATA_ANY(csv), VARSIZE_ANY_EXHDR(csv));
}

/* from_avro(avro bytea, type anyelement, schema text, options jsonb) */
Datum
sx_api_from_avro(PG_FUNCTION_ARGS)
{
	bytea	   *avro;

	if (PG_ARGISNULL(0) || PG_ARGISNULL(2) || PG_ARGISNULL(3))
		return null_result(fcinfo);
	avro = PG_GETARG_BYTEA_PP(0);
	return read_record(fcinfo, &sx_avro_format, "from_avro()", VARDATA_ANY(avro),
					   VARSIZE_ANY_EXHDR(avro));
}
