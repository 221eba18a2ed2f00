/*
 * kafka_bounds.c
 *		Where a query begins, and what a plain SELECT reads.
 */
#include "postgres.h"

#include "source/kafka_ask.h"
#include "source/kafka_bounds.h"

#define ASK_TIMEOUT_MS	10000

static void
mismatch(SxKafkaSource *source, const char *what, const SxKafkaPositions *given)
{
	SxKafkaPositions there = {.at = palloc(sizeof(SxKafkaPosition) * Max(source->nparts, 1))};

	for (int i = 0; i < source->nparts; i++)
		sx_kafka_positions_append(&there, source->parts[i]->topic, source->parts[i]->partition, 0);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("option \"%s\" of stream %s must name all its partitions and no others",
					what, source->base.name),
			 errdetail("It names %s; the stream reads the partitions of %s.",
					   sx_kafka_positions_print(given), sx_kafka_positions_print(&there)),
			 errhint("Use -2 for the beginning of a partition, and -1 for its end.")));
}

static void
check_exact(SxKafkaSource *source, const char *what, const SxKafkaPositions *given)
{
	if (given->n != source->nparts)
		mismatch(source, what, given);
	for (int i = 0; i < source->nparts; i++)
		if (sx_kafka_positions_find(given, source->parts[i]->topic,
									source->parts[i]->partition) == NULL)
			mismatch(source, what, given);
}

/* The first offset at or after its time, by part; -1: no record so late. */
static int64 *
offsets_of_times(SxKafkaSource *source, const SxKafkaBound *bound)
{
	SxKafkaAsk *question = sx_kafka_ask_make(SX_KAFKA_ASK_TIMES, ASK_TIMEOUT_MS);
	int64	   *result = palloc(sizeof(int64) * Max(source->nparts, 1));
	rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR_NO_ERROR;
	int			at = 0;

	for (int i = 0; i < source->nparts; i++)
	{
		const SxKafkaPart *part = source->parts[i];
		int64		time = bound->time;

		if (bound->kind == SX_KAFKA_AT_TIMES)
			time = sx_kafka_positions_find(&bound->positions, part->topic, part->partition)->offset;
		sx_kafka_ask_add(question, part->topic, part->partition, time);
	}
	sx_kafka_ask_wait(source->client, question);
	for (int i = 0; i < source->nparts; i++)
	{
		result[i] = question->asked[i].offset;
		if (question->asked[i].error != RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			error = question->asked[i].error;
			at = i;
		}
	}
	sx_kafka_ask_free(question);
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_raise(source->client, error, NULL,
					   "could not ask for the offset of a time in partition %d of topic \"%s\"",
					   source->parts[at]->partition, source->parts[at]->topic);
	return result;
}

static void
no_such_time(SxKafkaSource *source, const SxKafkaPart *part, const SxKafkaBound *bound)
{
	int64		time = bound->kind == SX_KAFKA_AT_TIME ? bound->time :
		sx_kafka_positions_find(&bound->positions, part->topic, part->partition)->offset;

	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("partition %d of topic \"%s\" has no record at or after the starting time of stream %s",
					part->partition, part->topic, source->base.name),
			 errdetail("The time is " INT64_FORMAT " milliseconds since 1970.", time),
			 errhint("With option starting_offsets_by_timestamp_strategy 'latest' the stream begins at the end of such a partition.")));
}

/* Offsets of a bound, by part; low and high must be known. */
static int64 *
resolve(SxKafkaSource *source, const SxKafkaBound *bound, bool starting)
{
	int64	   *result = palloc(sizeof(int64) * Max(source->nparts, 1));
	int64	   *times = NULL;

	if (bound->kind == SX_KAFKA_AT_OFFSETS)
		check_exact(source, starting ? "starting_offsets" : "ending_offsets", &bound->positions);
	if (bound->kind == SX_KAFKA_AT_TIMES)
		check_exact(source, starting ? "starting_offsets_by_timestamp" :
					"ending_offsets_by_timestamp", &bound->positions);
	if (bound->kind == SX_KAFKA_AT_TIME || bound->kind == SX_KAFKA_AT_TIMES)
		times = offsets_of_times(source, bound);
	for (int i = 0; i < source->nparts; i++)
	{
		const SxKafkaPart *part = source->parts[i];
		int64		offset = 0;

		switch (bound->kind)
		{
			case SX_KAFKA_AT_EARLIEST:
				offset = SX_KAFKA_EARLIEST;
				break;
			case SX_KAFKA_AT_LATEST:
				offset = SX_KAFKA_LATEST;
				break;
			case SX_KAFKA_AT_OFFSETS:
				offset = sx_kafka_positions_find(&bound->positions, part->topic,
												 part->partition)->offset;
				break;
			case SX_KAFKA_AT_TIME:
			case SX_KAFKA_AT_TIMES:
				offset = times[i] >= 0 ? times[i] : SX_KAFKA_LATEST;
				if (times[i] < 0 && starting && !source->options.late_time_is_end)
					no_such_time(source, part, bound);
				break;
		}
		result[i] = offset == SX_KAFKA_EARLIEST ? part->low :
			offset == SX_KAFKA_LATEST ? part->high : offset;
	}
	return result;
}

/* Every partition must have answered; a fresh topic may have no leader for a moment. */
static void
check_ends_known(SxKafkaSource *source)
{
	for (int i = 0; i < source->nparts; i++)
		if (source->parts[i]->asked_error != RD_KAFKA_RESP_ERR_NO_ERROR)
			sx_kafka_raise(source->client, source->parts[i]->asked_error, NULL,
						   "could not ask for the ends of partition %d of topic \"%s\"",
						   source->parts[i]->partition, source->parts[i]->topic);
}

SxOffset *
sx_kafka_initial(SxSource *base, bool latest, const SxChoose *choose)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	SxKafkaBound at_end = {.given = true, .kind = SX_KAFKA_AT_LATEST};
	const SxKafkaBound *ending = &source->options.ending;
	SxKafkaOffset *result;
	int64	   *offsets;

	if (ending->given && ending->kind != SX_KAFKA_AT_TIME)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("stream %s has ending offsets, which a continuous query cannot have", base->name),
				 errdetail("They are for a plain SELECT; a continuous query has no end."),
				 errhint("Drop the option from the stream, or make another stream for the query. Trigger \"available_now\" stops at what is there.")));
	sx_kafka_connect_first(source);
	check_ends_known(source);
	offsets = resolve(source, latest ? &at_end : &source->options.starting, true);
	result = sx_kafka_offset_make(&sx_kafka_source_routine, source->nparts);
	for (int i = 0; i < source->nparts; i++)
		sx_kafka_positions_append(&result->positions, source->parts[i]->topic,
								  source->parts[i]->partition, offsets[i]);
	return &result->base;
}

SxKafkaRange *
sx_kafka_batch_ranges(SxKafkaSource *source)
{
	SxKafkaRange *ranges;
	SxKafkaBound starting = source->options.starting;
	int64	   *begins;
	int64	   *ends;

	sx_kafka_connect_first(source);
	sx_kafka_ask_ends_of(source, NULL);
	check_ends_known(source);

	/* "latest" is where a query begins; a SELECT from there would never have a row. */
	if (starting.kind == SX_KAFKA_AT_LATEST)
		starting.kind = SX_KAFKA_AT_EARLIEST;
	begins = resolve(source, &starting, true);
	ends = resolve(source, &source->options.ending, false);
	ranges = palloc(sizeof(SxKafkaRange) * Max(source->nparts, 1));
	for (int i = 0; i < source->nparts; i++)
	{
		ranges[i].begin = Max(sx_kafka_after_losses(source, i, begins[i]), source->parts[i]->low);
		ranges[i].end = Min(ends[i], source->parts[i]->high);
	}
	return ranges;
}

void
sx_kafka_begin_at_time(SxKafkaSource *source, int64 ms, SxKafkaRange *ranges)
{
	SxKafkaBound bound = {.given = true, .kind = SX_KAFKA_AT_TIME, .time = ms};
	int64	   *offsets = offsets_of_times(source, &bound);

	for (int i = 0; i < source->nparts; i++)
		ranges[i].begin = Max(ranges[i].begin, offsets[i] >= 0 ? offsets[i] : ranges[i].end);
}
