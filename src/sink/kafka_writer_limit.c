/*
 * kafka_writer_limit.c
 *		What a topic takes at once, for statements that insert into its stream.
 *
 * INSERT connects to no broker: the publisher writes down what it was told when it
 * opened the stream.  Only before its first publication, where rows name their
 * topics, and before a record is refused are the brokers asked, with the rights of
 * the stream's owner, as the publisher does.  A session remembers the answer.  No
 * answer is no reason to refuse anything.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "foreign/foreign.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "base/compat.h"
#include "kafka/topic_limit.h"
#include "registry/query.h"
#include "sink/kafka_writer_limit.h"

#define ANSWER_MS		1000
#define ASK_AGAIN_MS	60000	/* where nothing is known */

enum
{
	Anum_stream = 1,
	Anum_max_bytes = 11
};

typedef struct Writer
{
	Oid			stream;
	Oid			owner;
} Writer;

typedef struct KnownKey
{
	Oid			stream;
	char		topic[250];
} KnownKey;

typedef struct Known
{
	KnownKey	key;
	int			bytes;			/* -1: not known */
	TimestampTz asked_at;
} Known;

static HTAB *known = NULL;

void *
sx_kafka_writer_limit_open(Relation stream)
{
	Writer	   *writer = palloc(sizeof(Writer));

	writer->stream = RelationGetRelid(stream);
	writer->owner = stream->rd_rel->relowner;
	return writer;
}

static Known *
find_known(Oid stream, const char *topic, bool *found)
{
	KnownKey	key;

	if (known == NULL)
	{
		HASHCTL		control = {.keysize = sizeof(KnownKey), .entrysize = sizeof(Known)};

		known = hash_create("streamx limits of topics", 16, &control, HASH_ELEM | HASH_BLOBS);
	}
	memset(&key, 0, sizeof(key));
	key.stream = stream;
	strlcpy(key.topic, topic, sizeof(key.topic));
	return hash_search(known, &key, HASH_ENTER, found);
}

/* -1: nothing is written down. */
static int
written_down(Oid stream)
{
	Relation	rel = table_open(sx_catalog_relation("kafka_publication"), AccessShareLock);
	ScanKeyData key;
	SysScanDesc scan;
	HeapTuple	tuple;
	int			bytes = -1;

	ScanKeyInit(&key, Anum_stream, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(stream));
	scan = systable_beginscan(rel, sx_primary_key_index(rel), true, GetActiveSnapshot(), 1, &key);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
	{
		bool		isnull;
		Datum		value = heap_getattr(tuple, Anum_max_bytes, RelationGetDescr(rel), &isnull);

		if (!isnull)
			bytes = DatumGetInt32(value);
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return bytes;
}

static int
ask(const Writer *writer, const char *topic)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamx limit of a topic",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	ForeignTable *table = GetForeignTable(writer->stream);
	SxKafkaSettings *settings = sx_kafka_settings(table->serverid, writer->owner, table->options);
	int			bytes = -1;

	if (!sx_kafka_compresses(settings))
	{
		SxKafkaClient *client = sx_kafka_client_open(RD_KAFKA_PRODUCER, settings, NULL, 0);

		bytes = sx_kafka_topic_limit(client, topic, ANSWER_MS);
		sx_kafka_client_close(client);
	}
	MemoryContextSwitchTo(oldcontext);
	MemoryContextDelete(context);
	return bytes;
}

int
sx_kafka_writer_limit(void *arg, const char *topic, bool anew)
{
	const Writer *writer = arg;
	bool		found;
	Known	   *entry;
	int			bytes = anew ? -1 : written_down(writer->stream);

	if (bytes >= 0)
		return bytes;
	entry = find_known(writer->stream, topic, &found);
	if (!found)
		entry->bytes = -1;
	if (found && !anew &&
		(entry->bytes >= 0 ||
		 !TimestampDifferenceExceeds(entry->asked_at, GetCurrentTimestamp(), ASK_AGAIN_MS)))
		return entry->bytes;
	entry->asked_at = GetCurrentTimestamp();
	bytes = ask(writer, topic);
	entry = find_known(writer->stream, topic, &found);
	if (bytes >= 0)
		entry->bytes = bytes;
	return entry->bytes >= 0 ? entry->bytes : written_down(writer->stream);
}
