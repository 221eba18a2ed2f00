/*
 * trace.c
 *		Follows an expression down to the column that gives it its event time.
 *
 * The mark survives renaming, subqueries, UNION ALL of marked columns and the
 * outputs of operators; any computation on the column loses it (semantics 3.5).
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parsetree.h"

#include "plan/cut.h"
#include "plan/function_kind.h"
#include "source/source.h"

SxPlanOperator *
sx_operator_of_rte(SxCut *cut, const RangeTblEntry *rte)
{
	int			id;

	if (rte->rtekind != RTE_NAMEDTUPLESTORE ||
		sscanf(rte->enrname, SX_OP_ENR_FORMAT, &id) != 1 ||
		id < 0 || id >= list_length(cut->operators))
		return NULL;
	return list_nth(cut->operators, id);
}

/* All branches must agree. */
static SxTrace
trace_set_operation(SxCut *cut, Query *query, Node *node, AttrNumber column)
{
	SxTrace		left,
				right;

	if (IsA(node, RangeTblRef))
	{
		return sx_trace_column(cut, rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable)->subquery,
							   column);
	}
	left = trace_set_operation(cut, query, ((SetOperationStmt *) node)->larg, column);
	right = trace_set_operation(cut, query, ((SetOperationStmt *) node)->rarg, column);
	return left == right ? left : SX_TRACE_NONE;
}

AttrNumber
sx_operator_event_column(const SxPlanOperator *op)
{
	if (op->kind == SX_OPERATOR_JOIN)
		return sx_join_event_column(op);
	if (op->transform != NULL)
		return op->transform->event_output;
	if (op->kind == SX_OPERATOR_LIMIT)
		return op->event_input;
	if (!op->watermarked)
		return 0;
	return op->kind == SX_OPERATOR_DEDUP ? op->event_input : op->time_key + 1;
}

static SxTrace
trace_var(SxCut *cut, Query *query, Var *var)
{
	RangeTblEntry *rte;

	if (var->varlevelsup != 0 || var->varattno <= 0)
		return SX_TRACE_NONE;
	rte = rt_fetch(var->varno, query->rtable);
	switch (rte->rtekind)
	{
		case RTE_RELATION:
			{
				AttrNumber	attnum;
				int64		delay;

				if (rte->relkind != RELKIND_FOREIGN_TABLE || !sx_relation_is_stream(rte->relid) ||
					!sx_stream_watermark(rte->relid, &attnum, &delay) || attnum != var->varattno)
					return SX_TRACE_NONE;
				cut->traced_delay = Max(cut->traced_delay, delay);
				return SX_TRACE_TIME;
			}
		case RTE_SUBQUERY:
			return sx_trace_column(cut, rte->subquery, var->varattno);
		case RTE_JOIN:
			return sx_trace(cut, query, list_nth(rte->joinaliasvars, var->varattno - 1));
		case RTE_NAMEDTUPLESTORE:
			{
				SxPlanOperator *op = sx_operator_of_rte(cut, rte);

				if (op != NULL && op->kind == SX_OPERATOR_JOIN)
				{
					cut->traced_delay = Max(cut->traced_delay, op->event_delay);
					return sx_join_trace(op, var->varattno);
				}
				if (op == NULL || var->varattno != sx_operator_event_column(op))
					return SX_TRACE_NONE;
				cut->traced_delay = Max(cut->traced_delay, op->event_delay);
				if (op->transform != NULL)
					return SX_TRACE_TIME;
				if (op->kind == SX_OPERATOR_DEDUP || op->kind == SX_OPERATOR_LIMIT)
					return op->event_is_range ? SX_TRACE_RANGE : SX_TRACE_TIME;
				return op->key_time == SX_KEY_TIME_RAW ? SX_TRACE_TIME : SX_TRACE_RANGE;
			}
		default:
			return SX_TRACE_NONE;
	}
}

SxTrace
sx_trace_column(SxCut *cut, Query *query, AttrNumber column)
{
	TargetEntry *entry;

	if (query->setOperations != NULL)
		return trace_set_operation(cut, query, query->setOperations, column);
	entry = get_tle_by_resno(query->targetList, column);
	return entry ? sx_trace(cut, query, (Node *) entry->expr) : SX_TRACE_NONE;
}

SxTrace
sx_trace(SxCut *cut, Query *query, Node *expr)
{
	check_stack_depth();
	if (expr == NULL)
		return SX_TRACE_NONE;
	if (IsA(expr, RelabelType))
		return sx_trace(cut, query, (Node *) ((RelabelType *) expr)->arg);
	if (IsA(expr, Var))
		return trace_var(cut, query, (Var *) expr);
	switch (sx_function_kind(expr))
	{
		case SX_FUNCTION_WATERMARK:
			cut->traced_delay = Max(cut->traced_delay, sx_watermark_call_delay((FuncExpr *) expr));
			return SX_TRACE_TIME;
		case SX_FUNCTION_OBSERVE:
			return SX_TRACE_TIME;
		case SX_FUNCTION_TUMBLE:
		case SX_FUNCTION_HOP:
		case SX_FUNCTION_SESSION:
			if (sx_trace(cut, query, linitial(sx_function_arguments((FuncExpr *) expr))) == SX_TRACE_TIME)
				return SX_TRACE_RANGE;
			return SX_TRACE_NONE;
		case SX_FUNCTION_WINDOW_TIME:
			if (sx_trace(cut, query, linitial(sx_function_arguments((FuncExpr *) expr))) == SX_TRACE_RANGE)
				return SX_TRACE_TIME;
			return SX_TRACE_NONE;
		default:
			return SX_TRACE_NONE;
	}
}
