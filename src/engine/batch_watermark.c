/*
 * batch_watermark.c
 *		The watermark of a batch, from the inputs' maxima.
 *
 *	 batch N-1 evicted by w(N-1)	batch N: rows at or before w(N-1) are late
 *	 after it: w(N)					batch N: evicts by w(N)
 *
 * Idle inputs: with idle_timeout on, an input without rows for so long does not
 * hold the minimum back.  It counts again with its first row, but the watermark
 * never goes back, so its older rows are late then.
 */
#include "postgres.h"

#include "utils/timestamp.h"

#include "engine/query_engine.h"

static bool
input_idle(SxEngine *engine, int input, TimestampTz now)
{
	int64		timeout = engine->query->options.idle_timeout;

	return timeout > 0 && now >= engine->last_moved[input] + timeout;
}

/* w(N+1) by the maxima in position; never less than its next_watermark. */
TimestampTz
sx_batch_watermark_next(SxEngine *engine, const SxPosition *position, TimestampTz now)
{
	int			ninputs = engine->plan->nwatermarks;
	SxWatermarkInput *awake;
	int			nawake = 0;

	if (ninputs == 0)
		return SX_TIME_UNSET;
	awake = palloc(sizeof(SxWatermarkInput) * ninputs);
	for (int i = 0; i < ninputs; i++)
		if (engine->policy == SX_WATERMARK_MAX || !input_idle(engine, i, now))
			awake[nawake++] = position->inputs[i];
	/* If all sleep, none of them is the slow one. */
	if (nawake == 0)
		return position->next_watermark;
	return sx_watermark_advance(position->next_watermark, engine->policy, nawake, awake);
}

/*
 * The watermark that the batch after position evicts by.  Maxima give nothing new
 * between two batches (a changed delay must not move it at a restart); an input
 * that fell asleep does.
 */
static TimestampTz
evicts_by(SxEngine *engine, const SxPosition *position, TimestampTz now)
{
	if (engine->query->options.idle_timeout <= 0 || engine->plan->nwatermarks < 2)
		return position->next_watermark;
	return sx_batch_watermark_next(engine, position, now);
}

/* Takes what fell asleep into account; at the start of a batch. */
void
sx_batch_watermark_begin(SxEngine *engine, SxPosition *position, TimestampTz now)
{
	if (position->due.op < 0)
		position->next_watermark = evicts_by(engine, position, now);
}

/* Is a no-data batch due after position?  Operators must see that it moved; timers that time passed. */
bool
sx_batch_watermark_owes(SxEngine *engine, const SxPosition *position, TimestampTz now)
{
	if (position->due.op >= 0)
		return true;
	if (!engine->query->options.no_data_batches || position->batch_id < 0)
		return false;
	return (engine->plan->wants_no_data && evicts_by(engine, position, now) > position->watermark) ||
		sx_exec_next_time(engine->exec) <= now;
}

/* D13: event times after it don't count for the watermark. */
TimestampTz
sx_batch_watermark_latest_allowed(SxEngine *engine, TimestampTz now)
{
	int64		skew = engine->query->options.max_future_skew;

	if (skew < 0 || now > DT_NOEND - 1 - skew)
		return DT_NOEND;
	return now + skew;
}

/* When the next input falls asleep; DT_NOEND: none will. */
TimestampTz
sx_batch_watermark_idle_time(SxEngine *engine)
{
	int64		timeout = engine->query->options.idle_timeout;
	TimestampTz now = GetCurrentTimestamp();
	TimestampTz next = DT_NOEND;

	if (timeout <= 0 || engine->plan->nwatermarks < 2)
		return DT_NOEND;
	for (int i = 0; i < engine->plan->nwatermarks; i++)
		if (!input_idle(engine, i, now))
			next = Min(next, engine->last_moved[i] + timeout);
	return next;
}
