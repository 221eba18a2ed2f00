/*
 * kafka_reader.c
 *		A stream's connection to its brokers, and the partitions that it reads.
 *
 * Partitions are looked for at the start and every discovery_interval after that.
 * New ones are read from offset 0, whatever the query began with: what was written
 * before somebody noticed them is part of the stream. One that several looks in a
 * row don't find is gone.
 *
 * Loss (Spark sources 1.3) is: the log of a partition begins behind the wanted
 * offset, or ends before it, or the partition is gone. A gap within the log, from
 * compaction or transactions, is none. fail_on_data_loss decides whether it is an
 * error or an incident, which is written down with the batch that goes on.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/bitmapset.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "base/errors.h"
#include "base/wake.h"
#include "kafka/handle.h"
#include "source/kafka_ask.h"
#include "source/kafka_reader.h"

#define ASK_TIMEOUT_MS		10000	/* at a start; the first connection may take long */
#define PROBE_TIMEOUT_MS	2000	/* when the last question was not answered */
#define CONFIRM_TIMES		3	/* looks before something counts as lost */
#define CONFIRM_MS			300
#define QUEUE_BYTES			(32 * 1024 * 1024)	/* of librdkafka, for all partitions; or half of "prefetch" */
#define LEAST_QUEUE			1000	/* records */
#define MOST_QUEUE			1000000
#define EXPECTED_PARTS		8
#define LEAST_FETCH			(128 * 1024)
#define MOST_FETCH			(1024 * 1024)

/* ---- the connection ---- */

static void
wake_worker(void *arg)
{
	sx_wake();
}

/* Readers with a thread, for the end of the process. */
static List *live_readers = NIL;

static void
stop_thread(SxKafkaSource *source)
{
	SxKafkaFetcher *fetcher = source->fetcher;

	source->fetcher = NULL;
	source->decoder_told = false;
	source->nparts = 0;
	source->discovered = false;
	source->pending.valid = false;
	if (source->discovery_job != NULL)
		sx_kafka_job_abandon(source->discovery_job);
	source->discovery_job = NULL;
	source->discovery = NULL;
	if (fetcher != NULL)
		sx_kafka_fetcher_destroy(fetcher);
}

/* The thread must not run on while the process is taken apart. */
static void
stop_all_threads(int code, Datum arg)
{
	ListCell   *lc;

	foreach(lc, live_readers)
		stop_thread(lfirst(lc));
}

/* The context of the connection goes; the client closes itself after this. */
static void
on_connection_reset(void *arg)
{
	SxKafkaSource *source = arg;

	stop_thread(source);
	live_readers = list_delete_ptr(live_readers, source);
	source->client = NULL;
	source->connection = NULL;
}

void
sx_kafka_disconnect(SxKafkaSource *source)
{
	if (source->connection != NULL)
		MemoryContextDelete(source->connection);
}

/*
 * What a stream may set itself comes from its options; what must be so stands in
 * extra. Queues of partitions are bounded one by one, so their bounds are shares.
 */
static void
open_client(SxKafkaSource *source)
{
	SxKafkaSettings *settings = sx_kafka_settings(source->serverid, source->userid,
												  source->table_options);
	int			nparts = Max(source->expected_parts, EXPECTED_PARTS);
	int			share = Max(Min(source->options.prefetch / 2, QUEUE_BYTES) / nparts, LEAST_FETCH);
	const char *queue_kbytes = sx_kafka_settings_get(settings, "queued.max.messages.kbytes");
	const char *extra[32];
	int			n = 0;

	if (queue_kbytes == NULL)
		queue_kbytes = psprintf("%d", share / 1024);
	source->queue_bytes = 1024 * strtoul(queue_kbytes, NULL, 10);
#define ALWAYS(name, value) (extra[n++] = (name), extra[n++] = (value))
#define UNLESS_SET(name, value) \
	(sx_kafka_settings_get(settings, (name)) == NULL ? (void) ALWAYS(name, value) : (void) 0)
	ALWAYS("enable.auto.commit", "false");
	ALWAYS("auto.commit.enable", "false");
	ALWAYS("auto.offset.reset", "error");
	ALWAYS("enable.partition.eof", "true");
	ALWAYS("isolation.level", source->options.read_committed ? "read_committed" :
		   "read_uncommitted");
	UNLESS_SET("queued.min.messages", psprintf("%zu", Min(Max(source->queue_bytes / SX_KAFKA_LEAST_RECORD,
															  LEAST_QUEUE), MOST_QUEUE)));
	ALWAYS("queued.max.messages.kbytes", queue_kbytes);
	UNLESS_SET("fetch.message.max.bytes", psprintf("%d", Min(share, MOST_FETCH)));
	UNLESS_SET("fetch.wait.max.ms", "250");
	UNLESS_SET("fetch.error.backoff.ms", "100");
	if (rd_kafka_version() >= 0x02020000)
		UNLESS_SET("fetch.queue.backoff.ms", "5");
	UNLESS_SET("topic.metadata.refresh.interval.ms", "30000");
#undef ALWAYS
#undef UNLESS_SET
	extra[n] = NULL;
	source->client = sx_kafka_client_open(RD_KAFKA_CONSUMER, settings, extra, 0);
}

static void
connect_client(SxKafkaSource *source)
{
	static bool registered = false;
	const uint64 one = 1;
	MemoryContextCallback *callback;
	MemoryContext oldcontext;

	if (!registered)
		on_proc_exit(stop_all_threads, (Datum) 0);
	registered = true;
	(void) sx_wake_fd();
	source->connection = AllocSetContextCreate(source->context, "streamx kafka connection",
											   ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(source->connection);
	open_client(source);
	rd_kafka_queue_io_event_enable(source->client->main_queue, sx_wake_fd(), &one, sizeof(one));

	/* After the client's own, so that it is called before. */
	callback = palloc0(sizeof(MemoryContextCallback));
	callback->func = on_connection_reset;
	callback->arg = source;
	MemoryContextRegisterResetCallback(source->connection, callback);
	source->fetcher = sx_kafka_fetcher_create(source->client->rk, source->options.prefetch,
											  source->queue_bytes, source->columns.keep, wake_worker, NULL);
	MemoryContextSwitchTo(TopMemoryContext);
	live_readers = lappend(live_readers, source);
	MemoryContextSwitchTo(oldcontext);
}

/* ---- questions ---- */

static void
ask(SxKafkaSource *source, SxKafkaAsk *question)
{
	bool		was_away = source->away;

	if (was_away)
		question->timeout_ms = PROBE_TIMEOUT_MS;
	source->away = true;		/* unless it is answered */
	sx_kafka_ask_wait(source->client, question);
	source->away = false;
}

void
sx_kafka_ask_ends_of(SxKafkaSource *source, const bool *which)
{
	SxKafkaAsk *question = sx_kafka_ask_make(SX_KAFKA_ASK_ENDS, ASK_TIMEOUT_MS);
	int			j = 0;

	for (int i = 0; i < source->nparts; i++)
		if (which == NULL || which[i])
			sx_kafka_ask_add(question, source->parts[i]->topic, source->parts[i]->partition, 0);
	ask(source, question);
	for (int i = 0; i < source->nparts; i++)
	{
		SxKafkaPart *part = source->parts[i];

		if (which != NULL && !which[i])
			continue;
		part->asked_error = question->asked[j].error;
		if (part->asked_error == RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			part->low = question->asked[j].low;
			part->high = question->asked[j].high;
		}
		j++;
	}
	sx_kafka_ask_free(question);
}

/* ---- which partitions there are ---- */

static SxKafkaAsk *
discovery_question(SxKafkaSource *source, int timeout_ms)
{
	SxKafkaAsk *question = sx_kafka_ask_make(SX_KAFKA_ASK_TOPICS, timeout_ms);
	const char *last = NULL;
	ListCell   *lc;

	foreach(lc, source->options.names)
		sx_kafka_ask_add(question, lfirst(lc), -1, 0);
	for (int i = 0; i < source->options.assigned.n; i++)
	{
		const char *topic = source->options.assigned.at[i].topic;

		if (last == NULL || strcmp(last, topic) != 0)
			sx_kafka_ask_add(question, topic, -1, 0);
		last = topic;
	}
	return question;
}

static bool
matches(const SxKafkaSource *source, const char *topic)
{
	char	   *pattern;
	bool		result;

	/* As a Java pattern matches: the whole name. */
	pattern = psprintf("^(?:%s)$", source->options.pattern);
	result = DatumGetBool(DirectFunctionCall2Coll(textregexeq, C_COLLATION_OID,
												  CStringGetTextDatum(topic),
												  CStringGetTextDatum(pattern)));
	pfree(pattern);
	return result;
}

static bool
is_ours(const SxKafkaSource *source, const SxKafkaAsked *found)
{
	switch (source->options.topics)
	{
		case SX_KAFKA_SUBSCRIBE:
			return true;
		case SX_KAFKA_ASSIGN:
			return sx_kafka_positions_find(&source->options.assigned, found->topic,
										   found->partition) != NULL;
		case SX_KAFKA_PATTERN:
			return matches(source, found->topic);
	}
	return false;
}

static int
compare_part(const SxKafkaPart *part, const char *topic, int32 partition)
{
	int			result = strcmp(part->topic, topic);

	if (result != 0)
		return result;
	return part->partition < partition ? -1 : part->partition > partition;
}

static SxKafkaPart *
add_part(SxKafkaSource *source, const char *topic, int32 partition)
{
	int			at = source->nparts;
	SxKafkaPart *part;

	while (at > 0 && compare_part(source->parts[at - 1], topic, partition) > 0)
		at--;
	if (at > 0 && compare_part(source->parts[at - 1], topic, partition) == 0)
		return source->parts[at - 1];
	part = sx_kafka_fetcher_add(source->fetcher, topic, partition);
	if (source->parts == NULL)
	{
		source->parts_size = 16;
		source->parts = MemoryContextAlloc(source->context, sizeof(SxKafkaPart *) * 16);
	}
	else if (source->nparts == source->parts_size)
	{
		source->parts_size *= 2;
		source->parts = repalloc(source->parts, sizeof(SxKafkaPart *) * source->parts_size);
	}
	memmove(source->parts + at + 1, source->parts + at,
			sizeof(SxKafkaPart *) * (source->nparts - at));
	source->parts[at] = part;
	source->nparts++;
	source->pending.valid = false;	/* it counts by part */
	return part;
}

static void
use_discovery(SxKafkaSource *source, const SxKafkaAsk *answer)
{
	for (int i = 0; i < source->nparts; i++)
		source->parts[i]->missing++;
	for (int i = 0; i < answer->nfound; i++)
	{
		const SxKafkaAsked *found = &answer->found[i];
		SxKafkaPart *part;

		if (found->partition < 0)
		{
			/* The topic cannot be told now; or it is not there, and whoever needs it says so. */
			for (int j = 0; found->error != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART &&
				 found->error != RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC && j < source->nparts; j++)
				if (strcmp(source->parts[j]->topic, found->topic) == 0)
					source->parts[j]->missing--;
			continue;
		}
		if (!is_ours(source, found))
			continue;
		part = add_part(source, found->topic, found->partition);
		part->missing = 0;
		part->gone = false;
	}
	source->discovered = true;
	source->next_discovery = GetCurrentTimestamp() + source->options.discovery_interval;
}

/* A topic that is named must be there, unless the checkpoint knows it: then it is lost. */
static void
check_topics(SxKafkaSource *source, const SxKafkaAsk *answer)
{
	for (int i = 0; i < answer->nfound; i++)
	{
		const SxKafkaAsked *found = &answer->found[i];

		if (found->partition >= 0 || source->options.topics == SX_KAFKA_PATTERN)
			continue;
		sx_kafka_raise(source->client, found->error == RD_KAFKA_RESP_ERR_NO_ERROR ?
					   RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE : found->error, NULL,
					   "could not read topic \"%s\" for stream %s", found->topic,
					   source->base.name);
	}
	for (int i = 0; i < source->options.assigned.n; i++)
	{
		const SxKafkaPosition *it = &source->options.assigned.at[i];
		bool		found = false;

		for (int j = 0; j < source->nparts; j++)
			found |= compare_part(source->parts[j], it->topic, it->partition) == 0;
		if (!found)
			sx_kafka_raise(source->client, RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION, NULL,
						   "could not read partition %d of topic \"%s\" for stream %s",
						   it->partition, it->topic, source->base.name);
	}
}

static void
discover_now(SxKafkaSource *source, bool complain)
{
	SxKafkaAsk *question = discovery_question(source, ASK_TIMEOUT_MS);

	ask(source, question);
	PG_TRY();
	{
		use_discovery(source, question);
		if (complain)
			check_topics(source, question);
	}
	PG_FINALLY();
	{
		sx_kafka_ask_free(question);
	}
	PG_END_TRY();
}

static void
connect_and_find(SxKafkaSource *source, bool complain)
{
	if (source->client != NULL && source->client->fatal != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_disconnect(source);
	if (source->fetcher == NULL)
	{
		sx_kafka_disconnect(source);	/* a failed attempt */
		connect_client(source);
	}
	sx_kafka_client_poll(source->client);
	if (source->away && source->discovered)
		discover_now(source, false);	/* raises again what is wrong, or it is well again */
	if (source->discovered)
		return;
	discover_now(source, complain);
	if (source->nparts > 2 * Max(source->expected_parts, EXPECTED_PARTS))
	{
		/* The queues of so many partitions must be shorter. */
		source->expected_parts = source->nparts;
		sx_kafka_disconnect(source);
		connect_client(source);
		discover_now(source, complain);
	}
	sx_kafka_ask_ends_of(source, NULL);
}

void
sx_kafka_connect(SxKafkaSource *source)
{
	connect_and_find(source, false);
}

void
sx_kafka_connect_first(SxKafkaSource *source)
{
	connect_and_find(source, true);
}

/* The answer to a look for partitions, if it has come. */
static void
finish_discovery(SxKafkaSource *source)
{
	SxKafkaAsk *answer = source->discovery;
	rd_kafka_resp_err_t error;

	if (source->discovery_job == NULL || !sx_kafka_job_ended(source->discovery_job, &error))
		return;
	source->discovery_job = NULL;
	source->discovery = NULL;
	source->next_discovery = GetCurrentTimestamp() + source->options.discovery_interval;
	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
	{
		int			before = source->nparts;

		use_discovery(source, answer);
		sx_kafka_ask_free(answer);
		if (source->nparts > before)
			sx_kafka_ask_ends_of(source, NULL);
		return;
	}
	sx_kafka_ask_free(answer);
	source->away = true;
	sx_kafka_raise(source->client, error, NULL, "could not reach the Kafka brokers of stream %s",
				   source->base.name);
}

/* A broker that goes away is found out at once, by looking for it. */
static void
suspect(SxKafkaSource *source)
{
	if (source->client->cause_text == source->suspected)
		return;
	source->suspected = source->client->cause_text;
	if (source->client->cause != SX_KAFKA_OK)
		source->next_discovery = GetCurrentTimestamp();
}

void
sx_kafka_look_around(SxKafkaSource *source)
{
	sx_kafka_client_poll(source->client);
	suspect(source);
	finish_discovery(source);
	if (source->discovery_job == NULL && GetCurrentTimestamp() >= source->next_discovery)
	{
		source->discovery = discovery_question(source, ASK_TIMEOUT_MS);
		source->discovery_job = sx_kafka_ask_begin(source->client, source->discovery);
	}
}

/* ---- what is lost ---- */

static void
lost(SxKafkaSource *source, const char *message, const char *detail)
{
	MemoryContext oldcontext;
	SxKafkaIncident *incident;

	if (source->options.fail_on_data_loss)
		ereport(ERROR,
				(errcode(ERRCODE_SX_DATA_LOST),
				 errmsg_internal("%s", message),
				 errdetail_internal("%s", detail),
				 errhint("With option fail_on_data_loss 'false' the stream goes on with what is there.")));
	ereport(WARNING,
			(errcode(ERRCODE_SX_DATA_LOST),
			 errmsg_internal("%s", message),
			 errdetail_internal("%s", detail)));
	oldcontext = MemoryContextSwitchTo(source->context);
	incident = palloc(sizeof(SxKafkaIncident));
	incident->message = pstrdup(message);
	incident->detail = pstrdup(detail);
	source->incidents = lappend(source->incidents, incident);
	MemoryContextSwitchTo(oldcontext);
}

static void
wait_a_little(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 CONFIRM_MS, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/* A follower that became leader may lag for a moment: asked again, as Spark does. */
static void
confirm_end(SxKafkaSource *source, int i, int64 wanted)
{
	bool	   *which = palloc0(sizeof(bool) * source->nparts);

	which[i] = true;
	for (int times = 1; times < CONFIRM_TIMES && source->parts[i]->high < wanted; times++)
	{
		wait_a_little();
		sx_kafka_ask_ends_of(source, which);
	}
	pfree(which);
}

int64
sx_kafka_after_losses(SxKafkaSource *source, int i, int64 wanted)
{
	SxKafkaPart *part = source->parts[i];

	if (part->high < wanted)
		confirm_end(source, i, wanted);
	if (part->high < wanted)
	{
		part->moved_from = wanted;
		part->moved_to = part->high;
		lost(source, psprintf("partition %d of topic \"%s\" ends before the offset where stream %s is",
							  part->partition, part->topic, source->base.name),
			 psprintf("The stream wants offset " INT64_FORMAT ", the log of the partition is " INT64_FORMAT
					  " to " INT64_FORMAT ". The topic was deleted and made again, or lost its newest records.",
					  wanted, part->low, part->high));
		return part->high;
	}
	if (part->low > wanted)
		lost(source, psprintf("records of partition %d of topic \"%s\" are gone before stream %s has read them",
							  part->partition, part->topic, source->base.name),
			 psprintf("The stream wants offset " INT64_FORMAT ", but the log of the partition begins at " INT64_FORMAT
					  ": at most " INT64_FORMAT " rows are lost.",
					  wanted, part->low, part->low - wanted));
	return wanted;
}

void
sx_kafka_check_gone(SxKafkaSource *source, const SxKafkaOffset *start)
{
	for (int i = 0; i < start->positions.n; i++)
	{
		const SxKafkaPosition *it = &start->positions.at[i];
		SxKafkaPart *part = NULL;

		if (it->offset < 0)
			continue;
		for (int j = 0; j < source->nparts; j++)
			if (compare_part(source->parts[j], it->topic, it->partition) == 0)
				part = source->parts[j];
		if (part == NULL)
		{
			/* Not found at all: look again before it counts. */
			for (int times = 1; times < CONFIRM_TIMES && part == NULL; times++)
			{
				wait_a_little();
				discover_now(source, false);
				for (int j = 0; j < source->nparts; j++)
					if (compare_part(source->parts[j], it->topic, it->partition) == 0)
						part = source->parts[j];
			}
			if (part == NULL)
			{
				part = add_part(source, it->topic, it->partition);
				part->missing = CONFIRM_TIMES;
			}
			else
				sx_kafka_ask_ends_of(source, NULL);
		}
		if (part->missing < CONFIRM_TIMES || part->gone)
			continue;
		part->gone = true;
		lost(source, psprintf("partition %d of topic \"%s\" is gone", part->partition, part->topic),
			 psprintf("Stream %s has read it up to offset " INT64_FORMAT "; what came after that is lost.",
					  source->base.name, it->offset));
		sx_kafka_part_stop(source->fetcher, part);
		source->pending.valid = false;
	}
}

/* ---- reading from the right place ---- */

int64 *
sx_kafka_begins(SxKafkaSource *source, const SxKafkaOffset *start)
{
	int64	   *begins = palloc(sizeof(int64) * Max(source->nparts, 1));

	for (int i = 0; i < source->nparts; i++)
	{
		int64		at = sx_kafka_offset_at(start, source->parts[i]->topic,
											source->parts[i]->partition);

		begins[i] = at < 0 ? 0 :
			at == source->parts[i]->moved_from ? source->parts[i]->moved_to : at;
	}
	return begins;
}

void
sx_kafka_raise_part(SxKafkaSource *source, SxKafkaPart *part, const SxKafkaPartState *state)
{
	char	   *text = pstrdup(part->error_text);

	/* Begun anew by the next try. */
	sx_kafka_part_stop(source->fetcher, part);
	part->kept_from = PG_INT64_MAX;
	sx_kafka_raise(source->client, state->error, text,
				   "could not read partition %d of topic \"%s\" at offset " INT64_FORMAT,
				   part->partition, part->topic, state->position);
}

/*
 * The connection breaks whenever the response comes, and is made again; only the
 * words of the library tell what is the matter.
 */
void
sx_kafka_check_too_large(SxKafkaSource *source, SxKafkaPart *part, int64 position)
{
	SxKafkaClient *client = source->client;
	char	   *text;

	if (client->cause_text == NULL || strstr(client->cause_text, "receive.message.max.bytes") == NULL)
		return;
	text = pstrdup(client->cause_text);
	free(client->cause_text);
	client->cause_text = NULL;	/* if it is so still, it is said again */
	client->cause = SX_KAFKA_OK;
	source->suspected = NULL;
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("a record in partition %d of topic \"%s\" is larger than the client may receive",
					part->partition, part->topic),
			 errdetail("Stream %s has read the partition up to offset " INT64_FORMAT ". librdkafka: %s",
					   source->base.name, position, text),
			 errhint("Raise option \"kafka.receive.message.max.bytes\" of the stream.")));
}

static bool
is_out_of_range(rd_kafka_resp_err_t error)
{
	return error == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET ||
		error == RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE;
}

static bool
is_unknown(rd_kafka_resp_err_t error)
{
	return error == RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION ||
		error == RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC ||
		error == RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
}

/* Must the part be begun at `begin` because what there is doesn't serve? */
static bool
must_begin(SxKafkaSource *source, SxKafkaPart *part, int64 begin)
{
	SxKafkaPartState state;

	if (!part->wanted || begin < part->kept_from)
		return true;
	sx_kafka_part_state(source->fetcher, part, &state);
	if (begin > state.position)
		return true;
	if (state.error == RD_KAFKA_RESP_ERR_NO_ERROR || state.position > begin)
		return false;			/* what was read before the error is good */
	if (is_unknown(state.error))
	{
		/* Deleted, perhaps made again: the next look tells. */
		source->next_discovery = Min(source->next_discovery, GetCurrentTimestamp());
		return part->missing == 0;
	}
	if (!is_out_of_range(state.error))
		sx_kafka_raise_part(source, part, &state);
	return true;
}

bool
sx_kafka_ensure_begins(SxKafkaSource *source, int64 *begins)
{
	bool	   *which = palloc0(sizeof(bool) * Max(source->nparts, 1));
	bool		any = false;

	for (int i = 0; i < source->nparts; i++)
	{
		which[i] = !source->parts[i]->gone && must_begin(source, source->parts[i], begins[i]);
		any |= which[i];
	}
	if (!any)
		return true;
	sx_kafka_ask_ends_of(source, which);
	for (int i = 0; i < source->nparts; i++)
	{
		SxKafkaPart *part = source->parts[i];
		int64		begin;

		if (!which[i])
			continue;
		if (part->asked_error != RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			if (is_unknown(part->asked_error))
				continue;		/* the next look tells whether it is gone */
			sx_kafka_raise(source->client, part->asked_error, NULL,
						   "could not read partition %d of topic \"%s\"",
						   part->partition, part->topic);
		}
		begin = sx_kafka_after_losses(source, i, begins[i]);
		sx_kafka_part_start(source->fetcher, part, Max(begin, part->low));
		part->kept_from = Min(begin, begins[i]);
		begins[i] = begin;
	}
	source->pending.valid = false;
	pfree(which);
	return false;
}

int64
sx_kafka_known_end(SxKafkaSource *source, const SxKafkaPart *part, const SxKafkaPartState *state)
{
	int64		low;
	int64		high;
	int64		end = Max(part->high, state->position);

	if (rd_kafka_get_watermark_offsets(source->client->rk, part->topic, part->partition,
									   &low, &high) == RD_KAFKA_RESP_ERR_NO_ERROR)
		end = Max(end, high);
	return end;
}
