/*
 * kafka_error.c
 *		Error codes of librdkafka (below zero) and of brokers, by kind.
 *
 * Transient kinds are AWAY, BUSY and AGAIN. With the others a retry may help, too
 * (somebody creates the topic, or grants the right), so they are deterministic:
 * some attempts, then the query is failed until a person acts. FENCED and
 * OFFSET_GONE are permanent.
 */
#include "postgres.h"

#include "base/errors.h"
#include "kafka/kafka_error.h"

typedef struct KindInfo
{
	const char *name;
	int			sqlstate;
	const char *hint;
} KindInfo;

static const KindInfo kinds[] = {
	[SX_KAFKA_OK] = {"ok", ERRCODE_SUCCESSFUL_COMPLETION, NULL},
	[SX_KAFKA_AWAY] = {"away", ERRCODE_CONNECTION_FAILURE,
	"Check that the brokers run, that this machine reaches them, and that server option \"bootstrap_servers\" and \"security_protocol\" fit."},
	[SX_KAFKA_BUSY] = {"busy", ERRCODE_INSUFFICIENT_RESOURCES,
	"Check replicas, disks and quotas of the cluster."},
	[SX_KAFKA_AGAIN] = {"again", ERRCODE_T_R_SERIALIZATION_FAILURE, NULL},
	[SX_KAFKA_CREDENTIALS] = {"credentials", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
	"Check user and password in the user mapping, and server option \"sasl_mechanism\"."},
	[SX_KAFKA_TLS] = {"tls", ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION,
	"Check \"security_protocol\", the authority in \"ssl_ca_pem\", the host name in the broker's certificate, and the client's certificate and key."},
	[SX_KAFKA_FORBIDDEN] = {"forbidden", ERRCODE_INSUFFICIENT_PRIVILEGE,
	"Grant the user of the user mapping the right by an ACL of the cluster."},
	[SX_KAFKA_NO_TOPIC] = {"no topic", ERRCODE_FDW_TABLE_NOT_FOUND,
	"Create the topic, or correct the stream's option \"topic\"; streamx never creates topics."},
	[SX_KAFKA_FENCED] = {"fenced", ERRCODE_SX_FENCED,
	"Another server runs this query against the same cluster: a restored copy, or a former primary. Stop one of them."},
	[SX_KAFKA_TOO_LARGE] = {"too large", ERRCODE_PROGRAM_LIMIT_EXCEEDED,
	"Raise \"message.max.bytes\" of the topic or the broker, or the stream's \"kafka.max.request.size\" and \"kafka.receive.message.max.bytes\"."},
	[SX_KAFKA_CORRUPT] = {"corrupt", ERRCODE_DATA_CORRUPTED,
	"Look at the record, and at what the topic's settings ask of records; the detail, which is in streamx.failures, too, has the broker's words."},
	[SX_KAFKA_OFFSET_GONE] = {"offset gone", ERRCODE_SX_DATA_LOST,
	"Set the stream's option \"fail_on_data_loss\" to false to go on with what is there."},
	[SX_KAFKA_UNSUPPORTED] = {"unsupported", ERRCODE_FEATURE_NOT_SUPPORTED, NULL},
	[SX_KAFKA_SETTING] = {"setting", ERRCODE_INVALID_PARAMETER_VALUE, NULL},
	[SX_KAFKA_EXISTS] = {"exists", ERRCODE_DUPLICATE_TABLE, NULL},
	[SX_KAFKA_INTERNAL] = {"internal", ERRCODE_FDW_ERROR, NULL},
};

/* Codes that the library makes itself. */
static SxKafkaErrorKind
kind_of_library(rd_kafka_resp_err_t err)
{
	switch (err)
	{
		case RD_KAFKA_RESP_ERR__PARTITION_EOF:
		case RD_KAFKA_RESP_ERR__NO_OFFSET:	/* nothing was committed yet */
		case RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS:
		case RD_KAFKA_RESP_ERR__REVOKE_PARTITIONS:
		case RD_KAFKA_RESP_ERR__NODE_UPDATE:
		case RD_KAFKA_RESP_ERR__NOOP:
			return SX_KAFKA_OK;

		case RD_KAFKA_RESP_ERR__TRANSPORT:
		case RD_KAFKA_RESP_ERR__RESOLVE:
		case RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN:
		case RD_KAFKA_RESP_ERR__TIMED_OUT:
		case RD_KAFKA_RESP_ERR__TIMED_OUT_QUEUE:
		case RD_KAFKA_RESP_ERR__MSG_TIMED_OUT:
		case RD_KAFKA_RESP_ERR__WAIT_COORD:
		case RD_KAFKA_RESP_ERR__WAIT_CACHE:
		case RD_KAFKA_RESP_ERR__UNKNOWN_BROKER:
		case RD_KAFKA_RESP_ERR__DESTROY:
		case RD_KAFKA_RESP_ERR__INTR:
		case RD_KAFKA_RESP_ERR__OUTDATED:
			return SX_KAFKA_AWAY;

		case RD_KAFKA_RESP_ERR__QUEUE_FULL:
		case RD_KAFKA_RESP_ERR__CRIT_SYS_RESOURCE:
		case RD_KAFKA_RESP_ERR__ISR_INSUFF:
			return SX_KAFKA_BUSY;

		case RD_KAFKA_RESP_ERR__RETRY:
		case RD_KAFKA_RESP_ERR__IN_PROGRESS:
		case RD_KAFKA_RESP_ERR__PREV_IN_PROGRESS:
		case RD_KAFKA_RESP_ERR__PURGE_QUEUE:	/* taken back by an abort */
		case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
		case RD_KAFKA_RESP_ERR__GAPLESS_GUARANTEE:
		case RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED:
		case RD_KAFKA_RESP_ERR__ASSIGNMENT_LOST:
		case RD_KAFKA_RESP_ERR__PARTIAL:
			return SX_KAFKA_AGAIN;

		case RD_KAFKA_RESP_ERR__AUTHENTICATION:
			return SX_KAFKA_CREDENTIALS;
		case RD_KAFKA_RESP_ERR__SSL:
			return SX_KAFKA_TLS;
		case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
		case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
			return SX_KAFKA_NO_TOPIC;
		case RD_KAFKA_RESP_ERR__FENCED:
			return SX_KAFKA_FENCED;
		case RD_KAFKA_RESP_ERR__BAD_MSG:
		case RD_KAFKA_RESP_ERR__BAD_COMPRESSION:
		case RD_KAFKA_RESP_ERR__UNDERFLOW:
			return SX_KAFKA_CORRUPT;
		case RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET:
			return SX_KAFKA_OFFSET_GONE;
		case RD_KAFKA_RESP_ERR__NOT_IMPLEMENTED:
		case RD_KAFKA_RESP_ERR__UNSUPPORTED_FEATURE:
		case RD_KAFKA_RESP_ERR__UNKNOWN_PROTOCOL:
			return SX_KAFKA_UNSUPPORTED;
		case RD_KAFKA_RESP_ERR__INVALID_ARG:
		case RD_KAFKA_RESP_ERR__NOT_CONFIGURED:
			return SX_KAFKA_SETTING;
		default:
			return SX_KAFKA_INTERNAL;
	}
}

/* A broker understood, and says no. */
static SxKafkaErrorKind
kind_of_refusal(rd_kafka_resp_err_t err)
{
	switch (err)
	{
		case RD_KAFKA_RESP_ERR_UNSUPPORTED_SASL_MECHANISM:
		case RD_KAFKA_RESP_ERR_ILLEGAL_SASL_STATE:
		case RD_KAFKA_RESP_ERR_SASL_AUTHENTICATION_FAILED:
		case RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_AUTH_DISABLED:
		case RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_NOT_FOUND:
		case RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_OWNER_MISMATCH:
		case RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_REQUEST_NOT_ALLOWED:
		case RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_EXPIRED:
		case RD_KAFKA_RESP_ERR_UNACCEPTABLE_CREDENTIAL:
		case RD_KAFKA_RESP_ERR_PRINCIPAL_DESERIALIZATION_FAILURE:
			return SX_KAFKA_CREDENTIALS;

		case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
		case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED:
		case RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED:
		case RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
		case RD_KAFKA_RESP_ERR_DELEGATION_TOKEN_AUTHORIZATION_FAILED:
		case RD_KAFKA_RESP_ERR_POLICY_VIOLATION:
			return SX_KAFKA_FORBIDDEN;

		case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
			return SX_KAFKA_NO_TOPIC;

		case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_EPOCH:
		case RD_KAFKA_RESP_ERR_PRODUCER_FENCED:
		case RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID:
			return SX_KAFKA_FENCED;

		case RD_KAFKA_RESP_ERR_INVALID_MSG_SIZE:
		case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
		case RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE:
		case RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE:
		case RD_KAFKA_RESP_ERR_INVALID_COMMIT_OFFSET_SIZE:
			return SX_KAFKA_TOO_LARGE;

		case RD_KAFKA_RESP_ERR_INVALID_MSG:
		case RD_KAFKA_RESP_ERR_INVALID_RECORD:
		case RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP:
			return SX_KAFKA_CORRUPT;

		case RD_KAFKA_RESP_ERR_OFFSET_OUT_OF_RANGE:
			return SX_KAFKA_OFFSET_GONE;

		case RD_KAFKA_RESP_ERR_UNSUPPORTED_VERSION:
		case RD_KAFKA_RESP_ERR_UNSUPPORTED_FOR_MESSAGE_FORMAT:
		case RD_KAFKA_RESP_ERR_UNSUPPORTED_COMPRESSION_TYPE:
		case RD_KAFKA_RESP_ERR_SECURITY_DISABLED:
		case RD_KAFKA_RESP_ERR_TOPIC_DELETION_DISABLED:
			return SX_KAFKA_UNSUPPORTED;

		case RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION: /* a name that no topic can have */
		case RD_KAFKA_RESP_ERR_INVALID_REQUIRED_ACKS:
		case RD_KAFKA_RESP_ERR_INVALID_GROUP_ID:
		case RD_KAFKA_RESP_ERR_INVALID_SESSION_TIMEOUT:
		case RD_KAFKA_RESP_ERR_INVALID_PARTITIONS:
		case RD_KAFKA_RESP_ERR_INVALID_REPLICATION_FACTOR:
		case RD_KAFKA_RESP_ERR_INVALID_REPLICA_ASSIGNMENT:
		case RD_KAFKA_RESP_ERR_INVALID_CONFIG:
		case RD_KAFKA_RESP_ERR_INVALID_REQUEST:
		case RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT:
		case RD_KAFKA_RESP_ERR_INVALID_PRINCIPAL_TYPE:
		case RD_KAFKA_RESP_ERR_INVALID_UPDATE_VERSION:
		case RD_KAFKA_RESP_ERR_INCONSISTENT_GROUP_PROTOCOL:
			return SX_KAFKA_SETTING;

		case RD_KAFKA_RESP_ERR_TOPIC_ALREADY_EXISTS:
			return SX_KAFKA_EXISTS;
		default:
			return SX_KAFKA_INTERNAL;
	}
}

SxKafkaErrorKind
sx_kafka_error_kind(rd_kafka_resp_err_t err)
{
	switch (err)
	{
		case RD_KAFKA_RESP_ERR_NO_ERROR:
			return SX_KAFKA_OK;

		case RD_KAFKA_RESP_ERR_LEADER_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION:
		case RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT:
		case RD_KAFKA_RESP_ERR_BROKER_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_REPLICA_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_STALE_CTRL_EPOCH:
		case RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION:
		case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS:
		case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
		case RD_KAFKA_RESP_ERR_NOT_CONTROLLER:
		case RD_KAFKA_RESP_ERR_TRANSACTION_COORDINATOR_FENCED:	/* a broker's, not ours */
		case RD_KAFKA_RESP_ERR_FETCH_SESSION_ID_NOT_FOUND:
		case RD_KAFKA_RESP_ERR_INVALID_FETCH_SESSION_EPOCH:
		case RD_KAFKA_RESP_ERR_LISTENER_NOT_FOUND:
		case RD_KAFKA_RESP_ERR_FENCED_LEADER_EPOCH:
		case RD_KAFKA_RESP_ERR_UNKNOWN_LEADER_EPOCH:
		case RD_KAFKA_RESP_ERR_STALE_BROKER_EPOCH:
		case RD_KAFKA_RESP_ERR_OFFSET_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_PREFERRED_LEADER_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_ELIGIBLE_LEADERS_NOT_AVAILABLE:
		case RD_KAFKA_RESP_ERR_INCONSISTENT_VOTER_SET:
			return SX_KAFKA_AWAY;

		case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS:
		case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
		case RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR:
		case RD_KAFKA_RESP_ERR_LOG_DIR_NOT_FOUND:
		case RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED:
		case RD_KAFKA_RESP_ERR_REASSIGNMENT_IN_PROGRESS:
			return SX_KAFKA_BUSY;

		case RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS:
		case RD_KAFKA_RESP_ERR_UNSTABLE_OFFSET_COMMIT:
		case RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER:
		case RD_KAFKA_RESP_ERR_DUPLICATE_SEQUENCE_NUMBER:
		case RD_KAFKA_RESP_ERR_UNKNOWN_PRODUCER_ID:
		case RD_KAFKA_RESP_ERR_INVALID_TXN_STATE:
		case RD_KAFKA_RESP_ERR_INVALID_PRODUCER_ID_MAPPING: /* idle too long, forgotten by the broker */
		case RD_KAFKA_RESP_ERR_OPERATION_NOT_ATTEMPTED:
		case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION:
		case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID:
		case RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS:
		case RD_KAFKA_RESP_ERR_MEMBER_ID_REQUIRED:
			return SX_KAFKA_AGAIN;

		default:
			return err < 0 ? kind_of_library(err) : kind_of_refusal(err);
	}
}

int
sx_kafka_error_sqlstate(SxKafkaErrorKind kind)
{
	return kinds[kind].sqlstate;
}

const char *
sx_kafka_error_hint(SxKafkaErrorKind kind)
{
	return kinds[kind].hint;
}

const char *
sx_kafka_error_kind_name(SxKafkaErrorKind kind)
{
	return kinds[kind].name;
}
