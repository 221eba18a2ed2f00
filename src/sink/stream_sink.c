/*
 * stream_sink.c
 *		Writes results into another INSERT-able stream, in the batch's transaction.
 *
 * Every row of the result becomes a row of the stream, in update and complete
 * mode too: a stream has no rows that could be changed.
 */
#include "postgres.h"

#include "access/table.h"
#include "foreign/fdwapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/rel.h"

#include "sink/rows_relation.h"
#include "sink/sinks.h"

typedef struct StreamSink
{
	SxSink		sink;
	MemoryContext context;
	SxSinkConfig *config;
	char	   *relation_name;	/* that the statement was made for */
	SxStatement insert;
} StreamSink;

static Relation
open_stream(const SxSinkConfig *config)
{
	Relation	rel = try_table_open(config->query->sink_relation, RowExclusiveLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("sink stream \"%s\" of query \"%s\" does not exist any more",
						config->query->sink_name, config->query->name),
				 errhint("Drop the query, or create it again with another sink.")));
	return rel;
}

/* By the word of its wrapper; that it is a stream at all was seen when the sink was chosen. */
static bool
insertable(Relation rel)
{
	FdwRoutine *routine;

	if (rel->rd_rel->relkind != RELKIND_FOREIGN_TABLE)
		return false;
	routine = GetFdwRoutineForRelation(rel, false);
	if (routine->IsForeignRelUpdatable != NULL)
		return (routine->IsForeignRelUpdatable(rel) & (1 << CMD_INSERT)) != 0;
	return routine->ExecForeignInsert != NULL;
}

static void
check_stream(Relation rel, const SxSinkConfig *config)
{
	if (!insertable(rel))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot write into stream \"%s\"", RelationGetRelationName(rel)),
				 errdetail("It is not an INSERT-able stream."),
				 errhint("Create the sink with CREATE STREAM, without a server.")));
	if (pg_class_aclcheck(RelationGetRelid(rel), config->query->owner, ACL_INSERT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for sink stream \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Role \"%s\", which owns query \"%s\", needs INSERT on it.",
						   GetUserNameFromId(config->query->owner, false),
						   config->query->name)));
	sx_sink_check_retracts(config, false);
	sx_sink_check_columns(rel, config);
}

static void
stream_prepare(SxQuery *query, const SxSinkConfig *config)
{
	Relation	rel = open_stream(config);

	check_stream(rel, config);
	table_close(rel, NoLock);
}

static SxSink *
stream_open(const SxSinkConfig *config)
{
	StreamSink *self = palloc0(sizeof(StreamSink));
	Relation	rel = open_stream(config);

	check_stream(rel, config);
	self->sink.routine = &sx_stream_sink;
	self->sink.description = psprintf("stream[%s]", sx_sink_relation_name(rel));
	self->context = CurrentMemoryContext;
	self->config = sx_sink_config_copy(config);
	table_close(rel, NoLock);
	return &self->sink;
}

static void
make_statement(StreamSink *self, Relation rel)
{
	char	   *name = sx_sink_relation_name(rel);
	MemoryContext oldcontext;

	if (self->relation_name != NULL && strcmp(self->relation_name, name) == 0)
		return;
	sx_statement_forget(&self->insert);
	oldcontext = MemoryContextSwitchTo(self->context);
	self->relation_name = pstrdup(name);
	self->insert.sql =
		psprintf("INSERT INTO %s (%s) SELECT %s FROM " SX_SINK_ROWS " AS b", name,
				 sx_sink_column_list(self->config->desc, 0, NULL, NULL),
				 sx_sink_column_list(self->config->desc, 0, NULL, "b"));
	MemoryContextSwitchTo(oldcontext);
}

static void
stream_write(SxSink *sink, const SxResult *result)
{
	StreamSink *self = (StreamSink *) sink;
	Relation	rel;

	if (result->nrows == 0)
		return;
	rel = open_stream(self->config);
	make_statement(self, rel);
	sx_sink_connect(result);
	sx_statement_run(&self->insert);
	sx_sink_disconnect();
	table_close(rel, NoLock);
}

static void
stream_close(SxSink *sink)
{
	sx_statement_forget(&((StreamSink *) sink)->insert);
}

const SxSinkRoutine sx_stream_sink = {
	.name = "stream",
	.prepare = stream_prepare,
	.open = stream_open,
	.write = stream_write,
	.close = stream_close,
};
