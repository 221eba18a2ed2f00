/*
 * join_page.c
 *		See join_page.h.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "exec/join_page.h"

SxJoinPage *
sx_join_page_find(const SxJoinList *list, uint64 row_number)
{
	uint64		number = row_number / SX_PAGE_ROWS;
	int			low = 0;
	int			high = list->npages;

	while (low < high)
	{
		int			middle = low + (high - low) / 2;

		if (list->pages[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < list->npages && list->pages[low].number == number ? &list->pages[low] : NULL;
}

static SxJoinPage *
add_page(SxJoinList *list, uint64 number, MemoryContext context)
{
	SxJoinPage *page;

	if (list->npages == list->allocated)
	{
		list->allocated = Max(1, 2 * list->allocated);
		list->pages = list->pages == NULL ?
			MemoryContextAlloc(context, list->allocated * sizeof(SxJoinPage)) :
			repalloc_huge(list->pages, list->allocated * sizeof(SxJoinPage));
	}
	page = &list->pages[list->npages++];
	memset(page, 0, sizeof(*page));
	page->number = number;
	page->span.from = PG_INT64_MAX;
	page->span.to = PG_INT64_MIN;
	return page;
}

static void
add_row(SxJoinPage *page, SxJoinRow *row)
{
	row->next = page->rows;
	page->rows = row;
	page->span.from = Min(page->span.from, row->expiry);
	page->span.to = Max(page->span.to, row->expiry);
}

void
sx_join_list_add(SxJoinList *list, SxJoinRow *row, MemoryContext context)
{
	SxJoinPage *page;

	row->number = list->next_number++;
	page = sx_join_page_find(list, row->number);
	if (page == NULL)
	{
		page = add_page(list, row->number / SX_PAGE_ROWS, context);
		page->read = true;
	}
	page->changed = true;
	add_row(page, row);
}

bool
sx_join_page_is_live(const SxJoinPage *page)
{
	if (page->gone)
		return false;
	if (!page->read)
		return true;
	for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
		if (!row->gone)
			return true;
	return false;
}

void
sx_join_page_encode(const SxJoinPage *page, StringInfo out)
{
	uint64		expiry = 0;

	for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
	{
		if (row->gone)
			continue;
		sx_varint_append(out, sx_zigzag((int64) ((uint64) row->expiry - expiry)));
		sx_varint_append(out, row->number % SX_PAGE_ROWS);
		expiry = (uint64) row->expiry;
	}
}

void
sx_join_page_decode(SxJoinPage *page, SxReader *in, struct SxJoinKey *key, int side,
					MemoryContext context)
{
	uint64		expiry = 0;

	page->read = true;
	while (in->p < in->end)
	{
		SxJoinRow  *row = MemoryContextAllocZero(context, sizeof(SxJoinRow));

		expiry += (uint64) sx_unzigzag(sx_read_varint(in));
		row->expiry = (int64) expiry;
		row->number = page->number * SX_PAGE_ROWS + sx_read_varint(in);
		row->key = key;
		row->side = side;
		row->stored = true;
		add_row(page, row);
	}
}

void
sx_join_list_encode(const SxJoinList *list, StringInfo out)
{
	const SxJoinPage *last = NULL;
	uint64		nfull = 0;
	uint64		number = 0;
	uint64		from = 0;

	for (int i = 0; i < list->npages; i++)
		if (!sx_join_page_is_last(list, &list->pages[i]) && sx_join_page_is_live(&list->pages[i]))
			nfull++;
	sx_varint_append(out, list->next_number);
	sx_varint_append(out, nfull);
	for (int i = 0; i < list->npages; i++)
	{
		const SxJoinPage *page = &list->pages[i];

		if (sx_join_page_is_last(list, page))
			last = page;
		else if (sx_join_page_is_live(page))
		{
			sx_varint_append(out, page->number - number);
			sx_varint_append(out, sx_zigzag((int64) ((uint64) page->span.from - from)));
			sx_varint_append(out, (uint64) page->span.to - (uint64) page->span.from);
			number = page->number;
			from = (uint64) page->span.from;
		}
	}
	if (last != NULL)
		sx_join_page_encode(last, out);
}

void
sx_join_list_decode(SxJoinList *list, SxReader *in, struct SxJoinKey *key, int side,
					MemoryContext context)
{
	uint64		nfull;
	uint64		number = 0;
	uint64		from = 0;

	list->next_number = sx_read_varint(in);
	nfull = sx_read_varint(in);
	for (uint64 i = 0; i < nfull; i++)
	{
		SxJoinPage *page;

		number += sx_read_varint(in);
		from += (uint64) sx_unzigzag(sx_read_varint(in));
		page = add_page(list, number, context);
		page->span.from = (int64) from;
		page->span.to = (int64) (from + sx_read_varint(in));
		page->was_there = true;
	}
	if (in->p < in->end)
		sx_join_page_decode(add_page(list, list->next_number / SX_PAGE_ROWS, context), in, key, side, context);
}
