/*
 * quarantine.c
 *		Malformed records of a batch, and rows that come back from the quarantine.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "executor/executor.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "engine/quarantine.h"
#include "format/fill.h"

/* Rows given back to one batch at most; the next ones come with the next. */
#define GIVEN_BACK_AT_ONCE	1000

/* COMMIT PREPARED of a requeue() wakes nobody. */
#define LOOK_AGAIN_US		(5 * USECS_PER_SEC)

/* Of the rows that were given back to the batch that runs, or to the failed one that is searched. */
struct SxReturns
{
	List	  **rows;			/* by source: GivenBack * */
	List	   *taken;			/* SxRequeued * whose rows are in the batch */
	List	   *refused;		/* Refused * */
};

/* A row that was given back, and where it came from. */
typedef struct GivenBack
{
	HeapTuple	tuple;
	const SxRequeued *from;
} GivenBack;

typedef struct Refused
{
	const SxRequeued *from;
	int			sqlstate;
	char	   *message;
} Refused;

/* ---- from JSON or a record to rows ---- */

typedef struct Receiver
{
	const SxRequeued *from;
	List	  **rows;
	MemoryContext context;
} Receiver;

static void
receive_row(void *arg, TupleTableSlot *slot)
{
	Receiver   *receiver = arg;
	MemoryContext oldcontext = MemoryContextSwitchTo(receiver->context);
	GivenBack *row = palloc(sizeof(GivenBack));

	row->tuple = ExecCopySlotHeapTuple(slot);
	row->from = receiver->from;
	*receiver->rows = lappend(*receiver->rows, row);
	MemoryContextSwitchTo(oldcontext);
}

/* The row as a person sees it in streamx.quarantine, or has mended it. */
static void
row_of_json(SxSource *source, Receiver *receiver)
{
	Relation	rel = table_open(source->relid, AccessShareLock);
	TupleDesc	desc = RelationGetDescr(rel);
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	bool		isnull;
	Datum		row = sx_json_to_datum(receiver->from->row, rel->rd_rel->reltype, -1, &isnull);
	HeapTupleHeader header;
	HeapTupleData tuple;

	if (isnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the row is null")));
	header = DatumGetHeapTupleHeader(row);
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	tuple.t_data = header;
	heap_deform_tuple(&tuple, desc, slot->tts_values, slot->tts_isnull);
	ExecStoreVirtualTuple(slot);
	receive_row(receiver, slot);
	ExecDropSingleTupleTableSlot(slot);
	table_close(rel, NoLock);
}

static void
rows_of_record(SxSource *source, Receiver *receiver)
{
	const SxRequeued *from = receiver->from;
	SxMalformed record = {
		.where = from->record_position,
		.raw = from->record,
		.len = from->record_len,
	};
	const char *error;

	if (source->routine->reread == NULL || from->record == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the record cannot be read again"),
				 errhint("Give its row as JSON: requeue(query, ARRAY[id], data => '{...}').")));
	error = source->routine->reread(source, &record, receive_row, receiver);
	if (error != NULL)
		ereport(ERROR,
				(errcode(SX_MALFORMED_SQLSTATE),
				 errmsg("%s", error)));
}

/* False: it could not be made a row; *refused says why. In a subtransaction. */
static bool
make_rows(SxSource *source, Receiver *receiver, Refused *refused)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool made = false;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		MemoryContextSwitchTo(oldcontext);
		if (receiver->from->row != NULL)
			row_of_json(source, receiver);
		else
			rows_of_record(source, receiver);
		ReleaseCurrentSubTransaction();
		made = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;
		int			category;

		MemoryContextSwitchTo(receiver->context);
		error = CopyErrorData();
		category = ERRCODE_TO_CATEGORY(error->sqlerrcode);
		if (category == ERRCODE_OPERATOR_INTERVENTION || category == ERRCODE_INSUFFICIENT_RESOURCES ||
			category == ERRCODE_INTERNAL_ERROR)
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		refused->sqlstate = error->sqlerrcode;
		refused->message = error->message != NULL ? error->message : "missing error text";
	}
	PG_END_TRY();
	MemoryContextSwitchTo(oldcontext);
	CurrentResourceOwner = owner;
	return made;
}

/* ---- into the batch ---- */

static int
source_of(const SxEngine *engine, Oid relid)
{
	for (int i = 0; i < engine->nsources; i++)
		if (engine->sources[i]->relid == relid)
			return i;
	return -1;
}

static void
take(SxEngine *engine, SxReturns *returns, const SxRequeued *requeued)
{
	int			i = source_of(engine, requeued->stream);
	List	   *rows = NIL;
	Receiver	receiver = {.from = requeued, .rows = &rows, .context = engine->returns_context};
	Refused		refused = {.from = requeued};
	MemoryContext oldcontext = MemoryContextSwitchTo(engine->returns_context);

	if (i < 0)
	{
		refused.sqlstate = ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE;
		refused.message = "the query does not read this stream any more";
	}
	else if (make_rows(engine->sources[i], &receiver, &refused))
	{
		returns->rows[i] = list_concat(returns->rows[i], rows);
		returns->taken = lappend(returns->taken, unconstify(SxRequeued *, requeued));
		MemoryContextSwitchTo(oldcontext);
		return;
	}
	returns->refused = lappend(returns->refused, memcpy(palloc(sizeof(Refused)), &refused, sizeof(Refused)));
	MemoryContextSwitchTo(oldcontext);
}

void
sx_quarantine_join_again(SxEngine *engine, SxBatch *batch)
{
	SxReturns  *returns = engine->returns;

	batch->joined = returns != NULL;
	for (int i = 0; batch->joined && i < engine->nsources; i++)
	{
		SxBatchSource *range = &batch->sources.sources[i];
		ListCell   *cell;

		if (returns->rows[i] == NIL)
			continue;
		range->counted = false;
		range->extra = palloc(sizeof(HeapTuple) * list_length(returns->rows[i]));
		foreach(cell, returns->rows[i])
			range->extra[range->nextra++] = ((GivenBack *) lfirst(cell))->tuple;
	}
}

/* Without a commit since the last look, and with one lately, nobody gave anything back. */
static bool
worth_looking(const SxEngine *engine, TimestampTz now)
{
	return engine->returns_more || engine->returns_seen != engine->seen_commits ||
		now >= engine->returns_look + LOOK_AGAIN_US || now < engine->returns_look;
}

bool
sx_quarantine_join(SxEngine *engine, SxBatch *batch)
{
	MemoryContext oldcontext;
	SxReturns  *returns;
	List	   *requeued;
	ListCell   *cell;

	engine->returns = NULL;
	if (!worth_looking(engine, batch->timestamp))
		return false;

	/* It wakes us when it commits, but gives its lock away only after that. */
	engine->returns_locked = !sx_query_lock_quarantine(engine->query->id, true);
	if (engine->returns_locked)
	{
		engine->returns_more = true;
		return false;
	}
	if (engine->returns_context == NULL)
		engine->returns_context = AllocSetContextCreate(engine->context, "streamx requeued rows",
														ALLOCSET_SMALL_SIZES);
	MemoryContextReset(engine->returns_context);
	oldcontext = MemoryContextSwitchTo(engine->returns_context);
	requeued = sx_quarantine_requeued(engine->query->id, GIVEN_BACK_AT_ONCE);
	MemoryContextSwitchTo(oldcontext);
	if (requeued == NIL)
	{
		engine->returns_seen = engine->seen_commits;
		engine->returns_look = batch->timestamp;
		engine->returns_more = false;
		return false;
	}
	oldcontext = MemoryContextSwitchTo(engine->returns_context);
	returns = palloc0(sizeof(SxReturns));
	returns->rows = palloc0(sizeof(List *) * Max(engine->nsources, 1));
	MemoryContextSwitchTo(oldcontext);
	foreach(cell, requeued)
		take(engine, returns, lfirst(cell));
	engine->returns = returns;
	engine->returns_more = true;	/* more may come meanwhile, and a failed batch must find them again */
	sx_quarantine_join_again(engine, batch);
	return true;
}

const SxRequeued *
sx_quarantine_origin(const SxEngine *engine, int source, int64 i)
{
	return ((GivenBack *) list_nth(engine->returns->rows[source], i))->from;
}

/* ---- out of the batch ---- */

void
sx_quarantine_check_limit(SxEngine *engine, int64 more, int sqlstate, const char *message)
{
	int			limit = engine->query->options.quarantine_limit;

	if (sx_quarantine_count(engine->query->id) + more <= limit)
		return;
	engine->quarantine_full = true;
	ereport(ERROR,
			(errcode(sqlstate),
			 errmsg("quarantine_limit of query \"%s\" is reached: %s", engine->query->name, message),
			 errdetail("At most %d rows may be in quarantine.", limit),
			 errhint("Look at streamx.quarantine. Mend the query, or raise the limit by alter_query, then start it again.")));
}

static void
write_malformed(SxEngine *engine, SxBatch *batch, int i)
{
	SxBatchSource *range = &batch->sources.sources[i];
	List	   *malformed;
	ListCell   *cell;

	if (range->end == NULL || range->source->routine->malformed == NULL ||
		!range->source->quarantine)
		return;
	malformed = range->source->routine->malformed(range->source);
	if (malformed == NIL)
		return;
	sx_quarantine_check_limit(engine, list_length(malformed), SX_MALFORMED_SQLSTATE,
							  ((SxMalformed *) llast(malformed))->error);
	foreach(cell, malformed)
	{
		SxMalformed *record = lfirst(cell);
		SxQuarantined quarantined = {
			.query_id = engine->query->id,
			.batch_id = batch->id,
			.stream = range->source->relid,
			.position = -1,
			.record = record->raw,
			.record_len = record->len,
			.record_position = record->where,
			.sqlstate = SX_MALFORMED_SQLSTATE,
			.message = record->error,
		};

		sx_quarantine_append(&quarantined);
	}
	/* They were read, as the guilty rows were. */
	range->rows += list_length(malformed);
	range->quarantined += list_length(malformed);
	batch->input_rows += list_length(malformed) * engine->plan->sources[i].references;
	batch->quarantined += list_length(malformed);
}

void
sx_quarantine_after_run(SxEngine *engine, SxBatch *batch)
{
	SxReturns  *returns = engine->returns;
	ListCell   *cell;

	for (int i = 0; i < engine->nsources; i++)
		write_malformed(engine, batch, i);
	if (returns == NULL || !batch->joined)
		return;
	/* Of the first attempt or of a later one: between them, all is open. */
	if (!sx_query_lock_quarantine(engine->query->id, true))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("rows in quarantine are given back once more while a batch has them")));
	foreach(cell, returns->taken)
		sx_quarantine_delete(engine->query->id, lfirst(cell));
	foreach(cell, returns->refused)
	{
		Refused    *refused = lfirst(cell);

		sx_quarantine_put_back(engine->query->id, refused->from, refused->sqlstate,
							   refused->message);
	}
}

void
sx_quarantine_committed(SxEngine *engine)
{
	engine->returns = NULL;
}
