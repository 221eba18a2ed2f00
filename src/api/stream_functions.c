/*
 * stream_functions.c
 *		SQL functions that look into a stream: the ranges of batches and their
 *		rows, and storage rotation by hand.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "utils/wait_event.h"

#include "api/api.h"
#include "api/query_view.h"
#include "base/compat.h"
#include "base/wake.h"
#include "source/retention.h"
#include "source/source.h"
#include "source/stream_storage.h"
#include "worker/hold.h"

PG_FUNCTION_INFO_V1(sx_api_stream_next);
PG_FUNCTION_INFO_V1(sx_api_stream_rows);
PG_FUNCTION_INFO_V1(sx_api_rotate_streams);
PG_FUNCTION_INFO_V1(sx_api_resume_publishing);

/* Rights as for SELECT of all columns. */
static SxSource *
open_readable(Oid relid)
{
	if (pg_class_aclcheck(relid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_FOREIGN_TABLE, get_rel_name(relid));
	return sx_source_open(relid);
}

static SxOffset *
offset_from_jsonb(SxSource *source, Jsonb *json)
{
	return source->routine->offset_parse(source, JsonbToCString(NULL, &json->root, VARSIZE(json)));
}

/* stream_next(stream regclass, start jsonb, max_rows bigint) returns jsonb */
Datum
sx_api_stream_next(PG_FUNCTION_ARGS)
{
	SxSource   *source;
	SxOffset   *start;
	SxOffset   *end;
	SxChoose	choose = {
		.snapshot = GetActiveSnapshot(),
		.now = GetCurrentStatementStartTimestamp(),
		.max_rows = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT64(2),
	};

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	source = open_readable(PG_GETARG_OID(0));
	start = PG_ARGISNULL(1) ? source->routine->initial(source, false, &choose) :
		offset_from_jsonb(source, PG_GETARG_JSONB_P(1));
	while ((end = source->routine->next_end(source, start, &choose)) == NULL && source->loading)
	{
		(void) sx_wake_wait(1000, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	if (end == NULL)
		PG_RETURN_NULL();
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(source->routine->offset_print(end)));
}

/* stream_rows(row_type anyelement, start jsonb, "end" jsonb) returns setof anyelement */
Datum
sx_api_stream_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	Oid			relid = get_typ_typrelid(get_fn_expr_argtype(fcinfo->flinfo, 0));
	SxSource   *source;
	SxOffset   *start;
	SxOffset   *end;
	SxScan	   *scan;
	TupleTableSlot *slot;
	SxChoose	choose = {
		.snapshot = GetActiveSnapshot(),
		.now = GetCurrentStatementStartTimestamp(),
	};

	if (!OidIsValid(relid) || !sx_relation_is_stream(relid))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("the first argument is not the row type of a stream"),
				 errhint("For a stream named clicks write NULL::clicks.")));
	InitMaterializedSRF(fcinfo, 0);
	if (PG_ARGISNULL(2))
		PG_RETURN_NULL();
	source = open_readable(relid);
	start = PG_ARGISNULL(1) ? source->routine->initial(source, false, &choose) :
		offset_from_jsonb(source, PG_GETARG_JSONB_P(1));
	end = offset_from_jsonb(source, PG_GETARG_JSONB_P(2));
	scan = source->routine->scan_begin(source, start, end);
	slot = MakeSingleTupleTableSlot(result->setDesc, &TTSOpsVirtual);
	while (source->routine->scan_next(scan, slot))
		tuplestore_puttupleslot(result->setResult, slot);
	ExecDropSingleTupleTableSlot(slot);
	source->routine->scan_end(scan);
	PG_RETURN_NULL();
}

/* rotate_streams() */
Datum
sx_api_rotate_streams(PG_FUNCTION_ARGS)
{
	ListCell   *lc;

	foreach(lc, sx_stream_storage_list())
		sx_stream_rotate(lfirst_oid(lc));
	PG_RETURN_VOID();
}

/* Under a new identity nothing that is in Kafka is ours: all that waits is published. */
static void
resume_publishing(Oid stream, const char *on_rewind)
{
	bool		anew = on_rewind != NULL && strcmp(on_rewind, "new_incarnation") == 0;
	Oid			types[] = {OIDOID, TEXTOID};
	Datum		values[] = {ObjectIdGetDatum(stream),
		on_rewind != NULL ? CStringGetTextDatum(on_rewind) : (Datum) 0};
	char		nulls[] = {' ', on_rewind != NULL ? ' ' : 'n'};
	SxUserSwitch saved;
	int			rc;

	sx_user_become(&saved, sx_extension_owner());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	rc = SPI_execute_with_args(anew ?
							   "UPDATE streamx.kafka_publication SET state = 'publishing', on_rewind = NULL, batch = -1,"
							   " transactions = NULL, identity = pg_catalog.gen_random_uuid()"
							   " WHERE stream OPERATOR(pg_catalog.=) $1 AND $2 IS NOT NULL" :
							   "UPDATE streamx.kafka_publication SET state = 'publishing', on_rewind = $2"
							   " WHERE stream OPERATOR(pg_catalog.=) $1",
							   2, types, values, nulls, false, 0);
	if (rc != SPI_OK_UPDATE || SPI_processed != 1)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("nothing was ever published to stream \"%s\" by INSERT or COPY",
						get_rel_name(stream))));
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	sx_user_back(&saved);
	sx_hold_wake_at_commit();
}

/* resume_publishing(stream, on_rewind) */
Datum
sx_api_resume_publishing(PG_FUNCTION_ARGS)
{
	Oid			stream;
	char	   *on_rewind = sx_api_text_arg(fcinfo, 1);

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("stream must not be NULL")));
	stream = PG_GETARG_OID(0);
	if (!sx_relation_ownercheck(stream, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_FOREIGN_TABLE, get_rel_name(stream));
	if (on_rewind != NULL && strcmp(on_rewind, "continue_after_sink") != 0 &&
		strcmp(on_rewind, "new_incarnation") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown value \"%s\" of on_rewind", on_rewind),
				 errhint("Use continue_after_sink or new_incarnation.")));
	resume_publishing(stream, on_rewind);
	PG_RETURN_VOID();
}
