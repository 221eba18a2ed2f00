/*
 * threads.c
 *		Blocks all signals while a library may create threads.
 */
#include "postgres.h"

#include <pthread.h>
#include <signal.h>

#include "base/threads.h"

static int	depth = 0;
static sigset_t saved;

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
