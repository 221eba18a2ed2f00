/*
 * cut_distinct.c
 *		Takes DISTINCT, DISTINCT ON and UNION out of a query level.
 *
 *	 SELECT DISTINCT ON (k) v FROM s
 *
 * becomes a stage that selects the columns, the keys and the event time
 *
 *	 SELECT v, k, ts FROM s
 *
 * and a query over the rows that the operator lets through. Rows are judged late
 * by the event time whether or not the query selects it (D2).
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"

#include "base/errors.h"
#include "plan/cut.h"
#include "plan/event_column.h"
#include "plan/function_kind.h"

static void
add_key(SxPlanOperator *op, TargetEntry *entry, Oid eq_operator)
{
	SxPlanKey  *key;

	if (contain_volatile_functions((Node *) entry->expr))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("a column of DISTINCT is volatile"),
				 errdetail("A key must be found again in every batch.")));
	op->keys = op->keys ? repalloc(op->keys, (op->nkeys + 1) * sizeof(SxPlanKey)) :
		palloc(sizeof(SxPlanKey));
	key = &op->keys[op->nkeys++];
	key->input = entry->resno;
	key->type = exprType((Node *) entry->expr);
	key->typmod = exprTypmod((Node *) entry->expr);
	key->collation = exprCollation((Node *) entry->expr);
	key->eq_operator = eq_operator;
	key->name = pstrdup(entry->resname ? entry->resname : psprintf("%d", op->nkeys));
}

/* The marker of DISTINCT ON (within_watermark(a, b)), or NULL. */
static FuncExpr *
within_call(Query *query)
{
	FuncExpr   *call = NULL;
	ListCell   *cell;

	foreach(cell, query->distinctClause)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), query->targetList);

		if (sx_function_kind((Node *) entry->expr) != SX_FUNCTION_WITHIN_WATERMARK)
			continue;
		if (!entry->resjunk || list_length(query->distinctClause) != 1)
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("within_watermark() must be all of DISTINCT ON, and not be selected"),
					 errhint("Write SELECT DISTINCT ON (within_watermark(a, b)) a, b, c FROM ...")));
		call = (FuncExpr *) entry->expr;
	}
	return call;
}

/* The marker's arguments become columns, the marker goes. */
static void
keys_within(SxPlanOperator *op, Query *below, FuncExpr *call)
{
	List	   *kept = NIL;
	ListCell   *cell;

	foreach(cell, below->targetList)
		if (!lfirst_node(TargetEntry, cell)->resjunk)
			kept = lappend(kept, lfirst(cell));
	below->targetList = kept;
	foreach(cell, call->args)
	{
		Expr	   *argument = lfirst(cell);
		TargetEntry *entry = tlist_member(argument, below->targetList);
		Oid			eq;

		if (entry == NULL)
		{
			entry = makeTargetEntry(copyObject(argument), list_length(below->targetList) + 1,
									NULL, false);
			below->targetList = lappend(below->targetList, entry);
		}
		get_sort_group_operators(exprType((Node *) argument), false, true, false, NULL, &eq, NULL, NULL);
		add_key(op, entry, eq);
	}
}

static void
keys_of_clause(SxPlanOperator *op, Query *below, List *clause)
{
	ListCell   *cell;

	foreach(cell, clause)
	{
		TargetEntry *entry = get_sortgroupclause_tle(lfirst(cell), below->targetList);

		entry->resjunk = false;
		add_key(op, entry, lfirst_node(SortGroupClause, cell)->eqop);
	}
}

/* UNION: every column is a key. */
static void
keys_of_union(SxPlanOperator *op, Query *below, List *clauses)
{
	ListCell   *entry;
	ListCell   *clause;

	forboth(entry, below->targetList, clause, clauses)
		add_key(op, lfirst(entry), lfirst_node(SortGroupClause, clause)->eqop);
}

/* Under a UNION that removes duplicates no other need do so. */
static void
keep_all(Node *node)
{
	SetOperationStmt *set = (SetOperationStmt *) node;

	if (!IsA(node, SetOperationStmt) || set->op != SETOP_UNION)
		return;
	set->all = true;
	keep_all(set->larg);
	keep_all(set->rarg);
}

/* A stage has the columns that are selected, so those that are only grouped by are selected, too. */
static void
select_all(Query *below)
{
	ListCell   *cell;

	foreach(cell, below->targetList)
	{
		TargetEntry *entry = lfirst(cell);

		entry->resjunk = false;
		if (entry->resname == NULL)
			entry->resname = psprintf("c%d", entry->resno);
	}
}

/*
 * Which column decides who is late, and which key, if one does, when an entry may
 * go: the event time itself or a window over it.
 */
static void
find_event_time(SxCut *cut, SxPlanOperator *op, Query *below)
{
	SxTrace		trace = SX_TRACE_NONE;

	for (int i = 0; i < op->nkeys && op->time_key < 0; i++)
	{
		trace = sx_trace_column(cut, below, op->keys[i].input);
		if (trace != SX_TRACE_NONE)
			op->time_key = i;
	}
	if (op->time_key >= 0)
	{
		op->event_input = op->keys[op->time_key].input;
		op->key_time = trace == SX_TRACE_TIME ? SX_KEY_TIME_RAW : SX_KEY_TIME_RANGE;
	}
	else
		op->event_input = sx_event_column_add(cut, below);
	if (op->event_input == 0)
		return;
	cut->traced_delay = 0;
	op->event_is_range = sx_trace_column(cut, below, op->event_input) == SX_TRACE_RANGE;
	op->event_delay = cut->traced_delay;
	op->watermarked = true;
}

void
sx_cut_distinct(SxCut *cut, Query *query)
{
	Query	   *below = copyObject(query);
	FuncExpr   *within = within_call(below);
	SetOperationStmt *set = (SetOperationStmt *) below->setOperations;
	SxPlanOperator *op = sx_cut_new_operator(cut, SX_OPERATOR_DEDUP,
											 within ? "dedupeWithinWatermark" : "dedupe");

	op->within_watermark = within != NULL;
	if (query->sortClause != NIL)
		sx_law_check(cut, query);	/* says why */
	below->distinctClause = NIL;
	below->hasDistinctOn = false;
	if (query->distinctClause == NIL)
		keep_all((Node *) set);
	sx_cut_query(cut, below);

	if (within != NULL)
		keys_within(op, below, within_call(query));
	else if (query->distinctClause != NIL)
		keys_of_clause(op, below, query->distinctClause);
	else
		keys_of_union(op, below, set->groupClauses);
	select_all(below);
	find_event_time(cut, op, below);
	if (within != NULL && !op->watermarked)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("within_watermark() needs an event time with a watermark"),
				 errdetail("A key is forgotten when the watermark has passed its first row by the watermark's delay."),
				 errhint("Add a watermark to the stream, or use DISTINCT ON without within_watermark().")));
	op->input = ExecTypeFromTL(below->targetList);
	op->output = op->input;
	sx_cut_add_stage(cut, below, op);
	sx_cut_read_rows(query, op);
}
