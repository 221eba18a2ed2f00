/*
 * group_table.c
 *		Open addressing over (hash bits, number of the group).
 *
 * Looking up a chunk goes in three passes, so that the processor fetches many
 * cache lines at once instead of waiting for each:
 *
 *	 for each update: prefetch its slot
 *	 for each update: the first slot with its hash bits; prefetch that group
 *	 for each update: compare the keys; if they differ probe on; if none: make it
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "exec/group_table.h"

#define GROUPS_PER_BLOCK	256
#define KEY_BLOCK			(64 * 1024)
#define NO_GROUP			PG_UINT32_MAX

typedef struct SxGroupSlot
{
	uint32		bits;			/* high half of the hash; the low one finds the slot */
	uint32		number;			/* NO_GROUP: free */
} SxGroupSlot;

static SxGroupSlot *
make_slots(SxGroupTable *table, uint32 n)
{
	Size		bytes = (Size) n * sizeof(SxGroupSlot);
	SxGroupSlot *slots = MemoryContextAllocExtended(table->context, bytes, MCXT_ALLOC_HUGE);

	memset(slots, 0xff, bytes); /* all NO_GROUP */
	table->mask = n - 1;
	return slots;
}

SxGroupTable *
sx_group_table_make(SxGroupKey *key, Size group_size)
{
	SxGroupTable *table = palloc0(sizeof(SxGroupTable));

	table->key = key;
	table->group_size = MAXALIGN(group_size);
	table->context = CurrentMemoryContext;
	table->slots = make_slots(table, 2 * SX_CHUNK_ROWS);
	return table;
}

SxGroup *
sx_group_table_get(const SxGroupTable *table, uint32 number)
{
	return (SxGroup *) (table->blocks[number / GROUPS_PER_BLOCK] +
						(number % GROUPS_PER_BLOCK) * table->group_size);
}

static const char *
keep_key(SxGroupTable *table, const char *bytes, uint32 len)
{
	char	   *copy;

	if (len > KEY_BLOCK / 16)
		copy = MemoryContextAlloc(table->context, len);
	else
	{
		if (table->nfree < len || table->free == NULL)
		{
			/* small batches are the rule: begin with a little */
			table->nfree = table->free == NULL ? KEY_BLOCK / 16 : KEY_BLOCK;
			table->free = MemoryContextAlloc(table->context, table->nfree);
		}
		copy = table->free;
		table->free += len;
		table->nfree -= len;
	}
	memcpy(copy, bytes, len);
	return copy;
}

static SxGroup *
make_group(SxGroupTable *table, const SxUpdate *update, const char *key)
{
	uint32		number = table->ngroups;
	SxGroup    *group;

	if (number % GROUPS_PER_BLOCK == 0)
	{
		uint32		block = number / GROUPS_PER_BLOCK;

		if (block >= table->nblocks)
		{
			uint32		wanted = Max(16, table->nblocks * 2);
			Size		bytes = wanted * sizeof(char *);

			if (table->blocks == NULL)
				table->blocks = MemoryContextAllocHuge(table->context, bytes);
			else
				table->blocks = repalloc_huge(table->blocks, bytes);
			table->nblocks = wanted;
		}
		table->blocks[block] = MemoryContextAllocHuge(table->context,
													  GROUPS_PER_BLOCK * table->group_size);
	}
	table->ngroups++;
	group = sx_group_table_get(table, number);
	group->hash = update->hash;
	group->expiry = update->expiry;
	group->group = update->group;
	group->key = keep_key(table, key, update->keylen);
	group->keylen = update->keylen;
	return group;
}

static void
insert_slot(SxGroupTable *table, uint64 hash, uint32 number)
{
	uint32		i = (uint32) hash & table->mask;

	while (table->slots[i].number != NO_GROUP)
		i = (i + 1) & table->mask;
	table->slots[i].bits = (uint32) (hash >> 32);
	table->slots[i].number = number;
}

/* Makes sure that a whole chunk of new groups leaves the table at most half full. */
static void
reserve(SxGroupTable *table, int n)
{
	uint64		wanted = ((uint64) table->ngroups + n) * 2;
	uint64		size = (uint64) table->mask + 1;

	if (wanted <= size)
		return;
	while (size < wanted)
		size *= 2;
	if (size > (UINT64CONST(1) << 31))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many groups in one batch"),
				 errhint("Lower the query option \"batch_rows\".")));
	pfree(table->slots);
	table->slots = make_slots(table, (uint32) size);
	for (uint32 i = 0; i < table->ngroups; i++)
		insert_slot(table, sx_group_table_get(table, i)->hash, i);
}

static inline bool
is_group_of(const SxGroupTable *table, const SxGroup *group, const SxUpdate *update,
			const char *key)
{
	if (group->hash != update->hash || group->expiry != update->expiry)
		return false;
	if (group->keylen == update->keylen &&
		memcmp(group->key, key, update->keylen) == 0)
		return true;
	return !table->key->bytewise &&
		sx_group_key_equal(table->key, group->key, group->keylen,
						   key, update->keylen);
}

static SxGroup *
find_or_make(SxGroupTable *table, const SxUpdate *update, const char *key)
{
	uint32		bits = (uint32) (update->hash >> 32);
	uint32		i = (uint32) update->hash & table->mask;

	for (;;)
	{
		SxGroupSlot *slot = &table->slots[i];

		if (slot->number == NO_GROUP)
			break;
		if (slot->bits == bits)
		{
			SxGroup    *group = sx_group_table_get(table, slot->number);

			if (is_group_of(table, group, update, key))
				return group;
		}
		i = (i + 1) & table->mask;
	}
	table->slots[i].bits = bits;
	table->slots[i].number = table->ngroups;
	return make_group(table, update, key);
}

void
sx_group_table_find(SxGroupTable *table, int n, const SxUpdate *updates, const char *keys,
					SxGroup **groups)
{
	reserve(table, n);
	for (int i = 0; i < n; i++)
		__builtin_prefetch(&table->slots[(uint32) updates[i].hash & table->mask]);
	for (int i = 0; i < n; i++)
	{
		uint32		bits = (uint32) (updates[i].hash >> 32);
		uint32		s = (uint32) updates[i].hash & table->mask;

		groups[i] = NULL;
		while (table->slots[s].number != NO_GROUP)
		{
			if (table->slots[s].bits == bits)
			{
				groups[i] = sx_group_table_get(table, table->slots[s].number);
				__builtin_prefetch(groups[i]);
				break;
			}
			s = (s + 1) & table->mask;
		}
	}
	for (int i = 0; i < n; i++)
	{
		const char *key = keys + updates[i].key;

		if (groups[i] == NULL || !is_group_of(table, groups[i], &updates[i], key))
			groups[i] = find_or_make(table, &updates[i], key);
	}
}
