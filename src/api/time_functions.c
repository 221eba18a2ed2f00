/*
 * time_functions.c
 *		tumble, hop, window_time, watermark: ordinary SQL functions that also
 *		mean something to the planner of continuous queries.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "time/marker.h"
#include "time/window.h"

PG_FUNCTION_INFO_V1(sx_api_tumble);
PG_FUNCTION_INFO_V1(sx_api_hop);
PG_FUNCTION_INFO_V1(sx_api_window_time);
PG_FUNCTION_INFO_V1(sx_api_watermark);
PG_FUNCTION_INFO_V1(sx_api_watermark_observe);
PG_FUNCTION_INFO_V1(sx_api_unsupported_marker);

/* The windows of one row, last one first. */
typedef struct WindowSeries
{
	SxWindow	window;
	TimestampTz ts;
	bool		any;
	TimestampTz start;
	TypeCacheEntry *range_type;
} WindowSeries;

static Datum
make_window(WindowSeries *series)
{
	RangeBound	lower = {0};
	RangeBound	upper = {0};

	lower.val = TimestampTzGetDatum(series->start);
	lower.inclusive = true;
	lower.lower = true;
	upper.val = TimestampTzGetDatum(series->start + series->window.size);
	return RangeTypePGetDatum(sx_make_range(series->range_type, &lower, &upper));
}

/*
 * Returns the windows of the first argument one by one; none for a time that
 * isn't finite, or too near to the ends of time. NULL arguments give no row, as
 * in Spark: the functions are strict and set-returning.
 */
static Datum
window_series(FunctionCallInfo fcinfo, const Interval *size, const Interval *slide,
			  const Interval *offset)
{
	FuncCallContext *context;
	WindowSeries *series;
	Datum		result;

	if (SRF_IS_FIRSTCALL())
	{
		context = SRF_FIRSTCALL_INIT();
		series = MemoryContextAllocZero(context->multi_call_memory_ctx, sizeof(WindowSeries));
		series->ts = PG_GETARG_TIMESTAMPTZ(0);
		series->range_type = lookup_type_cache(get_fn_expr_rettype(fcinfo->flinfo),
											   TYPECACHE_RANGE_INFO);
		sx_window_make(&series->window, size, slide, offset);
		series->any = sx_window_any(&series->window, series->ts);
		if (series->any)
			series->start = sx_window_last_start(&series->window, series->ts);
		context->user_fctx = series;
	}
	context = SRF_PERCALL_SETUP();
	series = context->user_fctx;
	if (!series->any || series->start + series->window.size <= series->ts)
		SRF_RETURN_DONE(context);
	result = make_window(series);
	series->start -= series->window.slide;
	SRF_RETURN_NEXT(context, result);
}

Datum
sx_api_tumble(PG_FUNCTION_ARGS)
{
	return window_series(fcinfo, PG_GETARG_INTERVAL_P(1), NULL, PG_GETARG_INTERVAL_P(2));
}

Datum
sx_api_hop(PG_FUNCTION_ARGS)
{
	return window_series(fcinfo, PG_GETARG_INTERVAL_P(1), PG_GETARG_INTERVAL_P(2),
						 PG_GETARG_INTERVAL_P(3));
}

/* The last instant of a window, its event time (semantics 4.3). */
Datum
sx_api_window_time(PG_FUNCTION_ARGS)
{
	RangeType  *range = PG_GETARG_RANGE_P(0);
	TypeCacheEntry *type = range_get_typcache(fcinfo, RangeTypeGetOid(range));
	RangeBound	lower,
				upper;
	bool		empty;

	range_deserialize(type, range, &lower, &upper, &empty);
	if (empty || upper.infinite)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(DatumGetTimestampTz(upper.val) - 1);
}

/* In a batch query the mark means nothing. */
Datum
sx_api_watermark(PG_FUNCTION_ARGS)
{
	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(PG_GETARG_TIMESTAMPTZ(0));
}

Datum
sx_api_watermark_observe(PG_FUNCTION_ARGS)
{
	TimestampTz ts = PG_GETARG_TIMESTAMPTZ(0);

	sx_marker_observe(PG_GETARG_INT32(1), ts);
	PG_RETURN_TIMESTAMPTZ(ts);
}

/* session, within_watermark: taken out of a continuous query by its operator; alone they mean nothing. */
Datum
sx_api_unsupported_marker(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("this function means something only in a continuous query"),
			 errdetail("Session windows and deduplication within the watermark have no meaning for a single row."),
			 errhint("session() stands in GROUP BY, within_watermark() in DISTINCT ON of a query that create_query is given.")));
}
