/*
 * query_definition.h
 *		Creating a query, also for start_query(name, query, ...).
 */
#ifndef SX_API_QUERY_DEFINITION_H
#define SX_API_QUERY_DEFINITION_H

#include "fmgr.h"
#include "utils/jsonb.h"

typedef struct SxNewQuery
{
	char	   *name;
	char	   *query;
	char	   *sink;			/* NULL: foreach_batch, or option directory */
	char	   *output_mode;
	char	   *trigger;
	Oid			foreach_batch;
	Jsonb	   *options;		/* NULL: none */
} SxNewQuery;

/* The seven arguments of create_query. */
extern void sx_new_query_args(FunctionCallInfo fcinfo, SxNewQuery *new);

/* Checks and records it; nothing runs. */
extern void sx_query_create(const SxNewQuery *new);

#endif
