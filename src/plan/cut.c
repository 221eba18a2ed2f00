/*
 * cut.c
 *		Cuts a Query at its stateful operators.
 *
 *	 cut(query):
 *		LIMIT        take the limit out: below becomes a stage, query reads the operator
 *		DISTINCT     likewise; its input is cut first
 *		aggregation  likewise
 *		else         cut the subqueries of FROM, and hold the level against the law
 *
 * Operators are numbered from the sink towards the sources, as in Spark; stages
 * are listed in the order in which they run.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "rewrite/rewriteManip.h"
#include "utils/queryenvironment.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/cut.h"
#include "plan/isolate.h"

SxPlanOperator *
sx_cut_new_operator(SxCut *cut, SxOperatorKind kind, const char *spark_name)
{
	SxPlanOperator *op = palloc0(sizeof(SxPlanOperator));

	op->id = list_length(cut->operators);
	op->kind = kind;
	op->spark_name = spark_name;
	op->time_key = -1;
	cut->operators = lappend(cut->operators, op);
	return op;
}

void
sx_cut_add_input(SxCut *cut, Query *segment, SxPlanOperator *op, TupleDesc row, Bitmapset *keys)
{
	SxPlanStage *stage = palloc0(sizeof(SxPlanStage));

	stage->segment = segment;
	stage->row = row;
	stage->keys = keys;
	stage->op = op;
	if (op != NULL)
		stage->input = op->ninputs++;
	cut->stages = lappend(cut->stages, stage);
}

void
sx_cut_add_stage(SxCut *cut, Query *segment, SxPlanOperator *op)
{
	Bitmapset  *keys = NULL;

	for (int i = 0; op != NULL && i < op->nkeys; i++)
		keys = bms_add_member(keys, op->keys[i].input);
	if (op != NULL && op->gap_input != 0)
		keys = bms_add_member(keys, op->gap_input);
	sx_cut_add_input(cut, segment, op,
					 op != NULL ? op->input : ExecCleanTypeFromTL(segment->targetList), keys);
}

RangeTblEntry *
sx_cut_operator_rte(SxPlanOperator *op)
{
	ParseState *parse = make_parsestate(NULL);
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = psprintf(SX_OP_ENR_FORMAT, op->id);
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = op->output;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = 10000;
	parse->p_queryEnv = create_queryEnv();
	register_ENR(parse->p_queryEnv, enr);
	return addRangeTableEntryForENR(parse, makeRangeVar(NULL, enr->md.name, -1), true)->p_rte;
}

void
sx_cut_read_operator(Query *query, SxPlanOperator *op, Node *quals)
{
	RangeTblRef *ref = makeNode(RangeTblRef);

	ref->rtindex = 1;
	query->rtable = list_make1(sx_cut_operator_rte(op));
	sx_query_drop_permissions(query);
	query->jointree = makeFromExpr(list_make1(ref), quals);
	query->setOperations = NULL;
	query->groupClause = NIL;
	query->groupingSets = NIL;
	query->havingQual = NULL;
	query->hasAggs = false;
	query->rowMarks = NIL;
	query->hasSubLinks = checkExprHasSubLink((Node *) query->targetList) ||
		checkExprHasSubLink(quals);
	query->hasTargetSRFs = expression_returns_set((Node *) query->targetList);
}

void
sx_cut_subqueries(SxCut *cut, Query *query)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_SUBQUERY && sx_flows(cut, (Node *) rte))
			sx_cut_query(cut, rte->subquery);
	}
}

/* Spark runs a chain of aggregations in append mode only (semantics 13). */
static void
check_chain(SxCut *cut)
{
	if (cut->mode == SX_OUTPUT_UPDATE && list_length(cut->operators) > 0)
	{
		ListCell   *cell;

		foreach(cell, cut->operators)
			if (((SxPlanOperator *) lfirst(cell))->output == NULL)
				ereport(ERROR,
						(errcode(ERRCODE_SX_OUTPUT_MODE),
						 errmsg("%s over an aggregation is not supported in output mode \"update\"",
								((SxPlanOperator *) lfirst(cell))->kind == SX_OPERATOR_DEDUP ? "DISTINCT" :
								((SxPlanOperator *) lfirst(cell))->kind == SX_OPERATOR_JOIN ? "a join of streams" :
								((SxPlanOperator *) lfirst(cell))->kind == SX_OPERATOR_TRANSFORM ? "a handler with state" :
								"an aggregation"),
						 errdetail("A changed result of the inner one would be counted again by the outer one."),
						 errhint("Use output mode \"append\".")));
	}
}

static bool
is_distinct_union(const Query *query)
{
	const SetOperationStmt *set = (const SetOperationStmt *) query->setOperations;

	return set != NULL && set->op == SETOP_UNION && !set->all;
}

void
sx_cut_query(SxCut *cut, Query *query)
{
	check_stack_depth();
	if (!sx_flows(cut, (Node *) query))
		return;
	if (cut->mode == SX_OUTPUT_COMPLETE)
	{
		/* what stands above a complete result sees all of it: nothing to cut */
		sx_cut_subqueries(cut, query);
		if (!sx_flows(cut, (Node *) query))
			return;
	}
	if (sx_has_transform(query))
	{
		if (sx_has_aggregation(query) || query->distinctClause != NIL)
			sx_isolate_from(query);
	}
	else if (sx_joins_streams(cut, query))
	{
		if (sx_has_aggregation(query) || query->distinctClause != NIL)
			sx_isolate_from(query);
		else if (query->limitCount == NULL || cut->mode != SX_OUTPUT_APPEND)
		{
			sx_cut_join(cut, query);
			sx_law_check(cut, query);
			return;
		}
	}
	if (query->limitCount != NULL && cut->mode == SX_OUTPUT_APPEND)
	{
		sx_cut_limit(cut, query);
		return;
	}
	/* above a complete result DISTINCT is ordinary SQL (D4) */
	if ((query->distinctClause != NIL || is_distinct_union(query)) &&
		!(cut->mode == SX_OUTPUT_COMPLETE && sx_has_aggregation(query)))
		sx_cut_distinct(cut, query);
	else if (sx_has_aggregation(query))
	{
		check_chain(cut);
		sx_cut_aggregate(cut, query);
	}
	else if (sx_has_transform(query))
		sx_cut_transform(cut, query);
	else
		sx_cut_subqueries(cut, query);
	sx_law_check(cut, query);
}

void
sx_cut_read_rows(Query *query, SxPlanOperator *op)
{
	ListCell   *cell;
	AttrNumber	column = 0;

	query->distinctClause = NIL;
	query->hasDistinctOn = false;
	query->sortClause = NIL;
	query->windowClause = NIL;
	query->hasWindowFuncs = false;
	foreach(cell, query->targetList)
	{
		TargetEntry *entry = lfirst(cell);

		if (entry->resjunk)
		{
			query->targetList = foreach_delete_current(query->targetList, cell);
			continue;
		}
		column++;
		entry->expr = (Expr *) makeVar(1, column, exprType((Node *) entry->expr),
									   exprTypmod((Node *) entry->expr),
									   exprCollation((Node *) entry->expr), 0);
		entry->ressortgroupref = 0;
	}
	sx_cut_read_operator(query, op, NULL);
}

/* The watermark passes LIMIT. */
static void
find_passing_time(SxCut *cut, SxPlanOperator *op, Query *below)
{
	ListCell   *cell;

	foreach(cell, below->targetList)
	{
		TargetEntry *entry = lfirst(cell);
		SxTrace		trace;

		cut->traced_delay = 0;
		if (entry->resjunk || (trace = sx_trace_column(cut, below, entry->resno)) == SX_TRACE_NONE)
			continue;
		op->event_input = entry->resno;
		op->event_is_range = trace == SX_TRACE_RANGE;
		op->event_delay = cut->traced_delay;
		return;
	}
}

/* LIMIT n: n rows over the life of the query (semantics 12). */
void
sx_cut_limit(SxCut *cut, Query *query)
{
	Query	   *below = copyObject(query);
	SxPlanOperator *op;
	Node	   *count = eval_const_expressions(NULL, query->limitCount);

	if (query->limitOffset != NULL || query->sortClause != NIL ||
		query->limitOption == LIMIT_OPTION_WITH_TIES)
		sx_law_check(cut, query);	/* says why */
	below->limitCount = NULL;
	if (!IsA(count, Const))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("LIMIT of a continuous query must be a constant")));
	if (((Const *) count)->constisnull)
	{
		query->limitCount = NULL;	/* LIMIT ALL */
		sx_cut_query(cut, query);
		return;
	}
	op = sx_cut_new_operator(cut, SX_OPERATOR_LIMIT, "globalLimit");
	op->limit = DatumGetInt64(((Const *) count)->constvalue);
	sx_cut_query(cut, below);
	find_passing_time(cut, op, below);
	op->input = ExecCleanTypeFromTL(below->targetList);
	op->output = op->input;
	sx_cut_add_stage(cut, below, op);

	query->limitCount = NULL;
	sx_cut_read_rows(query, op);
}
