/*
 * window.h
 *		Assigning event times to tumbling and sliding windows (semantics 4.1).
 *
 * All integers are microseconds; windows are [start, start + size), aligned to
 * 1970-01-01 UTC plus offset by floor division, whatever the session's zone.
 */
#ifndef SX_TIME_WINDOW_H
#define SX_TIME_WINDOW_H

#include "datatype/timestamp.h"

typedef struct SxWindow
{
	int64		size;			/* > 0 */
	int64		slide;			/* 0 < slide <= size; = size for tumble */
	int64		offset;			/* |offset| < slide */
} SxWindow;

/* Checks and converts; errors as Spark's: months refused, slide > size, |offset| >= slide. */
extern void sx_window_make(SxWindow *window, const Interval *size, const Interval *slide,
						   const Interval *offset);

/* Start of the last window that begins at or before ts. ts must be finite. */
extern TimestampTz sx_window_last_start(const SxWindow *window, TimestampTz ts);

/* The largest multiple of unit that is not above value (floor division). */
extern int64 sx_floor_to(int64 value, int64 unit);

/* How many windows hold ts at most: ceil(size / slide). */
extern int	sx_window_max(const SxWindow *window);

#endif
