/*
 * directory_sink.c
 *		Writes each batch as a file of JSON lines into a directory of the server.
 *
 * A sink outside PostgreSQL, and the simplest one that can keep the promise of
 * the outbox: a batch is there once and whole, or not at all.
 *
 *	 <incarnation>-<batch>.jsonl	the rows of a batch, one JSON object per line
 *	 <incarnation>-<batch>.jsonl.tmp	being written; never read by anyone
 *	 <incarnation>.mark				text: the last batch id that is in the directory
 *
 * The intent is the content of the file.  Publishing writes and syncs the .tmp,
 * renames it, then moves the mark the same way; done again it ends in the same
 * files.  A batch without rows leaves no file and does not move the mark.
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "catalog/pg_authid.h"
#include "executor/tuptable.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/memutils.h"
#include "utils/uuid.h"

#include "base/crash_point.h"
#include "base/errors.h"
#include "sink/sinks.h"

typedef struct DirectorySink
{
	SxSink		sink;
	char	   *directory;
	char	   *incarnation;	/* as text */
} DirectorySink;

static void
check_directory(const SxSinkConfig *config)
{
	const char *directory = config->query->options.directory;
	struct stat st;

	if (directory == NULL || !is_absolute_path(directory))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a directory sink needs the option \"directory\", an absolute path"),
				 errhint("For example options => '{\"directory\": \"/var/lib/streamx/out\"}'.")));
	if (!has_privs_of_role(config->query->owner, ROLE_PG_WRITE_SERVER_FILES))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to write files of the server"),
				 errdetail("Role \"%s\", which owns query \"%s\", needs the privileges of role \"pg_write_server_files\".",
						   GetUserNameFromId(config->query->owner, false),
						   config->query->name)));
	if (stat(directory, &st) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not access directory \"%s\": %m", directory)));
	if (!S_ISDIR(st.st_mode))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a directory", directory)));
}

static void
directory_prepare(SxQuery *query, const SxSinkConfig *config)
{
	check_directory(config);
	if (query->output_mode == SX_OUTPUT_COMPLETE)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("a directory sink does not take output mode \"complete\""),
				 errhint("Use output mode \"append\" or \"update\", or a table as the sink.")));
	sx_sink_check_retracts(config, false);
	query->sink_relation = InvalidOid;
}

static SxSink *
directory_open(const SxSinkConfig *config)
{
	DirectorySink *self = palloc0(sizeof(DirectorySink));

	check_directory(config);
	self->sink.routine = &sx_directory_sink;
	self->directory = pstrdup(config->query->options.directory);
	self->incarnation =
		DatumGetCString(DirectFunctionCall1(uuid_out,
											UUIDPGetDatum(&config->query->incarnation)));
	self->sink.description = psprintf("directory[%s]", self->directory);
	return &self->sink;
}

/* Nothing is collected: stage() reads the result itself. */
static void
directory_write(SxSink *sink, const SxResult *result)
{
}

static void
directory_stage(SxSink *sink, const SxResult *result, StringInfo intent)
{
	TupleDesc	desc = BlessTupleDesc(CreateTupleDescCopy(result->desc));
	TupleTableSlot *slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	MemoryContext row_context = AllocSetContextCreate(CurrentMemoryContext, "row",
													  ALLOCSET_DEFAULT_SIZES);

	tuplestore_rescan(result->rows);
	while (tuplestore_gettupleslot(result->rows, true, false, slot))
	{
		MemoryContext oldcontext = MemoryContextSwitchTo(row_context);
		Datum		json = DirectFunctionCall1(row_to_json,
											   ExecFetchSlotHeapTupleDatum(slot));
		text	   *line = DatumGetTextPP(json);

		MemoryContextSwitchTo(oldcontext);
		appendBinaryStringInfo(intent, VARDATA_ANY(line), VARSIZE_ANY_EXHDR(line));
		appendStringInfoChar(intent, '\n');
		MemoryContextReset(row_context);
	}
	ExecDropSingleTupleTableSlot(slot);
	MemoryContextDelete(row_context);
}

/* The whole file, durable under its final name when this returns. */
static void
write_file(const char *path, const char *bytes, int len)
{
	char	   *temporary = psprintf("%s.tmp", path);
	int			fd = OpenTransientFile(temporary, O_WRONLY | O_CREAT | O_TRUNC | PG_BINARY);

	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create file \"%s\": %m", temporary)));
	while (len > 0)
	{
		ssize_t		written;

		errno = 0;
		written = write(fd, bytes, len);
		if (written <= 0)
		{
			if (errno == EINTR)
				continue;
			if (errno == 0)
				errno = ENOSPC;
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write file \"%s\": %m", temporary)));
		}
		bytes += written;
		len -= written;
	}
	if (pg_fsync(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not fsync file \"%s\": %m", temporary)));
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", temporary)));
	durable_rename(temporary, path, ERROR);
	pfree(temporary);
}

static char *
mark_path(DirectorySink *self)
{
	return psprintf("%s/%s.mark", self->directory, self->incarnation);
}

static void
directory_publish(SxSink *sink, int64 batch_id, const char *intent, int len)
{
	DirectorySink *self = (DirectorySink *) sink;
	char	   *mark = psprintf(INT64_FORMAT "\n", batch_id);

	SX_CRASH_POINT("publish");
	write_file(psprintf("%s/%s-" INT64_FORMAT ".jsonl",
						self->directory, self->incarnation, batch_id),
			   intent, len);
	SX_CRASH_POINT("published-unmarked");
	write_file(mark_path(self), mark, strlen(mark));
}

static int64
directory_mark(SxSink *sink, const char **foreign)
{
	DirectorySink *self = (DirectorySink *) sink;
	char	   *path = mark_path(self);
	FILE	   *file = AllocateFile(path, "r");
	char		line[64];
	char	   *end;
	int64		mark;

	if (file == NULL)
	{
		if (errno == ENOENT)
			return SX_MARK_NONE;
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	}
	if (fgets(line, sizeof(line), file) == NULL)
		line[0] = '\0';
	FreeFile(file);
	errno = 0;
	mark = strtoi64(line, &end, 10);
	if (end == line || *end != '\n' || errno != 0 || mark < 0)
		ereport(ERROR,
				(errcode(ERRCODE_SX_SINK_MARK),
				 errmsg("file \"%s\" does not hold a batch id", path),
				 errhint("Find out which batches of the query the directory holds, and write the last one's id into the file.")));
	return mark;
}

static void
directory_close(SxSink *sink)
{
	pfree(sink);
}

const SxSinkRoutine sx_directory_sink = {
	.name = "directory",
	.outside = true,
	.prepare = directory_prepare,
	.open = directory_open,
	.write = directory_write,
	.stage = directory_stage,
	.publish = directory_publish,
	.mark = directory_mark,
	.close = directory_close,
};
