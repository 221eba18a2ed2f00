/*
 * isolate.h
 *		Moves columns of a query level from the range table entries that had them
 *		to one that has them now.
 */
#ifndef SX_PLAN_ISOLATE_H
#define SX_PLAN_ISOLATE_H

#include "nodes/parsenodes.h"

/* The Vars of the level in a tree, each once (List of Var *, level 0). varnos NULL: all. */
extern List *sx_vars_of_level(Node *node, const Bitmapset *varnos);

/*
 * What is combined by AND, however it is nested: a AND (b AND c), (a, b) = (c, d), and
 * what all branches of an OR have in common. A list of its own.
 */
extern List *sx_conjuncts(Node *quals);

/*
 * In place: Vars of the level over varnos become columns of the entry "to": the
 * position in columns (List of Var *).
 */
extern void sx_remap_vars(Node *node, const Bitmapset *varnos, const List *columns, int to);

/* Entries of the range table that are used no more; in place. */
extern void sx_blank_entries(Query *query, const Bitmapset *varnos);

/* What of an entry of a range table may use columns of its neighbours (List of Node *). */
extern List *sx_lateral_parts(RangeTblEntry *rte);

/*
 * From 16 on a Var says which outer joins may make it NULL. Moved expressions lose
 * that; select list and WHERE of a level get it anew from its FROM.
 */
extern void sx_forget_nullable(Node *node);
extern void sx_mark_nullable(Query *query);

/* FROM and WHERE of the level become a subquery that selects what the rest needs. */
extern void sx_isolate_from(Query *query);

#endif
