/*
 * exec.c
 *		Stage by stage: run the segment, feed its operator, hand on its rows.
 *
 * The batch's ephemeral named relations are collected in one QueryEnvironment:
 * the sources' ranges first, then each operator's output as it is complete. A
 * segment over nothing gives nothing (the law of segments), so it isn't run.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/queryenvironment.h"

#include "exec/exec.h"
#include "exec/gone.h"
#include "exec/operator.h"
#include "exec/segment.h"
#include "time/marker.h"

#define DUE_IN_ONE_GO	2		/* times max_due: what is due needs no batches of its own yet */
#define FIRST_GUESS		10000	/* rows of the first batch, for the planner */

/* Kilobytes of a result before it goes to a file: a batch of the usual size stays in memory. */
#define RESULT_MEMORY	65536

struct SxExec
{
	const SxPlan *plan;
	SxState    *state;
	SxSegment **segments;		/* by stage */
	SxOperator **operators;		/* by id */
	SxSegment  *touched;		/* D14, or NULL */
	TupleDesc	touched_desc;
	double		stream_rows;	/* of the last batch that had any */
};

/* One run over a batch. */
typedef struct Run
{
	SxExec	   *exec;
	SxExecBatch *batch;
	SxResult   *result;
	QueryEnvironment *env;
	SxDue		waits;			/* what the batch before left; op -1: the operator has come */
	int64		operator_rows;	/* in the outputs that env holds */
	SxGone	   *gone;
	const SxOperator *piped_from;	/* the last operator fills the result; or NULL */
} Run;

const SxOperatorRoutine *
sx_operator_routine(SxOperatorKind kind)
{
	switch (kind)
	{
		case SX_OPERATOR_AGGREGATE:
			return &sx_aggregate_routine;
		case SX_OPERATOR_SESSION:
			return &sx_session_routine;
		case SX_OPERATOR_DEDUP:
			return &sx_dedup_routine;
		case SX_OPERATOR_JOIN:
			return &sx_join_routine;
		case SX_OPERATOR_TRANSFORM:
			return &sx_transform_routine;
		case SX_OPERATOR_LIMIT:
			return &sx_limit_routine;
	}
	elog(ERROR, "unknown operator kind %d", (int) kind);
}

int
sx_exec_state_operators(const SxPlan *plan, SxStateOperator **operators)
{
	int			n = 0;

	*operators = palloc0((plan->noperators + 1) * SX_MAX_STORES * sizeof(SxStateOperator));
	for (int i = 0; i < plan->noperators; i++)
	{
		const SxPlanOperator *op = plan->operators[i];

		n += sx_operator_routine(op->kind)->state_operators(op, &(*operators)[n]);
	}
	return n;
}

static SxOperator *
open_operator(const SxPlan *plan, const SxPlanOperator *planned, SxState *state)
{
	const SxOperatorRoutine *routine = sx_operator_routine(planned->kind);
	SxOperator *op = routine->open(planned);

	op->routine = routine;
	op->plan = planned;
	op->mode = plan->mode;
	op->state = state;
	return op;
}

SxExec *
sx_exec_open(const SxPlan *plan, SxState *state)
{
	SxExec	   *exec = palloc0(sizeof(SxExec));

	exec->plan = plan;
	exec->state = state;
	exec->stream_rows = FIRST_GUESS;
	exec->segments = palloc(plan->nstages * sizeof(SxSegment *));
	for (int i = 0; i < plan->nstages; i++)
	{
		const SxPlanStage *stage = &plan->stages[i];

		exec->segments[i] = sx_segment_make(stage->segment, stage->row, stage->keys);
	}
	exec->operators = palloc((plan->noperators + 1) * sizeof(SxOperator *));
	for (int i = 0; i < plan->noperators; i++)
		exec->operators[i] = open_operator(plan, plan->operators[i], state);
	if (plan->touched != NULL && plan->mode == SX_OUTPUT_UPDATE)
	{
		exec->touched_desc = ExecCleanTypeFromTL(plan->touched->targetList);
		exec->touched = sx_segment_make(plan->touched, exec->touched_desc, NULL);
	}
	return exec;
}

static bool
sources_have_rows(const SxExecBatch *batch)
{
	for (int i = 0; i < batch->sources->n; i++)
		if (sx_batch_source_has_rows(&batch->sources->sources[i]))
			return true;
	return false;
}

/*
 * Can a stage's segment give rows? Not over nothing; but above a complete result
 * anything may stand, also an aggregate that gives a row for no rows.
 */
static bool
must_run(const Run *run, const SxPlanStage *stage)
{
	if (run->operator_rows > 0)
		return true;
	if (stage->reads_stream)
		return sources_have_rows(run->batch);
	return run->exec->plan->mode == SX_OUTPUT_COMPLETE;
}

static bool
receive_result(void *arg, TupleTableSlot *slot)
{
	Run		   *run = arg;

	SxResult   *result = run->result;

	if (run->gone != NULL)
		sx_gone_see(run->gone, slot);
	result->nrows++;
	if (result->discard)
		return true;
	if (result->fresh != NULL && run->piped_from != NULL && run->piped_from->fresh)
	{
		tuplestore_puttupleslot(result->fresh, slot);
		result->nfresh++;
	}
	else
		tuplestore_puttupleslot(result->rows, slot);
	return true;
}

typedef struct Input
{
	SxOperator *op;
	int			number;
	bool		stopped;
} Input;

static bool
receive_operator(void *arg, TupleTableSlot *slot)
{
	Input	   *input = arg;

	if (input->op->routine->receive(input->op, input->number, slot))
		return true;
	input->stopped = true;
	return false;
}

static void
operator_context(void *arg)
{
	const SxPlanOperator *op = arg;

	errcontext("operator %d (%s)", op->id, sx_operator_routine(op->kind)->name);
}

/*
 * The last operator's rows go straight into the result where the last segment
 * only filters and projects them.
 */
static SxSegmentPipe *
pipe_to_result(Run *run, const SxPlanOperator *op)
{
	const SxPlan *plan = run->exec->plan;
	int			last = plan->nstages - 1;

	if (plan->stages[last - 1].op != op || plan->stages[last].reads_stream ||
		run->exec->touched != NULL)
		return NULL;
	return sx_segment_pipe_begin(run->exec->segments[last],
								 psprintf(SX_OP_ENR_FORMAT, op->id), op->output, FIRST_GUESS,
								 receive_result, run);
}

/* What the operators below and the streams give a stage, about. */
static double
guess_rows(const Run *run, const SxPlanStage *stage)
{
	return stage->reads_stream ? run->exec->stream_rows : run->operator_rows;
}

static void
run_segment(Run *run, int number, SxOperator *op)
{
	const SxPlanStage *stage = &run->exec->plan->stages[number];
	Input		input = {op, stage->input};

	if (!must_run(run, stage))
		return;
	run->batch->stages[number].rows =
		sx_segment_run(run->exec->segments[number], run->env, guess_rows(run, stage),
					   receive_operator, &input);
	run->batch->stages[number].stopped = input.stopped;
}

static TimestampTz
watermark_at(const SxPlanOperator *op, TimestampTz watermark)
{
	return watermark == SX_TIME_UNSET ? SX_TIME_UNSET : watermark - op->lag;
}

/* The key groups that this batch takes, and what then waits. */
static void
take_due(Run *run, SxOperator *op, int group, int64 rows)
{
	SxExecBatch *batch = run->batch;
	int64		step = Max(batch->max_due / Max(rows, 1), 1);

	op->due_first = group;
	op->due_last = Min(group + step, SX_KEY_GROUPS) - 1;
	if (SX_KEY_GROUPS - 1 - op->due_last <= step / 4)
		op->due_last = SX_KEY_GROUPS - 1;	/* no batch for a small rest */
	if (!sx_operator_ends_due(op))
		batch->due = (SxDue) {op->plan->id, op->due_last + 1, rows};
}

/*
 * May the operator take what is due? An operator before it that has not come to the
 * end may give more rows, and its own rows of this batch must be in the state first
 * if it is to go through that in parts.
 */
static void
allot_due(Run *run, SxOperator *op)
{
	SxExecBatch *batch = run->batch;
	int64		rows;

	op->holds = false;
	op->due_first = 0;
	op->due_last = SX_KEY_GROUPS - 1;
	if (run->waits.op == op->plan->id)
	{
		take_due(run, op, run->waits.group, run->waits.rows);
		run->waits.op = -1;
	}
	else if (run->waits.op >= 0 || batch->due.op >= 0)
		op->holds = true;
	else if (op->routine->due != NULL &&
			 (rows = op->routine->due(op)) / DUE_IN_ONE_GO > batch->max_due)
	{
		rows = rows / SX_KEY_GROUPS + 1;
		if (run->operator_rows == 0 && !sources_have_rows(batch))
			take_due(run, op, 0, rows);
		else
		{
			op->holds = true;
			batch->due = (SxDue) {op->plan->id, 0, rows};
		}
	}
	if (op->holds)
		op->evict = op->late;
}

/* From the stage of its first input to that of its last; first is the former's number. */
static void
run_operator(Run *run, SxOperator *op, int first)
{
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = operator_context,
		.arg = (void *) op->plan,
	};

	error_context_stack = &context;
	op->batch = run->batch;
	op->late = watermark_at(op->plan, run->batch->late);
	op->evict = watermark_at(op->plan, run->batch->evict);
	allot_due(run, op);
	op->progress = &run->batch->operators[op->plan->id];
	op->progress->name = op->plan->spark_name;
	op->out = NULL;
	op->nout = 0;
	op->retracted = run->exec->touched != NULL && run->exec->plan->retracts ?
		tuplestore_begin_heap(false, false, work_mem) : NULL;
	op->nretracted = 0;
	op->fresh = false;
	op->state_rows = -1;
	op->pipe = pipe_to_result(run, op->plan);
	if (op->pipe != NULL)
		run->piped_from = op;
	else
		op->out = tuplestore_begin_heap(false, false, work_mem);
	op->routine->begin(op);
	for (int i = 0; i < op->plan->ninputs; i++)
		run_segment(run, first + i, op);
	op->routine->finish(op);
	op->progress->rows_out = op->nout;
	op->progress->rows_total = op->state_rows >= 0 ? op->state_rows :
		sx_state_rows(run->exec->state, op->plan->id);
	error_context_stack = context.previous;

	if (op->pipe != NULL)
	{
		sx_segment_pipe_end(op->pipe);
		return;
	}
	sx_segment_name_rows(run->env, psprintf(SX_OP_ENR_FORMAT, op->plan->id), op->plan->output,
						 op->out, op->nout);
	run->operator_rows += op->nout;
}

static void
begin_result(Run *run)
{
	SxResult   *result = run->result;

	result->batch_id = run->batch->batch_id;
	result->desc = run->exec->plan->result;
	result->rows = tuplestore_begin_heap(false, false, Max(work_mem, RESULT_MEMORY));
	result->nrows = 0;
	result->fresh = result->split_fresh ?
		tuplestore_begin_heap(false, false, Max(work_mem, RESULT_MEMORY)) : NULL;
	result->nfresh = 0;
	result->gone = NULL;
	result->gone_desc = NULL;
	result->ngone = 0;
}

/* The same for the keys of rows that are no more: they stand in the place of the operator's rows. */
static void
touch_retracted(Run *run)
{
	const SxPlan *plan = run->exec->plan;

	for (int i = 0; i < plan->noperators; i++)
	{
		const SxOperator *op = run->exec->operators[i];
		QueryEnvironment *env;

		if (op->retracted == NULL || op->nretracted == 0)
			continue;
		env = create_queryEnv();
		sx_segment_name_rows(env, psprintf(SX_OP_ENR_FORMAT, op->plan->id), op->plan->output,
							 op->retracted, op->nretracted);
		sx_segment_run(run->exec->touched, env, op->nretracted, sx_gone_touch, run->gone);
	}
}

static void
run_last(Run *run)
{
	SxExec	   *exec = run->exec;
	SxResult   *result = run->result;
	int			last = exec->plan->nstages - 1;
	const SxPlanStage *stage = &exec->plan->stages[last];

	if (run->piped_from != NULL || !must_run(run, stage))
		return;
	if (exec->touched != NULL)
		run->gone = sx_gone_begin(exec->plan, exec->touched_desc);
	sx_segment_run(exec->segments[last], run->env, guess_rows(run, stage), receive_result, run);
	if (run->gone != NULL)
	{
		sx_segment_run(exec->touched, run->env, run->operator_rows, sx_gone_touch, run->gone);
		touch_retracted(run);
		result->gone = sx_gone_end(run->gone, &result->ngone);
		result->gone_desc = exec->touched_desc;
	}
}

/* What the streams gave this time is the guess for the next. */
static void
learn_rows(SxExec *exec, const SxBatchSources *sources)
{
	double		rows = 0;

	for (int i = 0; i < sources->n; i++)
	{
		const SxBatchSource *source = &sources->sources[i];

		if (sx_batch_source_has_rows(source) && !source->counted)
			return;
		if (sx_batch_source_has_rows(source))
			rows += source->rows;
	}
	if (rows > 0)
		exec->stream_rows = rows;
}

/* The store doesn't keep books per operator: memory is split by rows. */
static void
share_memory(Run *run)
{
	int64		memory;
	int64		rows = 0;
	const SxPlan *plan = run->exec->plan;

	for (int i = 0; i < plan->noperators; i++)
		rows += run->batch->operators[i].rows_total;
	if (rows == 0)
		return;
	memory = sx_state_memory_used(run->exec->state);
	for (int i = 0; i < plan->noperators; i++)
	{
		SxOperatorProgress *progress = &run->batch->operators[i];

		progress->memory_bytes = (double) memory * progress->rows_total / rows;
	}
}

static void
end_rows(SxOperator *op)
{
	if (op->out != NULL)
		tuplestore_end(op->out);
	if (op->retracted != NULL)
		tuplestore_end(op->retracted);
}

void
sx_exec_run(SxExec *exec, SxExecBatch *batch, SxResult *result)
{
	const SxPlan *plan = exec->plan;
	Run			run = {.exec = exec, .batch = batch, .result = result, .waits = batch->due};

	run.env = create_queryEnv();
	sx_segment_name_rows(run.env, SX_BATCH_ENR, CreateTemplateTupleDesc(0), batch->sources, 0);
	sx_markers_begin(batch->markers, plan->nwatermarks - plan->first_marker,
					 batch->latest_allowed);
	begin_result(&run);
	batch->stages = palloc0(sizeof(SxStageRows) * plan->nstages);
	batch->due.op = -1;
	for (int i = 0; plan->stages[i].op != NULL; i += plan->stages[i].op->ninputs)
		run_operator(&run, exec->operators[plan->stages[i].op->id], i);
	run_last(&run);
	batch->stages[plan->nstages - 1].rows = result->nrows;
	sx_markers_end();
	for (int i = 0; i < plan->noperators; i++)
		end_rows(exec->operators[i]);
	learn_rows(exec, batch->sources);
	if (plan->stateful)
		share_memory(&run);
}

TimestampTz
sx_exec_next_time(SxExec *exec)
{
	TimestampTz next = DT_NOEND;

	for (int i = 0; exec != NULL && i < exec->plan->noperators; i++)
	{
		SxOperator *op = exec->operators[i];

		if (op->routine->next_time != NULL)
			next = Min(next, op->routine->next_time(op));
	}
	return next;
}

/* Everything of a batch lies in its memory context but the markers' cells. */
void
sx_exec_abort(SxExec *exec)
{
	sx_markers_end();
	for (int i = 0; i < exec->plan->noperators; i++)
		if (exec->operators[i]->routine->abort != NULL)
			exec->operators[i]->routine->abort(exec->operators[i]);
}

void
sx_exec_close(SxExec *exec)
{
	sx_exec_abort(exec);		/* it may be in the middle of a batch */
}

static QueryEnvironment *
explain_environment(const SxPlan *plan)
{
	QueryEnvironment *env = create_queryEnv();

	for (int i = 0; i < plan->noperators; i++)
		sx_segment_name_rows(env, psprintf(SX_OP_ENR_FORMAT, i), plan->operators[i]->output,
							 tuplestore_begin_heap(false, false, work_mem), FIRST_GUESS);
	return env;
}

static List *
explain_segment(const SxPlanStage *stage, QueryEnvironment *env, List *lines)
{
	SxSegment  *segment = sx_segment_make(stage->segment, NULL, NULL);
	const SxPlanOperator *op = stage->op;
	ListCell   *cell;

	if (op != NULL && op->ninputs > 1)
		lines = lappend(lines, psprintf("  %s segment:",
										sx_operator_routine(op->kind)->inputs[stage->input]));
	else
		lines = lappend(lines, pstrdup("  segment:"));
	foreach(cell, sx_segment_explain(segment, env, FIRST_GUESS))
		lines = lappend(lines, psprintf("    %s", (char *) lfirst(cell)));
	return lines;
}

/* From the sink down to the streams, as EXPLAIN shows plans. */
List *
sx_exec_explain(const SxPlan *plan, char *const *states)
{
	QueryEnvironment *env = explain_environment(plan);
	List	   *lines = NIL;

	lines = lappend(lines, psprintf("Result, output mode %s", sx_output_mode_name(plan->mode)));
	lines = explain_segment(&plan->stages[plan->nstages - 1], env, lines);
	for (int last = plan->nstages - 2; last >= 0;)
	{
		const SxPlanOperator *op = plan->stages[last].op;
		const SxOperatorRoutine *routine = sx_operator_routine(op->kind);
		int			first = last - op->ninputs + 1;

		lines = lappend(lines, psprintf("Operator %d: %s", op->id, routine->name));
		lines = routine->explain(plan, op, lines);
		lines = lappend(lines, psprintf("  state: %s", states[op->id]));
		for (int i = first; i <= last; i++)
			lines = explain_segment(&plan->stages[i], env, lines);
		last = first - 1;
	}
	return lines;
}
