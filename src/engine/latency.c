/*
 * latency.c
 *		How long rows were on their way, as trigger realtime shows it.
 *
 *	 commit of the row, or its arrival at the source
 *		|  sourceQueuingLatencyMs
 *	 its batch begins
 *		|  processingLatencyMs
 *	 its batch is committed, the result is visible
 *
 * The oldest row of a batch speaks for all of them.  A row is counted in a bucket
 * of its latency, sixteen to each doubling, so percentiles are right to about 4 %.
 * What is shown covers this minute and the one before it.
 */
#include "postgres.h"

#include "port/pg_bitutils.h"
#include "utils/timestamp.h"

#include "engine/query_engine.h"

#define BITS		4			/* of a number that tell buckets apart */
#define BUCKETS		(64 << BITS)

typedef enum Kind
{
	PROCESSING,
	QUEUING,
	END_TO_END,
	NKINDS
} Kind;

typedef struct Histogram
{
	int64		rows;
	int64		counts[BUCKETS];
} Histogram;

struct SxLatencies
{
	int64		minute;
	int			now;			/* which of the two takes what comes */
	Histogram	kinds[2][NKINDS];
};

static const double shares[SX_LATENCY_PERCENTILES] = {0, 0.5, 0.9, 0.95, 0.99};

static int
bucket_of(int64 us)
{
	int			shift;

	if (us < (1 << BITS))
		return Max(us, 0);
	shift = pg_leftmost_one_pos64(us) - BITS;
	return ((shift + 1) << BITS) + (int) ((us >> shift) & ((1 << BITS) - 1));
}

/* The middle of a bucket, in microseconds. */
static double
bucket_middle(int bucket)
{
	int			shift = (bucket >> BITS) - 1;
	int64		low;

	if (shift < 0)
		return bucket;
	low = (int64) ((1 << BITS) | (bucket & ((1 << BITS) - 1))) << shift;
	return low + (double) ((INT64CONST(1) << shift) - 1) / 2;
}

static void
note(SxLatencies *latencies, Kind kind, int64 us, int64 rows)
{
	Histogram  *histogram = &latencies->kinds[latencies->now][kind];

	histogram->counts[bucket_of(us)] += rows;
	histogram->rows += rows;
}

static void
turn_minute(SxLatencies *latencies, TimestampTz now)
{
	int64		minute = now / USECS_PER_MINUTE;

	if (minute == latencies->minute)
		return;
	if (minute != latencies->minute + 1)
		memset(latencies->kinds, 0, sizeof(latencies->kinds));
	latencies->minute = minute;
	latencies->now = 1 - latencies->now;
	memset(latencies->kinds[latencies->now], 0, sizeof(latencies->kinds[0]));
}

/* Looks begin: since when do rows wait that the next batch may have? */
void
sx_latency_look(SxEngine *engine)
{
	if (engine->latencies != NULL && engine->waiting_since == 0)
		engine->waiting_since = pg_atomic_exchange_u64(&engine->slot->waiting_since, 0);
}

/* A look found nothing. */
void
sx_latency_nothing(SxEngine *engine)
{
	engine->waiting_since = 0;
}

/* After the commit of a batch. */
void
sx_latency_note(SxEngine *engine, const SxBatch *batch)
{
	TimestampTz now;
	int64		queuing = 0;

	if (engine->latencies == NULL || batch->input_rows == 0)
		return;
	now = GetCurrentTimestamp();
	turn_minute(engine->latencies, now);
	if (engine->waiting_since != 0)
		queuing = Max(batch->trigger_start - engine->waiting_since, 0);
	note(engine->latencies, QUEUING, queuing, batch->input_rows);
	note(engine->latencies, PROCESSING, now - batch->trigger_start, batch->input_rows);
	note(engine->latencies, END_TO_END, now - batch->trigger_start + queuing, batch->input_rows);

	/* what the batch was cut before waits on */
	if (batch->input_rows < engine->max_rows)
		engine->waiting_since = 0;
}

static void
percentiles(const SxLatencies *latencies, Kind kind, double *ms)
{
	const Histogram *a = &latencies->kinds[0][kind];
	const Histogram *b = &latencies->kinds[1][kind];
	int64		total = a->rows + b->rows;
	int64		seen = 0;
	int			next = 0;

	for (int i = 0; i < BUCKETS && next < SX_LATENCY_PERCENTILES; i++)
	{
		seen += a->counts[i] + b->counts[i];
		while (next < SX_LATENCY_PERCENTILES && seen > 0 && seen >= shares[next] * total)
			ms[next++] = bucket_middle(i) / 1000;
	}
}

void
sx_latency_fill(SxEngine *engine, SxProgress *progress)
{
	const SxLatencies *latencies = engine->latencies;

	if (latencies == NULL || latencies->kinds[0][END_TO_END].rows + latencies->kinds[1][END_TO_END].rows == 0)
		return;
	progress->has_latencies = true;
	percentiles(latencies, PROCESSING, progress->processing_ms);
	percentiles(latencies, QUEUING, progress->queuing_ms);
	percentiles(latencies, END_TO_END, progress->end_to_end_ms);
}

void
sx_latency_open(SxEngine *engine)
{
	if (engine->query->trigger == SX_TRIGGER_REALTIME)
		engine->latencies = MemoryContextAllocZero(engine->context, sizeof(SxLatencies));
}
