/*
 * json_scan.c
 *		The tokens of one JSON document. Thread: any.
 *
 * Strings are looked through sixteen bytes at a time where the processor can.
 */
#include "postgres.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "port/pg_bitutils.h"

#include "format/column.h"
#include "format/json_scan.h"

#define IS_DIGIT(c)		((unsigned char) ((c) - '0') <= 9)

static bool
fail(SxJsonText *json, const char *reason)
{
	if (json->error == NULL)
		json->error = reason;
	return false;
}

/* ---- between tokens ---- */

static bool
skip_comment(SxJsonText *json)
{
	const char *at = json->at;

	if (!json->rules->comments)
		return false;
	json->nonstandard = true;
	if (*at == '#' || (*at == '/' && at[1] == '/'))
	{
		while (*at != '\0' && *at != '\n' && *at != '\r')
			at++;
		json->at = at;
		return true;
	}
	if (*at != '/' || at[1] != '*')
		return false;
	for (at += 2; *at != '\0'; at++)
	{
		if (*at == '*' && at[1] == '/')
		{
			json->at = at + 2;
			return true;
		}
	}
	return false;
}

void
sx_json_skip_slow(SxJsonText *json)
{
	for (;;)
	{
		char		c = *json->at;

		if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
			json->at++;
		else if ((c != '/' && c != '#') || !skip_comment(json))
			return;
	}
}

/* ---- strings ---- */

static int
hex4(const char *text)
{
	int			value = 0;

	for (int i = 0; i < 4; i++)
	{
		char		c = text[i];
		int			digit = IS_DIGIT(c) ? c - '0' :
			(c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;

		if (digit < 0)
			return -1;			/* also a zero at the end */
		value = value << 4 | digit;
	}
	return value;
}

#define IS_HIGH_SURROGATE(code)	((code) >= 0xD800 && (code) <= 0xDBFF)
#define IS_LOW_SURROGATE(code)	((code) >= 0xDC00 && (code) <= 0xDFFF)

/* at is behind \u; the code point and how far it went, or -1: half a pair. */
static int
escaped_code(const char *at, const char *end, int *used)
{
	int			code = hex4(at);

	*used = 4;
	if (IS_LOW_SURROGATE(code))
		return -1;
	if (IS_HIGH_SURROGATE(code))
	{
		int			low;

		if (end - at < 10 || at[4] != '\\' || at[5] != 'u')
			return -1;
		low = hex4(at + 6);
		if (!IS_LOW_SURROGATE(low))
			return -1;
		*used = 10;
		return 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
	}
	return code;
}

/* json->at is at a backslash: past the escape. */
static bool
scan_escape(SxJsonText *json)
{
	char		c = json->at[1];
	int			used;
	int			code;

	switch (c)
	{
		case '"':
		case '\\':
		case '/':
		case 'b':
		case 'f':
		case 'n':
		case 'r':
		case 't':
			json->at += 2;
			return true;
		case 'u':
			if (hex4(json->at + 2) < 0)
				return fail(json, "invalid \\u escape");
			code = escaped_code(json->at + 2, json->end, &used);
			if (code <= 0)
				json->unrepresentable = true;
			json->at += 2 + used;
			return true;
		default:
			if (json->at + 1 >= json->end)
				return fail(json, "string without an end");
			if (!json->rules->backslash_any &&
				!(c == '\'' && json->rules->single_quotes))
				return fail(json, "invalid escape");
			json->nonstandard = true;
			json->at += 2;
			return true;
	}
}

/* The next byte that is not an ordinary character of a string in double quotes. */
static inline const char *
string_special(const char *at, bool *high)
{
#if defined(__SSE2__)
	const __m128i quote = _mm_set1_epi8('"');
	const __m128i backslash = _mm_set1_epi8('\\');
	const __m128i space = _mm_set1_epi8(' ');

	for (;;)
	{
		__m128i		bytes = _mm_loadu_si128((const __m128i *) at);
		/* Signed: bytes from 0x80 are below the space, too. */
		int			stop = _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(
			_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
			_mm_cmplt_epi8(bytes, space)));

		if (stop != 0)
		{
			at += pg_rightmost_one_pos32(stop);
			if (!IS_HIGHBIT_SET(*at))
				return at;
			*high = true;
			while (IS_HIGHBIT_SET(*at))
				at++;
			continue;
		}
		at += 16;
	}
#else
	for (;; at++)
	{
		unsigned char c = *at;

		if (c >= 0x80)
			*high = true;
		else if (c == '"' || c == '\\' || c < ' ')
			return at;
	}
#endif
}

/* json->at is at the opening quote, and ends behind the closing one. */
static bool
scan_string(SxJsonText *json, SxJsonSpan *span)
{
	char		quote = *json->at++;

	span->text = json->at;
	span->escaped = false;
	span->high = false;
	for (;;)
	{
		unsigned char c;

		if (quote == '"')
			json->at = string_special(json->at, &span->high);
		c = *json->at;
		if (c == (unsigned char) quote)
			break;
		if (c == '\\')
		{
			span->escaped = true;
			if (!scan_escape(json))
				return false;
		}
		else if (c < ' ')
		{
			if (json->at >= json->end)
				return fail(json, "string without an end");
			if (!json->rules->control_chars)
				return fail(json, "control character in a string");
			json->nonstandard = true;
			json->at++;
		}
		else
		{
			span->high |= c >= 0x80;
			json->at++;
		}
	}
	span->len = json->at++ - span->text;
	if (quote != '"')
		json->nonstandard = true;
	if (span->high && !sx_utf8_valid(span->text, span->len))
		json->broken_utf8 = true;
	return true;
}

static char *
put_utf8(char *to, int code)
{
	if (code < 0x80)
		*to++ = code;
	else if (code < 0x800)
	{
		*to++ = 0xC0 | code >> 6;
		*to++ = 0x80 | (code & 0x3F);
	}
	else if (code < 0x10000)
	{
		*to++ = 0xE0 | code >> 12;
		*to++ = 0x80 | (code >> 6 & 0x3F);
		*to++ = 0x80 | (code & 0x3F);
	}
	else
	{
		*to++ = 0xF0 | code >> 18;
		*to++ = 0x80 | (code >> 12 & 0x3F);
		*to++ = 0x80 | (code >> 6 & 0x3F);
		*to++ = 0x80 | (code & 0x3F);
	}
	return to;
}

size_t
sx_json_unescape(const SxJsonSpan *span, bool replace, char *to)
{
	const char *at = span->text;
	const char *end = at + span->len;
	char	   *start = to;

	while (at < end)
	{
		const char *backslash = memchr(at, '\\', end - at);
		int			used;
		int			code;

		if (backslash == NULL)
			backslash = end;
		memcpy(to, at, backslash - at);
		to += backslash - at;
		at = backslash + 2;
		if (backslash == end)
			break;
		switch (backslash[1])
		{
			case 'b':
				*to++ = '\b';
				break;
			case 'f':
				*to++ = '\f';
				break;
			case 'n':
				*to++ = '\n';
				break;
			case 'r':
				*to++ = '\r';
				break;
			case 't':
				*to++ = '\t';
				break;
			case 'u':
				code = escaped_code(at, end, &used);
				if (code < 0)
					code = replace ? 0xFFFD : hex4(at);
				to = put_utf8(to, code);
				at += used;
				break;
			default:
				*to++ = backslash[1];
				break;
		}
	}
	return to - start;
}

void
sx_json_patch_escapes(char *text, size_t len)
{
	char	   *end = text + len;

	while (text < end && (text = memchr(text, '\\', end - text)) != NULL)
	{
		int			used;
		int			code;

		if (text[1] != 'u')
		{
			text += 2;
			continue;
		}
		code = escaped_code(text + 2, end, &used);
		if (code <= 0)
			memcpy(text + 2, "fffd", 4);
		text += 2 + used;
	}
}

/* ---- numbers and words ---- */

static inline bool
is_word_char(unsigned char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || IS_DIGIT(c) || c == '_' || c == '$';
}

static SxJsonToken
bad(SxJsonText *json, const char *reason)
{
	fail(json, reason);
	return SX_JSON_BAD;
}

static bool
take_word(SxJsonText *json, const char *word)
{
	size_t		len = strlen(word);

	if (strncmp(json->at, word, len) != 0 || is_word_char(json->at[len]))
		return false;
	json->at += len;
	return true;
}

static SxJsonToken
scan_non_numeric(SxJsonText *json, SxJsonSpan *span)
{
	static const char *const words[] = {"NaN", "Infinity", "INF", "-Infinity", "-INF", "+Infinity", "+INF"};

	span->text = json->at;
	for (int i = 0; json->rules->non_numeric && i < lengthof(words); i++)
	{
		if (!take_word(json, words[i]))
			continue;
		json->nonstandard = true;
		span->len = json->at - span->text;
		return SX_JSON_NON_NUMERIC;
	}
	return bad(json, "unexpected character");
}

static SxJsonToken
scan_number(SxJsonText *json, SxJsonSpan *span)
{
	const char *at = json->at;
	bool		negative = *at == '-';
	const char *digits;
	uint64		value = 0;
	SxJsonToken token = SX_JSON_INTEGER;

	span->text = at;
	at += negative;
	digits = at;
	if (!IS_DIGIT(*at))
		return scan_non_numeric(json, span);
	while (IS_DIGIT(*at))
		value = value * 10 + (*at++ - '0'); /* may wrap; only looked at when short */
	if (*digits == '0' && at - digits > 1)
	{
		if (!json->rules->leading_zeros)
			return bad(json, "number with leading zeros");
		json->nonstandard = true;
	}
	span->small = at - digits <= 18;
	span->value = negative ? -(int64) value : (int64) value;
	if (at - digits > 1000)
		json->wild_number = true;
	if (*at == '.')
	{
		token = SX_JSON_FLOAT;
		digits = ++at;
		while (IS_DIGIT(*at))
			at++;
		if (at == digits)
			return bad(json, "number without digits behind its point");
		if (at - digits > 1000)
			json->wild_number = true;
	}
	if (*at == 'e' || *at == 'E')
	{
		token = SX_JSON_FLOAT;
		at++;
		if (*at == '+' || *at == '-')
			at++;
		digits = at;
		while (IS_DIGIT(*at))
			at++;
		if (at == digits)
			return bad(json, "number without digits in its exponent");
		if (at - digits > 3)
			json->wild_number = true;
	}
	if (is_word_char(*at) || *at == '.' || *at == '-' || *at == '+')
		return bad(json, "unexpected character behind a number");
	json->at = at;
	span->len = at - span->text;
	return token;
}

/* ---- names and values ---- */

bool
sx_json_name(SxJsonText *json, SxJsonSpan *span)
{
	if (*json->at == '"' || (*json->at == '\'' && json->rules->single_quotes))
	{
		if (!scan_string(json, span))
			return false;
	}
	else if (json->rules->unquoted_names && is_word_char(*json->at))
	{
		json->nonstandard = true;
		span->text = json->at;
		span->escaped = span->high = false;
		while (is_word_char(*json->at))
			json->at++;
		span->len = json->at - span->text;
	}
	else
		return fail(json, json->at >= json->end ? "unexpected end" : "name of a field expected");
	sx_json_skip_space(json);
	if (*json->at != ':')
		return fail(json, json->at >= json->end ? "unexpected end" : "\":\" expected");
	json->at++;
	sx_json_skip_space(json);
	return true;
}

static bool skip_value(SxJsonText *json, int depth);

/* json->at is at the bracket. */
static bool
skip_container(SxJsonText *json, int depth)
{
	bool		object = *json->at == '{';
	char		close = object ? '}' : ']';

	if (depth >= SX_JSON_MAX_DEPTH)
		return fail(json, "nested too deeply");
	json->at++;
	sx_json_skip_space(json);
	if (*json->at == close)
	{
		json->at++;
		return true;
	}
	for (;;)
	{
		SxJsonSpan	name;

		if (object && !sx_json_name(json, &name))
			return false;
		if (!skip_value(json, depth + 1))
			return false;
		sx_json_skip_space(json);
		if (*json->at == close)
		{
			json->at++;
			return true;
		}
		if (*json->at != ',')
			return fail(json, json->at >= json->end ? "unexpected end" :
						object ? "\",\" or \"}\" expected" : "\",\" or \"]\" expected");
		json->at++;
		sx_json_skip_space(json);
	}
}

static SxJsonToken
read_value(SxJsonText *json, SxJsonSpan *span, int depth)
{
	const char *start = json->at;

	switch (*start)
	{
		case '"':
			return scan_string(json, span) ? SX_JSON_STRING : SX_JSON_BAD;
		case '\'':
			if (!json->rules->single_quotes)
				return bad(json, "unexpected character");
			return scan_string(json, span) ? SX_JSON_STRING : SX_JSON_BAD;
		case '-':
		case '0':
		case '1':
		case '2':
		case '3':
		case '4':
		case '5':
		case '6':
		case '7':
		case '8':
		case '9':
			return scan_number(json, span);
		case '{':
		case '[':
			if (!skip_container(json, depth))
				return SX_JSON_BAD;
			span->text = start;
			span->len = json->at - start;
			return *start == '{' ? SX_JSON_OBJECT : SX_JSON_ARRAY;
		case 't':
		case 'f':
		case 'n':
			span->text = start;
			span->len = *start == 'f' ? 5 : 4;
			if (take_word(json, "true"))
				return SX_JSON_TRUE;
			if (take_word(json, "false"))
				return SX_JSON_FALSE;
			if (take_word(json, "null"))
				return SX_JSON_NULL;
			return bad(json, "unexpected character");
		default:
			if (json->at >= json->end)
				return bad(json, "unexpected end");
			return scan_non_numeric(json, span);
	}
}

static bool
skip_value(SxJsonText *json, int depth)
{
	SxJsonSpan	span;

	return read_value(json, &span, depth) != SX_JSON_BAD;
}

SxJsonToken
sx_json_value(SxJsonText *json, SxJsonSpan *span)
{
	return read_value(json, span, 1);
}
