/*
 * topic.c
 *		Bids in and out of Kafka topics.
 *
 *		topic create BROKERS TOPIC PARTITIONS [NAME=VALUE...]
 *			makes the topic anew
 *		topic fill BROKERS TOPIC ROWS [bids|auctions|ads|keys]
 *			the rows of bids.h as JSON, in turn to each partition; keys: so many keys
 *			once, then a fifth as many rows of some of them
 *		topic load BROKERS TOPIC KEYS
 *			a bid of now for each of that many auctions
 *		topic live BROKERS TOPIC RATE SECONDS AUCTIONS
 *			so many bids per second, each of the time when it is produced
 *		topic consume BROKERS TOPIC
 *			reads all that is there: the limit for anyone who reads it
 *		topic dump BROKERS TOPIC
 *			a line for each record: partition, offset, date_time, price
 *		topic watch BROKERS TOPIC
 *			a line for each committed record that comes from now on: its date_time, and
 *			when it came; says "ready" first; ends when nothing came for some seconds
 *
 * What a command did is its last line, as JSON, on standard error.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>

#include "bids.h"

#define TIMEOUT_MS	30000
#define LOOK_US		500			/* live: how often */
#define QUIET_S		5			/* watch ends after that long */
#define FIRST_S		60			/* or when nothing at all comes */

typedef const char *Setting[2];

static const char *brokers;
static const char *topic;
static char message[512];
static long undelivered;

static void
fail(const char *what, const char *why)
{
	fprintf(stderr, "topic: %s: %s\n", what, why);
	exit(1);
}

static int64_t
wall_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static double
cpu_s(void)
{
	struct rusage used;

	getrusage(RUSAGE_SELF, &used);
	return (double) (used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
		(double) (used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
}

static void
delivered(rd_kafka_t *client, const rd_kafka_message_t *record, void *opaque)
{
	(void) client;
	(void) opaque;
	if (record->err)
		undelivered++;
}

/* settings end with a NULL. */
static rd_kafka_t *
connect_to(rd_kafka_type_t type, const Setting *settings)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *client;

	if (rd_kafka_conf_set(conf, "bootstrap.servers", brokers, message, sizeof(message)) != RD_KAFKA_CONF_OK)
		fail("bootstrap.servers", message);
	for (; (*settings)[0] != NULL; settings++)
		if (rd_kafka_conf_set(conf, (*settings)[0], (*settings)[1], message, sizeof(message)) != RD_KAFKA_CONF_OK)
			fail((*settings)[0], message);
	if (type == RD_KAFKA_PRODUCER)
		rd_kafka_conf_set_dr_msg_cb(conf, delivered);
	client = rd_kafka_new(type, conf, message, sizeof(message));
	if (client == NULL)
		fail("no client", message);
	return client;
}

/* ---------------------------------------------------------------- create */

/* Waits for the answer to one request of the admin interface; its error or 0. */
static rd_kafka_resp_err_t
answer(rd_kafka_queue_t *queue)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
	rd_kafka_resp_err_t error;
	const rd_kafka_topic_result_t **results = NULL;
	size_t		n = 0;

	if (event == NULL)
		fail(topic, "no answer from the broker");
	error = rd_kafka_event_error(event);
	if (error == 0 && rd_kafka_event_CreateTopics_result(event))
		results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);
	else if (error == 0)
		results = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);
	if (n > 0)
		error = rd_kafka_topic_result_error(results[0]);
	rd_kafka_event_destroy(event);
	return error;
}

static void
create(int partitions, char **settings)
{
	rd_kafka_t *client = connect_to(RD_KAFKA_PRODUCER, (Setting[]) {{NULL, NULL}});
	rd_kafka_queue_t *queue = rd_kafka_queue_new(client);
	rd_kafka_DeleteTopic_t *old = rd_kafka_DeleteTopic_new(topic);
	rd_kafka_NewTopic_t *fresh = rd_kafka_NewTopic_new(topic, partitions, 1, message, sizeof(message));
	rd_kafka_resp_err_t error;
	char	   *value;

	if (fresh == NULL)
		fail(topic, message);
	for (; *settings; settings++)
	{
		value = strchr(*settings, '=');
		if (value == NULL)
			fail(*settings, "not NAME=VALUE");
		*value = '\0';
		rd_kafka_NewTopic_set_config(fresh, *settings, value + 1);
	}
	rd_kafka_DeleteTopics(client, &old, 1, NULL, queue);
	error = answer(queue);
	if (error != 0 && error != RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
		fail(topic, rd_kafka_err2str(error));

	/* The old one goes in the background. */
	for (int i = 0; i < 100; i++)
	{
		rd_kafka_CreateTopics(client, &fresh, 1, NULL, queue);
		error = answer(queue);
		if (error != RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS)
			break;
		usleep(200000);
	}
	if (error != 0)
		fail(topic, rd_kafka_err2str(error));
	rd_kafka_DeleteTopic_destroy(old);
	rd_kafka_NewTopic_destroy(fresh);
	rd_kafka_queue_destroy(queue);
	rd_kafka_destroy(client);
}

/* ---------------------------------------------------------------- producing */

typedef struct Producer
{
	rd_kafka_t *client;
	rd_kafka_topic_t *topic;
	int			partitions;
	int64_t		rows;
	int64_t		bytes;
	int64_t		started;
} Producer;

/* A topic that was just made may take a moment to be seen. */
static int
count_partitions(rd_kafka_t *client, rd_kafka_topic_t *handle)
{
	const struct rd_kafka_metadata *metadata;
	rd_kafka_resp_err_t error;
	int			n = 0;

	for (int i = 0; n == 0 && i < 100; i++)
	{
		if (i > 0)
			usleep(100000);
		error = rd_kafka_metadata(client, 0, handle, &metadata, TIMEOUT_MS);
		if (error != 0)
			fail(topic, rd_kafka_err2str(error));
		if (metadata->topic_cnt == 1)
			n = metadata->topics[0].partition_cnt;
		rd_kafka_metadata_destroy(metadata);
	}
	if (n == 0)
		fail(topic, "there is no such topic");
	return n;
}

static Producer
open_producer(const char *linger_ms)
{
	const Setting settings[] = {
		{"linger.ms", linger_ms}, {"batch.num.messages", "20000"}, {"batch.size", "1000000"},
		{"queue.buffering.max.messages", "1000000"}, {"queue.buffering.max.kbytes", "400000"},
		{"acks", "1"}, {NULL, NULL}
	};
	Producer	p = {.client = connect_to(RD_KAFKA_PRODUCER, settings)};

	p.topic = rd_kafka_topic_new(p.client, topic, NULL);
	p.partitions = count_partitions(p.client, p.topic);
	p.started = wall_us();
	return p;
}

static void
produce_value(Producer *p, const char *value, int len, const char *key)
{
	while (rd_kafka_produce(p->topic, (int32_t) (p->rows % p->partitions), RD_KAFKA_MSG_F_COPY,
							(void *) value, (size_t) len, key, strlen(key), NULL) != 0)
	{
		if (rd_kafka_last_error() != RD_KAFKA_RESP_ERR__QUEUE_FULL)
			fail(topic, rd_kafka_err2str(rd_kafka_last_error()));
		rd_kafka_poll(p->client, 20);
	}
	p->bytes += len;
	if ((p->rows++ & 1023) == 0)
		rd_kafka_poll(p->client, 0);
}

static void
produce(Producer *p, const Bid *bid)
{
	char		value[512];
	char		key[24];
	int			len = snprintf(value, sizeof(value),
							   "{\"auction\":%" PRId64 ",\"bidder\":%" PRId64 ",\"price\":%" PRId64
							   ",\"channel\":\"%s\",\"url\":\"%s\",\"date_time\":%" PRId64 ",\"extra\":\"%s\"}",
							   bid->auction, bid->bidder, bid->price, bid->channel, bid->url, bid->date_time, bid->extra);

	snprintf(key, sizeof(key), "%" PRId64, bid->auction);
	produce_value(p, value, len, key);
}

static void
produce_auction(Producer *p, const Auction *a)
{
	char		value[512];
	char		key[24];
	int			len = snprintf(value, sizeof(value),
							   "{\"id\":%" PRId64 ",\"item_name\":\"%s\",\"description\":\"item %s %s\",\"initial_bid\":%" PRId64
							   ",\"reserve\":%" PRId64 ",\"date_time\":%" PRId64 ",\"expires\":%" PRId64
							   ",\"seller\":%" PRId64 ",\"category\":%d,\"extra\":\"%s\"}",
							   a->id, a->item_name, a->item_name, a->extra, a->initial_bid, a->reserve, a->date_time,
							   a->date_time + 20000, a->seller, a->category, a->extra);

	snprintf(key, sizeof(key), "%" PRId64, a->id);
	produce_value(p, value, len, key);
}

static void
produce_ad(Producer *p, const Ad *ad)
{
	char		value[512];
	int			len = snprintf(value, sizeof(value),
							   "{\"user_id\":\"%s\",\"page_id\":\"%s\",\"ad_id\":\"%s\",\"ad_type\":\"%s\",\"event_type\":\"%s\""
							   ",\"event_time\":%" PRId64 ",\"ip_address\":\"%d.%d.%d.%d\"}",
							   ad->user_id, ad->page_id, ad->ad_id, ad->ad_type, ad->event_type, ad->event_time,
							   ad->address[0], ad->address[1], ad->address[2], ad->address[3]);

	produce_value(p, value, len, ad->ad_id);
}

static void
close_producer(Producer *p)
{
	double		seconds;

	if (rd_kafka_flush(p->client, TIMEOUT_MS) != 0 || undelivered > 0)
		fail(topic, "not all records were delivered");
	seconds = (double) (wall_us() - p->started) / 1e6;
	fprintf(stderr, "{\"rows\": %" PRId64 ", \"mb\": %.1f, \"wall_s\": %.3f, \"cpu_s\": %.2f, \"rows_per_s\": %.0f}\n",
			p->rows, (double) p->bytes / 1e6, seconds, cpu_s(), (double) p->rows / seconds);
	rd_kafka_topic_destroy(p->topic);
	rd_kafka_destroy(p->client);
}

/* Each key once, scattered, then a fifth as many drawn at random. */
static void
produce_keys(Producer *p, int64_t keys)
{
	int64_t		step = 1000003;		/* prime, so each comes once unless it divides the number */
	uint64_t	random = 42;

	if (keys % step == 0)
		step = 999983;
	for (int64_t i = 0; i < keys + keys / 5; i++)
	{
		char		value[96];
		int64_t		key = i * step % keys;

		if (i >= keys)
		{
			random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
			key = (int64_t) ((random >> 33) % (uint64_t) keys);
		}
		produce_value(p, value, snprintf(value, sizeof(value), "{\"k\":%" PRId64 ",\"v\":%" PRId64 "}", key, i), "");
	}
}

static void
fill(int64_t rows, const char *kind)
{
	Producer	p = open_producer("50");
	const Bid  *bid;
	const Auction *auction;
	const Ad   *ad;

	if (strcmp(kind, "bids") == 0)
	{
		bids_start(rows, 42);
		while ((bid = bid_next()) != NULL)
			produce(&p, bid);
	}
	else if (strcmp(kind, "auctions") == 0)
	{
		auctions_start(42);
		while ((auction = auction_next()) != NULL)
			produce_auction(&p, auction);
	}
	else if (strcmp(kind, "ads") == 0)
	{
		ads_start(rows, 42);
		while ((ad = ad_next()) != NULL)
			produce_ad(&p, ad);
	}
	else if (strcmp(kind, "keys") == 0)
		produce_keys(&p, rows);
	else
		fail(kind, "no such rows");
	close_producer(&p);
}

static void
load(int64_t keys)
{
	Producer	p = open_producer("50");
	Bid			bid;

	bids_start(keys, 43);
	for (int64_t key = 0; key < keys; key++)
	{
		bid = *bid_now(wall_us() / 1000, 1);
		bid.auction = key;
		produce(&p, &bid);
	}
	close_producer(&p);
}

static void
live(double rate, double seconds, int64_t auctions)
{
	Producer	p = open_producer("1");
	int64_t		rows = (int64_t) (rate * seconds);

	bids_start(rows, 44);
	for (int64_t i = 0; i < rows; i++)
	{
		int64_t		due = p.started + (int64_t) ((double) i * 1e6 / rate);
		int64_t		now = wall_us();

		/* Those that are due by now go at once: looking all the time would take a core. */
		if (now < due)
		{
			rd_kafka_poll(p.client, 0);
			usleep(due - now > LOOK_US ? (useconds_t) (due - now) : LOOK_US);
			now = wall_us();
		}
		produce(&p, bid_now(now / 1000, auctions));
	}
	close_producer(&p);
}

/* ---------------------------------------------------------------- reading */

/* A consumer on all partitions, from their first record or from the next one; *waiting: how many are there. */
static rd_kafka_t *
open_consumer(const Setting *settings, int from_end, int64_t *waiting)
{
	rd_kafka_t *client = connect_to(RD_KAFKA_CONSUMER, settings);
	rd_kafka_topic_t *handle = rd_kafka_topic_new(client, topic, NULL);
	int			n = count_partitions(client, handle);
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(n);
	rd_kafka_resp_err_t error;

	rd_kafka_poll_set_consumer(client);
	*waiting = 0;
	for (int32_t p = 0; p < n; p++)
	{
		int64_t		low,
					high;

		error = rd_kafka_query_watermark_offsets(client, topic, p, &low, &high, TIMEOUT_MS);
		if (error != 0)
			fail(topic, rd_kafka_err2str(error));
		*waiting += high - low;
		rd_kafka_topic_partition_list_add(list, topic, p)->offset = from_end ? high : low;
	}
	error = rd_kafka_assign(client, list);
	if (error != 0)
		fail(topic, rd_kafka_err2str(error));
	rd_kafka_topic_partition_list_destroy(list);
	rd_kafka_topic_destroy(handle);
	return client;
}

/* The number behind "name": of a bid. */
static int64_t
number_of(const rd_kafka_message_t *record, const char *name)
{
	const char *found = memmem(record->payload, record->len, name, strlen(name));

	return found ? strtoll(found + strlen(name), NULL, 10) : -1;
}

static void
consume(int print)
{
	const Setting settings[] = {
		{"group.id", "streamx-bench"}, {"enable.auto.commit", "false"}, {"auto.offset.reset", "earliest"},
		{"queued.min.messages", "1000000"}, {"queued.max.messages.kbytes", "262144"},
		{"fetch.message.max.bytes", "8388608"}, {"fetch.wait.max.ms", "10"}, {"check.crcs", "false"}, {NULL, NULL}
	};
	int64_t		waiting;
	int64_t		n = 0;
	rd_kafka_t *client = open_consumer(settings, 0, &waiting);
	rd_kafka_queue_t *queue = rd_kafka_queue_get_consumer(client);
	rd_kafka_message_t *records[4096];
	int64_t		begin = wall_us();
	double		cpu = cpu_s();
	double		bytes = 0;
	double		seconds;

	while (n < waiting)
	{
		ssize_t		got = rd_kafka_consume_batch_queue(queue, 100, records, 4096);

		for (ssize_t i = 0; i < got; i++)
		{
			if (records[i]->err == 0)
			{
				n++;
				bytes += (double) records[i]->len;
				if (print)
					printf("%d %" PRId64 " %" PRId64 " %" PRId64 "\n", records[i]->partition, records[i]->offset,
						   number_of(records[i], "\"date_time\":"), number_of(records[i], "\"price\":"));
			}
			rd_kafka_message_destroy(records[i]);
		}
	}
	seconds = (double) (wall_us() - begin) / 1e6;
	cpu = cpu_s() - cpu;
	fprintf(stderr, "{\"rows\": %" PRId64 ", \"mb\": %.1f, \"wall_s\": %.3f, \"cpu_s\": %.2f, \"rows_per_s\": %.0f, \"rows_per_cpu_s\": %.0f}\n",
			n, bytes / 1e6, seconds, cpu, (double) n / seconds, (double) n / cpu);
	rd_kafka_queue_destroy(queue);
	fflush(stdout);
	_exit(0);					/* closing takes a while, and leaves nothing behind */
}

static void
watch(void)
{
	const Setting settings[] = {
		{"group.id", "streamx-bench"}, {"enable.auto.commit", "false"}, {"isolation.level", "read_committed"},
		{"fetch.wait.max.ms", "10"}, {"fetch.message.max.bytes", "8388608"}, {NULL, NULL}
	};
	int64_t		waiting;
	int64_t		n = 0;
	rd_kafka_t *client = open_consumer(settings, 1, &waiting);
	int64_t		last = wall_us();

	fprintf(stderr, "ready\n");
	while (wall_us() - last < (n > 0 ? QUIET_S : FIRST_S) * INT64_C(1000000))
	{
		rd_kafka_message_t *record = rd_kafka_consumer_poll(client, 100);

		if (record == NULL)
			continue;
		if (record->err == 0)
		{
			last = wall_us();
			n++;
			printf("%" PRId64 " %.3f\n", number_of(record, "\"date_time\":"), (double) last / 1000);
		}
		rd_kafka_message_destroy(record);
	}
	fprintf(stderr, "{\"rows\": %" PRId64 ", \"cpu_s\": %.2f}\n", n, cpu_s());
	fflush(stdout);
	_exit(0);
}

int
main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (argc < 4)
	{
		fprintf(stderr, "usage: topic create|fill|load|live|consume|dump|watch BROKERS TOPIC ...\n");
		return 2;
	}
	brokers = argv[2];
	topic = argv[3];
	if (strcmp(command, "create") == 0 && argc >= 5)
		create(atoi(argv[4]), argv + 5);
	else if (strcmp(command, "fill") == 0 && (argc == 5 || argc == 6))
		fill(atoll(argv[4]), argc == 6 ? argv[5] : "bids");
	else if (strcmp(command, "load") == 0 && argc == 5)
		load(atoll(argv[4]));
	else if (strcmp(command, "live") == 0 && argc == 7)
		live(atof(argv[4]), atof(argv[5]), atoll(argv[6]));
	else if (strcmp(command, "consume") == 0)
		consume(0);
	else if (strcmp(command, "dump") == 0)
		consume(1);
	else if (strcmp(command, "watch") == 0)
		watch();
	else
		fail(command, "unknown command, or too few arguments");
	return 0;
}
