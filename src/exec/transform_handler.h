/*
 * transform_handler.h
 *		Calls a function of the user, in any language, and gives its rows.
 */
#ifndef SX_EXEC_TRANSFORM_HANDLER_H
#define SX_EXEC_TRANSFORM_HANDLER_H

#include "access/tupdesc.h"
#include "executor/tuptable.h"

#define SX_HANDLER_ARGUMENTS	3	/* at most */

typedef struct SxHandler SxHandler;

typedef void (*SxHandlerRow) (void *arg, TupleTableSlot *slot);

/*
 * For one batch, in CurrentMemoryContext: a function that was replaced is looked up
 * anew by the next. result: columns of its rows, or the one of its value.
 */
extern SxHandler *sx_handler_begin(Oid function, int nargs, const Oid *types, Oid collation,
								   TupleDesc result);
extern void sx_handler_call(SxHandler *handler, const Datum *values, const bool *nulls,
							SxHandlerRow row, void *arg);
extern void sx_handler_end(SxHandler *handler);

#endif
