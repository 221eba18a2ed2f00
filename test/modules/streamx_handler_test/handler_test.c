/*
 * handler_test.c
 *		A handler with state in C: it finds the functions for handlers by their
 *		names and calls them, as any code in C calls a function of SQL.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "parser/parse_func.h"
#include "utils/array.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(count_rows_in_c);

static Datum
call(const char *name, int nargs, const Oid *types, const NullableDatum *args, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, 3);
	FmgrInfo	function;
	Datum		result;

	fmgr_info(LookupFuncName(list_make1(makeString(pstrdup(name))), nargs, types, false), &function);
	InitFunctionCallInfoData(*fcinfo, &function, nargs, InvalidOid, NULL, NULL);
	memcpy(fcinfo->args, args, nargs * sizeof(NullableDatum));
	result = FunctionCallInvoke(fcinfo);
	*isnull = fcinfo->isnull;
	return result;
}

Datum
count_rows_in_c(PG_FUNCTION_ARGS)
{
	ArrayType  *rows = PG_GETARG_ARRAYTYPE_P(1);
	int64		n = ArrayGetNItems(ARR_NDIM(rows), ARR_DIMS(rows));
	NullableDatum name = {CStringGetTextDatum("n"), false};
	NullableDatum get[] = {name, {0, true}};
	Oid			get_types[] = {TEXTOID, ANYELEMENTOID};
	Oid			put_types[] = {TEXTOID, ANYOID, INTERVALOID};
	bool		isnull;
	Datum		old = call("state_get", lengthof(get), get_types, get, &isnull);

	if (!isnull)
		n += DatumGetInt64(old);
	{
		NullableDatum put[] = {name, {Int64GetDatum(n), false}, {0, true}};

		call("state_put", lengthof(put), put_types, put, &isnull);
	}
	PG_RETURN_INT64(n);
}
