/*
 * stream_storage.c
 *		The rows of streamx.stream and streamx.stream_loss, read and written
 *		through the heap: owners of streams have no rights on them.
 *
 * Writers look their stream up for every statement and take a cached copy, which
 * an invalidation of the stream's relation drops. Scans read the catalog anew: a
 * copy that is one message late could miss a heap that became the current one
 * just before the snapshot was taken.
 *
 * The lightweight locks: writers hold the stream's lock shared while they put
 * rows on pages, a scan takes it exclusively for the instant in which it reads
 * the number of blocks. Shared holders overtake an exclusive waiter, so that
 * several busy writers would let a scan starve; therefore everybody passes a
 * gate first, which writers hold for no longer than it takes to get the lock.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "monitor/shared.h"
#include "registry/query.h"
#include "source/stream_storage.h"

enum
{
	Anum_stream = 1,
	Anum_slot,
	Anum_heap,
	Anum_generation,
	Anum_started_at,
	Anum_retired_at,
	Anum_sealed,
	Anum_last_xid,
	Natts_stream = Anum_last_xid
};

enum
{
	Anum_loss_stream = 1,
	Anum_loss_generation,
	Anum_loss_xid,
	Anum_loss_at,
	Natts_loss = Anum_loss_at
};

typedef struct CachedStorage
{
	Oid			stream;			/* key */
	SxStreamStorage storage;
} CachedStorage;

/* Of writers; lives as long as the backend. An entry is there only while it is true. */
static HTAB *cache = NULL;
static uint64 forgotten = 0;	/* grows whenever an entry might have become untrue */

/* ---- rows of streamx.stream ---- */

static SysScanDesc
begin_scan(Relation rel, const char *index, AttrNumber attnum, Oid stream)
{
	ScanKeyData key;

	ScanKeyInit(&key, attnum, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	return systable_beginscan(rel, sx_catalog_relation(index), true, NULL, 1, &key);
}

static void
heap_from_tuple(HeapTuple tuple, TupleDesc desc, SxStreamHeap *heap)
{
	Datum		values[Natts_stream];
	bool		nulls[Natts_stream];

	heap_deform_tuple(tuple, desc, values, nulls);
	heap->slot = DatumGetInt16(values[Anum_slot - 1]);
	heap->heap = DatumGetObjectId(values[Anum_heap - 1]);
	heap->generation = DatumGetInt64(values[Anum_generation - 1]);
	heap->started_at = nulls[Anum_started_at - 1] ? DT_NOBEGIN :
		DatumGetTimestampTz(values[Anum_started_at - 1]);
	heap->retired_at = nulls[Anum_retired_at - 1] ? DT_NOEND :
		DatumGetTimestampTz(values[Anum_retired_at - 1]);
	heap->sealed = nulls[Anum_sealed - 1] ? 0 :
		U64FromFullTransactionId(DatumGetFullTransactionId(values[Anum_sealed - 1]));
	heap->last_xid = nulls[Anum_last_xid - 1] ? 0 :
		U64FromFullTransactionId(DatumGetFullTransactionId(values[Anum_last_xid - 1]));
	heap->tid = tuple->t_self;
}

static HeapTuple
heap_to_tuple(Oid stream, const SxStreamHeap *heap, TupleDesc desc)
{
	Datum		values[Natts_stream];
	bool		nulls[Natts_stream] = {0};

	values[Anum_stream - 1] = ObjectIdGetDatum(stream);
	values[Anum_slot - 1] = Int16GetDatum(heap->slot);
	values[Anum_heap - 1] = ObjectIdGetDatum(heap->heap);
	values[Anum_generation - 1] = Int64GetDatum(heap->generation);
	values[Anum_started_at - 1] = TimestampTzGetDatum(heap->started_at);
	nulls[Anum_started_at - 1] = TIMESTAMP_NOT_FINITE(heap->started_at);
	values[Anum_retired_at - 1] = TimestampTzGetDatum(heap->retired_at);
	nulls[Anum_retired_at - 1] = TIMESTAMP_NOT_FINITE(heap->retired_at);
	values[Anum_sealed - 1] = UInt64GetDatum(heap->sealed);
	nulls[Anum_sealed - 1] = heap->sealed == 0;
	values[Anum_last_xid - 1] = UInt64GetDatum(heap->last_xid);
	nulls[Anum_last_xid - 1] = heap->last_xid == 0;
	return heap_form_tuple(desc, values, nulls);
}

bool
sx_stream_storage_read(Oid stream, SxStreamStorage *storage)
{
	Relation	rel = sx_catalog_open("stream", Natts_stream, AccessShareLock);
	SysScanDesc scan = begin_scan(rel, "stream_stream_slot", Anum_stream, stream);
	HeapTuple	tuple;
	int			n = 0;

	storage->stream = stream;
	storage->current = 0;
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		SxStreamHeap heap;

		heap_from_tuple(tuple, RelationGetDescr(rel), &heap);
		if (heap.slot < 0 || heap.slot >= SX_STREAM_HEAPS)
			elog(ERROR, "stream %u has a heap in slot %d", stream, heap.slot);
		storage->heaps[heap.slot] = heap;
		n++;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (n == 0)
		return false;
	if (n != SX_STREAM_HEAPS)
		elog(ERROR, "stream %u has %d heaps", stream, n);
	for (int i = 1; i < SX_STREAM_HEAPS; i++)
	{
		if (storage->heaps[i].generation > storage->heaps[storage->current].generation)
			storage->current = i;
	}
	return true;
}

int
sx_stream_storage_order(const SxStreamStorage *storage, int order[SX_STREAM_HEAPS])
{
	int			n = 0;

	for (int i = 0; i < SX_STREAM_HEAPS; i++)
	{
		int			at = n;

		if (storage->heaps[i].generation == 0)
			continue;
		while (at > 0 && storage->heaps[order[at - 1]].generation > storage->heaps[i].generation)
		{
			order[at] = order[at - 1];
			at--;
		}
		order[at] = i;
		n++;
	}
	return n;
}

List *
sx_stream_storage_list(void)
{
	Relation	rel = sx_catalog_open("stream", Natts_stream, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	HeapTuple	tuple;
	List	   *streams = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;

		streams = list_append_unique_oid(streams,
										 DatumGetObjectId(heap_getattr(tuple, Anum_stream,
																	   RelationGetDescr(rel), &isnull)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return streams;
}

void
sx_stream_storage_insert(Oid stream, const SxStreamHeap *heap)
{
	Relation	rel = sx_catalog_open("stream", Natts_stream, RowExclusiveLock);

	CatalogTupleInsert(rel, heap_to_tuple(stream, heap, RelationGetDescr(rel)));
	table_close(rel, NoLock);
	CacheInvalidateRelcacheByRelid(stream);
}

void
sx_stream_storage_update(Oid stream, SxStreamHeap *heap)
{
	Relation	rel = sx_catalog_open("stream", Natts_stream, RowExclusiveLock);
	HeapTuple	tuple = heap_to_tuple(stream, heap, RelationGetDescr(rel));

	CatalogTupleUpdate(rel, &heap->tid, tuple);
	heap->tid = tuple->t_self;
	table_close(rel, NoLock);
	CacheInvalidateRelcacheByRelid(stream);
	CommandCounterIncrement();	/* it may be updated again */
}

/* The stream may be gone already, so there is nothing to invalidate. */
void
sx_stream_storage_delete(Oid stream)
{
	Relation	rel = sx_catalog_open("stream", Natts_stream, RowExclusiveLock);
	SysScanDesc scan = begin_scan(rel, "stream_stream_slot", Anum_stream, stream);
	HeapTuple	tuple;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		CatalogTupleDelete(rel, &tuple->t_self);
	systable_endscan(scan);
	table_close(rel, NoLock);
}

/* ---- the writers' cache ---- */

static void
forget_stream(Datum arg, Oid relid)
{
	HASH_SEQ_STATUS status;
	CachedStorage *entry;

	forgotten++;
	if (OidIsValid(relid))
	{
		hash_search(cache, &relid, HASH_REMOVE, NULL);
		return;
	}
	hash_seq_init(&status, cache);
	while ((entry = hash_seq_search(&status)) != NULL)
		hash_search(cache, &entry->stream, HASH_REMOVE, NULL);
}

static void
make_cache(void)
{
	HASHCTL		ctl;

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(Oid);
	ctl.entrysize = sizeof(CachedStorage);
	ctl.hcxt = TopMemoryContext;
	cache = hash_create("streamx storage of streams", 32, &ctl,
						HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	CacheRegisterRelcacheCallback(forget_stream, (Datum) 0);
}

void
sx_stream_storage_cached(Oid stream, SxStreamStorage *storage)
{
	CachedStorage *entry;
	uint64		before;

	if (cache == NULL)
		make_cache();
	entry = hash_search(cache, &stream, HASH_FIND, NULL);
	if (entry != NULL)
	{
		*storage = entry->storage;
		return;
	}
	before = forgotten;
	if (!sx_stream_storage_read(stream, storage))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("stream \"%s\" has no storage", get_rel_name(stream)),
				 errdetail("It was created while event triggers did not fire."),
				 errhint("ALTER FOREIGN TABLE ... OPTIONS (SET connector 'table'), or any other ALTER of it, makes the storage.")));

	/* What a message that came meanwhile made untrue is not kept. */
	if (forgotten != before)
		return;
	entry = hash_search(cache, &stream, HASH_ENTER, NULL);
	entry->storage = *storage;
}

/* ---- losses ---- */

List *
sx_stream_losses(Oid stream)
{
	Relation	rel = sx_catalog_open("stream_loss", Natts_loss, AccessShareLock);
	SysScanDesc scan = begin_scan(rel, "stream_loss_stream", Anum_loss_stream, stream);
	HeapTuple	tuple;
	List	   *losses = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Datum		values[Natts_loss];
		bool		nulls[Natts_loss];
		SxStreamLoss *loss = palloc(sizeof(SxStreamLoss));

		heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
		loss->generation = DatumGetInt64(values[Anum_loss_generation - 1]);
		loss->xid = U64FromFullTransactionId(DatumGetFullTransactionId(values[Anum_loss_xid - 1]));
		loss->at = DatumGetTimestampTz(values[Anum_loss_at - 1]);
		loss->tid = tuple->t_self;
		losses = lappend(losses, loss);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return losses;
}

void
sx_stream_loss_insert(Oid stream, const SxStreamLoss *loss)
{
	Relation	rel = sx_catalog_open("stream_loss", Natts_loss, RowExclusiveLock);
	Datum		values[Natts_loss];
	bool		nulls[Natts_loss] = {0};

	values[Anum_loss_stream - 1] = ObjectIdGetDatum(stream);
	values[Anum_loss_generation - 1] = Int64GetDatum(loss->generation);
	values[Anum_loss_xid - 1] = UInt64GetDatum(loss->xid);
	values[Anum_loss_at - 1] = TimestampTzGetDatum(loss->at);
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	table_close(rel, NoLock);
}

void
sx_stream_loss_delete(const SxStreamLoss *loss)
{
	Relation	rel = sx_catalog_open("stream_loss", Natts_loss, RowExclusiveLock);
	ItemPointerData tid = loss->tid;

	CatalogTupleDelete(rel, &tid);
	table_close(rel, NoLock);
}

void
sx_stream_losses_delete(Oid stream)
{
	ListCell   *lc;

	foreach(lc, sx_stream_losses(stream))
		sx_stream_loss_delete((SxStreamLoss *) lfirst(lc));
}

/* ---- locks ---- */

#define STREAM_PAIRS	(SX_STREAM_LOCKS / 2)

static LWLock *
stream_lock(Oid stream, bool gate)
{
	uint32		i = hash_combine(murmurhash32(MyDatabaseId), murmurhash32(stream)) % STREAM_PAIRS;

	return &sx_shared->stream_locks[gate ? STREAM_PAIRS + i : i].lock;
}

void
sx_stream_write_lock(Oid stream)
{
	LWLockAcquire(stream_lock(stream, true), LW_SHARED);
	LWLockAcquire(stream_lock(stream, false), LW_SHARED);
	LWLockRelease(stream_lock(stream, true));
}

void
sx_stream_write_unlock(Oid stream)
{
	LWLockRelease(stream_lock(stream, false));
}

void
sx_stream_blocks(Oid stream, int n, Relation *heaps, BlockNumber *blocks)
{
	sx_shared_require();
	LWLockAcquire(stream_lock(stream, true), LW_EXCLUSIVE);
	LWLockAcquire(stream_lock(stream, false), LW_EXCLUSIVE);
	for (int i = 0; i < n; i++)
		blocks[i] = RelationGetNumberOfBlocks(heaps[i]);
	LWLockRelease(stream_lock(stream, false));
	LWLockRelease(stream_lock(stream, true));
}
