/*
 * statement_scan.c
 *		Finds CREATE, ALTER and DROP STREAM in a query string.
 *
 *		for each statement of the text, that is, up to a ";" outside parentheses
 *			keep its tokens only if it begins with CREATE, ALTER or DROP STREAM
 *			walk over them: where is a WATERMARK clause, where is SERVER ... OPTIONS
 *
 * Whatever the server's grammar can check is left to it; an error is raised
 * here only where the text would no longer be seen by it.
 */
#include "postgres.h"

#include <ctype.h>

#include "common/keywords.h"
#include "mb/pg_wchar.h"
#include "parser/scanner.h"
#include "utils/guc.h"

#include "syntax/statement_scan.h"

/*
 * Token codes of the core lexer.  Every grammar that uses it declares these
 * tokens first and in the same order (see the server's scan.l), so the numbers
 * are an interface.  Keywords get numbers of our own: the index in ScanKeywords.
 */
#define TOKEN_END		0
#define TOKEN_IDENT		258
#define TOKEN_UIDENT	259
#define TOKEN_KEYWORD	1000

typedef struct Token
{
	int			code;
	int			start;			/* bytes [start, end) of the text */
	int			end;
	const char *name;			/* identifiers and keywords: as the server takes them */
} Token;

/* The tokens of one statement; the last one is always its end: ";" or TOKEN_END. */
typedef struct Statement
{
	const char *text;
	Token	   *tokens;
	int			n;
	int			allocated;
} Statement;

/* Do the letters before this offset spell the word, in any case? */
static bool
word_ends_at(const char *text, int end, const char *word)
{
	int			len = strlen(word);

	return end >= len && pg_strncasecmp(text + end - len, word, len) == 0;
}

/* May what stands before this offset, but for white space, be the end of a comment? */
static bool
comment_may_end_at(const char *text, int space, int before, int *has_line_comments)
{
	if (word_ends_at(text, space, "*/"))
		return true;
	if (memchr(text + space, '\n', before - space) == NULL &&
		memchr(text + space, '\r', before - space) == NULL)
		return false;
	if (*has_line_comments < 0)
		*has_line_comments = strstr(text, "--") != NULL;
	return *has_line_comments;
}

bool
sx_statement_scan_needed(const char *text)
{
	int			has_line_comments = -1; /* looked for once */
	const char *m;

	/* "m" is the rarest letter of "stream"; strcspn is vectorised in libc */
	for (m = text + strcspn(text, "mM"); *m != '\0'; m += 1 + strcspn(m + 1, "mM"))
	{
		int			before = m - text - 5;
		int			space;

		if (before < 1 || !word_ends_at(text, before + 5, "strea"))
			continue;
		for (space = before; space > 0 && isspace((unsigned char) text[space - 1]); space--)
			;
		/* behind a comment anything may have been begun: have it scanned */
		if (comment_may_end_at(text, space, before, &has_line_comments))
			return true;
		if (space < before &&
			(word_ends_at(text, space, "create") ||
			 word_ends_at(text, space, "alter") ||
			 word_ends_at(text, space, "drop")))
			return true;
	}
	return false;
}

int
sx_statement_errposition(const char *text, int location)
{
	return errposition(pg_mbstrlen_with_len(text, location) + 1);
}

static bool
is_keyword(const Token *token, const char *word)
{
	return token->code >= TOKEN_KEYWORD && strcmp(token->name, word) == 0;
}

/* Is it this word, which is no keyword of the server, and not quoted? */
static bool
is_word(const Statement *statement, const Token *token, const char *word)
{
	return token->code == TOKEN_IDENT &&
		statement->text[token->start] != '"' &&
		strcmp(token->name, word) == 0;
}

static bool
is_end(const Token *token)
{
	return token->code == TOKEN_END || token->code == ';';
}

/* Can it be the name of a column or a relation (ColId of the grammar)? */
static bool
is_name(const Token *token)
{
	uint8		category;

	if (token->code == TOKEN_IDENT || token->code == TOKEN_UIDENT)
		return true;
	if (token->code < TOKEN_KEYWORD)
		return false;
	category = ScanKeywordCategories[token->code - TOKEN_KEYWORD];
	return category == UNRESERVED_KEYWORD || category == COL_NAME_KEYWORD;
}

static void
syntax_error(const Statement *statement, const Token *token)
{
	if (is_end(token) && token->code != ';')
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("syntax error at end of input"),
				 sx_statement_errposition(statement->text, token->start)));
	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("syntax error at or near \"%s\"",
					pnstrdup(statement->text + token->start, token->end - token->start)),
			 sx_statement_errposition(statement->text, token->start)));
}

/*
 * Steps over [IF [NOT] EXISTS] and a name with its qualifiers.  Returns the
 * index of the token behind, or -1 if that isn't there: the server will say so.
 */
static int
skip_name(const Statement *statement)
{
	const Token *t = statement->tokens;
	int			i = 2;

	if (is_keyword(&t[i], "if"))
	{
		i++;
		if (is_keyword(&t[i], "not"))
			i++;
		if (!is_keyword(&t[i], "exists"))
			return -1;
		i++;
	}
	if (is_keyword(&t[i], "only"))
		i++;
	for (;;)
	{
		if (!is_name(&t[i]) && (t[i].code < TOKEN_KEYWORD || t[i - 1].code != '.'))
			return -1;
		i++;
		if (is_keyword(&t[i], "uescape"))
			i += is_end(&t[i + 1]) ? 1 : 2;
		if (t[i].code != '.')
			break;
		i++;
	}
	if (t[i].code == '*')
		i++;
	return i;
}

/* Index of the next token at this level that ends an element: "," or ")" or the end. */
static int
skip_element(const Statement *statement, int i)
{
	const Token *t = statement->tokens;
	int			depth = 0;

	for (; !is_end(&t[i]); i++)
	{
		if (depth == 0 && (t[i].code == ',' || t[i].code == ')'))
			break;
		if (t[i].code == '(' || t[i].code == '[')
			depth++;
		else if (t[i].code == ')' || t[i].code == ']')
			depth--;
	}
	return i;
}

/* Reads "FOR column AS expression", of which FOR is token i and the element ends at token end. */
static SxWatermarkClause *
read_watermark(const Statement *statement, int i, int end)
{
	const Token *t = statement->tokens;
	SxWatermarkClause *clause = palloc0(sizeof(SxWatermarkClause));

	if (!is_keyword(&t[i], "for"))
		syntax_error(statement, &t[i]);
	/* a Unicode-escaped name would need the grammar to decode it */
	if (!is_name(&t[i + 1]) || t[i + 1].code == TOKEN_UIDENT)
		syntax_error(statement, &t[i + 1]);
	if (!is_keyword(&t[i + 2], "as"))
		syntax_error(statement, &t[i + 2]);
	/* nothing, or an operator without its right side: the grammar would not see what follows */
	if (i + 3 == end ||
		(t[end - 1].code < TOKEN_IDENT && t[end - 1].code != ')' && t[end - 1].code != ']'))
		syntax_error(statement, &t[end]);

	clause->column = pstrdup(t[i + 1].name);
	clause->column_start = t[i + 1].start;
	clause->expr_start = t[i + 3].start;
	clause->expr_end = t[end - 1].end;
	return clause;
}

/* Walks over "( element, ... ) [SERVER ...] [OPTIONS ...]". */
static void
walk_create(const Statement *statement, SxStreamStatement *stream)
{
	const Token *t = statement->tokens;
	int			i = skip_name(statement);

	if (i < 0)
		return;
	if (t[i].code != '(')
		syntax_error(statement, &t[i]);

	do
	{
		int			first = ++i;

		i = skip_element(statement, first);
		if (is_word(statement, &t[first], "watermark") && is_keyword(&t[first + 1], "for"))
		{
			SxWatermarkClause *clause = read_watermark(statement, first + 1, i);
			bool		leads = t[first - 1].code == '(';

			if (stream->watermarks != NIL)
				ereport(ERROR,
						(errcode(ERRCODE_SYNTAX_ERROR),
						 errmsg("a stream can have only one watermark"),
						 sx_statement_errposition(statement->text, t[first].start)));
			/* one of the commas beside it goes too */
			clause->start = leads ? t[first].start : t[first - 1].start;
			clause->end = leads && t[i].code == ',' ? t[i].end : t[i - 1].end;
			if (leads && t[i].code == ',' && t[i + 1].code == ')')
				syntax_error(statement, &t[i + 1]);
			stream->watermarks = lappend(stream->watermarks, clause);
		}
	} while (t[i].code == ',');

	if (is_end(&t[i]))
		return;					/* no closing parenthesis */
	i++;
	if (is_end(&t[i]))
		return;
	stream->tail_has_server = is_keyword(&t[i], "server");
	if (!stream->tail_has_server && !is_keyword(&t[i], "options"))
		syntax_error(statement, &t[i]);
	stream->tail_start = t[i].start;
	stream->tail_end = t[statement->n - 2].end;
}

/* Walks over "command, ...", looking for SET WATERMARK FOR ... and DROP WATERMARK. */
static void
walk_alter(const Statement *statement, SxStreamStatement *stream)
{
	const Token *t = statement->tokens;
	int			i = skip_name(statement);
	int			command = 0;

	if (i < 0)
		return;
	for (;; i++, command++)
	{
		int			first = i;
		SxWatermarkClause *clause = NULL;

		i = skip_element(statement, first);
		/* the quoted word, or DROP COLUMN, is the column of that name */
		if (is_keyword(&t[first], "set") && is_word(statement, &t[first + 1], "watermark"))
			clause = read_watermark(statement, first + 2, i);
		else if (is_keyword(&t[first], "drop") && i == first + 2 &&
				 is_word(statement, &t[first + 1], "watermark"))
			clause = palloc0(sizeof(SxWatermarkClause));
		if (clause != NULL)
		{
			if (stream->watermarks != NIL)
				ereport(ERROR,
						(errcode(ERRCODE_SYNTAX_ERROR),
						 errmsg("a statement can change the watermark only once"),
						 sx_statement_errposition(statement->text, t[first].start)));
			clause->start = t[first].start;
			clause->end = t[i - 1].end;
			clause->command = command;
			stream->watermarks = lappend(stream->watermarks, clause);
		}
		if (t[i].code != ',')
			break;
	}
}

static SxStreamStatement *
walk_statement(const Statement *statement)
{
	const Token *t = statement->tokens;
	SxStreamStatement *stream = palloc0(sizeof(SxStreamStatement));

	stream->start = t[0].start;
	stream->end = t[statement->n - 1].end;
	stream->word_start = t[1].start;
	stream->tail_start = -1;
	if (is_keyword(&t[0], "create"))
	{
		stream->verb = SX_STREAM_CREATE;
		walk_create(statement, stream);
	}
	else if (is_keyword(&t[0], "alter"))
	{
		stream->verb = SX_STREAM_ALTER;
		walk_alter(statement, stream);
	}
	else
		stream->verb = SX_STREAM_DROP;
	return stream;
}

/* Is this token, the n-th of its statement, still one of a statement of ours? */
static bool
is_of_interest(const Statement *statement, const Token *token)
{
	switch (statement->n)
	{
		case 0:
			return is_keyword(token, "create") || is_keyword(token, "alter") ||
				is_keyword(token, "drop");
		case 1:
			return is_word(statement, token, "stream");
		default:
			return true;
	}
}

static void
append_token(Statement *statement, const Token *token)
{
	/* walkers look at most three tokens ahead: keep as many ends behind */
	if (statement->n + 4 > statement->allocated)
	{
		statement->allocated *= 2;
		statement->tokens = repalloc(statement->tokens,
									 statement->allocated * sizeof(Token));
	}
	statement->tokens[statement->n++] = *token;
	if (is_end(token))
		for (int i = 0; i < 3; i++)
			statement->tokens[statement->n + i] = *token;
}

static void
next_token(core_yyscan_t scanner, core_yy_extra_type *extra, Token *token)
{
	core_YYSTYPE value;
	YYLTYPE		location;

	token->code = core_yylex(&value, &location, scanner);
	token->start = location;
	/* the lexer has put a zero byte behind the token until it is called again */
	token->end = location + strlen(extra->scanbuf + location);
	token->name = NULL;
	if (token->code == TOKEN_IDENT)
		token->name = value.str;
	else if (token->code >= TOKEN_KEYWORD)
		token->name = value.keyword;
}

static List *
scan(const char *text)
{
	List	   *result = NIL;
	Statement	statement = {.text = text, .allocated = 64};
	uint16	   *codes = palloc(ScanKeywords.num_keywords * sizeof(uint16));
	core_yy_extra_type extra;
	core_yyscan_t scanner;
	Token		token;
	int			depth = 0;
	bool		skip = false;

	for (int i = 0; i < ScanKeywords.num_keywords; i++)
		codes[i] = TOKEN_KEYWORD + i;
	scanner = scanner_init(text, &extra, &ScanKeywords, codes);
	extra.escape_string_warning = false;	/* the real parse warns */
	statement.tokens = palloc(statement.allocated * sizeof(Token));

	do
	{
		bool		end;

		next_token(scanner, &extra, &token);
		if (token.code == '(')
			depth++;
		else if (token.code == ')' && depth > 0)
			depth--;
		end = token.code == TOKEN_END || (token.code == ';' && depth == 0);

		if (!skip && !end && !is_of_interest(&statement, &token))
			skip = true;
		if (!skip)
			append_token(&statement, &token);
		if (end)
		{
			if (!skip && statement.n > 2)
				result = lappend(result, walk_statement(&statement));
			statement.n = 0;
			skip = false;
		}
	} while (token.code != TOKEN_END);

	scanner_finish(scanner);
	pfree(codes);
	return result;
}

List *
sx_statement_scan(const char *text)
{
	List	   *volatile result = NIL;
	int			save_client_min_messages = client_min_messages;

	/* the notice that a name is too long comes from the real parse */
	client_min_messages = Max(client_min_messages, WARNING);
	PG_TRY();
	{
		result = scan(text);
	}
	PG_FINALLY();
	{
		client_min_messages = save_client_min_messages;
	}
	PG_END_TRY();
	return result;
}
