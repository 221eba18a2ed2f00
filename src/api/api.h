/*
 * api.h
 *		What the files of the SQL interface share.
 */
#ifndef SX_API_API_H
#define SX_API_API_H

#include "fmgr.h"

#include "registry/failure.h"
#include "registry/query.h"

/* Argument n as C string; NULL if it is NULL. */
extern char *sx_api_text_arg(FunctionCallInfo fcinfo, int n);

/* The name of a query: argument 0, never NULL. */
extern char *sx_api_name_arg(FunctionCallInfo fcinfo);

/* Interval argument n in milliseconds, at least 0; -1 if it is NULL. */
extern int64 sx_api_timeout_arg(FunctionCallInfo fcinfo, int n);

/* The query, if the current role may control it (owner, member of it, superuser). */
extern SxQuery *sx_api_owned_query(const char *name);

/* May the current role see it: those, and pg_monitor. */
extern bool sx_api_may_see(const SxQuery *query);
extern SxQuery *sx_api_visible_query(const char *name);	/* or an error */

/* The row as it is now that we have the lock that controls it; an error if it is gone. */
extern SxQuery *sx_api_read_again(const SxQuery *query);

/* Takes the query from its worker within stop_timeout (NOTICE if a batch was cut off) and reads its row again. */
extern SxQuery *sx_api_take_query(const SxQuery *query);

/* Everything but the definition goes: state, batches, intents; a new incarnation. In "query" too, not stored. */
extern void sx_api_reset_checkpoint(SxQuery *query);

/* What to do about the failure: its own hint, or one by its SQLSTATE. */
extern char *sx_api_failure_hint(const SxQuery *query, const SxFailure *failure);

/* The row and everything that belongs to it, after the view is gone. */
extern void sx_api_forget_query(int64 id);

#endif
