/*
 * changelog.h
 *		The bytes of the log: sections of changes and of snapshots.
 *
 * A section is what one batch changed in one part of the key groups, or all
 * keys of one group at one batch.  This file knows bytes only; which rows of
 * which tables they are is log_table.h.
 */
#ifndef SX_STATE_CHANGELOG_H
#define SX_STATE_CHANGELOG_H

#include "state/state_store.h"

#define SX_LOG_PARTS			8
#define SX_GROUPS_IN_PART		(SX_KEY_GROUPS / SX_LOG_PARTS)
#define sx_part_of(group)		((group) / SX_GROUPS_IN_PART)

typedef enum SxSectionKind
{
	SX_SECTION_CHANGES = 0,
	SX_SECTION_SNAPSHOT = 1		/* all keys of one group */
} SxSectionKind;

/* All earlier keys with expiry <= watermark are gone since the batch. */
typedef struct SxLogExpiry
{
	uint16		op;
	int64		watermark;
	int64		batch;
} SxLogExpiry;

typedef struct SxSectionHeader
{
	SxSectionKind kind;
	int			part;
	uint16		group;			/* of a snapshot */
	int64		batch;
	/* changes only */
	uint32		written;		/* parts that have a section of this batch, a bit each */
	bool		whole_groups;	/* no records: snapshots of the touched groups follow */
	/* the last section of each part before this batch, -1: none */
	int64		previous[SX_LOG_PARTS];
	int			nexpiries;
	SxLogExpiry *expiries;
} SxSectionHeader;

typedef struct SxLogRecord
{
	SxStateKey	key;
	bool		has_hash;		/* else it is made from the key's bytes */
	bool		removed;
	SxStateValue value;
} SxLogRecord;

/* Where finished bytes go: rows of a log table, or nowhere. */
typedef void (*SxSectionSink) (void *arg, const char *bytes, Size len, bool last);

typedef struct SxSectionWriter SxSectionWriter;

/* The writer and its compressor are made once; they live in the context. */
extern SxSectionWriter *sx_section_writer_create(MemoryContext context);
extern Size sx_section_writer_bytes(const SxSectionWriter *writer);

/* Records must come group by group. The bytes go to the sink as they are ready. */
extern void sx_section_begin(SxSectionWriter *writer, const SxSectionHeader *header,
							 SxSectionSink sink, void *arg);
extern void sx_section_add(SxSectionWriter *writer, const SxLogRecord *record);
extern void sx_section_end(SxSectionWriter *writer);

/* What a group's records in a section come to, before compression. */
typedef struct SxGroupSize
{
	uint64		bytes;
	uint64		records;		/* about: counted per segment */
} SxGroupSize;

typedef struct SxSectionReader SxSectionReader;

extern SxSectionReader *sx_section_reader_create(MemoryContext context);

/*
 * Checks the CRC over the whole section and reads its header; expiries are
 * palloc'd. kind, part, group and batch are what the rows say. False: damaged;
 * *why says how.
 */
extern bool sx_section_open(SxSectionReader *reader, SxSectionHeader *header,
							const char *bytes, Size len, const char **why);

/* Adds what the directories say to sizes[SX_KEY_GROUPS]. False: damaged. */
extern bool sx_section_measure(SxSectionReader *reader, SxGroupSize *sizes);

/*
 * Next record of a wanted group; segments without one aren't decompressed. The
 * record points into the reader. False: no more; *why is set when damaged.
 */
extern bool sx_section_next(SxSectionReader *reader, const bool *wanted,
							SxLogRecord *record, const char **why);

#endif
