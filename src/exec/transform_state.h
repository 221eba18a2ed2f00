/*
 * transform_state.h
 *		What a handler keeps: its variables and timers, key by key.
 *
 * One SxTransformState belongs to an operator. Between sx_transform_begin_key and
 * the next one, what is read and written is that of one key. The bytes are
 * described in transform_keys.h.
 */
#ifndef SX_EXEC_TRANSFORM_STATE_H
#define SX_EXEC_TRANSFORM_STATE_H

#include "exec/operator.h"
#include "exec/transform_keys.h"

typedef struct SxTransformUndo SxTransformUndo;

typedef struct SxTransformState
{
	/* for the query's life */
	const SxPlanOperator *plan;
	SxTransformKeys *keys;
	char	   *layout;			/* as it was when the query was opened */

	/* per batch */
	SxState    *state;
	SxOperatorProgress *progress;
	int64		batch_id;
	TimestampTz timestamp;		/* of the batch */
	TimestampTz watermark;		/* SX_TIME_UNSET: none yet */
	bool		firing;			/* timers are: what is set now fires in a later batch */
	bool		due_again;		/* and some such is due already */
	int			level;			/* nesting of transactions outside the handlers */

	/* per key; its bytes must stay */
	SxTransformOwner owner;
	SxTransformUndo *undo;		/* of subtransactions of the handler */

	/* scratch: a state key, another one, a value */
	StringInfoData buffer;
	StringInfoData other;
	StringInfoData bytes;
} SxTransformState;

/* CurrentMemoryContext is the query's; the batch's. */
extern SxTransformState *sx_transform_state_make(const SxPlanOperator *plan);
extern void sx_transform_state_begin(SxTransformState *ts, SxOperator *op);

extern void sx_transform_begin_key(SxTransformState *ts, const char *key, uint32 keylen,
								   uint64 hash, uint16 group);

/* What a subtransaction that was rolled back has changed is changed back; after each call of a handler. */
extern void sx_transform_settle(SxTransformState *ts);

/* The state that functions called now are about; NULL: no handler runs. Cannot fail. */
extern void sx_transform_enter(SxTransformState *ts);
extern SxTransformState *sx_transform_current(void);

/* The three ways to the state: what a handler's subtransaction changes can be put back. */
extern SxStateValue sx_transform_read(SxTransformState *ts, const SxStateKey *key);
extern void sx_transform_write(SxTransformState *ts, const SxStateKey *key, const char *bytes, uint32 len);
extern void sx_transform_remove(SxTransformState *ts, const SxStateKey *key);

/* ---- variables of the key; errors name what is wrong with the call ---- */

extern SxVariable *sx_transform_variable(SxTransformState *ts, const char *name, SxVariableKind kind);
extern SxVariable *sx_transform_any_variable(SxTransformState *ts, const char *name);

/* What a variable, an element or an entry holds; in CurrentMemoryContext. */
typedef struct SxTransformValue
{
	bool		found;
	bool		isnull;
	Datum		value;
	TimestampTz goes_at;		/* DT_NOEND: it stays */
	uint64		place;			/* of a map's entry */
} SxTransformValue;

extern void sx_transform_get(SxTransformState *ts, SxVariable *variable, SxTransformValue *value);
/* ttl in microseconds: 0: the declared one. */
extern void sx_transform_put(SxTransformState *ts, SxVariable *variable, Datum value, bool isnull, int64 ttl);
extern bool sx_transform_exists(SxTransformState *ts, SxVariable *variable);
extern void sx_transform_clear(SxTransformState *ts, SxVariable *variable);

/* Elements in order, those that are gone left out; returns how many. */
extern int	sx_transform_list(SxTransformState *ts, SxVariable *variable, Datum **values, bool **nulls);
extern int64 sx_transform_length(SxTransformState *ts, SxVariable *variable);
extern void sx_transform_append(SxTransformState *ts, SxVariable *variable, int n,
								const Datum *values, const bool *nulls, int64 ttl);

extern void sx_transform_map_get(SxTransformState *ts, SxVariable *variable, Datum key, SxTransformValue *value);
extern void sx_transform_map_put(SxTransformState *ts, SxVariable *variable, Datum key,
								 Datum value, bool isnull, int64 ttl);
extern bool sx_transform_map_remove(SxTransformState *ts, SxVariable *variable, Datum key);
extern int64 sx_transform_size(SxTransformState *ts, SxVariable *variable);
extern int	sx_transform_map(SxTransformState *ts, SxVariable *variable, Datum **keys,
							 Datum **values, bool **nulls);

/* ---- timers of the key ---- */

extern void sx_transform_timer_set(SxTransformState *ts, TimestampTz at);
extern bool sx_transform_timer_delete(SxTransformState *ts, TimestampTz at);
extern int	sx_transform_timers(SxTransformState *ts, TimestampTz **timers);
extern void sx_transform_timers_clear(SxTransformState *ts);

/* Timers up to here fire in this batch; SX_TIME_UNSET: none do. */
extern TimestampTz sx_transform_due(const SxTransformState *ts);
extern TimestampTz sx_transform_due_by(const SxPlanTransform *plan, TimestampTz watermark,
									   TimestampTz timestamp);

/* Is there such a timer that may fire in this batch? */
extern bool sx_transform_timer_fires(SxTransformState *ts, TimestampTz at);

/* ---- of the operator as a whole ---- */

extern bool sx_transform_initial_taken(SxTransformState *ts);
extern void sx_transform_initial_take(SxTransformState *ts);

/* Takes away what goes by the batch's timestamp. */
extern void sx_transform_remove_gone(SxTransformState *ts);

#endif
