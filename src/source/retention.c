/*
 * retention.c
 *		The life of a hidden heap:
 *
 *		free ──switch──▶ current ──switch──▶ retired ──seal──▶ sealed ──empty──▶ free
 *
 * Writers take the current one. When it is large enough, or old enough, a free one
 * becomes current; transactions that began before may go on writing to the old
 * one, each holding its lock until it ends. Once a lock that conflicts with theirs
 * can be had at once, the heap is sealed: nobody writes to it any more (writers
 * look again after locking), and the transaction id that the sealing draws after
 * it got the lock is younger than all rows in it. A position whose snapshot
 * reaches past that id was taken after all of them had ended, so it has read them.
 *
 * It is emptied when every query that reads the stream is past it, or when
 * "retention" has passed since it was retired; without queries, only then. No
 * lock is waited for: a queued TRUNCATE would stall every writer and reader behind
 * it. What a query had not read is noted in streamx.stream_loss with a transaction
 * that it had not read; the query finds it there and fails instead of skipping
 * (sx_stream_loss_concerns).
 */
#include "postgres.h"

#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/settings.h"
#include "registry/query.h"
#include "source/retention.h"
#include "source/stream_ddl.h"
#include "source/stream_options.h"
#include "source/stream_page.h"
#include "source/stream_readers.h"
#include "source/table_stream.h"

/* A heap is retired at this part of the retention, so that small streams shrink too. */
#define AGE_PARTS	2

static BlockNumber
heap_blocks(Oid heap)
{
	Relation	rel = table_open(heap, AccessShareLock);
	BlockNumber blocks = RelationGetNumberOfBlocks(rel);

	table_close(rel, AccessShareLock);
	return blocks;
}

/* ---- switch ---- */

static void
switch_heap(SxStreamStorage *storage, int64 retention, TimestampTz now)
{
	SxStreamHeap *current = &storage->heaps[storage->current];
	uint64		size = (uint64) heap_blocks(current->heap) * BLCKSZ;
	bool		old = current->started_at < now - retention / AGE_PARTS;

	if (size == 0 || (size < (uint64) sx_stream_segment_size * 1024 && !old))
		return;
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
	{
		SxStreamHeap *next = &storage->heaps[i];

		if (next->generation != 0)
			continue;
		next->generation = current->generation + 1;
		next->started_at = now;
		current->retired_at = now;
		sx_stream_storage_update(storage->stream, current);
		sx_stream_storage_update(storage->stream, next);
		return;
	}
	/* all in use: the current one grows until an older one can be emptied */
}

/* ---- seal ---- */

/* The youngest transaction with a row in the heap, all of which have ended; 0: no row. */
static uint64
youngest_xid(Relation rel)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	SxStreamRange range;
	SxStreamPage page = {InvalidBuffer};
	uint64		result = 0;

	sx_stream_range_init(&range, NULL, NULL, snapshot);
	for (BlockNumber block = 0; block < nblocks; block++)
	{
		sx_stream_page_read(&page, rel, 0, block, &range);
		for (int i = 0; i < page.nrows; i++)
			result = Max(result, sx_stream_row_xid((HeapTupleHeader)
												   PageGetItem(page.page, PageGetItemId(page.page, page.rows[i]))));
	}
	sx_stream_page_release(&page);
	UnregisterSnapshot(snapshot);
	return result;
}

static void
seal_heap(Oid stream, SxStreamHeap *heap)
{
	Relation	rel;

	if (!ConditionalLockRelationOid(heap->heap, ShareLock))
		return;					/* somebody still writes to it */
	rel = table_open(heap->heap, NoLock);
	heap->sealed = U64FromFullTransactionId(GetTopFullTransactionId());
	heap->last_xid = youngest_xid(rel);
	table_close(rel, NoLock);
	sx_stream_storage_update(stream, heap);
}

/* ---- empty ---- */

/* A transaction with rows in the heap that the reader has not read; 0: it is past the heap. */
static uint64
unread_xid(const SxStreamReader *reader, const SxStreamHeap *heap)
{
	const SxStreamOffset *offset = reader->offset;
	SxXidSnapshot everything = {.xmin = PG_UINT64_MAX,.xmax = PG_UINT64_MAX};
	SxStreamBound end = {.done = &everything};
	SxStreamBound start;
	SxStreamRange range;
	SxStreamPage page = {InvalidBuffer};
	SxStreamHeaps heaps;
	BlockNumber nblocks;
	Snapshot	snapshot;
	uint64		result = 0;

	if (heap->last_xid == 0)
		return 0;
	if (offset == NULL)
		return heap->last_xid;
	if (offset->done->xmax > heap->sealed)
		return 0;
	if (!sx_xid_snapshot_contains(offset->done, heap->last_xid) && offset->target == NULL &&
		offset->part_xid != heap->last_xid)
		return heap->last_xid;

	/* The position is older than the seal, as of a query that waits for new rows: look. */
	heaps.n = 1;
	heaps.rels[0] = table_open(heap->heap, AccessShareLock);
	heaps.generations[0] = heap->generation;
	heaps.files[0] = heaps.rels[0]->rd_rel->relfilenode;
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	sx_stream_bound(offset, &heaps, snapshot, &start);
	sx_stream_range_init(&range, &start, &end, snapshot);
	nblocks = RelationGetNumberOfBlocks(heaps.rels[0]);
	for (BlockNumber block = sx_stream_offset_low(offset, heap->generation, heaps.files[0]);
		 block < nblocks && result == 0; block++)
	{
		sx_stream_page_read(&page, heaps.rels[0], heap->generation, block, &range);
		if (page.nrows > 0)
			result = sx_stream_row_xid((HeapTupleHeader)
									   PageGetItem(page.page, PageGetItemId(page.page, page.rows[0])));
	}
	sx_stream_page_release(&page);
	UnregisterSnapshot(snapshot);
	table_close(heaps.rels[0], AccessShareLock);
	return result;
}

/* Readers without a position are told too: a running one may have its position in memory only. */
static void
note_losses(Oid stream, const SxStreamHeap *heap, List *readers, TimestampTz now)
{
	ListCell   *lc;
	List	   *noted = NIL;	/* one row for a transaction is enough */

	foreach(lc, readers)
	{
		SxStreamReader *reader = (SxStreamReader *) lfirst(lc);
		SxStreamLoss loss = {.generation = heap->generation,.at = now};
		ListCell   *known;
		bool		found = false;

		loss.xid = unread_xid(reader, heap);
		if (loss.xid == 0)
			continue;
		ereport(LOG,
				(errmsg("retention removes rows of stream \"%s\" that query \"%s\" has not read",
						get_rel_name(stream), reader->query)));
		foreach(known, noted)
			found |= *(uint64 *) lfirst(known) == loss.xid;
		if (found)
			continue;
		sx_stream_loss_insert(stream, &loss);
		noted = lappend(noted, memcpy(palloc(sizeof(uint64)), &loss.xid, sizeof(uint64)));
	}
}

/* A loss stays as long as it concerns a reader; for one without a position the newest is enough. */
static void
trim_losses(Oid stream, List *readers)
{
	List	   *losses = sx_stream_losses(stream);
	int64		newest = 0;
	ListCell   *lc;
	ListCell   *lr;

	foreach(lc, losses)
		newest = Max(newest, ((SxStreamLoss *) lfirst(lc))->generation);
	foreach(lc, losses)
	{
		SxStreamLoss *loss = (SxStreamLoss *) lfirst(lc);
		bool		wanted = false;

		foreach(lr, readers)
		{
			const SxStreamOffset *offset = ((SxStreamReader *) lfirst(lr))->offset;

			wanted |= offset != NULL ? sx_stream_loss_concerns(loss, offset) :
				loss->generation == newest;
		}
		if (!wanted)
			sx_stream_loss_delete(loss);
	}
}

static void
empty_heap(Oid stream, SxStreamHeap *heap, List *readers, int64 retention, TimestampTz now)
{
	bool		expired = heap->retired_at <= now - retention;
	bool		all_past = readers != NIL;
	Relation	rel;
	ListCell   *lc;

	foreach(lc, readers)
	{
		if (all_past && !expired)
			all_past = unread_xid((SxStreamReader *) lfirst(lc), heap) == 0;
	}
	if (!all_past && !expired)
		return;
	if (!ConditionalLockRelationOid(heap->heap, AccessExclusiveLock))
		return;
	if (expired)
		note_losses(stream, heap, readers, now);
	rel = table_open(heap->heap, NoLock);
	sx_truncate(list_make1(rel), list_make1_oid(heap->heap));
	table_close(rel, NoLock);
	heap->generation = 0;
	heap->started_at = DT_NOBEGIN;
	heap->retired_at = DT_NOEND;
	heap->sealed = 0;
	heap->last_xid = 0;
	sx_stream_storage_update(stream, heap);
}

/* ---- all of it ---- */

void
sx_stream_rotate(Oid stream)
{
	SxStreamStorage storage;
	SxStreamOptions options;
	TimestampTz now = GetCurrentTimestamp();
	List	   *readers = NIL;
	bool		readers_known = false;
	int			order[SX_STREAM_HEAPS];
	int			n;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(stream)))
	{
		sx_stream_storage_drop(stream); /* dropped while event triggers did not fire */
		return;
	}

	/* Keeps DDL and another one of us away, no reader and no writer. */
	if (!ConditionalLockRelationOid(stream, ShareUpdateExclusiveLock) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(stream)) ||
		!sx_stream_storage_read(stream, &storage))
		return;
	sx_stream_options_parse(GetForeignTable(stream)->options, &options);
	n = sx_stream_storage_order(&storage, order);
	for (int i = 0; i < n; i++)
	{
		SxStreamHeap *heap = &storage.heaps[order[i]];

		if (heap->retired_at == DT_NOEND)
			continue;
		if (heap->sealed == 0)
		{
			seal_heap(stream, heap);
			continue;
		}
		if (!readers_known)
		{
			readers = sx_stream_readers(stream, get_rel_name(stream));
			readers_known = true;
			trim_losses(stream, readers);
		}
		empty_heap(stream, heap, readers, options.retention, now);
	}
	switch_heap(&storage, options.retention, now);
}

void
sx_stream_rotate_all(void)
{
	MemoryContext context = CurrentMemoryContext;
	List	   *streams = NIL;
	ListCell   *lc;

	StartTransactionCommand();
	if (sx_extension_installed())
	{
		MemoryContext oldcontext;
		List	   *found = sx_stream_storage_list();

		oldcontext = MemoryContextSwitchTo(context);
		streams = list_copy(found);
		MemoryContextSwitchTo(oldcontext);
	}
	CommitTransactionCommand();
	foreach(lc, streams)
	{
		CHECK_FOR_INTERRUPTS();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		sx_stream_rotate(lfirst_oid(lc));
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	MemoryContextSwitchTo(context);
	list_free(streams);
}
