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
	{
		sx_marker_check_segment(plan->stages[i].segment);
		sx_marker_replace(plan->stages[i].segment, &delays);
	}
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

/* How far the operators below, that a segment reads, are behind the query's watermark. */
typedef struct LagContext
{
	SxCut	   *cut;
	int64		lag;
} LagContext;

static bool
lag_walker(Node *node, LagContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		SxPlanOperator *op = sx_operator_of_rte(context->cut, (RangeTblEntry *) node);

		if (op != NULL)
			context->lag = Max(context->lag, op->output_lag);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, lag_walker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, lag_walker, context);
}

/* What a join gives may be as old as the oldest row that it keeps (semantics 13). */
static void
find_lags(SxPlan *plan, SxCut *cut)
{
	for (int i = 0; i < plan->nstages - 1; i++)
	{
		SxPlanOperator *op = plan->stages[i].op;
		LagContext	context = {cut};

		lag_walker((Node *) plan->stages[i].segment, &context);
		op->lag = Max(op->lag, context.lag);
		op->output_lag = op->lag;
		for (int s = 0; s < 2 && op->join != NULL; s++)
			if (op->join->sides[s].expiry != 0)
				op->output_lag = Max(op->output_lag, op->lag - op->join->sides[s].bound);
	}
}

static void
check_complete(SxCut *cut, Query *query)
{
	ListCell   *cell;

	if (cut->mode != SX_OUTPUT_COMPLETE || !sx_flows(cut, (Node *) query))
		return;
	foreach(cell, cut->operators)
		if (sx_operator_aggregates(lfirst(cell)))
			ereport(ERROR,
					(errcode(ERRCODE_SX_OUTPUT_MODE),
					 errmsg("rows of a stream beside an aggregation are not supported in output mode \"complete\""),
					 errdetail("The aggregation's result is there in every batch, a stream's row in one."),
					 errhint("Aggregate over both, or use output mode \"append\".")));
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
		if (op->kind == SX_OPERATOR_LIMIT ||
			(op->transform != NULL && op->transform->groups && op->transform->time_mode == SX_TIME_MODE_NONE))
			continue;
		if (op->kind == SX_OPERATOR_JOIN && op->join->sides[0].expiry == 0 &&
			op->join->sides[1].expiry == 0)
			continue;
		if (plan->nwatermarks > 0 &&
			(cut->mode != SX_OUTPUT_COMPLETE || op->kind == SX_OPERATOR_DEDUP))
			plan->wants_no_data = true;
		if (op->kind == SX_OPERATOR_AGGREGATE && op->nkeys == 0)
			plan->always_emits = true;
	}
}

SxPlan *
sx_plan_query(const Query *original, SxOutputMode mode)
{
	SxPlan	   *plan = palloc0(sizeof(SxPlan));
	Query	   *query = copyObject((Query *) original);
	SxCut		cut = {.mode = mode};
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
	plan->result = plan->stages[plan->nstages - 1].row;
	plan->noperators = list_length(cut.operators);
	plan->operators = palloc(sizeof(SxPlanOperator *) * (plan->noperators + 1));
	foreach(cell, cut.operators)
		plan->operators[foreach_current_index(cell)] = lfirst(cell);
	plan->notices = cut.notices;
	plan->layout = sx_layout_print(&cut);
	find_lags(plan, &cut);
	find_sources(plan);
	find_watermarks(plan);
	sx_result_key_find(plan, &cut, query);
	if (mode == SX_OUTPUT_UPDATE)
		plan->order_lost = sx_row_order_lost(&cut, query);
	summarize(plan, &cut);
	sx_row_flow_find(plan, &cut);
	return plan;
}
