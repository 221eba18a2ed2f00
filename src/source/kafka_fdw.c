/*
 * kafka_fdw.c
 *		The wrapper streamx_kafka: topics of a Kafka cluster as streams.
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "foreign/foreign.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "kafka/client.h"
#include "source/fdw.h"
#include "source/kafka.h"
#include "source/stream_options.h"

#define IMPORT_TIMEOUT_MS	20000

PG_FUNCTION_INFO_V1(sx_api_kafka_handler);

const SxKafkaWriter *sx_kafka_writer = NULL;

static const SxSourceRoutine *
pick_routine(Oid relid)
{
	return &sx_kafka_source_routine;
}

/* After CREATE and ALTER: what the validator cannot see, since it knows no columns. */
static void
check(Relation rel)
{
	sx_watermark_check(rel);
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" cannot be temporary", RelationGetRelationName(rel)),
				 errdetail("Continuous queries run in other processes, which do not see temporary tables.")));
	sx_kafka_source_check(rel);
	if (sx_kafka_writer != NULL && sx_kafka_writer->check != NULL)
		sx_kafka_writer->check(rel);
}

/* ---- writing ---- */

static void
begin_write(ResultRelInfo *rel)
{
	if (sx_kafka_writer == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot insert into stream \"%s\"",
						RelationGetRelationName(rel->ri_RelationDesc))));
	sx_kafka_writer->begin(rel);
}

static void
begin_modify(ModifyTableState *state, ResultRelInfo *rel, List *fdw_private, int subplan, int eflags)
{
	if (!(eflags & EXEC_FLAG_EXPLAIN_ONLY))
		begin_write(rel);
}

/* COPY, and rows that were routed to a partition. */
static void
begin_insert(ModifyTableState *state, ResultRelInfo *rel)
{
	begin_write(rel);
}

static TupleTableSlot *
exec_insert(EState *estate, ResultRelInfo *rel, TupleTableSlot *slot, TupleTableSlot *plan_slot)
{
	return sx_kafka_writer->insert(estate, rel, slot);
}

static void
end_write(EState *estate, ResultRelInfo *rel)
{
	if (sx_kafka_writer != NULL)
		sx_kafka_writer->end(estate, rel);
}

static int
is_updatable(Relation rel)
{
	return 1 << CMD_INSERT;
}

/* ---- IMPORT FOREIGN SCHEMA ---- */

typedef struct ImportOptions
{
	bool		headers;		/* include_headers: a column for them */
} ImportOptions;

static void
parse_import_options(List *options, ImportOptions *result)
{
	ListCell   *lc;

	result->headers = true;
	foreach(lc, options)
	{
		DefElem    *def = lfirst_node(DefElem, lc);

		if (!sx_kafka_name_is(def->defname, "include_headers"))
			ereport(ERROR,
					(errcode(ERRCODE_FDW_INVALID_OPTION_NAME),
					 errmsg("invalid option \"%s\" of IMPORT FOREIGN SCHEMA", def->defname),
					 errhint("Legal options: include_headers.")));
		result->headers = defGetBoolean(def);
	}
}

static bool
is_listed(const ImportForeignSchemaStmt *stmt, const char *name)
{
	ListCell   *lc;

	foreach(lc, stmt->table_list)
	{
		if (strcmp(lfirst_node(RangeVar, lc)->relname, name) == 0)
			return true;
	}
	return false;
}

/* Topics of the cluster's own come only when they are asked for. */
static bool
is_wanted(const ImportForeignSchemaStmt *stmt, const char *topic)
{
	switch (stmt->list_type)
	{
		case FDW_IMPORT_SCHEMA_LIMIT_TO:
			return is_listed(stmt, topic);
		case FDW_IMPORT_SCHEMA_EXCEPT:
			return strncmp(topic, "__", 2) != 0 && !is_listed(stmt, topic);
		case FDW_IMPORT_SCHEMA_ALL:
			break;
	}
	return strncmp(topic, "__", 2) != 0;
}

static char *
import_statement(const char *topic, const char *server, const ImportOptions *options)
{
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE FOREIGN TABLE %s (key bytea, value bytea, topic text, partition integer,"
					 " \"offset\" bigint, \"timestamp\" timestamptz, timestamp_type integer%s)"
					 " SERVER %s OPTIONS (topic %s, format 'raw')",
					 quote_identifier(topic), options->headers ? ", headers jsonb" : "",
					 quote_identifier(server), quote_literal_cstr(topic));
	return sql.data;
}

/*
 * A stream of format raw for each topic. Topics know no schemas, so the name of
 * the remote one means nothing.
 */
static List *
import_schema(ImportForeignSchemaStmt *stmt, Oid serverid)
{
	ImportOptions options;
	SxKafkaSettings *settings = sx_kafka_settings(serverid, GetUserId(), NIL);
	SxKafkaClient *client;
	SxKafkaTopic *topics;
	List	   *statements = NIL;
	int			n;

	parse_import_options(stmt->options, &options);
	client = sx_kafka_client_open(RD_KAFKA_PRODUCER, settings, NULL, 0);
	topics = sx_kafka_topics(client, NULL, IMPORT_TIMEOUT_MS, &n);
	sx_kafka_client_close(client);
	for (int i = 0; i < n; i++)
	{
		if (!is_wanted(stmt, topics[i].name))
			continue;
		if (strlen(topics[i].name) >= NAMEDATALEN)
		{
			ereport(WARNING,
					(errcode(ERRCODE_NAME_TOO_LONG),
					 errmsg("topic \"%s\" is not imported", topics[i].name),
					 errdetail("Names of tables have at most %d bytes.", NAMEDATALEN - 1),
					 errhint("Create a stream with a shorter name and option \"topic\".")));
			continue;
		}
		statements = lappend(statements, import_statement(topics[i].name, stmt->server_name, &options));
	}
	return statements;
}

/* kafka_handler() */
Datum
sx_api_kafka_handler(PG_FUNCTION_ARGS)
{
	SxFdw	   *fdw = sx_fdw_make();

	fdw->routine = pick_routine;
	fdw->check = check;
	fdw->base.BeginForeignModify = begin_modify;
	fdw->base.ExecForeignInsert = exec_insert;
	fdw->base.EndForeignModify = end_write;
	fdw->base.BeginForeignInsert = begin_insert;
	fdw->base.EndForeignInsert = end_write;
	fdw->base.IsForeignRelUpdatable = is_updatable;
	fdw->base.ImportForeignSchema = import_schema;
	PG_RETURN_POINTER(fdw);
}
