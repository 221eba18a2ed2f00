/*
 * query_loop.c
 *		Follows results from stream to stream.
 *
 *	 todo = the stream that the query writes
 *	 for each stream of todo:
 *		a stream that the query reads?  refuse, with the way that leads there
 *		add the sinks of all queries that read it, if they are streams and new
 *
 * Only what is declared is seen: a foreach_batch function, a trigger or a client
 * that writes a stream can close a loop, and is free to.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteHandler.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "api/query_loop.h"
#include "source/source.h"

static bool
writes_stream(const SxQuery *query)
{
	return query->sink_kind == SX_SINK_STREAM || query->sink_kind == SX_SINK_KAFKA;
}

/* A stream that results reach, and how. */
typedef struct Reached
{
	Oid			stream;
	const SxQuery *writer;		/* NULL: the query itself */
	const struct Reached *from; /* what the writer reads */
} Reached;

typedef struct ReadContext
{
	Oid			stream;			/* is this one read? */
	List	   *views;			/* OIDs looked into already */
} ReadContext;

static bool reads_walker(Node *node, void *arg);

static bool
view_reads(Oid view, ReadContext *context)
{
	Relation	rel;
	bool		result;

	if (list_member_oid(context->views, view))
		return false;
	context->views = lappend_oid(context->views, view);
	check_stack_depth();
	rel = try_relation_open(view, AccessShareLock);
	if (rel == NULL)
		return false;			/* dropped meanwhile */
	result = rel->rd_rel->relkind == RELKIND_VIEW &&
		reads_walker((Node *) get_view_query(rel), context);
	relation_close(rel, NoLock);
	return result;
}

static bool
reads_walker(Node *node, void *arg)
{
	ReadContext *context = arg;

	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		RangeTblEntry *rte = (RangeTblEntry *) node;

		if (rte->rtekind != RTE_RELATION)
			return false;
		return rte->relid == context->stream ||
			(rte->relkind == RELKIND_VIEW && view_reads(rte->relid, context));
	}
	if (IsA(node, Query))
		return query_tree_walker((Query *) node, reads_walker, arg, QTW_EXAMINE_RTES_BEFORE);
	return expression_tree_walker(node, reads_walker, arg);
}

static bool
query_reads(const SxQuery *query, Oid stream)
{
	ReadContext context = {stream, NIL};

	return view_reads(query->view, &context);
}

static char *
describe_way(const Reached *reached)
{
	const char *stream = get_rel_name(reached->stream);

	if (reached->writer == NULL)
		return psprintf("It writes stream \"%s\"", stream);
	return psprintf("%s, query \"%s\" reads that and writes stream \"%s\"",
					describe_way(reached->from), reached->writer->name, stream);
}

static bool
is_reached(List *all, Oid stream)
{
	ListCell   *cell;

	foreach(cell, all)
		if (((Reached *) lfirst(cell))->stream == stream)
			return true;
	return false;
}

static List *
add_reached(List *all, Oid stream, const SxQuery *writer, const Reached *from)
{
	Reached    *reached = palloc(sizeof(Reached));

	reached->stream = stream;
	reached->writer = writer;
	reached->from = from;
	return lappend(all, reached);
}

static void
refuse_if_read(const SxQuery *query, const SxPlan *plan, const Reached *reached)
{
	for (int i = 0; i < plan->nsources; i++)
		if (plan->sources[i].relid == reached->stream)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 reached->writer == NULL ?
					 errmsg("query \"%s\" would write into stream \"%s\", which it reads",
							query->name, get_rel_name(reached->stream)) :
					 errmsg("results of query \"%s\" would come back to it through stream \"%s\"",
							query->name, get_rel_name(reached->stream)),
					 reached->writer == NULL ?
					 errdetail("Its own results would be its next input, without an end.") :
					 errdetail("%s, which this query reads: without an end.",
							   describe_way(reached)),
					 errhint("Write into another stream. If a loop is wanted, write from a foreach_batch function that decides when it ends.")));
}

void
sx_query_check_loop(const SxQuery *query, const SxPlan *plan)
{
	List	   *reached;
	List	   *queries = NIL;

	if (!writes_stream(query))
		return;
	reached = add_reached(NIL, query->sink_relation, NULL, NULL);
	for (int i = 0; i < list_length(reached); i++)
	{
		const Reached *from = list_nth(reached, i);
		ListCell   *cell;

		refuse_if_read(query, plan, from);
		if (i == 0)
			queries = sx_query_list();
		foreach(cell, queries)
		{
			const SxQuery *other = lfirst(cell);

			if (writes_stream(other) && other->id != query->id &&
				!is_reached(reached, other->sink_relation) &&
				query_reads(other, from->stream))
				reached = add_reached(reached, other->sink_relation, other, from);
		}
	}
}
