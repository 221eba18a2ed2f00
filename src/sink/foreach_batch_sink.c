/*
 * foreach_batch_sink.c
 *		Hands each batch to a user's function f(batch_id bigint), in the batch's
 *		transaction.
 *
 * The function finds the rows in the temporary table "batch".  It is made once
 * per worker, ON COMMIT DELETE ROWS, since a table per batch would swell the
 * catalogs; and anew when the function dropped it, put another in its place or
 * changed it.  The function is called for empty batches too, as in Spark.
 *
	create_batch_table(self->config);
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "sink/rows_relation.h"
#include "sink/sinks.h"

#define BATCH_TABLE		"pg_temp.batch"
#define OP_COLUMN		"op"

typedef struct ForeachBatchSink
{
	SxSink		sink;
	MemoryContext context;
	SxSinkConfig *config;
	SxStatement fill;
	SxStatement fill_gone;		/* only if rows go */
	SxStatement clear;
	TimestampTz filled_in;		/* start of the transaction that filled the table last */
	Oid			table;
	TupleDesc	table_desc;
} ForeachBatchSink;

/* Its qualified name, quoted. */
static char *
check_function(const SxSinkConfig *config)
{
	Oid			oid = config->query->sink_function;
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(oid));
	Form_pg_proc form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("the foreach_batch function of query \"%s\" does not exist any more",
						config->query->name),
				 errhint("Drop the query and create it again with another function.")));
	form = (Form_pg_proc) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->pronamespace),
									  NameStr(form->proname));
	if (form->prokind != PROKIND_FUNCTION || form->proretset || form->pronargs != 1 ||
		form->proargtypes.values[0] != INT8OID)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("function %s cannot be called for each batch",
						format_procedure(oid)),
				 errdetail("It must be a function with one argument of type bigint, the batch id."),
				 errhint("CREATE FUNCTION %s(batch_id bigint) RETURNS void ...; it finds the rows in the temporary table \"batch\".",
						 name)));
	if (object_aclcheck(ProcedureRelationId, oid, config->query->owner, ACL_EXECUTE) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for function %s", format_procedure(oid)),
				 errdetail("Role \"%s\", which owns query \"%s\", needs EXECUTE on it.",
						   GetUserNameFromId(config->query->owner, false),
						   config->query->name)));
	ReleaseSysCache(tuple);
	return name;
}

static void
check_retracts(const SxSinkConfig *config)
{
	sx_sink_check_retracts(config, true);
	for (int i = 0; config->retracts && i < config->desc->natts; i++)
		if (strcmp(NameStr(TupleDescAttr(config->desc, i)->attname), OP_COLUMN) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_COLUMN),
					 errmsg("query \"%s\" has a column \"%s\"", config->query->name, OP_COLUMN),
					 errdetail("In output mode \"update\" over sessions the function finds in this column of \"batch\" whether a row is written or deleted."),
					 errhint("Give the column another name.")));
}

static void
foreach_batch_prepare(SxQuery *query, const SxSinkConfig *config)
{
	check_function(config);
	check_retracts(config);
	query->sink_relation = InvalidOid;
}

static void
run(const char *sql)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc < 0)
		elog(ERROR, "could not run \"%s\": %s", sql, SPI_result_code_string(rc));
}

static Oid
batch_table_oid(void)
{
	Oid			namespace = LookupExplicitNamespace("pg_temp", true);

	return OidIsValid(namespace) ? get_relname_relid("batch", namespace) : InvalidOid;
}

/* OIDs of those that sinks of this session made; savepoints may bring back any of them. */
static List *made_here = NIL;

/* An earlier attempt of this worker may have left one of another shape. */
static void
create_batch_table(const SxSinkConfig *config)
{
	TupleDesc	desc = config->desc;
	StringInfoData sql;

	if (config->in_session && OidIsValid(batch_table_oid()) &&
		!list_member_oid(made_here, batch_table_oid()))
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("there is a temporary table \"batch\" in this session"),
				 errdetail("The function foreach_batch is to find the rows in one of that name."),
				 errhint("DROP TABLE pg_temp.batch; before you run the batch.")));
	initStringInfo(&sql);
	appendStringInfoString(&sql, "CREATE TEMPORARY TABLE batch (");
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		appendStringInfo(&sql, "%s%s %s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(att->attname)),
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
		if (OidIsValid(att->attcollation))
			appendStringInfo(&sql, " COLLATE %s", sx_sink_collation_name(att->attcollation));
	}
	if (config->retracts)
		appendStringInfo(&sql, ", %s pg_catalog.text", OP_COLUMN);
	appendStringInfoString(&sql, config->in_session ? ") ON COMMIT DROP" : ") ON COMMIT DELETE ROWS");

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run("DROP TABLE IF EXISTS " BATCH_TABLE " CASCADE");
	run(sql.data);
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
}

static void
make_batch_table(ForeachBatchSink *self)
{
	MemoryContext oldcontext;
	Relation	rel;

	create_batch_table(self->config);
	self->table = batch_table_oid();
	if (self->config->in_session)
	{
		MemoryContext top = MemoryContextSwitchTo(TopMemoryContext);

		made_here = lappend_oid(made_here, self->table);
		MemoryContextSwitchTo(top);
	}
	rel = table_open(self->table, AccessShareLock);
	oldcontext = MemoryContextSwitchTo(self->context);
	self->table_desc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
	MemoryContextSwitchTo(oldcontext);
	table_close(rel, NoLock);
}

/*
 * The table as it was made. One that the function put in its place would keep the
 * rows of earlier batches; a trigger or another shape could change or lose some.
 */
static bool
batch_table_is_ours(ForeachBatchSink *self)
{
	Relation	rel;
	bool		ours;

	if (!OidIsValid(self->table) || batch_table_oid() != self->table)
		return false;
	rel = table_open(self->table, RowExclusiveLock);
	ours = equalTupleDescs(RelationGetDescr(rel), self->table_desc) &&
		!rel->rd_rel->relhastriggers && !rel->rd_rel->relhasrules &&
		!rel->rd_rel->relrowsecurity;
	table_close(rel, NoLock);
	return ours;
}

static SxSink *
foreach_batch_open(const SxSinkConfig *config)
{
	ForeachBatchSink *self = palloc0(sizeof(ForeachBatchSink));

	self->sink.routine = &sx_foreach_batch_sink;
	self->sink.description = psprintf("foreach_batch[%s]", check_function(config));
	self->context = CurrentMemoryContext;
	self->config = sx_sink_config_copy(config);
	check_retracts(config);
	self->fill.sql = psprintf("INSERT INTO " BATCH_TABLE " SELECT *%s FROM " SX_SINK_ROWS,
							  config->retracts ? ", 'upsert'" : "");
	if (config->retracts)
		self->fill_gone.sql = psprintf("INSERT INTO " BATCH_TABLE " (%s, " OP_COLUMN ") SELECT *, 'delete' FROM " SX_SINK_GONE,
									   sx_sink_column_list(config->desc, config->nkeys, config->keys, NULL));
	self->clear.sql = "DELETE FROM " BATCH_TABLE;
	make_batch_table(self);
	return &self->sink;
}

/*
 * Not through FunctionCall1: a function in SQL that returns void returns NULL.
 * Looked up and checked for every batch: it may have been replaced or revoked.
 */
static void
call_function(const SxSinkConfig *config, int64 batch_id)
{
	LOCAL_FCINFO(fcinfo, 1);
	FmgrInfo	function;

	check_function(config);
	fmgr_info(config->query->sink_function, &function);
	InitFunctionCallInfoData(*fcinfo, &function, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = Int64GetDatum(batch_id);
	fcinfo->args[0].isnull = false;

	/* A snapshot that has the rows of "batch", for functions that are not volatile. */
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	FunctionCallInvoke(fcinfo);
	PopActiveSnapshot();
	CommandCounterIncrement();
}

static void
foreach_batch_write(SxSink *sink, const SxResult *result)
{
	ForeachBatchSink *self = (ForeachBatchSink *) sink;
	TimestampTz transaction = GetCurrentTransactionStartTimestamp();

	if (!batch_table_is_ours(self))
	{
		make_batch_table(self);
		self->filled_in = 0;
	}
	sx_sink_connect(result);
	/* A no-data batch in the same transaction: ON COMMIT has not run yet. */
	if (self->filled_in == transaction)
		sx_statement_run(&self->clear);
	if (self->config->retracts && result->ngone > 0)
	{
		sx_statement_run(&self->fill_gone);
		self->filled_in = transaction;
	}
	if (result->nrows > 0)
	{
		sx_statement_run(&self->fill);
		self->filled_in = transaction;
	}
	sx_sink_disconnect();
	call_function(self->config, result->batch_id);
}

static void
foreach_batch_close(SxSink *sink)
{
	ForeachBatchSink *self = (ForeachBatchSink *) sink;

	sx_statement_forget(&self->fill);
	sx_statement_forget(&self->fill_gone);
	sx_statement_forget(&self->clear);
}

const SxSinkRoutine sx_foreach_batch_sink = {
	.name = "foreach_batch",
	.prepare = foreach_batch_prepare,
	.open = foreach_batch_open,
	.write = foreach_batch_write,
	.close = foreach_batch_close,
};
