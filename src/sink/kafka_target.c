/*
 * kafka_target.c
 *		Producer, mark and publishing thread of one identity.
 */
#include "postgres.h"

#include <time.h>

#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "foreign/foreign.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/compat.h"
#include "base/errors.h"
#include "base/wake.h"
#include "kafka/client.h"
#include "kafka/topic_limit.h"
#include "registry/query.h"
#include "sink/kafka_publisher.h"
#include "sink/kafka_target.h"

#define SLICE_MS		100		/* a library call blocks so long, then interrupts are looked at */
#define REASON_SIZE		512
#define SILENT_MS		2000	/* a transaction that takes longer is worth a word */
#define DEFAULT_MAX_BYTES	1000000
#define SMALLER_BATCHES	8		/* times, when a topic refuses one */
#define LIMIT_MS		2000	/* for an answer about the limit of a topic */

/* Only when it is over does the library give up what got stuck as a broker went down. */
#define TRANSACTION_MS	"20000"
#define QUEUE_KB		"65536"	/* of records on their way to the brokers */

/* A mark that comes while the transaction before is being ended is refused, and sent again after this. */
#define RETRY_MS		"10"

/* Group offsets are forgotten after 7 days by default. */
#define RENEW_EVERY_S	(24 * 60 * 60)

struct SxKafkaTarget
{
	MemoryContext context;
	const SxKafkaStream *stream;	/* lives longer */
	const SxKafkaSettings *settings;
	int			answer_ms;		/* so long without an answer is an error */
	char	   *identity;
	char	   *transactional_id;
	char	   *group;
	char	   *run;			/* this process, as a uuid */
	char		run_before[64];	/* whose mark was there when we began; "": none */

	/*
	 * Batches of records: the library sends up to batch_bytes at once, and a topic may
	 * take less.  0: as the settings say.
	 */
	bool		compressed;
	List	   *limits;			/* TopicLimit * */
	int			batch_bytes;

	SxKafkaClient *client;		/* the producer; NULL: lost, to be opened again */
	bool		taken;			/* it has the identity */
	int			opened_batch_bytes;
	SxKafkaPublisher *publisher;	/* NULL before begin */
	int64		last_end;		/* newest batch handed over, with its mark */
	int64		marked_at;		/* seconds; when the mark was written last */
	char		token[64];		/* of the newest batch that was handed over, or is there */
	char		trouble[256];
};

typedef struct TopicLimit
{
	char	   *topic;
	int			bytes;			/* -1: not known */
} TopicLimit;

/* What the metadata of a mark says. */
typedef struct Mark
{
	int64		batch;			/* -1: none */
	bool		exists;
	int64		timeline;
	int64		at;
	char		run[64];
	char		token[64];
} Mark;

/* ---- the stream ---- */

SxKafkaStream *
sx_kafka_stream_read(Oid relid)
{
	SxKafkaStream *stream = palloc0(sizeof(SxKafkaStream));
	ListCell   *lc;

	stream->relid = relid;
	stream->name = get_rel_name(relid);
	stream->max_bytes = DEFAULT_MAX_BYTES;
	stream->format_options = GetForeignTable(relid)->options;
	foreach(lc, stream->format_options)
	{
		DefElem    *option = lfirst(lc);
		char	   *value = defGetString(option);

		if (sx_kafka_name_is(option->defname, "topic") ||
			(sx_kafka_name_is(option->defname, "subscribe") && strchr(value, ',') == NULL))
			stream->topic = value;
		else if (sx_kafka_name_is(option->defname, "mark_topic"))
			stream->mark_topic = value;
		else if (sx_kafka_name_is(option->defname, "format"))
			stream->format = value;
		else if (sx_kafka_name_is(option->defname, "key_columns"))
			stream->key_columns = value;
		else if (sx_kafka_name_is(option->defname, "kafka.message.max.bytes") ||
				 sx_kafka_name_is(option->defname, "kafka.max.request.size"))
			stream->max_bytes = pg_strtoint32(value);
	}
	if (stream->mark_topic == NULL)
		stream->mark_topic = stream->topic;
	if (stream->mark_topic == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("stream \"%s\" has no topic to write to", stream->name),
				 errdetail("What was written is marked in the topic that is written to; rows that name their topics need one for that, too."),
				 errhint("Give the stream the option \"topic\", or, for rows with a column \"topic\", \"mark_topic\".")));
	return stream;
}

/* ---- the producer ---- */

/*
 * What the outbox relies on is not for a setting to change.  Delivery reports are
 * not asked for: a transaction with an undelivered record cannot be committed.
 */
static void
open_producer(SxKafkaTarget *target)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(target->context);
	const char *extra[15] = {
		"transactional.id", target->transactional_id,
		"enable.idempotence", "true",
		"queue.buffering.max.kbytes", QUEUE_KB,
	};
	int			n = 6;

	if (sx_kafka_settings_get(target->settings, "transaction.timeout.ms") == NULL)
	{
		extra[n++] = "transaction.timeout.ms";
		extra[n++] = TRANSACTION_MS;
	}
	if (sx_kafka_settings_get(target->settings, "retry.backoff.ms") == NULL)
	{
		extra[n++] = "retry.backoff.ms";
		extra[n++] = RETRY_MS;
	}

	/* All records of a transaction come at once, and its commit waits for them. */
	if (sx_kafka_settings_get(target->settings, "linger.ms") == NULL)
	{
		extra[n++] = "linger.ms";
		extra[n++] = "0";
	}
	if (target->batch_bytes > 0)
	{
		extra[n++] = "batch.size";
		extra[n++] = psprintf("%d", target->batch_bytes);
	}
	target->client = sx_kafka_client_open(RD_KAFKA_PRODUCER, target->settings, extra, 0);
	target->taken = false;
	target->opened_batch_bytes = target->batch_bytes;
	MemoryContextSwitchTo(oldcontext);
}

static void
close_producer(SxKafkaTarget *target)
{
	if (target->publisher != NULL)
		sx_kafka_publisher_stop(target->publisher);
	target->publisher = NULL;
	sx_kafka_client_close(target->client);
	target->client = NULL;
}

/* ---- what topics take at once ---- */

/* What the producer sends at once at most, by what is set and by what was learnt. */
static int
largest_batch(const SxKafkaTarget *target)
{
	const char *set = sx_kafka_settings_get(target->settings, "batch.size");
	int			bytes = set != NULL ? atoi(set) : DEFAULT_MAX_BYTES;

	return target->batch_bytes > 0 ? Min(target->batch_bytes, bytes) : bytes;
}

static TopicLimit *
find_limit(SxKafkaTarget *target, const char *topic)
{
	TopicLimit *limit;
	ListCell   *lc;
	MemoryContext oldcontext;

	foreach(lc, target->limits)
	{
		limit = lfirst(lc);
		if (strcmp(limit->topic, topic) == 0)
			return limit;
	}
	oldcontext = MemoryContextSwitchTo(target->context);
	limit = palloc(sizeof(TopicLimit));
	limit->topic = pstrdup(topic);
	limit->bytes = -1;
	target->limits = lappend(target->limits, limit);
	MemoryContextSwitchTo(oldcontext);
	return limit;
}

int
sx_kafka_target_topic_limit(SxKafkaTarget *target, const char *topic, bool anew)
{
	int			nknown = list_length(target->limits);
	TopicLimit *limit = find_limit(target, topic);
	int			bytes;

	if (target->client == NULL || (!anew && nknown == list_length(target->limits)))
		return target->compressed ? -1 : limit->bytes;
	bytes = sx_kafka_topic_limit(target->client, topic, LIMIT_MS);
	if (bytes >= 0)
		limit->bytes = bytes;
	if (limit->bytes > 0 && limit->bytes < largest_batch(target))
		target->batch_bytes = limit->bytes;
	return target->compressed ? -1 : limit->bytes;
}

int
sx_kafka_target_known_limit(SxKafkaTarget *target)
{
	return target->stream->topic == NULL || target->compressed ? -1 :
		find_limit(target, target->stream->topic)->bytes;
}

SxKafkaTarget *
sx_kafka_target_open(const SxKafkaStream *stream, Oid user, const char *identity, int answer_ms)
{
	SxKafkaTarget *target = palloc0(sizeof(SxKafkaTarget));
	ForeignTable *table = GetForeignTable(stream->relid);
	pg_uuid_t	run;

	target->context = CurrentMemoryContext;
	target->stream = stream;
	/* Once: later clients are made outside of transactions. */
	target->settings = sx_kafka_settings(table->serverid, user, table->options);
	target->compressed = sx_kafka_compresses(target->settings);
	target->answer_ms = answer_ms;
	target->identity = pstrdup(identity);
	target->transactional_id = psprintf("streamx-" UINT64_FORMAT "-%s-0-0",
										GetSystemIdentifier(), identity);
	target->group = psprintf("streamx-%s", identity);
	sx_uuid_random(&run);
	target->run = DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&run)));
	target->last_end = -1;
	open_producer(target);
	return target;
}

bool
sx_kafka_target_idle(SxKafkaTarget *target)
{
	return target->publisher == NULL ||
		sx_kafka_publisher_published(target->publisher) >= target->last_end;
}

void
sx_kafka_target_close(SxKafkaTarget *target)
{
	/* What is on its way may arrive, if that goes quickly. */
	for (int i = 0; i < 30 && target->publisher != NULL; i++)
	{
		SxKafkaFailure failure;
		long long	busy = sx_kafka_publisher_busy(target->publisher);

		if (sx_kafka_publisher_published(target->publisher) >= target->last_end ||
			sx_kafka_publisher_failed(target->publisher, &failure) || busy > 500)
			break;
		pg_usleep(10000);
	}
	close_producer(target);
}

/* ---- the mark ---- */

static char *
print_metadata(const SxKafkaTarget *target, int64 batch)
{
	return psprintf("{\"batch\":%lld,\"token\":\"%s\",\"timeline\":%u,\"run\":\"%s\",\"at\":%lld}",
					(long long) batch, target->token, GetWALInsertionTimeLine(), target->run,
					(long long) time(NULL));
}

/* Written by print_metadata; a number of it, or -1. */
static int64
metadata_number(const char *metadata, const char *name)
{
	char	   *label = psprintf("\"%s\":", name);
	const char *at = strstr(metadata, label);

	return at != NULL ? strtoi64(at + strlen(label), NULL, 10) : -1;
}

static void
metadata_text(const char *metadata, const char *name, char *text, size_t size)
{
	char	   *label = psprintf("\"%s\":\"", name);
	const char *at = strstr(metadata, label);

	if (at == NULL)
		return;
	at += strlen(label);
	snprintf(text, size, "%.*s", (int) strcspn(at, "\""), at);
}

static void
parse_metadata(Mark *mark, const char *metadata)
{
	mark->timeline = metadata_number(metadata, "timeline");
	mark->at = metadata_number(metadata, "at");
	metadata_text(metadata, "run", mark->run, sizeof(mark->run));
	metadata_text(metadata, "token", mark->token, sizeof(mark->token));
}

/* The one partition of the reply; returns its error. */
static rd_kafka_resp_err_t
parse_reply(rd_kafka_event_t *event, Mark *mark, char *reason, size_t size)
{
	rd_kafka_resp_err_t code = rd_kafka_event_error(event);
	const rd_kafka_ListConsumerGroupOffsets_result_t *result;
	const rd_kafka_group_result_t **groups;
	const rd_kafka_topic_partition_list_t *partitions;
	size_t		n = 0;

	snprintf(reason, size, "%s", code ? rd_kafka_event_error_string(event) : "");
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		return code;
	result = rd_kafka_event_ListConsumerGroupOffsets_result(event);
	groups = rd_kafka_ListConsumerGroupOffsets_result_groups(result, &n);
	if (n != 1)
		return RD_KAFKA_RESP_ERR__BAD_MSG;
	if (rd_kafka_group_result_error(groups[0]) != NULL)
	{
		snprintf(reason, size, "%s", rd_kafka_error_string(rd_kafka_group_result_error(groups[0])));
		return rd_kafka_error_code(rd_kafka_group_result_error(groups[0]));
	}
	partitions = rd_kafka_group_result_partitions(groups[0]);
	if (partitions == NULL || partitions->cnt != 1)
		return RD_KAFKA_RESP_ERR__BAD_MSG;
	if (partitions->elems[0].err != RD_KAFKA_RESP_ERR_NO_ERROR)
	{
		snprintf(reason, size, "%s", rd_kafka_err2str(partitions->elems[0].err));
		return partitions->elems[0].err;
	}
	if (partitions->elems[0].offset >= 0)
	{
		char	   *metadata = pnstrdup(partitions->elems[0].metadata ? partitions->elems[0].metadata : "",
										partitions->elems[0].metadata_size);

		mark->exists = true;
		mark->batch = partitions->elems[0].offset - 1;
		parse_metadata(mark, metadata);
		pfree(metadata);
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/*
 * Asks as a consumer of the group, which joins nothing.  With the producer the
 * library crashes when the coordinator has moved, or is not there yet: it looks
 * for the new one through the consumer that a producer has not (2.0.2 and later).
 */
static SxKafkaClient *
open_reader(SxKafkaTarget *target)
{
	const char *const extra[] = {"group.id", target->group, NULL};

	return sx_kafka_client_open(RD_KAFKA_CONSUMER, target->settings, extra, 0);
}

static void
request_mark(SxKafkaTarget *target, SxKafkaClient *reader, rd_kafka_queue_t *replies)
{
	rd_kafka_topic_partition_list_t *partitions = rd_kafka_topic_partition_list_new(1);
	rd_kafka_ListConsumerGroupOffsets_t *request;
	rd_kafka_AdminOptions_t *options;
	rd_kafka_error_t *error;

	rd_kafka_topic_partition_list_add(partitions, target->stream->mark_topic, 0);
	request = rd_kafka_ListConsumerGroupOffsets_new(target->group, partitions);
	options = rd_kafka_AdminOptions_new(reader->rk, RD_KAFKA_ADMIN_OP_LISTCONSUMERGROUPOFFSETS);
	error = rd_kafka_AdminOptions_set_require_stable_offsets(options, 1);
	if (error != NULL)
		rd_kafka_error_destroy(error);
	rd_kafka_AdminOptions_set_request_timeout(options, target->answer_ms, NULL, 0);
	rd_kafka_ListConsumerGroupOffsets(reader->rk, &request, 1, options, replies);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_ListConsumerGroupOffsets_destroy(request);
	rd_kafka_topic_partition_list_destroy(partitions);
}

/* NULL: no answer in time. */
static rd_kafka_event_t *
await_reply(SxKafkaTarget *target, rd_kafka_queue_t *replies)
{
	for (int waited = 0; waited < target->answer_ms; waited += SLICE_MS)
	{
		rd_kafka_event_t *event;

		sx_check_stop();
		event = rd_kafka_queue_poll(replies, SLICE_MS);
		if (event == NULL)
			continue;
		if (rd_kafka_event_type(event) == RD_KAFKA_EVENT_LISTCONSUMERGROUPOFFSETS_RESULT)
			return event;
		rd_kafka_event_destroy(event);
	}
	return NULL;
}

/* Stable: while a transaction that moves it is being ended it is asked for again. */
static rd_kafka_resp_err_t
ask_mark(SxKafkaTarget *target, SxKafkaClient *reader, rd_kafka_queue_t *replies,
		 TimestampTz until, Mark *mark, char *reason)
{
	for (;;)
	{
		rd_kafka_resp_err_t code;
		rd_kafka_event_t *event;

		memset(mark, 0, sizeof(*mark));
		mark->batch = -1;
		request_mark(target, reader, replies);
		event = await_reply(target, replies);
		if (event == NULL)
		{
			strlcpy(reason, "no answer", REASON_SIZE);
			return RD_KAFKA_RESP_ERR__TIMED_OUT;
		}
		code = parse_reply(event, mark, reason, REASON_SIZE);
		rd_kafka_event_destroy(event);
		if ((code != RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT &&
			 code != RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS) ||
			GetCurrentTimestamp() >= until)
			return code;
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, 20, PG_WAIT_EXTENSION);
		sx_check_stop();
	}
}

/* A coordinator that is another's by now is looked for anew by a new reader. */
static void
read_mark(SxKafkaTarget *target, Mark *mark)
{
	TimestampTz until = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), target->answer_ms);
	volatile rd_kafka_resp_err_t code;
	char		reason[REASON_SIZE];

	for (;;)
	{
		SxKafkaClient *reader = open_reader(target);
		rd_kafka_queue_t *replies = rd_kafka_queue_new(reader->rk);

		PG_TRY();
		{
			code = ask_mark(target, reader, replies, until, mark, reason);
		}
		PG_FINALLY();
		{
			rd_kafka_queue_destroy(replies);
			sx_kafka_client_close(reader);
		}
		PG_END_TRY();
		if (code == RD_KAFKA_RESP_ERR_NO_ERROR)
			return;
		if ((code != RD_KAFKA_RESP_ERR_NOT_COORDINATOR &&
			 code != RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE) ||
			GetCurrentTimestamp() >= until)
			break;
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, SLICE_MS, PG_WAIT_EXTENSION);
		sx_check_stop();
	}
	sx_kafka_raise(target->client, code, reason, "could not read the mark of the output in topic \"%s\"",
				   target->stream->mark_topic);
}

/* Nothing else says so in time: a mark can be read, and missing, of any topic. */
static void
check_topic(SxKafkaTarget *target)
{
	int			n;
	SxKafkaTopic *topics = sx_kafka_topics(target->client, target->stream->mark_topic,
										   target->answer_ms, &n);

	if (n == 1 && topics[0].err == RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	sx_kafka_raise(target->client,
				   n == 1 ? topics[0].err : RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART, NULL,
				   "could not write to topic \"%s\"", target->stream->mark_topic);
}

int64
sx_kafka_target_mark(SxKafkaTarget *target, const char **foreign)
{
	Mark		mark;

	check_topic(target);
	if (target->stream->topic != NULL)
		(void) sx_kafka_target_topic_limit(target, target->stream->topic, true);
	if (!target->taken && target->batch_bytes != target->opened_batch_bytes)
	{
		close_producer(target);
		open_producer(target);
	}
	read_mark(target, &mark);
	target->marked_at = mark.at;
	strlcpy(target->run_before, mark.run, sizeof(target->run_before));
	strlcpy(target->token, mark.token, sizeof(target->token));
	if (foreign != NULL && mark.exists && mark.timeline > GetWALInsertionTimeLine())
		*foreign = psprintf("It was written on timeline %lld, this server is on timeline %u: another one was promoted and took over.",
							(long long) mark.timeline, GetWALInsertionTimeLine());
	return mark.batch;
}

typedef struct InitCall
{
	int			timeout_ms;
	char		reason[REASON_SIZE];	/* out */
} InitCall;

/* Thread: of sx_kafka_call. */
static rd_kafka_resp_err_t
init_transactions(rd_kafka_t *rk, void *arg)
{
	rd_kafka_error_t *error = rd_kafka_init_transactions(rk, ((InitCall *) arg)->timeout_ms);
	rd_kafka_resp_err_t code = rd_kafka_error_code(error);

	if (error != NULL)
	{
		strlcpy(((InitCall *) arg)->reason, rd_kafka_error_string(error), REASON_SIZE);
		rd_kafka_error_destroy(error);
	}
	return code;
}

const char *
sx_kafka_target_token(SxKafkaTarget *target)
{
	return target->token;
}

void
sx_kafka_target_take(SxKafkaTarget *target)
{
	InitCall   *call = calloc(1, sizeof(InitCall));
	rd_kafka_resp_err_t code;
	char	   *said;

	if (call == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	call->timeout_ms = target->answer_ms;
	code = sx_kafka_call(target->client, init_transactions, call, free);
	said = pstrdup(call->reason);
	free(call);
	target->taken = code == RD_KAFKA_RESP_ERR_NO_ERROR;
	if (code != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_raise(target->client, code, said, "could not begin to write to topic \"%s\"",
					   target->stream->mark_topic);
}

/* ---- publishing ---- */

static void
end_intent(SxKafkaTarget *target, int64 batch)
{
	char	   *metadata = print_metadata(target, batch);

	if (sx_kafka_publisher_end(target->publisher, batch, metadata))
	{
		target->last_end = batch;
		target->marked_at = time(NULL);
	}
	pfree(metadata);
}

/* The mark stays where it is; only who writes it changes. */
static void
touch_mark(SxKafkaTarget *target, int64 mark)
{
	if (sx_kafka_publisher_put(target->publisher, "", 0))
		end_intent(target, mark);
}

void
sx_kafka_target_begin(SxKafkaTarget *target, int64 mark)
{
	if (target->publisher != NULL)
		sx_kafka_publisher_set_published(target->publisher, mark);
	else
	{
		SxKafkaPublisherConfig config = {
			.client = target->client,
			.group = target->group,
			.mark_topic = target->stream->mark_topic,
			.published = mark,
		};

		target->publisher = sx_kafka_publisher_start(&config);
		if (target->publisher == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not start a thread that publishes to topic \"%s\"",
							target->stream->mark_topic)));
		touch_mark(target, mark);
	}
}

bool
sx_kafka_target_put(SxKafkaTarget *target, const char *bytes, int len)
{
	return sx_kafka_publisher_put(target->publisher, bytes, len);
}

bool
sx_kafka_target_end(SxKafkaTarget *target, int64 batch_id, const char *token)
{
	strlcpy(target->token, token, sizeof(target->token));
	end_intent(target, batch_id);
	return target->last_end == batch_id;
}

/* Whoever was fenced asks who did it before he gives up (check_fenced). */
static void
raise_failure(SxKafkaTarget *target, const SxKafkaFailure *failure)
{
	if (failure->fenced)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("the brokers take no more from this producer for topic \"%s\"",
						target->stream->mark_topic),
				 errdetail("librdkafka: %s", failure->message)));
	sx_kafka_raise(target->client, failure->code, failure->message,
				   "could not publish to topic \"%s\"", target->stream->mark_topic);
}

int64
sx_kafka_target_published(SxKafkaTarget *target)
{
	SxKafkaFailure failure;

	if (target->publisher == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_CONNECTION_FAILURE),
				 errmsg("publishing to topic \"%s\" has not begun", target->stream->mark_topic)));
	if (sx_kafka_publisher_failed(target->publisher, &failure))
		raise_failure(target, &failure);
	return sx_kafka_publisher_published(target->publisher);
}

/*
 * A mark of somebody new proves that he took the identity. Is it still ours, or, if
 * we came to set none, that of before, then the brokers gave up our own transaction.
 * (Whoever just took it and has not set his mark yet will be fenced by us, and see
 * ours.)
 */
static void
check_fenced(SxKafkaTarget *target)
{
	Mark		mark;

	read_mark(target, &mark);
	if (!mark.exists || strcmp(mark.run, target->run) == 0 ||
		strcmp(mark.run, target->run_before) == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_SX_FENCED),
			 errmsg("another process publishes to topic \"%s\" in this one's place",
					target->stream->mark_topic),
			 errdetail("It took transactional id \"%s\"; its mark is batch %lld, of timeline %lld.",
					   target->transactional_id, (long long) mark.batch, (long long) mark.timeline),
			 errhint("Another server runs the same query against the same cluster: a restored copy, or a former primary. Stop one of them, or set streamx.external_sinks to \"muted\" there.")));
}

int64
sx_kafka_target_resume(SxKafkaTarget *target)
{
	SxKafkaFailure failure;

	if (target->publisher != NULL &&
		sx_kafka_publisher_failed(target->publisher, &failure))
	{
		check_fenced(target);
		/*
		 * Each of its records was small enough when it was checked, so the batch of
		 * them was not; until each goes alone.
		 */
		if (failure.code == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE)
			target->batch_bytes = Max(largest_batch(target) / SMALLER_BATCHES, 1);
		if (failure.fatal || failure.fenced || target->batch_bytes != target->opened_batch_bytes)
			close_producer(target);
		else if (!sx_kafka_publisher_reset(target->publisher))
			raise_failure(target, &failure);
	}
	if (target->client == NULL)
		open_producer(target);
	if (target->publisher == NULL)
		sx_kafka_target_take(target);
	return sx_kafka_target_mark(target, NULL);
}

const char *
sx_kafka_target_look(SxKafkaTarget *target)
{
	long long	busy;

	if (target->publisher == NULL)
		return NULL;
	busy = sx_kafka_publisher_busy(target->publisher);
	if (busy == 0 && time(NULL) > target->marked_at + RENEW_EVERY_S &&
		sx_kafka_publisher_published(target->publisher) == target->last_end)
		touch_mark(target, target->last_end);
	sx_kafka_client_poll(target->client);
	if (busy < SILENT_MS)
		return NULL;
	if (target->client->cause_text != NULL)
		strlcpy(target->trouble, target->client->cause_text, sizeof(target->trouble));
	else
		snprintf(target->trouble, sizeof(target->trouble),
				 "the brokers have not taken a transaction for %lld s", busy / 1000);
	return target->trouble;
}
