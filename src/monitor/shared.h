/*
 * shared.h
 *		Shared memory: one slot per running query, one per database with a
 *		scheduler, and the wake-ups between writers and workers.
 *
 * The catalog says what is wanted; the slots say what is.  Nothing here is
 * needed after a crash.  Functions marked (commit) may be called in commit and
 * abort callbacks: they cannot fail.
 */
#ifndef SX_MONITOR_SHARED_H
#define SX_MONITOR_SHARED_H

#include "nodes/pg_list.h"
#include "port/atomics.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/s_lock.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#define SX_MAX_SOURCES		16	/* streams of one query */
#define SX_MAX_DATABASES	64
#define SX_STREAM_LOCKS		128

typedef enum SxRunState
{
	SX_RUN_NONE,
	SX_RUN_STARTING,
	SX_RUN_RUNNING,
	SX_RUN_WAITING_FOR_WORKER,	/* no background worker slot was free */
	SX_RUN_RETRYING,			/* waits for its back-off to end */
	SX_RUN_SINK_BLOCKED,		/* max_pending intents wait */
	SX_RUN_STOPPING
} SxRunState;

typedef struct SxQuerySlot
{
	/* set when the slot is taken, under the lock of the segment */
	bool		in_use;
	Oid			database;
	int64		query_id;
	pid_t		pid;			/* of the worker; 0 while it has none */
	Latch	   *latch;			/* of the worker; NULL while it has none */
	Oid			owner;			/* the role the worker runs as */
	pg_uuid_t	run_id;
	TimestampTz started_at;
	int			nstreams;
	Oid			streams[SX_MAX_SOURCES];

	/* control: pid of the backend that holds the query for stop, alter or drop */
	pid_t		held_by;
	bool		stop_requested; /* finish the running batch, then exit */
	bool		cancel_requested;	/* abort the running batch, then exit */

	/*
	 * process_all_available: a caller raises asked; the worker reads it before
	 * it chooses a batch and, finding nothing to do and nothing owed, copies it
	 * to drained and broadcasts.
	 */
	pg_atomic_uint64 asked;
	pg_atomic_uint64 drained;
	ConditionVariable changed;	/* drained, state, pid */

	/*
	 * Trigger realtime: when a commit first woke the worker since it last looked
	 * (a TimestampTz), 0: none has.
	 */
	bool		times_commits;
	pg_atomic_uint64 waiting_since;

	/* what views show; written by the worker only */
	slock_t		mutex;
	SxRunState	state;
	TimestampTz heartbeat;
	int64		batch_id;		/* last committed; -1 before the first */
	TimestampTz watermark;
	double		input_rows_per_second;	/* this and the next two: of the last batch with rows */
	double		processed_rows_per_second;
	int64		batch_duration_us;
	int64		state_rows;
	int64		state_bytes;
	int64		wal_bytes;		/* of this run */
	int64		input_rows;		/* of this run */
	int64		output_rows;
	int64		late_rows;
	/* since the last committed batch, over all processes of the query */
	int			failures_in_a_row;
	int			transient_failures;
	int			deterministic_failures;
	int			restarts;
	TimestampTz retry_at;
	int			max_rows;		/* of a batch, lowered after out of memory; 0: as the query says */
	char		waits_for[NAMEDATALEN];	/* '' or what it waits for, for people */
} SxQuerySlot;

typedef struct SxDatabaseSlot
{
	bool		in_use;
	Oid			database;
	pid_t		pid;			/* of the scheduler; 0 while it has none */
	Latch	   *latch;
	bool		wanted;			/* launcher: start a scheduler here */
	pid_t		held_by;		/* backend that copies, renames or drops the database */
	int			starts;			/* a new serial with each scheduler that enters itself here */
	int			failures;		/* of them in a row that ended by an error */
	pid_t		publisher_pid;	/* 0 while there is none */
	Latch	   *publisher_latch;	/* NULL: wake the scheduler instead */
	TimestampTz publisher_at;	/* not started again before */
} SxDatabaseSlot;

typedef struct SxShared
{
	LWLock	   *lock;			/* slots taken and given back */
	Latch	   *launcher_latch; /* NULL until the launcher runs */
	bool		visit_all;		/* launcher: look into every database */
	ConditionVariable queries_changed;	/* a query was started or has ended, a slot was taken */
	SxDatabaseSlot databases[SX_MAX_DATABASES];
	int			serial;			/* of entries and schedulers, never given twice */
	LWLockPadded *stream_locks; /* SX_STREAM_LOCKS: writers shared, scan exclusive (source/table_stream.c) */
	pg_atomic_uint64 stream_commits;	/* raised by every commit that wrote a stream */
	int			nslots;
	SxQuerySlot slots[FLEXIBLE_ARRAY_MEMBER];
} SxShared;

extern SxShared *sx_shared;		/* NULL when not preloaded */

extern void sx_shared_request(void);	/* from shmem_request_hook */
extern void sx_shared_startup(void);	/* from shmem_startup_hook */

/* Raises an error with a hint when streamx is not in shared_preload_libraries. */
extern void sx_shared_require(void);

/* NULL when there is none. Caller holds no lock; the slot may be given back meanwhile. */
extern SxQuerySlot *sx_slot_find(Oid database, int64 query_id);
extern SxQuerySlot *sx_slot_take(Oid database, int64 query_id);	/* NULL: all taken */
extern void sx_slot_release(SxQuerySlot *slot);

/* For databases that were dropped while their queries ran. */
extern List *sx_slots_idle_databases(void);	/* of OIDs, of slots without a process */
extern void sx_slots_release_database(Oid database);

/* With sx_shared->lock held exclusively. NULL: no entry (and none free). */
extern SxDatabaseSlot *sx_database_find(Oid database, bool make);

/* (commit) Wakes the workers that read the stream. */
extern void sx_wake_stream_readers(Oid database, Oid stream);

/* (commit) Rows for Kafka were inserted: wakes the publisher, or has one started. */
extern void sx_wake_publisher(Oid database);

/* (commit) Wakes the scheduler of the database, or has the launcher start one. */
extern void sx_wake_scheduler(Oid database);

#endif
