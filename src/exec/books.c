/*
 * books.c
 *		The books of a batch: what became of each row.
 *
 * A node for each source, segment and operator. What goes in is counted by who
 * gives it (the scan, the executor, the operator below), what becomes of it by the
 * node itself; so a row that is lost on the way leaves a node that does not balance.
 * Only of a segment is what it filtered the difference; of one that can't, there is
 * none to take, and of one that joins it is net: rows that a join multiplied make up
 * for others that it dropped.
 */
#include "postgres.h"

#include "exec/operator.h"

static SxFlowNode *
add_node(SxFlowNode *nodes, int *n, const char *kind, int number)
{
	SxFlowNode *node = &nodes[(*n)++];

	memset(node, 0, sizeof(*node));
	node->kind = kind;
	node->number = number;
	return node;
}

static int64
rows_given(const SxBatchSource *source)
{
	return source->rows - source->quarantined;
}

static void
note_source(SxFlowNode *node, const SxBatchSource *source, int references)
{
	node->rows[SX_ROWS_IN] = (source->rows + source->dropped) * references;
	node->rows[SX_ROWS_QUARANTINED] = source->quarantined * references;
	node->rows[SX_ROWS_DROPPED] = source->dropped * references;
	node->rows[SX_ROWS_OUT] = rows_given(source) * references;
}

static void
note_segment(SxFlowNode *node, const SxPlanStage *stage, const SxBatchSources *sources,
			 const SxOperatorProgress *operators, const SxStageRows *rows)
{
	int64		in = 0;
	int			op = -1;

	for (int i = 0; i < sources->n; i++)
		in += rows_given(&sources->sources[i]) * stage->references[i];
	while ((op = bms_next_member(stage->operators, op)) >= 0)
		in += operators[op].rows_out;
	node->rows[SX_ROWS_IN] = in;
	node->rows[SX_ROWS_OUT] = rows->rows;
	if (in < rows->rows && stage->flow == SX_FLOW_FREE)
		node->rows[SX_ROWS_MULTIPLIED] = rows->rows - in;
	if (in > rows->rows && rows->stopped)
		node->rows[SX_ROWS_REFUSED] = in - rows->rows;
	else if (in > rows->rows && stage->flow != SX_FLOW_PASSES)
		node->rows[SX_ROWS_FILTERED] = in - rows->rows;
}

static void
note_operator(SxFlowNode *node, const SxOperatorProgress *op, SxOperatorRows rule, int64 in)
{
	node->rows[SX_ROWS_IN] = in;
	node->rows[SX_ROWS_OUT] = op->rows_out;
	node->rows[SX_ROWS_LATE] = op->rows_late;
	node->rows[SX_ROWS_DUPLICATE] = op->rows_duplicate;
	node->rows[SX_ROWS_NO_WINDOW] = op->rows_no_window;
	node->rows[SX_ROWS_REFUSED] = op->rows_refused;
	node->rows[SX_ROWS_TAKEN] = op->rows_taken;
	if (rule == SX_OPERATOR_TAKES)
		node->rows[SX_ROWS_MADE] = op->rows_out;
}

int
sx_exec_books(const SxPlan *plan, const SxBatchSources *sources,
			  const SxOperatorProgress *operators, const SxStageRows *stages,
			  SxFlowNode **nodes)
{
	int64	   *in = palloc0(sizeof(int64) * Max(plan->noperators, 1));
	int			n = 0;

	*nodes = palloc(sizeof(SxFlowNode) * (sources->n + plan->nstages + plan->noperators));
	for (int i = 0; i < sources->n; i++)
		note_source(add_node(*nodes, &n, "source", i), &sources->sources[i],
					plan->sources[i].references);
	for (int i = 0; i < plan->nstages; i++)
	{
		const SxPlanStage *stage = &plan->stages[i];

		note_segment(add_node(*nodes, &n, "segment", i), stage, sources, operators, &stages[i]);
		if (stage->op != NULL)
			in[stage->op->id] += stages[i].rows;
	}
	for (int i = 0; i < plan->noperators; i++)
	{
		SxOperatorRows rule = sx_operator_routine(plan->operators[i]->kind)->rows;

		note_operator(add_node(*nodes, &n, rule == SX_OPERATOR_UNCOUNTED ? "uncounted" : "operator", i),
					  &operators[i], rule, in[i]);
	}
	return n;
}
