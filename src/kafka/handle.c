/*
 * handle.c
 *		References to handles of the library, and threads for calls that block.
 *
 * exit() runs the clean-up of OpenSSL, which the library's threads must not survive:
 * they would read what is freed, crash, and take the server down with them. So a
 * process that ends waits a moment for those that are ending, and leaves by _exit()
 * if there still are any; by then everything that the server cleans up is done. A
 * handle that a call was left behind in does not end within that moment.
 */
#include "postgres.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "storage/ipc.h"

#include "base/threads.h"
#include "base/wake.h"
#include "kafka/handle.h"

#define EXIT_WAIT_MS	300

struct SxKafkaHandle
{
	rd_kafka_t *rk;
	int			references;
};

typedef enum JobState
{
	JOB_RUNNING,
	JOB_ENDED,
	JOB_ABANDONED
} JobState;

struct SxKafkaJob
{
	SxKafkaHandle *handle;
	rd_kafka_resp_err_t (*run) (rd_kafka_t *, void *);
	void	   *arg;
	void		(*free_arg) (void *);
	rd_kafka_resp_err_t err;
	JobState	state;
};

/* Of all this, and of the numbers. Held for a few instructions only. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int	nhandles = 0;		/* not yet destroyed */
static int	nending = 0;		/* of them, those that nobody uses any more */
static int	nopen = 0;			/* of them, those that were not released; main only */
static bool exit_registered = false;

/* Thread: any. Waits while there are more than this many handles; false: the time is over. */
static bool
wait_for_handles(int at_most, int wait_ms)
{
	struct timespec until;
	bool		good;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += (long) (wait_ms % 1000) * 1000000;
	until.tv_sec += wait_ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&lock);
	while (nhandles > at_most && pthread_cond_timedwait(&changed, &lock, &until) == 0)
		;
	good = nhandles <= at_most;
	pthread_mutex_unlock(&lock);
	return good;
}

static void
at_exit(int code, Datum arg)
{
	bool		in_use;

	pthread_mutex_lock(&lock);
	in_use = nhandles > nending;
	pthread_mutex_unlock(&lock);
	if (nopen > 0 || in_use || !wait_for_handles(0, EXIT_WAIT_MS))
		_exit(code);
}

SxKafkaHandle *
sx_kafka_handle_make(rd_kafka_t *rk)
{
	SxKafkaHandle *handle = malloc(sizeof(SxKafkaHandle));

	if (handle == NULL)
		return NULL;
	if (!exit_registered)
		on_proc_exit(at_exit, (Datum) 0);
	exit_registered = true;
	nopen++;
	handle->rk = rk;
	handle->references = 1;
	pthread_mutex_lock(&lock);
	nhandles++;
	pthread_mutex_unlock(&lock);
	return handle;
}

/* Thread: any but main. */
static void *
destroy(void *arg)
{
	SxKafkaHandle *handle = arg;

	/* No group was joined, so there is none to leave. */
	rd_kafka_destroy_flags(handle->rk, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
	free(handle);
	pthread_mutex_lock(&lock);
	nhandles--;
	nending--;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return NULL;
}

/* True: this was the last one. Thread: any. */
static bool
let_go(SxKafkaHandle *handle)
{
	bool		last;

	pthread_mutex_lock(&lock);
	last = --handle->references == 0;
	nending += last;
	pthread_mutex_unlock(&lock);
	return last;
}

static bool
start_thread(void *(*run) (void *), void *arg)
{
	pthread_attr_t attr;
	pthread_t	thread;
	int			failed;

	if (pthread_attr_init(&attr) != 0)
		return false;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sx_threads_begin();
	failed = pthread_create(&thread, &attr, run, arg);
	sx_threads_end();
	pthread_attr_destroy(&attr);
	return failed == 0;
}

void
sx_kafka_handle_release(SxKafkaHandle *handle, int wait_ms)
{
	int			others;

	nopen--;
	if (!let_go(handle))
		return;
	pthread_mutex_lock(&lock);
	others = nhandles - 1;
	pthread_mutex_unlock(&lock);
	if (!start_thread(destroy, handle))
	{
		destroy(handle);
		return;
	}
	(void) wait_for_handles(others, wait_ms);
}

/* Thread: its own. */
static void *
run_job(void *arg)
{
	SxKafkaJob *job = arg;
	SxKafkaHandle *handle = job->handle;
	rd_kafka_resp_err_t err = job->run(handle->rk, job->arg);
	bool		abandoned;

	pthread_mutex_lock(&lock);
	job->err = err;
	abandoned = job->state == JOB_ABANDONED;
	job->state = JOB_ENDED;
	pthread_mutex_unlock(&lock);

	/* If it was not abandoned it may be gone by now. */
	if (abandoned)
	{
		job->free_arg(job->arg);
		free(job);
	}
	else
		sx_wake();
	if (let_go(handle))
		destroy(handle);
	return NULL;
}

SxKafkaJob *
sx_kafka_job_start(SxKafkaHandle *handle, rd_kafka_resp_err_t (*run) (rd_kafka_t *, void *),
				   void *arg, void (*free_arg) (void *))
{
	SxKafkaJob *job = malloc(sizeof(SxKafkaJob));

	if (job == NULL)
		return NULL;
	(void) sx_wake_fd();
	job->handle = handle;
	job->run = run;
	job->arg = arg;
	job->free_arg = free_arg;
	job->err = RD_KAFKA_RESP_ERR_NO_ERROR;
	job->state = JOB_RUNNING;
	pthread_mutex_lock(&lock);
	handle->references++;
	pthread_mutex_unlock(&lock);
	if (start_thread(run_job, job))
		return job;
	(void) let_go(handle);		/* the caller has another one */
	free(job);
	return NULL;
}

bool
sx_kafka_job_ended(SxKafkaJob *job, rd_kafka_resp_err_t *err)
{
	bool		ended;

	pthread_mutex_lock(&lock);
	ended = job->state == JOB_ENDED;
	*err = job->err;
	pthread_mutex_unlock(&lock);
	if (ended)
		free(job);
	return ended;
}

void
sx_kafka_job_abandon(SxKafkaJob *job)
{
	bool		ended;

	pthread_mutex_lock(&lock);
	ended = job->state == JOB_ENDED;
	if (!ended)
		job->state = JOB_ABANDONED;
	pthread_mutex_unlock(&lock);
	if (!ended)
		return;
	job->free_arg(job->arg);
	free(job);
}
