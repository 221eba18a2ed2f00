/*
 * join_page.h
 *		The rows that the state has of one key of a join and one side, page by page.
 *
 * Most keys have few rows: these lie in the list itself, so that a key is one entry
 * of the state. Where there are more the list names pages, entries of their own,
 * each with the times at which its rows go: what can't match isn't read. A row stays
 * in its page until it goes; room that others leave is used again, the list's first.
 *
 * Bytes of a list (a version of its own: the operator's):
 *	 varint		when an entry of the due store looks at the key: 0: never; else its
 *				bucket (SX_DUE_SHIFT), folded, plus one
 *	 varint		number that the next page gets
 *	 varint		how many pages; for each: varint number less the one before, varint
 *				earliest expiry less the one before (folded), varint latest less
 *				earliest, varint rows
 *	 rows		up to the end
 *
 * Bytes of rows, each:
 *	 varint		expiry less the one before (folded; 0 before the first)
 *	 varint		4 * length + flags
 *	 bytes		the row (datum_codec.h)
 */
#ifndef SX_EXEC_JOIN_PAGE_H
#define SX_EXEC_JOIN_PAGE_H

#include "row/datum_codec.h"
#include "state/state_store.h"

/* A page with so much in it gets no more. */
#define SX_JOIN_PAGE_ROWS	64
#define SX_JOIN_PAGE_FULL	8192	/* bytes of rows */

/* Times at which keys are looked at are rounded up to a multiple of 2^18 us, a quarter of a second. */
#define SX_DUE_SHIFT	18
#define SX_DUE_NEVER	PG_INT64_MAX

/* Expiries from .. to, both included. */
typedef struct SxJoinSpan
{
	int64		from;
	int64		to;
} SxJoinSpan;

#define SX_ROW_MATCHED	1
#define SX_ROW_PASSING	2		/* due in the batch in which it came: never in a committed state */

typedef struct SxJoinRow
{
	struct SxJoinRow *next;		/* of its page */
	int64		expiry;
	const char *bytes;
	uint32		len;
	uint32		page;			/* 0: the list's own; else pages[page - 1] */
	uint8		flags;
	bool		gone;			/* is no row of the state any more */
	Datum	   *values;			/* NULL: not decoded yet */
	bool	   *nulls;
} SxJoinRow;

typedef struct SxJoinPage
{
	uint64		number;
	SxJoinSpan	span;			/* of its rows */
	uint32		nrows;
	uint32		nbytes;			/* if it was read */
	SxJoinRow  *rows;
	bool		read;			/* its rows are known, or being asked for */
	bool		changed;
	bool		was_there;		/* the state has an entry for it */
} SxJoinPage;

typedef struct SxJoinList
{
	int64		due;			/* bucket in which the key is looked at; SX_DUE_NEVER */
	uint64		next_number;
	SxJoinPage	own;			/* its rows lie in the list */
	int			npages;
	int			allocated;
	SxJoinPage *pages;			/* by number; pointers into it are good until the next add */
} SxJoinList;

static inline bool
sx_join_span_has(const SxJoinSpan *span, int64 expiry)
{
	/* a row whose time isn't known may be within any span */
	return expiry == SX_STATE_NEVER || (expiry >= span->from && expiry <= span->to);
}

static inline bool
sx_join_page_may_have(const SxJoinPage *page, const SxJoinSpan *span)
{
	return page->nrows > 0 &&
		(page->span.to == SX_STATE_NEVER || (page->span.from <= span->to && span->from <= page->span.to));
}

static inline SxJoinPage *
sx_join_list_page(SxJoinList *list, uint32 page)
{
	return page == 0 ? &list->own : &list->pages[page - 1];
}

static inline int64
sx_due_bucket(int64 expiry)
{
	return expiry == SX_STATE_NEVER ? SX_DUE_NEVER : expiry >> SX_DUE_SHIFT;
}

/* The last time of a bucket. */
static inline int64
sx_due_end(int64 bucket)
{
	uint64		end = ((uint64) bucket << SX_DUE_SHIFT) | ((1 << SX_DUE_SHIFT) - 1);

	return (int64) end == SX_STATE_NEVER ? SX_STATE_NEVER - 1 : (int64) end;
}

extern void sx_join_list_init(SxJoinList *list);

/* The page that must have been read before a row can be added, or NULL. */
extern SxJoinPage *sx_join_list_last(SxJoinList *list);

/* Puts the row into a page with room; memory comes from context. */
extern void sx_join_list_add(SxJoinList *list, SxJoinRow *row, MemoryContext context);

/* Takes the rows that are gone off a page that was read. */
extern void sx_join_page_sweep(SxJoinPage *page);

/* The earliest expiry of its rows; SX_STATE_NEVER. */
extern int64 sx_join_list_earliest(const SxJoinList *list);

extern int64 sx_join_list_rows(const SxJoinList *list);

/* Bytes; rows point into what is read, the structs are made in context. */
extern void sx_join_list_encode(const SxJoinList *list, StringInfo out);
extern void sx_join_list_decode(SxJoinList *list, SxReader *in, MemoryContext context);
extern void sx_join_page_encode(const SxJoinPage *page, StringInfo out);
extern void sx_join_page_decode(SxJoinPage *page, uint32 number, SxReader *in, MemoryContext context);

/* The next row of a page's bytes; expiry is that of the one before. False: there is none. */
static inline bool
sx_join_row_next(SxReader *in, SxJoinRow *row, uint64 *expiry)
{
	uint64		head;

	if (in->p >= in->end)
		return false;
	*expiry += (uint64) sx_unzigzag(sx_read_varint(in));
	head = sx_read_varint(in);
	row->expiry = (int64) *expiry;
	row->flags = head & 3;
	row->len = head >> 2;
	row->bytes = sx_read_bytes(in, head >> 2);
	return true;
}

#endif
