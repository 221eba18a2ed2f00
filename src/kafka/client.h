/*
 * client.h
 *		Handles of librdkafka: made, listened to, and closed without waiting for ever.
 *
 * The library's threads know nothing of the server. What they have to say (errors,
 * log lines, a token that expires) waits in the handle's main queue until
 * sx_kafka_client_poll is called on the main thread. Records come from queues of
 * their own, which sources ask the handle (rk) for.
 *
 * Thread: main, where nothing else is said.
 */
#ifndef SX_KAFKA_CLIENT_H
#define SX_KAFKA_CLIENT_H

#include <librdkafka/rdkafka.h>

#include "base/compat.h"
#include "kafka/kafka_error.h"
#include "kafka/settings.h"

struct SxKafkaHandle;

typedef struct SxKafkaClient
{
	rd_kafka_t *rk;				/* for whatever the library offers; never destroyed by others */
	const SxKafkaSettings *settings;

	/*
	 * Optional, for events that are not ours: delivery reports, statistics. Called
	 * by sx_kafka_client_poll; the event is destroyed afterwards. Must not raise an error.
	 */
	void		(*on_event) (void *opaque, rd_kafka_event_t *event);
	void	   *opaque;

	/* the rest belongs to client.c */
	rd_kafka_queue_t *main_queue;
	struct SxKafkaHandle *handle;
	SxKafkaErrorKind cause;		/* of the last error event that says more than "away" */
	char	   *cause_text;		/* malloc'ed, redacted */
	bool		all_down;		/* no broker is connected, and the library keeps trying */
	rd_kafka_resp_err_t fatal;	/* the handle is of no use any more */
	int64		token_expires;	/* ms since 1970 */
} SxKafkaClient;

/*
 * Makes a handle; nothing is sent yet. extra: names and values of librdkafka, NULL
 * at the end, which win over the settings. events: RD_KAFKA_EVENT_ bits that go to
 * on_event. It is closed with CurrentMemoryContext at the latest.
 */
extern SxKafkaClient *sx_kafka_client_open(rd_kafka_type_t type, const SxKafkaSettings *settings,
										   const char *const *extra, int events);

/*
 * Queues, topics, messages and lists of the handle must be given back before.
 * Never raises an error; returns within a quarter of a second, and a thread does
 * the rest. With NULL nothing happens.
 */
extern void sx_kafka_client_close(SxKafkaClient *client);

/* Takes what the library has to say; quick. Raises no error because of it. */
extern void sx_kafka_client_poll(SxKafkaClient *client);

/*
 * Runs a library call that may block on a thread of its own, and waits for it;
 * meanwhile interrupts are answered. If one comes, the call is left alone, and its
 * argument is freed when it has ended. run: on that thread, so no palloc, no elog.
 * arg: malloc'ed; freed by free_arg, by the caller unless an error was raised. If
 * every broker refuses the credentials or the handshake, that is raised at once.
 */
typedef rd_kafka_resp_err_t (*SxKafkaCall) (rd_kafka_t *rk, void *arg);
extern rd_kafka_resp_err_t sx_kafka_call(SxKafkaClient *client, SxKafkaCall run, void *arg,
										 void (*free_arg) (void *));

typedef struct SxKafkaTopic
{
	char	   *name;
	rd_kafka_resp_err_t err;	/* this topic cannot be described */
	int			partitions;		/* 0 to partitions - 1 */
} SxKafkaTopic;

/* Topics of the cluster (topic NULL: all), by name. Raises an error if no broker answers. */
extern SxKafkaTopic *sx_kafka_topics(SxKafkaClient *client, const char *topic, int timeout_ms,
									 int *n);

/*
 * Raises err as an error of the server, with the SQLSTATE of its kind. The message
 * says what could not be done ("could not read topic \"t\""); said: what the library
 * told with it, or NULL. client may be NULL.
 */
extern void sx_kafka_raise(SxKafkaClient *client, rd_kafka_resp_err_t err, const char *said,
						   const char *what,...) pg_attribute_printf(4, 5) pg_attribute_noreturn();

/* The same with an error object, which is destroyed. Returns if it is NULL. */
extern void sx_kafka_check(SxKafkaClient *client, rd_kafka_error_t *error,
						   const char *what,...) pg_attribute_printf(3, 4);

#endif
