/*
 * quarantine.c
 *		Reads and writes streamx.quarantine_row.
 */
#include "postgres.h"

#include <limits.h>

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/stratnum.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "commands/sequence.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "registry/quarantine.h"
#include "registry/query.h"

enum
{
	COL_ID, COL_QUERY, COL_AT, COL_BATCH, COL_STREAM, COL_POSITION, COL_DATA, COL_RECORD,
	COL_RECORD_POSITION, COL_SQLSTATE, COL_MESSAGE, COL_REQUEUED,
	NCOLS
};

void
sx_quarantine_append(const SxQuarantined *quarantined)
{
	Relation	rel = sx_catalog_open("quarantine_row", NCOLS, RowExclusiveLock);
	Datum		values[NCOLS] = {0};
	bool		nulls[NCOLS] = {0};

	values[COL_ID] = Int64GetDatum(nextval_internal(sx_catalog_relation("quarantine_id"), false));
	values[COL_QUERY] = Int64GetDatum(quarantined->query_id);
	values[COL_AT] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_BATCH] = Int64GetDatum(quarantined->batch_id);
	values[COL_STREAM] = ObjectIdGetDatum(quarantined->stream);
	values[COL_POSITION] = Int64GetDatum(quarantined->position);
	nulls[COL_POSITION] = quarantined->position < 0;
	nulls[COL_DATA] = quarantined->row == (Datum) 0;
	if (!nulls[COL_DATA])
		values[COL_DATA] = OidFunctionCall1(F_ROW_TO_JSON_RECORD, quarantined->row);
	nulls[COL_RECORD] = quarantined->record == NULL;
	if (!nulls[COL_RECORD])
		values[COL_RECORD] = PointerGetDatum(cstring_to_text_with_len(quarantined->record,
																	  quarantined->record_len));
	nulls[COL_RECORD_POSITION] = quarantined->record_position == NULL;
	if (!nulls[COL_RECORD_POSITION])
		values[COL_RECORD_POSITION] = CStringGetTextDatum(quarantined->record_position);
	values[COL_SQLSTATE] = CStringGetTextDatum(unpack_sql_state(quarantined->sqlstate));
	values[COL_MESSAGE] = CStringGetTextDatum(quarantined->message);
	values[COL_REQUEUED] = BoolGetDatum(false);
	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	table_close(rel, NoLock);
}

/* ---- rows given back ---- */

typedef struct QuarantineScan
{
	Relation	rel;
	SysScanDesc scan;
} QuarantineScan;

/* Rows of the query; those that are marked, or all. In no order. */
static void
scan_begin(QuarantineScan *it, int64 query_id, bool only_requeued, LOCKMODE mode)
{
	ScanKeyData keys[2];

	it->rel = sx_catalog_open("quarantine_row", NCOLS, mode);
	ScanKeyInit(&keys[0], COL_QUERY + 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(query_id));
	ScanKeyInit(&keys[1], COL_REQUEUED + 1, BTEqualStrategyNumber, F_BOOLEQ, BoolGetDatum(true));
	it->scan = systable_beginscan(it->rel, sx_catalog_relation("quarantine_row_query"), true, NULL,
								  only_requeued ? 2 : 1, keys);
}

static void
scan_end(QuarantineScan *it)
{
	systable_endscan(it->scan);
	table_close(it->rel, NoLock);
}

static int64
id_of(QuarantineScan *it, HeapTuple tuple)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(tuple, COL_ID + 1, RelationGetDescr(it->rel), &isnull));
}

int64
sx_quarantine_requeue(int64 query_id, int64 id, const char *row, bytea *record)
{
	QuarantineScan it;
	HeapTuple	tuple;
	int64		count = 0;

	(void) sx_query_lock_quarantine(query_id, false);
	scan_begin(&it, query_id, false, RowExclusiveLock);
	while (HeapTupleIsValid(tuple = systable_getnext(it.scan)))
	{
		Datum		values[NCOLS] = {0};
		bool		nulls[NCOLS] = {0};
		bool		replaces[NCOLS] = {0};

		if (id != 0 && id_of(&it, tuple) != id)
			continue;
		count++;
		replaces[COL_REQUEUED] = true;
		values[COL_REQUEUED] = BoolGetDatum(true);
		if (row != NULL)
		{
			replaces[COL_DATA] = true;
			values[COL_DATA] = CStringGetTextDatum(row);
		}
		if (record != NULL)
		{
			/* The row was made of the old bytes. */
			replaces[COL_RECORD] = true;
			values[COL_RECORD] = PointerGetDatum(record);
			if (row == NULL)
				replaces[COL_DATA] = nulls[COL_DATA] = true;
		}
		CatalogTupleUpdate(it.rel, &tuple->t_self,
						   heap_modify_tuple(tuple, RelationGetDescr(it.rel), values, nulls, replaces));
	}
	scan_end(&it);
	CommandCounterIncrement();
	return count;
}

static int
compare_ids(const ListCell *a, const ListCell *b)
{
	int64		left = ((SxRequeued *) lfirst(a))->id;
	int64		right = ((SxRequeued *) lfirst(b))->id;

	return left < right ? -1 : left > right;
}

static char *
text_of(Datum value, bool isnull)
{
	return isnull ? NULL : TextDatumGetCString(value);
}

static List *
list_rows(int64 query_id, bool only_requeued, int limit)
{
	QuarantineScan it;
	HeapTuple	tuple;
	List	   *result = NIL;

	/* The index gives them by id; but a scan that lists few need not promise so. */
	scan_begin(&it, query_id, only_requeued, AccessShareLock);
	while (list_length(result) < limit && HeapTupleIsValid(tuple = systable_getnext(it.scan)))
	{
		SxRequeued *requeued = palloc0(sizeof(SxRequeued));
		Datum		values[NCOLS];
		bool		nulls[NCOLS];

		heap_deform_tuple(tuple, RelationGetDescr(it.rel), values, nulls);
		requeued->id = DatumGetInt64(values[COL_ID]);
		requeued->tid = tuple->t_self;
		requeued->xmin = HeapTupleHeaderGetXmin(tuple->t_data);
		requeued->stream = DatumGetObjectId(values[COL_STREAM]);
		requeued->row = text_of(values[COL_DATA], nulls[COL_DATA]);
		requeued->record_position = text_of(values[COL_RECORD_POSITION], nulls[COL_RECORD_POSITION]);
		if (!nulls[COL_RECORD])
		{
			bytea	   *record = DatumGetByteaPCopy(values[COL_RECORD]);

			requeued->record = VARDATA(record);
			requeued->record_len = VARSIZE(record) - VARHDRSZ;
		}
		result = lappend(result, requeued);
	}
	scan_end(&it);
	list_sort(result, compare_ids);
	return result;
}

List *
sx_quarantine_requeued(int64 query_id, int limit)
{
	return list_rows(query_id, true, limit);
}

List *
sx_quarantine_rows(int64 query_id)
{
	return list_rows(query_id, false, INT_MAX);
}

List *
sx_quarantine_streams(int64 query_id)
{
	List	   *result = NIL;
	ListCell   *cell;

	foreach(cell, sx_quarantine_requeued(query_id, INT_MAX))
		result = list_append_unique_oid(result, ((SxRequeued *) lfirst(cell))->stream);
	return result;
}

/* The row as it was read; an error if it is not that any more. */
static HeapTuple
scan_to(QuarantineScan *it, int64 query_id, const SxRequeued *requeued)
{
	HeapTuple	tuple;

	scan_begin(it, query_id, true, RowExclusiveLock);
	while (HeapTupleIsValid(tuple = systable_getnext(it->scan)))
		if (ItemPointerEquals(&tuple->t_self, unconstify(ItemPointerData *, &requeued->tid)) &&
			HeapTupleHeaderGetXmin(tuple->t_data) == requeued->xmin)
			return tuple;
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("row " INT64_FORMAT " in quarantine was given back once more while a batch had it",
					requeued->id)));
}

void
sx_quarantine_delete(int64 query_id, const SxRequeued *requeued)
{
	QuarantineScan it;
	HeapTuple	tuple = scan_to(&it, query_id, requeued);

	CatalogTupleDelete(it.rel, &tuple->t_self);
	scan_end(&it);
}

void
sx_quarantine_put_back(int64 query_id, const SxRequeued *requeued, int sqlstate, const char *message)
{
	QuarantineScan it;
	HeapTuple	tuple = scan_to(&it, query_id, requeued);
	Datum		values[NCOLS] = {0};
	bool		nulls[NCOLS] = {0};
	bool		replaces[NCOLS] = {0};

	replaces[COL_REQUEUED] = replaces[COL_AT] = replaces[COL_SQLSTATE] = replaces[COL_MESSAGE] = true;
	values[COL_REQUEUED] = BoolGetDatum(false);
	values[COL_AT] = TimestampTzGetDatum(GetCurrentTimestamp());
	values[COL_SQLSTATE] = CStringGetTextDatum(unpack_sql_state(sqlstate));
	values[COL_MESSAGE] = CStringGetTextDatum(message);
	CatalogTupleUpdate(it.rel, &tuple->t_self,
					   heap_modify_tuple(tuple, RelationGetDescr(it.rel), values, nulls, replaces));
	scan_end(&it);
}

/* ---- all of a query ---- */

/* Visits all rows of the query; returns how many. */
static int64
visit_all(int64 query_id, bool delete)
{
	QuarantineScan it;
	HeapTuple	tuple;
	int64		count = 0;

	scan_begin(&it, query_id, false, delete ? RowExclusiveLock : AccessShareLock);
	while (HeapTupleIsValid(tuple = systable_getnext(it.scan)))
	{
		if (delete)
			CatalogTupleDelete(it.rel, &tuple->t_self);
		count++;
	}
	scan_end(&it);
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
	(void) sx_query_lock_quarantine(query_id, false);
	(void) visit_all(query_id, true);
	CommandCounterIncrement();
}
