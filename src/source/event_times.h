/*
 * event_times.h
 *		Counts the rows of a range and their event times.
 */
#ifndef SX_SOURCE_EVENT_TIMES_H
#define SX_SOURCE_EVENT_TIMES_H

#include "source/source.h"

typedef struct SxEventTimes
{
	AttrNumber	attnum;			/* 0: only count */
	TimestampTz latest_allowed;
	int64		rows;
	SxWatermarkInput seen;
	TimestampTz raised_at;		/* nothing up to this one raises the maximum */
	TimestampTz min;
	TimestampTz max;
	double		sum;
	int64		finite;			/* rows with an event time that is neither NULL nor infinite */
} SxEventTimes;

extern void sx_event_times_begin(SxEventTimes *times, const SxBatchSource *batch);
extern void sx_event_times_see(SxEventTimes *times, TupleTableSlot *slot);

/* The pass was complete; the first one to say so counts. */
extern void sx_event_times_finish(const SxEventTimes *times, SxBatchSource *batch);

#endif
