/*
 * wake.h
 *		How a thread of a library wakes the process that it belongs to.
 *
 * The server's latch is not for threads that the server doesn't know. They write
 * to an eventfd instead, which the process waits for beside its latch.
 */
#ifndef SX_BASE_WAKE_H
#define SX_BASE_WAKE_H

/*
 * The eventfd, for libraries that write to one themselves: eight bytes that are
 * a uint64 above zero. Made on first use, lives as long as the process. Thread: main.
 */
extern int	sx_wake_fd(void);

/* Wakes the process. Only after sx_wake_fd was called once. Thread: any. */
extern void sx_wake(void);

/*
 * Waits for the latch, a wake, or the time; the latch is left set, the wake is
 * taken. A wake that came before is not lost. Returns what ended the wait, as
 * WaitLatch does; WL_SOCKET_READABLE is a wake. Thread: main.
 */
extern int	sx_wake_wait(long timeout_ms, uint32 wait_event);

/*
 * Is somebody waiting for this process to end? Then what has not begun need not
 * begin, and who waits for somebody outside raises ERRCODE_QUERY_CANCELED. NULL in
 * processes that nobody stops so. Thread: main.
 */
extern volatile bool *sx_stop_asked;

/* CHECK_FOR_INTERRUPTS for those who wait for somebody outside. Thread: main. */
extern void sx_check_stop(void);

/* Counts the wakes that were taken, so that one can see that there was one. Thread: main. */
extern uint64 sx_wake_count(void);

#endif
