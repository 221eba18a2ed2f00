/*
 * batch_join.c
 *		What a join of two streams means in SQL.
 *
 *	 pairs		SELECT * FROM left, right WHERE keys are equal AND condition
 *	 a row without one comes out, where its side is preserved, once it goes
 *
 * Each stored row has its place behind it, so that it is known which ones have a
 * pair; and the pairs have both.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "exec/batch_meaning.h"
#include "exec/range_end.h"
#include "state/state_store.h"
#include "time/watermark.h"

static TupleDesc
join_describe(const SxPlanOperator *op, SxAnswerInput *input)
{
	return sx_answer_widen(op->join->sides[input->number].row, "place", INT8OID);
}

static void
join_take(SxAnswerInput *input)
{
	int			natts = input->op->join->sides[input->number].row->natts;

	input->values[natts] = Int64GetDatum(input->nrows);
	input->nulls[natts] = false;
	sx_answer_store(input);
}

/* Of the left side the variables are OUTER_VAR, of the right one INNER_VAR. */
static bool
rebase_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;

		if (var->varno == OUTER_VAR)
			var->varno = 1;
		else if (var->varno == INNER_VAR)
			var->varno = 2;
		return false;
	}
	return expression_tree_walker(node, rebase_walker, context);
}

static List *
pair_quals(const SxPlanJoin *join, const SxAnswerInput *inputs)
{
	List	   *quals = (List *) copyObject(join->condition);

	rebase_walker((Node *) quals, NULL);
	for (int i = 0; i < join->sides[0].nkeys; i++)
	{
		const SxPlanKey *left = &join->sides[0].keys[i];
		Var		   *a = sx_answer_column(inputs[0].desc, 1, left->input);
		Var		   *b = sx_answer_column(inputs[1].desc, 2, join->sides[1].keys[i].input);

		quals = lappend(quals, make_opclause(left->eq_operator, BOOLOID, false, (Expr *) a, (Expr *) b,
											 InvalidOid, left->collation));
	}
	for (int s = 0; s < 2; s++)
		if (join->sides[s].filter != 0)
			quals = lappend(quals, sx_answer_column(inputs[s].desc, s + 1, join->sides[s].filter));
	return quals;
}

/* Left columns, right columns, both places. */
static Query *
pairs_query(const SxPlanJoin *join, const SxAnswerInput *inputs)
{
	Query	   *query = makeNode(Query);
	List	   *from = NIL;

	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	for (int s = 0; s < 2; s++)
	{
		RangeTblRef *ref = makeNode(RangeTblRef);

		ref->rtindex = s + 1;
		from = lappend(from, ref);
		query->rtable = lappend(query->rtable, sx_answer_entry(&inputs[s]));
		for (int i = 1; i < inputs[s].desc->natts; i++)
			sx_answer_select(query, (Expr *) sx_answer_column(inputs[s].desc, s + 1, i));
	}
	for (int s = 0; s < 2; s++)
		sx_answer_select(query, (Expr *) sx_answer_column(inputs[s].desc, s + 1, inputs[s].desc->natts));
	query->jointree = makeFromExpr(from, (Node *) make_ands_explicit(pair_quals(join, inputs)));
	return query;
}

typedef struct JoinRows
{
	const SxAnswer *answer;
	const SxPlanOperator *op;
	Tuplestorestate *out;
	Bitmapset  *matched[2];		/* places */
} JoinRows;

static bool
gives_pairs(const SxPlanJoin *join)
{
	return join->type != SX_JOIN_SEMI && join->type != SX_JOIN_ANTI;
}

static void
take_pairs(JoinRows *rows, Query *query)
{
	const SxPlanJoin *join = rows->op->join;
	int			natts = join->sides[0].row->natts + join->sides[1].row->natts;
	Tuplestorestate *pairs = sx_answer_run(unconstify(SxAnswer *, rows->answer), query);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(ExecTypeFromTL(query->targetList), &TTSOpsMinimalTuple);

	while (tuplestore_gettupleslot(pairs, true, false, slot))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		for (int s = 0; s < 2; s++)
			rows->matched[s] = bms_add_member(rows->matched[s], DatumGetInt64(slot->tts_values[natts + s]));
		if (gives_pairs(join))
			tuplestore_putvalues(rows->out, rows->op->output, slot->tts_values, slot->tts_isnull);
	}
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(pairs);
}

/* Will no row match it any more; or could none from the start? */
static bool
is_decided(const JoinRows *rows, int s, TupleTableSlot *slot)
{
	const SxPlanSide *side = &rows->op->join->sides[s];
	TimestampTz evict = sx_answer_evict(rows->answer, rows->op);
	int64		time;
	int64		expiry;

	if (side->filter != 0 &&
		(slot->tts_isnull[side->filter - 1] || !DatumGetBool(slot->tts_values[side->filter - 1])))
		return true;
	if (side->expiry == 0 || evict == SX_TIME_UNSET || slot->tts_isnull[side->expiry - 1])
		return false;
	if (side->expiry_is_range)
	{
		TypeCacheEntry *type = lookup_type_cache(TupleDescAttr(side->row, side->expiry - 1)->atttypid,
												 TYPECACHE_RANGE_INFO);

		if (!sx_range_end(type, slot->tts_values[side->expiry - 1], &time) || time == SX_STATE_NEVER)
			return false;
	}
	else
	{
		time = DatumGetTimestampTz(slot->tts_values[side->expiry - 1]);
		if (TIMESTAMP_NOT_FINITE(time))
			return false;
	}
	return !pg_sub_s64_overflow(time, side->bound, &expiry) && expiry <= evict;
}

static void
put_alone(JoinRows *rows, int s, TupleTableSlot *slot)
{
	const SxPlanJoin *join = rows->op->join;
	int			natts = rows->op->output->natts;
	int			first = s == 0 ? 0 : join->sides[0].row->natts;
	int			own = join->sides[s].row->natts;
	Datum	   *values = palloc0(natts * sizeof(Datum));
	bool	   *nulls = palloc(natts * sizeof(bool));

	memset(nulls, true, natts);
	memcpy(values + first, slot->tts_values, own * sizeof(Datum));
	memcpy(nulls + first, slot->tts_isnull, own * sizeof(bool));
	tuplestore_putvalues(rows->out, rows->op->output, values, nulls);
	pfree(values);
	pfree(nulls);
}

static void
take_alone(JoinRows *rows, int s, SxAnswerInput *input)
{
	const SxPlanJoin *join = rows->op->join;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(input->desc, &TTSOpsMinimalTuple);
	bool		semi = join->type == SX_JOIN_SEMI && s == 0;

	tuplestore_rescan(input->store);
	while (tuplestore_gettupleslot(input->store, true, false, slot))
	{
		bool		matched;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		matched = bms_is_member(DatumGetInt64(slot->tts_values[input->desc->natts - 1]), rows->matched[s]);
		if (semi ? matched : !matched && is_decided(rows, s, slot))
			put_alone(rows, s, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
}

static Tuplestorestate *
join_run(SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs)
{
	const SxPlanJoin *join = op->join;
	JoinRows	rows = {.answer = answer, .op = op};

	rows.out = tuplestore_begin_heap(false, false, work_mem);
	take_pairs(&rows, pairs_query(join, inputs));
	for (int s = 0; s < 2; s++)
		if (join->sides[s].outer || (s == 0 && !gives_pairs(join)))
			take_alone(&rows, s, &inputs[s]);
	return rows.out;
}

const SxMeaning sx_join_meaning = {
	.describe = join_describe,
	.take = join_take,
	.run = join_run,
};
