/*
 * join_key.h
 *		Keys of a join, and what the state holds of them.
 *
 * A round is some thousand new rows of one side. Their keys are found, what the
 * state holds of these is fetched: of the other side the rows that can match by
 * their times, of the own side what a row is added to. Then all that changed is put
 * and forgotten: a batch has no more in memory than the rows of one round need. The
 * bytes of the state are described at the top of join.c.
 */
#ifndef SX_EXEC_JOIN_KEY_H
#define SX_EXEC_JOIN_KEY_H

#include "exec/group_table.h"
#include "exec/join_page.h"

#define SX_JOIN_KEYS	16384	/* looked up at once, at most */

/* Stores; the first three once for each side. */
#define SX_JOIN_LISTS	0
#define SX_JOIN_PAGES	2
#define SX_JOIN_DUE		4
#define SX_JOIN_LOOSE	6
#define SX_JOIN_BOOKS	7
#define SX_JOIN_STORES	8

#define SX_JOIN_NUMBER	sizeof(uint64)	/* behind the key, in those of pages and loose rows */

typedef struct SxJoinKeySide
{
	SxJoinList	list;
	bool		listed;			/* was fetched */
	bool		changed;
	bool		was_there;		/* the state has a list */
	bool		wanted;			/* span is set */
	SxJoinSpan	span;			/* rows of it that new rows of the other side can match */
	SxJoinRow **found;			/* those rows, by expiry; those that never go are the last */
	uint32		nfound;
	uint32		nnever;
} SxJoinKeySide;

typedef struct SxJoinKey
{
	SxGroup		group;			/* first */
	SxJoinKeySide sides[2];
} SxJoinKey;

/* A row on its way into the state. */
typedef struct SxJoinNew
{
	SxJoinKey  *key;
	SxJoinSpan	wants;			/* rows of the other side that go then can match */
	int64		expiry;
	uint16		chunk;
	uint16		row;
	uint8		flags;			/* as those of SxJoinRow */
	bool		gone;
} SxJoinNew;

typedef struct SxJoinKeys
{
	const SxPlanOperator *plan;
	SxGroupKey *key;			/* of the left side; the bytes are the same for both */
	SxDatumCodec *codecs[2];	/* of the sides' rows */

	/* SX_JOIN_KEYS of each: what is asked of the state at once */
	SxStateKey *state_keys;
	SxStateValue *values;
	SxUpdate   *updates;
	SxJoinKey **asked_keys;
	SxJoinPage **asked_pages;
	uint32	   *asked_numbers;

	/* per batch */
	SxState    *state;
	MemoryContext scanned;		/* a row that a scan shows */
	StringInfoData bytes;		/* of keys and values on their way */
	int64		rows;			/* that the state has, of both sides */
	int64		rows_before;
	int			limit;			/* keys that are looked up at once: more if that goes to the disk */
	bool		passing;		/* some row is */

	/* per round */
	MemoryContext round;
	SxGroupTable *table;		/* NULL: none begun */
	int64		found;			/* rows that new ones can match by their times */
} SxJoinKeys;

/* In CurrentMemoryContext, for the query's life. */
extern SxJoinKeys *sx_join_keys_make(const SxPlanOperator *plan);
extern SxGroupKey *sx_join_side_key(const SxPlanSide *side);

/* Do keys of the side have entries that say when to look at them? */
extern bool sx_join_side_has_due(const SxPlanJoin *join, int side);

/* As SxOperatorRoutine.state_operators. */
extern int	sx_join_keys_stores(const SxPlanOperator *plan, SxStateOperator *result);

/* Per batch; CurrentMemoryContext is the batch's. state NULL: rows are only decoded. */
extern void sx_join_keys_begin(SxJoinKeys *keys, SxState *state);

/* Finds or makes the key of each update, in the round. n is at most SX_JOIN_KEYS, here and below. */
extern void sx_join_keys_find(SxJoinKeys *keys, int n, const SxUpdate *updates, const char *bytes,
							  SxJoinKey **result);

/* What new rows of a side need: their keys and spans are set. */
extern void sx_join_keys_fetch(SxJoinKeys *keys, int side, int n, const SxJoinNew *rows);

/* Adds a row, if it isn't gone; its values are encoded. */
extern void sx_join_keys_add(SxJoinKeys *keys, int side, const SxJoinNew *row, const Datum *values,
							 const bool *nulls);

/* A row of the round's has other flags, or is gone. */
extern void sx_join_keys_change(SxJoinKeys *keys, SxJoinKey *key, int side, SxJoinRow *row);

/* Puts what changed; the round is over, its rows are freed. */
extern void sx_join_keys_put(SxJoinKeys *keys);

/* Puts a row that matches nothing; its key ends with a number of its own. */
extern void sx_join_keys_put_loose(SxJoinKeys *keys, int side, const SxStateKey *key, const Datum *values,
								   const bool *nulls);

static inline uint64
sx_join_loose_number(int side, int64 batch_id, uint32 n)
{
	return (uint64) side << 63 | (uint64) batch_id << 32 | n;
}

extern int	sx_join_loose_side(const SxStateKey *key);

/* The end of a batch: how many rows there are. */
extern void sx_join_keys_finish(SxJoinKeys *keys);

/*
 * The hash of a key. Where bytes decide equality it is theirs, so that it can be
 * had from what the state shows; else that of the types.
 */
extern uint64 sx_join_key_hash(const SxGroupKey *key, uint64 hash, const char *bytes, uint32 len);

/* Values of a row of the round's, in the memory of the round. */
extern void sx_join_row_load(SxJoinKeys *keys, int side, SxJoinRow *row);

/* Values of a row that a scan shows; valid until sx_join_row_free. */
extern void sx_join_row_scan(SxJoinKeys *keys, int side, SxJoinRow *row);
extern void sx_join_row_free(SxJoinKeys *keys);

/* The rows of a list's, a page's or a loose row's entry. */
extern SxReader sx_join_entry_rows(const SxStateKey *key, const SxStateValue *value);

/*
 * join_due.c: takes the rows off that the operator's watermark has passed, in the key
 * groups that it is to look at; see gets each of a side whose rows come out. Returns
 * how many went that batches before had put.
 */
struct SxOperator;
typedef void (*SxJoinSeeDue) (void *arg, int side, SxJoinRow *row);
extern int64 sx_join_remove_due(SxJoinKeys *keys, const struct SxOperator *op, SxJoinSeeDue see, void *arg);

/* As SxOperatorRoutine.due. */
extern int64 sx_join_keys_due(const SxJoinKeys *keys, const struct SxOperator *op);

/* For join_due.c: lists of the round's keys; the pages asked for, as many as n. */
extern void sx_join_keys_list(SxJoinKeys *keys, int side, int n, SxJoinKey *const *wanted);
extern void sx_join_keys_read_pages(SxJoinKeys *keys, int side, int n);

/* join_view.c: as SxOperatorRoutine.stores, show_open and show. */
struct SxNamedStore;
struct SxStateShow;
extern const struct SxNamedStore *sx_join_stores(const SxPlanOperator *plan);
extern void sx_join_show_open(struct SxStateShow *show);
extern void sx_join_show(struct SxStateShow *show, const SxStateKey *key,
						 const SxStateValue *value);

#endif
