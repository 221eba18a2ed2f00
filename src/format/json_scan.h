/*
 * json_scan.h
 *		The tokens of one JSON document.
 *
 * Strict RFC 8259 but for the leniencies that the options allow (Jackson's, as in
 * Spark). The text must be followed by SX_RECORD_PADDING zero bytes: a zero ends
 * every token, so nothing here compares with the end. Thread: any.
 */
#ifndef SX_FORMAT_JSON_SCAN_H
#define SX_FORMAT_JSON_SCAN_H

#include "format/format.h"

/* As Jackson; also what a thread's stack and jsonb can take. */
#define SX_JSON_MAX_DEPTH	1000

typedef struct SxJsonRules
{
	bool		single_quotes;
	bool		unquoted_names;
	bool		comments;
	bool		leading_zeros;
	bool		non_numeric;
	bool		backslash_any;
	bool		control_chars;
} SxJsonRules;

typedef struct SxJsonText
{
	const SxJsonRules *rules;
	const char *start;
	const char *at;
	const char *end;			/* a zero byte stands there */

	/* of what was scanned since they were cleared */
	bool		nonstandard;	/* leniencies were needed: not for jsonb_in */
	bool		unrepresentable;	/* \u0000 or half a surrogate pair */
	bool		broken_utf8;
	bool		wild_number;	/* numeric might not take it */

	const char *error;			/* constant; at is where */
} SxJsonText;

typedef enum SxJsonToken
{
	SX_JSON_NULL,
	SX_JSON_TRUE,
	SX_JSON_FALSE,
	SX_JSON_INTEGER,
	SX_JSON_FLOAT,
	SX_JSON_NON_NUMERIC,		/* NaN, Infinity, -INF ... */
	SX_JSON_STRING,
	SX_JSON_OBJECT,
	SX_JSON_ARRAY,
	SX_JSON_BAD
} SxJsonToken;

typedef struct SxJsonSpan
{
	const char *text;			/* a string's without its quotes */
	size_t		len;
	bool		escaped;
	bool		high;			/* has bytes >= 0x80 */
	bool		small;			/* SX_JSON_INTEGER: value is it */
	int64		value;
} SxJsonSpan;

/* Reads one whole value (an object or array with all it holds). */
extern SxJsonToken sx_json_value(SxJsonText *json, SxJsonSpan *span);

/* The name of a field, and the colon behind it. */
extern bool sx_json_name(SxJsonText *json, SxJsonSpan *span);

/* The characters of a string with escapes; to has room for span->len bytes. Halves of
 * surrogate pairs become U+FFFD (replace) or bytes that are no UTF-8. */
extern size_t sx_json_unescape(const SxJsonSpan *span, bool replace, char *to);

/* In place: \ufffd for what text cannot hold. */
extern void sx_json_patch_escapes(char *text, size_t len);

extern void sx_json_skip_slow(SxJsonText *json);

/* White space, and comments where allowed. */
static inline void
sx_json_skip_space(SxJsonText *json)
{
	unsigned char c = *json->at;

	if (c > ' ' && c != '/' && c != '#')
		return;
	sx_json_skip_slow(json);
}

#endif
