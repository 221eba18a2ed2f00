/*
 * waiting_rows.h
 *		Rows whose groups the memory lacks, until many of them are fetched at once.
 *
 * A store sorts the keys of a fetch and reads each of its blocks once; asked a
 * thousand keys at a time it reads all of them for every thousand.  So the rows
 * wait, in the order in which they came, chunk by chunk, with the group of each.
 */
#ifndef SX_EXEC_WAITING_ROWS_H
#define SX_EXEC_WAITING_ROWS_H

#include "exec/chunk.h"
#include "exec/group_table.h"

#define SX_FETCH_GROUPS		65536	/* fetched together, about */

typedef struct SxWaitingPiece
{
	SxChunk    *chunk;
	int			n;
	int		   *rows;			/* of the chunk */
	SxGroup   **groups;
} SxWaitingPiece;

/* In the batch's memory. */
typedef struct SxWaitingRows
{
	MemoryContext context;		/* reset when they were applied */
	int			npieces;
	int			allocated;
	SxWaitingPiece *pieces;
	int64		nrows;
} SxWaitingRows;

/* In CurrentMemoryContext. */
extern SxWaitingRows *sx_waiting_make(void);

/* Updates of one chunk, which must stay as it is until clear. */
extern void sx_waiting_add(SxWaitingRows *waiting, SxChunk *chunk, int n,
						   const SxUpdate *updates, SxGroup *const *groups);

/* Would more of them take too much memory? */
extern bool sx_waiting_full(const SxWaitingRows *waiting, MemoryContext arena);

extern void sx_waiting_clear(SxWaitingRows *waiting);

#endif
