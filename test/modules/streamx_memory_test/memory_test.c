/*
 * memory_test.c
 *		Every palloc() its own malloc(), so that checkers see what is used when.
 *
 * A memory context of the server takes blocks from malloc() and cuts chunks off
 * them.  To valgrind and the address sanitizer a block is one valid piece: a
 * read past a chunk's end, or of a chunk that was freed or whose context was
 * reset, goes unnoticed.  In a server that preloads this library every context
 * made afterwards hands out chunks from malloc() and returns them to free():
 *
 *		context -> chunk <-> chunk <-> chunk
 *
 *		chunk:	prev | next | size | context | the caller's bytes
 *
 * The context stands directly before the caller's bytes: that is how the server
 * up to version 15 finds it.  For later ones nothing is done, and said.
 */
#include "postgres.h"

#include "fmgr.h"
#include "nodes/memnodes.h"
#include "utils/memutils.h"

#include "syntax/detour.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

#if PG_VERSION_NUM < 160000

typedef struct Chunk
{
	struct Chunk *prev;
	struct Chunk *next;
	Size		size;
	MemoryContext context;		/* the last field: see the file's comment */
} Chunk;

typedef struct CheckedContext
{
	MemoryContextData header;	/* the first field */
	Chunk	   *first;
} CheckedContext;

StaticAssertDecl(sizeof(Chunk) == MAXALIGN(sizeof(Chunk)), "chunks must be aligned");

#define ChunkOf(pointer)	(&((Chunk *) (pointer))[-1])
#define BytesOf(chunk)		((void *) &(chunk)[1])
#define SpaceOf(chunk)		((chunk)->size + sizeof(Chunk))

static void
link_chunk(CheckedContext *context, Chunk *chunk)
{
	chunk->prev = NULL;
	chunk->next = context->first;
	if (chunk->next != NULL)
		chunk->next->prev = chunk;
	context->first = chunk;
	context->header.mem_allocated += SpaceOf(chunk);
}

static void
unlink_chunk(CheckedContext *context, Chunk *chunk)
{
	if (chunk->prev != NULL)
		chunk->prev->next = chunk->next;
	else
		context->first = chunk->next;
	if (chunk->next != NULL)
		chunk->next->prev = chunk->prev;
	context->header.mem_allocated -= SpaceOf(chunk);
}

static void *
checked_alloc(MemoryContext context, Size size)
{
	Chunk	   *chunk = malloc(sizeof(Chunk) + size);

	if (chunk == NULL)
		return NULL;
	chunk->size = size;
	chunk->context = context;
	link_chunk((CheckedContext *) context, chunk);
	return BytesOf(chunk);
}

static void
checked_free(MemoryContext context, void *pointer)
{
	unlink_chunk((CheckedContext *) context, ChunkOf(pointer));
	free(ChunkOf(pointer));
}

/* Always elsewhere, so that an old pointer that somebody kept is found. */
static void *
checked_realloc(MemoryContext context, void *pointer, Size size)
{
	void	   *moved = checked_alloc(context, size);

	if (moved == NULL)
		return NULL;
	memcpy(moved, pointer, Min(size, ChunkOf(pointer)->size));
	checked_free(context, pointer);
	return moved;
}

static void
checked_reset(MemoryContext context)
{
	CheckedContext *checked = (CheckedContext *) context;

	while (checked->first != NULL)
		checked_free(context, BytesOf(checked->first));
}

static void
checked_delete(MemoryContext context)
{
	checked_reset(context);
	free(context);
}

static Size
checked_chunk_space(MemoryContext context, void *pointer)
{
	return SpaceOf(ChunkOf(pointer));
}

static bool
checked_is_empty(MemoryContext context)
{
	return ((CheckedContext *) context)->first == NULL;
}

static void
checked_stats(MemoryContext context, MemoryStatsPrintFunc print, void *passthru,
			  MemoryContextCounters *totals, bool print_to_stderr)
{
	Size		chunks = 0;

	for (Chunk *chunk = ((CheckedContext *) context)->first; chunk != NULL; chunk = chunk->next)
		chunks++;
	if (print != NULL)
	{
		char		text[100];

		snprintf(text, sizeof(text), "%zu bytes in %zu chunks",
				 context->mem_allocated, chunks);
		print(context, passthru, text, print_to_stderr);
	}
	if (totals != NULL)
	{
		totals->nblocks += chunks;
		totals->totalspace += context->mem_allocated;
	}
}

static const MemoryContextMethods checked_methods = {
	.alloc = checked_alloc,
	.free_p = checked_free,
	.realloc = checked_realloc,
	.reset = checked_reset,
	.delete_context = checked_delete,
	.get_chunk_space = checked_chunk_space,
	.is_empty = checked_is_empty,
	.stats = checked_stats,
};

/* In place of the server's maker of contexts; the sizes mean nothing here. */
static MemoryContext
create_checked(MemoryContext parent, const char *name,
			   Size minContextSize, Size initBlockSize, Size maxBlockSize)
{
	CheckedContext *context = malloc(sizeof(CheckedContext));

	if (context == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("Failed while creating memory context \"%s\".", name)));
	context->first = NULL;
	MemoryContextCreate((MemoryContext) context, T_AllocSetContext, &checked_methods, parent, name);
	return (MemoryContext) context;
}

void
_PG_init(void)
{
	const char *refusal = sx_detour_install(AllocSetContextCreateInternal, create_checked,
											"AllocSetContextCreateInternal");

	if (refusal != NULL)
		elog(WARNING, "chunks of memory contexts are not checked: %s", refusal);
	else
		elog(LOG, "chunks of memory contexts are checked");
}

#else

void
_PG_init(void)
{
	elog(WARNING, "chunks of memory contexts are not checked: %s", "That is for PostgreSQL 15.");
}

#endif
