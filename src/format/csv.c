/*
 * csv.c
 *		Lines of CSV into rows.
 *
 * As Spark's reader: columns by their place; the escape of a quote inside quotes is
 * a backslash unless said otherwise, and where a quote inside quotes is not escaped,
 * the field counts as not quoted at all and goes on to the next separator. Too few
 * fields leave NULLs, too many are ignored, and both make the record malformed.
 * A field equal to null_value, the empty one by default, is NULL, quoted or not.
 */
#include "postgres.h"

#include <math.h>

#include "format/column.h"

typedef struct CsvDecoder
{
	SxDecoder	base;
	SxTextRules rules;
	int			ncolumns;
	SxColumn   *columns;		/* all of the value's, in their order */
	char		separator;
	char		quote;
	char		escape;
	char		comment;
	bool		trim_leading;
	bool		trim_trailing;
	bool		multi_line;
	int			max_columns;
	char	   *null_value;		/* malloc'ed, these */
	char	   *empty_value;
	char	   *nan_value;
	char	   *positive_inf;
	char	   *negative_inf;
} CsvDecoder;

/* One record. */
typedef struct CsvReader
{
	CsvDecoder *decoder;
	const char *at;
	const char *line;			/* its first byte */
	const char *end;			/* of the line, or of the record where a line may end in quotes */
	SxRowBuffer *out;
	SxRowCells	cells;
	char	   *scratch;		/* as long as the record */
} CsvReader;

typedef struct CsvField
{
	const char *text;
	size_t		len;
	bool		quoted;
} CsvField;

static inline bool
is_line_end(char c)
{
	return c == '\n' || c == '\r';
}

static inline bool
is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* ---- fields ---- */

static inline bool
ends_field(const CsvReader *reader, const char *at)
{
	return at >= reader->end || *at == reader->decoder->separator || is_line_end(*at);
}

static void
read_plain(CsvReader *reader, CsvField *field)
{
	const CsvDecoder *decoder = reader->decoder;
	const char *start = reader->at;
	const char *at = start;
	const char *end;

	while (!ends_field(reader, at))
		at++;
	reader->at = end = at;
	while (decoder->trim_leading && start < end && is_blank(*start))
		start++;
	while (decoder->trim_trailing && end > start && is_blank(end[-1]))
		end--;
	field->text = start;
	field->len = end - start;
	field->quoted = false;
}

/* reader->at is at the quote; false: not a quoted field after all. */
static bool
read_quoted(CsvReader *reader, CsvField *field)
{
	const CsvDecoder *decoder = reader->decoder;
	const char *at = reader->at + 1;
	char	   *to = reader->scratch;

	while (at < reader->end)
	{
		char		c = *at;

		if (c == decoder->escape && at + 1 < reader->end && decoder->escape != '\0' &&
			(at[1] == decoder->quote || (at[1] == decoder->escape && decoder->escape != decoder->quote)))
		{
			*to++ = at[1];
			at += 2;
			continue;
		}
		if (c != decoder->quote)
		{
			if (is_line_end(c) && !decoder->multi_line)
				return false;
			*to++ = c;
			at++;
			continue;
		}
		at++;
		while (at < reader->end && is_blank(*at) && *at != decoder->separator)
			at++;
		if (!ends_field(reader, at))
			return false;
		field->text = reader->scratch;
		field->len = to - reader->scratch;
		field->quoted = true;
		reader->scratch = to;
		reader->at = at;
		return true;
	}
	return false;				/* the quote is never closed */
}

static void
read_field(CsvReader *reader, CsvField *field)
{
	const CsvDecoder *decoder = reader->decoder;
	const char *start = reader->at;

	while (reader->at < reader->end && is_blank(*reader->at) && *reader->at != decoder->separator)
		reader->at++;
	if (decoder->quote != '\0' && reader->at < reader->end && *reader->at == decoder->quote &&
		(reader->at == start || decoder->trim_leading) && read_quoted(reader, field))
		return;
	reader->at = start;
	read_plain(reader, field);
}

/* ---- cells ---- */

static inline bool
field_is(const CsvField *field, const char *text)
{
	return field->len == strlen(text) && memcmp(field->text, text, field->len) == 0;
}

static SxCellResult
set_cell(CsvReader *reader, const SxColumn *column, const CsvField *field, const char **reason)
{
	const CsvDecoder *decoder = reader->decoder;
	double		special;
	uintptr_t	value;
	CsvField	empty;

	if (field->quoted && field->len == 0)
	{
		empty.text = decoder->empty_value;
		empty.len = strlen(decoder->empty_value);
		field = &empty;
	}
	if (field_is(field, decoder->null_value))
		return SX_CELL_OK;
	switch (column->kind)
	{
		case SX_KIND_FLOAT4:
		case SX_KIND_FLOAT8:
			if (field_is(field, decoder->nan_value))
				special = NAN;
			else if (field_is(field, decoder->positive_inf))
				special = INFINITY;
			else if (field_is(field, decoder->negative_inf))
				special = -INFINITY;
			else
				break;
			reader->cells.values[column->index] = column->kind == SX_KIND_FLOAT8 ?
				(uintptr_t) Float8GetDatum(special) : (uintptr_t) Float4GetDatum((float) special);
			reader->cells.kinds[column->index] = SX_CELL_READY;
			return SX_CELL_OK;
		case SX_KIND_BYTEA:
			if (field->len >= 2 && field->text[0] == '\\' && field->text[1] == 'x')
				break;
			value = sx_row_buffer_varlena(reader->out, field->text, field->len);
			if (value == 0)
				return SX_CELL_NO_MEMORY;
			reader->cells.values[column->index] = value;
			reader->cells.kinds[column->index] = SX_CELL_READY;
			return SX_CELL_OK;
		default:
			break;
	}
	return sx_cell_from_text(column, &decoder->rules, field->text, field->len, reader->out,
							 &reader->cells, reason);
}

/* False: no memory. */
static bool
read_fields(CsvReader *reader)
{
	const CsvDecoder *decoder = reader->decoder;
	SxRow	   *row = reader->cells.row;
	char		counts[64];

	for (int i = 0;; i++)
	{
		const SxColumn *column = i < decoder->ncolumns ? &decoder->columns[i] : NULL;
		const char *reason = "invalid value";
		CsvField	field;
		SxCellResult result = SX_CELL_OK;

		if (i >= decoder->max_columns)
		{
			/* Spark gives up here; a record is a record, so only the rest of it is lost. */
			while (reader->at < reader->end && !is_line_end(*reader->at))
				reader->at++;
			return sx_row_set_error(reader->out, row, NULL, "more fields than max_columns", NULL, 0);
		}
		read_field(reader, &field);
		if (column != NULL && column->needed)
			result = set_cell(reader, column, &field, &reason);
		if (result == SX_CELL_NO_MEMORY ||
			(result == SX_CELL_BAD &&
			 !sx_row_set_error(reader->out, row, column->label, reason, field.text, field.len)))
			return false;
		if (reader->at < reader->end && *reader->at == decoder->separator)
		{
			reader->at++;
			continue;
		}
		if (i + 1 == decoder->ncolumns)
			return true;
		snprintf(counts, sizeof(counts), "%d fields instead of %d", i + 1, decoder->ncolumns);
		return sx_row_set_error(reader->out, row, NULL, counts, NULL, 0);
	}
}

/* ---- records ---- */

static bool
line_is_blank(const char *at, const char *end)
{
	for (; at < end && !is_line_end(*at); at++)
		if ((unsigned char) *at > ' ')
			return false;
	return true;
}

/* The line that begins here, without its end; where nothing is quoted across lines. */
static const char *
end_of_line(const char *at, const char *end)
{
	while (at < end && !is_line_end(*at))
		at++;
	return at;
}

static bool
read_line(CsvReader *reader, bool keep_raw)
{
	SxRow	   *row;

	if (!sx_row_buffer_append(reader->out, &reader->cells))
		return false;
	row = reader->cells.row;
	if (!read_fields(reader))
		return false;
	if (!keep_raw && row->error == NULL)
		return true;
	row->raw_len = reader->at - reader->line;
	row->raw = sx_row_buffer_copy(reader->out, reader->line, row->raw_len);
	return row->raw != NULL;
}

static bool
csv_decode(SxDecoder *base, const char *data, size_t len, SxRowBuffer *out)
{
	CsvDecoder *decoder = (CsvDecoder *) base;
	int64		first_row = out->nrows;
	CsvReader	reader = {.decoder = decoder, .out = out};
	const char *end = data + len;
	const char *at = data;
	SxRowCells	cells;

	if (data == NULL || len > SX_RECORD_MAX)
	{
		if (!sx_row_buffer_append(out, &cells))
			return false;
		cells.row->tombstone = data == NULL;
		return data == NULL ||
			sx_row_set_error(out, cells.row, NULL, "record is too large", NULL, 0);
	}
	reader.scratch = sx_row_buffer_alloc_bytes(out, len + 1);
	while (reader.scratch != NULL && at < end)
	{
		if (is_line_end(*at) || line_is_blank(at, end) ||
			(decoder->comment != '\0' && *at == decoder->comment))
			at = end_of_line(at, end);
		else
		{
			reader.line = reader.at = at;
			reader.end = decoder->multi_line ? end : end_of_line(at, end);
			if (!read_line(&reader, out->keep_raw))
			{
				reader.scratch = NULL;
				break;
			}
			at = reader.at;
		}
		if (at < end)
			at++;				/* \r\n leaves a blank line between, which is none */
	}
	if (reader.scratch != NULL)
		return true;
	sx_row_buffer_truncate(out, first_row);
	out->out_of_memory = true;
	return false;
}

/* ---- open, check ---- */

static void
csv_check(const SxFormatTarget *target, const SxFormatOptions *options)
{
	sx_format_check_encoding();
	(void) sx_format_corrupt_column(target->desc, options);
	if (options->separator == options->quote || options->separator == '\n' ||
		options->separator == '\r')
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("the separator of CSV fields is the quote, or ends a line"),
				 errhint("Set option \"sep\" or \"quote\" to another character.")));
}

static void
csv_close_decoder(SxDecoder *base)
{
	CsvDecoder *decoder = (CsvDecoder *) base;

	sx_columns_free(decoder->columns, Max(decoder->ncolumns, 0));
	free(decoder->null_value);
	free(decoder->empty_value);
	free(decoder->nan_value);
	free(decoder->positive_inf);
	free(decoder->negative_inf);
	free(decoder);
}

static SxDecoder *
csv_open_decoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	CsvDecoder *decoder;

	csv_check(target, options);
	decoder = calloc(1, sizeof(CsvDecoder));
	if (decoder == NULL)
		sx_format_out_of_memory();
	decoder->base.routine = &sx_csv_format;
	decoder->separator = options->separator;
	decoder->quote = options->quote;
	decoder->escape = options->escape;
	decoder->comment = options->comment;
	decoder->trim_leading = options->trim_leading;
	decoder->trim_trailing = options->trim_trailing;
	decoder->multi_line = options->multi_line;
	decoder->max_columns = options->max_columns;
	decoder->null_value = strdup(options->null_value);
	decoder->empty_value = strdup(options->empty_value);
	decoder->nan_value = strdup(options->nan_value);
	decoder->positive_inf = strdup(options->positive_inf);
	decoder->negative_inf = strdup(options->negative_inf);
	sx_text_rules_init(&decoder->rules, options);
	decoder->ncolumns = sx_columns_make(target, options, true, &decoder->columns);
	if (decoder->ncolumns < 0 || decoder->null_value == NULL || decoder->empty_value == NULL ||
		decoder->nan_value == NULL || decoder->positive_inf == NULL || decoder->negative_inf == NULL)
	{
		csv_close_decoder(&decoder->base);
		sx_format_out_of_memory();
	}
	return &decoder->base;
}

const SxFormatRoutine sx_csv_format = {
	.name = "csv",
	.check = csv_check,
	.open_decoder = csv_open_decoder,
	.decode = csv_decode,
	.close_decoder = csv_close_decoder,
	.open_encoder = sx_csv_open_encoder,
	.encode = sx_csv_encode,
};
