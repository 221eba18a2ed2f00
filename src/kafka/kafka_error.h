/*
 * kafka_error.h
 *		What librdkafka's error codes mean for a query.
 *
 * The supervisor retries or gives up by the SQLSTATE alone (base/errors.h), so
 * every code of the library has its kind here, and every kind its SQLSTATE.
 */
#ifndef SX_KAFKA_KAFKA_ERROR_H
#define SX_KAFKA_KAFKA_ERROR_H

#include <librdkafka/rdkafka.h>

typedef enum SxKafkaErrorKind
{
	SX_KAFKA_OK,				/* no error, or an event that is none */
	SX_KAFKA_AWAY,				/* broker, leader or coordinator cannot be reached now */
	SX_KAFKA_BUSY,				/* the cluster lacks something that comes back: replicas, disk, quota */
	SX_KAFKA_AGAIN,				/* a transaction was refused; a new one may succeed */
	SX_KAFKA_CREDENTIALS,		/* who are you? */
	SX_KAFKA_TLS,				/* handshake or certificates */
	SX_KAFKA_FORBIDDEN,			/* known, but not allowed to */
	SX_KAFKA_NO_TOPIC,			/* topic or partition does not exist */
	SX_KAFKA_FENCED,			/* another producer took this one's place */
	SX_KAFKA_TOO_LARGE,			/* record or batch of records */
	SX_KAFKA_CORRUPT,			/* records that cannot be read, or are refused as malformed */
	SX_KAFKA_OFFSET_GONE,		/* the wanted offset is not in the log */
	SX_KAFKA_UNSUPPORTED,		/* the broker, or this librdkafka, cannot do it */
	SX_KAFKA_SETTING,			/* a setting that the broker or the library refuses */
	SX_KAFKA_EXISTS,			/* topic exists already */
	SX_KAFKA_INTERNAL			/* should not happen */
} SxKafkaErrorKind;

/* Thread: any. Codes that nobody knows yet are SX_KAFKA_INTERNAL. */
extern SxKafkaErrorKind sx_kafka_error_kind(rd_kafka_resp_err_t err);

extern int	sx_kafka_error_sqlstate(SxKafkaErrorKind kind);

/* What to do about it, a sentence; NULL: nothing more to say. */
extern const char *sx_kafka_error_hint(SxKafkaErrorKind kind);

/* "away", "credentials", ...: for tests and logs. Thread: any. */
extern const char *sx_kafka_error_kind_name(SxKafkaErrorKind kind);

#endif
