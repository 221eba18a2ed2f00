/*
 * log_table.h
 *		The log as rows of hidden tables: the only durable thing of the state.
 *
 * The 256 key groups are eight parts.  Each part writes to one table at a time,
 * a generation: first the changes of the batches of its time, among them a
 * snapshot of each of the part's groups.  Once every group has one, the
 * generation is complete, and older generations serve only the retained
 * batches before that; then their tables are truncated and can be used again.
 *
 *		part 0	[ gen 4 ........S.S.S.S | gen 5 S.S.S.S........ >
 *		part 1	[ gen 4 ....S.S.S.S............ >
 *						 (parts take turns: WAL stays even)
 *
 * State at batch B = per group its newest snapshot not after B, and the changes
 * after that up to B.
 */
#ifndef SX_STATE_LOG_TABLE_H
#define SX_STATE_LOG_TABLE_H

#include "state/changelog.h"
#include "storage/block.h"

#define SX_LOG_SLOTS		24
#define SX_INCOMPLETE		(-2)

typedef struct SxGeneration
{
	int64		number;
	int			slot;
	int64		first_batch;
	int64		complete_batch; /* SX_INCOMPLETE: some group has no snapshot here */
	int64		change_bytes;	/* of committed batches */
	int64		pending_bytes;	/* and of the running one */
	int64		snapshot_bytes;
	int64		snapshot_batch[SX_GROUPS_IN_PART];	/* newest here, SX_INCOMPLETE: none */
} SxGeneration;

typedef struct SxLogPart
{
	int			ngenerations;	/* oldest first; at least one */
	SxGeneration generations[SX_LOG_SLOTS];
	BlockNumber last_block;		/* where the last row went */
	Size		last_free;		/* room left there, as far as we know */
} SxLogPart;

typedef struct SxLog
{
	int64		query_id;
	struct SnapshotData *snapshot;	/* of a reader; NULL: what is committed now */
	Oid			relations[SX_LOG_SLOTS];
	bool		slot_used[SX_LOG_SLOTS];
	SxLogPart	parts[SX_LOG_PARTS];
} SxLog;

/* In a transaction. The store's table is table_store.c's. */
extern void sx_log_create(int64 query_id);
extern void sx_log_drop(int64 query_id);

/* Reads which generations there are. Raises ERRCODE_SX_CHECKPOINT if it makes no sense. */
extern void sx_log_open(SxLog *log, int64 query_id);

/*
 * For a reader beside the query, who sees the log as of the snapshot: locks it
 * against rotation until sx_log_unlock.  False: what the snapshot knows of was
 * truncated since.
 */
extern bool sx_log_open_locked(SxLog *log, int64 query_id, struct SnapshotData *snapshot);
extern void sx_log_unlock(SxLog *log);

/* From which batch on the state can be read. */
extern int64 sx_log_oldest_batch(const SxLog *log);

static inline SxGeneration *
sx_log_current(SxLog *log, int part)
{
	return &log->parts[part].generations[log->parts[part].ngenerations - 1];
}

/* What was counted of the generation's content. */
extern void sx_log_reset_counts(SxGeneration *generation);

/* Writes the bytes of one section as rows; give the functions to sx_section_begin. */
typedef struct SxLogAppender SxLogAppender;

extern SxLogAppender *sx_log_appender_create(SxLog *log, MemoryContext context);
extern void sx_log_append_begin(SxLogAppender *appender, const SxSectionHeader *header);
extern void sx_log_append(void *appender, const char *bytes, Size len, bool last);
extern int64 sx_log_append_end(SxLogAppender *appender);	/* bytes written */

/*
 * Next section of a generation in the order they were written. The bytes are the
 * reader's until the next call. Raises ERRCODE_SX_CHECKPOINT if rows are missing.
 */
typedef struct SxLogScan SxLogScan;

extern SxLogScan *sx_log_scan_begin(SxLog *log, int part, int generation);
extern bool sx_log_scan_next(SxLogScan *scan, SxSectionHeader *header,
							 const char **bytes, Size *len);
extern void sx_log_scan_end(SxLogScan *scan);

/* Rotation; each in a transaction that the caller commits at once. */
extern bool sx_log_has_free_slot(const SxLog *log);
extern void sx_log_begin_generation(SxLog *log, int part, int64 first_batch);
extern void sx_log_complete_generation(SxLog *log, int part, int64 batch);

/* Truncates the oldest generation of the part; false: somebody holds a lock on it. */
extern bool sx_log_drop_oldest(SxLog *log, int part);

/* Raises ERRCODE_SX_CHECKPOINT. */
extern void sx_log_damaged(const SxLog *log, const char *detail);

#endif
