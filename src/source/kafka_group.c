/*
 * kafka_group.c
 *		Tells committed offsets to a consumer group, for tools that show lag.
 *
 * Nobody consumes with the group, and we never read the offsets back: it may lag
 * behind or fail without harm. It has a client of its own, since the one that reads
 * belongs to no group. Offsets are told every few seconds, the newest ones only,
 * and only when the commit of their batch is on disk: after a crash the group must
 * not be ahead of us.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "kafka/handle.h"
#include "source/kafka_group.h"

#define TELL_EVERY_US	(2 * USECS_PER_SEC)

typedef struct SxKafkaGroup
{
	MemoryContext context;
	SxKafkaClient *client;
	rd_kafka_topic_partition_list_t *waiting;	/* newest committed offsets, NULL: all are told */
	XLogRecPtr	commit;			/* of their batch */
	TimestampTz next;			/* not before */
	SxKafkaJob *job;
	rd_kafka_topic_partition_list_t *telling;
	bool		complained;
} SxKafkaGroup;

static rd_kafka_resp_err_t
run_commit(rd_kafka_t *rk, void *arg)
{
	return rd_kafka_commit(rk, arg, 0);
}

static void
free_list(void *arg)
{
	rd_kafka_topic_partition_list_destroy(arg);
}

static SxKafkaGroup *
get_group(SxKafkaSource *source)
{
	SxKafkaGroup *group = source->group;

	if (group == NULL)
	{
		MemoryContext context = AllocSetContextCreate(source->context, "streamx kafka group",
													  ALLOCSET_SMALL_SIZES);

		group = MemoryContextAllocZero(context, sizeof(SxKafkaGroup));
		group->context = context;
		source->group = group;
	}
	return group;
}

void
sx_kafka_group_committed(SxKafkaSource *source, const SxKafkaOffset *end, XLogRecPtr commit)
{
	SxKafkaGroup *group;

	if (source->options.commit_group == NULL)
		return;
	group = get_group(source);
	if (group->waiting != NULL)
		free_list(group->waiting);
	group->waiting = rd_kafka_topic_partition_list_new(Max(end->positions.n, 1));
	for (int i = 0; i < end->positions.n; i++)
		rd_kafka_topic_partition_list_add(group->waiting, end->positions.at[i].topic,
										  end->positions.at[i].partition)->offset =
			end->positions.at[i].offset;
	group->commit = commit;
}

static void
finish_job(SxKafkaSource *source, SxKafkaGroup *group)
{
	rd_kafka_resp_err_t error;

	if (group->job == NULL || !sx_kafka_job_ended(group->job, &error))
		return;
	group->job = NULL;
	free_list(group->telling);
	group->telling = NULL;
	if (error != RD_KAFKA_RESP_ERR_NO_ERROR && !group->complained)
		ereport(LOG,
				(errmsg("could not tell the offsets of stream %s to consumer group \"%s\"",
						source->base.name, source->options.commit_group),
				 errdetail("librdkafka: %s", rd_kafka_err2str(error))));
	group->complained = error != RD_KAFKA_RESP_ERR_NO_ERROR;
}

static void
open_client(SxKafkaSource *source, SxKafkaGroup *group)
{
	MemoryContext oldcontext = MemoryContextSwitchTo(group->context);
	const char *extra[] = {
		"group.id", source->options.commit_group,
		"enable.auto.commit", "false",
		"enable.auto.offset.store", "false",
		NULL
	};

	group->client = sx_kafka_client_open(RD_KAFKA_CONSUMER,
										 sx_kafka_settings(source->serverid, source->userid,
														   source->table_options),
										 extra, 0);
	MemoryContextSwitchTo(oldcontext);
}

void
sx_kafka_group_tell(SxKafkaSource *source)
{
	SxKafkaGroup *group = source->group;
	TimestampTz now = GetCurrentTimestamp();

	if (group == NULL)
		return;
	if (group->client != NULL)
		sx_kafka_client_poll(group->client);
	finish_job(source, group);
	if (group->waiting == NULL || group->job != NULL || now < group->next ||
		group->commit > GetFlushRecPtr(NULL))
		return;
	if (group->client == NULL)
		open_client(source, group);
	group->next = now + TELL_EVERY_US;
	group->job = sx_kafka_job_start(group->client->handle, run_commit, group->waiting, free_list);
	if (group->job != NULL)
		group->telling = group->waiting;
	else
		free_list(group->waiting);
	group->waiting = NULL;
}

void
sx_kafka_group_close(SxKafkaSource *source)
{
	SxKafkaGroup *group = source->group;

	if (group == NULL)
		return;
	source->group = NULL;
	if (group->job != NULL)
		sx_kafka_job_abandon(group->job);
	if (group->waiting != NULL)
		free_list(group->waiting);
	MemoryContextDelete(group->context);
}
