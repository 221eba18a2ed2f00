/*
 * transform_functions.c
 *		What a handler with state calls, and the markers of a query that has one.
 *
 * Types are checked against the declared ones: a value of another type is an
 * error, a literal without a type is read as what is declared. Where the caller
 * is C and says no types (fn_expr is NULL), it is believed.
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "catalog/pg_type.h"
#include "parser/parse_coerce.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "exec/transform_state.h"
#include "time/watermark.h"

PG_FUNCTION_INFO_V1(sx_api_transform);
PG_FUNCTION_INFO_V1(sx_api_state_variable);
PG_FUNCTION_INFO_V1(sx_api_state_get);
PG_FUNCTION_INFO_V1(sx_api_state_exists);
PG_FUNCTION_INFO_V1(sx_api_state_put);
PG_FUNCTION_INFO_V1(sx_api_state_clear);
PG_FUNCTION_INFO_V1(sx_api_state_list_get);
PG_FUNCTION_INFO_V1(sx_api_state_list_length);
PG_FUNCTION_INFO_V1(sx_api_state_list_append);
PG_FUNCTION_INFO_V1(sx_api_state_list_append_all);
PG_FUNCTION_INFO_V1(sx_api_state_list_put);
PG_FUNCTION_INFO_V1(sx_api_state_map_get);
PG_FUNCTION_INFO_V1(sx_api_state_map_exists);
PG_FUNCTION_INFO_V1(sx_api_state_map_put);
PG_FUNCTION_INFO_V1(sx_api_state_map_remove);
PG_FUNCTION_INFO_V1(sx_api_state_map_keys);
PG_FUNCTION_INFO_V1(sx_api_state_map_values);
PG_FUNCTION_INFO_V1(sx_api_state_map_size);
PG_FUNCTION_INFO_V1(sx_api_timer_set);
PG_FUNCTION_INFO_V1(sx_api_timer_delete);
PG_FUNCTION_INFO_V1(sx_api_timer_list);
PG_FUNCTION_INFO_V1(sx_api_timeout_set);
PG_FUNCTION_INFO_V1(sx_api_timeout_set_after);
PG_FUNCTION_INFO_V1(sx_api_current_watermark);
PG_FUNCTION_INFO_V1(sx_api_current_processing_time);

/* ---- markers ---- */

Datum
sx_api_transform(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("handlers with state run in continuous queries only"),
			 errdetail("What a handler returns depends on the batches before."),
			 errhint("Give the query to create_query().")));
}

Datum
sx_api_state_variable(PG_FUNCTION_ARGS)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("state variables are declared in the argument \"state\" of transform_with_state() only"),
			 errhint("Write state => ARRAY[value_state('n', NULL::bigint)].")));
}

/* ---- arguments ---- */

static SxTransformState *
state_here(FunctionCallInfo fcinfo)
{
	SxTransformState *ts = sx_transform_current();

	if (ts == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s() was called outside a handler", get_func_name(fcinfo->flinfo->fn_oid)),
				 errdetail("It is about the state of a key that a continuous query is handling."),
				 errhint("Call it in the handler of transform_with_state().")));
	return ts;
}

static void
refuse_null(FunctionCallInfo fcinfo, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("the %s of %s() must not be null", what, get_func_name(fcinfo->flinfo->fn_oid))));
}

static char *
name_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		refuse_null(fcinfo, "name");
	return text_to_cstring(PG_GETARG_TEXT_PP(0));
}

static SxVariable *
variable_argument(FunctionCallInfo fcinfo, SxTransformState *ts, SxVariableKind kind)
{
	return sx_transform_variable(ts, name_argument(fcinfo), kind);
}

static int64
interval_us(FunctionCallInfo fcinfo, const Interval *interval)
{
	int64		us = interval->time + interval->day * USECS_PER_DAY;

	if (interval->month != 0 || us <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the interval given to %s() must be positive and without months",
						get_func_name(fcinfo->flinfo->fn_oid))));
	return us;
}

/* 0: as declared. */
static int64
ttl_argument(FunctionCallInfo fcinfo, int n)
{
	return PG_ARGISNULL(n) ? 0 : interval_us(fcinfo, PG_GETARG_INTERVAL_P(n));
}

static void
refuse_type(FunctionCallInfo fcinfo, const SxVariable *variable, Oid given, Oid wanted)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("%s() for state variable \"%s\" was given type %s",
					get_func_name(fcinfo->flinfo->fn_oid), variable->plan->name, format_type_be(given)),
			 errdetail("It is declared with %s.", format_type_be(wanted)),
			 errhint("Cast it to %s.", format_type_be(wanted))));
}

/* An argument of type "any" that has to be of the wanted one. */
static Datum
any_argument(FunctionCallInfo fcinfo, int n, const SxVariable *variable, Oid wanted, bool *isnull)
{
	Oid			type = get_fn_expr_argtype(fcinfo->flinfo, n);
	Oid			input;
	Oid			io_parameter;

	*isnull = PG_ARGISNULL(n);
	if (type == UNKNOWNOID && !*isnull)
	{
		getTypeInputInfo(wanted, &input, &io_parameter);
		return OidInputFunctionCall(input, DatumGetCString(PG_GETARG_DATUM(n)), io_parameter, -1);
	}
	if (OidIsValid(type) && type != UNKNOWNOID && type != wanted && !IsBinaryCoercible(type, wanted))
		refuse_type(fcinfo, variable, type, wanted);
	return *isnull ? (Datum) 0 : PG_GETARG_DATUM(n);
}

static Datum
map_key_argument(FunctionCallInfo fcinfo, const SxVariable *variable)
{
	bool		isnull;
	Datum		key = any_argument(fcinfo, 1, variable, variable->plan->key_type, &isnull);

	if (isnull)
		refuse_null(fcinfo, "key");
	return key;
}

/* What the call is to return, by an argument that is only there for its type. */
static void
check_returned(FunctionCallInfo fcinfo, int n, const SxVariable *variable, Oid type)
{
	Oid			given = get_fn_expr_argtype(fcinfo->flinfo, n);

	if (OidIsValid(given) && given != type)
		refuse_type(fcinfo, variable, given, type);
}

/* An array of the variable's type that is not empty. */
static int
elements_argument(FunctionCallInfo fcinfo, int n, const SxVariable *variable, Datum **values, bool **nulls)
{
	Oid			type = variable->plan->type;
	Oid			array_type = get_array_type(type);
	bool		isnull;
	Datum		array;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int			count = 0;

	if (!OidIsValid(array_type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("%s() cannot be called for state variable \"%s\"",
						get_func_name(fcinfo->flinfo->fn_oid), variable->plan->name),
				 errdetail("There are no arrays of its type %s.", format_type_be(type)),
				 errhint("Declare the list with a row type that has a column of this type.")));
	array = any_argument(fcinfo, n, variable, array_type, &isnull);
	if (isnull)
		refuse_null(fcinfo, "array");
	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	deconstruct_array(DatumGetArrayTypeP(array), type, typlen, typbyval, typalign, values, nulls, &count);
	if (count == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s() was given an empty array", get_func_name(fcinfo->flinfo->fn_oid)),
				 errhint("state_clear() empties a list.")));
	return count;
}

static Datum
make_array(int n, Datum *values, bool *nulls, Oid type)
{
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int			lower = 1;

	if (n == 0)
		return PointerGetDatum(construct_empty_array(type));
	get_typlenbyvalalign(type, &typlen, &typbyval, &typalign);
	return PointerGetDatum(construct_md_array(values, nulls, 1, &n, &lower, type, typlen, typbyval, typalign));
}

/* ---- values ---- */

Datum
sx_api_state_get(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_VALUE);
	SxTransformValue value;

	check_returned(fcinfo, 1, variable, variable->plan->type);
	sx_transform_get(ts, variable, &value);
	if (value.isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value.value);
}

Datum
sx_api_state_exists(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	PG_RETURN_BOOL(sx_transform_exists(ts, sx_transform_any_variable(ts, name_argument(fcinfo))));
}

Datum
sx_api_state_put(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_VALUE);
	bool		isnull;
	Datum		value = any_argument(fcinfo, 1, variable, variable->plan->type, &isnull);

	sx_transform_put(ts, variable, value, isnull, ttl_argument(fcinfo, 2));
	PG_RETURN_VOID();
}

Datum
sx_api_state_clear(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	sx_transform_clear(ts, sx_transform_any_variable(ts, name_argument(fcinfo)));
	PG_RETURN_VOID();
}

/* ---- lists ---- */

Datum
sx_api_state_list_get(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_LIST);
	Datum	   *values;
	bool	   *nulls;
	int			n;

	check_returned(fcinfo, 1, variable, variable->plan->type);
	n = sx_transform_list(ts, variable, &values, &nulls);
	PG_RETURN_DATUM(make_array(n, values, nulls, variable->plan->type));
}

Datum
sx_api_state_list_length(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_LIST);

	PG_RETURN_INT64(sx_transform_length(ts, variable));
}

Datum
sx_api_state_list_append(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_LIST);
	bool		isnull;
	Datum		value = any_argument(fcinfo, 1, variable, variable->plan->type, &isnull);

	sx_transform_append(ts, variable, 1, &value, &isnull, ttl_argument(fcinfo, 2));
	PG_RETURN_VOID();
}

Datum
sx_api_state_list_append_all(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_LIST);
	Datum	   *values;
	bool	   *nulls;
	int			n = elements_argument(fcinfo, 1, variable, &values, &nulls);

	sx_transform_append(ts, variable, n, values, nulls, ttl_argument(fcinfo, 2));
	PG_RETURN_VOID();
}

Datum
sx_api_state_list_put(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_LIST);
	Datum	   *values;
	bool	   *nulls;
	int			n = elements_argument(fcinfo, 1, variable, &values, &nulls);
	int64		ttl = ttl_argument(fcinfo, 2);

	sx_transform_clear(ts, variable);
	sx_transform_append(ts, variable, n, values, nulls, ttl);
	PG_RETURN_VOID();
}

/* ---- maps ---- */

Datum
sx_api_state_map_get(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_MAP);
	SxTransformValue value;

	check_returned(fcinfo, 2, variable, variable->plan->type);
	sx_transform_map_get(ts, variable, map_key_argument(fcinfo, variable), &value);
	if (value.isnull)
		PG_RETURN_NULL();
	PG_RETURN_DATUM(value.value);
}

Datum
sx_api_state_map_exists(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_MAP);
	SxTransformValue value;

	sx_transform_map_get(ts, variable, map_key_argument(fcinfo, variable), &value);
	PG_RETURN_BOOL(value.found);
}

Datum
sx_api_state_map_put(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_MAP);
	Datum		key = map_key_argument(fcinfo, variable);
	bool		isnull;
	Datum		value = any_argument(fcinfo, 2, variable, variable->plan->type, &isnull);

	sx_transform_map_put(ts, variable, key, value, isnull, ttl_argument(fcinfo, 3));
	PG_RETURN_VOID();
}

Datum
sx_api_state_map_remove(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_MAP);

	PG_RETURN_BOOL(sx_transform_map_remove(ts, variable, map_key_argument(fcinfo, variable)));
}

/* All keys of the map, or all values. */
static Datum
map_as_array(FunctionCallInfo fcinfo, bool of_keys)
{
	SxTransformState *ts = state_here(fcinfo);
	SxVariable *variable = variable_argument(fcinfo, ts, SX_VARIABLE_MAP);
	Oid			type = of_keys ? variable->plan->key_type : variable->plan->type;
	Datum	   *keys;
	Datum	   *values;
	bool	   *nulls;
	int			n;

	check_returned(fcinfo, 1, variable, type);
	n = sx_transform_map(ts, variable, &keys, &values, &nulls);
	return make_array(n, of_keys ? keys : values, of_keys ? NULL : nulls, type);
}

Datum
sx_api_state_map_keys(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(map_as_array(fcinfo, true));
}

Datum
sx_api_state_map_values(PG_FUNCTION_ARGS)
{
	PG_RETURN_DATUM(map_as_array(fcinfo, false));
}

Datum
sx_api_state_map_size(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	PG_RETURN_INT64(sx_transform_size(ts, variable_argument(fcinfo, ts, SX_VARIABLE_MAP)));
}

/* ---- timers ---- */

static void
check_timers(FunctionCallInfo fcinfo, const SxTransformState *ts, bool groups)
{
	const SxPlanTransform *transform = ts->plan->transform;

	if (transform->groups != groups)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s() does not go with this form of handler", get_func_name(fcinfo->flinfo->fn_oid)),
				 errhint(transform->groups ? "A handler of map_groups_with_state() or flat_map_groups_with_state() has one timeout: timeout_set()." :
						 "A handler of transform_with_state() has timers: timer_set().")));
	if (transform->time_mode == SX_TIME_MODE_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("%s() needs a clock", get_func_name(fcinfo->flinfo->fn_oid)),
				 errdetail("The handler's %s is \"none\".", groups ? "timeout" : "time_mode"),
				 errhint("Set it to \"event\" or \"processing\" in the query.")));
}

static TimestampTz
time_argument(FunctionCallInfo fcinfo)
{
	if (PG_ARGISNULL(0))
		refuse_null(fcinfo, "time");
	if (TIMESTAMP_NOT_FINITE(PG_GETARG_TIMESTAMPTZ(0)))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("the time of %s() must be finite", get_func_name(fcinfo->flinfo->fn_oid))));
	return PG_GETARG_TIMESTAMPTZ(0);
}

Datum
sx_api_timer_set(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	check_timers(fcinfo, ts, false);
	sx_transform_timer_set(ts, time_argument(fcinfo));
	PG_RETURN_VOID();
}

Datum
sx_api_timer_delete(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	check_timers(fcinfo, ts, false);
	PG_RETURN_BOOL(sx_transform_timer_delete(ts, time_argument(fcinfo)));
}

Datum
sx_api_timer_list(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	TimestampTz *timers;
	Datum	   *values;
	int			n;

	check_timers(fcinfo, ts, false);
	n = sx_transform_timers(ts, &timers);
	values = palloc((n + 1) * sizeof(Datum));
	for (int i = 0; i < n; i++)
		values[i] = TimestampTzGetDatum(timers[i]);
	PG_RETURN_DATUM(make_array(n, values, NULL, TIMESTAMPTZOID));
}

static void
set_timeout(SxTransformState *ts, TimestampTz at)
{
	sx_transform_timers_clear(ts);
	sx_transform_timer_set(ts, at);
}

/* Not before the watermark (semantics 11). */
Datum
sx_api_timeout_set(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);
	TimestampTz at;

	check_timers(fcinfo, ts, true);
	at = time_argument(fcinfo);
	if (ts->plan->transform->time_mode != SX_TIME_MODE_EVENT)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a timeout of kind \"processing\" is an interval"),
				 errhint("Call timeout_set(interval '1 minute').")));
	if (ts->watermark != SX_TIME_UNSET && at < ts->watermark)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the timeout %s is before the watermark", timestamptz_to_str(at)),
				 errdetail("The watermark is %s.", pstrdup(timestamptz_to_str(ts->watermark))),
				 errhint("greatest(..., current_watermark()) is never before it.")));
	set_timeout(ts, at);
	PG_RETURN_VOID();
}

Datum
sx_api_timeout_set_after(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	check_timers(fcinfo, ts, true);
	if (PG_ARGISNULL(0))
		refuse_null(fcinfo, "interval");
	if (ts->plan->transform->time_mode != SX_TIME_MODE_PROCESSING)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("a timeout of kind \"event\" is a time"),
				 errhint("Call timeout_set(timestamptz).")));
	set_timeout(ts, ts->timestamp + interval_us(fcinfo, PG_GETARG_INTERVAL_P(0)));
	PG_RETURN_VOID();
}

Datum
sx_api_current_watermark(PG_FUNCTION_ARGS)
{
	SxTransformState *ts = state_here(fcinfo);

	if (ts->watermark == SX_TIME_UNSET)
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMPTZ(ts->watermark);
}

Datum
sx_api_current_processing_time(PG_FUNCTION_ARGS)
{
	PG_RETURN_TIMESTAMPTZ(state_here(fcinfo)->timestamp);
}
