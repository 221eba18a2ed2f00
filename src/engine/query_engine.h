/*
 * query_engine.h
 *		The engine's own struct, shared by the files of this room.
 *
 * A batch changes a copy of the position; the commit makes the copy the
 * position. So a failed batch leaves nothing to undo here.
 */
#ifndef SX_ENGINE_QUERY_ENGINE_H
#define SX_ENGINE_QUERY_ENGINE_H

#include "access/xlogdefs.h"
#include "portability/instr_time.h"
#include "utils/snapshot.h"

#include "checkpoint/batch_record.h"
#include "engine/engine.h"
#include "exec/exec.h"
#include "plan/plan.h"
#include "sink/sink.h"
#include "source/source.h"
#include "state/state_store.h"

typedef struct SxSearch SxSearch;	/* search.c */
typedef struct SxReturns SxReturns;	/* quarantine.c */
typedef struct SxLatencies SxLatencies; /* latency.c */

/* How far the query is: what the last batch record says. */
typedef struct SxPosition
{
	MemoryContext context;		/* holds the offsets */
	int64		batch_id;		/* -1: no batch yet */
	pg_uuid_t	lineage;
	TimestampTz watermark;		/* that this batch evicted by: the next one's late filter */
	TimestampTz next_watermark; /* that the next one evicts by */
	bool		owes_no_data;
	SxDue		due;			/* what waits of what next_watermark made due: the next batch reads nothing */
	int64		last_intent;	/* newest batch with an intent, -1: none */
	SxOffset  **offsets;		/* by source */
	SxWatermarkInput *inputs;	/* as the plan's watermarks */
	SxFlowTotals totals;
} SxPosition;

typedef struct SxBatch SxBatch;

struct SxEngine
{
	/* set when the query is opened */
	MemoryContext context;		/* of all of this */
	MemoryContext batch_context;	/* reset after each commit or abort */
	SxQuery    *query;
	SxPlan	   *plan;
	SxQuerySlot *slot;
	char	   *incarnation;	/* as text */
	char	   *run_id;
	int			nsources;
	SxSource  **sources;		/* in the plan's order */
	Oid		   *input_relids;	/* stream of each watermark input, InvalidOid: a watermark() call */
	SxWatermarkPolicy policy;	/* of the first start */
	int			noperators;
	SxState    *state;			/* NULL: the plan has no operator */
	SxExec	   *exec;
	SxSink	   *sink;			/* NULL: an outside sink that is muted */
	TimestampTz opened_at;

	/* in a session's own transaction (session.c) */
	bool		in_session;
	TimestampTz clock;			/* of the next batch */

	bool		layout_recorded;	/* in the transaction that runs */

	/* how far it is: at, and next while a batch runs */
	SxPosition	positions[2];
	SxPosition *at;
	SxPosition *next;
	TimestampTz *last_moved;	/* by input: when it last had rows (idle_timeout) */
	SxTrimmedPages trimmed;		/* of streamx.batch, to be used again */

	/* the step that runs */
	int64		running_batch;	/* for the error context; -1: none */
	SxBatch    *batch;			/* whose rows are being processed, or NULL */
	bool		commit_started; /* its transaction may have committed */
	TransactionId commit_xid;
	bool		out_of_memory;	/* seen by the error context callback */
	bool		state_lost;		/* maintenance failed: the state must be opened again */
	bool		maintaining;
	int			settings_level;	/* what is SET above it ends with the batch */

	/* option on_error = quarantine */
	bool		writing_sink;	/* an error now comes from the sink */
	SxSearch   *search;			/* the range of the last batch, or the search in it */
	bool		quarantine_full;	/* the error that was raised last says so */

	/* rows given back from the quarantine (quarantine.c) */
	MemoryContext returns_context;	/* holds them; NULL until there are some */
	SxReturns  *returns;		/* of the batch that runs, or is searched; or NULL */
	bool		returns_more;	/* the last look found some, or could not look */
	bool		returns_locked; /* it could not: a requeue() had not ended */
	uint64		returns_seen;	/* seen_commits at the last look that found none */
	TimestampTz returns_look;

	/* when to look and how much to take */
	bool		looked;			/* a look has found nothing since the last batch */
	uint64		seen_commits;	/* of sx_shared->stream_commits at that look */
	uint64		seen_completed;	/* transactions that had ended in the server */
	TimestampTz last_look;
	TimestampTz next_tick;		/* triggers interval and realtime; DT_NOBEGIN: none to wait for */
	int			max_rows;		/* batch_rows, less after out of memory (also of an earlier process) */
	bool		more_waits;		/* the last batch was cut: more was there */
	bool		loading;		/* the last look found rows that are not here yet */
	SxOffset  **stop_at;		/* available_now: frozen at the first step */
	bool		ran_once;		/* once: its batch has run */
	bool		ended_empty;	/* the last batch was one without rows, and nothing is left to be shown */
	bool		found_rows;		/* the last look has, or was not for rows */
	bool		finished;

	/* outbox of an outside sink */
	int64		skip_to;		/* continue_after_sink: id of the next batch; 0: none */
	int			npending;		/* intents that the sink is not known to have */
	int			pending_size;
	int64	   *pending;		/* their batch ids, oldest first */
	int64		handed;			/* newest batch that the sink was given */
	int64		published;		/* newest batch that it has; these four are -1 if there is none */
	int64		noted;			/* newest batch that is deleted from the outbox */
	int64		noting;			/* ... once the running transaction is committed */
	TimestampTz published_at;	/* when published moved last */
	bool		resume;			/* publishing failed: the mark is to be read first */
	TimestampTz publish_at;		/* not before: back-off after a failure */
	int			publish_failures;
	bool		shows_wait;		/* people see what the sink waits for */

	/* counters of this run, and the last commit */
	XLogRecPtr	commit_lsn;
	TimestampTz previous_trigger;	/* start of the trigger before, 0: none */

	/* trigger realtime */
	SxLatencies *latencies;		/* NULL: another trigger */
	TimestampTz waiting_since;	/* first commit that no batch has read yet, 0: not known */
};

/* One batch while it runs; in the batch context. */
struct SxBatch
{
	int64		id;
	TimestampTz timestamp;		/* now() in it */
	bool		fresh;			/* somebody waits for all that there is when it is chosen */
	SxBatchSources sources;		/* ranges; ends NULL in a no-data batch */
	int64		input_rows;
	int64		quarantined;	/* of those: put aside instead of processed */
	bool		joined;			/* rows given back from the quarantine are in it */
	SxOperatorProgress *operators;
	SxStageRows *stages;
	SxResult	result;
	char	   *progress;		/* JSON */
	int64		state_bytes;	/* of changelog */
	bool		has_intent;		/* output for an outside sink waits in the outbox */
	StringInfoData intent;		/* it, until it is handed over; data NULL: not kept */

	/* for the metrics */
	TimestampTz trigger_start;
	instr_time	started;
	int64		us_latest_offset;
	int64		us_add_batch;
	int64		us_state;
	uint64		wal_before;
	int64		wal_bytes;		/* without the commit record */
};

/* engine.c: an engine without anything in it. */
extern SxEngine *sx_engine_make(SxQuerySlot *slot);

/* Errors say which query and batch they are of; undone by the caller. */
extern void sx_engine_push_context(SxEngine *engine, ErrorContextCallback *callback);

/* Processing time: of the transaction that begins a batch, or as the session says. */
extern TimestampTz sx_engine_now(const SxEngine *engine);

/* start.c */
extern void sx_engine_start(SxEngine *engine, int64 query_id);
extern void sx_engine_start_in_session(SxEngine *engine, int64 query_id);
extern void sx_engine_open_state(SxEngine *engine);
extern void sx_engine_record_layout(SxEngine *engine);
extern void sx_engine_layout_committed(SxEngine *engine);
extern void sx_engine_close_state(SxEngine *engine, bool clean);

/* sink_recovery.c: compares the mark of an outside sink with the checkpoint. */
extern SxWanted sx_sink_recover(SxEngine *engine, char **detail);
extern void sx_sink_recovered(SxEngine *engine);

/* batch.c */
extern bool sx_batch_run(SxEngine *engine);
extern bool sx_batch_run_in_session(SxEngine *engine);
extern void sx_batch_accept(SxEngine *engine);
extern SxOffset *sx_batch_copy_offset(SxSource *source, const SxOffset *offset);

/* search.c */
extern bool sx_search_active(const SxEngine *engine);

/* choose.c */
extern void sx_choose_less(SxEngine *engine);
extern void sx_choose_more(SxEngine *engine);
extern bool sx_choose_ranges(SxEngine *engine, SxBatch *batch);
extern bool sx_choose_data_waits(SxEngine *engine, TimestampTz now);
extern void sx_choose_freeze(SxEngine *engine);

/* trigger.c */
extern bool sx_trigger_due(SxEngine *engine, TimestampTz now);
extern void sx_trigger_fired(SxEngine *engine, TimestampTz now);
extern void sx_trigger_looked(SxEngine *engine, TimestampTz began, bool ran);
extern TimestampTz sx_trigger_next_time(SxEngine *engine);

/* batch_watermark.c */
extern bool sx_batch_watermark_owes(SxEngine *engine, const SxPosition *position,
									TimestampTz now);
extern void sx_batch_watermark_begin(SxEngine *engine, SxPosition *position, TimestampTz now);
extern TimestampTz sx_batch_watermark_next(SxEngine *engine, const SxPosition *position,
										   TimestampTz now);
extern TimestampTz sx_batch_watermark_latest_allowed(SxEngine *engine, TimestampTz now);
extern TimestampTz sx_batch_watermark_idle_time(SxEngine *engine);

/* publish.c */
extern void sx_publish_pending(SxEngine *engine);
extern bool sx_publish_blocked(SxEngine *engine);
extern void sx_publish_adopt(SxEngine *engine, int npending, const int64 *pending, int64 mark);
extern void sx_publish_committed(SxEngine *engine, const SxBatch *batch);
extern void sx_publish_note(SxEngine *engine);
extern void sx_publish_note_committed(SxEngine *engine);
extern void sx_publish_settle(SxEngine *engine, bool now);
extern TimestampTz sx_publish_next_time(SxEngine *engine);

/* latency.c: nothing happens unless the trigger is realtime. */
extern void sx_latency_open(SxEngine *engine);
extern void sx_latency_look(SxEngine *engine);
extern void sx_latency_nothing(SxEngine *engine);
extern void sx_latency_note(SxEngine *engine, const SxBatch *batch);
extern void sx_latency_fill(SxEngine *engine, SxProgress *progress);

/* metrics.c */
extern char *sx_metrics_progress(SxEngine *engine, SxBatch *batch);
extern void sx_metrics_opened(SxEngine *engine);
extern void sx_metrics_publish(SxEngine *engine, const SxBatch *batch);

#endif
