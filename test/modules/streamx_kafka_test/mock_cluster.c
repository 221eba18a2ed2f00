/*
 * mock_cluster.c
 *		librdkafka's mock cluster in a session, told from SQL what to answer.
 */
#include "postgres.h"

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/array.h"
#include "utils/builtins.h"

#include "base/threads.h"
#include "kafka/handle.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(kafka_mock_start);
PG_FUNCTION_INFO_V1(kafka_mock_stop);
PG_FUNCTION_INFO_V1(kafka_mock_topic);
PG_FUNCTION_INFO_V1(kafka_mock_fail);
PG_FUNCTION_INFO_V1(kafka_mock_topic_error);
PG_FUNCTION_INFO_V1(kafka_mock_down);
PG_FUNCTION_INFO_V1(kafka_mock_up);
PG_FUNCTION_INFO_V1(kafka_mock_delay);

static SxKafkaHandle *handle = NULL;
static rd_kafka_mock_cluster_t *cluster = NULL;

static void
stop(void)
{
	if (handle != NULL)
		sx_kafka_handle_release(handle, 1000);
	handle = NULL;
	cluster = NULL;
}

static rd_kafka_mock_cluster_t *
running(void)
{
	if (cluster == NULL)
		elog(ERROR, "no mock cluster was started in this session");
	return cluster;
}

static void
check(rd_kafka_resp_err_t err)
{
	if (err != RD_KAFKA_RESP_ERR_NO_ERROR)
		elog(ERROR, "mock cluster: %s", rd_kafka_err2str(err));
}

/* kafka_mock_start(brokers int) */
Datum
kafka_mock_start(PG_FUNCTION_ARGS)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	rd_kafka_t *rk;
	char		errstr[512];

	stop();
	if (rd_kafka_conf_set(conf, "test.mock.num.brokers", psprintf("%d", PG_GETARG_INT32(0)),
						  errstr, sizeof(errstr)) != RD_KAFKA_CONF_OK)
		elog(ERROR, "%s", errstr);
	(void) rd_kafka_conf_set(conf, "log_level", "0", errstr, sizeof(errstr));
	sx_threads_begin();
	rk = rd_kafka_new(RD_KAFKA_PRODUCER, conf, errstr, sizeof(errstr));
	sx_threads_end();
	if (rk == NULL)
		elog(ERROR, "%s", errstr);
	handle = sx_kafka_handle_make(rk);
	cluster = rd_kafka_handle_mock_cluster(rk);
	PG_RETURN_TEXT_P(cstring_to_text(rd_kafka_mock_cluster_bootstraps(cluster)));
}

/* kafka_mock_stop() */
Datum
kafka_mock_stop(PG_FUNCTION_ARGS)
{
	stop();
	PG_RETURN_VOID();
}

/* kafka_mock_topic(topic text, partitions int) */
Datum
kafka_mock_topic(PG_FUNCTION_ARGS)
{
	check(rd_kafka_mock_topic_create(running(), text_to_cstring(PG_GETARG_TEXT_PP(0)),
									 PG_GETARG_INT32(1), 1));
	PG_RETURN_VOID();
}

/* kafka_mock_fail(api int, VARIADIC errors int[]) */
Datum
kafka_mock_fail(PG_FUNCTION_ARGS)
{
	ArrayType  *array = PG_GETARG_ARRAYTYPE_P(1);
	int			n = ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array));
	int32	   *codes = (int32 *) ARR_DATA_PTR(array);
	rd_kafka_resp_err_t *errors = palloc(Max(n, 1) * sizeof(rd_kafka_resp_err_t));

	for (int i = 0; i < n; i++)
		errors[i] = codes[i];
	rd_kafka_mock_push_request_errors_array(running(), PG_GETARG_INT32(0), n, errors);
	PG_RETURN_VOID();
}

/* kafka_mock_topic_error(topic text, error int) */
Datum
kafka_mock_topic_error(PG_FUNCTION_ARGS)
{
	rd_kafka_mock_topic_set_error(running(), text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_INT32(1));
	PG_RETURN_VOID();
}

/* kafka_mock_down(broker int) */
Datum
kafka_mock_down(PG_FUNCTION_ARGS)
{
	check(rd_kafka_mock_broker_set_down(running(), PG_GETARG_INT32(0)));
	PG_RETURN_VOID();
}

/* kafka_mock_up(broker int) */
Datum
kafka_mock_up(PG_FUNCTION_ARGS)
{
	check(rd_kafka_mock_broker_set_up(running(), PG_GETARG_INT32(0)));
	PG_RETURN_VOID();
}

/* kafka_mock_delay(broker int, ms int) */
Datum
kafka_mock_delay(PG_FUNCTION_ARGS)
{
	check(rd_kafka_mock_broker_set_rtt(running(), PG_GETARG_INT32(0), PG_GETARG_INT32(1)));
	PG_RETURN_VOID();
}
