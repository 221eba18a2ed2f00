/*
 * query_effect.c
 *		What alter_query says before it does it, and alter_query_effect, which only
 *		says it: of each operator and each stream whether the state and the offsets
 *		are kept, rebuilt, lost or refused by the next start.
 */
#include "postgres.h"

#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "api/api.h"
#include "api/query_effect.h"
#include "api/query_view.h"
#include "checkpoint/batch_record.h"
#include "engine/engine.h"

PG_FUNCTION_INFO_V1(sx_api_alter_query_effect);

static SxEffectOn *
make_effect(int operator_id, const char *name, SxEffect effect, char *detail)
{
	SxEffectOn *on = palloc(sizeof(SxEffectOn));

	on->operator_id = operator_id;
	on->name = pstrdup(name);
	on->effect = effect;
	on->detail = detail;
	return on;
}

static SxEffectOn *
effect_on_operator(const SxQuery *before, const SxQuery *after, const SxPlan *plan,
				   int id, bool reset)
{
	const char *name = id < plan->noperators ? plan->operators[id]->spark_name :
		sx_layout_operator_name(before->layout, id);
	char	   *difference;

	if (before->layout == NULL || sx_query_is_copy(before))
		return make_effect(id, name, SX_EFFECT_NEW, NULL);
	if (reset)
		return make_effect(id, name, SX_EFFECT_LOST, pstrdup("The query begins anew."));
	difference = sx_layout_difference(before->layout, plan, id);
	if (difference != NULL)
		return make_effect(id, name, SX_EFFECT_REFUSED, difference);
	if (strcmp(before->options.state_store, after->options.state_store) != 0)
		return make_effect(id, name, SX_EFFECT_REBUILT,
						   psprintf("From its log, in the store \"%s\".",
									after->options.state_store));
	return make_effect(id, name, SX_EFFECT_KEPT, NULL);
}

static char *
stream_name(Oid relid)
{
	char	   *name = get_rel_name(relid);

	return name != NULL ? name : psprintf("%u", relid);
}

static bool
was_read(const SxBatchRecord *record, Oid relid)
{
	for (int i = 0; i < record->nsources; i++)
		if (record->sources[i].relid == relid)
			return true;
	return false;
}

static bool
is_read(const SxPlan *plan, Oid relid)
{
	for (int i = 0; i < plan->nsources; i++)
		if (plan->sources[i].relid == relid)
			return true;
	return false;
}

/* As the start takes them over (engine/start.c). */
static List *
effects_on_streams(const SxQuery *before, const SxPlan *plan, bool reset, List *effects)
{
	SxBatchRecord *record = sx_query_is_copy(before) ? NULL : sx_batch_record_last(before->id);

	for (int i = 0; i < plan->nsources; i++)
	{
		Oid			relid = plan->sources[i].relid;
		SxEffect	effect = record == NULL || !was_read(record, relid) ? SX_EFFECT_NEW :
			reset ? SX_EFFECT_LOST : SX_EFFECT_KEPT;

		effects = lappend(effects, make_effect(-1, stream_name(relid), effect, NULL));
	}
	for (int i = 0; record != NULL && i < record->nsources; i++)
	{
		Oid			relid = record->sources[i].relid;

		if (!is_read(plan, relid))
			effects = lappend(effects,
							  make_effect(-1, stream_name(relid),
										  reset ? SX_EFFECT_LOST : SX_EFFECT_REFUSED,
										  pstrdup("The query no longer reads it.")));
	}
	return effects;
}

List *
sx_query_effects(const SxQuery *before, const SxQuery *after, const SxPlan *plan, bool reset)
{
	List	   *effects = NIL;
	ListCell   *cell;

	for (int id = 0; id < plan->noperators; id++)
		effects = lappend(effects, effect_on_operator(before, after, plan, id, reset));
	if (before->layout != NULL && !sx_query_is_copy(before))
		foreach(cell, sx_layout_operators(before->layout))
			if (lfirst_int(cell) >= plan->noperators)
				effects = lappend(effects, effect_on_operator(before, after, plan,
															  lfirst_int(cell), reset));
	return effects_on_streams(before, plan, reset, effects);
}

/* What is kept is told from the sources to the sink, as the rows go. */
char *
sx_query_effects_tell(List *effects)
{
	StringInfoData misfits;

	initStringInfo(&misfits);
	for (int i = list_length(effects) - 1; i >= 0; i--)
	{
		const SxEffectOn *on = list_nth(effects, i);

		if (on->operator_id < 0)
			continue;
		switch (on->effect)
		{
			case SX_EFFECT_KEPT:
				ereport(NOTICE, (errmsg("operator %d (%s): state is kept", on->operator_id, on->name)));
				break;
			case SX_EFFECT_REBUILT:
				ereport(NOTICE, (errmsg("operator %d (%s): state is kept, and rebuilt in its new store",
										on->operator_id, on->name)));
				break;
			case SX_EFFECT_LOST:
				ereport(NOTICE, (errmsg("operator %d (%s): state is lost with the offsets, the query begins anew",
										on->operator_id, on->name)));
				break;
			case SX_EFFECT_REFUSED:
				appendStringInfo(&misfits, "%s%s", misfits.len > 0 ? "\n" : "", on->detail);
				break;
			case SX_EFFECT_NEW:
				break;
		}
	}
	return misfits.len > 0 ? misfits.data : NULL;
}

/* ---------- alter_query_effect ---------- */

static const char *
effect_name(SxEffect effect)
{
	switch (effect)
	{
		case SX_EFFECT_NEW:
			return "new";
		case SX_EFFECT_KEPT:
			return "kept";
		case SX_EFFECT_REBUILT:
			return "rebuilt";
		case SX_EFFECT_LOST:
			return "lost";
		case SX_EFFECT_REFUSED:
			return "refused";
	}
	elog(ERROR, "unknown effect %d", (int) effect);
}

static void
put_effect(ReturnSetInfo *rsinfo, const SxEffectOn *on)
{
	Datum		values[4];
	bool		nulls[4] = {false};

	nulls[0] = on->operator_id < 0;
	values[0] = Int32GetDatum(on->operator_id);
	values[1] = CStringGetTextDatum(on->name);
	values[2] = CStringGetTextDatum(effect_name(on->effect));
	nulls[3] = on->detail == NULL;
	values[3] = on->detail == NULL ? (Datum) 0 : CStringGetTextDatum(on->detail);
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* name, query, output_mode, options, reset_state */
Datum
sx_api_alter_query_effect(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);
	char	   *text = sx_api_text_arg(fcinfo, 1);
	char	   *mode = sx_api_text_arg(fcinfo, 2);
	bool		reset = !PG_ARGISNULL(4) && PG_GETARG_BOOL(4);
	SxQuery    *before = sx_api_owned_query(name);
	SxQuery		after = *before;
	SxPlan	   *plan;
	ListCell   *cell;

	InitMaterializedSRF(fcinfo, 0);
	if (mode != NULL)
		after.output_mode = sx_output_mode_parse(mode);
	if (!PG_ARGISNULL(3))
	{
		after.options_json = sx_query_options_merge(before->options_json, PG_GETARG_JSONB_P(3));
		sx_query_options_parse(after.options_json, &after.options);
	}
	if (text != NULL)
		plan = sx_query_select_plan(&after, sx_query_text_analyze(name, text), false);
	else
		plan = sx_query_view_plan(&after, false);
	sx_trigger_check(&after, plan);
	foreach(cell, sx_query_effects(before, &after, plan, reset))
		put_effect((ReturnSetInfo *) fcinfo->resultinfo, lfirst(cell));
	return (Datum) 0;
}
