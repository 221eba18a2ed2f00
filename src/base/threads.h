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

#endif
