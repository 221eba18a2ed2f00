/*
 * state_view.c
 *		See state_view.h.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "exec/state_view.h"

/* "state operator 0 of the query is ..." for the hint: what there is. */
static char *
list_operators(const SxPlan *plan)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; i < plan->noperators; i++)
		appendStringInfo(&text, "%s%d (%s)", i > 0 ? ", " : "", plan->operators[i]->id,
						 plan->operators[i]->spark_name);
	return text.data;
}

static char *
list_stores(const SxNamedStore *stores)
{
	StringInfoData text;

	initStringInfo(&text);
	for (int i = 0; stores[i].name != NULL; i++)
		appendStringInfo(&text, "%s%s", i > 0 ? ", " : "", stores[i].name);
	return text.data;
}

static const SxPlanOperator *
find_operator(const SxPlan *plan, int id)
{
	if (plan->noperators == 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the query keeps no state"),
				 errdetail("None of its operators is stateful.")));
	if (id < 0 || id >= plan->noperators)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the query has no stateful operator %d", id),
				 errhint("Its stateful operators: %s.", list_operators(plan))));
	return plan->operators[id];
}

static const SxNamedStore *
find_store(const SxPlanOperator *op, const SxOperatorRoutine *routine, const char *name)
{
	const SxNamedStore *stores = routine->stores != NULL ? routine->stores(op) : NULL;

	if (stores == NULL || stores[0].name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the state of operator %d (%s) cannot be shown", op->id,
						op->spark_name)));
	if (name == NULL)
		return &stores[0];
	for (int i = 0; stores[i].name != NULL; i++)
		if (strcmp(stores[i].name, name) == 0)
			return &stores[i];
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("operator %d (%s) has no store \"%s\"", op->id, op->spark_name, name),
			 errhint("Its stores: %s.", list_stores(stores))));
}

const SxNamedStore *
sx_state_show_default(const SxPlanOperator *plan)
{
	static const SxNamedStore stores[] = {{"default", 1 << 0}, {NULL}};

	return stores;
}

SxStateShow *
sx_state_show_open(const SxPlan *plan, int operator_id, const char *name,
				   bool arrays, SxStateRowSink sink, void *arg)
{
	SxStateShow *show = palloc0(sizeof(SxStateShow));

	show->plan = find_operator(plan, operator_id);
	show->routine = sx_operator_routine(show->plan->kind);
	show->store = find_store(show->plan, show->routine, name);
	show->sink = sink;
	show->arg = arg;
	show->arrays = arrays;
	show->context = CurrentMemoryContext;
	show->routine->show_open(show);
	BlessTupleDesc(show->key);
	BlessTupleDesc(show->value);
	return show;
}

int
sx_state_show_stores(const SxStateShow *show, SxStateOperator *stores)
{
	SxStateOperator all[SX_MAX_STORES];
	int			nall = show->routine->state_operators(show->plan, all);
	int			n = 0;

	for (int i = 0; i < nall; i++)
		if (show->store->stores & (1 << (all[i].id >> 8)))
			stores[n++] = all[i];
	return n;
}

void
sx_state_show_entry(SxStateShow *show, const SxStateChange *change)
{
	show->change = change;
	show->routine->show(show, change->key, change->value);
}

/* ---------- changes of entries with many rows ---------- */

/*
 * A row may move from one entry to another without being changed.  So rows as
 * they were and as they are are sorted by what they show:
 *
 *	 batch, group, key	was			gone
 *	 batch, group, key	is			new
 *	 batch, group, key	was, is		changed, if the values differ
 *
 * Where rows can have the same key, their values tell them apart: what differs in one
 * is a row that came; so many are gone as there are fewer of the key than before.
 */
enum
{
	MOVE_BATCH, MOVE_GROUP, MOVE_KEY, MOVE_IS, MOVE_VALUE, MOVE_EXPIRY, MOVE_COLUMNS
};

#define MOVE_ORDER	4			/* the first columns */

typedef struct SxStateMoves
{
	TupleDesc	desc;
	TupleTableSlot *slot;
	Tuplesortstate *sort;
	bool		is;				/* what is put now */
} SxStateMoves;

static SxStateMoves *
begin_moves(MemoryContext context, bool same_keys)
{
	static const Oid types[] = {INT8OID, INT4OID, JSONBOID, BOOLOID, JSONBOID, INT8OID};
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	SxStateMoves *moves = palloc0(sizeof(SxStateMoves));
	AttrNumber	columns[MOVE_ORDER];
	Oid			operators[MOVE_ORDER];
	Oid			collations[MOVE_ORDER] = {InvalidOid};
	bool		nulls_first[MOVE_ORDER] = {false};

	moves->desc = CreateTemplateTupleDesc(MOVE_COLUMNS);
	for (int i = 0; i < MOVE_COLUMNS; i++)
		TupleDescInitEntry(moves->desc, i + 1, NULL, types[i], -1, 0);
	for (int i = 0; i < MOVE_ORDER; i++)
	{
		columns[i] = (same_keys && i == MOVE_IS ? MOVE_VALUE : i) + 1;
		operators[i] = lookup_type_cache(types[columns[i] - 1], TYPECACHE_LT_OPR)->lt_opr;
	}
	moves->slot = MakeSingleTupleTableSlot(moves->desc, &TTSOpsVirtual);
	moves->sort = tuplesort_begin_heap(moves->desc, MOVE_ORDER, columns, operators, collations,
									   nulls_first, work_mem, NULL, TUPLESORT_NONE);
	MemoryContextSwitchTo(oldcontext);
	return moves;
}

static void
put_move(void *arg, const SxStateRow *row)
{
	SxStateMoves *moves = arg;
	TupleTableSlot *slot = moves->slot;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, 0, MOVE_COLUMNS * sizeof(bool));
	slot->tts_values[MOVE_BATCH] = Int64GetDatum(row->batch);
	slot->tts_values[MOVE_GROUP] = Int32GetDatum(row->group);
	slot->tts_values[MOVE_KEY] = row->key;
	slot->tts_values[MOVE_IS] = BoolGetDatum(moves->is);
	slot->tts_values[MOVE_VALUE] = row->value;
	slot->tts_values[MOVE_EXPIRY] = Int64GetDatum(row->expiry);
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(moves->sort, slot);
}

static void
put_moves(SxStateShow *show, const SxStateChange *change, const SxStateValue *value, bool is)
{
	SxStateRowSink sink = show->sink;
	void	   *arg = show->arg;

	if (value->bytes == NULL)
		return;
	show->change = change;
	show->moves->is = is;
	show->sink = put_move;
	show->arg = show->moves;
	show->routine->show(show, change->key, value);
	show->sink = sink;
	show->arg = arg;
}

void
sx_state_show_change(SxStateShow *show, const SxStateChange *change)
{
	if (!show->many)
	{
		sx_state_show_entry(show, change);
		return;
	}
	if (show->moves == NULL)
		show->moves = begin_moves(show->context, show->same_keys);
	put_moves(show, change, change->before, false);
	put_moves(show, change, change->value, true);
}

static SxStateRow
row_of_move(TupleTableSlot *slot)
{
	SxStateRow	row;

	slot_getallattrs(slot);
	row.batch = DatumGetInt64(slot->tts_values[MOVE_BATCH]);
	row.group = DatumGetInt32(slot->tts_values[MOVE_GROUP]);
	row.key = slot->tts_values[MOVE_KEY];
	row.value = slot->tts_values[MOVE_VALUE];
	row.expiry = DatumGetInt64(slot->tts_values[MOVE_EXPIRY]);
	return row;
}

static bool
is_same_key(const SxStateRow *a, const SxStateRow *b)
{
	return a->batch == b->batch && a->group == b->group &&
		DatumGetBool(DirectFunctionCall2(jsonb_eq, a->key, b->key));
}

/* As it was, if it is not followed by what it is. */
static void
show_gone(SxStateShow *show, TupleTableSlot *was)
{
	SxStateRow	row;

	if (TTS_EMPTY(was))
		return;
	row = row_of_move(was);
	row.value = (Datum) 0;
	show->sink(show->arg, &row);
	ExecClearTuple(was);
}

/* Rows of one key and value: how many there were, and are. */
typedef struct Run
{
	TupleTableSlot *slot;
	int			was;
	int			is;
	int			gone;			/* rows of the key, with the values before */
	int			came;
} Run;

static void
end_run(SxStateShow *show, Run *run, bool end_key)
{
	SxStateRow	row;

	if (TTS_EMPTY(run->slot))
		return;
	row = row_of_move(run->slot);
	for (int i = run->was; i < run->is; i++)
		show->sink(show->arg, &row);
	run->gone += Max(run->was - run->is, 0);
	run->came += Max(run->is - run->was, 0);
	run->was = run->is = 0;
	if (!end_key)
		return;
	row.value = (Datum) 0;
	for (int i = run->came; i < run->gone; i++)
		show->sink(show->arg, &row);
	run->gone = run->came = 0;
}

static void
show_runs(SxStateShow *show)
{
	SxStateMoves *moves = show->moves;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(moves->desc, &TTSOpsMinimalTuple);
	Run			run = {MakeSingleTupleTableSlot(moves->desc, &TTSOpsMinimalTuple)};

	tuplesort_performsort(moves->sort);
	while (tuplesort_gettupleslot(moves->sort, true, false, slot, NULL))
	{
		SxStateRow	row = row_of_move(slot);
		bool		same_key = false;
		bool		same = false;

		CHECK_FOR_INTERRUPTS();
		if (!TTS_EMPTY(run.slot))
		{
			SxStateRow	old = row_of_move(run.slot);

			same_key = is_same_key(&old, &row);
			same = same_key && DatumGetBool(DirectFunctionCall2(jsonb_eq, old.value, row.value));
		}
		if (!same)
		{
			end_run(show, &run, !same_key);
			ExecCopySlot(run.slot, slot);
		}
		if (DatumGetBool(slot->tts_values[MOVE_IS]))
			run.is++;
		else
			run.was++;
	}
	end_run(show, &run, true);
	ExecDropSingleTupleTableSlot(run.slot);
	ExecDropSingleTupleTableSlot(slot);
	ExecDropSingleTupleTableSlot(moves->slot);
	tuplesort_end(moves->sort);
}

static void
show_moves(SxStateShow *show)
{
	SxStateMoves *moves = show->moves;
	TupleTableSlot *is;
	TupleTableSlot *was;

	is = MakeSingleTupleTableSlot(moves->desc, &TTSOpsMinimalTuple);
	was = MakeSingleTupleTableSlot(moves->desc, &TTSOpsMinimalTuple);
	tuplesort_performsort(moves->sort);
	while (tuplesort_gettupleslot(moves->sort, true, false, is, NULL))
	{
		SxStateRow	row = row_of_move(is);

		CHECK_FOR_INTERRUPTS();
		if (!DatumGetBool(is->tts_values[MOVE_IS]))
		{
			show_gone(show, was);
			ExecCopySlot(was, is);
			continue;
		}
		if (!TTS_EMPTY(was))
		{
			SxStateRow	old = row_of_move(was);

			if (is_same_key(&old, &row))
			{
				if (!datumIsEqual(old.value, row.value, false, -1))
					show->sink(show->arg, &row);
				ExecClearTuple(was);
				continue;
			}
		}
		show_gone(show, was);
		show->sink(show->arg, &row);
	}
	show_gone(show, was);
	ExecDropSingleTupleTableSlot(is);
	ExecDropSingleTupleTableSlot(was);
	ExecDropSingleTupleTableSlot(moves->slot);
	tuplesort_end(moves->sort);
}

void
sx_state_show_end(SxStateShow *show)
{
	if (show->end != NULL)
		show->end(show);
	if (show->moves == NULL)
		return;
	if (show->same_keys)
		show_runs(show);
	else
		show_moves(show);
}

/* ---------- for operators ---------- */

Datum
sx_state_show_as_jsonb(TupleDesc desc, const Datum *values, const bool *nulls)
{
	HeapTuple	tuple = heap_form_tuple(desc, (Datum *) values, (bool *) nulls);
	Datum		json = DirectFunctionCall1(row_to_json, HeapTupleGetDatum(tuple));

	return DirectFunctionCall1(jsonb_in, CStringGetDatum(TextDatumGetCString(json)));
}

void
sx_state_show_row(SxStateShow *show, const Datum *key, const bool *key_nulls,
				  const Datum *values, const bool *value_nulls, int64 expiry)
{
	SxStateRow	row = {
		.batch = show->change->batch,
		.group = show->change->key->group,
		.key = sx_state_show_as_jsonb(show->key, key, key_nulls),
		.value = values == NULL ? (Datum) 0 : sx_state_show_as_jsonb(show->value, values, value_nulls),
		.expiry = expiry,
	};

	show->sink(show->arg, &row);
}

TupleDesc
sx_state_show_columns(int n)
{
	return CreateTemplateTupleDesc(n);
}

static bool
has_column(TupleDesc desc, int n, const char *name)
{
	for (int i = 0; i < n; i++)
		if (namestrcmp(&TupleDescAttr(desc, i)->attname, name) == 0)
			return true;
	return false;
}

/* Columns are added in order; a jsonb object can't have two of one name. */
void
sx_state_show_column(TupleDesc desc, int number, const char *name, Oid type, int32 typmod)
{
	NameData	different;

	namestrcpy(&different, name);
	for (int i = 2; has_column(desc, number - 1, NameStr(different)); i++)
		namestrcpy(&different, psprintf("%.*s_%d", NAMEDATALEN - 12, name, i));
	TupleDescInitEntry(desc, number, NameStr(different), type, typmod, 0);
}

TupleDesc
sx_state_show_keys(const SxPlanKey *keys, int nkeys)
{
	TupleDesc	desc = sx_state_show_columns(nkeys);

	for (int i = 0; i < nkeys; i++)
		sx_state_show_column(desc, i + 1, keys[i].name, keys[i].type, keys[i].typmod);
	return desc;
}
