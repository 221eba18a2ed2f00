/*
 * layout_check.c
 *		Does the state of one layout fit a plan?  If not: what differs, in a sentence.
 *
 * Layouts are compared operator by operator, line by line.  Lines that say
 * "variable <name> ..." are a handler's: they come and go, in any order, and are
 * compared by name; a row type may have got more columns at its end, or lost some.
 */
#include "postgres.h"

#include <math.h>

#include "base/errors.h"
#include "plan/plan.h"

#define VARIABLE	"variable "

/* The lines of one operator, from "operator <id> <name>" on. */
typedef struct OperatorLines
{
	int			id;
	char	   *name;			/* as the first line ends */
	List	   *lines;			/* the others, char * */
	List	   *variables;		/* but these */
} OperatorLines;

/* Cuts the next line off *rest; NULL at the end. */
static char *
next_line(char **rest)
{
	char	   *line = *rest;
	char	   *end;

	if (*line == '\0')
		return NULL;
	end = strchr(line, '\n');
	if (end == NULL)
		*rest = line + strlen(line);
	else
	{
		*end = '\0';
		*rest = end + 1;
	}
	return line;
}

static List *
read_operators(const char *layout)
{
	char	   *rest = pstrdup(layout);
	char	   *line = next_line(&rest);	/* the version */
	OperatorLines *operator = NULL;
	List	   *operators = NIL;

	while ((line = next_line(&rest)) != NULL)
	{
		int			id;
		int			length;

		if (sscanf(line, "operator %d %n", &id, &length) == 1)
		{
			operator = palloc0(sizeof(OperatorLines));
			operator->id = id;
			operator->name = line + length;
			operators = lappend(operators, operator);
		}
		else if (operator == NULL)
			continue;
		else if (strncmp(line, VARIABLE, strlen(VARIABLE)) == 0)
			operator->variables = lappend(operator->variables, line + strlen(VARIABLE));
		else
			operator->lines = lappend(operator->lines, line);
	}
	return operators;
}

static OperatorLines *
find_operator(const List *operators, int id)
{
	ListCell   *cell;

	foreach(cell, operators)
		if (((OperatorLines *) lfirst(cell))->id == id)
			return lfirst(cell);
	return NULL;
}

/* Lines that begin with a word and a number, in the order in which they come: what they are about. */
static const struct
{
	const char *word;
	const char *what;
}			subjects[] = {
	{"key", "Key column"},
	{"left", "Left column"},
	{"right", "Right column"},
	{"aggregate", "Aggregate"},
};

#define NO_SUBJECT	((int) lengthof(subjects))

typedef struct Line
{
	int			subject;		/* NO_SUBJECT: another kind of line, or none */
	int			number;
	const char *value;			/* what follows */
} Line;

static void
read_line(Line *line, const char *text)
{
	char		word[16];
	int			length;

	line->subject = NO_SUBJECT;
	if (text == NULL || sscanf(text, "%15s %d %n", word, &line->number, &length) != 2)
		return;
	line->value = text + length;
	for (int i = 0; i < lengthof(subjects); i++)
		if (strcmp(word, subjects[i].word) == 0)
			line->subject = i;
}

/* "Key column 2", with its name if it is the plan's. */
static char *
line_subject(const Line *line, const SxPlanOperator *op)
{
	if (line->subject == 0 && op != NULL && line->number >= 1 && line->number <= op->nkeys)
		return psprintf("%s %d (\"%s\")", subjects[0].what, line->number,
						op->keys[line->number - 1].name);
	return psprintf("%s %d", subjects[line->subject].what, line->number);
}

/* "left expiry 3 -5001000" of a join as explain_query() has it; NULL if the line is another. */
static char *
expiry_text(const char *line, char *side)
{
	int			column;
	int			length = 0;
	int64		bound;

	if (line == NULL || sscanf(line, "%5s expiry %d %n", side, &column, &length) != 2 || length == 0)
		return NULL;
	if (strncmp(line + length, "key ", 4) == 0)
		length += 4;
	bound = strtoi64(line + length, NULL, 10);
	return psprintf("column %d <= watermark %c %.3f s", column, bound < 0 ? '-' : '+', fabs(bound / 1000000.0));
}

static char *
expiry_difference(const char *was_text, const char *is_text)
{
	char		side[6] = "";
	char	   *was = expiry_text(was_text, side);
	char	   *is = expiry_text(is_text, side);

	if (was == NULL && is == NULL)
		return NULL;
	return psprintf("Rows of the %s side were removed by \"%s\" when the checkpoint was written and are by \"%s\" now.",
					side, was != NULL ? was : "nothing", is != NULL ? is : "nothing");
}

/* Where one list is longer than the other was, its line stands against one of a later kind. */
static char *
line_difference(const char *was_text, const char *is_text, const SxPlanOperator *op)
{
	Line		was;
	Line		is;

	char	   *difference = expiry_difference(was_text, is_text);

	if (difference != NULL)
		return difference;
	read_line(&was, was_text);
	read_line(&is, is_text);
	if (was.subject == NO_SUBJECT && is.subject == NO_SUBJECT)
		return psprintf("The checkpoint was written with \"%s\"; the query has \"%s\" now.",
						was_text != NULL ? was_text : "(nothing more)",
						is_text != NULL ? is_text : "(nothing more)");
	if (was.subject < is.subject)
		return psprintf("%s, %s when the checkpoint was written, is gone.",
						line_subject(&was, NULL), was.value);
	if (was.subject > is.subject)
		return psprintf("%s, %s, was not there when the checkpoint was written.",
						line_subject(&is, op), is.value);
	return psprintf("%s was %s when the checkpoint was written and is %s now.",
					line_subject(&is, op), was.value, is.value);
}

/* Past the columns that follow, or past one of them: to "," or ")" outside of what it nests. */
static const char *
skip_columns(const char *at, bool one)
{
	int			depth = 0;
	bool		quoted = false;

	for (; *at != '\0'; at++)
	{
		if (*at == '"')
			quoted = !quoted;
		else if (quoted)
			continue;
		else if (depth == 0 && (*at == ')' || (one && *at == ',')))
			break;
		else if (*at == '(')
			depth++;
		else if (*at == ')')
			depth--;
	}
	return at;
}

/*
 * A row type may have got more columns at its end, which the values that are there
 * lack, and may have lost some ("-"), which these still have.
 */
static bool
row_types_fit(const char *was, const char *is)
{
	while (*was != '\0' && *is != '\0')
	{
		if (*was == *is)
		{
			was++;
			is++;
		}
		else if (*is == '-')
		{
			is++;
			was = skip_columns(was, true);
		}
		else if (*was == ')' && *is == ',')
			is = skip_columns(is, false);
		else
			return false;
	}
	return *was == *is;
}

/* Each is "<name> <what it is>", and a name has no blank. */
static char *
variables_difference(List *was, List *is)
{
	ListCell   *cell;
	ListCell   *other;

	foreach(cell, was)
	{
		const char *old = lfirst(cell);
		size_t		length = strcspn(old, " ");

		foreach(other, is)
		{
			const char *new = lfirst(other);

			if (strcspn(new, " ") != length || strncmp(old, new, length) != 0 ||
				strcmp(old, new) == 0 || row_types_fit(old, new))
				continue;
			return psprintf("Variable %s was %s when the checkpoint was written and is %s now.",
							pnstrdup(old, length), old + length + 1, new + length + 1);
		}
	}
	return NULL;
}

static char *
lines_difference(const OperatorLines *was, const OperatorLines *is, const SxPlanOperator *op)
{
	int			nwas = list_length(was->lines);
	int			nis = list_length(is->lines);

	if (strcmp(was->name, is->name) != 0)
		return psprintf("Operator %d was %s when the checkpoint was written and is %s now.",
						is->id, was->name, is->name);
	for (int i = 0; i < Max(nwas, nis); i++)
	{
		const char *was_line = i < nwas ? list_nth(was->lines, i) : NULL;
		const char *is_line = i < nis ? list_nth(is->lines, i) : NULL;

		if (was_line == NULL || is_line == NULL || strcmp(was_line, is_line) != 0)
			return line_difference(was_line, is_line, op);
	}
	return variables_difference(was->variables, is->variables);
}

char *
sx_layout_lines_difference(const char *was, const char *is)
{
	List	   *operators = read_operators(psprintf("layout\noperator 0 handler\n%soperator 1 handler\n%s", was, is));

	return lines_difference(linitial(operators), lsecond(operators), NULL);
}

static char *
version_difference(const char *was, const char *is)
{
	size_t		was_length = strcspn(was, "\n");
	size_t		is_length = strcspn(is, "\n");

	if (was_length == is_length && strncmp(was, is, is_length) == 0)
		return NULL;
	return psprintf("The checkpoint was written with \"%s\"; this version of streamx reads \"%s\".",
					pnstrdup(was, was_length), pnstrdup(is, is_length));
}

char *
sx_layout_difference(const char *was, const SxPlan *plan, int operator_id)
{
	OperatorLines *was_lines;
	OperatorLines *is_lines;
	char	   *difference = version_difference(was, plan->layout);

	if (difference != NULL)
		return difference;
	was_lines = find_operator(read_operators(was), operator_id);
	is_lines = find_operator(read_operators(plan->layout), operator_id);
	if (was_lines == NULL && is_lines == NULL)
		return NULL;
	if (was_lines == NULL)
		return psprintf("Operator %d (%s) was not there when the checkpoint was written.",
						operator_id, is_lines->name);
	if (is_lines == NULL)
		return psprintf("Operator %d (%s) is gone.", operator_id, was_lines->name);
	return lines_difference(was_lines, is_lines, plan->operators[operator_id]);
}

List *
sx_layout_operators(const char *layout)
{
	List	   *ids = NIL;
	ListCell   *cell;

	foreach(cell, read_operators(layout))
		ids = lappend_int(ids, ((OperatorLines *) lfirst(cell))->id);
	return ids;
}

char *
sx_layout_operator_name(const char *layout, int operator_id)
{
	OperatorLines *lines = find_operator(read_operators(layout), operator_id);

	return lines != NULL ? lines->name : NULL;
}

void
sx_layout_check(const char *query_name, const char *was, const SxPlan *plan)
{
	List	   *ids;
	ListCell   *cell;
	char	   *difference = version_difference(was, plan->layout);

	ids = list_union_int(sx_layout_operators(plan->layout), sx_layout_operators(was));
	foreach(cell, ids)
		if (difference == NULL)
			difference = sx_layout_difference(was, plan, lfirst_int(cell));
	if (difference == NULL)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_SX_STATE_SCHEMA),
			 errmsg("state of query \"%s\" does not fit its new definition", query_name),
			 errdetail_internal("%s", difference),
			 errhint("Restore the old expression, or start anew with alter_query(..., reset_state => true).")));
}
