/*
 * failure.c
 *		Failures written down, read and forgotten.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/skey.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "commands/async.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "registry/failure.h"
#include "registry/query.h"

enum
{
	COL_QUERY, COL_AT, COL_BATCH, COL_SQLSTATE, COL_MESSAGE, COL_DETAIL,
	COL_HINT, COL_CONTEXT, COL_OFFSETS, NCOLS
};

typedef struct FailureScan
{
	Relation	table;
	Relation	index;
	SysScanDesc scan;
} FailureScan;

static void
scan_begin(FailureScan *scan, int64 query_id, LOCKMODE mode)
{
	ScanKeyData key;

	ScanKeyInit(&key, COL_QUERY + 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(query_id));
	scan->table = sx_catalog_open("failure", NCOLS, mode);
	scan->index = index_open(sx_catalog_relation("failure_query_at"), AccessShareLock);
	scan->scan = systable_beginscan_ordered(scan->table, scan->index, NULL, 1, &key);
}

static void
scan_end(FailureScan *scan)
{
	systable_endscan_ordered(scan->scan);
	index_close(scan->index, AccessShareLock);
	table_close(scan->table, NoLock);
}

/* Deletes all but the newest ones. */
static void
trim(int64 query_id, int keep)
{
	FailureScan scan;
	HeapTuple	tuple;
	int			seen = 0;

	scan_begin(&scan, query_id, RowExclusiveLock);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan.scan, BackwardScanDirection)))
		if (++seen > keep)
			CatalogTupleDelete(scan.table, &tuple->t_self);
	scan_end(&scan);
	CommandCounterIncrement();
}

static Datum
text_datum(const char *text, bool *isnull)
{
	*isnull = text == NULL;
	return text == NULL ? (Datum) 0 : CStringGetTextDatum(text);
}

/*
 * Anybody may listen, so nothing but the name is said: messages quote rows.  The
 * rest is in streamx.failures, for those who may see it.
 */
static void
notify(int64 query_id)
{
	SxQuery    *query = sx_query_by_id(query_id, true);

	if (query != NULL)
		Async_Notify(SX_FAILURE_CHANNEL, query->name);
}

void
sx_failure_append(int64 query_id, const ErrorData *error, int64 batch, const char *offsets)
{
	Relation	rel = sx_catalog_open("failure", NCOLS, RowExclusiveLock);
	Datum		values[NCOLS] = {0};
	bool		nulls[NCOLS] = {0};

	values[COL_QUERY] = Int64GetDatum(query_id);
	values[COL_AT] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_BATCH] = Int64GetDatum(batch);
	nulls[COL_BATCH] = batch < 0;
	values[COL_SQLSTATE] = CStringGetTextDatum(unpack_sql_state(error->sqlerrcode));
	values[COL_MESSAGE] = CStringGetTextDatum(error->message != NULL ? error->message :
											  "missing error text");
	values[COL_DETAIL] = text_datum(error->detail, &nulls[COL_DETAIL]);
	values[COL_HINT] = text_datum(error->hint, &nulls[COL_HINT]);
	values[COL_CONTEXT] = text_datum(error->context, &nulls[COL_CONTEXT]);
	values[COL_OFFSETS] = text_datum(offsets, &nulls[COL_OFFSETS]);
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	table_close(rel, NoLock);
	CommandCounterIncrement();
	trim(query_id, SX_FAILURES_KEPT);
	notify(query_id);
}

static char *
column_text(HeapTuple tuple, TupleDesc desc, int column)
{
	bool		isnull;
	Datum		value = heap_getattr(tuple, column + 1, desc, &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}

SxFailure *
sx_failure_last(int64 query_id)
{
	FailureScan scan;
	HeapTuple	tuple;
	SxFailure  *failure = NULL;

	scan_begin(&scan, query_id, AccessShareLock);
	tuple = systable_getnext_ordered(scan.scan, BackwardScanDirection);
	if (HeapTupleIsValid(tuple))
	{
		TupleDesc	desc = RelationGetDescr(scan.table);
		bool		isnull;

		failure = palloc0(sizeof(SxFailure));
		failure->at = DatumGetTimestampTz(heap_getattr(tuple, COL_AT + 1, desc, &isnull));
		failure->sqlstate = column_text(tuple, desc, COL_SQLSTATE);
		failure->message = column_text(tuple, desc, COL_MESSAGE);
		failure->detail = column_text(tuple, desc, COL_DETAIL);
		failure->hint = column_text(tuple, desc, COL_HINT);
		failure->context = column_text(tuple, desc, COL_CONTEXT);
	}
	scan_end(&scan);
	return failure;
}

void
sx_failure_delete_all(int64 query_id)
{
	trim(query_id, 0);
}
