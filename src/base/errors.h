/*
 * errors.h
 *		SQLSTATEs that only streaming knows, and the class of any SQLSTATE.
 *
 * Standard codes come first; class SX is for what PostgreSQL has no code for.
 * The supervisor decides from the SQLSTATE alone (sx_error_class), so a new
 * code comes with its class.
 */
#ifndef SX_BASE_ERRORS_H
#define SX_BASE_ERRORS_H

#include "utils/elog.h"

#define ERRCODE_SX_STATE_SCHEMA		MAKE_SQLSTATE('S','X','0','0','1')	/* state does not fit the query */
#define ERRCODE_SX_DATA_LOST		MAKE_SQLSTATE('S','X','0','0','2')	/* rows that were never read are gone */
#define ERRCODE_SX_CHECKPOINT		MAKE_SQLSTATE('S','X','0','0','3')	/* checkpoint short, corrupt or of another query */
#define ERRCODE_SX_SOURCE_SCHEMA	MAKE_SQLSTATE('S','X','0','0','4')	/* the stream's columns changed */
#define ERRCODE_SX_OUTPUT_MODE		MAKE_SQLSTATE('S','X','0','0','5')	/* query shape not legal in this output mode */
#define ERRCODE_SX_NOT_STREAMABLE	MAKE_SQLSTATE('S','X','0','0','6')	/* clause that cannot run as a stream */
#define ERRCODE_SX_QUERY_FAILED		MAKE_SQLSTATE('S','X','0','0','7')	/* wraps the error of a query, raised to waiters */
#define ERRCODE_SX_SINK_MARK		MAKE_SQLSTATE('S','X','0','0','8')	/* sink ahead of, or unknown to, the checkpoint */
#define ERRCODE_SX_FENCED			MAKE_SQLSTATE('S','X','0','0','9')	/* another server has taken over this query's sink */
#define ERRCODE_SX_PROBE			MAKE_SQLSTATE('S','X','0','0','P')	/* never leaves a worker: a probe ended, its transaction is to be aborted */

typedef enum SxErrorClass
{
	SX_ERROR_TRANSIENT,			/* retried in the same process, with back-off */
	SX_ERROR_DETERMINISTIC,		/* failed after max_failures_in_a_row */
	SX_ERROR_PERMANENT			/* no retry can help: failed at once */
} SxErrorClass;

extern SxErrorClass sx_error_class(int sqlstate);

#endif
