/*
 * rewrite.c
 *		CREATE, ALTER and DROP STREAM through the server's grammar.
 *
 *		CREATE STREAM s (a int, ts timestamptz, WATERMARK FOR ts AS ts) SERVER x;
 *		CREATE TABLE  s (a int, ts timestamptz                        )         ;
 *
 * The text is rewritten at the same length, byte by byte, parsed as the nearest
 * statement that the server knows, and the parse node fixed afterwards.  So all
 * locations in the trees, and the parts of the text that pg_stat_statements
 * cuts out by them, are those of the text as the user wrote it.  The clauses
 * that were blanked are parsed by the server's grammar, too, behind a prefix.
 */
#include "postgres.h"

#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "parser/parser.h"
#include "utils/builtins.h"

#include "syntax/statement_scan.h"
#include "syntax/syntax.h"

/* What was parsed, and where byte 0 of it stands in the user's text. */
typedef struct ParseSource
{
	const char *parsed;
	const char *text;
	int			shift;			/* location in parsed + shift = location in text */
} ParseSource;

/*
 * Error positions count characters of what was parsed; blanked bytes and a
 * prefix make that another number than in the user's text.
 */
static void
fix_errposition(void *arg)
{
	ParseSource *source = arg;
	int			position = geterrposition();
	int			location;

	if (position <= 0)
		return;
	location = pg_mbcharcliplen(source->parsed, strlen(source->parsed), position - 1) +
		source->shift;
	if (location < 0)
		errposition(0);
	else
		sx_statement_errposition(source->text, location);
}

static List *
parse(const char *parsed, const char *text, int shift)
{
	ParseSource source = {parsed, text, shift};
	ErrorContextCallback callback = {
		.previous = error_context_stack,
		.callback = fix_errposition,
		.arg = &source
	};
	List	   *result;

	error_context_stack = &callback;
	result = raw_parser(parsed, RAW_PARSE_DEFAULT);
	error_context_stack = callback.previous;
	return result;
}

static void
blank(char *parsed, int start, int end)
{
	memset(parsed + start, ' ', end - start);
}

/* Makes of the statement, at the same length, one that the server can parse. */
static void
rewrite_statement(char *parsed, const SxStreamStatement *stream)
{
	ListCell   *lc;

	memcpy(parsed + stream->word_start, "TABLE ", strlen("TABLE "));
	foreach(lc, stream->watermarks)
	{
		SxWatermarkClause *clause = lfirst(lc);

		blank(parsed, clause->start, clause->end);
		/* keeps the place of SET WATERMARK in the list of commands */
		if (stream->verb == SX_STREAM_ALTER)
			memcpy(parsed + clause->start, "SET LOGGED", strlen("SET LOGGED"));
	}
	if (stream->tail_start >= 0)
		blank(parsed, stream->tail_start, stream->tail_end);
}

static bool
is_column(Node *node, const char *name)
{
	ColumnRef  *ref = (ColumnRef *) node;

	return IsA(node, ColumnRef) && list_length(ref->fields) == 1 &&
		IsA(linitial(ref->fields), String) &&
		strcmp(strVal(linitial(ref->fields)), name) == 0;
}

static bool
is_interval(Node *node)
{
	TypeCast   *cast = (TypeCast *) node;

	return IsA(node, TypeCast) && IsA(cast->arg, A_Const) &&
		!((A_Const *) cast->arg)->isnull &&
		IsA(&((A_Const *) cast->arg)->val, String) &&
		cast->typeName->arrayBounds == NIL && !cast->typeName->setof &&
		cast->typeName->names != NIL &&
		strcmp(strVal(llast(cast->typeName->names)), "interval") == 0;
}

/* The cast to interval of "column - INTERVAL '...'"; NULL for "column". */
static TypeCast *
parse_delay(const SxWatermarkClause *clause, const char *text)
{
	const char *prefix = "SELECT (";
	int			shift = clause->expr_start - (int) strlen(prefix);
	char	   *parsed = psprintf("%s%.*s)", prefix,
								  clause->expr_end - clause->expr_start,
								  text + clause->expr_start);
	RawStmt    *raw = linitial_node(RawStmt, parse(parsed, text, shift));
	List	   *targets = castNode(SelectStmt, raw->stmt)->targetList;
	Node	   *expr = linitial_node(ResTarget, targets)->val;

	if (is_column(expr, clause->column))
		return NULL;
	if (IsA(expr, A_Expr) && ((A_Expr *) expr)->kind == AEXPR_OP)
	{
		A_Expr	   *op = (A_Expr *) expr;

		if (list_length(op->name) == 1 && strcmp(strVal(linitial(op->name)), "-") == 0 &&
			op->lexpr != NULL && is_column(op->lexpr, clause->column) &&
			is_interval(op->rexpr))
		{
			TypeCast   *cast = (TypeCast *) op->rexpr;

			/* INTERVAL '...' leaves the cast itself without a location */
			((A_Const *) cast->arg)->location += shift;
			cast->location = ((A_Const *) cast->arg)->location;
			return cast;
		}
	}
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("unsupported expression for the watermark of column \"%s\"", clause->column),
			 errdetail("A watermark is the column, or the column minus a constant interval."),
			 errhint("Write WATERMARK FOR %s AS %s - INTERVAL '10 seconds'.",
					 quote_identifier(clause->column), quote_identifier(clause->column)),
			 sx_statement_errposition(text, clause->expr_start)));
}

static DefElem *
make_mark(const SxWatermarkClause *clause, const char *text)
{
	List	   *arg = NIL;
	int			location = -1;

	if (clause != NULL && clause->column != NULL)
	{
		TypeCast   *cast = parse_delay(clause, text);

		arg = list_make1(makeString(clause->column));
		if (cast != NULL)
			arg = lappend(arg, cast);
		location = clause->column_start;
	}
	return makeDefElemExtended(SX_MARK_NAMESPACE, "watermark", (Node *) arg,
							   DEFELEM_UNSPEC, location);
}

/* Reads [SERVER name] [OPTIONS (...)], with the ";" that an error may be near. */
static void
parse_tail(CreateForeignTableStmt *create, const SxStreamStatement *stream, const char *text)
{
	const char *prefix = stream->tail_has_server ?
		"CREATE FOREIGN TABLE s () " :
		"CREATE FOREIGN TABLE s () SERVER " SX_DEFAULT_SERVER " ";
	int			shift = stream->tail_start - (int) strlen(prefix);
	char	   *parsed = psprintf("%s%.*s", prefix, stream->end - stream->tail_start,
								  text + stream->tail_start);
	RawStmt    *raw = linitial_node(RawStmt, parse(parsed, text, shift));
	CreateForeignTableStmt *tail = castNode(CreateForeignTableStmt, raw->stmt);
	ListCell   *lc;

	foreach(lc, tail->options)
		lfirst_node(DefElem, lc)->location += shift;
	create->servername = tail->servername;
	create->options = list_concat(create->options, tail->options);
}

static Node *
fix_create(CreateStmt *stmt, const SxStreamStatement *stream, const char *text)
{
	CreateForeignTableStmt *create = makeNode(CreateForeignTableStmt);
	SxWatermarkClause *clause = stream->watermarks != NIL ? linitial(stream->watermarks) : NULL;

	create->base = *stmt;
	create->base.type = T_CreateForeignTableStmt;
	create->servername = SX_DEFAULT_SERVER;
	create->options = list_make1(make_mark(clause, text));
	if (stream->tail_start >= 0)
		parse_tail(create, stream, text);
	return (Node *) create;
}

static void
fix_alter(AlterTableStmt *alter, const SxStreamStatement *stream, const char *text)
{
	ListCell   *lc;

	alter->objtype = OBJECT_FOREIGN_TABLE;
	foreach(lc, stream->watermarks)
	{
		SxWatermarkClause *clause = lfirst(lc);
		AlterTableCmd *cmd = list_nth_node(AlterTableCmd, alter->cmds, clause->command);

		Assert(cmd->subtype == AT_SetLogged);
		cmd->subtype = AT_AlterColumnGenericOptions;
		cmd->name = clause->column;
		cmd->def = (Node *) list_make1(make_mark(clause, text));
	}
}

/* Makes of the node of a table's statement that of a foreign table's. */
static Node *
fix_node(Node *stmt, const SxStreamStatement *stream, const char *text)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
			return fix_create((CreateStmt *) stmt, stream, text);
		case T_AlterTableStmt:
			fix_alter((AlterTableStmt *) stmt, stream, text);
			return stmt;
		case T_DropStmt:
			((DropStmt *) stmt)->removeType = OBJECT_FOREIGN_TABLE;
			return stmt;
		case T_RenameStmt:
			if (((RenameStmt *) stmt)->renameType == OBJECT_TABLE)
				((RenameStmt *) stmt)->renameType = OBJECT_FOREIGN_TABLE;
			else if (((RenameStmt *) stmt)->relationType == OBJECT_TABLE)
				((RenameStmt *) stmt)->relationType = OBJECT_FOREIGN_TABLE;
			return stmt;
		case T_AlterObjectSchemaStmt:
			((AlterObjectSchemaStmt *) stmt)->objectType = OBJECT_FOREIGN_TABLE;
			return stmt;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("a stream has no such command"),
					 sx_statement_errposition(text, stream->start)));
	}
}

static RawStmt *
raw_statement_at(List *raws, int location)
{
	ListCell   *lc;

	foreach(lc, raws)
	{
		RawStmt    *raw = lfirst_node(RawStmt, lc);
		int			start = Max(raw->stmt_location, 0);

		if (location >= start &&
			(raw->stmt_len == 0 || location < start + raw->stmt_len))
			return raw;
	}
	elog(ERROR, "no parse tree for the statement at byte %d", location);
}

List *
sx_syntax_parse(const char *text)
{
	List	   *streams = NIL;
	List	   *raws;
	char	   *parsed;
	ListCell   *lc;

	if (sx_statement_scan_needed(text))
		streams = sx_statement_scan(text);
	if (streams == NIL)
		return raw_parser(text, RAW_PARSE_DEFAULT);

	parsed = pstrdup(text);
	foreach(lc, streams)
		rewrite_statement(parsed, lfirst(lc));
	raws = parse(parsed, text, 0);
	foreach(lc, streams)
	{
		SxStreamStatement *stream = lfirst(lc);
		RawStmt    *raw = raw_statement_at(raws, stream->start);

		raw->stmt = fix_node(raw->stmt, stream, text);
	}
	return raws;
}
