/*
 * spawn.c
 *		What all our processes have in common: registering, settings, back-off.
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "miscadmin.h"
#include "utils/guc.h"

#include "worker/worker.h"

#define BACKOFF_MIN_MS	100
#define BACKOFF_MAX_MS	30000

StaticAssertDecl(sizeof(SxWorkerArgs) <= BGW_EXTRALEN, "arguments fit");

BackgroundWorkerHandle *
sx_worker_register(const char *function, const char *name, const char *type,
				   const SxWorkerArgs *args)
{
	BackgroundWorker worker;
	BackgroundWorkerHandle *handle;

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	strlcpy(worker.bgw_library_name, "streamx", sizeof(worker.bgw_library_name));
	strlcpy(worker.bgw_function_name, function, sizeof(worker.bgw_function_name));
	strlcpy(worker.bgw_name, name, sizeof(worker.bgw_name));
	strlcpy(worker.bgw_type, type, sizeof(worker.bgw_type));
	memcpy(worker.bgw_extra, args, sizeof(*args));
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, &handle) ? handle : NULL;
}

void
sx_worker_args(SxWorkerArgs *args)
{
	memcpy(args, MyBgworkerEntry->bgw_extra, sizeof(*args));
}

int64
sx_backoff_ms(int failures)
{
	int64		ms = BACKOFF_MIN_MS;

	for (int i = 1; i < failures && ms < BACKOFF_MAX_MS; i++)
		ms *= 2;
	ms = Min(ms, BACKOFF_MAX_MS);
	/* A quarter up or down, so that queries that failed together don't return together. */
	return ms * 3 / 4 + (int64) (pg_prng_double(&pg_global_prng_state) * (ms / 2));
}

void
sx_worker_set(const char *name, const char *value)
{
	/* A setting that this role may not change, or a newer server's, is not worth a failure. */
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SET,
							 true, WARNING, false);
}
