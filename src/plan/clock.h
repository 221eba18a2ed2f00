/*
 * clock.h
 *		Whose time now() is.
 */
#ifndef SX_PLAN_CLOCK_H
#define SX_PLAN_CLOCK_H

#include "plan/plan.h"

/*
 * now(), current_timestamp and their like in the plan's segments and joins ask for the batch's
 * time: in a worker that is its transaction's anyway, in a session it need not be.
 * What functions of users ask for is not changed.
 */
extern void sx_plan_set_clock(SxPlan *plan);

#endif
