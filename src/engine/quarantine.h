/*
 * quarantine.h
 *		What goes from a batch into the quarantine besides the rows that search.h finds,
 *		and what comes back from it.
 *
 *	 malformed record ─▶ quarantine ── requeue() ─▶ row behind those of the next batch's range
 *	 guilty row (search.c) ─┘   ▲                          │ ├ passes ─▶ deleted with that batch
 *								└── fails again, or cannot be read ──┘
 *
 * All of it is part of the batch's transaction: what is in quarantine is not in the
 * result, and what is in the result is not in quarantine.
 */
#ifndef SX_ENGINE_QUARANTINE_H
#define SX_ENGINE_QUARANTINE_H

#include "engine/query_engine.h"
#include "registry/quarantine.h"

/*
 * Rows given back since the last batch join this one. False: there are none. In the
 * batch's transaction, before it runs.
 */
extern bool sx_quarantine_join(SxEngine *engine, SxBatch *batch);

/* The same ones once more, for another run of the same range (search.c). */
extern void sx_quarantine_join_again(SxEngine *engine, SxBatch *batch);

/* Where row i behind the range of a source came from. */
extern const SxRequeued *sx_quarantine_origin(const SxEngine *engine, int source, int64 i);

/* After the plan and the sink have run, in a run that will commit. */
extern void sx_quarantine_after_run(SxEngine *engine, SxBatch *batch);

/* The batch is committed. Cannot fail. */
extern void sx_quarantine_committed(SxEngine *engine);

/* Raises the error of a full quarantine if so many more would not fit. */
extern void sx_quarantine_check_limit(SxEngine *engine, int64 more, int sqlstate,
									  const char *message);

#endif
