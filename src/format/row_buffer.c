/*
 * row_buffer.c
 *		Rows of a batch, decoded on one thread and read on another.
 *
 * Rows lie in pages of a fixed number: values, kinds and the rows' own structs are
 * an array each. The arena is a list of blocks; a large allocation has a block
 * to itself.
 */
#include "postgres.h"

#include "base/compat.h"
#include "format/row_buffer.h"

#define ARENA_BLOCK		(256 * 1024)
#define FIRST_BLOCK		(8 * 1024)	/* what few records need; each further one is twice as large */
#define PAGE_BYTES		(64 * 1024)
#define MAX_PAGE_SHIFT	6

struct SxRowPage
{
	SxRow	   *rows;
	uintptr_t  *values;
	uint8	   *kinds;
};

struct SxArenaBlock
{
	SxArenaBlock *next;
	size_t		size;			/* without this header */
};

#define BLOCK_DATA(block)	((char *) (block) + MAXALIGN(sizeof(SxArenaBlock)))

SxRowBuffer *
sx_row_buffer_create(int natts, bool keep_raw)
{
	SxRowBuffer *buffer = calloc(1, sizeof(SxRowBuffer));
	size_t		row_size = sizeof(SxRow) + natts * (sizeof(uintptr_t) + 1);

	if (buffer == NULL)
		return NULL;
	buffer->natts = natts;
	buffer->keep_raw = keep_raw;
	while (buffer->page_shift < MAX_PAGE_SHIFT &&
		   (row_size << (buffer->page_shift + 1)) <= PAGE_BYTES)
		buffer->page_shift++;
	buffer->bytes = sizeof(SxRowBuffer);
	return buffer;
}

static void
free_pages(SxRowBuffer *buffer, int keep)
{
	size_t		row_size = sizeof(SxRow) + buffer->natts * (sizeof(uintptr_t) + 1);

	while (buffer->npages > keep)
	{
		free(buffer->pages[--buffer->npages]);
		buffer->bytes -= sizeof(SxRowPage) + (row_size << buffer->page_shift);
	}
}

static void
free_blocks(SxRowBuffer *buffer, SxArenaBlock *block)
{
	while (block != NULL)
	{
		SxArenaBlock *next = block->next;

		buffer->bytes -= block->size;
		free(block);
		block = next;
	}
}

void
sx_row_buffer_destroy(SxRowBuffer *buffer)
{
	if (buffer == NULL)
		return;
	free_pages(buffer, 0);
	free(buffer->pages);
	free_blocks(buffer, buffer->blocks);
	free_blocks(buffer, buffer->spare);
	free(buffer);
}

void
sx_row_buffer_reset(SxRowBuffer *buffer, size_t keep_bytes)
{
	buffer->nrows = 0;
	buffer->nmalformed = 0;
	buffer->out_of_memory = false;
	buffer->failure[0] = '\0';
	buffer->arena_at = buffer->arena_end = NULL;
	buffer->last_block = 0;
	while (buffer->blocks != NULL)
	{
		SxArenaBlock *block = buffer->blocks;

		buffer->blocks = block->next;
		block->next = NULL;
		if (block->size != ARENA_BLOCK || buffer->bytes > keep_bytes)
			free_blocks(buffer, block);
		else
		{
			block->next = buffer->spare;
			buffer->spare = block;
		}
	}
	if (buffer->bytes > keep_bytes)
	{
		free_blocks(buffer, buffer->spare);
		buffer->spare = NULL;
	}
	while (buffer->bytes > keep_bytes && buffer->npages > 0)
		free_pages(buffer, buffer->npages - 1);
}

/* ---- rows ---- */

static SxRowPage *
make_page(const SxRowBuffer *buffer, size_t *size)
{
	size_t		nrows = (size_t) 1 << buffer->page_shift;
	size_t		ncells = nrows * buffer->natts;
	SxRowPage  *page;

	*size = sizeof(SxRowPage) + nrows * sizeof(SxRow) + ncells * (sizeof(uintptr_t) + 1);
	page = malloc(*size);
	if (page == NULL)
		return NULL;
	page->rows = (SxRow *) (page + 1);
	page->values = (uintptr_t *) (page->rows + nrows);
	page->kinds = (uint8 *) (page->values + ncells);
	return page;
}

static bool
add_page(SxRowBuffer *buffer)
{
	size_t		size;

	if (buffer->npages == buffer->pages_size)
	{
		int			wanted = buffer->pages_size * 2 + 16;
		SxRowPage **pages = realloc(buffer->pages, wanted * sizeof(SxRowPage *));

		if (pages == NULL)
			return false;
		buffer->pages = pages;
		buffer->pages_size = wanted;
	}
	buffer->pages[buffer->npages] = make_page(buffer, &size);
	if (buffer->pages[buffer->npages] == NULL)
		return false;
	buffer->npages++;
	buffer->bytes += size;
	return true;
}

void
sx_row_buffer_cells(const SxRowBuffer *buffer, int64 row, SxRowCells *cells)
{
	SxRowPage  *page = buffer->pages[row >> buffer->page_shift];
	size_t		in_page = row & ((1 << buffer->page_shift) - 1);

	cells->row = page->rows + in_page;
	cells->values = page->values + in_page * buffer->natts;
	cells->kinds = page->kinds + in_page * buffer->natts;
}

SxRow *
sx_row_buffer_row(const SxRowBuffer *buffer, int64 row)
{
	SxRowPage  *page = buffer->pages[row >> buffer->page_shift];

	return page->rows + (row & ((1 << buffer->page_shift) - 1));
}

bool
sx_row_buffer_append(SxRowBuffer *buffer, SxRowCells *cells)
{
	if ((buffer->nrows >> buffer->page_shift) >= buffer->npages && !add_page(buffer))
	{
		buffer->out_of_memory = true;
		return false;
	}
	sx_row_buffer_cells(buffer, buffer->nrows++, cells);
	memset(cells->row, 0, sizeof(SxRow));
	cells->row->tag = buffer->tag;
	memset(cells->kinds, SX_CELL_NULL, buffer->natts);
	return true;
}

void
sx_row_buffer_truncate(SxRowBuffer *buffer, int64 nrows)
{
	while (buffer->nrows > nrows)
		if (sx_row_buffer_row(buffer, --buffer->nrows)->error != NULL)
			buffer->nmalformed--;
}

/* ---- the arena ---- */

size_t
sx_row_buffer_used(const SxRowBuffer *buffer)
{
	size_t		used = buffer->nrows * (sizeof(SxRow) + buffer->natts * (sizeof(uintptr_t) + 1));

	for (const SxArenaBlock *block = buffer->blocks; block != NULL; block = block->next)
		used += block->size;
	return used - (buffer->arena_end - buffer->arena_at);
}

/* Also for what needs no alignment: a new block is aligned anyway. */
void *
sx_row_buffer_alloc_slow(SxRowBuffer *buffer, size_t size)
{
	SxArenaBlock *block = NULL;
	size_t		shared = Min(Max(buffer->last_block * 2, FIRST_BLOCK), ARENA_BLOCK);
	size_t		wanted;

	while (shared < ARENA_BLOCK && (size > shared / 4 || buffer->spare != NULL))
		shared *= 2;
	wanted = size > shared / 4 ? size : shared;
	if (wanted == ARENA_BLOCK && buffer->spare != NULL)
	{
		block = buffer->spare;
		buffer->spare = block->next;
	}
	else if (wanted < SIZE_MAX / 2)
	{
		block = malloc(MAXALIGN(sizeof(SxArenaBlock)) + wanted);
		if (block != NULL)
		{
			block->size = wanted;
			buffer->bytes += wanted;
		}
	}
	if (block == NULL)
	{
		buffer->out_of_memory = true;
		return NULL;
	}
	block->next = buffer->blocks;
	buffer->blocks = block;
	if (wanted != shared)
		return BLOCK_DATA(block);	/* small ones go on in the block before */
	buffer->last_block = shared;
	buffer->arena_at = BLOCK_DATA(block) + size;
	buffer->arena_end = BLOCK_DATA(block) + wanted;
	return BLOCK_DATA(block);
}

char *
sx_row_buffer_copy(SxRowBuffer *buffer, const char *data, size_t len)
{
	char	   *copy = sx_row_buffer_alloc_bytes(buffer, len + SX_RECORD_PADDING);

	if (copy == NULL)
		return NULL;
	memcpy(copy, data, len);
	memset(copy + len, 0, SX_RECORD_PADDING);
	return copy;
}

uintptr_t
sx_row_buffer_varlena(SxRowBuffer *buffer, const char *data, size_t len)
{
	char	   *result;

	if (len + VARHDRSZ_SHORT <= VARATT_SHORT_MAX)
	{
		result = sx_row_buffer_alloc_bytes(buffer, len + VARHDRSZ_SHORT);
		if (result == NULL)
			return 0;
		SET_VARSIZE_SHORT(result, len + VARHDRSZ_SHORT);
		memcpy(VARDATA_SHORT(result), data, len);
		return (uintptr_t) result;
	}
	result = sx_row_buffer_alloc(buffer, len + VARHDRSZ);
	if (result == NULL)
		return 0;
	SET_VARSIZE(result, len + VARHDRSZ);
	memcpy(VARDATA(result), data, len);
	return (uintptr_t) result;
}
