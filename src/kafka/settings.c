/*
 * settings.c
 *		The list of client settings that are allowed, and their translation.
 */
#include "postgres.h"

#include <ctype.h>

#include "catalog/pg_authid.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_user_mapping.h"
#include "access/reloptions.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "kafka/settings.h"

typedef enum ValueKind
{
	VALUE_TEXT,					/* the library checks it */
	VALUE_MS,					/* milliseconds, or an interval: '3 minutes' */
	VALUE_SECRET,				/* shown nowhere */
	VALUE_FILE,					/* of the server's machine: needs a right */
	VALUE_MECHANISM,			/* of SASL */
	VALUE_BYTES_AS_KB,
	VALUE_REFRESH,				/* Java's metadata.max.age.ms */
	VALUE_JAAS,					/* Java's line with user and password */
	VALUE_TOKEN,				/* not settings of the library, these four */
	VALUE_REGISTRY_URL,
	VALUE_REGISTRY_USER,
	VALUE_REGISTRY_PASSWORD,
	VALUE_IGNORED				/* known, without effect here */
} ValueKind;

#define CONSUMER	1
#define PRODUCER	2
#define BOTH		(CONSUMER | PRODUCER)

#define SERVER		SX_KAFKA_SERVER
#define USER		SX_KAFKA_USER
#define STREAM		SX_KAFKA_STREAM

typedef struct KnownSetting
{
	const char *name;			/* as Kafka's Java clients, or librdkafka only */
	int			levels;
	int			clients;
	ValueKind	kind;
	const char *library;		/* librdkafka's name; NULL: the same */
} KnownSetting;

static const KnownSetting known[] = {
	/* where, and how to talk */
	{"bootstrap.servers", SERVER, BOTH, VALUE_TEXT},
	{"security.protocol", SERVER, BOTH, VALUE_TEXT},
	{"sasl.mechanism", SERVER, BOTH, VALUE_MECHANISM},
	{"sasl.mechanisms", SERVER, BOTH, VALUE_MECHANISM, "sasl.mechanism"},
	{"sasl.oauthbearer.method", SERVER, BOTH, VALUE_TEXT},
	{"sasl.oauthbearer.token.endpoint.url", SERVER, BOTH, VALUE_TEXT},
	{"sasl.oauthbearer.scope", SERVER | USER, BOTH, VALUE_TEXT},
	{"sasl.oauthbearer.extensions", SERVER | USER, BOTH, VALUE_TEXT},
	{"ssl.ca.pem", SERVER | USER, BOTH, VALUE_TEXT},
	{"ssl.truststore.certificates", SERVER | USER, BOTH, VALUE_TEXT, "ssl.ca.pem"},
	{"ssl.ca.location", SERVER, BOTH, VALUE_FILE},
	{"ssl.crl.location", SERVER, BOTH, VALUE_FILE},
	{"ssl.cipher.suites", SERVER, BOTH, VALUE_TEXT},
	{"ssl.curves.list", SERVER, BOTH, VALUE_TEXT},
	{"ssl.sigalgs.list", SERVER, BOTH, VALUE_TEXT},
	{"ssl.endpoint.identification.algorithm", SERVER, BOTH, VALUE_TEXT},
	{"enable.ssl.certificate.verification", SERVER, BOTH, VALUE_TEXT},
	{"broker.address.family", SERVER, BOTH, VALUE_TEXT},
	{"broker.address.ttl", SERVER, BOTH, VALUE_MS},

	/* who */
	{"sasl.username", USER, BOTH, VALUE_TEXT},
	{"sasl.password", USER, BOTH, VALUE_SECRET},
	{"user", USER, BOTH, VALUE_TEXT, "sasl.username"},
	{"username", USER, BOTH, VALUE_TEXT, "sasl.username"},
	{"password", USER, BOTH, VALUE_SECRET, "sasl.password"},
	{"sasl.jaas.config", USER, BOTH, VALUE_JAAS},
	{"sasl.oauthbearer.client.id", USER, BOTH, VALUE_TEXT},
	{"sasl.oauthbearer.client.secret", USER, BOTH, VALUE_SECRET},
	{"sasl.oauthbearer.token", USER, BOTH, VALUE_TOKEN},
	{"ssl.certificate.pem", USER, BOTH, VALUE_TEXT},
	{"ssl.keystore.certificate.chain", USER, BOTH, VALUE_TEXT, "ssl.certificate.pem"},
	{"ssl.certificate.location", USER, BOTH, VALUE_FILE},
	{"ssl.key.pem", USER, BOTH, VALUE_SECRET},
	{"ssl.keystore.key", USER, BOTH, VALUE_SECRET, "ssl.key.pem"},
	{"ssl.key.location", USER, BOTH, VALUE_FILE},
	{"ssl.key.password", USER, BOTH, VALUE_SECRET},

	/* not the library's, but of the same places */
	{"schema.registry.url", SERVER, BOTH, VALUE_REGISTRY_URL},
	{"schema.registry.user", USER, BOTH, VALUE_REGISTRY_USER},
	{"schema.registry.password", USER, BOTH, VALUE_REGISTRY_PASSWORD},

	/* tuning: of a stream, or as the server's default for all */
	{"client.id", SERVER | STREAM, BOTH, VALUE_TEXT},
	{"client.rack", SERVER | STREAM, BOTH, VALUE_TEXT},
	{"connections.max.idle.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"metadata.max.age.ms", SERVER | STREAM, BOTH, VALUE_REFRESH},
	{"topic.metadata.refresh.interval.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"request.timeout.ms", SERVER | STREAM, BOTH, VALUE_MS, "socket.timeout.ms"},
	{"socket.timeout.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"socket.connection.setup.timeout.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"socket.keepalive.enable", SERVER | STREAM, BOTH, VALUE_TEXT},
	{"socket.nagle.disable", SERVER | STREAM, BOTH, VALUE_TEXT},
	{"receive.buffer.bytes", SERVER | STREAM, BOTH, VALUE_TEXT, "socket.receive.buffer.bytes"},
	{"send.buffer.bytes", SERVER | STREAM, BOTH, VALUE_TEXT, "socket.send.buffer.bytes"},
	{"reconnect.backoff.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"reconnect.backoff.max.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"retry.backoff.ms", SERVER | STREAM, BOTH, VALUE_MS},
	{"receive.message.max.bytes", SERVER | STREAM, BOTH, VALUE_TEXT},

	/* of a consumer */
	{"isolation.level", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"group.id", STREAM, CONSUMER, VALUE_TEXT},
	{"check.crcs", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"fetch.min.bytes", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"fetch.max.bytes", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"fetch.max.wait.ms", SERVER | STREAM, CONSUMER, VALUE_MS, "fetch.wait.max.ms"},
	{"fetch.wait.max.ms", SERVER | STREAM, CONSUMER, VALUE_MS},
	{"fetch.error.backoff.ms", SERVER | STREAM, CONSUMER, VALUE_MS},
	{"max.partition.fetch.bytes", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"fetch.message.max.bytes", SERVER | STREAM, CONSUMER, VALUE_TEXT, "max.partition.fetch.bytes"},
	{"queued.min.messages", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"queued.max.messages.kbytes", SERVER | STREAM, CONSUMER, VALUE_TEXT},
	{"session.timeout.ms", SERVER | STREAM, CONSUMER, VALUE_IGNORED},
	{"heartbeat.interval.ms", SERVER | STREAM, CONSUMER, VALUE_IGNORED},
	{"max.poll.interval.ms", SERVER | STREAM, CONSUMER, VALUE_IGNORED},
	{"max.poll.records", SERVER | STREAM, CONSUMER, VALUE_IGNORED},

	/* of a producer */
	{"acks", SERVER | STREAM, PRODUCER, VALUE_IGNORED},	/* always all */
	{"compression.type", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"compression.codec", SERVER | STREAM, PRODUCER, VALUE_TEXT, "compression.type"},
	{"compression.level", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"linger.ms", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"batch.size", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"batch.num.messages", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"max.request.size", SERVER | STREAM, PRODUCER, VALUE_TEXT, "message.max.bytes"},
	{"message.max.bytes", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"buffer.memory", SERVER | STREAM, PRODUCER, VALUE_BYTES_AS_KB, "queue.buffering.max.kbytes"},
	{"queue.buffering.max.kbytes", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"queue.buffering.max.messages", SERVER | STREAM, PRODUCER, VALUE_TEXT},
	{"delivery.timeout.ms", SERVER | STREAM, PRODUCER, VALUE_MS},
	{"transaction.timeout.ms", SERVER | STREAM, PRODUCER, VALUE_MS},
	{"max.in.flight.requests.per.connection", STREAM, PRODUCER, VALUE_TEXT},
	{"partitioner", STREAM, PRODUCER, VALUE_TEXT},
	{"max.block.ms", SERVER | STREAM, PRODUCER, VALUE_IGNORED},
	{"retries", SERVER | STREAM, PRODUCER, VALUE_IGNORED},
};

/* Refused by name or beginning of it, with the reason. */
typedef struct Refused
{
	const char *name;
	bool		prefix;
	const char *reason;
	const char *hint;			/* or NULL */
} Refused;

static const Refused refused[] = {
	{"auto.offset.reset", false, "Where a query begins is the stream's business; afterwards its checkpoint says where it goes on.",
	"Use the stream's option \"starting_offsets\"."},
	{"key.deserializer", false, "Keys are read as bytes.", "Use the option \"format\", or convert the key in the query."},
	{"value.deserializer", false, "Values are read as bytes.", "Use the option \"format\", or convert the value in the query."},
	{"key.serializer", false, "Keys are written as bytes.", "Convert the key in the query."},
	{"value.serializer", false, "Values are written as bytes.", "Use the option \"format\", or convert the value in the query."},
	{"enable.auto.commit", false, "Offsets belong to the query's checkpoint, which is committed with its results.", NULL},
	{"auto.commit.interval.ms", false, "Offsets belong to the query's checkpoint, which is committed with its results.", NULL},
	{"enable.auto.offset.store", false, "Offsets belong to the query's checkpoint, which is committed with its results.", NULL},
	{"interceptor.classes", false, "Interceptors are Java code.", NULL},
	{"plugin.library.paths", false, "A plugin would run code as the server's operating system user.", NULL},
	{"ssl.engine", true, "An engine would run code as the server's operating system user.", NULL},
	{"ssl.providers", false, "A provider would run code as the server's operating system user.", NULL},
	{"sasl.kerberos", true, "Kerberos would run a command as the server's operating system user.", "Use SCRAM, PLAIN, OAUTHBEARER or client certificates."},
	{"sasl.login", true, "Login classes are Java code.", NULL},
	{"sasl.client.callback.handler.class", false, "Callback classes are Java code.", NULL},
	{"security.providers", false, "Security providers are Java code.", NULL},
	{"metric.reporters", false, "Reporters are Java code.", NULL},
	{"partitioner.class", false, "Partitioners are Java code.", "Use \"kafka.partitioner\": murmur2_random (as Java's default), consistent_random, random, ..., or the column \"partition\"."},
	{"partition.assignment.strategy", false, "Partitions are assigned by the query, without a group.", NULL},
	{"group.instance.id", false, "Partitions are assigned by the query, without a group.", NULL},
	{"debug", false, "Debug output may show what is secret.", NULL},
	{"log", true, "Messages of the library go to the server's log.", NULL},
	{"transactional.id", false, "It is made of the query's incarnation, so that a second server that runs it is fenced.", NULL},
	{"enable.idempotence", false, "Writing is always idempotent and in transactions.", NULL},
	{"enable.gapless.guarantee", false, "Writing is always idempotent and in transactions.", NULL},
	{"allow.auto.create.topics", false, "A mistyped name would make a topic.", "Create topics with the cluster's own tools."},
	{"ssl.truststore", true, "Key stores of Java are not read.", "Give the authority as PEM text in \"ssl_ca_pem\"."},
	{"ssl.keystore", true, "Key stores are not read.", "Give certificate and key as PEM text in \"ssl_certificate_pem\" and \"ssl_key_pem\" of the user mapping."},
	{"ssl.ca.certificate.stores", false, "There are no such stores on this system.", "Give the authority as PEM text in \"ssl_ca_pem\"."},
	{"enable.sasl.oauthbearer.unsecure.jwt", false, "Unsigned tokens prove nothing.", "Give a token in \"sasl_oauthbearer_token\" of the user mapping."},
	{"sasl.oauthbearer.config", false, "Unsigned tokens prove nothing.", "Give a token in \"sasl_oauthbearer_token\" of the user mapping."},
	{"statistics.interval.ms", false, "Figures are in the view streamx.queries.", NULL},
	{"test", true, "That is for tests of the library.", NULL},
};

/* ---- names ---- */

static bool
is_separator(char c)
{
	return c == '.' || c == '_';
}

bool
sx_kafka_name_is(const char *given, const char *name)
{
	for (;;)
	{
		while (is_separator(*given))
			given++;
		while (is_separator(*name))
			name++;
		if (pg_tolower((unsigned char) *given) != pg_tolower((unsigned char) *name))
			return false;
		if (*given == '\0')
			return true;
		given++;
		name++;
	}
}

static bool
begins_with(const char *given, const char *name)
{
	for (;;)
	{
		while (is_separator(*given))
			given++;
		while (is_separator(*name))
			name++;
		if (*name == '\0')
			return true;
		if (pg_tolower((unsigned char) *given) != pg_tolower((unsigned char) *name))
			return false;
		given++;
		name++;
	}
}

bool
sx_kafka_is_client_option(const char *name)
{
	return pg_strncasecmp(name, "kafka", 5) == 0 && is_separator(name[5]);
}

static const char *
without_prefix(const char *name)
{
	return sx_kafka_is_client_option(name) ? name + 6 : name;
}

static const KnownSetting *
find_known(const char *name)
{
	for (int i = 0; i < lengthof(known); i++)
	{
		if (sx_kafka_name_is(name, known[i].name))
			return &known[i];
	}
	return NULL;
}

static const char *
level_name(int level)
{
	return level & SX_KAFKA_USER ? "user mapping" : level & SX_KAFKA_SERVER ? "server" : "stream";
}

/* ssl_key_pem: as one types it without quotes. On a stream with the prefix. */
static char *
typed_name(const char *name, SxKafkaLevel level)
{
	char	   *result = psprintf("%s%s", level == SX_KAFKA_STREAM ? "kafka." : "", name);

	for (char *p = result; level != SX_KAFKA_STREAM && *p != '\0'; p++)
	{
		if (*p == '.')
			*p = '_';
	}
	return result;
}

char *
sx_kafka_settings_legal(SxKafkaLevel level)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < lengthof(known); i++)
	{
		if ((known[i].levels & level) == 0)
			continue;
		appendStringInfo(&names, "%s%s", names.len > 0 ? ", " : "", typed_name(known[i].name, level));
	}
	return names.data;
}

static void
refuse(const char *given, const Refused *entry)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("Kafka option \"%s\" is not allowed", given),
			 errdetail("%s", entry->reason),
			 entry->hint != NULL ? errhint("%s", entry->hint) : 0));
}

static void
refuse_level(const char *given, const KnownSetting *setting, SxKafkaLevel level)
{
	bool		secret = (setting->levels & ~SX_KAFKA_USER) == 0;

	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("Kafka option \"%s\" cannot stand on a %s", given, level_name(level)),
			 secret ? errdetail("Everybody can read the options of servers and streams; those of a user mapping are shown to its user only.") :
			 errdetail("It is the same for all who use the %s.", level_name(setting->levels)),
			 errhint("Set \"%s\" on the %s.",
					 typed_name(setting->name, setting->levels & SX_KAFKA_USER ? SX_KAFKA_USER :
								setting->levels & SX_KAFKA_SERVER ? SX_KAFKA_SERVER : SX_KAFKA_STREAM),
					 level_name(setting->levels))));
}

/* The setting that an option means; errors if it is none that may stand there. */
static const KnownSetting *
identify(const char *given, SxKafkaLevel level)
{
	const char *name = without_prefix(given);
	const KnownSetting *setting = find_known(name);

	if (setting == NULL)
	{
		int			length = strlen(name);

		for (int i = 0; i < lengthof(refused); i++)
		{
			if (sx_kafka_name_is(name, refused[i].name) ||
				(refused[i].prefix && begins_with(name, refused[i].name)))
				refuse(given, &refused[i]);
		}
		if (length > 4 && pg_strcasecmp(name + length - 4, ".cmd") == 0)
			refuse(given, &(Refused) {NULL, false, "A command would run as the server's operating system user.", NULL});
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("invalid Kafka option \"%s\" of a %s", given, level_name(level)),
				 errhint("Legal options: %s.", sx_kafka_settings_legal(level))));
	}
	if ((setting->levels & level) == 0)
		refuse_level(given, setting, level);
	return setting;
}

/* ---- values ---- */

static void
invalid_value(const char *given, const char *value, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 value != NULL ? errmsg("invalid value for Kafka option \"%s\": \"%s\"", given, value)
			 : errmsg("invalid value for Kafka option \"%s\"", given),
			 detail != NULL ? errdetail("%s", detail) : 0,
			 hint != NULL ? errhint("%s", hint) : 0));
}

static bool
parse_int64(const char *value, int64 *result)
{
	char	   *end;

	errno = 0;
	*result = strtoll(value, &end, 10);
	return errno == 0 && end != value && *end == '\0';
}

/* '180000', or '3 minutes' */
static const char *
milliseconds(const char *given, const char *value)
{
	int64		ms;
	Interval   *interval;

	if (parse_int64(value, &ms))
		return value;
	interval = DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(value),
													 ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1)));
	if (interval->month != 0)
		invalid_value(given, value, "Months differ in length.", "Give milliseconds, or an interval such as '3 minutes'.");
	ms = (int64) interval->day * (USECS_PER_DAY / 1000) + interval->time / 1000;
	return psprintf(INT64_FORMAT, ms);
}

static void
check_mechanism(const char *given, const char *value)
{
	static const char *const legal[] = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"};

	for (int i = 0; i < lengthof(legal); i++)
	{
		if (pg_strcasecmp(value, legal[i]) == 0)
			return;
	}
	invalid_value(given, value,
				  pg_strcasecmp(value, "GSSAPI") == 0 ? "Kerberos would run a command as the server's operating system user." : NULL,
				  "Legal values: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.");
}

/* Files are read as the server's operating system user, whoever asked for it. */
static void
check_file(const char *given, Oid roleid)
{
	if (has_privs_of_role(roleid, ROLE_PG_READ_SERVER_FILES))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
			 errmsg("permission denied to use Kafka option \"%s\"", given),
			 errdetail("It names a file of the server's machine, for which role \"%s\" needs the privileges of pg_read_server_files.",
					   GetUserNameFromId(roleid, false)),
			 errhint("Give certificates and keys as PEM text: \"ssl_ca_pem\", \"ssl_certificate_pem\", \"ssl_key_pem\".")));
}

/* ---- from options to settings ---- */

typedef struct Collector
{
	SxKafkaSettings *settings;
	rd_kafka_conf_t *conf;		/* tries each value; no threads */
	int			size;
} Collector;

static void
destroy_conf(void *conf)
{
	rd_kafka_conf_destroy(conf);
}

static void
begin_collecting(Collector *collector)
{
	MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));

	collector->settings = palloc0(sizeof(SxKafkaSettings));
	collector->size = 16;
	collector->settings->settings = palloc(collector->size * sizeof(SxKafkaSetting));
	collector->conf = rd_kafka_conf_new();
	callback->func = destroy_conf;
	callback->arg = collector->conf;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, callback);
}

static void
add(Collector *collector, const KnownSetting *setting, const char *given, const char *name,
	const char *value, bool secret)
{
	SxKafkaSettings *settings = collector->settings;
	char		errstr[512];
	rd_kafka_conf_res_t result = rd_kafka_conf_set(collector->conf, name, value, errstr, sizeof(errstr));
	SxKafkaSetting *slot = NULL;

	/* The library's text holds the value. */
	if (result != RD_KAFKA_CONF_OK)
		invalid_value(given, secret ? NULL : value,
					  secret ? NULL : psprintf("librdkafka: %s", errstr), NULL);
	for (int i = 0; i < settings->n; i++)
	{
		if (strcmp(settings->settings[i].name, name) == 0)
			slot = &settings->settings[i];	/* a stream's value wins over the server's */
	}
	if (slot == NULL)
	{
		if (settings->n == collector->size)
			settings->settings = repalloc(settings->settings,
										  (collector->size *= 2) * sizeof(SxKafkaSetting));
		slot = &settings->settings[settings->n++];
	}
	slot->name = name;
	slot->value = value;
	slot->secret = secret;
	slot->consumer = (setting->clients & CONSUMER) != 0;
	slot->producer = (setting->clients & PRODUCER) != 0;
}

/* The value of name="..." in a line of JAAS; NULL: not there. \" is a quote. */
static char *
jaas_value(const char *line, const char *name)
{
	const char *at = line;
	StringInfoData value;

	while ((at = strstr(at, name)) != NULL)
	{
		const char *p = at + strlen(name);

		if ((at == line || isspace((unsigned char) at[-1])) && *p != '\0')
		{
			p += strspn(p, " \t");
			if (*p == '=')
			{
				p++;
				p += strspn(p, " \t");
				if (*p != '"' && *p != '\'')
					return NULL;
				initStringInfo(&value);
				for (char quote = *p++; *p != '\0' && *p != quote; p++)
				{
					if (*p == '\\' && p[1] != '\0')
						p++;
					appendStringInfoChar(&value, *p);
				}
				return *p == '\0' ? NULL : value.data;
			}
		}
		at++;
	}
	return NULL;
}

/* org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="p"; */
static void
add_jaas(Collector *collector, const KnownSetting *setting, const char *given, const char *value)
{
	char	   *user = jaas_value(value, "username");
	char	   *password = jaas_value(value, "password");

	if ((strstr(value, "PlainLoginModule") == NULL && strstr(value, "ScramLoginModule") == NULL) ||
		user == NULL || password == NULL)
		invalid_value(given, NULL, "Of Java's lines those of PlainLoginModule and ScramLoginModule with username and password are understood.",
					  "Set \"sasl_username\" and \"sasl_password\".");
	add(collector, setting, given, "sasl.username", user, false);
	add(collector, setting, given, "sasl.password", password, true);
}

static void
add_option(Collector *collector, SxKafkaLevel level, const DefElem *def, Oid roleid)
{
	const char *given = def->defname;
	const KnownSetting *setting = identify(given, level);
	const char *name = setting->library != NULL ? setting->library : setting->name;
	const char *value = defGetString((DefElem *) def);
	int64		number;

	switch (setting->kind)
	{
		case VALUE_IGNORED:
			return;
		case VALUE_TOKEN:
			collector->settings->token = value;
			return;
		case VALUE_REGISTRY_URL:
			collector->settings->registry_url = value;
			return;
		case VALUE_REGISTRY_USER:
			collector->settings->registry_user = value;
			return;
		case VALUE_REGISTRY_PASSWORD:
			collector->settings->registry_password = value;
			return;
		case VALUE_JAAS:
			add_jaas(collector, setting, given, value);
			return;
		case VALUE_REFRESH:
			value = milliseconds(given, value);
			if (!parse_int64(value, &number) || number <= 0 || number > 3600000)
				invalid_value(given, value, NULL, "Give between 1 ms and 1 hour.");
			add(collector, setting, given, "topic.metadata.refresh.interval.ms", value, false);
			value = psprintf(INT64_FORMAT, number * 3);
			break;
		case VALUE_BYTES_AS_KB:
			if (!parse_int64(value, &number) || number < 1024)
				invalid_value(given, value, NULL, "Give a number of bytes.");
			value = psprintf(INT64_FORMAT, number / 1024);
			break;
		case VALUE_MS:
			value = milliseconds(given, value);
			break;
		case VALUE_MECHANISM:
			check_mechanism(given, value);
			break;
		case VALUE_FILE:
			check_file(given, roleid);
			break;
		case VALUE_TEXT:
		case VALUE_SECRET:
			break;
	}
	add(collector, setting, given, name, value, setting->kind == VALUE_SECRET);
	if (strcmp(name, "bootstrap.servers") == 0)
		collector->settings->brokers = value;
}

/* An option twice in two spellings is a mistake that should not be guessed about. */
static void
check_twice(List *options, SxKafkaLevel level)
{
	ListCell   *a;
	ListCell   *b;

	foreach(a, options)
	{
		const char *name = ((DefElem *) lfirst(a))->defname;

		for_each_cell(b, options, lnext(options, a))
		{
			const char *other = ((DefElem *) lfirst(b))->defname;

			if (!sx_kafka_name_is(without_prefix(name), without_prefix(other)) ||
				(level == SX_KAFKA_STREAM && sx_kafka_is_client_option(name) != sx_kafka_is_client_option(other)))
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("option \"%s\" is given twice", other),
					 errdetail("\"%s\" and \"%s\" are spellings of the same option.", name, other)));
		}
	}
}

static void
add_options(Collector *collector, SxKafkaLevel level, List *options, Oid roleid)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		const DefElem *def = lfirst(lc);

		if (level != SX_KAFKA_STREAM || sx_kafka_is_client_option(def->defname))
			add_option(collector, level, def, roleid);
	}
}

const char *
sx_kafka_settings_get(const SxKafkaSettings *settings, const char *name)
{
	for (int i = 0; i < settings->n; i++)
	{
		if (strcmp(settings->settings[i].name, name) == 0)
			return settings->settings[i].value;
	}
	return NULL;
}

static void
check_server(const SxKafkaSettings *settings)
{
	const char *protocol = sx_kafka_settings_get(settings, "security.protocol");

	if (settings->brokers == NULL || settings->brokers[strspn(settings->brokers, " ,")] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"bootstrap_servers\" must be set on a Kafka server"),
				 errhint("Example: OPTIONS (bootstrap_servers 'broker1:9092,broker2:9092').")));
	if (protocol != NULL && pg_strncasecmp(protocol, "sasl_", 5) == 0 &&
		sx_kafka_settings_get(settings, "sasl.mechanism") == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("option \"sasl_mechanism\" must be set with security protocol %s", protocol),
				 errhint("Legal values: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER.")));
}

void
sx_kafka_refuse_at_stream(const char *name)
{
	const KnownSetting *setting = find_known(name);

	if (setting != NULL && (setting->levels & SX_KAFKA_STREAM) == 0)
		refuse_level(name, setting, SX_KAFKA_STREAM);
}

void
sx_kafka_settings_check(SxKafkaLevel level, List *options)
{
	Collector	collector;

	check_twice(options, level);
	begin_collecting(&collector);
	add_options(&collector, level, options, GetUserId());
	if (level == SX_KAFKA_SERVER)
		check_server(collector.settings);
}

/* The user's own mapping, or the public one; NIL if there is none, which is legal. */
static List *
mapping_options(Oid serverid, Oid userid, Oid *role)
{
	HeapTuple	tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(userid),
										ObjectIdGetDatum(serverid));
	List	   *options = NIL;
	Datum		value;
	bool		isnull;

	*role = userid;
	if (!HeapTupleIsValid(tuple))
	{
		tuple = SearchSysCache2(USERMAPPINGUSERSERVER, ObjectIdGetDatum(InvalidOid),
								ObjectIdGetDatum(serverid));
		*role = GetForeignServer(serverid)->owner;	/* only he can have made it */
	}
	if (!HeapTupleIsValid(tuple))
		return NIL;
	value = SysCacheGetAttr(USERMAPPINGUSERSERVER, tuple, Anum_pg_user_mapping_umoptions, &isnull);
	if (!isnull)
		options = untransformRelOptions(value);
	ReleaseSysCache(tuple);
	return options;
}

SxKafkaSettings *
sx_kafka_settings(Oid serverid, Oid userid, List *stream_options)
{
	ForeignServer *server = GetForeignServer(serverid);
	Collector	collector;
	List	   *options;
	Oid			role;

	begin_collecting(&collector);
	add_options(&collector, SX_KAFKA_SERVER, server->options, server->owner);
	check_server(collector.settings);
	options = mapping_options(serverid, userid, &role);
	add_options(&collector, SX_KAFKA_USER, options, role);
	add_options(&collector, SX_KAFKA_STREAM, stream_options, userid);
	return collector.settings;
}

/* ---- showing ---- */

static void
replace_all(StringInfo text, const char *secret)
{
	StringInfoData result;
	const char *at = text->data;
	const char *found;
	size_t		length = strlen(secret);

	if (length == 0 || strstr(at, secret) == NULL)
		return;
	initStringInfo(&result);
	while ((found = strstr(at, secret)) != NULL)
	{
		appendBinaryStringInfo(&result, at, found - at);
		appendStringInfoString(&result, "***");
		at = found + length;
	}
	appendStringInfoString(&result, at);
	*text = result;
}

char *
sx_kafka_redact(const SxKafkaSettings *settings, const char *text)
{
	StringInfoData result;

	initStringInfo(&result);
	appendStringInfoString(&result, text);
	for (int i = 0; i < settings->n; i++)
	{
		if (settings->settings[i].secret)
			replace_all(&result, settings->settings[i].value);
	}
	if (settings->token != NULL)
		replace_all(&result, settings->token);
	if (settings->registry_password != NULL)
		replace_all(&result, settings->registry_password);
	return result.data;
}

char *
sx_kafka_settings_print(const SxKafkaSettings *settings)
{
	StringInfoData result;

	initStringInfo(&result);
	for (int i = 0; i < settings->n; i++)
	{
		const SxKafkaSetting *setting = &settings->settings[i];

		appendStringInfo(&result, "%s%s=%s", i > 0 ? ", " : "", setting->name,
						 setting->secret ? "***" : setting->value);
	}
	return result.data;
}
