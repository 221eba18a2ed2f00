/*
 * kafka_reader.h
 *		A stream's connection to its brokers, and the partitions that it reads.
 *
 * Shared by the files of the Kafka source:
 *
 *	 kafka_source.c		the routine; where a query begins
 *	 kafka_choose.c		how far the next batch goes
 *	 kafka_scan.c		rows of a range; a plain SELECT
 *	 kafka_reader.c		connection, discovery of partitions, what is lost
 *	 kafka_fetch.c		the thread that takes and decodes
 *
 * Nothing is connected before somebody wants offsets or rows. Thread: main.
 */
#ifndef SX_SOURCE_KAFKA_READER_H
#define SX_SOURCE_KAFKA_READER_H

#include "datatype/timestamp.h"

#include "base/compat.h"
#include "format/fill.h"
#include "kafka/client.h"
#include "source/kafka_columns.h"
#include "source/kafka_fetch.h"
#include "source/kafka_offset.h"
#include "source/kafka_stream_options.h"

struct SxKafkaAsk;
struct SxKafkaJob;
struct SxKafkaGroup;
struct SxKafkaOwnDecoder;

/* A range that is being loaded; kept until it is given out. By part. */
typedef struct SxKafkaPending
{
	bool		valid;
	int64		total;			/* offsets in all */
	int			nparts;
	int64	   *begins;
	int64	   *ends;
	uint64	   *eofs;			/* ends of the partition met when it was made */
} SxKafkaPending;

/* Something was lost and the stream goes on (fail_on_data_loss false). */
typedef struct SxKafkaIncident
{
	const char *message;
	const char *detail;
} SxKafkaIncident;

typedef struct SxKafkaSource
{
	SxSource	base;

	/* set when it is opened */
	MemoryContext context;
	Oid			serverid;
	Oid			userid;
	List	   *table_options;
	SxKafkaStreamOptions options;
	SxKafkaColumns columns;

	/* the connection; NULL: not connected */
	MemoryContext connection;	/* holds the client */
	SxKafkaClient *client;
	SxKafkaFetcher *fetcher;
	bool		away;			/* nobody answered the last question */
	const char *suspected;		/* error of the client because of which one was asked */

	/* partitions there are, by topic and number */
	int			nparts;
	int			parts_size;
	SxKafkaPart **parts;
	int			expected_parts; /* the queues of the client are made for */
	size_t		queue_bytes;	/* bound of each of those */
	bool		discovered;
	TimestampTz next_discovery;
	struct SxKafkaAsk *discovery;	/* that runs */
	struct SxKafkaJob *discovery_job;

	/* the next batch */
	SxKafkaPending pending;
	List	   *incidents;		/* SxKafkaIncident *, to be written down with it */
	TimestampTz last_batch;		/* when the last range was given out; 0: none in this run */
	TimestampTz due;			/* min_offsets_per_trigger: not before; DT_NOEND */

	/* what threads and scans decode */
	Bitmapset  *needed;			/* columns; NULL: no scan has said so yet */
	List	   *decoders;		/* of Bitmapset *: what number 1, 2, ... decodes */
	bool		decoder_told;	/* the fetcher has the newest */
	struct SxKafkaOwnDecoder *own;	/* the main thread's */
	void	   *streaming;		/* scan that lets go what it has read */

	/* the row that is being filled */
	const SxKafkaPart *part_now;
	const SxKafkaChunk *chunk_now;

	/* malformed records of the range, for the quarantine */
	MemoryContext malformed_context;
	List	   *malformed;		/* of SxMalformed * */

	/* commit_group: what is committed here and not yet told there */
	struct SxKafkaGroup *group;
} SxKafkaSource;

extern const SxSourceRoutine sx_kafka_source_routine;

/* ---- kafka_reader.c ---- */

/* Connects, and finds the partitions, unless that is done. Waits for answers. */
extern void sx_kafka_connect(SxKafkaSource *source);

/* The same; topics and partitions that are named must be there. */
extern void sx_kafka_connect_first(SxKafkaSource *source);
extern void sx_kafka_disconnect(SxKafkaSource *source);

/* What may have changed: errors of the client, partitions that came or went. Doesn't wait. */
extern void sx_kafka_look_around(SxKafkaSource *source);

/* Asks for low and high of all (or the marked) parts; waits. */
extern void sx_kafka_ask_ends_of(SxKafkaSource *source, const bool *which);

/*
 * Makes every part readable from its begin on, which is moved if what was there is
 * lost: an error, or an incident. Returns false if a part is new or was begun anew.
 */
extern bool sx_kafka_ensure_begins(SxKafkaSource *source, int64 *begins);

/* Where part i can be read from, given that from `wanted` on it should be: as before. */
extern int64 sx_kafka_after_losses(SxKafkaSource *source, int i, int64 wanted);

/* Where the parts begin, by an offset; a partition that isn't in it at its beginning. */
extern int64 *sx_kafka_begins(SxKafkaSource *source, const SxKafkaOffset *start);

/* Partitions of the offset that are not there any more: an error, or incidents. */
extern void sx_kafka_check_gone(SxKafkaSource *source, const SxKafkaOffset *start);

/* The end as far as it is known, at least what was read. */
extern int64 sx_kafka_known_end(SxKafkaSource *source, const SxKafkaPart *part,
								const SxKafkaPartState *state);

/* Did the client say that a response was larger than it takes? Raises that of the part. */
extern void sx_kafka_check_too_large(SxKafkaSource *source, SxKafkaPart *part, int64 position);

/* Raises the error that a partition has ended with. */
extern void sx_kafka_raise_part(SxKafkaSource *source, SxKafkaPart *part,
								const SxKafkaPartState *state) pg_attribute_noreturn();

/* ---- kafka_source.c ---- */

/* The record the slot is made from belongs in the quarantine; once per range. */
extern void sx_kafka_note_malformed(SxKafkaSource *source, const SxKafkaRecord *record,
									const SxRow *row);
extern void sx_kafka_forget_malformed(SxKafkaSource *source);

/* ---- kafka_choose.c ---- */

extern SxOffset *sx_kafka_next_end(SxSource *source, const SxOffset *start,
								   const SxChoose *choose);
extern int64 sx_kafka_available(SxSource *source, const SxOffset *start, const SxChoose *choose);
extern SxOffset *sx_kafka_latest(SxSource *source, const SxOffset *start, const SxChoose *choose);
extern TimestampTz sx_kafka_next_time(SxSource *source, const SxOffset *start);

/* ---- kafka_scan.c ---- */

extern SxScan *sx_kafka_scan_begin(SxSource *source, const SxOffset *start, const SxOffset *end);
extern SxScan *sx_kafka_scan_all(SxSource *source, Snapshot snapshot);
extern bool sx_kafka_scan_next(SxScan *scan, TupleTableSlot *slot);
extern void sx_kafka_scan_restrict(SxScan *scan, List *clauses);
extern bool sx_kafka_can_restrict(Relation rel, AttrNumber attnum, int strategy, Oid type);
extern void sx_kafka_scan_rescan(SxScan *scan);
extern void sx_kafka_scan_end(SxScan *scan);
extern bool sx_kafka_scan_record(SxScan *scan, SxMalformed *record);

#endif
