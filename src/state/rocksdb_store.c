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
 * memtable.  RocksDB's threads run nothing of ours.  What an error could leave
 * behind is forgotten by the shim's next call or freed with the memory context.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "common/file_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_bswap.h"
#include "storage/fd.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "base/settings.h"
#include "base/threads.h"
#include "state/rocksdb_shim.h"
#include "state/state_store.h"
#include "state/store.h"

#define KEY_BYTES			SX_ROCKS_KEY_BYTES
#define SORTED_FILE_FROM	(256 * 1024)	/* shorter runs go through the memtable */
#define BUSY_MS				5
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

	SxRocks    *rocks;			/* NULL until the first access */
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
 * missing or damaged file would fail again and again.
 */
static void
check(RocksStore *store, SxRocksResult result, const char *what)
{
	const char *message;
	bool		full;

	if (result == SX_ROCKS_OK)
		return;
	(void) unlink(mark_path(store));
	if (result == SX_ROCKS_NO_MEMORY)
	{
		sx_process_abandon();
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("RocksDB could not %s the state store in directory \"%s\".",
						   what, store->path),
				 errhint("Nothing is lost: the store is rebuilt from the changelog by a fresh process. Lower streamx.state_memory or the query option batch_rows, or see to memory.")));
	}
	message = sx_rocks_message(store->rocks);
	full = strstr(message, "No space left") != NULL ||
		strstr(message, "Disk quota") != NULL;
	ereport(ERROR,
			(errcode(full ? ERRCODE_DISK_FULL : ERRCODE_IO_ERROR),
			 errmsg("could not %s the state store in directory \"%s\"", what, store->path),
			 errdetail("RocksDB: %s", message),
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
close_database(RocksStore *store)
{
	sx_threads_begin();
	sx_rocks_destroy(store->rocks);
	sx_threads_end();
	store->rocks = NULL;
	/* also when it was one of RocksDB's threads, and nobody asked since */
	if (sx_rocks_spoiled())
		sx_process_abandon();
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

static void
open_database(RocksStore *store)
{
	SxRocksResult result;

	if (store->rocks != NULL && sx_rocks_is_open(store->rocks))
		return;
	make_directory(store);
	if (store->rocks == NULL)
		store->rocks = sx_rocks_create(store->memory);
	if (store->rocks == NULL)
		check(store, SX_ROCKS_NO_MEMORY, "open");
	sx_threads_begin();
	/* an empty database in the place of one that is gone would be a silent loss */
	result = sx_rocks_open(store->rocks, store->path, !store->has_mark);
	sx_threads_end();
	check(store, result, "open");
}

/* ---------- reading ---------- */

static void
get_together(RocksStore *store, int n, const SxCellKey *keys, int first,
			 void (*found) (void *arg, int i, const char *bytes, Size len), void *arg)
{
	char		bytes[SX_ROCKS_GET_TOGETHER * KEY_BYTES];
	int			i;

	if (n <= 0)
		return;
	for (i = 0; i < n; i++)
		encode_key(bytes + i * KEY_BYTES, keys[i].op, keys[i].group, keys[i].expiry,
				   keys[i].hash);
	check(store, sx_rocks_get(store->rocks, n, bytes), "read");
	for (i = 0; i < n; i++)
	{
		size_t		len;
		const char *value = sx_rocks_value(store->rocks, i, &len);

		if (value != NULL)
			found(arg, first + i, value, len);
	}
	sx_rocks_forget(store->rocks);
}

static void
rocks_get_many(SxStore *base, int n, const SxCellKey *keys,
			   void (*found) (void *arg, int i, const char *bytes, Size len), void *arg)
{
	RocksStore *store = (RocksStore *) base;
	int			i;

	open_database(store);
	for (i = 0; i < n; i += SX_ROCKS_GET_TOGETHER)
		get_together(store, Min(SX_ROCKS_GET_TOGETHER, n - i), keys + i, i, found, arg);
}

static void
rocks_scan(SxStore *base, uint16 op, uint16 group, int64 max_expiry,
		   SxCellVisit visit, void *arg)
{
	RocksStore *store = (RocksStore *) base;
	char		from[KEY_BYTES];
	SxRocksCell cell;

	open_database(store);
	encode_key(from, op, group, PG_INT64_MIN, 0);
	check(store, sx_rocks_seek(store->rocks, from, &cell), "read");
	while (cell.valid)
	{
		SxCellKey	key;

		decode_key(&key, cell.key);
		if (key.op != op || key.group != group || key.expiry > max_expiry ||
			!visit(arg, &key, cell.value, cell.len))
			break;
		check(store, sx_rocks_next(store->rocks, &cell), "read");
	}
	sx_rocks_forget(store->rocks);
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

	open_database(store);
	check(store, expected_bytes < SORTED_FILE_FROM ?
		  sx_rocks_begin_batch(store->rocks) :
		  sx_rocks_begin_file(store->rocks, run_path(store)), "write to");
}

static void
rocks_put(SxStore *base, const SxCellKey *cell, const char *bytes, Size len, bool is_new)
{
	RocksStore *store = (RocksStore *) base;
	char		key[KEY_BYTES];

	encode_key(key, cell->op, cell->group, cell->expiry, cell->hash);
	check(store, sx_rocks_put(store->rocks, key, bytes, len), "write to");
}

static void
rocks_remove(SxStore *base, const SxCellKey *cell)
{
	RocksStore *store = (RocksStore *) base;
	char		key[KEY_BYTES];

	encode_key(key, cell->op, cell->group, cell->expiry, cell->hash);
	check(store, sx_rocks_remove(store->rocks, key), "write to");
}

/* Rather waits here, where it can be interrupted, than in RocksDB. */
static void
rocks_write_end(SxStore *base)
{
	RocksStore *store = (RocksStore *) base;

	for (;;)
	{
		SxRocksResult result;

		sx_threads_begin();
		result = sx_rocks_end_run(store->rocks);
		sx_threads_end();
		if (result != SX_ROCKS_BUSY)
		{
			check(store, result, "write to");
			return;
		}
		CHECK_FOR_INTERRUPTS();
		/* the latch may be set by somebody whom the worker's loop will answer */
		(void) WaitLatch(NULL, WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, BUSY_MS, PG_WAIT_EXTENSION);
	}
}

/* A range delete per key group; rare, since spill.c saves them up. */
static void
rocks_remove_expired(SxStore *base, uint16 op, int64 max_expiry)
{
	RocksStore *store = (RocksStore *) base;
	int			group;

	open_database(store);
	check(store, sx_rocks_begin_batch(store->rocks), "write to");
	for (group = 0; group < SX_KEY_GROUPS; group++)
	{
		char		from[KEY_BYTES];
		char		to[KEY_BYTES];

		encode_key(from, op, group, PG_INT64_MIN, 0);
		encode_key(to, op, group, max_expiry + 1, 0);
		check(store, sx_rocks_remove_range(store->rocks, from, to), "write to");
	}
	rocks_write_end(base);
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
	SxRocksResult result;
	FILE	   *file;

	open_database(store);
	sx_threads_begin();
	result = sx_rocks_flush(store->rocks);
	sx_threads_end();
	check(store, result, "flush");
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

	return store->rocks != NULL ? sx_rocks_memory(store->rocks) : 0;
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
