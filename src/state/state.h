/*
 * state.h
 *		What an SxState is made of; for the files of this room only.
 */
#ifndef SX_STATE_STATE_H
#define SX_STATE_STATE_H

#include "state/log_table.h"
#include "state/memory_tier.h"
#include "state/state_store.h"
#include "state/store.h"

/* The last expiry of an operator that dropped anything. */
typedef struct SxExpiryMark
{
	bool		set;
	int64		watermark;
	int64		batch;
} SxExpiryMark;

/* What the log ends with; committed, and with the batches prepared since. */
typedef struct SxLogEnd
{
	int64		batch;			/* last one prepared */
	pg_uuid_t	lineage;
	int64		last_section[SX_LOG_PARTS];
	SxExpiryMark *expiries;		/* one per operator of the tier */
} SxLogEnd;

struct SxState
{
	/* set at open */
	MemoryContext context;
	int64		query_id;
	pg_uuid_t	incarnation;
	Size		memory;			/* bytes: the bound of everything together */
	bool		memory_only;
	bool		changelog;
	int			batches_to_retain;
	bool		(*batch_exists) (int64 query_id, const pg_uuid_t *incarnation,
								 int64 batch, const pg_uuid_t *lineage);

	SxTier		tier;
	SxLog		log;
	SxSectionWriter *writer;
	SxLogAppender *appender;

	SxLogEnd	committed;
	SxLogEnd	pending;
	bool	   *expired_now;	/* per operator: expired since the last prepare */
	int64		pending_bytes;	/* of the log, since the last commit */
	int64		changelog_bytes;	/* since open */

	/* the store; not used before memory is short for the first time */
	SxStore    *store;
	bool		store_in_use;	/* it may hold cells of this state */
	bool		store_marked;	/* its mark must go before it changes */
	int			spill_group;	/* where the next spill begins */
	Size		batch_growth;	/* memory that a batch takes, lately */
	Size		memory_before;	/* when the batch began */

	/* rolling snapshots */
	int64		credit;			/* bytes that snapshots may write now */
	int			snapshot_part;	/* SX_NO_PART: none is being taken */
	bool		snapshot_pending[SX_KEY_GROUPS];	/* written by the running batch */
	double		record_bytes;	/* what a change takes in the log, lately */
	bool		broken;			/* maintenance failed half-way: reopen */
};

#define SX_NO_PART	(-1)

/* Tier and store together (state_store.c) */
extern void sx_state_load_cell(SxState *state, const SxCellKey *key, const char *bytes, Size len);
extern Size sx_state_tier_limit(const SxState *state);

/* Counts live keys that only the store holds: not later than the watermark. */
extern int64 sx_state_count_cold(SxState *state, SxTierOperator *op, int64 low, int64 watermark);

/* A group's live keys as a section, wherever they are (snapshot.c). Returns bytes. */
extern int64 sx_snapshot_write(SxState *state, uint16 group, int64 batch);

/* Writes the batch's changes (batch_changes.c). Returns bytes. */
extern int64 sx_changes_write(SxState *state, int64 batch);

/* Fills tier and store from the log (recovery.c). */
extern void sx_state_recover(SxState *state, int64 batch, const pg_uuid_t *lineage);

/* spill.c */
extern void sx_state_spill(SxState *state, Size target);
extern void sx_state_flush(SxState *state);
extern bool sx_cell_next(const char **at, const char *end, SxStateKey *key, SxStateValue *value);

/* snapshot.c */
extern bool sx_snapshot_due(SxState *state);
extern void sx_snapshot_step(SxState *state, bool *more);

/* The mark of a store that fits the log (store_mark.c). */
extern void sx_store_mark_write(SxState *state);
extern bool sx_store_mark_read(SxState *state);

#endif
