/*
 * join_tree.h
 *		Which streams of a query level are joined with which, in which order, and on
 *		what. Comes from the query alone: the first connected order.
 */
#ifndef SX_PLAN_JOIN_TREE_H
#define SX_PLAN_JOIN_TREE_H

#include "plan/cut.h"

/* A leaf is a part of FROM with one stream in it; else a join of two trees. */
typedef struct SxJoinTree
{
	Node	   *node;			/* leaf: as it stands in FROM; NULL: a join */
	List	   *inner;			/* leaf: SxJoinPlace *, joins of streams somewhere in it */

	SxJoinType	type;
	struct SxJoinTree *left;
	struct SxJoinTree *right;
	List	   *conjuncts;		/* Node *: what it is joined on */
	List	   *where;			/* what WHERE asks of the left rows, under EXISTS and the like */

	Bitmapset  *varnos;			/* entries of the range table below it */
	bool		done;			/* its columns are read through its operator now */
} SxJoinTree;

/* A join of streams whose result stands where *node stands. */
typedef struct SxJoinPlace
{
	Node	  **node;
	SxJoinTree *tree;
} SxJoinPlace;

typedef struct SxJoinLevel
{
	SxCut	   *cut;
	Query	   *query;
	List	   *quals;			/* WHERE that no join took */
	List	   *trees;			/* all of them, leaves as well */
} SxJoinLevel;

/*
 * Takes the joins out of the level's FROM and WHERE, EXISTS and IN included; the
 * jointree becomes a list of items. Returns the places, all in query->jointree.
 */
extern List *sx_join_trees(SxJoinLevel *level);

/* join_sublink.c: is it EXISTS, IN or NOT EXISTS over a stream, in WHERE? */
extern bool sx_is_stream_sublink(SxCut *cut, Node *qual);

/*
 * Its subquery becomes an entry of the level's range table; returns the entry's
 * number, and what it is joined on.
 */
extern Index sx_pull_sublink(SxCut *cut, Query *query, Node *qual, SxJoinType *type, List **conjuncts);

/* Entries of the range table in a part of FROM, those of joins included. */
extern Bitmapset *sx_varnos_of(Node *node);

/* How many parts of it stream rows flow out of. */
extern int	sx_count_flows(SxCut *cut, Query *query, Node *node);

#endif
