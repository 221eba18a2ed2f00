/*
 * column.c
 *		A column as decoders see it, and a cell from its text.
 */
#include "postgres.h"

#include <math.h>

#include "catalog/pg_type.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "utils/datetime.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "pgtime.h"

#include "format/column.h"

/* ---- main thread ---- */

void
sx_format_out_of_memory(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OUT_OF_MEMORY),
			 errmsg("out of memory"),
			 errdetail("No memory for a decoder of records, or the rows it makes.")));
	pg_unreachable();
}

void
sx_format_raise_failure(const SxRowBuffer *buffer)
{
	if (buffer->failure[0] == '\0')
		sx_format_out_of_memory();
	ereport(ERROR,
			(errcode(ERRCODE_CONNECTION_FAILURE),
			 errmsg("cannot decode records without their schema"),
			 errdetail("%s", buffer->failure),
			 errhint("Check \"schema_registry_url\" of the stream, and user and password in the user mapping. It is tried again.")));
	pg_unreachable();
}

void
sx_format_check_encoding(void)
{
	if (GetDatabaseEncoding() != PG_UTF8 && GetDatabaseEncoding() != PG_SQL_ASCII)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("records of text cannot be read in a database with encoding %s",
						GetDatabaseEncodingName()),
				 errdetail("They are UTF-8."),
				 errhint("Create the database with ENCODING 'UTF8'.")));
}

static SxColumnKind
kind_of_type(Oid type, int32 typmod)
{
	switch (type)
	{
		case BOOLOID:
			return SX_KIND_BOOL;
		case INT2OID:
			return SX_KIND_INT2;
		case INT4OID:
			return SX_KIND_INT4;
		case INT8OID:
			return SX_KIND_INT8;
		case FLOAT4OID:
			return SX_KIND_FLOAT4;
		case FLOAT8OID:
			return SX_KIND_FLOAT8;
		case NUMERICOID:
			return SX_KIND_NUMERIC;
		case TEXTOID:
		case VARCHAROID:
			return SX_KIND_TEXT;
		case BYTEAOID:
			return SX_KIND_BYTEA;
		case DATEOID:
			return SX_KIND_DATE;
		case TIMESTAMPOID:
			return typmod < 0 ? SX_KIND_TIMESTAMP : SX_KIND_OTHER;
		case TIMESTAMPTZOID:
			return typmod < 0 ? SX_KIND_TIMESTAMPTZ : SX_KIND_OTHER;
		case UUIDOID:
			return SX_KIND_UUID;
		case JSONOID:
		case JSONBOID:
			return SX_KIND_JSON;
		default:
			break;
	}
	if (type_is_rowtype(getBaseType(type)) || OidIsValid(get_element_type(getBaseType(type))))
		return SX_KIND_NESTED;
	return SX_KIND_OTHER;
}

static bool
column_init(SxColumn *column, Form_pg_attribute att, const char *field)
{
	column->index = att->attnum - 1;
	column->kind = kind_of_type(att->atttypid, att->atttypmod);
	column->is_jsonb = att->atttypid == JSONBOID;
	column->is_time = att->atttypid == DATEOID || att->atttypid == TIMESTAMPOID ||
		att->atttypid == TIMESTAMPTZOID || att->atttypid == TIMEOID || att->atttypid == TIMETZOID;
	column->max_chars = -1;
	column->precision = -1;
	if (att->atttypid == VARCHAROID && att->atttypmod >= VARHDRSZ)
		column->max_chars = att->atttypmod - VARHDRSZ;
	if (att->atttypid == NUMERICOID && att->atttypmod >= VARHDRSZ)
	{
		int			typmod = att->atttypmod - VARHDRSZ;

		column->precision = (typmod >> 16) & 0xffff;
		column->scale = ((typmod & 0x7ff) ^ 1024) - 1024;
	}
	column->label = strdup(NameStr(att->attname));
	column->name = strdup(field != NULL ? field : NameStr(att->attname));
	if (column->name == NULL || column->label == NULL)
		return false;
	column->name_len = strlen(column->name);
	return true;
}

void
sx_columns_free(SxColumn *columns, int n)
{
	for (int i = 0; columns != NULL && i < n; i++)
	{
		free(columns[i].name);
		free(columns[i].label);
	}
	free(columns);
}

int
sx_columns_make(const SxFormatTarget *target, const SxFormatOptions *options, bool by_place,
				SxColumn **columns)
{
	TupleDesc	desc = target->desc;
	AttrNumber	corrupt = sx_format_corrupt_column(desc, options);
	SxColumn   *result = calloc(Max(desc->natts, 1), sizeof(SxColumn));
	int			n = 0;

	if (result == NULL)
		return -1;
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		bool		needed = target->needed == NULL || target->needed[i];

		if (att->attisdropped || i + 1 == corrupt || (!needed && !by_place) ||
			(target->from_value != NULL && !target->from_value[i]))
			continue;
		result[n].needed = needed;
		if (!column_init(&result[n++], att, target->fields != NULL ? target->fields[i] : NULL))
		{
			sx_columns_free(result, n);
			return -1;
		}
	}
	*columns = result;
	return n;
}

void
sx_timestamptz_print(int64 value, pg_tz *zone, char *text)
{
	struct pg_tm tm;
	fsec_t		fsec;
	int			tz;
	const char *tzn;

	if (TIMESTAMP_NOT_FINITE(value))
	{
		strcpy(text, TIMESTAMP_IS_NOBEGIN(value) ? "-infinity" : "infinity");
		return;
	}
	if (timestamp2tm(value, &tz, &tm, &fsec, &tzn, zone) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("timestamp out of range")));
	EncodeDateTime(&tm, fsec, true, tz, tzn, USE_XSD_DATES, text);
}

void
sx_text_rules_init(SxTextRules *rules, const SxFormatOptions *options)
{
	long		offset;

	memset(rules, 0, sizeof(*rules));
	rules->zone = options->time_zone;
	rules->unit = options->time_unit;
	rules->replace_invalid = options->replace_invalid;
	if (pg_get_timezone_offset(options->time_zone, &offset))
	{
		rules->fixed_offset = true;
		rules->offset_seconds = offset;
	}
}

/* ---- Thread: any from here on ---- */

/* Long enough to recognise a value, short enough for a log. */
#define ERROR_VALUE_BYTES	60

/* Printable, valid UTF-8; what is not becomes '?'. Returns its length. */
static size_t
copy_for_error(char *to, const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *) text;
	const unsigned char *end = at + Min(len, ERROR_VALUE_BYTES);
	char	   *start = to;

	while (at < end)
	{
		int			length = sx_utf8_length(at, (const unsigned char *) text + len);

		if (length == 0 || *at < 0x20)
		{
			*to++ = '?';
			at++;
			continue;
		}
		memcpy(to, at, length);
		to += length;
		at += length;
	}
	if ((size_t) (at - (const unsigned char *) text) < len)
	{
		memcpy(to, "...", 3);
		to += 3;
	}
	return to - start;
}

bool
sx_row_set_error(SxRowBuffer *out, SxRow *row, const char *label, const char *reason,
				 const char *text, size_t len)
{
	char		value[ERROR_VALUE_BYTES + 8];
	size_t		value_len = text != NULL ? copy_for_error(value, text, len) : 0;
	size_t		size = strlen(reason) + (label != NULL ? strlen(label) : 0) + value_len + 32;
	char	   *error;
	char	   *at;

	if (row->error != NULL)
		return true;
	error = sx_row_buffer_alloc_bytes(out, size);
	if (error == NULL)
		return false;
	at = error;
	if (label != NULL)
		at += sprintf(at, "column \"%s\": ", label);
	at += sprintf(at, "%s", reason);
	if (text != NULL)
		at += sprintf(at, ": \"%.*s\"", (int) value_len, value);
	sx_row_buffer_shrink(out, error, size, at + 1 - error);
	row->error = error;
	out->nmalformed++;
	return true;
}

size_t
sx_text_replace_invalid(const char *text, size_t len, char *to)
{
	const unsigned char *at = (const unsigned char *) text;
	const unsigned char *end = at + len;
	char	   *start = to;

	while (at < end)
	{
		int			length = *at == '\0' ? 0 : sx_utf8_length(at, end);

		memcpy(to, length == 0 ? "\xEF\xBF\xBD" : (const char *) at, length == 0 ? 3 : length);
		to += length == 0 ? 3 : length;
		at += Max(length, 1);
	}
	return to - start;
}

SxCellResult
sx_cell_defer(const SxColumn *column, const SxTextRules *rules, uint8 kind, const char *text,
			  size_t len, SxRowBuffer *out, SxRowCells *cells, const char **reason)
{
	bool		valid = sx_utf8_valid(text, len);
	size_t		size = valid ? len + 1 : len * 3 + 1;
	char	   *copy;

	if (!valid && !rules->replace_invalid)
	{
		*reason = "not valid UTF-8 text";
		return SX_CELL_BAD;
	}
	copy = sx_row_buffer_alloc_bytes(out, size);
	if (copy == NULL)
		return SX_CELL_NO_MEMORY;
	if (valid)
		memcpy(copy, text, len);
	else
	{
		len = sx_text_replace_invalid(text, len, copy);
		sx_row_buffer_shrink(out, copy, size, len + 1);
	}
	copy[len] = '\0';
	cells->values[column->index] = (uintptr_t) copy;
	cells->kinds[column->index] = kind;
	cells->row->has_text = true;
	return SX_CELL_OK;
}

static inline SxCellResult
cell_ready(const SxColumn *column, uintptr_t value, SxRowCells *cells)
{
	cells->values[column->index] = value;
	cells->kinds[column->index] = SX_CELL_READY;
	return SX_CELL_OK;
}

/* ---- strings ---- */

static size_t
count_chars(const char *text, size_t len)
{
	size_t		chars = 0;

	for (size_t i = 0; i < len; i++)
		chars += (text[i] & 0xC0) != 0x80;
	return chars;
}

static SxCellResult
cell_from_broken_string(const SxColumn *column, const char *text, size_t len,
						SxRowBuffer *out, SxRowCells *cells)
{
	size_t		size = VARHDRSZ + len * 3;
	char	   *result;
	size_t		used;

	if (len > SX_RECORD_MAX / 3)
		return SX_CELL_NO_MEMORY;
	result = sx_row_buffer_alloc(out, size);
	if (result == NULL)
		return SX_CELL_NO_MEMORY;
	used = VARHDRSZ + sx_text_replace_invalid(text, len, result + VARHDRSZ);
	SET_VARSIZE(result, used);
	sx_row_buffer_shrink(out, result, size, used);
	return cell_ready(column, (uintptr_t) result, cells);
}

SxCellResult
sx_cell_from_string(const SxColumn *column, const SxTextRules *rules, const char *text, size_t len,
					bool known_valid, SxRowBuffer *out, SxRowCells *cells, const char **reason)
{
	uintptr_t	value;

	if (column->max_chars >= 0 && len > (size_t) column->max_chars &&
		count_chars(text, len) > (size_t) column->max_chars)
	{
		*reason = "value too long for its type";
		return SX_CELL_BAD;
	}
	if (!known_valid && !sx_utf8_valid(text, len))
	{
		if (rules->replace_invalid)
			return cell_from_broken_string(column, text, len, out, cells);
		*reason = "text with bytes that are not UTF-8, or U+0000";
		return SX_CELL_BAD;
	}
	value = sx_row_buffer_varlena(out, text, len);
	return value == 0 ? SX_CELL_NO_MEMORY : cell_ready(column, value, cells);
}

/* ---- bytea: base64 as in Spark, or \x and hexadecimal digits ---- */

static int
base64_digit(unsigned char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

static SxCellResult
cell_from_base64(const SxColumn *column, const char *text, size_t len, SxRowBuffer *out,
				 SxRowCells *cells, const char **reason)
{
	size_t		size = VARHDRSZ + len;
	unsigned char *result = sx_row_buffer_alloc(out, size);
	size_t		n = 0;
	uint32		bits = 0;
	int			nbits = 0;
	size_t		digits = len;
	bool		valid = true;

	if (result == NULL)
		return SX_CELL_NO_MEMORY;
	while (digits > 0 && len - digits < 2 && text[digits - 1] == '=')
		digits--;
	for (size_t i = 0; i < digits && valid; i++)
	{
		int			digit = base64_digit(text[i]);

		valid = digit >= 0;
		bits = bits << 6 | digit;
		nbits += 6;
		if (nbits >= 8)
		{
			nbits -= 8;
			result[VARHDRSZ + n++] = bits >> nbits;
			bits &= (1 << nbits) - 1;
		}
	}
	if (!valid || nbits >= 6)
	{
		sx_row_buffer_shrink(out, (char *) result, size, 0);
		*reason = "invalid base64";
		return SX_CELL_BAD;
	}
	SET_VARSIZE(result, VARHDRSZ + n);
	sx_row_buffer_shrink(out, (char *) result, size, VARHDRSZ + n);
	return cell_ready(column, (uintptr_t) result, cells);
}

/* ---- all scalars ---- */

/* The input function would take "now" and the like: not a value that data can have. */
static bool
depends_on_clock(const char *text, size_t len)
{
	static const char *const words[] = {"now", "today", "tomorrow", "yesterday"};

	for (int i = 0; i < lengthof(words); i++)
	{
		size_t		n = strlen(words[i]);

		for (size_t at = 0; at + n <= len; at++)
			if (pg_strncasecmp(text + at, words[i], n) == 0)
				return true;
	}
	return false;
}

static const char *
type_reason(const SxColumn *column, bool range)
{
	switch (column->kind)
	{
		case SX_KIND_BOOL:
			return "invalid boolean";
		case SX_KIND_INT2:
		case SX_KIND_INT4:
		case SX_KIND_INT8:
			return range ? "integer out of range" : "invalid integer";
		case SX_KIND_FLOAT4:
		case SX_KIND_FLOAT8:
		case SX_KIND_NUMERIC:
			return range ? "number out of range" : "invalid number";
		case SX_KIND_DATE:
			return "invalid date";
		case SX_KIND_TIMESTAMP:
			return range ? "timestamp out of range" : "invalid timestamp without time zone";
		case SX_KIND_TIMESTAMPTZ:
			return range ? "timestamp out of range" : "invalid timestamp";
		case SX_KIND_UUID:
			return "invalid UUID";
		default:
			return "invalid value";
	}
}

bool
sx_same_word(const char *text, size_t len, const char *word)
{
	return len == strlen(word) && pg_strncasecmp(text, word, len) == 0;
}

SxCellResult
sx_cell_from_text(const SxColumn *column, const SxTextRules *rules, const char *text, size_t len,
				  SxRowBuffer *out, SxRowCells *cells, const char **reason)
{
	SxTextResult result = SX_TEXT_INVALID;
	int64		whole = 0;
	double		number = 0;
	int32		date = 0;
	float		single;
	uintptr_t	value = 0;
	unsigned char *bytes;

	switch (column->kind)
	{
		case SX_KIND_BOOL:
			value = sx_same_word(text, len, "true");
			if (value || sx_same_word(text, len, "false"))
				result = SX_TEXT_OK;
			break;
		case SX_KIND_INT2:
		case SX_KIND_INT4:
		case SX_KIND_INT8:
			result = sx_text_to_int64(text, len, &whole);
			if (result == SX_TEXT_OK &&
				((column->kind == SX_KIND_INT2 && whole != (int16) whole) ||
				 (column->kind == SX_KIND_INT4 && whole != (int32) whole)))
				result = SX_TEXT_RANGE;
			value = column->kind == SX_KIND_INT8 ? (uintptr_t) Int64GetDatum(whole) :
				column->kind == SX_KIND_INT4 ? (uintptr_t) Int32GetDatum((int32) whole) :
				(uintptr_t) Int16GetDatum((int16) whole);
			break;
		case SX_KIND_FLOAT4:
		case SX_KIND_FLOAT8:
			result = sx_text_to_float8(text, len, &number);
			single = (float) number;
			if (result == SX_TEXT_OK && column->kind == SX_KIND_FLOAT4 && isinf(single))
				result = SX_TEXT_RANGE;
			value = column->kind == SX_KIND_FLOAT8 ? (uintptr_t) Float8GetDatum(number) :
				(uintptr_t) Float4GetDatum(single);
			break;
		case SX_KIND_NUMERIC:
			result = sx_text_to_numeric(text, len, column, out, &value);
			if (result == SX_TEXT_OK && value == 0)
				return SX_CELL_NO_MEMORY;
			break;
		case SX_KIND_DATE:
			result = sx_text_to_date(text, len, &date);
			value = (uintptr_t) Int32GetDatum(date);
			break;
		case SX_KIND_TIMESTAMP:
		case SX_KIND_TIMESTAMPTZ:
			result = sx_text_to_timestamp(text, len, rules, column->kind == SX_KIND_TIMESTAMPTZ,
										  &whole);
			value = (uintptr_t) Int64GetDatum(whole);
			break;
		case SX_KIND_UUID:
			bytes = (unsigned char *) sx_row_buffer_alloc_bytes(out, 16);
			if (bytes == NULL)
				return SX_CELL_NO_MEMORY;
			result = sx_text_to_uuid(text, len, bytes);
			value = (uintptr_t) bytes;
			break;
		case SX_KIND_TEXT:
			return sx_cell_from_string(column, rules, text, len, false, out, cells, reason);
		case SX_KIND_BYTEA:
			if (len < 2 || text[0] != '\\' || text[1] != 'x')
				return cell_from_base64(column, text, len, out, cells, reason);
			result = SX_TEXT_UNSURE;
			break;
		case SX_KIND_JSON:
			result = SX_TEXT_UNSURE;
			break;
		case SX_KIND_NESTED:
			result = SX_TEXT_UNSURE;
			break;
		case SX_KIND_OTHER:
			result = SX_TEXT_UNSURE;
			break;
	}
	if (result == SX_TEXT_OK)
		return cell_ready(column, value, cells);
	if (result == SX_TEXT_UNSURE && !(column->is_time && depends_on_clock(text, Min(len, 64))))
		return sx_cell_defer(column, rules, SX_CELL_TEXT, text, len, out, cells, reason);
	*reason = type_reason(column, result == SX_TEXT_RANGE);
	return SX_CELL_BAD;
}
