/*
 * session.h
 *		Batches of a query in a session's own transaction, without a worker.
 *
 * For tests: what a batch reads may have been inserted by this very transaction, and
 * ROLLBACK takes back whatever it did. After COMMIT the query goes on from there.
 *
 * Who calls this holds the query until the transaction ends: no worker runs it.
 */
#ifndef SX_ENGINE_SESSION_H
#define SX_ENGINE_SESSION_H

#include "registry/query.h"

typedef struct SxSessionBatch
{
	int64		id;
	int64		input_rows;
	int64		output_rows;
	int64		late_rows;
	TimestampTz watermark;		/* that the batch evicted by; SX_TIME_UNSET: none */
	TimestampTz next_watermark; /* and the next one will */
	TimestampTz timestamp;
	char	   *progress;		/* JSON, in CurrentMemoryContext */
} SxSessionBatch;

/* Runs one batch. False: there is nothing to run. */
extern bool sx_session_run_batch(const SxQuery *query, SxSessionBatch *result);

/* Processing time of the query's batches from now on, until the transaction ends. Not back. */
extern void sx_session_advance_time(const SxQuery *query, TimestampTz to);

/* Does a batch of this query, or for id 0 of any, run in this session right now? */
extern bool sx_session_is_in_batch(int64 query_id);

/* Processing time of the batch that runs; of the transaction while none does. */
extern TimestampTz sx_session_clock(void);

#endif
