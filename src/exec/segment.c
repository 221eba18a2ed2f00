/*
 * segment.c
 *		Keeps the plans of a segment and runs them.
 *
 * A kept PlannedStmt takes no locks and notices nothing by itself. So per batch:
 *
 *	 repeat
 *		plan, unless a plan is there for about so many rows
 *		lock all relations of its range table
 *		accept invalidation messages
 *	 until none of them concerned this segment
 *
 * Invalidation callbacks can't be unregistered, so one of each kind is registered
 * per process; they walk the list of the segments that exist.
 *
 * A plan is made for a class of row counts: what is right for ten rows (look
 * each one up in a big table) is wrong for a million. Each class keeps its own
 * plan, so batches that vary don't cause planning again and again.
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/errors.h"
#include "exec/segment.h"
#include "source/source.h"

#define SOURCE_TEXT		"continuous query"

/* Up to 100 rows, 10,000, a million, and more; planned for the number given. */
static const double class_rows[] = {10, 1000, 100000, 10000000};

#define NCLASSES		lengthof(class_rows)

struct SxSegment
{
	dlist_node	node;			/* in all_segments */
	const Query *query;
	TupleDesc	expected;
	const Bitmapset *keys;		/* columns that must be found again in every batch */
	Bitmapset  *markers;		/* volatile from the start: watermark() calls */
	bool		planned_once;
	MemoryContext context;		/* of this struct */
	MemoryContextCallback forget;

	bool		valid;			/* no invalidation since the plans were made */
	MemoryContext plans_context;	/* NULL: no plans */
	PlannedStmt *plans[NCLASSES];
	List	   *relations;		/* OIDs that the plans depend on */
	List	   *items;			/* PlanInvalItems: functions, types */
};

typedef struct Receiver
{
	DestReceiver base;
	SxSegmentReceive receive;
	void	   *arg;
	int64		nrows;
} Receiver;

struct SxSegmentPipe
{
	EState	   *estate;
	ExprContext *econtext;
	TupleTableSlot *input;
	ExprState  *condition;
	ProjectionInfo *projection;
	SxSegmentReceive receive;
	void	   *arg;
};

static dlist_head all_segments = DLIST_STATIC_INIT(all_segments);

static void
on_relation_changed(Datum arg, Oid relid)
{
	dlist_iter	iter;

	dlist_foreach(iter, &all_segments)
	{
		SxSegment  *segment = dlist_container(SxSegment, node, iter.cur);

		if (relid == InvalidOid || list_member_oid(segment->relations, relid))
			segment->valid = false;
	}
}

static void
on_object_changed(Datum arg, int cache, uint32 hash)
{
	dlist_iter	iter;

	dlist_foreach(iter, &all_segments)
	{
		SxSegment  *segment = dlist_container(SxSegment, node, iter.cur);
		ListCell   *cell;

		foreach(cell, segment->items)
		{
			PlanInvalItem *item = lfirst_node(PlanInvalItem, cell);

			if (item->cacheId == cache && (hash == 0 || item->hashValue == hash))
				segment->valid = false;
		}
	}
}

/* Rare changes that may touch any plan: operators, schemas, foreign servers. */
static void
on_anything_changed(Datum arg, int cache, uint32 hash)
{
	dlist_iter	iter;

	dlist_foreach(iter, &all_segments)
		dlist_container(SxSegment, node, iter.cur)->valid = false;
}

static void
register_callbacks(void)
{
	static bool registered = false;

	if (registered)
		return;
	CacheRegisterRelcacheCallback(on_relation_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(PROCOID, on_object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(TYPEOID, on_object_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(NAMESPACEOID, on_anything_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(OPEROID, on_anything_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(AMOPOPID, on_anything_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNSERVEROID, on_anything_changed, (Datum) 0);
	CacheRegisterSyscacheCallback(FOREIGNDATAWRAPPEROID, on_anything_changed, (Datum) 0);
	registered = true;
}

static void
forget_segment(void *arg)
{
	dlist_delete(&((SxSegment *) arg)->node);
}

SxSegment *
sx_segment_make(const Query *query, TupleDesc expected, const Bitmapset *keys)
{
	SxSegment  *segment = palloc0(sizeof(SxSegment));

	register_callbacks();
	segment->query = query;
	segment->expected = expected;
	segment->keys = keys;
	segment->context = CurrentMemoryContext;
	dlist_push_tail(&all_segments, &segment->node);
	segment->forget.func = forget_segment;
	segment->forget.arg = segment;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &segment->forget);
	return segment;
}

static void
drop_plans(SxSegment *segment)
{
	segment->relations = NIL;
	segment->items = NIL;
	memset(segment->plans, 0, sizeof(segment->plans));
	if (segment->plans_context != NULL)
		MemoryContextDelete(segment->plans_context);
	segment->plans_context = NULL;
}

static bool
check_function(Oid function, void *context)
{
	if (!SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(function)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("a function of the continuous query does not exist any more"),
				 errdetail("Its OID was %u.", function),
				 errhint("Drop the query and create it again.")));
	return false;
}

/*
 * The view of the query pins what it uses, but DROP ... CASCADE goes through.
 * Found here it is a clear error; the planner would say "cache lookup failed".
 */
static bool
check_objects_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && OidIsValid(rte->relid) &&
			!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(rte->relid)))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_TABLE),
					 errmsg("relation \"%s\" of the continuous query does not exist any more",
							rte->eref != NULL ? rte->eref->aliasname : "?"),
					 errdetail("Its OID was %u.", rte->relid),
					 errhint("Drop the query and create it again.")));
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, check_objects_walker, context,
								 QTW_EXAMINE_RTES_BEFORE);
	check_functions_in_node(node, check_function, context);
	return expression_tree_walker(node, check_objects_walker, context);
}

/* Tells the planner how many rows the operators below will give. */
static bool
set_rows_walker(Node *node, double *rows)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_NAMEDTUPLESTORE)
			rte->enrtuples = *rows;
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, set_rows_walker, rows, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, set_rows_walker, rows);
}

static void
check_row(const SxSegment *segment, const PlannedStmt *plan)
{
	TupleDesc	given = ExecCleanTypeFromTL(plan->planTree->targetlist);
	bool		fits;

	if (segment->expected == NULL)
		return;
	fits = given->natts == segment->expected->natts;
	for (int i = 0; i < given->natts && fits; i++)
		fits = TupleDescAttr(given, i)->atttypid == TupleDescAttr(segment->expected, i)->atttypid;
	if (!fits)
		ereport(ERROR,
				(errcode(ERRCODE_SX_SOURCE_SCHEMA),
				 errmsg("types of the continuous query's columns have changed"),
				 errdetail("A table, view or function that it uses was altered."),
				 errhint("Drop the query and create it again.")));
}

/*
 * What the cut refuses at the start can come about later: a function of a key is
 * replaced by a volatile one.  Only the calls that the cut put in are volatile.
 */
static void
check_keys(SxSegment *segment, const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, cell);

		if (!bms_is_member(entry->resno, segment->keys) ||
			bms_is_member(entry->resno, segment->markers) ||
			!contain_volatile_functions((Node *) entry->expr))
			continue;
		if (segment->planned_once)
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("a grouping column of the continuous query has become volatile"),
					 errdetail("A function that it uses was replaced or altered. A group must be found again in every batch."),
					 errhint("Make the function IMMUTABLE or STABLE again, then start the query.")));
		else
		{
			MemoryContext oldcontext = MemoryContextSwitchTo(segment->context);

			segment->markers = bms_add_member(segment->markers, entry->resno);
			MemoryContextSwitchTo(oldcontext);
		}
	}
	segment->planned_once = true;
}

/* Streams and operators below are taken to give so many rows each. */
static PlannedStmt *
plan_for_rows(Query *query, double rows)
{
	PlannedStmt *plan;

	set_rows_walker((Node *) query, &rows);
	sx_source_planned_rows = rows;
	PG_TRY();
	{
		plan = pg_plan_query(query, SOURCE_TEXT, 0, NULL);
	}
	PG_FINALLY();
	{
		sx_source_planned_rows = 0;
	}
	PG_END_TRY();
	return plan;
}

/* Everything the planner leaves behind goes with a scratch context. */
static PlannedStmt *
make_plan(SxSegment *segment, double rows)
{
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "streamx planning",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(scratch);
	Query	   *query = copyObject((Query *) segment->query);
	List	   *rewritten;
	List	   *relations;
	List	   *items;
	bool		row_security;
	PlannedStmt *plan;

	check_objects_walker((Node *) query, NULL);
	check_keys(segment, query);
	AcquireRewriteLocks(query, true, false);
	rewritten = QueryRewrite(query);
	if (list_length(rewritten) != 1)
		elog(ERROR, "segment was rewritten into %d queries", list_length(rewritten));
	query = linitial_node(Query, rewritten);
	extract_query_dependencies((Node *) query, &relations, &items, &row_security);
	plan = plan_for_rows(query, rows);
	check_row(segment, plan);

	if (segment->plans_context == NULL)
		segment->plans_context = AllocSetContextCreate(segment->context, "streamx plans",
													   ALLOCSET_SMALL_SIZES);
	MemoryContextSwitchTo(segment->plans_context);
	plan = copyObject(plan);
	segment->relations = list_concat_unique_oid(segment->relations, relations);
	segment->relations = list_concat_unique_oid(segment->relations, plan->relationOids);
	segment->items = list_concat(segment->items, copyObject(items));
	segment->items = list_concat(segment->items, plan->invalItems);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(scratch);
	return plan;
}

static void
lock_relations(const PlannedStmt *plan)
{
	ListCell   *cell;

	foreach(cell, plan->rtable)
	{
		RangeTblEntry *rte = lfirst_node(RangeTblEntry, cell);

		/* since 16 an expanded view keeps its OID, to be locked as well */
		if (rte->rtekind == RTE_RELATION ||
			(rte->rtekind == RTE_SUBQUERY && OidIsValid(rte->relid)))
			LockRelationOid(rte->relid, rte->rellockmode);
	}
}

static int
class_of(double rows)
{
	int			class = 0;

	while (class < NCLASSES - 1 && rows >= class_rows[class] * 10)
		class++;
	return class;
}

static PlannedStmt *
valid_plan(SxSegment *segment, double rows)
{
	int			class = class_of(rows);

	for (;;)
	{
		if (!segment->valid)
		{
			drop_plans(segment);
			segment->valid = true;	/* before planning: a change during it counts */
		}
		if (segment->plans[class] == NULL)
			segment->plans[class] = make_plan(segment, class_rows[class]);
		lock_relations(segment->plans[class]);
		AcceptInvalidationMessages();
		if (segment->valid)
			return segment->plans[class];
	}
}

static void
receiver_nothing(DestReceiver *self)
{
}

static void
receiver_startup(DestReceiver *self, int operation, TupleDesc desc)
{
}

static bool
receiver_slot(TupleTableSlot *slot, DestReceiver *self)
{
	Receiver   *receiver = (Receiver *) self;

	receiver->nrows++;
	return receiver->receive(receiver->arg, slot);
}

void
sx_segment_name_rows(QueryEnvironment *env, const char *name, TupleDesc desc, void *data, double rows)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = pstrdup(name);
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = desc;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = rows;
	enr->reldata = data;
	register_ENR(env, enr);
}

int64
sx_segment_run(SxSegment *segment, QueryEnvironment *env, double rows,
			   SxSegmentReceive receive, void *arg)
{
	PlannedStmt *plan = valid_plan(segment, rows);
	Receiver	receiver = {
		.base = {
			.receiveSlot = receiver_slot,
			.rStartup = receiver_startup,
			.rShutdown = receiver_nothing,
			.rDestroy = receiver_nothing,
			.mydest = DestNone,
		},
		.receive = receive,
		.arg = arg,
	};
	QueryDesc  *desc = CreateQueryDesc(plan, SOURCE_TEXT, GetActiveSnapshot(), InvalidSnapshot,
									   &receiver.base, NULL, env, 0);

	ExecutorStart(desc, 0);
	sx_executor_run(desc);
	ExecutorFinish(desc);
	ExecutorEnd(desc);
	FreeQueryDesc(desc);
	if (plan->transientPlan)
		segment->valid = false; /* uses what only this transaction may rely on */
	return receiver.nrows;
}

static bool
is_bare_scan(const PlannedStmt *plan, const char *relation)
{
	return IsA(plan->planTree, NamedTuplestoreScan) &&
		plan->planTree->initPlan == NIL && plan->subplans == NIL &&
		list_length(plan->rtable) == 1 && !plan->transientPlan &&
		strcmp(castNode(NamedTuplestoreScan, plan->planTree)->enrname, relation) == 0;
}

SxSegmentPipe *
sx_segment_pipe_begin(SxSegment *segment, const char *relation, TupleDesc desc, double rows,
					  SxSegmentReceive receive, void *arg)
{
	PlannedStmt *plan = valid_plan(segment, rows);
	List	   *targets = plan->planTree->targetlist;
	SxSegmentPipe *pipe;
	TupleTableSlot *output;

	if (!is_bare_scan(plan, relation))
		return NULL;
	pipe = palloc0(sizeof(SxSegmentPipe));
	pipe->receive = receive;
	pipe->arg = arg;
	pipe->estate = CreateExecutorState();
	pipe->econtext = CreateExprContext(pipe->estate);
	pipe->input = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	output = MakeSingleTupleTableSlot(ExecTypeFromTL(targets), &TTSOpsVirtual);
	pipe->econtext->ecxt_scantuple = pipe->input;
	pipe->condition = ExecInitQual(plan->planTree->qual, NULL);
	pipe->projection = ExecBuildProjectionInfo(targets, pipe->econtext, output, NULL, desc);
	return pipe;
}

void
sx_segment_pipe_row(SxSegmentPipe *pipe, const Datum *values, const bool *nulls)
{
	TupleTableSlot *input = pipe->input;
	int			natts = input->tts_tupleDescriptor->natts;

	ResetExprContext(pipe->econtext);
	ExecClearTuple(input);
	memcpy(input->tts_values, values, natts * sizeof(Datum));
	memcpy(input->tts_isnull, nulls, natts * sizeof(bool));
	ExecStoreVirtualTuple(input);
	if (ExecQual(pipe->condition, pipe->econtext))
		pipe->receive(pipe->arg, ExecProject(pipe->projection));
}

void
sx_segment_pipe_end(SxSegmentPipe *pipe)
{
	FreeExecutorState(pipe->estate);
}

List *
sx_segment_explain(SxSegment *segment, QueryEnvironment *env, double rows)
{
	PlannedStmt *plan = valid_plan(segment, rows);
	ExplainState *es = NewExplainState();
	List	   *lines = NIL;
	char	   *line;

	es->format = EXPLAIN_FORMAT_TEXT;
	es->costs = false;
	ExplainBeginOutput(es);
	sx_explain_one_plan(plan, es, SOURCE_TEXT, env);
	ExplainEndOutput(es);
	for (line = es->str->data; line != NULL && *line != '\0';)
	{
		char	   *end = strchr(line, '\n');

		lines = lappend(lines, end != NULL ? pnstrdup(line, end - line) : pstrdup(line));
		line = end != NULL ? end + 1 : NULL;
	}
	return lines;
}
