/*
 * publish.c
 *		Carries out the intents of committed batches.
 *
 * In order, each idempotently, never before its commit is on disk. A sink that is
 * down undoes nothing: batches go on until max_pending intents wait, then the
 * query is blocked until the sink is back. Errors that no waiting can cure (the
 * sink is another's by now) end the step like any other.
 *
 *	 committed ──> pending ── hand_over ──> handed ── published ──> noted
 *
 * A sink that works on its own (hand_over) gets an intent right after its commit,
 * while the next batch runs; that one deletes from the outbox, in its own
 * transaction, what the sink has by then. A sink that does not (publish) is waited
 * for, an intent at a time.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "storage/spin.h"
#include "utils/guc.h"
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

/* While something is being published, what it waits for is looked at so often. */
#define LOOK_MS			1000

/* An idle query notes what was published so long ago. */
#define NOTE_AFTER_MS	1000

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
}

static bool
works_on_its_own(SxEngine *engine)
{
	return engine->sink->routine->hand_over != NULL;
}

/* ---- what waits ---- */

/* As the outbox has it: at the start, and after its transaction was rolled back. */
void
sx_publish_adopt(SxEngine *engine, int npending, const int64 *pending, int64 mark)
{
	if (engine->pending_size < npending)
	{
		engine->pending_size = Max(npending, 64);
		engine->pending = MemoryContextAlloc(engine->context,
											 sizeof(int64) * engine->pending_size);
	}
	if (npending > 0)
		memcpy(engine->pending, pending, sizeof(int64) * npending);
	engine->npending = npending;
	engine->handed = engine->published = engine->noted = mark;
}

static void
add_pending(SxEngine *engine, int64 batch_id)
{
	if (engine->pending_size == 0)
	{
		engine->pending_size = 64;
		engine->pending = MemoryContextAlloc(engine->context,
											 sizeof(int64) * engine->pending_size);
	}
	if (engine->npending == engine->pending_size)
	{
		engine->pending_size *= 2;
		engine->pending = repalloc(engine->pending, sizeof(int64) * engine->pending_size);
	}
	engine->pending[engine->npending++] = batch_id;
}

/* The sink has every batch up to this one. */
static void
drop_pending(SxEngine *engine, int64 up_to)
{
	int			n = 0;

	while (n < engine->npending && engine->pending[n] <= up_to)
		n++;
	engine->npending -= n;
	memmove(engine->pending, engine->pending + n, sizeof(int64) * engine->npending);
}

/* ---- a sink that is waited for ---- */

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
	drop_pending(engine, batch_id);
	MemoryContextSwitchTo(engine->batch_context);
	pfree(intent);
}

static void
publish_all(SxEngine *engine)
{
	while (engine->npending > 0)
	{
		CHECK_FOR_INTERRUPTS();
		publish_one(engine, engine->pending[0]);
	}
}

/* ---- a sink that works on its own ---- */

static void show_wait(SxEngine *engine, const char *message);

/* What it has by now. */
static void
look_at_sink(SxEngine *engine)
{
	int64		published = engine->sink->routine->published(engine->sink);
	const char *waits_for = NULL;

	if (published > engine->published)
	{
		SX_CRASH_POINT("published");
		engine->published = published;
		engine->published_at = GetCurrentTimestamp();
		drop_pending(engine, published);
		if (engine->publish_failures > 0)
			show_wait(engine, NULL);
		engine->publish_failures = 0;
	}
	if (engine->sink->routine->waits_for != NULL)
		waits_for = engine->sink->routine->waits_for(engine->sink);
	if (waits_for != NULL)
		show_wait(engine, waits_for);
	else if (engine->shows_wait && engine->publish_failures == 0)
		show_wait(engine, NULL);
}

/*
 * Publishing failed, and a commit whose answer was lost may have happened: only the
 * mark knows.
 */
static void
resume(SxEngine *engine)
{
	int64		mark = engine->sink->routine->resume(engine->sink);

	if (mark < engine->published ||
		(mark > engine->published &&
		 (engine->npending == 0 || mark > engine->pending[engine->npending - 1])))
		ereport(ERROR,
				(errcode(ERRCODE_SX_SINK_MARK),
				 errmsg("sink of query \"%s\" has a mark that nobody here has set",
						engine->query->name),
				 errdetail("It says batch %lld, but batch %lld was the last one known to be there.",
						   (long long) mark, (long long) engine->published),
				 errhint("Find out who else writes under the query's incarnation.")));
	engine->handed = mark;
	engine->resume = false;
	if (engine->sink->routine->begin != NULL)
		engine->sink->routine->begin(engine->sink, mark);
}

/* Those that could not be handed over when they were committed. */
static void
hand_over_backlog(SxEngine *engine)
{
	for (int i = 0; i < engine->npending; i++)
	{
		int64		batch_id = engine->pending[i];
		char	   *intent;
		int			len;
		bool		taken;

		if (batch_id <= engine->handed)
			continue;
		CHECK_FOR_INTERRUPTS();
		begin();
		MemoryContextSwitchTo(engine->batch_context);
		intent = sx_outbox_read(engine->query->id, batch_id, &len);
		CommitTransactionCommand();
		MemoryContextSwitchTo(engine->batch_context);
		SX_CRASH_POINT("publish");
		taken = engine->sink->routine->hand_over(engine->sink, batch_id, intent, len);
		pfree(intent);
		if (!taken)
			return;
		engine->handed = batch_id;
	}
}

static void
publish_step(SxEngine *engine)
{
	if (engine->resume)
		resume(engine);
	look_at_sink(engine);
	hand_over_backlog(engine);
}

/* Right after its commit the intent is still in memory: without a detour, if it is next. */
void
sx_publish_committed(SxEngine *engine, const SxBatch *batch)
{
	bool		is_next = engine->npending == 0 ||
		engine->pending[engine->npending - 1] <= engine->handed;

	if (!batch->has_intent)
		return;
	add_pending(engine, batch->id);
	if (!works_on_its_own(engine) || !is_next || engine->resume ||
		sx_external_sinks != SX_EXTERNAL_ON)
		return;
	XLogFlush(engine->commit_lsn);
	SX_CRASH_POINT("publish");
	if (engine->sink->routine->hand_over(engine->sink, batch->id,
										 batch->intent.data, batch->intent.len))
		engine->handed = batch->id;
}

/* In the transaction of a batch: what the sink has need not wait any more. */
void
sx_publish_note(SxEngine *engine)
{
	engine->noting = engine->published;
	if (engine->published > engine->noted)
		sx_outbox_delete(engine->query->id, engine->published);
}

void
sx_publish_note_committed(SxEngine *engine)
{
	engine->noted = Max(engine->noted, engine->noting);
}

/*
 * No batch comes to do it.  If this commit gets lost, the mark tells the next start
 * the same; so nobody waits for the disk.
 */
void
sx_publish_settle(SxEngine *engine, bool now)
{
	if (engine->published <= engine->noted ||
		(!now && !TimestampDifferenceExceeds(engine->published_at, GetCurrentTimestamp(),
											 NOTE_AFTER_MS)))
		return;
	begin();
	(void) set_config_option("synchronous_commit", "off", PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_LOCAL, true, 0, false);
	sx_publish_note(engine);
	CommitTransactionCommand();
	sx_publish_note_committed(engine);
	MemoryContextSwitchTo(engine->batch_context);
}

/* ---- when it fails ---- */

/* For people: what the query waits for; NULL: nothing. */
static void
show_wait(SxEngine *engine, const char *message)
{
	SxQuerySlot *slot = engine->slot;
	char		text[sizeof(slot->waits_for)] = "";

	if (message != NULL)
		snprintf(text, sizeof(text), "sink: %s", message);
	text[pg_mbcliplen(text, strlen(text), sizeof(text) - 1)] = '\0';
	engine->shows_wait = message != NULL;
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

	if (engine->sink == NULL || !engine->sink->routine->outside ||
		sx_external_sinks != SX_EXTERNAL_ON ||
		(engine->npending == 0 && !works_on_its_own(engine)) ||
		(engine->publish_failures > 0 && GetCurrentTimestamp() < engine->publish_at))
		return;
	XLogFlush(engine->commit_lsn);
	PG_TRY();
	{
		if (works_on_its_own(engine))
			publish_step(engine);
		else
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
		engine->resume = works_on_its_own(engine);
		postpone(engine, error);
		MemoryContextSwitchTo(oldcontext);
		return;
	}
	PG_END_TRY();
	if (engine->publish_failures > 0 && engine->npending == 0)
	{
		show_wait(engine, NULL);
		engine->publish_failures = 0;
	}
	MemoryContextSwitchTo(oldcontext);
}

/* No batch may run: too many intents wait already. */
bool
sx_publish_blocked(SxEngine *engine)
{
	return engine->npending >= engine->query->options.max_pending;
}

/* DT_NOEND: nothing here will have to be done unless somebody wakes us. */
TimestampTz
sx_publish_next_time(SxEngine *engine)
{
	TimestampTz now = GetCurrentTimestamp();

	if (engine->sink == NULL || !engine->sink->routine->outside ||
		sx_external_sinks != SX_EXTERNAL_ON)	/* its change wakes us */
		return DT_NOEND;
	if (engine->publish_failures > 0 && engine->publish_at > now)
		return engine->publish_at;

	/* Or the sink was reached again, and has not taken anything yet. */
	if (engine->npending > 0)
		return works_on_its_own(engine) ? TimestampTzPlusMilliseconds(now, LOOK_MS) : now;
	if (engine->published > engine->noted)
		return TimestampTzPlusMilliseconds(engine->published_at, NOTE_AFTER_MS + 1);
	return DT_NOEND;
}
