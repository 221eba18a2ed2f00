# StreamCheck.pm
#		A stream with writers whose rows are known, and the check that sinks equal them.
#
# Every writing transaction puts the same rows into the stream s and into the
# ordinary table ref, together with its own xid8. A batch record's offset is a
# snapshot; so the rows below the committed offsets are those of ref with
# pg_visible_in_snapshot(tx, offset), whatever was killed meanwhile. Results,
# offsets and watermark are read in one snapshot, so the check holds at any
# moment, also while the queries run.
package StreamCheck;

use strict;
use warnings;

# The clock of events is a sequence: 20 ms a row, jittered by up to 3 s. The
# watermark's five minutes are far more than writers can be apart, so no row is
# late. Names are long and hardly compress: their groups outgrow a small memory.
my $objects = q{
CREATE EXTENSION streamx;
CREATE SEQUENCE clock;
CREATE SEQUENCE rounds;
CREATE TABLE ref (tx xid8 NOT NULL, k int, name text, v bigint, ts timestamptz);
SELECT create_stream('s', '(k int, name text, v bigint, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''5 minutes'')');

-- one transaction's rows; some in a subtransaction that is given up
CREATE FUNCTION write_rows(n int) RETURNS void LANGUAGE plpgsql AS $f$
BEGIN
	INSERT INTO ref
	SELECT pg_current_xact_id(), (random() * 20)::int, (SELECT string_agg(md5(i || '/' || name), '') FROM generate_series(1, 6) i),
	       (random() * 1000)::int,
	       timestamptz '2026-01-15 00:00:00+00' + nextval('clock') * interval '20 milliseconds'
	       - random() * interval '3 seconds'
	FROM (SELECT (random() * 20000)::int AS name FROM generate_series(1, n)) g;
	IF random() < 0.2 THEN
		BEGIN
			INSERT INTO s VALUES (-1, 'rolled back', -1, now());
			RAISE EXCEPTION 'given up';
		EXCEPTION WHEN raise_exception THEN NULL;
		END;
	END IF;
	INSERT INTO s SELECT k, name, v, ts FROM ref WHERE tx = pg_current_xact_id();
END $f$;

CREATE PROCEDURE write_for_a_while(rounds int, pause float8) LANGUAGE plpgsql AS $f$
BEGIN
	FOR i IN 1 .. rounds LOOP
		PERFORM write_rows(CASE WHEN random() < 0.01 THEN 1000 ELSE (random() * 30)::int + 1 END);
		IF random() < 0.1 THEN ROLLBACK; ELSE COMMIT; END IF;
		PERFORM pg_sleep(pause * random());
	END LOOP;
END $f$;

CREATE TYPE handled AS (upto timestamptz, n bigint, sv bigint);
CREATE FUNCTION handle(key int, rows s[], timer timestamptz) RETURNS SETOF handled LANGUAGE plpgsql AS $f$
BEGIN
	IF timer IS NOT NULL THEN
		RETURN NEXT (timer, state_map_get('n', timer, NULL::bigint), state_map_get('sv', timer, NULL::bigint))::handled;
		PERFORM state_map_remove('n', timer), state_map_remove('sv', timer), state_list_append('closed', timer);
		IF state_list_length('closed') > 5 THEN
			PERFORM state_list_put('closed', (state_list_get('closed', NULL::timestamptz))[4:]);
		END IF;
		RETURN;
	END IF;
	PERFORM state_map_put('n', w, coalesce(state_map_get('n', w, NULL::bigint), 0) + n),
		state_map_put('sv', w, coalesce(state_map_get('sv', w, NULL::bigint), 0) + sv), timer_set(w)
	FROM (SELECT upper(tumble(r.ts, '10 seconds')) AS w, count(*) AS n, sum(r.v)::bigint AS sv FROM unnest(rows) r GROUP BY 1) x;
END $f$;

-- the last record of a query: its snapshot and the watermark it evicted by
CREATE VIEW upto AS
SELECT DISTINCT ON (q.name) q.name, b.batch, b.watermark,
       substring(b.offsets FROM '\d+:\d+:[\d,]*')::pg_snapshot AS snapshot
FROM streamx.query q JOIN streamx.batch b ON b.query = q.id ORDER BY q.name, b.batch DESC;

CREATE FUNCTION below(query text) RETURNS SETOF ref LANGUAGE sql STABLE AS $f$
	SELECT r.* FROM ref r, upto u WHERE u.name = query AND pg_visible_in_snapshot(r.tx, u.snapshot)
$f$;
};

# name => [SELECT, output mode, what the sink should hold given below()]
my %queries = (
	appended => [
		q{SELECT tumble(ts, '10 seconds') AS w, k, count(*) AS n, sum(v) AS sv FROM s GROUP BY w, k}, 'append',
		q{SELECT * FROM (SELECT tumble(ts, '10 seconds') AS w, k, count(*) AS n, sum(v) AS sv FROM below('appended')
		  GROUP BY w, k) x WHERE upper(w) <= (SELECT watermark FROM upto WHERE name = 'appended')} ],
	updated => [
		q{SELECT name, count(*) AS n, sum(v) AS sv, max(ts) AS last FROM s GROUP BY name}, 'update',
		q{SELECT name, count(*) AS n, sum(v) AS sv, max(ts) AS last FROM below('updated') GROUP BY name} ],
	# what appended does, by a map of windows and a timer for each
	handled => [
		q{SELECT s.k, r.upto, r.n, r.sv FROM s CROSS JOIN LATERAL transform_with_state('handle', s.k, s, NULL::handled, time_mode => 'event',
		  state => ARRAY[map_state('n', NULL::timestamptz, NULL::bigint), map_state('sv', NULL::timestamptz, NULL::bigint), list_state('closed', NULL::timestamptz)]) r}, 'append',
		q{SELECT k, w AS upto, count(*) AS n, sum(v)::bigint AS sv FROM (SELECT k, v, upper(tumble(ts, '10 seconds')) AS w FROM below('handled')) x
		  WHERE w <= (SELECT watermark FROM upto WHERE name = 'handled') GROUP BY w, k} ],
	deduped => [
		q{SELECT DISTINCT k, v % 10 AS d, tumble(ts, '1 second') AS w FROM s}, 'append',
		q{SELECT DISTINCT k, v % 10 AS d, tumble(ts, '1 second') AS w FROM below('deduped')} ],
	chained => [
		q{SELECT tumble(window_time(w), '10 seconds') AS w10, count(*) AS n, sum(d) AS sd FROM (SELECT DISTINCT k, v % 10 AS d, tumble(ts, '1 second') AS w FROM s) x GROUP BY w10}, 'append',
		q{SELECT * FROM (SELECT tumble(lower(w), '10 seconds') AS w10, count(*) AS n, sum(d) AS sd FROM (SELECT DISTINCT k, v % 10 AS d, tumble(ts, '1 second') AS w FROM below('chained')) x
		  GROUP BY w10) y WHERE upper(w10) <= (SELECT watermark FROM upto WHERE name = 'chained')} ],
	# nobody is so late that a row would touch a session that has closed
	sessions => [
		q{SELECT session(ts, interval '400 ms' + v % 3 * interval '100 ms') AS w, k, count(*) AS n, sum(v) AS sv, count(DISTINCT v % 10) AS d FROM s GROUP BY w, k}, 'update',
		q{SELECT tstzrange(min(ts), max(until)) AS w, k, count(*) AS n, sum(v) AS sv, count(DISTINCT v % 10) AS d FROM (
		  SELECT *, count(*) FILTER (WHERE starts) OVER (PARTITION BY k ORDER BY ts, until) AS island FROM (
		  SELECT *, coalesce(ts > max(until) OVER (PARTITION BY k ORDER BY ts, until ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), true) AS starts FROM (
		  SELECT k, v, ts, ts + interval '400 ms' + v % 3 * interval '100 ms' AS until FROM below('sessions')) b) f) g GROUP BY k, island} ],
	copied => [
		q{SELECT k, v, ts FROM s WHERE v % 2 = 0}, 'append',
		q{SELECT k, v, ts FROM below('copied') WHERE v % 2 = 0} ],
	# a row without a match comes out when the watermark has passed its range
	joined => [
		q{SELECT a.k, a.v, a.ts, b.v AS bv FROM (SELECT * FROM s WHERE v % 3 = 0) a LEFT JOIN (SELECT * FROM s WHERE v % 3 = 0) b ON a.name = b.name AND b.ts > a.ts AND b.ts <= a.ts + interval '20 seconds'}, 'append',
		q{SELECT a.k, a.v, a.ts, b.v AS bv FROM (SELECT * FROM below('joined') WHERE v % 3 = 0) a
		  LEFT JOIN (SELECT * FROM below('joined') WHERE v % 3 = 0) b ON a.name = b.name AND b.ts > a.ts AND b.ts <= a.ts + interval '20 seconds'
		  WHERE b.ts IS NOT NULL OR a.ts <= (SELECT watermark FROM upto WHERE name = 'joined') - interval '20.001 seconds'} ]);

# Those that run; a test may ask for more.
my @names = ('appended', 'copied', 'sessions', 'updated');

sub also { push @names, @_; }

sub names { return sort @names; }

sub all_names { my ($node) = @_; return (names(), $node->{outside} ? 'outside' : ()); }

sub set_up
{
	my ($node, %options) = @_;
	my $json = join(', ', map { "\"$_\": \"$options{$_}\"" } sort keys %options);
	$node->sql($objects);
	for my $name (names())
	{
		my ($select, $mode) = @{ $queries{$name} };
		$node->sql("SELECT create_query('$name', \$q\$$select\$q\$, sink => '${name}_sink', output_mode => '$mode', "
			  . "options => '{$json}')");
	}
}

sub start_all { my ($node) = @_; $node->sql("SELECT start_query('$_')") for all_names($node); }
sub stop_all { my ($node) = @_; $node->sql("SELECT stop_query('$_', '60 s')") for all_names($node); }
sub drain { my ($node) = @_; $node->sql("SELECT process_all_available('$_', '120 s')") for all_names($node); }

# A query whose sink lies outside PostgreSQL: files in a folder of the server.
sub set_up_outside
{
	my ($node, %options) = @_;
	my $directory = "$node->{dir}/out";
	mkdir $directory;
	chown((getpwnam('postgres'))[ 2, 3 ], $directory) if $> == 0;
	my $json = join(', ', map { "\"$_\": \"$options{$_}\"" } sort keys %options);
	$node->sql("SELECT create_query('outside', 'SELECT k, v, ts FROM s WHERE v % 3 = 0', sink => 'directory', "
		  . "options => '{\"directory\": \"$directory\"" . ($json ? ", $json" : '') . "}')");
	$node->{outside} = $directory;
}

# What differs between the files and the rows below the committed offsets. Rows may be
# missing while an intent waits; nothing may be there twice, or that was not
# committed. Only while no query runs: files don't know snapshots.
sub outside_differences
{
	my ($node, $directory) = @_;
	$directory ||= $node->{outside} or return '';
	return $node->sql(qq{
		WITH line AS (SELECT l::jsonb AS j FROM pg_ls_dir('$directory') f,
			LATERAL regexp_split_to_table(pg_read_file('$directory/' || f), E'\n') l WHERE f ~ '\.jsonl\$' AND l <> ''),
		have AS (SELECT (j->>'k')::int AS k, (j->>'v')::bigint AS v, (j->>'ts')::timestamptz AS ts FROM line),
		want AS MATERIALIZED (SELECT k, v, ts FROM below('outside') WHERE v % 3 = 0),
		extra AS (SELECT * FROM have EXCEPT ALL SELECT * FROM want),
		lost AS (SELECT * FROM want EXCEPT ALL SELECT * FROM have)
		SELECT concat_ws('; ', (SELECT 'files have ' || count(*) || ' rows too many, e.g. ' || min(extra::text) FROM extra HAVING count(*) > 0),
			(SELECT 'files miss ' || count(*) || ' rows and no intent waits' FROM lost HAVING count(*) > 0
			 AND NOT EXISTS (SELECT 1 FROM streamx.intent)))});
}

# What differs between a sink and the batch answer over the rows below the
# committed offsets; '' if nothing. One statement, one snapshot.
sub differences
{
	my ($node, $name) = @_;
	my $wanted = $queries{$name}[2];
	my $columns = { appended => 'w, k, n, sv', updated => 'name, n, sv, last', sessions => 'w, k, n, sv, d', copied => 'k, v, ts', joined => 'k, v, ts, bv', handled => 'k, upto, n, sv',
		deduped => 'k, d, w', chained => 'w10, n, sd' }->{$name};
	my $sql = qq{
		WITH want AS MATERIALIZED ($wanted), have AS MATERIALIZED (SELECT $columns FROM ${name}_sink),
		lost AS (SELECT * FROM want EXCEPT ALL SELECT * FROM have),
		extra AS (SELECT * FROM have EXCEPT ALL SELECT * FROM want),
		late AS (SELECT batch FROM streamx.batch b JOIN streamx.query q ON q.id = b.query
		         WHERE q.name = '$name' AND progress ~ '"numRowsDroppedByWatermark": *[1-9]')
		SELECT concat_ws('; ', (SELECT 'lost ' || count(*) || ', e.g. ' || min(lost::text) FROM lost HAVING count(*) > 0),
			(SELECT 'extra ' || count(*) || ', e.g. ' || min(extra::text) FROM extra HAVING count(*) > 0),
			(SELECT 'late rows in batch ' || min(batch) FROM late HAVING count(*) > 0))};
	return $node->sql($sql);
}

# '' if all sinks are right
sub all_differences
{
	my ($node) = @_;
	return join('; ', grep { $_ ne '' } map { my $d = differences($node, $_); $d eq '' ? '' : "$_: $d" } names());
}

# Batches of the query that has the fewest.
sub batches
{
	my ($node) = @_;
	my $names = join(', ', map { "('$_')" } all_names($node));
	return $node->sql("SELECT min(coalesce(batch + 1, 0)) FROM (VALUES $names) n (name) LEFT JOIN upto USING (name)");
}

# At the end: everything in, everything out, and the answer of the batch query.
sub final_differences
{
	my ($node) = @_;
	drain($node);
	my $names = join(', ', map { "'$_'" } all_names($node));
	my $behind = $node->sql("SELECT count(*) FROM ref r, upto u WHERE u.name IN ($names) AND NOT pg_visible_in_snapshot(r.tx, u.snapshot)");
	return "$behind rows never read" if $behind ne '0';
	if ($node->{outside})
	{
		$node->poll('SELECT count(*) = 0 FROM streamx.intent', 't', 30) or return 'intents stay';
	}
	return join('; ', grep { $_ ne '' } all_differences($node), outside_differences($node));
}

1;
