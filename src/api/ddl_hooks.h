/*
 * ddl_hooks.h
 *		Statements of others that concern our processes.
 */
#ifndef SX_API_DDL_HOOKS_H
#define SX_API_DDL_HOOKS_H

/* From _PG_init while preloading. */
extern void sx_ddl_hooks_install(void);

#endif
