/*
 * batch_answer.h
 *		What the sink of a query should hold: the plan, run as a batch.
 */
#ifndef SX_EXEC_BATCH_ANSWER_H
#define SX_EXEC_BATCH_ANSWER_H

#include "utils/tuplestore.h"

#include "plan/plan.h"
#include "source/source.h"

/* Why it can't be said what the query should have given: List of char *; NIL: it can. */
extern List *sx_batch_answer_unknown(const SxPlan *plan);

/* What it depends on beside the rows: List of char *. */
extern List *sx_batch_answer_caveats(const SxPlan *plan);

/*
 * The rows of plan->result that the query should have given for the rows of these
 * ranges, if none of them was late, up to a batch that removed by the watermark
 * "evict". In a transaction with an active snapshot; CurrentMemoryContext.
 */
extern Tuplestorestate *sx_batch_answer(const SxPlan *plan, SxBatchSources *sources,
										TimestampTz evict);

#endif
