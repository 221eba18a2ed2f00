/*
 * state_store.c
 *		The door of the room: tier, store and log as one.
 *
 *	get		the tier; for what it lacks, unless the cold ranges say that the store
 *			can't have it, the store, cell by cell; a key found nowhere gets an
 *			empty entry, so that the put that mostly follows asks nobody
 *	put		the tier
 *	prepare	changes to the log (batch_changes.c)
 *	commit	the tier forgets its undo list
 *	maintain	spill (spill.c), snapshots and rotation (snapshot.c)
 */
#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/memutils.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "state/state.h"

/* A state without a store may take so much, whatever the query says. */
#define LEAST_MEMORY_ONLY	(256 * 1024 * 1024)

#define GET_CHUNK		64		/* keys looked up together, so that memory is waited for once */

/* ---------- open and close ---------- */

static const SxStoreRoutine *
store_routine(const char *name)
{
	if (strcmp(name, sx_rocksdb_store.name) == 0)
		return &sx_rocksdb_store;
	if (strcmp(name, sx_table_store.name) == 0)
		return &sx_table_store;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("unknown state store \"%s\"", name),
			 errhint("Available values: rocksdb, table.")));
}

static void
init_end(SxState *state, SxLogEnd *end, int64 batch, const pg_uuid_t *lineage)
{
	int			i;

	end->batch = batch;
	end->lineage = *lineage;
	for (i = 0; i < SX_LOG_PARTS; i++)
		end->last_section[i] = -1;
	end->expiries = MemoryContextAllocZero(state->context,
										   Max(state->tier.noperators, 1) * sizeof(SxExpiryMark));
}

static void
copy_end(SxState *state, SxLogEnd *to, const SxLogEnd *from)
{
	SxExpiryMark *expiries = to->expiries;

	memcpy(expiries, from->expiries, state->tier.noperators * sizeof(SxExpiryMark));
	*to = *from;
	to->expiries = expiries;
}

static uint64
hash_seed(const pg_uuid_t *incarnation)
{
	uint64		seed;

	memcpy(&seed, incarnation->data, sizeof(seed));
	return seed;
}

/* The query may have had another one: what is left there is of no use any more. */
static void
clear_other_store(const SxStateConfig *config, const SxStoreConfig *store_config)
{
	static const SxStoreRoutine *const routines[] = {&sx_rocksdb_store, &sx_table_store};

	for (int i = 0; i < lengthof(routines); i++)
	{
		SxStore    *store;

		if (strcmp(routines[i]->name, config->store) == 0)
			continue;
		store = routines[i]->open(store_config);
		routines[i]->clear(store);
		routines[i]->close(store);
	}
}

static void
open_state(SxState *state, const SxStateConfig *config)
{
	SxStoreConfig store;
	MemoryContext oldcontext;

	state->query_id = config->query_id;
	state->incarnation = config->incarnation;
	state->memory = (Size) config->memory_kb * 1024;
	state->memory_only = config->memory_only;
	if (state->memory_only)
		state->memory = Max(state->memory, LEAST_MEMORY_ONLY);
	state->changelog = config->changelog;
	state->batches_to_retain = config->batches_to_retain;
	state->batch_exists = config->batch_exists;
	state->snapshot_part = SX_NO_PART;
	state->record_bytes = 24;
	sx_tier_init(&state->tier, state->context, config->noperators, config->operators,
				 state->memory / 8, hash_seed(&state->incarnation));
	state->expired_now = MemoryContextAllocZero(state->context, config->noperators + 1);
	init_end(state, &state->committed, config->batch, &config->lineage);
	init_end(state, &state->pending, config->batch, &config->lineage);
	if (config->noperators == 0)
		return;

	sx_log_open(&state->log, state->query_id);
	state->writer = sx_section_writer_create(state->context);
	state->appender = sx_log_appender_create(&state->log, state->context);
	store.query_id = state->query_id;
	store.incarnation = state->incarnation;
	store.memory = state->memory / 4;
	oldcontext = MemoryContextSwitchTo(state->context);
	state->store = (config->memory_only ? &sx_no_store : store_routine(config->store))->open(&store);
	MemoryContextSwitchTo(oldcontext);

	sx_state_recover(state, config->batch, &config->lineage);
	if (!state->memory_only)
		clear_other_store(config, &store);
	copy_end(state, &state->pending, &state->committed);
	state->memory_before = sx_tier_bytes(&state->tier);
}

SxState *
sx_state_open(const SxStateConfig *config)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamx state",
												  ALLOCSET_DEFAULT_SIZES);
	SxState    *state = MemoryContextAllocZero(context, sizeof(SxState));

	state->context = context;
	PG_TRY();
	{
		open_state(state, config);
	}
	PG_CATCH();
	{
		MemoryContextDelete(context);	/* closes the store, too */
		PG_RE_THROW();
	}
	PG_END_TRY();
	return state;
}

void
sx_state_close(SxState *state, bool clean)
{
	if (clean && state->store_in_use && !state->broken)
	{
		sx_state_flush(state);
		sx_store_mark_write(state);
	}
	if (state->store != NULL)
		state->store->routine->close(state->store);
	MemoryContextDelete(state->context);
}

/* ---------- reading ---------- */

/* The cell comes back from the store: its keys are clean entries now. */
void
sx_state_load_cell(SxState *state, const SxCellKey *cell, const char *bytes, Size len)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, cell->op);
	uint32		tag = sx_tier_tag(cell->op, cell->expiry, cell->hash);
	const char *at = bytes;
	SxStateKey	key;
	SxStateValue value;
	int64		n = 0;

	key.op = cell->op;
	key.group = cell->group;
	key.expiry = cell->expiry;
	key.hash = cell->hash;		/* as the tier goes by */
	while (sx_cell_next(&at, bytes + len, &key, &value))
	{
		SxRef		ref = sx_tier_create(&state->tier, op, &key, tag, value.len);

		sx_tier_load(&state->tier, ref, value.bytes, value.len);
		sx_tier_entry(&state->tier, ref)->flags |= SX_ENTRY_IN_STORE;
		n++;
	}
	sx_cold_subtract(&op->cold, cell->expiry, n);
}

typedef struct LoadedCells
{
	SxState    *state;
	const SxCellKey *cells;
} LoadedCells;

static void
cell_found(void *arg, int i, const char *bytes, Size len)
{
	LoadedCells *loaded = arg;

	sx_state_load_cell(loaded->state, &loaded->cells[i], bytes, len);
}

static inline bool
store_may_hold(SxState *state, SxTierOperator *op, const SxStateKey *key)
{
	return state->store_in_use && sx_cold_may_hold(&op->cold, key->expiry) &&
		sx_cold_filter_may_hold(&op->filter, sx_cell_mix(key->op, key->expiry, key->hash));
}

static inline void
set_cell(SxCellKey *cell, const SxStateKey *key)
{
	cell->op = key->op;
	cell->group = key->group;
	cell->expiry = key->expiry;
	cell->hash = key->hash;
}

/* The key with the hash that the tier knows it by. */
static inline SxStateKey
own_key(SxState *state, SxTierOperator *op, const SxStateKey *key)
{
	SxStateKey	own = *key;

	own.hash = sx_tier_hash(&state->tier, op, key);
	return own;
}

/* The key's entry, DEAD or not, brought from the store if need be; else only *mate. */
static SxRef
find_anywhere(SxState *state, SxTierOperator *op, const SxStateKey *key, uint32 tag,
			  SxRef *mate)
{
	SxRef		ref = sx_tier_find(&state->tier, op, key, tag, mate);

	if (ref == SX_REF_NONE && *mate == SX_REF_NONE && store_may_hold(state, op, key))
	{
		SxCellKey	cell;
		LoadedCells loaded = {state, &cell};

		set_cell(&cell, key);
		state->store->routine->get_many(state->store, 1, &cell, cell_found, &loaded);
		ref = sx_tier_find(&state->tier, op, key, tag, mate);
	}
	return ref;
}

static inline void
set_value(SxTier *tier, SxRef ref, SxStateValue *value)
{
	SxEntry    *entry;

	value->bytes = NULL;
	value->len = 0;
	if (ref == SX_REF_NONE)
		return;
	entry = sx_tier_entry(tier, ref);
	if (entry->flags & SX_ENTRY_DEAD)
		return;
	entry->flags |= SX_ENTRY_USED;
	value->bytes = sx_entry_value(entry);
	value->len = entry->vlen;
}

static int
compare_cells(const void *a, const void *b)
{
	return sx_cell_compare(a, b);
}

/* Brings the cells of these keys into the tier, if the store has them. */
static void
fetch_cells(SxState *state, const SxStateKey *keys, const int *wanted, int n)
{
	SxTier	   *tier = &state->tier;
	SxCellKey  *cells = palloc(n * sizeof(SxCellKey));
	LoadedCells loaded = {state, cells};
	int			different = 0;
	int			i;

	for (i = 0; i < n; i++)
	{
		const SxStateKey *key = &keys[wanted[i]];

		set_cell(&cells[i], key);
		cells[i].hash = sx_tier_hash(tier, sx_tier_operator(tier, key->op), key);
	}
	qsort(cells, n, sizeof(SxCellKey), compare_cells);
	for (i = 0; i < n; i++)
		if (i == 0 || sx_cell_compare(&cells[i], &cells[different - 1]) != 0)
			cells[different++] = cells[i];
	state->store->routine->get_many(state->store, different, cells, cell_found, &loaded);
	pfree(cells);
}

/* After the fetch: a key that isn't there gets an entry that says so. */
static void
settle_missing(SxState *state, const SxStateKey *wanted, SxStateValue *value)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, wanted->op);
	SxStateKey	key = own_key(state, op, wanted);
	uint32		tag = sx_tier_tag(key.op, key.expiry, key.hash);
	SxRef		mate;
	SxRef		ref = sx_tier_find(&state->tier, op, &key, tag, &mate);

	if (ref == SX_REF_NONE && mate == SX_REF_NONE)
		ref = sx_tier_create_pending(&state->tier, op, &key, tag, op->typical_vlen, mate);
	set_value(&state->tier, ref, value);
}

/*
 * Has the processor fetch the slots of up to GET_CHUNK keys, then the entries
 * that these lead to.  keys: as the tier knows them, with their tags.
 */
static void
prefetch_chunk(SxState *state, int n, const SxStateKey *wanted, SxStateKey *keys,
			   uint32 *tags)
{
	SxTier	   *tier = &state->tier;
	int			i;

	for (i = 0; i < n; i++)
	{
		SxTierTable *table = &tier->tables[wanted[i].group];

		keys[i] = own_key(state, sx_tier_operator(tier, wanted[i].op), &wanted[i]);
		tags[i] = sx_tier_tag(keys[i].op, keys[i].expiry, keys[i].hash);
		if (table->nslots > 0)
			__builtin_prefetch(&table->slots[sx_tier_home(table, tags[i])]);
	}
	for (i = 0; i < n; i++)
	{
		SxTierTable *table = &tier->tables[keys[i].group];

		if (table->nslots > 0)
		{
			SxTierSlot *slot = &table->slots[sx_tier_home(table, tags[i])];

			if (slot->ref != SX_REF_NONE)
				__builtin_prefetch(sx_tier_entry(tier, slot->ref));
		}
	}
}

void
sx_state_prefetch(SxState *state, int n, const SxStateKey *wanted)
{
	SxStateKey	keys[GET_CHUNK];
	uint32		tags[GET_CHUNK];
	int			i;

	for (i = 0; i < n; i += GET_CHUNK)
		prefetch_chunk(state, Min(GET_CHUNK, n - i), wanted + i, keys, tags);
}

/* Up to GET_CHUNK keys in the tier; notes those that the store may have. */
static void
get_chunk(SxState *state, int n, const SxStateKey *wanted, SxStateValue *values,
		  int first, int *missing, int *nmissing)
{
	SxTier	   *tier = &state->tier;
	SxStateKey	keys[GET_CHUNK];
	uint32		tags[GET_CHUNK];
	int			i;

	prefetch_chunk(state, n, wanted, keys, tags);
	for (i = 0; i < n; i++)
	{
		SxTierOperator *op = sx_tier_operator(tier, keys[i].op);
		SxRef		mate;
		SxRef		ref = sx_tier_find(tier, op, &keys[i], tags[i], &mate);

		if (ref == SX_REF_NONE && mate == SX_REF_NONE && store_may_hold(state, op, &keys[i]))
			missing[(*nmissing)++] = first + i;
		set_value(tier, ref, &values[i]);
	}
}

void
sx_state_get_many(SxState *state, int n, const SxStateKey *keys, SxStateValue *values)
{
	int		   *missing = NULL;
	int			nmissing = 0;
	int			only;
	int			i;

	if (n > 1)
		missing = palloc(n * sizeof(int));
	for (i = 0; i < n; i += GET_CHUNK)
		get_chunk(state, Min(GET_CHUNK, n - i), keys + i, values + i, i,
				  n > 1 ? missing : &only, &nmissing);
	if (nmissing > 0)
	{
		const int  *wanted = n > 1 ? missing : &only;

		fetch_cells(state, keys, wanted, nmissing);
		for (i = 0; i < nmissing; i++)
			settle_missing(state, &keys[wanted[i]], &values[wanted[i]]);
	}
	if (missing != NULL)
		pfree(missing);
}

typedef struct ColdScan
{
	SxState    *state;
	SxTierOperator *op;
	SxStateVisit visit;			/* NULL: just count */
	void	   *arg;
	int64		low;			/* expiries below don't count */
	int64		count;
	bool		stopped;
} ColdScan;

static bool
visit_cold_cell(void *arg, const SxCellKey *cell, const char *bytes, Size len)
{
	ColdScan   *scan = arg;
	const char *at = bytes;
	SxStateKey	key;
	SxStateValue value;

	if (cell->expiry <= scan->op->cold.dead || cell->expiry < scan->low ||
		sx_tier_find_cell(&scan->state->tier, scan->op, cell->group, cell->expiry,
						  cell->hash) != SX_REF_NONE)
		return true;
	key.op = cell->op;
	key.group = cell->group;
	key.expiry = cell->expiry;
	key.hash = cell->hash;
	while (sx_cell_next(&at, bytes + len, &key, &value))
	{
		scan->count++;
		if (scan->visit != NULL && !scan->visit(scan->arg, &key, &value))
		{
			scan->stopped = true;
			return false;
		}
	}
	return true;
}

static void
scan_cold(SxState *state, ColdScan *scan, int first, int last, int64 max_expiry)
{
	int			group;

	for (group = first; group <= last && !scan->stopped; group++)
		state->store->routine->scan(state->store, scan->op->def.id, group, max_expiry,
									visit_cold_cell, scan);
}

void
sx_state_scan(SxState *state, uint16 id, int64 max_expiry, SxStateVisit visit, void *arg)
{
	sx_state_scan_groups(state, id, 0, SX_KEY_GROUPS - 1, max_expiry, visit, arg);
}

/* The tier chains entries by expiry: along the chains all groups are seen. */
typedef struct GroupsScan
{
	int			first;
	int			last;
	SxStateVisit visit;
	void	   *arg;
} GroupsScan;

static bool
visit_of_groups(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	GroupsScan *scan = arg;

	if (key->group < scan->first || key->group > scan->last)
		return true;
	return scan->visit(scan->arg, key, value);
}

/* Of a part of the groups either all of their entries are looked at or the due ones of all groups. */
static bool
scan_tier(SxState *state, SxTierOperator *op, int first, int last, int64 max_expiry,
		  SxStateVisit visit, void *arg)
{
	GroupsScan	groups = {first, last, visit, arg};
	int64		entries = 0;

	if (first == 0 && last == SX_KEY_GROUPS - 1)
		return sx_tier_scan(&state->tier, op, max_expiry, visit, arg);
	for (int group = first; group <= last; group++)
		entries += state->tier.tables[group].used;
	if (sx_tier_due(&state->tier, op, max_expiry, entries + 1) > entries)
		return sx_tier_scan_groups(&state->tier, op, first, last, max_expiry, visit, arg);
	return sx_tier_scan(&state->tier, op, max_expiry, visit_of_groups, &groups);
}

void
sx_state_scan_groups(SxState *state, uint16 id, int first, int last, int64 max_expiry,
					 SxStateVisit visit, void *arg)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, id);
	ColdScan	scan = {state, op, visit, arg, PG_INT64_MIN};

	if (!scan_tier(state, op, first, last, max_expiry, visit, arg))
		return;
	if (state->store_in_use && sx_cold_any(&op->cold, max_expiry))
		scan_cold(state, &scan, first, last, max_expiry);
}

static bool
visit_earliest(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	int64	   *earliest = arg;

	*earliest = Min(*earliest, key->expiry);
	return true;
}

/* Ranges that were counted say where to look in the store. */
int64
sx_state_earliest(SxState *state, uint16 id)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, id);
	int64		earliest = sx_tier_earliest(op);

	for (int i = 0; state->store_in_use && i < op->cold.nranges; i++)
	{
		const SxColdRange *range = &op->cold.ranges[i];
		int64		found = SX_STATE_NEVER;
		ColdScan	scan = {state, op, visit_earliest, &found, range->low};

		if (range->low >= earliest)
			break;
		scan_cold(state, &scan, 0, SX_KEY_GROUPS - 1, range->high);
		if (found != SX_STATE_NEVER)
			return Min(found, earliest);
	}
	return earliest;
}

int64
sx_state_count_cold(SxState *state, SxTierOperator *op, int64 low, int64 watermark)
{
	ColdScan	scan = {state, op, NULL, NULL, low};

	scan_cold(state, &scan, 0, SX_KEY_GROUPS - 1, watermark);
	return scan.count;
}

int64
sx_state_due(SxState *state, uint16 id, int64 max_expiry)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, id);
	int64		cold = state->store_in_use ? sx_cold_due(&op->cold, max_expiry) : 0;

	return cold + sx_tier_due(&state->tier, op, max_expiry, PG_INT64_MAX);
}

int64
sx_state_rows(SxState *state, uint16 op)
{
	return sx_tier_operator(&state->tier, op)->rows;
}

bool
sx_state_is_cold(SxState *state, uint16 op)
{
	return state->store_in_use && sx_tier_operator(&state->tier, op)->cold.total > 0;
}

/* ---------- changing ---------- */

void
sx_state_put(SxState *state, const SxStateKey *wanted, const char *bytes, uint32 len)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, wanted->op);
	SxStateKey	key = own_key(state, op, wanted);
	uint32		tag = sx_tier_tag(key.op, key.expiry, key.hash);
	SxRef		mate;
	SxRef		ref = find_anywhere(state, op, &key, tag, &mate);

	if (ref == SX_REF_NONE)
	{
		op->typical_vlen = len;
		ref = sx_tier_create_pending(&state->tier, op, &key, tag, len, mate);
	}
	sx_tier_put(&state->tier, ref, bytes, len);
}

void
sx_state_remove(SxState *state, const SxStateKey *wanted)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, wanted->op);
	SxStateKey	key = own_key(state, op, wanted);
	uint32		tag = sx_tier_tag(key.op, key.expiry, key.hash);
	SxRef		mate;
	SxRef		ref = find_anywhere(state, op, &key, tag, &mate);

	if (ref != SX_REF_NONE)
		sx_tier_remove(&state->tier, ref);
}

typedef struct KeyList
{
	List	   *keys;
} KeyList;

static bool
keep_key(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	KeyList    *list = arg;
	SxStateKey *copy = palloc(sizeof(SxStateKey) + key->len);

	*copy = *key;
	copy->bytes = memcpy(copy + 1, key->bytes, key->len);
	list->keys = lappend(list->keys, copy);
	return true;
}

/* A watermark below an earlier one is rare: key by key, the log has one mark per operator. */
static int64
expire_each(SxState *state, uint16 op, int64 watermark)
{
	KeyList		list = {NIL};
	ListCell   *cell;
	int64		n;

	sx_state_scan(state, op, watermark, keep_key, &list);
	foreach(cell, list.keys)
		sx_state_remove(state, lfirst(cell));
	n = list_length(list.keys);
	list_free_deep(list.keys);
	return n;
}

int64
sx_state_expire(SxState *state, uint16 id, int64 watermark)
{
	SxTierOperator *op = sx_tier_operator(&state->tier, id);
	int			at = op - state->tier.operators;
	SxExpiryMark *mark = &state->pending.expiries[at];
	int64		dropped;

	if (watermark == SX_STATE_NEVER)
		watermark--;
	if (mark->set && watermark < mark->watermark)
		return expire_each(state, id, watermark);
	if (state->store_in_use)
	{
		int64		cut = 0;
		int64		low;

		if (sx_cold_cuts(&op->cold, watermark, &low))
			cut = sx_state_count_cold(state, op, low, watermark);
		dropped = sx_cold_expire(&op->cold, watermark, cut);
		op->rows -= dropped;
	}
	else
		dropped = 0;
	dropped += sx_tier_expire(&state->tier, op, watermark);
	if (dropped > 0)
	{
		mark->set = true;
		mark->watermark = watermark;
		state->expired_now[at] = true;
	}
	return dropped;
}

/* ---------- the end of a batch ---------- */

Size
sx_state_tier_limit(const SxState *state)
{
	/* the store has its quarter only when there is something in it */
	if (!state->store_in_use)
		return state->memory / 16 * 15;
	return state->memory / 4 * 3 - sx_tier_filter_bytes(&state->tier);
}

static bool
memory_is_short(SxState *state)
{
	return sx_tier_bytes(&state->tier) > sx_state_tier_limit(state);
}

int64
sx_state_prepare(SxState *state, int64 batch, const pg_uuid_t *lineage)
{
	int64		bytes;
	int			i;

	if (state->tier.noperators == 0)
		return 0;
	if (state->memory_only && memory_is_short(state))
		sx_no_store.write_begin(state->store, 0);
	if (batch <= state->pending.batch)
		elog(ERROR, "state: batch " INT64_FORMAT " after batch " INT64_FORMAT,
			 batch, state->pending.batch);
	for (i = 0; i < state->tier.noperators; i++)
		if (state->expired_now[i])
		{
			state->pending.expiries[i].batch = batch;
			state->expired_now[i] = false;
		}
	bytes = sx_changes_write(state, batch);
	state->pending.batch = batch;
	state->pending.lineage = *lineage;
	state->pending_bytes += bytes;
	SX_CRASH_POINT("prepare");
	return bytes;
}

void
sx_state_commit(SxState *state)
{
	int			i;
	Size		bytes;

	if (state->tier.noperators == 0)
		return;
	bytes = sx_tier_bytes(&state->tier);
	state->batch_growth = bytes > state->memory_before ? bytes - state->memory_before : 0;
	sx_tier_commit(&state->tier);
	state->memory_before = sx_tier_bytes(&state->tier);
	copy_end(state, &state->committed, &state->pending);
	for (i = 0; i < SX_LOG_PARTS; i++)
		sx_log_current(&state->log, i)->change_bytes = sx_log_current(&state->log, i)->pending_bytes;
	for (i = 0; i < SX_KEY_GROUPS; i++)
		if (state->snapshot_pending[i])
		{
			sx_log_current(&state->log, sx_part_of(i))->snapshot_batch[i % SX_GROUPS_IN_PART] =
				state->committed.batch;
			state->snapshot_pending[i] = false;
		}
	state->changelog_bytes += state->pending_bytes;
	state->credit += state->pending_bytes * 7 / 10;
	state->pending_bytes = 0;
}

void
sx_state_abort(SxState *state)
{
	int			i;

	if (state->tier.noperators == 0)
		return;
	/* rows of operators whose cold keys an expiry had dropped */
	for (i = 0; i < state->tier.noperators; i++)
	{
		SxTierOperator *op = &state->tier.operators[i];
		int			j;

		for (j = 0; j < op->cold.nsaved; j++)
			op->rows += op->cold.saved[j].count;
	}
	sx_tier_abort(&state->tier);
	copy_end(state, &state->pending, &state->committed);
	memset(state->expired_now, 0, state->tier.noperators);
	memset(state->snapshot_pending, 0, sizeof(state->snapshot_pending));
	for (i = 0; i < SX_LOG_PARTS; i++)
		sx_log_current(&state->log, i)->pending_bytes = sx_log_current(&state->log, i)->change_bytes;
	state->pending_bytes = 0;
	state->memory_before = sx_tier_bytes(&state->tier);
}

/* ---------- between batches ---------- */

bool
sx_state_needs_maintenance(SxState *state)
{
	if (state->tier.noperators == 0)
		return false;
	return memory_is_short(state) || sx_snapshot_due(state);
}

void
sx_state_maintain(SxState *state, bool *more)
{
	*more = false;
	if (state->tier.noperators == 0)
		return;
	Assert(state->tier.nundo == 0);
	state->broken = true;
	if (memory_is_short(state))
	{
		Size		limit = state->memory / 4 * 3 - sx_tier_filter_bytes(&state->tier);
		Size		growth = Min(state->batch_growth, limit / 4 * 3);

		/* room for another batch, or the next one would spill again */
		sx_state_spill(state, Min(limit - growth, limit / 4 * 3));
		state->memory_before = sx_tier_bytes(&state->tier);
	}
	sx_snapshot_step(state, more);
	state->broken = false;
}

int64
sx_state_memory_used(SxState *state)
{
	int64		bytes = sx_tier_bytes(&state->tier) + sx_tier_pending_bytes(&state->tier) +
		sx_tier_filter_bytes(&state->tier);

	if (state->writer != NULL)
		bytes += sx_section_writer_bytes(state->writer);
	if (state->store_in_use)
		bytes += state->store->routine->memory(state->store);
	return bytes;
}

int64
sx_state_changelog_bytes(SxState *state)
{
	return state->changelog_bytes;
}

/* ---------- relations ---------- */

void
sx_state_create(int64 query_id)
{
	sx_log_create(query_id);
	sx_table_store_create(query_id);
}

void
sx_state_drop(int64 query_id)
{
	sx_log_drop(query_id);
	sx_table_store_drop(query_id);
}
