/*
 * pane_table.c
 *		See pane_table.h.
 *
 * Adding only notes the pane and the hash of its key. Ordering then finds the
 * keys with their memory fetched ahead, and distributes the panes by counting.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "utils/memutils.h"

#include "exec/group_key.h"
#include "exec/pane_table.h"
#include "state/key_hash.h"

#define FIRST_PANES		256
#define FIRST_KEYS		256
#define AHEAD			12		/* so many keys are fetched ahead */

typedef struct SxAddedPane
{
	SxPane		pane;
	const char *key;
	uint32		keylen;
	uint32		number;			/* hash of the key, then its number */
	uint8		group;
} SxAddedPane;

#define ST_SORT sort_panes
#define ST_ELEMENT_TYPE SxPane
#define ST_COMPARE(a, b) ((a)->start < (b)->start ? -1 : (a)->start > (b)->start)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static void
make_slots(SxPaneTable *table, uint32 n)
{
	table->mask = n - 1;
	table->slots = MemoryContextAllocExtended(table->context, (Size) n * sizeof(uint32),
											  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

SxPaneTable *
sx_pane_table_make(void)
{
	SxPaneTable *table = palloc0(sizeof(SxPaneTable));

	table->context = CurrentMemoryContext;
	table->seed = pg_prng_uint64(&pg_global_prng_state);
	return table;
}

void
sx_pane_table_add(SxPaneTable *table, const char *key, uint32 keylen, uint8 group,
				  const SxPane *pane)
{
	SxAddedPane *added;

	if (keylen < SX_WINDOW_BYTES)
		sx_reader_short();
	if (table->npanes == table->panes_allocated)
	{
		Size		wanted = Max(FIRST_PANES, table->panes_allocated * 2);

		if (table->added == NULL)
			table->added = MemoryContextAllocHuge(table->context, wanted * sizeof(SxAddedPane));
		else
			table->added = repalloc_huge(table->added, wanted * sizeof(SxAddedPane));
		table->panes_allocated = wanted;
	}
	added = &table->added[table->npanes++];
	added->pane = *pane;
	added->pane.start = sx_group_key_start(key, keylen);
	added->key = key;
	added->keylen = keylen - SX_WINDOW_BYTES;
	added->number = (uint32) sx_key_hash(key, added->keylen, table->seed);
	added->group = group;
}

static void
grow_slots(SxPaneTable *table)
{
	uint32		n = (table->mask + 1) * 2;

	if (n == 0)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("too many groups in one batch"),
				 errhint("Lower the query option \"batch_rows\".")));
	pfree(table->slots);
	make_slots(table, n);
	for (uint32 i = 0; i < table->nkeys; i++)
	{
		uint32		at = table->keys[i].hash & table->mask;

		while (table->slots[at] != 0)
			at = (at + 1) & table->mask;
		table->slots[at] = i + 1;
	}
}

static uint32
add_key(SxPaneTable *table, const SxAddedPane *added)
{
	SxPaneKey  *key;

	if (table->nkeys == table->keys_allocated)
	{
		table->keys_allocated *= 2;
		table->keys = repalloc_huge(table->keys,
									(Size) table->keys_allocated * sizeof(SxPaneKey));
	}
	key = &table->keys[table->nkeys];
	key->bytes = added->key;
	key->len = added->keylen;
	key->hash = added->number;
	key->group = added->group;
	key->npanes = 0;
	key->panes = NULL;
	return table->nkeys++;
}

static uint32
find_key(SxPaneTable *table, const SxAddedPane *added)
{
	uint32		at = added->number & table->mask;
	uint32		number;

	while (table->slots[at] != 0)
	{
		const SxPaneKey *key = &table->keys[table->slots[at] - 1];

		if (key->hash == added->number && key->len == added->keylen &&
			memcmp(key->bytes, added->key, key->len) == 0)
			return table->slots[at] - 1;
		at = (at + 1) & table->mask;
	}
	number = add_key(table, added);
	table->slots[at] = number + 1;
	if (table->nkeys > table->mask / 2)
		grow_slots(table);
	return number;
}

static void
find_keys(SxPaneTable *table)
{
	for (Size i = 0; i < table->npanes; i++)
	{
		SxAddedPane *added = &table->added[i];

		if (i + 2 * AHEAD < table->npanes)
			__builtin_prefetch(&table->slots[added[2 * AHEAD].number & table->mask]);
		if (i + AHEAD < table->npanes)
		{
			uint32		slot = table->slots[added[AHEAD].number & table->mask];

			if (slot != 0)
				__builtin_prefetch(&table->keys[slot - 1]);
			__builtin_prefetch(added[AHEAD].key);
		}
		added->number = find_key(table, added);
		table->keys[added->number].npanes++;
	}
}

void
sx_pane_table_order(SxPaneTable *table)
{
	Size		at = 0;

	table->keys_allocated = FIRST_KEYS;
	table->keys = MemoryContextAllocHuge(table->context, FIRST_KEYS * sizeof(SxPaneKey));
	make_slots(table, 4 * FIRST_KEYS);
	find_keys(table);
	pfree(table->slots);
	table->panes = MemoryContextAllocHuge(table->context, (table->npanes + 1) * sizeof(SxPane));
	for (uint32 i = 0; i < table->nkeys; i++)
	{
		SxPaneKey  *key = &table->keys[i];

		key->panes = table->panes + at;
		at += key->npanes;
		key->npanes = 0;
	}
	for (Size i = 0; i < table->npanes; i++)
	{
		SxPaneKey  *key = &table->keys[table->added[i].number];

		key->panes[key->npanes++] = table->added[i].pane;
	}
	if (table->added != NULL)
		pfree(table->added);
	table->added = NULL;
	for (uint32 i = 0; i < table->nkeys; i++)
		sort_panes(table->keys[i].panes, table->keys[i].npanes);
}

void
sx_pane_walk_begin(SxPaneWalk *walk, const SxWindow *window, const SxPane *panes, int npanes,
				   TimestampTz after, TimestampTz upto)
{
	walk->window = window;
	walk->panes = panes;
	walk->npanes = npanes;
	walk->upto = upto;
	walk->seen = -1;
	walk->first = 0;
	walk->end = 0;
	/* the first window that starts after "after" - size */
	if (after < PG_INT64_MIN + window->size + window->slide)
		walk->next = PG_INT64_MIN;
	else
		walk->next = sx_window_last_start(window, after - window->size) + window->slide;
}

bool
sx_pane_walk_next(SxPaneWalk *walk)
{
	const SxWindow *window = walk->window;
	const SxPane *panes = walk->panes;
	int			npanes = walk->npanes;
	TimestampTz start = walk->next;

	while (walk->first < npanes && panes[walk->first].start < start)
		walk->first++;
	if (walk->first == npanes)
		return false;
	if (walk->seen != walk->first)
	{
		/* windows between the last one and the pane hold nothing */
		TimestampTz holds = sx_window_first_start(window, panes[walk->first].start);

		start = Max(start, holds);
		walk->seen = walk->first;
	}
	if (start > walk->upto - window->size)
		return false;
	walk->end = Max(walk->end, walk->first + 1);
	while (walk->end < npanes && panes[walk->end].start < start + window->size)
		walk->end++;
	walk->start = start;
	walk->next = start + window->slide;
	return true;
}
