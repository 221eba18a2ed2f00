/*
 * table_stream.c
 *		The INSERT-able stream: a stream whose rows lie in hidden heaps.
 *
 * Rows commit in any order, so no counter and no block number alone can say what
 * was read. A position is a snapshot (stream_offset.h): the next batch takes a
 * new snapshot B, and reads the rows whose top transaction (sx_xid) had ended in
 * B and not in the old one, A, and which are visible. A transaction is in one
 * difference of successive snapshots and in no other, so none of its rows is
 * missed or read twice, whenever it commits. Rows of rolled-back subtransactions
 * carry the same sx_xid and are left out because they aren't visible.
 *
 * Where to look. Reading all blocks each time would be quadratic. For each heap
 * the position has a low block L, and
 *
 *		every row in a block before L has been read or will never be visible,
 *		and no row will ever be put in a block before L.
 *
 * The first half is seen while the blocks are read: L stays at the first block
 * with a row whose transaction had not ended. The second half rests on how rows
 * are written (stream_writer.c): each flush begins at the relation's last page or
 * extends it, without free space map and without the remembered target block, and
 * holds the stream's lock shared for as long as it runs. A reader takes that lock
 * exclusively and reads the number of blocks N: no flush runs at that moment, so
 * each later one begins at block N - 1 or after. L never passes N - 1.
 *
 * After a crash the heap may be shorter than N: extending is not logged by itself,
 * and blocks that held only rows of lost transactions may be missing. Therefore L
 * never passes the last block that held a row which was read: that row's
 * transaction committed before the batch that recorded L, so its page was logged
 * before L was and is there again whenever L is. The hidden heaps are created with
 * vacuum_truncate off, so nothing shortens them otherwise; a rewritten or
 * truncated heap has another file, for which L does not count. Whether sx_xid is
 * frozen doesn't matter, xmin decides only visibility.
 *
 * A batch can be cut: rows of (A, B] are taken in the order of (generation, block,
 * line pointer) up to the page that passes max_rows, and the position holds both
 * snapshots and the place. Rows of (A, B] don't change any more: their
 * transactions ended, and nobody updates hidden heaps.
 *
 * The own transaction's rows belong to a later batch (xid_snapshot.c), unless the
 * batch runs in a session's transaction (engine/session.h). Such a transaction is
 * read in parts, and the position says up to which. The number of its part stands
 * beside the transaction in every row (SX_STAMP): rows of one command are of one
 * part, a batch begins the next one, and no later row is put into an earlier part.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/predicate.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/errors.h"
#include "source/table_stream.h"

/*
 * The engine also looks whether a row waits behind the range that it has chosen,
 * so several positions are asked about in turn.
 */
#define KEPT_PENDING	3

typedef struct StreamSource
{
	SxSource	base;
	MemoryContext context;		/* lives as long as the source */
	SxStreamPending *pending[KEPT_PENDING]; /* of the last walks, or NULL */
	int			next_pending;	/* to be replaced */
} StreamSource;

typedef struct StreamScan
{
	SxScan		base;
	SxStreamHeaps heaps;
	SxStreamLayout *layout;
	SxStreamRange range;
	SxBlockRuns blocks[SX_STREAM_HEAPS];	/* to read */

	/* where it is */
	int			heap;
	int			run;
	BlockNumber block;			/* to be read next, if in the run */
	int			row;			/* index in page.rows, to be given next */
	SxStreamPage page;
} StreamScan;

/* ---- the heaps ---- */

static void
close_first(SxStreamHeaps *heaps, int n)
{
	for (int i = 0; i < n; i++)
		table_close(heaps->rels[i], AccessShareLock);
}

/* The same heaps in the same roles. */
static bool
same_storage(const SxStreamStorage *a, const SxStreamStorage *b)
{
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
	{
		if (a->heaps[i].heap != b->heaps[i].heap ||
			a->heaps[i].generation != b->heaps[i].generation)
			return false;
	}
	return true;
}

/*
 * Between reading the catalog and locking the heaps one may be emptied or become
 * the current one, so look again with the locks held.
 */
void
sx_stream_heaps_open(Oid stream, const char *name, SxStreamHeaps *heaps)
{
	SxStreamStorage again;
	int			order[SX_STREAM_HEAPS];

	/* The stream first, as DDL does: the other way round they would wait for each other. */
	LockRelationOid(stream, AccessShareLock);
	if (!sx_stream_storage_read(stream, &heaps->storage))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream %s has no storage", name),
				 errdetail("It was created while event triggers did not fire."),
				 errhint("Any ALTER FOREIGN TABLE of it makes the storage.")));
	for (;;)
	{
		heaps->n = sx_stream_storage_order(&heaps->storage, order);
		for (int i = 0; i < heaps->n; i++)
		{
			const SxStreamHeap *heap = &heaps->storage.heaps[order[i]];

			heaps->rels[i] = table_open(heap->heap, AccessShareLock);
			heaps->generations[i] = heap->generation;
			heaps->files[i] = heaps->rels[i]->rd_rel->relfilenode;
		}
		if (sx_stream_storage_read(stream, &again) && same_storage(&again, &heaps->storage))
			return;
		close_first(heaps, heaps->n);
		heaps->storage = again;
	}
}

void
sx_stream_heaps_close(SxStreamHeaps *heaps)
{
	for (int i = 0; i < heaps->n; i++)
		table_close(heaps->rels[i], NoLock);
	heaps->n = 0;
}

/* ---- positions ---- */

bool
sx_stream_loss_concerns(const SxStreamLoss *loss, const SxStreamOffset *offset)
{
	if (loss->generation < offset->first_generation ||
		sx_xid_snapshot_contains(offset->done, loss->xid))
		return false;
	return offset->target == NULL ||
		!sx_xid_snapshot_contains(offset->target, loss->xid) ||
		loss->generation >= offset->cut.generation;
}

static void
check_offset(SxSource *source, const SxStreamOffset *offset)
{
	ListCell   *lc;

	if (offset->done->xmax > U64FromFullTransactionId(ReadNextFullTransactionId()))
		sx_stream_offset_invalid(source->name,
								 "It names transactions that this server has not run yet, so it was written by another one or before the server was reset.");
	foreach(lc, sx_stream_losses(source->relid))
	{
		SxStreamLoss *loss = (SxStreamLoss *) lfirst(lc);

		if (!sx_stream_loss_concerns(loss, offset))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_SX_DATA_LOST),
				 errmsg("rows of stream %s were removed before they were read", source->name),
				 errdetail("The retention of the stream passed at %s; rows of transaction %llu and others had not been read.",
						   timestamptz_to_str(loss->at), (unsigned long long) loss->xid),
				 errhint("Raise option \"retention\" of the stream; drop and create the query to begin with the rows that are left.")));
	}
}

/* ---- choosing a range ---- */

static SxStreamPending *
find_pending(StreamSource *source, const SxStreamOffset *offset, int *at)
{
	for (*at = 0; *at < KEPT_PENDING; (*at)++)
	{
		if (source->pending[*at] != NULL &&
			sx_stream_offset_equal(&source->pending[*at]->offset->base, &offset->base))
			return source->pending[*at];
	}
	*at = source->next_pending;
	return NULL;
}

/* Walks, and remembers what it learnt about blocks with pending rows. */
static void
walk_from(StreamSource *source, SxStreamWalk *walk, const SxStreamOffset *start,
		  SxXidSnapshot *target)
{
	int			at;

	sx_stream_walk(walk, start, target, find_pending(source, start, &at));
	if (find_pending(source, walk->pending->offset, &at) == NULL)
		source->next_pending = (at + 1) % KEPT_PENDING;
	if (source->pending[at] != NULL)
		MemoryContextDelete(source->pending[at]->context);
	source->pending[at] = walk->pending;
	MemoryContextSetParent(walk->pending->context, source->context);
}

/* What is left of a cut batch comes first, then what is new. */
static SxOffset *
next_end(SxSource *base, const SxOffset *base_start, const SxChoose *choose)
{
	StreamSource *source = (StreamSource *) base;
	const SxStreamOffset *start = (const SxStreamOffset *) base_start;
	SxStreamHeaps heaps;
	SxStreamWalk walk = {
		.heaps = &heaps,
		.snapshot = choose->snapshot,
		.max_rows = choose->max_rows > 0 ? choose->max_rows : PG_INT64_MAX,
	};

	sx_stream_heaps_open(base->relid, base->name, &heaps);
	check_offset(base, start);
	sx_stream_blocks(base->relid, heaps.n, heaps.rels, walk.nblocks);
	if (start->target != NULL)
		walk_from(source, &walk, start, start->target);
	if (walk.rows == 0)
	{
		SxXidSnapshot *target = choose->stop_at != NULL ?
			((const SxStreamOffset *) choose->stop_at)->done :
			sx_xid_snapshot_take(choose->snapshot);

		walk.own_part = choose->own_part;
		walk_from(source, &walk, start, target);
	}
	sx_stream_heaps_close(&heaps);
	return walk.rows > 0 ? &walk.end->base : NULL;
}

static int
rows_on_page(Relation heap, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(heap, block);
	int			rows;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	rows = PageGetMaxOffsetNumber(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	return rows;
}

/* Pages from the first unread one on, all as full as that one. */
static int64
available(SxSource *source, const SxOffset *base, const SxChoose *choose)
{
	const SxStreamOffset *start = (const SxStreamOffset *) base;
	BlockNumber nblocks[SX_STREAM_HEAPS];
	SxStreamHeaps heaps;
	int64		pages = 0;
	int			per_page = 0;

	sx_stream_heaps_open(source->relid, source->name, &heaps);
	sx_stream_blocks(source->relid, heaps.n, heaps.rels, nblocks);
	for (int i = 0; i < heaps.n; i++)
	{
		BlockNumber low = sx_stream_offset_low(start, heaps.generations[i], heaps.files[i]);

		if (low >= nblocks[i])
			continue;
		pages += nblocks[i] - low;
		if (per_page == 0)
			per_page = rows_on_page(heaps.rels[i], low);
	}
	sx_stream_heaps_close(&heaps);
	return pages * per_page;
}

static SxOffset *
latest(SxSource *source, const SxOffset *start, const SxChoose *choose)
{
	return &sx_stream_offset_make(sx_xid_snapshot_take(choose->snapshot),
						(const SxStreamOffset *) start)->base;
}

static SxOffset *
initial(SxSource *base, bool only_later, const SxChoose *choose)
{
	SxStreamOffset *offset = sx_stream_offset_make(sx_xid_snapshot_nothing(), NULL);
	SxStreamHeaps heaps;
	SxStreamWalk walk = {
		.heaps = &heaps,
		.snapshot = choose->snapshot,
		.max_rows = PG_INT64_MAX,
		.own_part = choose->own_part,
	};

	sx_stream_heaps_open(base->relid, base->name, &heaps);
	if (heaps.n > 0)
		offset->first_generation = heaps.generations[0];
	if (only_later)
	{
		/* One walk over what is skipped, so that the next ones need not do it. */
		sx_stream_blocks(base->relid, heaps.n, heaps.rels, walk.nblocks);
		walk_from((StreamSource *) base, &walk, offset, sx_xid_snapshot_take(choose->snapshot));
		offset = walk.end;
	}
	sx_stream_heaps_close(&heaps);
	return &offset->base;
}

/* ---- scanning a range ---- */

static void
scan_rescan(SxScan *base)
{
	StreamScan *scan = (StreamScan *) base;

	sx_stream_page_release(&scan->page);
	scan->page.nrows = 0;
	scan->row = 0;
	scan->heap = 0;
	scan->run = 0;
	scan->block = 0;
}

static StreamScan *
begin_scan(SxSource *source)
{
	StreamScan *scan = palloc0(sizeof(StreamScan));

	scan->base.source = source;
	sx_stream_heaps_open(source->relid, source->name, &scan->heaps);
	if (scan->heaps.n > 0)
		scan->layout = sx_stream_layout(RelationGetDescr(scan->heaps.rels[0]));
	scan->base.last_needed = scan->layout != NULL ? scan->layout->natts : 0;
	return scan;
}

/*
 * Behind the cut of the end lie no rows of the range: it is the start of a batch that
 * the cut ends. A start further back (verify reads many batches at once) has them: a
 * transaction that took long has its rows before those that were read meanwhile.
 */
static bool
ends_at_cut(const SxStreamOffset *start, const SxStreamOffset *end)
{
	return end->target != NULL &&
		(sx_xid_snapshot_equal(start->done, end->done) ||
		 (start->target != NULL && sx_xid_snapshot_equal(start->target, end->done)));
}

/* The blocks that the walk found, or else all from the low block to the end or the cut. */
static void
choose_blocks(StreamScan *scan, const SxStreamOffset *start, const SxStreamOffset *end)
{
	const SxStreamHits *hits = end->hits;
	const SxStreamPlace *cut = &scan->range.end.cut;
	bool		until_cut = ends_at_cut(start, end);

	if (hits != NULL && !sx_stream_offset_equal(&hits->start->base, &start->base))
		hits = NULL;
	for (int i = 0; i < scan->heaps.n; i++)
	{
		int64		generation = scan->heaps.generations[i];
		Oid			file = scan->heaps.files[i];
		BlockNumber behind = RelationGetNumberOfBlocks(scan->heaps.rels[i]);
		bool		found = false;

		for (int h = 0; hits != NULL && h < hits->n; h++)
		{
			if (hits->generations[h] != generation || hits->files[h] != file)
				continue;
			scan->blocks[i] = hits->runs[h];
			found = true;
		}
		if (found)
			continue;
		if (until_cut && generation > cut->generation)
			behind = 0;
		if (until_cut && generation == cut->generation)
			behind = Min(behind, cut->row > FirstOffsetNumber ? cut->block + 1 : cut->block);
		sx_block_runs_add(&scan->blocks[i], sx_stream_offset_low(start, generation, file),
						  behind, 0);
	}
}

static SxScan *
scan_begin(SxSource *source, const SxOffset *base_start, const SxOffset *base_end)
{
	const SxStreamOffset *start = (const SxStreamOffset *) base_start;
	const SxStreamOffset *end = (const SxStreamOffset *) base_end;
	StreamScan *scan = begin_scan(source);
	Snapshot	snapshot = GetActiveSnapshot();
	SxStreamBound from;
	SxStreamBound to;

	sx_stream_bound(start, &scan->heaps, snapshot, &from);
	sx_stream_bound(end, &scan->heaps, snapshot, &to);
	sx_stream_range_init(&scan->range, &from, &to, snapshot);
	choose_blocks(scan, start, end);
	scan_rescan(&scan->base);
	return &scan->base;
}

static SxScan *
scan_all(SxSource *source, Snapshot snapshot)
{
	StreamScan *scan = begin_scan(source);

	sx_stream_range_init(&scan->range, NULL, NULL, snapshot);
	for (int i = 0; i < scan->heaps.n; i++)
	{
		PredicateLockRelation(scan->heaps.rels[i], snapshot);	/* SERIALIZABLE */
		sx_block_runs_add(&scan->blocks[i], 0, RelationGetNumberOfBlocks(scan->heaps.rels[i]), 0);
	}
	scan_rescan(&scan->base);
	return &scan->base;
}

/* The next page with a row; false at the end. */
static bool
next_page(StreamScan *scan)
{
	while (scan->heap < scan->heaps.n)
	{
		const SxBlockRuns *blocks = &scan->blocks[scan->heap];

		if (scan->run >= blocks->n)
		{
			scan->heap++;
			scan->run = 0;
			scan->block = 0;
			continue;
		}
		scan->block = Max(scan->block, blocks->runs[scan->run].from);
		if (scan->block >= blocks->runs[scan->run].behind)
		{
			scan->run++;
			continue;
		}
		sx_stream_page_read(&scan->page, scan->heaps.rels[scan->heap],
							scan->heaps.generations[scan->heap], scan->block++, &scan->range);
		scan->row = 0;
		if (scan->page.nrows > 0)
			return true;
	}
	sx_stream_page_release(&scan->page);
	scan->page.nrows = 0;
	return false;
}

static bool
scan_next(SxScan *base, TupleTableSlot *slot)
{
	StreamScan *scan = (StreamScan *) base;

	if (scan->row >= scan->page.nrows)
	{
		ExecClearTuple(slot);	/* it points into the page that is let go */
		if (!next_page(scan))
			return false;
	}
	sx_stream_row_deform(scan->layout, &scan->page, scan->page.rows[scan->row++], slot,
						 base->last_needed);
	return true;
}

static void
scan_end(SxScan *base)
{
	StreamScan *scan = (StreamScan *) base;

	sx_stream_page_release(&scan->page);
	sx_stream_heaps_close(&scan->heaps);
	pfree(scan);
}

/* ---- the rest of the routine ---- */

static SxSource *
open_source(Relation rel)
{
	StreamSource *source = palloc0(sizeof(StreamSource));

	source->base.routine = &sx_table_stream_routine;
	source->base.relid = RelationGetRelid(rel);
	source->context = CurrentMemoryContext;
	return &source->base;
}

static SxOffset *
offset_parse(SxSource *source, const char *text)
{
	return &sx_stream_offset_parse(source->name, text)->base;
}

/*
 * Of the heaps since the query began none was emptied; a younger one may be before an
 * older one that a transaction still writes to.
 */
static bool
retained(SxSource *source, const SxOffset *start, const SxOffset *end)
{
	SxStreamHeaps heaps;
	bool		result;

	sx_stream_heaps_open(source->relid, source->name, &heaps);
	result = heaps.n > 0 &&
		heaps.generations[0] <= ((const SxStreamOffset *) end)->first_generation &&
		heaps.generations[heaps.n - 1] - heaps.generations[0] == heaps.n - 1;
	sx_stream_heaps_close(&heaps);
	return result;
}

/* Rows come by commits, and those wake the reader. */
static TimestampTz
next_time(SxSource *source, const SxOffset *start)
{
	return DT_NOEND;
}

static void
close_source(SxSource *source)
{
}

const SxSourceRoutine sx_table_stream_routine = {
	.name = "streamx",
	.open = open_source,
	.initial = initial,
	.next_end = next_end,
	.available = available,
	.latest = latest,
	.scan_begin = scan_begin,
	.scan_next = scan_next,
	.scan_rescan = scan_rescan,
	.scan_end = scan_end,
	.scan_all = scan_all,
	.offset_print = sx_stream_offset_print,
	.offset_parse = offset_parse,
	.offset_equal = sx_stream_offset_equal,
	.retained = retained,
	.next_time = next_time,
	.close = close_source,
};
