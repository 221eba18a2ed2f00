/*
 * avro_read.c
 *		Values of Avro into cells. Thread: any.
 *
 * Scalars go by the kind of their column; records, arrays and maps become JSON, for
 * jsonb, composites and arrays of PostgreSQL. Nothing is trusted: every length is
 * held against the bytes that are left, and depth and number of items are bounded.
 */
#include "postgres.h"

#include <math.h>

#include "datatype/timestamp.h"

#include "format/avro.h"

#define MAX_DEPTH		100
#define MAX_ITEMS		(10 * 1000 * 1000)
#define MAX_DECIMAL_BYTES	64

static bool
fail(SxAvroReader *reader, const char *reason)
{
	if (reader->error == NULL)
		reader->error = reason;
	return false;
}

/* ---- the bytes ---- */

static bool
read_long(SxAvroReader *reader, int64 *value)
{
	uint64		bits = 0;

	for (int shift = 0; shift < 70; shift += 7)
	{
		unsigned char byte;

		if (reader->at >= reader->end)
			return fail(reader, "unexpected end");
		byte = *reader->at++;
		if (shift == 63 && byte > 1)
			break;
		bits |= (uint64) (byte & 0x7F) << shift;
		if ((byte & 0x80) == 0)
		{
			*value = (int64) (bits >> 1) ^ -(int64) (bits & 1);
			return true;
		}
	}
	return fail(reader, "integer of more than 64 bits");
}

static bool
read_bytes(SxAvroReader *reader, size_t len, const char **bytes)
{
	if (len > (size_t) (reader->end - reader->at))
		return fail(reader, "unexpected end");
	*bytes = (const char *) reader->at;
	reader->at += len;
	return true;
}

static bool
read_block(SxAvroReader *reader, const char **bytes, size_t *len)
{
	int64		length;

	if (!read_long(reader, &length))
		return false;
	if (length < 0)
		return fail(reader, "negative length");
	*len = length;
	return read_bytes(reader, length, bytes);
}

static bool
read_real(SxAvroReader *reader, bool is_double, double *value)
{
	const char *bytes;

	if (!read_bytes(reader, is_double ? 8 : 4, &bytes))
		return false;
	if (is_double)
	{
		uint64		bits = 0;

		for (int i = 7; i >= 0; i--)
			bits = bits << 8 | (unsigned char) bytes[i];
		memcpy(value, &bits, 8);
	}
	else
	{
		uint32		bits = 0;
		float		single;

		for (int i = 3; i >= 0; i--)
			bits = bits << 8 | (unsigned char) bytes[i];
		memcpy(&single, &bits, 4);
		*value = single;
	}
	return true;
}

/* Number of items in the next block of an array or map; 0: the last one is behind us. */
static bool
next_block(SxAvroReader *reader, int64 *count)
{
	int64		size;

	if (!read_long(reader, count))
		return false;
	if (*count < 0)
	{
		if (*count == PG_INT64_MIN || !read_long(reader, &size))
			return fail(reader, "invalid block");
		*count = -*count;
	}
	if (*count > MAX_ITEMS || (reader->items += *count) > MAX_ITEMS)
		return fail(reader, "too many items in arrays or maps");
	return true;
}

const SxAvroNode *
sx_avro_branch(SxAvroReader *reader, const SxAvroNode *node)
{
	for (int depth = 0; node->type == SX_AVRO_UNION; depth++)
	{
		int64		branch;

		if (!read_long(reader, &branch))
			return NULL;
		if (branch < 0 || branch >= node->n || depth > MAX_DEPTH)
		{
			fail(reader, "no such branch of a union");
			return NULL;
		}
		node = node->children[branch];
	}
	return node;
}

/* ---- values that nobody wants ---- */

static bool
skip_items(SxAvroReader *reader, const SxAvroNode *node, int depth)
{
	for (;;)
	{
		int64		count;

		if (!next_block(reader, &count))
			return false;
		if (count == 0)
			return true;
		for (; count > 0; count--)
		{
			const char *key;
			size_t		len;

			if (node->type == SX_AVRO_MAP && !read_block(reader, &key, &len))
				return false;
			if (!sx_avro_skip(reader, node->children[0], depth + 1))
				return false;
		}
	}
}

bool
sx_avro_skip(SxAvroReader *reader, const SxAvroNode *node, int depth)
{
	const char *bytes;
	size_t		len;
	int64		number;

	if (depth > MAX_DEPTH)
		return fail(reader, "nested too deeply");
	node = sx_avro_branch(reader, node);
	if (node == NULL)
		return false;
	switch (node->type)
	{
		case SX_AVRO_NULL:
			return true;
		case SX_AVRO_BOOLEAN:
			return read_bytes(reader, 1, &bytes);
		case SX_AVRO_INT:
		case SX_AVRO_LONG:
		case SX_AVRO_ENUM:
			return read_long(reader, &number);
		case SX_AVRO_FLOAT:
			return read_bytes(reader, 4, &bytes);
		case SX_AVRO_DOUBLE:
			return read_bytes(reader, 8, &bytes);
		case SX_AVRO_BYTES:
		case SX_AVRO_STRING:
			return read_block(reader, &bytes, &len);
		case SX_AVRO_FIXED:
			return read_bytes(reader, node->size, &bytes);
		case SX_AVRO_RECORD:
			for (int i = 0; i < node->n; i++)
				if (!sx_avro_skip(reader, node->children[i], depth + 1))
					return false;
			return true;
		case SX_AVRO_ARRAY:
		case SX_AVRO_MAP:
			return skip_items(reader, node, depth);
		case SX_AVRO_UNION:
			break;
	}
	return fail(reader, "invalid schema");
}

/* ---- text of scalars ---- */

/* Two's complement, big-endian, into decimal digits with a point. False: too long. */
static bool
print_decimal(const char *bytes, size_t len, int scale, char *text, size_t size)
{
	unsigned char magnitude[MAX_DECIMAL_BYTES];
	char		digits[MAX_DECIMAL_BYTES * 3];
	int			n = 0;
	bool		negative = len > 0 && (bytes[0] & 0x80) != 0;
	int			carry = 1;
	bool		more = true;
	char	   *at = text;

	if (len > MAX_DECIMAL_BYTES || (size_t) scale + sizeof(digits) + 4 > size)
		return false;
	for (int i = (int) len - 1; i >= 0; i--)
	{
		int			byte = (unsigned char) bytes[i];

		if (negative)
		{
			byte = (byte ^ 0xFF) + carry;
			carry = byte >> 8;
		}
		magnitude[i] = byte;
	}
	while (more)
	{
		int			rest = 0;

		more = false;
		for (size_t i = 0; i < len; i++)
		{
			int			value = rest << 8 | magnitude[i];

			magnitude[i] = value / 10;
			rest = value % 10;
			more |= magnitude[i] != 0;
		}
		digits[n++] = '0' + rest;
	}
	if (negative)
		*at++ = '-';
	for (int place = Max(n - 1, scale); place >= 0; place--)
	{
		*at++ = place < n ? digits[place] : '0';
		if (place == scale && scale > 0)
			*at++ = '.';
	}
	*at = '\0';
	return true;
}

/* Days since 1970-01-01 as YYYY-MM-DD. */
static int
print_date(int64 days, char *text, size_t size)
{
	int64		shifted = days + 719468;
	int64		era = (shifted >= 0 ? shifted : shifted - 146096) / 146097;
	int64		day_of_era = shifted - era * 146097;
	int64		year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
	int64		day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
	int64		month = (5 * day_of_year + 2) / 153;
	int64		year = year_of_era + era * 400 + (month >= 10);

	return snprintf(text, size, "%04lld-%02lld-%02lld", (long long) year,
					(long long) (month < 10 ? month + 3 : month - 9),
					(long long) (day_of_year - (153 * month + 2) / 5 + 1));
}

static void
print_time(int64 micros, char *text, size_t size)
{
	snprintf(text, size, "%02lld:%02lld:%02lld.%06lld", (long long) (micros / 3600000000 % 100),
			 (long long) (micros / 60000000 % 60), (long long) (micros / 1000000 % 60),
			 (long long) (micros % 1000000));
}

/* Microseconds since 1970, saturated. */
static int64
to_micros(const SxAvroNode *node, int64 number)
{
	if (node->logical != SX_AVRO_TIMESTAMP_MILLIS && node->logical != SX_AVRO_LOCAL_MILLIS &&
		node->logical != SX_AVRO_TIME_MILLIS)
		return number;
	return number > PG_INT64_MAX / 1000 ? PG_INT64_MAX :
		number < PG_INT64_MIN / 1000 ? PG_INT64_MIN : number * 1000;
}

/* The text of a number by its logical type. */
static void
print_number(const SxAvroNode *node, int64 number, char *text, size_t size)
{
	int64		micros = to_micros(node, number);
	int64		day = micros / USECS_PER_DAY - (micros % USECS_PER_DAY < 0);
	int			len;

	switch (node->logical)
	{
		case SX_AVRO_DATE:
			print_date(number, text, size);
			return;
		case SX_AVRO_TIME_MILLIS:
		case SX_AVRO_TIME_MICROS:
			print_time(Max(micros, 0), text, size);
			return;
		case SX_AVRO_TIMESTAMP_MILLIS:
		case SX_AVRO_TIMESTAMP_MICROS:
		case SX_AVRO_LOCAL_MILLIS:
		case SX_AVRO_LOCAL_MICROS:
			len = print_date(day, text, size);
			text[len++] = 'T';
			print_time(micros - day * USECS_PER_DAY, text + len, size - len);
			if (node->logical == SX_AVRO_TIMESTAMP_MILLIS || node->logical == SX_AVRO_TIMESTAMP_MICROS)
				strcat(text, "Z");
			return;
		default:
			snprintf(text, size, INT64_FORMAT, number);
			return;
	}
}

static void
print_real(double value, bool is_double, char *text, size_t size)
{
	if (isnan(value))
		strcpy(text, "NaN");
	else if (isinf(value))
		strcpy(text, value < 0 ? "-Infinity" : "Infinity");
	else
		snprintf(text, size, is_double ? "%.17g" : "%.9g", value);
}

/* ---- JSON of nested values ---- */

static bool
put(SxAvroReader *reader, const char *text, size_t len)
{
	if (reader->json_len + len + 1 > reader->json_size)
	{
		size_t		size = (reader->json_len + len + 1) * 2;
		char	   *larger;

		if (size > SX_RECORD_MAX)
			return fail(reader, "nested value is too large");
		larger = realloc(reader->json, size);
		if (larger == NULL)
		{
			reader->no_memory = true;
			return false;
		}
		reader->json = larger;
		reader->json_size = size;
	}
	memcpy(reader->json + reader->json_len, text, len);
	reader->json_len += len;
	reader->json[reader->json_len] = '\0';
	return true;
}

static bool
put_string(SxAvroReader *reader, const char *text, size_t len)
{
	if (!sx_utf8_valid(text, len))
		return fail(reader, "text with bytes that are not UTF-8, or U+0000");
	if (!put(reader, "\"", 1))
		return false;
	for (size_t i = 0; i < len; i++)
	{
		unsigned char c = text[i];
		char		escape[8];

		if (c >= ' ' && c != '"' && c != '\\')
		{
			if (!put(reader, text + i, 1))
				return false;
			continue;
		}
		snprintf(escape, sizeof(escape), "\\u%04x", c);
		if (!put(reader, escape, 6))
			return false;
	}
	return put(reader, "\"", 1);
}

/* As bytea's own text, so that composites and arrays can hold it. */
static bool
put_bytes(SxAvroReader *reader, const char *bytes, size_t len)
{
	char		hex[4];

	if (!put(reader, "\"\\\\x", 4))
		return false;
	for (size_t i = 0; i < len; i++)
	{
		snprintf(hex, sizeof(hex), "%02x", (unsigned char) bytes[i]);
		if (!put(reader, hex, 2))
			return false;
	}
	return put(reader, "\"", 1);
}

static bool put_value(SxAvroReader *reader, const SxAvroNode *node, int depth);

static bool
put_members(SxAvroReader *reader, const SxAvroNode *node, int depth)
{
	bool		array = node->type == SX_AVRO_ARRAY;
	bool		first = true;

	if (!put(reader, array ? "[" : "{", 1))
		return false;
	for (int i = 0; node->type == SX_AVRO_RECORD && i < node->n; i++)
	{
		if ((i > 0 && !put(reader, ",", 1)) ||
			!put_string(reader, node->names[i], strlen(node->names[i])) || !put(reader, ":", 1) ||
			!put_value(reader, node->children[i], depth + 1))
			return false;
	}
	while (node->type != SX_AVRO_RECORD)
	{
		int64		count;

		if (!next_block(reader, &count))
			return false;
		if (count == 0)
			break;
		for (; count > 0; count--, first = false)
		{
			const char *key;
			size_t		len;

			if (!first && !put(reader, ",", 1))
				return false;
			if (!array && (!read_block(reader, &key, &len) || !put_string(reader, key, len) ||
						   !put(reader, ":", 1)))
				return false;
			if (!put_value(reader, node->children[0], depth + 1))
				return false;
		}
	}
	return put(reader, array ? "]" : "}", 1);
}

static bool
put_value(SxAvroReader *reader, const SxAvroNode *node, int depth)
{
	char		text[1200];
	const char *bytes;
	size_t		len;
	int64		number;
	double		real;

	if (depth > MAX_DEPTH)
		return fail(reader, "nested too deeply");
	node = sx_avro_branch(reader, node);
	if (node == NULL)
		return false;
	switch (node->type)
	{
		case SX_AVRO_NULL:
			return put(reader, "null", 4);
		case SX_AVRO_BOOLEAN:
			return read_bytes(reader, 1, &bytes) &&
				put(reader, *bytes ? "true" : "false", *bytes ? 4 : 5);
		case SX_AVRO_INT:
		case SX_AVRO_LONG:
			if (!read_long(reader, &number))
				return false;
			print_number(node, number, text, sizeof(text));
			return node->logical == SX_AVRO_PLAIN ? put(reader, text, strlen(text)) :
				put_string(reader, text, strlen(text));
		case SX_AVRO_FLOAT:
		case SX_AVRO_DOUBLE:
			if (!read_real(reader, node->type == SX_AVRO_DOUBLE, &real))
				return false;
			print_real(real, node->type == SX_AVRO_DOUBLE, text, sizeof(text));
			return isfinite(real) ? put(reader, text, strlen(text)) :
				put_string(reader, text, strlen(text));
		case SX_AVRO_STRING:
			return read_block(reader, &bytes, &len) && put_string(reader, bytes, len);
		case SX_AVRO_ENUM:
			if (!read_long(reader, &number))
				return false;
			if (number < 0 || number >= node->n)
				return fail(reader, "no such symbol of an enum");
			return put_string(reader, node->names[number], strlen(node->names[number]));
		case SX_AVRO_BYTES:
		case SX_AVRO_FIXED:
			len = node->size;
			if (node->type == SX_AVRO_FIXED ? !read_bytes(reader, len, &bytes) :
				!read_block(reader, &bytes, &len))
				return false;
			if (node->logical == SX_AVRO_DECIMAL && print_decimal(bytes, len, node->scale, text, sizeof(text)))
				return put(reader, text, strlen(text));
			return put_bytes(reader, bytes, len);
		case SX_AVRO_RECORD:
		case SX_AVRO_ARRAY:
		case SX_AVRO_MAP:
			return put_members(reader, node, depth);
		case SX_AVRO_UNION:
			break;
	}
	return fail(reader, "invalid schema");
}

/* ---- columns ---- */

static bool
cell_done(SxAvroReader *reader, const SxColumn *column, SxCellResult result, const char *reason,
		  const char *text, size_t len)
{
	if (result == SX_CELL_OK)
		return true;
	if (result == SX_CELL_BAD &&
		sx_row_set_error(reader->out, reader->cells.row, column->label, reason, text, len))
		return true;
	reader->no_memory = true;
	return false;
}

static bool
text_cell(SxAvroReader *reader, const SxColumn *column, const char *text, size_t len)
{
	const char *reason = "invalid value";
	SxCellResult result = sx_cell_from_text(column, reader->rules, text, len, reader->out,
											&reader->cells, &reason);

	return cell_done(reader, column, result, reason, text, len);
}

static bool
ready_cell(SxAvroReader *reader, const SxColumn *column, uintptr_t value)
{
	reader->cells.values[column->index] = value;
	reader->cells.kinds[column->index] = SX_CELL_READY;
	return true;
}

static bool
bytes_cell(SxAvroReader *reader, const SxAvroNode *node, const SxColumn *column, const char *bytes,
		   size_t len)
{
	char		text[1200];
	uintptr_t	value;

	if (node->logical == SX_AVRO_DECIMAL && column->kind != SX_KIND_BYTEA)
	{
		if (print_decimal(bytes, len, node->scale, text, sizeof(text)))
			return text_cell(reader, column, text, strlen(text));
		return cell_done(reader, column, SX_CELL_BAD, "decimal is too long", NULL, 0);
	}
	if (column->kind != SX_KIND_BYTEA)
		return text_cell(reader, column, bytes, len);
	value = sx_row_buffer_varlena(reader->out, bytes, len);
	if (value == 0)
	{
		reader->no_memory = true;
		return false;
	}
	return ready_cell(reader, column, value);
}

static bool
number_cell(SxAvroReader *reader, const SxAvroNode *node, const SxColumn *column, int64 number)
{
	char		text[80];
	int64		time;

	switch (column->kind)
	{
		case SX_KIND_INT8:
			return ready_cell(reader, column, (uintptr_t) Int64GetDatum(number));
		case SX_KIND_FLOAT8:
			return ready_cell(reader, column, (uintptr_t) Float8GetDatum((double) number));
		case SX_KIND_FLOAT4:
			return ready_cell(reader, column, (uintptr_t) Float4GetDatum((float) number));
		case SX_KIND_TIMESTAMP:
		case SX_KIND_TIMESTAMPTZ:
			if (node->logical == SX_AVRO_DATE)
				break;
			if (sx_epoch_to_timestamp(node->logical == SX_AVRO_PLAIN ? number : to_micros(node, number),
									  node->logical == SX_AVRO_PLAIN ? reader->rules->unit : SX_TIME_MICROS,
									  &time) == SX_TEXT_OK)
				return ready_cell(reader, column, (uintptr_t) Int64GetDatum(time));
			return cell_done(reader, column, SX_CELL_BAD, "timestamp out of range", NULL, 0);
		case SX_KIND_INT2:
		case SX_KIND_INT4:
			snprintf(text, sizeof(text), INT64_FORMAT, number);
			return text_cell(reader, column, text, strlen(text));
		default:
			break;
	}
	print_number(node, number, text, sizeof(text));
	return text_cell(reader, column, text, strlen(text));
}

/* A value with structure, or any value for a column of JSON. */
static bool
json_cell(SxAvroReader *reader, const SxAvroNode *node, const SxColumn *column)
{
	const char *reason = "invalid value";
	uint8		kind = column->kind == SX_KIND_NESTED ? SX_CELL_NESTED : SX_CELL_TEXT;
	SxCellResult result;

	reader->json_len = 0;
	if (!put_value(reader, node, 1))
		return false;
	if (column->kind == SX_KIND_TEXT)
		return text_cell(reader, column, reader->json, reader->json_len);
	if (column->kind != SX_KIND_JSON && column->kind != SX_KIND_NESTED)
		return cell_done(reader, column, SX_CELL_BAD, "unexpected record, array or map", NULL, 0);
	result = sx_cell_defer(column, reader->rules, kind, reader->json, reader->json_len, reader->out,
						   &reader->cells, &reason);
	return cell_done(reader, column, result, reason, NULL, 0);
}

bool
sx_avro_read_column(SxAvroReader *reader, const SxAvroNode *node, const SxColumn *column)
{
	char		text[80];
	const char *bytes;
	size_t		len;
	int64		number;
	double		real;

	node = sx_avro_branch(reader, node);
	if (node == NULL)
		return false;
	if (column->kind == SX_KIND_JSON && node->type != SX_AVRO_NULL && node->type != SX_AVRO_STRING)
		return json_cell(reader, node, column);
	switch (node->type)
	{
		case SX_AVRO_NULL:
			return true;
		case SX_AVRO_BOOLEAN:
			if (!read_bytes(reader, 1, &bytes))
				return false;
			if (column->kind == SX_KIND_BOOL)
				return ready_cell(reader, column, *bytes != 0);
			return text_cell(reader, column, *bytes ? "true" : "false", *bytes ? 4 : 5);
		case SX_AVRO_INT:
		case SX_AVRO_LONG:
			return read_long(reader, &number) && number_cell(reader, node, column, number);
		case SX_AVRO_FLOAT:
		case SX_AVRO_DOUBLE:
			if (!read_real(reader, node->type == SX_AVRO_DOUBLE, &real))
				return false;
			if (column->kind == SX_KIND_FLOAT8)
				return ready_cell(reader, column, (uintptr_t) Float8GetDatum(real));
			if (column->kind == SX_KIND_FLOAT4)
				return ready_cell(reader, column, (uintptr_t) Float4GetDatum((float) real));
			print_real(real, node->type == SX_AVRO_DOUBLE, text, sizeof(text));
			return text_cell(reader, column, text, strlen(text));
		case SX_AVRO_STRING:
			/* Text is JSON for a column of JSON only if it says so itself. */
			return read_block(reader, &bytes, &len) && text_cell(reader, column, bytes, len);
		case SX_AVRO_ENUM:
			if (!read_long(reader, &number))
				return false;
			if (number < 0 || number >= node->n)
				return fail(reader, "no such symbol of an enum");
			return text_cell(reader, column, node->names[number], strlen(node->names[number]));
		case SX_AVRO_BYTES:
			return read_block(reader, &bytes, &len) && bytes_cell(reader, node, column, bytes, len);
		case SX_AVRO_FIXED:
			return read_bytes(reader, node->size, &bytes) &&
				bytes_cell(reader, node, column, bytes, node->size);
		case SX_AVRO_RECORD:
		case SX_AVRO_ARRAY:
		case SX_AVRO_MAP:
			return json_cell(reader, node, column);
		case SX_AVRO_UNION:
			break;
	}
	return fail(reader, "invalid schema");
}
