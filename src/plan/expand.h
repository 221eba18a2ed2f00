/*
 * expand.h
 *		Makes streams visible in a stored Query.
 */
#ifndef SX_PLAN_EXPAND_H
#define SX_PLAN_EXPAND_H

#include "nodes/parsenodes.h"

/*
 * In place: views and CTEs that contain streams become subqueries (a CTE used
 * twice is read twice), dead range table entries are blanked. Views without
 * streams stay for the rewriter.
 */
extern void sx_expand_query(Query *query);

/* Does anything under the node read a stream? Looks through views. */
extern bool sx_contains_stream(Node *node);

#endif
