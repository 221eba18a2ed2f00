/*
 * state_relation.c
 *		streamx.state, state_changes, state_metadata: the state of a query as
 *		relations (Spark's State Data Source).
 *
 * They read the log with the snapshot of the statement that calls them: what a
 * join with the query's result table shows is of one batch.  Nothing is stopped
 * and nothing is written, so they work on a standby.
 *
 * The owner's functions run in it (final functions, casts, operators of keys), so
 * with the owner's rights, whoever asks.
 */
#include "postgres.h"

#include "catalog/pg_authid.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/guc.h"
#include "utils/json.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/query_view.h"
#include "base/errors.h"
#include "checkpoint/batch_record.h"
#include "exec/state_view.h"
#include "state/state_reader.h"

PG_FUNCTION_INFO_V1(sx_api_state);
PG_FUNCTION_INFO_V1(sx_api_state_changes);
PG_FUNCTION_INFO_V1(sx_api_state_metadata);

/* One call of state or state_changes. */
typedef struct Request
{
	ReturnSetInfo *rsinfo;
	SxQuery    *query;
	SxStateRead read;
	SxStateShow *show;
	bool		arrays;
	bool		changes;
} Request;

/* State holds what the query read: the owner's, or for who may read all data. */
static SxQuery *
readable_query(const char *name)
{
	SxQuery    *query = sx_query_by_name(name, false);

	if (!superuser() && !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_DATA) &&
		!(OidIsValid(query->owner) && has_privs_of_role(GetUserId(), query->owner)))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of query \"%s\"", name),
				 errdetail("Its state holds what it has read.")));
	return query;
}

/* The plan that wrote the state. */
static SxPlan *
plan_of_state(const SxQuery *query)
{
	SxPlan	   *plan = sx_query_view_plan(query, false);

	if (query->layout != NULL && plan->layout != NULL)
		sx_layout_check(query->name, query->layout, plan);
	return plan;
}

/* ---------- arguments ---------- */

static void
not_negative(int64 value, const char *what)
{
	if (value < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", what)));
}

/* A batch that the query has committed and still keeps. */
static void
check_batch(const SxQuery *query, int64 batch, int64 oldest, int64 newest)
{
	if (batch > newest)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("query \"%s\" has not committed batch " INT64_FORMAT, query->name, batch),
				 errdetail("Its last batch is " INT64_FORMAT ".", newest)));
	if (batch < oldest)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the state of batch " INT64_FORMAT " is not kept any more", batch),
				 errdetail("The oldest batch whose state can be read is " INT64_FORMAT ".", oldest),
				 errhint("Option batches_to_retain of the query says how many batches are kept.")));
}

/* False: the query has no state yet. */
static bool
kept_batches(const SxQuery *query, Snapshot snapshot, int64 *oldest, int64 *newest)
{
	if (sx_query_is_copy(query) ||
		!sx_batch_record_span(query->id, snapshot, oldest, newest))
		return false;
	*oldest = Max(*oldest, sx_state_oldest_batch(query->id, snapshot));
	return true;
}

static int
group_arg(FunctionCallInfo fcinfo, int n)
{
	int			group;

	if (PG_ARGISNULL(n))
		return SX_ALL_GROUPS;
	group = PG_GETARG_INT32(n);
	if (group < 0 || group >= SX_KEY_GROUPS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("key group %d does not exist", group),
				 errdetail("Key groups are numbered from 0 to %d.", SX_KEY_GROUPS - 1)));
	return group;
}

/* ---------- rows ---------- */

static void
put_row(void *arg, const SxStateRow *row)
{
	Request    *request = arg;
	Datum		values[6];
	bool		nulls[6] = {false};
	int			n = 0;

	if (request->changes)
	{
		values[n++] = Int64GetDatum(row->batch);
		values[n++] = CStringGetTextDatum(row->value == 0 ? "delete" : "update");
	}
	values[n++] = row->key;
	nulls[n] = row->value == 0;
	values[n++] = row->value;
	nulls[n] = row->expiry == SX_STATE_NEVER;
	values[n++] = TimestampTzGetDatum(row->expiry);
	values[n++] = Int32GetDatum(row->group);
	tuplestore_putvalues(request->rsinfo->setResult, request->rsinfo->setDesc, values, nulls);
}

static void
show_entry(void *arg, const SxStateChange *change)
{
	Request    *request = arg;

	CHECK_FOR_INTERRUPTS();
	if (request->changes)
		sx_state_show_change(request->show, change);
	else
		sx_state_show_entry(request->show, change);
}

static void
read_state(Request *request, const SxPlan *plan, int operator_id, const char *store)
{
	SxStateOperator stores[SX_MAX_STORES];
	SxUserSwitch saved;
	int			level = NewGUCNestLevel();
	int			n;

	/* ranges of times are to look like times in JSON; what functions of the owner set ends here, too */
	(void) set_config_option("datestyle", "ISO", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	sx_user_become(&saved, request->query->owner);
	request->show = sx_state_show_open(plan, operator_id, store, request->arrays, put_row, request);
	n = sx_state_show_stores(request->show, stores);
	for (int i = 0; i < n; i++)
	{
		request->read.op = stores[i];
		sx_state_read(&request->read, show_entry, request);
	}
	sx_state_show_end(request->show);
	sx_user_back(&saved);
	AtEOXact_GUC(false, level);
}

/* query, operator, store, batch_id, group_id, snapshot_start_batch_id, flatten */
Datum
sx_api_state(PG_FUNCTION_ARGS)
{
	Request		request = {(ReturnSetInfo *) fcinfo->resultinfo};
	SxPlan	   *plan;
	int64		oldest;
	int64		newest;

	request.query = readable_query(sx_api_name_arg(fcinfo));
	InitMaterializedSRF(fcinfo, 0);
	request.read.query_id = request.query->id;
	request.read.snapshot = GetActiveSnapshot();
	request.read.changes_from = -1;
	request.read.group = group_arg(fcinfo, 4);
	plan = plan_of_state(request.query);
	if (!kept_batches(request.query, request.read.snapshot, &oldest, &newest))
		return (Datum) 0;
	request.read.batch = newest;
	if (!PG_ARGISNULL(3))
	{
		request.read.batch = PG_GETARG_INT64(3);
		not_negative(request.read.batch, "batch_id");
		check_batch(request.query, request.read.batch, oldest, newest);
	}
	request.read.snapshots_until = request.read.batch;
	if (!PG_ARGISNULL(5))
	{
		int64		start = PG_GETARG_INT64(5);

		not_negative(start, "snapshot_start_batch_id");
		if (start > request.read.batch)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("snapshot_start_batch_id must not be after the batch")));
		request.read.snapshots_until = start;
	}
	request.arrays = !PG_ARGISNULL(6) && !PG_GETARG_BOOL(6);
	read_state(&request, plan, PG_ARGISNULL(1) ? 0 : PG_GETARG_INT32(1),
			   sx_api_text_arg(fcinfo, 2));
	return (Datum) 0;
}

/* query, from_batch_id, to_batch_id, operator, store, group_id */
Datum
sx_api_state_changes(PG_FUNCTION_ARGS)
{
	Request		request = {(ReturnSetInfo *) fcinfo->resultinfo};
	SxPlan	   *plan;
	int64		oldest;
	int64		newest;

	request.query = readable_query(sx_api_name_arg(fcinfo));
	InitMaterializedSRF(fcinfo, 0);
	request.changes = true;
	request.read.query_id = request.query->id;
	request.read.snapshot = GetActiveSnapshot();
	request.read.group = group_arg(fcinfo, 5);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("from_batch_id must not be NULL")));
	request.read.changes_from = PG_GETARG_INT64(1);
	not_negative(request.read.changes_from, "from_batch_id");
	plan = plan_of_state(request.query);
	if (!kept_batches(request.query, request.read.snapshot, &oldest, &newest))
		return (Datum) 0;
	request.read.batch = PG_ARGISNULL(2) ? newest : PG_GETARG_INT64(2);
	check_batch(request.query, request.read.batch, oldest, newest);
	if (request.read.batch < request.read.changes_from)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("to_batch_id must not be before from_batch_id")));
	request.read.snapshots_until = request.read.batch;
	read_state(&request, plan, PG_ARGISNULL(3) ? 0 : PG_GETARG_INT32(3),
			   sx_api_text_arg(fcinfo, 4));
	return (Datum) 0;
}

/* ---------- metadata ---------- */

static void
print_columns(StringInfo json, TupleDesc desc)
{
	appendStringInfoChar(json, '{');
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (i > 0)
			appendStringInfoString(json, ", ");
		escape_json(json, NameStr(att->attname));
		appendStringInfoString(json, ": ");
		escape_json(json, format_type_with_typemod(att->atttypid, att->atttypmod));
	}
	appendStringInfoChar(json, '}');
}

static Datum
store_properties(const SxStateShow *show)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"key\": ");
	print_columns(&json, show->key);
	appendStringInfoString(&json, ", \"value\": ");
	print_columns(&json, show->value);
	if (show->properties != NULL)
		appendStringInfo(&json, ", %s", show->properties);
	appendStringInfoChar(&json, '}');
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json.data));
}

static void
put_operator(ReturnSetInfo *rsinfo, const SxQuery *query, const SxPlan *plan,
			 const SxPlanOperator *op, int64 oldest, int64 newest)
{
	const SxOperatorRoutine *routine = sx_operator_routine(op->kind);
	const SxNamedStore *stores = routine->stores != NULL ? routine->stores(op) : NULL;
	Datum		values[7];
	bool		nulls[7] = {false};
	SxUserSwitch saved;

	values[0] = Int32GetDatum(op->id);
	values[1] = CStringGetTextDatum(op->spark_name);
	values[3] = Int32GetDatum(SX_KEY_GROUPS);
	nulls[4] = nulls[5] = newest < 0;
	values[4] = Int64GetDatum(oldest);
	values[5] = Int64GetDatum(newest);
	for (int i = 0; stores != NULL && stores[i].name != NULL; i++)
	{
		sx_user_become(&saved, query->owner);
		values[6] = store_properties(sx_state_show_open(plan, op->id, stores[i].name, false, NULL, NULL));
		sx_user_back(&saved);
		values[2] = CStringGetTextDatum(stores[i].name);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
}

Datum
sx_api_state_metadata(PG_FUNCTION_ARGS)
{
	SxQuery    *query = sx_api_visible_query(sx_api_name_arg(fcinfo));
	SxPlan	   *plan;
	int64		oldest = -1;
	int64		newest = -1;

	InitMaterializedSRF(fcinfo, 0);
	plan = sx_query_view_plan(query, false);
	if (plan->noperators > 0)
		(void) kept_batches(query, GetActiveSnapshot(), &oldest, &newest);
	for (int i = 0; i < plan->noperators; i++)
		put_operator((ReturnSetInfo *) fcinfo->resultinfo, query, plan, plan->operators[i],
					 oldest, newest);
	return (Datum) 0;
}
