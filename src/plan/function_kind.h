/*
 * function_kind.h
 *		Which of our marker functions an expression calls.
 */
#ifndef SX_PLAN_FUNCTION_KIND_H
#define SX_PLAN_FUNCTION_KIND_H

#include "nodes/primnodes.h"

typedef enum SxFunctionKind
{
	SX_FUNCTION_OTHER,
	SX_FUNCTION_TUMBLE,
	SX_FUNCTION_HOP,
	SX_FUNCTION_SESSION,
	SX_FUNCTION_WINDOW_TIME,
	SX_FUNCTION_WATERMARK,
	SX_FUNCTION_OBSERVE,
	SX_FUNCTION_WITHIN_WATERMARK,
	SX_FUNCTION_TRANSFORM,
	SX_FUNCTION_MAP_GROUPS,
	SX_FUNCTION_FLAT_MAP_GROUPS,
	SX_FUNCTION_VALUE_STATE,
	SX_FUNCTION_LIST_STATE,
	SX_FUNCTION_MAP_STATE
} SxFunctionKind;

/* Of a FuncExpr; SX_FUNCTION_OTHER for anything else. */
extern SxFunctionKind sx_function_kind(const Node *node);

/* Arguments by position: named notation resolved, defaults filled in. */
extern List *sx_function_arguments(const FuncExpr *call);

/* The interval of a constant expression; an error that names the function otherwise. */
extern Interval *sx_constant_interval(Node *argument, const FuncExpr *call, const char *what);

/* watermark(expr, delay) as the running segment calls it. */
extern FuncExpr *sx_make_observe(const FuncExpr *watermark, int cell);

#endif
