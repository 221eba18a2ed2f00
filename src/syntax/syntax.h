/*
 * syntax.h
 *		CREATE, ALTER and DROP STREAM: from text to statements of the server.
 *
 * Two steps, since text is also parsed where no catalog can be read:
 *	 parse		text -> raw parse trees; a watermark is left in them as a mark
 *	 complete	a marked tree -> one that the server can run; reads catalogs
 *
 * Compiled into both streamx_syntax (which puts the steps into the way of every
 * client's statement) and streamx (create_stream()).
 */
#ifndef SX_SYNTAX_SYNTAX_H
#define SX_SYNTAX_SYNTAX_H

#include "nodes/parsenodes.h"
#include "nodes/plannodes.h"

/* The server that a stream without SERVER belongs to; made by the extension. */
#define SX_DEFAULT_SERVER	"streamx"

/*
 * The mark is a DefElem of this namespace, which no text can make: among the
 * options of a CreateForeignTableStmt, or as the definition of an AlterTableCmd.
 * Its argument is NULL (no watermark, or DROP WATERMARK) or a list of the
 * column's name and, unless the delay is 0, the cast to interval.
 */
#define SX_MARK_NAMESPACE	"streamx_syntax"

/* As pg_parse_query(), our statements included. */
extern List *sx_syntax_parse(const char *text);

/* Has the tree a mark? */
extern bool sx_syntax_is_marked(Node *stmt);

/* Raises an error unless the text is a delay that a watermark can have. */
typedef void (*SxDelayCheck) (const char *text);

/*
 * Takes the mark out of the statement, which is changed in place; text is what
 * its locations point into.  *later is for sx_table_like_comment() after it ran.
 */
extern void sx_stream_ddl_complete(Node *stmt, const char *text,
								   SxDelayCheck check, List **later);

/* Replaces the LIKE clauses of a stream by what they mean. */
extern void sx_table_like_expand(CreateStmt *stmt, const char *text, List **later);

/* The comments that INCLUDING COMMENTS copies. */
extern void sx_table_like_comment(List *later);

#endif
