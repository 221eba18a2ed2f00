CREATE TYPE counted AS (k text, n bigint);
CREATE FUNCTION handler(key text, rows s[], timer timestamptz) RETURNS SETOF counted LANGUAGE plpgsql AS $f$
DECLARE
	n bigint := coalesce(state_get('cnt', NULL::bigint), 0) + cardinality(rows);
BEGIN
	PERFORM state_put('cnt', n);
	RETURN NEXT (key, n)::counted;
END $f$;
-- query
SELECT r.k, r.n
FROM s CROSS JOIN LATERAL transform_with_state('handler', s.k, s, NULL::counted,
	state => ARRAY[value_state('cnt', NULL::bigint)]) AS r
