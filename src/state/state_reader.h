/*
 * state_reader.h
 *		The state as it was after a batch, from the log alone.
 *
 * For everybody but the query's worker: nothing of the query is stopped, nothing
 * is written, no store is opened; so it works on a standby, too.  Everything is
 * read with one snapshot of the caller's.
 */
#ifndef SX_STATE_STATE_READER_H
#define SX_STATE_STATE_READER_H

#include "state/state_store.h"

#define SX_ALL_GROUPS	(-1)

typedef struct SxStateRead
{
	int64		query_id;
	struct SnapshotData *snapshot;
	SxStateOperator op;			/* whose keys */
	int			group;			/* key group, or SX_ALL_GROUPS */
	int64		batch;			/* the state after it */
	int64		snapshots_until;	/* begin with group snapshots not after this batch: mostly batch */

	/* all changes since this batch instead of what there is; -1: not wanted */
	int64		changes_from;
} SxStateRead;

/* What was put, removed or dropped by the watermark; without changes_from: what there is. */
typedef struct SxStateChange
{
	int64		batch;			/* when; of what there is: 0 */
	const SxStateKey *key;
	const SxStateValue *value;	/* bytes NULL: gone */
	const SxStateValue *before; /* bytes NULL: there was none; of what there is: always */
} SxStateChange;

typedef void (*SxStateChangeVisit) (void *arg, const SxStateChange *change);

/*
 * Visits in order of key groups and hashes, the changes of one key by batch.
 * CurrentMemoryContext is reset between visits.  Takes at most work_mem, and
 * temporary files.
 */
extern void sx_state_read(const SxStateRead *read, SxStateChangeVisit visit, void *arg);

/* The oldest batch whose state the snapshot can read. */
extern int64 sx_state_oldest_batch(int64 query_id, struct SnapshotData *snapshot);

#endif
