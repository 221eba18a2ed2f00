/*
 * kafkatool.c
 *		Topics and records from the command line, without the second that a Java
 *		tool needs to start.
 *
 *	kafkatool -b BROKERS [-X NAME=VALUE]... COMMAND
 *
 *	topics								name and number of partitions, a line each
 *	create TOPIC PARTITIONS [NAME=VALUE]...		with settings of the topic
 *	set TOPIC NAME=VALUE...				exactly these settings, of a topic that is there
 *	delete TOPIC
 *	partitions TOPIC TOTAL				adds partitions
 *	delete-records TOPIC PARTITION BEFORE	as retention would
 *	offsets TOPIC						partition, first offset, end offset
 *	committed GROUP TOPIC				partition, offset, metadata of what a group committed
 *	commit GROUP TOPIC PARTITION OFFSET [METADATA]
 *	acl PRINCIPAL OPERATION TYPE NAME	allows all, read, write, describe, ... on topic, group, transactional_id
 *	produce [options]					records from stdin
 *	consume TOPIC[,TOPIC] [options]		records to stdout
 *
 *	produce
 *		-t TOPIC	where to, unless a record says topic=
 *		-p N		partition, unless a record says p=
 *		-F			lines are fields, see below; without it a line is a value
 *		-k CHAR		a line is key CHAR value
 *		-T ID		transactional; all of the input is one transaction
 *		-A			... which is aborted
 *		-C N		... a new one after each N records
 *		-L N		at most N records a second
 *
 *	consume
 *		-u			also what is in open and aborted transactions
 *		-v			values only
 *		-f OFFSET	from there; default: from the first
 *		-n N		waits for N records; without it reads to the present end
 *		-w SECONDS	at most, default 30; then the exit status is 3
 *
 *	Fields are separated by tabs: k=KEY  v=VALUE  p=PARTITION  t=MILLISECONDS  topic=TOPIC
 *	h=NAME:VALUE (again for more). No v= means no value (a tombstone), no k= no key, h=NAME a
 *	header without value. \t \n \r \\ and \xHH stand for bytes. consume prints
 *	topic=, p=, o=OFFSET, t=, k=, v=, h= in the same way. With -F lines that begin with ! are
 *	orders: !begin !commit !abort !flush !sleep MS; then the transactions are the caller's.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>

#define TIMEOUT_MS		30000
#define MAX_HEADERS		64

static char errstr[512];
static const char *brokers = "127.0.0.1:9092";
static char *settings[64];
static int	nsettings = 0;
static volatile long undelivered = 0;

static void
die(const char *format,...)
{
	va_list		args;

	va_start(args, format);
	fputs("kafkatool: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
	exit(1);
}

/* ---- handles ---- */

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	if (rd_kafka_conf_set(conf, name, value, errstr, sizeof(errstr)) != RD_KAFKA_CONF_OK)
		die("%s", errstr);
}

static void
delivered(rd_kafka_t *rk, const rd_kafka_message_t *message, void *opaque)
{
	/* what an abort takes back was not meant to arrive */
	if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR ||
		message->err == RD_KAFKA_RESP_ERR__PURGE_QUEUE || message->err == RD_KAFKA_RESP_ERR__PURGE_INFLIGHT)
		return;
	fprintf(stderr, "kafkatool: not delivered: %s\n", rd_kafka_err2str(message->err));
	undelivered++;
}

static rd_kafka_t *
handle(rd_kafka_type_t type, const char *const *more)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;

	set(conf, "bootstrap.servers", brokers);
	if (type == RD_KAFKA_PRODUCER)
	{
		set(conf, "linger.ms", "20");
		set(conf, "message.max.bytes", "100000000");
		set(conf, "topic.metadata.propagation.max.ms", "5000");
		rd_kafka_conf_set_dr_msg_cb(conf, delivered);
	}
	for (; more != NULL && *more != NULL; more += 2)
		set(conf, more[0], more[1]);
	for (int i = 0; i < nsettings; i++)
	{
		char	   *equals = strchr(settings[i], '=');

		if (equals == NULL)
			die("-X wants NAME=VALUE");
		*equals = '\0';
		set(conf, settings[i], equals + 1);
		*equals = '=';
	}
	rk = rd_kafka_new(type, conf, errstr, sizeof(errstr));
	if (rk == NULL)
		die("%s", errstr);
	return rk;
}

static const struct rd_kafka_metadata *
metadata(rd_kafka_t *rk, const char *topic)
{
	const struct rd_kafka_metadata *result;
	rd_kafka_topic_t *rkt = topic != NULL ? rd_kafka_topic_new(rk, topic, NULL) : NULL;
	rd_kafka_resp_err_t err = rd_kafka_metadata(rk, topic == NULL, rkt, &result, TIMEOUT_MS);

	if (rkt != NULL)
		rd_kafka_topic_destroy(rkt);
	if (err)
		die("metadata: %s", rd_kafka_err2str(err));
	if (topic != NULL && result->topics[0].err)
		die("topic %s: %s", topic, rd_kafka_err2str(result->topics[0].err));
	return result;
}

/* ---- topics ---- */

static void
check_topic_result(const rd_kafka_topic_result_t **results, size_t n)
{
	for (size_t i = 0; i < n; i++)
	{
		if (rd_kafka_topic_result_error(results[i]))
			die("topic %s: %s", rd_kafka_topic_result_name(results[i]),
				rd_kafka_topic_result_error_string(results[i]));
	}
}

/* Waits for the answer to an order, and dies with what is wrong. */
static rd_kafka_event_t *
answer(rd_kafka_queue_t *queue)
{
	rd_kafka_event_t *event = rd_kafka_queue_poll(queue, TIMEOUT_MS);
	size_t		n;

	if (event == NULL)
		die("no answer");
	if (rd_kafka_event_error(event))
		die("%s", rd_kafka_event_error_string(event));
	switch (rd_kafka_event_type(event))
	{
		case RD_KAFKA_EVENT_CREATETOPICS_RESULT:
			{
				const rd_kafka_topic_result_t **results = rd_kafka_CreateTopics_result_topics(rd_kafka_event_CreateTopics_result(event), &n);

				check_topic_result(results, n);
				break;
			}
		case RD_KAFKA_EVENT_DELETETOPICS_RESULT:
			{
				const rd_kafka_topic_result_t **results = rd_kafka_DeleteTopics_result_topics(rd_kafka_event_DeleteTopics_result(event), &n);

				check_topic_result(results, n);
				break;
			}
		case RD_KAFKA_EVENT_CREATEPARTITIONS_RESULT:
			{
				const rd_kafka_topic_result_t **results = rd_kafka_CreatePartitions_result_topics(rd_kafka_event_CreatePartitions_result(event), &n);

				check_topic_result(results, n);
				break;
			}
		case RD_KAFKA_EVENT_ALTERCONFIGS_RESULT:
			{
				const rd_kafka_ConfigResource_t **results = rd_kafka_AlterConfigs_result_resources(rd_kafka_event_AlterConfigs_result(event), &n);

				for (size_t i = 0; i < n; i++)
				{
					if (rd_kafka_ConfigResource_error(results[i]))
						die("%s", rd_kafka_ConfigResource_error_string(results[i]));
				}
				break;
			}
		case RD_KAFKA_EVENT_CREATEACLS_RESULT:
			{
				const rd_kafka_acl_result_t **results = rd_kafka_CreateAcls_result_acls(rd_kafka_event_CreateAcls_result(event), &n);

				for (size_t i = 0; i < n; i++)
				{
					const rd_kafka_error_t *error = rd_kafka_acl_result_error(results[i]);

					if (error != NULL)
						die("%s", rd_kafka_error_string(error));
				}
				break;
			}
		case RD_KAFKA_EVENT_DELETERECORDS_RESULT:
			{
				const rd_kafka_topic_partition_list_t *list =
					rd_kafka_DeleteRecords_result_offsets(rd_kafka_event_DeleteRecords_result(event));

				for (int i = 0; i < list->cnt; i++)
				{
					if (list->elems[i].err)
						die("partition %d: %s", list->elems[i].partition, rd_kafka_err2str(list->elems[i].err));
				}
				break;
			}
		default:
			break;
	}
	return event;
}

static void
create_topic(rd_kafka_t *rk, rd_kafka_queue_t *queue, const char *topic, int partitions,
			 char **configs, int n)
{
	rd_kafka_NewTopic_t *order = rd_kafka_NewTopic_new(topic, partitions, 1, errstr, sizeof(errstr));

	if (order == NULL)
		die("%s", errstr);
	for (int i = 0; i < n; i++)
	{
		char	   *equals = strchr(configs[i], '=');

		if (equals == NULL)
			die("settings of a topic are NAME=VALUE");
		*equals = '\0';
		if (rd_kafka_NewTopic_set_config(order, configs[i], equals + 1))
			die("setting %s", configs[i]);
	}
	rd_kafka_CreateTopics(rk, &order, 1, NULL, queue);
	rd_kafka_event_destroy(answer(queue));
	rd_kafka_NewTopic_destroy(order);
}

static void
set_topic(rd_kafka_t *rk, rd_kafka_queue_t *queue, const char *topic, char **configs, int n)
{
	rd_kafka_ConfigResource_t *order = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);

	for (int i = 0; i < n; i++)
	{
		char	   *equals = strchr(configs[i], '=');

		if (equals == NULL)
			die("settings of a topic are NAME=VALUE");
		*equals = '\0';
		if (rd_kafka_ConfigResource_set_config(order, configs[i], equals + 1))
			die("setting %s", configs[i]);
	}
	rd_kafka_AlterConfigs(rk, &order, 1, NULL, queue);
	rd_kafka_event_destroy(answer(queue));
	rd_kafka_ConfigResource_destroy(order);
}

/* A leader that is named in the metadata may not know yet that it is. */
static bool
has_leaders(rd_kafka_t *rk, const char *topic, int partitions)
{
	int64_t		low,
				high;

	for (int p = 0; p < partitions; p++)
	{
		if (rd_kafka_query_watermark_offsets(rk, topic, p, &low, &high, 1000))
			return false;
	}
	return true;
}

/* The broker creates and deletes in the background: come back when clients see it. */
static void
wait_for_topic(rd_kafka_t *rk, const char *topic, int partitions)
{
	for (int i = 0; i < 300; i++)
	{
		const struct rd_kafka_metadata *all;
		int			found = 0;

		if (rd_kafka_metadata(rk, 1, NULL, &all, TIMEOUT_MS) == RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			for (int t = 0; t < all->topic_cnt; t++)
			{
				if (strcmp(all->topics[t].topic, topic) != 0)
					continue;
				for (int p = 0; p < all->topics[t].partition_cnt; p++)
					found += partitions == 0 || all->topics[t].partitions[p].leader >= 0;
			}
			rd_kafka_metadata_destroy(all);
			if (partitions == 0 ? found == 0 : found >= partitions && has_leaders(rk, topic, partitions))
				return;
		}
		usleep(50000);
	}
	die("topic %s is not as ordered after 15 s", topic);
}

static int
acl_operation(const char *name)
{
	for (int i = 0; i < RD_KAFKA_ACL_OPERATION__CNT; i++)
	{
		if (strcasecmp(rd_kafka_AclOperation_name(i), name) == 0)
			return i;
	}
	die("unknown operation %s", name);
	return 0;
}

static int
acl_type(const char *name)
{
	for (int i = 0; i < RD_KAFKA_RESOURCE__CNT; i++)
	{
		if (strcasecmp(rd_kafka_ResourceType_name(i), name) == 0)
			return i;
	}
	die("unknown type of resource %s", name);
	return 0;
}

static void
admin(int argc, char **argv)
{
	static const char *const more[] = {"allow.auto.create.topics", "false", NULL};
	rd_kafka_t *rk = handle(RD_KAFKA_PRODUCER, more);
	rd_kafka_queue_t *queue = rd_kafka_queue_new(rk);
	const char *command = argv[0];
	int			n = argc - 1;

	if (strcmp(command, "create") == 0 && n >= 2)
	{
		create_topic(rk, queue, argv[1], atoi(argv[2]), argv + 3, n - 2);
		wait_for_topic(rk, argv[1], atoi(argv[2]));
	}
	else if (strcmp(command, "set") == 0 && n >= 2)
		set_topic(rk, queue, argv[1], argv + 2, n - 1);
	else if (strcmp(command, "delete") == 0 && n == 1)
	{
		rd_kafka_DeleteTopic_t *order = rd_kafka_DeleteTopic_new(argv[1]);

		rd_kafka_DeleteTopics(rk, &order, 1, NULL, queue);
		rd_kafka_event_destroy(answer(queue));
		rd_kafka_DeleteTopic_destroy(order);
		wait_for_topic(rk, argv[1], 0);
	}
	else if (strcmp(command, "partitions") == 0 && n == 2)
	{
		rd_kafka_NewPartitions_t *order = rd_kafka_NewPartitions_new(argv[1], atoi(argv[2]), errstr, sizeof(errstr));

		if (order == NULL)
			die("%s", errstr);
		rd_kafka_CreatePartitions(rk, &order, 1, NULL, queue);
		rd_kafka_event_destroy(answer(queue));
		rd_kafka_NewPartitions_destroy(order);
		wait_for_topic(rk, argv[1], atoi(argv[2]));
	}
	else if (strcmp(command, "delete-records") == 0 && n == 3)
	{
		rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(1);
		rd_kafka_DeleteRecords_t *order;

		rd_kafka_topic_partition_list_add(list, argv[1], atoi(argv[2]))->offset = atoll(argv[3]);
		order = rd_kafka_DeleteRecords_new(list);
		rd_kafka_DeleteRecords(rk, &order, 1, NULL, queue);
		rd_kafka_event_destroy(answer(queue));
		rd_kafka_DeleteRecords_destroy(order);
		rd_kafka_topic_partition_list_destroy(list);
	}
	else if (strcmp(command, "acl") == 0 && n == 4)
	{
		rd_kafka_AclBinding_t *order = rd_kafka_AclBinding_new(acl_type(argv[3]), argv[4], RD_KAFKA_RESOURCE_PATTERN_LITERAL,
															   argv[1], "*", acl_operation(argv[2]),
															   RD_KAFKA_ACL_PERMISSION_TYPE_ALLOW, errstr, sizeof(errstr));

		if (order == NULL)
			die("%s", errstr);
		rd_kafka_CreateAcls(rk, &order, 1, NULL, queue);
		rd_kafka_event_destroy(answer(queue));
		rd_kafka_AclBinding_destroy(order);
	}
	else
		die("%s: wrong arguments", command);
	rd_kafka_queue_destroy(queue);
	rd_kafka_destroy(rk);
}

static void
list_topics(void)
{
	rd_kafka_t *rk = handle(RD_KAFKA_PRODUCER, NULL);
	const struct rd_kafka_metadata *all = metadata(rk, NULL);

	for (int i = 0; i < all->topic_cnt; i++)
		printf("%s %d\n", all->topics[i].topic, all->topics[i].partition_cnt);
	rd_kafka_metadata_destroy(all);
	rd_kafka_destroy(rk);
}

static void
list_offsets(const char *topic)
{
	rd_kafka_t *rk = handle(RD_KAFKA_CONSUMER, NULL);
	const struct rd_kafka_metadata *all = metadata(rk, topic);

	for (int p = 0; p < all->topics[0].partition_cnt; p++)
	{
		int64_t		low,
					high;
		rd_kafka_resp_err_t err = rd_kafka_query_watermark_offsets(rk, topic, p, &low, &high, TIMEOUT_MS);

		if (err)
			die("partition %d: %s", p, rd_kafka_err2str(err));
		printf("%d %lld %lld\n", p, (long long) low, (long long) high);
	}
	rd_kafka_metadata_destroy(all);
	rd_kafka_destroy(rk);
}

static void
group_offsets(int argc, char **argv)
{
	const char *const more[] = {"group.id", argv[1], "enable.auto.commit", "false", NULL};
	bool		commit = strcmp(argv[0], "commit") == 0;
	rd_kafka_t *rk;
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
	rd_kafka_resp_err_t err;

	if (commit ? argc < 5 : argc != 3)
		die("%s: wrong arguments", argv[0]);
	rk = handle(RD_KAFKA_CONSUMER, more);
	if (commit)
	{
		rd_kafka_topic_partition_t *elem = rd_kafka_topic_partition_list_add(list, argv[2], atoi(argv[3]));

		elem->offset = atoll(argv[4]);
		if (argc > 5)
		{
			elem->metadata = strdup(argv[5]);
			elem->metadata_size = strlen(argv[5]);
		}
		err = rd_kafka_commit(rk, list, 0);
	}
	else
	{
		const struct rd_kafka_metadata *all = metadata(rk, argv[2]);

		for (int p = 0; p < all->topics[0].partition_cnt; p++)
			rd_kafka_topic_partition_list_add(list, argv[2], p);
		rd_kafka_metadata_destroy(all);
		err = rd_kafka_committed(rk, list, TIMEOUT_MS);
	}
	if (err)
		die("%s", rd_kafka_err2str(err));
	for (int i = 0; !commit && i < list->cnt; i++)
	{
		if (list->elems[i].offset >= 0)
			printf("%d %lld %.*s\n", list->elems[i].partition, (long long) list->elems[i].offset,
				   (int) list->elems[i].metadata_size, (char *) list->elems[i].metadata);
	}
	rd_kafka_topic_partition_list_destroy(list);
	rd_kafka_destroy(rk);
}

/* ---- producing ---- */

typedef struct Producer
{
	rd_kafka_t *rk;
	const char *topic;
	int			partition;
	bool		fields;
	char		separator;		/* between key and value, or 0 */
	bool		transactional;
	bool		abort;
	long		commit_every;
	long		limit;			/* records a second, or 0 */
	bool		in_transaction;
	bool		orders;			/* transactions are begun and ended by lines of input */
	long		records;
	struct timespec started;
} Producer;

static void
check(rd_kafka_error_t *error, const char *what)
{
	if (error != NULL)
		die("%s: %s", what, rd_kafka_error_string(error));
}

static void
begin(Producer *p)
{
	check(rd_kafka_begin_transaction(p->rk), "begin");
	p->in_transaction = true;
}

static void
finish(Producer *p, bool abort)
{
	if (abort)
	{
		/* what is aborted shall have been there, so that its offsets are used up */
		rd_kafka_flush(p->rk, TIMEOUT_MS);
		check(rd_kafka_abort_transaction(p->rk, TIMEOUT_MS), "abort");
	}
	else
		check(rd_kafka_commit_transaction(p->rk, TIMEOUT_MS), "commit");
	p->in_transaction = false;
}

/* Undoes \t \n \r \\ \xHH in place; returns the length. */
static size_t
unescape(char *text)
{
	char	   *to = text;

	for (char *from = text; *from != '\0'; from++)
	{
		unsigned	byte;

		if (*from != '\\')
		{
			*to++ = *from;
			continue;
		}
		from++;
		if (*from == 'x' && sscanf(from + 1, "%2x", &byte) == 1)
		{
			*to++ = (char) byte;
			from += 2;
		}
		else if (*from == '\0')
			break;
		else
			*to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from == 'r' ? '\r' : *from;
	}
	*to = '\0';
	return to - text;
}

typedef struct Record
{
	const char *topic;
	int			partition;
	int64_t		timestamp;
	char	   *key;
	size_t		key_len;
	char	   *value;
	size_t		value_len;
	rd_kafka_headers_t *headers;
} Record;

static void
parse_fields(Record *record, char *line)
{
	char	   *field;

	while ((field = strsep(&line, "\t")) != NULL)
	{
		char	   *value = strchr(field, '=');

		if (value == NULL)
			die("not a field: %s", field);
		*value++ = '\0';
		if (strcmp(field, "k") == 0)
			record->key_len = unescape(record->key = value);
		else if (strcmp(field, "v") == 0)
			record->value_len = unescape(record->value = value);
		else if (strcmp(field, "p") == 0)
			record->partition = atoi(value);
		else if (strcmp(field, "t") == 0)
			record->timestamp = atoll(value);
		else if (strcmp(field, "topic") == 0)
			record->topic = value;
		else if (strcmp(field, "h") == 0)
		{
			char	   *text = strchr(value, ':');

			if (text != NULL)
				*text++ = '\0';
			if (record->headers == NULL)
				record->headers = rd_kafka_headers_new(MAX_HEADERS);
			rd_kafka_header_add(record->headers, value, -1, text, text == NULL ? 0 : (ssize_t) unescape(text));
		}
		else if (strcmp(field, "o") != 0)	/* what consume prints may be produced again */
			die("unknown field: %s", field);
	}
}

static void
order(Producer *p, char *line)
{
	p->orders = true;
	if (strcmp(line, "!begin") == 0)
		begin(p);
	else if (strcmp(line, "!commit") == 0)
		finish(p, false);
	else if (strcmp(line, "!abort") == 0)
		finish(p, true);
	else if (strcmp(line, "!flush") == 0)
		rd_kafka_flush(p->rk, TIMEOUT_MS);
	else if (strncmp(line, "!sleep ", 7) == 0)
	{
		rd_kafka_flush(p->rk, TIMEOUT_MS);
		usleep(1000 * atol(line + 7));
	}
	else
		die("unknown order: %s", line);
}

static void
send_record(Producer *p, Record *record)
{
	rd_kafka_vu_t vus[8];
	size_t		n = 0;
	rd_kafka_error_t *error;

	if (record->topic == NULL)
		die("which topic? give -t or topic=");
	vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_TOPIC,.u.cstr = record->topic};
	vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_PARTITION,.u.i32 = record->partition};
	vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_MSGFLAGS,.u.i = RD_KAFKA_MSG_F_COPY};
	vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_VALUE,.u.mem = {record->value, record->value_len}};
	vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_KEY,.u.mem = {record->key, record->key_len}};
	vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_TIMESTAMP,.u.i64 = record->timestamp};
	if (record->headers != NULL)
		vus[n++] = (rd_kafka_vu_t) {.vtype = RD_KAFKA_VTYPE_HEADERS,.u.headers = record->headers};
	while ((error = rd_kafka_produceva(p->rk, vus, n)) != NULL)
	{
		if (rd_kafka_error_code(error) != RD_KAFKA_RESP_ERR__QUEUE_FULL)
			die("produce: %s", rd_kafka_error_string(error));
		rd_kafka_error_destroy(error);
		rd_kafka_poll(p->rk, 100);
	}
	rd_kafka_poll(p->rk, 0);
}

static void
keep_pace(Producer *p)
{
	struct timespec now;
	double		due = (double) p->records / p->limit;
	double		passed;

	clock_gettime(CLOCK_MONOTONIC, &now);
	passed = (now.tv_sec - p->started.tv_sec) + (now.tv_nsec - p->started.tv_nsec) / 1e9;
	if (due > passed)
		usleep((due - passed) * 1e6);
}

static void
produce_lines(Producer *p)
{
	char	   *line = NULL;
	size_t		size = 0;
	ssize_t		len;

	clock_gettime(CLOCK_MONOTONIC, &p->started);
	while ((len = getline(&line, &size, stdin)) >= 0)
	{
		Record		record = {.topic = p->topic,.partition = p->partition};

		if (len > 0 && line[len - 1] == '\n')
			line[--len] = '\0';
		if (p->fields && line[0] == '!')
		{
			order(p, line);
			continue;
		}
		if (p->fields)
			parse_fields(&record, line);
		else
		{
			char	   *at = p->separator != 0 ? memchr(line, p->separator, len) : NULL;

			record.value = at != NULL ? at + 1 : line;
			record.value_len = len - (record.value - line);
			record.key = at != NULL ? line : NULL;
			record.key_len = at != NULL ? at - line : 0;
		}
		if (p->transactional && !p->in_transaction)
			begin(p);
		send_record(p, &record);
		p->records++;
		if (p->in_transaction && p->commit_every > 0 && p->records % p->commit_every == 0)
			finish(p, p->abort);
		if (p->limit > 0)
			keep_pace(p);
	}
	free(line);
}

static void
produce(int argc, char **argv)
{
	Producer	p = {.partition = RD_KAFKA_PARTITION_UA};
	const char *more[3] = {NULL};
	int			c;

	while ((c = getopt(argc, argv, "t:p:Fk:T:AC:L:")) != -1)
	{
		switch (c)
		{
			case 't':
				p.topic = optarg;
				break;
			case 'p':
				p.partition = atoi(optarg);
				break;
			case 'F':
				p.fields = true;
				break;
			case 'k':
				p.separator = optarg[0];
				break;
			case 'T':
				p.transactional = true;
				more[0] = "transactional.id";
				more[1] = optarg;
				break;
			case 'A':
				p.abort = true;
				break;
			case 'C':
				p.commit_every = atol(optarg);
				break;
			case 'L':
				p.limit = atol(optarg);
				break;
			default:
				exit(2);
		}
	}
	p.rk = handle(RD_KAFKA_PRODUCER, more);
	if (p.transactional)
		check(rd_kafka_init_transactions(p.rk, TIMEOUT_MS), "init_transactions");
	produce_lines(&p);
	if (p.in_transaction && !p.orders)
		finish(&p, p.abort);
	if (rd_kafka_flush(p.rk, TIMEOUT_MS) || undelivered > 0)
		die("%ld records not delivered", undelivered > 0 ? undelivered : (long) rd_kafka_outq_len(p.rk));
	/* a transaction left open on purpose stays open: its owner just vanishes */
	if (p.in_transaction)
		_exit(0);
	rd_kafka_destroy(p.rk);
}

/* ---- consuming ---- */

static void
print_bytes(const char *name, const void *data, size_t len)
{
	const unsigned char *bytes = data;

	fputs(name, stdout);
	for (size_t i = 0; i < len; i++)
	{
		if (bytes[i] == '\t')
			fputs("\\t", stdout);
		else if (bytes[i] == '\n')
			fputs("\\n", stdout);
		else if (bytes[i] == '\r')
			fputs("\\r", stdout);
		else if (bytes[i] == '\\')
			fputs("\\\\", stdout);
		else if (bytes[i] < 32 || bytes[i] == 127)
			printf("\\x%02x", bytes[i]);
		else
			putchar(bytes[i]);
	}
}

static void
print_record(const rd_kafka_message_t *message, bool values_only)
{
	rd_kafka_headers_t *headers;
	rd_kafka_timestamp_type_t type;
	const char *name;
	const void *data;
	size_t		len;

	if (values_only)
	{
		print_bytes("", message->payload, message->len);
		putchar('\n');
		return;
	}
	printf("topic=%s\tp=%d\to=%lld\tt=%lld", rd_kafka_topic_name(message->rkt), message->partition,
		   (long long) message->offset, (long long) rd_kafka_message_timestamp(message, &type));
	if (message->key != NULL)
		print_bytes("\tk=", message->key, message->key_len);
	if (message->payload != NULL)
		print_bytes("\tv=", message->payload, message->len);
	if (rd_kafka_message_headers(message, &headers) == RD_KAFKA_RESP_ERR_NO_ERROR)
	{
		for (size_t i = 0; rd_kafka_header_get_all(headers, i, &name, &data, &len) == RD_KAFKA_RESP_ERR_NO_ERROR; i++)
		{
			printf("\th=%s", name);
			if (data != NULL)
				print_bytes(":", data, len);
		}
	}
	putchar('\n');
}

static void
consume(int argc, char **argv)
{
	const char *more[] = {
		"group.id", "kafkatool", "enable.auto.commit", "false", "enable.partition.eof", "true",
		"auto.offset.reset", "earliest", "fetch.wait.max.ms", "50",
		"isolation.level", "read_committed", NULL
	};
	bool		values_only = false;
	long		wanted = -1;
	long		seen = 0;
	int64_t		from = RD_KAFKA_OFFSET_BEGINNING;
	time_t		until = time(NULL) + 30;
	int			open_partitions;
	rd_kafka_t *rk;
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(4);
	char	   *topics;
	char	   *topic;
	int			c;

	while ((c = getopt(argc, argv, "uvf:n:w:")) != -1)
	{
		switch (c)
		{
			case 'u':
				more[11] = "read_uncommitted";
				break;
			case 'v':
				values_only = true;
				break;
			case 'f':
				from = atoll(optarg);
				break;
			case 'n':
				wanted = atol(optarg);
				break;
			case 'w':
				until = time(NULL) + atol(optarg);
				break;
			default:
				exit(2);
		}
	}
	if (optind != argc - 1)
		die("consume: which topic?");
	rk = handle(RD_KAFKA_CONSUMER, more);
	topics = argv[optind];
	while ((topic = strsep(&topics, ",")) != NULL)
	{
		const struct rd_kafka_metadata *all = metadata(rk, topic);

		for (int p = 0; p < all->topics[0].partition_cnt; p++)
			rd_kafka_topic_partition_list_add(list, topic, p)->offset = from;
		rd_kafka_metadata_destroy(all);
	}
	open_partitions = list->cnt;
	rd_kafka_poll_set_consumer(rk);
	if (rd_kafka_assign(rk, list))
		die("assign");
	while (wanted < 0 ? open_partitions > 0 : seen < wanted)
	{
		rd_kafka_message_t *message;

		if (time(NULL) >= until)
		{
			fflush(stdout);
			fprintf(stderr, "kafkatool: only %ld records in the time\n", seen);
			_exit(3);
		}
		message = rd_kafka_consumer_poll(rk, 200);
		if (message == NULL)
			continue;
		if (message->err == RD_KAFKA_RESP_ERR__PARTITION_EOF)
			open_partitions--;
		else if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR)
		{
			print_record(message, values_only);
			seen++;
		}
		else if (message->err != RD_KAFKA_RESP_ERR__TRANSPORT &&
				 message->err != RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
			die("%s", rd_kafka_message_errstr(message));
		rd_kafka_message_destroy(message);
	}
	rd_kafka_topic_partition_list_destroy(list);
	fflush(stdout);
	/* leaving is the broker's business */
	_exit(0);
}

int
main(int argc, char **argv)
{
	int			c;

	/* "+": options of the command are its own */
	while ((c = getopt(argc, argv, "+b:X:")) != -1)
	{
		if (c == 'b')
			brokers = optarg;
		else if (c == 'X' && nsettings < 64)
			settings[nsettings++] = optarg;
		else
			exit(2);
	}
	argc -= optind;
	argv += optind;
	optind = 1;
	if (argc == 0)
		die("which command?");
	if (strcmp(argv[0], "topics") == 0)
		list_topics();
	else if (strcmp(argv[0], "offsets") == 0 && argc == 2)
		list_offsets(argv[1]);
	else if (strcmp(argv[0], "committed") == 0 || strcmp(argv[0], "commit") == 0)
		group_offsets(argc, argv);
	else if (strcmp(argv[0], "produce") == 0)
		produce(argc, argv);
	else if (strcmp(argv[0], "consume") == 0)
		consume(argc, argv);
	else
		admin(argc, argv);
	return 0;
}
