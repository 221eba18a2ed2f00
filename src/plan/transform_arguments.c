/*
 * transform_arguments.c
 *		See transform_arguments.h.
 *
 * Types and functions are pinned where the view pins them: by the types of NULL
 * constants and by regproc constants, never by names that are looked up again.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parse_coerce.h"
#include "parser/parse_oper.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/errors.h"
#include "plan/function_kind.h"
#include "plan/transform_arguments.h"

/* the places of the arguments; the older forms have fewer */
enum
{
	HANDLER, KEY, ROW, OUTPUT, STATE,
	TIME_MODE, EVENT_TIME_COLUMN, INITIAL_STATE, INITIAL_HANDLER, MAX_ROWS,
	TIMEOUT = TIME_MODE, GROUPS_MAX_ROWS = EVENT_TIME_COLUMN
};

static const struct
{
	const char *word;
	SxTimeMode	mode;
}			time_modes[] = {
	/* the first word of each is ours */
	{"none", SX_TIME_MODE_NONE},
	{"event", SX_TIME_MODE_EVENT},
	{"processing", SX_TIME_MODE_PROCESSING},
	{"eventtime", SX_TIME_MODE_EVENT},
	{"processingtime", SX_TIME_MODE_PROCESSING},
	{"notimeout", SX_TIME_MODE_NONE},
	{"eventtimetimeout", SX_TIME_MODE_EVENT},
	{"processingtimetimeout", SX_TIME_MODE_PROCESSING},
};

const char *
sx_time_mode_name(SxTimeMode mode)
{
	return time_modes[mode].word;
}

const char *
sx_variable_kind_name(SxVariableKind kind)
{
	static const char *const names[] = {"value", "list", "map"};

	return names[kind];
}

/* ---- constants ---- */

static Const *
constant(Node *argument, const FuncExpr *call, const char *name)
{
	Node	   *value = eval_const_expressions(NULL, argument);

	if (!IsA(value, Const))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("argument \"%s\" of %s() must be a constant", name, get_func_name(call->funcid))));
	return (Const *) value;
}

static void
refuse_null(const FuncExpr *call, const char *name)
{
	ereport(ERROR,
			(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
			 errmsg("argument \"%s\" of %s() must not be null", name, get_func_name(call->funcid))));
}

static Oid
constant_oid(Node *argument, const FuncExpr *call, const char *name)
{
	Const	   *value = constant(argument, call, name);

	return value->constisnull ? InvalidOid : DatumGetObjectId(value->constvalue);
}

static char *
constant_text(Node *argument, const FuncExpr *call, const char *name)
{
	Const	   *value = constant(argument, call, name);

	return value->constisnull ? NULL : TextDatumGetCString(value->constvalue);
}

static SxTimeMode
constant_mode(Node *argument, const FuncExpr *call, const char *name)
{
	char	   *word = constant_text(argument, call, name);

	if (word == NULL)
		refuse_null(call, name);
	for (int i = 0; i < lengthof(time_modes); i++)
		if (pg_strcasecmp(word, time_modes[i].word) == 0)
			return time_modes[i].mode;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("argument \"%s\" of %s() is \"%s\"", name, get_func_name(call->funcid), word),
			 errhint("It is one of none, event, processing.")));
}

static int
constant_max_rows(Node *argument, const FuncExpr *call)
{
	Const	   *value = constant(argument, call, "max_rows");

	if (value->constisnull)
		refuse_null(call, "max_rows");
	if (DatumGetInt32(value->constvalue) < 1)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"max_rows\" of %s() must be at least 1", get_func_name(call->funcid))));
	return DatumGetInt32(value->constvalue);
}

/* A type that a value of the state, or a handler's argument, can have. */
static Oid
concrete_type(Node *argument, const char *what)
{
	Oid			type = exprType(argument);

	if (type == UNKNOWNOID || get_typtype(type) == TYPTYPE_PSEUDO)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the %s of a handler with state has type %s", what, format_type_be(type)),
				 errhint("Cast it: rows to a named row type, as in ROW(a, b)::pair, literals to the type that is meant.")));
	return type;
}

/* ---- variables ---- */

static int64
constant_ttl(Node *argument, const FuncExpr *call)
{
	Const	   *value = constant(argument, call, "ttl");
	Interval   *ttl;
	int64		us;

	if (value->constisnull)
		return 0;
	ttl = DatumGetIntervalP(value->constvalue);
	us = ttl->time + ttl->day * USECS_PER_DAY;
	if (ttl->month != 0 || us <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the ttl of a state variable must be positive and without months"),
				 errhint("Leave it out for a variable that stays.")));
	return us;
}

static void
read_variable(SxPlanVariable *variable, Node *node)
{
	FuncExpr   *call = (FuncExpr *) strip_implicit_coercions(node);
	SxFunctionKind kind = sx_function_kind((Node *) call);
	List	   *arguments;
	Oid			equality;

	if (kind != SX_FUNCTION_VALUE_STATE && kind != SX_FUNCTION_LIST_STATE &&
		kind != SX_FUNCTION_MAP_STATE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("argument \"state\" holds something that declares no variable"),
				 errhint("Write state => ARRAY[value_state('n', NULL::bigint), list_state('seen', NULL::text), map_state('by_name', NULL::text, NULL::int)].")));
	arguments = sx_function_arguments(call);
	variable->name = constant_text(linitial(arguments), call, "name");
	if (variable->name == NULL)
		refuse_null(call, "name");
	if (variable->name[0] == '\0' || strlen(variable->name) >= NAMEDATALEN ||
		strpbrk(variable->name, " \t\r\n") != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("\"%s\" cannot be the name of a state variable", variable->name),
				 errdetail("A name has 1 to %d bytes and no blanks.", NAMEDATALEN - 1)));
	variable->kind = kind == SX_FUNCTION_VALUE_STATE ? SX_VARIABLE_VALUE :
		kind == SX_FUNCTION_LIST_STATE ? SX_VARIABLE_LIST : SX_VARIABLE_MAP;
	if (variable->kind == SX_VARIABLE_MAP)
	{
		variable->key_type = concrete_type(lsecond(arguments), "key of a map");
		/* raises an error if there is none */
		get_sort_group_operators(variable->key_type, false, true, false, NULL, &equality, NULL, NULL);
		variable->key_collation = exprCollation(lsecond(arguments));
	}
	variable->type = concrete_type(list_nth(arguments, list_length(arguments) - 2), "state");
	variable->ttl = constant_ttl(llast(arguments), call);
}

static int
compare_variables(const void *a, const void *b)
{
	return strcmp(((const SxPlanVariable *) a)->name, ((const SxPlanVariable *) b)->name);
}

static void
read_variables(SxPlanTransform *transform, Node *argument, const FuncExpr *call)
{
	Node	   *value = strip_implicit_coercions(argument);
	List	   *elements = NIL;
	ListCell   *cell;

	if (IsA(value, ArrayExpr) && !((ArrayExpr *) value)->multidims)
		elements = ((ArrayExpr *) value)->elements;
	else
	{
		/* the default: an array without elements */
		Const	   *given = constant(argument, call, "state");

		if (given->constisnull || ArrayGetNItems(ARR_NDIM(DatumGetArrayTypeP(given->constvalue)),
												 ARR_DIMS(DatumGetArrayTypeP(given->constvalue))) > 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("argument \"state\" must be written as ARRAY[...] of declarations"),
					 errhint("Write state => ARRAY[value_state('n', NULL::bigint)].")));
	}
	transform->variables = palloc0(sizeof(SxPlanVariable) * (list_length(elements) + 1));
	foreach(cell, elements)
		read_variable(&transform->variables[transform->nvariables++], lfirst(cell));
	qsort(transform->variables, transform->nvariables, sizeof(SxPlanVariable), compare_variables);
	for (int i = 0; i < transform->nvariables; i++)
	{
		const SxPlanVariable *variable = &transform->variables[i];

		if (i > 0 && strcmp(variable[-1].name, variable->name) == 0)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("state variable \"%s\" is declared twice", variable->name)));
		if (variable->ttl > 0 && transform->time_mode != SX_TIME_MODE_PROCESSING)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("a ttl needs time mode \"processing\""),
					 errdetail("State variable \"%s\" has one, and the time mode is \"%s\".",
							   variable->name, sx_time_mode_name(transform->time_mode)),
					 errhint("In time mode \"event\" set a timer and clear the variable when it fires.")));
	}
}

/* The older forms keep one value. */
static void
one_variable(SxPlanTransform *transform, Node *argument)
{
	transform->variables = palloc0(sizeof(SxPlanVariable));
	transform->nvariables = 1;
	transform->variables->name = "state";
	transform->variables->kind = SX_VARIABLE_VALUE;
	transform->variables->type = concrete_type(argument, "state");
}

/* ---- functions ---- */

static bool
takes(Form_pg_proc proc, int n, const Oid *types)
{
	if (proc->pronargs != n)
		return false;
	for (int i = 0; i < n; i++)
		if (!IsBinaryCoercible(types[i], proc->proargtypes.values[i]))
			return false;
	return true;
}

static bool
gives(Oid function, Oid type, TupleDesc desc)
{
	Oid			result;
	TupleDesc	columns;

	if (get_func_rettype(function) == type)
		return true;
	if (desc == NULL || get_func_result_type(function, &result, &columns) != TYPEFUNC_COMPOSITE ||
		columns->natts != desc->natts)
		return false;
	for (int i = 0; i < desc->natts; i++)
		if (TupleDescAttr(desc, i)->attisdropped ||
			TupleDescAttr(desc, i)->atttypid != TupleDescAttr(columns, i)->atttypid)
			return false;
	return true;
}

static char *
type_list(int n, const Oid *types)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < n; i++)
		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "", format_type_be(types[i]));
	return text.data;
}

/* output InvalidOid: what it returns is ignored. */
static void
check_function(Oid function, int n, const Oid *types, Oid output, TupleDesc desc, bool one_row)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Form_pg_proc proc;
	bool		fits;
	bool		strict;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("the handler of a handler with state does not exist")));
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	fits = proc->prokind == PROKIND_FUNCTION && takes(proc, n, types) &&
		(OidIsValid(output) ? gives(function, output, desc) : proc->prorettype == VOIDOID) &&
		!(one_row && proc->proretset);
	strict = proc->proisstrict;
	ReleaseSysCache(tuple);
	if (fits && strict)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
				 errmsg("function %s is STRICT", format_procedure(function)),
				 errdetail("The timer, and the key of some rows, is NULL: then it would not be called."),
				 errhint("ALTER FUNCTION %s CALLED ON NULL INPUT.", format_procedure(function))));
	if (fits)
		return;
	if (!OidIsValid(output))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("function %s does not fit as the handler of the initial state",
						format_procedure(function)),
				 errhint("Declare it as %s(%s) RETURNS void.", get_func_name(function), type_list(n, types))));
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("function %s does not fit as a handler here", format_procedure(function)),
			 errdetail("It is called with the key, an array of rows, and the timer that fires, or NULL."),
			 errhint("Declare it as %s(%s) RETURNS %s%s.", get_func_name(function), type_list(n, types),
					 one_row ? "" : "SETOF ", format_type_be(output))));
}

static void
check_handler(SxTransformArguments *arguments)
{
	SxPlanTransform *transform = arguments->transform;
	Oid			types[3] = {concrete_type(arguments->key, "key"), transform->rows_type, TIMESTAMPTZOID};

	check_function(transform->handler, 3, types, transform->output_type, arguments->output_desc,
				   transform->single);
}

static void
check_initial(SxTransformArguments *arguments)
{
	SxPlanTransform *transform = arguments->transform;
	Oid			types[2] = {exprType(arguments->key)};
	Oid			first;

	if (!OidIsValid(transform->initial_relation) && !OidIsValid(transform->initial_handler))
		return;
	if (!OidIsValid(transform->initial_relation) || !OidIsValid(transform->initial_handler))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"initial_state\" and \"initial_handler\" go together"),
				 errdetail("The handler is called for each key of the initial state, before anything else.")));
	transform->initial_type = get_rel_type_id(transform->initial_relation);
	types[1] = OidIsValid(transform->initial_type) ? get_array_type(transform->initial_type) : InvalidOid;
	first = get_atttype(transform->initial_relation, 1);
	if (!OidIsValid(types[1]) || first != types[0])
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the first column of the initial state is not a key"),
				 errdetail("The key has type %s.", format_type_be(types[0])),
				 errhint("Make a view whose first column is the key, with this type.")));
	check_function(transform->initial_handler, 2, types, InvalidOid, NULL, false);
}

/* ---- the rows ---- */

static void
read_row(SxTransformArguments *arguments)
{
	SxPlanTransform *transform = arguments->transform;

	transform->row_type = concrete_type(arguments->row, "row");
	transform->rows_type = get_array_type(transform->row_type);
	if (!OidIsValid(transform->rows_type))
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("rows of type %s cannot be handed to a handler", format_type_be(transform->row_type)),
				 errdetail("The type has no array type.")));
}

static void
read_output(SxTransformArguments *arguments, const FuncExpr *call)
{
	SxPlanTransform *transform = arguments->transform;
	Oid			type = call->funcresulttype;

	transform->output_type = type;
	transform->output_scalar = !type_is_rowtype(type);
	if (transform->output_scalar)
	{
		transform->natts = 1;
		return;
	}
	if (get_typtype(type) != TYPTYPE_COMPOSITE)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("a handler's output cannot have type %s", format_type_be(type)),
				 errhint("Use a type made by CREATE TYPE ... AS, or that of a table.")));
	arguments->output_desc = lookup_rowtype_tupdesc_copy(type, -1);
	transform->natts = arguments->output_desc->natts;
}

SxTransformArguments *
sx_transform_arguments(const FuncExpr *call)
{
	SxTransformArguments *arguments = palloc0(sizeof(SxTransformArguments));
	SxPlanTransform *transform = palloc0(sizeof(SxPlanTransform));
	SxFunctionKind kind = sx_function_kind((const Node *) call);
	List	   *list = sx_function_arguments(call);

	arguments->transform = transform;
	transform->groups = kind != SX_FUNCTION_TRANSFORM;
	transform->single = kind == SX_FUNCTION_MAP_GROUPS;
	transform->handler = constant_oid(list_nth(list, HANDLER), call, "handler");
	if (!OidIsValid(transform->handler))
		refuse_null(call, "handler");
	arguments->key = list_nth(list, KEY);
	arguments->row = list_nth(list, ROW);
	read_row(arguments);
	read_output(arguments, call);
	transform->time_mode = constant_mode(list_nth(list, TIME_MODE), call,
										 transform->groups ? "timeout" : "time_mode");
	if (transform->groups)
	{
		one_variable(transform, list_nth(list, STATE));
		transform->max_rows = constant_max_rows(list_nth(list, GROUPS_MAX_ROWS), call);
	}
	else
	{
		read_variables(transform, list_nth(list, STATE), call);
		arguments->event_time_column = constant_text(list_nth(list, EVENT_TIME_COLUMN), call,
													 "event_time_column");
		transform->initial_relation = constant_oid(list_nth(list, INITIAL_STATE), call, "initial_state");
		transform->initial_handler = constant_oid(list_nth(list, INITIAL_HANDLER), call, "initial_handler");
		transform->max_rows = constant_max_rows(list_nth(list, MAX_ROWS), call);
	}
	check_handler(arguments);
	check_initial(arguments);
	return arguments;
}
