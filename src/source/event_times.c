/*
 * event_times.c
 *		Counts the rows of a range and their event times, once for each batch.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "source/event_times.h"

void
sx_event_times_begin(SxEventTimes *times, const SxBatchSource *batch)
{
	memset(times, 0, sizeof(*times));
	times->attnum = batch->event_attnum;
	times->latest_allowed = batch->latest_allowed;
	times->seen = batch->seen;
	times->raised_at = SX_TIME_UNSET;
	times->min = times->max = SX_TIME_UNSET;
}

void
sx_event_times_see(SxEventTimes *times, TupleTableSlot *slot)
{
	TimestampTz time;

	times->rows++;
	if (times->attnum == 0 || slot->tts_isnull[times->attnum - 1])
		return;
	time = DatumGetTimestampTz(slot->tts_values[times->attnum - 1]);
	if (TIMESTAMP_NOT_FINITE(time))
		return;
	if (time > times->raised_at && time <= times->latest_allowed)
	{
		sx_watermark_see(&times->seen, time, times->latest_allowed);
		times->raised_at = time;
	}
	if (times->finite == 0 || time < times->min)
		times->min = time;
	if (times->finite == 0 || time > times->max)
		times->max = time;
	times->sum += (double) time;
	times->finite++;
}

void
sx_event_times_finish(const SxEventTimes *times, SxBatchSource *batch)
{
	if (batch->counted)
		return;
	batch->rows = times->rows;
	batch->seen = times->seen;
	batch->event_min = times->min;
	batch->event_max = times->max;
	batch->event_sum = times->sum;
	batch->event_rows = times->finite;
	batch->counted = true;
}
