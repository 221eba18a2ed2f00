/*
 * log_table.c
 *		Rows of log tables, and which tables are in use.
 *
 * A row of streamx_data.state_log_<query>_<slot> is (batch, place, data):
 * place = kind << 56 | group << 48 | number << 1 | last, so that rows of a
 * section sort by number and the last one is known.  Rows are appended at the
 * end of the heap and cut so that they fill pages; there is no index.  A scan
 * therefore meets them in order, except that on one page a row may stand where
 * an aborted one was vacuumed away; the scan sorts each page.  Batch and place
 * alone don't tell the order: without changelog a batch writes the groups it
 * touched, and the maintenance after it the others, of the same batch.  But what
 * one transaction writes is in order, and transactions follow each other.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "storage/bufpage.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "state/hidden_relation.h"
#include "state/log_table.h"

/* streamx.state_generation */
#define GENERATION_QUERY		1
#define GENERATION_PART			2
#define GENERATION_NUMBER		3
#define GENERATION_SLOT			4
#define GENERATION_FIRST		5
#define GENERATION_COMPLETE		6
#define GENERATION_NATTS		6

/* a log table */
#define LOG_NATTS				3
#define ROW_FIXED				(MAXALIGN(SizeofHeapTupleHeader) + 2 * sizeof(int64) + VARHDRSZ)
#define ROW_DATA				(MaxHeapTupleSize - ROW_FIXED)	/* 8116: one row fills a page */
#define ROW_WORTH_SPLITTING		256

void
sx_log_damaged(const SxLog *log, const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_CHECKPOINT),
			 errmsg("changelog of query %lld is incomplete or damaged",
					(long long) log->query_id),
			 errdetail_internal("%s", detail),
			 errhint("Restore the database from a backup, or start the query with a new checkpoint.")));
}

static char *
log_name(int64 query_id, int slot)
{
	return psprintf("state_log_%lld_%d", (long long) query_id, slot);
}

/* ---------- which generations there are ---------- */

static Relation
open_generations(LOCKMODE lock)
{
	Oid			schema = get_namespace_oid("streamx", false);
	Oid			relation = get_relname_relid("state_generation", schema);

	if (!OidIsValid(relation))
		elog(ERROR, "table streamx.state_generation does not exist");
	return table_open(relation, lock);
}

static void
insert_generation(int64 query_id, int part, const SxGeneration *generation)
{
	Relation	relation = open_generations(RowExclusiveLock);
	Datum		values[GENERATION_NATTS];
	bool		nulls[GENERATION_NATTS] = {false};
	HeapTuple	tuple;

	values[GENERATION_QUERY - 1] = Int64GetDatum(query_id);
	values[GENERATION_PART - 1] = Int32GetDatum(part);
	values[GENERATION_NUMBER - 1] = Int64GetDatum(generation->number);
	values[GENERATION_SLOT - 1] = Int32GetDatum(generation->slot);
	values[GENERATION_FIRST - 1] = Int64GetDatum(generation->first_batch);
	values[GENERATION_COMPLETE - 1] = Int64GetDatum(generation->complete_batch);
	nulls[GENERATION_COMPLETE - 1] = generation->complete_batch == SX_INCOMPLETE;
	tuple = heap_form_tuple(RelationGetDescr(relation), values, nulls);
	CatalogTupleInsert(relation, tuple);
	table_close(relation, RowExclusiveLock);
}

/* Deletes the rows of the query; part and number -1: all. */
static void
delete_generations(int64 query_id, int part, int64 number)
{
	Relation	relation = open_generations(RowExclusiveLock);
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, GENERATION_QUERY, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(query_id));
	scan = systable_beginscan(relation, InvalidOid, false, snapshot, 1, &key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		TupleDesc	desc = RelationGetDescr(relation);

		if (part >= 0 &&
			(DatumGetInt32(heap_getattr(tuple, GENERATION_PART, desc, &isnull)) != part ||
			 DatumGetInt64(heap_getattr(tuple, GENERATION_NUMBER, desc, &isnull)) != number))
			continue;
		CatalogTupleDelete(relation, &tuple->t_self);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(relation, RowExclusiveLock);
}

void
sx_log_create(int64 query_id)
{
	int			i;

	for (i = 0; i < SX_LOG_SLOTS; i++)
	{
		ColumnDef  *batch = makeColumnDef("batch", INT8OID, -1, InvalidOid);
		ColumnDef  *place = makeColumnDef("place", INT8OID, -1, InvalidOid);
		ColumnDef  *data = makeColumnDef("data", BYTEAOID, -1, InvalidOid);
		DefElem    *option = makeDefElem("autovacuum_enabled",
										 (Node *) makeString("false"), -1);

		batch->is_not_null = place->is_not_null = data->is_not_null = true;
		data->storage = TYPSTORAGE_PLAIN;
		/* never updated, emptied as a whole: nothing for autovacuum to do */
		sx_hidden_create(log_name(query_id, i), RELPERSISTENCE_PERMANENT,
						 list_make3(batch, place, data), list_make1(option), NIL);
	}
	for (i = 0; i < SX_LOG_PARTS; i++)
	{
		SxGeneration first = {0};

		first.number = 1;
		first.slot = i;
		first.complete_batch = -1;	/* before batch 0 every group is empty */
		insert_generation(query_id, i, &first);
	}
	CommandCounterIncrement();
}

void
sx_log_drop(int64 query_id)
{
	int			i;

	delete_generations(query_id, -1, -1);
	for (i = 0; i < SX_LOG_SLOTS; i++)
		sx_hidden_drop(log_name(query_id, i));
}

void
sx_log_reset_counts(SxGeneration *generation)
{
	int			i;

	generation->change_bytes = 0;
	generation->pending_bytes = 0;
	generation->snapshot_bytes = 0;
	for (i = 0; i < SX_GROUPS_IN_PART; i++)
		generation->snapshot_batch[i] = SX_INCOMPLETE;
}

static void
init_generation(SxGeneration *generation, int64 number, int slot, int64 first_batch,
				int64 complete_batch)
{
	memset(generation, 0, sizeof(*generation));
	generation->number = number;
	generation->slot = slot;
	generation->first_batch = first_batch;
	generation->complete_batch = complete_batch;
	sx_log_reset_counts(generation);
}

/* Keeps the part's generations in order of their numbers. */
static void
add_generation(SxLog *log, int part, const SxGeneration *generation)
{
	SxLogPart  *p;
	int			at;

	if (part < 0 || part >= SX_LOG_PARTS ||
		generation->slot < 0 || generation->slot >= SX_LOG_SLOTS ||
		log->slot_used[generation->slot] || log->parts[part].ngenerations == SX_LOG_SLOTS)
		sx_log_damaged(log, "Table streamx.state_generation contradicts itself.");
	p = &log->parts[part];
	for (at = p->ngenerations; at > 0 && p->generations[at - 1].number > generation->number; at--)
		p->generations[at] = p->generations[at - 1];
	p->generations[at] = *generation;
	p->ngenerations++;
	log->slot_used[generation->slot] = true;
}

static void
read_generations(SxLog *log)
{
	Relation	relation = open_generations(AccessShareLock);
	Snapshot	snapshot = RegisterSnapshot(log->snapshot != NULL ? log->snapshot :
											GetLatestSnapshot());
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, GENERATION_QUERY, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(log->query_id));
	scan = systable_beginscan(relation, InvalidOid, false, snapshot, 1, &key);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		Datum		values[GENERATION_NATTS];
		bool		nulls[GENERATION_NATTS];
		SxGeneration generation;

		heap_deform_tuple(tuple, RelationGetDescr(relation), values, nulls);
		init_generation(&generation,
						DatumGetInt64(values[GENERATION_NUMBER - 1]),
						DatumGetInt32(values[GENERATION_SLOT - 1]),
						DatumGetInt64(values[GENERATION_FIRST - 1]),
						nulls[GENERATION_COMPLETE - 1] ? SX_INCOMPLETE :
						DatumGetInt64(values[GENERATION_COMPLETE - 1]));
		add_generation(log, DatumGetInt32(values[GENERATION_PART - 1]), &generation);
	}
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(relation, AccessShareLock);
}

static void
open_log(SxLog *log, int64 query_id, Snapshot snapshot)
{
	int			i;

	memset(log, 0, sizeof(*log));
	log->query_id = query_id;
	log->snapshot = snapshot;
	read_generations(log);
	for (i = 0; i < SX_LOG_PARTS; i++)
	{
		log->parts[i].last_block = InvalidBlockNumber;
		if (log->parts[i].ngenerations == 0)
			sx_log_damaged(log, psprintf("Part %d of the key groups has no log table.", i));
	}
	for (i = 0; i < SX_LOG_SLOTS; i++)
	{
		log->relations[i] = sx_hidden_find(log_name(query_id, i));
		if (!OidIsValid(log->relations[i]))
			sx_log_damaged(log, psprintf("Table streamx_data.%s does not exist.",
										 log_name(query_id, i)));
	}
}

void
sx_log_open(SxLog *log, int64 query_id)
{
	open_log(log, query_id, NULL);
}

/* Does each table still hold the generation that the log says? */
static bool
is_as_now(const SxLog *log, const SxLog *now)
{
	int			part;
	int			i;

	for (part = 0; part < SX_LOG_PARTS; part++)
	{
		const SxLogPart *was = &log->parts[part];
		const SxLogPart *is = &now->parts[part];

		/* they go from the oldest on, so the oldest one tells */
		if (is->generations[0].number > was->generations[0].number ||
			is->generations[is->ngenerations - 1].number < was->generations[0].number)
			return false;
		for (i = 0; i < SX_LOG_SLOTS; i++)
			if (log->relations[i] != now->relations[i])
				return false;
	}
	return true;
}

bool
sx_log_open_locked(SxLog *log, int64 query_id, Snapshot snapshot)
{
	SxLog	   *now = palloc(sizeof(SxLog));
	bool		as_now;
	int			i;

	open_log(log, query_id, snapshot);
	for (i = 0; i < SX_LOG_SLOTS; i++)
		LockRelationOid(log->relations[i], AccessShareLock);

	/* truncation isn't seen by a snapshot */
	open_log(now, query_id, NULL);
	as_now = is_as_now(log, now);
	pfree(now);
	if (!as_now)
		sx_log_unlock(log);
	return as_now;
}

void
sx_log_unlock(SxLog *log)
{
	int			i;

	for (i = 0; i < SX_LOG_SLOTS; i++)
		UnlockRelationOid(log->relations[i], AccessShareLock);
}

int64
sx_log_oldest_batch(const SxLog *log)
{
	int64		oldest = 0;
	int			part;

	/* what expired by the batch of the snapshots themselves may stand in a table before */
	for (part = 0; part < SX_LOG_PARTS; part++)
		if (log->parts[part].generations[0].complete_batch >= 0)
			oldest = Max(oldest, log->parts[part].generations[0].complete_batch + 1);
	return oldest;
}

/* ---------- rotation ---------- */

static int
free_slot(const SxLog *log)
{
	int			i;

	for (i = 0; i < SX_LOG_SLOTS; i++)
		if (!log->slot_used[i])
			return i;
	return -1;
}

bool
sx_log_has_free_slot(const SxLog *log)
{
	return free_slot(log) >= 0;
}

void
sx_log_begin_generation(SxLog *log, int part, int64 first_batch)
{
	SxGeneration generation;

	Assert(sx_log_has_free_slot(log));
	init_generation(&generation, sx_log_current(log, part)->number + 1,
					free_slot(log), first_batch, SX_INCOMPLETE);
	insert_generation(log->query_id, part, &generation);
	add_generation(log, part, &generation);
	log->parts[part].last_block = InvalidBlockNumber;
}

void
sx_log_complete_generation(SxLog *log, int part, int64 batch)
{
	SxGeneration *generation = sx_log_current(log, part);

	generation->complete_batch = batch;
	CommandCounterIncrement();	/* it may have begun in this transaction */
	delete_generations(log->query_id, part, generation->number);
	CommandCounterIncrement();
	insert_generation(log->query_id, part, generation);
}

bool
sx_log_drop_oldest(SxLog *log, int part)
{
	SxLogPart  *p = &log->parts[part];
	SxGeneration *oldest = &p->generations[0];
	Relation	relation;

	Assert(p->ngenerations > 1);
	if (!ConditionalLockRelationOid(log->relations[oldest->slot], AccessExclusiveLock))
		return false;
	relation = table_open(log->relations[oldest->slot], NoLock);
	RelationSetNewRelfilenumber(relation, relation->rd_rel->relpersistence);
	table_close(relation, NoLock);
	delete_generations(log->query_id, part, oldest->number);
	log->slot_used[oldest->slot] = false;
	p->ngenerations--;
	memmove(p->generations, p->generations + 1, p->ngenerations * sizeof(SxGeneration));
	return true;
}

/* ---------- appending ---------- */

struct SxLogAppender
{
	SxLog	   *log;

	/* of the section being written */
	Relation	relation;
	CommandId	cid;
	SxSectionHeader header;
	int64		number;			/* of the next row */
	int64		bytes;
	Size		held;			/* bytes of the next row that are here already */
	union
	{
		struct varlena header;
		char		data[VARHDRSZ + ROW_DATA];
	}			row;
};

SxLogAppender *
sx_log_appender_create(SxLog *log, MemoryContext context)
{
	SxLogAppender *appender = MemoryContextAllocZero(context, sizeof(*appender));

	appender->log = log;
	return appender;
}

void
sx_log_append_begin(SxLogAppender *appender, const SxSectionHeader *header)
{
	SxLog	   *log = appender->log;

	appender->header = *header;
	appender->relation = table_open(log->relations[sx_log_current(log, header->part)->slot],
									RowExclusiveLock);
	appender->cid = GetCurrentCommandId(true);
	appender->number = 0;
	appender->bytes = 0;
	appender->held = 0;
}

/* How much the next row takes: what the last page has room for, or a page. */
static Size
next_row_room(SxLogAppender *appender)
{
	SxLogPart  *part = &appender->log->parts[appender->header.part];
	Size		free = part->last_free;

	if (part->last_block == InvalidBlockNumber ||
		free < sizeof(ItemIdData) + ROW_FIXED + ROW_WORTH_SPLITTING)
		return ROW_DATA;
	return Min(ROW_DATA, MAXALIGN_DOWN(free - sizeof(ItemIdData)) - ROW_FIXED);
}

static int64
row_place(const SxSectionHeader *header, int64 number, bool last)
{
	return ((int64) header->kind << 56) | ((int64) header->group << 48) |
		(number << 1) | (last ? 1 : 0);
}

static void
write_row(SxLogAppender *appender, bool last)
{
	SxLogPart  *part = &appender->log->parts[appender->header.part];
	Datum		values[LOG_NATTS];
	bool		nulls[LOG_NATTS] = {false};
	HeapTuple	tuple;
	BlockNumber block;
	Size		taken;

	SET_VARSIZE(&appender->row, VARHDRSZ + appender->held);
	values[0] = Int64GetDatum(appender->header.batch);
	values[1] = Int64GetDatum(row_place(&appender->header, appender->number, last));
	values[2] = PointerGetDatum(&appender->row);
	tuple = heap_form_tuple(RelationGetDescr(appender->relation), values, nulls);
	heap_insert(appender->relation, tuple, appender->cid, HEAP_INSERT_SKIP_FSM, NULL);

	taken = MAXALIGN(tuple->t_len) + sizeof(ItemIdData);
	block = ItemPointerGetBlockNumber(&tuple->t_self);
	if (part->last_block != block)
	{
		part->last_block = block;
		part->last_free = BLCKSZ - SizeOfPageHeaderData;
	}
	part->last_free -= Min(taken, part->last_free);
	appender->number++;
	appender->bytes += tuple->t_len;
	appender->held = 0;
	heap_freetuple(tuple);
}

void
sx_log_append(void *arg, const char *bytes, Size len, bool last)
{
	SxLogAppender *appender = arg;

	for (;;)
	{
		Size		room = next_row_room(appender);
		Size		n;

		/* a short end that doesn't fit on the last page is better on a new one */
		n = room > appender->held ? Min(len, room - appender->held) : 0;
		memcpy(appender->row.data + VARHDRSZ + appender->held, bytes, n);
		appender->held += n;
		bytes += n;
		len -= n;
		if (len == 0)
			break;
		write_row(appender, false);
	}
	if (last)
		write_row(appender, true);
}

int64
sx_log_append_end(SxLogAppender *appender)
{
	table_close(appender->relation, NoLock);
	appender->relation = NULL;
	return appender->bytes;
}

/* ---------- scanning ---------- */

typedef struct LogRow
{
	int64		batch;
	TransactionId xmin;			/* as written, frozen or not */
	int64		place;
	Size		offset;			/* in the page's bytes */
	Size		len;
} LogRow;

struct SxLogScan
{
	SxLog	   *log;
	int			part;
	Relation	relation;
	Snapshot	snapshot;
	TableScanDesc scan;
	HeapTuple	ahead;			/* first row of the next page */

	/* rows of one page, sorted */
	LogRow	   *rows;
	int			nrows;
	int			next;
	char	   *page;
	Size		page_len;

	/* the section being put together */
	char	   *section;
	Size		section_len;
	Size		section_allocated;
};

SxLogScan *
sx_log_scan_begin(SxLog *log, int part, int generation)
{
	SxLogScan  *scan = palloc0(sizeof(*scan));

	scan->log = log;
	scan->part = part;
	scan->relation = table_open(log->relations[log->parts[part].generations[generation].slot],
								AccessShareLock);
	scan->snapshot = RegisterSnapshot(log->snapshot != NULL ? log->snapshot :
									  GetLatestSnapshot());
	/* in the order of pages from the first: no synchronised scan */
	scan->scan = table_beginscan_strat(scan->relation, scan->snapshot, 0, NULL, true, false);
	scan->ahead = heap_getnext(scan->scan, ForwardScanDirection);
	scan->rows = palloc(MaxHeapTuplesPerPage * sizeof(LogRow));
	scan->page = palloc(BLCKSZ);
	return scan;
}

static int
compare_rows(const void *a, const void *b)
{
	const LogRow *left = a;
	const LogRow *right = b;

	if (left->batch != right->batch)
		return left->batch < right->batch ? -1 : 1;
	if (left->xmin != right->xmin)
		return TransactionIdPrecedes(left->xmin, right->xmin) ? -1 : 1;
	if (left->place != right->place)
		return left->place < right->place ? -1 : 1;
	return 0;
}

static bool
load_page(SxLogScan *scan)
{
	BlockNumber block;
	bool		sorted = true;

	scan->nrows = scan->next = 0;
	scan->page_len = 0;
	if (scan->ahead == NULL)
		return false;
	block = ItemPointerGetBlockNumber(&scan->ahead->t_self);
	do
	{
		Datum		values[LOG_NATTS];
		bool		nulls[LOG_NATTS];
		LogRow	   *row = &scan->rows[scan->nrows++];
		struct varlena *data;

		heap_deform_tuple(scan->ahead, RelationGetDescr(scan->relation), values, nulls);
		row->batch = DatumGetInt64(values[0]);
		row->xmin = HeapTupleHeaderGetRawXmin(scan->ahead->t_data);
		row->place = DatumGetInt64(values[1]);
		data = (struct varlena *) DatumGetPointer(values[2]);
		row->offset = scan->page_len;
		row->len = VARSIZE_ANY_EXHDR(data);
		memcpy(scan->page + row->offset, VARDATA_ANY(data), row->len);
		scan->page_len += row->len;
		if (scan->nrows > 1 && compare_rows(row - 1, row) > 0)
			sorted = false;
		scan->ahead = heap_getnext(scan->scan, ForwardScanDirection);
	} while (scan->ahead != NULL &&
			 ItemPointerGetBlockNumber(&scan->ahead->t_self) == block);
	if (!sorted)
		qsort(scan->rows, scan->nrows, sizeof(LogRow), compare_rows);
	return true;
}

static LogRow *
next_row(SxLogScan *scan)
{
	if (scan->next >= scan->nrows && !load_page(scan))
		return NULL;
	return &scan->rows[scan->next++];
}

static void
keep_bytes(SxLogScan *scan, const LogRow *row)
{
	if (scan->section_len + row->len > scan->section_allocated)
	{
		scan->section_allocated = Max(2 * scan->section_allocated,
									  scan->section_len + row->len + BLCKSZ);
		if (scan->section == NULL)
			scan->section = MemoryContextAllocHuge(CurrentMemoryContext,
												   scan->section_allocated);
		else
			scan->section = repalloc_huge(scan->section, scan->section_allocated);
	}
	memcpy(scan->section + scan->section_len, scan->page + row->offset, row->len);
	scan->section_len += row->len;
}

bool
sx_log_scan_next(SxLogScan *scan, SxSectionHeader *header, const char **bytes, Size *len)
{
	LogRow	   *row = next_row(scan);
	int64		section;
	int64		number = 0;

	if (row == NULL)
		return false;
	memset(header, 0, sizeof(*header));
	header->batch = row->batch;
	header->part = scan->part;
	header->kind = (SxSectionKind) (row->place >> 56);
	header->group = (row->place >> 48) & 0xff;
	section = row->place >> 48;
	scan->section_len = 0;
	for (;;)
	{
		if (row == NULL || row->batch != header->batch || row->place >> 48 != section ||
			((row->place & ((INT64CONST(1) << 48) - 1)) >> 1) != number)
			sx_log_damaged(scan->log,
						   psprintf("Row " INT64_FORMAT " of the section of batch " INT64_FORMAT " in table \"%s\" is missing.",
									number, header->batch,
									RelationGetRelationName(scan->relation)));
		/* a section on one page needs no copy */
		if (number == 0 && (row->place & 1))
		{
			*bytes = scan->page + row->offset;
			*len = row->len;
			return true;
		}
		keep_bytes(scan, row);
		if (row->place & 1)
			break;
		number++;
		row = next_row(scan);
	}
	*bytes = scan->section;
	*len = scan->section_len;
	return true;
}

void
sx_log_scan_end(SxLogScan *scan)
{
	table_endscan(scan->scan);
	UnregisterSnapshot(scan->snapshot);
	table_close(scan->relation, NoLock);
	if (scan->section != NULL)
		pfree(scan->section);
	pfree(scan->rows);
	pfree(scan->page);
	pfree(scan);
}
