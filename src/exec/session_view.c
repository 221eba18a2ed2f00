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
	SxGroupView group;			/* comes first: it is what show->data points to */
	SxSessionForm form;
	TypeCacheEntry *range_type;
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

	sx_group_view_open(show, &view->group);
	view->form.has_key = !view->group.key->bytewise;
	view->form.has_due = plan->watermarked;
	view->range_type = lookup_type_cache(plan->keys[plan->time_key].type, TYPECACHE_RANGE_INFO);
	show->many = true;
}

static void
show_session(SxStateShow *show, const SxSessionKey *key, const SxSession *session)
{
	SessionView *session_view = show->data;
	SxGroupView *view = &session_view->group;
	int			window = show->plan->time_key;
	RangeBound	lower = {TimestampTzGetDatum(session->start), false, true, true};
	RangeBound	upper = {TimestampTzGetDatum(session->end), false, false, false};
	SxReader	in = {session->bytes, session->bytes + session->len};

	sx_group_key_decode_columns(view->key, key->group.key, key->group.keylen,
								view->key_values, view->key_nulls);
	view->key_values[window] = RangeTypePGetDatum(sx_make_range(session_view->range_type, &lower, &upper));
	view->key_nulls[window] = false;
	sx_group_view_read(view, &in);
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
