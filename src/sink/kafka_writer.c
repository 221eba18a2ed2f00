/*
 * kafka_writer.c
 *		Rows of SQL statements into the outbox of their stream.
 *
 * A part is written when so many bytes have gathered, so a large INSERT needs no
 * more memory than a small one. Parts of subtransactions that are rolled back are
 * as invisible as any other row of theirs. A part stands alone: its first record
 * names the topic.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "base/settings.h"
#include "monitor/shared.h"
#include "registry/query.h"
#include "sink/kafka_rows.h"
#include "sink/kafka_target.h"
#include "sink/kafka_writer.h"
#include "sink/kafka_writer_limit.h"

#define PART_BYTES	(256 * 1024)

enum
{
	Anum_stream = 1,
	Anum_database,
	Anum_xid,
	Anum_seq,
	Anum_rows,
	Anum_data,
	Natts_outbox = Anum_data
};

typedef struct KafkaWriter
{
	Oid			stream;
	SxKafkaRows *rows;
	bool		has_constraints;
	bool		check_partition;
	StringInfoData part;
	int64		nrows;			/* in it */
} KafkaWriter;

/* ---- the end of the transaction ---- */

static bool registered = false;
static bool touched = false;

/* A prepared one is looked for after COMMIT PREPARED (api/ddl_hooks.c). */
static void
at_transaction_end(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			if (touched)
				sx_wake_publisher(MyDatabaseId);
			touched = false;
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			touched = false;
			break;
		default:
			break;
	}
}

/* ---- parts ---- */

static void
write_part(KafkaWriter *writer)
{
	static int64 seq = 0;		/* only its order counts, within a transaction */
	Relation	rel;
	bytea	   *data;
	Datum		values[Natts_outbox];
	bool		nulls[Natts_outbox] = {0};
	HeapTuple	tuple;

	if (writer->nrows == 0)
		return;
	if (!registered)
		RegisterXactCallback(at_transaction_end, NULL);
	registered = touched = true;
	rel = sx_catalog_open("kafka_outbox", Natts_outbox, RowExclusiveLock);
	data = palloc(VARHDRSZ + writer->part.len);
	SET_VARSIZE(data, VARHDRSZ + writer->part.len);
	memcpy(VARDATA(data), writer->part.data, writer->part.len);
	values[Anum_stream - 1] = ObjectIdGetDatum(writer->stream);
	values[Anum_database - 1] = ObjectIdGetDatum(MyDatabaseId);
	values[Anum_xid - 1] = UInt64GetDatum(U64FromFullTransactionId(GetTopFullTransactionId()));
	values[Anum_seq - 1] = Int64GetDatum(++seq);
	values[Anum_rows - 1] = Int64GetDatum(writer->nrows);
	values[Anum_data - 1] = PointerGetDatum(data);
	tuple = heap_form_tuple(RelationGetDescr(rel), values, nulls);
	CatalogTupleInsert(rel, tuple);
	heap_freetuple(tuple);
	pfree(data);
	table_close(rel, NoLock);
	resetStringInfo(&writer->part);
	writer->nrows = 0;
	sx_kafka_rows_next_part(writer->rows);
}

/* ---- the callbacks ---- */

void
sx_kafka_writer_begin(ResultRelInfo *rel)
{
	Relation	stream = rel->ri_RelationDesc;
	KafkaWriter *writer = palloc0(sizeof(KafkaWriter));
	SxKafkaStream *target = sx_kafka_stream_read(RelationGetRelid(stream));
	SxKafkaRowsConfig config = {
		.stream = stream,
		.desc = RelationGetDescr(stream),
		.topic = target->topic,
		.format = target->format,
		.format_options = target->format_options,
		.key_columns = target->key_columns,
		.max_bytes = target->max_bytes,
		.topic_limit = sx_kafka_writer_limit,
		.topic_limit_arg = sx_kafka_writer_limit_open(stream),
	};

	sx_shared_require();
	if (sx_external_sinks == SX_EXTERNAL_OFF)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot insert into stream \"%s\"", RelationGetRelationName(stream)),
				 errdetail("Writing outside PostgreSQL is switched off here."),
				 errhint("Set streamx.external_sinks to \"on\", or to \"muted\" to take rows without publishing them.")));
	writer->stream = RelationGetRelid(stream);
	writer->rows = sx_kafka_rows_open(&config);
	writer->has_constraints = RelationGetDescr(stream)->constr != NULL;

	/* Rows that were routed here fit, unless a trigger changed them since. */
	writer->check_partition = stream->rd_rel->relispartition &&
		(rel->ri_RootResultRelInfo == NULL ||
		 (rel->ri_TrigDesc != NULL && rel->ri_TrigDesc->trig_insert_before_row));
	initStringInfo(&writer->part);
	rel->ri_FdwState = writer;
}

TupleTableSlot *
sx_kafka_writer_insert(EState *estate, ResultRelInfo *rel, TupleTableSlot *slot)
{
	KafkaWriter *writer = rel->ri_FdwState;

	slot->tts_tableOid = writer->stream;
	if (writer->has_constraints)
		ExecConstraints(rel, slot, estate);
	if (writer->check_partition)
		ExecPartitionCheck(rel, slot, estate, true);
	if (sx_external_sinks == SX_EXTERNAL_MUTED)
		return slot;
	sx_kafka_rows_put(writer->rows, slot, &writer->part);
	writer->nrows++;
	if (writer->part.len >= PART_BYTES)
		write_part(writer);
	return slot;
}

void
sx_kafka_writer_end(EState *estate, ResultRelInfo *rel)
{
	KafkaWriter *writer = rel->ri_FdwState;

	if (writer == NULL)
		return;					/* EXPLAIN */
	write_part(writer);
	rel->ri_FdwState = NULL;
}
