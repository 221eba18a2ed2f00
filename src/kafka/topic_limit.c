/*
 * topic_limit.c
 *		Asks the cluster for max.message.bytes of a topic.
 */
#include "postgres.h"

#include "base/wake.h"
#include "kafka/topic_limit.h"

#define SETTING			"max.message.bytes"
#define SLICE_MS		100

/* Of a batch of records: offset, length, epoch, magic, CRC, attributes, times, producer, count. */
#define BATCH_HEADER	61

static void
request(SxKafkaClient *client, const char *topic, int timeout_ms, rd_kafka_queue_t *replies)
{
	rd_kafka_ConfigResource_t *resource = rd_kafka_ConfigResource_new(RD_KAFKA_RESOURCE_TOPIC, topic);
	rd_kafka_AdminOptions_t *options = rd_kafka_AdminOptions_new(client->rk, RD_KAFKA_ADMIN_OP_DESCRIBECONFIGS);

	rd_kafka_AdminOptions_set_request_timeout(options, timeout_ms, NULL, 0);
	rd_kafka_DescribeConfigs(client->rk, &resource, 1, options, replies);
	rd_kafka_AdminOptions_destroy(options);
	rd_kafka_ConfigResource_destroy(resource);
}

static int
read_reply(rd_kafka_event_t *event)
{
	const rd_kafka_DescribeConfigs_result_t *result = rd_kafka_event_DescribeConfigs_result(event);
	const rd_kafka_ConfigResource_t **resources;
	const rd_kafka_ConfigEntry_t **entries;
	size_t		n = 0;

	if (result == NULL || rd_kafka_event_error(event) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return -1;
	resources = rd_kafka_DescribeConfigs_result_resources(result, &n);
	if (n != 1 || rd_kafka_ConfigResource_error(resources[0]) != RD_KAFKA_RESP_ERR_NO_ERROR)
		return -1;
	entries = rd_kafka_ConfigResource_configs(resources[0], &n);
	for (size_t i = 0; i < n; i++)
	{
		const char *value = rd_kafka_ConfigEntry_value(entries[i]);

		if (strcmp(rd_kafka_ConfigEntry_name(entries[i]), SETTING) == 0 && value != NULL)
			return Max(atoi(value), 0);
	}
	return -1;
}

int
sx_kafka_topic_limit(SxKafkaClient *client, const char *topic, int timeout_ms)
{
	rd_kafka_queue_t *replies = rd_kafka_queue_new(client->rk);
	volatile int limit = -1;

	request(client, topic, timeout_ms, replies);
	PG_TRY();
	{
		rd_kafka_event_t *event = NULL;

		/* The library's own timeout does not count what it waits for a connection. */
		for (int waited = 0; event == NULL && waited < timeout_ms; waited += SLICE_MS)
		{
			sx_check_stop();
			event = rd_kafka_queue_poll(replies, Min(SLICE_MS, timeout_ms));
		}
		if (event != NULL)
		{
			limit = read_reply(event);
			rd_kafka_event_destroy(event);
		}
	}
	PG_FINALLY();
	{
		rd_kafka_queue_destroy(replies);
	}
	PG_END_TRY();
	return limit;
}

bool
sx_kafka_compresses(const SxKafkaSettings *settings)
{
	const char *type = sx_kafka_settings_get(settings, "compression.type");

	return type != NULL && pg_strcasecmp(type, "none") != 0;
}

int
sx_kafka_length_bytes(int64 length)
{
	uint64		zigzag = length < 0 ? 1 : (uint64) length << 1;
	int			bytes = 1;

	while (zigzag >>= 7)
		bytes++;
	return bytes;
}

int64
sx_kafka_batch_bytes(bool has_key, size_t key, bool has_value, size_t value,
					 uint32 nheaders, size_t headers)
{
	/* attributes, and the differences to the batch's time and offset, which are 0 */
	int64		record = 3 +
		sx_kafka_length_bytes(has_key ? (int64) key : -1) + key +
		sx_kafka_length_bytes(has_value ? (int64) value : -1) + value +
		sx_kafka_length_bytes(nheaders) + headers;

	return BATCH_HEADER + sx_kafka_length_bytes(record) + record;
}
