/*
 * function_kind.c
 *		Recognises the functions of this extension by their C symbol: names and
 *		schemas can be changed by users, other functions can have ours.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/makefuncs.h"
#include "optimizer/clauses.h"
#include "optimizer/optimizer.h"
#include "parser/parse_func.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "plan/function_kind.h"

static const struct
{
	const char *symbol;
	const char *name;
	SxFunctionKind kind;
}			functions[] = {
	{"sx_api_tumble", NULL, SX_FUNCTION_TUMBLE},
	{"sx_api_hop", NULL, SX_FUNCTION_HOP},
	{"sx_api_window_time", NULL, SX_FUNCTION_WINDOW_TIME},
	{"sx_api_watermark", NULL, SX_FUNCTION_WATERMARK},
	{"sx_api_watermark_observe", NULL, SX_FUNCTION_OBSERVE},
	{"sx_api_unsupported_marker", "session", SX_FUNCTION_SESSION},
	{"sx_api_unsupported_marker", "within_watermark", SX_FUNCTION_WITHIN_WATERMARK},
	{"sx_api_transform", "transform_with_state", SX_FUNCTION_TRANSFORM},
	{"sx_api_transform", "map_groups_with_state", SX_FUNCTION_MAP_GROUPS},
	{"sx_api_transform", "flat_map_groups_with_state", SX_FUNCTION_FLAT_MAP_GROUPS},
	{"sx_api_state_variable", "value_state", SX_FUNCTION_VALUE_STATE},
	{"sx_api_state_variable", "list_state", SX_FUNCTION_LIST_STATE},
	{"sx_api_state_variable", "map_state", SX_FUNCTION_MAP_STATE},
};

SxFunctionKind
sx_function_kind(const Node *node)
{
	SxFunctionKind kind = SX_FUNCTION_OTHER;
	const FuncExpr *call = (const FuncExpr *) node;
	HeapTuple	tuple;
	Form_pg_proc proc;
	Datum		source;
	bool		isnull;

	if (node == NULL || !IsA(node, FuncExpr) || call->funcid < FirstNormalObjectId)
		return SX_FUNCTION_OTHER;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", call->funcid);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	source = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_prosrc, &isnull);
	if (!isnull && proc->prolang == ClanguageId)
	{
		char	   *symbol = TextDatumGetCString(source);

		for (int i = 0; i < lengthof(functions); i++)
			if (strcmp(symbol, functions[i].symbol) == 0 &&
				(functions[i].name == NULL ||
				 strcmp(NameStr(proc->proname), functions[i].name) == 0))
				kind = functions[i].kind;
		pfree(symbol);
	}
	ReleaseSysCache(tuple);
	if (kind != SX_FUNCTION_OTHER &&
		getExtensionOfObject(ProcedureRelationId, call->funcid) !=
		get_extension_oid("streamx", true))
		kind = SX_FUNCTION_OTHER;
	return kind;
}

List *
sx_function_arguments(const FuncExpr *call)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	List	   *arguments;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", call->funcid);
	arguments = expand_function_arguments(copyObject(call->args), false,
										  call->funcresulttype, tuple);
	ReleaseSysCache(tuple);
	return arguments;
}

Interval *
sx_constant_interval(Node *argument, const FuncExpr *call, const char *what)
{
	Node	   *value = eval_const_expressions(NULL, argument);

	if (!IsA(value, Const))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the %s of %s() must be a constant in a continuous query",
						what, get_func_name(call->funcid))));
	if (((Const *) value)->constisnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the %s of %s() must not be null", what, get_func_name(call->funcid))));
	return DatumGetIntervalP(((Const *) value)->constvalue);
}

FuncExpr *
sx_make_observe(const FuncExpr *watermark, int cell)
{
	Oid			types[2] = {TIMESTAMPTZOID, INT4OID};
	Oid			function;
	Const	   *number;

	function = LookupFuncName(list_make2(makeString(pstrdup("streamx")),
										 makeString(pstrdup("watermark_observe"))),
							  2, types, false);
	number = makeConst(INT4OID, -1, InvalidOid, sizeof(int32), Int32GetDatum(cell), false, true);
	return makeFuncExpr(function, TIMESTAMPTZOID,
						list_make2(linitial(sx_function_arguments(watermark)), number),
						InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
}
