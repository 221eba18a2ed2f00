/*
 * join_page.c
 *		See join_page.h.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "exec/join_page.h"

static void
init_page(SxJoinPage *page, uint64 number)
{
	memset(page, 0, sizeof(*page));
	page->number = number;
	page->span.from = PG_INT64_MAX;
	page->span.to = PG_INT64_MIN;
}

void
sx_join_list_init(SxJoinList *list)
{
	memset(list, 0, sizeof(*list));
	list->due = SX_DUE_NEVER;
	list->next_number = 1;
	init_page(&list->own, 0);
	list->own.read = true;
}

static SxJoinPage *
add_page(SxJoinList *list, uint64 number, MemoryContext context)
{
	SxJoinPage *page;

	if (list->npages == list->allocated)
	{
		list->allocated = Max(4, 2 * list->allocated);
		list->pages = list->pages == NULL ?
			MemoryContextAlloc(context, list->allocated * sizeof(SxJoinPage)) :
			repalloc_huge(list->pages, list->allocated * sizeof(SxJoinPage));
	}
	page = &list->pages[list->npages++];
	init_page(page, number);
	return page;
}

static void
add_row(SxJoinPage *page, SxJoinRow *row)
{
	row->next = page->rows;
	page->rows = row;
	page->nrows++;
	page->nbytes += row->len;
	page->span.from = Min(page->span.from, row->expiry);
	page->span.to = Max(page->span.to, row->expiry);
}

static bool
has_room(const SxJoinPage *page)
{
	return page->nrows < SX_JOIN_PAGE_ROWS && page->nbytes < SX_JOIN_PAGE_FULL;
}

SxJoinPage *
sx_join_list_last(SxJoinList *list)
{
	SxJoinPage *last = list->npages > 0 ? &list->pages[list->npages - 1] : NULL;

	/* the list's own room may be taken by the rows before */
	return last != NULL && last->nrows < SX_JOIN_PAGE_ROWS ? last : NULL;
}

void
sx_join_list_add(SxJoinList *list, SxJoinRow *row, MemoryContext context)
{
	SxJoinPage *page = &list->own;

	if (!has_room(page))
	{
		page = list->npages > 0 ? &list->pages[list->npages - 1] : NULL;
		if (page == NULL || !has_room(page))
		{
			page = add_page(list, list->next_number++, context);
			page->read = true;
		}
		Assert(page->read);
	}
	row->page = page == &list->own ? 0 : list->npages;
	page->changed = true;
	add_row(page, row);
}

void
sx_join_page_sweep(SxJoinPage *page)
{
	SxJoinRow  *row = page->rows;
	SxJoinRow  *next;

	page->rows = NULL;
	page->nrows = page->nbytes = 0;
	page->span.from = PG_INT64_MAX;
	page->span.to = PG_INT64_MIN;
	for (; row != NULL; row = next)
	{
		next = row->next;
		if (!row->gone)
			add_row(page, row);
	}
}

int64
sx_join_list_earliest(const SxJoinList *list)
{
	int64		earliest = list->own.nrows > 0 ? list->own.span.from : SX_STATE_NEVER;

	for (int i = 0; i < list->npages; i++)
		if (list->pages[i].nrows > 0)
			earliest = Min(earliest, list->pages[i].span.from);
	return earliest;
}

int64
sx_join_list_rows(const SxJoinList *list)
{
	int64		rows = list->own.nrows;

	for (int i = 0; i < list->npages; i++)
		rows += list->pages[i].nrows;
	return rows;
}

void
sx_join_page_encode(const SxJoinPage *page, StringInfo out)
{
	uint64		expiry = 0;

	for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
	{
		char	   *p;

		Assert(!row->gone);
		enlargeStringInfo(out, 2 * SX_VARINT_MAX + row->len);
		p = sx_varint_write(out->data + out->len, sx_zigzag((int64) ((uint64) row->expiry - expiry)));
		p = sx_varint_write(p, (uint64) row->len << 2 | row->flags);
		memcpy(p, row->bytes, row->len);
		out->len = p + row->len - out->data;
		expiry = (uint64) row->expiry;
	}
}

void
sx_join_page_decode(SxJoinPage *page, uint32 number, SxReader *in, MemoryContext context)
{
	uint64		expiry = 0;
	SxJoinRow	row = {.page = number};

	page->read = true;
	page->rows = NULL;
	page->nrows = page->nbytes = 0;
	while (sx_join_row_next(in, &row, &expiry))
	{
		SxJoinRow  *copy = MemoryContextAlloc(context, sizeof(SxJoinRow));

		*copy = row;
		add_row(page, copy);
	}
}

void
sx_join_list_encode(const SxJoinList *list, StringInfo out)
{
	uint64		npages = 0;
	uint64		number = 0;
	uint64		from = 0;

	for (int i = 0; i < list->npages; i++)
		npages += list->pages[i].nrows > 0;
	sx_varint_append(out, list->due == SX_DUE_NEVER ? 0 : sx_zigzag(list->due) + 1);
	sx_varint_append(out, list->next_number);
	sx_varint_append(out, npages);
	for (int i = 0; i < list->npages; i++)
	{
		const SxJoinPage *page = &list->pages[i];

		if (page->nrows == 0)
			continue;
		sx_varint_append(out, page->number - number);
		sx_varint_append(out, sx_zigzag((int64) ((uint64) page->span.from - from)));
		sx_varint_append(out, (uint64) page->span.to - (uint64) page->span.from);
		sx_varint_append(out, page->nrows);
		number = page->number;
		from = (uint64) page->span.from;
	}
	sx_join_page_encode(&list->own, out);
}

void
sx_join_list_decode(SxJoinList *list, SxReader *in, MemoryContext context)
{
	uint64		npages;
	uint64		due;
	uint64		number = 0;
	uint64		from = 0;

	due = sx_read_varint(in);
	list->due = due == 0 ? SX_DUE_NEVER : sx_unzigzag(due - 1);
	list->next_number = sx_read_varint(in);
	npages = sx_read_varint(in);
	for (uint64 i = 0; i < npages; i++)
	{
		SxJoinPage *page;

		number += sx_read_varint(in);
		from += (uint64) sx_unzigzag(sx_read_varint(in));
		page = add_page(list, number, context);
		page->span.from = (int64) from;
		page->span.to = (int64) (from + sx_read_varint(in));
		page->nrows = sx_read_varint(in);
		page->was_there = true;
	}
	sx_join_page_decode(&list->own, 0, in, context);
}
