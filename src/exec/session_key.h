/*
 * session_key.h
 *		The open sessions of one key: in order of time, and as bytes.
 *
 * Where there are many, those that lie beside each other are put away in pieces,
 * so that a batch doesn't rewrite all of them:
 *
 *	 |--piece 0--|--piece 1--|-a-|  |-b-||--piece 3--|-c-|
 *
 * A piece that a row touches, or that comes due, becomes its sessions again.
 *
 * Bytes of a key, version 1:
 *	 byte		version
 *	 key		varint length and bytes, where equal keys can have unequal bytes (the
 *				first ones seen stand for all)
 *	 8 bytes	when the key is due, if sessions close at all
 *	 varint		the number that the next piece gets
 *	 items
 *
 * Bytes of a piece, version 1: version and key as above, items without pieces.
 *
 * Items:
 *	 varint		how many; for each in order of time:
 *		varint		start, folded; from the second on: less the end before it
 *		varint		end less start
 *		varint		a session: twice the length of its values, then the values
 *					(aggregate_call.h); a piece: twice the number of its sessions, and
 *					one; then
 *		varint		the piece's number
 */
#ifndef SX_EXEC_SESSION_KEY_H
#define SX_EXEC_SESSION_KEY_H

#include "exec/aggregate_call.h"
#include "exec/group_table.h"

/* Stores of the operator (session.c). */
enum
{
	SX_SESSION_KEYS,
	SX_SESSION_DUE,
	SX_SESSION_BOOKS,
	SX_SESSION_PIECES,
	SX_SESSION_STORES
};

/* A session, or a piece of several: then start, end, piece and count are set. */
typedef struct SxSession
{
	TimestampTz start;
	TimestampTz end;
	bool		touched;		/* by a row of this batch */
	bool		is_piece;
	uint32		count;			/* of its sessions */
	uint64		piece;			/* its number */

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
	int64		nstored;		/* sessions that the state has */
	uint64		next_piece;
	int			n;
	int			allocated;
	SxSession **sessions;		/* and pieces, in order of time; no two touch */
	SxSession  *absorbed;		/* stored ones that others took in */
} SxSessionKey;

/* What the bytes hold, by the plan. */
typedef struct SxSessionForm
{
	bool		has_key;
	bool		has_due;
} SxSessionForm;

/* Reads and writes the pieces of keys. */
typedef struct SxSessionPieces
{
	SxState    *state;
	uint16		store;			/* of pieces: bytes of the key, 8 bytes the piece's number */
	const SxSessionForm *form;
	SxAggCalls *calls;
	StringInfoData key;
	StringInfoData value;
	StringInfoData encoded;		/* values of one session */
} SxSessionPieces;

extern void sx_session_pieces_begin(SxSessionPieces *pieces, SxState *state, uint16 store,
									const SxSessionForm *form, SxAggCalls *calls);

/*
 * In place of the piece at index: its sessions, in CurrentMemoryContext. The state
 * has the piece no more, so the key must be put.
 */
extern void sx_session_pieces_open(SxSessionPieces *pieces, SxSessionKey *key, int index);

/* The bytes must stay; sessions are made in CurrentMemoryContext, without values. */
extern void sx_session_key_decode(SxSessionKey *key, const SxSessionForm *form,
								  const SxStateValue *value);
extern void sx_session_piece_decode(SxSessionKey *key, const SxSessionForm *form,
									const SxStateValue *value);

/* Appends to out, and puts away what is too much; key->sessions stay as they are. */
extern void sx_session_key_encode(SxSessionKey *key, SxSessionPieces *pieces, StringInfo out);

/* How many there are, with those in pieces. */
extern int64 sx_session_key_count(const SxSessionKey *key);

/*
 * The session of a row whose own window is [start, end): that which it overlaps or
 * touches, or a new one, in CurrentMemoryContext. If there are several the first
 * one takes in the others; these are listed in *absorbed, by next.
 */
extern SxSession *sx_session_key_place(SxSessionKey *key, SxSessionPieces *pieces,
									   TimestampTz start, TimestampTz end,
									   SxSession **absorbed);

/* session_view.c: as SxOperatorRoutine.stores, show_open and show. */
struct SxNamedStore;
struct SxStateShow;
extern const struct SxNamedStore *sx_session_stores(const SxPlanOperator *plan);
extern void sx_session_show_open(struct SxStateShow *show);
extern void sx_session_show(struct SxStateShow *show, const SxStateKey *key,
							const SxStateValue *value);

#endif
