/*
 * group_table.h
 *		The groups that one batch touches: a hash table in the batch's memory.
 *
 * A group is an SxGroup followed by the aggregates' values. Groups never move;
 * they are numbered in the order in which they were first seen.
 */
#ifndef SX_EXEC_GROUP_TABLE_H
#define SX_EXEC_GROUP_TABLE_H

#include "exec/group_key.h"

typedef struct SxGroup
{
	uint64		hash;
	int64		expiry;
	const char *key;
	uint32		keylen;
	uint8		group;			/* its key group */
	bool		is_new;			/* no batch before had it */
} SxGroup;

/* A row, or one window's copy of it, on its way to its group. */
typedef struct SxUpdate
{
	uint64		hash;
	int64		expiry;
	uint32		key;			/* offset of its bytes in the buffer of the round */
	uint32		keylen;
	uint8		group;
	int			row;			/* of the chunk */
} SxUpdate;

typedef struct SxGroupTable
{
	SxGroupKey *key;
	Size		group_size;
	MemoryContext context;		/* of the batch */

	uint32		ngroups;
	uint32		mask;
	struct SxGroupSlot *slots;
	char	  **blocks;			/* of GROUPS_PER_BLOCK groups */
	uint32		nblocks;
	char	   *free;			/* rest of the current block of key bytes */
	Size		nfree;
} SxGroupTable;

/* In CurrentMemoryContext, the batch's. group_size is that of SxGroup and the values. */
extern SxGroupTable *sx_group_table_make(SxGroupKey *key, Size group_size);

/* Finds or makes the group of each update. New groups are numbered from the old ngroups on. */
extern void sx_group_table_find(SxGroupTable *table, int n, const SxUpdate *updates,
								const char *keys, SxGroup **groups);

extern SxGroup *sx_group_table_get(const SxGroupTable *table, uint32 number);

#endif
