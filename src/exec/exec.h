/*
 * exec.h
 *		Runs a streaming plan over the rows of one batch.
 *
 * Segments are run by PostgreSQL's executor; operators stand between them and
 * keep their state in an SxState.
 */
#ifndef SX_EXEC_EXEC_H
#define SX_EXEC_EXEC_H

#include "checkpoint/batch_record.h"
#include "monitor/progress.h"
#include "plan/plan.h"
#include "sink/sink.h"
#include "source/source.h"
#include "state/state_store.h"

typedef struct SxExec SxExec;

/* What a stage's segment gave its operator, or the result. */
typedef struct SxStageRows
{
	int64		rows;
	bool		stopped;		/* it was asked for no more */
} SxStageRows;

typedef struct SxExecBatch
{
	int64		batch_id;
	TimestampTz timestamp;		/* of the batch */
	SxBatchSources *sources;	/* in the order of plan->sources; no rows in a no-data batch */
	TimestampTz late;			/* watermark of batch N-1, its evict: filters late rows */
	TimestampTz evict;			/* watermark of batch N: closes and evicts */

	/* in and out: maxima of the watermark() calls, plan->watermarks[first_marker ...] */
	SxWatermarkInput *markers;
	TimestampTz latest_allowed; /* D13 */

	/* in and out: what is due and waits; with an op the sources have no rows, late and evict are as they were */
	SxDue		due;
	int64		max_due;		/* keys that one batch may take, about */

	/* out */
	SxOperatorProgress *operators;	/* one per operator, by id; counters to add to */
	SxStageRows *stages;		/* in CurrentMemoryContext */
} SxExecBatch;

/* What the state must know of the plan's operators, before it is opened. In a transaction; CurrentMemoryContext, for the state's life. */
extern int	sx_exec_state_operators(const SxPlan *plan, SxStateOperator **operators);

/* In a transaction. Lives in CurrentMemoryContext, as long as the plan and the state. */
extern SxExec *sx_exec_open(const SxPlan *plan, SxState *state);

/*
 * In the batch's transaction, with an active snapshot; CurrentMemoryContext is
 * the batch's. All rows of the result are in it afterwards, all state changes
 * are pending in the state. The caller ends result->rows, fresh and gone before
 * the commit: they may have temporary files.
 */
extern void sx_exec_run(SxExec *exec, SxExecBatch *batch, SxResult *result);

/*
 * The books of a batch that has run and whose sources are counted, as many nodes as
 * it returns. In CurrentMemoryContext.
 */
extern int sx_exec_books(const SxPlan *plan, const SxBatchSources *sources,
						 const SxOperatorProgress *operators, const SxStageRows *stages,
						 SxFlowNode **nodes);

/* When an operator wants a batch though no rows come (timers); DT_NOEND: never. exec may be NULL. */
extern TimestampTz sx_exec_next_time(SxExec *exec);

/* After a failed batch, outside its transaction. Cannot fail. */
extern void sx_exec_abort(SxExec *exec);

extern void sx_exec_close(SxExec *exec);

/*
 * Lines of explain_query: operators, each with a line about its state that the
 * caller knows, and the EXPLAIN of each segment. List of char *. In a transaction
 * with an active snapshot; needs no state.
 */
extern List *sx_exec_explain(const SxPlan *plan, char *const *states);

#endif
