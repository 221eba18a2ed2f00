/*
 * format_test.c
 *		Decoders and encoders as SQL functions.
 */
#include "postgres.h"

#include <pthread.h>
#include <time.h>

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/threads.h"
#include "format/fill.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(format_test_decode);
PG_FUNCTION_INFO_V1(format_test_encode);
PG_FUNCTION_INFO_V1(format_test_bench);

typedef struct Records
{
	int			n;
	Datum	   *values;
	bool	   *nulls;
} Records;

typedef struct Work
{
	SxDecoder  *decoder;
	SxRowBuffer *buffer;
	Records		records;
	bool		failed;
} Work;

static List *
options_of(ArrayType *array)
{
	List	   *list = NIL;
	Datum	   *values;
	int			n;

	deconstruct_array(array, TEXTOID, -1, false, TYPALIGN_INT, &values, NULL, &n);
	for (int i = 0; i + 1 < n; i += 2)
		list = lappend(list, makeDefElem(TextDatumGetCString(values[i]),
										 (Node *) makeString(TextDatumGetCString(values[i + 1])), -1));
	return list;
}

static Records
records_of(ArrayType *array)
{
	Records		records;

	deconstruct_array(array, BYTEAOID, -1, false, TYPALIGN_INT, &records.values, &records.nulls,
					  &records.n);
	for (int i = 0; i < records.n; i++)
		if (!records.nulls[i])
			records.values[i] = PointerGetDatum(PG_DETOAST_DATUM(records.values[i]));
	return records;
}

static TupleDesc
desc_of(FunctionCallInfo fcinfo, int argument)
{
	TupleDesc	shared = lookup_rowtype_tupdesc(get_fn_expr_argtype(fcinfo->flinfo, argument), -1);
	TupleDesc	desc = CreateTupleDescCopy(shared);

	ReleaseTupleDesc(shared);
	return desc;
}

static void *
decode_all(void *arg)
{
	Work	   *work = arg;

	for (int i = 0; i < work->records.n; i++)
	{
		bytea	   *record = (bytea *) DatumGetPointer(work->records.values[i]);
		bool		good;

		work->buffer->tag = i;
		if (work->records.nulls[i])
			good = sx_decode(work->decoder, NULL, 0, work->buffer);
		else
			good = sx_decode(work->decoder, VARDATA(record), VARSIZE(record) - VARHDRSZ, work->buffer);
		work->failed = !good;
		if (!good)
			break;
	}
	return NULL;
}

static void
decode_on_thread(Work *work)
{
	pthread_t	thread;
	int			error;

	sx_threads_begin();
	error = pthread_create(&thread, NULL, decode_all, work);
	sx_threads_end();
	if (error != 0)
		elog(ERROR, "could not start a thread: %d", error);
	pthread_join(thread, NULL);
	if (work->failed)
		sx_format_raise_failure(work->buffer);
}

static char *
where(void *arg, const SxRow *row)
{
	return psprintf("record %d", (int) row->tag);
}

/* format_decode(format, records, type, options) */
Datum
format_test_decode(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	const SxFormatRoutine *routine = sx_format_routine(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	List	   *list = options_of(PG_GETARG_ARRAYTYPE_P(3));
	SxFormatOptions *options = sx_format_options_parse(list);
	SxFormatTarget target = {.desc = desc_of(fcinfo, 2)};
	bool		quarantine = false;
	ListCell   *lc;
	Work		work = {0};
	SxFiller   *filler;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(target.desc, &TTSOpsVirtual);

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, list)
		quarantine |= strcmp(((DefElem *) lfirst(lc))->defname, "on_error") == 0;
	routine->check(&target, options);
	work.decoder = routine->open_decoder(&target, options);
	work.buffer = sx_row_buffer_create(target.desc->natts, true);
	work.records = records_of(PG_GETARG_ARRAYTYPE_P(1));
	decode_on_thread(&work);
	filler = sx_filler_create(&target, options, quarantine, where, NULL);
	for (int64 i = 0; i < work.buffer->nrows; i++)
	{
		SxRow	   *row = sx_row_buffer_row(work.buffer, i);
		Datum		values[5] = {0};
		bool		nulls[5] = {0};
		SxFill		fate;

		ExecClearTuple(slot);
		fate = sx_filler_fill(filler, work.buffer, i, MaxAttrNumber, slot);
		ExecStoreVirtualTuple(slot);
		values[0] = Int32GetDatum((int32) row->tag);
		nulls[1] = fate != SX_FILL_ROW;
		if (!nulls[1])
		{
			bool		is_varlena;
			Oid			output;

			getTypeOutputInfo(RECORDOID, &output, &is_varlena);
			BlessTupleDesc(slot->tts_tupleDescriptor);
			values[1] = CStringGetTextDatum(OidOutputFunctionCall(output, ExecFetchSlotHeapTupleDatum(slot)));
		}
		values[2] = CStringGetTextDatum(fate == SX_FILL_ROW ? "row" : fate == SX_FILL_DROPPED ? "dropped" : "quarantine");
		nulls[3] = row->error == NULL;
		if (!nulls[3])
			values[3] = CStringGetTextDatum(row->error);
		nulls[4] = row->raw == NULL;
		if (!nulls[4])
			values[4] = PointerGetDatum(cstring_to_text_with_len(row->raw, row->raw_len));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	sx_decoder_close(work.decoder);
	sx_row_buffer_destroy(work.buffer);
	return (Datum) 0;
}

static TupleTableSlot *
slot_of_value(Datum value, TupleDesc desc)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(value);
	HeapTupleData tuple = {.t_len = HeapTupleHeaderGetDatumLength(header), .t_data = header};
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);

	heap_deform_tuple(&tuple, desc, slot->tts_values, slot->tts_isnull);
	return ExecStoreVirtualTuple(slot);
}

/* format_encode(format, value, options) */
Datum
format_test_encode(PG_FUNCTION_ARGS)
{
	const SxFormatRoutine *routine = sx_format_routine(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	SxFormatOptions *options = sx_format_options_parse(options_of(PG_GETARG_ARRAYTYPE_P(2)));
	SxFormatTarget target = {.desc = desc_of(fcinfo, 1)};
	StringInfoData out;

	initStringInfo(&out);
	routine->check(&target, options);
	if (!sx_encode(routine->open_encoder(&target, options),
				   slot_of_value(PG_GETARG_DATUM(1), target.desc), &out))
		PG_RETURN_NULL();
	PG_RETURN_BYTEA_P(cstring_to_text_with_len(out.data, out.len));
}

/* Processor time: others may work on the same machine. */
static double
cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1e9 + now.tv_nsec;
}

/* format_bench(format, records, type, times, options) */
Datum
format_test_bench(PG_FUNCTION_ARGS)
{
	const SxFormatRoutine *routine = sx_format_routine(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	SxFormatOptions *options = sx_format_options_parse(options_of(PG_GETARG_ARRAYTYPE_P(4)));
	SxFormatTarget target = {.desc = desc_of(fcinfo, 2)};
	int			times = PG_GETARG_INT32(3);
	Work		work = {0};
	TupleTableSlot *slot = MakeSingleTupleTableSlot(target.desc, &TTSOpsVirtual);
	SxEncoder  *encoder = routine->open_encoder(&target, options);
	SxFiller   *filler = sx_filler_create(&target, options, false, where, NULL);
	StringInfoData out;
	TupleDesc	result_desc;
	Datum		values[5];
	bool		nulls[5] = {0};
	double		since;

	get_call_result_type(fcinfo, NULL, &result_desc);
	initStringInfo(&out);
	work.decoder = routine->open_decoder(&target, options);
	work.buffer = sx_row_buffer_create(target.desc->natts, true);
	work.records = records_of(PG_GETARG_ARRAYTYPE_P(1));
	decode_all(&work);			/* warm */
	sx_row_buffer_reset(work.buffer, SIZE_MAX);
	since = cpu_ns();
	for (int i = 0; i < times; i++)
		decode_all(&work);
	values[0] = Int64GetDatum(work.buffer->nrows);
	values[1] = Float8GetDatum((cpu_ns() - since) / work.buffer->nrows);
	since = cpu_ns();
	for (int64 row = 0; row < work.buffer->nrows; row++)
	{
		ExecClearTuple(slot);
		(void) sx_filler_fill(filler, work.buffer, row, MaxAttrNumber, slot);
		ExecStoreVirtualTuple(slot);
	}
	values[2] = Float8GetDatum((cpu_ns() - since) / work.buffer->nrows);
	since = cpu_ns();
	for (int64 row = 0; row < work.buffer->nrows; row++)
	{
		ExecClearTuple(slot);
		(void) sx_filler_fill(filler, work.buffer, row, MaxAttrNumber, slot);
		ExecStoreVirtualTuple(slot);
		resetStringInfo(&out);
		(void) sx_encode(encoder, slot, &out);
	}
	values[3] = Float8GetDatum((cpu_ns() - since) / work.buffer->nrows);
	values[4] = Int64GetDatum(sx_row_buffer_bytes(work.buffer));
	sx_decoder_close(work.decoder);
	sx_row_buffer_destroy(work.buffer);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(result_desc), values, nulls));
}
