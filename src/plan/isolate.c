/*
 * isolate.c
 *		See isolate.h.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/prep.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"

#include "base/compat.h"
#include "plan/isolate.h"

typedef struct VarContext
{
	const Bitmapset *varnos;	/* NULL: all */
	int			sublevels_up;
	List	   *found;			/* collect */
	const List *columns;		/* remap */
	int			to;
} VarContext;

static bool
is_meant(const Var *var, const VarContext *context)
{
	return var->varlevelsup == context->sublevels_up && var->varno > 0 &&
		(context->varnos == NULL || bms_is_member(var->varno, context->varnos));
}

static int
find_column(const List *columns, const Var *var)
{
	ListCell   *cell;

	foreach(cell, columns)
	{
		const Var  *column = lfirst(cell);

		if (column->varno == var->varno && column->varattno == var->varattno)
			return foreach_current_index(cell) + 1;
	}
	return 0;
}

static bool
collect_walker(Node *node, VarContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (is_meant(var, context) && find_column(context->found, var) == 0)
		{
			var = copyObject(var);
			var->varlevelsup = 0;
			sx_var_set_nulling(var, NULL);
			context->found = lappend(context->found, var);
		}
		return false;
	}
	if (IsA(node, Query))
	{
		context->sublevels_up++;
		query_tree_walker((Query *) node, collect_walker, context, 0);
		context->sublevels_up--;
		return false;
	}
	return expression_tree_walker(node, collect_walker, context);
}

List *
sx_vars_of_level(Node *node, const Bitmapset *varnos)
{
	VarContext	context = {.varnos = varnos};

	collect_walker(node, &context);
	return context.found;
}

List *
sx_conjuncts(Node *quals)
{
	return list_copy(make_ands_implicit(canonicalize_qual((Expr *) quals, false)));
}

static bool
remap_walker(Node *node, VarContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;
		int			column;

		if (!is_meant(var, context))
			return false;
		column = find_column(context->columns, var);
		if (column == 0)
			elog(ERROR, "column %d of range table entry %d was not selected", var->varattno, var->varno);
		var->varno = context->to;
		var->varattno = column;
		var->varnosyn = 0;
		var->varattnosyn = 0;
		sx_var_set_nulling(var, NULL);
		return false;
	}
	if (IsA(node, Query))
	{
		context->sublevels_up++;
		query_tree_walker((Query *) node, remap_walker, context, 0);
		context->sublevels_up--;
		return false;
	}
	return expression_tree_walker(node, remap_walker, context);
}

void
sx_remap_vars(Node *node, const Bitmapset *varnos, const List *columns, int to)
{
	VarContext	context = {.varnos = varnos,.columns = columns,.to = to};

	remap_walker(node, &context);
}

void
sx_blank_entries(Query *query, const Bitmapset *varnos)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
		if (bms_is_member(foreach_current_index(cell) + 1, varnos))
		{
			RangeTblEntry *blank = makeNode(RangeTblEntry);

			blank->rtekind = RTE_RESULT;
			blank->eref = makeAlias("*RESULT*", NIL);
			lfirst(cell) = blank;
		}
}

List *
sx_lateral_parts(RangeTblEntry *rte)
{
	List	   *parts = list_make3(rte->functions, rte->tablefunc, rte->tablesample);

	return rte->lateral && rte->rtekind == RTE_SUBQUERY ? lappend(parts, rte->subquery) : parts;
}

static bool
forget_walker(Node *node, void *arg)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
		sx_var_set_nulling((Var *) node, NULL);
	return expression_tree_walker(node, forget_walker, arg);
}

void
sx_forget_nullable(Node *node)
{
	forget_walker(node, NULL);
}

/* Outer joins in a part of FROM that may make the entry's columns NULL; false: it isn't in there. */
static bool
find_nulling(Node *node, int varno, Bitmapset **nulling)
{
	JoinExpr   *join = (JoinExpr *) node;
	ListCell   *cell;

	if (IsA(node, RangeTblRef))
		return ((RangeTblRef *) node)->rtindex == varno;
	if (IsA(node, FromExpr))
	{
		foreach(cell, ((FromExpr *) node)->fromlist)
			if (find_nulling(lfirst(cell), varno, nulling))
				return true;
		return false;
	}
	if (find_nulling(join->larg, varno, nulling))
	{
		if (join->jointype == JOIN_RIGHT || join->jointype == JOIN_FULL)
			*nulling = bms_add_member(*nulling, join->rtindex);
		return true;
	}
	if (find_nulling(join->rarg, varno, nulling))
	{
		if (join->jointype == JOIN_LEFT || join->jointype == JOIN_FULL)
			*nulling = bms_add_member(*nulling, join->rtindex);
		return true;
	}
	return false;
}

typedef struct NullableContext
{
	Node	   *from;
	int			sublevels_up;
} NullableContext;

static bool
nullable_walker(Node *node, NullableContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Bitmapset  *nulling = NULL;

		if (((Var *) node)->varlevelsup == context->sublevels_up &&
			find_nulling(context->from, ((Var *) node)->varno, &nulling))
			sx_var_set_nulling((Var *) node, nulling);
		return false;
	}
	if (IsA(node, Query))
	{
		context->sublevels_up++;
		query_tree_walker((Query *) node, nullable_walker, context, 0);
		context->sublevels_up--;
		return false;
	}
	return expression_tree_walker(node, nullable_walker, context);
}

void
sx_mark_nullable(Query *query)
{
	NullableContext context = {(Node *) query->jointree, 0};

	nullable_walker((Node *) query->targetList, &context);
	nullable_walker(query->jointree->quals, &context);
}

static RangeTblEntry *
subquery_entry(Query *subquery)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	List	   *names = NIL;
	ListCell   *cell;

	foreach(cell, subquery->targetList)
		names = lappend(names, makeString(pstrdup(lfirst_node(TargetEntry, cell)->resname)));
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = subquery;
	rte->alias = makeAlias("joined", NIL);
	rte->eref = makeAlias("joined", names);
	rte->inFromCl = true;
	return rte;
}

/* CTEs go along: FROM is where they are read. */
static Query *
query_of_from(const Query *query, const List *columns)
{
	Query	   *below = makeNode(Query);
	ListCell   *cell;

	below->commandType = CMD_SELECT;
	below->canSetTag = true;
	below->hasSubLinks = query->hasSubLinks;
	below->hasRowSecurity = query->hasRowSecurity;
	below->hasRecursive = query->hasRecursive;
	below->cteList = query->cteList;
	below->rtable = query->rtable;
	sx_query_move_permissions(below, query);
	below->jointree = query->jointree;
	foreach(cell, columns)
	{
		Var		   *var = copyObject(lfirst_node(Var, cell));
		const RangeTblEntry *rte = rt_fetch(var->varno, query->rtable);
		char	   *name = var->varattno > 0 ? get_rte_attribute_name((RangeTblEntry *) rte, var->varattno) :
			rte->eref->aliasname;

		below->targetList = lappend(below->targetList,
									makeTargetEntry((Expr *) var, foreach_current_index(cell) + 1,
													pstrdup(name), false));
	}
	sx_mark_nullable(below);
	return below;
}

void
sx_isolate_from(Query *query)
{
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *columns;
	List	   *rest;
	Query	   *below;

	sx_query_flatten_groups(query);
	query->targetList = (List *) sx_flatten_join_aliases(query, (Node *) query->targetList);
	query->havingQual = sx_flatten_join_aliases(query, query->havingQual);
	rest = list_make2(query->targetList, query->havingQual);
	columns = sx_vars_of_level((Node *) rest, NULL);
	below = query_of_from(query, columns);
	sx_remap_vars((Node *) rest, NULL, columns, 1);
	ref->rtindex = 1;
	query->cteList = NIL;
	query->hasRecursive = false;
	query->rtable = list_make1(subquery_entry(below));
	sx_query_drop_permissions(query);
	query->jointree = makeFromExpr(list_make1(ref), NULL);
	query->hasSubLinks = checkExprHasSubLink((Node *) rest);
}
