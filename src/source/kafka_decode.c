/*
 * kafka_decode.c
 *		Which columns of a Kafka stream are decoded, and its records as slots.
 *
 * Every set of columns that was ever decoded has a number; a chunk carries that of
 * its decoder. Sets only grow, so after the first batch the thread knows all that
 * the query wants. Where a malformed record is more than NULLs in its row (mode, the
 * corrupt-record column, a quarantine) all columns count, or it would depend on the
 * plan which records are malformed.
 */
#include "postgres.h"

#include "utils/memutils.h"

#include "base/errors.h"
#include "source/kafka_decode.h"

typedef struct SxKafkaOwnDecoder
{
	SxDecoder  *decoder;
	int			number;
	MemoryContextCallback on_reset;
} SxKafkaOwnDecoder;

/* ---- columns ---- */

static void
add_all(SxKafkaSource *source, Bitmapset **columns)
{
	for (int i = 0; i < source->columns.desc->natts; i++)
		if (source->columns.from_value[i])
			*columns = bms_add_member(*columns, i + 1);
}

Bitmapset *
sx_kafka_columns_needed(SxKafkaSource *source, const SxScan *scan)
{
	const SxKafkaColumns *it = &source->columns;
	Bitmapset  *columns = bms_make_singleton(0);	/* so that it isn't NULL */

	if (source->base.quarantine || it->format->mode == SX_MODE_DROPMALFORMED ||
		it->format->mode == SX_MODE_FAILFAST ||
		(it->corrupt > 0 && it->corrupt <= scan->last_needed &&
		 (scan->needed == NULL || bms_is_member(it->corrupt, scan->needed))))
	{
		add_all(source, &columns);
		return columns;
	}
	for (int i = 0; i < it->desc->natts && i < scan->last_needed; i++)
		if (it->from_value[i] && (scan->needed == NULL || bms_is_member(i + 1, scan->needed)))
			columns = bms_add_member(columns, i + 1);
	return columns;
}

static SxDecoder *
open_decoder(SxKafkaSource *source, const Bitmapset *columns)
{
	const SxKafkaColumns *it = &source->columns;
	bool	   *from_value = palloc0(sizeof(bool) * Max(it->desc->natts, 1));
	SxFormatTarget target = {
		.desc = it->desc,
		.from_value = from_value,
		.fields = it->fields,
	};
	SxDecoder  *decoder;

	for (int i = 0; i < it->desc->natts; i++)
		from_value[i] = it->from_value[i] && bms_is_member(i + 1, columns);
	decoder = it->routine->open_decoder(&target, it->format);
	pfree(from_value);
	return decoder;
}

void
sx_kafka_need_columns(SxKafkaSource *source, const Bitmapset *columns)
{
	MemoryContext oldcontext;

	if (source->needed == NULL || !bms_is_subset(columns, source->needed))
	{
		oldcontext = MemoryContextSwitchTo(source->context);
		source->needed = bms_add_members(source->needed, columns);
		source->decoders = lappend(source->decoders, bms_copy(source->needed));
		source->decoder_told = false;
		MemoryContextSwitchTo(oldcontext);
	}
	if (source->fetcher == NULL || source->decoder_told)
		return;
	sx_kafka_fetcher_set_decoder(source->fetcher, open_decoder(source, source->needed),
								 source->columns.desc->natts, list_length(source->decoders));
	source->decoder_told = true;
}

/* ---- decoding here ---- */

static void
close_own(void *arg)
{
	SxKafkaOwnDecoder *own = arg;

	if (own->decoder != NULL)
		sx_decoder_close(own->decoder);
	own->decoder = NULL;
}

static SxDecoder *
own_decoder(SxKafkaSource *source)
{
	SxKafkaOwnDecoder *own = source->own;
	int			newest = list_length(source->decoders);

	if (own == NULL)
	{
		own = MemoryContextAllocZero(source->context, sizeof(SxKafkaOwnDecoder));
		own->on_reset.func = close_own;
		own->on_reset.arg = own;
		MemoryContextRegisterResetCallback(source->context, &own->on_reset);
		source->own = own;
	}
	if (own->number != newest)
	{
		close_own(own);
		own->number = 0;
		own->decoder = open_decoder(source, source->needed);
		own->number = newest;
	}
	return own->decoder;
}

static void
decode_record(SxDecoder *decoder, const char *data, size_t len, SxRowBuffer *rows)
{
	SxRowBuffer why;

	if (sx_decode(decoder, data, len, rows))
		return;
	why = *rows;
	sx_row_buffer_destroy(rows);
	sx_format_raise_failure(&why);
}

/* From the values that were kept for want of a decoder. */
static void
decode_values(SxDecoder *decoder, SxKafkaChunk *chunk, SxRowBuffer *rows)
{
	for (int i = 0; i < chunk->nrecords; i++)
	{
		SxKafkaRecord *record = &chunk->records[i];

		record->row = rows->nrows;
		rows->tag = i;
		if (record->value == NULL)
			decode_record(decoder, NULL, 0, rows);
		else
			decode_record(decoder, VARDATA(record->value),
						  VARSIZE(record->value) - VARHDRSZ, rows);
	}
}

/* From the bytes that stay with decoded rows, a record's with each of its rows. */
static void
decode_again(SxDecoder *decoder, const SxRowBuffer *old, SxRowBuffer *rows)
{
	int64		done = -1;

	for (int64 i = 0; i < old->nrows; i++)
	{
		const SxRow *row = sx_row_buffer_row(old, i);

		if (row->tag == done)
			continue;
		done = rows->tag = row->tag;
		decode_record(decoder, row->raw, row->raw_len, rows);
	}
}

SxRowBuffer *
sx_kafka_decoded_rows(SxKafkaSource *source, SxKafkaChunk *chunk, const Bitmapset *columns)
{
	SxDecoder  *decoder;
	SxRowBuffer *rows;

	if (chunk->decoded_by > 0 &&
		bms_is_subset(columns, list_nth(source->decoders, chunk->decoded_by - 1)))
		return chunk->rows;
	decoder = own_decoder(source);
	rows = sx_row_buffer_create(source->columns.desc->natts, true);
	if (rows == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory")));
	if (chunk->decoded_by == 0)
		decode_values(decoder, chunk, rows);
	else
		decode_again(decoder, chunk->rows, rows);
	sx_kafka_chunk_replace_rows(chunk, rows);
	chunk->decoded_by = list_length(source->decoders);
	return rows;
}

/* ---- slots ---- */

static char *
where_is(void *arg, const SxRow *row)
{
	SxKafkaSource *source = arg;

	return psprintf("topic \"%s\", partition %d, offset " INT64_FORMAT,
					source->part_now->topic, source->part_now->partition,
					source->chunk_now->records[row->tag].offset);
}

SxFiller *
sx_kafka_make_filler(SxKafkaSource *source)
{
	SxFormatTarget target = {
		.desc = source->columns.desc,
		.from_value = source->columns.from_value,
		.fields = source->columns.fields,
	};

	return sx_filler_create(&target, source->columns.format, source->base.quarantine,
							where_is, source);
}

/* Broken text in a metadata column: the record is malformed, as if its value were. */
static bool
take_broken(SxKafkaSource *source, const SxKafkaRecord *record, const char *wrong)
{
	if (source->columns.format->mode == SX_MODE_DROPMALFORMED)
		return false;
	if (source->columns.format->mode == SX_MODE_FAILFAST)
		ereport(ERROR,
				(errcode(SX_MALFORMED_SQLSTATE),
				 errmsg("malformed record in stream %s: %s", source->base.name, wrong),
				 errdetail("Topic \"%s\", partition %d, offset " INT64_FORMAT ".",
						   source->part_now->topic, source->part_now->partition, record->offset)));
	return true;
}

bool
sx_kafka_fill_slot(SxKafkaSource *source, SxFiller *filler, const SxKafkaPart *part,
				   const SxKafkaChunk *chunk, SxRowBuffer *rows, int64 n,
				   AttrNumber last_needed, TupleTableSlot *slot)
{
	const SxKafkaRecord *record;
	const char *wrong;

	ExecClearTuple(slot);
	memset(slot->tts_isnull, true, slot->tts_tupleDescriptor->natts * sizeof(bool));
	source->part_now = part;
	source->chunk_now = chunk;
	if (rows != NULL)
	{
		const SxRow *row = sx_row_buffer_row(rows, n);
		SxFill		fill = sx_filler_fill(filler, rows, n, last_needed, slot);

		record = &chunk->records[row->tag];
		if (fill == SX_FILL_QUARANTINE)
			sx_kafka_note_malformed(source, record, row);
		if (fill != SX_FILL_ROW)
			return false;
	}
	else
		record = &chunk->records[n];
	wrong = source->columns.has_metadata ?
		sx_kafka_columns_fill(&source->columns, part, record, last_needed, slot) : NULL;
	if (wrong != NULL && !take_broken(source, record, wrong))
	{
		ExecClearTuple(slot);
		return false;
	}
	ExecStoreVirtualTuple(slot);
	return true;
}
