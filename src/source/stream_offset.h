/*
 * stream_offset.h
 *		A position in an INSERT-able stream.
 *
 * "done" is a snapshot whose transactions have been read completely. With
 * "target" the rows of the transactions that are in target and not in done have
 * been read up to a place in the heaps (a batch was cut there). A row counts as
 * read when
 *		its transaction is in done, or is in target and the row lies before the cut,
 *		or is part_xid and the row was written in an earlier part of it than "part".
 *
 * As JSON:
 *	 {"snapshot": "731:735:732", "first": 1, "heaps": [[2, 16412, 17]],
 *	  "target": "740:741:", "cut": [2, 16412, 21, 1830]}
 * first: generation that was the oldest one when the query began; what was lost
 *	 before was not the query's.
 * heaps: generation, file and block; every row in an earlier block of that
 *	 generation has been read or will never be visible. Valid for that file only:
 *	 a rewritten table has another one, and is read from its beginning.
 * part: transaction and number. Only a batch that ran in the transaction itself
 *	 leaves that behind (engine/session.h): each such batch ends a part of it.
 * cut: generation, file, first block not read, and the number of rows of (done,
 *	 target] before it in this generation, by which the place is found again when
 *	 the table was rewritten.
 */
#ifndef SX_SOURCE_STREAM_OFFSET_H
#define SX_SOURCE_STREAM_OFFSET_H

#include "storage/block.h"
#include "storage/off.h"

#include "source/source.h"
#include "source/stream_storage.h"
#include "source/xid_snapshot.h"

typedef struct SxStreamMark
{
	int64		generation;
	Oid			file;			/* relfilenode */
	BlockNumber block;
} SxStreamMark;

/* A place in the order of rows; rows before it have been read. */
typedef struct SxStreamPlace
{
	int64		generation;
	BlockNumber block;
	OffsetNumber row;
} SxStreamPlace;

typedef struct SxStreamOffset
{
	SxOffset	base;
	SxXidSnapshot *done;
	SxXidSnapshot *target;		/* NULL: no cut */
	SxStreamMark cut;
	int64		cut_rows;
	uint64		part_xid;		/* 0: no transaction was read in part */
	uint16		part;			/* its parts before this one were read */
	int64		first_generation;
	int			nmarks;
	SxStreamMark marks[SX_STREAM_HEAPS];
	struct SxStreamHits *hits;	/* where the rows are that it ends, or NULL; in memory only */
} SxStreamOffset;

/* With the marks, the part and the first generation of another one, if any. */
extern SxStreamOffset *sx_stream_offset_make(SxXidSnapshot *done, const SxStreamOffset *like);

/* Everything but the hits. */
extern SxStreamOffset *sx_stream_offset_copy(const SxStreamOffset *offset);

extern char *sx_stream_offset_print(const SxOffset *offset);
extern SxStreamOffset *sx_stream_offset_parse(const char *stream_name, const char *text);
extern bool sx_stream_offset_equal(const SxOffset *a, const SxOffset *b);

/* First block of a heap that may hold rows which were not read. */
extern BlockNumber sx_stream_offset_low(const SxStreamOffset *offset, int64 generation, Oid file);

/* Raises ERRCODE_SX_CHECKPOINT; what: a full sentence. */
extern void sx_stream_offset_invalid(const char *stream_name, const char *what);

#endif
