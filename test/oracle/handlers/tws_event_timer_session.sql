CREATE TYPE closed AS (k text, n bigint, closed bigint);
CREATE TYPE session_state AS (n bigint, last timestamptz);
CREATE FUNCTION handler(key text, rows s[], timer timestamptz) RETURNS SETOF closed LANGUAGE plpgsql AS $f$
DECLARE
	st session_state := state_get('st', NULL::session_state);
BEGIN
	IF timer IS NOT NULL THEN
		RETURN NEXT (key, st.n, (extract(epoch FROM timer) * 1000)::bigint)::closed;
		PERFORM state_clear('st');
		RETURN;
	END IF;
	st.n := coalesce(st.n, 0) + cardinality(rows);
	st.last := greatest(st.last, (SELECT max(r.ts) FROM unnest(rows) r));
	PERFORM state_put('st', st);
	PERFORM timer_delete(t) FROM unnest(timer_list()) t;
	PERFORM timer_set(st.last + interval '5 seconds');
END $f$;
-- query
SELECT r.k, r.n, r.closed
FROM s CROSS JOIN LATERAL transform_with_state('handler', s.k, s, NULL::closed, time_mode => 'event',
	state => ARRAY[value_state('st', NULL::session_state)]) AS r
