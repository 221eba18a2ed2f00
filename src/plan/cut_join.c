/*
 * cut_join.c
 *		Takes the joins of streams out of a query level.
 *
 *	 SELECT l.a, r.b FROM l LEFT JOIN r ON l.k = r.k AND r.ts >= l.ts AND l.c WHERE q
 *
 * becomes a stage for each side that selects what is needed of it
 *
 *	 SELECT a, k, ts, c FROM l
 *	 SELECT b, k, ts FROM r
 *
 * and a query over the operator's output
 *
 *	 SELECT a, b FROM "streamx op 0" WHERE q
 *
 * What ON asks of a preserved side alone is a column of it (c): such a row comes
 * out, and matches nothing. Otherwise it filters its side.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_relation.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/builtins.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/cut.h"
#include "plan/event_column.h"
#include "plan/isolate.h"
#include "plan/join_condition.h"
#include "plan/join_tree.h"

static Node *build(SxJoinLevel *level, SxJoinTree *tree);

bool
sx_joins_streams(SxCut *cut, Query *query)
{
	int			flows;
	ListCell   *cell;

	if (query->setOperations != NULL)
		return false;
	flows = sx_count_flows(cut, query, (Node *) query->jointree);
	if (flows == 1 && query->hasSubLinks)
		foreach(cell, sx_conjuncts(query->jointree->quals))
			if (sx_is_stream_sublink(cut, lfirst(cell)))
				flows++;
	return flows > 1;
}

AttrNumber
sx_join_event_column(const SxPlanOperator *op)
{
	const SxPlanJoin *join = op->join;
	int			nleft = join->sides[0].row->natts;

	if (join->type == SX_JOIN_RIGHT || join->sides[0].event == 0)
		return join->type == SX_JOIN_SEMI || join->type == SX_JOIN_ANTI || join->sides[1].event == 0 ? 0 :
			nleft + join->sides[1].event;
	return join->sides[0].event;
}

SxTrace
sx_join_trace(const SxPlanOperator *op, AttrNumber column)
{
	int			nleft = op->join->sides[0].row->natts;
	int			s = column > nleft ? 1 : 0;
	const SxPlanSide *side = &op->join->sides[s];

	if (side->event == 0 || column - (s == 1 ? nleft : 0) != side->event)
		return SX_TRACE_NONE;
	return side->event_is_range ? SX_TRACE_RANGE : SX_TRACE_TIME;
}

static void
check_mode(SxCut *cut, SxJoinType type)
{
	if (cut->mode == SX_OUTPUT_COMPLETE)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("a join of two streams is not supported in output mode \"complete\""),
				 errdetail("The result would be all pairs ever matched."),
				 errhint("Use output mode \"append\".")));
	if (cut->mode == SX_OUTPUT_UPDATE && type != SX_JOIN_INNER && type != SX_JOIN_SEMI)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("an outer join of two streams is not supported in output mode \"update\""),
				 errdetail("A row without a match is written once, when none can come any more."),
				 errhint("Use output mode \"append\".")));
}

/* Does an unmatched row of the side come out? */
static bool
is_outer(SxJoinType type, int s)
{
	switch (type)
	{
		case SX_JOIN_LEFT:
		case SX_JOIN_ANTI:
			return s == 0;
		case SX_JOIN_RIGHT:
			return s == 1;
		case SX_JOIN_FULL:
			return true;
		default:
			return false;
	}
}

/* What reads columns of the level: all but what is done or goes into the sides. */
static List *
readers(SxJoinLevel *level)
{
	List	   *nodes = list_make3(level->query->targetList, level->quals, level->query->jointree);
	ListCell   *cell;

	foreach(cell, level->trees)
	{
		SxJoinTree *tree = lfirst(cell);

		if (!tree->done)
			nodes = list_concat(nodes, list_make3(tree->node, tree->conjuncts, tree->where));
	}
	foreach(cell, level->query->rtable)
		nodes = list_concat(nodes, sx_lateral_parts(lfirst(cell)));
	return nodes;
}

/* The item of FROM that a side is, joins in it done. */
static Node *
side_item(SxJoinLevel *level, SxJoinTree *tree)
{
	ListCell   *cell;

	if (tree->node == NULL)
		return build(level, tree);
	foreach(cell, tree->inner)
	{
		SxJoinPlace *place = lfirst(cell);

		*place->node = build(level, place->tree);
	}
	tree->done = true;
	return tree->node;
}

/* A side is run by itself. */
static void
check_lateral(Query *query, const Bitmapset *varnos)
{
	int			varno = -1;

	while ((varno = bms_next_member(varnos, varno)) >= 0)
	{
		List	   *nodes = sx_lateral_parts(rt_fetch(varno, query->rtable));
		ListCell   *cell;

		foreach(cell, sx_vars_of_level((Node *) nodes, NULL))
			if (!bms_is_member(lfirst_node(Var, cell)->varno, varnos))
				ereport(ERROR,
						(errcode(ERRCODE_SX_NOT_STREAMABLE),
						 errmsg("a LATERAL subquery over a stream cannot use columns of another stream"),
						 errhint("Join the streams with JOIN ... ON.")));
	}
}

/* Entries that aren't the side's are blank: their streams would count twice. */
static void
make_side(SxJoinLevel *level, SxJoinSide *side, Node *item, List *reading)
{
	Query	   *query = makeNode(Query);
	Bitmapset  *others = bms_add_range(NULL, 1, list_length(level->query->rtable));
	ListCell   *cell;

	side->varnos = sx_varnos_of(item);
	check_lateral(level->query, side->varnos);
	side->columns = sx_vars_of_level((Node *) reading, side->varnos);
	query->commandType = CMD_SELECT;
	query->canSetTag = true;
	query->hasRowSecurity = level->query->hasRowSecurity;
	query->hasRecursive = level->query->hasRecursive;
	query->cteList = copyObject(level->query->cteList);
	query->rtable = copyObject(level->query->rtable);
	sx_query_move_permissions(query, copyObject(level->query));
	query->jointree = makeFromExpr(list_make1(copyObject(item)), NULL);
	sx_blank_entries(query, bms_del_members(others, side->varnos));
	foreach(cell, side->columns)
		query->targetList = lappend(query->targetList,
									makeTargetEntry(copyObject(lfirst(cell)), foreach_current_index(cell) + 1,
													psprintf("c%d", foreach_current_index(cell) + 1), false));
	side->query = query;
}

static void
refuse_subquery(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_NOT_STREAMABLE),
			 errmsg("a subquery in the condition of a join of two streams is not supported"),
			 errhint("Join the table to one of the streams in a subquery of FROM.")));
}

/* Once per pair, or once per row: SQL doesn't say how often it is asked. */
static void
refuse_volatile(List *conjuncts)
{
	if (contain_volatile_functions((Node *) conjuncts))
		ereport(ERROR,
				(errcode(ERRCODE_SX_NOT_STREAMABLE),
				 errmsg("a condition of a join of two streams is volatile"),
				 errdetail("Whether two rows match must not depend on when they are compared."),
				 errhint("Compute the value in the select list of a subquery over one of the streams.")));
}

/* What of ON and WHERE speaks of one side alone. */
typedef struct OneSided
{
	List	   *filters[2];		/* a row that fails is unmatched */
	List	   *quals[2];		/* a row that fails is of no use */
} OneSided;

/* Those leave the list. */
static void
split_conjuncts(Node **items, SxJoinType type, List **conjuncts, OneSided *result)
{
	Bitmapset  *varnos[2] = {sx_varnos_of(items[0]), sx_varnos_of(items[1])};
	ListCell   *cell;

	foreach(cell, *conjuncts)
	{
		Node	   *conjunct = lfirst(cell);
		Bitmapset  *used = pull_varnos(NULL, conjunct);

		if (checkExprHasSubLink(conjunct))
			refuse_subquery();
		for (int s = 0; s < 2; s++)
		{
			if (bms_is_empty(used) || !bms_is_subset(used, varnos[s]))
				continue;
			if (is_outer(type, s))
				result->filters[s] = lappend(result->filters[s], conjunct);
			else
				result->quals[s] = lappend(result->quals[s], conjunct);
			*conjuncts = foreach_delete_current(*conjuncts, cell);
			break;
		}
	}
	refuse_volatile(*conjuncts);
	refuse_volatile(result->filters[0]);
	refuse_volatile(result->filters[1]);
}

/* The side's own conditions, then the operators in it. */
static void
cut_side(SxCut *cut, SxJoinSide *side, List *quals, List *filters)
{
	if (quals != NIL)
		side->query->jointree->quals = (Node *) make_ands_explicit(copyObject(quals));
	if (filters != NIL)
		side->plan->filter = sx_join_column(side, (Node *) make_ands_explicit(filters));
	side->query->hasSubLinks = checkExprHasSubLink((Node *) side->query->jointree);
	sx_cut_subqueries(cut, side->query);
	sx_law_check(cut, side->query);
}

static void
find_event(SxCut *cut, SxPlanOperator *op, SxJoinSide *side)
{
	SxPlanSide *plan = side->plan;

	cut->traced_delay = 0;

	if (plan->event == 0)
		plan->event = sx_event_column_add(cut, side->query);
	if (plan->event != 0)
		plan->event_is_range = sx_trace_column(cut, side->query, plan->event) == SX_TRACE_RANGE;
	op->event_delay = Max(op->event_delay, cut->traced_delay);
}

/* For messages: the side's first stream or subquery. */
static const char *
name_of(SxJoinSide *side)
{
	int			varno = -1;

	while ((varno = bms_next_member(side->varnos, varno)) >= 0)
	{
		RangeTblEntry *rte = rt_fetch(varno, side->query->rtable);

		if (rte->rtekind != RTE_JOIN && rte->rtekind != RTE_RESULT && rte->eref != NULL)
			return rte->eref->aliasname;
	}
	return "?";
}

/*
 * A row that never matched comes out when no match can come: its side must go by
 * the watermark, and the other side's rows must be late by then.
 */
static void
check_final(SxJoinSide *sides, SxPlanJoin *join)
{
	static const char *const names[] = {"an inner join", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN",
	"EXISTS or IN", "NOT EXISTS"};

	for (int s = 0; s < 2; s++)
	{
		const SxPlanSide *other = sides[1 - s].plan;

		if (!sides[s].plan->outer && !(join->type == SX_JOIN_SEMI && s == 0))
			continue;
		if (other->event == 0)
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("%s of two streams needs a watermark on \"%s\"", names[join->type], name_of(&sides[1 - s])),
					 errdetail("Without it a row of \"%s\" could still come that matches a row of \"%s\" which was written as unmatched.",
							   name_of(&sides[1 - s]), name_of(&sides[s])),
					 errhint("Give the stream a WATERMARK column.")));
		if (sides[s].plan->expiry == 0 || (join->expiry_in_key && other->event != other->expiry))
			ereport(ERROR,
					(errcode(ERRCODE_SX_NOT_STREAMABLE),
					 errmsg("%s of two streams needs a bound on the event time", names[join->type]),
					 errdetail("Nothing says when a row of \"%s\" can't be matched any more.", name_of(&sides[s])),
					 errhint("Make watermarked event times, or windows over them, equal, or compare them: l.key = r.key AND r.ts BETWEEN l.ts AND l.ts + interval '1 hour'.")));
	}
}

static void
describe_output(SxPlanOperator *op)
{
	SxPlanJoin *join = op->join;
	int			nsides = join->type == SX_JOIN_SEMI || join->type == SX_JOIN_ANTI ? 1 : 2;
	int			n = 0;

	op->output = CreateTemplateTupleDesc(join->sides[0].row->natts +
										 (nsides == 2 ? join->sides[1].row->natts : 0));
	for (int s = 0; s < nsides; s++)
		for (int i = 0; i < join->sides[s].row->natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(join->sides[s].row, i);

			TupleDescInitEntry(op->output, ++n, psprintf("%c%d", s == 0 ? 'l' : 'r', i + 1),
							   att->atttypid, att->atttypmod, 0);
			TupleDescInitEntryCollation(op->output, n, att->attcollation);
		}
}

/* The condition outside of a plan: columns of the sides' segments. */
static List *
condition_over_rows(SxJoinSide *sides, List *conjuncts)
{
	List	   *condition = copyObject(conjuncts);
	ListCell   *cell;

	for (int s = 0; s < 2; s++)
	{
		List	   *columns = NIL;

		foreach(cell, sides[s].query->targetList)
		{
			Expr	   *expr = lfirst_node(TargetEntry, cell)->expr;

			columns = lappend(columns, IsA(expr, Var) ? expr : (Expr *) makeVar(0, 0, InvalidOid, -1, InvalidOid, 0));
		}
		sx_remap_vars((Node *) condition, sides[s].varnos, columns, s == 0 ? OUTER_VAR : INNER_VAR);
	}
	return condition;
}

/* The level reads the operator where it read the sides. */
static Node *
read_join(SxJoinLevel *level, SxPlanOperator *op, SxJoinSide *sides, List *reading)
{
	RangeTblRef *ref = makeNode(RangeTblRef);
	int			nleft = op->join->sides[0].row->natts;

	level->query->rtable = lappend(level->query->rtable, sx_cut_operator_rte(op));
	ref->rtindex = list_length(level->query->rtable);
	for (int s = 0; s < 2; s++)
	{
		List	   *columns = list_copy(sides[s].columns);

		for (int i = 0; s == 1 && i < nleft; i++)
			columns = lcons(makeVar(0, 0, InvalidOid, -1, InvalidOid, 0), columns);
		sx_remap_vars((Node *) reading, sides[s].varnos, columns, ref->rtindex);
		sx_blank_entries(level->query, sides[s].varnos);
	}
	return (Node *) ref;
}

/* Another column of the same type would be taken for it at a restart. */
static char *
origin_of(Query *query, Node *expr)
{
	while (IsA(expr, Var) && ((Var *) expr)->varlevelsup == 0)
	{
		Var		   *var = (Var *) expr;
		RangeTblEntry *rte = rt_fetch(var->varno, query->rtable);

		if (rte->rtekind == RTE_RELATION)
			return psprintf("column %d", var->varattno);
		if (rte->rtekind == RTE_NAMEDTUPLESTORE)
			return psprintf("result %d", var->varattno);
		if (rte->rtekind != RTE_SUBQUERY || rte->subquery->setOperations != NULL || var->varattno <= 0)
			break;
		expr = (Node *) get_tle_by_resno(rte->subquery->targetList, var->varattno)->expr;
		query = rte->subquery;
	}
	return pstrdup("expression");
}

static void
add_input(SxCut *cut, SxPlanOperator *op, SxJoinSide *side)
{
	Bitmapset  *keys = NULL;
	ListCell   *cell;

	for (int i = 0; i < side->plan->nkeys; i++)
		keys = bms_add_member(keys, side->plan->keys[i].input);
	foreach(cell, side->query->targetList)
		side->plan->origins = lappend(side->plan->origins, origin_of(side->query, (Node *) lfirst_node(TargetEntry, cell)->expr));
	sx_mark_nullable(side->query);
	sx_cut_add_input(cut, side->query, op, side->plan->row, keys);
}

/* For people: where a column is one of a table, its name. */
static TupleDesc
describe_row(const Query *query)
{
	TupleDesc	row = ExecTypeFromTL(query->targetList);
	ListCell   *cell;

	foreach(cell, query->targetList)
	{
		const TargetEntry *entry = lfirst_node(TargetEntry, cell);
		const Var  *var = (const Var *) entry->expr;

		if (IsA(var, Var) && var->varlevelsup == 0 && var->varattno > 0)
			namestrcpy(&TupleDescAttr(row, entry->resno - 1)->attname,
					   get_rte_attribute_name(rt_fetch(var->varno, query->rtable), var->varattno));
	}
	return row;
}

static Node *
build(SxJoinLevel *level, SxJoinTree *tree)
{
	SxPlanOperator *op = sx_cut_new_operator(level->cut, SX_OPERATOR_JOIN, "symmetricHashJoin");
	SxPlanJoin *join = palloc0(sizeof(SxPlanJoin));
	SxJoinSide	sides[2];
	Node	   *items[2];
	OneSided	one_sided = {{NIL, NIL}, {NIL, NIL}};
	List	   *reading;
	ListCell   *cell;

	check_mode(level->cut, tree->type);
	op->join = join;
	join->type = tree->type;
	items[0] = side_item(level, tree->left);
	items[1] = side_item(level, tree->right);
	sx_forget_nullable((Node *) list_make2(tree->conjuncts, tree->where));
	split_conjuncts(items, join->type, &tree->conjuncts, &one_sided);
	one_sided.quals[0] = list_concat(one_sided.quals[0], tree->where);
	tree->done = true;
	reading = readers(level);
	memset(sides, 0, sizeof(sides));
	for (int s = 0; s < 2; s++)
	{
		sides[s].plan = &join->sides[s];
		sides[s].plan->outer = is_outer(join->type, s);
		make_side(level, &sides[s], items[s], reading);
		cut_side(level->cut, &sides[s], one_sided.quals[s], one_sided.filters[s]);
	}
	sx_join_find_keys(sides, &tree->conjuncts);
	sx_join_find_expiry(level->cut, sides, join, tree->conjuncts);
	for (int s = 0; s < 2; s++)
	{
		foreach(cell, sx_vars_of_level((Node *) tree->conjuncts, sides[s].varnos))
			sx_join_column(&sides[s], lfirst(cell));
		find_event(level->cut, op, &sides[s]);
		sides[s].plan->row = describe_row(sides[s].query);
	}
	check_final(sides, join);
	join->condition = condition_over_rows(sides, tree->conjuncts);
	op->nkeys = join->sides[0].nkeys;
	op->keys = join->sides[0].keys;
	describe_output(op);
	for (int s = 0; s < 2; s++)
		add_input(level->cut, op, &sides[s]);
	return read_join(level, op, sides, reading);
}

/* Where the level reads one operator and nothing else, rows can go through it without being stored. */
static void
drop_blank_entries(Query *query)
{
	Node	   *item = linitial(query->jointree->fromlist);
	RangeTblEntry *rte;

	if (list_length(query->jointree->fromlist) != 1 || !IsA(item, RangeTblRef))
		return;
	rte = rt_fetch(((RangeTblRef *) item)->rtindex, query->rtable);
	ChangeVarNodes((Node *) query, ((RangeTblRef *) item)->rtindex, 1, 0);
	query->rtable = list_make1(rte);
	sx_query_drop_permissions(query);
}

/*
 * Columns of joins become those of what is joined.  Then nothing refers to the
 * joins' own entries, whose lists would have to follow every change.
 */
static void
flatten_aliases(Query *query)
{
	ListCell   *cell;

	query->targetList = (List *) sx_flatten_join_aliases(query, (Node *) query->targetList);
	query->jointree = (FromExpr *) sx_flatten_join_aliases(query, (Node *) query->jointree);
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->lateral)
			rte->subquery = (Query *) sx_flatten_join_aliases(query, (Node *) rte->subquery);
		rte->functions = (List *) sx_flatten_join_aliases(query, (Node *) rte->functions);
		rte->tablefunc = (TableFunc *) sx_flatten_join_aliases(query, (Node *) rte->tablefunc);
		rte->tablesample = (TableSampleClause *) sx_flatten_join_aliases(query, (Node *) rte->tablesample);
	}
	foreach(cell, query->rtable)
	{
		RangeTblEntry *rte = lfirst(cell);

		if (rte->rtekind == RTE_JOIN)
			rte->joinaliasvars = NIL;
	}
}

void
sx_cut_join(SxCut *cut, Query *query)
{
	SxJoinLevel level = {cut, query};
	ListCell   *cell;

	if (query->sortClause != NIL || query->hasWindowFuncs || query->rowMarks != NIL ||
		query->limitOffset != NULL || query->limitCount != NULL)
		sx_law_check(cut, query);	/* says why */
	flatten_aliases(query);
	foreach(cell, sx_join_trees(&level))
	{
		SxJoinPlace *place = lfirst(cell);

		*place->node = build(&level, place->tree);
	}
	query->jointree->quals = level.quals == NIL ? NULL : (Node *) make_ands_explicit(level.quals);
	query->hasSubLinks = checkExprHasSubLink((Node *) query->targetList) ||
		checkExprHasSubLink((Node *) query->jointree);
	drop_blank_entries(query);
}
