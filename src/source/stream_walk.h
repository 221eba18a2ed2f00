/*
 * stream_walk.h
 *		Finds the end of the next range of an INSERT-able stream.
 */
#ifndef SX_SOURCE_STREAM_WALK_H
#define SX_SOURCE_STREAM_WALK_H

#include "source/stream_offset.h"
#include "source/stream_page.h"

/* Blocks from ... behind - 1 of a heap. */
typedef struct SxBlockRun
{
	BlockNumber from;
	BlockNumber behind;
	uint64		xid;			/* of pending rows; 0: of several transactions */
} SxBlockRun;

typedef struct SxBlockRuns
{
	int			n;
	int			size;
	SxBlockRun *runs;			/* ascending */
} SxBlockRuns;

/* Appends a block; joins it to the last run if that ends there. */
extern void sx_block_runs_add(SxBlockRuns *list, BlockNumber from, BlockNumber behind, uint64 xid);

/*
 * What a walk left to be known in memory about the blocks before `walked`: all
 * rows there that an offset has not read lie in the runs.
 */
typedef struct SxStreamPending
{
	MemoryContext context;		/* of all of it */
	SxStreamOffset *offset;		/* the one it is about */
	int			n;
	int64		generations[SX_STREAM_HEAPS];
	Oid			files[SX_STREAM_HEAPS];
	BlockNumber walked[SX_STREAM_HEAPS];
	SxBlockRuns runs[SX_STREAM_HEAPS];
} SxStreamPending;

/* The blocks with rows of a range, carried by its end; not kept on disk. */
typedef struct SxStreamHits
{
	SxStreamOffset *start;		/* of the range */
	int			n;
	int64		generations[SX_STREAM_HEAPS];
	Oid			files[SX_STREAM_HEAPS];
	SxBlockRuns runs[SX_STREAM_HEAPS];
} SxStreamHits;

/* The stream's heaps that hold rows, opened with AccessShareLock, oldest first. */
typedef struct SxStreamHeaps
{
	SxStreamStorage storage;
	int			n;
	Relation	rels[SX_STREAM_HEAPS];
	int64		generations[SX_STREAM_HEAPS];
	Oid			files[SX_STREAM_HEAPS];	/* relfilenode */
} SxStreamHeaps;

/* The bound that an offset means over these heaps. */
extern void sx_stream_bound(const SxStreamOffset *offset, SxStreamHeaps *heaps,
							Snapshot snapshot, SxStreamBound *bound);

typedef struct SxStreamWalk
{
	SxStreamHeaps *heaps;
	BlockNumber nblocks[SX_STREAM_HEAPS];	/* when nobody wrote (sx_stream_blocks) */
	Snapshot	snapshot;
	int64		max_rows;
	uint16		own_part;		/* the own transaction's parts before it too; 0: not */

	/* out */
	int64		rows;
	SxStreamOffset *end;		/* read up to target, or cut */
	SxStreamPending *pending;	/* about end, or about start when there was no row */
} SxStreamWalk;

/*
 * Counts the rows after start whose transactions had ended in target, and ends at
 * the page that passes max_rows. known: about start, from an
 * earlier walk, or NULL.
 */
extern void sx_stream_walk(SxStreamWalk *walk, const SxStreamOffset *start,
						   SxXidSnapshot *target, const SxStreamPending *known);

#endif
