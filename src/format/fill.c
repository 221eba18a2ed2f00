/*
 * fill.c
 *		Rows of a buffer into slots. Thread: main.
 *
 * Most cells are ready and only copied. Text cells go through their types' input
 * functions, whose errors are those of the row: soft ones where the server has them
 * (16), else caught in a subtransaction.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/miscnodes.h"
#endif
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/resowner.h"

#include "format/column.h"
#include "format/fill.h"

typedef struct FillColumn
{
	Oid			type;
	int32		typmod;
	Oid			ioparam;
	FmgrInfo	input;
	bool		ready;			/* input is looked up */
} FillColumn;

struct SxFiller
{
	MemoryContext context;		/* of this */
	MemoryContext row_context;	/* of the last row */
	TupleDesc	desc;
	FillColumn *columns;
	SxParseMode mode;
	bool		quarantine;
	AttrNumber	corrupt;		/* 0: none */
	SxFillWhere where;
	void	   *where_arg;
};

SxFiller *
sx_filler_create(const SxFormatTarget *target, const SxFormatOptions *options, bool quarantine,
				 SxFillWhere where, void *where_arg)
{
	MemoryContext context = AllocSetContextCreate(CurrentMemoryContext, "streamx filler",
												  ALLOCSET_SMALL_SIZES);
	MemoryContext oldcontext = MemoryContextSwitchTo(context);
	SxFiller   *filler = palloc0(sizeof(SxFiller));

	filler->context = context;
	filler->row_context = AllocSetContextCreate(context, "streamx filler row",
												ALLOCSET_DEFAULT_SIZES);
	filler->desc = CreateTupleDescCopy(target->desc);
	filler->columns = palloc0(sizeof(FillColumn) * Max(filler->desc->natts, 1));
	filler->mode = options->mode;
	filler->quarantine = quarantine;
	filler->corrupt = sx_format_corrupt_column(filler->desc, options);
	filler->where = where;
	filler->where_arg = where_arg;
	MemoryContextSwitchTo(oldcontext);
	return filler;
}

void
sx_filler_free(SxFiller *filler)
{
	MemoryContextDelete(filler->context);
}

/* ---- text cells ---- */

static FillColumn *
input_of(SxFiller *filler, int i)
{
	FillColumn *column = &filler->columns[i];
	Form_pg_attribute att = TupleDescAttr(filler->desc, i);
	Oid			function;

	if (!column->ready)
	{
		column->type = att->atttypid;
		column->typmod = att->atttypmod;
		getTypeInputInfo(column->type, &function, &column->ioparam);
		fmgr_info_cxt(function, &column->input, filler->context);
		column->ready = true;
	}
	return column;
}

static Datum
call_input(SxFiller *filler, int i, uint8 kind, char *text, bool *isnull)
{
	FillColumn *column = input_of(filler, i);

	*isnull = false;
	if (kind == SX_CELL_NESTED)
		return sx_json_to_datum(text, column->type, column->typmod, isnull);
	return InputFunctionCall(&column->input, text, column->ioparam, column->typmod);
}

/* An error that says something of the text. */
static bool
blames_text(int sqlstate)
{
	switch (ERRCODE_TO_CATEGORY(sqlstate))
	{
		case ERRCODE_DATA_EXCEPTION:
		case ERRCODE_INTEGRITY_CONSTRAINT_VIOLATION:
		case ERRCODE_FEATURE_NOT_SUPPORTED:
		case ERRCODE_PROGRAM_LIMIT_EXCEEDED:
		case ERRCODE_SYNTAX_ERROR_OR_ACCESS_RULE_VIOLATION:
			return true;
		default:
			return false;
	}
}

static void
note_error(SxFiller *filler, SxRowBuffer *buffer, SxRowCells *cells, int i, const char *message)
{
	const char *label = NameStr(TupleDescAttr(filler->desc, i)->attname);

	if (!sx_row_set_error(buffer, cells->row, label, message, NULL, 0))
		sx_format_out_of_memory();
	cells->kinds[i] = SX_CELL_NULL;
}

/* From cell i on; the cell that an error came from (it is NULL now), or -1: all done. */
static int
fill_guarded(SxFiller *filler, SxRowBuffer *buffer, SxRowCells *cells, int i, int natts,
			 TupleTableSlot *slot)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile int at = i;
	volatile int failed = -1;

	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		MemoryContextSwitchTo(filler->row_context);
		for (; at < natts; at++)
			if (cells->kinds[at] > SX_CELL_NULL)
				slot->tts_values[at] = call_input(filler, at, cells->kinds[at],
												  (char *) cells->values[at],
												  &slot->tts_isnull[at]);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		if (!blames_text(error->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		failed = at;
		MemoryContextSwitchTo(oldcontext);
		CurrentResourceOwner = owner;
		note_error(filler, buffer, cells, failed, error->message);
		slot->tts_isnull[failed] = true;
		FreeErrorData(error);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(oldcontext);
	CurrentResourceOwner = owner;
	return failed;
}

#if PG_VERSION_NUM >= 160000
/* Without a subtransaction, for types whose input functions report soft errors. */
static void
fill_soft(SxFiller *filler, SxRowBuffer *buffer, SxRowCells *cells, int i, TupleTableSlot *slot)
{
	ErrorSaveContext escontext = {T_ErrorSaveContext};
	FillColumn *column = input_of(filler, i);

	escontext.details_wanted = true;
	slot->tts_isnull[i] = false;
	if (InputFunctionCallSafe(&column->input, (char *) cells->values[i], column->ioparam,
							  column->typmod, (Node *) &escontext, &slot->tts_values[i]))
		return;
	note_error(filler, buffer, cells, i, escontext.error_data->message);
	slot->tts_isnull[i] = true;
}

/* Input functions written before 16, and those of other extensions, may throw. */
static bool
reports_softly(Oid type)
{
	return type < FirstNormalObjectId && get_typtype(type) == TYPTYPE_BASE;
}
#endif

static void
fill_text_cells(SxFiller *filler, SxRowBuffer *buffer, SxRowCells *cells, int natts,
				TupleTableSlot *slot)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(filler->row_context);
	int			first_guarded = -1;

	for (int i = 0; i < natts; i++)
	{
		uint8		kind = cells->kinds[i];

		if (kind <= SX_CELL_NULL)
			continue;
		if (kind == SX_CELL_SAFE_TEXT)
			slot->tts_values[i] = call_input(filler, i, kind, (char *) cells->values[i],
											 &slot->tts_isnull[i]);
#if PG_VERSION_NUM >= 160000
		else if (kind == SX_CELL_TEXT && reports_softly(TupleDescAttr(filler->desc, i)->atttypid))
			fill_soft(filler, buffer, cells, i, slot);
#endif
		else if (first_guarded < 0)
			first_guarded = i;
	}
	MemoryContextSwitchTo(oldcontext);
	while (first_guarded >= 0)
		first_guarded = fill_guarded(filler, buffer, cells, first_guarded, natts, slot);
}

/* ---- malformed rows ---- */

static void
fill_corrupt_column(SxFiller *filler, const SxRow *row, TupleTableSlot *slot)
{
	int			i = filler->corrupt - 1;
	MemoryContext oldcontext;
	char	   *text;
	size_t		len;

	if (row->raw == NULL)
		return;
	oldcontext = MemoryContextSwitchTo(filler->row_context);
	if (TupleDescAttr(filler->desc, i)->atttypid == BYTEAOID || sx_utf8_valid(row->raw, row->raw_len))
		slot->tts_values[i] = PointerGetDatum(cstring_to_text_with_len(row->raw, row->raw_len));
	else
	{
		text = MemoryContextAllocHuge(filler->row_context, (Size) row->raw_len * 3);
		len = sx_text_replace_invalid(row->raw, row->raw_len, text);
		slot->tts_values[i] = PointerGetDatum(cstring_to_text_with_len(text, Min(len, SX_RECORD_MAX)));
		pfree(text);
	}
	slot->tts_isnull[i] = false;
	MemoryContextSwitchTo(oldcontext);
}

static void
fail_fast(SxFiller *filler, const SxRow *row)
{
	char	   *where = filler->where != NULL ? filler->where(filler->where_arg, row) : NULL;

	ereport(ERROR,
			(errcode(SX_MALFORMED_SQLSTATE),
			 where != NULL ? errmsg("malformed record at %s", where) : errmsg("malformed record"),
			 errdetail("%s", row->error),
			 errhint("Mode \"permissive\" gives NULL for what is malformed, \"dropmalformed\" leaves such records out; query option \"on_error\": \"quarantine\" puts them aside.")));
}

static SxFill
fill_malformed(SxFiller *filler, const SxRow *row, AttrNumber last_needed, TupleTableSlot *slot)
{
	if (filler->mode == SX_MODE_DROPMALFORMED)
		return SX_FILL_DROPPED;
	if (filler->quarantine &&
		(filler->mode == SX_MODE_FAILFAST ||
		 (filler->mode == SX_MODE_DEFAULT && filler->corrupt == 0)))
		return SX_FILL_QUARANTINE;
	if (filler->mode == SX_MODE_FAILFAST)
		fail_fast(filler, row);
	if (filler->corrupt > 0 && filler->corrupt <= last_needed)
		fill_corrupt_column(filler, row, slot);
	return SX_FILL_ROW;
}

SxFill
sx_filler_fill(SxFiller *filler, SxRowBuffer *buffer, int64 row, AttrNumber last_needed,
			   TupleTableSlot *slot)
{
	int			natts = buffer->natts;
	SxRowCells	cells;

	StaticAssertStmt(sizeof(bool) == 1, "kinds of cells are copied into isnull");
	sx_row_buffer_cells(buffer, row, &cells);
	memcpy(slot->tts_values, cells.values, natts * sizeof(Datum));
	memcpy(slot->tts_isnull, cells.kinds, natts);
	if (likely(!cells.row->has_text && cells.row->error == NULL))
		return SX_FILL_ROW;
	MemoryContextReset(filler->row_context);
	if (cells.row->has_text)
	{
		for (int i = 0; i < natts; i++)
			if (cells.kinds[i] > SX_CELL_NULL)
				slot->tts_isnull[i] = true;
		fill_text_cells(filler, buffer, &cells, Min(natts, last_needed), slot);
	}
	if (cells.row->error == NULL)
		return SX_FILL_ROW;
	return fill_malformed(filler, cells.row, last_needed, slot);
}
