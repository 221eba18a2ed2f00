/*
 * tier_scan.c
 *		Going through the live entries in memory: by expiry, along the buckets, or
 *		by key group, along the groups' tables.
 */
#include "postgres.h"

#include "state/memory_tier.h"

#define SLOTS_AHEAD		8		/* whose entry the processor is to fetch */

static bool
visit_entry(const SxBucket *bucket, SxEntry *entry, SxStateVisit visit, void *arg)
{
	SxStateKey	key;
	SxStateValue value;

	if (entry->flags & SX_ENTRY_DEAD)
		return true;
	key.op = bucket->op->def.id;
	key.group = entry->group;
	key.hash = entry->hash;
	key.expiry = sx_entry_expiry(entry, bucket);
	key.bytes = sx_entry_key(entry);
	key.len = entry->klen;
	value.bytes = sx_entry_value(entry);
	value.len = entry->vlen;
	return visit(arg, &key, &value);
}

static bool
visit_bucket(SxTier *tier, SxBucket *bucket, SxStateVisit visit, void *arg)
{
	SxRef		ref = bucket->head;

	while (ref != SX_REF_NONE)
	{
		SxEntry    *entry = sx_tier_entry(tier, ref);

		ref = entry->next;
		if (ref != SX_REF_NONE)
			__builtin_prefetch(sx_tier_entry(tier, ref));
		if (!visit_entry(bucket, entry, visit, arg))
			return false;
	}
	return true;
}

/* A bucket's children are no earlier: below a live one there is nothing to find. */
int64
sx_tier_earliest(SxTierOperator *op)
{
	int64		earliest = SX_STATE_NEVER;
	int			allocated = 64;
	int			depth = 0;
	pairingheap_node **stack;

	Assert(!op->def.fine);
	if (pairingheap_is_empty(&op->heap))
		return earliest;
	stack = palloc(allocated * sizeof(*stack));
	stack[depth++] = pairingheap_first(&op->heap);
	while (depth > 0)
	{
		pairingheap_node *node = stack[--depth];
		SxBucket   *bucket = pairingheap_container(SxBucket, node, node);

		if (depth + 2 > allocated)
		{
			allocated *= 2;
			stack = repalloc_huge(stack, allocated * sizeof(*stack));
		}
		if (node->next_sibling != NULL)
			stack[depth++] = node->next_sibling;
		if (bucket->last >= earliest)
			continue;
		if (bucket->live > 0)
			earliest = bucket->last;
		else if (node->first_child != NULL)
			stack[depth++] = node->first_child;
	}
	pfree(stack);
	return earliest;
}

typedef bool (*VisitBucket) (SxTier *tier, SxBucket *bucket, void *arg);

/*
 * Walks the part of the heap that is not later than max_expiry: below a later
 * bucket there are only later ones.
 */
static bool
walk_buckets(SxTier *tier, SxTierOperator *op, int64 max_expiry, VisitBucket visit, void *arg)
{
	int			allocated = 64;
	int			depth = 0;
	pairingheap_node **stack;
	bool		go_on = true;

	sx_tier_split(tier, op, max_expiry);
	if (pairingheap_is_empty(&op->heap))
		return true;
	stack = palloc(allocated * sizeof(*stack));
	stack[depth++] = pairingheap_first(&op->heap);
	while (depth > 0 && go_on)
	{
		pairingheap_node *node = stack[--depth];
		SxBucket   *bucket = pairingheap_container(SxBucket, node, node);

		if (depth + 2 > allocated)
		{
			allocated *= 2;
			stack = repalloc_huge(stack, allocated * sizeof(*stack));
		}
		if (node->next_sibling != NULL)
			stack[depth++] = node->next_sibling;
		if (bucket->last > max_expiry)
			continue;
		if (node->first_child != NULL)
			stack[depth++] = node->first_child;
		go_on = visit(tier, bucket, arg);
	}
	pfree(stack);
	return go_on;
}

typedef struct Scan
{
	SxStateVisit visit;
	void	   *arg;
} Scan;

static bool
scan_bucket(SxTier *tier, SxBucket *bucket, void *arg)
{
	Scan	   *scan = arg;

	return visit_bucket(tier, bucket, scan->visit, scan->arg);
}

bool
sx_tier_scan(SxTier *tier, SxTierOperator *op, int64 max_expiry,
			 SxStateVisit visit, void *arg)
{
	Scan		scan = {visit, arg};

	return walk_buckets(tier, op, max_expiry, scan_bucket, &scan);
}

bool
sx_tier_scan_groups(SxTier *tier, SxTierOperator *op, int first, int last, int64 max_expiry,
					SxStateVisit visit, void *arg)
{
	for (int group = first; group <= last; group++)
	{
		const SxTierTable *table = &tier->tables[group];

		for (uint32 i = 0; i < table->nslots; i++)
		{
			SxEntry    *entry;
			SxBucket   *bucket;

			if (i + SLOTS_AHEAD < table->nslots && table->slots[i + SLOTS_AHEAD].ref != SX_REF_NONE)
				__builtin_prefetch(sx_tier_entry(tier, table->slots[i + SLOTS_AHEAD].ref));
			if (table->slots[i].ref == SX_REF_NONE)
				continue;
			entry = sx_tier_entry(tier, table->slots[i].ref);
			bucket = sx_tier_bucket(tier, entry);
			if (bucket->op != op || bucket->expired || sx_entry_expiry(entry, bucket) > max_expiry)
				continue;
			if (!visit_entry(bucket, entry, visit, arg))
				return false;
		}
	}
	return true;
}

typedef struct Count
{
	int64		n;
	int64		enough;
} Count;

static bool
count_bucket(SxTier *tier, SxBucket *bucket, void *arg)
{
	Count	   *count = arg;

	count->n += bucket->live;
	return count->n < count->enough;
}

int64
sx_tier_due(SxTier *tier, SxTierOperator *op, int64 max_expiry, int64 enough)
{
	Count		count = {0, enough};

	walk_buckets(tier, op, max_expiry, count_bucket, &count);
	return count.n;
}
