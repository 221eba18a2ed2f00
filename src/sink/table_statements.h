/*
 * table_statements.h
 *		The SQL that brings a result into a table.
 *
 * All names and operators are qualified: see rows_relation.h. Results are in
 * CurrentMemoryContext.
 */
#ifndef SX_SINK_TABLE_STATEMENTS_H
#define SX_SINK_TABLE_STATEMENTS_H

#include "lib/stringinfo.h"
#include "utils/relcache.h"

#include "sink/sinks.h"

/* Rows of the result that the table lacks; in update mode changed ones too. */
extern char *sx_table_insert_sql(Relation rel, const SxSinkConfig *config,
								 SxTableStrategy strategy);

/* Rows of SxResult.fresh: as new ones, or like the others where a key may be there. */
extern char *sx_table_insert_fresh_sql(Relation rel, const SxSinkConfig *config, bool upsert);

/* Rows of the table that a complete result has no more. */
extern char *sx_table_delete_vanished_sql(Relation rel, const SxSinkConfig *config,
										  SxTableStrategy strategy);

/* Rows of SxResult.gone: those whose key has no NULL, or those with one. */
extern char *sx_table_delete_gone_sql(Relation rel, const SxSinkConfig *config,
									  bool null_keys);

/* Parts of statements; "b" is a relation with the result's columns, "t" the table. */
extern void sx_table_put_upsert(StringInfo out, const SxSinkConfig *config);	/* ORDER BY ... ON CONFLICT ... */
extern void sx_table_put_result_column(StringInfo out, Relation rel, const SxSinkConfig *config,
									   AttrNumber attnum);	/* as the table has it */
extern void sx_table_put_key_equal(StringInfo out, Relation rel, const SxSinkConfig *config,
								   AttrNumber attnum);

#endif
