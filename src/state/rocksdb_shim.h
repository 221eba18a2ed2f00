/*
 * rocksdb_shim.h
 *		RocksDB for C: no exception comes out, whatever happens inside.
 *
 * RocksDB allocates almost everywhere and its own C interface lets std::bad_alloc
 * through: an exception in a process that has no C++ above it ends the process,
 * and a worker that dies takes the server down for a restart.  Here every call
 * catches.  What an exception ran through cannot be trusted any more (RocksDB
 * doesn't promise to be whole afterwards: locks may be held for ever, writers
 * wait for one that is gone), so from the first one on every call of this
 * process answers SX_ROCKS_NO_MEMORY without touching RocksDB, and nothing is
 * closed or freed: the process is to end (sx_process_abandon).  The same when one
 * of RocksDB's own threads runs out of memory.
 *
 * Keys of all calls have SX_ROCKS_KEY_BYTES.  Nothing here knows of the server.
 * Thread: main, between sx_threads_begin and end where threads may be started.
 */
#ifndef SX_STATE_ROCKSDB_SHIM_H
#define SX_STATE_ROCKSDB_SHIM_H

#include <stdbool.h>
#include <stddef.h>

#define SX_ROCKS_KEY_BYTES		20
#define SX_ROCKS_GET_TOGETHER	256
#define SX_ROCKS_MESSAGE_BYTES	512

typedef enum SxRocksResult
{
	SX_ROCKS_OK,
	SX_ROCKS_BUSY,				/* the writes before must reach the disk first: again, a little later */
	SX_ROCKS_ERROR,				/* sx_rocks_message() says what */
	SX_ROCKS_NO_MEMORY			/* see above */
} SxRocksResult;

typedef struct SxRocks SxRocks;

#ifdef __cplusplus
extern "C" {
#endif

/* NULL: no memory. The handle is there before the database, to hold its messages. */
extern SxRocks *sx_rocks_create(size_t memory);
extern SxRocksResult sx_rocks_open(SxRocks *rocks, const char *path, bool create);
extern bool sx_rocks_is_open(const SxRocks *rocks);
extern void sx_rocks_destroy(SxRocks *rocks);	/* closes, too; NULL is fine */

extern const char *sx_rocks_message(const SxRocks *rocks);

/* Somebody's exception has made RocksDB unusable in this process. */
extern bool sx_rocks_spoiled(void);

/* Ends what a read or write has begun; any call that begins one does so, too. */
extern void sx_rocks_forget(SxRocks *rocks);

/* n sorted keys, one behind the other. Values stay until sx_rocks_forget; NULL: not there. */
extern SxRocksResult sx_rocks_get(SxRocks *rocks, int n, const char *keys);
extern const char *sx_rocks_value(const SxRocks *rocks, int i, size_t *len);

/* From the key on, in order; valid is false behind the last one. */
typedef struct SxRocksCell
{
	bool		valid;
	const char *key;			/* these until the next step */
	const char *value;
	size_t		len;
} SxRocksCell;

extern SxRocksResult sx_rocks_seek(SxRocks *rocks, const char *key, SxRocksCell *cell);
extern SxRocksResult sx_rocks_next(SxRocks *rocks, SxRocksCell *cell);

/* A run of writes: through the memtable, or as a sorted file that becomes one of RocksDB's. */
extern SxRocksResult sx_rocks_begin_batch(SxRocks *rocks);
extern SxRocksResult sx_rocks_begin_file(SxRocks *rocks, const char *path);
extern SxRocksResult sx_rocks_put(SxRocks *rocks, const char *key, const char *bytes, size_t len);
extern SxRocksResult sx_rocks_remove(SxRocks *rocks, const char *key);
extern SxRocksResult sx_rocks_remove_range(SxRocks *rocks, const char *from, const char *to);
extern SxRocksResult sx_rocks_end_run(SxRocks *rocks);	/* BUSY only after begin_batch: call it again */

extern SxRocksResult sx_rocks_flush(SxRocks *rocks);

/* Bytes of its caches and buffers; 0 if it can't be told. */
extern size_t sx_rocks_memory(SxRocks *rocks);

#ifdef __cplusplus
}
#endif

#endif
