/*
 * stream_options.h
 *		Options of a foreign table of wrapper streamx, and of its columns.
 */
#ifndef SX_SOURCE_STREAM_OPTIONS_H
#define SX_SOURCE_STREAM_OPTIONS_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

typedef struct SxStreamOptions
{
	bool		rate;			/* connector 'rate' instead of 'table' */
	int64		retention;		/* microseconds */
	int64		rows_per_second;
	int64		ramp_up_time;	/* whole seconds */
	int64		num_partitions;
} SxStreamOptions;

/* From the DefElems of the foreign table; raises errors that name the legal words. */
extern void sx_stream_options_parse(List *options, SxStreamOptions *result);

/* The rules for WATERMARK columns of any stream: a timestamptz, and only one. */
extern void sx_watermark_check(Relation rel);

/* rows_per_second and rowsPerSecond alike. */
extern bool sx_option_is(const char *given, const char *name);

#endif
