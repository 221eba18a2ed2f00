/*
 * batch_record.c
 *		The checkpoint: one row of streamx.batch per committed batch.
 *
 * Two columns hold JSON, written here by hand and read with the server's parser:
 *
 *	 offsets  {"version": 1, "sources": [{"relation": 16412, "end": <offset>}, ...]}
 *			  one entry per stream in the plan's order; <offset> is the JSON of
 *			  the source's kind and stands there unquoted
 *	 inputs   {"version": 1, "policy": "min",
 *			   "inputs": [{"relation": 16412, "delay": 10000000, "max": 757382405000000}, ...]}
 *			  microseconds, as TimestampTz counts them; "max" is null while the
 *			  input has shown no event time; "relation" is 0 for watermark() calls
 *
 * A version that we don't know is refused: an older library must not guess what
 * a newer one meant.  A NULL watermark column means that it is unset (D5).
 *
 * Rows go through the heap and the one index, not through SQL: the owner of the
 * query has no rights here, and no user code may run in between.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "base/errors.h"
#include "checkpoint/batch_record.h"
#include "registry/query.h"

#define RECORD_VERSION	1

enum
{
	Anum_query = 1,
	Anum_batch,
	Anum_incarnation,
	Anum_lineage,
	Anum_batch_timestamp,
	Anum_watermark,
	Anum_next_watermark,
	Anum_owes_no_data,
	Anum_due,
	Anum_last_intent,
	Anum_offsets,
	Anum_inputs,
	Anum_progress,
	Natts_batch = Anum_progress
};

/* ---- writing ---- */

static char *
offsets_to_json(const SxBatchRecord *record)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "{\"version\": %d, \"sources\": [", RECORD_VERSION);
	for (int i = 0; i < record->nsources; i++)
	{
		const SxSourceOffset *source = &record->sources[i];

		appendStringInfo(&out, "%s{\"relation\": %u, \"end\": %s}",
						 i > 0 ? ", " : "", source->relid,
						 source->end != NULL ? source->end : "null");
	}
	appendStringInfoString(&out, "]}");
	return out.data;
}

static char *
inputs_to_json(const SxBatchRecord *record)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "{\"version\": %d, \"policy\": \"%s\", \"inputs\": [",
					 RECORD_VERSION,
					 record->policy == SX_WATERMARK_MAX ? "max" : "min");
	for (int i = 0; i < record->ninputs; i++)
	{
		const SxWatermarkInput *input = &record->inputs[i];

		appendStringInfo(&out, "%s{\"relation\": %u, \"delay\": " INT64_FORMAT ", \"max\": ",
						 i > 0 ? ", " : "",
						 record->input_relids[i], input->delay);
		if (input->max == SX_TIME_UNSET)
			appendStringInfoString(&out, "null}");
		else
			appendStringInfo(&out, INT64_FORMAT "}", input->max);
	}
	appendStringInfoString(&out, "]}");
	return out.data;
}

static char *
due_to_json(const SxDue *due)
{
	return psprintf("{\"version\": %d, \"operator\": %d, \"group\": %d, \"rows\": " INT64_FORMAT "}",
					RECORD_VERSION, due->op, due->group, due->rows);
}

static void
set_watermark(Datum *value, bool *isnull, TimestampTz watermark)
{
	*isnull = watermark == SX_TIME_UNSET;
	*value = TimestampTzGetDatum(watermark);
}

void
sx_batch_record_append(const SxBatchRecord *record)
{
	Relation	rel = sx_catalog_open("batch", Natts_batch, RowExclusiveLock);
	Datum		values[Natts_batch];
	bool		nulls[Natts_batch] = {0};
	HeapTuple	tuple;

	values[Anum_query - 1] = Int64GetDatum(record->query_id);
	values[Anum_batch - 1] = Int64GetDatum(record->batch_id);
	values[Anum_incarnation - 1] = UUIDPGetDatum(&record->incarnation);
	values[Anum_lineage - 1] = UUIDPGetDatum(&record->lineage);
	values[Anum_batch_timestamp - 1] = TimestampTzGetDatum(record->batch_timestamp);
	set_watermark(&values[Anum_watermark - 1], &nulls[Anum_watermark - 1],
				  record->watermark);
	set_watermark(&values[Anum_next_watermark - 1], &nulls[Anum_next_watermark - 1],
				  record->next_watermark);
	values[Anum_owes_no_data - 1] = BoolGetDatum(record->owes_no_data);
	nulls[Anum_due - 1] = record->due.op < 0;
	if (record->due.op >= 0)
		values[Anum_due - 1] = CStringGetTextDatum(due_to_json(&record->due));
	values[Anum_last_intent - 1] = Int64GetDatum(record->last_intent);
	nulls[Anum_last_intent - 1] = record->last_intent < 0;
	values[Anum_offsets - 1] = CStringGetTextDatum(offsets_to_json(record));
	values[Anum_inputs - 1] = CStringGetTextDatum(inputs_to_json(record));
	values[Anum_progress - 1] = CStringGetTextDatum(record->progress);

	/* The unique index is the last guard against a second worker. */
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	table_close(rel, NoLock);
}

/* ---- reading ---- */

static void
corrupt(int64 query_id, int64 batch_id, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_CHECKPOINT),
			 errmsg("checkpoint of batch %lld cannot be read", (long long) batch_id),
			 errdetail("Column \"%s\" of streamx.batch for query %lld is not what this version of streamx writes.",
					   what, (long long) query_id),
			 errhint("Was it written by a newer version? Otherwise drop and create the query to begin anew.")));
}

static int64
json_int64(const JsonbValue *value, SxBatchRecord *record, const char *what)
{
	if (value == NULL || value->type != jbvNumeric)
		corrupt(record->query_id, record->batch_id, what);
	return DatumGetInt64(DirectFunctionCall1(numeric_int8,
											 NumericGetDatum(value->val.numeric)));
}

static JsonbValue *
json_member(JsonbContainer *object, const char *name)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), NULL);
}

/* An error is raised all the same, so the parser's own may be dropped. */
static Jsonb *
json_column(SxBatchRecord *record, Datum column, const char *what)
{
	MemoryContext context = CurrentMemoryContext;
	Jsonb	   *volatile json = NULL;

	PG_TRY();
	{
		json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in,
												  CStringGetDatum(TextDatumGetCString(column))));
	}
	PG_CATCH();
	{
		if (ERRCODE_TO_CATEGORY(geterrcode()) != ERRCODE_TO_CATEGORY(ERRCODE_DATA_EXCEPTION))
			PG_RE_THROW();
		MemoryContextSwitchTo(context);
		FlushErrorState();
		corrupt(record->query_id, record->batch_id, what);
	}
	PG_END_TRY();
	return json;
}

/* The array under `name` in the object of a column whose version we know. */
static JsonbContainer *
json_column_array(SxBatchRecord *record, Datum column, const char *what,
				  const char *name, JsonbContainer **object)
{
	Jsonb	   *json;
	JsonbValue *array;

	json = json_column(record, column, what);
	if (!JB_ROOT_IS_OBJECT(json) ||
		json_int64(json_member(&json->root, "version"), record, what) != RECORD_VERSION)
		corrupt(record->query_id, record->batch_id, what);
	array = json_member(&json->root, name);
	if (array == NULL || array->type != jbvBinary ||
		!JsonContainerIsArray(array->val.binary.data))
		corrupt(record->query_id, record->batch_id, what);
	if (object != NULL)
		*object = &json->root;
	return array->val.binary.data;
}

static JsonbContainer *
json_element(SxBatchRecord *record, JsonbContainer *array, int i, const char *what)
{
	JsonbValue *element = getIthJsonbValueFromContainer(array, i);

	if (element == NULL || element->type != jbvBinary ||
		!JsonContainerIsObject(element->val.binary.data))
		corrupt(record->query_id, record->batch_id, what);
	return element->val.binary.data;
}

static void
read_offsets(SxBatchRecord *record, Datum column)
{
	JsonbContainer *array = json_column_array(record, column, "offsets", "sources", NULL);

	record->nsources = JsonContainerSize(array);
	record->sources = palloc0(sizeof(SxSourceOffset) * Max(record->nsources, 1));
	for (int i = 0; i < record->nsources; i++)
	{
		JsonbContainer *object = json_element(record, array, i, "offsets");
		JsonbValue *end = json_member(object, "end");

		record->sources[i].relid =
			(Oid) json_int64(json_member(object, "relation"), record, "offsets");
		if (end == NULL)
			corrupt(record->query_id, record->batch_id, "offsets");
		if (end->type != jbvNull)
		{
			Jsonb	   *json = JsonbValueToJsonb(end);

			record->sources[i].end = JsonbToCString(NULL, &json->root, VARSIZE(json));
		}
	}
}

static void
read_inputs(SxBatchRecord *record, Datum column)
{
	JsonbContainer *object;
	JsonbContainer *array = json_column_array(record, column, "inputs", "inputs", &object);
	JsonbValue *policy = json_member(object, "policy");

	if (policy == NULL || policy->type != jbvString)
		corrupt(record->query_id, record->batch_id, "inputs");
	record->policy = strncmp(policy->val.string.val, "max", policy->val.string.len) == 0 ?
		SX_WATERMARK_MAX : SX_WATERMARK_MIN;
	record->ninputs = JsonContainerSize(array);
	record->inputs = palloc0(sizeof(SxWatermarkInput) * Max(record->ninputs, 1));
	record->input_relids = palloc0(sizeof(Oid) * Max(record->ninputs, 1));
	for (int i = 0; i < record->ninputs; i++)
	{
		JsonbContainer *input = json_element(record, array, i, "inputs");
		JsonbValue *max = json_member(input, "max");

		record->input_relids[i] =
			(Oid) json_int64(json_member(input, "relation"), record, "inputs");
		record->inputs[i].delay = json_int64(json_member(input, "delay"), record, "inputs");
		if (max != NULL && max->type == jbvNull)
			record->inputs[i].max = SX_TIME_UNSET;
		else
			record->inputs[i].max = json_int64(max, record, "inputs");
	}
}

static void
read_due(SxBatchRecord *record, Datum column)
{
	Jsonb	   *json = json_column(record, column, "due");

	if (!JB_ROOT_IS_OBJECT(json) ||
		json_int64(json_member(&json->root, "version"), record, "due") != RECORD_VERSION)
		corrupt(record->query_id, record->batch_id, "due");
	record->due.op = (int) json_int64(json_member(&json->root, "operator"), record, "due");
	record->due.group = (int) json_int64(json_member(&json->root, "group"), record, "due");
	record->due.rows = json_int64(json_member(&json->root, "rows"), record, "due");
}

static SxBatchRecord *
read_record(HeapTuple tuple, TupleDesc desc, bool head_only)
{
	SxBatchRecord *record = palloc0(sizeof(SxBatchRecord));
	Datum		values[Natts_batch];
	bool		nulls[Natts_batch];

	heap_deform_tuple(tuple, desc, values, nulls);
	record->query_id = DatumGetInt64(values[Anum_query - 1]);
	record->batch_id = DatumGetInt64(values[Anum_batch - 1]);
	record->incarnation = *DatumGetUUIDP(values[Anum_incarnation - 1]);
	record->lineage = *DatumGetUUIDP(values[Anum_lineage - 1]);
	record->batch_timestamp = DatumGetTimestampTz(values[Anum_batch_timestamp - 1]);
	record->watermark = nulls[Anum_watermark - 1] ? SX_TIME_UNSET :
		DatumGetTimestampTz(values[Anum_watermark - 1]);
	record->next_watermark = nulls[Anum_next_watermark - 1] ? SX_TIME_UNSET :
		DatumGetTimestampTz(values[Anum_next_watermark - 1]);
	record->owes_no_data = DatumGetBool(values[Anum_owes_no_data - 1]);
	record->due.op = -1;
	if (!nulls[Anum_due - 1] && !head_only)
		read_due(record, values[Anum_due - 1]);
	record->last_intent = nulls[Anum_last_intent - 1] ? -1 :
		DatumGetInt64(values[Anum_last_intent - 1]);
	if (!head_only)
	{
		read_offsets(record, values[Anum_offsets - 1]);
		read_inputs(record, values[Anum_inputs - 1]);
	}
	record->progress = TextDatumGetCString(values[Anum_progress - 1]);
	return record;
}

static void
set_batch_keys(ScanKey keys, int64 query_id, StrategyNumber strategy, RegProcedure compare,
			   int64 batch_id)
{
	ScanKeyInit(&keys[0], Anum_query, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(query_id));
	ScanKeyInit(&keys[1], Anum_batch, strategy, compare, Int64GetDatum(batch_id));
}

static Relation
open_index(LOCKMODE lockmode)
{
	return index_open(sx_catalog_relation("batch_query_batch"), lockmode);
}

static SxBatchRecord *
last_record(int64 query_id, bool head_only)
{
	Relation	rel = sx_catalog_open("batch", Natts_batch, AccessShareLock);
	Relation	index = open_index(AccessShareLock);
	SxBatchRecord *record = NULL;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&key, Anum_query, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(query_id));
	scan = systable_beginscan_ordered(rel, index, NULL, 1, &key);
	tuple = systable_getnext_ordered(scan, BackwardScanDirection);
	if (HeapTupleIsValid(tuple))
		record = read_record(tuple, RelationGetDescr(rel), head_only);
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return record;
}

/* The first batch from this end on; -1: none. */
static int64
first_batch(Relation rel, Relation index, int64 query_id, struct SnapshotData *snapshot,
			ScanDirection direction)
{
	int64		batch = -1;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	bool		isnull;

	set_batch_keys(keys, query_id, BTGreaterEqualStrategyNumber, F_INT8GE, 0);
	scan = systable_beginscan_ordered(rel, index, snapshot, 2, keys);
	tuple = systable_getnext_ordered(scan, direction);
	if (HeapTupleIsValid(tuple))
		batch = DatumGetInt64(heap_getattr(tuple, Anum_batch, RelationGetDescr(rel), &isnull));
	systable_endscan_ordered(scan);
	return batch;
}

bool
sx_batch_record_span(int64 query_id, struct SnapshotData *snapshot, int64 *oldest,
					 int64 *newest)
{
	Relation	rel = sx_catalog_open("batch", Natts_batch, AccessShareLock);
	Relation	index = open_index(AccessShareLock);

	*oldest = first_batch(rel, index, query_id, snapshot, ForwardScanDirection);
	*newest = first_batch(rel, index, query_id, snapshot, BackwardScanDirection);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return *newest >= 0;
}

SxBatchRecord *
sx_batch_record_last(int64 query_id)
{
	return last_record(query_id, false);
}

SxBatchRecord *
sx_batch_record_last_head(int64 query_id)
{
	return last_record(query_id, true);
}

SxBatchRecord *
sx_batch_record_read(int64 query_id, int64 batch_id)
{
	Relation	rel = sx_catalog_open("batch", Natts_batch, AccessShareLock);
	SxBatchRecord *record = NULL;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	set_batch_keys(keys, query_id, BTEqualStrategyNumber, F_INT8EQ, batch_id);
	scan = systable_beginscan(rel, sx_catalog_relation("batch_query_batch"), true,
							  NULL, 2, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		record = read_record(tuple, RelationGetDescr(rel), false);
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return record;
}

bool
sx_batch_record_exists(int64 query_id, const pg_uuid_t *incarnation,
					   int64 batch_id, const pg_uuid_t *lineage)
{
	Relation	rel = sx_catalog_open("batch", Natts_batch, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	bool		found = false;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	set_batch_keys(keys, query_id, BTEqualStrategyNumber, F_INT8EQ, batch_id);
	scan = systable_beginscan(rel, sx_catalog_relation("batch_query_batch"), true,
							  NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		pg_uuid_t  *it;

		it = DatumGetUUIDP(heap_getattr(tuple, Anum_incarnation, desc, &isnull));
		if (memcmp(it->data, incarnation->data, UUID_LEN) != 0)
			continue;
		it = DatumGetUUIDP(heap_getattr(tuple, Anum_lineage, desc, &isnull));
		if (memcmp(it->data, lineage->data, UUID_LEN) == 0)
			found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return found;
}

/* ---- forgetting ---- */

/*
 * Makes the space of deleted records known to whoever looks for some; false: a
 * snapshot may still see them.  What remains of them until a vacuum is a line
 * pointer each.
 */
static bool
reuse_page(Relation rel, BlockNumber block)
{
	Buffer		buffer = ReadBuffer(rel, block);
	Page		page = BufferGetPage(buffer);
	Size		space;
	bool		pruned;

	/* pages are pruned when they are full; an insert does not say so */
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	PageSetFull(page);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	heap_page_prune_opt(rel, buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	pruned = !PageIsFull(page);
	space = PageGetHeapFreeSpace(page);
	UnlockReleaseBuffer(buffer);
	if (pruned)
		RecordPageWithFreeSpace(rel, block, space);
	return pruned;
}

/* Pages that can't be reused yet stay in the list. */
static void
reuse_pages(Relation rel, SxTrimmedPages *trimmed)
{
	BlockNumber behind = RelationGetNumberOfBlocks(rel);
	BlockNumber first = InvalidBlockNumber;
	BlockNumber last = 0;
	int			kept = 0;

	for (int i = 0; i < trimmed->n; i++)
	{
		BlockNumber block = trimmed->pages[i];

		if (block >= behind)
			continue;			/* a vacuum cut it off */
		if (!reuse_page(rel, block))
		{
			trimmed->pages[kept++] = block;
			continue;
		}
		first = Min(first, block);
		last = Max(last, block);
	}
	trimmed->n = kept;
	if (first <= last)
		FreeSpaceMapVacuumRange(rel, first, last + 1);
}

static void
note_page(SxTrimmedPages *trimmed, BlockNumber block)
{
	for (int i = trimmed->n - 1; i >= 0; i--)
		if (trimmed->pages[i] == block)
			return;
	if (trimmed->n < SX_TRIMMED_PAGES)
		trimmed->pages[trimmed->n++] = block;
}

/* What a query began with (batch -1) says as long as it lives which rows were its own. */
static bool
is_beginning(HeapTuple tuple, TupleDesc desc)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(tuple, Anum_batch, desc, &isnull)) < 0;
}

/* Deletes the records of the query up to and including `last`. */
static void
delete_range(int64 query_id, int64 last, SxTrimmedPages *trimmed)
{
	Relation	rel = sx_catalog_open("batch", Natts_batch, RowExclusiveLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	if (trimmed != NULL)
		reuse_pages(rel, trimmed);
	set_batch_keys(keys, query_id, BTLessEqualStrategyNumber, F_INT8LE, last);
	scan = systable_beginscan(rel, sx_catalog_relation("batch_query_batch"), true,
							  NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		if (trimmed != NULL && is_beginning(tuple, RelationGetDescr(rel)))
			continue;
		if (trimmed != NULL)
			note_page(trimmed, ItemPointerGetBlockNumber(&tuple->t_self));
		simple_heap_delete(rel, &tuple->t_self);
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
}

void
sx_batch_record_trim(int64 query_id, int64 last_batch, int retain, SxTrimmedPages *trimmed)
{
	if (last_batch >= retain)
		delete_range(query_id, last_batch - retain, trimmed);
}

void
sx_batch_record_delete_all(int64 query_id)
{
	delete_range(query_id, PG_INT64_MAX, NULL);
}
