/*
 * stream_page.h
 *		A page of a hidden heap: which of its rows belong to a range, and their
 *		columns.
 */
#ifndef SX_SOURCE_STREAM_PAGE_H
#define SX_SOURCE_STREAM_PAGE_H

#include "access/htup_details.h"
#include "executor/tuptable.h"
#include "storage/buf.h"
#include "utils/rel.h"

#include "source/stream_offset.h"

/* Decides whether a row was read at one end of a range. */
typedef struct SxStreamBound
{
	const SxXidSnapshot *done;
	const SxXidSnapshot *target;	/* NULL: no cut */
	SxStreamPlace cut;
	uint64		part_xid;		/* parts of this transaction before "part" were read; 0: none */
	uint16		part;
} SxStreamBound;

/* Rows not read at start and read at end; all: every visible row. */
typedef struct SxStreamRange
{
	bool		all;
	SxStreamBound start;
	SxStreamBound end;
	Snapshot	snapshot;		/* decides whether a transaction that ended had committed */

	/* rows of one transaction lie together: what was found for the last stamp */
	uint64		stamp;
	bool		start_done;
	bool		start_target;
	bool		end_done;
	bool		end_target;
} SxStreamRange;

typedef struct SxStreamPage
{
	Buffer		buffer;			/* pinned, or invalid */
	Page		page;
	int			nrows;
	OffsetNumber rows[MaxHeapTuplesPerPage];	/* in the range and visible */
	bool		later;			/* holds rows that neither end has read and that may become visible */
	uint64		later_xid;		/* their transaction; 0: several */
} SxStreamPage;

/* How to take a stream's columns out of a heap tuple. */
typedef struct SxStreamColumn
{
	int16		len;
	bool		byval;
	char		align;
	bool		dropped;
} SxStreamColumn;

typedef struct SxStreamLayout
{
	int			natts;			/* of the stream */
	SxStreamColumn columns[FLEXIBLE_ARRAY_MEMBER];
} SxStreamLayout;

extern void sx_stream_range_init(SxStreamRange *range, const SxStreamBound *start,
								 const SxStreamBound *end, Snapshot snapshot);

/* Fills page and leaves it pinned; releases what it pinned before. */
extern void sx_stream_page_read(SxStreamPage *page, Relation heap, int64 generation,
								BlockNumber block, SxStreamRange *range);
extern void sx_stream_page_release(SxStreamPage *page);

extern SxStreamLayout *sx_stream_layout(TupleDesc heap);

/* Columns up to last_needed; they point into the page. */
extern void sx_stream_row_deform(const SxStreamLayout *layout, const SxStreamPage *page,
								 OffsetNumber row, TupleTableSlot *slot, int last_needed);

/*
 * Column sx_xid of a row: its top transaction, and above that the number of its
 * part in it. All rows of a transaction are of part 0 unless a batch ran in it
 * (sx_stream_part_begin). 2^48 transactions are as many as a server will see.
 */
#define SX_STAMP_XID_BITS		48
#define SX_STAMP(xid, part)		((xid) | ((uint64) (part) << SX_STAMP_XID_BITS))
#define SX_STAMP_XID(stamp)		((stamp) & ((UINT64CONST(1) << SX_STAMP_XID_BITS) - 1))
#define SX_STAMP_PART(stamp)	((uint16) ((stamp) >> SX_STAMP_XID_BITS))

extern uint64 sx_stream_row_xid(HeapTupleHeader row);

#endif
