/*
 * chunk.c
 *		Rows of a slot into columns.
 */
#include "postgres.h"

#include "access/detoast.h"
#include "utils/memutils.h"

#include "exec/chunk.h"

SxChunk *
sx_chunk_make(TupleDesc desc)
{
	SxChunk    *chunk = palloc0(sizeof(SxChunk));

	chunk->columns = palloc0((desc->natts + 1) * sizeof(SxChunkColumn *));
	chunk->by_attnum = palloc0((desc->natts + 1) * sizeof(SxChunkColumn *));
	return chunk;
}

void
sx_chunk_need(SxChunk *chunk, TupleDesc desc, AttrNumber attnum)
{
	Form_pg_attribute att;
	SxChunkColumn *column;

	if (attnum < 1 || attnum > desc->natts)
		elog(ERROR, "column %d is not in the row of its segment", attnum);
	if (chunk->by_attnum[attnum - 1] != NULL)
		return;
	att = TupleDescAttr(desc, attnum - 1);
	column = palloc(sizeof(SxChunkColumn));
	column->attnum = attnum;
	column->byval = att->attbyval;
	column->typlen = att->attlen;
	chunk->by_attnum[attnum - 1] = column;
	chunk->columns[chunk->ncolumns++] = column;
	chunk->last = Max(chunk->last, attnum);
}

void
sx_chunk_begin(SxChunk *chunk)
{
	chunk->nrows = 0;
	chunk->arena = GenerationContextCreate(CurrentMemoryContext, "streamx chunk",
										   0, 64 * 1024, 1024 * 1024);
}

static Datum
copy_value(const SxChunkColumn *column, Datum value)
{
	Size		size;
	void	   *copy;

	if (column->typlen == -1)
	{
		struct varlena *given = (struct varlena *) DatumGetPointer(value);

		if (VARATT_IS_EXTENDED(given) && !VARATT_IS_SHORT(given))
			return PointerGetDatum(detoast_attr(given));
		size = VARSIZE_ANY(given);
	}
	else if (column->typlen > 0)
		size = column->typlen;
	else
		size = strlen(DatumGetCString(value)) + 1;
	copy = palloc(size);
	memcpy(copy, DatumGetPointer(value), size);
	return PointerGetDatum(copy);
}

void
sx_chunk_add(SxChunk *chunk, TupleTableSlot *slot)
{
	int			row = chunk->nrows++;
	MemoryContext oldcontext;

	slot_getsomeattrs(slot, chunk->last);
	oldcontext = MemoryContextSwitchTo(chunk->arena);
	for (int i = 0; i < chunk->ncolumns; i++)
	{
		SxChunkColumn *column = chunk->columns[i];
		bool		isnull = slot->tts_isnull[column->attnum - 1];
		Datum		value = slot->tts_values[column->attnum - 1];

		column->nulls[row] = isnull;
		column->values[row] = isnull ? (Datum) 0 :
			column->byval ? value : copy_value(column, value);
	}
	MemoryContextSwitchTo(oldcontext);
}

void
sx_chunk_clear(SxChunk *chunk)
{
	chunk->nrows = 0;
	MemoryContextReset(chunk->arena);
}
