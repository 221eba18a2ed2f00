/*
 * cut_aggregate.c
 *		Takes the grouping out of a query level.
 *
 *	 SELECT lower(w), k, sum(v) FILTER (WHERE c) FROM ... WHERE ... GROUP BY w, k HAVING count(*) > 1
 *
 * becomes a stage that selects what the operator needs
 *
 *	 SELECT ts, k, v, c FROM ... WHERE ...
 *
 * and a query over the operator's output (keys, then aggregate results)
 *
 *	 SELECT lower(key1), key2, agg1 FROM "streamx op 0" WHERE agg2 > 1
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_agg.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/cut.h"
#include "plan/function_kind.h"
#include "row/datum_codec.h"

typedef struct AggregateCut
{
	SxCut	   *cut;
	Query	   *query;			/* becomes the upper query */
	Query	   *below;			/* becomes the stage */
	SxPlanOperator *op;
	List	   *key_exprs;		/* Node *, as they stand in query */
	List	   *aggrefs;		/* Aggref *, as they stand in query */
} AggregateCut;

/* The column of below that holds an expression; added when it is new. */
static AttrNumber
input_column(AggregateCut *ac, Node *expr)
{
	ListCell   *cell;
	TargetEntry *entry;

	if (!contain_volatile_functions(expr))
		foreach(cell, ac->below->targetList)
		{
			entry = lfirst(cell);
			if (equal(entry->expr, expr))
				return entry->resno;
		}
	entry = makeTargetEntry(copyObject((Expr *) expr), list_length(ac->below->targetList) + 1,
							psprintf("c%d", list_length(ac->below->targetList) + 1), false);
	ac->below->targetList = lappend(ac->below->targetList, entry);
	return entry->resno;
}

static void
add_key(AggregateCut *ac, Node *expr, Oid eq_operator, const char *name)
{
	SxPlanOperator *op = ac->op;
	SxPlanKey  *key;

	if (contain_volatile_functions(expr) && sx_function_kind(expr) == SX_FUNCTION_OTHER)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("grouping column \"%s\" is volatile", name),
				 errdetail("A group must be found again in every batch.")));
	op->keys = op->keys ? repalloc(op->keys, (op->nkeys + 1) * sizeof(SxPlanKey)) :
		palloc(sizeof(SxPlanKey));
	key = &op->keys[op->nkeys++];
	key->type = exprType(expr);
	key->typmod = exprTypmod(expr);
	key->collation = exprCollation(expr);
	key->eq_operator = eq_operator;
	key->name = pstrdup(name);
	key->input = input_column(ac, expr);
	ac->key_exprs = lappend(ac->key_exprs, expr);
}

/* For messages: as it is selected, else the column that it is, else its number. */
static const char *
key_name(Query *query, TargetEntry *entry, int number)
{
	Var		   *var = (Var *) entry->expr;

	if (entry->resname != NULL)
		return entry->resname;
	if (IsA(var, Var) && var->varlevelsup == 0)
		return get_rte_attribute_name(rt_fetch(var->varno, query->rtable), var->varattno);
	return psprintf("%d", number);
}

/* Does anything in below but the one entry use output column attno of subquery varno? */
typedef struct UseContext
{
	Index		varno;
	AttrNumber	attno;
	int			sublevels_up;
	int			uses;
} UseContext;

static bool
count_uses_walker(Node *node, UseContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varno == context->varno && var->varlevelsup == context->sublevels_up &&
			(var->varattno == context->attno || var->varattno == 0))
			context->uses++;
		return false;
	}
	if (IsA(node, Query))
	{
		context->sublevels_up++;
		query_tree_walker((Query *) node, count_uses_walker, context, 0);
		context->sublevels_up--;
		return false;
	}
	return expression_tree_walker(node, count_uses_walker, context);
}

static int
count_uses(Query *query, Index varno, AttrNumber attno)
{
	UseContext	context = {varno, attno, 0, 0};

	query_tree_walker(query, count_uses_walker, &context, 0);
	return context.uses;
}

/*
 * The column of a plain subquery that var stands for, if this is its only use; or
 * NULL. *below: the subquery's entry.
 */
static TargetEntry *
column_used_once(Query *query, const Var *var, RangeTblEntry **below)
{
	RangeTblEntry *rte = rt_fetch(var->varno, query->rtable);

	*below = rte;
	if (rte->rtekind != RTE_SUBQUERY || var->varlevelsup != 0 || var->varattno <= 0 ||
		rte->subquery->setOperations != NULL || rte->subquery->distinctClause != NIL ||
		count_uses(query, var->varno, var->varattno) != 1)
		return NULL;
	return get_tle_by_resno(rte->subquery->targetList, var->varattno);
}

/*
 * Where a window function of a plain subquery is only used as grouping column,
 * the subquery can hand up the time itself: FROM (SELECT tumble(ts, ...) AS w
 * FROM s) GROUP BY w. Returns the call and has the subquery select its first
 * argument instead; NULL if that isn't so.
 */
static FuncExpr *
pull_window_up(Query *query, Var *var)
{
	RangeTblEntry *rte;
	TargetEntry *entry = column_used_once(query, var, &rte);
	FuncExpr   *call = NULL;

	if (entry == NULL)
		return NULL;
	if (IsA(entry->expr, Var))
	{
		call = pull_window_up(rte->subquery, (Var *) entry->expr);
		if (call != NULL)
			((Var *) entry->expr)->vartype = TIMESTAMPTZOID;
	}
	else
	{
		SxFunctionKind kind = sx_function_kind((Node *) entry->expr);
		ListCell   *cell;
		int			sets = 0;

		if (kind != SX_FUNCTION_TUMBLE && kind != SX_FUNCTION_HOP)
			return NULL;
		foreach(cell, rte->subquery->targetList)
			sets += expression_returns_set((Node *) lfirst_node(TargetEntry, cell)->expr) ? 1 : 0;
		if (sets != 1)
			return NULL;
		call = (FuncExpr *) entry->expr;
		entry->expr = linitial(sx_function_arguments(call));
		rte->subquery->hasTargetSRFs = false;
	}
	return call;
}

static void
keep_arguments(AggregateCut *ac, SxPlanAggregate *agg)
{
	agg->strategy = SX_AGG_COLLECT;
	ac->cut->notices = lappend(ac->cut->notices,
							   psprintf("aggregate %s keeps the arguments of each group as state",
										format_procedure(agg->aggref->aggfnoid)));
}

static bool
column_used_by_aggregate(SxPlanOperator *op, AttrNumber column)
{
	for (int i = 0; i < op->naggregates; i++)
	{
		SxPlanAggregate *agg = &op->aggregates[i];

		for (int j = 0; j < agg->ninputs; j++)
			if (agg->inputs[j] == column)
				return true;
		for (int j = 0; j < agg->ndirect; j++)
			if (agg->direct[j] == column)
				return true;
		if (agg->filter == column)
			return true;
	}
	return false;
}

static void
window_of_call(SxWindow *window, FuncExpr *call)
{
	List	   *arguments = sx_function_arguments(call);

	if (sx_function_kind((Node *) call) == SX_FUNCTION_TUMBLE)
		sx_window_make(window,
					   sx_constant_interval(lsecond(arguments), call, "size"), NULL,
					   sx_constant_interval(lthird(arguments), call, "offset"));
	else
		sx_window_make(window,
					   sx_constant_interval(lsecond(arguments), call, "size"),
					   sx_constant_interval(lthird(arguments), call, "slide"),
					   sx_constant_interval(lfourth(arguments), call, "offset"));
}

/* The session() that a column is, or NULL; its first argument takes its place. */
static FuncExpr *
take_session_call(TargetEntry *entry)
{
	FuncExpr   *call;

	if (sx_function_kind((Node *) entry->expr) != SX_FUNCTION_SESSION)
		return NULL;
	call = copyObject((FuncExpr *) entry->expr);
	call->args = sx_function_arguments(call);
	if (contain_volatile_functions(lsecond(call->args)))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("the gap of session() is volatile"),
				 errdetail("A row must be found in the same session again.")));
	entry->expr = linitial(call->args);
	return call;
}

/*
 * pull_window_up for session(ts, gap): a gap that is no constant is handed up in a
 * column of its own. The result's second argument stands for the level of query.
 */
static FuncExpr *
pull_session_up(Query *query, Var *var)
{
	RangeTblEntry *rte;
	TargetEntry *entry = column_used_once(query, var, &rte);
	FuncExpr   *call;
	Node	   *gap;
	AttrNumber	column;

	if (entry == NULL)
		return NULL;
	if (IsA(entry->expr, Var))
		call = pull_session_up(rte->subquery, (Var *) entry->expr);
	else
		call = take_session_call(entry);
	if (call == NULL)
		return NULL;
	var->vartype = TIMESTAMPTZOID;
	gap = lsecond(call->args);
	if (IsA(eval_const_expressions(NULL, gap), Const))
		return call;
	column = list_length(rte->subquery->targetList) + 1;
	rte->subquery->targetList = lappend(rte->subquery->targetList,
										makeTargetEntry((Expr *) gap, column, pstrdup("gap"), false));
	rte->eref->colnames = lappend(rte->eref->colnames, makeString(pstrdup("gap")));
	lsecond(call->args) = makeVar(var->varno, column, INTERVALOID, exprTypmod(gap), InvalidOid, 0);
	return call;
}

static int
count_set_returning(Query *query)
{
	int			count = 0;
	ListCell   *cell;

	foreach(cell, query->targetList)
		count += expression_returns_set((Node *) lfirst_node(TargetEntry, cell)->expr) ? 1 : 0;
	return count;
}

/*
 * The session() that a key is, here or in a subquery; its first argument takes
 * the place of the key's column. NULL: it is none.
 */
static FuncExpr *
session_of_key(AggregateCut *ac, int key)
{
	AttrNumber	column = ac->op->keys[key].input;
	TargetEntry *entry = list_nth(ac->below->targetList, column - 1);

	if (column_used_by_aggregate(ac->op, column))
		return NULL;
	if (IsA(entry->expr, Var))
		return pull_session_up(ac->below, (Var *) entry->expr);
	return take_session_call(entry);
}

/*
 * The operator becomes one that merges sessions. Aggregates must be able to make
 * one value of two: those that can't keep their arguments.
 */
static void
merge_sessions(AggregateCut *ac, FuncExpr *call)
{
	SxPlanOperator *op = ac->op;
	Node	   *gap = eval_const_expressions(NULL, lsecond(call->args));

	op->kind = SX_OPERATOR_SESSION;
	op->spark_name = "sessionWindowStateStoreSaveExec";
	if (IsA(gap, Const))
	{
		op->gap = sx_window_gap(sx_constant_interval(gap, call, "gap"));
		if (op->gap <= 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the gap of session() must be greater than zero")));
	}
	else
		op->gap_input = input_column(ac, gap);
	for (int i = 0; i < op->naggregates; i++)
		if (!op->aggregates[i].combines && op->aggregates[i].strategy != SX_AGG_COLLECT)
			keep_arguments(ac, &op->aggregates[i]);
}

/*
 * The one key that is a window, or else the event time itself. The operator
 * assigns windows itself where it can: integers instead of ranges for each row.
 */
static void
find_time_key(AggregateCut *ac)
{
	SxPlanOperator *op = ac->op;
	bool		lone_set = count_set_returning(ac->below) == 1;

	for (int i = 0; i < op->nkeys; i++)
	{
		TargetEntry *entry = list_nth(ac->below->targetList, op->keys[i].input - 1);
		SxFunctionKind kind = sx_function_kind((Node *) entry->expr);
		SxTrace		trace = sx_trace(ac->cut, ac->below, (Node *) entry->expr);
		FuncExpr   *call = NULL;

		if (op->time_key >= 0)
		{
			if (trace == SX_TRACE_NONE && kind != SX_FUNCTION_TUMBLE && kind != SX_FUNCTION_HOP &&
				session_of_key(ac, i) == NULL)
				continue;
			if (op->key_time == SX_KEY_TIME_RAW && trace == SX_TRACE_TIME)
				continue;		/* both times must pass; the first decides */
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("more than one event time among the grouping columns"),
					 errdetail("Columns \"%s\" and \"%s\" would both decide when a group is final.",
							   op->keys[op->time_key].name, op->keys[i].name),
					 errhint("Group by one of them; bounds of its window can be selected with lower() and upper().")));
		}
		if ((kind == SX_FUNCTION_TUMBLE || kind == SX_FUNCTION_HOP) && lone_set)
		{
			call = (FuncExpr *) entry->expr;
			window_of_call(&op->window, call);
			entry->expr = linitial(sx_function_arguments(call));
		}
		else if ((call = session_of_key(ac, i)) != NULL)
			merge_sessions(ac, call);
		else if (IsA(entry->expr, Var) && !column_used_by_aggregate(op, op->keys[i].input))
		{
			call = pull_window_up(ac->below, (Var *) entry->expr);
			if (call != NULL)
			{
				window_of_call(&op->window, call);
				((Var *) entry->expr)->vartype = TIMESTAMPTZOID;
			}
		}
		if (call == NULL && trace == SX_TRACE_NONE)
			continue;
		op->time_key = i;
		op->watermarked = trace != SX_TRACE_NONE && ac->cut->mode != SX_OUTPUT_COMPLETE;
		op->key_time = op->kind == SX_OPERATOR_SESSION ? SX_KEY_TIME_SESSION :
			call != NULL ? SX_KEY_TIME_WINDOW :
			trace == SX_TRACE_RANGE ? SX_KEY_TIME_RANGE : SX_KEY_TIME_RAW;
	}
}

/*
 * Sliding windows are kept as panes where a window's result can be combined from
 * them, and where equal keys are equal bytes: else the key that stands for a
 * group would be that of its oldest pane, not that of its first row.
 */
static bool
can_keep_panes(const SxPlanOperator *op)
{
	if (op->key_time != SX_KEY_TIME_WINDOW || op->window.slide == op->window.size)
		return false;
	for (int i = 0; i < op->nkeys; i++)
		if (i != op->time_key && !sx_type_is_bytewise(op->keys[i].type, op->keys[i].collation))
			return false;
	for (int i = 0; i < op->naggregates; i++)
		if (!op->aggregates[i].combines)
			return false;
	return true;
}

/* Also sets aggtranstype, which the planner would do for an ordinary Agg node. */
static SxAggStrategy
aggregate_strategy(Aggref *aggref, bool *combines)
{
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Form_pg_aggregate form;
	SxAggStrategy strategy;
	Oid			types[FUNC_MAX_ARGS];
	int			ntypes = get_aggregate_argtypes(aggref, types);

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggref->aggfnoid);
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	aggref->aggtranstype = resolve_aggregate_transtype(aggref->aggfnoid, form->aggtranstype,
													   types, ntypes);
	if (aggref->aggdistinct != NIL || aggref->aggorder != NIL || aggref->aggkind != AGGKIND_NORMAL)
		strategy = SX_AGG_COLLECT;
	else if (form->aggtranstype != INTERNALOID)
		strategy = SX_AGG_TRANSITION;
	else if (OidIsValid(form->aggserialfn) && OidIsValid(form->aggdeserialfn) &&
			 OidIsValid(form->aggcombinefn) &&
			 aggref->aggfnoid != F_ARRAY_AGG_ANYNONARRAY && aggref->aggfnoid != F_ARRAY_AGG_ANYARRAY &&
			 aggref->aggfnoid != F_STRING_AGG_TEXT_TEXT && aggref->aggfnoid != F_STRING_AGG_BYTEA_BYTEA)
		strategy = SX_AGG_SERIALIZE;
	else
		strategy = SX_AGG_COLLECT;	/* array_agg and string_agg have no serial
									 * functions before 16: one layout for all */
	*combines = strategy != SX_AGG_COLLECT && OidIsValid(form->aggcombinefn);
	ReleaseSysCache(tuple);
	return strategy;
}

static void
add_aggregate(AggregateCut *ac, Aggref *aggref)
{
	SxPlanOperator *op = ac->op;
	SxPlanAggregate *agg;
	ListCell   *cell;
	int			i = 0;

	op->aggregates = op->aggregates ?
		repalloc(op->aggregates, (op->naggregates + 1) * sizeof(SxPlanAggregate)) :
		palloc(sizeof(SxPlanAggregate));
	agg = &op->aggregates[op->naggregates++];
	memset(agg, 0, sizeof(*agg));
	agg->aggref = copyObject(aggref);
	agg->strategy = aggregate_strategy(agg->aggref, &agg->combines);
	agg->ninputs = list_length(aggref->args);
	agg->inputs = palloc0(sizeof(AttrNumber) * (agg->ninputs + 1));
	foreach(cell, agg->aggref->args)
	{
		TargetEntry *entry = lfirst(cell);

		agg->inputs[i] = input_column(ac, (Node *) entry->expr);
		entry->expr = (Expr *) makeVar(OUTER_VAR, agg->inputs[i], exprType((Node *) entry->expr),
									   exprTypmod((Node *) entry->expr),
									   exprCollation((Node *) entry->expr), 0);
		i++;
	}
	agg->ndirect = list_length(aggref->aggdirectargs);
	agg->direct = palloc0(sizeof(AttrNumber) * (agg->ndirect + 1));
	i = 0;
	foreach(cell, agg->aggref->aggdirectargs)
	{
		Node	   *expr = lfirst(cell);

		agg->direct[i] = input_column(ac, expr);
		lfirst(cell) = makeVar(OUTER_VAR, agg->direct[i], exprType(expr), exprTypmod(expr),
							   exprCollation(expr), 0);
		i++;
	}
	if (aggref->aggfilter != NULL)
	{
		agg->filter = input_column(ac, (Node *) aggref->aggfilter);
		agg->aggref->aggfilter = (Expr *) makeVar(OUTER_VAR, agg->filter, BOOLOID, -1, InvalidOid, 0);
	}
	ac->aggrefs = lappend(ac->aggrefs, aggref);
	if (agg->strategy == SX_AGG_COLLECT)
		keep_arguments(ac, agg);
}

/* All aggregates of the level, those under sublinks included. */
static bool
collect_aggrefs_walker(Node *node, void *arg)
{
	AggregateCut *ac = arg;

	if (node == NULL)
		return false;
	if (IsA(node, Aggref))
	{
		Aggref	   *aggref = (Aggref *) node;

		if (aggref->agglevelsup == 0 && !list_member(ac->aggrefs, aggref))
			add_aggregate(ac, aggref);
		return false;
	}
	if (IsA(node, GroupingFunc))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("GROUPING() is not supported over a stream")));
	if (IsA(node, Query))
	{
		if (contain_aggs_of_level(node, 1))
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("a subquery in an expression uses an aggregate of the outer query"),
					 errhint("Aggregate in a subquery of FROM first, then use the result.")));
		return false;
	}
	return expression_tree_walker(node, collect_aggrefs_walker, arg);
}

/* Keys and aggregates become columns of the operator's output. */
typedef struct ReplaceContext
{
	AggregateCut *ac;
	int			sublevels_up;
} ReplaceContext;

static Node *
output_var(AggregateCut *ac, int column, int sublevels_up)
{
	Form_pg_attribute attr = TupleDescAttr(ac->op->output, column);

	return (Node *) makeVar(1, column + 1, attr->atttypid, attr->atttypmod,
							attr->attcollation, sublevels_up);
}

static bool
equal_at_level(Node *node, Node *expr, int sublevels_up)
{
	Node	   *shifted;

	if (sublevels_up == 0)
		return equal(node, expr);
	shifted = copyObject(expr);
	IncrementVarSublevelsUp(shifted, sublevels_up, 0);
	return equal(node, shifted);
}

static Node *
replace_mutator(Node *node, ReplaceContext *context)
{
	AggregateCut *ac = context->ac;
	ListCell   *cell;

	if (node == NULL)
		return NULL;
	foreach(cell, ac->key_exprs)
		if (equal_at_level(node, lfirst(cell), context->sublevels_up))
			return output_var(ac, foreach_current_index(cell), context->sublevels_up);
	if (IsA(node, Aggref) && ((Aggref *) node)->agglevelsup == context->sublevels_up)
	{
		foreach(cell, ac->aggrefs)
			if (equal(node, lfirst(cell)))
				return output_var(ac, ac->op->nkeys + foreach_current_index(cell),
								  context->sublevels_up);
		elog(ERROR, "aggregate not found in its operator");
	}
	if (IsA(node, Query))
	{
		Query	   *result;

		context->sublevels_up++;
		result = query_tree_mutator((Query *) node, replace_mutator, context, 0);
		context->sublevels_up--;
		return (Node *) result;
	}
	return expression_tree_mutator(node, replace_mutator, context);
}

/*
 * GROUP BY a primary key lets other columns of its table through: they join the
 * key. Collects Vars of the level that no key or aggregate covers.
 */
static bool
ungrouped_walker(Node *node, ReplaceContext *context)
{
	AggregateCut *ac = context->ac;
	ListCell   *cell;

	if (node == NULL)
		return false;
	foreach(cell, ac->key_exprs)
		if (equal_at_level(node, lfirst(cell), context->sublevels_up))
			return false;
	if (IsA(node, Aggref))
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varlevelsup == context->sublevels_up)
		{
			Var		   *key = copyObject(var);
			Oid			eq;

			key->varlevelsup = 0;
			get_sort_group_operators(var->vartype, false, true, false, NULL, &eq, NULL, NULL);
			add_key(ac, (Node *) key, eq,
					get_rte_attribute_name(rt_fetch(var->varno, ac->query->rtable), var->varattno));
		}
		return false;
	}
	if (IsA(node, Query))
	{
		context->sublevels_up++;
		query_tree_walker((Query *) node, ungrouped_walker, context, 0);
		context->sublevels_up--;
		return false;
	}
	return expression_tree_walker(node, ungrouped_walker, context);
}

static void
describe_output(AggregateCut *ac)
{
	SxPlanOperator *op = ac->op;

	op->input = ExecTypeFromTL(ac->below->targetList);
	op->output = CreateTemplateTupleDesc(op->nkeys + op->naggregates);
	for (int i = 0; i < op->nkeys; i++)
	{
		TupleDescInitEntry(op->output, i + 1, psprintf("key%d", i + 1),
						   op->keys[i].type, op->keys[i].typmod, 0);
		TupleDescInitEntryCollation(op->output, i + 1, op->keys[i].collation);
	}
	for (int i = 0; i < op->naggregates; i++)
	{
		Aggref	   *aggref = op->aggregates[i].aggref;

		TupleDescInitEntry(op->output, op->nkeys + i + 1, psprintf("agg%d", i + 1),
						   aggref->aggtype, -1, 0);
		TupleDescInitEntryCollation(op->output, op->nkeys + i + 1, aggref->aggcollid);
	}
}

static Query *
make_below(Query *query)
{
	Query	   *below = copyObject(query);

	below->targetList = NIL;
	below->groupClause = NIL;
	below->groupingSets = NIL;
	below->havingQual = NULL;
	below->hasAggs = false;
	below->windowClause = NIL;
	below->hasWindowFuncs = false;
	below->distinctClause = NIL;
	below->hasDistinctOn = false;
	below->sortClause = NIL;
	below->limitCount = NULL;
	below->limitOffset = NULL;
	below->constraintDeps = NIL;
	return below;
}

static void
check_mode(AggregateCut *ac)
{
	if (ac->cut->mode != SX_OUTPUT_APPEND || ac->op->watermarked)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_SX_OUTPUT_MODE),
			 errmsg("output mode \"append\" needs a watermarked event time among the grouping columns"),
			 errdetail("Without it no group is ever final, so no row could be appended."),
			 errhint("Group by tumble(ts, size), hop(ts, size, slide) or session(ts, gap) of a column with a watermark, or use output mode \"update\".")));
}

void
sx_cut_aggregate(SxCut *cut, Query *query)
{
	AggregateCut ac = {cut, query};
	ReplaceContext replace = {&ac, 0};
	ListCell   *cell;

	if (query->groupingSets != NIL)
		sx_law_check(cut, query);	/* says why */
	sx_query_flatten_groups(query);
	query->targetList = (List *) sx_flatten_join_aliases(query, (Node *) query->targetList);
	query->havingQual = sx_flatten_join_aliases(query, query->havingQual);
	ac.op = sx_cut_new_operator(cut, SX_OPERATOR_AGGREGATE, "stateStoreSave");
	ac.below = make_below(query);
	sx_cut_subqueries(cut, ac.below);
	sx_law_check(cut, ac.below);

	foreach(cell, query->groupClause)
	{
		SortGroupClause *clause = lfirst(cell);
		TargetEntry *entry = get_sortgroupclause_tle(clause, query->targetList);

		if (!list_member(ac.key_exprs, entry->expr))
			add_key(&ac, (Node *) entry->expr, clause->eqop,
					key_name(query, entry, ac.op->nkeys + 1));
	}
	collect_aggrefs_walker((Node *) query->targetList, &ac);
	collect_aggrefs_walker(query->havingQual, &ac);
	ungrouped_walker((Node *) query->targetList, &replace);
	ungrouped_walker(query->havingQual, &replace);
	find_time_key(&ac);
	ac.op->panes = can_keep_panes(ac.op);
	check_mode(&ac);
	ac.below->hasTargetSRFs = expression_returns_set((Node *) ac.below->targetList);
	ac.below->hasSubLinks = checkExprHasSubLink((Node *) ac.below);
	describe_output(&ac);
	sx_cut_add_stage(cut, ac.below, ac.op);

	query->targetList = (List *) replace_mutator((Node *) query->targetList, &replace);
	sx_cut_read_operator(query, ac.op, replace_mutator(query->havingQual, &replace));
}
