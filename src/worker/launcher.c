/*
 * launcher.c
 *		The one process that knows all databases.
 *
 * Runs from the end of recovery on, so a standby starts nothing until it is
 * promoted. After its start it lets a scheduler look once into every database;
 * later it starts one where sx_wake_scheduler() asks. It has no database itself
 * and reads only pg_database.
 *
 *	 wanted, no process   -> register a scheduler
 *	 scheduler ended      -> not wanted any more: forget; still wanted: again, with back-off
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/settings.h"
#include "worker/worker.h"

#define LOOK_MS			5000	/* safety look */
#define LAUNCHES_PER_LOOK 4		/* so that many databases don't take all worker slots */
#define LAUNCH_PAUSE_MS	100

typedef struct Launched
{
	Oid			database;
	BackgroundWorkerHandle *handle; /* NULL: none running */
	int			starts;			/* of the shared entry, at the launch */
	int			unstarted;		/* launches in a row that never became a process */
	TimestampTz retry_at;
} Launched;

void
sx_launcher_register(void)
{
	BackgroundWorker worker;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 5;
	strlcpy(worker.bgw_library_name, "streamx", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, "sx_launcher_main", sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, "streamx launcher", sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, "streamx launcher", sizeof(worker.bgw_type));
	RegisterBackgroundWorker(&worker);
}

/* OIDs in CurrentMemoryContext. all: else only those that can be connected to and are no templates. */
static List *
list_databases(bool all)
{
	MemoryContext context = CurrentMemoryContext;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	List	   *databases = NIL;

	StartTransactionCommand();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database database = (Form_pg_database) GETSTRUCT(tuple);
		MemoryContext oldcontext;

		if (!all && (database->datistemplate || !database->datallowconn))
			continue;
		oldcontext = MemoryContextSwitchTo(context);
		databases = lappend_oid(databases, database->oid);
		MemoryContextSwitchTo(oldcontext);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	return databases;
}

/* Marks all databases wanted; what finds no entry comes with the next round. */
static void
mark_all_wanted(const List *databases)
{
	ListCell   *lc;
	bool		full = false;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	foreach(lc, databases)
	{
		SxDatabaseSlot *entry = sx_database_find(lfirst_oid(lc), true);

		if (entry == NULL)
			full = true;
		else
			entry->wanted = true;
	}
	sx_shared->visit_all = full;
	LWLockRelease(sx_shared->lock);
}

static Launched *
launched_find(List **launched, Oid database)
{
	ListCell   *lc;
	Launched   *entry;

	foreach(lc, *launched)
	{
		entry = lfirst(lc);
		if (entry->database == database)
			return entry;
	}
	entry = palloc0(sizeof(Launched));
	entry->database = database;
	*launched = lappend(*launched, entry);
	return entry;
}

/*
 * Takes note of schedulers that ended. One that ended because nothing is wanted
 * may be started again at once; after an error there is a pause.
 */
static void
reap(List *launched)
{
	ListCell   *lc;

	foreach(lc, launched)
	{
		Launched   *entry = lfirst(lc);
		SxDatabaseSlot *slot;
		int			failures = 0;
		pid_t		pid;

		if (entry->handle == NULL ||
			GetBackgroundWorkerPid(entry->handle, &pid) != BGWH_STOPPED)
			continue;
		pfree(entry->handle);
		entry->handle = NULL;
		LWLockAcquire(sx_shared->lock, LW_SHARED);
		slot = sx_database_find(entry->database, false);
		if (slot != NULL)
		{
			entry->unstarted = slot->starts == entry->starts ? entry->unstarted + 1 : 0;
			failures = slot->failures + entry->unstarted;
		}
		LWLockRelease(sx_shared->lock);
		entry->retry_at = 0;
		if (failures > 0)
			entry->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
														  sx_backoff_ms(failures));
	}
}

/* Databases that want a scheduler and have none; forgets those that don't exist any more. */
static List *
list_wanted(const List *databases)
{
	List	   *wanted = NIL;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < SX_MAX_DATABASES; i++)
	{
		SxDatabaseSlot *entry = &sx_shared->databases[i];

		if (!entry->in_use || entry->pid != 0 || entry->held_by != 0)
			continue;
		if (entry->wanted && list_member_oid(databases, entry->database))
			wanted = lappend_oid(wanted, entry->database);
		else if (entry->publisher_pid == 0)	/* else a second publisher would find no first one */
			entry->in_use = false;	/* dropped, or nothing to do there */
	}
	LWLockRelease(sx_shared->lock);
	return wanted;
}

/* Returns false when the server has no room for another process. */
static bool
launch(Launched *entry)
{
	SxWorkerArgs args = {0};
	SxDatabaseSlot *slot;
	char		name[BGW_MAXLEN];

	LWLockAcquire(sx_shared->lock, LW_SHARED);
	slot = sx_database_find(entry->database, false);
	entry->starts = slot != NULL ? slot->starts : 0;
	LWLockRelease(sx_shared->lock);
	args.database = entry->database;
	snprintf(name, sizeof(name), "streamx scheduler for database %u", entry->database);
	entry->handle = sx_worker_register("sx_scheduler_main", name, "streamx scheduler", &args);
	return entry->handle != NULL;
}

/* In TopMemoryContext. Milliseconds until the next look. */
static long
launch_wanted(List **launched, const List *wanted, int *no_room)
{
	long		wait = LOOK_MS;
	int			launches = 0;
	TimestampTz now = GetCurrentTimestamp();
	ListCell   *lc;

	foreach(lc, wanted)
	{
		Launched   *entry = launched_find(launched, lfirst_oid(lc));

		if (entry->handle != NULL)
			continue;			/* starting; we are told when it ends */
		if (entry->retry_at > now)
		{
			wait = Min(wait, TimestampDifferenceMilliseconds(now, entry->retry_at) + 1);
			continue;
		}
		if (launches++ >= LAUNCHES_PER_LOOK)
			return LAUNCH_PAUSE_MS;
		if (launch(entry))
			continue;
		ereport(LOG,
				(errmsg("no background worker is free for the streamx scheduler of database %u",
						entry->database),
				 errhint("Raise max_worker_processes (now %d).", max_worker_processes)));
		return sx_backoff_ms(++*no_room);
	}
	*no_room = 0;
	return wait;
}

/*
 * Workers of a database that is dropped leave their slots to a scheduler that
 * ends with them.  The slots are looked at first: whatever is in one existed by
 * then, so what the catalog lacks afterwards is gone.
 */
static void
release_dropped(void)
{
	List	   *idle = sx_slots_idle_databases();
	List	   *databases;
	ListCell   *lc;

	if (idle == NIL)
		return;
	databases = list_databases(true);
	foreach(lc, idle)
		if (!list_member_oid(databases, lfirst_oid(lc)))
			sx_slots_release_database(lfirst_oid(lc));
}

static long
look(List **launched, int *no_room)
{
	List	   *databases;
	List	   *wanted;
	MemoryContext oldcontext;
	long		wait;

	reap(*launched);
	release_dropped();
	if (!sx_enabled)
		return LOOK_MS;
	databases = list_databases(false);
	if (sx_shared->visit_all)
		mark_all_wanted(databases);
	wanted = list_wanted(databases);
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	wait = launch_wanted(launched, wanted, no_room);
	MemoryContextSwitchTo(oldcontext);
	return wait;
}

static void
detach(int code, Datum arg)
{
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	sx_shared->launcher_latch = NULL;
	LWLockRelease(sx_shared->lock);
}

void
sx_launcher_main(Datum arg)
{
	List	   *launched = NIL;
	MemoryContext context;
	int			no_room = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	context = AllocSetContextCreate(TopMemoryContext, "streamx launcher", ALLOCSET_DEFAULT_SIZES);

	before_shmem_exit(detach, 0);
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	sx_shared->launcher_latch = MyLatch;
	sx_shared->visit_all = true;
	LWLockRelease(sx_shared->lock);
	MemoryContextSwitchTo(context);
	sx_orphans_remove_databases(list_databases(true));

	for (;;)
	{
		long		wait;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			bool		was_enabled = sx_enabled;

			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
			if (sx_enabled && !was_enabled)
				sx_shared->visit_all = true;
		}
		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		wait = look(&launched, &no_room);
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 wait, PG_WAIT_EXTENSION);
	}
}
