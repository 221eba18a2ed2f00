/*
 * sink.h
 *		Where results go.
 *
 * Inside PostgreSQL (table, stream, foreach_batch): write() is all; rows, offsets
 * and state are one commit. Outside: write() collects, stage() turns the batch
 * into an intent that is stored in the same transaction, publish() carries it out
 * after COMMIT, idempotently under (incarnation, batch id); mark() reads back what
 * the sink has (design section 6).
 */
#ifndef SX_SINK_SINK_H
#define SX_SINK_SINK_H

#include "access/tupdesc.h"
#include "lib/stringinfo.h"
#include "utils/tuplestore.h"

#include "registry/query.h"

struct SxSinkRoutine;

typedef struct SxSink
{
	const struct SxSinkRoutine *routine;
	const char *description;	/* for progress */
	bool		takes_fresh;	/* write() wants SxResult.fresh; may change from batch to batch */
	bool		discards;		/* write() looks at no row: SxResult.rows stays empty */
} SxSink;

typedef struct SxSinkConfig
{
	const SxQuery *query;
	TupleDesc	desc;			/* of the result */
	bool		in_session;		/* not in a worker: the transaction is not the batch's */

	/*
	 * Result columns that identify a row. NULL: rows have no identity (a
	 * stateless query), or it is not in the result: then keys_missing names
	 * the grouping column that is not selected. Not NULL with nkeys 0: the
	 * result is a single row (an aggregate without GROUP BY).
	 */
	int			nkeys;
	const AttrNumber *keys;
	const char *keys_missing;
	const char *keys_multiplied;	/* or what may make several rows of one above the aggregation */
	bool		retracts;		/* update mode: rows of earlier batches go as such (SxResult.gone); keys is set */
} SxSinkConfig;

/* The result of one batch. */
typedef struct SxResult
{
	int64		batch_id;
	TupleDesc	desc;
	Tuplestorestate *rows;
	int64		nrows;			/* those in fresh counted in */

	bool		discard;		/* in: rows are only counted */

	/*
	 * Update mode, if the sink asked for it: rows of groups that no batch before
	 * had, apart from rows. NULL: none, or all are in rows.
	 */
	bool		split_fresh;	/* in */
	Tuplestorestate *fresh;
	int64		nfresh;

	/*
	 * Update mode (D14): keys of groups that were touched but have no row now, and
	 * of sessions that became others (SxSinkConfig.retracts); to be deleted, before
	 * the rows are written, by sinks that keep a table true. NULL if none; columns are
	 * the key columns in the order of SxSinkConfig.keys.
	 */
	Tuplestorestate *gone;
	TupleDesc	gone_desc;
	int64		ngone;
} SxResult;

#define SX_MARK_NONE	(-1)	/* the sink has nothing of this incarnation */

typedef struct SxSinkRoutine
{
	const char *name;			/* 'table', 'noop', ... */
	bool		outside;

	/* create_query: checks rights and shape, creates a missing table; errors with hints. Sets query->sink_relation. */
	void		(*prepare) (SxQuery *query, const SxSinkConfig *config);

	SxSink	   *(*open) (const SxSinkConfig *config);	/* in a transaction */
	void		(*write) (SxSink *sink, const SxResult *result);	/* in the batch's transaction; returns after all rows are in */

	/* Outside only. Appends the intent's bytes; may write temporary files of this attempt. */
	void		(*stage) (SxSink *sink, const SxResult *result, StringInfo intent);

	/*
	 * Outside only: carries intents out, in order, after their flushed COMMIT and
	 * outside any transaction; may be repeated. Either publish, which returns when
	 * the sink has it, and raises an error if it could not; or the three below it,
	 * between which the sink works on its own. It sets the worker's latch when
	 * something happened.
	 */
	void		(*publish) (SxSink *sink, int64 batch_id, const char *intent, int len);
	/* False: no room now. */
	bool		(*hand_over) (SxSink *sink, int64 batch_id, const char *intent, int len);
	/* The newest batch that the sink has; raises an error if publishing failed. */
	int64		(*published) (SxSink *sink);
	/* After such an error: the mark as it is now. What was handed over behind it is forgotten. */
	int64		(*resume) (SxSink *sink);
	/* Optional. What publishing waits for, for people; NULL: nothing worth a word. */
	const char *(*waits_for) (SxSink *sink);

	/*
	 * The last batch id of this incarnation that the sink has; SX_MARK_NONE.
	 * *foreign is set to a sentence if another history wrote the mark.
	 */
	int64		(*mark) (SxSink *sink, const char **foreign);
	/*
	 * Optional. Is what the mark names this very intent? A server and its copy may
	 * both have a batch of that id, with other rows.
	 */
	bool		(*holds) (SxSink *sink, const char *intent, int len);
	/* Optional. From now on nobody else of this incarnation can write; the mark is read again then. */
	void		(*take) (SxSink *sink);
	/* Optional. The mark is as it should be: intents follow. */
	void		(*begin) (SxSink *sink, int64 mark);
	/* Removes what attempts that never committed left behind. Optional. */
	void		(*recover) (SxSink *sink, int64 last_batch);

	void		(*close) (SxSink *sink);	/* never raises an error */
} SxSinkRoutine;

extern const SxSinkRoutine *sx_sink_routine(SxSinkKind kind);

#endif
