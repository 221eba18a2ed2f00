/*
 * json_encode.c
 *		Rows into JSON objects. Thread: main.
 *
 * As Spark's to_json: NULL columns are left out (ignore_null_fields), numbers and
 * booleans are bare, timestamps ISO 8601 with their offset, bytes base64; what
 * PostgreSQL has besides is written as its own to_json does.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/base64.h"
#include "executor/executor.h"
#include "fmgr.h"
#include "nodes/makefuncs.h"
#include "nodes/primnodes.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "format/column.h"

typedef enum WriteKind
{
	WRITE_TO_JSON,				/* to_json(value) */
	WRITE_BOOL,
	WRITE_INT2,
	WRITE_INT4,
	WRITE_INT8,
	WRITE_NUMBER,				/* bare, unless it isn't finite */
	WRITE_TEXT,
	WRITE_BYTEA,
	WRITE_TIMESTAMPTZ
} WriteKind;

typedef struct JsonColumn
{
	int			index;
	WriteKind	kind;
	char	   *name;			/* quoted, with the colon */
	int			name_len;
	FmgrInfo	output;
	FmgrInfo	to_json;
} JsonColumn;

typedef struct JsonEncoder
{
	SxEncoder	base;
	bool		ignore_null_fields;
	pg_tz	   *zone;
	int			ncolumns;
	JsonColumn *columns;
} JsonEncoder;

static WriteKind
kind_of_type(Oid type)
{
	switch (type)
	{
		case BOOLOID:
			return WRITE_BOOL;
		case INT2OID:
			return WRITE_INT2;
		case INT4OID:
			return WRITE_INT4;
		case INT8OID:
			return WRITE_INT8;
		case FLOAT4OID:
		case FLOAT8OID:
		case NUMERICOID:
			return WRITE_NUMBER;
		case TEXTOID:
		case VARCHAROID:
			return WRITE_TEXT;
		case BYTEAOID:
			return WRITE_BYTEA;
		case TIMESTAMPTZOID:
			return WRITE_TIMESTAMPTZ;
		default:
			return WRITE_TO_JSON;
	}
}

/* to_json() looks at the declared type of its argument. */
static void
prepare_to_json(JsonColumn *column, Oid type, int32 typmod)
{
	Var		   *argument = makeNode(Var);
	FuncExpr   *call = makeNode(FuncExpr);

	argument->varno = 1;
	argument->varattno = 1;
	argument->vartype = type;
	argument->vartypmod = typmod;
	call->funcid = F_TO_JSON;
	call->funcresulttype = JSONOID;
	call->args = list_make1(argument);
	fmgr_info(F_TO_JSON, &column->to_json);
	fmgr_info_set_expr((Node *) call, &column->to_json);
}

SxEncoder *
sx_json_open_encoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	TupleDesc	desc = target->desc;
	JsonEncoder *encoder = palloc0(sizeof(JsonEncoder));

	sx_format_check_encoding();
	encoder->base.routine = &sx_json_format;
	encoder->ignore_null_fields = options->ignore_null_fields;
	encoder->zone = options->time_zone;
	encoder->columns = palloc0(sizeof(JsonColumn) * Max(desc->natts, 1));
	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		JsonColumn *column = &encoder->columns[encoder->ncolumns];
		const char *field = target->fields != NULL ? target->fields[i] : NULL;
		StringInfoData name;
		Oid			output;
		bool		is_varlena;

		if (att->attisdropped || (target->from_value != NULL && !target->from_value[i]))
			continue;
		encoder->ncolumns++;
		initStringInfo(&name);
		escape_json(&name, field != NULL ? field : NameStr(att->attname));
		appendStringInfoChar(&name, ':');
		column->index = i;
		column->name = name.data;
		column->name_len = name.len;
		column->kind = kind_of_type(att->atttypid);
		if (column->kind == WRITE_TO_JSON)
			prepare_to_json(column, att->atttypid, att->atttypmod);
		getTypeOutputInfo(att->atttypid, &output, &is_varlena);
		fmgr_info(output, &column->output);
	}
	return &encoder->base;
}

/* ---- values ---- */

static void
write_text(StringInfo out, const char *text, int len)
{
	int			plain = 0;

	appendStringInfoChar(out, '"');
	for (int i = 0; i < len; i++)
	{
		unsigned char c = text[i];
		const char *escape = NULL;
		char		buffer[8];

		if (c >= ' ' && c != '"' && c != '\\')
			continue;
		switch (c)
		{
			case '"':
				escape = "\\\"";
				break;
			case '\\':
				escape = "\\\\";
				break;
			case '\n':
				escape = "\\n";
				break;
			case '\r':
				escape = "\\r";
				break;
			case '\t':
				escape = "\\t";
				break;
			case '\b':
				escape = "\\b";
				break;
			case '\f':
				escape = "\\f";
				break;
			default:
				snprintf(buffer, sizeof(buffer), "\\u%04x", c);
				escape = buffer;
				break;
		}
		appendBinaryStringInfo(out, text + plain, i - plain);
		appendStringInfoString(out, escape);
		plain = i + 1;
	}
	appendBinaryStringInfo(out, text + plain, len - plain);
	appendStringInfoChar(out, '"');
}

static void
write_int64(StringInfo out, int64 value)
{
	enlargeStringInfo(out, MAXINT8LEN + 1);
	out->len += pg_lltoa(value, out->data + out->len);
}

static void
write_bytea(StringInfo out, Datum value)
{
	bytea	   *bytes = DatumGetByteaPP(value);
	int			size = pg_b64_enc_len(VARSIZE_ANY_EXHDR(bytes));
	int			len;

	enlargeStringInfo(out, size + 3);
	out->data[out->len++] = '"';
	len = sx_b64_encode(VARDATA_ANY(bytes), VARSIZE_ANY_EXHDR(bytes), out->data + out->len, size);
	if (len < 0)
		elog(ERROR, "could not encode base64");
	out->len += len;
	out->data[out->len++] = '"';
	out->data[out->len] = '\0';
}

static void
write_value(JsonEncoder *encoder, JsonColumn *column, Datum value, StringInfo out)
{
	char		time[MAXDATELEN + 1];
	char	   *printed;
	text	   *packed;

	switch (column->kind)
	{
		case WRITE_BOOL:
			appendStringInfoString(out, DatumGetBool(value) ? "true" : "false");
			break;
		case WRITE_INT2:
			write_int64(out, DatumGetInt16(value));
			break;
		case WRITE_INT4:
			write_int64(out, DatumGetInt32(value));
			break;
		case WRITE_INT8:
			write_int64(out, DatumGetInt64(value));
			break;
		case WRITE_NUMBER:
			printed = OutputFunctionCall(&column->output, value);
			if (printed[0] == 'N' || printed[0] == 'I' || printed[1] == 'I')
				write_text(out, printed, strlen(printed));
			else
				appendStringInfoString(out, printed);
			break;
		case WRITE_TEXT:
			packed = DatumGetTextPP(value);
			write_text(out, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
			break;
		case WRITE_BYTEA:
			write_bytea(out, value);
			break;
		case WRITE_TIMESTAMPTZ:
			sx_timestamptz_print(DatumGetTimestampTz(value), encoder->zone, time);
			appendStringInfo(out, "\"%s\"", time);
			break;
		case WRITE_TO_JSON:
			packed = DatumGetTextPP(FunctionCall1(&column->to_json, value));
			appendBinaryStringInfo(out, VARDATA_ANY(packed), VARSIZE_ANY_EXHDR(packed));
			break;
	}
}

bool
sx_json_encode(SxEncoder *base, TupleTableSlot *slot, StringInfo out)
{
	JsonEncoder *encoder = (JsonEncoder *) base;
	bool		first = true;

	slot_getallattrs(slot);
	appendStringInfoChar(out, '{');
	for (int i = 0; i < encoder->ncolumns; i++)
	{
		JsonColumn *column = &encoder->columns[i];
		bool		isnull = slot->tts_isnull[column->index];

		if (isnull && encoder->ignore_null_fields)
			continue;
		if (!first)
			appendStringInfoChar(out, ',');
		first = false;
		appendBinaryStringInfo(out, column->name, column->name_len);
		if (isnull)
			appendStringInfoString(out, "null");
		else
			write_value(encoder, column, slot->tts_values[column->index], out);
	}
	appendStringInfoChar(out, '}');
	return true;
}
