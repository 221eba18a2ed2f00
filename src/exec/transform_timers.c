/*
 * transform_timers.c
 *		Timers of a handler: found by time when they fire, by key when it asks.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "exec/transform_state.h"
#include "time/watermark.h"

/* As this batch compares with it: the older forms fire strictly after it (semantics 10, 11). */
TimestampTz
sx_transform_due_by(const SxPlanTransform *plan, TimestampTz watermark, TimestampTz timestamp)
{
	TimestampTz clock = plan->time_mode == SX_TIME_MODE_EVENT ? watermark : timestamp;

	if (plan->time_mode == SX_TIME_MODE_NONE || clock == SX_TIME_UNSET)
		return SX_TIME_UNSET;
	return plan->groups ? clock - 1 : clock;
}

TimestampTz
sx_transform_due(const SxTransformState *ts)
{
	return sx_transform_due_by(ts->plan->transform, ts->watermark, ts->timestamp);
}

static SxStateKey
timer_key(SxTransformState *ts, TimestampTz at)
{
	return sx_transform_timer_key(ts->plan->id, &ts->owner, SX_TRANSFORM_TIMERS, at, &ts->buffer);
}

static SxStateKey
list_key(SxTransformState *ts)
{
	return sx_transform_timer_key(ts->plan->id, &ts->owner, SX_TRANSFORM_KEY_TIMERS, SX_STATE_NEVER,
								  &ts->buffer);
}

/* room: for so many more. */
static int
read_timers(SxTransformState *ts, TimestampTz **timers, int room)
{
	SxStateKey	key = list_key(ts);
	SxStateValue value = sx_transform_read(ts, &key);
	SxReader	in = {value.bytes, value.bytes + value.len};
	uint64		n;

	if (value.bytes == NULL)
	{
		*timers = palloc(Max(room, 1) * sizeof(TimestampTz));
		return 0;
	}
	if (*sx_read_bytes(&in, 1) != SX_TRANSFORM_VERSION)
		sx_reader_short();
	n = sx_read_varint(&in);
	if (n * sizeof(TimestampTz) != in.end - in.p)
		sx_reader_short();
	*timers = palloc((n + room) * sizeof(TimestampTz));
	memcpy(*timers, in.p, n * sizeof(TimestampTz));
	return n;
}

static void
write_timers(SxTransformState *ts, const TimestampTz *timers, int n)
{
	SxStateKey	key = list_key(ts);
	StringInfo	out = &ts->bytes;

	if (n == 0)
	{
		sx_transform_remove(ts, &key);
		return;
	}
	resetStringInfo(out);
	appendStringInfoCharMacro(out, SX_TRANSFORM_VERSION);
	sx_varint_append(out, n);
	appendBinaryStringInfo(out, (const char *) timers, n * sizeof(TimestampTz));
	sx_transform_write(ts, &key, out->data, out->len);
}

/* Where the time is, or would be. */
static int
place_of(const TimestampTz *timers, int n, TimestampTz at, bool *found)
{
	int			low = 0;
	int			high = n;

	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (timers[middle] < at)
			low = middle + 1;
		else
			high = middle;
	}
	*found = low < n && timers[low] == at;
	return low;
}

void
sx_transform_timer_set(SxTransformState *ts, TimestampTz at)
{
	TimestampTz *timers;
	int			n = read_timers(ts, &timers, 1);
	bool		found;
	int			place = place_of(timers, n, at, &found);
	char		bytes[1 + SX_VARINT_MAX];
	SxStateKey	key;

	if (!found)
	{
		memmove(timers + place + 1, timers + place, (n - place) * sizeof(TimestampTz));
		timers[place] = at;
		write_timers(ts, timers, n + 1);
		bytes[0] = SX_TRANSFORM_VERSION;
		key = timer_key(ts, at);
		sx_transform_write(ts, &key, bytes,
						   sx_varint_write(bytes + 1, ts->firing ? ts->batch_id + 1 : 0) - bytes);
		if (ts->firing && at <= sx_transform_due(ts))
			ts->due_again = true;
	}
	pfree(timers);
}

bool
sx_transform_timer_delete(SxTransformState *ts, TimestampTz at)
{
	TimestampTz *timers;
	int			n = read_timers(ts, &timers, 0);
	bool		found;
	int			place = place_of(timers, n, at, &found);
	SxStateKey	key;

	if (found)
	{
		memmove(timers + place, timers + place + 1, (n - place - 1) * sizeof(TimestampTz));
		write_timers(ts, timers, n - 1);
		key = timer_key(ts, at);
		sx_transform_remove(ts, &key);
	}
	pfree(timers);
	return found;
}

int
sx_transform_timers(SxTransformState *ts, TimestampTz **timers)
{
	return read_timers(ts, timers, 0);
}

void
sx_transform_timers_clear(SxTransformState *ts)
{
	TimestampTz *timers;
	int			n = read_timers(ts, &timers, 0);

	for (int i = 0; i < n; i++)
	{
		SxStateKey	key = timer_key(ts, timers[i]);

		sx_transform_remove(ts, &key);
	}
	if (n > 0)
		write_timers(ts, timers, 0);
	pfree(timers);
}

bool
sx_transform_timer_fires(SxTransformState *ts, TimestampTz at)
{
	SxStateKey	key = timer_key(ts, at);
	SxStateValue value = sx_transform_read(ts, &key);
	SxReader	in = {value.bytes, value.bytes + value.len};

	if (value.bytes == NULL)
		return false;
	if (*sx_read_bytes(&in, 1) != SX_TRANSFORM_VERSION)
		sx_reader_short();
	return sx_read_varint(&in) != ts->batch_id + 1;
}
