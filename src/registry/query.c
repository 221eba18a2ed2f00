/*
 * query.c
 *		Rows of streamx.query to structs and back.
 *
 * Scans take a fresh catalog snapshot each (systable_beginscan), so a worker
 * sees what was committed a moment ago whatever its own snapshot is. The table
 * has a row per query: scans need no index. Writes go by CatalogTuple*, which
 * fire no triggers; the table's only trigger therefore sees restored rows only.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/indexing.h"
#include "catalog/pg_type.h"
#include "catalog/pg_class.h"
#include "commands/sequence.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "registry/query.h"

enum
{
	COL_ID, COL_NAME, COL_INCARNATION, COL_DATABASE, COL_CLUSTER, COL_VIEW,
	COL_SINK_KIND, COL_SINK_NAME, COL_SINK_RELATION, COL_SINK_FUNCTION,
	COL_SINK_FUNCTION_OID, COL_OUTPUT_MODE, COL_TRIGGER, COL_OPTIONS,
	COL_SETTINGS, COL_WANTED, COL_LAYOUT, COL_CREATED_AT, COL_ON_REWIND,
	COL_ENDED_AT, NCOLS
};

#define ATTR_ID		(COL_ID + 1)
#define ATTR_NAME	(COL_NAME + 1)

/* Subobjects of the lock on (streamx.query, id). */
#define LOCK_WORKER		0
#define LOCK_ROW		1
#define LOCK_CONTROL	2
#define LOCK_QUARANTINE	3

static uint64 changes = 0;

static const char *const wanted_names[] = {
	[SX_WANTED_CREATED] = "created",
	[SX_WANTED_RUNNING] = "running",
	[SX_WANTED_STOPPED] = "stopped",
	[SX_WANTED_FAILED] = "failed",
	[SX_WANTED_FINISHED] = "finished",
	[SX_WANTED_SINK_AHEAD] = "sink_ahead",
	[SX_WANTED_SINK_UNKNOWN] = "sink_unknown"
};

static const char *const sink_names[] = {
	[SX_SINK_TABLE] = "table",
	[SX_SINK_STREAM] = "stream",
	[SX_SINK_FOREACH_BATCH] = "foreach_batch",
	[SX_SINK_NOOP] = "noop",
	[SX_SINK_DIRECTORY] = "directory",
	[SX_SINK_KAFKA] = "kafka"
};

static const char *const mode_names[] = {
	[SX_OUTPUT_APPEND] = "append",
	[SX_OUTPUT_UPDATE] = "update",
	[SX_OUTPUT_COMPLETE] = "complete"
};

/* Index of the word, or -1. */
static int
find_word(const char *word, const char *const *words, int n)
{
	for (int i = 0; i < n; i++)
		if (pg_strcasecmp(word, words[i]) == 0)
			return i;
	return -1;
}

const char *
sx_output_mode_name(SxOutputMode mode)
{
	return mode_names[mode];
}

SxOutputMode
sx_output_mode_parse(const char *name)
{
	int			mode = find_word(name, mode_names, lengthof(mode_names));

	if (mode < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown output mode \"%s\"", name),
				 errhint("Use append, update or complete.")));
	return (SxOutputMode) mode;
}

const char *
sx_wanted_name(SxWanted wanted)
{
	return wanted_names[wanted];
}

const char *
sx_sink_kind_name(SxSinkKind kind)
{
	return sink_names[kind];
}

static int
stored_word(const char *column, Datum value, const char *const *words, int n)
{
	char	   *word = TextDatumGetCString(value);
	int			i = find_word(word, words, n);

	if (i < 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("unknown value \"%s\" in streamx.query.%s", word, column)));
	return i;
}

void
sx_query_name_check(const char *name)
{
	if (name[0] == '\0')
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("a query needs a name")));
	if (strlen(name) >= NAMEDATALEN)
		ereport(ERROR,
				(errcode(ERRCODE_NAME_TOO_LONG),
				 errmsg("query name \"%s\" is too long", name),
				 errdetail("Names have at most %d bytes.", NAMEDATALEN - 1)));
}

static bool
lock_query(int64 id, uint16 what, bool session, bool conditional)
{
	LOCKTAG		tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, sx_catalog_relation("query"), (uint32) id, what);
	return LockAcquire(&tag, ExclusiveLock, session, conditional) != LOCKACQUIRE_NOT_AVAIL;
}

bool
sx_query_lock_row(int64 id, bool conditional)
{
	return lock_query(id, LOCK_ROW, false, conditional);
}

void
sx_query_lock_control(int64 id)
{
	(void) lock_query(id, LOCK_CONTROL, false, false);
}

bool
sx_query_lock_worker(int64 id)
{
	return lock_query(id, LOCK_WORKER, true, true);
}

bool
sx_query_lock_quarantine(int64 id, bool conditional)
{
	return lock_query(id, LOCK_QUARANTINE, false, conditional);
}

bool
sx_query_is_copy(const SxQuery *query)
{
	return query->database != MyDatabaseId;
}

/* The function's OID by its signature; InvalidOid when there is none (any more). */
static Oid
function_by_signature(Datum signature)
{
	LOCAL_FCINFO(fcinfo, 1);
	Datum		result;

	InitFunctionCallInfoData(*fcinfo, NULL, 1, InvalidOid, NULL, NULL);
	fcinfo->args[0].value = signature;
	fcinfo->args[0].isnull = false;
	result = to_regprocedure(fcinfo);
	return fcinfo->isnull ? InvalidOid : DatumGetObjectId(result);
}

static Oid
relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

static List *
settings_list(Datum value)
{
	Datum	   *elems;
	int			n;
	List	   *settings = NIL;

	deconstruct_array(DatumGetArrayTypeP(value), TEXTOID, -1, false, TYPALIGN_INT,
					  &elems, NULL, &n);
	for (int i = 0; i < n; i++)
		settings = lappend(settings, TextDatumGetCString(elems[i]));
	return settings;
}

static char *
text_or_null(Datum value, bool isnull)
{
	return isnull ? NULL : TextDatumGetCString(value);
}

static SxQuery *
query_from_tuple(HeapTuple tuple, TupleDesc desc)
{
	Datum		values[NCOLS];
	bool		nulls[NCOLS];
	SxQuery    *query = palloc0(sizeof(SxQuery));
	char	   *trigger;

	if (desc->natts != NCOLS)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("streamx.query is not of this version of the library"),
				 errhint("Run ALTER EXTENSION streamx UPDATE.")));
	heap_deform_tuple(tuple, desc, values, nulls);
	query->id = DatumGetInt64(values[COL_ID]);
	query->name = TextDatumGetCString(values[COL_NAME]);
	query->incarnation = *DatumGetUUIDP(values[COL_INCARNATION]);
	query->database = DatumGetObjectId(values[COL_DATABASE]);
	query->view = DatumGetObjectId(values[COL_VIEW]);
	query->owner = relation_owner(query->view);
	query->sink_kind = stored_word("sink_kind", values[COL_SINK_KIND],
								   sink_names, lengthof(sink_names));
	query->sink_name = text_or_null(values[COL_SINK_NAME], nulls[COL_SINK_NAME]);
	query->sink_relation = nulls[COL_SINK_RELATION] ? InvalidOid :
		DatumGetObjectId(values[COL_SINK_RELATION]);
	if (nulls[COL_SINK_FUNCTION])
		query->sink_function = InvalidOid;
	else if (DatumGetInt64(values[COL_CLUSTER]) == (int64) GetSystemIdentifier())
		query->sink_function = DatumGetObjectId(values[COL_SINK_FUNCTION_OID]);
	else
		query->sink_function = function_by_signature(values[COL_SINK_FUNCTION]);
	query->output_mode = stored_word("output_mode", values[COL_OUTPUT_MODE],
									 mode_names, lengthof(mode_names));
	trigger = TextDatumGetCString(values[COL_TRIGGER]);
	sx_trigger_parse(trigger, &query->trigger, &query->trigger_interval);
	query->options_json = DatumGetJsonbPCopy(values[COL_OPTIONS]);
	sx_query_options_parse(query->options_json, &query->options);
	query->settings = settings_list(values[COL_SETTINGS]);
	query->wanted = stored_word("wanted", values[COL_WANTED],
								wanted_names, lengthof(wanted_names));
	query->layout = text_or_null(values[COL_LAYOUT], nulls[COL_LAYOUT]);
	query->created_at = DatumGetTimestampTz(values[COL_CREATED_AT]);
	query->on_rewind = text_or_null(values[COL_ON_REWIND], nulls[COL_ON_REWIND]);
	query->ended_at = nulls[COL_ENDED_AT] ? 0 : DatumGetTimestampTz(values[COL_ENDED_AT]);
	query->changed_here =
		TransactionIdIsCurrentTransactionId(HeapTupleHeaderGetXmin(tuple->t_data));
	if (sx_query_is_copy(query))
	{
		query->wanted = SX_WANTED_CREATED;
		query->layout = NULL;
	}
	return query;
}

static HeapTuple
query_to_tuple(const SxQuery *query, TupleDesc desc)
{
	Datum		values[NCOLS] = {0};
	bool		nulls[NCOLS] = {0};
	int			n = 0;
	Datum	   *settings = palloc(sizeof(Datum) * (list_length(query->settings) + 1));
	ListCell   *lc;

	foreach(lc, query->settings)
		settings[n++] = CStringGetTextDatum((char *) lfirst(lc));
	values[COL_ID] = Int64GetDatum(query->id);
	values[COL_NAME] = CStringGetTextDatum(query->name);
	values[COL_INCARNATION] = UUIDPGetDatum(&query->incarnation);
	values[COL_DATABASE] = ObjectIdGetDatum(query->database);
	values[COL_CLUSTER] = Int64GetDatum((int64) GetSystemIdentifier());
	values[COL_VIEW] = ObjectIdGetDatum(query->view);
	values[COL_SINK_KIND] = CStringGetTextDatum(sink_names[query->sink_kind]);
	if (query->sink_name != NULL)
		values[COL_SINK_NAME] = CStringGetTextDatum(query->sink_name);
	nulls[COL_SINK_NAME] = query->sink_name == NULL;
	values[COL_SINK_RELATION] = ObjectIdGetDatum(query->sink_relation);
	nulls[COL_SINK_RELATION] = !OidIsValid(query->sink_relation);
	if (OidIsValid(query->sink_function))
		values[COL_SINK_FUNCTION] =
			CStringGetTextDatum(format_procedure_qualified(query->sink_function));
	values[COL_SINK_FUNCTION_OID] = ObjectIdGetDatum(query->sink_function);
	nulls[COL_SINK_FUNCTION] = nulls[COL_SINK_FUNCTION_OID] = !OidIsValid(query->sink_function);
	values[COL_OUTPUT_MODE] = CStringGetTextDatum(mode_names[query->output_mode]);
	values[COL_TRIGGER] =
		CStringGetTextDatum(sx_trigger_print(query->trigger, query->trigger_interval));
	values[COL_OPTIONS] = JsonbPGetDatum(query->options_json);
	values[COL_SETTINGS] = PointerGetDatum(construct_array(settings, n, TEXTOID, -1, false,
														   TYPALIGN_INT));
	values[COL_WANTED] = CStringGetTextDatum(wanted_names[query->wanted]);
	if (query->layout != NULL)
		values[COL_LAYOUT] = CStringGetTextDatum(query->layout);
	nulls[COL_LAYOUT] = query->layout == NULL;
	values[COL_CREATED_AT] = TimestampTzGetDatum(query->created_at);
	if (query->on_rewind != NULL)
		values[COL_ON_REWIND] = CStringGetTextDatum(query->on_rewind);
	nulls[COL_ON_REWIND] = query->on_rewind == NULL;
	values[COL_ENDED_AT] = TimestampTzGetDatum(query->ended_at);
	nulls[COL_ENDED_AT] = query->ended_at == 0;
	return heap_form_tuple(desc, values, nulls);
}

static SysScanDesc
scan_begin(Relation rel, ScanKey key)
{
	return systable_beginscan(rel, InvalidOid, false, NULL, key != NULL ? 1 : 0, key);
}

static void
key_by_id(ScanKey key, int64 id)
{
	ScanKeyInit(key, ATTR_ID, BTEqualStrategyNumber, F_INT8EQ, Int64GetDatum(id));
}

static SxQuery *
read_one(ScanKey key)
{
	Relation	rel = sx_catalog_open("query", NCOLS, AccessShareLock);
	SysScanDesc scan = scan_begin(rel, key);
	HeapTuple	tuple = systable_getnext(scan);
	SxQuery    *query = NULL;

	if (HeapTupleIsValid(tuple))
		query = query_from_tuple(tuple, RelationGetDescr(rel));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return query;
}

SxQuery *
sx_query_by_name(const char *name, bool missing_ok)
{
	ScanKeyData key;
	SxQuery    *query;

	ScanKeyInit(&key, ATTR_NAME, BTEqualStrategyNumber, F_TEXTEQ,
				CStringGetTextDatum(name));
	query = read_one(&key);
	if (query == NULL && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("query \"%s\" does not exist", name),
				 errhint("SELECT name FROM streamx.queries lists the queries.")));
	return query;
}

SxQuery *
sx_query_by_id(int64 id, bool missing_ok)
{
	ScanKeyData key;
	SxQuery    *query;

	key_by_id(&key, id);
	query = read_one(&key);
	if (query == NULL && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("query with id " INT64_FORMAT " does not exist", id)));
	return query;
}

static int
compare_ids(const ListCell *a, const ListCell *b)
{
	int64		left = ((SxQuery *) lfirst(a))->id;
	int64		right = ((SxQuery *) lfirst(b))->id;

	return left < right ? -1 : left > right;
}

List *
sx_query_list(void)
{
	Relation	rel = sx_catalog_open("query", NCOLS, AccessShareLock);
	SysScanDesc scan = scan_begin(rel, NULL);
	HeapTuple	tuple;
	List	   *queries = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		queries = lappend(queries, query_from_tuple(tuple, RelationGetDescr(rel)));
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	list_sort(queries, compare_ids);
	return queries;
}

/* Called after every DROP, so nothing but the one column is looked at. */
List *
sx_query_list_without_view(void)
{
	Relation	rel = sx_catalog_open("query", NCOLS, AccessShareLock);
	SysScanDesc scan = scan_begin(rel, NULL);
	HeapTuple	tuple;
	List	   *queries = NIL;

	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		view = heap_getattr(tuple, COL_VIEW + 1, RelationGetDescr(rel), &isnull);

		if (!SearchSysCacheExists1(RELOID, view))
			queries = lappend(queries, query_from_tuple(tuple, RelationGetDescr(rel)));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return queries;
}

uint64
sx_query_changes(void)
{
	return changes;
}

void
sx_uuid_random(pg_uuid_t *uuid)
{
	if (!pg_strong_random(uuid->data, UUID_LEN))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));
	uuid->data[6] = (uuid->data[6] & 0x0f) | 0x40;	/* version 4 */
	uuid->data[8] = (uuid->data[8] & 0x3f) | 0x80;	/* variant of RFC 4122 */
}

/*
 * Restored rows keep their ids and the sequence may have lost its value, so an
 * id that is taken is skipped.
 */
static int64
next_id(void)
{
	Oid			sequence = sx_catalog_relation("query_id");
	int64		id;

	do
		id = nextval_internal(sequence, false);
	while (sx_query_by_id(id, true) != NULL);
	return id;
}

int64
sx_query_insert(SxQuery *query)
{
	Relation	rel;

	query->id = next_id();
	query->database = MyDatabaseId;
	sx_uuid_random(&query->incarnation);
	rel = sx_catalog_open("query", NCOLS, RowExclusiveLock);
	CatalogTupleInsert(rel, query_to_tuple(query, RelationGetDescr(rel)));
	changes++;
	table_close(rel, NoLock);
	CommandCounterIncrement();
	return query->id;
}

void
sx_query_update(const SxQuery *query)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	old;
	HeapTuple	new;

	(void) sx_query_lock_row(query->id, false);
	rel = sx_catalog_open("query", NCOLS, RowExclusiveLock);
	key_by_id(&key, query->id);
	scan = scan_begin(rel, &key);
	old = systable_getnext(scan);
	if (!HeapTupleIsValid(old))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("query \"%s\" was dropped meanwhile", query->name)));
	new = query_to_tuple(query, RelationGetDescr(rel));
	CatalogTupleUpdate(rel, &old->t_self, new);
	changes++;
	systable_endscan(scan);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

void
sx_query_delete(int64 id)
{
	Relation	rel;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	(void) sx_query_lock_row(id, false);
	rel = sx_catalog_open("query", NCOLS, RowExclusiveLock);
	key_by_id(&key, id);
	scan = scan_begin(rel, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		CatalogTupleDelete(rel, &tuple->t_self);
	changes++;
	systable_endscan(scan);
	table_close(rel, NoLock);
	CommandCounterIncrement();
}

/* Read after the lock: what others committed before us must not be undone. */
static SxQuery *
read_locked(int64 id)
{
	(void) sx_query_lock_row(id, false);
	return sx_query_by_id(id, false);
}

void
sx_query_set_wanted(int64 id, SxWanted wanted)
{
	SxQuery    *query = read_locked(id);

	query->wanted = wanted;
	if (wanted != SX_WANTED_RUNNING && wanted != SX_WANTED_CREATED)
		query->ended_at = GetCurrentTimestamp();
	sx_query_update(query);
}

void
sx_query_set_layout(int64 id, const char *layout)
{
	SxQuery    *query = read_locked(id);

	query->layout = layout != NULL ? pstrdup(layout) : NULL;
	sx_query_update(query);
}
