/*
 * crash_point.h
 *		Named places where a test lets a worker die or raise an error.
 *
 * Costs nothing unless built with -DSX_CRASH_POINTS.  The setting
 * streamx.crash_point = 'name:kill:n' (or 'name:error:n') makes the n-th pass
 * over the point send SIGKILL to the own process, or raise an ERROR
 * (SQLSTATE 40001, so that it is retried).  Thread: main.
 */
#ifndef SX_BASE_CRASH_POINT_H
#define SX_BASE_CRASH_POINT_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef SX_CRASH_POINTS
extern void sx_crash_point(const char *name);
#define SX_CRASH_POINT(name)	sx_crash_point(name)

/* On a thread of ours no error can be raised: true, and the caller makes one. Thread: any, but one. */
extern bool sx_crash_point_fails(const char *name);
#define SX_CRASH_POINT_FAILS(name)	sx_crash_point_fails(name)
#else
#define SX_CRASH_POINT(name)	((void) 0)
#define SX_CRASH_POINT_FAILS(name)	false
#endif

#ifdef __cplusplus
}
#endif

#endif
