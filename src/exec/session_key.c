/*
 * session_key.c
 *		See session_key.h.
 */
#include "postgres.h"

#include "exec/session_key.h"

#define VALUE_VERSION	1

static void
append_session(SxSessionKey *key, SxSession *session)
{
	if (key->n == key->allocated)
	{
		key->allocated = Max(2, key->allocated * 2);
		key->sessions = key->sessions == NULL ?
			palloc(key->allocated * sizeof(SxSession *)) :
			repalloc_huge(key->sessions, key->allocated * sizeof(SxSession *));
	}
	key->sessions[key->n++] = session;
}

void
sx_session_key_decode(SxSessionKey *key, const SxSessionForm *form, const SxStateValue *value)
{
	SxReader	in = {value->bytes, value->bytes + value->len};
	uint64		n;
	TimestampTz before = 0;
	SxSession  *sessions;

	if (*sx_read_bytes(&in, 1) != VALUE_VERSION)
		sx_reader_short();
	if (form->has_key)
	{
		key->group.keylen = sx_read_varint(&in);
		key->group.key = sx_read_bytes(&in, key->group.keylen);
	}
	if (form->has_due)
		memcpy(&key->due, sx_read_bytes(&in, sizeof(int64)), sizeof(int64));
	n = sx_read_varint(&in);
	if (n > value->len)
		sx_reader_short();
	sessions = MemoryContextAllocExtended(CurrentMemoryContext, (n + 1) * sizeof(SxSession),
										  MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint64 i = 0; i < n; i++)
	{
		SxSession  *session = &sessions[i];
		uint64		start = sx_read_varint(&in);

		session->start = i == 0 ? sx_unzigzag(start) : (TimestampTz) ((uint64) before + start);
		session->end = session->start + (int64) sx_read_varint(&in);
		session->stored = true;
		session->stored_start = session->start;
		session->stored_end = session->end;
		session->len = sx_read_varint(&in);
		session->bytes = sx_read_bytes(&in, session->len);
		before = session->end;
		append_session(key, session);
	}
	key->nstored = key->n;
}

void
sx_session_key_encode(const SxSessionKey *key, const SxSessionForm *form, SxAggCalls *calls,
					  StringInfo scratch, StringInfo out)
{
	TimestampTz before = 0;

	appendStringInfoCharMacro(out, VALUE_VERSION);
	if (form->has_key)
	{
		sx_varint_append(out, key->group.keylen);
		appendBinaryStringInfo(out, key->group.key, key->group.keylen);
	}
	if (form->has_due)
		appendBinaryStringInfo(out, (const char *) &key->due, sizeof(int64));
	sx_varint_append(out, key->n);
	for (int i = 0; i < key->n; i++)
	{
		const SxSession *session = key->sessions[i];
		const char *bytes = session->bytes;
		uint32		len = session->len;

		if (session->values != NULL)
		{
			resetStringInfo(scratch);
			sx_agg_values_encode(calls, session->values, scratch);
			bytes = scratch->data;
			len = scratch->len;
		}
		sx_varint_append(out, i == 0 ? sx_zigzag(session->start) :
						 (uint64) session->start - (uint64) before);
		sx_varint_append(out, session->end - session->start);
		sx_varint_append(out, len);
		appendBinaryStringInfo(out, bytes, len);
		before = session->end;
	}
}

/* The first of the key's sessions that ends at start or later. */
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
sx_session_key_place(SxSessionKey *key, TimestampTz start, TimestampTz end, SxSession **absorbed)
{
	int			first = first_reaching(key, start);
	int			next = first + 1;
	SxSession  *session;
	SxSession **tail = absorbed;

	*absorbed = NULL;
	if (first == key->n || key->sessions[first]->start > end)
	{
		session = palloc0(sizeof(SxSession));
		session->start = start;
		session->end = end;
		append_session(key, session);
		memmove(&key->sessions[first + 1], &key->sessions[first],
				(key->n - 1 - first) * sizeof(SxSession *));
		key->sessions[first] = session;
	}
	else
	{
		session = key->sessions[first];
		session->start = Min(session->start, start);
		session->end = Max(session->end, end);
		while (next < key->n && key->sessions[next]->start <= session->end)
		{
			SxSession  *other = key->sessions[next++];

			session->end = Max(session->end, other->end);
			other->next = NULL;
			*tail = other;
			tail = &other->next;
		}
		memmove(&key->sessions[first + 1], &key->sessions[next],
				(key->n - next) * sizeof(SxSession *));
		key->n -= next - first - 1;
	}
	session->touched = true;
	return session;
}

