/*
 * start.c
 *		From a row of streamx.query to an engine that can run batches.
 *
 * One transaction: read the query, plan it, compare the state's layout, adopt
 * the last batch record, open sources, state and sink.  What doesn't fit is
 * refused before anything is touched.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "rewrite/rewriteHandler.h"
#include "storage/latch.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/uuid.h"

#include "base/errors.h"
#include "base/settings.h"
#include "engine/query_engine.h"
#include "plan/clock.h"
#include "source/stream_writer.h"

static char *
uuid_text(const pg_uuid_t *uuid)
{
	return DatumGetCString(DirectFunctionCall1(uuid_out, UUIDPGetDatum(uuid)));
}

static SxPlan *
plan_query(const SxQuery *query)
{
	Relation	view = try_table_open(query->view, AccessShareLock);
	SxPlan	   *plan;

	if (view == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the view of query \"%s\" does not exist any more", query->name),
				 errdetail("It was dropped together with something it depended on."),
				 errhint("SELECT drop_query(%s), then create the query again.",
						 quote_literal_cstr(query->name))));
	plan = sx_plan_query(get_view_query(view), query->output_mode);
	table_close(view, NoLock);
	return plan;
}

static void
check_may_run(const SxQuery *query)
{
	if (sx_external_sinks == SX_EXTERNAL_OFF && sx_sink_routine(query->sink_kind)->outside)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("query \"%s\" writes outside PostgreSQL, which is switched off here",
						query->name),
				 errhint("Set streamx.external_sinks to \"on\", or to \"muted\" to run it without publishing anything.")));
}

/* ---- the checkpoint ---- */

static const SxSourceOffset *
recorded_source(const SxBatchRecord *record, Oid relid)
{
	for (int i = 0; record != NULL && i < record->nsources; i++)
		if (record->sources[i].relid == relid)
			return &record->sources[i];
	return NULL;
}

/* As in Spark: leaving a source out would leave its rows in the state for ever. */
static void
check_no_source_removed(SxEngine *engine, const SxBatchRecord *record)
{
	for (int i = 0; record != NULL && i < record->nsources; i++)
	{
		bool		found = false;

		for (int j = 0; j < engine->nsources; j++)
			found |= engine->plan->sources[j].relid == record->sources[i].relid;
		if (!found)
		{
			char	   *name = get_rel_name(record->sources[i].relid);

			ereport(ERROR,
					(errcode(ERRCODE_SX_STATE_SCHEMA),
					 errmsg("query \"%s\" no longer reads stream \"%s\"", engine->query->name,
							name != NULL ? name : psprintf("%u", record->sources[i].relid)),
					 errdetail("Its checkpoint has read from it."),
					 errhint("Read the stream again, or create a new query.")));
		}
	}
}

static void
open_sources(SxEngine *engine, const SxBatchRecord *record)
{
	SxChoose	choose = {
		.snapshot = GetActiveSnapshot(),
		.now = sx_engine_now(engine),
		.max_rows = PG_INT64_MAX,
		.own_part = engine->in_session ? sx_stream_part_begin() : 0,
	};

	check_no_source_removed(engine, record);
	for (int i = 0; i < engine->nsources; i++)
	{
		Oid			relid = engine->plan->sources[i].relid;
		const SxSourceOffset *recorded = recorded_source(record, relid);
		SxSource   *source = sx_source_open(relid);
		MemoryContext oldcontext;

		engine->sources[i] = source;
		source->quarantine = engine->query->options.quarantine;
		oldcontext = MemoryContextSwitchTo(engine->at->context);
		if (recorded != NULL && recorded->end != NULL)
			engine->at->offsets[i] = source->routine->offset_parse(source, recorded->end);
		else
			engine->at->offsets[i] =
				source->routine->initial(source, engine->query->options.starting_latest,
										 &choose);
		MemoryContextSwitchTo(oldcontext);
	}
}

/*
 * "latest" means the first start, whatever comes of the first batch: without a
 * record of it a fresh process would begin behind the rows that made it fail.
 * Likewise where options of the stream name times or ends. Batch -1 stands for it,
 * and stays.
 */
static bool
beginning_varies(SxEngine *engine)
{
	if (engine->query->options.starting_latest)
		return true;
	for (int i = 0; i < engine->nsources; i++)
		if (engine->sources[i]->routine->initial_varies)
			return true;
	return false;
}

static void
record_beginning(SxEngine *engine)
{
	SxBatchRecord record = {
		.query_id = engine->query->id,
		.batch_id = engine->at->batch_id,
		.incarnation = engine->query->incarnation,
		.batch_timestamp = sx_engine_now(engine),
		.watermark = SX_TIME_UNSET,
		.next_watermark = SX_TIME_UNSET,
		.due.op = -1,
		.last_intent = engine->at->last_intent,
		.nsources = engine->nsources,
		.policy = engine->policy,
		.ninputs = engine->plan->nwatermarks,
		.inputs = engine->at->inputs,
		.input_relids = engine->input_relids,
		.progress = "{}",
	};

	sx_uuid_random(&engine->at->lineage);
	record.lineage = engine->at->lineage;
	record.sources = palloc(sizeof(SxSourceOffset) * Max(engine->nsources, 1));
	for (int i = 0; i < engine->nsources; i++)
	{
		record.sources[i].relid = engine->sources[i]->relid;
		record.sources[i].end =
			engine->sources[i]->routine->offset_print(engine->at->offsets[i]);
	}
	sx_batch_record_append(&record);
}

/*
 * Maxima come from the record (D6), delays from the query as it is now.  Inputs
 * are matched by stream, watermark() calls by their order.
 */
static void
adopt_inputs(SxEngine *engine, const SxBatchRecord *record)
{
	SxPlan	   *plan = engine->plan;
	int			marker = 0;

	memcpy(engine->at->inputs, plan->watermarks, sizeof(SxWatermarkInput) * plan->nwatermarks);
	for (int i = 0; i < plan->nsources; i++)
		if (plan->sources[i].watermark_input >= 0)
			engine->input_relids[plan->sources[i].watermark_input] = plan->sources[i].relid;
	for (int i = 0; i < plan->nwatermarks; i++)
	{
		engine->at->inputs[i].max = SX_TIME_UNSET;
		if (engine->input_relids[i] == InvalidOid)
			marker++;
		for (int j = 0, seen = 0; record != NULL && j < record->ninputs; j++)
		{
			if (record->input_relids[j] == InvalidOid)
				seen++;
			if (record->input_relids[j] == engine->input_relids[i] &&
				(engine->input_relids[i] != InvalidOid || seen == marker))
				engine->at->inputs[i].max = record->inputs[j].max;
		}
	}
}

/* The first start decides; a later change is told and ignored, as in Spark. */
static void
adopt_policy(SxEngine *engine, const SxBatchRecord *record)
{
	engine->policy = engine->query->options.watermark_policy;
	if (record == NULL || record->policy == engine->policy)
		return;
	engine->policy = record->policy;
	ereport(LOG,
			(errmsg("query \"%s\" keeps its watermark policy \"%s\"", engine->query->name,
					record->policy == SX_WATERMARK_MAX ? "max" : "min"),
			 errdetail("It was fixed by the first start; the option multiple_watermark_policy was changed afterwards and is ignored.")));
}

static void
adopt_record(SxEngine *engine, const SxBatchRecord *record)
{
	SxPosition *at = engine->at;

	at->batch_id = -1;
	at->watermark = SX_TIME_UNSET;
	at->next_watermark = SX_TIME_UNSET;
	at->last_intent = -1;
	at->due.op = -1;
	memset(&at->totals, 0, sizeof(at->totals));
	if (record != NULL)
	{
		at->batch_id = record->batch_id;
		at->lineage = record->lineage;
		at->watermark = record->watermark;
		at->next_watermark = record->next_watermark;
		at->owes_no_data = record->owes_no_data;
		if (record->due.op < engine->plan->noperators)
			at->due = record->due;
		sx_progress_read_totals(record->progress, &at->totals);
		/* Another incarnation's intents say nothing about this one's sink. */
		if (memcmp(record->incarnation.data, engine->query->incarnation.data, UUID_LEN) == 0)
			at->last_intent = record->last_intent;
	}
	adopt_policy(engine, record);
	adopt_inputs(engine, record);
}

/* ---- state and operators ---- */

/* In a transaction of its own, or in that of the start. */
void
sx_engine_open_state(SxEngine *engine)
{
	SxStateOperator *operators = NULL;
	int			nstores;
	bool		own = !IsTransactionState();
	MemoryContext oldcontext;

	if (own)
	{
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
	}
	oldcontext = MemoryContextSwitchTo(engine->context);
	engine->noperators = engine->plan->noperators;
	nstores = sx_exec_state_operators(engine->plan, &operators);
	if (engine->noperators > 0)
	{
		SxStateConfig config = {
			.query_id = engine->query->id,
			.incarnation = engine->query->incarnation,
			.store = engine->query->options.state_store,
			.memory_kb = engine->query->options.state_memory,
			.memory_only = engine->in_session,
			.changelog = engine->query->options.changelog,
			.batches_to_retain = engine->query->options.batches_to_retain,
			.batch = engine->at->batch_id,
			.lineage = engine->at->lineage,
			.noperators = nstores,
			.operators = operators,
			.batch_exists = sx_batch_record_exists,
		};

		engine->state = sx_state_open(&config);
	}
	engine->exec = sx_exec_open(engine->plan, engine->state);
	engine->state_lost = false;
	MemoryContextSwitchTo(oldcontext);
	if (own)
	{
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
}

void
sx_engine_close_state(SxEngine *engine, bool clean)
{
	if (engine->exec != NULL)
		sx_exec_close(engine->exec);
	engine->exec = NULL;
	if (engine->state == NULL)
		return;
	if (clean && !engine->state_lost)
	{
		XLogFlush(engine->commit_lsn);
		SetCurrentStatementStartTimestamp();
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		sx_state_close(engine->state, true);
		engine->state = NULL;
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	else
		sx_state_close(engine->state, false);
	engine->state = NULL;
}

/* ---- the sink ---- */

static void
open_sink(SxEngine *engine)
{
	const SxSinkRoutine *routine = sx_sink_routine(engine->query->sink_kind);
	SxSinkConfig config = {
		.query = engine->query,
		.desc = engine->plan->result,
		.in_session = engine->in_session,
		.nkeys = engine->plan->nkeys,
		.keys = engine->plan->keys,
		.keys_missing = engine->plan->keys_missing,
		.keys_multiplied = engine->plan->keys_multiplied,
		.retracts = engine->plan->retracts,
	};

	/* A muted one isn't touched at all: not even its mark is read. */
	if (routine->outside && sx_external_sinks == SX_EXTERNAL_MUTED)
		return;
	engine->sink = routine->open(&config);
}

/*
 * The row may be locked by a transaction that only just began to take the query
 * from us and waits for our end: never wait for it unconditionally. Nor is it given
 * up at once: start_query wakes us before its own lock on the row is gone.
 */
bool
sx_engine_lock_row(SxQuerySlot *slot, int64 query_id)
{
	while (!sx_query_lock_row(query_id, true))
	{
		if (slot->stop_requested || slot->held_by != 0)
			return false;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 100, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
	return true;
}

/*
 * Says so in the catalog first: the state of the query is not "failed", and only
 * start_query with a decision ends it.
 */
static void
stop_for_sink(SxEngine *engine, SxWanted wanted, const char *detail)
{
	if (sx_engine_lock_row(engine->slot, engine->query->id))
		sx_query_set_wanted(engine->query->id, wanted);
	PopActiveSnapshot();
	CommitTransactionCommand();
	ereport(ERROR,
			(errcode(ERRCODE_SX_SINK_MARK),
			 wanted == SX_WANTED_SINK_AHEAD ?
			 errmsg("sink of query \"%s\" is ahead of its checkpoint", engine->query->name) :
			 errmsg("sink of query \"%s\" does not hold what its checkpoint says", engine->query->name),
			 errdetail_internal("%s", detail),
			 errhint("start_query with on_rewind => 'continue_after_sink' keeps what the sink has and goes on behind it; 'new_incarnation' writes under a new identity.")));
}

/* ---- all of it ---- */

/*
 * Never waits for the row: who holds it may be waiting for the end of this
 * process.  Then the next batch tries again.
 */
void
sx_engine_record_layout(SxEngine *engine)
{
	SxQuery    *query = engine->query;

	if (engine->plan->layout == NULL ||
		(query->layout != NULL && strcmp(query->layout, engine->plan->layout) == 0) ||
		!sx_query_lock_row(query->id, true))
		return;
	sx_query_set_layout(query->id, engine->plan->layout);
	engine->layout_recorded = true;
}

void
sx_engine_layout_committed(SxEngine *engine)
{
	if (engine->layout_recorded)
		engine->query->layout = engine->plan->layout;
	engine->layout_recorded = false;
}

static void
allocate(SxEngine *engine)
{
	SxPlan	   *plan = engine->plan;

	if (plan->nsources > SX_MAX_SOURCES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("query \"%s\" reads %d streams", engine->query->name, plan->nsources),
				 errdetail("A query can read at most %d different streams.", SX_MAX_SOURCES),
				 errhint("Let another query write several of them into one stream first.")));
	engine->sources = palloc0(sizeof(SxSource *) * Max(plan->nsources, 1));
	engine->nsources = plan->nsources;
	engine->input_relids = palloc0(sizeof(Oid) * Max(plan->nwatermarks, 1));
	engine->last_moved = palloc0(sizeof(TimestampTz) * Max(plan->nwatermarks, 1));
	for (int i = 0; i < plan->nwatermarks; i++)
		engine->last_moved[i] = engine->opened_at;
	for (int i = 0; i < lengthof(engine->positions); i++)
	{
		engine->positions[i].offsets = palloc0(sizeof(SxOffset *) * Max(plan->nsources, 1));
		engine->positions[i].inputs =
			palloc0(sizeof(SxWatermarkInput) * Max(plan->nwatermarks, 1));
	}
}

/* What only a worker can do. */
static void
check_fits_session(SxEngine *engine)
{
	const SxQuery *query = engine->query;

	if (sx_sink_routine(query->sink_kind)->outside)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("query \"%s\" writes outside PostgreSQL", query->name),
				 errdetail("A batch that is run by a session is part of its transaction, and writes into tables, streams and functions only."),
				 errhint("In a test give the query another sink first: SELECT alter_query(%s, sink => 'a_table'); ROLLBACK takes that back.",
						 quote_literal_cstr(query->name))));
	for (int i = 0; i < engine->plan->nsources; i++)
	{
		Oid			relid = engine->plan->sources[i].relid;

		if (sx_stream_is_kafka(relid))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("query \"%s\" reads from Kafka", query->name),
					 errdetail("A batch that is run by a session reads streams whose rows are in PostgreSQL; \"%s\" is a topic.",
							   get_rel_name(relid)),
					 errhint("Test the same SELECT over a stream of the same columns that takes INSERT.")));
		sx_stream_check_not_written(relid);
	}
}

/* Up to the sources; the last record, or NULL. */
static SxBatchRecord *
start_plan(SxEngine *engine, int64 query_id)
{
	SxBatchRecord *record;
	SxQuery    *query;

	MemoryContextSwitchTo(engine->context);
	engine->opened_at = engine->in_session ? engine->clock : GetCurrentTimestamp();
	engine->query = query = sx_query_by_id(query_id, false);
	check_may_run(query);
	engine->incarnation = uuid_text(&query->incarnation);
	engine->run_id = uuid_text(&engine->slot->run_id);
	engine->max_rows = engine->slot->max_rows > 0 ?
		Min(engine->slot->max_rows, query->options.batch_rows) : query->options.batch_rows;
	engine->next_tick = DT_NOBEGIN;
	engine->plan = plan_query(query);
	sx_trigger_check(query, engine->plan);
	if (engine->in_session)
		check_fits_session(engine);
	if (query->layout != NULL && engine->plan->layout != NULL)
		sx_layout_check(query->name, query->layout, engine->plan);
	allocate(engine);
	sx_latency_open(engine);

	record = sx_batch_record_last(query_id);
	adopt_record(engine, record);
	open_sources(engine, record);
	return record;
}

void
sx_engine_start(SxEngine *engine, int64 query_id)
{
	SxBatchRecord *record;
	SxWanted	wanted;
	char	   *detail;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();

	/*
	 * What a process before this one committed may not be on disk yet
	 * (synchronous_commit = off), and we know of no place in the WAL to flush up
	 * to before it is published.
	 */
	(void) GetTopTransactionId();
	ForceSyncCommit();
	PushActiveSnapshot(GetTransactionSnapshot());

	record = start_plan(engine, query_id);
	open_sink(engine);
	wanted = sx_sink_recover(engine, &detail);
	if (wanted != SX_WANTED_RUNNING)
		stop_for_sink(engine, wanted, detail);
	engine->incarnation = uuid_text(&engine->query->incarnation);	/* may be a new one */
	if (record == NULL && beginning_varies(engine))
		record_beginning(engine);
	sx_engine_open_state(engine);
	sx_engine_record_layout(engine);
	PopActiveSnapshot();
	CommitTransactionCommand();
	sx_engine_layout_committed(engine);
	sx_metrics_opened(engine);
}

/* The same within a transaction that goes on: under an active snapshot, as the query's owner. */
void
sx_engine_start_in_session(SxEngine *engine, int64 query_id)
{
	SxBatchRecord *record = start_plan(engine, query_id);

	open_sink(engine);
	if (record == NULL && beginning_varies(engine))
		record_beginning(engine);
	sx_plan_set_clock(engine->plan);
	sx_engine_open_state(engine);
	sx_engine_record_layout(engine);
	sx_engine_layout_committed(engine);
	sx_metrics_opened(engine);
}
