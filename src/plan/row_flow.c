/*
 * row_flow.c
 *		What a segment may do to the number of its rows.
 *
 * The books of a batch (streamx.conservation) hold what went into each segment
 * against what came out. Where nothing filters, as many must come out; where
 * nothing joins or unnests, not more.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "plan/cut.h"

static SxRowFlow flow_of_query(const Query *query);

static SxRowFlow
flow_of_entry(const RangeTblEntry *rte)
{
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			return rte->relkind == RELKIND_FOREIGN_TABLE && rte->tablesample == NULL ?
				SX_FLOW_PASSES : SX_FLOW_FREE;
		case RTE_NAMEDTUPLESTORE:
			return SX_FLOW_PASSES;
		case RTE_SUBQUERY:
			return flow_of_query(rte->subquery);
		default:
			return SX_FLOW_FREE;
	}
}

/* Of UNION ALL each branch is read once. */
static SxRowFlow
flow_of_set_operation(const Query *query, const Node *node)
{
	const SetOperationStmt *set = (const SetOperationStmt *) node;

	if (IsA(node, RangeTblRef))
		return flow_of_entry(rt_fetch(((const RangeTblRef *) node)->rtindex, query->rtable));
	if (set->op != SETOP_UNION || !set->all)
		return SX_FLOW_FREE;
	return Max(flow_of_set_operation(query, set->larg), flow_of_set_operation(query, set->rarg));
}

static SxRowFlow
flow_of_query(const Query *query)
{
	const FromExpr *from = query->jointree;
	SxRowFlow	flow;

	check_stack_depth();
	if (query->hasTargetSRFs || query->hasAggs || query->groupClause != NIL ||
		query->groupingSets != NIL || query->distinctClause != NIL ||
		query->limitCount != NULL || query->limitOffset != NULL)
		return SX_FLOW_FREE;
	if (query->setOperations != NULL)
		return flow_of_set_operation(query, query->setOperations);
	if (list_length(from->fromlist) != 1 || !IsA(linitial(from->fromlist), RangeTblRef))
		return SX_FLOW_FREE;
	flow = flow_of_entry(rt_fetch(linitial_node(RangeTblRef, from->fromlist)->rtindex,
								  query->rtable));
	return from->quals != NULL ? Max(flow, SX_FLOW_FILTERS) : flow;
}

/* The leaves, each as often as it stands there. */
static bool
leaves_walker(Node *node, void *arg)
{
	List	  **leaves = arg;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind == RTE_RELATION || rte->rtekind == RTE_NAMEDTUPLESTORE)
			*leaves = lappend(*leaves, rte);
		return false;
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, leaves_walker, arg, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, leaves_walker, arg);
}

void
sx_row_flow_find(SxPlan *plan, SxCut *cut)
{
	for (int i = 0; i < plan->nstages; i++)
	{
		SxPlanStage *stage = &plan->stages[i];
		List	   *leaves = NIL;
		ListCell   *cell;

		stage->flow = flow_of_query(stage->segment);
		stage->references = palloc0(sizeof(int) * Max(plan->nsources, 1));
		leaves_walker((Node *) stage->segment, &leaves);
		foreach(cell, leaves)
		{
			const RangeTblEntry *rte = lfirst(cell);
			const SxPlanOperator *op = sx_operator_of_rte(cut, rte);

			if (op != NULL)
				stage->operators = bms_add_member(stage->operators, op->id);
			for (int source = 0; source < plan->nsources; source++)
				if (rte->rtekind == RTE_RELATION && rte->relid == plan->sources[source].relid)
					stage->references[source]++;
		}
	}
}
