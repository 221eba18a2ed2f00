/*
 * shared.c
 *		The shared memory: made at server start, slots taken and given back.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "base/settings.h"
#include "monitor/shared.h"

#define TRANCHE			"streamx"
#define STREAM_TRANCHE	"streamx_stream"

SxShared   *sx_shared = NULL;

static Size
shared_size(void)
{
	return add_size(offsetof(SxShared, slots),
					mul_size(sizeof(SxQuerySlot), sx_max_queries));
}

void
sx_shared_request(void)
{
	RequestAddinShmemSpace(shared_size());
	RequestNamedLWLockTranche(TRANCHE, 1);
	RequestNamedLWLockTranche(STREAM_TRANCHE, SX_STREAM_LOCKS);
}

void
sx_shared_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	sx_shared = ShmemInitStruct("streamx", shared_size(), &found);
	if (!found)
	{
		memset(sx_shared, 0, shared_size());
		sx_shared->lock = &GetNamedLWLockTranche(TRANCHE)->lock;
		sx_shared->stream_locks = GetNamedLWLockTranche(STREAM_TRANCHE);
		sx_shared->visit_all = true;
		ConditionVariableInit(&sx_shared->queries_changed);
		sx_shared->nslots = sx_max_queries;
		pg_atomic_init_u64(&sx_shared->stream_commits, 0);
		for (int i = 0; i < sx_shared->nslots; i++)
		{
			SxQuerySlot *slot = &sx_shared->slots[i];

			pg_atomic_init_u64(&slot->asked, 0);
			pg_atomic_init_u64(&slot->drained, 0);
			pg_atomic_init_u64(&slot->waiting_since, 0);
			ConditionVariableInit(&slot->changed);
			SpinLockInit(&slot->mutex);
		}
	}
	LWLockRelease(AddinShmemInitLock);
}

void
sx_shared_require(void)
{
	if (sx_shared == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streamx is not loaded at server start"),
				 errdetail("Continuous queries run in background workers, which need shared memory."),
				 errhint("Add streamx to shared_preload_libraries and restart the server.")));
}

static SxQuerySlot *
find_locked(Oid database, int64 query_id)
{
	for (int i = 0; i < sx_shared->nslots; i++)
	{
		SxQuerySlot *slot = &sx_shared->slots[i];

		if (slot->in_use && slot->database == database && slot->query_id == query_id)
			return slot;
	}
	return NULL;
}

SxQuerySlot *
sx_slot_find(Oid database, int64 query_id)
{
	SxQuerySlot *slot;

	if (sx_shared == NULL)
		return NULL;
	LWLockAcquire(sx_shared->lock, LW_SHARED);
	slot = find_locked(database, query_id);
	LWLockRelease(sx_shared->lock);
	return slot;
}

/* Everything a former query left behind goes, but never the counters of waiters. */
static void
slot_clear(SxQuerySlot *slot)
{
	slot->pid = 0;
	slot->latch = NULL;
	memset(&slot->run_id, 0, sizeof(slot->run_id));
	slot->owner = InvalidOid;
	slot->started_at = 0;
	slot->nstreams = 0;
	slot->times_commits = false;
	slot->held_by = 0;
	slot->stop_requested = false;
	slot->cancel_requested = false;
	SpinLockAcquire(&slot->mutex);
	slot->state = SX_RUN_NONE;
	slot->heartbeat = 0;
	slot->batch_id = -1;
	slot->watermark = DT_NOBEGIN;
	slot->input_rows_per_second = 0;
	slot->processed_rows_per_second = 0;
	slot->batch_duration_us = 0;
	slot->state_rows = 0;
	slot->state_bytes = 0;
	slot->wal_bytes = 0;
	slot->input_rows = 0;
	slot->output_rows = 0;
	slot->late_rows = 0;
	slot->failures_in_a_row = 0;
	slot->transient_failures = 0;
	slot->deterministic_failures = 0;
	slot->restarts = 0;
	slot->retry_at = 0;
	slot->max_rows = 0;
	slot->waits_for[0] = '\0';
	SpinLockRelease(&slot->mutex);
}

SxQuerySlot *
sx_slot_take(Oid database, int64 query_id)
{
	SxQuerySlot *slot;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	slot = find_locked(database, query_id);
	for (int i = 0; slot == NULL && i < sx_shared->nslots; i++)
	{
		if (sx_shared->slots[i].in_use)
			continue;
		slot = &sx_shared->slots[i];
		slot_clear(slot);
		slot->database = database;
		slot->query_id = query_id;
		pg_write_barrier();
		slot->in_use = true;
	}
	LWLockRelease(sx_shared->lock);
	ConditionVariableBroadcast(&sx_shared->queries_changed);
	return slot;
}

void
sx_slot_release(SxQuerySlot *slot)
{
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	slot_clear(slot);
	slot->in_use = false;
	LWLockRelease(sx_shared->lock);
	ConditionVariableBroadcast(&slot->changed);
	ConditionVariableBroadcast(&sx_shared->queries_changed);
}

/* Databases of slots without a process, in CurrentMemoryContext. */
List *
sx_slots_idle_databases(void)
{
	List	   *databases = NIL;

	LWLockAcquire(sx_shared->lock, LW_SHARED);
	for (int i = 0; i < sx_shared->nslots; i++)
	{
		const SxQuerySlot *slot = &sx_shared->slots[i];

		if (slot->in_use && slot->pid == 0)
			databases = list_append_unique_oid(databases, slot->database);
	}
	LWLockRelease(sx_shared->lock);
	return databases;
}

/* A database that is gone has no scheduler to do it. */
void
sx_slots_release_database(Oid database)
{
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < sx_shared->nslots; i++)
	{
		SxQuerySlot *slot = &sx_shared->slots[i];

		if (!slot->in_use || slot->database != database || slot->pid != 0)
			continue;
		slot_clear(slot);
		slot->in_use = false;
	}
	LWLockRelease(sx_shared->lock);
	ConditionVariableBroadcast(&sx_shared->queries_changed);
}

/* Before the latch: whoever it wakes takes the time away. */
static void
note_waiting(SxQuerySlot *slot)
{
	uint64		none = 0;

	if (pg_atomic_read_u64(&slot->waiting_since) == 0)
		(void) pg_atomic_compare_exchange_u64(&slot->waiting_since, &none,
											  (uint64) GetCurrentTimestamp());
}

/*
 * Without the lock, since every commit that wrote a stream comes here. A latch
 * read a moment too late belongs to a process that is gone or has other work;
 * waking it is harmless. A worker enters its streams before it looks for rows,
 * and our rows are visible before we read, so no wake-up is lost.
 */
void
sx_wake_stream_readers(Oid database, Oid stream)
{
	if (sx_shared == NULL)
		return;
	pg_memory_barrier();
	for (int i = 0; i < sx_shared->nslots; i++)
	{
		volatile SxQuerySlot *slot = &sx_shared->slots[i];
		Latch	   *latch;

		if (!slot->in_use || slot->database != database)
			continue;
		for (int j = 0; j < slot->nstreams && j < SX_MAX_SOURCES; j++)
		{
			if (slot->streams[j] != stream)
				continue;
			if (slot->times_commits)
				note_waiting(&sx_shared->slots[i]);
			latch = slot->latch;
			if (latch != NULL)
				SetLatch(latch);
			break;
		}
	}
}

SxDatabaseSlot *
sx_database_find(Oid database, bool make)
{
	SxDatabaseSlot *unused = NULL;

	for (int i = 0; i < SX_MAX_DATABASES; i++)
	{
		SxDatabaseSlot *slot = &sx_shared->databases[i];

		if (slot->in_use && slot->database == database)
			return slot;
		if (!slot->in_use && unused == NULL)
			unused = slot;
	}
	if (!make || unused == NULL)
		return NULL;
	memset(unused, 0, sizeof(*unused));
	unused->database = database;
	unused->in_use = true;
	unused->starts = ++sx_shared->serial;	/* not what the launcher saw in an entry before it */
	return unused;
}

void
sx_wake_publisher(Oid database)
{
	SxDatabaseSlot *slot;
	Latch	   *latch = NULL;

	if (sx_shared == NULL)
		return;
	LWLockAcquire(sx_shared->lock, LW_SHARED);
	slot = sx_database_find(database, false);
	if (slot != NULL)
		latch = slot->publisher_latch;
	if (latch != NULL)
		SetLatch(latch);
	LWLockRelease(sx_shared->lock);
	if (latch == NULL)
		sx_wake_scheduler(database);
}

void
sx_wake_scheduler(Oid database)
{
	SxDatabaseSlot *slot;

	if (sx_shared == NULL)
		return;
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	slot = sx_database_find(database, true);
	if (slot != NULL)
		slot->wanted = true;
	else
		sx_shared->visit_all = true;	/* the launcher finds it when it looks everywhere */
	if (slot != NULL && slot->latch != NULL)
		SetLatch(slot->latch);
	else if (sx_shared->launcher_latch != NULL)
		SetLatch(sx_shared->launcher_latch);
	LWLockRelease(sx_shared->lock);
	ConditionVariableBroadcast(&sx_shared->queries_changed);
}
