/*
 * streamx.c
 *		The table of contents: wakes each room, a line each.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"

#include "base/settings.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

void
_PG_init(void)
{
	sx_settings_define();
}
