/*
 * session.c
 *		GROUP BY session(ts, gap): windows that grow while rows keep coming.
 *
 * A row is a window [ts, ts + gap) of its own. Windows of a key that overlap or
 * touch are one session; a row between two sessions makes one of them:
 *
 *	 open	|----a----|        |---b---|
 *	 row	        |----------|				(touching counts)
 *	 then	|-------------a------------|		b was absorbed
 *
 *	 for each chunk of rows:
 *		drop those without a time or a gap above zero, and the late ones:
 *			ts + gap <= watermark of the batch before, whatever they would touch
 *		find the keys in the batch's table; fetch the sessions of those new to it
 *			(while part of the state is cold, for many chunks together: waiting_rows.h)
 *		find or make the session of each row; note which ones it joins
 *		for each aggregate: advance it over the rows
 *		combine the values of sessions that were joined
 *	 at the end of the batch:
 *		for each touched key: close its sessions with end <= watermark, put the others
 *		for each other key with a session that ends by then: likewise
 *		append: emit what closes; update: what was touched; complete: everything
 *
 * Sessions of a key are read and written together: it is found by one look-up, and
 * a row can join any of them. Where a key has very many they lie in pieces, of which
 * only those are read and written that are touched or due.
 *
 * Stores:
 *	 0	the key's bytes (group_key.h), no expiry; value: its sessions (session_key.h)
 *	 1	the same keys, value: byte 1 (version); expiry: not later than the first end
 *		of the key's sessions. A session that grows leaves its entry where it is: when
 *		that comes due the key is looked at, and has another entry from then on.
 *	 2	an empty key; value: varint 1 (version), varint number of open sessions.
 *	 3	the key's bytes as first seen and 8 bytes, the number of a piece; value: its
 *		sessions (session_key.h)
 */
#include "postgres.h"

#include "common/int.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/memutils.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "base/crash_point.h"
#include "exec/aggregate.h"
#include "exec/session_key.h"
#include "time/watermark.h"

#define BOOKS_VERSION	1
#define ENTRY_VERSION	1
#define KEY_BUFFER		(1024 * 1024)	/* bytes of keys after which rows are applied */
#define LIST_BYTES		(64 * 1024 * 1024)	/* of keys that are due */
#define PREFETCH_KEYS	32		/* put after so many were prefetched */

/* Values of one session that go into another's. */
typedef struct Merge
{
	SxSession  *into;
	SxSession  *from;
} Merge;

typedef struct SessionOperator
{
	SxOperator	base;
	SxGroupKey *key;
	SxSessionForm form;
	SxAggCalls *calls;
	SxChunk    *first_chunk;
	TypeCacheEntry *range_type;

	/* per batch */
	TimestampTz late;			/* SX_TIME_UNSET: nothing is */
	TimestampTz evict;			/* SX_TIME_UNSET: nothing closes */
	MemoryContext context;		/* of the batch */
	SxChunk    *chunk;			/* being filled: the first one, or one after those that wait */
	SxGroupTable *table;		/* of SxSessionKeys */
	uint32		nloaded;		/* keys of it that were fetched */
	SxWaitingRows *waiting;		/* rows for the others; NULL: keys are fetched at once */
	uint64		hashes[SX_CHUNK_ROWS];
	int			nupdates;
	SxUpdate	updates[SX_CHUNK_ROWS];
	StringInfoData keys;		/* bytes of the updates' keys */
	int			nmerges;
	int			merges_allocated;
	Merge	   *merges;
	int64		open_before;	/* sessions, as the batch found them */
	int64		open;
	StringInfoData value;		/* being encoded */
	SxSessionPieces pieces;
	Datum	   *row;			/* being emitted */
	bool	   *row_nulls;
	char	   *single_values;
	MemoryContext scan;			/* of a key that is read and emitted */
} SessionOperator;

static SxOperator *
session_open(const SxPlanOperator *plan)
{
	SessionOperator *op = palloc0(sizeof(SessionOperator));

	op->key = sx_group_key_make(plan);
	op->form.has_key = !op->key->bytewise;
	op->form.has_due = plan->watermarked;
	op->calls = sx_agg_calls_make(plan);
	op->first_chunk = sx_aggregate_make_chunk(plan);
	op->range_type = lookup_type_cache(plan->keys[plan->time_key].type, TYPECACHE_RANGE_INFO);
	return &op->base;
}

static int
session_state_operators(const SxPlanOperator *plan, SxStateOperator *result)
{
	SxGroupKey *key = sx_group_key_make(plan);

	for (int i = 0; i < SX_SESSION_STORES; i++)
	{
		result[i].id = SX_STORE_ID(plan->id, i);
		result[i].equal = key->bytewise || i >= SX_SESSION_BOOKS ? NULL : sx_group_key_equal;
		result[i].equal_arg = key;
	}
	result[SX_SESSION_DUE].fine = true;
	return SX_SESSION_STORES;
}

/* ---------- how many sessions there are ---------- */

static SxStateKey
books_key(const SessionOperator *op)
{
	SxStateKey	key = {.op = SX_STORE_ID(op->base.plan->id, SX_SESSION_BOOKS),
					   .expiry = SX_STATE_NEVER, .bytes = ""};

	return key;
}

static void
read_books(SessionOperator *op)
{
	SxStateKey	key = books_key(op);
	SxStateValue value;
	SxReader	in;

	op->open_before = 0;
	sx_state_get_many(op->base.state, 1, &key, &value);
	if (value.bytes != NULL)
	{
		in.p = value.bytes;
		in.end = value.bytes + value.len;
		if (sx_read_varint(&in) != BOOKS_VERSION)
			sx_reader_short();
		op->open_before = sx_read_varint(&in);
	}
	op->open = op->open_before;
}

static void
put_books(SessionOperator *op)
{
	SxStateKey	key = books_key(op);

	if (op->open == op->open_before)
		return;
	resetStringInfo(&op->value);
	sx_varint_append(&op->value, BOOKS_VERSION);
	sx_varint_append(&op->value, op->open);
	sx_state_put(op->base.state, &key, op->value.data, op->value.len);
}

static void
session_begin(SxOperator *base)
{
	SessionOperator *op = (SessionOperator *) base;
	const SxPlanOperator *plan = base->plan;

	op->late = plan->watermarked ? base->late : SX_TIME_UNSET;
	op->evict = plan->watermarked ? base->evict : SX_TIME_UNSET;
	op->context = CurrentMemoryContext;
	sx_group_key_begin(op->key);
	sx_agg_calls_begin(op->calls);
	op->chunk = op->first_chunk;
	op->chunk->next = NULL;
	sx_chunk_begin(op->chunk);
	op->waiting = sx_state_is_cold(base->state, plan->id) ? sx_waiting_make() : NULL;
	op->nloaded = 0;
	op->table = sx_group_table_make(op->key, sizeof(SxSessionKey));
	op->nupdates = 0;
	initStringInfo(&op->keys);
	op->nmerges = 0;
	op->merges_allocated = 64;
	op->merges = palloc(op->merges_allocated * sizeof(Merge));
	initStringInfo(&op->value);
	sx_session_pieces_begin(&op->pieces, base->state, SX_STORE_ID(plan->id, SX_SESSION_PIECES),
							&op->form, op->calls);
	op->row = palloc0((plan->output->natts + 1) * sizeof(Datum));
	op->row_nulls = palloc0((plan->output->natts + 1) * sizeof(bool));
	op->single_values = palloc(op->calls->size + 1);
	read_books(op);
}

static SxStateKey
state_key(const SessionOperator *op, const SxGroup *group, int store, int64 expiry)
{
	SxStateKey	key = {
		.op = SX_STORE_ID(op->base.plan->id, store),
		.group = group->group,
		.hash = group->hash,
		.expiry = expiry,
		.bytes = group->key,
		.len = group->keylen,
	};

	return key;
}

/* ---------- rows ---------- */

/* The value's bytes are those of the state only until something is put. */
static void
load_key(SessionOperator *op, SxSessionKey *key, const SxStateValue *value)
{
	SxStateValue copy = *value;

	key->group.is_new = value->bytes == NULL;
	if (key->group.is_new)
		return;
	copy.bytes = MemoryContextAllocHuge(op->context, value->len + 1);
	memcpy((char *) copy.bytes, value->bytes, value->len);
	sx_session_key_decode(key, &op->form, &copy);
}

/* Fetches the sessions of the keys that this batch has not seen before. */
static void
load_keys(SessionOperator *op)
{
	uint32		first = op->nloaded;
	uint32		n = op->table->ngroups - first;
	bool		many = n > SX_CHUNK_ROWS;
	SxStateKey	few_keys[SX_CHUNK_ROWS];
	SxStateValue few_values[SX_CHUNK_ROWS];
	SxStateKey *keys = many ? palloc(n * sizeof(SxStateKey)) : few_keys;
	SxStateValue *values = many ? palloc(n * sizeof(SxStateValue)) : few_values;

	for (uint32 i = 0; i < n; i++)
	{
		SxSessionKey *key = (SxSessionKey *) sx_group_table_get(op->table, first + i);

		memset((char *) key + sizeof(SxGroup), 0, sizeof(SxSessionKey) - sizeof(SxGroup));
		key->due = SX_STATE_NEVER;
		keys[i] = state_key(op, &key->group, SX_SESSION_KEYS, SX_STATE_NEVER);
	}
	if (n > 0)
		sx_state_get_many(op->base.state, n, keys, values);
	for (uint32 i = 0; i < n; i++)
		load_key(op, (SxSessionKey *) sx_group_table_get(op->table, first + i), &values[i]);
	op->nloaded = op->table->ngroups;
	if (many)
	{
		pfree(keys);
		pfree(values);
	}
}

/* The session's values, decoded or made where they were not yet. */
static char *
values_of(SessionOperator *op, SxSession *session)
{
	if (session->values != NULL)
		return session->values;
	session->values = MemoryContextAlloc(op->context, op->calls->size + 1);
	if (session->bytes == NULL)
		sx_agg_values_init(op->calls, session->values);
	else
	{
		SxReader	in = {session->bytes, session->bytes + session->len};

		sx_agg_values_decode(op->calls, session->values, &in);
	}
	return session->values;
}

/*
 * The session of a row. Values of those that it joins are combined when the rows of
 * all were taken in.
 */
static SxSession *
place_row(SessionOperator *op, SxSessionKey *key, TimestampTz start, TimestampTz end)
{
	SxSession  *absorbed;
	SxSession  *session = sx_session_key_place(key, &op->pieces, start, end, &absorbed);

	while (absorbed != NULL)
	{
		SxSession  *from = absorbed;

		absorbed = from->next;
		if (op->nmerges == op->merges_allocated)
		{
			op->merges_allocated *= 2;
			op->merges = repalloc_huge(op->merges, op->merges_allocated * sizeof(Merge));
		}
		op->merges[op->nmerges].into = session;
		op->merges[op->nmerges++].from = from;
		if (from->stored)
		{
			from->next = key->absorbed;
			key->absorbed = from;
		}
	}
	return session;
}

/* The row's own window; false: it has none. */
static bool
row_window(const SessionOperator *op, const SxChunk *chunk, int row,
		   TimestampTz *start, TimestampTz *end)
{
	const SxPlanOperator *plan = op->base.plan;
	const SxChunkColumn *times = sx_chunk_column(chunk, plan->keys[plan->time_key].input);
	int64		gap = plan->gap;

	if (plan->gap_input != 0)
	{
		const SxChunkColumn *gaps = sx_chunk_column(chunk, plan->gap_input);

		if (gaps->nulls[row])
			return false;
		gap = sx_window_gap(DatumGetIntervalP(gaps->values[row]));
	}
	if (times->nulls[row] || gap <= 0)
		return false;
	*start = DatumGetTimestampTz(times->values[row]);
	return !TIMESTAMP_NOT_FINITE(*start) && !pg_add_s64_overflow(*start, gap, end) &&
		IS_VALID_TIMESTAMP(*end);
}

/* Rows of one chunk, whose keys were fetched. */
static void
apply_rows(SessionOperator *op, const SxChunk *chunk, int n, const int *rows, SxGroup **groups)
{
	SxSession  *sessions[SX_CHUNK_ROWS];
	char	   *values[SX_CHUNK_ROWS];

	for (int i = 0; i < n; i++)
	{
		TimestampTz start = 0;
		TimestampTz end = 0;

		(void) row_window(op, chunk, rows[i], &start, &end);
		sessions[i] = place_row(op, (SxSessionKey *) groups[i], start, end);
	}
	for (int i = 0; i < n; i++)
		values[i] = values_of(op, sessions[i]);
	sx_agg_values_advance(op->calls, chunk, n, rows, values);
	for (int i = 0; i < op->nmerges; i++)
	{
		char	   *into = values_of(op, op->merges[i].into);

		sx_agg_values_combine(op->calls, into, values_of(op, op->merges[i].from));
	}
	op->nmerges = 0;
	SX_CRASH_POINT("operator");
}

/* Fetches the keys of the rows that wait and applies these in their order. */
static void
apply_waiting(SessionOperator *op)
{
	SxWaitingRows *waiting = op->waiting;
	MemoryContext oldcontext = MemoryContextSwitchTo(op->context);

	load_keys(op);
	for (int i = 0; i < waiting->npieces; i++)
	{
		SxWaitingPiece *piece = &waiting->pieces[i];

		CHECK_FOR_INTERRUPTS();
		apply_rows(op, piece->chunk, piece->n, piece->rows, piece->groups);
	}
	sx_waiting_clear(waiting);
	MemoryContextSwitchTo(oldcontext);
}

/* If rows of the chunk wait, the next ones need another. */
static void
next_chunk(SessionOperator *op)
{
	MemoryContext oldcontext;

	if (op->waiting != NULL && sx_waiting_full(op->waiting, op->chunk->arena))
		apply_waiting(op);
	if (op->waiting == NULL || op->waiting->npieces == 0)
	{
		op->chunk = op->first_chunk;
		sx_chunk_clear(op->chunk);
		return;
	}
	if (op->chunk->next == NULL)
	{
		oldcontext = MemoryContextSwitchTo(op->context);
		op->chunk->next = sx_aggregate_make_chunk(op->base.plan);
		op->chunk->next->arena = op->chunk->arena;
		MemoryContextSwitchTo(oldcontext);
	}
	op->chunk = op->chunk->next;
	op->chunk->nrows = 0;
}

static void
apply_updates(SessionOperator *op)
{
	SxGroup    *groups[SX_CHUNK_ROWS];
	int			rows[SX_CHUNK_ROWS];
	int			n = op->nupdates;
	MemoryContext oldcontext = MemoryContextSwitchTo(op->context);

	CHECK_FOR_INTERRUPTS();
	if (n > 0)
		sx_group_table_find(op->table, n, op->updates, op->keys.data, groups);
	if (n > 0 && op->waiting != NULL)
	{
		sx_waiting_add(op->waiting, op->chunk, n, op->updates, groups);
		if (op->table->ngroups - op->nloaded >= SX_FETCH_GROUPS)
			apply_waiting(op);
	}
	else if (n > 0)
	{
		load_keys(op);
		for (int i = 0; i < n; i++)
			rows[i] = op->updates[i].row;
		apply_rows(op, op->chunk, n, rows, groups);
	}
	op->nupdates = 0;
	resetStringInfo(&op->keys);
	MemoryContextSwitchTo(oldcontext);
}

static void
process_chunk(SessionOperator *op)
{
	sx_group_key_hash(op->key, op->chunk, op->hashes);
	for (int row = 0; row < op->chunk->nrows; row++)
	{
		TimestampTz start;
		TimestampTz end;
		SxUpdate   *update;

		if (!row_window(op, op->chunk, row, &start, &end))
		{
			op->base.progress->rows_no_window++;
			continue;
		}
		if (end <= op->late)
		{
			op->base.progress->rows_late++;
			continue;
		}
		if (start <= op->late)
			op->base.progress->rows_partly_late++;	/* what it would touch may be closed */
		op->base.progress->rows_taken++;
		if (op->keys.len > KEY_BUFFER)
			apply_updates(op);
		update = &op->updates[op->nupdates++];
		update->key = op->keys.len;
		sx_group_key_encode(op->key, op->chunk, row, &op->keys);
		update->keylen = op->keys.len - update->key;
		update->row = row;
		update->hash = op->hashes[row];
		update->group = op->hashes[row] % SX_KEY_GROUPS;
		update->expiry = SX_STATE_NEVER;
	}
	apply_updates(op);
	next_chunk(op);
}

static bool
session_receive(SxOperator *base, int input, TupleTableSlot *slot)
{
	SessionOperator *op = (SessionOperator *) base;

	sx_chunk_add(op->chunk, slot);
	if (sx_chunk_full(op->chunk))
		process_chunk(op);
	return true;
}

/* ---------- results ---------- */

/* The key's columns and the window; in CurrentMemoryContext. */
static void
set_keys(SessionOperator *op, const SxSessionKey *key, TimestampTz start, TimestampTz end)
{
	RangeBound	lower = {TimestampTzGetDatum(start), false, true, true};
	RangeBound	upper = {TimestampTzGetDatum(end), false, false, false};
	int			window = op->base.plan->time_key;

	sx_group_key_decode_columns(op->key, key->group.key, key->group.keylen, op->row, op->row_nulls);
	op->row[window] = RangeTypePGetDatum(sx_make_range(op->range_type, &lower, &upper));
	op->row_nulls[window] = false;
}

/* The session's values are used up. */
static void
emit(SessionOperator *op, const SxSessionKey *key, const SxSession *session)
{
	SxAggCalls *calls = op->calls;
	int			nkeys = op->base.plan->nkeys;
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->single->ecxt_per_tuple_memory);
	char	   *values = session->values;

	set_keys(op, key, session->start, session->end);
	if (values == NULL)
	{
		SxReader	in = {session->bytes, session->bytes + session->len};

		values = op->single_values;
		sx_agg_calls_use(calls, calls->single);
		sx_agg_values_decode(calls, values, &in);
	}
	sx_agg_values_finish(calls, values, op->row + nkeys, op->row_nulls + nkeys);
	sx_agg_calls_use(calls, calls->live);
	sx_operator_emit(&op->base, op->row, op->row_nulls);
	MemoryContextSwitchTo(oldcontext);
	ReScanExprContext(calls->single);
}

/* The window that was shown is no more. */
static void
retract(SessionOperator *op, const SxSessionKey *key, const SxSession *session)
{
	SxAggCalls *calls = op->calls;
	MemoryContext oldcontext = MemoryContextSwitchTo(calls->single->ecxt_per_tuple_memory);

	set_keys(op, key, session->stored_start, session->stored_end);
	for (int i = 0; i < op->base.plan->naggregates; i++)
		op->row_nulls[op->base.plan->nkeys + i] = true;
	sx_operator_retract(&op->base, op->row, op->row_nulls);
	MemoryContextSwitchTo(oldcontext);
	ReScanExprContext(calls->single);
}

/* Update mode: what was touched, and which windows it takes the place of. */
static void
show_touched(SessionOperator *op, const SxSessionKey *key)
{
	for (const SxSession *session = key->absorbed; session != NULL; session = session->next)
		retract(op, key, session);
	for (int i = 0; i < key->n; i++)
	{
		const SxSession *session = key->sessions[i];

		if (!session->touched)
			continue;
		if (session->stored && (session->start != session->stored_start ||
								session->end != session->stored_end))
			retract(op, key, session);
		emit(op, key, session);
	}
}

/* ---------- the end of the batch ---------- */

static inline bool
is_due(const SessionOperator *op, const SxSession *session)
{
	return session->end <= op->evict;
}

/* Sessions that close must not lie in pieces: then they are the first items. */
static void
open_due_pieces(SessionOperator *op, SxSessionKey *key)
{
	int			i = 0;

	while (i < key->n && key->sessions[i]->start < op->evict)
	{
		if (key->sessions[i]->is_piece)
			sx_session_pieces_open(&op->pieces, key, i);
		else if (is_due(op, key->sessions[i]))
			i++;
		else
			break;
	}
}

/*
 * Takes the sessions that close off the key, into *closed; how many. They are the
 * first ones: ends are in the order of starts. No piece has any.
 */
static int
take_due(SessionOperator *op, SxSessionKey *key, SxSession ***closed)
{
	int			n = 0;

	while (n < key->n && is_due(op, key->sessions[n]))
		n++;
	*closed = key->sessions;
	key->sessions += n;
	key->n -= n;
	key->allocated = 0;			/* it isn't the begin of its memory any more */
	return n;
}

/* Puts what is left of the key; its entry in store 1 comes not after its first end. */
static void
put_key(SessionOperator *op, SxSessionKey *key)
{
	SxStateKey	state = state_key(op, &key->group, SX_SESSION_KEYS, SX_STATE_NEVER);
	SxStateKey	entry;
	const SxSession *first;
	const char	entry_value = ENTRY_VERSION;

	if (key->n == 0)
	{
		if (key->nstored > 0)
			sx_state_remove(op->base.state, &state);
		return;
	}
	/* what is in a piece was there before, so that the key is due in time for it */
	first = key->sessions[0];
	if (op->base.plan->watermarked &&
		(key->due <= op->evict || (!first->is_piece && key->due > first->end)))
	{
		if (key->due != SX_STATE_NEVER && key->due > op->evict)
		{
			entry = state_key(op, &key->group, SX_SESSION_DUE, key->due);
			sx_state_remove(op->base.state, &entry);
		}
		key->due = first->is_piece ? first->start + 1 : first->end;
		entry = state_key(op, &key->group, SX_SESSION_DUE, key->due);
		sx_state_put(op->base.state, &entry, &entry_value, 1);
	}
	resetStringInfo(&op->value);
	sx_session_key_encode(key, &op->pieces, &op->value);
	sx_state_put(op->base.state, &state, op->value.data, op->value.len);
}

/* Has the processor fetch where the next keys will be put. */
static void
prefetch_keys(SessionOperator *op, uint32 first)
{
	SxStateKey	keys[PREFETCH_KEYS];
	uint32		end = Min(first + PREFETCH_KEYS, op->table->ngroups);
	int			n = 0;

	for (uint32 i = first; i < end; i++)
		keys[n++] = state_key(op, sx_group_table_get(op->table, i), SX_SESSION_KEYS,
							  SX_STATE_NEVER);
	sx_state_prefetch(op->base.state, n, keys);
}

static void
finish_touched(SessionOperator *op)
{
	SxOperatorProgress *progress = op->base.progress;

	for (uint32 i = 0; i < op->table->ngroups; i++)
	{
		SxSessionKey *key = (SxSessionKey *) sx_group_table_get(op->table, i);
		SxSession **closed;
		int			nclosed;

		if (i % PREFETCH_KEYS == 0)
		{
			CHECK_FOR_INTERRUPTS();
			prefetch_keys(op, i);
		}
		progress->rows_updated += sx_session_key_count(key);
		open_due_pieces(op, key);
		for (const SxSession *session = key->absorbed; session != NULL; session = session->next)
			progress->rows_removed++;
		if (op->base.mode == SX_OUTPUT_UPDATE)
		{
			SxSessionKey all = *key;

			nclosed = take_due(op, key, &closed);
			put_key(op, key);
			show_touched(op, &all);
		}
		else
		{
			nclosed = take_due(op, key, &closed);
			put_key(op, key);
			for (int c = 0; c < nclosed; c++)
				emit(op, key, closed[c]);
		}
		progress->rows_removed += nclosed;
		op->open += sx_session_key_count(key) - key->nstored;
	}
}

/* Keys of store 1 that are due: the scan must not call the state, so they are listed first. */
static bool
list_due(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	StringInfo	list = arg;

	CHECK_FOR_INTERRUPTS();
	appendBinaryStringInfo(list, (const char *) key, sizeof(*key));
	appendBinaryStringInfo(list, key->bytes, key->len);
	return list->len < LIST_BYTES;
}

/* A key that no row of the batch has touched, or one that was, and is dealt with. */
static void
close_key(SessionOperator *op, const SxStateKey *entry, const SxStateValue *value)
{
	SxSessionKey key = {.due = SX_STATE_NEVER};
	SxSession **closed;
	int			nclosed;

	key.group.group = entry->group;
	key.group.hash = entry->hash;
	key.group.key = entry->bytes;
	key.group.keylen = entry->len;
	sx_session_key_decode(&key, &op->form, value);
	if (key.due > op->evict)
		return;					/* it has another entry */
	open_due_pieces(op, &key);
	nclosed = take_due(op, &key, &closed);
	put_key(op, &key);
	if (op->base.mode == SX_OUTPUT_APPEND)
		for (int i = 0; i < nclosed; i++)
			emit(op, &key, closed[i]);
	op->base.progress->rows_removed += nclosed;
	op->open -= nclosed;
	SX_CRASH_POINT("sessions-close");
}

/* The next keys of the list, at most max; returns how many. */
static int
next_due(const char **at, const char *end, int max, SxStateKey *keys)
{
	int			n = 0;

	while (n < max && *at < end)
	{
		memcpy(&keys[n], *at, sizeof(SxStateKey));
		keys[n].bytes = *at + sizeof(SxStateKey);
		*at = keys[n].bytes + keys[n].len;
		n++;
	}
	return n;
}

/* remove: also from store 1. */
static void
close_some(SessionOperator *op, int n, const SxStateKey *entries, bool remove)
{
	SxStateKey *keys = palloc(n * sizeof(SxStateKey));
	SxStateValue *values = palloc(n * sizeof(SxStateValue));

	for (int i = 0; i < n; i++)
	{
		keys[i] = entries[i];
		keys[i].op = SX_STORE_ID(op->base.plan->id, SX_SESSION_KEYS);
		keys[i].expiry = SX_STATE_NEVER;
	}
	sx_state_get_many(op->base.state, n, keys, values);
	/* they are gone with the first put */
	for (int i = 0; i < n; i++)
	{
		const char *bytes = values[i].bytes;

		if (bytes == NULL)
			continue;
		values[i].bytes = MemoryContextAllocHuge(CurrentMemoryContext, values[i].len + 1);
		memcpy((char *) values[i].bytes, bytes, values[i].len);
	}
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (remove)
			sx_state_remove(op->base.state, &entries[i]);
		if (values[i].bytes != NULL)
			close_key(op, &keys[i], &values[i]);
	}
}

static void
close_listed(SessionOperator *op, const StringInfo list, MemoryContext memory, bool remove)
{
	int			max = op->waiting != NULL ? SX_FETCH_GROUPS : SX_CHUNK_ROWS;
	SxStateKey *entries = palloc(max * sizeof(SxStateKey));
	const char *at = list->data;
	int			n;

	while ((n = next_due(&at, list->data + list->len, max, entries)) > 0)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(memory);

		close_some(op, n, entries, remove);
		MemoryContextSwitchTo(oldcontext);
		MemoryContextReset(memory);
	}
	pfree(entries);
}

/* Usually one list; store 1 is then emptied by one record. */
static void
close_due(SessionOperator *op)
{
	uint16		by_time = SX_STORE_ID(op->base.plan->id, SX_SESSION_DUE);
	MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "streamx closing sessions",
												 ALLOCSET_DEFAULT_SIZES);
	StringInfoData list;
	bool		more;

	initStringInfo(&list);
	do
	{
		resetStringInfo(&list);
		sx_state_scan_groups(op->base.state, by_time, op->base.due_first, op->base.due_last, op->evict,
							 list_due, &list);
		more = list.len >= LIST_BYTES;
		close_listed(op, &list, memory, more);
	} while (more);
	pfree(list.data);
	MemoryContextDelete(memory);
	if (sx_operator_ends_due(&op->base))
		sx_state_expire(op->base.state, by_time, op->evict);
}

/* Keys, each with at least one session that closes. */
static int64
session_due(SxOperator *base)
{
	if (!base->plan->watermarked || base->evict == SX_TIME_UNSET)
		return 0;
	return sx_state_due(base->state, SX_STORE_ID(base->plan->id, SX_SESSION_DUE), base->evict);
}

/* An SxStateVisit: complete mode; a key or a piece of one. */
static bool
emit_stored(void *arg, const SxStateKey *state, const SxStateValue *value)
{
	SessionOperator *op = arg;
	SxSessionKey key = {.due = SX_STATE_NEVER};
	MemoryContext oldcontext = MemoryContextSwitchTo(op->scan);
	bool		is_piece = state->op == op->pieces.store;

	CHECK_FOR_INTERRUPTS();
	key.group.key = state->bytes;
	key.group.keylen = is_piece ? state->len - sizeof(uint64) : state->len;
	if (is_piece)
		sx_session_piece_decode(&key, &op->form, value);
	else
		sx_session_key_decode(&key, &op->form, value);
	for (int i = 0; i < key.n; i++)
		if (!key.sessions[i]->is_piece)
			emit(op, &key, key.sessions[i]);
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(op->scan);
	return true;
}

static void
emit_all(SessionOperator *op)
{
	op->scan = AllocSetContextCreate(op->context, "streamx sessions", ALLOCSET_DEFAULT_SIZES);
	sx_state_scan(op->base.state, op->base.plan->id, SX_STATE_NEVER, emit_stored, op);
	sx_state_scan(op->base.state, op->pieces.store, SX_STATE_NEVER, emit_stored, op);
	MemoryContextDelete(op->scan);
}

static void
session_finish(SxOperator *base)
{
	SessionOperator *op = (SessionOperator *) base;

	process_chunk(op);
	if (op->waiting != NULL)
		apply_waiting(op);
	finish_touched(op);
	if (op->evict != SX_TIME_UNSET)
		close_due(op);
	if (base->mode == SX_OUTPUT_COMPLETE)
		emit_all(op);
	put_books(op);
	base->state_rows = op->open;
	sx_agg_calls_end(op->calls);
}

const SxOperatorRoutine sx_session_routine = {
	.name = "session",
	.rows = SX_OPERATOR_TAKES,
	.open = session_open,
	.state_operators = session_state_operators,
	.begin = session_begin,
	.receive = session_receive,
	.finish = session_finish,
	.due = session_due,
	.explain = sx_aggregate_explain,
	.stores = sx_session_stores,
	.show_open = sx_session_show_open,
	.show = sx_session_show,
};
