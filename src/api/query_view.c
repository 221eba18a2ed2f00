/*
 * query_view.c
 *		Views streamx_query.<name>, made without CREATE VIEW.
 *
 * The text is analysed as the caller, whose search_path and rights count; the
 * view is made by the extension's owner, since the caller needs no CREATE right
 * on the schema, and belongs to the query's owner from the start. DefineView()
 * does both as one role, so its steps are taken one by one here.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "commands/tablecmds.h"
#include "commands/view.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "parser/analyze.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "rewrite/rewriteHandler.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "api/query_view.h"
#include "base/compat.h"
#include "base/errors.h"

#define VIEW_SCHEMA	"streamx_query"

void
sx_user_become(SxUserSwitch *saved, Oid role)
{
	GetUserIdAndSecContext(&saved->userid, &saved->sec_context);
	SetUserIdAndSecContext(role, saved->sec_context | SECURITY_LOCAL_USERID_CHANGE |
						   SECURITY_RESTRICTED_OPERATION);
}

/* After an error the end of the transaction does it. */
void
sx_user_back(const SxUserSwitch *saved)
{
	SetUserIdAndSecContext(saved->userid, saved->sec_context);
}

/* ---------- text to Query ---------- */

typedef struct TextContext
{
	const char *name;
	const char *text;
} TextContext;

/* Cursors point into the query's text, not into the call of create_query. */
static void
text_error_callback(void *arg)
{
	TextContext *context = arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(context->text);
	}
	errcontext("continuous query \"%s\"", context->name);
}

static RawStmt *
single_select(const char *text)
{
	List	   *statements = raw_parser(text, RAW_PARSE_DEFAULT);
	RawStmt    *raw;

	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("a continuous query is one SELECT statement"),
				 errdetail("The text has %d statements.", list_length(statements))));
	raw = linitial_node(RawStmt, statements);
	if (!IsA(raw->stmt, SelectStmt))
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("a continuous query must be a SELECT"),
				 errhint("What it writes to is the argument \"sink\".")));
	if (((SelectStmt *) raw->stmt)->intoClause != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a continuous query cannot have INTO"),
				 errhint("What it writes to is the argument \"sink\".")));
	return raw;
}

static void
check_shape(Query *select)
{
	if (select->commandType != CMD_SELECT || select->utilityStmt != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a continuous query must be a SELECT")));
	if (select->hasModifyingCTE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a continuous query cannot modify data in WITH"),
				 errhint("Write from a trigger on the sink, or use foreach_batch.")));
	if (isQueryUsingTempRelation(select))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a continuous query cannot read temporary tables or views"),
				 errdetail("It runs in another process, which does not see them.")));
}

Query *
sx_query_text_analyze(const char *query_name, const char *text)
{
	TextContext context = {query_name, text};
	ErrorContextCallback callback;
	Query	   *select;

	callback.callback = text_error_callback;
	callback.arg = &context;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	select = parse_analyze_fixedparams(single_select(text), text, NULL, 0, NULL);
	check_shape(select);

	error_context_stack = callback.previous;
	return select;
}

/* ---------- rights ---------- */

static bool
check_rights_walker(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, Query))
	{
		Query	   *query = (Query *) node;

		(void) sx_check_permissions(query, true);
		return query_tree_walker(query, check_rights_walker, context, 0);
	}
	return expression_tree_walker(node, check_rights_walker, context);
}

/* ---------- the view ---------- */

static List *
column_definitions(Query *select)
{
	List	   *columns = NIL;
	ListCell   *lc;

	foreach(lc, select->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr = (Node *) tle->expr;
		ColumnDef  *column;

		if (tle->resjunk)
			continue;
		column = makeColumnDef(tle->resname, exprType(expr), exprTypmod(expr),
							   exprCollation(expr));
		if (type_is_collatable(exprType(expr)) && !OidIsValid(column->collOid))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_COLLATION),
					 errmsg("could not determine which collation to use for result column \"%s\"",
							column->colname),
					 errhint("Use the COLLATE clause to set the collation explicitly.")));
		columns = lappend(columns, column);
	}
	if (columns == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("a continuous query needs at least one result column")));
	return columns;
}

void
sx_query_view_create(SxQuery *query, Query *select)
{
	CreateStmt *stmt = makeNode(CreateStmt);
	SxUserSwitch saved;
	ObjectAddress address;

	stmt->relation = makeRangeVar(VIEW_SCHEMA, query->name, -1);
	stmt->relation->relpersistence = RELPERSISTENCE_PERMANENT;
	stmt->tableElts = column_definitions(select);
	stmt->oncommit = ONCOMMIT_NOOP;

	sx_user_become(&saved, sx_extension_owner());
	address = DefineRelation(stmt, RELKIND_VIEW, query->owner, NULL, NULL);
	CommandCounterIncrement();
	StoreViewQuery(address.objectId, select, false);
	CommandCounterIncrement();
	sx_user_back(&saved);
	query->view = address.objectId;
}

static bool
same_columns(Oid view, Query *select)
{
	Relation	rel = relation_open(view, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	List	   *columns = column_definitions(select);
	bool		same = desc->natts == list_length(columns);

	for (int i = 0; same && i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		ColumnDef  *column = list_nth(columns, i);

		same = namestrcmp(&att->attname, column->colname) == 0 &&
			att->atttypid == column->typeName->typeOid &&
			att->atttypmod == column->typeName->typemod &&
			att->attcollation == column->collOid;
	}
	relation_close(rel, NoLock);
	return same;
}

void
sx_query_view_replace(SxQuery *query, Query *select)
{
	ObjectAddress old;
	SxUserSwitch saved;

	LockRelationOid(query->view, AccessExclusiveLock);
	if (same_columns(query->view, select))
	{
		sx_user_become(&saved, sx_extension_owner());
		StoreViewQuery(query->view, select, true);
		CommandCounterIncrement();
		sx_user_back(&saved);
		return;
	}
	/* Refused, with its name, if something of the user's depends on the old columns. */
	ObjectAddressSet(old, RelationRelationId, query->view);
	performDeletion(&old, DROP_RESTRICT, 0);
	CommandCounterIncrement();
	sx_query_view_create(query, select);
}

SxPlan *
sx_query_view_plan(const SxQuery *query, bool notices)
{
	Relation	view = relation_open(query->view, AccessShareLock);
	Query	   *select = copyObject(get_view_query(view));

	relation_close(view, NoLock);
	return sx_query_select_plan(query, select, notices);
}

SxPlan *
sx_query_select_plan(const SxQuery *query, Query *select, bool notices)
{
	SxUserSwitch saved;
	SxPlan	   *plan;
	ListCell   *lc;

	sx_user_become(&saved, query->owner);
	(void) check_rights_walker((Node *) select, NULL);
	plan = sx_plan_query(select, query->output_mode);
	sx_user_back(&saved);

	if (notices)
		foreach(lc, plan->notices)
			ereport(NOTICE, (errmsg_internal("%s", (char *) lfirst(lc))));
	return plan;
}

/* ---------- dependencies ---------- */

void
sx_query_view_depend(const SxQuery *query)
{
	ObjectAddress view;
	ObjectAddress other;

	ObjectAddressSet(view, RelationRelationId, query->view);
	if (OidIsValid(query->sink_relation))
	{
		ObjectAddressSet(other, RelationRelationId, query->sink_relation);
		recordDependencyOn(&view, &other, DEPENDENCY_NORMAL);
	}
	if (OidIsValid(query->sink_function))
	{
		ObjectAddressSet(other, ProcedureRelationId, query->sink_function);
		recordDependencyOn(&view, &other, DEPENDENCY_NORMAL);
	}
}

void
sx_query_view_undepend(const SxQuery *query)
{
	if (OidIsValid(query->sink_relation))
		deleteDependencyRecordsForSpecific(RelationRelationId, query->view, DEPENDENCY_NORMAL,
										   RelationRelationId, query->sink_relation);
	if (OidIsValid(query->sink_function))
		deleteDependencyRecordsForSpecific(RelationRelationId, query->view, DEPENDENCY_NORMAL,
										   ProcedureRelationId, query->sink_function);
}
