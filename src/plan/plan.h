/*
 * plan.h
 *		A SELECT over streams becomes a streaming plan, or a refusal that
 *		explains itself.
 *
 * The stored Query of the view is cut at its stateful operators. What lies
 * between two cuts is a segment: an ordinary Query, planned and run by
 * PostgreSQL. Stage i runs its segment over the batch's stream rows and over the
 * outputs of earlier operators (ephemeral named relations "streamx op <id>"),
 * and feeds its operator; the last stage has none and gives the result. An
 * operator with several inputs has a stage for each of them; these follow each
 * other, in the order of the inputs.
 *
 * The tree comes from the query alone, never from costs: operator ids and
 * layouts are the same at every start (design section 4).
 */
#ifndef SX_PLAN_PLAN_H
#define SX_PLAN_PLAN_H

#include "access/tupdesc.h"
#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"

#include "plan/transform.h"
#include "registry/query.h"
#include "time/window.h"

#define SX_OP_ENR_FORMAT	"streamx op %d"

typedef enum SxOperatorKind
{
	SX_OPERATOR_AGGREGATE,
	SX_OPERATOR_SESSION,		/* aggregate over session windows */
	SX_OPERATOR_DEDUP,
	SX_OPERATOR_JOIN,
	SX_OPERATOR_TRANSFORM,
	SX_OPERATOR_LIMIT
} SxOperatorKind;

/* How the event time of an aggregate's key is found in its input row. */
typedef enum SxKeyTime
{
	SX_KEY_TIME_NONE,			/* no key has event time: never late, never evicted */
	SX_KEY_TIME_RAW,			/* key is the event time: late and evicted by t <= wm */
	SX_KEY_TIME_RANGE,			/* key is a tstzrange made below: by upper(range) <= wm */
	SX_KEY_TIME_WINDOW,			/* input is the event time; the operator assigns windows */
	SX_KEY_TIME_SESSION			/* input is the event time; the operator merges sessions */
} SxKeyTime;

typedef struct SxPlanKey
{
	AttrNumber	input;			/* column of the segment's row */
	Oid			type;			/* of the key as the output shows it */
	int32		typmod;
	Oid			collation;
	Oid			eq_operator;
	char	   *name;			/* for messages */
} SxPlanKey;

typedef enum SxAggStrategy
{
	SX_AGG_TRANSITION,			/* state is the transition value, of a type that can be written */
	SX_AGG_SERIALIZE,			/* internal, with serial, deserial and combine functions */
	SX_AGG_COLLECT				/* state is the list of arguments, run when a result is due */
} SxAggStrategy;

typedef struct SxPlanAggregate
{
	Aggref	   *aggref;			/* argument expressions are Vars over the input row (varno OUTER_VAR) */
	SxAggStrategy strategy;
	bool		combines;		/* two states make one by its combine function */
	int			ninputs;		/* direct and ordinary arguments and ORDER BY columns, in aggref->args order */
	AttrNumber *inputs;			/* columns of the segment's row for aggref->args */
	int			ndirect;
	AttrNumber *direct;			/* columns for aggref->aggdirectargs */
	AttrNumber	filter;			/* column of the FILTER condition (boolean), 0: none */
} SxPlanAggregate;

typedef enum SxJoinType
{
	SX_JOIN_INNER,
	SX_JOIN_LEFT,
	SX_JOIN_RIGHT,
	SX_JOIN_FULL,
	SX_JOIN_SEMI,				/* EXISTS, IN: the left row, once */
	SX_JOIN_ANTI				/* NOT EXISTS: the left row that never matched */
} SxJoinType;

typedef struct SxPlanSide
{
	TupleDesc	row;			/* of its segment */
	List	   *origins;		/* char *: where its columns come from, for the layout */
	int			nkeys;
	SxPlanKey  *keys;			/* of both sides in the same order, of the same types */
	AttrNumber	filter;			/* boolean column: what ON asks of this side alone; 0: nothing */
	bool		outer;			/* a row that never matched comes out */

	/* its event time, by which rows are late; 0: none */
	AttrNumber	event;
	bool		event_is_range; /* it is a window: its end counts */

	/* column by which rows go: when it is <= watermark + bound; 0: they stay */
	AttrNumber	expiry;
	bool		expiry_is_range;
	int64		bound;			/* microseconds */
	AttrNumber	bound_by;		/* column of the other side: where rows match, at most expiry - bound; 0: none */
} SxPlanSide;

typedef struct SxPlanJoin
{
	SxJoinType	type;
	SxPlanSide	sides[2];		/* left, right */
	List	   *condition;		/* besides the keys: implicit AND; Vars are OUTER_VAR (left), INNER_VAR (right) */
	bool		expiry_in_key;	/* rows of one key go together */
} SxPlanJoin;

typedef struct SxPlanOperator
{
	uint16		id;				/* 0 is the operator nearest the sink, as in Spark */
	SxOperatorKind kind;
	const char *spark_name;		/* stateStoreSave, globalLimit */
	int			ninputs;
	TupleDesc	input;			/* row of its segment, where it has one input */
	TupleDesc	output;			/* keys, then aggregate results */

	/* The watermark is behind the query's by this, microseconds: of what it reads, and of what it gives. */
	int64		lag;
	int64		output_lag;

	/* aggregate, session */
	int			nkeys;
	SxPlanKey  *keys;
	int			time_key;		/* index of the key with event time, or -1 */
	SxKeyTime	key_time;
	SxWindow	window;			/* SX_KEY_TIME_WINDOW */
	bool		panes;			/* the state holds panes, windows are combined from them */
	bool		watermarked;	/* the time key has a watermark: late rows drop, groups expire.
								 * False in complete mode: windows, but never late nor evicted;
								 * then every expiry is SX_STATE_NEVER */
	int			naggregates;
	SxPlanAggregate *aggregates;

	/* session: an aggregate with SX_KEY_TIME_SESSION */
	int64		gap;			/* microseconds; 0: each row has its own */
	AttrNumber	gap_input;		/* then: column of it, an interval */

	/* dedup: output is the input, rows of keys that were seen before left out */
	AttrNumber	event_input;	/* column with the event time by which rows are late; 0: none */
	bool		event_is_range; /* it is a window: its end counts */
	bool		within_watermark;	/* keys go when their first row is event_delay behind the watermark */
	int64		event_delay;	/* microseconds */

	/* join: output is the left row, then (not semi, anti) the right one */
	SxPlanJoin *join;

	/* transform: output is the key, then the handler's columns; event_input as for dedup */
	SxPlanTransform *transform; /* NULL: another kind */

	/* limit */
	int64		limit;
} SxPlanOperator;

/* What a segment may do to the number of its rows. */
typedef enum SxRowFlow
{
	SX_FLOW_PASSES,				/* as many come out as go in */
	SX_FLOW_FILTERS,			/* not more */
	SX_FLOW_FREE				/* it joins, unnests, or stands above a complete result */
} SxRowFlow;

/* Its rows are results of groups, not rows that it let through. */
static inline bool
sx_operator_aggregates(const SxPlanOperator *op)
{
	return op->kind == SX_OPERATOR_AGGREGATE || op->kind == SX_OPERATOR_SESSION;
}

typedef struct SxPlanStage
{
	Query	   *segment;		/* for QueryRewrite (views without streams are unexpanded) and the planner */
	bool		reads_stream;	/* has a stream among its leaves */
	TupleDesc	row;			/* what the segment gives */
	Bitmapset  *keys;			/* its columns that must be found again in every batch */
	SxPlanOperator *op;			/* NULL in the last stage */
	int			input;			/* which of the operator's inputs, from 0 */

	/* row_flow.c */
	SxRowFlow	flow;
	int		   *references;		/* by source: how often the segment reads it */
	Bitmapset  *operators;		/* ids of those whose output it reads */
} SxPlanStage;

typedef struct SxPlanSource
{
	Oid			relid;
	int			references;		/* how often the query reads it; each counts as input */
	AttrNumber	event_attnum;	/* its WATERMARK column, 0: none */
	int			watermark_input;	/* index among the watermark inputs, -1: none */
} SxPlanSource;

typedef struct SxPlan
{
	SxOutputMode mode;
	int			nstages;
	SxPlanStage *stages;		/* the last one gives the result */
	int			noperators;
	SxPlanOperator **operators; /* by id */
	int			nsources;
	SxPlanSource *sources;

	/*
	 * Watermark inputs: the sources' columns first, then the watermark() calls
	 * (whose maxima are taken while segments run, see time/marker.h).
	 */
	int			nwatermarks;
	SxWatermarkInput *watermarks;	/* delays; maxima unset */
	int			first_marker;	/* index of the first watermark() call */

	bool		stateful;
	bool		wants_no_data;	/* a raised watermark asks for a no-data batch */
	bool		always_emits;	/* aggregate without GROUP BY: a row in every batch that runs */

	TupleDesc	result;
	int			nkeys;			/* result columns that identify a row (update and complete) */
	AttrNumber *keys;			/* NULL where the keys are not all in the result */
	char	   *keys_missing;	/* then: the grouping column that is missing, for the message */
	char	   *keys_multiplied;	/* or: what may make several rows of one above the aggregation */
	char	   *order_lost;		/* what may bring rows into another order than the stream's; NULL: nothing */
	Query	   *touched;		/* D14: keys of all touched groups, over the operator's output; NULL if not needed */
	bool		retracts;		/* update mode over sessions: windows grow, the rows of the old ones go */

	char	   *layout;			/* text of the state's layout, compared at every start */
	List	   *notices;		/* char *: things create_query should tell */
} SxPlan;

/*
 * Cuts the query; raises ERRCODE_SX_NOT_STREAMABLE or ERRCODE_SX_OUTPUT_MODE
 * with the clause, the reason and a rewrite. The tree is not modified. Result in
 * CurrentMemoryContext.
 */
extern SxPlan *sx_plan_query(const Query *query, SxOutputMode mode);

/* ERRCODE_SX_STATE_SCHEMA naming what differs; silent if the state of layout "was" fits. */
extern void sx_layout_check(const char *query_name, const char *was, const SxPlan *plan);

/* The first thing of one operator that differs, as a sentence; NULL: its state fits. */
extern char *sx_layout_difference(const char *was, const SxPlan *plan, int operator_id);

/* The same of the lines of a handler (transform_layout.h). */
extern char *sx_layout_lines_difference(const char *was, const char *is);

/* Ids of the operators in a layout, and the name of one. */
extern List *sx_layout_operators(const char *layout);
extern char *sx_layout_operator_name(const char *layout, int operator_id);

#endif
