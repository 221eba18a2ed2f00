/*
 * transform_keys.c
 *		See transform_keys.h.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "base/errors.h"
#include "exec/operator.h"
#include "exec/transform_keys.h"

#define FLAG_NULL	0x01
#define FLAG_GOES	0x02

/* What the comparison of two keys of a store needs. */
typedef struct StoreKeys
{
	SxTransformKeys *keys;
	int			store;
	MemoryContext scratch;
} StoreKeys;

uint64
sx_transform_name_hash(const char *name, uint32 len)
{
	return hash_bytes_extended((const unsigned char *) name, len, 0);
}

static void
make_variable(SxVariable *variable, const SxPlanVariable *plan)
{
	variable->plan = plan;
	variable->hash = sx_transform_name_hash(plan->name, strlen(plan->name));
	sx_datum_codec_make(&variable->codec, plan->type);
	if (plan->kind == SX_VARIABLE_MAP)
	{
		TypeCacheEntry *type = lookup_type_cache(plan->key_type, TYPECACHE_HASH_EXTENDED_PROC |
												 TYPECACHE_EQ_OPR);

		if (!OidIsValid(type->eq_opr))
			ereport(ERROR,
					(errcode(ERRCODE_UNDEFINED_FUNCTION),
					 errmsg("could not identify an equality operator for type %s",
							format_type_be(plan->key_type))));
		sx_datum_codec_make(&variable->key_codec, plan->key_type);
		variable->key_hash = type->hash_extended_proc;
		variable->key_equal = get_opcode(type->eq_opr);
		variable->key_bytewise = sx_type_is_bytewise(plan->key_type, plan->key_collation);
	}
}

SxTransformKeys *
sx_transform_keys_make(const SxPlanOperator *plan)
{
	SxTransformKeys *keys = palloc0(sizeof(SxTransformKeys));
	const SxPlanTransform *transform = plan->transform;

	keys->group = sx_group_key_make(plan);
	keys->nvariables = transform->nvariables;
	keys->variables = palloc0(sizeof(SxVariable) * (transform->nvariables + 1));
	for (int i = 0; i < transform->nvariables; i++)
		make_variable(&keys->variables[i], &transform->variables[i]);
	return keys;
}

SxVariable *
sx_transform_find_variable(const SxTransformKeys *keys, const char *name, uint32 len)
{
	for (int i = 0; i < keys->nvariables; i++)
	{
		const char *other = keys->variables[i].plan->name;

		if (strlen(other) == len && memcmp(other, name, len) == 0)
			return &keys->variables[i];
	}
	return NULL;
}

/* ---- making keys ---- */

static void
append_piece(StringInfo out, const char *bytes, uint32 len)
{
	sx_varint_append(out, len);
	appendBinaryStringInfo(out, bytes, len);
}

static SxStateKey
key_in(uint16 op, int store, const SxTransformOwner *owner, uint64 hash, const StringInfo out)
{
	SxStateKey	key = {
		.op = SX_STORE_ID(op, store),
		.group = owner->group,
		.hash = hash,
		.expiry = SX_STATE_NEVER,
		.bytes = out->data,
		.len = out->len,
	};

	return key;
}

SxStateKey
sx_transform_variable_key(uint16 op, const SxTransformOwner *owner, StringInfo out)
{
	resetStringInfo(out);
	append_piece(out, owner->name, owner->namelen);
	append_piece(out, owner->key, owner->keylen);
	return key_in(op, SX_TRANSFORM_VARIABLES, owner,
				  hash_combine64(owner->hash, owner->name_hash), out);
}

SxStateKey
sx_transform_map_key(uint16 op, const SxTransformOwner *owner, const char *bytes, uint32 len,
					 uint64 hash, StringInfo out)
{
	SxStateKey	key = sx_transform_variable_key(op, owner, out);

	appendBinaryStringInfo(out, bytes, len);
	key.hash = hash;
	key.bytes = out->data;
	key.len = out->len;
	return key;
}

SxStateKey
sx_transform_entry_key(uint16 op, const SxTransformOwner *owner, const SxVariable *variable,
					   Datum map_key, StringInfo out)
{
	SxStateKey	key = sx_transform_variable_key(op, owner, out);
	uint32		prefix = out->len;
	uint64		hash = 0;

	sx_datum_encode(&variable->key_codec, out, map_key);
	if (OidIsValid(variable->key_hash))
		hash = DatumGetUInt64(OidFunctionCall2Coll(variable->key_hash, variable->plan->key_collation,
												   map_key, UInt64GetDatum(0)));
	else if (variable->key_bytewise)
		hash = hash_bytes_extended((const unsigned char *) out->data + prefix, out->len - prefix, 0);
	key.hash = hash_combine64(key.hash, hash);
	key.bytes = out->data;
	key.len = out->len;
	return key;
}

SxStateKey
sx_transform_part_key(uint16 op, const SxTransformOwner *owner, char tag, uint64 index, StringInfo out)
{
	int			start = out->len;
	uint64		hash = hash_combine64(owner->hash, owner->name_hash);
	SxStateKey	key;

	appendStringInfoCharMacro(out, tag);
	append_piece(out, owner->name, owner->namelen);
	append_piece(out, owner->key, owner->keylen);
	if (index != SX_TRANSFORM_NO_INDEX)
		sx_varint_append(out, index);
	hash = sx_group_key_hash_window(hash, (TimestampTz) (index + (uint8) tag));
	key = key_in(op, SX_TRANSFORM_PARTS, owner, hash, out);
	key.bytes += start;
	key.len -= start;
	return key;
}

SxStateKey
sx_transform_timer_key(uint16 op, const SxTransformOwner *owner, int store, int64 expiry, StringInfo out)
{
	SxStateKey	key;

	resetStringInfo(out);
	append_piece(out, owner->key, owner->keylen);
	key = key_in(op, store, owner, owner->hash, out);
	key.expiry = expiry;
	return key;
}

static uint32
piece_length(uint32 len)
{
	char		bytes[SX_VARINT_MAX];

	return sx_varint_write(bytes, len) - bytes + len;
}

uint32
sx_transform_prefix_length(const SxTransformOwner *owner)
{
	return piece_length(owner->namelen) + piece_length(owner->keylen);
}

/* ---- reading keys ---- */

static const char *
read_piece(SxReader *in, uint32 *len)
{
	*len = sx_read_varint(in);
	return sx_read_bytes(in, *len);
}

SxTransformOwner
sx_transform_owner_read(const SxStateKey *key, char *tag, SxReader *rest)
{
	SxTransformOwner owner = {.group = key->group};

	rest->p = key->bytes;
	rest->end = key->bytes + key->len;
	if (tag != NULL)
		*tag = *sx_read_bytes(rest, 1);
	owner.name = read_piece(rest, &owner.namelen);
	owner.name_hash = sx_transform_name_hash(owner.name, owner.namelen);
	owner.key = read_piece(rest, &owner.keylen);
	return owner;
}

/* ---- entries ---- */

SxTransformEntry
sx_transform_entry_read(const SxStateValue *value, bool of_map, SxReader *rest)
{
	SxTransformEntry entry = {.goes_at = DT_NOEND};
	SxReader	in = {value->bytes, value->bytes + value->len};
	uint8		flags;

	if (value->bytes == NULL)
		return entry;
	if (*sx_read_bytes(&in, 1) != SX_TRANSFORM_VERSION)
		sx_reader_short();
	entry.exists = true;
	entry.type = sx_read_varint(&in);
	flags = *(const uint8 *) sx_read_bytes(&in, 1);
	entry.isnull = (flags & FLAG_NULL) != 0;
	if (flags & FLAG_GOES)
		memcpy(&entry.goes_at, sx_read_bytes(&in, sizeof(int64)), sizeof(int64));
	if (of_map)
		entry.place = sx_read_varint(&in);
	*rest = in;
	return entry;
}

void
sx_transform_check_type(const SxVariable *variable, const SxTransformEntry *entry)
{
	if (entry->type == variable->plan->type)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_SX_STATE_SCHEMA),
			 errmsg("state variable \"%s\" holds a value of another type", variable->plan->name),
			 errdetail("It was written as %s and is declared as %s now.",
					   format_type_be(entry->type), format_type_be(variable->plan->type)),
			 errhint("Declare it as it was, or under another name.")));
}

/* The value comes behind it. */
void
sx_transform_entry_begin(StringInfo out, const SxTransformEntry *entry, bool of_map)
{
	appendStringInfoCharMacro(out, SX_TRANSFORM_VERSION);
	sx_varint_append(out, entry->type);
	appendStringInfoCharMacro(out, (entry->isnull ? FLAG_NULL : 0) |
							  (entry->goes_at != DT_NOEND ? FLAG_GOES : 0));
	if (entry->goes_at != DT_NOEND)
		appendBinaryStringInfo(out, (const char *) &entry->goes_at, sizeof(int64));
	if (of_map)
		sx_varint_append(out, entry->place);
}

/* ---- which keys are the same ---- */

/* The keys of two entries of a map. */
static bool
map_keys_equal(const StoreKeys *store, const SxVariable *variable, SxReader a, SxReader b)
{
	MemoryContext oldcontext;
	bool		equal;

	if (variable == NULL || variable->plan->kind != SX_VARIABLE_MAP || variable->key_bytewise ||
		a.p == a.end || b.p == b.end)
		return false;
	oldcontext = MemoryContextSwitchTo(store->scratch);
	equal = DatumGetBool(OidFunctionCall2Coll(variable->key_equal, variable->plan->key_collation,
											  sx_datum_decode(&variable->key_codec, &a),
											  sx_datum_decode(&variable->key_codec, &b)));
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(store->scratch);
	return equal;
}

/* An SxStateEqual: bytes differ, hashes don't. */
static bool
keys_equal(void *arg, const char *a, uint32 alen, const char *b, uint32 blen)
{
	StoreKeys  *store = arg;
	SxReader	ina = {a, a + alen};
	SxReader	inb = {b, b + blen};
	bool		tagged = store->store == SX_TRANSFORM_PARTS || store->store == SX_TRANSFORM_GOING;
	bool		named = tagged || store->store == SX_TRANSFORM_VARIABLES;
	char		tag = 'v';
	const char *name = NULL;
	const char *pa;
	const char *pb;
	uint32		namelen = 0;
	uint32		la;
	uint32		lb;

	if (tagged)
	{
		tag = *sx_read_bytes(&ina, 1);
		if (tag != *sx_read_bytes(&inb, 1) || tag == 'i')
			return false;
	}
	if (named)
	{
		name = read_piece(&ina, &namelen);
		pb = read_piece(&inb, &lb);
		if (namelen != lb || memcmp(name, pb, lb) != 0)
			return false;
	}
	pa = read_piece(&ina, &la);
	pb = read_piece(&inb, &lb);
	if ((la != lb || memcmp(pa, pb, la) != 0) &&
		(store->keys->group->bytewise || !sx_group_key_equal(store->keys->group, pa, la, pb, lb)))
		return false;
	if (ina.end - ina.p == inb.end - inb.p && memcmp(ina.p, inb.p, ina.end - ina.p) == 0)
		return true;
	return tag == 'v' && named &&
		map_keys_equal(store, sx_transform_find_variable(store->keys, name, namelen), ina, inb);
}

/*
 * A comparison also where bytes decide: variables come and go between starts, and
 * the hash of what is kept must not depend on them.
 */
int
sx_transform_state_operators(const SxPlanOperator *plan, SxStateOperator *result)
{
	SxTransformKeys *keys = sx_transform_keys_make(plan);

	for (int i = 0; i < SX_TRANSFORM_STORES; i++)
	{
		StoreKeys  *store = palloc(sizeof(StoreKeys));

		store->keys = keys;
		store->store = i;
		store->scratch = keys->group->scratch;
		result[i].id = SX_STORE_ID(plan->id, i);
		result[i].equal = keys_equal;
		result[i].equal_arg = store;
	}
	return SX_TRANSFORM_STORES;
}
