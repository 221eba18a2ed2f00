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
 * That is the order of semantics 8.1. Rows of a side come in rounds of some thousand:
 * what the state has of their keys is fetched once for all, and put again when the
 * round is over. So what a batch needs in memory doesn't grow with its rows.
 *
 * Stores, for side s (0 left, 1 right); values begin with byte 1 (version):
 *	 s		the rows of a key (join_page.h: a list). Key: its bytes (group_key.h)
 *	 2 + s	more of its rows, where there are many (a page). Key: the key's bytes,
 *			8 bytes number of the page
 *	 4 + s	the key is to be looked at. Key: its bytes; expiry: the end of the bucket
 *			of time in which the first of its rows goes
 *	 6		a row that matches nothing (rows of a page). Key: the bytes of its key,
 *			8 bytes: side << 63 | batch id << 32 | number in the batch; expiry: its own
 *	 7		an empty key. Value: varint rows in stores 0 to 3 and 6
 * Lists and pages have the rows' expiry if the key decides it (then all go by one
 * record, and store 4 + s is empty), else none.
 *
 * Rows with a NULL in their key, or in the time of the range, match nothing and aren't
 * looked for: an outer side's stand in store 6.
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

#define CHUNKS			4		/* of a round */
#define COLD_CHUNKS		16
#define MANY_FOUND		4		/* rows at hand for each new one */
#define ROUND_BYTES		(8 * 1024 * 1024)	/* of values and keys after which a round ends */

typedef struct Side
{
	const SxPlanSide *plan;
	bool		comes_out;		/* an unmatched row is emitted when it goes */
	SxChunk    *chunks[COLD_CHUNKS];	/* of the round; NULL: not made yet */
	int			nchunks;		/* the last of these is being filled */
	SxGroupKey *key;
	TypeCacheEntry *event_range;	/* of the type of its event time, or NULL */
	TypeCacheEntry *expiry_range;
	Datum	   *values;			/* the new row that is being matched */
	bool	   *nulls;
	TupleTableSlot *slot;		/* batch: the row that the condition looks at */
} Side;

typedef struct StreamJoin
{
	SxOperator	base;
	const SxPlanJoin *plan;
	SxJoinKeys *keys;
	Side		sides[2];
	bool		emits_pairs;	/* not semi, anti */
	MemoryContext query_context;

	/* a round: SX_JOIN_KEYS of each */
	SxUpdate   *updates;
	SxJoinNew  *rows;
	SxJoinKey **row_keys;

	/* per batch */
	MemoryContext context;		/* the batch's: while rows are received it is not the current one */
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *condition;		/* NULL: always true */
	bool		left_done;
	int			chunks;			/* of a round */
	int			nrows;
	StringInfoData bytes;
	uint64		hashes[SX_CHUNK_ROWS];
	uint32		loose;			/* rows with NULL in the key so far */
	Datum	   *row;			/* being emitted */
	bool	   *row_nulls;
	bool	   *all_null;		/* as wide as the wider side */
} StreamJoin;

/* A row of either kind, to be looked at. */
typedef struct Tuple
{
	Datum	   *values;
	bool	   *nulls;
} Tuple;

static SxChunk *
make_chunk(const SxPlanSide *side)
{
	SxChunk    *chunk = sx_chunk_make(side->row);

	for (int i = 1; i <= side->row->natts; i++)
		sx_chunk_need(chunk, side->row, i);
	return chunk;
}

static void
open_side(StreamJoin *join, const SxPlanOperator *plan, int s)
{
	Side	   *side = &join->sides[s];

	side->plan = &plan->join->sides[s];
	side->comes_out = side->plan->outer;
	side->key = sx_join_side_key(side->plan);
	side->chunks[0] = make_chunk(side->plan);
	side->values = palloc((side->plan->row->natts + 1) * sizeof(Datum));
	side->nulls = palloc((side->plan->row->natts + 1) * sizeof(bool));
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

	StaticAssertStmt(COLD_CHUNKS * SX_CHUNK_ROWS <= SX_JOIN_KEYS, "a round has more rows than keys can be asked for");
	join->plan = plan->join;
	join->query_context = CurrentMemoryContext;
	join->keys = sx_join_keys_make(plan);
	join->emits_pairs = plan->join->type != SX_JOIN_SEMI && plan->join->type != SX_JOIN_ANTI;
	open_side(join, plan, 0);
	open_side(join, plan, 1);
	join->updates = palloc(SX_JOIN_KEYS * sizeof(SxUpdate));
	join->rows = palloc(SX_JOIN_KEYS * sizeof(SxJoinNew));
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
		for (int i = 0; i < COLD_CHUNKS && side->chunks[i] != NULL; i++)
			sx_chunk_begin(side->chunks[i]);
		side->nchunks = 1;
	}
	begin_condition(join);
	join->left_done = false;
	join->chunks = join->keys->limit == SX_JOIN_KEYS ? COLD_CHUNKS : CHUNKS;
	join->nrows = 0;
	initStringInfo(&join->bytes);
	join->loose = 0;
	join->row = palloc((op->plan->output->natts + 1) * sizeof(Datum));
	join->row_nulls = palloc((op->plan->output->natts + 1) * sizeof(bool));
	join->all_null = palloc(natts + 1);
	memset(join->all_null, true, natts + 1);
}

/* left or right is NULL: its columns are. */
static void
emit(StreamJoin *join, const Tuple *left, const Tuple *right)
{
	const Tuple *rows[2] = {left, right};
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
emit_unmatched(StreamJoin *join, int s, Datum *values, bool *nulls)
{
	Tuple		row = {values, nulls};

	emit(join, s == 0 ? &row : NULL, s == 1 ? &row : NULL);
}

static void
show_row(Side *side, const Tuple *row)
{
	side->slot->tts_values = row->values;
	side->slot->tts_isnull = row->nulls;
	ExecClearTuple(side->slot);
	ExecStoreVirtualTuple(side->slot);
}

static bool
fulfils(StreamJoin *join, const Tuple *left, const Tuple *right)
{
	if (join->condition == NULL)
		return true;
	ResetExprContext(join->econtext);
	show_row(&join->sides[0], left);
	show_row(&join->sides[1], right);
	return ExecQual(join->condition, join->econtext);
}

static void
set_matched(StreamJoin *join, int s, SxJoinKey *key, SxJoinRow *row)
{
	if (join->emits_pairs && (!join->sides[s].comes_out || (row->flags & SX_ROW_MATCHED)))
		return;
	row->flags |= SX_ROW_MATCHED;
	row->gone = !join->emits_pairs; /* semi: it came out; anti: it never will */
	sx_join_keys_change(join->keys, key, s, row);
}

/* They match: what comes of it. True: the new row, of side s, wants no more. */
static bool
take_pair(StreamJoin *join, int s, SxJoinNew *new, SxJoinRow *other, const Tuple *left, const Tuple *right)
{
	if (join->emits_pairs)
	{
		emit(join, left, right);
		new->flags |= SX_ROW_MATCHED;
		set_matched(join, 1 - s, new->key, other);
		return false;
	}
	if (join->plan->type == SX_JOIN_SEMI)
		emit(join, left, NULL);
	if (s == 0)
		new->gone = true;
	else
		set_matched(join, 0, new->key, other);
	return s == 0;
}

/* A new row of side s, whose values are at hand, against another; as take_pair. */
static bool
match_row(StreamJoin *join, int s, SxJoinNew *new, SxJoinRow *other)
{
	Tuple		mine = {join->sides[s].values, join->sides[s].nulls};
	Tuple		yours;
	const Tuple *left = s == 0 ? &mine : &yours;
	const Tuple *right = s == 0 ? &yours : &mine;

	if (other->gone || !sx_join_span_has(&new->wants, other->expiry))
		return false;
	sx_join_row_load(join->keys, 1 - s, other);
	yours.values = other->values;
	yours.nulls = other->nulls;
	return fulfils(join, left, right) && take_pair(join, s, new, other, left, right);
}

/* The first row that goes at that time or later; they are in this order, but for those that never go. */
static uint32
first_from(const SxJoinKeySide *side, int64 from)
{
	uint32		low = 0;
	uint32		high = side->nfound - side->nnever;

	while (low < high)
	{
		uint32		middle = low + (high - low) / 2;

		if (side->found[middle]->expiry < from)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
match(StreamJoin *join, int s, SxJoinNew *new)
{
	const SxJoinKeySide *side = &new->key->sides[1 - s];
	uint32		never = side->nfound - side->nnever;

	CHECK_FOR_INTERRUPTS();
	for (uint32 i = first_from(side, new->wants.from); i < never && side->found[i]->expiry <= new->wants.to; i++)
		if (match_row(join, s, new, side->found[i]))
			return;
	for (uint32 i = never; i < side->nfound; i++)
		if (match_row(join, s, new, side->found[i]))
			return;
}

static inline SxChunk *
filling(const Side *side)
{
	return side->chunks[side->nchunks - 1];
}

/* The time at which a row is judged late, or goes; SX_STATE_NEVER if it has none. */
static int64
time_of(const Side *side, AttrNumber attnum, TypeCacheEntry *range, int row)
{
	const SxChunkColumn *column;
	int64		time = SX_STATE_NEVER;

	if (attnum == 0)
		return SX_STATE_NEVER;
	column = sx_chunk_column(filling(side), attnum);
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
	column = sx_chunk_column(filling(side), side->plan->filter);
	return !column->nulls[row] && DatumGetBool(column->values[row]);
}

static bool
matches_nothing(const StreamJoin *join, const Side *side, int row)
{
	/* comparisons of times are strict */
	if (!join->plan->expiry_in_key && side->plan->expiry != 0 &&
		sx_chunk_column(filling(side), side->plan->expiry)->nulls[row])
		return true;
	for (int i = 0; i < side->plan->nkeys; i++)
		if (sx_chunk_column(filling(side), side->plan->keys[i].input)->nulls[row])
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

static void
load_new(Side *side, const SxChunk *chunk, int row)
{
	for (int i = 0; i < side->plan->row->natts; i++)
	{
		const SxChunkColumn *column = sx_chunk_column(chunk, i + 1);

		side->values[i] = column->values[row];
		side->nulls[i] = column->nulls[row];
	}
}

static bool
is_due(const StreamJoin *join, int s, int64 expiry)
{
	TimestampTz evict = join->base.evict;

	return join->sides[s].plan->expiry != 0 && evict != SX_TIME_UNSET && expiry <= evict;
}

/* Matches nothing. In an inner join it is of no use; an outer side's row comes out when it goes. */
static void
keep_loose(StreamJoin *join, int s, int row, int64 expiry)
{
	Side	   *side = &join->sides[s];
	SxStateKey	key = {.op = SX_STORE_ID(join->base.plan->id, SX_JOIN_LOOSE),.expiry = expiry};
	uint64		number = sx_join_loose_number(s, join->base.batch->batch_id, join->loose);
	int			at = join->bytes.len;

	if (!side->comes_out)
	{
		join->base.progress->rows_refused++;
		return;
	}
	join->base.progress->rows_taken++;
	load_new(side, filling(side), row);
	if (is_due(join, s, expiry))
	{
		emit_unmatched(join, s, side->values, side->nulls);
		return;
	}
	join->loose++;
	sx_group_key_encode(side->key, filling(side), row, &join->bytes);
	key.hash = sx_join_key_hash(side->key, join->hashes[row], join->bytes.data + at, join->bytes.len - at);
	key.group = key.hash % SX_KEY_GROUPS;
	appendBinaryStringInfo(&join->bytes, (const char *) &number, SX_JOIN_NUMBER);
	key.bytes = join->bytes.data + at;
	key.len = join->bytes.len - at;
	sx_join_keys_put_loose(join->keys, s, &key, side->values, side->nulls);
	join->base.progress->rows_updated++;
	join->bytes.len = at;
}

static void
match_rows(StreamJoin *join, int s)
{
	Side	   *side = &join->sides[s];

	sx_join_keys_find(join->keys, join->nrows, join->updates, join->bytes.data, join->row_keys);
	for (int i = 0; i < join->nrows; i++)
		join->rows[i].key = join->row_keys[i];
	sx_join_keys_fetch(join->keys, s, join->nrows, join->rows);
	/* rows of keys that have many come in no order: each round reads them all, so fewer rounds */
	if (join->keys->found / MANY_FOUND > join->nrows)
		join->chunks = COLD_CHUNKS;
	for (int i = 0; i < join->nrows; i++)
	{
		SxJoinNew  *row = &join->rows[i];

		load_new(side, side->chunks[row->chunk], row->row);
		match(join, s, row);
		if (row->gone)
			continue;
		sx_join_keys_add(join->keys, s, row, side->values, side->nulls);
		if (!(row->flags & SX_ROW_PASSING))
			join->base.progress->rows_updated++;
	}
	sx_join_keys_put(join->keys);
}

static void
end_round(StreamJoin *join, int s)
{
	Side	   *side = &join->sides[s];

	if (join->nrows > 0)
		match_rows(join, s);
	join->nrows = 0;
	resetStringInfo(&join->bytes);
	for (int i = 0; i < side->nchunks; i++)
		sx_chunk_clear(side->chunks[i]);
	side->nchunks = 1;
	SX_CRASH_POINT("operator");
}

static void
wait_for_match(StreamJoin *join, int s, int row, int64 expiry)
{
	Side	   *side = &join->sides[s];
	SxUpdate   *update = &join->updates[join->nrows];
	SxJoinNew  *new = &join->rows[join->nrows++];

	update->key = join->bytes.len;
	sx_group_key_encode(side->key, filling(side), row, &join->bytes);
	update->keylen = join->bytes.len - update->key;
	update->row = row;
	update->hash = sx_join_key_hash(side->key, join->hashes[row], join->bytes.data + update->key,
								   update->keylen);
	update->group = update->hash % SX_KEY_GROUPS;
	update->expiry = join->plan->expiry_in_key ? expiry : SX_STATE_NEVER;
	new->wants = wanted_of(join, s, row, expiry);
	new->expiry = expiry;
	new->chunk = side->nchunks - 1;
	new->row = row;
	new->flags = is_due(join, s, expiry) ? SX_ROW_PASSING : 0;
	new->gone = false;
}

static void
take_row(StreamJoin *join, int s, int row)
{
	Side	   *side = &join->sides[s];
	SxOperator *op = &join->base;
	int64		expiry;

	if (side->plan->event != 0 &&
		time_of(side, side->plan->event, side->event_range, row) <= op->late)
	{
		op->progress->rows_late++;
		return;
	}
	expiry = expiry_of(side, row);
	if (!may_match(side, row))
	{
		/* there is a filter only where unmatched rows come out */
		op->progress->rows_taken++;
		load_new(side, filling(side), row);
		emit_unmatched(join, s, side->values, side->nulls);
	}
	else if (matches_nothing(join, side, row))
		keep_loose(join, s, row, expiry);
	else
	{
		op->progress->rows_taken++;
		wait_for_match(join, s, row, expiry);
	}
}

static Size
round_bytes(const StreamJoin *join, const Side *side)
{
	Size		bytes = join->bytes.len;

	for (int i = 0; i < side->nchunks; i++)
		bytes += MemoryContextMemAllocated(side->chunks[i]->arena, false);
	return bytes;
}

/* The next chunk of the round, which may have been made for a batch before. */
static void
next_chunk(StreamJoin *join, Side *side)
{
	SxChunk   **chunk = &side->chunks[side->nchunks++];

	if (*chunk != NULL)
		return;
	MemoryContextSwitchTo(join->query_context);
	*chunk = make_chunk(side->plan);
	MemoryContextSwitchTo(join->context);
	sx_chunk_begin(*chunk);
}

static void
process_chunk(StreamJoin *join, int s)
{
	Side	   *side = &join->sides[s];
	MemoryContext oldcontext = MemoryContextSwitchTo(join->context);

	CHECK_FOR_INTERRUPTS();
	sx_group_key_hash(side->key, filling(side), join->hashes);
	for (int row = 0; row < filling(side)->nrows; row++)
		take_row(join, s, row);
	if (side->nchunks == join->chunks || round_bytes(join, side) > ROUND_BYTES)
		end_round(join, s);
	else
		next_chunk(join, side);
	MemoryContextSwitchTo(oldcontext);
}

static void
end_side(StreamJoin *join, int s)
{
	MemoryContext oldcontext;

	process_chunk(join, s);
	oldcontext = MemoryContextSwitchTo(join->context);
	end_round(join, s);
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
	SxChunk    *chunk;

	if (input == 1)
		end_left(join);
	chunk = filling(&join->sides[input]);
	sx_chunk_add(chunk, slot);
	if (sx_chunk_full(chunk))
		process_chunk(join, input);
	return true;
}

static void
see_due(void *arg, int side, SxJoinRow *row)
{
	emit_unmatched(arg, side, row->values, row->nulls);
}

static int64
join_due(SxOperator *op)
{
	return sx_join_keys_due(((StreamJoin *) op)->keys, op);
}

static void
join_finish(SxOperator *op)
{
	StreamJoin *join = (StreamJoin *) op;

	end_left(join);
	end_side(join, 1);
	op->progress->rows_removed += sx_join_remove_due(join->keys, op, see_due, join);
	sx_join_keys_finish(join->keys);
	op->state_rows = join->keys->rows;
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
