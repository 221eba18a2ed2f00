/*
 * stream_storage.h
 *		Where the rows of an INSERT-able stream lie: the rows of streamx.stream,
 *		and the locks of writers and scans.
 */
#ifndef SX_SOURCE_STREAM_STORAGE_H
#define SX_SOURCE_STREAM_STORAGE_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "storage/block.h"
#include "storage/itemptr.h"
#include "utils/relcache.h"

#define SX_STREAM_HEAPS		3
#define SX_STREAM_SCHEMA	"streamx_data"

/* Column 1 of a hidden table is sx_xid (SX_STAMP); column n of the stream is column n + 1, named c<n>. */
#define SX_HEAP_ATTNUM(attnum)	((attnum) + 1)

typedef struct SxStreamHeap
{
	int			slot;
	Oid			heap;
	int64		generation;		/* 0: free, holds no row */
	TimestampTz started_at;		/* DT_NOBEGIN: not yet */
	TimestampTz retired_at;		/* DT_NOEND: not yet */
	uint64		sealed;			/* 0: not yet. Younger than every row; nobody can write any more */
	uint64		last_xid;		/* youngest committed transaction in it, once sealed; 0: no row */
	ItemPointerData tid;		/* of the row of streamx.stream */
} SxStreamHeap;

typedef struct SxStreamStorage
{
	Oid			stream;
	SxStreamHeap heaps[SX_STREAM_HEAPS];	/* by slot */
	int			current;		/* the one being written */
} SxStreamStorage;

/* Reads the catalog anew, never a cache; false when the stream has no storage. */
extern bool sx_stream_storage_read(Oid stream, SxStreamStorage *storage);

/* As above from this backend's cache, for writers; an error when there is none. */
extern void sx_stream_storage_cached(Oid stream, SxStreamStorage *storage);

/* Heaps that hold rows, oldest generation first; returns how many. */
extern int	sx_stream_storage_order(const SxStreamStorage *storage, int order[SX_STREAM_HEAPS]);

/* All streams with storage, as OIDs, the dropped ones too. */
extern List *sx_stream_storage_list(void);

extern void sx_stream_storage_insert(Oid stream, const SxStreamHeap *heap);
extern void sx_stream_storage_update(Oid stream, SxStreamHeap *heap);	/* visible at once */
extern void sx_stream_storage_delete(Oid stream);

/* What retention took from a reader that had not read it. */
typedef struct SxStreamLoss
{
	int64		generation;
	uint64		xid;
	TimestampTz at;
	ItemPointerData tid;
} SxStreamLoss;

extern List *sx_stream_losses(Oid stream);	/* of SxStreamLoss * */
extern void sx_stream_loss_insert(Oid stream, const SxStreamLoss *loss);
extern void sx_stream_loss_delete(const SxStreamLoss *loss);
extern void sx_stream_losses_delete(Oid stream);

/* Around heap_multi_insert; see table_stream.c. */
extern void sx_stream_write_lock(Oid stream);
extern void sx_stream_write_unlock(Oid stream);

/* Number of blocks at a moment when nobody writes. */
extern void sx_stream_blocks(Oid stream, int n, Relation *heaps, BlockNumber *blocks);

#endif
