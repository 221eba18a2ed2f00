/*
 * streamx.c
 *		The table of contents: wakes each room, a line each.
 */
#include "postgres.h"

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/ipc.h"

#include "api/ddl_hooks.h"
#include "base/settings.h"
#include "monitor/shared.h"
#include "sink/kafka_writer.h"
#include "source/kafka.h"
#include "worker/hold.h"
#include "worker/worker.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

static void
request_shared_memory(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	sx_shared_request();
}

static void
startup_shared_memory(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	sx_shared_startup();
}

/* Writing is filled in here: rooms source and sink don't know each other. */
static const SxKafkaWriter kafka_writer = {
	.begin = sx_kafka_writer_begin,
	.insert = sx_kafka_writer_insert,
	.end = sx_kafka_writer_end,
};

void
_PG_init(void)
{
	sx_settings_define();
	sx_kafka_writer = &kafka_writer;
	sx_hold_init();
	if (!process_shared_preload_libraries_in_progress)
		return;					/* batch queries and DDL work; nothing runs */

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup_shared_memory;
	sx_ddl_hooks_install();
	sx_launcher_register();
}
