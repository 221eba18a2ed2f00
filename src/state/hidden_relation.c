/*
 * hidden_relation.c
 *		DefineRelation as the extension's owner.
 *
 * Called directly and not as SQL text, so that no event trigger, search_path or
 * right of the current user has a say in it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "catalog/toasting.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "commands/tablecmds.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "storage/lmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "base/compat.h"
#include "state/hidden_relation.h"

#define DATA_SCHEMA		"streamx_data"

static Oid
extension_owner(Oid extension)
{
	Relation	relation = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			owner = InvalidOid;

	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(extension));
	scan = systable_beginscan(relation, ExtensionOidIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
	systable_endscan(scan);
	table_close(relation, AccessShareLock);
	return owner;
}

Oid
sx_hidden_find(const char *name)
{
	Oid			schema = get_namespace_oid(DATA_SCHEMA, true);

	return OidIsValid(schema) ? get_relname_relid(name, schema) : InvalidOid;
}

static void
create_index(Oid relation, const char *name, List *key)
{
	IndexStmt  *statement = makeNode(IndexStmt);
	ListCell   *cell;

	statement->relation = makeRangeVar(DATA_SCHEMA, pstrdup(name), -1);
	statement->idxname = psprintf("%s_key", name);
	statement->accessMethod = "btree";
	foreach(cell, key)
	{
		IndexElem  *element = makeNode(IndexElem);

		element->name = (char *) lfirst(cell);
		element->ordering = SORTBY_DEFAULT;
		element->nulls_ordering = SORTBY_NULLS_DEFAULT;
		statement->indexParams = lappend(statement->indexParams, element);
	}
	statement->transformed = true;
	sx_define_index(relation, statement);
}

Oid
sx_hidden_create(const char *name, char persistence, List *columns,
				 List *options, List *key)
{
	CreateStmt *statement = makeNode(CreateStmt);
	Oid			extension = get_extension_oid("streamx", false);
	Oid			owner = extension_owner(extension);
	ObjectAddress address;
	ObjectAddress member;
	Oid			saved_user;
	int			saved_context;

	statement->relation = makeRangeVar(DATA_SCHEMA, pstrdup(name), -1);
	statement->relation->relpersistence = persistence;
	statement->tableElts = columns;
	statement->options = options;
	statement->oncommit = ONCOMMIT_NOOP;

	/* an error ends the transaction, which puts the user back */
	GetUserIdAndSecContext(&saved_user, &saved_context);
	SetUserIdAndSecContext(owner, saved_context | SECURITY_LOCAL_USERID_CHANGE);
	address = DefineRelation(statement, RELKIND_RELATION, owner, NULL, NULL);
	CommandCounterIncrement();
	if (key != NIL)
	{
		NewRelationCreateToastTable(address.objectId, (Datum) 0);
		create_index(address.objectId, name, key);
		CommandCounterIncrement();
	}
	SetUserIdAndSecContext(saved_user, saved_context);

	ObjectAddressSet(member, ExtensionRelationId, extension);
	recordDependencyOn(&address, &member, DEPENDENCY_EXTENSION);
	return address.objectId;
}

void
sx_hidden_drop(const char *name)
{
	ObjectAddress address;
	Oid			relation = sx_hidden_find(name);

	if (!OidIsValid(relation))
		return;
	/* nobody but the query's worker locks it, and that is gone */
	LockRelationOid(relation, AccessExclusiveLock);
	sx_leave_extension(relation);
	CommandCounterIncrement();
	ObjectAddressSet(address, RelationRelationId, relation);
	performDeletion(&address, DROP_CASCADE, PERFORM_DELETION_INTERNAL);
}
