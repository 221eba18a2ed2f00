/*
 * gone.c
 *		touched keys minus the keys of the result, compared as bytes.
 *
 * Both come from the same rows of the operator through the same expressions, so
 * equal keys have equal bytes here whatever "=" their type has.
 */
#include "postgres.h"

#include "miscadmin.h"

#include "exec/gone.h"
#include "row/byte_set.h"
#include "row/datum_codec.h"

struct SxGone
{
	int			nkeys;
	const AttrNumber *keys;		/* columns of the result */
	SxDatumCodec *codecs;
	SxByteSet  *seen;
	Tuplestorestate *rows;
	int64		nrows;
	StringInfoData bytes;
	Datum	   *values;
	bool	   *nulls;
};

SxGone *
sx_gone_begin(const SxPlan *plan, TupleDesc desc)
{
	SxGone	   *gone = palloc0(sizeof(SxGone));

	gone->nkeys = plan->nkeys;
	gone->keys = plan->keys;
	gone->codecs = palloc0((plan->nkeys + 1) * sizeof(SxDatumCodec));
	gone->values = palloc0((plan->nkeys + 1) * sizeof(Datum));
	gone->nulls = palloc0((plan->nkeys + 1) * sizeof(bool));
	for (int i = 0; i < plan->nkeys; i++)
		sx_datum_codec_make(&gone->codecs[i], TupleDescAttr(desc, i)->atttypid);
	gone->seen = sx_byte_set_make(0);
	gone->rows = tuplestore_begin_heap(false, false, work_mem);
	initStringInfo(&gone->bytes);
	return gone;
}

void
sx_gone_see(SxGone *gone, TupleTableSlot *slot)
{
	for (int i = 0; i < gone->nkeys; i++)
		gone->values[i] = slot_getattr(slot, gone->keys[i], &gone->nulls[i]);
	resetStringInfo(&gone->bytes);
	sx_row_encode(gone->codecs, gone->nkeys, &gone->bytes, gone->values, gone->nulls);
	sx_byte_set_add(gone->seen, gone->bytes.data, gone->bytes.len);
}

bool
sx_gone_touch(void *arg, TupleTableSlot *slot)
{
	SxGone	   *gone = arg;

	slot_getallattrs(slot);
	resetStringInfo(&gone->bytes);
	sx_row_encode(gone->codecs, gone->nkeys, &gone->bytes, slot->tts_values, slot->tts_isnull);
	if (!sx_byte_set_has(gone->seen, gone->bytes.data, gone->bytes.len))
	{
		sx_byte_set_add(gone->seen, gone->bytes.data, gone->bytes.len);
		tuplestore_puttupleslot(gone->rows, slot);
		gone->nrows++;
	}
	return true;
}

Tuplestorestate *
sx_gone_end(SxGone *gone, int64 *n)
{
	*n = gone->nrows;
	if (gone->nrows > 0)
		return gone->rows;
	tuplestore_end(gone->rows);
	return NULL;
}
