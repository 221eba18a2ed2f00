/*
 * pending.h
 *		A room that is being built: the library loads without it.
 *
 * Goes when state is there.
 */
#ifndef SX_EXEC_PENDING_H
#define SX_EXEC_PENDING_H

#pragma weak sx_state_expire
#pragma weak sx_state_get_many
#pragma weak sx_state_memory_used
#pragma weak sx_state_put
#pragma weak sx_state_rows
#pragma weak sx_state_scan

#endif
