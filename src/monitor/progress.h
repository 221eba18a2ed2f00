/*
 * progress.h
 *		What one batch counts.  Operators and sources fill the struct they are
 *		handed; they don't know who shows it (operations 3).
 */
#ifndef SX_MONITOR_PROGRESS_H
#define SX_MONITOR_PROGRESS_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"

typedef struct SxOperatorProgress
{
	const char *name;			/* Spark's: stateStoreSave, globalLimit, ... */
	int64		rows_total;		/* state rows after the batch */
	int64		rows_updated;
	int64		rows_removed;
	int64		rows_late;		/* input rows dropped by the watermark (D7) */
	int64		rows_partly_late;	/* not among those: taken, but for what was closed before */
	int64		rows_duplicate;	/* dropped by a dedup operator */
	bool		is_dedup;		/* it has rows_duplicate to show, also 0 */
	int64		rows_no_window;	/* NULL or infinite event time, or no gap: in no window */
	int64		rows_out;
	int64		rows_taken;		/* into the state, or what is made of it */
	int64		rows_refused;	/* behind a LIMIT; or without anything to match */
	int64		memory_bytes;
	int64		commit_us;
} SxOperatorProgress;

typedef struct SxSourceProgress
{
	const char *description;	/* 'stream[clicks]' */
	char	   *start_offset;	/* JSON text or NULL */
	char	   *end_offset;
	char	   *newest_offset;	/* JSON text: where the source ends; NULL: not known */
	char	   *metrics;		/* JSON of an object; NULL: none */
	int64		rows;			/* rows of the range, once per reference */
	int64		bytes;
	int64		quarantined_rows;	/* of those: put aside */
	int64		dropped_rows;	/* not among those: malformed, by mode 'dropmalformed' */
} SxSourceProgress;

/*
 * The books of a batch: a node for each source, segment and operator. In each of
 * them in + made + multiplied is the sum of all others, and what comes out of one
 * goes into another.
 */
typedef enum SxFlowCount
{
	SX_ROWS_IN,
	SX_ROWS_MADE,				/* results of state */
	SX_ROWS_MULTIPLIED,			/* by joins with tables, and unnesting */
	SX_ROWS_OUT,
	SX_ROWS_FILTERED,
	SX_ROWS_LATE,
	SX_ROWS_DUPLICATE,
	SX_ROWS_NO_WINDOW,
	SX_ROWS_REFUSED,			/* behind a LIMIT; or never to match in a join */
	SX_ROWS_QUARANTINED,
	SX_ROWS_DROPPED,			/* malformed */
	SX_ROWS_TAKEN,				/* into state */
	SX_FLOW_COUNTS
} SxFlowCount;

typedef struct SxFlowNode
{
	const char *kind;			/* source, segment, operator */
	int			number;
	int64		rows[SX_FLOW_COUNTS];
} SxFlowNode;

/* Since the query began. */
typedef struct SxFlowTotals
{
	int64		late;			/* for all or some of their windows */
	int64		quarantined;
	int64		dropped;
} SxFlowTotals;

#define SX_LATENCY_PERCENTILES	5	/* P0, P50, P90, P95, P99 */

typedef struct SxProgress
{
	int64		batch_id;
	TimestampTz trigger_start;
	TimestampTz batch_timestamp;	/* what now() is in the batch */
	TimestampTz watermark;		/* the one this batch evicted by; SX_TIME_UNSET */
	bool		has_watermark;	/* the query has a watermark at all */
	TimestampTz event_min;		/* over the first watermark input; SX_TIME_UNSET if no row */
	TimestampTz event_max;
	double		event_sum;		/* microseconds, for the average */
	int64		event_rows;
	int64		input_rows;
	int64		quarantined_rows;	/* of the input: put aside */
	int64		dropped_rows;	/* malformed, not among the input rows */
	int			nnodes;
	SxFlowNode *nodes;
	SxFlowTotals totals;
	int64		output_rows;
	int64		wal_bytes;
	int			noperators;		/* nearest the sink first */
	SxOperatorProgress *operators;
	int			nsources;
	SxSourceProgress *sources;
	const char *sink_description;
	/* microseconds */
	int64		us_latest_offset;
	int64		us_planning;
	int64		us_add_batch;	/* run the plan and write the sink */
	int64		us_state;		/* prepare the state changes */
	int64		us_commit;
	int64		us_total;
	/* of the batches before this one, lately; trigger realtime */
	bool		has_latencies;
	double		processing_ms[SX_LATENCY_PERCENTILES];
	double		queuing_ms[SX_LATENCY_PERCENTILES];
	double		end_to_end_ms[SX_LATENCY_PERCENTILES];
} SxProgress;

/* Spark's StreamingQueryProgress as JSON text (operations 3). */
extern char *sx_progress_to_json(const SxProgress *progress, const char *query_name,
								 const char *incarnation, const char *run_id,
								 TimestampTz previous_trigger_start);

/* The totals in such a text; zeros if it has none. */
extern void sx_progress_read_totals(const char *json, SxFlowTotals *totals);

#endif
