/*
 * aggregate.c
 *		GROUP BY over a stream: groups are state, touched chunk by chunk.
 *
 *	 for each chunk of rows:
 *		hash the keys; for each row and each window of it: late? drop : an update
 *		(sliding windows are mostly kept as panes: a row is one update then, and
 *		what follows differs, see aggregate_panes.c)
 *		find the groups of the updates in the batch's table
 *		for those new to the batch: fetch what was committed, decode it (while
 *			part of the state is cold, for many chunks together: waiting_rows.h)
 *		for each aggregate: advance it over the updates
 *	 at the end of the batch:
 *		encode and put every touched group, but those that came now and go at once
 *		append:		emit groups with expiry <= evict, then expire them
 *		update:		emit every touched group, then expire
 *		complete:	emit all groups
 *
 * Late rows are judged by the watermark of the batch before, eviction goes by
 * this batch's (semantics 3.2); both compare expiry <= watermark, where expiry is
 * the end of the window or the event time itself.
 *
 * Value of a group: the key's bytes with their varint length, where equal keys
 * can have unequal bytes (the first ones seen stand for the group), then the
 * aggregates' values (aggregate_call.h).
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"

#include "base/crash_point.h"
#include "exec/aggregate.h"
#include "exec/range_end.h"
#include "exec/state_view.h"

#define KEY_BUFFER		(1024 * 1024)	/* bytes of keys after which updates are applied */
#define PREFETCH_GROUPS	32		/* put after so many were prefetched */

static bool
is_watermarked(const SxPlanOperator *plan, SxOutputMode mode)
{
	return plan->key_time != SX_KEY_TIME_NONE && plan->watermarked &&
		mode != SX_OUTPUT_COMPLETE;
}

SxChunk *
sx_aggregate_make_chunk(const SxPlanOperator *plan)
{
	SxChunk    *chunk = sx_chunk_make(plan->input);

	for (int i = 0; i < plan->nkeys; i++)
		sx_chunk_need(chunk, plan->input, plan->keys[i].input);
	for (int i = 0; i < plan->naggregates; i++)
	{
		const SxPlanAggregate *agg = &plan->aggregates[i];

		for (int j = 0; j < agg->ninputs; j++)
			sx_chunk_need(chunk, plan->input, agg->inputs[j]);
		for (int j = 0; j < agg->ndirect; j++)
			sx_chunk_need(chunk, plan->input, agg->direct[j]);
		if (agg->filter != 0)
			sx_chunk_need(chunk, plan->input, agg->filter);
	}
	if (plan->gap_input != 0)
		sx_chunk_need(chunk, plan->input, plan->gap_input);
	return chunk;
}

static SxOperator *
aggregate_open(const SxPlanOperator *plan)
{
	SxAggregate *agg = palloc0(sizeof(SxAggregate));

	agg->key = sx_group_key_make(plan);
	if (plan->panes && !agg->key->bytewise)
		elog(ERROR, "panes of keys that bytes do not decide");
	agg->calls = sx_agg_calls_make(plan);
	agg->first_chunk = sx_aggregate_make_chunk(plan);
	if (plan->key_time == SX_KEY_TIME_RANGE)
		agg->range_type = lookup_type_cache(plan->keys[plan->time_key].type,
											TYPECACHE_RANGE_INFO);
	return &agg->base;
}

static int
aggregate_state_operators(const SxPlanOperator *plan, SxStateOperator *result)
{
	SxGroupKey *key = sx_group_key_make(plan);

	result->id = SX_STORE_ID(plan->id, 0);
	result->equal = key->bytewise ? NULL : sx_group_key_equal;
	result->equal_arg = key;
	result->fine = plan->key_time == SX_KEY_TIME_RAW;
	return 1;
}

static void
aggregate_begin(SxOperator *op)
{
	SxAggregate *agg = (SxAggregate *) op;

	agg->late = SX_TIME_UNSET;
	agg->evict = SX_TIME_UNSET;
	if (is_watermarked(op->plan, op->mode))
	{
		agg->late = op->late;
		agg->evict = op->evict;
	}
	sx_group_key_begin(agg->key);
	sx_agg_calls_begin(agg->calls);
	agg->chunk = agg->first_chunk;
	agg->chunk->next = NULL;
	sx_chunk_begin(agg->chunk);
	agg->batch_context = CurrentMemoryContext;
	agg->waiting = sx_state_is_cold(op->state, op->plan->id) ? sx_waiting_make() : NULL;
	agg->nloaded = 0;
	agg->table = sx_group_table_make(agg->key, SX_VALUES_OFFSET + agg->calls->size);
	agg->nnew = 0;
	agg->nupdates = 0;
	initStringInfo(&agg->keys);
	initStringInfo(&agg->value);
	agg->row = palloc((op->plan->output->natts + 1) * sizeof(Datum));
	agg->row_nulls = palloc((op->plan->output->natts + 1) * sizeof(bool));
	agg->single_values = palloc(agg->calls->size + 1);
	if (op->plan->panes)
		sx_aggregate_begin_panes(agg);
}

static void
load_group(SxAggregate *agg, SxGroup *group, const SxStateValue *value)
{
	group->is_new = value->bytes == NULL;
	if (group->is_new)
	{
		agg->nnew++;
		sx_agg_values_init(agg->calls, SX_GROUP_VALUES(group));
	}
	else
	{
		SxReader	in = {value->bytes, value->bytes + value->len};

		if (!agg->key->bytewise)
		{
			uint32		len = sx_read_varint(&in);
			const char *bytes = sx_read_bytes(&in, len);
			char	   *first = MemoryContextAlloc(agg->table->context, len + 1);

			memcpy(first, bytes, len);
			group->key = first;
			group->keylen = len;
		}
		sx_agg_values_decode(agg->calls, SX_GROUP_VALUES(group), &in);
	}
}

static SxStateKey
state_key(const SxAggregate *agg, const SxGroup *group)
{
	SxStateKey	key = {
		.op = agg->base.plan->id,
		.group = group->group,
		.hash = group->hash,
		.expiry = group->expiry,
		.bytes = group->key,
		.len = group->keylen,
	};

	return key;
}

/* Fetches what was committed of the groups that this batch has not seen before. */
static void
load_groups(SxAggregate *agg)
{
	static const SxStateValue nothing = {NULL, 0};
	uint32		first = agg->nloaded;
	uint32		end = agg->table->ngroups;
	bool		many = end - first > SX_CHUNK_ROWS;
	SxGroup    *few_groups[SX_CHUNK_ROWS];
	SxStateKey	few_keys[SX_CHUNK_ROWS];
	SxStateValue few_values[SX_CHUNK_ROWS];
	SxGroup   **groups = many ? palloc((end - first) * sizeof(SxGroup *)) : few_groups;
	SxStateKey *keys = many ? palloc((end - first) * sizeof(SxStateKey)) : few_keys;
	SxStateValue *values = many ? palloc((end - first) * sizeof(SxStateValue)) : few_values;
	int			n = 0;

	for (uint32 i = first; i < end; i++)
	{
		SxGroup    *group = sx_group_table_get(agg->table, i);

		if (!sx_aggregate_may_have(agg, group))
		{
			load_group(agg, group, &nothing);
			continue;
		}
		groups[n] = group;
		keys[n++] = state_key(agg, group);
	}
	if (n > 0)
		sx_state_get_many(agg->base.state, n, keys, values);
	for (int i = 0; i < n; i++)
		load_group(agg, groups[i], &values[i]);
	agg->nloaded = end;
	if (many)
	{
		pfree(groups);
		pfree(keys);
		pfree(values);
	}
}

static void
advance_groups(SxAggregate *agg, const SxChunk *chunk, int n, const int *rows,
			   SxGroup **groups)
{
	char	   *values[SX_CHUNK_ROWS];

	for (int i = 0; i < n; i++)
		values[i] = SX_GROUP_VALUES(groups[i]);
	sx_agg_values_advance(agg->calls, chunk, n, rows, values);
	SX_CRASH_POINT("operator");
}

/* Fetches the groups of the rows that wait and applies these in their order. */
static void
apply_waiting(SxAggregate *agg)
{
	SxWaitingRows *waiting = agg->waiting;

	load_groups(agg);
	for (int i = 0; i < waiting->npieces; i++)
	{
		SxWaitingPiece *piece = &waiting->pieces[i];

		CHECK_FOR_INTERRUPTS();
		advance_groups(agg, piece->chunk, piece->n, piece->rows, piece->groups);
	}
	sx_waiting_clear(waiting);
}

/* If rows of the chunk wait, the next ones need another. */
static void
next_chunk(SxAggregate *agg)
{
	MemoryContext oldcontext;

	if (agg->waiting != NULL && sx_waiting_full(agg->waiting, agg->chunk->arena))
		apply_waiting(agg);
	if (agg->waiting == NULL || agg->waiting->npieces == 0)
	{
		agg->chunk = agg->first_chunk;
		sx_chunk_clear(agg->chunk);
		return;
	}
	if (agg->chunk->next == NULL)
	{
		oldcontext = MemoryContextSwitchTo(agg->batch_context);
		agg->chunk->next = sx_aggregate_make_chunk(agg->base.plan);
		agg->chunk->next->arena = agg->chunk->arena;
		MemoryContextSwitchTo(oldcontext);
	}
	agg->chunk = agg->chunk->next;
	agg->chunk->nrows = 0;
}

static void
apply_updates(SxAggregate *agg)
{
	SxGroup    *groups[SX_CHUNK_ROWS];
	int			rows[SX_CHUNK_ROWS];
	int			n = agg->nupdates;

	CHECK_FOR_INTERRUPTS();
	if (n == 0)
		return;
	sx_group_table_find(agg->table, n, agg->updates, agg->keys.data, groups);
	if (agg->waiting != NULL)
	{
		sx_waiting_add(agg->waiting, agg->chunk, n, agg->updates, groups);
		if (agg->table->ngroups - agg->nloaded >= SX_FETCH_GROUPS)
			apply_waiting(agg);
	}
	else
	{
		load_groups(agg);
		for (int i = 0; i < n; i++)
			rows[i] = agg->updates[i].row;
		advance_groups(agg, agg->chunk, n, rows, groups);
	}
	agg->nupdates = 0;
	resetStringInfo(&agg->keys);
}

/*
 * A row, or its copy for one window or pane that begins at start, on its way to
 * its group. All panes of a key are in one key group, windows are spread.
 */
static void
add_update(SxAggregate *agg, int row, uint64 hash, uint8 group, int64 expiry,
		   const TimestampTz *start)
{
	SxUpdate   *update;

	if (agg->nupdates == SX_CHUNK_ROWS || agg->keys.len > KEY_BUFFER)
		apply_updates(agg);
	update = &agg->updates[agg->nupdates++];
	update->key = agg->keys.len;
	sx_group_key_encode(agg->key, agg->chunk, row, &agg->keys);
	if (start != NULL)
		appendBinaryStringInfo(&agg->keys, (const char *) start, SX_WINDOW_BYTES);
	update->keylen = agg->keys.len - update->key;
	update->row = row;
	update->hash = hash;
	update->group = group;
	update->expiry = agg->base.plan->watermarked ? expiry : SX_STATE_NEVER;
}

static inline bool
is_late(const SxAggregate *agg, int64 expiry)
{
	/* unset is before every time, so it needs no test of its own */
	return expiry <= agg->late;
}

/* All windows that hold the row's time; each copy is judged alone. Returns if one took it. */
static bool
update_windows(SxAggregate *agg, int row, const SxChunkColumn *times)
{
	const SxPlanOperator *plan = agg->base.plan;
	TimestampTz ts = DatumGetTimestampTz(times->values[row]);
	TimestampTz start;
	int			windows = 0;
	int			late = 0;

	if (times->nulls[row] || !sx_window_any(&plan->window, ts))
	{
		agg->base.progress->rows_no_window++;
		return false;
	}
	for (start = sx_window_last_start(&plan->window, ts); start + plan->window.size > ts;
		 start -= plan->window.slide)
	{
		int64		end = start + plan->window.size;

		windows++;
		if (is_late(agg, end))
		{
			CHECK_FOR_INTERRUPTS();	/* a slide of a microsecond makes very many */
			late++;
		}
		else
		{
			uint64		hash = sx_group_key_hash_window(agg->hashes[row], start);

			add_update(agg, row, hash, hash % SX_KEY_GROUPS, end, &start);
		}
	}
	if (late == windows)
		agg->base.progress->rows_late++;
	else if (late > 0)
		agg->base.progress->rows_partly_late++;
	return late < windows;
}

/* The pane that holds the row's time; it goes with the last window that needs it. */
static bool
update_pane(SxAggregate *agg, int row, const SxChunkColumn *times)
{
	const SxWindow *window = &agg->base.plan->window;
	TimestampTz ts = DatumGetTimestampTz(times->values[row]);
	TimestampTz last;
	TimestampTz pane;
	int64		end;

	if (times->nulls[row] || !sx_window_any(window, ts))
	{
		agg->base.progress->rows_no_window++;
		return false;
	}
	last = sx_window_last_start(window, ts);
	end = last + window->size;
	if (is_late(agg, end))
		agg->base.progress->rows_late++;	/* for the last of its windows, so for all */
	else
	{
		/* a window that holds the row ends after it */
		if (ts < agg->late && is_late(agg, sx_window_first_start(window, ts) + window->size))
			agg->base.progress->rows_partly_late++;
		pane = sx_window_pane(window, last, ts);
		add_update(agg, row, sx_group_key_hash_window(agg->hashes[row], pane),
				   agg->hashes[row] % SX_KEY_GROUPS, end, &pane);
		return true;
	}
	return false;
}

/* Expiry of a key made below; false: the row falls in no window. */
static bool
key_expiry(SxAggregate *agg, int row, const SxChunkColumn *times, int64 *expiry)
{
	const SxPlanOperator *plan = agg->base.plan;

	*expiry = SX_STATE_NEVER;
	if (plan->key_time == SX_KEY_TIME_RAW)
	{
		if (!times->nulls[row] && !TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(times->values[row])))
			*expiry = DatumGetTimestampTz(times->values[row]);
		return true;
	}
	if (times->nulls[row])
		return false;
	return sx_range_end(agg->range_type, times->values[row], expiry);
}

static void
process_chunk(SxAggregate *agg)
{
	const SxPlanOperator *plan = agg->base.plan;
	const SxChunkColumn *times = plan->time_key >= 0 ?
		sx_chunk_column(agg->chunk, plan->keys[plan->time_key].input) : NULL;
	int			taken = 0;

	sx_group_key_hash(agg->key, agg->chunk, agg->hashes);
	for (int row = 0; row < agg->chunk->nrows; row++)
	{
		int64		expiry = SX_STATE_NEVER;

		if (plan->key_time == SX_KEY_TIME_WINDOW)
		{
			taken += plan->panes ? update_pane(agg, row, times) : update_windows(agg, row, times);
			continue;
		}
		if (plan->key_time != SX_KEY_TIME_NONE && !key_expiry(agg, row, times, &expiry))
		{
			agg->base.progress->rows_no_window++;
			continue;
		}
		if (is_late(agg, expiry))
		{
			agg->base.progress->rows_late++;
			continue;
		}
		add_update(agg, row, agg->hashes[row], agg->hashes[row] % SX_KEY_GROUPS, expiry, NULL);
		taken++;
	}
	agg->base.progress->rows_taken += taken;
	apply_updates(agg);
	next_chunk(agg);
}

static bool
aggregate_receive(SxOperator *op, int input, TupleTableSlot *slot)
{
	SxAggregate *agg = (SxAggregate *) op;

	sx_chunk_add(agg->chunk, slot);
	if (sx_chunk_full(agg->chunk))
		process_chunk(agg);
	return true;
}

static void
put_group(SxAggregate *agg, SxGroup *group)
{
	SxStateKey	key = state_key(agg, group);

	resetStringInfo(&agg->value);
	if (!agg->key->bytewise)
	{
		sx_varint_append(&agg->value, group->keylen);
		appendBinaryStringInfo(&agg->value, group->key, group->keylen);
	}
	sx_agg_values_encode(agg->calls, SX_GROUP_VALUES(group), &agg->value);
	sx_state_put(agg->base.state, &key, agg->value.data, agg->value.len);
}

void
sx_aggregate_emit_row(SxAggregate *agg, char *values)
{
	int			nkeys = agg->base.plan->nkeys;

	sx_agg_values_finish(agg->calls, values, agg->row + nkeys, agg->row_nulls + nkeys);
	sx_operator_emit(&agg->base, agg->row, agg->row_nulls);
}

/* A row of the output; the values are used up. */
static void
emit(SxAggregate *agg, const char *key, uint32 keylen, int64 expiry, char *values)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(agg->calls->single->ecxt_per_tuple_memory);

	sx_group_key_decode(agg->key, key, keylen, expiry, agg->row, agg->row_nulls);
	sx_aggregate_emit_row(agg, values);
	MemoryContextSwitchTo(oldcontext);
	ReScanExprContext(agg->calls->single);
}

/* An SxStateVisit: a group of the state is read, emitted and forgotten. */
static bool
emit_stored(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	SxAggregate *agg = arg;
	SxReader	in = {value->bytes, value->bytes + value->len};
	const char *bytes = key->bytes;
	uint32		len = key->len;

	CHECK_FOR_INTERRUPTS();
	if (!agg->key->bytewise)
	{
		len = sx_read_varint(&in);
		bytes = sx_read_bytes(&in, len);
	}
	sx_agg_calls_use(agg->calls, agg->calls->single);
	sx_agg_values_decode(agg->calls, agg->single_values, &in);
	emit(agg, bytes, len, key->expiry, agg->single_values);
	return true;
}

/* The one group of an aggregate without GROUP BY is there from the first batch on. */
static void
touch_only_group(SxAggregate *agg)
{
	SxUpdate	update = {.expiry = SX_STATE_NEVER};
	SxGroup    *group;

	if (agg->table->ngroups > 0)
		return;
	sx_group_table_find(agg->table, 1, &update, "", &group);
	load_groups(agg);
}

/* Has the processor fetch where the next groups will be put. */
static void
prefetch_groups(SxAggregate *agg, uint32 first)
{
	SxStateKey	keys[PREFETCH_GROUPS];
	uint32		end = Min(first + PREFETCH_GROUPS, agg->table->ngroups);
	int			n = 0;

	for (uint32 i = first; i < end; i++)
	{
		const SxGroup *group = sx_group_table_get(agg->table, i);

		if (!sx_aggregate_passes(agg, group))
			keys[n++] = state_key(agg, group);
	}
	sx_state_prefetch(agg->base.state, n, keys);
}

/* Of a touched group: update mode shows them all, append those that the state won't know of. */
static inline bool
shows(const SxAggregate *agg, const SxGroup *group)
{
	switch (agg->base.mode)
	{
		case SX_OUTPUT_UPDATE:
			return true;
		case SX_OUTPUT_APPEND:
			return sx_aggregate_passes(agg, group);
		case SX_OUTPUT_COMPLETE:
			break;
	}
	return false;
}

int64
sx_aggregate_put_touched(SxAggregate *agg, bool emits)
{
	int64		passed = 0;

	for (uint32 i = 0; i < agg->table->ngroups; i++)
	{
		SxGroup    *group = sx_group_table_get(agg->table, i);

		if (i % PREFETCH_GROUPS == 0)
		{
			CHECK_FOR_INTERRUPTS();
			prefetch_groups(agg, i);
		}
		if (sx_aggregate_passes(agg, group))
			passed++;
		else
			put_group(agg, group);
		if (!emits || !shows(agg, group))
			continue;
		agg->base.fresh = agg->base.mode == SX_OUTPUT_UPDATE && group->is_new &&
			agg->nnew >= SX_WORTH_TELLING;
		emit(agg, group->key, group->keylen, group->expiry, SX_GROUP_VALUES(group));
	}
	return passed;
}

/* Only where groups are shown when they go; else one record removes them all. */
static int64
aggregate_due(SxOperator *op)
{
	if (op->mode != SX_OUTPUT_APPEND || !is_watermarked(op->plan, op->mode) ||
		op->evict == SX_TIME_UNSET)
		return 0;
	return sx_state_due(op->state, op->plan->id,
						op->plan->panes ? sx_aggregate_last_pane(op->plan, op->evict) : op->evict);
}

/* Shows the groups of the state that are due, or a part of them; with the last part they go. */
static void
close_due(SxAggregate *agg)
{
	SxOperator *op = &agg->base;
	int64		shown = op->nout;
	int64		removed = 0;

	if (op->mode == SX_OUTPUT_APPEND)
		sx_state_scan_groups(op->state, op->plan->id, op->due_first, op->due_last, agg->evict,
							 emit_stored, agg);
	shown = op->nout - shown;
	if (sx_operator_ends_due(op))
		removed = sx_state_expire(op->state, op->plan->id, agg->evict);
	op->progress->rows_removed += op->due_first == 0 && sx_operator_ends_due(op) ? removed : shown;
}

static void
aggregate_finish(SxOperator *op)
{
	SxAggregate *agg = (SxAggregate *) op;

	process_chunk(agg);
	if (agg->waiting != NULL)
		apply_waiting(agg);
	if (op->plan->panes)
	{
		sx_aggregate_finish_panes(agg);
		sx_agg_calls_end(agg->calls);
		return;
	}
	if (op->plan->nkeys == 0)
		touch_only_group(agg);
	op->progress->rows_updated += agg->table->ngroups;
	op->progress->rows_removed += sx_aggregate_put_touched(agg, true);
	if (op->mode == SX_OUTPUT_COMPLETE)
		sx_state_scan(op->state, op->plan->id, SX_STATE_NEVER, emit_stored, agg);
	if (agg->evict != SX_TIME_UNSET)
		close_due(agg);
	sx_agg_calls_end(agg->calls);
}

static const char *
describe_time(const SxPlanOperator *plan)
{
	switch (plan->key_time)
	{
		case SX_KEY_TIME_RAW:
			return "event time";
		case SX_KEY_TIME_RANGE:
			return "upper bound";
		case SX_KEY_TIME_WINDOW:
			return "window end";
		case SX_KEY_TIME_SESSION:
			return "session end";
		case SX_KEY_TIME_NONE:
			break;
	}
	return "";
}

static const char *
describe_value(const SxPlanAggregate *agg)
{
	switch (agg->strategy)
	{
		case SX_AGG_TRANSITION:
			return "transition value";
		case SX_AGG_SERIALIZE:
			return "serialized transition value";
		case SX_AGG_COLLECT:
			break;
	}
	return agg->aggref->aggdistinct != NIL ? "set of arguments" : "list of arguments";
}

/* What the operator does with a key column, if anything. */
static const char *
describe_key(const SxPlanOperator *op, int key)
{
	if (key != op->time_key)
		return "";
	if (op->key_time == SX_KEY_TIME_SESSION)
		return op->gap > 0 ? " (sessions merged here)" : " (sessions merged here, a gap per row)";
	if (op->key_time == SX_KEY_TIME_WINDOW)
		return op->panes ? " (assigned here, kept as panes)" : " (assigned here)";
	return "";
}

List *
sx_aggregate_explain(const SxPlan *plan, const SxPlanOperator *op, List *lines)
{
	for (int i = 0; i < op->nkeys; i++)
		lines = lappend(lines, psprintf("  key %s: %s%s", op->keys[i].name,
										format_type_be(op->keys[i].type), describe_key(op, i)));
	for (int i = 0; i < op->naggregates; i++)
		lines = lappend(lines, psprintf("  value %s: %s",
										format_procedure(op->aggregates[i].aggref->aggfnoid),
										describe_value(&op->aggregates[i])));
	if (is_watermarked(op, plan->mode))
	{
		const char *time = describe_time(op);

		lines = lappend(lines, psprintf("  late: %s <= watermark of the batch before",
										op->key_time == SX_KEY_TIME_SESSION ? "event time + gap" : time));
		lines = lappend(lines, psprintf("  %s: %s <= watermark",
										plan->mode == SX_OUTPUT_APPEND ?
										"emitted and removed" : "removed", time));
	}
	else
		lines = lappend(lines, pstrdup("  no row is late, no group is removed"));
	return lines;
}

const SxOperatorRoutine sx_aggregate_routine = {
	.name = "aggregate",
	.rows = SX_OPERATOR_TAKES,
	.open = aggregate_open,
	.state_operators = aggregate_state_operators,
	.begin = aggregate_begin,
	.receive = aggregate_receive,
	.finish = aggregate_finish,
	.due = aggregate_due,
	.explain = sx_aggregate_explain,
	.stores = sx_state_show_default,
	.show_open = sx_aggregate_show_open,
	.show = sx_aggregate_show,
};
