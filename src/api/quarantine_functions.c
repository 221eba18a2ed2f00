/*
 * quarantine_functions.c
 *		requeue: rows in quarantine go through their query once more.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "api/api.h"
#include "registry/quarantine.h"
#include "source/stream_writer.h"

PG_FUNCTION_INFO_V1(sx_api_requeue);

static void
requeue_ids(const SxQuery *query, ArrayType *ids, const char *row, bytea *record)
{
	Datum	   *values;
	bool	   *nulls;
	int			n;

	deconstruct_array(ids, INT8OID, sizeof(int64), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &values, &nulls,
					  &n);
	if ((row != NULL || record != NULL) && n != 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a mended row or record is for one row in quarantine, not for %d", n),
				 errhint("Give its id: requeue(query, ARRAY[id], data => '{...}').")));
	for (int i = 0; i < n; i++)
	{
		int64		id = nulls[i] ? 0 : DatumGetInt64(values[i]);

		if (id == 0 || sx_quarantine_requeue(query->id, id, row, record) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_NO_DATA_FOUND),
					 errmsg("row " INT64_FORMAT " is not in the quarantine of query \"%s\"", id,
							query->name),
					 errhint("Column \"id\" of streamx.quarantine has the ids.")));
	}
}

/* requeue(query text, ids bigint[], data json, record bytea) */
Datum
sx_api_requeue(PG_FUNCTION_ARGS)
{
	SxQuery    *query = sx_api_owned_query(sx_api_name_arg(fcinfo));
	char	   *row = sx_api_text_arg(fcinfo, 2);
	bytea	   *record = PG_ARGISNULL(3) ? NULL : PG_GETARG_BYTEA_P(3);
	int64		count;
	ListCell   *cell;

	PreventCommandIfReadOnly("requeue()");
	PreventCommandDuringRecovery("requeue()");
	if (!PG_ARGISNULL(1))
	{
		requeue_ids(query, PG_GETARG_ARRAYTYPE_P(1), row, record);
		count = ArrayGetNItems(ARR_NDIM(PG_GETARG_ARRAYTYPE_P(1)), ARR_DIMS(PG_GETARG_ARRAYTYPE_P(1)));
	}
	else if (row != NULL || record != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("which row in quarantine is mended is not said"),
				 errhint("Give its id: requeue(query, ARRAY[id], data => '{...}').")));
	else
		count = sx_quarantine_requeue(query->id, 0, NULL, NULL);
	foreach(cell, sx_quarantine_streams(query->id))
		sx_stream_wake_at_commit(lfirst_oid(cell));
	PG_RETURN_INT64(count);
}
