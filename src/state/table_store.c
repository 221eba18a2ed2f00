/*
 * table_store.c
 *		The store in an unlogged table: for those who want no RocksDB.
 *
 * streamx_data.state_store_<query> (op int4, grp int4, expiry int8, hash int8,
 * data bytea) with a btree on the first four.  Its pages live in shared
 * buffers.  An immediate crash empties it, and the mark, a row of operator -1,
 * with it.  Written in maintenance transactions only.
 *
 * A rebuild fills the heap alone, many tuples at a time, and then builds the
 * index anew: a third of the time that inserting into it cell by cell takes.  The
 * new index is another file, so an abort leaves the old one, which is empty, beside
 * tuples that nobody sees; and without a mark nobody reads either before they are
 * truncated.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/heap.h"
#include "catalog/index.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "state/hidden_relation.h"
#include "state/state_store.h"
#include "state/store.h"

#define STORE_OP		1
#define STORE_GROUP		2
#define STORE_EXPIRY	3
#define STORE_HASH		4
#define STORE_DATA		5
#define STORE_NATTS		5

#define MARK_OP			(-1)

#define LOAD_TUPLES		512		/* inserted together */
#define LOAD_BYTES		(256 * 1024)

typedef struct TableStore
{
	SxStore		base;
	int64		query_id;
	Oid			relation;		/* found at the first access */
	Oid			index;

	/* of a run being written */
	Relation	heap;
	CatalogIndexState indexes;
	Snapshot	snapshot;
	Relation	index_relation;
	TupleTableSlot *slot;
	IndexScanDesc scan;

	/* of a load */
	bool		loading;
	MemoryContext load_context;	/* heap_multi_insert leaves things behind */
	int64		loaded;			/* tuples in the heap that the index lacks */
	int			nwaiting;
	Size		waiting_bytes;
	TupleTableSlot *waiting[LOAD_TUPLES];
} TableStore;

static char *
table_name(int64 query_id)
{
	return psprintf("state_store_%lld", (long long) query_id);
}

void
sx_table_store_create(int64 query_id)
{
	List	   *columns = list_make5(makeColumnDef("op", INT4OID, -1, InvalidOid),
									 makeColumnDef("grp", INT4OID, -1, InvalidOid),
									 makeColumnDef("expiry", INT8OID, -1, InvalidOid),
									 makeColumnDef("hash", INT8OID, -1, InvalidOid),
									 makeColumnDef("data", BYTEAOID, -1, InvalidOid));
	ListCell   *cell;

	foreach(cell, columns)
		((ColumnDef *) lfirst(cell))->is_not_null = true;
	/* room on the page lets an update leave the index alone */
	sx_hidden_create(table_name(query_id), RELPERSISTENCE_UNLOGGED, columns,
					 list_make1(makeDefElem("fillfactor", (Node *) makeInteger(80), -1)),
					 list_make4("op", "grp", "expiry", "hash"));
}

void
sx_table_store_drop(int64 query_id)
{
	sx_hidden_drop(table_name(query_id));
}

static SxStore *
table_store_open(const SxStoreConfig *config)
{
	TableStore *store = palloc0(sizeof(TableStore));

	store->base.routine = &sx_table_store;
	store->query_id = config->query_id;
	return &store->base;
}

static Relation
open_heap(TableStore *store, LOCKMODE lock)
{
	Relation	heap;

	if (!OidIsValid(store->relation))
	{
		store->relation = sx_hidden_find(table_name(store->query_id));
		if (!OidIsValid(store->relation))
			elog(ERROR, "table streamx_data.%s does not exist", table_name(store->query_id));
	}
	heap = table_open(store->relation, lock);
	if (!OidIsValid(store->index))
	{
		List	   *indexes = RelationGetIndexList(heap);

		if (list_length(indexes) != 1)
			elog(ERROR, "table streamx_data.%s has no index of ours", table_name(store->query_id));
		store->index = linitial_oid(indexes);
		list_free(indexes);
	}
	return heap;
}

/* ---------- reading ---------- */

static void
set_keys(ScanKey keys, int32 op, int32 group, int64 expiry, StrategyNumber strategy,
		 uint64 hash)
{
	ScanKeyInit(&keys[0], STORE_OP, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(op));
	ScanKeyInit(&keys[1], STORE_GROUP, BTEqualStrategyNumber, F_INT4EQ, Int32GetDatum(group));
	ScanKeyInit(&keys[2], STORE_EXPIRY, strategy,
				strategy == BTEqualStrategyNumber ? F_INT8EQ : F_INT8LE,
				Int64GetDatum(expiry));
	ScanKeyInit(&keys[3], STORE_HASH, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum((int64) hash));
}

static struct varlena *
cell_bytes(Relation heap, HeapTuple tuple)
{
	bool		isnull;
	Datum		data = heap_getattr(tuple, STORE_DATA, RelationGetDescr(heap), &isnull);

	return PG_DETOAST_DATUM_PACKED(data);
}

/*
 * systable scans are plain index scans with a snapshot of our choice; the column
 * numbers of the keys are the heap's.
 */
static void
table_store_get_many(SxStore *base, int n, const SxCellKey *keys,
					 void (*found) (void *arg, int i, const char *bytes, Size len), void *arg)
{
	TableStore *store = (TableStore *) base;
	Relation	heap = open_heap(store, AccessShareLock);
	Relation	index = index_open(store->index, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TupleTableSlot *slot = table_slot_create(heap, NULL);
	IndexScanDesc scan = sx_index_beginscan(heap, index, snapshot, 4, 0);
	int			i;

	for (i = 0; i < n; i++)
	{
		ScanKeyData scan_keys[4];

		set_keys(scan_keys, keys[i].op, keys[i].group, keys[i].expiry,
				 BTEqualStrategyNumber, keys[i].hash);
		index_rescan(scan, scan_keys, 4, NULL, 0);
		if (index_getnext_slot(scan, ForwardScanDirection, slot))
		{
			bool		isnull;
			Datum		data = slot_getattr(slot, STORE_DATA, &isnull);
			struct varlena *bytes = PG_DETOAST_DATUM_PACKED(data);

			found(arg, i, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
			if ((Pointer) bytes != DatumGetPointer(data))
				pfree(bytes);
		}
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

static void
table_store_scan(SxStore *base, uint16 op, uint16 group, int64 max_expiry,
				 SxCellVisit visit, void *arg)
{
	TableStore *store = (TableStore *) base;
	Relation	heap = open_heap(store, AccessShareLock);
	Relation	index = index_open(store->index, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData keys[4];
	SysScanDesc scan;
	HeapTuple	tuple;

	set_keys(keys, op, group, max_expiry, BTLessEqualStrategyNumber, 0);
	scan = systable_beginscan_ordered(heap, index, snapshot, 3, keys);
	while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
	{
		TupleDesc	desc = RelationGetDescr(heap);
		struct varlena *bytes = cell_bytes(heap, tuple);
		SxCellKey	key;
		bool		isnull;

		key.op = op;
		key.group = group;
		key.expiry = DatumGetInt64(heap_getattr(tuple, STORE_EXPIRY, desc, &isnull));
		key.hash = (uint64) DatumGetInt64(heap_getattr(tuple, STORE_HASH, desc, &isnull));
		if (!visit(arg, &key, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes)))
			break;
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
}

/* ---------- writing ---------- */

static void
begin_writing(TableStore *store)
{
	store->heap = open_heap(store, RowExclusiveLock);
	store->indexes = CatalogOpenIndexes(store->heap);
	/* nothing is written twice before end_writing, so what was there now is enough */
	store->snapshot = RegisterSnapshot(GetLatestSnapshot());
	store->index_relation = index_open(store->index, AccessShareLock);
	store->slot = table_slot_create(store->heap, NULL);
	store->scan = sx_index_beginscan(store->heap, store->index_relation, store->snapshot, 4, 0);
}

static void
end_writing(TableStore *store)
{
	index_endscan(store->scan);
	ExecDropSingleTupleTableSlot(store->slot);
	index_close(store->index_relation, NoLock);
	UnregisterSnapshot(store->snapshot);
	CatalogCloseIndexes(store->indexes);
	table_close(store->heap, NoLock);
	store->heap = NULL;
	CommandCounterIncrement();
}

static HeapTuple
form_tuple(TableStore *store, int32 op, int32 group, int64 expiry, uint64 hash,
		   const char *bytes, Size len)
{
	Datum		values[STORE_NATTS];
	bool		nulls[STORE_NATTS] = {false};
	struct varlena *data;
	HeapTuple	tuple;

	if (len > MaxAllocSize - VARHDRSZ)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("state of one key is too large for the table store"),
				 errhint("Use state_store \"rocksdb\".")));
	data = palloc(VARHDRSZ + len);
	SET_VARSIZE(data, VARHDRSZ + len);
	memcpy(VARDATA(data), bytes, len);
	values[STORE_OP - 1] = Int32GetDatum(op);
	values[STORE_GROUP - 1] = Int32GetDatum(group);
	values[STORE_EXPIRY - 1] = Int64GetDatum(expiry);
	values[STORE_HASH - 1] = Int64GetDatum((int64) hash);
	values[STORE_DATA - 1] = PointerGetDatum(data);
	tuple = heap_form_tuple(RelationGetDescr(store->heap), values, nulls);
	pfree(data);
	return tuple;
}

/* The tuple of the cell; false: none. */
static bool
find_tuple(TableStore *store, int32 op, int32 group, int64 expiry, uint64 hash,
		   ItemPointer tid)
{
	ScanKeyData keys[4];
	bool		found;

	set_keys(keys, op, group, expiry, BTEqualStrategyNumber, hash);
	index_rescan(store->scan, keys, 4, NULL, 0);
	found = index_getnext_slot(store->scan, ForwardScanDirection, store->slot);
	if (found)
		*tid = store->slot->tts_tid;
	ExecClearTuple(store->slot);
	return found;
}

static void
write_tuple(TableStore *store, int32 op, int32 group, int64 expiry, uint64 hash,
			const char *bytes, Size len, bool is_new)
{
	HeapTuple	tuple = form_tuple(store, op, group, expiry, hash, bytes, len);
	ItemPointerData tid;

	if (!is_new && find_tuple(store, op, group, expiry, hash, &tid))
		CatalogTupleUpdateWithInfo(store->heap, &tid, tuple, store->indexes);
	else
		CatalogTupleInsertWithInfo(store->heap, tuple, store->indexes);
	heap_freetuple(tuple);
}

/* ---------- loading ---------- */

static void
table_store_load_begin(SxStore *base)
{
	TableStore *store = (TableStore *) base;

	store->loading = true;
	store->loaded = 0;
	store->load_context = AllocSetContextCreate(CurrentMemoryContext, "streamx state load",
												ALLOCSET_DEFAULT_SIZES);
}

static void
insert_waiting(TableStore *store)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(store->load_context);

	heap_multi_insert(store->heap, store->waiting, store->nwaiting, GetCurrentCommandId(true),
					  TABLE_INSERT_SKIP_FSM, NULL);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(store->load_context);
	for (int i = 0; i < store->nwaiting; i++)
		ExecClearTuple(store->waiting[i]);	/* frees the tuple */
	store->loaded += store->nwaiting;
	store->nwaiting = 0;
	store->waiting_bytes = 0;
}

static void
load_tuple(TableStore *store, HeapTuple tuple)
{
	ExecForceStoreHeapTuple(tuple, store->waiting[store->nwaiting++], true);
	store->waiting_bytes += tuple->t_len;
	if (store->nwaiting == LOAD_TUPLES || store->waiting_bytes > LOAD_BYTES)
		insert_waiting(store);
}

static void
begin_loading_run(TableStore *store)
{
	store->heap = open_heap(store, RowExclusiveLock);
	for (int i = 0; i < LOAD_TUPLES; i++)
		store->waiting[i] = MakeSingleTupleTableSlot(RelationGetDescr(store->heap),
													 &TTSOpsHeapTuple);
}

static void
end_loading_run(TableStore *store)
{
	if (store->nwaiting > 0)
		insert_waiting(store);
	for (int i = 0; i < LOAD_TUPLES; i++)
		ExecDropSingleTupleTableSlot(store->waiting[i]);
	table_close(store->heap, NoLock);
	store->heap = NULL;
}

static void
table_store_load_end(SxStore *base)
{
	TableStore *store = (TableStore *) base;

	store->loading = false;
	MemoryContextDelete(store->load_context);
	if (store->loaded == 0)
		return;
	CommandCounterIncrement();
	sx_reindex_index(store->index, RELPERSISTENCE_UNLOGGED);
	CommandCounterIncrement();
}

/* ---------- runs ---------- */

static void
table_store_write_begin(SxStore *base, Size expected_bytes)
{
	TableStore *store = (TableStore *) base;

	if (store->loading)
		begin_loading_run(store);
	else
		begin_writing(store);
}

static void
table_store_put(SxStore *base, const SxCellKey *key, const char *bytes, Size len,
				bool is_new)
{
	TableStore *store = (TableStore *) base;

	if (store->loading)
		load_tuple(store, form_tuple(store, key->op, key->group, key->expiry, key->hash,
									 bytes, len));
	else
		write_tuple(store, key->op, key->group, key->expiry, key->hash, bytes, len, is_new);
}

static void
table_store_remove(SxStore *base, const SxCellKey *key)
{
	TableStore *store = (TableStore *) base;
	ItemPointerData tid;

	if (find_tuple(store, key->op, key->group, key->expiry, key->hash, &tid))
		CatalogTupleDelete(store->heap, &tid);
}

static void
table_store_write_end(SxStore *base)
{
	TableStore *store = (TableStore *) base;

	if (store->loading)
		end_loading_run(store);
	else
		end_writing(store);
}

static void
table_store_remove_expired(SxStore *base, uint16 op, int64 max_expiry)
{
	TableStore *store = (TableStore *) base;
	int			group;

	begin_writing(store);
	for (group = 0; group < SX_KEY_GROUPS; group++)
	{
		ScanKeyData keys[4];
		SysScanDesc scan;
		HeapTuple	tuple;

		set_keys(keys, op, group, max_expiry, BTLessEqualStrategyNumber, 0);
		scan = systable_beginscan_ordered(store->heap, store->index_relation,
										  store->snapshot, 3, keys);
		while ((tuple = systable_getnext_ordered(scan, ForwardScanDirection)) != NULL)
			CatalogTupleDelete(store->heap, &tuple->t_self);
		systable_endscan_ordered(scan);
	}
	end_writing(store);
}

/* ---------- the mark ---------- */

static char *
table_store_get_mark(SxStore *base, Size *len)
{
	TableStore *store = (TableStore *) base;
	Relation	heap = open_heap(store, AccessShareLock);
	Relation	index = index_open(store->index, AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData keys[4];
	SysScanDesc scan;
	HeapTuple	tuple;
	char	   *copy = NULL;

	*len = 0;
	set_keys(keys, MARK_OP, 0, 0, BTEqualStrategyNumber, 0);
	scan = systable_beginscan_ordered(heap, index, snapshot, 4, keys);
	tuple = systable_getnext_ordered(scan, ForwardScanDirection);
	if (tuple != NULL)
	{
		struct varlena *bytes = cell_bytes(heap, tuple);

		*len = VARSIZE_ANY_EXHDR(bytes);
		copy = palloc(*len + 1);
		memcpy(copy, VARDATA_ANY(bytes), *len);
	}
	systable_endscan_ordered(scan);
	UnregisterSnapshot(snapshot);
	index_close(index, NoLock);
	table_close(heap, NoLock);
	return copy;
}

static void
table_store_set_mark(SxStore *base, const char *bytes, Size len)
{
	TableStore *store = (TableStore *) base;

	begin_writing(store);
	write_tuple(store, MARK_OP, 0, 0, 0, bytes, len, false);
	end_writing(store);
}

/* In the transaction of the change itself: either both are there or none. */
static void
table_store_remove_mark(SxStore *base)
{
	TableStore *store = (TableStore *) base;
	ItemPointerData tid;

	begin_writing(store);
	if (find_tuple(store, MARK_OP, 0, 0, 0, &tid))
		CatalogTupleDelete(store->heap, &tid);
	end_writing(store);
}

static void
table_store_clear(SxStore *base)
{
	TableStore *store = (TableStore *) base;
	Relation	heap = open_heap(store, AccessShareLock);

	if (RelationGetNumberOfBlocks(heap) > 0)
	{
		/* not undone by an abort, and needn't be: an empty store is a store */
		LockRelationOid(store->relation, AccessExclusiveLock);
		heap_truncate_one_rel(heap);
		CommandCounterIncrement();
	}
	table_close(heap, NoLock);
}

static Size
table_store_memory(SxStore *base)
{
	return 0;					/* shared buffers */
}

static void
table_store_close(SxStore *base)
{
}

const SxStoreRoutine sx_table_store = {
	.name = "table",
	.open = table_store_open,
	.get_many = table_store_get_many,
	.scan = table_store_scan,
	.load_begin = table_store_load_begin,
	.load_end = table_store_load_end,
	.write_begin = table_store_write_begin,
	.put = table_store_put,
	.remove = table_store_remove,
	.write_end = table_store_write_end,
	.remove_expired = table_store_remove_expired,
	.get_mark = table_store_get_mark,
	.set_mark = table_store_set_mark,
	.remove_mark = table_store_remove_mark,
	.clear = table_store_clear,
	.memory = table_store_memory,
	.close = table_store_close,
};
