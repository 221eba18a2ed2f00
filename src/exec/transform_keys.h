/*
 * transform_keys.h
 *		Where a handler's state lies: keys of the operator's stores.
 *
 * Bytes (format version 1; "key" is a varint length and the key's bytes as in
 * group_key.h, "name" a varint length and the variable's name):
 *
 *	 store 0	variables. name key: a value, or the head of a list.
 *				name key bytes: an entry of a map; bytes are those of its key.
 *				Entry: byte 1, varint type oid, byte of flags (1: NULL, 2: it
 *				goes), if it goes 8 bytes: when (TimestampTz), of a map varint
 *				place, then the value by its codec.
 *				Head: byte 1, varint first index, varint next one, varint how many.
 *	 store 1	parts. 'e' name key varint index: an element of a list, an entry.
 *				'm' name key: byte 1, varint size of a map.
 *				'p' name key varint place: byte 1, 8 bytes: hash of the entry in
 *				that place, then the bytes of its key. Places are 0 .. size - 1.
 *				'i', in key group 0: byte 1: the initial state has been taken.
 *	 store 2	timers by time. key; expiry: the time. Byte 1, varint: 0, or 1 + the
 *				batch in which the handler of another timer set it.
 *	 store 3	timers by key. key. Byte 1, varint how many, 8 bytes each, ascending.
 *	 store 4	what goes by itself. 'v' and the entry's key in store 0, or the
 *				element's key in store 1; expiry: when. Byte 1, 8 bytes: the hash
 *				of the key alone.
 *
 * So the state can be read by variable: keys of store 0 begin with the name, and
 * the layout (plan/layout.c) has the types. Variables that are declared no more
 * stay; a type oid with each value tells if one comes back as something else.
 */
#ifndef SX_EXEC_TRANSFORM_KEYS_H
#define SX_EXEC_TRANSFORM_KEYS_H

#include "exec/group_key.h"
#include "plan/plan.h"
#include "plan/transform.h"

#define SX_TRANSFORM_VERSION	1
#define SX_TRANSFORM_NO_INDEX	PG_UINT64_MAX

enum
{
	SX_TRANSFORM_VARIABLES,
	SX_TRANSFORM_PARTS,
	SX_TRANSFORM_TIMERS,
	SX_TRANSFORM_KEY_TIMERS,
	SX_TRANSFORM_GOING,
	SX_TRANSFORM_STORES
};

typedef struct SxVariable
{
	const SxPlanVariable *plan;
	uint64		hash;			/* of its name */
	SxDatumCodec codec;
	SxDatumCodec key_codec;		/* map */
	Oid			key_hash;		/* function, or InvalidOid */
	Oid			key_equal;		/* function */
	bool		key_bytewise;
} SxVariable;

typedef struct SxTransformKeys
{
	SxGroupKey *group;
	int			nvariables;
	SxVariable *variables;
} SxTransformKeys;

/* A variable of a key. */
typedef struct SxTransformOwner
{
	const char *name;
	uint32		namelen;
	uint64		name_hash;
	const char *key;
	uint32		keylen;
	uint64		hash;			/* of the key */
	uint16		group;
} SxTransformOwner;

extern SxTransformKeys *sx_transform_keys_make(const SxPlanOperator *plan);
extern int	sx_transform_state_operators(const SxPlanOperator *plan, SxStateOperator *result);
extern SxVariable *sx_transform_find_variable(const SxTransformKeys *keys, const char *name, uint32 len);
extern uint64 sx_transform_name_hash(const char *name, uint32 len);

/* Keys that lie in out, which is begun anew. */
extern SxStateKey sx_transform_variable_key(uint16 op, const SxTransformOwner *owner, StringInfo out);
extern SxStateKey sx_transform_map_key(uint16 op, const SxTransformOwner *owner, const char *bytes,
									   uint32 len, uint64 hash, StringInfo out);
extern SxStateKey sx_transform_entry_key(uint16 op, const SxTransformOwner *owner,
										 const SxVariable *variable, Datum key, StringInfo out);
extern SxStateKey sx_transform_timer_key(uint16 op, const SxTransformOwner *owner, int store,
										 int64 expiry, StringInfo out);

/* Appended to out; its place may move with the next one. */
extern SxStateKey sx_transform_part_key(uint16 op, const SxTransformOwner *owner, char tag,
										uint64 index, StringInfo out);

/* What stands before the bytes of an entry's key. */
extern uint32 sx_transform_prefix_length(const SxTransformOwner *owner);

/*
 * The owner of a key of stores 1 and 4, or of store 0, which has no tag (NULL): it is
 * read up to what follows the owner's key. The owner's hash is not there.
 */
extern SxTransformOwner sx_transform_owner_read(const SxStateKey *key, char *tag, SxReader *rest);

/* What stands before the value of an entry or element, which rest is then. */
typedef struct SxTransformEntry
{
	bool		exists;
	Oid			type;
	bool		isnull;
	TimestampTz goes_at;		/* DT_NOEND: it stays */
	uint64		place;			/* of a map's entry */
} SxTransformEntry;

extern SxTransformEntry sx_transform_entry_read(const SxStateValue *value, bool of_map, SxReader *rest);
extern void sx_transform_check_type(const SxVariable *variable, const SxTransformEntry *entry);
extern void sx_transform_entry_begin(StringInfo out, const SxTransformEntry *entry, bool of_map);

/* transform_view.c: as SxOperatorRoutine.stores, show_open and show. */
struct SxNamedStore;
struct SxStateShow;
extern const struct SxNamedStore *sx_transform_stores(const SxPlanOperator *plan);
extern void sx_transform_show_open(struct SxStateShow *show);
extern void sx_transform_show(struct SxStateShow *show, const SxStateKey *key,
							  const SxStateValue *value);

#endif
