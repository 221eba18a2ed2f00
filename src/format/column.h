/*
 * column.h
 *		A column as decoders see it, and the text of a scalar into its Datum.
 *
 * Types that are read often have a parser here that needs nothing of the server.
 * All others become text cells, for the type's input function on the main thread.
 */
#ifndef SX_FORMAT_COLUMN_H
#define SX_FORMAT_COLUMN_H

#include "base/compat.h"
#include "format/format.h"

#ifndef USE_FLOAT8_BYVAL
#error "streamx needs a server with 64-bit Datums"
#endif

typedef enum SxColumnKind
{
	SX_KIND_BOOL,
	SX_KIND_INT2,
	SX_KIND_INT4,
	SX_KIND_INT8,
	SX_KIND_FLOAT4,
	SX_KIND_FLOAT8,
	SX_KIND_NUMERIC,
	SX_KIND_TEXT,				/* text, varchar */
	SX_KIND_BYTEA,
	SX_KIND_DATE,
	SX_KIND_TIMESTAMP,
	SX_KIND_TIMESTAMPTZ,
	SX_KIND_UUID,
	SX_KIND_JSON,				/* json, jsonb */
	SX_KIND_NESTED,				/* composite, array */
	SX_KIND_OTHER				/* input function only */
} SxColumnKind;

typedef struct SxColumn
{
	int			index;			/* attribute number - 1 */
	bool		needed;
	SxColumnKind kind;
	bool		is_jsonb;
	bool		is_time;		/* its input function knows 'now' and 'today' */
	int			max_chars;		/* varchar(n); -1: any */
	int			precision;		/* numeric(p, s); -1: any */
	int			scale;
	char	   *name;			/* malloc'ed: the field's name in the data */
	size_t		name_len;
	char	   *label;			/* malloc'ed: the column's name, for errors */
} SxColumn;

/* What the parsers need to know, apart from the column. Plain values: Thread any. */
typedef struct SxTextRules
{
	const pg_tz *zone;			/* of times without one; the server never frees it */
	bool		fixed_offset;	/* zone is always the same ... */
	int			offset_seconds; /* ... number of seconds east of Greenwich */
	SxTimeUnit	unit;
	bool		replace_invalid;
} SxTextRules;

/*
 * malloc'ed array of the columns that are decoded; -1: out of memory. With
 * by_place those that aren't needed are there, too. Thread: main.
 */
extern int	sx_columns_make(const SxFormatTarget *target, const SxFormatOptions *options,
							bool by_place, SxColumn **columns);
extern void sx_columns_free(SxColumn *columns, int n);
extern void sx_text_rules_init(SxTextRules *rules, const SxFormatOptions *options);
/* ISO 8601 with the zone's offset, or infinity; text has room for MAXDATELEN + 1 bytes. */
extern void sx_timestamptz_print(int64 value, pg_tz *zone, char *text);

/* Columns and text here are UTF-8. */
extern void sx_format_check_encoding(void);

/* ---- Thread: any from here on ---- */

typedef enum SxTextResult
{
	SX_TEXT_OK,
	SX_TEXT_INVALID,			/* not a value of the type */
	SX_TEXT_RANGE,				/* out of its range */
	SX_TEXT_UNSURE				/* unusual: ask the input function */
} SxTextResult;

extern SxTextResult sx_text_to_int64(const char *text, size_t len, int64 *result);
extern SxTextResult sx_text_to_float8(const char *text, size_t len, double *result);	/* no NaN, no infinity */
extern SxTextResult sx_text_to_date(const char *text, size_t len, int32 *result);
extern SxTextResult sx_text_to_timestamp(const char *text, size_t len, const SxTextRules *rules,
										 bool with_zone, int64 *result);
extern SxTextResult sx_epoch_to_timestamp(int64 number, SxTimeUnit unit, int64 *result);
extern SxTextResult sx_text_to_uuid(const char *text, size_t len, unsigned char *result);

/* A numeric without an exponent; UNSURE for others and where digits are to be rounded away. */
extern SxTextResult sx_text_to_numeric(const char *text, size_t len, const SxColumn *column,
									   SxRowBuffer *out, uintptr_t *result);

/* Length of the valid UTF-8 character at text (not beyond end), 0: broken. NUL is valid here. */
extern int	sx_utf8_length(const unsigned char *text, const unsigned char *end);
extern bool sx_utf8_valid(const char *text, size_t len);	/* and without NUL */

/*
 * One cell of a text-like format; in the same order as the kinds. The error's
 * reason, if any, goes to *reason (a constant).
 */
typedef enum SxCellResult
{
	SX_CELL_OK,
	SX_CELL_BAD,				/* cell stays NULL, *reason says why */
	SX_CELL_NO_MEMORY
} SxCellResult;

extern SxCellResult sx_cell_from_text(const SxColumn *column, const SxTextRules *rules,
									  const char *text, size_t len, SxRowBuffer *out,
									  SxRowCells *cells, const char **reason);

/* Text and varchar; text may hold NUL and broken UTF-8, which the rules replace or refuse. */
extern SxCellResult sx_cell_from_string(const SxColumn *column, const SxTextRules *rules,
										const char *text, size_t len, bool known_valid,
										SxRowBuffer *out, SxRowCells *cells, const char **reason);

/* Text for the input function on the main thread. */
extern SxCellResult sx_cell_defer(const SxColumn *column, const SxTextRules *rules, uint8 kind,
								  const char *text, size_t len, SxRowBuffer *out,
								  SxRowCells *cells, const char **reason);

extern bool sx_same_word(const char *text, size_t len, const char *word);	/* any case */

/* U+FFFD for NUL and for each byte that belongs to no character; to has room for three times len. */
extern size_t sx_text_replace_invalid(const char *text, size_t len, char *to);

/* An error text for the row: 'column "a": reason "text..."'; the first one stays. False: no memory. */
extern bool sx_row_set_error(SxRowBuffer *out, SxRow *row, const char *label, const char *reason,
							 const char *text, size_t len);

#endif
