/*
 * session.c
 *		Batches of a query in a session's own transaction.
 *
 * An engine is kept from one batch to the next, as a worker keeps it, but it is a
 * cache: what counts is the batch record and the log of the state, rows of this
 * transaction like all others. Before it is used it is held against them:
 *
 *	 ROLLBACK TO SAVEPOINT took batches back	stale: opened again
 *	 the query was altered, or changed owner	opened again
 *	 the last record is not of its last batch	opened again
 *	 the transaction ends, either way			closed
 *
 * Its state is in memory only (state/no_store.c), so the store that workers use
 * never hears of a batch that may be rolled back. After COMMIT that store is behind;
 * the next worker finds out by its mark and catches up from the log.
 *
 * Each batch is a subtransaction of its own: one that fails leaves engine and
 * transaction as they were, and the search for bad rows (search.c) can go on.
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "engine/query_engine.h"
#include "engine/session.h"

/* A moment of the query's processing time, and the level of the subtransaction that set it. */
typedef struct Clock
{
	int			level;
	TimestampTz time;
} Clock;

typedef struct Session
{
	int64		query_id;
	SxEngine   *engine;			/* or NULL */
	MemoryContext context;		/* of the engine */
	int			level;			/* subtransaction in which it ran last */
	bool		stale;			/* that was rolled back */
	bool		has_record;		/* the last batch record, when it ran last */
	int64		batch_id;
	pg_uuid_t	lineage;
	uint64		query_changes;	/* sx_query_changes then */
	List	   *clocks;			/* Clock *, the newest last */
} Session;

/* Of this transaction; in TopMemoryContext. */
static List *sessions = NIL;

static Session *running = NULL; /* whose batch runs */

/* ---- the end of transactions and subtransactions ---- */

/* Cannot fail: it runs while a transaction ends, too. */
static void
close_engine(Session *session)
{
	if (session->engine != NULL)
		sx_engine_close(session->engine, false);
	session->engine = NULL;
	if (session->context != NULL)
		MemoryContextDelete(session->context);
	session->context = NULL;
	session->stale = false;
}

static void
at_transaction_end(XactEvent event, void *arg)
{
	ListCell   *lc;

	if (event != XACT_EVENT_PRE_COMMIT && event != XACT_EVENT_ABORT)
		return;
	running = NULL;
	foreach(lc, sessions)
	{
		Session    *session = lfirst(lc);

		close_engine(session);
		list_free_deep(session->clocks);
	}
	list_free_deep(sessions);
	sessions = NIL;
}

static void
subtransaction_aborted(Session *session, int level)
{
	if (session->level >= level)
		session->stale = true;
	while (session->clocks != NIL && ((Clock *) llast(session->clocks))->level >= level)
	{
		pfree(llast(session->clocks));
		session->clocks = list_delete_last(session->clocks);
	}
}

static void
subtransaction_committed(Session *session, int level)
{
	ListCell   *lc;

	session->level = Min(session->level, level - 1);
	foreach(lc, session->clocks)
	{
		Clock	   *clock = lfirst(lc);

		clock->level = Min(clock->level, level - 1);
	}
}

static void
at_subtransaction_end(SubXactEvent event, SubTransactionId id, SubTransactionId parent,
					  void *arg)
{
	int			level = GetCurrentTransactionNestLevel();
	ListCell   *lc;

	foreach(lc, sessions)
	{
		if (event == SUBXACT_EVENT_ABORT_SUB)
			subtransaction_aborted(lfirst(lc), level);
		else if (event == SUBXACT_EVENT_COMMIT_SUB)
			subtransaction_committed(lfirst(lc), level);
	}
}

static Session *
find_session(int64 query_id)
{
	static bool registered = false;
	MemoryContext oldcontext;
	Session    *session;
	ListCell   *lc;

	foreach(lc, sessions)
	{
		session = lfirst(lc);
		if (session->query_id == query_id)
			return session;
	}
	if (!registered)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		RegisterSubXactCallback(at_subtransaction_end, NULL);
		registered = true;
	}
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	session = palloc0(sizeof(Session));
	session->query_id = query_id;
	sessions = lappend(sessions, session);
	MemoryContextSwitchTo(oldcontext);
	return session;
}

/* ---- processing time ---- */

static TimestampTz
last_batch_time(int64 query_id)
{
	SxBatchRecord *record = sx_batch_record_last_head(query_id);

	return record != NULL ? record->batch_timestamp : DT_NOBEGIN;
}

/* As it was set; else that of the transaction, but never before the last batch. */
static TimestampTz
session_time(const Session *session)
{
	if (session->clocks != NIL)
		return ((Clock *) llast(session->clocks))->time;
	return Max(GetCurrentTransactionStartTimestamp(), last_batch_time(session->query_id));
}

bool
sx_session_is_in_batch(int64 query_id)
{
	return running != NULL && (query_id == 0 || running->query_id == query_id);
}

TimestampTz
sx_session_clock(void)
{
	return running != NULL ? running->engine->clock : GetCurrentTransactionStartTimestamp();
}

void
sx_session_advance_time(const SxQuery *query, TimestampTz to)
{
	Session    *session = find_session(query->id);
	TimestampTz now = last_batch_time(query->id);
	MemoryContext oldcontext;
	Clock	   *clock;

	if (session->clocks != NIL)
		now = ((Clock *) llast(session->clocks))->time;
	if (TIMESTAMP_NOT_FINITE(to))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("processing time must be finite")));
	if (to < now)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("processing time of query \"%s\" cannot go back", query->name),
				 errdetail("It is %s.", timestamptz_to_str(now))));
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	clock = palloc(sizeof(Clock));
	clock->level = GetCurrentTransactionNestLevel();
	clock->time = to;
	session->clocks = lappend(session->clocks, clock);
	MemoryContextSwitchTo(oldcontext);
}

/* ---- the engine ---- */

/* What a worker shows of itself; here nobody looks. */
static SxQuerySlot *
make_slot(int64 query_id)
{
	SxQuerySlot *slot = palloc0(sizeof(SxQuerySlot));

	slot->database = MyDatabaseId;
	slot->query_id = query_id;
	sx_uuid_random(&slot->run_id);
	SpinLockInit(&slot->mutex);
	pg_atomic_init_u64(&slot->asked, 0);
	pg_atomic_init_u64(&slot->drained, 0);
	pg_atomic_init_u64(&slot->waiting_since, 0);
	ConditionVariableInit(&slot->changed);
	return slot;
}

/* Notes that engine and catalog agree. */
static void
remember(Session *session)
{
	SxBatchRecord *record = sx_batch_record_last_head(session->query_id);

	session->has_record = record != NULL;
	if (record != NULL)
	{
		session->batch_id = record->batch_id;
		session->lineage = record->lineage;
	}
	session->query_changes = sx_query_changes();
	session->level = GetCurrentTransactionNestLevel();
}

static bool
is_current(const Session *session, const SxQuery *query)
{
	SxBatchRecord *record;

	if (session->engine == NULL || session->stale || session->engine->state_lost ||
		session->query_changes != sx_query_changes() ||
		session->engine->query->owner != query->owner)
		return false;
	record = sx_batch_record_last_head(session->query_id);
	if (record == NULL || !session->has_record)
		return (record != NULL) == session->has_record;
	return record->batch_id == session->batch_id &&
		memcmp(record->lineage.data, session->lineage.data, UUID_LEN) == 0;
}

/* An error leaves an engine that is closed with the subtransaction's end, or the next time. */
static void
open_engine(Session *session)
{
	ErrorContextCallback callback;
	MemoryContext oldcontext;

	close_engine(session);
	session->context = AllocSetContextCreate(TopMemoryContext, "streamx session",
											 ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(session->context);
	session->engine = sx_engine_make(make_slot(session->query_id));
	session->engine->in_session = true;
	session->engine->clock = session_time(session);
	session->stale = true;		/* until it is open */

	sx_engine_push_context(session->engine, &callback);
	PushActiveSnapshot(GetTransactionSnapshot());
	sx_engine_start_in_session(session->engine, session->query_id);
	PopActiveSnapshot();
	error_context_stack = callback.previous;
	CommandCounterIncrement();
	session->stale = false;
	MemoryContextSwitchTo(oldcontext);
	remember(session);
}

/* Settings of whoever created the query, as in its worker; until the caller's nest level ends. */
static void
apply_settings(const SxQuery *query)
{
	static const char *const own[][2] = {
		{"quote_all_identifiers", "off"},	/* names in a layout */
		{"jit", "off"},
		{"max_parallel_workers_per_gather", "0"},
	};
	ListCell   *lc;

	foreach(lc, query->settings)
	{
		char	   *name = pstrdup(lfirst(lc));
		char	   *equals = strchr(name, '=');

		if (equals == NULL)
			continue;
		*equals = '\0';
		(void) set_config_option(name, equals + 1, PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, WARNING, false);
	}
	for (int i = 0; i < lengthof(own); i++)
		(void) set_config_option(own[i][0], own[i][1], PGC_USERSET, PGC_S_SESSION,
								 GUC_ACTION_SAVE, true, WARNING, false);
}

/* ---- a batch ---- */

static void
fill_result(const SxEngine *engine, SxSessionBatch *result)
{
	const SxBatch *batch = engine->batch;

	result->id = batch->id;
	result->input_rows = batch->input_rows;
	result->output_rows = batch->result.nrows;
	result->late_rows = 0;
	for (int i = 0; i < engine->noperators; i++)
		result->late_rows += batch->operators[i].rows_late;
	result->watermark = engine->at->watermark;
	result->next_watermark = engine->at->next_watermark;
	result->timestamp = batch->timestamp;
	result->progress = pstrdup(batch->progress);
}

/*
 * In a subtransaction. Errors come back with its effects undone; NULL: it went well,
 * *any says whether there was a batch.
 */
static ErrorData *
guarded_batch(SxEngine *engine, bool *any)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner oldowner = CurrentResourceOwner;
	ErrorContextCallback callback;
	ErrorData  *volatile error = NULL;

	BeginInternalSubTransaction(NULL);
	sx_engine_push_context(engine, &callback);
	PG_TRY();
	{
		*any = sx_batch_run_in_session(engine);
		MemoryContextSwitchTo(oldcontext);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
	}
	PG_END_TRY();
	error_context_stack = callback.previous;
	MemoryContextSwitchTo(oldcontext);
	CurrentResourceOwner = oldowner;
	return error;
}

/* As the worker does: a failure may be an answer in the search for bad rows. */
static bool
run_batch(Session *session)
{
	SxEngine   *engine = session->engine;
	bool		any = false;
	ErrorData  *error;

	engine->clock = session_time(session);
	engine->out_of_memory = false;
	while ((error = guarded_batch(engine, &any)) != NULL)
	{
		sx_engine_abort(engine, error);
		if (!sx_engine_absorb(engine, error))
			ReThrowError(error);
		FreeErrorData(error);
		CHECK_FOR_INTERRUPTS();
	}
	if (any)
	{
		sx_batch_accept(engine);
		sx_engine_layout_committed(engine);
	}
	return any;
}

/* As the query's owner; others with rights on the query lend him nothing of theirs. */
static void
become_owner(const SxQuery *query, Oid *user, int *context)
{
	int			restricted = 0;

	GetUserIdAndSecContext(user, context);
	if (*user != query->owner)
	{
		restricted = SECURITY_RESTRICTED_OPERATION;
		if (query->sink_kind == SX_SINK_FOREACH_BATCH)
			ereport(ERROR,
					(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
					 errmsg("only its owner can run a batch of query \"%s\"", query->name),
					 errdetail("Its function foreach_batch finds the rows in a temporary table of the owner's."),
					 errhint("SET ROLE %s first.",
							 quote_identifier(GetUserNameFromId(query->owner, false)))));
	}
	SetUserIdAndSecContext(query->owner, *context | SECURITY_LOCAL_USERID_CHANGE | restricted);
}

bool
sx_session_run_batch(const SxQuery *query, SxSessionBatch *result)
{
	Session    *session = find_session(query->id);
	int			settings_level = NewGUCNestLevel();
	Oid			user;
	int			context;
	volatile bool any = false;

	become_owner(query, &user, &context);
	apply_settings(query);
	CommandCounterIncrement();
	PG_TRY();
	{
		if (!is_current(session, query))
			open_engine(session);
		running = session;
		any = run_batch(session);
	}
	PG_FINALLY();
	{
		running = NULL;
	}
	PG_END_TRY();
	if (any)
	{
		fill_result(session->engine, result);
		sx_metrics_publish(session->engine, session->engine->batch);
	}
	session->engine->running_batch = -1;
	session->engine->batch = NULL;
	MemoryContextReset(session->engine->batch_context);
	remember(session);
	AtEOXact_GUC(true, settings_level);
	SetUserIdAndSecContext(user, context);
	return any;
}
