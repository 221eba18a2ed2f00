/*
 * memory_tier.c
 *		Hash tables of entries, with undo.
 *
 * Tables are open addressing with linear probing and deletion by shifting
 * back.  A slot holds 32 bits of mixed hash and the entry's reference, so
 * probing and growing touch no entry but the wanted one.  Tables grow by half:
 * with 256 of them the load stays near two thirds on average.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "state/memory_tier.h"
#include "state/tier_buckets.h"

#define FIRST_SLOTS		16
#define ARENA_BLOCK		(256 * 1024)
#define FREED_TOGETHER	32

static inline bool
too_full(const SxTierTable *table, uint64 used)
{
	return used * 4 > (uint64) table->nslots * 3;
}

void
sx_tier_init(SxTier *tier, MemoryContext context, int noperators,
			 const SxStateOperator *operators, Size filter_bytes, uint64 seed)
{
	int			i;

	memset(tier, 0, sizeof(*tier));
	tier->context = context;
	sx_entry_memory_init(&tier->memory, context);
	tier->arena = AllocSetContextCreate(context, "streamx state undo",
										ALLOCSET_DEFAULT_SIZES);
	tier->noperators = noperators;
	tier->seed = seed;
	tier->operators = MemoryContextAllocZero(context,
											 Max(noperators, 1) * sizeof(SxTierOperator));
	for (i = 0; i < noperators; i++)
		tier->max_id = Max(tier->max_id, operators[i].id);
	tier->by_id = MemoryContextAllocZero(context, tier->max_id + 1);
	if (noperators > 254)
		elog(ERROR, "state: too many operators");
	for (i = 0; i < noperators; i++)
	{
		SxTierOperator *op = &tier->operators[i];

		op->def = operators[i];
		op->typical_vlen = 8;
		sx_tier_buckets_init(op, context);
		sx_cold_init(&op->cold, context);
		sx_cold_filter_init(&op->filter, context, filter_bytes / noperators);
		tier->by_id[operators[i].id] = i + 1;
	}
}

SxTierOperator *
sx_tier_operator(SxTier *tier, uint16 id)
{
	if (id > tier->max_id || tier->by_id[id] == 0)
		elog(ERROR, "state: unknown operator %u", id);
	return &tier->operators[tier->by_id[id] - 1];
}

void
sx_tier_clear(SxTier *tier)
{
	int			i;

	for (i = 0; i < SX_KEY_GROUPS; i++)
	{
		SxTierTable *table = &tier->tables[i];
		uint32		at;

		/* an entry's large pieces are its own */
		for (at = 0; at < table->nslots; at++)
			while (at < table->nslots && table->slots[at].ref != SX_REF_NONE)
				sx_tier_drop(tier, table->slots[at].ref);
	}
	for (i = 0; i < tier->noperators; i++)
	{
		tier->operators[i].rows = 0;
		sx_cold_clear(&tier->operators[i].cold);
		sx_cold_filter_clear(&tier->operators[i].filter);
	}
	tier->nchanges = 0;
}

/* ---------- tables ---------- */

static void
table_insert(SxTierTable *table, uint32 tag, SxRef ref)
{
	uint32		at = sx_tier_home(table, tag);

	while (table->slots[at].ref != SX_REF_NONE)
		if (++at == table->nslots)
			at = 0;
	table->slots[at].tag = tag;
	table->slots[at].ref = ref;
}

static void
table_resize(SxTier *tier, SxTierTable *table, uint64 nslots)
{
	SxTierTable grown;
	uint32		i;

	if (nslots > PG_UINT32_MAX)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many state keys in one key group")));
	grown.nslots = (uint32) nslots;
	grown.used = table->used;
	grown.slots = MemoryContextAllocExtended(tier->context,
											 nslots * sizeof(SxTierSlot),
											 MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (i = 0; i < table->nslots; i++)
		if (table->slots[i].ref != SX_REF_NONE)
			table_insert(&grown, table->slots[i].tag, table->slots[i].ref);
	tier->table_bytes += grown.nslots * sizeof(SxTierSlot);
	tier->table_bytes -= table->nslots * sizeof(SxTierSlot);
	if (table->slots)
		pfree(table->slots);
	*table = grown;
}

static inline void
table_make_room(SxTier *tier, SxTierTable *table)
{
	if (table->nslots == 0)
		table_resize(tier, table, FIRST_SLOTS);
	else if (too_full(table, (uint64) table->used + 1))
		table_resize(tier, table, (uint64) table->nslots + table->nslots / 2);
}

void
sx_tier_reserve(SxTier *tier, uint16 group, uint32 n)
{
	SxTierTable *table = &tier->tables[group];
	uint64		wanted = (uint64) table->used + n;

	if (table->nslots == 0 || too_full(table, wanted))
		table_resize(tier, table, Max(wanted * 3 / 2, FIRST_SLOTS));
}

/* Removes the reference and closes the gap. */
static void
table_remove(SxTierTable *table, uint32 tag, SxRef ref)
{
	SxTierSlot *slots = table->slots;
	uint32		hole = sx_tier_home(table, tag);
	uint32		next;

	while (slots[hole].ref != ref)
	{
		Assert(slots[hole].ref != SX_REF_NONE);
		if (++hole == table->nslots)
			hole = 0;
	}
	next = hole;
	for (;;)
	{
		uint32		home;

		if (++next == table->nslots)
			next = 0;
		if (slots[next].ref == SX_REF_NONE)
			break;
		home = sx_tier_home(table, slots[next].tag);
		/* may it move back: is its home not in (hole, next], cyclically? */
		if (hole <= next ? (hole < home && home <= next) : (hole < home || home <= next))
			continue;
		slots[hole] = slots[next];
		hole = next;
	}
	slots[hole].ref = SX_REF_NONE;
	table->used--;
}

/* Gives memory back when a spill or an expiry has emptied a table. */
static void
table_shrink(SxTier *tier, SxTierTable *table)
{
	if (table->used == 0 && table->nslots > 4 * FIRST_SLOTS)
	{
		tier->table_bytes -= table->nslots * sizeof(SxTierSlot);
		pfree(table->slots);
		memset(table, 0, sizeof(*table));
	}
}

/* ---------- entries ---------- */

static inline char *
value_out(SxEntry *entry)
{
	char	   *piece;

	memcpy(&piece, sx_entry_value_place(entry), sizeof(char *));
	return piece;
}

static inline void
set_value_out(SxEntry *entry, char *piece)
{
	memcpy(sx_entry_value_place(entry), &piece, sizeof(char *));
}

static inline Size
value_room(SxEntry *entry)
{
	return sx_entry_class_size(entry->class) - offsetof(SxEntry, data) -
		((entry->flags & SX_ENTRY_KEY_OUT) ? sizeof(char *) : entry->klen) -
		((entry->flags & SX_ENTRY_FINE) ? sizeof(int64) : 0);
}

static void
free_value_out(SxTier *tier, SxEntry *entry)
{
	if (entry->flags & SX_ENTRY_VALUE_OUT)
	{
		sx_large_free(&tier->memory, value_out(entry));
		entry->flags &= ~SX_ENTRY_VALUE_OUT;
		entry->vlen = 0;
	}
}

static inline bool
same_key(SxTierOperator *op, const SxEntry *entry, const SxStateKey *key)
{
	const char *bytes = sx_entry_key(entry);

	if (entry->klen == key->len && memcmp(bytes, key->bytes, key->len) == 0)
		return true;
	return op->def.equal != NULL &&
		op->def.equal(op->def.equal_arg, bytes, entry->klen, key->bytes, key->len);
}

SxRef
sx_tier_find(SxTier *tier, SxTierOperator *op, const SxStateKey *key,
			 uint32 tag, SxRef *mate)
{
	SxTierTable *table = &tier->tables[key->group];
	uint32		at;

	*mate = SX_REF_NONE;
	if (table->nslots == 0)
		return SX_REF_NONE;
	at = sx_tier_home(table, tag);
	while (table->slots[at].ref != SX_REF_NONE)
	{
		if (table->slots[at].tag == tag)
		{
			SxEntry    *entry = sx_tier_entry(tier, table->slots[at].ref);

			if (entry->hash == key->hash)
			{
				SxBucket   *bucket = sx_tier_bucket(tier, entry);

				if (bucket->op == op && !bucket->expired &&
					sx_entry_expiry(entry, bucket) == key->expiry)
				{
					if (same_key(op, entry, key))
						return table->slots[at].ref;
					*mate = table->slots[at].ref;
				}
			}
		}
		if (++at == table->nslots)
			at = 0;
	}
	return SX_REF_NONE;
}

SxRef
sx_tier_find_cell(SxTier *tier, SxTierOperator *op, uint16 group, int64 expiry, uint64 hash)
{
	SxTierTable *table = &tier->tables[group];
	uint32		tag = sx_tier_tag(op->def.id, expiry, hash);
	uint32		at;

	if (table->nslots == 0)
		return SX_REF_NONE;
	at = sx_tier_home(table, tag);
	while (table->slots[at].ref != SX_REF_NONE)
	{
		if (table->slots[at].tag == tag)
		{
			SxEntry    *entry = sx_tier_entry(tier, table->slots[at].ref);
			SxBucket   *bucket = sx_tier_bucket(tier, entry);

			if (entry->hash == hash && bucket->op == op && !bucket->expired &&
				sx_entry_expiry(entry, bucket) == expiry)
				return table->slots[at].ref;
		}
		if (++at == table->nslots)
			at = 0;
	}
	return SX_REF_NONE;
}

SxRef
sx_tier_create(SxTier *tier, SxTierOperator *op, const SxStateKey *key,
			   uint32 tag, uint32 vlen)
{
	SxTierTable *table = &tier->tables[key->group];
	Size		fixed = offsetof(SxEntry, data);
	bool		key_is_out = key->len > SX_PIECE_MAX / 2;
	Size		kroom = key_is_out ? sizeof(char *) : key->len;
	Size		vroom = Max(vlen, sizeof(char *));
	char	   *key_out = NULL;
	SxBucket   *bucket;
	SxEntry    *entry;
	SxRef		ref;

	if (op->def.fine)
		fixed += sizeof(int64);
	if (fixed + kroom + vroom > SX_PIECE_MAX)
		vroom = sizeof(char *);
	table_make_room(tier, table);
	bucket = sx_tier_bucket_get(tier, op, key->expiry);
	if (key_is_out)
		key_out = sx_large_alloc(&tier->memory, key->len);
	ref = sx_entry_alloc(&tier->memory, fixed + kroom + vroom);

	/* nothing fails from here */
	entry = sx_tier_entry(tier, ref);
	entry->hash = key->hash;
	entry->klen = key->len;
	entry->vlen = 0;
	entry->group = key->group;
	entry->class = sx_entry_class(fixed + kroom + vroom);
	entry->flags = SX_ENTRY_DEAD;
	if (op->def.fine)
	{
		entry->flags |= SX_ENTRY_FINE;
		*sx_entry_fine_expiry(entry) = key->expiry;
	}
	if (key_is_out)
	{
		entry->flags |= SX_ENTRY_KEY_OUT;
		memcpy(key_out, key->bytes, key->len);
		memcpy(entry->data, &key_out, sizeof(char *));
	}
	else
		memcpy(entry->data, key->bytes, key->len);
	sx_tier_bucket_add(tier, bucket, entry, ref);
	table_insert(table, tag, ref);
	table->used++;
	tier->entries++;
	return ref;
}

static void
free_entry(SxTier *tier, SxEntry *entry, SxRef ref)
{
	free_value_out(tier, entry);
	if (entry->flags & SX_ENTRY_KEY_OUT)
		sx_large_free(&tier->memory, *(char **) entry->data);
	sx_entry_free(&tier->memory, ref);
	tier->entries--;
}

void
sx_tier_drop(SxTier *tier, SxRef ref)
{
	SxEntry    *entry = sx_tier_entry(tier, ref);
	SxBucket   *bucket = sx_tier_bucket(tier, entry);
	SxTierTable *table = &tier->tables[entry->group];

	if (!(entry->flags & SX_ENTRY_DEAD))
		bucket->live--;
	table_remove(table, sx_tier_tag(bucket->op->def.id, sx_entry_expiry(entry, bucket), entry->hash), ref);
	table_shrink(tier, table);
	sx_tier_bucket_remove(tier, bucket, entry);
	free_entry(tier, entry, ref);
}

void
sx_tier_load(SxTier *tier, SxRef ref, const char *bytes, uint32 len)
{
	SxEntry    *entry = sx_tier_entry(tier, ref);

	if (len <= value_room(entry) && !(entry->flags & SX_ENTRY_VALUE_OUT))
		memcpy(sx_entry_value_place(entry), bytes, len);
	else if ((entry->flags & SX_ENTRY_VALUE_OUT) && len <= sx_large_room(value_out(entry)))
		memcpy(value_out(entry), bytes, len);
	else
	{
		char	   *piece = sx_large_alloc(&tier->memory, len);

		memcpy(piece, bytes, len);
		free_value_out(tier, entry);
		set_value_out(entry, piece);
		entry->flags |= SX_ENTRY_VALUE_OUT;
	}
	entry->vlen = len;
	if (entry->flags & SX_ENTRY_DEAD)
	{
		entry->flags &= ~SX_ENTRY_DEAD;
		sx_tier_bucket(tier, entry)->live++;
	}
}

/* ---------- changes of a batch ---------- */

static char *
arena_alloc(SxTier *tier, Size size)
{
	char	   *place;

	size = MAXALIGN(size);
	if (size > tier->arena_left)
	{
		Size		block = Max(ARENA_BLOCK, size);

		tier->arena_free = MemoryContextAllocHuge(tier->arena, block);
		tier->arena_left = block;
	}
	place = tier->arena_free;
	tier->arena_free += size;
	tier->arena_left -= size;
	return place;
}

/* One more element in a list that starts empty. */
static void *
list_room(MemoryContext context, void *list, uint32 n, uint32 *allocated, Size size)
{
	if (n < *allocated)
		return list;
	if (list == NULL)
	{
		list = MemoryContextAlloc(context, 256 * size);
		*allocated = 256;
		return list;
	}
	list = repalloc_huge(list, (Size) *allocated * 2 * size);
	*allocated *= 2;
	return list;
}

static void
undo_room(SxTier *tier)
{
	tier->undo = list_room(tier->context, tier->undo, tier->nundo,
						   &tier->undo_allocated, sizeof(SxUndo));
	tier->changes = list_room(tier->context, tier->changes, tier->nchanges,
							  &tier->changes_allocated, sizeof(SxRef));
}

/*
 * Saves what abort puts back.  A large value moves into the undo list whole;
 * the caller must give the entry another one.
 */
static void
touch(SxTier *tier, SxEntry *entry, SxRef ref)
{
	SxUndo	   *undo;
	char	   *saved = NULL;

	undo_room(tier);
	if (!(entry->flags & (SX_ENTRY_DEAD | SX_ENTRY_VALUE_OUT)) && entry->vlen > 0)
	{
		saved = arena_alloc(tier, entry->vlen);
		memcpy(saved, sx_entry_value_place(entry), entry->vlen);
	}
	undo = &tier->undo[tier->nundo++];
	undo->ref = ref;
	undo->vlen = entry->vlen;
	undo->flags = entry->flags;
	undo->created = false;
	if (entry->flags & SX_ENTRY_VALUE_OUT)
	{
		saved = value_out(entry);
		entry->flags &= ~SX_ENTRY_VALUE_OUT;
	}
	undo->saved = saved;
	entry->flags |= SX_ENTRY_TOUCHED | SX_ENTRY_USED;
}

static void
note_change(SxTier *tier, SxEntry *entry, SxRef ref)
{
	entry->flags |= SX_ENTRY_DIRTY;
	if (entry->flags & SX_ENTRY_CHANGED)
		return;
	entry->flags |= SX_ENTRY_CHANGED;
	tier->changes[tier->nchanges++] = ref;
}

static void
count_live(SxTier *tier, SxEntry *entry, int by)
{
	SxBucket   *bucket = sx_tier_bucket(tier, entry);

	bucket->live += by;
	if (!bucket->expired)
		bucket->op->rows += by;
}

SxRef
sx_tier_create_pending(SxTier *tier, SxTierOperator *op, const SxStateKey *key,
					   uint32 tag, uint32 vlen, SxRef mate)
{
	SxRef		ref;
	SxEntry    *entry;
	SxUndo	   *undo;

	undo_room(tier);
	ref = sx_tier_create(tier, op, key, tag, vlen);
	entry = sx_tier_entry(tier, ref);
	entry->flags |= SX_ENTRY_TOUCHED;
	if (mate != SX_REF_NONE)
		entry->flags |= sx_tier_entry(tier, mate)->flags & SX_ENTRY_IN_STORE;
	undo = &tier->undo[tier->nundo++];
	undo->ref = ref;
	undo->saved = NULL;
	undo->vlen = 0;
	undo->flags = SX_ENTRY_DEAD | (entry->flags & (SX_ENTRY_KEY_OUT | SX_ENTRY_FINE));
	undo->created = true;
	return ref;
}

void
sx_tier_put(SxTier *tier, SxRef ref, const char *bytes, uint32 len)
{
	SxEntry    *entry = sx_tier_entry(tier, ref);
	Size		room = value_room(entry);
	char	   *piece = NULL;

	undo_room(tier);
	/* the bytes may be the entry's old value: copied before that is freed */
	if (len > room)
	{
		if ((entry->flags & SX_ENTRY_TOUCHED) && (entry->flags & SX_ENTRY_VALUE_OUT) &&
			len <= sx_large_room(value_out(entry)))
			memmove(value_out(entry), bytes, len);
		else
		{
			piece = sx_large_alloc(&tier->memory, len);
			memcpy(piece, bytes, len);
		}
	}
	if (!(entry->flags & SX_ENTRY_TOUCHED))
		touch(tier, entry, ref);
	if (len <= room)
	{
		if (entry->flags & SX_ENTRY_VALUE_OUT)
		{
			char	   *old = value_out(entry);

			entry->flags &= ~SX_ENTRY_VALUE_OUT;
			memcpy(sx_entry_value_place(entry), bytes, len);
			sx_large_free(&tier->memory, old);
		}
		else
			memmove(sx_entry_value_place(entry), bytes, len);
	}
	else if (piece != NULL)
	{
		free_value_out(tier, entry);
		set_value_out(entry, piece);
		entry->flags |= SX_ENTRY_VALUE_OUT;
	}
	entry->vlen = len;
	if (entry->flags & SX_ENTRY_DEAD)
	{
		entry->flags &= ~SX_ENTRY_DEAD;
		count_live(tier, entry, 1);
	}
	note_change(tier, entry, ref);
}

void
sx_tier_remove(SxTier *tier, SxRef ref)
{
	SxEntry    *entry = sx_tier_entry(tier, ref);

	if (entry->flags & SX_ENTRY_DEAD)
		return;
	undo_room(tier);
	if (!(entry->flags & SX_ENTRY_TOUCHED))
		touch(tier, entry, ref);
	free_value_out(tier, entry);
	entry->vlen = 0;
	entry->flags |= SX_ENTRY_DEAD;
	count_live(tier, entry, -1);
	note_change(tier, entry, ref);
}

/* ---------- expiry ---------- */

/* Some at a time, so that their slots are fetched together. */
static void
free_entries(SxTier *tier, SxBucket *bucket, SxRef ref)
{
	SxRef		refs[FREED_TOGETHER];
	uint32		tags[FREED_TOGETHER];
	int			n;

	while (ref != SX_REF_NONE)
	{
		for (n = 0; n < FREED_TOGETHER && ref != SX_REF_NONE; n++)
		{
			SxEntry    *entry = sx_tier_entry(tier, ref);
			SxTierTable *table = &tier->tables[entry->group];

			refs[n] = ref;
			tags[n] = sx_tier_tag(bucket->op->def.id, sx_entry_expiry(entry, bucket), entry->hash);
			__builtin_prefetch(&table->slots[sx_tier_home(table, tags[n])]);
			ref = entry->next;
		}
		for (int i = 0; i < n; i++)
		{
			SxEntry    *entry = sx_tier_entry(tier, refs[i]);
			SxTierTable *table = &tier->tables[entry->group];

			table_remove(table, tags[i], refs[i]);
			table_shrink(tier, table);
			free_entry(tier, entry, refs[i]);
		}
	}
}

static void
free_expired(SxTier *tier, SxTierOperator *op)
{
	while (op->expired != SX_REF_NONE)
	{
		SxBucket   *bucket = sx_tier_bucket_pointer(tier, op->expired);

		free_entries(tier, bucket, bucket->head);
		op->expired = bucket->next_expired;
		sx_entry_free(&tier->memory, bucket->self);
	}
}

/* ---------- commit, abort ---------- */

static void
forget_batch(SxTier *tier)
{
	tier->nundo = 0;
	tier->nchanges = 0;
	tier->arena_free = NULL;
	tier->arena_left = 0;
	MemoryContextReset(tier->arena);
	/* a batch far above the usual must not keep its lists */
	if (tier->undo_allocated > 1024 * 1024)
	{
		pfree(tier->undo);
		tier->undo = NULL;
		tier->undo_allocated = 0;
	}
	if (tier->changes_allocated > 1024 * 1024)
	{
		pfree(tier->changes);
		tier->changes = NULL;
		tier->changes_allocated = 0;
	}
}

/* An entry that is about to be dropped: the memory of its slot. */
static inline void
prefetch_slot(const SxTier *tier, SxRef ref)
{
	SxEntry    *entry = sx_tier_entry(tier, ref);
	SxBucket   *bucket = sx_tier_bucket(tier, entry);
	const SxTierTable *table = &tier->tables[entry->group];

	if (entry->flags & SX_ENTRY_DEAD)
		__builtin_prefetch(&table->slots[sx_tier_home(table, sx_tier_tag(bucket->op->def.id, sx_entry_expiry(entry, bucket), entry->hash))]);
}

void
sx_tier_commit(SxTier *tier)
{
	uint32		i;

	for (i = 0; i < tier->nundo; i++)
	{
		SxUndo	   *undo = &tier->undo[i];
		SxEntry    *entry = sx_tier_entry(tier, undo->ref);

		if (i + 16 < tier->nundo)
			__builtin_prefetch(sx_tier_entry(tier, tier->undo[i + 16].ref));
		if (i + 8 < tier->nundo)
			prefetch_slot(tier, tier->undo[i + 8].ref);
		if (undo->flags & SX_ENTRY_VALUE_OUT)
			sx_large_free(&tier->memory, undo->saved);
		entry->flags &= ~(SX_ENTRY_TOUCHED | SX_ENTRY_CHANGED);
		if ((entry->flags & (SX_ENTRY_DEAD | SX_ENTRY_IN_STORE)) == SX_ENTRY_DEAD)
			sx_tier_drop(tier, undo->ref);
	}
	for (i = 0; i < tier->noperators; i++)
	{
		free_expired(tier, &tier->operators[i]);
		sx_cold_commit(&tier->operators[i].cold);
	}
	forget_batch(tier);
}

static void
undo_change(SxTier *tier, SxUndo *undo)
{
	SxEntry    *entry = sx_tier_entry(tier, undo->ref);
	bool		was_dead = (undo->flags & SX_ENTRY_DEAD) != 0;

	if (was_dead != ((entry->flags & SX_ENTRY_DEAD) != 0))
		count_live(tier, entry, was_dead ? -1 : 1);
	free_value_out(tier, entry);
	entry->flags = (undo->flags & ~(SX_ENTRY_TOUCHED | SX_ENTRY_CHANGED)) |
		(entry->flags & SX_ENTRY_IN_STORE);
	entry->vlen = undo->vlen;
	if (undo->flags & SX_ENTRY_VALUE_OUT)
		set_value_out(entry, undo->saved);
	else if (undo->saved != NULL)
		memcpy(sx_entry_value_place(entry), undo->saved, undo->vlen);
	if (undo->created)
		sx_tier_drop(tier, undo->ref);
}

void
sx_tier_abort(SxTier *tier)
{
	uint32		i;

	/* the last first: a created entry is dropped when nothing else needs it */
	for (i = tier->nundo; i-- > 0;)
		undo_change(tier, &tier->undo[i]);
	for (i = 0; i < tier->noperators; i++)
	{
		sx_tier_unexpire(tier, &tier->operators[i]);
		sx_cold_abort(&tier->operators[i].cold);
	}
	forget_batch(tier);
}

Size
sx_tier_bytes(const SxTier *tier)
{
	return tier->memory.bytes + tier->table_bytes;
}

Size
sx_tier_filter_bytes(const SxTier *tier)
{
	Size		bytes = 0;
	int			i;

	for (i = 0; i < tier->noperators; i++)
		bytes += tier->operators[i].filter.bytes;
	return bytes;
}

Size
sx_tier_pending_bytes(const SxTier *tier)
{
	return MemoryContextMemAllocated(tier->arena, false) +
		tier->undo_allocated * sizeof(SxUndo) +
		tier->changes_allocated * sizeof(SxRef);
}
