/*
 * join_view.c
 *		Rows that a join keeps as people see them: a store per side, the join's key,
 *		and the row with whether it has matched.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"

#include "exec/join_key.h"
#include "exec/state_view.h"

typedef struct JoinView
{
	SxGroupKey *key;
	SxJoinKeys *rows;
	int			side;
	Datum	   *key_values;
	bool	   *key_nulls;
	Datum	   *values;
	bool	   *nulls;
} JoinView;

const SxNamedStore *
sx_join_stores(const SxPlanOperator *plan)
{
#define STORES(side) (1 << (SX_JOIN_LISTS + (side)) | 1 << (SX_JOIN_PAGES + (side)) | 1 << SX_JOIN_LOOSE)
	static const SxNamedStore stores[] = {{"left", STORES(0)}, {"right", STORES(1)}, {NULL}};

	return stores;
}

void
sx_join_show_open(SxStateShow *show)
{
	JoinView   *view = palloc0(sizeof(JoinView));
	int			side = show->store->stores & 1 << SX_JOIN_LISTS ? 0 : 1;
	const SxPlanSide *plan = &show->plan->join->sides[side];
	int			natts = plan->row->natts;

	view->side = side;
	view->key = sx_join_side_key(plan);
	view->rows = sx_join_keys_make(show->plan);
	sx_join_keys_begin(view->rows, NULL);
	view->key_values = palloc((plan->nkeys + 1) * sizeof(Datum));
	view->key_nulls = palloc((plan->nkeys + 1) * sizeof(bool));
	view->values = palloc((natts + 1) * sizeof(Datum));
	view->nulls = palloc((natts + 1) * sizeof(bool));
	show->key = sx_state_show_keys(plan->keys, plan->nkeys);
	show->value = sx_state_show_columns(natts + 1);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(plan->row, i);

		sx_state_show_column(show->value, i + 1, NameStr(att->attname), att->atttypid,
							 att->atttypmod);
	}
	sx_state_show_column(show->value, natts + 1, "matched", BOOLOID, -1);
	show->many = show->same_keys = true;
	show->data = view;
}

static void
show_row(SxStateShow *show, SxJoinRow *row)
{
	JoinView   *view = show->data;
	int			natts = show->value->natts - 1;

	sx_join_row_scan(view->rows, view->side, row);
	memcpy(view->values, row->values, natts * sizeof(Datum));
	memcpy(view->nulls, row->nulls, natts * sizeof(bool));
	view->values[natts] = BoolGetDatum((row->flags & SX_ROW_MATCHED) != 0);
	view->nulls[natts] = false;
	sx_state_show_row(show, view->key_values, view->key_nulls, view->values, view->nulls,
					  row->expiry);
	sx_join_row_free(view->rows);
	row->values = NULL;
}

/* An entry holds the rows of a key, a page of them, or one row that matches nothing. */
void
sx_join_show(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	JoinView   *view = show->data;
	int			store = key->op >> 8;
	uint32		number = store > SX_JOIN_LISTS + 1 ? SX_JOIN_NUMBER : 0;
	SxReader	in = sx_join_entry_rows(key, value);
	SxJoinRow	row = {0};
	uint64		expiry = 0;

	if (key->len < number)
		sx_reader_short();
	if (store == SX_JOIN_LOOSE && sx_join_loose_side(key) != view->side)
		return;
	sx_group_key_decode_columns(view->key, key->bytes, key->len - number, view->key_values,
								view->key_nulls);
	while (sx_join_row_next(&in, &row, &expiry))
		show_row(show, &row);
}
