/*
 * batch_changes.c
 *		What a batch changed, sorted and written to the log.
 *
 *	sort the changed entries by (group, operator, expiry, hash)
 *	for each part of the key groups that has any:
 *		a section, into the part's current table
 *	none: an empty section, so that the log's last batch is known
 *
 * Without "changelog" the section is empty and a snapshot of every touched key
 * group follows it.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "state/state.h"

typedef struct Change
{
	uint64		hash;
	int64		expiry;
	SxRef		ref;
	uint16		op;
	uint16		group;
} Change;

static inline int
compare_changes(const Change *a, const Change *b)
{
	if (a->op != b->op)
		return a->op < b->op ? -1 : 1;
	if (a->expiry != b->expiry)
		return a->expiry < b->expiry ? -1 : 1;
	if (a->hash != b->hash)
		return a->hash < b->hash ? -1 : 1;
	return 0;
}

#define ST_SORT sort_changes
#define ST_ELEMENT_TYPE Change
#define ST_COMPARE(a, b) compare_changes(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/*
 * Takes the list of changes from the tier, by group: changes of group g are
 * [starts[g], starts[g + 1]).  Entries that have expired since need no record.
 */
static Change *
collect_changes(SxTier *tier, uint32 *starts)
{
	Change	   *all = MemoryContextAllocHuge(CurrentMemoryContext,
											 (Size) (tier->nchanges + 1) * sizeof(Change));
	Change	   *sorted = MemoryContextAllocHuge(CurrentMemoryContext,
												(Size) (tier->nchanges + 1) * sizeof(Change));
	uint32		at[SX_KEY_GROUPS + 1];
	uint32		n = 0;
	uint32		i;

	memset(starts, 0, (SX_KEY_GROUPS + 1) * sizeof(uint32));
	for (i = 0; i < tier->nchanges; i++)
	{
		SxRef		ref = tier->changes[i];
		SxEntry    *entry = sx_tier_entry(tier, ref);
		SxBucket   *bucket = sx_tier_bucket(tier, entry);

		if (i + 8 < tier->nchanges)
			__builtin_prefetch(sx_tier_entry(tier, tier->changes[i + 8]));
		entry->flags &= ~SX_ENTRY_CHANGED;
		if (bucket->expired)
			continue;
		all[n].hash = entry->hash;
		all[n].expiry = sx_entry_expiry(entry, bucket);
		all[n].ref = ref;
		all[n].op = bucket->op->def.id;
		all[n].group = entry->group;
		n++;
		starts[entry->group + 1]++;
	}
	tier->nchanges = 0;
	for (i = 0; i < SX_KEY_GROUPS; i++)
		starts[i + 1] += starts[i];
	memcpy(at, starts, sizeof(at));
	for (i = 0; i < n; i++)
		sorted[at[all[i].group]++] = all[i];
	pfree(all);
	for (i = 0; i < SX_KEY_GROUPS; i++)
		if (starts[i + 1] - starts[i] > 1)
			sort_changes(sorted + starts[i], starts[i + 1] - starts[i]);
	return sorted;
}

static void
add_change(SxState *state, const Change *change)
{
	SxEntry    *entry = sx_tier_entry(&state->tier, change->ref);
	SxLogRecord record;

	record.has_hash = sx_tier_operator(&state->tier, change->op)->def.equal != NULL;
	record.key.op = change->op;
	record.key.group = change->group;
	record.key.hash = change->hash;
	record.key.expiry = change->expiry;
	record.key.bytes = sx_entry_key(entry);
	record.key.len = entry->klen;
	record.removed = (entry->flags & SX_ENTRY_DEAD) != 0;
	record.value.bytes = sx_entry_value(entry);
	record.value.len = entry->vlen;
	sx_section_add(state->writer, &record);
}

/* Which parts get a section: those with changes, the first one if none has any. */
static uint32
parts_to_write(const SxState *state, const uint32 *starts)
{
	uint32		parts = 0;
	int			part;

	for (part = 0; part < SX_LOG_PARTS && state->changelog; part++)
		if (starts[part * SX_GROUPS_IN_PART] < starts[(part + 1) * SX_GROUPS_IN_PART])
			parts |= 1 << part;
	return parts == 0 ? 1 : parts;
}

/* The header of the batch's sections; the same for every part. */
static void
fill_header(SxState *state, SxSectionHeader *header, int64 batch, uint32 written)
{
	int			i;

	memset(header, 0, sizeof(*header));
	header->kind = SX_SECTION_CHANGES;
	header->batch = batch;
	header->written = written;
	header->whole_groups = !state->changelog;
	memcpy(header->previous, state->pending.last_section, sizeof(header->previous));
	header->expiries = palloc((state->tier.noperators + 1) * sizeof(SxLogExpiry));
	for (i = 0; i < state->tier.noperators; i++)
	{
		SxExpiryMark *mark = &state->pending.expiries[i];
		SxLogExpiry *expiry;

		if (!mark->set)
			continue;
		expiry = &header->expiries[header->nexpiries++];
		expiry->op = state->tier.operators[i].def.id;
		expiry->watermark = mark->watermark;
		expiry->batch = mark->batch;
	}
}

static int64
write_section(SxState *state, SxSectionHeader *header, int part,
			  const Change *changes, uint32 n)
{
	int64		bytes;
	uint32		i;

	header->part = part;
	sx_log_append_begin(state->appender, header);
	sx_section_begin(state->writer, header, sx_log_append, state->appender);
	for (i = 0; i < n; i++)
	{
		if (i + 4 < n)
			__builtin_prefetch(sx_tier_entry(&state->tier, changes[i + 4].ref));
		add_change(state, &changes[i]);
	}
	sx_section_end(state->writer);
	bytes = sx_log_append_end(state->appender);
	state->pending.last_section[part] = header->batch;
	sx_log_current(&state->log, part)->pending_bytes += bytes;
	if (n >= 100)
		state->record_bytes += (bytes / (double) n - state->record_bytes) / 8;
	return bytes;
}

static int64
write_touched_groups(SxState *state, int64 batch, const uint32 *starts)
{
	int64		total = 0;
	int			group;

	for (group = 0; group < SX_KEY_GROUPS; group++)
	{
		int64		bytes;

		if (starts[group] == starts[group + 1])
			continue;
		bytes = sx_snapshot_write(state, group, batch);
		sx_log_current(&state->log, sx_part_of(group))->pending_bytes += bytes;
		state->snapshot_pending[group] = true;
		total += bytes;
	}
	return total;
}

int64
sx_changes_write(SxState *state, int64 batch)
{
	uint32		starts[SX_KEY_GROUPS + 1];
	Change	   *changes = collect_changes(&state->tier, starts);
	SxSectionHeader header;
	int64		bytes = 0;
	int			part;

	fill_header(state, &header, batch, parts_to_write(state, starts));
	for (part = 0; part < SX_LOG_PARTS; part++)
	{
		uint32		from = starts[part * SX_GROUPS_IN_PART];
		uint32		to = starts[(part + 1) * SX_GROUPS_IN_PART];

		if (header.written & (1 << part))
			bytes += write_section(state, &header, part, changes + from,
								   state->changelog ? to - from : 0);
	}
	if (!state->changelog)
		bytes += write_touched_groups(state, batch, starts);
	pfree(header.expiries);
	pfree(changes);
	return bytes;
}
