/*
 * aggregate_call.h
 *		Calls PostgreSQL's aggregate functions outside an Agg plan node.
 *
 * Transition, combine, serial and final functions look at the AggState that they
 * are called with: whose aggregate context is it, which Aggref is this? So one
 * AggState is made per batch with what they look at: curaggcontext, tmpcontext,
 * curpertrans, curperagg and an EState.
 *
 * The values of all aggregates of a group lie side by side, at call->offset
 * from their begin. What a value is depends on the call:
 *
 *	 native		SxNativeSum or a number: count(*), count(x), sum and avg of bigint,
 *				counted without calling anything
 *	 collect	SxCollected: the argument rows as bytes, run through the
 *				aggregate when a result is due
 *	 else		SxAggValue: the transition value, in the live context
 *
 * Bytes of a group's values, version 1:
 *	 byte		version in the high four bits, in the low ones VALUE_HAS_NULLS
 *				and VALUE_HAS_DEAD
 *	 bitmaps	for each of these that is set, a bit per aggregate: its transition
 *				value is NULL; it is NULL and a strict transition function made it
 *				so (then it stays NULL, while another one still waits for its
 *				first argument)
 *	 values		of the aggregates that are not NULL, in order:
 *		native count	varint
 *		native sum		varint number of arguments, then varint 0 and the folded
 *						sum, or varint 1 and 16 bytes
 *		collect			if it has direct arguments: varint length, these as a row
 *						(length 0: there was no row yet); then varint number of
 *						rows, varint length of all rows, rows
 *		serialize		varint length, what the serial function gave
 *		transition		by its codec
 */
#ifndef SX_EXEC_AGGREGATE_CALL_H
#define SX_EXEC_AGGREGATE_CALL_H

#include "executor/nodeAgg.h"
#include "fmgr.h"

#include "exec/chunk.h"
#include "plan/plan.h"
#include "row/byte_set.h"
#include "row/datum_codec.h"

typedef enum SxAggNative
{
	SX_NATIVE_NONE,
	SX_NATIVE_COUNT,			/* count(*) */
	SX_NATIVE_COUNT_ARGUMENT,	/* count(x) */
	SX_NATIVE_SUM,				/* sum(bigint) */
	SX_NATIVE_AVG				/* avg(bigint) */
} SxAggNative;

typedef struct SxAggValue
{
	Datum		value;
	bool		isnull;
	bool		started;		/* a strict function has had its first argument */
} SxAggValue;

typedef struct SxNativeSum
{
	int64		n;
	int128		sum;
} SxNativeSum;

typedef struct SxCollected
{
	uint64		n;
	StringInfoData rows;
	SxByteSet  *seen;			/* DISTINCT, once a row was added in this batch */
	char	   *direct;			/* direct arguments, as a row */
	uint32		directlen;
} SxCollected;

typedef struct SxAggCall
{
	const SxPlanAggregate *plan;
	SxAggStrategy strategy;
	SxAggNative native;
	Size		offset;			/* of its value */

	/* from the catalogs, for the query's life */
	Oid			transfn_oid;
	Oid			finalfn_oid;
	Oid			combinefn_oid;
	Oid			serialfn_oid;
	Oid			deserialfn_oid;
	Oid			transtype;
	int16		translen;
	bool		transbyval;
	Datum		initval;
	bool		initnull;
	int			ntrans;			/* arguments of the transition function but the state */
	int			nfinal;			/* arguments of the final function, with the state */
	Expr	   *trans_expr;
	Expr	   *final_expr;
	Expr	   *combine_expr;
	Expr	   *serial_expr;
	Expr	   *deserial_expr;
	SxDatumCodec trans_codec;
	SxDatumCodec *input_codecs;
	SxDatumCodec *direct_codecs;
	int			nsort;			/* DISTINCT and ORDER BY columns, ordinary aggregates only */
	int			ndistinct;
	int		   *sort_inputs;	/* index among the inputs */
	struct SxAggSort *sorts;

	/* per batch */
	FmgrInfo	transfn;
	FmgrInfo	finalfn;
	FmgrInfo	combinefn;
	FmgrInfo	serialfn;
	FmgrInfo	deserialfn;
	FunctionCallInfo trans_call;
	FunctionCallInfo final_call;
	FunctionCallInfo combine_call;
} SxAggCall;

typedef struct SxAggCalls
{
	int			n;
	SxAggCall  *calls;
	Size		size;			/* of the values of a group */
	bool		combines;		/* values are combined: the operator keeps panes or sessions */

	/* per batch */
	AggState   *aggstate;
	EState	   *estate;
	ExprContext *live;			/* values of the groups that the batch touches */
	ExprContext *single;		/* of one group that is read, finished and forgotten */
	ExprContext *read;			/* of many that are read, combined and forgotten */
	ExprContext *temporary;		/* reset for every call */
	AggStatePerTransData *pertrans;
	AggStatePerAggData *peragg;
} SxAggCalls;

/* In a transaction; CurrentMemoryContext is the query's. Checks EXECUTE rights. */
extern SxAggCalls *sx_agg_calls_make(const SxPlanOperator *plan);

/* CurrentMemoryContext is the batch's. end is for success only: an error frees by context. */
extern void sx_agg_calls_begin(SxAggCalls *calls);
extern void sx_agg_calls_end(SxAggCalls *calls);

/* Where values made from now on live: calls->live, single or read. */
extern void sx_agg_calls_use(SxAggCalls *calls, ExprContext *context);

/* Sets the values of a new group. */
extern void sx_agg_values_init(SxAggCalls *calls, char *values);

/* Takes row rows[i] of the chunk into the values at values[i], for each i. */
extern void sx_agg_values_advance(SxAggCalls *calls, const SxChunk *chunk, int n,
								  const int *rows, char *const *values);

extern void sx_agg_values_encode(SxAggCalls *calls, const char *values, StringInfo out);
extern void sx_agg_values_decode(SxAggCalls *calls, char *values, SxReader *in);

/*
 * Values of a part of a group's rows, and of another part: into becomes those of
 * both; from stays as it is. Only with calls->combines. copy first, if into is
 * not to be that of the state; it can't copy collected arguments, which panes
 * never have.
 */
extern void sx_agg_values_copy(SxAggCalls *calls, char *into, const char *from);
extern void sx_agg_values_combine(SxAggCalls *calls, char *into, const char *from);

/*
 * The aggregates' results; the values can't be used any more. Results are valid
 * until calls->single is reset.
 */
extern void sx_agg_values_finish(SxAggCalls *calls, char *values, Datum *results, bool *nulls);

/* aggregate_collect.c */
extern void sx_collected_init(SxAggCall *call, SxCollected *collected);
extern void sx_collected_add(SxAggCalls *calls, SxAggCall *call, SxCollected *collected,
							 const SxChunk *chunk, int row, bool counts);
extern void sx_collected_combine(SxAggCalls *calls, SxAggCall *call, SxCollected *into,
								 const SxCollected *from);
extern void sx_collected_encode(SxAggCall *call, const SxCollected *collected, StringInfo out);
extern void sx_collected_decode(SxAggCall *call, SxCollected *collected, SxReader *in);
extern void sx_collected_finish(SxAggCalls *calls, int number, SxCollected *collected,
								Datum *result, bool *isnull);
extern void sx_collected_prepare(SxAggCall *call);

/* For the files of the aggregates: the single steps with an SxAggValue. */
extern void sx_agg_value_init(SxAggCalls *calls, SxAggCall *call, SxAggValue *value);
extern void sx_agg_value_advance(SxAggCalls *calls, SxAggCall *call, SxAggValue *value);
extern void sx_agg_value_finish(SxAggCalls *calls, int number, SxAggValue *value,
								const Datum *direct, const bool *direct_nulls,
								Datum *result, bool *isnull);

#endif
