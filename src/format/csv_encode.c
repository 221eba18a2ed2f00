/*
 * csv_encode.c
 *		Rows into lines of CSV, without the line's end. Thread: main.
 *
 * As Spark: quotes only where they are needed, NULL as null_value, an empty string as
 * two quotes. White space at the ends of a value stays, which Spark cuts off by
 * default: nobody asked for the loss.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/lsyscache.h"
#include "utils/datetime.h"
#include "utils/timestamp.h"

#include "format/column.h"

typedef struct CsvColumn
{
	int			index;
	Oid			type;
	FmgrInfo	output;
} CsvColumn;

typedef struct CsvEncoder
{
	SxEncoder	base;
	const SxFormatOptions *options; /* a copy */
	int			ncolumns;
	CsvColumn  *columns;
} CsvEncoder;

SxEncoder *
sx_csv_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	CsvEncoder *encoder = palloc0(sizeof(CsvEncoder));
	SxFormatOptions *copy = palloc(sizeof(SxFormatOptions));

	*copy = *options;
	copy->null_value = pstrdup(options->null_value);
	encoder->base.routine = &sx_csv_format;
	encoder->options = copy;
	encoder->columns = palloc0(sizeof(CsvColumn) * Max(target->desc->natts, 1));
	for (int i = 0; i < target->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(target->desc, i);
		CsvColumn  *column = &encoder->columns[encoder->ncolumns];
		Oid			output;
		bool		is_varlena;

		if (att->attisdropped || (target->from_value != NULL && !target->from_value[i]))
			continue;
		encoder->ncolumns++;
		column->index = i;
		column->type = att->atttypid;
		getTypeOutputInfo(att->atttypid, &output, &is_varlena);
		fmgr_info(output, &column->output);
	}
	return &encoder->base;
}

static bool
needs_quotes(const CsvEncoder *encoder, const char *text, bool first)
{
	const SxFormatOptions *options = encoder->options;

	if (text[0] == '\0' || options->write_quotes_all ||
		strcmp(text, options->null_value) == 0 ||
		(first && text[0] == options->comment))
		return true;
	for (; *text != '\0'; text++)
		if (*text == options->separator || *text == options->quote || *text == '\n' || *text == '\r')
			return true;
	return false;
}

static void
write_field(CsvEncoder *encoder, const char *text, bool first, StringInfo out)
{
	const SxFormatOptions *options = encoder->options;

	if (options->quote == '\0' || !needs_quotes(encoder, text, first))
	{
		appendStringInfoString(out, text);
		return;
	}
	appendStringInfoChar(out, options->quote);
	for (; *text != '\0'; text++)
	{
		if (options->escape != '\0' && (*text == options->quote || *text == options->escape))
			appendStringInfoChar(out, options->escape);
		appendStringInfoChar(out, *text);
	}
	appendStringInfoChar(out, options->quote);
}

bool
sx_csv_encode(SxEncoder *base, TupleTableSlot *slot, StringInfo out)
{
	CsvEncoder *encoder = (CsvEncoder *) base;
	char		time[MAXDATELEN + 1];

	slot_getallattrs(slot);
	for (int i = 0; i < encoder->ncolumns; i++)
	{
		CsvColumn  *column = &encoder->columns[i];
		Datum		value = slot->tts_values[column->index];

		if (i > 0)
			appendStringInfoChar(out, encoder->options->separator);
		if (slot->tts_isnull[column->index])
			appendStringInfoString(out, encoder->options->null_value);
		else if (column->type == TIMESTAMPTZOID)
		{
			sx_timestamptz_print(DatumGetTimestampTz(value), encoder->options->time_zone, time);
			write_field(encoder, time, i == 0, out);
		}
		else if (column->type == BOOLOID)
			appendStringInfoString(out, DatumGetBool(value) ? "true" : "false");
		else
			write_field(encoder, OutputFunctionCall(&column->output, value), i == 0, out);
	}
	return true;
}
