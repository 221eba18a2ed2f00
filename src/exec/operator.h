/*
 * operator.h
 *		What stands between two segments: takes rows, keeps state, gives rows.
 *
 * An operator is opened once. Per batch: begin, receive for each row of its
 * inputs' segments, one input after the other, finish. Whatever it makes between begin and finish lies in the batch's
 * memory context, so that an error needs no clean-up here.
 */
#ifndef SX_EXEC_OPERATOR_H
#define SX_EXEC_OPERATOR_H

#include "executor/tuptable.h"
#include "utils/tuplestore.h"

#include "exec/exec.h"
#include "exec/segment.h"

/* What an operator keeps lies in stores of its own; rows of the first are its state rows. */
#define SX_MAX_STORES	8
#define SX_STORE_ID(op_id, store)	((uint16) ((op_id) | (store) << 8))

struct SxOperatorRoutine;
struct SxStateShow;

/* What people know as a store (state_view.h) may be several of the operator's own. */
typedef struct SxNamedStore
{
	const char *name;
	uint8		stores;			/* a bit for each */
} SxNamedStore;

/* Each kind embeds this first. */
typedef struct SxOperator
{
	const struct SxOperatorRoutine *routine;
	const SxPlanOperator *plan;
	SxOutputMode mode;
	SxState    *state;			/* NULL when only explained */

	/* set before begin */
	const SxExecBatch *batch;
	TimestampTz late;			/* the batch's watermarks, as far as they have come here */
	TimestampTz evict;
	bool		holds;			/* nothing is taken that is due: evict is late, timers wait */
	int			due_first;		/* key groups whose due keys are taken: all, or a part */
	int			due_last;
	SxOperatorProgress *progress;
	SxSegmentPipe *pipe;		/* straight to the result, or NULL: */
	Tuplestorestate *out;		/* rows of plan->output */
	int64		nout;
	Tuplestorestate *retracted; /* rows of plan->output whose keys are no more; NULL: nobody asks */
	int64		nretracted;
	bool		fresh;			/* what it emits belongs to groups that no batch before had */
	int64		state_rows;		/* set by finish; -1: each entry of the state is one */
} SxOperator;

/* How its rows are to be counted (books.c). */
typedef enum SxOperatorRows
{
	SX_OPERATOR_UNCOUNTED,
	SX_OPERATOR_PASSES,			/* what comes out went in: in = out + late + duplicate + refused ... */
	SX_OPERATOR_TAKES			/* rows go in, results come out: in = taken + late + no window ... */
} SxOperatorRows;

typedef struct SxOperatorRoutine
{
	const char *name;			/* for messages: "aggregate" */
	SxOperatorRows rows;
	const char *const *inputs;	/* their names, where there are several */

	/* In a transaction. Allocates in CurrentMemoryContext, for the query's life. */
	SxOperator *(*open) (const SxPlanOperator *plan);

	/*
	 * What the state must know of the operator's stores (at most SX_MAX_STORES, ids
	 * SX_STORE_ID); returns how many. CurrentMemoryContext, for the state's life.
	 */
	int			(*state_operators) (const SxPlanOperator *plan, SxStateOperator *result);

	void		(*begin) (SxOperator *op);
	/* False: wants no more rows of this input in this batch. The slot is the caller's. */
	bool		(*receive) (SxOperator *op, int input, TupleTableSlot *slot);
	void		(*finish) (SxOperator *op);

	/*
	 * Optional, for operators whose due keys cost something each: about how many there
	 * are. Asked before begin. With very many, finish takes those of groups due_first
	 * to due_last only, in a batch without rows, and removes by sx_state_expire with the last group.
	 */
	int64		(*due) (SxOperator *op);

	/* Optional. When a batch is wanted though no rows come; DT_NOEND: never. */
	TimestampTz (*next_time) (SxOperator *op);

	/* Optional. The batch failed; cannot fail. */
	void		(*abort) (SxOperator *op);

	/* Appends lines (char *) that say what is kept and when it goes. */
	List	   *(*explain) (const SxPlan *plan, const SxPlanOperator *op, List *lines);

	/*
	 * How people see the state (streamx.state); optional. stores: up to one without
	 * a name, the first is what is shown when none is asked for. show_open says what
	 * keys and values are made of, in the memory of the reading; show gives the rows
	 * of one entry to sx_state_show_row (a value without bytes: it is gone).
	 */
	const SxNamedStore *(*stores) (const SxPlanOperator *plan);
	void		(*show_open) (struct SxStateShow *show);
	void		(*show) (struct SxStateShow *show, const SxStateKey *key,
						 const SxStateValue *value);
} SxOperatorRoutine;

extern const SxOperatorRoutine sx_aggregate_routine;
extern const SxOperatorRoutine sx_dedup_routine;
extern const SxOperatorRoutine sx_join_routine;
extern const SxOperatorRoutine sx_limit_routine;
extern const SxOperatorRoutine sx_session_routine;
extern const SxOperatorRoutine sx_transform_routine;

extern const SxOperatorRoutine *sx_operator_routine(SxOperatorKind kind);

/* Will all that is due have been taken after this batch? */
static inline bool
sx_operator_ends_due(const SxOperator *op)
{
	return op->due_last == SX_KEY_GROUPS - 1;
}

/* A row of the operator's output; nothing of it is kept. */
static inline void
sx_operator_emit(SxOperator *op, const Datum *values, const bool *nulls)
{
	op->nout++;
	if (op->pipe != NULL)
		sx_segment_pipe_row(op->pipe, values, nulls);
	else
		tuplestore_putvalues(op->out, op->plan->output, (Datum *) values, (bool *) nulls);
}

/* Of a row that an earlier batch emitted only the keys count: they are not in the result now. */
static inline void
sx_operator_retract(SxOperator *op, const Datum *values, const bool *nulls)
{
	if (op->retracted == NULL)
		return;
	op->nretracted++;
	tuplestore_putvalues(op->retracted, op->plan->output, (Datum *) values, (bool *) nulls);
}

#endif
