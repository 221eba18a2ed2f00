/*
 * result_key.c
 *		Which columns of the result identify a row.
 *
 * Sinks that change rows (update and complete mode) need a key. It is that of the
 * one aggregation, if all its grouping columns are in the result and nothing above
 * it can make several rows of one.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "base/compat.h"
#include "plan/cut.h"
#include "plan/function_kind.h"
#include "plan/isolate.h"

/* Does it give one row for each of its keys, at most, in a batch? */
static bool
has_result_key(const SxPlanOperator *op)
{
	return sx_operator_aggregates(op) || (op->transform != NULL && op->transform->single);
}

/*
 * Does a bound say which window it is? Of windows that the operator assigned, it
 * does. Of a key's sessions the end does, since a new one ends after those that
 * were closed. So does the start if gaps are equal; with a larger gap a session
 * can begin where a closed one began.
 */
static bool
identifies_window(const SxPlanOperator *op, Oid function)
{
	if (op->key_time == SX_KEY_TIME_SESSION)
		return function != F_LOWER_ANYRANGE || op->gap > 0;
	return op->key_time == SX_KEY_TIME_WINDOW;
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
				identifies_window(*op, function) ? key : -1;
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
	if (*op == NULL || !has_result_key(*op) || var->varattno > (*op)->nkeys)
		return -1;
	return var->varattno - 1;
}

/* ---- can a row of the operator become several rows of the result? ---- */

static bool
reads_operator_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_NAMEDTUPLESTORE;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_operator_walker, context,
								 QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_operator_walker, context);
}

static bool
reads_operator(RangeTblEntry *rte)
{
	if (rte->rtekind == RTE_SUBQUERY)
		return reads_operator_walker((Node *) rte->subquery, NULL);
	return rte->rtekind == RTE_NAMEDTUPLESTORE;
}

/* The column of a range table entry that the qual sets equal to something else; 0: none. */
static AttrNumber
equated_column(Node *qual, int rtindex, Oid *operator, Oid *collation)
{
	OpExpr	   *op = (OpExpr *) qual;

	if (!IsA(qual, OpExpr) || list_length(op->args) != 2)
		return 0;
	for (int side = 0; side < 2; side++)
	{
		Node	   *own = strip_implicit_coercions(list_nth(op->args, side));
		Node	   *other = list_nth(op->args, 1 - side);
		Oid			opno = side == 0 ? op->opno : get_commutator(op->opno);

		if (!IsA(own, Var) || ((Var *) own)->varno != rtindex || ((Var *) own)->varlevelsup != 0 ||
			bms_is_member(rtindex, pull_varnos(NULL, other)) || !OidIsValid(opno))
			continue;
		*operator = opno;
		*collation = op->inputcollid;
		return ((Var *) own)->varattno;
	}
	return 0;
}

static bool
index_is_matched(Relation index, List *quals, int rtindex)
{
	if (!index->rd_index->indisunique || !index->rd_index->indimmediate ||
		!index->rd_index->indisvalid || index->rd_index->indnullsnotdistinct ||
		RelationGetIndexPredicate(index) != NIL || RelationGetIndexExpressions(index) != NIL)
		return false;
	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		bool		found = false;
		ListCell   *cell;

		foreach(cell, quals)
		{
			Oid			operator = InvalidOid;
			Oid			collation = InvalidOid;

			if (equated_column(lfirst(cell), rtindex, &operator, &collation) ==
				index->rd_index->indkey.values[i] &&
				get_op_opfamily_strategy(operator, index->rd_opfamily[i]) == BTEqualStrategyNumber &&
				collation == index->rd_indcollation[i])
				found = true;
		}
		if (!found)
			return false;
	}
	return true;
}

static bool
limited_to_one(Node *limit)
{
	Node	   *value = limit ? eval_const_expressions(NULL, limit) : NULL;

	return value != NULL && IsA(value, Const) && !((Const *) value)->constisnull &&
		DatumGetInt64(((Const *) value)->constvalue) <= 1;
}

/* A table whose unique key the quals set equal to something gives a row at most. */
static bool
at_most_one_row(RangeTblEntry *rte, List *quals, int rtindex)
{
	Relation	relation;
	bool		result = false;
	ListCell   *cell;

	if (rte->rtekind == RTE_RESULT)
		return true;
	if (rte->rtekind == RTE_SUBQUERY)
		return (rte->subquery->hasAggs && rte->subquery->groupClause == NIL &&
				rte->subquery->groupingSets == NIL && !rte->subquery->hasTargetSRFs) ||
			limited_to_one(rte->subquery->limitCount);
	if (rte->rtekind != RTE_RELATION || rte->relkind == RELKIND_VIEW)
		return false;
	relation = table_open(rte->relid, rte->rellockmode);
	foreach(cell, RelationGetIndexList(relation))
	{
		Relation	index = index_open(lfirst_oid(cell), AccessShareLock);

		result = result || index_is_matched(index, quals, rtindex);
		index_close(index, NoLock);
	}
	table_close(relation, NoLock);
	return result;
}

static bool
collect_quals_walker(Node *node, List **quals)
{
	if (node == NULL)
		return false;
	if (IsA(node, FromExpr))
		*quals = list_concat(*quals, sx_conjuncts(((FromExpr *) node)->quals));
	if (IsA(node, JoinExpr))
		*quals = list_concat(*quals, sx_conjuncts(((JoinExpr *) node)->quals));
	if (IsA(node, FromExpr) || IsA(node, JoinExpr) || IsA(node, List))
		return expression_tree_walker(node, collect_quals_walker, quals);
	return false;
}

/* Names the table in *culprit if so. */
static bool
may_multiply(Query *query, char **culprit)
{
	List	   *quals = NIL;
	int			rtindex = 0;
	bool		reads = false;
	ListCell   *cell;

	if (query->hasTargetSRFs)
	{
		*culprit = pstrdup("a set-returning function");
		return true;
	}
	collect_quals_walker((Node *) query->jointree, &quals);
	quals = list_concat(NIL, (List *) sx_flatten_join_aliases(query, (Node *) quals));
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		rtindex++;
		if (rte->rtekind == RTE_JOIN)
			continue;
		/* of the second one that shows the result's rows, each may meet many of the first */
		if (reads_operator(rte) && !reads)
		{
			if (rte->rtekind == RTE_SUBQUERY && may_multiply(rte->subquery, culprit))
				return true;
			reads = true;
		}
		else if (!at_most_one_row(rte, quals, rtindex))
		{
			*culprit = rte->eref->aliasname;
			return true;
		}
	}
	return false;
}

/* UNION ALL, of the query or of what it reads. */
static bool
unites_operators(Query *query)
{
	ListCell   *cell;

	if (query->setOperations != NULL)
		return true;
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_SUBQUERY && reads_operator(rte) && unites_operators(rte->subquery))
			return true;
	}
	return false;
}

/* Groups of several branches have no key in common; other rows need none. */
static bool
unites_groups_walker(Node *node, SxCut *cut)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		SxPlanOperator *op = sx_operator_of_rte(cut, (RangeTblEntry *) node);

		return op != NULL && has_result_key(op);
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, unites_groups_walker, cut, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, unites_groups_walker, cut);
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
void
sx_result_key_find(SxPlan *plan, SxCut *cut, Query *result)
{
	SxPlanOperator *op = NULL;
	List	   *entries = NIL;
	int		   *op_keys;
	Bitmapset  *found = NULL;
	ListCell   *cell;

	foreach(cell, cut->operators)
		plan->retracts = plan->retracts ||
			(cut->mode == SX_OUTPUT_UPDATE &&
			 ((SxPlanOperator *) lfirst(cell))->kind == SX_OPERATOR_SESSION);
	if (cut->mode == SX_OUTPUT_APPEND || list_length(cut->operators) == 0)
		return;
	if (unites_operators(result) && !plan->retracts && unites_groups_walker((Node *) result, cut))
		plan->keys_multiplied = pstrdup("UNION ALL");
	if (result->setOperations != NULL || plan->keys_multiplied != NULL)
		return;
	op = linitial(cut->operators);
	if (!has_result_key(op))
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
	if (may_multiply(result, &plan->keys_multiplied))
	{
		plan->keys = NULL;
		plan->nkeys = 0;
		return;
	}
	if (cut->mode == SX_OUTPUT_UPDATE && (plan->retracts || has_filter_or_join(result)))
		plan->touched = make_touched(plan, op, result, entries, op_keys);
}
