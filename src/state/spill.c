/*
 * spill.c
 *		Cold cells leave memory for the store.
 *
 *	from where the last spill ended, group after group, until enough is chosen:
 *		sort the group's entries by cell
 *		a cell with an entry that was used since the last pass stays, unmarked
 *		else it goes: written if it is dirty, forgotten if it isn't
 *	sort what goes by cell, write it as one run, drop the entries
 *
 * Everything is committed then: nothing else runs between batches.
 *
 * A cell in the store is the keys and values of its live entries:
 *	(key length v, key, value length v, value)*, v as in changelog.c.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/crash_point.h"
#include "state/state.h"

#define DEAD_ROWS_WORTH		20000	/* expired records kept in the store at most, or a tenth */

typedef struct Victim
{
	SxCellKey	cell;
	SxRef		ref;
} Victim;

typedef struct VictimList
{
	Victim	   *victims;
	Size		n;
	Size		allocated;
	Size		bytes;			/* about what dropping them gives */
} VictimList;

#define ST_SORT sort_victims
#define ST_ELEMENT_TYPE Victim
#define ST_COMPARE(a, b) sx_cell_compare(&(a)->cell, &(b)->cell)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* ---------- cells as bytes ---------- */

static char *
encode_varint(char *to, uint32 value)
{
	while (value >= 0x80)
	{
		*to++ = (char) (value | 0x80);
		value >>= 7;
	}
	*to++ = (char) value;
	return to;
}

static uint32
decode_varint(const char **at, const char *end)
{
	uint32		value = 0;
	int			shift = 0;

	while (*at < end && shift < 32)
	{
		uint8		byte = (uint8) *(*at)++;

		value |= (uint32) (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			break;
		shift += 7;
	}
	return value;
}

bool
sx_cell_next(const char **at, const char *end, SxStateKey *key, SxStateValue *value)
{
	if (*at >= end)
		return false;
	key->len = decode_varint(at, end);
	key->bytes = *at;
	*at += key->len;
	value->len = decode_varint(at, end);
	value->bytes = *at;
	*at += value->len;
	if (*at > end)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("a record in the state store is damaged"),
				 errhint("Remove the store's directory; it is rebuilt from the changelog.")));
	return true;
}

/* ---------- choosing ---------- */

static void
add_victim(VictimList *list, const SxTier *tier, SxRef ref)
{
	SxEntry    *entry = sx_tier_entry(tier, ref);
	SxBucket   *bucket = sx_tier_bucket(tier, entry);
	Victim	   *victim;

	if (list->n == list->allocated)
	{
		list->allocated = Max(4096, 2 * list->allocated);
		if (list->victims == NULL)
			list->victims = MemoryContextAllocHuge(CurrentMemoryContext,
												   list->allocated * sizeof(Victim));
		else
			list->victims = repalloc_huge(list->victims, list->allocated * sizeof(Victim));
	}
	victim = &list->victims[list->n++];
	victim->cell.op = bucket->op->def.id;
	victim->cell.group = entry->group;
	victim->cell.expiry = sx_entry_expiry(entry, bucket);
	victim->cell.hash = entry->hash;
	victim->ref = ref;
}

static Size
entry_bytes(SxEntry *entry)
{
	Size		bytes = sx_entry_class_size(entry->class) + sizeof(SxTierSlot);

	if (entry->flags & SX_ENTRY_VALUE_OUT)
		bytes += sx_large_room(sx_entry_value(entry));
	if (entry->flags & SX_ENTRY_KEY_OUT)
		bytes += sx_large_room(sx_entry_key(entry));
	return bytes;
}

/*
 * Adds the cells of a group that weren't used since the last pass.  all: every
 * cell, used or not.
 */
static void
choose_from_group(SxState *state, int group, bool all, VictimList *list)
{
	SxTier	   *tier = &state->tier;
	SxTierTable *table = &tier->tables[group];
	Size		first = list->n;
	Size		kept = first;
	Size		i;
	Size		end;

	for (i = 0; i < table->nslots; i++)
	{
		if (i + 8 < table->nslots && table->slots[i + 8].ref != SX_REF_NONE)
			__builtin_prefetch(sx_tier_entry(tier, table->slots[i + 8].ref));
		if (table->slots[i].ref != SX_REF_NONE)
			add_victim(list, tier, table->slots[i].ref);
	}
	sort_victims(list->victims + first, list->n - first);
	for (i = first; i < list->n; i = end)
	{
		bool		used = false;
		Size		j;

		for (end = i; end < list->n &&
			 sx_cell_compare(&list->victims[end].cell, &list->victims[i].cell) == 0; end++)
		{
			SxEntry    *entry = sx_tier_entry(tier, list->victims[end].ref);

			if (entry->flags & SX_ENTRY_USED)
			{
				used = true;
				entry->flags &= ~SX_ENTRY_USED;
			}
		}
		if (used && !all)
			continue;
		for (j = i; j < end; j++)
		{
			list->bytes += entry_bytes(sx_tier_entry(tier, list->victims[j].ref));
			list->victims[kept++] = list->victims[j];
		}
	}
	list->n = kept;
}

/* ---------- writing ---------- */

/* The store is about to change: its mark is no longer true. */
static void
unmark_store(SxState *state)
{
	if (state->store_marked)
	{
		state->store->routine->remove_mark(state->store);
		state->store_marked = false;
	}
	state->store_in_use = true;
}

static void
remove_dead(SxState *state, SxTierOperator *op)
{
	state->store->routine->remove_expired(state->store, op->def.id, op->cold.dead);
	sx_cold_filter_drop_expired(&op->filter, op->cold.dead);
	op->cold.dead = PG_INT64_MIN;
	op->cold.dead_rows = 0;
}

/*
 * Expired records leave the store when they are many, and before anything of an
 * expired time is written there (late keys that were put after the expiry).
 */
static void
remove_dead_where_due(SxState *state, const VictimList *list)
{
	int			i;
	Size		j;

	for (i = 0; i < state->tier.noperators; i++)
	{
		SxTierOperator *op = &state->tier.operators[i];

		sx_cold_filter_drop_expired(&op->filter, op->cold.dead);
		if (op->cold.dead != PG_INT64_MIN &&
			op->cold.dead_rows > Max(DEAD_ROWS_WORTH, op->cold.total / 10))
			remove_dead(state, op);
	}
	for (j = 0; j < list->n; j++)
	{
		SxTierOperator *op = sx_tier_operator(&state->tier, list->victims[j].cell.op);

		if (list->victims[j].cell.expiry <= op->cold.dead)
			remove_dead(state, op);
	}
}

typedef struct CellBytes
{
	char	   *data;
	Size		allocated;
} CellBytes;

static Size
encode_cell(SxTier *tier, const Victim *victims, Size n, CellBytes *bytes)
{
	Size		size = 0;
	Size		i;
	char	   *at;

	for (i = 0; i < n; i++)
	{
		SxEntry    *entry = sx_tier_entry(tier, victims[i].ref);

		if (!(entry->flags & SX_ENTRY_DEAD))
			size += 10 + (Size) entry->klen + entry->vlen;
	}
	if (size > bytes->allocated)
	{
		if (bytes->data != NULL)
			pfree(bytes->data);
		bytes->data = MemoryContextAllocHuge(CurrentMemoryContext, size);
		bytes->allocated = size;
	}
	at = bytes->data;
	for (i = 0; i < n; i++)
	{
		SxEntry    *entry = sx_tier_entry(tier, victims[i].ref);

		if (entry->flags & SX_ENTRY_DEAD)
			continue;
		at = encode_varint(at, entry->klen);
		memcpy(at, sx_entry_key(entry), entry->klen);
		at = encode_varint(at + entry->klen, entry->vlen);
		memcpy(at, sx_entry_value(entry), entry->vlen);
		at += entry->vlen;
	}
	return at - bytes->data;
}

/* One cell of a run, to the store if it must; returns how many live keys it has. */
static int64
write_cell(SxState *state, SxTierOperator *op, const Victim *victims, Size n,
		   CellBytes *bytes)
{
	const SxStoreRoutine *routine = state->store->routine;
	const SxCellKey *cell = &victims->cell;
	uint16		flags = 0;
	int64		live = 0;
	Size		i;

	for (i = 0; i < n; i++)
	{
		SxEntry    *entry = sx_tier_entry(&state->tier, victims[i].ref);

		flags |= entry->flags;
		live += (entry->flags & SX_ENTRY_DEAD) == 0;
	}
	if (live == 0)
	{
		if (flags & SX_ENTRY_IN_STORE)
			routine->remove(state->store, cell);
	}
	else if (flags & SX_ENTRY_DIRTY)
	{
		Size		len = encode_cell(&state->tier, victims, n, bytes);

		routine->put(state->store, cell, bytes->data, len,
					 !(flags & SX_ENTRY_IN_STORE));
		if (!(flags & SX_ENTRY_IN_STORE))
			sx_cold_filter_add(&op->filter,
							   sx_cell_mix(cell->op, cell->expiry, cell->hash),
							   cell->expiry);
	}
	return live;
}

static void
write_cells(SxState *state, const VictimList *list, bool drop)
{
	SxTier	   *tier = &state->tier;
	CellBytes	bytes = {NULL, 0};
	Size		i;
	Size		end;

	for (i = 0; i < list->n; i = end)
	{
		const SxCellKey *cell = &list->victims[i].cell;
		SxTierOperator *op = sx_tier_operator(tier, cell->op);
		int64		live;

		if ((i & 1023) == 0)
			CHECK_FOR_INTERRUPTS();
		if (i + 12 < list->n)
			__builtin_prefetch(sx_tier_entry(tier, list->victims[i + 12].ref));
		for (end = i + 1; end < list->n &&
			 sx_cell_compare(&list->victims[end].cell, cell) == 0; end++)
			;
		live = write_cell(state, op, &list->victims[i], end - i, &bytes);
		if (drop)
			sx_cold_add(&op->cold, cell->expiry, cell->expiry, live);
	}
	if (bytes.data != NULL)
		pfree(bytes.data);
}

/* Writes the run. drop: entries leave memory; else they stay as clean ones. */
static void
write_run(SxState *state, VictimList *list, bool drop)
{
	SxTier	   *tier = &state->tier;
	Size		i;

	unmark_store(state);
	remove_dead_where_due(state, list);
	sort_victims(list->victims, list->n);
	state->store->routine->write_begin(state->store, list->bytes);
	write_cells(state, list, drop);
	state->store->routine->write_end(state->store);
	SX_CRASH_POINT("spill");
	for (i = 0; i < list->n; i++)
	{
		SxEntry    *entry = sx_tier_entry(tier, list->victims[i].ref);

		if (i + 8 < list->n)
			__builtin_prefetch(sx_tier_entry(tier, list->victims[i + 8].ref));
		if (drop || (entry->flags & SX_ENTRY_DEAD))
			sx_tier_drop(tier, list->victims[i].ref);
		else
		{
			entry->flags &= ~SX_ENTRY_DIRTY;
			entry->flags |= SX_ENTRY_IN_STORE;
		}
	}
	if (list->victims != NULL)
		pfree(list->victims);
}

/* Brings the tier down to about so many bytes. */
void
sx_state_spill(SxState *state, Size target)
{
	VictimList	list = {NULL};
	Size		now = sx_tier_bytes(&state->tier);
	int			passed = 0;

	/* a first round spares what was used, a second one finds it unmarked */
	while (list.bytes + target < now && list.n < (Size) state->tier.entries &&
		   passed < 2 * SX_KEY_GROUPS)
	{
		if (passed == SX_KEY_GROUPS)
		{
			/* what the first round chose is still in the tables: start again */
			list.n = 0;
			list.bytes = 0;
		}
		choose_from_group(state, state->spill_group, passed >= SX_KEY_GROUPS, &list);
		state->spill_group = (state->spill_group + 1) % SX_KEY_GROUPS;
		passed++;
	}
	write_run(state, &list, true);
}

/* Everything dirty goes to the store and stays in memory, too. */
void
sx_state_flush(SxState *state)
{
	int			group;

	/* in pieces: the list of victims isn't counted in the state's memory */
	for (group = 0; group < SX_KEY_GROUPS;)
	{
		VictimList	list = {NULL};

		while (group < SX_KEY_GROUPS && list.n < 100000)
			choose_from_group(state, group++, true, &list);
		write_run(state, &list, false);
	}
	/* the mark says nothing of what is dead: it has to go */
	for (group = 0; group < state->tier.noperators; group++)
	{
		SxTierOperator *op = &state->tier.operators[group];

		if (op->cold.dead != PG_INT64_MIN)
			remove_dead(state, op);
	}
}
