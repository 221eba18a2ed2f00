/*
 * query_verify.c
 *		streamx.verify: does the sink hold what the query run as a batch gives?
 *
 *	 the newest batch record, and a snapshot in which it is the newest
 *	 the ranges from where the query began up to the record's offsets
 *	 the batch answer over them (exec/batch_answer.h) against the sink, by the
 *	 result's key if it has one, else as multisets; values are the same when their
 *	 type says so: equal ones may look different, as the first one did that came
 *
 * One row for each key that differs, and one for each thing that could not be
 * checked or that a difference may come from. No row: all is well.
 */
#include "postgres.h"

#include "access/table.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "api/api.h"
#include "api/query_view.h"
#include "checkpoint/batch_record.h"
#include "exec/batch_answer.h"
#include "monitor/progress.h"
#include "registry/quarantine.h"

PG_FUNCTION_INFO_V1(sx_api_verify);

#define ANSWER_ENR	"streamx batch answer"

/* Columns of the function. */
enum
{
	COL_KIND, COL_KEY, COL_EXPECTED, COL_FOUND, COL_DETAIL,
	NCOLS
};

typedef struct Verify
{
	SxQuery    *query;
	SxPlan	   *plan;
	SxBatchRecord *record;
	SxBatchSources sources;
	ReturnSetInfo *rsinfo;
} Verify;

static void
tell(Verify *verify, const char *kind, const char *detail)
{
	Datum		values[NCOLS] = {0};
	bool		nulls[NCOLS] = {false, true, true, true, false};

	values[COL_KIND] = CStringGetTextDatum(kind);
	values[COL_DETAIL] = CStringGetTextDatum(detail);
	tuplestore_putvalues(verify->rsinfo->setResult, verify->rsinfo->setDesc, values, nulls);
}

static void
tell_all(Verify *verify, const char *kind, List *details)
{
	ListCell   *cell;

	foreach(cell, details)
		tell(verify, kind, lfirst(cell));
}

/* ---- up to where ---- */

/*
 * Batch records are read as they are now, the rest by a snapshot. With the same
 * record before and after it was taken, they are one moment.
 */
static void
take_snapshot(Verify *verify)
{
	for (;;)
	{
		SxBatchRecord *before = sx_batch_record_last(verify->query->id);
		SxBatchRecord *after;

		PushActiveSnapshot(GetLatestSnapshot());
		after = sx_batch_record_last(verify->query->id);
		verify->record = after;
		if (after == NULL || (before != NULL && before->batch_id == after->batch_id))
			return;
		PopActiveSnapshot();
		CHECK_FOR_INTERRUPTS();
	}
}

static const char *
offset_of(const SxBatchRecord *record, Oid stream)
{
	for (int i = 0; record != NULL && i < record->nsources; i++)
		if (record->sources[i].relid == stream)
			return record->sources[i].end;
	return NULL;
}

/* False: the rows that the query read can't be read again; says so. */
static bool
make_range(Verify *verify, const SxBatchRecord *beginning, SxBatchSource *range, Oid stream)
{
	SxSource   *source = sx_source_open(stream);
	const SxSourceRoutine *routine = source->routine;
	const char *start = offset_of(beginning, stream);
	const char *end = offset_of(verify->record, stream);
	SxChoose	choose = {
		.snapshot = GetActiveSnapshot(),
		.now = GetCurrentTransactionStartTimestamp(),
		.max_rows = PG_INT64_MAX,
	};

	source->quarantine = verify->query->options.quarantine;
	range->source = source;
	range->counted = true;
	if (end == NULL)
		return true;
	if (routine->retained == NULL)
	{
		tell(verify, "not checked", psprintf("rows of stream %s, which is of kind \"%s\", cannot be read again",
											 source->name, routine->name));
		return false;
	}
	range->end = routine->offset_parse(source, end);
	if (start == NULL && (verify->query->options.starting_latest || routine->initial_varies))
	{
		tell(verify, "not checked", psprintf("where in stream %s the query began is not recorded", source->name));
		return false;
	}
	range->start = start != NULL ? routine->offset_parse(source, start) :
		routine->initial(source, false, &choose);
	if (!routine->retained(source, range->start, range->end))
	{
		tell(verify, "not checked", psprintf("stream %s no longer has all rows that the query has read",
											 source->name));
		return false;
	}
	return true;
}

static bool
make_ranges(Verify *verify)
{
	SxBatchRecord *beginning = sx_batch_record_read(verify->query->id, -1);
	bool		result = true;

	verify->sources.n = verify->plan->nsources;
	verify->sources.sources = palloc0(sizeof(SxBatchSource) * Max(verify->plan->nsources, 1));
	for (int i = 0; i < verify->plan->nsources; i++)
		result &= make_range(verify, beginning, &verify->sources.sources[i],
							 verify->plan->sources[i].relid);
	return result;
}

/* ---- rows that the query left out ---- */

/* A row in quarantine, as JSON. */
typedef struct LeftOut
{
	const char *json;
	bool		found;
} LeftOut;

static int
compare_left_out(const void *a, const void *b)
{
	return strcmp(((const LeftOut *) a)->json, ((const LeftOut *) b)->json);
}

/* Of several equal ones each is found once. */
static bool
take_left_out(LeftOut *rows, int n, char *json)
{
	LeftOut		key = {.json = json};
	LeftOut    *it = bsearch(&key, rows, n, sizeof(LeftOut), compare_left_out);

	while (it != NULL && it > rows && strcmp(it[-1].json, json) == 0)
		it--;
	for (; it != NULL && it < rows + n && strcmp(it->json, json) == 0; it++)
	{
		if (it->found)
			continue;
		it->found = true;
		return true;
	}
	return false;
}

/* Hides them in the range; how many there were. */
static int
hide_rows(SxBatchSource *range, LeftOut *rows, int n)
{
	const SxSourceRoutine *routine = range->source->routine;
	Relation	stream = table_open(range->source->relid, AccessShareLock);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(stream), &TTSOpsVirtual);
	SxScan	   *scan = routine->scan_begin(range->source, range->start, range->end);
	MemoryContext scratch = AllocSetContextCreate(CurrentMemoryContext, "streamx row",
												  ALLOCSET_DEFAULT_SIZES);
	int64	   *hidden = palloc(sizeof(int64) * n);

	qsort(rows, n, sizeof(LeftOut), compare_left_out);
	for (int64 row = 0; range->nhidden < n && routine->scan_next(scan, slot); row++)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(scratch);

		CHECK_FOR_INTERRUPTS();
		if (take_left_out(rows, n, TextDatumGetCString(OidFunctionCall1(F_ROW_TO_JSON_RECORD,
																		ExecFetchSlotHeapTupleDatum(slot)))))
			hidden[range->nhidden++] = row;
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(scratch);
	}
	ExecClearTuple(slot);
	routine->scan_end(scan);
	ExecDropSingleTupleTableSlot(slot);
	table_close(stream, NoLock);
	range->selective = true;
	range->behind_row = PG_INT64_MAX;
	range->hidden = hidden;
	return range->nhidden;
}

/* Rows in quarantine are known, if none of them has left it; false: they are not. */
static bool
leave_out_quarantined(Verify *verify, int64 total)
{
	List	   *rows = sx_quarantine_rows(verify->query->id);
	int64		left = list_length(rows);

	if (left != total)
		return false;
	for (int i = 0; i < verify->sources.n; i++)
	{
		SxBatchSource *range = &verify->sources.sources[i];
		LeftOut    *left_out = palloc0(sizeof(LeftOut) * (left + 1));
		int			n = 0;
		ListCell   *cell;

		foreach(cell, rows)
		{
			const SxRequeued *row = lfirst(cell);

			/* records without a row are left out by the source itself */
			if (row->stream == range->source->relid && row->row != NULL)
				left_out[n++].json = row->row;
		}
		if (n > 0 && (range->end == NULL || hide_rows(range, left_out, n) != n))
			return false;
	}
	return true;
}

/* False: nothing can be compared. */
static bool
leave_out(Verify *verify)
{
	SxFlowTotals totals;

	sx_progress_read_totals(verify->record->progress, &totals);
	if (totals.late > 0)
		tell(verify, "not checked",
			 psprintf(INT64_FORMAT " rows came late and were left out, or were late for some of their windows; which ones is not recorded, so that differences may come from them",
					  totals.late));
	if (totals.quarantined == 0 || leave_out_quarantined(verify, totals.quarantined))
		return true;
	tell(verify, "not checked",
		 psprintf(INT64_FORMAT " rows were put into the quarantine, and not all of them are still there",
				  totals.quarantined));
	return false;
}

/* ---- the comparison ---- */

/* A sum of floats depends on the order of its rows. */
static bool
has_floats(Oid type)
{
	Oid			base = getBaseType(type);
	TupleDesc	desc;
	bool		result = false;

	if (base == FLOAT4OID || base == FLOAT8OID)
		return true;
	if (OidIsValid(get_element_type(base)))
		return has_floats(get_element_type(base));
	if (type_is_range(base) || type_is_multirange(base))
		return has_floats(get_range_subtype(type_is_range(base) ? base : get_multirange_range(base)));
	if (get_typtype(base) != TYPTYPE_COMPOSITE)
		return false;
	desc = lookup_rowtype_tupdesc(base, -1);
	for (int i = 0; i < desc->natts; i++)
		result |= !TupleDescAttr(desc, i)->attisdropped && has_floats(TupleDescAttr(desc, i)->atttypid);
	ReleaseTupleDesc(desc);
	return result;
}

/* Are its values the same when its = says so? Else when they look the same. */
static bool
is_compared_by_operator(Oid type)
{
	TypeCacheEntry *entry = lookup_type_cache(type, TYPECACHE_EQ_OPR | TYPECACHE_LT_OPR | TYPECACHE_HASH_PROC);

	return OidIsValid(entry->eq_opr) && (OidIsValid(entry->lt_opr) || OidIsValid(entry->hash_proc)) &&
		!has_floats(type);
}

/* A column of the result in the sink. */
static Form_pg_attribute
sink_column(const Verify *verify, Relation sink, int column)
{
	const char *name = NameStr(TupleDescAttr(verify->plan->result, column)->attname);
	AttrNumber	attnum = get_attnum(RelationGetRelid(sink), name);

	if (attnum <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of table \"%s\" does not exist", name,
						RelationGetRelationName(sink))));
	return TupleDescAttr(RelationGetDescr(sink), attnum - 1);
}

/* The result's columns as they are compared; floats to ten digits. */
static void
append_columns(Verify *verify, StringInfo sql, Relation sink, bool casts)
{
	TupleDesc	desc = verify->plan->result;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = sink_column(verify, sink, i);
		const char *column = quote_identifier(NameStr(att->attname));
		Oid			collation = TupleDescAttr(desc, i)->attcollation;

		appendStringInfoString(sql, ", ");
		if (!casts)
			appendStringInfoString(sql, column);
		else
			appendStringInfo(sql, "%s::%s", column,
							 format_type_with_typemod(att->atttypid, att->atttypmod));
		if (att->atttypid == FLOAT4OID)
			appendStringInfoString(sql, "::pg_catalog.numeric");
		if (OidIsValid(collation) && OidIsValid(att->attcollation))
			appendStringInfo(sql, " COLLATE %s", generate_collation_name(collation));
		appendStringInfo(sql, " AS %s", column);
	}
}

static bool
is_key(const Verify *verify, int column)
{
	for (int i = 0; i < verify->plan->nkeys; i++)
		if (verify->plan->keys[i] == column + 1)
			return true;
	return false;
}

/* What rows that are the same have in common. */
static char *
same_rows(Verify *verify, Relation sink)
{
	TupleDesc	desc = verify->plan->result;
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < desc->natts; i++)
	{
		const char *column = quote_identifier(NameStr(TupleDescAttr(desc, i)->attname));

		appendStringInfo(&list, is_key(verify, i) || is_compared_by_operator(sink_column(verify, sink, i)->atttypid) ?
						 "%s%s" : "%spg_catalog.to_jsonb(%s)", i > 0 ? ", " : "", column);
	}
	return desc->natts > 0 ? list.data : "()";
}

/* The columns of the key, with a text before each. */
static char *
key_columns(const Verify *verify, bool named)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < verify->plan->nkeys; i++)
	{
		const char *name = NameStr(TupleDescAttr(verify->plan->result, verify->plan->keys[i] - 1)->attname);

		if (i > 0)
			appendStringInfoString(&list, ", ");
		if (named)
			appendStringInfo(&list, "%s, ", quote_literal_cstr(name));
		appendStringInfoString(&list, quote_identifier(name));
	}
	return list.data;
}

/*
 * Rows of both sides, those that are the same together: "streamx e" and "streamx f"
 * are those of the answer and those of the sink, as they look. What remains are those
 * of which there are not as many on either side; by the key, if there is one.
 */
static char *
comparison(Verify *verify, Relation sink)
{
	const char *keys = key_columns(verify, false);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "WITH \"streamx both\" AS (SELECT 1 AS \"streamx side\"");
	append_columns(verify, &sql, sink, true);
	appendStringInfoString(&sql, " FROM \"" ANSWER_ENR "\" UNION ALL SELECT 2");
	append_columns(verify, &sql, sink, false);
	appendStringInfo(&sql, " FROM %s), \"streamx rows\" AS (SELECT \"streamx b\".*, "
					 "pg_catalog.to_jsonb(\"streamx b\") OPERATOR(pg_catalog.-) 'streamx side' AS \"streamx row\" FROM \"streamx both\" \"streamx b\"), ",
					 quote_qualified_identifier(get_namespace_name(RelationGetNamespace(sink)),
												RelationGetRelationName(sink)));
	appendStringInfo(&sql, "\"streamx differing\" AS (SELECT %s%s "
					 "pg_catalog.array_agg(\"streamx row\") FILTER (WHERE \"streamx side\" OPERATOR(pg_catalog.=) 1) AS \"streamx e\", "
					 "pg_catalog.array_agg(\"streamx row\") FILTER (WHERE \"streamx side\" OPERATOR(pg_catalog.=) 2) AS \"streamx f\" "
					 "FROM \"streamx rows\" GROUP BY %s "
					 "HAVING pg_catalog.count(*) FILTER (WHERE \"streamx side\" OPERATOR(pg_catalog.=) 1) OPERATOR(pg_catalog.<>) "
					 "pg_catalog.count(*) FILTER (WHERE \"streamx side\" OPERATOR(pg_catalog.=) 2)) ",
					 keys, keys[0] != '\0' ? "," : "", same_rows(verify, sink));
	if (verify->plan->nkeys > 0)
		appendStringInfo(&sql,
						 "SELECT CASE WHEN f IS NULL THEN 'missing' WHEN e IS NULL THEN 'unexpected' ELSE 'different' END, k, "
						 "CASE WHEN pg_catalog.jsonb_array_length(e) OPERATOR(pg_catalog.=) 1 THEN e OPERATOR(pg_catalog.->) 0 ELSE e END, "
						 "CASE WHEN pg_catalog.jsonb_array_length(f) OPERATOR(pg_catalog.=) 1 THEN f OPERATOR(pg_catalog.->) 0 ELSE f END, "
						 "NULL::pg_catalog.text FROM ("
						 "SELECT pg_catalog.jsonb_build_object(%s) AS k, "
						 "pg_catalog.jsonb_agg(\"streamx row\" ORDER BY \"streamx row\") FILTER (WHERE \"streamx side\" OPERATOR(pg_catalog.=) 1) AS e, "
						 "pg_catalog.jsonb_agg(\"streamx row\" ORDER BY \"streamx row\") FILTER (WHERE \"streamx side\" OPERATOR(pg_catalog.=) 2) AS f "
						 "FROM \"streamx differing\" \"streamx d\", LATERAL ("
						 "SELECT 1, pg_catalog.unnest(\"streamx d\".\"streamx e\") UNION ALL SELECT 2, pg_catalog.unnest(\"streamx d\".\"streamx f\")"
						 ") \"streamx r\" (\"streamx side\", \"streamx row\") GROUP BY %s) g",
						 key_columns(verify, true), keys);
	else
		appendStringInfoString(&sql,
							   "SELECT CASE WHEN ne OPERATOR(pg_catalog.>) nf THEN 'missing' ELSE 'unexpected' END, NULL::pg_catalog.jsonb, "
							   "e[1], f[1], "
							   "CASE WHEN ne OPERATOR(pg_catalog.+) nf OPERATOR(pg_catalog.>) 1 THEN pg_catalog.format('expected %s times, found %s times', ne, nf) END "
							   "FROM (SELECT \"streamx e\" AS e, \"streamx f\" AS f, "
							   "COALESCE(pg_catalog.cardinality(\"streamx e\"), 0) AS ne, COALESCE(pg_catalog.cardinality(\"streamx f\"), 0) AS nf "
							   "FROM \"streamx differing\") g");
	return sql.data;
}

/* Returns how many differences there are. */
static uint64
compare(Verify *verify, Tuplestorestate *answer)
{
	Relation	sink = table_open(verify->query->sink_relation, AccessShareLock);
	EphemeralNamedRelation enr = palloc0(sizeof(EphemeralNamedRelationData));
	uint64		n;

	enr->md.name = ANSWER_ENR;
	enr->md.reliddesc = InvalidOid;
	enr->md.tupdesc = verify->plan->result;
	enr->md.enrtype = ENR_NAMED_TUPLESTORE;
	enr->md.enrtuples = 10000;
	enr->reldata = answer;
	SPI_connect();
	SPI_register_relation(enr);
	if (SPI_execute(comparison(verify, sink), true, 0) != SPI_OK_SELECT)
		elog(ERROR, "comparison failed");
	n = SPI_processed;
	for (uint64 i = 0; i < n; i++)
	{
		Datum		values[NCOLS];
		bool		nulls[NCOLS];

		for (int column = 0; column < NCOLS; column++)
			values[column] = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column + 1,
										   &nulls[column]);
		tuplestore_putvalues(verify->rsinfo->setResult, verify->rsinfo->setDesc, values, nulls);
	}
	SPI_finish();
	table_close(sink, NoLock);
	return n;
}

/* ---- all of it ---- */

/* Values mean what they mean to the query's worker. */
static void
apply_settings(const SxQuery *query)
{
	ListCell   *cell;

	foreach(cell, query->settings)
	{
		char	   *name = pstrdup(lfirst(cell));
		char	   *equals = strchr(name, '=');

		if (equals == NULL)
			continue;
		*equals = '\0';
		(void) set_config_option(name, equals + 1, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
								 true, 0, false);
	}
}

static void
verify_as_owner(Verify *verify)
{
	Tuplestorestate *answer;
	List	   *unknown = sx_batch_answer_unknown(verify->plan);

	if (verify->record != NULL && verify->record->due.op >= 0)
		unknown = lappend(unknown, "of what the watermark has passed only a part is in the result yet; the next batches bring the rest");
	tell_all(verify, "not checked", unknown);
	if (unknown != NIL || !make_ranges(verify) || !leave_out(verify))
		return;
	answer = sx_batch_answer(verify->plan, &verify->sources, verify->record->watermark);
	(void) set_config_option("extra_float_digits", "-5", PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	if (compare(verify, answer) > 0)
		tell_all(verify, "note", sx_batch_answer_caveats(verify->plan));
	tuplestore_end(answer);
	for (int i = 0; i < verify->sources.n; i++)
		verify->sources.sources[i].source->routine->close(verify->sources.sources[i].source);
}

Datum
sx_api_verify(PG_FUNCTION_ARGS)
{
	Verify		verify = {.rsinfo = (ReturnSetInfo *) fcinfo->resultinfo};
	SxUserSwitch saved;
	int			level;

	verify.query = sx_api_owned_query(sx_api_name_arg(fcinfo));
	InitMaterializedSRF(fcinfo, 0);
	if (verify.query->sink_kind != SX_SINK_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("query \"%s\" cannot be verified", verify.query->name),
				 errdetail("Its sink is not a table, so that what it has written cannot be read.")));
	take_snapshot(&verify);
	if (sx_query_is_copy(verify.query) || verify.record == NULL || verify.record->batch_id < 0)
		tell(&verify, "not checked", "the query has not committed a batch yet");
	else if (verify.query->options.key_columns != NULL)
		tell(&verify, "not checked", "the table keeps the newest row of each key, and the batch answer has no order to tell which that is");
	else
	{
		verify.plan = sx_query_view_plan(verify.query, false);
		sx_user_become(&saved, verify.query->owner);
		level = NewGUCNestLevel();
		apply_settings(verify.query);
		verify_as_owner(&verify);
		AtEOXact_GUC(true, level);
		sx_user_back(&saved);
	}
	PopActiveSnapshot();
	return (Datum) 0;
}
