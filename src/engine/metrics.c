/*
 * metrics.c
 *		What a batch tells of itself: its progress record, and the numbers in
 *		shared memory that views show.
 */
#include "postgres.h"

#include "executor/instrument.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

#include "engine/query_engine.h"

static void
fill_sources(SxEngine *engine, SxBatch *batch, SxProgress *progress)
{
	progress->nsources = engine->nsources;
	progress->sources = palloc0(sizeof(SxSourceProgress) * Max(engine->nsources, 1));
	for (int i = 0; i < engine->nsources; i++)
	{
		SxSourceProgress *it = &progress->sources[i];
		SxBatchSource *range = &batch->sources.sources[i];
		const SxSourceRoutine *routine = engine->sources[i]->routine;

		it->description = psprintf("stream[%s]", engine->sources[i]->name);
		it->end_offset = routine->offset_print(engine->next->offsets[i]);
		it->start_offset = range->end == NULL ? it->end_offset :
			routine->offset_print(range->start);
		it->rows = range->rows * engine->plan->sources[i].references;
		it->quarantined_rows = range->quarantined * engine->plan->sources[i].references;
		it->dropped_rows = range->dropped * engine->plan->sources[i].references;
		progress->dropped_rows += it->dropped_rows;
		if (routine->newest != NULL)
			it->newest_offset = routine->newest(engine->sources[i], engine->next->offsets[i]);
		if (routine->metrics != NULL)
			it->metrics = routine->metrics(engine->sources[i], engine->next->offsets[i]);

		/* As in Spark the statistics are those of the first watermark. */
		if (engine->plan->sources[i].watermark_input == 0 && range->event_rows > 0)
		{
			progress->event_min = range->event_min;
			progress->event_max = range->event_max;
			progress->event_sum = range->event_sum;
			progress->event_rows = range->event_rows;
		}
	}
}

/* What became of each row, and in all since the query began; the totals go with the position. */
static void
fill_books(SxEngine *engine, SxBatch *batch, SxProgress *progress)
{
	SxFlowTotals *totals = &engine->next->totals;

	progress->nnodes = sx_exec_books(engine->plan, &batch->sources, batch->operators,
									 batch->stages, &progress->nodes);
	for (int i = 0; i < engine->noperators; i++)
		totals->late += batch->operators[i].rows_late + batch->operators[i].rows_partly_late;
	totals->quarantined += batch->quarantined;
	totals->dropped += progress->dropped_rows;
	progress->totals = *totals;
}

/*
 * JSON of the batch that is about to be recorded; engine->next is already where
 * it ends.  Its own commit is not in the durations: it has not happened yet.
 */
char *
sx_metrics_progress(SxEngine *engine, SxBatch *batch)
{
	instr_time	now;
	SxProgress	progress = {
		.batch_id = batch->id,
		.trigger_start = batch->trigger_start,
		.batch_timestamp = batch->timestamp,
		.watermark = engine->next->watermark,
		.has_watermark = engine->plan->nwatermarks > 0,
		.event_min = SX_TIME_UNSET,
		.event_max = SX_TIME_UNSET,
		.input_rows = batch->input_rows,
		.quarantined_rows = batch->quarantined,
		.output_rows = batch->result.nrows,
		.wal_bytes = pgWalUsage.wal_bytes - batch->wal_before,
		.noperators = engine->noperators,
		.operators = batch->operators,
		.sink_description = engine->sink != NULL ? engine->sink->description : "muted",
		.us_latest_offset = batch->us_latest_offset,
		.us_add_batch = batch->us_add_batch,
		.us_state = batch->us_state,
	};

	for (int i = 0; i < engine->noperators; i++)
		batch->operators[i].commit_us = batch->us_state / engine->noperators;
	fill_sources(engine, batch, &progress);
	fill_books(engine, batch, &progress);
	sx_latency_fill(engine, &progress);
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, batch->started);
	progress.us_total = INSTR_TIME_GET_MICROSEC(now);
	return sx_progress_to_json(&progress, engine->query->name, engine->incarnation,
							   engine->run_id, engine->previous_trigger);
}

static int64
state_rows(SxEngine *engine)
{
	int64		rows = 0;

	for (int i = 0; engine->state != NULL && i < engine->noperators; i++)
		rows += sx_state_rows(engine->state, i);
	return rows;
}

/* Whom to wake; and the numbers of the last run, before the first batch of this one. */
void
sx_metrics_opened(SxEngine *engine)
{
	SxQuerySlot *slot = engine->slot;
	int64		rows = state_rows(engine);
	int64		bytes = engine->state != NULL ? sx_state_memory_used(engine->state) : 0;

	/* From now on writers wake us; what they wrote before is seen by the first look. */
	for (int i = 0; i < engine->nsources; i++)
		slot->streams[i] = engine->sources[i]->relid;
	slot->times_commits = engine->query->trigger == SX_TRIGGER_REALTIME;
	pg_write_barrier();
	slot->nstreams = engine->nsources;

	SpinLockAcquire(&slot->mutex);
	slot->batch_id = engine->at->batch_id;
	slot->watermark = engine->at->next_watermark;
	slot->state_rows = rows;
	slot->state_bytes = bytes;
	SpinLockRelease(&slot->mutex);
}

/* After the commit. */
void
sx_metrics_publish(SxEngine *engine, const SxBatch *batch)
{
	SxQuerySlot *slot = engine->slot;
	int64		late = 0;
	int64		rows = state_rows(engine);
	int64		bytes = engine->state != NULL ? sx_state_memory_used(engine->state) : 0;
	instr_time	now;
	int64		us;

	for (int i = 0; i < engine->noperators; i++)
		late += batch->operators[i].rows_late;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, batch->started);
	us = Max(INSTR_TIME_GET_MICROSEC(now), 1);

	SpinLockAcquire(&slot->mutex);
	slot->heartbeat = GetCurrentTimestamp();
	slot->batch_id = batch->id;
	slot->watermark = engine->at->next_watermark;
	if (batch->input_rows > 0)
	{
		/* A no-data batch says nothing about speed. */
		if (engine->previous_trigger != 0 && batch->trigger_start > engine->previous_trigger)
			slot->input_rows_per_second = (double) batch->input_rows * USECS_PER_SEC /
				(batch->trigger_start - engine->previous_trigger);
		slot->processed_rows_per_second = (double) batch->input_rows * USECS_PER_SEC / us;
		slot->batch_duration_us = us;
	}
	slot->state_rows = rows;
	slot->state_bytes = bytes;
	slot->wal_bytes += batch->wal_bytes;
	slot->input_rows += batch->input_rows;
	slot->output_rows += batch->result.nrows;
	slot->late_rows += late;
	SpinLockRelease(&slot->mutex);
	engine->previous_trigger = batch->trigger_start;
}
