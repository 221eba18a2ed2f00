/*
 * stream_options.c
 *		What may stand in OPTIONS (...) of a stream and its columns.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_data_wrapper.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_type.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "common/int.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "source/source.h"
#include "source/stream_options.h"

#define DAYS_PER_DELAY_MONTH	31	/* as Spark reckons a watermark's delay */

PG_FUNCTION_INFO_V1(sx_api_streamx_validator);

typedef enum SxOptionScope
{
	SCOPE_ANY,
	SCOPE_TABLE,				/* connector 'table' only */
	SCOPE_RATE					/* connector 'rate' only */
} SxOptionScope;

typedef struct SxOption
{
	const char *name;
	SxOptionScope scope;
	void		(*parse) (const char *name, const char *value, SxStreamOptions *result);
} SxOption;

/*
 * rows_per_second, "rowsPerSecond", and what the server makes of rowsPerSecond
 * without quotes.
 */
bool
sx_option_is(const char *given, const char *name)
{
	if (strcmp(given, name) == 0)
		return true;
	for (; *name != '\0'; name++)
	{
		if (*name != '_' && pg_tolower((unsigned char) *given++) != *name)
			return false;
	}
	return *given == '\0';
}

/* ---- values ---- */

static Interval *
parse_interval(const char *text)
{
	return DatumGetIntervalP(DirectFunctionCall3(interval_in, CStringGetDatum(text),
												 ObjectIdGetDatum(InvalidOid),
												 Int32GetDatum(-1)));
}

int64
sx_watermark_delay_from_interval(const Interval *interval)
{
	int64		days = (int64) interval->month * DAYS_PER_DELAY_MONTH + interval->day;
	int64		result;

	if (pg_mul_s64_overflow(days, USECS_PER_DAY, &result) ||
		pg_add_s64_overflow(result, interval->time, &result))
		ereport(ERROR,
				(errcode(ERRCODE_INTERVAL_FIELD_OVERFLOW),
				 errmsg("interval is too large")));
	if (result < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay of a watermark is negative"),
				 errdetail("A watermark stays behind the largest event time that was seen, never before it."),
				 errhint("Give an interval of at least zero, such as '10 seconds'.")));
	return result;
}

int64
sx_watermark_delay_parse(const char *text)
{
	return sx_watermark_delay_from_interval(parse_interval(text));
}

static void
invalid_value(const char *name, const char *value, const char *hint)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
			 errmsg("invalid value for option \"%s\": \"%s\"", name, value),
			 errhint("%s", hint)));
}

static void
parse_connector(const char *name, const char *value, SxStreamOptions *result)
{
	if (pg_strcasecmp(value, "rate") == 0)
		result->rate = true;
	else if (pg_strcasecmp(value, "table") != 0)
		invalid_value(name, value, "Legal values: table (rows are inserted into the stream), rate (generated rows).");
}

static int64
parse_span(const char *name, const char *value)
{
	Interval   *interval = parse_interval(value);
	int64		result;

	if (pg_mul_s64_overflow((int64) interval->month * DAYS_PER_DELAY_MONTH + interval->day,
							USECS_PER_DAY, &result) ||
		pg_add_s64_overflow(result, interval->time, &result) || result < 0)
		invalid_value(name, value, "Give an interval of at least zero, such as '7 days'.");
	return result;
}

static void
parse_retention(const char *name, const char *value, SxStreamOptions *result)
{
	result->retention = parse_span(name, value);
}

static int64
parse_positive(const char *name, const char *value)
{
	char	   *end;
	int64		result;

	errno = 0;
	result = strtoll(value, &end, 10);
	if (errno != 0 || end == value || *end != '\0' || result <= 0 || result > PG_INT32_MAX)
		invalid_value(name, value, "Give a whole number greater than zero.");
	return result;
}

static void
parse_rows_per_second(const char *name, const char *value, SxStreamOptions *result)
{
	result->rows_per_second = parse_positive(name, value);
}

static void
parse_num_partitions(const char *name, const char *value, SxStreamOptions *result)
{
	result->num_partitions = parse_positive(name, value);
}

static void
parse_ramp_up_time(const char *name, const char *value, SxStreamOptions *result)
{
	result->ramp_up_time = parse_span(name, value) / USECS_PER_SEC;
	if (result->ramp_up_time > PG_INT32_MAX)
		invalid_value(name, value, "Give an interval of at most 68 years.");
}

static const SxOption table_options[] = {
	{"connector", SCOPE_ANY, parse_connector},
	{"num_partitions", SCOPE_RATE, parse_num_partitions},
	{"ramp_up_time", SCOPE_RATE, parse_ramp_up_time},
	{"retention", SCOPE_TABLE, parse_retention},
	{"rows_per_second", SCOPE_RATE, parse_rows_per_second},
};

/* ---- lists ---- */

/*
 * Names the option in every error, the input functions' too, and keeps the
 * statement out of the log: a password may stand beside a mistyped option.
 */
static void
option_error_callback(void *arg)
{
	const char *const *name = arg;

	errhidestmt(true);
	if (*name != NULL)
		errcontext("option \"%s\" of a stream", *name);
}

static void
push_option_context(ErrorContextCallback *callback, const char **name)
{
	*name = NULL;
	callback->callback = option_error_callback;
	callback->arg = name;
	callback->previous = error_context_stack;
	error_context_stack = callback;
}

static void
unknown_option(const char *name, const char *of, const char *legal)
{
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\" of %s", name, of),
			 legal != NULL ? errhint("Legal options: %s.", legal)
			 : errhint("There are no options here; the stream and its columns have them.")));
}

void
sx_stream_options_parse(List *options, SxStreamOptions *result)
{
	const SxOption *given[lengthof(table_options)] = {0};
	ErrorContextCallback callback;
	const char *name;
	ListCell   *lc;

	push_option_context(&callback, &name);
	memset(result, 0, sizeof(*result));
	result->retention = 7 * USECS_PER_DAY;
	result->rows_per_second = 1;
	result->num_partitions = 1;
	foreach(lc, options)
	{
		DefElem    *def = (DefElem *) lfirst(lc);
		int			i = 0;

		while (i < lengthof(table_options) && !sx_option_is(def->defname, table_options[i].name))
			i++;
		if (i == lengthof(table_options))
			unknown_option(def->defname, "a stream",
						   "connector, num_partitions, ramp_up_time, retention, rows_per_second");
		if (given[i] != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("option \"%s\" is given twice", table_options[i].name),
					 errdetail("The spellings with underscores and with capitals mean the same option.")));
		given[i] = &table_options[i];
		name = table_options[i].name;
		table_options[i].parse(name, defGetString(def), result);
		name = NULL;
	}
	for (int i = 0; i < lengthof(table_options); i++)
	{
		if (given[i] == NULL || given[i]->scope == SCOPE_ANY ||
			(given[i]->scope == SCOPE_RATE) == result->rate)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
				 errmsg("option \"%s\" does not fit connector \"%s\"", given[i]->name,
						result->rate ? "rate" : "table"),
				 errhint("Options of connector \"%s\": %s.", result->rate ? "rate" : "table",
						 result->rate ? "num_partitions, ramp_up_time, rows_per_second" : "retention")));
	}
	error_context_stack = callback.previous;
}

/* streamx_validator(options text[], catalog oid) */
Datum
sx_api_streamx_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	Oid			catalog = PG_GETARG_OID(1);
	SxStreamOptions parsed;
	ErrorContextCallback callback;
	const char *name;
	ListCell   *lc;

	if (catalog == ForeignTableRelationId)
	{
		sx_stream_options_parse(options, &parsed);
		PG_RETURN_VOID();
	}
	push_option_context(&callback, &name);
	foreach(lc, options)
	{
		DefElem    *def = (DefElem *) lfirst(lc);

		if (catalog != AttributeRelationId)
			unknown_option(def->defname,
						   catalog == ForeignServerRelationId ? "a server of streamx" :
						   catalog == UserMappingRelationId ? "a user mapping of streamx" :
						   "foreign-data wrapper streamx", NULL);
		if (!sx_option_is(def->defname, "watermark"))
			unknown_option(def->defname, "a column of a stream", "watermark");
		name = "watermark";
		(void) sx_watermark_delay_parse(defGetString(def));
		name = NULL;
	}
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}

/* ---- watermark columns ---- */

static const char *
watermark_option(Oid relid, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, GetForeignColumnOptions(relid, attnum))
	{
		DefElem    *def = (DefElem *) lfirst(lc);

		if (sx_option_is(def->defname, "watermark"))
			return defGetString(def);
	}
	return NULL;
}

void
sx_watermark_check(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	const char *first = NULL;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || watermark_option(RelationGetRelid(rel), att->attnum) == NULL)
			continue;
		if (att->atttypid != TIMESTAMPTZOID)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("watermark on column \"%s\" of type %s", NameStr(att->attname),
							format_type_be(att->atttypid)),
					 errdetail("An event time is an instant: the column of a watermark has type timestamp with time zone."),
					 errhint("Declare the column as timestamptz.")));
		if (first != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("stream \"%s\" has two watermark columns", RelationGetRelationName(rel)),
					 errdetail("Columns \"%s\" and \"%s\" both have a watermark; a stream has one event time.",
							   first, NameStr(att->attname)),
					 errhint("Remove one, and use watermark() in the queries that need the other.")));
		first = NameStr(att->attname);
	}
}

bool
sx_stream_watermark(Oid relid, AttrNumber *attnum, int64 *delay)
{
	Relation	rel = try_relation_open(relid, AccessShareLock);
	int			natts;
	bool		found = false;

	if (rel == NULL)
		return false;
	natts = RelationGetNumberOfAttributes(rel);
	for (int i = 0; i < natts && !found; i++)
	{
		const char *text;

		if (TupleDescAttr(RelationGetDescr(rel), i)->attisdropped)
			continue;
		text = watermark_option(relid, i + 1);
		if (text == NULL)
			continue;
		*attnum = i + 1;
		*delay = sx_watermark_delay_parse(text);
		found = true;
	}
	relation_close(rel, AccessShareLock);
	return found;
}
