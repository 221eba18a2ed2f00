/*
 * aggregate_view.c
 *		Groups of an aggregate as people see them: the keys, and the results so far.
 *
 * A sliding window is kept as panes (aggregate_panes.c); these are shown as they
 * are, each a piece of time with the result over its rows alone.
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/lsyscache.h"

#include "exec/aggregate.h"
#include "exec/state_view.h"

static TupleDesc
result_columns(const SxPlanOperator *plan)
{
	TupleDesc	desc = sx_state_show_columns(plan->naggregates);

	for (int i = 0; i < plan->naggregates; i++)
	{
		const Aggref *aggref = plan->aggregates[i].aggref;

		sx_state_show_column(desc, i + 1, get_func_name(aggref->aggfnoid), aggref->aggtype, -1);
	}
	return desc;
}

void
sx_group_view_open(SxStateShow *show, SxGroupView *view)
{
	const SxPlanOperator *plan = show->plan;

	view->key = sx_group_key_make(plan);
	view->calls = sx_agg_calls_make(plan);
	sx_agg_calls_begin(view->calls);
	view->values = palloc(view->calls->size + 1);
	view->key_values = palloc((plan->nkeys + 1) * sizeof(Datum));
	view->key_nulls = palloc((plan->nkeys + 1) * sizeof(bool));
	view->results = palloc((plan->naggregates + 1) * sizeof(Datum));
	view->result_nulls = palloc((plan->naggregates + 1) * sizeof(bool));
	show->key = sx_state_show_keys(plan->keys, plan->nkeys);
	show->value = result_columns(plan);
	show->data = view;
}

void
sx_group_view_read(SxGroupView *view, SxReader *in)
{
	sx_agg_calls_use(view->calls, view->calls->single);
	sx_agg_values_decode(view->calls, view->values, in);
	sx_agg_values_finish(view->calls, view->values, view->results, view->result_nulls);
}

void
sx_aggregate_show_open(SxStateShow *show)
{
	sx_group_view_open(show, palloc0(sizeof(SxGroupView)));
}

static int64
pane_end(const SxWindow *window, TimestampTz pane)
{
	TimestampTz last = sx_window_last_start(window, pane);

	return sx_window_next_pane(window, last, pane);
}

void
sx_aggregate_show(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	SxGroupView *view = show->data;
	bool		panes = show->plan->panes;
	const char *bytes = key->bytes;
	uint32		len = key->len;
	SxReader	in = {value->bytes, value->bytes + value->len};
	bool		gone = value->bytes == NULL;

	if (panes && len < SX_WINDOW_BYTES)
		return;					/* the books */
	if (!gone && !view->key->bytewise)
	{
		len = sx_read_varint(&in);
		bytes = sx_read_bytes(&in, len);
	}
	sx_group_key_decode(view->key, bytes, len,
						panes ? pane_end(&show->plan->window, sx_group_key_start(bytes, len)) : key->expiry,
						view->key_values, view->key_nulls);
	if (!gone)
		sx_group_view_read(view, &in);
	sx_state_show_row(show, view->key_values, view->key_nulls,
					  gone ? NULL : view->results, view->result_nulls, key->expiry);
	ReScanExprContext(view->calls->single);
}
