/*
 * fill.h
 *		Rows of a buffer into slots: input functions, and what becomes of malformed ones.
 *
 *	 well formed ─▶ row
 *	 malformed ─┬─ FAILFAST ─▶ error, or the quarantine where the query has one
 *				├─ DROPMALFORMED ─▶ dropped
 *				├─ no mode given, the query has a quarantine, no corrupt-record column ─▶ quarantine
 *				└─ PERMISSIVE ─▶ row, its bytes in the corrupt-record column
 *
 * Whether a row is malformed may be known only here, when an input function refuses
 * its text; it is then written into the buffer, so a second fill says the same.
 * Thread: main.
 */
#ifndef SX_FORMAT_FILL_H
#define SX_FORMAT_FILL_H

#include "format/format.h"

typedef enum SxFill
{
	SX_FILL_ROW,
	SX_FILL_DROPPED,			/* by mode DROPMALFORMED */
	SX_FILL_QUARANTINE			/* row->error says why; it is no row of the batch */
} SxFill;

/* SQLSTATE of malformed records, in errors and in the quarantine. */
#define SX_MALFORMED_SQLSTATE	ERRCODE_DATA_EXCEPTION

typedef struct SxFiller SxFiller;

/* Where a record came from, for FAILFAST: 'topic "t", partition 0, offset 12'. */
typedef char *(*SxFillWhere) (void *arg, const SxRow *row);

/* In CurrentMemoryContext. The strings of options and target are copied. */
extern SxFiller *sx_filler_create(const SxFormatTarget *target, const SxFormatOptions *options,
								  bool quarantine, SxFillWhere where, void *where_arg);
extern void sx_filler_free(SxFiller *filler);

/*
 * Writes tts_values and tts_isnull of the columns that are read from the value,
 * and of the corrupt-record column; the caller has cleared the slot, sets the
 * others (they are NULL) and stores it. Columns behind last_needed may be NULL.
 * What the slot points to lives until the next call, or as long as the buffer.
 */
extern SxFill sx_filler_fill(SxFiller *filler, SxRowBuffer *buffer, int64 row,
							 AttrNumber last_needed, TupleTableSlot *slot);

/* JSON of a composite, array or scalar into its Datum; raises what the input functions do. */
extern Datum sx_json_to_datum(const char *json, Oid type, int32 typmod, bool *isnull);

#endif
