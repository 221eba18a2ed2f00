/*
 * xid_snapshot.h
 *		A snapshot of transactions that outlives the transaction: 64-bit ids.
 *
 * Printed like pg_snapshot: xmin:xmax:xip,xip,... A transaction is in it when
 * it had ended (committed or aborted) at the time it was taken.
 */
#ifndef SX_SOURCE_XID_SNAPSHOT_H
#define SX_SOURCE_XID_SNAPSHOT_H

#include "lib/stringinfo.h"
#include "utils/snapshot.h"

typedef struct SxXidSnapshot
{
	uint64		xmin;			/* all before it had ended */
	uint64		xmax;			/* none from it on had */
	int			nxip;
	uint64		xip[FLEXIBLE_ARRAY_MEMBER];	/* in progress, sorted */
} SxXidSnapshot;

/* Results are in CurrentMemoryContext. */
extern SxXidSnapshot *sx_xid_snapshot_nothing(void);
extern SxXidSnapshot *sx_xid_snapshot_take(Snapshot snapshot);
extern SxXidSnapshot *sx_xid_snapshot_copy(const SxXidSnapshot *snapshot);
extern bool sx_xid_snapshot_contains(const SxXidSnapshot *snapshot, uint64 xid);
extern bool sx_xid_snapshot_equal(const SxXidSnapshot *a, const SxXidSnapshot *b);
extern void sx_xid_snapshot_print(StringInfo out, const SxXidSnapshot *snapshot);

/* NULL when the text is not one. */
extern SxXidSnapshot *sx_xid_snapshot_parse(const char *text, int len);

#endif
