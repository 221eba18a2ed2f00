/*
 * snapshot.c
 *		Rolling snapshots, and giving back tables of the log.
 *
 *	when a part has written 1.4 times what it would take, and a table is free:
 *		begin a generation of the part
 *	while there is credit:
 *		write the next group of that part as of now
 *	when all its groups are written:
 *		the generation is complete
 *	while the second oldest generation of a part was complete for the oldest
 *	retained batch:
 *		truncate the oldest one
 *
 * Changes written earn credit, seven bytes for ten; snapshots spend it.  So WAL is
 * at most 1.7 times the changes, and in the long run a part's round takes 1.4
 * times its size in changes, where changes plus snapshots kept on disk are the
 * least.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/crash_point.h"
#include "state/state.h"

#define MIN_GENERATION		(512 * 1024)	/* bytes a part writes before it rotates */
#define MIN_CREDIT			(64 * 1024)	/* what a quiet time can save up: this, or a part */
#define STEP_BYTES			(2 * 1024 * 1024)	/* written by one call */

/* ---------- one group ---------- */

static inline int
compare_refs(const SxTier *tier, SxRef a, SxRef b)
{
	const SxEntry *left = sx_tier_entry(tier, a);
	const SxEntry *right = sx_tier_entry(tier, b);
	const SxBucket *lbucket = sx_tier_bucket(tier, left);
	const SxBucket *rbucket = sx_tier_bucket(tier, right);
	int64		lexpiry = sx_entry_expiry(left, lbucket);
	int64		rexpiry = sx_entry_expiry(right, rbucket);

	if (lbucket->op != rbucket->op)
		return lbucket->op->def.id < rbucket->op->def.id ? -1 : 1;
	if (lexpiry != rexpiry)
		return lexpiry < rexpiry ? -1 : 1;
	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	return 0;
}

#define ST_SORT sort_refs
#define ST_ELEMENT_TYPE SxRef
#define ST_COMPARE(a, b, tier) compare_refs(tier, *(a), *(b))
#define ST_COMPARE_ARG_TYPE const SxTier
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

static void
add_entry(SxState *state, SxEntry *entry)
{
	SxBucket   *bucket = sx_tier_bucket(&state->tier, entry);
	SxLogRecord record;

	record.has_hash = bucket->op->def.equal != NULL;
	record.key.op = bucket->op->def.id;
	record.key.group = entry->group;
	record.key.hash = entry->hash;
	record.key.expiry = sx_entry_expiry(entry, bucket);
	record.key.bytes = sx_entry_key(entry);
	record.key.len = entry->klen;
	record.removed = false;
	record.value.bytes = sx_entry_value(entry);
	record.value.len = entry->vlen;
	sx_section_add(state->writer, &record);
}

static void
add_entries_in_memory(SxState *state, uint16 group)
{
	SxTier	   *tier = &state->tier;
	SxTierTable *table = &tier->tables[group];
	SxRef	   *refs = MemoryContextAllocHuge(CurrentMemoryContext,
											  ((Size) table->used + 1) * sizeof(SxRef));
	uint32		n = 0;
	uint32		i;

	for (i = 0; i < table->nslots; i++)
	{
		SxEntry    *entry;

		if (table->slots[i].ref == SX_REF_NONE)
			continue;
		entry = sx_tier_entry(tier, table->slots[i].ref);
		if (!(entry->flags & SX_ENTRY_DEAD) && !sx_tier_bucket(tier, entry)->expired)
			refs[n++] = table->slots[i].ref;
	}
	sort_refs(refs, n, tier);
	for (i = 0; i < n; i++)
		add_entry(state, sx_tier_entry(tier, refs[i]));
	pfree(refs);
}

typedef struct ColdGroup
{
	SxState    *state;
	SxTierOperator *op;
} ColdGroup;

static bool
add_cold_cell(void *arg, const SxCellKey *cell, const char *bytes, Size len)
{
	ColdGroup  *cold = arg;
	const char *at = bytes;
	SxLogRecord record;

	if (cell->expiry <= cold->op->cold.dead ||
		sx_tier_find_cell(&cold->state->tier, cold->op, cell->group, cell->expiry,
						  cell->hash) != SX_REF_NONE)
		return true;
	record.has_hash = cold->op->def.equal != NULL;
	record.key.op = cell->op;
	record.key.group = cell->group;
	record.key.expiry = cell->expiry;
	record.key.hash = cell->hash;
	record.removed = false;
	while (sx_cell_next(&at, bytes + len, &record.key, &record.value))
		sx_section_add(cold->state->writer, &record);
	return true;
}

int64
sx_snapshot_write(SxState *state, uint16 group, int64 batch)
{
	SxSectionHeader header;
	int			i;

	memset(&header, 0, sizeof(header));
	header.kind = SX_SECTION_SNAPSHOT;
	header.part = sx_part_of(group);
	header.group = group;
	header.batch = batch;
	sx_log_append_begin(state->appender, &header);
	sx_section_begin(state->writer, &header, sx_log_append, state->appender);
	add_entries_in_memory(state, group);
	for (i = 0; state->store_in_use && i < state->tier.noperators; i++)
	{
		ColdGroup	cold = {state, &state->tier.operators[i]};

		if (cold.op->cold.total > 0)
			state->store->routine->scan(state->store, cold.op->def.id, group,
										SX_STATE_NEVER, add_cold_cell, &cold);
	}
	sx_section_end(state->writer);
	return sx_log_append_end(state->appender);
}

/* ---------- rotation ---------- */

static bool
can_drop_oldest(SxState *state, int part)
{
	SxLogPart  *p = &state->log.parts[part];
	SxGeneration *second;

	if (p->ngenerations < 2)
		return false;
	second = &p->generations[1];
	return second->complete_batch != SX_INCOMPLETE &&
		second->complete_batch <= state->committed.batch - state->batches_to_retain;
}

/* About what a snapshot of a part takes. */
static double
part_size(SxState *state)
{
	double		rows = 0;
	int			i;

	for (i = 0; i < state->tier.noperators; i++)
		rows += state->tier.operators[i].rows;
	return rows / SX_LOG_PARTS * state->record_bytes;
}

/*
 * Changes since the part was last written whole, against what writing it again
 * would take.  A part that only grew isn't worth it: its log is its snapshot.
 */
static double
part_age(SxState *state, int part)
{
	SxGeneration *current = sx_log_current(&state->log, part);

	if (current->complete_batch == SX_INCOMPLETE)
		return 0;
	return current->change_bytes / Max(1.4 * part_size(state), MIN_GENERATION);
}

static int
oldest_part(SxState *state)
{
	double		most = 1.0;
	int			best = SX_NO_PART;
	int			part;

	if (!sx_log_has_free_slot(&state->log))
		return SX_NO_PART;
	for (part = 0; part < SX_LOG_PARTS; part++)
	{
		double		age = part_age(state, part);

		if (age >= most)
		{
			most = age;
			best = part;
		}
	}
	return best;
}

bool
sx_snapshot_due(SxState *state)
{
	int			part;

	for (part = 0; part < SX_LOG_PARTS; part++)
		if (can_drop_oldest(state, part))
			return true;
	if (state->credit <= 0)
		return false;
	if (state->snapshot_part != SX_NO_PART)
		return true;
	return oldest_part(state) != SX_NO_PART;
}

/* Next group of the part without a snapshot in its current generation; -1: none. */
static int
next_group(SxState *state, int part)
{
	SxGeneration *generation = sx_log_current(&state->log, part);
	int			i;

	for (i = 0; i < SX_GROUPS_IN_PART; i++)
		if (generation->snapshot_batch[i] == SX_INCOMPLETE)
			return part * SX_GROUPS_IN_PART + i;
	return -1;
}

static void
drop_old_generations(SxState *state)
{
	int			part;

	for (part = 0; part < SX_LOG_PARTS; part++)
		while (can_drop_oldest(state, part))
			if (!sx_log_drop_oldest(&state->log, part))
				break;			/* somebody looks at it: another time */
}

void
sx_snapshot_step(SxState *state, bool *more)
{
	int64		written = 0;

	drop_old_generations(state);
	/* more saved up would be a burst, and parts that rotate together */
	state->credit = Min(state->credit, (int64) Max(part_size(state), MIN_CREDIT));
	while (state->credit > 0 && written < STEP_BYTES)
	{
		SxGeneration *generation;
		int64		bytes;
		int			group;

		if (state->snapshot_part == SX_NO_PART)
		{
			int			part = oldest_part(state);

			if (part == SX_NO_PART)
				return;
			sx_log_begin_generation(&state->log, part, state->committed.batch + 1);
			state->snapshot_part = part;
		}
		group = next_group(state, state->snapshot_part);
		if (group < 0)
		{
			sx_log_complete_generation(&state->log, state->snapshot_part,
									   state->committed.batch);
			state->snapshot_part = SX_NO_PART;
			SX_CRASH_POINT("merge");
			continue;
		}
		CHECK_FOR_INTERRUPTS();
		bytes = sx_snapshot_write(state, group, state->committed.batch);
		generation = sx_log_current(&state->log, state->snapshot_part);
		generation->snapshot_bytes += bytes;
		generation->snapshot_batch[group % SX_GROUPS_IN_PART] = state->committed.batch;
		state->credit -= bytes;
		written += bytes;
	}
	*more = state->credit > 0 &&
		(state->snapshot_part != SX_NO_PART || oldest_part(state) != SX_NO_PART);
}
