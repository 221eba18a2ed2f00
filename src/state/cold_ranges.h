/*
 * cold_ranges.h
 *		How many live keys of an operator only the store holds, by expiry.
 *
 * Tells without asking the store that a key can't be there, and how many keys
 * an expiry drops.  Exact for up to SX_COLD_RANGES different expiries, then
 * neighbours are merged and an expiry that cuts a range has to count.
 *
 * What has expired is dead, but stays in the store until it is worth a range
 * delete: nothing with expiry <= dead is ever read from the store, and nothing
 * is written there before the range delete was done; then dead goes back to the
 * least value (spill.c).
 */
#ifndef SX_STATE_COLD_RANGES_H
#define SX_STATE_COLD_RANGES_H

#define SX_COLD_RANGES		4096

typedef struct SxColdRange
{
	int64		low;			/* expiries, both included */
	int64		high;
	int64		count;
} SxColdRange;

typedef struct SxColdRanges
{
	MemoryContext context;
	SxColdRange *ranges;		/* sorted, not overlapping */
	int			nranges;
	int			allocated;
	int64		total;
	int64		dead;			/* expired in the store up to here */
	int64		dead_rows;		/* about so many records wait for the range delete */

	/* undo of this batch's expiry */
	SxColdRange *saved;
	int			nsaved;
	int			saved_allocated;
	int64		saved_dead;
	int64		saved_dead_rows;
	bool		has_saved;
} SxColdRanges;

extern void sx_cold_init(SxColdRanges *cold, MemoryContext context);
extern void sx_cold_clear(SxColdRanges *cold);

/* Keys left memory for the store (may fail); keys came back (can't fail). */
extern void sx_cold_add(SxColdRanges *cold, int64 low, int64 high, int64 count);
extern void sx_cold_subtract(SxColdRanges *cold, int64 expiry, int64 count);

/* Could the store hold a live key of this expiry? */
extern bool sx_cold_may_hold(const SxColdRanges *cold, int64 expiry);

/* Could it hold any with expiry <= max_expiry? */
extern bool sx_cold_any(const SxColdRanges *cold, int64 max_expiry);

/* How many with expiry <= max_expiry it holds; a range that this cuts counts in full. */
extern int64 sx_cold_due(const SxColdRanges *cold, int64 max_expiry);

/* Does an expiry at the watermark cut a range, so that its keys must be counted? */
extern bool sx_cold_cuts(const SxColdRanges *cold, int64 watermark, int64 *low);

/*
 * Expires; cut_count: keys in the cut range that die. Returns how many keys die.
 * Undone by abort, made final by commit; neither can fail.
 */
extern int64 sx_cold_expire(SxColdRanges *cold, int64 watermark, int64 cut_count);
extern void sx_cold_commit(SxColdRanges *cold);
extern void sx_cold_abort(SxColdRanges *cold);

#endif
