/*
 * engine.h
 *		One continuous query, batch by batch, from offsets to commit.
 *
 * The worker calls step() in a loop and does the waiting and the catching;
 * no static state, so a worker could drive several engines.
 */
#ifndef SX_ENGINE_ENGINE_H
#define SX_ENGINE_ENGINE_H

#include "monitor/shared.h"
#include "plan/plan.h"
#include "registry/query.h"

typedef struct SxEngine SxEngine;

typedef enum SxStep
{
	SX_STEP_RAN,				/* a batch was committed; call again */
	SX_STEP_IDLE,				/* nothing to do until woken or next_time */
	SX_STEP_BLOCKED,			/* an outside sink has max_pending intents waiting */
	SX_STEP_FINISHED			/* available_now or once is done */
} SxStep;

/* Raises an error if the query's trigger does not go with the streams it reads. */
extern void sx_trigger_check(const SxQuery *query, const SxPlan *plan);

/*
 * Opens the query: plan, layout check, state, sources, sink. Outside a
 * transaction; lives in CurrentMemoryContext. Errors leave nothing behind.
 */
extern SxEngine *sx_engine_open(int64 query_id, SxQuerySlot *slot);

/* The query's row, until the transaction ends; false: it is being stopped or taken from us. */
extern bool sx_engine_lock_row(SxQuerySlot *slot, int64 query_id);

/*
 * Runs at most one data batch and the no-data batch that it owes. Outside a
 * transaction; starts and commits its own. After an error the caller aborts the
 * transaction and calls sx_engine_abort.
 */
extern SxStep sx_engine_step(SxEngine *engine);

/* Did the last step find rows that are not here yet? Then it did nothing. */
extern bool sx_engine_loading(const SxEngine *engine);

/* When step should be called though nobody woke us: next tick, rate source, idle timeout. DT_NOEND: never. */
extern TimestampTz sx_engine_next_time(SxEngine *engine);

/* Forgets the failed batch: pending state dropped; a later step tries again (over half the rows after out-of-memory). */
extern void sx_engine_abort(SxEngine *engine, const ErrorData *error);

/*
 * After sx_engine_abort: true if the failure was an answer in the engine's own
 * search for bad rows (option on_error), and step is to be called again as if
 * nothing had happened.
 */
extern bool sx_engine_absorb(SxEngine *engine, const ErrorData *error);

/* Is it searching? Then errors are expected and not worth a line in the log. */
extern bool sx_engine_searching(const SxEngine *engine);

/* clean: leaves a store that the next start can trust. May run while failing if not clean. */
extern void sx_engine_close(SxEngine *engine, bool clean);

#endif
