/*
 * stream_writer.h
 *		INSERT and COPY into a stream: the callbacks of the foreign-data wrapper.
 */
#ifndef SX_SOURCE_STREAM_WRITER_H
#define SX_SOURCE_STREAM_WRITER_H

#include "nodes/execnodes.h"

extern void sx_stream_writer_begin(ResultRelInfo *rel);
extern TupleTableSlot *sx_stream_writer_insert(EState *estate, ResultRelInfo *rel,
											   TupleTableSlot *slot);
extern void sx_stream_writer_end(ResultRelInfo *rel);

/* Once the transaction commits, the queries that read the stream look for rows. */
extern void sx_stream_wake_at_commit(Oid stream);

#endif
