/*
 * hold.c
 *		Stops workers for the time of a transaction.
 *
 *	 held query:    slot->held_by = our pid, stop_requested   -> worker ends
 *	 held database: databases[i].held_by = our pid, SIGTERM   -> all end
 *	 end of the transaction: both are taken back, the scheduler looks again
 *
 * A worker or scheduler that is just starting looks at held_by before it
 * connects, under the same lock, so none slips through.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/wake.h"
#include "engine/session.h"
#include "monitor/shared.h"
#include "worker/hold.h"

#define GRACE_AFTER_CANCEL	10000	/* ms to wait for an aborted batch to end */
#define SIGTERM_AFTER		1000	/* ms: a function may have caught the cancel */

/* Held by this transaction; in TopMemoryContext, freed by its end. */
static List *held_queries = NIL;	/* of HeldQuery * */
static List *held_databases = NIL;	/* of Oid, as list of oids */
static bool wake_at_commit = false;

typedef struct HeldQuery
{
	SxQuerySlot *slot;
	Oid			database;
	int64		query_id;
} HeldQuery;

void
sx_hold_wake_at_commit(void)
{
	wake_at_commit = true;
}

/* ---------- one query ---------- */

static void
remember_query(SxQuerySlot *slot, const SxQuery *query)
{
	MemoryContext oldcontext;
	HeldQuery  *held;
	ListCell   *lc;

	foreach(lc, held_queries)
	{
		held = lfirst(lc);
		if (held->slot == slot && held->query_id == query->id)
			return;
	}
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	held = palloc(sizeof(HeldQuery));
	held->slot = slot;
	held->database = MyDatabaseId;
	held->query_id = query->id;
	held_queries = lappend(held_queries, held);
	MemoryContextSwitchTo(oldcontext);
}

static bool
slot_is(const SxQuerySlot *slot, Oid database, int64 query_id)
{
	return slot->in_use && slot->database == database && slot->query_id == query_id;
}

static void
request_stop(SxQuerySlot *slot)
{
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	slot->held_by = MyProcPid;
	slot->stop_requested = true;
	if (slot->latch != NULL)
		SetLatch(slot->latch);
	LWLockRelease(sx_shared->lock);
}

/* The worker catches a cancel itself and sees why; the second signal ends it anyway. */
static void
abort_batch(SxQuerySlot *slot, int signal)
{
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	slot->cancel_requested = true;
	if (slot->pid != 0)
		kill(slot->pid, signal);
	LWLockRelease(sx_shared->lock);
}

/* True when the slot has no process any more. */
static bool
wait_for_end(SxQuerySlot *slot, int timeout_ms)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), timeout_ms);

	ConditionVariablePrepareToSleep(&slot->changed);
	while (slot->pid != 0)
	{
		long		left = TimestampDifferenceMilliseconds(GetCurrentTimestamp(), until);

		if (left <= 0)
			break;
		(void) ConditionVariableTimedSleep(&slot->changed, left, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
	return slot->pid == 0;
}

/* Whoever changes a query under its own batch would wait for himself, or take its tables away. */
void
sx_hold_refuse_own_batch(const SxQuery *query)
{
	SxQuerySlot *slot = sx_slot_find(MyDatabaseId, query->id);

	if (sx_session_is_in_batch(query->id) || (slot != NULL && slot->pid == MyProcPid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("query \"%s\" cannot be started, stopped, altered or dropped from within its own batch",
						query->name),
				 errdetail("The call is part of that batch, which could not come to its end."),
				 errhint("Raise an error to make the batch fail, or let another session do it.")));
}

bool
sx_hold_query(const SxQuery *query, int timeout_ms, bool *aborted)
{
	SxQuerySlot *slot;

	*aborted = false;
	sx_hold_refuse_own_batch(query);
	sx_query_lock_control(query->id);
	wake_at_commit = true;
	if (sx_shared == NULL)
		return true;

	/* Taken even when nothing runs: a start that was committed a moment ago must wait. */
	slot = sx_slot_take(MyDatabaseId, query->id);
	if (slot == NULL)
		return true;			/* all taken by others: it has no worker */
	remember_query(slot, query);
	request_stop(slot);
	if (wait_for_end(slot, timeout_ms))
		return true;
	*aborted = true;
	abort_batch(slot, SIGINT);
	if (wait_for_end(slot, SIGTERM_AFTER))
		return true;
	abort_batch(slot, SIGTERM);
	return wait_for_end(slot, GRACE_AFTER_CANCEL);
}

/* In a commit or abort callback. */
static void
release_query(HeldQuery *held)
{
	SxQuerySlot *slot = held->slot;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	if (slot_is(slot, held->database, held->query_id) && slot->held_by == MyProcPid)
	{
		slot->held_by = 0;
		slot->stop_requested = false;
		slot->cancel_requested = false;
		/* Nobody but us ever used it: no scheduler will give it back. */
		if (slot->pid == 0 && slot->state == SX_RUN_NONE)
			slot->in_use = false;
	}
	LWLockRelease(sx_shared->lock);
}

/* ---------- a whole database ---------- */

/* Our processes in the database; signals them. Returns how many there are. */
static int
signal_database(Oid database, int signal)
{
	int			n = 0;
	SxDatabaseSlot *entry;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(database, true);
	if (entry != NULL)
	{
		entry->held_by = MyProcPid;
		if (entry->pid != 0)
		{
			kill(entry->pid, signal);
			n++;
		}
		if (entry->publisher_pid != 0)
		{
			kill(entry->publisher_pid, signal);
			n++;
		}
	}
	for (int i = 0; i < sx_shared->nslots; i++)
	{
		SxQuerySlot *slot = &sx_shared->slots[i];

		if (slot->in_use && slot->database == database && slot->pid != 0)
		{
			kill(slot->pid, signal);
			n++;
		}
	}
	LWLockRelease(sx_shared->lock);
	return n;
}

void
sx_hold_database(Oid database)
{
	MemoryContext oldcontext;
	TimestampTz until;

	if (sx_shared == NULL || !IsUnderPostmaster)
		return;
	if (database == MyDatabaseId && (sx_stop_asked != NULL || sx_session_is_in_batch(0)))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("continuous queries cannot be ended from within a batch of one"),
				 errhint("Let another session do it.")));
	if (!list_member_oid(held_databases, database))
	{
		oldcontext = MemoryContextSwitchTo(TopMemoryContext);
		held_databases = lappend_oid(held_databases, database);
		MemoryContextSwitchTo(oldcontext);
	}
	until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), GRACE_AFTER_CANCEL);
	ConditionVariablePrepareToSleep(&sx_shared->queries_changed);
	while (signal_database(database, SIGTERM) > 0)
	{
		if (GetCurrentTimestamp() > until)
		{
			ConditionVariableCancelSleep();
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("continuous queries in database with OID %u do not end", database),
					 errhint("Call stop_query for each of them and try again.")));
		}
		/* Signalled again when it times out: one may have been just starting. */
		(void) ConditionVariableTimedSleep(&sx_shared->queries_changed, 200, PG_WAIT_EXTENSION);
	}
	ConditionVariableCancelSleep();
}

static void
release_database(Oid database)
{
	SxDatabaseSlot *entry;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(database, false);
	if (entry != NULL && entry->held_by == MyProcPid)
		entry->held_by = 0;
	LWLockRelease(sx_shared->lock);
	sx_wake_scheduler(database);
}

/* ---------- the end of the transaction ---------- */

static void
release_all(void)
{
	ListCell   *lc;

	foreach(lc, held_queries)
		release_query(lfirst(lc));
	foreach(lc, held_databases)
		release_database(lfirst_oid(lc));
	list_free_deep(held_queries);
	list_free(held_databases);
	held_queries = NIL;
	held_databases = NIL;
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	bool		wake;

	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			if (wake_at_commit || held_databases != NIL)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("cannot PREPARE a transaction that created, started, stopped, altered, stepped or dropped a continuous query"),
						 errdetail("run_batch() and advance_time() step one."),
						 errhint("Use COMMIT.")));
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
			/* Also after a rollback: a held query goes on. */
			wake = wake_at_commit && (event == XACT_EVENT_COMMIT || held_queries != NIL);
			wake_at_commit = false;
			if (held_queries != NIL || held_databases != NIL)
				release_all();
			if (wake)
				sx_wake_scheduler(MyDatabaseId);
			break;
		default:
			break;
	}
}

void
sx_hold_init(void)
{
	RegisterXactCallback(at_transaction_end, NULL);
}
