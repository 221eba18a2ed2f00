/*
 * stream_readers.c
 *		Which queries read a stream.
 *
 * A query that has run a batch reads the streams of its last batch record, and
 * there is how far it came. One that has not run yet reads what its view depends
 * on, directly or through other views; it has no position.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_rewrite.h"
#include "rewrite/rewriteSupport.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "checkpoint/batch_record.h"
#include "registry/query.h"
#include "source/stream_readers.h"

/* Relations that the view's rule depends on. */
static List *
view_references(Oid view)
{
	Oid			rule = get_rewrite_oid(view, "_RETURN", true);
	Relation	rel;
	ScanKeyData key[2];
	SysScanDesc scan;
	HeapTuple	tuple;
	List	   *result = NIL;

	if (!OidIsValid(rule))
		return NIL;
	rel = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&key[0], Anum_pg_depend_classid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RewriteRelationId));
	ScanKeyInit(&key[1], Anum_pg_depend_objid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(rule));
	scan = systable_beginscan(rel, DependDependerIndexId, true, NULL, 2, key);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend depend = (Form_pg_depend) GETSTRUCT(tuple);

		if (depend->refclassid == RelationRelationId)
			result = list_append_unique_oid(result, depend->refobjid);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

static bool
view_reads(Oid view, Oid stream)
{
	List	   *seen = list_make1_oid(view);

	for (int i = 0; i < list_length(seen); i++)
	{
		Oid			relid = list_nth_oid(seen, i);

		if (relid == stream)
			return true;
		if (get_rel_relkind(relid) == RELKIND_VIEW)
			seen = list_concat_unique_oid(seen, view_references(relid));
	}
	return false;
}

/* A checkpoint that can't be read concerns its query; here it only means "not known". */
static SxStreamOffset *
parse_offset(const char *name, const char *text)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	SxStreamOffset *volatile offset = NULL;

	PG_TRY();
	{
		offset = sx_stream_offset_parse(name, text);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(oldcontext);
		FlushErrorState();		/* parsing took no lock and no resource */
	}
	PG_END_TRY();
	return offset;
}

List *
sx_stream_readers(Oid stream, const char *name)
{
	List	   *readers = NIL;
	ListCell   *lc;

	foreach(lc, sx_query_list())
	{
		SxQuery    *query = (SxQuery *) lfirst(lc);
		SxBatchRecord *record;
		SxStreamReader *reader;
		bool		reads = false;

		if (sx_query_is_copy(query))
			continue;
		reader = palloc0(sizeof(SxStreamReader));
		reader->query = query->name;
		record = sx_batch_record_last(query->id);
		if (record == NULL)
			reads = view_reads(query->view, stream);
		for (int i = 0; record != NULL && i < record->nsources; i++)
		{
			if (record->sources[i].relid != stream)
				continue;
			reads = true;
			if (record->sources[i].end != NULL)
				reader->offset = parse_offset(name, record->sources[i].end);
		}
		if (reads)
			readers = lappend(readers, reader);
	}
	return readers;
}
