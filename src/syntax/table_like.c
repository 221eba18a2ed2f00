/*
 * table_like.c
 *		CREATE STREAM s (LIKE t INCLUDING ...).
 *
 * Before PostgreSQL 18 the server refuses LIKE in a foreign table.  It becomes
 * columns here, in all versions, so that WATERMARK FOR finds them; defaults,
 * constraints and generated columns are added by the server's own function
 * once the stream is there.  What a foreign table cannot have (indexes,
 * identity, storage, compression, statistics) is left out, as 18 does.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "parser/parse_utilcmd.h"
#include "parser/parse_relation.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "syntax/syntax.h"

/* What the server's function can add to a foreign table. */
#define LATER_OPTIONS \
	(CREATE_TABLE_LIKE_DEFAULTS | CREATE_TABLE_LIKE_GENERATED | CREATE_TABLE_LIKE_CONSTRAINTS)

/* A clause to be finished when the relation has been made. */
static List *
make_later(RangeVar *target, Node *node)
{
	return list_make2(target, node);
}

static void
check_like_source(ParseState *pstate, Relation rel, RangeVar *name)
{
	AclResult	aclresult;
	char		relkind = rel->rd_rel->relkind;

	if (relkind != RELKIND_RELATION && relkind != RELKIND_VIEW &&
		relkind != RELKIND_MATVIEW && relkind != RELKIND_COMPOSITE_TYPE &&
		relkind != RELKIND_FOREIGN_TABLE && relkind != RELKIND_PARTITIONED_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("relation \"%s\" is invalid in LIKE clause",
						RelationGetRelationName(rel)),
				 parser_errposition(pstate, name->location)));
	if (relkind == RELKIND_COMPOSITE_TYPE)
		aclresult = sx_type_aclcheck(rel->rd_rel->reltype, GetUserId(), ACL_USAGE);
	else
		aclresult = pg_class_aclcheck(RelationGetRelid(rel), GetUserId(), ACL_SELECT);
	if (aclresult != ACLCHECK_OK)
		aclcheck_error(aclresult, get_relkind_objtype(relkind), RelationGetRelationName(rel));
}

static ColumnDef *
make_column(Form_pg_attribute att, bits32 options)
{
	ColumnDef  *column = makeColumnDef(NameStr(att->attname), att->atttypid,
									   att->atttypmod, att->attcollation);

	if (att->attnotnull)
	{
		Constraint *not_null = makeNode(Constraint);

		not_null->contype = CONSTR_NOTNULL;
		not_null->location = -1;
#if PG_VERSION_NUM >= 180000
		not_null->is_enforced = true;
		not_null->initially_valid = true;
#endif
		column->constraints = list_make1(not_null);
	}
	if (options & CREATE_TABLE_LIKE_GENERATED)
		column->generated = att->attgenerated;
	return column;
}

/* COMMENT ON COLUMN for the copy of a column that has one; else NULL. */
static Node *
make_comment(RangeVar *target, Relation rel, Form_pg_attribute att)
{
	char	   *text = GetComment(RelationGetRelid(rel), RelationRelationId, att->attnum);
	CommentStmt *comment;

	if (text == NULL)
		return NULL;
	comment = makeNode(CommentStmt);
	comment->objtype = OBJECT_COLUMN;
	comment->object = (Node *) list_make3(makeString(target->schemaname),
										  makeString(target->relname),
										  makeString(pstrdup(NameStr(att->attname))));
	comment->comment = text;
	return (Node *) comment;
}

static List *
expand_clause(ParseState *pstate, TableLikeClause *like, RangeVar *target, List **later)
{
	ParseCallbackState callback;
	Relation	rel;
	List	   *columns = NIL;

	setup_parser_errposition_callback(&callback, pstate, like->relation->location);
	rel = relation_openrv(like->relation, AccessShareLock);
	cancel_parser_errposition_callback(&callback);
	check_like_source(pstate, rel, like->relation);
	for (int i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);
		Node	   *comment = NULL;

		if (att->attisdropped)
			continue;
		columns = lappend(columns, make_column(att, like->options));
		if (target != NULL && (like->options & CREATE_TABLE_LIKE_COMMENTS))
			comment = make_comment(target, rel, att);
		if (comment != NULL)
			*later = lappend(*later, make_later(target, comment));
	}
	if (target != NULL && (like->options & LATER_OPTIONS))
	{
		TableLikeClause *rest = copyObject(like);

		rest->options &= LATER_OPTIONS | CREATE_TABLE_LIKE_COMMENTS;
		rest->relationOid = RelationGetRelid(rel);
		*later = lappend(*later, make_later(target, (Node *) rest));
	}
	relation_close(rel, NoLock);	/* the lock keeps it as it is */
	return columns;
}

/* The relation to be made, with its schema; NULL if IF NOT EXISTS will find it there. */
static RangeVar *
target_relation(CreateStmt *stmt)
{
	RangeVar   *target = copyObject(stmt->relation);
	Oid			namespace = RangeVarGetCreationNamespace(target);

	if (stmt->if_not_exists && OidIsValid(get_relname_relid(target->relname, namespace)))
		return NULL;
	target->schemaname = get_namespace_name(namespace);
	return target;
}

void
sx_table_like_expand(CreateStmt *stmt, const char *text, List **later)
{
	ParseState *pstate = make_parsestate(NULL);
	List	   *elements = NIL;
	ListCell   *lc;

	pstate->p_sourcetext = text;
	foreach(lc, stmt->tableElts)
	{
		Node	   *element = lfirst(lc);

		if (IsA(element, TableLikeClause))
			elements = list_concat(elements,
								   expand_clause(pstate, (TableLikeClause *) element,
												 target_relation(stmt), later));
		else
			elements = lappend(elements, element);
	}
	stmt->tableElts = elements;
	free_parsestate(pstate);
}

static void
run(Node *stmt, const char *text)
{
	PlannedStmt *wrapper = makeNode(PlannedStmt);

	wrapper->commandType = CMD_UTILITY;
	wrapper->utilityStmt = stmt;
	wrapper->stmt_location = -1;
	ProcessUtility(wrapper, text, false, PROCESS_UTILITY_SUBCOMMAND, NULL, NULL,
				   None_Receiver, NULL);
	CommandCounterIncrement();
}

void
sx_stream_ddl_run_later(List *later, const char *text)
{
	ListCell   *lc;

	if (later != NIL)
		CommandCounterIncrement();
	foreach(lc, later)
	{
		RangeVar   *target = linitial_node(RangeVar, (List *) lfirst(lc));
		Node	   *node = lsecond((List *) lfirst(lc));
		List	   *stmts = list_make1(node);
		ListCell   *stmt;

		if (IsA(node, TableLikeClause))
			stmts = expandTableLikeClause(target, (TableLikeClause *) node);
		foreach(stmt, stmts)
			run(lfirst(stmt), text);
	}
}
