/*
 * kafka_stream_options.c
 *		What a stream of wrapper streamx_kafka says about reading.
 *
 * One row per option in the table below; names are written in snake_case and
 * taken in Spark's camelCase too.
 */
#include "postgres.h"

#include "catalog/pg_collation.h"
#include "commands/defrem.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "kafka/settings.h"
#include "source/kafka_stream_options.h"
#include "source/stream_options.h"

#define DEFAULT_PREFETCH_KB		(64 * 1024)
#define LEAST_PREFETCH_KB		1024

/* What was given of options that exclude each other. */
typedef struct Given
{
	SxKafkaStreamOptions *options;
	int			topics;			/* of subscribe, subscribe_pattern, assign, topic */

	/* preference as in Spark: timestamp, by timestamp, offsets */
	SxKafkaBound starting[3];
	SxKafkaBound ending[3];
	bool		min_given;
} Given;

typedef struct OptionRow
{
	const char *name;
	void		(*parse) (const char *name, const char *value, Given *given);
} OptionRow;

static void
invalid(const char *name, const char *value, const char *detail, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
			 detail != NULL ? errdetail_internal("%s", detail) : 0,
			 errhint("%s", hint)));
}

/* ---- which topics ---- */

static void
parse_subscribe(const char *name, const char *value, Given *given)
{
	List	   *names = NIL;
	char	   *rest = pstrdup(value);
	char	   *word;

	while ((word = strsep(&rest, ",")) != NULL)
	{
		char	   *end = word + strlen(word);

		while (*word == ' ' || *word == '\t')
			word++;
		while (end > word && (end[-1] == ' ' || end[-1] == '\t'))
			*--end = '\0';
		if (*word != '\0')
			names = lappend(names, word);
	}
	if (names == NIL)
		invalid(name, value, "There are no topics to subscribe to.",
				"Give the names of topics, separated by commas.");
	given->options->topics = SX_KAFKA_SUBSCRIBE;
	given->options->names = names;
	given->topics++;
}

static void
parse_topic(const char *name, const char *value, Given *given)
{
	if (value[0] == '\0' || strchr(value, ',') != NULL)
		invalid(name, value, NULL,
				"Give the name of one topic; option \"subscribe\" takes several.");
	parse_subscribe(name, value, given);
}

static void
parse_pattern(const char *name, const char *value, Given *given)
{
	if (value[0] == '\0')
		invalid(name, value, "The pattern to subscribe to is empty.",
				"Give a regular expression for whole names of topics, such as 'orders-.*'.");

	/* Says what is wrong with it. */
	(void) DirectFunctionCall2Coll(textregexeq, C_COLLATION_OID, CStringGetTextDatum(""),
								   CStringGetTextDatum(value));
	given->options->topics = SX_KAFKA_PATTERN;
	given->options->pattern = pstrdup(value);
	given->topics++;
}

static void
parse_assign(const char *name, const char *value, Given *given)
{
	const char *error = sx_kafka_positions_parse(value, true, 0, &given->options->assigned);

	if (error == NULL && given->options->assigned.n == 0)
		error = "There are no partitions in it.";
	if (error != NULL)
		invalid(name, value, error, "Give partitions by topic, such as {\"orders\":[0,1]}.");
	given->options->topics = SX_KAFKA_ASSIGN;
	given->topics++;
}

/* ---- where to begin and to end ---- */

static void
parse_offsets(const char *name, const char *value, bool ending, SxKafkaBound *result)
{
	result->given = true;
	if (!ending && pg_strcasecmp(value, "earliest") == 0)
		result->kind = SX_KAFKA_AT_EARLIEST;
	else if (pg_strcasecmp(value, "latest") == 0)
		result->kind = SX_KAFKA_AT_LATEST;
	else
	{
		const char *error = sx_kafka_positions_parse(value, false,
													 ending ? SX_KAFKA_LATEST : SX_KAFKA_EARLIEST,
													 &result->positions);

		if (error != NULL)
			invalid(name, value, error, ending ?
					"Legal values: latest, or offsets such as {\"orders\":{\"0\":23,\"1\":-1}}, where -1 is the end." :
					"Legal values: earliest, latest, or offsets such as {\"orders\":{\"0\":23,\"1\":-2}}, where -2 is the beginning and -1 the end.");
		result->kind = SX_KAFKA_AT_OFFSETS;
	}
}

static void
parse_times(const char *name, const char *value, SxKafkaBound *result)
{
	const char *error = sx_kafka_positions_parse(value, false, 0, &result->positions);

	if (error != NULL)
		invalid(name, value, error,
				"Give milliseconds since 1970 by partition, such as {\"orders\":{\"0\":1700000000000}}.");
	result->given = true;
	result->kind = SX_KAFKA_AT_TIMES;
}

static void
parse_time(const char *name, const char *value, SxKafkaBound *result)
{
	char	   *end;

	errno = 0;
	result->time = strtoll(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || result->time < 0)
		invalid(name, value, "A single whole number is expected.",
				"Give milliseconds since 1970, such as 1700000000000.");
	result->given = true;
	result->kind = SX_KAFKA_AT_TIME;
}

static void
parse_starting_offsets(const char *name, const char *value, Given *given)
{
	parse_offsets(name, value, false, &given->starting[2]);
}

static void
parse_starting_times(const char *name, const char *value, Given *given)
{
	parse_times(name, value, &given->starting[1]);
}

static void
parse_starting_time(const char *name, const char *value, Given *given)
{
	parse_time(name, value, &given->starting[0]);
}

static void
parse_ending_offsets(const char *name, const char *value, Given *given)
{
	parse_offsets(name, value, true, &given->ending[2]);
}

static void
parse_ending_times(const char *name, const char *value, Given *given)
{
	parse_times(name, value, &given->ending[1]);
}

static void
parse_ending_time(const char *name, const char *value, Given *given)
{
	parse_time(name, value, &given->ending[0]);
}

static void
parse_strategy(const char *name, const char *value, Given *given)
{
	if (pg_strcasecmp(value, "latest") == 0)
		given->options->late_time_is_end = true;
	else if (pg_strcasecmp(value, "error") != 0)
		invalid(name, value, NULL,
				"Legal values: error, latest (begin at the end of a partition that has no record so late).");
}

/* ---- how much, and the rest ---- */

static int64
parse_count(const char *name, const char *value)
{
	char	   *end;
	int64		result;

	errno = 0;
	result = strtoll(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || result <= 0)
		invalid(name, value, NULL, "Give a whole number greater than zero.");
	return result;
}

static void
parse_max_offsets(const char *name, const char *value, Given *given)
{
	given->options->max_offsets = parse_count(name, value);
}

static void
parse_min_offsets(const char *name, const char *value, Given *given)
{
	given->options->min_offsets = parse_count(name, value);
}

static int64
parse_span(const char *name, const char *value)
{
	Interval   *interval = DatumGetIntervalP(DirectFunctionCall3(interval_in,
																 CStringGetDatum(value),
																 ObjectIdGetDatum(InvalidOid),
																 Int32GetDatum(-1)));
	int64		result = sx_watermark_delay_from_interval(interval);

	if (result == 0)
		invalid(name, value, NULL, "Give an interval greater than zero, such as '15 minutes'.");
	return result;
}

static void
parse_max_trigger_delay(const char *name, const char *value, Given *given)
{
	given->options->max_trigger_delay = parse_span(name, value);
}

static void
parse_discovery_interval(const char *name, const char *value, Given *given)
{
	given->options->discovery_interval = parse_span(name, value);
}

static void
parse_fail_on_data_loss(const char *name, const char *value, Given *given)
{
	if (!parse_bool(value, &given->options->fail_on_data_loss))
		invalid(name, value, NULL, "Legal values: true, false.");
}

static void
parse_isolation_level(const char *name, const char *value, Given *given)
{
	if (pg_strcasecmp(value, "read_committed") == 0)
		given->options->read_committed = true;
	else if (pg_strcasecmp(value, "read_uncommitted") == 0)
		given->options->read_committed = false;
	else
		invalid(name, value, NULL, "Legal values: read_uncommitted, read_committed.");
}

static void
parse_prefetch(const char *name, const char *value, Given *given)
{
	int			kb;

	if (!parse_int(value, &kb, GUC_UNIT_KB, NULL) || kb < LEAST_PREFETCH_KB)
		invalid(name, value, NULL, "Give an amount of memory of at least 1MB, such as '64MB'.");
	given->options->prefetch = (size_t) kb * 1024;
}

static void
parse_commit_group(const char *name, const char *value, Given *given)
{
	if (value[0] == '\0')
		invalid(name, value, NULL, "Give the name of a consumer group that nobody consumes with.");
	given->options->commit_group = pstrdup(value);
}

static const OptionRow option_rows[] = {
	{"assign", parse_assign},
	{"commit_group", parse_commit_group},
	{"discovery_interval", parse_discovery_interval},
	{"ending_offsets", parse_ending_offsets},
	{"ending_offsets_by_timestamp", parse_ending_times},
	{"ending_timestamp", parse_ending_time},
	{"fail_on_data_loss", parse_fail_on_data_loss},
	{"kafka.isolation.level", parse_isolation_level},
	{"max_offsets_per_trigger", parse_max_offsets},
	{"max_trigger_delay", parse_max_trigger_delay},
	{"min_offsets_per_trigger", parse_min_offsets},
	{"prefetch", parse_prefetch},
	{"starting_offsets", parse_starting_offsets},
	{"starting_offsets_by_timestamp", parse_starting_times},
	{"starting_offsets_by_timestamp_strategy", parse_strategy},
	{"starting_timestamp", parse_starting_time},
	{"subscribe", parse_subscribe},
	{"subscribe_pattern", parse_pattern},
	{"topic", parse_topic},
};

static const OptionRow *
find_option(const char *name)
{
	for (int i = 0; i < lengthof(option_rows); i++)
		if (sx_kafka_name_is(name, option_rows[i].name))
			return &option_rows[i];
	return NULL;
}

bool
sx_kafka_stream_option_known(const char *name)
{
	return find_option(name) != NULL;
}

const char *
sx_kafka_stream_option_names(void)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < lengthof(option_rows); i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", option_rows[i].name);
	return buf.data;
}

/* ---- all of them ---- */

static void
check_together(const Given *given)
{
	const SxKafkaStreamOptions *options = given->options;

	if (given->topics != 1)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 given->topics == 0 ?
				 errmsg("the stream names no topic") :
				 errmsg("the stream names its topics twice"),
				 errhint("Give exactly one of the options topic, subscribe, subscribe_pattern and assign.")));
	if (options->min_offsets > 0 && options->max_offsets > 0 &&
		options->min_offsets > options->max_offsets)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("option \"min_offsets_per_trigger\" is greater than \"max_offsets_per_trigger\""),
				 errhint("A batch waits for the one and never takes more than the other.")));
}

/* The first that was given; they come in the order of preference. */
static void
pick(const SxKafkaBound *bounds, SxKafkaBound *result)
{
	for (int i = 0; i < 3; i++)
	{
		if (!bounds[i].given)
			continue;
		*result = bounds[i];
		return;
	}
}

/* One whose written rows name their topics; what is read is where their mark is. */
static void
read_mark_topic(List *options, Given *given)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = (DefElem *) lfirst(lc);

		if (sx_kafka_name_is(def->defname, "mark_topic"))
			find_option("topic")->parse("mark_topic", defGetString(def), given);
	}
}

void
sx_kafka_stream_options_parse(List *options, SxKafkaStreamOptions *result)
{
	Given		given = {.options = result};
	const OptionRow *seen[lengthof(option_rows)] = {0};
	ListCell   *lc;

	memset(result, 0, sizeof(*result));
	result->fail_on_data_loss = true;
	result->max_trigger_delay = 15 * USECS_PER_MINUTE;
	result->discovery_interval = 10 * USECS_PER_SEC;
	result->prefetch = (size_t) DEFAULT_PREFETCH_KB * 1024;
	result->starting.kind = SX_KAFKA_AT_LATEST;
	result->ending.kind = SX_KAFKA_AT_LATEST;
	foreach(lc, options)
	{
		DefElem    *def = (DefElem *) lfirst(lc);
		const OptionRow *row = find_option(def->defname);

		if (row == NULL)
			continue;
		if (seen[row - option_rows] != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("option \"%s\" is given twice", row->name),
					 errdetail("The spellings with underscores and with capitals mean the same option.")));
		seen[row - option_rows] = row;
		row->parse(row->name, defGetString(def), &given);
	}
	if (given.topics == 0)
		read_mark_topic(options, &given);
	pick(given.starting, &result->starting);
	pick(given.ending, &result->ending);
	check_together(&given);
}
