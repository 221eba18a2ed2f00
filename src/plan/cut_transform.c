/*
 * cut_transform.c
 *		Takes transform_with_state() out of the FROM clause of a query level.
 *
 *	 SELECT s.k, r.n FROM s CROSS JOIN LATERAL transform_with_state('h', s.k, s, NULL::o) r
 *	 WHERE s.v > 0 AND r.n > 1
 *
 * becomes a stage that selects the key, the row and the event time
 *
 *	 SELECT s.k, s, s.ts FROM s WHERE s.v > 0
 *
 * and a query over the operator's rows: the key, then the columns of its output.
 * A handler's rows belong to a key, not to a row of s; so besides them only the
 * key can be used above.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_oper.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/cut.h"
#include "plan/event_column.h"
#include "plan/function_kind.h"
#include "plan/isolate.h"
#include "plan/transform_arguments.h"

#define KEY_COLUMN		1
#define ROW_COLUMN		2

/* ---- where the call stands ---- */

static bool
is_transform(const Node *node)
{
	switch (sx_function_kind(node))
	{
		case SX_FUNCTION_TRANSFORM:
		case SX_FUNCTION_MAP_GROUPS:
		case SX_FUNCTION_FLAT_MAP_GROUPS:
			return true;
		default:
			return false;
	}
}

static bool
entry_transforms(const RangeTblEntry *rte)
{
	ListCell   *cell;

	if (rte->rtekind != RTE_FUNCTION)
		return false;
	foreach(cell, rte->functions)
		if (is_transform(lfirst_node(RangeTblFunction, cell)->funcexpr))
			return true;
	return false;
}

bool
sx_has_transform(const Query *query)
{
	ListCell   *cell;

	foreach(cell, query->rtable)
		if (entry_transforms(lfirst(cell)))
			return true;
	return false;
}

static void
refuse_place(const char *detail)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_NOT_STREAMABLE),
			 errmsg("transform_with_state() cannot stand here"),
			 errdetail("%s", detail),
			 errhint("Write SELECT r.* FROM s CROSS JOIN LATERAL transform_with_state('handler', s.key, s, NULL::output) AS r, and put that into a subquery where more is to be done with it.")));
}

void
sx_refuse_transform(const Node *node)
{
	if (is_transform(node))
		refuse_place("It is a function of the FROM clause, beside the stream whose rows it takes.");
}

static int
find_entry(Query *query, FuncExpr **call)
{
	int			found = 0;
	ListCell   *cell;

	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (!entry_transforms(rte))
			continue;
		if (found != 0)
			refuse_place("There are two in one FROM clause.");
		if (list_length(rte->functions) != 1 || rte->funcordinality)
			refuse_place("It is combined with other functions or with WITH ORDINALITY.");
		found = foreach_current_index(cell) + 1;
		*call = (FuncExpr *) linitial_node(RangeTblFunction, rte->functions)->funcexpr;
	}
	return found;
}

static bool
stands_in(Node *node, int rtindex)
{
	if (IsA(node, RangeTblRef))
		return ((RangeTblRef *) node)->rtindex == rtindex;
	if (IsA(node, JoinExpr))
		return stands_in(((JoinExpr *) node)->larg, rtindex) ||
			stands_in(((JoinExpr *) node)->rarg, rtindex);
	return false;
}

static void
blank_entry(Query *query, int rtindex)
{
	RangeTblEntry *blank = makeNode(RangeTblEntry);

	blank->rtekind = RTE_RESULT;
	blank->eref = makeAlias("*RESULT*", NIL);
	list_nth_cell(query->rtable, rtindex - 1)->ptr_value = blank;
}

/* Takes the entry out of FROM; what an inner join asks for becomes a condition of WHERE. */
static void
remove_from(Query *query, int rtindex)
{
	FromExpr   *from = query->jointree;
	ListCell   *cell;

	foreach(cell, from->fromlist)
	{
		Node	   *node = lfirst(cell);
		JoinExpr   *join = (JoinExpr *) node;

		if (!stands_in(node, rtindex))
			continue;
		if (IsA(node, RangeTblRef))
		{
			from->fromlist = foreach_delete_current(from->fromlist, cell);
			return;
		}
		if (join->jointype != JOIN_INNER || !IsA(join->rarg, RangeTblRef) || stands_in(join->larg, rtindex))
			refuse_place(join->jointype != JOIN_INNER ? "It is part of an outer join." :
						 "A join stands above it in the same FROM clause.");
		from->quals = make_and_qual(from->quals, join->quals);
		lfirst(cell) = join->larg;
		blank_entry(query, join->rtindex);
		return;
	}
	elog(ERROR, "entry %d is not in the FROM clause", rtindex);
}

/* ---- above the operator ---- */

typedef struct ReplaceContext
{
	int			rtindex;		/* of the call */
	Node	   *key;
	SxPlanOperator *op;
	RangeTblEntry *entry;
	const Query *query;
	int			sublevels_up;
} ReplaceContext;

static Var *
output_column(const ReplaceContext *context, AttrNumber column)
{
	Form_pg_attribute att = TupleDescAttr(context->op->output, column - 1);

	return makeVar(1, column, att->atttypid, att->atttypmod, att->attcollation,
				   context->sublevels_up);
}

/* r as a whole */
static Node *
output_row(const ReplaceContext *context, const Var *var)
{
	const SxPlanTransform *transform = context->op->transform;
	RowExpr    *row = makeNode(RowExpr);

	for (int i = 0; i < transform->natts; i++)
	{
		if (transform->columns[i] == 0)
			row->args = lappend(row->args, makeNullConst(INT4OID, -1, InvalidOid));
		else
			row->args = lappend(row->args, output_column(context, transform->columns[i]));
	}
	row->row_typeid = transform->output_type;
	row->row_format = COERCE_IMPLICIT_CAST;
	row->location = -1;
	return (Node *) row;
}

static void
refuse_column(const ReplaceContext *context, const Var *var)
{
	RangeTblEntry *rte = rt_fetch(var->varno, context->query->rtable);

	ereport(ERROR,
			(errcode(ERRCODE_SX_NOT_STREAMABLE),
			 errmsg("\"%s\" is used above the handler with state",
					var->varattno > 0 ? get_rte_attribute_name(rte, var->varattno) : rte->eref->aliasname),
			 errdetail("A handler's rows belong to a key, not to a row; besides its output only the key can be used."),
			 errhint("Let the handler return it.")));
}

static Node *
replace_mutator(Node *node, ReplaceContext *context)
{
	if (node == NULL)
		return NULL;
	if (equal(node, context->key))
		return (Node *) output_column(context, KEY_COLUMN);
	if (IsA(node, Var) && ((Var *) node)->varlevelsup == context->sublevels_up)
	{
		Var		   *var = (Var *) node;

		if (var->varno != context->rtindex)
			refuse_column(context, var);
		if (var->varattno == 0)
			return output_row(context, var);
		return (Node *) output_column(context, context->op->transform->columns[var->varattno - 1]);
	}
	if (IsA(node, Query))
	{
		Node	   *key = context->key;
		Node	   *result;

		context->key = copyObject(key);
		IncrementVarSublevelsUp(context->key, 1, context->sublevels_up);
		context->sublevels_up++;
		result = (Node *) query_tree_mutator((Query *) node, replace_mutator, context, 0);
		context->sublevels_up--;
		context->key = key;
		return result;
	}
	return expression_tree_mutator(node, replace_mutator, context);
}

/* ---- the operator ---- */

static void
describe_key(SxPlanOperator *op, Node *key, const Query *query)
{
	SxPlanKey  *plan = palloc0(sizeof(SxPlanKey));

	if (contain_volatile_functions(key))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("the key of a handler with state is volatile"),
				 errdetail("A key must be found again in every batch.")));
	plan->input = KEY_COLUMN;
	plan->type = exprType(key);
	plan->typmod = exprTypmod(key);
	plan->collation = exprCollation(key);
	plan->name = "key";
	if (IsA(key, Var) && ((Var *) key)->varattno > 0 && ((Var *) key)->varlevelsup == 0)
		plan->name = pstrdup(get_rte_attribute_name(rt_fetch(((Var *) key)->varno, query->rtable),
													((Var *) key)->varattno));
	get_sort_group_operators(plan->type, false, true, false, NULL, &plan->eq_operator, NULL, NULL);
	op->nkeys = 1;
	op->keys = plan;
}

static void
describe_output(SxPlanOperator *op, const SxTransformArguments *arguments, const FuncExpr *call)
{
	SxPlanTransform *transform = op->transform;
	TupleDesc	desc = arguments->output_desc;
	AttrNumber	column = KEY_COLUMN;

	op->output = CreateTemplateTupleDesc(1 + transform->natts);
	TupleDescInitEntry(op->output, KEY_COLUMN, op->keys->name, op->keys->type, op->keys->typmod, 0);
	TupleDescInitEntryCollation(op->output, KEY_COLUMN, op->keys->collation);
	transform->columns = palloc0(sizeof(AttrNumber) * (transform->natts + 1));
	if (transform->output_scalar)
	{
		transform->columns[0] = ++column;
		TupleDescInitEntry(op->output, column, "value", transform->output_type, -1, 0);
		TupleDescInitEntryCollation(op->output, column, call->funccollid);
	}
	for (int i = 0; desc != NULL && i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			continue;
		transform->columns[i] = ++column;
		TupleDescInitEntry(op->output, column, NameStr(att->attname), att->atttypid, att->atttypmod,
						   att->attndims);
		TupleDescInitEntryCollation(op->output, column, att->attcollation);
		if (arguments->event_time_column != NULL &&
			strcmp(arguments->event_time_column, NameStr(att->attname)) == 0 &&
			att->atttypid == TIMESTAMPTZOID)
			transform->event_output = column;
	}
	op->output->natts = column;
	if (arguments->event_time_column != NULL && transform->event_output == 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("the handler's output has no column \"%s\" of type timestamp with time zone",
						arguments->event_time_column),
				 errdetail("\"event_time_column\" names the one that is its event time.")));
}

/* As Spark has it (semantics 10, 11, 13). */
static void
check_mode(const SxCut *cut, const SxPlanOperator *op)
{
	const SxPlanTransform *transform = op->transform;
	const char *name = transform->single ? "map_groups_with_state" :
		transform->groups ? "flat_map_groups_with_state" : "transform_with_state";
	ListCell   *cell;

	if (cut->mode == SX_OUTPUT_COMPLETE || (transform->single && cut->mode != SX_OUTPUT_UPDATE))
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("%s() is not supported in output mode \"%s\"", name, sx_output_mode_name(cut->mode)),
				 errhint("Use output mode %s.", transform->single ? "\"update\"" : "\"append\" or \"update\"")));
	if (transform->event_output != 0 && transform->time_mode == SX_TIME_MODE_PROCESSING)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("\"event_time_column\" does not go with time mode \"processing\""),
				 errdetail("No watermark passes a handler that goes by processing time.")));
	foreach(cell, cut->operators)
	{
		const SxPlanOperator *other = lfirst(cell);

		if (other == op)
			continue;
		if (transform->groups && other->transform != NULL && other->transform->groups &&
			(cut->mode != SX_OUTPUT_APPEND || transform->single != other->transform->single))
			ereport(ERROR,
					(errcode(ERRCODE_SX_OUTPUT_MODE),
					 errmsg("several %s() in one query are not supported in output mode \"%s\"", name,
							sx_output_mode_name(cut->mode)),
					 errhint("Use transform_with_state(), or output mode \"append\".")));
		if (transform->groups && transform->time_mode == SX_TIME_MODE_EVENT && other->id < op->id &&
			other->kind != SX_OPERATOR_LIMIT)
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("%s() with an event-time timeout below another stateful operator", name),
					 errdetail("No watermark passes it."),
					 errhint("Use transform_with_state() with event_time_column.")));
	}
}

/* Rows are judged by the event time of what the level reads (semantics 3.3). */
static void
find_event_time(SxCut *cut, SxPlanOperator *op, Query *below)
{
	const SxPlanTransform *transform = op->transform;

	if (transform->time_mode != SX_TIME_MODE_EVENT && transform->event_output == 0)
		return;
	op->event_input = sx_event_column_add(cut, below);
	if (op->event_input == 0)
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("a handler that goes by event time needs a watermark"),
				 errdetail("Its timers fire when the watermark has come to them."),
				 errhint("Add a watermark to the stream, or use time mode \"processing\" or \"none\".")));
	cut->traced_delay = 0;
	op->event_is_range = sx_trace_column(cut, below, op->event_input) == SX_TRACE_RANGE;
	op->event_delay = cut->traced_delay;
	op->watermarked = transform->time_mode == SX_TIME_MODE_EVENT;
}

/* What the level reads: everything but the call, and the conditions that don't need it. */
static Query *
make_below(Query *query, int rtindex, const SxTransformArguments *arguments, List **above)
{
	Query	   *below = copyObject(query);
	List	   *quals = NIL;
	ListCell   *cell;

	foreach(cell, sx_conjuncts(query->jointree->quals))
	{
		if (bms_is_member(rtindex, pull_varnos(NULL, lfirst(cell))))
			*above = lappend(*above, lfirst(cell));
		else
			quals = lappend(quals, copyObject(lfirst(cell)));
	}
	below->jointree->quals = quals == NIL ? NULL : (Node *) make_ands_explicit(quals);
	blank_entry(below, rtindex);
	below->targetList =
		list_make2(makeTargetEntry((Expr *) copyObject(arguments->key), KEY_COLUMN, pstrdup("key"), false),
				   makeTargetEntry((Expr *) copyObject(arguments->row), ROW_COLUMN, pstrdup("row"), false));
	below->sortClause = NIL;
	below->windowClause = NIL;
	below->hasWindowFuncs = false;
	below->limitCount = NULL;
	below->limitOffset = NULL;
	below->constraintDeps = NIL;
	below->hasTargetSRFs = false;
	return below;
}

static void
flatten_aliases(Query *query)
{
	ListCell   *cell;

	query->targetList = (List *) sx_flatten_join_aliases(query, (Node *) query->targetList);
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_FUNCTION)
			rte->functions = (List *) sx_flatten_join_aliases(query, (Node *) rte->functions);
	}
	query->jointree = (FromExpr *) sx_flatten_join_aliases(query, (Node *) query->jointree);
}

void
sx_cut_transform(SxCut *cut, Query *query)
{
	SxPlanOperator *op;
	SxTransformArguments *arguments;
	FuncExpr   *call = NULL;
	List	   *above = NIL;
	Query	   *below;
	ReplaceContext replace = {0};

	flatten_aliases(query);
	replace.rtindex = find_entry(query, &call);
	arguments = sx_transform_arguments(call);
	op = sx_cut_new_operator(cut, SX_OPERATOR_TRANSFORM,
							 arguments->transform->groups ? "flatMapGroupsWithState" : "transformWithStateExec");
	op->transform = arguments->transform;
	describe_key(op, arguments->key, query);
	describe_output(op, arguments, call);
	check_mode(cut, op);

	remove_from(query, replace.rtindex);
	below = make_below(query, replace.rtindex, arguments, &above);
	if (!sx_flows(cut, (Node *) below))
		refuse_place("What it takes its rows from is no stream.");
	sx_cut_query(cut, below);
	find_event_time(cut, op, below);
	below->hasSubLinks = checkExprHasSubLink((Node *) below);
	op->input = ExecTypeFromTL(below->targetList);
	sx_cut_add_stage(cut, below, op);

	replace.key = arguments->key;
	replace.op = op;
	replace.query = query;
	replace.entry = rt_fetch(replace.rtindex, query->rtable);
	query->targetList = (List *) replace_mutator((Node *) query->targetList, &replace);
	above = (List *) replace_mutator((Node *) above, &replace);
	sx_cut_read_operator(query, op, above == NIL ? NULL : (Node *) make_ands_explicit(above));
}
