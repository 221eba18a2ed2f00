/*
 * kafka_intent.h
 *		The bytes of an intent for Kafka: records, one after the other.
 *
 *	 uint8	flags		what follows, in this order; the others take no room
 *	 uint32	n, bytes	SX_KAFKA_TOPIC: topic of this record and those behind it
 *	 int32	partition	SX_KAFKA_PARTITION: else the client's partitioner chooses
 *	 uint32	n, bytes	SX_KAFKA_KEY: else the key is NULL
 *	 uint32	n, bytes	SX_KAFKA_VALUE: else the value is NULL, a tombstone
 *	 uint32	count		SX_KAFKA_HEADERS: then for each of them
 *		 uint32	n, bytes	name, without a terminating zero
 *		 uint32	n, bytes	value; n = SX_KAFKA_NULL: NULL
 *
 * Integers are in the server's byte order and not aligned: intents never leave
 * the cluster. The outbox adds version, length and checksum. An example: flags 13
 * (TOPIC, KEY, VALUE), 1 "t", 2 "k1", 2 "{}".
 *
 * An intent with no records moves only the mark.
 *
 * Thread: any; no memory is allocated.
 */
#ifndef SX_SINK_KAFKA_INTENT_H
#define SX_SINK_KAFKA_INTENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define SX_KAFKA_TOPIC		1
#define SX_KAFKA_PARTITION	2
#define SX_KAFKA_KEY		4
#define SX_KAFKA_VALUE		8
#define SX_KAFKA_HEADERS	16

#define SX_KAFKA_NULL		UINT32_MAX

typedef struct SxKafkaBytes
{
	const char *data;			/* NULL: NULL */
	uint32_t	len;
} SxKafkaBytes;

typedef struct SxKafkaRecord
{
	SxKafkaBytes topic;			/* NULL: that of the record before */
	int32_t		partition;		/* -1: not given */
	SxKafkaBytes key;
	SxKafkaBytes value;
	uint32_t	nheaders;
	const char *headers;		/* read with sx_kafka_bytes_read: name, value, name, ... */
} SxKafkaRecord;

/* Returns what follows; NULL: the bytes end too early. */
static inline const char *
sx_kafka_bytes_read(const char *at, const char *end, SxKafkaBytes *bytes)
{
	bytes->data = NULL;
	bytes->len = 0;
	if (at == NULL || (size_t) (end - at) < sizeof(uint32_t))
		return NULL;
	memcpy(&bytes->len, at, sizeof(uint32_t));
	at += sizeof(uint32_t);
	if (bytes->len == SX_KAFKA_NULL)
	{
		bytes->len = 0;
		return at;
	}
	if ((size_t) (end - at) < bytes->len)
		return NULL;
	bytes->data = at;
	return at + bytes->len;
}

static inline const char *
sx_kafka_record_read(const char *at, const char *end, SxKafkaRecord *record)
{
	uint8_t		flags;
	SxKafkaBytes skipped;

	memset(record, 0, sizeof(*record));
	record->partition = -1;
	if (at == end)
		return NULL;
	flags = (uint8_t) *at++;
	if (flags & SX_KAFKA_TOPIC)
		at = sx_kafka_bytes_read(at, end, &record->topic);
	if (at != NULL && flags & SX_KAFKA_PARTITION)
	{
		if ((size_t) (end - at) < sizeof(int32_t))
			return NULL;
		memcpy(&record->partition, at, sizeof(int32_t));
		at += sizeof(int32_t);
	}
	if (flags & SX_KAFKA_KEY)
		at = sx_kafka_bytes_read(at, end, &record->key);
	if (flags & SX_KAFKA_VALUE)
		at = sx_kafka_bytes_read(at, end, &record->value);
	if (at != NULL && flags & SX_KAFKA_HEADERS)
	{
		if ((size_t) (end - at) < sizeof(uint32_t))
			return NULL;
		memcpy(&record->nheaders, at, sizeof(uint32_t));
		at += sizeof(uint32_t);
		record->headers = at;
		for (uint32_t i = 0; i < 2 * record->nheaders && at != NULL; i++)
			at = sx_kafka_bytes_read(at, end, &skipped);
	}
	return at;
}

#endif
