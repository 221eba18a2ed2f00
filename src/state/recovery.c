/*
 * recovery.c
 *		Opens the state: trusts the store, or rebuilds from the log.
 *
 *	the store has a mark that the catalog knows:
 *		take over what the mark says
 *		apply the log's batches after it (none after a clean stop)
 *	else:
 *		survey: read every section since each part's last complete generation,
 *			check that none is missing, note each group's newest snapshot
 *		nothing was changed so far; now drop the store's content
 *		for each part, for each band of groups that fits into half the memory:
 *			read again: newest snapshot of each group, then the changes after it
 *			if memory is short: spill all, as one sorted run
 *
 * Bands make the rebuild of a state far larger than memory one sorted write per
 * key, without a read from the store.  What has expired is never loaded: the
 * newest section carries each operator's last watermark, and a record of an
 * earlier batch with an expiry not after it is skipped.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "state/log_survey.h"
#include "state/state.h"

#define ENTRY_OVERHEAD		48	/* an entry in memory against its record in the log */

/* ---------- the log's end ---------- */

static void
take_end(SxState *state, SxSurvey *survey)
{
	int			i;

	if (!survey->has_newest)
		return;
	for (i = 0; i < SX_LOG_PARTS; i++)
		state->committed.last_section[i] =
			(survey->newest.written & (1 << i)) != 0 ? survey->newest.batch :
			survey->newest.previous[i];
	for (i = 0; i < survey->newest.nexpiries; i++)
	{
		SxLogExpiry *expiry = &survey->newest.expiries[i];
		SxTierOperator *op = sx_tier_operator(&state->tier, expiry->op);
		SxExpiryMark *mark = &state->committed.expiries[op - state->tier.operators];

		mark->set = true;
		mark->watermark = expiry->watermark;
		mark->batch = expiry->batch;
	}
}

static void
survey_log(SxState *state, SxSurvey *survey, SxSectionReader *reader, int64 batch)
{
	int			i;

	sx_survey_log(survey, &state->log, reader, SX_LOG_END, SX_LOG_END);
	for (i = 0; i < SX_LOG_PARTS; i++)
		if (sx_log_current(&state->log, i)->complete_batch == SX_INCOMPLETE)
			state->snapshot_part = i;
	sx_survey_check_end(survey, reader, batch);
	take_end(state, survey);
}

/* ---------- applying ---------- */

/* Will a later expiry have dropped it? */
static inline bool
has_expired(SxState *state, SxTierOperator *op, int64 expiry, int64 batch)
{
	SxExpiryMark *mark = &state->committed.expiries[op - state->tier.operators];

	return mark->set && expiry <= mark->watermark && batch < mark->batch;
}

static void
check_hash(SxState *state, SxTierOperator *op, const SxLogRecord *record)
{
	if (op->def.equal != NULL && !record->has_hash)
		ereport(ERROR,
				(errcode(ERRCODE_SX_STATE_SCHEMA),
				 errmsg("state of query %lld does not fit its new definition",
						(long long) state->query_id),
				 errdetail("Keys of operator %u were equal if their bytes were, and are compared by their type now.",
						   op->def.id),
				 errhint("Restore the old expression, or start the query with a new checkpoint.")));
}

/* During a rebuild: the cell is in memory or nowhere. */
static void
apply_record(SxState *state, const SxLogRecord *record)
{
	SxTier	   *tier = &state->tier;
	const SxStateKey *key = &record->key;
	SxTierOperator *op = sx_tier_operator(tier, key->op);
	uint32		tag = sx_tier_tag(key->op, key->expiry, key->hash);
	SxRef		mate;
	SxRef		ref = sx_tier_find(tier, op, key, tag, &mate);

	if (record->removed)
	{
		if (ref != SX_REF_NONE)
		{
			sx_tier_drop(tier, ref);
			op->rows--;
		}
		return;
	}
	if (ref == SX_REF_NONE)
	{
		ref = sx_tier_create(tier, op, key, tag, record->value.len);
		op->typical_vlen = record->value.len;
		op->rows++;
	}
	sx_tier_load(tier, ref, record->value.bytes, record->value.len);
	sx_tier_entry(tier, ref)->flags |= SX_ENTRY_DIRTY;
}

static void
apply_section(SxState *state, SxSectionReader *reader, SxSectionHeader *header,
			  const char *bytes, Size len, const bool *wanted)
{
	const char *why = NULL;
	SxLogRecord record;

	if (!sx_section_open(reader, header, bytes, len, &why))
		sx_survey_damaged(&state->log, header, why);
	while (sx_section_next(reader, wanted, &record, &why))
	{
		SxTierOperator *op = sx_tier_operator(&state->tier, record.key.op);

		if (has_expired(state, op, record.key.expiry, header->batch))
			continue;
		check_hash(state, op, &record);
		record.key.hash = sx_tier_hash(&state->tier, op, &record.key);
		apply_record(state, &record);
	}
	if (why != NULL)
		sx_survey_damaged(&state->log, header, why);
}

/* Loads the groups [from, to) of one part. */
static void
load_band(SxState *state, SxSurvey *survey, SxSectionReader *reader, int part,
		  int from, int to)
{
	SxLogPart  *p = &state->log.parts[part];
	bool		wanted[SX_KEY_GROUPS] = {false};
	MemoryContext section_context = AllocSetContextCreate(CurrentMemoryContext,
														  "streamx state section",
														  ALLOCSET_DEFAULT_SIZES);
	int			number = 0;
	int			group;
	int			i;

	for (group = from; group < to; group++)
		wanted[group] = survey->snapshot_at[group] < 0;
	for (i = survey->base[part]; i < p->ngenerations; i++)
	{
		SxLogScan  *scan = sx_log_scan_begin(&state->log, part, i);
		SxSectionHeader header;
		const char *bytes;
		Size		len;

		while (sx_log_scan_next(scan, &header, &bytes, &len))
		{
			MemoryContext oldcontext;
			int			at = number++;

			CHECK_FOR_INTERRUPTS();
			if (header.kind == SX_SECTION_SNAPSHOT)
			{
				if (header.group < from || header.group >= to ||
					survey->snapshot_at[header.group] != at)
					continue;
				wanted[header.group] = true;
			}
			oldcontext = MemoryContextSwitchTo(section_context);
			apply_section(state, reader, &header, bytes, len, wanted);
			MemoryContextSwitchTo(oldcontext);
			MemoryContextReset(section_context);
		}
		sx_log_scan_end(scan);
	}
	MemoryContextDelete(section_context);
}

static void
rebuild(SxState *state, SxSurvey *survey, SxSectionReader *reader)
{
	Size		half = state->memory / 2;
	int			part;

	for (part = 0; part < SX_LOG_PARTS; part++)
	{
		int			end = (part + 1) * SX_GROUPS_IN_PART;
		int			from = part * SX_GROUPS_IN_PART;

		while (from < end)
		{
			Size		size = 0;
			int			to = from;

			while (to < end &&
				   (to == from ||
					size + survey->sizes[to].bytes + survey->sizes[to].records * ENTRY_OVERHEAD <= half))
			{
				size += survey->sizes[to].bytes + survey->sizes[to].records * ENTRY_OVERHEAD;
				to++;
			}
			if (size > 0)
			{
				/* make room first: what is loaded last stays in memory */
				if (sx_tier_bytes(&state->tier) > half / 2 &&
					sx_tier_bytes(&state->tier) + size > sx_state_tier_limit(state))
					sx_state_spill(state, 0);
				load_band(state, survey, reader, part, from, to);
			}
			from = to;
		}
		SX_CRASH_POINT("rebuild");
	}
}

/* ---------- trusting the store ---------- */

/* Batches after the mark, on top of what the store holds: as if put by operators. */
static void
replay_section(SxState *state, SxSectionReader *reader, SxSectionHeader *header,
			   const char *bytes, Size len)
{
	bool		wanted[SX_KEY_GROUPS];
	const char *why = NULL;
	SxLogRecord record;

	memset(wanted, true, sizeof(wanted));
	if (!sx_section_open(reader, header, bytes, len, &why))
		sx_survey_damaged(&state->log, header, why);
	while (sx_section_next(reader, wanted, &record, &why))
	{
		SxTierOperator *op = sx_tier_operator(&state->tier, record.key.op);

		if (has_expired(state, op, record.key.expiry, header->batch))
			continue;
		check_hash(state, op, &record);
		if (record.removed)
			sx_state_remove(state, &record.key);
		else
			sx_state_put(state, &record.key, record.value.bytes, record.value.len);
	}
	if (why != NULL)
		sx_survey_damaged(&state->log, header, why);
}

static void
replay_part(SxState *state, SxSurvey *survey, SxSectionReader *reader, int part, int64 after)
{
	int			i;

	for (i = survey->base[part]; i < state->log.parts[part].ngenerations; i++)
	{
		SxLogScan  *scan = sx_log_scan_begin(&state->log, part, i);
		SxSectionHeader header;
		const char *bytes;
		Size		len;

		while (sx_log_scan_next(scan, &header, &bytes, &len))
			if (header.kind == SX_SECTION_CHANGES && header.batch > after)
				replay_section(state, reader, &header, bytes, len);
		sx_log_scan_end(scan);
	}
}

/* Does the log still have every change after the batch, key by key? */
static bool
log_reaches_back(SxState *state, SxSurvey *survey, int64 batch)
{
	int			part;

	if (survey->last_whole_groups > batch)
		return false;
	for (part = 0; part < SX_LOG_PARTS; part++)
		if (state->log.parts[part].generations[survey->base[part]].first_batch > batch + 1)
			return false;
	return true;
}

static void
replay(SxState *state, SxSurvey *survey, SxSectionReader *reader, int64 after)
{
	SxTier	   *tier = &state->tier;
	int			i;

	/* expiries of those batches come first: records of before them are skipped */
	for (i = 0; i < tier->noperators; i++)
	{
		SxExpiryMark *mark = &state->committed.expiries[i];
		SxTierOperator *op = &tier->operators[i];
		int64		cut = 0;
		int64		low;

		if (!mark->set || mark->batch <= after)
			continue;
		if (sx_cold_cuts(&op->cold, mark->watermark, &low))
			cut = sx_state_count_cold(state, op, low, mark->watermark);
		op->rows -= sx_cold_expire(&op->cold, mark->watermark, cut);
	}
	for (i = 0; i < SX_LOG_PARTS; i++)
		replay_part(state, survey, reader, i, after);
	for (i = 0; i < (int) tier->nchanges; i++)
		sx_tier_entry(tier, tier->changes[i])->flags &= ~SX_ENTRY_CHANGED;
	sx_tier_commit(tier);
}

/* ---------- both ---------- */

void
sx_state_recover(SxState *state, int64 batch, const pg_uuid_t *lineage)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "streamx state recovery",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	SxSectionReader *reader = sx_section_reader_create(context);
	SxSurvey   *survey = palloc(sizeof(SxSurvey));
	bool		trusted = sx_store_mark_read(state);
	int64		marked = state->committed.batch;

	if (!trusted || marked != batch)
	{
		survey_log(state, survey, reader, batch);
		if (trusted && !log_reaches_back(state, survey, marked))
			trusted = false;
		if (trusted)
			replay(state, survey, reader, marked);
		else
		{
			const SxStoreRoutine *routine = state->store->routine;

			sx_tier_clear(&state->tier);
			routine->clear(state->store);
			state->store_in_use = false;
			state->store_marked = false;
			if (routine->load_begin != NULL)
				routine->load_begin(state->store);
			rebuild(state, survey, reader);
			if (routine->load_end != NULL)
				routine->load_end(state->store);
		}
	}
	state->committed.batch = batch;
	state->committed.lineage = *lineage;
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
}
