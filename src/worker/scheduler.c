/*
 * scheduler.c
 *		One database: starts a worker for each query that should run.
 *
 *	 loop:
 *	   clear "wanted" of our entry; read the catalog
 *	   slots of queries that should not run: ask the worker to end, give the slot back
 *	   queries that should run and have no process: start one, unless its back-off
 *	     still lasts, someone holds it, or the server has no room
 *	   rotate streams now and then
 *	   nothing left and nobody called meanwhile: end
 *	   wait for the latch, 5 s at most
 *
 * Connected as the bootstrap superuser and therefore runs no code of users: it
 * reads streamx.query through the heap and nothing else.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "base/settings.h"
#include "registry/failure.h"
#include "worker/hold.h"
#include "worker/worker.h"
#include "source/retention.h"

#define LOOK_MS			5000
#define ROTATE_EVERY_MS	5000
#define PUBLISHER_ID	(-1)	/* among the processes that were started; no query has it */

typedef struct Started
{
	int64		query_id;
	BackgroundWorkerHandle *handle;
} Started;

typedef struct Scheduler
{
	MemoryContext context;		/* reset per look */
	List	   *started;		/* of Started *, in TopMemoryContext */
	int			no_room;		/* looks in a row without a free worker slot */
	TimestampTz no_room_until;
	List	   *incarnations;	/* of pg_uuid_t *: the queries of the last look, in TopMemoryContext */
	TimestampTz rotated_at;
	bool		clean_exit;
} Scheduler;

static Scheduler scheduler;

/* ---------- entering and leaving ---------- */

static void
detach(int code, Datum arg)
{
	SxDatabaseSlot *entry;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(MyDatabaseId != InvalidOid ? MyDatabaseId : DatumGetObjectId(arg),
							 false);
	if (entry != NULL && entry->pid == MyProcPid)
	{
		entry->pid = 0;
		entry->latch = NULL;
		entry->failures = scheduler.clean_exit ? 0 : entry->failures + 1;
	}
	if (sx_shared->launcher_latch != NULL)
		SetLatch(sx_shared->launcher_latch);
	LWLockRelease(sx_shared->lock);
	ConditionVariableBroadcast(&sx_shared->queries_changed);
}

/* False: there is one already, or the database is held. Before connecting. */
static bool
attach(Oid database)
{
	SxDatabaseSlot *entry;
	bool		ok = false;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(database, true);
	if (entry != NULL)
	{
		entry->starts = ++sx_shared->serial;
		ok = entry->pid == 0 && entry->held_by == 0;
	}
	if (ok)
	{
		entry->pid = MyProcPid;
		entry->latch = MyLatch;
		before_shmem_exit(detach, ObjectIdGetDatum(database));
	}
	LWLockRelease(sx_shared->lock);
	return ok;
}

static void
clear_wanted(void)
{
	SxDatabaseSlot *entry;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(MyDatabaseId, false);
	if (entry != NULL)
		entry->wanted = false;
	LWLockRelease(sx_shared->lock);
}

/* Ends the scheduler unless somebody called since clear_wanted(). */
static bool
try_leave(void)
{
	SxDatabaseSlot *entry;
	bool		leave;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(MyDatabaseId, false);
	leave = entry == NULL || !entry->wanted;
	if (leave && entry != NULL)
	{
		entry->latch = NULL;	/* from now on the launcher is woken */
		scheduler.clean_exit = true;
	}
	LWLockRelease(sx_shared->lock);
	return leave;
}

/* ---------- workers ---------- */

/* Forgets handles of processes that ended; true while one is starting or running. */
static bool
has_process(int64 query_id)
{
	ListCell   *lc;

	foreach(lc, scheduler.started)
	{
		Started    *started = lfirst(lc);
		pid_t		pid;

		if (started->query_id != query_id)
			continue;
		if (GetBackgroundWorkerPid(started->handle, &pid) != BGWH_STOPPED)
			return true;
		scheduler.started = foreach_delete_current(scheduler.started, lc);
		pfree(started->handle);
		pfree(started);
	}
	return false;
}

static void
set_state(SxQuerySlot *slot, SxRunState state, TimestampTz retry_at, const char *waits_for)
{
	SpinLockAcquire(&slot->mutex);
	slot->state = state;
	slot->retry_at = retry_at;
	strlcpy(slot->waits_for, waits_for, sizeof(slot->waits_for));
	SpinLockRelease(&slot->mutex);
}

/*
 * What would make InitPostgres refuse the owner, said so that a person sees it:
 * a FATAL before the first line of the worker leaves only a line in the log.
 */
static bool
owner_can_connect(const SxQuery *query, char **message, char **hint)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(query->owner));
	Form_pg_authid role;
	bool		ok = true;

	if (!HeapTupleIsValid(tuple))
	{
		*message = psprintf("owner of query \"%s\" does not exist", query->name);
		*hint = psprintf("Drop the query with drop_query.");
		return false;
	}
	role = (Form_pg_authid) GETSTRUCT(tuple);
	if (SX_NEEDS_LOGIN_ROLE && !role->rolcanlogin)
	{
		*message = psprintf("role \"%s\" is not permitted to log in", NameStr(role->rolname));
		*hint = psprintf("ALTER ROLE %s LOGIN, or give the query to another role.",
						 quote_identifier(NameStr(role->rolname)));
		ok = false;
	}
	else if (!role->rolsuper &&
			 sx_database_aclcheck(MyDatabaseId, query->owner, ACL_CONNECT) != ACLCHECK_OK)
	{
		*message = psprintf("role \"%s\" has no CONNECT privilege on the database",
							NameStr(role->rolname));
		*hint = psprintf("GRANT CONNECT ON DATABASE %s TO %s.",
						 quote_identifier(get_database_name(MyDatabaseId)),
						 quote_identifier(NameStr(role->rolname)));
		ok = false;
	}
	ReleaseSysCache(tuple);
	return ok;
}

static void
fail_query(const SxQuery *query, char *message, char *hint)
{
	ErrorData	error;

	memset(&error, 0, sizeof(error));
	error.sqlerrcode = ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION;
	error.message = message;
	error.hint = hint;
	sx_failure_append(query->id, &error, -1, NULL);
	sx_query_set_wanted(query->id, SX_WANTED_FAILED);
	sx_hold_wake_at_commit();
	ereport(LOG,
			(errmsg("query \"%s\" failed: %s", query->name, message),
			 errhint("%s", hint)));
}

static void
no_room(SxQuerySlot *slot, const SxQuery *query)
{
	int64		ms = sx_backoff_ms(++scheduler.no_room + 3);

	scheduler.no_room_until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
	ereport(LOG,
			(errmsg("no background worker is free for query \"%s\"", query->name),
			 errdetail("The next try is in %d ms; other queries are not affected.", (int) ms),
			 errhint("Raise max_worker_processes (now %d).", max_worker_processes)));
}

static void
start_worker(SxQuerySlot *slot, const SxQuery *query)
{
	SxWorkerArgs args = {0};
	char		name[BGW_MAXLEN];
	Started    *started;
	MemoryContext oldcontext;
	BackgroundWorkerHandle *handle = NULL;
	TimestampTz now = GetCurrentTimestamp();

	args.database = MyDatabaseId;
	args.owner = query->owner;
	args.query_id = query->id;
	args.slot = slot - sx_shared->slots;
	snprintf(name, sizeof(name), "streamx query %s", query->name);

	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	started = palloc(sizeof(Started));
	started->query_id = query->id;
	if (now >= scheduler.no_room_until)
	{
		/* Before: the process may be quicker than we are to say how it is. */
		set_state(slot, SX_RUN_STARTING, 0, "");
		handle = sx_worker_register("sx_query_worker_main", name, "streamx query", &args);
		if (handle == NULL)
			no_room(slot, query);
		else
			scheduler.no_room = 0;
	}
	if (handle == NULL)
	{
		set_state(slot, SX_RUN_WAITING_FOR_WORKER, scheduler.no_room_until,
				  "a free background worker (max_worker_processes)");
		pfree(started);
	}
	else
	{
		started->handle = handle;
		scheduler.started = lappend(scheduler.started, started);
	}
	MemoryContextSwitchTo(oldcontext);
	ConditionVariableBroadcast(&slot->changed);
}

/* One query that should run. */
static void
look_after(const SxQuery *query)
{
	SxQuerySlot *slot = sx_slot_take(MyDatabaseId, query->id);
	char	   *message;
	char	   *hint;

	if (slot == NULL)
	{
		static TimestampTz last;
		TimestampTz now = GetCurrentTimestamp();

		if (TimestampDifferenceExceeds(last, now, 60000))
			ereport(LOG,
					(errmsg("no slot is free for query \"%s\"", query->name),
					 errhint("Raise streamx.max_queries (now %d).", sx_max_queries)));
		last = now;
		return;
	}
	if (slot->held_by != 0)
		return;
	if (slot->pid != 0)
	{
		/* REASSIGN OWNED: a worker cannot change its role. */
		if (slot->owner != query->owner)
		{
			slot->stop_requested = true;
			if (slot->latch != NULL)
				SetLatch(slot->latch);
		}
		return;
	}
	if (has_process(query->id) || slot->retry_at > GetCurrentTimestamp())
		return;
	slot->stop_requested = false;
	slot->cancel_requested = false;
	if (owner_can_connect(query, &message, &hint))
		start_worker(slot, query);
	else
		fail_query(query, message, hint);
}

static bool
should_run(const List *queries, int64 query_id)
{
	ListCell   *lc;

	foreach(lc, queries)
	{
		const SxQuery *query = lfirst(lc);

		if (query->id == query_id)
			return sx_enabled && query->wanted == SX_WANTED_RUNNING;
	}
	return false;
}

/* Slots whose query should not run: end the worker, then give the slot back. Returns how many are left. */
static int
clear_slots(const List *queries)
{
	int			left = 0;

	for (int i = 0; i < sx_shared->nslots; i++)
	{
		SxQuerySlot *slot = &sx_shared->slots[i];
		bool		release = false;

		if (!slot->in_use || slot->database != MyDatabaseId ||
			should_run(queries, slot->query_id))
			continue;
		LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
		if (slot->held_by != 0)
			left++;
		else if (slot->pid != 0)
		{
			slot->stop_requested = true;
			if (slot->latch != NULL)
				SetLatch(slot->latch);
			left++;
		}
		else if (has_process(slot->query_id))
		{
			slot->stop_requested = true;	/* it sees that when it starts */
			left++;
		}
		else
			release = true;
		LWLockRelease(sx_shared->lock);
		if (release)
			sx_slot_release(slot);
	}
	return left;
}

/* ---------- the publisher ---------- */

/* What was inserted into streams of Kafka waits for it; once it runs it looks after itself. */
static bool
look_after_publisher(void)
{
	SxDatabaseSlot *entry;
	bool		running;
	TimestampTz at = 0;
	SxWorkerArgs args = {.database = MyDatabaseId};

	LWLockAcquire(sx_shared->lock, LW_SHARED);
	entry = sx_database_find(MyDatabaseId, false);
	running = entry == NULL || entry->publisher_pid != 0;
	if (entry != NULL)
		at = entry->publisher_at;
	LWLockRelease(sx_shared->lock);
	if (running || !sx_enabled || !sx_publisher_needed())
		return false;
	if (has_process(PUBLISHER_ID) || at > GetCurrentTimestamp())
		return true;
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(TopMemoryContext);
		BackgroundWorkerHandle *handle =
			sx_worker_register("sx_publisher_main", "streamx publisher", "streamx publisher", &args);

		if (handle != NULL)
		{
			Started    *started = palloc(sizeof(Started));

			started->query_id = PUBLISHER_ID;
			started->handle = handle;
			scheduler.started = lappend(scheduler.started, started);
		}
		else if (scheduler.no_room++ == 0)
			ereport(LOG,
					(errmsg("no background worker is free for the publisher"),
					 errhint("Raise max_worker_processes (now %d).", max_worker_processes)));
		MemoryContextSwitchTo(oldcontext);
	}
	return true;
}

/* ---------- the loop ---------- */

static void
rotate_streams(void)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!TimestampDifferenceExceeds(scheduler.rotated_at, now, ROTATE_EVERY_MS))
		return;
	scheduler.rotated_at = now;
	PG_TRY();
	{
		sx_stream_rotate_all();
	}
	PG_CATCH();
	{
		/* Not a reason to leave the queries alone: say it, try again later. */
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(scheduler.context);
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		scheduler.rotated_at = TimestampTzPlusMilliseconds(now, 60000);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
}

/* Milliseconds until the first back-off among our slots ends. */
static long
next_look(void)
{
	TimestampTz now = GetCurrentTimestamp();
	long		wait = LOOK_MS;

	for (int i = 0; i < sx_shared->nslots; i++)
	{
		SxQuerySlot *slot = &sx_shared->slots[i];

		if (slot->in_use && slot->database == MyDatabaseId && slot->pid == 0 &&
			slot->retry_at != 0)
			wait = Min(wait, TimestampDifferenceMilliseconds(now, slot->retry_at) + 1);
	}
	return wait;
}

/*
 * Removes the stores of queries that were there at an earlier look. Only those:
 * a worker that takes a new incarnation has its store before anyone sees its row.
 */
static void
forget_dropped(const List *queries)
{
	MemoryContext oldcontext;
	List	   *incarnations = NIL;
	ListCell   *lc;

	foreach(lc, queries)
		incarnations = lappend(incarnations, &((SxQuery *) lfirst(lc))->incarnation);
	sx_orphans_remove_vanished(MyDatabaseId, scheduler.incarnations, incarnations);

	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	list_free_deep(scheduler.incarnations);
	scheduler.incarnations = NIL;
	foreach(lc, incarnations)
	{
		pg_uuid_t  *incarnation = palloc(sizeof(pg_uuid_t));

		*incarnation = *(const pg_uuid_t *) lfirst(lc);
		scheduler.incarnations = lappend(scheduler.incarnations, incarnation);
	}
	MemoryContextSwitchTo(oldcontext);
}

/* Returns false when there is nothing left to look after. */
static bool
look(void)
{
	List	   *queries = NIL;
	ListCell   *lc;
	int			left = 0;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	if (sx_extension_installed())
		queries = sx_query_list();
	left = clear_slots(queries);
	if (left == 0)
		forget_dropped(queries);
	foreach(lc, queries)
	{
		const SxQuery *query = lfirst(lc);

		if (!should_run(queries, query->id))
			continue;
		left++;
		look_after(query);
	}
	if (sx_extension_installed() && look_after_publisher())
		left++;
	CommitTransactionCommand();
	return left > 0;
}

static void
remove_orphans(void)
{
	List	   *incarnations = NIL;
	ListCell   *lc;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	if (sx_extension_installed())
		foreach(lc, sx_query_list())
			incarnations = lappend(incarnations, &((SxQuery *) lfirst(lc))->incarnation);
	sx_orphans_remove(MyDatabaseId, incarnations);
	CommitTransactionCommand();
}

void
sx_scheduler_main(Datum arg)
{
	SxWorkerArgs args;

	sx_worker_args(&args);
	if (!attach(args.database))
		proc_exit(0);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(args.database, InvalidOid, 0);
	scheduler.context = AllocSetContextCreate(TopMemoryContext, "streamx scheduler",
											  ALLOCSET_DEFAULT_SIZES);
	sx_worker_set("search_path", "pg_catalog");
	sx_worker_set("statement_timeout", "0");
	sx_worker_set("lock_timeout", "0");
	sx_worker_set("idle_in_transaction_session_timeout", "0");
	remove_orphans();

	for (;;)
	{
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		MemoryContextSwitchTo(scheduler.context);
		MemoryContextReset(scheduler.context);
		clear_wanted();
		if (!look())
		{
			rotate_streams();	/* a writer may have called for that alone */
			if (try_leave())
				break;
			continue;
		}
		rotate_streams();
		pgstat_report_stat(false);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 next_look(), PG_WAIT_EXTENSION);
	}
	proc_exit(0);
}
