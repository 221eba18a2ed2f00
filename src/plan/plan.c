/*
 * plan.c
 *		From a stored Query to a streaming plan.
 *
 *	 expand views and CTEs -> check watermark() calls -> cut -> the stages
 *	 then: which streams are read, which columns of the result are its key
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"

#include "base/errors.h"
#include "monitor/shared.h"
#include "plan/cut.h"
#include "plan/expand.h"
#include "plan/function_kind.h"
#include "source/source.h"

/* Which streams a tree reads, each as often as it stands there. */
static bool
collect_sources_walker(Node *node, List **relids)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE &&
			sx_relation_is_stream(rte->relid))
			*relids = lappend_oid(*relids, rte->relid);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, collect_sources_walker, relids,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, collect_sources_walker, relids);
}

static void
add_source(SxPlan *plan, Oid relid)
{
	SxPlanSource *source;

	for (int i = 0; i < plan->nsources; i++)
		if (plan->sources[i].relid == relid)
		{
			plan->sources[i].references++;
			return;
		}
	if (plan->nsources == SX_MAX_SOURCES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("a continuous query can read at most %d streams", SX_MAX_SOURCES)));
	source = &plan->sources[plan->nsources++];
	source->relid = relid;
	source->references = 1;
	source->watermark_input = -1;
}

static void
find_sources(SxPlan *plan)
{
	plan->sources = palloc0(sizeof(SxPlanSource) * SX_MAX_SOURCES);
	for (int i = 0; i < plan->nstages; i++)
	{
		List	   *relids = NIL;
		ListCell   *cell;

		collect_sources_walker((Node *) plan->stages[i].segment, &relids);
		plan->stages[i].reads_stream = relids != NIL;
		foreach(cell, relids)
			add_source(plan, lfirst_oid(cell));
	}
}

/* Inputs of the watermark: the streams' columns, then watermark() calls. */
static void
find_watermarks(SxPlan *plan)
{
	List	   *delays = NIL;
	ListCell   *cell;

	for (int i = 0; i < plan->nstages; i++)
		sx_marker_replace(plan->stages[i].segment, &delays);
	plan->watermarks = palloc0(sizeof(SxWatermarkInput) * (plan->nsources + list_length(delays) + 1));
	for (int i = 0; i < plan->nsources; i++)
	{
		SxPlanSource *source = &plan->sources[i];
		int64		delay;

		if (sx_stream_watermark(source->relid, &source->event_attnum, &delay))
		{
			source->watermark_input = plan->nwatermarks;
			plan->watermarks[plan->nwatermarks++].delay = delay;
		}
		else
			source->event_attnum = 0;
	}
	plan->first_marker = plan->nwatermarks;
	foreach(cell, delays)
		plan->watermarks[plan->nwatermarks++].delay = *(int64 *) lfirst(cell);
	for (int i = 0; i < plan->nwatermarks; i++)
		plan->watermarks[i].max = SX_TIME_UNSET;
}

/*
 * The key column of the operator that an expression of the result shows,
 * verbatim or through lower(w), upper(w), window_time(w); -1 if none.
 */
static int
key_of_expression(SxCut *cut, Query *query, Node *expr, SxPlanOperator **op)
{
	RangeTblEntry *rte;
	Var		   *var;
	TargetEntry *entry;

	if (expr == NULL)
		return -1;
	if (IsA(expr, FuncExpr) && list_length(((FuncExpr *) expr)->args) == 1)
	{
		Oid			function = ((FuncExpr *) expr)->funcid;

		if (function == F_LOWER_ANYRANGE || function == F_UPPER_ANYRANGE ||
			sx_function_kind(expr) == SX_FUNCTION_WINDOW_TIME)
		{
			int			key = key_of_expression(cut, query, linitial(((FuncExpr *) expr)->args), op);

			return key >= 0 && (*op)->time_key == key &&
				(*op)->key_time == SX_KEY_TIME_WINDOW ? key : -1;
		}
		return -1;
	}
	if (!IsA(expr, Var) || ((Var *) expr)->varlevelsup != 0 || ((Var *) expr)->varattno <= 0)
		return -1;
	var = (Var *) expr;
	rte = rt_fetch(var->varno, query->rtable);
	if (rte->rtekind == RTE_JOIN)
		return key_of_expression(cut, query, list_nth(rte->joinaliasvars, var->varattno - 1), op);
	if (rte->rtekind == RTE_SUBQUERY && rte->subquery->setOperations == NULL)
	{
		entry = get_tle_by_resno(rte->subquery->targetList, var->varattno);
		return entry ? key_of_expression(cut, rte->subquery, (Node *) entry->expr, op) : -1;
	}
	*op = sx_operator_of_rte(cut, rte);
	if (*op == NULL || (*op)->kind != SX_OPERATOR_AGGREGATE || var->varattno > (*op)->nkeys)
		return -1;
	return var->varattno - 1;
}

/* D14: the result's key over the operator's output, without any condition on it. */
static Query *
make_touched(SxPlan *plan, SxPlanOperator *op, Query *result, List *key_entries, const int *op_keys)
{
	Query	   *query = makeNode(Query);
	ListCell   *cell;

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	foreach(cell, key_entries)
	{
		TargetEntry *entry = copyObject(lfirst_node(TargetEntry, cell));
		int			key = op_keys[foreach_current_index(cell)];
		Form_pg_attribute attr = TupleDescAttr(op->output, key);
		Node	   *column = (Node *) makeVar(1, key + 1, attr->atttypid, attr->atttypmod,
											  attr->attcollation, 0);

		if (IsA(entry->expr, FuncExpr))
			((FuncExpr *) entry->expr)->args = list_make1(column);
		else
			entry->expr = (Expr *) column;
		entry->resno = foreach_current_index(cell) + 1;
		entry->ressortgroupref = 0;
		query->targetList = lappend(query->targetList, entry);
	}
	sx_cut_read_operator(query, op, NULL);
	return query;
}

static bool
has_filter_or_join(Query *query)
{
	ListCell   *cell;

	if (query->jointree != NULL &&
		(query->jointree->quals != NULL || list_length(query->jointree->fromlist) != 1 ||
		 !IsA(linitial(query->jointree->fromlist), RangeTblRef)))
		return true;
	if (query->hasTargetSRFs || query->limitCount != NULL || query->distinctClause != NIL)
		return true;
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_SUBQUERY && has_filter_or_join(rte->subquery))
			return true;
	}
	return false;
}

/* Which result columns identify a row: one for each key of the one aggregation. */
static void
find_result_key(SxPlan *plan, SxCut *cut, Query *result)
{
	SxPlanOperator *op = NULL;
	List	   *entries = NIL;
	int		   *op_keys;
	Bitmapset  *found = NULL;
	ListCell   *cell;

	if (cut->mode == SX_OUTPUT_APPEND || list_length(cut->operators) == 0 ||
		result->setOperations != NULL)
		return;
	op = linitial(cut->operators);
	if (op->kind != SX_OPERATOR_AGGREGATE)
		return;
	op_keys = palloc0(sizeof(int) * (op->nkeys + 1));
	plan->keys = palloc0(sizeof(AttrNumber) * (op->nkeys + 1));
	foreach(cell, result->targetList)
	{
		TargetEntry *entry = lfirst(cell);
		SxPlanOperator *of = NULL;
		int			key = entry->resjunk ? -1 :
			key_of_expression(cut, result, (Node *) entry->expr, &of);

		if (key < 0 || of != op || bms_is_member(key, found))
			continue;
		found = bms_add_member(found, key);
		op_keys[plan->nkeys] = key;
		plan->keys[plan->nkeys++] = entry->resno;
		entries = lappend(entries, entry);
	}
	for (int i = 0; i < op->nkeys; i++)
		if (!bms_is_member(i, found))
		{
			plan->keys_missing = op->keys[i].name;
			plan->keys = NULL;
			plan->nkeys = 0;
			return;
		}
	if (cut->mode == SX_OUTPUT_UPDATE && has_filter_or_join(result))
		plan->touched = make_touched(plan, op, result, entries, op_keys);
}

static void
check_complete(SxCut *cut, Query *query)
{
	if (cut->mode == SX_OUTPUT_COMPLETE && sx_flows(cut, (Node *) query))
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("output mode \"complete\" needs an aggregation"),
				 errdetail("Without one the result would be all rows ever read."),
				 errhint("Use output mode \"append\".")));
}

static void
summarize(SxPlan *plan, SxCut *cut)
{
	ListCell   *cell;

	foreach(cell, cut->operators)
	{
		SxPlanOperator *op = lfirst(cell);

		plan->stateful = true;
		if (op->kind != SX_OPERATOR_AGGREGATE)
			continue;
		if (plan->nwatermarks > 0 && cut->mode != SX_OUTPUT_COMPLETE)
			plan->wants_no_data = true;
		if (op->nkeys == 0)
			plan->always_emits = true;
	}
}

SxPlan *
sx_plan_query(const Query *original, SxOutputMode mode)
{
	SxPlan	   *plan = palloc0(sizeof(SxPlan));
	Query	   *query = copyObject((Query *) original);
	SxCut		cut = {mode, NIL, NIL, NIL};
	ListCell   *cell;

	if (query->commandType != CMD_SELECT || query->utilityStmt != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("a continuous query must be a SELECT")));
	sx_expand_query(query);
	if (!sx_contains_stream((Node *) query))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("query reads no stream"),
				 errdetail("A continuous query runs when rows arrive in one."),
				 errhint("Create one with CREATE STREAM or create_stream().")));
	sx_marker_check(&cut, query);
	sx_cut_query(&cut, query);
	check_complete(&cut, query);
	sx_cut_add_stage(&cut, query, NULL);

	plan->mode = mode;
	plan->nstages = list_length(cut.stages);
	plan->stages = palloc(sizeof(SxPlanStage) * plan->nstages);
	foreach(cell, cut.stages)
		plan->stages[foreach_current_index(cell)] = *(SxPlanStage *) lfirst(cell);
	plan->result = ExecCleanTypeFromTL(query->targetList);
	plan->notices = cut.notices;
	plan->layout = sx_layout_print(&cut);
	find_sources(plan);
	find_watermarks(plan);
	find_result_key(plan, &cut, query);
	summarize(plan, &cut);
	return plan;
}
