/*
 * byte_set.c
 *		Open addressing; the strings themselves are packed into blocks.
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/memutils.h"

#include "row/byte_set.h"

#define BLOCK_SIZE	8192

typedef struct Entry
{
	uint32		hash;
	uint32		len;
	const char *bytes;			/* NULL: free */
} Entry;

struct SxByteSet
{
	MemoryContext context;
	uint32		mask;
	uint32		n;
	Entry	   *entries;
	char	   *free;			/* rest of the current block */
	size_t		nfree;
};

SxByteSet *
sx_byte_set_make(uint32 expected)
{
	SxByteSet  *set = palloc0(sizeof(SxByteSet));
	uint32		size = 16;

	while (size / 2 < expected && size < (1U << 30))
		size *= 2;
	set->context = CurrentMemoryContext;
	set->mask = size - 1;
	set->entries = palloc_extended(size * sizeof(Entry), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	return set;
}

static Entry *
find(const SxByteSet *set, uint32 hash, const char *bytes, uint32 len)
{
	uint32		i = hash & set->mask;

	for (;;)
	{
		Entry	   *entry = &set->entries[i];

		if (entry->bytes == NULL ||
			(entry->hash == hash && entry->len == len &&
			 memcmp(entry->bytes, bytes, len) == 0))
			return entry;
		i = (i + 1) & set->mask;
	}
}

static void
grow(SxByteSet *set)
{
	uint32		old_size = set->mask + 1;
	Entry	   *old = set->entries;
	Size		bytes = (Size) old_size * 2 * sizeof(Entry);

	set->entries = MemoryContextAllocExtended(set->context, bytes,
											  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	set->mask = old_size * 2 - 1;
	for (uint32 i = 0; i < old_size; i++)
	{
		if (old[i].bytes != NULL)
			*find(set, old[i].hash, old[i].bytes, old[i].len) = old[i];
	}
	pfree(old);
}

static const char *
keep(SxByteSet *set, const char *bytes, uint32 len)
{
	char	   *copy;

	if (len > BLOCK_SIZE / 8)
		copy = MemoryContextAlloc(set->context, len);
	else
	{
		if (set->nfree <= len)
		{
			set->free = MemoryContextAlloc(set->context, BLOCK_SIZE);
			set->nfree = BLOCK_SIZE;
		}
		copy = set->free;
		set->free += len;
		set->nfree -= len;
	}
	memcpy(copy, bytes, len);
	return copy;
}

bool
sx_byte_set_add(SxByteSet *set, const char *bytes, uint32 len)
{
	uint32		hash = hash_bytes((const unsigned char *) bytes, len);
	Entry	   *entry = find(set, hash, bytes, len);

	if (entry->bytes != NULL)
		return false;
	if (set->n >= (set->mask + 1) / 2)
	{
		grow(set);
		entry = find(set, hash, bytes, len);
	}
	entry->hash = hash;
	entry->len = len;
	entry->bytes = keep(set, bytes, len);
	set->n++;
	return true;
}

bool
sx_byte_set_has(const SxByteSet *set, const char *bytes, uint32 len)
{
	uint32		hash = hash_bytes((const unsigned char *) bytes, len);

	return find(set, hash, bytes, len)->bytes != NULL;
}
