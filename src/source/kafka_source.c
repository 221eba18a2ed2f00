/*
 * kafka_source.c
 *		Topics of Apache Kafka as streams: the source of wrapper streamx_kafka.
 *
 * Partitions are assigned by us and their offsets live in PostgreSQL, in the record
 * of the batch that has read them; no consumer group is involved. An offset prints
 * as Spark's: {"topic":{"0":100}}, the next one to be read. For tools that show lag
 * the committed offsets can be told to a group as well (kafka_group.c), never to
 * be read by us.
 */
#include "postgres.h"

#include "foreign/foreign.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "base/errors.h"
#include "source/kafka.h"
#include "source/kafka_bounds.h"
#include "source/kafka_group.h"
#include "source/kafka_quarantine.h"
#include "source/kafka_reader.h"

static SxSource *
open_source(Relation rel)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamx kafka source",
												  ALLOCSET_DEFAULT_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	SxKafkaSource *source = palloc0(sizeof(SxKafkaSource));
	ForeignTable *table = GetForeignTable(RelationGetRelid(rel));

	source->base.routine = &sx_kafka_source_routine;
	source->base.relid = RelationGetRelid(rel);
	source->context = context;
	source->serverid = table->serverid;
	source->userid = GetUserId();
	source->table_options = table->options;
	source->due = DT_NOEND;
	sx_kafka_stream_options_parse(table->options, &source->options);
	sx_kafka_columns_make(rel, sx_kafka_format_options(source->base.relid, source->userid),
						  &source->columns);
	MemoryContextSwitchTo(oldcontext);
	return &source->base;
}

void
sx_kafka_source_check(Relation rel)
{
	List	   *options = GetForeignTable(RelationGetRelid(rel))->options;
	SxKafkaStreamOptions parsed;
	SxKafkaColumns columns;

	sx_kafka_stream_options_parse(options, &parsed);
	sx_kafka_columns_make(rel, options, &columns);
	if (columns.decodes)
	{
		SxFormatTarget target = {
			.desc = columns.desc,
			.from_value = columns.from_value,
			.fields = columns.fields,
		};

		columns.routine->check(&target, columns.format);
	}
}

static void
close_source(SxSource *base)
{
	SxKafkaSource *source = (SxKafkaSource *) base;

	sx_kafka_group_close(source);
	sx_kafka_disconnect(source);
}

/* ---- offsets ---- */

static char *
offset_print(const SxOffset *offset)
{
	return sx_kafka_positions_print(&((const SxKafkaOffset *) offset)->positions);
}

static SxOffset *
offset_parse(SxSource *source, const char *text)
{
	SxKafkaOffset *offset = palloc0(sizeof(SxKafkaOffset));
	const char *error = sx_kafka_positions_parse(text, false, 0, &offset->positions);

	offset->base.routine = &sx_kafka_source_routine;
	if (error != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_SX_CHECKPOINT),
				 errmsg("offset of stream %s cannot be used", source->name),
				 errdetail("It is not what this version of streamx writes: %s. %s", text, error),
				 errhint("Restore the checkpoint, or drop and create the query to begin anew.")));
	return &offset->base;
}

static SxOffset *
offset_copy(SxSource *source, const SxOffset *base)
{
	const SxKafkaPositions *from = &((const SxKafkaOffset *) base)->positions;
	SxKafkaOffset *copy = sx_kafka_offset_make(&sx_kafka_source_routine, from->n);

	for (int i = 0; i < from->n; i++)
		sx_kafka_positions_append(&copy->positions, from->at[i].topic, from->at[i].partition,
								  from->at[i].offset);
	return &copy->base;
}

static bool
offset_equal(const SxOffset *a, const SxOffset *b)
{
	const SxKafkaPositions *x = &((const SxKafkaOffset *) a)->positions;
	const SxKafkaPositions *y = &((const SxKafkaOffset *) b)->positions;

	if (x->n != y->n)
		return false;
	for (int i = 0; i < x->n; i++)
		if (x->at[i].partition != y->at[i].partition || x->at[i].offset != y->at[i].offset ||
			strcmp(x->at[i].topic, y->at[i].topic) != 0)
			return false;
	return true;
}

/* ---- malformed records ---- */

void
sx_kafka_note_malformed(SxKafkaSource *source, const SxKafkaRecord *record, const SxRow *row)
{
	SxKafkaPart *part = unconstify(SxKafkaPart *, source->part_now);
	MemoryContext oldcontext;
	SxMalformed *it;

	if (record->offset <= part->noted)
		return;					/* another scan, or another row of it */
	part->noted = record->offset;
	if (source->malformed_context == NULL)
		source->malformed_context = AllocSetContextCreate(source->context,
														  "streamx malformed records",
														  ALLOCSET_DEFAULT_SIZES);
	oldcontext = MemoryContextSwitchTo(source->malformed_context);
	it = palloc0(sizeof(SxMalformed));
	it->where = sx_kafka_record_position(source, part, record);
	if (row->raw != NULL)
	{
		char	   *raw = palloc(row->raw_len + 1);

		memcpy(raw, row->raw, row->raw_len);
		it->raw = raw;
		it->len = row->raw_len;
	}
	it->error = pstrdup(row->error != NULL ? row->error : "malformed record");
	source->malformed = lappend(source->malformed, it);
	MemoryContextSwitchTo(oldcontext);
}

void
sx_kafka_forget_malformed(SxKafkaSource *source)
{
	if (source->malformed == NIL)
		return;
	source->malformed = NIL;
	MemoryContextReset(source->malformed_context);
	for (int i = 0; i < source->nparts; i++)
		source->parts[i]->noted = -1;
}

static List *
malformed(SxSource *base)
{
	return ((SxKafkaSource *) base)->malformed;
}

/* ---- after the commit ---- */

static void
forget(SxSource *base, const SxOffset *end, XLogRecPtr commit)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	const SxKafkaOffset *offset = (const SxKafkaOffset *) end;

	list_free(source->incidents);
	source->incidents = NIL;
	sx_kafka_forget_malformed(source);
	if (source->fetcher == NULL)
		return;
	for (int i = 0; i < source->nparts; i++)
	{
		SxKafkaPart *part = source->parts[i];
		int64		at = sx_kafka_offset_at(offset, part->topic, part->partition);

		if (at < 0 || part->kept_from > at)
			continue;
		part->kept_from = at;
		part->moved_from = -1;
		sx_kafka_part_release(source->fetcher, part, at);
	}
	sx_kafka_fetcher_poke(source->fetcher);
	sx_kafka_group_committed(source, offset, commit);
}

/* No topic has let go of what is not before the start; what compaction took in between nobody knows. */
static bool
retained(SxSource *base, const SxOffset *start, const SxOffset *end)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	const SxKafkaPositions *to = &((const SxKafkaOffset *) end)->positions;

	sx_kafka_connect(source);
	sx_kafka_ask_ends_of(source, NULL);
	for (int i = 0; i < to->n; i++)
	{
		int64		begin = sx_kafka_offset_at((const SxKafkaOffset *) start, to->at[i].topic,
											   to->at[i].partition);
		bool		found = false;

		for (int j = 0; j < source->nparts; j++)
		{
			const SxKafkaPart *part = source->parts[j];

			if (part->partition == to->at[i].partition && strcmp(part->topic, to->at[i].topic) == 0)
				found = part->low >= 0 && (part->low <= Max(begin, 0) || to->at[i].offset <= Max(begin, 0));
		}
		if (!found)
			return false;
	}
	return true;
}

/* ---- progress ---- */

static char *
newest(SxSource *base, const SxOffset *end)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	SxKafkaOffset *offset;

	if (source->fetcher == NULL)
		return NULL;
	offset = sx_kafka_offset_make(&sx_kafka_source_routine, source->nparts);
	for (int i = 0; i < source->nparts; i++)
	{
		SxKafkaPartState state;

		if (source->parts[i]->gone)
			continue;
		sx_kafka_part_state(source->fetcher, source->parts[i], &state);
		sx_kafka_positions_append(&offset->positions, source->parts[i]->topic,
								  source->parts[i]->partition,
								  sx_kafka_known_end(source, source->parts[i], &state));
	}
	return sx_kafka_positions_print(&offset->positions);
}

/* Spark's words: strings, the average with one decimal. */
static char *
metrics(SxSource *base, const SxOffset *end)
{
	SxKafkaSource *source = (SxKafkaSource *) base;
	int64		least = PG_INT64_MAX;
	int64		most = 0;
	int64		total = 0;
	int			n = 0;

	for (int i = 0; source->fetcher != NULL && i < source->nparts; i++)
	{
		SxKafkaPart *part = source->parts[i];
		int64		at = sx_kafka_offset_at((const SxKafkaOffset *) end, part->topic,
											part->partition);
		SxKafkaPartState state;
		int64		behind;

		if (at < 0)
			continue;
		sx_kafka_part_state(source->fetcher, part, &state);
		behind = Max(sx_kafka_known_end(source, part, &state) - at, 0);
		least = Min(least, behind);
		most = Max(most, behind);
		total += behind;
		n++;
	}
	if (n == 0)
		return NULL;
	return psprintf("{\"avgOffsetsBehindLatest\":\"%.1f\",\"maxOffsetsBehindLatest\":\"" INT64_FORMAT
					"\",\"minOffsetsBehindLatest\":\"" INT64_FORMAT "\"}",
					(double) total / n, most, least);
}

const SxSourceRoutine sx_kafka_source_routine = {
	.name = "kafka",
	.open = open_source,
	.initial = sx_kafka_initial,
	.initial_varies = true,
	.next_end = sx_kafka_next_end,
	.available = sx_kafka_available,
	.latest = sx_kafka_latest,
	.next_time = sx_kafka_next_time,
	.scan_begin = sx_kafka_scan_begin,
	.scan_next = sx_kafka_scan_next,
	.scan_rescan = sx_kafka_scan_rescan,
	.scan_end = sx_kafka_scan_end,
	.scan_all = sx_kafka_scan_all,
	.scan_restrict = sx_kafka_scan_restrict,
	.can_restrict = sx_kafka_can_restrict,
	.malformed = malformed,
	.record = sx_kafka_scan_record,
	.reread = sx_kafka_reread,
	.offset_print = offset_print,
	.offset_parse = offset_parse,
	.offset_equal = offset_equal,
	.offset_copy = offset_copy,
	.retained = retained,
	.forget = forget,
	.newest = newest,
	.metrics = metrics,
	.close = close_source,
};
