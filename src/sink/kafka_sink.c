/*
 * kafka_sink.c
 *		Writes each batch into a topic of Kafka, exactly once.
 *
 * The intent holds the batch's records (kafka_intent.h), the target carries them
 * out (kafka_target.h). Append and update mode send the rows as they are, complete
 * mode the whole result each time, as Spark does. In update mode a group that is
 * gone is a tombstone, where the named key columns are the result's key.
 */
#include "postgres.h"

#include "access/table.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/uuid.h"

#include "sink/kafka_rows.h"
#include "sink/kafka_target.h"
#include "sink/sinks.h"

#define ANSWER_MS	10000

typedef struct KafkaSink
{
	SxSink		sink;
	SxSinkConfig *config;
	SxKafkaStream *stream;
	SxKafkaRows *rows;
	SxKafkaTarget *target;
} KafkaSink;

static Relation
open_stream(const SxSinkConfig *config)
{
	Relation	rel = try_table_open(config->query->sink_relation, AccessShareLock);

	if (rel == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("sink stream \"%s\" of query \"%s\" does not exist any more",
						config->query->sink_name, config->query->name),
				 errhint("Drop the query, or create it again with another sink.")));
	if (pg_class_aclcheck(RelationGetRelid(rel), config->query->owner, ACL_INSERT) != ACLCHECK_OK)
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for sink stream \"%s\"", RelationGetRelationName(rel)),
				 errdetail("Role \"%s\", which owns query \"%s\", needs INSERT on it.",
						   GetUserNameFromId(config->query->owner, false), config->query->name)));
	return rel;
}

/* Nothing is asked before the mark was read: then the brokers are there. */
static int
topic_limit(void *arg, const char *topic, bool anew)
{
	KafkaSink  *self = arg;

	return sx_kafka_target_topic_limit(self->target, topic, anew);
}

/* Key columns of the query go before those of the stream. */
static SxKafkaRows *
open_rows(Relation rel, const SxKafkaStream *stream, const SxSinkConfig *config, KafkaSink *self)
{
	SxKafkaRowsConfig rows = {
		.stream = rel,
		.desc = config->desc,
		.is_result = true,
		.topic = stream->topic,
		.format = stream->format,
		.format_options = stream->format_options,
		.key_columns = config->query->options.key_columns != NULL ?
			config->query->options.key_columns : stream->key_columns,
		.max_bytes = stream->max_bytes,
		.topic_limit = self != NULL ? topic_limit : NULL,
		.topic_limit_arg = self,
	};
	SxKafkaRows *result = sx_kafka_rows_open(&rows);

	sx_sink_check_retracts(config, sx_kafka_rows_has_key(result, config->nkeys, config->keys));
	return result;
}

/* Connects to nothing: a broker that is away must not keep anybody from writing definitions. */
static void
kafka_prepare(SxQuery *query, const SxSinkConfig *config)
{
	Relation	rel = open_stream(config);

	(void) open_rows(rel, sx_kafka_stream_read(RelationGetRelid(rel)), config, NULL);
	table_close(rel, NoLock);
}

static SxSink *
kafka_open(const SxSinkConfig *config)
{
	KafkaSink  *self = palloc0(sizeof(KafkaSink));
	Relation	rel = open_stream(config);

	self->sink.routine = &sx_kafka_sink;
	self->config = sx_sink_config_copy(config);
	self->stream = sx_kafka_stream_read(RelationGetRelid(rel));
	self->rows = open_rows(rel, self->stream, config, self);
	self->sink.description = psprintf("KafkaTable[%s]", self->stream->mark_topic);
	table_close(rel, NoLock);
	self->target =
		sx_kafka_target_open(self->stream, config->query->owner,
							 DatumGetCString(DirectFunctionCall1(uuid_out,
																 UUIDPGetDatum(&config->query->incarnation))),
							 ANSWER_MS);
	return &self->sink;
}

/* Nothing is collected: stage() reads the result itself. */
static void
kafka_write(SxSink *sink, const SxResult *result)
{
}

/* Before the rows: a session that grew has its old window's key taken away first. */
static void
stage_gone(KafkaSink *self, const SxResult *result, StringInfo intent)
{
	const SxSinkConfig *config = self->config;
	TupleTableSlot *slot;

	if (result->gone == NULL || !sx_kafka_rows_has_key(self->rows, config->nkeys, config->keys))
		return;
	slot = MakeSingleTupleTableSlot(result->gone_desc, &TTSOpsMinimalTuple);
	tuplestore_rescan(result->gone);
	while (tuplestore_gettupleslot(result->gone, true, false, slot))
		sx_kafka_rows_put_tombstone(self->rows, slot, config->nkeys, config->keys, intent);
	ExecDropSingleTupleTableSlot(slot);
}

static void
stage_rows(KafkaSink *self, TupleDesc desc, Tuplestorestate *rows, StringInfo intent)
{
	TupleTableSlot *slot;

	if (rows == NULL)
		return;
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	tuplestore_rescan(rows);
	while (tuplestore_gettupleslot(rows, true, false, slot))
		sx_kafka_rows_put(self->rows, slot, intent);
	ExecDropSingleTupleTableSlot(slot);
}

static void
kafka_stage(SxSink *sink, const SxResult *result, StringInfo intent)
{
	KafkaSink  *self = (KafkaSink *) sink;

	sx_kafka_rows_begin(self->rows);
	stage_gone(self, result, intent);
	stage_rows(self, result->desc, result->rows, intent);
	stage_rows(self, result->desc, result->fresh, intent);
}

/* Equal bytes are equal output, whoever sent them. */
static char *
token_of(const char *intent, int len)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, intent, len);
	FIN_CRC32C(crc);
	return psprintf("%08x-%d", crc, len);
}

static bool
kafka_hand_over(SxSink *sink, int64 batch_id, const char *intent, int len)
{
	KafkaSink  *self = (KafkaSink *) sink;

	return sx_kafka_target_put(self->target, intent, len) &&
		sx_kafka_target_end(self->target, batch_id, token_of(intent, len));
}

static bool
kafka_holds(SxSink *sink, const char *intent, int len)
{
	return strcmp(sx_kafka_target_token(((KafkaSink *) sink)->target), token_of(intent, len)) == 0;
}

static int64
kafka_published(SxSink *sink)
{
	return sx_kafka_target_published(((KafkaSink *) sink)->target);
}

static int64
kafka_resume(SxSink *sink)
{
	return sx_kafka_target_resume(((KafkaSink *) sink)->target);
}

static const char *
kafka_waits_for(SxSink *sink)
{
	return sx_kafka_target_look(((KafkaSink *) sink)->target);
}

static int64
kafka_mark(SxSink *sink, const char **foreign)
{
	return sx_kafka_target_mark(((KafkaSink *) sink)->target, foreign);
}

static void
kafka_take(SxSink *sink)
{
	sx_kafka_target_take(((KafkaSink *) sink)->target);
}

static void
kafka_begin(SxSink *sink, int64 mark)
{
	sx_kafka_target_begin(((KafkaSink *) sink)->target, mark);
}

static void
kafka_close(SxSink *sink)
{
	sx_kafka_target_close(((KafkaSink *) sink)->target);
}

const SxSinkRoutine sx_kafka_sink = {
	.name = "kafka",
	.outside = true,
	.prepare = kafka_prepare,
	.open = kafka_open,
	.write = kafka_write,
	.stage = kafka_stage,
	.hand_over = kafka_hand_over,
	.published = kafka_published,
	.resume = kafka_resume,
	.waits_for = kafka_waits_for,
	.mark = kafka_mark,
	.holds = kafka_holds,
	.take = kafka_take,
	.begin = kafka_begin,
	.close = kafka_close,
};
