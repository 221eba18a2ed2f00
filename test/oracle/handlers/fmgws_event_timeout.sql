CREATE TYPE told AS (k text, n bigint, what text);
CREATE FUNCTION handler(key text, rows s[], timer timestamptz) RETURNS SETOF told LANGUAGE plpgsql AS $f$
DECLARE
	n bigint := coalesce(state_get('state', NULL::bigint), 0) + cardinality(rows);
BEGIN
	IF timer IS NOT NULL THEN
		PERFORM state_clear('state');
		RETURN NEXT (key, n, 'closed')::told;
		RETURN;
	END IF;
	PERFORM state_put('state', n);
	PERFORM timeout_set((SELECT max(r.ts) FROM unnest(rows) r) + interval '5 seconds');
	RETURN NEXT (key, n, 'open')::told;
END $f$;
-- query
SELECT r.*
FROM s CROSS JOIN LATERAL flat_map_groups_with_state('handler', s.k, s, NULL::told, state => NULL::bigint, timeout => 'event') AS r
