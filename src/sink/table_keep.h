/*
 * table_keep.h
 *		A table that keeps the newest row of each named key.
 */
#ifndef SX_SINK_TABLE_KEEP_H
#define SX_SINK_TABLE_KEEP_H

#include "utils/relcache.h"

#include "sink/table_statements.h"

/* Does the query name the key of its table? */
extern bool sx_table_keeps(const SxSinkConfig *config);

/*
 * For such a query: the columns of its table, which are those of the result without
 * the one that deletes, and the named keys. Errors if they do not exist.
 */
extern SxSinkConfig *sx_table_keep_config(const SxSinkConfig *config);

/* Raises the error of a row without a key. */
extern void sx_table_keep_check_rows(const SxSinkConfig *config, const SxResult *result);

extern char *sx_table_keep_insert_sql(Relation rel, const SxSinkConfig *config);
extern char *sx_table_keep_delete_sql(Relation rel, const SxSinkConfig *config);	/* NULL: nothing is deleted */

#endif
