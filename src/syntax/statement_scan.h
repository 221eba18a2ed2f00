/*
 * statement_scan.h
 *		Finds CREATE, ALTER and DROP STREAM in a query string.
 *
 * Scans with the server's own lexer, so literals, comments, dollar quotes and
 * quoted names are what the server takes them for.  Only byte offsets into the
 * text come out; nothing is looked up in a catalog, since text is also parsed
 * in aborted transactions.
 */
#ifndef SX_SYNTAX_STATEMENT_SCAN_H
#define SX_SYNTAX_STATEMENT_SCAN_H

#include "nodes/pg_list.h"

typedef enum SxStreamVerb
{
	SX_STREAM_CREATE,
	SX_STREAM_ALTER,
	SX_STREAM_DROP
} SxStreamVerb;

/* WATERMARK FOR column AS expression; or the DROP WATERMARK of ALTER STREAM. */
typedef struct SxWatermarkClause
{
	int			start;			/* what is no SQL of the server's: [start, end) */
	int			end;
	int			command;		/* ALTER: which one of its commands, from 0 */
	char	   *column;			/* NULL: DROP WATERMARK */
	int			column_start;
	int			expr_start;		/* text of the expression: [expr_start, expr_end) */
	int			expr_end;
} SxWatermarkClause;

typedef struct SxStreamStatement
{
	SxStreamVerb verb;
	int			start;			/* of the verb */
	int			end;			/* behind the ";", if there is one */
	int			word_start;		/* of the word STREAM */
	List	   *watermarks;		/* SxWatermarkClause *; at most one of CREATE */
	int			tail_start;		/* CREATE: [SERVER ...] [OPTIONS ...]; -1 if absent */
	int			tail_end;
	bool		tail_has_server;
} SxStreamStatement;

/* Can the text hold such a statement?  Quick; false means surely not. */
extern bool sx_statement_scan_needed(const char *text);

/* List of SxStreamStatement *, in the order of the text; syntax errors are raised. */
extern List *sx_statement_scan(const char *text);

/* Sets the error position to a byte of the text; for use in ereport(). */
extern int	sx_statement_errposition(const char *text, int location);

#endif
