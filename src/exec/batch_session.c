/*
 * batch_session.c
 *		What session windows mean in SQL: islands of rows, each behind the gap of the
 *		ones before it; then an aggregation like any other.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "parser/analyze.h"
#include "parser/parse_node.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

#include "exec/batch_meaning.h"

/* With the end of the row's own window behind it. */
static TupleDesc
session_describe(const SxPlanOperator *op, SxAnswerInput *input)
{
	return sx_answer_widen(op->input, "row_end", TIMESTAMPTZOID);
}

static void
session_take(SxAnswerInput *input)
{
	const SxPlanOperator *op = input->op;
	int			time = op->keys[op->time_key].input - 1;
	int			natts = op->input->natts;
	int64		gap = op->gap;
	TimestampTz end;

	if (op->gap_input != 0)
	{
		if (input->nulls[op->gap_input - 1])
			return;
		gap = sx_window_gap(DatumGetIntervalP(input->values[op->gap_input - 1]));
	}
	if (input->nulls[time] || gap <= 0 ||
		TIMESTAMP_NOT_FINITE(DatumGetTimestampTz(input->values[time])) ||
		pg_add_s64_overflow(DatumGetTimestampTz(input->values[time]), gap, &end) ||
		!IS_VALID_TIMESTAMP(end))
		return;
	input->values[natts] = TimestampTzGetDatum(end);
	input->nulls[natts] = false;
	sx_answer_store(input);
}

static const char *
column_name(const SxPlanOperator *op, AttrNumber column)
{
	return quote_identifier(NameStr(TupleDescAttr(op->input, column - 1)->attname));
}

/* PARTITION BY the keys but the session, and what else; nothing if there is none. */
static char *
partition(const SxPlanOperator *op, const char *more)
{
	StringInfoData list;

	initStringInfo(&list);
	for (int i = 0; i < op->nkeys; i++)
		if (i != op->time_key)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "PARTITION BY ",
							 column_name(op, op->keys[i].input));
	if (more != NULL)
		appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "PARTITION BY ", more);
	return list.data;
}

/* The input's columns, with the session in the place of the event time. */
static Query *
session_rows(const SxAnswer *answer, const SxAnswerInput *input)
{
	const SxPlanOperator *op = input->op;
	AttrNumber	time = op->keys[op->time_key].input;
	const char *ts = column_name(op, time);
	StringInfoData sql;

	initStringInfo(&sql);
	appendStringInfoString(&sql, "SELECT ");
	for (int i = 1; i <= op->input->natts; i++)
	{
		if (i > 1)
			appendStringInfoString(&sql, ", ");
		if (i == time)
			appendStringInfo(&sql, "pg_catalog.tstzrange(pg_catalog.min(%s) OVER g, pg_catalog.max(row_end) OVER g) AS %s", ts, ts);
		else
			appendStringInfoString(&sql, column_name(op, i));
	}
	appendStringInfo(&sql, " FROM (SELECT *, pg_catalog.sum(opens) OVER (%s ORDER BY %s, row_end ROWS UNBOUNDED PRECEDING) AS island"
					 " FROM (SELECT *, CASE WHEN %s OPERATOR(pg_catalog.<=) pg_catalog.max(row_end) OVER"
					 " (%s ORDER BY %s, row_end ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) THEN 0 ELSE 1 END AS opens"
					 " FROM %s) a) b WINDOW g AS (%s)",
					 partition(op, NULL), ts, ts, partition(op, NULL), ts,
					 quote_identifier(sx_answer_name(input)), partition(op, "island"));
	return parse_analyze_fixedparams(linitial_node(RawStmt, raw_parser(sql.data, RAW_PARSE_DEFAULT)),
									 sql.data, NULL, 0, answer->env);
}

static Query *
session_query(SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs)
{
	const SxPlanKey *session = &op->keys[op->time_key];
	TupleDesc	desc = CreateTupleDescCopy(op->input);
	RangeTblEntry *rte;

	TupleDescInitEntry(desc, session->input, "session", session->type, session->typmod, 0);
	rte = addRangeTableEntryForSubquery(make_parsestate(NULL), session_rows(answer, &inputs[0]),
										makeAlias("sessions", NIL), false, true)->p_rte;
	return sx_answer_aggregate(answer, op, rte, desc);
}

const SxMeaning sx_session_meaning = {
	.describe = session_describe,
	.take = session_take,
	.query = session_query,
};
