/*
 * quarantine.c
 *		Reads and writes streamx.quarantine_row.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "registry/quarantine.h"
#include "registry/query.h"

enum
{
	COL_QUERY, COL_AT, COL_BATCH, COL_STREAM, COL_POSITION, COL_DATA, COL_SQLSTATE, COL_MESSAGE,
	NCOLS
};

void
sx_quarantine_append(const SxQuarantined *quarantined)
{
	Relation	rel = table_open(sx_catalog_relation("quarantine_row"), RowExclusiveLock);
	Datum		values[NCOLS] = {0};
	bool		nulls[NCOLS] = {0};

	values[COL_QUERY] = Int64GetDatum(quarantined->query_id);
	values[COL_AT] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_BATCH] = Int64GetDatum(quarantined->batch_id);
	values[COL_STREAM] = ObjectIdGetDatum(quarantined->stream);
	values[COL_POSITION] = Int64GetDatum(quarantined->position);
	values[COL_DATA] = OidFunctionCall1(F_ROW_TO_JSON_RECORD, quarantined->row);
	values[COL_SQLSTATE] = CStringGetTextDatum(unpack_sql_state(quarantined->sqlstate));
	values[COL_MESSAGE] = CStringGetTextDatum(quarantined->message);
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	table_close(rel, NoLock);
}

/* Visits all rows of the query; returns how many. */
static int64
visit_all(int64 query_id, bool delete)
{
	Relation	rel = table_open(sx_catalog_relation("quarantine_row"),
								 delete ? RowExclusiveLock : AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int64		count = 0;

	ScanKeyInit(&key, COL_QUERY + 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(query_id));
	scan = systable_beginscan(rel, sx_catalog_relation("quarantine_row_query_batch"), true,
							  NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (delete)
			CatalogTupleDelete(rel, &tuple->t_self);
		count++;
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
	return count;
}

int64
sx_quarantine_count(int64 query_id)
{
	return visit_all(query_id, false);
}

void
sx_quarantine_delete_all(int64 query_id)
{
	(void) visit_all(query_id, true);
	CommandCounterIncrement();
}
