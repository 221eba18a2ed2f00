/*
 * stream_ddl.c
 *		Storage follows the stream: CREATE, ALTER and DROP FOREIGN TABLE.
 *
 * Event triggers call us: at the end of a command for what was created or altered,
 * on sql_drop for what is gone (by DROP, DROP ... CASCADE of the schema, the
 * server or the owner's objects). All of it is part of the user's transaction.
 *
 * The hidden heaps are members of the extension: pg_dump leaves them out (streams
 * are made anew, empty, by their CREATE FOREIGN TABLE), pg_upgrade carries them
 * over, and DROP EXTENSION takes them along. A member can't be dropped by itself,
 * so its membership is removed first.
 *
 * Their columns are named by attribute number, so RENAME needs nothing. They carry
 * no default, no constraint and no domain: ALTER TABLE runs on them with the
 * rights of the extension's owner, and must not evaluate expressions of users.
 * What has to be computed for stored rows (a default, a cast) is computed by
 * stream_rewrite.c with the rights of the stream's owner.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/event_trigger.h"
#include "commands/extension.h"
#include "commands/tablespace.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_coerce.h"
#include "parser/parser.h"
#include "storage/bufmgr.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"

#include "base/compat.h"
#include "registry/query.h"
#include "source/fdw.h"
#include "source/stream_ddl.h"
#include "source/table_stream.h"

PG_FUNCTION_INFO_V1(sx_api_stream_ddl);
PG_FUNCTION_INFO_V1(sx_api_stream_drop);

/* ---- running commands ---- */

/*
 * As the extension's owner; what it creates becomes a member of the extension.
 * No event trigger fires for it and none gets to see it: for the user there is
 * one command only.
 */
static void
run_ddl(const char *sql)
{
	Oid			save_user;
	int			save_context;
	bool		save_creating = creating_extension;
	Oid			save_extension = CurrentExtensionObject;
	ListCell   *lc;

	GetUserIdAndSecContext(&save_user, &save_context);
	SetUserIdAndSecContext(sx_extension_owner(), save_context | SECURITY_LOCAL_USERID_CHANGE);
	EventTriggerInhibitCommandCollection();
	PG_TRY();
	{
		creating_extension = true;
		CurrentExtensionObject = get_extension_oid("streamx", false);
		foreach(lc, raw_parser(sql, RAW_PARSE_DEFAULT))
		{
			PlannedStmt *statement = makeNode(PlannedStmt);

			statement->commandType = CMD_UTILITY;
			statement->canSetTag = false;
			statement->utilityStmt = lfirst_node(RawStmt, lc)->stmt;
			statement->stmt_location = 0;
			statement->stmt_len = 0;
			ProcessUtility(statement, sql, false, PROCESS_UTILITY_SUBCOMMAND, NULL, NULL,
						   None_Receiver, NULL);
			CommandCounterIncrement();
		}
	}
	PG_FINALLY();
	{
		creating_extension = save_creating;
		CurrentExtensionObject = save_extension;
		EventTriggerUndoInhibitCommandCollection();
	}
	PG_END_TRY();
	SetUserIdAndSecContext(save_user, save_context);
}

/* ---- heaps ---- */

Oid
sx_stream_column_type(Form_pg_attribute att, int32 *typmod)
{
	*typmod = att->atttypmod;
	return att->attisdropped ? INT4OID : getBaseTypeAndTypmod(att->atttypid, typmod);
}

/* "c3 numeric(10,2)"; a dropped column keeps its place. */
static void
append_column(StringInfo sql, Form_pg_attribute att)
{
	int32		typmod;
	Oid			type = sx_stream_column_type(att, &typmod);

	if (att->attisdropped)
		typmod = -1;
	appendStringInfo(sql, "c%d %s", att->attnum,
					 format_type_extended(type, typmod,
										  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
}

char *
sx_stream_heap_name(Oid stream, int slot)
{
	return psprintf("stream_%u_%d", stream, slot);
}

Oid
sx_stream_heap_create(Relation stream, int slot, bool rewrite)
{
	char	   *name = psprintf("%s%s", sx_stream_heap_name(RelationGetRelid(stream), slot),
								rewrite ? "_new" : "");
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfo(&sql, "CREATE %s TABLE %s.%s (sx_xid pg_catalog.xid8",
					 stream->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED ? "UNLOGGED" : "",
					 SX_STREAM_SCHEMA, name);
	for (int i = 0; i < RelationGetNumberOfAttributes(stream); i++)
	{
		appendStringInfoString(&sql, ", ");
		append_column(&sql, TupleDescAttr(RelationGetDescr(stream), i));
	}

	/*
	 * Nothing to vacuum but aborted rows, which go with the rest; freezing against
	 * wraparound happens all the same. A heap must not get shorter (table_stream.c).
	 */
	appendStringInfo(&sql, ") USING heap WITH (autovacuum_enabled = off, vacuum_truncate = off,"
					 " toast.autovacuum_enabled = off) TABLESPACE %s",
					 quote_identifier(get_tablespace_name(MyDatabaseTableSpace)));
	run_ddl(sql.data);
	return get_relname_relid(name, get_namespace_oid(SX_STREAM_SCHEMA, false));
}

void
sx_stream_heap_drop(Oid heap)
{
	ObjectAddress address;

	if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(heap)))
		return;
	sx_leave_extension(heap);
	CommandCounterIncrement();
	ObjectAddressSet(address, RelationRelationId, heap);
	performDeletion(&address, DROP_RESTRICT, PERFORM_DELETION_INTERNAL | PERFORM_DELETION_QUIETLY);
}

void
sx_stream_storage_drop(Oid stream)
{
	SxStreamStorage storage;

	if (!sx_stream_storage_read(stream, &storage))
		return;
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
		sx_stream_heap_drop(storage.heaps[i].heap);
	sx_stream_storage_delete(stream);
	sx_stream_losses_delete(stream);
	CommandCounterIncrement();
}

static void
create_storage(Relation stream)
{
	for (int slot = 0; slot < SX_STREAM_HEAPS; slot++)
	{
		SxStreamHeap heap = {.slot = slot,.started_at = DT_NOBEGIN,.retired_at = DT_NOEND};

		heap.heap = sx_stream_heap_create(stream, slot, false);
		if (slot == 0)
		{
			heap.generation = 1;
			heap.started_at = GetCurrentTimestamp();
		}
		sx_stream_storage_insert(RelationGetRelid(stream), &heap);
	}
	CommandCounterIncrement();
}

/* ---- ALTER ---- */

typedef enum ColumnChange
{
	COLUMN_SAME,
	COLUMN_CHEAP,				/* catalogs only */
	COLUMN_REWRITE				/* stored rows must be computed anew */
} ColumnChange;

/* Whether stored values can stay as they are when only the type's name changes. */
static bool
is_relabel(Form_pg_attribute was, Oid type, int32 typmod)
{
	Oid			funcid;

	return typmod < 0 &&
		find_coercion_pathway(type, was->atttypid, COERCION_ASSIGNMENT, &funcid) == COERCION_PATH_RELABELTYPE;
}

static bool
has_default(Relation stream, AttrNumber attnum)
{
	return TupleDescAttr(RelationGetDescr(stream), attnum - 1)->atthasdef;
}

/* Appends what ALTER TABLE has to do for one column of each heap. */
static ColumnChange
compare_column(Relation stream, TupleDesc heap, AttrNumber attnum, StringInfo sql)
{
	Form_pg_attribute att = TupleDescAttr(RelationGetDescr(stream), attnum - 1);
	Form_pg_attribute was;
	int32		typmod;
	Oid			type;

	if (SX_HEAP_ATTNUM(attnum) > heap->natts)
	{
		appendStringInfoString(sql, ", ADD COLUMN ");
		append_column(sql, att);
		return !att->attisdropped && has_default(stream, attnum) ? COLUMN_REWRITE : COLUMN_CHEAP;
	}
	was = TupleDescAttr(heap, SX_HEAP_ATTNUM(attnum) - 1);
	if (was->attisdropped)
		return COLUMN_SAME;		/* so is the stream's column, with its type */
	if (att->attisdropped)
	{
		appendStringInfo(sql, ", DROP COLUMN c%d", attnum);
		return COLUMN_CHEAP;
	}
	type = sx_stream_column_type(att, &typmod);
	if (was->atttypid == type && was->atttypmod == typmod)
		return COLUMN_SAME;
	if (!is_relabel(was, type, typmod))
		return COLUMN_REWRITE;
	appendStringInfo(sql, ", ALTER COLUMN c%d TYPE %s", attnum,
					 format_type_extended(type, typmod,
										  FORMAT_TYPE_TYPEMOD_GIVEN | FORMAT_TYPE_FORCE_QUALIFY));
	return COLUMN_CHEAP;
}

static bool
has_rows(const SxStreamStorage *storage)
{
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
	{
		Relation	rel = table_open(storage->heaps[i].heap, AccessShareLock);
		bool		empty = RelationGetNumberOfBlocks(rel) == 0;

		table_close(rel, NoLock);
		if (!empty)
			return true;
	}
	return false;
}

/* Foreign tables let NOT NULL pass unchecked; the rows here are ours to check. */
static void
refuse_null_column(Relation stream, int old_natts)
{
	for (int i = old_natts; i < RelationGetNumberOfAttributes(stream); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(stream), i);

		if (att->attisdropped || !att->attnotnull || has_default(stream, i + 1))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_NOT_NULL_VIOLATION),
				 errmsg("column \"%s\" of stream \"%s\" contains null values",
						NameStr(att->attname), RelationGetRelationName(stream)),
				 errdetail("The stream holds rows, which have no value for the new column."),
				 errhint("Give the column a DEFAULT; it can be dropped afterwards.")));
	}
}

static void
alter_storage(Relation stream, SxStreamStorage *storage)
{
	Relation	rel = table_open(storage->heaps[0].heap, AccessShareLock);
	TupleDesc	heap = CreateTupleDescCopy(RelationGetDescr(rel));
	StringInfoData columns;
	ColumnChange change = COLUMN_SAME;

	table_close(rel, NoLock);
	initStringInfo(&columns);
	for (int i = 1; i <= RelationGetNumberOfAttributes(stream); i++)
	{
		ColumnChange of_column = compare_column(stream, heap, i, &columns);

		change = Max(change, of_column);
	}
	if (change == COLUMN_SAME)
		return;
	if (has_rows(storage))
		refuse_null_column(stream, heap->natts - 1);
	if (change == COLUMN_REWRITE)
	{
		sx_stream_rewrite(stream, storage);
		return;
	}
	for (int i = 0; i < SX_STREAM_HEAPS; i++)
		run_ddl(psprintf("ALTER TABLE %s.%s %s", SX_STREAM_SCHEMA,
						 sx_stream_heap_name(RelationGetRelid(stream), i), columns.data + 2));
}

static void
sync_stream(Relation stream)
{
	SxStreamStorage storage;
	bool		stored = sx_stream_storage_read(RelationGetRelid(stream), &storage);
	bool		insertable = sx_stream_is_insertable(RelationGetRelid(stream));

	if (stored && !insertable)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("connector of stream \"%s\" cannot be changed", RelationGetRelationName(stream)),
				 errhint("Drop the stream and create it with the other connector.")));
	if (stored)
		alter_storage(stream, &storage);
	else if (insertable)
		create_storage(stream);
}

/* ---- event triggers ---- */

static void
check_called_by_event_trigger(FunctionCallInfo fcinfo)
{
	if (!CALLED_AS_EVENT_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_EVENT_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function was not called by an event trigger")));
}

/* pg_event_trigger_ddl_commands(): the relations that the command made or altered. */
static List *
changed_relations(void)
{
	LOCAL_FCINFO(fcinfo, 0);
	FmgrInfo	function;
	ReturnSetInfo result;
	TupleTableSlot *slot;
	List	   *relids = NIL;

	memset(&result, 0, sizeof(result));
	result.type = T_ReturnSetInfo;
	result.econtext = CreateStandaloneExprContext();
	result.allowedModes = SFRM_Materialize;
	fmgr_info(F_PG_EVENT_TRIGGER_DDL_COMMANDS, &function);
	InitFunctionCallInfoData(*fcinfo, &function, 0, InvalidOid, NULL, (Node *) &result);
	(void) FunctionCallInvoke(fcinfo);

	slot = MakeSingleTupleTableSlot(result.setDesc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(result.setResult, true, false, slot))
	{
		bool		no_class;
		bool		no_object;
		Datum		classid = slot_getattr(slot, 1, &no_class);
		Datum		objid = slot_getattr(slot, 2, &no_object);

		if (!no_class && !no_object && DatumGetObjectId(classid) == RelationRelationId)
			relids = list_append_unique_oid(relids, DatumGetObjectId(objid));
	}
	ExecDropSingleTupleTableSlot(slot);
	tuplestore_end(result.setResult);
	FreeExprContext(result.econtext, true);
	return relids;
}

/* ALTER TABLE of a parent changes the streams below it. */
static List *
with_children(Oid relid)
{
	if (!has_subclass(relid))
		return list_make1_oid(relid);
	return find_all_inheritors(relid, NoLock, NULL);
}

Datum
sx_api_stream_ddl(PG_FUNCTION_ARGS)
{
	ListCell   *lc;
	ListCell   *child;

	check_called_by_event_trigger(fcinfo);
	if (IsBinaryUpgrade || !sx_extension_installed())
		PG_RETURN_NULL();
	foreach(lc, changed_relations())
	{
		foreach(child, with_children(lfirst_oid(lc)))
		{
			const SxFdw *fdw = sx_fdw_of(lfirst_oid(child));
			Relation	rel;

			if (fdw == NULL)
				continue;
			rel = relation_open(lfirst_oid(child), AccessShareLock);
			fdw->check(rel);
			sync_stream(rel);
			relation_close(rel, NoLock);
		}
	}
	PG_RETURN_NULL();
}

/* What is gone is what has storage and no relation. */
Datum
sx_api_stream_drop(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	check_called_by_event_trigger(fcinfo);
	if (IsBinaryUpgrade || !sx_extension_installed())
		PG_RETURN_NULL();
	foreach(lc, sx_stream_storage_list())
	{
		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(lfirst_oid(lc))))
			sx_stream_storage_drop(lfirst_oid(lc));
	}
	PG_RETURN_NULL();
}
