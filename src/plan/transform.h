/*
 * transform.h
 *		What a query says of a handler with state: transform_with_state() and its
 *		two older forms, map_groups_with_state() and flat_map_groups_with_state().
 */
#ifndef SX_PLAN_TRANSFORM_H
#define SX_PLAN_TRANSFORM_H

#include "access/attnum.h"
#include "datatype/timestamp.h"

/* The handler's clock: what timers are compared with. */
typedef enum SxTimeMode
{
	SX_TIME_MODE_NONE,			/* no timers, no TTL */
	SX_TIME_MODE_EVENT,			/* the watermark; late rows are dropped */
	SX_TIME_MODE_PROCESSING		/* the batch's timestamp */
} SxTimeMode;

typedef enum SxVariableKind
{
	SX_VARIABLE_VALUE,
	SX_VARIABLE_LIST,
	SX_VARIABLE_MAP
} SxVariableKind;

typedef struct SxPlanVariable
{
	char	   *name;
	SxVariableKind kind;
	Oid			type;			/* of the value, of an element, of a map's values */
	Oid			key_type;		/* map */
	Oid			key_collation;
	int64		ttl;			/* microseconds; 0: for ever */
} SxPlanVariable;

typedef struct SxPlanTransform
{
	Oid			handler;		/* handler(key, rows, timer) */
	Oid			row_type;
	Oid			rows_type;		/* its array type */
	Oid			output_type;
	bool		output_scalar;	/* not a row type */
	int			natts;			/* of the output type */
	AttrNumber *columns;		/* [attribute - 1]: column of the operator's output; 0: dropped */
	SxTimeMode	time_mode;
	bool		groups;			/* an older form: one state, one timeout that each call clears */
	bool		single;			/* map_groups_with_state: one row for each call */
	int			nvariables;
	SxPlanVariable *variables;	/* by name */
	AttrNumber	event_output;	/* column of the operator's output with the event time; 0: none */
	int			max_rows;		/* of one call; a larger group comes in pieces */

	/* initial state, or InvalidOid */
	Oid			initial_relation;
	Oid			initial_handler;	/* initial_handler(key, rows) */
	Oid			initial_type;	/* row type of the relation */
} SxPlanTransform;

extern const char *sx_time_mode_name(SxTimeMode mode);
extern const char *sx_variable_kind_name(SxVariableKind kind);

#endif
