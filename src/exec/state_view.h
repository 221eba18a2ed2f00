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

/* value 0: the key is gone. Datums are in the memory of the call. */
typedef void (*SxStateRowSink) (void *arg, Datum key, Datum value, int64 expiry);

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

	SxStateRowSink sink;
	void	   *arg;
} SxStateShow;

/*
 * In a transaction, with the rights of the query's owner, here and below: final
 * functions and casts of his run.  name NULL: the operator's first store.  Errors
 * name what there is.  Lives in CurrentMemoryContext.
 */
extern SxStateShow *sx_state_show_open(const SxPlan *plan, int operator_id, const char *name,
									   SxStateRowSink sink, void *arg);

/* The operator's stores that hold the named one; returns how many. */
extern int	sx_state_show_stores(const SxStateShow *show, SxStateOperator *stores);

/* What one entry of such a store has to show. */
extern void sx_state_show_entry(SxStateShow *show, const SxStateKey *key,
								const SxStateValue *value);

/* What became of it: what it has to show now, and what it does not show any more. */
extern void sx_state_show_change(SxStateShow *show, const SxStateKey *key,
								 const SxStateValue *value, const SxStateValue *before);

/* ---------- for operators ---------- */

/* A row; values NULL: the key is gone. */
extern void sx_state_show_row(SxStateShow *show, const Datum *key, const bool *key_nulls,
							  const Datum *values, const bool *value_nulls, int64 expiry);

/* As SxOperatorRoutine.stores: store 0, called "default". */
extern const SxNamedStore *sx_state_show_default(const SxPlanOperator *plan);

/* Keys by their names; a desc of n columns for others, whose names are made different. */
extern TupleDesc sx_state_show_keys(const SxPlanKey *keys, int nkeys);
extern TupleDesc sx_state_show_columns(int n);
extern void sx_state_show_column(TupleDesc desc, int number, const char *name, Oid type,
								 int32 typmod);

#endif
