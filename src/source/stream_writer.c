/*
 * stream_writer.c
 *		Puts rows into the current heap of a stream.
 *
 * Rows are formed at once and kept in a buffer; a flush writes them with
 * heap_multi_insert, page by page, as COPY does. A flush
 *	 - takes the current heap, locked until the end of the transaction: retention
 *	   empties a heap only when it gets a conflicting lock at once. After locking it
 *	   looks again whether the heap is still the current one; if so, no one can seal
 *	   it before this transaction ends;
 *	 - begins at the relation's last page, whatever the relation remembers, without
 *	   free space map and without a bulk-insert state (which on 16 and later
 *	   reserves pages for later), under the stream's lock: table_stream.c says why.
 *
 * Constraints are checked here, since the server doesn't do it for foreign tables.
 * With any insert trigger on the stream rows are written one by one, so that
 * trigger functions see what their statement has inserted so far.
 *
 * The wrapper has no batch-insert callback: the server would copy each row into
 * its own buffer first, and this one does the same work without the copy.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/inval.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/settings.h"
#include "monitor/shared.h"
#include "source/stream_page.h"
#include "source/stream_storage.h"
#include "source/stream_writer.h"

#define BUFFER_ROWS		1000
#define BUFFER_BYTES	(256 * 1024)

typedef struct StreamWriter
{
	Oid			stream;
	Relation	heap;			/* the current one; locked until the transaction ends */
	TupleDesc	desc;			/* the same for all three heaps */
	int			natts;			/* of the stream */
	CommandId	command;
	bool		has_constraints;
	bool		check_partition;
	int			buffer_rows;	/* 1 when triggers may look */

	uint64		stamp;			/* top transaction and its part; 0 until the first row */
	Datum	   *values;			/* a heap row in the making */
	bool	   *nulls;
	int			nrows;
	Size		bytes;
	int			nslots;			/* made so far */
	TupleTableSlot *slots[BUFFER_ROWS];
	MemoryContext context;
} StreamWriter;

/* ---- waking readers ---- */

/* Streams that the transaction wrote; allocated before the commit, read after it. */
static Oid *touched = NULL;
static int	ntouched = 0;
static int	touched_size = 0;

/* A heap grew past a part of streamx.stream_segment_size: somebody should look. */
static bool grown = false;

static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (ntouched > 0)
				pg_atomic_fetch_add_u64(&sx_shared->stream_commits, 1);
			for (int i = 0; i < ntouched; i++)
				sx_wake_stream_readers(MyDatabaseId, touched[i]);
			if (grown)
				sx_wake_scheduler(MyDatabaseId);
			ntouched = 0;
			grown = false;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:	/* the workers' safety look finds it after COMMIT PREPARED */
			ntouched = 0;
			grown = false;
			break;
		default:
			break;
	}
}

void
sx_stream_wake_at_commit(Oid stream)
{
	for (int i = 0; i < ntouched; i++)
	{
		if (touched[i] == stream)
			return;
	}
	if (touched == NULL)
	{
		touched = MemoryContextAlloc(TopMemoryContext, 8 * sizeof(Oid));
		touched_size = 8;
		RegisterXactCallback(at_transaction_end, NULL);
	}
	else if (ntouched == touched_size)
	{
		touched = repalloc(touched, 2 * touched_size * sizeof(Oid));
		touched_size *= 2;
	}
	touched[ntouched++] = stream;
}

/* ---- parts of a transaction ---- */

/* Never goes back within a transaction, whatever savepoint it returns to. */
static uint64 part_xid = 0;		/* the transaction that part is of */
static uint16 part = 0;

static uint16
current_part(uint64 xid)
{
	if (part_xid != xid)
	{
		part_xid = xid;
		part = 0;
	}
	return part;
}

uint16
sx_stream_part_begin(void)
{
	FullTransactionId own = GetTopFullTransactionIdIfAny();

	if (!FullTransactionIdIsValid(own))
		return 0;
	if (current_part(U64FromFullTransactionId(own)) == PG_UINT16_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many batches in one transaction"),
				 errdetail("There can be at most %d.", PG_UINT16_MAX),
				 errhint("Commit, and go on in another transaction.")));
	return ++part;
}

void
sx_stream_check_not_written(Oid stream)
{
	Relation	rel = table_open(stream, AccessShareLock);

	CheckTableNotInUse(rel, "run a batch over");
	table_close(rel, NoLock);
}

static uint64
current_stamp(void)
{
	uint64		xid = U64FromFullTransactionId(GetTopFullTransactionId());

	return SX_STAMP(xid, current_part(xid));
}

/* ---- the current heap ---- */

static void
open_current_heap(StreamWriter *writer)
{
	SxStreamStorage storage;

	AcceptInvalidationMessages();
	sx_stream_storage_cached(writer->stream, &storage);
	for (;;)
	{
		Oid			current = storage.heaps[storage.current].heap;

		if (writer->heap != NULL && RelationGetRelid(writer->heap) == current)
			return;
		if (writer->heap != NULL)
			table_close(writer->heap, NoLock);
		writer->heap = table_open(current, RowExclusiveLock);

		/* Locking took in what was committed meanwhile. */
		sx_stream_storage_cached(writer->stream, &storage);
	}
}

/*
 * Without running queries no scheduler looks after the storage. It is called when
 * a large heap has got one step larger, so at most once for so many rows.
 */
static void
note_growth(BlockNumber before, BlockNumber after)
{
	BlockNumber step = Max((BlockNumber) (sx_stream_segment_size / (BLCKSZ / 1024)) / 2, 1);

	if (after / step > before / step && after / step >= 2)
		grown = true;
}

static void
flush(StreamWriter *writer)
{
	BlockNumber before;

	if (writer->nrows == 0)
		return;
	open_current_heap(writer);
	before = RelationGetNumberOfBlocks(writer->heap);
	RelationSetTargetBlock(writer->heap, InvalidBlockNumber);
	sx_stream_write_lock(writer->stream);
	heap_multi_insert(writer->heap, writer->slots, writer->nrows, writer->command,
					  HEAP_INSERT_SKIP_FSM, NULL);
	sx_stream_write_unlock(writer->stream);
	note_growth(before, RelationGetTargetBlock(writer->heap));
	for (int i = 0; i < writer->nrows; i++)
		ExecClearTuple(writer->slots[i]);
	writer->nrows = 0;
	writer->bytes = 0;
}

/* ---- the callbacks ---- */

static bool
has_insert_triggers(const TriggerDesc *triggers)
{
	return triggers != NULL &&
		(triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
		 triggers->trig_insert_before_statement || triggers->trig_insert_after_statement ||
		 triggers->trig_insert_new_table);
}

void
sx_stream_writer_begin(ResultRelInfo *rel)
{
	Relation	stream = rel->ri_RelationDesc;
	StreamWriter *writer = palloc0(sizeof(StreamWriter));

	sx_shared_require();
	writer->stream = RelationGetRelid(stream);
	writer->natts = RelationGetNumberOfAttributes(stream);
	writer->command = GetCurrentCommandId(true);
	writer->has_constraints = RelationGetDescr(stream)->constr != NULL;

	/* Rows that were routed here fit, unless a trigger changed them since. */
	writer->check_partition = stream->rd_rel->relispartition &&
		(rel->ri_RootResultRelInfo == NULL ||
		 (rel->ri_TrigDesc != NULL && rel->ri_TrigDesc->trig_insert_before_row));
	writer->buffer_rows = has_insert_triggers(rel->ri_TrigDesc) ||
		(rel->ri_RootResultRelInfo != NULL &&
		 has_insert_triggers(rel->ri_RootResultRelInfo->ri_TrigDesc)) ? 1 : BUFFER_ROWS;
	writer->context = CurrentMemoryContext;
	open_current_heap(writer);
	writer->desc = CreateTupleDescCopy(RelationGetDescr(writer->heap));
	if (writer->desc->natts != SX_HEAP_ATTNUM(writer->natts))
		elog(ERROR, "storage of stream %u has %d columns instead of %d",
			 writer->stream, writer->desc->natts, SX_HEAP_ATTNUM(writer->natts));
	writer->values = palloc(writer->desc->natts * sizeof(Datum));
	writer->nulls = palloc(writer->desc->natts * sizeof(bool));
	writer->nulls[0] = false;
	rel->ri_FdwState = writer;
}

static void
check_row(StreamWriter *writer, EState *estate, ResultRelInfo *rel, TupleTableSlot *slot)
{
	slot->tts_tableOid = writer->stream;
	if (writer->has_constraints)
		ExecConstraints(rel, slot, estate);
	if (writer->check_partition)
		ExecPartitionCheck(rel, slot, estate, true);
}

TupleTableSlot *
sx_stream_writer_insert(EState *estate, ResultRelInfo *rel, TupleTableSlot *slot)
{
	StreamWriter *writer = rel->ri_FdwState;
	MemoryContext oldcontext;
	HeapTuple	tuple;

	check_row(writer, estate, rel, slot);
	slot_getallattrs(slot);
	if (writer->stamp == 0)
	{
		writer->stamp = current_stamp();
		sx_stream_wake_at_commit(writer->stream);
	}
	writer->values[0] = UInt64GetDatum(writer->stamp);
	memcpy(writer->values + 1, slot->tts_values, writer->natts * sizeof(Datum));
	memcpy(writer->nulls + 1, slot->tts_isnull, writer->natts * sizeof(bool));

	oldcontext = MemoryContextSwitchTo(writer->context);
	if (writer->nrows == writer->nslots)
		writer->slots[writer->nslots++] = MakeSingleTupleTableSlot(writer->desc, &TTSOpsHeapTuple);
	tuple = heap_form_tuple(writer->desc, writer->values, writer->nulls);
	ExecStoreHeapTuple(tuple, writer->slots[writer->nrows++], true);
	MemoryContextSwitchTo(oldcontext);

	writer->bytes += tuple->t_len;
	if (writer->nrows >= writer->buffer_rows || writer->bytes >= BUFFER_BYTES)
		flush(writer);
	return slot;
}

void
sx_stream_writer_end(ResultRelInfo *rel)
{
	StreamWriter *writer = rel->ri_FdwState;

	if (writer == NULL)
		return;					/* EXPLAIN */
	flush(writer);
	for (int i = 0; i < writer->nslots; i++)
		ExecDropSingleTupleTableSlot(writer->slots[i]);
	table_close(writer->heap, NoLock);
	rel->ri_FdwState = NULL;
}
