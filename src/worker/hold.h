/*
 * hold.h
 *		A transaction holds a query, or all of a database, still.
 *
 * While it is held nothing is started there; the hold ends with the
 * transaction, however it ends, and then the catalog decides again: after
 * ROLLBACK the query goes on. Commit and abort only set latches: nothing that
 * can fail runs there.
 */
#ifndef SX_WORKER_HOLD_H
#define SX_WORKER_HOLD_H

#include "registry/query.h"

/*
 * Takes the query from its worker: asks it to end after its batch, after
 * timeout_ms aborts the batch, and waits until the process is gone. False: it is
 * still there some seconds after that. *aborted: a batch was cut off.
 * Serialises with others that control the query.
 */
extern bool sx_hold_query(const SxQuery *query, int timeout_ms, bool *aborted);

/* An error when a batch of the query has come here. */
extern void sx_hold_refuse_own_batch(const SxQuery *query);

/*
 * Ends everything of ours in the database at once. An error if it doesn't end.
 */
extern void sx_hold_database(Oid database);

/* The transaction changed what is wanted: its commit wakes the scheduler. */
extern void sx_hold_wake_at_commit(void);

/* From _PG_init. */
extern void sx_hold_init(void);

#endif
