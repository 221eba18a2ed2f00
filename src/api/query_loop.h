/*
 * query_loop.h
 *		Queries that feed each other through streams.
 */
#ifndef SX_API_QUERY_LOOP_H
#define SX_API_QUERY_LOOP_H

#include "plan/plan.h"
#include "registry/query.h"

/*
 * Refuses a query whose results would come back to it: through the stream that
 * it writes, and the queries that read that one. It may not be stored yet.
 */
extern void sx_query_check_loop(const SxQuery *query, const SxPlan *plan);

#endif
