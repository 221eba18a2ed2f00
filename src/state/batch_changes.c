/*
 * batch_changes.c
 *		What a batch changed, in order and written to the log.
 *
 *	bring the changed entries into the order of (group, operator, expiry)
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
	int64		expiry;
	SxRef		ref;
	uint16		op;				/* index */
	uint16		group;
} Change;

static inline int
compare_changes(const Change *a, const Change *b)
{
	return a->expiry < b->expiry ? -1 : a->expiry > b->expiry;
}

#define ST_SORT sort_changes
#define ST_ELEMENT_TYPE Change
#define ST_COMPARE(a, b) compare_changes(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* Takes the list of changes from the tier. Entries that have expired since need no record. */
static uint32
list_changes(SxTier *tier, Change *list)
{
	uint32		n = 0;

	for (uint32 i = 0; i < tier->nchanges; i++)
	{
		SxRef		ref = tier->changes[i];
		SxEntry    *entry = sx_tier_entry(tier, ref);
		SxBucket   *bucket = sx_tier_bucket(tier, entry);

		if (i + 8 < tier->nchanges)
			__builtin_prefetch(sx_tier_entry(tier, tier->changes[i + 8]));
		entry->flags &= ~SX_ENTRY_CHANGED;
		if (bucket->expired)
			continue;
		list[n].expiry = sx_entry_expiry(entry, bucket);
		list[n].ref = ref;
		list[n].op = bucket->op - tier->operators;
		list[n].group = entry->group;
		n++;
	}
	tier->nchanges = 0;
	return n;
}

/*
 * The changes by group, operator and expiry: a record that has those of the one
 * before it does without them.  Fine expiries differ anyway. Changes of group g
 * are [starts[g], starts[g + 1]).
 */
static Change *
collect_changes(SxTier *tier, uint32 *starts)
{
	Size		room = (Size) (tier->nchanges + 1) * sizeof(Change);
	Change	   *list = MemoryContextAllocHuge(CurrentMemoryContext, room);
	Change	   *ordered = MemoryContextAllocHuge(CurrentMemoryContext, room);
	int			nruns = SX_KEY_GROUPS * tier->noperators;
	uint32	   *runs = palloc0((nruns + 1) * sizeof(uint32));
	uint32	   *at = palloc((nruns + 1) * sizeof(uint32));
	uint32		n = list_changes(tier, list);

	for (uint32 i = 0; i < n; i++)
		runs[list[i].group * tier->noperators + list[i].op + 1]++;
	for (int i = 0; i < nruns; i++)
		runs[i + 1] += runs[i];
	memcpy(at, runs, (nruns + 1) * sizeof(uint32));
	for (uint32 i = 0; i < n; i++)
		ordered[at[list[i].group * tier->noperators + list[i].op]++] = list[i];
	pfree(list);
	for (int i = 0; i < nruns; i++)
		if (runs[i + 1] - runs[i] > 1 && !tier->operators[i % tier->noperators].def.fine)
			sort_changes(ordered + runs[i], runs[i + 1] - runs[i]);
	for (int i = 0; i <= SX_KEY_GROUPS; i++)
		starts[i] = runs[i * tier->noperators];
	pfree(at);
	pfree(runs);
	return ordered;
}

static void
add_change(SxState *state, const Change *change)
{
	SxEntry    *entry = sx_tier_entry(&state->tier, change->ref);
	const SxStateOperator *op = &state->tier.operators[change->op].def;
	SxLogRecord record;

	record.has_hash = op->equal != NULL;
	record.key.op = op->id;
	record.key.group = change->group;
	record.key.hash = entry->hash;
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
