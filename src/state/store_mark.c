/*
 * store_mark.c
 *		The mark that lets the next open believe a store.
 *
 * Written at a clean close, when the store holds everything up to a batch;
 * removed, durably, before the store changes again.  Bytes of the machine's
 * order, version 1:
 *
 *	version u32, incarnation, batch i64, lineage
 *	last section i64 * SX_LOG_PARTS
 *	per part: number of its current generation i64, its change and snapshot bytes
 *		i64 * 2, batch of each group's snapshot in it i64 * SX_GROUPS_IN_PART
 *	operators u32, each: id u32, rows i64, last expiry (set u32, watermark i64,
 *		batch i64), cold ranges u32, each: low, high, count i64, filter given up
 *		u32, segments u32, each: blocks u64, cells u64, last expiry i64, the blocks
 *	CRC-32C u32
 *
 * Anything unexpected makes it no mark at all; then the store is rebuilt.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "port/pg_crc32c.h"

#include "state/state.h"

#define MARK_VERSION	1
#define FILTER_MAX		(32 * 1024 * 1024)	/* of one operator */

static void
put(StringInfo mark, const void *bytes, Size len)
{
	appendBinaryStringInfo(mark, (const char *) bytes, len);
}

static void
put_u32(StringInfo mark, uint32 value)
{
	put(mark, &value, sizeof(value));
}

static void
put_i64(StringInfo mark, int64 value)
{
	put(mark, &value, sizeof(value));
}

static bool
count_as_cold(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	SxTierOperator *op = arg;

	sx_cold_add(&op->cold, key->expiry, key->expiry, 1);
	return true;
}

static void
put_filter(StringInfo mark, const SxColdFilter *filter)
{
	/* what doesn't fit beside the rest can be done without */
	bool		given_up = filter->given_up || filter->bytes > FILTER_MAX;
	int			i;

	put_u32(mark, given_up);
	put_u32(mark, given_up ? 0 : filter->nsegments);
	for (i = 0; i < filter->nsegments && !given_up; i++)
	{
		const SxFilterSegment *segment = &filter->segments[i];

		put_i64(mark, segment->nblocks);
		put_i64(mark, segment->cells);
		put_i64(mark, segment->max_expiry);
		put(mark, segment->blocks, segment->nblocks * SX_FILTER_BLOCK);
	}
}

static void
put_operator(StringInfo mark, SxState *state, int at)
{
	SxTierOperator *op = &state->tier.operators[at];
	SxExpiryMark *expiry = &state->committed.expiries[at];

	/* at the next open every key is cold */
	sx_tier_scan(&state->tier, op, SX_STATE_NEVER, count_as_cold, op);
	put_u32(mark, op->def.id);
	put_i64(mark, op->rows);
	put_u32(mark, expiry->set);
	put_i64(mark, expiry->watermark);
	put_i64(mark, expiry->batch);
	put_u32(mark, op->cold.nranges);
	put(mark, op->cold.ranges, op->cold.nranges * sizeof(SxColdRange));
	put_filter(mark, &op->filter);
}

void
sx_store_mark_write(SxState *state)
{
	StringInfoData mark;
	pg_crc32c	crc;
	int			i;

	initStringInfo(&mark);
	put_u32(&mark, MARK_VERSION);
	put(&mark, &state->incarnation, sizeof(pg_uuid_t));
	put_i64(&mark, state->committed.batch);
	put(&mark, &state->committed.lineage, sizeof(pg_uuid_t));
	put(&mark, state->committed.last_section, sizeof(state->committed.last_section));
	for (i = 0; i < SX_LOG_PARTS; i++)
	{
		SxGeneration *current = sx_log_current(&state->log, i);

		put_i64(&mark, current->number);
		put_i64(&mark, current->change_bytes);
		put_i64(&mark, current->snapshot_bytes);
		put(&mark, current->snapshot_batch, sizeof(current->snapshot_batch));
	}
	put_u32(&mark, state->tier.noperators);
	for (i = 0; i < state->tier.noperators; i++)
		put_operator(&mark, state, i);
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, mark.data, mark.len);
	FIN_CRC32C(crc);
	put(&mark, &crc, sizeof(crc));
	state->store->routine->set_mark(state->store, mark.data, mark.len);
	state->store_marked = true;
	pfree(mark.data);
}

/* ---------- reading ---------- */

typedef struct MarkReader
{
	const char *at;
	const char *end;
	bool		ok;
} MarkReader;

static void
get(MarkReader *reader, void *to, Size len)
{
	if (!reader->ok || (Size) (reader->end - reader->at) < len)
	{
		reader->ok = false;
		memset(to, 0, len);
		return;
	}
	memcpy(to, reader->at, len);
	reader->at += len;
}

static uint32
get_u32(MarkReader *reader)
{
	uint32		value;

	get(reader, &value, sizeof(value));
	return value;
}

static int64
get_i64(MarkReader *reader)
{
	int64		value;

	get(reader, &value, sizeof(value));
	return value;
}

static bool
has_right_crc(const char *bytes, Size len)
{
	pg_crc32c	crc;
	pg_crc32c	stored;

	if (len < sizeof(stored))
		return false;
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, bytes, len - sizeof(stored));
	FIN_CRC32C(crc);
	memcpy(&stored, bytes + len - sizeof(stored), sizeof(stored));
	return EQ_CRC32C(crc, stored);
}

/* A generation that isn't the current one any more: its batches are replayed. */
static void
read_generation(MarkReader *reader, SxState *state, int part)
{
	SxGeneration *current = sx_log_current(&state->log, part);
	SxGeneration was = *current;

	was.number = get_i64(reader);
	was.change_bytes = get_i64(reader);
	was.pending_bytes = was.change_bytes;
	was.snapshot_bytes = get_i64(reader);
	get(reader, was.snapshot_batch, sizeof(was.snapshot_batch));
	if (reader->ok && was.number == current->number)
		*current = was;
	if (current->complete_batch == SX_INCOMPLETE)
		state->snapshot_part = part;
}

static void
read_filter(MarkReader *reader, SxColdFilter *filter)
{
	bool		given_up = get_u32(reader) != 0;
	uint32		n = get_u32(reader);
	uint32		i;

	if (given_up)
		sx_cold_filter_give_up(filter);
	for (i = 0; i < n && reader->ok; i++)
	{
		uint64		nblocks = (uint64) get_i64(reader);
		uint64		cells = (uint64) get_i64(reader);
		int64		max_expiry = get_i64(reader);
		SxFilterSegment *segment;

		if ((uint64) (reader->end - reader->at) / SX_FILTER_BLOCK < nblocks)
			reader->ok = false;
		if (!reader->ok)
			return;
		/* less memory than before: then without the filter */
		segment = filter->given_up ? NULL : sx_cold_filter_add_segment(filter, nblocks);
		if (segment == NULL)
		{
			reader->at += nblocks * SX_FILTER_BLOCK;
			continue;
		}
		get(reader, segment->blocks, nblocks * SX_FILTER_BLOCK);
		segment->cells = cells;
		segment->max_expiry = max_expiry;
	}
}

static void
read_operator(MarkReader *reader, SxState *state)
{
	uint32		id = get_u32(reader);
	SxTierOperator *op;
	SxExpiryMark *expiry;
	uint32		nranges;
	uint32		i;

	if (!reader->ok || id > state->tier.max_id || state->tier.by_id[id] == 0)
	{
		reader->ok = false;
		return;
	}
	op = sx_tier_operator(&state->tier, id);
	expiry = &state->committed.expiries[op - state->tier.operators];
	op->rows = get_i64(reader);
	expiry->set = get_u32(reader) != 0;
	expiry->watermark = get_i64(reader);
	expiry->batch = get_i64(reader);
	nranges = get_u32(reader);
	for (i = 0; i < nranges && reader->ok; i++)
	{
		SxColdRange range;

		get(reader, &range, sizeof(range));
		if (reader->ok)
			sx_cold_add(&op->cold, range.low, range.high, range.count);
	}
	read_filter(reader, &op->filter);
}

/*
 * Takes over what the mark says; false, with everything as before, if there is
 * no mark, or none of this history.
 */
bool
sx_store_mark_read(SxState *state)
{
	Size		len;
	char	   *bytes = state->store->routine->get_mark(state->store, &len);
	MarkReader	reader = {bytes, bytes + len, true};
	pg_uuid_t	incarnation;
	pg_uuid_t	lineage;
	int64		batch;
	uint32		n;
	int			i;

	if (bytes == NULL || !has_right_crc(bytes, len))
		return false;
	reader.end -= sizeof(pg_crc32c);
	if (get_u32(&reader) != MARK_VERSION)
		return false;
	get(&reader, &incarnation, sizeof(incarnation));
	batch = get_i64(&reader);
	get(&reader, &lineage, sizeof(lineage));
	if (!reader.ok || batch > state->committed.batch ||
		memcmp(&incarnation, &state->incarnation, sizeof(incarnation)) != 0 ||
		state->batch_exists == NULL ||
		!state->batch_exists(state->query_id, &incarnation, batch, &lineage))
		return false;

	get(&reader, state->committed.last_section, sizeof(state->committed.last_section));
	for (i = 0; i < SX_LOG_PARTS; i++)
		read_generation(&reader, state, i);
	n = get_u32(&reader);
	reader.ok = reader.ok && n == (uint32) state->tier.noperators;
	for (i = 0; i < (int) n && reader.ok; i++)
		read_operator(&reader, state);
	if (!reader.ok)
	{
		sx_tier_clear(&state->tier);
		memset(state->committed.expiries, 0, state->tier.noperators * sizeof(SxExpiryMark));
		return false;
	}
	state->committed.batch = batch;
	state->store_in_use = true;
	state->store_marked = true;
	return true;
}
