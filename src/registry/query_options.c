/*
 * query_options.c
 *		The words of create_query: options and triggers.
 *
 * One row per option in the table below; names are written in snake_case and
 * taken in Spark's camelCase too.
 */
#include "postgres.h"

#include <ctype.h>
#include <limits.h>

#include "common/int.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/guc.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "base/settings.h"
#include "registry/query.h"

#define DEFAULT_FUTURE_SKEW	USECS_PER_DAY	/* D13 */

typedef struct OptionRow
{
	const char *name;
	const char *values;			/* for the hint */
	bool		(*set) (SxQueryOptions *options, const char *value);	/* false: bad value */
} OptionRow;

/* ---------- values ---------- */

/* An interval without months (their length varies) as microseconds. */
static bool
parse_interval(const char *text, int64 *us)
{
	char		buffer[MAXDATELEN + 1];
	char	   *field[MAXDATEFIELDS];
	int			ftype[MAXDATEFIELDS];
	int			nf;
	int			dtype;
	struct pg_itm_in itm;

	/* By the parser itself: interval_in would raise its own error. */
	if (ParseDateTime(text, buffer, sizeof(buffer), field, ftype, MAXDATEFIELDS, &nf) != 0 ||
		DecodeInterval(field, ftype, nf, INTERVAL_FULL_RANGE, &dtype, &itm) != 0 ||
		dtype != DTK_DELTA)
		return false;
	if (itm.tm_year != 0 || itm.tm_mon != 0)
		return false;
	return !pg_mul_s64_overflow(itm.tm_mday, USECS_PER_DAY, us) &&
		!pg_add_s64_overflow(*us, itm.tm_usec, us) &&
		*us >= 0;
}

static bool
parse_int_in(const char *text, int unit, int min, int max, int *result)
{
	return parse_int(text, result, unit, NULL) && *result >= min && *result <= max;
}

static bool
parse_word(const char *text, const char *no, const char *yes, bool *result)
{
	if (pg_strcasecmp(text, yes) == 0)
		*result = true;
	else if (pg_strcasecmp(text, no) == 0)
		*result = false;
	else
		return false;
	return true;
}

/* ---------- options, sorted by name ---------- */

static bool
set_batch_rows(SxQueryOptions *options, const char *value)
{
	return parse_int_in(value, 0, 1, INT_MAX, &options->batch_rows);
}

static bool
set_batches_to_retain(SxQueryOptions *options, const char *value)
{
	return parse_int_in(value, 0, 2, 1000000, &options->batches_to_retain);
}

static bool
set_changelog(SxQueryOptions *options, const char *value)
{
	return parse_bool(value, &options->changelog);
}

static bool
set_delete_when(SxQueryOptions *options, const char *value)
{
	options->delete_when = pstrdup(value);
	return value[0] != '\0';
}

static bool
set_directory(SxQueryOptions *options, const char *value)
{
	options->directory = pstrdup(value);
	return value[0] == '/';
}

static bool
set_idle_timeout(SxQueryOptions *options, const char *value)
{
	if (pg_strcasecmp(value, "off") == 0)
	{
		options->idle_timeout = 0;
		return true;
	}
	return parse_interval(value, &options->idle_timeout);
}

static bool
set_key_columns(SxQueryOptions *options, const char *value)
{
	options->key_columns = pstrdup(value);
	return value[0] != '\0';
}

static bool
set_max_future_skew(SxQueryOptions *options, const char *value)
{
	if (pg_strcasecmp(value, "off") == 0)
	{
		options->max_future_skew = -1;
		return true;
	}
	return parse_interval(value, &options->max_future_skew);
}

static bool
set_max_pending(SxQueryOptions *options, const char *value)
{
	return parse_int_in(value, 0, 1, 1000000, &options->max_pending);
}

static bool
set_max_retries(SxQueryOptions *options, const char *value)
{
	return parse_int_in(value, 0, -1, INT_MAX, &options->max_retries);
}

static bool
set_watermark_policy(SxQueryOptions *options, const char *value)
{
	bool		max;

	if (!parse_word(value, "min", "max", &max))
		return false;
	options->watermark_policy = max ? SX_WATERMARK_MAX : SX_WATERMARK_MIN;
	return true;
}

static bool
set_no_data_batches(SxQueryOptions *options, const char *value)
{
	return parse_bool(value, &options->no_data_batches);
}

static bool
set_on_error(SxQueryOptions *options, const char *value)
{
	return parse_word(value, "fail", "quarantine", &options->quarantine);
}

static bool
set_quarantine_limit(SxQueryOptions *options, const char *value)
{
	return parse_int_in(value, 0, 0, INT_MAX, &options->quarantine_limit);
}

static bool
set_starting_offsets(SxQueryOptions *options, const char *value)
{
	return parse_word(value, "earliest", "latest", &options->starting_latest);
}

static bool
set_state_memory(SxQueryOptions *options, const char *value)
{
	return parse_int_in(value, GUC_UNIT_KB, 1024, INT_MAX, &options->state_memory);
}

static bool
set_state_store(SxQueryOptions *options, const char *value)
{
	bool		table;

	if (!parse_word(value, "rocksdb", "table", &table))
		return false;
	options->state_store = table ? "table" : "rocksdb";
	return true;
}

static const OptionRow option_rows[] = {
	{"batch_rows", "a number of rows, at least 1", set_batch_rows},
	{"batches_to_retain", "a number of batches, at least 2", set_batches_to_retain},
	{"changelog_checkpointing", "true or false", set_changelog},
	{"delete_when", "the name of a result column of type boolean", set_delete_when},
	{"directory", "an absolute path on the server", set_directory},
	{"idle_timeout", "an interval such as \"5 minutes\", or \"off\"", set_idle_timeout},
	{"key_columns", "names of result columns, separated by commas", set_key_columns},
	{"max_future_skew", "an interval such as \"1 day\", or \"off\"", set_max_future_skew},
	{"max_pending", "a number of batches, at least 1", set_max_pending},
	{"max_retries", "a number, or -1 for no limit", set_max_retries},
	{"multiple_watermark_policy", "min or max", set_watermark_policy},
	{"no_data_batches", "true or false", set_no_data_batches},
	{"on_error", "fail or quarantine", set_on_error},
	{"quarantine_limit", "a number of rows", set_quarantine_limit},
	{"starting_offsets", "earliest or latest", set_starting_offsets},
	{"state_memory", "a size of at least \"1 MB\"; a number without a unit is kB", set_state_memory},
	{"state_store", "rocksdb or table", set_state_store},
};

/* stateStore -> state_store */
static char *
snake_case(const char *name)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (const char *c = name; *c; c++)
	{
		if (isupper((unsigned char) *c) && buf.len > 0 && buf.data[buf.len - 1] != '_')
			appendStringInfoChar(&buf, '_');
		appendStringInfoChar(&buf, pg_tolower((unsigned char) *c));
	}
	return buf.data;
}

static const OptionRow *
option_find(const char *name)
{
	char	   *snake = snake_case(name);

	for (int i = 0; i < lengthof(option_rows); i++)
		if (strcmp(option_rows[i].name, snake) == 0)
			return &option_rows[i];
	return NULL;
}

static void
unknown_option(const char *name)
{
	StringInfoData buf;

	initStringInfo(&buf);
	for (int i = 0; i < lengthof(option_rows); i++)
		appendStringInfo(&buf, "%s%s", i > 0 ? ", " : "", option_rows[i].name);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown query option \"%s\"", name),
			 errhidestmt(true), /* a secret may stand beside a mistyped name */
			 errhint("Options are %s.", buf.data)));
}

/* Text of a scalar; NULL if it is none. */
static char *
scalar_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out,
													   NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return NULL;
	}
}

static void
options_default(SxQueryOptions *options)
{
	memset(options, 0, sizeof(*options));
	options->state_store = sx_state_store;
	options->state_memory = sx_state_memory;
	options->watermark_policy = SX_WATERMARK_MIN;
	options->max_future_skew = DEFAULT_FUTURE_SKEW;
	options->max_retries = -1;
	options->quarantine_limit = 10000;
	options->batches_to_retain = sx_batches_to_retain;
	options->batch_rows = sx_batch_rows;
	options->max_pending = 100;
	options->no_data_batches = true;
	options->changelog = true;
}

static void
given_twice(const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("query option \"%s\" is given twice", name)));
}

static void
not_an_object(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("options of a query must be a JSON object"),
			 errhint("For example: '{\"state_memory\": \"64MB\"}'.")));
}

void
sx_query_options_parse(Jsonb *json, SxQueryOptions *options)
{
	JsonbIterator *it;
	JsonbIteratorToken token;
	JsonbValue	value;
	const OptionRow *seen[lengthof(option_rows)];
	int			nseen = 0;

	options_default(options);
	if (!JB_ROOT_IS_OBJECT(json))
		not_an_object();
	it = JsonbIteratorInit(&json->root);
	(void) JsonbIteratorNext(&it, &value, true);	/* WJB_BEGIN_OBJECT */
	while ((token = JsonbIteratorNext(&it, &value, true)) == WJB_KEY)
	{
		char	   *name = pnstrdup(value.val.string.val, value.val.string.len);
		const OptionRow *row = option_find(name);
		char	   *text;

		if (row == NULL)
			unknown_option(name);
		for (int i = 0; i < nseen; i++)
			if (seen[i] == row)
				given_twice(row->name);
		seen[nseen++] = row;
		(void) JsonbIteratorNext(&it, &value, true);	/* WJB_VALUE */
		text = scalar_text(&value);
		if (text == NULL || !row->set(options, text))
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("invalid value for query option \"%s\": %s", name,
							text != NULL ? quote_literal_cstr(text) : "not a scalar"),
					 errhint("Give %s.", row->values)));
	}
}

/* Appends the options of one object; a null value marks the name as removed. */
static void
merge_into(Jsonb *json, JsonbValue *values, bool *set)
{
	JsonbIterator *it;
	JsonbValue	value;
	bool		seen[lengthof(option_rows)] = {false};

	if (json == NULL)
		return;
	if (!JB_ROOT_IS_OBJECT(json))
		not_an_object();
	it = JsonbIteratorInit(&json->root);
	(void) JsonbIteratorNext(&it, &value, true);
	while (JsonbIteratorNext(&it, &value, true) == WJB_KEY)
	{
		char	   *name = pnstrdup(value.val.string.val, value.val.string.len);
		const OptionRow *row = option_find(name);

		if (row == NULL)
			unknown_option(name);
		if (seen[row - option_rows])
			given_twice(row->name);
		seen[row - option_rows] = true;
		(void) JsonbIteratorNext(&it, &value, true);
		values[row - option_rows] = value;
		set[row - option_rows] = value.type != jbvNull;
	}
}

Jsonb *
sx_query_options_merge(Jsonb *json, Jsonb *more)
{
	JsonbValue	values[lengthof(option_rows)];
	bool		set[lengthof(option_rows)] = {false};
	JsonbParseState *state = NULL;
	JsonbValue *object;
	SxQueryOptions checked;
	Jsonb	   *result;

	merge_into(json, values, set);
	merge_into(more, values, set);
	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	for (int i = 0; i < lengthof(option_rows); i++)
	{
		JsonbValue	key;

		if (!set[i])
			continue;
		key.type = jbvString;
		key.val.string.val = unconstify(char *, option_rows[i].name);
		key.val.string.len = strlen(option_rows[i].name);
		pushJsonbValue(&state, WJB_KEY, &key);
		pushJsonbValue(&state, WJB_VALUE, &values[i]);
	}
	object = pushJsonbValue(&state, WJB_END_OBJECT, NULL);
	result = JsonbValueToJsonb(object);
	sx_query_options_parse(result, &checked);
	return result;
}

/* ---------- triggers ---------- */

void
sx_trigger_parse(const char *text, SxTriggerKind *kind, int64 *interval)
{
	static const struct
	{
		const char *word;
		SxTriggerKind kind;
	}			words[] = {
		{"default", SX_TRIGGER_DEFAULT},
		{"available_now", SX_TRIGGER_AVAILABLE_NOW},
		{"once", SX_TRIGGER_ONCE},
		{"realtime", SX_TRIGGER_REALTIME},
		{"real_time", SX_TRIGGER_REALTIME}
	};
	char	   *snake = snake_case(text);

	*interval = 0;
	if (pg_strncasecmp(text, "realtime ", 9) == 0 || pg_strncasecmp(text, "real_time ", 10) == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("trigger \"realtime\" takes no interval"),
				 errdetail("In Spark it says how often the query is checkpointed. Here every batch is committed with its offsets and state."),
				 errhint("Use trigger \"realtime\".")));
	for (int i = 0; i < lengthof(words); i++)
		if (strcmp(words[i].word, snake) == 0)
		{
			*kind = words[i].kind;
			return;
		}
	if (!parse_interval(text, interval))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid trigger \"%s\"", text),
				 errdetail("An interval must not be negative and has no months or years."),
				 errhint("Use default, realtime, available_now, once, or an interval such as '10 seconds'.")));
	*kind = *interval == 0 ? SX_TRIGGER_DEFAULT : SX_TRIGGER_INTERVAL;
}

char *
sx_trigger_print(SxTriggerKind kind, int64 interval)
{
	switch (kind)
	{
		case SX_TRIGGER_DEFAULT:
			return pstrdup("default");
		case SX_TRIGGER_AVAILABLE_NOW:
			return pstrdup("available_now");
		case SX_TRIGGER_ONCE:
			return pstrdup("once");
		case SX_TRIGGER_REALTIME:
			return pstrdup("realtime");
		case SX_TRIGGER_INTERVAL:
			break;
	}
	/* In units that read back alike under every IntervalStyle. */
	if (interval % USECS_PER_SEC == 0)
		return psprintf(INT64_FORMAT " seconds", interval / USECS_PER_SEC);
	if (interval % 1000 == 0)
		return psprintf(INT64_FORMAT " milliseconds", interval / 1000);
	return psprintf(INT64_FORMAT " microseconds", interval);
}
