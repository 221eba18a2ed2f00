/*
 * aggregate_catalog.c
 *		What the catalogs say about an aggregate, looked up once.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "parser/parse_agg.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"

#include "base/compat.h"
#include "exec/aggregate_call.h"

static void
check_execute(Oid function, Oid role)
{
	AclResult	result;

	if (!OidIsValid(function))
		return;
	result = object_aclcheck(ProcedureRelationId, function, role, ACL_EXECUTE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_FUNCTION, get_func_name(function));
	InvokeFunctionExecuteHook(function);
}

/* As the executor does: the aggregate for the caller, its parts for its owner. */
static void
check_rights(const SxAggCall *call, Oid aggregate, bool combines)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(aggregate));
	Oid			owner;
	AclResult	result;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", aggregate);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	result = object_aclcheck(ProcedureRelationId, aggregate, GetUserId(), ACL_EXECUTE);
	if (result != ACLCHECK_OK)
		aclcheck_error(result, OBJECT_AGGREGATE, get_func_name(aggregate));
	InvokeFunctionExecuteHook(aggregate);
	check_execute(call->transfn_oid, owner);
	check_execute(call->finalfn_oid, owner);
	if (combines || call->strategy == SX_AGG_SERIALIZE)
		check_execute(call->combinefn_oid, owner);
	if (call->strategy == SX_AGG_SERIALIZE)
	{
		check_execute(call->serialfn_oid, owner);
		check_execute(call->deserialfn_oid, owner);
	}
}

static void
read_initial_value(SxAggCall *call, HeapTuple tuple)
{
	Datum		initial = SysCacheGetAttr(AGGFNOID, tuple, Anum_pg_aggregate_agginitval,
										  &call->initnull);
	Oid			input;
	Oid			ioparam;
	char	   *string;

	if (call->initnull)
		return;
	getTypeInputInfo(call->transtype, &input, &ioparam);
	string = TextDatumGetCString(initial);
	call->initval = OidInputFunctionCall(input, string, ioparam, -1);
	pfree(string);
}

/*
 * The few aggregates that are counted here. Their results are those of the
 * server's functions: the same numbers, the same numeric arithmetic.
 */
static SxAggNative
find_native(const SxAggCall *call)
{
	if (call->plan->aggref->aggkind != AGGKIND_NORMAL || call->strategy == SX_AGG_COLLECT)
		return SX_NATIVE_NONE;
	if (call->transfn_oid == F_INT8INC && !OidIsValid(call->finalfn_oid) && call->ntrans == 0)
		return SX_NATIVE_COUNT;
	if (call->transfn_oid == F_INT8INC_ANY && !OidIsValid(call->finalfn_oid) && call->ntrans == 1)
		return SX_NATIVE_COUNT_ARGUMENT;
	if (call->transfn_oid == F_INT8_AVG_ACCUM && call->finalfn_oid == F_NUMERIC_POLY_SUM)
		return SX_NATIVE_SUM;
	if (call->transfn_oid == F_INT8_AVG_ACCUM && call->finalfn_oid == F_NUMERIC_POLY_AVG)
		return SX_NATIVE_AVG;
	return SX_NATIVE_NONE;
}

static void
make_expressions(SxAggCall *call, Oid *argtypes, int nargs, bool combines)
{
	Aggref	   *aggref = call->plan->aggref;

	build_aggregate_transfn_expr(argtypes, nargs, call->plan->ndirect, aggref->aggvariadic,
								 call->transtype, aggref->inputcollid, call->transfn_oid,
								 InvalidOid, &call->trans_expr, NULL);
	if (OidIsValid(call->finalfn_oid))
		build_aggregate_finalfn_expr(argtypes, call->nfinal, call->transtype, aggref->aggtype,
									 aggref->inputcollid, call->finalfn_oid, &call->final_expr);
	if (call->strategy == SX_AGG_SERIALIZE)
	{
		build_aggregate_serialfn_expr(call->serialfn_oid, &call->serial_expr);
		build_aggregate_deserialfn_expr(call->deserialfn_oid, &call->deserial_expr);
	}
	if (combines || call->strategy == SX_AGG_SERIALIZE)
	{
		Oid			two[2] = {call->transtype, call->transtype};

		build_aggregate_transfn_expr(two, 1, 0, false, call->transtype, aggref->inputcollid,
									 call->combinefn_oid, InvalidOid, &call->combine_expr, NULL);
	}
}

static SxDatumCodec *
make_codecs(List *exprs)
{
	SxDatumCodec *codecs = palloc0((list_length(exprs) + 1) * sizeof(SxDatumCodec));
	ListCell   *cell;
	int			i = 0;

	foreach(cell, exprs)
	{
		Node	   *expr = lfirst(cell);

		if (IsA(expr, TargetEntry))
			expr = (Node *) ((TargetEntry *) expr)->expr;
		sx_datum_codec_make(&codecs[i++], exprType(expr));
	}
	return codecs;
}

static void
make_call(SxAggCall *call, const SxPlanAggregate *plan, bool combines)
{
	Aggref	   *aggref = plan->aggref;
	HeapTuple	tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggref->aggfnoid));
	Form_pg_aggregate form;
	Oid			argtypes[FUNC_MAX_ARGS];
	int			nargs;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("aggregate with OID %u does not exist any more", aggref->aggfnoid)));
	form = (Form_pg_aggregate) GETSTRUCT(tuple);
	call->plan = plan;
	call->strategy = plan->strategy;
	call->transfn_oid = form->aggtransfn;
	call->finalfn_oid = form->aggfinalfn;
	call->combinefn_oid = form->aggcombinefn;
	call->serialfn_oid = form->aggserialfn;
	call->deserialfn_oid = form->aggdeserialfn;

	nargs = get_aggregate_argtypes(aggref, argtypes);
	call->transtype = resolve_aggregate_transtype(aggref->aggfnoid, form->aggtranstype,
												  argtypes, nargs);
	aggref->aggtranstype = call->transtype;
	get_typlenbyval(call->transtype, &call->translen, &call->transbyval);
	call->ntrans = AGGKIND_IS_ORDERED_SET(aggref->aggkind) ?
		list_length(aggref->args) : nargs - plan->ndirect;
	call->nfinal = form->aggfinalextra ? nargs + 1 : plan->ndirect + 1;
	read_initial_value(call, tuple);
	ReleaseSysCache(tuple);

	check_rights(call, aggref->aggfnoid, combines);
	make_expressions(call, argtypes, nargs, combines);
	call->native = find_native(call);
	if (call->strategy == SX_AGG_TRANSITION)
		sx_datum_codec_make(&call->trans_codec, call->transtype);
	call->input_codecs = make_codecs(aggref->args);
	call->direct_codecs = make_codecs(aggref->aggdirectargs);
	call->trans_call = palloc0(SizeForFunctionCallInfo(Max(call->ntrans + 1, 2)));
	call->final_call = palloc0(SizeForFunctionCallInfo(call->nfinal));
	call->combine_call = palloc0(SizeForFunctionCallInfo(2));
	if (call->strategy == SX_AGG_COLLECT)
		sx_collected_prepare(call);
}

static Size
value_size(const SxAggCall *call)
{
	if (call->native == SX_NATIVE_COUNT || call->native == SX_NATIVE_COUNT_ARGUMENT)
		return sizeof(int64);
	if (call->native != SX_NATIVE_NONE)
		return sizeof(SxNativeSum);
	return call->strategy == SX_AGG_COLLECT ? sizeof(SxCollected) : sizeof(SxAggValue);
}

SxAggCalls *
sx_agg_calls_make(const SxPlanOperator *plan)
{
	SxAggCalls *calls = palloc0(sizeof(SxAggCalls));
	int			n = plan->naggregates;

	calls->n = n;
	calls->combines = plan->panes || plan->kind == SX_OPERATOR_SESSION;
	calls->calls = palloc0((n + 1) * sizeof(SxAggCall));
	calls->pertrans = palloc0((n + 1) * sizeof(AggStatePerTransData));
	calls->peragg = palloc0((n + 1) * sizeof(AggStatePerAggData));
	for (int i = 0; i < n; i++)
	{
		SxAggCall  *call = &calls->calls[i];

		make_call(call, &plan->aggregates[i],
				  calls->combines && plan->aggregates[i].strategy != SX_AGG_COLLECT);
		call->offset = calls->size;
		calls->size += MAXALIGN(value_size(call));
		calls->pertrans[i].aggref = plan->aggregates[i].aggref;
		calls->pertrans[i].aggshared = false;
		calls->pertrans[i].aggtranstype = call->transtype;
		calls->peragg[i].aggref = plan->aggregates[i].aggref;
		calls->peragg[i].transno = i;
		calls->peragg[i].finalfn_oid = call->finalfn_oid;
	}
	return calls;
}
