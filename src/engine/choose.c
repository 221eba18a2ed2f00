/*
 * choose.c
 *		The ranges of a batch: for each source, how far it is read.
 *
 * Start offsets are those of the last batch, in memory. All INSERT-able streams
 * of a batch are looked at with one snapshot, so a transaction that wrote two of
 * them is in one batch. Ends are not persisted: a failed batch may run again
 * over other ranges, because nobody saw it (D16).
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "engine/query_engine.h"
#include "source/stream_writer.h"

/* How many rows the failed batch had, as far as its ranges were read to their ends. */
static int64
rows_of_batch(const SxBatch *batch)
{
	int64		rows = 0;

	for (int i = 0; batch != NULL && i < batch->sources.n; i++)
		if (batch->sources.sources[i].counted)
			rows += batch->sources.sources[i].rows;
	return rows;
}

static void
set_max_rows(SxEngine *engine, int max_rows)
{
	engine->max_rows = max_rows;
	engine->slot->max_rows = max_rows < engine->query->options.batch_rows ? max_rows : 0;
}

/*
 * After out of memory: nobody saw the failed batch, so the next attempt may be
 * half of it.  The slot remembers it for the next process.
 */
void
sx_choose_less(SxEngine *engine)
{
	int64		rows = rows_of_batch(engine->batch);
	int64		base = rows > 0 ? Min(rows, engine->max_rows) : engine->max_rows;

	set_max_rows(engine, Max(base / 2, 1));
}

/* A batch went well: slowly back to what the query says, or every second one would fail. */
void
sx_choose_more(SxEngine *engine)
{
	set_max_rows(engine, Min((int64) engine->max_rows + engine->max_rows / 16 + 1,
							 engine->query->options.batch_rows));
}

static SxOffset *
next_end(SxEngine *engine, int i, const SxOffset *start, const SxChoose *choose)
{
	SxSource   *source = engine->sources[i];

	return source->routine->next_end(source, start, choose);
}

/* Is there a row behind this end? */
static bool
is_more(SxEngine *engine, int i, const SxOffset *end, const SxChoose *choose)
{
	SxChoose	probe = *choose;

	probe.max_rows = 1;
	probe.probe = true;
	return next_end(engine, i, end, &probe) != NULL;
}

/*
 * How many rows each source may give.  The bound of the batch is split in
 * proportion to what is available, so that sources advance together and catching
 * up makes no row of the slower one late.
 */
static void
split_limit(SxEngine *engine, const SxChoose *all, int64 *limits)
{
	/* A session has all that is there: its own rows cannot be cut (stream_walk.c). */
	int64		limit = engine->query->trigger == SX_TRIGGER_ONCE || engine->in_session ?
		PG_INT64_MAX : engine->max_rows;
	double	   *available = palloc0(sizeof(double) * engine->nsources);
	double		total = 0;

	for (int i = 0; i < engine->nsources; i++)
		limits[i] = limit;
	if (engine->nsources < 2 || limit == PG_INT64_MAX)
		return;
	for (int i = 0; i < engine->nsources; i++)
	{
		const SxSourceRoutine *routine = engine->sources[i]->routine;

		if (routine->available == NULL)
			available[i] = limit;
		else
			available[i] = routine->available(engine->sources[i], engine->at->offsets[i], all);
		total += available[i];
	}
	for (int i = 0; total > limit && i < engine->nsources; i++)
		limits[i] = Max((int64) (limit * (available[i] / total)), 1);
}

/*
 * Fills batch->sources; false when no source has a row.  Under an active
 * snapshot, which is the one shared by the sources.
 */
bool
sx_choose_ranges(SxEngine *engine, SxBatch *batch)
{
	SxChoose	choose = {
		.snapshot = GetActiveSnapshot(),
		.now = batch->timestamp,
		.max_rows = PG_INT64_MAX,
		.fresh = batch->fresh,
		.own_part = engine->in_session ? sx_stream_part_begin() : 0,
		.query_id = engine->query->id,
	};
	int64	   *limits = palloc(sizeof(int64) * engine->nsources);
	bool		any = false;

	split_limit(engine, &choose, limits);
	engine->more_waits = false;
	engine->loading = false;
	for (int i = 0; i < engine->nsources; i++)
	{
		SxBatchSource *range = &batch->sources.sources[i];
		SxOffset   *start = engine->at->offsets[i];

		choose.max_rows = limits[i];
		choose.stop_at = engine->stop_at != NULL ? engine->stop_at[i] : NULL;
		range->end = next_end(engine, i, start, &choose);
		if (range->end == NULL)
		{
			engine->loading |= engine->sources[i]->loading;
			continue;
		}
		range->start = start;
		range->counted = false;
		any = true;

		/* Only a ticking trigger needs to know whether to go on at once. */
		if (engine->query->trigger == SX_TRIGGER_INTERVAL && !engine->in_session &&
			is_more(engine, i, range->end, &choose))
			engine->more_waits = true;
	}

	/* Sources advance together: none goes on without one whose rows are on their way. */
	if (engine->loading)
	{
		engine->more_waits = true;
		return false;
	}
	return any;
}

/* Is there a row behind the batch that has just run?  With a snapshot of now. */
bool
sx_choose_data_waits(SxEngine *engine, TimestampTz now)
{
	SxChoose	choose = {
		.snapshot = GetActiveSnapshot(),
		.now = now,
	};

	for (int i = 0; i < engine->nsources; i++)
	{
		choose.stop_at = engine->stop_at != NULL ? engine->stop_at[i] : NULL;
		if (is_more(engine, i, engine->next->offsets[i], &choose))
			return true;
	}
	return false;
}

/* available_now: what is there at the first step is what this run reads. */
void
sx_choose_freeze(SxEngine *engine)
{
	SxOffset  **stop_at;
	SxChoose	choose = {.max_rows = PG_INT64_MAX};

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	choose.snapshot = GetActiveSnapshot();
	choose.now = GetCurrentTransactionStartTimestamp();
	MemoryContextSwitchTo(engine->context);
	stop_at = palloc0(sizeof(SxOffset *) * Max(engine->nsources, 1));
	for (int i = 0; i < engine->nsources; i++)
		stop_at[i] = engine->sources[i]->routine->latest(engine->sources[i],
														 engine->at->offsets[i], &choose);
	engine->stop_at = stop_at;
	PopActiveSnapshot();
	CommitTransactionCommand();
}
