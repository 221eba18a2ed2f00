/*
 * create_stream.c
 *		create_stream(name, definition): CREATE STREAM where text does not come
 *		from a client: PL/pgSQL, DO, and any library that uses SPI.
 *
 * The definition is parsed behind a prefix, and errors are shown in the
 * definition, as the caller knows it.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "fmgr.h"
#include "mb/pg_wchar.h"
#include "nodes/makefuncs.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/varlena.h"

#include "source/source.h"
#include "syntax/syntax.h"

#define PREFIX	"CREATE STREAM s "

PG_FUNCTION_INFO_V1(sx_api_create_stream);

typedef struct Definition
{
	const char *text;
	int			prefix_length;	/* characters before it in what is parsed */
} Definition;

/* Error context: moves the position from what was parsed into the definition. */
static void
show_in_definition(void *arg)
{
	Definition *definition = arg;
	int			position = geterrposition() - definition->prefix_length;

	if (geterrposition() <= 0)
		return;
	errposition(0);
	if (position > 0)
	{
		internalerrposition(Min(position, pg_mbstrlen(definition->text) + 1));
		internalerrquery(definition->text);
	}
}

static void
check_delay(const char *text)
{
	(void) sx_watermark_delay_parse(text);
}

/* Is "(" the first of it that is neither space nor comment? */
static bool
begins_with_parenthesis(const char *text)
{
	for (;;)
	{
		const char *end;

		text += strspn(text, " \t\n\r\f\v");
		if (strncmp(text, "--", 2) == 0)
			end = text + strcspn(text, "\n\r");
		else if (strncmp(text, "/*", 2) == 0 && (end = strstr(text, "*/")) != NULL)
			end += 2;
		else
			return *text == '(';
		text = end;
	}
}

/* The one statement of the text, which has to be the stream's. */
static CreateForeignTableStmt *
parse_definition(const char *text)
{
	List	   *raws = sx_syntax_parse(text);
	Node	   *stmt = linitial_node(RawStmt, raws)->stmt;

	if (list_length(raws) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("definition of a stream must not hold another statement"),
				 errposition(lsecond_node(RawStmt, raws)->stmt_location + 1)));
	return castNode(CreateForeignTableStmt, stmt);
}

static void
run(CreateForeignTableStmt *stmt, const char *text)
{
	PlannedStmt *wrapper = makeNode(PlannedStmt);
	List	   *later = NIL;

	sx_stream_ddl_complete((Node *) stmt, text, check_delay, &later);
	wrapper->commandType = CMD_UTILITY;
	wrapper->utilityStmt = (Node *) stmt;
	wrapper->stmt_location = -1;
	ProcessUtility(wrapper, text, false, PROCESS_UTILITY_QUERY, NULL, NULL,
				   None_Receiver, NULL);
	CommandCounterIncrement();
	sx_table_like_comment(later);
}

Datum
sx_api_create_stream(PG_FUNCTION_ARGS)
{
	Definition	definition;
	ErrorContextCallback callback = {
		.previous = error_context_stack,
		.callback = show_in_definition,
		.arg = &definition
	};
	RangeVar   *name;
	CreateForeignTableStmt *stmt;
	char	   *statement;

	for (int i = 0; i < 3; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("arguments of create_stream must not be null")));
	name = makeRangeVarFromNameList(textToQualifiedNameList(PG_GETARG_TEXT_PP(0)));
	definition.text = text_to_cstring(PG_GETARG_TEXT_PP(1));
	if (begins_with_parenthesis(definition.text))
	{
		statement = psprintf(PREFIX "%s", definition.text);
		definition.prefix_length = strlen(PREFIX);
	}
	else
	{
		statement = psprintf(PREFIX "(%s\n)", definition.text);
		definition.prefix_length = strlen(PREFIX "(");
	}

	error_context_stack = &callback;
	stmt = parse_definition(statement);
	stmt->base.relation = name;
	stmt->base.if_not_exists = PG_GETARG_BOOL(2);
	run(stmt, statement);
	error_context_stack = callback.previous;
	PG_RETURN_VOID();
}
