/*
 * cold_filter.h
 *		Which cells the store may hold: a Bloom filter in memory.
 *
 * Most keys that memory lacks are new.  The filter answers for them in some ten
 * nanoseconds, whatever the store.  It grows by segments, each twice the one
 * before; nothing is ever taken out, but a segment goes when all in it has
 * expired.  If it would grow past its share of memory it is given up, and the
 * store is asked always.
 */
#ifndef SX_STATE_COLD_FILTER_H
#define SX_STATE_COLD_FILTER_H

#define SX_FILTER_SEGMENTS	24
#define SX_FILTER_BLOCK		64	/* bytes: a cache line */

typedef struct SxFilterSegment
{
	uint64		nblocks;
	uint64		room;			/* cells it is made for */
	uint64		cells;
	int64		max_expiry;
	void	   *allocated;
	uint64	   *blocks;			/* aligned to a cache line */
} SxFilterSegment;

typedef struct SxColdFilter
{
	MemoryContext context;
	Size		max_bytes;
	Size		bytes;
	bool		given_up;		/* says yes to everything */
	int			nsegments;
	SxFilterSegment segments[SX_FILTER_SEGMENTS];
} SxColdFilter;

extern void sx_cold_filter_init(SxColdFilter *filter, MemoryContext context, Size max_bytes);
extern void sx_cold_filter_clear(SxColdFilter *filter);
extern void sx_cold_filter_give_up(SxColdFilter *filter);

/* A cell that the store gets and didn't have. */
extern void sx_cold_filter_add(SxColdFilter *filter, uint64 mix, int64 expiry);
extern void sx_cold_filter_drop_expired(SxColdFilter *filter, int64 watermark);

/* An empty segment with so many blocks, to be filled by the caller; NULL: given up. */
extern SxFilterSegment *sx_cold_filter_add_segment(SxColdFilter *filter, uint64 nblocks);

/* Eight bits of one cache line. */
static inline bool
sx_filter_segment_has(const SxFilterSegment *segment, uint64 mix)
{
	const uint64 *block = segment->blocks +
		(((mix >> 32) * segment->nblocks) >> 32) * (SX_FILTER_BLOCK / sizeof(uint64));
	uint32		bits = (uint32) mix;
	int			i;

	for (i = 0; i < 8; i++)
	{
		uint32		bit = (bits >> 23) & 511;

		if (!(block[bit >> 6] & (UINT64CONST(1) << (bit & 63))))
			return false;
		bits *= 0x9E3779B1;
	}
	return true;
}

static inline bool
sx_cold_filter_may_hold(const SxColdFilter *filter, uint64 mix)
{
	int			i;

	if (filter->given_up)
		return true;
	for (i = filter->nsegments - 1; i >= 0; i--)
		if (sx_filter_segment_has(&filter->segments[i], mix))
			return true;
	return false;
}

#endif
