/*
 * crash_point.c
 *		Dies at a named place; only in builds for tests.
 */
#include "postgres.h"

#ifdef SX_CRASH_POINTS

#include <signal.h>
#include <unistd.h>

#include "base/crash_point.h"
#include "base/settings.h"

/*
 * Counts only passes over the point that the setting names, so "n" means the
 * same whatever else the batch does.  A changed setting starts the count anew.
 * Returns the action if it is due, else NULL.
 */
static const char *
due(const char *name)
{
	static char seen[NAMEDATALEN * 2];
	static int	passes;
	const char *wanted = sx_crash_point_setting;
	size_t		len = strlen(name);
	const char *action;
	const char *count;

	if (wanted == NULL || wanted[0] == '\0')
		return NULL;
	if (strncmp(wanted, name, len) != 0 || wanted[len] != ':')
		return NULL;
	if (strncmp(seen, wanted, sizeof(seen) - 1) != 0)
	{
		strlcpy(seen, wanted, sizeof(seen));
		passes = 0;
	}
	passes++;
	action = wanted + len + 1;
	count = strchr(action, ':');
	if (count != NULL && passes != atoi(count + 1))
		return NULL;
	return action;
}

void
sx_crash_point(const char *name)
{
	const char *action = due(name);

	if (action == NULL)
		return;
	if (strncmp(action, "kill", 4) == 0)
	{
		/* for tests: who died of what */
		ereport(LOG, (errmsg_internal("crash point \"%s\" kills this process", name)));
		kill(getpid(), SIGKILL);
	}
	ereport(ERROR,
			(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
			 errmsg("crash point \"%s\"", name)));
}

bool
sx_crash_point_fails(const char *name)
{
	const char *action = due(name);

	if (action != NULL && strncmp(action, "kill", 4) == 0)
		kill(getpid(), SIGKILL);
	return action != NULL;
}

#endif
