/*
 * rate.c
 *		Connector 'rate' (Spark sources 7): values 0, 1, 2 ..., rows_per_second of
 *		them a second, with the time at which each was due.
 *
 * An offset is a number of whole seconds since the query's first start, and that
 * start:	{"start": 757382405000000, "seconds": 17}	(start as TimestampTz)
 *
 * The speed grows evenly during ramp_up_time. value_at(s) is the number of rows of
 * the first s seconds, by Spark's formula:
 *		delta = rows_per_second / (ramp_up_time + 1)
 *		s <= ramp_up_time: delta * s * (s + 1) / 2
 *		after that: value_at(ramp_up_time) + (s - ramp_up_time) * rows_per_second
 * The rows of one second are spread evenly over it. (Spark spreads over the range
 * of the batch, which is the same at constant speed; so the rows don't depend on
 * where batches are cut.) num_partitions is accepted and means nothing here.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "executor/tuptable.h"
#include "foreign/foreign.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/errors.h"
#include "source/rate.h"
#include "source/stream_options.h"

typedef struct RateSource
{
	SxSource	base;
	SxStreamOptions options;
	AttrNumber	time_attnum;
	AttrNumber	value_attnum;
} RateSource;

typedef struct RateOffset
{
	SxOffset	base;
	TimestampTz start;			/* of the query, whole milliseconds */
	int64		seconds;
} RateOffset;

typedef struct RateScan
{
	SxScan		base;
	TimestampTz start;
	int64		from;			/* seconds */
	int64		to;

	/* the second being given: its number, first value and number of values */
	int64		second;
	int64		value;
	int64		count;
	int64		next;			/* index of the next row in it */
} RateScan;

/* No overflow is met before the year 294276: seconds < 2^43, speed < 2^31 are checked by callers. */
static int64
value_at(const SxStreamOptions *options, int64 seconds)
{
	int64		delta = options->rows_per_second / (options->ramp_up_time + 1);
	int64		ramp = Min(seconds, options->ramp_up_time);
	int64		value = ramp % 2 == 1 ? (ramp + 1) / 2 * delta * ramp : ramp / 2 * delta * (ramp + 1);
	int64		rest;

	if (pg_mul_s64_overflow(seconds - ramp, options->rows_per_second, &rest) ||
		pg_add_s64_overflow(value, rest, &value))
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("the values of a rate stream no longer fit bigint"),
				 errhint("Drop and create the query to begin at 0.")));
	return value;
}

void
sx_rate_check(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Oid			types[2] = {TIMESTAMPTZOID, INT8OID};
	int			n = 0;

	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attisdropped)
			continue;
		if (n >= 2 || TupleDescAttr(desc, i)->atttypid != types[n])
		{
			n = -1;
			break;
		}
		n++;
	}
	if (n != 2)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("columns of stream \"%s\" do not fit connector \"rate\"",
						RelationGetRelationName(rel)),
				 errdetail("It gives two columns: the time at which a row was due, and its number."),
				 errhint("Declare them as (\"timestamp\" timestamptz, value bigint); the names are free.")));
}

static SxSource *
open_source(Relation rel)
{
	RateSource *source = palloc0(sizeof(RateSource));
	TupleDesc	desc = RelationGetDescr(rel);

	source->base.routine = &sx_rate_routine;
	source->base.relid = RelationGetRelid(rel);
	sx_rate_check(rel);
	sx_stream_options_parse(GetForeignTable(RelationGetRelid(rel))->options, &source->options);
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attisdropped)
			continue;
		if (source->time_attnum == 0)
			source->time_attnum = i + 1;
		else
			source->value_attnum = i + 1;
	}
	return &source->base;
}

/* ---- offsets ---- */

static RateOffset *
make_offset(TimestampTz start, int64 seconds)
{
	RateOffset *offset = palloc0(sizeof(RateOffset));

	offset->base.routine = &sx_rate_routine;
	offset->start = start;
	offset->seconds = seconds;
	return offset;
}

static SxOffset *
initial(SxSource *source, bool only_later, const SxChoose *choose)
{
	return &make_offset(choose->now - choose->now % 1000, 0)->base;
}

/* The farthest second that may be read now; a clock that went back changes nothing. */
static int64
available(const RateOffset *start, const SxChoose *choose)
{
	int64		seconds = (choose->now - start->start) / USECS_PER_SEC;

	if (choose->stop_at != NULL)
		seconds = Min(seconds, ((const RateOffset *) choose->stop_at)->seconds);
	return Max(seconds, start->seconds);
}

/* The first second after `low` whose value is past `value`; Spark's formula grows, so bisect. */
static int64
second_past(const SxStreamOptions *options, int64 low, int64 value)
{
	int64		step = 1;
	int64		high;

	while (value_at(options, low + step) <= value)
		step *= 2;
	high = low + step;
	while (low + 1 < high)
	{
		int64		middle = low + (high - low) / 2;

		if (value_at(options, middle) <= value)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static SxOffset *
next_end(SxSource *base, const SxOffset *base_start, const SxChoose *choose)
{
	RateSource *source = (RateSource *) base;
	const RateOffset *start = (const RateOffset *) base_start;
	int64		end = available(start, choose);
	int64		done = value_at(&source->options, start->seconds);

	if (value_at(&source->options, end) == done)
		return NULL;

	/* Up to the second in which max_rows is reached. */
	if (choose->max_rows > 0 && value_at(&source->options, end) - done > choose->max_rows)
		end = Min(end, second_past(&source->options, start->seconds,
								   done + choose->max_rows - 1));
	return &make_offset(start->start, end)->base;
}

static SxOffset *
latest(SxSource *source, const SxOffset *base_start, const SxChoose *choose)
{
	const RateOffset *start = (const RateOffset *) base_start;

	return &make_offset(start->start, available(start, choose))->base;
}

static char *
offset_print(const SxOffset *base)
{
	const RateOffset *offset = (const RateOffset *) base;

	return psprintf("{\"start\": " INT64_FORMAT ", \"seconds\": " INT64_FORMAT "}",
					offset->start, offset->seconds);
}

static bool
get_int64(JsonbContainer *object, const char *name, int64 *result)
{
	JsonbValue *value = getKeyJsonValueFromContainer(object, name, strlen(name), NULL);

	if (value == NULL || value->type != jbvNumeric)
		return false;
	*result = DatumGetInt64(DirectFunctionCall1(numeric_int8,
												NumericGetDatum(value->val.numeric)));
	return true;
}

static SxOffset *
offset_parse(SxSource *source, const char *text)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	RateOffset *offset = make_offset(0, 0);
	bool		good = false;

	PG_TRY();
	{
		Jsonb	   *json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));

		good = JB_ROOT_IS_OBJECT(json) &&
			get_int64(&json->root, "start", &offset->start) &&
			get_int64(&json->root, "seconds", &offset->seconds) &&
			IS_VALID_TIMESTAMP(offset->start) &&
			offset->seconds >= 0 && offset->seconds < INT64CONST(1) << 43;
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(oldcontext);
		FlushErrorState();		/* the error below says it */
		good = false;
	}
	PG_END_TRY();
	if (!good)
		ereport(ERROR,
				(errcode(ERRCODE_SX_CHECKPOINT),
				 errmsg("offset of stream %s cannot be used", source->name),
				 errdetail("It is not what this version of streamx writes: %s.", text),
				 errhint("Restore the checkpoint, or drop and create the query to begin anew.")));
	return &offset->base;
}

static bool
offset_equal(const SxOffset *a, const SxOffset *b)
{
	const RateOffset *x = (const RateOffset *) a;
	const RateOffset *y = (const RateOffset *) b;

	return x->start == y->start && x->seconds == y->seconds;
}

static TimestampTz
next_time(SxSource *base, const SxOffset *base_start)
{
	RateSource *source = (RateSource *) base;
	const RateOffset *start = (const RateOffset *) base_start;
	int64		second = second_past(&source->options, start->seconds,
									 value_at(&source->options, start->seconds));

	return start->start + second * USECS_PER_SEC;
}

/* ---- rows ---- */

static void
enter_second(RateScan *scan, int64 second)
{
	const SxStreamOptions *options = &((RateSource *) scan->base.source)->options;

	scan->second = second;
	scan->value = value_at(options, second);
	scan->count = second < scan->to ? value_at(options, second + 1) - scan->value : 0;
	scan->next = 0;
}

static void
scan_rescan(SxScan *base)
{
	RateScan   *scan = (RateScan *) base;

	enter_second(scan, scan->from);
}

static SxScan *
scan_begin(SxSource *source, const SxOffset *start, const SxOffset *end)
{
	RateScan   *scan = palloc0(sizeof(RateScan));

	scan->base.source = source;
	scan->base.last_needed = MaxAttrNumber;
	scan->start = ((const RateOffset *) start)->start;
	scan->from = ((const RateOffset *) start)->seconds;
	scan->to = ((const RateOffset *) end)->seconds;
	scan_rescan(&scan->base);
	return &scan->base;
}

static bool
scan_next(SxScan *base, TupleTableSlot *slot)
{
	RateScan   *scan = (RateScan *) base;
	RateSource *source = (RateSource *) base->source;
	TimestampTz time;

	ExecClearTuple(slot);
	while (scan->next >= scan->count)
	{
		if (scan->second >= scan->to)
			return false;
		enter_second(scan, scan->second + 1);
	}
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	time = scan->start + scan->second * USECS_PER_SEC +
		(int64) ((double) scan->next * USECS_PER_SEC / scan->count);
	time -= time % 1000;		/* whole milliseconds, as Spark's */
	slot->tts_values[source->time_attnum - 1] = TimestampTzGetDatum(time);
	slot->tts_isnull[source->time_attnum - 1] = false;
	slot->tts_values[source->value_attnum - 1] = Int64GetDatum(scan->value + scan->next);
	slot->tts_isnull[source->value_attnum - 1] = false;
	scan->next++;
	ExecStoreVirtualTuple(slot);
	return true;
}

static void
scan_end(SxScan *base)
{
	pfree(base);
}

static void
close_source(SxSource *source)
{
}

const SxSourceRoutine sx_rate_routine = {
	.name = "rate",
	.open = open_source,
	.initial = initial,
	.next_end = next_end,
	.latest = latest,
	.scan_begin = scan_begin,
	.scan_next = scan_next,
	.scan_rescan = scan_rescan,
	.scan_end = scan_end,
	.offset_print = offset_print,
	.offset_parse = offset_parse,
	.offset_equal = offset_equal,
	.next_time = next_time,
	.close = close_source,
};
