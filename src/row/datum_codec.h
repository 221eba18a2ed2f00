/*
 * datum_codec.h
 *		Datums as bytes that outlive the process, and back.
 *
 * The bytes of one value (format version 1; the file or value that holds them
 * carries the version number):
 *
 *	 integers, oid		varint, signed ones folded
 *	 other by value		typlen bytes as in memory
 *	 fixed length		typlen bytes
 *	 varlena			varint length, then the bytes after the header,
 *						never toasted, compressed or expanded
 *	 cstring			varint length, bytes without the final NUL
 *	 record				anonymous row types are known to one process only, so
 *						the description goes along: see datum_codec.c
 *
 * NULL is the caller's business; rows have a bitmap (sx_row_encode). Bytes that
 * are equal are values that are equal under every "=" of the type; the converse
 * holds only for the types of sx_type_is_bytewise.
 */
#ifndef SX_ROW_DATUM_CODEC_H
#define SX_ROW_DATUM_CODEC_H

#include "row/varint.h"

typedef enum SxDatumForm
{
	SX_DATUM_INTEGER,
	SX_DATUM_BYVAL,
	SX_DATUM_FIXED,
	SX_DATUM_VARLENA,
	SX_DATUM_CSTRING,
	SX_DATUM_RECORD,			/* type "record" */
	SX_DATUM_RECORDS			/* type "record[]" */
} SxDatumForm;

typedef struct SxDatumCodec
{
	Oid			type;
	SxDatumForm form;
	int16		typlen;
	bool		byval;
} SxDatumCodec;

extern void sx_datum_codec_make(SxDatumCodec *codec, Oid type);

/* Appends a value that is not NULL. */
extern void sx_datum_encode(const SxDatumCodec *codec, StringInfo out, Datum value);

/* Palloc'ed in CurrentMemoryContext unless by value. */
extern Datum sx_datum_decode(const SxDatumCodec *codec, SxReader *in);

/* A row: bitmap of NULLs, a bit per column, then the other values in order. */
extern void sx_row_encode(const SxDatumCodec *codecs, int n, StringInfo out,
						  const Datum *values, const bool *nulls);
extern void sx_row_decode(const SxDatumCodec *codecs, int n, SxReader *in,
						  Datum *values, bool *nulls);

/* Are two values of the type equal (under this collation) only if their bytes are? */
extern bool sx_type_is_bytewise(Oid type, Oid collation);

#endif
