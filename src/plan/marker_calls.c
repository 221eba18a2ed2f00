/*
 * marker_calls.c
 *		watermark(expr, delay) in the select lists of a segment.
 *
 * The rows that reach the select list move the watermark (deviation D1). So the
 * call becomes a volatile one, and a subquery that has it gets OFFSET 0: without
 * that fence the planner would push conditions of the outer query below it.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "utils/lsyscache.h"

#include "base/errors.h"
#include "plan/cut.h"
#include "plan/function_kind.h"
#include "source/source.h"

static bool
has_marker_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (sx_function_kind(node) == SX_FUNCTION_WATERMARK)
		return true;
	if (IsA(node, Query))
		return false;			/* each level is looked at by itself */
	return expression_tree_walker(node, has_marker_walker, context);
}

int64
sx_watermark_call_delay(const FuncExpr *call)
{
	return sx_watermark_delay_from_interval(
											sx_constant_interval(lsecond(sx_function_arguments(call)), call, "delay"));
}

/* Each call must stand in a select list, over an expression without a watermark. */
typedef struct CheckContext
{
	SxCut	   *cut;
	Query	   *query;
} CheckContext;

static bool
check_call_walker(Node *node, CheckContext *context)
{
	if (node == NULL || IsA(node, Query))
		return false;
	if (sx_function_kind(node) == SX_FUNCTION_WATERMARK)
	{
		FuncExpr   *call = (FuncExpr *) node;
		List	   *arguments = sx_function_arguments(call);

		(void) sx_watermark_call_delay(call);
		if (sx_trace(context->cut, context->query, linitial(arguments)) != SX_TRACE_NONE)
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("watermark() redefines a watermark"),
					 errdetail("Its argument has one already."),
					 errhint("Change the stream's own: ALTER STREAM, or drop watermark() from the query.")));
	}
	return expression_tree_walker(node, check_call_walker, context);
}

static bool
check_query_walker(Node *node, CheckContext *outer)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		CheckContext context = {outer->cut, query};

		if (has_marker_walker((Node *) query->jointree, NULL) ||
			has_marker_walker(query->havingQual, NULL))
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("watermark() outside a select list"),
					 errhint("Call it in the select list of a subquery in FROM, and use that column.")));
		check_call_walker((Node *) query->targetList, &context);
		return query_tree_walker(query, check_query_walker, &context, 0);
	}
	return expression_tree_walker(node, check_query_walker, outer);
}

void
sx_marker_check(SxCut *cut, Query *query)
{
	CheckContext context = {cut, query};

	check_query_walker((Node *) query, &context);
}

/* Those that an operator takes out of the query; elsewhere they mean nothing. */
static bool
left_over_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (sx_function_kind(node) == SX_FUNCTION_WITHIN_WATERMARK)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("within_watermark() outside DISTINCT ON"),
				 errhint("Write SELECT DISTINCT ON (within_watermark(a, b)) a, b, c FROM ...")));
	if (sx_function_kind(node) == SX_FUNCTION_SESSION)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("session() outside the grouping columns"),
				 errdetail("A row's session is known when its group is."),
				 errhint("Write SELECT session(ts, gap), ... GROUP BY session(ts, gap), ...")));
	sx_refuse_transform(node);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, left_over_walker, context, 0);
	return expression_tree_walker(node, left_over_walker, context);
}

void
sx_marker_check_segment(Query *segment)
{
	left_over_walker((Node *) segment, NULL);
}

static Node *
replace_mutator(Node *node, List **delays)
{
	if (node == NULL)
		return NULL;
	if (sx_function_kind(node) == SX_FUNCTION_WATERMARK)
	{
		FuncExpr   *call = (FuncExpr *) node;
		int64	   *delay = palloc(sizeof(int64));

		*delay = sx_watermark_call_delay(call);
		*delays = lappend(*delays, delay);
		return (Node *) sx_make_observe(call, list_length(*delays) - 1);
	}
	if (IsA(node, Query))
		return node;
	return expression_tree_mutator(node, replace_mutator, delays);
}

static void
replace_in_level(Query *query, bool top, List **delays)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_SUBQUERY)
			replace_in_level(rte->subquery, false, delays);
	}
	if (!has_marker_walker((Node *) query->targetList, NULL))
		return;
	query->targetList = (List *) replace_mutator((Node *) query->targetList, delays);
	if (!top && query->limitOffset == NULL)
		query->limitOffset = (Node *) makeConst(INT8OID, -1, InvalidOid, sizeof(int64),
												Int64GetDatum(0), false, FLOAT8PASSBYVAL);
}

void
sx_marker_replace(Query *segment, List **delays)
{
	replace_in_level(segment, true, delays);
}
