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

/*
 * A batch reads its own transaction's rows, all that are there: what is inserted
 * from now on is of a part of its own, which is returned. 0: the transaction has
 * not written anything, so it has no rows. No INSERT into a stream may be running
 * that the batch reads (sx_stream_check_not_written).
 */
extern uint16 sx_stream_part_begin(void);

/* An error if the stream is in use by a running statement of this session. */
extern void sx_stream_check_not_written(Oid stream);

/* Once the transaction commits, the queries that read the stream look for rows. */
extern void sx_stream_wake_at_commit(Oid stream);

#endif
