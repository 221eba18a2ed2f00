/*
 * join_sublink.c
 *		EXISTS, IN and NOT EXISTS over a stream, as joins.
 *
 *	 WHERE EXISTS (SELECT 1 FROM r WHERE r.k = l.k AND r.v > 0)
 *
 * becomes an entry (SELECT r.k FROM r WHERE r.v > 0) of the range table and the
 * condition entry.k = l.k.
 */
#include "postgres.h"

#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/isolate.h"
#include "plan/join_tree.h"

static SubLink *
sublink_of(Node *qual, bool *negated)
{
	*negated = false;
	if (IsA(qual, BoolExpr) && ((BoolExpr *) qual)->boolop == NOT_EXPR)
	{
		*negated = true;
		qual = linitial(((BoolExpr *) qual)->args);
	}
	return IsA(qual, SubLink) ? (SubLink *) qual : NULL;
}

bool
sx_is_stream_sublink(SxCut *cut, Node *qual)
{
	bool		negated;
	SubLink    *link = sublink_of(qual, &negated);

	return link != NULL && sx_flows(cut, link->subselect) &&
		(link->subLinkType == EXISTS_SUBLINK ||
		 (link->subLinkType == ANY_SUBLINK && !negated));
}

static bool
is_plain(const Query *query)
{
	return query->cteList == NIL && !query->hasAggs && query->groupClause == NIL &&
		query->groupingSets == NIL && query->havingQual == NULL && !query->hasWindowFuncs &&
		query->setOperations == NULL && query->limitCount == NULL && query->limitOffset == NULL &&
		query->distinctClause == NIL && query->rowMarks == NIL && !query->hasTargetSRFs;
}

static void
refuse_sublink(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_NOT_STREAMABLE),
			 errmsg("this subquery over a stream cannot be joined"),
			 errdetail("%s", detail),
			 errhint("Use EXISTS (SELECT 1 FROM stream WHERE stream.key = outer.key AND ...).")));
}

/* Conditions that speak of the outer level are taken out of WHERE. */
static List *
take_outer_conjuncts(Query *sub)
{
	List	   *kept = NIL;
	List	   *taken = NIL;
	ListCell   *cell;

	foreach(cell, sx_conjuncts(sub->jointree->quals))
	{
		if (contain_vars_of_level(lfirst(cell), 1))
			taken = lappend(taken, lfirst(cell));
		else
			kept = lappend(kept, lfirst(cell));
	}
	sub->jointree->quals = kept == NIL ? NULL : (Node *) make_ands_explicit(kept);
	return taken;
}

static Node *
replace_params(Node *node, List *columns)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_SUBLINK)
		return copyObject(list_nth(columns, ((Param *) node)->paramid - 1));
	return expression_tree_mutator(node, replace_params, columns);
}

/* x IN (SELECT y ...): its operators over x and the entry's columns. */
static List *
conjuncts_of_in(SubLink *link, Query *sub, Index varno)
{
	List	   *columns = NIL;
	ListCell   *cell;

	foreach(cell, sub->targetList)
	{
		TargetEntry *entry = lfirst(cell);

		if (!entry->resjunk)
			columns = lappend(columns, makeVarFromTargetEntry(varno, entry));
	}
	return sx_conjuncts(replace_params(link->testexpr, columns));
}

/* Columns that the taken conditions use are selected; the conditions are lifted to the level. */
static void
lift_conjuncts(Query *sub, List *taken, Index varno)
{
	List	   *vars = sx_vars_of_level((Node *) taken, NULL);
	int			offset = list_length(sub->targetList);
	ListCell   *cell;

	foreach(cell, sub->targetList)
	{
		TargetEntry *entry = lfirst(cell);

		/* what it was ordered by comes along: columns must not have gaps */
		if (entry->resjunk)
			entry->resname = psprintf("c%d", entry->resno);
		entry->resjunk = false;
		entry->ressortgroupref = 0;
	}

	foreach(cell, vars)
	{
		Var		   *var = lfirst(cell);

		sub->targetList = lappend(sub->targetList,
								  makeTargetEntry((Expr *) copyObject(var), offset + foreach_current_index(cell) + 1,
												  psprintf("c%d", offset + foreach_current_index(cell) + 1), false));
	}
	/* columns before those of the conditions keep their places */
	for (int i = 0; i < offset; i++)
		vars = lcons(makeVar(0, i + 1, InvalidOid, -1, InvalidOid, 0), vars);
	sx_remap_vars((Node *) taken, NULL, vars, varno);
}

/* Vars of the level above become the level's. There is no subquery in between. */
static bool
lower_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varlevelsup > 0)
			var->varlevelsup--;
		return false;
	}
	return expression_tree_walker(node, lower_walker, context);
}

static RangeTblEntry *
entry_of(Query *sub)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);
	List	   *names = NIL;
	const char *name = NULL;
	ListCell   *cell;

	foreach(cell, sub->targetList)
	{
		TargetEntry *entry = lfirst(cell);

		if (!entry->resjunk)
			names = lappend(names, makeString(pstrdup(entry->resname ? entry->resname : "?column?")));
	}
	/* named as what it reads, for messages */
	foreach(cell, sub->rtable)
		if (name == NULL && lfirst_node(RangeTblEntry, cell)->inFromCl)
			name = lfirst_node(RangeTblEntry, cell)->eref->aliasname;
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = sub;
	rte->alias = makeAlias(name != NULL ? name : "subquery", NIL);
	rte->eref = makeAlias(name != NULL ? name : "subquery", names);
	return rte;
}

Index
sx_pull_sublink(SxCut *cut, Query *query, Node *qual, SxJoinType *type, List **conjuncts)
{
	bool		negated;
	SubLink    *link = sublink_of(qual, &negated);
	Query	   *sub = castNode(Query, link->subselect);
	Index		varno = list_length(query->rtable) + 1;
	List	   *taken = NIL;

	*type = negated ? SX_JOIN_ANTI : SX_JOIN_SEMI;
	if (contain_vars_of_level((Node *) sub, 1))
	{
		if (!is_plain(sub))
			refuse_sublink("It uses columns of the outer query, and groups, limits or combines rows.");
		sub->jointree->quals = sx_flatten_join_aliases(sub, sub->jointree->quals);
		taken = take_outer_conjuncts(sub);
		if (checkExprHasSubLink((Node *) taken))
			refuse_sublink("A condition with another subquery uses columns of the outer query.");
		if (link->subLinkType == EXISTS_SUBLINK)
			sub->targetList = NIL;
		sub->sortClause = NIL;
		lift_conjuncts(sub, taken, varno);
		lower_walker((Node *) taken, NULL);
		if (contain_vars_of_level((Node *) sub, 1))
			refuse_sublink("It uses columns of the outer query outside of WHERE.");
	}
	*conjuncts = taken;
	if (link->subLinkType == ANY_SUBLINK)
		*conjuncts = list_concat(*conjuncts, conjuncts_of_in(link, sub, varno));
	query->rtable = lappend(query->rtable, entry_of(sub));
	return varno;
}
