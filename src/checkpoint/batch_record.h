/*
 * batch_record.h
 *		One row of streamx.batch per committed batch: offsets, watermarks,
 *		lineage, progress.
 *
 * Inserted in the batch's transaction, never updated (a row updated in place
 * slows down under any old snapshot); old ones are deleted in ranges.
 */
#ifndef SX_CHECKPOINT_BATCH_RECORD_H
#define SX_CHECKPOINT_BATCH_RECORD_H

#include "storage/block.h"
#include "time/watermark.h"
#include "utils/uuid.h"

typedef struct SxSourceOffset
{
	Oid			relid;
	char	   *end;			/* JSON text of the source's kind */
} SxSourceOffset;

/*
 * Where more is due at once than a batch should take, it is taken in batches of
 * its own that read nothing, some key groups in each: an operator of the plan, and
 * the group that the next of them begins with. Until the last one the watermark of
 * the records stays where it was, so that what the operator gives is late for none above it.
 */
typedef struct SxDue
{
	int			op;				/* its id; -1: nothing that is due waits */
	int			group;
	int64		rows;			/* about so many are due in each group */
} SxDue;

typedef struct SxBatchRecord
{
	int64		query_id;
	int64		batch_id;
	pg_uuid_t	incarnation;
	pg_uuid_t	lineage;		/* random, proves that a cache belongs to this history */
	TimestampTz batch_timestamp;
	TimestampTz watermark;		/* the one this batch evicted by; with due: the one before */
	TimestampTz next_watermark; /* the one batch N+1 will evict by */
	bool		owes_no_data;	/* a no-data batch is due, also after a restart (D12) */
	SxDue		due;			/* what is due by next_watermark and waits for the next batch */
	int64		last_intent;	/* newest batch up to this one with output for an outside sink, -1: none */
	int			nsources;
	SxSourceOffset *sources;
	SxWatermarkPolicy policy;	/* fixed by the first start */
	int			ninputs;		/* watermark inputs, in the plan's order (D6) */
	SxWatermarkInput *inputs;
	Oid		   *input_relids;	/* stream of each; InvalidOid for watermark() calls */
	char	   *progress;		/* JSON */
} SxBatchRecord;

/* In the batch's transaction. */
extern void sx_batch_record_append(const SxBatchRecord *record);

/* Newest record of the query, NULL if none; CurrentMemoryContext. */
extern SxBatchRecord *sx_batch_record_last(int64 query_id);

/* The same without sources and inputs, which a view does not need to understand. */
extern SxBatchRecord *sx_batch_record_last_head(int64 query_id);

/* Oldest and newest batch that the snapshot sees, beginnings (-1) left out; false: none. */
struct SnapshotData;
extern bool sx_batch_record_span(int64 query_id, struct SnapshotData *snapshot,
								 int64 *oldest, int64 *newest);

/* One record; NULL if it is not there (any more). */
extern SxBatchRecord *sx_batch_record_read(int64 query_id, int64 batch_id);

/* Is (incarnation, batch, lineage) part of this history? */
extern bool sx_batch_record_exists(int64 query_id, const pg_uuid_t *incarnation,
								   int64 batch_id, const pg_uuid_t *lineage);

/*
 * Pages from which records were deleted. Many small batches delete far more of
 * them than autovacuum, which comes once a minute, can keep pace with, so each
 * trim gives back the space that the one before it freed.
 */
#define SX_TRIMMED_PAGES	256

typedef struct SxTrimmedPages
{
	int			n;				/* 0 at first */
	BlockNumber pages[SX_TRIMMED_PAGES];
} SxTrimmedPages;

/* Deletes records older than the last `retain`, but that of the beginning (batch -1). */
extern void sx_batch_record_trim(int64 query_id, int64 last_batch, int retain,
								 SxTrimmedPages *trimmed);
extern void sx_batch_record_delete_all(int64 query_id);

#endif
