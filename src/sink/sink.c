/*
 * sink.c
 *		The kinds of sinks.
 */
#include "postgres.h"

#include "base/errors.h"
#include "sink/sinks.h"

void
sx_sink_check_retracts(const SxSinkConfig *config, bool takes_deletes)
{
	if (!config->retracts)
		return;
	if (!takes_deletes)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("session windows in output mode \"update\" need a sink that can delete rows"),
				 errdetail("A session that grows takes the place of the row of its old window."),
				 errhint("Write into a table, a foreach_batch function or a Kafka stream whose key columns are those of GROUP BY, or use output mode \"append\".")));
	(void) sx_table_strategy(config);	/* says which key is missing */
}

const SxSinkRoutine *
sx_sink_routine(SxSinkKind kind)
{
	const SxSinkRoutine *routine = NULL;

	switch (kind)
	{
		case SX_SINK_TABLE:
			routine = &sx_table_sink;
			break;
		case SX_SINK_STREAM:
			routine = &sx_stream_sink;
			break;
		case SX_SINK_FOREACH_BATCH:
			routine = &sx_foreach_batch_sink;
			break;
		case SX_SINK_NOOP:
			routine = &sx_noop_sink;
			break;
		case SX_SINK_DIRECTORY:
			routine = &sx_directory_sink;
			break;
		case SX_SINK_KAFKA:
			routine = &sx_kafka_sink;
			break;
	}
	Assert(routine != NULL && routine->prepare != NULL && routine->open != NULL &&
		   routine->write != NULL && routine->close != NULL);
	Assert(!routine->outside ||
		   (routine->stage != NULL && routine->mark != NULL &&
			(routine->publish != NULL) != (routine->hand_over != NULL) &&
			(routine->hand_over != NULL) == (routine->published != NULL) &&
			(routine->hand_over != NULL) == (routine->resume != NULL)));
	return routine;
}
