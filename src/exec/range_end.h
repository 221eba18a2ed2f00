/*
 * range_end.h
 *		When a watermark has passed a window that a segment made.
 */
#ifndef SX_EXEC_RANGE_END_H
#define SX_EXEC_RANGE_END_H

#include "utils/typcache.h"

/*
 * The upper bound of a tstzrange, SX_STATE_NEVER if it is infinite; false: the
 * range is empty. type is that of the range, with TYPECACHE_RANGE_INFO.
 */
extern bool sx_range_end(TypeCacheEntry *type, Datum range, int64 *end);

#endif
