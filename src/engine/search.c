/*
 * search.c
 *		Finds the rows that make a batch fail.
 */
#include "postgres.h"

#include "access/table.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/errors.h"
#include "engine/quarantine.h"
#include "engine/search.h"
#include "registry/quarantine.h"

/* Halving goes on within batches of about so many rows. */
#define SEARCH_ROWS		1000

/* Rows [low, high) of the range, counted through its sources. */
typedef struct RowSpan
{
	int64		low;
	int64		high;

	/*
	 * Both halves of a failed interval are done: if neither had a guilty row,
	 * only several rows together fail, and that is for a person to look at.
	 */
	bool		check;
	int			nguilty_before;
} RowSpan;

typedef struct Guilty
{
	int64		row;
	int			sqlstate;
	char	   *message;
} Guilty;

struct SxSearch
{
	MemoryContext context;
	SxOffset  **starts;			/* by source; NULL: no rows of it */
	SxOffset  **ends;
	bool		active;			/* false: the range is only remembered */
	bool		probing;		/* a probe runs; else the final batch */
	RowSpan	probe;
	List	   *todo;			/* RowSpan *, next one first */
	int64	   *rows;			/* by source, known after the probe of no rows */
	bool		rows_known;
	List	   *guilty;			/* Guilty *, by row */
};

static void
push(SxSearch *search, int64 low, int64 high, bool check)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(search->context);
	RowSpan   *interval = palloc0(sizeof(RowSpan));

	interval->low = low;
	interval->high = high;
	interval->check = check;
	interval->nguilty_before = list_length(search->guilty);
	search->todo = lcons(interval, search->todo);
	MemoryContextSwitchTo(oldcontext);
}

void
sx_search_remember(SxEngine *engine, const SxBatch *batch)
{
	MemoryContext context;
	MemoryContext oldcontext;
	SxSearch   *search;

	if (!engine->query->options.quarantine)
		return;
	sx_search_end(engine);
	context = AllocSetContextCreate(engine->context, "streamx search", ALLOCSET_SMALL_SIZES);
	oldcontext = MemoryContextSwitchTo(context);
	search = palloc0(sizeof(SxSearch));
	search->context = context;
	search->starts = palloc0(sizeof(SxOffset *) * Max(engine->nsources, 1));
	search->ends = palloc0(sizeof(SxOffset *) * Max(engine->nsources, 1));
	search->rows = palloc0(sizeof(int64) * Max(engine->nsources, 1));
	for (int i = 0; i < engine->nsources; i++)
	{
		const SxBatchSource *range = &batch->sources.sources[i];

		if (range->end == NULL)
			continue;
		search->starts[i] = sx_batch_copy_offset(range->source, range->start);
		search->ends[i] = sx_batch_copy_offset(range->source, range->end);
	}
	MemoryContextSwitchTo(oldcontext);
	engine->search = search;
}

bool
sx_search_active(const SxEngine *engine)
{
	return engine->search != NULL && engine->search->active;
}

void
sx_search_end(SxEngine *engine)
{
	if (engine->search != NULL)
		MemoryContextDelete(engine->search->context);
	engine->search = NULL;
}

/* The guilty rows of one source, as ordinals within it. */
static void
hide_guilty(SxSearch *search, SxBatchSource *range, int64 first, int64 rows)
{
	int64	   *hidden = palloc(sizeof(int64) * (list_length(search->guilty) + 1));
	ListCell   *cell;

	range->nhidden = 0;
	foreach(cell, search->guilty)
	{
		Guilty	   *guilty = lfirst(cell);

		if (guilty->row >= first && guilty->row < first + rows)
			hidden[range->nhidden++] = guilty->row - first;
	}
	range->hidden = hidden;
}

void
sx_search_ranges(SxEngine *engine, SxBatch *batch)
{
	SxSearch   *search = engine->search;
	int64		first = 0;

	sx_quarantine_join_again(engine, batch);
	search->probing = search->todo != NIL;
	if (search->probing)
	{
		search->probe = *(RowSpan *) linitial(search->todo);
		search->todo = list_delete_first(search->todo);
	}
	for (int i = 0; i < engine->nsources; i++)
	{
		SxBatchSource *range = &batch->sources.sources[i];

		if (search->ends[i] == NULL && range->nextra == 0)
			continue;
		range->start = search->starts[i];
		range->end = search->ends[i];
		range->counted = false;
		range->selective = true;
		if (search->probing)
		{
			range->first_row = search->probe.low - first;
			range->behind_row = search->probe.high - first;
		}
		else
		{
			range->first_row = 0;
			range->behind_row = PG_INT64_MAX;
			hide_guilty(search, range, first, search->rows[i]);
		}
		first += search->rows[i];
	}
}

/* What is known of the row that a scan has just given, and of the error it made. */
static void
write_row(SxEngine *engine, SxBatch *batch, int i, int64 row, const SxMalformed *record,
		  TupleTableSlot *slot)
{
	SxQuarantined quarantined = {
		.query_id = engine->query->id,
		.batch_id = batch->id,
		.stream = batch->sources.sources[i].source->relid,
		.position = row,
		.record = record->raw,
		.record_len = record->len,
		.record_position = record->where,
	};
	int64		first = 0;
	ListCell   *cell;

	for (int before = 0; before < i; before++)
		first += engine->search->rows[before];
	foreach(cell, engine->search->guilty)
	{
		Guilty	   *guilty = lfirst(cell);

		if (guilty->row != first + row)
			continue;
		quarantined.sqlstate = guilty->sqlstate;
		quarantined.message = guilty->message;
	}
	quarantined.row = ExecFetchSlotHeapTupleDatum(slot);
	sx_quarantine_append(&quarantined);
	batch->sources.sources[i].quarantined++;
	batch->quarantined++;
}

static void
write_guilty(SxEngine *engine, SxBatch *batch, int i)
{
	SxBatchSource *range = &batch->sources.sources[i];
	const SxSourceRoutine *routine = range->source->routine;
	Relation	stream = table_open(range->source->relid, AccessShareLock);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(RelationGetDescr(stream), &TTSOpsVirtual);
	SxScan	   *scan = range->end == NULL ? NULL :
		routine->scan_begin(range->source, range->start, range->end);
	int64		row = 0;
	int			next = 0;

	for (; scan != NULL && next < range->nhidden && routine->scan_next(scan, slot); row++)
	{
		SxMalformed record = {0};

		if (row != range->hidden[next])
			continue;
		next++;
		if (routine->record != NULL)
			(void) routine->record(scan, &record);
		write_row(engine, batch, i, row, &record, slot);
	}
	ExecClearTuple(slot);
	if (scan != NULL)
		routine->scan_end(scan);
	for (int64 extra = 0; next < range->nhidden && sx_batch_source_extra(range, extra, slot); extra++, row++)
	{
		const SxRequeued *from = sx_quarantine_origin(engine, i, extra);
		SxMalformed record = {.where = from->record_position, .raw = from->record, .len = from->record_len};

		if (row != range->hidden[next])
			continue;
		next++;
		write_row(engine, batch, i, row, &record, slot);
	}
	ExecDropSingleTupleTableSlot(slot);
	table_close(stream, NoLock);
}

void
sx_search_after_run(SxEngine *engine, SxBatch *batch)
{
	SxSearch   *search = engine->search;

	if (!sx_search_active(engine))
		return;
	if (!search->probing)
	{
		/* Many guilty rows are rather a broken query than broken rows. */
		if (search->guilty != NIL)
			sx_quarantine_check_limit(engine, list_length(search->guilty),
									  ((Guilty *) llast(search->guilty))->sqlstate,
									  ((Guilty *) llast(search->guilty))->message);
		for (int i = 0; i < engine->nsources; i++)
			if (batch->sources.sources[i].nhidden > 0)
				write_guilty(engine, batch, i);
		return;
	}
	if (!search->rows_known)
		for (int i = 0; i < engine->nsources; i++)
			search->rows[i] = batch->sources.sources[i].rows;
	ereport(ERROR,
			(errcode(ERRCODE_SX_PROBE),
			 errmsg("probe of a failed batch ends")));
}

/* ---- what a failure means ---- */

static int
compare_guilty(const ListCell *a, const ListCell *b)
{
	int64		left = ((Guilty *) lfirst(a))->row;
	int64		right = ((Guilty *) lfirst(b))->row;

	return left < right ? -1 : left > right;
}

static void
add_guilty(SxSearch *search, int64 row, const ErrorData *error)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(search->context);
	Guilty	   *guilty = palloc(sizeof(Guilty));

	guilty->row = row;
	guilty->sqlstate = error->sqlerrcode;
	guilty->message = pstrdup(error->message != NULL ? error->message : "missing error text");
	search->guilty = lappend(search->guilty, guilty);
	list_sort(search->guilty, compare_guilty);
	MemoryContextSwitchTo(oldcontext);
}

/* False: the failure is not of single rows. */
static bool
probe_answered(SxEngine *engine, const ErrorData *error)
{
	SxSearch   *search = engine->search;
	RowSpan	probe = search->probe;
	bool		passed = error->sqlerrcode == ERRCODE_SX_PROBE;

	if (!search->rows_known)
	{
		int64		total = 0;

		if (!passed)
			return false;
		for (int i = 0; i < engine->nsources; i++)
			total += search->rows[i];
		search->rows_known = true;
		push(search, 0, total, false);
	}
	else if (!passed && probe.high - probe.low == 1)
		add_guilty(search, probe.low, error);
	else if (!passed)
	{
		int64		middle = probe.low + (probe.high - probe.low) / 2;

		push(search, probe.low, probe.high, true);
		push(search, middle, probe.high, false);
		push(search, probe.low, middle, false);
	}
	while (search->todo != NIL && ((RowSpan *) linitial(search->todo))->check)
	{
		RowSpan   *check = linitial(search->todo);

		if (list_length(search->guilty) == check->nguilty_before)
		{
			/* the batch as it is says why it fails; the probe that ends here passed */
			search->todo = NIL;
			return true;
		}
		search->todo = list_delete_first(search->todo);
	}
	return true;
}

/* What a sink says of a row (bad value, broken constraint), not of itself. */
static bool
blames_row(int sqlstate)
{
	int			category = ERRCODE_TO_CATEGORY(sqlstate);

	return category == ERRCODE_DATA_EXCEPTION ||
		category == ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION;
}

bool
sx_engine_absorb(SxEngine *engine, const ErrorData *error)
{
	SxSearch   *search = engine->search;

	if (search == NULL)
		return false;
	if (engine->quarantine_full)
	{
		engine->quarantine_full = false;
		sx_search_end(engine);
		return false;
	}
	if (engine->writing_sink && !blames_row(error->sqlerrcode))
	{
		sx_search_end(engine);
		return false;
	}
	if (search->active)
	{
		if (search->probing &&
			(error->sqlerrcode == ERRCODE_SX_PROBE ||
			 sx_error_class(error->sqlerrcode) == SX_ERROR_DETERMINISTIC) &&
			probe_answered(engine, error))
			return true;
	}
	else if (sx_error_class(error->sqlerrcode) == SX_ERROR_DETERMINISTIC)
	{
		if (engine->max_rows > SEARCH_ROWS)
		{
			engine->max_rows = SEARCH_ROWS;
			return true;
		}
		search->active = true;
		push(search, 0, 0, false);
		return true;
	}
	sx_search_end(engine);
	return false;
}
