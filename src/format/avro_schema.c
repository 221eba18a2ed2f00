/*
 * avro_schema.c
 *		Avro schemas from their JSON. Thread: any.
 *
 * Read by our own JSON tokens: Debian's Avro library for C knows no logical types,
 * and a schema may have to be read on the thread that decodes.
 */
#include "postgres.h"

#include "format/avro_schema.h"
#include "format/json_scan.h"

#define MAX_DEPTH		64
#define MAX_MEMBERS		10000

typedef struct SchemaReader
{
	SxAvroSchema *schema;
	char	   *error;
} SchemaReader;

/* The members of a JSON object that a schema may have. */
typedef struct SchemaObject
{
	SxJsonSpan	type;			/* raw JSON of each; text NULL: not there */
	SxJsonSpan	name;
	SxJsonSpan	namespace;
	SxJsonSpan	fields;
	SxJsonSpan	symbols;
	SxJsonSpan	items;
	SxJsonSpan	values;
	SxJsonSpan	size;
	SxJsonSpan	logical_type;
	SxJsonSpan	scale;
} SchemaObject;

static const struct
{
	const char *name;
	SxAvroType	type;
}			primitives[] = {
	{"null", SX_AVRO_NULL},
	{"boolean", SX_AVRO_BOOLEAN},
	{"int", SX_AVRO_INT},
	{"long", SX_AVRO_LONG},
	{"float", SX_AVRO_FLOAT},
	{"double", SX_AVRO_DOUBLE},
	{"bytes", SX_AVRO_BYTES},
	{"string", SX_AVRO_STRING},
};

static const struct
{
	const char *name;
	SxAvroLogical logical;
}			logicals[] = {
	{"decimal", SX_AVRO_DECIMAL},
	{"date", SX_AVRO_DATE},
	{"time-millis", SX_AVRO_TIME_MILLIS},
	{"time-micros", SX_AVRO_TIME_MICROS},
	{"timestamp-millis", SX_AVRO_TIMESTAMP_MILLIS},
	{"timestamp-micros", SX_AVRO_TIMESTAMP_MICROS},
	{"local-timestamp-millis", SX_AVRO_LOCAL_MILLIS},
	{"local-timestamp-micros", SX_AVRO_LOCAL_MICROS},
};

static SxAvroNode *read_schema(SchemaReader *reader, const SxJsonSpan *json, const char *namespace,
							   int depth);

static void *
fail(SchemaReader *reader, const char *reason)
{
	if (reader->error[0] == '\0')
		snprintf(reader->error, SX_AVRO_ERROR, "%s", reason);
	return NULL;
}

static void *
allocate(SchemaReader *reader, size_t size)
{
	void	   *result = calloc(1, size);

	return result != NULL ? result : fail(reader, "out of memory");
}

static SxAvroNode *
make_node(SchemaReader *reader, SxAvroType type)
{
	SxAvroNode *node = allocate(reader, sizeof(SxAvroNode));

	if (node == NULL)
		return NULL;
	node->type = type;
	node->next = reader->schema->all;
	reader->schema->all = node;
	return node;
}

/* ---- JSON ---- */

static const SxJsonRules strict = {0};

static void
json_begin(SxJsonText *json, const SxJsonSpan *span)
{
	memset(json, 0, sizeof(*json));
	json->rules = &strict;
	json->start = json->at = span->text;
	json->end = span->text + span->len;
	sx_json_skip_space(json);
}

/* The raw JSON of the next value, strings with their quotes. The text was checked before. */
static SxJsonSpan
json_raw(SxJsonText *json)
{
	SxJsonSpan	raw = {.text = json->at};
	SxJsonSpan	ignored;

	(void) sx_json_value(json, &ignored);
	raw.len = json->at - raw.text;
	return raw;
}

/* Steps to the next member of an object or array; json->at is at its bracket or behind a member. */
static bool
json_next(SxJsonText *json, char close)
{
	sx_json_skip_space(json);
	json->at++;					/* the bracket, or a comma, or the end */
	if (json->at[-1] == close)
		return false;
	sx_json_skip_space(json);
	return *json->at != close;
}

static bool
is_string(const SxJsonSpan *raw)
{
	return raw->text != NULL && raw->text[0] == '"';
}

/* The characters of a raw string, with a zero behind. */
static char *
string_of(SchemaReader *reader, const SxJsonSpan *raw)
{
	SxJsonSpan	inner = {.text = raw->text + 1, .len = raw->len - 2};
	char	   *text = allocate(reader, raw->len);

	if (text != NULL)
		text[sx_json_unescape(&inner, true, text)] = '\0';
	return text;
}

static bool
raw_is(const SxJsonSpan *raw, const char *word)
{
	return is_string(raw) && raw->len == strlen(word) + 2 &&
		memcmp(raw->text + 1, word, raw->len - 2) == 0;
}

static void
read_object(const SxJsonSpan *raw, SchemaObject *object)
{
	SxJsonText	json;

	memset(object, 0, sizeof(*object));
	json_begin(&json, raw);
	while (json_next(&json, '}'))
	{
		SxJsonSpan	name;
		SxJsonSpan	value;
		struct
		{
			const char *name;
			SxJsonSpan *value;
		}			members[] = {
			{"type", &object->type}, {"name", &object->name}, {"namespace", &object->namespace},
			{"fields", &object->fields}, {"symbols", &object->symbols}, {"items", &object->items},
			{"values", &object->values}, {"size", &object->size},
			{"logicalType", &object->logical_type}, {"scale", &object->scale},
		};

		if (!sx_json_name(&json, &name))
			return;
		value = json_raw(&json);
		for (int i = 0; i < lengthof(members); i++)
			if (name.len == strlen(members[i].name) &&
				memcmp(name.text, members[i].name, name.len) == 0)
				*members[i].value = value;
	}
}

/* ---- names ---- */

/* namespace.name, unless the name has dots itself. malloc'ed. */
static char *
full_name(SchemaReader *reader, const char *name, const char *namespace)
{
	size_t		size = strlen(name) + strlen(namespace) + 2;
	char	   *full = allocate(reader, size);

	if (full == NULL)
		return NULL;
	if (strchr(name, '.') != NULL || namespace[0] == '\0')
		strcpy(full, name);
	else
		snprintf(full, size, "%s.%s", namespace, name);
	return full;
}

static SxAvroNode *
find_named(SchemaReader *reader, const char *name, const char *namespace)
{
	char	   *full = full_name(reader, name, namespace);
	SxAvroNode *found = NULL;

	if (full == NULL)
		return NULL;
	for (SxAvroNode *node = reader->schema->all; node != NULL && found == NULL; node = node->next)
		if (node->name != NULL && (strcmp(node->name, full) == 0 || strcmp(node->name, name) == 0))
			found = node;
	free(full);
	return found;
}

/* Sets node->name; the namespace that holds within it, malloc'ed. */
static char *
name_node(SchemaReader *reader, SxAvroNode *node, const SchemaObject *object, const char *outer)
{
	char	   *name;
	char	   *namespace;
	char	   *dot;

	if (!is_string(&object->name))
		return fail(reader, "a record, enum or fixed type without a name");
	name = string_of(reader, &object->name);
	if (name == NULL)
		return NULL;
	namespace = is_string(&object->namespace) ? string_of(reader, &object->namespace) :
		full_name(reader, outer, "");
	if (namespace != NULL)
		node->name = full_name(reader, name, namespace);
	free(name);
	if (node->name == NULL)
	{
		free(namespace);
		return NULL;
	}
	free(namespace);
	namespace = full_name(reader, node->name, "");
	dot = namespace != NULL ? strrchr(namespace, '.') : NULL;
	if (dot != NULL)
		*dot = '\0';
	else if (namespace != NULL)
		namespace[0] = '\0';
	return namespace;
}

/* ---- types ---- */

static int
count_members(SchemaReader *reader, const SxJsonSpan *raw)
{
	SxJsonText	json;
	int			n = 0;

	if (raw->text == NULL || raw->text[0] != '[')
	{
		fail(reader, "a list is expected in the schema");
		return -1;
	}
	json_begin(&json, raw);
	while (json_next(&json, ']'))
	{
		(void) json_raw(&json);
		n++;
	}
	if (n <= MAX_MEMBERS)
		return n;
	fail(reader, "more than 10000 fields, branches or symbols in one type of the schema");
	return -1;
}

static bool
reserve_members(SchemaReader *reader, SxAvroNode *node, int n)
{
	if (n < 0)
		return false;
	node->children = allocate(reader, sizeof(SxAvroNode *) * (n + 1));
	node->names = allocate(reader, sizeof(char *) * (n + 1));
	return node->children != NULL && node->names != NULL;
}

static bool
read_fields(SchemaReader *reader, SxAvroNode *node, const SxJsonSpan *fields, const char *namespace,
			int depth)
{
	SxJsonText	json;

	if (!reserve_members(reader, node, count_members(reader, fields)))
		return false;
	json_begin(&json, fields);
	while (json_next(&json, ']'))
	{
		SxJsonSpan	raw = json_raw(&json);
		SchemaObject field;

		if (raw.text[0] != '{')
			return fail(reader, "a field of the schema is no object") != NULL;
		read_object(&raw, &field);
		if (!is_string(&field.name) || field.type.text == NULL)
			return fail(reader, "a field of the schema without a name or a type") != NULL;
		node->names[node->n] = string_of(reader, &field.name);
		node->children[node->n] = read_schema(reader, &field.type, namespace, depth + 1);
		if (node->names[node->n++] == NULL || node->children[node->n - 1] == NULL)
			return false;
	}
	return true;
}

static bool
read_symbols(SchemaReader *reader, SxAvroNode *node, const SxJsonSpan *symbols)
{
	SxJsonText	json;

	if (!reserve_members(reader, node, count_members(reader, symbols)))
		return false;
	json_begin(&json, symbols);
	while (json_next(&json, ']'))
	{
		SxJsonSpan	raw = json_raw(&json);

		if (!is_string(&raw))
			return fail(reader, "a symbol of an enum that is no string") != NULL;
		node->names[node->n] = string_of(reader, &raw);
		if (node->names[node->n++] == NULL)
			return false;
	}
	return true;
}

static SxAvroNode *
read_union(SchemaReader *reader, const SxJsonSpan *json, const char *namespace, int depth)
{
	SxAvroNode *node = make_node(reader, SX_AVRO_UNION);
	SxJsonText	text;

	if (node == NULL || !reserve_members(reader, node, count_members(reader, json)))
		return NULL;
	json_begin(&text, json);
	while (json_next(&text, ']'))
	{
		SxJsonSpan	raw = json_raw(&text);

		node->children[node->n] = read_schema(reader, &raw, namespace, depth + 1);
		if (node->children[node->n++] == NULL)
			return NULL;
	}
	return node;
}

static SxAvroNode *
read_container(SchemaReader *reader, SxAvroType type, const SxJsonSpan *of, const char *namespace,
			   int depth)
{
	SxAvroNode *node = make_node(reader, type);

	if (node == NULL || !reserve_members(reader, node, 1))
		return NULL;
	if (of->text == NULL)
		return fail(reader, "an array or map of the schema without the type of its items");
	node->children[0] = read_schema(reader, of, namespace, depth + 1);
	node->n = 1;
	return node->children[0] != NULL ? node : NULL;
}

static SxAvroNode *
read_named(SchemaReader *reader, SxAvroType type, const SchemaObject *object, const char *outer,
		   int depth)
{
	SxAvroNode *node = make_node(reader, type);
	char	   *namespace = node != NULL ? name_node(reader, node, object, outer) : NULL;
	bool		good = namespace != NULL;

	if (good && type == SX_AVRO_RECORD)
		good = read_fields(reader, node, &object->fields, namespace, depth);
	else if (good && type == SX_AVRO_ENUM)
		good = read_symbols(reader, node, &object->symbols);
	else if (good)
	{
		node->size = object->size.text != NULL ? strtoul(object->size.text, NULL, 10) : 0;
		if (node->size > 1024 * 1024)
			good = fail(reader, "a fixed type of more than a megabyte in the schema") != NULL;
	}
	free(namespace);
	return good ? node : NULL;
}

static void
set_logical(SxAvroNode *node, const SchemaObject *object)
{
	for (int i = 0; i < lengthof(logicals); i++)
		if (raw_is(&object->logical_type, logicals[i].name))
			node->logical = logicals[i].logical;
	if (node->logical == SX_AVRO_DECIMAL && object->scale.text != NULL)
		node->scale = Min(strtoul(object->scale.text, NULL, 10), 1000);

	/* A logical type on a type that cannot have it is to be ignored. */
	if ((node->logical == SX_AVRO_DECIMAL && node->type != SX_AVRO_BYTES && node->type != SX_AVRO_FIXED) ||
		((node->logical == SX_AVRO_DATE || node->logical == SX_AVRO_TIME_MILLIS) && node->type != SX_AVRO_INT) ||
		(node->logical >= SX_AVRO_TIME_MICROS && node->type != SX_AVRO_LONG))
		node->logical = SX_AVRO_PLAIN;
}

static SxAvroNode *
read_name(SchemaReader *reader, const SxJsonSpan *json, const char *namespace)
{
	char	   *name;
	SxAvroNode *node;

	for (int i = 0; i < lengthof(primitives); i++)
		if (raw_is(json, primitives[i].name))
			return make_node(reader, primitives[i].type);
	name = string_of(reader, json);
	if (name == NULL)
		return NULL;
	node = find_named(reader, name, namespace);
	if (node == NULL && reader->error[0] == '\0')
		snprintf(reader->error, SX_AVRO_ERROR, "type \"%.60s\" is not defined in the schema", name);
	free(name);
	return node;
}

static SxAvroNode *
read_schema(SchemaReader *reader, const SxJsonSpan *json, const char *namespace, int depth)
{
	SchemaObject object;
	SxAvroNode *node;

	if (depth > MAX_DEPTH)
		return fail(reader, "the schema is nested too deeply");
	if (is_string(json))
		return read_name(reader, json, namespace);
	if (json->text[0] == '[')
		return read_union(reader, json, namespace, depth);
	if (json->text[0] != '{')
		return fail(reader, "a name, a list or an object is expected in the schema");
	read_object(json, &object);
	if (object.type.text == NULL)
		return fail(reader, "an object of the schema has no type");
	if (raw_is(&object.type, "record") || raw_is(&object.type, "error"))
		return read_named(reader, SX_AVRO_RECORD, &object, namespace, depth);
	if (raw_is(&object.type, "enum"))
		return read_named(reader, SX_AVRO_ENUM, &object, namespace, depth);
	if (raw_is(&object.type, "array"))
		return read_container(reader, SX_AVRO_ARRAY, &object.items, namespace, depth);
	if (raw_is(&object.type, "map"))
		return read_container(reader, SX_AVRO_MAP, &object.values, namespace, depth);
	node = raw_is(&object.type, "fixed") ? read_named(reader, SX_AVRO_FIXED, &object, namespace, depth) :
		read_schema(reader, &object.type, namespace, depth + 1);
	if (node != NULL && object.logical_type.text != NULL)
		set_logical(node, &object);
	return node;
}

/* ---- the whole ---- */

void
sx_avro_schema_free(SxAvroSchema *schema)
{
	if (schema == NULL)
		return;
	while (schema->all != NULL)
	{
		SxAvroNode *node = schema->all;

		schema->all = node->next;
		for (int i = 0; node->names != NULL && i < node->n; i++)
			free(node->names[i]);
		free(node->names);
		free(node->children);
		free(node->name);
		free(node);
	}
	free(schema);
}

SxAvroSchema *
sx_avro_schema_parse(const char *json, size_t len, char *error)
{
	SchemaReader reader = {.error = error};
	char	   *copy = calloc(1, len + SX_RECORD_PADDING);
	SxJsonSpan	whole = {.text = copy, .len = len};
	SxJsonSpan	raw;
	SxJsonText	text;

	error[0] = '\0';
	reader.schema = calloc(1, sizeof(SxAvroSchema));
	if (copy == NULL || reader.schema == NULL)
		fail(&reader, "out of memory");
	else
	{
		memcpy(copy, json, len);
		json_begin(&text, &whole);
		raw = json_raw(&text);
		sx_json_skip_space(&text);
		if (text.error != NULL || text.at != text.end)
			fail(&reader, "the schema is not valid JSON");
		else
			reader.schema->root = read_schema(&reader, &raw, "", 0);
	}
	free(copy);
	if (reader.schema != NULL && reader.schema->root != NULL)
		return reader.schema;
	if (error[0] == '\0')
		fail(&reader, "invalid schema");
	sx_avro_schema_free(reader.schema);
	return NULL;
}
