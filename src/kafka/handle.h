/*
 * handle.h
 *		The part of a client that threads share: who still uses the library's handle.
 *
 * The last one who lets go destroys it, on a thread, since that can take as long as
 * a name server does.
 */
#ifndef SX_KAFKA_HANDLE_H
#define SX_KAFKA_HANDLE_H

#include <librdkafka/rdkafka.h>

typedef struct SxKafkaHandle SxKafkaHandle;

/* Takes over rk with one reference. Thread: main. */
extern SxKafkaHandle *sx_kafka_handle_make(rd_kafka_t *rk);

/* Lets go. Waits at most so long for the end of it. Thread: main. */
extern void sx_kafka_handle_release(SxKafkaHandle *handle, int wait_ms);

/*
 * Starts run(rk, arg) on a thread that has a reference. It wakes this process when
 * it has ended (base/wake.h). NULL: no thread could be started. Thread: main.
 */
typedef struct SxKafkaJob SxKafkaJob;
extern SxKafkaJob *sx_kafka_job_start(SxKafkaHandle *handle, rd_kafka_resp_err_t (*run) (rd_kafka_t *, void *),
									  void *arg, void (*free_arg) (void *));

/* Has it ended? Then the job is gone and arg is the caller's again. Thread: main. */
extern bool sx_kafka_job_ended(SxKafkaJob *job, rd_kafka_resp_err_t *err);

/* Nobody waits for it any more; it frees arg itself. Thread: main. */
extern void sx_kafka_job_abandon(SxKafkaJob *job);

#endif
