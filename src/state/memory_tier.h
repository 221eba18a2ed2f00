/*
 * memory_tier.h
 *		The live entries of a query's state: a hash probe per key.
 *
 * A hash table per key group holds references to entries; entries of one
 * operator and expiry are chained in a bucket, so expiry detaches a bucket and
 * looks at nothing else.  Where expiries are fine, a bucket is a span of time and
 * its entries have an expiry each; a bucket that a watermark or a scan cuts is
 * first dealt out to finer ones (sx_tier_split), so that none is ever cut.
 *
 * A cell is all keys with the same operator, group, expiry and hash: nearly
 * always one key.  A cell is in memory as a whole or not at all; so a key that
 * is missing while another of its cell is here does not exist, and the store
 * below maps cells to bytes without knowing keys.
 *
 * Undo.  A change is made in place; the first change of an entry in a batch
 * saves what was there in the batch's undo list.  So reads and scans see the
 * batch's own writes for nothing, commit only forgets the undo list and abort
 * puts it back; neither allocates.  An entry without a live value is DEAD: a
 * key just created, or removed.  Once committed a DEAD entry is dropped unless
 * the store holds its cell; then it stays until it was spilled.
 */
#ifndef SX_STATE_MEMORY_TIER_H
#define SX_STATE_MEMORY_TIER_H

#include "lib/pairingheap.h"

#include "state/cold_filter.h"
#include "state/cold_ranges.h"
#include "state/entry_memory.h"
#include "state/key_hash.h"
#include "state/state_store.h"

/* flags of an entry */
#define SX_ENTRY_DEAD		0x01	/* no value: reads as not found */
#define SX_ENTRY_TOUCHED	0x02	/* in the undo list */
#define SX_ENTRY_CHANGED	0x04	/* in the list of changes to log */
#define SX_ENTRY_DIRTY		0x08	/* the store doesn't have this value */
#define SX_ENTRY_IN_STORE	0x10	/* the store has a record of this cell */
#define SX_ENTRY_USED		0x20	/* touched again since the last spill passed */
#define SX_ENTRY_KEY_OUT	0x40	/* data holds a pointer to the key */
#define SX_ENTRY_VALUE_OUT	0x80	/* a pointer to the value follows the key */
#define SX_ENTRY_FINE		0x100	/* the last eight bytes of the piece are its expiry */

typedef struct SxEntry
{
	uint64		hash;
	SxRef		bucket;
	SxRef		prev;			/* in the bucket */
	SxRef		next;
	uint32		klen;
	uint32		vlen;
	uint8		group;
	uint8		class;			/* size class: tells the room for the value */
	uint16		flags;
	char		data[FLEXIBLE_ARRAY_MEMBER];	/* key, value */
} SxEntry;

struct SxTierOperator;

/* Entries of one operator with first <= expiry <= last. */
typedef struct SxBucket
{
	pairingheap_node node;		/* in the operator's heap by last */
	struct SxTierOperator *op;
	int64		first;
	int64		last;
	SxRef		self;
	SxRef		head;
	uint32		count;			/* entries, DEAD ones too */
	uint32		live;
	SxRef		next_expired;	/* in the list of expired ones */
	bool		expired;		/* in this batch: its entries can't be seen */
} SxBucket;

struct sx_buckets_hash;

typedef struct SxTierOperator
{
	SxStateOperator def;
	int64		rows;			/* live keys, in memory or not */
	uint32		typical_vlen;	/* room that a key without a value gets */
	pairingheap heap;			/* buckets, earliest first */
	struct sx_buckets_hash *buckets;	/* by first and last */
	SxBucket   *last_bucket;	/* the one found last */
	int64		split_at;		/* fine: no bucket made now begins before it, but those of one expiry */
	SxRef		expired;		/* buckets detached in this batch */
	SxColdRanges cold;			/* keys that only the store holds */
	SxColdFilter filter;		/* of their cells */
} SxTierOperator;

typedef struct SxTierSlot
{
	uint32		tag;
	SxRef		ref;			/* SX_REF_NONE: empty */
} SxTierSlot;

typedef struct SxTierTable
{
	SxTierSlot *slots;
	uint32		nslots;
	uint32		used;
} SxTierTable;

typedef struct SxUndo
{
	char	   *saved;			/* old value: bytes in the arena, or the large piece */
	SxRef		ref;
	uint32		vlen;
	uint16		flags;			/* as they were */
	bool		created;		/* the entry is of this batch */
} SxUndo;

typedef struct SxTier
{
	MemoryContext context;
	SxEntryMemory memory;
	SxTierTable tables[SX_KEY_GROUPS];
	Size		table_bytes;
	int64		entries;		/* DEAD ones too */

	int			noperators;
	uint64		seed;			/* of hashes made here */
	SxTierOperator *operators;
	uint8	   *by_id;			/* operator id -> index + 1 */
	uint32		max_id;

	/* reset at commit and abort */
	MemoryContext arena;		/* old values */
	char	   *arena_free;
	Size		arena_left;
	SxUndo	   *undo;
	uint32		nundo;
	uint32		undo_allocated;

	/* reset at prepare */
	SxRef	   *changes;
	uint32		nchanges;
	uint32		changes_allocated;
} SxTier;

/* filter_bytes: what the filters of all operators may take */
extern void sx_tier_init(SxTier *tier, MemoryContext context, int noperators,
						 const SxStateOperator *operators, Size filter_bytes, uint64 seed);
extern SxTierOperator *sx_tier_operator(SxTier *tier, uint16 id);

/* Forgets every entry; nothing may be pending. Rows and cold ranges go to zero. */
extern void sx_tier_clear(SxTier *tier);

/*
 * Finds the entry, DEAD ones too; SX_REF_NONE if there is none, and then *mate
 * tells whether another key of the cell is here.
 */
extern SxRef sx_tier_find(SxTier *tier, SxTierOperator *op, const SxStateKey *key,
						  uint32 tag, SxRef *mate);

/* Any entry of the cell. */
extern SxRef sx_tier_find_cell(SxTier *tier, SxTierOperator *op, uint16 group,
							   int64 expiry, uint64 hash);

/* A DEAD entry, not in the undo list; not to be called for a key that is here. */
extern SxRef sx_tier_create(SxTier *tier, SxTierOperator *op, const SxStateKey *key,
							uint32 tag, uint32 vlen);

/* A DEAD entry that commit drops again unless a value is put. */
extern SxRef sx_tier_create_pending(SxTier *tier, SxTierOperator *op, const SxStateKey *key,
									uint32 tag, uint32 vlen, SxRef mate);

/* The batch's changes; they save the old value and list the change. */
extern void sx_tier_put(SxTier *tier, SxRef ref, const char *bytes, uint32 len);
extern void sx_tier_remove(SxTier *tier, SxRef ref);

/* Sets the value of a DEAD entry as committed: what comes from store or log. */
extern void sx_tier_load(SxTier *tier, SxRef ref, const char *bytes, uint32 len);

/* Takes the entry out of memory at once. It must not be in the undo list. */
extern void sx_tier_drop(SxTier *tier, SxRef ref);

/*
 * From now on a bucket's entries all have an expiry <= at, or none has.  To be
 * called before buckets are told apart by an expiry; what a batch sees stays the same.
 */
extern void sx_tier_split(SxTier *tier, SxTierOperator *op, int64 at);

/* Hides all buckets with expiry <= watermark; returns how many live keys. */
extern int64 sx_tier_expire(SxTier *tier, SxTierOperator *op, int64 watermark);

extern void sx_tier_commit(SxTier *tier);
extern void sx_tier_abort(SxTier *tier);

/* Live entries of the operator with expiry <= max_expiry. False: visit stopped it. */
extern bool sx_tier_scan(SxTier *tier, SxTierOperator *op, int64 max_expiry,
						 SxStateVisit visit, void *arg);

/* The same of key groups [first, last]: each entry of theirs is looked at, those of others are not. */
extern bool sx_tier_scan_groups(SxTier *tier, SxTierOperator *op, int first, int last,
								int64 max_expiry, SxStateVisit visit, void *arg);

/* How many live entries of the operator have expiry <= max_expiry; counts no further than enough. */
extern int64 sx_tier_due(SxTier *tier, SxTierOperator *op, int64 max_expiry, int64 enough);

/* The earliest expiry of a live entry in memory; SX_STATE_NEVER: there is none. */
extern int64 sx_tier_earliest(SxTierOperator *op);

extern Size sx_tier_bytes(const SxTier *tier);	/* entries and tables */
extern Size sx_tier_filter_bytes(const SxTier *tier);
extern Size sx_tier_pending_bytes(const SxTier *tier);

/* Ensures room for so many keys more in the group. */
extern void sx_tier_reserve(SxTier *tier, uint16 group, uint32 n);

static inline SxEntry *
sx_tier_entry(const SxTier *tier, SxRef ref)
{
	return (SxEntry *) sx_entry_pointer(&tier->memory, ref);
}

static inline SxBucket *
sx_tier_bucket(const SxTier *tier, const SxEntry *entry)
{
	return (SxBucket *) sx_entry_pointer(&tier->memory, entry->bucket);
}

static inline int64 *
sx_entry_fine_expiry(const SxEntry *entry)
{
	return (int64 *) ((char *) entry + sx_entry_class_size(entry->class) - sizeof(int64));
}

static inline int64
sx_entry_expiry(const SxEntry *entry, const SxBucket *bucket)
{
	return (entry->flags & SX_ENTRY_FINE) ? *sx_entry_fine_expiry(entry) : bucket->last;
}

static inline const char *
sx_entry_key(const SxEntry *entry)
{
	if (entry->flags & SX_ENTRY_KEY_OUT)
		return *(char *const *) entry->data;
	return entry->data;
}

/* Where the value, or the pointer to it, lies. */
static inline char *
sx_entry_value_place(SxEntry *entry)
{
	return entry->data +
		((entry->flags & SX_ENTRY_KEY_OUT) ? sizeof(char *) : entry->klen);
}

static inline const char *
sx_entry_value(SxEntry *entry)
{
	char	   *place = sx_entry_value_place(entry);

	if (entry->flags & SX_ENTRY_VALUE_OUT)
	{
		memcpy(&place, place, sizeof(char *));	/* not aligned */
		return place;
	}
	return place;
}

/* The hash that the key goes by here: its own, unless its bytes decide. */
static inline uint64
sx_tier_hash(const SxTier *tier, const SxTierOperator *op, const SxStateKey *key)
{
	if (op->def.equal != NULL)
		return key->hash;
	return sx_key_hash(key->bytes, key->len, tier->seed);
}

/* A well mixed hash of a cell. */
static inline uint64
sx_cell_mix(uint16 op, int64 expiry, uint64 hash)
{
	uint64		x = hash + op * UINT64CONST(0x9E3779B97F4A7C15);

	x ^= (uint64) expiry * UINT64CONST(0xC2B2AE3D27D4EB4F);
	x ^= x >> 33;
	x *= UINT64CONST(0xFF51AFD7ED558CCD);
	x ^= x >> 33;
	x *= UINT64CONST(0xC4CEB9FE1A85EC53);
	return x ^ (x >> 33);
}

/* Where a key belongs in its group's table; all 32 bits count. */
static inline uint32
sx_tier_tag(uint16 op, int64 expiry, uint64 hash)
{
	return (uint32) (sx_cell_mix(op, expiry, hash) >> 32);
}

static inline uint32
sx_tier_home(const SxTierTable *table, uint32 tag)
{
	return (uint32) (((uint64) tag * table->nslots) >> 32);
}

#endif
