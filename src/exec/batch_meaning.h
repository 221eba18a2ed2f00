/*
 * batch_meaning.h
 *		What an operator means in SQL, for the batch answer (batch_answer.c).
 *
 * A kind of operator has one of these; a new one is a line in meanings[] there.
 */
#ifndef SX_EXEC_BATCH_MEANING_H
#define SX_EXEC_BATCH_MEANING_H

#include "nodes/parsenodes.h"
#include "nodes/primnodes.h"
#include "utils/queryenvironment.h"
#include "utils/tuplestore.h"
#include "utils/typcache.h"

#include "plan/plan.h"

typedef struct SxAnswer
{
	const SxPlan *plan;
	TimestampTz evict;			/* what the last batch removed by */
	QueryEnvironment *env;
} SxAnswer;

/* Rows of a segment on their way to what stands for its operator. */
typedef struct SxAnswerInput
{
	const SxPlanOperator *op;	/* NULL: they are the result */
	int			number;
	TupleDesc	desc;			/* of what is stored */
	Tuplestorestate *store;
	int64		nrows;
	TypeCacheEntry *window;		/* of the range that is put in the place of the event time, or NULL */
	MemoryContext scratch;		/* of a row */
	Datum	   *values;			/* of the row, with room for those of desc */
	bool	   *nulls;
} SxAnswerInput;

typedef struct SxMeaning
{
	TupleDesc	(*describe) (const SxPlanOperator *op, SxAnswerInput *input);	/* of what is stored of an input */
	void		(*take) (SxAnswerInput *input); /* stores the row in values and nulls, or none, or several */
	Query	   *(*query) (SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs);

	/* Instead of query: the operator's rows. */
	Tuplestorestate *(*run) (SxAnswer *answer, const SxPlanOperator *op, SxAnswerInput *inputs);

	/* Why it can't be said what the operator gave; NULL: it can. May be left out. */
	const char *(*unknown) (const SxPlanOperator *op);
	/* What its rows depend on beside its input; NULL: nothing. May be left out. */
	const char *(*caveat) (const SxPlanOperator *op);
} SxMeaning;

extern const SxMeaning sx_session_meaning;
extern const SxMeaning sx_join_meaning;

/* ---- for those who write one (batch_answer.c) ---- */

/* The watermark that the operator's rows were removed by. */
extern TimestampTz sx_answer_evict(const SxAnswer *answer, const SxPlanOperator *op);

extern void sx_answer_store(SxAnswerInput *input);

/* The input's columns and, behind them, one of this name and type. */
extern TupleDesc sx_answer_widen(TupleDesc desc, const char *name, Oid type);

/* The rows of a query over the stored inputs. */
extern Tuplestorestate *sx_answer_run(SxAnswer *answer, Query *query);

/* The stored rows of an input: their name, and a range table entry for them. */
extern char *sx_answer_name(const SxAnswerInput *input);
extern RangeTblEntry *sx_answer_entry(const SxAnswerInput *input);

/* The aggregation over rows of this description, which are those of the operator's input or begin so. */
extern Query *sx_answer_aggregate(const SxAnswer *answer, const SxPlanOperator *op,
								  RangeTblEntry *rte, TupleDesc desc);
extern Var *sx_answer_column(TupleDesc desc, Index varno, AttrNumber column);
extern void sx_answer_select(Query *query, Expr *expr);

#endif
