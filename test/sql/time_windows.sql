-- tumble, hop and window_time as ordinary functions (semantics 4).
\set QUIET 1
\pset format unaligned
\pset tuples_only true
SET client_min_messages = warning;
CREATE SCHEMA time_windows;
SET search_path = time_windows, public;
CREATE FUNCTION windows(ts timestamptz, size interval, slide interval, shift interval DEFAULT '0') RETURNS text LANGUAGE sql AS
	$$ SELECT string_agg(format('[%s,%s)', extract(epoch FROM lower(w))::float8, extract(epoch FROM upper(w))::float8), ' ' ORDER BY w)
	   FROM hop(ts, size, slide, shift) w $$;
CREATE FUNCTION at(seconds float8) RETURNS timestamptz LANGUAGE sql AS $$ SELECT to_timestamp(seconds) $$;
SELECT plan(27);

SELECT is((SELECT w FROM tumble('2024-01-01 00:00:10+00', '10 s') w), tstzrange('2024-01-01 00:00:10+00', '2024-01-01 00:00:20+00'),
	'a time on the border begins the next window');
SELECT is((SELECT w FROM tumble('2024-01-01 00:00:09.999999+00', '10 s') w), tstzrange('2024-01-01 00:00:00+00', '2024-01-01 00:00:10+00'),
	'the last microsecond belongs to the window');
SELECT is(windows(at(-0.001), '10 s', '10 s'), '[-10,0)', 'before 1970 windows are floored, not cut towards zero');
SELECT is(windows(at(-10), '10 s', '10 s'), '[-10,0)', 'a window begins at -10');
SELECT is(windows(at(10), '10 s', '10 s'), '[10,20)', 'a window begins at 10');
SELECT is(windows(at(0), '10 s', '4 s', '1 s'), '[-7,3) [-3,7)', 'size 10, slide 4, offset 1 at 0');
SELECT is(windows(at(-1.5), '10 s', '4 s', '1 s'), '[-11,-1) [-7,3) [-3,7)', 'size 10, slide 4, offset 1 at -1.5');
SELECT is(windows(at(5), '10 s', '4 s', '1 s'), '[-3,7) [1,11) [5,15)', 'size 10, slide 4, offset 1 at 5');
SELECT is(windows(at(5), '10 s', '4 s', '-3 s'), windows(at(5), '10 s', '4 s', '1 s'), 'a negative offset is the positive one less the slide');
SELECT is(windows(at(5), '10 s', '10 s'), '[0,10)', 'slide equal to size is tumbling');
SELECT is((SELECT count(*) FROM tumble(NULL, '10 s')), 0::bigint, 'NULL falls in no window');
SELECT is((SELECT count(*) FROM tumble('infinity', '10 s')), 0::bigint, 'infinity falls in no window');
SELECT is((SELECT count(*) FROM hop('-infinity', '10 s', '5 s')), 0::bigint, 'minus infinity falls in no sliding window');
SELECT is((SELECT count(*) FROM tumble('294276-12-31 23:59:59Z', '1 hour')), 0::bigint, 'a window that ends beyond the last instant there is cannot be shown: none');
SELECT is((SELECT count(*) FROM tumble('294276-12-31 22:59:59.999999Z', '1 hour')), 1::bigint, 'the one before it can');
SELECT is((SELECT count(*) FROM hop('294276-12-31 22:59:59.999999Z', '3 hours', '1 hour')), 0::bigint, 'a row whose windows are in part beyond is in none');
SELECT is((SELECT count(*) FROM hop('4714-11-24 01:30:00Z BC', '3 hours', '1 hour')), 0::bigint, 'nor is one near the first instant');
SELECT is((SELECT w FROM tumble('2024-01-01Z', '100000000 days') w), tstzrange('1970-01-01Z', '275760-09-13Z'), 'a window that is longer than history is one');
SET timezone = 'America/New_York';
SELECT is((SELECT lower(w) FROM tumble('2024-03-10 12:00+00', '1 day') w), '2024-03-10 00:00+00'::timestamptz,
	'day windows begin at midnight UTC whatever the time zone');
SELECT is((SELECT lower(w) FROM tumble('2024-03-10 12:00+00', '7 days') w), '2024-03-07 00:00+00'::timestamptz,
	'week windows begin on Thursdays');
SET timezone = 'Europe/Berlin';
SELECT is((SELECT count(DISTINCT w) FROM (VALUES ('2025-10-26 00:30+00'::timestamptz), ('2025-10-26 01:30+00')) v(t), tumble(t, '1 hour') w), 2::bigint,
	'CASE-12: the hour that comes twice in autumn is two windows');
RESET timezone;
SELECT is(window_time(tstzrange(at(0), at(5))), at(4.999999), 'window_time is the end less a microsecond');
SELECT is(watermark(at(3), '5 s'), at(3), 'watermark() returns its argument');
SELECT throws_ok($$ SELECT tumble(now(), '1 month') $$, '22023', 'window size must not contain months or years', 'months are refused');
SELECT throws_ok($$ SELECT tumble(now(), '0') $$, '22023', 'window size must be greater than zero', 'size zero is refused');
SELECT throws_ok($$ SELECT hop(now(), '5 s', '10 s') $$, '22023', 'window slide must not be greater than the window size', 'gaps between windows are refused');
SELECT throws_ok($$ SELECT tumble(now(), '5 s', '5 s') $$, '22023', 'window offset must be smaller than the window slide', 'an offset of a whole slide is refused');
SELECT * FROM finish();
DROP SCHEMA time_windows CASCADE;
