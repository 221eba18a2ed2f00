/*
 * log_survey.h
 *		What the log has of the state after a batch: nothing missing, where each
 *		group's newest snapshot stands, what has expired.
 */
#ifndef SX_STATE_LOG_SURVEY_H
#define SX_STATE_LOG_SURVEY_H

#include "state/log_table.h"

#define SX_LOG_END		PG_INT64_MAX	/* as far as the log goes */

typedef struct SxSurvey
{
	SxLog	   *log;
	int64		snapshots_until;	/* snapshots of later batches don't count */
	int64		until;			/* and later changes neither; SX_LOG_END */

	int			base[SX_LOG_PARTS]; /* index of the generation to begin with */
	int64		first_previous[SX_LOG_PARTS];	/* last section before what was read */
	int64		last[SX_LOG_PARTS]; /* last section read, -1: none */
	bool		has_section[SX_LOG_PARTS];

	/* per group, from its newest snapshot on */
	int			snapshot_at[SX_KEY_GROUPS]; /* number of the section in its part; -1: none */
	SxGroupSize sizes[SX_KEY_GROUPS];

	int64		last_whole_groups;	/* last batch without records, -1: none */

	/* the section of the newest batch */
	bool		has_newest;
	SxSectionHeader newest;
	MemoryContext context;		/* of newest.expiries */
} SxSurvey;

/*
 * Reads every section from the newest generation on that was complete by
 * snapshots_until, and counts what its generations hold.  Raises
 * ERRCODE_SX_CHECKPOINT if one is missing or damaged. CurrentMemoryContext.
 */
extern void sx_survey_log(SxSurvey *survey, SxLog *log, SxSectionReader *reader,
						  int64 snapshots_until, int64 until);

/* Is the batch the last one that was read? Also raises it if not. */
extern void sx_survey_check_end(SxSurvey *survey, SxSectionReader *reader, int64 batch);

/* The section of a batch in tables that the survey need not read; false: there is none. */
extern bool sx_survey_find_before(SxSurvey *survey, SxSectionReader *reader, int64 batch,
								  SxSectionHeader *header);

/* Raises ERRCODE_SX_CHECKPOINT about a section. */
extern void sx_survey_damaged(const SxLog *log, const SxSectionHeader *header, const char *why);

#endif
