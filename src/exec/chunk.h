/*
 * chunk.h
 *		Up to a thousand rows, column by column.
 *
 * Operators work on chunks: hashing, looking up and counting a column at a time
 * keeps code and tables in the processor's caches. Only columns that someone
 * asked for are filled. Values by reference are copied into the chunk, flat
 * (neither toasted nor expanded), and live until it is cleared.
 */
#ifndef SX_EXEC_CHUNK_H
#define SX_EXEC_CHUNK_H

#include "access/tupdesc.h"
#include "executor/tuptable.h"

#include "base/settings.h"

#define SX_CHUNK_ROWS	1024

typedef struct SxChunkColumn
{
	AttrNumber	attnum;
	bool		byval;
	int16		typlen;
	Datum		values[SX_CHUNK_ROWS];
	bool		nulls[SX_CHUNK_ROWS];
} SxChunkColumn;

typedef struct SxChunk
{
	int			nrows;
	int			ncolumns;
	int			last;			/* highest attribute needed */
	SxChunkColumn **columns;	/* those in use */
	SxChunkColumn **by_attnum;	/* [attnum - 1]; NULL: not needed */
	MemoryContext arena;
	struct SxChunk *next;		/* for whoever keeps several */
} SxChunk;

/* Lives in CurrentMemoryContext; begin must be called per batch. */
extern SxChunk *sx_chunk_make(TupleDesc desc);
extern void sx_chunk_need(SxChunk *chunk, TupleDesc desc, AttrNumber attnum);

/* The arena becomes a child of CurrentMemoryContext, the batch's. */
extern void sx_chunk_begin(SxChunk *chunk);
extern void sx_chunk_add(SxChunk *chunk, TupleTableSlot *slot);
extern void sx_chunk_clear(SxChunk *chunk);

/* Time to work on it. Tests draw smaller ones, so that whatever a chunk ends with is met. */
static inline bool
sx_chunk_full(const SxChunk *chunk)
{
#ifdef SX_CRASH_POINTS
	if (chunk->nrows >= sx_chunk_rows)
		return true;
#endif
	return chunk->nrows == SX_CHUNK_ROWS;
}

static inline const SxChunkColumn *
sx_chunk_column(const SxChunk *chunk, AttrNumber attnum)
{
	return chunk->by_attnum[attnum - 1];
}

#endif
