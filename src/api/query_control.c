/*
 * query_control.c
 *		start_query, stop_query, drop_query.
 *
 * What is wanted is the row of streamx.query; its commit only wakes the
 * scheduler. Stop and drop take the query from its worker first and hold it
 * until the transaction ends (worker/hold.h).
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/query_definition.h"
#include "api/query_loop.h"
#include "api/query_view.h"
#include "base/settings.h"
#include "monitor/shared.h"
#include "worker/hold.h"

PG_FUNCTION_INFO_V1(sx_api_start_query);
PG_FUNCTION_INFO_V1(sx_api_start_query_anew);
PG_FUNCTION_INFO_V1(sx_api_create_and_start_query);
PG_FUNCTION_INFO_V1(sx_api_stop_query);
PG_FUNCTION_INFO_V1(sx_api_drop_query);

/* ---------- start ---------- */

static void
check_on_rewind(const char *on_rewind)
{
	if (on_rewind == NULL || strcmp(on_rewind, "new_incarnation") == 0 ||
		strcmp(on_rewind, "continue_after_sink") == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("invalid value for \"on_rewind\": \"%s\"", on_rewind),
			 errhint("Use new_incarnation or continue_after_sink. To create and start a query in one call, give its sink too.")));
}

/*
 * Whatever can be seen wrong is said here rather than by a worker: rights, what
 * cannot be streamed any more, a state that doesn't fit, a loop.
 */
static void
check_can_run(SxQuery *query)
{
	SxPlan	   *plan = sx_query_view_plan(query, false);

	if (query->layout != NULL)
		sx_layout_check(query->name, query->layout, plan);
	/* again: two that were created at the same time did not see each other */
	sx_query_check_loop(query, plan);
}

static void
start_query(const char *name, const char *on_rewind, bool reset)
{
	SxQuery    *query;

	PreventCommandIfReadOnly("start_query()");
	PreventCommandDuringRecovery("start_query()");
	sx_shared_require();
	check_on_rewind(on_rewind);
	query = sx_api_owned_query(name);
	sx_hold_refuse_own_batch(query);
	sx_query_lock_control(query->id);
	query = sx_api_read_again(query);
	if (query->wanted == SX_WANTED_RUNNING)
	{
		ereport(NOTICE, (errmsg("query \"%s\" is running already", name)));
		return;
	}
	if (reset || sx_query_is_copy(query))
	{
		/* Nothing of what this database may hold under its id is this query's. */
		sx_api_reset_checkpoint(query);
		sx_query_view_depend(query);
	}
	check_can_run(query);
	if (on_rewind != NULL)
		query->on_rewind = pstrdup(on_rewind);	/* else an earlier decision still stands */
	query->wanted = SX_WANTED_RUNNING;
	sx_query_update(query);
	sx_hold_wake_at_commit();
	if (!sx_enabled)
		ereport(NOTICE,
				(errmsg("query \"%s\" will run when streamx.enabled is on", name)));
}

Datum
sx_api_start_query(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);

	start_query(name, sx_api_text_arg(fcinfo, 1), false);
	PG_RETURN_VOID();
}

Datum
sx_api_start_query_anew(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);

	start_query(name, NULL, !PG_ARGISNULL(1) && PG_GETARG_BOOL(1));
	PG_RETURN_VOID();
}

Datum
sx_api_create_and_start_query(PG_FUNCTION_ARGS)
{
	SxNewQuery	new;

	sx_shared_require();
	sx_new_query_args(fcinfo, &new);
	sx_query_create(&new);
	start_query(new.name, NULL, false);
	PG_RETURN_VOID();
}

/* ---------- stop ---------- */

Datum
sx_api_stop_query(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);
	int64		timeout = sx_api_timeout_arg(fcinfo, 1);
	SxQuery    *query;
	bool		aborted;
	bool		ended;

	PreventCommandIfReadOnly("stop_query()");
	PreventCommandDuringRecovery("stop_query()");
	query = sx_api_owned_query(name);
	ended = sx_hold_query(query, timeout >= 0 ? timeout : sx_stop_timeout, &aborted);
	if (aborted && ended)
		ereport(NOTICE,
				(errmsg("the running batch of query \"%s\" was aborted", name),
				 errdetail("Nothing of it was committed; it runs again when the query is started.")));
	query = sx_api_read_again(query);
	if (query->wanted == SX_WANTED_RUNNING)
		sx_query_set_wanted(query->id, SX_WANTED_STOPPED);
	if (!ended)
		ereport(WARNING,
				(errmsg("the worker of query \"%s\" has not ended yet", name),
				 errdetail("It was told to, and ends as soon as it can.")));
	PG_RETURN_BOOL(ended);
}

/* ---------- drop ---------- */

Datum
sx_api_drop_query(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);
	bool		if_exists = !PG_ARGISNULL(1) && PG_GETARG_BOOL(1);
	SxQuery    *query;
	ObjectAddress view;

	PreventCommandIfReadOnly("drop_query()");
	PreventCommandDuringRecovery("drop_query()");
	if (sx_query_by_name(name, true) == NULL && if_exists)
	{
		ereport(NOTICE, (errmsg("query \"%s\" does not exist, skipping", name)));
		PG_RETURN_VOID();
	}
	query = sx_api_take_query(sx_api_owned_query(name));
	if (get_rel_relkind(query->view) == RELKIND_VIEW)
	{
		ObjectAddressSet(view, RelationRelationId, query->view);
		performDeletion(&view, DROP_RESTRICT, 0);
	}
	sx_api_forget_query(query->id);
	PG_RETURN_VOID();
}
