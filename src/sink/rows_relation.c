/*
 * rows_relation.c
 *		Runs a sink's SQL over the rows of a batch.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_collation.h"
#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/queryenvironment.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "sink/rows_relation.h"

/*
 * What the planner is told of a batch, whatever its size: plans are kept, and
 * one made for an empty batch would be a disaster for a full one.
 */
#define PLANNED_ROWS	10000

static void
register_rows(const char *quoted_name, TupleDesc desc, Tuplestorestate *rows)
{
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));

	enr->md.name = pnstrdup(quoted_name + 1, strlen(quoted_name) - 2);
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = desc;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = PLANNED_ROWS;
	enr->reldata = rows;
	if (SPI_register_relation(enr) != SPI_OK_REL_REGISTER)
		elog(ERROR, "could not register relation %s", quoted_name);
}

void
sx_sink_connect(const SxResult *result)
{
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	register_rows(SX_SINK_ROWS, result->desc, result->rows);
	if (result->fresh != NULL)
		register_rows(SX_SINK_FRESH, result->desc, result->fresh);
	if (result->gone != NULL)
		register_rows(SX_SINK_GONE, result->gone_desc, result->gone);
}

void
sx_sink_disconnect(void)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
}

int64
sx_statement_run(SxStatement *statement)
{
	int			rc;

	if (statement->plan == NULL)
	{
		SPIPlanPtr	plan = SPI_prepare(statement->sql, 0, NULL);

		if (plan == NULL || SPI_keepplan(plan) != 0)
			elog(ERROR, "could not plan \"%s\"", statement->sql);
		statement->plan = plan;
	}
	rc = SPI_execute_plan(statement->plan, NULL, NULL, false, 0);
	if (rc < 0)
		elog(ERROR, "could not run \"%s\": %s", statement->sql,
			 SPI_result_code_string(rc));
	return SPI_processed;
}

void
sx_statement_forget(SxStatement *statement)
{
	if (statement->plan != NULL)
		SPI_freeplan(statement->plan);
	statement->plan = NULL;
	statement->sql = NULL;
}

char *
sx_sink_column_list(TupleDesc desc, int n, const AttrNumber *attnums, const char *alias)
{
	StringInfoData out;

	initStringInfo(&out);
	if (attnums == NULL)
		n = desc->natts;
	for (int i = 0; i < n; i++)
	{
		int			attnum = attnums != NULL ? attnums[i] : i + 1;
		const char *name = NameStr(TupleDescAttr(desc, attnum - 1)->attname);

		if (i > 0)
			appendStringInfoString(&out, ", ");
		if (alias != NULL)
			appendStringInfo(&out, "%s.", alias);
		appendStringInfoString(&out, quote_identifier(name));
	}
	return out.data;
}

char *
sx_sink_relation_name(Relation rel)
{
	return quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
									  RelationGetRelationName(rel));
}

char *
sx_sink_collation_name(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	result = quote_qualified_identifier(get_namespace_name(form->collnamespace),
										NameStr(form->collname));
	ReleaseSysCache(tuple);
	return result;
}
