/*
 * query_steps.c
 *		run_batch, advance_time: a query step by step in the caller's transaction.
 *
 * The query is held as for alter and drop (worker/hold.h), so no worker comes
 * between the batches of a transaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "base/wake.h"
#include "engine/session.h"
#include "monitor/shared.h"
#include "worker/hold.h"

PG_FUNCTION_INFO_V1(sx_api_run_batch);
PG_FUNCTION_INFO_V1(sx_api_advance_time);
PG_FUNCTION_INFO_V1(sx_api_batch_timestamp);

static void
check_can_step(const char *function)
{
	PreventCommandIfReadOnly(function);
	PreventCommandDuringRecovery(function);
	sx_shared_require();
	/* An older snapshot than that of the last batch would take the query back. */
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s needs isolation level READ COMMITTED", function),
				 errhint("BEGIN ISOLATION LEVEL READ COMMITTED.")));
	if (sx_session_is_in_batch(0))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s cannot be called from within a batch", function),
				 errdetail("A batch of a continuous query runs in this session.")));
	if (sx_stop_asked != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%s cannot be called by a continuous query", function),
				 errdetail("It runs batches in a session, and this is a worker.")));
}

static SxQuery *
take_for_steps(const char *name, const char *function)
{
	SxQuery    *query;

	check_can_step(function);
	query = sx_api_owned_query(name);
	sx_query_lock_control(query->id);
	query = sx_api_read_again(query);
	if (query->wanted == SX_WANTED_RUNNING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("query \"%s\" is run by its worker", name),
				 errdetail("A session runs batches of a query that is not started."),
				 errhint("SELECT stop_query(%s) first; in the same transaction ROLLBACK starts it again.",
						 quote_literal_cstr(name))));
	if (sx_query_is_copy(query))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("query \"%s\" was restored from a dump or copied with its database", name),
				 errdetail("It has no state here yet."),
				 errhint("Start it once with start_query, or drop and create it.")));
	return sx_api_take_query(query);
}

static void
put_time(Datum *value, bool *isnull, TimestampTz time)
{
	*value = TimestampTzGetDatum(time);
	*isnull = time == SX_TIME_UNSET;
}

/* name; batch_id, input_rows, output_rows, late_rows, watermark, next_watermark, batch_timestamp, progress */
Datum
sx_api_run_batch(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);
	SxQuery    *query = take_for_steps(name, "run_batch()");
	SxSessionBatch batch;
	TupleDesc	desc;
	Datum		values[8];
	bool		nulls[8] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE || desc->natts != 8)
		elog(ERROR, "run_batch() is not declared as this library expects");
	if (!sx_session_run_batch(query, &batch))
		PG_RETURN_NULL();
	values[0] = Int64GetDatum(batch.id);
	values[1] = Int64GetDatum(batch.input_rows);
	values[2] = Int64GetDatum(batch.output_rows);
	values[3] = Int64GetDatum(batch.late_rows);
	put_time(&values[4], &nulls[4], batch.watermark);
	put_time(&values[5], &nulls[5], batch.next_watermark);
	put_time(&values[6], &nulls[6], batch.timestamp);
	values[7] = DirectFunctionCall1(jsonb_in, CStringGetDatum(batch.progress));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

/* name, to */
Datum
sx_api_advance_time(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);

	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("processing time must not be NULL")));
	sx_session_advance_time(take_for_steps(name, "advance_time()"), PG_GETARG_TIMESTAMPTZ(1));
	PG_RETURN_VOID();
}

Datum
sx_api_batch_timestamp(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(sx_session_clock());
}
