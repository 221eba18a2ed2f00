/*
 * store.h
 *		Where cold cells go: a map from cell to bytes that may be lost.
 *
 * A store knows nothing of keys, batches or transactions of queries.  It is
 * written only between batches with committed values, and believed at the next
 * open only if it carries the mark (store_mark.h).  Cells sort by operator,
 * group, expiry, hash.
 */
#ifndef SX_STATE_STORE_H
#define SX_STATE_STORE_H

#include "utils/uuid.h"

typedef struct SxCellKey
{
	uint16		op;
	uint16		group;
	int64		expiry;
	uint64		hash;
} SxCellKey;

typedef struct SxStoreConfig
{
	int64		query_id;
	pg_uuid_t	incarnation;
	Size		memory;			/* caches and buffers together */
} SxStoreConfig;

struct SxStoreRoutine;

/* A concrete store embeds this as its first member. */
typedef struct SxStore
{
	const struct SxStoreRoutine *routine;
} SxStore;

/* The bytes are the store's and end with the call. Return false to stop. */
typedef bool (*SxCellVisit) (void *arg, const SxCellKey *key, const char *bytes, Size len);

typedef struct SxStoreRoutine
{
	const char *name;

	/* In CurrentMemoryContext, which outlives the store. Opens no file yet. */
	SxStore    *(*open) (const SxStoreConfig *config);

	/* keys are sorted and different; calls found for each that is there. */
	void		(*get_many) (SxStore *store, int n, const SxCellKey *keys,
							 void (*found) (void *arg, int i, const char *bytes, Size len),
							 void *arg);

	/* Cells of the operator and group with expiry <= max_expiry, in order. */
	void		(*scan) (SxStore *store, uint16 op, uint16 group, int64 max_expiry,
						 SxCellVisit visit, void *arg);

	/*
	 * Optional, around a rebuild of a store that was just cleared: in between it
	 * is only written, every cell once and none removed.  If end is never reached
	 * the store is cleared again before anybody reads it.
	 */
	void		(*load_begin) (SxStore *store);
	void		(*load_end) (SxStore *store);

	/* A sorted run: begin, then put or remove in ascending order, then end. */
	void		(*write_begin) (SxStore *store, Size expected_bytes);
	void		(*put) (SxStore *store, const SxCellKey *key, const char *bytes, Size len,
						bool is_new);	/* the store has no such cell */
	void		(*remove) (SxStore *store, const SxCellKey *key);
	void		(*write_end) (SxStore *store);

	/* Drops all cells of the operator with expiry <= max_expiry. */
	void		(*remove_expired) (SxStore *store, uint16 op, int64 max_expiry);

	/* The mark: NULL if there is none. set makes all that was written durable first. */
	char	   *(*get_mark) (SxStore *store, Size *len);
	void		(*set_mark) (SxStore *store, const char *bytes, Size len);
	void		(*remove_mark) (SxStore *store);	/* durable on return */

	/* Drops everything, the mark too. */
	void		(*clear) (SxStore *store);

	/* Never raises an error. */
	Size		(*memory) (SxStore *store);
	void		(*close) (SxStore *store);
} SxStoreRoutine;

extern const SxStoreRoutine sx_rocksdb_store;
extern const SxStoreRoutine sx_table_store;
extern const SxStoreRoutine sx_no_store;	/* of a state that is memory_only: an error when it is needed */

/* In a transaction: the relation of the table store. */
extern void sx_table_store_create(int64 query_id);
extern void sx_table_store_drop(int64 query_id);

static inline int
sx_cell_compare(const SxCellKey *a, const SxCellKey *b)
{
	if (a->op != b->op)
		return a->op < b->op ? -1 : 1;
	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	if (a->expiry != b->expiry)
		return a->expiry < b->expiry ? -1 : 1;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return 0;
}

#endif
