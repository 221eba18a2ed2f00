/*
 * stream_page.c
 *		Reads the hidden heaps page by page.
 *
 * The server's own scan would deform every row to test its sx_xid. Here the id is
 * read where it lies: it is the first column, never NULL, and eight bytes at the
 * start of the data. A page is tested as a whole under one buffer lock; after
 * that its pin is enough, since rows of hidden heaps are never moved: there is no
 * UPDATE, and pruning needs a lock that a pin keeps away.
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/transam.h"
#include "access/tupmacs.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"

#include "source/stream_page.h"

/*
 * A row in the range was written by a transaction that the snapshot doesn't know:
 * the storage was rewritten since.  To go on would be to lose the row.
 */
static void
check_snapshot_not_older(HeapTupleHeader row)
{
	if (HeapTupleHeaderXminInvalid(row) ||
		!TransactionIdDidCommit(HeapTupleHeaderGetXmin(row)))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("stored rows of a stream were rewritten during the batch"),
			 errhint("The batch is tried again.")));
}

static inline uint64
row_stamp(HeapTupleHeader row)
{
	return *(uint64 *) ((char *) row + row->t_hoff);
}

uint64
sx_stream_row_xid(HeapTupleHeader row)
{
	return SX_STAMP_XID(row_stamp(row));
}

void
sx_stream_range_init(SxStreamRange *range, const SxStreamBound *start,
					 const SxStreamBound *end, Snapshot snapshot)
{
	memset(range, 0, sizeof(*range));
	range->all = start == NULL;
	if (!range->all)
	{
		range->start = *start;
		range->end = *end;
	}
	range->snapshot = snapshot;
	range->stamp = 0;			/* no row has it */
}

/* Whatever place the row has. */
static bool
read_at(const SxStreamBound *bound, uint64 stamp)
{
	uint64		xid = SX_STAMP_XID(stamp);

	return sx_xid_snapshot_contains(bound->done, xid) ||
		(xid == bound->part_xid && SX_STAMP_PART(stamp) < bound->part);
}

static void
range_look_up(SxStreamRange *range, uint64 stamp)
{
	uint64		xid = SX_STAMP_XID(stamp);

	range->stamp = stamp;
	range->start_done = read_at(&range->start, stamp);
	range->start_target = range->start.target != NULL &&
		sx_xid_snapshot_contains(range->start.target, xid);
	range->end_done = read_at(&range->end, stamp);
	range->end_target = range->end.target != NULL &&
		sx_xid_snapshot_contains(range->end.target, xid);
}

/*
 * Rows of this page before the result were read up to the cut: FirstOffsetNumber
 * when none was, MaxOffsetNumber + 1 when all were.
 */
static OffsetNumber
cut_on_page(const SxStreamBound *bound, int64 generation, BlockNumber block)
{
	const SxStreamPlace *cut = &bound->cut;

	if (bound->target == NULL)
		return FirstOffsetNumber;
	if (generation != cut->generation)
		return generation < cut->generation ? MaxOffsetNumber + 1 : FirstOffsetNumber;
	if (block != cut->block)
		return block < cut->block ? MaxOffsetNumber + 1 : FirstOffsetNumber;
	return cut->row;
}

/* The common case needs neither a snapshot nor the commit log. */
static inline bool
row_visible(HeapTuple tuple, Buffer buffer, Snapshot snapshot, bool ended)
{
	HeapTupleHeader row = tuple->t_data;

	if (ended && HeapTupleHeaderXminCommitted(row) && (row->t_infomask & HEAP_XMAX_INVALID))
		return true;
	return HeapTupleSatisfiesVisibility(tuple, snapshot, buffer);
}

void
sx_stream_page_read(SxStreamPage *page, Relation heap, int64 generation,
					BlockNumber block, SxStreamRange *range)
{
	OffsetNumber start_cut = FirstOffsetNumber;
	OffsetNumber end_cut = FirstOffsetNumber;
	OffsetNumber last;
	HeapTupleData tuple;

	CHECK_FOR_INTERRUPTS();
	sx_stream_page_release(page);
	page->nrows = 0;
	page->later = false;
	page->buffer = ReadBufferExtended(heap, MAIN_FORKNUM, block, RBM_NORMAL, NULL);
	page->page = BufferGetPage(page->buffer);
	if (!range->all)
	{
		start_cut = cut_on_page(&range->start, generation, block);
		end_cut = cut_on_page(&range->end, generation, block);
	}
	tuple.t_tableOid = RelationGetRelid(heap);

	LockBuffer(page->buffer, BUFFER_LOCK_SHARE);
	last = PageIsNew(page->page) ? 0 : PageGetMaxOffsetNumber(page->page);
	for (OffsetNumber n = FirstOffsetNumber; n <= last; n++)
	{
		ItemId		item = PageGetItemId(page->page, n);
		uint64		stamp;
		bool		visible;

		if (!ItemIdIsNormal(item))
			continue;
		tuple.t_data = (HeapTupleHeader) PageGetItem(page->page, item);
		tuple.t_len = ItemIdGetLength(item);
		ItemPointerSet(&tuple.t_self, block, n);
		if (!range->all)
		{
			stamp = row_stamp(tuple.t_data);
			if (stamp != range->stamp)
				range_look_up(range, stamp);
			if (range->start_done || (range->start_target && n < start_cut))
				continue;		/* read before */
			if (!range->end_done && !(range->end_target && n < end_cut))
			{
				if (!HeapTupleHeaderXminInvalid(tuple.t_data))
				{
					uint64		xid = SX_STAMP_XID(stamp);

					page->later_xid = !page->later || page->later_xid == xid ? xid : 0;
					page->later = true;
				}
				continue;
			}
		}
		visible = row_visible(&tuple, page->buffer, range->snapshot, !range->all);
		if (range->all)
			HeapCheckForSerializableConflictOut(visible, heap, &tuple, page->buffer,
												range->snapshot);
		if (visible)
			page->rows[page->nrows++] = n;
		else if (!range->all)
			check_snapshot_not_older(tuple.t_data);
	}
	LockBuffer(page->buffer, BUFFER_LOCK_UNLOCK);
}

void
sx_stream_page_release(SxStreamPage *page)
{
	if (BufferIsValid(page->buffer))
		ReleaseBuffer(page->buffer);
	page->buffer = InvalidBuffer;
}

/* ---- columns ---- */

SxStreamLayout *
sx_stream_layout(TupleDesc heap)
{
	int			natts = heap->natts - 1;
	SxStreamLayout *layout = palloc(offsetof(SxStreamLayout, columns) +
									natts * sizeof(SxStreamColumn));

	layout->natts = natts;
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(heap, SX_HEAP_ATTNUM(i));

		layout->columns[i].len = att->attlen;
		layout->columns[i].byval = att->attbyval;
		layout->columns[i].align = att->attalign;
		layout->columns[i].dropped = att->attisdropped;
	}
	return layout;
}

void
sx_stream_row_deform(const SxStreamLayout *layout, const SxStreamPage *page,
					 OffsetNumber row, TupleTableSlot *slot, int last_needed)
{
	HeapTupleHeader tuple = (HeapTupleHeader) PageGetItem(page->page,
														  PageGetItemId(page->page, row));
	bool		has_nulls = (tuple->t_infomask & HEAP_HASNULL) != 0;
	int			natts = HeapTupleHeaderGetNatts(tuple) - 1;
	char	   *data = (char *) tuple + tuple->t_hoff;
	uint32		at = sizeof(uint64);	/* behind sx_xid */
	int			wanted = slot->tts_tupleDescriptor->natts;
	int			i;

	ExecClearTuple(slot);
	natts = Min(Min(natts, layout->natts), Min(last_needed, wanted));
	for (i = 0; i < natts; i++)
	{
		const SxStreamColumn *column = &layout->columns[i];

		if (has_nulls && att_isnull(SX_HEAP_ATTNUM(i), tuple->t_bits))
		{
			slot->tts_values[i] = (Datum) 0;
			slot->tts_isnull[i] = true;
			continue;
		}
		at = att_align_pointer(at, column->align, column->len, data + at);
		slot->tts_values[i] = fetch_att(data + at, column->byval, column->len);
		slot->tts_isnull[i] = column->dropped;
		at = att_addlength_pointer(at, column->len, data + at);
	}
	for (; i < wanted; i++)
	{
		slot->tts_values[i] = (Datum) 0;
		slot->tts_isnull[i] = true;
	}
	ExecStoreVirtualTuple(slot);
}
