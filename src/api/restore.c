/*
 * restore.c
 *		Rows of streamx.query that come from a dump.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "commands/trigger.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/rel.h"

#include "registry/query.h"

PG_FUNCTION_INFO_V1(sx_api_query_restored);

/*
 * BEFORE INSERT on streamx.query. Another incarnation, of no database and no
 * cluster: whoever starts the query next drops what may lie under its id, and the
 * function is found by its signature.
 */
Datum
sx_api_query_restored(PG_FUNCTION_ARGS)
{
	static const char *const columns[] = {"database", "cluster", "wanted", "layout", "incarnation"};
	TriggerData *trigger = (TriggerData *) fcinfo->context;
	int			attnums[lengthof(columns)];
	Datum		values[lengthof(columns)];
	bool		nulls[lengthof(columns)] = {false, false, false, true, false};
	pg_uuid_t	incarnation;
	TupleDesc	desc;
	HeapTuple	tuple;

	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("query_restored() is a trigger function")));
	desc = RelationGetDescr(trigger->tg_relation);
	for (int i = 0; i < lengthof(columns); i++)
	{
		attnums[i] = SPI_fnumber(desc, columns[i]);
		if (attnums[i] <= 0)
			elog(ERROR, "column \"%s\" not found", columns[i]);
	}
	values[0] = ObjectIdGetDatum(InvalidOid);
	values[1] = Int64GetDatum(0);
	values[2] = CStringGetTextDatum(sx_wanted_name(SX_WANTED_CREATED));
	values[3] = (Datum) 0;
	sx_uuid_random(&incarnation);
	values[4] = UUIDPGetDatum(&incarnation);
	tuple = heap_modify_tuple_by_cols(trigger->tg_trigtuple, desc, lengthof(columns),
									  attnums, values, nulls);
	return PointerGetDatum(tuple);
}
