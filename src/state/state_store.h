/*
 * state_store.h
 *		State of a query: keys and values as bytes, committed with the batch.
 *
 * Three layers that callers see as one (design section 5):
 *	 memory tier	hash tables of live entries, at most state_memory
 *	 store			rocksdb or an unlogged table: where cold entries go
 *	 changelog		logged rows written in the batch's transaction: the only
 *					durable thing; the other two are rebuilt from it
 *
 * A batch: get/put/remove/expire ..., prepare (everything that can fail, writes
 * the changelog), COMMIT, commit (cannot fail); or abort.  prepare may be called
 * several times before one commit: a data batch and its no-data batch share a
 * transaction.  Reads see the batch's own writes.
 *
 * Key identity: op, group, expiry and equal(bytes).  hash comes from the key's
 * types, so equal keys have equal hashes even where their bytes differ (numeric
 * 1.0 and 1.00); bytes that are equal are always the same key.  Without equal()
 * bytes decide, and the state makes its own hash of them: then key->hash is not
 * looked at, and keys shown by a scan carry the state's.
 */
#ifndef SX_STATE_STATE_STORE_H
#define SX_STATE_STATE_STORE_H

#include "datatype/timestamp.h"
#include "utils/uuid.h"

#define SX_KEY_GROUPS		256
#define SX_STATE_NEVER		PG_INT64_MAX	/* expiry of a key without event time */

typedef struct SxStateKey
{
	uint16		op;				/* operator id, stable over restarts */
	uint16		group;			/* hash % SX_KEY_GROUPS, 0 for keyless operators */
	uint64		hash;
	int64		expiry;			/* TimestampTz: dropped by a watermark >= it */
	const char *bytes;
	uint32		len;
} SxStateKey;

typedef struct SxStateValue
{
	const char *bytes;			/* NULL: not found; valid until the next write or commit */
	uint32		len;
} SxStateValue;

/* Are two keys with equal op, group, expiry and hash, but other bytes, the same? */
typedef bool (*SxStateEqual) (void *arg, const char *a, uint32 alen, const char *b, uint32 blen);

typedef struct SxStateOperator
{
	uint16		id;
	SxStateEqual equal;			/* NULL: bytes decide */
	void	   *equal_arg;
	bool		fine;			/* expiries are times of rows: hardly two keys have the same one */
} SxStateOperator;

typedef struct SxStateConfig
{
	int64		query_id;
	pg_uuid_t	incarnation;
	const char *store;			/* "rocksdb" or "table" */
	int			memory_kb;
	bool		memory_only;	/* no store: all of it in memory, so that nothing is left of a rollback */
	bool		changelog;		/* false: snapshots of touched key groups instead */
	int			batches_to_retain;
	int64		batch;			/* last committed batch, -1: none: state starts empty */
	pg_uuid_t	lineage;		/* of that batch */
	int			noperators;		/* 0: no state; then nothing is read or written */
	const SxStateOperator *operators;	/* copied */

	/*
	 * Is (incarnation, batch, lineage) in the catalog? A store is believed only
	 * if its mark is: sx_batch_record_exists fits. NULL: never believed.
	 */
	bool		(*batch_exists) (int64 query_id, const pg_uuid_t *incarnation,
								 int64 batch, const pg_uuid_t *lineage);
} SxStateConfig;

typedef struct SxState SxState;

/* Called in key order of no particular meaning; must not call the state. Return false to stop. */
typedef bool (*SxStateVisit) (void *arg, const SxStateKey *key, const SxStateValue *value);

/* In a transaction. Makes (drops) the hidden relations of a query's changelog and table store. */
extern void sx_state_create(int64 query_id);
extern void sx_state_drop(int64 query_id);

/*
 * Opens and, if needed, rebuilds. Needs a transaction; the result lives in
 * CurrentMemoryContext (a long-lived one). Raises ERRCODE_SX_CHECKPOINT when the
 * changelog is short or damaged; then nothing was touched.
 */
extern SxState *sx_state_open(const SxStateConfig *config);

extern void sx_state_get_many(SxState *state, int n, const SxStateKey *keys, SxStateValue *values);
/* A hint before some puts, a few dozen keys at a time: it only saves waiting for memory. */
extern void sx_state_prefetch(SxState *state, int n, const SxStateKey *keys);
extern void sx_state_put(SxState *state, const SxStateKey *key, const char *bytes, uint32 len);
extern void sx_state_remove(SxState *state, const SxStateKey *key);

/* Visits entries of the operator with expiry <= max_expiry (SX_STATE_NEVER: all). */
extern void sx_state_scan(SxState *state, uint16 op, int64 max_expiry, SxStateVisit visit, void *arg);

/* The same of key groups [first, last] only: a part that fits into memory, or into a batch. */
extern void sx_state_scan_groups(SxState *state, uint16 op, int first, int last,
								 int64 max_expiry, SxStateVisit visit, void *arg);

/* About how many entries of the operator have expiry <= max_expiry. */
extern int64 sx_state_due(SxState *state, uint16 op, int64 max_expiry);

/* Drops all entries of the operator with expiry <= watermark: one record. Returns how many. */
extern int64 sx_state_expire(SxState *state, uint16 op, int64 watermark);

extern int64 sx_state_rows(SxState *state, uint16 op);

/* The earliest expiry that an entry of the operator has; SX_STATE_NEVER. */
extern int64 sx_state_earliest(SxState *state, uint16 op);

/* Does only the store hold some of the operator's keys?  Then ask for many at once. */
extern bool sx_state_is_cold(SxState *state, uint16 op);

/*
 * In the batch's transaction; everything that can fail. Returns changelog bytes
 * written. Call it for every batch, also one without changes: the log's last
 * batch must be the catalog's, or the next open takes the log for damaged.
 */
extern int64 sx_state_prepare(SxState *state, int64 batch, const pg_uuid_t *lineage);

/* After COMMIT, outside any transaction. Cannot fail. */
extern void sx_state_commit(SxState *state);

/* After an abort: as before the batch. Cannot fail. */
extern void sx_state_abort(SxState *state);

/*
 * Between batches, in a transaction of its own that the caller commits at once:
 * spills while memory is over its bound, writes rolling snapshots in proportion
 * to the changelog, rotates. Sets *more when there is more to do now.
 * After an abort of that transaction call sx_state_abort and reopen the state.
 */
extern bool sx_state_needs_maintenance(SxState *state);
extern void sx_state_maintain(SxState *state, bool *more);

extern int64 sx_state_memory_used(SxState *state);	/* bytes */
extern int64 sx_state_changelog_bytes(SxState *state);	/* written since open */

/*
 * clean: flushes to the store and leaves the mark (incarnation, batch, lineage)
 * that lets the next open trust it; needs a transaction. Not clean: just frees,
 * may run while failing.
 */
extern void sx_state_close(SxState *state, bool clean);

#endif
