/*
 * source.c
 *		Opens the source of a stream, and reads ranges that no plan read to the end.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "executor/executor.h"
#include "foreign/foreign.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "source/event_times.h"
#include "source/fdw.h"
#include "source/table_stream.h"

bool
sx_relation_is_stream(Oid relid)
{
	return sx_fdw_of(relid) != NULL;
}

bool
sx_stream_is_insertable(Oid relid)
{
	const SxFdw *fdw = sx_fdw_of(relid);

	return fdw != NULL && fdw->routine(relid) == &sx_table_stream_routine;
}

/* By the word of its wrapper, which is not always the connector's own. */
bool
sx_stream_is_kafka(Oid relid)
{
	const SxFdw *fdw = sx_fdw_of(relid);

	return fdw != NULL && strcmp(fdw->routine(relid)->name, "kafka") == 0;
}

/* snake_case and camelCase alike. */
static bool
same_option(const char *given, const char *name)
{
	for (;; given++, name++)
	{
		while (*given == '_')
			given++;
		while (*name == '_')
			name++;
		if (pg_tolower((unsigned char) *given) != *name)
			return false;
		if (*name == '\0')
			return true;
	}
}

const char *
sx_stream_bound_option(Oid relid)
{
	static const char *const names[] = {
		"ending_offsets", "ending_offsets_by_timestamp", "ending_timestamp",
		"max_offsets_per_trigger", "max_trigger_delay", "min_offsets_per_trigger",
		"min_partitions"
	};
	ListCell   *lc;

	foreach(lc, GetForeignTable(relid)->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		for (int i = 0; i < lengthof(names); i++)
			if (same_option(option->defname, names[i]))
				return option->defname;
	}
	return NULL;
}

SxSource *
sx_source_open(Oid relid)
{
	Relation	rel = relation_open(relid, AccessShareLock);
	const SxFdw *fdw = sx_fdw_of(relid);
	SxSource   *source;

	if (fdw == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a stream", RelationGetRelationName(rel)),
				 errhint("Streams are made by CREATE STREAM, create_stream() or CREATE FOREIGN TABLE ... SERVER streamx.")));
	source = fdw->routine(relid)->open(rel);
	source->name = quote_qualified_identifier(get_namespace_name(RelationGetNamespace(rel)),
											  RelationGetRelationName(rel));
	relation_close(rel, NoLock);
	return source;
}

bool
sx_batch_source_extra(const SxBatchSource *source, int64 i, TupleTableSlot *slot)
{
	if (i >= source->nextra)
		return false;
	ExecClearTuple(slot);
	heap_deform_tuple(source->extra[i], slot->tts_tupleDescriptor, slot->tts_values,
					  slot->tts_isnull);
	ExecStoreVirtualTuple(slot);
	return true;
}

void
sx_batch_source_drain(SxBatchSource *batch)
{
	const SxSourceRoutine *routine = batch->source->routine;
	SxEventTimes times;
	Relation	rel;
	TupleTableSlot *slot = NULL;
	SxScan	   *scan;

	if (batch->counted)
		return;
	sx_event_times_begin(&times, batch);
	if (sx_batch_source_has_rows(batch))
	{
		rel = table_open(batch->source->relid, AccessShareLock);
		slot = MakeSingleTupleTableSlot(CreateTupleDescCopy(RelationGetDescr(rel)), &TTSOpsVirtual);
		for (int i = 0; sx_batch_source_extra(batch, i, slot); i++)
			sx_event_times_see(&times, slot);
		table_close(rel, NoLock);
	}
	if (batch->end != NULL)
	{
		scan = routine->scan_begin(batch->source, batch->start, batch->end);
		scan->last_needed = batch->event_attnum;
		scan->needed = bms_make_singleton(batch->event_attnum);
		while (routine->scan_next(scan, slot))
			sx_event_times_see(&times, slot);
		ExecClearTuple(slot);
		batch->dropped = scan->dropped;
		routine->scan_end(scan);
	}
	if (slot != NULL)
		ExecDropSingleTupleTableSlot(slot);
	sx_event_times_finish(&times, batch);
}
