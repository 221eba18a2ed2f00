/*
 * aggregate_call.c
 *		Transitions, bytes and results of aggregates; see aggregate_call.h.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "executor/executor.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "exec/aggregate_call.h"

#define VALUE_VERSION		1
#define VALUE_HAS_NULLS		0x01
#define VALUE_HAS_DEAD		0x02

static void
look_up(Oid oid, Expr *expr, FmgrInfo *function)
{
	fmgr_info(oid, function);
	fmgr_info_set_expr((Node *) expr, function);
}

/*
 * Functions are looked up per batch: see sx_group_key_begin. The EState and its
 * contexts are children of CurrentMemoryContext.
 */
void
sx_agg_calls_begin(SxAggCalls *calls)
{
	AggState   *aggstate = makeNode(AggState);

	calls->estate = CreateExecutorState();
	calls->live = CreateExprContext(calls->estate);
	calls->single = CreateExprContext(calls->estate);
	calls->read = CreateExprContext(calls->estate);
	calls->temporary = CreateExprContext(calls->estate);
	aggstate->ss.ps.state = calls->estate;
	aggstate->ss.ps.ps_ExprContext = calls->single;
	aggstate->tmpcontext = calls->temporary;
	aggstate->aggcontexts = palloc(sizeof(ExprContext *));
	aggstate->pertrans = calls->pertrans;
	aggstate->peragg = calls->peragg;
	aggstate->numaggs = calls->n;
	aggstate->numtrans = calls->n;
	calls->aggstate = aggstate;
	sx_agg_calls_use(calls, calls->live);

	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];
		Oid			collation = call->plan->aggref->inputcollid;

		if (call->native != SX_NATIVE_NONE)
			continue;
		look_up(call->transfn_oid, call->trans_expr, &call->transfn);
		InitFunctionCallInfoData(*call->trans_call, &call->transfn, call->ntrans + 1,
								 collation, (Node *) aggstate, NULL);
		if (OidIsValid(call->finalfn_oid))
		{
			look_up(call->finalfn_oid, call->final_expr, &call->finalfn);
			InitFunctionCallInfoData(*call->final_call, &call->finalfn, call->nfinal,
									 collation, (Node *) aggstate, NULL);
		}
		if (call->strategy == SX_AGG_SERIALIZE)
		{
			look_up(call->serialfn_oid, call->serial_expr, &call->serialfn);
			look_up(call->deserialfn_oid, call->deserial_expr, &call->deserialfn);
		}
		if ((calls->combines && call->strategy != SX_AGG_COLLECT) ||
			call->strategy == SX_AGG_SERIALIZE)
		{
			look_up(call->combinefn_oid, call->combine_expr, &call->combinefn);
			InitFunctionCallInfoData(*call->combine_call, &call->combinefn, 2, collation,
									 (Node *) aggstate, NULL);
		}
	}
}

void
sx_agg_calls_end(SxAggCalls *calls)
{
	FreeExecutorState(calls->estate);
	calls->estate = NULL;
	calls->aggstate = NULL;
}

void
sx_agg_calls_use(SxAggCalls *calls, ExprContext *context)
{
	calls->aggstate->curaggcontext = context;
	calls->aggstate->aggcontexts[0] = context;
}

static inline MemoryContext
value_memory(SxAggCalls *calls)
{
	return calls->aggstate->curaggcontext->ecxt_per_tuple_memory;
}

static inline void
set_current(SxAggCalls *calls, int number, bool finishing)
{
	calls->aggstate->curpertrans = finishing ? NULL : &calls->pertrans[number];
	calls->aggstate->curperagg = finishing ? &calls->peragg[number] : NULL;
}

void
sx_agg_value_init(SxAggCalls *calls, SxAggCall *call, SxAggValue *value)
{
	value->isnull = call->initnull;
	value->started = !call->initnull;
	value->value = (Datum) 0;
	if (!call->initnull)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(value_memory(calls));

		value->value = datumCopy(call->initval, call->transbyval, call->translen);
		MemoryContextSwitchTo(oldcontext);
	}
}

/*
 * Moves a new transition value into the aggregate context and frees the old
 * one. A function may have made it there already as an expanded object.
 */
static void
keep_new_value(SxAggCalls *calls, SxAggCall *call, SxAggValue *value, Datum new, bool isnull)
{
	MemoryContext memory = value_memory(calls);

	if (isnull)
		new = (Datum) 0;
	else if (!(DatumIsReadWriteExpandedObject(new, false, call->translen) &&
			   MemoryContextGetParent(DatumGetEOHP(new)->eoh_context) == memory))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(memory);

		new = datumCopy(new, call->transbyval, call->translen);
		MemoryContextSwitchTo(oldcontext);
	}
	if (!value->isnull)
	{
		if (DatumIsReadWriteExpandedObject(value->value, false, call->translen))
			DeleteExpandedObject(value->value);
		else
			pfree(DatumGetPointer(value->value));
	}
	value->value = new;
}

/* One transition; the arguments are in call->trans_call. Temporary memory is current. */
void
sx_agg_value_advance(SxAggCalls *calls, SxAggCall *call, SxAggValue *value)
{
	FunctionCallInfo fcinfo = call->trans_call;
	Datum		new;

	if (call->transfn.fn_strict)
	{
		for (int i = 1; i <= call->ntrans; i++)
			if (fcinfo->args[i].isnull)
				return;
		if (!value->started)
		{
			/* the first argument becomes the state: the types are compatible */
			MemoryContext oldcontext = MemoryContextSwitchTo(value_memory(calls));

			value->value = datumCopy(fcinfo->args[1].value, call->transbyval, call->translen);
			value->isnull = false;
			value->started = true;
			MemoryContextSwitchTo(oldcontext);
			return;
		}
		if (value->isnull)
			return;				/* it made itself NULL, and stays so */
	}
	fcinfo->args[0].value = value->value;
	fcinfo->args[0].isnull = value->isnull;
	fcinfo->isnull = false;
	new = FunctionCallInvoke(fcinfo);
	if (call->transbyval)
		value->value = new;
	else if (DatumGetPointer(new) != DatumGetPointer(value->value))
		keep_new_value(calls, call, value, new, fcinfo->isnull);
	value->isnull = fcinfo->isnull;
	value->started = true;
}

void
sx_agg_values_init(SxAggCalls *calls, char *values)
{
	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];

		if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
			*(int64 *) (values + call->offset) = 0;
		else if (call->native != SX_NATIVE_NONE)
			memset(values + call->offset, 0, sizeof(SxNativeSum));
		else if (call->strategy == SX_AGG_COLLECT)
			sx_collected_init(call, (SxCollected *) (values + call->offset));
		else
			sx_agg_value_init(calls, call, (SxAggValue *) (values + call->offset));
	}
}

static inline bool
passes_filter(const SxChunkColumn *filter, int row)
{
	return filter == NULL || (!filter->nulls[row] && DatumGetBool(filter->values[row]));
}

static void
advance_native(SxAggCall *call, const SxChunkColumn *filter, const SxChunkColumn *argument,
			   int n, const int *rows, char *const *values)
{
	for (int i = 0; i < n; i++)
	{
		char	   *value = values[i] + call->offset;
		int			row = rows[i];

		if (!passes_filter(filter, row) || (argument != NULL && argument->nulls[row]))
			continue;
		if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
			(*(int64 *) value)++;
		else
		{
			SxNativeSum *sum = (SxNativeSum *) value;

			sum->n++;
			sum->sum += DatumGetInt64(argument->values[row]);
		}
	}
}

static void
advance_values(SxAggCalls *calls, SxAggCall *call, const SxChunkColumn *filter,
			   const SxChunkColumn *const *inputs, int n, const int *rows, char *const *values)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->temporary->ecxt_per_tuple_memory);

	for (int i = 0; i < n; i++)
	{
		int			row = rows[i];

		if (!passes_filter(filter, row))
			continue;
		for (int a = 0; a < call->ntrans; a++)
		{
			call->trans_call->args[a + 1].value = inputs[a]->values[row];
			call->trans_call->args[a + 1].isnull = inputs[a]->nulls[row];
		}
		sx_agg_value_advance(calls, call, (SxAggValue *) (values[i] + call->offset));
		MemoryContextReset(calls->temporary->ecxt_per_tuple_memory);
	}
	MemoryContextSwitchTo(oldcontext);
}

void
sx_agg_values_advance(SxAggCalls *calls, const SxChunk *chunk, int n,
					  const int *rows, char *const *values)
{
	for (int c = 0; c < calls->n; c++)
	{
		SxAggCall  *call = &calls->calls[c];
		const SxPlanAggregate *plan = call->plan;
		const SxChunkColumn *inputs[FUNC_MAX_ARGS];
		const SxChunkColumn *filter = plan->filter ? sx_chunk_column(chunk, plan->filter) : NULL;

		set_current(calls, c, false);
		for (int a = 0; a < call->ntrans && a < plan->ninputs; a++)
			inputs[a] = sx_chunk_column(chunk, plan->inputs[a]);
		if (call->native != SX_NATIVE_NONE)
			advance_native(call, filter, call->native == SX_NATIVE_COUNT ? NULL : inputs[0],
						   n, rows, values);
		else if (call->strategy == SX_AGG_COLLECT)
			for (int i = 0; i < n; i++)
				sx_collected_add(calls, call, (SxCollected *) (values[i] + call->offset),
								 chunk, rows[i], passes_filter(filter, rows[i]));
		else
			advance_values(calls, call, filter, inputs, n, rows, values);
	}
}

static void
encode_serialized(SxAggCalls *calls, SxAggCall *call, const SxAggValue *value, StringInfo out)
{
	LOCAL_FCINFO(fcinfo, 1);
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->temporary->ecxt_per_tuple_memory);
	Datum		bytes;

	InitFunctionCallInfoData(*fcinfo, &call->serialfn, 1, InvalidOid,
							 (Node *) calls->aggstate, NULL);
	fcinfo->args[0].value = value->value;
	fcinfo->args[0].isnull = false;
	bytes = FunctionCallInvoke(fcinfo);
	if (fcinfo->isnull)
		elog(ERROR, "serial function %u returned NULL", call->serialfn_oid);
	sx_varint_append(out, VARSIZE_ANY_EXHDR(DatumGetPointer(bytes)));
	appendBinaryStringInfo(out, VARDATA_ANY(DatumGetPointer(bytes)),
						   VARSIZE_ANY_EXHDR(DatumGetPointer(bytes)));
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(calls->temporary->ecxt_per_tuple_memory);
}

/*
 * What a deserial function makes lies anywhere; combined with nothing it becomes
 * a value as the transition function expects it, in the aggregate context.
 */
static void
decode_serialized(SxAggCalls *calls, SxAggCall *call, SxAggValue *value, SxReader *in)
{
	LOCAL_FCINFO(fcinfo, 2);
	FunctionCallInfo combine = call->combine_call;
	uint64		len = sx_read_varint(in);
	const char *bytes = sx_read_bytes(in, len);
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->temporary->ecxt_per_tuple_memory);
	bytea	   *wrapped = palloc(VARHDRSZ + len);
	Datum		internal;
	bool		isnull;

	SET_VARSIZE(wrapped, VARHDRSZ + len);
	memcpy(VARDATA(wrapped), bytes, len);
	InitFunctionCallInfoData(*fcinfo, &call->deserialfn, 2, InvalidOid,
							 (Node *) calls->aggstate, NULL);
	fcinfo->args[0].value = PointerGetDatum(wrapped);
	fcinfo->args[0].isnull = false;
	fcinfo->args[1].value = (Datum) 0;	/* there for type safety only */
	fcinfo->args[1].isnull = false;
	internal = FunctionCallInvoke(fcinfo);
	isnull = fcinfo->isnull;

	combine->args[0].value = (Datum) 0;
	combine->args[0].isnull = true;
	combine->args[1].value = internal;
	combine->args[1].isnull = isnull;
	combine->isnull = false;
	value->value = FunctionCallInvoke(combine);
	value->isnull = combine->isnull;
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(calls->temporary->ecxt_per_tuple_memory);
}

static void
encode_native(const SxAggCall *call, const char *value, StringInfo out)
{
	const SxNativeSum *sum = (const SxNativeSum *) value;

	if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
	{
		sx_varint_append(out, *(const int64 *) value);
		return;
	}
	sx_varint_append(out, sum->n);
	if (sum->sum == (int64) sum->sum)
	{
		sx_varint_append(out, 0);
		sx_varint_append(out, sx_zigzag((int64) sum->sum));
	}
	else
	{
		sx_varint_append(out, 1);
		appendBinaryStringInfo(out, (const char *) &sum->sum, sizeof(int128));
	}
}

static void
decode_native(const SxAggCall *call, char *value, SxReader *in)
{
	SxNativeSum *sum = (SxNativeSum *) value;

	if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
	{
		*(int64 *) value = sx_read_varint(in);
		return;
	}
	sum->n = sx_read_varint(in);
	if (sx_read_varint(in) == 0)
		sum->sum = sx_unzigzag(sx_read_varint(in));
	else
		memcpy(&sum->sum, sx_read_bytes(in, sizeof(int128)), sizeof(int128));
}

static inline bool
has_null(const SxAggCall *call, const char *value)
{
	return call->native == SX_NATIVE_NONE && call->strategy != SX_AGG_COLLECT &&
		((const SxAggValue *) value)->isnull;
}

static inline bool
is_dead(const SxAggCall *call, const char *value)
{
	return has_null(call, value) && ((const SxAggValue *) value)->started && call->transfn.fn_strict;
}

static void
append_bitmap(SxAggCalls *calls, const char *values, StringInfo out,
			  bool (*test) (const SxAggCall *call, const char *value))
{
	int			bytes = (calls->n + 7) / 8;
	int			start = out->len;

	enlargeStringInfo(out, bytes);
	memset(out->data + start, 0, bytes);
	out->len += bytes;
	for (int i = 0; i < calls->n; i++)
		if (test(&calls->calls[i], values + calls->calls[i].offset))
			out->data[start + i / 8] |= 1 << (i % 8);
}

void
sx_agg_values_encode(SxAggCalls *calls, const char *values, StringInfo out)
{
	int			flags = 0;

	for (int i = 0; i < calls->n; i++)
	{
		const SxAggCall *call = &calls->calls[i];

		if (has_null(call, values + call->offset))
			flags |= VALUE_HAS_NULLS;
		if (is_dead(call, values + call->offset))
			flags |= VALUE_HAS_DEAD;
	}
	appendStringInfoCharMacro(out, (VALUE_VERSION << 4) | flags);
	if (flags & VALUE_HAS_NULLS)
		append_bitmap(calls, values, out, has_null);
	if (flags & VALUE_HAS_DEAD)
		append_bitmap(calls, values, out, is_dead);
	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];
		const char *value = values + call->offset;

		if (call->native != SX_NATIVE_NONE)
			encode_native(call, value, out);
		else if (call->strategy == SX_AGG_COLLECT)
			sx_collected_encode(call, (const SxCollected *) value, out);
		else if (((const SxAggValue *) value)->isnull)
			 /* in the bitmap */ ;
		else if (call->strategy == SX_AGG_SERIALIZE)
		{
			set_current(calls, i, false);
			encode_serialized(calls, call, (const SxAggValue *) value, out);
		}
		else
			sx_datum_encode(&call->trans_codec, out, ((const SxAggValue *) value)->value);
	}
}

static void
decode_value(SxAggCalls *calls, int number, SxAggValue *value, bool isnull, bool dead,
			 SxReader *in)
{
	SxAggCall  *call = &calls->calls[number];

	value->isnull = isnull;
	value->value = (Datum) 0;
	value->started = !isnull || dead || !call->transfn.fn_strict;
	if (isnull)
		return;
	if (call->strategy == SX_AGG_SERIALIZE)
	{
		set_current(calls, number, false);
		decode_serialized(calls, call, value, in);
	}
	else
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(value_memory(calls));

		value->value = sx_datum_decode(&call->trans_codec, in);
		MemoryContextSwitchTo(oldcontext);
	}
}

void
sx_agg_values_decode(SxAggCalls *calls, char *values, SxReader *in)
{
	int			bytes = (calls->n + 7) / 8;
	unsigned char head = *(const unsigned char *) sx_read_bytes(in, 1);
	const char *nulls = NULL;
	const char *dead = NULL;

	if (head >> 4 != VALUE_VERSION)
		sx_reader_short();
	if (head & VALUE_HAS_NULLS)
		nulls = sx_read_bytes(in, bytes);
	if (head & VALUE_HAS_DEAD)
		dead = sx_read_bytes(in, bytes);
	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];
		char	   *value = values + call->offset;
		int			bit = 1 << (i % 8);

		if (call->native != SX_NATIVE_NONE)
			decode_native(call, value, in);
		else if (call->strategy == SX_AGG_COLLECT)
		{
			MemoryContext oldcontext = MemoryContextSwitchTo(value_memory(calls));

			sx_collected_decode(call, (SxCollected *) value, in);
			MemoryContextSwitchTo(oldcontext);
		}
		else
			decode_value(calls, i, (SxAggValue *) value,
						 nulls != NULL && (nulls[i / 8] & bit),
						 dead != NULL && (dead[i / 8] & bit), in);
	}
}

/* A value of its own; combined with nothing, an internal one is copied. */
static void
copy_value(SxAggCalls *calls, SxAggCall *call, SxAggValue *into, const SxAggValue *from)
{
	*into = *from;
	if (from->isnull)
		return;
	if (call->strategy == SX_AGG_SERIALIZE)
	{
		FunctionCallInfo fcinfo = call->combine_call;
		MemoryContext oldcontext = MemoryContextSwitchTo(calls->temporary->ecxt_per_tuple_memory);

		fcinfo->args[0].value = (Datum) 0;
		fcinfo->args[0].isnull = true;
		fcinfo->args[1].value = from->value;
		fcinfo->args[1].isnull = false;
		fcinfo->isnull = false;
		into->value = FunctionCallInvoke(fcinfo);
		into->isnull = fcinfo->isnull;
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(calls->temporary->ecxt_per_tuple_memory);
	}
	else if (!call->transbyval)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(value_memory(calls));

		into->value = datumCopy(from->value, false, call->translen);
		MemoryContextSwitchTo(oldcontext);
	}
}

/* As nodeAgg.c does it with partial results of workers. */
static void
combine_value(SxAggCalls *calls, SxAggCall *call, SxAggValue *into, const SxAggValue *from)
{
	FunctionCallInfo fcinfo = call->combine_call;
	MemoryContext oldcontext;
	Datum		new;

	if (is_dead(call, (const char *) into))
		return;					/* NULL for good, whatever the other rows are */
	if (is_dead(call, (const char *) from))
	{
		*into = *from;
		return;
	}
	if (call->combinefn.fn_strict)
	{
		if (from->isnull)
			return;
		if (into->isnull)
		{
			copy_value(calls, call, into, from);
			return;
		}
	}
	oldcontext = MemoryContextSwitchTo(calls->temporary->ecxt_per_tuple_memory);
	fcinfo->args[0].value = into->value;
	fcinfo->args[0].isnull = into->isnull;
	fcinfo->args[1].value = MakeExpandedObjectReadOnly(from->value, from->isnull, call->translen);
	fcinfo->args[1].isnull = from->isnull;
	fcinfo->isnull = false;
	new = FunctionCallInvoke(fcinfo);
	if (call->transbyval)
		into->value = new;
	else if (DatumGetPointer(new) != DatumGetPointer(into->value))
		keep_new_value(calls, call, into, new, fcinfo->isnull);
	into->isnull = fcinfo->isnull;
	into->started = into->started || from->started;
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(calls->temporary->ecxt_per_tuple_memory);
}

void
sx_agg_values_copy(SxAggCalls *calls, char *into, const char *from)
{
	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];
		Size		at = call->offset;

		if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
			*(int64 *) (into + at) = *(const int64 *) (from + at);
		else if (call->native != SX_NATIVE_NONE)
			*(SxNativeSum *) (into + at) = *(const SxNativeSum *) (from + at);
		else
		{
			set_current(calls, i, false);
			copy_value(calls, call, (SxAggValue *) (into + at), (const SxAggValue *) (from + at));
		}
	}
}

void
sx_agg_values_combine(SxAggCalls *calls, char *into, const char *from)
{
	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];
		Size		at = call->offset;

		if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
			*(int64 *) (into + at) += *(const int64 *) (from + at);
		else if (call->native != SX_NATIVE_NONE)
		{
			SxNativeSum *sum = (SxNativeSum *) (into + at);
			const SxNativeSum *more = (const SxNativeSum *) (from + at);

			sum->n += more->n;
			sum->sum += more->sum;
		}
		else if (call->strategy == SX_AGG_COLLECT)
			sx_collected_combine(calls, call, (SxCollected *) (into + at),
								 (const SxCollected *) (from + at));
		else
		{
			set_current(calls, i, false);
			combine_value(calls, call, (SxAggValue *) (into + at), (const SxAggValue *) (from + at));
		}
	}
}

static Numeric
int128_to_numeric(int128 number)
{
	const int64 unit = INT64CONST(1000000000000000000);
	Datum		high;
	Datum		low;

	if (number == (int64) number)
		return int64_to_numeric((int64) number);
	high = NumericGetDatum(int128_to_numeric(number / unit));
	low = NumericGetDatum(int64_to_numeric((int64) (number % unit)));
	high = DirectFunctionCall2(numeric_mul, high, NumericGetDatum(int64_to_numeric(unit)));
	return DatumGetNumeric(DirectFunctionCall2(numeric_add, high, low));
}

static void
finish_native(const SxAggCall *call, const char *value, Datum *result, bool *isnull)
{
	const SxNativeSum *sum = (const SxNativeSum *) value;

	*isnull = false;
	if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
	{
		*result = Int64GetDatum(*(const int64 *) value);
		return;
	}
	*isnull = sum->n == 0;
	*result = (Datum) 0;
	if (*isnull)
		return;
	*result = NumericGetDatum(int128_to_numeric(sum->sum));
	if (call->native == SX_NATIVE_AVG)
		*result = DirectFunctionCall2(numeric_div, *result,
									  NumericGetDatum(int64_to_numeric(sum->n)));
}

/* The final function gets direct arguments, and NULLs for the others it asked for. */
void
sx_agg_value_finish(SxAggCalls *calls, int number, SxAggValue *value,
					const Datum *direct, const bool *direct_nulls,
					Datum *result, bool *isnull)
{
	SxAggCall  *call = &calls->calls[number];
	FunctionCallInfo fcinfo = call->final_call;
	Datum		state = MakeExpandedObjectReadOnly(value->value, value->isnull, call->translen);
	bool		any_null = value->isnull;

	*result = state;
	*isnull = value->isnull;
	if (!OidIsValid(call->finalfn_oid))
		return;
	set_current(calls, number, true);
	fcinfo->args[0].value = state;
	fcinfo->args[0].isnull = value->isnull;
	for (int i = 1; i < call->nfinal; i++)
	{
		bool		given = i <= call->plan->ndirect && direct != NULL;

		fcinfo->args[i].value = given ? direct[i - 1] : (Datum) 0;
		fcinfo->args[i].isnull = given ? direct_nulls[i - 1] : true;
		any_null = any_null || fcinfo->args[i].isnull;
	}
	*result = (Datum) 0;
	*isnull = true;
	if (!(call->finalfn.fn_strict && any_null))
	{
		fcinfo->isnull = false;
		*result = FunctionCallInvoke(fcinfo);
		*isnull = fcinfo->isnull;
	}
	calls->aggstate->curperagg = NULL;
}

void
sx_agg_values_finish(SxAggCalls *calls, char *values, Datum *results, bool *nulls)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->single->ecxt_per_tuple_memory);

	for (int i = 0; i < calls->n; i++)
	{
		SxAggCall  *call = &calls->calls[i];
		char	   *value = values + call->offset;

		if (call->native != SX_NATIVE_NONE)
			finish_native(call, value, &results[i], &nulls[i]);
		else if (call->strategy == SX_AGG_COLLECT)
			sx_collected_finish(calls, i, (SxCollected *) value, &results[i], &nulls[i]);
		else
			sx_agg_value_finish(calls, i, (SxAggValue *) value, NULL, NULL,
								&results[i], &nulls[i]);
	}
	MemoryContextSwitchTo(oldcontext);
}
