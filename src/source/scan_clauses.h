/*
 * scan_clauses.h
 *		Clauses of a plain SELECT that let a source read less than all.
 */
#ifndef SX_SOURCE_SCAN_CLAUSES_H
#define SX_SOURCE_SCAN_CLAUSES_H

#include "nodes/execnodes.h"

struct ExplainState;

/* Those that the source can use, with their values: SxScanClause *. In CurrentMemoryContext. */
extern List *sx_scan_clauses(ForeignScanState *node);

/* A line of EXPLAIN that shows them. */
extern void sx_scan_clauses_explain(ForeignScanState *node, struct ExplainState *es);

#endif
