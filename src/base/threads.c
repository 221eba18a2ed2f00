/*
 * threads.c
 *		Blocks all signals while a library may create threads.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "storage/ipc.h"

#include "base/threads.h"

static int	depth = 0;
static sigset_t saved;
static bool abandoned = false;

void
sx_threads_begin(void)
{
	sigset_t	all;

	if (depth++ > 0)
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &saved);
}

void
sx_threads_end(void)
{
	Assert(depth > 0);
	if (--depth > 0)
		return;
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
}

/* Behind the server's own goodbye, before exit() runs the libraries' destructors. */
static void
leave_at_once(int code, Datum arg)
{
	_exit(code);
}

void
sx_process_abandon(void)
{
	if (abandoned)
		return;
	abandoned = true;
	on_proc_exit(leave_at_once, (Datum) 0);
}

bool
sx_process_abandoned(void)
{
	return abandoned;
}
