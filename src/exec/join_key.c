/*
 * join_key.c
 *		See join_key.h; the bytes are described at the top of join.c.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/memutils.h"

#include "base/errors.h"
#include "exec/join_key.h"
#include "exec/operator.h"

#define VALUE_VERSION	1
#define FEW_KEYS		4096	/* at once, while all of the state is in memory */
#define FEW_ROWS		8		/* are looked at one by one, in no order */
#define PREFETCH_KEYS	32

SxGroupKey *
sx_join_side_key(const SxPlanSide *side)
{
	SxPlanOperator plan = {
		.nkeys = side->nkeys,
		.keys = side->keys,
		.time_key = -1,
	};

	return sx_group_key_make(&plan);
}

bool
sx_join_side_has_due(const SxPlanJoin *join, int side)
{
	return join->sides[side].expiry != 0 && !join->expiry_in_key;
}

uint64
sx_join_key_hash(const SxGroupKey *key, uint64 hash, const char *bytes, uint32 len)
{
	return key->bytewise ? hash_bytes_extended((const unsigned char *) bytes, len, 0) : hash;
}

static SxDatumCodec *
row_codecs(TupleDesc desc)
{
	SxDatumCodec *codecs = palloc((desc->natts + 1) * sizeof(SxDatumCodec));

	for (int i = 0; i < desc->natts; i++)
		sx_datum_codec_make(&codecs[i], TupleDescAttr(desc, i)->atttypid);
	return codecs;
}

SxJoinKeys *
sx_join_keys_make(const SxPlanOperator *plan)
{
	SxJoinKeys *keys = palloc0(sizeof(SxJoinKeys));

	keys->plan = plan;
	keys->key = sx_join_side_key(&plan->join->sides[0]);
	for (int s = 0; s < 2; s++)
		keys->codecs[s] = row_codecs(plan->join->sides[s].row);
	keys->state_keys = palloc(SX_JOIN_KEYS * sizeof(SxStateKey));
	keys->values = palloc(SX_JOIN_KEYS * sizeof(SxStateValue));
	keys->updates = palloc(SX_JOIN_KEYS * sizeof(SxUpdate));
	keys->asked_keys = palloc(SX_JOIN_KEYS * sizeof(SxJoinKey *));
	keys->asked_pages = palloc(SX_JOIN_KEYS * sizeof(SxJoinPage *));
	keys->asked_numbers = palloc(SX_JOIN_KEYS * sizeof(uint32));
	return keys;
}

/* Keys of pages and of loose rows end with a number. */
static bool
numbered_key_equal(void *arg, const char *a, uint32 alen, const char *b, uint32 blen)
{
	if (alen < SX_JOIN_NUMBER || blen < SX_JOIN_NUMBER ||
		memcmp(a + alen - SX_JOIN_NUMBER, b + blen - SX_JOIN_NUMBER, SX_JOIN_NUMBER) != 0)
		return false;
	return sx_group_key_equal(arg, a, alen - SX_JOIN_NUMBER, b, blen - SX_JOIN_NUMBER);
}

int
sx_join_keys_stores(const SxPlanOperator *plan, SxStateOperator *result)
{
	SxGroupKey *key = sx_join_side_key(&plan->join->sides[0]);

	StaticAssertStmt(SX_JOIN_STORES <= SX_MAX_STORES, "a join has more stores than an operator may have");
	for (int i = 0; i < SX_JOIN_STORES; i++)
	{
		bool		numbered = (i & ~1) == SX_JOIN_PAGES || i == SX_JOIN_LOOSE;

		result[i].id = SX_STORE_ID(plan->id, i);
		result[i].equal = key->bytewise || i == SX_JOIN_BOOKS ? NULL :
			numbered ? numbered_key_equal : sx_group_key_equal;
		result[i].equal_arg = key;
	}
	return SX_JOIN_STORES;
}

/* ---------- how many rows there are ---------- */

static SxStateKey
books_key(const SxJoinKeys *keys)
{
	SxStateKey	key = {.op = SX_STORE_ID(keys->plan->id, SX_JOIN_BOOKS),.expiry = SX_STATE_NEVER,.bytes = ""};

	return key;
}

static void
check_version(SxReader *in)
{
	if (*sx_read_bytes(in, 1) != VALUE_VERSION)
		ereport(ERROR,
				(errcode(ERRCODE_SX_CHECKPOINT),
				 errmsg("state of a join has an unknown version"),
				 errhint("It was written by a newer version of streamx.")));
}

static void
read_books(SxJoinKeys *keys)
{
	SxStateKey	key = books_key(keys);
	SxStateValue value;

	keys->rows = 0;
	sx_state_get_many(keys->state, 1, &key, &value);
	if (value.bytes != NULL)
	{
		SxReader	in = {value.bytes, value.bytes + value.len};

		check_version(&in);
		keys->rows = sx_read_varint(&in);
	}
	keys->rows_before = keys->rows;
}

void
sx_join_keys_finish(SxJoinKeys *keys)
{
	SxStateKey	key = books_key(keys);

	if (keys->rows == keys->rows_before)
		return;
	resetStringInfo(&keys->bytes);
	appendStringInfoCharMacro(&keys->bytes, VALUE_VERSION);
	sx_varint_append(&keys->bytes, keys->rows);
	sx_state_put(keys->state, &key, keys->bytes.data, keys->bytes.len);
}

/* ---------- a round ---------- */

void
sx_join_keys_begin(SxJoinKeys *keys, SxState *state)
{
	keys->state = state;
	keys->scanned = AllocSetContextCreate(CurrentMemoryContext, "streamx join row",
										  ALLOCSET_DEFAULT_SIZES);
	keys->round = GenerationContextCreate(CurrentMemoryContext, "streamx join round", ALLOCSET_DEFAULT_SIZES);
	keys->table = NULL;
	keys->passing = false;
	initStringInfo(&keys->bytes);
	if (state == NULL)
		return;
	read_books(keys);
	/* a store sorts what is asked of it at once, and reads each of its blocks once */
	keys->limit = sx_state_is_cold(state, SX_STORE_ID(keys->plan->id, SX_JOIN_LISTS)) ||
		sx_state_is_cold(state, SX_STORE_ID(keys->plan->id, SX_JOIN_LISTS + 1)) ? SX_JOIN_KEYS : FEW_KEYS;
}

void
sx_join_keys_find(SxJoinKeys *keys, int n, const SxUpdate *updates, const char *bytes,
				  SxJoinKey **result)
{
	uint32		first;

	if (keys->table == NULL)
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(keys->round);

		keys->table = sx_group_table_make(keys->key, MAXALIGN(sizeof(SxJoinKey)));
		MemoryContextSwitchTo(oldcontext);
	}
	first = keys->table->ngroups;
	if (n == 0)
		return;
	sx_group_table_find(keys->table, n, updates, bytes, (SxGroup **) result);
	for (uint32 i = first; i < keys->table->ngroups; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);

		memset(key->sides, 0, sizeof(key->sides));
		sx_join_list_init(&key->sides[0].list);
		sx_join_list_init(&key->sides[1].list);
	}
}

static SxStateKey
list_key(const SxJoinKeys *keys, int side, const SxJoinKey *key)
{
	SxStateKey	result = {
		.op = SX_STORE_ID(keys->plan->id, SX_JOIN_LISTS + side),
		.group = key->group.group,
		.hash = key->group.hash,
		.expiry = key->group.expiry,
		.bytes = key->group.key,
		.len = key->group.keylen,
	};

	return result;
}

void
sx_join_keys_list(SxJoinKeys *keys, int s, int n, SxJoinKey *const *wanted)
{
	int			nasked = 0;

	for (int i = 0; i < n; i++)
	{
		if (wanted[i]->sides[s].listed)
			continue;
		wanted[i]->sides[s].listed = true;	/* once, if it is wanted twice */
		keys->state_keys[nasked] = list_key(keys, s, wanted[i]);
		keys->asked_keys[nasked++] = wanted[i];
	}
	if (nasked == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	sx_state_get_many(keys->state, nasked, keys->state_keys, keys->values);
	for (int i = 0; i < nasked; i++)
	{
		SxJoinKeySide *side = &keys->asked_keys[i]->sides[s];
		SxReader	in = {keys->values[i].bytes, keys->values[i].bytes + keys->values[i].len};

		side->was_there = keys->values[i].bytes != NULL;
		if (!side->was_there)
			continue;
		check_version(&in);
		sx_join_list_decode(&side->list, &in, keys->round);
	}
}

/* Of both: keys->bytes was emptied before the first; bytes are set when all are there. */
static SxStateKey
page_key(SxJoinKeys *keys, int s, const SxJoinKey *key, const SxJoinPage *page)
{
	SxStateKey	result = list_key(keys, s, key);

	result.op = SX_STORE_ID(keys->plan->id, SX_JOIN_PAGES + s);
	result.len += SX_JOIN_NUMBER;
	appendBinaryStringInfo(&keys->bytes, key->group.key, key->group.keylen);
	appendBinaryStringInfo(&keys->bytes, (const char *) &page->number, SX_JOIN_NUMBER);
	return result;
}

static void
set_bytes(SxJoinKeys *keys, int n)
{
	const char *at = keys->bytes.data;

	for (int i = 0; i < n; i++)
	{
		keys->state_keys[i].bytes = at;
		at += keys->state_keys[i].len;
	}
}

/* asked_pages, of asked_keys; asked_numbers are their places in the list. */
void
sx_join_keys_read_pages(SxJoinKeys *keys, int s, int n)
{
	if (n == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	resetStringInfo(&keys->bytes);
	for (int i = 0; i < n; i++)
		keys->state_keys[i] = page_key(keys, s, keys->asked_keys[i], keys->asked_pages[i]);
	set_bytes(keys, n);
	sx_state_get_many(keys->state, n, keys->state_keys, keys->values);
	for (int i = 0; i < n; i++)
	{
		SxReader	in = {keys->values[i].bytes, keys->values[i].bytes + keys->values[i].len};

		if (keys->values[i].bytes == NULL)
			ereport(ERROR,
					(errcode(ERRCODE_SX_CHECKPOINT),
					 errmsg("state of a join lacks rows that it lists")));
		check_version(&in);
		sx_join_page_decode(keys->asked_pages[i], keys->asked_numbers[i], &in, keys->round);
	}
}

/* ---------- what new rows need ---------- */

/* The pages of one side that are wanted: by its span, or, if wanted is false, to add rows to. */
static void
read_pages(SxJoinKeys *keys, int s, bool wanted)
{
	int			nasked = 0;

	for (uint32 i = 0; i < keys->table->ngroups; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);
		SxJoinKeySide *side = &key->sides[s];
		SxJoinPage *last = sx_join_list_last(&side->list);

		for (int p = 0; p < side->list.npages; p++)
		{
			SxJoinPage *page = &side->list.pages[p];

			if (page->read ||
				!(wanted ? side->wanted && sx_join_page_may_have(page, &side->span) : page == last))
				continue;
			if (nasked == SX_JOIN_KEYS)
			{
				sx_join_keys_read_pages(keys, s, nasked);
				nasked = 0;
			}
			page->read = true;
			keys->asked_keys[nasked] = key;
			keys->asked_numbers[nasked] = p + 1;
			keys->asked_pages[nasked++] = page;
		}
	}
	sx_join_keys_read_pages(keys, s, nasked);
}

typedef SxJoinRow *RowPointer;

static inline int
compare_rows(const RowPointer *a, const RowPointer *b)
{
	return (*a)->expiry < (*b)->expiry ? -1 : (*a)->expiry > (*b)->expiry;
}

#define ST_SORT sort_rows
#define ST_ELEMENT_TYPE RowPointer
#define ST_COMPARE(a, b) compare_rows(a, b)
#define ST_SCOPE static
#define ST_DEFINE
#include "lib/sort_template.h"

/* Rows that can match, so that a new one needn't look at all of them. */
static void
gather_rows(SxJoinKeys *keys, SxJoinKeySide *side)
{
	int64		room = 0;

	for (int p = 0; p <= side->list.npages; p++)
	{
		SxJoinPage *page = sx_join_list_page(&side->list, p);

		if (page->read && sx_join_page_may_have(page, &side->span))
			room += page->nrows;
	}
	if (room == 0)
		return;
	side->found = MemoryContextAllocHuge(keys->round, room * sizeof(SxJoinRow *));
	for (int p = 0; p <= side->list.npages; p++)
	{
		SxJoinPage *page = sx_join_list_page(&side->list, p);

		if (!page->read || !sx_join_page_may_have(page, &side->span))
			continue;
		for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
			if (sx_join_span_has(&side->span, row->expiry))
				side->found[side->nfound++] = row;
	}
	if (side->nfound <= FEW_ROWS)
	{
		side->nnever = side->nfound;	/* each of them is looked at */
		return;
	}
	sort_rows(side->found, side->nfound);
	while (side->nnever < side->nfound &&
		   side->found[side->nfound - side->nnever - 1]->expiry == SX_STATE_NEVER)
		side->nnever++;
}

static void
want(SxJoinKeySide *side, const SxJoinSpan *span)
{
	if (!side->wanted)
		side->span = *span;
	side->wanted = true;
	side->span.from = Min(side->span.from, span->from);
	side->span.to = Max(side->span.to, span->to);
}

void
sx_join_keys_fetch(SxJoinKeys *keys, int s, int n, const SxJoinNew *rows)
{
	uint32		ngroups = keys->table->ngroups;
	SxJoinKey **all = MemoryContextAlloc(keys->round, (ngroups + 1) * sizeof(SxJoinKey *));

	for (uint32 i = 0; i < ngroups; i++)
		all[i] = (SxJoinKey *) sx_group_table_get(keys->table, i);
	for (int i = 0; i < n; i++)
		want(&rows[i].key->sides[1 - s], &rows[i].wants);
	sx_join_keys_list(keys, 1 - s, ngroups, all);
	sx_join_keys_list(keys, s, ngroups, all);
	read_pages(keys, 1 - s, true);
	read_pages(keys, s, false);
	keys->found = 0;
	for (uint32 i = 0; i < ngroups; i++)
	{
		gather_rows(keys, &all[i]->sides[1 - s]);
		keys->found += all[i]->sides[1 - s].nfound;
	}
}

/* ---------- changes ---------- */

void
sx_join_keys_add(SxJoinKeys *keys, int s, const SxJoinNew *new, const Datum *values, const bool *nulls)
{
	SxJoinKeySide *side = &new->key->sides[s];
	SxJoinRow  *row;
	char	   *bytes;

	if (new->gone)
		return;
	resetStringInfo(&keys->bytes);
	sx_row_encode(keys->codecs[s], keys->plan->join->sides[s].row->natts, &keys->bytes, values, nulls);
	row = MemoryContextAllocHuge(keys->round, sizeof(SxJoinRow) + keys->bytes.len);
	memset(row, 0, sizeof(SxJoinRow));
	bytes = (char *) (row + 1);
	memcpy(bytes, keys->bytes.data, keys->bytes.len);
	row->bytes = bytes;
	row->len = keys->bytes.len;
	row->expiry = new->expiry;
	row->flags = new->flags;
	sx_join_list_add(&side->list, row, keys->round);
	side->changed = true;
	if (new->flags & SX_ROW_PASSING)
		keys->passing = true;
	else
		keys->rows++;
}

void
sx_join_keys_change(SxJoinKeys *keys, SxJoinKey *key, int s, SxJoinRow *row)
{
	SxJoinKeySide *side = &key->sides[s];

	sx_join_list_page(&side->list, row->page)->changed = true;
	side->changed = true;
	if (row->gone && !(row->flags & SX_ROW_PASSING))
		keys->rows--;
}

static void
put_or_remove(SxJoinKeys *keys, const SxStateKey *key, int value, bool live)
{
	if (live)
		sx_state_put(keys->state, key, keys->bytes.data + value, keys->bytes.len - value);
	else
		sx_state_remove(keys->state, key);
}

static void
put_page(SxJoinKeys *keys, int s, const SxJoinKey *key, const SxJoinPage *page)
{
	SxStateKey	state_key;
	int			value;

	resetStringInfo(&keys->bytes);
	state_key = page_key(keys, s, key, page);
	value = keys->bytes.len;
	appendStringInfoCharMacro(&keys->bytes, VALUE_VERSION);
	sx_join_page_encode(page, &keys->bytes);
	state_key.bytes = keys->bytes.data;
	put_or_remove(keys, &state_key, value, page->nrows > 0);
}

/*
 * The key is looked at when the first of its rows goes. An entry that says so before
 * that stays where it is: it is dropped when it has come due.
 */
static void
put_due(SxJoinKeys *keys, int s, const SxJoinKey *key)
{
	static const char version = VALUE_VERSION;
	SxJoinList *list = (SxJoinList *) &key->sides[s].list;
	int64		due = sx_due_bucket(sx_join_list_earliest(list));
	SxStateKey	state_key = list_key(keys, s, key);

	if (due == SX_DUE_NEVER || due >= list->due)
		return;
	list->due = due;
	state_key.op = SX_STORE_ID(keys->plan->id, SX_JOIN_DUE + s);
	state_key.expiry = sx_due_end(due);
	sx_state_put(keys->state, &state_key, &version, 1);
}

static void
put_list(SxJoinKeys *keys, int s, SxJoinKey *key)
{
	SxJoinKeySide *side = &key->sides[s];
	SxStateKey	state_key = list_key(keys, s, key);
	bool		live = false;

	for (int i = 0; i <= side->list.npages; i++)
	{
		SxJoinPage *page = sx_join_list_page(&side->list, i);

		if (page->changed && page->read)
			sx_join_page_sweep(page);
		live |= page->nrows > 0;
		if (i > 0 && page->changed && (page->nrows > 0 || page->was_there))
			put_page(keys, s, key, page);
	}
	if (live && sx_join_side_has_due(keys->plan->join, s))
		put_due(keys, s, key);
	if (!live && !side->was_there)
		return;
	resetStringInfo(&keys->bytes);
	appendStringInfoCharMacro(&keys->bytes, VALUE_VERSION);
	sx_join_list_encode(&side->list, &keys->bytes);
	put_or_remove(keys, &state_key, 0, live);
}

static void
prefetch_lists(SxJoinKeys *keys, uint32 first)
{
	SxStateKey	state_keys[2 * PREFETCH_KEYS];
	uint32		end = Min(first + PREFETCH_KEYS, keys->table->ngroups);
	int			n = 0;

	for (uint32 i = first; i < end; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);

		for (int s = 0; s < 2; s++)
			if (key->sides[s].changed)
				state_keys[n++] = list_key(keys, s, key);
	}
	sx_state_prefetch(keys->state, n, state_keys);
}

void
sx_join_keys_put(SxJoinKeys *keys)
{
	for (uint32 i = 0; keys->table != NULL && i < keys->table->ngroups; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);

		if (i % PREFETCH_KEYS == 0)
		{
			CHECK_FOR_INTERRUPTS();
			prefetch_lists(keys, i);
		}
		for (int s = 0; s < 2; s++)
			if (key->sides[s].changed)
				put_list(keys, s, key);
	}
	keys->table = NULL;
	MemoryContextReset(keys->round);
}

void
sx_join_keys_put_loose(SxJoinKeys *keys, int s, const SxStateKey *key, const Datum *values, const bool *nulls)
{
	SxJoinPage	page = {.nrows = 1};
	SxJoinRow	row = {.expiry = key->expiry};
	StringInfoData value;

	resetStringInfo(&keys->bytes);
	sx_row_encode(keys->codecs[s], keys->plan->join->sides[s].row->natts, &keys->bytes, values, nulls);
	row.bytes = keys->bytes.data;
	row.len = keys->bytes.len;
	page.rows = &row;
	initStringInfo(&value);
	appendStringInfoCharMacro(&value, VALUE_VERSION);
	sx_join_page_encode(&page, &value);
	sx_state_put(keys->state, key, value.data, value.len);
	pfree(value.data);
	keys->rows++;
}

/* ---------- rows ---------- */

int
sx_join_loose_side(const SxStateKey *key)
{
	uint64		number;

	if (key->len < SX_JOIN_NUMBER)
		sx_reader_short();
	memcpy(&number, key->bytes + key->len - SX_JOIN_NUMBER, SX_JOIN_NUMBER);
	return number >> 63;
}

SxReader
sx_join_entry_rows(const SxStateKey *key, const SxStateValue *value)
{
	SxReader	in = {value->bytes, value->bytes + value->len};
	uint64		npages;

	check_version(&in);
	if (key->op >> 8 > SX_JOIN_LISTS + 1)
		return in;
	sx_read_varint(&in);
	sx_read_varint(&in);
	npages = sx_read_varint(&in);
	for (uint64 i = 0; i < 4 * npages; i++)
		sx_read_varint(&in);
	return in;
}

static void
load_row(SxJoinKeys *keys, int s, SxJoinRow *row, MemoryContext context)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	int			natts = keys->plan->join->sides[s].row->natts;
	SxReader	in = {row->bytes, row->bytes + row->len};

	row->values = palloc(natts * (sizeof(Datum) + sizeof(bool)) + 1);
	row->nulls = (bool *) (row->values + natts);
	sx_row_decode(keys->codecs[s], natts, &in, row->values, row->nulls);
	MemoryContextSwitchTo(oldcontext);
}

void
sx_join_row_load(SxJoinKeys *keys, int s, SxJoinRow *row)
{
	if (row->values == NULL)
		load_row(keys, s, row, keys->round);
}

void
sx_join_row_scan(SxJoinKeys *keys, int s, SxJoinRow *row)
{
	load_row(keys, s, row, keys->scanned);
}

void
sx_join_row_free(SxJoinKeys *keys)
{
	MemoryContextReset(keys->scanned);
}
