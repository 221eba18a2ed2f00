/*
 * cut.h
 *		What the files of plan/ share while a Query is being cut.
 */
#ifndef SX_PLAN_CUT_H
#define SX_PLAN_CUT_H

#include "nodes/parsenodes.h"

#include "plan/plan.h"

typedef struct SxCut
{
	SxOutputMode mode;
	List	   *stages;			/* SxPlanStage *, children first */
	List	   *operators;		/* SxPlanOperator *, by id */
	List	   *notices;
	int64		traced_delay;	/* out of sx_trace: largest delay of a watermark it came to */
} SxCut;

/* What an expression means in event time. */
typedef enum SxTrace
{
	SX_TRACE_NONE,
	SX_TRACE_TIME,				/* an event time with a watermark */
	SX_TRACE_RANGE				/* a window over one */
} SxTrace;

/* cut.c: cuts the query at its stateful operators, in place. */
extern void sx_cut_query(SxCut *cut, Query *query);
extern void sx_cut_subqueries(SxCut *cut, Query *query);

/* cut_aggregate.c, cut_distinct.c, cut.c: take an operator out of one query level. */
extern void sx_cut_aggregate(SxCut *cut, Query *query);
extern void sx_cut_distinct(SxCut *cut, Query *query);
extern void sx_cut_limit(SxCut *cut, Query *query);

/* cut_join.c: joins of streams. */
extern bool sx_joins_streams(SxCut *cut, Query *query);
extern void sx_cut_join(SxCut *cut, Query *query);

/* cut_transform.c: handlers with state. */
extern bool sx_has_transform(const Query *query);
extern void sx_cut_transform(SxCut *cut, Query *query);
/* If the node is a call that nobody took out. */
extern void sx_refuse_transform(const Node *node);
extern SxPlanOperator *sx_cut_new_operator(SxCut *cut, SxOperatorKind kind, const char *spark_name);
/* The segment of an operator with one input, or of the result (op is NULL). */
extern void sx_cut_add_stage(SxCut *cut, Query *segment, SxPlanOperator *op);
/* The next input of an operator with several; nothing else may be added between them. */
extern void sx_cut_add_input(SxCut *cut, Query *segment, SxPlanOperator *op,
							 TupleDesc row, Bitmapset *keys);
/* The operator's output as an entry of a range table. */
extern RangeTblEntry *sx_cut_operator_rte(SxPlanOperator *op);
/* The upper query reads the operator's output and nothing else. */
extern void sx_cut_read_operator(Query *query, SxPlanOperator *op, Node *quals);
/* The same for an operator that lets rows of the level through: its columns are the level's. */
extern void sx_cut_read_rows(Query *query, SxPlanOperator *op);

/* law.c: refuses what would not be the same batch by batch (the law of segments). */
extern void sx_law_check(SxCut *cut, Query *query);
/* Do rows of a stream flow out of this node? (Not: the complete result of an aggregation.) */
extern bool sx_flows(SxCut *cut, Node *node);
extern bool sx_has_aggregation(const Query *query);

/* trace.c */
extern SxTrace sx_trace(SxCut *cut, Query *query, Node *expr);
/* Of an output column of the level; of UNION ALL: all branches must agree. */
extern SxTrace sx_trace_column(SxCut *cut, Query *query, AttrNumber column);
/* The column of an operator's output that is an event time or a window over one; 0: none. */
extern AttrNumber sx_operator_event_column(const SxPlanOperator *op);
/* Of a join's output: one of its event times (the preserved side's), and what a column is. */
extern AttrNumber sx_join_event_column(const SxPlanOperator *op);
extern SxTrace sx_join_trace(const SxPlanOperator *op, AttrNumber column);
extern SxPlanOperator *sx_operator_of_rte(SxCut *cut, const RangeTblEntry *rte);

/*
 * marker_calls.c: watermark() becomes watermark_observe(). Delays are appended to
 * *delays (int64 *). What stands where it means nothing is refused.
 */
extern void sx_marker_check(SxCut *cut, Query *query);
extern void sx_marker_check_segment(Query *segment);
extern void sx_marker_replace(Query *segment, List **delays);
/* The delay of a watermark() call, in microseconds. */
extern int64 sx_watermark_call_delay(const FuncExpr *call);

/* result_key.c: fills keys, keys_missing and touched of the plan. */
extern void sx_result_key_find(SxPlan *plan, SxCut *cut, Query *result);

/* row_order.c: what may bring rows into another order than the stream's; NULL: nothing. */
extern char *sx_row_order_lost(SxCut *cut, Query *result);

/* row_flow.c: fills flow, references and operators of the stages. */
extern void sx_row_flow_find(SxPlan *plan, SxCut *cut);

/* layout.c */
extern char *sx_layout_print(const SxCut *cut);

#endif
