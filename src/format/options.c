/*
 * options.c
 *		Options of formats, and the formats by name. Thread: main.
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "pgtime.h"
#include "utils/builtins.h"

#include "format/column.h"

typedef struct FormatOption
{
	const char *name;
	const char *legal;			/* for the hint */
	bool		(*parse) (SxFormatOptions *options, const char *value);
} FormatOption;

/* ---- values ---- */

static bool
set_bool(bool *result, const char *value)
{
	return parse_bool(value, result);
}

/* One byte, as it is or as Spark writes it: \t and so on; empty: none. */
static bool
set_char(char *result, const char *value)
{
	static const char escapes[] = "t\tn\nr\r0\0\\\\\"\"''";

	if (value[0] == '\\' && value[1] != '\0' && value[2] == '\0')
	{
		for (int i = 0; i < (int) sizeof(escapes) - 1; i += 2)
		{
			if (escapes[i] == value[1])
			{
				*result = escapes[i + 1];
				return true;
			}
		}
		return false;
	}
	*result = value[0];
	return value[0] == '\0' || (value[1] == '\0' && !IS_HIGHBIT_SET(value[0]));
}

static bool
set_count(int *result, const char *value)
{
	char	   *end;
	long		count;

	errno = 0;
	count = strtol(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || count <= 0 || count > INT_MAX)
		return false;
	*result = count;
	return true;
}

#define OPTION(function, member, setter) \
	static bool \
	function(SxFormatOptions *options, const char *value) \
	{ \
		return setter(&options->member, value); \
	}

#define TEXT_OPTION(function, member) \
	static bool \
	function(SxFormatOptions *options, const char *value) \
	{ \
		options->member = value; \
		return true; \
	}

OPTION(parse_comments, comments, set_bool)
OPTION(parse_unquoted_names, unquoted_names, set_bool)
OPTION(parse_single_quotes, single_quotes, set_bool)
OPTION(parse_leading_zeros, leading_zeros, set_bool)
OPTION(parse_non_numeric, non_numeric, set_bool)
OPTION(parse_backslash_any, backslash_any, set_bool)
OPTION(parse_control_chars, control_chars, set_bool)
OPTION(parse_ignore_null_fields, ignore_null_fields, set_bool)
OPTION(parse_trim_leading, trim_leading, set_bool)
OPTION(parse_trim_trailing, trim_trailing, set_bool)
OPTION(parse_multi_line, multi_line, set_bool)
OPTION(parse_quote_all, write_quotes_all, set_bool)
OPTION(parse_quote, quote, set_char)
OPTION(parse_escape, escape, set_char)
OPTION(parse_comment, comment, set_char)
OPTION(parse_max_columns, max_columns, set_count)
OPTION(parse_registry_timeout, registry_timeout_ms, set_count)
TEXT_OPTION(parse_corrupt_column, corrupt_column)
TEXT_OPTION(parse_null_value, null_value)
TEXT_OPTION(parse_empty_value, empty_value)
TEXT_OPTION(parse_nan_value, nan_value)
TEXT_OPTION(parse_positive_inf, positive_inf)
TEXT_OPTION(parse_negative_inf, negative_inf)
TEXT_OPTION(parse_avro_schema, avro_schema)
TEXT_OPTION(parse_registry_url, registry_url)
TEXT_OPTION(parse_registry_user, registry_user)
TEXT_OPTION(parse_registry_password, registry_password)
TEXT_OPTION(parse_registry_subject, registry_subject)

static bool
parse_separator(SxFormatOptions *options, const char *value)
{
	return set_char(&options->separator, value) && options->separator != '\0';
}

static bool
parse_format(SxFormatOptions *options, const char *value)
{
	options->format = sx_format_routine(value)->name;
	return true;
}

static bool
parse_mode(SxFormatOptions *options, const char *value)
{
	if (pg_strcasecmp(value, "permissive") == 0)
		options->mode = SX_MODE_PERMISSIVE;
	else if (pg_strcasecmp(value, "dropmalformed") == 0)
		options->mode = SX_MODE_DROPMALFORMED;
	else if (pg_strcasecmp(value, "failfast") == 0)
		options->mode = SX_MODE_FAILFAST;
	else
		return false;
	return true;
}

static bool
parse_invalid_text(SxFormatOptions *options, const char *value)
{
	options->replace_invalid = pg_strcasecmp(value, "replace") == 0;
	return options->replace_invalid || pg_strcasecmp(value, "error") == 0;
}

static bool
parse_time_zone(SxFormatOptions *options, const char *value)
{
	pg_tz	   *zone = pg_tzset(value);

	if (zone == NULL || !pg_tz_acceptable(zone))
		return false;
	options->time_zone = zone;
	return true;
}

static bool
parse_epoch_unit(SxFormatOptions *options, const char *value)
{
	if (pg_strcasecmp(value, "seconds") == 0)
		options->time_unit = SX_TIME_SECONDS;
	else if (pg_strcasecmp(value, "milliseconds") == 0)
		options->time_unit = SX_TIME_MILLIS;
	else if (pg_strcasecmp(value, "microseconds") == 0)
		options->time_unit = SX_TIME_MICROS;
	else
		return false;
	return true;
}

static const char one_byte[] = "one ASCII character, or an escape such as \\t";
static const char yes_no[] = "true or false";
static const char any_text[] = "any text";

/* Sorted; delimiter is Spark's other word for sep. */
static const FormatOption format_options[] = {
	{"allow_backslash_escaping_any_character", yes_no, parse_backslash_any},
	{"allow_comments", yes_no, parse_comments},
	{"allow_non_numeric_numbers", yes_no, parse_non_numeric},
	{"allow_numeric_leading_zeros", yes_no, parse_leading_zeros},
	{"allow_single_quotes", yes_no, parse_single_quotes},
	{"allow_unquoted_control_chars", yes_no, parse_control_chars},
	{"allow_unquoted_field_names", yes_no, parse_unquoted_names},
	{"avro_schema", any_text, parse_avro_schema},
	{"column_name_of_corrupt_record", "the name of a column", parse_corrupt_column},
	{"comment", one_byte, parse_comment},
	{"delimiter", one_byte, parse_separator},
	{"empty_value", any_text, parse_empty_value},
	{"epoch_unit", "seconds, milliseconds, microseconds", parse_epoch_unit},
	{"escape", one_byte, parse_escape},
	{"format", "json, csv, raw, avro", parse_format},
	{"ignore_leading_white_space", yes_no, parse_trim_leading},
	{"ignore_null_fields", yes_no, parse_ignore_null_fields},
	{"ignore_trailing_white_space", yes_no, parse_trim_trailing},
	{"invalid_text", "error, replace", parse_invalid_text},
	{"max_columns", "a whole number above zero", parse_max_columns},
	{"mode", "permissive, dropmalformed, failfast", parse_mode},
	{"multi_line", yes_no, parse_multi_line},
	{"nan_value", any_text, parse_nan_value},
	{"negative_inf", any_text, parse_negative_inf},
	{"null_value", any_text, parse_null_value},
	{"positive_inf", any_text, parse_positive_inf},
	{"quote", one_byte, parse_quote},
	{"quote_all", yes_no, parse_quote_all},
	{"schema_registry_password", any_text, parse_registry_password},
	{"schema_registry_subject", any_text, parse_registry_subject},
	{"schema_registry_timeout_ms", "a whole number above zero", parse_registry_timeout},
	{"schema_registry_url", "http:// or https:// and so on", parse_registry_url},
	{"schema_registry_user", any_text, parse_registry_user},
	{"sep", one_byte, parse_separator},
	{"time_zone", "the name of a time zone", parse_time_zone},
};

/* single_quotes, singleQuotes, and what the server makes of singleQuotes without quotes. */
static const FormatOption *
find_option(const char *given)
{
	for (int i = 0; i < lengthof(format_options); i++)
	{
		const char *name = format_options[i].name;
		const char *at = given;

		if (pg_strcasecmp(given, name) == 0)
			return &format_options[i];
		for (; *name != '\0'; name++)
		{
			if (*name == '_')
				continue;
			if (pg_tolower((unsigned char) *at) != *name)
				break;
			at++;
		}
		if (*name == '\0' && *at == '\0')
			return &format_options[i];
	}
	return NULL;
}

bool
sx_format_option_known(const char *name)
{
	return find_option(name) != NULL;
}

const char *
sx_format_option_names(void)
{
	StringInfoData names;

	initStringInfo(&names);
	for (int i = 0; i < lengthof(format_options); i++)
		appendStringInfo(&names, "%s%s", i > 0 ? ", " : "", format_options[i].name);
	return names.data;
}

static SxFormatOptions *
default_options(void)
{
	SxFormatOptions *options = palloc0(sizeof(SxFormatOptions));

	options->corrupt_column = "_corrupt_record";
	options->time_zone = session_timezone;
	options->single_quotes = true;
	options->non_numeric = true;
	options->ignore_null_fields = true;
	options->separator = ',';
	options->quote = '"';
	options->escape = '\\';
	options->null_value = "";
	options->empty_value = "";
	options->nan_value = "NaN";
	options->positive_inf = "Inf";
	options->negative_inf = "-Inf";
	options->max_columns = 20480;
	options->registry_timeout_ms = 5000;
	return options;
}

SxFormatOptions *
sx_format_options_parse(List *list)
{
	SxFormatOptions *options = default_options();
	ListCell   *lc;

	foreach(lc, list)
	{
		DefElem    *def = (DefElem *) lfirst(lc);
		const FormatOption *option = find_option(def->defname);
		char	   *value;

		if (option == NULL)
			continue;
		value = defGetString(def);
		if (option->parse(options, value))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid value for option \"%s\": \"%s\"", option->name, value),
				 errhint("Legal values: %s.", option->legal)));
	}
	return options;
}

/* ---- the formats ---- */

const SxFormatRoutine *
sx_format_routine(const char *name)
{
	static const SxFormatRoutine *const routines[] = {
		&sx_json_format, &sx_csv_format, &sx_raw_format, &sx_avro_format,
	};

	for (int i = 0; i < lengthof(routines); i++)
		if (pg_strcasecmp(name, routines[i]->name) == 0)
			return routines[i];
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("format \"%s\" is not known", name),
			 errhint("Formats: json, csv, raw, avro.")));
	return NULL;
}

AttrNumber
sx_format_corrupt_column(TupleDesc desc, const SxFormatOptions *options)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || strcmp(NameStr(att->attname), options->corrupt_column) != 0)
			continue;
		if (att->atttypid != TEXTOID && att->atttypid != BYTEAOID)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("column \"%s\" for corrupt records has type %s", NameStr(att->attname),
							format_type_be(att->atttypid)),
					 errdetail("It takes the bytes of records that are malformed."),
					 errhint("Declare it as text, or as bytea to keep the bytes exactly.")));
		return att->attnum;
	}
	return 0;
}
