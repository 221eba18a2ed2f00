/*
 * batch_answer.c
 *		The plan once more, without its operators.
 *
 * Segments run over all rows at once. In the place of an operator stands what it
 * means in SQL, run by PostgreSQL's executor:
 *
 *	 aggregate		SELECT keys, aggregates FROM input WHERE it is final GROUP BY keys
 *	 session		the same over merged windows (batch_session.c)
 *	 join			SELECT * FROM left JOIN right, an unmatched row once it goes (batch_join.c)
 *	 deduplication	SELECT DISTINCT ON (keys) * FROM input ORDER BY keys, row
 *
 * So the answer knows of no state, no batches and no operator's code; what it has
 * in common with the query are the cut and the segments. In append mode only groups
 * that the watermark has passed are final.
 *
 * An operator of another kind gets its meaning by a line in meanings[].
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_node.h"
#include "parser/parse_oper.h"
#include "parser/parse_relation.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/queryenvironment.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "exec/batch_answer.h"
#include "exec/batch_meaning.h"
#include "exec/operator.h"
#include "plan/function_kind.h"
#include "time/marker.h"

#define INPUT_FORMAT	"streamx input %d of op %d"
#define GUESS_ROWS		100000	/* for the planner */

/* ---- rows as they come ---- */

void
sx_answer_store(SxAnswerInput *input)
{
	tuplestore_putvalues(input->store, input->desc, input->values, input->nulls);
	input->nrows++;
}

/* A copy of the row for each window that holds its event time. */
static void
take_windows(SxAnswerInput *input)
{
	const SxPlanOperator *op = input->op;
	int			time = op->keys[op->time_key].input - 1;
	TimestampTz ts = DatumGetTimestampTz(input->values[time]);
	TimestampTz start;

	if (input->nulls[time] || !sx_window_any(&op->window, ts))
		return;
	for (start = sx_window_last_start(&op->window, ts); start + op->window.size > ts;
		 start -= op->window.slide)
	{
		RangeBound	lower = {TimestampTzGetDatum(start), false, true, true};
		RangeBound	upper = {TimestampTzGetDatum(start + op->window.size), false, false, false};

		CHECK_FOR_INTERRUPTS();
		input->values[time] = RangeTypePGetDatum(sx_make_range(input->window, &lower, &upper));
		sx_answer_store(input);
	}
}

static void
aggregate_take(SxAnswerInput *input)
{
	if (input->op->key_time == SX_KEY_TIME_WINDOW)
		take_windows(input);
	else
		sx_answer_store(input);
}

TupleDesc
sx_answer_widen(TupleDesc desc, const char *name, Oid type)
{
	TupleDesc	result = CreateTemplateTupleDesc(desc->natts + 1);

	for (int i = 1; i <= desc->natts; i++)
		TupleDescCopyEntry(result, i, desc, i);
	TupleDescInitEntry(result, desc->natts + 1, name, type, -1, 0);
	return result;
}

static TupleDesc
aggregate_describe(const SxPlanOperator *op, SxAnswerInput *input)
{
	TupleDesc	desc = CreateTupleDescCopy(op->input);
	const SxPlanKey *key;

	if (op->key_time != SX_KEY_TIME_WINDOW)
		return desc;
	key = &op->keys[op->time_key];
	input->window = lookup_type_cache(key->type, TYPECACHE_RANGE_INFO);
	TupleDescInitEntry(desc, key->input, "window", key->type, key->typmod, 0);
	return desc;
}

/* With its place behind it, so that the first row of a key is known. */
static void
dedup_take(SxAnswerInput *input)
{
	int			natts = input->op->input->natts;

	input->values[natts] = Int64GetDatum(input->nrows);
	input->nulls[natts] = false;
	sx_answer_store(input);
}

static TupleDesc
dedup_describe(const SxPlanOperator *op, SxAnswerInput *input)
{
	return sx_answer_widen(op->input, "place", INT8OID);
}

/* ---- queries over what was stored ---- */

Var *
sx_answer_column(TupleDesc desc, Index varno, AttrNumber column)
{
	Form_pg_attribute att = TupleDescAttr(desc, column - 1);

	return makeVar(varno, column, att->atttypid, att->atttypmod, att->attcollation, 0);
}

char *
sx_answer_name(const SxAnswerInput *input)
{
	return psprintf(INPUT_FORMAT, input->number, input->op->id);
}

RangeTblEntry *
sx_answer_entry(const SxAnswerInput *input)
{
	ParseState *parse = make_parsestate(NULL);
	char	   *name = sx_answer_name(input);

	parse->p_queryEnv = create_queryEnv();
	sx_segment_name_rows(parse->p_queryEnv, name, input->desc, NULL, GUESS_ROWS);
	return addRangeTableEntryForENR(parse, makeRangeVar(NULL, name, -1), true)->p_rte;
}

/* SELECT ... FROM rte */
static Query *
query_over(RangeTblEntry *rte)
{
	Query	   *query = makeNode(Query);
	RangeTblRef *ref = makeNode(RangeTblRef);

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->rtable = list_make1(rte);
	ref->rtindex = 1;
	query->jointree = makeFromExpr(list_make1(ref), NULL);
	return query;
}

void
sx_answer_select(Query *query, Expr *expr)
{
	AttrNumber	resno = list_length(query->targetList) + 1;

	query->targetList = lappend(query->targetList,
								makeTargetEntry(expr, resno, psprintf("c%d", resno), false));
}

/* An entry of GROUP BY, DISTINCT or ORDER BY. */
static SortGroupClause *
clause_of(Query *query, AttrNumber resno)
{
	TargetEntry *entry = list_nth(query->targetList, resno - 1);
	SortGroupClause *clause = makeNode(SortGroupClause);

	entry->ressortgroupref = resno;
	clause->tleSortGroupRef = resno;
	get_sort_group_operators(exprType((Node *) entry->expr), false, true, false,
							 &clause->sortop, &clause->eqop, NULL, &clause->hashable);
	return clause;
}

static Node *
call(Oid function, Oid type, Node *a, Node *b)
{
	return (Node *) makeFuncExpr(function, type, b != NULL ? list_make2(a, b) : list_make1(a),
								 InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}

TimestampTz
sx_answer_evict(const SxAnswer *answer, const SxPlanOperator *op)
{
	return answer->evict == SX_TIME_UNSET ? SX_TIME_UNSET : answer->evict - op->lag;
}

static Node *
not_null(Var *var)
{
	NullTest   *test = makeNode(NullTest);

	test->arg = (Expr *) var;
	test->nulltesttype = IS_NOT_NULL;
	test->location = -1;
	return (Node *) test;
}

/*
 * Which rows are of groups that are in the result: in append mode those that the
 * watermark has passed; a row in no window is in no group.
 */
static Node *
final_rows(const SxAnswer *answer, const SxPlanOperator *op, TupleDesc desc)
{
	bool		range = op->key_time != SX_KEY_TIME_RAW;
	List	   *quals = NIL;
	Var		   *time;
	Node	   *end;

	if (op->time_key < 0)
		return NULL;
	time = sx_answer_column(desc, 1, op->keys[op->time_key].input);
	if (range)
		quals = lappend(quals, not_null(time));
	if (answer->plan->mode == SX_OUTPUT_APPEND && op->watermarked)
	{
		end = range ? call(F_UPPER_ANYRANGE, TIMESTAMPTZOID, copyObject((Node *) time), NULL) :
			copyObject((Node *) time);
		if (!range)				/* a group at the end of time is never final */
			quals = lappend(quals, call(F_ISFINITE_TIMESTAMPTZ, BOOLOID, copyObject((Node *) time), NULL));
		quals = lappend(quals, call(F_TIMESTAMPTZ_LE, BOOLOID, end,
									(Node *) makeConst(TIMESTAMPTZOID, -1, InvalidOid, sizeof(TimestampTz),
													   TimestampTzGetDatum(sx_answer_evict(answer, op)), false, true)));
	}
	return quals != NIL ? (Node *) make_ands_explicit(quals) : NULL;
}

/* Variables over the operator's input become variables over the stored one. */
static bool
rebase_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var) && ((Var *) node)->varno == OUTER_VAR)
		((Var *) node)->varno = 1;
	return expression_tree_walker(node, rebase_walker, context);
}

Query *
sx_answer_aggregate(const SxAnswer *answer, const SxPlanOperator *op, RangeTblEntry *rte,
					TupleDesc desc)
{
	Query	   *query = query_over(rte);

	query->jointree->quals = final_rows(answer, op, desc);
	for (int i = 0; i < op->nkeys; i++)
		sx_answer_select(query, (Expr *) sx_answer_column(desc, 1, op->keys[i].input));
	for (int i = 0; i < op->naggregates; i++)
	{
		Aggref	   *aggref = copyObject(op->aggregates[i].aggref);

		rebase_walker((Node *) aggref, NULL);
		aggref->aggtranstype = InvalidOid;
		sx_answer_select(query, (Expr *) aggref);
	}
	for (int i = 0; i < op->nkeys; i++)
		query->groupClause = lappend(query->groupClause, clause_of(query, i + 1));
	query->hasAggs = op->naggregates > 0;
	return query;
}

static Query *
aggregate_query(SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs)
{
	return sx_answer_aggregate(answer, op, sx_answer_entry(&inputs[0]), inputs[0].desc);
}

static Query *
dedup_query(SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs)
{
	Query	   *query = query_over(sx_answer_entry(&inputs[0]));
	int			natts = op->input->natts;

	for (int i = 1; i <= natts + 1; i++)
		sx_answer_select(query, (Expr *) sx_answer_column(inputs[0].desc, 1, i));
	llast_node(TargetEntry, query->targetList)->resjunk = true;
	for (int i = 0; i < op->nkeys; i++)
		query->distinctClause = lappend(query->distinctClause, clause_of(query, op->keys[i].input));
	query->hasDistinctOn = true;
	query->sortClause = lappend(list_copy(query->distinctClause), clause_of(query, natts + 1));
	return query;
}

static const char *
dedup_unknown(const SxPlanOperator *op)
{
	return op->within_watermark ?
		"within_watermark() forgets keys: which rows pass depends on when they came" : NULL;
}

static const char *
dedup_caveat(const SxPlanOperator *op)
{
	return op->nkeys < op->output->natts ?
		"DISTINCT ON keeps the first row of each key, and which one came first is not recorded" : NULL;
}

static const char *
limit_unknown(const SxPlanOperator *op)
{
	return "LIMIT lets through the rows that come first, and which ones did is not recorded";
}

static const SxMeaning aggregate_meaning = {
	.describe = aggregate_describe, .take = aggregate_take, .query = aggregate_query,
};

static const SxMeaning dedup_meaning = {
	.describe = dedup_describe, .take = dedup_take, .query = dedup_query,
	.unknown = dedup_unknown, .caveat = dedup_caveat,
};

static const SxMeaning limit_meaning = {.unknown = limit_unknown};

static const SxMeaning *const meanings[] = {
	[SX_OPERATOR_AGGREGATE] = &aggregate_meaning,
	[SX_OPERATOR_SESSION] = &sx_session_meaning,
	[SX_OPERATOR_DEDUP] = &dedup_meaning,
	[SX_OPERATOR_JOIN] = &sx_join_meaning,
	[SX_OPERATOR_LIMIT] = &limit_meaning,
};

/* NULL: it has none. */
static const SxMeaning *
meaning_of(const SxPlanOperator *op)
{
	return op->kind < lengthof(meanings) ? meanings[op->kind] : NULL;
}

/* An SxSegmentReceive. */
static bool
receive(void *arg, TupleTableSlot *slot)
{
	SxAnswerInput *input = arg;
	int			natts = slot->tts_tupleDescriptor->natts;
	MemoryContext oldcontext;

	CHECK_FOR_INTERRUPTS();
	if (input->op == NULL)
	{
		tuplestore_puttupleslot(input->store, slot);
		return true;
	}
	slot_getallattrs(slot);
	memcpy(input->values, slot->tts_values, natts * sizeof(Datum));
	memcpy(input->nulls, slot->tts_isnull, natts * sizeof(bool));
	oldcontext = MemoryContextSwitchTo(input->scratch);
	meaning_of(input->op)->take(input);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(input->scratch);
	return true;
}

/* ---- what can't be said ---- */

/* Functions whose values are those of the moment at which a row was processed. */
static bool
is_of_the_moment(Oid function, void *context)
{
	return function == F_NOW || function == F_TRANSACTION_TIMESTAMP ||
		function == F_STATEMENT_TIMESTAMP || func_volatile(function) == PROVOLATILE_VOLATILE;
}

static bool
moment_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, SQLValueFunction) &&
		((SQLValueFunction *) node)->op <= SVFOP_LOCALTIMESTAMP_N)
		return true;
	if (sx_function_kind(node) == SX_FUNCTION_OBSERVE)
		return expression_tree_walker(node, moment_walker, context);
	if (check_functions_in_node(node, is_of_the_moment, NULL))
		return true;
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, moment_walker, context, 0);
	return expression_tree_walker(node, moment_walker, context);
}

List *
sx_batch_answer_unknown(const SxPlan *plan)
{
	List	   *reasons = NIL;

	for (int i = 0; i < plan->noperators; i++)
	{
		const SxPlanOperator *op = plan->operators[i];
		const SxMeaning *meaning = meaning_of(op);
		const char *reason = NULL;

		if (meaning == NULL)
			reason = psprintf("operator %d (%s) has no meaning as a batch", op->id,
							  sx_operator_routine(op->kind)->name);
		else if (meaning->unknown != NULL)
			reason = meaning->unknown(op);
		if (reason != NULL)
			reasons = lappend(reasons, unconstify(char *, reason));
	}
	for (int i = 0; i < plan->nstages; i++)
		if (moment_walker((Node *) plan->stages[i].segment, NULL))
		{
			reasons = lappend(reasons, "it uses a volatile function or the time at which a batch ran");
			break;
		}
	return reasons;
}

static bool
table_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
		return ((RangeTblEntry *) node)->rtekind == RTE_RELATION &&
			!sx_relation_is_stream(((RangeTblEntry *) node)->relid);
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, table_walker, context, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, table_walker, context);
}

List *
sx_batch_answer_caveats(const SxPlan *plan)
{
	List	   *caveats = NIL;

	for (int i = 0; i < plan->noperators; i++)
	{
		const SxMeaning *meaning = meaning_of(plan->operators[i]);
		const char *caveat = meaning != NULL && meaning->caveat != NULL ?
			meaning->caveat(plan->operators[i]) : NULL;

		if (caveat != NULL)
			caveats = lappend(caveats, unconstify(char *, caveat));
	}
	for (int i = 0; i < plan->nstages; i++)
		if (table_walker((Node *) plan->stages[i].segment, NULL))
		{
			caveats = lappend(caveats, "ordinary tables are read as they are now, not as they were when their rows were joined");
			break;
		}
	return caveats;
}

/* ---- all of it ---- */

static void
run_query(SxAnswer *answer, Query *query, SxAnswerInput *input)
{
	SxSegment  *segment = sx_segment_make(query, NULL, NULL);

	input->store = tuplestore_begin_heap(false, false, work_mem);
	(void) sx_segment_run(segment, answer->env, GUESS_ROWS, receive, input);
}

Tuplestorestate *
sx_answer_run(SxAnswer *answer, Query *query)
{
	SxAnswerInput rows = {0};

	run_query(answer, query, &rows);
	return rows.store;
}

static void
run_operator(SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs)
{
	const SxMeaning *meaning = meaning_of(op);
	Tuplestorestate *output;

	for (int i = 0; i < op->ninputs; i++)
		sx_segment_name_rows(answer->env, psprintf(INPUT_FORMAT, i, op->id), inputs[i].desc, inputs[i].store,
							 inputs[i].nrows);
	output = meaning->run != NULL ? meaning->run(answer, op, inputs) :
		sx_answer_run(answer, meaning->query(answer, op, inputs));
	for (int i = 0; i < op->ninputs; i++)
	{
		unregister_ENR(answer->env, psprintf(INPUT_FORMAT, i, op->id));
		tuplestore_end(inputs[i].store);
	}
	sx_segment_name_rows(answer->env, psprintf(SX_OP_ENR_FORMAT, op->id), op->output, output, GUESS_ROWS);
}

static Tuplestorestate *
run_stages(SxAnswer *answer)
{
	const SxPlan *plan = answer->plan;
	SxAnswerInput *inputs = NULL;

	for (int i = 0;; i++)
	{
		const SxPlanStage *stage = &plan->stages[i];
		SxAnswerInput *input;

		if (stage->op == NULL)
			return sx_answer_run(answer, stage->segment);
		if (stage->input == 0)
			inputs = palloc0(sizeof(SxAnswerInput) * stage->op->ninputs);
		input = &inputs[stage->input];
		input->op = stage->op;
		input->number = stage->input;
		input->desc = meaning_of(stage->op)->describe(stage->op, input);
		input->values = palloc0(sizeof(Datum) * (input->desc->natts + 1));
		input->nulls = palloc0(sizeof(bool) * (input->desc->natts + 1));
		input->scratch = AllocSetContextCreate(CurrentMemoryContext, "streamx row", ALLOCSET_SMALL_SIZES);
		run_query(answer, stage->segment, input);
		if (stage->input == stage->op->ninputs - 1)
			run_operator(answer, stage->op, inputs);
	}
}

Tuplestorestate *
sx_batch_answer(const SxPlan *plan, SxBatchSources *sources, TimestampTz evict)
{
	SxAnswer	answer = {.plan = plan, .evict = evict, .env = create_queryEnv()};
	int			nmarkers = plan->nwatermarks - plan->first_marker;
	SxWatermarkInput *markers = palloc0(sizeof(SxWatermarkInput) * Max(nmarkers, 1));
	Tuplestorestate *result = NULL;

	sx_segment_name_rows(answer.env, SX_BATCH_ENR, CreateTemplateTupleDesc(0), sources, 0);
	sx_markers_begin(markers, nmarkers, DT_NOEND);
	PG_TRY();
	{
		result = run_stages(&answer);
	}
	PG_FINALLY();
	{
		sx_markers_end();
	}
	PG_END_TRY();
	return result;
}
