/*
 * table_statements.c
 *		The SQL that brings a result into a table.
 *
 *	 add		INSERT ... SELECT
 *	 upsert		INSERT ... SELECT ... ORDER BY key ON CONFLICT (key) DO UPDATE
 *				where something differs, and DELETE of the keys that are gone;
 *				keys that are known to be new: INSERT ... SELECT ... ORDER BY key
 *	 keep		see table_keep.c
 *	 replace	DELETE of what the complete result lacks, then an upsert; without
 *				keys both sides are numbered copies of equal rows
 *
 * Sorting by key lets two writers of a table meet without a deadlock, and keeps
 * neighbours of the index together.  "Differs" is the bytes' word, not that of
 * the type's "=": a table shall show 1.00 where the result says so, and types
 * without "=" can be results too.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_operator.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/typcache.h"

#include "sink/rows_relation.h"
#include "sink/table_keep.h"
#include "sink/table_statements.h"

#define IMAGE_EQ	"OPERATOR(pg_catalog.*=)"
#define IMAGE_NE	"OPERATOR(pg_catalog.*<>)"

static bool
is_key(const SxSinkConfig *config, int attnum)
{
	for (int i = 0; i < config->nkeys; i++)
		if (config->keys[i] == attnum)
			return true;
	return false;
}

/* The table's column of that name; errors as the server would if it is gone. */
static Form_pg_attribute
table_column(Relation rel, const char *name)
{
	TupleDesc	desc = RelationGetDescr(rel);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped && strcmp(NameStr(att->attname), name) == 0)
			return att;
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of sink table \"%s\" does not exist",
					name, RelationGetRelationName(rel)),
			 errdetail("The query has a result column of that name."),
			 errhint("Was it dropped or renamed? Add it again, or create the query with another sink.")));
}

static char *
result_name(const SxSinkConfig *config, int attnum)
{
	return NameStr(TupleDescAttr(config->desc, attnum - 1)->attname);
}

/* expr as the table's column has it: its type, and its collation for comparing. */
static void
put_cast(StringInfo out, const char *expr, Form_pg_attribute column)
{
	appendStringInfo(out, "(%s)::%s", expr,
					 format_type_extended(column->atttypid, column->atttypmod,
										  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	if (OidIsValid(column->attcollation))
		appendStringInfo(out, " COLLATE %s", sx_sink_collation_name(column->attcollation));
}

/* ROW(b.a::type, ...)::pg_catalog.record over the given result columns (NULL: all), as the table has them. */
static void
put_result_row(StringInfo out, Relation rel, const SxSinkConfig *config,
			   int n, const AttrNumber *attnums)
{
	if (attnums == NULL)
		n = config->desc->natts;
	appendStringInfoString(out, "ROW(");
	for (int i = 0; i < n; i++)
	{
		char	   *name = result_name(config, attnums != NULL ? attnums[i] : i + 1);

		if (i > 0)
			appendStringInfoString(out, ", ");
		put_cast(out, psprintf("b.%s", quote_identifier(name)), table_column(rel, name));
	}
	appendStringInfoString(out, ")::pg_catalog.record");
}

static void
put_table_row(StringInfo out, const SxSinkConfig *config, int n, const AttrNumber *attnums)
{
	appendStringInfo(out, "ROW(%s)::pg_catalog.record",
					 sx_sink_column_list(config->desc, n, attnums, "t"));
}

/* ORDER BY the keys whose types have an order. */
static void
put_key_order(StringInfo out, const SxSinkConfig *config)
{
	const char *separator = " ORDER BY ";

	for (int i = 0; i < config->nkeys; i++)
	{
		Form_pg_attribute att = TupleDescAttr(config->desc, config->keys[i] - 1);

		if (!OidIsValid(lookup_type_cache(att->atttypid, TYPECACHE_LT_OPR)->lt_opr))
			continue;
		appendStringInfo(out, "%sb.%s", separator, quote_identifier(NameStr(att->attname)));
		separator = ", ";
	}
}

/* ON CONFLICT (keys) DO UPDATE SET the others, where one of them differs. */
static void
put_on_conflict(StringInfo out, const SxSinkConfig *config)
{
	StringInfoData set;
	StringInfoData was;
	StringInfoData is;
	const char *separator = "";

	appendStringInfo(out, " ON CONFLICT (%s) DO ",
					 sx_sink_column_list(config->desc, config->nkeys, config->keys, NULL));
	if (config->nkeys == config->desc->natts)
	{
		appendStringInfoString(out, "NOTHING");
		return;
	}
	initStringInfo(&set);
	initStringInfo(&was);
	initStringInfo(&is);
	for (int attnum = 1; attnum <= config->desc->natts; attnum++)
	{
		const char *name = quote_identifier(result_name(config, attnum));

		if (is_key(config, attnum))
			continue;
		appendStringInfo(&set, "%s%s = EXCLUDED.%s", separator, name, name);
		appendStringInfo(&was, "%st.%s", separator, name);
		appendStringInfo(&is, "%sEXCLUDED.%s", separator, name);
		separator = ", ";
	}
	appendStringInfo(out, "UPDATE SET %s WHERE ROW(%s)::pg_catalog.record " IMAGE_NE " ROW(%s)::pg_catalog.record",
					 set.data, was.data, is.data);
}

/*
 * Rows of both sides as text, the copies of equal ones numbered.  Text works for
 * every type; the order of the numbers does not matter.
 */
static char *
numbered_result(Relation rel, const SxSinkConfig *config)
{
	StringInfoData row;

	initStringInfo(&row);
	put_result_row(&row, rel, config, 0, NULL);
	return psprintf("(SELECT b.*, %s::pg_catalog.text AS \"streamx row\", "
					"pg_catalog.row_number() OVER (PARTITION BY %s::pg_catalog.text) AS \"streamx copy\" "
					"FROM " SX_SINK_ROWS " AS b)", row.data, row.data);
}

static char *
numbered_table(Relation rel, const SxSinkConfig *config)
{
	StringInfoData row;

	initStringInfo(&row);
	put_table_row(&row, config, 0, NULL);
	return psprintf("(SELECT t.tableoid AS \"streamx table\", t.ctid AS \"streamx ctid\", "
					"%s::pg_catalog.text AS \"streamx row\", "
					"pg_catalog.row_number() OVER (PARTITION BY %s::pg_catalog.text) AS \"streamx copy\" "
					"FROM %s AS t)", row.data, row.data, sx_sink_relation_name(rel));
}

#define SAME_NUMBERED_ROW(a, b) \
	a ".\"streamx row\" OPERATOR(pg_catalog.=) " b ".\"streamx row\" AND " \
	a ".\"streamx copy\" OPERATOR(pg_catalog.=) " b ".\"streamx copy\""

void
sx_table_put_upsert(StringInfo out, const SxSinkConfig *config)
{
	put_key_order(out, config);
	put_on_conflict(out, config);
}

void
sx_table_put_result_column(StringInfo out, Relation rel, const SxSinkConfig *config, AttrNumber attnum)
{
	char	   *name = result_name(config, attnum);

	put_cast(out, psprintf("b.%s", quote_identifier(name)), table_column(rel, name));
}

char *
sx_table_insert_sql(Relation rel, const SxSinkConfig *config, SxTableStrategy strategy)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "INSERT INTO %s AS t (%s) SELECT %s FROM ",
					 sx_sink_relation_name(rel),
					 sx_sink_column_list(config->desc, 0, NULL, NULL),
					 sx_sink_column_list(config->desc, 0, NULL, "b"));
	switch (strategy)
	{
		case SX_TABLE_ADD:
			appendStringInfoString(&out, SX_SINK_ROWS " AS b");
			break;
		case SX_TABLE_UPSERT:
		case SX_TABLE_REPLACE_BY_KEY:
			appendStringInfoString(&out, SX_SINK_ROWS " AS b");
			sx_table_put_upsert(&out, config);
			break;
		case SX_TABLE_KEEP:
			return sx_table_keep_insert_sql(rel, config);
		case SX_TABLE_REPLACE_ROWS:
			appendStringInfo(&out,
							 "%s AS b WHERE NOT EXISTS (SELECT FROM %s AS old WHERE "
							 SAME_NUMBERED_ROW("old", "b") ")",
							 numbered_result(rel, config), numbered_table(rel, config));
			break;
	}
	return out.data;
}

char *
sx_table_insert_fresh_sql(Relation rel, const SxSinkConfig *config, bool upsert)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "INSERT INTO %s AS t (%s) SELECT %s FROM " SX_SINK_FRESH " AS b",
					 sx_sink_relation_name(rel),
					 sx_sink_column_list(config->desc, 0, NULL, NULL),
					 sx_sink_column_list(config->desc, 0, NULL, "b"));
	put_key_order(&out, config);
	if (upsert)
		put_on_conflict(&out, config);
	return out.data;
}

char *
sx_table_delete_vanished_sql(Relation rel, const SxSinkConfig *config,
							 SxTableStrategy strategy)
{
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "DELETE FROM %s AS t ", sx_sink_relation_name(rel));
	if (strategy == SX_TABLE_REPLACE_BY_KEY)
	{
		/* A key of other bytes that is equal is deleted here and inserted afterwards. */
		appendStringInfoString(&out, "WHERE NOT EXISTS (SELECT FROM " SX_SINK_ROWS " AS b WHERE ");
		put_result_row(&out, rel, config, config->nkeys, config->keys);
		appendStringInfoString(&out, " " IMAGE_EQ " ");
		put_table_row(&out, config, config->nkeys, config->keys);
		appendStringInfoChar(&out, ')');
	}
	else
		appendStringInfo(&out,
						 "USING %s AS old "
						 "WHERE t.tableoid OPERATOR(pg_catalog.=) old.\"streamx table\" "
						 "AND t.ctid OPERATOR(pg_catalog.=) old.\"streamx ctid\" "
						 "AND NOT EXISTS (SELECT FROM %s AS new WHERE "
						 SAME_NUMBERED_ROW("new", "old") ")",
						 numbered_table(rel, config), numbered_result(rel, config));
	return out.data;
}

/* The type's "=", qualified: OPERATOR(schema.=). */
static char *
equality_operator(Oid type)
{
	Oid			eq = lookup_type_cache(type, TYPECACHE_EQ_OPR)->eq_opr;
	HeapTuple	tuple;
	Form_pg_operator form;
	char	   *result;

	if (!OidIsValid(eq))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify an equality operator for type %s",
						format_type_be(type))));
	tuple = SearchSysCache1(OPEROID, ObjectIdGetDatum(eq));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for operator %u", eq);
	form = (Form_pg_operator) GETSTRUCT(tuple);
	result = psprintf("OPERATOR(%s.%s)",
					  quote_identifier(get_namespace_name(form->oprnamespace)),
					  NameStr(form->oprname));
	ReleaseSysCache(tuple);
	return result;
}

void
sx_table_put_key_equal(StringInfo out, Relation rel, const SxSinkConfig *config, AttrNumber attnum)
{
	char	   *name = result_name(config, attnum);

	appendStringInfo(out, "t.%s %s ", quote_identifier(name),
					 equality_operator(table_column(rel, name)->atttypid));
	sx_table_put_result_column(out, rel, config, attnum);
}

char *
sx_table_delete_gone_sql(Relation rel, const SxSinkConfig *config, bool null_keys)
{
	StringInfoData out;
	StringInfoData any_null;

	initStringInfo(&out);
	initStringInfo(&any_null);
	appendStringInfo(&out, "DELETE FROM %s AS t USING " SX_SINK_GONE " AS g(",
					 sx_sink_relation_name(rel));
	for (int i = 0; i < config->nkeys; i++)
		appendStringInfo(&out, "%sk%d", i > 0 ? ", " : "", i);
	appendStringInfoString(&out, ") WHERE ");
	for (int i = 0; i < config->nkeys; i++)
	{
		char	   *name = result_name(config, config->keys[i]);
		const char *quoted = quote_identifier(name);
		Form_pg_attribute column = table_column(rel, name);

		if (i > 0)
			appendStringInfoString(&out, " AND ");
		appendStringInfo(&out, "(t.%s %s ", quoted, equality_operator(column->atttypid));
		put_cast(&out, psprintf("g.k%d", i), column);
		if (null_keys)
			appendStringInfo(&out, " OR t.%s IS NULL AND g.k%d IS NULL", quoted, i);
		appendStringInfoChar(&out, ')');
		appendStringInfo(&any_null, "%sg.k%d IS NULL", i > 0 ? " OR " : "", i);
	}
	if (null_keys)
		appendStringInfo(&out, " AND (%s)", any_null.data);
	return out.data;
}
