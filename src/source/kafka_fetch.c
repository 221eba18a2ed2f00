/*
 * kafka_fetch.c
 *		Takes records from librdkafka's queues and decodes them, on a thread.
 *
 *	 thread:  for each partition that may be read further
 *				  take up to CHUNK_RECORDS records from its queue
 *				  copy what is kept, decode the values      (without the lock)
 *				  append the chunk, move the position       (with it)
 *			  nothing anywhere: sleep until a queue or the main thread wakes us
 *
 * The simple consumer of librdkafka (consume_start of a partition) is used rather
 * than the one of groups: a partition starts, stops and fails by itself, and no
 * group coordinator is asked for.
 *
 * Thread: what stands under "the thread" runs on the fetch thread and touches
 * nothing of the server: no memory context, no error, no setting.
 */
#include "postgres.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/threads.h"
#include "source/kafka_fetch.h"

#define CHUNK_RECORDS	2048
#define CHUNK_KEEP		(1024 * 1024)	/* memory of a chunk that is used again */
#define RECORD_KEEP		1024			/* and of that, for each record that comes into it */
#define SPARE_BYTES		(16 * 1024 * 1024)
#define LEAST_AHEAD		(64 * 1024)
#define SLEEP_MS		1000	/* even if a wake-up got lost */

struct SxKafkaFetcher
{
	/* set when it is created */
	rd_kafka_t *rk;
	size_t		budget;
	size_t		queue_bytes;	/* bound of a partition's queue in the client */
	SxKafkaKeep keep;
	void		(*wake) (void *arg);
	void	   *wake_arg;
	pthread_t	thread;
	bool		started;
	int			wake_fd;

	/* under the lock */
	pthread_mutex_t lock;
	bool		stop;
	SxKafkaPart **parts;
	int			nparts;
	int			parts_size;
	SxDecoder  *decoder;		/* the newest; the thread takes it over */
	uint64		decoder_number;
	int			natts;
	SxKafkaChunk *spare;
	size_t		spare_bytes;
	size_t		bytes;			/* of all chunks in lists */
	double		seen_bytes;		/* for the average; fades */
	double		seen_offsets;
	bool		listening;

	/* written with the lock, read without */
	volatile sig_atomic_t news;

	/* the thread's */
	SxDecoder  *using;
	uint64		using_number;
	int			using_natts;
	rd_kafka_message_t *messages[CHUNK_RECORDS];
};

/* ---- chunks; any thread ---- */

static void
free_retired(SxKafkaChunk *chunk)
{
	for (int i = 0; i < chunk->nretired; i++)
		sx_row_buffer_destroy(chunk->retired[i]);
	free(chunk->retired);
	chunk->retired = NULL;
	chunk->nretired = 0;
}

static void
free_chunk(SxKafkaChunk *chunk)
{
	free_retired(chunk);
	sx_row_buffer_destroy(chunk->rows);
	sx_row_buffer_destroy(chunk->arena);
	free(chunk->records);
	free(chunk);
}

static void
free_chunks(SxKafkaChunk *chunk)
{
	while (chunk != NULL)
	{
		SxKafkaChunk *next = chunk->next;

		free_chunk(chunk);
		chunk = next;
	}
}

/* With the lock: to be filled again, or freed by the caller (the result). */
static SxKafkaChunk *
put_aside(SxKafkaFetcher *fetcher, SxKafkaChunk *chunk)
{
	fetcher->bytes -= chunk->bytes;
	if (fetcher->spare_bytes + chunk->bytes > SPARE_BYTES)
	{
		chunk->next = NULL;
		return chunk;
	}
	fetcher->spare_bytes += chunk->bytes;
	chunk->next = fetcher->spare;
	fetcher->spare = chunk;
	return NULL;
}

/* ---- the thread ---- */

static void
tell(SxKafkaFetcher *fetcher)
{
	fetcher->listening = false;
	fetcher->news = true;
	fetcher->wake(fetcher->wake_arg);
}

static bool
anything_awaited(const SxKafkaFetcher *fetcher)
{
	for (int i = 0; i < fetcher->nparts; i++)
		if (fetcher->parts[i]->awaited >= 0)
			return true;
	return false;
}

/* With the lock, after something of the partition has changed. */
static void
tell_if_awaited(SxKafkaFetcher *fetcher, SxKafkaPart *part, bool records, bool eof)
{
	bool		error = part->error != RD_KAFKA_RESP_ERR_NO_ERROR;
	bool		answered = part->awaited >= 0 &&
		(eof || error || part->position >= part->awaited);

	if (answered)
		part->awaited = -1;
	if (fetcher->listening &&
		(error || ((answered || records) && !anything_awaited(fetcher))))
		tell(fetcher);
}

/*
 * For so many records.  What a large chunk had before isn't kept for a few: memory
 * counts as used while they wait, and would soon be all that reading ahead may have.
 */
static SxKafkaChunk *
take_chunk(SxKafkaFetcher *fetcher, int nrecords)
{
	size_t		keep = Min((size_t) nrecords * RECORD_KEEP, CHUNK_KEEP);
	SxKafkaChunk *chunk;

	pthread_mutex_lock(&fetcher->lock);
	chunk = fetcher->spare;
	if (chunk != NULL)
	{
		fetcher->spare = chunk->next;
		fetcher->spare_bytes -= chunk->bytes;
	}
	pthread_mutex_unlock(&fetcher->lock);
	if (chunk == NULL)
		return calloc(1, sizeof(SxKafkaChunk));
	free_retired(chunk);
	if (chunk->rows != NULL && chunk->rows->natts != fetcher->using_natts)
	{
		sx_row_buffer_destroy(chunk->rows);
		chunk->rows = NULL;
	}
	if (chunk->rows != NULL)
		sx_row_buffer_reset(chunk->rows, keep);
	if (chunk->arena != NULL)
		sx_row_buffer_reset(chunk->arena, keep);
	if (chunk->records_size > Max(nrecords * 4, 64))
	{
		free(chunk->records);
		chunk->records = NULL;
		chunk->records_size = 0;
	}
	chunk->nrecords = 0;
	chunk->decoded_by = 0;
	return chunk;
}

/* NULL stays NULL; false: out of memory. */
static bool
keep_bytes(SxRowBuffer *arena, const void *data, size_t len, const void **result)
{
	char	   *copy;

	*result = NULL;
	if (data == NULL)
		return true;
	copy = sx_row_buffer_alloc(arena, VARHDRSZ + len);
	if (copy == NULL)
		return false;
	SET_VARSIZE(copy, VARHDRSZ + len);
	memcpy(copy + VARHDRSZ, data, len);
	*result = copy;
	return true;
}

static bool
keep_headers(SxRowBuffer *arena, const rd_kafka_message_t *message, SxKafkaRecord *record)
{
	rd_kafka_headers_t *headers;
	SxKafkaHeader *kept;
	size_t		n;

	record->nheaders = 0;
	record->headers = NULL;
	if (rd_kafka_message_headers(message, &headers) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return true;			/* none */
	n = rd_kafka_header_cnt(headers);
	kept = sx_row_buffer_alloc(arena, sizeof(SxKafkaHeader) * Max(n, 1));
	if (kept == NULL)
		return false;
	for (size_t i = 0; i < n; i++)
	{
		const char *name;
		const void *value;
		size_t		len;

		if (rd_kafka_header_get_all(headers, i, &name, &value, &len) != RD_KAFKA_RESP_ERR_NO_ERROR)
			break;
		kept[i].name = sx_row_buffer_copy(arena, name, strlen(name));
		kept[i].value = value == NULL ? NULL : sx_row_buffer_copy(arena, value, len);
		kept[i].len = len;
		if (kept[i].name == NULL || (value != NULL && kept[i].value == NULL))
			return false;
		record->nheaders++;
	}
	record->headers = kept;
	return true;
}

static bool
add_record(SxKafkaFetcher *fetcher, SxKafkaChunk *chunk, const rd_kafka_message_t *message)
{
	SxKafkaRecord *record = &chunk->records[chunk->nrecords];
	rd_kafka_timestamp_type_t type;

	record->offset = message->offset;
	record->timestamp = rd_kafka_message_timestamp(message, &type);
	record->timestamp_type = type == RD_KAFKA_TIMESTAMP_CREATE_TIME ? 0 :
		type == RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME ? 1 : -1;
	record->key = NULL;
	record->value = NULL;
	record->nheaders = 0;
	if (fetcher->keep.key &&
		!keep_bytes(chunk->arena, message->key, message->key_len, &record->key))
		return false;
	if ((fetcher->keep.value || (fetcher->keep.undecoded && chunk->decoded_by == 0)) &&
		!keep_bytes(chunk->arena, message->payload, message->len, &record->value))
		return false;
	if (fetcher->keep.headers && !keep_headers(chunk->arena, message, record))
		return false;
	record->row = 0;
	if (chunk->decoded_by != 0)
	{
		record->row = chunk->rows->nrows;
		chunk->rows->tag = chunk->nrecords;
		if (!sx_decode(fetcher->using, message->payload, message->len, chunk->rows))
			return false;
	}
	chunk->nrecords++;
	return true;
}

static bool
prepare_chunk(SxKafkaFetcher *fetcher, SxKafkaChunk *chunk, int nrecords)
{
	if (chunk->records_size < nrecords)
	{
		free(chunk->records);
		chunk->records = malloc(sizeof(SxKafkaRecord) * nrecords);
		chunk->records_size = chunk->records != NULL ? nrecords : 0;
	}
	if (chunk->arena == NULL)
		chunk->arena = sx_row_buffer_create(0, false);
	if (chunk->records == NULL || chunk->arena == NULL)
		return false;
	if (fetcher->using == NULL)
		return true;
	if (chunk->rows == NULL)
		chunk->rows = sx_row_buffer_create(fetcher->using_natts, true);
	chunk->decoded_by = fetcher->using_number;
	return chunk->rows != NULL;
}

/* What the messages say: a chunk (or NULL), a position, perhaps an end or an error. */
typedef struct Taken
{
	SxKafkaChunk *chunk;
	int64		position;
	int64		eof;			/* -1: not met */
	rd_kafka_resp_err_t error;
	char		error_text[512];
} Taken;

static void
take_error(Taken *taken, rd_kafka_resp_err_t error, const char *text)
{
	if (taken->error != RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	taken->error = error;
	snprintf(taken->error_text, sizeof(taken->error_text), "%s",
			 text != NULL ? text : rd_kafka_err2str(error));
}

static void
take_messages(SxKafkaFetcher *fetcher, int n, Taken *taken)
{
	for (int i = 0; i < n && taken->error == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
	{
		const rd_kafka_message_t *message = fetcher->messages[i];

		if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
		{
			taken->eof = message->offset;
			taken->position = Max(taken->position, message->offset);
			continue;
		}
		if (message->err != RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			take_error(taken, message->err, rd_kafka_message_errstr(message));
			continue;
		}
		if (message->offset < taken->position)
			continue;			/* of a session before */
		if (taken->chunk == NULL)
		{
			taken->chunk = take_chunk(fetcher, n);
			if (taken->chunk == NULL || !prepare_chunk(fetcher, taken->chunk, n))
			{
				take_error(taken, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "out of memory");
				break;
			}
			taken->chunk->first = message->offset;
		}
		if (!add_record(fetcher, taken->chunk, message))
		{
			const SxRowBuffer *rows = taken->chunk->rows;

			/* A schema registry that is away will come back. */
			if (rows != NULL && rows->failure[0] != '\0')
				take_error(taken, RD_KAFKA_RESP_ERR__TRANSPORT, rows->failure);
			take_error(taken, RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE, "out of memory");
			break;
		}
		taken->position = message->offset + 1;
		taken->eof = -1;
	}
	if (taken->chunk != NULL && taken->chunk->nrecords == 0)
	{
		free_chunk(taken->chunk);
		taken->chunk = NULL;
	}
	if (taken->chunk != NULL)
	{
		SxKafkaChunk *chunk = taken->chunk;

		chunk->next = NULL;
		chunk->behind = chunk->records[chunk->nrecords - 1].offset + 1;
		chunk->bytes = sizeof(SxKafkaChunk) + sizeof(SxKafkaRecord) * chunk->records_size +
			sx_row_buffer_bytes(chunk->arena) +
			(chunk->rows != NULL ? sx_row_buffer_bytes(chunk->rows) : 0);
	}
}

/*
 * What the records themselves take: a chunk of a few that have just come has room
 * for more, and one of many from a backlog has not.
 */
static void
count_for_average(SxKafkaFetcher *fetcher, const SxKafkaChunk *chunk, double offsets)
{
	fetcher->seen_bytes += sizeof(SxKafkaRecord) * chunk->nrecords +
		sx_row_buffer_used(chunk->arena) +
		(chunk->rows != NULL ? sx_row_buffer_used(chunk->rows) : 0);
	fetcher->seen_offsets += offsets;
	if (fetcher->seen_offsets > 1e6)
	{
		fetcher->seen_bytes /= 2;
		fetcher->seen_offsets /= 2;
	}
}

/* False: a session has begun meanwhile, and what was taken is of the one before. */
static bool
deliver(SxKafkaFetcher *fetcher, SxKafkaPart *part, Taken *taken)
{
	SxKafkaChunk *chunk = taken->chunk;
	bool		current;

	pthread_mutex_lock(&fetcher->lock);
	current = part->wanted && part->session == part->running;
	if (current)
	{
		int64		before = part->position;

		if (chunk != NULL)
		{
			if (part->tail != NULL)
				part->tail->next = chunk;
			else
				part->head = chunk;
			part->tail = chunk;
			part->bytes += chunk->bytes;
			fetcher->bytes += chunk->bytes;
			if (before >= part->target)
				part->bytes_ahead += chunk->bytes;
			count_for_average(fetcher, chunk, taken->position - before);
		}
		part->position = taken->position;
		if (taken->eof >= 0)
		{
			part->eof = taken->eof;
			part->eofs++;
		}
		part->error = taken->error;
		memcpy(part->error_text, taken->error_text, sizeof(part->error_text));
		tell_if_awaited(fetcher, part, chunk != NULL, taken->eof >= 0);
	}
	pthread_mutex_unlock(&fetcher->lock);
	return current;
}

/* Starts and stops as the main thread wants it; false: not to be read now. */
static bool
follow_wishes(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 *position)
{
	uint64		session;
	int64		start;
	bool		wanted;
	bool		read_on;
	int			n;

	pthread_mutex_lock(&fetcher->lock);
	session = part->wanted ? part->session : 0;
	start = part->start;
	*position = part->position;
	wanted = part->wanted && part->error == RD_KAFKA_RESP_ERR_NO_ERROR;
	read_on = wanted &&
		(part->position < part->target ||
		 part->bytes_ahead < Max(fetcher->budget / 8 / fetcher->nparts, LEAST_AHEAD));
	pthread_mutex_unlock(&fetcher->lock);

	if (part->running != 0 && (part->running != session || !wanted))
	{
		rd_kafka_consume_stop(part->handle, part->partition);
		part->running = 0;
		while ((n = rd_kafka_consume_batch_queue(part->queue, 0, fetcher->messages,
												 CHUNK_RECORDS)) > 0)
			for (int i = 0; i < n; i++)
				rd_kafka_message_destroy(fetcher->messages[i]);
	}
	if (part->running == 0 && session != 0 && wanted)
	{
		if (rd_kafka_consume_start(part->handle, part->partition, start) != 0)
		{
			Taken		taken = {.position = start, .eof = -1};

			part->running = session;
			take_error(&taken, rd_kafka_last_error(), NULL);
			(void) deliver(fetcher, part, &taken);
			part->running = 0;
			return false;
		}
		part->running = session;
		*position = start;
	}
	return read_on;
}

/*
 * The client's thread of a broker whose partitions have full queues sleeps, for up to a
 * second, and nothing but an order wakes it: not that we empty them. So it gets one, of
 * which the answer is nothing to us, with every half of a queue. (From 2.2 on it is
 * fetch.queue.backoff.ms that says how long; kafka_reader.c.)
 */
static void
keep_client_awake(SxKafkaFetcher *fetcher, SxKafkaPart *part, int n)
{
	rd_kafka_topic_partition_list_t *list;

	for (int i = 0; i < n; i++)
		part->emptied += Max(fetcher->messages[i]->len + fetcher->messages[i]->key_len,
							 SX_KAFKA_LEAST_RECORD);
	if (part->emptied < fetcher->queue_bytes / 2)
		return;
	part->emptied = 0;
	list = rd_kafka_topic_partition_list_new(1);
	rd_kafka_topic_partition_list_add(list, part->topic, part->partition)->offset =
		RD_KAFKA_OFFSET_END;
	(void) rd_kafka_offsets_for_times(fetcher->rk, list, 0);
	rd_kafka_topic_partition_list_destroy(list);
}

/* True if there was something. */
static bool
read_part(SxKafkaFetcher *fetcher, SxKafkaPart *part)
{
	Taken		taken = {.eof = -1};
	ssize_t		n;

	if (!follow_wishes(fetcher, part, &taken.position))
		return false;
	n = rd_kafka_consume_batch_queue(part->queue, 0, fetcher->messages, CHUNK_RECORDS);
	if (n <= 0)
		return false;
	keep_client_awake(fetcher, part, n);
	take_messages(fetcher, n, &taken);
	for (ssize_t i = 0; i < n; i++)
		rd_kafka_message_destroy(fetcher->messages[i]);
	if (!deliver(fetcher, part, &taken) && taken.chunk != NULL)
		free_chunk(taken.chunk);
	return true;
}

static void
follow_decoder(SxKafkaFetcher *fetcher)
{
	SxDecoder  *old = NULL;

	pthread_mutex_lock(&fetcher->lock);
	if (fetcher->decoder_number != fetcher->using_number)
	{
		old = fetcher->using;
		fetcher->using = fetcher->decoder;
		fetcher->using_number = fetcher->decoder_number;
		fetcher->using_natts = fetcher->natts;
		fetcher->decoder = NULL;
	}
	pthread_mutex_unlock(&fetcher->lock);
	if (old != NULL)
		sx_decoder_close(old);
}

static void
sleep_until_woken(SxKafkaFetcher *fetcher)
{
	struct pollfd event = {.fd = fetcher->wake_fd, .events = POLLIN};
	uint64		count;

	if (poll(&event, 1, SLEEP_MS) > 0)
	{
		ssize_t		rc pg_attribute_unused();

		rc = read(fetcher->wake_fd, &count, sizeof(count));
	}
}

static void *
fetch_main(void *arg)
{
	SxKafkaFetcher *fetcher = arg;

	for (;;)
	{
		bool		any = false;
		bool		stop;
		int			n;

		pthread_mutex_lock(&fetcher->lock);
		stop = fetcher->stop;
		n = fetcher->nparts;
		pthread_mutex_unlock(&fetcher->lock);
		if (stop)
			break;
		follow_decoder(fetcher);
		for (int i = 0; i < n; i++)
		{
			SxKafkaPart *part;

			pthread_mutex_lock(&fetcher->lock);
			part = fetcher->parts[i];	/* the array may have moved */
			pthread_mutex_unlock(&fetcher->lock);
			any |= read_part(fetcher, part);
		}
		if (!any)
			sleep_until_woken(fetcher);
	}
	for (int i = 0; i < fetcher->nparts; i++)
		if (fetcher->parts[i]->running != 0)
			rd_kafka_consume_stop(fetcher->parts[i]->handle, fetcher->parts[i]->partition);
	return NULL;
}

/* ---- the main thread ---- */

static void
poke(SxKafkaFetcher *fetcher)
{
	uint64		one = 1;
	ssize_t		rc pg_attribute_unused();

	rc = write(fetcher->wake_fd, &one, sizeof(one));
}

void
sx_kafka_fetcher_poke(SxKafkaFetcher *fetcher)
{
	poke(fetcher);
}

static void
out_of_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("The consumer of a Kafka stream could not be made.")));
}

SxKafkaFetcher *
sx_kafka_fetcher_create(rd_kafka_t *rk, size_t budget, size_t queue_bytes, SxKafkaKeep keep,
						void (*wake) (void *arg), void *wake_arg)
{
	SxKafkaFetcher *fetcher = calloc(1, sizeof(SxKafkaFetcher));

	if (fetcher == NULL)
		out_of_memory();
	fetcher->rk = rk;
	fetcher->budget = budget;
	fetcher->queue_bytes = queue_bytes;
	fetcher->keep = keep;
	fetcher->wake = wake;
	fetcher->wake_arg = wake_arg;
	pthread_mutex_init(&fetcher->lock, NULL);
	fetcher->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (fetcher->wake_fd >= 0)
	{
		sx_threads_begin();
		fetcher->started = pthread_create(&fetcher->thread, NULL, fetch_main, fetcher) == 0;
		sx_threads_end();
	}
	if (!fetcher->started)
	{
		int			save_errno = errno;

		sx_kafka_fetcher_destroy(fetcher);
		errno = save_errno;
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a thread to read from Kafka: %m")));
	}
	return fetcher;
}

static void
free_part(SxKafkaPart *part)
{
	free_chunks(part->head);
	if (part->queue != NULL)
	{
		/* The queue lives on in the library, which must not write to a descriptor that is another's by then. */
		rd_kafka_queue_io_event_enable(part->queue, -1, NULL, 0);
		rd_kafka_queue_destroy(part->queue);
	}
	if (part->handle != NULL)
		rd_kafka_topic_destroy(part->handle);
	free(part->topic);
	free(part->topic_text);
	free(part);
}

void
sx_kafka_fetcher_destroy(SxKafkaFetcher *fetcher)
{
	if (fetcher->started)
	{
		pthread_mutex_lock(&fetcher->lock);
		fetcher->stop = true;
		pthread_mutex_unlock(&fetcher->lock);
		poke(fetcher);
		pthread_join(fetcher->thread, NULL);
	}
	for (int i = 0; i < fetcher->nparts; i++)
		free_part(fetcher->parts[i]);
	free(fetcher->parts);
	free_chunks(fetcher->spare);
	if (fetcher->using != NULL)
		sx_decoder_close(fetcher->using);
	if (fetcher->decoder != NULL)
		sx_decoder_close(fetcher->decoder);
	if (fetcher->wake_fd >= 0)
		close(fetcher->wake_fd);
	pthread_mutex_destroy(&fetcher->lock);
	free(fetcher);
}

static rd_kafka_topic_t *
open_topic(SxKafkaFetcher *fetcher, const char *topic)
{
	rd_kafka_topic_conf_t *conf = rd_kafka_default_topic_conf_dup(fetcher->rk);
	char		error[256];

	/* Offsets live in PostgreSQL, and where to go when one is gone is ours to say. */
	rd_kafka_topic_conf_set(conf, "auto.commit.enable", "false", error, sizeof(error));
	rd_kafka_topic_conf_set(conf, "auto.offset.reset", "error", error, sizeof(error));
	return rd_kafka_topic_new(fetcher->rk, topic, conf);
}

SxKafkaPart *
sx_kafka_fetcher_add(SxKafkaFetcher *fetcher, const char *topic, int32 partition)
{
	SxKafkaPart *part = calloc(1, sizeof(SxKafkaPart));
	bool		good;
	uint64		one = 1;

	if (part == NULL)
		out_of_memory();
	part->topic = strdup(topic);
	part->topic_text = malloc(VARHDRSZ + strlen(topic));
	if (part->topic_text != NULL)
	{
		SET_VARSIZE(part->topic_text, VARHDRSZ + strlen(topic));
		memcpy(VARDATA(part->topic_text), topic, strlen(topic));
	}
	part->partition = partition;
	part->eof = part->awaited = -1;
	part->low = part->high = part->moved_from = part->moved_to = -1;
	part->noted = -1;
	part->kept_from = PG_INT64_MAX;
	part->handle = open_topic(fetcher, topic);
	part->queue = part->handle == NULL ? NULL :
		rd_kafka_queue_get_partition(fetcher->rk, topic, partition);
	good = part->topic != NULL && part->topic_text != NULL && part->queue != NULL;
	if (good)
	{
		/* A record that arrives in the empty queue wakes the thread. */
		rd_kafka_queue_io_event_enable(part->queue, fetcher->wake_fd, &one, sizeof(one));
		pthread_mutex_lock(&fetcher->lock);
		if (fetcher->nparts == fetcher->parts_size)
		{
			int			size = fetcher->parts_size == 0 ? 16 : fetcher->parts_size * 2;
			SxKafkaPart **parts = realloc(fetcher->parts, sizeof(SxKafkaPart *) * size);

			good = parts != NULL;
			if (good)
			{
				fetcher->parts = parts;
				fetcher->parts_size = size;
			}
		}
		if (good)
			fetcher->parts[fetcher->nparts++] = part;
		pthread_mutex_unlock(&fetcher->lock);
	}
	if (!good)
	{
		free_part(part);
		out_of_memory();
	}
	return part;
}

/* With the lock: its chunks, to be freed without it. */
static SxKafkaChunk *
take_all(SxKafkaFetcher *fetcher, SxKafkaPart *part)
{
	SxKafkaChunk *chunks = part->head;

	fetcher->bytes -= part->bytes;
	part->bytes = part->bytes_ahead = 0;
	part->head = part->tail = NULL;
	return chunks;
}

void
sx_kafka_part_start(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 offset)
{
	SxKafkaChunk *old;

	pthread_mutex_lock(&fetcher->lock);
	old = take_all(fetcher, part);
	part->wanted = true;
	part->session++;
	part->start = part->position = offset;
	part->eof = -1;
	part->error = RD_KAFKA_RESP_ERR_NO_ERROR;
	part->error_text[0] = '\0';
	pthread_mutex_unlock(&fetcher->lock);
	free_chunks(old);
	poke(fetcher);
}

void
sx_kafka_part_stop(SxKafkaFetcher *fetcher, SxKafkaPart *part)
{
	SxKafkaChunk *old;

	pthread_mutex_lock(&fetcher->lock);
	old = take_all(fetcher, part);
	part->wanted = false;
	part->awaited = -1;
	pthread_mutex_unlock(&fetcher->lock);
	free_chunks(old);
	poke(fetcher);
}

void
sx_kafka_part_set_target(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 target)
{
	pthread_mutex_lock(&fetcher->lock);
	if (part->target != target)
	{
		part->target = target;
		part->bytes_ahead = 0;
		for (SxKafkaChunk *chunk = part->head; chunk != NULL; chunk = chunk->next)
			if (chunk->first >= target)
				part->bytes_ahead += chunk->bytes;
	}
	pthread_mutex_unlock(&fetcher->lock);
}

void
sx_kafka_part_state(SxKafkaFetcher *fetcher, SxKafkaPart *part, SxKafkaPartState *state)
{
	pthread_mutex_lock(&fetcher->lock);
	state->position = part->position;
	state->eof = part->eof;
	state->eofs = part->eofs;
	state->bytes = part->bytes;
	state->error = part->error;
	pthread_mutex_unlock(&fetcher->lock);
}

SxKafkaChunk *
sx_kafka_part_chunk(SxKafkaFetcher *fetcher, SxKafkaPart *part, SxKafkaChunk *after, int64 offset)
{
	SxKafkaChunk *chunk;

	pthread_mutex_lock(&fetcher->lock);
	chunk = after != NULL ? after->next : part->head;
	while (chunk != NULL && chunk->behind <= offset)
		chunk = chunk->next;
	pthread_mutex_unlock(&fetcher->lock);
	return chunk;
}

void
sx_kafka_chunk_replace_rows(SxKafkaChunk *chunk, SxRowBuffer *rows)
{
	if (chunk->rows != NULL)
	{
		SxRowBuffer **bigger = realloc(chunk->retired,
									   sizeof(SxRowBuffer *) * (chunk->nretired + 1));

		if (bigger == NULL)
		{
			sx_row_buffer_destroy(rows);
			out_of_memory();
		}
		chunk->retired = bigger;
		chunk->retired[chunk->nretired++] = chunk->rows;
	}
	chunk->rows = rows;
}

bool
sx_kafka_part_has_records(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 begin, int64 end)
{
	SxKafkaChunk *chunk = sx_kafka_part_chunk(fetcher, part, NULL, begin);

	if (chunk == NULL)
		return false;
	for (int i = 0; i < chunk->nrecords; i++)
		if (chunk->records[i].offset >= begin)
			return chunk->records[i].offset < end;
	return false;
}

void
sx_kafka_part_release(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 offset)
{
	SxKafkaChunk *unused = NULL;

	pthread_mutex_lock(&fetcher->lock);
	while (part->head != NULL && part->head->behind <= offset)
	{
		SxKafkaChunk *chunk = part->head;

		part->head = chunk->next;
		if (part->head == NULL)
			part->tail = NULL;
		part->bytes -= chunk->bytes;
		if (chunk->first >= part->target)
			part->bytes_ahead -= chunk->bytes;
		chunk = put_aside(fetcher, chunk);
		if (chunk != NULL)
		{
			chunk->next = unused;
			unused = chunk;
		}
	}
	pthread_mutex_unlock(&fetcher->lock);
	free_chunks(unused);
}

void
sx_kafka_fetcher_set_decoder(SxKafkaFetcher *fetcher, SxDecoder *decoder, int natts,
							 uint64 number)
{
	SxDecoder  *unused;

	pthread_mutex_lock(&fetcher->lock);
	unused = fetcher->decoder;
	fetcher->decoder = decoder;
	fetcher->decoder_number = number;
	fetcher->natts = natts;
	pthread_mutex_unlock(&fetcher->lock);
	if (unused != NULL)
		sx_decoder_close(unused);
}

void
sx_kafka_fetcher_listen(SxKafkaFetcher *fetcher)
{
	pthread_mutex_lock(&fetcher->lock);
	for (int i = 0; i < fetcher->nparts; i++)
		fetcher->parts[i]->awaited = -1;
	fetcher->news = false;
	fetcher->listening = true;
	pthread_mutex_unlock(&fetcher->lock);
}

void
sx_kafka_fetcher_await(SxKafkaFetcher *fetcher, int n, SxKafkaPart **parts, const int64 *positions)
{
	pthread_mutex_lock(&fetcher->lock);
	for (int i = 0; i < n; i++)
		if (positions[i] > parts[i]->position)
			parts[i]->awaited = positions[i];
	if (!anything_awaited(fetcher))
		fetcher->news = true;	/* it has come meanwhile */
	pthread_mutex_unlock(&fetcher->lock);
}

bool
sx_kafka_fetcher_news(const SxKafkaFetcher *fetcher)
{
	return fetcher->news;
}

void
sx_kafka_fetcher_tell(SxKafkaFetcher *fetcher)
{
	pthread_mutex_lock(&fetcher->lock);
	tell(fetcher);
	pthread_mutex_unlock(&fetcher->lock);
}

size_t
sx_kafka_fetcher_bytes(SxKafkaFetcher *fetcher)
{
	size_t		bytes;

	pthread_mutex_lock(&fetcher->lock);
	bytes = fetcher->bytes;
	pthread_mutex_unlock(&fetcher->lock);
	return bytes;
}

double
sx_kafka_fetcher_bytes_per_offset(SxKafkaFetcher *fetcher)
{
	double		result;

	pthread_mutex_lock(&fetcher->lock);
	result = fetcher->seen_offsets > 0 ? fetcher->seen_bytes / fetcher->seen_offsets : 0;
	pthread_mutex_unlock(&fetcher->lock);
	return result;
}
