CREATE TYPE kept AS (k text, old text, has boolean);
CREATE FUNCTION handler(key text, rows s[], timer timestamptz) RETURNS SETOF kept LANGUAGE plpgsql AS $f$
DECLARE
	old text := CASE WHEN NOT state_exists('last') THEN 'none' ELSE coalesce(state_get('last', NULL::integer)::text, 'null') END;
	r s;
BEGIN
	FOREACH r IN ARRAY rows LOOP
		IF r.v = -1 THEN
			PERFORM state_clear('last');
		ELSE
			PERFORM state_put('last', r.v);
		END IF;
	END LOOP;
	RETURN NEXT (key, old, state_exists('last'))::kept;
END $f$;
-- query
SELECT r.*
FROM s CROSS JOIN LATERAL transform_with_state('handler', s.k, s, NULL::kept,
	state => ARRAY[value_state('last', NULL::integer)]) AS r
