/*
 * engine.c
 *		Opens a query, takes a step, forgets a failed batch, closes.
 *
 *	 step:	due? ── reason to look? ── batch.c: choose, run, commit
 *			  │            │                     │
 *			  └── idle     └── idle              └── publish, maintain the state
 *
 * Nothing waits here: the worker does, until someone wakes it or next_time.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/compat.h"
#include "base/errors.h"
#include "engine/query_engine.h"
#include "registry/failure.h"

/* Even if a wake-up got lost, a query looks for rows this often. */
#define SAFETY_LOOK_US		(5 * USECS_PER_SEC)

/* Whoever gives rows back from the quarantine and has not ended is looked after so often. */
#define RETURNS_LOOK_US		(100 * 1000)

/* State maintenance in one step at most; the rest comes with the next ones. */
#define MAINTAIN_STEPS		4
#define MAINTAIN_STEPS_REALTIME	1	/* rows that come meanwhile wait */

/* Adds the query and batch to any message; notes on the way why it failed. */
static void
error_context(void *arg)
{
	SxEngine   *engine = arg;
	int			code = geterrcode();

	if (code == ERRCODE_OUT_OF_MEMORY || code == ERRCODE_PROGRAM_LIMIT_EXCEEDED)
		engine->out_of_memory = true;
	if (engine->query == NULL)
		return;
	if (engine->running_batch >= 0)
		errcontext("streaming query \"%s\", batch %lld", engine->query->name,
				   (long long) engine->running_batch);
	else
		errcontext("streaming query \"%s\"", engine->query->name);
}

void
sx_engine_push_context(SxEngine *engine, ErrorContextCallback *callback)
{
	callback->callback = error_context;
	callback->arg = engine;
	callback->previous = error_context_stack;
	error_context_stack = callback;
}

static void
pop_error_context(ErrorContextCallback *callback)
{
	error_context_stack = callback->previous;
}

/* ---- open ---- */

SxEngine *
sx_engine_make(SxQuerySlot *slot)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamx query",
												  ALLOCSET_DEFAULT_SIZES);
	SxEngine   *engine = MemoryContextAllocZero(context, sizeof(SxEngine));

	engine->context = context;
	engine->batch_context = AllocSetContextCreate(context, "streamx batch",
												  ALLOCSET_DEFAULT_SIZES);
	for (int i = 0; i < lengthof(engine->positions); i++)
		engine->positions[i].context = AllocSetContextCreate(context, "streamx position",
															 ALLOCSET_SMALL_SIZES);
	engine->at = &engine->positions[0];
	engine->slot = slot;
	engine->running_batch = -1;
	engine->handed = engine->published = engine->noted = engine->noting = -1;
	return engine;
}

TimestampTz
sx_engine_now(const SxEngine *engine)
{
	return engine->in_session ? engine->clock : GetCurrentTransactionStartTimestamp();
}

SxEngine *
sx_engine_open(int64 query_id, SxQuerySlot *slot)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	SxEngine   *engine = sx_engine_make(slot);
	ErrorContextCallback callback;

	sx_engine_push_context(engine, &callback);
	PG_TRY();
	{
		sx_engine_start(engine, query_id);
	}
	PG_CATCH();
	{
		sx_engine_close(engine, false);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pop_error_context(&callback);
	MemoryContextSwitchTo(oldcontext);
	return engine;
}

/* ---- step ---- */

static bool
source_due(SxEngine *engine, TimestampTz now)
{
	for (int i = 0; i < engine->nsources; i++)
	{
		const SxSourceRoutine *routine = engine->sources[i]->routine;

		if (routine->next_time != NULL &&
			routine->next_time(engine->sources[i], engine->at->offsets[i]) <= now)
			return true;
	}
	return false;
}

/*
 * A look costs a transaction and a snapshot; this costs nothing.  Commits are
 * counted after their rows became visible, so a count read before a look that
 * found nothing covers everything up to it.
 */
static bool
reason_to_look(SxEngine *engine, uint64 asked, uint64 commits, TimestampTz now)
{
	return !engine->looked || sx_search_active(engine) || engine->returns_locked ||
		commits != engine->seen_commits ||
		asked != pg_atomic_read_u64(&engine->slot->drained) ||
		sx_batch_watermark_owes(engine, engine->at, now) ||
		source_due(engine, now);
}

/*
 * Somebody may have committed rows without waking us (COMMIT PREPARED does), but
 * not without a transaction: while none ends in the whole server, nothing has come.
 */
static bool
safety_look(SxEngine *engine, uint64 completed, TimestampTz now)
{
	if (now < engine->last_look + SAFETY_LOOK_US &&
		now >= engine->last_look)	/* or the clock went back */
		return false;
	engine->last_look = now;
	return completed != engine->seen_completed;
}

/*
 * Spills, snapshots and rotation of the state, in transactions of their own.
 * Only values whose commit is on disk may reach the store: after a crash the
 * store must not know more than the checkpoint.  Their own commits need no flush:
 * if the last ones are lost, the log is as it was before them, and the next
 * batch's commit writes them out anyway.  (One that drops files is flushed by
 * the server all the same.)
 */
static void
maintain_state(SxEngine *engine)
{
	bool		more = true;
	int			steps = engine->query->trigger == SX_TRIGGER_REALTIME ?
		MAINTAIN_STEPS_REALTIME : MAINTAIN_STEPS;

	if (engine->state == NULL || !sx_state_needs_maintenance(engine->state))
		return;
	XLogFlush(engine->commit_lsn);
	for (int i = 0; more && i < steps; i++)
	{
		CHECK_FOR_INTERRUPTS();
		engine->maintaining = true;
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_LOCAL, true, 0, false);
		PushActiveSnapshot(GetTransactionSnapshot());
		more = false;
		sx_state_maintain(engine->state, &more);
		PopActiveSnapshot();
		CommitTransactionCommand();
		engine->maintaining = false;
	}
}

/* Everything that was there has been processed; false: but not all is in its sink. */
static bool
drained(SxEngine *engine, uint64 asked)
{
	SxTriggerKind trigger = engine->query->trigger;

	if (engine->npending > 0)
		return false;
	sx_publish_settle(engine, pg_atomic_read_u64(&engine->slot->drained) != asked ||
					  trigger == SX_TRIGGER_AVAILABLE_NOW || trigger == SX_TRIGGER_ONCE);
	if (pg_atomic_read_u64(&engine->slot->drained) != asked)
	{
		pg_atomic_write_u64(&engine->slot->drained, asked);
		ConditionVariableBroadcast(&engine->slot->changed);
	}
	return true;
}

/* A look found nothing, or there was no reason for one. */
static SxStep
nothing_to_do(SxEngine *engine, uint64 asked)
{
	SxTriggerKind trigger = engine->query->trigger;

	if (!drained(engine, asked))
		return SX_STEP_IDLE;
	if (trigger == SX_TRIGGER_AVAILABLE_NOW || trigger == SX_TRIGGER_ONCE)
	{
		engine->finished = true;
		return SX_STEP_FINISHED;
	}
	return SX_STEP_IDLE;
}

static SxStep
step(SxEngine *engine)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		asked;
	uint64		commits;
	uint64		completed;
	bool		ran = false;

	if (engine->finished)
		return SX_STEP_FINISHED;
	if (engine->state_lost)
	{
		sx_engine_close_state(engine, false);
		sx_engine_open_state(engine);
	}
	if (sx_publish_blocked(engine))
	{
		sx_publish_pending(engine);
		if (sx_publish_blocked(engine))
			return SX_STEP_BLOCKED;
	}
	if (!sx_search_active(engine) && !sx_trigger_due(engine, now))
	{
		sx_publish_pending(engine);
		return SX_STEP_IDLE;
	}

	/* Also when there is no reason to look: the next tick is to be waited for. */
	sx_trigger_fired(engine, now);

	/* Both before the look: what comes later is seen by the next one. */
	asked = pg_atomic_read_u64(&engine->slot->asked);
	commits = pg_atomic_read_u64(&sx_shared->stream_commits);
	completed = sx_completed_transactions();
	pg_read_barrier();
	if (!engine->ran_once &&
		(reason_to_look(engine, asked, commits, now) || safety_look(engine, completed, now)))
	{
		if (engine->query->trigger == SX_TRIGGER_AVAILABLE_NOW && engine->stop_at == NULL)
			sx_choose_freeze(engine);
		engine->last_look = now;
		engine->seen_commits = commits;
		engine->seen_completed = completed;
		sx_latency_look(engine);
		ran = sx_batch_run(engine);
		if (!ran)
			sx_latency_nothing(engine);
		engine->looked = !ran;
	}
	sx_trigger_looked(engine, now, ran);
	sx_publish_pending(engine);
	maintain_state(engine);
	if (!ran && engine->loading)
		return SX_STEP_IDLE;	/* its source wakes us */
	if (!ran)
		return nothing_to_do(engine, asked);
	engine->ran_once = engine->query->trigger == SX_TRIGGER_ONCE && engine->at->due.op < 0;
	if (!engine->found_rows && engine->at->due.op < 0 &&
		engine->query->trigger != SX_TRIGGER_AVAILABLE_NOW)
		(void) drained(engine, asked);	/* timers may ask for batches for ever */
	return SX_STEP_RAN;
}

bool
sx_engine_loading(const SxEngine *engine)
{
	return engine->loading;
}

SxStep
sx_engine_step(SxEngine *engine)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ErrorContextCallback callback;
	SxStep		result;

	sx_engine_push_context(engine, &callback);
	engine->out_of_memory = false;
	result = step(engine);
	pop_error_context(&callback);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(engine->batch_context);
	return result;
}

TimestampTz
sx_engine_next_time(SxEngine *engine)
{
	TimestampTz next = sx_trigger_next_time(engine);

	/* No look is taken any more, or not now: the time of the next one may have passed. */
	if (sx_publish_blocked(engine) || engine->ran_once)
		return sx_publish_next_time(engine);
	if (next == DT_NOBEGIN)
	{
		/* No tick to wait for: the next row that nobody announces. */
		next = engine->last_look + SAFETY_LOOK_US;
		for (int i = 0; i < engine->nsources; i++)
		{
			const SxSourceRoutine *routine = engine->sources[i]->routine;

			if (routine->next_time != NULL)
				next = Min(next, routine->next_time(engine->sources[i],
													engine->at->offsets[i]));
		}
		next = Min(next, sx_batch_watermark_idle_time(engine));
		if (engine->returns_locked)
			next = Min(next, engine->last_look + RETURNS_LOOK_US);
		next = Min(next, sx_exec_next_time(engine->exec));
	}
	return Min(next, sx_publish_next_time(engine));
}

/* ---- abort and close ---- */

/* In a transaction of its own; that it fails too must not hide the first error. */
static void
write_down(SxEngine *engine, const ErrorData *error)
{
	PG_TRY();
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		sx_failure_append(engine->query->id, error, engine->running_batch, NULL);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
	}
	PG_END_TRY();
}

/*
 * An error between the start of COMMIT and the moment when the state has the
 * batch: if it is committed, nothing in this process may go on as if it were not.
 */
static void
exit_if_committed(SxEngine *engine, const ErrorData *error)
{
	if (!TransactionIdIsValid(engine->commit_xid) ||
		TransactionIdDidAbort(engine->commit_xid))
		return;
	write_down(engine, error);
	ereport(FATAL,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("worker of streaming query \"%s\" ends: an error came after a batch was committed",
					engine->query->name),
			 errdetail("The next worker goes on after the batch, from what the checkpoint says.")));
}

void
sx_engine_abort(SxEngine *engine, const ErrorData *error)
{
	if (engine->commit_started)
		exit_if_committed(engine, error);
	engine->commit_started = false;
	engine->layout_recorded = false;
	engine->running_batch = -1;
	engine->next = NULL;
	engine->looked = false;
	if (engine->exec != NULL)
		sx_exec_abort(engine->exec);
	if (engine->state != NULL)
		sx_state_abort(engine->state);

	/*
	 * Memory can run out in the middle of anything, also of what an abort does not
	 * undo (a grown hash table, a half loaded cell): the state is made again.
	 */
	if (engine->maintaining || error->sqlerrcode == ERRCODE_OUT_OF_MEMORY)
		engine->state_lost = true;
	engine->maintaining = false;

	if (engine->out_of_memory)
		sx_choose_less(engine);
	engine->batch = NULL;
	MemoryContextReset(engine->batch_context);
}

bool
sx_engine_searching(const SxEngine *engine)
{
	return sx_search_active(engine);
}

void
sx_engine_close(SxEngine *engine, bool clean)
{
	sx_engine_close_state(engine, clean);
	for (int i = 0; i < engine->nsources; i++)
		if (engine->sources[i] != NULL)
			engine->sources[i]->routine->close(engine->sources[i]);
	if (engine->sink != NULL)
		engine->sink->routine->close(engine->sink);
	MemoryContextDelete(engine->context);
}
