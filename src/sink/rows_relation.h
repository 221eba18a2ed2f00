/*
 * rows_relation.h
 *		The batch's rows as a relation that a sink's SQL can name.
 *
 * Sinks inside PostgreSQL write with ordinary statements, so that triggers,
 * partitions, defaults, constraints and row-level security are the server's.
 * The rows are an ephemeral named relation; no table holds them.
 *
 * The statements run with the search_path of the query's owner, because that is
 * what his triggers expect; so every name and operator in them must be qualified.
 */
#ifndef SX_SINK_ROWS_RELATION_H
#define SX_SINK_ROWS_RELATION_H

#include "executor/spi.h"

#include "sink/sink.h"

/* As they stand in SQL, quotes included. */
#define SX_SINK_ROWS	"\"streamx rows\""
#define SX_SINK_FRESH	"\"streamx fresh rows\""
#define SX_SINK_GONE	"\"streamx gone\""

/* Planned at its first run and kept; forget before the text changes. */
typedef struct SxStatement
{
	char	   *sql;
	SPIPlanPtr	plan;
} SxStatement;

/* Between these CurrentMemoryContext is SPI's. An error in between needs no disconnect. */
extern void sx_sink_connect(const SxResult *result);
extern void sx_sink_disconnect(void);

/* Returns the rows it touched. */
extern int64 sx_statement_run(SxStatement *statement);
extern void sx_statement_forget(SxStatement *statement);

/* "b"."a", "b"."c", ...: the columns of desc, with alias if not NULL, for attnums or (NULL) all. */
extern char *sx_sink_column_list(TupleDesc desc, int n, const AttrNumber *attnums,
								 const char *alias);

/* Schema-qualified and quoted. */
extern char *sx_sink_relation_name(Relation rel);
extern char *sx_sink_collation_name(Oid collation);

#endif
