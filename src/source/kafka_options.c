/*
 * kafka_options.c
 *		What may stand in OPTIONS (...) of Kafka servers, user mappings, streams and
 *		columns: whose word each is, and the check of it.
 *
 *	 server, user mapping	settings of the client (kafka/settings.h)
 *	 stream					reading, writing, format, kafka.* of the client
 *	 column					watermark, metadata, field
 */
#include "postgres.h"

#include "access/reloptions.h"
#include "catalog/pg_attribute.h"
#include "catalog/pg_foreign_server.h"
#include "catalog/pg_foreign_table.h"
#include "catalog/pg_user_mapping.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "utils/builtins.h"

#include "format/format.h"
#include "kafka/settings.h"
#include "source/kafka.h"
#include "source/kafka_stream_options.h"
#include "source/stream_options.h"

PG_FUNCTION_INFO_V1(sx_api_kafka_validator);

/* How the sink writes: room sink. */
static const char *const writing[] = {"key_columns", "mark_topic"};

/* What Spark's programs say and what means nothing here; taken so that they can be moved as they are. */
static const char *const without_effect[] = {
	"fetch_offset.num_retries", "fetch_offset.retry_interval_ms", "group_id_prefix", "include_headers",
	"kafka_consumer.poll_timeout_ms", "max_records_per_partition", "min_partitions",
};

static bool
is_one_of(const char *name, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (sx_kafka_name_is(name, names[i]))
			return true;
	}
	return false;
}

#define IS_ONE_OF(name, names)	is_one_of((name), (names), lengthof(names))

static void
append_names(StringInfo text, const char *const *names, int n)
{
	for (int i = 0; i < n; i++)
		appendStringInfo(text, "%s%s", text->len > 0 ? ", " : "", names[i]);
}

/* ---- checks ---- */

/*
 * Keeps the statement out of the log: a password may stand beside a mistyped
 * option.
 */
static void
hide_statement(void *arg)
{
	errhidestmt(true);
}

static void
unknown_stream_option(const char *name)
{
	StringInfoData legal;

	initStringInfo(&legal);
	append_names(&legal, writing, lengthof(writing));
	appendStringInfo(&legal, ", %s, %s, and settings of the client that begin with \"kafka.\"",
					 sx_kafka_stream_option_names(), sx_format_option_names());
	ereport(ERROR,
			(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
			 errmsg("invalid option \"%s\" of a Kafka stream", name),
			 errhint("Legal options: %s.", legal.data)));
}

static void
check_stream(List *options)
{
	ListCell   *lc;
	ListCell   *other;

	foreach(lc, options)
	{
		const char *name = ((DefElem *) lfirst(lc))->defname;

		if (IS_ONE_OF(name, without_effect))	/* kafka_consumer: before what kafka_ means */
			continue;
		if (!sx_kafka_is_client_option(name))
		{
			sx_kafka_refuse_at_stream(name);
			if (!sx_kafka_stream_option_known(name) && !IS_ONE_OF(name, writing) &&
				!sx_format_option_known(name))
				unknown_stream_option(name);
		}
		for_each_cell(other, options, lnext(options, lc))
		{
			if (sx_kafka_name_is(name, ((DefElem *) lfirst(other))->defname))
				ereport(ERROR,
						(errcode(ERRCODE_SYNTAX_ERROR),
						 errmsg("option \"%s\" is given twice", ((DefElem *) lfirst(other))->defname),
						 errdetail("The spellings with underscores and with capitals mean the same option.")));
		}
	}
	sx_kafka_settings_check(SX_KAFKA_STREAM, options);
	(void) sx_format_options_parse(options);
}

static void
check_column(List *options)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *def = lfirst(lc);

		if (sx_option_is(def->defname, "watermark"))
			(void) sx_watermark_delay_parse(defGetString(def));
		else if (!sx_option_is(def->defname, "metadata") && !sx_option_is(def->defname, "field"))
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\" of a column of a Kafka stream", def->defname),
					 errhint("Legal options: field, metadata, watermark.")));
	}
}

/* kafka_validator(options text[], catalog oid) */
Datum
sx_api_kafka_validator(PG_FUNCTION_ARGS)
{
	List	   *options = untransformRelOptions(PG_GETARG_DATUM(0));
	ErrorContextCallback callback = {
		.previous = error_context_stack,
		.callback = hide_statement
	};

	error_context_stack = &callback;
	switch (PG_GETARG_OID(1))
	{
		case ForeignServerRelationId:
			sx_kafka_settings_check(SX_KAFKA_SERVER, options);
			break;
		case UserMappingRelationId:
			sx_kafka_settings_check(SX_KAFKA_USER, options);
			break;
		case ForeignTableRelationId:
			check_stream(options);
			break;
		case AttributeRelationId:
			check_column(options);
			break;
		default:
			if (options == NIL)
				break;
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\" of foreign-data wrapper streamx_kafka",
							((DefElem *) linitial(options))->defname),
					 errhint("There are no options here; servers, user mappings and streams have them.")));
	}
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}

/* ---- for readers and writers ---- */

static List *
add_text(List *options, char *name, const char *value)
{
	if (value == NULL)
		return options;
	return lappend(options, makeDefElem(name, (Node *) makeString(pstrdup(value)), -1));
}

List *
sx_kafka_format_options(Oid relid, Oid userid)
{
	ForeignTable *table = GetForeignTable(relid);
	SxKafkaSettings *settings = sx_kafka_settings(table->serverid, userid, NIL);
	List	   *options = list_copy(table->options);

	options = add_text(options, "schema_registry_url", settings->registry_url);
	options = add_text(options, "schema_registry_user", settings->registry_user);
	return add_text(options, "schema_registry_password", settings->registry_password);
}
