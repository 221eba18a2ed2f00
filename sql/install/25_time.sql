-- Event time: functions that are ordinary SQL in a batch query and mark
-- windows and watermarks in a continuous one.

CREATE FUNCTION @extschema@.tumble(ts timestamptz, size interval, "offset" interval DEFAULT '0')
	RETURNS SETOF tstzrange
	AS 'MODULE_PATHNAME', 'sx_api_tumble' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 1;
COMMENT ON FUNCTION @extschema@.tumble(timestamptz, interval, interval) IS
	'The tumbling window [start, end) of a time, aligned to 1970-01-01 UTC plus offset; no row for NULL or infinity.';

CREATE FUNCTION @extschema@.hop(ts timestamptz, size interval, slide interval, "offset" interval DEFAULT '0')
	RETURNS SETOF tstzrange
	AS 'MODULE_PATHNAME', 'sx_api_hop' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE ROWS 5;
COMMENT ON FUNCTION @extschema@.hop(timestamptz, interval, interval, interval) IS
	'The sliding windows [start, end) that hold a time: one every slide, each of the given size.';

CREATE FUNCTION @extschema@.window_time("window" tstzrange) RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sx_api_window_time' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.window_time(tstzrange) IS
	'The event time of a window: its end less one microsecond.';

CREATE FUNCTION @extschema@.watermark(ts timestamptz, delay interval) RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sx_api_watermark' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.watermark(timestamptz, interval) IS
	'Marks an expression in the select list of a continuous query as event time with a watermark; returns it unchanged.';

CREATE FUNCTION streamx.watermark_observe(ts timestamptz, cell integer) RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'sx_api_watermark_observe' LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION streamx.watermark_observe(timestamptz, integer) IS
	'What watermark() becomes inside a running query; returns its argument.';

CREATE FUNCTION @extschema@.session(ts timestamptz, gap interval) RETURNS tstzrange
	AS 'MODULE_PATHNAME', 'sx_api_unsupported_marker' LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.session(timestamptz, interval) IS
	'Session window, in GROUP BY of a continuous query: rows of a group that are no farther apart than the gap, which can be an expression of the row, are one session.';

CREATE FUNCTION @extschema@.within_watermark(VARIADIC "any") RETURNS jsonb
	AS 'MODULE_PATHNAME', 'sx_api_unsupported_marker' LANGUAGE C IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION @extschema@.within_watermark("any") IS
	'DISTINCT ON (within_watermark(columns)) of a continuous query: duplicates are found until the watermark has passed the first row by its delay.';
