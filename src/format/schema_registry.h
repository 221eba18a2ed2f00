/*
 * schema_registry.h
 *		Schemas by their ids from a Confluent schema registry, over HTTP.
 *
 * A call blocks up to the timeout. A registry that cannot be asked says nothing of
 * the record: the caller waits and tries again. One that answers "not there" does.
 */
#ifndef SX_FORMAT_SCHEMA_REGISTRY_H
#define SX_FORMAT_SCHEMA_REGISTRY_H

#include "format/format.h"

typedef struct SxSchemaRegistry SxSchemaRegistry;

typedef enum SxRegistryResult
{
	SX_REGISTRY_OK,
	SX_REGISTRY_NOT_FOUND,		/* there is no such schema, or it is no Avro */
	SX_REGISTRY_AWAY,			/* no answer, or an error of the registry */
	SX_REGISTRY_NO_MEMORY
} SxRegistryResult;

#define SX_REGISTRY_ERROR	256

/* malloc'ed; an error if the URL is none. Thread: main. */
extern SxSchemaRegistry *sx_registry_open(const SxFormatOptions *options);
extern void sx_registry_check(const SxFormatOptions *options);

/* Thread: any from here on, one at a time for one registry. */
extern void sx_registry_close(SxSchemaRegistry *registry);

/* The schema's JSON, malloc'ed; error (SX_REGISTRY_ERROR bytes) never holds a password. */
extern SxRegistryResult sx_registry_schema(SxSchemaRegistry *registry, int32 id, char **schema,
										   char *error);

/* Registers the schema under the subject, if it isn't there, and gives its id. */
extern SxRegistryResult sx_registry_register(SxSchemaRegistry *registry, const char *subject,
											 const char *schema, int32 *id, char *error);

#endif
