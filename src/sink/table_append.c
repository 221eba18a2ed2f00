/*
 * table_append.c
 *		Adds rows to a plain table, as COPY does: many to a page and to a WAL record.
 *
 * An INSERT of a batch writes a WAL record per row and looks for the page anew
 * each time, which is most of its cost.  So where an INSERT would do nothing
 * else than to check constraints and to add rows to the table and its indexes,
 * this does the same in bulk.  Everything else is left to INSERT: triggers, rules,
 * row-level security, partitions, defaults, generated columns, casts, and rights on some
 * columns only.
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/rls.h"

#include "base/compat.h"
#include "sink/table_append.h"

/* BulkRows that are written together: as COPY has it, but more bytes. */
#define MAX_ROWS	1000
#define MAX_BYTES	(256 * 1024)

typedef struct BulkRows
{
	Relation	rel;
	EState	   *estate;
	ResultRelInfo *info;
	CommandId	command;
	bool		check_rows;		/* there is a constraint to be checked */

	TupleTableSlot *slots[MAX_ROWS];	/* made as needed */
	int			nslots;
	int			nrows;
	Size		bytes;
} BulkRows;

/* ---- is it possible? ---- */

static bool
has_insert_triggers(const TriggerDesc *triggers)
{
	return triggers != NULL &&
		(triggers->trig_insert_before_row || triggers->trig_insert_after_row ||
		 triggers->trig_insert_instead_row || triggers->trig_insert_before_statement ||
		 triggers->trig_insert_after_statement || triggers->trig_insert_new_table);
}

/* A column that the result does not have: must it be anything else than NULL? */
static bool
may_stay_null(Form_pg_attribute att)
{
	return att->attisdropped ||
		(!att->atthasdef && att->attidentity == '\0' && get_typtype(att->atttypid) != TYPTYPE_DOMAIN);
}

/* Does a value of the result go into the column as it is? */
static bool
takes_unchanged(Form_pg_attribute column, Form_pg_attribute result)
{
	return column->atttypid == result->atttypid &&
		(column->atttypmod == -1 || column->atttypmod == result->atttypmod) &&
		column->attgenerated == '\0' && column->attidentity == '\0';
}

static bool
map_columns(TupleDesc table, TupleDesc result, AttrNumber *columns)
{
	bool		given[MaxHeapAttributeNumber] = {false};

	for (int i = 0; i < result->natts; i++)
	{
		columns[i] = InvalidAttrNumber;
		for (int j = 0; j < table->natts && columns[i] == InvalidAttrNumber; j++)
		{
			Form_pg_attribute att = TupleDescAttr(table, j);

			if (att->attisdropped ||
				strcmp(NameStr(att->attname), NameStr(TupleDescAttr(result, i)->attname)) != 0)
				continue;
			if (!takes_unchanged(att, TupleDescAttr(result, i)))
				return false;
			columns[i] = att->attnum;
			given[j] = true;
		}
		if (columns[i] == InvalidAttrNumber)
			return false;
	}
	for (int j = 0; j < table->natts; j++)
		if (!given[j] && !may_stay_null(TupleDescAttr(table, j)))
			return false;
	return true;
}

bool
sx_table_append_possible(Relation rel, TupleDesc result, AttrNumber *columns)
{
	Oid			relid = RelationGetRelid(rel);

	return rel->rd_rel->relkind == RELKIND_RELATION && !rel->rd_rel->relispartition &&
		rel->rd_rules == NULL && !has_insert_triggers(rel->trigdesc) && !XactReadOnly &&
		(rel->rd_att->constr == NULL || !rel->rd_att->constr->has_generated_stored) &&
		pg_class_aclcheck(relid, GetUserId(), ACL_INSERT) == ACLCHECK_OK &&
		object_aclcheck(NamespaceRelationId, RelationGetNamespace(rel), GetUserId(),
						ACL_USAGE) == ACLCHECK_OK &&
		check_enable_rls(relid, InvalidOid, true) == RLS_NONE &&
		map_columns(RelationGetDescr(rel), result, columns);
}

/* ---- adding ---- */

/*
 * No BulkInsertState: its small ring of buffers would have this process write
 * the pages out, and flush the WAL for each, before the batch has committed.
 */

static void
begin(BulkRows *bulk, Relation rel)
{
	bulk->rel = rel;
	bulk->estate = CreateExecutorState();
	bulk->info = makeNode(ResultRelInfo);
	InitResultRelInfo(bulk->info, rel, 0, NULL, 0);
	ExecOpenIndices(bulk->info, false);
	bulk->command = GetCurrentCommandId(true);
	bulk->check_rows = rel->rd_att->constr != NULL;
	bulk->nslots = 0;
	bulk->nrows = 0;
	bulk->bytes = 0;
}

static void
flush(BulkRows *bulk)
{
	MemoryContext oldcontext;

	if (bulk->nrows == 0)
		return;

	/* What the heap leaves behind (prepared tuples, say) goes with the batch of rows. */
	oldcontext = MemoryContextSwitchTo(GetPerTupleMemoryContext(bulk->estate));
	table_multi_insert(bulk->rel, bulk->slots, bulk->nrows, bulk->command, 0, NULL);
	MemoryContextSwitchTo(oldcontext);
	for (int i = 0; i < bulk->nrows; i++)
	{
		if (bulk->info->ri_NumIndices > 0)
			list_free(sx_insert_index_tuples(bulk->info, bulk->slots[i], bulk->estate));
		ExecClearTuple(bulk->slots[i]);
	}
	ResetPerTupleExprContext(bulk->estate);
	bulk->nrows = 0;
	bulk->bytes = 0;
	CHECK_FOR_INTERRUPTS();
}

/* A slot of the table's own kind, so that a row is formed only once. */
static TupleTableSlot *
next_slot(BulkRows *bulk)
{
	if (bulk->nrows == bulk->nslots)
		bulk->slots[bulk->nslots++] = table_slot_create(bulk->rel, NULL);
	return bulk->slots[bulk->nrows];
}

static Size
size_of_row(TupleTableSlot *slot)
{
	if (!TTS_IS_BUFFERTUPLE(slot) && !TTS_IS_HEAPTUPLE(slot))
		return 0;
	return ((HeapTupleTableSlot *) slot)->tuple->t_len;
}

static void
add(BulkRows *bulk, TupleTableSlot *row, const AttrNumber *columns)
{
	TupleTableSlot *slot = next_slot(bulk);
	TupleDesc	desc = slot->tts_tupleDescriptor;
	int			natts = row->tts_tupleDescriptor->natts;

	slot_getallattrs(row);
	if (natts < desc->natts)
		memset(slot->tts_isnull, true, desc->natts * sizeof(bool));
	for (int i = 0; i < natts; i++)
	{
		slot->tts_values[columns[i] - 1] = row->tts_values[i];
		slot->tts_isnull[columns[i] - 1] = row->tts_isnull[i];
	}
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = RelationGetRelid(bulk->rel);
	if (bulk->check_rows)
		ExecConstraints(bulk->info, slot, bulk->estate);
	ExecMaterializeSlot(slot);
	bulk->nrows++;
	bulk->bytes += size_of_row(slot);
	if (bulk->nrows == MAX_ROWS || bulk->bytes >= MAX_BYTES)
		flush(bulk);
}

static void
end(BulkRows *bulk)
{
	flush(bulk);
	for (int i = 0; i < bulk->nslots; i++)
		ExecDropSingleTupleTableSlot(bulk->slots[i]);
	ExecCloseIndices(bulk->info);
	FreeExecutorState(bulk->estate);
	CommandCounterIncrement();
}

void
sx_table_append(Relation rel, TupleDesc result, const AttrNumber *columns, Tuplestorestate *rows)
{
	BulkRows   *bulk = palloc(sizeof(BulkRows));
	TupleTableSlot *row = MakeSingleTupleTableSlot(result, &TTSOpsMinimalTuple);

	begin(bulk, rel);
	tuplestore_rescan(rows);
	while (tuplestore_gettupleslot(rows, true, false, row))
		add(bulk, row, columns);
	ExecDropSingleTupleTableSlot(row);
	end(bulk);
	pfree(bulk);
}
