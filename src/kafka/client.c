/*
 * client.c
 *		Opening and closing handles, what they have to say, and calls that block.
 */
#include "postgres.h"

#include <ctype.h>
#include <time.h>

#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/latch.h"
#include "utils/memutils.h"

#include "base/threads.h"
#include "base/wake.h"
#include "kafka/client.h"
#include "kafka/handle.h"

#define CLOSE_WAIT_MS	250
#define CALL_SLICE_MS	100
#define LOG_EVERY_MS	60000	/* the same kind of line of the library */
#define OPAQUE_TOKEN_MS	INT64CONST(3600000) /* life of a token that doesn't tell */

static int64
now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- tokens ---- */

/* Value of a character of base64url; -1: none. */
static int
base64_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' || c == '+' ? 62 : c == '_' || c == '/' ? 63 : -1;
}

/* The part between the dots of a JWT, which says who and how long; "" if it is no such token. */
static char *
token_claims(const char *token)
{
	const char *p = strchr(token, '.');
	char	   *result = palloc0(strlen(token) + 1);
	char	   *to = result;
	uint32		bits = 0;
	int			nbits = 0;

	for (p = p != NULL ? p + 1 : ""; base64_value(*p) >= 0; p++)
	{
		bits = bits << 6 | base64_value(*p);
		nbits += 6;
		if (nbits < 8)
			continue;
		nbits -= 8;
		*to++ = (char) (bits >> nbits & 0xff);
	}
	return result;
}

/* What follows "name": in the claims; no parser of JSON, the broker has one. NULL: not there. */
static const char *
find_claim(const char *claims, const char *name)
{
	const char *at = strstr(claims, psprintf("\"%s\"", name));

	if (at == NULL)
		return NULL;
	at += strlen(name) + 2;
	at += strspn(at, " \t\r\n");
	if (*at != ':')
		return NULL;
	at++;
	return at + strspn(at, " \t\r\n");
}

static void
read_claims(const char *claims, char **subject, int64 *expires)
{
	const char *sub = find_claim(claims, "sub");
	const char *exp = find_claim(claims, "exp");

	if (sub != NULL && *sub == '"')
		*subject = pnstrdup(sub + 1, strcspn(sub + 1, "\""));
	if (exp != NULL && isdigit((unsigned char) *exp))
		*expires = 1000 * (int64) strtoll(exp, NULL, 10);
}

static void
set_token(SxKafkaClient *client)
{
	char		errstr[512];
	char	   *subject = "streamx";
	int64		expires = now_ms() + OPAQUE_TOKEN_MS;

	read_claims(token_claims(client->settings->token), &subject, &expires);
	client->token_expires = expires;
	if (expires <= now_ms() ||
		rd_kafka_oauthbearer_set_token(client->rk, client->settings->token, expires, subject,
									   NULL, 0, errstr, sizeof(errstr)) != RD_KAFKA_RESP_ERR_NO_ERROR)
	{
		const char *why = expires <= now_ms() ? "the token in the user mapping has expired" :
			"the token in the user mapping cannot be used";

		(void) rd_kafka_oauthbearer_set_token_failure(client->rk, why);
		client->cause = SX_KAFKA_CREDENTIALS;
		free(client->cause_text);
		client->cause_text = strdup(why);
		client->all_down = true;	/* the library does not even try */
	}
}

/* ---- opening and closing ---- */

/* The library's text holds the value, so a secret's is not shown. */
static void
set_value(rd_kafka_conf_t *conf, const char *name, const char *value, bool secret)
{
	char		errstr[512];

	if (rd_kafka_conf_set(conf, name, value, errstr, sizeof(errstr)) == RD_KAFKA_CONF_OK)
		return;
	rd_kafka_conf_destroy(conf);
	ereport(ERROR,
			(errcode(ERRCODE_FDW_ERROR),
			 errmsg("could not set Kafka client setting \"%s\"", name),
			 secret ? 0 : errdetail("librdkafka: %s", errstr)));
}

static void
set(rd_kafka_conf_t *conf, const char *name, const char *value)
{
	set_value(conf, name, value, false);
}

static rd_kafka_conf_t *
make_conf(rd_kafka_type_t type, const SxKafkaSettings *settings, const char *const *extra,
		  int events)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();

	set(conf, "client.id", "streamx");
	set(conf, "log.queue", "true");
	set(conf, "allow.auto.create.topics", "false");
	set(conf, "socket.keepalive.enable", "true");
	set(conf, "socket.nagle.disable", "true");	/* as Java's clients: a small request does not wait for an ACK */
	if (type == RD_KAFKA_CONSUMER)
	{
		/* offsets live in the checkpoint; a wrong one is an error and never a new beginning */
		set(conf, "enable.auto.commit", "false");
		set(conf, "enable.auto.offset.store", "false");
		set(conf, "auto.offset.reset", "error");
	}
	else
		set(conf, "partitioner", "murmur2_random"); /* as Java's producers */
	for (int i = 0; i < settings->n; i++)
	{
		const SxKafkaSetting *setting = &settings->settings[i];

		if (type == RD_KAFKA_CONSUMER ? setting->consumer : setting->producer)
			set_value(conf, setting->name, setting->value, setting->secret);
	}
	for (; extra != NULL && *extra != NULL; extra += 2)
		set(conf, extra[0], extra[1]);
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_ERROR | RD_KAFKA_EVENT_LOG |
							 RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH | events);
	return conf;
}

static void
close_with_context(void *arg)
{
	sx_kafka_client_close(arg);
}

static bool
wants_token(const SxKafkaSettings *settings)
{
	const char *mechanism = sx_kafka_settings_get(settings, "sasl.mechanism");
	const char *method = sx_kafka_settings_get(settings, "sasl.oauthbearer.method");

	if (mechanism == NULL || pg_strcasecmp(mechanism, "OAUTHBEARER") != 0 ||
		(method != NULL && pg_strcasecmp(method, "oidc") == 0))
		return false;
	if (settings->token == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("no token for Kafka brokers %s", settings->brokers),
				 errdetail("SASL mechanism OAUTHBEARER shows a token to the broker."),
				 errhint("Set \"sasl_oauthbearer_token\" in the user mapping.")));
	return true;
}

SxKafkaClient *
sx_kafka_client_open(rd_kafka_type_t type, const SxKafkaSettings *settings,
					 const char *const *extra, int events)
{
	SxKafkaClient *client = palloc0(sizeof(SxKafkaClient));
	MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));
	bool		token = wants_token(settings);
	rd_kafka_conf_t *conf = make_conf(type, settings, extra, events);
	char		errstr[512];

	client->settings = settings;
	sx_threads_begin();
	client->rk = rd_kafka_new(type, conf, errstr, sizeof(errstr));
	sx_threads_end();
	if (client->rk == NULL)
	{
		rd_kafka_conf_destroy(conf);	/* the library took it only if it worked */
		ereport(ERROR,
				(errcode(ERRCODE_FDW_UNABLE_TO_CREATE_EXECUTION),
				 errmsg("could not make a Kafka client for brokers %s", settings->brokers),
				 errdetail("librdkafka: %s", sx_kafka_redact(settings, errstr)),
				 errhint("Check the options of the server and of the user mapping.")));
	}
	client->handle = sx_kafka_handle_make(client->rk);
	if (client->handle == NULL)
	{
		rd_kafka_destroy(client->rk);
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	}
	client->main_queue = rd_kafka_queue_get_main(client->rk);
	callback->func = close_with_context;
	callback->arg = client;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
	(void) rd_kafka_set_log_queue(client->rk, NULL);	/* to the main queue */
	if (token)
		set_token(client);
	return client;
}

void
sx_kafka_client_close(SxKafkaClient *client)
{
	SxKafkaHandle *handle;

	if (client == NULL || client->handle == NULL)
		return;
	handle = client->handle;
	client->handle = NULL;
	client->rk = NULL;
	rd_kafka_queue_destroy(client->main_queue);
	client->main_queue = NULL;
	free(client->cause_text);
	client->cause_text = NULL;
	sx_kafka_handle_release(handle, CLOSE_WAIT_MS);
}

/* ---- what the library says ---- */

/* An error event: what it tells is the reason of the timeouts that follow. */
static void
note_error(SxKafkaClient *client, rd_kafka_resp_err_t err, const char *text)
{
	SxKafkaErrorKind kind = sx_kafka_error_kind(err);
	char	   *redacted = sx_kafka_redact(client->settings, text);

	ereport(DEBUG1,
			(errmsg_internal("Kafka brokers %s: %s: %s", client->settings->brokers,
							 rd_kafka_err2name(err), redacted)));
	if (err == RD_KAFKA_RESP_ERR__FATAL)
	{
		char		errstr[512];

		client->fatal = rd_kafka_fatal_error(client->rk, errstr, sizeof(errstr));
		return;
	}

	client->all_down |= err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN;

	/* "all brokers down" says less than why they are */
	if (kind == SX_KAFKA_OK ||
		(err == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN && client->cause_text != NULL) ||
		(kind == SX_KAFKA_AWAY && client->cause != SX_KAFKA_OK && client->cause != SX_KAFKA_AWAY))
		return;
	free(client->cause_text);
	client->cause_text = strdup(redacted);
	client->cause = kind;
}

/* Into the server's log, but the same kind of line at most once a minute. */
static void
note_log(SxKafkaClient *client, int level, const char *facility, const char *text)
{
	static char last_facility[32];
	static int64 last_logged = 0;
	bool		repeated = strncmp(last_facility, facility, sizeof(last_facility) - 1) == 0 &&
		now_ms() - last_logged < LOG_EVERY_MS;

	if (level <= 3 && !repeated)
	{
		strlcpy(last_facility, facility, sizeof(last_facility));
		last_logged = now_ms();
	}
	ereport(level <= 3 && !repeated ? LOG : DEBUG1,
			(errmsg("Kafka client: %s", facility),
			 errdetail_internal("librdkafka: %s", sx_kafka_redact(client->settings, text)),
			 errhidestmt(true)));
}

void
sx_kafka_client_poll(SxKafkaClient *client)
{
	rd_kafka_event_t *event;
	const char *facility;
	const char *text;
	int			level;

	while (client->main_queue != NULL &&
		   (event = rd_kafka_queue_poll(client->main_queue, 0)) != NULL)
	{
		switch (rd_kafka_event_type(event))
		{
			case RD_KAFKA_EVENT_ERROR:
				note_error(client, rd_kafka_event_error(event), rd_kafka_event_error_string(event));
				break;
			case RD_KAFKA_EVENT_LOG:
				if (rd_kafka_event_log(event, &facility, &text, &level) == 0)
					note_log(client, level, facility, text);
				break;
			case RD_KAFKA_EVENT_OAUTHBEARER_TOKEN_REFRESH:
				if (client->settings->token != NULL)
					set_token(client);
				break;
			default:
				if (client->on_event != NULL)
					client->on_event(client->opaque, event);
		}
		rd_kafka_event_destroy(event);
	}
}

/* ---- calls that block ---- */

/* The library would go on trying, but it won't help. */
static bool
is_hopeless(const SxKafkaClient *client)
{
	return client->all_down &&
		(client->cause == SX_KAFKA_CREDENTIALS || client->cause == SX_KAFKA_TLS);
}

static void
forget_cause(SxKafkaClient *client)
{
	client->cause = SX_KAFKA_OK;
	free(client->cause_text);
	client->cause_text = NULL;
	client->all_down = false;
}

rd_kafka_resp_err_t
sx_kafka_call(SxKafkaClient *client, SxKafkaCall run, void *arg, void (*free_arg) (void *))
{
	SxKafkaJob *volatile job = sx_kafka_job_start(client->handle, run, arg, free_arg);
	rd_kafka_resp_err_t err = RD_KAFKA_RESP_ERR_NO_ERROR;
	bool		latch_taken = false;

	if (job == NULL)
	{
		free_arg(arg);
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_RESOURCES),
				 errmsg("could not start a thread for a call of librdkafka")));
	}
	PG_TRY();
	{
		while (!sx_kafka_job_ended(job, &err))
		{
			if (sx_wake_wait(CALL_SLICE_MS, PG_WAIT_EXTENSION) & WL_LATCH_SET)
			{
				ResetLatch(MyLatch);
				latch_taken = true;
			}
			sx_kafka_client_poll(client);
			sx_check_stop();
			if (is_hopeless(client))
				sx_kafka_raise(client, client->cause == SX_KAFKA_TLS ? RD_KAFKA_RESP_ERR__SSL :
							   RD_KAFKA_RESP_ERR__AUTHENTICATION, client->cause_text,
							   "could not connect to Kafka brokers %s", client->settings->brokers);
		}
	}
	PG_CATCH();
	{
		sx_kafka_job_abandon(job);
		PG_RE_THROW();
	}
	PG_END_TRY();

	/* Whoever waits further out shall look: what woke us may have been meant for it. */
	if (latch_taken)
		SetLatch(MyLatch);
	sx_wake();
	sx_kafka_client_poll(client);
	if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
		forget_cause(client);
	return err;
}

typedef struct MetadataArg
{
	char	   *topic;			/* or NULL */
	int			timeout_ms;
	const struct rd_kafka_metadata *result;
} MetadataArg;

static rd_kafka_resp_err_t
run_metadata(rd_kafka_t *rk, void *opaque)
{
	MetadataArg *arg = opaque;
	rd_kafka_topic_t *topic = arg->topic != NULL ? rd_kafka_topic_new(rk, arg->topic, NULL) : NULL;
	rd_kafka_resp_err_t err;

	if (arg->topic != NULL && topic == NULL)
		return rd_kafka_last_error();
	err = rd_kafka_metadata(rk, topic == NULL, topic, &arg->result, arg->timeout_ms);
	if (topic != NULL)
		rd_kafka_topic_destroy(topic);
	return err;
}

static void
free_metadata(void *opaque)
{
	MetadataArg *arg = opaque;

	if (arg->result != NULL)
		rd_kafka_metadata_destroy(arg->result);
	free(arg->topic);
	free(arg);
}

static int
compare_topics(const void *a, const void *b)
{
	return strcmp(((const SxKafkaTopic *) a)->name, ((const SxKafkaTopic *) b)->name);
}

SxKafkaTopic *
sx_kafka_topics(SxKafkaClient *client, const char *topic, int timeout_ms, int *n)
{
	MetadataArg *arg = calloc(1, sizeof(MetadataArg));
	rd_kafka_resp_err_t err;
	SxKafkaTopic *topics = NULL;

	if (arg == NULL || (topic != NULL && (arg->topic = strdup(topic)) == NULL))
		ereport(ERROR, (errcode(ERRCODE_OUT_OF_MEMORY), errmsg("out of memory")));
	arg->timeout_ms = timeout_ms;
	err = sx_kafka_call(client, run_metadata, arg, free_metadata);
	*n = 0;
	if (err == RD_KAFKA_RESP_ERR_NO_ERROR)
	{
		*n = arg->result->topic_cnt;
		topics = palloc(Max(*n, 1) * sizeof(SxKafkaTopic));
		for (int i = 0; i < *n; i++)
		{
			topics[i].name = pstrdup(arg->result->topics[i].topic);
			topics[i].err = arg->result->topics[i].err;
			topics[i].partitions = arg->result->topics[i].partition_cnt;
		}
		qsort(topics, *n, sizeof(SxKafkaTopic), compare_topics);
	}
	free_metadata(arg);
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_raise(client, err, NULL, "could not read the topics of the Kafka cluster");
	return topics;
}

/* ---- errors ---- */

/*
 * Up to librdkafka 2.6.0 a SCRAM client repeats its nonce in the last message, which
 * brokers since Kafka 4.0 refuse like a wrong password.
 */
static bool
cannot_scram(const SxKafkaSettings *settings)
{
	const char *mechanism = sx_kafka_settings_get(settings, "sasl.mechanism");

	return rd_kafka_version() < 0x02060100 && mechanism != NULL &&
		pg_strncasecmp(mechanism, "SCRAM-", 6) == 0;
}

static void
raise_message(SxKafkaClient *client, rd_kafka_resp_err_t err, const char *said, char *message)
{
	SxKafkaErrorKind kind = sx_kafka_error_kind(err);
	const char *cause = NULL;
	const char *hint;
	StringInfoData detail;

	if (client != NULL)
	{
		sx_kafka_client_poll(client);
		if (client->fatal != RD_KAFKA_RESP_ERR_NO_ERROR || err == RD_KAFKA_RESP_ERR__FATAL)
		{
			char		errstr[512];

			client->fatal = rd_kafka_fatal_error(client->rk, errstr, sizeof(errstr));
			if (client->fatal != RD_KAFKA_RESP_ERR_NO_ERROR)
			{
				err = client->fatal;
				kind = sx_kafka_error_kind(err);
				cause = sx_kafka_redact(client->settings, errstr);
			}
		}
		else if (kind == SX_KAFKA_AWAY && client->cause_text != NULL)
		{
			/* a timeout is what is seen, this is why */
			cause = pstrdup(client->cause_text);
			if (client->cause != SX_KAFKA_OK)
				kind = client->cause;
		}
	}
	hint = sx_kafka_error_hint(kind);
	if (kind == SX_KAFKA_CREDENTIALS && client != NULL && cannot_scram(client->settings))
		hint = psprintf("Check user and password in the user mapping. If they are right: librdkafka %s cannot do SCRAM with brokers of Kafka 4, 2.6.1 and newer can. Upgrade the library, or use sasl_mechanism PLAIN with security_protocol SASL_SSL.",
						rd_kafka_version_str());
	initStringInfo(&detail);
	appendStringInfo(&detail, "librdkafka: %s", rd_kafka_err2str(err));
	if (said != NULL)
		appendStringInfo(&detail, ": %s", client != NULL ? sx_kafka_redact(client->settings, said) : said);
	if (cause != NULL)
		appendStringInfo(&detail, ": %s", cause);
	if (client != NULL)
		appendStringInfo(&detail, " (brokers %s)", client->settings->brokers);
	ereport(ERROR,
			(errcode(sx_kafka_error_sqlstate(kind == SX_KAFKA_OK ? SX_KAFKA_INTERNAL : kind)),
			 errmsg_internal("%s", message),
			 errdetail_internal("%s", detail.data),
			 hint != NULL ? errhint("%s", hint) : 0));
}

/* The message of a format and its arguments, in CurrentMemoryContext. */
#define FORMAT_MESSAGE(message, format) \
	do { \
		StringInfoData text_; \
		int			needed_; \
		va_list		args_; \
		initStringInfo(&text_); \
		for (;;) \
		{ \
			va_start(args_, format); \
			needed_ = appendStringInfoVA(&text_, (format), args_); \
			va_end(args_); \
			if (needed_ == 0) \
				break; \
			enlargeStringInfo(&text_, needed_); \
		} \
		(message) = text_.data; \
	} while (0)

void
sx_kafka_raise(SxKafkaClient *client, rd_kafka_resp_err_t err, const char *said,
			   const char *what,...)
{
	char	   *message;

	FORMAT_MESSAGE(message, what);
	raise_message(client, err, said, message);
	pg_unreachable();
}

void
sx_kafka_check(SxKafkaClient *client, rd_kafka_error_t *error, const char *what,...)
{
	rd_kafka_resp_err_t err;
	char	   *message;
	char	   *said;

	if (error == NULL)
		return;
	err = rd_kafka_error_code(error);
	said = pstrdup(rd_kafka_error_string(error));
	rd_kafka_error_destroy(error);
	FORMAT_MESSAGE(message, what);
	raise_message(client, err, said, message);
}
