/*
 * watermark.h
 *		Event-time progress of one query: a maximum per input, one watermark.
 *
 * Unit: TimestampTz (microseconds); maxima are cut to whole milliseconds, as in
 * Spark (semantics 3.1).  SX_TIME_UNSET means "no event time seen yet"
 * (deviation D5): nothing is late and nothing expires.  Pure functions.
 */
#ifndef SX_TIME_WATERMARK_H
#define SX_TIME_WATERMARK_H

#include "datatype/timestamp.h"

#define SX_TIME_UNSET	DT_NOBEGIN

typedef enum SxWatermarkPolicy
{
	SX_WATERMARK_MIN,			/* the slowest input rules; unset until all have one */
	SX_WATERMARK_MAX
} SxWatermarkPolicy;

typedef struct SxWatermarkInput
{
	int64		delay;			/* microseconds, >= 0 */
	TimestampTz max;			/* largest event time seen, ms floor; or SX_TIME_UNSET */
} SxWatermarkInput;

/* The new query watermark; never less than current. */
extern TimestampTz sx_watermark_advance(TimestampTz current, SxWatermarkPolicy policy,
										int ninputs, const SxWatermarkInput *inputs);

/* Takes one event time into an input's maximum; infinite and too-far-future times are ignored (D13). */
extern void sx_watermark_see(SxWatermarkInput *input, TimestampTz event_time, TimestampTz latest_allowed);

#endif
