/*
 * tier_buckets.h
 *		Entries of the memory tier by when they expire; for its files only.
 */
#ifndef SX_STATE_TIER_BUCKETS_H
#define SX_STATE_TIER_BUCKETS_H

#include "state/memory_tier.h"

extern void sx_tier_buckets_init(SxTierOperator *op, MemoryContext context);

/* The bucket for entries of this expiry; made where there is none. */
extern SxBucket *sx_tier_bucket_get(SxTier *tier, SxTierOperator *op, int64 expiry);

/* Into the bucket's chain, and out of it: then an empty bucket goes. */
extern void sx_tier_bucket_add(SxTier *tier, SxBucket *bucket, SxEntry *entry, SxRef ref);
extern void sx_tier_bucket_remove(SxTier *tier, SxBucket *bucket, SxEntry *entry);

/* Takes back what sx_tier_expire did; of the batch's own entries none is left by then. */
extern void sx_tier_unexpire(SxTier *tier, SxTierOperator *op);

static inline SxBucket *
sx_tier_bucket_pointer(const SxTier *tier, SxRef ref)
{
	return (SxBucket *) sx_entry_pointer(&tier->memory, ref);
}

#endif
