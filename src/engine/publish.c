/*
 * publish.c
 *		Carries out the intents of committed batches.
 *
 * In order, each idempotently, never before its commit is on disk. A sink that is
 * down undoes nothing: batches go on until max_pending intents wait, then the
 * query is blocked until the sink is back. Errors that no waiting can cure (the
 * sink is another's by now) end the step like any other.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "base/settings.h"
#include "checkpoint/outbox.h"
#include "engine/query_engine.h"
#include "registry/failure.h"

#define FIRST_DELAY_MS	100
#define LAST_DELAY_MS	30000

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
}

/* In a transaction of its own, which ends by noting that the sink has it. */
static void
publish_one(SxEngine *engine, int64 batch_id)
{
	char	   *intent;
	int			len;

	begin();
	MemoryContextSwitchTo(engine->batch_context);
	intent = sx_outbox_read(engine->query->id, batch_id, &len);
	engine->running_batch = batch_id;
	engine->sink->routine->publish(engine->sink, batch_id, intent, len);
	SX_CRASH_POINT("published");
	engine->running_batch = -1;
	sx_outbox_delete(engine->query->id, batch_id);
	CommitTransactionCommand();
	engine->npending--;
	MemoryContextSwitchTo(engine->batch_context);
	pfree(intent);
}

static int
list_pending(SxEngine *engine, int64 **batches)
{
	int			n;
	int64	   *found;

	begin();
	MemoryContextSwitchTo(engine->batch_context);
	n = sx_outbox_pending(engine->query->id, &found);
	*batches = found;
	CommitTransactionCommand();
	MemoryContextSwitchTo(engine->batch_context);
	engine->npending = n;
	return n;
}

static void
publish_all(SxEngine *engine)
{
	int64	   *batches;
	int			n = list_pending(engine, &batches);

	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		publish_one(engine, batches[i]);
	}
}

/* For people: what the query waits for; NULL: nothing. */
static void
show_wait(SxEngine *engine, const char *message)
{
	SxQuerySlot *slot = engine->slot;
	char		text[sizeof(slot->waits_for)] = "";

	if (message != NULL)
		snprintf(text, sizeof(text), "sink: %s", message);
	text[pg_mbcliplen(text, strlen(text), sizeof(text) - 1)] = '\0';
	SpinLockAcquire(&slot->mutex);
	memcpy(slot->waits_for, text, sizeof(text));
	SpinLockRelease(&slot->mutex);
}

/*
 * Waiting may cure whatever the sink says, but not that another writer has taken
 * over or that its mark makes no sense; and who cancels us means us.
 */
static bool
may_wait(const ErrorData *error)
{
	return sx_error_class(error->sqlerrcode) != SX_ERROR_PERMANENT &&
		ERRCODE_TO_CATEGORY(error->sqlerrcode) != MAKE_SQLSTATE('5', '7', '0', '0', '0');
}

/* The sink could not be reached: try again later, and let batches go on meanwhile. */
static void
postpone(SxEngine *engine, ErrorData *error)
{
	int			failures = Min(engine->publish_failures++, 16);
	int64		delay = Min((int64) FIRST_DELAY_MS << failures, LAST_DELAY_MS);

	show_wait(engine, error->message);
	engine->publish_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay);
	if (engine->publish_failures == 1)
		ereport(WARNING,
				(errcode(error->sqlerrcode),
				 errmsg("output of query \"%s\" waits for its sink: %s",
						engine->query->name, error->message),
				 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
				 errhint("It is kept in streamx.intent and published when the sink can be written again.")));
}

/*
 * The first failure of a row of them is written down.  An abort gives the
 * session's locks away, and with them the one that keeps other workers out.
 */
static void
after_abort(SxEngine *engine, const ErrorData *error)
{
	begin();
	if (!sx_query_lock_worker(engine->query->id))
		ereport(FATAL,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("another process runs query \"%s\"", engine->query->name)));
	if (engine->publish_failures == 0)
	{
		PushActiveSnapshot(GetTransactionSnapshot());
		sx_failure_append(engine->query->id, error, engine->running_batch, NULL);
		PopActiveSnapshot();
	}
	CommitTransactionCommand();
	MemoryContextSwitchTo(engine->batch_context);
}

/*
 * The one place besides the worker that catches and goes on: outside any batch,
 * with nothing but the publishing transaction to abort.
 */
void
sx_publish_pending(SxEngine *engine)
{
	MemoryContext oldcontext = CurrentMemoryContext;

	if (engine->npending == 0 || engine->sink == NULL ||
		sx_external_sinks != SX_EXTERNAL_ON ||
		(engine->publish_failures > 0 && GetCurrentTimestamp() < engine->publish_at))
		return;
	XLogFlush(engine->commit_lsn);
	PG_TRY();
	{
		publish_all(engine);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(engine->batch_context);
		error = CopyErrorData();
		if (!may_wait(error))
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		after_abort(engine, error);
		engine->running_batch = -1;
		postpone(engine, error);
		MemoryContextSwitchTo(oldcontext);
		return;
	}
	PG_END_TRY();
	if (engine->publish_failures > 0)
		show_wait(engine, NULL);
	engine->publish_failures = 0;
	MemoryContextSwitchTo(oldcontext);
}

/* No batch may run: too many intents wait already. */
bool
sx_publish_blocked(SxEngine *engine)
{
	return engine->npending >= engine->query->options.max_pending;
}
