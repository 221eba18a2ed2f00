/*
 * stream_rewrite.c
 *		Computes stored rows anew when ALTER changed the columns of a stream.
 *
 * Each heap is copied into a new one, row by row in the same order, so that a
 * batch that was cut between two rows goes on at the same row (stream_offset.h).
 * Values that keep their type are copied; others are cast as an assignment; a new
 * column gets its default, computed for each row; generated columns are computed
 * from the new values. All of these may be functions of users, so they run with
 * the rights of the stream's owner, restricted as for REINDEX.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "source/stream_ddl.h"

typedef struct Rewrite
{
	Relation	stream;
	EState	   *estate;
	ExprState **casts;			/* per column, over the old heap's row; NULL: copy or none */
	ExprState **computed;		/* per column, over the stream's new row; NULL: not computed */
	TupleTableSlot *row;		/* of the stream, in the making */
} Rewrite;

/* The cast of column attnum from its old type, or NULL where the value stays. */
static Expr *
cast_expression(Relation stream, AttrNumber attnum, Form_pg_attribute was)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(stream), attnum - 1);
	int32		typmod;
	Node	   *cast;

	if (sx_stream_column_type(att, &typmod) == was->atttypid && typmod == was->atttypmod)
		return NULL;
	cast = (Node *) makeVar(OUTER_VAR, was->attnum, was->atttypid, was->atttypmod,
							was->attcollation, 0);
	cast = coerce_to_target_type(NULL, cast, was->atttypid, att->atttypid, att->atttypmod,
								 COERCION_ASSIGNMENT, COERCE_IMPLICIT_CAST, -1);
	if (cast == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" cannot be cast automatically to type %s",
						NameStr(att->attname), format_type_be(att->atttypid)),
				 errdetail("Stored rows of stream \"%s\" have values of type %s.",
						   RelationGetRelationName(stream), format_type_be(was->atttypid)),
				 errhint("Add a column of the new type instead.")));
	return (Expr *) cast;
}

static void
prepare(Rewrite *rewrite, Relation stream, TupleDesc heap)
{
	int			natts = RelationGetNumberOfAttributes(stream);

	rewrite->stream = stream;
	rewrite->estate = CreateExecutorState();
	rewrite->casts = palloc0(natts * sizeof(ExprState *));
	rewrite->computed = palloc0(natts * sizeof(ExprState *));
	rewrite->row = MakeSingleTupleTableSlot(RelationGetDescr(stream), &TTSOpsVirtual);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(stream), i);
		bool		added = SX_HEAP_ATTNUM(i + 1) > heap->natts;
		Expr	   *expr;

		if (att->attisdropped)
			continue;
		if (att->attgenerated != '\0' || (added && att->atthasdef))
		{
			expr = (Expr *) build_column_default(stream, i + 1);
			if (expr != NULL)
				rewrite->computed[i] = ExecPrepareExpr(expr, rewrite->estate);
		}
		else if (!added)
		{
			expr = cast_expression(stream, i + 1, TupleDescAttr(heap, SX_HEAP_ATTNUM(i + 1) - 1));
			if (expr != NULL)
				rewrite->casts[i] = ExecPrepareExpr(expr, rewrite->estate);
		}
	}
}

/* Fills values and nulls of a new heap row; in per-tuple memory. */
static void
convert(Rewrite *rewrite, TupleTableSlot *old, Datum *values, bool *nulls)
{
	ExprContext *econtext = GetPerTupleExprContext(rewrite->estate);
	TupleTableSlot *row = rewrite->row;
	int			natts = row->tts_tupleDescriptor->natts;

	slot_getallattrs(old);
	econtext->ecxt_outertuple = old;
	ExecClearTuple(row);
	for (int i = 0; i < natts; i++)
	{
		int			from = SX_HEAP_ATTNUM(i + 1) - 1;

		row->tts_isnull[i] = true;
		row->tts_values[i] = (Datum) 0;
		if (TupleDescAttr(row->tts_tupleDescriptor, i)->attisdropped || rewrite->computed[i] != NULL)
			continue;
		if (rewrite->casts[i] != NULL)
			row->tts_values[i] = ExecEvalExprSwitchContext(rewrite->casts[i], econtext,
														   &row->tts_isnull[i]);
		else if (from < old->tts_tupleDescriptor->natts)
		{
			row->tts_values[i] = old->tts_values[from];
			row->tts_isnull[i] = old->tts_isnull[from];
		}
	}
	ExecStoreVirtualTuple(row);
	econtext->ecxt_scantuple = row;
	for (int i = 0; i < natts; i++)
	{
		if (rewrite->computed[i] != NULL && TupleDescAttr(row->tts_tupleDescriptor, i)->attgenerated == '\0')
			row->tts_values[i] = ExecEvalExprSwitchContext(rewrite->computed[i], econtext,
														   &row->tts_isnull[i]);
	}
	values[0] = old->tts_values[0];
	nulls[0] = false;
	for (int i = 0; i < natts; i++)
	{
		nulls[i + 1] = row->tts_isnull[i];
		values[i + 1] = row->tts_values[i];
		if (rewrite->computed[i] != NULL && TupleDescAttr(row->tts_tupleDescriptor, i)->attgenerated != '\0')
			values[i + 1] = ExecEvalExprSwitchContext(rewrite->computed[i], econtext, &nulls[i + 1]);
	}
}

static void
copy_rows(Rewrite *rewrite, Relation from, Relation to)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	TableScanDesc scan = table_beginscan_strat(from, snapshot, 0, NULL, true, false);
	TupleTableSlot *slot = table_slot_create(from, NULL);
	CommandId	command = GetCurrentCommandId(true);
	Datum	   *values = palloc(RelationGetNumberOfAttributes(to) * sizeof(Datum));
	bool	   *nulls = palloc(RelationGetNumberOfAttributes(to) * sizeof(bool));

	PushActiveSnapshot(snapshot);	/* of the functions that are called */
	while (table_scan_getnextslot(scan, ForwardScanDirection, slot))
	{
		MemoryContext oldcontext;

		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(rewrite->estate);
		convert(rewrite, slot, values, nulls);
		oldcontext = MemoryContextSwitchTo(GetPerTupleMemoryContext(rewrite->estate));
		heap_insert(to, heap_form_tuple(RelationGetDescr(to), values, nulls), command,
					HEAP_INSERT_SKIP_FSM, NULL);
		MemoryContextSwitchTo(oldcontext);
	}
	PopActiveSnapshot();
	ExecDropSingleTupleTableSlot(slot);
	table_endscan(scan);
	UnregisterSnapshot(snapshot);
}

static void
rewrite_heap(Relation stream, SxStreamHeap *heap)
{
	Oid			new_heap = sx_stream_heap_create(stream, heap->slot, true);
	Relation	from = table_open(heap->heap, AccessExclusiveLock);
	Relation	to = table_open(new_heap, AccessExclusiveLock);
	Rewrite		rewrite;
	Oid			save_user;
	int			save_context;
	int			save_nesting = NewGUCNestLevel();

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(stream->rd_rel->relowner, save_context | SECURITY_RESTRICTED_OPERATION);
	prepare(&rewrite, stream, RelationGetDescr(from));
	copy_rows(&rewrite, from, to);
	FreeExecutorState(rewrite.estate);
	ExecDropSingleTupleTableSlot(rewrite.row);
	AtEOXact_GUC(false, save_nesting);
	SetUserIdAndSecContext(save_user, save_context);

	table_close(to, NoLock);
	table_close(from, NoLock);
	sx_stream_heap_drop(heap->heap);
	RenameRelationInternal(new_heap, sx_stream_heap_name(RelationGetRelid(stream), heap->slot),
						   true, false);
	heap->heap = new_heap;
	sx_stream_storage_update(RelationGetRelid(stream), heap);
}

void
sx_stream_rewrite(Relation stream, SxStreamStorage *storage)
{
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
		rewrite_heap(stream, &storage->heaps[i]);
}
