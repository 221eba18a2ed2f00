/*
 * rocksdb_shim.cc
 *		Catches what RocksDB throws.
 *
 *	guarded:	spoiled?  -> NO_MEMORY
 *				try the body; its Status -> OK, BUSY or ERROR with a message
 *				any exception -> spoiled for ever, NO_MEMORY
 *
 * A thread of RocksDB that runs out of memory has nobody who catches: the C++
 * runtime calls the terminate handler on it, with its stack as it was.  Ours lets
 * that thread wait until the process ends by itself, which the main thread sees
 * to at its next call.  Only when that one is inside RocksDB for so long that it
 * may be waiting for the lost thread, the process dies as it would have.
 *
 * No header of the server here: they aren't made for C++.
 */
#include "state/rocksdb_shim.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/sst_file_writer.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include "base/crash_point.h"

#define PATIENCE_SECONDS	30

using rocksdb::Slice;
using rocksdb::Status;

struct SxRocks
{
	/* set when it is made */
	size_t		memory;
	char		message[SX_ROCKS_MESSAGE_BYTES];

	/* set when the database is opened */
	rocksdb::Options options;
	rocksdb::ReadOptions read_options;
	rocksdb::WriteOptions write_options;
	std::shared_ptr<rocksdb::Cache> cache;
	std::unique_ptr<rocksdb::DB> db;

	/* of a read or write that was begun */
	int			nvalues;
	Slice		keys[SX_ROCKS_GET_TOGETHER];
	Status		statuses[SX_ROCKS_GET_TOGETHER];
	rocksdb::PinnableSlice values[SX_ROCKS_GET_TOGETHER];
	bool		found[SX_ROCKS_GET_TOGETHER];
	std::unique_ptr<rocksdb::Iterator> iterator;
	std::unique_ptr<rocksdb::WriteBatch> batch;
	std::unique_ptr<rocksdb::SstFileWriter> file;
	std::vector<std::string> files; /* the one of file, as RocksDB wants to be told */
	bool		file_has_keys;
};

/* ---------- catching ---------- */

static std::atomic<bool> spoiled(false);
static std::atomic<bool> inside(false);	/* the main thread is in RocksDB */
static std::terminate_handler terminate_before;
static pthread_t main_thread;

/* Thread: any. */
static void
wait_for_the_end()
{
	struct timespec second = {1, 0};
	int			seconds = 0;

	if (std::current_exception() == nullptr || pthread_equal(pthread_self(), main_thread))
	{
		terminate_before();
		abort();
	}
	spoiled = true;
	while (seconds < PATIENCE_SECONDS)
	{
		nanosleep(&second, nullptr);
		seconds = inside ? seconds + 1 : 0;
	}
	terminate_before();
	abort();
}

template <typename Body>
static SxRocksResult
guarded(SxRocks *rocks, Body body) noexcept
{
	SxRocksResult result = SX_ROCKS_NO_MEMORY;

	if (spoiled.load(std::memory_order_relaxed))
		return result;
	inside.store(true, std::memory_order_relaxed);
	try
	{
		if (SX_CRASH_POINT_FAILS("store-memory"))
			throw std::bad_alloc();

		Status		status = body();

		if (status.ok())
			result = SX_ROCKS_OK;
		else if (status.IsIncomplete())
			result = SX_ROCKS_BUSY;
		else
		{
			result = SX_ROCKS_ERROR;
			snprintf(rocks->message, sizeof(rocks->message), "%s", status.ToString().c_str());
		}
	}
	catch (...)
	{
		spoiled = true;
	}
	inside.store(false, std::memory_order_relaxed);
	/* one of its threads may have been lost meanwhile */
	return spoiled.load(std::memory_order_relaxed) ? SX_ROCKS_NO_MEMORY : result;
}

bool
sx_rocks_spoiled(void)
{
	return spoiled;
}

const char *
sx_rocks_message(const SxRocks *rocks)
{
	return rocks->message;
}

/* ---------- opening and closing ---------- */

SxRocks *
sx_rocks_create(size_t memory)
{
	if (spoiled)
		return nullptr;
	try
	{
		SxRocks    *rocks = new SxRocks();

		rocks->memory = memory;
		return rocks;
	}
	catch (...)
	{
		return nullptr;			/* nothing was begun: this one spoils nothing */
	}
}

static void
set_table_options(SxRocks *rocks)
{
	rocksdb::BlockBasedTableOptions table;

	/* filters and indexes are in the cache, so the cache's size is the bound;
	 * one shard: a filter block may be larger than a sixteenth of a small cache */
	rocks->cache = rocksdb::NewLRUCache(rocks->memory / 4 * 3, 0);
	table.block_cache = rocks->cache;
	table.cache_index_and_filter_blocks = true;
	table.cache_index_and_filter_blocks_with_high_priority = true;
	table.pin_l0_filter_and_index_blocks_in_cache = true;
	/* most misses are new keys: the filter answers them */
	table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10, false));
	table.block_size = 4096;
	table.format_version = 5;
	table.data_block_index_type = rocksdb::BlockBasedTableOptions::kDataBlockBinaryAndHash;
	table.data_block_hash_table_util_ratio = 0.75;
	rocks->options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
}

static void
set_options(SxRocks *rocks)
{
	rocksdb::Options &options = rocks->options;

	options.write_buffer_size = rocks->memory / 8 > 64 * 1024 ? rocks->memory / 8 : 64 * 1024;
	options.max_write_buffer_number = 2;
	options.max_background_jobs = 2;
	options.target_file_size_base = 16 * 1024 * 1024;
	options.max_bytes_for_level_base = 128 * 1024 * 1024;
	options.level0_file_num_compaction_trigger = 6;
	options.compression = rocksdb::kLZ4Compression;
	options.max_open_files = 256;
	options.info_log_level = rocksdb::ERROR_LEVEL;
	options.keep_log_file_num = 1;
	/* without its mark the store isn't believed, and the mark flushes */
	options.avoid_flush_during_shutdown = true;
	/* no periodic work: an idle query costs nothing */
	options.stats_dump_period_sec = 0;
	options.stats_persist_period_sec = 0;
	set_table_options(rocks);
	rocks->write_options.disableWAL = true;
	/* an answer instead of a wait in which nobody could be interrupted */
	rocks->write_options.no_slowdown = true;
}

SxRocksResult
sx_rocks_open(SxRocks *rocks, const char *path, bool create)
{
	if (terminate_before == nullptr)
	{
		main_thread = pthread_self();
		terminate_before = std::set_terminate(wait_for_the_end);
	}
	return guarded(rocks, [=]() {
		rocksdb::DB *db = nullptr;
		Status		status;

		if (rocks->cache == nullptr)
			set_options(rocks);
		rocks->options.create_if_missing = create;
		status = rocksdb::DB::Open(rocks->options, path, &db);
		if (status.ok())
			rocks->db.reset(db);
		return status;
	});
}

bool
sx_rocks_is_open(const SxRocks *rocks)
{
	return rocks->db != nullptr;
}

static void
forget(SxRocks *rocks)
{
	while (rocks->nvalues > 0)
		rocks->values[--rocks->nvalues].Reset();
	rocks->iterator.reset();
	rocks->batch.reset();
	rocks->file.reset();
}

void
sx_rocks_forget(SxRocks *rocks)
{
	if (rocks->nvalues == 0 && !rocks->iterator && !rocks->batch && !rocks->file)
		return;
	(void) guarded(rocks, [=]() {
		forget(rocks);
		return Status::OK();
	});
}

void
sx_rocks_destroy(SxRocks *rocks)
{
	if (rocks == nullptr)
		return;
	(void) guarded(rocks, [=]() {
		forget(rocks);
		if (rocks->db)
			(void) rocks->db->Close();	/* not left to a destructor, which must not throw */
		delete rocks;
		return Status::OK();
	});
}

/* ---------- reading ---------- */

SxRocksResult
sx_rocks_get(SxRocks *rocks, int n, const char *keys)
{
	return guarded(rocks, [=]() {
		forget(rocks);
		for (int i = 0; i < n; i++)
			rocks->keys[i] = Slice(keys + i * SX_ROCKS_KEY_BYTES, SX_ROCKS_KEY_BYTES);
		rocks->nvalues = n;
		rocks->db->MultiGet(rocks->read_options, rocks->db->DefaultColumnFamily(), n,
							rocks->keys, rocks->values, rocks->statuses, true);
		for (int i = 0; i < n; i++)
		{
			if (!rocks->statuses[i].ok() && !rocks->statuses[i].IsNotFound())
				return rocks->statuses[i];
			rocks->found[i] = rocks->statuses[i].ok();
		}
		return Status::OK();
	});
}

const char *
sx_rocks_value(const SxRocks *rocks, int i, size_t *len)
{
	if (!rocks->found[i])
		return nullptr;
	*len = rocks->values[i].size();
	return rocks->values[i].data();
}

/* The iterator's place as a cell; the Status of the step that led there. */
static Status
cell_of(SxRocks *rocks, SxRocksCell *cell)
{
	rocksdb::Iterator *iterator = rocks->iterator.get();

	cell->valid = iterator->Valid() && iterator->key().size() == SX_ROCKS_KEY_BYTES;
	if (!cell->valid)
		return iterator->status();
	cell->key = iterator->key().data();
	cell->value = iterator->value().data();
	cell->len = iterator->value().size();
	return Status::OK();
}

SxRocksResult
sx_rocks_seek(SxRocks *rocks, const char *key, SxRocksCell *cell)
{
	return guarded(rocks, [=]() {
		forget(rocks);
		rocks->iterator.reset(rocks->db->NewIterator(rocks->read_options));
		rocks->iterator->Seek(Slice(key, SX_ROCKS_KEY_BYTES));
		return cell_of(rocks, cell);
	});
}

SxRocksResult
sx_rocks_next(SxRocks *rocks, SxRocksCell *cell)
{
	return guarded(rocks, [=]() {
		rocks->iterator->Next();
		return cell_of(rocks, cell);
	});
}

/* ---------- writing ---------- */

SxRocksResult
sx_rocks_begin_batch(SxRocks *rocks)
{
	return guarded(rocks, [=]() {
		forget(rocks);
		rocks->batch.reset(new rocksdb::WriteBatch());
		return Status::OK();
	});
}

SxRocksResult
sx_rocks_begin_file(SxRocks *rocks, const char *path)
{
	return guarded(rocks, [=]() {
		forget(rocks);
		rocks->files.assign(1, path);
		rocks->file_has_keys = false;
		rocks->file.reset(new rocksdb::SstFileWriter(rocksdb::EnvOptions(), rocks->options));
		return rocks->file->Open(rocks->files[0]);
	});
}

SxRocksResult
sx_rocks_put(SxRocks *rocks, const char *key, const char *bytes, size_t len)
{
	return guarded(rocks, [=]() {
		if (!rocks->file)
			return rocks->batch->Put(Slice(key, SX_ROCKS_KEY_BYTES), Slice(bytes, len));
		rocks->file_has_keys = true;
		return rocks->file->Put(Slice(key, SX_ROCKS_KEY_BYTES), Slice(bytes, len));
	});
}

SxRocksResult
sx_rocks_remove(SxRocks *rocks, const char *key)
{
	return guarded(rocks, [=]() {
		if (!rocks->file)
			return rocks->batch->Delete(Slice(key, SX_ROCKS_KEY_BYTES));
		rocks->file_has_keys = true;
		return rocks->file->Delete(Slice(key, SX_ROCKS_KEY_BYTES));
	});
}

SxRocksResult
sx_rocks_remove_range(SxRocks *rocks, const char *from, const char *to)
{
	return guarded(rocks, [=]() {
		return rocks->batch->DeleteRange(Slice(from, SX_ROCKS_KEY_BYTES),
										 Slice(to, SX_ROCKS_KEY_BYTES));
	});
}

static Status
ingest(SxRocks *rocks)
{
	rocksdb::IngestExternalFileOptions options;
	Status		status = rocks->file->Finish();

	if (!status.ok())
		return status;
	options.move_files = true;
	options.snapshot_consistency = false;
	return rocks->db->IngestExternalFile(rocks->files, options);
}

SxRocksResult
sx_rocks_end_run(SxRocks *rocks)
{
	return guarded(rocks, [=]() {
		Status		status;

		if (rocks->batch)
			status = rocks->db->Write(rocks->write_options, rocks->batch.get());
		else if (rocks->file_has_keys)
			status = ingest(rocks);
		if (!status.IsIncomplete())
			forget(rocks);
		return status;
	});
}

SxRocksResult
sx_rocks_flush(SxRocks *rocks)
{
	return guarded(rocks, [=]() {
		return rocks->db->Flush(rocksdb::FlushOptions());
	});
}

size_t
sx_rocks_memory(SxRocks *rocks)
{
	size_t		bytes = 0;

	if (!rocks->db)
		return 0;
	(void) guarded(rocks, [rocks, &bytes]() {
		uint64_t	tables = 0;

		rocks->db->GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &tables);
		bytes = tables + rocks->cache->GetUsage();
		return Status::OK();
	});
	return bytes;
}
