/*
 * table_like.c
 *		CREATE STREAM s (LIKE t INCLUDING ...).
 *
 * Before PostgreSQL 18 the server refuses LIKE in a foreign table.  It becomes
 * columns and checks here, in all versions, so that WATERMARK FOR finds them
 * and the stream is made by one command; only comments wait until it is there.
 * What a foreign table cannot have (indexes, identity, storage, compression,
 * statistics) is left out, as 18 does.
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/relation.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_constraint.h"
#include "catalog/pg_type.h"
#include "commands/comment.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_node.h"
#include "rewrite/rewriteManip.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "base/compat.h"
#include "syntax/syntax.h"

/* A comment for a column or, if column is NULL, a constraint of the new stream. */
typedef struct LaterComment
{
	RangeVar   *stream;
	char	   *column;
	char	   *constraint;
	char	   *text;
} LaterComment;

/* One LIKE clause while it is expanded. */
typedef struct Expansion
{
	Relation	rel;
	bits32		options;
	RangeVar   *stream;			/* NULL: IF NOT EXISTS will find it there */
	AttrMap    *map;			/* columns of rel to those of the stream */
	List	   *elements;		/* what stands for the clause */
	List	  **later;
} Expansion;

static void
check_source(ParseState *pstate, Relation rel, RangeVar *name)
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

static Constraint *
make_constraint(ConstrType type)
{
	Constraint *constraint = makeNode(Constraint);

	constraint->contype = type;
	constraint->location = -1;
	constraint->initially_valid = true;
	constraint->skip_validation = true; /* the stream is empty */
#if PG_VERSION_NUM >= 180000
	constraint->is_enforced = true;
#endif
	return constraint;
}

static void
comment_later(Expansion *expansion, const char *column, const char *constraint, char *text)
{
	LaterComment *comment;

	if (text == NULL || expansion->stream == NULL)
		return;
	comment = palloc(sizeof(LaterComment));
	comment->stream = expansion->stream;
	comment->column = column != NULL ? pstrdup(column) : NULL;
	comment->constraint = constraint != NULL ? pstrdup(constraint) : NULL;
	comment->text = text;
	*expansion->later = lappend(*expansion->later, comment);
}

/* A stored expression over the columns of the model, over those of the stream. */
static Node *
map_expression(Expansion *expansion, const char *stored, const char *what, const char *name)
{
	bool		whole_row;
	Node	   *result = map_variable_attnos(stringToNode(stored), 1, 0, expansion->map,
											 InvalidOid, &whole_row);

	if (whole_row)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("%s \"%s\" cannot be copied to a stream", what, name),
				 errdetail("It refers to the whole row of table \"%s\".",
						   RelationGetRelationName(expansion->rel))));
	return result;
}

static const char *
stored_default(TupleConstr *constr, AttrNumber attnum)
{
	for (int i = 0; constr != NULL && i < constr->num_defval; i++)
		if (constr->defval[i].adnum == attnum)
			return constr->defval[i].adbin;
	return NULL;
}

static void
expand_column(Expansion *expansion, Form_pg_attribute att)
{
	ColumnDef  *column = makeColumnDef(NameStr(att->attname), att->atttypid,
									   att->atttypmod, att->attcollation);
	const char *stored = stored_default(RelationGetDescr(expansion->rel)->constr, att->attnum);

	if (att->attnotnull)
		column->constraints = list_make1(make_constraint(CONSTR_NOTNULL));
	if (stored != NULL && (expansion->options & (att->attgenerated != '\0' ?
												 CREATE_TABLE_LIKE_GENERATED :
												 CREATE_TABLE_LIKE_DEFAULTS)))
	{
		column->cooked_default = map_expression(expansion, stored, "column", NameStr(att->attname));
		column->generated = att->attgenerated;
	}
	expansion->elements = lappend(expansion->elements, column);
	if (expansion->options & CREATE_TABLE_LIKE_COMMENTS)
		comment_later(expansion, NameStr(att->attname), NULL,
					  GetComment(RelationGetRelid(expansion->rel), RelationRelationId, att->attnum));
}

static void
expand_check(Expansion *expansion, ConstrCheck *check)
{
	Constraint *constraint = make_constraint(CONSTR_CHECK);

	constraint->conname = pstrdup(check->ccname);
	constraint->is_no_inherit = check->ccnoinherit;
#if PG_VERSION_NUM >= 180000
	constraint->is_enforced = check->ccenforced;
	constraint->initially_valid = check->ccenforced;
#endif
	constraint->cooked_expr = nodeToString(map_expression(expansion, check->ccbin,
														  "constraint", check->ccname));
	expansion->elements = lappend(expansion->elements, constraint);
	if (expansion->options & CREATE_TABLE_LIKE_COMMENTS)
		comment_later(expansion, NULL, check->ccname,
					  GetComment(get_relation_constraint_oid(RelationGetRelid(expansion->rel),
															 check->ccname, false),
								 ConstraintRelationId, 0));
}

/* The elements that stand for the clause, behind so many columns of the stream. */
static List *
expand_clause(ParseState *pstate, TableLikeClause *like, RangeVar *stream, int ncolumns, List **later)
{
	ParseCallbackState callback;
	Expansion	expansion = {.options = like->options,.stream = stream,.later = later};
	TupleDesc	desc;

	setup_parser_errposition_callback(&callback, pstate, like->relation->location);
	expansion.rel = relation_openrv(like->relation, AccessShareLock);
	cancel_parser_errposition_callback(&callback);
	check_source(pstate, expansion.rel, like->relation);

	desc = RelationGetDescr(expansion.rel);
	expansion.map = make_attrmap(desc->natts);
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			expansion.map->attnums[i] = ++ncolumns;
	for (int i = 0; i < desc->natts; i++)
		if (!TupleDescAttr(desc, i)->attisdropped)
			expand_column(&expansion, TupleDescAttr(desc, i));
	if (desc->constr != NULL && (like->options & CREATE_TABLE_LIKE_CONSTRAINTS))
		for (int i = 0; i < desc->constr->num_check; i++)
			expand_check(&expansion, &desc->constr->check[i]);

	free_attrmap(expansion.map);
	relation_close(expansion.rel, NoLock);	/* the lock keeps it as it is */
	return expansion.elements;
}

/* The relation to be made, with its schema; NULL if IF NOT EXISTS will find it there. */
static RangeVar *
stream_to_make(CreateStmt *stmt)
{
	RangeVar   *stream = copyObject(stmt->relation);
	Oid			namespace = RangeVarGetCreationNamespace(stream);

	if (stmt->if_not_exists && OidIsValid(get_relname_relid(stream->relname, namespace)))
		return NULL;
	stream->schemaname = get_namespace_name(namespace);
	return stream;
}

void
sx_table_like_expand(CreateStmt *stmt, const char *text, List **later)
{
	ParseState *pstate = make_parsestate(NULL);
	List	   *elements = NIL;
	int			ncolumns = 0;
	ListCell   *lc;

	pstate->p_sourcetext = text;
	foreach(lc, stmt->tableElts)
	{
		Node	   *element = lfirst(lc);
		List	   *expanded = list_make1(element);
		ListCell   *lc2;

		if (IsA(element, TableLikeClause))
			expanded = expand_clause(pstate, (TableLikeClause *) element,
									 stream_to_make(stmt), ncolumns, later);
		foreach(lc2, expanded)
			if (IsA(lfirst(lc2), ColumnDef))
				ncolumns++;
		elements = list_concat(elements, expanded);
	}
	stmt->tableElts = elements;
	free_parsestate(pstate);
}

void
sx_table_like_comment(List *later)
{
	ListCell   *lc;

	if (later != NIL)
		CommandCounterIncrement();
	foreach(lc, later)
	{
		LaterComment *comment = lfirst(lc);
		Oid			relid = RangeVarGetRelid(comment->stream, NoLock, false);

		if (comment->column != NULL)
			CreateComments(relid, RelationRelationId,
						   get_attnum(relid, comment->column), comment->text);
		else
			CreateComments(get_relation_constraint_oid(relid, comment->constraint, false),
						   ConstraintRelationId, 0, comment->text);
	}
}
