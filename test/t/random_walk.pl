# random_walk.pl
#		Whatever is done to them in whatever order, queries give the batch answer.
#
# A step writes (small, large, in subtransactions, rolled back, prepared), alters
# the stream or the options of a query, stops, starts, kills or restarts; now and
# then all that was written is processed and each sink is compared with the batch
# query. Groups outgrow state_memory many times over.
#
#	SX_SEED=n		the seed, printed
#	SX_WALK=seconds	how long (30)
use strict;
use warnings;

use FindBin;
use List::Util qw(max min);
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::Bin;
use SxCluster;

my $seed = $ENV{SX_SEED} || int(time * 1000) ^ $$;
my $seconds = $ENV{SX_WALK} || 30;
srand($seed);
diag("SX_SEED=$seed");

my $node = SxCluster->new('walk', conf => [
	'max_prepared_transactions = 10', 'streamx.stream_segment_size = 1MB', 'restart_after_crash = on',
	'autovacuum_naptime = 1s', 'synchronous_commit = off' ]);
$node->start;
$node->sql(<<'SQL');
CREATE EXTENSION streamx;
CREATE SEQUENCE clock;
CREATE TABLE ref (k int, name text, v numeric, ts timestamptz, part bigint);
SELECT create_stream('s', '(k int, name text, v numeric, ts timestamptz, WATERMARK FOR ts AS ts - INTERVAL ''1 minute'')');

-- the same rows into both; timed: the clock moves by 20 ms a row
CREATE SEQUENCE parts;
CREATE FUNCTION put(n int, timed bool) RETURNS void LANGUAGE plpgsql AS $f$
DECLARE
	spread int = CASE WHEN random() < 0.5 THEN 8000 ELSE 300 END;
	this bigint = nextval('parts');
BEGIN
	INSERT INTO ref
	SELECT nullif((random() * 20)::int, 7), CASE WHEN i % 50 <> 0 THEN md5((i % spread)::text) END || repeat(md5((i % spread)::text || 'x'), 3),
	       CASE WHEN i % 2 = 0 THEN (i % 40)::numeric(10,0) ELSE (i % 40)::numeric(10,2) END,
	       CASE WHEN timed THEN timestamptz '2026-01-15 00:00:00+00' + nextval('clock') * interval '20 milliseconds'
	                            - random() * interval '3 seconds' END, this
	FROM (SELECT (random() * 100000)::int AS i FROM generate_series(1, n)) g;
	INSERT INTO s (k, name, v, ts) SELECT k, name, v, ts FROM ref WHERE part = this ORDER BY ts;	-- in pieces, too, no row is late
END $f$;
CREATE INDEX ON ref (part);
SQL

# name => [SELECT over %s, output mode, condition on the batch answer]
my %queries = (
	windows => [ q{SELECT tumble(ts, '5 seconds') AS w, k, count(*) AS n, sum(v)::int AS sv FROM %s GROUP BY w, k}, 'append',
		q{WHERE upper(w) <= (SELECT b.watermark FROM streamx.batch b JOIN streamx.query q ON q.id = b.query
		  WHERE q.name = 'windows' ORDER BY b.batch DESC LIMIT 1)} ],
	latest => [ q{SELECT hop(ts, '10 seconds', '5 seconds') AS w, name, count(*) AS n, max(ts) AS last FROM %s GROUP BY w, name}, 'update', '' ],
	names => [ q{SELECT name, count(*) AS n, array_agg(v ORDER BY v)::text AS vs, count(DISTINCT k) AS ks FROM %s GROUP BY name HAVING count(*) %% 3 <> 0}, 'update', '' ],
	numbers => [ q{SELECT v AS num, k, count(*) AS n, min(ts) AS first FROM %s GROUP BY v, k}, 'complete', '' ],
	total => [ q{SELECT count(*) AS n, sum(v)::int AS sv FROM %s}, 'update', '' ],
	copied => [ q{SELECT k, name, v::int AS v, ts FROM %s}, 'append', '' ]);
my @names = sort keys %queries;

sub random_options
{
	return join ', ',
	  '"state_memory": "' . (1 + int(rand(3))) . 'MB"',
	  '"batch_rows": ' . (50, 400, 3000, 100000)[ rand 4 ],
	  '"batches_to_retain": ' . (2, 20, 100)[ rand 3 ],
	  '"changelog_checkpointing": ' . (rand() < 0.8 ? 'true' : 'false'),
	  '"state_store": "' . (rand() < 0.5 ? 'rocksdb' : 'table') . '"';
}

for my $name (@names)
{
	my ($select, $mode) = @{ $queries{$name} };
	$node->sql(sprintf("SELECT create_query('$name', \$q\$$select\$q\$, sink => '${name}_sink', output_mode => '$mode', options => '{"
		  . random_options() =~ s/%/%%/gr . "}')", 's'));
	$node->sql("SELECT start_query('$name')");
}
$node->sql('CHECKPOINT');		# what a kill at once would undo

# ---- steps ----

my @log;
my %prepared;
my $nprepared = 0;
my $columns = 0;

sub any { return $_[ rand @_ ] }

# Statements that a restart may interrupt are given up; those that must be done, are.
sub must
{
	my ($sql) = @_;
	my $end = time + 60;
	while (1)
	{
		my ($rc, $out, $err) = $node->try_sql($sql);
		return $out if $rc == 0;
		die "$err\nin: $sql" if time > $end || $err !~ /starting up|in recovery|shutting down|terminat|No such file|not yet accepting|refused|could not connect|server closed/;
		sleep 0.2;
	}
}

sub several_at_once
{
	my @pids;
	for (1 .. 3)
	{
		my ($n, $pause) = (1 + int(rand(400)), rand(0.1));
		my $pid = fork() // die "fork: $!";
		if ($pid == 0)
		{
			$node->try_sql("BEGIN; SELECT put($n, true); SELECT pg_sleep($pause); SELECT put($n, false); COMMIT; SELECT put(3, true)");
			POSIX::_exit(0);
		}
		push @pids, $pid;
	}
	waitpid $_, 0 for @pids;
}

my %steps = (
	'10 small' => sub { must("SELECT put(" . (1 + int(rand(30))) . ", true)") },
	'6 large' => sub { must("SELECT put(" . (500 + int(rand(1500))) . ", true)") },
	'6 several' => \&several_at_once,
	'3 rolled back' => sub { must("BEGIN; SELECT put(300, true); ROLLBACK") },
	'3 savepoints' => sub { must("BEGIN; SELECT put(20, true); SAVEPOINT a; SELECT put(500, true); ROLLBACK TO a; SELECT put(20, true); COMMIT") },
	# they may end when their time is over, so they have none
	'3 prepare' => sub {
		return if keys %prepared >= 5;
		my $id = 'p' . ++$nprepared;
		must("BEGIN; SELECT put(" . (1 + int(rand(600))) . ", false); PREPARE TRANSACTION '$id'");
		$prepared{$id} = 1;
	},
	'3 end prepared' => sub {
		my ($id) = keys %prepared or return;
		delete $prepared{$id};
		must((rand() < 0.8 ? 'COMMIT' : 'ROLLBACK') . " PREPARED '$id'");
	},
	# it would wait for prepared transactions that wrote the stream
	'2 alter stream' => sub {
		return if keys %prepared;
		if ($columns > 0 && rand() < 0.5) { must("ALTER FOREIGN TABLE s DROP COLUMN extra$columns"); $columns = 0; }
		elsif ($columns == 0) { $columns = 1 + int(rand(1e9)); must("ALTER FOREIGN TABLE s ADD COLUMN extra$columns int DEFAULT 7"); }
	},
	'6 options' => sub { must("SELECT alter_query('" . any(@names) . "', options => '{" . random_options() . "}')") },
	'4 stop and start' => sub { my $name = any(@names); must("SELECT stop_query('$name', '60 s')"); must("SELECT put(100, true); SELECT start_query('$name')"); },
	'4 stop all' => sub { must("SELECT stop_query(name, '60 s') FROM streamx.queries"); must("SELECT put(1000, true)"); must("SELECT start_query(name) FROM streamx.queries"); },
	'3 terminate' => sub { must("SELECT pg_terminate_backend(pid) FROM streamx.queries WHERE name = '" . any(@names) . "'") },
	'2 cancel' => sub { must("SELECT pg_cancel_backend(pid) FROM streamx.queries WHERE name = '" . any(@names) . "'") },
	'2 kill a worker' => sub {
		my $pid = must("SELECT pid FROM streamx.queries WHERE pid IS NOT NULL ORDER BY random() LIMIT 1") or return;
		must("CHECKPOINT") if rand() < 0.3;
		kill 9, $pid;
		# until the postmaster knows: without it nobody ends those who wait for a latch that the dead one held
		my $end = time + 20;
		sleep 0.05 while -e "/proc/$pid" && time < $end;
		sleep 0.3;
	},
	'1 kill the server' => sub { $node->kill9; $node->start; },
	'1 stop at once' => sub { $node->stop('immediate'); $node->start; },
	'1 restart' => sub { $node->restart },
	'2 flush or not' => sub { must("ALTER SYSTEM SET synchronous_commit = " . any('on', 'off', 'off')); must("SELECT pg_reload_conf()"); },
	'2 vacuum' => sub { must("VACUUM " . any('', 'FREEZE')) },
	'5 pause' => sub { sleep rand(0.3) });

my @deck = map { my ($weight) = /^(\d+)/; ($_) x $weight } sort keys %steps;

# ---- comparing ----

sub differences
{
	my ($name) = @_;
	my ($select, $mode, $condition) = @{ $queries{$name} };
	my $want = sprintf($select, 'ref');
	my $columns = must("SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '${name}_sink'::regclass AND attnum > 0");
	return must(qq{
		WITH want AS MATERIALIZED (SELECT * FROM ($want) x $condition), have AS MATERIALIZED (SELECT $columns FROM ${name}_sink),
		lost AS (SELECT * FROM want EXCEPT ALL SELECT * FROM have),
		extra AS (SELECT * FROM have EXCEPT ALL SELECT * FROM want)
		SELECT concat_ws('; ', (SELECT 'lost ' || count(*) || ' of ' || (SELECT count(*) FROM want) || ', e.g. ' || left(min(lost::text), 200) FROM lost HAVING count(*) > 0),
			(SELECT 'extra ' || count(*) || ', e.g. ' || left(min(extra::text), 200) FROM extra HAVING count(*) > 0),
			(SELECT 'batch ' || min(batch_id) || ' does not balance' FROM streamx.conservation WHERE query = '$name' AND balanced IS NOT TRUE HAVING count(*) > 0),
			(SELECT 'verify: ' || left(min(v::text), 200) FROM streamx.verify('$name') v WHERE kind NOT IN ('not checked', 'note') HAVING count(*) > 0),
			(SELECT 'state ' || state || ' ' || last_error FROM streamx.queries WHERE name = '$name' AND state IN ('failed', 'sink_ahead', 'finished')))});
}

sub compare
{
	my $all = 1;
	for my $name (@names)
	{
		my $end = time + 60;
		while (1)
		{
			# it raises the error of a query that was cancelled or terminated a moment ago
			my ($rc, $out, $err) = $node->try_sql("SELECT process_all_available('$name', '60 s')");
			last if $rc == 0;
			# a start whose commit was not on disk when the server was killed
			must("SELECT start_query('$name')") if $err =~ /It is stopped/;
			die "$name: $err" if time > $end || $err =~ /damaged/;
			sleep 0.2;
		}
		my $differences = differences($name);
		next if $differences eq '';
		$all = 0;
		diag("$name: $differences");
	}
	return $all;
}

must('SELECT put(2000, true)');	# no rows have no batch, and so no total
my $end = time + $seconds;
my $compared = 0;
my $step = 0;
my $ok = 1;
while ($ok && time < $end)
{
	for (1 .. 3 + int(rand(12)))
	{
		my $what = any(@deck);
		push @log, ++$step . ': ' . $what =~ s/^\d+ //r;
		note($log[-1]) if $ENV{SX_WALK_TELL};
		$steps{$what}->();
	}
	$ok = compare();
	$compared++;
}
ok($ok, "after each of $compared rounds of steps every sink equals the batch answer") or diag("seed $seed; last steps: @log[max(0, @log - 40) .. $#log]");
note("$step steps, " . must("SELECT count(*) FROM ref") . ' rows, ' . must("SELECT sum(batch_id) FROM streamx.queries") . ' batches, ' . must("SELECT count(*) FROM streamx.failures") . ' failures');
cmp_ok(must("SELECT sum(n) FROM latest_sink"), '>', 1000, 'there was something to compare');
done_testing();
