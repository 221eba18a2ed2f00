/*
 * streamx_syntax.c
 *		CREATE, ALTER and DROP STREAM as statements of every client.
 *
 * PostgreSQL has no hook for its parser, but every statement of a client goes
 * through pg_parse_query().  Calls of it are led to ours, and the utility hook
 * completes what the grammar could only mark.  A library of its own: nothing
 * else depends on it, and where it cannot work it says so in a WARNING and
 * leaves the server as it is.
 */
#include "postgres.h"

#include "fmgr.h"
#include "tcop/tcopprot.h"
#include "tcop/utility.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "syntax/detour.h"
#include "syntax/syntax.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static ProcessUtility_hook_type next_ProcessUtility = NULL;

/*
 * In place of pg_parse_query().  Does what that does, but for the two static
 * probes query-parse-start and -done, which belong to the server's file.
 */
static List *
parse_query(const char *query_string)
{
	List	   *result;

	if (log_parser_stats)
		ResetUsage();
	result = sx_syntax_parse(query_string);
	if (log_parser_stats)
		ShowUsage("PARSER STATISTICS");
	return result;
}

/*
 * What can be said of a delay here, as the extension counts (a month has 31
 * days) and in its words; its validator checks the option again.
 */
static void
check_delay(const char *text)
{
	Interval   *delay = DatumGetIntervalP(DirectFunctionCall3(interval_in,
															  CStringGetDatum(text),
															  ObjectIdGetDatum(InvalidOid),
															  Int32GetDatum(-1)));
	double		days = delay->month * 31.0 + delay->day;

	if (days * USECS_PER_DAY + delay->time < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("delay of a watermark is negative"),
				 errdetail("A watermark stays behind the largest event time that was seen, never before it."),
				 errhint("Give an interval of at least zero, such as '10 seconds'.")));
}

static void
process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				ProcessUtilityContext context, ParamListInfo params,
				QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	List	   *later = NIL;

	if (sx_syntax_is_marked(pstmt->utilityStmt))
	{
		pstmt = copyObject(pstmt);	/* the tree may be kept in a cached plan */
		readOnlyTree = false;
		sx_stream_ddl_complete(pstmt->utilityStmt, queryString, check_delay, &later);
	}
	if (next_ProcessUtility != NULL)
		next_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
							queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params,
								queryEnv, dest, qc);
	sx_table_like_comment(later);
}

void
_PG_init(void)
{
	const char *refusal = sx_detour_install(pg_parse_query, parse_query, "pg_parse_query");

	if (refusal != NULL)
	{
		ereport(WARNING,
				(errmsg("CREATE STREAM is not available as a statement"),
				 errdetail_internal("%s", refusal),
				 errhint("Use create_stream() or CREATE FOREIGN TABLE.")));
		return;
	}
	next_ProcessUtility = ProcessUtility_hook;
	ProcessUtility_hook = process_utility;
}
