/*
 * clock.c
 *		Lets now() and its like in a plan be streamx.batch_timestamp().
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_func.h"
#include "utils/fmgroids.h"

#include "plan/clock.h"

static Expr *
call(Oid function, Oid type, List *args)
{
	return (Expr *) makeFuncExpr(function, type, args, InvalidOid, InvalidOid,
								 COERCE_EXPLICIT_CALL);
}

/* Fractional digits as the standard's functions take them; -1: all. */
static Expr *
rounded(Expr *value, Oid function, Oid type, int32 typmod)
{
	if (typmod < 0)
		return value;
	return call(function, type,
				list_make2(value, makeConst(INT4OID, -1, InvalidOid, sizeof(int32),
											Int32GetDatum(typmod), false, true)));
}

static Node *
replace_value_function(SQLValueFunction *value, Expr *clock)
{
	List	   *args = list_make1(clock);

	switch (value->op)
	{
		case SVFOP_CURRENT_DATE:
			return (Node *) call(F_DATE_TIMESTAMPTZ, DATEOID, args);
		case SVFOP_CURRENT_TIME:
		case SVFOP_CURRENT_TIME_N:
			return (Node *) rounded(call(F_TIMETZ_TIMESTAMPTZ, TIMETZOID, args),
									F_TIMETZ_TIMETZ_INT4, TIMETZOID, value->typmod);
		case SVFOP_CURRENT_TIMESTAMP:
		case SVFOP_CURRENT_TIMESTAMP_N:
			return (Node *) rounded(clock, F_TIMESTAMPTZ_TIMESTAMPTZ_INT4, TIMESTAMPTZOID,
									value->typmod);
		case SVFOP_LOCALTIME:
		case SVFOP_LOCALTIME_N:
			return (Node *) rounded(call(F_TIME_TIMESTAMPTZ, TIMEOID, args),
									F_TIME_TIME_INT4, TIMEOID, value->typmod);
		case SVFOP_LOCALTIMESTAMP:
		case SVFOP_LOCALTIMESTAMP_N:
			return (Node *) rounded(call(F_TIMESTAMP_TIMESTAMPTZ, TIMESTAMPOID, args),
									F_TIMESTAMP_TIMESTAMP_INT4, TIMESTAMPOID, value->typmod);
		default:
			return (Node *) value;	/* who, where */
	}
}

static Node *
set_clock(Node *node, void *context)
{
	Oid			function = *(Oid *) context;

	if (node == NULL)
		return NULL;
	if (IsA(node, Query))
		return (Node *) query_tree_mutator((Query *) node, set_clock, context, 0);
	if (IsA(node, SQLValueFunction))
		return replace_value_function((SQLValueFunction *) node,
									  call(function, TIMESTAMPTZOID, NIL));
	if (IsA(node, FuncExpr))
	{
		Oid			called = ((FuncExpr *) node)->funcid;

		if (called == F_NOW || called == F_TRANSACTION_TIMESTAMP || called == F_STATEMENT_TIMESTAMP)
			return (Node *) call(function, TIMESTAMPTZOID, NIL);
	}
	return expression_tree_mutator(node, set_clock, context);
}

void
sx_plan_set_clock(SxPlan *plan)
{
	Oid			function = LookupFuncName(list_make2(makeString("streamx"),
													 makeString("batch_timestamp")),
										  0, NULL, false);

	for (int i = 0; i < plan->nstages; i++)
		plan->stages[i].segment = (Query *) set_clock((Node *) plan->stages[i].segment, &function);
	for (int i = 0; i < plan->noperators; i++)
		if (plan->operators[i]->join != NULL)
			plan->operators[i]->join->condition =
				(List *) set_clock((Node *) plan->operators[i]->join->condition, &function);
	plan->touched = (Query *) set_clock((Node *) plan->touched, &function);
}
