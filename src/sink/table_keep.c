/*
 * table_keep.c
 *		A table that keeps the newest row of each named key.
 *
 * For streams of changes, such as a compacted topic of Kafka: key_columns name the
 * key, and the batch's last row of a key is the one that counts, because the result
 * has the stream's order (plan/row_order.c).  A row for which column delete_when is
 * true deletes its key; the column itself goes into no table.
 *
 *	 newest		DISTINCT ON (key) ... ORDER BY key, number of the row DESC
 *	 delete		DELETE ... USING newest WHERE delete_when
 *	 insert		INSERT ... SELECT newest WHERE NOT delete_when ON CONFLICT (key) DO UPDATE
 *
 * A row without a key can be neither kept nor dropped: the batch fails because of
 * that row, which the quarantine takes where it is switched on.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/varlena.h"

#include "sink/rows_relation.h"
#include "sink/table_keep.h"

#define NUMBER	"\"streamx number\""

static AttrNumber
result_column(TupleDesc desc, const char *name, const char *option)
{
	for (int i = 0; i < desc->natts; i++)
		if (strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0)
			return i + 1;
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" of option \"%s\" does not exist", name, option),
			 errhint("The option names columns that the query returns.")));
}

bool
sx_table_keeps(const SxSinkConfig *config)
{
	return config->query->options.key_columns != NULL &&
		config->query->output_mode == SX_OUTPUT_UPDATE;
}

/* The result without the column that deletes. */
static TupleDesc
table_columns(const SxSinkConfig *config, AttrNumber left_out)
{
	TupleDesc	desc = CreateTemplateTupleDesc(config->desc->natts - 1);
	AttrNumber	to = 1;

	for (AttrNumber from = 1; from <= config->desc->natts; from++)
		if (from != left_out)
			TupleDescCopyEntry(desc, to++, config->desc, from);
	return desc;
}

static TupleDesc
without_delete_column(const SxSinkConfig *config)
{
	const char *name = config->query->options.delete_when;
	AttrNumber	attnum;

	if (name == NULL)
		return CreateTupleDescCopy(config->desc);
	attnum = result_column(config->desc, name, "delete_when");
	if (getBaseType(TupleDescAttr(config->desc, attnum - 1)->atttypid) != BOOLOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("column \"%s\" of option \"delete_when\" must be boolean, but is of type %s", name,
						format_type_be(TupleDescAttr(config->desc, attnum - 1)->atttypid)),
				 errhint("Return a condition, such as: value IS NULL AS %s.", quote_identifier(name))));
	return table_columns(config, attnum);
}

SxSinkConfig *
sx_table_keep_config(const SxSinkConfig *config)
{
	SxSinkConfig *kept = palloc(sizeof(SxSinkConfig));
	const char *key_columns = config->query->options.key_columns;
	AttrNumber *keys;
	List	   *names;
	ListCell   *lc;

	*kept = *config;
	kept->desc = without_delete_column(config);
	if (!SplitIdentifierString(pstrdup(key_columns), ',', &names) || names == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"key_columns\" is not a list of columns: \"%s\"", key_columns),
				 errhint("Separate names by commas; names that need quotes stand in double quotes.")));
	keys = palloc(sizeof(AttrNumber) * list_length(names));
	kept->nkeys = 0;
	foreach(lc, names)
	{
		AttrNumber	attnum = result_column(kept->desc, lfirst(lc), "key_columns");

		for (int i = 0; i < kept->nkeys; i++)
			if (keys[i] == attnum)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("option \"key_columns\" names column \"%s\" twice", (char *) lfirst(lc))));
		keys[kept->nkeys++] = attnum;
	}
	kept->keys = keys;
	return kept;
}

void
sx_table_keep_check_rows(const SxSinkConfig *config, const SxResult *result)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(result->desc, &TTSOpsMinimalTuple);
	AttrNumber *keys = palloc(sizeof(AttrNumber) * config->nkeys);

	for (int i = 0; i < config->nkeys; i++)
		keys[i] = result_column(result->desc, NameStr(TupleDescAttr(config->desc, config->keys[i] - 1)->attname),
								"key_columns");
	tuplestore_rescan(result->rows);
	while (tuplestore_gettupleslot(result->rows, true, false, slot))
		for (int i = 0; i < config->nkeys; i++)
			if (slot_attisnull(slot, keys[i]))
				ereport(ERROR,
						(errcode(ERRCODE_NOT_NULL_VIOLATION),
						 errmsg("a row for table \"%s\" has no key", config->query->sink_name),
						 errdetail("Column \"%s\" is NULL, and the table keeps the newest row of each key.",
								   NameStr(TupleDescAttr(config->desc, config->keys[i] - 1)->attname)),
						 errhint("Leave such rows out by a WHERE clause, or put them aside with option \"on_error\" \"quarantine\".")));
	ExecDropSingleTupleTableSlot(slot);
	pfree(keys);
}

/* By the table's types: two keys of the result may be one there. */
static void
put_newest(StringInfo out, Relation rel, const SxSinkConfig *config)
{
	StringInfoData keys;

	initStringInfo(&keys);
	for (int i = 0; i < config->nkeys; i++)
	{
		if (i > 0)
			appendStringInfoString(&keys, ", ");
		sx_table_put_result_column(&keys, rel, config, config->keys[i]);
	}
	appendStringInfo(out, "(SELECT DISTINCT ON (%s) b.* FROM (SELECT b.*, "
					 "pg_catalog.row_number() OVER () AS " NUMBER " FROM " SX_SINK_ROWS " AS b) AS b "
					 "ORDER BY %s, b." NUMBER " DESC)", keys.data, keys.data);
}

char *
sx_table_keep_insert_sql(Relation rel, const SxSinkConfig *config)
{
	const char *delete_when = config->query->options.delete_when;
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfo(&out, "INSERT INTO %s AS t (%s) SELECT %s FROM ",
					 sx_sink_relation_name(rel),
					 sx_sink_column_list(config->desc, 0, NULL, NULL),
					 sx_sink_column_list(config->desc, 0, NULL, "b"));
	put_newest(&out, rel, config);
	appendStringInfoString(&out, " AS b");
	if (delete_when != NULL)
		appendStringInfo(&out, " WHERE b.%s IS NOT TRUE", quote_identifier(delete_when));
	sx_table_put_upsert(&out, config);
	return out.data;
}

char *
sx_table_keep_delete_sql(Relation rel, const SxSinkConfig *config)
{
	const char *delete_when = config->query->options.delete_when;
	StringInfoData out;

	if (delete_when == NULL)
		return NULL;
	initStringInfo(&out);
	appendStringInfo(&out, "DELETE FROM %s AS t USING ", sx_sink_relation_name(rel));
	put_newest(&out, rel, config);
	appendStringInfo(&out, " AS b WHERE b.%s", quote_identifier(delete_when));
	for (int i = 0; i < config->nkeys; i++)
	{
		appendStringInfoString(&out, " AND ");
		sx_table_put_key_equal(&out, rel, config, config->keys[i]);
	}
	return out.data;
}
