/*
 * transform_view.c
 *		What a handler keeps as people see it: a store for each variable, and one
 *		for its timers.
 *
 *					key					value
 *	 value			key					value
 *	 list			key, list_index		list_element
 *	 map			key, user_map_key	user_map_value
 *	 timers			key					expiration_timestamp
 *
 * or, wanted as arrays, list and map with a row per key: list_value, map_value.
 * Elements and entries are then sorted by key; equal keys may have other bytes, so
 * by the order of the key's type.
 */
#include "postgres.h"

#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "exec/state_view.h"
#include "exec/transform_keys.h"

#define TIMERS_STORE	"registered timers" /* no variable has a blank in its name */
#define MAX_KEY_COLUMNS	2

/* Elements and entries that wait to be shown together; the first columns order them. */
enum
{
	WAITING_GROUP, WAITING_KEY, WAITING_BYTES, WAITING_INDEX, WAITING_NAME, WAITING_VALUE,
	WAITING_GOES_AT, WAITING_COLUMNS
};

typedef struct Waiting
{
	TupleDesc	desc;
	TupleTableSlot *slot;
	Tuplesortstate *sort;
	TupleDesc	value;			/* of an array or a map */
	FmgrInfo	name;			/* output of a map's keys */
} Waiting;

typedef struct TransformView
{
	SxTransformKeys *keys;
	const SxVariable *variable; /* NULL: timers */
	Waiting    *waiting;		/* NULL: each is shown by itself */
} TransformView;

/* What one element or entry is. */
typedef struct Shown
{
	Datum		key[MAX_KEY_COLUMNS];
	bool		key_nulls[MAX_KEY_COLUMNS];
	const char *bytes;			/* of the first one */
	uint32		len;
	uint64		index;			/* of a list */
	Datum		value;
	bool		isnull;
	bool		gone;
	TimestampTz goes_at;
} Shown;

const SxNamedStore *
sx_transform_stores(const SxPlanOperator *plan)
{
	const SxPlanTransform *transform = plan->transform;
	SxNamedStore *stores = palloc0((transform->nvariables + 2) * sizeof(SxNamedStore));
	int			n = 0;

	for (int i = 0; i < transform->nvariables; i++)
	{
		stores[n].name = transform->variables[i].name;
		stores[n++].stores = transform->variables[i].kind == SX_VARIABLE_LIST ?
			1 << SX_TRANSFORM_PARTS : 1 << SX_TRANSFORM_VARIABLES;
	}
	if (transform->time_mode != SX_TIME_MODE_NONE)
	{
		stores[n].name = TIMERS_STORE;
		stores[n].stores = 1 << SX_TRANSFORM_TIMERS;
	}
	return stores;
}

/* ---------- columns ---------- */

static TupleDesc
one_column(const char *name, Oid type)
{
	TupleDesc	desc = sx_state_show_columns(1);

	sx_state_show_column(desc, 1, name, type, -1);
	return desc;
}

static TupleDesc
key_columns(const SxPlanOperator *plan, const SxPlanVariable *variable)
{
	TupleDesc	desc;

	if (variable == NULL || variable->kind == SX_VARIABLE_VALUE)
		return sx_state_show_keys(plan->keys, 1);
	desc = sx_state_show_columns(2);
	sx_state_show_column(desc, 1, plan->keys->name, plan->keys->type, plan->keys->typmod);
	if (variable->kind == SX_VARIABLE_LIST)
		sx_state_show_column(desc, 2, "list_index", INT8OID, -1);
	else
		sx_state_show_column(desc, 2, "user_map_key", variable->key_type, -1);
	return desc;
}

static TupleDesc
value_column(const SxPlanVariable *variable)
{
	if (variable == NULL)
		return one_column("expiration_timestamp", TIMESTAMPTZOID);
	switch (variable->kind)
	{
		case SX_VARIABLE_VALUE:
			return one_column("value", variable->type);
		case SX_VARIABLE_LIST:
			return one_column("list_element", variable->type);
		case SX_VARIABLE_MAP:
			return one_column("user_map_value", variable->type);
	}
	return NULL;
}

static Waiting *
begin_waiting(const SxPlanOperator *plan, const SxPlanVariable *variable)
{
	const SxPlanKey *key = plan->keys;
	Oid			types[WAITING_COLUMNS] = {INT4OID, key->type, BYTEAOID, INT8OID, TEXTOID, JSONBOID, INT8OID};
	Oid			less = lookup_type_cache(key->type, TYPECACHE_LT_OPR)->lt_opr;
	AttrNumber	columns[] = {WAITING_GROUP + 1, WAITING_KEY + 1, WAITING_INDEX + 1};
	Oid			operators[] = {Int4LessOperator, less, Int8LessOperator};
	Oid			collations[] = {InvalidOid, key->collation, InvalidOid};
	bool		nulls_first[] = {false, false, false};
	Waiting    *waiting = palloc0(sizeof(Waiting));

	if (!OidIsValid(less))
	{
		columns[1] = WAITING_BYTES + 1;
		operators[1] = lookup_type_cache(BYTEAOID, TYPECACHE_LT_OPR)->lt_opr;
		collations[1] = InvalidOid;
	}
	waiting->desc = CreateTemplateTupleDesc(WAITING_COLUMNS);
	for (int i = 0; i < WAITING_COLUMNS; i++)
		TupleDescInitEntry(waiting->desc, i + 1, NULL, types[i], -1, 0);
	waiting->slot = MakeSingleTupleTableSlot(waiting->desc, &TTSOpsVirtual);
	waiting->sort = tuplesort_begin_heap(waiting->desc, lengthof(columns), columns, operators,
										 collations, nulls_first, work_mem, NULL, TUPLESORT_NONE);
	if (variable->kind == SX_VARIABLE_MAP)
	{
		Oid			output;
		bool		is_varlena;

		getTypeOutputInfo(variable->key_type, &output, &is_varlena);
		fmgr_info(output, &waiting->name);
	}
	return waiting;
}

/* ---------- together ---------- */

static void
wait_for_more(TransformView *view, SxStateShow *show, const Shown *shown)
{
	Waiting    *waiting = view->waiting;
	TupleTableSlot *slot = waiting->slot;
	Datum	   *values = slot->tts_values;
	bool		of_map = view->variable->plan->kind == SX_VARIABLE_MAP;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, 0, WAITING_COLUMNS * sizeof(bool));
	values[WAITING_GROUP] = Int32GetDatum(show->change->key->group);
	values[WAITING_KEY] = shown->key[0];
	slot->tts_isnull[WAITING_KEY] = shown->key_nulls[0];
	values[WAITING_BYTES] = PointerGetDatum(cstring_to_text_with_len(shown->bytes, shown->len));
	values[WAITING_INDEX] = Int64GetDatum(shown->index);
	slot->tts_isnull[WAITING_NAME] = !of_map;
	if (of_map)
		values[WAITING_NAME] = CStringGetTextDatum(OutputFunctionCall(&waiting->name, shown->key[1]));
	values[WAITING_VALUE] = sx_state_show_as_jsonb(show->value, &shown->value, &shown->isnull);
	values[WAITING_GOES_AT] = Int64GetDatum(shown->goes_at);
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(waiting->sort, slot);
}

/* The array or map of one key that is being made. */
typedef struct Together
{
	TupleTableSlot *first;		/* its first row */
	JsonbParseState *json;
	TimestampTz goes_at;		/* the first that goes */
} Together;

static bool
has_same_key(const TransformView *view, TupleTableSlot *a, TupleTableSlot *b)
{
	bytea	   *keya = DatumGetByteaPP(a->tts_values[WAITING_BYTES]);
	bytea	   *keyb = DatumGetByteaPP(b->tts_values[WAITING_BYTES]);
	uint32		lena = VARSIZE_ANY_EXHDR(keya);
	uint32		lenb = VARSIZE_ANY_EXHDR(keyb);

	if (DatumGetInt32(a->tts_values[WAITING_GROUP]) != DatumGetInt32(b->tts_values[WAITING_GROUP]))
		return false;
	if (lena == lenb && memcmp(VARDATA_ANY(keya), VARDATA_ANY(keyb), lena) == 0)
		return true;
	return !view->keys->group->bytewise &&
		sx_group_key_equal(view->keys->group, VARDATA_ANY(keya), lena, VARDATA_ANY(keyb), lenb);
}

static void
push_name(Together *together, const char *name, int len)
{
	JsonbValue	value = {.type = jbvString};

	value.val.string.val = unconstify(char *, name);
	value.val.string.len = len;
	pushJsonbValue(&together->json, WJB_KEY, &value);
}

static void
begin_together(const TransformView *view, Together *together, TupleTableSlot *slot)
{
	bool		of_map = view->variable->plan->kind == SX_VARIABLE_MAP;
	const char *name = of_map ? "map_value" : "list_value";

	ExecCopySlot(together->first, slot);
	slot_getallattrs(together->first);
	together->json = NULL;
	together->goes_at = DT_NOEND;
	pushJsonbValue(&together->json, WJB_BEGIN_OBJECT, NULL);
	push_name(together, name, strlen(name));
	pushJsonbValue(&together->json, of_map ? WJB_BEGIN_OBJECT : WJB_BEGIN_ARRAY, NULL);
}

static void
add_together(const TransformView *view, const SxStateShow *show, Together *together,
			 TupleTableSlot *slot)
{
	bool		of_map = view->variable->plan->kind == SX_VARIABLE_MAP;
	const char *field = NameStr(TupleDescAttr(show->value, 0)->attname);
	Jsonb	   *row = DatumGetJsonbPCopy(slot->tts_values[WAITING_VALUE]);

	if (of_map)
	{
		text	   *name = DatumGetTextPCopy(slot->tts_values[WAITING_NAME]);

		push_name(together, VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
	}
	pushJsonbValue(&together->json, of_map ? WJB_VALUE : WJB_ELEM,
				   getKeyJsonValueFromContainer(&row->root, field, strlen(field), NULL));
	together->goes_at = Min(together->goes_at, DatumGetInt64(slot->tts_values[WAITING_GOES_AT]));
}

static void
show_together(const TransformView *view, SxStateShow *show, Together *together)
{
	bool		of_map = view->variable->plan->kind == SX_VARIABLE_MAP;
	TupleTableSlot *first = together->first;
	SxStateRow	row = {.group = DatumGetInt32(first->tts_values[WAITING_GROUP])};
	JsonbValue *value;

	pushJsonbValue(&together->json, of_map ? WJB_END_OBJECT : WJB_END_ARRAY, NULL);
	value = pushJsonbValue(&together->json, WJB_END_OBJECT, NULL);
	row.key = sx_state_show_as_jsonb(show->key, &first->tts_values[WAITING_KEY],
									 &first->tts_isnull[WAITING_KEY]);
	row.value = JsonbPGetDatum(JsonbValueToJsonb(value));
	row.expiry = together->goes_at;
	show->sink(show->arg, &row);
}

static void
show_waiting(SxStateShow *show)
{
	TransformView *view = show->data;
	Waiting    *waiting = view->waiting;
	TupleTableSlot *slot = MakeSingleTupleTableSlot(waiting->desc, &TTSOpsMinimalTuple);
	Together	together = {MakeSingleTupleTableSlot(waiting->desc, &TTSOpsMinimalTuple)};
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "streamx state of a key",
												 ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(memory);

	tuplesort_performsort(waiting->sort);
	while (tuplesort_gettupleslot(waiting->sort, true, false, slot, NULL))
	{
		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (TTS_EMPTY(together.first) || !has_same_key(view, together.first, slot))
		{
			if (!TTS_EMPTY(together.first))
				show_together(view, show, &together);
			MemoryContextReset(memory);
			begin_together(view, &together, slot);
		}
		add_together(view, show, &together, slot);
	}
	if (!TTS_EMPTY(together.first))
		show_together(view, show, &together);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(memory);
	ExecDropSingleTupleTableSlot(slot);
	ExecDropSingleTupleTableSlot(together.first);
	ExecDropSingleTupleTableSlot(waiting->slot);
	tuplesort_end(waiting->sort);
}

/* ---------- one by one ---------- */

static char *
properties_of(const SxPlanTransform *transform, const SxPlanVariable *variable)
{
	StringInfoData json;

	initStringInfo(&json);
	appendStringInfo(&json, "\"time_mode\": \"%s\"", sx_time_mode_name(transform->time_mode));
	if (variable == NULL)
		return json.data;
	appendStringInfo(&json, ", \"variable\": \"%s\", \"ttl\": ", sx_variable_kind_name(variable->kind));
	if (variable->ttl == 0)
		appendStringInfoString(&json, "null");
	else
	{
		Interval	ttl = {.time = variable->ttl};

		escape_json(&json, DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(&ttl))));
	}
	return json.data;
}

void
sx_transform_show_open(SxStateShow *show)
{
	const SxPlanOperator *plan = show->plan;
	TransformView *view = palloc0(sizeof(TransformView));
	const char *name = show->store->name;
	const SxPlanVariable *variable = NULL;

	view->keys = sx_transform_keys_make(plan);
	view->variable = sx_transform_find_variable(view->keys, name, strlen(name));
	if (view->variable != NULL)
		variable = view->variable->plan;
	show->key = key_columns(plan, variable);
	show->value = value_column(variable);
	show->data = view;
	show->properties = properties_of(plan->transform, variable);
	if (show->arrays && variable != NULL && variable->kind != SX_VARIABLE_VALUE)
	{
		show->key = sx_state_show_keys(plan->keys, 1);
		view->waiting = begin_waiting(plan, variable);
		show->end = show_waiting;
	}
}

static void
show_timer(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	TransformView *view = show->data;
	SxReader	in = {key->bytes, key->bytes + key->len};
	uint32		len = sx_read_varint(&in);
	Datum		keys[1];
	bool		nulls[1];
	Datum		time = TimestampTzGetDatum(key->expiry);
	bool		isnull = false;

	sx_group_key_decode_columns(view->keys->group, sx_read_bytes(&in, len), len, keys, nulls);
	sx_state_show_row(show, keys, nulls, value->bytes == NULL ? NULL : &time, &isnull, key->expiry);
}

/* The rest of a key in which the variable's entry or element lies; false: it is something else. */
static bool
is_of_variable(const SxVariable *variable, const SxStateKey *key, Shown *shown, SxReader *rest)
{
	bool		of_list = variable->plan->kind == SX_VARIABLE_LIST;
	char		tag = 'v';
	SxTransformOwner owner = sx_transform_owner_read(key, of_list ? &tag : NULL, rest);

	shown->bytes = owner.key;
	shown->len = owner.keylen;
	return owner.namelen == strlen(variable->plan->name) &&
		memcmp(owner.name, variable->plan->name, owner.namelen) == 0 &&
		(of_list ? tag == 'e' : (rest->p < rest->end) == (variable->plan->kind == SX_VARIABLE_MAP));
}

/* An entry that took the place of one that was removed. */
static bool
has_only_moved(const SxStateShow *show, const SxTransformEntry *entry, const SxReader *value)
{
	SxReader	old_value;
	SxTransformEntry old = sx_transform_entry_read(show->change->before, true, &old_value);

	return old.exists && entry->exists && old.place != entry->place &&
		old.isnull == entry->isnull && old.goes_at == entry->goes_at &&
		old_value.end - old_value.p == value->end - value->p &&
		memcmp(old_value.p, value->p, value->end - value->p) == 0;
}

static void
show_variable(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	TransformView *view = show->data;
	const SxVariable *variable = view->variable;
	bool		of_map = variable->plan->kind == SX_VARIABLE_MAP;
	SxReader	rest;
	SxReader	bytes = {NULL, NULL};
	SxTransformEntry entry;
	Shown		shown = {{0}};

	if (!is_of_variable(variable, key, &shown, &rest))
		return;
	entry = sx_transform_entry_read(value, of_map, &bytes);
	if (of_map && has_only_moved(show, &entry, &bytes))
		return;
	sx_group_key_decode_columns(view->keys->group, shown.bytes, shown.len, shown.key, shown.key_nulls);
	if (of_map)
		shown.key[1] = sx_datum_decode(&variable->key_codec, &rest);
	if (variable->plan->kind == SX_VARIABLE_LIST)
		shown.key[1] = Int64GetDatum(shown.index = sx_read_varint(&rest));
	shown.gone = !entry.exists;
	if (shown.gone)				/* when it would have gone by itself */
		entry = sx_transform_entry_read(show->change->before, of_map, &bytes);
	else
	{
		sx_transform_check_type(variable, &entry);
		shown.isnull = entry.isnull;
		if (!entry.isnull)
			shown.value = sx_datum_decode(&variable->codec, &bytes);
	}
	shown.goes_at = entry.goes_at;
	if (view->waiting != NULL)
		wait_for_more(view, show, &shown);
	else
		sx_state_show_row(show, shown.key, shown.key_nulls, shown.gone ? NULL : &shown.value,
						  &shown.isnull, shown.goes_at);
}

void
sx_transform_show(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	TransformView *view = show->data;

	if (view->variable == NULL)
		show_timer(show, key, value);
	else
		show_variable(show, key, value);
}
