/*
 * sink_recovery.c
 *		Before the first batch of a run: what has the outside sink, and what does
 *		the checkpoint think it has?
 *
 *	 intents	p1 < p2 < ... < pn	wait in the outbox (n may be 0)
 *	 last		newest batch that had an intent, by the last batch record
 *	 mark		newest batch that the sink has, by the sink itself
 *
 *	 mark > last				PostgreSQL went back in time: sink_ahead
 *	 mark of another history	another server took over: sink_ahead
 *	 mark in p1..pn				published but not noted: note it now
 *	 mark < what came before p1	the sink lost something: sink_unknown
 *	 else						publish the rest
 *
 * A mark ahead never means "skip until the ids meet": the batches of those ids
 * would be other ones.
 */
#include "postgres.h"

#include "utils/uuid.h"

#include "checkpoint/outbox.h"
#include "engine/query_engine.h"

/* The newest batch that the sink must have: the last intent before those that wait. */
static int64
must_have(SxEngine *engine, int npending, const int64 *pending)
{
	SxBatchRecord *before;

	if (npending == 0)
		return engine->at->last_intent;
	before = sx_batch_record_read(engine->query->id, pending[0] - 1);
	if (before == NULL ||
		memcmp(before->incarnation.data, engine->query->incarnation.data, UUID_LEN) != 0)
		return SX_MARK_NONE;
	return before->last_intent;
}

/*
 * The sink keeps what it has, batch ids go on behind it; intents of ids that it
 * has count as published.  The decision stands in the catalog until a batch with
 * such an id is committed (sx_sink_recovered).
 */
static void
continue_after_sink(SxEngine *engine, int64 mark)
{
	engine->at->last_intent = Max(engine->at->last_intent, mark);
	engine->skip_to = mark + 1;
}

/*
 * The sink stays without what it lost.  The next batch, whatever its output,
 * carries out the decision: with its record nothing is expected of the sink but
 * what comes from now on.
 */
static void
forget_lost_output(SxEngine *engine, int64 mark)
{
	if (engine->npending == 0)
		engine->at->last_intent = mark;
	engine->skip_to = engine->at->batch_id + 1;
}

/* Fresh, and ours to change until the transaction ends; retried when it is not to be had. */
static SxQuery *
lock_query_row(SxEngine *engine)
{
	if (!sx_query_lock_row(engine->query->id, true))
		ereport(ERROR,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("query \"%s\" is being changed by another session",
						engine->query->name)));
	return sx_query_by_id(engine->query->id, false);
}

/*
 * Under a new identity nothing that the sink has is ours, so everything from the
 * checkpoint on is published.
 */
static void
new_incarnation(SxEngine *engine)
{
	const SxSinkRoutine *routine = sx_sink_routine(engine->query->sink_kind);
	SxQuery    *query = engine->query;
	SxQuery    *row;

	sx_uuid_random(&query->incarnation);
	row = lock_query_row(engine);
	row->incarnation = query->incarnation;
	row->on_rewind = NULL;
	sx_query_update(row);
	engine->at->last_intent = -1;
	if (engine->sink != NULL)
	{
		SxSinkConfig config = {
			.query = query,
			.desc = engine->plan->result,
			.nkeys = engine->plan->nkeys,
			.keys = engine->plan->keys,
			.keys_missing = engine->plan->keys_missing,
			.keys_multiplied = engine->plan->keys_multiplied,
			.retracts = engine->plan->retracts,
		};

		engine->sink->routine->close(engine->sink);
		engine->sink = NULL;
		engine->sink = routine->open(&config);
	}
}

/* *foreign: why what the sink has by that name is not ours; NULL: it may be. */
static int64
read_mark(SxEngine *engine, int npending, const int64 *pending, const char **foreign)
{
	const SxSinkRoutine *routine = engine->sink->routine;
	int64		mark;
	char	   *intent;
	int			len;

	*foreign = NULL;
	mark = routine->mark(engine->sink, foreign);
	for (int i = 0; i < npending && *foreign == NULL && routine->holds != NULL; i++)
	{
		if (pending[i] != mark)
			continue;
		intent = sx_outbox_read(engine->query->id, mark, &len);
		if (!routine->holds(engine->sink, intent, len))
			*foreign = "That batch holds other rows than this server's batch of the same id: another server took over.";
		pfree(intent);
	}
	return mark;
}

/* Then only a person can decide. */
static bool
is_ahead(const SxPosition *at, int64 mark, const char *foreign, const char *on_rewind,
		 char **detail)
{
	if (on_rewind != NULL || (mark <= at->last_intent && foreign == NULL))
		return false;
	*detail = psprintf("The sink has batch %lld, but the checkpoint's last output is batch %lld: PostgreSQL was restored to an earlier time.",
					   (long long) mark, (long long) at->last_intent);
	if (foreign != NULL)
		*detail = psprintf("The sink's last batch is %lld, the checkpoint's last output is batch %lld. %s",
						   (long long) mark, (long long) at->last_intent, foreign);
	return true;
}

/*
 * SX_WANTED_RUNNING if the query may run, else the state it stops in, with the
 * reason in *detail.
 */
SxWanted
sx_sink_recover(SxEngine *engine, char **detail)
{
	const char *on_rewind = engine->query->on_rewind;
	SxPosition *at = engine->at;
	int64	   *pending;
	const char *foreign = NULL;
	int64		mark;
	int64		expected;

	if (engine->sink == NULL || !engine->sink->routine->outside)
	{
		/* Muted: what waits is dropped, or it would be published when no longer muted. */
		if (engine->sink == NULL)
			sx_outbox_delete_all(engine->query->id);
		return SX_WANTED_RUNNING;
	}
	if (on_rewind != NULL && strcmp(on_rewind, "new_incarnation") == 0)
	{
		new_incarnation(engine);
		on_rewind = NULL;
	}
	engine->npending = sx_outbox_pending(engine->query->id, &pending);
	expected = must_have(engine, engine->npending, pending);
	if (engine->npending > 0)
		at->last_intent = Max(at->last_intent, pending[engine->npending - 1]);

	/* One that is ahead belongs to somebody else: he must not be fenced. */
	mark = read_mark(engine, engine->npending, pending, &foreign);
	if (engine->sink->routine->take != NULL && !is_ahead(at, mark, foreign, on_rewind, detail))
	{
		engine->sink->routine->take(engine->sink);
		mark = read_mark(engine, engine->npending, pending, &foreign);
	}
	if (is_ahead(at, mark, foreign, on_rewind, detail))
		return SX_WANTED_SINK_AHEAD;
	if (mark > at->last_intent)
		continue_after_sink(engine, mark);
	else if (foreign != NULL)
		engine->skip_to = at->batch_id + 1; /* the next batch carries out the decision */
	else if (mark < expected && on_rewind == NULL)
	{
		*detail = psprintf("By the checkpoint the sink has batch %lld, by its own mark it has %s.",
						   (long long) expected,
						   mark == SX_MARK_NONE ? "nothing" : psprintf("batch %lld", (long long) mark));
		return SX_WANTED_SINK_UNKNOWN;
	}
	else if (mark < expected)
		forget_lost_output(engine, mark);

	if (engine->sink->routine->recover != NULL)
		engine->sink->routine->recover(engine->sink, at->batch_id);
	if (engine->npending > 0 && mark >= pending[0])
		sx_outbox_delete(engine->query->id, mark);
	while (engine->npending > 0 && pending[0] <= mark)
	{
		pending++;				/* it is there already */
		engine->npending--;
	}
	sx_publish_adopt(engine, engine->npending, pending, mark);
	if (engine->sink->routine->begin != NULL)
		engine->sink->routine->begin(engine->sink, mark);
	return SX_WANTED_RUNNING;
}

/* In the transaction of the first batch behind the sink's mark. */
void
sx_sink_recovered(SxEngine *engine)
{
	SxQuery    *row = lock_query_row(engine);

	row->on_rewind = NULL;
	sx_query_update(row);
}
