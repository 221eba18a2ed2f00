/*
 * avro.c
 *		Records of Avro into rows.
 *
 * Without a registry a value is written with the schema of option avro_schema. With
 * one it begins with the id of the schema that it was written with (Confluent's
 * wire format); schemas are fetched once and kept. Columns take the fields of
 * their names; a field that the writer's schema doesn't have leaves its column NULL.
 *
 * The columns of a schema are found once: fields[i] is the column of field i, or
 * NULL: to be skipped.
 */
#include "postgres.h"

#include <time.h>

#include "format/avro.h"

/* How long "not in the registry" is believed. */
#define FORGET_MISSING_SECONDS	30
#define MAX_SCHEMAS		1000

typedef struct KnownSchema
{
	int32		id;
	SxAvroSchema *schema;		/* NULL: missing, or invalid */
	char		error[SX_REGISTRY_ERROR];	/* then why */
	time_t		since;
	const SxAvroNode *record;	/* at the root, or the only one in a union there */
	const SxColumn **fields;	/* by its fields */
} KnownSchema;

typedef struct AvroDecoder
{
	SxDecoder	base;
	SxTextRules rules;
	int			ncolumns;
	SxColumn   *columns;
	SxSchemaRegistry *registry; /* NULL: only the schema of the options */
	int			nschemas;
	int			schemas_size;
	KnownSchema **schemas;		/* the last used one first */
	char	   *json;			/* the reader's, between records */
	size_t		json_size;
} AvroDecoder;

/* ---- schemas ---- */

static void
free_known(KnownSchema *known)
{
	if (known == NULL)
		return;
	sx_avro_schema_free(known->schema);
	free(known->fields);
	free(known);
}

static bool
match_columns(const AvroDecoder *decoder, KnownSchema *known)
{
	const SxAvroNode *root = known->schema->root;

	for (int i = 0; root->type == SX_AVRO_UNION && i < root->n; i++)
		if (root->children[i]->type == SX_AVRO_RECORD && known->record == NULL)
			known->record = root->children[i];
	if (root->type == SX_AVRO_RECORD)
		known->record = root;
	if (known->record == NULL)
		return true;
	known->fields = calloc(known->record->n + 1, sizeof(SxColumn *));
	if (known->fields == NULL)
		return false;
	for (int i = 0; i < known->record->n; i++)
		for (int j = 0; j < decoder->ncolumns; j++)
			if (strcmp(known->record->names[i], decoder->columns[j].name) == 0)
				known->fields[i] = &decoder->columns[j];
	return true;
}

/* NULL: no memory. A schema that cannot be used is remembered, too. */
static KnownSchema *
know_schema(const AvroDecoder *decoder, int32 id, const char *json, const char *error)
{
	KnownSchema *known = calloc(1, sizeof(KnownSchema));

	if (known == NULL)
		return NULL;
	known->id = id;
	known->since = time(NULL);
	if (json == NULL)
		snprintf(known->error, sizeof(known->error), "%s", error);
	else
	{
		known->schema = sx_avro_schema_parse(json, strlen(json), known->error);
		if (known->schema != NULL && !match_columns(decoder, known))
		{
			free_known(known);
			return NULL;
		}
	}
	return known;
}

static bool
keep_schema(AvroDecoder *decoder, KnownSchema *known)
{
	if (decoder->nschemas == MAX_SCHEMAS)
		free_known(decoder->schemas[--decoder->nschemas]);
	if (decoder->nschemas == decoder->schemas_size)
	{
		int			size = decoder->schemas_size * 2 + 4;
		KnownSchema **larger = realloc(decoder->schemas, size * sizeof(KnownSchema *));

		if (larger == NULL)
			return false;
		decoder->schemas = larger;
		decoder->schemas_size = size;
	}
	memmove(decoder->schemas + 1, decoder->schemas, decoder->nschemas * sizeof(KnownSchema *));
	decoder->schemas[0] = known;
	decoder->nschemas++;
	return true;
}

static void
drop_schema(AvroDecoder *decoder, int i)
{
	free_known(decoder->schemas[i]);
	decoder->nschemas--;
	memmove(decoder->schemas + i, decoder->schemas + i + 1,
			(decoder->nschemas - i) * sizeof(KnownSchema *));
}

/* NULL: no memory, or out->failure says why the registry could not be asked. */
static KnownSchema *
find_schema(AvroDecoder *decoder, int32 id, SxRowBuffer *out)
{
	char		error[SX_REGISTRY_ERROR] = "";
	char	   *json = NULL;
	KnownSchema *known;
	SxRegistryResult result;

	for (int i = 0; i < decoder->nschemas; i++)
	{
		known = decoder->schemas[i];
		if (known->id != id)
			continue;
		if (known->schema == NULL && decoder->registry != NULL &&
			time(NULL) - known->since >= FORGET_MISSING_SECONDS)
		{
			drop_schema(decoder, i);
			break;
		}
		memmove(decoder->schemas + 1, decoder->schemas, i * sizeof(KnownSchema *));
		decoder->schemas[0] = known;
		return known;
	}
	result = sx_registry_schema(decoder->registry, id, &json, error);
	if (result == SX_REGISTRY_AWAY)
	{
		snprintf(out->failure, sizeof(out->failure), "%s", error);
		return NULL;
	}
	if (result == SX_REGISTRY_NO_MEMORY)
		return NULL;
	known = know_schema(decoder, id, json, error);
	free(json);
	if (known != NULL && !keep_schema(decoder, known))
	{
		free_known(known);
		return NULL;
	}
	return known;
}

/* ---- records ---- */

static bool
read_record(AvroDecoder *decoder, const KnownSchema *known, SxAvroReader *reader)
{
	const SxAvroNode *root = sx_avro_branch(reader, known->schema->root);

	if (root == NULL)
		return false;
	if (root == known->record)
	{
		for (int i = 0; i < root->n; i++)
		{
			if (known->fields[i] != NULL ?
				!sx_avro_read_column(reader, root->children[i], known->fields[i]) :
				!sx_avro_skip(reader, root->children[i], 1))
				return false;
		}
	}
	else if (decoder->ncolumns == 1)
	{
		if (!sx_avro_read_column(reader, root, &decoder->columns[0]))
			return false;
	}
	else if (!sx_avro_skip(reader, root, 1))
		return false;
	if (reader->at == reader->end)
		return true;
	reader->error = "bytes behind the value";
	return false;
}

/* NULL: the bytes are read by schema *known; else why they cannot be. */
static const char *
begin_record(AvroDecoder *decoder, SxAvroReader *reader, KnownSchema **known)
{
	int32		id = 0;

	if (decoder->registry != NULL)
	{
		if (reader->end - reader->at < SX_AVRO_MAGIC_BYTES || reader->at[0] != 0)
			return "the record does not begin with the id of a schema";
		for (int i = 1; i < SX_AVRO_MAGIC_BYTES; i++)
			id = (int32) ((uint32) id << 8 | reader->at[i]);
		reader->at += SX_AVRO_MAGIC_BYTES;
	}
	*known = find_schema(decoder, id, reader->out);
	if (*known == NULL)
		reader->no_memory = true;	/* or the registry is away */
	else if ((*known)->schema == NULL)
		return (*known)->error;
	return NULL;
}

static bool
avro_decode(SxDecoder *base, const char *data, size_t len, SxRowBuffer *out)
{
	AvroDecoder *decoder = (AvroDecoder *) base;
	int64		first_row = out->nrows;
	SxAvroReader reader = {.rules = &decoder->rules, .out = out};
	KnownSchema *known = NULL;
	const char *reason;
	char		text[SX_REGISTRY_ERROR];

	if (!sx_row_buffer_append(out, &reader.cells))
		return false;
	if (data == NULL || len > SX_RECORD_MAX)
	{
		reader.cells.row->tombstone = data == NULL;
		return data == NULL ||
			sx_row_set_error(out, reader.cells.row, NULL, "record is too large", NULL, 0);
	}
	reader.start = reader.at = (const unsigned char *) data;
	reader.end = reader.at + len;
	reader.json = decoder->json;
	reader.json_size = decoder->json_size;
	reason = begin_record(decoder, &reader, &known);
	if (reason == NULL && !reader.no_memory && !read_record(decoder, known, &reader) && !reader.no_memory)
	{
		snprintf(text, sizeof(text), "invalid Avro at byte %ld: %s",
				 (long) (reader.at - reader.start) + 1, reader.error);
		reason = text;
	}
	decoder->json = reader.json;
	decoder->json_size = reader.json_size;
	if (reason != NULL && !reader.no_memory)
	{
		memset(reader.cells.kinds, SX_CELL_NULL, out->natts);
		reader.cells.row->has_text = false;
		if (reader.cells.row->error != NULL)
			out->nmalformed--;
		reader.cells.row->error = NULL;
		if (!sx_row_set_error(out, reader.cells.row, NULL, reason, NULL, 0))
			reader.no_memory = true;
	}
	if (!reader.no_memory && (out->keep_raw || reader.cells.row->error != NULL))
	{
		reader.cells.row->raw = sx_row_buffer_copy(out, data, len);
		reader.cells.row->raw_len = len;
		reader.no_memory = reader.cells.row->raw == NULL;
	}
	if (!reader.no_memory)
		return true;
	sx_row_buffer_truncate(out, first_row);
	out->out_of_memory = out->failure[0] == '\0';
	return false;
}

/* ---- open, check ---- */

static void
avro_check(const SxFormatTarget *target, const SxFormatOptions *options)
{
	char		error[SX_REGISTRY_ERROR];
	SxAvroSchema *schema;

	sx_format_check_encoding();
	(void) sx_format_corrupt_column(target->desc, options);
	sx_registry_check(options);
	if (options->avro_schema == NULL)
		return;					/* enough for writing, or with a registry */
	schema = sx_avro_schema_parse(options->avro_schema, strlen(options->avro_schema), error);
	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid Avro schema: %s", error)));
	sx_avro_schema_free(schema);
}

static void
avro_close_decoder(SxDecoder *base)
{
	AvroDecoder *decoder = (AvroDecoder *) base;

	while (decoder->nschemas > 0)
		drop_schema(decoder, decoder->nschemas - 1);
	free(decoder->schemas);
	sx_columns_free(decoder->columns, Max(decoder->ncolumns, 0));
	sx_registry_close(decoder->registry);
	free(decoder->json);
	free(decoder);
}

static SxDecoder *
avro_open_decoder(const SxFormatTarget *target, const SxFormatOptions *options)
{
	AvroDecoder *decoder;
	SxSchemaRegistry *registry;
	KnownSchema *known = NULL;

	avro_check(target, options);
	if (options->avro_schema == NULL && options->registry_url == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_OPTION_NAME_NOT_FOUND),
				 errmsg("format \"avro\" needs a schema"),
				 errdetail("The bytes of a value don't say which fields they hold."),
				 errhint("Set option \"avro_schema\" to the schema's JSON, or \"schema_registry_url\".")));
	registry = options->registry_url != NULL ? sx_registry_open(options) : NULL;
	decoder = calloc(1, sizeof(AvroDecoder));
	if (decoder == NULL)
	{
		sx_registry_close(registry);
		sx_format_out_of_memory();
	}
	decoder->base.routine = &sx_avro_format;
	decoder->registry = registry;
	sx_text_rules_init(&decoder->rules, options);
	decoder->ncolumns = sx_columns_make(target, options, false, &decoder->columns);
	if (decoder->ncolumns >= 0 && registry == NULL)
		known = know_schema(decoder, 0, options->avro_schema, "");
	if (decoder->ncolumns < 0 || (registry == NULL && (known == NULL || !keep_schema(decoder, known))))
	{
		avro_close_decoder(&decoder->base);
		sx_format_out_of_memory();
	}
	return &decoder->base;
}

const SxFormatRoutine sx_avro_format = {
	.name = "avro",
	.check = avro_check,
	.open_decoder = avro_open_decoder,
	.decode = avro_decode,
	.close_decoder = avro_close_decoder,
	.open_encoder = sx_avro_open_encoder,
	.encode = sx_avro_encode,
};
