/*
 * wake.c
 *		An eventfd beside the latch.
 */
#include "postgres.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "miscadmin.h"
#include "storage/latch.h"

#include "base/compat.h"
#include "base/wake.h"

volatile bool *sx_stop_asked = NULL;

static int	wake_fd = -1;
static uint64 taken = 0;

int
sx_wake_fd(void)
{
	if (wake_fd >= 0)
		return wake_fd;
	wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (wake_fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not create an eventfd: %m")));
	return wake_fd;
}

/* No elog, no global but the descriptor, which never changes once threads know it. */
void
sx_wake(void)
{
	uint64		one = 1;

	/* It can only fail because the counter is full, and then the process is awake. */
	if (write(wake_fd, &one, sizeof(one)) < 0)
		return;
}

static void
take(void)
{
	uint64		n;

	if (wake_fd >= 0 && read(wake_fd, &n, sizeof(n)) == sizeof(n))
		taken++;
}

int
sx_wake_wait(long timeout_ms, uint32 wait_event)
{
	int			events = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH | (timeout_ms >= 0 ? WL_TIMEOUT : 0);
	int			result;

	if (wake_fd < 0)
		return WaitLatch(MyLatch, events, timeout_ms, wait_event);
	result = WaitLatchOrSocket(MyLatch, events | WL_SOCKET_READABLE, wake_fd, timeout_ms,
							   wait_event);

	/* Also when the latch was first: both are often set at the same time. */
	take();
	return result;
}

void
sx_check_stop(void)
{
	CHECK_FOR_INTERRUPTS();
	if (sx_stop_asked != NULL && *sx_stop_asked)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("nobody outside is waited for: the query is being stopped")));
}

uint64
sx_wake_count(void)
{
	take();
	return taken;
}
