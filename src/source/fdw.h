/*
 * fdw.h
 *		What the foreign-data wrappers of streamx share: the scan of a stream.
 *
 * A wrapper's handler makes its SxFdw with sx_fdw_make and fills in what it can
 * do besides. The scan callbacks find the batch in the query environment
 * (SX_BATCH_ENR); without one, or when the stream isn't in it, they read all rows
 * there are now (scan_all).
 */
#ifndef SX_SOURCE_FDW_H
#define SX_SOURCE_FDW_H

#include "foreign/fdwapi.h"

#include "source/source.h"

typedef struct SxFdw
{
	FdwRoutine	base;			/* first: the server knows only this */
	const SxSourceRoutine *(*routine) (Oid relid);	/* by the stream's options */
	void		(*check) (Relation rel);	/* columns and options, after CREATE and ALTER */
	double		(*estimate) (Oid relid);	/* rows; optional */
} SxFdw;

extern SxFdw *sx_fdw_make(void);

/* The wrapper of a foreign table, or NULL when it isn't a stream. */
extern const SxFdw *sx_fdw_of(Oid relid);
extern const SxFdw *sx_fdw_of_server(Oid serverid);

#endif
