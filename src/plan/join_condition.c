/*
 * join_condition.c
 *		See join_condition.h.
 *
 * A range: each comparison of times is brought into the form
 *
 *	 sign * left time - sign * right time + constant > 0 (or >=)
 *
 * whatever was moved where, so "r.ts <= l.ts + '5 s'", "r.ts - l.ts <= '5 s'" and
 * "NOT r.ts - interval '5 s' > l.ts" are one. sign 1 bounds the left time from
 * below by the right one: a left row goes when the watermark has passed that.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "catalog/pg_type.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/tlist.h"
#include "parser/parse_coerce.h"
#include "parser/parsetree.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/isolate.h"
#include "plan/join_condition.h"

#define MAX_DAYS		(10000 * 366)	/* sums of a few of them don't overflow */
#define MILLISECOND		INT64CONST(1000)
#define SHIFT_SLACK		(2 * USECS_PER_HOUR)	/* a day of a zone with summer time isn't always 24 h */

AttrNumber
sx_join_column(SxJoinSide *side, Node *expr)
{
	TargetEntry *entry = NULL;
	ListCell   *cell;

	foreach(cell, side->query->targetList)
		if (equal(lfirst_node(TargetEntry, cell)->expr, expr))
			return lfirst_node(TargetEntry, cell)->resno;
	entry = makeTargetEntry(copyObject((Expr *) expr), list_length(side->query->targetList) + 1,
							psprintf("c%d", list_length(side->query->targetList) + 1), false);
	side->query->targetList = lappend(side->query->targetList, entry);
	return entry->resno;
}

/* The equality of a type within the operator's own family: what "=" means for mixed types. */
static Oid
equality_of_type(Oid operator, Oid type)
{
	List	   *interpretations = sx_op_interpretations(operator);
	Oid			found = InvalidOid;
	ListCell   *cell;

	foreach(cell, interpretations)
	{
		SxOpInterpretation *interpretation = lfirst(cell);

		if (sx_op_strategy(interpretation) == BTEqualStrategyNumber && !OidIsValid(found))
			found = get_opfamily_member(interpretation->opfamily_id, type, type, BTEqualStrategyNumber);
	}
	return found;
}

/* Both expressions as one type, with its own "="; false if there is none. */
static bool
common_type(OpExpr *op, Node **left, Node **right, Oid *equality)
{
	Oid			ltype = exprType(*left);
	Oid			rtype = exprType(*right);
	Oid			types[2] = {rtype, ltype};

	if (ltype == rtype)
	{
		*equality = op->opno;
		return true;
	}
	for (int i = 0; i < 2; i++)
	{
		Oid			type = types[i];
		Node	   *l,
				   *r;

		*equality = equality_of_type(op->opno, type);
		if (!OidIsValid(*equality) || !can_coerce_type(1, &ltype, &type, COERCION_IMPLICIT) ||
			!can_coerce_type(1, &rtype, &type, COERCION_IMPLICIT))
			continue;
		l = coerce_to_target_type(NULL, copyObject(*left), ltype, type, -1, COERCION_IMPLICIT,
								  COERCE_IMPLICIT_CAST, -1);
		r = coerce_to_target_type(NULL, copyObject(*right), rtype, type, -1, COERCION_IMPLICIT,
								  COERCE_IMPLICIT_CAST, -1);
		if (l == NULL || r == NULL || contain_volatile_functions(l) || contain_volatile_functions(r))
			continue;
		*left = l;
		*right = r;
		return true;
	}
	return false;
}

/* For messages. */
static char *
key_name(SxJoinSide *side, AttrNumber column)
{
	TargetEntry *entry = get_tle_by_resno(side->query->targetList, column);
	Var		   *var = (Var *) entry->expr;

	if (IsA(var, Var) && var->varattno > 0)
		return pstrdup(get_rte_attribute_name(rt_fetch(var->varno, side->query->rtable), var->varattno));
	return pstrdup(entry->resname);
}

static void
add_key(SxJoinSide *side, Node *expr, Oid equality, Oid collation)
{
	SxPlanSide *plan = side->plan;
	SxPlanKey  *key;

	plan->keys = plan->keys ? repalloc(plan->keys, (plan->nkeys + 1) * sizeof(SxPlanKey)) :
		palloc(sizeof(SxPlanKey));
	key = &plan->keys[plan->nkeys++];
	key->input = sx_join_column(side, expr);
	key->type = exprType(expr);
	key->typmod = -1;
	key->collation = collation;
	key->eq_operator = equality;
	key->name = key_name(side, key->input);
}

/* An equality of one side's expression with the other's. */
static bool
take_key(SxJoinSide *sides, Node *conjunct)
{
	OpExpr	   *op = (OpExpr *) conjunct;
	Node	   *exprs[2];
	Bitmapset  *used[2];
	Oid			equality;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2 || contain_volatile_functions(conjunct) ||
		!(op_mergejoinable(op->opno, exprType(linitial(op->args))) ||
		  op_hashjoinable(op->opno, exprType(linitial(op->args)))))
		return false;
	for (int i = 0; i < 2; i++)
	{
		exprs[i] = list_nth(op->args, i);
		used[i] = pull_varnos(NULL, exprs[i]);
		if (bms_is_empty(used[i]))
			return false;
	}
	if (bms_is_subset(used[0], sides[1].varnos) && bms_is_subset(used[1], sides[0].varnos))
	{
		Node	   *first = exprs[0];

		exprs[0] = exprs[1];
		exprs[1] = first;
	}
	else if (!bms_is_subset(used[0], sides[0].varnos) || !bms_is_subset(used[1], sides[1].varnos))
		return false;
	if (!common_type(op, &exprs[0], &exprs[1], &equality))
		return false;
	for (int s = 0; s < 2; s++)
		add_key(&sides[s], exprs[s], equality, op->inputcollid);
	return true;
}

void
sx_join_find_keys(SxJoinSide *sides, List **conjuncts)
{
	ListCell   *cell;

	foreach(cell, *conjuncts)
		if (take_key(sides, lfirst(cell)))
			*conjuncts = foreach_delete_current(*conjuncts, cell);
	if (sides[0].plan->nkeys == 0)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("a join of two streams needs an equality between them"),
				 errdetail("Rows of one stream are found by the values that the other's are equal to."),
				 errhint("Add a condition like l.key = r.key.")));
}

/* left * (time of the left side) + right * (that of the right one) + constant, microseconds */
typedef struct Linear
{
	int			signs[2];
	int64		constant;
	int64		slack;			/* the constant may be off by so much */
	AttrNumber	columns[2];
} Linear;

static bool
constant_of_interval(Const *value, Linear *result)
{
	Interval   *interval;

	if (value->constisnull || value->consttype != INTERVALOID)
		return false;
	interval = DatumGetIntervalP(value->constvalue);
	if (interval->month != 0 || interval->day < -MAX_DAYS || interval->day > MAX_DAYS ||
		interval->time / USECS_PER_DAY < -MAX_DAYS || interval->time / USECS_PER_DAY > MAX_DAYS)
		return false;
	result->constant = interval->time + interval->day * USECS_PER_DAY;
	result->slack = interval->day != 0 ? SHIFT_SLACK : 0;
	return true;
}

static bool
linear_of_var(SxCut *cut, SxJoinSide *sides, Node *expr, Linear *result)
{
	for (int s = 0; s < 2; s++)
	{
		if (!bms_is_subset(pull_varnos(NULL, expr), sides[s].varnos))
			continue;
		if (sx_trace(cut, sides[s].query, expr) != SX_TRACE_TIME || exprType(expr) != TIMESTAMPTZOID)
			return false;
		result->signs[s] = 1;
		result->columns[s] = sx_join_column(&sides[s], expr);
		return true;
	}
	return false;
}

static bool
combine(Linear *result, const Linear *a, const Linear *b, int sign)
{
	for (int s = 0; s < 2; s++)
	{
		if (a->columns[s] != 0 && b->columns[s] != 0 && a->columns[s] != b->columns[s])
			return false;
		result->columns[s] = a->columns[s] != 0 ? a->columns[s] : b->columns[s];
		result->signs[s] = a->signs[s] + sign * b->signs[s];
	}
	result->constant = a->constant + sign * b->constant;
	result->slack = a->slack + b->slack;
	return true;
}

/* Sums and differences of times and intervals. */
static bool
linear_of(SxCut *cut, SxJoinSide *sides, Node *expr, Linear *result)
{
	OpExpr	   *op = (OpExpr *) expr;
	Linear		a,
				b;
	int			sign = 1;

	memset(result, 0, sizeof(*result));
	if (IsA(expr, Const))
		return constant_of_interval((Const *) expr, result);
	if (linear_of_var(cut, sides, expr, result))
		return true;
	if (!IsA(expr, OpExpr))
		return false;
	switch (op->opfuncid != InvalidOid ? op->opfuncid : get_opcode(op->opno))
	{
		case F_TIMESTAMPTZ_PL_INTERVAL:
		case F_INTERVAL_PL_TIMESTAMPTZ:
		case F_INTERVAL_PL:
			break;
		case F_TIMESTAMPTZ_MI_INTERVAL:
		case F_TIMESTAMPTZ_MI:
		case F_INTERVAL_MI:
			sign = -1;
			break;
		case F_INTERVAL_UM:
			if (!linear_of(cut, sides, linitial(op->args), &b))
				return false;
			memset(&a, 0, sizeof(a));
			return combine(result, &a, &b, -1);
		default:
			return false;
	}
	return linear_of(cut, sides, linitial(op->args), &a) &&
		linear_of(cut, sides, lsecond(op->args), &b) &&
		combine(result, &a, &b, sign);
}

static int
comparison_of(OpExpr *op)
{
	switch (get_opcode(op->opno))
	{
		case F_TIMESTAMPTZ_LT:
		case F_INTERVAL_LT:
			return BTLessStrategyNumber;
		case F_TIMESTAMPTZ_LE:
		case F_INTERVAL_LE:
			return BTLessEqualStrategyNumber;
		case F_TIMESTAMPTZ_GT:
		case F_INTERVAL_GT:
			return BTGreaterStrategyNumber;
		case F_TIMESTAMPTZ_GE:
		case F_INTERVAL_GE:
			return BTGreaterEqualStrategyNumber;
		case F_TIMESTAMPTZ_EQ:
		case F_INTERVAL_EQ:
			return BTEqualStrategyNumber;
		default:
			return InvalidStrategy;
	}
}

/* The smallest bound counts: the state is kept the longest. */
static void
take_bound(SxJoinSide *sides, int s, const Linear *form, bool strict)
{
	SxPlanSide *plan = sides[s].plan;
	int64		bound = -form->constant - form->slack - (strict ? 0 : MILLISECOND);

	if (plan->expiry == 0 || bound < plan->bound)
	{
		plan->expiry = form->columns[s];
		plan->bound = bound;
		plan->bound_by = form->columns[1 - s];
	}
	for (int i = 0; i < 2; i++)
		if (sides[i].plan->event == 0)
			sides[i].plan->event = form->columns[i];
}

/* left < right and so on; an equality is a range of one point. False if these aren't the sides' times. */
static bool
take_range(SxCut *cut, SxJoinSide *sides, Node *left, Node *right, int strategy)
{
	bool		strict = strategy == BTLessStrategyNumber || strategy == BTGreaterStrategyNumber;
	bool		taken = false;
	Linear		a,
				b,
				form;

	if (!linear_of(cut, sides, left, &a) || !linear_of(cut, sides, right, &b))
		return false;
	for (int greater = 0; greater < 2; greater++)
	{
		if (strategy != BTEqualStrategyNumber && (strategy >= BTGreaterEqualStrategyNumber) != greater)
			continue;
		if (!combine(&form, greater ? &a : &b, greater ? &b : &a, -1))
			return false;
		for (int s = 0; s < 2; s++)
			if (form.signs[s] == 1 && form.signs[1 - s] == -1)
			{
				take_bound(sides, s, &form, strict);
				taken = true;
			}
	}
	return taken;
}

static void
look_for_range(SxCut *cut, SxJoinSide *sides, Node *conjunct)
{
	OpExpr	   *op = (OpExpr *) conjunct;
	int			strategy;

	if (!IsA(op, OpExpr) || list_length(op->args) != 2)
		return;
	strategy = comparison_of(op);
	if (strategy != InvalidStrategy)
		take_range(cut, sides, linitial(op->args), lsecond(op->args), strategy);
}

/* Such as l.ts = r.ts + '1 s': not the event time of both sides, but a range. */
static bool
is_shifted(SxCut *cut, SxJoinSide *sides, int key)
{
	Node	   *exprs[2];

	for (int s = 0; s < 2; s++)
	{
		AttrNumber	column = sides[s].plan->keys[key].input;

		exprs[s] = (Node *) get_tle_by_resno(sides[s].query->targetList, column)->expr;
		if (exprType(exprs[s]) != TIMESTAMPTZOID)
			return false;
	}
	return take_range(cut, sides, exprs[0], exprs[1], BTEqualStrategyNumber);
}

/* A key that is an event time or a window over one: both sides' rows go by it. Others may be ranges. */
static bool
expiry_by_key(SxCut *cut, SxJoinSide *sides)
{
	for (int i = 0; i < sides[0].plan->nkeys; i++)
	{
		SxTrace		traces[2];

		for (int s = 0; s < 2; s++)
			traces[s] = sx_trace_column(cut, sides[s].query, sides[s].plan->keys[i].input);
		if ((traces[0] == SX_TRACE_NONE || traces[1] == SX_TRACE_NONE) &&
			(is_shifted(cut, sides, i) || traces[0] == traces[1]))
			continue;
		for (int s = 0; s < 2; s++)
		{
			SxPlanSide *plan = sides[s].plan;

			plan->expiry = plan->keys[i].input;
			plan->expiry_is_range = (traces[0] != SX_TRACE_NONE ? traces[0] : traces[1]) == SX_TRACE_RANGE;
			plan->bound = 0;
			if (traces[s] != SX_TRACE_NONE)
				plan->event = plan->expiry;
		}
		return true;
	}
	return false;
}

void
sx_join_find_expiry(SxCut *cut, SxJoinSide *sides, SxPlanJoin *join, List *conjuncts)
{
	ListCell   *cell;

	join->expiry_in_key = expiry_by_key(cut, sides);
	if (join->expiry_in_key)
		return;
	foreach(cell, conjuncts)
	{
		/* NOT and constants are worked out; only here, the condition itself stays as it is written */
		Node	   *simple = eval_const_expressions(NULL, copyObject(lfirst(cell)));
		ListCell   *part;

		foreach(part, sx_conjuncts(simple))
			look_for_range(cut, sides, lfirst(part));
	}
}
