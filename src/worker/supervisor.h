/*
 * supervisor.h
 *		What happens after a query failed: again, in a fresh process, or never.
 */
#ifndef SX_WORKER_SUPERVISOR_H
#define SX_WORKER_SUPERVISOR_H

#include "utils/elog.h"

#include "monitor/shared.h"
#include "registry/query.h"

typedef enum SxVerdict
{
	SX_VERDICT_RETRY,			/* this process tries again at slot->retry_at */
	SX_VERDICT_RESTART,			/* this process ends, a fresh one tries at slot->retry_at */
	SX_VERDICT_END				/* wanted is no longer "running", or someone else takes over */
} SxVerdict;

/*
 * Outside a transaction. Counts the failure in the slot, writes it down, and
 * gives the query up where trying again cannot help.
 */
extern SxVerdict sx_supervisor_judge(SxQuerySlot *slot, int64 query_id, const char *name,
									 int max_retries, const ErrorData *error);

/* Also for ends without an error that could be caught (FATAL): counts and sets the back-off. */
extern void sx_supervisor_count_death(SxQuerySlot *slot);

extern void sx_supervisor_count_success(SxQuerySlot *slot);

/*
 * Outside a transaction: what is wanted from now on. Not against someone who
 * holds the query to stop, alter or drop it: then false, and nothing is changed.
 */
extern bool sx_supervisor_set_wanted(SxQuerySlot *slot, int64 query_id, SxWanted wanted);

#endif
