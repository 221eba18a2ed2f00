/*
 * window.c
 *		Tumbling and sliding windows as arithmetic on microseconds.
 *
 *	 last = ts - ((ts - offset) mod slide, made non-negative)
 *	 windows: [last - i * slide, last - i * slide + size)  while they hold ts
 *
 * TimestampTz counts from 2000-01-01, windows are aligned to 1970-01-01, so
 * the epoch's distance takes part in the modulus.
 */
#include "postgres.h"

#include "common/int.h"
#include "utils/timestamp.h"

#include "time/window.h"

/* Microseconds from 2000-01-01 back to 1970-01-01. */
#define EPOCH_SHIFT		((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY)

int64
sx_floor_to(int64 value, int64 unit)
{
	int64		rest = value % unit;

	return value - (rest < 0 ? rest + unit : rest);
}

static int64
interval_microseconds(const Interval *interval, const char *what)
{
	int64		microseconds;

	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window %s must not contain months or years", what),
				 errdetail("Months differ in length; windows count fixed spans of time."),
				 errhint("Use days, hours or smaller units.")));
	if (pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &microseconds) ||
		pg_add_s64_overflow(microseconds, interval->time, &microseconds))
		ereport(ERROR,
				(errcode(ERRCODE_INTERVAL_FIELD_OVERFLOW),
				 errmsg("window %s out of range", what)));
	return microseconds;
}

void
sx_window_make(SxWindow *window, const Interval *size, const Interval *slide,
			   const Interval *offset)
{
	window->size = interval_microseconds(size, "size");
	window->slide = slide ? interval_microseconds(slide, "slide") : window->size;
	window->offset = offset ? interval_microseconds(offset, "offset") : 0;

	if (window->size <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window size must be greater than zero")));
	if (window->slide <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window slide must be greater than zero")));
	if (window->slide > window->size)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window slide must not be greater than the window size"),
				 errdetail("Rows between two windows would belong to none.")));
	if (window->offset >= window->slide || window->offset <= -window->slide)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("window offset must be smaller than the window slide")));
	/* reduced, so that no time overflows */
	window->shift = (EPOCH_SHIFT - window->offset) % window->slide;
	if (window->shift < 0)
		window->shift += window->slide;
	window->rest = window->size % window->slide;
}

int64
sx_window_gap(const Interval *gap)
{
	return interval_microseconds(gap, "gap");
}

/* From the start of the last window to ts. */
static int64
past_start(const SxWindow *window, TimestampTz ts)
{
	int64		past = ts % window->slide + window->shift;

	if (past < 0)
		past += window->slide;
	else if (past >= window->slide)
		past -= window->slide;
	return past;
}

TimestampTz
sx_window_last_start(const SxWindow *window, TimestampTz ts)
{
	return ts - past_start(window, ts);
}

bool
sx_window_any_exact(const SxWindow *window, TimestampTz ts)
{
	int64		past;
	int64		first;
	int64		end;

	if (TIMESTAMP_NOT_FINITE(ts))
		return false;
	past = past_start(window, ts);
	/* the sum is below the size, so it does not overflow */
	return !pg_sub_s64_overflow(ts, past + (window->size - past - 1) / window->slide * window->slide, &first) &&
		!pg_add_s64_overflow(ts - past, window->size, &end) &&
		IS_VALID_TIMESTAMP(first) && IS_VALID_TIMESTAMP(end);
}

TimestampTz
sx_window_first_start(const SxWindow *window, TimestampTz ts)
{
	TimestampTz last = sx_window_last_start(window, ts);

	/* the windows before it that hold ts as well */
	return last - (window->size - (ts - last) - 1) / window->slide * window->slide;
}

int
sx_window_max(const SxWindow *window)
{
	return (int) ((window->size + window->slide - 1) / window->slide);
}
