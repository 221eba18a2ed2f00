/*
 * log_test.c
 *		Fills a state and opens it again in other statements, so that SQL can
 *		damage the log in between.
 */
#include "postgres.h"

#include "executor/spi.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/memutils.h"

#include "state/state_store.h"

static const SxStateOperator operators[1] = {{1, NULL, NULL}};

static void
set_config(SxStateConfig *config, int64 query_id, const char *store, int memory_kb, int64 batch)
{
	memset(config, 0, sizeof(*config));
	config->query_id = query_id;
	memcpy(&config->incarnation, &query_id, sizeof(query_id));
	config->store = store;
	config->memory_kb = memory_kb;
	config->changelog = true;
	config->batches_to_retain = 2;
	config->batch = batch;
	config->noperators = 1;
	config->operators = operators;
}

static void
put_number(SxState *state, int number, int64 batch)
{
	SxStateKey	key;

	key.op = 1;
	key.group = number % SX_KEY_GROUPS;
	key.hash = 0;
	key.expiry = SX_STATE_NEVER;
	key.bytes = (char *) &number;
	key.len = sizeof(number);
	sx_state_put(state, &key, (char *) &batch, sizeof(batch));
}

/* (query, store, memory_kb, batches, keys): keys are put in turn, the same number in each batch. */
PG_FUNCTION_INFO_V1(state_fill);
Datum
state_fill(PG_FUNCTION_ARGS)
{
	int64		query_id = PG_GETARG_INT64(0);
	char	   *store = MemoryContextStrdup(TopMemoryContext,
											text_to_cstring(PG_GETARG_TEXT_PP(1)));
	int			batches = PG_GETARG_INT32(3);
	int			keys = PG_GETARG_INT32(4);
	MemoryContext oldcontext;
	SxStateConfig config;
	SxState    *state;
	int64		batch;
	int			i;

	set_config(&config, query_id, store, PG_GETARG_INT32(2), -1);
	SPI_connect_ext(SPI_OPT_NONATOMIC);
	sx_state_create(query_id);
	oldcontext = MemoryContextSwitchTo(TopMemoryContext);
	state = sx_state_open(&config);
	MemoryContextSwitchTo(oldcontext);
	for (batch = 0; batch < batches; batch++)
	{
		bool		more = true;

		for (i = 0; i < keys; i++)
			put_number(state, i * 7 + (int) (batch % 10) * 1000000, batch);
		sx_state_prepare(state, batch, &config.lineage);
		SPI_commit();
		sx_state_commit(state);
		while (more && sx_state_needs_maintenance(state))
		{
			sx_state_maintain(state, &more);
			SPI_commit();
		}
	}
	sx_state_close(state, false);
	SPI_finish();
	PG_RETURN_VOID();
}

/* (query, store, memory_kb, batch): rows that an open finds. */
PG_FUNCTION_INFO_V1(state_rows);
Datum
state_rows(PG_FUNCTION_ARGS)
{
	SxStateConfig config;
	SxState    *state;
	int64		rows;

	set_config(&config, PG_GETARG_INT64(0), text_to_cstring(PG_GETARG_TEXT_PP(1)),
			   PG_GETARG_INT32(2), PG_GETARG_INT64(3));
	state = sx_state_open(&config);
	rows = sx_state_rows(state, 1);
	sx_state_close(state, false);
	PG_RETURN_INT64(rows);
}

PG_FUNCTION_INFO_V1(state_drop);
Datum
state_drop(PG_FUNCTION_ARGS)
{
	sx_state_drop(PG_GETARG_INT64(0));
	PG_RETURN_VOID();
}
