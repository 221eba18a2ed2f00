/*
 * search.h
 *		Finds the rows that make a batch fail, and runs it without them
 *		(option on_error = quarantine).
 *
 * A failed batch is first tried again over fewer rows. If a small one fails, its
 * range is fixed and halves of it are run in turn, each in a transaction that is
 * aborted whatever comes of it, until the guilty rows are known one by one. Then
 * the batch runs without them; they go to streamx.quarantine_row in the same
 * transaction.
 *
 *	 failed ─▶ smaller batch ─ failed ─▶ no row at all ─ failed ─▶ not the rows' fault
 *							  │				└ passes ─▶ halves ... ─▶ batch without the guilty
 *							  └ passes ─▶ as if nothing had been
 *
 * A probe ends with an error, too: only the worker's outermost level may abort.
 */
#ifndef SX_ENGINE_SEARCH_H
#define SX_ENGINE_SEARCH_H

#include "engine/query_engine.h"

/* Remembers the range of a batch that begins, in case it fails. */
extern void sx_search_remember(SxEngine *engine, const SxBatch *batch);

/* The next probe's range, or the final one's without the guilty rows. */
extern void sx_search_ranges(SxEngine *engine, SxBatch *batch);

/* After the plan and the sink have run: ends a probe by an error; writes down the guilty rows of a final batch. */
extern void sx_search_after_run(SxEngine *engine, SxBatch *batch);

/* The final batch is committed. Cannot fail. */
extern void sx_search_end(SxEngine *engine);

#endif
