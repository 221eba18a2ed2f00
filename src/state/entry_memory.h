/*
 * entry_memory.h
 *		Small pieces of memory, named by 32 bits, counted exactly.
 *
 * State is millions of pieces of some ten bytes.  palloc would add 16 bytes to
 * each and a pointer takes eight; here a piece has no header and a reference
 * takes four bytes (32 GB at most).  Pieces of one size class share pages of
 * 16 kB; a page that empties can serve any class again, and a chunk of pages
 * that empties goes back to the system.
 */
#ifndef SX_STATE_ENTRY_MEMORY_H
#define SX_STATE_ENTRY_MEMORY_H

typedef uint32 SxRef;

#define SX_REF_NONE			((SxRef) 0)
#define SX_PAGE_BYTES		16384
#define SX_PAGE_SHIFT		11	/* references count in units of 8 bytes */
#define SX_PIECE_MAX		2040	/* what is larger is allocated on its own */
#define SX_PIECE_CLASSES	44

typedef struct SxEntryMemory
{
	MemoryContext context;
	char	  **pages;			/* by number; number 0 is never used */
	uint32		npages;
	uint32		pages_allocated;
	uint32		free_page;		/* list of empty pages, by number */
	uint32		free_pages;
	uint32		unused_number;	/* list of page numbers without memory */
	uint32		partial[SX_PIECE_CLASSES];	/* pages with room, a list per class */
	Size		bytes;			/* pages in use, and large pieces */
} SxEntryMemory;

extern void sx_entry_memory_init(SxEntryMemory *memory, MemoryContext context);
extern SxRef sx_entry_alloc(SxEntryMemory *memory, Size size);
extern void sx_entry_free(SxEntryMemory *memory, SxRef ref);

/* What a request of this size gets. */
extern Size sx_entry_room(Size size);
extern int	sx_entry_class(Size size);
extern Size sx_entry_class_size(int class);

/* Pieces of any size by pointer; the size is kept in front. */
extern char *sx_large_alloc(SxEntryMemory *memory, Size size);
extern void sx_large_free(SxEntryMemory *memory, char *piece);
extern Size sx_large_room(const char *piece);

static inline void *
sx_entry_pointer(const SxEntryMemory *memory, SxRef ref)
{
	return memory->pages[ref >> SX_PAGE_SHIFT] +
		((Size) (ref & ((1 << SX_PAGE_SHIFT) - 1)) << 3);
}

#endif
