/*
 * join_due.c
 *		Rows of a join that the watermark has passed.
 *
 *	 the key decides when its rows go: lists and pages with that expiry are seen
 *		where rows come out or are counted, then dropped by one record
 *	 else: the keys that the due store shows up to the end of the watermark's bucket,
 *		some thousand at a time: the rows that went are taken off their pages; a key
 *		with others left is looked at again when the first of these goes
 */
#include "postgres.h"

#include "miscadmin.h"

#include "exec/join_key.h"
#include "exec/operator.h"
#include "time/watermark.h"

#define LIST_BYTES		(64 * 1024 * 1024)	/* of keys that are due, at once */

typedef struct Due
{
	SxJoinKeys *keys;
	const SxOperator *op;
	int			side;
	TimestampTz evict;
	SxJoinSeeDue see;
	void	   *arg;
	int64		count;
	StringInfoData list;		/* SxStateKey, bytes of the key, each */
	bool		bounded;		/* the list is */
	SxJoinKey **wanted;
} Due;

static bool
comes_out(const Due *due)
{
	return due->keys->plan->join->sides[due->side].outer;
}

static void
see_row(Due *due, SxJoinRow *row)
{
	if (!(row->flags & SX_ROW_PASSING))
		due->count++;
	if (!comes_out(due) || (row->flags & SX_ROW_MATCHED))
		return;
	sx_join_row_scan(due->keys, due->side, row);
	due->see(due->arg, due->side, row);
	sx_join_row_free(due->keys);
	row->values = NULL;
}

/* The scan must not call the state. */
static bool
see_entry(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	Due		   *due = arg;
	SxReader	in = sx_join_entry_rows(key, value);
	SxJoinRow	row = {0};
	uint64		expiry = 0;

	CHECK_FOR_INTERRUPTS();
	if (key->op >> 8 == SX_JOIN_LOOSE)
		due->side = sx_join_loose_side(key);
	while (sx_join_row_next(&in, &row, &expiry))
		see_row(due, &row);
	return true;
}

static void
remove_store(Due *due, int store)
{
	uint16		id = SX_STORE_ID(due->keys->plan->id, store);

	sx_state_scan_groups(due->keys->state, id, due->op->due_first, due->op->due_last, due->evict,
						 see_entry, due);
	if (sx_operator_ends_due(due->op))
		sx_state_expire(due->keys->state, id, due->evict);
}

static bool
list_key(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	Due		   *due = arg;

	CHECK_FOR_INTERRUPTS();
	appendBinaryStringInfo(&due->list, (const char *) key, sizeof(*key));
	appendBinaryStringInfo(&due->list, key->bytes, key->len);
	return !due->bounded || due->list.len < LIST_BYTES;
}

/* Finds the next keys of the list in a round of their own; returns how many. */
static int
find_keys(Due *due, int *at)
{
	SxJoinKeys *keys = due->keys;
	int			n = 0;

	while (n < keys->limit && *at < due->list.len)
	{
		SxUpdate   *update = &keys->updates[n++];
		SxStateKey	key;

		memcpy(&key, due->list.data + *at, sizeof(key));
		*at += sizeof(key);
		update->expiry = SX_STATE_NEVER;
		update->group = key.group;
		update->key = *at;
		update->keylen = key.len;
		update->hash = sx_join_key_hash(keys->key, key.hash, due->list.data + *at, key.len);
		*at += key.len;
	}
	sx_join_keys_find(keys, n, keys->updates, due->list.data, due->wanted);
	return n;
}

/* A page that goes as a whole needn't be read where nobody wants to see its rows. */
static void
read_due_pages(Due *due)
{
	SxJoinKeys *keys = due->keys;
	bool		whole = !comes_out(due) && !keys->passing;
	int			nasked = 0;

	for (uint32 i = 0; i < keys->table->ngroups; i++)
	{
		SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);
		SxJoinKeySide *side = &key->sides[due->side];

		for (int p = 0; p < side->list.npages; p++)
		{
			SxJoinPage *page = &side->list.pages[p];

			if (page->read || page->nrows == 0 || page->span.from > due->evict)
				continue;
			if (whole && page->span.to <= due->evict)
			{
				due->count += page->nrows;
				page->nrows = 0;
				page->changed = side->changed = true;
				continue;
			}
			if (nasked == SX_JOIN_KEYS)
			{
				sx_join_keys_read_pages(keys, due->side, nasked);
				nasked = 0;
			}
			page->read = true;
			keys->asked_keys[nasked] = key;
			keys->asked_numbers[nasked] = p + 1;
			keys->asked_pages[nasked++] = page;
		}
	}
	sx_join_keys_read_pages(keys, due->side, nasked);
}

static void
take_rows(Due *due, SxJoinKeySide *side)
{
	SxJoinList *list = &side->list;

	for (int p = 0; p <= list->npages; p++)
	{
		SxJoinPage *page = sx_join_list_page(list, p);

		if (!page->read || page->nrows == 0 || page->span.from > due->evict)
			continue;
		for (SxJoinRow *row = page->rows; row != NULL; row = row->next)
		{
			if (row->expiry > due->evict)
				continue;
			see_row(due, row);
			row->gone = true;
			page->changed = side->changed = true;
		}
	}
	/* the entry that led here goes, but for that of the bucket in which the watermark is */
	if (list->due != SX_DUE_NEVER && sx_due_end(list->due) <= due->evict)
	{
		list->due = SX_DUE_NEVER;
		side->changed = true;
	}
}

static void
remove_listed(Due *due)
{
	SxJoinKeys *keys = due->keys;
	int			at = 0;

	while (at < due->list.len)
	{
		int			n = find_keys(due, &at);

		sx_join_keys_list(keys, due->side, n, due->wanted);
		read_due_pages(due);
		for (uint32 i = 0; i < keys->table->ngroups; i++)
		{
			SxJoinKey  *key = (SxJoinKey *) sx_group_table_get(keys->table, i);

			take_rows(due, &key->sides[due->side]);
		}
		sx_join_keys_put(keys);
	}
}

/* Of key groups first .. last: halves of them, where there are too many keys. */
static void
remove_groups(Due *due, int first, int last)
{
	SxState    *state = due->keys->state;
	uint16		id = SX_STORE_ID(due->keys->plan->id, SX_JOIN_DUE + due->side);
	int			middle = first + (last - first) / 2;

	resetStringInfo(&due->list);
	due->bounded = first < last;
	sx_state_scan_groups(state, id, first, last, sx_due_end(sx_due_bucket(due->evict)), list_key, due);
	if (!due->bounded || due->list.len < LIST_BYTES)
	{
		remove_listed(due);
		return;
	}
	remove_groups(due, first, middle);
	remove_groups(due, middle + 1, last);
}

static void
remove_by_key(Due *due)
{
	remove_groups(due, due->op->due_first, due->op->due_last);
	if (sx_operator_ends_due(due->op))
		sx_state_expire(due->keys->state, SX_STORE_ID(due->keys->plan->id, SX_JOIN_DUE + due->side),
						due->evict);
}

int64
sx_join_remove_due(SxJoinKeys *keys, const SxOperator *op, SxJoinSeeDue see, void *arg)
{
	const SxPlanJoin *join = keys->plan->join;
	Due			due = {.keys = keys,.op = op,.evict = op->evict,.see = see,.arg = arg};

	if (op->evict == SX_TIME_UNSET)
		return 0;
	initStringInfo(&due.list);
	due.wanted = palloc(SX_JOIN_KEYS * sizeof(SxJoinKey *));
	for (int s = 0; s < 2; s++)
	{
		due.side = s;
		if (sx_join_side_has_due(join, s))
			remove_by_key(&due);
		else if (join->sides[s].expiry != 0)
		{
			remove_store(&due, SX_JOIN_LISTS + s);
			remove_store(&due, SX_JOIN_PAGES + s);
		}
	}
	remove_store(&due, SX_JOIN_LOOSE);
	keys->rows -= due.count;
	pfree(due.list.data);
	pfree(due.wanted);
	return due.count;
}

/* Keys that are looked at one by one, and entries whose rows are shown when they go. */
int64
sx_join_keys_due(const SxJoinKeys *keys, const SxOperator *op)
{
	const SxPlanJoin *join = keys->plan->join;
	int64		n;

	if (op->evict == SX_TIME_UNSET)
		return 0;
	n = sx_state_due(op->state, SX_STORE_ID(keys->plan->id, SX_JOIN_LOOSE), op->evict);
	for (int s = 0; s < 2; s++)
	{
		int			store = sx_join_side_has_due(join, s) ? SX_JOIN_DUE : SX_JOIN_LISTS;

		if (join->sides[s].expiry != 0)
			n += sx_state_due(op->state, SX_STORE_ID(keys->plan->id, store + s), op->evict);
	}
	return n;
}
