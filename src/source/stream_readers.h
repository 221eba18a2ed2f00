/*
 * stream_readers.h
 *		Which queries read a stream, and how far they are.
 */
#ifndef SX_SOURCE_STREAM_READERS_H
#define SX_SOURCE_STREAM_READERS_H

#include "nodes/pg_list.h"

#include "source/stream_offset.h"

typedef struct SxStreamReader
{
	char	   *query;			/* name */
	SxStreamOffset *offset;		/* of its last batch; NULL: none yet, or one that cannot be read */
} SxStreamReader;

extern List *sx_stream_readers(Oid stream, const char *name);	/* of SxStreamReader * */

#endif
