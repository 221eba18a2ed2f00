/*
 * outbox.c
 *		Intents as rows of streamx.intent, compressed and cut into parts.
 *
 * The bytes of an intent, over all its parts in order:
 *
 *	 0	"SXI1"		four bytes; another last digit is another version: refused
 *	 4	uint32		CRC-32C of everything after this field
 *	 8	uint64		length of the intent before compression
 *	16	uint64		length of the compressed bytes
 *	24	...			one zstd frame
 *
 * Integers are in the server's byte order: these rows never leave the cluster.
 * A part holds at most PART_SIZE of them, far below what a bytea can carry.
 * Valid is an intent whose parts 0..n-1 are all there, add up to the length in
 * the header and fit the checksum.
 */
#include "postgres.h"

#include <zstd.h>

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "catalog/indexing.h"
#include "port/pg_crc32c.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/errors.h"
#include "checkpoint/outbox.h"
#include "registry/query.h"

#define PART_SIZE	(1024 * 1024)
#define ZSTD_LEVEL	1

enum
{
	Anum_query = 1,
	Anum_batch,
	Anum_part,
	Anum_data,
	Natts_intent = Anum_data
};

typedef struct IntentHeader
{
	char		magic[4];
	pg_crc32c	crc;
	uint64		raw_len;
	uint64		packed_len;
} IntentHeader;

StaticAssertDecl(sizeof(IntentHeader) == 24, "intent header has no padding");

static pg_crc32c
intent_crc(const IntentHeader *header, const char *packed)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, &header->raw_len, sizeof(uint64) * 2);
	COMP_CRC32C(crc, packed, header->packed_len);
	FIN_CRC32C(crc);
	return crc;
}

static void
insert_part(Relation rel, int64 query_id, int64 batch_id, int part,
			const char *bytes, Size len)
{
	bytea	   *data = palloc(VARHDRSZ + len);
	Datum		values[Natts_intent];
	bool		nulls[Natts_intent] = {0};
	HeapTuple	tuple;

	SET_VARSIZE(data, VARHDRSZ + len);
	memcpy(VARDATA(data), bytes, len);
	values[Anum_query - 1] = Int64GetDatum(query_id);
	values[Anum_batch - 1] = Int64GetDatum(batch_id);
	values[Anum_part - 1] = Int32GetDatum(part);
	values[Anum_data - 1] = PointerGetDatum(data);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	pfree(data);
}

void
sx_outbox_append(int64 query_id, int64 batch_id, const char *data, int len)
{
	Relation	rel = sx_catalog_open("intent", Natts_intent, RowExclusiveLock);
	Size		bound = ZSTD_compressBound(len);
	char	   *buffer = MemoryContextAllocHuge(CurrentMemoryContext,
												sizeof(IntentHeader) + bound);
	char	   *packed = buffer + sizeof(IntentHeader);
	IntentHeader header;
	Size		packed_len;
	Size		total;

	packed_len = ZSTD_compress(packed, bound, data, len, ZSTD_LEVEL);
	if (ZSTD_isError(packed_len))	/* there is room for any output: it can only lack memory */
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("could not compress the output of batch %lld", (long long) batch_id),
				 errdetail("zstd: %s", ZSTD_getErrorName(packed_len))));
	memcpy(header.magic, "SXI1", 4);
	header.raw_len = len;
	header.packed_len = packed_len;
	header.crc = intent_crc(&header, packed);
	memcpy(buffer, &header, sizeof(header));

	total = sizeof(header) + packed_len;
	for (Size at = 0; at < total; at += PART_SIZE)
		insert_part(rel, query_id, batch_id, at / PART_SIZE, buffer + at,
					Min(PART_SIZE, total - at));
	pfree(buffer);
	table_close(rel, NoLock);
}

int
sx_outbox_pending(int64 query_id, int64 **batches)
{
	Relation	rel = sx_catalog_open("intent", Natts_intent, AccessShareLock);
	Relation	index = index_open(sx_catalog_relation("intent_query_batch"), AccessShareLock);
	int			n = 0;
	int			space = 16;
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;

	*batches = palloc(sizeof(int64) * space);
	ScanKeyInit(&key, Anum_query, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(query_id));
	scan = systable_beginscan_ordered(rel, index, NULL, 1, &key);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		bool		isnull;
		int64		batch = DatumGetInt64(heap_getattr(tuple, Anum_batch,
													   RelationGetDescr(rel), &isnull));

		if (n > 0 && (*batches)[n - 1] == batch)
			continue;			/* a further part */
		if (n == space)
		{
			space *= 2;
			*batches = repalloc(*batches, sizeof(int64) * space);
		}
		(*batches)[n++] = batch;
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return n;
}

static void
damaged(int64 query_id, int64 batch_id, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_CHECKPOINT),
			 errmsg("output of batch %lld that waits for its sink is damaged",
					(long long) batch_id),
			 errdetail("Table streamx.intent, query %lld: %s.", (long long) query_id, why)));
}

/* All parts one after the other. */
static StringInfo
read_parts(int64 query_id, int64 batch_id)
{
	Relation	rel = sx_catalog_open("intent", Natts_intent, AccessShareLock);
	Relation	index = index_open(sx_catalog_relation("intent_query_batch"), AccessShareLock);
	StringInfo	bytes = makeStringInfo();
	int			part = 0;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_query, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(query_id));
	ScanKeyInit(&keys[1], Anum_batch, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(batch_id));
	scan = systable_beginscan_ordered(rel, index, NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext_ordered(scan, ForwardScanDirection)))
	{
		Datum		values[Natts_intent];
		bool		nulls[Natts_intent];
		bytea	   *data;

		heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
		if (DatumGetInt32(values[Anum_part - 1]) != part++)
			damaged(query_id, batch_id, "a part is missing");
		data = DatumGetByteaPP(values[Anum_data - 1]);
		appendBinaryStringInfo(bytes, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
		if ((Pointer) data != DatumGetPointer(values[Anum_data - 1]))
			pfree(data);
	}
	systable_endscan_ordered(scan);
	index_close(index, AccessShareLock);
	table_close(rel, AccessShareLock);
	return bytes;
}

char *
sx_outbox_read(int64 query_id, int64 batch_id, int *len)
{
	StringInfo	bytes = read_parts(query_id, batch_id);
	IntentHeader header;
	char	   *packed = bytes->data + sizeof(header);
	char	   *data;
	Size		raw_len;

	if (bytes->len < sizeof(header))
		damaged(query_id, batch_id, "it is too short");
	memcpy(&header, bytes->data, sizeof(header));
	if (memcmp(header.magic, "SXI1", 4) != 0)
		damaged(query_id, batch_id, "it is of a version that is not known here");
	if (header.packed_len != bytes->len - sizeof(header) ||
		header.raw_len > MaxAllocSize)
		damaged(query_id, batch_id, "its length is wrong");
	if (!EQ_CRC32C(intent_crc(&header, packed), header.crc))
		damaged(query_id, batch_id, "its checksum is wrong");
	data = palloc(Max(header.raw_len, 1));
	raw_len = ZSTD_decompress(data, header.raw_len, packed, header.packed_len);
	if (ZSTD_isError(raw_len) || raw_len != header.raw_len)
		damaged(query_id, batch_id, "it cannot be decompressed");
	pfree(bytes->data);
	pfree(bytes);
	*len = (int) raw_len;
	return data;
}

void
sx_outbox_delete(int64 query_id, int64 up_to_batch)
{
	Relation	rel = sx_catalog_open("intent", Natts_intent, RowExclusiveLock);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_query, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(query_id));
	ScanKeyInit(&keys[1], Anum_batch, BTLessEqualStrategyNumber, F_INT8LE,
				Int64GetDatum(up_to_batch));
	scan = systable_beginscan(rel, sx_catalog_relation("intent_query_batch"), true,
							  NULL, 2, keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		simple_heap_delete(rel, &tuple->t_self);
	systable_endscan(scan);
	table_close(rel, NoLock);
}

void
sx_outbox_delete_all(int64 query_id)
{
	sx_outbox_delete(query_id, PG_INT64_MAX);
}
