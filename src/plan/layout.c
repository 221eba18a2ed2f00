/*
 * layout.c
 *		What the state of a query looks like, as text; compared at every start
 *		(layout_check.c).
 *
 * A line per operator, key and aggregate, in the plan's order, version first:
 *
 *	 layout 1
 *	 operator 0 stateStoreSave
 *	 key 1 timestamp with time zone window
 *	 key 2 text collation "default"
 *	 aggregate 1 count() transition bigint
 *	 handler event time, output mode append
 *	 variable seen map text to bigint with ttl
 *
 * Names of columns, filters and window sizes are not part of it: they may change
 * (operations 6). But panes are pieces of certain windows, so where they are kept
 * size, slide and offset follow, in microseconds; and where windows never close,
 * what is kept of one doesn't say when it ends, so their size does:
 *
 *	 key 1 tstzrange window panes 10000000 2000000 0
 *	 key 1 tstzrange window unbounded 10000000
 *
 * A join keeps rows of both sides: their columns follow, with the number that each
 * has in its stream or in the result of another operator, and when the rows go, in
 * microseconds from the watermark:
 *
 *	 join left
 *	 left 1 bigint column 2
 *	 left expiry 3 -5001000
 *
 * An unknown version never fits.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "nodes/nodeFuncs.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"

#include "plan/cut.h"
#include "plan/transform_layout.h"

static void
print_key(StringInfo text, SxPlanOperator *op, int index)
{
	SxPlanKey  *key = &op->keys[index];

	appendStringInfo(text, "key %d %s", index + 1, format_type_be_qualified(key->type));
	if (OidIsValid(key->collation))
	{
		char	   *name = get_collation_name(key->collation);

		appendStringInfo(text, " collation \"%s\"", name ? name : "?");
	}
	if (index == op->time_key)
		appendStringInfoString(text, op->key_time == SX_KEY_TIME_RAW ? " time" :
							   op->key_time == SX_KEY_TIME_SESSION ? " session" : " window");
	if (index == op->time_key && op->panes)
		appendStringInfo(text, " panes " INT64_FORMAT " " INT64_FORMAT " " INT64_FORMAT,
						 op->window.size, op->window.slide, op->window.offset);
	if (index == op->time_key && !op->watermarked)
	{
		appendStringInfoString(text, " unbounded");
		if (op->key_time == SX_KEY_TIME_WINDOW && !op->panes)
			appendStringInfo(text, " " INT64_FORMAT, op->window.size);
	}
	appendStringInfoChar(text, '\n');
}

static void
print_aggregate(StringInfo text, SxPlanAggregate *agg, int index)
{
	static const char *const strategies[] = {"transition", "serialized", "arguments"};
	ListCell   *cell;

	appendStringInfo(text, "aggregate %d %s %s", index + 1,
					 format_procedure_qualified(agg->aggref->aggfnoid),
					 strategies[agg->strategy]);
	if (agg->strategy == SX_AGG_COLLECT)
	{
		foreach(cell, agg->aggref->args)
			appendStringInfo(text, " %s",
							 format_type_be_qualified(exprType((Node *) lfirst_node(TargetEntry, cell)->expr)));
		if (agg->aggref->aggdistinct != NIL)
			appendStringInfoString(text, " distinct");
	}
	else
		appendStringInfo(text, " %s", format_type_be_qualified(agg->aggref->aggtranstype));
	appendStringInfoChar(text, '\n');
}

static void
print_join(StringInfo text, const SxPlanJoin *join)
{
	static const char *const types[] = {"inner", "left", "right", "full", "semi", "anti"};
	static const char *const names[] = {"left", "right"};

	appendStringInfo(text, "join %s\n", types[join->type]);
	for (int s = 0; s < 2; s++)
	{
		const SxPlanSide *side = &join->sides[s];

		for (int i = 0; i < side->row->natts; i++)
			appendStringInfo(text, "%s %d %s %s\n", names[s], i + 1,
							 format_type_be_qualified(TupleDescAttr(side->row, i)->atttypid),
							 (char *) list_nth(side->origins, i));
		if (side->expiry != 0)
			appendStringInfo(text, "%s expiry %d%s " INT64_FORMAT "\n", names[s], side->expiry,
							 join->expiry_in_key ? " key" : "", side->bound);
	}
}

char *
sx_layout_print(const SxCut *cut)
{
	StringInfoData text;
	ListCell   *cell;
	int			level = NewGUCNestLevel();

	/* The text must not depend on the session that asks. */
	(void) set_config_option("quote_all_identifiers", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
	initStringInfo(&text);
	appendStringInfoString(&text, "layout 1\n");
	foreach(cell, cut->operators)
	{
		SxPlanOperator *op = lfirst(cell);

		appendStringInfo(&text, "operator %d %s\n", op->id, op->spark_name);
		for (int i = 0; i < op->nkeys; i++)
			print_key(&text, op, i);
		if (op->within_watermark)
			appendStringInfoString(&text, "expiry by first row\n");
		if (op->join != NULL)
			print_join(&text, op->join);
		if (op->transform != NULL)
			sx_transform_print_layout(op, cut->mode, &text);
		for (int i = 0; i < op->naggregates; i++)
			print_aggregate(&text, &op->aggregates[i], i);
	}
	AtEOXact_GUC(true, level);
	return text.data;
}
