/*
 * table_append.h
 *		Adds rows to a plain table without a statement.
 */
#ifndef SX_SINK_TABLE_APPEND_H
#define SX_SINK_TABLE_APPEND_H

#include "sink/sink.h"
#include "utils/relcache.h"

/*
 * Would an INSERT of these result columns do nothing but to check constraints,
 * and to add the rows to the table and its indexes?  columns[i] becomes the
 * attribute of the table that result column i goes to.
 */
extern bool sx_table_append_possible(Relation rel, TupleDesc result, AttrNumber *columns);

/* Adds all rows.  The table is locked, and nothing has changed since it was found possible. */
extern void sx_table_append(Relation rel, TupleDesc result, const AttrNumber *columns,
							Tuplestorestate *rows);

#endif
