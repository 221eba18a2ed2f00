/*
 * query.h
 *		The rows of streamx.query as C structs.
 *
 * Reads and writes go through the heap, not through SQL: owners of queries
 * have no rights on the catalog, and no search_path or user code is involved.
 * All functions need an open transaction; results are in CurrentMemoryContext.
 *
 * The owner is the view's, so REASSIGN OWNED is followed. The function is kept
 * as an OID beside its signature in text: pg_upgrade keeps no function OIDs (and
 * refuses columns of type regprocedure), so on another cluster the text counts.
 */
#ifndef SX_REGISTRY_QUERY_H
#define SX_REGISTRY_QUERY_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "storage/lockdefs.h"
#include "utils/jsonb.h"
#include "utils/relcache.h"
#include "utils/uuid.h"

#include "time/watermark.h"

typedef enum SxOutputMode
{
	SX_OUTPUT_APPEND,
	SX_OUTPUT_UPDATE,
	SX_OUTPUT_COMPLETE
} SxOutputMode;

typedef enum SxTriggerKind
{
	SX_TRIGGER_DEFAULT,			/* next batch as soon as there is data */
	SX_TRIGGER_INTERVAL,		/* ticks at multiples of the interval since the epoch */
	SX_TRIGGER_AVAILABLE_NOW,	/* what is there at the start, then finished */
	SX_TRIGGER_ONCE,			/* one batch with all data, then finished */
	SX_TRIGGER_REALTIME			/* as default, but nothing may hold rows back; shows latencies */
} SxTriggerKind;

typedef enum SxWanted
{
	SX_WANTED_CREATED,			/* never started, or restored from a dump */
	SX_WANTED_RUNNING,
	SX_WANTED_STOPPED,			/* by stop_query */
	SX_WANTED_FAILED,			/* the supervisor gave up; last_error says why */
	SX_WANTED_FINISHED,			/* available_now, once */
	SX_WANTED_SINK_AHEAD,		/* a sink's mark is ahead of the checkpoint */
	SX_WANTED_SINK_UNKNOWN
} SxWanted;

typedef enum SxSinkKind
{
	SX_SINK_TABLE,				/* ordinary or partitioned table, foreign tables too if not a stream */
	SX_SINK_STREAM,				/* an INSERT-able stream */
	SX_SINK_FOREACH_BATCH,
	SX_SINK_NOOP,
	SX_SINK_DIRECTORY,			/* files in a server directory; outside, goes through the outbox */
	SX_SINK_KAFKA				/* a stream of a Kafka topic; outside, too */
} SxSinkKind;

/* Options of a query, parsed and checked (registry/query_options.c). */
typedef struct SxQueryOptions
{
	const char *state_store;	/* "rocksdb" or "table" */
	int			state_memory;	/* kB */
	SxWatermarkPolicy watermark_policy;
	int64		max_future_skew;	/* microseconds past the wall clock; -1: no guard */
	int64		idle_timeout;	/* microseconds; 0: off */
	int			max_retries;	/* of transient failures; -1: for ever */
	int			batches_to_retain;
	int			batch_rows;		/* cut a batch after about so many rows */
	int			max_pending;	/* intents that may wait for an outside sink */
	bool		no_data_batches;	/* default true */
	bool		quarantine;		/* on_error: rows that make a batch fail are put aside */
	int			quarantine_limit;	/* so many at most; one more fails the query */
	bool		starting_latest;	/* starting_offsets: earliest (false) or latest */
	bool		changelog;		/* false: snapshot of touched key groups per batch */
	const char *directory;		/* of the directory sink */
	const char *key_columns;	/* of a Kafka sink (NULL: as the stream says), or of a table that keeps the newest row of each key */
	const char *delete_when;	/* of such a table: result column that says that the key is to go; NULL: none */
} SxQueryOptions;

typedef struct SxQuery
{
	int64		id;
	char	   *name;
	pg_uuid_t	incarnation;	/* outside marks use it, never the name */
	Oid			database;		/* where it was created; another database means: a copy */
	Oid			owner;			/* of the view */
	Oid			view;			/* streamx_query.<name> */
	SxSinkKind	sink_kind;
	char	   *sink_name;		/* as given, for people */
	Oid			sink_relation;	/* or InvalidOid */
	Oid			sink_function;	/* foreach_batch, or InvalidOid */
	SxOutputMode output_mode;
	SxTriggerKind trigger;
	int64		trigger_interval;	/* microseconds */
	Jsonb	   *options_json;	/* as stored */
	SxQueryOptions options;
	List	   *settings;		/* "name=value" strings to set in the worker */
	SxWanted	wanted;
	char	   *layout;			/* recorded state layout, NULL before the first start */
	TimestampTz created_at;
	char	   *on_rewind;		/* set by start_query: new_incarnation, continue_after_sink or NULL */
	TimestampTz ended_at;		/* last time it stopped, failed or finished; 0: never */

	/* not stored */
	bool		changed_here;	/* this version of the row is of the current transaction */
} SxQuery;

/* NULL (or an error unless missing_ok) when there is none of that name. */
extern SxQuery *sx_query_by_name(const char *name, bool missing_ok);
extern SxQuery *sx_query_by_id(int64 id, bool missing_ok);
extern List *sx_query_list(void);	/* of SxQuery *, by id */
extern List *sx_query_list_without_view(void);	/* those whose view was dropped */
extern int64 sx_query_insert(SxQuery *query);	/* assigns id and incarnation */
extern void sx_query_update(const SxQuery *query);	/* all columns, by id */
extern void sx_query_delete(int64 id);
extern void sx_query_set_wanted(int64 id, SxWanted wanted);
extern void sx_query_set_layout(int64 id, const char *layout);

/* Raised by each of these writes in this process. */
extern uint64 sx_query_changes(void);

extern void sx_uuid_random(pg_uuid_t *uuid);

/* Parses and checks; raises an error that names the option and lists the legal values. */
extern void sx_query_options_parse(Jsonb *json, SxQueryOptions *options);

/*
 * The options as they are stored: names in snake_case, checked; those of "more"
 * replace those of "json", a null removes one. Either may be NULL.
 */
extern Jsonb *sx_query_options_merge(Jsonb *json, Jsonb *more);

extern const char *sx_output_mode_name(SxOutputMode mode);
extern SxOutputMode sx_output_mode_parse(const char *name);	/* case-insensitive */
extern const char *sx_wanted_name(SxWanted wanted);
extern const char *sx_sink_kind_name(SxSinkKind kind);
extern void sx_trigger_parse(const char *text, SxTriggerKind *kind, int64 *interval);
extern char *sx_trigger_print(SxTriggerKind kind, int64 interval);

/* Normalises and checks a new name: the view's name too, so at most 63 bytes. */
extern void sx_query_name_check(const char *name);

/*
 * Serialises changes of one query's row until the end of the transaction; every
 * function here that writes takes it itself. conditional: false if not to be had.
 */
extern bool sx_query_lock_row(int64 id, bool conditional);

/*
 * Held to the end of the transaction by whoever starts, stops, alters or drops:
 * one at a time. Not the lock of the row: a worker that is being stopped may
 * still write it.
 */
extern void sx_query_lock_control(int64 id);

/* The worker's lock for the life of its process: one worker per query. */
extern bool sx_query_lock_worker(int64 id);

/*
 * Whoever marks rows in quarantine, takes marked ones into a batch or drops them, has
 * them until the end of the transaction. conditional: false if not to be had.
 */
extern bool sx_query_lock_quarantine(int64 id, bool conditional);

/* The row is from another database or restored from a dump: no checkpoint of it is ours. */
extern bool sx_query_is_copy(const SxQuery *query);

/* The schema "streamx" and the role that owns the extension. */
extern bool sx_extension_installed(void);
extern Oid	sx_catalog_namespace(void);
extern Oid	sx_extension_owner(void);
extern Oid	sx_catalog_relation(const char *name);	/* OID of streamx.<name>, cached */

/* Opens streamx.<name>. Error: it has not the columns that this library knows. */
extern Relation sx_catalog_open(const char *name, int natts, LOCKMODE mode);

#endif
