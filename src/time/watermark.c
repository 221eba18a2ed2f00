/*
 * watermark.c
 *		A maximum per input, one watermark for the query (semantics 3.1).
 */
#include "postgres.h"

#include "time/watermark.h"
#include "time/window.h"

TimestampTz
sx_watermark_advance(TimestampTz current, SxWatermarkPolicy policy,
					 int ninputs, const SxWatermarkInput *inputs)
{
	TimestampTz result = SX_TIME_UNSET;

	for (int i = 0; i < ninputs; i++)
	{
		TimestampTz mark;

		/* a mark before the first instant that there is would be none, and can't be shown */
		if (inputs[i].max == SX_TIME_UNSET || inputs[i].max < MIN_TIMESTAMP + inputs[i].delay)
		{
			if (policy == SX_WATERMARK_MIN)
				return current; /* unset until every input has shown a time */
			continue;
		}
		mark = inputs[i].max - inputs[i].delay;
		if (result == SX_TIME_UNSET ||
			(policy == SX_WATERMARK_MIN ? mark < result : mark > result))
			result = mark;
	}
	return Max(result, current);
}

void
sx_watermark_see(SxWatermarkInput *input, TimestampTz event_time, TimestampTz latest_allowed)
{
	if (TIMESTAMP_NOT_FINITE(event_time) || event_time > latest_allowed)
		return;
	event_time = sx_floor_to(event_time, 1000);
	if (event_time > input->max)
		input->max = event_time;	/* SX_TIME_UNSET is less than all */
}
