/*
 * event_column.c
 *		Brings the event time of a query level into its select list.
 *
 * An operator judges rows by their event time whether or not the query selects
 * it. It is looked for in the level's own columns, then in what it reads: the
 * stream's watermark column, a subquery's, the event time of an operator's rows.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/tlist.h"
#include "parser/parsetree.h"

#include "plan/event_column.h"
#include "source/source.h"

static AttrNumber append_column(SxCut *cut, Query *query);

static AttrNumber
selected_column(SxCut *cut, Query *query)
{
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst(cell);

		if (!entry->resjunk && sx_trace_column(cut, query, entry->resno) != SX_TRACE_NONE)
			return entry->resno;
	}
	return 0;
}

static Var *
var_of_column(Query *subquery, Index varno, AttrNumber column)
{
	TargetEntry *entry = get_tle_by_resno(subquery->targetList, column);

	return makeVar(varno, column, exprType((Node *) entry->expr), exprTypmod((Node *) entry->expr),
				   exprCollation((Node *) entry->expr), 0);
}

/* The event time of a range table entry, as its level sees it; or NULL. */
static Var *
event_of_rte(SxCut *cut, Query *query, Index varno)
{
	RangeTblEntry *rte = rt_fetch(varno, query->rtable);
	SxPlanOperator *op = sx_operator_of_rte(cut, rte);
	AttrNumber	attnum;
	int64		delay;

	if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_FOREIGN_TABLE &&
		sx_relation_is_stream(rte->relid) && sx_stream_watermark(rte->relid, &attnum, &delay))
		return makeVar(varno, attnum, TIMESTAMPTZOID, -1, InvalidOid, 0);
	if (rte->rtekind == RTE_SUBQUERY && sx_flows(cut, (Node *) rte))
	{
		int			before = list_length(rte->subquery->targetList);

		attnum = sx_event_column_add(cut, rte->subquery);
		if (attnum == 0)
			return NULL;
		if (list_length(rte->subquery->targetList) > before)
			rte->eref->colnames = lappend(rte->eref->colnames, makeString(pstrdup("event time")));
		return var_of_column(rte->subquery, varno, attnum);
	}
	if (op != NULL && (attnum = sx_operator_event_column(op)) > 0)
	{
		Form_pg_attribute att = TupleDescAttr(op->output, attnum - 1);

		return makeVar(varno, attnum, att->atttypid, att->atttypmod, att->attcollation, 0);
	}
	return NULL;
}

/* Behind the columns that are selected, before those that are only grouped by. */
static AttrNumber
append(Query *query, Expr *expr)
{
	int			selected = 0;
	ListCell   *cell;

	foreach(cell, query->targetList)
		if (!lfirst_node(TargetEntry, cell)->resjunk)
			selected = foreach_current_index(cell) + 1;
	for_each_from(cell, query->targetList, selected)
		lfirst_node(TargetEntry, cell)->resno++;
	query->targetList = list_insert_nth(query->targetList, selected,
										makeTargetEntry(expr, selected + 1, pstrdup("event time"), false));
	return selected + 1;
}

static void
append_to_set(SetOperationStmt *set, const Var *column)
{
	set->colTypes = lappend_oid(set->colTypes, column->vartype);
	set->colTypmods = lappend_int(set->colTypmods, column->vartypmod);
	set->colCollations = lappend_oid(set->colCollations, column->varcollid);
	if (IsA(set->larg, SetOperationStmt))
		append_to_set((SetOperationStmt *) set->larg, column);
	if (IsA(set->rarg, SetOperationStmt))
		append_to_set((SetOperationStmt *) set->rarg, column);
}

static void
collect_branches(Node *node, Query *query, List **branches)
{
	if (IsA(node, RangeTblRef))
	{
		*branches = lappend(*branches, rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable));
		return;
	}
	collect_branches(((SetOperationStmt *) node)->larg, query, branches);
	collect_branches(((SetOperationStmt *) node)->rarg, query, branches);
}

/* Columns of a set operation are Vars of its first branch; a view's range table begins with other entries. */
static Index
leftmost_branch(Node *node)
{
	while (IsA(node, SetOperationStmt))
		node = ((SetOperationStmt *) node)->larg;
	return castNode(RangeTblRef, node)->rtindex;
}

/* UNION ALL: each branch gets one more column, the same in all, or none does. */
static AttrNumber
append_to_branches(SxCut *cut, Query *query)
{
	List	   *branches = NIL;
	List	   *tried = NIL;
	Var		   *column = NULL;
	ListCell   *cell;

	collect_branches(query->setOperations, query, &branches);
	foreach(cell, branches)
	{
		Query	   *copy = copyObject(lfirst_node(RangeTblEntry, cell)->subquery);
		AttrNumber	resno = append_column(cut, copy);
		Var		   *of_branch;

		if (resno == 0)
			return 0;
		of_branch = var_of_column(copy, 1, resno);
		if (column != NULL && of_branch->vartype != column->vartype)
			return 0;
		column = of_branch;
		tried = lappend(tried, copy);
	}
	foreach(cell, branches)
	{
		RangeTblEntry *rte = lfirst(cell);

		rte->subquery = list_nth(tried, foreach_current_index(cell));
		rte->eref->colnames = lappend(rte->eref->colnames, makeString(pstrdup("event time")));
	}
	append_to_set((SetOperationStmt *) query->setOperations, column);
	column->varno = column->varnosyn = leftmost_branch(query->setOperations);
	return append(query, (Expr *) column);
}

/* Appends the event time even if it is selected somewhere already. */
static AttrNumber
append_column(SxCut *cut, Query *query)
{
	AttrNumber	selected = selected_column(cut, query);
	Var		   *column = NULL;

	check_stack_depth();
	if (query->setOperations != NULL)
		return append_to_branches(cut, query);
	if (selected != 0)
		return append(query, copyObject(get_tle_by_resno(query->targetList, selected)->expr));
	for (int varno = 1; varno <= list_length(query->rtable) && column == NULL; varno++)
		column = event_of_rte(cut, query, varno);
	return column == NULL ? 0 : append(query, (Expr *) column);
}

AttrNumber
sx_event_column_add(SxCut *cut, Query *query)
{
	AttrNumber	selected = selected_column(cut, query);

	return selected != 0 ? selected : append_column(cut, query);
}
