CREATE TYPE seen AS (what text, k text, t bigint);
CREATE FUNCTION ms(at timestamptz) RETURNS bigint LANGUAGE sql AS 'SELECT (extract(epoch FROM at) * 1000)::bigint';
CREATE FUNCTION handler(key text, rows s[], timer timestamptz) RETURNS SETOF seen LANGUAGE plpgsql AS $f$
DECLARE
	-- D5: Spark's first watermark is 1970
	wm timestamptz := coalesce(current_watermark(), 'epoch');
BEGIN
	IF timer IS NOT NULL THEN
		RETURN NEXT ('timer', key, ms(timer))::seen;
		RETURN;
	END IF;
	PERFORM timer_set(CASE WHEN r.v = 0 THEN wm - interval '1 millisecond' ELSE wm + interval '1 second' END)
	FROM unnest(rows) r;
	RETURN NEXT ('in', key, ms(wm))::seen;
END $f$;
-- query
SELECT r.what, s.k, r.t
FROM s CROSS JOIN LATERAL transform_with_state('handler', s.k, s, NULL::seen, time_mode => 'event') AS r
