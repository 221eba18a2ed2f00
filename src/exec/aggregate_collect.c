/*
 * aggregate_collect.c
 *		Aggregates whose state is the list of their arguments.
 *
 * For transition values that cannot be written, ordered-set aggregates,
 * DISTINCT and ORDER BY. Adding a row appends its bytes; nothing is read until a
 * result is due, then
 *
 *	 decode all rows; sort them, drop those equal to their neighbour (DISTINCT)
 *	 run the transition function over them, then the final function
 *
 * in the context of a single group. Rows that compare equal are taken in the
 * order in which they came. With DISTINCT a row whose bytes are there already is
 * not added; rows that are equal with other bytes fall at the end.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/memutils.h"
#include "utils/sortsupport.h"

#include "exec/aggregate_call.h"

typedef struct SxAggSort
{
	Oid			operator;
	Oid			collation;
	bool		nulls_first;
} SxAggSort;

/* The rows of one group, decoded. */
typedef struct Rows
{
	int			ninputs;
	int			nsort;
	const int  *sort_inputs;
	SortSupport sort;
	Datum	   *values;			/* [row * ninputs + input] */
	bool	   *nulls;
} Rows;

/* Columns of DISTINCT come first; they include those of ORDER BY. */
void
sx_collected_prepare(SxAggCall *call)
{
	Aggref	   *aggref = call->plan->aggref;
	List	   *clauses = aggref->aggdistinct != NIL ? aggref->aggdistinct : aggref->aggorder;
	ListCell   *cell;

	if (AGGKIND_IS_ORDERED_SET(aggref->aggkind))
		return;					/* they sort in their own functions */
	call->nsort = list_length(clauses);
	call->ndistinct = list_length(aggref->aggdistinct);
	call->sort_inputs = palloc0((call->nsort + 1) * sizeof(int));
	call->sorts = palloc0((call->nsort + 1) * sizeof(SxAggSort));
	foreach(cell, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, cell);
		TargetEntry *entry = get_sortgroupclause_tle(clause, aggref->args);
		SxAggSort  *sort = &call->sorts[foreach_current_index(cell)];

		call->sort_inputs[foreach_current_index(cell)] = entry->resno - 1;
		sort->operator = clause->sortop;
		sort->collation = exprCollation((Node *) entry->expr);
		sort->nulls_first = clause->nulls_first;
	}
}

void
sx_collected_init(SxAggCall *call, SxCollected *collected)
{
	memset(collected, 0, sizeof(SxCollected));
}

static void
append_row(SxAggCall *call, StringInfo out, const SxChunk *chunk, int row,
		   const SxDatumCodec *codecs, int n, const AttrNumber *columns)
{
	Datum		values[FUNC_MAX_ARGS * 2];
	bool		nulls[FUNC_MAX_ARGS * 2];

	if (n > lengthof(values))
		elog(ERROR, "aggregate with too many arguments");
	for (int i = 0; i < n; i++)
	{
		const SxChunkColumn *column = sx_chunk_column(chunk, columns[i]);

		values[i] = column->values[row];
		nulls[i] = column->nulls[row];
	}
	sx_row_encode(codecs, n, out, values, nulls);
}

/* Direct arguments are the same in all rows of a group; the first row gives them. */
static void
keep_direct(SxAggCall *call, SxCollected *collected, const SxChunk *chunk, int row)
{
	StringInfoData bytes;

	initStringInfo(&bytes);
	append_row(call, &bytes, chunk, row, call->direct_codecs, call->plan->ndirect,
			   call->plan->direct);
	collected->direct = bytes.data;
	collected->directlen = bytes.len;
}

static bool
strict_skips(const SxAggCall *call, const SxChunk *chunk, int row)
{
	if (!call->transfn.fn_strict)
		return false;
	for (int i = 0; i < call->ntrans; i++)
		if (sx_chunk_column(chunk, call->plan->inputs[i])->nulls[row])
			return true;
	return false;
}

/* Fills the set of rows that are there, before the first one of a batch is added. */
static void
remember_rows(SxAggCall *call, SxCollected *collected)
{
	SxReader	in = {collected->rows.data, collected->rows.data + collected->rows.len};
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "streamx distinct",
												  ALLOCSET_SMALL_SIZES);
	Datum		values[FUNC_MAX_ARGS * 2];
	bool		nulls[FUNC_MAX_ARGS * 2];

	collected->seen = sx_byte_set_make(collected->n + 1);
	for (uint64 i = 0; i < collected->n; i++)
	{
		const char *start = in.p;
		MemoryContext oldcontext = MemoryContextSwitchTo(scratch);

		sx_row_decode(call->input_codecs, call->plan->ninputs, &in, values, nulls);
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(scratch);
		sx_byte_set_add(collected->seen, start, in.p - start);
	}
	MemoryContextDelete(scratch);
}

/* counts: the row passes FILTER. */
void
sx_collected_add(SxAggCalls *calls, SxAggCall *call, SxCollected *collected,
				 const SxChunk *chunk, int row, bool counts)
{
	MemoryContext oldcontext =
		MemoryContextSwitchTo(calls->aggstate->curaggcontext->ecxt_per_tuple_memory);
	StringInfo	rows = &collected->rows;

	if (call->plan->ndirect > 0 && collected->direct == NULL)
		keep_direct(call, collected, chunk, row);
	if (counts && !strict_skips(call, chunk, row))
	{
		int			start;

		if (rows->data == NULL)
		{
			rows->maxlen = 64;	/* there may be many groups with a row each */
			rows->data = palloc(rows->maxlen);
			rows->data[0] = '\0';
		}
		if (call->ndistinct > 0 && collected->seen == NULL)
			remember_rows(call, collected);
		start = rows->len;
		append_row(call, rows, chunk, row, call->input_codecs, call->plan->ninputs,
				   call->plan->inputs);
		if (call->ndistinct > 0 &&
			!sx_byte_set_add(collected->seen, rows->data + start, rows->len - start))
			rows->len = start;
		else
			collected->n++;
	}
	MemoryContextSwitchTo(oldcontext);
}

static void
append_bytes(SxCollected *into, const char *bytes, int len)
{
	if (into->rows.data == NULL)
		initStringInfo(&into->rows);
	appendBinaryStringInfo(&into->rows, bytes, len);
}

/* Rows whose bytes are there already stay away. */
static void
combine_distinct(SxAggCall *call, SxCollected *into, const SxCollected *from)
{
	SxReader	in = {from->rows.data, from->rows.data + from->rows.len};
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "streamx distinct",
												  ALLOCSET_SMALL_SIZES);
	Datum		values[FUNC_MAX_ARGS * 2];
	bool		nulls[FUNC_MAX_ARGS * 2];

	if (into->seen == NULL)
		remember_rows(call, into);
	for (uint64 i = 0; i < from->n; i++)
	{
		const char *start = in.p;
		MemoryContext oldcontext = MemoryContextSwitchTo(scratch);

		sx_row_decode(call->input_codecs, call->plan->ninputs, &in, values, nulls);
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(scratch);
		if (!sx_byte_set_add(into->seen, start, in.p - start))
			continue;
		append_bytes(into, start, in.p - start);
		into->n++;
	}
	MemoryContextDelete(scratch);
}

/* The rows of both, those of into first. */
void
sx_collected_combine(SxAggCalls *calls, SxAggCall *call, SxCollected *into, const SxCollected *from)
{
	MemoryContext oldcontext =
		MemoryContextSwitchTo(calls->aggstate->curaggcontext->ecxt_per_tuple_memory);

	if (into->direct == NULL)
	{
		into->direct = from->direct;
		into->directlen = from->directlen;
	}
	if (from->n > 0 && call->ndistinct > 0)
		combine_distinct(call, into, from);
	else if (from->n > 0)
	{
		append_bytes(into, from->rows.data, from->rows.len);
		into->n += from->n;
	}
	MemoryContextSwitchTo(oldcontext);
}

/*
 * The rows are preceded by their length, so that a value can be taken apart
 * without decoding them.
 */
void
sx_collected_encode(SxAggCall *call, const SxCollected *collected, StringInfo out)
{
	if (call->plan->ndirect > 0)
	{
		sx_varint_append(out, collected->directlen);
		if (collected->directlen > 0)
			appendBinaryStringInfo(out, collected->direct, collected->directlen);
	}
	sx_varint_append(out, collected->n);
	sx_varint_append(out, collected->rows.len);
	if (collected->rows.len > 0)
		appendBinaryStringInfo(out, collected->rows.data, collected->rows.len);
}

void
sx_collected_decode(SxAggCall *call, SxCollected *collected, SxReader *in)
{
	uint64		len;

	memset(collected, 0, sizeof(SxCollected));
	if (call->plan->ndirect > 0)
	{
		collected->directlen = sx_read_varint(in);
		if (collected->directlen > 0)
		{
			const char *bytes = sx_read_bytes(in, collected->directlen);

			collected->direct = palloc(collected->directlen);
			memcpy(collected->direct, bytes, collected->directlen);
		}
	}
	collected->n = sx_read_varint(in);
	len = sx_read_varint(in);
	if (len > 0)
	{
		const char *bytes = sx_read_bytes(in, len);
		StringInfo	rows = &collected->rows;

		rows->maxlen = len + len / 4 + 64;
		rows->data = MemoryContextAllocHuge(CurrentMemoryContext, rows->maxlen);
		memcpy(rows->data, bytes, len);
		rows->len = len;
	}
}

static int
compare_rows(const void *pa, const void *pb, void *arg)
{
	const Rows *rows = arg;
	int			a = *(const int *) pa;
	int			b = *(const int *) pb;

	for (int i = 0; i < rows->nsort; i++)
	{
		Size		ia = (Size) a * rows->ninputs + rows->sort_inputs[i];
		Size		ib = (Size) b * rows->ninputs + rows->sort_inputs[i];
		int			order = ApplySortComparator(rows->values[ia], rows->nulls[ia],
												rows->values[ib], rows->nulls[ib],
												&rows->sort[i]);

		if (order != 0)
			return order;
	}
	CHECK_FOR_INTERRUPTS();
	return a < b ? -1 : a > b;
}

static bool
same_row(const Rows *rows, int ndistinct, int a, int b)
{
	for (int i = 0; i < ndistinct; i++)
	{
		Size		ia = (Size) a * rows->ninputs + rows->sort_inputs[i];
		Size		ib = (Size) b * rows->ninputs + rows->sort_inputs[i];

		if (ApplySortComparator(rows->values[ia], rows->nulls[ia],
								rows->values[ib], rows->nulls[ib], &rows->sort[i]) != 0)
			return false;
	}
	return true;
}

static void
decode_rows(SxAggCall *call, const SxCollected *collected, Rows *rows)
{
	SxReader	in = {collected->rows.data, collected->rows.data + collected->rows.len};
	Size		cells = (Size) collected->n * call->plan->ninputs + 1;

	if (collected->n > PG_INT32_MAX)
		sx_reader_short();
	rows->ninputs = call->plan->ninputs;
	rows->nsort = call->nsort;
	rows->sort_inputs = call->sort_inputs;
	rows->values = MemoryContextAllocHuge(CurrentMemoryContext, cells * sizeof(Datum));
	rows->nulls = MemoryContextAllocHuge(CurrentMemoryContext, cells * sizeof(bool));
	for (uint64 i = 0; i < collected->n; i++)
		sx_row_decode(call->input_codecs, rows->ninputs, &in,
					  rows->values + i * rows->ninputs, rows->nulls + i * rows->ninputs);
	rows->sort = palloc0((call->nsort + 1) * sizeof(SortSupportData));
	for (int i = 0; i < call->nsort; i++)
	{
		rows->sort[i].ssup_cxt = CurrentMemoryContext;
		rows->sort[i].ssup_collation = call->sorts[i].collation;
		rows->sort[i].ssup_nulls_first = call->sorts[i].nulls_first;
		PrepareSortSupportFromOrderingOp(call->sorts[i].operator, &rows->sort[i]);
	}
}

static void
advance_over(SxAggCalls *calls, SxAggCall *call, const Rows *rows, const int *order, int n,
			 SxAggValue *value)
{
	MemoryContext temporary = calls->temporary->ecxt_per_tuple_memory;
	MemoryContext oldcontext = MemoryContextSwitchTo(temporary);

	for (int i = 0; i < n; i++)
	{
		Size		first = (Size) order[i] * rows->ninputs;

		if (i > 0 && call->ndistinct > 0 &&
			same_row(rows, call->ndistinct, order[i - 1], order[i]))
			continue;
		for (int a = 0; a < call->ntrans; a++)
		{
			call->trans_call->args[a + 1].value = rows->values[first + a];
			call->trans_call->args[a + 1].isnull = rows->nulls[first + a];
		}
		sx_agg_value_advance(calls, call, value);
		MemoryContextReset(temporary);
		CHECK_FOR_INTERRUPTS();
	}
	MemoryContextSwitchTo(oldcontext);
}

/* In the context of a single group; CurrentMemoryContext is its memory. */
void
sx_collected_finish(SxAggCalls *calls, int number, SxCollected *collected,
					Datum *result, bool *isnull)
{
	SxAggCall  *call = &calls->calls[number];
	ExprContext *before = calls->aggstate->curaggcontext;
	Rows		rows = {0};
	int			n = (int) collected->n;
	int		   *order;
	SxAggValue	value;
	Datum	   *direct = NULL;
	bool	   *direct_nulls = NULL;

	sx_agg_calls_use(calls, calls->single);
	calls->aggstate->curpertrans = &calls->pertrans[number];
	decode_rows(call, collected, &rows);
	order = MemoryContextAllocHuge(CurrentMemoryContext, ((Size) n + 1) * sizeof(int));
	for (int i = 0; i < n; i++)
		order[i] = i;
	if (call->nsort > 0)
		qsort_arg(order, n, sizeof(int), compare_rows, &rows);
	sx_agg_value_init(calls, call, &value);
	advance_over(calls, call, &rows, order, n, &value);

	if (call->plan->ndirect > 0 && collected->directlen > 0)
	{
		SxReader	in = {collected->direct, collected->direct + collected->directlen};

		direct = palloc(call->plan->ndirect * sizeof(Datum));
		direct_nulls = palloc(call->plan->ndirect * sizeof(bool));
		sx_row_decode(call->direct_codecs, call->plan->ndirect, &in, direct, direct_nulls);
	}
	calls->aggstate->curpertrans = NULL;
	sx_agg_value_finish(calls, number, &value, direct, direct_nulls, result, isnull);
	sx_agg_calls_use(calls, before);
}
