/*
 * stream_offset.c
 *		Positions in INSERT-able streams as JSON, and back.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/jsonb.h"
#include "utils/memutils.h"
#include "utils/numeric.h"

#include "base/errors.h"
#include "source/stream_offset.h"
#include "source/table_stream.h"

void
sx_stream_offset_invalid(const char *stream_name, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_SX_CHECKPOINT),
			 errmsg("offset of stream %s cannot be used", stream_name),
			 errdetail("%s", what),
			 errhint("Restore the checkpoint, or drop and create the query to begin anew.")));
}

SxStreamOffset *
sx_stream_offset_make(SxXidSnapshot *done, const SxStreamOffset *like)
{
	SxStreamOffset *offset = palloc0(sizeof(SxStreamOffset));

	if (like != NULL)
		*offset = *like;
	offset->base.routine = &sx_table_stream_routine;
	offset->done = done;
	offset->target = NULL;
	memset(&offset->cut, 0, sizeof(offset->cut));
	offset->cut_rows = 0;
	offset->hits = NULL;
	if (offset->part_xid != 0 && done != NULL && sx_xid_snapshot_contains(done, offset->part_xid))
		offset->part_xid = offset->part = 0;	/* the rest is read as well */
	return offset;
}

SxStreamOffset *
sx_stream_offset_copy(const SxStreamOffset *offset)
{
	SxStreamOffset *copy = palloc(sizeof(SxStreamOffset));

	*copy = *offset;
	copy->done = sx_xid_snapshot_copy(offset->done);
	if (offset->target != NULL)
		copy->target = sx_xid_snapshot_copy(offset->target);
	copy->hits = NULL;
	return copy;
}

char *
sx_stream_offset_print(const SxOffset *base)
{
	const SxStreamOffset *offset = (const SxStreamOffset *) base;
	StringInfoData out;

	initStringInfo(&out);
	appendStringInfoString(&out, "{\"snapshot\": \"");
	sx_xid_snapshot_print(&out, offset->done);
	appendStringInfo(&out, "\", \"first\": " INT64_FORMAT ", \"heaps\": [",
					 offset->first_generation);
	for (int i = 0; i < offset->nmarks; i++)
		appendStringInfo(&out, "%s[" INT64_FORMAT ", %u, %u]", i > 0 ? ", " : "",
						 offset->marks[i].generation, offset->marks[i].file,
						 offset->marks[i].block);
	appendStringInfoChar(&out, ']');
	if (offset->target != NULL)
	{
		appendStringInfoString(&out, ", \"target\": \"");
		sx_xid_snapshot_print(&out, offset->target);
		appendStringInfo(&out, "\", \"cut\": [" INT64_FORMAT ", %u, %u, " INT64_FORMAT "]",
						 offset->cut.generation, offset->cut.file, offset->cut.block,
						 offset->cut_rows);
	}
	if (offset->part_xid != 0)
		appendStringInfo(&out, ", \"part\": [" UINT64_FORMAT ", %u]", offset->part_xid,
						 offset->part);
	appendStringInfoChar(&out, '}');
	return out.data;
}

/* ---- parsing; every helper returns false when the JSON is not ours ---- */

static Jsonb *
read_json(const char *stream_name, const char *text)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	Datum		json = (Datum) 0;

	PG_TRY();
	{
		json = DirectFunctionCall1(jsonb_in, CStringGetDatum(text));
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(oldcontext);
		error = CopyErrorData();
		FlushErrorState();
		sx_stream_offset_invalid(stream_name, psprintf("It is not JSON: %s.", error->message));
	}
	PG_END_TRY();
	return DatumGetJsonbP(json);
}

static JsonbValue *
member(JsonbContainer *object, const char *name)
{
	return getKeyJsonValueFromContainer(object, name, strlen(name), NULL);
}

static bool
get_int64(const JsonbValue *value, int64 *result)
{
	if (value == NULL || value->type != jbvNumeric)
		return false;
	*result = DatumGetInt64(DirectFunctionCall1(numeric_int8,
												NumericGetDatum(value->val.numeric)));
	return *result >= 0;
}

static bool
get_snapshot(JsonbContainer *object, const char *name, SxXidSnapshot **result)
{
	JsonbValue *value = member(object, name);

	if (value == NULL || value->type != jbvString)
		return false;
	*result = sx_xid_snapshot_parse(value->val.string.val, value->val.string.len);
	return *result != NULL;
}

/* An array of numbers. */
static bool
get_numbers(const JsonbValue *value, int n, int64 *numbers)
{
	if (value == NULL || value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data) ||
		JsonContainerSize(value->val.binary.data) != n)
		return false;
	for (int i = 0; i < n; i++)
	{
		if (!get_int64(getIthJsonbValueFromContainer(value->val.binary.data, i), &numbers[i]))
			return false;
	}
	return true;
}

static bool
mark_from_numbers(const int64 *numbers, SxStreamMark *mark)
{
	if (numbers[0] == 0 || numbers[1] > PG_UINT32_MAX || numbers[2] > MaxBlockNumber)
		return false;
	mark->generation = numbers[0];
	mark->file = (Oid) numbers[1];
	mark->block = (BlockNumber) numbers[2];
	return true;
}

static bool
get_marks(const JsonbValue *value, SxStreamOffset *offset)
{
	int64		numbers[3];

	if (value == NULL || value->type != jbvBinary ||
		!JsonContainerIsArray(value->val.binary.data) ||
		JsonContainerSize(value->val.binary.data) > SX_STREAM_HEAPS)
		return false;
	offset->nmarks = JsonContainerSize(value->val.binary.data);
	for (int i = 0; i < offset->nmarks; i++)
	{
		if (!get_numbers(getIthJsonbValueFromContainer(value->val.binary.data, i), 3, numbers) ||
			!mark_from_numbers(numbers, &offset->marks[i]))
			return false;
	}
	return true;
}

static bool
get_cut(JsonbContainer *object, SxStreamOffset *offset)
{
	int64		numbers[4];

	if (member(object, "target") == NULL && member(object, "cut") == NULL)
		return true;
	if (!get_snapshot(object, "target", &offset->target) ||
		!get_numbers(member(object, "cut"), 4, numbers) ||
		!mark_from_numbers(numbers, &offset->cut))
		return false;
	offset->cut_rows = numbers[3];
	return true;
}

static bool
get_part(JsonbContainer *object, SxStreamOffset *offset)
{
	int64		numbers[2];

	if (member(object, "part") == NULL)
		return true;
	if (!get_numbers(member(object, "part"), 2, numbers) ||
		numbers[0] == 0 || numbers[1] == 0 || numbers[1] > PG_UINT16_MAX)
		return false;
	offset->part_xid = numbers[0];
	offset->part = numbers[1];
	return true;
}

SxStreamOffset *
sx_stream_offset_parse(const char *stream_name, const char *text)
{
	Jsonb	   *json = read_json(stream_name, text);
	SxStreamOffset *offset = sx_stream_offset_make(NULL, NULL);
	JsonbContainer *object = &json->root;

	if (!JB_ROOT_IS_OBJECT(json) ||
		!get_snapshot(object, "snapshot", &offset->done) ||
		!get_int64(member(object, "first"), &offset->first_generation) ||
		!get_marks(member(object, "heaps"), offset) ||
		!get_cut(object, offset) ||
		!get_part(object, offset))
		sx_stream_offset_invalid(stream_name,
								 psprintf("It is not what this version of streamx writes: %s.", text));
	return offset;
}

/* ---- comparing ---- */

/* The marks only save work; they say nothing about what was read. */
bool
sx_stream_offset_equal(const SxOffset *a, const SxOffset *b)
{
	const SxStreamOffset *x = (const SxStreamOffset *) a;
	const SxStreamOffset *y = (const SxStreamOffset *) b;

	if (!sx_xid_snapshot_equal(x->done, y->done) ||
		x->part_xid != y->part_xid || x->part != y->part ||
		(x->target == NULL) != (y->target == NULL))
		return false;
	if (x->target == NULL)
		return true;
	return sx_xid_snapshot_equal(x->target, y->target) &&
		x->cut.generation == y->cut.generation && x->cut.file == y->cut.file &&
		x->cut.block == y->cut.block && x->cut_rows == y->cut_rows;
}

BlockNumber
sx_stream_offset_low(const SxStreamOffset *offset, int64 generation, Oid file)
{
	for (int i = 0; i < offset->nmarks; i++)
	{
		if (offset->marks[i].generation == generation)
			return offset->marks[i].file == file ? offset->marks[i].block : 0;
	}
	return 0;
}
