/*
 * format.h
 *		Bytes into rows, and rows into bytes: json, csv, raw, avro.
 *
 * A decoder is made on the main thread and may then run on any one thread: it
 * touches no memory context, no setting and no error of the server, and fills a
 * row buffer (row_buffer.h). Whoever owns the buffer turns its rows into slots
 * on the main thread (fill.h). What a decoder is given comes as a copy: the
 * bytes of a record need not outlive the call.
 */
#ifndef SX_FORMAT_FORMAT_H
#define SX_FORMAT_FORMAT_H

#include "access/tupdesc.h"
#include "executor/tuptable.h"
#include "lib/stringinfo.h"
#include "nodes/pg_list.h"
#include "pgtime.h"

#include "base/compat.h"
#include "format/row_buffer.h"

typedef enum SxParseMode
{
	SX_MODE_DEFAULT,			/* not given: PERMISSIVE, but to the quarantine where the query has one */
	SX_MODE_PERMISSIVE,
	SX_MODE_DROPMALFORMED,
	SX_MODE_FAILFAST
} SxParseMode;

/* How numbers and strings in a timestamp column are to be read. */
typedef enum SxTimeUnit
{
	SX_TIME_SECONDS,			/* Spark's rule for JSON numbers */
	SX_TIME_MILLIS,
	SX_TIME_MICROS
} SxTimeUnit;

/* All options of all formats; made by sx_format_options_parse. */
typedef struct SxFormatOptions
{
	const char *format;			/* 'json' and so on; NULL: not given */
	SxParseMode mode;
	const char *corrupt_column; /* column_name_of_corrupt_record */
	bool		replace_invalid;	/* invalid_text 'replace': U+FFFD for what text cannot hold */
	pg_tz	   *time_zone;		/* of times without a zone: time_zone, else the session's */
	SxTimeUnit	time_unit;		/* of numbers in timestamp columns */

	/* JSON: Jackson's leniencies */
	bool		single_quotes;
	bool		unquoted_names;
	bool		comments;
	bool		leading_zeros;
	bool		non_numeric;	/* NaN, Infinity */
	bool		backslash_any;
	bool		control_chars;
	bool		no_arrays;		/* from_json: an array at the top is malformed */

	/* JSON and CSV, writing */
	bool		ignore_null_fields;

	/* CSV; '\0' is none */
	char		separator;
	char		quote;
	char		escape;
	char		comment;
	bool		trim_leading;
	bool		trim_trailing;
	const char *null_value;
	const char *empty_value;
	const char *nan_value;
	const char *positive_inf;
	const char *negative_inf;
	bool		multi_line;
	int			max_columns;
	bool		write_quotes_all;

	/* Avro */
	const char *avro_schema;	/* JSON text */
	const char *registry_url;
	const char *registry_user;	/* user mapping */
	const char *registry_password;
	const char *registry_subject;
	int			registry_timeout_ms;
} SxFormatOptions;

/*
 * Which columns a format works on. A name in fields stands for the column's
 * own (column option "field"); the corrupt-record column is never from the value.
 * Columns that the query doesn't use are left NULL, but still count where fields are
 * told apart by their place.
 */
typedef struct SxFormatTarget
{
	TupleDesc	desc;
	const bool *from_value;		/* by column: it stands in the value; NULL: all do */
	const bool *needed;			/* by column: decode it, if from_value; NULL: all */
	const char *const *fields;	/* by column, NULL: its name; may be NULL */
} SxFormatTarget;

struct SxFormatRoutine;

typedef struct SxDecoder
{
	const struct SxFormatRoutine *routine;
} SxDecoder;

typedef struct SxEncoder
{
	const struct SxFormatRoutine *routine;
} SxEncoder;

typedef struct SxFormatRoutine
{
	const char *name;

	/* Refuses columns and options that don't fit, at CREATE and ALTER. Thread: main. */
	void		(*check) (const SxFormatTarget *target, const SxFormatOptions *options);

	/* malloc'ed; close() it. Options and target need not outlive the call. Thread: main. */
	SxDecoder  *(*open_decoder) (const SxFormatTarget *target, const SxFormatOptions *options);

	/*
	 * Appends the rows of one record: none (a blank one), one, or several (an
	 * array at the top). Never fails because of the bytes: a malformed record is a
	 * row with an error. NULL data (a tombstone): a row of NULLs. False: it can't go
	 * on, for want of memory or of a schema registry; nothing of the record is in the
	 * buffer (sx_format_raise_failure, later). Thread: any, one at a time.
	 */
	bool		(*decode) (SxDecoder *decoder, const char *data, size_t len, SxRowBuffer *out);

	/* Thread: any. */
	void		(*close_decoder) (SxDecoder *decoder);

	/* In CurrentMemoryContext; NULL where the format only reads. Thread: main, these three. */
	SxEncoder  *(*open_encoder) (const SxFormatTarget *target, const SxFormatOptions *options);

	/* Appends the bytes of one row; false: its value is NULL (raw with a NULL value). */
	bool		(*encode) (SxEncoder *encoder, TupleTableSlot *slot, StringInfo out);
} SxFormatRoutine;

/* By the word in option "format", any case; an error that lists the words for another. */
extern const SxFormatRoutine *sx_format_routine(const char *name);

/*
 * Options of streams, snake_case or Spark's camelCase. sx_format_option_known says
 * whether a format takes one of this name (the caller may still have its own);
 * sx_format_options_parse reads those and skips all others. The result is in
 * CurrentMemoryContext and shares the strings of the list.
 */
extern bool sx_format_option_known(const char *name);
extern const char *sx_format_option_names(void);	/* for a hint: "avro_schema, ..." */
extern SxFormatOptions *sx_format_options_parse(List *options);

/* Number of the corrupt-record column of the target, 0: none. Error if it is neither text nor bytea. */
extern AttrNumber sx_format_corrupt_column(TupleDesc desc, const SxFormatOptions *options);

/* Raises the error of a failed malloc. Thread: main. */
extern void sx_format_out_of_memory(void) pg_attribute_noreturn();

/* Raises the error of a decode that returned false: out of memory, or a transient one. Thread: main. */
extern void sx_format_raise_failure(const SxRowBuffer *buffer) pg_attribute_noreturn();

static inline bool
sx_decode(SxDecoder *decoder, const char *data, size_t len, SxRowBuffer *out)
{
	return decoder->routine->decode(decoder, data, len, out);
}

static inline void
sx_decoder_close(SxDecoder *decoder)
{
	decoder->routine->close_decoder(decoder);
}

static inline bool
sx_encode(SxEncoder *encoder, TupleTableSlot *slot, StringInfo out)
{
	return encoder->routine->encode(encoder, slot, out);
}

/* Writing, as the routines json and csv have it. */
extern SxEncoder *sx_csv_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options);
extern bool sx_csv_encode(SxEncoder *encoder, TupleTableSlot *slot, StringInfo out);
extern SxEncoder *sx_json_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options);
extern bool sx_json_encode(SxEncoder *encoder, TupleTableSlot *slot, StringInfo out);

extern const SxFormatRoutine sx_json_format;
extern const SxFormatRoutine sx_csv_format;
extern const SxFormatRoutine sx_raw_format;
extern const SxFormatRoutine sx_avro_format;

#endif
