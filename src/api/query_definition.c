/*
 * query_definition.c
 *		create_query, alter_query.
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_proc.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "api/api.h"
#include "api/query_definition.h"
#include "api/query_effect.h"
#include "api/query_loop.h"
#include "api/query_view.h"
#include "base/compat.h"
#include "base/errors.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "sink/sink.h"
#include "source/source.h"
#include "state/state_store.h"
#include "worker/hold.h"

PG_FUNCTION_INFO_V1(sx_api_create_query);
PG_FUNCTION_INFO_V1(sx_api_alter_query);

/* What the session says about the meaning of values; set again in the worker. */
static const char *const kept_settings[] = {
	"search_path", "timezone", "datestyle", "intervalstyle", "extra_float_digits",
	"bytea_output", "xmlbinary", "xmloption", "default_text_search_config",
	"lc_monetary", "lc_numeric", "lc_time"
};

static List *
current_settings(void)
{
	List	   *settings = NIL;

	for (int i = 0; i < lengthof(kept_settings); i++)
		settings = lappend(settings,
						   psprintf("%s=%s", kept_settings[i],
									GetConfigOption(kept_settings[i], false, false)));
	return settings;
}

/*
 * Options as given, and the defaults of this session: a query keeps the store
 * that it was created with.
 */
static Jsonb *
options_with_defaults(Jsonb *given)
{
	JsonbParseState *state = NULL;
	JsonbValue	key;
	JsonbValue	value;
	const char *memory = GetConfigOption("streamx.state_memory", false, false);

	pushJsonbValue(&state, WJB_BEGIN_OBJECT, NULL);
	key.type = value.type = jbvString;
	key.val.string.val = "state_store";
	key.val.string.len = strlen("state_store");
	value.val.string.val = sx_state_store;
	value.val.string.len = strlen(sx_state_store);
	pushJsonbValue(&state, WJB_KEY, &key);
	pushJsonbValue(&state, WJB_VALUE, &value);
	if (strcmp(memory, GetConfigOptionResetString("streamx.state_memory")) != 0)
	{
		key.val.string.val = "state_memory";
		key.val.string.len = strlen("state_memory");
		value.val.string.val = pstrdup(memory);
		value.val.string.len = strlen(memory);
		pushJsonbValue(&state, WJB_KEY, &key);
		pushJsonbValue(&state, WJB_VALUE, &value);
	}
	return sx_query_options_merge(JsonbValueToJsonb(pushJsonbValue(&state, WJB_END_OBJECT, NULL)),
								  given);
}

static void
check_owner_can_run(Oid role)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(role));
	bool		can_login;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for role %u", role);
	can_login = ((Form_pg_authid) GETSTRUCT(tuple))->rolcanlogin;
	ReleaseSysCache(tuple);
	if (SX_NEEDS_LOGIN_ROLE && !can_login)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_AUTHORIZATION_SPECIFICATION),
				 errmsg("role \"%s\" cannot own a continuous query",
						GetUserNameFromId(role, false)),
				 errdetail("The worker connects as the query's owner, and this role is NOLOGIN."),
				 errhint("ALTER ROLE %s LOGIN (without a password nobody can log in as it), or create the query as another role.",
						 quote_identifier(GetUserNameFromId(role, false)))));
}

/* ---------- the sink ---------- */

/* A table or stream of that name decides; the words stand for what has no name. */
static void
resolve_sink(SxQuery *query, const char *sink)
{
	RangeVar   *name;
	Oid			relid;

	name = makeRangeVarFromNameList(textToQualifiedNameList(cstring_to_text(sink)));
	relid = RangeVarGetRelid(name, NoLock, true);
	query->sink_name = pstrdup(sink);
	query->sink_relation = relid;
	if (OidIsValid(relid) && sx_relation_is_stream(relid))
		query->sink_kind = sx_stream_is_kafka(relid) ? SX_SINK_KAFKA : SX_SINK_STREAM;
	else if (OidIsValid(relid))
		query->sink_kind = SX_SINK_TABLE;
	else if (strcmp(sink, "noop") == 0)
		query->sink_kind = SX_SINK_NOOP;
	else if (strcmp(sink, "directory") == 0)
		query->sink_kind = SX_SINK_DIRECTORY;
	else
		query->sink_kind = SX_SINK_TABLE;
}

static void
choose_sink(SxQuery *query, const char *sink)
{
	query->sink_relation = InvalidOid;
	query->sink_name = NULL;
	if (sink != NULL && OidIsValid(query->sink_function))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a query has either a sink or a foreach_batch function"),
				 errhint("Write into the table from the function.")));
	if (OidIsValid(query->sink_function))
		query->sink_kind = SX_SINK_FOREACH_BATCH;
	else if (sink != NULL)
		resolve_sink(query, sink);
	else if (query->options.directory != NULL)
		query->sink_kind = SX_SINK_DIRECTORY;
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("query \"%s\" has no sink", query->name),
				 errhint("Give sink => 'table_name' (made if absent), a stream, 'noop', or foreach_batch => 'function(bigint)'.")));
	if (query->options.directory != NULL && query->sink_kind != SX_SINK_DIRECTORY)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"directory\" is only for the sink \"directory\"")));
	if (query->options.key_columns != NULL && query->sink_kind != SX_SINK_KAFKA &&
		query->sink_kind != SX_SINK_TABLE)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"key_columns\" is only for a table or a stream of Kafka")));
}

/* A table that keeps the newest row of each key (sink/table_keep.c) needs to be told which that is. */
static void
check_keep(const SxQuery *query, const SxPlan *plan)
{
	if (query->options.delete_when != NULL &&
		(query->options.key_columns == NULL || query->sink_kind != SX_SINK_TABLE))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("option \"delete_when\" needs a table and option \"key_columns\""),
				 errdetail("It says which rows delete that of their key from the table.")));
	if (query->options.key_columns == NULL || query->sink_kind != SX_SINK_TABLE)
		return;
	if (query->output_mode != SX_OUTPUT_UPDATE)
		ereport(ERROR,
				(errcode(ERRCODE_SX_OUTPUT_MODE),
				 errmsg("option \"key_columns\" of a table needs output mode \"update\""),
				 errdetail("In that mode the table keeps the newest row of each key.")));
	if (plan->order_lost != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("query \"%s\" does not tell which row of a key is the newest", query->name),
				 errdetail("Option \"key_columns\" keeps the last row of each key in the order of the stream; %s may change that order, or has none.",
						   plan->order_lost),
				 errhint("Select from one stream of Kafka only, and join or aggregate when the table is read; or leave the option out.")));
}

static Oid
function_owner_of(Oid function)
{
	HeapTuple	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", function);
	owner = ((Form_pg_proc) GETSTRUCT(tuple))->proowner;
	ReleaseSysCache(tuple);
	return owner;
}

static void
check_stream_sink(const SxQuery *query)
{
	if (query->sink_kind == SX_SINK_STREAM && !sx_stream_is_insertable(query->sink_relation))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("stream \"%s\" cannot be the sink of a query",
						get_rel_name(query->sink_relation)),
				 errdetail("Its rows come from its connector; it takes none."),
				 errhint("Write into a stream without option \"connector\".")));
}

/* As the owner: the table it makes is his, and his rights are what the worker has. */
static void
prepare_sink(SxQuery *query, const SxPlan *plan)
{
	SxSinkConfig config = {0};
	SxUserSwitch saved;

	check_keep(query, plan);
	config.query = query;
	config.desc = plan->result;
	config.nkeys = plan->nkeys;
	config.keys = plan->keys;
	config.keys_missing = plan->keys_missing;
	config.keys_multiplied = plan->keys_multiplied;
	config.retracts = plan->retracts;
	GetUserIdAndSecContext(&saved.userid, &saved.sec_context);
	SetUserIdAndSecContext(query->owner, saved.sec_context | SECURITY_LOCAL_USERID_CHANGE);
	sx_sink_routine(query->sink_kind)->prepare(query, &config);
	sx_user_back(&saved);
	check_stream_sink(query);
	sx_query_check_loop(query, plan);

	if (query->sink_kind == SX_SINK_FOREACH_BATCH && superuser_arg(query->owner))
	{
		Oid			function_owner = function_owner_of(query->sink_function);

		if (!superuser_arg(function_owner))
			ereport(WARNING,
					(errmsg("query \"%s\" of a superuser calls a function of role \"%s\"",
							query->name, GetUserNameFromId(function_owner, false)),
					 errdetail("The function runs with the superuser's rights, and its owner may change it."),
					 errhint("Let a role without superuser rights own the query.")));
	}
	CommandCounterIncrement();
}

/* ---------- create ---------- */

void
sx_query_create(const SxNewQuery *new)
{
	SxQuery    *query = palloc0(sizeof(SxQuery));
	SxUserSwitch saved;
	SxPlan	   *plan;

	PreventCommandIfReadOnly("create_query()");
	PreventCommandDuringRecovery("create_query()");
	sx_query_name_check(new->name);
	query->name = pstrdup(new->name);
	query->owner = GetUserId();
	check_owner_can_run(query->owner);
	if (sx_query_by_name(new->name, true) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("query \"%s\" already exists", new->name),
				 errhint("Change it with alter_query, or drop it with drop_query.")));
	query->output_mode = sx_output_mode_parse(new->output_mode);
	sx_trigger_parse(new->trigger, &query->trigger, &query->trigger_interval);
	query->options_json = options_with_defaults(new->options);
	sx_query_options_parse(query->options_json, &query->options);
	query->settings = current_settings();
	query->sink_function = new->foreach_batch;
	choose_sink(query, new->sink);
	query->wanted = SX_WANTED_CREATED;
	query->created_at = GetCurrentTimestamp();

	sx_query_view_create(query, sx_query_text_analyze(new->name, new->query));
	plan = sx_query_view_plan(query, true);
	sx_trigger_check(query, plan);
	prepare_sink(query, plan);
	sx_query_view_depend(query);
	sx_query_insert(query);
	sx_user_become(&saved, sx_extension_owner());
	sx_state_create(query->id);
	sx_user_back(&saved);
	sx_hold_wake_at_commit();	/* refuses PREPARE; wakes nobody for nothing */
}

static char *
required_text(FunctionCallInfo fcinfo, int n, const char *what)
{
	char	   *text = sx_api_text_arg(fcinfo, n);

	if (text == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be NULL", what)));
	return text;
}

/* name, query, sink, output_mode, trigger, foreach_batch, options */
void
sx_new_query_args(FunctionCallInfo fcinfo, SxNewQuery *new)
{
	new->name = sx_api_name_arg(fcinfo);
	new->query = required_text(fcinfo, 1, "query");
	new->sink = sx_api_text_arg(fcinfo, 2);
	new->output_mode = required_text(fcinfo, 3, "output_mode");
	new->trigger = required_text(fcinfo, 4, "trigger");
	new->foreach_batch = PG_ARGISNULL(5) ? InvalidOid : PG_GETARG_OID(5);
	new->options = PG_ARGISNULL(6) ? NULL : PG_GETARG_JSONB_P(6);
}

Datum
sx_api_create_query(PG_FUNCTION_ARGS)
{
	SxNewQuery	new;

	sx_new_query_args(fcinfo, &new);
	sx_query_create(&new);
	PG_RETURN_VOID();
}

/* ---------- alter ---------- */

/*
 * Says per operator what the change means for the state; resets it where asked.
 * A state that doesn't fit is for start_query to refuse, so that a wrong change
 * can be taken back; of a running query this is the start.
 */
static void
alter_state(SxQuery *query, const SxQuery *before, const SxPlan *plan, bool reset)
{
	List	   *effects = sx_query_effects(before, query, plan, reset);
	char	   *misfits;

	if (reset)
		sx_api_reset_checkpoint(query);
	misfits = sx_query_effects_tell(effects);
	if (plan->noperators == 0 && misfits == NULL && before->layout != NULL)
		ereport(NOTICE, (errmsg("the query has no state; its offsets are %s",
								reset ? "lost, it begins anew" : "kept")));
	if (misfits == NULL)
		return;
	if (query->wanted == SX_WANTED_RUNNING)
		sx_layout_check(query->name, before->layout, plan);
	ereport(WARNING,
			(errmsg("query \"%s\" cannot be started with the state that it has", query->name),
			 errdetail_internal("%s", misfits),
			 errhint("Alter it back, or start it with reset_state => true, which begins anew.")));
}

static void
alter_sink(SxQuery *query, const char *sink)
{
	if (sink == NULL)
		return;
	query->sink_function = InvalidOid;
	choose_sink(query, sink);
}

/* name, query, sink, output_mode, trigger, options, reset_state */
Datum
sx_api_alter_query(PG_FUNCTION_ARGS)
{
	char	   *name = sx_api_name_arg(fcinfo);
	char	   *text = sx_api_text_arg(fcinfo, 1);
	char	   *sink = sx_api_text_arg(fcinfo, 2);
	char	   *mode = sx_api_text_arg(fcinfo, 3);
	char	   *trigger = sx_api_text_arg(fcinfo, 4);
	Jsonb	   *options = PG_ARGISNULL(5) ? NULL : PG_GETARG_JSONB_P(5);
	bool		reset = !PG_ARGISNULL(6) && PG_GETARG_BOOL(6);
	SxQuery    *query;
	SxQuery		before;
	SxPlan	   *plan;

	PreventCommandIfReadOnly("alter_query()");
	PreventCommandDuringRecovery("alter_query()");
	query = sx_api_take_query(sx_api_owned_query(name));
	before = *query;
	sx_query_view_undepend(query);
	if (mode != NULL)
		query->output_mode = sx_output_mode_parse(mode);
	if (trigger != NULL)
		sx_trigger_parse(trigger, &query->trigger, &query->trigger_interval);
	if (options != NULL)
		query->options_json = sx_query_options_merge(query->options_json, options);
	sx_query_options_parse(query->options_json, &query->options);
	alter_sink(query, sink);
	if (text != NULL)
	{
		sx_query_view_replace(query, sx_query_text_analyze(name, text));
		query->settings = current_settings();
	}
	plan = sx_query_view_plan(query, text != NULL || mode != NULL);
	sx_trigger_check(query, plan);
	prepare_sink(query, plan);
	sx_query_view_depend(query);
	alter_state(query, &before, plan, reset);
	sx_query_update(query);
	PG_RETURN_VOID();
}
