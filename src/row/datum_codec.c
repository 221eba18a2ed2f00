/*
 * datum_codec.c
 *		See datum_codec.h for the bytes of most types.
 *
 * A record (pseudo type, so its row type is found in the value):
 *
 *	 varint 0, varint length, bytes			a named composite type: as it is
 *	 varint natts + 1, then per attribute	an anonymous one
 *		varint type oid, varint folded typmod, varint collation oid,
 *		varint length of the name, name,
 *		byte 0: NULL, or byte 1 and the value
 *
 * An array of records: varint ndim, per dimension varint size and varint folded
 * lower bound, then per element byte 0: NULL, or byte 1 and the record.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "utils/array.h"
#include "utils/lsyscache.h"
#include "utils/typcache.h"

#include "base/errors.h"
#include "row/datum_codec.h"

void
sx_reader_short(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_CHECKPOINT),
			 errmsg("a value in the state cannot be read"),
			 errdetail("Its bytes end before the value does."),
			 errhint("The state is damaged; start the query with a new checkpoint.")));
}

void
sx_datum_codec_make(SxDatumCodec *codec, Oid type)
{
	Oid			base = getBaseType(type);

	codec->type = type;
	get_typlenbyval(type, &codec->typlen, &codec->byval);
	switch (base)
	{
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
			codec->form = SX_DATUM_INTEGER;
			return;
		case RECORDOID:
			codec->form = SX_DATUM_RECORD;
			return;
		case RECORDARRAYOID:
			codec->form = SX_DATUM_RECORDS;
			return;
	}
	if (codec->byval)
		codec->form = SX_DATUM_BYVAL;
	else if (codec->typlen > 0)
		codec->form = SX_DATUM_FIXED;
	else if (codec->typlen == -1)
		codec->form = SX_DATUM_VARLENA;
	else
		codec->form = SX_DATUM_CSTRING;
}

static inline void
append_bytes(StringInfo out, const char *bytes, size_t len)
{
	enlargeStringInfo(out, SX_VARINT_MAX + len);
	out->len = sx_varint_write(out->data + out->len, len) - out->data;
	memcpy(out->data + out->len, bytes, len);
	out->len += len;
}

static void
encode_varlena(StringInfo out, Datum value)
{
	struct varlena *given = (struct varlena *) DatumGetPointer(value);
	struct varlena *flat = pg_detoast_datum_packed(given);

	append_bytes(out, VARDATA_ANY(flat), VARSIZE_ANY_EXHDR(flat));
	if (flat != given)
		pfree(flat);
}

static Datum
decode_varlena(SxReader *in)
{
	uint64		len = sx_read_varint(in);
	const char *bytes = sx_read_bytes(in, len);
	struct varlena *v = palloc(VARHDRSZ + len);

	SET_VARSIZE(v, VARHDRSZ + len);
	memcpy(VARDATA(v), bytes, len);
	return PointerGetDatum(v);
}

static void
encode_record(StringInfo out, Datum value)
{
	HeapTupleHeader header = DatumGetHeapTupleHeader(value);
	TupleDesc	desc;
	HeapTupleData tuple;
	Datum	   *values;
	bool	   *nulls;

	if (HeapTupleHeaderGetTypeId(header) != RECORDOID)
	{
		sx_varint_append(out, 0);
		append_bytes(out, VARDATA(header), VARSIZE(header) - VARHDRSZ);
		return;
	}
	desc = lookup_rowtype_tupdesc(RECORDOID, HeapTupleHeaderGetTypMod(header));
	tuple.t_len = HeapTupleHeaderGetDatumLength(header);
	ItemPointerSetInvalid(&tuple.t_self);
	tuple.t_tableOid = InvalidOid;
	tuple.t_data = header;
	values = palloc(desc->natts * sizeof(Datum) + 1);
	nulls = palloc(desc->natts * sizeof(bool) + 1);
	heap_deform_tuple(&tuple, desc, values, nulls);

	sx_varint_append(out, desc->natts + 1);
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		SxDatumCodec codec;

		/* anonymous row types made from a table keep its dropped columns */
		Oid			type = att->attisdropped ? TEXTOID : att->atttypid;
		bool		isnull = nulls[i] || att->attisdropped;

		sx_varint_append(out, type);
		sx_varint_append(out, sx_zigzag(att->atttypmod));
		sx_varint_append(out, att->attcollation);
		append_bytes(out, NameStr(att->attname), strlen(NameStr(att->attname)));
		appendStringInfoCharMacro(out, isnull ? 0 : 1);
		if (!isnull)
		{
			sx_datum_codec_make(&codec, type);
			sx_datum_encode(&codec, out, values[i]);
		}
	}
	pfree(values);
	pfree(nulls);
	ReleaseTupleDesc(desc);
}

static Datum
decode_record(SxReader *in)
{
	uint64		natts = sx_read_varint(in);
	TupleDesc	desc;
	HeapTuple	tuple;
	Datum	   *values;
	bool	   *nulls;
	Datum		result;

	if (natts == 0)
		return decode_varlena(in);
	natts--;
	if (natts > MaxTupleAttributeNumber)
		sx_reader_short();
	desc = CreateTemplateTupleDesc(natts);
	values = palloc0(natts * sizeof(Datum) + 1);
	nulls = palloc0(natts * sizeof(bool) + 1);
	for (int i = 0; i < natts; i++)
	{
		Oid			type = sx_read_varint(in);
		int32		typmod = sx_unzigzag(sx_read_varint(in));
		Oid			collation = sx_read_varint(in);
		uint64		namelen = sx_read_varint(in);
		const char *bytes = sx_read_bytes(in, namelen);
		char	   *name = pnstrdup(bytes, namelen);

		TupleDescInitEntry(desc, i + 1, name, type, typmod, 0);
		TupleDescInitEntryCollation(desc, i + 1, collation);
		nulls[i] = *sx_read_bytes(in, 1) == 0;
		if (!nulls[i])
		{
			SxDatumCodec codec;

			sx_datum_codec_make(&codec, type);
			values[i] = sx_datum_decode(&codec, in);
		}
	}
	BlessTupleDesc(desc);
	tuple = heap_form_tuple(desc, values, nulls);
	/* a chunk of its own, that can be freed: a formed tuple's row lies within another */
	result = heap_copy_tuple_as_datum(tuple, desc);
	heap_freetuple(tuple);
	pfree(values);
	pfree(nulls);
	return result;
}

static void
encode_records(StringInfo out, Datum value)
{
	ArrayType  *array = DatumGetArrayTypeP(value);
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	sx_varint_append(out, ARR_NDIM(array));
	for (int i = 0; i < ARR_NDIM(array); i++)
	{
		sx_varint_append(out, ARR_DIMS(array)[i]);
		sx_varint_append(out, sx_zigzag(ARR_LBOUND(array)[i]));
	}
	deconstruct_array(array, RECORDOID, -1, false, TYPALIGN_DOUBLE, &elements, &nulls, &n);
	for (int i = 0; i < n; i++)
	{
		appendStringInfoCharMacro(out, nulls[i] ? 0 : 1);
		if (!nulls[i])
			encode_record(out, elements[i]);
	}
	pfree(elements);
	pfree(nulls);
}

static Datum
decode_records(SxReader *in)
{
	uint64		ndim = sx_read_varint(in);
	int			dims[MAXDIM];
	int			lbounds[MAXDIM];
	Datum	   *elements;
	bool	   *nulls;
	int			n;

	if (ndim == 0)
		return PointerGetDatum(construct_empty_array(RECORDOID));
	if (ndim > MAXDIM)
		sx_reader_short();
	for (int i = 0; i < ndim; i++)
	{
		dims[i] = sx_read_varint(in);
		lbounds[i] = sx_unzigzag(sx_read_varint(in));
	}
	n = ArrayGetNItems(ndim, dims);
	elements = palloc0(n * sizeof(Datum));
	nulls = palloc0(n * sizeof(bool));
	for (int i = 0; i < n; i++)
	{
		nulls[i] = *sx_read_bytes(in, 1) == 0;
		if (!nulls[i])
			elements[i] = decode_record(in);
	}
	return PointerGetDatum(construct_md_array(elements, nulls, ndim, dims, lbounds,
											  RECORDOID, -1, false, TYPALIGN_DOUBLE));
}

static inline uint64
integer_to_number(const SxDatumCodec *codec, Datum value)
{
	switch (codec->typlen)
	{
		case 2:
			return sx_zigzag(DatumGetInt16(value));
		case 4:
			return sx_zigzag(DatumGetInt32(value));
		default:
			return sx_zigzag(DatumGetInt64(value));
	}
}

static inline Datum
number_to_integer(const SxDatumCodec *codec, uint64 number)
{
	switch (codec->typlen)
	{
		case 2:
			return Int16GetDatum((int16) sx_unzigzag(number));
		case 4:
			return Int32GetDatum((int32) sx_unzigzag(number));
		default:
			return Int64GetDatum(sx_unzigzag(number));
	}
}

void
sx_datum_encode(const SxDatumCodec *codec, StringInfo out, Datum value)
{
	switch (codec->form)
	{
		case SX_DATUM_INTEGER:
			sx_varint_append(out, integer_to_number(codec, value));
			break;
		case SX_DATUM_BYVAL:
			enlargeStringInfo(out, sizeof(Datum));
			{
				char		buf[sizeof(Datum)];

				store_att_byval(buf, value, codec->typlen);
				memcpy(out->data + out->len, buf, codec->typlen);
			}
			out->len += codec->typlen;
			break;
		case SX_DATUM_FIXED:
			appendBinaryStringInfo(out, DatumGetPointer(value), codec->typlen);
			break;
		case SX_DATUM_VARLENA:
			encode_varlena(out, value);
			break;
		case SX_DATUM_CSTRING:
			append_bytes(out, DatumGetCString(value), strlen(DatumGetCString(value)));
			break;
		case SX_DATUM_RECORD:
			encode_record(out, value);
			break;
		case SX_DATUM_RECORDS:
			encode_records(out, value);
			break;
	}
}

Datum
sx_datum_decode(const SxDatumCodec *codec, SxReader *in)
{
	switch (codec->form)
	{
		case SX_DATUM_INTEGER:
			return number_to_integer(codec, sx_read_varint(in));
		case SX_DATUM_BYVAL:
			{
				char		buf[sizeof(Datum)] pg_attribute_aligned(MAXIMUM_ALIGNOF);

				memcpy(buf, sx_read_bytes(in, codec->typlen), codec->typlen);
				return fetch_att(buf, true, codec->typlen);
			}
		case SX_DATUM_FIXED:
			{
				char	   *copy = palloc(codec->typlen);

				memcpy(copy, sx_read_bytes(in, codec->typlen), codec->typlen);
				return PointerGetDatum(copy);
			}
		case SX_DATUM_VARLENA:
			return decode_varlena(in);
		case SX_DATUM_CSTRING:
			{
				uint64		len = sx_read_varint(in);
				const char *bytes = sx_read_bytes(in, len);

				return CStringGetDatum(pnstrdup(bytes, len));
			}
		case SX_DATUM_RECORD:
			return decode_record(in);
		case SX_DATUM_RECORDS:
			return decode_records(in);
	}
	pg_unreachable();
}

void
sx_row_encode(const SxDatumCodec *codecs, int n, StringInfo out,
			  const Datum *values, const bool *nulls)
{
	int			bitmap = out->len;
	int			bytes = (n + 7) / 8;

	enlargeStringInfo(out, bytes);
	memset(out->data + bitmap, 0, bytes);
	out->len += bytes;
	for (int i = 0; i < n; i++)
	{
		if (nulls[i])
			out->data[bitmap + i / 8] |= 1 << (i % 8);
		else
			sx_datum_encode(&codecs[i], out, values[i]);
	}
}

void
sx_row_decode(const SxDatumCodec *codecs, int n, SxReader *in,
			  Datum *values, bool *nulls)
{
	const char *bitmap = sx_read_bytes(in, (n + 7) / 8);

	for (int i = 0; i < n; i++)
	{
		nulls[i] = (bitmap[i / 8] & (1 << (i % 8))) != 0;
		values[i] = nulls[i] ? (Datum) 0 : sx_datum_decode(&codecs[i], in);
	}
}

/*
 * A short list that is surely right: types whose "=" sees every bit that we
 * write. Absent for a reason: float (0.0 = -0.0), numeric (1.0 = 1.00), interval
 * (1 day = 24 hours), bpchar (trailing blanks), jsonb (numbers in it), arrays
 * and rows (of any of these), citext and other types with an "=" of their own.
 */
bool
sx_type_is_bytewise(Oid type, Oid collation)
{
	type = getBaseType(type);
	switch (type)
	{
		case BOOLOID:
		case CHAROID:
		case INT2OID:
		case INT4OID:
		case INT8OID:
		case OIDOID:
		case REGCLASSOID:
		case REGTYPEOID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGROLEOID:
		case REGNAMESPACEOID:
		case BYTEAOID:
		case UUIDOID:
		case DATEOID:
		case TIMEOID:
		case TIMESTAMPOID:
		case TIMESTAMPTZOID:
		case CASHOID:
		case MACADDROID:
		case MACADDR8OID:
		case LSNOID:
		case XID8OID:
		case TIDOID:
		case TSRANGEOID:
		case TSTZRANGEOID:
		case DATERANGEOID:
		case INT4RANGEOID:
		case INT8RANGEOID:
			return true;
		case TEXTOID:
		case VARCHAROID:
			return OidIsValid(collation) && get_collation_isdeterministic(collation);
		default:
			return get_typtype(type) == TYPTYPE_ENUM;
	}
}
