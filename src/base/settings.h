/*
 * settings.h
 *		The settings of streamx: one table, in settings.c.
 */
#ifndef SX_BASE_SETTINGS_H
#define SX_BASE_SETTINGS_H

extern bool sx_enabled;				/* streamx.enabled: start queries at all */
extern int	sx_max_queries;			/* slots for running queries in shared memory */
extern int	sx_batch_rows;			/* a batch is cut after about so many rows */
extern int	sx_state_memory;		/* kB per query, block cache and memtables counted in */
extern int	sx_batches_to_retain;	/* batch records (and their state) kept */
extern int	sx_stream_segment_size;	/* kB; a stream's storage rotates past this */
extern char *sx_state_directory;	/* "" = $PGDATA/streamx */
extern char *sx_state_store;		/* rocksdb or table: default of option state_store */
extern int	sx_external_sinks;		/* SxExternalSinks */
extern int	sx_max_failures_in_a_row;	/* deterministic failures before FAILED */
extern int	sx_stop_timeout;		/* ms */
extern char *sx_crash_point_setting;	/* streamx.crash_point, test builds only */
extern int	sx_chunk_rows;			/* streamx.chunk_rows, test builds only */

typedef enum SxExternalSinks
{
	SX_EXTERNAL_ON,
	SX_EXTERNAL_OFF,			/* queries with such a sink don't start */
	SX_EXTERNAL_MUTED			/* they run, intents are dropped unpublished */
} SxExternalSinks;

extern void sx_settings_define(void);

#endif
