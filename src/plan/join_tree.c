/*
 * join_tree.c
 *		See join_tree.h.
 *
 *	 FROM a JOIN b ON p, c WHERE q AND EXISTS (d)
 *		inner joins of streams and WHERE are one list of items and one of conjuncts
 *		tree = the first stream; while streams are left:
 *			the next one that an equality connects joins it, and takes all conjuncts
 *			that speak of nothing else
 *		EXISTS and IN join last
 *
 * An outer join keeps its ON for itself. Static tables stay where they stand: in a
 * leaf if they are joined inside of an outer join, else above the joins of streams.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteManip.h"
#include "utils/lsyscache.h"

#include "base/errors.h"
#include "plan/isolate.h"
#include "plan/join_tree.h"

static SxJoinTree *tree_of(SxJoinLevel *level, Node *node);

Bitmapset *
sx_varnos_of(Node *node)
{
	Bitmapset  *varnos = NULL;
	ListCell   *cell;

	if (node == NULL)
		return NULL;
	if (IsA(node, RangeTblRef))
		return bms_make_singleton(((RangeTblRef *) node)->rtindex);
	if (IsA(node, FromExpr))
	{
		foreach(cell, ((FromExpr *) node)->fromlist)
			varnos = bms_join(varnos, sx_varnos_of(lfirst(cell)));
		return varnos;
	}
	varnos = bms_join(sx_varnos_of(castNode(JoinExpr, node)->larg), sx_varnos_of(((JoinExpr *) node)->rarg));
	if (((JoinExpr *) node)->rtindex > 0)
		varnos = bms_add_member(varnos, ((JoinExpr *) node)->rtindex);
	return varnos;
}

int
sx_count_flows(SxCut *cut, Query *query, Node *node)
{
	int			n = 0;
	ListCell   *cell;

	if (node == NULL)
		return 0;
	if (IsA(node, RangeTblRef))
		return sx_flows(cut, (Node *) rt_fetch(((RangeTblRef *) node)->rtindex, query->rtable)) ? 1 : 0;
	if (IsA(node, FromExpr))
	{
		foreach(cell, ((FromExpr *) node)->fromlist)
			n += sx_count_flows(cut, query, lfirst(cell));
		return n;
	}
	return sx_count_flows(cut, query, castNode(JoinExpr, node)->larg) +
		sx_count_flows(cut, query, ((JoinExpr *) node)->rarg);
}

static int
flows(SxJoinLevel *level, Node *node)
{
	return sx_count_flows(level->cut, level->query, node);
}

static SxJoinTree *
make_join(SxJoinLevel *level, SxJoinType type, SxJoinTree *left, SxJoinTree *right, List *conjuncts)
{
	SxJoinTree *tree = palloc0(sizeof(SxJoinTree));

	tree->type = type;
	tree->left = left;
	tree->right = right;
	tree->conjuncts = conjuncts;
	tree->varnos = bms_union(left->varnos, right->varnos);
	level->trees = lappend(level->trees, tree);
	return tree;
}

static SxJoinPlace *
make_place(Node **node, SxJoinTree *tree)
{
	SxJoinPlace *place = palloc(sizeof(SxJoinPlace));

	place->node = node;
	place->tree = tree;
	return place;
}

/* Joins of streams inside of a part that is no such join itself. */
static void
find_inner(SxJoinLevel *level, Node **node, List **places)
{
	JoinExpr   *join;

	if (flows(level, *node) < 2)
		return;
	join = castNode(JoinExpr, *node);
	if (flows(level, join->larg) > 0 && flows(level, join->rarg) > 0)
	{
		*places = lappend(*places, make_place(node, tree_of(level, *node)));
		*node = NULL;			/* what it reads is the tree's */
	}
	else
	{
		find_inner(level, &join->larg, places);
		find_inner(level, &join->rarg, places);
	}
}

static SxJoinTree *
make_leaf(SxJoinLevel *level, Node *node)
{
	SxJoinTree *tree = palloc0(sizeof(SxJoinTree));

	tree->node = node;
	level->trees = lappend(level->trees, tree);
	tree->varnos = sx_varnos_of(node);
	find_inner(level, &tree->node, &tree->inner);
	return tree;
}

/* Items and conjuncts of inner joins with several streams; others are items themselves. */
static void
flatten_inner(SxJoinLevel *level, Node *node, List **items, List **conjuncts)
{
	ListCell   *cell;

	check_stack_depth();
	if (IsA(node, FromExpr))
	{
		foreach(cell, ((FromExpr *) node)->fromlist)
			flatten_inner(level, lfirst(cell), items, conjuncts);
		*conjuncts = list_concat(*conjuncts, sx_conjuncts(((FromExpr *) node)->quals));
	}
	else if (IsA(node, JoinExpr) && ((JoinExpr *) node)->jointype == JOIN_INNER && flows(level, node) > 1)
	{
		JoinExpr   *join = (JoinExpr *) node;

		flatten_inner(level, join->larg, items, conjuncts);
		flatten_inner(level, join->rarg, items, conjuncts);
		*conjuncts = list_concat(*conjuncts, sx_conjuncts(join->quals));
	}
	else
		*items = lappend(*items, node);
}

static bool
is_equality(Node *node)
{
	OpExpr	   *op = (OpExpr *) node;

	return IsA(node, OpExpr) && list_length(op->args) == 2 &&
		(op_mergejoinable(op->opno, exprType(linitial(op->args))) ||
		 op_hashjoinable(op->opno, exprType(linitial(op->args))));
}

/* Does an equality lead from one to the other? */
static bool
are_connected(const SxJoinTree *left, const SxJoinTree *right, List *conjuncts)
{
	ListCell   *cell;

	foreach(cell, conjuncts)
	{
		OpExpr	   *op = lfirst(cell);
		Bitmapset  *a;
		Bitmapset  *b;

		if (!is_equality((Node *) op))
			continue;
		a = pull_varnos(NULL, linitial(op->args));
		b = pull_varnos(NULL, lsecond(op->args));
		if (bms_is_empty(a) || bms_is_empty(b))
			continue;
		if ((bms_is_subset(a, left->varnos) && bms_is_subset(b, right->varnos)) ||
			(bms_is_subset(a, right->varnos) && bms_is_subset(b, left->varnos)))
			return true;
	}
	return false;
}

/* Those that speak of these entries alone, and can be looked at outside of a plan. */
static List *
take_conjuncts(List **conjuncts, const Bitmapset *varnos)
{
	List	   *taken = NIL;
	ListCell   *cell;

	foreach(cell, *conjuncts)
	{
		Bitmapset  *used = pull_varnos(NULL, lfirst(cell));

		if (bms_is_empty(used) || !bms_is_subset(used, varnos) || checkExprHasSubLink(lfirst(cell)))
			continue;
		taken = lappend(taken, lfirst(cell));
		*conjuncts = foreach_delete_current(*conjuncts, cell);
	}
	return taken;
}

/* The items with streams become one tree; the others, and conjuncts not taken, are left. */
static SxJoinTree *
join_items(SxJoinLevel *level, List **items, List **conjuncts)
{
	List	   *waiting = NIL;
	SxJoinTree *tree = NULL;
	ListCell   *cell;

	foreach(cell, *items)
	{
		if (flows(level, lfirst(cell)) == 0)
			continue;
		waiting = lappend(waiting, tree_of(level, lfirst(cell)));
		*items = foreach_delete_current(*items, cell);
	}
	tree = linitial(waiting);
	waiting = list_delete_first(waiting);
	while (waiting != NIL)
	{
		SxJoinTree *next = NULL;
		Bitmapset  *varnos;

		foreach(cell, waiting)
			if (are_connected(tree, lfirst(cell), *conjuncts))
			{
				next = lfirst(cell);
				break;
			}
		if (next == NULL)
			next = linitial(waiting);	/* refused for want of an equality, with its name */
		waiting = list_delete_ptr(waiting, next);
		varnos = bms_union(tree->varnos, next->varnos);
		tree = make_join(level, SX_JOIN_INNER, tree, next, take_conjuncts(conjuncts, varnos));
	}
	return tree;
}

static SxJoinTree *
tree_of(SxJoinLevel *level, Node *node)
{
	JoinExpr   *join = (JoinExpr *) node;
	List	   *items = NIL;
	List	   *conjuncts = NIL;
	SxJoinType	type = SX_JOIN_INNER;
	SxJoinTree *tree;

	check_stack_depth();
	if (flows(level, node) < 2)
		return make_leaf(level, node);
	if (IsA(node, JoinExpr) && join->jointype != JOIN_INNER)
	{
		if (flows(level, join->larg) == 0 || flows(level, join->rarg) == 0)
			return make_leaf(level, node);
		type = join->jointype == JOIN_LEFT ? SX_JOIN_LEFT :
			join->jointype == JOIN_RIGHT ? SX_JOIN_RIGHT : SX_JOIN_FULL;
		return make_join(level, type, tree_of(level, join->larg), tree_of(level, join->rarg),
						 sx_conjuncts(join->quals));
	}
	flatten_inner(level, node, &items, &conjuncts);
	tree = join_items(level, &items, &conjuncts);
	if (items != NIL || conjuncts != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("an outer join over streams that are joined with a static table is not supported"),
				 errhint("Join the streams in a subquery of FROM, and the static table outside of it.")));
	return tree;
}

static SxJoinTree *
join_sublink(SxJoinLevel *level, SxJoinTree *left, Node *qual)
{
	RangeTblRef *ref = makeNode(RangeTblRef);
	List	   *where = take_conjuncts(&level->quals, left->varnos);
	SxJoinTree *tree;
	SxJoinType	type;
	List	   *conjuncts;

	ref->rtindex = sx_pull_sublink(level->cut, level->query, qual, &type, &conjuncts);
	tree = make_join(level, type, left, make_leaf(level, (Node *) ref), conjuncts);
	tree->where = where;
	return tree;
}

List *
sx_join_trees(SxJoinLevel *level)
{
	FromExpr   *from = level->query->jointree;
	List	   *items = NIL;
	List	   *places = NIL;
	List	   *sublinks = NIL;
	SxJoinTree *tree;
	ListCell   *cell;

	flatten_inner(level, (Node *) from, &items, &level->quals);
	foreach(cell, level->quals)
		if (sx_is_stream_sublink(level->cut, lfirst(cell)))
		{
			sublinks = lappend(sublinks, lfirst(cell));
			level->quals = foreach_delete_current(level->quals, cell);
		}
	from->quals = NULL;
	tree = join_items(level, &items, &level->quals);
	foreach(cell, sublinks)
		tree = join_sublink(level, tree, lfirst(cell));
	from->fromlist = lcons(NULL, items);
	if (tree->node == NULL)
		places = list_make1(make_place((Node **) &linitial(from->fromlist), tree));
	else
	{
		linitial(from->fromlist) = tree->node;
		foreach(cell, tree->inner)
		{
			SxJoinPlace *place = lfirst(cell);

			if (place->node == &tree->node)
				place->node = (Node **) &linitial(from->fromlist);
			places = lappend(places, place);
		}
	}
	return places;
}
