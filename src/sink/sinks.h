/*
 * sinks.h
 *		One routine per kind of sink, and what the kinds share.
 */
#ifndef SX_SINK_SINKS_H
#define SX_SINK_SINKS_H

#include "sink/sink.h"
#include "utils/relcache.h"

extern const SxSinkRoutine sx_table_sink;
extern const SxSinkRoutine sx_stream_sink;
extern const SxSinkRoutine sx_foreach_batch_sink;
extern const SxSinkRoutine sx_noop_sink;
extern const SxSinkRoutine sx_directory_sink;
extern const SxSinkRoutine sx_kafka_sink;

/* How rows get into a table (table_sink.c). */
typedef enum SxTableStrategy
{
	SX_TABLE_ADD,				/* every row is new */
	SX_TABLE_UPSERT,			/* update mode: by the result's key; gone keys are deleted */
	SX_TABLE_KEEP,				/* update mode without groups: the newest row of each named key */
	SX_TABLE_REPLACE_BY_KEY,	/* the result is complete: only what differs changes */
	SX_TABLE_REPLACE_ROWS		/* complete too, but without keys: compared row by row */
} SxTableStrategy;

/* Raises an error in update mode when the keys are not in the result, or it needs some and has none. */
extern SxTableStrategy sx_table_strategy(const SxSinkConfig *config);

/* table_prepare.c: checks an existing table, or makes a missing one. */
extern void sx_table_sink_prepare(SxQuery *query, const SxSinkConfig *config);

/* Kind, rights, columns and key of an existing table; at create_query and at every start. */
extern void sx_table_sink_check(Relation rel, const SxSinkConfig *config);

/* Result columns must be there by name and be assignable; others must be able to stay away. */
extern void sx_sink_check_columns(Relation rel, const SxSinkConfig *config);

/*
 * Update mode over sessions: the result must have a key, by which the row of a
 * window that has grown is taken away again. Raises an error otherwise, or if the
 * sink can only add.
 */
extern void sx_sink_check_retracts(const SxSinkConfig *config, bool takes_deletes);

/* Deep copy into CurrentMemoryContext, but for query, which outlives the sink. */
extern SxSinkConfig *sx_sink_config_copy(const SxSinkConfig *config);

#endif
