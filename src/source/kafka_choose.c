/*
 * kafka_choose.c
 *		How far the next batch of a Kafka stream goes.
 *
 *	 backlog of every partition = known end - begin
 *	 limit = max_rows, max_offsets_per_trigger, or what fits into memory
 *	 ends in proportion (kafka_ends.c)
 *	 all of it read and decoded?  no: the range stays as it is, and the thread wakes us
 *								  yes: it is given out, and the next one is prefetched
 *
 * So a range never waits for the broker once it is given out, and no transaction is
 * open meanwhile. That all partitions of a range are there, the slow ones too, is
 * what keeps them together: a range is not made of what happened to arrive.
 *
 * Where nobody counts on exact ends, one offset at the end of a partition isn't
 * waited for: most often it is the mark of a finished transaction, of which nobody
 * tells before the next look of librdkafka. The position passes it later.
 */
#include "postgres.h"

#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/errors.h"
#include "registry/failure.h"
#include "source/kafka_ask.h"
#include "source/kafka_ends.h"
#include "source/kafka_group.h"
#include "source/kafka_reader.h"

#define UNLIMITED			PG_INT64_MAX
#define EXPECTED_BYTES		1024	/* memory of a record before one was seen */
#define LEAST_LIMIT			64
#define EMPTY_EVERY_US		USECS_PER_SEC	/* batches without rows, only to pass control records */

typedef struct Choice
{
	SxKafkaSource *source;
	const SxKafkaOffset *start;
	const SxChoose *choose;
	bool		exact;			/* to the very end */
	int64		limit;
	int			n;
	int64	   *begins;
	int64	   *ends;			/* how far there is anything; then: how far to go */
	SxKafkaPartState *states;
} Choice;

/* ---- what there is ---- */

static int64
memory_limit(SxKafkaSource *source)
{
	double		bytes = sx_kafka_fetcher_bytes_per_offset(source->fetcher);

	if (bytes <= 0)
		bytes = EXPECTED_BYTES;
	return (int64) Max(source->options.prefetch / 2 / bytes, LEAST_LIMIT);
}

static bool
is_unlimited(const SxChoose *choose)
{
	return choose->max_rows <= 0 || choose->max_rows == PG_INT64_MAX;
}

static void
set_limit(Choice *choice)
{
	const SxKafkaStreamOptions *options = &choice->source->options;

	choice->limit = UNLIMITED;
	if (is_unlimited(choice->choose))
		return;					/* trigger once: all that there is */
	choice->limit = Min(choice->choose->max_rows, memory_limit(choice->source));
	if (options->max_offsets > 0)
		choice->limit = Min(choice->limit, options->max_offsets);
}

static void
look_at_parts(Choice *choice)
{
	SxKafkaSource *source = choice->source;

	for (int i = 0; i < choice->n; i++)
		sx_kafka_part_state(source->fetcher, source->parts[i], &choice->states[i]);
}

/* How far part i could be read. */
static int64
reachable(const Choice *choice, int i)
{
	SxKafkaSource *source = choice->source;
	SxKafkaPart *part = source->parts[i];
	const SxKafkaPartState *state = &choice->states[i];
	int64		begin = choice->begins[i];
	int64		end;

	if (part->gone || part->kept_from > begin)
		return begin;
	if (begin == part->moved_to && part->moved_from >= 0 &&
		sx_kafka_offset_at(choice->start, part->topic, part->partition) == part->moved_from)
		return begin;			/* this batch only goes back there */
	if (state->error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return Max(begin, state->position); /* what was read before it */
	end = sx_kafka_known_end(source, part, state);
	if (source->options.read_committed && state->eof == state->position)
		end = state->position;	/* behind it a transaction is open */
	if (!choice->exact && end - state->position <= 1)
		end = state->position;
	if (choice->choose->stop_at != NULL)
		end = Min(end, sx_kafka_offset_at((const SxKafkaOffset *) choice->choose->stop_at,
										  part->topic, part->partition));
	return Max(begin, end);
}

/* In CurrentMemoryContext. */
static Choice *
make_choice(SxKafkaSource *source, const SxOffset *start, const SxChoose *choose)
{
	Choice	   *choice = palloc0(sizeof(Choice));

	choice->source = source;
	choice->start = (const SxKafkaOffset *) start;
	choice->choose = choose;
	choice->exact = choose->stop_at != NULL || choose->fresh || is_unlimited(choose);
	choice->begins = sx_kafka_begins(source, choice->start);
	(void) sx_kafka_ensure_begins(source, choice->begins);
	choice->n = source->nparts;
	choice->ends = palloc(sizeof(int64) * Max(choice->n, 1));
	choice->states = palloc(sizeof(SxKafkaPartState) * Max(choice->n, 1));
	set_limit(choice);
	look_at_parts(choice);
	for (int i = 0; i < choice->n; i++)
		choice->ends[i] = reachable(choice, i);
	return choice;
}

static int64
total_of(const Choice *choice)
{
	int64		total = 0;

	for (int i = 0; i < choice->n; i++)
		total += choice->ends[i] - choice->begins[i];
	return total;
}

/* Begins that were moved by a loss are news, too: the batch writes them down. */
static bool
moves(const Choice *choice)
{
	const SxKafkaOffset *start = choice->start;

	for (int i = 0; i < choice->n; i++)
	{
		SxKafkaPart *part = choice->source->parts[i];
		int64		at = sx_kafka_offset_at(start, part->topic, part->partition);

		if (part->gone ? at >= 0 : at >= 0 && at != choice->ends[i])
			return true;
		if (at < 0 && choice->ends[i] > choice->begins[i])
			return true;
	}
	return false;
}

/* ---- the range that is being loaded ---- */

static void
keep_pending(Choice *choice)
{
	SxKafkaPending *pending = &choice->source->pending;

	if (pending->nparts != choice->n || pending->begins == NULL)
	{
		MemoryContext context = choice->source->context;

		if (pending->begins != NULL)
		{
			pfree(pending->begins);
			pfree(pending->ends);
			pfree(pending->eofs);
		}
		pending->begins = MemoryContextAlloc(context, sizeof(int64) * Max(choice->n, 1));
		pending->ends = MemoryContextAlloc(context, sizeof(int64) * Max(choice->n, 1));
		pending->eofs = MemoryContextAlloc(context, sizeof(uint64) * Max(choice->n, 1));
		pending->nparts = choice->n;
	}
	memcpy(pending->begins, choice->begins, sizeof(int64) * choice->n);
	memcpy(pending->ends, choice->ends, sizeof(int64) * choice->n);
	for (int i = 0; i < choice->n; i++)
		pending->eofs[i] = choice->states[i].eofs;
	pending->total = total_of(choice);
	pending->valid = true;
}

/* Is the range that was begun still the one to load? */
static bool
pending_serves(const Choice *choice)
{
	const SxKafkaPending *pending = &choice->source->pending;

	if (!pending->valid || pending->nparts != choice->n ||
		memcmp(pending->begins, choice->begins, sizeof(int64) * choice->n) != 0)
		return false;
	if (choice->limit != UNLIMITED &&
		pending->total > Max(choice->limit + choice->limit / 4, choice->limit + choice->n))
		return false;
	if (choice->choose->stop_at != NULL)
		for (int i = 0; i < choice->n; i++)
			if (pending->ends[i] > choice->ends[i])
				return false;
	return true;
}

static void
set_targets(Choice *choice, const int64 *targets)
{
	SxKafkaSource *source = choice->source;

	for (int i = 0; i < choice->n; i++)
		sx_kafka_part_set_target(source->fetcher, source->parts[i], targets[i]);
	sx_kafka_fetcher_poke(source->fetcher);
}

/*
 * Cuts what doesn't fit: records were larger than those before. All partitions at
 * the same fraction; one that has nothing yet is waited for, alone.
 */
static bool
cut_to_memory(Choice *choice)
{
	double		least = 1;

	if (sx_kafka_fetcher_bytes(choice->source->fetcher) < choice->source->options.prefetch)
		return false;
	for (int i = 0; i < choice->n; i++)
	{
		int64		begin = choice->begins[i];
		int64		end = choice->ends[i];
		int64		position = Min(choice->states[i].position, end);

		if (end > begin)
			least = Min(least, (double) Max(position - begin, 0) / (end - begin));
	}
	if (least <= 0 || least >= 1)
		return false;
	sx_kafka_cut(choice->n, choice->begins, choice->ends, least);
	for (int i = 0; i < choice->n; i++)
		choice->ends[i] = Max(choice->begins[i],
							  Min(choice->ends[i], choice->states[i].position));
	return true;
}

/* False: not all of it is there; the thread will tell. */
static bool
is_loaded(Choice *choice)
{
	SxKafkaSource *source = choice->source;
	const SxKafkaPending *pending = &source->pending;
	int64	   *awaited = palloc(sizeof(int64) * Max(choice->n, 1));
	int64	   *targets = palloc(sizeof(int64) * Max(choice->n, 1));
	bool		loaded = true;

	for (int i = 0; i < choice->n; i++)
	{
		const SxKafkaPartState *state = &choice->states[i];
		bool		ended = state->error != RD_KAFKA_RESP_ERR_NO_ERROR ||
			(state->eof == state->position && state->eofs != pending->eofs[i]);

		awaited[i] = -1;
		if (choice->ends[i] > choice->begins[i] && ended)
			choice->ends[i] = Max(choice->begins[i], Min(choice->ends[i], state->position));
		targets[i] = choice->ends[i];
		if (choice->ends[i] <= choice->begins[i] || state->position >= choice->ends[i])
			continue;
		awaited[i] = choice->ends[i];
		loaded = false;
	}
	if (loaded || cut_to_memory(choice))
		return true;
	for (int i = 0; i < choice->n; i++)
		if (awaited[i] >= 0)
			sx_kafka_check_too_large(source, source->parts[i], choice->states[i].position);
	set_targets(choice, targets);
	sx_kafka_fetcher_await(source->fetcher, choice->n, source->parts, awaited);
	return false;
}

/* What the batch after this one will want, as far as one can know. */
static void
prefetch_next(Choice *choice)
{
	int64	   *begins = palloc(sizeof(int64) * Max(choice->n, 1));
	int64	   *targets = palloc(sizeof(int64) * Max(choice->n, 1));

	for (int i = 0; i < choice->n; i++)
	{
		begins[i] = choice->ends[i];
		targets[i] = Max(begins[i], sx_kafka_known_end(choice->source, choice->source->parts[i],
													  &choice->states[i]));
	}
	sx_kafka_share(choice->n, begins, targets,
				   choice->limit == UNLIMITED ? memory_limit(choice->source) : choice->limit);
	set_targets(choice, targets);
}

/* ---- giving it out ---- */

static bool
has_records(const Choice *choice)
{
	SxKafkaSource *source = choice->source;

	for (int i = 0; i < choice->n; i++)
		if (choice->ends[i] > choice->begins[i] &&
			sx_kafka_part_has_records(source->fetcher, source->parts[i],
									  choice->begins[i], choice->ends[i]))
			return true;
	return false;
}

/* With the batch, so each is in streamx.failures once. They go when it is committed. */
static void
write_incidents(SxKafkaSource *source, const SxChoose *choose, const SxKafkaOffset *start)
{
	ListCell   *lc;

	if (choose->query_id == 0)
		return;
	foreach(lc, source->incidents)
	{
		SxKafkaIncident *incident = lfirst(lc);
		ErrorData	error = {
			.sqlerrcode = ERRCODE_SX_DATA_LOST,
			.message = unconstify(char *, incident->message),
			.detail = unconstify(char *, incident->detail),
			.hint = "The query goes on, since the stream has option fail_on_data_loss 'false'.",
		};

		sx_failure_append(choose->query_id, &error, -1,
						  sx_kafka_positions_print(&start->positions));
	}
}

static SxOffset *
make_end(const Choice *choice)
{
	SxKafkaOffset *end = sx_kafka_offset_make(&sx_kafka_source_routine, choice->n);

	for (int i = 0; i < choice->n; i++)
	{
		SxKafkaPart *part = choice->source->parts[i];

		if (!part->gone)
			sx_kafka_positions_append(&end->positions, part->topic, part->partition,
									  choice->ends[i]);
	}
	return &end->base;
}

/* min_offsets_per_trigger: false if the batch is to wait for more. */
static bool
is_enough(Choice *choice)
{
	SxKafkaSource *source = choice->source;
	const SxKafkaStreamOptions *options = &source->options;

	source->due = DT_NOEND;
	if (options->min_offsets == 0 || source->last_batch == 0 ||
		total_of(choice) >= options->min_offsets || choice->choose->stop_at != NULL)
		return true;
	source->due = source->last_batch + options->max_trigger_delay;
	if (GetCurrentTimestamp() >= source->due)
		return true;
	source->base.loading = choice->choose->fresh;
	return false;
}

SxOffset *
sx_kafka_next_end(SxSource *base, const SxOffset *start, const SxChoose *choose)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	TimestampTz now = GetCurrentTimestamp();
	Choice	   *choice;

	base->loading = false;
	source->due = DT_NOEND;
	sx_kafka_connect(source);
	sx_kafka_fetcher_listen(source->fetcher);
	sx_kafka_look_around(source);
	sx_kafka_group_tell(source);
	sx_kafka_check_gone(source, (const SxKafkaOffset *) start);
	if (choose->fresh && !choose->probe && !source->pending.valid)
		sx_kafka_ask_ends_of(source, NULL);
	choice = make_choice(source, start, choose);
	if (choose->probe)
		return total_of(choice) > 0 ? make_end(choice) : NULL;

	if (pending_serves(choice))
		memcpy(choice->ends, source->pending.ends, sizeof(int64) * choice->n);
	else
	{
		source->pending.valid = false;
		if (!moves(choice) || !is_enough(choice))
			return NULL;
		if (choice->limit != UNLIMITED)
			sx_kafka_share(choice->n, choice->begins, choice->ends, choice->limit);
		keep_pending(choice);
	}
	if (choice->limit != UNLIMITED && !is_loaded(choice))
	{
		base->loading = true;
		return NULL;
	}
	if (!moves(choice))
	{
		source->pending.valid = false;
		return NULL;
	}
	if (choose->stop_at == NULL && choice->limit != UNLIMITED && source->incidents == NIL &&
		!has_records(choice) && source->last_batch + EMPTY_EVERY_US > now)
	{
		source->pending.valid = false;
		source->due = source->last_batch + EMPTY_EVERY_US;
		return NULL;
	}
	source->pending.valid = false;
	source->last_batch = now;
	sx_kafka_forget_malformed(source);
	write_incidents(source, choose, choice->start);
	prefetch_next(choice);
	return make_end(choice);
}

/* ---- the other questions of the engine ---- */

int64
sx_kafka_available(SxSource *base, const SxOffset *start, const SxChoose *choose)
{
	SxKafkaSource *source = (SxKafkaSource *) base;

	sx_kafka_connect(source);
	return total_of(make_choice(source, start, choose));
}

SxOffset *
sx_kafka_latest(SxSource *base, const SxOffset *start, const SxChoose *choose)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	SxChoose	all = *choose;
	Choice	   *choice;

	all.fresh = true;
	all.max_rows = PG_INT64_MAX;
	sx_kafka_connect(source);
	sx_kafka_check_gone(source, (const SxKafkaOffset *) start);
	sx_kafka_ask_ends_of(source, NULL);
	choice = make_choice(source, start, &all);
	return make_end(choice);
}

/* DT_NOBEGIN: the thread has told us something since the last look. */
TimestampTz
sx_kafka_next_time(SxSource *base, const SxOffset *start)
{
	SxKafkaSource *source = (SxKafkaSource *) base;

	if (source->fetcher == NULL || sx_kafka_fetcher_news(source->fetcher) ||
		rd_kafka_queue_length(source->client->main_queue) > 0 ||
		(source->discovery != NULL && source->discovery->done))
		return DT_NOBEGIN;
	return source->discovery != NULL ? source->due : Min(source->due, source->next_discovery);
}
