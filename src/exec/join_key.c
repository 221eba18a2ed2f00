/*
 * join_key.c
 *		See join_key.h; the bytes are described at the top of join.c.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "utils/datum.h"
#include "utils/memutils.h"

#include "base/errors.h"
#include "exec/join_key.h"
#include "exec/operator.h"
#include "time/watermark.h"

#define VALUE_VERSION	1
#define FLAG_MATCHED	1
#define NUMBER_BYTES	sizeof(uint64)

/* Stores of a side, by the side: its rows, their lists, pages of these. */
#define STORE_ROWS		0
#define STORE_LISTS		2
#define STORE_PAGES		4
#define STORES			6

struct SxJoinKeys
{
	const SxPlanOperator *plan;
	SxGroupKey *key;			/* of the left side; the bytes are the same for both */
	SxDatumCodec *codecs[2];	/* of the sides' rows */

	/* SX_JOIN_KEYS of each: what is asked of the state at once */
	SxStateKey *state_keys;
	SxStateValue *values;
	SxUpdate   *updates;
	SxJoinKey **wanted;
	SxJoinKey **asked_keys;
	SxJoinPage **asked_pages;
	SxJoinRow **asked_rows;

	/* per batch */
	SxState    *state;
	MemoryContext context;
	MemoryContext scanned;		/* a row that a scan shows */
	SxGroupTable *table;
	StringInfoData bytes;		/* of keys and values on their way */
};

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
	keys->wanted = palloc(SX_JOIN_KEYS * sizeof(SxJoinKey *));
	keys->asked_keys = palloc(SX_JOIN_KEYS * sizeof(SxJoinKey *));
	keys->asked_pages = palloc(SX_JOIN_KEYS * sizeof(SxJoinPage *));
	keys->asked_rows = palloc(SX_JOIN_KEYS * sizeof(SxJoinRow *));
	return keys;
}

/* Keys of rows and pages end with a number. */
static bool
numbered_key_equal(void *arg, const char *a, uint32 alen, const char *b, uint32 blen)
{
	if (alen < NUMBER_BYTES || blen < NUMBER_BYTES ||
		memcmp(a + alen - NUMBER_BYTES, b + blen - NUMBER_BYTES, NUMBER_BYTES) != 0)
		return false;
	return sx_group_key_equal(arg, a, alen - NUMBER_BYTES, b, blen - NUMBER_BYTES);
}

int
sx_join_keys_stores(const SxPlanOperator *plan, SxStateOperator *result)
{
	SxGroupKey *key = sx_join_side_key(&plan->join->sides[0]);

	StaticAssertStmt(STORES <= SX_MAX_STORES, "a join has more stores than an operator may have");
	for (int i = 0; i < STORES; i++)
	{
		bool		is_list = i == STORE_LISTS || i == STORE_LISTS + 1;

		result[i].id = SX_STORE_ID(plan->id, i);
		result[i].equal = key->bytewise ? NULL : is_list ? sx_group_key_equal : numbered_key_equal;
		result[i].equal_arg = key;
	}
	return STORES;
}

void
sx_join_keys_begin(SxJoinKeys *keys, SxState *state)
{
	keys->state = state;
	/* nothing of it is freed before the end, so that chunks needn't be of sizes that fit others */
	keys->context = GenerationContextCreate(CurrentMemoryContext, "streamx join rows", ALLOCSET_DEFAULT_SIZES);
	keys->scanned = AllocSetContextCreate(CurrentMemoryContext, "streamx join row",
										  ALLOCSET_DEFAULT_SIZES);
	keys->table = sx_group_table_make(keys->key, MAXALIGN(sizeof(SxJoinKey)));
	initStringInfo(&keys->bytes);
}

void
sx_join_keys_find(SxJoinKeys *keys, int n, const SxUpdate *updates, const char *bytes,
				  SxJoinKey **result)
{
	uint32		first = keys->table->ngroups;

	if (n == 0)
		return;
	sx_group_table_find(keys->table, n, updates, bytes, (SxGroup **) result);
	for (uint32 i = first; i < keys->table->ngroups; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);

		memset(key->sides, 0, sizeof(key->sides));
	}
}

static SxStateKey
list_key(const SxJoinKeys *keys, int side, const SxJoinKey *key)
{
	SxStateKey	result = {
		.op = SX_STORE_ID(keys->plan->id, STORE_LISTS + side),
		.group = key->group.group,
		.hash = key->group.hash,
		.expiry = key->group.expiry,
		.bytes = key->group.key,
		.len = key->group.keylen,
	};

	return result;
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
read_list(SxJoinKeys *keys, int s, SxJoinKey *key, const SxStateValue *value)
{
	SxJoinKeySide *side = &key->sides[s];
	SxReader	in = {value->bytes, value->bytes + value->len};

	side->was_there = value->bytes != NULL;
	if (!side->was_there)
		return;
	check_version(&in);
	sx_join_list_decode(&side->list, &in, key, s, keys->context);
}

static void
fetch_lists(SxJoinKeys *keys, int s, int n, SxJoinKey *const *wanted)
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
		read_list(keys, s, keys->asked_keys[i], &keys->values[i]);
}

/* Appends the bytes of a key with a number to keys->bytes. */
static void
append_numbered(SxJoinKeys *keys, const char *bytes, uint32 len, uint64 number)
{
	appendBinaryStringInfo(&keys->bytes, bytes, len);
	appendBinaryStringInfo(&keys->bytes, (const char *) &number, NUMBER_BYTES);
}

/* Of both: keys->bytes was emptied before the first; bytes are set when all are there. */
static SxStateKey
page_key(SxJoinKeys *keys, int s, const SxJoinKey *key, const SxJoinPage *page)
{
	SxStateKey	result = list_key(keys, s, key);

	result.op = SX_STORE_ID(keys->plan->id, STORE_PAGES + s);
	result.len += NUMBER_BYTES;
	append_numbered(keys, key->group.key, key->group.keylen, page->number);
	return result;
}

static SxStateKey
row_key(SxJoinKeys *keys, const SxJoinRow *row)
{
	SxStateKey	key = {.op = SX_STORE_ID(keys->plan->id, STORE_ROWS + row->side),.expiry = row->expiry};
	int			before = keys->bytes.len;

	if (row->key != NULL)
	{
		key.hash = row->key->group.hash;
		append_numbered(keys, row->key->group.key, row->key->group.keylen, row->number);
	}
	else
	{
		key.hash = row->loose->hash;
		append_numbered(keys, row->loose->bytes, row->loose->len, row->number);
	}
	key.group = key.hash % SX_KEY_GROUPS;
	key.len = keys->bytes.len - before;
	return key;
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

static void
refuse_damaged(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_CHECKPOINT),
			 errmsg("state of a join lacks rows that it lists")));
}

/* Pages of these keys; asked_keys[i] is that of asked_pages[i]. */
static void
fetch_pages(SxJoinKeys *keys, int s, int n)
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
			refuse_damaged();
		check_version(&in);
		sx_join_page_decode(keys->asked_pages[i], &in, keys->asked_keys[i], s, keys->context);
	}
}

static void
decode_row(SxJoinKeys *keys, int s, const SxStateValue *value, SxJoinRow *row)
{
	int			natts = keys->plan->join->sides[s].row->natts;
	SxReader	in = {value->bytes, value->bytes + value->len};

	check_version(&in);
	row->matched = (*sx_read_bytes(&in, 1) & FLAG_MATCHED) != 0;
	row->values = palloc((natts + 1) * sizeof(Datum));
	row->nulls = palloc((natts + 1) * sizeof(bool));
	sx_row_decode(keys->codecs[s], natts, &in, row->values, row->nulls);
}

static void
fetch_rows(SxJoinKeys *keys, int s, int n)
{
	MemoryContext oldcontext;

	if (n == 0)
		return;
	CHECK_FOR_INTERRUPTS();
	resetStringInfo(&keys->bytes);
	for (int i = 0; i < n; i++)
		keys->state_keys[i] = row_key(keys, keys->asked_rows[i]);
	set_bytes(keys, n);
	sx_state_get_many(keys->state, n, keys->state_keys, keys->values);
	oldcontext = MemoryContextSwitchTo(keys->context);
	for (int i = 0; i < n; i++)
	{
		if (keys->values[i].bytes == NULL)
			refuse_damaged();
		decode_row(keys, s, &keys->values[i], keys->asked_rows[i]);
	}
	MemoryContextSwitchTo(oldcontext);
}

/* Each key once, with all that its new rows want; returns how many. */
static int
gather_wanted(SxJoinKeys *keys, int s, int n, SxJoinRow *const *rows)
{
	int			nwanted = 0;

	for (int i = 0; i < n; i++)
	{
		SxJoinKeySide *side = &rows[i]->key->sides[s];

		if (side->wanted)
		{
			side->span.from = Min(side->span.from, rows[i]->wants.from);
			side->span.to = Max(side->span.to, rows[i]->wants.to);
			continue;
		}
		side->wanted = true;
		side->span = rows[i]->wants;
		keys->wanted[nwanted++] = rows[i]->key;
	}
	return nwanted;
}

static void
fetch_wanted_pages(SxJoinKeys *keys, int s, int nwanted)
{
	int			nasked = 0;

	for (int i = 0; i < nwanted; i++)
	{
		SxJoinKeySide *side = &keys->wanted[i]->sides[s];

		for (int p = 0; p < side->list.npages; p++)
		{
			SxJoinPage *page = &side->list.pages[p];

			if (page->read || !sx_join_page_may_have(page, &side->span))
				continue;
			if (nasked == SX_JOIN_KEYS)
			{
				fetch_pages(keys, s, nasked);
				nasked = 0;
			}
			keys->asked_keys[nasked] = keys->wanted[i];
			keys->asked_pages[nasked++] = page;
		}
	}
	fetch_pages(keys, s, nasked);
}

void
sx_join_keys_fetch(SxJoinKeys *keys, int s, int n, SxJoinRow *const *rows)
{
	int			nwanted = gather_wanted(keys, s, n, rows);
	int			nasked = 0;

	fetch_lists(keys, s, nwanted, keys->wanted);
	fetch_wanted_pages(keys, s, nwanted);
	for (int i = 0; i < nwanted; i++)
	{
		SxJoinKeySide *side = &keys->wanted[i]->sides[s];

		side->wanted = false;
		for (int p = 0; p < side->list.npages; p++)
		{
			SxJoinPage *page = &side->list.pages[p];

			if (!sx_join_page_may_have(page, &side->span))
				continue;
			for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
			{
				if (row->asked || !sx_join_span_has(&side->span, row->expiry))
					continue;
				row->asked = true;
				if (nasked == SX_JOIN_KEYS)
				{
					fetch_rows(keys, s, nasked);
					nasked = 0;
				}
				keys->asked_rows[nasked++] = row;
			}
		}
	}
	fetch_rows(keys, s, nasked);
}

static void
put_row(SxJoinKeys *keys, const SxJoinRow *row)
{
	SxStateKey	key;
	int			value;

	resetStringInfo(&keys->bytes);
	key = row_key(keys, row);
	value = keys->bytes.len;
	appendStringInfoChar(&keys->bytes, VALUE_VERSION);
	appendStringInfoChar(&keys->bytes, row->matched ? FLAG_MATCHED : 0);
	sx_row_encode(keys->codecs[row->side], keys->plan->join->sides[row->side].row->natts,
				  &keys->bytes, row->values, row->nulls);
	key.bytes = keys->bytes.data;
	sx_state_put(keys->state, &key, keys->bytes.data + value, keys->bytes.len - value);
}

int64
sx_join_keys_put(SxJoinKeys *keys, int s, SxJoinRow *rows)
{
	int64		nrows = 0;

	while (rows != NULL)
	{
		int			n = 0;
		int			nwanted = 0;
		SxJoinRow  *row;

		for (row = rows; row != NULL && n < SX_JOIN_KEYS; row = row->link, n++)
			if (row->key != NULL)
				keys->wanted[nwanted++] = row->key;
		fetch_lists(keys, s, nwanted, keys->wanted);
		for (row = rows; n > 0; row = row->link, n--)
		{
			row->side = s;
			if (row->key != NULL)
			{
				sx_join_list_add(&row->key->sides[s].list, row, keys->context);
				row->key->sides[s].changed = true;
			}
			put_row(keys, row);
			nrows++;
		}
		rows = row;
	}
	return nrows;
}

void
sx_join_keys_change(SxJoinKeys *keys, SxJoinRow *row)
{
	SxJoinKeySide *side = &row->key->sides[row->side];
	SxStateKey	key;

	if (!row->gone)
	{
		put_row(keys, row);
		return;
	}
	resetStringInfo(&keys->bytes);
	key = row_key(keys, row);
	key.bytes = keys->bytes.data;
	sx_state_remove(keys->state, &key);
	sx_join_page_find(&side->list, row->number)->changed = true;
	side->changed = true;
}

/* Finds the keys of rows of the state, as far as they have lists; returns how many. */
static int
find_keys_of(SxJoinKeys *keys, int n, const SxStateKey *rows, const char *buffer, uint64 *numbers)
{
	int			nulls = (keys->plan->nkeys + 7) / 8;
	int			nfound = 0;

	for (int i = 0; i < n; i++)
	{
		SxUpdate   *update = &keys->updates[nfound];
		bool		listed = true;

		for (int j = 0; j < nulls; j++)
			listed &= rows[i].bytes[j] == 0;	/* a NULL in it: on no list */
		if (!listed)
			continue;
		update->expiry = SX_STATE_NEVER;
		update->group = rows[i].group;
		update->key = rows[i].bytes - buffer;
		update->keylen = rows[i].len - NUMBER_BYTES;
		update->hash = sx_join_key_hash(keys->key, rows[i].hash, rows[i].bytes, update->keylen);
		memcpy(&numbers[nfound++], rows[i].bytes + update->keylen, NUMBER_BYTES);
	}
	sx_join_keys_find(keys, nfound, keys->updates, buffer, keys->wanted);
	return nfound;
}

/*
 * A page that goes as a whole needn't be read. Else each of its rows is marked.
 */
static void
forget_row(SxJoinKeySide *side, uint64 number)
{
	SxJoinPage *page = sx_join_page_find(&side->list, number);

	if (page == NULL || page->gone)
		return;
	for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
		if (row->number == number)
			row->gone = true;
	page->changed = true;
	side->changed = true;
}

void
sx_join_keys_forget(SxJoinKeys *keys, int s, int n, const SxStateKey *rows, const char *buffer,
					TimestampTz evict)
{
	uint64	   *numbers = palloc(n * sizeof(uint64));
	int			nasked = 0;

	n = find_keys_of(keys, n, rows, buffer, numbers);
	fetch_lists(keys, s, n, keys->wanted);
	for (int i = 0; i < n; i++)
	{
		SxJoinKeySide *side = &keys->wanted[i]->sides[s];
		SxJoinPage *page = sx_join_page_find(&side->list, numbers[i]);

		if (page == NULL || page->read || page->gone)
			continue;
		if (page->span.to <= evict)
		{
			page->gone = true;
			side->changed = true;
			continue;
		}
		page->read = true;		/* once, if several of its rows go */
		keys->asked_keys[nasked] = keys->wanted[i];
		keys->asked_pages[nasked++] = page;
	}
	fetch_pages(keys, s, nasked);
	for (int i = 0; i < n; i++)
		forget_row(&keys->wanted[i]->sides[s], numbers[i]);
	pfree(numbers);
}

/* Full pages have entries of their own; the last one lies in the list. */
static void
put_page(SxJoinKeys *keys, int s, const SxJoinKey *key, const SxJoinPage *page, bool live)
{
	SxStateKey	state_key;
	int			value;

	resetStringInfo(&keys->bytes);
	state_key = page_key(keys, s, key, page);
	value = keys->bytes.len;
	if (live)
	{
		appendStringInfoChar(&keys->bytes, VALUE_VERSION);
		sx_join_page_encode(page, &keys->bytes);
	}
	state_key.bytes = keys->bytes.data;
	if (live)
		sx_state_put(keys->state, &state_key, keys->bytes.data + value, keys->bytes.len - value);
	else
		sx_state_remove(keys->state, &state_key);
}

static void
put_list(SxJoinKeys *keys, int s, const SxJoinKey *key)
{
	const SxJoinKeySide *side = &key->sides[s];
	SxStateKey	state_key = list_key(keys, s, key);
	bool		any = false;

	for (int i = 0; i < side->list.npages; i++)
	{
		const SxJoinPage *page = &side->list.pages[i];
		bool		live = sx_join_page_is_live(page);

		any |= live;
		if (sx_join_page_is_last(&side->list, page))
			continue;
		if (live ? page->changed || !page->was_there : page->was_there)
			put_page(keys, s, key, page, live);
	}
	resetStringInfo(&keys->bytes);
	appendStringInfoChar(&keys->bytes, VALUE_VERSION);
	sx_join_list_encode(&side->list, &keys->bytes);
	if (any)
		sx_state_put(keys->state, &state_key, keys->bytes.data, keys->bytes.len);
	else if (side->was_there)
		sx_state_remove(keys->state, &state_key);
}

void
sx_join_keys_finish(SxJoinKeys *keys, TimestampTz evict)
{
	for (uint32 i = 0; i < keys->table->ngroups; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);

		if (evict != SX_TIME_UNSET && key->group.expiry <= evict)
			continue;
		for (int s = 0; s < 2; s++)
			if (key->sides[s].changed)
				put_list(keys, s, key);
	}
}

SxJoinRow *
sx_join_row_copy(SxJoinKeys *keys, const SxPlanSide *side, const SxChunk *chunk, int row)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(keys->context);
	int			natts = side->row->natts;
	Size		size = MAXALIGN(sizeof(SxJoinRow));
	SxJoinRow  *result = palloc(size + natts * (sizeof(Datum) + sizeof(bool)));

	memset(result, 0, sizeof(SxJoinRow));
	result->values = (Datum *) ((char *) result + size);
	result->nulls = (bool *) (result->values + natts);
	for (int i = 0; i < natts; i++)
	{
		const SxChunkColumn *column = sx_chunk_column(chunk, i + 1);

		result->nulls[i] = column->nulls[row];
		result->values[i] = column->nulls[row] ? (Datum) 0 :
			datumCopy(column->values[row], column->byval, column->typlen);
	}
	MemoryContextSwitchTo(oldcontext);
	return result;
}

bool
sx_join_value_matched(const SxStateValue *value)
{
	SxReader	in = {value->bytes, value->bytes + value->len};

	check_version(&in);
	return (*sx_read_bytes(&in, 1) & FLAG_MATCHED) != 0;
}

SxJoinRow *
sx_join_row_decode(SxJoinKeys *keys, int s, const SxStateValue *value)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(keys->scanned);
	SxJoinRow  *row = palloc0(sizeof(SxJoinRow));

	decode_row(keys, s, value, row);
	MemoryContextSwitchTo(oldcontext);
	return row;
}

void
sx_join_row_free(SxJoinKeys *keys)
{
	MemoryContextReset(keys->scanned);
}
