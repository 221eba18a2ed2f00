/*
 * scalar_text.c
 *		The text of numbers, times and UUIDs. Thread: any.
 *
 * Nothing of the server is called here but the search in a time zone's
 * transitions, which reads a table that never changes.
 */
#include "postgres.h"

#include <locale.h>
#include <math.h>

#include "datatype/timestamp.h"
#include "pgtime.h"
#include "utils/datetime.h"

#include "format/column.h"

#define IS_DIGIT(c)		((unsigned char) ((c) - '0') <= 9)

/* ---- whole numbers ---- */

SxTextResult
sx_text_to_int64(const char *text, size_t len, int64 *result)
{
	const char *end = text + len;
	bool		negative = false;
	uint64		value = 0;

	if (text < end && (*text == '-' || *text == '+'))
		negative = *text++ == '-';
	if (text == end)
		return SX_TEXT_INVALID;
	while (end - text > 18 && *text == '0')
		text++;
	if (end - text > 19)
	{
		for (; text < end; text++)
			if (!IS_DIGIT(*text))
				return SX_TEXT_INVALID;
		return SX_TEXT_RANGE;
	}
	for (; text < end; text++)
	{
		if (!IS_DIGIT(*text))
			return SX_TEXT_INVALID;
		value = value * 10 + (*text - '0');
	}
	if (value > (uint64) PG_INT64_MAX + negative)
		return SX_TEXT_RANGE;
	*result = negative ? (int64) (0 - value) : (int64) value;
	return SX_TEXT_OK;
}

/* ---- floating point ---- */

static const double powers_of_ten[] = {
	1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
	1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22
};

/* strtod of the C locale: the process' own may change under a thread. */
static SxTextResult
float8_by_library(const char *text, size_t len, double *result)
{
	static locale_t c_locale = (locale_t) 0;	/* two threads may make one each: harmless */
	char		local[128];
	char	   *copy = local;
	char	   *end;

	if (c_locale == (locale_t) 0)
		c_locale = newlocale(LC_ALL_MASK, "C", (locale_t) 0);
	if (c_locale == (locale_t) 0)
		return SX_TEXT_UNSURE;
	if (len >= sizeof(local) && (copy = malloc(len + 1)) == NULL)
		return SX_TEXT_UNSURE;
	memcpy(copy, text, len);
	copy[len] = '\0';
	*result = strtod_l(copy, &end, c_locale);
	if (copy != local)
		free(copy);
	if (isinf(*result))
		return SX_TEXT_RANGE;
	return SX_TEXT_OK;
}

/* [+-]digits[.digits][e[+-]digits], one digit at least before or after the point. */
SxTextResult
sx_text_to_float8(const char *text, size_t len, double *result)
{
	const char *at = text;
	const char *end = text + len;
	bool		negative = false;
	uint64		mantissa = 0;
	int			ndigits = 0;	/* that count in mantissa */
	int			scale = 0;
	bool		any = false;
	bool		too_long = false;

	if (at < end && (*at == '-' || *at == '+'))
		negative = *at++ == '-';
	for (int fraction = 0; fraction <= 1; fraction++)
	{
		for (; at < end && IS_DIGIT(*at); at++)
		{
			any = true;
			scale -= fraction;
			if (ndigits == 0 && *at == '0')
				continue;
			if (++ndigits > 18)
				too_long = true;
			else
				mantissa = mantissa * 10 + (*at - '0');
		}
		if (fraction == 1 || at == end || *at != '.')
			break;
		at++;
	}
	if (!any)
		return SX_TEXT_INVALID;
	if (at < end && (*at == 'e' || *at == 'E'))
	{
		bool		minus = false;
		int			exponent = 0;

		at++;
		if (at < end && (*at == '-' || *at == '+'))
			minus = *at++ == '-';
		if (at == end)
			return SX_TEXT_INVALID;
		for (; at < end && IS_DIGIT(*at); at++)
			exponent = Min(exponent * 10 + (*at - '0'), 100000);
		scale += minus ? -exponent : exponent;
	}
	if (at != end)
		return SX_TEXT_INVALID;

	/* Exact: both operands are, and the result is rounded once. */
	if (!too_long && mantissa <= (UINT64CONST(1) << 53) && scale >= -22 && scale <= 22)
	{
		double		value = (double) mantissa;

		value = scale < 0 ? value / powers_of_ten[-scale] : value * powers_of_ten[scale];
		*result = negative ? -value : value;
		return SX_TEXT_OK;
	}
	return float8_by_library(text, len, result);
}

/* ---- numeric, as it is on disk ---- */

#define NUMERIC_BASE_DIGITS	4
#define SHORT_FORM			0x8000
#define SHORT_NEGATIVE		0x2000
#define SHORT_SCALE_SHIFT	7
#define SHORT_SCALE_MAX		63
#define SHORT_WEIGHT_MASK	0x7F
#define SHORT_WEIGHT_MIN	(-64)
#define SHORT_WEIGHT_MAX	63
#define FAST_NUMERIC_DIGITS	200

typedef struct DecimalText
{
	bool		negative;
	const char *whole;			/* without leading zeros */
	int			nwhole;
	const char *fraction;
	int			nfraction;
} DecimalText;

static SxTextResult
scan_decimal(const char *text, size_t len, DecimalText *decimal)
{
	const char *end = text + len;
	int			nwhole;

	if (len > FAST_NUMERIC_DIGITS)
		return SX_TEXT_UNSURE;
	decimal->negative = text < end && *text == '-';
	if (text < end && (*text == '-' || *text == '+'))
		text++;
	decimal->whole = text;
	while (text < end && IS_DIGIT(*text))
		text++;
	nwhole = text - decimal->whole;
	decimal->nfraction = 0;
	decimal->fraction = text;
	if (text < end && *text == '.')
	{
		decimal->fraction = ++text;
		while (text < end && IS_DIGIT(*text))
			text++;
		decimal->nfraction = text - decimal->fraction;
	}
	if (text != end || nwhole + decimal->nfraction == 0)
		return SX_TEXT_UNSURE;
	while (nwhole > 0 && *decimal->whole == '0')
	{
		decimal->whole++;
		nwhole--;
	}
	decimal->nwhole = nwhole;
	return SX_TEXT_OK;
}

/* Base-10000 digits, zeros at both ends left out; their number. */
static int
decimal_digits(const DecimalText *decimal, int16 *digits, int *weight)
{
	int			nwhole_groups = (decimal->nwhole + NUMERIC_BASE_DIGITS - 1) / NUMERIC_BASE_DIGITS;
	int			place = nwhole_groups * NUMERIC_BASE_DIGITS - decimal->nwhole;
	int			n = 0;
	int			group = 0;
	int			in_group = place;
	int			first = 0;

	for (int i = 0; i < decimal->nwhole; i++)
	{
		group = group * 10 + (decimal->whole[i] - '0');
		if (++in_group == NUMERIC_BASE_DIGITS)
		{
			digits[n++] = group;
			group = in_group = 0;
		}
	}
	in_group = 0;
	for (int i = 0; i < decimal->nfraction; i++)
	{
		group = group * 10 + (decimal->fraction[i] - '0');
		if (++in_group == NUMERIC_BASE_DIGITS)
		{
			digits[n++] = group;
			group = in_group = 0;
		}
	}
	if (in_group > 0)
	{
		for (; in_group < NUMERIC_BASE_DIGITS; in_group++)
			group *= 10;
		digits[n++] = group;
	}
	*weight = nwhole_groups - 1;
	while (n > 0 && digits[n - 1] == 0)
		n--;
	while (first < n && digits[first] == 0)
		first++;
	for (int i = first; first > 0 && i < n; i++)
		digits[i - first] = digits[i];
	*weight -= first;
	if (n == first)
		*weight = 0;
	return n - first;
}

SxTextResult
sx_text_to_numeric(const char *text, size_t len, const SxColumn *column, SxRowBuffer *out,
				   uintptr_t *result)
{
	DecimalText decimal;
	int16		digits[FAST_NUMERIC_DIGITS / NUMERIC_BASE_DIGITS + 3];
	SxTextResult scanned = scan_decimal(text, len, &decimal);
	int			weight;
	int			ndigits;
	int			scale;
	size_t		size;
	uint16	   *numeric;

	if (scanned != SX_TEXT_OK)
		return scanned;
	scale = decimal.nfraction;
	if (column->precision >= 0)
	{
		if (scale > column->scale || column->scale < 0)
			return SX_TEXT_UNSURE;	/* rounds */
		scale = column->scale;
		if (decimal.nwhole > column->precision - column->scale)
			return SX_TEXT_RANGE;
	}
	ndigits = decimal_digits(&decimal, digits, &weight);
	if (scale > SHORT_SCALE_MAX || weight < SHORT_WEIGHT_MIN || weight > SHORT_WEIGHT_MAX)
		return SX_TEXT_UNSURE;
	size = VARHDRSZ + sizeof(uint16) + ndigits * sizeof(int16);
	numeric = sx_row_buffer_alloc(out, size);
	*result = (uintptr_t) numeric;
	if (numeric == NULL)
		return SX_TEXT_OK;		/* the caller looks */
	SET_VARSIZE(numeric, size);
	numeric[2] = SHORT_FORM | (decimal.negative && ndigits > 0 ? SHORT_NEGATIVE : 0) |
		(scale << SHORT_SCALE_SHIFT) | (weight & SHORT_WEIGHT_MASK);
	memcpy(numeric + 3, digits, ndigits * sizeof(int16));
	return SX_TEXT_OK;
}

/* ---- times ---- */

/* Days since 2000-01-01, Gregorian for all time. */
static int64
days_of_date(int64 year, int month, int day)
{
	int64		era;
	int64		year_of_era;
	int64		day_of_year;

	year -= month <= 2;			/* years begin in March */
	era = (year >= 0 ? year : year - 399) / 400;
	year_of_era = year - era * 400;
	day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
	return era * 146097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 +
		day_of_year - 730425;
}

static bool
two_digits(const char *text, int *result)
{
	if (!IS_DIGIT(text[0]) || !IS_DIGIT(text[1]))
		return false;
	*result = (text[0] - '0') * 10 + (text[1] - '0');
	return true;
}

/* YYYY-MM-DD of a real day; false for all else. */
static bool
scan_date(const char *text, size_t len, int *year, int *month, int *day)
{
	static const int8 days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
	int			high;
	int			low;

	if (len < 10 || text[4] != '-' || text[7] != '-' ||
		!two_digits(text, &high) || !two_digits(text + 2, &low) ||
		!two_digits(text + 5, month) || !two_digits(text + 8, day))
		return false;
	*year = high * 100 + low;
	if (*year == 0 || *month < 1 || *month > 12 || *day < 1 || *day > days[*month - 1])
		return false;
	return *month != 2 || *day < 29 ||
		(*year % 4 == 0 && (*year % 100 != 0 || *year % 400 == 0));
}

SxTextResult
sx_text_to_date(const char *text, size_t len, int32 *result)
{
	int			year;
	int			month;
	int			day;

	if (!scan_date(text, len, &year, &month, &day))
		return SX_TEXT_UNSURE;
	if (len > 10 && text[10] != 'T' && text[10] != ' ')
		return SX_TEXT_UNSURE;
	if (len > 10)
		return SX_TEXT_UNSURE;	/* a time behind it: the input function checks it */
	*result = days_of_date(year, month, day);
	return SX_TEXT_OK;
}

/* Z, +hh, +hhmm, +hh:mm, +hh:mm:ss; seconds east of Greenwich. */
static bool
scan_zone(const char *text, const char *end, int *seconds)
{
	int			parts[3] = {0};
	int			n = 0;
	bool		west;

	if (end - text == 1 && (*text == 'Z' || *text == 'z'))
	{
		*seconds = 0;
		return true;
	}
	if (end - text < 3 || (*text != '+' && *text != '-'))
		return false;
	west = *text++ == '-';
	while (text < end)
	{
		if (n == 3 || end - text < 2 || !two_digits(text, &parts[n]))
			return false;
		n++;
		text += 2;
		if (text < end && *text == ':' && end - text > 2)
			text++;
	}
	if (parts[0] > 15 || parts[1] > 59 || parts[2] > 59)
		return false;
	*seconds = parts[0] * 3600 + parts[1] * 60 + parts[2];
	if (west)
		*seconds = -*seconds;
	return true;
}

static int
local_offset(const SxTextRules *rules, int year, int month, int day, int second_of_day)
{
	struct pg_tm tm = {0};

	if (rules->fixed_offset)
		return rules->offset_seconds;
	tm.tm_year = year;
	tm.tm_mon = month;
	tm.tm_mday = day;
	tm.tm_hour = second_of_day / 3600;
	tm.tm_min = second_of_day / 60 % 60;
	tm.tm_sec = second_of_day % 60;
	tm.tm_isdst = -1;

	/* Only searches in the zone's table of transitions: safe on any thread. */
	return -DetermineTimeZoneOffset(&tm, (pg_tz *) rules->zone);
}

/* hh:mm[:ss[.fraction]] from text; where it ends, NULL: not so. Digits beyond microseconds are cut, as in Spark. */
static const char *
scan_time(const char *text, const char *end, int *seconds, int *micros)
{
	int			hour;
	int			minute;
	int			second = 0;
	int			place = 100000;

	*micros = 0;
	if (end - text < 5 || text[2] != ':' || !two_digits(text, &hour) ||
		!two_digits(text + 3, &minute) || hour > 23 || minute > 59)
		return NULL;
	text += 5;
	if (end - text >= 3 && *text == ':')
	{
		if (!two_digits(text + 1, &second) || second > 59)
			return NULL;
		text += 3;
		if (end - text >= 2 && *text == '.' && IS_DIGIT(text[1]))
			for (text++; text < end && IS_DIGIT(*text); text++, place /= 10)
				*micros += (*text - '0') * place;
	}
	*seconds = hour * 3600 + minute * 60 + second;
	return text;
}

SxTextResult
sx_text_to_timestamp(const char *text, size_t len, const SxTextRules *rules, bool with_zone,
					 int64 *result)
{
	const char *end = text + len;
	int			year;
	int			month;
	int			day;
	int			seconds = 0;
	int			micros = 0;
	int			offset = 0;
	bool		zoned = false;

	if (!scan_date(text, len, &year, &month, &day))
		return SX_TEXT_UNSURE;
	text += 10;
	if (text < end)
	{
		if (*text != 'T' && *text != ' ')
			return SX_TEXT_UNSURE;
		text = scan_time(text + 1, end, &seconds, &micros);
		if (text == NULL)
			return SX_TEXT_UNSURE;
		if (text < end && *text == ' ' && text + 1 < end)
			text++;
		if (text < end)
		{
			if (!scan_zone(text, end, &offset))
				return SX_TEXT_UNSURE;
			zoned = true;
		}
	}
	if (with_zone && !zoned)
		offset = local_offset(rules, year, month, day, seconds);
	else if (!with_zone && zoned)
		return SX_TEXT_INVALID; /* as Spark: no instant goes into a type without zone */
	*result = (days_of_date(year, month, day) * SECS_PER_DAY + seconds - offset) * USECS_PER_SEC +
		micros;
	return SX_TEXT_OK;
}

SxTextResult
sx_epoch_to_timestamp(int64 number, SxTimeUnit unit, int64 *result)
{
	int64		factor = unit == SX_TIME_SECONDS ? USECS_PER_SEC :
		unit == SX_TIME_MILLIS ? 1000 : 1;
	int64		epoch = ((int64) POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * USECS_PER_DAY;

	if (number > PG_INT64_MAX / factor || number < PG_INT64_MIN / factor)
		return SX_TEXT_RANGE;
	number *= factor;
	if (number < PG_INT64_MIN + epoch)
		return SX_TEXT_RANGE;
	number -= epoch;
	if (!IS_VALID_TIMESTAMP(number))
		return SX_TEXT_RANGE;
	*result = number;
	return SX_TEXT_OK;
}

/* ---- UUID: 8-4-4-4-12 ---- */

static int
hex_digit(char c)
{
	if (IS_DIGIT(c))
		return c - '0';
	c |= 0x20;
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

SxTextResult
sx_text_to_uuid(const char *text, size_t len, unsigned char *result)
{
	if (len != 36)
		return SX_TEXT_UNSURE;
	for (int i = 0; i < 16; i++)
	{
		int			high;
		int			low;

		if (i == 4 || i == 6 || i == 8 || i == 10)
		{
			if (*text++ != '-')
				return SX_TEXT_UNSURE;
		}
		high = hex_digit(text[0]);
		low = hex_digit(text[1]);
		if (high < 0 || low < 0)
			return SX_TEXT_UNSURE;
		result[i] = high << 4 | low;
		text += 2;
	}
	return SX_TEXT_OK;
}

/* ---- UTF-8, as the server understands it ---- */

int
sx_utf8_length(const unsigned char *text, const unsigned char *end)
{
	unsigned char c = *text;
	int			length = c < 0x80 ? 1 : c < 0xC2 ? 0 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : c < 0xF5 ? 4 : 0;

	if (length == 0 || length > end - text)
		return 0;
	if (length == 1)
		return 1;
	if ((length == 3 && ((c == 0xE0 && text[1] < 0xA0) || (c == 0xED && text[1] > 0x9F))) ||
		(length == 4 && ((c == 0xF0 && text[1] < 0x90) || (c == 0xF4 && text[1] > 0x8F))))
		return 0;
	for (int i = 1; i < length; i++)
		if ((text[i] & 0xC0) != 0x80)
			return 0;
	return length;
}

bool
sx_utf8_valid(const char *text, size_t len)
{
	const unsigned char *at = (const unsigned char *) text;
	const unsigned char *end = at + len;

	while (at < end)
	{
		uint64		word;
		int			length;

		if (end - at >= 8)
		{
			memcpy(&word, at, 8);
			/* All ASCII and no zero byte. */
			if ((word & UINT64CONST(0x8080808080808080)) == 0 &&
				((word - UINT64CONST(0x0101010101010101)) & UINT64CONST(0x8080808080808080)) == 0)
			{
				at += 8;
				continue;
			}
		}
		length = sx_utf8_length(at, end);
		if (length == 0 || *at == '\0')
			return false;
		at += length;
	}
	return true;
}
