/*
 * state_view.h
 *		The state of an operator as rows that people can read.
 *
 * Keys and values are jsonb objects with a field per column: their columns are
 * the query's, so no function could declare them.  Window keys are the ranges
 * that the query shows; an aggregate's value is its result so far.
 */
#ifndef SX_EXEC_STATE_VIEW_H
#define SX_EXEC_STATE_VIEW_H

#include "access/tupdesc.h"

#include "exec/operator.h"
#include "state/state_reader.h"

/* What is shown of an entry. Datums are in the memory of the call. */
typedef struct SxStateRow
{
	int64		batch;			/* of a change */
	int			group;
	Datum		key;
	Datum		value;			/* 0: the key is gone */
	int64		expiry;
} SxStateRow;

typedef void (*SxStateRowSink) (void *arg, const SxStateRow *row);

typedef struct SxStateShow
{
	const SxOperatorRoutine *routine;
	const SxPlanOperator *plan;
	const SxNamedStore *store;

	/* set by the operator's show_open */
	TupleDesc	key;
	TupleDesc	value;
	void	   *data;			/* its own */
	bool		many;			/* an entry may have several rows, and none without its value */
	bool		same_keys;		/* ... of one key */
	char	   *properties;		/* NULL, or members of a JSON object that say more of the store */
	void		(*end) (struct SxStateShow *show);	/* NULL, or: shows what was kept until now */

	bool		arrays;			/* elements and entries of a key are to be shown together */
	MemoryContext context;		/* of this */
	const SxStateChange *change;	/* being shown */
	struct SxStateMoves *moves; /* of rows between entries */
	SxStateRowSink sink;
	void	   *arg;
} SxStateShow;

/*
 * In a transaction, with the rights of the query's owner, here and below: final
 * functions and casts of his run.  name NULL: the operator's first store.  arrays:
 * where a key has many elements or entries, one row for it (not of changes).  Errors
 * name what there is.  Lives in CurrentMemoryContext.
 */
extern SxStateShow *sx_state_show_open(const SxPlan *plan, int operator_id, const char *name,
									   bool arrays, SxStateRowSink sink, void *arg);

/* The operator's stores that hold the named one; returns how many. */
extern int	sx_state_show_stores(const SxStateShow *show, SxStateOperator *stores);

/* What one entry of such a store has to show. */
extern void sx_state_show_entry(SxStateShow *show, const SxStateChange *change);

/* What became of it: what it has to show now, and what it does not show any more. */
extern void sx_state_show_change(SxStateShow *show, const SxStateChange *change);

/* After the last one: what was kept for being shown together. */
extern void sx_state_show_end(SxStateShow *show);

/* ---------- for operators ---------- */

/* A row; values NULL: the key is gone. */
extern void sx_state_show_row(SxStateShow *show, const Datum *key, const bool *key_nulls,
							  const Datum *values, const bool *value_nulls, int64 expiry);

extern Datum sx_state_show_as_jsonb(TupleDesc desc, const Datum *values, const bool *nulls);

/* As SxOperatorRoutine.stores: store 0, called "default". */
extern const SxNamedStore *sx_state_show_default(const SxPlanOperator *plan);

/* Keys by their names; a desc of n columns for others, whose names are made different. */
extern TupleDesc sx_state_show_keys(const SxPlanKey *keys, int nkeys);
extern TupleDesc sx_state_show_columns(int n);
extern void sx_state_show_column(TupleDesc desc, int number, const char *name, Oid type,
								 int32 typmod);

#endif
