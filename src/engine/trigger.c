/*
 * trigger.c
 *		When a query may look for rows.
 *
 * default, available_now, once: always.  So does realtime, but for a rest after
 * each batch.  (It also differs in what it refuses, in how little it does between
 * two batches, and in showing latencies.)  An interval has ticks at its multiples
 * since the epoch; the first batch runs at once, later ones at the first tick
 * after the start of the one before.  A batch that takes longer than the interval
 * is followed by the next at once; missed ticks are not made up.
 *
 *	 ticks      |         |         |         |         |
 *	 batches      B0      B1-----------B2       B3
 *
 * Rows that a bound cut off are no news to wait a tick for: they follow at once, and
 * so does what is due and waits.
 */
#include "postgres.h"

#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "engine/query_engine.h"

/*
 * From the start of one batch to the next.  Without it a busy stream has a batch for
 * every few rows, and what they cost is missed by whoever writes the rows and reads
 * the result: at 20,000 rows/s over Kafka 1,100 batches a second took three quarters
 * of a core, and the slowest percent of rows twice as long as with 400.
 */
#define REALTIME_REST_US	2000

#define UNIX_EPOCH	((int64) (UNIX_EPOCH_JDATE - POSTGRES_EPOCH_JDATE) * USECS_PER_DAY)

/* As in Spark: rows that are processed as they come cannot be rationed, too. */
void
sx_trigger_check(const SxQuery *query, const SxPlan *plan)
{
	if (query->trigger != SX_TRIGGER_REALTIME)
		return;
	for (int i = 0; i < plan->nsources; i++)
	{
		const char *option = sx_stream_bound_option(plan->sources[i].relid);

		if (option == NULL)
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("option \"%s\" of stream \"%s\" cannot be used with trigger \"realtime\"",
						option, get_rel_name(plan->sources[i].relid)),
				 errdetail("In query \"%s\" rows are processed as they come, and the option would hold them back.",
						   query->name),
				 errhint("Drop the option with ALTER FOREIGN TABLE, or use trigger \"default\".")));
	}
}

static TimestampTz
tick_after(TimestampTz now, int64 interval)
{
	int64		since = now - UNIX_EPOCH;
	int64		phase = since % interval;

	if (phase < 0)
		phase += interval;
	return now - phase + interval;
}

static bool
has_interval(const SxEngine *engine)
{
	return engine->query->trigger == SX_TRIGGER_INTERVAL && engine->query->trigger_interval > 0;
}

bool
sx_trigger_due(SxEngine *engine, TimestampTz now)
{
	int64		most = has_interval(engine) ? engine->query->trigger_interval : REALTIME_REST_US;

	/* Farther away than a tick can be: the clock went back. */
	return engine->next_tick == DT_NOBEGIN || engine->more_waits || engine->at->due.op >= 0 || now >= engine->next_tick ||
		engine->next_tick > now + most;
}

/* A look begins now. */
void
sx_trigger_fired(SxEngine *engine, TimestampTz now)
{
	int64		interval = engine->query->trigger_interval;

	if (!has_interval(engine))
		return;
	if (engine->next_tick != DT_NOBEGIN && !engine->more_waits && engine->at->due.op < 0 &&
		now >= engine->next_tick + interval && !engine->looked)
		ereport(LOG,
				(errmsg("query \"%s\" falls behind its trigger", engine->query->name),
				 errdetail("The last batch took longer than the interval; the next one starts at once.")));
	engine->next_tick = tick_after(now, interval);
}

/* It made a batch; or it did not, or there was no reason for it. */
void
sx_trigger_looked(SxEngine *engine, TimestampTz began, bool ran)
{
	if (engine->query->trigger == SX_TRIGGER_REALTIME)
		engine->next_tick = ran ? began + REALTIME_REST_US : DT_NOBEGIN;
}

/* DT_NOBEGIN: no tick to wait for. */
TimestampTz
sx_trigger_next_time(SxEngine *engine)
{
	return engine->next_tick;
}
