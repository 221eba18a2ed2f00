/*
 * query_status.c
 *		Rows for the view streamx.queries: what is wanted, from the catalog, and
 *		what is, from shared memory.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"
#include "utils/wait_event.h"

#include "api/api.h"
#include "base/settings.h"
#include "checkpoint/batch_record.h"
#include "monitor/shared.h"
#include "registry/failure.h"

PG_FUNCTION_INFO_V1(sx_api_query_status);
PG_FUNCTION_INFO_V1(sx_api_query_visible);
PG_FUNCTION_INFO_V1(sx_api_last_progress);
PG_FUNCTION_INFO_V1(sx_api_recent_progress);

/* In the order of the function's columns. */
enum
{
	COL_ID, COL_NAME, COL_STATE, COL_OWNER, COL_SINK, COL_OUTPUT_MODE, COL_TRIGGER,
	COL_BATCH_ID, COL_WATERMARK, COL_INPUT_RATE, COL_PROCESSED_RATE, COL_DURATION,
	COL_STATE_ROWS, COL_STATE_BYTES, COL_INPUT_ROWS, COL_OUTPUT_ROWS, COL_LATE_ROWS,
	COL_WAL_BYTES, COL_RESTARTS, COL_FAILURES, COL_LAST_ERROR, COL_LAST_ERROR_AT,
	COL_HINT, COL_RETRY_AT, COL_WAITS_FOR, COL_PID, COL_HEARTBEAT, COL_STARTED_AT,
	COL_CREATED_AT, COL_ENDED_AT, COL_INCARNATION, COL_RUN_ID, COL_OPTIONS,
	NCOLS
};

typedef struct Row
{
	Datum		values[NCOLS];
	bool		nulls[NCOLS];
} Row;

static void
put(Row *row, int column, Datum value)
{
	row->values[column] = value;
	row->nulls[column] = false;
}

static void
put_text(Row *row, int column, const char *text)
{
	if (text != NULL && text[0] != '\0')
		put(row, column, CStringGetTextDatum(text));
}

static void
put_time(Row *row, int column, TimestampTz time)
{
	if (time != 0 && !TIMESTAMP_NOT_FINITE(time))
		put(row, column, TimestampTzGetDatum(time));
}

/* What it is taken from may be gone when the row is formed. */
static void
put_uuid(Row *row, int column, const pg_uuid_t *uuid)
{
	pg_uuid_t  *kept = palloc(sizeof(pg_uuid_t));

	*kept = *uuid;
	put(row, column, UUIDPGetDatum(kept));
}

/* A copy that doesn't change while we read it; false: the query has no slot. */
static bool
read_slot(const SxQuery *query, SxQuerySlot *copy)
{
	SxQuerySlot *slot = sx_slot_find(MyDatabaseId, query->id);

	if (slot == NULL)
		return false;
	SpinLockAcquire(&slot->mutex);
	memcpy(copy, slot, sizeof(*copy));
	SpinLockRelease(&slot->mutex);
	return copy->in_use && copy->query_id == query->id;
}

static bool
is_alive(const SxQuerySlot *slot)
{
	return slot->pid != 0 && BackendPidGetProc(slot->pid) != NULL;
}

static bool
slots_are_taken(void)
{
	for (int i = 0; sx_shared != NULL && i < sx_shared->nslots; i++)
		if (!sx_shared->slots[i].in_use)
			return false;
	return sx_shared != NULL;
}

/* There is no process that could look at the query. */
static bool
scheduler_is_missing(void)
{
	SxDatabaseSlot *entry;
	bool		missing;

	if (sx_shared == NULL || RecoveryInProgress() || !sx_enabled)
		return false;
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(MyDatabaseId, false);
	missing = sx_shared->launcher_latch == NULL ||
		(entry != NULL && entry->wanted && entry->pid == 0);
	LWLockRelease(sx_shared->lock);
	return missing;
}

static const char *
state_without_slot(const char **waits_for, const char **hint)
{
	if (slots_are_taken())
	{
		*waits_for = "a free slot (streamx.max_queries)";
		*hint = "Raise streamx.max_queries and restart the server, or stop other queries.";
		return "waiting for a worker";
	}
	if (scheduler_is_missing())
	{
		*waits_for = "the launcher or scheduler of streamx (max_worker_processes)";
		*hint = "If this lasts, raise max_worker_processes and restart the server.";
		return "waiting for a worker";
	}
	return "starting";
}

/* The batch stands still because somebody else has locked what it needs. */
static void
look_for_lock(const SxQuerySlot *slot, const char **waits_for, const char **hint)
{
	PGPROC	   *proc = slot->pid != 0 ? BackendPidGetProc(slot->pid) : NULL;

	if (proc == NULL || (proc->wait_event_info & 0xFF000000) != PG_WAIT_LOCK)
		return;
	*waits_for = "a lock";
	*hint = psprintf("SELECT pg_blocking_pids(%d) tells who holds it.", (int) slot->pid);
}

/* The word, and for people what it waits for and what to do. */
static const char *
state_name(const SxQuery *query, const SxQuerySlot *slot, const char **waits_for,
		   const char **hint)
{
	if (query->wanted != SX_WANTED_RUNNING)
		return sx_wanted_name(query->wanted);
	if (RecoveryInProgress())
		*waits_for = "the end of recovery";
	else if (!sx_enabled)
		*waits_for = "streamx.enabled";
	else if (sx_shared == NULL)
	{
		*waits_for = "shared_preload_libraries";
		*hint = "Add streamx to shared_preload_libraries and restart the server.";
	}
	if (slot == NULL)
		return state_without_slot(waits_for, hint);
	if (slot->held_by != 0)
		*waits_for = psprintf("the transaction of process %d, which holds it", slot->held_by);
	if (slot->waits_for[0] != '\0')
		*waits_for = slot->waits_for;
	look_for_lock(slot, waits_for, hint);
	switch (slot->state)
	{
		case SX_RUN_WAITING_FOR_WORKER:
			*hint = "Raise max_worker_processes and restart the server, or stop other queries.";
			return "waiting for a worker";
		case SX_RUN_RETRYING:
			return "retrying";
		case SX_RUN_SINK_BLOCKED:
			if (*waits_for == NULL)
				*waits_for = "its sink";
			return "sink_blocked";
		case SX_RUN_RUNNING:
		case SX_RUN_STOPPING:
			return is_alive(slot) ? "running" : "starting";
		case SX_RUN_STARTING:
		case SX_RUN_NONE:
			break;
	}
	return "starting";
}

static void
put_definition(Row *row, const SxQuery *query)
{
	put(row, COL_ID, Int64GetDatum(query->id));
	put_text(row, COL_NAME, query->name);
	if (OidIsValid(query->owner))
		put(row, COL_OWNER, ObjectIdGetDatum(query->owner));
	if (OidIsValid(query->sink_relation))
	{
		/* It may have been renamed since. */
		char	   *name = get_rel_name(query->sink_relation);

		put_text(row, COL_SINK, name == NULL ? query->sink_name :
				 quote_qualified_identifier(get_namespace_name(get_rel_namespace(query->sink_relation)),
											name));
	}
	else if (OidIsValid(query->sink_function))
		put_text(row, COL_SINK, psprintf("foreach_batch %s",
										 DatumGetCString(DirectFunctionCall1(regprocedureout,
																			 ObjectIdGetDatum(query->sink_function)))));
	else
		put_text(row, COL_SINK, query->sink_name != NULL ? query->sink_name :
				 sx_sink_kind_name(query->sink_kind));
	put_text(row, COL_OUTPUT_MODE, sx_output_mode_name(query->output_mode));
	put_text(row, COL_TRIGGER, sx_trigger_print(query->trigger, query->trigger_interval));
	put_time(row, COL_CREATED_AT, query->created_at);
	put_time(row, COL_ENDED_AT, query->ended_at);
	put_uuid(row, COL_INCARNATION, &query->incarnation);
	put(row, COL_OPTIONS, JsonbPGetDatum(query->options_json));
}

/* What the process told; of a query that has none, what its last batch says. */
static void
put_run(Row *row, const SxQuery *query, const SxQuerySlot *slot)
{
	SxBatchRecord *record;

	if (slot != NULL && slot->heartbeat != 0)
	{
		if (slot->batch_id >= 0)
			put(row, COL_BATCH_ID, Int64GetDatum(slot->batch_id));
		put_time(row, COL_WATERMARK, slot->watermark);
		put(row, COL_INPUT_RATE, Float8GetDatum(slot->input_rows_per_second));
		put(row, COL_PROCESSED_RATE, Float8GetDatum(slot->processed_rows_per_second));
		put(row, COL_STATE_ROWS, Int64GetDatum(slot->state_rows));
		put(row, COL_STATE_BYTES, Int64GetDatum(slot->state_bytes));
		put(row, COL_INPUT_ROWS, Int64GetDatum(slot->input_rows));
		put(row, COL_OUTPUT_ROWS, Int64GetDatum(slot->output_rows));
		put(row, COL_LATE_ROWS, Int64GetDatum(slot->late_rows));
		put(row, COL_WAL_BYTES, Int64GetDatum(slot->wal_bytes));
		if (slot->batch_duration_us > 0)
		{
			Interval   *duration = palloc0(sizeof(Interval));

			duration->time = slot->batch_duration_us;
			put(row, COL_DURATION, IntervalPGetDatum(duration));
		}
		put(row, COL_RESTARTS, Int32GetDatum(slot->restarts));
		put(row, COL_FAILURES, Int32GetDatum(slot->failures_in_a_row));
		put_time(row, COL_HEARTBEAT, slot->heartbeat);
		put_time(row, COL_STARTED_AT, slot->started_at);
		put_uuid(row, COL_RUN_ID, &slot->run_id);
		if (slot->pid != 0)
			put(row, COL_PID, Int32GetDatum(slot->pid));
		else
			put_time(row, COL_RETRY_AT, slot->retry_at);
		return;
	}
	if (sx_query_is_copy(query))
		return;
	record = sx_batch_record_last_head(query->id);
	if (record == NULL || record->batch_id < 0)
		return;
	put(row, COL_BATCH_ID, Int64GetDatum(record->batch_id));
	put_time(row, COL_WATERMARK, record->next_watermark);
}

/* Batches may be committed while their output waits: is this failure the reason? */
static bool
is_wait_for_sink(const char *waits_for, const SxFailure *failure)
{
	const char *prefix = "sink: ";
	size_t		len = strlen(prefix);

	return strncmp(waits_for, prefix, len) == 0 &&
		strncmp(failure->message, waits_for + len, strlen(waits_for + len)) == 0;
}

static void
put_query(Row *row, const SxQuery *query)
{
	SxQuerySlot copy;
	const SxQuerySlot *slot = read_slot(query, &copy) ? &copy : NULL;
	SxFailure  *failure = sx_failure_last(query->id);
	const char *waits_for = NULL;
	const char *hint = NULL;

	memset(row->nulls, true, sizeof(row->nulls));
	put_definition(row, query);
	put_run(row, query, slot);
	if (failure != NULL)
	{
		put_text(row, COL_LAST_ERROR, failure->message);
		put_time(row, COL_LAST_ERROR_AT, failure->at);
		/* Once a batch was committed after it, there is nothing left to do. */
		if (query->wanted != SX_WANTED_RUNNING || slot == NULL || slot->failures_in_a_row > 0)
			hint = sx_api_failure_hint(query, failure);
	}
	else if (slot != NULL && slot->state == SX_RUN_RETRYING)
		hint = "Its process ended before it could say why: see the server's log.";
	put_text(row, COL_STATE, state_name(query, slot, &waits_for, &hint));
	if (hint == NULL && failure != NULL && waits_for != NULL && is_wait_for_sink(waits_for, failure))
		hint = failure->hint;
	put_text(row, COL_WAITS_FOR, waits_for);
	put_text(row, COL_HINT, hint);
	if (slot != NULL && slot->state == SX_RUN_RETRYING)
		put_time(row, COL_RETRY_AT, slot->retry_at);
}

Datum
sx_api_query_status(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, sx_query_list())
	{
		const SxQuery *query = lfirst(lc);
		Row			row;

		if (!sx_api_may_see(query))
			continue;
		put_query(&row, query);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

/* For the views over streamx.batch and streamx.failure: may the role see this query? */
Datum
sx_api_query_visible(PG_FUNCTION_ARGS)
{
	SxQuery    *query = sx_query_by_id(PG_GETARG_INT64(0), true);

	PG_RETURN_BOOL(query != NULL && sx_api_may_see(query));
}

/* ---------- progress ---------- */

static Datum
json_datum(const char *json)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
}

Datum
sx_api_last_progress(PG_FUNCTION_ARGS)
{
	SxQuery    *query = sx_api_visible_query(sx_api_name_arg(fcinfo));
	SxBatchRecord *record = sx_query_is_copy(query) ? NULL : sx_batch_record_last_head(query->id);

	if (record == NULL || record->batch_id < 0 || record->progress == NULL)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(json_datum(record->progress));
}

/* Of all retained batches, oldest first. */
Datum
sx_api_recent_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	SxQuery    *query = sx_api_visible_query(sx_api_name_arg(fcinfo));
	Relation	table;
	Relation	index;
	SysScanDesc scan;
	ScanKeyData keys[2];
	HeapTuple	tuple;
	int			column;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	if (sx_query_is_copy(query))
		return (Datum) 0;
	table = table_open(sx_catalog_relation("batch"), AccessShareLock);
	index = index_open(sx_catalog_relation("batch_query_batch"), AccessShareLock);
	column = get_attnum(RelationGetRelid(table), "progress");
	ScanKeyInit(&keys[0], 1, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(query->id));
	/* what is recorded of a start is no batch */
	ScanKeyInit(&keys[1], 2, BTGreaterEqualStrategyNumber, F_INT8GE, Int64GetDatum(0));
	scan = systable_beginscan_ordered(table, index, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		isnull;
		Datum		json = heap_getattr(tuple, column, RelationGetDescr(table), &isnull);
		Datum		value;

		value = json_datum(TextDatumGetCString(json));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value, &isnull);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(table, AccessShareLock);
	return (Datum) 0;
}
