/*
 * state_reader.c
 *		See state_reader.h.
 *
 *	survey the log up to the batch (log_survey.c)
 *	for each part, for each section from its base on:
 *		records of the operator, from each group's newest snapshot on, go into a
 *		sort by group, expiry, hash and their order in the log
 *	for each run of records of one group, expiry and hash:
 *		play them: a few keys that live or don't
 *
 * Sorting keeps the log's one pass and bounded memory whatever the state's size; a
 * hash table per key group would have to read the log once per band of groups.
 *
 * Expiry is a mark in the log (operator, watermark, batch): keys of earlier
 * batches with an expiry not after it are gone.  For the state alone the last
 * mark decides, and what it has dropped is never sorted; for changes each mark
 * counts in its batch, before the batch's own records.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "base/errors.h"
#include "state/key_hash.h"
#include "state/log_survey.h"
#include "state/state_reader.h"

/* What is sorted; the first four are the order. */
enum
{
	COLUMN_GROUP,
	COLUMN_EXPIRY,
	COLUMN_HASH,
	COLUMN_NUMBER,
	COLUMN_BATCH,
	COLUMN_KEY,
	COLUMN_VALUE,				/* NULL: removed */
	COLUMNS
};

#define SORT_COLUMNS	4

typedef struct Mark
{
	int64		watermark;
	int64		batch;
} Mark;

typedef struct Reading
{
	const SxStateRead *read;
	SxLog		log;
	SxSurvey	survey;
	SxSectionReader *section;
	MemoryContext context;		/* of this struct */

	/* expiries of the operator, by batch */
	Mark	   *marks;
	int			nmarks;
	int			marks_allocated;

	TupleDesc	desc;
	TupleTableSlot *slot;
	Tuplesortstate *sort;
	int64		number;			/* of the next record */
} Reading;

/* A key of the run that is being played, dead or alive. */
typedef struct Living
{
	SxStateKey	key;
	SxStateValue value;			/* bytes NULL: dead */
	int64		batch;			/* of the value */
	struct Living *next;
} Living;

/* ---------- marks ---------- */

static void
add_mark(Reading *reading, int64 watermark, int64 batch)
{
	int			at;

	for (at = reading->nmarks; at > 0 && reading->marks[at - 1].batch >= batch; at--)
		if (reading->marks[at - 1].batch == batch)
			return;
	if (reading->nmarks == reading->marks_allocated)
	{
		reading->marks_allocated = Max(16, 2 * reading->marks_allocated);
		reading->marks = reading->marks == NULL ?
			MemoryContextAlloc(reading->context, reading->marks_allocated * sizeof(Mark)) :
			repalloc(reading->marks, reading->marks_allocated * sizeof(Mark));
	}
	memmove(reading->marks + at + 1, reading->marks + at,
			(reading->nmarks - at) * sizeof(Mark));
	reading->marks[at].watermark = watermark;
	reading->marks[at].batch = batch;
	reading->nmarks++;
}

static void
add_marks(Reading *reading, const SxSectionHeader *header)
{
	int			i;

	for (i = 0; i < header->nexpiries; i++)
		if (header->expiries[i].op == reading->read->op.id)
			add_mark(reading, header->expiries[i].watermark, header->expiries[i].batch);
}

/* The first mark after a batch, up to another, that drops such a key; NULL: none. */
static const Mark *
dropping_mark(const Reading *reading, int64 expiry, int64 after, int64 upto)
{
	int			low = 0;
	int			high = reading->nmarks;
	int			i;

	if (expiry == SX_STATE_NEVER)
		return NULL;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (reading->marks[middle].batch > after)
			high = middle;
		else
			low = middle + 1;
	}
	for (i = low; i < reading->nmarks && reading->marks[i].batch <= upto; i++)
		if (reading->marks[i].watermark >= expiry)
			return &reading->marks[i];
	return NULL;
}

static inline bool
wants_changes(const Reading *reading)
{
	return reading->read->changes_from >= 0;
}

/* ---------- from the log into the sort ---------- */

static void
begin_sort(Reading *reading)
{
	AttrNumber	columns[SORT_COLUMNS];
	Oid			operators[SORT_COLUMNS];
	Oid			collations[SORT_COLUMNS] = {InvalidOid};
	bool		nulls_first[SORT_COLUMNS] = {false};
	int			i;

	reading->desc = CreateTemplateTupleDesc(COLUMNS);
	for (i = 0; i < COLUMNS; i++)
		TupleDescInitEntry(reading->desc, i + 1, NULL,
						   i < COLUMN_KEY ? INT8OID : BYTEAOID, -1, 0);
	for (i = 0; i < SORT_COLUMNS; i++)
	{
		columns[i] = i + 1;
		operators[i] = Int8LessOperator;
	}
	reading->slot = MakeSingleTupleTableSlot(reading->desc, &TTSOpsMinimalTuple);
	reading->sort = tuplesort_begin_heap(reading->desc, SORT_COLUMNS, columns, operators,
										 collations, nulls_first, work_mem, NULL,
										 TUPLESORT_NONE);
}

static void
sort_record(Reading *reading, TupleTableSlot *slot, const SxLogRecord *record, int64 batch)
{
	const SxStateKey *key = &record->key;
	uint64		hash = record->has_hash ? key->hash : sx_key_hash(key->bytes, key->len, 0);

	ExecClearTuple(slot);
	memset(slot->tts_isnull, 0, COLUMNS * sizeof(bool));
	slot->tts_values[COLUMN_GROUP] = Int64GetDatum(key->group);
	slot->tts_values[COLUMN_EXPIRY] = Int64GetDatum(key->expiry);
	slot->tts_values[COLUMN_HASH] = Int64GetDatum((int64) hash);
	slot->tts_values[COLUMN_NUMBER] = Int64GetDatum(reading->number++);
	slot->tts_values[COLUMN_BATCH] = Int64GetDatum(batch);
	slot->tts_values[COLUMN_KEY] =
		PointerGetDatum(cstring_to_text_with_len(key->bytes, key->len));
	slot->tts_isnull[COLUMN_VALUE] = record->removed;
	slot->tts_values[COLUMN_VALUE] = record->removed ? (Datum) 0 :
		PointerGetDatum(cstring_to_text_with_len(record->value.bytes, record->value.len));
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(reading->sort, slot);
}

/* Was it gone before anything of it could be shown? */
static bool
is_forgotten(const Reading *reading, int64 expiry, int64 batch)
{
	int64		upto = wants_changes(reading) ? reading->read->changes_from - 1 :
		reading->read->batch;

	return dropping_mark(reading, expiry, batch, upto) != NULL;
}

static void
sort_section(Reading *reading, TupleTableSlot *slot, SxSectionHeader *header,
			 const char *bytes, Size len, const bool *wanted)
{
	const char *why = NULL;
	SxLogRecord record;
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext,
													  "streamx state record",
													  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext;

	if (!sx_section_open(reading->section, header, bytes, len, &why))
		sx_survey_damaged(&reading->log, header, why);
	if (header->kind == SX_SECTION_CHANGES)
		add_marks(reading, header);
	oldcontext = MemoryContextSwitchTo(row_context);
	while (sx_section_next(reading->section, wanted, &record, &why))
	{
		CHECK_FOR_INTERRUPTS();
		if (record.key.op != reading->read->op.id ||
			is_forgotten(reading, record.key.expiry, header->batch))
			continue;
		sort_record(reading, slot, &record, header->batch);
		MemoryContextReset(row_context);
	}
	MemoryContextSwitchTo(oldcontext);
	if (why != NULL)
		sx_survey_damaged(&reading->log, header, why);
	MemoryContextDelete(row_context);
}

/*
 * The operator's marks are in the sections' headers, and later ones decide about
 * earlier records: so they come from a first walk over the sections.
 */
static void
sort_part(Reading *reading, TupleTableSlot *slot, int part, bool marks_only)
{
	const SxStateRead *read = reading->read;
	SxLogPart  *p = &reading->log.parts[part];
	bool		wanted[SX_KEY_GROUPS] = {false};
	MemoryContext section_context = AllocSetContextCreate(CurrentMemoryContext,
														  "streamx state section",
														  ALLOCSET_DEFAULT_SIZES);
	int			number = 0;
	int			i;

	for (i = part * SX_GROUPS_IN_PART; i < (part + 1) * SX_GROUPS_IN_PART; i++)
		wanted[i] = reading->survey.snapshot_at[i] < 0 && (read->group < 0 || read->group == i);
	for (i = reading->survey.base[part]; i < p->ngenerations; i++)
	{
		SxLogScan  *scan = sx_log_scan_begin(&reading->log, part, i);
		SxSectionHeader header;
		const char *bytes;
		Size		len;

		while (sx_log_scan_next(scan, &header, &bytes, &len))
		{
			bool		is_snapshot = header.kind == SX_SECTION_SNAPSHOT;
			int			at = number++;
			MemoryContext oldcontext;

			CHECK_FOR_INTERRUPTS();
			if (header.batch > read->batch || (marks_only && is_snapshot))
				continue;
			if (is_snapshot)
			{
				if (reading->survey.snapshot_at[header.group] != at ||
					(read->group >= 0 && read->group != header.group))
					continue;
				wanted[header.group] = true;
			}
			oldcontext = MemoryContextSwitchTo(section_context);
			if (!marks_only)
				sort_section(reading, slot, &header, bytes, len, wanted);
			else
			{
				const char *why = NULL;

				if (!sx_section_open(reading->section, &header, bytes, len, &why))
					sx_survey_damaged(&reading->log, &header, why);
				add_marks(reading, &header);
			}
			MemoryContextSwitchTo(oldcontext);
			MemoryContextReset(section_context);
		}
		sx_log_scan_end(scan);
	}
	MemoryContextDelete(section_context);
}

static void
sort_log(Reading *reading)
{
	const SxStateRead *read = reading->read;
	TupleTableSlot *slot;
	int			part;

	if (reading->survey.has_newest)
		add_marks(reading, &reading->survey.newest);
	if (wants_changes(reading))
	{
		SxSectionHeader before;

		for (part = 0; part < SX_LOG_PARTS; part++)
			sort_part(reading, NULL, part, true);
		if (sx_survey_find_before(&reading->survey, reading->section,
								  read->changes_from - 1, &before))
			add_marks(reading, &before);
	}
	begin_sort(reading);
	slot = MakeSingleTupleTableSlot(reading->desc, &TTSOpsVirtual);
	for (part = 0; part < SX_LOG_PARTS; part++)
		if (read->group < 0 || sx_part_of(read->group) == part)
			sort_part(reading, slot, part, false);
	ExecDropSingleTupleTableSlot(slot);
	tuplesort_performsort(reading->sort);
}

/* ---------- playing the sorted records ---------- */

typedef struct Play
{
	Reading    *reading;
	SxStateChangeVisit visit;
	void	   *arg;
	MemoryContext run_context;	/* keys and values of the run */
	MemoryContext visit_context;

	/* the run */
	Living	   *living;
	int64		group;
	int64		expiry;
	int64		hash;
} Play;

static void
show(Play *play, int64 batch, const SxStateKey *key, const SxStateValue *value,
	 const SxStateValue *before)
{
	SxStateChange change = {batch, key, value, before};
	MemoryContext oldcontext = MemoryContextSwitchTo(play->visit_context);

	play->visit(play->arg, &change);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(play->visit_context);
}

static const SxStateValue no_value = {NULL, 0};

/* A change that the reader may have asked for. */
static void
show_change(Play *play, int64 batch, const SxStateKey *key, const SxStateValue *value,
			const SxStateValue *before)
{
	if (wants_changes(play->reading) && batch >= play->reading->read->changes_from)
		show(play, batch, key, value, before);
}

/* Drops the key if a watermark did between its last change and the batch. */
static void
expire(Play *play, Living *living, int64 batch)
{
	const Mark *mark;

	if (living->value.bytes == NULL)
		return;
	mark = dropping_mark(play->reading, living->key.expiry, living->batch, batch);
	if (mark == NULL)
		return;
	show_change(play, mark->batch, &living->key, &no_value, &living->value);
	living->value = no_value;
}

/* What is alive at the end of the run is the state. */
static void
end_run(Play *play)
{
	Living	   *living;

	for (living = play->living; living != NULL; living = living->next)
	{
		expire(play, living, play->reading->read->batch);
		if (living->value.bytes != NULL && !wants_changes(play->reading))
			show(play, 0, &living->key, &living->value, &no_value);
	}
	play->living = NULL;
	MemoryContextReset(play->run_context);
}

static bool
same_key(const SxStateOperator *op, const SxStateKey *a, const char *bytes, uint32 len)
{
	if (a->len == len && memcmp(a->bytes, bytes, len) == 0)
		return true;
	return op->equal != NULL && op->equal(op->equal_arg, a->bytes, a->len, bytes, len);
}

static char *
copy_bytes(Play *play, const char *bytes, Size len)
{
	return memcpy(MemoryContextAllocHuge(play->run_context, len + 1), bytes, len);
}

static Living *
find_key(Play *play, const char *bytes, uint32 len)
{
	Living	   *living;

	for (living = play->living; living != NULL; living = living->next)
		if (same_key(&play->reading->read->op, &living->key, bytes, len))
			return living;
	living = MemoryContextAllocZero(play->run_context, sizeof(Living));
	living->key.op = play->reading->read->op.id;
	living->key.group = (uint16) play->group;
	living->key.hash = (uint64) play->hash;
	living->key.expiry = play->expiry;
	living->key.bytes = copy_bytes(play, bytes, len);
	living->key.len = len;
	living->next = play->living;
	play->living = living;
	return living;
}

static void
play_record(Play *play, TupleTableSlot *slot)
{
	int64		batch = DatumGetInt64(slot->tts_values[COLUMN_BATCH]);
	struct varlena *key = (struct varlena *) DatumGetPointer(slot->tts_values[COLUMN_KEY]);
	struct varlena *value = (struct varlena *) DatumGetPointer(slot->tts_values[COLUMN_VALUE]);
	Living	   *living = find_key(play, VARDATA_ANY(key), VARSIZE_ANY_EXHDR(key));
	SxStateValue before;

	expire(play, living, batch);
	before = living->value;
	living->batch = batch;
	if (slot->tts_isnull[COLUMN_VALUE])
	{
		living->value = no_value;
		if (before.bytes != NULL)
			show_change(play, batch, &living->key, &no_value, &before);
	}
	else
	{
		living->value.len = VARSIZE_ANY_EXHDR(value);
		living->value.bytes = copy_bytes(play, VARDATA_ANY(value), living->value.len);
		show_change(play, batch, &living->key, &living->value, &before);
	}
	if (before.bytes != NULL)
		pfree((void *) before.bytes);
}

static void
play_sorted(Reading *reading, SxStateChangeVisit visit, void *arg)
{
	Play		play = {reading, visit, arg};
	bool		first = true;

	play.run_context = AllocSetContextCreate(CurrentMemoryContext, "streamx state keys",
											 ALLOCSET_DEFAULT_SIZES);
	play.visit_context = AllocSetContextCreate(CurrentMemoryContext, "streamx state row",
											   ALLOCSET_DEFAULT_SIZES);
	while (tuplesort_gettupleslot(reading->sort, true, false, reading->slot, NULL))
	{
		TupleTableSlot *slot = reading->slot;
		int64		group;
		int64		expiry;
		int64		hash;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		group = DatumGetInt64(slot->tts_values[COLUMN_GROUP]);
		expiry = DatumGetInt64(slot->tts_values[COLUMN_EXPIRY]);
		hash = DatumGetInt64(slot->tts_values[COLUMN_HASH]);
		if (!first && (group != play.group || expiry != play.expiry || hash != play.hash))
			end_run(&play);
		first = false;
		play.group = group;
		play.expiry = expiry;
		play.hash = hash;
		play_record(&play, slot);
	}
	end_run(&play);
	MemoryContextDelete(play.visit_context);
	MemoryContextDelete(play.run_context);
}

/* ---------- both ---------- */

static void
not_kept(int64 query_id, int64 batch, int64 oldest)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the state of batch " INT64_FORMAT " is not kept any more", batch),
			 oldest < 0 ?
			 errdetail("It was removed while the transaction went on.") :
			 errdetail("The oldest batch whose state can be read is " INT64_FORMAT ".", oldest),
			 errhint("Option batches_to_retain of the query says how many batches are kept.")));
}

static void
check_kept(Reading *reading)
{
	const SxStateRead *read = reading->read;
	int64		oldest = sx_log_oldest_batch(&reading->log);
	int64		base = Min(read->snapshots_until, read->batch);

	if (wants_changes(reading))
		base = Min(base, read->changes_from - 1);
	/* before batch 0 everything is empty */
	if (base < oldest && !(base == -1 && oldest == 0))
		not_kept(read->query_id, wants_changes(reading) ? read->changes_from : base,
				 wants_changes(reading) ? oldest + 1 : oldest);
}

/* Between a snapshot and the batch each change must be in the log. */
static void
check_key_by_key(Reading *reading, int64 base)
{
	if (reading->survey.last_whole_groups <= base || base == reading->read->batch)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("batch " INT64_FORMAT " has no record of its single changes",
					reading->survey.last_whole_groups),
			 errdetail("The query ran with option changelog off: snapshots of the touched key groups were written instead."),
			 errhint("Read the state after the batch, or changes of later batches.")));
}

void
sx_state_read(const SxStateRead *read, SxStateChangeVisit visit, void *arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext,
												  "streamx state reader",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	Reading    *reading = palloc0(sizeof(Reading));
	int64		base = Min(read->snapshots_until, read->batch);

	reading->read = read;
	reading->context = context;
	if (wants_changes(reading))
		base = Min(base, read->changes_from - 1);
	if (!sx_log_open_locked(&reading->log, read->query_id, read->snapshot))
		not_kept(read->query_id, read->batch, -1);
	check_kept(reading);
	reading->section = sx_section_reader_create(context);
	sx_survey_log(&reading->survey, &reading->log, reading->section, base, read->batch);
	sx_survey_check_end(&reading->survey, reading->section, read->batch);
	check_key_by_key(reading, base);
	sort_log(reading);
	play_sorted(reading, visit, arg);
	tuplesort_end(reading->sort);
	ExecDropSingleTupleTableSlot(reading->slot);
	sx_log_unlock(&reading->log);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
}

int64
sx_state_oldest_batch(int64 query_id, struct SnapshotData *snapshot)
{
	SxLog	   *log = palloc(sizeof(SxLog));
	int64		oldest;

	if (!sx_log_open_locked(log, query_id, snapshot))
		not_kept(query_id, 0, -1);
	oldest = sx_log_oldest_batch(log);
	sx_log_unlock(log);
	pfree(log);
	return oldest;
}
