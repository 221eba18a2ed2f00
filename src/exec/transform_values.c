/*
 * transform_values.c
 *		Values, lists and maps of a handler; see transform_state.h, and
 *		transform_keys.h for the bytes.
 *
 * The state finds keys, and has no order among them. So the elements of a list
 * are numbered, its head knows from where to where; and the entries of a map have
 * places 0 .. size - 1, each of which says whose it is:
 *
 *	 remove(map, key):	the entry of the last place moves into the one of key
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "base/errors.h"
#include "exec/transform_state.h"

#define ELEMENTS_AT_ONCE	256
#define LIST_BYTES	(64 * 1024 * 1024)	/* of keys to be removed */

static SxTransformOwner
owner_of(const SxTransformState *ts, const SxVariable *variable)
{
	SxTransformOwner owner = ts->owner;

	owner.name = variable->plan->name;
	owner.namelen = strlen(variable->plan->name);
	owner.name_hash = variable->hash;
	return owner;
}

/* ---- entries ---- */

static void
decode_entry(SxTransformState *ts, SxVariable *variable, const SxStateValue *bytes,
			 SxTransformValue *value)
{
	SxReader	rest;
	SxTransformEntry head = sx_transform_entry_read(bytes, variable->plan->kind == SX_VARIABLE_MAP, &rest);

	memset(value, 0, sizeof(*value));
	value->isnull = true;
	if (!head.exists || head.goes_at <= ts->timestamp)
		return;
	sx_transform_check_type(variable, &head);
	value->found = true;
	value->isnull = head.isnull;
	if (!head.isnull)
		value->value = sx_datum_decode(&variable->codec, &rest);
}

/* Into ts->bytes. */
static void
encode_entry(SxTransformState *ts, SxVariable *variable, Datum value, bool isnull,
			 TimestampTz goes_at, uint64 place)
{
	SxTransformEntry entry = {
		.type = variable->plan->type, .isnull = isnull, .goes_at = goes_at, .place = place,
	};
	StringInfo	out = &ts->bytes;

	resetStringInfo(out);
	sx_transform_entry_begin(out, &entry, variable->plan->kind == SX_VARIABLE_MAP);
	if (!isnull)
		sx_datum_encode(&variable->codec, out, value);
}

static TimestampTz
goes_at(const SxTransformState *ts, const SxVariable *variable, int64 ttl)
{
	if (variable->plan->ttl == 0 && ttl > 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("state variable \"%s\" was declared without a ttl", variable->plan->name),
				 errhint("Declare it with one, which single writes may change.")));
	if (ttl == 0)
		ttl = variable->plan->ttl;
	return ttl == 0 ? DT_NOEND : ts->timestamp + ttl;
}

/* ---- what goes by itself ---- */

/* entry: the key of a value or map entry (of store 0) or of an element (of store 1). */
static SxStateKey
going_key(SxTransformState *ts, const SxStateKey *entry, TimestampTz at)
{
	SxStateKey	key = *entry;
	StringInfo	out = &ts->other;

	resetStringInfo(out);
	if (entry->op == SX_STORE_ID(ts->plan->id, SX_TRANSFORM_VARIABLES))
		appendStringInfoCharMacro(out, 'v');
	appendBinaryStringInfo(out, entry->bytes, entry->len);
	key.op = SX_STORE_ID(ts->plan->id, SX_TRANSFORM_GOING);
	key.expiry = at;
	key.bytes = out->data;
	key.len = out->len;
	return key;
}

static void
will_go(SxTransformState *ts, const SxStateKey *entry, TimestampTz at)
{
	SxStateKey	key;
	char		bytes[1 + sizeof(uint64)];

	if (at == DT_NOEND)
		return;
	key = going_key(ts, entry, at);
	bytes[0] = SX_TRANSFORM_VERSION;
	memcpy(bytes + 1, &ts->owner.hash, sizeof(uint64));
	sx_transform_write(ts, &key, bytes, sizeof(bytes));
}

static void
goes_no_more(SxTransformState *ts, const SxStateKey *entry, TimestampTz at)
{
	SxStateKey	key;

	if (at == DT_NOEND)
		return;
	key = going_key(ts, entry, at);
	sx_transform_remove(ts, &key);
}

static void
remove_entry(SxTransformState *ts, const SxStateKey *entry, const SxTransformEntry *head)
{
	goes_no_more(ts, entry, head->goes_at);
	sx_transform_remove(ts, entry);
	ts->progress->rows_removed++;
}

/* ---- values ---- */

void
sx_transform_get(SxTransformState *ts, SxVariable *variable, SxTransformValue *value)
{
	SxTransformOwner owner = owner_of(ts, variable);
	SxStateKey	key = sx_transform_variable_key(ts->plan->id, &owner, &ts->buffer);
	SxStateValue bytes = sx_transform_read(ts, &key);

	decode_entry(ts, variable, &bytes, value);
}

static void
put_entry(SxTransformState *ts, SxVariable *variable, const SxStateKey *key,
		  const SxTransformEntry *old, Datum value, bool isnull, int64 ttl, uint64 place)
{
	TimestampTz at = goes_at(ts, variable, ttl);

	encode_entry(ts, variable, value, isnull, at, place);
	if (old->goes_at != at)
		goes_no_more(ts, key, old->goes_at);
	sx_transform_write(ts, key, ts->bytes.data, ts->bytes.len);
	will_go(ts, key, at);
	ts->progress->rows_updated++;
}

void
sx_transform_put(SxTransformState *ts, SxVariable *variable, Datum value, bool isnull, int64 ttl)
{
	SxTransformOwner owner = owner_of(ts, variable);
	SxStateKey	key = sx_transform_variable_key(ts->plan->id, &owner, &ts->buffer);
	SxTransformEntry old = {.goes_at = DT_NOEND};
	SxReader	rest;

	if (variable->plan->ttl > 0)
	{
		SxStateValue bytes = sx_transform_read(ts, &key);

		old = sx_transform_entry_read(&bytes, false, &rest);
	}
	put_entry(ts, variable, &key, &old, value, isnull, ttl, 0);
}

/* ---- lists ---- */

typedef struct ListHead
{
	uint64		first;
	uint64		next;
	uint64		n;
} ListHead;

static ListHead
read_list(SxTransformState *ts, const SxTransformOwner *owner)
{
	SxStateKey	key = sx_transform_variable_key(ts->plan->id, owner, &ts->buffer);
	SxStateValue value = sx_transform_read(ts, &key);
	SxReader	in = {value.bytes, value.bytes + value.len};
	ListHead	head = {0};

	if (value.bytes == NULL)
		return head;
	if (*sx_read_bytes(&in, 1) != SX_TRANSFORM_VERSION)
		sx_reader_short();
	head.first = sx_read_varint(&in);
	head.next = sx_read_varint(&in);
	head.n = sx_read_varint(&in);
	return head;
}

static void
write_list(SxTransformState *ts, const SxTransformOwner *owner, const ListHead *head)
{
	SxStateKey	key = sx_transform_variable_key(ts->plan->id, owner, &ts->buffer);
	char		bytes[1 + 3 * SX_VARINT_MAX];
	char	   *end = bytes;

	if (head->n == 0)
	{
		sx_transform_remove(ts, &key);
		return;
	}
	*end++ = SX_TRANSFORM_VERSION;
	end = sx_varint_write(end, head->first);
	end = sx_varint_write(end, head->next);
	end = sx_varint_write(end, head->n);
	sx_transform_write(ts, &key, bytes, end - bytes);
}

/* Many elements at once; the values hold until something is written. */
static int
read_elements(SxTransformState *ts, const SxTransformOwner *owner, uint64 from, uint64 to,
			  SxStateKey *keys, SxStateValue *values)
{
	int			n = Min(to - from, ELEMENTS_AT_ONCE);
	uint32		ends[ELEMENTS_AT_ONCE];
	StringInfo	out = &ts->other;

	CHECK_FOR_INTERRUPTS();
	sx_transform_settle(ts);
	resetStringInfo(out);
	for (int i = 0; i < n; i++)
	{
		keys[i] = sx_transform_part_key(ts->plan->id, owner, 'e', from + i, out);
		ends[i] = out->len;
	}
	for (int i = 0; i < n; i++)
	{
		keys[i].bytes = out->data + (i > 0 ? ends[i - 1] : 0);
		keys[i].len = ends[i] - (i > 0 ? ends[i - 1] : 0);
	}
	sx_state_get_many(ts->state, n, keys, values);
	return n;
}

int
sx_transform_list(SxTransformState *ts, SxVariable *variable, Datum **values, bool **nulls)
{
	SxTransformOwner owner = owner_of(ts, variable);
	ListHead	head = read_list(ts, &owner);
	SxStateKey	keys[ELEMENTS_AT_ONCE];
	SxStateValue bytes[ELEMENTS_AT_ONCE];
	int			n = 0;
	int			read;

	if (head.n > MaxAllocSize / sizeof(Datum))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("list \"%s\" is too long to be read as an array", variable->plan->name)));
	*values = palloc(head.n * sizeof(Datum) + 1);
	*nulls = palloc(head.n * sizeof(bool) + 1);
	for (uint64 from = head.first; from < head.next; from += read)
	{
		read = read_elements(ts, &owner, from, head.next, keys, bytes);
		for (int i = 0; i < read; i++)
		{
			SxTransformValue value;

			decode_entry(ts, variable, &bytes[i], &value);
			if (!value.found || n >= head.n)
				continue;
			(*values)[n] = value.value;
			(*nulls)[n++] = value.isnull;
		}
	}
	return n;
}

void
sx_transform_append(SxTransformState *ts, SxVariable *variable, int n, const Datum *values,
					const bool *nulls, int64 ttl)
{
	SxTransformOwner owner = owner_of(ts, variable);
	ListHead	head = read_list(ts, &owner);
	SxTransformEntry none = {.goes_at = DT_NOEND};

	for (int i = 0; i < n; i++)
	{
		SxStateKey	key;

		resetStringInfo(&ts->buffer);
		key = sx_transform_part_key(ts->plan->id, &owner, 'e', head.next, &ts->buffer);
		put_entry(ts, variable, &key, &none, values[i], nulls[i], ttl, 0);
		head.next++;
		head.n++;
	}
	write_list(ts, &owner, &head);
}

static void
clear_list(SxTransformState *ts, SxVariable *variable)
{
	SxTransformOwner owner = owner_of(ts, variable);
	ListHead	head = read_list(ts, &owner);

	for (uint64 i = head.first; i < head.next; i++)
	{
		SxStateKey	key;
		SxStateValue bytes;
		SxTransformEntry entry;
		SxReader	rest;

		CHECK_FOR_INTERRUPTS();
		resetStringInfo(&ts->buffer);
		key = sx_transform_part_key(ts->plan->id, &owner, 'e', i, &ts->buffer);
		bytes = sx_transform_read(ts, &key);
		entry = sx_transform_entry_read(&bytes, false, &rest);
		if (entry.exists)
			remove_entry(ts, &key, &entry);
	}
	head.n = 0;
	write_list(ts, &owner, &head);
}

/* ---- maps ---- */

static uint64
read_size(SxTransformState *ts, const SxTransformOwner *owner)
{
	SxStateKey	key;
	SxStateValue value;
	SxReader	in;

	resetStringInfo(&ts->other);
	key = sx_transform_part_key(ts->plan->id, owner, 'm', SX_TRANSFORM_NO_INDEX, &ts->other);
	value = sx_transform_read(ts, &key);
	if (value.bytes == NULL)
		return 0;
	in.p = value.bytes;
	in.end = value.bytes + value.len;
	if (*sx_read_bytes(&in, 1) != SX_TRANSFORM_VERSION)
		sx_reader_short();
	return sx_read_varint(&in);
}

static void
write_size(SxTransformState *ts, const SxTransformOwner *owner, uint64 size)
{
	SxStateKey	key;
	char		bytes[1 + SX_VARINT_MAX];

	resetStringInfo(&ts->other);
	key = sx_transform_part_key(ts->plan->id, owner, 'm', SX_TRANSFORM_NO_INDEX, &ts->other);
	if (size == 0)
	{
		sx_transform_remove(ts, &key);
		return;
	}
	bytes[0] = SX_TRANSFORM_VERSION;
	sx_transform_write(ts, &key, bytes, sx_varint_write(bytes + 1, size) - bytes);
}

/* The key of the entry in a place, copied into CurrentMemoryContext. */
static SxStateKey
entry_in_place(SxTransformState *ts, const SxTransformOwner *owner, uint64 place)
{
	SxStateKey	key;
	SxStateValue value;
	StringInfoData bytes;
	SxReader	in;
	uint64		hash;

	resetStringInfo(&ts->other);
	key = sx_transform_part_key(ts->plan->id, owner, 'p', place, &ts->other);
	value = sx_transform_read(ts, &key);
	if (value.bytes == NULL)
		sx_reader_short();
	in.p = value.bytes;
	in.end = value.bytes + value.len;
	if (*sx_read_bytes(&in, 1) != SX_TRANSFORM_VERSION)
		sx_reader_short();
	memcpy(&hash, sx_read_bytes(&in, sizeof(hash)), sizeof(hash));
	initStringInfo(&bytes);
	return sx_transform_map_key(ts->plan->id, owner, in.p, in.end - in.p, hash, &bytes);
}

static void
write_place(SxTransformState *ts, const SxTransformOwner *owner, uint64 place, const SxStateKey *entry)
{
	uint32		map_key = sx_transform_prefix_length(owner);
	SxStateKey	key;
	StringInfoData bytes;

	initStringInfo(&bytes);
	appendStringInfoCharMacro(&bytes, SX_TRANSFORM_VERSION);
	appendBinaryStringInfo(&bytes, (const char *) &entry->hash, sizeof(entry->hash));
	appendBinaryStringInfo(&bytes, entry->bytes + map_key, entry->len - map_key);
	resetStringInfo(&ts->other);
	key = sx_transform_part_key(ts->plan->id, owner, 'p', place, &ts->other);
	sx_transform_write(ts, &key, bytes.data, bytes.len);
	pfree(bytes.data);
}

static void
remove_place(SxTransformState *ts, const SxTransformOwner *owner, uint64 place)
{
	SxStateKey	key;

	resetStringInfo(&ts->other);
	key = sx_transform_part_key(ts->plan->id, owner, 'p', place, &ts->other);
	sx_transform_remove(ts, &key);
}

/* The entry of the last place moves into the one that becomes free. */
static void
move_entry(SxTransformState *ts, const SxTransformOwner *owner, uint64 from, uint64 to)
{
	SxStateKey	key = entry_in_place(ts, owner, from);
	SxStateValue value = sx_transform_read(ts, &key);
	SxReader	rest;
	SxTransformEntry head = sx_transform_entry_read(&value, true, &rest);
	StringInfoData bytes;

	if (!head.exists)
		sx_reader_short();
	initStringInfo(&bytes);
	head.place = to;
	sx_transform_entry_begin(&bytes, &head, true);
	appendBinaryStringInfo(&bytes, rest.p, rest.end - rest.p);
	sx_transform_write(ts, &key, bytes.data, bytes.len);
	write_place(ts, owner, to, &key);
	pfree(bytes.data);
}

static void
remove_map_entry(SxTransformState *ts, const SxTransformOwner *owner, const SxStateKey *key,
				 const SxTransformEntry *head)
{
	uint64		last = read_size(ts, owner) - 1;

	if (head->place != last)
		move_entry(ts, owner, last, head->place);
	remove_place(ts, owner, last);
	write_size(ts, owner, last);
	remove_entry(ts, key, head);
}

void
sx_transform_map_get(SxTransformState *ts, SxVariable *variable, Datum map_key, SxTransformValue *value)
{
	SxTransformOwner owner = owner_of(ts, variable);
	SxStateKey	key = sx_transform_entry_key(ts->plan->id, &owner, variable, map_key, &ts->buffer);
	SxStateValue bytes = sx_transform_read(ts, &key);

	decode_entry(ts, variable, &bytes, value);
}

void
sx_transform_map_put(SxTransformState *ts, SxVariable *variable, Datum map_key, Datum value,
					 bool isnull, int64 ttl)
{
	SxTransformOwner owner = owner_of(ts, variable);
	SxStateKey	key = sx_transform_entry_key(ts->plan->id, &owner, variable, map_key, &ts->buffer);
	SxStateValue bytes = sx_transform_read(ts, &key);
	SxReader	rest;
	SxTransformEntry old = sx_transform_entry_read(&bytes, true, &rest);
	uint64		place = old.place;

	if (!old.exists)
	{
		place = read_size(ts, &owner);
		write_place(ts, &owner, place, &key);
		write_size(ts, &owner, place + 1);
	}
	put_entry(ts, variable, &key, &old, value, isnull, ttl, place);
}

bool
sx_transform_map_remove(SxTransformState *ts, SxVariable *variable, Datum map_key)
{
	SxTransformOwner owner = owner_of(ts, variable);
	SxStateKey	key = sx_transform_entry_key(ts->plan->id, &owner, variable, map_key, &ts->buffer);
	SxStateValue bytes = sx_transform_read(ts, &key);
	SxReader	rest;
	SxTransformEntry head = sx_transform_entry_read(&bytes, true, &rest);

	if (head.exists)
		remove_map_entry(ts, &owner, &key, &head);
	return head.exists && head.goes_at > ts->timestamp;
}

int
sx_transform_map(SxTransformState *ts, SxVariable *variable, Datum **keys, Datum **values, bool **nulls)
{
	SxTransformOwner owner = owner_of(ts, variable);
	uint32		prefix = sx_transform_prefix_length(&owner);
	uint64		size = read_size(ts, &owner);
	int			n = 0;

	if (size > MaxAllocSize / sizeof(Datum))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("map \"%s\" is too large to be read as an array", variable->plan->name)));
	*keys = palloc(size * sizeof(Datum) + 1);
	*values = palloc(size * sizeof(Datum) + 1);
	*nulls = palloc(size * sizeof(bool) + 1);
	for (uint64 place = 0; place < size; place++)
	{
		SxStateKey	key = entry_in_place(ts, &owner, place);
		SxStateValue bytes = sx_transform_read(ts, &key);
		SxReader	map_key = {key.bytes + prefix, key.bytes + key.len};
		SxTransformValue value;

		CHECK_FOR_INTERRUPTS();
		decode_entry(ts, variable, &bytes, &value);
		if (!value.found)
			continue;
		(*keys)[n] = sx_datum_decode(&variable->key_codec, &map_key);
		(*values)[n] = value.value;
		(*nulls)[n++] = value.isnull;
	}
	return n;
}

static void
clear_map(SxTransformState *ts, SxVariable *variable)
{
	SxTransformOwner owner = owner_of(ts, variable);
	uint64		size = read_size(ts, &owner);

	for (uint64 place = 0; place < size; place++)
	{
		SxStateKey	key = entry_in_place(ts, &owner, place);
		SxStateValue bytes = sx_transform_read(ts, &key);
		SxReader	rest;
		SxTransformEntry head = sx_transform_entry_read(&bytes, true, &rest);

		CHECK_FOR_INTERRUPTS();
		remove_entry(ts, &key, &head);
		remove_place(ts, &owner, place);
	}
	if (size > 0)
		write_size(ts, &owner, 0);
}

/* ---- of any kind ---- */

/* Without a ttl the head knows. */
int64
sx_transform_length(SxTransformState *ts, SxVariable *variable)
{
	SxTransformOwner owner = owner_of(ts, variable);
	Datum	   *values;
	bool	   *nulls;

	if (variable->plan->ttl == 0)
		return read_list(ts, &owner).n;
	return sx_transform_list(ts, variable, &values, &nulls);
}

int64
sx_transform_size(SxTransformState *ts, SxVariable *variable)
{
	SxTransformOwner owner = owner_of(ts, variable);
	Datum	   *keys;
	Datum	   *values;
	bool	   *nulls;

	if (variable->plan->ttl == 0)
		return read_size(ts, &owner);
	return sx_transform_map(ts, variable, &keys, &values, &nulls);
}

bool
sx_transform_exists(SxTransformState *ts, SxVariable *variable)
{
	SxTransformValue value;

	switch (variable->plan->kind)
	{
		case SX_VARIABLE_VALUE:
			sx_transform_get(ts, variable, &value);
			return value.found;
		case SX_VARIABLE_LIST:
			return sx_transform_length(ts, variable) > 0;
		case SX_VARIABLE_MAP:
			return sx_transform_size(ts, variable) > 0;
	}
	return false;
}

static void
clear_value(SxTransformState *ts, SxVariable *variable)
{
	SxTransformOwner owner = owner_of(ts, variable);
	SxStateKey	key = sx_transform_variable_key(ts->plan->id, &owner, &ts->buffer);
	SxStateValue bytes = sx_transform_read(ts, &key);
	SxReader	rest;
	SxTransformEntry head = sx_transform_entry_read(&bytes, false, &rest);

	if (head.exists)
		remove_entry(ts, &key, &head);
}

void
sx_transform_clear(SxTransformState *ts, SxVariable *variable)
{
	switch (variable->plan->kind)
	{
		case SX_VARIABLE_VALUE:
			clear_value(ts, variable);
			break;
		case SX_VARIABLE_LIST:
			clear_list(ts, variable);
			break;
		case SX_VARIABLE_MAP:
			clear_map(ts, variable);
			break;
	}
}

/* ---- the end of a batch: what has gone is removed, also of keys without rows ---- */

typedef struct GoneKey
{
	SxStateKey	key;
	uint64		owner_hash;
} GoneKey;

/* The scan must not call the state, so they are listed first. */
static bool
list_gone(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	StringInfo	list = arg;
	GoneKey		gone = {.key = *key};

	CHECK_FOR_INTERRUPTS();
	if (value->len != 1 + sizeof(uint64))
		sx_reader_short();
	memcpy(&gone.owner_hash, value->bytes + 1, sizeof(uint64));
	appendBinaryStringInfo(list, (const char *) &gone, sizeof(gone));
	appendBinaryStringInfo(list, key->bytes, key->len);
	return list->len < LIST_BYTES;
}

static void
remove_gone_element(SxTransformState *ts, const SxTransformOwner *owner, const SxStateKey *entry,
					const SxTransformEntry *head, uint64 index)
{
	ListHead	list = read_list(ts, owner);

	if (list.first == index)
		list.first++;
	list.n = list.n > 0 ? list.n - 1 : 0;
	write_list(ts, owner, &list);
	remove_entry(ts, entry, head);
}

static void
remove_one_gone(SxTransformState *ts, const GoneKey *gone)
{
	SxReader	rest;
	SxReader	value;
	char		tag;
	SxTransformOwner owner = sx_transform_owner_read(&gone->key, &tag, &rest);
	bool		of_list = tag == 'e';
	bool		of_map = !of_list && rest.p < rest.end;
	SxStateKey	entry = gone->key;
	SxStateValue bytes;
	SxTransformEntry head;

	owner.hash = gone->owner_hash;
	entry.op = SX_STORE_ID(ts->plan->id, of_list ? SX_TRANSFORM_PARTS : SX_TRANSFORM_VARIABLES);
	entry.expiry = SX_STATE_NEVER;
	if (!of_list)
	{
		entry.bytes++;
		entry.len--;
	}
	bytes = sx_transform_read(ts, &entry);
	head = sx_transform_entry_read(&bytes, of_map, &value);
	if (!head.exists || head.goes_at != gone->key.expiry)
		sx_transform_remove(ts, &gone->key);
	else if (of_list)
		remove_gone_element(ts, &owner, &entry, &head, sx_read_varint(&rest));
	else if (of_map)
		remove_map_entry(ts, &owner, &entry, &head);
	else
		remove_entry(ts, &entry, &head);
}

void
sx_transform_remove_gone(SxTransformState *ts)
{
	StringInfoData list;

	initStringInfo(&list);
	do
	{
		resetStringInfo(&list);
		sx_state_scan(ts->state, SX_STORE_ID(ts->plan->id, SX_TRANSFORM_GOING), ts->timestamp,
					  list_gone, &list);
		for (char *at = list.data; at < list.data + list.len;)
		{
			GoneKey		gone;

			memcpy(&gone, at, sizeof(gone));
			gone.key.bytes = at + sizeof(gone);
			remove_one_gone(ts, &gone);
			at += sizeof(gone) + gone.key.len;
		}
	} while (list.len >= LIST_BYTES);
	pfree(list.data);
}

/* ---- the initial state ---- */

static SxStateKey
initial_key(SxTransformState *ts)
{
	SxTransformOwner nobody = {.name = "", .key = ""};

	resetStringInfo(&ts->buffer);
	return sx_transform_part_key(ts->plan->id, &nobody, 'i', SX_TRANSFORM_NO_INDEX, &ts->buffer);
}

bool
sx_transform_initial_taken(SxTransformState *ts)
{
	SxStateKey	key = initial_key(ts);

	return sx_transform_read(ts, &key).bytes != NULL;
}

void
sx_transform_initial_take(SxTransformState *ts)
{
	SxStateKey	key = initial_key(ts);
	char		version = SX_TRANSFORM_VERSION;

	sx_transform_write(ts, &key, &version, 1);
}
