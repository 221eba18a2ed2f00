/*
 * range_end.c
 *		When a watermark has passed a window that a segment made.
 */
#include "postgres.h"

#include "utils/rangetypes.h"
#include "utils/timestamp.h"

#include "exec/range_end.h"
#include "state/state_store.h"

bool
sx_range_end(TypeCacheEntry *type, Datum value, int64 *end)
{
	RangeType  *range = DatumGetRangeTypeP(value);
	RangeBound	lower;
	RangeBound	upper;
	bool		empty;

	range_deserialize(type, range, &lower, &upper, &empty);
	if ((Pointer) range != DatumGetPointer(value))
		pfree(range);
	if (empty)
		return false;
	*end = upper.infinite || TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(upper.val)) ?
		SX_STATE_NEVER : DatumGetTimestampTz(upper.val);
	return true;
}
