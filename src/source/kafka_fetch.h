/*
 * kafka_fetch.h
 *		Takes records from librdkafka's queues and decodes them, on a thread.
 *
 *	 librdkafka ─ queue of a partition ─▶ fetch thread ─ chunks of rows ─▶ main
 *
 * The rows of a partition are a list of chunks, oldest first; the thread appends
 * behind, the main thread reads and takes away in front. A chunk in the list is
 * never changed by the thread. Everything is malloc'ed; memory is bounded by the
 * targets that the main thread sets: a partition is read up to its target and
 * a little ahead. What waits beyond stays in librdkafka's queue, which is bounded
 * too.
 *
 * A position is not a record: it also moves over control records and over what
 * compaction took away, by the records behind a gap and by the end of the
 * partition (RD_KAFKA_RESP_ERR__PARTITION_EOF).
 */
#ifndef SX_SOURCE_KAFKA_FETCH_H
#define SX_SOURCE_KAFKA_FETCH_H

#include <librdkafka/rdkafka.h>

#include "format/format.h"

typedef struct SxKafkaRecord
{
	int64		offset;
	int64		timestamp;		/* milliseconds since 1970 */
	int32		timestamp_type; /* as Spark's: 0 create, 1 log append; -1: none */
	int64		row;			/* its first one in the chunk's rows */
	const void *key;			/* a varlena with a four-byte header; NULL: none */
	const void *value;			/* likewise, if it is kept; NULL: a tombstone, or not kept */
	int			nheaders;
	const struct SxKafkaHeader *headers;
} SxKafkaRecord;

typedef struct SxKafkaHeader
{
	const char *name;
	const char *value;			/* NULL: none */
	size_t		len;
} SxKafkaHeader;

typedef struct SxKafkaChunk
{
	struct SxKafkaChunk *next;
	int64		first;			/* offset of its first record */
	int64		behind;			/* after its last one */
	int			nrecords;
	SxKafkaRecord *records;
	SxRowBuffer *rows;			/* row->tag is the number of its record; NULL: no column is decoded */
	uint64		decoded_by;		/* number of the decoder, 0: not decoded */
	size_t		bytes;			/* of all this */

	/* the main thread's: rows that were decoded again, slots may still point to them */
	SxRowBuffer **retired;
	int			nretired;

	/* the thread's */
	int			records_size;
	SxRowBuffer *arena;			/* keys, values, headers: only its arena is used */
} SxKafkaChunk;

typedef struct SxKafkaPart
{
	/* set when it is added */
	char	   *topic;
	void	   *topic_text;		/* its name as a varlena */
	int32		partition;
	rd_kafka_topic_t *handle;
	rd_kafka_queue_t *queue;

	/* under the fetcher's lock */
	bool		wanted;			/* to be read at all */
	uint64		session;		/* a new one with each start */
	int64		start;			/* where this session begins */
	int64		target;			/* read at least so far */
	int64		position;		/* read so far */
	int64		eof;			/* position at the last end of the partition, -1: none yet */
	uint64		eofs;			/* how often the end was met */
	int64		awaited;		/* tell when it is read so far, or to its end; -1: not awaited */
	size_t		bytes;			/* of its chunks */
	size_t		bytes_ahead;	/* of those that lie behind the target */
	SxKafkaChunk *head;
	SxKafkaChunk *tail;
	rd_kafka_resp_err_t error;	/* the session has ended with it */
	char		error_text[512];

	/* the thread's */
	uint64		running;		/* session that is being consumed, 0: none */
	size_t		emptied;		/* bytes taken out of the client's queue since it was last woken */

	/* the main thread's: see kafka_source.c */
	int64		low;			/* log start, as the broker was last asked, -1: not known */
	int64		high;
	rd_kafka_resp_err_t asked_error;	/* instead of low and high */
	int64		moved_from;		/* the log ended before this wanted offset, */
	int64		moved_to;		/* so it is read from here; else -1 */
	int64		noted;			/* last malformed record of the range that is noted, -1: none */
	int64		kept_from;		/* records from here on are still in the chunks */
	int			missing;		/* discoveries in a row that did not find it */
	bool		gone;			/* and are not looked for any more */
} SxKafkaPart;

typedef struct SxKafkaFetcher SxKafkaFetcher;

/* What the thread is to keep of records besides the decoded columns. */
typedef struct SxKafkaKeep
{
	bool		key;
	bool		value;
	bool		headers;
	bool		undecoded;		/* values as long as there is no decoder */
} SxKafkaKeep;

/*
 * A record that waits in the client's queue counts as so many bytes at least: the
 * client bounds what records hold, and each costs it some hundred bytes besides.
 */
#define SX_KAFKA_LEAST_RECORD	128

/*
 * queue_bytes is what the client lets one partition have waiting (queued.max.messages.kbytes).
 * wake is called on the fetch thread when there is news for a main thread that
 * waits; it must be safe there. Thread: main, as all below.
 */
extern SxKafkaFetcher *sx_kafka_fetcher_create(rd_kafka_t *rk, size_t budget,
											   size_t queue_bytes, SxKafkaKeep keep,
											   void (*wake) (void *arg), void *wake_arg);

/* Ends the thread; a second or so at most. The client handle stays. */
extern void sx_kafka_fetcher_destroy(SxKafkaFetcher *fetcher);

/* A partition, not read yet. It lives as long as the fetcher. */
extern SxKafkaPart *sx_kafka_fetcher_add(SxKafkaFetcher *fetcher, const char *topic,
										 int32 partition);

/* Forgets what there is of it and reads from this offset on. */
extern void sx_kafka_part_start(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 offset);
extern void sx_kafka_part_stop(SxKafkaFetcher *fetcher, SxKafkaPart *part);

/* Poke the fetcher after setting targets or releasing chunks. */
extern void sx_kafka_part_set_target(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 target);
extern void sx_kafka_fetcher_poke(SxKafkaFetcher *fetcher);

/* A consistent copy of what the lock protects. */
typedef struct SxKafkaPartState
{
	int64		position;
	int64		eof;
	uint64		eofs;
	size_t		bytes;
	rd_kafka_resp_err_t error;
} SxKafkaPartState;

extern void sx_kafka_part_state(SxKafkaFetcher *fetcher, SxKafkaPart *part,
								SxKafkaPartState *state);

/*
 * The chunk that holds the first record at or behind this offset; NULL: it isn't
 * there (yet). after: a chunk known to lie before it, or NULL. Never invalid until
 * sx_kafka_part_release passes it.
 */
extern SxKafkaChunk *sx_kafka_part_chunk(SxKafkaFetcher *fetcher, SxKafkaPart *part,
										 SxKafkaChunk *after, int64 offset);

/* Gives a chunk other rows; the old ones live as long as the chunk. */
extern void sx_kafka_chunk_replace_rows(SxKafkaChunk *chunk, SxRowBuffer *rows);

/* Is there a record in [begin, end) of what was read? */
extern bool sx_kafka_part_has_records(SxKafkaFetcher *fetcher, SxKafkaPart *part,
									  int64 begin, int64 end);

/* Chunks that end at or before this offset are not needed any more. */
extern void sx_kafka_part_release(SxKafkaFetcher *fetcher, SxKafkaPart *part, int64 offset);

/*
 * The thread decodes with this one from now on (NULL: not at all) and owns it.
 * It works on chunks of the future; older ones are decoded again as needed.
 */
extern void sx_kafka_fetcher_set_decoder(SxKafkaFetcher *fetcher, SxDecoder *decoder,
										 int natts, uint64 number);

/*
 * From now on tell (wake, and news) what happens: a record, an error, an answer.
 * To be called before one looks at the partitions, so that nothing gets lost.
 */
extern void sx_kafka_fetcher_listen(SxKafkaFetcher *fetcher);

/*
 * Records are news only when all of these partitions are read so far, or to their
 * ends. A position of -1: nothing is awaited of the partition.
 */
extern void sx_kafka_fetcher_await(SxKafkaFetcher *fetcher, int n, SxKafkaPart **parts,
								   const int64 *positions);

/* Has something happened since listen? Takes no lock. */
extern bool sx_kafka_fetcher_news(const SxKafkaFetcher *fetcher);

extern size_t sx_kafka_fetcher_bytes(SxKafkaFetcher *fetcher);

/* Average memory that an offset needs, gaps included; 0: not known. */
extern double sx_kafka_fetcher_bytes_per_offset(SxKafkaFetcher *fetcher);

/* Another part of the program has news for the main thread (an answer of the broker). Thread: any. */
extern void sx_kafka_fetcher_tell(SxKafkaFetcher *fetcher);

#endif
