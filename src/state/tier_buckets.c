/*
 * tier_buckets.c
 *		See tier_buckets.h.
 *
 * Fine buckets: a second of time to begin with, so that a key costs no bucket of
 * its own.  What a watermark or a scan cuts is dealt out to narrower ones, and so
 * are later keys of that time; only where it cuts at all times, as with small
 * batches, are there many of one expiry.
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "state/tier_buckets.h"

typedef struct Span
{
	int64		first;
	int64		last;
} Span;

typedef struct BucketBySpan
{
	Span		span;
	SxRef		ref;
	char		status;
} BucketBySpan;

static inline uint32
hash_span(Span span)
{
	uint64		both = (uint64) span.first * 31 + (uint64) span.last;

	return murmurhash32((uint32) (both ^ (both >> 32) * 31));
}

#define SH_PREFIX sx_buckets
#define SH_ELEMENT_TYPE BucketBySpan
#define SH_KEY_TYPE Span
#define SH_KEY span
#define SH_HASH_KEY(tb, key) hash_span(key)
#define SH_EQUAL(tb, a, b) ((a).first == (b).first && (a).last == (b).last)
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* Spans of fine buckets, in microseconds: powers of two, each many of the next. */
static const int64 spans[] = {1 << 20, 1 << 15, 1 << 10};

/* The earliest one is the root: a min-heap turns the sign. */
static int
compare_buckets(const pairingheap_node *a, const pairingheap_node *b, void *arg)
{
	int64		left = pairingheap_const_container(SxBucket, node, a)->last;
	int64		right = pairingheap_const_container(SxBucket, node, b)->last;

	return left < right ? 1 : (left > right ? -1 : 0);
}

void
sx_tier_buckets_init(SxTierOperator *op, MemoryContext context)
{
	op->split_at = PG_INT64_MIN;
	op->heap.ph_compare = compare_buckets;
	op->buckets = sx_buckets_create(context, 16, NULL);
}

/* The widest span for a key that goes then: none that was split already. */
static Span
span_of(const SxTierOperator *op, int64 expiry)
{
	Span		span = {expiry, expiry};

	if (!op->def.fine || expiry > PG_INT64_MAX - spans[0])
		return span;
	for (int i = 0; i < lengthof(spans); i++)
	{
		int64		first = expiry & ~(spans[i] - 1);

		if (first > op->split_at)
		{
			span.first = first;
			span.last = first + spans[i] - 1;
			break;
		}
	}
	return span;
}

SxBucket *
sx_tier_bucket_get(SxTier *tier, SxTierOperator *op, int64 expiry)
{
	Span		span = span_of(op, expiry);
	BucketBySpan *element;
	SxBucket   *bucket;
	SxRef		ref;
	bool		found;

	if (op->last_bucket != NULL && op->last_bucket->first == span.first &&
		op->last_bucket->last == span.last)
		return op->last_bucket;
	element = sx_buckets_lookup(op->buckets, span);
	if (element != NULL)
		return op->last_bucket = sx_tier_bucket_pointer(tier, element->ref);
	ref = sx_entry_alloc(&tier->memory, sizeof(SxBucket));
	bucket = sx_tier_bucket_pointer(tier, ref);
	memset(bucket, 0, sizeof(*bucket));
	bucket->op = op;
	bucket->first = span.first;
	bucket->last = span.last;
	bucket->self = ref;
	element = sx_buckets_insert(op->buckets, span, &found);
	element->ref = ref;
	pairingheap_add(&op->heap, &bucket->node);
	return op->last_bucket = bucket;
}

static inline Span
bucket_span(const SxBucket *bucket)
{
	Span		span = {bucket->first, bucket->last};

	return span;
}

/* The bucket can't be found any more; its entries still know it. */
static void
bucket_detach(SxTierOperator *op, SxBucket *bucket)
{
	if (op->last_bucket == bucket)
		op->last_bucket = NULL;
	sx_buckets_delete(op->buckets, bucket_span(bucket));
	pairingheap_remove(&op->heap, &bucket->node);
}

/* Out of the chain; an empty bucket stays. */
static void
chain_remove(SxTier *tier, SxBucket *bucket, SxEntry *entry)
{
	if (entry->prev != SX_REF_NONE)
		sx_tier_entry(tier, entry->prev)->next = entry->next;
	else
		bucket->head = entry->next;
	if (entry->next != SX_REF_NONE)
		sx_tier_entry(tier, entry->next)->prev = entry->prev;
	bucket->count--;
}

void
sx_tier_bucket_add(SxTier *tier, SxBucket *bucket, SxEntry *entry, SxRef ref)
{
	entry->bucket = bucket->self;
	entry->prev = SX_REF_NONE;
	entry->next = bucket->head;
	if (bucket->head != SX_REF_NONE)
		sx_tier_entry(tier, bucket->head)->prev = ref;
	bucket->head = ref;
	bucket->count++;
}

void
sx_tier_bucket_remove(SxTier *tier, SxBucket *bucket, SxEntry *entry)
{
	chain_remove(tier, bucket, entry);
	if (bucket->count == 0 && !bucket->expired)
	{
		bucket_detach(bucket->op, bucket);
		sx_entry_free(&tier->memory, bucket->self);
	}
}

/* Its entries into finer buckets: those that are made from now on. */
static void
deal_out(SxTier *tier, SxTierOperator *op, SxBucket *bucket)
{
	while (bucket->head != SX_REF_NONE)
	{
		SxRef		ref = bucket->head;
		SxEntry    *entry = sx_tier_entry(tier, ref);
		SxBucket   *finer = sx_tier_bucket_get(tier, op, *sx_entry_fine_expiry(entry));
		int			live = (entry->flags & SX_ENTRY_DEAD) ? 0 : 1;

		Assert(finer != bucket);
		if (entry->next != SX_REF_NONE)
			__builtin_prefetch(sx_tier_entry(tier, entry->next));
		chain_remove(tier, bucket, entry);
		sx_tier_bucket_add(tier, finer, entry, ref);
		bucket->live -= live;
		finer->live += live;
	}
	bucket_detach(op, bucket);
	sx_entry_free(&tier->memory, bucket->self);
}

void
sx_tier_split(SxTier *tier, SxTierOperator *op, int64 at)
{
	if (!op->def.fine || at > PG_INT64_MAX - spans[0])
		return;
	op->split_at = Max(op->split_at, at);
	for (int i = 0; i < lengthof(spans); i++)
	{
		Span		span;
		BucketBySpan *element;

		span.first = at & ~(spans[i] - 1);
		span.last = span.first + spans[i] - 1;
		if (span.last == at)
			return;				/* nor is any narrower one cut */
		element = sx_buckets_lookup(op->buckets, span);
		if (element != NULL)
			deal_out(tier, op, sx_tier_bucket_pointer(tier, element->ref));
	}
}

/* ---------- expiry ---------- */

int64
sx_tier_expire(SxTier *tier, SxTierOperator *op, int64 watermark)
{
	int64		dropped = 0;

	sx_tier_split(tier, op, watermark);
	while (!pairingheap_is_empty(&op->heap))
	{
		SxBucket   *bucket = pairingheap_container(SxBucket, node,
												   pairingheap_first(&op->heap));

		if (bucket->last > watermark || bucket->last == SX_STATE_NEVER)
			break;
		bucket_detach(op, bucket);
		bucket->expired = true;
		bucket->next_expired = op->expired;
		op->expired = bucket->self;
		dropped += bucket->live;
	}
	op->rows -= dropped;
	return dropped;
}

/*
 * A bucket of the same expiry that was made later held only entries of this
 * batch, which are gone by now.
 */
void
sx_tier_unexpire(SxTier *tier, SxTierOperator *op)
{
	while (op->expired != SX_REF_NONE)
	{
		SxBucket   *bucket = sx_tier_bucket_pointer(tier, op->expired);
		BucketBySpan *later = sx_buckets_lookup(op->buckets, bucket_span(bucket));
		bool		found;

		if (later != NULL)
		{
			SxBucket   *empty = sx_tier_bucket_pointer(tier, later->ref);

			Assert(empty->count == 0);	/* an allocation failed after it */
			bucket_detach(op, empty);
			sx_entry_free(&tier->memory, empty->self);
		}
		op->expired = bucket->next_expired;
		bucket->expired = false;
		if (bucket->count == 0)
		{
			sx_entry_free(&tier->memory, bucket->self);
			continue;
		}
		sx_buckets_insert(op->buckets, bucket_span(bucket), &found)->ref = bucket->self;
		Assert(!found);
		pairingheap_add(&op->heap, &bucket->node);
		op->rows += bucket->live;
	}
}
