/*
 * property_test.c
 *		SxState against a model: a hash table of what every key should hold.
 *
 * Operators: 1 keys without event time, many hashes colliding; 2 keys in moving
 * windows; 3 keys that are equal when they differ in case only; 4 a window per
 * key (as sessions and joins have), with large values.
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "state/state_reader.h"
#include "state/state_store.h"

PG_MODULE_MAGIC;

#define NOPERATORS		4
#define MAX_HISTORY		100000

typedef struct ModelKey
{
	int32		op;
	int32		id;
	int64		expiry;
} ModelKey;

typedef struct ModelEntry
{
	ModelKey	key;
	bool		live;
	uint32		seed;			/* of the value's bytes */
	uint32		len;
	uint64		digest;			/* of the key and the value's bytes */
	bool		old_live;		/* as committed */
	uint32		old_seed;
	uint32		old_len;
	uint64		old_digest;
} ModelEntry;

/* What the state was after a batch: the sum of the hashes of all keys with their values. */
typedef struct Digest
{
	uint64		sums[NOPERATORS + 1];
	bool		changelog;		/* its changes are in the log key by key */
} Digest;

typedef struct Test
{
	SxState    *state;
	SxStateConfig config;
	HTAB	   *model;
	pg_prng_state random;
	int64		seed;
	int64		batch;			/* last committed */
	int64		now;			/* windows move with it */
	int64		expired[NOPERATORS + 1];
	int64		prepared;		/* last batch prepared, not yet committed */
	pg_uuid_t	prepared_lineage;
	bool		distrust;		/* the next open doesn't find the lineage */
	int			marks_trusted;
	pg_uuid_t  *history;		/* lineage of each committed batch */
	Digest	   *digests;
	StringInfoData bytes;
	int			step;
} Test;

static Test *current;			/* for the callback without an argument */

static uint32
draw(Test *test, uint32 n)
{
	return (uint32) (pg_prng_uint64(&test->random) % n);
}

static void
fail(Test *test, const char *what)
{
	elog(ERROR, "%s (seed " INT64_FORMAT ", batch " INT64_FORMAT ", step %d)",
		 what, test->seed, test->batch, test->step);
}

static bool
equal_but_case(void *arg, const char *a, uint32 alen, const char *b, uint32 blen)
{
	return alen == blen && pg_strncasecmp(a, b, alen) == 0;
}

static bool
batch_exists(int64 query_id, const pg_uuid_t *incarnation, int64 batch,
			 const pg_uuid_t *lineage)
{
	if (current->distrust || batch < 0 || batch > current->batch)
		return false;
	if (memcmp(&current->history[batch], lineage, sizeof(pg_uuid_t)) != 0)
		return false;
	current->marks_trusted++;
	return true;
}

/* ---------- keys and values ---------- */

static void
make_key(Test *test, const ModelKey *model, SxStateKey *key, char *bytes)
{
	int			i;

	key->op = model->op;
	key->expiry = model->expiry;
	switch (model->op)
	{
		case 1:
			key->hash = (uint64) (model->id % 700) * UINT64CONST(0x9E3779B97F4A7C15);
			break;
		case 3:
			key->hash = (uint64) model->id % 50;
			break;
		default:
			key->hash = (uint64) model->id * UINT64CONST(0xD1B54A32D192ED03);
	}
	key->group = model->op == 3 ? 0 : key->hash % SX_KEY_GROUPS;
	snprintf(bytes, 64, "key%06x", model->id);
	key->len = strlen(bytes);
	if (model->op == 3)
		for (i = 0; i < (int) key->len; i++)
			if (draw(test, 2))
				bytes[i] = pg_toupper(bytes[i]);
	/* long keys have a place of their own */
	if (model->op == 1 && model->id % 97 == 0)
	{
		memset(bytes + key->len, 'k', 1200);
		key->len += 1200;
	}
	key->bytes = bytes;
}

static const char *
value_bytes(Test *test, uint32 seed, uint32 len)
{
	uint32		i;

	resetStringInfo(&test->bytes);
	enlargeStringInfo(&test->bytes, len + 8);
	for (i = 0; i < len; i++)
		test->bytes.data[i] = (char) (seed * 31 + i * (seed | 1));
	return test->bytes.data;
}

static void
random_key(Test *test, ModelKey *key)
{
	memset(key, 0, sizeof(*key));
	key->op = 1 + draw(test, NOPERATORS);
	key->expiry = SX_STATE_NEVER;
	switch (key->op)
	{
		case 1:
			key->id = draw(test, 1500);
			break;
		case 2:
			key->id = draw(test, 150);
			key->expiry = (test->now / 10 + draw(test, 6)) * 1000 - 3000;
			break;
		case 3:
			key->id = draw(test, 400);
			break;
		case 4:
			key->id = draw(test, 800);
			key->expiry = test->now * 100 + key->id * 7 - 500;
			key->id = key->id % 90;
			break;
	}
}

static uint32
random_len(Test *test)
{
	switch (draw(test, 40))
	{
		case 0:
			return 0;
		case 1:
			return 1000 + draw(test, 3000);
		case 2:
			return draw(test, 200) == 0 ? 60000 + draw(test, 300000) : 9000;
		default:
			return draw(test, 60);
	}
}

static ModelEntry *
model_entry(Test *test, const ModelKey *key, bool make)
{
	bool		found;
	ModelEntry *entry = hash_search(test->model, key, make ? HASH_ENTER : HASH_FIND, &found);

	if (make && !found)
	{
		entry->live = entry->old_live = false;
		entry->seed = entry->len = 0;
	}
	return entry;
}

/* ---------- comparing ---------- */

static const char *
describe(const char *what, const ModelKey *key)
{
	return psprintf("%s: operator %d, key %d, expiry " INT64_FORMAT, what, key->op,
					key->id, key->expiry);
}

static void
check_value(Test *test, const ModelKey *key, const SxStateValue *value)
{
	ModelEntry *entry = model_entry(test, key, false);

	if (entry == NULL || !entry->live)
	{
		if (value->bytes != NULL)
			fail(test, describe("a key that should not be there was found", key));
		return;
	}
	if (value->bytes == NULL)
		fail(test, describe("a key was not found", key));
	if (value->len != entry->len ||
		memcmp(value->bytes, value_bytes(test, entry->seed, entry->len), entry->len) != 0)
		fail(test, describe("a value is wrong", key));
}

typedef struct ScanCheck
{
	Test	   *test;
	int			op;
	int64		max_expiry;
	int64		seen;
} ScanCheck;

static void
read_key(ModelKey *model, const SxStateKey *key)
{
	char		text[64];

	memset(model, 0, sizeof(*model));
	model->op = key->op;
	model->expiry = key->expiry;
	memcpy(text, key->bytes + 3, 6);
	text[6] = '\0';
	model->id = (int) strtol(text, NULL, 16);
}

static bool
check_visit(void *arg, const SxStateKey *key, const SxStateValue *value)
{
	ScanCheck  *check = arg;
	ModelKey	model;

	read_key(&model, key);
	if (key->op != check->op || key->expiry > check->max_expiry)
		fail(check->test, "a scan shows a key that was not asked for");
	check_value(check->test, &model, value);
	if (value->bytes == NULL)
		fail(check->test, "a scan shows a key without value");
	check->seen++;
	return true;
}

static void
check_scan(Test *test, int op, int64 max_expiry)
{
	ScanCheck	check = {test, op, max_expiry, 0};
	HASH_SEQ_STATUS status;
	ModelEntry *entry;
	int64		expected = 0;
	int64		rows = 0;

	sx_state_scan(test->state, op, max_expiry, check_visit, &check);
	hash_seq_init(&status, test->model);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (entry->live && entry->key.op == op)
		{
			rows++;
			expected += entry->key.expiry <= max_expiry;
		}
	if (check.seen != expected)
		fail(test, psprintf("a scan of operator %d shows " INT64_FORMAT " keys instead of " INT64_FORMAT,
							op, check.seen, expected));
	if (sx_state_rows(test->state, op) != rows)
		fail(test, psprintf("operator %d counts " INT64_FORMAT " rows instead of " INT64_FORMAT,
							op, sx_state_rows(test->state, op), rows));
}

static void
check_all(Test *test)
{
	int			op;

	for (op = 1; op <= NOPERATORS; op++)
		check_scan(test, op, SX_STATE_NEVER);
}

/* ---------- older states, from the log ---------- */

static uint64
digest_of(const ModelKey *key, const char *bytes, uint32 len)
{
	return hash_bytes_extended((const unsigned char *) key, sizeof(*key),
							   hash_bytes_extended((const unsigned char *) bytes, len, len));
}

static void
note_digest(Test *test, int64 batch)
{
	Digest	   *digest = &test->digests[batch];
	HASH_SEQ_STATUS status;
	ModelEntry *entry;

	memset(digest, 0, sizeof(*digest));
	digest->changelog = test->config.changelog;
	hash_seq_init(&status, test->model);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (entry->live)
			digest->sums[entry->key.op] += entry->digest;
}

typedef struct ReadCheck
{
	uint64		sum;
	int64		batch;			/* of the last change of the key before */
	ModelKey	key;
	Test	   *test;
} ReadCheck;

static void
add_read(void *arg, const SxStateChange *change)
{
	ReadCheck  *check = arg;
	ModelKey	key;

	read_key(&key, change->key);
	if (memcmp(&key, &check->key, sizeof(key)) == 0 && change->batch < check->batch)
		fail(check->test, describe("changes of a key are not in order", &key));
	check->key = key;
	check->batch = change->batch;
	if (change->value->bytes != NULL)
		check->sum += digest_of(&key, change->value->bytes, change->value->len);
	if (change->before->bytes != NULL)
		check->sum -= digest_of(&key, change->before->bytes, change->before->len);
	if (change->value->bytes == NULL && change->before->bytes == NULL)
		fail(check->test, describe("a change from nothing to nothing", &key));
}

static bool
key_by_key(Test *test, int64 from, int64 to)
{
	for (; from <= to; from++)
		if (!test->digests[from].changelog)
			return false;
	return true;
}

/* The state after a batch that is still kept, and the changes that lead there from another. */
static void
check_reader(Test *test)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	int64		oldest = sx_state_oldest_batch(test->config.query_id, snapshot);
	int64		batch;
	int64		base;
	SxStateRead read;
	ReadCheck	check;

	if (test->batch >= 0 && oldest > Max(test->batch - test->config.batches_to_retain + 1, 0))
		fail(test, psprintf("batch " INT64_FORMAT " is the oldest that can be read", oldest));
	if (test->batch >= oldest)
	{
		batch = oldest + draw(test, test->batch - oldest + 1);
		base = oldest + draw(test, batch - oldest + 1);
		memset(&read, 0, sizeof(read));
		read.query_id = test->config.query_id;
		read.snapshot = snapshot;
		read.op = test->config.operators[draw(test, NOPERATORS)];
		read.group = SX_ALL_GROUPS;
		read.batch = batch;
		read.snapshots_until = draw(test, 2) && key_by_key(test, base + 1, batch) ? base : batch;
		read.changes_from = -1;
		memset(&check, 0, sizeof(check));
		check.test = test;
		sx_state_read(&read, add_read, &check);
		if (check.sum != test->digests[batch].sums[read.op.id])
			fail(test, psprintf("operator %d read as of batch " INT64_FORMAT " is wrong", read.op.id, batch));
		if (base < batch && key_by_key(test, base + 1, batch))
		{
			read.changes_from = base + 1;
			memset(&check, 0, sizeof(check));
			check.test = test;
			sx_state_read(&read, add_read, &check);
			if (check.sum + test->digests[base].sums[read.op.id] != test->digests[batch].sums[read.op.id])
				fail(test, psprintf("changes of operator %d from batch " INT64_FORMAT " to " INT64_FORMAT " are wrong",
									read.op.id, base + 1, batch));
		}
	}
	UnregisterSnapshot(snapshot);
}

/* ---------- steps ---------- */

static void
step_get(Test *test)
{
	int			n = draw(test, 3) == 0 ? 1 : 1 + draw(test, 300);
	SxStateKey *keys = palloc(n * sizeof(SxStateKey));
	SxStateValue *values = palloc(n * sizeof(SxStateValue));
	ModelKey   *models = palloc(n * sizeof(ModelKey));
	int			i;

	for (i = 0; i < n; i++)
	{
		random_key(test, &models[i]);
		make_key(test, &models[i], &keys[i], palloc(1400));
	}
	sx_state_get_many(test->state, n, keys, values);
	for (i = 0; i < n; i++)
		check_value(test, &models[i], &values[i]);
}

static void
step_put(Test *test)
{
	int			n = 1 + draw(test, 200);
	char		bytes[1400];

	while (n-- > 0)
	{
		ModelKey	model;
		SxStateKey	key;
		ModelEntry *entry;

		random_key(test, &model);
		make_key(test, &model, &key, bytes);
		entry = model_entry(test, &model, true);
		entry->live = true;
		entry->seed = draw(test, 1000000);
		entry->len = random_len(test);
		sx_state_put(test->state, &key, value_bytes(test, entry->seed, entry->len), entry->len);
		entry->digest = digest_of(&model, test->bytes.data, entry->len);
	}
}

static void
step_remove(Test *test)
{
	int			n = 1 + draw(test, 100);
	char		bytes[1400];

	while (n-- > 0)
	{
		ModelKey	model;
		SxStateKey	key;
		ModelEntry *entry;

		random_key(test, &model);
		make_key(test, &model, &key, bytes);
		sx_state_remove(test->state, &key);
		entry = model_entry(test, &model, false);
		if (entry != NULL)
			entry->live = false;
	}
}

/* The value that get returned is put back, as it is: no copy in between. */
static void
step_put_same(Test *test)
{
	ModelKey	model;
	SxStateKey	key;
	SxStateValue value;
	char		bytes[1400];

	random_key(test, &model);
	make_key(test, &model, &key, bytes);
	sx_state_get_many(test->state, 1, &key, &value);
	if (value.bytes != NULL)
	{
		sx_state_put(test->state, &key, value.bytes, value.len);
		sx_state_get_many(test->state, 1, &key, &value);
		check_value(test, &model, &value);
	}
}

static void
step_expire(Test *test)
{
	int			op = draw(test, 2) ? 2 : 4;
	int64		watermark;
	int64		expected = 0;
	int64		dropped;
	HASH_SEQ_STATUS status;
	ModelEntry *entry;

	test->now += draw(test, 12);
	watermark = op == 2 ? (test->now / 10) * 1000 - 2000 : test->now * 100 + draw(test, 500);
	if (draw(test, 10) == 0)
		watermark -= 1500;		/* back */
	hash_seq_init(&status, test->model);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (entry->live && entry->key.op == op && entry->key.expiry <= watermark)
		{
			entry->live = false;
			expected++;
		}
	dropped = sx_state_expire(test->state, op, watermark);
	elog(DEBUG1, "step %d: operator %d expires up to " INT64_FORMAT ", " INT64_FORMAT " keys",
		 test->step, op, watermark, dropped);
	if (dropped != expected)
		fail(test, psprintf("an expiry dropped " INT64_FORMAT " keys instead of " INT64_FORMAT,
							dropped, expected));
}

static void
prepare(Test *test)
{
	int			i;

	test->prepared++;
	for (i = 0; i < UUID_LEN; i++)
		test->prepared_lineage.data[i] = draw(test, 256);
	test->history[test->prepared] = test->prepared_lineage;
	note_digest(test, test->prepared);
	sx_state_prepare(test->state, test->prepared, &test->prepared_lineage);
}

/* The model as committed, or committed as the model. */
static void
settle_model(Test *test, bool commit)
{
	HASH_SEQ_STATUS status;
	ModelEntry *entry;

	hash_seq_init(&status, test->model);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		if (commit)
		{
			entry->old_live = entry->live;
			entry->old_seed = entry->seed;
			entry->old_len = entry->len;
			entry->old_digest = entry->digest;
		}
		else
		{
			entry->live = entry->old_live;
			entry->seed = entry->old_seed;
			entry->len = entry->old_len;
			entry->digest = entry->old_digest;
		}
		if (!entry->live && !entry->old_live)
			hash_search(test->model, &entry->key, HASH_REMOVE, NULL);
	}
}

static void
commit_batch(Test *test)
{
	SPI_commit();
	sx_state_commit(test->state);
	test->batch = test->prepared;
	settle_model(test, true);
}

static void
abort_batch(Test *test)
{
	SPI_rollback();
	sx_state_abort(test->state);
	test->prepared = test->batch;
	settle_model(test, false);
}

static void
maintain(Test *test)
{
	bool		more = true;

	while (more && sx_state_needs_maintenance(test->state))
	{
		sx_state_maintain(test->state, &more);
		SPI_commit();
	}
}

static void
open_state(Test *test)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(TopMemoryContext);

	test->config.batch = test->batch;
	if (test->batch >= 0)
		test->config.lineage = test->history[test->batch];
	current = test;
	test->state = sx_state_open(&test->config);
	MemoryContextSwitchTo(oldcontext);
	test->prepared = test->batch;
	test->distrust = false;
}

static void
reopen(Test *test)
{
	bool		clean = draw(test, 2) == 0;

	test->distrust = draw(test, 4) == 0;
	sx_state_close(test->state, clean);
	SPI_commit();
	elog(DEBUG1, "step %d: reopen after batch " INT64_FORMAT ", clean %d, distrust %d",
		 test->step, test->batch, clean, test->distrust);
	if (draw(test, 3) == 0)
		test->config.changelog = !test->config.changelog;
	open_state(test);
	SPI_commit();
	check_all(test);
}

static void
run_batch(Test *test)
{
	int			steps = draw(test, 6);

	while (steps-- > 0)
	{
		test->step++;
		switch (draw(test, 10))
		{
			case 0:
			case 1:
			case 2:
				step_put(test);
				break;
			case 3:
			case 4:
				step_get(test);
				break;
			case 5:
				step_remove(test);
				break;
			case 6:
				step_expire(test);
				break;
			case 7:
				check_scan(test, 1 + draw(test, NOPERATORS),
						   draw(test, 2) ? SX_STATE_NEVER : test->now * 100);
				break;
			case 8:
				step_put_same(test);
				break;
			case 9:
				prepare(test);
				break;
		}
	}
	if (draw(test, 5) == 0)
		abort_batch(test);
	else
	{
		prepare(test);
		commit_batch(test);
	}
	maintain(test);
	if (draw(test, 12) == 0)
		reopen(test);
	else if (draw(test, 6) == 0)
		check_all(test);
	if (draw(test, 10) == 0)
		check_reader(test);
}

static void
init_test(Test *test, FunctionCallInfo fcinfo)
{
	static SxStateOperator operators[NOPERATORS] = {
		{1, NULL, NULL}, {2, NULL, NULL}, {3, equal_but_case, NULL}, {4, NULL, NULL, true}
	};
	HASHCTL		control;
	int			i;

	test->seed = PG_GETARG_INT64(0);
	pg_prng_seed(&test->random, (uint64) test->seed);
	test->history = MemoryContextAllocHuge(TopMemoryContext, MAX_HISTORY * sizeof(pg_uuid_t));
	test->digests = MemoryContextAllocHuge(TopMemoryContext, MAX_HISTORY * sizeof(Digest));
	test->batch = test->prepared = -1;
	test->now = 1000;
	control.keysize = sizeof(ModelKey);
	control.entrysize = sizeof(ModelEntry);
	control.hcxt = TopMemoryContext;
	test->model = hash_create("state model", 10000, &control,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	MemoryContextSwitchTo(TopMemoryContext);
	initStringInfo(&test->bytes);
	test->config.query_id = -(int64) MyProcPid;
	for (i = 0; i < UUID_LEN; i++)
		test->config.incarnation.data[i] = draw(test, 256);
	test->config.store = text_to_cstring(PG_GETARG_TEXT_PP(2));
	test->config.memory_kb = PG_GETARG_INT32(3);
	test->config.changelog = PG_GETARG_BOOL(4);
	test->config.batches_to_retain = 3;
	test->config.noperators = NOPERATORS;
	test->config.operators = operators;
	test->config.batch_exists = batch_exists;
}

PG_FUNCTION_INFO_V1(state_property_test);
Datum
state_property_test(PG_FUNCTION_ARGS)
{
	Test	   *test = MemoryContextAllocZero(TopMemoryContext, sizeof(Test));
	int			batches = PG_GETARG_INT32(1);
	MemoryContext work;
	int			i;

	init_test(test, fcinfo);
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	sx_state_drop(test->config.query_id);
	CommandCounterIncrement();
	sx_state_create(test->config.query_id);
	SPI_commit();
	work = AllocSetContextCreate(TopMemoryContext, "state test batch", ALLOCSET_DEFAULT_SIZES);
	open_state(test);
	SPI_commit();
	for (i = 0; i < batches && test->batch < MAX_HISTORY - 10; i++)
	{
		MemoryContextSwitchTo(work);
		CHECK_FOR_INTERRUPTS();
		run_batch(test);
		MemoryContextReset(work);
	}
	check_all(test);
	sx_state_close(test->state, false);
	sx_state_drop(test->config.query_id);
	SPI_commit();
	elog(DEBUG1, "trusted %d marks", test->marks_trusted);
	MemoryContextDelete(work);
	hash_destroy(test->model);
	SPI_finish();
	PG_RETURN_VOID();
}
