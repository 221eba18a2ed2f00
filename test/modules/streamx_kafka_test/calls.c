/*
 * calls.c
 *		Calls of src/kafka's client, and what it makes of errors and secrets.
 */
#include "postgres.h"

#include <unistd.h>

#include "fmgr.h"
#include "foreign/foreign.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "utils/builtins.h"

#include "base/errors.h"
#include "base/wake.h"
#include "kafka/client.h"

#define TIMEOUT_MS	4000

PG_FUNCTION_INFO_V1(kafka_call_topics);
PG_FUNCTION_INFO_V1(kafka_call_topic);
PG_FUNCTION_INFO_V1(kafka_call_offsets);
PG_FUNCTION_INFO_V1(kafka_call_transaction);
PG_FUNCTION_INFO_V1(kafka_call_blocking);
PG_FUNCTION_INFO_V1(kafka_settings);
PG_FUNCTION_INFO_V1(kafka_redact);
PG_FUNCTION_INFO_V1(kafka_error_kinds);
PG_FUNCTION_INFO_V1(kafka_library_version);

static SxKafkaSettings *
settings_of(text *server)
{
	Oid			serverid = GetForeignServerByName(text_to_cstring(server), false)->serverid;

	return sx_kafka_settings(serverid, GetUserId(), NIL);
}

/* kafka_call_topics(server text) */
Datum
kafka_call_topics(PG_FUNCTION_ARGS)
{
	SxKafkaClient *client = sx_kafka_client_open(RD_KAFKA_PRODUCER, settings_of(PG_GETARG_TEXT_PP(0)), NULL, 0);
	StringInfoData names;
	SxKafkaTopic *topics;
	int			n;

	topics = sx_kafka_topics(client, NULL, TIMEOUT_MS, &n);
	initStringInfo(&names);
	for (int i = 0; i < n; i++)
		appendStringInfo(&names, "%s%s/%d", i > 0 ? " " : "", topics[i].name, topics[i].partitions);
	sx_kafka_client_close(client);
	PG_RETURN_TEXT_P(cstring_to_text(names.data));
}

/* kafka_call_topic(server text, topic text): the number of partitions */
Datum
kafka_call_topic(PG_FUNCTION_ARGS)
{
	SxKafkaClient *client = sx_kafka_client_open(RD_KAFKA_CONSUMER, settings_of(PG_GETARG_TEXT_PP(0)), NULL, 0);
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	SxKafkaTopic *topics;
	int			n;

	topics = sx_kafka_topics(client, name, TIMEOUT_MS, &n);
	if (n != 1)
		elog(ERROR, "%d topics", n);
	if (topics[0].err != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_raise(client, topics[0].err, NULL, "could not read topic \"%s\"", name);
	sx_kafka_client_close(client);
	PG_RETURN_INT32(topics[0].partitions);
}

typedef struct OffsetsArg
{
	char		topic[250];
	int64_t		low;
	int64_t		high;
} OffsetsArg;

static rd_kafka_resp_err_t
run_offsets(rd_kafka_t *rk, void *opaque)
{
	OffsetsArg *arg = opaque;

	return rd_kafka_query_watermark_offsets(rk, arg->topic, 0, &arg->low, &arg->high, TIMEOUT_MS);
}

/* kafka_call_offsets(server text, topic text): of partition 0 */
Datum
kafka_call_offsets(PG_FUNCTION_ARGS)
{
	SxKafkaClient *client = sx_kafka_client_open(RD_KAFKA_CONSUMER, settings_of(PG_GETARG_TEXT_PP(0)), NULL, 0);
	OffsetsArg *arg = calloc(1, sizeof(OffsetsArg));
	rd_kafka_resp_err_t err;
	char	   *result;

	strlcpy(arg->topic, text_to_cstring(PG_GETARG_TEXT_PP(1)), sizeof(arg->topic));
	err = sx_kafka_call(client, run_offsets, arg, free);
	result = psprintf("%lld-%lld", (long long) arg->low, (long long) arg->high);
	free(arg);
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_raise(client, err, NULL, "could not ask for offsets");
	sx_kafka_client_close(client);
	PG_RETURN_TEXT_P(cstring_to_text(result));
}

typedef struct TransactionArg
{
	char		topic[250];
	rd_kafka_error_t *error;
} TransactionArg;

static rd_kafka_resp_err_t
run_transaction(rd_kafka_t *rk, void *opaque)
{
	TransactionArg *arg = opaque;

	arg->error = rd_kafka_init_transactions(rk, TIMEOUT_MS);
	if (arg->error == NULL)
		arg->error = rd_kafka_begin_transaction(rk);
	if (arg->error == NULL)
	{
		rd_kafka_resp_err_t err = rd_kafka_producev(rk, RD_KAFKA_V_TOPIC(arg->topic), RD_KAFKA_V_PARTITION(0),
													RD_KAFKA_V_VALUE("x", 1),
													RD_KAFKA_V_MSGFLAGS(RD_KAFKA_MSG_F_COPY), RD_KAFKA_V_END);

		if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
			return err;
		arg->error = rd_kafka_commit_transaction(rk, TIMEOUT_MS);
	}
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static void
free_transaction(void *opaque)
{
	TransactionArg *arg = opaque;

	if (arg->error != NULL)
		rd_kafka_error_destroy(arg->error);
	free(arg);
}

/* kafka_call_transaction(server text, topic text, id text): of one record */
Datum
kafka_call_transaction(PG_FUNCTION_ARGS)
{
	const char *const extra[] = {"transactional.id", text_to_cstring(PG_GETARG_TEXT_PP(2)), NULL};
	SxKafkaClient *client = sx_kafka_client_open(RD_KAFKA_PRODUCER, settings_of(PG_GETARG_TEXT_PP(0)), extra, 0);
	TransactionArg *arg = calloc(1, sizeof(TransactionArg));
	rd_kafka_resp_err_t err;
	rd_kafka_error_t *error;

	strlcpy(arg->topic, text_to_cstring(PG_GETARG_TEXT_PP(1)), sizeof(arg->topic));
	err = sx_kafka_call(client, run_transaction, arg, free_transaction);
	error = arg->error;
	arg->error = NULL;
	free_transaction(arg);
	sx_kafka_check(client, error, "could not commit a transaction");
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		sx_kafka_raise(client, err, NULL, "could not produce");
	sx_kafka_client_close(client);
	PG_RETURN_VOID();
}

static rd_kafka_resp_err_t
run_blocking(rd_kafka_t *rk, void *opaque)
{
	for (int i = 0; i < 10 * *(int *) opaque; i++)
		usleep(100000);
	return RD_KAFKA_RESP_ERR_NO_ERROR;
}

/* kafka_call_blocking(server text, seconds int) */
Datum
kafka_call_blocking(PG_FUNCTION_ARGS)
{
	SxKafkaClient *client = sx_kafka_client_open(RD_KAFKA_PRODUCER, settings_of(PG_GETARG_TEXT_PP(0)), NULL, 0);
	int		   *arg = malloc(sizeof(int));

	*arg = PG_GETARG_INT32(1);
	(void) sx_kafka_call(client, run_blocking, arg, free);
	free(arg);
	sx_kafka_client_close(client);
	PG_RETURN_VOID();
}

/* kafka_settings(server text) */
Datum
kafka_settings(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(sx_kafka_settings_print(settings_of(PG_GETARG_TEXT_PP(0)))));
}

/* kafka_redact(server text, line text) */
Datum
kafka_redact(PG_FUNCTION_ARGS)
{
	PG_RETURN_TEXT_P(cstring_to_text(sx_kafka_redact(settings_of(PG_GETARG_TEXT_PP(0)),
													 text_to_cstring(PG_GETARG_TEXT_PP(1)))));
}

/* kafka_error_kinds(): every error that the library knows */
Datum
kafka_error_kinds(PG_FUNCTION_ARGS)
{
	static const char *const classes[] = {
		[SX_ERROR_TRANSIENT] = "transient",
		[SX_ERROR_DETERMINISTIC] = "deterministic",
		[SX_ERROR_PERMANENT] = "permanent"
	};
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	const struct rd_kafka_err_desc *descs;
	size_t		n;

	InitMaterializedSRF(fcinfo, 0);
	rd_kafka_get_err_descs(&descs, &n);
	for (size_t i = 0; i < n; i++)
	{
		SxKafkaErrorKind kind = sx_kafka_error_kind(descs[i].code);
		int			sqlstate = sx_kafka_error_sqlstate(kind);
		Datum		values[5];
		bool		nulls[5] = {false};

		if (descs[i].name == NULL)
			continue;
		values[0] = Int32GetDatum(descs[i].code);
		values[1] = CStringGetTextDatum(descs[i].name);
		values[2] = CStringGetTextDatum(sx_kafka_error_kind_name(kind));
		values[3] = CStringGetTextDatum(unpack_sql_state(sqlstate));
		values[4] = CStringGetTextDatum(kind == SX_KAFKA_OK ? "none" : classes[sx_error_class(sqlstate)]);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

/* kafka_library_version(): as 0x02060100 */
Datum
kafka_library_version(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT32(rd_kafka_version());
}
