/*
 * kafka.h
 *		Streams of wrapper streamx_kafka, and who does what for them.
 *
 * The wrapper (kafka_fdw.c) and the check of its options (kafka_options.c) know
 * neither how records are read nor how they are written: reading is the routine
 * below, writing is filled in by room sink, which lies beside this one.
 */
#ifndef SX_SOURCE_KAFKA_H
#define SX_SOURCE_KAFKA_H

#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

#include "source/source.h"

/* kafka_source.c */
extern const SxSourceRoutine sx_kafka_source_routine;

/* At CREATE and ALTER: options and columns, as far as one can tell without a broker. */
extern void sx_kafka_source_check(Relation rel);

/* INSERT and COPY into a stream, as the callbacks of a wrapper have it. */
typedef struct SxKafkaWriter
{
	/* Refuses at CREATE and ALTER what could not be written; a stream may be for reading only. Optional. */
	void		(*check) (Relation rel);

	/* Not for EXPLAIN. May keep something in rel->ri_FdwState. */
	void		(*begin) (ResultRelInfo *rel);
	TupleTableSlot *(*insert) (EState *estate, ResultRelInfo *rel, TupleTableSlot *slot);
	void		(*end) (EState *estate, ResultRelInfo *rel);
} SxKafkaWriter;

/* Set when the library is loaded; NULL: streams can be read only. */
extern const SxKafkaWriter *sx_kafka_writer;

/*
 * The options of a stream for sx_format_options_parse: its own, the schema registry
 * of its server, and who asks it, by the user mapping of userid.
 */
extern List *sx_kafka_format_options(Oid relid, Oid userid);

#endif
