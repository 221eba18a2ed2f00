/*
 * hidden_relation.h
 *		Tables of the extension's owner that no user sees.
 *
 * They are members of the extension: pg_dump leaves them out, pg_upgrade keeps
 * them, DROP EXTENSION drops them.  All functions need a transaction.
 */
#ifndef SX_STATE_HIDDEN_RELATION_H
#define SX_STATE_HIDDEN_RELATION_H

#include "nodes/pg_list.h"

/* Columns are ColumnDefs; key: names of the columns of a btree index, or NIL. */
extern Oid	sx_hidden_create(const char *name, char persistence, List *columns,
							 List *options, List *key);
extern void sx_hidden_drop(const char *name);

/* InvalidOid if there is none. */
extern Oid	sx_hidden_find(const char *name);

#endif
