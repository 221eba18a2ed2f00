/*
 * quarantine.h
 *		Rows that no batch could take (streamx.quarantine_row).
 *
 * Written in the transaction of the batch that leaves them out, so each is
 * either in the result or here, once.
 */
#ifndef SX_REGISTRY_QUARANTINE_H
#define SX_REGISTRY_QUARANTINE_H

typedef struct SxQuarantined
{
	int64		query_id;
	int64		batch_id;
	Oid			stream;
	int64		position;		/* ordinal in the batch's range of that stream */
	Datum		row;			/* composite, of the stream's row type */
	int			sqlstate;
	const char *message;
} SxQuarantined;

extern void sx_quarantine_append(const SxQuarantined *quarantined);
extern int64 sx_quarantine_count(int64 query_id);
extern void sx_quarantine_delete_all(int64 query_id);

#endif
