/*
 * key_hash.h
 *		The hash of a key whose bytes decide what it is equal to.
 *
 * Such keys need no hash in the log: it is made again from the bytes, which
 * more than halves the log of small keys.  Hashes made here are never durable
 * but in a store, which the seed of the incarnation belongs to, so that nobody
 * can choose keys that collide.
 */
#ifndef SX_STATE_KEY_HASH_H
#define SX_STATE_KEY_HASH_H

static inline uint64
sx_key_hash(const char *bytes, uint32 len, uint64 seed)
{
	uint64		hash = seed ^ (len * UINT64CONST(0x9E3779B97F4A7C15));
	uint64		word;

	for (; len >= sizeof(word); len -= sizeof(word), bytes += sizeof(word))
	{
		memcpy(&word, bytes, sizeof(word));
		hash = (hash ^ word) * UINT64CONST(0xC2B2AE3D27D4EB4F);
		hash ^= hash >> 32;
	}
	word = 0;
	memcpy(&word, bytes, len);
	hash = (hash ^ word) * UINT64CONST(0xFF51AFD7ED558CCD);
	hash ^= hash >> 32;
	hash *= UINT64CONST(0xC4CEB9FE1A85EC53);
	return hash ^ (hash >> 29);
}

#endif
