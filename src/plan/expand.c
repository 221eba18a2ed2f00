/*
 * expand.c
 *		Views and CTEs that contain streams become subqueries.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/expand.h"
#include "source/source.h"

typedef struct ExpandContext
{
	List	   *parents;		/* Query *, innermost first */
} ExpandContext;

static void expand_level(Query *query, ExpandContext *context);

/*
 * A view's Query as the rewriter would put it in: rule queries already carry
 * checkAsUser of the view's owner (or none for security_invoker).
 */
static Query *
view_query(Oid view, int lockmode, bool *security_barrier)
{
	Relation	relation = table_open(view, lockmode);
	Query	   *query = copyObject(get_view_query(relation));

	*security_barrier = RelationIsSecurityView(relation);
	table_close(relation, NoLock);
	return query;
}

static bool
contains_stream_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;
		int			index = 0;
		ListCell   *cell;

		check_stack_depth();
		foreach(cell, query->rtable)
		{
			RangeTblEntry *rte = lfirst(cell);

			index++;
			if (rte->rtekind != RTE_RELATION ||
				!rangeTableEntry_used((Node *) query, index, 0))
				continue;
			if (rte->relkind == RELKIND_FOREIGN_TABLE && sx_relation_is_stream(rte->relid))
				return true;
			if (rte->relkind == RELKIND_VIEW)
			{
				bool		barrier;

				if (contains_stream_walker((Node *) view_query(rte->relid, AccessShareLock, &barrier),
										   context))
					return true;
			}
		}
		return query_tree_walker(query, contains_stream_walker, context, 0);
	}
	return expression_tree_walker(node, contains_stream_walker, context);
}

bool
sx_contains_stream(Node *node)
{
	return contains_stream_walker(node, NULL);
}

/* The owner of the outer view (or the user) must be allowed to read the inner one. */
static void
check_view_privilege(const Query *query, RangeTblEntry *rte)
{
	Oid			user = sx_rte_check_as_user(query, rte);

	if (!OidIsValid(user))
		user = GetUserId();
	if (pg_class_aclcheck(rte->relid, user, ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_VIEW, get_rel_name(rte->relid));
}

static CommonTableExpr *
find_cte(ExpandContext *context, Query *query, RangeTblEntry *rte)
{
	Query	   *level = query;
	ListCell   *cell;

	if (rte->ctelevelsup > 0)
		level = list_nth(context->parents, rte->ctelevelsup - 1);
	foreach(cell, level->cteList)
	{
		CommonTableExpr *cte = lfirst(cell);

		if (strcmp(cte->ctename, rte->ctename) == 0)
			return cte;
	}
	elog(ERROR, "could not find CTE \"%s\"", rte->ctename);
	return NULL;
}

static void
make_subquery_rte(RangeTblEntry *rte, Query *subquery, bool security_barrier)
{
	rte->rtekind = RTE_SUBQUERY;
	rte->subquery = subquery;
	rte->security_barrier = security_barrier;
	rte->inh = false;
	rte->tablesample = NULL;
	rte->ctename = NULL;
	rte->ctelevelsup = 0;
	rte->self_reference = false;
	rte->coltypes = NIL;
	rte->coltypmods = NIL;
	rte->colcollations = NIL;
}

static void
expand_cte_reference(RangeTblEntry *rte, Query *query, ExpandContext *context)
{
	CommonTableExpr *cte = find_cte(context, query, rte);
	Query	   *copy;

	if (!IsA(cte->ctequery, Query) || !sx_contains_stream(cte->ctequery))
		return;
	if (cte->cterecursive)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("recursive query \"%s\" reads a stream", cte->ctename),
				 errdetail("A recursion over rows that keep coming never ends.")));
	copy = copyObject((Query *) cte->ctequery);
	if (copy->commandType != CMD_SELECT)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("continuous query contains a data-modifying WITH clause")));
	if (rte->ctelevelsup > 0)
		IncrementVarSublevelsUp((Node *) copy, rte->ctelevelsup, 1);
	make_subquery_rte(rte, copy, false);
}

static bool
expand_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		expand_level((Query *) node, context);
		return false;
	}
	return expression_tree_walker(node, expand_walker, context);
}

static void
expand_range_table(Query *query, ExpandContext *context)
{
	int			index = 0;
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		index++;
		if (!rangeTableEntry_used((Node *) query, index, 0))
		{
			/* the OLD and NEW entries of a view's rule (15), or leftovers */
			if (rte->rtekind == RTE_RELATION)
			{
				RangeTblEntry *blank = makeNode(RangeTblEntry);

				blank->rtekind = RTE_RESULT;
				blank->eref = makeAlias("*RESULT*", NIL);
				lfirst(cell) = blank;
			}
			continue;
		}
		if (rte->rtekind == RTE_CTE)
			expand_cte_reference(rte, query, context);
		else if (rte->rtekind == RTE_RELATION && rte->relkind == RELKIND_VIEW)
		{
			bool		barrier;
			Query	   *inner = view_query(rte->relid, rte->rellockmode, &barrier);

			if (sx_contains_stream((Node *) inner))
			{
				check_view_privilege(query, rte);
				make_subquery_rte(rte, inner, barrier);
				sx_rte_forget_relation(rte);
			}
		}
	}
}

static void
expand_level(Query *query, ExpandContext *context)
{
	List	   *kept = NIL;
	ListCell   *cell;

	check_stack_depth();
	expand_range_table(query, context);

	context->parents = lcons(query, context->parents);
	query_tree_walker(query, expand_walker, context, 0);
	context->parents = list_delete_first(context->parents);

	/* CTEs with streams have been copied to where they are used */
	foreach(cell, query->cteList)
	{
		CommonTableExpr *cte = lfirst(cell);

		if (!sx_contains_stream(cte->ctequery))
			kept = lappend(kept, cte);
	}
	query->cteList = kept;
}

void
sx_expand_query(Query *query)
{
	ExpandContext context = {NIL};

	expand_level(query, &context);
}
