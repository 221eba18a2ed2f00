/*
 * worker.h
 *		The processes: launcher, schedulers, query workers.
 *
 *	 launcher        one; knows the databases, starts a scheduler where asked
 *	 scheduler       one per database with wanted queries; starts their workers
 *	 query worker    one per running query, as its owner
 *	 publisher       one per database where rows were inserted into streams of Kafka
 */
#ifndef SX_WORKER_WORKER_H
#define SX_WORKER_WORKER_H

#include "postmaster/bgworker.h"

#include "monitor/shared.h"
#include "registry/query.h"

/* From _PG_init while preloading. */
extern void sx_launcher_register(void);

extern PGDLLEXPORT void sx_launcher_main(Datum arg);
extern PGDLLEXPORT void sx_scheduler_main(Datum arg);
extern PGDLLEXPORT void sx_query_worker_main(Datum arg);
extern PGDLLEXPORT void sx_publisher_main(Datum arg);

/* Is there something for a publisher to do here? In a transaction. */
extern bool sx_publisher_needed(void);

/* What a scheduler and a query worker are told (bgw_extra). */
typedef struct SxWorkerArgs
{
	Oid			database;
	Oid			owner;			/* query worker */
	int64		query_id;		/* query worker */
	int			slot;			/* query worker: index in sx_shared->slots */
} SxWorkerArgs;

/* NULL: no background worker slot is free. Handle in CurrentMemoryContext. */
extern BackgroundWorkerHandle *sx_worker_register(const char *function, const char *name,
												  const char *type, const SxWorkerArgs *args);
extern void sx_worker_args(SxWorkerArgs *args);

/* Milliseconds before the n-th try after failures in a row: doubling, with jitter. */
extern int64 sx_backoff_ms(int failures);

/*
 * Removes store directories (worker/orphans.c): of the database's queries that
 * are not among the incarnations (List of pg_uuid_t *), while no worker runs that
 * could be making one; of those that were there before and are no more; of
 * databases that are not in the list of OIDs. Errors are logged at most.
 */
extern void sx_orphans_remove(Oid database, const List *incarnations);
extern void sx_orphans_remove_vanished(Oid database, const List *before, const List *now);
extern void sx_orphans_remove_databases(const List *databases);

/* Settings that every process of ours sets for itself. */
extern void sx_worker_set(const char *name, const char *value);

#endif
