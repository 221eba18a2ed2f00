/*
 * waiting_rows.c
 *		A list of pieces, each the updates of (a part of) one chunk.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "exec/waiting_rows.h"

#define MAX_ROWS		(4 * SX_FETCH_GROUPS)	/* of few new groups */
#define MAX_ARENA		(4 * 1024 * 1024)	/* bytes of values by reference */

SxWaitingRows *
sx_waiting_make(void)
{
	SxWaitingRows *waiting = palloc0(sizeof(SxWaitingRows));

	waiting->context = AllocSetContextCreate(CurrentMemoryContext, "streamx waiting rows",
											 ALLOCSET_DEFAULT_SIZES);
	return waiting;
}

void
sx_waiting_add(SxWaitingRows *waiting, SxChunk *chunk, int n, const SxUpdate *updates,
			   SxGroup *const *groups)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(waiting->context);
	SxWaitingPiece *piece;

	if (waiting->npieces == waiting->allocated)
	{
		waiting->allocated = Max(64, 2 * waiting->allocated);
		waiting->pieces = waiting->pieces == NULL ?
			palloc(waiting->allocated * sizeof(SxWaitingPiece)) :
			repalloc(waiting->pieces, waiting->allocated * sizeof(SxWaitingPiece));
	}
	piece = &waiting->pieces[waiting->npieces++];
	piece->chunk = chunk;
	piece->n = n;
	piece->rows = palloc(n * sizeof(int));
	piece->groups = palloc(n * sizeof(SxGroup *));
	for (int i = 0; i < n; i++)
		piece->rows[i] = updates[i].row;
	memcpy(piece->groups, groups, n * sizeof(SxGroup *));
	waiting->nrows += n;
	MemoryContextSwitchTo(oldcontext);
}

bool
sx_waiting_full(const SxWaitingRows *waiting, MemoryContext arena)
{
	return waiting->nrows >= MAX_ROWS || MemoryContextMemAllocated(arena, false) > MAX_ARENA;
}

void
sx_waiting_clear(SxWaitingRows *waiting)
{
	MemoryContextReset(waiting->context);
	waiting->npieces = 0;
	waiting->allocated = 0;
	waiting->pieces = NULL;
	waiting->nrows = 0;
}
