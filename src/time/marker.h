/*
 * marker.h
 *		Where watermark(expr, delay) calls of a running segment leave the event
 *		times they see.
 *
 * In a segment each call is replaced by watermark_observe(expr, n), a volatile
 * function that returns expr and takes it into cell n. The cells are those of
 * the batch that this process runs; outside begin/end the function only returns
 * its argument.
 */
#ifndef SX_TIME_MARKER_H
#define SX_TIME_MARKER_H

#include "time/watermark.h"

/* Around the segments of a batch; end also after an error (it cannot fail). */
extern void sx_markers_begin(SxWatermarkInput *cells, int n, TimestampTz latest_allowed);
extern void sx_markers_end(void);

extern void sx_marker_observe(int n, TimestampTz event_time);

#endif
