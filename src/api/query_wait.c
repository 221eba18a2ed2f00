/*
 * query_wait.c
 *		process_all_available, await_termination, await_any_termination.
 *
 * Each loop prepares to sleep on a condition variable, looks, and sleeps; so a
 * change between the look and the sleep is not missed. What ended and why is
 * read from the catalog, with a fresh snapshot each time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "base/errors.h"
#include "base/settings.h"
#include "monitor/shared.h"
#include "registry/failure.h"

PG_FUNCTION_INFO_V1(sx_api_process_all_available);
PG_FUNCTION_INFO_V1(sx_api_await_termination);
PG_FUNCTION_INFO_V1(sx_api_await_any_termination);
PG_FUNCTION_INFO_V1(sx_api_reset_terminated);

#define LOOK_MS		1000		/* safety look while waiting */

/* await_any_termination(): what ended before doesn't count. 0: the session's start. */
static TimestampTz terminated_since = 0;

/* ---------- common ---------- */

static void
raise_failure(const SxQuery *query)
{
	SxFailure  *failure = sx_failure_last(query->id);

	if (failure == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SX_QUERY_FAILED),
				 errmsg("query \"%s\" is %s", query->name, sx_wanted_name(query->wanted))));
	ereport(ERROR,
			(errcode(ERRCODE_SX_QUERY_FAILED),
			 errmsg("query \"%s\" failed: %s", query->name, failure->message),
			 failure->detail != NULL ?
			 errdetail("SQLSTATE %s. %s", failure->sqlstate, failure->detail) :
			 errdetail("SQLSTATE %s.", failure->sqlstate),
			 errhint("%s", sx_api_failure_hint(query, failure))));
}

static bool
has_failed(const SxQuery *query)
{
	return query->wanted == SX_WANTED_FAILED || query->wanted == SX_WANTED_SINK_AHEAD ||
		query->wanted == SX_WANTED_SINK_UNKNOWN;
}

/* No other process sees the start before our commit: waiting would be for ever. */
static void
refuse_own_start(const SxQuery *query)
{
	if (query->changed_here && query->wanted == SX_WANTED_RUNNING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("query \"%s\" was started in this transaction", query->name),
				 errdetail("Its worker starts when the transaction commits."),
				 errhint("Commit first.")));
}

static void
refuse_if_nothing_runs(void)
{
	sx_shared_require();
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no query runs during recovery"),
				 errhint("Queries start when the server is promoted.")));
	if (!sx_enabled)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no query runs while streamx.enabled is off")));
}

/* A function that a batch calls would wait for its own end. */
static void
refuse_own_batch(const SxQuery *query)
{
	SxQuerySlot *slot = sx_slot_find(MyDatabaseId, query->id);

	if (slot != NULL && slot->pid == MyProcPid)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot wait for query \"%s\" from within its own batch", query->name),
				 errhint("Let another session wait.")));
}

/* Milliseconds to sleep now; 0: the time is over. timeout < 0: for ever. */
static long
time_left(TimestampTz since, int64 timeout)
{
	int64		passed;

	if (timeout < 0)
		return LOOK_MS;
	passed = TimestampDifferenceMilliseconds(since, GetCurrentTimestamp());
	return passed >= timeout ? 0 : Min(LOOK_MS, timeout - passed);
}

/* A wait may last for days: what each look allocates goes before the next one. */
static MemoryContext
begin_looks(void)
{
	return AllocSetContextCreate(CurrentMemoryContext, "streamx wait", ALLOCSET_SMALL_SIZES);
}

static void
begin_look(MemoryContext context)
{
	MemoryContextReset(context);
	MemoryContextSwitchTo(context);
}

/* ---------- process_all_available ---------- */

typedef struct Drain
{
	const char *name;
	int64		id;
	SxQuerySlot *slot;			/* where we asked; NULL: nowhere yet */
	uint64		asked;
} Drain;

/* The worker copies the number back when, having seen it, it found nothing left to do. */
static void
ask(Drain *drain, SxQuerySlot *slot)
{
	drain->slot = slot;
	drain->asked = pg_atomic_add_fetch_u64(&slot->asked, 1);
	LWLockAcquire(sx_shared->lock, LW_SHARED);
	if (slot->latch != NULL)
		SetLatch(slot->latch);
	LWLockRelease(sx_shared->lock);
}

/* Prepares to sleep. */
static bool
is_drained(Drain *drain)
{
	SxQuerySlot *slot = sx_slot_find(MyDatabaseId, drain->id);
	SxQuery    *query;

	ConditionVariablePrepareToSleep(slot != NULL ? &slot->changed : &sx_shared->queries_changed);
	query = sx_query_by_id(drain->id, true);
	if (query == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("query \"%s\" was dropped", drain->name)));
	refuse_own_start(query);
	if (has_failed(query))
		raise_failure(query);
	if (query->wanted == SX_WANTED_FINISHED)
		return true;
	if (query->wanted != SX_WANTED_RUNNING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("query \"%s\" is not running", query->name),
				 errdetail("It is %s.", sx_wanted_name(query->wanted)),
				 errhint("Start it with start_query.")));
	if (slot == NULL)
		return false;			/* the scheduler has not come to it yet */
	if (slot != drain->slot)
		ask(drain, slot);
	return pg_atomic_read_u64(&slot->drained) >= drain->asked;
}

Datum
sx_api_process_all_available(PG_FUNCTION_ARGS)
{
	Drain		drain = {0};
	int64		timeout = sx_api_timeout_arg(fcinfo, 1);
	TimestampTz since = GetCurrentTimestamp();
	SxQuery    *query;
	MemoryContext context;

	drain.name = sx_api_name_arg(fcinfo);
	query = sx_api_visible_query(drain.name);
	drain.id = query->id;
	refuse_if_nothing_runs();
	refuse_own_batch(query);
	context = begin_looks();
	for (;;)
	{
		SxQuerySlot *slot;
		long		ms;

		begin_look(context);
		if (is_drained(&drain))
			break;
		ms = time_left(since, timeout);
		slot = sx_slot_find(MyDatabaseId, drain.id);
		if (ms == 0)
		{
			ConditionVariableCancelSleep();
			ereport(ERROR,
					(errcode(ERRCODE_QUERY_CANCELED),
					 errmsg("query \"%s\" has not processed everything within the time given",
							drain.name),
					 errhint("SELECT * FROM streamx.queries tells what it waits for.")));
		}
		(void) ConditionVariableTimedSleep(slot != NULL ? &slot->changed :
										   &sx_shared->queries_changed,
										   ms, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
	ConditionVariableCancelSleep();
	PG_RETURN_VOID();
}

/* ---------- await_termination ---------- */

/* Prepares to sleep. */
static bool
has_ended(const char *name, int64 id)
{
	SxQuery    *query;

	ConditionVariablePrepareToSleep(&sx_shared->queries_changed);
	query = sx_query_by_id(id, true);
	if (query == NULL)
		return true;			/* dropped */
	refuse_own_start(query);
	if (has_failed(query))
		raise_failure(query);
	if (query->wanted == SX_WANTED_CREATED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("query \"%s\" was never started", name),
				 errhint("Start it with start_query.")));
	return query->wanted != SX_WANTED_RUNNING;
}

Datum
sx_api_await_termination(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);
	int64		timeout = sx_api_timeout_arg(fcinfo, 1);
	TimestampTz since = GetCurrentTimestamp();
	SxQuery    *query = sx_api_visible_query(name);
	int64		id = query->id;
	MemoryContext context = begin_looks();
	bool		ended;

	sx_shared_require();
	refuse_own_batch(query);
	for (;;)
	{
		long		ms = time_left(since, timeout);

		begin_look(context);
		ended = has_ended(name, id);
		if (ended || ms == 0)
			break;
		(void) ConditionVariableTimedSleep(&sx_shared->queries_changed, ms, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
	ConditionVariableCancelSleep();
	PG_RETURN_BOOL(ended);
}

/* ---------- await_any_termination ---------- */

/* One that ended since then; a failed one before any other. Prepares to sleep. */
static SxQuery *
find_ended(TimestampTz since)
{
	SxQuery    *found = NULL;
	ListCell   *lc;

	ConditionVariablePrepareToSleep(&sx_shared->queries_changed);
	foreach(lc, sx_query_list())
	{
		SxQuery    *query = lfirst(lc);

		if (query->ended_at <= since || query->wanted == SX_WANTED_RUNNING ||
			query->wanted == SX_WANTED_CREATED || !sx_api_may_see(query))
			continue;
		if (found == NULL || (has_failed(query) && !has_failed(found)))
			found = query;
	}
	return found;
}

Datum
sx_api_await_any_termination(PG_FUNCTION_ARGS)
{
	int64		timeout = sx_api_timeout_arg(fcinfo, 0);
	TimestampTz since = GetCurrentTimestamp();
	MemoryContext oldcontext = CurrentMemoryContext;
	MemoryContext context = begin_looks();
	SxQuery    *ended;

	sx_shared_require();
	if (terminated_since == 0)
		terminated_since = MyStartTimestamp;
	for (;;)
	{
		long		ms = time_left(since, timeout);

		begin_look(context);
		ended = find_ended(terminated_since);
		if (ended != NULL || ms == 0)
			break;
		(void) ConditionVariableTimedSleep(&sx_shared->queries_changed, ms, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
	ConditionVariableCancelSleep();
	if (ended == NULL)
		PG_RETURN_NULL();
	if (has_failed(ended))
		raise_failure(ended);
	MemoryContextSwitchTo(oldcontext);
	PG_RETURN_TEXT_P(cstring_to_text(ended->name));
}

Datum
sx_api_reset_terminated(PG_FUNCTION_ARGS)
{
	terminated_since = GetCurrentTimestamp();
	PG_RETURN_VOID();
}
