/*
 * cold_ranges.c
 *		A sorted array of (low, high, count).
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "state/cold_ranges.h"
#include "state/state_store.h"

void
sx_cold_init(SxColdRanges *cold, MemoryContext context)
{
	memset(cold, 0, sizeof(*cold));
	cold->context = context;
	cold->dead = PG_INT64_MIN;
}

void
sx_cold_clear(SxColdRanges *cold)
{
	cold->nranges = 0;
	cold->total = 0;
	cold->dead = PG_INT64_MIN;
	cold->dead_rows = 0;
	cold->nsaved = 0;
	cold->has_saved = false;
}

/* First range whose high is not below the expiry. */
static int
range_at_or_after(const SxColdRanges *cold, int64 expiry)
{
	int			low = 0;
	int			high = cold->nranges;

	while (low < high)
	{
		int			mid = (low + high) / 2;

		if (cold->ranges[mid].high < expiry)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static void
ensure_room(SxColdRanges *cold, int n)
{
	if (n <= cold->allocated)
		return;
	n = Max(n, 2 * cold->allocated + 8);
	if (cold->ranges == NULL)
		cold->ranges = MemoryContextAlloc(cold->context, n * sizeof(SxColdRange));
	else
		cold->ranges = repalloc(cold->ranges, n * sizeof(SxColdRange));
	cold->allocated = n;
}

/* Halves their number; keys without event time are left alone. */
static void
merge_neighbours(SxColdRanges *cold)
{
	int			from;
	int			to = 0;

	for (from = 0; from < cold->nranges; from++, to++)
	{
		cold->ranges[to] = cold->ranges[from];
		if (from + 1 < cold->nranges && cold->ranges[from + 1].high != SX_STATE_NEVER)
		{
			from++;
			cold->ranges[to].high = cold->ranges[from].high;
			cold->ranges[to].count += cold->ranges[from].count;
		}
	}
	cold->nranges = to;
}

void
sx_cold_add(SxColdRanges *cold, int64 low, int64 high, int64 count)
{
	int			at;

	if (count == 0)
		return;
	if (cold->nranges >= SX_COLD_RANGES)
		merge_neighbours(cold);
	at = range_at_or_after(cold, low);
	if (at < cold->nranges && cold->ranges[at].low <= low && cold->ranges[at].high >= high)
		cold->ranges[at].count += count;
	else
	{
		Assert(at == cold->nranges || cold->ranges[at].low > high);
		ensure_room(cold, cold->nranges + 2);
		memmove(cold->ranges + at + 1, cold->ranges + at,
				(cold->nranges - at) * sizeof(SxColdRange));
		cold->ranges[at].low = low;
		cold->ranges[at].high = high;
		cold->ranges[at].count = count;
		cold->nranges++;
	}
	cold->total += count;
}

void
sx_cold_subtract(SxColdRanges *cold, int64 expiry, int64 count)
{
	int			at = range_at_or_after(cold, expiry);
	SxColdRange *range = cold->ranges + at;

	if (at >= cold->nranges || range->low > expiry || range->count < count)
		elog(ERROR, "state: more keys came from the store than it holds");
	range->count -= count;
	cold->total -= count;
	if (range->count == 0)
	{
		cold->nranges--;
		memmove(range, range + 1, (cold->nranges - at) * sizeof(SxColdRange));
	}
}

bool
sx_cold_may_hold(const SxColdRanges *cold, int64 expiry)
{
	int			at;

	if (cold->total == 0 || expiry <= cold->dead)
		return false;
	at = range_at_or_after(cold, expiry);
	return at < cold->nranges && cold->ranges[at].low <= expiry;
}

bool
sx_cold_any(const SxColdRanges *cold, int64 max_expiry)
{
	return cold->nranges > 0 && cold->ranges[0].low <= max_expiry;
}

int64
sx_cold_due(const SxColdRanges *cold, int64 max_expiry)
{
	int64		n = 0;

	for (int i = 0; i < cold->nranges && cold->ranges[i].low <= max_expiry; i++)
		n += cold->ranges[i].count;
	return n;
}

bool
sx_cold_cuts(const SxColdRanges *cold, int64 watermark, int64 *low)
{
	int			at = range_at_or_after(cold, watermark);

	if (at >= cold->nranges || cold->ranges[at].low > watermark ||
		cold->ranges[at].high == watermark)
		return false;
	*low = cold->ranges[at].low;
	return true;
}

static void
save(SxColdRanges *cold, const SxColdRange *ranges, int n)
{
	if (n == 0)
		return;					/* there may be no array yet */
	if (cold->nsaved + n > cold->saved_allocated)
	{
		int			size = Max(cold->nsaved + n, 2 * cold->saved_allocated);

		if (cold->saved == NULL)
			cold->saved = MemoryContextAlloc(cold->context, size * sizeof(SxColdRange));
		else
			cold->saved = repalloc(cold->saved, size * sizeof(SxColdRange));
		cold->saved_allocated = size;
	}
	memcpy(cold->saved + cold->nsaved, ranges, n * sizeof(SxColdRange));
	cold->nsaved += n;
}

int64
sx_cold_expire(SxColdRanges *cold, int64 watermark, int64 cut_count)
{
	int64		dropped = 0;
	int			n = 0;
	bool		cut;
	int64		cut_low;

	if (watermark <= cold->dead)
		return 0;
	while (n < cold->nranges && cold->ranges[n].high <= watermark)
		dropped += cold->ranges[n++].count;
	cut = sx_cold_cuts(cold, watermark, &cut_low);

	/* all that can fail: room to put the ranges back, one more if one is cut */
	ensure_room(cold, cold->nranges + cold->nsaved + 2);
	save(cold, cold->ranges, n);
	if (cut && cut_count > 0)
	{
		SxColdRange part = {cut_low, watermark, cut_count};

		save(cold, &part, 1);
	}
	if (!cold->has_saved)
	{
		cold->has_saved = true;
		cold->saved_dead = cold->dead;
		cold->saved_dead_rows = cold->dead_rows;
	}
	cold->nranges -= n;
	memmove(cold->ranges, cold->ranges + n, cold->nranges * sizeof(SxColdRange));
	if (cut)
	{
		cold->ranges[0].low = watermark + 1;
		cold->ranges[0].count -= cut_count;
		dropped += cut_count;
		if (cold->ranges[0].count == 0)
		{
			cold->nranges--;
			memmove(cold->ranges, cold->ranges + 1, cold->nranges * sizeof(SxColdRange));
		}
	}
	cold->total -= dropped;
	cold->dead_rows += dropped;
	cold->dead = watermark;
	return dropped;
}

void
sx_cold_commit(SxColdRanges *cold)
{
	cold->nsaved = 0;
	cold->has_saved = false;
}

void
sx_cold_abort(SxColdRanges *cold)
{
	int			i;

	if (!cold->has_saved)
		return;
	/* the saved ones all lie before what is left, in order */
	Assert(cold->nranges + cold->nsaved <= cold->allocated || cold->nsaved == 0);
	memmove(cold->ranges + cold->nsaved, cold->ranges, cold->nranges * sizeof(SxColdRange));
	for (i = 0; i < cold->nsaved; i++)
	{
		cold->ranges[i] = cold->saved[i];
		cold->total += cold->saved[i].count;
	}
	cold->nranges += cold->nsaved;
	cold->dead = cold->saved_dead;
	cold->dead_rows = cold->saved_dead_rows;
	sx_cold_commit(cold);
}
