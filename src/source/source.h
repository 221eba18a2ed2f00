/*
 * source.h
 *		Where rows come from.
 *
 * A source never chooses what to read. The engine asks how far it could go,
 * fixes the range of the batch, and only then asks for its rows. What the plan
 * pulls of them decides nothing: the range counts as read as a whole.
 */
#ifndef SX_SOURCE_SOURCE_H
#define SX_SOURCE_SOURCE_H

#include "access/attnum.h"
#include "access/htup.h"
#include "access/xlogdefs.h"
#include "executor/tuptable.h"
#include "nodes/bitmapset.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "time/watermark.h"

struct SxSourceRoutine;

/* A position; each kind embeds this first. Immutable once made. */
typedef struct SxOffset
{
	const struct SxSourceRoutine *routine;
} SxOffset;

typedef struct SxSource
{
	const struct SxSourceRoutine *routine;
	Oid			relid;			/* the stream */
	char	   *name;			/* schema-qualified, quoted, for people */

	/* Set by the engine after open: malformed records go into the quarantine. */
	bool		quarantine;

	/*
	 * Set by next_end that returns NULL: there are rows, but they are not here yet.
	 * Whoever waits is woken when they are (next_time then says: now).
	 */
	bool		loading;
} SxSource;

/* A clause on a column that a scan may use to read less: column <strategy> value. */
typedef struct SxScanClause
{
	AttrNumber	attnum;
	int			strategy;		/* btree's; with an array: = ANY */
	bool		is_array;
	Oid			type;			/* of the value, or of the elements */
	Datum		value;			/* never NULL */
} SxScanClause;

typedef struct SxScan
{
	SxSource   *source;

	/*
	 * Columns up to this one are wanted, others may come as NULL; 0: none. A new
	 * scan has all; the caller may lower it before the first row.
	 */
	AttrNumber	last_needed;

	/* Which of those are wanted, by number; NULL: all. As last_needed. */
	const Bitmapset *needed;

	int64		dropped;		/* malformed records of this pass that mode 'dropmalformed' left out */
} SxScan;

typedef struct SxChoose
{
	Snapshot	snapshot;		/* registered, shared by all INSERT-able streams of the batch */
	TimestampTz now;			/* batch timestamp */
	int64		max_rows;		/* about so many rows; may be passed by a page of rows */
	bool		probe;			/* only whether there is a row is asked; the end isn't used */
	bool		fresh;			/* somebody waits for all that is there now: look again, outside too */
	uint16		own_part;		/* the own transaction's rows before this part too, without max_rows; 0: not */
	int64		query_id;		/* for what is to be written down with the batch; 0: none */
	const SxOffset *stop_at;	/* never past it (available_now); or NULL */
} SxChoose;

/* A record that is no row of the stream, since it is malformed. */
typedef struct SxMalformed
{
	const char *where;			/* for people and for reading it again: JSON */
	const char *raw;			/* NULL: none */
	size_t		len;
	const char *error;
} SxMalformed;

/* Takes one row; the slot is only valid during the call. */
typedef void (*SxRowReceiver) (void *arg, TupleTableSlot *slot);

typedef struct SxSourceRoutine
{
	const char *name;			/* FDW and kind: 'streamx', 'rate' */

	/* Checks options. Allocates in CurrentMemoryContext. The relation stays open only during the call. */
	SxSource   *(*open) (Relation rel);

	/* Where a new query begins: all that is there, or (latest) only what comes later. */
	SxOffset   *(*initial) (SxSource *source, bool latest, const SxChoose *choose);

	/* End of the next range; NULL: no row there. In a transaction. */
	SxOffset   *(*next_end) (SxSource *source, const SxOffset *start, const SxChoose *choose);

	/* Optional. About how many rows wait after start; to share a limit between sources. */
	int64		(*available) (SxSource *source, const SxOffset *start, const SxChoose *choose);

	/* Everything that is available now, without limit: the end of available_now. */
	SxOffset   *(*latest) (SxSource *source, const SxOffset *start, const SxChoose *choose);

	/*
	 * Rows after start up to end, always the same ones in the same order, also
	 * on rescan and for a second scan of the range. scan_next fills the slot
	 * (of the stream's row type) and returns false at the end.
	 */
	SxScan	   *(*scan_begin) (SxSource *source, const SxOffset *start, const SxOffset *end);
	bool		(*scan_next) (SxScan *scan, TupleTableSlot *slot);	/* slot stays valid until the next call */
	void		(*scan_rescan) (SxScan *scan);
	void		(*scan_end) (SxScan *scan);

	/* Optional. All rows there are now, for a plain SELECT outside of a query; NULL: refused. */
	SxScan	   *(*scan_all) (SxSource *source, Snapshot snapshot);

	/* Optional. Clauses that all rows of scan_all will be held against anyway; before the first row. */
	void		(*scan_restrict) (SxScan *scan, List *clauses);

	/* Optional. Could this clause make it read less? In planning. */
	bool		(*can_restrict) (Relation rel, AttrNumber attnum, int strategy, Oid type);

	/*
	 * Optional, with quarantine. The malformed records of the last range, each once
	 * however often it was scanned: SxMalformed *.
	 */
	List	   *(*malformed) (SxSource *source);

	/*
	 * Optional. The record that the last row of scan_next was made of (its error is
	 * NULL), for the quarantine; valid until the next row. False: not known.
	 */
	bool		(*record) (SxScan *scan, SxMalformed *record);

	/*
	 * Optional. A record that was malformed, given back by a person: its rows, as if it
	 * were read now. NULL, or why it is malformed still (then no row was received).
	 */
	const char *(*reread) (SxSource *source, const SxMalformed *record, SxRowReceiver receive,
						   void *arg);

	/* JSON text and back; parse raises ERRCODE_SX_CHECKPOINT. */
	char	   *(*offset_print) (const SxOffset *offset);
	SxOffset   *(*offset_parse) (SxSource *source, const char *text);
	bool		(*offset_equal) (const SxOffset *a, const SxOffset *b);
	SxOffset   *(*offset_copy) (SxSource *source, const SxOffset *offset);	/* optional: quicker than print and parse */

	/*
	 * Optional. A batch that ends here is committed: no range before it will be
	 * asked for again. It is on disk when the WAL is flushed up to commit. Must not fail.
	 */
	void		(*forget) (SxSource *source, const SxOffset *end, XLogRecPtr commit);

	/*
	 * Optional. Are all rows between the two, which a query has read, still there to
	 * be read again? NULL: nobody knows.
	 */
	bool		(*retained) (SxSource *source, const SxOffset *start, const SxOffset *end);

	/* Does `initial` say another thing at another time? Then the first start is recorded. */
	bool		initial_varies;

	/* Optional. JSON of an object with how far it is behind, and of its newest offset, for the progress. */
	char	   *(*metrics) (SxSource *source, const SxOffset *end);
	char	   *(*newest) (SxSource *source, const SxOffset *end);

	/* When the next rows may come without anyone waking us (rate); DT_NOEND if never. */
	TimestampTz (*next_time) (SxSource *source, const SxOffset *start);

	/* Never raises an error: it also runs while the query is failing. */
	void		(*close) (SxSource *source);
} SxSourceRoutine;

/* Is this relation a stream (a foreign table of one of our wrappers)? */
extern bool sx_relation_is_stream(Oid relid);

/* Is it one that can be INSERTed into (kind streamx without rate)? */
extern bool sx_stream_is_insertable(Oid relid);

/* Is it a topic of Kafka? */
extern bool sx_stream_is_kafka(Oid relid);

/*
 * The first option of the stream that bounds what a batch may read, or holds it
 * back, as it is written there; NULL: none.
 */
extern const char *sx_stream_bound_option(Oid relid);

/* Opens the stream by the routine of its wrapper and options. */
extern SxSource *sx_source_open(Oid relid);

/* Watermark of a stream: attribute number and delay (microseconds), or false. */
extern bool sx_stream_watermark(Oid relid, AttrNumber *attnum, int64 *delay);

/* A delay as WATERMARK FOR takes it: an interval >= 0, a month is 31 days. Error otherwise. */
extern int64 sx_watermark_delay_parse(const char *text);
extern int64 sx_watermark_delay_from_interval(const Interval *interval);

/*
 * The batch's ranges, as a leaf of a plan finds them: an ephemeral named
 * relation of this name whose reldata points to an SxBatchSources.
 */
#define SX_BATCH_ENR	"streamx batch"

/*
 * How many rows of each stream the segment that is being planned should expect;
 * 0: not a segment. Set while exec plans one, never longer.
 */
extern double sx_source_planned_rows;

typedef struct SxBatchSource
{
	SxSource   *source;
	SxOffset   *start;			/* NULL with end NULL: no rows in this batch */
	SxOffset   *end;
	AttrNumber	event_attnum;	/* watermark column, 0: none */

	/*
	 * Only some rows of the range, by their ordinal in it: [first_row, behind_row)
	 * without the hidden ones (sorted). All rows count as read whatever is given.
	 */
	bool		selective;
	int64		first_row;
	int64		behind_row;
	int			nhidden;
	const int64 *hidden;

	/* Rows that come behind those of the range: given back from the quarantine. */
	int			nextra;
	HeapTuple  *extra;			/* of the stream's row type */

	/* filled by the first scan that reached the end; drained by the engine otherwise */
	bool		counted;
	int64		rows;
	int64		dropped;		/* malformed, not among those */
	SxWatermarkInput seen;		/* maximum event time of the range */
	TimestampTz latest_allowed; /* D13 */
	TimestampTz event_min;		/* finite ones; SX_TIME_UNSET if none */
	TimestampTz event_max;
	double		event_sum;
	int64		event_rows;

	int64		quarantined;	/* of the rows: put aside (engine/quarantine.c, search.c) */
} SxBatchSource;

typedef struct SxBatchSources
{
	int			n;
	SxBatchSource *sources;
} SxBatchSources;

/* May the batch have rows of it? */
static inline bool
sx_batch_source_has_rows(const SxBatchSource *source)
{
	return source->end != NULL || source->nextra > 0;
}

/* Row i of those behind the range into a slot of the stream's row type; false: there are no more. */
extern bool sx_batch_source_extra(const SxBatchSource *source, int64 i, TupleTableSlot *slot);

/* Reads the whole range once if no scan of the plan did, so that counts and maxima are right. */
extern void sx_batch_source_drain(SxBatchSource *source);

#endif
