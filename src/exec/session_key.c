/*
 * session_key.c
 *		See session_key.h.
 */
#include "postgres.h"

#include "exec/session_key.h"

#define VALUE_VERSION	1

/*
 * Of more sessions than MAX_ALONE, runs of PIECE_MIN to PIECE_MAX go into pieces,
 * the oldest ones first, until KEEP_ALONE are left: rows mostly touch the newest.
 */
#define MAX_ALONE	64
#define KEEP_ALONE	32
#define PIECE_MIN	8
#define PIECE_MAX	32

static void
make_room(SxSessionKey *key, int more)
{
	if (key->n + more <= key->allocated)
		return;
	key->allocated = Max(key->n + more, Max(2, key->allocated * 2));
	key->sessions = key->sessions == NULL ?
		palloc(key->allocated * sizeof(SxSession *)) :
		repalloc_huge(key->sessions, key->allocated * sizeof(SxSession *));
}

int64
sx_session_key_count(const SxSessionKey *key)
{
	int64		count = 0;

	for (int i = 0; i < key->n; i++)
		count += key->sessions[i]->is_piece ? key->sessions[i]->count : 1;
	return count;
}

/* ---------- from bytes ---------- */

static void
read_head(SxSessionKey *key, const SxSessionForm *form, SxReader *in)
{
	if (*sx_read_bytes(in, 1) != VALUE_VERSION)
		sx_reader_short();
	if (form->has_key)
	{
		key->group.keylen = sx_read_varint(in);
		key->group.key = sx_read_bytes(in, key->group.keylen);
	}
}

static void
read_items(SxSessionKey *key, SxReader *in)
{
	TimestampTz before = 0;
	uint64		n = sx_read_varint(in);
	SxSession  *sessions;

	if (n > (uint64) (in->end - in->p))
		sx_reader_short();
	sessions = MemoryContextAllocExtended(CurrentMemoryContext, (n + 1) * sizeof(SxSession),
										  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	make_room(key, n);
	for (uint64 i = 0; i < n; i++)
	{
		SxSession  *session = &sessions[i];
		uint64		start = sx_read_varint(in);
		uint64		size;

		session->start = i == 0 ? sx_unzigzag(start) : (TimestampTz) ((uint64) before + start);
		session->end = session->start + (int64) sx_read_varint(in);
		session->stored = true;
		session->stored_start = session->start;
		session->stored_end = session->end;
		before = session->end;
		size = sx_read_varint(in);
		session->is_piece = (size & 1) != 0;
		if (session->is_piece)
		{
			session->count = size >> 1;
			session->piece = sx_read_varint(in);
		}
		else
		{
			session->len = size >> 1;
			session->bytes = sx_read_bytes(in, session->len);
		}
		key->sessions[key->n++] = session;
	}
}

void
sx_session_key_decode(SxSessionKey *key, const SxSessionForm *form, const SxStateValue *value)
{
	SxReader	in = {value->bytes, value->bytes + value->len};

	read_head(key, form, &in);
	if (form->has_due)
		memcpy(&key->due, sx_read_bytes(&in, sizeof(int64)), sizeof(int64));
	key->next_piece = sx_read_varint(&in);
	read_items(key, &in);
	key->nstored = sx_session_key_count(key);
}

void
sx_session_piece_decode(SxSessionKey *key, const SxSessionForm *form, const SxStateValue *value)
{
	SxReader	in = {value->bytes, value->bytes + value->len};

	read_head(key, form, &in);
	read_items(key, &in);
}

/* ---------- to bytes ---------- */

static void
append_head(const SxSessionKey *key, const SxSessionForm *form, StringInfo out)
{
	appendStringInfoCharMacro(out, VALUE_VERSION);
	if (form->has_key)
	{
		sx_varint_append(out, key->group.keylen);
		appendBinaryStringInfo(out, key->group.key, key->group.keylen);
	}
}

static void
append_items(SxSession **items, int n, SxSessionPieces *pieces, StringInfo out)
{
	TimestampTz before = 0;

	sx_varint_append(out, n);
	for (int i = 0; i < n; i++)
	{
		const SxSession *item = items[i];
		const char *bytes = item->bytes;
		uint64		len = item->len;

		sx_varint_append(out, i == 0 ? sx_zigzag(item->start) :
						 (uint64) item->start - (uint64) before);
		sx_varint_append(out, item->end - item->start);
		before = item->end;
		if (item->is_piece)
		{
			sx_varint_append(out, (uint64) item->count << 1 | 1);
			sx_varint_append(out, item->piece);
			continue;
		}
		if (item->values != NULL)
		{
			resetStringInfo(&pieces->encoded);
			sx_agg_values_encode(pieces->calls, item->values, &pieces->encoded);
			bytes = pieces->encoded.data;
			len = pieces->encoded.len;
		}
		sx_varint_append(out, len << 1);
		appendBinaryStringInfo(out, bytes, len);
	}
}

/* ---------- pieces ---------- */

void
sx_session_pieces_begin(SxSessionPieces *pieces, SxState *state, uint16 store,
						const SxSessionForm *form, SxAggCalls *calls)
{
	pieces->state = state;
	pieces->store = store;
	pieces->form = form;
	pieces->calls = calls;
	initStringInfo(&pieces->key);
	initStringInfo(&pieces->value);
	initStringInfo(&pieces->encoded);
}

/* Bytes decide: those of the key are the first ones seen, whatever equals them. */
static SxStateKey
piece_key(SxSessionPieces *pieces, const SxSessionKey *key, uint64 number)
{
	SxStateKey	state = {
		.op = pieces->store,
		.group = key->group.group,
		.expiry = SX_STATE_NEVER,
	};

	resetStringInfo(&pieces->key);
	appendBinaryStringInfo(&pieces->key, key->group.key, key->group.keylen);
	appendBinaryStringInfo(&pieces->key, (const char *) &number, sizeof(number));
	state.bytes = pieces->key.data;
	state.len = pieces->key.len;
	return state;
}

void
sx_session_pieces_open(SxSessionPieces *pieces, SxSessionKey *key, int index)
{
	const SxSession *piece = key->sessions[index];
	SxStateKey	state = piece_key(pieces, key, piece->piece);
	SxSessionKey part = {.due = SX_STATE_NEVER};
	SxStateValue value;
	char	   *copy;

	sx_state_get_many(pieces->state, 1, &state, &value);
	if (value.bytes == NULL)
		sx_reader_short();
	copy = MemoryContextAllocHuge(CurrentMemoryContext, value.len + 1);
	memcpy(copy, value.bytes, value.len);
	value.bytes = copy;
	sx_session_piece_decode(&part, pieces->form, &value);
	if (part.n != piece->count || part.n == 0)
		sx_reader_short();
	sx_state_remove(pieces->state, &state);

	make_room(key, part.n - 1);
	memmove(&key->sessions[index + part.n], &key->sessions[index + 1],
			(key->n - 1 - index) * sizeof(SxSession *));
	memcpy(&key->sessions[index], part.sessions, part.n * sizeof(SxSession *));
	key->n += part.n - 1;
	pfree(part.sessions);
}

static SxSession *
put_away(SxSessionPieces *pieces, SxSessionKey *key, int first, int n)
{
	SxSession  *piece = palloc0(sizeof(SxSession));
	SxStateKey	state;

	piece->is_piece = true;
	piece->start = key->sessions[first]->start;
	piece->end = key->sessions[first + n - 1]->end;
	piece->count = n;
	piece->piece = key->next_piece++;
	resetStringInfo(&pieces->value);
	append_head(key, pieces->form, &pieces->value);
	append_items(&key->sessions[first], n, pieces, &pieces->value);
	state = piece_key(pieces, key, piece->piece);
	sx_state_put(pieces->state, &state, pieces->value.data, pieces->value.len);
	return piece;
}

/* Sessions from first on that stand alone beside each other; at most PIECE_MAX. */
static int
run_length(const SxSessionKey *key, int first)
{
	int			n = 0;

	while (n < PIECE_MAX && first + n < key->n && !key->sessions[first + n]->is_piece)
		n++;
	return n;
}

/* The key's items after some were put away; their number in *n. */
static SxSession **
make_pieces(SxSessionPieces *pieces, SxSessionKey *key, int *n)
{
	SxSession **items;
	int			alone = 0;
	int			i = 0;

	*n = key->n;
	for (int s = 0; key->n > MAX_ALONE && s < key->n; s++)
		alone += !key->sessions[s]->is_piece;
	if (alone <= MAX_ALONE)
		return key->sessions;
	items = MemoryContextAllocHuge(CurrentMemoryContext, key->n * sizeof(SxSession *));
	*n = 0;
	while (i < key->n)
	{
		int			run = run_length(key, i);

		if (run >= PIECE_MIN && alone - run >= KEEP_ALONE)
		{
			items[(*n)++] = put_away(pieces, key, i, run);
			alone -= run;
			i += run;
			continue;
		}
		do
			items[(*n)++] = key->sessions[i++];
		while (--run > 0);
	}
	return items;
}

void
sx_session_key_encode(SxSessionKey *key, SxSessionPieces *pieces, StringInfo out)
{
	int			n;
	SxSession **items = make_pieces(pieces, key, &n);

	append_head(key, pieces->form, out);
	if (pieces->form->has_due)
		appendBinaryStringInfo(out, (const char *) &key->due, sizeof(int64));
	sx_varint_append(out, key->next_piece);
	append_items(items, n, pieces, out);
	if (items != key->sessions)
		pfree(items);
}

/* ---------- rows ---------- */

/* The first of the key's items that ends at start or later. */
static int
first_reaching(const SxSessionKey *key, TimestampTz start)
{
	int			low = 0;
	int			high = key->n;

	/* most rows belong to the newest one */
	if (high == 0 || key->sessions[high - 1]->end < start)
		return high;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (key->sessions[middle]->end < start)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

SxSession *
sx_session_key_place(SxSessionKey *key, SxSessionPieces *pieces, TimestampTz start,
					 TimestampTz end, SxSession **absorbed)
{
	int			first = first_reaching(key, start);
	int			next;
	SxSession  *session;
	SxSession **tail = absorbed;

	*absorbed = NULL;
	/* it may lie between two sessions of a piece, or touch the next piece, too */
	while (first < key->n && key->sessions[first]->is_piece && key->sessions[first]->start <= end)
	{
		sx_session_pieces_open(pieces, key, first);
		first = first_reaching(key, start);
	}
	if (first == key->n || key->sessions[first]->start > end)
	{
		session = palloc0(sizeof(SxSession));
		session->start = start;
		session->end = end;
		session->touched = true;
		make_room(key, 1);
		memmove(&key->sessions[first + 1], &key->sessions[first],
				(key->n - first) * sizeof(SxSession *));
		key->sessions[first] = session;
		key->n++;
		return session;
	}
	session = key->sessions[first];
	session->start = Min(session->start, start);
	session->end = Max(session->end, end);
	session->touched = true;
	next = first + 1;
	while (next < key->n && key->sessions[next]->start <= session->end)
	{
		SxSession  *other = key->sessions[next];

		if (other->is_piece)
		{
			sx_session_pieces_open(pieces, key, next);
			continue;
		}
		next++;
		session->end = Max(session->end, other->end);
		other->next = NULL;
		*tail = other;
		tail = &other->next;
	}
	memmove(&key->sessions[first + 1], &key->sessions[next],
			(key->n - next) * sizeof(SxSession *));
	key->n -= next - first - 1;
	return session;
}
