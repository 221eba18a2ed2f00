/*
 * transform_rows.c
 *		See transform_rows.h.
 */
#include "postgres.h"

#include "access/tupdesc.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "utils/array.h"
#include "utils/datum.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/tuplesort.h"

#include "exec/transform_rows.h"

#define KEY_COLUMN		1
#define ROW_COLUMN		2
#define MAX_ARRAY_BYTES	(64 * 1024 * 1024)

/* what is sorted: number of the key, number of the row, the row */
enum
{
	SORT_GROUP, SORT_ROW, SORT_VALUE, SORT_COLUMNS
};

typedef struct NumberedGroup
{
	SxGroup		group;
	uint32		number;
} NumberedGroup;

struct SxKeyedRows
{
	SxGroupKey *key;
	SxGroupTable *table;
	Oid			row_type;
	int16		typlen;
	bool		typbyval;
	char		typalign;
	int			max_rows;
	int64		nrows;
	Tuplesortstate *sort;		/* NULL: no row yet */
	TupleTableSlot *slot;		/* goes in */
	TupleTableSlot *sorted;		/* comes out */
	uint64		hashes[SX_CHUNK_ROWS];
	SxUpdate	updates[SX_CHUNK_ROWS];
	SxGroup    *groups[SX_CHUNK_ROWS];
	StringInfoData keys;
	MemoryContext visit_context;
};

SxKeyedRows *
sx_keyed_rows_make(SxGroupKey *key, Oid row_type, int max_rows)
{
	SxKeyedRows *rows = palloc0(sizeof(SxKeyedRows));

	rows->key = key;
	rows->row_type = row_type;
	get_typlenbyvalalign(row_type, &rows->typlen, &rows->typbyval, &rows->typalign);
	rows->max_rows = max_rows;
	rows->table = sx_group_table_make(key, sizeof(NumberedGroup));
	initStringInfo(&rows->keys);
	rows->visit_context = AllocSetContextCreate(CurrentMemoryContext, "streamx handler",
												ALLOCSET_DEFAULT_SIZES);
	return rows;
}

static void
begin_sort(SxKeyedRows *rows)
{
	TupleDesc	desc = CreateTemplateTupleDesc(SORT_COLUMNS);
	AttrNumber	columns[] = {SORT_GROUP + 1, SORT_ROW + 1};
	Oid			operators[] = {Int8LessOperator, Int8LessOperator};
	Oid			collations[] = {InvalidOid, InvalidOid};
	bool		nulls_first[] = {false, false};

	TupleDescInitEntry(desc, SORT_GROUP + 1, "group", INT8OID, -1, 0);
	TupleDescInitEntry(desc, SORT_ROW + 1, "number", INT8OID, -1, 0);
	TupleDescInitEntry(desc, SORT_VALUE + 1, "row", rows->row_type, -1, 0);
	rows->slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	rows->sorted = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	rows->sort = tuplesort_begin_heap(desc, 2, columns, operators, collations, nulls_first,
									  work_mem, NULL, TUPLESORT_NONE);
}

static void
find_groups(SxKeyedRows *rows, const SxChunk *chunk, int n, const int *numbers)
{
	uint32		first = rows->table->ngroups;

	resetStringInfo(&rows->keys);
	sx_group_key_hash(rows->key, chunk, rows->hashes);
	for (int i = 0; i < n; i++)
	{
		SxUpdate   *update = &rows->updates[i];

		update->row = numbers[i];
		update->key = rows->keys.len;
		sx_group_key_encode(rows->key, chunk, update->row, &rows->keys);
		update->keylen = rows->keys.len - update->key;
		update->hash = rows->hashes[update->row];
		update->group = update->hash % SX_KEY_GROUPS;
		update->expiry = SX_STATE_NEVER;
	}
	sx_group_table_find(rows->table, n, rows->updates, rows->keys.data, rows->groups);
	for (uint32 i = first; i < rows->table->ngroups; i++)
		((NumberedGroup *) sx_group_table_get(rows->table, i))->number = i;
}

void
sx_keyed_rows_add(SxKeyedRows *rows, const SxChunk *chunk, int n, const int *numbers)
{
	const SxChunkColumn *column = sx_chunk_column(chunk, ROW_COLUMN);
	MemoryContext oldcontext;

	CHECK_FOR_INTERRUPTS();
	if (n == 0)
		return;
	oldcontext = MemoryContextSwitchTo(rows->table->context);
	if (rows->sort == NULL)
		begin_sort(rows);
	find_groups(rows, chunk, n, numbers);
	for (int i = 0; i < n; i++)
	{
		TupleTableSlot *slot = rows->slot;

		ExecClearTuple(slot);
		slot->tts_values[SORT_GROUP] = Int64GetDatum(((NumberedGroup *) rows->groups[i])->number);
		slot->tts_values[SORT_ROW] = Int64GetDatum(rows->nrows++);
		slot->tts_values[SORT_VALUE] = column->values[numbers[i]];
		slot->tts_isnull[SORT_GROUP] = slot->tts_isnull[SORT_ROW] = false;
		slot->tts_isnull[SORT_VALUE] = column->nulls[numbers[i]];
		ExecStoreVirtualTuple(slot);
		tuplesort_puttupleslot(rows->sort, slot);
	}
	MemoryContextSwitchTo(oldcontext);
}

/* Rows of one key, until they are handed out. */
typedef struct Piece
{
	Datum	   *values;
	bool	   *nulls;
	int			n;
	int			allocated;
	Size		bytes;
} Piece;

static void
add_to_piece(SxKeyedRows *rows, Piece *piece, TupleTableSlot *slot)
{
	bool		isnull = slot->tts_isnull[SORT_VALUE];
	Datum		value = slot->tts_values[SORT_VALUE];

	if (piece->n == piece->allocated)
	{
		piece->allocated = Max(64, piece->allocated * 2);
		piece->values = piece->values == NULL ? palloc(piece->allocated * sizeof(Datum)) :
			repalloc_huge(piece->values, piece->allocated * sizeof(Datum));
		piece->nulls = piece->nulls == NULL ? palloc(piece->allocated * sizeof(bool)) :
			repalloc_huge(piece->nulls, piece->allocated * sizeof(bool));
	}
	piece->nulls[piece->n] = isnull;
	piece->values[piece->n++] = isnull ? (Datum) 0 : datumCopy(value, rows->typbyval, rows->typlen);
	piece->bytes += isnull ? 1 : datumGetSize(value, rows->typbyval, rows->typlen);
}

static void
hand_out(SxKeyedRows *rows, Piece *piece, uint32 number, bool last, SxKeyedRowsVisit visit, void *arg)
{
	int			lower = 1;

	CHECK_FOR_INTERRUPTS();
	if (piece->n > 0)
		visit(arg, sx_group_table_get(rows->table, number),
			  PointerGetDatum(construct_md_array(piece->values, piece->nulls, 1, &piece->n, &lower,
												 rows->row_type, rows->typlen, rows->typbyval,
												 rows->typalign)),
			  last);
	MemoryContextReset(rows->visit_context);
	memset(piece, 0, sizeof(*piece));
}

void
sx_keyed_rows_visit(SxKeyedRows *rows, SxKeyedRowsVisit visit, void *arg)
{
	MemoryContext oldcontext;
	Piece		piece = {0};
	uint32		current = 0;

	if (rows->sort == NULL)
		return;
	tuplesort_performsort(rows->sort);
	oldcontext = MemoryContextSwitchTo(rows->visit_context);
	while (tuplesort_gettupleslot(rows->sort, true, false, rows->sorted, NULL))
	{
		uint32		number;

		slot_getallattrs(rows->sorted);
		number = (uint32) DatumGetInt64(rows->sorted->tts_values[SORT_GROUP]);
		if (number != current || piece.n >= rows->max_rows || piece.bytes >= MAX_ARRAY_BYTES)
			hand_out(rows, &piece, current, number != current, visit, arg);
		current = number;
		add_to_piece(rows, &piece, rows->sorted);
	}
	hand_out(rows, &piece, current, true, visit, arg);
	MemoryContextSwitchTo(oldcontext);
	ExecDropSingleTupleTableSlot(rows->slot);
	ExecDropSingleTupleTableSlot(rows->sorted);
	tuplesort_end(rows->sort);
	rows->sort = NULL;
}
