/*
 * table_stream.h
 *		The INSERT-able stream as a source; what retention needs to know of it.
 */
#ifndef SX_SOURCE_TABLE_STREAM_H
#define SX_SOURCE_TABLE_STREAM_H

#include "source/source.h"
#include "source/stream_offset.h"
#include "source/stream_page.h"
#include "source/stream_storage.h"
#include "source/stream_walk.h"

extern const SxSourceRoutine sx_table_stream_routine;

/* Locks stay until the end of the transaction. */
extern void sx_stream_heaps_open(Oid stream, const char *name, SxStreamHeaps *heaps);
extern void sx_stream_heaps_close(SxStreamHeaps *heaps);

/* Has the reader at this offset missed what the loss took away? */
extern bool sx_stream_loss_concerns(const SxStreamLoss *loss, const SxStreamOffset *offset);

#endif
