/*
 * catalog.c
 *		Where the catalog is, and who owns it.
 *
 * No cache of our own: each of these is a lookup in the server's caches, which
 * follow DROP and CREATE EXTENSION by themselves.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/namespace.h"
#include "catalog/pg_extension.h"
#include "commands/extension.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "registry/query.h"

#define SX_EXTENSION	"streamx"
#define SX_SCHEMA		"streamx"

bool
sx_extension_installed(void)
{
	return OidIsValid(get_extension_oid(SX_EXTENSION, true));
}

Oid
sx_catalog_namespace(void)
{
	Oid			namespace_oid = InvalidOid;

	/* A schema of that name proves nothing without the extension. */
	if (sx_extension_installed())
		namespace_oid = get_namespace_oid(SX_SCHEMA, true);
	if (!OidIsValid(namespace_oid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("extension \"%s\" is not installed in this database", SX_EXTENSION),
				 errhint("Run CREATE EXTENSION streamx.")));
	return namespace_oid;
}

Oid
sx_extension_owner(void)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	Oid			owner = InvalidOid;

	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_extname, BTEqualStrategyNumber, F_NAMEEQ,
				CStringGetDatum(SX_EXTENSION));
	scan = systable_beginscan(rel, ExtensionNameIndexId, true, NULL, 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		owner = ((Form_pg_extension) GETSTRUCT(tuple))->extowner;
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	if (!OidIsValid(owner))
		(void) sx_catalog_namespace();	/* raises the error */
	return owner;
}

Oid
sx_catalog_relation(const char *name)
{
	Oid			relid = get_relname_relid(name, sx_catalog_namespace());

	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation \"%s.%s\" does not exist", SX_SCHEMA, name),
				 errhint("The installed extension is of another version; see ALTER EXTENSION streamx UPDATE.")));
	return relid;
}

Relation
sx_catalog_open(const char *name, int natts, LOCKMODE mode)
{
	Relation	rel = table_open(sx_catalog_relation(name), mode);

	if (RelationGetNumberOfAttributes(rel) != natts)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table %s.%s is of another version of streamx than the library", SX_SCHEMA, name),
				 errdetail("It has %d columns, and %d are known.", RelationGetNumberOfAttributes(rel), natts),
				 errhint("Run ALTER EXTENSION streamx UPDATE, or install the library that belongs to the extension and restart the server.")));
	return rel;
}
