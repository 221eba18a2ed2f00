/*
 * kafka_publisher.c
 *		The thread between the outbox and Kafka.
 *
 *	 idle ── a whole intent waits ──> begin, produce its records
 *	   ^                                │  further whole intents wait: those too
 *	   │                                v
 *	   ├── published = last batch <── send the mark, commit
 *	   │                                │ any error
 *	   └── reset() <── failed <── abort, drop what waits
 *
 * Calls of the library have the time that is left to the transaction, as its makers
 * recommend: cut into slices, an answer that came late to one of them was a crash
 * (2.0.2, send_offsets_to_transaction). So a thread that is in one cannot be
 * stopped: it is left behind, and ends when the call does.
 *
 * A commit that fails is never repeated: its transaction is aborted, and whether
 * it was committed after all is for the mark to say.
 */
#include "postgres.h"

#include <pthread.h>
#include <time.h>

#include "base/crash_point.h"
#include "base/wake.h"
#include "kafka/handle.h"
#include "sink/kafka_intent.h"
#include "sink/kafka_publisher.h"

/* Handed over and not produced yet: so much at most, but one piece always. */
#define MAX_WAITING		(32 * 1024 * 1024)

/* A transaction takes no further intent beyond this. */
#define MAX_TRANSACTION	(16 * 1024 * 1024)

#define QUEUE_FULL_NS	2000000

/*
 * The coordinator answers a commit before it has ended the transaction; whoever asks
 * for the next one meanwhile is refused, and the library tries again after 20 ms.
 */
#define PAUSE_NS		3000000

/*
 * The records are given time to be delivered before the mark is sent: the coordinator
 * refuses it while it adds their partitions to the transaction, and the library tries
 * again after retry.backoff.ms. (Nor need the commit wait for them then: the library
 * would look every 10 ms.)
 */
#define DELIVERY_NS		500000
#define DELIVERY_LOOKS	40

/* stop() gives the thread so long to come back from the library. */
#define STOP_WAIT_MS	400

typedef struct Piece
{
	struct Piece *next;
	bool		ends;			/* the last one of its batch: no bytes, but these two */
	long long	batch_id;
	char		metadata[512];
	size_t		len;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} Piece;

struct SxKafkaPublisher
{
	/* set before the thread starts */
	SxKafkaJob *job;
	rd_kafka_t *producer;
	char	   *mark_topic;
	rd_kafka_consumer_group_metadata_t *group;
	pthread_mutex_t mutex;
	pthread_cond_t work;

	/* under the mutex */
	Piece	   *first;
	Piece	   *last;
	size_t		waiting;		/* bytes of the pieces */
	int			whole;			/* intents whose end waits */
	bool		refused;		/* put() was told to come again */
	bool		stop;			/* nobody waits for the thread any more, or soon */
	bool		failed;
	bool		aborting;
	SxKafkaFailure failure;
	long long	published;
	long long	since;			/* ms; start of the running transaction, 0: none */

	/* the main thread's own: an intent that has begun can always be ended */
	Piece	   *spare;

	/* the thread's own */
	char		topic[256];		/* of the record before */
	size_t		produced;		/* bytes in this transaction */
};

static long long
now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (long long) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* With the mutex. */
static void
drop_waiting(SxKafkaPublisher *self)
{
	while (self->first != NULL)
	{
		Piece	   *piece = self->first;

		self->first = piece->next;
		free(piece);
	}
	self->last = NULL;
	self->waiting = 0;
	self->whole = 0;
}

static bool
stopping(SxKafkaPublisher *self)
{
	bool		stop;

	pthread_mutex_lock(&self->mutex);
	stop = self->stop;
	pthread_mutex_unlock(&self->mutex);
	return stop;
}

/* ---- the thread ---- */

/* Takes over the error; returns false. */
static bool
fail(SxKafkaPublisher *self, rd_kafka_error_t *error)
{
	rd_kafka_resp_err_t code = rd_kafka_error_code(error);
	char		reason[256] = "";

	pthread_mutex_lock(&self->mutex);
	self->failed = true;
	self->failure.fatal = rd_kafka_error_is_fatal(error);
	if (self->failure.fatal)
	{
		rd_kafka_resp_err_t first = rd_kafka_fatal_error(self->producer, reason, sizeof(reason));

		if (first != RD_KAFKA_RESP_ERR_NO_ERROR)
			code = first;
	}
	self->failure.code = code;
	self->failure.fenced = code == RD_KAFKA_RESP_ERR__FENCED ||
		code == RD_KAFKA_RESP_ERR_PRODUCER_FENCED ||
		code == RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH;
	snprintf(self->failure.message, sizeof(self->failure.message), "%s",
			 reason[0] != '\0' ? reason : rd_kafka_error_string(error));
	self->aborting = true;
	pthread_mutex_unlock(&self->mutex);
	rd_kafka_error_destroy(error);
	return false;
}

static bool
fail_with(SxKafkaPublisher *self, rd_kafka_resp_err_t code, const char *what)
{
	return fail(self, rd_kafka_error_new(code, "%s: %s", what, rd_kafka_err2str(code)));
}

static rd_kafka_headers_t *
make_headers(const SxKafkaRecord *record, const char *end)
{
	rd_kafka_headers_t *headers = rd_kafka_headers_new(record->nheaders);
	const char *at = record->headers;

	for (uint32 i = 0; i < record->nheaders; i++)
	{
		SxKafkaBytes name;
		SxKafkaBytes value;

		at = sx_kafka_bytes_read(at, end, &name);
		at = sx_kafka_bytes_read(at, end, &value);
		rd_kafka_header_add(headers, name.data, name.len, value.data, value.len);
	}
	return headers;
}

/*
 * A full queue is no error: the brokers are given time to take some.  Returns
 * false after a failure, or when the thread is to end.
 */
static bool
produce_record(SxKafkaPublisher *self, const SxKafkaRecord *record, const char *end)
{
	if (record->topic.data != NULL)
	{
		uint32		len = Min(record->topic.len, sizeof(self->topic) - 1);

		memcpy(self->topic, record->topic.data, len);
		self->topic[len] = '\0';
	}
	for (;;)
	{
		rd_kafka_vu_t fields[6];
		int			n = 0;
		rd_kafka_headers_t *headers = NULL;
		rd_kafka_error_t *error;

		fields[n].vtype = RD_KAFKA_VTYPE_TOPIC;
		fields[n++].u.cstr = self->topic;
		fields[n].vtype = RD_KAFKA_VTYPE_PARTITION;
		fields[n++].u.i32 = record->partition;
		fields[n].vtype = RD_KAFKA_VTYPE_VALUE;
		fields[n].u.mem.ptr = (void *) record->value.data;
		fields[n++].u.mem.size = record->value.len;
		fields[n].vtype = RD_KAFKA_VTYPE_KEY;
		fields[n].u.mem.ptr = (void *) record->key.data;
		fields[n++].u.mem.size = record->key.len;
		fields[n].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
		fields[n++].u.i = RD_KAFKA_MSG_F_COPY;
		if (record->nheaders > 0)
		{
			headers = make_headers(record, end);
			fields[n].vtype = RD_KAFKA_VTYPE_HEADERS;
			fields[n++].u.headers = headers;
		}
		error = rd_kafka_produceva(self->producer, fields, n);
		if (error == NULL)
			return true;
		if (headers != NULL)
			rd_kafka_headers_destroy(headers);
		if (rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR__QUEUE_FULL)
			return fail(self, error);
		rd_kafka_error_destroy(error);
		nanosleep(&(struct timespec) {.tv_nsec = QUEUE_FULL_NS}, NULL);
		if (stopping(self))
			return false;
	}
}

static bool
produce_piece(SxKafkaPublisher *self, const Piece *piece)
{
	const char *at = piece->data;
	const char *end = piece->data + piece->len;

	while (at < end)
	{
		SxKafkaRecord record;

		at = sx_kafka_record_read(at, end, &record);
		if (at == NULL)
			return fail_with(self, RD_KAFKA_RESP_ERR__BAD_MSG, "an intent ends within a record");
		if (!produce_record(self, &record, end))
			return false;
	}
	self->produced += piece->len;
	return true;
}

static bool
send_mark(SxKafkaPublisher *self, const Piece *end)
{
	rd_kafka_topic_partition_list_t *offsets = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_t *partition =
		rd_kafka_topic_partition_list_add(offsets, self->mark_topic, 0);
	rd_kafka_error_t *error;
	bool		ok = true;

	partition->offset = end->batch_id + 1;
	partition->metadata = strdup(end->metadata);
	partition->metadata_size = strlen(end->metadata);
	while ((error = rd_kafka_send_offsets_to_transaction(self->producer, offsets, self->group,
														 -1)) != NULL)
	{
		if (!rd_kafka_error_is_retriable(error))
		{
			ok = fail(self, error);
			break;
		}
		rd_kafka_error_destroy(error);
		if (stopping(self))
		{
			ok = false;
			break;
		}
	}
	rd_kafka_topic_partition_list_destroy(offsets);
	return ok;
}

static bool
commit(SxKafkaPublisher *self)
{
	rd_kafka_error_t *error;

	while ((error = rd_kafka_commit_transaction(self->producer, -1)) != NULL)
	{
		if (!rd_kafka_error_is_retriable(error))
			return fail(self, error);
		rd_kafka_error_destroy(error);
		if (stopping(self))
			return false;
	}
	return true;
}

static void
abort_transaction(SxKafkaPublisher *self)
{
	rd_kafka_error_t *error;

	while ((error = rd_kafka_abort_transaction(self->producer, -1)) != NULL)
	{
		bool		again = rd_kafka_error_is_retriable(error);

		if (!again)
		{
			/* It is in no state to go on: a new one will. */
			pthread_mutex_lock(&self->mutex);
			self->failure.fatal = true;
			pthread_mutex_unlock(&self->mutex);
		}
		rd_kafka_error_destroy(error);
		if (!again || stopping(self))
			return;
	}
}

/*
 * The next piece; waits for the rest of an intent that has begun.  NULL: the
 * transaction has enough, or the thread is to end.
 */
static Piece *
take_piece(SxKafkaPublisher *self, bool within)
{
	Piece	   *piece = NULL;
	bool		wake = false;

	pthread_mutex_lock(&self->mutex);
	while (within && self->first == NULL && !self->stop)
		pthread_cond_wait(&self->work, &self->mutex);
	if (!self->stop &&
		(within || (self->whole > 0 && self->produced < MAX_TRANSACTION)))
	{
		piece = self->first;
		self->first = piece->next;
		if (self->first == NULL)
			self->last = NULL;
		self->waiting -= piece->len;
		self->whole -= piece->ends;
		wake = self->refused && self->waiting < MAX_WAITING / 2;
		if (wake)
			self->refused = false;
	}
	pthread_mutex_unlock(&self->mutex);
	if (wake)
		sx_wake();
	return piece;
}

/* Everything that waits whole, or one intent of which only a part is there yet. */
static bool
run_transaction(SxKafkaPublisher *self)
{
	Piece	   *end = NULL;
	Piece	   *piece;
	bool		within = true;
	bool		ok = true;
	rd_kafka_error_t *error = rd_kafka_begin_transaction(self->producer);

	if (error != NULL)
		return fail(self, error);
	self->produced = 0;
	while (ok && (piece = take_piece(self, within)) != NULL)
	{
		within = !piece->ends;
		if (piece->ends)
		{
			if (end != NULL)
				free(end);
			end = piece;
			continue;
		}
		ok = produce_piece(self, piece);
		free(piece);
	}
	if (ok && SX_CRASH_POINT_FAILS("produced"))
		ok = fail_with(self, RD_KAFKA_RESP_ERR__RETRY, "crash point \"produced\"");
	for (int i = 0; ok && i < DELIVERY_LOOKS && rd_kafka_outq_len(self->producer) > 0; i++)
		nanosleep(&(struct timespec) {.tv_nsec = DELIVERY_NS}, NULL);
	ok = ok && !within && send_mark(self, end);
	if (ok && SX_CRASH_POINT_FAILS("marked"))
		ok = fail_with(self, RD_KAFKA_RESP_ERR__RETRY, "crash point \"marked\"");
	ok = ok && commit(self);
	if (ok && SX_CRASH_POINT_FAILS("kafka-committed"))
		ok = fail_with(self, RD_KAFKA_RESP_ERR__RETRY, "crash point \"kafka-committed\"");
	if (ok)
	{
		pthread_mutex_lock(&self->mutex);
		self->published = end->batch_id;
		pthread_mutex_unlock(&self->mutex);
	}
	if (end != NULL)
		free(end);
	return ok;
}

static rd_kafka_resp_err_t
publish(rd_kafka_t *rk, void *arg)
{
	SxKafkaPublisher *self = arg;
	bool		ok = false;

	for (;;)
	{
		if (ok)
			nanosleep(&(struct timespec) {.tv_nsec = PAUSE_NS}, NULL);
		pthread_mutex_lock(&self->mutex);
		self->since = 0;
		while (!self->stop && (self->failed || self->first == NULL))
			pthread_cond_wait(&self->work, &self->mutex);
		if (self->stop)
		{
			pthread_mutex_unlock(&self->mutex);
			return RD_KAFKA_RESP_ERR_NO_ERROR;
		}
		self->since = now_ms();
		pthread_mutex_unlock(&self->mutex);

		ok = run_transaction(self);
		if (!ok)
		{
			sx_wake(); /* before a long abort */
			abort_transaction(self);
			pthread_mutex_lock(&self->mutex);
			drop_waiting(self);
			self->aborting = false;
			pthread_mutex_unlock(&self->mutex);
		}
		sx_wake();
	}
}

/* ---- the main thread ---- */

/* Thread: any; the last one who has it. */
static void
free_publisher(void *arg)
{
	SxKafkaPublisher *self = arg;

	drop_waiting(self);
	free(self->spare);
	if (self->group != NULL)
		rd_kafka_consumer_group_metadata_destroy(self->group);
	pthread_cond_destroy(&self->work);
	pthread_mutex_destroy(&self->mutex);
	free(self->mark_topic);
	free(self);
}

SxKafkaPublisher *
sx_kafka_publisher_start(const SxKafkaPublisherConfig *config)
{
	SxKafkaPublisher *self = calloc(1, sizeof(SxKafkaPublisher));

	if (self == NULL)
		return NULL;
	self->producer = config->client->rk;
	self->mark_topic = strdup(config->mark_topic);
	self->group = rd_kafka_consumer_group_metadata_new(config->group);
	self->published = config->published;
	pthread_mutex_init(&self->mutex, NULL);
	pthread_cond_init(&self->work, NULL);
	if (self->mark_topic != NULL && self->group != NULL)
		self->job = sx_kafka_job_start(config->client->handle, publish, self, free_publisher);
	if (self->job != NULL)
		return self;
	free_publisher(self);
	return NULL;
}

/* With the mutex. */
static void
append(SxKafkaPublisher *self, Piece *piece)
{
	if (self->last != NULL)
		self->last->next = piece;
	else
		self->first = piece;
	self->last = piece;
	self->waiting += piece->len;
	self->whole += piece->ends;
	pthread_cond_signal(&self->work);
}

int
sx_kafka_publisher_put(SxKafkaPublisher *self, const char *bytes, size_t len)
{
	Piece	   *piece;
	bool		room;

	if (self->spare == NULL)
		self->spare = calloc(1, sizeof(Piece));
	if (self->spare == NULL)
		return false;
	pthread_mutex_lock(&self->mutex);
	room = !self->failed && (self->first == NULL || self->waiting + len <= MAX_WAITING);
	self->refused = !room;
	pthread_mutex_unlock(&self->mutex);
	if (!room)
		return false;			/* without a copy: it may come again and again */

	piece = malloc(offsetof(Piece, data) + len);
	if (piece == NULL)
		return false;
	memset(piece, 0, offsetof(Piece, data));
	piece->len = len;
	memcpy(piece->data, bytes, len);
	pthread_mutex_lock(&self->mutex);
	room = !self->failed;
	if (room)
		append(self, piece);
	pthread_mutex_unlock(&self->mutex);
	if (!room)
		free(piece);
	return room;
}

int
sx_kafka_publisher_end(SxKafkaPublisher *self, long long batch_id, const char *metadata)
{
	Piece	   *piece = self->spare;
	bool		room;

	piece->ends = true;
	piece->batch_id = batch_id;
	strlcpy(piece->metadata, metadata, sizeof(piece->metadata));
	pthread_mutex_lock(&self->mutex);
	room = !self->failed;
	if (room)
	{
		append(self, piece);
		self->spare = NULL;
	}
	pthread_mutex_unlock(&self->mutex);
	return room;
}

long long
sx_kafka_publisher_published(SxKafkaPublisher *self)
{
	long long	published;

	pthread_mutex_lock(&self->mutex);
	published = self->published;
	pthread_mutex_unlock(&self->mutex);
	return published;
}

int
sx_kafka_publisher_failed(SxKafkaPublisher *self, SxKafkaFailure *failure)
{
	bool		failed;

	pthread_mutex_lock(&self->mutex);
	failed = self->failed;
	if (failed)
		*failure = self->failure;
	pthread_mutex_unlock(&self->mutex);
	return failed;
}

int
sx_kafka_publisher_reset(SxKafkaPublisher *self)
{
	bool		done;

	pthread_mutex_lock(&self->mutex);
	done = !self->aborting;
	if (done)
	{
		drop_waiting(self);
		self->failed = false;
		memset(&self->failure, 0, sizeof(self->failure));
	}
	pthread_mutex_unlock(&self->mutex);
	return done;
}

void
sx_kafka_publisher_set_published(SxKafkaPublisher *self, long long batch_id)
{
	pthread_mutex_lock(&self->mutex);
	self->published = batch_id;
	pthread_mutex_unlock(&self->mutex);
}

long long
sx_kafka_publisher_busy(SxKafkaPublisher *self)
{
	long long	ms;

	pthread_mutex_lock(&self->mutex);
	ms = self->since == 0 ? 0 : Max(now_ms() - self->since, 1);
	pthread_mutex_unlock(&self->mutex);
	return ms;
}

void
sx_kafka_publisher_stop(SxKafkaPublisher *self)
{
	rd_kafka_resp_err_t err;

	pthread_mutex_lock(&self->mutex);
	self->stop = true;
	pthread_cond_signal(&self->work);
	pthread_mutex_unlock(&self->mutex);
	for (int waited = 0; waited < STOP_WAIT_MS; waited += 5)
	{
		if (sx_kafka_job_ended(self->job, &err))
		{
			free_publisher(self);
			return;
		}
		pg_usleep(5000);
	}
	sx_kafka_job_abandon(self->job);
}
