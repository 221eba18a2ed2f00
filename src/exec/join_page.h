/*
 * join_page.h
 *		Which rows a key of a join has, page by page.
 *
 * Rows of a key and side are numbered as they come, and a page is so many numbers.
 * A key with a hundred thousand rows changes the last page for each new row, and the
 * pages of rows that go; the others are read only if their times are asked for. The
 * list names the pages, and has the rows of the last one, which isn't full yet, in
 * itself: a key with few rows is one entry of the state.
 */
#ifndef SX_EXEC_JOIN_PAGE_H
#define SX_EXEC_JOIN_PAGE_H

#include "row/datum_codec.h"
#include "state/state_store.h"

#define SX_PAGE_ROWS	256

/* Expiries from .. to, both included. */
typedef struct SxJoinSpan
{
	int64		from;
	int64		to;
} SxJoinSpan;

/* What a row is found by that has no key. */
typedef struct SxJoinLoose
{
	uint64		hash;
	uint32		len;
	char		bytes[FLEXIBLE_ARRAY_MEMBER];
} SxJoinLoose;

/* A batch has all of its rows in memory: small is good. */
typedef struct SxJoinRow
{
	struct SxJoinRow *next;		/* of its page, or of those of its key that are new */
	struct SxJoinRow *link;		/* of its side's new rows; stored: of the changed ones */
	struct SxJoinKey *key;		/* NULL: matches nothing */
	SxJoinLoose *loose;			/* then this */
	int64		expiry;
	uint64		number;			/* among the rows of its key and side */
	SxJoinSpan	wants;			/* new: only rows of the other side that go then can match */
	uint8		side;
	bool		stored;			/* a batch before put it */
	bool		asked;			/* it is being fetched, or was */
	bool		matched;
	bool		gone;			/* is no row of the state any more */
	Datum	   *values;			/* NULL: not fetched yet */
	bool	   *nulls;
} SxJoinRow;

typedef struct SxJoinPage
{
	uint64		number;			/* of its first row / SX_PAGE_ROWS */
	SxJoinSpan	span;			/* of its rows; those that are gone may count */
	SxJoinRow  *rows;
	bool		read;			/* its rows are known, or being asked for */
	bool		changed;
	bool		was_there;		/* the state has an entry for it alone */
	bool		gone;			/* as a whole */
} SxJoinPage;

/* Zeroes are an empty list. */
typedef struct SxJoinList
{
	uint64		next_number;
	int			npages;
	int			allocated;
	SxJoinPage *pages;			/* by number; pointers into it are good until the next add */
} SxJoinList;

static inline bool
sx_join_spans_meet(const SxJoinSpan *a, const SxJoinSpan *b)
{
	return a->from <= b->to && b->from <= a->to;
}

/* A row whose time isn't known may be within any span. */
static inline bool
sx_join_span_has(const SxJoinSpan *span, int64 expiry)
{
	return expiry == SX_STATE_NEVER || (expiry >= span->from && expiry <= span->to);
}

static inline bool
sx_join_page_may_have(const SxJoinPage *page, const SxJoinSpan *span)
{
	return !page->gone && (page->span.to == SX_STATE_NEVER || sx_join_spans_meet(&page->span, span));
}

/* Is the page the one that lies in the list? */
static inline bool
sx_join_page_is_last(const SxJoinList *list, const SxJoinPage *page)
{
	return page->number == list->next_number / SX_PAGE_ROWS;
}

/* The page of a row with this number, or NULL. */
extern SxJoinPage *sx_join_page_find(const SxJoinList *list, uint64 row_number);

/* Numbers the row and makes it one of the last page's; memory comes from context. */
extern void sx_join_list_add(SxJoinList *list, SxJoinRow *row, MemoryContext context);

/* Does the page have rows? One that wasn't read has. */
extern bool sx_join_page_is_live(const SxJoinPage *page);

/*
 * Bytes; described at the top of join.c. Decoding makes rows of this key and side in
 * the context.
 */
extern void sx_join_list_encode(const SxJoinList *list, StringInfo out);
extern void sx_join_list_decode(SxJoinList *list, SxReader *in, struct SxJoinKey *key, int side,
								MemoryContext context);
extern void sx_join_page_encode(const SxJoinPage *page, StringInfo out);
extern void sx_join_page_decode(SxJoinPage *page, SxReader *in, struct SxJoinKey *key, int side,
								MemoryContext context);

#endif
