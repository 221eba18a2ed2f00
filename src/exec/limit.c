/*
 * limit.c
 *		LIMIT over the life of a query: state is how many rows it let through.
 *
 * Key: no bytes, key group 0. Value: byte 1 (version), varint count.
 */
#include "postgres.h"

#include "catalog/pg_type_d.h"

#include "exec/operator.h"
#include "exec/state_view.h"
#include "row/varint.h"

#define VALUE_VERSION	1

typedef struct Limit
{
	SxOperator	base;
	int64		before;			/* batch: rows passed in earlier batches */
	int64		passed;			/* batch: and with this one's */
	bool		found;
} Limit;

static SxOperator *
limit_open(const SxPlanOperator *plan)
{
	return palloc0(sizeof(Limit));
}

static int
limit_state_operators(const SxPlanOperator *plan, SxStateOperator *result)
{
	result->id = SX_STORE_ID(plan->id, 0);
	return 1;
}

static SxStateKey
counter_key(const SxOperator *op)
{
	SxStateKey	key = {
		.op = op->plan->id,
		.expiry = SX_STATE_NEVER,
		.bytes = "",
	};

	return key;
}

static int64
read_counter(const SxStateValue *value)
{
	SxReader	in = {value->bytes, value->bytes + value->len};

	if (*sx_read_bytes(&in, 1) != VALUE_VERSION)
		sx_reader_short();
	return (int64) sx_read_varint(&in);
}

static void
limit_begin(SxOperator *op)
{
	Limit	   *limit = (Limit *) op;
	SxStateKey	key = counter_key(op);
	SxStateValue value;

	sx_state_get_many(op->state, 1, &key, &value);
	limit->found = value.bytes != NULL;
	limit->before = 0;
	if (limit->found)
		limit->before = read_counter(&value);
	limit->passed = limit->before;
}

static bool
limit_receive(SxOperator *op, int input, TupleTableSlot *slot)
{
	Limit	   *limit = (Limit *) op;

	if (limit->passed >= op->plan->limit)
	{
		op->progress->rows_refused++;
		return false;
	}
	slot_getallattrs(slot);
	sx_operator_emit(op, slot->tts_values, slot->tts_isnull);
	limit->passed++;
	return limit->passed < op->plan->limit;
}

static void
limit_finish(SxOperator *op)
{
	Limit	   *limit = (Limit *) op;

	if (limit->passed != limit->before || !limit->found)
	{
		SxStateKey	key = counter_key(op);
		char		bytes[1 + SX_VARINT_MAX];

		bytes[0] = VALUE_VERSION;
		sx_state_put(op->state, &key, bytes,
					 sx_varint_write(bytes + 1, limit->passed) - bytes);
		op->progress->rows_updated++;
	}
}

static List *
limit_explain(const SxPlan *plan, const SxPlanOperator *op, List *lines)
{
	return lappend(lines, psprintf("  keeps: how many rows it let through, at most " INT64_FORMAT, op->limit));
}

static void
limit_show_open(SxStateShow *show)
{
	show->key = sx_state_show_columns(0);
	show->value = sx_state_show_columns(1);
	sx_state_show_column(show->value, 1, "rows", INT8OID, -1);
}

static void
limit_show(SxStateShow *show, const SxStateKey *key, const SxStateValue *value)
{
	Datum		rows = 0;
	bool		isnull = false;

	if (value->bytes != NULL)
		rows = Int64GetDatum(read_counter(value));
	sx_state_show_row(show, &rows, &isnull, value->bytes == NULL ? NULL : &rows, &isnull,
					  key->expiry);
}

const SxOperatorRoutine sx_limit_routine = {
	.name = "limit",
	.rows = SX_OPERATOR_PASSES,
	.open = limit_open,
	.state_operators = limit_state_operators,
	.begin = limit_begin,
	.receive = limit_receive,
	.finish = limit_finish,
	.explain = limit_explain,
	.stores = sx_state_show_default,
	.show_open = limit_show_open,
	.show = limit_show,
};
