/*
 * pending.h
 *		Rooms that are being built: the library loads without them.
 *
 * Goes when engine, exec, sink, state and retention are there.
 */
#ifndef SX_WORKER_PENDING_H
#define SX_WORKER_PENDING_H

#pragma weak sx_exec_explain
#pragma weak sx_state_create
#pragma weak sx_state_drop

#endif
