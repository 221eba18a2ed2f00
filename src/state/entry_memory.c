/*
 * entry_memory.c
 *		Size classes on pages of 16 kB.
 *
 * A page begins with a header; the pieces follow.  Pieces never used yet lie
 * past "fresh", pieces given back are chained through their first four bytes
 * by their offset in units of 8.  Pages with room hang in a list per class.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "state/entry_memory.h"

#define PAGES_IN_CHUNK	32

typedef struct Chunk
{
	uint32		npages_free;
	uint32		numbers[PAGES_IN_CHUNK];
	char		pages[FLEXIBLE_ARRAY_MEMBER];
} Chunk;

typedef struct PageHeader
{
	Chunk	   *chunk;
	uint32		number;
	uint32		prev;			/* in the list of its class, or of free pages */
	uint32		next;
	uint16		class;
	uint16		used;			/* pieces given out */
	uint16		fresh;			/* first piece never given out, in units of 8 */
	uint16		freelist;		/* offset in units of 8; 0: none */
} PageHeader;

#define FIRST_PIECE		(MAXALIGN(sizeof(PageHeader)) / 8)

static const uint16 class_size[SX_PIECE_CLASSES] = {
	8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128,
	136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248, 256,
	320, 384, 448, 512, 640, 768, 896, 1024, 1280, 1536, 1792, SX_PIECE_MAX
};

int
sx_entry_class(Size size)
{
	int			class;

	Assert(size <= SX_PIECE_MAX);
	if (size <= 256)
		return size <= 8 ? 0 : (int) ((size + 7) / 8) - 1;
	for (class = 32; class_size[class] < size; class++)
		;
	return class;
}

Size
sx_entry_class_size(int class)
{
	return class_size[class];
}

Size
sx_entry_room(Size size)
{
	return class_size[sx_entry_class(size)];
}

static inline PageHeader *
page_header(const SxEntryMemory *memory, uint32 number)
{
	return (PageHeader *) memory->pages[number];
}

static void
list_push(SxEntryMemory *memory, uint32 *head, PageHeader *page)
{
	page->prev = 0;
	page->next = *head;
	if (*head != 0)
		page_header(memory, *head)->prev = page->number;
	*head = page->number;
}

static void
list_remove(SxEntryMemory *memory, uint32 *head, PageHeader *page)
{
	if (page->prev != 0)
		page_header(memory, page->prev)->next = page->next;
	else
		*head = page->next;
	if (page->next != 0)
		page_header(memory, page->next)->prev = page->prev;
}

void
sx_entry_memory_init(SxEntryMemory *memory, MemoryContext context)
{
	memset(memory, 0, sizeof(*memory));
	memory->context = context;
	memory->pages_allocated = 256;
	memory->pages = MemoryContextAllocZero(context,
										   memory->pages_allocated * sizeof(char *));
	memory->npages = 1;
}

/*
 * Numbers are reused through a list that runs through the pages array itself:
 * an unused slot holds the next unused number.
 */
static uint32
take_number(SxEntryMemory *memory)
{
	uint32		number = memory->unused_number;

	if (number != 0)
	{
		memory->unused_number = (uint32) (uintptr_t) memory->pages[number];
		return number;
	}
	Assert(memory->npages < memory->pages_allocated);
	return memory->npages++;
}

static void
add_chunk(SxEntryMemory *memory)
{
	Chunk	   *chunk;
	char	   *first;
	int			i;

	if (memory->npages + PAGES_IN_CHUNK > memory->pages_allocated)
	{
		if (memory->npages + PAGES_IN_CHUNK >= (1U << (32 - SX_PAGE_SHIFT)))
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("state of a query takes more than 32 GB of memory"),
					 errhint("Lower streamx.state_memory.")));
		memory->pages = repalloc_huge(memory->pages,
									  (Size) memory->pages_allocated * 2 * sizeof(char *));
		memory->pages_allocated *= 2;
	}
	chunk = MemoryContextAllocHuge(memory->context,
								   offsetof(Chunk, pages) +
								   PAGES_IN_CHUNK * SX_PAGE_BYTES + 64);
	chunk->npages_free = PAGES_IN_CHUNK;
	first = (char *) TYPEALIGN(64, chunk->pages);
	for (i = 0; i < PAGES_IN_CHUNK; i++)
	{
		PageHeader *page = (PageHeader *) (first + i * SX_PAGE_BYTES);
		uint32		number = take_number(memory);

		memory->pages[number] = (char *) page;
		chunk->numbers[i] = number;
		page->chunk = chunk;
		page->number = number;
		list_push(memory, &memory->free_page, page);
	}
	memory->free_pages += PAGES_IN_CHUNK;
}

static void
drop_chunk(SxEntryMemory *memory, Chunk *chunk)
{
	int			i;

	for (i = 0; i < PAGES_IN_CHUNK; i++)
	{
		uint32		number = chunk->numbers[i];

		list_remove(memory, &memory->free_page, page_header(memory, number));
		memory->pages[number] = (char *) (uintptr_t) memory->unused_number;
		memory->unused_number = number;
	}
	memory->free_pages -= PAGES_IN_CHUNK;
	pfree(chunk);
}

static PageHeader *
page_with_room(SxEntryMemory *memory, int class)
{
	PageHeader *page;

	if (memory->partial[class] != 0)
		return page_header(memory, memory->partial[class]);
	if (memory->free_page == 0)
		add_chunk(memory);
	page = page_header(memory, memory->free_page);
	list_remove(memory, &memory->free_page, page);
	memory->free_pages--;
	page->chunk->npages_free--;
	page->class = class;
	page->used = 0;
	page->fresh = FIRST_PIECE;
	page->freelist = 0;
	list_push(memory, &memory->partial[class], page);
	memory->bytes += SX_PAGE_BYTES;
	return page;
}

SxRef
sx_entry_alloc(SxEntryMemory *memory, Size size)
{
	int			class = sx_entry_class(size);
	PageHeader *page = page_with_room(memory, class);
	uint16		units = class_size[class] / 8;
	uint16		offset;

	if (page->freelist != 0)
	{
		offset = page->freelist;
		page->freelist = *(uint16 *) ((char *) page + (Size) offset * 8);
	}
	else
	{
		offset = page->fresh;
		page->fresh += units;
	}
	page->used++;
	if (page->freelist == 0 && page->fresh + units > SX_PAGE_BYTES / 8)
		list_remove(memory, &memory->partial[class], page);
	return (page->number << SX_PAGE_SHIFT) | offset;
}

void
sx_entry_free(SxEntryMemory *memory, SxRef ref)
{
	PageHeader *page = page_header(memory, ref >> SX_PAGE_SHIFT);
	uint16		offset = ref & ((1 << SX_PAGE_SHIFT) - 1);
	uint16		units = class_size[page->class] / 8;
	bool		was_full;

	was_full = page->freelist == 0 && page->fresh + units > SX_PAGE_BYTES / 8;
#ifdef USE_ASSERT_CHECKING
	memset((char *) page + (Size) offset * 8, 0x7f, class_size[page->class]);
#endif
	*(uint16 *) ((char *) page + (Size) offset * 8) = page->freelist;
	page->freelist = offset;
	page->used--;
	if (page->used == 0)
	{
		Chunk	   *chunk = page->chunk;

		if (!was_full)
			list_remove(memory, &memory->partial[page->class], page);
		list_push(memory, &memory->free_page, page);
		memory->free_pages++;
		chunk->npages_free++;
		memory->bytes -= SX_PAGE_BYTES;
		/* keep some empty pages, so that a busy border costs nothing */
		if (chunk->npages_free == PAGES_IN_CHUNK &&
			memory->free_pages > 2 * PAGES_IN_CHUNK)
			drop_chunk(memory, chunk);
	}
	else if (was_full)
		list_push(memory, &memory->partial[page->class], page);
}

char *
sx_large_alloc(SxEntryMemory *memory, Size size)
{
	Size	   *piece;

	/* some room to grow: lists in state grow by a little at each batch */
	size = MAXALIGN(size + size / 8);
	piece = MemoryContextAllocHuge(memory->context, sizeof(Size) + size);
	*piece = size;
	memory->bytes += size + 32;
	return (char *) (piece + 1);
}

void
sx_large_free(SxEntryMemory *memory, char *piece)
{
	Size	   *start = (Size *) piece - 1;

	memory->bytes -= *start + 32;
	pfree(start);
}

Size
sx_large_room(const char *piece)
{
	return ((const Size *) piece)[-1];
}
