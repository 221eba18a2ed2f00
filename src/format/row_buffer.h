/*
 * row_buffer.h
 *		Rows of a batch, decoded on one thread and read on another.
 *
 * Everything in it is malloc'ed, so that a thread which knows nothing of memory
 * contexts can fill it. A cell is ready (a by-value Datum, or a pointer to a
 * complete varlena in the buffer's arena), NULL, or text that the type's input
 * function turns into a Datum on the main thread. Neither rows nor the arena ever
 * move: a Datum may point into them as long as the buffer isn't reset.
 *
 * There is no lock in it: at any time it belongs to one thread.
 */
#ifndef SX_FORMAT_ROW_BUFFER_H
#define SX_FORMAT_ROW_BUFFER_H

#include "postgres_ext.h"

/* What the bytes behind the last one of a record's copy are good for: reads by blocks. */
#define SX_RECORD_PADDING	32

/* A longer record is malformed: its strings might be no values of the server. */
#define SX_RECORD_MAX		((size_t) 0x3f000000)

/* In SxRow's array of cell kinds; the first two are what a slot's isnull says. */
#define SX_CELL_READY	0
#define SX_CELL_NULL	1
#define SX_CELL_TEXT	2		/* C string, for the input function, which may refuse it */
#define SX_CELL_SAFE_TEXT	3	/* as before, but known to be acceptable (JSON for jsonb) */
#define SX_CELL_NESTED	4		/* C string, JSON of a composite or array */

typedef struct SxRow
{
	int64		tag;			/* the caller's: buffer->tag when the record was decoded */
	const char *raw;			/* the record's bytes (zeros behind), NULL: a tombstone, or not kept */
	uint32		raw_len;
	bool		has_text;		/* some cell is SX_CELL_TEXT and so on */
	bool		tombstone;		/* its record had no value: NULLs, and not malformed */
	const char *error;			/* NULL: well formed; else what is wrong with it */
} SxRow;

typedef struct SxRowPage SxRowPage;
typedef struct SxArenaBlock SxArenaBlock;

typedef struct SxRowBuffer
{
	/* of its life */
	int			natts;
	int			page_shift;		/* rows per page: 1 << page_shift */
	bool		keep_raw;		/* of well-formed records, too */

	/* since the last reset */
	int64		nrows;
	int64		nmalformed;		/* rows with an error */
	int64		tag;			/* set by the caller, given to the rows of the next record */
	bool		out_of_memory;	/* a decode returned false */
	char		failure[256];	/* a decode returned false, and may work later: a schema registry is away */

	/* its own */
	SxRowPage **pages;
	int			npages;			/* allocated ones */
	int			pages_size;
	char	   *arena_at;
	char	   *arena_end;
	size_t		last_block;		/* size of the newest block that many share */
	SxArenaBlock *blocks;		/* newest first */
	SxArenaBlock *spare;
	size_t		bytes;			/* malloc'ed in all */
} SxRowBuffer;

/* NULL: out of memory. Thread: any, as all below. */
extern SxRowBuffer *sx_row_buffer_create(int natts, bool keep_raw);
extern void sx_row_buffer_destroy(SxRowBuffer *buffer);

/* Forgets the rows; keeps the memory, but not more than keep_bytes of it. */
extern void sx_row_buffer_reset(SxRowBuffer *buffer, size_t keep_bytes);

/* How much memory it holds. */
static inline size_t
sx_row_buffer_bytes(const SxRowBuffer *buffer)
{
	return buffer->bytes;
}

/* How much of it holds rows and their bytes. */
extern size_t sx_row_buffer_used(const SxRowBuffer *buffer);

extern SxRow *sx_row_buffer_row(const SxRowBuffer *buffer, int64 row);

/* ---- for decoders ---- */

typedef struct SxRowCells
{
	SxRow	   *row;
	uintptr_t  *values;			/* Datums */
	uint8	   *kinds;			/* SX_CELL_... */
} SxRowCells;

/* A new row of NULLs, with the buffer's tag; false: out of memory. */
extern bool sx_row_buffer_append(SxRowBuffer *buffer, SxRowCells *cells);
/* Takes back the last rows, so that this many stay. */
extern void sx_row_buffer_truncate(SxRowBuffer *buffer, int64 nrows);
extern void sx_row_buffer_cells(const SxRowBuffer *buffer, int64 row, SxRowCells *cells);

extern void *sx_row_buffer_alloc_slow(SxRowBuffer *buffer, size_t size);

/* Eight-byte aligned; NULL: out of memory. */
static inline void *
sx_row_buffer_alloc(SxRowBuffer *buffer, size_t size)
{
	char	   *result = (char *) (((uintptr_t) buffer->arena_at + 7) & ~(uintptr_t) 7);

	if (result + size > buffer->arena_end || result == NULL)
		return sx_row_buffer_alloc_slow(buffer, size);
	buffer->arena_at = result + size;
	return result;
}

/* Not aligned. */
static inline char *
sx_row_buffer_alloc_bytes(SxRowBuffer *buffer, size_t size)
{
	char	   *result = buffer->arena_at;

	if (size > (size_t) (buffer->arena_end - result))
		return sx_row_buffer_alloc_slow(buffer, size);
	buffer->arena_at = result + size;
	return result;
}

/* A copy with SX_RECORD_PADDING zeros behind it. */
extern char *sx_row_buffer_copy(SxRowBuffer *buffer, const char *data, size_t len);

/* Gives back the tail of the last allocation. */
static inline void
sx_row_buffer_shrink(SxRowBuffer *buffer, char *allocated, size_t size, size_t used)
{
	if (allocated + size == buffer->arena_at)
		buffer->arena_at = allocated + used;
}

/* A varlena of these bytes, short header where it fits; 0: out of memory. */
extern uintptr_t sx_row_buffer_varlena(SxRowBuffer *buffer, const char *data, size_t len);

#endif
