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
 * the row that it must give, keys (or NULL) the columns that must not become
 * volatile; both are checked whenever it was planned anew.
 */
extern SxSegment *sx_segment_make(const Query *query, TupleDesc expected, const Bitmapset *keys);

/* Segments find the data, which may have so many rows, by the name; in CurrentMemoryContext. */
extern void sx_segment_name_rows(QueryEnvironment *env, const char *name, TupleDesc desc,
								 void *data, double rows);

/*
 * In a transaction with an active snapshot. env holds the batch's ephemeral
 * named relations; rows is a guess at what they and the streams hold. Returns
 * the number of rows given.
 */
extern int64 sx_segment_run(SxSegment *segment, QueryEnvironment *env, double rows,
							SxSegmentReceive receive, void *arg);

/*
 * Where the plan for so many rows is a bare scan of the named relation, rows need
 * not be stored to be scanned: they go through its condition and its expressions
 * one by one. NULL where it is more than that. CurrentMemoryContext is the
 * batch's; end is for success only.
 */
typedef struct SxSegmentPipe SxSegmentPipe;

extern SxSegmentPipe *sx_segment_pipe_begin(SxSegment *segment, const char *relation,
											TupleDesc desc, double rows,
											SxSegmentReceive receive, void *arg);
extern void sx_segment_pipe_row(SxSegmentPipe *pipe, const Datum *values, const bool *nulls);
extern void sx_segment_pipe_end(SxSegmentPipe *pipe);

/* EXPLAIN of the plan for so many rows: List of char *. */
extern List *sx_segment_explain(SxSegment *segment, QueryEnvironment *env, double rows);

#endif
