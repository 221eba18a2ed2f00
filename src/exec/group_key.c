/*
 * group_key.c
 *		See group_key.h.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/functions.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rangetypes.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"

#include "base/compat.h"
#include "exec/group_key.h"

#define HASH_OF_NULL	UINT64CONST(0x9ae16a3b2f90404f)

static void
make_column(SxKeyColumn *column, SxDatumCodec *codec, const SxPlanKey *plan, int output)
{
	TypeCacheEntry *type = lookup_type_cache(plan->type, TYPECACHE_HASH_EXTENDED_PROC |
											 TYPECACHE_EQ_OPR);
	Oid			eq_operator = OidIsValid(plan->eq_operator) ? plan->eq_operator : type->eq_opr;

	column->input = plan->input;
	column->output = output;
	column->collation = plan->collation;
	column->bytewise = sx_type_is_bytewise(plan->type, plan->collation);
	/* a hash that goes with another "=" would tear equal keys apart */
	column->hash_function = eq_operator == type->eq_opr ? type->hash_extended_proc : InvalidOid;
	column->eq_function = get_opcode(eq_operator);
	if (!OidIsValid(column->eq_function))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("could not identify an equality operator for type %s",
						format_type_be(plan->type))));
	sx_datum_codec_make(codec, plan->type);
}

SxGroupKey *
sx_group_key_make(const SxPlanOperator *plan)
{
	SxGroupKey *key = palloc0(sizeof(SxGroupKey));

	key->nkeys = plan->nkeys;
	key->columns = palloc0((plan->nkeys + 1) * sizeof(SxKeyColumn));
	key->codecs = palloc0((plan->nkeys + 1) * sizeof(SxDatumCodec));
	key->window = -1;
	key->bytewise = true;
	key->context = CurrentMemoryContext;
	key->scratch = AllocSetContextCreate(CurrentMemoryContext, "streamx key comparison",
										 ALLOCSET_SMALL_SIZES);
	for (int i = 0; i < plan->nkeys; i++)
	{
		SxKeyColumn *column = &key->columns[key->ncolumns];

		if (i == plan->time_key && plan->key_time == SX_KEY_TIME_SESSION)
			continue;
		if (i == plan->time_key && plan->key_time == SX_KEY_TIME_WINDOW)
		{
			key->window = i;
			key->window_size = plan->window.size;
			key->window_slide = plan->window.slide;
			key->window_type = plan->keys[i].type;
			key->ranges = palloc0(SX_WINDOW_CACHE * sizeof(SxWindowRange));
			continue;
		}
		make_column(column, &key->codecs[key->ncolumns], &plan->keys[i], i);
		fmgr_info_cxt(column->eq_function, &column->equal, key->context);
		key->bytewise = key->bytewise && column->bytewise;
		key->ncolumns++;
	}
	return key;
}

/*
 * Function look-ups are done per batch: cheap for built-in functions, and a
 * function that was replaced, or whose handler keeps things in fn_extra for one
 * transaction, needs no further care.
 */
void
sx_group_key_begin(SxGroupKey *key)
{
	for (int i = 0; i < key->ncolumns; i++)
	{
		if (OidIsValid(key->columns[i].hash_function))
			fmgr_info(key->columns[i].hash_function, &key->columns[i].hash);
	}
}

static uint64
hash_by_bytes(SxGroupKey *key, int i, Datum value)
{
	StringInfoData bytes;
	uint64		hash;

	initStringInfo(&bytes);
	sx_datum_encode(&key->codecs[i], &bytes, value);
	hash = hash_bytes_extended((unsigned char *) bytes.data, bytes.len, 0);
	pfree(bytes.data);
	return hash;
}

void
sx_group_key_hash(SxGroupKey *key, const SxChunk *chunk, uint64 *hashes)
{
	LOCAL_FCINFO(fcinfo, 2);

	memset(hashes, 0, chunk->nrows * sizeof(uint64));
	for (int i = 0; i < key->ncolumns; i++)
	{
		SxKeyColumn *column = &key->columns[i];
		const SxChunkColumn *input = sx_chunk_column(chunk, column->input);
		bool		has_function = OidIsValid(column->hash_function);

		if (!has_function && !column->bytewise)
			continue;
		if (has_function)
			InitFunctionCallInfoData(*fcinfo, &column->hash, 2, column->collation, NULL, NULL);
		for (int row = 0; row < chunk->nrows; row++)
		{
			uint64		hash = HASH_OF_NULL;

			if (input->nulls[row])
				 /* NULLs are one group */ ;
			else if (has_function)
			{
				fcinfo->args[0].value = input->values[row];
				fcinfo->args[0].isnull = false;
				fcinfo->args[1].value = UInt64GetDatum(0);
				fcinfo->args[1].isnull = false;
				fcinfo->isnull = false;
				hash = DatumGetUInt64(FunctionCallInvoke(fcinfo));
			}
			else
				hash = hash_by_bytes(key, i, input->values[row]);
			hashes[row] = hash_combine64(hashes[row], hash);
		}
	}
}

uint64
sx_group_key_hash_window(uint64 hash, TimestampTz start)
{
	uint64		mixed = (uint64) start;

	mixed ^= mixed >> 33;
	mixed *= UINT64CONST(0xff51afd7ed558ccd);
	mixed ^= mixed >> 33;
	return hash_combine64(hash, mixed);
}

void
sx_group_key_encode(SxGroupKey *key, const SxChunk *chunk, int row, StringInfo out)
{
	int			bitmap = out->len;
	int			bytes = (key->ncolumns + 7) / 8;

	enlargeStringInfo(out, bytes);
	memset(out->data + bitmap, 0, bytes);
	out->len += bytes;
	for (int i = 0; i < key->ncolumns; i++)
	{
		const SxChunkColumn *input = sx_chunk_column(chunk, key->columns[i].input);

		if (input->nulls[row])
			out->data[bitmap + i / 8] |= 1 << (i % 8);
		else
			sx_datum_encode(&key->codecs[i], out, input->values[row]);
	}
}

/* Rows of one window come together, or a group's windows one after the other. */
Datum
sx_group_key_window(SxGroupKey *key, TimestampTz start, TimestampTz end)
{
	SxWindowRange *cached = &key->ranges[(start / key->window_slide) & (SX_WINDOW_CACHE - 1)];

	if (!cached->made || cached->start != start || cached->end != end)
	{
		TypeCacheEntry *type = lookup_type_cache(key->window_type, TYPECACHE_RANGE_INFO);
		RangeBound	lower = {TimestampTzGetDatum(start), false, true, true};
		RangeBound	upper = {TimestampTzGetDatum(end), false, false, false};
		RangeType  *range = sx_make_range(type, &lower, &upper);

		if (VARSIZE(range) > sizeof(cached->range))
			elog(ERROR, "window of %u bytes", VARSIZE(range));
		memcpy(cached->range, range, VARSIZE(range));
		pfree(range);
		cached->start = start;
		cached->end = end;
		cached->made = true;
	}
	return PointerGetDatum(cached->range);
}

void
sx_group_key_decode_columns(SxGroupKey *key, const char *bytes, uint32 len,
							Datum *values, bool *nulls)
{
	SxReader	in = {bytes, bytes + len};
	const char *bitmap = sx_read_bytes(&in, (key->ncolumns + 7) / 8);

	for (int i = 0; i < key->ncolumns; i++)
	{
		int			output = key->columns[i].output;

		nulls[output] = (bitmap[i / 8] & (1 << (i % 8))) != 0;
		values[output] = nulls[output] ? (Datum) 0 : sx_datum_decode(&key->codecs[i], &in);
	}
}

void
sx_group_key_decode(SxGroupKey *key, const char *bytes, uint32 len, int64 expiry,
					Datum *values, bool *nulls)
{
	TimestampTz start;

	sx_group_key_decode_columns(key, bytes, len, values, nulls);
	if (key->window >= 0)
	{
		if (len < SX_WINDOW_BYTES)
			sx_reader_short();
		nulls[key->window] = false;
		start = sx_group_key_start(bytes, len);
		values[key->window] = sx_group_key_window(key, start, expiry == SX_STATE_NEVER ?
												  start + key->window_size : expiry);
	}
}

static bool
column_equal(SxKeyColumn *column, Datum a, Datum b)
{
	FmgrInfo	fresh;
	FmgrInfo   *function = &column->equal;

	/* an SQL function keeps its plan in fn_extra, for one transaction */
	if (function->fn_addr == fmgr_sql)
	{
		fmgr_info(column->eq_function, &fresh);
		function = &fresh;
	}
	return DatumGetBool(FunctionCall2Coll(function, column->collation, a, b));
}

bool
sx_group_key_equal(void *arg, const char *a, uint32 alen, const char *b, uint32 blen)
{
	SxGroupKey *key = arg;
	SxReader	ina = {a, a + alen};
	SxReader	inb = {b, b + blen};
	int			bytes = (key->ncolumns + 7) / 8;
	const char *bitmap = sx_read_bytes(&ina, bytes);
	MemoryContext oldcontext;
	bool		equal;

	if (memcmp(bitmap, sx_read_bytes(&inb, bytes), bytes) != 0)
		return false;
	equal = key->window < 0 ||
		(alen >= SX_WINDOW_BYTES && blen >= SX_WINDOW_BYTES &&
		 memcmp(a + alen - SX_WINDOW_BYTES, b + blen - SX_WINDOW_BYTES, SX_WINDOW_BYTES) == 0);
	oldcontext = MemoryContextSwitchTo(key->scratch);
	for (int i = 0; i < key->ncolumns && equal; i++)
	{
		if ((bitmap[i / 8] & (1 << (i % 8))) == 0)
		{
			Datum		va = sx_datum_decode(&key->codecs[i], &ina);
			Datum		vb = sx_datum_decode(&key->codecs[i], &inb);

			equal = column_equal(&key->columns[i], va, vb);
		}
	}
	MemoryContextSwitchTo(oldcontext);
	MemoryContextReset(key->scratch);
	return equal;
}
