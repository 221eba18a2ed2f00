/*
 * query_view.h
 *		The text of a continuous query becomes a view, and the view a plan.
 */
#ifndef SX_API_QUERY_VIEW_H
#define SX_API_QUERY_VIEW_H

#include "nodes/parsenodes.h"

#include "plan/plan.h"
#include "registry/query.h"

/* Parses and analyses with the caller's search_path: one SELECT, no parameters, nothing temporary. */
extern Query *sx_query_text_analyze(const char *query_name, const char *text);

/* Makes streamx_query.<name>, owned by query->owner, and sets query->view. */
extern void sx_query_view_create(SxQuery *query, Query *select);

/* Gives the view another SELECT; with other columns it becomes another view. */
extern void sx_query_view_replace(SxQuery *query, Query *select);

/*
 * Plans the stored view with the rights of the query's owner, who must be able
 * to read everything in it. notices: tell what the plan has to tell.
 */
extern SxPlan *sx_query_view_plan(const SxQuery *query, bool notices);

/* The same of a SELECT that is no view (yet). */
extern SxPlan *sx_query_select_plan(const SxQuery *query, Query *select, bool notices);

/* The view depends on table and function: they are not dropped under the query unnoticed. */
extern void sx_query_view_depend(const SxQuery *query);
extern void sx_query_view_undepend(const SxQuery *query);

/* Around what runs with the owner's rights, without leaving anything of the owner's in the session. */
typedef struct SxUserSwitch
{
	Oid			userid;
	int			sec_context;
} SxUserSwitch;

extern void sx_user_become(SxUserSwitch *saved, Oid role);
extern void sx_user_back(const SxUserSwitch *saved);

#endif
