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

	/* from these */
	int64		shift;			/* 0 <= shift < slide: a start plus it is a multiple of slide */
	int64		rest;			/* size mod slide */
} SxWindow;

/* Checks and converts; errors as Spark's: months refused, slide > size, |offset| >= slide. */
extern void sx_window_make(SxWindow *window, const Interval *size, const Interval *slide,
						   const Interval *offset);

/* The gap of a session in microseconds, refused with months; zero or less: no session. */
extern int64 sx_window_gap(const Interval *gap);

/* Start of the last window that begins at or before ts. ts must be finite. */
extern TimestampTz sx_window_last_start(const SxWindow *window, TimestampTz ts);

/*
 * Can all windows that hold ts be shown?  Not those of a time that isn't finite, or
 * so near to the ends of time that the bounds lie beyond: the row is in no window.
 */
extern bool sx_window_any_exact(const SxWindow *window, TimestampTz ts);

static inline bool
sx_window_any(const SxWindow *window, TimestampTz ts)
{
	if (ts >= MIN_TIMESTAMP + window->size && ts < END_TIMESTAMP - window->size)
		return true;
	return sx_window_any_exact(window, ts);
}

/* Start of the first window that holds ts. */
extern TimestampTz sx_window_first_start(const SxWindow *window, TimestampTz ts);

/*
 * Panes are the pieces that the starts and ends of windows cut time into: two
 * times of one pane are in the same windows.
 *
 *	 size 5, slide 2	|-----0-----|		panes begin at every start and,
 *						   |-----2-----|	where rest is not 0, rest after it
 *						0 1 2 3 4 5 6 7
 *
 * last: sx_window_last_start of ts.
 */
static inline TimestampTz
sx_window_pane(const SxWindow *window, TimestampTz last, TimestampTz ts)
{
	return (window->rest == 0 || ts - last < window->rest) ? last : last + window->rest;
}

/* The pane after it. */
static inline TimestampTz
sx_window_next_pane(const SxWindow *window, TimestampTz last, TimestampTz pane)
{
	return pane == last && window->rest > 0 ? last + window->rest : last + window->slide;
}

/* The largest multiple of unit that is not above value (floor division). */
extern int64 sx_floor_to(int64 value, int64 unit);

/* How many windows hold ts at most: ceil(size / slide). */
extern int	sx_window_max(const SxWindow *window);

#endif
