/*
 * transform_layout.h
 *		What a handler keeps, as text.
 */
#ifndef SX_PLAN_TRANSFORM_LAYOUT_H
#define SX_PLAN_TRANSFORM_LAYOUT_H

#include "lib/stringinfo.h"

#include "plan/plan.h"

/*
 * Locks the row types until the end of the transaction, so that they stay as they
 * are printed.
 */
extern void sx_transform_print_layout(const SxPlanOperator *op, SxOutputMode mode, StringInfo text);

#endif
