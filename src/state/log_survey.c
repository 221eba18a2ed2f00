/*
 * log_survey.c
 *		See log_survey.h.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "state/log_survey.h"

void
sx_survey_damaged(const SxLog *log, const SxSectionHeader *header, const char *why)
{
	sx_log_damaged(log,
				   psprintf("The %s of batch " INT64_FORMAT ", part %d, key group %d %s.",
							header->kind == SX_SECTION_SNAPSHOT ? "snapshot" : "section of changes",
							header->batch, header->part, header->group, why));
}

static int
base_generation(SxSurvey *survey, int part)
{
	SxLogPart  *p = &survey->log->parts[part];
	int			i;

	for (i = p->ngenerations - 1; i >= 0; i--)
		if (p->generations[i].complete_batch != SX_INCOMPLETE &&
			p->generations[i].complete_batch <= survey->snapshots_until)
			return i;
	sx_log_damaged(survey->log, psprintf("Part %d has no complete generation.", part));
	return 0;
}

static void
note_newest(SxSurvey *survey, const SxSectionHeader *header)
{
	if (survey->has_newest && survey->newest.batch >= header->batch)
		return;
	if (survey->has_newest)
		pfree(survey->newest.expiries);
	survey->newest = *header;
	survey->newest.expiries =
		MemoryContextAlloc(survey->context, (header->nexpiries + 1) * sizeof(SxLogExpiry));
	memcpy(survey->newest.expiries, header->expiries,
		   header->nexpiries * sizeof(SxLogExpiry));
	survey->has_newest = true;
}

static void
survey_changes(SxSurvey *survey, const SxSectionHeader *header)
{
	int			part = header->part;
	int64		previous = header->previous[part];

	if (!survey->has_section[part])
	{
		survey->has_section[part] = true;
		survey->first_previous[part] = previous;
		if (previous >= survey->log->parts[part].generations[survey->base[part]].first_batch)
			sx_survey_damaged(survey->log, header,
							psprintf("follows batch " INT64_FORMAT ", which is missing", previous));
	}
	else if (previous != survey->last[part])
		sx_survey_damaged(survey->log, header,
						psprintf("follows batch " INT64_FORMAT ", but batch " INT64_FORMAT " stands before it",
								 previous, survey->last[part]));
	survey->last[part] = header->batch;
	if (header->whole_groups)
		survey->last_whole_groups = Max(survey->last_whole_groups, header->batch);
	note_newest(survey, header);
}

static void
survey_section(SxSurvey *survey, SxSectionReader *reader,
			   SxSectionHeader *header, SxGeneration *generation,
			   const char *bytes, Size len, int number)
{
	const char *why = NULL;
	SxGroupSize *sizes = survey->sizes;

	if (header->batch > (header->kind == SX_SECTION_SNAPSHOT ?
						 survey->snapshots_until : survey->until))
		return;
	if (!sx_section_open(reader, header, bytes, len, &why))
		sx_survey_damaged(survey->log, header, why);
	if (header->kind == SX_SECTION_SNAPSHOT)
	{
		survey->snapshot_at[header->group] = number;
		memset(&sizes[header->group], 0, sizeof(SxGroupSize));
		generation->snapshot_bytes += len;
		generation->snapshot_batch[header->group % SX_GROUPS_IN_PART] = header->batch;
	}
	else
	{
		survey_changes(survey, header);
		generation->change_bytes += len;
		generation->pending_bytes += len;
	}
	if (!sx_section_measure(reader, sizes))
		sx_survey_damaged(survey->log, header, "has a damaged directory");
}

static void
survey_part(SxSurvey *survey, SxSectionReader *reader, int part)
{
	SxLogPart  *p = &survey->log->parts[part];
	MemoryContext section_context = AllocSetContextCreate(CurrentMemoryContext,
														  "streamx state section",
														  ALLOCSET_DEFAULT_SIZES);
	int			number = 0;
	int			i;
	int			group;

	survey->base[part] = base_generation(survey, part);
	survey->last[part] = -1;
	for (i = survey->base[part]; i < p->ngenerations; i++)
	{
		SxLogScan  *scan;
		SxSectionHeader header;
		const char *bytes;
		Size		len;

		sx_log_reset_counts(&p->generations[i]);
		scan = sx_log_scan_begin(survey->log, part, i);
		while (sx_log_scan_next(scan, &header, &bytes, &len))
		{
			MemoryContext oldcontext = MemoryContextSwitchTo(section_context);

			CHECK_FOR_INTERRUPTS();
			survey_section(survey, reader, &header, &p->generations[i],
						   bytes, len, number++);
			MemoryContextSwitchTo(oldcontext);
			MemoryContextReset(section_context);
		}
		sx_log_scan_end(scan);
	}
	MemoryContextDelete(section_context);

	/* only before batch 0 a group is empty without a snapshot that says so */
	if (p->generations[survey->base[part]].complete_batch < 0)
		return;
	for (group = part * SX_GROUPS_IN_PART; group < (part + 1) * SX_GROUPS_IN_PART; group++)
		if (survey->snapshot_at[group] < 0)
			sx_log_damaged(survey->log,
						   psprintf("Key group %d of part %d has no snapshot.", group, part));
}

void
sx_survey_log(SxSurvey *survey, SxLog *log, SxSectionReader *reader,
			  int64 snapshots_until, int64 until)
{
	int			i;

	memset(survey, 0, sizeof(*survey));
	survey->log = log;
	survey->snapshots_until = snapshots_until;
	survey->until = until;
	survey->context = CurrentMemoryContext;
	survey->last_whole_groups = -1;
	for (i = 0; i < SX_KEY_GROUPS; i++)
		survey->snapshot_at[i] = -1;
	for (i = 0; i < SX_LOG_PARTS; i++)
		survey_part(survey, reader, i);
}

/*
 * A batch may have written to a table that isn't read: the part's next generation
 * was complete before another batch came.  That table is still there, because it
 * serves the retained batches.
 */
bool
sx_survey_find_before(SxSurvey *survey, SxSectionReader *reader, int64 batch,
					  SxSectionHeader *header)
{
	bool		found = false;
	int			part;

	for (part = 0; part < SX_LOG_PARTS && !found; part++)
	{
		int			i;

		for (i = survey->base[part] - 1; i >= 0 && !found; i--)
		{
			SxLogScan  *scan = sx_log_scan_begin(survey->log, part, i);
			const char *bytes;
			Size		len;

			while (!found && sx_log_scan_next(scan, header, &bytes, &len))
			{
				const char *why = NULL;

				CHECK_FOR_INTERRUPTS();
				if (header->kind != SX_SECTION_CHANGES || header->batch != batch)
					continue;
				if (!sx_section_open(reader, header, bytes, len, &why))
					sx_survey_damaged(survey->log, header, why);
				found = true;
			}
			sx_log_scan_end(scan);
		}
	}
	return found;
}

/* Is the log's end the batch that the catalog has? */
void
sx_survey_check_end(SxSurvey *survey, SxSectionReader *reader, int64 batch)
{
	SxSectionHeader header;
	int			part;

	if (!(survey->has_newest && survey->newest.batch >= batch) &&
		sx_survey_find_before(survey, reader, batch, &header))
		note_newest(survey, &header);
	if (batch < 0 && !survey->has_newest)
		return;
	if (!survey->has_newest || survey->newest.batch != batch)
		sx_log_damaged(survey->log,
					   psprintf("The last batch is " INT64_FORMAT ", but the changelog ends with batch " INT64_FORMAT ".",
								batch, survey->has_newest ? survey->newest.batch : INT64CONST(-1)));
	for (part = 0; part < SX_LOG_PARTS; part++)
	{
		bool		written = (survey->newest.written & (1 << part)) != 0;
		int64		expected = written ? batch : survey->newest.previous[part];
		int64		found = survey->last[part];

		if (!survey->has_section[part])
		{
			/* it may have no changes since its generation began */
			SxLogPart  *p = &survey->log->parts[part];

			found = expected < p->generations[survey->base[part]].first_batch ? expected : -1;
		}
		if (found != expected)
			sx_log_damaged(survey->log,
						   psprintf("Changes of batch " INT64_FORMAT " in part %d are missing.",
									expected, part));
	}
}
