/*
 * raw.c
 *		The bytes of a record as they are, in one column.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

#include "format/column.h"

typedef struct RawDecoder
{
	SxDecoder	base;
	SxTextRules rules;
	int			ncolumns;		/* 0 or 1 */
	SxColumn   *columns;
} RawDecoder;

typedef struct RawEncoder
{
	SxEncoder	base;
	int			index;
	bool		as_is;			/* text and bytea */
	FmgrInfo	output;
} RawEncoder;

/* The one column of the value; InvalidAttrNumber: none. */
static AttrNumber
value_column(const SxFormatTarget *target, const SxFormatOptions *options)
{
	AttrNumber	corrupt = sx_format_corrupt_column(target->desc, options);
	AttrNumber	found = InvalidAttrNumber;

	for (int i = 0; i < target->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(target->desc, i);

		if (att->attisdropped || att->attnum == corrupt ||
			(target->from_value != NULL && !target->from_value[i]))
			continue;
		if (found != InvalidAttrNumber)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("format \"raw\" has one column for the value, not two: \"%s\" and \"%s\"",
							NameStr(TupleDescAttr(target->desc, found - 1)->attname),
							NameStr(att->attname)),
					 errdetail("It gives the value's bytes as they are."),
					 errhint("Use format \"json\", \"csv\" or \"avro\" to read fields from the value.")));
		found = att->attnum;
	}
	return found;
}

static void
raw_check(const SxFormatTarget *target, const SxFormatOptions *options)
{
	(void) value_column(target, options);
}

static void
raw_close_decoder(SxDecoder *base)
{
	RawDecoder *decoder = (RawDecoder *) base;

	sx_columns_free(decoder->columns, decoder->ncolumns);
	free(decoder);
}

static SxDecoder *
raw_open_decoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	AttrNumber	attnum = value_column(target, options);
	RawDecoder *decoder;

	if (attnum != InvalidAttrNumber && TupleDescAttr(target->desc, attnum - 1)->atttypid != BYTEAOID)
		sx_format_check_encoding();
	decoder = calloc(1, sizeof(RawDecoder));
	if (decoder == NULL)
		sx_format_out_of_memory();
	decoder->base.routine = &sx_raw_format;
	decoder->ncolumns = sx_columns_make(target, options, false, &decoder->columns);
	if (decoder->ncolumns < 0)
	{
		free(decoder);
		sx_format_out_of_memory();
	}
	sx_text_rules_init(&decoder->rules, options);
	return &decoder->base;
}

static bool
raw_decode(SxDecoder *base, const char *data, size_t len, SxRowBuffer *out)
{
	RawDecoder *decoder = (RawDecoder *) base;
	const SxColumn *column = decoder->columns;
	const char *reason = "invalid value";
	SxCellResult result = SX_CELL_OK;
	SxRowCells	cells;
	bool		bytes = decoder->ncolumns > 0 && column->kind == SX_KIND_BYTEA;

	if (!sx_row_buffer_append(out, &cells))
		return false;
	if (data == NULL)
	{
		cells.row->tombstone = true;
		return true;
	}
	if (len > SX_RECORD_MAX)
		return sx_row_set_error(out, cells.row, NULL, "record is too large", NULL, 0);
	if (bytes)
	{
		/* They are their own copy. */
		uintptr_t	value = sx_row_buffer_varlena(out, data, len);

		if (value != 0)
		{
			cells.values[column->index] = value;
			cells.kinds[column->index] = SX_CELL_READY;
			cells.row->raw = VARDATA_ANY(value);
			cells.row->raw_len = len;
			return true;
		}
		result = SX_CELL_NO_MEMORY;
	}
	else if (decoder->ncolumns > 0)
		result = sx_cell_from_text(column, &decoder->rules, data, len, out, &cells, &reason);
	if (result == SX_CELL_BAD &&
		!sx_row_set_error(out, cells.row, column->label, reason, data, len))
		result = SX_CELL_NO_MEMORY;
	if (result != SX_CELL_NO_MEMORY && (out->keep_raw || cells.row->error != NULL))
	{
		cells.row->raw = sx_row_buffer_copy(out, data, len);
		cells.row->raw_len = len;
		if (cells.row->raw == NULL)
			result = SX_CELL_NO_MEMORY;
	}
	if (result != SX_CELL_NO_MEMORY)
		return true;
	sx_row_buffer_truncate(out, out->nrows - 1);
	out->out_of_memory = true;
	return false;
}

/* ---- writing ---- */

static SxEncoder *
raw_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	RawEncoder *encoder = palloc0(sizeof(RawEncoder));
	AttrNumber	attnum = value_column(target, options);
	Oid			type;
	Oid			output;
	bool		is_varlena;

	if (attnum == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
				 errmsg("format \"raw\" needs a column for the value"),
				 errhint("Name it \"value\".")));
	type = TupleDescAttr(target->desc, attnum - 1)->atttypid;
	encoder->base.routine = &sx_raw_format;
	encoder->index = attnum - 1;
	encoder->as_is = type == BYTEAOID || type == TEXTOID || type == VARCHAROID || type == JSONOID;
	getTypeOutputInfo(type, &output, &is_varlena);
	fmgr_info(output, &encoder->output);
	return &encoder->base;
}

static bool
raw_encode(SxEncoder *base, TupleTableSlot *slot, StringInfo out)
{
	RawEncoder *encoder = (RawEncoder *) base;
	bool		isnull;
	Datum		value = slot_getattr(slot, encoder->index + 1, &isnull);

	if (isnull)
		return false;
	if (encoder->as_is)
	{
		struct varlena *bytes = PG_DETOAST_DATUM_PACKED(value);

		appendBinaryStringInfo(out, VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes));
	}
	else
		appendStringInfoString(out, OutputFunctionCall(&encoder->output, value));
	return true;
}

const SxFormatRoutine sx_raw_format = {
	.name = "raw",
	.check = raw_check,
	.open_decoder = raw_open_decoder,
	.decode = raw_decode,
	.close_decoder = raw_close_decoder,
	.open_encoder = raw_open_encoder,
	.encode = raw_encode,
};
