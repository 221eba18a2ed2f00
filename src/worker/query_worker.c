/*
 * query_worker.c
 *		The process of one running query.
 *
 *	 attach to the slot -> connect as the owner -> lock the query -> settings
 *	 loop:  step   ran: again     idle: wait for the latch, or the engine's next time
 *	        error: abort, write it down; again here, in a fresh process, or never
 *	 end:   asked to stop, SIGTERM, or finished: close so that the next start is quick
 *
 * SIGTERM in a batch ends the process at the next CHECK_FOR_INTERRUPTS, between
 * batches it ends it cleanly. SIGINT aborts the batch: a failure like any other,
 * unless the one who stops the query sent it.
 */
#include "postgres.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/wake.h"
#include "engine/engine.h"
#include "registry/query.h"
#include "worker/supervisor.h"
#include "worker/worker.h"

#define LOOK_MS			5000	/* safety look when nobody wakes us */
#define OOM_SCORE_ADJ	"500"

/* A list of these would drive several queries in one process. */
typedef struct QueryWorker
{
	SxWorkerArgs args;
	SxQuerySlot *slot;
	char	   *name;
	int			max_retries;
	bool		has_ticks;		/* interval trigger: idle may mean that a failed batch waits */
	bool		locked;			/* the session lock of the query is ours */
	SxEngine   *engine;
	MemoryContext context;		/* "streamx query": the engine and what it made */
	bool		clean_exit;		/* somebody decided that this process ends */
	bool		detaches_early; /* before the server drops our temporary tables */
	bool		detached;
} QueryWorker;

static QueryWorker worker;

/* Read by the signal handler. */
static volatile sig_atomic_t between_batches = false;
static volatile sig_atomic_t shutdown_requested = false;

static void
handle_sigterm(SIGNAL_ARGS)
{
	int			save_errno = errno;

	shutdown_requested = true;
	if (between_batches)
		SetLatch(MyLatch);
	else
		die(postgres_signal_arg);
	errno = save_errno;
}

/* ---------- entering and leaving ---------- */

static void
detach(int code, Datum arg)
{
	SxQuerySlot *slot = worker.slot;

	if (worker.detached)
		return;
	worker.detached = true;
	if (!worker.clean_exit)
		sx_supervisor_count_death(slot);
	/* A process that ends outside a transaction leaves its session locks to whoever gets its PGPROC. */
	LockReleaseAll(DEFAULT_LOCKMETHOD, true);
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	slot->pid = 0;
	slot->latch = NULL;
	slot->nstreams = 0;
	if (slot->state != SX_RUN_RETRYING)
		slot->state = SX_RUN_NONE;
	LWLockRelease(sx_shared->lock);
	ConditionVariableBroadcast(&slot->changed);
	sx_wake_scheduler(worker.args.database);
}

/* False when the slot is another query's by now, has a worker, or is held. */
static bool
attach(void)
{
	SxQuerySlot *slot = &sx_shared->slots[worker.args.slot];
	SxDatabaseSlot *database;
	bool		ok;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	database = sx_database_find(worker.args.database, false);
	ok = slot->in_use && slot->database == worker.args.database &&
		slot->query_id == worker.args.query_id && slot->pid == 0 &&
		slot->held_by == 0 && !slot->stop_requested &&
		(database == NULL || database->held_by == 0);
	if (ok)
	{
		worker.slot = slot;
		if (slot->started_at != 0)
			slot->restarts++;
		slot->pid = MyProcPid;
		slot->latch = MyLatch;
		slot->owner = worker.args.owner;
		slot->started_at = GetCurrentTimestamp();
		slot->heartbeat = slot->started_at;
		slot->wal_bytes = 0;
		slot->input_rows = 0;
		slot->output_rows = 0;
		sx_uuid_random(&slot->run_id);
		sx_stop_asked = &slot->stop_requested;
		before_shmem_exit(detach, (Datum) 0);
	}
	LWLockRelease(sx_shared->lock);
	if (ok)
		ConditionVariableBroadcast(&slot->changed);
	return ok;
}

/* Better us than the postmaster; the query starts again after the crash. */
static void
raise_oom_score(void)
{
	int			fd = open("/proc/self/oom_score_adj", O_WRONLY);

	if (fd < 0)
		return;
	if (write(fd, OOM_SCORE_ADJ, strlen(OOM_SCORE_ADJ)) < 0)
		elog(DEBUG1, "could not set oom_score_adj: %m");
	close(fd);
}

static void
set_state(SxRunState state)
{
	SxQuerySlot *slot = worker.slot;
	bool		changed;

	SpinLockAcquire(&slot->mutex);
	changed = slot->state != state;
	slot->state = state;
	slot->heartbeat = GetCurrentTimestamp();
	SpinLockRelease(&slot->mutex);
	if (changed)
		ConditionVariableBroadcast(&slot->changed);
}

/* Settings of whoever created the query, then those that a worker needs. */
static void
apply_settings(const SxQuery *query)
{
	ListCell   *lc;

	foreach(lc, query->settings)
	{
		char	   *name = pstrdup(lfirst(lc));
		char	   *equals = strchr(name, '=');

		if (equals == NULL)
			continue;
		*equals = '\0';
		sx_worker_set(name, equals + 1);
	}
	sx_worker_set("statement_timeout", "0");
	sx_worker_set("lock_timeout", "0");
	sx_worker_set("idle_in_transaction_session_timeout", "0");
	sx_worker_set("idle_session_timeout", "0");
#if PG_VERSION_NUM >= 170000
	sx_worker_set("transaction_timeout", "0");
#endif
	sx_worker_set("default_transaction_isolation", "read committed");
	sx_worker_set("default_transaction_read_only", "off");
	sx_worker_set("role", "none");
	sx_worker_set("exit_on_error", "off");	/* it would end the process before the failure is written down */
	sx_worker_set("quote_all_identifiers", "off");	/* names in a layout */
	sx_worker_set("jit", "off");
	sx_worker_set("max_parallel_workers_per_gather", "0");
	sx_worker_set("application_name", psprintf("streamx: %s", query->name));
}

static void
lock_query(const char *name)
{
	if (!sx_query_lock_worker(worker.args.query_id))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another process runs query \"%s\"", name)));
	worker.locked = true;
}

/* Reads the row and locks the query; false: it need not run (any more). */
static bool
prepare(void)
{
	SxQuery    *query;
	bool		run;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	query = sx_query_by_id(worker.args.query_id, true);
	run = query != NULL && query->wanted == SX_WANTED_RUNNING;
	if (run)
	{
		lock_query(query->name);
		apply_settings(query);
		worker.name = MemoryContextStrdup(TopMemoryContext, query->name);
		worker.max_retries = query->options.max_retries;
		worker.has_ticks = query->trigger == SX_TRIGGER_INTERVAL;
	}
	PopActiveSnapshot();
	CommitTransactionCommand();
	return run;
}

/* ---------- one step, and what comes of an error in it ---------- */

static void
drop_engine(bool clean)
{
	SxEngine   *engine = worker.engine;

	worker.engine = NULL;
	if (engine != NULL)
		sx_engine_close(engine, clean);
	MemoryContextReset(worker.context);
}

static void
open_and_step(SxStep *step)
{
	if (!worker.locked)
	{
		StartTransactionCommand();
		lock_query(worker.name);
		CommitTransactionCommand();
	}
	if (worker.engine == NULL)
	{
		set_state(SX_RUN_STARTING);
		MemoryContextSwitchTo(worker.context);
		worker.engine = sx_engine_open(worker.args.query_id, worker.slot);
		/*
		 * Exit callbacks run in reverse: from now on this one comes before the
		 * one that drops temporary tables. That may wait for somebody who drops
		 * what the table "batch" uses, and who waits for us.
		 */
		if (!worker.detaches_early)
			before_shmem_exit(detach, (Datum) 0);
		worker.detaches_early = true;
		set_state(SX_RUN_RUNNING);
	}
	*step = sx_engine_step(worker.engine);
}

/*
 * The outermost level: nothing above could catch. NULL: it went well; else the
 * error, in TopMemoryContext, with its transaction aborted.
 */
static ErrorData *
guarded_step(SxStep *step)
{
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		open_and_step(step);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(TopMemoryContext);
		error = CopyErrorData();
		if (!worker.slot->cancel_requested &&
			!(worker.slot->stop_requested && error->sqlerrcode == ERRCODE_QUERY_CANCELED) &&
			(worker.engine == NULL || !sx_engine_searching(worker.engine)))
			EmitErrorReport();
		AbortCurrentTransaction();
		/* An abort gives session locks away, too; outside a transaction it does nothing. */
		LockReleaseAll(DEFAULT_LOCKMETHOD, true);
		worker.locked = false;
		/* What a failure outside a transaction left behind. */
		LWLockReleaseAll();
		ConditionVariableCancelSleep();
		pgstat_report_wait_end();
		QueryCancelPending = false;
		FlushErrorState();
		if (worker.engine != NULL)
			sx_engine_abort(worker.engine, error);
		else
			MemoryContextReset(worker.context);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(worker.context);
	return error;
}

static void
wait_until(TimestampTz until)
{
	TimestampTz now = GetCurrentTimestamp();
	long		ms = LOOK_MS;

	if (until != DT_NOEND)
		ms = Min(ms, TimestampDifferenceMilliseconds(now, until) + (until > now ? 1 : 0));
	if (ms <= 0)
		return;
	(void) sx_wake_wait(ms, PG_WAIT_EXTENSION);
}

static bool
should_end(void)
{
	return shutdown_requested || worker.slot->stop_requested;
}

/* Returns false when this process is to end. */
static bool
after_failure(ErrorData *error)
{
	SxVerdict	verdict;

	if (worker.slot->cancel_requested ||
		(worker.slot->stop_requested && error->sqlerrcode == ERRCODE_QUERY_CANCELED))
		return false;			/* the batch, or the wait for a sink, was cut short to stop the query */
	verdict = sx_supervisor_judge(worker.slot, worker.args.query_id, worker.name,
								  worker.max_retries, error);
	FreeErrorData(error);
	if (verdict != SX_VERDICT_RETRY)
		return false;
	between_batches = true;
	while (!should_end() && worker.slot->retry_at > GetCurrentTimestamp())
	{
		wait_until(worker.slot->retry_at);
		ResetLatch(MyLatch);
		QueryCancelPending = false;
		CHECK_FOR_INTERRUPTS();
	}
	between_batches = false;
	return true;
}

/* Waits without a transaction, so that it holds back nothing. */
static void
wait_for_work(SxStep step)
{
	set_state(step == SX_STEP_BLOCKED ? SX_RUN_SINK_BLOCKED : SX_RUN_RUNNING);
	pgstat_report_activity(STATE_IDLE, NULL);
	wait_until(sx_engine_next_time(worker.engine));
	pgstat_report_activity(STATE_RUNNING, worker.name);
}

static void
run_batches(void)
{
	for (;;)
	{
		SxStep		step = SX_STEP_IDLE;
		ErrorData  *error;

		ResetLatch(MyLatch);
		between_batches = false;
		if (should_end())
			return;
		QueryCancelPending = false; /* between batches there is nothing to cancel */
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		error = guarded_step(&step);
		if (error != NULL && worker.engine != NULL &&
			!worker.slot->cancel_requested && sx_engine_absorb(worker.engine, error))
		{
			FreeErrorData(error);
			continue;
		}
		if (error != NULL)
		{
			if (!after_failure(error))
				return;
			continue;
		}
		between_batches = true;
		/* Waiting for a tick, or for rows that are on their way, has not succeeded in anything. */
		if (step != SX_STEP_IDLE || (!worker.has_ticks && !sx_engine_loading(worker.engine)))
			sx_supervisor_count_success(worker.slot);
		pgstat_report_stat(step == SX_STEP_FINISHED);
		if (step == SX_STEP_FINISHED)
		{
			drop_engine(true);
			(void) sx_supervisor_set_wanted(worker.slot, worker.args.query_id,
											SX_WANTED_FINISHED);
			return;
		}
		if (step == SX_STEP_RAN)
			set_state(SX_RUN_RUNNING);
		else if (!should_end())
			wait_for_work(step);
	}
}

void
sx_query_worker_main(Datum arg)
{
	sx_worker_args(&worker.args);
	if (!attach())
		proc_exit(0);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGINT, StatementCancelHandler);
	pqsignal(SIGTERM, handle_sigterm);
	BackgroundWorkerUnblockSignals();
	raise_oom_score();
	BackgroundWorkerInitializeConnectionByOid(worker.args.database, worker.args.owner,
											  SX_CONNECTION_FLAGS);
	worker.context = AllocSetContextCreate(TopMemoryContext, "streamx query",
										   ALLOCSET_DEFAULT_SIZES);
	if (prepare())
	{
		pgstat_report_activity(STATE_RUNNING, worker.name);
		run_batches();
		between_batches = true; /* a second SIGTERM does not spoil a clean end */
		drop_engine(!worker.slot->cancel_requested && worker.slot->state != SX_RUN_RETRYING);
	}
	worker.clean_exit = true;
	proc_exit(0);
}
