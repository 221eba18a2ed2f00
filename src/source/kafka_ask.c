/*
 * kafka_ask.c
 *		What the broker is asked.
 */
#include "postgres.h"

#include "kafka/handle.h"
#include "source/kafka_ask.h"

/* ---- on a thread ---- */

static bool
add_found(SxKafkaAsk *ask, const char *topic, int32 partition, rd_kafka_resp_err_t error)
{
	SxKafkaAsked *it;

	if (ask->nfound % 64 == 0)
	{
		SxKafkaAsked *bigger = realloc(ask->found, sizeof(SxKafkaAsked) * (ask->nfound + 64));

		if (bigger == NULL)
			return false;
		ask->found = bigger;
	}
	it = &ask->found[ask->nfound];
	memset(it, 0, sizeof(*it));
	it->topic = strdup(topic);
	it->partition = partition;
	it->error = error;
	if (it->topic == NULL)
		return false;
	ask->nfound++;
	return true;
}

static rd_kafka_resp_err_t
read_metadata(SxKafkaAsk *ask, const struct rd_kafka_metadata *metadata)
{
	for (int i = 0; i < metadata->topic_cnt; i++)
	{
		const rd_kafka_metadata_topic_t *topic = &metadata->topics[i];

		if (topic->err != RD_KAFKA_RESP_ERR_NO_ERROR || topic->partition_cnt == 0)
		{
			if (!add_found(ask, topic->topic, -1, topic->err))
				return RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
			continue;
		}
		for (int j = 0; j < topic->partition_cnt; j++)
			if (!add_found(ask, topic->topic, topic->partitions[j].id,
						   RD_KAFKA_RESP_ERR_NO_ERROR))
				return RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE;
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t
ask_topics(rd_kafka_t *rk, SxKafkaAsk *ask)
{
	const struct rd_kafka_metadata *metadata;
	rd_kafka_resp_err_t error;

	if (ask->n == 0)
	{
		error = rd_kafka_metadata(rk, 1, NULL, &metadata, ask->timeout_ms);
		if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
			return error;
		error = read_metadata(ask, metadata);
		rd_kafka_metadata_destroy(metadata);
		return error;
	}
	for (int i = 0; i < ask->n; i++)
	{
		rd_kafka_topic_t *topic = rd_kafka_topic_new(rk, ask->asked[i].topic, NULL);

		if (topic == NULL)
			return rd_kafka_last_error();
		error = rd_kafka_metadata(rk, 0, topic, &metadata, ask->timeout_ms);
		rd_kafka_topic_destroy(topic);
		if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
			return error;
		error = read_metadata(ask, metadata);
		rd_kafka_metadata_destroy(metadata);
		if (error != RD_KAFKA_RESP_ERR_NO_ERROR)
			return error;
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* The errors of partitions stay with them; one that nobody answers is that of all. */
static rd_kafka_resp_err_t
ask_ends(rd_kafka_t *rk, SxKafkaAsk *ask)
{
	for (int i = 0; i < ask->n; i++)
	{
		SxKafkaAsked *it = &ask->asked[i];

		it->error = rd_kafka_query_watermark_offsets(rk, it->topic, it->partition,
													 &it->low, &it->high, ask->timeout_ms);
		if (it->error == RD_KAFKA_RESP_ERR__TIMED_OUT ||
			it->error == RD_KAFKA_RESP_ERR__TRANSPORT ||
			it->error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN)
			return it->error;
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static rd_kafka_resp_err_t
ask_times(rd_kafka_t *rk, SxKafkaAsk *ask)
{
	rd_kafka_topic_partition_list_t *list = rd_kafka_topic_partition_list_new(Max(ask->n, 1));
	rd_kafka_resp_err_t error;

	for (int i = 0; i < ask->n; i++)
		rd_kafka_topic_partition_list_add(list, ask->asked[i].topic,
										  ask->asked[i].partition)->offset = ask->asked[i].time;
	error = ask->n == 0 ? RD_KAFKA_RESP_ERR_NO_ERROR :
		rd_kafka_offsets_for_times(rk, list, ask->timeout_ms);
	for (int i = 0; error == RD_KAFKA_RESP_ERR_NO_ERROR && i < ask->n; i++)
	{
		rd_kafka_topic_partition_t *it =
			rd_kafka_topic_partition_list_find(list, ask->asked[i].topic,
											   ask->asked[i].partition);

		ask->asked[i].offset = it->offset < 0 ? -1 : it->offset;
		ask->asked[i].error = it->err;
	}
	rd_kafka_topic_partition_list_destroy(list);
	return error;
}

static rd_kafka_resp_err_t
run_ask(rd_kafka_t *rk, void *arg)
{
	SxKafkaAsk *ask = arg;
	rd_kafka_resp_err_t error = RD_KAFKA_RESP_ERR__INVALID_ARG;

	switch (ask->question)
	{
		case SX_KAFKA_ASK_TOPICS:
			error = ask_topics(rk, ask);
			break;
		case SX_KAFKA_ASK_ENDS:
			error = ask_ends(rk, ask);
			break;
		case SX_KAFKA_ASK_TIMES:
			error = ask_times(rk, ask);
			break;
	}
	ask->done = true;
	return error;
}

/* ---- the main thread ---- */

static void
out_of_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("A question to the Kafka broker could not be made.")));
}

SxKafkaAsk *
sx_kafka_ask_make(SxKafkaQuestion question, int timeout_ms)
{
	SxKafkaAsk *ask = calloc(1, sizeof(SxKafkaAsk));

	if (ask == NULL)
		out_of_memory();
	ask->question = question;
	ask->timeout_ms = timeout_ms;
	return ask;
}

void
sx_kafka_ask_add(SxKafkaAsk *ask, const char *topic, int32 partition, int64 time)
{
	SxKafkaAsked *it;

	if (ask->n == ask->size)
	{
		int			size = ask->size == 0 ? 16 : ask->size * 2;
		SxKafkaAsked *bigger = realloc(ask->asked, sizeof(SxKafkaAsked) * size);

		if (bigger == NULL)
		{
			sx_kafka_ask_free(ask);
			out_of_memory();
		}
		ask->asked = bigger;
		ask->size = size;
	}
	it = &ask->asked[ask->n];
	memset(it, 0, sizeof(*it));
	it->topic = strdup(topic);
	if (it->topic == NULL)
	{
		sx_kafka_ask_free(ask);
		out_of_memory();
	}
	it->partition = partition;
	it->time = time;
	ask->n++;
}

void
sx_kafka_ask_free(void *arg)
{
	SxKafkaAsk *ask = arg;

	for (int i = 0; i < ask->n; i++)
		free(ask->asked[i].topic);
	for (int i = 0; i < ask->nfound; i++)
		free(ask->found[i].topic);
	free(ask->asked);
	free(ask->found);
	free(ask);
}

void
sx_kafka_ask_wait(SxKafkaClient *client, SxKafkaAsk *ask)
{
	static const char *const what[] = {
		[SX_KAFKA_ASK_TOPICS] = "could not list the topics of the Kafka cluster",
		[SX_KAFKA_ASK_ENDS] = "could not ask for the ends of Kafka partitions",
		[SX_KAFKA_ASK_TIMES] = "could not ask for the offsets of times",
	};
	SxKafkaQuestion question = ask->question;
	rd_kafka_resp_err_t error = sx_kafka_call(client, run_ask, ask, sx_kafka_ask_free);

	if (error == RD_KAFKA_RESP_ERR_NO_ERROR)
		return;
	sx_kafka_ask_free(ask);
	sx_kafka_raise(client, error, NULL, "%s", what[question]);
}

SxKafkaJob *
sx_kafka_ask_begin(SxKafkaClient *client, SxKafkaAsk *ask)
{
	SxKafkaJob *job = sx_kafka_job_start(client->handle, run_ask, ask, sx_kafka_ask_free);

	if (job == NULL)
	{
		sx_kafka_ask_free(ask);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a thread to ask the Kafka broker: %m")));
	}
	return job;
}
