/*
 * json.c
 *		Records of JSON into rows.
 *
 * The columns are filled in one pass over the text:
 *
 *	 for each field: its name ── as the last record's at this place? ── its column
 *							  └─ else looked up, and remembered for this place
 *					 its value ── read by the column's kind, or only checked
 *
 * A record's fields come in the same order as in the record before, nearly always,
 * so a name costs one comparison. The whole record is checked, whichever columns are
 * wanted: whether it is malformed must not depend on the query. As in Spark, a
 * value that doesn't fit its column leaves that column NULL and makes the record
 * malformed; broken syntax leaves all columns NULL; of two fields of one name the last
 * wins; what follows the document is ignored; names are compared exactly.
 *
 * Why not simdjson, whose on-demand reader is as fast on such records: it checks
 * only what is asked for, and knows none of Jackson's leniencies, of which Spark has
 * two switched on; they would need this reader besides.
 */
#include "postgres.h"

#include <math.h>

#include "format/column.h"
#include "format/json_scan.h"

#define MAX_GUESSES		128
#define GUESS_BYTES		62

/* The name of a field at its place in the last record, with the closing quote. */
typedef struct Guess
{
	uint8		len;			/* 0: none */
	int16		column;			/* -1: not wanted */
	char		name[GUESS_BYTES + 1];
} Guess;

typedef struct JsonDecoder
{
	SxDecoder	base;
	SxJsonRules rules;
	SxTextRules text_rules;
	bool		no_arrays;
	int			natts;
	int			ncolumns;
	SxColumn   *columns;
	Guess		guesses[MAX_GUESSES];
	char	   *scratch;		/* records that are not kept, strings with escapes */
	size_t		scratch_size;
} JsonDecoder;

/* One record. */
typedef struct Reader
{
	JsonDecoder *decoder;
	SxJsonText	json;
	SxRowBuffer *out;
	SxRowCells	cells;
	const char *raw;			/* in the buffer, NULL: not kept */
	size_t		len;
	bool		no_memory;
} Reader;

/* ---- values ---- */

static bool
cell_error(Reader *reader, const SxColumn *column, const char *reason, const SxJsonSpan *span)
{
	reader->cells.kinds[column->index] = SX_CELL_NULL;
	if (!sx_row_set_error(reader->out, reader->cells.row, column->label, reason,
						  span->text, span->len))
		reader->no_memory = true;
	return !reader->no_memory;
}

static bool
cell_done(Reader *reader, const SxColumn *column, SxCellResult result, const char *reason,
		  const SxJsonSpan *span)
{
	if (result == SX_CELL_OK)
		return true;
	if (result == SX_CELL_BAD)
		return cell_error(reader, column, reason, span);
	reader->no_memory = true;
	return false;
}

static inline bool
cell_ready(Reader *reader, const SxColumn *column, uintptr_t value)
{
	reader->cells.values[column->index] = value;
	reader->cells.kinds[column->index] = SX_CELL_READY;
	return true;
}

static char *
scratch(JsonDecoder *decoder, size_t size)
{
	char	   *larger;

	if (size <= decoder->scratch_size)
		return decoder->scratch;
	larger = realloc(decoder->scratch, size + size / 2);
	if (larger == NULL)
		return NULL;
	decoder->scratch = larger;
	decoder->scratch_size = size + size / 2;
	return larger;
}

/* A string goes into any column that a string of text can stand for. */
static bool
string_cell(Reader *reader, const SxColumn *column, SxJsonSpan *span)
{
	const SxTextRules *rules = &reader->decoder->text_rules;
	const char *reason = "invalid value";
	bool		plain = !span->escaped;
	SxJsonSpan	text = *span;
	char	   *unescaped = NULL;
	double		number;
	SxCellResult result;

	if (column->kind == SX_KIND_TEXT && plain && !span->high && !reader->json.nonstandard)
	{
		if (column->max_chars < 0 || span->len <= (size_t) column->max_chars)
		{
			uintptr_t	value = sx_row_buffer_varlena(reader->out, span->text, span->len);

			if (value != 0)
				return cell_ready(reader, column, value);
			reader->no_memory = true;
			return false;
		}
	}
	if (span->escaped)
	{
		unescaped = sx_row_buffer_alloc_bytes(reader->out, span->len + 1);
		if (unescaped == NULL)
		{
			reader->no_memory = true;
			return false;
		}
		text.len = sx_json_unescape(span, rules->replace_invalid, unescaped);
		text.text = unescaped;
	}
	switch (column->kind)
	{
		case SX_KIND_TEXT:
			result = sx_cell_from_string(column, rules, text.text, text.len, false,
										 reader->out, &reader->cells, &reason);
			break;
		case SX_KIND_BOOL:
			return cell_error(reader, column, "boolean expected", span);
		case SX_KIND_INT2:
		case SX_KIND_INT4:
		case SX_KIND_INT8:
			return cell_error(reader, column, "integer expected", span);
		case SX_KIND_FLOAT4:
		case SX_KIND_FLOAT8:
			if (sx_same_word(text.text, text.len, "NaN"))
				number = NAN;
			else if (sx_same_word(text.text, text.len, "Infinity") ||
					 sx_same_word(text.text, text.len, "+Infinity") ||
					 sx_same_word(text.text, text.len, "+INF"))
				number = INFINITY;
			else if (sx_same_word(text.text, text.len, "-Infinity") ||
					 sx_same_word(text.text, text.len, "-INF"))
				number = -INFINITY;
			else
				return cell_error(reader, column, "number expected", span);
			return cell_ready(reader, column, column->kind == SX_KIND_FLOAT8 ?
							  (uintptr_t) Float8GetDatum(number) :
							  (uintptr_t) Float4GetDatum((float) number));
		default:
			result = sx_cell_from_text(column, rules, text.text, text.len, reader->out,
									   &reader->cells, &reason);
			break;
	}
	return cell_done(reader, column, result, reason, span);
}

static bool
number_cell(Reader *reader, const SxColumn *column, SxJsonToken token, SxJsonSpan *span)
{
	const SxTextRules *rules = &reader->decoder->text_rules;
	const char *reason = "invalid value";
	int64		whole = span->value;
	SxCellResult result;

	switch (column->kind)
	{
		case SX_KIND_INT2:
		case SX_KIND_INT4:
		case SX_KIND_INT8:
			if (token != SX_JSON_INTEGER)
				return cell_error(reader, column, "integer expected", span);
			if (!span->small)
				break;
			if (column->kind == SX_KIND_INT8)
				return cell_ready(reader, column, (uintptr_t) Int64GetDatum(whole));
			if (column->kind == SX_KIND_INT4 && whole == (int32) whole)
				return cell_ready(reader, column, (uintptr_t) Int32GetDatum((int32) whole));
			if (column->kind == SX_KIND_INT2 && whole == (int16) whole)
				return cell_ready(reader, column, (uintptr_t) Int16GetDatum((int16) whole));
			return cell_error(reader, column, "integer out of range", span);
		case SX_KIND_TEXT:
			result = sx_cell_from_string(column, rules, span->text, span->len, true, reader->out,
										 &reader->cells, &reason);
			return cell_done(reader, column, result, reason, span);
		case SX_KIND_TIMESTAMPTZ:
			if (token != SX_JSON_INTEGER)
				return cell_error(reader, column, "timestamp expected", span);
			if ((!span->small && sx_text_to_int64(span->text, span->len, &whole) != SX_TEXT_OK) ||
				sx_epoch_to_timestamp(whole, rules->unit, &whole) != SX_TEXT_OK)
				return cell_error(reader, column, "timestamp out of range", span);
			return cell_ready(reader, column, (uintptr_t) Int64GetDatum(whole));
		case SX_KIND_BOOL:
			return cell_error(reader, column, "boolean expected", span);
		case SX_KIND_DATE:
			return cell_error(reader, column, "date expected", span);
		case SX_KIND_TIMESTAMP:
			return cell_error(reader, column, "timestamp expected", span);
		case SX_KIND_BYTEA:
		case SX_KIND_UUID:
			return cell_error(reader, column, "string expected", span);
		case SX_KIND_NESTED:
			return cell_error(reader, column, "object or array expected", span);
		default:
			break;
	}
	result = sx_cell_from_text(column, rules, span->text, span->len, reader->out, &reader->cells,
							   &reason);
	return cell_done(reader, column, result, reason, span);
}

/* The value's own JSON, for json, jsonb, composites and arrays. */
static bool
json_cell(Reader *reader, const SxColumn *column, const SxJsonSpan *span, uint8 kind)
{
	bool		safe = !reader->json.nonstandard && !reader->json.broken_utf8 &&
		!reader->json.wild_number;
	const char *reason = "invalid JSON";
	SxCellResult result;

	result = sx_cell_defer(column, &reader->decoder->text_rules, kind, span->text, span->len,
						   reader->out, &reader->cells, &reason);
	if (result == SX_CELL_OK && reader->json.unrepresentable)
	{
		if (reader->decoder->text_rules.replace_invalid)
			sx_json_patch_escapes((char *) reader->cells.values[column->index], span->len);
		else if (column->kind == SX_KIND_JSON && !column->is_jsonb)
			safe = true;		/* json keeps escapes as they are */
		else
			return cell_error(reader, column, "U+0000 or half a surrogate pair", span);
	}
	if (result == SX_CELL_OK && safe && kind == SX_CELL_TEXT)
		reader->cells.kinds[column->index] = SX_CELL_SAFE_TEXT;
	return cell_done(reader, column, result, reason, span);
}

static bool
other_cell(Reader *reader, const SxColumn *column, SxJsonToken token, SxJsonSpan *span)
{
	bool		nested = token == SX_JSON_OBJECT || token == SX_JSON_ARRAY;
	const char *reason = "invalid value";
	SxCellResult result;
	double		number;

	if (nested && column->kind == SX_KIND_NESTED)
		return json_cell(reader, column, span, SX_CELL_NESTED);
	switch (column->kind)
	{
		case SX_KIND_BOOL:
			if (!nested && token != SX_JSON_NON_NUMERIC)
				return cell_ready(reader, column, token == SX_JSON_TRUE);
			break;
		case SX_KIND_FLOAT4:
		case SX_KIND_FLOAT8:
			if (token != SX_JSON_NON_NUMERIC)
				return cell_error(reader, column, "number expected", span);
			number = span->text[0] == 'N' ? NAN : span->text[0] == '-' ? -INFINITY : INFINITY;
			return cell_ready(reader, column, column->kind == SX_KIND_FLOAT8 ?
							  (uintptr_t) Float8GetDatum(number) :
							  (uintptr_t) Float4GetDatum((float) number));
		case SX_KIND_TEXT:
			result = sx_cell_from_string(column, &reader->decoder->text_rules, span->text, span->len,
										 false, reader->out, &reader->cells, &reason);
			return cell_done(reader, column, result, reason, span);
		case SX_KIND_OTHER:
			result = sx_cell_defer(column, &reader->decoder->text_rules, SX_CELL_TEXT, span->text,
								   span->len, reader->out,
								   &reader->cells, &reason);
			return cell_done(reader, column, result, reason, span);
		default:
			break;
	}
	return cell_error(reader, column, nested ? "unexpected object or array" :
					  token == SX_JSON_NON_NUMERIC ? "unexpected value" : "unexpected boolean", span);
}

/* False: broken syntax, or no memory. */
static bool
read_column(Reader *reader, const SxColumn *column)
{
	SxJsonText *json = &reader->json;
	const char *start = json->at;
	bool		broken_before = json->broken_utf8;
	SxJsonSpan	span;
	SxJsonToken token;

	json->nonstandard = json->unrepresentable = json->broken_utf8 = json->wild_number = false;
	token = sx_json_value(json, &span);
	if (token == SX_JSON_BAD)
		return false;
	if (token == SX_JSON_NULL)
	{
		reader->cells.kinds[column->index] = SX_CELL_NULL;
		json->broken_utf8 = broken_before;
		return true;
	}
	if (column->kind == SX_KIND_JSON)
	{
		span.text = start;
		span.len = json->at - start;
		if (!json_cell(reader, column, &span, SX_CELL_TEXT))
			return false;
	}
	else if (token == SX_JSON_STRING)
	{
		if (!string_cell(reader, column, &span))
			return false;
	}
	else if (token == SX_JSON_INTEGER || token == SX_JSON_FLOAT)
	{
		if (!number_cell(reader, column, token, &span))
			return false;
	}
	else if (!other_cell(reader, column, token, &span))
		return false;
	json->broken_utf8 |= broken_before;
	return true;
}

/* ---- objects ---- */

static int
look_up(JsonDecoder *decoder, const SxJsonSpan *name)
{
	for (int i = 0; i < decoder->ncolumns; i++)
	{
		const SxColumn *column = &decoder->columns[i];

		if (column->name_len == name->len && memcmp(column->name, name->text, name->len) == 0)
			return i;
	}
	return -1;
}

static bool
find_column(Reader *reader, int place, const SxJsonSpan *name, int *column)
{
	JsonDecoder *decoder = reader->decoder;
	SxJsonSpan	plain = *name;

	if (name->escaped)
	{
		char	   *unescaped = sx_row_buffer_alloc_bytes(reader->out, name->len + 1);

		if (unescaped == NULL)
		{
			reader->no_memory = true;
			return false;
		}
		plain.len = sx_json_unescape(name, false, unescaped);
		plain.text = unescaped;
	}
	*column = look_up(decoder, &plain);
	if (place < MAX_GUESSES && name->len < GUESS_BYTES && !name->escaped &&
		name->text[name->len] == '"')
	{
		Guess	   *guess = &decoder->guesses[place];

		guess->len = name->len + 1;
		memcpy(guess->name, name->text, name->len + 1);
		guess->column = *column;
	}
	return true;
}

/* The name of the field and its column. */
static inline bool
read_name(Reader *reader, int place, int *column)
{
	SxJsonText *json = &reader->json;
	SxJsonSpan	name;

	if (place < MAX_GUESSES && *json->at == '"')
	{
		const Guess *guess = &reader->decoder->guesses[place];

		if (guess->len > 0 && (size_t) (json->end - json->at) > guess->len &&
			memcmp(json->at + 1, guess->name, guess->len) == 0)
		{
			json->at += guess->len + 1;
			sx_json_skip_space(json);
			if (*json->at == ':')
			{
				json->at++;
				sx_json_skip_space(json);
				*column = guess->column;
				return true;
			}
			json->error = json->at >= json->end ? "unexpected end" : "\":\" expected";
			return false;
		}
	}
	return sx_json_name(json, &name) && find_column(reader, place, &name, column);
}

/* json.at is at the brace. */
static bool
read_object(Reader *reader)
{
	SxJsonText *json = &reader->json;

	json->at++;
	sx_json_skip_space(json);
	if (*json->at == '}')
	{
		json->at++;
		return true;
	}
	for (int place = 0;; place++)
	{
		int			column;
		SxJsonSpan	span;

		if (!read_name(reader, place, &column))
			return false;
		if (column >= 0 ? !read_column(reader, &reader->decoder->columns[column]) :
			sx_json_value(json, &span) == SX_JSON_BAD)
			return false;
		sx_json_skip_space(json);
		if (*json->at == ',')
		{
			json->at++;
			sx_json_skip_space(json);
			continue;
		}
		if (*json->at != '}')
		{
			json->error = json->at >= json->end ? "unexpected end" : "\",\" or \"}\" expected";
			return false;
		}
		json->at++;
		return true;
	}
}

/* ---- records ---- */

static bool
append_row(Reader *reader)
{
	if (!sx_row_buffer_append(reader->out, &reader->cells))
	{
		reader->no_memory = true;
		return false;
	}
	reader->cells.row->raw = reader->raw;
	reader->cells.row->raw_len = reader->len;
	return true;
}

static bool
read_row(Reader *reader)
{
	SxJsonText *json = &reader->json;

	json->broken_utf8 = false;
	if (!append_row(reader) || !read_object(reader))
		return false;
	if (json->broken_utf8 && !reader->decoder->text_rules.replace_invalid &&
		!sx_row_set_error(reader->out, reader->cells.row, NULL, "not valid UTF-8 text", NULL, 0))
		reader->no_memory = true;
	return !reader->no_memory;
}

/* The elements of an array at the top are a row each. */
static bool
read_rows(Reader *reader)
{
	SxJsonText *json = &reader->json;

	json->at++;
	sx_json_skip_space(json);
	if (*json->at == ']')
		return true;
	for (;;)
	{
		if (*json->at != '{')
		{
			json->error = json->at >= json->end ? "unexpected end" : "object expected";
			return false;
		}
		if (!read_row(reader))
			return false;
		sx_json_skip_space(json);
		if (*json->at == ']')
			return true;
		if (*json->at != ',')
		{
			json->error = json->at >= json->end ? "unexpected end" : "\",\" or \"]\" expected";
			return false;
		}
		json->at++;
		sx_json_skip_space(json);
	}
}

/* One row of NULLs with the reason. */
static bool
append_broken(Reader *reader, int64 first_row)
{
	SxJsonText *json = &reader->json;
	char		reason[160];

	sx_row_buffer_truncate(reader->out, first_row);
	if (!append_row(reader))
		return false;
	snprintf(reason, sizeof(reason), "invalid JSON at byte %ld: %s",
			 (long) (json->at - json->start) + 1, json->error != NULL ? json->error : "object expected");
	return sx_row_set_error(reader->out, reader->cells.row, NULL, reason, NULL, 0);
}

/* A malformed record is kept even where others aren't. */
static bool
keep_malformed(Reader *reader, int64 first_row)
{
	char	   *copy = NULL;

	for (int64 row = first_row; row < reader->out->nrows; row++)
	{
		SxRow	   *it = sx_row_buffer_row(reader->out, row);

		if (it->error == NULL || it->raw != NULL)
			continue;
		if (copy == NULL)
			copy = sx_row_buffer_copy(reader->out, reader->json.start, reader->len);
		if (copy == NULL)
			return false;
		it->raw = copy;
	}
	return true;
}

static bool
decode_text(Reader *reader, const char *text, size_t len)
{
	SxJsonText *json = &reader->json;
	int64		first_row = reader->out->nrows;
	bool		good;

	json->start = json->at = text;
	json->end = text + len;
	if (len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
		json->at += 3;
	sx_json_skip_space(json);
	if (json->at >= json->end)
		return true;			/* blank: no row */
	if (*json->at == '{')
		good = read_row(reader);
	else if (*json->at == '[' && !reader->decoder->no_arrays)
		good = read_rows(reader);
	else
		good = false;
	if (!good && !reader->no_memory && !append_broken(reader, first_row))
		reader->no_memory = true;
	if (reader->raw == NULL && reader->out->nmalformed > 0 && !reader->no_memory &&
		!keep_malformed(reader, first_row))
		reader->no_memory = true;
	if (!reader->no_memory)
		return true;
	sx_row_buffer_truncate(reader->out, first_row);
	reader->out->out_of_memory = true;
	return false;
}

static bool
json_decode(SxDecoder *base, const char *data, size_t len, SxRowBuffer *out)
{
	JsonDecoder *decoder = (JsonDecoder *) base;
	Reader		reader;
	char	   *copy;

	reader.decoder = decoder;
	reader.out = out;
	reader.no_memory = false;
	reader.raw = NULL;
	reader.len = len;
	memset(&reader.json, 0, sizeof(reader.json));
	reader.json.rules = &decoder->rules;
	if (data == NULL)
	{
		if (!append_row(&reader))
			return false;
		reader.cells.row->tombstone = true;
		return true;
	}
	if (len > SX_RECORD_MAX)
		return append_row(&reader) &&
			sx_row_set_error(out, reader.cells.row, NULL, "record is too large", NULL, 0);
	if (out->keep_raw)
	{
		copy = sx_row_buffer_copy(out, data, len);
		reader.raw = copy;
	}
	else
	{
		copy = scratch(decoder, len + SX_RECORD_PADDING);
		if (copy != NULL)
		{
			memcpy(copy, data, len);
			memset(copy + len, 0, SX_RECORD_PADDING);
		}
	}
	if (copy == NULL)
	{
		out->out_of_memory = true;
		return false;
	}
	return decode_text(&reader, copy, len);
}

/* ---- open, check ---- */

static void
json_check(const SxFormatTarget *target, const SxFormatOptions *options)
{
	sx_format_check_encoding();
	(void) sx_format_corrupt_column(target->desc, options);
}

static void
json_close_decoder(SxDecoder *base)
{
	JsonDecoder *decoder = (JsonDecoder *) base;

	if (decoder == NULL)
		return;
	sx_columns_free(decoder->columns, decoder->ncolumns);
	free(decoder->scratch);
	free(decoder);
}

static SxDecoder *
json_open_decoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	JsonDecoder *decoder;

	sx_format_check_encoding();
	decoder = calloc(1, sizeof(JsonDecoder));
	if (decoder == NULL)
		sx_format_out_of_memory();
	decoder->base.routine = &sx_json_format;
	decoder->natts = target->desc->natts;
	decoder->ncolumns = sx_columns_make(target, options, false, &decoder->columns);
	if (decoder->ncolumns < 0)
	{
		free(decoder);
		sx_format_out_of_memory();
	}
	sx_text_rules_init(&decoder->text_rules, options);
	decoder->no_arrays = options->no_arrays;
	decoder->rules.single_quotes = options->single_quotes;
	decoder->rules.unquoted_names = options->unquoted_names;
	decoder->rules.comments = options->comments;
	decoder->rules.leading_zeros = options->leading_zeros;
	decoder->rules.non_numeric = options->non_numeric;
	decoder->rules.backslash_any = options->backslash_any;
	decoder->rules.control_chars = options->control_chars;
	return &decoder->base;
}

const SxFormatRoutine sx_json_format = {
	.name = "json",
	.check = json_check,
	.open_decoder = json_open_decoder,
	.decode = json_decode,
	.close_decoder = json_close_decoder,
	.open_encoder = sx_json_open_encoder,
	.encode = sx_json_encode,
};
