/*
 * query_common.c
 *		Arguments, rights, and what drop, alter and the event trigger share.
 */
#include "postgres.h"

#include <limits.h>

#include "catalog/pg_authid.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/query_view.h"
#include "base/settings.h"
#include "checkpoint/batch_record.h"
#include "checkpoint/outbox.h"
#include "registry/failure.h"
#include "registry/quarantine.h"
#include "state/state_store.h"
#include "worker/hold.h"

char *
sx_api_text_arg(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? NULL : text_to_cstring(PG_GETARG_TEXT_PP(n));
}

char *
sx_api_name_arg(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the name of a query must not be NULL")));
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

int64
sx_api_timeout_arg(FunctionCallInfo fcinfo, int n)
{
	Interval   *interval;
	int64		ms;

	if (PG_ARGISNULL(n))
		return -1;
	interval = PG_GETARG_INTERVAL_P(n);
	ms = interval->time / 1000 + (int64) interval->day * (USECS_PER_DAY / 1000) +
		(int64) interval->month * DAYS_PER_MONTH * (USECS_PER_DAY / 1000);
	if (ms < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must not be negative")));
	return Min(ms, INT_MAX);
}

SxQuery *
sx_api_owned_query(const char *name)
{
	SxQuery    *query = sx_query_by_name(name, false);

	if (!has_privs_of_role(GetUserId(), query->owner) && !superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of query \"%s\"", name)));
	return query;
}

bool
sx_api_may_see(const SxQuery *query)
{
	Oid			role = GetUserId();

	return superuser() || has_privs_of_role(role, ROLE_PG_MONITOR) ||
		(OidIsValid(query->owner) && has_privs_of_role(role, query->owner));
}

SxQuery *
sx_api_visible_query(const char *name)
{
	SxQuery    *query = sx_query_by_name(name, false);

	if (!sx_api_may_see(query))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be owner of query \"%s\"", name)));
	return query;
}

SxQuery *
sx_api_read_again(const SxQuery *query)
{
	SxQuery    *now = sx_query_by_id(query->id, true);

	if (now == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("query \"%s\" was dropped meanwhile", query->name)));
	return now;
}

SxQuery *
sx_api_take_query(const SxQuery *query)
{
	bool		aborted;

	if (!sx_hold_query(query, sx_stop_timeout, &aborted))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the worker of query \"%s\" does not end", query->name),
				 errhint("Try again, or end it with pg_terminate_backend.")));
	if (aborted)
		ereport(NOTICE,
				(errmsg("the running batch of query \"%s\" was aborted after %d ms",
						query->name, sx_stop_timeout),
				 errdetail("Nothing of it was committed; it runs again when the query is started.")));
	/* What the worker wrote last, and what others did while we waited for the lock. */
	return sx_api_read_again(query);
}

void
sx_api_reset_checkpoint(SxQuery *query)
{
	SxUserSwitch saved;

	sx_user_become(&saved, sx_extension_owner());
	sx_state_drop(query->id);
	sx_state_create(query->id);
	sx_user_back(&saved);
	sx_batch_record_delete_all(query->id);
	sx_outbox_delete_all(query->id);
	sx_failure_delete_all(query->id);
	sx_quarantine_delete_all(query->id);
	sx_uuid_random(&query->incarnation);
	query->database = MyDatabaseId;
	query->layout = NULL;
	query->on_rewind = NULL;
}

void
sx_api_forget_query(int64 id)
{
	SxUserSwitch saved;

	sx_user_become(&saved, sx_extension_owner());
	sx_state_drop(id);
	sx_user_back(&saved);
	sx_batch_record_delete_all(id);
	sx_outbox_delete_all(id);
	sx_failure_delete_all(id);
	sx_quarantine_delete_all(id);
	sx_query_delete(id);
}

char *
sx_api_failure_hint(const SxQuery *query, const SxFailure *failure)
{
	const char *then = query->wanted == SX_WANTED_RUNNING ?
		"it is tried again by itself" :
		psprintf("then SELECT start_query(%s)", quote_literal_cstr(query->name));

	if (failure->hint != NULL)
		return failure->hint;
	if (strcmp(failure->sqlstate, unpack_sql_state(ERRCODE_INSUFFICIENT_PRIVILEGE)) == 0 &&
		OidIsValid(query->owner))
	{
		char	   *owner = GetUserNameFromId(query->owner, true);

		return psprintf("Grant role \"%s\", which owns the query, what it lacks; %s.",
						owner != NULL ? owner : "?", then);
	}
	return psprintf("Nothing of the batch was committed. Remove the cause; %s.", then);
}
