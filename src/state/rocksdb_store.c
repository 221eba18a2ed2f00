/*
 * rocksdb_store.c
 *		The store in a RocksDB database of its own, without write-ahead log.
 *
 * Directory: <streamx.state_directory or $PGDATA/streamx>/pgsql_tmp_<database>_
 * <incarnation>.  pg_basebackup skips names that begin so.  The mark is a file
 * beside RocksDB's own, so that it can be read without opening the database,
 * which happens at the first access: a query whose state fits into memory never
 * starts RocksDB's threads.
 *
 * Key: operator u16, group u16, expiry i64 (sign bit turned), hash u64, all
 * big-endian: bytewise order is the order of cells.
 *
 * Long runs are written as a sorted file that RocksDB takes over as it is (on
 * the reference machine about ten times as fast as Put); short ones through the
 * memtable.  RocksDB's threads run nothing of ours.  A library object that an
 * error could leave behind hangs on the struct and is freed by the next call or
 * with the memory context.
 */
#include "postgres.h"

#include <rocksdb/c.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "common/file_utils.h"
#include "miscadmin.h"
#include "port/pg_bswap.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "base/settings.h"
#include "base/threads.h"
#include "state/state_store.h"
#include "state/store.h"

#define KEY_BYTES			20
#define SORTED_FILE_FROM	(256 * 1024)	/* shorter runs go through the memtable */
#define BATCH_BYTES			(1024 * 1024)
#define GET_TOGETHER		256
#define MARK_FILE			"streamx_mark"
#define RUN_FILE			"streamx_run.sst"
#define MARK_MAX			(512 * 1024 * 1024)

typedef struct RocksStore
{
	SxStore		base;
	MemoryContextCallback on_reset;
	char	   *parent;			/* the folder of all stores */
	char	   *path;
	Size		memory;
	bool		has_mark;		/* somebody may believe that the database is there */

	/* set when the database is opened */
	rocksdb_t  *db;
	rocksdb_options_t *options;
	rocksdb_block_based_table_options_t *table_options;
	rocksdb_cache_t *cache;
	rocksdb_readoptions_t *read_options;
	rocksdb_writeoptions_t *write_options;
	rocksdb_flushoptions_t *flush_options;
	rocksdb_column_family_handle_t *family;

	/* of a run being written */
	rocksdb_envoptions_t *env_options;
	rocksdb_sstfilewriter_t *file;	/* or */
	rocksdb_writebatch_t *batch;
	bool		file_has_keys;

	/* what the call before may have left */
	rocksdb_iterator_t *iterator;
	int			nslices;
	rocksdb_pinnableslice_t *slices[GET_TOGETHER];
} RocksStore;

/* ---------- errors ---------- */

#define NOTHING_IS_LOST \
	"Nothing is lost: the store is rebuilt from the changelog. See to free space and to the directory's permissions."

static char *
mark_path(RocksStore *store)
{
	return psprintf("%s/%s", store->path, MARK_FILE);
}

/*
 * Whatever it was, the next open doesn't believe this store but rebuilds it: a
 * missing or damaged file would fail again and again.  RocksDB's message is
 * freed here.
 */
static void
raise_store(RocksStore *store, const char *what, char *message)
{
	char	   *copy = pstrdup(message);
	bool		full = strstr(copy, "No space left") != NULL ||
		strstr(copy, "Disk quota") != NULL;

	rocksdb_free(message);
	(void) unlink(mark_path(store));
	ereport(ERROR,
			(errcode(full ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
			 errmsg("could not %s the state store in directory \"%s\"", what, store->path),
			 errdetail("RocksDB: %s", copy),
			 errhint(NOTHING_IS_LOST)));
}

/* Always of a class that is tried again: somebody will see to the disk. */
static void
raise_errno(const char *what, const char *path)
{
	bool		full = errno == ENOSPC || errno == EDQUOT;

	ereport(ERROR,
			(errcode(full ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
			 errmsg("could not %s \"%s\": %m", what, path),
			 errhint(NOTHING_IS_LOST)));
}

/* ---------- keys ---------- */

static void
encode_key(char *to, uint16 op, uint16 group, int64 expiry, uint64 hash)
{
	uint16		op_be = pg_hton16(op);
	uint16		group_be = pg_hton16(group);
	uint64		expiry_be = pg_hton64((uint64) expiry ^ (UINT64CONST(1) << 63));
	uint64		hash_be = pg_hton64(hash);

	memcpy(to, &op_be, 2);
	memcpy(to + 2, &group_be, 2);
	memcpy(to + 4, &expiry_be, 8);
	memcpy(to + 12, &hash_be, 8);
}

static void
decode_key(SxCellKey *key, const char *from)
{
	uint16		u16;
	uint64		u64;

	memcpy(&u16, from, 2);
	key->op = pg_ntoh16(u16);
	memcpy(&u16, from + 2, 2);
	key->group = pg_ntoh16(u16);
	memcpy(&u64, from + 4, 8);
	key->expiry = (int64) (pg_ntoh64(u64) ^ (UINT64CONST(1) << 63));
	memcpy(&u64, from + 12, 8);
	key->hash = pg_ntoh64(u64);
}

/* ---------- opening and closing ---------- */

static void
free_leftovers(RocksStore *store)
{
	while (store->nslices > 0)
	{
		rocksdb_pinnableslice_t *slice = store->slices[--store->nslices];

		if (slice != NULL)
			rocksdb_pinnableslice_destroy(slice);
	}
	if (store->iterator != NULL)
		rocksdb_iter_destroy(store->iterator);
	store->iterator = NULL;
	if (store->file != NULL)
		rocksdb_sstfilewriter_destroy(store->file);
	store->file = NULL;
	if (store->batch != NULL)
		rocksdb_writebatch_destroy(store->batch);
	store->batch = NULL;
}

static void
close_database(RocksStore *store)
{
	sx_threads_begin();
	free_leftovers(store);
	if (store->family != NULL)
		rocksdb_column_family_handle_destroy(store->family);
	if (store->db != NULL)
		rocksdb_close(store->db);
	if (store->read_options != NULL)
		rocksdb_readoptions_destroy(store->read_options);
	if (store->write_options != NULL)
		rocksdb_writeoptions_destroy(store->write_options);
	if (store->flush_options != NULL)
		rocksdb_flushoptions_destroy(store->flush_options);
	if (store->env_options != NULL)
		rocksdb_envoptions_destroy(store->env_options);
	if (store->table_options != NULL)
		rocksdb_block_based_options_destroy(store->table_options);
	if (store->options != NULL)
		rocksdb_options_destroy(store->options);
	if (store->cache != NULL)
		rocksdb_cache_destroy(store->cache);
	sx_threads_end();
	store->family = NULL;
	store->db = NULL;
	store->read_options = NULL;
	store->write_options = NULL;
	store->flush_options = NULL;
	store->env_options = NULL;
	store->table_options = NULL;
	store->options = NULL;
	store->cache = NULL;
}

static void
rocks_close(SxStore *base)
{
	close_database((RocksStore *) base);
}

static void
close_on_reset(void *arg)
{
	close_database(arg);
}

static char *
stores_folder(void)
{
	if (sx_state_directory != NULL && sx_state_directory[0] != '\0')
		return pstrdup(sx_state_directory);
	return psprintf("%s/streamx", DataDir);
}

static SxStore *
rocks_open(const SxStoreConfig *config)
{
	RocksStore *store = palloc0(sizeof(RocksStore));
	Datum		incarnation = DirectFunctionCall1(uuid_out,
												  UUIDPGetDatum(&config->incarnation));

	store->base.routine = &sx_rocksdb_store;
	store->parent = stores_folder();
	store->path = psprintf("%s/pgsql_tmp_%u_%s", store->parent, MyDatabaseId,
						   DatumGetCString(incarnation));
	store->memory = config->memory;
	store->on_reset.func = close_on_reset;
	store->on_reset.arg = store;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &store->on_reset);
	return &store->base;
}

static void
make_directory(RocksStore *store)
{
	if (mkdir(store->parent, S_IRWXU) < 0 && errno != EEXIST)
		raise_errno("create directory", store->parent);
	if (mkdir(store->path, S_IRWXU) < 0 && errno != EEXIST)
		raise_errno("create directory", store->path);
}

/* One shard: a filter block may be larger than a sixteenth of a small cache. */
static rocksdb_cache_t *
cache_create(Size capacity)
{
	rocksdb_lru_cache_options_t *options = rocksdb_lru_cache_options_create();
	rocksdb_cache_t *cache;

	rocksdb_lru_cache_options_set_capacity(options, capacity);
	rocksdb_lru_cache_options_set_num_shard_bits(options, 0);
	cache = rocksdb_cache_create_lru_opts(options);
	rocksdb_lru_cache_options_destroy(options);
	return cache;
}

static void
set_table_options(RocksStore *store)
{
	rocksdb_block_based_table_options_t *table = rocksdb_block_based_options_create();

	store->table_options = table;
	/* filters and indexes are in the cache, so the cache's size is the bound */
	store->cache = cache_create(store->memory / 4 * 3);
	rocksdb_block_based_options_set_block_cache(table, store->cache);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks(table, 1);
	rocksdb_block_based_options_set_cache_index_and_filter_blocks_with_high_priority(table, 1);
	rocksdb_block_based_options_set_pin_l0_filter_and_index_blocks_in_cache(table, 1);
	/* most misses are new keys: the filter answers them */
	rocksdb_block_based_options_set_filter_policy(table, rocksdb_filterpolicy_create_bloom_full(10));
	rocksdb_block_based_options_set_block_size(table, 4096);
	rocksdb_block_based_options_set_format_version(table, 5);
	rocksdb_block_based_options_set_data_block_index_type(table, 1);
	rocksdb_block_based_options_set_data_block_hash_ratio(table, 0.75);
	rocksdb_options_set_block_based_table_factory(store->options, table);
}

static void
set_options(RocksStore *store)
{
	rocksdb_options_t *options = rocksdb_options_create();
	Size		buffer = store->memory / 8;

	store->options = options;
	rocksdb_options_set_write_buffer_size(options, Max(buffer, 64 * 1024));
	rocksdb_options_set_max_write_buffer_number(options, 2);
	rocksdb_options_set_max_background_jobs(options, 2);
	rocksdb_options_set_target_file_size_base(options, 16 * 1024 * 1024);
	rocksdb_options_set_max_bytes_for_level_base(options, 128 * 1024 * 1024);
	rocksdb_options_set_level0_file_num_compaction_trigger(options, 6);
	rocksdb_options_set_compression(options, rocksdb_lz4_compression);
	rocksdb_options_set_max_open_files(options, 256);
	rocksdb_options_set_info_log_level(options, 3);	/* errors only */
	rocksdb_options_set_keep_log_file_num(options, 1);
	/* no periodic work: an idle query costs nothing */
	rocksdb_options_set_stats_dump_period_sec(options, 0);
	rocksdb_options_set_stats_persist_period_sec(options, 0);
	set_table_options(store);
	store->read_options = rocksdb_readoptions_create();
	store->write_options = rocksdb_writeoptions_create();
	rocksdb_writeoptions_disable_WAL(store->write_options, 1);
	store->flush_options = rocksdb_flushoptions_create();
	rocksdb_flushoptions_set_wait(store->flush_options, 1);
	store->env_options = rocksdb_envoptions_create();
}

static void
open_database(RocksStore *store)
{
	const char *names[1] = {"default"};
	const rocksdb_options_t *options[1];
	char	   *error = NULL;

	if (store->db != NULL)
	{
		free_leftovers(store);
		return;
	}
	make_directory(store);
	sx_threads_begin();
	if (store->options == NULL)
		set_options(store);
	/* an empty database in the place of one that is gone would be a silent loss */
	rocksdb_options_set_create_if_missing(store->options, !store->has_mark);
	options[0] = store->options;
	/* this way of opening gives the handle that a batched get asks for */
	store->db = rocksdb_open_column_families(store->options, store->path, 1, names,
											 options, &store->family, &error);
	sx_threads_end();
	if (error != NULL)
		raise_store(store, "open", error);
}

/* ---------- reading ---------- */

static void
get_together(RocksStore *store, int n, const SxCellKey *keys, int first,
			 void (*found) (void *arg, int i, const char *bytes, Size len), void *arg)
{
	char		bytes[GET_TOGETHER][KEY_BYTES];
	const char *key_list[GET_TOGETHER] = {NULL};
	size_t		key_sizes[GET_TOGETHER] = {0};
	char	   *errors[GET_TOGETHER];
	int			i;

	Assert(n > 0);
	for (i = 0; i < n; i++)
	{
		encode_key(bytes[i], keys[i].op, keys[i].group, keys[i].expiry, keys[i].hash);
		key_list[i] = bytes[i];
		key_sizes[i] = KEY_BYTES;
		errors[i] = NULL;
	}
	rocksdb_batched_multi_get_cf(store->db, store->read_options, store->family, n,
								 key_list, key_sizes, store->slices, errors, true);
	store->nslices = n;
	for (i = 0; i < n; i++)
		if (errors[i] != NULL)
			raise_store(store, "read", errors[i]);
	for (i = 0; i < n; i++)
	{
		size_t		len;
		const char *value;

		if (store->slices[i] == NULL)
			continue;
		value = rocksdb_pinnableslice_value(store->slices[i], &len);
		found(arg, first + i, value, len);
	}
	free_leftovers(store);
}

static void
rocks_get_many(SxStore *base, int n, const SxCellKey *keys,
			   void (*found) (void *arg, int i, const char *bytes, Size len), void *arg)
{
	RocksStore *store = (RocksStore *) base;
	int			i;

	open_database(store);
	for (i = 0; i < n; i += GET_TOGETHER)
		get_together(store, Min(GET_TOGETHER, n - i), keys + i, i, found, arg);
}

static void
rocks_scan(SxStore *base, uint16 op, uint16 group, int64 max_expiry,
		   SxCellVisit visit, void *arg)
{
	RocksStore *store = (RocksStore *) base;
	char		from[KEY_BYTES];
	char	   *error = NULL;

	open_database(store);
	encode_key(from, op, group, PG_INT64_MIN, 0);
	store->iterator = rocksdb_create_iterator(store->db, store->read_options);
	rocksdb_iter_seek(store->iterator, from, KEY_BYTES);
	while (rocksdb_iter_valid(store->iterator))
	{
		SxCellKey	key;
		size_t		len;
		const char *bytes = rocksdb_iter_key(store->iterator, &len);

		if (len != KEY_BYTES)
			break;
		decode_key(&key, bytes);
		if (key.op != op || key.group != group || key.expiry > max_expiry)
			break;
		bytes = rocksdb_iter_value(store->iterator, &len);
		if (!visit(arg, &key, bytes, len))
			break;
		rocksdb_iter_next(store->iterator);
	}
	rocksdb_iter_get_error(store->iterator, &error);
	free_leftovers(store);
	if (error != NULL)
		raise_store(store, "read", error);
}

/* ---------- writing ---------- */

static char *
run_path(RocksStore *store)
{
	return psprintf("%s/%s", store->path, RUN_FILE);
}

static void
rocks_write_begin(SxStore *base, Size expected_bytes)
{
	RocksStore *store = (RocksStore *) base;
	char	   *error = NULL;

	open_database(store);
	if (expected_bytes < SORTED_FILE_FROM)
	{
		store->batch = rocksdb_writebatch_create();
		return;
	}
	store->file = rocksdb_sstfilewriter_create(store->env_options, store->options);
	store->file_has_keys = false;
	rocksdb_sstfilewriter_open(store->file, run_path(store), &error);
	if (error != NULL)
		raise_store(store, "write to", error);
}

static void
write_batch(RocksStore *store)
{
	char	   *error = NULL;

	sx_threads_begin();
	rocksdb_write(store->db, store->write_options, store->batch, &error);
	sx_threads_end();
	rocksdb_writebatch_clear(store->batch);
	if (error != NULL)
		raise_store(store, "write to", error);
}

static void
rocks_put(SxStore *base, const SxCellKey *cell, const char *bytes, Size len, bool is_new)
{
	RocksStore *store = (RocksStore *) base;
	char		key[KEY_BYTES];
	char	   *error = NULL;

	encode_key(key, cell->op, cell->group, cell->expiry, cell->hash);
	if (store->file == NULL)
	{
		rocksdb_writebatch_put(store->batch, key, KEY_BYTES, bytes, len);
		return;
	}
	rocksdb_sstfilewriter_put(store->file, key, KEY_BYTES, bytes, len, &error);
	store->file_has_keys = true;
	if (error != NULL)
		raise_store(store, "write to", error);
}

static void
rocks_remove(SxStore *base, const SxCellKey *cell)
{
	RocksStore *store = (RocksStore *) base;
	char		key[KEY_BYTES];
	char	   *error = NULL;

	encode_key(key, cell->op, cell->group, cell->expiry, cell->hash);
	if (store->file == NULL)
	{
		rocksdb_writebatch_delete(store->batch, key, KEY_BYTES);
		return;
	}
	rocksdb_sstfilewriter_delete(store->file, key, KEY_BYTES, &error);
	store->file_has_keys = true;
	if (error != NULL)
		raise_store(store, "write to", error);
}

static void
ingest(RocksStore *store)
{
	rocksdb_ingestexternalfileoptions_t *options;
	const char *files[1];
	char	   *error = NULL;

	files[0] = run_path(store);
	sx_threads_begin();
	rocksdb_sstfilewriter_finish(store->file, &error);
	if (error == NULL)
	{
		options = rocksdb_ingestexternalfileoptions_create();
		rocksdb_ingestexternalfileoptions_set_move_files(options, 1);
		rocksdb_ingestexternalfileoptions_set_snapshot_consistency(options, 0);
		rocksdb_ingest_external_file(store->db, files, 1, options, &error);
		rocksdb_ingestexternalfileoptions_destroy(options);
	}
	sx_threads_end();
	free_leftovers(store);
	if (error != NULL)
		raise_store(store, "write to", error);
}

static void
rocks_write_end(SxStore *base)
{
	RocksStore *store = (RocksStore *) base;

	if (store->file == NULL)
		write_batch(store);
	else if (store->file_has_keys)
		ingest(store);
	free_leftovers(store);
}

/* A range delete per key group; rare, since spill.c saves them up. */
static void
rocks_remove_expired(SxStore *base, uint16 op, int64 max_expiry)
{
	RocksStore *store = (RocksStore *) base;
	int			group;

	open_database(store);
	store->batch = rocksdb_writebatch_create();
	for (group = 0; group < SX_KEY_GROUPS; group++)
	{
		char		from[KEY_BYTES];
		char		to[KEY_BYTES];

		encode_key(from, op, group, PG_INT64_MIN, 0);
		encode_key(to, op, group, max_expiry + 1, 0);
		rocksdb_writebatch_delete_range(store->batch, from, KEY_BYTES, to, KEY_BYTES);
	}
	write_batch(store);
	free_leftovers(store);
}

/* ---------- the mark ---------- */

static char *
rocks_get_mark(SxStore *base, Size *len)
{
	RocksStore *store = (RocksStore *) base;
	char	   *path = mark_path(store);
	FILE	   *file = AllocateFile(path, PG_BINARY_R);
	struct stat status;
	char	   *bytes;

	*len = 0;
	if (file == NULL)
	{
		if (errno != ENOENT && errno != ENOTDIR)
			raise_errno("open file", path);
		return NULL;
	}
	if (fstat(fileno(file), &status) < 0)
		raise_errno("stat file", path);
	if (status.st_size > MARK_MAX)
		status.st_size = 0;		/* not one of ours */
	bytes = palloc(status.st_size + 1);
	*len = fread(bytes, 1, status.st_size, file);
	if (ferror(file))
		raise_errno("read file", path);
	FreeFile(file);
	store->has_mark = true;
	return bytes;
}

static void
rocks_set_mark(SxStore *base, const char *bytes, Size len)
{
	RocksStore *store = (RocksStore *) base;
	char	   *path = mark_path(store);
	char	   *temporary = psprintf("%s.new", path);
	char	   *error = NULL;
	FILE	   *file;

	open_database(store);
	sx_threads_begin();
	rocksdb_flush(store->db, store->flush_options, &error);
	sx_threads_end();
	if (error != NULL)
		raise_store(store, "flush", error);
	file = AllocateFile(temporary, PG_BINARY_W);
	if (file == NULL)
		raise_errno("create file", temporary);
	if (fwrite(bytes, 1, len, file) != len || fflush(file) != 0 ||
		pg_fsync(fileno(file)) != 0)
		raise_errno("write file", temporary);
	FreeFile(file);
	durable_rename(temporary, path, ERROR);
}

static void
rocks_remove_mark(SxStore *base)
{
	RocksStore *store = (RocksStore *) base;
	char	   *path = mark_path(store);

	if (unlink(path) < 0 && errno != ENOENT)
		raise_errno("remove file", path);
	fsync_fname(store->path, true);
}

static void
rocks_clear(SxStore *base)
{
	RocksStore *store = (RocksStore *) base;
	struct stat status;

	close_database(store);
	store->has_mark = false;
	if (stat(store->path, &status) < 0)
	{
		if (errno == ENOENT || errno == ENOTDIR)
			return;
		raise_errno("stat directory", store->path);
	}
	/* the mark first: half a directory must not be believed */
	rocks_remove_mark(base);
	if (!rmtree(store->path, true))
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("could not remove directory \"%s\"", store->path),
				 errhint("See to the directory's permissions, or remove it yourself.")));
}

static Size
rocks_memory(SxStore *base)
{
	RocksStore *store = (RocksStore *) base;
	uint64_t	tables = 0;

	if (store->db == NULL)
		return 0;
	rocksdb_property_int(store->db, "rocksdb.cur-size-all-mem-tables", &tables);
	return tables + rocksdb_cache_get_usage(store->cache);
}

const SxStoreRoutine sx_rocksdb_store = {
	.name = "rocksdb",
	.open = rocks_open,
	.get_many = rocks_get_many,
	.scan = rocks_scan,
	.write_begin = rocks_write_begin,
	.put = rocks_put,
	.remove = rocks_remove,
	.write_end = rocks_write_end,
	.remove_expired = rocks_remove_expired,
	.get_mark = rocks_get_mark,
	.set_mark = rocks_set_mark,
	.remove_mark = rocks_remove_mark,
	.clear = rocks_clear,
	.memory = rocks_memory,
	.close = rocks_close,
};
