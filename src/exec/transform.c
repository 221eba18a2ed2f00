/*
 * transform.c
 *		Handlers with state: transform_with_state() and its older forms.
 *
 *	 in the query's first batch: the initial state, key by key
 *	 rows come in:	drop the late ones (time mode event); sort the rest by key
 *	 at the end of the batch:
 *		for each key with rows: handler(key, rows, NULL)
 *		for each timer that is due, the earliest first: handler(key, {}, timer)
 *		remove what goes by its ttl
 *
 * A timer that the handler of rows sets for a time that has passed fires in the
 * same batch; one that the handler of a timer sets fires in a later one. What is
 * kept is described in transform_keys.h.
 *
 * The functions that a handler calls (api/transform_functions.c) find the state of
 * the key that is being handled by sx_transform_current().
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "exec/operator.h"
#include "exec/range_end.h"
#include "exec/transform_handler.h"
#include "exec/transform_rows.h"
#include "exec/transform_state.h"
#include "time/watermark.h"

#define KEY_COLUMN		1
#define ROW_COLUMN		2
#define INITIAL_FETCH	SX_CHUNK_ROWS

/* What goes by a ttl is removed at most this often when nothing else is to be done. */
#define GOING_PAUSE		USECS_PER_SEC

typedef struct Transform
{
	SxOperator	base;
	SxTransformState *ts;
	SxGroupKey *key;
	SxChunk    *chunk;
	TypeCacheEntry *range_type; /* of a window made below */
	TupleDesc	result;			/* of the handler */
	bool		key_text_is_simple; /* can be made while an error is being reported */
	FmgrInfo	key_output;
	TimestampTz next_time;		/* DT_NOBEGIN: not known */

	/* per batch */
	TimestampTz late;			/* SX_TIME_UNSET: nothing is */
	SxKeyedRows *rows;
	SxHandler  *handler;
	Datum	   *row;			/* being emitted */
	bool	   *row_nulls;

	/* the call that runs */
	const char *function;		/* its name */
	Datum		key_value;
	bool		key_isnull;
	char	   *key_text;
	MemoryContext call_context;
} Transform;

/* ---- set-up ---- */

/* Their output functions look nothing up. */
static bool
has_simple_text(Oid type)
{
	switch (type)
	{
		case BOOLOID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case TEXTOID:
		case VARCHAROID:
		case NUMERICOID:
		case FLOAT4OID:
		case FLOAT8OID:
		case UUIDOID:
		case DATEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
			return true;
		default:
			return false;
	}
}

static TupleDesc
result_desc(const SxPlanTransform *transform)
{
	TupleDesc	desc;

	if (!transform->output_scalar)
		return lookup_rowtype_tupdesc_copy(transform->output_type, -1);
	desc = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(desc, 1, "value", transform->output_type, -1, 0);
	return desc;
}

static SxOperator *
transform_open(const SxPlanOperator *plan)
{
	Transform  *t = palloc0(sizeof(Transform));

	t->ts = sx_transform_state_make(plan);
	t->key = sx_group_key_make(plan);
	t->chunk = sx_chunk_make(plan->input);
	sx_chunk_need(t->chunk, plan->input, KEY_COLUMN);
	sx_chunk_need(t->chunk, plan->input, ROW_COLUMN);
	if (plan->watermarked)
		sx_chunk_need(t->chunk, plan->input, plan->event_input);
	if (plan->event_is_range)
		t->range_type = lookup_type_cache(TupleDescAttr(plan->input, plan->event_input - 1)->atttypid,
										  TYPECACHE_RANGE_INFO);
	t->result = result_desc(plan->transform);
	t->key_text_is_simple = has_simple_text(plan->keys->type);
	t->next_time = DT_NOBEGIN;
	return &t->base;
}

static void
transform_begin(SxOperator *op)
{
	Transform  *t = (Transform *) op;
	const SxPlanTransform *transform = op->plan->transform;
	Oid			types[] = {op->plan->keys->type, transform->rows_type, TIMESTAMPTZOID};
	Oid			output;
	bool		is_varlena;

	t->next_time = DT_NOBEGIN;	/* until the batch is done */
	t->late = op->plan->watermarked ? op->late : SX_TIME_UNSET;
	sx_transform_state_begin(t->ts, op);
	sx_group_key_begin(t->key);
	sx_chunk_begin(t->chunk);
	t->rows = sx_keyed_rows_make(t->key, transform->row_type, transform->max_rows);
	t->handler = sx_handler_begin(transform->handler, lengthof(types), types,
								  op->plan->keys->collation, t->result);
	t->function = get_func_name(transform->handler);
	getTypeOutputInfo(op->plan->keys->type, &output, &is_varlena);
	fmgr_info(output, &t->key_output);
	t->row = palloc((op->plan->output->natts + 1) * sizeof(Datum));
	t->row_nulls = palloc((op->plan->output->natts + 1) * sizeof(bool));
	t->call_context = AllocSetContextCreate(CurrentMemoryContext, "streamx handler call",
											ALLOCSET_DEFAULT_SIZES);
}

/* ---- rows ---- */

/* The row's event time, or the end of its window; SX_STATE_NEVER if it has none. */
static int64
event_end(const Transform *t, int row)
{
	const SxPlanOperator *plan = t->base.plan;
	const SxChunkColumn *column = sx_chunk_column(t->chunk, plan->event_input);
	int64		end = SX_STATE_NEVER;

	if (column->nulls[row])
		return SX_STATE_NEVER;
	if (plan->event_is_range)
		return sx_range_end(t->range_type, column->values[row], &end) ? end : SX_STATE_NEVER;
	if (!TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(column->values[row])))
		end = DatumGetTimestampTz(column->values[row]);
	return end;
}

static void
process_chunk(Transform *t)
{
	int			numbers[SX_CHUNK_ROWS];
	int			n = 0;

	for (int row = 0; row < t->chunk->nrows; row++)
	{
		if (t->base.plan->watermarked && event_end(t, row) <= t->late)
			t->base.progress->rows_late++;
		else
			numbers[n++] = row;
	}
	sx_keyed_rows_add(t->rows, t->chunk, n, numbers);
	t->base.progress->rows_taken += n;
	sx_chunk_clear(t->chunk);
}

static bool
transform_receive(SxOperator *op, int input, TupleTableSlot *slot)
{
	Transform  *t = (Transform *) op;

	sx_chunk_add(t->chunk, slot);
	if (t->chunk->nrows == SX_CHUNK_ROWS)
		process_chunk(t);
	return true;
}

/* ---- a call of the handler ---- */

static char *
key_as_text(const Transform *t)
{
	if (t->key_isnull)
		return pstrdup("NULL");
	return OutputFunctionCall((FmgrInfo *) &t->key_output, t->key_value);
}

/* Adds the key to any message that comes out of a handler. */
static void
call_context(void *arg)
{
	Transform  *t = arg;

	if (t->key_text == NULL)
		t->key_text = key_as_text(t);
	errcontext("handler %s, key %s", t->function, t->key_text);
}

static void
check_event_time(const Transform *t, const SxPlanTransform *transform)
{
	TimestampTz event;

	if (t->row_nulls[transform->event_output - 1])
		return;
	event = DatumGetTimestampTz(t->row[transform->event_output - 1]);
	if (event > t->base.late)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_DATA_EXCEPTION),
			 errmsg("the handler returned a row that is older than the watermark"),
			 errdetail("Its event time is %s, and the watermark was %s already: to an operator above, the row is late.",
					   timestamptz_to_str(event), pstrdup(timestamptz_to_str(t->base.late))),
			 errhint("Return rows with an event time after current_watermark(), or leave event_time_column out.")));
}

static void
emit(void *arg, TupleTableSlot *slot)
{
	Transform  *t = arg;
	const SxPlanTransform *transform = t->base.plan->transform;

	slot_getallattrs(slot);
	t->row[0] = t->key_value;
	t->row_nulls[0] = t->key_isnull;
	for (int i = 0; i < transform->natts; i++)
	{
		if (transform->columns[i] == 0)
			continue;
		t->row[transform->columns[i] - 1] = slot->tts_values[i];
		t->row_nulls[transform->columns[i] - 1] = slot->tts_isnull[i];
	}
	if (transform->event_output != 0)
		check_event_time(t, transform);
	sx_operator_emit(&t->base, t->row, t->row_nulls);
}

/* A key whose bytes stay; what is made for it lies in call_context until the next one. */
static void
begin_key(Transform *t, const char *bytes, uint32 len, uint64 hash, uint16 group)
{
	MemoryContext oldcontext;

	MemoryContextReset(t->call_context);
	oldcontext = MemoryContextSwitchTo(t->call_context);
	t->key_text = NULL;
	sx_group_key_decode_columns(t->key, bytes, len, &t->key_value, &t->key_isnull);
	if (!t->key_text_is_simple)
		t->key_text = key_as_text(t);
	MemoryContextSwitchTo(oldcontext);
	sx_transform_begin_key(t->ts, bytes, len, hash, group);
}

static void
call(Transform *t, Datum rows, const TimestampTz *timer, SxHandlerRow row)
{
	Datum		values[SX_HANDLER_ARGUMENTS] = {t->key_value, rows};
	bool		nulls[SX_HANDLER_ARGUMENTS] = {t->key_isnull, false, timer == NULL};
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = call_context,
		.arg = t,
	};

	if (timer != NULL)
		values[2] = TimestampTzGetDatum(*timer);
	error_context_stack = &context;
	sx_transform_enter(t->ts);
	sx_handler_call(t->handler, values, nulls, row, t);
	sx_transform_enter(NULL);
	sx_transform_settle(t->ts);
	error_context_stack = context.previous;
}

static void
handle_rows(void *arg, const SxGroup *group, Datum rows, bool last)
{
	Transform  *t = arg;
	const SxPlanTransform *transform = t->base.plan->transform;

	begin_key(t, group->key, group->keylen, group->hash, group->group);
	if (transform->groups)
		sx_transform_timers_clear(t->ts);
	call(t, rows, NULL, transform->single && !last ? NULL : emit);
	SX_CRASH_POINT("handler");
}

/* ---- timers ---- */

/* what is sorted: time, then where the key is */
enum
{
	TIMER_TIME, TIMER_HASH, TIMER_GROUP, TIMER_KEY, TIMER_COLUMNS
};

typedef struct DueTimers
{
	TupleDesc	desc;
	Tuplesortstate *sort;		/* NULL: none is due */
	TupleTableSlot *slot;
	MemoryContext context;
} DueTimers;

static void
begin_timers(DueTimers *due)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(due->context);
	AttrNumber	columns[] = {TIMER_TIME + 1, TIMER_HASH + 1};
	Oid			operators[] = {Int8LessOperator, Int8LessOperator};
	Oid			collations[] = {InvalidOid, InvalidOid};
	bool		nulls_first[] = {false, false};

	due->desc = CreateTemplateTupleDesc(TIMER_COLUMNS);
	TupleDescInitEntry(due->desc, TIMER_TIME + 1, "time", INT8OID, -1, 0);
	TupleDescInitEntry(due->desc, TIMER_HASH + 1, "hash", INT8OID, -1, 0);
	TupleDescInitEntry(due->desc, TIMER_GROUP + 1, "group", INT4OID, -1, 0);
	TupleDescInitEntry(due->desc, TIMER_KEY + 1, "key", BYTEAOID, -1, 0);
	due->slot = MakeSingleTupleTableSlot(due->desc, &TTSOpsVirtual);
	due->sort = tuplesort_begin_heap(due->desc, 2, columns, operators, collations, nulls_first,
									 work_mem, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(oldcontext);
}

/* An SxStateVisit. */
static bool
note_timer(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	DueTimers  *due = arg;
	SxReader	in = {key->bytes, key->bytes + key->len};
	uint32		len = sx_read_varint(&in);
	bytea	   *bytes = palloc(VARHDRSZ + len);

	CHECK_FOR_INTERRUPTS();
	SET_VARSIZE(bytes, VARHDRSZ + len);
	memcpy(VARDATA(bytes), sx_read_bytes(&in, len), len);
	if (due->sort == NULL)
		begin_timers(due);
	ExecClearTuple(due->slot);
	memset(due->slot->tts_isnull, 0, TIMER_COLUMNS * sizeof(bool));
	due->slot->tts_values[TIMER_TIME] = Int64GetDatum(key->expiry);
	due->slot->tts_values[TIMER_HASH] = Int64GetDatum((int64) key->hash);
	due->slot->tts_values[TIMER_GROUP] = Int32GetDatum(key->group);
	due->slot->tts_values[TIMER_KEY] = PointerGetDatum(bytes);
	ExecStoreVirtualTuple(due->slot);
	tuplesort_puttupleslot(due->sort, due->slot);
	pfree(bytes);
	return true;
}

/* It may have been deleted by the handler of an earlier one. */
static void
fire(Transform *t, TupleTableSlot *slot, Datum no_rows)
{
	const SxPlanTransform *transform = t->base.plan->transform;
	TimestampTz at = DatumGetInt64(slot->tts_values[TIMER_TIME]);
	bytea	   *key = DatumGetByteaPP(slot->tts_values[TIMER_KEY]);

	CHECK_FOR_INTERRUPTS();
	begin_key(t, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key),
			  (uint64) DatumGetInt64(slot->tts_values[TIMER_HASH]),
			  DatumGetInt32(slot->tts_values[TIMER_GROUP]));
	if (!sx_transform_timer_fires(t->ts, at))
		return;
	if (transform->groups)
		sx_transform_timers_clear(t->ts);
	call(t, no_rows, &at, emit);
	if (!transform->groups && sx_transform_timer_fires(t->ts, at))
		sx_transform_timer_delete(t->ts, at);
	SX_CRASH_POINT("timer");
}

static void
fire_timers(Transform *t)
{
	const SxPlanOperator *plan = t->base.plan;
	TimestampTz until = sx_transform_due(t->ts);
	DueTimers	due = {.context = CurrentMemoryContext};
	TupleTableSlot *slot;
	Datum		no_rows;

	if (until == SX_TIME_UNSET || t->base.holds)
		return;
	sx_state_scan_groups(t->base.state, SX_STORE_ID(plan->id, SX_TRANSFORM_TIMERS), t->base.due_first,
						 t->base.due_last, until, note_timer, &due);
	if (due.sort == NULL)
		return;
	t->ts->firing = true;
	no_rows = PointerGetDatum(construct_empty_array(plan->transform->row_type));
	slot = MakeSingleTupleTableSlot(due.desc, &TTSOpsMinimalTuple);
	tuplesort_performsort(due.sort);
	while (tuplesort_gettupleslot(due.sort, true, false, slot, NULL))
	{
		slot_getallattrs(slot);
		fire(t, slot, no_rows);
	}
	t->ts->firing = false;
	ExecDropSingleTupleTableSlot(slot);
	ExecDropSingleTupleTableSlot(due.slot);
	tuplesort_end(due.sort);
}

/* ---- the initial state ---- */

static void
handle_initial(void *arg, const SxGroup *group, Datum rows, bool last)
{
	Transform  *t = arg;

	begin_key(t, group->key, group->keylen, group->hash, group->group);
	call(t, rows, NULL, NULL);
}

static void
collect_initial(Transform *t, SxKeyedRows *rows)
{
	const SxPlanTransform *transform = t->base.plan->transform;
	TupleDesc	desc = CreateTemplateTupleDesc(ROW_COLUMN);
	TupleTableSlot *slot;
	SxChunk    *chunk;
	Oid			relation = transform->initial_relation;
	char	   *text = psprintf("SELECT x.%s, x FROM %s AS x",
								quote_identifier(get_attname(relation, 1, false)),
								quote_qualified_identifier(get_namespace_name(get_rel_namespace(relation)),
														   get_rel_name(relation)));
	int			numbers[SX_CHUNK_ROWS];
	Portal		portal;

	TupleDescInitEntry(desc, KEY_COLUMN, "key", t->base.plan->keys->type, -1, 0);
	TupleDescInitEntry(desc, ROW_COLUMN, "row", transform->initial_type, -1, 0);
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	chunk = sx_chunk_make(desc);
	sx_chunk_need(chunk, desc, KEY_COLUMN);
	sx_chunk_need(chunk, desc, ROW_COLUMN);
	sx_chunk_begin(chunk);
	for (int i = 0; i < SX_CHUNK_ROWS; i++)
		numbers[i] = i;
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	portal = SPI_cursor_open_with_args(NULL, text, 0, NULL, NULL, NULL, true, 0);
	for (;;)
	{
		SPI_cursor_fetch(portal, true, INITIAL_FETCH);
		if (SPI_processed == 0)
			break;
		for (uint64 i = 0; i < SPI_processed; i++)
		{
			ExecClearTuple(slot);
			heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, slot->tts_values, slot->tts_isnull);
			ExecStoreVirtualTuple(slot);
			sx_chunk_add(chunk, slot);
		}
		sx_keyed_rows_add(rows, chunk, chunk->nrows, numbers);
		sx_chunk_clear(chunk);
		SPI_freetuptable(SPI_tuptable);
	}
	SPI_cursor_close(portal);
	SPI_finish();
	ExecDropSingleTupleTableSlot(slot);
}

/* Once in the query's life, whether or not there is an initial state. */
static void
take_initial(Transform *t)
{
	const SxPlanOperator *plan = t->base.plan;
	const SxPlanTransform *transform = plan->transform;
	SxHandler  *of_rows = t->handler;
	Oid			types[] = {plan->keys->type, InvalidOid};
	TupleDesc	nothing;
	SxKeyedRows *rows;

	if (sx_transform_initial_taken(t->ts))
		return;
	sx_transform_initial_take(t->ts);
	if (!OidIsValid(transform->initial_relation))
		return;
	types[1] = get_array_type(transform->initial_type);
	nothing = CreateTemplateTupleDesc(1);
	TupleDescInitEntry(nothing, 1, "nothing", VOIDOID, -1, 0);
	rows = sx_keyed_rows_make(t->key, transform->initial_type, transform->max_rows);
	collect_initial(t, rows);
	t->handler = sx_handler_begin(transform->initial_handler, lengthof(types), types,
								  plan->keys->collation, nothing);
	t->function = get_func_name(transform->initial_handler);
	sx_keyed_rows_visit(rows, handle_initial, t);
	sx_handler_end(t->handler);
	t->handler = of_rows;
	t->function = get_func_name(transform->handler);
}

/* ---- the end of a batch ---- */

/* When a batch is wanted though no rows come: by processing time only. */
static TimestampTz
find_next_time(const Transform *t)
{
	const SxPlanOperator *plan = t->base.plan;
	TimestampTz timer;
	TimestampTz going;

	if (plan->transform->time_mode != SX_TIME_MODE_PROCESSING)
		return DT_NOEND;
	if (t->ts->due_again)
		return t->ts->timestamp;
	timer = sx_state_earliest(t->base.state, SX_STORE_ID(plan->id, SX_TRANSFORM_TIMERS));
	going = sx_state_earliest(t->base.state, SX_STORE_ID(plan->id, SX_TRANSFORM_GOING));
	if (timer != DT_NOEND && plan->transform->groups)
		timer++;
	if (going != DT_NOEND)
		going = Max(going, t->ts->timestamp + GOING_PAUSE);
	return Min(timer, going);
}

static int64
transform_due(SxOperator *op)
{
	Transform  *t = (Transform *) op;
	TimestampTz until = sx_transform_due_by(op->plan->transform, op->evict, op->batch->timestamp);

	return until == SX_TIME_UNSET ? 0 :
		sx_state_due(t->base.state, SX_STORE_ID(op->plan->id, SX_TRANSFORM_TIMERS), until);
}

static void
transform_finish(SxOperator *op)
{
	Transform  *t = (Transform *) op;

	process_chunk(t);
	take_initial(t);
	sx_keyed_rows_visit(t->rows, handle_rows, t);
	fire_timers(t);
	if (op->plan->transform->time_mode == SX_TIME_MODE_PROCESSING)
		sx_transform_remove_gone(t->ts);
	sx_handler_end(t->handler);
	MemoryContextDelete(t->call_context);
	t->next_time = find_next_time(t);
}

static TimestampTz
transform_next_time(SxOperator *op)
{
	if (op->plan->transform->time_mode != SX_TIME_MODE_PROCESSING)
		return DT_NOEND;
	return ((Transform *) op)->next_time;
}

static void
transform_abort(SxOperator *op)
{
	sx_transform_enter(NULL);
	((Transform *) op)->next_time = DT_NOBEGIN;
}

/* ---- EXPLAIN ---- */

static List *
transform_explain(const SxPlan *plan, const SxPlanOperator *op, List *lines)
{
	const SxPlanTransform *transform = op->transform;

	lines = lappend(lines, psprintf("  key %s: %s", op->keys->name, format_type_be(op->keys->type)));
	lines = lappend(lines, psprintf("  handler: %s", format_procedure(transform->handler)));
	for (int i = 0; i < transform->nvariables; i++)
	{
		const SxPlanVariable *variable = &transform->variables[i];

		lines = lappend(lines, psprintf("  state %s: %s of %s%s%s%s", variable->name,
										sx_variable_kind_name(variable->kind),
										variable->kind == SX_VARIABLE_MAP ? format_type_be(variable->key_type) : "",
										variable->kind == SX_VARIABLE_MAP ? " to " : "",
										format_type_be(variable->type),
										variable->ttl > 0 ? ", with a ttl" : ""));
	}
	lines = lappend(lines, pstrdup(op->watermarked ? "  late: event time <= watermark of the batch before" :
								   "  no row is late"));
	if (transform->time_mode != SX_TIME_MODE_NONE)
		lines = lappend(lines, psprintf("  timers: fire when their time %s %s", transform->groups ? "<" : "<=",
										transform->time_mode == SX_TIME_MODE_EVENT ? "watermark" :
										"timestamp of the batch"));
	return lines;
}

const SxOperatorRoutine sx_transform_routine = {
	.name = "handler with state",
	.rows = SX_OPERATOR_TAKES,
	.open = transform_open,
	.state_operators = sx_transform_state_operators,
	.begin = transform_begin,
	.receive = transform_receive,
	.finish = transform_finish,
	.due = transform_due,
	.next_time = transform_next_time,
	.abort = transform_abort,
	.explain = transform_explain,
	.stores = sx_transform_stores,
	.show_open = sx_transform_show_open,
	.show = sx_transform_show,
};
