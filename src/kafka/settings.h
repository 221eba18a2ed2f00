/*
 * settings.h
 *		Settings of Kafka clients, as options of servers, user mappings and streams.
 *
 * Settings can run code (a plugin, a command, an engine) and hold secrets, so there
 * is a list of those that are allowed, each with the levels where it may stand:
 * server (which brokers, how to talk to them), user mapping (secrets), stream
 * (tuning of one reader or writer). What is not in the list is refused.
 *
 * Names are Kafka's: kafka.security.protocol, security_protocol and
 * kafka_security_protocol are the same; on a stream the prefix must be there.
 * Where librdkafka spells a Java setting otherwise it is translated.
 */
#ifndef SX_KAFKA_SETTINGS_H
#define SX_KAFKA_SETTINGS_H

#include <librdkafka/rdkafka.h>

#include "nodes/pg_list.h"

typedef enum SxKafkaLevel
{
	SX_KAFKA_SERVER = 1,
	SX_KAFKA_USER = 2,
	SX_KAFKA_STREAM = 4
} SxKafkaLevel;

typedef struct SxKafkaSetting
{
	const char *name;			/* librdkafka's */
	const char *value;
	bool		secret;
	bool		consumer;		/* meant for consumers; else producers, or both */
	bool		producer;
} SxKafkaSetting;

typedef struct SxKafkaSettings
{
	int			n;
	SxKafkaSetting *settings;
	const char *brokers;		/* bootstrap.servers, for messages */
	const char *token;			/* of SASL OAUTHBEARER; secret; NULL: none */

	/* schema registry, which the library doesn't know; NULL: not given */
	const char *registry_url;
	const char *registry_user;
	const char *registry_password;	/* secret */
} SxKafkaSettings;

/* Does a stream's option name a client setting (kafka. or kafka_ first)? */
extern bool sx_kafka_is_client_option(const char *name);

/* Same name? Letters of any case; "." and "_" don't count: "topic.pattern", topic_pattern, topicPattern. */
extern bool sx_kafka_name_is(const char *given, const char *name);

/*
 * DDL: checks the DefElems of a level. On a stream only those that are client
 * options are looked at. Errors say what is legal; secrets are in none of them.
 * Also checks the current user's right to files that are named.
 */
extern void sx_kafka_settings_check(SxKafkaLevel level, List *options);

/* An error if a stream's option, given without the prefix, belongs to the server or the user mapping. */
extern void sx_kafka_refuse_at_stream(const char *name);

/*
 * What a client of this server for this user is made with; the options of the
 * stream come last and may be NIL. Checked anew, since rights may have gone.
 * In CurrentMemoryContext.
 */
extern SxKafkaSettings *sx_kafka_settings(Oid serverid, Oid userid, List *stream_options);

/* A value of the settings, by librdkafka's name; NULL: not set. */
extern const char *sx_kafka_settings_get(const SxKafkaSettings *settings, const char *name);

/* Text without any of the secrets, palloc'ed; for whatever a library said. */
extern char *sx_kafka_redact(const SxKafkaSettings *settings, const char *text);

/* All settings as "name=value, ...", secrets as ***: for logs. */
extern char *sx_kafka_settings_print(const SxKafkaSettings *settings);

/* Comma-separated names that are legal at a level, for hints and documentation. */
extern char *sx_kafka_settings_legal(SxKafkaLevel level);

#endif
