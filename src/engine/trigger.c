/*
 * trigger.c
 *		When a query may look for rows.
 *
 * default, available_now, once, realtime: always.  (realtime differs in what it
 * refuses, in how little it does between two batches, and in showing latencies.)
 * An interval has ticks at its multiples
 * since the epoch; the first batch runs at once, later ones at the first tick
 * after the start of the one before.  A batch that takes longer than the interval
 * is followed by the next at once; missed ticks are not made up.
 *
 *	 ticks      |         |         |         |         |
 *	 batches      B0      B1-----------B2       B3
 *
 * Rows that a bound cut off are no news to wait a tick for: they follow at once.
 */
#include "postgres.h"

#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "engine/query_engine.h"

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

bool
sx_trigger_due(SxEngine *engine, TimestampTz now)
{
	int64		interval = engine->query->trigger_interval;

	if (engine->query->trigger != SX_TRIGGER_INTERVAL || interval <= 0)
		return true;
	/* Farther away than a tick can be: the clock went back. */
	return engine->more_waits || now >= engine->next_tick ||
		engine->next_tick > now + interval;
}

/* A look begins now. */
void
sx_trigger_fired(SxEngine *engine, TimestampTz now)
{
	int64		interval = engine->query->trigger_interval;

	if (engine->query->trigger != SX_TRIGGER_INTERVAL || interval <= 0)
		return;
	if (engine->next_tick != DT_NOBEGIN && !engine->more_waits &&
		now >= engine->next_tick + interval && !engine->looked)
		ereport(LOG,
				(errmsg("query \"%s\" falls behind its trigger", engine->query->name),
				 errdetail("The last batch took longer than the interval; the next one starts at once.")));
	engine->next_tick = tick_after(now, interval);
}

/* DT_NOBEGIN: no tick to wait for. */
TimestampTz
sx_trigger_next_time(SxEngine *engine)
{
	if (engine->query->trigger != SX_TRIGGER_INTERVAL || engine->query->trigger_interval <= 0)
		return DT_NOBEGIN;
	return engine->next_tick;
}
