/*
 * cold_filter.c
 *		Segments of 64-byte blocks; a cell sets eight bits of one block.
 *
 * 12 bits for a cell: about one key in 150 is sent to the store in vain.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "state/cold_filter.h"

#define FIRST_CELLS		16384
#define BITS_PER_CELL	12

void
sx_cold_filter_init(SxColdFilter *filter, MemoryContext context, Size max_bytes)
{
	memset(filter, 0, sizeof(*filter));
	filter->context = context;
	filter->max_bytes = max_bytes;
}

static void
free_segment(SxColdFilter *filter, int at)
{
	SxFilterSegment *segment = &filter->segments[at];

	filter->bytes -= segment->nblocks * SX_FILTER_BLOCK;
	pfree(segment->allocated);
	filter->nsegments--;
	memmove(segment, segment + 1, (filter->nsegments - at) * sizeof(SxFilterSegment));
}

void
sx_cold_filter_clear(SxColdFilter *filter)
{
	while (filter->nsegments > 0)
		free_segment(filter, filter->nsegments - 1);
	filter->given_up = false;
}

void
sx_cold_filter_give_up(SxColdFilter *filter)
{
	sx_cold_filter_clear(filter);
	filter->given_up = true;
}

SxFilterSegment *
sx_cold_filter_add_segment(SxColdFilter *filter, uint64 nblocks)
{
	SxFilterSegment *segment;
	Size		bytes = nblocks * SX_FILTER_BLOCK;

	if (filter->nsegments == SX_FILTER_SEGMENTS || nblocks == 0 ||
		nblocks > PG_UINT32_MAX || filter->bytes + bytes > filter->max_bytes)
	{
		sx_cold_filter_give_up(filter);
		return NULL;
	}
	segment = &filter->segments[filter->nsegments];
	segment->allocated = MemoryContextAllocExtended(filter->context, bytes + SX_FILTER_BLOCK,
													MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	segment->blocks = (uint64 *) TYPEALIGN(SX_FILTER_BLOCK, segment->allocated);
	segment->nblocks = nblocks;
	segment->room = bytes * BITS_PER_BYTE / BITS_PER_CELL;
	segment->cells = 0;
	segment->max_expiry = PG_INT64_MIN;
	filter->bytes += bytes;
	filter->nsegments++;
	return segment;
}

static void
set_bits(SxFilterSegment *segment, uint64 mix)
{
	uint64	   *block = segment->blocks +
		(((mix >> 32) * segment->nblocks) >> 32) * (SX_FILTER_BLOCK / sizeof(uint64));
	uint32		bits = (uint32) mix;
	int			i;

	for (i = 0; i < 8; i++)
	{
		uint32		bit = (bits >> 23) & 511;

		block[bit >> 6] |= UINT64CONST(1) << (bit & 63);
		bits *= 0x9E3779B1;
	}
}

/* The size of the next segment: twice the last one, or what there is room for. */
static uint64
next_blocks(const SxColdFilter *filter)
{
	uint64		nblocks = FIRST_CELLS * BITS_PER_CELL / BITS_PER_BYTE / SX_FILTER_BLOCK;
	uint64		left = (filter->max_bytes - Min(filter->bytes, filter->max_bytes)) / SX_FILTER_BLOCK;

	if (filter->nsegments > 0)
		nblocks = Max(nblocks, 2 * filter->segments[filter->nsegments - 1].nblocks);
	/* a last small one would soon be full: rather give up */
	if (left < nblocks / 4)
		return 0;
	return Min(nblocks, left);
}

void
sx_cold_filter_add(SxColdFilter *filter, uint64 mix, int64 expiry)
{
	SxFilterSegment *last;

	if (filter->given_up)
		return;
	last = filter->nsegments > 0 ? &filter->segments[filter->nsegments - 1] : NULL;
	if (last == NULL || last->cells >= last->room)
	{
		last = sx_cold_filter_add_segment(filter, next_blocks(filter));
		if (last == NULL)
			return;
	}
	set_bits(last, mix);
	last->cells++;
	last->max_expiry = Max(last->max_expiry, expiry);
}

void
sx_cold_filter_drop_expired(SxColdFilter *filter, int64 watermark)
{
	int			i;

	for (i = filter->nsegments - 1; i >= 0; i--)
		if (filter->segments[i].max_expiry <= watermark)
			free_segment(filter, i);
}
