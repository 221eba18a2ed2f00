/*
 * join_key.h
 *		The rows of a join by their key: those in the state, and this batch's.
 *
 * What the state holds of a key is fetched when a row of the batch asks for it,
 * many keys at a time: first which rows there are, then those that can match by
 * their times. The bytes of the state are described at the top of join.c.
 */
#ifndef SX_EXEC_JOIN_KEY_H
#define SX_EXEC_JOIN_KEY_H

#include "exec/group_table.h"
#include "exec/join_page.h"

#define SX_JOIN_KEYS	16384	/* looked up at once, at most */

typedef struct SxJoinKeySide
{
	SxJoinRow  *fresh;			/* this batch's, until they are put */
	SxJoinList	list;			/* those of the state, then all */
	bool		listed;			/* the state was asked which rows there are */
	bool		changed;		/* another list must be put */
	bool		was_there;		/* the state has a list */
	bool		wanted;			/* by the fetch that goes on */
	SxJoinSpan	span;			/* ... these rows */
} SxJoinKeySide;

typedef struct SxJoinKey
{
	SxGroup		group;			/* first */
	SxJoinKeySide sides[2];
} SxJoinKey;

typedef struct SxJoinKeys SxJoinKeys;

/* In CurrentMemoryContext, for the query's life. */
extern SxJoinKeys *sx_join_keys_make(const SxPlanOperator *plan);
extern SxGroupKey *sx_join_side_key(const SxPlanSide *side);

/* As SxOperatorRoutine.state_operators. */
extern int	sx_join_keys_stores(const SxPlanOperator *plan, SxStateOperator *result);

/* Per batch; CurrentMemoryContext is the batch's. */
extern void sx_join_keys_begin(SxJoinKeys *keys, SxState *state);

/* Finds or makes the key of each update. n is at most SX_JOIN_KEYS, here and below. */
extern void sx_join_keys_find(SxJoinKeys *keys, int n, const SxUpdate *updates,
							  const char *bytes, SxJoinKey **result);

/* Has the rows of one side at hand that the new rows of the other can match. */
extern void sx_join_keys_fetch(SxJoinKeys *keys, int side, int n, SxJoinRow *const *rows);

/* Puts new rows, by their links; returns how many. */
extern int64 sx_join_keys_put(SxJoinKeys *keys, int side, SxJoinRow *rows);

/* A stored row is matched now, or gone. */
extern void sx_join_keys_change(SxJoinKeys *keys, SxJoinRow *row);

/*
 * The rows with these keys in the state go, by this watermark: takes them off their
 * keys' lists. Bytes of the keys lie within the buffer.
 */
extern void sx_join_keys_forget(SxJoinKeys *keys, int side, int n, const SxStateKey *rows,
								const char *buffer, TimestampTz evict);

/* Puts the lists that changed; those that go with their rows by the watermark evict are left alone. */
extern void sx_join_keys_finish(SxJoinKeys *keys, TimestampTz evict);

/*
 * The hash of a key. Where bytes decide equality it is theirs, so that it can be
 * had from what the state shows; else that of the types.
 */
extern uint64 sx_join_key_hash(const SxGroupKey *key, uint64 hash, const char *bytes, uint32 len);

/* A row of the chunk, in the batch's memory. */
extern SxJoinRow *sx_join_row_copy(SxJoinKeys *keys, const SxPlanSide *side, const SxChunk *chunk, int row);

extern bool sx_join_value_matched(const SxStateValue *value);

/* Of a scan; valid until sx_join_row_free. */
extern SxJoinRow *sx_join_row_decode(SxJoinKeys *keys, int side, const SxStateValue *value);
extern void sx_join_row_free(SxJoinKeys *keys);

/* join_view.c: as SxOperatorRoutine.stores, show_open and show. */
struct SxNamedStore;
struct SxStateShow;
extern const struct SxNamedStore *sx_join_stores(const SxPlanOperator *plan);
extern void sx_join_show_open(struct SxStateShow *show);
extern void sx_join_show(struct SxStateShow *show, const SxStateKey *key,
						 const SxStateValue *value);

#endif
