/*
 * failure.h
 *		The rows of streamx.failure: why a query failed, the last 100 times.
 *
 * Through the heap like query.h; all functions need an open transaction.
 */
#ifndef SX_REGISTRY_FAILURE_H
#define SX_REGISTRY_FAILURE_H

#include "datatype/timestamp.h"
#include "utils/elog.h"

#define SX_FAILURES_KEPT	100
#define SX_FAILURE_CHANNEL	"streamx_failure"

typedef struct SxFailure
{
	TimestampTz at;
	char	   *sqlstate;
	char	   *message;
	char	   *detail;			/* these may be NULL */
	char	   *hint;
	char	   *context;
} SxFailure;

/*
 * batch: the one that failed, -1 if unknown. offsets: JSON text or NULL.
 * With the commit goes a NOTIFY on SX_FAILURE_CHANNEL, the query's name its payload.
 */
extern void sx_failure_append(int64 query_id, const ErrorData *error, int64 batch,
							  const char *offsets);

/* The newest one, NULL if none; CurrentMemoryContext. */
extern SxFailure *sx_failure_last(int64 query_id);

extern void sx_failure_delete_all(int64 query_id);

#endif
