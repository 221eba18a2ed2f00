/*
 * group_key.h
 *		Keys of groups: their hash, their bytes, when two are the same.
 *
 * Bytes of a key (no version of its own: the layout's):
 *	 bitmap		of NULLs, a bit per key column but the window or
 *				session that the operator assigns
 *	 values		of these columns in order, by their codecs
 *	 window		8 bytes: its start as a TimestampTz, if the operator assigns
 *				windows; last, so that the copies of a row differ only here. If it
 *				keeps panes: the start of the pane
 *
 * The hash combines the types' own extended hashes in column order, so equal
 * keys have equal hashes; a type without one is hashed by its bytes if they
 * decide equality, and not at all otherwise.
 */
#ifndef SX_EXEC_GROUP_KEY_H
#define SX_EXEC_GROUP_KEY_H

#include "fmgr.h"

#include "exec/chunk.h"
#include "plan/plan.h"
#include "row/datum_codec.h"
#include "state/state_store.h"

#define SX_WINDOW_BYTES		sizeof(TimestampTz)
#define SX_WINDOW_CACHE		256 /* a power of two */

typedef struct SxKeyColumn
{
	AttrNumber	input;			/* column of the segment's row */
	int			output;			/* index among the keys */
	Oid			hash_function;	/* InvalidOid: none */
	Oid			eq_function;
	Oid			collation;
	bool		bytewise;

	FmgrInfo	equal;			/* for the query's life */
	FmgrInfo	hash;			/* per batch */
} SxKeyColumn;

/* The range of a window that was shown a moment ago. */
typedef struct SxWindowRange
{
	TimestampTz start;
	TimestampTz end;
	bool		made;
	char		range[48] pg_attribute_aligned(8);
} SxWindowRange;

typedef struct SxGroupKey
{
	int			nkeys;			/* of the plan */
	int			ncolumns;		/* without the window */
	SxKeyColumn *columns;
	SxDatumCodec *codecs;		/* of the columns */
	int			window;			/* index of the window among the keys, or -1 */
	int64		window_size;
	int64		window_slide;
	Oid			window_type;	/* tstzrange */
	SxWindowRange *ranges;		/* SX_WINDOW_CACHE */
	bool		bytewise;		/* bytes decide equality */
	MemoryContext scratch;		/* for equal */
	MemoryContext context;		/* where this lies */
} SxGroupKey;

extern SxGroupKey *sx_group_key_make(const SxPlanOperator *plan);

/* Per batch: looks up the hash functions; CurrentMemoryContext is the batch's. */
extern void sx_group_key_begin(SxGroupKey *key);

/* Hashes of the chunk's rows, without the window. */
extern void sx_group_key_hash(SxGroupKey *key, const SxChunk *chunk, uint64 *hashes);
extern uint64 sx_group_key_hash_window(uint64 hash, TimestampTz start);

/* Appends the bytes of a row's key, without the window. */
extern void sx_group_key_encode(SxGroupKey *key, const SxChunk *chunk, int row, StringInfo out);

/*
 * All keys in the plan's order; palloc'ed in CurrentMemoryContext, but a window
 * is valid until the next one is decoded. expiry is that of the state key: a
 * window that was open when the query's windows got another size keeps its end.
 */
extern void sx_group_key_decode(SxGroupKey *key, const char *bytes, uint32 len, int64 expiry,
								Datum *values, bool *nulls);

/* The same without the window, pane or session. */
extern void sx_group_key_decode_columns(SxGroupKey *key, const char *bytes, uint32 len,
										Datum *values, bool *nulls);

/* The range of a window; valid until the next one is asked for. */
extern Datum sx_group_key_window(SxGroupKey *key, TimestampTz start, TimestampTz end);

/* The last eight bytes of a key of an operator that assigns windows. */
static inline TimestampTz
sx_group_key_start(const char *bytes, uint32 len)
{
	TimestampTz start;

	memcpy(&start, bytes + len - SX_WINDOW_BYTES, SX_WINDOW_BYTES);
	return start;
}

/* An SxStateEqual; arg is the SxGroupKey. Keys of equal hash and expiry. */
extern bool sx_group_key_equal(void *arg, const char *a, uint32 alen,
							   const char *b, uint32 blen);

#endif
