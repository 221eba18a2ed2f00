/*
 * join.c
 *		The symmetric hash join of two streams: each side keeps its rows until the
 *		watermark proves that no row can come any more that would match them.
 *
 *	 rows of the left side, then rows of the right one:
 *		drop the late ones; what fails the side's own condition never matches
 *		find the rows of the other side with the same key: those of earlier batches
 *		and, for a right row, this batch's; each pair that fulfils the condition is
 *		emitted
 *	 at the end of the batch:
 *		put the new rows, and what became known of the old ones
 *		drop the rows that the watermark has passed; those of an outer side that
 *		never matched come out with NULLs
 *
 * That is the order of semantics 8.1. Stores, for side s (0 left, 1 right); values
 * begin with byte 1 (version):
 *	 s		a row. Key: the join key's bytes (group_key.h), 8 bytes number; expiry: when
 *			it goes. Value: byte flags (1: matched), the row (datum_codec.h).
 *	 2 + s	which rows a key has (join_page.h). Key: its bytes. Value: varint next
 *			number; varint full pages; for each: varint number minus that of the one
 *			before, varint earliest expiry minus the one before (folded), varint latest
 *			minus earliest; then the last page's rows.
 *	 4 + s	a full page. Key: the key's bytes, 8 bytes number of the page. Value: for
 *			each row: varint expiry minus the one before (folded; 0 before the first),
 *			varint number within the page.
 * Lists and pages have the rows' expiry if the key decides it (then all go by one
 * record), else none.
 *
 * A row with a NULL in its key, or in the time of the range, matches nothing and isn't
 * looked for: it stands in store s only, with 1 << 63 | batch id << 32 | number in the
 * batch.
 *
 * A row knows which expiries those that it can match have: a range of event times
 * bounds both. So of a key with many rows only these are fetched and looked at.
 */
#include "postgres.h"

#include <math.h>

#include "common/int.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "exec/join_key.h"
#include "exec/operator.h"
#include "exec/range_end.h"
#include "time/watermark.h"

#define LIST_BYTES		(64 * 1024 * 1024)	/* of rows that go */
#define KEY_BUFFER		(4 * 1024 * 1024)	/* bytes of keys after which rows are matched */

typedef struct Side
{
	const SxPlanSide *plan;
	bool		comes_out;		/* an unmatched row is emitted when it goes */
	SxChunk    *chunk;
	SxGroupKey *key;
	TypeCacheEntry *event_range;	/* of the type of its event time, or NULL */
	TypeCacheEntry *expiry_range;
	TupleTableSlot *slot;		/* batch: the row that the condition looks at */
	SxJoinRow  *new_rows;		/* batch: in the order in which they came */
	SxJoinRow **new_tail;
} Side;

typedef struct StreamJoin
{
	SxOperator	base;
	const SxPlanJoin *plan;
	SxJoinKeys *keys;
	Side		sides[2];
	bool		emits_pairs;	/* not semi, anti */

	/* SX_JOIN_KEYS of each: new rows of one side that wait to be matched */
	SxUpdate   *updates;
	SxJoinRow **rows;
	SxJoinKey **row_keys;

	/* per batch */
	MemoryContext context;		/* the batch's: while rows are received it is not the current one */
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *condition;		/* NULL: always true */
	bool		left_done;
	int			limit;			/* how many rows wait at most */
	int			nrows;
	StringInfoData bytes;
	uint64		hashes[SX_CHUNK_ROWS];
	uint32		loose;			/* rows with NULL in the key so far */
	SxJoinRow  *changed;		/* stored rows whose flag is another now, by their links */
	Datum	   *row;			/* being emitted */
	bool	   *row_nulls;
	bool	   *all_null;		/* as wide as the wider side */
} StreamJoin;

static void
open_side(StreamJoin *join, const SxPlanOperator *plan, int s)
{
	Side	   *side = &join->sides[s];

	side->plan = &plan->join->sides[s];
	side->comes_out = side->plan->outer;
	side->key = sx_join_side_key(side->plan);
	side->chunk = sx_chunk_make(side->plan->row);
	for (int i = 1; i <= side->plan->row->natts; i++)
		sx_chunk_need(side->chunk, side->plan->row, i);
	if (side->plan->event_is_range)
		side->event_range = lookup_type_cache(TupleDescAttr(side->plan->row, side->plan->event - 1)->atttypid,
											  TYPECACHE_RANGE_INFO);
	if (side->plan->expiry_is_range)
		side->expiry_range = lookup_type_cache(TupleDescAttr(side->plan->row, side->plan->expiry - 1)->atttypid,
											   TYPECACHE_RANGE_INFO);
}

static SxOperator *
join_open(const SxPlanOperator *plan)
{
	StreamJoin *join = palloc0(sizeof(StreamJoin));

	join->plan = plan->join;
	join->keys = sx_join_keys_make(plan);
	join->emits_pairs = plan->join->type != SX_JOIN_SEMI && plan->join->type != SX_JOIN_ANTI;
	open_side(join, plan, 0);
	open_side(join, plan, 1);
	join->updates = palloc(SX_JOIN_KEYS * sizeof(SxUpdate));
	join->rows = palloc(SX_JOIN_KEYS * sizeof(SxJoinRow *));
	join->row_keys = palloc(SX_JOIN_KEYS * sizeof(SxJoinKey *));
	return &join->base;
}

static int
join_state_operators(const SxPlanOperator *plan, SxStateOperator *result)
{
	return sx_join_keys_stores(plan, result);
}

static void
begin_condition(StreamJoin *join)
{
	List	   *condition = join->plan->condition;

	join->estate = CreateExecutorState();
	join->econtext = CreateExprContext(join->estate);
	for (int s = 0; s < 2; s++)
		join->sides[s].slot = MakeSingleTupleTableSlot(join->sides[s].plan->row, &TTSOpsVirtual);
	join->econtext->ecxt_outertuple = join->sides[0].slot;
	join->econtext->ecxt_innertuple = join->sides[1].slot;
	join->condition = NULL;
	if (condition != NIL)
		join->condition = ExecInitQual((List *) expression_planner((Expr *) copyObject(condition)), NULL);
}

static void
join_begin(SxOperator *op)
{
	StreamJoin *join = (StreamJoin *) op;
	int			natts = Max(join->sides[0].plan->row->natts, join->sides[1].plan->row->natts);

	join->context = CurrentMemoryContext;
	sx_join_keys_begin(join->keys, op->state);
	for (int s = 0; s < 2; s++)
	{
		Side	   *side = &join->sides[s];

		sx_group_key_begin(side->key);
		sx_chunk_begin(side->chunk);
		side->new_rows = NULL;
		side->new_tail = &side->new_rows;
	}
	begin_condition(join);
	join->left_done = false;
	/* a store sorts what is asked of it at once, and reads each of its blocks once */
	join->limit = sx_state_is_cold(op->state, SX_STORE_ID(op->plan->id, 0)) ||
		sx_state_is_cold(op->state, SX_STORE_ID(op->plan->id, 1)) ? SX_JOIN_KEYS : SX_CHUNK_ROWS;
	join->nrows = 0;
	initStringInfo(&join->bytes);
	join->loose = 0;
	join->changed = NULL;
	join->row = palloc((op->plan->output->natts + 1) * sizeof(Datum));
	join->row_nulls = palloc((op->plan->output->natts + 1) * sizeof(bool));
	join->all_null = palloc(natts + 1);
	memset(join->all_null, true, natts + 1);
}

/* left or right is NULL: its columns are. */
static void
emit(StreamJoin *join, const SxJoinRow *left, const SxJoinRow *right)
{
	const SxJoinRow *rows[2] = {left, right};
	int			at = 0;

	for (int s = 0; s < (join->emits_pairs ? 2 : 1); s++)
	{
		int			natts = join->sides[s].plan->row->natts;

		if (rows[s] != NULL)
			memcpy(join->row + at, rows[s]->values, natts * sizeof(Datum));
		else
			memset(join->row + at, 0, natts * sizeof(Datum));
		memcpy(join->row_nulls + at, rows[s] != NULL ? rows[s]->nulls : join->all_null, natts);
		at += natts;
	}
	sx_operator_emit(&join->base, join->row, join->row_nulls);
}

static void
emit_unmatched(StreamJoin *join, int s, const SxJoinRow *row)
{
	emit(join, s == 0 ? row : NULL, s == 1 ? row : NULL);
}

static void
show_row(Side *side, const SxJoinRow *row)
{
	side->slot->tts_values = row->values;
	side->slot->tts_isnull = row->nulls;
	ExecClearTuple(side->slot);
	ExecStoreVirtualTuple(side->slot);
}

static bool
fulfils(StreamJoin *join, const SxJoinRow *left, const SxJoinRow *right)
{
	if (join->condition == NULL)
		return true;
	ResetExprContext(join->econtext);
	show_row(&join->sides[0], left);
	show_row(&join->sides[1], right);
	return ExecQual(join->condition, join->econtext);
}

static void
set_matched(StreamJoin *join, int s, SxJoinRow *row)
{
	if (row->matched)
		return;
	row->matched = true;
	if (!join->emits_pairs)
		row->gone = true;		/* semi: it came out; anti: it never will */
	if (row->stored && (row->gone || join->sides[s].comes_out))
	{
		row->link = join->changed;
		join->changed = row;
	}
}

/* A new row of side s against others with its key; true: it has matched and wants no more. */
static bool
match_rows(StreamJoin *join, int s, SxJoinRow *row, SxJoinRow *others)
{
	for (SxJoinRow *other = others; other != NULL; other = other->next)
	{
		SxJoinRow  *left = s == 0 ? row : other;
		SxJoinRow  *right = s == 0 ? other : row;

		if (other->gone || !sx_join_span_has(&row->wants, other->expiry) || !fulfils(join, left, right))
			continue;
		if (join->emits_pairs)
		{
			emit(join, left, right);
			set_matched(join, 0, left);
			set_matched(join, 1, right);
			continue;
		}
		set_matched(join, 0, left);
		if (join->plan->type == SX_JOIN_SEMI)
			emit(join, left, NULL);
		if (s == 0)
			return true;
	}
	return false;
}

static void
match(StreamJoin *join, int s, SxJoinRow *row)
{
	const SxJoinKeySide *side = &row->key->sides[1 - s];

	CHECK_FOR_INTERRUPTS();
	if (match_rows(join, s, row, side->fresh))
		return;
	for (int i = 0; i < side->list.npages; i++)
		if (sx_join_page_may_have(&side->list.pages[i], &row->wants) &&
			match_rows(join, s, row, side->list.pages[i].rows))
			return;
}

/* The time at which a row is judged late, or goes; SX_STATE_NEVER if it has none. */
static int64
time_of(const Side *side, AttrNumber attnum, TypeCacheEntry *range, int row)
{
	const SxChunkColumn *column;
	int64		time = SX_STATE_NEVER;

	if (attnum == 0)
		return SX_STATE_NEVER;
	column = sx_chunk_column(side->chunk, attnum);
	if (column->nulls[row])
		return SX_STATE_NEVER;
	if (range != NULL)
		return sx_range_end(range, column->values[row], &time) ? time : SX_STATE_NEVER;
	if (!TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(column->values[row])))
		time = DatumGetTimestampTz(column->values[row]);
	return time;
}

static int64
expiry_of(const Side *side, int row)
{
	int64		time = time_of(side, side->plan->expiry, side->expiry_range, row);
	int64		expiry;

	if (time == SX_STATE_NEVER || pg_sub_s64_overflow(time, side->plan->bound, &expiry))
		return SX_STATE_NEVER;
	return expiry;
}

/* By the side's own condition in ON, if it isn't applied below. */
static bool
may_match(const Side *side, int row)
{
	const SxChunkColumn *column;

	if (side->plan->filter == 0)
		return true;
	column = sx_chunk_column(side->chunk, side->plan->filter);
	return !column->nulls[row] && DatumGetBool(column->values[row]);
}

static bool
matches_nothing(const StreamJoin *join, const Side *side, int row)
{
	/* comparisons of times are strict */
	if (!join->plan->expiry_in_key && side->plan->expiry != 0 &&
		sx_chunk_column(side->chunk, side->plan->expiry)->nulls[row])
		return true;
	for (int i = 0; i < side->plan->nkeys; i++)
		if (sx_chunk_column(side->chunk, side->plan->keys[i].input)->nulls[row])
			return true;
	return false;
}

/* When the rows of the other side go that this one can match. */
static SxJoinSpan
wanted_of(const StreamJoin *join, int s, int row, int64 expiry)
{
	const Side *side = &join->sides[s];
	const SxPlanSide *other = join->sides[1 - s].plan;
	SxJoinSpan	span = {PG_INT64_MIN, SX_STATE_NEVER};
	int64		time;

	if (join->plan->expiry_in_key || other->expiry == 0)
		return span;
	/* its expiry is the last time of ours that it can match */
	time = time_of(side, other->bound_by, NULL, row);
	if (time != SX_STATE_NEVER)
		span.from = time;
	/* our expiry is the last time of its that we can match */
	if (side->plan->expiry != 0 && side->plan->bound_by == other->expiry && expiry != SX_STATE_NEVER &&
		!pg_sub_s64_overflow(expiry, other->bound, &time))
		span.to = time;
	return span;
}

static SxJoinRow *
make_row(StreamJoin *join, int s, int row, int64 expiry)
{
	Side	   *side = &join->sides[s];
	SxJoinRow  *result = sx_join_row_copy(join->keys, side->plan, side->chunk, row);

	result->expiry = expiry;
	return result;
}

static void
keep_new(Side *side, SxJoinRow *row)
{
	*side->new_tail = row;
	side->new_tail = &row->link;
}

/* Matches nothing. In an inner join it is of no use; an outer side's row comes out when it goes. */
static void
keep_loose(StreamJoin *join, int s, int row, int64 expiry)
{
	Side	   *side = &join->sides[s];
	SxJoinRow  *copy;
	int			at = join->bytes.len;

	if (!side->comes_out)
	{
		join->base.progress->rows_refused++;
		return;
	}
	join->base.progress->rows_taken++;
	copy = make_row(join, s, row, expiry);
	copy->number = UINT64CONST(1) << 63 | (uint64) join->base.batch->batch_id << 32 | join->loose++;
	sx_group_key_encode(side->key, side->chunk, row, &join->bytes);
	copy->loose = palloc(offsetof(SxJoinLoose, bytes) + join->bytes.len - at);
	copy->loose->len = join->bytes.len - at;
	memcpy(copy->loose->bytes, join->bytes.data + at, copy->loose->len);
	copy->loose->hash = sx_join_key_hash(side->key, join->hashes[row], copy->loose->bytes, copy->loose->len);
	join->bytes.len = at;
	keep_new(side, copy);
}

static void
match_waiting(StreamJoin *join, int s)
{
	Side	   *side = &join->sides[s];

	sx_join_keys_find(join->keys, join->nrows, join->updates, join->bytes.data, join->row_keys);
	for (int i = 0; i < join->nrows; i++)
		join->rows[i]->key = join->row_keys[i];
	sx_join_keys_fetch(join->keys, 1 - s, join->nrows, join->rows);
	for (int i = 0; i < join->nrows; i++)
	{
		SxJoinRow  *row = join->rows[i];

		match(join, s, row);
		if (row->gone)
			continue;
		row->next = row->key->sides[s].fresh;
		row->key->sides[s].fresh = row;
		keep_new(side, row);
	}
	join->nrows = 0;
	resetStringInfo(&join->bytes);
	SX_CRASH_POINT("operator");
}

static void
wait_for_match(StreamJoin *join, int s, int row, int64 expiry)
{
	Side	   *side = &join->sides[s];
	SxUpdate   *update;

	if (join->nrows == join->limit || join->bytes.len > KEY_BUFFER)
		match_waiting(join, s);
	update = &join->updates[join->nrows];
	update->key = join->bytes.len;
	sx_group_key_encode(side->key, side->chunk, row, &join->bytes);
	update->keylen = join->bytes.len - update->key;
	update->row = row;
	update->hash = sx_join_key_hash(side->key, join->hashes[row], join->bytes.data + update->key,
								   update->keylen);
	update->group = update->hash % SX_KEY_GROUPS;
	update->expiry = join->plan->expiry_in_key ? expiry : SX_STATE_NEVER;
	join->rows[join->nrows] = make_row(join, s, row, expiry);
	join->rows[join->nrows++]->wants = wanted_of(join, s, row, expiry);
}

static void
process_chunk(StreamJoin *join, int s)
{
	Side	   *side = &join->sides[s];
	SxOperator *op = &join->base;
	MemoryContext oldcontext = MemoryContextSwitchTo(join->context);

	CHECK_FOR_INTERRUPTS();
	sx_group_key_hash(side->key, side->chunk, join->hashes);
	for (int row = 0; row < side->chunk->nrows; row++)
	{
		int64		expiry;

		if (side->plan->event != 0 &&
			time_of(side, side->plan->event, side->event_range, row) <= op->late)
		{
			op->progress->rows_late++;
			continue;
		}
		expiry = expiry_of(side, row);
		if (!may_match(side, row))
		{
			/* there is a filter only where unmatched rows come out */
			op->progress->rows_taken++;
			emit_unmatched(join, s, make_row(join, s, row, expiry));
		}
		else if (matches_nothing(join, side, row))
			keep_loose(join, s, row, expiry);
		else
		{
			op->progress->rows_taken++;
			wait_for_match(join, s, row, expiry);
		}
	}
	sx_chunk_clear(side->chunk);
	MemoryContextSwitchTo(oldcontext);
}

static void
end_side(StreamJoin *join, int s)
{
	MemoryContext oldcontext;

	process_chunk(join, s);
	oldcontext = MemoryContextSwitchTo(join->context);
	match_waiting(join, s);
	MemoryContextSwitchTo(oldcontext);
}

/* All left rows are matched before the first right one comes. */
static void
end_left(StreamJoin *join)
{
	if (!join->left_done)
		end_side(join, 0);
	join->left_done = true;
}

static bool
join_receive(SxOperator *op, int input, TupleTableSlot *slot)
{
	StreamJoin *join = (StreamJoin *) op;
	SxChunk    *chunk = join->sides[input].chunk;

	if (input == 1)
		end_left(join);
	sx_chunk_add(chunk, slot);
	if (sx_chunk_full(chunk))
		process_chunk(join, input);
	return true;
}

static bool
is_due(const StreamJoin *join, int s, int64 expiry)
{
	TimestampTz evict = join->base.evict;

	return join->sides[s].plan->expiry != 0 && evict != SX_TIME_UNSET && expiry <= evict;
}

/* A row that goes in the batch in which it came needn't be stored for that. */
static void
put_new_rows(StreamJoin *join, int s)
{
	Side	   *side = &join->sides[s];
	SxJoinRow  *kept = NULL;
	SxJoinRow **tail = &kept;

	for (SxJoinRow *row = side->new_rows, *next; row != NULL; row = next)
	{
		next = row->link;
		row->link = NULL;
		if (row->gone)
			continue;
		if (!is_due(join, s, row->expiry))
		{
			*tail = row;
			tail = &row->link;
		}
		else
		{
			row->gone = true;
			if (side->comes_out && !row->matched)
				emit_unmatched(join, s, row);
		}
	}
	join->base.progress->rows_updated += sx_join_keys_put(join->keys, s, kept);
}

static void
put_changed_rows(StreamJoin *join)
{
	for (SxJoinRow *row = join->changed; row != NULL; row = row->link)
		sx_join_keys_change(join->keys, row);
}

/* Of a side whose rows come out: those that never matched. The scan must not call the state. */
typedef struct Due
{
	StreamJoin *join;
	int			side;
	StringInfoData list;		/* SxJoinDue, key bytes, each */
} Due;

static bool
see_due(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	Due		   *due = arg;
	StreamJoin *join = due->join;
	SxStateKey	copy = *key;

	CHECK_FOR_INTERRUPTS();
	if (join->sides[due->side].comes_out && !sx_join_value_matched(value))
	{
		SxJoinRow  *row = sx_join_row_decode(join->keys, due->side, value);

		emit_unmatched(join, due->side, row);
		sx_join_row_free(join->keys);
	}
	if (join->plan->expiry_in_key)
		return true;			/* lists go by themselves */
	copy.bytes = NULL;
	appendBinaryStringInfo(&due->list, (const char *) &copy, sizeof(copy));
	appendBinaryStringInfo(&due->list, key->bytes, key->len);
	return due->list.len < LIST_BYTES;
}

/* Those in the list are taken off their keys' lists, and, if they don't all go by one record, removed. */
static void
forget_due(Due *due, bool remove)
{
	SxOperator *op = &due->join->base;
	StringInfo	list = &due->list;
	SxStateKey *rows = palloc(SX_JOIN_KEYS * sizeof(SxStateKey));
	char	   *at = list->data;

	while (at < list->data + list->len)
	{
		int			n = 0;

		CHECK_FOR_INTERRUPTS();
		for (; n < SX_JOIN_KEYS && at < list->data + list->len; n++)
		{
			memcpy(&rows[n], at, sizeof(SxStateKey));
			rows[n].bytes = at + sizeof(SxStateKey);
			at += sizeof(SxStateKey) + rows[n].len;
		}
		sx_join_keys_forget(due->join->keys, due->side, n, rows, list->data, op->evict);
		for (int i = 0; remove && i < n; i++)
			sx_state_remove(op->state, &rows[i]);
		if (remove)
			op->progress->rows_removed += n;
	}
	pfree(rows);
}

static void
remove_due(StreamJoin *join, int s)
{
	SxOperator *op = &join->base;
	Due			due = {join, s};
	uint16		rows = SX_STORE_ID(op->plan->id, s);
	bool		more;

	if (join->sides[s].plan->expiry == 0 || op->evict == SX_TIME_UNSET)
		return;
	initStringInfo(&due.list);
	do
	{
		resetStringInfo(&due.list);
		if (join->sides[s].comes_out || !join->plan->expiry_in_key)
			sx_state_scan_groups(op->state, rows, op->due_first, op->due_last, op->evict, see_due, &due);
		more = due.list.len >= LIST_BYTES;
		forget_due(&due, more);
	} while (more);
	pfree(due.list.data);
	if (!sx_operator_ends_due(op))
		return;
	op->progress->rows_removed += sx_state_expire(op->state, rows, op->evict);
	for (int store = 2; join->plan->expiry_in_key && store <= 4; store += 2)
		sx_state_expire(op->state, SX_STORE_ID(op->plan->id, store + s), op->evict);
}

/* Rows that are shown or taken off their keys' lists one by one when they go. */
static int64
join_due(SxOperator *op)
{
	const SxPlanJoin *plan = op->plan->join;
	StreamJoin *join = (StreamJoin *) op;
	int64		n = 0;

	for (int s = 0; s < 2 && op->evict != SX_TIME_UNSET; s++)
		if (plan->sides[s].expiry != 0 && (join->sides[s].comes_out || !plan->expiry_in_key))
			n += sx_state_due(op->state, SX_STORE_ID(op->plan->id, s), op->evict);
	return n;
}

static void
join_finish(SxOperator *op)
{
	StreamJoin *join = (StreamJoin *) op;

	end_left(join);
	end_side(join, 1);
	put_changed_rows(join);
	for (int s = 0; s < 2; s++)
		put_new_rows(join, s);
	for (int s = 0; s < 2; s++)
		remove_due(join, s);
	sx_join_keys_finish(join->keys, op->evict);
	op->state_rows = sx_state_rows(op->state, SX_STORE_ID(op->plan->id, 0)) +
		sx_state_rows(op->state, SX_STORE_ID(op->plan->id, 1));
	FreeExecutorState(join->estate);
}

static const char *const type_names[] = {"inner", "left", "right", "full", "semi", "anti"};
static const char *const input_names[] = {"left", "right"};

/* The segment's names, and where they come from. */
static char *
kept_columns(const SxPlanSide *side)
{
	StringInfoData list;
	ListCell   *cell;

	initStringInfo(&list);
	foreach(cell, side->origins)
	{
		Form_pg_attribute att = TupleDescAttr(side->row, foreach_current_index(cell));

		appendStringInfo(&list, "%s%s %s (%s)", list.len > 0 ? ", " : "", NameStr(att->attname),
						 format_type_be(att->atttypid), (char *) lfirst(cell));
	}
	return list.data;
}

static List *
explain_side(const SxPlanSide *side, const char *name, List *lines)
{
	const char *time = side->event_is_range ? "upper bound" : "event time";

	lines = lappend(lines, psprintf("  %s keeps: %s", name, kept_columns(side)));
	if (side->event != 0)
		lines = lappend(lines, psprintf("  %s late: %s <= watermark of the batch before", name, time));
	else
		lines = lappend(lines, psprintf("  %s: no row is late", name));
	if (side->expiry == 0)
		lines = lappend(lines, psprintf("  %s: no row is removed", name));
	else
		lines = lappend(lines, psprintf("  %s removed: %s <= watermark %c %.3f s", name,
										NameStr(TupleDescAttr(side->row, side->expiry - 1)->attname),
										side->bound < 0 ? '-' : '+', fabs(side->bound / 1e6)));
	return lines;
}

static List *
join_explain(const SxPlan *plan, const SxPlanOperator *op, List *lines)
{
	lines = lappend(lines, psprintf("  type: %s", type_names[op->join->type]));
	for (int i = 0; i < op->nkeys; i++)
		lines = lappend(lines, psprintf("  key %s: %s", op->keys[i].name, format_type_be(op->keys[i].type)));
	for (int s = 0; s < 2; s++)
		lines = explain_side(&op->join->sides[s], input_names[s], lines);
	return lines;
}

const SxOperatorRoutine sx_join_routine = {
	.name = "stream-stream join",
	.rows = SX_OPERATOR_TAKES,
	.inputs = input_names,
	.open = join_open,
	.state_operators = join_state_operators,
	.begin = join_begin,
	.receive = join_receive,
	.finish = join_finish,
	.due = join_due,
	.explain = join_explain,
	.stores = sx_join_stores,
	.show_open = sx_join_show_open,
	.show = sx_join_show,
};
