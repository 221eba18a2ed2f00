/*
 * changelog.c
 *		Sections as bytes.
 *
 * Format, version 1.  "v" is an unsigned integer of 7 bits a byte, the low ones
 * first; fixed integers are of the machine's byte order (a physical copy of a
 * cluster never changes it, and nothing else carries these bytes).
 *
 *	section   = version u8
 *				changes only: parts written * 2 + (1: whole groups follow) v
 *							  previous v * SX_LOG_PARTS (0: none, else batch - previous)
 *							  number of expiries v, each: operator v, watermark i64,
 *							  batch - its batch v
 *				segments
 *				0, crc u32
 *	segment   = 1 (stored) or 2 (zstd)
 *				raw length v, stored length v, records v, groups v
 *				directory: per group: group u8, length of its records v
 *				stored bytes
 *	record	  = flags u8: 1 removed, 2 same operator and expiry as the record
 *				before it (never for a group's first one), 4 no expiry, 8 with hash
 *				unless 2: operator v, and unless 4: expiry i64
 *				if 8: hash u64
 *				key length v, key, and unless 1: value length v, value
 *
 * The CRC-32C covers kind, part, group and batch, then all bytes before it, so
 * a section that stands in a wrong place is noticed too.  Records of a segment
 * are grouped by key group; a reader that wants some groups skips segments by
 * their directories.  A section of one small change, 27 bytes without its key
 * and value:
 *
 *	01 | 04 | 00 01 00 00 00 00 00 00 | 00 | 01 0a 0a 01 01 | 2a 0a |
 *	04 00 04 <key> 02 <value> | 00 <crc>
 *
 * A reader that meets another version refuses the log; there is no other yet.
 */
#include "postgres.h"

#include <zstd.h>

#include "port/pg_crc32c.h"
#include "utils/memutils.h"

#include "state/changelog.h"

#define SECTION_VERSION		1
#define SEGMENT_BYTES		(128 * 1024)	/* before compression */
#define COMPRESS_FROM		200
#define COMPRESS_LEVEL		1

#define SEGMENT_END			0
#define SEGMENT_STORED		1
#define SEGMENT_ZSTD		2

#define RECORD_REMOVED		1
#define RECORD_SAME			2
#define RECORD_NO_EXPIRY	4
#define RECORD_HASH			8

/* A buffer that may pass 1 GB, which StringInfo may not. */
typedef struct Buffer
{
	MemoryContext context;
	char	   *data;
	Size		len;
	Size		allocated;
} Buffer;

static void
buffer_reserve(Buffer *buffer, Size more)
{
	Size		size;

	if (buffer->len + more <= buffer->allocated)
		return;
	size = Max(buffer->allocated * 2, 8192);
	while (size < buffer->len + more)
		size *= 2;
	if (buffer->data == NULL)
		buffer->data = MemoryContextAllocHuge(buffer->context, size);
	else
		buffer->data = repalloc_huge(buffer->data, size);
	buffer->allocated = size;
}

/* One huge value must not make the buffer huge for ever. */
static void
buffer_reset(Buffer *buffer)
{
	buffer->len = 0;
	if (buffer->allocated > 8 * SEGMENT_BYTES)
	{
		pfree(buffer->data);
		buffer->data = NULL;
		buffer->allocated = 0;
	}
}

static inline void
put_bytes(Buffer *buffer, const void *bytes, Size len)
{
	buffer_reserve(buffer, len);
	memcpy(buffer->data + buffer->len, bytes, len);
	buffer->len += len;
}

static inline char *
encode_varint(char *to, uint64 value)
{
	while (value >= 0x80)
	{
		*to++ = (char) (value | 0x80);
		value >>= 7;
	}
	*to++ = (char) value;
	return to;
}

static inline void
put_varint(Buffer *buffer, uint64 value)
{
	buffer_reserve(buffer, 10);
	buffer->len = encode_varint(buffer->data + buffer->len, value) - buffer->data;
}

static inline void
put_byte(Buffer *buffer, uint8 value)
{
	buffer_reserve(buffer, 1);
	buffer->data[buffer->len++] = (char) value;
}

/* ---------- writer ---------- */

struct SxSectionWriter
{
	ZSTD_CCtx  *compressor;
	MemoryContextCallback free_compressor;
	Buffer		raw;			/* records of the segment being built */
	Buffer		directory;
	Buffer		out;			/* finished bytes that the sink doesn't have yet */
	pg_crc32c	crc;
	SxSectionSink sink;
	void	   *arg;

	/* of the segment being built */
	uint64		nrecords;
	uint64		ngroups;
	int			group;			/* -1: none yet */
	Size		group_start;
	uint16		op;				/* of the record before */
	int64		expiry;
	bool		has_record;		/* the group has one in this segment */
};

static void
free_compressor(void *arg)
{
	ZSTD_freeCCtx((ZSTD_CCtx *) arg);
}

SxSectionWriter *
sx_section_writer_create(MemoryContext context)
{
	SxSectionWriter *writer = MemoryContextAllocZero(context, sizeof(*writer));

	writer->compressor = ZSTD_createCCtx();
	if (writer->compressor == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("The compressor of the state's changelog could not be made.")));
	writer->free_compressor.func = free_compressor;
	writer->free_compressor.arg = writer->compressor;
	MemoryContextRegisterResetCallback(context, &writer->free_compressor);
	writer->raw.context = context;
	writer->directory.context = context;
	writer->out.context = context;
	return writer;
}

Size
sx_section_writer_bytes(const SxSectionWriter *writer)
{
	return writer->raw.allocated + writer->out.allocated +
		ZSTD_sizeof_CCtx(writer->compressor);
}

static pg_crc32c
crc_of_place(const SxSectionHeader *header)
{
	pg_crc32c	crc;
	int32		place[3] = {header->kind, header->part, header->group};

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, place, sizeof(place));
	COMP_CRC32C(crc, &header->batch, sizeof(header->batch));
	return crc;
}

static void
start_segment(SxSectionWriter *writer)
{
	buffer_reset(&writer->raw);
	buffer_reset(&writer->directory);
	writer->nrecords = 0;
	writer->ngroups = 0;
	writer->group = -1;
	writer->has_record = false;
}

void
sx_section_begin(SxSectionWriter *writer, const SxSectionHeader *header,
				 SxSectionSink sink, void *arg)
{
	Buffer	   *out = &writer->out;
	int			i;

	writer->sink = sink;
	writer->arg = arg;
	writer->crc = crc_of_place(header);
	buffer_reset(out);
	put_byte(out, SECTION_VERSION);
	if (header->kind == SX_SECTION_CHANGES)
	{
		put_varint(out, (uint64) header->written << 1 | (header->whole_groups ? 1 : 0));
		for (i = 0; i < SX_LOG_PARTS; i++)
			put_varint(out, header->previous[i] < 0 ? 0 :
					   header->batch - header->previous[i]);
		put_varint(out, header->nexpiries);
		for (i = 0; i < header->nexpiries; i++)
		{
			const SxLogExpiry *expiry = &header->expiries[i];

			put_varint(out, expiry->op);
			put_bytes(out, &expiry->watermark, sizeof(int64));
			put_varint(out, header->batch - expiry->batch);
		}
	}
	start_segment(writer);
}

static void
end_group(SxSectionWriter *writer)
{
	if (writer->group < 0)
		return;
	put_byte(&writer->directory, (uint8) writer->group);
	put_varint(&writer->directory, writer->raw.len - writer->group_start);
	writer->ngroups++;
}

/* Gives the sink what is ready; the CRC runs over it on the way. */
static void
hand_over(SxSectionWriter *writer, bool last)
{
	COMP_CRC32C(writer->crc, writer->out.data, writer->out.len);
	if (last)
	{
		FIN_CRC32C(writer->crc);
		put_bytes(&writer->out, &writer->crc, sizeof(writer->crc));
	}
	writer->sink(writer->arg, writer->out.data, writer->out.len, last);
	buffer_reset(&writer->out);
}

static void
end_segment(SxSectionWriter *writer)
{
	Buffer	   *out = &writer->out;
	Buffer	   *raw = &writer->raw;
	Size		stored = raw->len;
	char		head[64];
	char	   *at = head;
	Size		body;

	if (writer->nrecords == 0)
		return;
	end_group(writer);

	/* the body goes behind the longest head possible, then the head before it */
	body = sizeof(head) + writer->directory.len;
	buffer_reserve(out, body + ZSTD_compressBound(raw->len));
	if (raw->len >= COMPRESS_FROM)
	{
		stored = ZSTD_compressCCtx(writer->compressor, out->data + out->len + body,
								   ZSTD_compressBound(raw->len),
								   raw->data, raw->len, COMPRESS_LEVEL);
		if (ZSTD_isError(stored))
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("could not compress the state's changelog"),
					 errdetail("zstd: %s", ZSTD_getErrorName(stored))));
		if (stored > raw->len)
			stored = raw->len;
	}
	*at++ = stored < raw->len ? SEGMENT_ZSTD : SEGMENT_STORED;
	at = encode_varint(at, raw->len);
	at = encode_varint(at, stored);
	at = encode_varint(at, writer->nrecords);
	at = encode_varint(at, writer->ngroups);
	if (stored < raw->len)
		memmove(out->data + out->len + (at - head) + writer->directory.len,
				out->data + out->len + body, stored);
	else
		memcpy(out->data + out->len + (at - head) + writer->directory.len,
			   raw->data, raw->len);
	put_bytes(out, head, at - head);
	put_bytes(out, writer->directory.data, writer->directory.len);
	out->len += stored;
	start_segment(writer);
	if (out->len >= SEGMENT_BYTES)
		hand_over(writer, false);
}

void
sx_section_add(SxSectionWriter *writer, const SxLogRecord *record)
{
	const SxStateKey *key = &record->key;
	Buffer	   *raw = &writer->raw;
	uint8		flags = (record->removed ? RECORD_REMOVED : 0) |
		(record->has_hash ? RECORD_HASH : 0);
	char	   *at;

	if (raw->len >= SEGMENT_BYTES)
		end_segment(writer);
	if (key->group != writer->group)
	{
		end_group(writer);
		writer->group = key->group;
		writer->group_start = raw->len;
		writer->has_record = false;
	}
	if (writer->has_record && key->op == writer->op && key->expiry == writer->expiry)
		flags |= RECORD_SAME;
	else if (key->expiry == SX_STATE_NEVER)
		flags |= RECORD_NO_EXPIRY;

	buffer_reserve(raw, 64 + (Size) key->len + (record->removed ? 0 : record->value.len));
	at = raw->data + raw->len;
	*at++ = (char) flags;
	if (!(flags & RECORD_SAME))
	{
		at = encode_varint(at, key->op);
		if (!(flags & RECORD_NO_EXPIRY))
		{
			memcpy(at, &key->expiry, sizeof(int64));
			at += sizeof(int64);
		}
	}
	if (record->has_hash)
	{
		memcpy(at, &key->hash, sizeof(uint64));
		at += sizeof(uint64);
	}
	at = encode_varint(at, key->len);
	memcpy(at, key->bytes, key->len);
	at += key->len;
	if (!record->removed)
	{
		at = encode_varint(at, record->value.len);
		memcpy(at, record->value.bytes, record->value.len);
		at += record->value.len;
	}
	raw->len = at - raw->data;
	writer->op = key->op;
	writer->expiry = key->expiry;
	writer->has_record = true;
	writer->nrecords++;
}

void
sx_section_end(SxSectionWriter *writer)
{
	end_segment(writer);
	put_byte(&writer->out, SEGMENT_END);
	hand_over(writer, true);
}

/* ---------- reader ---------- */

struct SxSectionReader
{
	ZSTD_DCtx  *decompressor;
	MemoryContextCallback free_decompressor;
	Buffer		raw;
	SxSectionKind kind;

	const char *segments;		/* behind the section's header */
	const char *end;			/* before the CRC */
	const char *at;				/* next segment */

	/* the segment being read */
	const char *directory;
	const char *directory_end;
	const char *group_bytes;	/* next group's records */
	const char *record;
	const char *record_end;
	uint16		group;
	uint16		op;
	int64		expiry;
	bool		has_record;
};

typedef struct SegmentHead
{
	uint8		how;
	uint64		raw_len;
	uint64		stored_len;
	uint64		nrecords;
	uint64		ngroups;
	const char *directory;
	const char *directory_end;
	const char *body;
	const char *next;
} SegmentHead;

static void
free_decompressor(void *arg)
{
	ZSTD_freeDCtx((ZSTD_DCtx *) arg);
}

SxSectionReader *
sx_section_reader_create(MemoryContext context)
{
	SxSectionReader *reader = MemoryContextAllocZero(context, sizeof(*reader));

	reader->decompressor = ZSTD_createDCtx();
	if (reader->decompressor == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OUT_OF_MEMORY),
				 errmsg("out of memory"),
				 errdetail("The decompressor of the state's changelog could not be made.")));
	reader->free_decompressor.func = free_decompressor;
	reader->free_decompressor.arg = reader->decompressor;
	MemoryContextRegisterResetCallback(context, &reader->free_decompressor);
	reader->raw.context = context;
	return reader;
}

/* False: the bytes end in the middle of the number. */
static inline bool
get_varint(const char **at, const char *end, uint64 *value)
{
	int			shift = 0;

	*value = 0;
	while (*at < end && shift < 64)
	{
		uint8		byte = (uint8) *(*at)++;

		*value |= (uint64) (byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return true;
		shift += 7;
	}
	return false;
}

static inline bool
get_bytes(const char **at, const char *end, void *to, Size len)
{
	if ((Size) (end - *at) < len)
		return false;
	memcpy(to, *at, len);
	*at += len;
	return true;
}

static bool
read_header(SxSectionHeader *header, const char **at, const char *end)
{
	uint64		n;
	int			i;

	header->nexpiries = 0;
	header->expiries = NULL;
	if (header->kind != SX_SECTION_CHANGES)
		return true;
	if (!get_varint(at, end, &n))
		return false;
	header->written = (uint32) (n >> 1);
	header->whole_groups = (n & 1) != 0;
	for (i = 0; i < SX_LOG_PARTS; i++)
	{
		if (!get_varint(at, end, &n))
			return false;
		header->previous[i] = n == 0 ? -1 : header->batch - (int64) n;
	}
	if (!get_varint(at, end, &n) || n > PG_UINT16_MAX)
		return false;
	header->nexpiries = (int) n;
	header->expiries = palloc(Max(n, 1) * sizeof(SxLogExpiry));
	for (i = 0; i < header->nexpiries; i++)
	{
		SxLogExpiry *expiry = &header->expiries[i];

		if (!get_varint(at, end, &n))
			return false;
		expiry->op = (uint16) n;
		if (!get_bytes(at, end, &expiry->watermark, sizeof(int64)) ||
			!get_varint(at, end, &n))
			return false;
		expiry->batch = header->batch - (int64) n;
	}
	return true;
}

bool
sx_section_open(SxSectionReader *reader, SxSectionHeader *header,
				const char *bytes, Size len, const char **why)
{
	pg_crc32c	crc = crc_of_place(header);
	pg_crc32c	stored;

	if (len < 2 + sizeof(stored))
	{
		*why = "is too short";
		return false;
	}
	COMP_CRC32C(crc, bytes, len - sizeof(stored));
	FIN_CRC32C(crc);
	memcpy(&stored, bytes + len - sizeof(stored), sizeof(stored));
	if (!EQ_CRC32C(crc, stored))
	{
		*why = "has a wrong checksum";
		return false;
	}
	if (bytes[0] != SECTION_VERSION)
	{
		*why = "has an unknown version";
		return false;
	}
	reader->kind = header->kind;
	reader->at = bytes + 1;
	reader->end = bytes + len - sizeof(stored);
	reader->directory = reader->directory_end = NULL;
	reader->record = reader->record_end = NULL;
	if (!read_header(header, &reader->at, reader->end))
	{
		*why = "has a damaged header";
		return false;
	}
	reader->segments = reader->at;
	return true;
}

/* 1: read; 0: no more; -1: damaged */
static int
segment_head(SxSectionReader *reader, SegmentHead *head)
{
	const char *at = reader->at;
	const char *end = reader->end;
	uint64		i;

	if (at >= end)
		return -1;
	head->how = (uint8) *at++;
	if (head->how == SEGMENT_END)
		return at == end ? 0 : -1;
	if (head->how != SEGMENT_STORED && head->how != SEGMENT_ZSTD)
		return -1;
	if (!get_varint(&at, end, &head->raw_len) || !get_varint(&at, end, &head->stored_len) ||
		!get_varint(&at, end, &head->nrecords) || !get_varint(&at, end, &head->ngroups))
		return -1;
	head->directory = at;
	for (i = 0; i < head->ngroups; i++)
	{
		uint64		len;

		if (at >= end)
			return -1;
		at++;
		if (!get_varint(&at, end, &len))
			return -1;
	}
	head->directory_end = at;
	head->body = at;
	if ((uint64) (end - at) < head->stored_len)
		return -1;
	head->next = at + head->stored_len;
	return 1;
}

bool
sx_section_measure(SxSectionReader *reader, SxGroupSize *sizes)
{
	SegmentHead head;
	int			found;

	while ((found = segment_head(reader, &head)) > 0)
	{
		const char *at = head.directory;

		while (at < head.directory_end)
		{
			uint8		group = (uint8) *at++;
			uint64		len;

			get_varint(&at, head.directory_end, &len);
			sizes[group].bytes += len;
			sizes[group].records += head.raw_len == 0 ? 0 :
				(head.nrecords * len + head.raw_len - 1) / head.raw_len;
		}
		reader->at = head.next;
	}
	reader->at = reader->segments;
	return found == 0;
}

static bool
any_wanted(const SegmentHead *head, const bool *wanted)
{
	const char *at = head->directory;

	while (at < head->directory_end)
	{
		uint64		len;

		if (wanted[(uint8) *at++])
			return true;
		get_varint(&at, head->directory_end, &len);
	}
	return false;
}

/* Makes the next segment with a wanted group the current one; as segment_head. */
static int
next_segment(SxSectionReader *reader, const bool *wanted)
{
	SegmentHead head;
	int			found;

	while ((found = segment_head(reader, &head)) > 0)
	{
		reader->at = head.next;
		if (!any_wanted(&head, wanted))
			continue;
		reader->directory = head.directory;
		reader->directory_end = head.directory_end;
		reader->group_bytes = head.body;
		if (head.how == SEGMENT_ZSTD)
		{
			buffer_reset(&reader->raw);
			buffer_reserve(&reader->raw, head.raw_len);
			if (ZSTD_decompressDCtx(reader->decompressor, reader->raw.data, head.raw_len,
									head.body, head.stored_len) != head.raw_len)
				return -1;
			reader->raw.len = head.raw_len;
			reader->group_bytes = reader->raw.data;
		}
		return 1;
	}
	return found;
}

/* Next group of the segment that is wanted; false: none. */
static bool
next_group(SxSectionReader *reader, const bool *wanted)
{
	while (reader->directory < reader->directory_end)
	{
		uint64		len;

		reader->group = (uint8) *reader->directory++;
		get_varint(&reader->directory, reader->directory_end, &len);
		reader->record = reader->group_bytes;
		reader->record_end = reader->group_bytes = reader->group_bytes + len;
		reader->has_record = false;
		if (wanted[reader->group])
			return true;
	}
	reader->record = reader->record_end = NULL;
	return false;
}

static bool
read_record(SxSectionReader *reader, SxLogRecord *record)
{
	const char **at = &reader->record;
	const char *end = reader->record_end;
	uint8		flags = (uint8) *(*at)++;
	uint64		n;

	if (!(flags & RECORD_SAME))
	{
		if (!get_varint(at, end, &n))
			return false;
		reader->op = (uint16) n;
		if (flags & RECORD_NO_EXPIRY)
			reader->expiry = SX_STATE_NEVER;
		else if (!get_bytes(at, end, &reader->expiry, sizeof(int64)))
			return false;
	}
	else if (!reader->has_record)
		return false;
	reader->has_record = true;
	record->key.op = reader->op;
	record->key.expiry = reader->expiry;
	record->key.group = reader->group;
	record->removed = (flags & RECORD_REMOVED) != 0;
	record->has_hash = (flags & RECORD_HASH) != 0;
	record->key.hash = 0;
	record->value.bytes = NULL;
	record->value.len = 0;
	if (record->has_hash && !get_bytes(at, end, &record->key.hash, sizeof(uint64)))
		return false;
	if (!get_varint(at, end, &n) || n > (uint64) (end - *at))
		return false;
	record->key.len = (uint32) n;
	record->key.bytes = *at;
	*at += n;
	if (record->removed)
		return true;
	if (!get_varint(at, end, &n) || n > (uint64) (end - *at))
		return false;
	record->value.len = (uint32) n;
	record->value.bytes = *at;
	*at += n;
	return true;
}

bool
sx_section_next(SxSectionReader *reader, const bool *wanted,
				SxLogRecord *record, const char **why)
{
	while (reader->record == reader->record_end)
	{
		int			found;

		if (next_group(reader, wanted))
			continue;
		found = next_segment(reader, wanted);
		if (found < 0)
			*why = "has a damaged segment";
		if (found <= 0)
			return false;
	}
	if (!read_record(reader, record))
	{
		*why = "has a damaged record";
		return false;
	}
	return true;
}
