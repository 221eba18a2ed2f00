/*
 * stream_ddl.h
 *		The hidden heaps as database objects: made, altered and dropped with
 *		their stream.
 */
#ifndef SX_SOURCE_STREAM_DDL_H
#define SX_SOURCE_STREAM_DDL_H

#include "utils/relcache.h"

#include "source/stream_storage.h"

/* An empty heap with the stream's columns, a member of the extension; rewrite: a temporary name. */
extern Oid	sx_stream_heap_create(Relation stream, int slot, bool rewrite);

/* Takes it out of the extension and drops it. */
extern void sx_stream_heap_drop(Oid heap);

/* Drops the heaps and the catalog rows; the stream may be gone. */
extern void sx_stream_storage_drop(Oid stream);

extern char *sx_stream_heap_name(Oid stream, int slot);

/* Writes the rows of all heaps anew, converted to the stream's columns (stream_rewrite.c). */
extern void sx_stream_rewrite(Relation stream, SxStreamStorage *storage);

/* Type of a column in the heap: a domain's base type, so that no code of users runs on our tables. */
extern Oid	sx_stream_column_type(Form_pg_attribute att, int32 *typmod);

#endif
