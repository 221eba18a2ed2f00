/*
 * nested.c
 *		JSON of a composite, an array or a scalar into a Datum. Thread: main.
 *
 * Objects become composites by the names of their attributes, arrays become
 * arrays (of one dimension per level of brackets, which must agree), scalars go
 * through the type's input function.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "executor/tuptable.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/typcache.h"

#include "format/fill.h"

static Datum convert(const JsonbValue *value, Oid type, int32 typmod, bool *isnull);

static Datum
by_input(char *text, Oid type, int32 typmod)
{
	Oid			function;
	Oid			ioparam;

	getTypeInputInfo(type, &function, &ioparam);
	return OidInputFunctionCall(function, text, ioparam, typmod);
}

static char *
json_text(const JsonbValue *value)
{
	Jsonb	   *jsonb = JsonbValueToJsonb((JsonbValue *) value);

	return JsonbToCString(NULL, &jsonb->root, VARSIZE(jsonb));
}

static Datum
convert_composite(JsonbContainer *object, Oid type, int32 typmod)
{
	TupleDesc	desc = lookup_rowtype_tupdesc(type, typmod);
	Datum	   *values = palloc0(sizeof(Datum) * Max(desc->natts, 1));
	bool	   *nulls = palloc(sizeof(bool) * Max(desc->natts, 1));
	Datum		result;

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		JsonbValue	field;

		nulls[i] = true;
		if (att->attisdropped ||
			getKeyJsonValueFromContainer(object, NameStr(att->attname),
										 strlen(NameStr(att->attname)), &field) == NULL)
			continue;
		values[i] = convert(&field, att->atttypid, att->atttypmod, &nulls[i]);
	}
	result = HeapTupleGetDatum(heap_form_tuple(desc, values, nulls));
	ReleaseTupleDesc(desc);
	return result;
}

typedef struct ArrayInProgress
{
	Oid			element;
	int32		typmod;
	int			ndims;			/* 0: not yet known */
	int			dims[MAXDIM];
	ArrayBuildState *state;
} ArrayInProgress;

static void
array_mismatch(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_TEXT_REPRESENTATION),
			 errmsg("JSON arrays of different lengths or depths for a multidimensional array")));
}

static void
convert_array(JsonbContainer *array, ArrayInProgress *result, int depth)
{
	int			n = JsonContainerSize(array);

	check_stack_depth();
	if (depth >= MAXDIM)
		array_mismatch();
	if (depth >= result->ndims)
	{
		if (result->state->nelems > 0 || (depth > 0 && result->ndims != depth))
			array_mismatch();
		result->ndims = depth + 1;
		result->dims[depth] = n;
	}
	if (result->dims[depth] != n)
		array_mismatch();
	for (int i = 0; i < n; i++)
	{
		JsonbValue *value = getIthJsonbValueFromContainer(array, i);
		bool		isnull = false;
		Datum		element;

		/* An array of jsonb holds arrays, too: as its elements. */
		if (value->type == jbvBinary && JsonContainerIsArray(value->val.binary.data) &&
			result->element != JSONBOID && result->element != JSONOID)
		{
			convert_array(value->val.binary.data, result, depth + 1);
			continue;
		}
		if (depth + 1 != result->ndims)
			array_mismatch();
		element = convert(value, result->element, result->typmod, &isnull);
		result->state = accumArrayResult(result->state, element, isnull, result->element,
										 CurrentMemoryContext);
	}
}

static Datum
make_array(JsonbContainer *container, Oid element, int32 typmod)
{
	ArrayInProgress array = {.element = element, .typmod = typmod};
	int			lower[MAXDIM];

	array.state = initArrayResult(element, CurrentMemoryContext, false);
	convert_array(container, &array, 0);
	if (array.state->nelems == 0)
		return PointerGetDatum(construct_empty_array(element));
	for (int i = 0; i < MAXDIM; i++)
		lower[i] = 1;
	return makeMdArrayResult(array.state, array.ndims, array.dims, lower, CurrentMemoryContext, false);
}

static Datum
convert_container(const JsonbValue *value, Oid type, int32 typmod)
{
	JsonbContainer *container = value->val.binary.data;
	Oid			base = getBaseType(type);
	Oid			element = get_element_type(base);
	Datum		result;

	if (base == JSONBOID)
		return JsonbPGetDatum(JsonbValueToJsonb((JsonbValue *) value));
	if (JsonContainerIsObject(container) && type_is_rowtype(base))
		result = convert_composite(container, base, typmod);
	else if (JsonContainerIsArray(container) && OidIsValid(element))
		result = make_array(container, element, typmod);
	else
		return by_input(json_text(value), type, typmod);
	if (base != type)
		domain_check(result, false, type, NULL, NULL);
	return result;
}

static Datum
convert(const JsonbValue *value, Oid type, int32 typmod, bool *isnull)
{
	check_stack_depth();
	*isnull = value->type == jbvNull;
	switch (value->type)
	{
		case jbvNull:
			return (Datum) 0;
		case jbvBinary:
			return convert_container(value, type, typmod);
		case jbvString:
			if (type == JSONOID || type == JSONBOID)
				return by_input(json_text(value), type, typmod);
			return by_input(pnstrdup(value->val.string.val, value->val.string.len), type, typmod);
		case jbvNumeric:
			return by_input(DatumGetCString(DirectFunctionCall1(numeric_out,
												 NumericGetDatum(value->val.numeric))),
							type, typmod);
		case jbvBool:
			return by_input(value->val.boolean ? "true" : "false", type, typmod);
		default:
			elog(ERROR, "unexpected kind %d of JSON value", (int) value->type);
	}
	return (Datum) 0;
}

Datum
sx_json_to_datum(const char *json, Oid type, int32 typmod, bool *isnull)
{
	Jsonb	   *jsonb = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(json)));
	JsonbValue	value;

	if (JB_ROOT_IS_SCALAR(jsonb))
	{
		JsonbValue *scalar = getIthJsonbValueFromContainer(&jsonb->root, 0);

		return convert(scalar, type, typmod, isnull);
	}
	value.type = jbvBinary;
	value.val.binary.data = &jsonb->root;
	value.val.binary.len = VARSIZE(jsonb);
	return convert(&value, type, typmod, isnull);
}
