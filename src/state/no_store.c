/*
 * no_store.c
 *		The store of a state that is in memory only: none.
 *
 * A batch that runs in a session's transaction may be rolled back after its state
 * was committed here, so nothing of it may lie where a worker would find it.  Such
 * a state is in memory as a whole, made from the log when it is opened; what does
 * not fit is an error.
 */
#include "postgres.h"

#include "state/store.h"

typedef struct NoStore
{
	SxStore		store;
	Size		memory;
} NoStore;

static SxStore *
open_store(const SxStoreConfig *config)
{
	NoStore    *self = palloc(sizeof(NoStore));

	self->store.routine = &sx_no_store;
	self->memory = config->memory * 4;	/* the caches of a store would have a quarter */
	return &self->store;
}

/* Whoever writes is short of memory. */
static void
write_begin(SxStore *store, Size expected_bytes)
{
	ereport(ERROR,
			(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("state does not fit into the memory of a session"),
			 errdetail("A batch that is run by a session has its state in memory as a whole, at most %d MB.",
					   (int) (((NoStore *) store)->memory / (1024 * 1024))),
			 errhint("Raise option \"state_memory\" of the query, or have a worker run it with start_query.")));
}

static char *
get_mark(SxStore *store, Size *len)
{
	*len = 0;
	return NULL;
}

static void
clear_store(SxStore *store)
{
}

static Size
memory_of_store(SxStore *store)
{
	return 0;
}

/* It holds nothing, so nothing else is ever called. */
const SxStoreRoutine sx_no_store = {
	.name = "none",
	.open = open_store,
	.write_begin = write_begin,
	.get_mark = get_mark,
	.clear = clear_store,
	.memory = memory_of_store,
	.close = clear_store,
};
