/*
 * settings.c
 *		The settings of streamx, sorted by name.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "base/settings.h"

bool		sx_enabled = true;
int			sx_max_queries = 64;
int			sx_batch_rows = 200000;
int			sx_state_memory = 256 * 1024;
int			sx_batches_to_retain = 100;
int			sx_stream_segment_size = 64 * 1024;
char	   *sx_state_directory = NULL;
char	   *sx_state_store = NULL;
int			sx_external_sinks = SX_EXTERNAL_ON;
int			sx_max_failures_in_a_row = 3;
int			sx_stop_timeout = 30000;
char	   *sx_crash_point_setting = NULL;
int			sx_chunk_rows = 1024;

static const struct config_enum_entry external_sinks_options[] = {
	{"on", SX_EXTERNAL_ON, false},
	{"off", SX_EXTERNAL_OFF, false},
	{"muted", SX_EXTERNAL_MUTED, false},
	{NULL, 0, false}
};

static bool
check_state_store(char **newval, void **extra, GucSource source)
{
	if (strcmp(*newval, "rocksdb") == 0 || strcmp(*newval, "table") == 0)
		return true;
	GUC_check_errdetail("Available values: rocksdb, table.");
	return false;
}

static bool
check_state_directory(char **newval, void **extra, GucSource source)
{
	if (**newval == '\0' || is_absolute_path(*newval))
		return true;
	GUC_check_errdetail("It must be an absolute path, or empty for the folder streamx in the data directory.");
	return false;
}

void
sx_settings_define(void)
{
	DefineCustomIntVariable("streamx.batch_rows",
							"Rows after which a micro-batch is cut.",
							"Bounds the memory of one batch; what is left is read by the next one. So do keys that are due, where they are many more.",
							&sx_batch_rows, 200000, 1, INT_MAX,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("streamx.batches_to_retain",
							"Batch records kept for each query.",
							NULL,
							&sx_batches_to_retain, 100, 2, 1000000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
#ifdef SX_CRASH_POINTS
	DefineCustomIntVariable("streamx.chunk_rows",
							"Rows that operators look at together (test builds only).",
							NULL,
							&sx_chunk_rows, 1024, 1, 1024,
							PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("streamx.crash_point",
							   "Lets a worker die at a named place (test builds only).",
							   NULL,
							   &sx_crash_point_setting, "",
							   PGC_SUSET, 0, NULL, NULL, NULL);
#endif
	DefineCustomBoolVariable("streamx.enabled",
							 "Starts continuous queries.",
							 "Off for clones and restored backups that must not process anything.",
							 &sx_enabled, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("streamx.external_sinks",
							 "Whether sinks outside PostgreSQL are written.",
							 "off: such queries do not start; muted: they run, but publish nothing.",
							 &sx_external_sinks, SX_EXTERNAL_ON, external_sinks_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("streamx.max_failures_in_a_row",
							"Failures in a row after which a query is failed.",
							"Counts errors that repeating cannot cure, such as a division by zero.",
							&sx_max_failures_in_a_row, 3, 1, 1000,
							PGC_SIGHUP, 0, NULL, NULL, NULL);

	/* The server ends a session that defines such a setting after its start. */
	if (process_shared_preload_libraries_in_progress)
		DefineCustomIntVariable("streamx.max_queries",
								"Continuous queries that can run at the same time in the server.",
								NULL,
								&sx_max_queries, 64, 1, 1024,
								PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("streamx.state_directory",
							   "Folder of the state stores; empty means streamx in the data directory.",
							   NULL,
							   &sx_state_directory, "",
							   PGC_SUSET, GUC_SUPERUSER_ONLY, check_state_directory, NULL, NULL);
	DefineCustomIntVariable("streamx.state_memory",
							"Memory for the state of one query.",
							"The default of the query option state_memory.",
							&sx_state_memory, 256 * 1024, 1024, INT_MAX,
							PGC_USERSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomStringVariable("streamx.state_store",
							   "State store of new queries: rocksdb or table.",
							   NULL,
							   &sx_state_store, "rocksdb",
							   PGC_USERSET, 0, check_state_store, NULL, NULL);
	DefineCustomIntVariable("streamx.stop_timeout",
							"How long stop_query waits for the running batch by default.",
							NULL,
							&sx_stop_timeout, 30000, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomIntVariable("streamx.stream_segment_size",
							"Size past which a stream's storage is rotated.",
							"A segment is freed when every query has read it and retention is over.",
							&sx_stream_segment_size, 64 * 1024, 1024, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	MarkGUCPrefixReserved("streamx");
}
