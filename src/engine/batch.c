/*
 * batch.c
 *		One batch.  Before the commit nothing of it can be seen; after it nothing
 *		can be lost.
 *
 * Rows of the sink, offsets, watermark, state changes and the record of all this
 * are one transaction.  A no-data batch that is due follows in the same one when
 * no data waits: two batch ids, two records, one flush.
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "commands/trigger.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"

#include "base/crash_point.h"
#include "base/settings.h"
#include "checkpoint/outbox.h"
#include "engine/quarantine.h"
#include "engine/query_engine.h"
#include "engine/search.h"
#include "source/stream_writer.h"

/* Old batch records are deleted this often. */
#define TRIM_EVERY	100

/* ---- the transaction ---- */

/*
 * READ COMMITTED whatever the settings of the query say; one snapshot for all reads.
 * The streams are locked first: an ALTER that we had to wait for may have written
 * all of a stream's rows anew, and to a snapshot from before it none of them exists.
 */
static void
begin_transaction(SxEngine *engine)
{
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	XactIsoLevel = XACT_READ_COMMITTED;
	XactReadOnly = false;
	for (int i = 0; i < engine->nsources; i++)
		LockRelationOid(engine->sources[i]->relid, AccessShareLock);
	engine->settings_level = NewGUCNestLevel();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(engine->batch_context);
}

/*
 * What functions and triggers of users have SET ends here: a role or search_path
 * of theirs must meet neither our own writes nor the next batch.
 */
static void
forget_settings(SxEngine *engine)
{
	AtEOXact_GUC(false, engine->settings_level);
	engine->settings_level = NewGUCNestLevel();
}

static void
end_idle_transaction(SxEngine *engine)
{
	forget_settings(engine);
	PopActiveSnapshot();
	CommitTransactionCommand();
}

/*
 * Deferred constraints and triggers of the sink run now rather than in COMMIT:
 * their error is one of the sink, and what they SET is forgotten.
 */
static void
settle_sink(SxEngine *engine)
{
	ConstraintsSetStmt *stmt = makeNode(ConstraintsSetStmt);

	engine->writing_sink = true;
	AfterTriggerSetState(stmt); /* SET CONSTRAINTS ALL IMMEDIATE */
	engine->writing_sink = false;
	pfree(stmt);
	forget_settings(engine);
}

/* The batch is a fact: the next one goes on from it.  Cannot fail. */
void
sx_batch_accept(SxEngine *engine)
{
	if (engine->state != NULL)
		sx_state_commit(engine->state);
	engine->at = engine->next;
	engine->next = NULL;
	sx_search_end(engine);
	sx_quarantine_committed(engine);
}

/*
 * From the start of COMMIT until the state has the batch, an error ends the
 * process (engine.c).
 */
static void
commit_batch(SxEngine *engine)
{
	settle_sink(engine);
	SX_CRASH_POINT("before-commit");
	PopActiveSnapshot();
	engine->commit_xid = GetTopTransactionIdIfAny();
	engine->commit_started = true;
	CommitTransactionCommand();
	engine->commit_lsn = XactLastCommitEnd;
	SX_CRASH_POINT("after-commit");
	sx_batch_accept(engine);
	for (int i = 0; i < engine->nsources; i++)
		if (engine->sources[i]->routine->forget != NULL)
			engine->sources[i]->routine->forget(engine->sources[i], engine->at->offsets[i],
												engine->commit_lsn);
	engine->commit_started = false;
	MemoryContextSwitchTo(engine->batch_context);
}

/* ---- the position ---- */

SxOffset *
sx_batch_copy_offset(SxSource *source, const SxOffset *offset)
{
	if (source->routine->offset_copy != NULL)
		return source->routine->offset_copy(source, offset);
	return source->routine->offset_parse(source, source->routine->offset_print(offset));
}

/* A copy of where the query is, to be changed by the batches of this transaction. */
static void
begin_position(SxEngine *engine)
{
	SxPosition *at = engine->at;
	SxPosition *next = &engine->positions[at == &engine->positions[0] ? 1 : 0];
	SxPosition	copy = *at;
	MemoryContext oldcontext;

	copy.context = next->context;
	copy.offsets = next->offsets;
	copy.inputs = next->inputs;
	*next = copy;
	memcpy(next->inputs, at->inputs, sizeof(SxWatermarkInput) * engine->plan->nwatermarks);
	MemoryContextReset(next->context);
	oldcontext = MemoryContextSwitchTo(next->context);
	for (int i = 0; i < engine->nsources; i++)
		next->offsets[i] = sx_batch_copy_offset(engine->sources[i], at->offsets[i]);
	MemoryContextSwitchTo(oldcontext);
	engine->next = next;
}

static void
advance_offsets(SxEngine *engine, SxBatch *batch)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(engine->next->context);

	for (int i = 0; i < engine->nsources; i++)
		if (batch->sources.sources[i].end != NULL)
			engine->next->offsets[i] = sx_batch_copy_offset(engine->sources[i],
												   batch->sources.sources[i].end);
	MemoryContextSwitchTo(oldcontext);
}

/* After the run: what the rows say about event time. */
static void
advance_watermark(SxEngine *engine, SxBatch *batch)
{
	SxPosition *next = engine->next;
	const SxPlan *plan = engine->plan;

	for (int i = 0; i < engine->nsources; i++)
	{
		SxBatchSource *range = &batch->sources.sources[i];
		int			input = plan->sources[i].watermark_input;

		if (!sx_batch_source_has_rows(range) || input < 0)
			continue;
		next->inputs[input].max = Max(next->inputs[input].max, range->seen.max);
		if (range->rows > 0)
			engine->last_moved[input] = batch->timestamp;
	}
	for (int i = plan->first_marker; i < plan->nwatermarks; i++)
		if (next->inputs[i].max > engine->at->inputs[i].max)
			engine->last_moved[i] = batch->timestamp;
	if (next->due.op < 0)
		next->next_watermark = sx_batch_watermark_next(engine, next, batch->timestamp);
}

/* ---- the steps of a batch ---- */

static SxBatch *
make_batch(SxEngine *engine)
{
	SxBatch    *batch = palloc0(sizeof(SxBatch));

	INSTR_TIME_SET_CURRENT(batch->started);
	batch->trigger_start = GetCurrentTimestamp();
	batch->timestamp = sx_engine_now(engine);
	batch->wal_before = pgWalUsage.wal_bytes;
	batch->operators = palloc0(sizeof(SxOperatorProgress) * Max(engine->noperators, 1));
	for (int i = 0; i < engine->plan->noperators; i++)
		batch->operators[i].name = engine->plan->operators[i]->spark_name;

	batch->sources.n = engine->nsources;
	batch->sources.sources = palloc0(sizeof(SxBatchSource) * Max(engine->nsources, 1));
	for (int i = 0; i < engine->nsources; i++)
	{
		SxBatchSource *range = &batch->sources.sources[i];

		range->source = engine->sources[i];
		range->event_attnum = engine->plan->sources[i].event_attnum;
		range->counted = true;	/* until it has a range */
		range->seen.max = SX_TIME_UNSET;
		range->event_min = SX_TIME_UNSET;
		range->event_max = SX_TIME_UNSET;
		range->latest_allowed = sx_batch_watermark_latest_allowed(engine, batch->timestamp);
	}
	return batch;
}

/* Runs the plan, and reads what it left unread: counts and maxima are of the range. */
static void
run_plan(SxEngine *engine, SxBatch *batch)
{
	SxPosition *next = engine->next;
	SxExecBatch run = {
		.batch_id = batch->id,
		.timestamp = batch->timestamp,
		.sources = &batch->sources,
		.late = next->watermark,
		.evict = next->next_watermark,
		.markers = next->inputs + engine->plan->first_marker,
		.latest_allowed = sx_batch_watermark_latest_allowed(engine, batch->timestamp),
		.due = next->due,
		.max_due = engine->in_session ? PG_INT64_MAX : engine->max_rows,
		.operators = batch->operators,
	};

	batch->result.batch_id = batch->id;
	batch->result.desc = engine->plan->result;
	batch->result.discard = engine->sink != NULL && engine->sink->discards;
	batch->result.split_fresh = engine->sink != NULL && engine->sink->takes_fresh;
	sx_exec_run(engine->exec, &run, &batch->result);
	batch->stages = run.stages;
	next->due = run.due;
	for (int i = 0; i < engine->nsources; i++)
	{
		SxBatchSource *range = &batch->sources.sources[i];

		if (!range->counted)
			sx_batch_source_drain(range);
		batch->input_rows += range->rows * engine->plan->sources[i].references;
	}
	SX_CRASH_POINT("after-read");
}

/* Rows in, or for a sink outside an intent in the outbox. */
static void
write_sink(SxEngine *engine, SxBatch *batch)
{
	SxSink	   *sink = engine->sink;
	StringInfoData intent;

	if (sink == NULL)
		return;					/* muted */
	sink->routine->write(sink, &batch->result);
	if (sink->routine->outside)
	{
		initStringInfo(&intent);
		sink->routine->stage(sink, &batch->result, &intent);
		if (intent.len > 0)
		{
			sx_outbox_append(engine->query->id, batch->id, intent.data, intent.len);
			engine->next->last_intent = batch->id;
			batch->has_intent = true;
			batch->intent = intent;
		}
		else
			pfree(intent.data);
	}
	SX_CRASH_POINT("after-sink-write");
}

static void
end_result(SxResult *result)
{
	if (result->rows != NULL)
		tuplestore_end(result->rows);
	if (result->fresh != NULL)
		tuplestore_end(result->fresh);
	if (result->gone != NULL)
		tuplestore_end(result->gone);
	result->rows = NULL;
	result->fresh = NULL;
	result->gone = NULL;
}

/* Offsets, watermark and per-input maxima, lineage, progress. */
static void
write_record(SxEngine *engine, SxBatch *batch)
{
	SxPosition *next = engine->next;
	SxBatchRecord record = {
		.query_id = engine->query->id,
		.batch_id = batch->id,
		.incarnation = engine->query->incarnation,
		.lineage = next->lineage,
		.batch_timestamp = batch->timestamp,
		.watermark = next->watermark,
		.next_watermark = next->next_watermark,
		.owes_no_data = next->owes_no_data,
		.due = next->due,
		.last_intent = next->last_intent,
		.nsources = engine->nsources,
		.policy = engine->policy,
		.ninputs = engine->plan->nwatermarks,
		.inputs = next->inputs,
		.input_relids = engine->input_relids,
		.progress = batch->progress,
	};

	record.sources = palloc(sizeof(SxSourceOffset) * Max(engine->nsources, 1));
	for (int i = 0; i < engine->nsources; i++)
	{
		record.sources[i].relid = engine->sources[i]->relid;
		record.sources[i].end =
			engine->sources[i]->routine->offset_print(next->offsets[i]);
	}
	sx_batch_record_append(&record);
	if (batch->id % TRIM_EVERY == TRIM_EVERY - 1)
		sx_batch_record_trim(engine->query->id, batch->id,
							 engine->query->options.batches_to_retain,
							 &engine->trimmed);
}

static int64
elapsed_us(instr_time since)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, since);
	return INSTR_TIME_GET_MICROSEC(now);
}

/*
 * Everything of a batch but its commit.  engine->next is where the batch before
 * ended, and where this one ends afterwards.
 */
static void
run_batch(SxEngine *engine, SxBatch *batch)
{
	SxPosition *next = engine->next;
	instr_time	since;

	batch->id = engine->skip_to > next->batch_id + 1 ? engine->skip_to : next->batch_id + 1;
	engine->running_batch = batch->id;
	engine->batch = batch;
	sx_batch_watermark_begin(engine, next, batch->timestamp);

	INSTR_TIME_SET_CURRENT(since);
	engine->writing_sink = false;
	run_plan(engine, batch);
	engine->writing_sink = true;
	write_sink(engine, batch);
	engine->writing_sink = false;
	forget_settings(engine);
	sx_search_after_run(engine, batch);
	sx_quarantine_after_run(engine, batch);
	batch->us_add_batch = elapsed_us(since);

	next->batch_id = batch->id;
	if (next->due.op < 0)
		next->watermark = next->next_watermark;
	advance_offsets(engine, batch);
	advance_watermark(engine, batch);
	next->owes_no_data = sx_batch_watermark_owes(engine, next, batch->timestamp);
	if (!pg_strong_random(next->lineage.data, UUID_LEN))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values")));

	INSTR_TIME_SET_CURRENT(since);
	if (engine->state != NULL)
		batch->state_bytes = sx_state_prepare(engine->state, batch->id, &next->lineage);
	batch->us_state = elapsed_us(since);
	batch->progress = sx_metrics_progress(engine, batch);
	write_record(engine, batch);
	batch->wal_bytes = pgWalUsage.wal_bytes - batch->wal_before;
	end_result(&batch->result);
}

/* In the transaction of a data batch, if nothing else is there to be read. */
static SxBatch *
run_no_data_batch(SxEngine *engine, const SxBatch *data_batch)
{
	SxBatch    *batch;

	if (!engine->next->owes_no_data || engine->query->trigger == SX_TRIGGER_ONCE)
		return NULL;
	if (engine->next->due.op >= 0)
		return NULL;			/* one of several, in a transaction each */

	/* What the sink's triggers or foreach_batch wrote is to be seen. */
	PopActiveSnapshot();
	CommandCounterIncrement();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (sx_choose_data_waits(engine, data_batch->timestamp))
		return NULL;			/* the next data batch applies the watermark */
	batch = make_batch(engine);
	run_batch(engine, batch);
	return batch;
}

/* Has the batch rows? */
static bool
choose(SxEngine *engine, SxBatch *batch)
{
	bool		has_data;

	batch->fresh = pg_atomic_read_u64(&engine->slot->asked) !=
		pg_atomic_read_u64(&engine->slot->drained);
	engine->loading = false;
	if (engine->at->due.op >= 0)
		has_data = false;
	else if (sx_search_active(engine))
	{
		sx_search_ranges(engine, batch);
		has_data = true;
	}
	else
	{
		has_data = sx_choose_ranges(engine, batch);
		if (!engine->loading)
			has_data |= sx_quarantine_join(engine, batch);
		if (has_data)
			sx_search_remember(engine, batch);
	}
	batch->us_latest_offset = elapsed_us(batch->started);
	engine->found_rows = has_data || engine->at->due.op >= 0;
	return has_data;
}

/*
 * A timer whose handler sets one that is due again asks for batch after batch: what
 * was available is processed after the first (D8).
 */
static bool
wants_empty_batch(SxEngine *engine, const SxBatch *batch)
{
	return !(engine->query->trigger == SX_TRIGGER_AVAILABLE_NOW && engine->ended_empty) &&
		sx_batch_watermark_owes(engine, engine->at, batch->timestamp);
}

/*
 * Runs what is there to run; false if nothing is.  One transaction, for a data
 * batch, a no-data batch, or both.
 */
bool
sx_batch_run(SxEngine *engine)
{
	SxBatch    *batch;
	SxBatch    *no_data = NULL;
	bool		has_data;

	begin_transaction(engine);
	batch = make_batch(engine);
	has_data = choose(engine, batch);
	if (!has_data && (engine->loading || !wants_empty_batch(engine, batch)))
	{
		end_idle_transaction(engine);
		return false;
	}

	begin_position(engine);
	run_batch(engine, batch);
	if (has_data)
		no_data = run_no_data_batch(engine, batch);
	if (engine->skip_to > 0)
		sx_sink_recovered(engine);
	sx_engine_record_layout(engine);
	sx_publish_note(engine);
	commit_batch(engine);
	sx_engine_layout_committed(engine);
	sx_publish_note_committed(engine);
	engine->ended_empty = (!has_data || no_data != NULL) && engine->at->due.op < 0;
	engine->skip_to = 0;
	sx_publish_committed(engine, batch);
	if (no_data != NULL)
		sx_publish_committed(engine, no_data);

	sx_metrics_publish(engine, batch);
	sx_latency_note(engine, batch);
	if (no_data != NULL)
		sx_metrics_publish(engine, no_data);
	engine->running_batch = -1;
	engine->batch = NULL;
	sx_choose_more(engine);
	return true;
}

/*
 * One batch, a data batch or one without data that is due, within a transaction
 * that is not ours: nothing of it is given to anybody, and deferred constraints
 * wait for its end as others do.  False: there is nothing to run.  True: engine->batch
 * has run, and is a fact once sx_batch_accept was called.
 */
bool
sx_batch_run_in_session(SxEngine *engine)
{
	SxBatch    *batch;
	bool		any;

	CommandCounterIncrement();	/* rows of this transaction are to be seen */
	for (int i = 0; i < engine->nsources; i++)
		sx_stream_check_not_written(engine->sources[i]->relid);
	engine->settings_level = NewGUCNestLevel();
	PushActiveSnapshot(GetTransactionSnapshot());
	MemoryContextSwitchTo(engine->batch_context);
	engine->returns_more = true;	/* nobody tells of rows that this transaction gave back */
	batch = make_batch(engine);
	any = choose(engine, batch) ||
		sx_batch_watermark_owes(engine, engine->at, batch->timestamp);
	if (any)
	{
		begin_position(engine);
		run_batch(engine, batch);
		sx_engine_record_layout(engine);
	}
	AtEOXact_GUC(false, engine->settings_level);
	PopActiveSnapshot();
	CommandCounterIncrement();
	return any;
}
