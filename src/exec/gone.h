/*
 * gone.h
 *		Update mode (D14): touched groups, and windows of sessions that grew, that
 *		have no row in the result now.
 */
#ifndef SX_EXEC_GONE_H
#define SX_EXEC_GONE_H

#include "executor/tuptable.h"
#include "utils/tuplestore.h"

#include "plan/plan.h"

typedef struct SxGone SxGone;

/* CurrentMemoryContext, the batch's. desc: columns of plan->touched. */
extern SxGone *sx_gone_begin(const SxPlan *plan, TupleDesc desc);

/* A row of the result. */
extern void sx_gone_see(SxGone *gone, TupleTableSlot *slot);

/* A touched key: an SxSegmentReceive. */
extern bool sx_gone_touch(void *gone, TupleTableSlot *slot);

/* The keys that were touched and not seen; NULL if there are none. */
extern Tuplestorestate *sx_gone_end(SxGone *gone, int64 *n);

#endif
