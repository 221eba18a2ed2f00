/*
 * schema_registry.c
 *		Schemas from a Confluent schema registry: GET /schemas/ids/<id>, and
 *		POST /subjects/<subject>/versions. Thread: any, but for open.
 */
#include "postgres.h"

#include <curl/curl.h>

#include "base/threads.h"
#include "format/column.h"
#include "format/json_scan.h"
#include "format/schema_registry.h"

/* A schema is kilobytes; whatever sends more is no registry. */
#define MAX_ANSWER		(4 * 1024 * 1024)
#define CONNECT_MS		3000

struct SxSchemaRegistry
{
	char	   *url;			/* without a slash at the end */
	char	   *user;			/* NULL: none */
	char	   *password;
	long		timeout_ms;
};

typedef struct Answer
{
	char	   *text;
	size_t		len;
	bool		too_long;
} Answer;

/* ---- open ---- */

void
sx_registry_check(const SxFormatOptions *options)
{
	const char *url = options->registry_url;

	if (url == NULL)
		return;
	if (pg_strncasecmp(url, "http://", 7) != 0 && pg_strncasecmp(url, "https://", 8) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("invalid URL of a schema registry"),
				 errhint("Option \"schema_registry_url\" is like http://registry:8081.")));
	if (strchr(url, '@') != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FDW_INVALID_ATTRIBUTE_VALUE),
				 errmsg("the URL of a schema registry holds a user name"),
				 errdetail("Options of a stream can be read by everybody."),
				 errhint("Set \"schema_registry_user\" and \"schema_registry_password\" in the user mapping.")));
}

SxSchemaRegistry *
sx_registry_open(const SxFormatOptions *options)
{
	static bool curl_ready = false;
	SxSchemaRegistry *registry;
	size_t		len;

	sx_registry_check(options);
	if (!curl_ready)
	{
		CURLcode	code;

		sx_threads_begin();
		code = curl_global_init(CURL_GLOBAL_DEFAULT);
		sx_threads_end();
		if (code != CURLE_OK)
			ereport(ERROR,
					(errcode(ERRCODE_INTERNAL_ERROR),
					 errmsg("could not initialize libcurl"),
					 errdetail("libcurl: %s", curl_easy_strerror(code))));
		curl_ready = true;
	}
	registry = calloc(1, sizeof(SxSchemaRegistry));
	if (registry == NULL)
		sx_format_out_of_memory();
	registry->url = strdup(options->registry_url);
	registry->user = options->registry_user != NULL ? strdup(options->registry_user) : NULL;
	registry->password = options->registry_password != NULL ? strdup(options->registry_password) : NULL;
	registry->timeout_ms = options->registry_timeout_ms;
	if (registry->url == NULL || (options->registry_user != NULL && registry->user == NULL) ||
		(options->registry_password != NULL && registry->password == NULL))
	{
		sx_registry_close(registry);
		sx_format_out_of_memory();
	}
	len = strlen(registry->url);
	while (len > 0 && registry->url[len - 1] == '/')
		registry->url[--len] = '\0';
	return registry;
}

void
sx_registry_close(SxSchemaRegistry *registry)
{
	if (registry == NULL)
		return;
	free(registry->url);
	free(registry->user);
	free(registry->password);
	free(registry);
}

/* ---- HTTP ---- */

static size_t
receive(char *data, size_t size, size_t n, void *arg)
{
	Answer	   *answer = arg;
	size_t		len = size * n;
	char	   *larger;

	if (answer->len + len > MAX_ANSWER)
	{
		answer->too_long = true;
		return 0;
	}
	larger = realloc(answer->text, answer->len + len + SX_RECORD_PADDING);
	if (larger == NULL)
		return 0;
	answer->text = larger;
	memcpy(larger + answer->len, data, len);
	answer->len += len;
	memset(larger + answer->len, 0, SX_RECORD_PADDING);
	return len;
}

static void
set_options(CURL *curl, const SxSchemaRegistry *registry, Answer *answer)
{
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long) CONNECT_MS);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, registry->timeout_ms);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
	curl_easy_setopt(curl, CURLOPT_PROXY, "");
	curl_easy_setopt(curl, CURLOPT_NETRC, (long) CURL_NETRC_IGNORED);
#if LIBCURL_VERSION_NUM >= 0x075500
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
#else
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS, (long) (CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
	if (registry->user != NULL)
	{
		curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long) CURLAUTH_BASIC);
		curl_easy_setopt(curl, CURLOPT_USERNAME, registry->user);
		curl_easy_setopt(curl, CURLOPT_PASSWORD, registry->password != NULL ? registry->password : "");
	}
}

static SxRegistryResult
explain(CURLcode code, long status, const Answer *answer, char *error)
{
	if (code == CURLE_OUT_OF_MEMORY)
		return SX_REGISTRY_NO_MEMORY;
	if (code != CURLE_OK)
		snprintf(error, SX_REGISTRY_ERROR, "schema registry: %s",
				 answer->too_long ? "the answer is too long" : curl_easy_strerror(code));
	else if (status == 401 || status == 403)
		snprintf(error, SX_REGISTRY_ERROR,
				 "schema registry refuses user and password (HTTP status %ld)", status);
	else
		snprintf(error, SX_REGISTRY_ERROR, "schema registry answers with HTTP status %ld", status);
	return code == CURLE_OK && status == 404 ? SX_REGISTRY_NOT_FOUND : SX_REGISTRY_AWAY;
}

/* body NULL: GET, else POST. answer->text is malloc'ed whatever comes. */
static SxRegistryResult
ask(SxSchemaRegistry *registry, const char *path, const char *body, Answer *answer, char *error)
{
	CURL	   *curl = curl_easy_init();
	struct curl_slist *headers = NULL;
	size_t		size = strlen(registry->url) + strlen(path) + 1;
	char	   *url = malloc(size);
	CURLcode	code = CURLE_OUT_OF_MEMORY;
	long		status = 0;

	if (curl != NULL && url != NULL)
	{
		snprintf(url, size, "%s%s", registry->url, path);
		set_options(curl, registry, answer);
		headers = curl_slist_append(headers, "Accept: application/vnd.schemaregistry.v1+json");
		headers = curl_slist_append(headers, "Content-Type: application/vnd.schemaregistry.v1+json");
		curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
		if (body != NULL)
			curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
		code = curl_easy_setopt(curl, CURLOPT_URL, url);
		if (code == CURLE_OK)
			code = curl_easy_perform(curl);
		if (code == CURLE_OK)
			curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	}
	curl_slist_free_all(headers);
	if (curl != NULL)
		curl_easy_cleanup(curl);
	free(url);
	if (code == CURLE_OK && status == 200 && answer->text != NULL)
		return SX_REGISTRY_OK;
	return explain(code, status, answer, error);
}

/* ---- what it says ---- */

static const SxJsonRules strict = {0};

/* A member of the answer's object; SX_JSON_BAD: not there. */
static SxJsonToken
member(const Answer *answer, const char *wanted, SxJsonSpan *value)
{
	SxJsonText	json = {.rules = &strict, .start = answer->text, .at = answer->text};
	SxJsonSpan	name;

	json.end = answer->text + answer->len;
	sx_json_skip_space(&json);
	if (*json.at != '{')
		return SX_JSON_BAD;
	do
	{
		SxJsonToken token;

		json.at++;
		sx_json_skip_space(&json);
		if (!sx_json_name(&json, &name))
			return SX_JSON_BAD;
		token = sx_json_value(&json, value);
		if (token == SX_JSON_BAD ||
			(name.len == strlen(wanted) && memcmp(name.text, wanted, name.len) == 0))
			return token;
		sx_json_skip_space(&json);
	} while (*json.at == ',');
	return SX_JSON_BAD;
}

SxRegistryResult
sx_registry_schema(SxSchemaRegistry *registry, int32 id, char **schema, char *error)
{
	Answer		answer = {0};
	char		path[64];
	SxJsonSpan	value;
	SxRegistryResult result;

	snprintf(path, sizeof(path), "/schemas/ids/%u", (uint32) id);
	result = ask(registry, path, NULL, &answer, error);
	if (result == SX_REGISTRY_OK && member(&answer, "schemaType", &value) == SX_JSON_STRING &&
		(value.len != 4 || memcmp(value.text, "AVRO", 4) != 0))
	{
		snprintf(error, SX_REGISTRY_ERROR, "schema %u of the registry is not Avro", (uint32) id);
		result = SX_REGISTRY_NOT_FOUND;
	}
	else if (result == SX_REGISTRY_OK && member(&answer, "references", &value) == SX_JSON_ARRAY &&
			 value.len > 2)
	{
		snprintf(error, SX_REGISTRY_ERROR,
				 "schema %u of the registry refers to other schemas, which is not supported", (uint32) id);
		result = SX_REGISTRY_NOT_FOUND;
	}
	else if (result == SX_REGISTRY_OK && member(&answer, "schema", &value) == SX_JSON_STRING)
	{
		*schema = malloc(value.len + 1);
		if (*schema != NULL)
			(*schema)[sx_json_unescape(&value, true, *schema)] = '\0';
		else
			result = SX_REGISTRY_NO_MEMORY;
	}
	else if (result == SX_REGISTRY_OK)
	{
		snprintf(error, SX_REGISTRY_ERROR, "schema registry answers something else than a schema");
		result = SX_REGISTRY_AWAY;
	}
	else if (result == SX_REGISTRY_NOT_FOUND)
		snprintf(error, SX_REGISTRY_ERROR, "schema %u is not in the registry", (uint32) id);
	free(answer.text);
	return result;
}

/* As a JSON string; malloc'ed. */
static char *
quoted(const char *text)
{
	char	   *result = malloc(strlen(text) * 6 + 3);
	char	   *to = result;

	if (result == NULL)
		return NULL;
	*to++ = '"';
	for (; *text != '\0'; text++)
	{
		unsigned char c = *text;

		if (c < ' ' || c == '"' || c == '\\')
			to += sprintf(to, "\\u%04x", c);
		else
			*to++ = c;
	}
	strcpy(to, "\"");
	return result;
}

SxRegistryResult
sx_registry_register(SxSchemaRegistry *registry, const char *subject, const char *schema, int32 *id,
					 char *error)
{
	Answer		answer = {0};
	char	   *json = quoted(schema);
	char	   *escaped = curl_easy_escape(NULL, subject, 0);
	char	   *path = escaped != NULL ? malloc(strlen(escaped) + 32) : NULL;
	char	   *body = json != NULL ? malloc(strlen(json) + 32) : NULL;
	SxRegistryResult result = SX_REGISTRY_NO_MEMORY;
	SxJsonSpan	value;

	if (path != NULL && body != NULL)
	{
		sprintf(path, "/subjects/%s/versions", escaped);
		sprintf(body, "{\"schema\":%s}", json);
		result = ask(registry, path, body, &answer, error);
	}
	if (result == SX_REGISTRY_OK && member(&answer, "id", &value) == SX_JSON_INTEGER && value.small)
		*id = (int32) value.value;
	else if (result == SX_REGISTRY_OK)
	{
		snprintf(error, SX_REGISTRY_ERROR, "schema registry answers without an id");
		result = SX_REGISTRY_AWAY;
	}
	free(answer.text);
	free(json);
	curl_free(escaped);
	free(path);
	free(body);
	return result;
}
