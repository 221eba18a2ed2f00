/*
 * progress.c
 *		Prints the counters of a batch as Spark's StreamingQueryProgress.
 *
 * Maps are sorted by key and left out when empty; rates that are not finite are
 * left out; times are ISO 8601 in UTC with milliseconds. What streamx doesn't
 * measure (allUpdatesTimeMs, latestOffset of a source) is left out or null.
 */
#include "postgres.h"

#include <math.h>

#include "lib/stringinfo.h"
#include "utils/json.h"
#include "utils/timestamp.h"

#include "monitor/progress.h"
#include "time/watermark.h"

static void
put_text(StringInfo buf, const char *text)
{
	if (text == NULL)
		appendStringInfoString(buf, "null");
	else
		escape_json(buf, text);
}

static void
put_raw(StringInfo buf, const char *json)
{
	appendStringInfoString(buf, json != NULL ? json : "null");
}

static void
put_time(StringInfo buf, TimestampTz time)
{
	struct pg_tm tm;
	fsec_t		fsec;

	/* A NULL zone pointer means UTC. */
	if (TIMESTAMP_NOT_FINITE(time) || timestamp2tm(time, NULL, &tm, &fsec, NULL, NULL) != 0)
	{
		appendStringInfoString(buf, "null");
		return;
	}
	appendStringInfo(buf, "\"%04d-%02d-%02dT%02d:%02d:%02d.%03dZ\"",
					 tm.tm_year, tm.tm_mon, tm.tm_mday,
					 tm.tm_hour, tm.tm_min, tm.tm_sec, (int) (fsec / 1000));
}

static int64
to_ms(int64 us)
{
	return us / 1000;
}

/* ,"name":rows, unless there are none */
static void
put_count(StringInfo buf, const char *name, int64 rows)
{
	if (rows != 0)
		appendStringInfo(buf, ",\"%s\":" INT64_FORMAT, name, rows);
}

/* ,"name":rows per second; nothing when the time is not known or zero */
static void
put_rate(StringInfo buf, const char *name, int64 rows, int64 us)
{
	double		rate;

	if (us <= 0)
		return;
	rate = (double) rows * USECS_PER_SEC / us;
	if (isfinite(rate))
		appendStringInfo(buf, ",\"%s\":%.1f", name, rate);
}

static void
put_durations(StringInfo buf, const SxProgress *progress)
{
	/* Spark commits the state within addBatch. */
	appendStringInfo(buf,
					 ",\"durationMs\":{\"addBatch\":" INT64_FORMAT
					 ",\"commitOffsets\":" INT64_FORMAT
					 ",\"latestOffset\":" INT64_FORMAT
					 ",\"queryPlanning\":" INT64_FORMAT
					 ",\"triggerExecution\":" INT64_FORMAT "}",
					 to_ms(progress->us_add_batch + progress->us_state),
					 to_ms(progress->us_commit),
					 to_ms(progress->us_latest_offset),
					 to_ms(progress->us_planning),
					 to_ms(progress->us_total));
}

/*
 * Also when the watermark is unset (D5) the map is left out rather than shown
 * with a null: Spark's readers expect a time there.
 */
static void
put_event_time(StringInfo buf, const SxProgress *progress)
{
	bool		rows = progress->event_rows > 0;
	bool		watermark = !TIMESTAMP_NOT_FINITE(progress->watermark);

	if (!progress->has_watermark || (!rows && !watermark))
		return;
	appendStringInfoString(buf, ",\"eventTime\":{");
	if (rows)
	{
		appendStringInfoString(buf, "\"avg\":");
		put_time(buf, (TimestampTz) rint(progress->event_sum / progress->event_rows));
		appendStringInfoString(buf, ",\"max\":");
		put_time(buf, progress->event_max);
		appendStringInfoString(buf, ",\"min\":");
		put_time(buf, progress->event_min);
	}
	if (watermark)
	{
		appendStringInfoString(buf, rows ? ",\"watermark\":" : "\"watermark\":");
		put_time(buf, progress->watermark);
	}
	appendStringInfoChar(buf, '}');
}

static void
put_percentiles(StringInfo buf, const char *name, const double *ms)
{
	static const char *const names[SX_LATENCY_PERCENTILES] = {"P0", "P50", "P90", "P95", "P99"};

	appendStringInfo(buf, "\"%s\":{", name);
	for (int i = 0; i < SX_LATENCY_PERCENTILES; i++)
		appendStringInfo(buf, "%s\"%s\":%.3f", i > 0 ? "," : "", names[i], ms[i]);
	appendStringInfoChar(buf, '}');
}

static void
put_latencies(StringInfo buf, const SxProgress *progress)
{
	if (!progress->has_latencies)
		return;
	appendStringInfoString(buf, ",\"latencies\":{");
	put_percentiles(buf, "e2eLatencyMs", progress->end_to_end_ms);
	appendStringInfoChar(buf, ',');
	put_percentiles(buf, "processingLatencyMs", progress->processing_ms);
	appendStringInfoChar(buf, ',');
	put_percentiles(buf, "sourceQueuingLatencyMs", progress->queuing_ms);
	appendStringInfoChar(buf, '}');
}

static void
put_operator(StringInfo buf, const SxOperatorProgress *op)
{
	appendStringInfoString(buf, "{\"operatorName\":");
	put_text(buf, op->name);
	appendStringInfo(buf,
					 ",\"numRowsTotal\":" INT64_FORMAT
					 ",\"numRowsUpdated\":" INT64_FORMAT
					 ",\"numRowsRemoved\":" INT64_FORMAT
					 ",\"commitTimeMs\":" INT64_FORMAT
					 ",\"memoryUsedBytes\":" INT64_FORMAT
					 ",\"numRowsDroppedByWatermark\":" INT64_FORMAT
					 ",\"numShufflePartitions\":1,\"numStateStoreInstances\":1",
					 op->rows_total, op->rows_updated, op->rows_removed,
					 to_ms(op->commit_us), op->memory_bytes, op->rows_late);
	if (op->is_dedup)
		appendStringInfo(buf, ",\"customMetrics\":{\"numDroppedDuplicateRows\":" INT64_FORMAT "}",
						 op->rows_duplicate);
	else if (op->rows_no_window > 0)
		appendStringInfo(buf, ",\"customMetrics\":{\"numRowsInNoWindow\":" INT64_FORMAT "}",
						 op->rows_no_window);
	appendStringInfoChar(buf, '}');
}

static void
put_source(StringInfo buf, const SxSourceProgress *source, int64 since_last, int64 us_total)
{
	appendStringInfoString(buf, "{\"description\":");
	put_text(buf, source->description);
	appendStringInfoString(buf, ",\"startOffset\":");
	put_raw(buf, source->start_offset);
	appendStringInfoString(buf, ",\"endOffset\":");
	put_raw(buf, source->end_offset);
	appendStringInfoString(buf, ",\"latestOffset\":");
	put_raw(buf, source->newest_offset);
	appendStringInfo(buf, ",\"numInputRows\":" INT64_FORMAT, source->rows);
	put_rate(buf, "inputRowsPerSecond", source->rows, since_last);
	put_rate(buf, "processedRowsPerSecond", source->rows, us_total);
	put_count(buf, "numQuarantinedRows", source->quarantined_rows);
	put_count(buf, "numDroppedMalformedRows", source->dropped_rows);
	if (source->metrics != NULL)
		appendStringInfo(buf, ",\"metrics\":%s", source->metrics);
	else if (source->bytes > 0)
		appendStringInfo(buf, ",\"metrics\":{\"bytes\":\"" INT64_FORMAT "\"}", source->bytes);
	appendStringInfoChar(buf, '}');
}

static const char *const flow_names[SX_FLOW_COUNTS] = {
	[SX_ROWS_IN] = "in",
	[SX_ROWS_MADE] = "made",
	[SX_ROWS_MULTIPLIED] = "multiplied",
	[SX_ROWS_OUT] = "out",
	[SX_ROWS_FILTERED] = "filtered",
	[SX_ROWS_LATE] = "late",
	[SX_ROWS_DUPLICATE] = "duplicate",
	[SX_ROWS_NO_WINDOW] = "noWindow",
	[SX_ROWS_REFUSED] = "refused",
	[SX_ROWS_QUARANTINED] = "quarantined",
	[SX_ROWS_DROPPED] = "dropped",
	[SX_ROWS_TAKEN] = "taken",
};

/* Zeros are left out, and so is a node that has nothing else. */
static void
put_nodes(StringInfo buf, const SxProgress *progress)
{
	const char *separator = "";

	appendStringInfoString(buf, ",\"conservation\":[");
	for (int i = 0; i < progress->nnodes; i++)
	{
		const SxFlowNode *node = &progress->nodes[i];
		int			start = buf->len;
		int			behind_head;

		appendStringInfo(buf, "%s{\"%s\":%d", separator, node->kind, node->number);
		behind_head = buf->len;
		for (int j = 0; j < SX_FLOW_COUNTS; j++)
			put_count(buf, flow_names[j], node->rows[j]);
		if (buf->len == behind_head)
		{
			buf->len = start;
			buf->data[start] = '\0';
			continue;
		}
		appendStringInfoChar(buf, '}');
		separator = ",";
	}
	appendStringInfoChar(buf, ']');
}

#define TOTALS	",\"totals\":{\"late\":%lld,\"quarantined\":%lld,\"dropped\":%lld}"

static void
put_totals(StringInfo buf, const SxFlowTotals *totals)
{
	if (totals->late != 0 || totals->quarantined != 0 || totals->dropped != 0)
		appendStringInfo(buf, TOTALS, (long long) totals->late,
						 (long long) totals->quarantined, (long long) totals->dropped);
}

/* In a string of the text every quote is escaped, so what begins like this is ours. */
void
sx_progress_read_totals(const char *json, SxFlowTotals *totals)
{
	const char *at = json != NULL ? strstr(json, ",\"totals\":{\"late\":") : NULL;
	long long	late = 0;
	long long	quarantined = 0;
	long long	dropped = 0;

	if (at != NULL && sscanf(at, TOTALS, &late, &quarantined, &dropped) != 3)
		late = quarantined = dropped = 0;
	totals->late = late;
	totals->quarantined = quarantined;
	totals->dropped = dropped;
}

char *
sx_progress_to_json(const SxProgress *progress, const char *query_name,
					const char *incarnation, const char *run_id,
					TimestampTz previous_trigger_start)
{
	StringInfoData buf;
	int64		since_last = 0;

	if (previous_trigger_start != 0 && !TIMESTAMP_NOT_FINITE(previous_trigger_start))
		since_last = progress->trigger_start - previous_trigger_start;
	initStringInfo(&buf);
	appendStringInfoString(&buf, "{\"id\":");
	put_text(&buf, incarnation);
	appendStringInfoString(&buf, ",\"runId\":");
	put_text(&buf, run_id);
	appendStringInfoString(&buf, ",\"name\":");
	put_text(&buf, query_name);
	appendStringInfoString(&buf, ",\"timestamp\":");
	put_time(&buf, progress->trigger_start);
	appendStringInfo(&buf, ",\"batchId\":" INT64_FORMAT ",\"batchDuration\":" INT64_FORMAT
					 ",\"numInputRows\":" INT64_FORMAT,
					 progress->batch_id, to_ms(progress->us_total), progress->input_rows);
	put_count(&buf, "numQuarantinedRows", progress->quarantined_rows);
	put_count(&buf, "numDroppedMalformedRows", progress->dropped_rows);
	put_rate(&buf, "inputRowsPerSecond", progress->input_rows, since_last);
	put_rate(&buf, "processedRowsPerSecond", progress->input_rows, progress->us_total);
	put_durations(&buf, progress);
	put_event_time(&buf, progress);
	put_latencies(&buf, progress);
	appendStringInfoString(&buf, ",\"stateOperators\":[");
	for (int i = 0; i < progress->noperators; i++)
	{
		if (i > 0)
			appendStringInfoChar(&buf, ',');
		put_operator(&buf, &progress->operators[i]);
	}
	appendStringInfoString(&buf, "],\"sources\":[");
	for (int i = 0; i < progress->nsources; i++)
	{
		if (i > 0)
			appendStringInfoChar(&buf, ',');
		put_source(&buf, &progress->sources[i], since_last, progress->us_total);
	}
	appendStringInfoString(&buf, "],\"sink\":{\"description\":");
	put_text(&buf, progress->sink_description);
	appendStringInfo(&buf, ",\"numOutputRows\":" INT64_FORMAT, progress->output_rows);
	if (progress->wal_bytes > 0)
		appendStringInfo(&buf, ",\"metrics\":{\"walBytes\":\"" INT64_FORMAT "\"}",
						 progress->wal_bytes);
	appendStringInfoChar(&buf, '}');
	put_nodes(&buf, progress);
	put_totals(&buf, &progress->totals);
	appendStringInfoChar(&buf, '}');
	return buf.data;
}
