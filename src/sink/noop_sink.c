/*
 * noop_sink.c
 *		A sink that forgets everything: to measure a query, or to run one for
 *		its progress only.
 */
#include "postgres.h"

#include "sink/sinks.h"

static void
noop_prepare(SxQuery *query, const SxSinkConfig *config)
{
	query->sink_relation = InvalidOid;
}

static SxSink *
noop_open(const SxSinkConfig *config)
{
	SxSink	   *sink = palloc0(sizeof(SxSink));

	sink->routine = &sx_noop_sink;
	sink->description = "noop";
	sink->discards = true;
	return sink;
}

static void
noop_write(SxSink *sink, const SxResult *result)
{
}

static void
noop_close(SxSink *sink)
{
	pfree(sink);
}

const SxSinkRoutine sx_noop_sink = {
	.name = "noop",
	.prepare = noop_prepare,
	.open = noop_open,
	.write = noop_write,
	.close = noop_close,
};
