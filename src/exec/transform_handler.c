/*
 * transform_handler.c
 *		See transform_handler.h.  The server's machinery of functions in FROM does
 *		it: it knows every way in which a function can return rows.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "nodes/makefuncs.h"
#include "nodes/params.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplestore.h"

#include "exec/transform_handler.h"

struct SxHandler
{
	SetExprState *expression;
	ExprContext *context;
	MemoryContext arguments;
	MemoryContext results;
	ParamListInfo params;
	TupleDesc	result;
	TupleTableSlot *slot;
};

SxHandler *
sx_handler_begin(Oid function, int nargs, const Oid *types, Oid collation, TupleDesc result)
{
	SxHandler  *handler = palloc0(sizeof(SxHandler));
	List	   *arguments = NIL;
	FuncExpr   *call;

	handler->params = makeParamList(nargs);
	for (int i = 0; i < nargs; i++)
	{
		Param	   *param = makeNode(Param);

		param->paramkind = PARAM_EXTERN;
		param->paramid = i + 1;
		param->paramtype = types[i];
		param->paramtypmod = -1;
		param->paramcollid = get_typcollation(types[i]);
		param->location = -1;
		arguments = lappend(arguments, param);
		handler->params->params[i].ptype = types[i];
		handler->params->params[i].pflags = PARAM_FLAG_CONST;
	}
	call = makeFuncExpr(function, get_func_rettype(function), arguments, InvalidOid, collation,
						COERCE_EXPLICIT_CALL);
	call->funcretset = get_func_retset(function);
	handler->context = CreateStandaloneExprContext();
	handler->context->ecxt_param_list_info = handler->params;
	handler->arguments = AllocSetContextCreate(CurrentMemoryContext, "streamx handler arguments",
											   ALLOCSET_DEFAULT_SIZES);
	handler->result = result;
	handler->slot = MakeSingleTupleTableSlot(result, &TTSOpsMinimalTuple);
	handler->expression = ExecInitTableFunctionResult((Expr *) call, handler->context, NULL);

	/* What lasts for the call only: the rest of the batch need not keep it. */
	handler->results = AllocSetContextCreate(CurrentMemoryContext, "streamx handler results",
											 ALLOCSET_DEFAULT_SIZES);
	handler->context->ecxt_per_query_memory = handler->results;
	return handler;
}

void
sx_handler_call(SxHandler *handler, const Datum *values, const bool *nulls, SxHandlerRow row, void *arg)
{
	Tuplestorestate *rows;

	for (int i = 0; i < handler->params->numParams; i++)
	{
		handler->params->params[i].value = values[i];
		handler->params->params[i].isnull = nulls[i];
	}
	rows = ExecMakeTableFunctionResult(handler->expression, handler->context, handler->arguments,
									   handler->result, false);
	while (row != NULL && tuplestore_gettupleslot(rows, true, false, handler->slot))
		row(arg, handler->slot);
	ExecClearTuple(handler->slot);
	tuplestore_end(rows);
	ResetExprContext(handler->context);
	MemoryContextReset(handler->results);
}

void
sx_handler_end(SxHandler *handler)
{
	ExecDropSingleTupleTableSlot(handler->slot);
	FreeExprContext(handler->context, true);
}
