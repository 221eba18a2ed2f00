/*
 * state_bench.c
 *		How fast SxState is, and what it writes.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/dbcommands.h"
#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include <sys/resource.h>
#include "portability/instr_time.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "state/state_store.h"

#define CHUNK	4096

typedef struct Bench
{
	SxState    *state;
	SxStateConfig config;
	int64		batch;
	instr_time	started;
	double		cpu_started;
} Bench;

typedef struct KeyBytes
{
	char		null_bitmap;
	int32		a;
	int32		b;
} pg_attribute_packed() KeyBytes;

/* Of this thread: what counts on a busy machine. */
static double
cpu(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_utime.tv_sec + usage.ru_stime.tv_sec +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void
start(Bench *bench)
{
	INSTR_TIME_SET_CURRENT(bench->started);
	bench->cpu_started = cpu();
}

static double
cpu_seconds(Bench *bench)
{
	return cpu() - bench->cpu_started;
}

static double
seconds(Bench *bench)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, bench->started);
	return INSTR_TIME_GET_DOUBLE(now);
}

/* Key number i: (int, int) with a hash as PostgreSQL would make one. */
static void
make_key(SxStateKey *key, KeyBytes *bytes, uint32 i)
{
	bytes->null_bitmap = 0;
	bytes->a = (int32) (i * 7919 % 20000);
	bytes->b = (int32) i;
	key->op = 1;
	key->expiry = SX_STATE_NEVER;
	key->hash = hash_combine64(hash_bytes_uint32_extended(bytes->a, 0),
							   hash_bytes_uint32_extended(bytes->b, 0));
	key->group = key->hash % SX_KEY_GROUPS;
	key->bytes = (char *) bytes;
	key->len = sizeof(KeyBytes);
}

static void
open_bench(Bench *bench)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(TopMemoryContext);

	bench->config.batch = bench->batch;
	bench->state = sx_state_open(&bench->config);
	MemoryContextSwitchTo(oldcontext);
	SPI_commit();
}

static void
init_bench(Bench *bench, const char *store, int memory_kb)
{
	static const SxStateOperator operators[1] = {{1, NULL, NULL}};
	pg_prng_state random;

	pg_prng_seed(&random, MyProcPid);
	memset(bench, 0, sizeof(*bench));
	bench->config.query_id = -(int64) MyProcPid;
	memcpy(&bench->config.incarnation, &random, sizeof(pg_uuid_t));
	bench->config.store = store;
	bench->config.memory_kb = memory_kb;
	bench->config.changelog = true;
	bench->config.batches_to_retain = 100;
	bench->config.noperators = 1;
	bench->config.operators = operators;
	bench->batch = -1;
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	sx_state_drop(bench->config.query_id);
	CommandCounterIncrement();
	sx_state_create(bench->config.query_id);
	SPI_commit();
	open_bench(bench);
}

/* Adds 1 to the counts of n keys, as an aggregate does: get a chunk, then put. */
static void
count_keys(Bench *bench, const uint32 *numbers, int n)
{
	static SxStateKey keys[CHUNK];
	static KeyBytes bytes[CHUNK];
	static SxStateValue values[CHUNK];
	int			first;
	int			i;

	for (first = 0; first < n; first += CHUNK)
	{
		int			m = Min(CHUNK, n - first);

		for (i = 0; i < m; i++)
			make_key(&keys[i], &bytes[i], numbers[first + i]);
		sx_state_get_many(bench->state, m, keys, values);
		for (i = 0; i < m; i++)
		{
			char		value[9] = {0};
			int64		count = 0;

			if (values[i].bytes != NULL)
				memcpy(&count, values[i].bytes + 1, sizeof(count));
			count++;
			memcpy(value + 1, &count, sizeof(count));
			sx_state_put(bench->state, &keys[i], value, sizeof(value));
		}
	}
}

static void
finish_batch(Bench *bench)
{
	bool		more = true;

	bench->batch++;
	sx_state_prepare(bench->state, bench->batch, &bench->config.lineage);
	SPI_commit();
	sx_state_commit(bench->state);
	while (more && sx_state_needs_maintenance(bench->state))
	{
		sx_state_maintain(bench->state, &more);
		SPI_commit();
	}
}

static int64
look_up(Bench *bench, uint32 first, uint32 range, int n, uint64 seed)
{
	static SxStateKey keys[CHUNK];
	static KeyBytes bytes[CHUNK];
	static SxStateValue values[CHUNK];
	pg_prng_state random;
	int64		found = 0;
	int			done;
	int			i;

	pg_prng_seed(&random, seed);
	for (done = 0; done < n; done += CHUNK)
	{
		int			m = Min(CHUNK, n - done);

		for (i = 0; i < m; i++)
			make_key(&keys[i], &bytes[i], first + (uint32) (pg_prng_uint64(&random) % range));
		sx_state_get_many(bench->state, m, keys, values);
		for (i = 0; i < m; i++)
			found += values[i].bytes != NULL;
	}
	return found;
}

static void
end_bench(Bench *bench)
{
	sx_state_close(bench->state, false);
	sx_state_drop(bench->config.query_id);
	SPI_commit();
	SPI_finish();
}

static void
insert_keys(Bench *bench, int keys, int batch_keys)
{
	uint32	   *numbers = MemoryContextAllocHuge(TopMemoryContext, keys * sizeof(uint32));
	pg_prng_state random;
	double		longest = 0;
	instr_time	all;
	double		cpu_all = cpu();
	int			i;

	pg_prng_seed(&random, 42);
	for (i = 0; i < keys; i++)
		numbers[i] = i;
	for (i = keys - 1; i > 0; i--)
	{
		int			j = (int) (pg_prng_uint64(&random) % (i + 1));
		uint32		swap = numbers[i];

		numbers[i] = numbers[j];
		numbers[j] = swap;
	}
	INSTR_TIME_SET_CURRENT(all);
	for (i = 0; i < keys; i += batch_keys)
	{
		start(bench);
		count_keys(bench, numbers + i, Min(batch_keys, keys - i));
		finish_batch(bench);
		longest = Max(longest, seconds(bench));
	}
	bench->started = all;
	bench->cpu_started = cpu_all;
	elog(NOTICE, "new keys: %.2f M/s, %.2f M per CPU s, longest batch %.0f ms, memory %.0f MB, changelog %.0f MB",
		 keys / seconds(bench) / 1e6, keys / cpu_seconds(bench) / 1e6, longest * 1000,
		 sx_state_memory_used(bench->state) / 1048576.0,
		 sx_state_changelog_bytes(bench->state) / 1048576.0);
	pfree(numbers);
}

static void
update_keys(Bench *bench, int keys, int batch_keys, int batches)
{
	uint32	   *numbers = MemoryContextAllocHuge(TopMemoryContext, batch_keys * sizeof(uint32));
	pg_prng_state random;
	int			b;
	int			i;

	pg_prng_seed(&random, 43);
	start(bench);
	for (b = 0; b < batches; b++)
	{
		for (i = 0; i < batch_keys; i++)
			numbers[i] = (uint32) (pg_prng_uint64(&random) % keys);
		count_keys(bench, numbers, batch_keys);
		finish_batch(bench);
	}
	elog(NOTICE, "updates: %.2f M/s, %.2f M per CPU s, memory %.0f MB",
		 (double) batches * batch_keys / seconds(bench) / 1e6,
		 (double) batches * batch_keys / cpu_seconds(bench) / 1e6,
		 sx_state_memory_used(bench->state) / 1048576.0);
	pfree(numbers);
}

PG_FUNCTION_INFO_V1(state_bench);
Datum
state_bench(PG_FUNCTION_ARGS)
{
	char	   *store = MemoryContextStrdup(TopMemoryContext,
											text_to_cstring(PG_GETARG_TEXT_PP(0)));
	int			memory_kb = PG_GETARG_INT32(1);
	int			keys = PG_GETARG_INT32(2);
	int			batch_keys = PG_GETARG_INT32(3);
	int			n = Min(keys, 500000);
	int64		found;
	Bench		bench;

	init_bench(&bench, store, memory_kb);
	insert_keys(&bench, keys, batch_keys);
	start(&bench);
	found = look_up(&bench, 0, keys, n, 1);
	elog(NOTICE, "hits: %.2f M/s, %.2f M per CPU s", n / seconds(&bench) / 1e6, n / cpu_seconds(&bench) / 1e6);
	if (found != n)
		elog(ERROR, "found " INT64_FORMAT " of %d keys", found, n);
	SPI_rollback();
	sx_state_abort(bench.state);
	start(&bench);
	found = look_up(&bench, 100000000, 1000000000, n, 2);
	elog(NOTICE, "misses: %.2f M/s, %.2f M per CPU s", n / seconds(&bench) / 1e6, n / cpu_seconds(&bench) / 1e6);
	if (found != 0)
		elog(ERROR, "found " INT64_FORMAT " keys that are not there", found);
	SPI_rollback();
	sx_state_abort(bench.state);
	update_keys(&bench, keys, batch_keys, 5);
	sx_state_close(bench.state, false);
	start(&bench);
	open_bench(&bench);
	elog(NOTICE, "recovery: %.2f s, CPU %.2f s, " INT64_FORMAT " keys, memory %.0f MB", seconds(&bench), cpu_seconds(&bench),
		 sx_state_rows(bench.state, 1), sx_state_memory_used(bench.state) / 1048576.0);
	if (sx_state_rows(bench.state, 1) != keys)
		elog(ERROR, "recovered " INT64_FORMAT " of %d keys", sx_state_rows(bench.state, 1), keys);
	end_bench(&bench);
	PG_RETURN_VOID();
}

static int64
one_number(const char *query)
{
	bool		isnull;

	SPI_execute(query, true, 1);
	return DatumGetInt64(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
}

PG_FUNCTION_INFO_V1(state_cost);
Datum
state_cost(PG_FUNCTION_ARGS)
{
	char	   *store = MemoryContextStrdup(TopMemoryContext,
											text_to_cstring(PG_GETARG_TEXT_PP(0)));
	int			memory_kb = PG_GETARG_INT32(1);
	int			keys = PG_GETARG_INT32(2);
	int			changed = PG_GETARG_INT32(3);
	int			batches = PG_GETARG_INT32(4);
	uint32	   *numbers = MemoryContextAllocHuge(TopMemoryContext, changed * sizeof(uint32));
	char		query[300];
	pg_prng_state random;
	XLogRecPtr	wal;
	int64		log;
	int64		most = 0;
	int			b;
	int			i;
	Bench		bench;

	init_bench(&bench, store, memory_kb);
	snprintf(query, sizeof(query),
			 "SELECT coalesce(sum(pg_relation_size(c.oid)), 0)::bigint FROM pg_class c "
			 "WHERE relname LIKE 'state_log_-%d_%%'", MyProcPid);
	insert_keys(&bench, keys, 200000);
	wal = GetXLogInsertRecPtr();
	log = sx_state_changelog_bytes(bench.state);
	pg_prng_seed(&random, 44);
	start(&bench);
	for (b = 1; b <= batches; b++)
	{
		for (i = 0; i < changed; i++)
			numbers[i] = (uint32) (pg_prng_uint64(&random) % keys);
		count_keys(&bench, numbers, changed);
		finish_batch(&bench);
		if (b > batches / 2 && b % 10 == 0)
			most = Max(most, one_number(query));
		if (b % Max(batches / 10, 1) == 0)
			elog(NOTICE, "batch %d: %.1f ms a batch, changelog %.1f MB, WAL %.2f times that, disk %.1f MB",
				 b, seconds(&bench) * 1000 / b,
				 (sx_state_changelog_bytes(bench.state) - log) / 1048576.0,
				 (double) (GetXLogInsertRecPtr() - wal) / (sx_state_changelog_bytes(bench.state) - log),
				 one_number(query) / 1048576.0);
	}
	elog(NOTICE, "most on disk in the second half: %.1f MB", most / 1048576.0);
	sx_state_close(bench.state, false);
	start(&bench);
	open_bench(&bench);
	elog(NOTICE, "recovery: %.2f s, " INT64_FORMAT " keys", seconds(&bench),
		 sx_state_rows(bench.state, 1));
	end_bench(&bench);
	PG_RETURN_VOID();
}
