/*
 * transform_arguments.h
 *		The arguments of transform_with_state() and its older forms, read and checked.
 */
#ifndef SX_PLAN_TRANSFORM_ARGUMENTS_H
#define SX_PLAN_TRANSFORM_ARGUMENTS_H

#include "nodes/primnodes.h"

#include "plan/transform.h"

typedef struct SxTransformArguments
{
	SxPlanTransform *transform; /* all but columns of the operator's output */
	Node	   *key;
	Node	   *row;
	char	   *event_time_column;	/* NULL: not given */
	TupleDesc	output_desc;	/* NULL: output is no row type */
} SxTransformArguments;

/* What doesn't fit is refused with what would. */
extern SxTransformArguments *sx_transform_arguments(const FuncExpr *call);

#endif
