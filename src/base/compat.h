/*
 * compat.h
 *		The differences between PostgreSQL 15, 16, 17 and 18, in one place.
 *
 * Callers are written for the newest name; older servers get it here.
 */
#ifndef SX_BASE_COMPAT_H
#define SX_BASE_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "streamx needs PostgreSQL 15 or newer"
#endif

#endif
