/*
 * aggregate_panes.c
 *		Sliding windows from panes: the end of a batch.
 *
 * A row of hop(ts, size, slide) is in size / slide windows. It is aggregated once,
 * into its pane: the piece of time that lies in just these windows (time/window.h).
 * State holds a value per pane and key; it goes with the last window that needs
 * it. A window's result is combined from its panes when it is shown.
 *
 *	 panes   |--a--|--b--|--c--|--d--|--e--|
 *	 windows |-----------------|             a + b + c
 *	               |-----------------|           b + c + d
 *	                     |-----------------|         c + d + e
 *
 * A row may be late for its first windows and not for the others. It is added to
 * its pane all the same: the windows it is late for were closed by an earlier
 * batch, and no window is shown once it is closed. A window that is open has in
 * its panes every row it ever got.
 *
 *	 for each key that the batch touched:
 *		fetch its panes in the same windows that the batch did not touch
 *		each window that is open and holds a touched pane:
 *			count it; new if no batch before had one of its panes
 *			update: emit it
 *	 put the touched panes, but those that would go at once
 *	 if windows close (late < end <= evict), or in complete mode always:
 *		for each key with panes in them:
 *			each of these windows: count it; append, complete: emit it
 *		expire the panes that no open window needs
 *
 * What is shown as state rows are windows by key, as Spark has them: the books
 * count what comes and goes. They are an entry of the state with an empty key and
 * no expiry. Its value, version 1:
 *
 *	 byte		version
 *	 varint		number of windows by key that are open
 *	 8 bytes	start of the newest pane that ever was: none behind it is looked up
 */
#include "postgres.h"

#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "exec/aggregate.h"
#include "exec/pane_table.h"
#include "time/watermark.h"

#define BOOKS_VERSION	1
#define WANTED			4096	/* panes asked for at once */
#define WANTED_BYTES	(1024 * 1024)	/* of their keys */
#define READ_BLOCK		(64 * 1024)
#define READ_MEMORY		((Size) 64 * 1024 * 1024)	/* for panes that are read to close windows */
#define PANE_OVERHEAD	160		/* bytes that such a pane takes beside its values */

/* A pane of a key that the batch touched, which it did not touch itself. */
typedef struct Wanted
{
	uint32		key;			/* number in the table */
	TimestampTz start;
	uint32		bytes;			/* offset of its key */
	uint32		len;
} Wanted;

typedef struct Found
{
	uint32		key;
	SxPane		pane;
} Found;

/* The walk over the keys that the batch touched. */
typedef struct Touched
{
	SxAggregate *agg;
	SxPaneTable *table;
	TimestampTz newest;
	bool		whole;			/* windows are emitted, so all their panes count */
	int64		updated;
	int64		created;

	/* for some keys at a time */
	int			nwanted;
	int			wanted_allocated;
	Wanted	   *wanted;
	StringInfoData bytes;
	int			nfound;
	Found	   *found;
	MemoryContext memory;		/* of their values */

	SxPane	   *merged;			/* panes of one key */
	int			merged_allocated;
} Touched;

static SxStateKey
books_key(const SxAggregate *agg)
{
	SxStateKey	key = {.op = agg->base.plan->id, .expiry = SX_STATE_NEVER, .bytes = ""};

	return key;
}

void
sx_aggregate_begin_panes(SxAggregate *agg)
{
	SxStateKey	key = books_key(agg);
	SxStateValue value;
	SxReader	in;

	agg->books.windows = 0;
	agg->books.newest = PG_INT64_MIN;
	sx_state_get_many(agg->base.state, 1, &key, &value);
	if (value.bytes == NULL)
		return;
	in.p = value.bytes;
	in.end = value.bytes + value.len;
	if (*sx_read_bytes(&in, 1) != BOOKS_VERSION)
		sx_reader_short();
	agg->books.windows = sx_read_varint(&in);
	memcpy(&agg->books.newest, sx_read_bytes(&in, sizeof(TimestampTz)), sizeof(TimestampTz));
}

static void
put_books(SxAggregate *agg, const SxPaneBooks *books)
{
	SxStateKey	key = books_key(agg);

	resetStringInfo(&agg->value);
	appendStringInfoCharMacro(&agg->value, BOOKS_VERSION);
	sx_varint_append(&agg->value, books->windows);
	appendBinaryStringInfo(&agg->value, (const char *) &books->newest, sizeof(TimestampTz));
	sx_state_put(agg->base.state, &key, agg->value.data, agg->value.len);
}

/* ---------- windows ---------- */

/* The key's columns are set in agg->row; the values stay as they are. */
static void
emit_window(SxAggregate *agg, TimestampTz start, const SxPane *panes, int npanes)
{
	SxAggCalls *calls = agg->calls;
	int			window = agg->base.plan->time_key;
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->single->ecxt_per_tuple_memory);

	sx_agg_calls_use(calls, calls->single);
	sx_agg_values_copy(calls, agg->single_values, panes[0].values);
	for (int i = 1; i < npanes; i++)
		sx_agg_values_combine(calls, agg->single_values, panes[i].values);
	agg->row[window] = sx_group_key_window(agg->key, start, start + agg->base.plan->window.size);
	agg->row_nulls[window] = false;
	sx_aggregate_emit_row(agg, agg->single_values);
	MemoryContextSwitchTo(oldcontext);
	ReScanExprContext(calls->single);
}

/* ---------- what the batch touched ---------- */

static void
want(Touched *touched, uint32 number, TimestampTz start)
{
	const SxPaneKey *key = &touched->table->keys[number];
	Wanted	   *wanted;

	if (touched->nwanted == touched->wanted_allocated)
	{
		touched->wanted_allocated *= 2;
		touched->wanted = repalloc_huge(touched->wanted,
										touched->wanted_allocated * sizeof(Wanted));
	}
	wanted = &touched->wanted[touched->nwanted++];
	wanted->key = number;
	wanted->start = start;
	wanted->bytes = touched->bytes.len;
	appendBinaryStringInfo(&touched->bytes, key->bytes, key->len);
	appendBinaryStringInfo(&touched->bytes, (const char *) &start, SX_WINDOW_BYTES);
	wanted->len = touched->bytes.len - wanted->bytes;
}

/* Panes of the walk's window from "from" on that the batch did not touch. */
static void
want_panes(Touched *touched, uint32 number, const SxPaneWalk *walk, TimestampTz from)
{
	const SxWindow *window = walk->window;
	TimestampTz last = sx_window_last_start(window, from);
	TimestampTz pane = from;
	int			i = walk->first;

	while (pane < walk->start + window->size && pane <= touched->newest)
	{
		CHECK_FOR_INTERRUPTS();
		while (i < walk->end && walk->panes[i].start < pane)
			i++;
		if (i == walk->end || walk->panes[i].start != pane)
			want(touched, number, pane);
		pane = sx_window_next_pane(window, last, pane);
		if (pane == last + window->slide)
			last = pane;
	}
}

static bool
any_old(const SxPane *panes, int npanes)
{
	for (int i = 0; i < npanes; i++)
		if (panes[i].old)
			return true;
	return false;
}

/* Only counted, a window with an old pane needs no other to be known as old. */
static void
want_panes_of_key(Touched *touched, uint32 number)
{
	const SxPaneKey *key = &touched->table->keys[number];
	TimestampTz from = PG_INT64_MIN;
	SxPaneWalk	walk;

	sx_pane_walk_begin(&walk, &touched->agg->base.plan->window, key->panes, key->npanes,
					   touched->agg->late, PG_INT64_MAX);
	while (sx_pane_walk_next(&walk) && walk.start <= touched->newest)
	{
		CHECK_FOR_INTERRUPTS();
		if (!touched->whole && any_old(walk.panes + walk.first, walk.end - walk.first))
			continue;
		want_panes(touched, number, &walk, Max(from, walk.start));
		from = walk.start + walk.window->size;
	}
}

static SxStateKey *
wanted_keys(const Touched *touched)
{
	const SxPlanOperator *plan = touched->agg->base.plan;
	SxStateKey *keys = palloc_extended((touched->nwanted + 1) * sizeof(SxStateKey),
									   MCXT_ALLOC_HUGE);

	for (int i = 0; i < touched->nwanted; i++)
	{
		const Wanted *wanted = &touched->wanted[i];

		keys[i].op = plan->id;
		keys[i].group = touched->table->keys[wanted->key].group;
		keys[i].hash = 0;		/* bytes decide */
		keys[i].expiry = plan->watermarked ?
			sx_window_last_start(&plan->window, wanted->start) + plan->window.size : SX_STATE_NEVER;
		keys[i].bytes = touched->bytes.data + wanted->bytes;
		keys[i].len = wanted->len;
	}
	return keys;
}

/* Fetches the wanted panes; those that exist are found, in the same order. */
static void
fetch_wanted(Touched *touched)
{
	SxAggregate *agg = touched->agg;
	int			n = touched->nwanted;
	SxStateKey *keys = wanted_keys(touched);
	SxStateValue *values = palloc_extended((n + 1) * sizeof(SxStateValue), MCXT_ALLOC_HUGE);

	CHECK_FOR_INTERRUPTS();
	MemoryContextReset(touched->memory);
	ReScanExprContext(agg->calls->read);
	touched->nfound = 0;
	touched->found = MemoryContextAllocHuge(touched->memory, (n + 1) * sizeof(Found));
	sx_state_get_many(agg->base.state, n, keys, values);
	sx_agg_calls_use(agg->calls, agg->calls->read);
	for (int i = 0; i < n; i++)
	{
		Found	   *found = &touched->found[touched->nfound];
		SxReader	in = {values[i].bytes, values[i].bytes + values[i].len};

		if (values[i].bytes == NULL)
			continue;
		found->key = touched->wanted[i].key;
		found->pane.start = touched->wanted[i].start;
		found->pane.old = true;
		found->pane.touched = false;
		found->pane.values = NULL;
		if (touched->whole)
		{
			found->pane.values = MemoryContextAlloc(touched->memory, agg->calls->size + 1);
			sx_agg_values_decode(agg->calls, found->pane.values, &in);
		}
		touched->nfound++;
	}
	touched->nwanted = 0;
	resetStringInfo(&touched->bytes);
	pfree(keys);
	pfree(values);
}

/* The key's touched panes and what was found of it from found[at] on. */
static int
merge_panes(Touched *touched, uint32 number, int *at)
{
	const SxPaneKey *key = &touched->table->keys[number];
	int			i = 0;
	int			n = 0;

	while (i < key->npanes || (*at < touched->nfound && touched->found[*at].key == number))
	{
		const SxPane *other = *at < touched->nfound && touched->found[*at].key == number ?
			&touched->found[*at].pane : NULL;

		if (n == touched->merged_allocated)
		{
			touched->merged_allocated *= 2;
			touched->merged = repalloc_huge(touched->merged,
											touched->merged_allocated * sizeof(SxPane));
		}
		if (other == NULL || (i < key->npanes && key->panes[i].start < other->start))
			touched->merged[n++] = key->panes[i++];
		else
		{
			touched->merged[n++] = *other;
			(*at)++;
		}
	}
	return n;
}

static void
show_touched_windows(Touched *touched, uint32 number, const SxPane *panes, int npanes)
{
	SxAggregate *agg = touched->agg;
	const SxPaneKey *key = &touched->table->keys[number];
	bool		decoded = false;
	SxPaneWalk	walk;

	sx_pane_walk_begin(&walk, &agg->base.plan->window, panes, npanes, agg->late, PG_INT64_MAX);
	while (sx_pane_walk_next(&walk))
	{
		bool		is_touched = false;
		bool		is_old = false;

		CHECK_FOR_INTERRUPTS();
		for (int i = walk.first; i < walk.end; i++)
		{
			is_touched = is_touched || panes[i].touched;
			is_old = is_old || panes[i].old;
		}
		if (!is_touched)
			continue;
		touched->updated++;
		if (!is_old)
			touched->created++;
		if (!touched->whole)
			continue;
		if (!decoded)
			sx_group_key_decode_columns(agg->key, key->bytes, key->len, agg->row, agg->row_nulls);
		decoded = true;
		agg->base.fresh = !is_old && agg->nnew >= SX_WORTH_TELLING;
		emit_window(agg, walk.start, panes + walk.first, walk.end - walk.first);
	}
}

/* Counts the windows of the touched panes, and emits them in update mode. */
static void
walk_touched(Touched *touched)
{
	const SxPaneTable *table = touched->table;
	bool		looks = touched->agg->base.mode != SX_OUTPUT_COMPLETE;
	uint32		next = 0;

	while (next < table->nkeys)
	{
		uint32		number = next;
		int			at = 0;

		for (; next < table->nkeys && touched->nwanted < WANTED &&
			 touched->bytes.len < WANTED_BYTES; next++)
			if (looks)
				want_panes_of_key(touched, next);
		fetch_wanted(touched);
		for (; number < next; number++)
		{
			const SxPaneKey *key = &table->keys[number];

			if (at < touched->nfound && touched->found[at].key == number)
			{
				int			n = merge_panes(touched, number, &at);

				show_touched_windows(touched, number, touched->merged, n);
			}
			else
				show_touched_windows(touched, number, key->panes, key->npanes);
		}
	}
}

static void
take_touched(SxAggregate *agg, int64 *created)
{
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "streamx touched panes",
												 ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(memory);
	Touched		touched = {
		.agg = agg,
		.table = sx_pane_table_make(),
		.newest = agg->books.newest,
		.whole = agg->base.mode == SX_OUTPUT_UPDATE,
		.wanted_allocated = 2 * WANTED,
		.merged_allocated = 64,
	};

	for (uint32 i = 0; i < agg->table->ngroups; i++)
	{
		SxGroup    *group = sx_group_table_get(agg->table, i);
		SxPane		pane = {
			.values = SX_GROUP_VALUES(group),
			.touched = true,
			.old = !group->is_new,
		};

		sx_pane_table_add(touched.table, group->key, group->keylen, group->group, &pane);
	}
	sx_pane_table_order(touched.table);
	touched.wanted = palloc(touched.wanted_allocated * sizeof(Wanted));
	touched.merged = palloc(touched.merged_allocated * sizeof(SxPane));
	touched.memory = AllocSetContextCreate(memory, "streamx found panes", ALLOCSET_DEFAULT_SIZES);
	initStringInfo(&touched.bytes);
	walk_touched(&touched);
	agg->base.progress->rows_updated += touched.updated;
	*created = touched.created;
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(memory);
}

/* ---------- windows that close ---------- */

/* Panes of the state on their way into a table. */
typedef struct Closing
{
	SxAggregate *agg;
	SxPaneTable *table;
	TimestampTz end;			/* of the last window that closes */
	bool		emits;
	int			first;			/* key groups of the part that is taken */
	int			last;
	char	   *free;			/* rest of the current block */
	Size		nfree;
} Closing;

/* Room for the bytes of a pane; many are small. */
static char *
closing_room(Closing *closing, Size size)
{
	char	   *room;

	size = MAXALIGN(size);
	if (size > READ_BLOCK / 16)
		return MemoryContextAllocHuge(closing->table->context, size);
	if (size > closing->nfree)
	{
		closing->free = MemoryContextAlloc(closing->table->context, READ_BLOCK);
		closing->nfree = READ_BLOCK;
	}
	room = closing->free;
	closing->free += size;
	closing->nfree -= size;
	return room;
}

/* An SxStateVisit; the bytes are copied, those of a store are gone with the call. */
static bool
take_stored(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	Closing    *closing = arg;
	SxAggregate *agg = closing->agg;
	Size		size = closing->emits ? MAXALIGN(agg->calls->size) : 0;
	SxPane		pane = {.old = true};
	char	   *room;

	if (key->len < SX_WINDOW_BYTES ||
		sx_group_key_start(key->bytes, key->len) >= closing->end)
		return true;			/* also the books */
	room = closing_room(closing, size + key->len);
	memcpy(room + size, key->bytes, key->len);
	if (closing->emits)
	{
		SxReader	in = {value->bytes, value->bytes + value->len};

		pane.values = room;
		sx_agg_values_decode(agg->calls, room, &in);
	}
	sx_pane_table_add(closing->table, room + size, key->len, key->group, &pane);
	return true;
}

static void
take_passing(Closing *closing)
{
	SxAggregate *agg = closing->agg;

	for (uint32 i = 0; i < agg->table->ngroups; i++)
	{
		SxGroup    *group = sx_group_table_get(agg->table, i);
		SxPane		pane = {.values = SX_GROUP_VALUES(group)};

		if (sx_aggregate_passes(agg, group) &&
			group->group >= closing->first && group->group <= closing->last)
			sx_pane_table_add(closing->table, group->key, group->keylen, group->group, &pane);
	}
}

/* Returns how many windows there are. */
static int64
close_windows_of_part(Closing *closing, int64 max_expiry)
{
	SxAggregate *agg = closing->agg;
	const SxPlanOperator *plan = agg->base.plan;
	int64		windows = 0;

	take_passing(closing);
	sx_agg_calls_use(agg->calls, agg->calls->read);
	sx_state_scan_groups(agg->base.state, plan->id, closing->first, closing->last, max_expiry,
						 take_stored, closing);
	sx_pane_table_order(closing->table);
	for (uint32 i = 0; i < closing->table->nkeys; i++)
	{
		const SxPaneKey *key = &closing->table->keys[i];
		SxPaneWalk	walk;

		if (closing->emits)
			sx_group_key_decode_columns(agg->key, key->bytes, key->len, agg->row, agg->row_nulls);
		sx_pane_walk_begin(&walk, &plan->window, key->panes, key->npanes, agg->late, closing->end);
		while (sx_pane_walk_next(&walk))
		{
			CHECK_FOR_INTERRUPTS();
			windows++;
			if (closing->emits)
				emit_window(agg, walk.start, key->panes + walk.first, walk.end - walk.first);
		}
	}
	return windows;
}

/* The end of the last window that a watermark closes. */
static TimestampTz
last_window_end(const SxWindow *window, TimestampTz watermark)
{
	return sx_window_last_start(window, watermark - window->size) + window->size;
}

int64
sx_aggregate_last_pane(const SxPlanOperator *plan, TimestampTz watermark)
{
	return last_window_end(&plan->window, watermark) + plan->window.size - 1;
}

/*
 * Goes through the windows that end after what was late and not after upto: key
 * by key, so that a key's panes are hot when its windows are combined. Memory is
 * bounded: with many panes the keys are taken in parts.
 */
static int64
close_windows(SxAggregate *agg, TimestampTz upto, bool emits)
{
	const SxWindow *window = &agg->base.plan->window;
	Closing		closing = {.agg = agg, .end = PG_INT64_MAX, .emits = emits};
	int64		max_expiry = SX_STATE_NEVER;
	Size		bytes = (sx_state_rows(agg->base.state, agg->base.plan->id) +
						 agg->table->ngroups) * (PANE_OVERHEAD + agg->calls->size);
	MemoryContext memory;
	int			step;			/* key groups in a part */
	int64		windows = 0;

	if (upto != PG_INT64_MAX)
	{
		closing.end = last_window_end(window, upto);
		if (closing.end <= agg->late)
			return 0;
		max_expiry = sx_aggregate_last_pane(agg->base.plan, upto);	/* of panes before the end */
	}
	step = Max(SX_KEY_GROUPS / (bytes / READ_MEMORY + 1), 1);
	memory = AllocSetContextCreate(CurrentMemoryContext, "streamx closing panes",
								   ALLOCSET_DEFAULT_SIZES);
	agg->base.fresh = false;
	for (closing.first = agg->base.due_first; closing.first <= agg->base.due_last; closing.first += step)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(memory);

		closing.last = Min(closing.first + step - 1, agg->base.due_last);
		closing.table = sx_pane_table_make();
		closing.free = NULL;
		closing.nfree = 0;
		windows += close_windows_of_part(&closing, max_expiry);
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(memory);
		ReScanExprContext(agg->calls->read);
	}
	MemoryContextDelete(memory);
	return windows;
}

static void
note_newest(const SxAggregate *agg, SxPaneBooks *books)
{
	for (uint32 i = 0; i < agg->table->ngroups; i++)
	{
		const SxGroup *group = sx_group_table_get(agg->table, i);

		books->newest = Max(books->newest, sx_group_key_start(group->key, group->keylen));
	}
}

void
sx_aggregate_finish_panes(SxAggregate *agg)
{
	SxOperator *op = &agg->base;
	SxPaneBooks books = agg->books;
	int64		created = 0;

	if (agg->table->ngroups > 0)
		take_touched(agg, &created);
	books.windows += created;
	note_newest(agg, &books);
	sx_aggregate_put_touched(agg, false);
	if (op->mode == SX_OUTPUT_COMPLETE)
		books.windows = close_windows(agg, PG_INT64_MAX, true);
	else if (agg->evict != SX_TIME_UNSET)
	{
		int64		closed = close_windows(agg, agg->evict, op->mode == SX_OUTPUT_APPEND);

		op->progress->rows_removed += closed;
		books.windows -= closed;
		if (sx_operator_ends_due(op))
			sx_state_expire(op->state, op->plan->id, agg->evict);
	}
	if (books.windows != agg->books.windows || books.newest != agg->books.newest)
		put_books(agg, &books);
	op->state_rows = books.windows;
}
