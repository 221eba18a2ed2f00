/*
 * xid_snapshot.c
 *		Snapshots widened to 64-bit transaction ids, as text and back.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"

#include "source/xid_snapshot.h"

static int
compare_xids(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

static SxXidSnapshot *
make_snapshot(int nxip)
{
	SxXidSnapshot *result = palloc(offsetof(SxXidSnapshot, xip) + nxip * sizeof(uint64));

	result->nxip = nxip;
	return result;
}

SxXidSnapshot *
sx_xid_snapshot_nothing(void)
{
	SxXidSnapshot *result = make_snapshot(0);

	result->xmin = result->xmax = FirstNormalTransactionId;
	return result;
}

/*
 * An id of the snapshot is at most one epoch behind the next id: the server
 * never lets running transactions be further apart.
 */
static uint64
widen(TransactionId xid, FullTransactionId next)
{
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return U64FromFullTransactionId(FullTransactionIdFromEpochAndXid(epoch, xid));
}

SxXidSnapshot *
sx_xid_snapshot_take(Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	FullTransactionId own = GetTopFullTransactionIdIfAny();
	SxXidSnapshot *result = make_snapshot(snapshot->xcnt + 1);
	int			n = 0;

	result->xmin = widen(snapshot->xmin, next);
	result->xmax = widen(snapshot->xmax, next);
	for (uint32 i = 0; i < snapshot->xcnt; i++)
		result->xip[n++] = widen(snapshot->xip[i], next);

	/*
	 * A snapshot leaves its own transaction out of the running ones, but it has
	 * not ended: its rows belong to a later batch.
	 */
	if (FullTransactionIdIsValid(own) &&
		U64FromFullTransactionId(own) < result->xmax)
	{
		result->xip[n++] = U64FromFullTransactionId(own);
		result->xmin = Min(result->xmin, U64FromFullTransactionId(own));
	}
	result->nxip = n;
	qsort(result->xip, n, sizeof(uint64), compare_xids);
	return result;
}

SxXidSnapshot *
sx_xid_snapshot_copy(const SxXidSnapshot *snapshot)
{
	SxXidSnapshot *result = make_snapshot(snapshot->nxip);

	memcpy(result, snapshot,
		   offsetof(SxXidSnapshot, xip) + snapshot->nxip * sizeof(uint64));
	return result;
}

bool
sx_xid_snapshot_contains(const SxXidSnapshot *snapshot, uint64 xid)
{
	if (xid < snapshot->xmin)
		return true;
	if (xid >= snapshot->xmax)
		return false;
	return bsearch(&xid, snapshot->xip, snapshot->nxip, sizeof(uint64), compare_xids) == NULL;
}

bool
sx_xid_snapshot_equal(const SxXidSnapshot *a, const SxXidSnapshot *b)
{
	return a->xmin == b->xmin && a->xmax == b->xmax && a->nxip == b->nxip &&
		memcmp(a->xip, b->xip, a->nxip * sizeof(uint64)) == 0;
}

void
sx_xid_snapshot_print(StringInfo out, const SxXidSnapshot *snapshot)
{
	appendStringInfo(out, UINT64_FORMAT ":" UINT64_FORMAT ":", snapshot->xmin, snapshot->xmax);
	for (int i = 0; i < snapshot->nxip; i++)
		appendStringInfo(out, "%s" UINT64_FORMAT, i > 0 ? "," : "", snapshot->xip[i]);
}

/* Digits; false if there are none. */
static bool
parse_number(const char **at, const char *end, uint64 *value)
{
	const char *from = *at;

	*value = 0;
	while (*at < end && **at >= '0' && **at <= '9' && *at - from < 20)
		*value = *value * 10 + (*(*at)++ - '0');
	return *at > from;
}

SxXidSnapshot *
sx_xid_snapshot_parse(const char *text, int len)
{
	const char *at = text;
	const char *end = text + len;
	SxXidSnapshot *result = make_snapshot(len / 2 + 1);
	int			n = 0;

	if (!parse_number(&at, end, &result->xmin) || at == end || *at++ != ':' ||
		!parse_number(&at, end, &result->xmax) || at == end || *at++ != ':')
		return NULL;
	while (at < end)
	{
		if (n > 0 && *at++ != ',')
			return NULL;
		if (!parse_number(&at, end, &result->xip[n]) ||
			result->xip[n] < result->xmin || result->xip[n] >= result->xmax ||
			(n > 0 && result->xip[n] <= result->xip[n - 1]))
			return NULL;
		n++;
	}
	if (result->xmin > result->xmax)
		return NULL;
	result->nxip = n;
	return result;
}
