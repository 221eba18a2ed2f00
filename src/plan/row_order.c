/*
 * row_order.c
 *		Does the result have its rows in the order of the stream?
 *
 * Whoever keeps the newest row of a key needs that. PostgreSQL's plans of one scan
 * with filters and projections keep the order; a set-returning function over the
 * row can only be a nested loop within it. Joins, and subqueries that may become
 * joins, keep it or not, as their costs will have it. Rows that SQL inserts lie
 * where there was room, so streams of them have no order to be kept.
 */
#include "postgres.h"

#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"
#include "utils/lsyscache.h"

#include "plan/cut.h"
#include "source/source.h"

static char *query_loses_order(Query *query);

/* EXISTS and IN may become joins; a scalar subquery stays where it is. */
static bool
joins_walker(Node *node, void *context)
{
	if (node == NULL || IsA(node, Query))
		return false;
	if (IsA(node, SubLink) && ((SubLink *) node)->subLinkType != EXPR_SUBLINK)
		return true;
	return expression_tree_walker(node, joins_walker, context);
}

/* What a row of FROM comes from; functions over the row itself are no second one. */
static char *
item_loses_order(Query *query, Node *item, int *nitems)
{
	char	   *culprit = NULL;

	if (IsA(item, FromExpr))
	{
		FromExpr   *from = (FromExpr *) item;
		ListCell   *cell;

		foreach(cell, from->fromlist)
			if (culprit == NULL)
				culprit = item_loses_order(query, lfirst(cell), nitems);
		if (culprit == NULL && joins_walker(from->quals, NULL))
			culprit = "a subquery in WHERE";
	}
	else if (IsA(item, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) item;

		culprit = item_loses_order(query, join->larg, nitems);
		if (culprit == NULL)
			culprit = item_loses_order(query, join->rarg, nitems);
		if (culprit == NULL && joins_walker(join->quals, NULL))
			culprit = "a subquery in ON";
	}
	else if (IsA(item, RangeTblRef))
	{
		RangeTblEntry *rte = rt_fetch(((RangeTblRef *) item)->rtindex, query->rtable);

		if ((rte->rtekind == RTE_FUNCTION || rte->rtekind == RTE_TABLEFUNC) && rte->lateral)
			return NULL;
		if (++*nitems > 1)
			culprit = "a join";
		else if (rte->rtekind == RTE_SUBQUERY)
			culprit = query_loses_order(rte->subquery);
		else if (rte->rtekind == RTE_RELATION && sx_stream_is_insertable(rte->relid))
			culprit = psprintf("stream \"%s\", whose rows come from INSERT", get_rel_name(rte->relid));
	}
	return culprit;
}

static char *
query_loses_order(Query *query)
{
	int			nitems = 0;

	if (query->setOperations != NULL)
		return "UNION ALL";
	return item_loses_order(query, (Node *) query->jointree, &nitems);
}

char *
sx_row_order_lost(SxCut *cut, Query *result)
{
	if (cut->operators != NIL)
		return "an aggregation, DISTINCT or LIMIT";
	return query_loses_order(result);
}
