/*
 * table_sink.c
 *		Writes results into a table, in the batch's transaction.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "sink/rows_relation.h"
#include "sink/sinks.h"
#include "sink/table_append.h"
#include "sink/table_keep.h"
#include "sink/table_statements.h"

typedef struct TableSink
{
	SxSink		sink;

	/* set when the query starts */
	MemoryContext context;
	SxSinkConfig *config;
	SxTableStrategy strategy;
	Oid			relid;

	/* made by the first write, and anew after the table was altered */
	MemoryContext texts;
	bool		checked;		/* the table was looked at since it was altered */
	char	   *relation_name;
	TupleDesc	relation_desc;
	List	   *relation_indexes;
	SxStatement insert;
	SxStatement delete_kept;
	SxStatement insert_fresh;
	SxStatement upsert_fresh;
	SxStatement delete_vanished;
	SxStatement delete_gone;
	SxStatement delete_gone_null;
} TableSink;

SxTableStrategy
sx_table_strategy(const SxSinkConfig *config)
{
	switch (config->query->output_mode)
	{
		case SX_OUTPUT_APPEND:
			return SX_TABLE_ADD;

		case SX_OUTPUT_UPDATE:
			if (sx_table_keeps(config))
				return SX_TABLE_KEEP;
			if (config->keys_missing != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
						 errmsg("grouping column \"%s\" is not in the result of query \"%s\"",
								config->keys_missing, config->query->name),
						 errdetail("In update mode a row of the sink table is found by its grouping columns."),
						 errhint("Select the column as it is grouped by, or use output mode \"append\" or \"complete\".")));
			if (config->keys_multiplied != NULL)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
						 errmsg("rows of query \"%s\" may have the same key", config->query->name),
						 errdetail("\"%s\" may make several rows of one group, and in update mode a row of the sink table is found by its grouping columns.",
								   config->keys_multiplied),
						 errhint("Join by columns that have a unique index, aggregate after the join, write a query for each branch of UNION ALL, or use output mode \"append\" or \"complete\".")));
			if (config->keys == NULL && config->retracts)
				ereport(ERROR,
						(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
						 errmsg("rows of query \"%s\" have no key", config->query->name),
						 errdetail("A session that grows takes the place of the row of its old window, which must be found."),
						 errhint("Write a query for each branch of UNION ALL, or use output mode \"append\".")));
			if (config->keys == NULL)
				return SX_TABLE_ADD;	/* stateless: update is append */
			return config->nkeys > 0 ? SX_TABLE_UPSERT : SX_TABLE_REPLACE_ROWS;

		case SX_OUTPUT_COMPLETE:
			return config->keys != NULL && config->nkeys > 0 ?
				SX_TABLE_REPLACE_BY_KEY : SX_TABLE_REPLACE_ROWS;
	}
	elog(ERROR, "unknown output mode %d", config->query->output_mode);
}

SxSinkConfig *
sx_sink_config_copy(const SxSinkConfig *config)
{
	SxSinkConfig *copy = palloc(sizeof(SxSinkConfig));

	*copy = *config;
	copy->desc = CreateTupleDescCopy(config->desc);
	if (config->keys != NULL)
	{
		AttrNumber *keys = palloc(sizeof(AttrNumber) * Max(config->nkeys, 1));

		memcpy(keys, config->keys, sizeof(AttrNumber) * config->nkeys);
		copy->keys = keys;
	}
	if (config->keys_multiplied != NULL)
		copy->keys_multiplied = pstrdup(config->keys_multiplied);
	if (config->keys_missing != NULL)
		copy->keys_missing = pstrdup(config->keys_missing);
	return copy;
}

/*
 * Locked before its name and columns are looked at, and until the batch's
 * transaction ends.
 */
static Relation
open_table(TableSink *self)
{
	Relation	rel = try_table_open(self->relid, RowExclusiveLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("sink table \"%s\" of query \"%s\" does not exist any more",
						self->config->query->sink_name, self->config->query->name),
				 errhint("Drop the query, or create it again with another sink.")));
	return rel;
}

static void
forget_statements(TableSink *self)
{
	sx_statement_forget(&self->insert);
	sx_statement_forget(&self->delete_kept);
	sx_statement_forget(&self->insert_fresh);
	sx_statement_forget(&self->upsert_fresh);
	sx_statement_forget(&self->delete_vanished);
	sx_statement_forget(&self->delete_gone);
	sx_statement_forget(&self->delete_gone_null);
	MemoryContextReset(self->texts);
	self->relation_name = NULL;
}

/* Is it still as it was when the statements were made? */
static bool
is_unaltered(TableSink *self, Relation rel, const char *name)
{
	List	   *indexes;
	bool		same;

	if (self->relation_name == NULL || strcmp(self->relation_name, name) != 0 ||
		!equalTupleDescs(RelationGetDescr(rel), self->relation_desc))
		return false;
	indexes = RelationGetIndexList(rel);
	same = equal(indexes, self->relation_indexes);
	list_free(indexes);
	return same;
}

/*
 * The statements name the table, its columns and their types, so an altered table
 * needs new ones, and is checked as when the query was created: that says more
 * than the error of a statement would.
 */
static void
make_statements(TableSink *self, Relation rel)
{
	char	   *name = sx_sink_relation_name(rel);
	MemoryContext oldcontext;

	if (is_unaltered(self, rel, name))
		return;
	forget_statements(self);
	if (!self->checked)
		sx_table_sink_check(rel, self->config);
	self->checked = false;
	oldcontext = MemoryContextSwitchTo(self->texts);
	self->insert.sql = sx_table_insert_sql(rel, self->config, self->strategy);
	if (self->strategy == SX_TABLE_KEEP)
		self->delete_kept.sql = sx_table_keep_delete_sql(rel, self->config);
	if (self->strategy == SX_TABLE_REPLACE_BY_KEY || self->strategy == SX_TABLE_REPLACE_ROWS)
		self->delete_vanished.sql =
			sx_table_delete_vanished_sql(rel, self->config, self->strategy);
	if (self->strategy == SX_TABLE_UPSERT)
	{
		self->insert_fresh.sql = sx_table_insert_fresh_sql(rel, self->config, false);
		self->upsert_fresh.sql = sx_table_insert_fresh_sql(rel, self->config, true);
		self->delete_gone.sql = sx_table_delete_gone_sql(rel, self->config, false);
		self->delete_gone_null.sql = sx_table_delete_gone_sql(rel, self->config, true);
	}
	self->relation_name = pstrdup(name);
	self->relation_desc = CreateTupleDescCopyConstr(RelationGetDescr(rel));
	self->relation_indexes = RelationGetIndexList(rel);
	MemoryContextSwitchTo(oldcontext);
}

/* Has a key column of any gone row no value? */
static bool
has_null_key(const SxResult *result)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(result->gone_desc, &TTSOpsMinimalTuple);
	bool		found = false;

	tuplestore_rescan(result->gone);
	while (!found && tuplestore_gettupleslot(result->gone, true, false, slot))
	{
		slot_getallattrs(slot);
		for (int i = 0; i < result->gone_desc->natts; i++)
			found |= slot->tts_isnull[i];
	}
	ExecDropSingleTupleTableSlot(slot);
	return found;
}

static void
delete_gone(TableSink *self, const SxResult *result)
{
	if (result->gone == NULL || result->ngone == 0)
		return;
	/* Apart from the others: a join that takes NULLs as equal can use no index. */
	if (has_null_key(result))
		sx_statement_run(&self->delete_gone_null);
	sx_statement_run(&self->delete_gone);
}

/*
 * A row of somebody else that holds a key of ours comes back as the server's
 * error; say what it means here.
 */
static void
rethrow_with_hint(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	error = CopyErrorData();
	if (error->sqlerrcode == ERRCODE_UNIQUE_VIOLATION && error->hint == NULL)
	{
		FlushErrorState();
		error->hint = pstrdup("The row in the way was not written by this query, or the sink has a unique key that is not the result's key. Remove the row or the index; then the query can go on.");
		ReThrowError(error);
	}
	PG_RE_THROW();
}

/*
 * Groups that no batch had before should have no row, and a plain INSERT takes
 * half the time of an upsert.  A table that was filled before, or by others too,
 * may have one all the same: then this batch's are upserted, and no later batch
 * of this process tries again.
 */
static void
write_fresh(TableSink *self)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner oldowner = CurrentResourceOwner;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(oldcontext);
	PG_TRY();
	{
		sx_statement_run(&self->insert_fresh);
		ReleaseCurrentSubTransaction();
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(oldcontext);
		CurrentResourceOwner = oldowner;
		if (error->sqlerrcode != ERRCODE_UNIQUE_VIOLATION)
			ReThrowError(error);
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(oldcontext);
	CurrentResourceOwner = oldowner;
	if (done)
		return;
	self->sink.takes_fresh = false;
	sx_statement_run(&self->upsert_fresh);
}

/* Without a statement, where an INSERT would do no more than add the rows. */
static bool
append_rows(TableSink *self, Relation rel, const SxResult *result)
{
	AttrNumber *columns;
	bool		possible;

	if (self->strategy != SX_TABLE_ADD)
		return false;
	columns = palloc(sizeof(AttrNumber) * Max(result->desc->natts, 1));
	possible = sx_table_append_possible(rel, result->desc, columns);
	if (possible)
		sx_table_append(rel, result->desc, columns, result->rows);
	pfree(columns);
	return possible;
}

static void
run_statements(TableSink *self, const SxResult *result)
{
	if (self->strategy == SX_TABLE_KEEP)
		sx_table_keep_check_rows(self->config, result);
	sx_sink_connect(result);
	if (self->delete_kept.sql != NULL)
		sx_statement_run(&self->delete_kept);
	if (self->strategy == SX_TABLE_UPSERT)
		delete_gone(self, result);
	if (self->delete_vanished.sql != NULL)
		sx_statement_run(&self->delete_vanished);
	if (result->nfresh > 0)
		write_fresh(self);
	if (result->nrows > result->nfresh)
		sx_statement_run(&self->insert);
	sx_sink_disconnect();
}

static void
table_write(SxSink *sink, const SxResult *result)
{
	TableSink  *self = (TableSink *) sink;
	MemoryContext oldcontext = CurrentMemoryContext;
	Relation	rel;

	if (result->nrows == 0 && result->ngone == 0 &&
		(self->strategy == SX_TABLE_ADD || self->strategy == SX_TABLE_UPSERT ||
		 self->strategy == SX_TABLE_KEEP))
		return;
	rel = open_table(self);
	make_statements(self, rel);

	PG_TRY();
	{
		if (!append_rows(self, rel, result))
			run_statements(self, result);
	}
	PG_CATCH();
	{
		rethrow_with_hint(oldcontext);
	}
	PG_END_TRY();
	table_close(rel, NoLock);
}

static SxSink *
table_open_sink(const SxSinkConfig *config)
{
	TableSink  *self = palloc0(sizeof(TableSink));
	Relation	rel;

	self->sink.routine = &sx_table_sink;
	self->context = CurrentMemoryContext;
	self->texts = AllocSetContextCreate(CurrentMemoryContext, "streamx sink statements",
										ALLOCSET_SMALL_SIZES);
	self->config = sx_sink_config_copy(config);
	if (sx_table_keeps(config))
		self->config = sx_table_keep_config(self->config);
	self->relid = config->query->sink_relation;
	self->strategy = sx_table_strategy(config);
	self->sink.takes_fresh = self->strategy == SX_TABLE_UPSERT;
	rel = open_table(self);
	self->sink.description = psprintf("table[%s]", sx_sink_relation_name(rel));
	sx_table_sink_check(rel, self->config);
	self->checked = true;
	table_close(rel, NoLock);
	return &self->sink;
}

static void
table_close_sink(SxSink *sink)
{
	TableSink  *self = (TableSink *) sink;

	forget_statements(self);
	MemoryContextDelete(self->texts);
}

const SxSinkRoutine sx_table_sink = {
	.name = "table",
	.prepare = sx_table_sink_prepare,
	.open = table_open_sink,
	.write = table_write,
	.close = table_close_sink,
};
