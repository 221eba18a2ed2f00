/*
 * fdw.c
 *		The scan of a stream, whatever its wrapper.
 *
 * As a leaf of a streaming plan it gives the rows of the batch's range and counts
 * them, with their event times, in the first pass that reaches the end. A pass that
 * stops early counts nothing: the engine then drains the range (source.c).
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "catalog/pg_class.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "optimizer/cost.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "source/event_times.h"
#include "source/fdw.h"
#include "source/scan_clauses.h"

/* Plans of a plain SELECT may be kept too, so they must fit more than an empty stream. */
#define LEAST_ROWS		10000

double		sx_source_planned_rows = 0;

typedef struct StreamScanState
{
	SxBatchSource *batch;		/* NULL: a plain SELECT */
	SxScan	   *scan;			/* NULL: no rows */
	bool		counting;		/* this pass counts; it began at the beginning */
	bool		behind;			/* of the range's rows; those given back come now */
	int64		extra;			/* the next one of them */
	int64		row;			/* ordinal of the next one, those given back counted on */
	SxEventTimes seen;
} StreamScanState;

/* ---- planning ---- */

static void
get_rel_size(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	const SxFdw *fdw = sx_fdw_of(relid);
	double		rows = fdw != NULL && fdw->estimate != NULL ? fdw->estimate(relid) : 0;

	rel->tuples = sx_source_planned_rows > 0 ? sx_source_planned_rows : Max(rows, LEAST_ROWS);
	set_baserel_size_estimates(root, rel);
}

static void
get_paths(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	Cost		startup = rel->baserestrictcost.startup;
	Cost		total = startup +
		rel->tuples * (cpu_tuple_cost + rel->baserestrictcost.per_tuple);

	add_path(rel, (Path *) sx_create_foreignscan_path(root, rel, rel->rows, startup, total,
													  rel->lateral_relids));
}

/* fdw_private: the last column that the query uses, and which; the others need not be formed. */
static ForeignScan *
get_plan(PlannerInfo *root, RelOptInfo *rel, Oid relid, ForeignPath *path, List *tlist,
		 List *clauses, Plan *outer_plan)
{
	Bitmapset  *attrs = NULL;
	ListCell   *lc;
	List	   *needed = NIL;	/* NIL with a last column: all up to it */
	bool		whole_row = false;
	int			member = -1;
	int			last = 0;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attrs);
	foreach(lc, rel->baserestrictinfo)
		pull_varattnos((Node *) lfirst_node(RestrictInfo, lc)->clause, rel->relid, &attrs);
	foreach(lc, clauses)
		pull_varattnos((Node *) lfirst_node(RestrictInfo, lc)->clause, rel->relid, &attrs);
	while ((member = bms_next_member(attrs, member)) >= 0)
	{
		int			attnum = member + FirstLowInvalidHeapAttributeNumber;

		if (attnum == 0)
			last = MaxAttrNumber;	/* the whole row */
		whole_row |= attnum == 0;
		if (attnum > 0)
			needed = lappend_int(needed, attnum);
		last = Max(last, attnum);
	}
	return make_foreignscan(tlist, extract_actual_clauses(clauses, false), rel->relid,
							NIL, list_make2(makeInteger(last), whole_row ? NIL : needed),
							NIL, NIL, outer_plan);
}

/* ---- running ---- */

static SxBatchSource *
find_batch(EState *estate, Oid relid)
{
	EphemeralNamedRelation enr;
	SxBatchSources *sources;

	if (estate->es_queryEnv == NULL)
		return NULL;
	enr = get_ENR(estate->es_queryEnv, SX_BATCH_ENR);
	if (enr == NULL)
		return NULL;
	sources = enr->reldata;
	for (int i = 0; i < sources->n; i++)
	{
		if (sources->sources[i].source->relid == relid)
			return &sources->sources[i];
	}
	return NULL;
}

static void
start_counting(StreamScanState *state)
{
	state->counting = state->batch != NULL && !state->batch->counted;
	if (state->scan != NULL)
		state->scan->dropped = 0;
	if (state->counting)
		sx_event_times_begin(&state->seen, state->batch);
}

/* Through a view the stream is read with the rights, and secrets, of the view's owner. */
static SxSource *
open_as_checked(ForeignScanState *node, Oid relid)
{
	Oid			user = sx_scan_check_as_user(node);
	Oid			save_user;
	int			save_context;
	SxSource   *source;

	GetUserIdAndSecContext(&save_user, &save_context);
	if (OidIsValid(user) && user != save_user)
		SetUserIdAndSecContext(user, save_context | SECURITY_LOCAL_USERID_CHANGE);
	source = sx_source_open(relid);
	SetUserIdAndSecContext(save_user, save_context);
	return source;
}

/* NULL: all up to the last one. */
static Bitmapset *
needed_columns(List *attnums, int last_needed, const SxBatchSource *batch)
{
	Bitmapset  *result = NULL;
	ListCell   *lc;

	if (attnums == NIL && last_needed > 0)
		return NULL;
	foreach(lc, attnums)
		result = bms_add_member(result, lfirst_int(lc));
	if (batch != NULL && batch->event_attnum > 0)
		result = bms_add_member(result, batch->event_attnum);
	return result != NULL ? result : bms_make_singleton(0);
}

static void
begin_scan(ForeignScanState *node, int eflags)
{
	EState	   *estate = node->ss.ps.state;
	Oid			relid = RelationGetRelid(node->ss.ss_currentRelation);
	StreamScanState *state;
	SxSource   *source;
	List	   *private = ((ForeignScan *) node->ss.ps.plan)->fdw_private;
	int			last_needed = intVal(linitial(private));

	if (eflags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	state = palloc0(sizeof(StreamScanState));
	node->fdw_state = state;
	state->batch = find_batch(estate, relid);
	if (state->batch == NULL)
	{
		source = open_as_checked(node, relid);
		if (source->routine->scan_all == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("stream %s cannot be read by a plain SELECT", source->name),
					 errdetail("Its rows are generated for the batches of a continuous query; outside of one there are none."),
					 errhint("Use it in a query made by create_query.")));
		state->scan = source->routine->scan_all(source, estate->es_snapshot);
		if (source->routine->scan_restrict != NULL)
			source->routine->scan_restrict(state->scan, sx_scan_clauses(node));
	}
	else if (state->batch->end != NULL)
	{
		source = state->batch->source;
		state->scan = source->routine->scan_begin(source, state->batch->start, state->batch->end);
		last_needed = Max(last_needed, state->batch->event_attnum);
	}
	if (state->scan != NULL)
	{
		state->scan->last_needed = Min(state->scan->last_needed, last_needed);
		state->scan->needed = needed_columns((List *) lsecond(private), last_needed, state->batch);
	}
	start_counting(state);
}

static bool
row_is_given(const SxBatchSource *batch, int64 row)
{
	int			low = 0;
	int			high = batch->nhidden;

	if (row < batch->first_row || row >= batch->behind_row)
		return false;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (batch->hidden[middle] == row)
			return false;
		if (batch->hidden[middle] < row)
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}

static bool
next_row(StreamScanState *state, TupleTableSlot *slot)
{
	if (!state->behind)
	{
		if (state->scan != NULL && state->scan->source->routine->scan_next(state->scan, slot))
			return true;
		state->behind = true;
	}
	return state->batch != NULL && sx_batch_source_extra(state->batch, state->extra++, slot);
}

static TupleTableSlot *
iterate_scan(ForeignScanState *node)
{
	StreamScanState *state = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;

	while (next_row(state, slot))
	{
		int64		row = state->row++;

		if (state->counting)
			sx_event_times_see(&state->seen, slot);
		if (state->batch == NULL || !state->batch->selective ||
			row_is_given(state->batch, row))
			return slot;
	}
	if (state->counting)
	{
		state->batch->dropped = state->scan != NULL ? state->scan->dropped : 0;
		sx_event_times_finish(&state->seen, state->batch);
		state->counting = false;
	}
	return ExecClearTuple(slot);
}

static void
rescan(ForeignScanState *node)
{
	StreamScanState *state = node->fdw_state;

	if (state->scan != NULL)
		state->scan->source->routine->scan_rescan(state->scan);
	state->row = 0;
	state->behind = false;
	state->extra = 0;
	start_counting(state);
}

static void
end_scan(ForeignScanState *node)
{
	StreamScanState *state = node->fdw_state;

	if (state == NULL || state->scan == NULL)
		return;
	ExecClearTuple(node->ss.ss_ScanTupleSlot);	/* may point into a page */
	state->scan->source->routine->scan_end(state->scan);
	state->scan = NULL;
}

static void
explain_scan(ForeignScanState *node, ExplainState *es)
{
	Oid			relid = RelationGetRelid(node->ss.ss_currentRelation);
	const SxFdw *fdw = sx_fdw_of(relid);

	if (fdw != NULL && es->verbose)
		ExplainPropertyText("Stream Kind", fdw->routine(relid)->name, es);
	if (fdw != NULL && fdw->routine(relid)->can_restrict != NULL)
		sx_scan_clauses_explain(node, es);
}

/* ---- what streams refuse ---- */

static List *
plan_modify(PlannerInfo *root, ModifyTable *plan, Index relation, int subplan)
{
	RangeTblEntry *rte = planner_rt_fetch(relation, root);

	if (plan->operation == CMD_UPDATE || plan->operation == CMD_DELETE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot %s stream \"%s\"",
						plan->operation == CMD_UPDATE ? "update" : "delete from",
						get_rel_name(rte->relid)),
				 errdetail("Rows of a stream may have been read already; they are only appended."),
				 errhint("Storage is freed by option \"retention\" of the stream.")));
	return NIL;
}

static void
exec_truncate(List *rels, DropBehavior behavior, bool restart_seqs)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot truncate stream \"%s\"",
					RelationGetRelationName((Relation) linitial(rels))),
			 errdetail("Queries that have not read all of its rows would lose them."),
			 errhint("Storage is freed by option \"retention\" of the stream.")));
}

SxFdw *
sx_fdw_make(void)
{
	SxFdw	   *fdw = palloc0(sizeof(SxFdw));
	FdwRoutine *routine = &fdw->base;

	routine->type = T_FdwRoutine;
	routine->GetForeignRelSize = get_rel_size;
	routine->GetForeignPaths = get_paths;
	routine->GetForeignPlan = get_plan;
	routine->BeginForeignScan = begin_scan;
	routine->IterateForeignScan = iterate_scan;
	routine->ReScanForeignScan = rescan;
	routine->EndForeignScan = end_scan;
	routine->ExplainForeignScan = explain_scan;
	routine->PlanForeignModify = plan_modify;
	routine->ExecForeignTruncate = exec_truncate;
	return fdw;
}

static bool
has_handler(Oid server)
{
	return OidIsValid(GetForeignDataWrapper(GetForeignServer(server)->fdwid)->fdwhandler);
}

/* Wrappers and servers can be renamed; our scan callback is what makes one ours. */
const SxFdw *
sx_fdw_of_server(Oid serverid)
{
	FdwRoutine *routine;

	if (!has_handler(serverid))
		return NULL;
	routine = GetFdwRoutineByServerId(serverid);
	return routine->BeginForeignScan == begin_scan ? (const SxFdw *) routine : NULL;
}

const SxFdw *
sx_fdw_of(Oid relid)
{
	if (get_rel_relkind(relid) != RELKIND_FOREIGN_TABLE)
		return NULL;
	return sx_fdw_of_server(GetForeignServerIdByRelId(relid));
}
