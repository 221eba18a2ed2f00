/*
 * kafka_scan.c
 *		Rows of a range, or of a whole topic.
 *
 * A range that was given out is in memory until it is forgotten, so it can be read
 * any number of times. A range without bounds (trigger once) and a plain SELECT
 * are streamed: chunks go as soon as they were read, and another pass fetches anew.
 *
 * Partition after partition, each by offset. Which columns are decoded is what the
 * scans of this stream ask for, all together; a chunk that was decoded for fewer
 * is decoded again here, from the bytes that stay with its rows.
 */
#include "postgres.h"

#include "access/stratnum.h"
#include "access/sysattr.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/errors.h"
#include "base/wake.h"
#include "source/kafka_ask.h"
#include "source/kafka_bounds.h"
#include "source/kafka_decode.h"
#include "source/kafka_quarantine.h"
#include "source/kafka_reader.h"

#define SILENCE_MS			10000	/* without a record: is the broker still there? */
#define PARTS_AT_ONCE		4		/* of a plain SELECT */

typedef struct Span
{
	SxKafkaPart *part;
	int64		first;			/* where it began */
	int64		begin;			/* what is before it was read, and let go */
	int64		end;
	bool		begun;			/* of a streamed scan: it is being fetched */
	uint64		eofs;			/* ends met when it was begun */
} Span;

typedef struct SxKafkaScan
{
	SxScan		base;
	SxKafkaSource *source;
	MemoryContext context;
	bool		streamed;
	bool		plain;			/* a SELECT; its spans are made when the clauses are known */
	List	   *clauses;		/* SxScanClause * */
	bool		prepared;
	Bitmapset  *columns;		/* to be decoded */
	SxFiller   *filler;
	int			nspans;
	Span	   *spans;

	/* where it is */
	int			at;
	SxKafkaChunk *chunk;
	SxRowBuffer *rows;			/* of the chunk, as this scan needs them */
	int64		next;			/* row, or record */
	int64		behind;			/* last one + 1 */
} SxKafkaScan;

/* ---- beginning ---- */

static SxKafkaScan *
make_scan(SxKafkaSource *source)
{
	SxKafkaScan *scan = palloc0(sizeof(SxKafkaScan));

	scan->base.source = &source->base;
	scan->base.last_needed = MaxAttrNumber;
	scan->source = source;
	scan->context = CurrentMemoryContext;
	return scan;
}

/* The part by binary search; an end names only partitions that are there. */
static SxKafkaPart *
find_part(SxKafkaSource *source, const SxKafkaPosition *position)
{
	for (int i = 0; i < source->nparts; i++)
		if (source->parts[i]->partition == position->partition &&
			strcmp(source->parts[i]->topic, position->topic) == 0)
			return source->parts[i];
	ereport(ERROR,
			(errcode(ERRCODE_SX_DATA_LOST),
			 errmsg("partition %d of topic \"%s\" is gone", position->partition, position->topic),
			 errdetail("A range of stream %s lies in it.", source->base.name)));
}

SxScan *
sx_kafka_scan_begin(SxSource *base, const SxOffset *start, const SxOffset *end)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	const SxKafkaOffset *from = (const SxKafkaOffset *) start;
	const SxKafkaPositions *to = &((const SxKafkaOffset *) end)->positions;
	SxKafkaScan *scan = make_scan(source);

	sx_kafka_connect(source);
	scan->spans = palloc0(sizeof(Span) * Max(to->n, 1));
	for (int i = 0; i < to->n; i++)
	{
		Span	   *span = &scan->spans[scan->nspans];
		int64		begin = sx_kafka_offset_at(from, to->at[i].topic, to->at[i].partition);

		span->begin = Max(begin, 0);
		span->end = to->at[i].offset;
		if (span->end <= span->begin)
			continue;
		span->first = span->begin;
		span->part = find_part(source, &to->at[i]);
		scan->streamed |= span->part->kept_from > span->begin;
		scan->nspans++;
	}
	for (int i = 0; i < scan->nspans; i++)
	{
		SxKafkaPartState state;

		sx_kafka_part_state(source->fetcher, scan->spans[i].part, &state);
		scan->streamed |= state.position < scan->spans[i].end && state.eof < state.position;
	}
	return &scan->base;
}

SxScan *
sx_kafka_scan_all(SxSource *base, Snapshot snapshot)
{
	SxKafkaScan *scan = make_scan((SxKafkaSource *) base);

	scan->plain = true;
	scan->streamed = true;
	return &scan->base;
}

void
sx_kafka_scan_restrict(SxScan *base, List *clauses)
{
	((SxKafkaScan *) base)->clauses = clauses;
}

/* ---- clauses of a plain SELECT ---- */

static bool
int_value(const SxScanClause *clause, Datum value, int64 *result)
{
	switch (clause->type)
	{
		case INT2OID:
			*result = DatumGetInt16(value);
			return true;
		case INT4OID:
			*result = DatumGetInt32(value);
			return true;
		case INT8OID:
			*result = DatumGetInt64(value);
			return true;
	}
	return false;
}

static bool
compares(int64 left, int strategy, int64 right)
{
	switch (strategy)
	{
		case BTLessStrategyNumber:
			return left < right;
		case BTLessEqualStrategyNumber:
			return left <= right;
		case BTEqualStrategyNumber:
			return left == right;
		case BTGreaterEqualStrategyNumber:
			return left >= right;
		case BTGreaterStrategyNumber:
			return left > right;
	}
	return true;
}

static bool
partition_passes(const SxScanClause *clause, int32 partition)
{
	int64		value;

	if (clause->is_array)
	{
		Datum	   *values;
		bool	   *nulls;
		int			n;
		bool		found = false;

		deconstruct_array(DatumGetArrayTypeP(clause->value), clause->type,
						  clause->type == INT8OID ? 8 : clause->type == INT4OID ? 4 : 2,
						  clause->type == INT8OID ? FLOAT8PASSBYVAL : true,
						  clause->type == INT8OID ? TYPALIGN_DOUBLE :
						  clause->type == INT4OID ? TYPALIGN_INT : TYPALIGN_SHORT,
						  &values, &nulls, &n);
		for (int i = 0; i < n && !found; i++)
			found = !nulls[i] && int_value(clause, values[i], &value) && value == partition;
		return found;
	}
	return !int_value(clause, clause->value, &value) ||
		compares(partition, clause->strategy, value);
}

static void
restrict_offsets(const SxScanClause *clause, SxKafkaRange *range)
{
	int64		value;

	if (clause->is_array || !int_value(clause, clause->value, &value))
		return;
	switch (clause->strategy)
	{
		case BTLessStrategyNumber:
			range->end = Min(range->end, value);
			break;
		case BTLessEqualStrategyNumber:
			range->end = value == PG_INT64_MAX ? range->end : Min(range->end, value + 1);
			break;
		case BTEqualStrategyNumber:
			range->begin = Max(range->begin, value);
			range->end = value == PG_INT64_MAX ? range->end : Min(range->end, value + 1);
			break;
		case BTGreaterEqualStrategyNumber:
			range->begin = Max(range->begin, value);
			break;
		case BTGreaterStrategyNumber:
			range->begin = value == PG_INT64_MAX ? range->end : Max(range->begin, value + 1);
			break;
	}
}

/*
 * Only from below: before the first record at or after a time all are earlier, but
 * behind it there may be earlier ones again.
 */
static void
restrict_times(SxKafkaScan *scan, const SxScanClause *clause, SxKafkaRange *ranges)
{
	TimestampTz time = DatumGetTimestampTz(clause->value);
	int64		ms;

	if (clause->strategy < BTEqualStrategyNumber || clause->is_array || TIMESTAMP_NOT_FINITE(time))
		return;
	ms = (time + (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY) / 1000;
	if (ms > 0)
		sx_kafka_begin_at_time(scan->source, ms, ranges);
}

static void
restrict_ranges(SxKafkaScan *scan, SxKafkaRange *ranges)
{
	SxKafkaSource *source = scan->source;
	ListCell   *lc;

	foreach(lc, scan->clauses)
	{
		SxScanClause *clause = lfirst(lc);
		SxKafkaColumn kind = source->columns.kinds[clause->attnum - 1];

		if (kind == SX_KAFKA_TIMESTAMP && clause->type == TIMESTAMPTZOID)
			restrict_times(scan, clause, ranges);
		for (int i = 0; i < source->nparts; i++)
		{
			if (kind == SX_KAFKA_OFFSET)
				restrict_offsets(clause, &ranges[i]);
			else if ((kind == SX_KAFKA_PARTITION &&
					  !partition_passes(clause, source->parts[i]->partition)) ||
					 (kind == SX_KAFKA_TOPIC && !clause->is_array && clause->type == TEXTOID &&
					  clause->strategy == BTEqualStrategyNumber &&
					  strcmp(TextDatumGetCString(clause->value), source->parts[i]->topic) != 0))
				ranges[i].end = ranges[i].begin;
		}
	}
}

bool
sx_kafka_can_restrict(Relation rel, AttrNumber attnum, int strategy, Oid type)
{
	SxKafkaColumns columns;

	sx_kafka_columns_make(rel, GetForeignTable(RelationGetRelid(rel))->options, &columns);
	switch (columns.kinds[attnum - 1])
	{
		case SX_KAFKA_PARTITION:
		case SX_KAFKA_OFFSET:
			return type == INT2OID || type == INT4OID || type == INT8OID;
		case SX_KAFKA_TIMESTAMP:
			return type == TIMESTAMPTZOID && strategy >= BTEqualStrategyNumber;
		case SX_KAFKA_TOPIC:
			return type == TEXTOID && strategy == BTEqualStrategyNumber;
		default:
			return false;
	}
}

static void
make_spans(SxKafkaScan *scan)
{
	SxKafkaSource *source = scan->source;
	SxKafkaRange *ranges;

	ranges = sx_kafka_batch_ranges(source);
	restrict_ranges(scan, ranges);
	scan->spans = MemoryContextAllocZero(scan->context, sizeof(Span) * Max(source->nparts, 1));
	for (int i = 0; i < source->nparts; i++)
	{
		Span	   *span = &scan->spans[scan->nspans];

		if (ranges[i].end <= ranges[i].begin)
			continue;
		span->part = source->parts[i];
		span->first = span->begin = ranges[i].begin;
		span->end = ranges[i].end;
		scan->nspans++;
	}
	pfree(ranges);
}

/* ---- getting at the next chunk ---- */

static void
begin_span(SxKafkaScan *scan, Span *span)
{
	SxKafkaPartState state;

	if (span->begun)
		return;
	span->begun = true;
	sx_kafka_part_state(scan->source->fetcher, span->part, &state);
	span->eofs = state.eofs;
	if (!scan->streamed)
		return;
	if (!span->part->wanted || span->part->kept_from > span->begin || state.position < span->begin ||
		state.error != RD_KAFKA_RESP_ERR_NO_ERROR)
	{
		sx_kafka_part_start(scan->source->fetcher, span->part, span->begin);
		span->part->kept_from = span->begin;
	}
	sx_kafka_part_set_target(scan->source->fetcher, span->part, span->begin);
}

/* The current partition goes up to its end, those after it a little way. */
static void
begin_spans(SxKafkaScan *scan)
{
	for (int i = scan->at; i < scan->nspans && i < scan->at + PARTS_AT_ONCE; i++)
		begin_span(scan, &scan->spans[i]);
	if (scan->streamed)
		sx_kafka_fetcher_poke(scan->source->fetcher);
}

static void
end_span(SxKafkaScan *scan)
{
	Span	   *span = &scan->spans[scan->at];

	if (scan->plain)
		sx_kafka_part_stop(scan->source->fetcher, span->part);
	scan->chunk = NULL;
	scan->at++;
}

/* Until the thread has something new; interrupts are answered. */
static void
wait_for_records(SxKafkaScan *scan, TimestampTz since)
{
	SxKafkaSource *source = scan->source;

	if (sx_kafka_fetcher_news(source->fetcher))
		return;
	(void) sx_wake_wait(1000, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
	sx_kafka_client_poll(source->client);
	if (GetCurrentTimestamp() - since > SILENCE_MS * INT64CONST(1000))
		sx_kafka_ask_ends_of(source, NULL); /* raises if nobody answers */
}

static bool
span_is_over(SxKafkaScan *scan, Span *span)
{
	SxKafkaPartState state;

	sx_kafka_part_state(scan->source->fetcher, span->part, &state);
	if (state.error != RD_KAFKA_RESP_ERR_NO_ERROR && state.position < span->end)
		sx_kafka_raise_part(scan->source, span->part, &state);
	return state.position >= span->end ||
		(state.eof == state.position && state.eofs != span->eofs);
}

/* In streamed scans what was read goes; the slot still pointed to it until now. */
static void
leave_chunk(SxKafkaScan *scan)
{
	Span	   *span = &scan->spans[scan->at];
	int64		behind;

	if (scan->chunk == NULL || !scan->streamed)
		return;
	behind = Min(scan->chunk->behind, span->end);
	span->part->kept_from = behind;
	sx_kafka_part_set_target(scan->source->fetcher, span->part, behind);
	sx_kafka_part_release(scan->source->fetcher, span->part, behind);
	sx_kafka_fetcher_poke(scan->source->fetcher);
	span->begin = Max(span->begin, behind);
	scan->chunk = NULL;
}

static int64
first_record_at(const SxKafkaChunk *chunk, int64 offset)
{
	int			low = 0;
	int			high = chunk->nrecords;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (chunk->records[middle].offset < offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void
enter_chunk(SxKafkaScan *scan, SxKafkaChunk *chunk)
{
	Span	   *span = &scan->spans[scan->at];

	scan->chunk = chunk;
	scan->next = first_record_at(chunk, span->begin);
	scan->behind = first_record_at(chunk, span->end);
	if (!scan->source->columns.decodes)
		return;
	scan->rows = sx_kafka_decoded_rows(scan->source, chunk, scan->columns);
	scan->next = scan->next < chunk->nrecords ? chunk->records[scan->next].row : scan->rows->nrows;
	scan->behind = scan->behind < chunk->nrecords ? chunk->records[scan->behind].row :
		scan->rows->nrows;
}

/* The next chunk of the range; false: no more. */
static bool
next_chunk(SxKafkaScan *scan)
{
	while (scan->at < scan->nspans)
	{
		Span	   *span = &scan->spans[scan->at];
		TimestampTz since = GetCurrentTimestamp();
		SxKafkaChunk *chunk = NULL;

		CHECK_FOR_INTERRUPTS();
		leave_chunk(scan);
		if (span->begin >= span->end)
		{
			end_span(scan);
			continue;
		}
		begin_spans(scan);
		for (;;)
		{
			SxKafkaChunk *last = scan->streamed ? NULL : scan->chunk;

			sx_kafka_fetcher_listen(scan->source->fetcher);
			chunk = sx_kafka_part_chunk(scan->source->fetcher, span->part, last,
										last != NULL ? last->behind : span->begin);
			if (chunk != NULL || span_is_over(scan, span))
				break;
			wait_for_records(scan, since);
		}
		/* It may have come between the two looks. */
		if (chunk == NULL)
			chunk = sx_kafka_part_chunk(scan->source->fetcher, span->part,
										scan->streamed ? NULL : scan->chunk,
										!scan->streamed && scan->chunk != NULL ?
										scan->chunk->behind : span->begin);
		if (chunk != NULL && chunk->first < span->end)
		{
			enter_chunk(scan, chunk);
			return true;
		}
		end_span(scan);
	}
	return false;
}

/* ---- rows ---- */

/* What one scan lets go the other cannot read. */
static void
claim_stream(SxKafkaScan *scan)
{
	SxKafkaScan *other = scan->source->streaming;

	if (other != NULL && other != scan && other->at < other->nspans)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the query reads stream %s twice at once, and a batch of it does not fit into memory",
						scan->source->base.name),
				 errdetail("With trigger \"once\" all that waits is one batch."),
				 errhint("Use trigger \"available_now\", or raise option \"prefetch\" of the stream.")));
	scan->source->streaming = scan;
}

static void
prepare(SxKafkaScan *scan)
{
	SxKafkaSource *source = scan->source;
	MemoryContext oldcontext = MemoryContextSwitchTo(scan->context);

	if (scan->plain)
		make_spans(scan);
	else if (scan->streamed)
		claim_stream(scan);
	if (source->columns.decodes)
	{
		scan->columns = sx_kafka_columns_needed(source, &scan->base);
		sx_kafka_need_columns(source, scan->columns);
		scan->filler = sx_kafka_make_filler(source);
	}
	scan->prepared = true;
	MemoryContextSwitchTo(oldcontext);
}

bool
sx_kafka_scan_next(SxScan *base, TupleTableSlot *slot)
{
	SxKafkaScan *scan = (SxKafkaScan *) base;
	SxKafkaSource *source = scan->source;

	ExecClearTuple(slot);
	if (!scan->prepared)
		prepare(scan);
	for (;;)
	{
		if (scan->chunk == NULL || scan->next >= scan->behind)
		{
			if (!next_chunk(scan))
				return false;
			continue;
		}
		if (sx_kafka_fill_slot(source, scan->filler, scan->spans[scan->at].part, scan->chunk,
							   scan->rows, scan->next++, base->last_needed, slot))
			return true;
		/* else it goes into the quarantine, or is left out */
		base->dropped += source->columns.format->mode == SX_MODE_DROPMALFORMED;
	}
}

/* Of the row that was given last. */
bool
sx_kafka_scan_record(SxScan *base, SxMalformed *record)
{
	SxKafkaScan *scan = (SxKafkaScan *) base;
	SxKafkaSource *source = scan->source;
	int64		n = scan->next - 1;
	const SxKafkaRecord *it;

	if (scan->chunk == NULL)
		return false;
	if (scan->rows != NULL)
	{
		const SxRow *row = sx_row_buffer_row(scan->rows, n);

		it = &scan->chunk->records[row->tag];
		record->raw = row->raw;
		record->len = row->raw_len;
	}
	else
	{
		it = &scan->chunk->records[n];
		record->raw = it->value != NULL ? VARDATA(it->value) : NULL;
		record->len = it->value != NULL ? VARSIZE(it->value) - VARHDRSZ : 0;
	}
	record->where = sx_kafka_record_position(source, scan->spans[scan->at].part, it);
	return true;
}

void
sx_kafka_scan_rescan(SxScan *base)
{
	SxKafkaScan *scan = (SxKafkaScan *) base;

	if (!scan->prepared)
		return;
	if (scan->streamed)
	{
		/* What was let go is fetched again; the ends stay. */
		for (int i = 0; i < scan->nspans; i++)
			if (scan->spans[i].begun)
				sx_kafka_part_stop(scan->source->fetcher, scan->spans[i].part);
		if (scan->plain)
			for (int i = 0; i < scan->nspans; i++)
				scan->spans[i].part->kept_from = PG_INT64_MAX;
	}
	for (int i = 0; i < scan->nspans; i++)
	{
		scan->spans[i].begun = false;
		scan->spans[i].begin = scan->spans[i].first;
	}
	scan->chunk = NULL;
	scan->at = 0;
}

void
sx_kafka_scan_end(SxScan *base)
{
	SxKafkaScan *scan = (SxKafkaScan *) base;

	if (scan->source->streaming == scan)
		scan->source->streaming = NULL;
	if (scan->filler != NULL)
		sx_filler_free(scan->filler);
	if (scan->plain)
		sx_kafka_disconnect(scan->source);
	pfree(scan);
}
