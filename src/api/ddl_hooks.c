/*
 * ddl_hooks.c
 *		DROP, RENAME and copy of a database, DROP EXTENSION, and whatever drops
 *		the view of a query.
 *
 * A connected worker would block the first ones, and hold relations of the
 * extension; so ours end first and come back when the statement's transaction is
 * over. Views are watched by an event trigger, which also works for a cascade.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "api/api.h"
#include "api/ddl_hooks.h"
#include "base/compat.h"
#include "monitor/shared.h"
#include "source/fdw.h"
#include "worker/hold.h"

PG_FUNCTION_INFO_V1(sx_api_on_drop);

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

/* ---------- statements ---------- */

/* Nobody pauses the queries of a database that he could not touch anyway. */
static void
hold_database_by_name(const char *name)
{
	Oid			database = get_database_oid(name, true);

	if (OidIsValid(database) &&
		(superuser() || sx_database_ownercheck(database, GetUserId())))
		sx_hold_database(database);
}

static DefElem *
find_option(List *options, const char *name)
{
	ListCell   *lc;

	foreach(lc, options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, name) == 0 && option->arg != NULL)
			return option;
	}
	return NULL;
}

static void
hold_template(const CreatedbStmt *stmt)
{
	DefElem    *option = find_option(stmt->options, "template");

	if (option != NULL)
		hold_database_by_name(defGetString(option));
}

static void
hold_for_drop(const DropStmt *stmt)
{
	ListCell   *lc;

	if (stmt->removeType != OBJECT_EXTENSION)
		return;
	foreach(lc, stmt->objects)
	{
		Oid			extension = get_extension_oid(strVal(lfirst(lc)), true);

		if (OidIsValid(extension) && strcmp(strVal(lfirst(lc)), "streamx") == 0 &&
			sx_extension_ownercheck(extension, GetUserId()))
			sx_hold_database(MyDatabaseId);
	}
}

/*
 * The temporary table of a foreach_batch query belongs to its owner, too: DROP
 * OWNED locks it, and the worker, told to end by the event trigger below, would
 * wait for that lock in order to drop the table itself.
 */
static void
hold_for_drop_owned(const DropOwnedStmt *stmt)
{
	List	   *roles = NIL;
	ListCell   *lc;

	foreach(lc, stmt->roles)
		roles = lappend_oid(roles, get_rolespec_oid(lfirst_node(RoleSpec, lc), true));
	if (!sx_extension_installed())
		return;
	foreach(lc, sx_query_list())
	{
		const SxQuery *query = lfirst(lc);
		bool		aborted;

		if (list_member_oid(roles, query->owner) && OidIsValid(query->owner) &&
			has_privs_of_role(GetUserId(), query->owner))
			(void) sx_hold_query(query, 0, &aborted);
	}
}

/*
 * Statements with the password of a user mapping stay out of the log, also when
 * they fail for a reason that the validator never sees (a mapping that exists, a
 * right that is missing). Those of other wrappers are their own business.
 */
static bool
holds_secret(Node *stmt)
{
	const char *name = NULL;
	ForeignServer *server;

	if (IsA(stmt, CreateUserMappingStmt))
		name = ((CreateUserMappingStmt *) stmt)->servername;
	else if (IsA(stmt, AlterUserMappingStmt))
		name = ((AlterUserMappingStmt *) stmt)->servername;
	if (name == NULL)
		return false;
	server = GetForeignServerByName(name, true);
	return server == NULL || sx_fdw_of_server(server->serverid) != NULL;	/* a mistyped name */
}

static void
hide_statement(void *arg)
{
	errhidestmt(true);
}

static void
process_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *environment, DestReceiver *dest, QueryCompletion *completion)
{
	Node	   *stmt = pstmt->utilityStmt;
	ErrorContextCallback callback = {
		.previous = error_context_stack,
		.callback = hide_statement
	};

	/* Before the statement's own locks: a worker may be waiting for them. */
	if (IsTransactionState())
	{
		if (IsA(stmt, DropdbStmt))
			hold_database_by_name(((DropdbStmt *) stmt)->dbname);
		else if (IsA(stmt, CreatedbStmt))
			hold_template((CreatedbStmt *) stmt);
		else if (IsA(stmt, RenameStmt) && ((RenameStmt *) stmt)->renameType == OBJECT_DATABASE)
			hold_database_by_name(((RenameStmt *) stmt)->subname);
		else if (IsA(stmt, AlterDatabaseStmt) &&
				 find_option(((AlterDatabaseStmt *) stmt)->options, "tablespace") != NULL)
			hold_database_by_name(((AlterDatabaseStmt *) stmt)->dbname);
		else if (IsA(stmt, DropStmt))
			hold_for_drop((DropStmt *) stmt);
		else if (IsA(stmt, DropOwnedStmt))
			hold_for_drop_owned((DropOwnedStmt *) stmt);
		else if (holds_secret(stmt))
			error_context_stack = &callback;
	}
	if (prev_process_utility)
		prev_process_utility(pstmt, query_string, read_only_tree, context, params,
							 environment, dest, completion);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context, params,
								environment, dest, completion);
	error_context_stack = callback.previous;

	/* No callback of the transaction that was prepared runs then. */
	if (IsA(stmt, TransactionStmt) && ((TransactionStmt *) stmt)->kind == TRANS_STMT_COMMIT_PREPARED)
		sx_wake_publisher(MyDatabaseId);
}

/* However the extension goes (DROP OWNED too): its workers go first. */
static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id, int sub_id, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && class_id == ExtensionRelationId && sub_id == 0 &&
		object_id == get_extension_oid("streamx", true))
		sx_hold_database(MyDatabaseId);
}

void
sx_ddl_hooks_install(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = object_access;
}

/* ---------- views that went ---------- */

/*
 * Event trigger sql_drop: forgets the queries whose view is no more, whatever
 * dropped it. Their batches are aborted: there is nothing left to finish for.
 */
Datum
sx_api_on_drop(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("on_drop() is an event trigger function")));
	if (!sx_extension_installed())
		PG_RETURN_NULL();
	foreach(lc, sx_query_list_without_view())
	{
		SxQuery    *query = lfirst(lc);
		bool		aborted;

		if (!sx_hold_query(query, 0, &aborted))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("the worker of query \"%s\" does not end", query->name),
					 errhint("Drop it with drop_query first.")));
		ereport(NOTICE, (errmsg("query \"%s\" is dropped with its view", query->name)));
		sx_api_forget_query(query->id);
	}
	PG_RETURN_NULL();
}
