/*
 * dedup.c
 *		DISTINCT over a stream: of the rows with one key the first one passes.
 *
 *	 for each chunk of rows:
 *		drop the late ones: event time <= watermark of the batch before
 *		find the chunk's keys in a table of its own, and ask the state for them,
 *		which has those of the chunks before, too
 *		a row whose key nobody had passes, and its key is put
 *	 at the end of the batch: drop the keys that the watermark has passed
 *
 * Stores:
 *	 0	the key's bytes (group_key.h); expiry: the event time among the key, or the
 *		end of its window, or none. Value: byte 1 (version), and if keys go by their
 *		first row (within_watermark) 8 bytes: when.
 *	 1	within_watermark only: the same keys, with that time as expiry and no value.
 *		The key must be found without knowing when it goes, so store 0 can't have it.
 */
#include "postgres.h"

#include "common/int.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/crash_point.h"
#include "exec/group_table.h"
#include "exec/operator.h"
#include "exec/range_end.h"
#include "exec/state_view.h"
#include "time/watermark.h"

#define VALUE_VERSION	1
#define KEY_BUFFER		(1024 * 1024)	/* bytes of keys after which rows are judged */
#define LIST_BYTES		(64 * 1024 * 1024)	/* of keys to be removed */
#define REMOVED_AT_ONCE	64		/* keys that memory is asked for together */
#define UNIX_EPOCH		((int64) (UNIX_EPOCH_JDATE - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY)

typedef struct Dedup
{
	SxOperator	base;
	SxGroupKey *key;
	SxChunk    *chunk;
	TypeCacheEntry *range_type; /* of a window made below */

	/* per batch */
	TimestampTz late;			/* SX_TIME_UNSET: nothing is */
	MemoryContext chunk_context;	/* of the table of a chunk's keys */
	uint64		hashes[SX_CHUNK_ROWS];
	int			nupdates;
	SxUpdate	updates[SX_CHUNK_ROWS];
	int64		goes_at[SX_CHUNK_ROWS]; /* within_watermark: when the key goes, by update */
	StringInfoData keys;
	Datum	   *row;			/* being emitted */
	bool	   *row_nulls;
} Dedup;

static SxOperator *
dedup_open(const SxPlanOperator *plan)
{
	Dedup	   *dedup = palloc0(sizeof(Dedup));

	dedup->key = sx_group_key_make(plan);
	dedup->chunk = sx_chunk_make(plan->input);
	for (int i = 1; i <= plan->input->natts; i++)
		sx_chunk_need(dedup->chunk, plan->input, i);
	if (plan->event_is_range)
		dedup->range_type = lookup_type_cache(TupleDescAttr(plan->input, plan->event_input - 1)->atttypid,
											  TYPECACHE_RANGE_INFO);
	return &dedup->base;
}

static int
dedup_state_operators(const SxPlanOperator *plan, SxStateOperator *result)
{
	SxGroupKey *key = sx_group_key_make(plan);
	int			n = plan->within_watermark ? 2 : 1;

	for (int i = 0; i < n; i++)
	{
		result[i].id = SX_STORE_ID(plan->id, i);
		result[i].equal = key->bytewise ? NULL : sx_group_key_equal;
		result[i].equal_arg = key;
	}
	result[n - 1].fine = (plan->within_watermark || plan->time_key >= 0) && !plan->event_is_range;
	return n;
}

static void
dedup_begin(SxOperator *op)
{
	Dedup	   *dedup = (Dedup *) op;

	dedup->late = op->plan->watermarked ? op->late : SX_TIME_UNSET;
	op->progress->is_dedup = true;
	sx_group_key_begin(dedup->key);
	sx_chunk_begin(dedup->chunk);
	dedup->chunk_context = AllocSetContextCreate(CurrentMemoryContext, "streamx keys of a chunk",
												 ALLOCSET_DEFAULT_SIZES);
	dedup->nupdates = 0;
	initStringInfo(&dedup->keys);
	dedup->row = palloc((op->plan->output->natts + 1) * sizeof(Datum));
	dedup->row_nulls = palloc((op->plan->output->natts + 1) * sizeof(bool));
}

static SxStateKey
state_key(const Dedup *dedup, const SxGroup *group, int store)
{
	SxStateKey	key = {
		.op = SX_STORE_ID(dedup->base.plan->id, store),
		.group = group->group,
		.hash = group->hash,
		.expiry = group->expiry,
		.bytes = group->key,
		.len = group->keylen,
	};

	return key;
}

/* is_new becomes: no row before had the key. */
static void
ask_state(Dedup *dedup, const SxGroupTable *table)
{
	SxStateKey	keys[SX_CHUNK_ROWS];
	SxStateValue values[SX_CHUNK_ROWS];

	for (uint32 i = 0; i < table->ngroups; i++)
		keys[i] = state_key(dedup, sx_group_table_get(table, i), 0);
	sx_state_get_many(dedup->base.state, table->ngroups, keys, values);
	for (uint32 i = 0; i < table->ngroups; i++)
		sx_group_table_get(table, i)->is_new = values[i].bytes == NULL;
}

/* The key of each row that waits, found among the chunk's and asked for. */
static void
find_keys(Dedup *dedup, SxGroup **groups)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(dedup->chunk_context);
	SxGroupTable *table;

	MemoryContextReset(dedup->chunk_context);
	table = sx_group_table_make(dedup->key, MAXALIGN(sizeof(SxGroup)));
	sx_group_table_find(table, dedup->nupdates, dedup->updates, dedup->keys.data, groups);
	MemoryContextSwitchTo(oldcontext);
	ask_state(dedup, table);
}

static void
emit(Dedup *dedup, int row)
{
	int			natts = dedup->base.plan->input->natts;

	for (int i = 0; i < natts; i++)
	{
		const SxChunkColumn *column = sx_chunk_column(dedup->chunk, i + 1);

		dedup->row[i] = column->values[row];
		dedup->row_nulls[i] = column->nulls[row];
	}
	sx_operator_emit(&dedup->base, dedup->row, dedup->row_nulls);
}

/* Of the chunk's new keys: the entries that say when they go will be put soon. */
static void
prefetch_times(Dedup *dedup, SxGroup **groups)
{
	SxStateKey	keys[SX_CHUNK_ROWS];
	int			n = 0;

	for (int i = 0; i < dedup->nupdates; i++)
	{
		if (!groups[i]->is_new)
			continue;
		keys[n] = state_key(dedup, groups[i], 1);
		keys[n++].expiry = dedup->goes_at[i];
	}
	sx_state_prefetch(dedup->base.state, n, keys);
}

static void
put_key(Dedup *dedup, const SxGroup *group, int64 goes_at)
{
	SxStateKey	key = state_key(dedup, group, 0);
	char		value[1 + sizeof(int64)];
	bool		within = dedup->base.plan->within_watermark;

	value[0] = VALUE_VERSION;
	memcpy(value + 1, &goes_at, sizeof(int64));
	sx_state_put(dedup->base.state, &key, value, within ? sizeof(value) : 1);
	dedup->base.progress->rows_updated++;
	if (!within)
		return;
	key = state_key(dedup, group, 1);
	key.expiry = goes_at;
	sx_state_put(dedup->base.state, &key, value, 1);
}

/* In the order of the rows, so that the first one of a key passes. */
static void
judge(Dedup *dedup)
{
	SxGroup    *groups[SX_CHUNK_ROWS];

	CHECK_FOR_INTERRUPTS();
	if (dedup->nupdates == 0)
		return;
	find_keys(dedup, groups);
	if (dedup->base.plan->within_watermark)
		prefetch_times(dedup, groups);
	for (int i = 0; i < dedup->nupdates; i++)
	{
		if (!groups[i]->is_new)
		{
			dedup->base.progress->rows_duplicate++;
			continue;
		}
		groups[i]->is_new = false;
		emit(dedup, dedup->updates[i].row);
		put_key(dedup, groups[i], dedup->goes_at[i]);
	}
	dedup->nupdates = 0;
	resetStringInfo(&dedup->keys);
	SX_CRASH_POINT("operator");
}

/* The row's event time, or the end of its window; SX_STATE_NEVER if it has none. */
static int64
event_end(const Dedup *dedup, int row)
{
	const SxPlanOperator *plan = dedup->base.plan;
	const SxChunkColumn *column;
	int64		end = SX_STATE_NEVER;

	if (!plan->watermarked)
		return SX_STATE_NEVER;
	column = sx_chunk_column(dedup->chunk, plan->event_input);
	if (column->nulls[row])
		return SX_STATE_NEVER;
	if (plan->event_is_range)
		return sx_range_end(dedup->range_type, column->values[row], &end) ? end : SX_STATE_NEVER;
	if (!TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(column->values[row])))
		end = DatumGetTimestampTz(column->values[row]);
	return end;
}

/* A NULL event time counts as 1970 here (semantics 3.4). */
static int64
goes_at(const SxPlanOperator *plan, int64 event)
{
	int64		at;

	if (event == SX_STATE_NEVER)
		event = UNIX_EPOCH;
	if (pg_add_s64_overflow(event, plan->event_delay, &at))
		return SX_STATE_NEVER;
	return at;
}

static void
process_chunk(Dedup *dedup)
{
	const SxPlanOperator *plan = dedup->base.plan;

	sx_group_key_hash(dedup->key, dedup->chunk, dedup->hashes);
	for (int row = 0; row < dedup->chunk->nrows; row++)
	{
		int64		event = event_end(dedup, row);
		SxUpdate   *update;

		if (event <= dedup->late)
		{
			dedup->base.progress->rows_late++;
			continue;
		}
		if (dedup->nupdates == SX_CHUNK_ROWS || dedup->keys.len > KEY_BUFFER)
			judge(dedup);
		dedup->goes_at[dedup->nupdates] = plan->within_watermark ? goes_at(plan, event) : 0;
		update = &dedup->updates[dedup->nupdates++];
		update->key = dedup->keys.len;
		sx_group_key_encode(dedup->key, dedup->chunk, row, &dedup->keys);
		update->keylen = dedup->keys.len - update->key;
		update->row = row;
		update->hash = dedup->hashes[row];
		update->group = dedup->hashes[row] % SX_KEY_GROUPS;
		update->expiry = plan->time_key >= 0 && !plan->within_watermark ? event : SX_STATE_NEVER;
	}
	judge(dedup);
	sx_chunk_clear(dedup->chunk);
}

static bool
dedup_receive(SxOperator *op, int input, TupleTableSlot *slot)
{
	Dedup	   *dedup = (Dedup *) op;

	sx_chunk_add(dedup->chunk, slot);
	if (sx_chunk_full(dedup->chunk))
		process_chunk(dedup);
	return true;
}

/* Keys of store 1 that go: the scan must not call the state, so they are listed first. */
static bool
list_key(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	StringInfo	list = arg;
	SxStateKey	copy = *key;

	CHECK_FOR_INTERRUPTS();
	copy.bytes = NULL;
	appendBinaryStringInfo(list, (const char *) &copy, sizeof(copy));
	appendBinaryStringInfo(list, key->bytes, key->len);
	return list->len < LIST_BYTES;
}

/* The next keys of the list, as many as max. */
static int
next_listed(const StringInfo list, int *at, int max, SxStateKey *keys)
{
	int			n;

	for (n = 0; n < max && *at < list->len; n++)
	{
		memcpy(&keys[n], list->data + *at, sizeof(SxStateKey));
		keys[n].bytes = list->data + *at + sizeof(SxStateKey);
		*at += sizeof(SxStateKey) + keys[n].len;
	}
	return n;
}

static void
remove_listed(Dedup *dedup, const StringInfo list, bool from_both)
{
	SxOperator *op = &dedup->base;
	SxStateKey	keys[REMOVED_AT_ONCE];
	int			at = 0;
	int			n;

	while ((n = next_listed(list, &at, REMOVED_AT_ONCE, keys)) > 0)
	{
		for (int i = 0; i < n; i++)
		{
			if (from_both)
				sx_state_remove(op->state, &keys[i]);
			keys[i].op = SX_STORE_ID(op->plan->id, 0);
			keys[i].expiry = SX_STATE_NEVER;
		}
		sx_state_prefetch(op->state, n, keys);
		for (int i = 0; i < n; i++)
			sx_state_remove(op->state, &keys[i]);
		op->progress->rows_removed += n;
	}
}

/* Usually one list; store 1 is then emptied by one record. */
static void
remove_passed(Dedup *dedup, TimestampTz evict)
{
	SxOperator *op = &dedup->base;
	uint16		by_time = SX_STORE_ID(op->plan->id, 1);
	StringInfoData list;
	bool		more;

	initStringInfo(&list);
	do
	{
		resetStringInfo(&list);
		sx_state_scan_groups(op->state, by_time, op->due_first, op->due_last, evict, list_key, &list);
		more = list.len >= LIST_BYTES;
		remove_listed(dedup, &list, more);
	} while (more);
	pfree(list.data);
	if (sx_operator_ends_due(op))
		sx_state_expire(op->state, by_time, evict);
}

/* Keys with the time in them go by one record. */
static int64
dedup_due(SxOperator *op)
{
	if (!op->plan->watermarked || !op->plan->within_watermark || op->evict == SX_TIME_UNSET)
		return 0;
	return sx_state_due(op->state, SX_STORE_ID(op->plan->id, 1), op->evict);
}

static void
dedup_finish(SxOperator *op)
{
	Dedup	   *dedup = (Dedup *) op;

	process_chunk(dedup);
	if (!op->plan->watermarked || op->evict == SX_TIME_UNSET)
		return;
	if (op->plan->within_watermark)
		remove_passed(dedup, op->evict);
	else if (op->plan->time_key >= 0)
		op->progress->rows_removed += sx_state_expire(op->state, op->plan->id, op->evict);
}

/* A line for each key; what is kept of a row is its key. */
static List *
dedup_explain(const SxPlan *plan, const SxPlanOperator *op, List *lines)
{
	const char *time = op->event_is_range ? "upper bound" : "event time";

	for (int i = 0; i < op->nkeys; i++)
		lines = lappend(lines, psprintf("  key %s: %s", op->keys[i].name, format_type_be(op->keys[i].type)));
	if (op->watermarked)
		lines = lappend(lines, psprintf("  late: %s <= watermark of the batch before", time));
	else
		lines = lappend(lines, pstrdup("  no row is late"));
	if (op->within_watermark)
		lines = lappend(lines, pstrdup("  removed: event time of the first row + delay <= watermark"));
	else if (op->time_key >= 0)
		lines = lappend(lines, psprintf("  removed: %s <= watermark", time));
	else
		lines = lappend(lines, pstrdup("  no key is removed"));
	return lines;
}

/* ---------- as people see it: the keys, and when they go ---------- */

typedef struct DedupView
{
	SxGroupKey *key;
	Datum	   *values;
	bool	   *nulls;
} DedupView;

static void
dedup_show_open(SxStateShow *show)
{
	const SxPlanOperator *plan = show->plan;
	DedupView  *view = palloc0(sizeof(DedupView));

	view->key = sx_group_key_make(plan);
	view->values = palloc((plan->nkeys + 1) * sizeof(Datum));
	view->nulls = palloc((plan->nkeys + 1) * sizeof(bool));
	show->key = sx_state_show_keys(plan->keys, plan->nkeys);
	show->value = sx_state_show_columns(0);
	show->data = view;
}

static void
dedup_show(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	DedupView  *view = show->data;
	int64		expiry = key->expiry;

	sx_group_key_decode(view->key, key->bytes, key->len, expiry, view->values, view->nulls);
	if (show->plan->within_watermark && value->bytes != NULL)
	{
		SxReader	in = {value->bytes, value->bytes + value->len};

		if (*sx_read_bytes(&in, 1) != VALUE_VERSION)
			sx_reader_short();
		memcpy(&expiry, sx_read_bytes(&in, sizeof(int64)), sizeof(int64));
	}
	sx_state_show_row(show, view->values, view->nulls,
					  value->bytes == NULL ? NULL : view->values, view->nulls, expiry);
}

const SxOperatorRoutine sx_dedup_routine = {
	.name = "deduplication",
	.rows = SX_OPERATOR_PASSES,
	.open = dedup_open,
	.state_operators = dedup_state_operators,
	.begin = dedup_begin,
	.receive = dedup_receive,
	.finish = dedup_finish,
	.due = dedup_due,
	.explain = dedup_explain,
	.stores = sx_state_show_default,
	.show_open = dedup_show_open,
	.show = dedup_show,
};
