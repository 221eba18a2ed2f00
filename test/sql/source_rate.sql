-- Connector rate: so many rows a second, the same ones for the same seconds.
\set ECHO none
\set QUIET 1
\pset format unaligned
\pset tuples_only true
\pset pager off
SET client_min_messages = warning;
SELECT no_plan();

CREATE FOREIGN TABLE rt_r ("timestamp" timestamptz, value bigint) SERVER streamx OPTIONS (connector 'rate', rowsPerSecond '3');
-- 2000-01-01 is 0
SELECT results_eq($$SELECT "timestamp", value FROM streamx.stream_rows(NULL::rt_r, '{"start": 0, "seconds": 0}', '{"start": 0, "seconds": 2}')$$,
	$$VALUES ('2000-01-01 00:00:00Z'::timestamptz, 0::bigint), ('2000-01-01 00:00:00.333Z', 1), ('2000-01-01 00:00:00.666Z', 2),
	('2000-01-01 00:00:01Z', 3), ('2000-01-01 00:00:01.333Z', 4), ('2000-01-01 00:00:01.666Z', 5)$$, 'evenly spread over each second');
SELECT results_eq($$SELECT value FROM streamx.stream_rows(NULL::rt_r, '{"start": 0, "seconds": 1}', '{"start": 0, "seconds": 2}')$$, 'SELECT generate_series(3, 5)::bigint', 'a later part of them');
SELECT is(streamx.stream_next('rt_r', '{"start": 0, "seconds": 1}', 7), '{"start": 0, "seconds": 4}', 'a limit ends with the second in which it is reached');
SELECT is(streamx.stream_next('rt_r', '{"start": 0, "seconds": 1}', 1), '{"start": 0, "seconds": 2}', 'at least one second');
SELECT is(streamx.stream_next('rt_r', jsonb_build_object('start', (extract(epoch FROM now() - '2000-01-01Z') * 1000000)::bigint, 'seconds', 0)), NULL, 'nothing before the first second is over');
SELECT is(streamx.stream_next('rt_r', jsonb_build_object('start', (extract(epoch FROM now() - '2000-01-01Z' + interval '1 day') * 1000000)::bigint, 'seconds', 5)), NULL, 'nothing when the clock went back');

CREATE FOREIGN TABLE rt_ramp (t timestamptz, v bigint) SERVER streamx OPTIONS (connector 'rate', "rowsPerSecond" '10', ramp_up_time '4s');
SELECT results_eq($$SELECT count(*) FROM generate_series(0, 6) s LEFT JOIN streamx.stream_rows(NULL::rt_ramp, '{"start": 0, "seconds": 0}', '{"start": 0, "seconds": 7}') r
	ON extract(epoch FROM t - '2000-01-01Z')::numeric >= s AND extract(epoch FROM t - '2000-01-01Z')::numeric < s + 1 GROUP BY s ORDER BY s$$,
	'SELECT unnest(ARRAY[2, 4, 6, 8, 10, 10, 10]::bigint[])', 'the speed grows as Spark''s does');
SELECT results_eq($$SELECT v FROM streamx.stream_rows(NULL::rt_ramp, '{"start": 0, "seconds": 0}', '{"start": 0, "seconds": 6}')$$, 'SELECT generate_series(0, 39)::bigint', 'no value is missing');
CREATE FOREIGN TABLE rt_slow (t timestamptz, v bigint) SERVER streamx OPTIONS (connector 'rate', rows_per_second '2', ramp_up_time '9 seconds');
SELECT results_eq($$SELECT v FROM streamx.stream_rows(NULL::rt_slow, '{"start": 0, "seconds": 0}', '{"start": 0, "seconds": 10}')$$, 'VALUES (0::bigint), (1)', 'a ramp too slow for whole rows begins at its end');
SELECT is(streamx.stream_next('rt_slow', '{"start": 0, "seconds": 0}', 1), '{"start": 0, "seconds": 10}', 'and that is its first range');

SELECT throws_ok('SELECT * FROM rt_r', '0A000', NULL, 'a plain SELECT is refused');
SELECT throws_like('INSERT INTO rt_r VALUES (now(), 1)', 'cannot insert into stream "rt_r"', 'so is INSERT');
SELECT throws_ok($$SELECT streamx.stream_next('rt_r', '{"start": 0}')$$, 'SX003', NULL, 'an offset without seconds');
SELECT throws_ok($$CREATE FOREIGN TABLE rt_x (a timestamptz) SERVER streamx OPTIONS (connector 'rate')$$, '42P16', NULL, 'a column is missing');
SELECT throws_ok($$CREATE FOREIGN TABLE rt_x (a timestamptz, b int) SERVER streamx OPTIONS (connector 'rate')$$, '42P16', NULL, 'or of the wrong type');
SELECT throws_like($$CREATE FOREIGN TABLE rt_x (a timestamptz, b bigint) SERVER streamx OPTIONS (connector 'rate', rows_per_second '0')$$, 'invalid value for option "rows_per_second": "0"', 'no rows per second');
SELECT throws_like($$CREATE FOREIGN TABLE rt_x (a timestamptz, b bigint) SERVER streamx OPTIONS (connector 'rate', num_partitions '-1')$$, 'invalid value for option "num_partitions": "-1"', 'no partitions');
SELECT throws_like($$CREATE FOREIGN TABLE rt_x (a timestamptz, b bigint) SERVER streamx OPTIONS (connector 'rate', ramp_up_time '-1 s')$$, 'invalid value for option "ramp_up_time": "-1 s"', 'a negative ramp');
SELECT throws_like($$CREATE FOREIGN TABLE rt_x (a timestamptz, b bigint) SERVER streamx OPTIONS (connector 'rate', retention '1 day')$$, 'option "retention" does not fit connector "rate"', 'retention of what is not stored');
SELECT is((SELECT count(*) FROM streamx.stream WHERE stream = 'rt_r'::regclass), 0::bigint, 'there is no storage');
DROP FOREIGN TABLE rt_r, rt_ramp, rt_slow;
SELECT * FROM finish();
