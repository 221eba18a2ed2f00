/*
 * stream_ddl.c
 *		Turns a marked statement into one of the server's, reading catalogs.
 *
 * CREATE: the watermark becomes option "watermark" of its column.  ALTER: SET
 * and DROP WATERMARK become changes of that option; which ones depends on the
 * column that has it now.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "foreign/foreign.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "parser/parse_type.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "syntax/syntax.h"

#define WATERMARK_OPTION	"watermark"

static bool
is_mark(Node *node)
{
	return node != NULL && IsA(node, DefElem) &&
		((DefElem *) node)->defnamespace != NULL &&
		strcmp(((DefElem *) node)->defnamespace, SX_MARK_NAMESPACE) == 0;
}

static DefElem *
mark_of_command(AlterTableCmd *cmd)
{
	if (cmd->subtype != AT_AlterColumnGenericOptions || cmd->def == NULL ||
		!is_mark(linitial((List *) cmd->def)))
		return NULL;
	return linitial((List *) cmd->def);
}

bool
sx_syntax_is_marked(Node *stmt)
{
	ListCell   *lc;

	if (IsA(stmt, CreateForeignTableStmt))
	{
		List	   *options = ((CreateForeignTableStmt *) stmt)->options;

		return options != NIL && is_mark(linitial(options));
	}
	if (IsA(stmt, AlterTableStmt) &&
		((AlterTableStmt *) stmt)->objtype == OBJECT_FOREIGN_TABLE)
	{
		foreach(lc, ((AlterTableStmt *) stmt)->cmds)
			if (mark_of_command(lfirst_node(AlterTableCmd, lc)) != NULL)
				return true;
	}
	return false;
}

static char *
mark_column(const DefElem *mark)
{
	return strVal(linitial((List *) mark->arg));
}

/*
 * The delay as the option's text: as written, unless the type had a field or
 * a precision (INTERVAL '5' SECOND), which the text alone would not show.
 */
static char *
delay_text(ParseState *pstate, const DefElem *mark, SxDelayCheck check)
{
	TypeCast   *cast;
	char	   *text;
	Oid			type;
	int32		typmod;
	Interval   *interval;
	ParseCallbackState callback;

	if (list_length((List *) mark->arg) == 1)
		return "0 seconds";
	cast = lsecond_node(TypeCast, (List *) mark->arg);
	text = strVal(&((A_Const *) cast->arg)->val);
	typenameTypeIdAndMod(pstate, cast->typeName, &type, &typmod);

	setup_parser_errposition_callback(&callback, pstate, cast->location);
	if (type != INTERVALOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("delay of a watermark must have type interval, not %s",
						format_type_be(type))));
	interval = DatumGetIntervalP(OidInputFunctionCall(F_INTERVAL_IN, text,
													  InvalidOid, typmod));
	if (typmod != -1)
	{
		struct pg_itm parts;
		char		buffer[MAXDATELEN + 1];

		interval2itm(*interval, &parts);
		EncodeInterval(&parts, INTSTYLE_POSTGRES, buffer);
		text = pstrdup(buffer);
	}
	check(text);
	cancel_parser_errposition_callback(&callback);
	return text;
}

static void
check_event_time_type(ParseState *pstate, const DefElem *mark, Oid type)
{
	if (type != TIMESTAMPTZOID)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("watermark column \"%s\" must have type %s, not %s",
						mark_column(mark), format_type_be(TIMESTAMPTZOID),
						format_type_be(type)),
				 errdetail("Event time is an instant. (Spark: EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE.)"),
				 errhint("Declare the column as timestamptz."),
				 parser_errposition(pstate, mark->location)));
}

static void
column_not_found(ParseState *pstate, const DefElem *mark)
{
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_COLUMN),
			 errmsg("column \"%s\" named in WATERMARK FOR does not exist", mark_column(mark)),
			 parser_errposition(pstate, mark->location)));
}

static bool
has_watermark_option(ColumnDef *column)
{
	ListCell   *lc;

	foreach(lc, column->fdwoptions)
		if (strcmp(lfirst_node(DefElem, lc)->defname, WATERMARK_OPTION) == 0)
			return true;
	return false;
}

static void
attach_watermark(CreateStmt *stmt, ParseState *pstate, const DefElem *mark, SxDelayCheck check)
{
	ColumnDef  *found = NULL;
	char	   *delay;
	ListCell   *lc;

	foreach(lc, stmt->tableElts)
	{
		ColumnDef  *column = lfirst(lc);

		if (!IsA(column, ColumnDef))
			continue;
		if (strcmp(column->colname, mark_column(mark)) == 0)
			found = column;
		if (has_watermark_option(column))
			ereport(ERROR,
					(errcode(ERRCODE_SYNTAX_ERROR),
					 errmsg("a stream can have only one watermark"),
					 errdetail("Column \"%s\" has option \"watermark\", too.", column->colname),
					 parser_errposition(pstate, mark->location)));
	}
	if (found == NULL)
		column_not_found(pstate, mark);
	check_event_time_type(pstate, mark, typenameTypeId(pstate, found->typeName));
	delay = delay_text(pstate, mark, check);
	found->fdwoptions = lappend(found->fdwoptions,
								makeDefElem(WATERMARK_OPTION, (Node *) makeString(delay), -1));
}

static void
complete_create(CreateForeignTableStmt *stmt, ParseState *pstate,
				SxDelayCheck check, List **later)
{
	DefElem    *mark = linitial_node(DefElem, stmt->options);

	stmt->options = list_delete_first(stmt->options);
	if (strcmp(stmt->servername, SX_DEFAULT_SERVER) == 0 &&
		!OidIsValid(get_foreign_server_oid(SX_DEFAULT_SERVER, true)))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("server \"%s\" does not exist", SX_DEFAULT_SERVER),
				 errdetail("Streams without SERVER belong to the server that extension streamx makes."),
				 errhint("Run CREATE EXTENSION streamx in this database.")));

	sx_table_like_expand(&stmt->base, pstate->p_sourcetext, later);
	if (mark->arg != NULL)
		attach_watermark(&stmt->base, pstate, mark, check);
}

static AlterTableCmd *
make_option_change(const char *column, DefElemAction action, char *value)
{
	AlterTableCmd *cmd = makeNode(AlterTableCmd);
	Node	   *arg = value != NULL ? (Node *) makeString(value) : NULL;

	cmd->subtype = AT_AlterColumnGenericOptions;
	cmd->name = pstrdup(column);
	cmd->def = (Node *) list_make1(makeDefElemExtended(NULL, WATERMARK_OPTION, arg, action, -1));
	return cmd;
}

static bool
attribute_has_watermark(Oid relid, AttrNumber attnum)
{
	ListCell   *lc;

	foreach(lc, GetForeignColumnOptions(relid, attnum))
		if (strcmp(lfirst_node(DefElem, lc)->defname, WATERMARK_OPTION) == 0)
			return true;
	return false;
}

/* The changes of options that SET WATERMARK (DROP WATERMARK without mark->arg) means. */
static List *
watermark_changes(Oid relid, ParseState *pstate, const DefElem *mark, SxDelayCheck check)
{
	Relation	rel = relation_open(relid, NoLock);
	List	   *changes = NIL;
	bool		found = false;

	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
		bool		has;

		if (att->attisdropped)
			continue;
		has = attribute_has_watermark(relid, att->attnum);
		if (mark->arg != NULL && strcmp(NameStr(att->attname), mark_column(mark)) == 0)
		{
			found = true;
			check_event_time_type(pstate, mark, att->atttypid);
			changes = lappend(changes,
							  make_option_change(NameStr(att->attname),
												 has ? DEFELEM_SET : DEFELEM_ADD,
												 delay_text(pstate, mark, check)));
		}
		else if (has)
			changes = lappend(changes,
							  make_option_change(NameStr(att->attname), DEFELEM_DROP, NULL));
	}
	if (mark->arg != NULL && !found)
		column_not_found(pstate, mark);
	if (changes == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("stream \"%s\" has no watermark", RelationGetRelationName(rel)),
				 errhint("To drop a column of this name write DROP COLUMN watermark.")));
	relation_close(rel, NoLock);
	return changes;
}

static void
complete_alter(AlterTableStmt *stmt, ParseState *pstate, SxDelayCheck check)
{
	/* checks the right to alter before it locks, as the command itself does */
	Oid			relid = AlterTableLookupRelation(stmt, AlterTableGetLockLevel(stmt->cmds));
	List	   *cmds = NIL;
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		DefElem    *mark = mark_of_command(cmd);

		if (mark == NULL)
			cmds = lappend(cmds, cmd);
		else if (OidIsValid(relid)) /* else IF EXISTS, and the command says it */
			cmds = list_concat(cmds, watermark_changes(relid, pstate, mark, check));
	}
	stmt->cmds = cmds;
}

void
sx_stream_ddl_complete(Node *stmt, const char *text, SxDelayCheck check, List **later)
{
	ParseState *pstate = make_parsestate(NULL);

	pstate->p_sourcetext = text;
	if (IsA(stmt, CreateForeignTableStmt))
		complete_create((CreateForeignTableStmt *) stmt, pstate, check, later);
	else
		complete_alter((AlterTableStmt *) stmt, pstate, check);
	free_parsestate(pstate);
}
