/*
 * kafka_offset.c
 *		Positions in the partitions of topics, as JSON.
 */
#include "postgres.h"

#include "lib/stringinfo.h"
#include "utils/builtins.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/numeric.h"

#include "source/kafka_offset.h"

SxKafkaOffset *
sx_kafka_offset_make(const SxSourceRoutine *routine, int n)
{
	SxKafkaOffset *offset = palloc0(sizeof(SxKafkaOffset));

	offset->base.routine = routine;
	offset->positions.at = palloc(sizeof(SxKafkaPosition) * Max(n, 1));
	return offset;
}

void
sx_kafka_positions_append(SxKafkaPositions *positions, const char *topic, int32 partition,
						  int64 offset)
{
	SxKafkaPosition *last = positions->n > 0 ? &positions->at[positions->n - 1] : NULL;
	SxKafkaPosition *it = &positions->at[positions->n++];

	/* Partitions of a topic follow each other: one copy of its name is enough. */
	it->topic = last != NULL && strcmp(last->topic, topic) == 0 ? last->topic : pstrdup(topic);
	it->partition = partition;
	it->offset = offset;
}

static int
compare(const void *a, const void *b)
{
	const SxKafkaPosition *x = a;
	const SxKafkaPosition *y = b;
	int			result = x->topic == y->topic ? 0 : strcmp(x->topic, y->topic);

	if (result != 0)
		return result;
	return x->partition < y->partition ? -1 : x->partition > y->partition;
}

void
sx_kafka_positions_sort(SxKafkaPositions *positions)
{
	qsort(positions->at, positions->n, sizeof(SxKafkaPosition), compare);
}

const SxKafkaPosition *
sx_kafka_positions_find(const SxKafkaPositions *positions, const char *topic, int32 partition)
{
	SxKafkaPosition key = {.topic = topic, .partition = partition};

	return bsearch(&key, positions->at, positions->n, sizeof(SxKafkaPosition), compare);
}

int64
sx_kafka_offset_at(const SxKafkaOffset *offset, const char *topic, int32 partition)
{
	const SxKafkaPosition *it = sx_kafka_positions_find(&offset->positions, topic, partition);

	return it == NULL ? SX_KAFKA_NO_OFFSET : it->offset;
}

char *
sx_kafka_positions_print(const SxKafkaPositions *positions)
{
	StringInfoData buf;
	const char *topic = NULL;

	initStringInfo(&buf);
	appendStringInfoChar(&buf, '{');
	for (int i = 0; i < positions->n; i++)
	{
		const SxKafkaPosition *it = &positions->at[i];

		if (topic == NULL || strcmp(topic, it->topic) != 0)
		{
			if (topic != NULL)
				appendStringInfoString(&buf, "},");
			topic = it->topic;
			escape_json(&buf, topic);
			appendStringInfoString(&buf, ":{");
		}
		else
			appendStringInfoChar(&buf, ',');
		appendStringInfo(&buf, "\"%d\":" INT64_FORMAT, it->partition, it->offset);
	}
	if (topic != NULL)
		appendStringInfoChar(&buf, '}');
	appendStringInfoChar(&buf, '}');
	return buf.data;
}

/* ---- reading ---- */

/* A whole number in the range, or false. Numerics of any size come here. */
static bool
whole_number(const JsonbValue *value, int64 least, int64 most, int64 *result)
{
	char	   *text;
	char	   *end;

	if (value->type != jbvNumeric)
		return false;
	text = numeric_normalize(value->val.numeric);
	errno = 0;
	*result = strtoll(text, &end, 10);
	return errno == 0 && *end == '\0' && *result >= least && *result <= most;
}

static bool
partition_number(const JsonbValue *key, int32 *result)
{
	int64		number = 0;

	if (key->val.string.len < 1 || key->val.string.len > 10)
		return false;
	for (int i = 0; i < key->val.string.len; i++)
	{
		char		c = key->val.string.val[i];

		if (c < '0' || c > '9')
			return false;
		number = number * 10 + (c - '0');
	}
	*result = (int32) number;
	return number <= PG_INT32_MAX;
}

static void
append(SxKafkaPositions *positions, int *size, const char *topic, int32 partition, int64 offset)
{
	if (positions->n == *size)
	{
		*size *= 2;
		positions->at = repalloc(positions->at, sizeof(SxKafkaPosition) * *size);
	}
	sx_kafka_positions_append(positions, topic, partition, offset);
}

/* What stands behind the topic's name: an object of partitions, or a list of them. */
static const char *
parse_topic(JsonbIterator **it, const char *topic, bool lists, int64 least,
			SxKafkaPositions *result, int *size)
{
	JsonbIteratorToken closing = lists ? WJB_END_ARRAY : WJB_END_OBJECT;
	JsonbIteratorToken token;
	JsonbValue	value;

	if (JsonbIteratorNext(it, &value, false) != (lists ? WJB_BEGIN_ARRAY : WJB_BEGIN_OBJECT))
		return psprintf(lists ? "Topic \"%s\" needs a list of partitions, such as [0,1]." :
						"Topic \"%s\" needs an object of partitions, such as {\"0\":23}.", topic);
	while ((token = JsonbIteratorNext(it, &value, false)) != closing)
	{
		int32		partition = 0;
		int64		number = 0;

		if (lists)
		{
			if (token != WJB_ELEM || !whole_number(&value, 0, PG_INT32_MAX, &number))
				return psprintf("A partition of topic \"%s\" is not a whole number.", topic);
			append(result, size, topic, (int32) number, 0);
			continue;
		}
		if (!partition_number(&value, &partition))
			return psprintf("A partition of topic \"%s\" is not a whole number.", topic);
		if (JsonbIteratorNext(it, &value, false) != WJB_VALUE ||
			!whole_number(&value, least, PG_INT64_MAX, &number))
			return psprintf("The value of partition %d of topic \"%s\" is not a whole number of at least " INT64_FORMAT ".",
							partition, topic, least);
		append(result, size, topic, partition, number);
	}
	return NULL;
}

/* jsonb_in raises errors of its own; NULL then. */
static Jsonb *
read_json(const char *text)
{
	MemoryContext oldcontext = CurrentMemoryContext;
	Jsonb	   *volatile json = NULL;

	PG_TRY();
	{
		json = DatumGetJsonbP(DirectFunctionCall1(jsonb_in, CStringGetDatum(text)));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(oldcontext);
		FlushErrorState();		/* the caller says it */
	}
	PG_END_TRY();
	return json;
}

const char *
sx_kafka_positions_parse(const char *text, bool lists, int64 least, SxKafkaPositions *result)
{
	Jsonb	   *json = read_json(text);
	JsonbIterator *it;
	JsonbValue	value;
	int			size = 8;

	if (json == NULL || !JB_ROOT_IS_OBJECT(json))
		return "It is not a JSON object of topics.";
	result->n = 0;
	result->at = palloc(sizeof(SxKafkaPosition) * size);
	it = JsonbIteratorInit(&json->root);
	(void) JsonbIteratorNext(&it, &value, false);
	while (JsonbIteratorNext(&it, &value, false) == WJB_KEY)
	{
		char	   *topic = pnstrdup(value.val.string.val, value.val.string.len);
		const char *error = parse_topic(&it, topic, lists, least, result, &size);

		if (error != NULL)
			return error;
	}
	sx_kafka_positions_sort(result);
	for (int i = 1; i < result->n; i++)
		if (compare(&result->at[i - 1], &result->at[i]) == 0)
			return psprintf("Partition %d of topic \"%s\" is named twice.",
							result->at[i].partition, result->at[i].topic);
	return NULL;
}
