/*
 * session_key.h
 *		The open sessions of one key: in order of time, and as bytes.
 *
 * Bytes, version 1:
 *	 byte		version
 *	 key		varint length and bytes, where equal keys can have unequal bytes (the
 *				first ones seen stand for all)
 *	 8 bytes	when the key is due, if sessions close at all
 *	 varint		number of sessions; for each in order of time:
 *		varint		start, folded; from the second on: less the end before it
 *		varint		end less start
 *		varint		length of the values, values (aggregate_call.h)
 */
#ifndef SX_EXEC_SESSION_KEY_H
#define SX_EXEC_SESSION_KEY_H

#include "exec/aggregate_call.h"
#include "exec/group_table.h"

typedef struct SxSession
{
	TimestampTz start;
	TimestampTz end;
	bool		touched;		/* by a row of this batch */

	/* as the state has it */
	bool		stored;
	TimestampTz stored_start;
	TimestampTz stored_end;
	const char *bytes;			/* of the values, while nobody asked for them */
	uint32		len;

	char	   *values;			/* NULL: in bytes, or none yet */
	struct SxSession *next;		/* of those that were absorbed */
} SxSession;

/* What a batch knows of a key; begins as zeros, but for due. */
typedef struct SxSessionKey
{
	SxGroup		group;
	int64		due;			/* there is an entry that says to look at it then; SX_STATE_NEVER: none */
	int			nstored;		/* sessions that the state has */
	int			n;
	int			allocated;
	SxSession **sessions;		/* in order of time; no two touch */
	SxSession  *absorbed;		/* stored ones that others took in */
} SxSessionKey;

/* What the bytes hold, by the plan. */
typedef struct SxSessionForm
{
	bool		has_key;
	bool		has_due;
} SxSessionForm;

/* The bytes must stay; sessions are made in CurrentMemoryContext, without values. */
extern void sx_session_key_decode(SxSessionKey *key, const SxSessionForm *form,
								  const SxStateValue *value);

/* Appends to out; scratch is written over. */
extern void sx_session_key_encode(const SxSessionKey *key, const SxSessionForm *form,
								  SxAggCalls *calls, StringInfo scratch, StringInfo out);

/*
 * The session of a row whose own window is [start, end): that which it overlaps or
 * touches, or a new one, in CurrentMemoryContext. If there are several the first
 * one takes in the others; these are listed in *absorbed, by next.
 */
extern SxSession *sx_session_key_place(SxSessionKey *key, TimestampTz start, TimestampTz end,
									   SxSession **absorbed);

#endif
