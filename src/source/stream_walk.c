/*
 * stream_walk.c
 *		Walks the blocks behind a position, to find the end of the next range.
 *
 *		for each heap, oldest generation first
 *			for each block from the position's low block
 *				count the rows in the range; remember the block if there are any
 *				rows of transactions that have not ended: the low block stays here
 *				max_rows passed: cut behind this block
 *
 * A transaction that writes for an hour keeps the low block at its first row. So
 * that not every batch meanwhile has to look at all of its pages again, the
 * source remembers the blocks in which unread rows were left, and of which
 * transaction; they are visited when that has ended. This is memory only: after a
 * restart the first walk sees everything from the low block on.
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "source/stream_walk.h"

void
sx_block_runs_add(SxBlockRuns *list, BlockNumber from, BlockNumber behind, uint64 xid)
{
	SxBlockRun *run = list->n > 0 ? &list->runs[list->n - 1] : NULL;

	if (run != NULL && run->behind == from && run->xid == xid)
	{
		run->behind = behind;
		return;
	}
	if (list->n == list->size)
	{
		list->size = Max(8, 2 * list->size);
		list->runs = list->runs == NULL ? palloc(list->size * sizeof(SxBlockRun)) :
			repalloc(list->runs, list->size * sizeof(SxBlockRun));
	}
	run = &list->runs[list->n++];
	run->from = from;
	run->behind = behind;
	run->xid = xid;
}

/* After a rewrite the cut is found again by the number of rows before it. */
static void
find_cut(const SxStreamOffset *offset, Relation heap, Snapshot snapshot, SxStreamPlace *place)
{
	SxStreamBound start = {.done = offset->done,.part_xid = offset->part_xid,.part = offset->part};
	SxStreamBound end = {.done = offset->target};
	SxStreamRange range;
	SxStreamPage page = {InvalidBuffer};
	BlockNumber nblocks = RelationGetNumberOfBlocks(heap);
	int64		left = offset->cut_rows;

	sx_stream_range_init(&range, &start, &end, snapshot);
	place->block = 0;
	place->row = FirstOffsetNumber;
	for (BlockNumber block = 0; block < nblocks && left > 0; block++)
	{
		sx_stream_page_read(&page, heap, offset->cut.generation, block, &range);
		if (page.nrows == 0)
			continue;
		place->block = block;
		place->row = page.rows[Min(left, page.nrows) - 1] + 1;
		left -= page.nrows;
	}
	sx_stream_page_release(&page);
}

void
sx_stream_bound(const SxStreamOffset *offset, SxStreamHeaps *heaps, Snapshot snapshot,
				SxStreamBound *bound)
{
	memset(bound, 0, sizeof(*bound));
	bound->done = offset->done;
	bound->target = offset->target;
	bound->part_xid = offset->part_xid;
	bound->part = offset->part;
	if (offset->target == NULL)
		return;
	bound->cut.generation = offset->cut.generation;
	bound->cut.block = offset->cut.block;
	bound->cut.row = FirstOffsetNumber;
	for (int i = 0; i < heaps->n; i++)
	{
		if (heaps->generations[i] == offset->cut.generation &&
			heaps->files[i] != offset->cut.file)
			find_cut(offset, heaps->rels[i], snapshot, &bound->cut);
	}
}

/* ---- one walk ---- */

typedef struct WalkState
{
	SxStreamWalk *walk;
	const SxStreamOffset *start;
	SxXidSnapshot *target;
	uint64		own_xid;		/* read as well; 0: not */
	SxStreamRange range;
	SxStreamPage page;
	SxStreamHits *hits;
	bool		cut;

	/* of the heap being walked */
	int			i;
	int64		rows;
	BlockNumber last_read;
	BlockNumber first_later;
} WalkState;

/* Keeps it until the pending blocks are forgotten. */
static void
add_pending(WalkState *state, BlockNumber from, BlockNumber behind, uint64 xid)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(state->walk->pending->context);

	state->first_later = Min(state->first_later, from);
	sx_block_runs_add(&state->walk->pending->runs[state->i], from, behind, xid);
	MemoryContextSwitchTo(oldcontext);
}

/* The rest of the target is for later batches. */
static void
cut_behind(WalkState *state, BlockNumber block)
{
	const SxStreamOffset *start = state->start;
	SxStreamOffset *end = state->walk->end;
	bool		goes_on = start->target == state->target;	/* the same range was cut before */

	end->target = state->target;
	end->done = goes_on || start->target == NULL ? start->done : start->target;
	end->cut.generation = state->walk->heaps->generations[state->i];
	end->cut.file = state->walk->heaps->files[state->i];
	end->cut.block = block + 1;
	end->part_xid = start->part_xid;
	end->part = start->part;
	end->cut_rows = state->rows;
	if (goes_on && start->cut.generation == end->cut.generation)
		end->cut_rows += start->cut_rows;
	state->cut = true;
}

static void
visit(WalkState *state, BlockNumber block)
{
	SxStreamWalk *walk = state->walk;
	SxStreamHeaps *heaps = walk->heaps;
	int			i = state->i;

	sx_stream_page_read(&state->page, heaps->rels[i], heaps->generations[i], block, &state->range);
	if (state->page.later)
		add_pending(state, block, block + 1, state->page.later_xid);
	if (state->page.nrows == 0)
		return;
	state->last_read = block;
	state->rows += state->page.nrows;
	walk->rows += state->page.nrows;
	sx_block_runs_add(&state->hits->runs[i], block, block + 1, 0);
	if (walk->rows >= walk->max_rows &&
		!(block + 1 == walk->nblocks[i] && i + 1 == heaps->n))
		cut_behind(state, block);
}

/* What is known of this heap and file; NULL: nothing. */
static const SxBlockRuns *
find_known(const SxStreamPending *known, int64 generation, Oid file, BlockNumber *walked)
{
	for (int i = 0; known != NULL && i < known->n; i++)
	{
		if (known->generations[i] != generation || known->files[i] != file)
			continue;
		*walked = known->walked[i];
		return &known->runs[i];
	}
	return NULL;
}

/* Not one of them has the target read. */
static bool
is_for_later(const WalkState *state, const SxBlockRun *run)
{
	return run->xid != 0 && run->xid != state->own_xid &&
		!sx_xid_snapshot_contains(state->target, run->xid);
}

static void
walk_heap(WalkState *state, const SxStreamPending *known)
{
	SxStreamWalk *walk = state->walk;
	SxStreamPending *pending = walk->pending;
	int			i = state->i;
	int64		generation = walk->heaps->generations[i];
	Oid			file = walk->heaps->files[i];
	BlockNumber low = sx_stream_offset_low(state->start, generation, file);
	BlockNumber block = low;
	const SxBlockRuns *runs = find_known(known, generation, file, &block);
	SxStreamMark *mark = &walk->end->marks[walk->end->nmarks++];

	state->rows = 0;
	state->last_read = low;
	state->first_later = InvalidBlockNumber;
	for (int r = 0; runs != NULL && r < runs->n; r++)
	{
		const SxBlockRun *run = &runs->runs[r];
		BlockNumber behind = Min(run->behind, block);	/* what follows is visited below */

		if (run->from >= behind)
			continue;
		if (state->cut || is_for_later(state, run))
		{
			add_pending(state, run->from, behind, run->xid);
			continue;
		}
		for (BlockNumber b = run->from; b < behind; b++)
		{
			if (!state->cut)
				visit(state, b);
			else
				add_pending(state, b, b + 1, run->xid);
		}
	}
	for (; block < walk->nblocks[i] && !state->cut; block++)
		visit(state, block);

	pending->generations[i] = mark->generation = generation;
	pending->files[i] = mark->file = file;

	/* The last page may get more rows, so it is never done with. */
	pending->walked[i] = Min(block, Max(walk->nblocks[i], 1) - 1);
	mark->block = Min(state->last_read, state->first_later);
}

static SxStreamPending *
make_pending(int n)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamx pending blocks",
												  ALLOCSET_SMALL_SIZES);
	SxStreamPending *pending = MemoryContextAllocZero(context, sizeof(SxStreamPending));

	pending->context = context;
	pending->n = n;
	return pending;
}

void
sx_stream_walk(SxStreamWalk *walk, const SxStreamOffset *start, SxXidSnapshot *target,
			   const SxStreamPending *known)
{
	WalkState	state = {.walk = walk,.start = start,.target = target};
	SxStreamHeaps *heaps = walk->heaps;
	SxStreamBound from;
	SxStreamBound to = {.done = target};
	MemoryContext oldcontext;

	walk->rows = 0;
	walk->end = sx_stream_offset_make(target, start);
	walk->end->nmarks = 0;
	if (walk->own_part > 0)
	{
		/* Rows of the whole transaction are never cut: walk->max_rows is without bound. */
		Assert(walk->max_rows == PG_INT64_MAX);
		state.own_xid = U64FromFullTransactionId(GetTopFullTransactionId());
		walk->end->part_xid = state.own_xid;
		walk->end->part = walk->own_part;
	}
	to.part_xid = walk->end->part_xid;
	to.part = walk->end->part;
	sx_stream_bound(start, heaps, walk->snapshot, &from);
	sx_stream_range_init(&state.range, &from, &to, walk->snapshot);
	walk->pending = make_pending(heaps->n);
	state.hits = palloc0(sizeof(SxStreamHits));
	state.hits->n = heaps->n;
	for (state.i = 0; state.i < heaps->n; state.i++)
	{
		state.hits->generations[state.i] = heaps->generations[state.i];
		state.hits->files[state.i] = heaps->files[state.i];
		walk_heap(&state, known);
	}
	sx_stream_page_release(&state.page);
	state.hits->start = sx_stream_offset_copy(start);
	walk->end->hits = state.hits;
	oldcontext = MemoryContextSwitchTo(walk->pending->context);
	walk->pending->offset = sx_stream_offset_copy(walk->rows > 0 ? walk->end : start);
	MemoryContextSwitchTo(oldcontext);
}
