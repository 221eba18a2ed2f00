/*
 * session_view.c
 *		Open sessions as people see them: a row each, with the results so far. They
 *		lie in the entries of their keys, and in pieces of these (session_key.h).
 */
#include "postgres.h"

#include "executor/executor.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "exec/aggregate.h"
#include "exec/session_key.h"
#include "exec/state_view.h"

typedef struct SessionView
{
	SxGroupKey *key;
	SxSessionForm form;
	SxAggCalls *calls;
	TypeCacheEntry *range_type;
	char	   *values;
	Datum	   *key_values;
	bool	   *key_nulls;
	Datum	   *results;
	bool	   *result_nulls;
} SessionView;

const SxNamedStore *
sx_session_stores(const SxPlanOperator *plan)
{
	static const SxNamedStore stores[] = {
		{"default", 1 << SX_SESSION_KEYS | 1 << SX_SESSION_PIECES}, {NULL}
	};

	return stores;
}

void
sx_session_show_open(SxStateShow *show)
{
	const SxPlanOperator *plan = show->plan;
	SessionView *view = palloc0(sizeof(SessionView));

	view->key = sx_group_key_make(plan);
	view->form.has_key = !view->key->bytewise;
	view->form.has_due = plan->watermarked;
	view->calls = sx_agg_calls_make(plan);
	sx_agg_calls_begin(view->calls);
	view->range_type = lookup_type_cache(plan->keys[plan->time_key].type, TYPECACHE_RANGE_INFO);
	view->values = palloc(view->calls->size + 1);
	view->key_values = palloc((plan->nkeys + 1) * sizeof(Datum));
	view->key_nulls = palloc((plan->nkeys + 1) * sizeof(bool));
	view->results = palloc((plan->naggregates + 1) * sizeof(Datum));
	view->result_nulls = palloc((plan->naggregates + 1) * sizeof(bool));
	show->key = sx_state_show_keys(plan->keys, plan->nkeys);
	show->value = sx_aggregate_show_values(plan);
	show->many = true;
	show->data = view;
}

static void
show_session(SxStateShow *show, const SxSessionKey *key, const SxSession *session)
{
	SessionView *view = show->data;
	int			window = show->plan->time_key;
	RangeBound	lower = {TimestampTzGetDatum(session->start), false, true, true};
	RangeBound	upper = {TimestampTzGetDatum(session->end), false, false, false};
	SxReader	in = {session->bytes, session->bytes + session->len};

	sx_group_key_decode_columns(view->key, key->group.key, key->group.keylen,
								view->key_values, view->key_nulls);
	view->key_values[window] = RangeTypePGetDatum(sx_make_range(view->range_type, &lower, &upper));
	view->key_nulls[window] = false;
	sx_agg_calls_use(view->calls, view->calls->single);
	sx_agg_values_decode(view->calls, view->values, &in);
	sx_agg_values_finish(view->calls, view->values, view->results, view->result_nulls);
	sx_state_show_row(show, view->key_values, view->key_nulls, view->results,
					  view->result_nulls,
					  show->plan->watermarked ? session->end : SX_STATE_NEVER);
	ReScanExprContext(view->calls->single);
}

void
sx_session_show(SxStateShow *show, const SxStateKey *state, const SxStateValue *value)
{
	SessionView *view = show->data;
	SxSessionKey key = {.due = SX_STATE_NEVER};
	bool		is_piece = state->op >> 8 == SX_SESSION_PIECES;

	key.group.key = state->bytes;
	key.group.keylen = is_piece ? state->len - sizeof(uint64) : state->len;
	if (is_piece)
		sx_session_piece_decode(&key, &view->form, value);
	else
		sx_session_key_decode(&key, &view->form, value);
	for (int i = 0; i < key.n; i++)
		if (!key.sessions[i]->is_piece)
			show_session(show, &key, key.sessions[i]);
}
