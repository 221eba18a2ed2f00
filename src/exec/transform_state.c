/*
 * transform_state.c
 *		See transform_state.h; values are in transform_values.c, timers in
 *		transform_timers.c.
 *
 * These read and write through the three functions here. A handler may catch
 * errors, which rolls a subtransaction back; the state knows only batches. So
 * what a subtransaction changes is noted with the value from before:
 *
 *	 entries  | level 2 | level 2 | level 3 | level 3 |
 *	                               `-- level 3 is rolled back: from here on
 *
 * The callback of the rollback only marks where; the values are put back by the
 * next access, or when the handler has returned.
 */
#include "postgres.h"

#include "access/xact.h"
#include "utils/memutils.h"

#include "base/errors.h"
#include "exec/transform_state.h"
#include "plan/transform_layout.h"

typedef struct UndoEntry
{
	int			level;			/* nesting of the subtransaction */
	SxStateKey	key;
	char	   *old;			/* NULL: there was nothing */
	uint32		oldlen;
} UndoEntry;

struct SxTransformUndo
{
	MemoryContext context;
	UndoEntry  *entries;
	int			n;
	int			allocated;
	int			aborted;		/* from this entry on they are to be put back */
};

static SxTransformState *current = NULL;

/* ---- subtransactions of a handler ---- */

static void
end_of_subtransaction(SubXactEvent event, SubTransactionId my, SubTransactionId parent, void *arg)
{
	SxTransformUndo *undo = current != NULL ? current->undo : NULL;
	int			level = GetCurrentTransactionNestLevel();

	if (undo == NULL || undo->n == 0 ||
		(event != SUBXACT_EVENT_ABORT_SUB && event != SUBXACT_EVENT_COMMIT_SUB))
		return;
	for (int i = undo->aborted - 1; i >= 0 && undo->entries[i].level >= level; i--)
	{
		if (event == SUBXACT_EVENT_ABORT_SUB)
			undo->aborted = i;
		else
			undo->entries[i].level = level - 1;
	}
}

static void
note(SxTransformState *ts, const SxStateKey *key, const SxStateValue *old)
{
	SxTransformUndo *undo = ts->undo;
	MemoryContext oldcontext = MemoryContextSwitchTo(undo->context);
	UndoEntry  *entry;
	char	   *bytes;

	if (undo->n == undo->allocated)
	{
		undo->allocated = Max(16, undo->allocated * 2);
		undo->entries = undo->entries == NULL ?
			palloc(undo->allocated * sizeof(UndoEntry)) :
			repalloc_huge(undo->entries, undo->allocated * sizeof(UndoEntry));
	}
	entry = &undo->entries[undo->n];
	entry->level = GetCurrentTransactionNestLevel();
	entry->key = *key;
	bytes = palloc(key->len + 1);
	memcpy(bytes, key->bytes, key->len);
	entry->key.bytes = bytes;
	entry->old = NULL;
	entry->oldlen = old->len;
	if (old->bytes != NULL)
	{
		entry->old = palloc(old->len + 1);
		memcpy(entry->old, old->bytes, old->len);
	}
	undo->n++;
	undo->aborted = undo->n;
	MemoryContextSwitchTo(oldcontext);
}

static void
forget_undo(SxTransformUndo *undo)
{
	if (undo->n == 0)
		return;
	MemoryContextReset(undo->context);
	undo->entries = NULL;
	undo->n = 0;
	undo->allocated = 0;
	undo->aborted = 0;
}

void
sx_transform_settle(SxTransformState *ts)
{
	SxTransformUndo *undo = ts->undo;

	while (undo->n > undo->aborted)
	{
		UndoEntry  *entry = &undo->entries[--undo->n];

		if (entry->old != NULL)
			sx_state_put(ts->state, &entry->key, entry->old, entry->oldlen);
		else
			sx_state_remove(ts->state, &entry->key);
	}
}

/* ---- the three ways to the state ---- */

SxStateValue
sx_transform_read(SxTransformState *ts, const SxStateKey *key)
{
	SxStateValue value;

	sx_transform_settle(ts);
	sx_state_get_many(ts->state, 1, key, &value);
	return value;
}

static void
note_if_needed(SxTransformState *ts, const SxStateKey *key)
{
	SxStateValue old;

	sx_transform_settle(ts);
	if (GetCurrentTransactionNestLevel() <= ts->level)
		return;
	sx_state_get_many(ts->state, 1, key, &old);
	note(ts, key, &old);
}

void
sx_transform_write(SxTransformState *ts, const SxStateKey *key, const char *bytes, uint32 len)
{
	note_if_needed(ts, key);
	sx_state_put(ts->state, key, bytes, len);
}

void
sx_transform_remove(SxTransformState *ts, const SxStateKey *key)
{
	note_if_needed(ts, key);
	sx_state_remove(ts->state, key);
}

/* ---- the life of it ---- */

static char *
layout_now(const SxPlanOperator *plan)
{
	StringInfoData text;

	initStringInfo(&text);
	sx_transform_print_layout(plan, SX_OUTPUT_APPEND, &text);
	return text.data;
}

/*
 * A row type that is altered while the query runs would make other values of the
 * bytes that are there. The next start compares it with what was recorded.
 */
static void
check_layout(SxTransformState *ts)
{
	char	   *now = layout_now(ts->plan);
	char	   *difference = strcmp(ts->layout, now) != 0 ?
		sx_layout_lines_difference(ts->layout, now) : NULL;

	if (difference != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SX_STATE_SCHEMA),
				 errmsg("a row type in the state of a handler was altered"),
				 errdetail_internal("%s", difference),
				 errhint("Alter it back, or start anew with alter_query(..., reset_state => true).")));
	pfree(now);
}

SxTransformState *
sx_transform_state_make(const SxPlanOperator *plan)
{
	static bool registered = false;
	SxTransformState *ts = palloc0(sizeof(SxTransformState));

	if (!registered)
		RegisterSubXactCallback(end_of_subtransaction, NULL);
	registered = true;
	ts->plan = plan;
	ts->keys = sx_transform_keys_make(plan);
	ts->layout = layout_now(plan);
	return ts;
}

void
sx_transform_state_begin(SxTransformState *ts, SxOperator *op)
{
	check_layout(ts);
	ts->state = op->state;
	ts->progress = op->progress;
	ts->batch_id = op->batch->batch_id;
	ts->timestamp = op->batch->timestamp;
	ts->watermark = op->evict;
	ts->firing = false;
	ts->due_again = false;
	ts->level = GetCurrentTransactionNestLevel();
	ts->undo = palloc0(sizeof(SxTransformUndo));
	ts->undo->context = AllocSetContextCreate(CurrentMemoryContext, "streamx handler undo",
											  ALLOCSET_SMALL_SIZES);
	initStringInfo(&ts->buffer);
	initStringInfo(&ts->other);
	initStringInfo(&ts->bytes);
}

void
sx_transform_begin_key(SxTransformState *ts, const char *key, uint32 keylen, uint64 hash, uint16 group)
{
	forget_undo(ts->undo);
	ts->owner.key = key;
	ts->owner.keylen = keylen;
	ts->owner.hash = hash;
	ts->owner.group = group;
}

void
sx_transform_enter(SxTransformState *ts)
{
	current = ts;
}

SxTransformState *
sx_transform_current(void)
{
	return current;
}

/* ---- variables by name ---- */

SxVariable *
sx_transform_any_variable(SxTransformState *ts, const char *name)
{
	SxVariable *variable = sx_transform_find_variable(ts->keys, name, strlen(name));

	if (variable == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("state variable \"%s\" is not declared", name),
				 errhint("Declare it in the query: transform_with_state(..., state => ARRAY[value_state('%s', NULL::bigint)]).", name)));
	return variable;
}

SxVariable *
sx_transform_variable(SxTransformState *ts, const char *name, SxVariableKind kind)
{
	SxVariable *variable = sx_transform_any_variable(ts, name);

	if (variable->plan->kind != kind)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("state variable \"%s\" is a %s, not a %s", name,
						sx_variable_kind_name(variable->plan->kind), sx_variable_kind_name(kind))));
	return variable;
}
