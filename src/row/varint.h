/*
 * varint.h
 *		Numbers as few bytes: seven bits a byte, low ones first.
 *
 * Signed numbers are folded first (0, -1, 1, -2, ...), so that small ones are
 * short whatever their sign. One number has one form, so equal bytes mean equal
 * numbers.
 */
#ifndef SX_ROW_VARINT_H
#define SX_ROW_VARINT_H

#include "lib/stringinfo.h"

#define SX_VARINT_MAX	10		/* bytes of the longest one */

static inline uint64
sx_zigzag(int64 n)
{
	return ((uint64) n << 1) ^ (uint64) (n >> 63);
}

static inline int64
sx_unzigzag(uint64 n)
{
	return (int64) (n >> 1) ^ -(int64) (n & 1);
}

/* Writes at p, which has room for SX_VARINT_MAX bytes; returns the end. */
static inline char *
sx_varint_write(char *p, uint64 n)
{
	while (n >= 0x80)
	{
		*p++ = (char) (n | 0x80);
		n >>= 7;
	}
	*p++ = (char) n;
	return p;
}

static inline void
sx_varint_append(StringInfo out, uint64 n)
{
	enlargeStringInfo(out, SX_VARINT_MAX);
	out->len = sx_varint_write(out->data + out->len, n) - out->data;
}

/* What is being decoded: [p, end). */
typedef struct SxReader
{
	const char *p;
	const char *end;
} SxReader;

/* Raises ERRCODE_SX_CHECKPOINT: bytes of the state are not what was written. */
extern void sx_reader_short(void) __attribute__((noreturn));

static inline const char *
sx_read_bytes(SxReader *in, size_t len)
{
	const char *p = in->p;

	if (unlikely((size_t) (in->end - p) < len))
		sx_reader_short();
	in->p += len;
	return p;
}

static inline uint64
sx_read_varint(SxReader *in)
{
	uint64		n = 0;
	int			shift = 0;

	for (;;)
	{
		unsigned char c = *(const unsigned char *) sx_read_bytes(in, 1);

		n |= (uint64) (c & 0x7f) << shift;
		if (c < 0x80)
			return n;
		shift += 7;
		if (unlikely(shift > 63))
			sx_reader_short();
	}
}

#endif
