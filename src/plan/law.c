/*
 * law.c
 *		The law of segments: seg(A u B) = seg(A) u seg(B), as multisets.
 *
 * A clause that breaks it would run per batch and look right in every
 * one-batch test. So each query level through which stream rows flow is held
 * against a white list. What is above a complete-mode aggregation sees the whole
 * result in every batch and is free.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "base/errors.h"
#include "plan/cut.h"
#include "plan/function_kind.h"
#include "source/source.h"

typedef struct FlowContext
{
	SxCut	   *cut;
} FlowContext;

static bool
flows_walker(Node *node, void *arg)
{
	FlowContext *context = arg;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION)
			return rte->relkind == RELKIND_FOREIGN_TABLE && sx_relation_is_stream(rte->relid);
		if (rte->rtekind == RTE_NAMEDTUPLESTORE)
		{
			SxPlanOperator *op = sx_operator_of_rte(context->cut, rte);

			return op != NULL && (!sx_operator_aggregates(op) ||
								  context->cut->mode != SX_OUTPUT_COMPLETE);
		}
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, flows_walker, arg, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, flows_walker, arg);
}

bool
sx_flows(SxCut *cut, Node *node)
{
	FlowContext context = {cut};

	if (node != NULL && IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_SUBQUERY)
			return flows_walker((Node *) rte->subquery, &context);
		if (rte->rtekind == RTE_FUNCTION)
			return flows_walker((Node *) rte->functions, &context);
		if (rte->rtekind == RTE_JOIN)
			return false;
	}
	return flows_walker(node, &context);
}

bool
sx_has_aggregation(const Query *query)
{
	return query->hasAggs || query->groupClause != NIL ||
		query->groupingSets != NIL || query->havingQual != NULL;
}

static void
refuse(const char *clause, const char *why, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_NOT_STREAMABLE),
			 errmsg("%s is not supported over a stream", clause),
			 errdetail("%s", why),
			 hint ? errhint("%s", hint) : 0));
}

static void
check_order_and_limit(SxCut *cut, Query *query)
{
	if (query->sortClause != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("ORDER BY is not supported over a stream in output mode \"%s\"",
						sx_output_mode_name(cut->mode)),
				 errdetail("Rows that are still to come could belong before those already written."),
				 errhint("Sort when reading the result, or use output mode \"complete\" over an aggregation.")));
	if (query->limitOffset != NULL)
		refuse("OFFSET", "Which rows are skipped would depend on the batches.", NULL);
	if (query->limitOption == LIMIT_OPTION_WITH_TIES)
		refuse("FETCH FIRST ... WITH TIES", "Ties need an order, and a stream has none.", NULL);
	if (query->limitCount != NULL && cut->mode == SX_OUTPUT_UPDATE)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("LIMIT is not supported over a stream in output mode \"update\""),
				 errhint("Use output mode \"append\".")));
}

static void
check_clauses(SxCut *cut, Query *query)
{
	check_order_and_limit(cut, query);
	if (query->hasWindowFuncs)
		refuse("a window function",
			   "Its value for a row would depend on rows that are still to come.",
			   "Use a windowed aggregation: GROUP BY tumble(ts, size), or output mode \"complete\" over an aggregation.");
	if (query->rowMarks != NIL)
		refuse("FOR UPDATE or FOR SHARE", "Rows of a stream cannot be locked.", NULL);
	if (query->groupingSets != NIL)
		refuse("GROUPING SETS, ROLLUP or CUBE", "One stateful operator has one grouping key.",
			   "Create a query for each grouping set.");
}

/* All leaves must be streams, and the only operation UNION ALL. */
static void
check_set_operation(SxCut *cut, Query *query, Node *node)
{
	if (IsA(node, SetOperationStmt))
	{
		SetOperationStmt *op = (SetOperationStmt *) node;

		if (op->op != SETOP_UNION)
			refuse(op->op == SETOP_INTERSECT ? "INTERSECT" : "EXCEPT",
				   "Whether a row belongs to the result would depend on rows that are still to come.",
				   NULL);
		if (!op->all)
			refuse("UNION under UNION ALL",
				   "Only the outermost set operation of a query level can remove duplicates.",
				   "Put the UNION into a subquery of FROM.");
		check_set_operation(cut, query, op->larg);
		check_set_operation(cut, query, op->rarg);
		return;
	}
	if (!sx_flows(cut, (Node *) rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable)))
		refuse("UNION ALL of a stream and a static query",
			   "The static rows would come again with every batch.",
			   "Insert the static rows into a stream, or into the sink, once.");
}

static void
refuse_join_side(JoinType type)
{
	if (type == JOIN_FULL)
		refuse("FULL JOIN of a stream and a static table",
			   "Whether a static row stays unmatched is never decided.", NULL);
	refuse("an outer join that preserves the static side",
		   "Whether a static row stays unmatched is never decided.",
		   "Put the stream on the preserved side: stream LEFT JOIN table.");
}

/* Returns whether stream rows flow out of this part of the FROM clause. */
static bool
check_join_tree(SxCut *cut, Query *query, Node *node)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblRef))
		return sx_flows(cut, (Node *) rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable));
	if (IsA(node, FromExpr))
	{
		int			nstreams = 0;
		ListCell   *cell;

		foreach(cell, ((FromExpr *) node)->fromlist)
			nstreams += check_join_tree(cut, query, lfirst(cell)) ? 1 : 0;
		if (nstreams > 1)
			elog(ERROR, "a join of streams was not cut");
		return nstreams > 0;
	}
	else
	{
		JoinExpr   *join = castNode(JoinExpr, node);
		bool		left = check_join_tree(cut, query, join->larg);
		bool		right = check_join_tree(cut, query, join->rarg);

		if (left && right)
			elog(ERROR, "a join of streams was not cut");
		if ((left || right) &&
			(join->jointype == JOIN_FULL ||
			 (join->jointype == JOIN_LEFT && right) ||
			 (join->jointype == JOIN_RIGHT && left)))
			refuse_join_side(join->jointype);
		return left || right;
	}
}

static bool
is_not_in(Node *node)
{
	Node	   *argument;

	if (!IsA(node, BoolExpr) || ((BoolExpr *) node)->boolop != NOT_EXPR)
		return false;
	argument = linitial(((BoolExpr *) node)->args);
	return IsA(argument, SubLink) && ((SubLink *) argument)->subLinkType == ANY_SUBLINK;
}

static void
refuse_all(void)
{
	refuse("NOT IN or ALL",
		   "A single NULL or a later row would take back what was written.",
		   "Use NOT EXISTS with an equality.");
}

/* Subqueries in expressions may only read ordinary tables; joins of streams are cut already. */
static bool
sublink_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (is_not_in(node))
	{
		if (sx_flows(((FlowContext *) arg)->cut,
					 ((SubLink *) linitial(((BoolExpr *) node)->args))->subselect))
			refuse_all();
	}
	else if (IsA(node, SubLink))
	{
		SubLink    *link = (SubLink *) node;

		if (sx_flows(((FlowContext *) arg)->cut, link->subselect))
		{
			if (link->subLinkType == ALL_SUBLINK)
				refuse_all();
			refuse("this subquery in an expression",
				   "Only EXISTS, NOT EXISTS and IN, in WHERE and combined by AND, can be joins of two streams; the outer query must read a stream, too.",
				   NULL);
		}
	}
	return expression_tree_walker(node, sublink_walker, arg);
}

void
sx_law_check(SxCut *cut, Query *query)
{
	FlowContext context = {cut};
	ListCell   *cell;

	check_stack_depth();
	if (query->commandType != CMD_SELECT || query->hasModifyingCTE)
		refuse("a data-modifying statement", "A continuous query is a SELECT.", NULL);
	if (query->hasSubLinks)
	{
		sublink_walker((Node *) query->targetList, &context);
		sublink_walker((Node *) query->jointree, &context);
		sublink_walker(query->havingQual, &context);
	}
	if (!sx_flows(cut, (Node *) query))
		return;
	check_clauses(cut, query);
	if (query->setOperations != NULL)
		check_set_operation(cut, query, query->setOperations);
	else
		check_join_tree(cut, query, (Node *) query->jointree);
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_RELATION && rte->tablesample != NULL && sx_flows(cut, (Node *) rte))
			refuse("TABLESAMPLE", "The sample would be drawn batch by batch.", NULL);
	}
}
