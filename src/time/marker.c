/*
 * marker.c
 *		The cells of the running batch's watermark() calls.
 */
#include "postgres.h"

#include "time/marker.h"

static SxWatermarkInput *current_cells = NULL;
static int	ncells = 0;
static TimestampTz latest = 0;

void
sx_markers_begin(SxWatermarkInput *cells, int n, TimestampTz latest_allowed)
{
	current_cells = cells;
	ncells = n;
	latest = latest_allowed;
}

void
sx_markers_end(void)
{
	current_cells = NULL;
	ncells = 0;
}

void
sx_marker_observe(int n, TimestampTz event_time)
{
	if (n >= 0 && n < ncells)
		sx_watermark_see(&current_cells[n], event_time, latest);
}
