/*
 * state_view.c
 *		See state_view.h.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgrprotos.h"

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
				   SxStateRowSink sink, void *arg)
{
	SxStateShow *show = palloc0(sizeof(SxStateShow));

	show->plan = find_operator(plan, operator_id);
	show->routine = sx_operator_routine(show->plan->kind);
	show->store = find_store(show->plan, show->routine, name);
	show->sink = sink;
	show->arg = arg;
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
sx_state_show_entry(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	show->routine->show(show, key, value);
}

/* ---------- changes of entries with many rows ---------- */

typedef struct KeptRow
{
	Datum		key;
	Datum		value;
	int64		expiry;
} KeptRow;

static void
keep_row(void *arg, Datum key, Datum value, int64 expiry)
{
	List	  **rows = arg;
	KeptRow    *row = palloc(sizeof(KeptRow));

	row->key = key;
	row->value = value;
	row->expiry = expiry;
	*rows = lappend(*rows, row);
}

static List *
rows_of(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	SxStateRowSink sink = show->sink;
	void	   *arg = show->arg;
	List	   *rows = NIL;

	if (value->bytes == NULL)
		return NIL;
	show->sink = keep_row;
	show->arg = &rows;
	sx_state_show_entry(show, key, value);
	show->sink = sink;
	show->arg = arg;
	return rows;
}

static const KeptRow *
find_row(const List *rows, Datum key)
{
	ListCell   *cell;

	foreach(cell, rows)
		if (datumIsEqual(((KeptRow *) lfirst(cell))->key, key, false, -1))
			return lfirst(cell);
	return NULL;
}

void
sx_state_show_change(SxStateShow *show, const SxStateKey *key, const SxStateValue *value,
					 const SxStateValue *before)
{
	List	   *was;
	List	   *is;
	ListCell   *cell;

	if (!show->many)
	{
		sx_state_show_entry(show, key, value);
		return;
	}
	was = rows_of(show, key, before);
	is = rows_of(show, key, value);
	foreach(cell, was)
	{
		const KeptRow *row = lfirst(cell);

		if (find_row(is, row->key) == NULL)
			show->sink(show->arg, row->key, (Datum) 0, row->expiry);
	}
	foreach(cell, is)
	{
		const KeptRow *row = lfirst(cell);
		const KeptRow *old = find_row(was, row->key);

		if (old == NULL || !datumIsEqual(old->value, row->value, false, -1))
			show->sink(show->arg, row->key, row->value, row->expiry);
	}
}

/* ---------- for operators ---------- */

static Datum
row_as_jsonb(TupleDesc desc, const Datum *values, const bool *nulls)
{
	HeapTuple	tuple = heap_form_tuple(desc, (Datum *) values, (bool *) nulls);
	Datum		json = DirectFunctionCall1(row_to_json, HeapTupleGetDatum(tuple));

	return DirectFunctionCall1(jsonb_in, CStringGetDatum(TextDatumGetCString(json)));
}

void
sx_state_show_row(SxStateShow *show, const Datum *key, const bool *key_nulls,
				  const Datum *values, const bool *value_nulls, int64 expiry)
{
	show->sink(show->arg, row_as_jsonb(show->key, key, key_nulls),
			   values == NULL ? (Datum) 0 : row_as_jsonb(show->value, values, value_nulls),
			   expiry);
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
