/*
 * segment.h
 *		A Query without state, planned by the server, kept, and run per batch.
 */
#ifndef SX_EXEC_SEGMENT_H
#define SX_EXEC_SEGMENT_H

#include "executor/tuptable.h"
#include "nodes/parsenodes.h"
#include "utils/queryenvironment.h"

typedef struct SxSegment SxSegment;

/* Gets each row of a run. False: no more rows are wanted. */
typedef bool (*SxSegmentReceive) (void *arg, TupleTableSlot *slot);

/*
 * In CurrentMemoryContext. The query is not modified and must stay. expected is
 * the row that it must give, checked whenever it was planned anew.
 */
extern SxSegment *sx_segment_make(const Query *query, TupleDesc expected);

/*
 * In a transaction with an active snapshot. env holds the batch's ephemeral
 * named relations; rows is a guess at what they and the streams hold. Returns
 * the number of rows given.
 */
extern int64 sx_segment_run(SxSegment *segment, QueryEnvironment *env, double rows,
							SxSegmentReceive receive, void *arg);

/* EXPLAIN of the plan for so many rows: List of char *. */
extern List *sx_segment_explain(SxSegment *segment, QueryEnvironment *env, double rows);

#endif
