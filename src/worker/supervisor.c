/*
 * supervisor.c
 *		Decides from the SQLSTATE alone (base/errors.h).
 *
 *	 transient      same process, after a back-off; every third in a row, or when this
 *	                one is abandoned, a fresh process; for ever, or max_retries times
 *	 deterministic  a fresh process; FAILED after max_failures_in_a_row
 *	 permanent      FAILED at once
 *
 * The counts live in the slot: they outlast the process and end with the next
 * committed batch.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/proc.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/errors.h"
#include "base/settings.h"
#include "base/threads.h"
#include "checkpoint/batch_record.h"
#include "engine/engine.h"
#include "registry/failure.h"
#include "worker/supervisor.h"
#include "worker/worker.h"

#define TRANSIENT_PER_PROCESS	3

static void
count_failure(SxQuerySlot *slot, SxErrorClass class)
{
	int64		ms;

	SpinLockAcquire(&slot->mutex);
	slot->failures_in_a_row++;
	if (class == SX_ERROR_TRANSIENT)
		slot->transient_failures++;
	else
		slot->deterministic_failures++;
	SpinLockRelease(&slot->mutex);

	ms = sx_backoff_ms(slot->failures_in_a_row);
	SpinLockAcquire(&slot->mutex);
	slot->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), ms);
	slot->state = SX_RUN_RETRYING;
	SpinLockRelease(&slot->mutex);
}

void
sx_supervisor_count_death(SxQuerySlot *slot)
{
	count_failure(slot, SX_ERROR_TRANSIENT);
}

void
sx_supervisor_count_success(SxQuerySlot *slot)
{
	if (slot->failures_in_a_row == 0)
		return;
	SpinLockAcquire(&slot->mutex);
	slot->failures_in_a_row = 0;
	slot->transient_failures = 0;
	slot->deterministic_failures = 0;
	slot->retry_at = 0;
	SpinLockRelease(&slot->mutex);
}

static SxVerdict
verdict(const SxQuerySlot *slot, int max_retries, SxErrorClass class, bool *give_up)
{
	*give_up = true;
	switch (class)
	{
		case SX_ERROR_PERMANENT:
			return SX_VERDICT_END;
		case SX_ERROR_DETERMINISTIC:
			if (slot->deterministic_failures >= sx_max_failures_in_a_row)
				return SX_VERDICT_END;
			*give_up = false;
			return SX_VERDICT_RESTART;
		case SX_ERROR_TRANSIENT:
			if (max_retries >= 0 && slot->transient_failures > max_retries)
				return SX_VERDICT_END;
			*give_up = false;
			if (slot->transient_failures % TRANSIENT_PER_PROCESS == 0 || sx_process_abandoned())
				return SX_VERDICT_RESTART;
			return SX_VERDICT_RETRY;
	}
	return SX_VERDICT_END;
}

/* In a transaction. */
static bool
set_wanted(SxQuerySlot *slot, int64 query_id, SxWanted wanted)
{
	SxQuery    *query;

	if (!sx_engine_lock_row(slot, query_id))
		return false;
	query = sx_query_by_id(query_id, true);
	/* Stopped meanwhile, or the engine has already said what is the matter. */
	if (query == NULL || query->wanted != SX_WANTED_RUNNING)
		return true;
	sx_query_set_wanted(query_id, wanted);
	return true;
}

/* Where the failed batch began, as JSON; NULL: it was the first one. */
static char *
offsets_json(const SxBatchRecord *record)
{
	StringInfoData buf;

	if (record == NULL)
		return NULL;
	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	for (int i = 0; i < record->nsources; i++)
	{
		char	   *name = get_rel_name(record->sources[i].relid);

		appendStringInfoString(&buf, i > 0 ? ", " : "");
		escape_json(&buf, name != NULL ? name : psprintf("%u", record->sources[i].relid));
		appendStringInfo(&buf, ": %s",
						 record->sources[i].end != NULL ? record->sources[i].end : "null");
	}
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/*
 * Runs in a transaction of its own. Returns false when that failed: it is logged,
 * and nothing of it stays.
 */
static bool
guarded_transaction(void (*body) (void *arg), void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool ok = true;

	PG_TRY();
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		body(arg);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		AbortCurrentTransaction();
		FlushErrorState();
		ok = false;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	return ok;
}

typedef struct Failure
{
	SxQuerySlot *slot;
	int64		query_id;
	const ErrorData *error;
	bool		give_up;
} Failure;

static void
write_down(void *arg)
{
	const Failure *failure = arg;
	SxBatchRecord *record;

	/* One that cannot be read is the failure. */
	record = failure->error->sqlerrcode == ERRCODE_SX_CHECKPOINT ? NULL :
		sx_batch_record_last(failure->query_id);
	sx_failure_append(failure->query_id, failure->error,
					  record != NULL ? record->batch_id + 1 : 0, offsets_json(record));
	if (failure->give_up)
		(void) set_wanted(failure->slot, failure->query_id, SX_WANTED_FAILED);
}

typedef struct OwnerCheck
{
	int64		query_id;
	Oid			owner;			/* as which the process runs */
	bool		changed;
} OwnerCheck;

static void
compare_owner(void *arg)
{
	OwnerCheck *check = arg;
	SxQuery    *query = sx_query_by_id(check->query_id, true);

	check->changed = query != NULL && query->owner != check->owner;
}

/*
 * REASSIGN OWNED while the process still runs as the old owner, whose rights are
 * gone: a fresh process is what helps, and nothing has failed.
 */
static bool
has_new_owner(const SxQuerySlot *slot, int64 query_id)
{
	OwnerCheck	check = {query_id, slot->owner, false};

	return guarded_transaction(compare_owner, &check) && check.changed;
}

SxVerdict
sx_supervisor_judge(SxQuerySlot *slot, int64 query_id, const char *name,
					int max_retries, const ErrorData *error)
{
	SxErrorClass class = sx_error_class(error->sqlerrcode);
	Failure		failure = {slot, query_id, error};
	SxVerdict	result;
	bool		give_up;

	if (has_new_owner(slot, query_id))
		return SX_VERDICT_RESTART;
	count_failure(slot, class);
	result = verdict(slot, max_retries, class, &give_up);
	failure.give_up = give_up;
	if (!guarded_transaction(write_down, &failure) && give_up)
		result = SX_VERDICT_RESTART;	/* still wanted, so a fresh process tries, later */
	if (give_up)
		ereport(LOG,
				(errmsg("query \"%s\" has failed and will not be tried again", name),
				 errhint("Remove the cause, then call start_query.")));
	else
		ereport(LOG,
				(errmsg("query \"%s\" will be tried again in %d ms", name,
						(int) TimestampDifferenceMilliseconds(GetCurrentTimestamp(),
															  slot->retry_at))));
	ConditionVariableBroadcast(&slot->changed);
	ConditionVariableBroadcast(&sx_shared->queries_changed);
	return result;
}

bool
sx_supervisor_set_wanted(SxQuerySlot *slot, int64 query_id, SxWanted wanted)
{
	bool		ok;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	ok = set_wanted(slot, query_id, wanted);
	PopActiveSnapshot();
	CommitTransactionCommand();
	return ok;
}
