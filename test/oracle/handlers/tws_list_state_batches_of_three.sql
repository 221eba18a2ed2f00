CREATE TYPE summed AS (k text, total bigint, n bigint);
CREATE FUNCTION handler(key text, rows s[], timer timestamptz) RETURNS SETOF summed LANGUAGE plpgsql AS $f$
BEGIN
	PERFORM state_list_append('vals', r.v) FROM unnest(rows) r;
	IF state_list_length('vals') >= 3 THEN
		RETURN QUERY SELECT key, sum(v), count(*) FROM unnest(state_list_get('vals', NULL::integer)) v;
		PERFORM state_clear('vals');
	END IF;
END $f$;
-- query
SELECT r.*
FROM s, transform_with_state('handler', s.k, s, NULL::summed, state => ARRAY[list_state('vals', NULL::integer)]) AS r
