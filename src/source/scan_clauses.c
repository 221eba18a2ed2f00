/*
 * scan_clauses.c
 *		Clauses of a plain SELECT that let a source read less than all.
 *
 * A clause compares a column of the stream with something that is the same for the
 * whole scan: a constant, a parameter of the statement, a stable function. The
 * executor holds every row against it anyway, so a source may use it loosely.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_am.h"
#include "catalog/pg_amop.h"
#include "commands/explain.h"
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#endif
#include "executor/executor.h"
#include "nodes/nodeFuncs.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"

#include "base/compat.h"
#include "source/fdw.h"
#include "source/scan_clauses.h"

/* Parameters of other parts of the plan change between rescans. */
static bool
has_exec_param(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Param) && ((Param *) node)->paramkind == PARAM_EXEC)
		return true;
	return expression_tree_walker(node, has_exec_param, context);
}

static bool
is_fixed(Node *node)
{
	return !contain_var_clause(node) && !contain_volatile_functions(node) &&
		!contain_subplans(node) && !has_exec_param(node, NULL);
}

/* The operator's place in a btree family; 0: it has none. */
static int
strategy_of(Oid operator)
{
	List	   *interpretations = sx_op_interpretations(operator);
	ListCell   *lc;

	foreach(lc, interpretations)
	{
		SxOpInterpretation *it = lfirst(lc);

		/* <> is no strategy of btree, but it is given as one. */
		if (sx_op_strategy(it) >= BTLessStrategyNumber && sx_op_strategy(it) <= BTGreaterStrategyNumber)
			return sx_op_strategy(it);
	}
	return 0;
}

/* column <operator> fixed, either way round; or column = ANY (fixed). */
static bool
read_clause(Node *clause, Relation rel, SxScanClause *result, Expr **value)
{
	const SxSourceRoutine *routine = sx_fdw_of(RelationGetRelid(rel))->routine(RelationGetRelid(rel));
	Oid			operator;
	List	   *args;
	Node	   *left;
	Node	   *right;

	memset(result, 0, sizeof(*result));
	if (IsA(clause, OpExpr))
	{
		operator = ((OpExpr *) clause)->opno;
		args = ((OpExpr *) clause)->args;
	}
	else if (IsA(clause, ScalarArrayOpExpr) && ((ScalarArrayOpExpr *) clause)->useOr)
	{
		operator = ((ScalarArrayOpExpr *) clause)->opno;
		args = ((ScalarArrayOpExpr *) clause)->args;
		result->is_array = true;
	}
	else
		return false;
	if (list_length(args) != 2)
		return false;
	left = linitial(args);
	right = lsecond(args);
	if (!IsA(left, Var) && IsA(right, Var) && !result->is_array)
	{
		Node	   *swap = left;

		left = right;
		right = swap;
		operator = get_commutator(operator);
	}
	if (!IsA(left, Var) || ((Var *) left)->varattno <= 0 || !is_fixed(right) ||
		!OidIsValid(operator))
		return false;
	result->attnum = ((Var *) left)->varattno;
	result->strategy = strategy_of(operator);
	result->type = exprType(right);
	if (result->is_array)
		result->type = get_element_type(result->type);
	*value = (Expr *) right;
	return result->strategy != 0 && OidIsValid(result->type) &&
		(!result->is_array || result->strategy == BTEqualStrategyNumber) &&
		routine->can_restrict != NULL &&
		routine->can_restrict(rel, result->attnum, result->strategy, result->type);
}

List *
sx_scan_clauses(ForeignScanState *node)
{
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, node->ss.ps.plan->qual)
	{
		SxScanClause clause;
		Expr	   *value;
		bool		isnull;

		if (!read_clause(lfirst(lc), node->ss.ss_currentRelation, &clause, &value))
			continue;
		clause.value = ExecEvalExprSwitchContext(ExecInitExpr(value, &node->ss.ps),
												 node->ss.ps.ps_ExprContext, &isnull);
		if (isnull)
			continue;
		clause.value = datumCopy(clause.value, get_typbyval(exprType((Node *) value)),
								 get_typlen(exprType((Node *) value)));
		result = lappend(result, memcpy(palloc(sizeof(clause)), &clause, sizeof(clause)));
	}
	return result;
}

void
sx_scan_clauses_explain(ForeignScanState *node, ExplainState *es)
{
	List	   *used = NIL;
	List	   *context;
	ListCell   *lc;

	foreach(lc, node->ss.ps.plan->qual)
	{
		SxScanClause clause;
		Expr	   *value;

		if (read_clause(lfirst(lc), node->ss.ss_currentRelation, &clause, &value))
			used = lappend(used, lfirst(lc));
	}
	if (used == NIL)
		return;
	context = set_deparse_context_plan(es->deparse_cxt, node->ss.ps.plan, NIL);
	ExplainPropertyText("Reads Only",
						deparse_expression((Node *) make_ands_explicit(used), context,
										   list_length(es->rtable) > 1, false), es);
}
