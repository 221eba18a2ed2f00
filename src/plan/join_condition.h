/*
 * join_condition.h
 *		What a join of two streams is joined on: keys, ranges of time, the rest.
 */
#ifndef SX_PLAN_JOIN_CONDITION_H
#define SX_PLAN_JOIN_CONDITION_H

#include "plan/cut.h"

/* One side while it is being made. */
typedef struct SxJoinSide
{
	Query	   *query;			/* its segment */
	Bitmapset  *varnos;			/* of the level, in it */
	List	   *columns;		/* Var *: of the level; the first columns of the segment */
	SxPlanSide *plan;
} SxJoinSide;

/* The column of the side's segment that holds an expression of the level; added when it is new. */
extern AttrNumber sx_join_column(SxJoinSide *side, Node *expr);

/* Takes equalities between the sides out of the conjuncts and makes them keys. */
extern void sx_join_find_keys(SxJoinSide *sides, List **conjuncts);

/*
 * By the keys, or by ranges of time in the conjuncts: when rows of a side go, and by
 * which column they are late.
 */
extern void sx_join_find_expiry(SxCut *cut, SxJoinSide *sides, SxPlanJoin *join, List *conjuncts);

#endif
