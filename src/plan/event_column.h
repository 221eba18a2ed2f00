/*
 * event_column.h
 *		Brings the event time of a query level into its select list.
 */
#ifndef SX_PLAN_EVENT_COLUMN_H
#define SX_PLAN_EVENT_COLUMN_H

#include "plan/cut.h"

/*
 * The column of the level, which is cut already, that holds its event time;
 * appended where it isn't selected, in subqueries and branches too. 0: the level
 * has none, or several that differ.
 */
extern AttrNumber sx_event_column_add(SxCut *cut, Query *query);

#endif
