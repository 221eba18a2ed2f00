/*
 * rate.h
 *		Connector 'rate': generated rows, so many a second.
 */
#ifndef SX_SOURCE_RATE_H
#define SX_SOURCE_RATE_H

#include "source/source.h"

extern const SxSourceRoutine sx_rate_routine;

/* The columns: a timestamptz and a bigint, whatever their names. */
extern void sx_rate_check(Relation rel);

#endif
