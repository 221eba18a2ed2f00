/*
 * quarantine.h
 *		Rows that no batch could take (streamx.quarantine_row).
 *
 * Written in the transaction of the batch that leaves them out, so each is
 * either in the result or here, once.
 */
#ifndef SX_REGISTRY_QUARANTINE_H
#define SX_REGISTRY_QUARANTINE_H

#include "nodes/pg_list.h"
#include "storage/itemptr.h"

typedef struct SxQuarantined
{
	int64		query_id;
	int64		batch_id;
	Oid			stream;
	int64		position;		/* ordinal in the batch's range of that stream, -1: none */
	Datum		row;			/* composite, of the stream's row type; 0: none */
	const char *record;			/* its bytes at the source; NULL: not known */
	size_t		record_len;
	const char *record_position;	/* JSON, or NULL */
	int			sqlstate;
	const char *message;
} SxQuarantined;

/* One that a person has given back. */
typedef struct SxRequeued
{
	int64		id;
	ItemPointerData tid;		/* with xmin: which version of it */
	TransactionId xmin;
	Oid			stream;
	char	   *row;			/* JSON, or NULL: only its record is known */
	char	   *record;			/* NULL: not known */
	size_t		record_len;
	char	   *record_position;	/* NULL: not known */
} SxRequeued;

extern void sx_quarantine_append(const SxQuarantined *quarantined);

/*
 * Marks one (or, id 0, all) to go into the next batch; row and record, if given, replace
 * its own. How many. Waits for a batch that has some.
 */
extern int64 sx_quarantine_requeue(int64 query_id, int64 id, const char *row, bytea *record);

/* Those that are marked, the oldest first: SxRequeued *. */
extern List *sx_quarantine_requeued(int64 query_id, int limit);

/* All, marked or not: SxRequeued *. */
extern List *sx_quarantine_rows(int64 query_id);

/*
 * It went into a batch; or it could not, and waits for a person again. Under the lock
 * (registry/query.h). Was it changed since it was read, it is a serialization failure.
 */
extern void sx_quarantine_delete(int64 query_id, const SxRequeued *requeued);
extern void sx_quarantine_put_back(int64 query_id, const SxRequeued *requeued, int sqlstate,
								   const char *message);

/* The streams whose rows are marked: OIDs. */
extern List *sx_quarantine_streams(int64 query_id);
extern int64 sx_quarantine_count(int64 query_id);
extern void sx_quarantine_delete_all(int64 query_id);

#endif
