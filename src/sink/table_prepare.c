/*
 * table_prepare.c
 *		Checks the table of a query, or makes a missing one.
 *
 * Everything that could be wrong is said by create_query, before a batch runs:
 * kind of relation, rights, columns by name and type, and in update and complete
 * mode a unique index whose columns are exactly the result's key.  (With another
 * key the deletion of one group would remove the row of another.)
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "executor/spi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "parser/parse_coerce.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "base/compat.h"
#include "sink/rows_relation.h"
#include "sink/sinks.h"
#include "sink/table_keep.h"

#define KEYED_FILLFACTOR	70

/* ---- an existing table ---- */

static void
check_kind(Relation rel, const SxSinkConfig *config)
{
	char		relkind = rel->rd_rel->relkind;

	if (relkind == RELKIND_FOREIGN_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("foreign table \"%s\" cannot be the sink of a query",
						RelationGetRelationName(rel)),
				 errdetail("The other server would commit on its own, so after a crash rows could be lost or doubled there."),
				 errhint("Write into an ordinary table or a stream, and let the other server read that.")));
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" cannot be the sink of a query",
						RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(relkind)));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("temporary table \"%s\" cannot be the sink of a query",
						RelationGetRelationName(rel)),
				 errdetail("The query runs in another process, which does not see it.")));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
		ereport(WARNING,
				(errmsg("sink table \"%s\" is unlogged", RelationGetRelationName(rel)),
				 errdetail("A crash of the server empties it, and the query does not write the lost rows again.")));
	if (IsCatalogRelation(rel) || RelationGetNamespace(rel) == sx_catalog_namespace())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied: \"%s\" is a system catalog",
						RelationGetRelationName(rel))));
}

static bool
is_keyed(SxTableStrategy strategy)
{
	return strategy == SX_TABLE_UPSERT || strategy == SX_TABLE_KEEP ||
		strategy == SX_TABLE_REPLACE_BY_KEY;
}

static void
check_rights(Relation rel, const SxSinkConfig *config, SxTableStrategy strategy)
{
	AclMode		wanted = ACL_INSERT;
	AclResult	result;

	if (is_keyed(strategy))
		wanted |= ACL_SELECT | ACL_UPDATE | ACL_DELETE;
	else if (strategy == SX_TABLE_REPLACE_ROWS)
		wanted |= ACL_SELECT | ACL_DELETE;

	result = pg_class_aclmask(RelationGetRelid(rel), config->query->owner, wanted,
							  ACLMASK_ALL) == wanted ? ACLCHECK_OK : ACLCHECK_NO_PRIV;
	if (result == ACLCHECK_NO_PRIV && strategy == SX_TABLE_ADD)
		result = pg_attribute_aclcheck_all(RelationGetRelid(rel), config->query->owner,
										   ACL_INSERT, ACLMASK_ALL);
	if (result != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for sink table \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Role \"%s\", which owns query \"%s\", needs %s on it.",
						   GetUserNameFromId(config->query->owner, false),
						   config->query->name,
						   strategy == SX_TABLE_ADD ? "INSERT" :
						   strategy == SX_TABLE_REPLACE_ROWS ? "SELECT, INSERT and DELETE" :
						   "SELECT, INSERT, UPDATE and DELETE")));

	/* Triggers of the table run with the rights of the query's owner. */
	if (superuser_arg(config->query->owner) && !superuser_arg(rel->rd_rel->relowner))
		ereport(WARNING,
				(errmsg("query \"%s\" of a superuser writes into table \"%s\" of role \"%s\"",
						config->query->name, RelationGetRelationName(rel),
						GetUserNameFromId(rel->rd_rel->relowner, false)),
				 errdetail("Triggers that this role puts on the table run with the superuser's rights."),
				 errhint("Let a role without superuser rights own the query.")));
}

static AttrNumber
column_number(TupleDesc desc, const char *name)
{
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && namestrcmp(&att->attname, name) == 0)
			return att->attnum;
	}
	return InvalidAttrNumber;
}

static void
check_column(Relation rel, const SxSinkConfig *config, Form_pg_attribute result)
{
	const char *name = NameStr(result->attname);
	AttrNumber	attnum = column_number(RelationGetDescr(rel), name);
	Form_pg_attribute column;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("sink \"%s\" has no column \"%s\"",
						RelationGetRelationName(rel), name),
				 errdetail("Query \"%s\" has a result column of that name.", config->query->name),
				 errhint("Add the column to the sink, or rename the result column with AS.")));
	column = TupleDescAttr(RelationGetDescr(rel), attnum - 1);
	if (column->attgenerated != '\0' || column->attidentity == ATTRIBUTE_IDENTITY_ALWAYS)
		ereport(ERROR,
				(errcode(ERRCODE_GENERATED_ALWAYS),
				 errmsg("column \"%s\" of sink \"%s\" is generated and cannot be written",
						name, RelationGetRelationName(rel)),
				 errhint("Give the result column another name with AS, or leave it out.")));
	if (!can_coerce_type(1, &result->atttypid, &column->atttypid, COERCION_ASSIGNMENT))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of sink \"%s\" is of type %s but the result is of type %s",
						name, RelationGetRelationName(rel),
						format_type_be(column->atttypid), format_type_be(result->atttypid)),
				 errhint("Cast the result column to the type of the sink's column.")));
}

void
sx_sink_check_columns(Relation rel, const SxSinkConfig *config)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < config->desc->natts; i++)
		check_column(rel, config, TupleDescAttr(config->desc, i));

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped || !att->attnotnull || att->atthasdef ||
			att->attidentity != '\0')
			continue;
		if (column_number(config->desc, NameStr(att->attname)) == InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_NOT_NULL_VIOLATION),
					 errmsg("column \"%s\" of sink \"%s\" must have a value, but query \"%s\" has no such column",
							NameStr(att->attname), RelationGetRelationName(rel),
							config->query->name),
					 errhint("Give the column a default, or let the query return it.")));
	}
}

/* Can ON CONFLICT (key) rely on this index, for every key, NULLs too? */
static bool
index_is_key(Relation rel, Oid index_oid, const SxSinkConfig *config)
{
	Relation	index = index_open(index_oid, AccessShareLock);
	Form_pg_index form = index->rd_index;
	bool		fits;

	fits = form->indisunique && form->indisvalid && form->indimmediate &&
		form->indnkeyatts == config->nkeys &&
		RelationGetIndexPredicate(index) == NIL &&
		RelationGetIndexExpressions(index) == NIL;
	for (int i = 0; fits && i < config->nkeys; i++)
	{
		const char *name = NameStr(TupleDescAttr(config->desc, config->keys[i] - 1)->attname);
		AttrNumber	attnum = column_number(RelationGetDescr(rel), name);
		bool		found = false;

		for (int j = 0; j < form->indnkeyatts; j++)
			found |= form->indkey.values[j] == attnum;
		/* Without one a row is not kept. */
		fits = found && (sx_table_keeps(config) || form->indnullsnotdistinct ||
						 TupleDescAttr(RelationGetDescr(rel), attnum - 1)->attnotnull);
	}
	index_close(index, AccessShareLock);
	return fits;
}

static void
check_key(Relation rel, const SxSinkConfig *config)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;
	char	   *keys;

	foreach(lc, indexes)
		if (index_is_key(rel, lfirst_oid(lc), config))
			return;
	keys = sx_sink_column_list(config->desc, config->nkeys, config->keys, NULL);
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
			 errmsg("sink table \"%s\" has no unique index on the key of query \"%s\"",
					RelationGetRelationName(rel), config->query->name),
			 errdetail("A row of the result is identified by (%s). With another key, rows of different groups would overwrite each other.",
					   keys),
			 errhint("CREATE UNIQUE INDEX ON %s (%s) NULLS NOT DISTINCT;",
					 sx_sink_relation_name(rel), keys)));
}

void
sx_table_sink_check(Relation rel, const SxSinkConfig *config)
{
	SxTableStrategy strategy = sx_table_strategy(config);

	check_kind(rel, config);
	check_rights(rel, config, strategy);
	sx_sink_check_columns(rel, config);
	if (is_keyed(strategy))
		check_key(rel, config);
}

/* ---- a missing table ---- */

static void
run(const char *sql)
{
	int			rc = SPI_execute(sql, false, 0);

	if (rc < 0)
		elog(ERROR, "could not run \"%s\": %s", sql, SPI_result_code_string(rc));
}

/*
 * Made by the caller of create_query with his rights, in his transaction, where
 * an unqualified name would put it.
 */
static void
create_table(RangeVar *name, const SxSinkConfig *config)
{
	SxTableStrategy strategy = sx_table_strategy(config);
	bool		keyed = is_keyed(strategy);
	Oid			namespace = RangeVarGetCreationNamespace(name);
	const char *qualified = quote_qualified_identifier(get_namespace_name(namespace),
													   name->relname);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE TABLE %s (", qualified);
	for (int i = 0; i < config->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(config->desc, i);

		appendStringInfo(&sql, "%s%s %s", i > 0 ? ", " : "",
						 quote_identifier(NameStr(att->attname)),
						 format_type_extended(att->atttypid, att->atttypmod,
											  FORMAT_TYPE_TYPEMOD_GIVEN |
											  FORMAT_TYPE_FORCE_QUALIFY));
		if (OidIsValid(att->attcollation) &&
			att->attcollation != get_typcollation(att->atttypid))
			appendStringInfo(&sql, " COLLATE %s",
							 sx_sink_collation_name(att->attcollation));
	}
	if (keyed)
		appendStringInfo(&sql, strategy == SX_TABLE_KEEP ? ", PRIMARY KEY (%s)" : ", UNIQUE NULLS NOT DISTINCT (%s)",
						 sx_sink_column_list(config->desc, config->nkeys, config->keys, NULL));
	appendStringInfoChar(&sql, ')');
	/* Room on the page for the next version of a row: no index entry, half the cost. */
	if (keyed)
		appendStringInfo(&sql, " WITH (fillfactor = %d)", KEYED_FILLFACTOR);

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	run(sql.data);
	/* Keys may be NULL, so logical replication has nothing shorter to go by. */
	if (strategy != SX_TABLE_ADD && strategy != SX_TABLE_KEEP)
		run(psprintf("ALTER TABLE %s REPLICA IDENTITY FULL", qualified));
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	CommandCounterIncrement();
}

void
sx_table_sink_prepare(SxQuery *query, const SxSinkConfig *config)
{
	Relation	rel;

	if (sx_table_keeps(config))
		config = sx_table_keep_config(config);
	sx_table_strategy(config);	/* refuses missing keys before a table is made */
	if (!OidIsValid(query->sink_relation))
	{
		RangeVar   *name =
			makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(query->sink_name)));

		query->sink_relation = RangeVarGetRelid(name, AccessShareLock, true);
		if (!OidIsValid(query->sink_relation))
		{
			create_table(name, config);
			query->sink_relation = RangeVarGetRelid(name, AccessShareLock, false);
		}
	}
	rel = table_open(query->sink_relation, AccessShareLock);
	sx_table_sink_check(rel, config);
	table_close(rel, NoLock);
}
