/*
 * threads.h
 *		Starting threads of libraries in a process that knows only one.
 *
 * A library call that may create threads stands between begin and end.  New
 * threads inherit the signal mask, so with everything blocked meanwhile no
 * signal of the server is ever delivered to a thread that isn't ours.  Calls
 * nest.  Thread: main.
 */
#ifndef SX_BASE_THREADS_H
#define SX_BASE_THREADS_H

extern void sx_threads_begin(void);
extern void sx_threads_end(void);

/*
 * A library was left in the middle of something, out of memory say: its threads
 * and locks are not to be touched again.  The process finishes what it does
 * without the library and ends soon; at its end it doesn't wait for them.
 */
extern void sx_process_abandon(void);
extern bool sx_process_abandoned(void);

#endif
