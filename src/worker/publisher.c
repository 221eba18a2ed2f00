/*
 * publisher.c
 *		The process that carries what SQL inserted into streams of Kafka there.
 *
 * One per database, started by the scheduler when something waits, at its end a
 * minute after nothing does. Connected as the bootstrap superuser; it runs no code
 * of users: rows became bytes in the transaction that inserted them.
 *
 * For each stream, on its own:
 *
 *	 wait ── committed rows ──> assign: batch n+1 is all that this snapshot sees
 *	  ^                           │ commit, on disk
 *	  │                           v
 *	  └── note: delete them <── Kafka's transaction: rows and mark n+1
 *
 * The next assignment notes the batch before it in the same transaction. What a
 * batch holds stands in the catalog before any of it goes out, so that the mark
 * alone tells a new process whether it arrived:
 *
 *	 mark = batch				it did: note it
 *	 mark = batch - 1, assigned	it did not: publish it, with exactly those rows
 *	 mark > batch				PostgreSQL went back: sink_ahead, until a person decides
 *	 mark < batch - 1			Kafka lost something: sink_unknown
 *
 * Order: transactions by their ids, so those of a session as they were committed;
 * rows of a transaction as they were inserted.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/uuid.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "base/settings.h"
#include "base/wake.h"
#include "registry/query.h"
#include "sink/kafka_target.h"
#include "worker/worker.h"

#define ANSWER_MS		5000	/* one stream's brokers must not hold up the others for long */
#define LOOK_MS			5000
#define END_AFTER_MS	60000
#define PARTS_AT_ONCE	64

/* One stream. */
typedef struct Outlet
{
	MemoryContext context;		/* of the target */
	Oid			stream;
	char		identity[64];
	SxKafkaTarget *target;		/* NULL: not open */
	bool		begun;			/* it is ours: intents may follow */
	bool		resume;			/* after a failure: the mark is to be read again */
	int64		batch;			/* newest one that was assigned */
	char	   *transactions;	/* snapshot of it; NULL: it is noted */
	char		token[64];		/* a uuid, made when it was assigned */
	bool		handed;			/* all of it */
	int64		last_xid;		/* the part that was handed over last */
	int64		last_seq;
	int			failures;
	TimestampTz retry_at;
	bool		seen;			/* in this look */
} Outlet;

typedef struct Publisher
{
	Oid			database;
	MemoryContext context;		/* reset per round */
	List	   *publications;
	TimestampTz busy_at;		/* something was done or waited */
	bool		clean_exit;
} Publisher;

static Publisher publisher;

/* ---------- entering and leaving ---------- */

static void
detach(int code, Datum arg)
{
	SxDatabaseSlot *entry;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(publisher.database, false);
	if (entry != NULL && entry->publisher_pid == MyProcPid)
	{
		entry->publisher_pid = 0;
		entry->publisher_latch = NULL;
		entry->publisher_at = publisher.clean_exit ? 0 :
			TimestampTzPlusMilliseconds(GetCurrentTimestamp(), 1000);
	}
	LWLockRelease(sx_shared->lock);
	sx_wake_scheduler(publisher.database);
}

static bool
attach(void)
{
	SxDatabaseSlot *entry;
	bool		ok;

	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(publisher.database, true);
	ok = entry != NULL && entry->publisher_pid == 0 && entry->held_by == 0;
	if (ok)
	{
		entry->publisher_pid = MyProcPid;
		entry->publisher_latch = MyLatch;
		before_shmem_exit(detach, (Datum) 0);
	}
	LWLockRelease(sx_shared->lock);
	return ok;
}

/* ---------- SQL ---------- */

static void
begin(void)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
}

static void
commit(void)
{
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/* Up to three arguments: stream, and what else the statement has. */
static uint64
run(const char *sql, Oid stream, int nargs, const Oid *types, const Datum *values)
{
	Oid			all_types[4] = {OIDOID};
	Datum		all_values[4] = {ObjectIdGetDatum(stream)};
	int			rc;

	for (int i = 0; i < nargs; i++)
	{
		all_types[i + 1] = types[i];
		all_values[i + 1] = values[i];
	}
	rc = SPI_execute_with_args(sql, nargs + 1, all_types, all_values, NULL, false, 0);
	if (rc < 0)
		elog(ERROR, "could not run \"%s\": %s", sql, SPI_result_code_string(rc));
	return SPI_processed;
}

static char *
text_value(uint64 row, int column)
{
	return SPI_getvalue(SPI_tuptable->vals[row], SPI_tuptable->tupdesc, column);
}

bool
sx_publisher_needed(void)
{
	bool		needed;

	PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	(void) run("SELECT FROM streamx.kafka_outbox o LEFT JOIN streamx.kafka_publication p ON p.stream OPERATOR(pg_catalog.=) o.stream"
			   " WHERE o.stream OPERATOR(pg_catalog.<>) $1"
			   " AND coalesce(p.state, 'publishing') OPERATOR(pg_catalog.=) 'publishing' LIMIT 1",
			   InvalidOid, 0, NULL, NULL);
	needed = SPI_processed > 0;
	if (SPI_finish() != SPI_OK_FINISH)
		elog(ERROR, "SPI_finish failed");
	PopActiveSnapshot();
	return needed;
}

/* ---------- one stream: opening ---------- */

static void
forget(Outlet *pub)
{
	if (pub->target != NULL)
		sx_kafka_target_close(pub->target);
	pub->target = NULL;
	MemoryContextReset(pub->context);
	pub->transactions = NULL;
	pub->begun = false;
	pub->resume = false;
}

static void
set_state(Outlet *pub, const char *state, const char *error)
{
	Oid			types[] = {TEXTOID, TEXTOID};
	Datum		values[] = {CStringGetTextDatum(state), CStringGetTextDatum(error)};

	begin();
	(void) run("UPDATE streamx.kafka_publication SET state = $2, error = $3, error_at = pg_catalog.now() WHERE stream OPERATOR(pg_catalog.=) $1",
			   pub->stream, 2, types, values);
	commit();
}

/* The row of the stream, made if absent; a copy of another database's begins anew. */
static void
read_row(Outlet *pub)
{
	Oid			types[] = {UUIDOID, OIDOID};
	pg_uuid_t	fresh;
	Datum		values[2];
	char	   *snapshot;

	sx_uuid_random(&fresh);
	values[0] = UUIDPGetDatum(&fresh);
	values[1] = ObjectIdGetDatum(MyDatabaseId);
	(void) run("DELETE FROM streamx.kafka_publication WHERE stream OPERATOR(pg_catalog.=) $1 AND database OPERATOR(pg_catalog.<>) $2",
			   pub->stream, 1, types + 1, values + 1);
	(void) run("INSERT INTO streamx.kafka_publication (stream, identity, database, batch, state)"
			   " VALUES ($1, $2, $3, -1, 'publishing') ON CONFLICT (stream) DO NOTHING",
			   pub->stream, 2, types, values);
	(void) run("SELECT identity, batch, transactions, lineage FROM streamx.kafka_publication WHERE stream OPERATOR(pg_catalog.=) $1",
			   pub->stream, 0, NULL, NULL);
	if (SPI_processed != 1)
		elog(ERROR, "stream %u has no row in streamx.kafka_publication", pub->stream);
	strlcpy(pub->identity, text_value(0, 1), sizeof(pub->identity));
	pub->batch = strtoi64(text_value(0, 2), NULL, 10);
	snapshot = text_value(0, 3);
	strlcpy(pub->token, text_value(0, 4) ? text_value(0, 4) : "", sizeof(pub->token));
	pub->transactions = snapshot != NULL ? MemoryContextStrdup(pub->context, snapshot) : NULL;
}

static char *
decision(Outlet *pub)
{
	(void) run("SELECT on_rewind FROM streamx.kafka_publication WHERE stream OPERATOR(pg_catalog.=) $1",
			   pub->stream, 0, NULL, NULL);
	return SPI_processed == 1 ? text_value(0, 1) : NULL;
}

static Oid
owner_of(Oid stream)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(stream));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("stream with OID %u does not exist any more", stream)));
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);
	return owner;
}

/* Rows of the batch are deleted; it is not assigned any more. */
static void
note(Outlet *pub)
{
	Oid			types[] = {TEXTOID};
	Datum		values[1];

	if (pub->transactions == NULL)
		return;
	values[0] = CStringGetTextDatum(pub->transactions);
	(void) run("DELETE FROM streamx.kafka_outbox WHERE stream OPERATOR(pg_catalog.=) $1"
			   " AND pg_catalog.pg_visible_in_snapshot(xid, $2::pg_catalog.pg_snapshot)",
			   pub->stream, 1, types, values);
	(void) run("UPDATE streamx.kafka_publication SET transactions = NULL, error = NULL, error_at = NULL"
			   " WHERE stream OPERATOR(pg_catalog.=) $1",
			   pub->stream, 0, NULL, NULL);
}

static void
forget_transactions(Outlet *pub)
{
	if (pub->transactions != NULL)
		pfree(pub->transactions);
	pub->transactions = NULL;
}

/* In a transaction: the decision of a person, carried out. */
static void
follow_mark(Outlet *pub, int64 mark)
{
	Oid			types[] = {INT8OID};
	Datum		values[] = {Int64GetDatum(mark)};

	if (mark >= pub->batch)
		note(pub);
	else
		(void) run("UPDATE streamx.kafka_publication SET transactions = NULL WHERE stream OPERATOR(pg_catalog.=) $1",
				   pub->stream, 0, NULL, NULL);
	(void) run("UPDATE streamx.kafka_publication SET batch = $2, on_rewind = NULL WHERE stream OPERATOR(pg_catalog.=) $1",
			   pub->stream, 1, types, values);
	pub->batch = mark;
}

/* True: it may be written. */
static bool
compare_mark(Outlet *pub, int64 mark, const char *foreign)
{
	bool		assigned = pub->transactions != NULL;
	bool		fits = foreign == NULL &&
		(mark == pub->batch || (assigned && mark == pub->batch - 1));
	char	   *on_rewind;

	if (fits && assigned && mark == pub->batch &&
		strcmp(sx_kafka_target_token(pub->target), pub->token) != 0)
	{
		foreign = "That batch holds other rows than this server's batch of the same id: another server took over.";
		fits = false;
	}
	if (fits)
		return true;
	begin();
	on_rewind = decision(pub);
	if (on_rewind != NULL)
		follow_mark(pub, mark);
	commit();
	if (on_rewind != NULL)
	{
		forget_transactions(pub);
		return true;
	}
	set_state(pub, mark > pub->batch || foreign != NULL ? "sink_ahead" : "sink_unknown",
			  psprintf("Kafka has batch %lld, the outbox of the stream says %lld. %s",
					   (long long) mark, (long long) pub->batch, foreign != NULL ? foreign : ""));
	return false;
}

/* A batch that arrived before the process that sent it could say so. */
static void
note_if_there(Outlet *pub, int64 mark)
{
	if (pub->transactions == NULL || mark != pub->batch)
		return;
	begin();
	note(pub);
	commit();
	forget_transactions(pub);
}

/* For those who insert: they connect to nothing. */
static void
note_limit(Outlet *pub)
{
	Oid			types[] = {INT4OID};
	Datum		values[] = {Int32GetDatum(sx_kafka_target_known_limit(pub->target))};

	begin();
	(void) run("UPDATE streamx.kafka_publication SET max_bytes = nullif($2, -1) WHERE stream OPERATOR(pg_catalog.=) $1"
			   " AND max_bytes IS DISTINCT FROM nullif($2, -1)",
			   pub->stream, 1, types, values);
	commit();
}

/* As at the start of a query: mark, take, mark, begin. False: a person has to decide. */
static bool
open_target(Outlet *pub)
{
	SxKafkaStream *stream;
	Oid			owner;
	const char *foreign = NULL;
	int64		mark;
	MemoryContext oldcontext;

	begin();
	read_row(pub);
	oldcontext = MemoryContextSwitchTo(pub->context);
	stream = sx_kafka_stream_read(pub->stream);
	owner = owner_of(pub->stream);
	pub->target = sx_kafka_target_open(stream, owner, pub->identity, ANSWER_MS);
	MemoryContextSwitchTo(oldcontext);
	commit();
	MemoryContextSwitchTo(publisher.context);

	mark = sx_kafka_target_mark(pub->target, &foreign);
	if (!compare_mark(pub, mark, foreign))
		return false;
	sx_kafka_target_take(pub->target);
	foreign = NULL;
	mark = sx_kafka_target_mark(pub->target, &foreign);
	if (!compare_mark(pub, mark, foreign))
		return false;
	note_limit(pub);
	note_if_there(pub, mark);
	sx_kafka_target_begin(pub->target, mark);
	pub->begun = true;
	pub->handed = false;
	pub->last_xid = pub->last_seq = -1;
	return true;
}

/* ---------- one stream: publishing ---------- */

/* Everything that is committed now becomes the next batch. False: nothing is. */
static bool
assign(Outlet *pub)
{
	Oid			types[] = {OIDOID};
	Datum		values[] = {ObjectIdGetDatum(MyDatabaseId)};
	char	   *snapshot;

	begin();
	note(pub);
	CommandCounterIncrement();
	PopActiveSnapshot();
	PushActiveSnapshot(GetTransactionSnapshot());
	(void) run("SELECT pg_catalog.pg_current_snapshot() FROM streamx.kafka_outbox"
			   " WHERE stream OPERATOR(pg_catalog.=) $1 AND database OPERATOR(pg_catalog.=) $2 LIMIT 1",
			   pub->stream, 1, types, values);
	snapshot = SPI_processed > 0 ? MemoryContextStrdup(pub->context, text_value(0, 1)) : NULL;
	if (snapshot != NULL)
	{
		Oid			update_types[] = {TEXTOID, INT8OID, UUIDOID};
		pg_uuid_t	lineage;
		Datum		update_values[] = {CStringGetTextDatum(snapshot), Int64GetDatum(pub->batch + 1),
			UUIDPGetDatum(&lineage)};

		sx_uuid_random(&lineage);
		strlcpy(pub->token, DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(&lineage))),
				sizeof(pub->token));
		(void) run("UPDATE streamx.kafka_publication SET transactions = $2::pg_catalog.pg_snapshot, batch = $3, lineage = $4"
				   " WHERE stream OPERATOR(pg_catalog.=) $1",
				   pub->stream, 3, update_types, update_values);
		ForceSyncCommit();
		SX_CRASH_POINT("assign");
	}
	commit();
	SX_CRASH_POINT("assigned");
	forget_transactions(pub);
	if (snapshot == NULL)
		return false;
	pub->transactions = snapshot;
	pub->batch++;
	pub->handed = false;
	pub->last_xid = pub->last_seq = -1;
	return true;
}

/* As much of the batch as finds room. */
static void
hand_over(Outlet *pub)
{
	while (!pub->handed)
	{
		Oid			types[] = {TEXTOID, INT8OID, INT8OID};
		Datum		values[3];
		uint64		n;
		bool		room = true;

		CHECK_FOR_INTERRUPTS();
		begin();
		values[0] = CStringGetTextDatum(pub->transactions);
		values[1] = Int64GetDatum(pub->last_xid);
		values[2] = Int64GetDatum(pub->last_seq);
		n = run("SELECT xid::pg_catalog.text::pg_catalog.int8, seq, data FROM streamx.kafka_outbox"
				" WHERE stream OPERATOR(pg_catalog.=) $1"
				" AND pg_catalog.pg_visible_in_snapshot(xid, $2::pg_catalog.pg_snapshot)"
				" AND ($3 OPERATOR(pg_catalog.<) 0 OR (xid, seq) OPERATOR(pg_catalog.>) ($3::pg_catalog.text::pg_catalog.xid8, $4))"
				" ORDER BY kafka_outbox.xid, seq LIMIT " CppAsString2(PARTS_AT_ONCE),
				pub->stream, 3, types, values);
		for (uint64 i = 0; i < n && room; i++)
		{
			HeapTuple	tuple = SPI_tuptable->vals[i];
			TupleDesc	desc = SPI_tuptable->tupdesc;
			bool		isnull;
			bytea	   *data = DatumGetByteaPP(SPI_getbinval(tuple, desc, 3, &isnull));

			room = sx_kafka_target_put(pub->target, VARDATA_ANY(data), VARSIZE_ANY_EXHDR(data));
			if (!room)
				break;
			pub->last_xid = DatumGetInt64(SPI_getbinval(tuple, desc, 1, &isnull));
			pub->last_seq = DatumGetInt64(SPI_getbinval(tuple, desc, 2, &isnull));
		}
		commit();
		if (!room)
			return;
		if (n < PARTS_AT_ONCE)
			pub->handed = sx_kafka_target_end(pub->target, pub->batch, pub->token);
		if (n < PARTS_AT_ONCE && !pub->handed)
			return;				/* a failure: the next look at the target raises it */
	}
}

static bool
is_published(Outlet *pub)
{
	return sx_kafka_target_published(pub->target) >= pub->batch;
}

/* True: something was done, or is on its way. */
static bool
work(Outlet *pub)
{
	if (pub->target == NULL && !open_target(pub))
	{
		forget(pub);
		return false;
	}
	if (pub->resume)
	{
		int64		mark = sx_kafka_target_resume(pub->target);

		if (!compare_mark(pub, mark, NULL))
		{
			forget(pub);
			return false;
		}
		pub->resume = false;
		note_limit(pub);
		note_if_there(pub, mark);
		sx_kafka_target_begin(pub->target, mark);
		pub->handed = false;
		pub->last_xid = pub->last_seq = -1;
	}
	(void) sx_kafka_target_look(pub->target);
	for (;;)
	{
		if (pub->transactions != NULL && !is_published(pub))
		{
			hand_over(pub);
			return true;
		}
		if (pub->transactions != NULL)
		{
			SX_CRASH_POINT("publisher-published");
			pub->failures = 0;
		}
		if (!assign(pub))
			return !sx_kafka_target_idle(pub->target);
		SX_CRASH_POINT("publisher-publish");
	}
}

static void
after_failure(Outlet *pub, const ErrorData *error)
{
	int64		delay = sx_backoff_ms(++pub->failures);
	bool		permanent = sx_error_class(error->sqlerrcode) == SX_ERROR_PERMANENT;

	pub->retry_at = TimestampTzPlusMilliseconds(GetCurrentTimestamp(), delay);
	pub->resume = pub->begun;
	if (pub->failures == 1 || permanent)
		ereport(LOG,
				(errmsg("rows inserted into stream \"%s\" wait: %s",
						get_rel_name(pub->stream) ? get_rel_name(pub->stream) : "?", error->message),
				 error->detail != NULL ? errdetail_internal("%s", error->detail) : 0,
				 errhint("They are kept in streamx.kafka_outbox and published when the brokers take them; see streamx.outbox.")));
}

/* The outermost level: one stream's failure is not another's. */
static bool
guarded_work(Outlet *pub)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	volatile bool busy = false;

	PG_TRY();
	{
		busy = work(pub);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(publisher.context);
		error = CopyErrorData();
		if (ERRCODE_TO_CATEGORY(error->sqlerrcode) == MAKE_SQLSTATE('5', '7', '0', '0', '0'))
			PG_RE_THROW();
		FlushErrorState();
		AbortCurrentTransaction();
		LWLockReleaseAll();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(oldcontext);
	if (error == NULL)
		return busy;
	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	after_failure(pub, error);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(publisher.context);
	if (pub->failures == 1 || sx_error_class(error->sqlerrcode) == SX_ERROR_PERMANENT)
		set_state(pub, sx_error_class(error->sqlerrcode) == SX_ERROR_PERMANENT ? "failed" : "publishing",
				  error->message);
	if (sx_error_class(error->sqlerrcode) == SX_ERROR_PERMANENT || !pub->begun)
		forget(pub);
	return true;
}

/* ---------- all streams ---------- */

static Outlet *
publication_of(Oid stream)
{
	ListCell   *lc;
	Outlet *pub;
	MemoryContext oldcontext;

	foreach(lc, publisher.publications)
	{
		pub = lfirst(lc);
		if (pub->stream == stream)
			return pub;
	}
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	pub = palloc0(sizeof(Outlet));
	pub->stream = stream;
	pub->context = AllocSetContextCreate(TopMemoryContext, "streamx publication",
										 ALLOCSET_DEFAULT_SIZES);
	publisher.publications = lappend(publisher.publications, pub);
	MemoryContextSwitchTo(oldcontext);
	return pub;
}

/* Rows of streams that were dropped, and of the database that this one is a copy of. */
static void
remove_orphans(void)
{
	Datum		values[] = {ObjectIdGetDatum(MyDatabaseId)};
	Oid			types[] = {OIDOID};

	begin();
	(void) run("DELETE FROM streamx.kafka_outbox o WHERE o.database OPERATOR(pg_catalog.<>) $2"
			   " OR (o.stream OPERATOR(pg_catalog.<>) $1 AND NOT EXISTS"
			   " (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) o.stream))",
			   InvalidOid, 1, types, values);
	(void) run("DELETE FROM streamx.kafka_publication p WHERE p.stream OPERATOR(pg_catalog.<>) $1 AND NOT EXISTS"
			   " (SELECT FROM pg_catalog.pg_class c WHERE c.oid OPERATOR(pg_catalog.=) p.stream)",
			   InvalidOid, 0, NULL, NULL);
	commit();
}

/* Muted: what waits is dropped, or it would be published when no longer muted. */
static void
drop_all(void)
{
	begin();
	(void) run("DELETE FROM streamx.kafka_outbox WHERE stream OPERATOR(pg_catalog.<>) $1",
			   InvalidOid, 0, NULL, NULL);
	commit();
}

/* Streams with rows, and with a batch that is not noted. */
static void
find_streams(void)
{
	ListCell   *lc;
	uint64		n;

	foreach(lc, publisher.publications)
		((Outlet *) lfirst(lc))->seen = false;
	begin();
	n = run("SELECT s.stream FROM (SELECT DISTINCT stream FROM streamx.kafka_outbox WHERE stream OPERATOR(pg_catalog.<>) $1) s"
			" LEFT JOIN streamx.kafka_publication p ON p.stream OPERATOR(pg_catalog.=) s.stream"
			" WHERE coalesce(p.state, 'publishing') OPERATOR(pg_catalog.=) 'publishing'",
			InvalidOid, 0, NULL, NULL);
	for (uint64 i = 0; i < n; i++)
	{
		bool		isnull;

		publication_of(DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc,
													  1, &isnull)))->seen = true;
	}
	commit();
}

/* Milliseconds to wait; 0: again at once. */
static long
look(void)
{
	TimestampTz now = GetCurrentTimestamp();
	long		wait = LOOK_MS;
	ListCell   *lc;

	if (sx_external_sinks == SX_EXTERNAL_MUTED)
		drop_all();
	if (sx_external_sinks != SX_EXTERNAL_ON)
		return LOOK_MS;
	find_streams();
	foreach(lc, publisher.publications)
	{
		Outlet *pub = lfirst(lc);

		if (!pub->seen && pub->target == NULL)
			continue;
		if (pub->seen)
			publisher.busy_at = now;
		if (pub->retry_at > now)
		{
			wait = Min(wait, TimestampDifferenceMilliseconds(now, pub->retry_at) + 1);
			continue;
		}
		if (guarded_work(pub))
			publisher.busy_at = GetCurrentTimestamp();
	}
	return wait;
}

/* Somebody who commits from now on wakes the scheduler, which waits for our end. */
static bool
try_leave(void)
{
	SxDatabaseSlot *entry;

	if (!TimestampDifferenceExceeds(publisher.busy_at, GetCurrentTimestamp(), END_AFTER_MS))
		return false;
	LWLockAcquire(sx_shared->lock, LW_EXCLUSIVE);
	entry = sx_database_find(publisher.database, false);
	if (entry != NULL)
		entry->publisher_latch = NULL;
	LWLockRelease(sx_shared->lock);
	publisher.clean_exit = true;
	return true;
}

void
sx_publisher_main(Datum arg)
{
	SxWorkerArgs args;
	ListCell   *lc;

	sx_worker_args(&args);
	publisher.database = args.database;
	if (!attach())
		proc_exit(0);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(args.database, InvalidOid, 0);
	publisher.context = AllocSetContextCreate(TopMemoryContext, "streamx publisher",
											  ALLOCSET_DEFAULT_SIZES);
	publisher.busy_at = GetCurrentTimestamp();
	sx_worker_set("search_path", "pg_catalog");
	sx_worker_set("statement_timeout", "0");
	sx_worker_set("lock_timeout", "0");
	sx_worker_set("idle_in_transaction_session_timeout", "0");
	sx_worker_set("default_transaction_isolation", "read committed");
	sx_worker_set("default_transaction_read_only", "off");
	sx_worker_set("enable_seqscan", "off");	/* the table is never analysed */
	sx_worker_set("jit", "off");
	MemoryContextSwitchTo(publisher.context);
	remove_orphans();
	do
	{
		long		wait;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		MemoryContextSwitchTo(publisher.context);
		MemoryContextReset(publisher.context);
		wait = look();
		pgstat_report_stat(false);
		(void) sx_wake_wait(wait, PG_WAIT_EXTENSION);
	} while (!try_leave());
	foreach(lc, publisher.publications)
		forget(lfirst(lc));
	proc_exit(0);
}
