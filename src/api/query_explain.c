/*
 * query_explain.c
 *		explain_query: the operator tree, what each operator holds, how the
 *		watermark comes about.
 *
 * What an operator keeps and when it goes is said by its own routine
 * (exec/operator.h); here is added what the last committed batch told of it.
 */
#include "postgres.h"

#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/numeric.h"
#include "utils/timestamp.h"

#include "api/api.h"
#include "api/query_view.h"
#include "checkpoint/batch_record.h"
#include "exec/exec.h"

PG_FUNCTION_INFO_V1(sx_api_explain_query);

static JsonbValue *
field(JsonbContainer *object, const char *name)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), NULL);
}

static int64
number_field(JsonbContainer *object, const char *name)
{
	JsonbValue *value = field(object, name);

	return value != NULL && value->type == jbvNumeric ?
		DatumGetInt64(DirectFunctionCall1(numeric_int8, NumericGetDatum(value->val.numeric))) : 0;
}

/* What the progress of the batch says of operator i; NULL: nothing. */
static char *
state_of_operator(const SxQuery *query, const SxBatchRecord *record, Jsonb *progress, int i)
{
	JsonbValue *operators = field(&progress->root, "stateOperators");
	JsonbValue *op;

	if (operators == NULL || operators->type != jbvBinary ||
		!JsonContainerIsArray(operators->val.binary.data))
		return NULL;
	op = getIthJsonbValueFromContainer(operators->val.binary.data, i);
	if (op == NULL || op->type != jbvBinary || !JsonContainerIsObject(op->val.binary.data))
		return NULL;
	return psprintf("store %s, rows " INT64_FORMAT ", memory " INT64_FORMAT " bytes after batch " INT64_FORMAT,
					query->options.state_store, number_field(op->val.binary.data, "numRowsTotal"),
					number_field(op->val.binary.data, "memoryUsedBytes"), record->batch_id);
}

/* By operator. */
static char **
operator_states(const SxQuery *query, const SxPlan *plan, const SxBatchRecord *record)
{
	char	  **states = palloc0(sizeof(char *) * Max(plan->noperators, 1));
	Jsonb	   *progress = NULL;

	if (record != NULL && record->batch_id >= 0 && record->progress != NULL)
		progress = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(record->progress)));
	for (int i = 0; i < plan->noperators; i++)
	{
		if (progress != NULL)
			states[i] = state_of_operator(query, record, progress, i);
		if (states[i] == NULL)
			states[i] = psprintf("store %s, nothing yet", query->options.state_store);
	}
	return states;
}

static const char *
time_text(TimestampTz time)
{
	return time == SX_TIME_UNSET ? "not set" : pstrdup(timestamptz_to_str(time));
}

static char *
duration_text(int64 microseconds)
{
	Interval	interval = {.time = microseconds};

	return DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&interval)));
}

/* 'public.s, column ts', or which call it is. */
static char *
watermark_input_name(const SxPlan *plan, int input)
{
	for (int i = 0; i < plan->nsources; i++)
	{
		const SxPlanSource *source = &plan->sources[i];

		if (source->watermark_input == input)
			return psprintf("stream %s, column %s",
							quote_qualified_identifier(get_namespace_name(get_rel_namespace(source->relid)),
													   get_rel_name(source->relid)),
							quote_identifier(get_attname(source->relid, source->event_attnum, false)));
	}
	return psprintf("call %d of watermark()", input - plan->first_marker + 1);
}

static List *
explain_watermark(const SxQuery *query, const SxPlan *plan, const SxBatchRecord *record, List *lines)
{
	SxWatermarkPolicy policy = record != NULL ? record->policy : query->options.watermark_policy;

	if (plan->nwatermarks == 0)
		return lappend(lines, pstrdup("No watermark: no row is late, nothing is removed."));
	if (plan->nwatermarks == 1)
		lines = lappend(lines, pstrdup("Watermark"));
	else
		lines = lappend(lines, psprintf("Watermark, the %s of %d inputs",
										policy == SX_WATERMARK_MAX ? "largest" : "smallest",
										plan->nwatermarks));
	for (int i = 0; i < plan->nwatermarks; i++)
	{
		/* the plan is as the query is now, the record as it was then */
		bool		known = record != NULL && record->ninputs == plan->nwatermarks;

		lines = lappend(lines, psprintf("  %s: delay %s, latest event time %s",
										watermark_input_name(plan, i),
										duration_text(plan->watermarks[i].delay),
										time_text(known ? record->inputs[i].max : SX_TIME_UNSET)));
	}
	if (record != NULL && record->batch_id >= 0)
		lines = lappend(lines, psprintf("  batch " INT64_FORMAT " removed by %s, so the next one takes rows up to it as late; it removes by %s",
										record->batch_id, time_text(record->watermark),
										time_text(record->next_watermark)));
	return lines;
}

Datum
sx_api_explain_query(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	char	   *name = sx_api_name_arg(fcinfo);
	SxQuery    *query = sx_api_owned_query(name);
	SxBatchRecord *record = sx_query_is_copy(query) ? NULL : sx_batch_record_last(query->id);
	SxUserSwitch saved;
	SxPlan	   *plan;
	char	  **states;
	List	   *lines;
	ListCell   *lc;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	plan = sx_query_view_plan(query, false);
	states = operator_states(query, plan, record);
	sx_user_become(&saved, query->owner);
	lines = sx_exec_explain(plan, states);
	sx_user_back(&saved);
	if (query->trigger == SX_TRIGGER_REALTIME)
		lines = lcons(pstrdup("Trigger realtime: a batch of what is there follows the one before at once."), lines);
	lines = explain_watermark(query, plan, record, lines);
	foreach(lc, lines)
	{
		Datum		values[1] = {CStringGetTextDatum((char *) lfirst(lc))};
		bool		nulls[1] = {false};

		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
