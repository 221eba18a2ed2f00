/*
 * pending.h
 *		Rooms that are being built: the library loads without them.
 *
 * Goes when exec and state are there.
 */
#ifndef SX_ENGINE_PENDING_H
#define SX_ENGINE_PENDING_H

#pragma weak sx_exec_abort
#pragma weak sx_exec_close
#pragma weak sx_exec_open
#pragma weak sx_exec_run
#pragma weak sx_exec_state_operators
#pragma weak sx_state_abort
#pragma weak sx_state_close
#pragma weak sx_state_commit
#pragma weak sx_state_maintain
#pragma weak sx_state_memory_used
#pragma weak sx_state_needs_maintenance
#pragma weak sx_state_open
#pragma weak sx_state_prepare
#pragma weak sx_state_rows

#endif
