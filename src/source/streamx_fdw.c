/*
 * streamx_fdw.c
 *		The wrapper streamx: INSERT-able streams, and generated ones (rate).
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "nodes/execnodes.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "source/fdw.h"
#include "source/rate.h"
#include "source/stream_options.h"
#include "source/stream_writer.h"
#include "source/table_stream.h"

PG_FUNCTION_INFO_V1(sx_api_streamx_handler);

static void
stream_options(Oid relid, SxStreamOptions *options)
{
	sx_stream_options_parse(GetForeignTable(relid)->options, options);
}

static const SxSourceRoutine *
pick_routine(Oid relid)
{
	SxStreamOptions options;

	stream_options(relid, &options);
	return options.rate ? &sx_rate_routine : &sx_table_stream_routine;
}

static void
check(Relation rel)
{
	SxStreamOptions options;

	stream_options(RelationGetRelid(rel), &options);
	sx_watermark_check(rel);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" cannot be temporary", RelationGetRelationName(rel)),
				 errdetail("Continuous queries run in other processes, which do not see temporary tables.")));
	if (options.rate)
		sx_rate_check(rel);
}

/* By the size of the heaps and the width of a row, as the server does for tables without statistics. */
static double
estimate(Oid relid)
{
	SxStreamStorage storage;
	double		blocks = 0;
	int32		width;
	Relation	rel;

	if (pick_routine(relid) != &sx_table_stream_routine ||
		!sx_stream_storage_read(relid, &storage))
		return 0;
	rel = table_open(relid, NoLock);
	width = 32;
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		width += att->attisdropped ? 0 : att->attlen > 0 ? att->attlen : 32;
	}
	table_close(rel, NoLock);
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
	{
		rel = try_table_open(storage.heaps[i].heap, AccessShareLock);
		if (rel == NULL)
			continue;
		blocks += RelationGetNumberOfBlocks(rel);
		table_close(rel, AccessShareLock);
	}
	return blocks * (BLCKSZ / (double) width);
}

/* ---- writing ---- */

static void
refuse_rate(Relation rel)
{
	if (pick_routine(RelationGetRelid(rel)) == &sx_table_stream_routine)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot insert into stream \"%s\"", RelationGetRelationName(rel)),
			 errdetail("Its connector \"rate\" generates the rows."),
			 errhint("A stream without option \"connector\" takes INSERT and COPY.")));
}

static void
begin_modify(ModifyTableState *state, ResultRelInfo *rel, List *fdw_private, int subplan, int eflags)
{
	refuse_rate(rel->ri_RelationDesc);
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		sx_stream_writer_begin(rel);
}

/* COPY, and rows that were routed to a partition. */
static void
begin_insert(ModifyTableState *state, ResultRelInfo *rel)
{
	refuse_rate(rel->ri_RelationDesc);
	sx_stream_writer_begin(rel);
}

static TupleTableSlot *
exec_insert(EState *estate, ResultRelInfo *rel, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	return sx_stream_writer_insert(estate, rel, slot);
}

static void
end_write(EState *estate, ResultRelInfo *rel)
{
	sx_stream_writer_end(rel);
}

/* Generated ones too: begin_modify says more than the server would. */
static int
is_updatable(Relation rel)
{
	return 1 << CMD_INSERT;
}

/* streamx_handler() */
Datum
sx_api_streamx_handler(PG_FUNCTION_ARGS)
{
	SxFdw	   *fdw = sx_fdw_make();

	fdw->routine = pick_routine;
	fdw->check = check;
	fdw->estimate = estimate;
	fdw->base.BeginForeignModify = begin_modify;
	fdw->base.ExecForeignInsert = exec_insert;
	fdw->base.EndForeignModify = end_write;
	fdw->base.BeginForeignInsert = begin_insert;
	fdw->base.EndForeignInsert = end_write;
	fdw->base.IsForeignRelUpdatable = is_updatable;
	PG_RETURN_POINTER(fdw);
}
