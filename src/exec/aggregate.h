/*
 * aggregate.h
 *		The aggregate operator, for the files that make it up: aggregate.c
 *		(everything but) aggregate_panes.c (the end of a batch, where the state
 *		holds panes of sliding windows); and what session.c has of it.
 */
#ifndef SX_EXEC_AGGREGATE_H
#define SX_EXEC_AGGREGATE_H

#include "utils/typcache.h"

#include "exec/aggregate_call.h"
#include "exec/group_table.h"
#include "exec/operator.h"
#include "exec/waiting_rows.h"

#define SX_WORTH_TELLING	1000	/* new groups from which the sink gets them apart */

/* What the state of an operator that keeps panes remembers of them as a whole. */
typedef struct SxPaneBooks
{
	int64		windows;		/* open ones, by key */
	TimestampTz newest;			/* start of the newest pane that was ever put */
} SxPaneBooks;

typedef struct SxAggregate
{
	SxOperator	base;
	SxGroupKey *key;
	SxAggCalls *calls;
	SxChunk    *first_chunk;
	TypeCacheEntry *range_type; /* of a window made below */

	/* per batch */
	SxChunk    *chunk;			/* being filled: the first one, or one after those that wait */
	TimestampTz late;			/* SX_TIME_UNSET: nothing is */
	TimestampTz evict;			/* SX_TIME_UNSET: nothing goes */
	SxPaneBooks books;			/* as the batch found them */
	SxGroupTable *table;
	uint32		nloaded;		/* groups of it that were fetched */
	SxWaitingRows *waiting;		/* rows for the others; NULL: groups are fetched at once */
	MemoryContext batch_context;
	int64		nnew;			/* groups in it that no batch before had */
	uint64		hashes[SX_CHUNK_ROWS];
	int			nupdates;
	SxUpdate	updates[SX_CHUNK_ROWS];
	StringInfoData keys;		/* bytes of the updates' keys */
	StringInfoData value;		/* being encoded */
	Datum	   *row;			/* being emitted */
	bool	   *row_nulls;
	char	   *single_values;	/* of a group that is read and emitted */
} SxAggregate;

#define SX_VALUES_OFFSET	MAXALIGN(sizeof(SxGroup))
#define SX_GROUP_VALUES(group)	((char *) (group) + SX_VALUES_OFFSET)

/* It came in this batch and would go with it: the state need not know. */
static inline bool
sx_aggregate_passes(const SxAggregate *agg, const SxGroup *group)
{
	return group->is_new && group->expiry <= agg->evict;
}

/*
 * Puts the touched groups into the state, but those that only pass; returns how
 * many these are. emits: and shows those that the mode wants to see.
 */
extern int64 sx_aggregate_put_touched(SxAggregate *agg, bool emits);

/* Emits agg->row, whose keys are set, with the results of values, which are used up. */
extern void sx_aggregate_emit_row(SxAggregate *agg, char *values);

/* Columns of the input that keys and aggregates need. */
extern SxChunk *sx_aggregate_make_chunk(const SxPlanOperator *plan);
extern List *sx_aggregate_explain(const SxPlan *plan, const SxPlanOperator *op, List *lines);

/* The last expiry of panes that windows which close by the watermark need. */
extern int64 sx_aggregate_last_pane(const SxPlanOperator *plan, TimestampTz watermark);

/* Instead of what begin and finish do with a state of windows. */
extern void sx_aggregate_begin_panes(SxAggregate *agg);
extern void sx_aggregate_finish_panes(SxAggregate *agg);

/* aggregate_view.c. What a group has to show: its keys, and the results so far. */
struct SxStateShow;

typedef struct SxGroupView
{
	SxGroupKey *key;
	SxAggCalls *calls;
	char	   *values;
	Datum	   *key_values;
	bool	   *key_nulls;
	Datum	   *results;
	bool	   *result_nulls;
} SxGroupView;

/* Sets the columns of show, and its data to the view. */
extern void sx_group_view_open(struct SxStateShow *show, SxGroupView *view);

/* The results, from the bytes of the values. */
extern void sx_group_view_read(SxGroupView *view, SxReader *in);

/* As SxOperatorRoutine.show_open and show. */
extern void sx_aggregate_show_open(struct SxStateShow *show);
extern void sx_aggregate_show(struct SxStateShow *show, const SxStateKey *key,
							  const SxStateValue *value);

/* Can the state have the group's pane? A newer one than all that it ever had, not. */
static inline bool
sx_aggregate_may_have(const SxAggregate *agg, const SxGroup *group)
{
	return !agg->base.plan->panes ||
		sx_group_key_start(group->key, group->keylen) <= agg->books.newest;
}

#endif
