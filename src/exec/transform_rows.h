/*
 * transform_rows.h
 *		Rows of a batch by their keys: (key, row) in any order go in, the rows of
 *		each key come out as arrays.
 *
 * Rows are sorted by the number of their key, on disk where they don't fit into
 * work_mem; keys are numbered as they come. The arrays of a key with more rows
 * than one may have, or with more bytes, come one after the other.
 */
#ifndef SX_EXEC_TRANSFORM_ROWS_H
#define SX_EXEC_TRANSFORM_ROWS_H

#include "executor/tuptable.h"

#include "exec/group_table.h"

typedef struct SxKeyedRows SxKeyedRows;

/*
 * rows: an array of the rows' type, in CurrentMemoryContext, which is reset
 * afterwards. last: the key has no more of them.
 */
typedef void (*SxKeyedRowsVisit) (void *arg, const SxGroup *group, Datum rows, bool last);

/* Columns of what goes in: the key, then the row. In CurrentMemoryContext, the batch's. */
extern SxKeyedRows *sx_keyed_rows_make(SxGroupKey *key, Oid row_type, int max_rows);

/* Rows of the chunk whose numbers are listed. */
extern void sx_keyed_rows_add(SxKeyedRows *rows, const SxChunk *chunk, int n, const int *numbers);

/* Each key, in the order in which they came; ends it. */
extern void sx_keyed_rows_visit(SxKeyedRows *rows, SxKeyedRowsVisit visit, void *arg);

#endif
