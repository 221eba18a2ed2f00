/*
 * orphans.c
 *		Removes store directories that belong to no query any more.
 *
 * The state of a query is durable in logged tables; its store directory
 * pgsql_tmp_<database>_<incarnation> is a cache that nothing removes when a
 * transaction, a server or a database ends at the wrong moment.
 */
#include "postgres.h"

#include <dirent.h>
#include <sys/stat.h>

#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/builtins.h"
#include "utils/uuid.h"

#include "base/settings.h"
#include "worker/worker.h"

#define PREFIX	"pgsql_tmp_"

static const char *
base_directory(void)
{
	if (sx_state_directory != NULL && sx_state_directory[0] != '\0')
		return sx_state_directory;
	return psprintf("%s/streamx", DataDir);
}

/* False: not the name of a store directory. */
static bool
parse_name(const char *name, Oid *database, char **incarnation)
{
	char	   *end;

	if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
		return false;
	*database = (Oid) strtoul(name + strlen(PREFIX), &end, 10);
	if (*end != '_' || strlen(end + 1) != 36)
		return false;
	*incarnation = end + 1;
	return true;
}

static bool
is_listed(const char *incarnation, const List *incarnations)
{
	ListCell   *lc;

	foreach(lc, incarnations)
	{
		char	   *text = DatumGetCString(DirectFunctionCall1(uuid_out,
															   UUIDPGetDatum(lfirst(lc))));

		if (strcmp(text, incarnation) == 0)
			return true;
	}
	return false;
}

static void
remove_directory(const char *base, const char *name)
{
	char	   *path = psprintf("%s/%s", base, name);

	ereport(LOG,
			(errmsg("removing orphaned state directory \"%s\"", path)));
	(void) rmtree(path, true);
}

static void
scan_directories(Oid database, const List *incarnations, const List *databases)
{
	const char *base = base_directory();
	DIR		   *dir = AllocateDir(base);
	struct dirent *entry;

	if (dir == NULL)
		return;					/* no query ever had a store */
	while ((entry = ReadDirExtended(dir, base, LOG)) != NULL)
	{
		Oid			owner;
		char	   *incarnation;

		if (!parse_name(entry->d_name, &owner, &incarnation))
			continue;
		if (OidIsValid(database) ? owner == database && !is_listed(incarnation, incarnations)
			: !list_member_oid(databases, owner))
			remove_directory(base, entry->d_name);
	}
	FreeDir(dir);
}

void
sx_orphans_remove(Oid database, const List *incarnations)
{
	scan_directories(database, incarnations, NIL);
}

void
sx_orphans_remove_vanished(Oid database, const List *before, const List *now)
{
	const char *base = base_directory();
	ListCell   *lc;

	foreach(lc, before)
	{
		char	   *incarnation = DatumGetCString(DirectFunctionCall1(uuid_out,
																	  UUIDPGetDatum(lfirst(lc))));
		char	   *name = psprintf(PREFIX "%u_%s", database, incarnation);
		struct stat status;

		if (!is_listed(incarnation, now) &&
			stat(psprintf("%s/%s", base, name), &status) == 0)
			remove_directory(base, name);
	}
}

void
sx_orphans_remove_databases(const List *databases)
{
	scan_directories(InvalidOid, NIL, databases);
}
