# CASE-30, for tables and files. Queries in append and update mode, with writers going on, are killed at every
# crash point, by a raised error, with the postmaster, by immediate stops. After
# every restart, before the first new batch, each sink equals the batch query over
# the rows below its committed offsets; at the end it equals the batch answer.
#
# A point that is not reached fails the test: the log must say that a process was
# killed there, streamx.failures that an error was raised there, and every query
# must go on after it.
#
# The short form goes once through the points. SX_CRASH_LONG=1 reaches each at least
# five times each way and goes on until every query has had 1,000 batches, on both
# stores, with plenty and with little memory, with and without waiting for the log;
# CONFIGS names some of these, as in 'rocksdb-4MB'.
use strict;
use warnings;

use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::Bin;
use SxCluster;
use StreamCheck;

my $long = $ENV{SX_CRASH_LONG};
my $seed = $ENV{SX_SEED} || time ^ $$;
srand($seed);
diag("seed $seed");

# Every point that the code names.
# Those that need a broker have kafka_sink.pl, kafka_insert.pl and kafka_crash.pl.
my %points = map { $_ => 1 } `grep -rhoE --exclude='kafka_*' --exclude=publisher.c 'SX_CRASH_POINT\\("[^"]+"\\)' "$FindBin::Bin/../../src"` =~ /"([^"]+)"/g;
my @points = sort keys %points;
ok(@points > 0, 'the code has crash points: ' . join(', ', @points));

StreamCheck::also('joined', 'handled', 'deduped', 'chained');

my %hits;

# Starts the server with queries held back, and checks.
sub recover_and_check
{
	my ($node, $what) = @_;
	$node->set('streamx.crash_point', '');
	$node->set('streamx.enabled', 'off');
	$node->start;
	my $differences = join('; ', grep { $_ ne '' } StreamCheck::all_differences($node), StreamCheck::outside_differences($node));
	is($differences, '', "$what: each sink equals the batch query below its offsets, before the first new batch");
}

sub let_go
{
	my ($node, $point) = @_;
	$node->set('streamx.crash_point', $point);
	$node->set('streamx.enabled', 'on');
	$node->reload;
}

# Until something is so. What needs much new state (spills, snapshots) gets bursts of
# rows at once, anything else if it takes long.
sub wait_writing
{
	my ($node, $point, $is_so) = @_;
	my $begin = time;
	my $burst = $begin + ($point =~ /^(spill|merge)$/ ? 0.5 : 5);
	until ($is_so->())
	{
		return 0 if time > $begin + 60;
		sleep 0.1;
		next if time < $burst;
		$node->try_sql('SELECT write_rows(4000)');
		$burst = time + 0.5;
	}
	return 1;
}

# Every query has so many batches more than now.
sub wait_batches
{
	my ($node, $more) = @_;
	my $aims = $node->sql("SELECT string_agg(format('(%L, %s)', q.name, coalesce(u.batch, -1) + $more), ', ')
		FROM streamx.query q LEFT JOIN upto u USING (name)");
	return $node->poll("SELECT bool_and(coalesce(u.batch, -1) >= a.batch) FROM (VALUES $aims) a (name, batch) LEFT JOIN upto u USING (name)");
}

# Which pass over the point: an early one where passes are rare.
sub some_pass
{
	my ($point) = @_;
	return 1 + int(rand($point =~ /^(spill|merge)$/ ? 2 : 4));
}

# Each round finds the server up with queries held back, and leaves it so.
sub kill_round
{
	my ($node, $point) = @_;
	my $pass = some_pass($point);
	my $from = length(SxCluster::slurp($node->{log}));
	let_go($node, "$point:kill:$pass");
	my $down = wait_writing($node, $point, sub { !$node->is_up });
	$node->stop('immediate') unless $down;
	my $log = substr(SxCluster::slurp($node->{log}), $from);
	my @killed = grep { $log =~ /\(PID $_\) was terminated by signal 9/ } $log =~ /\[(\d+)\] [^\n]*crash point "\Q$point\E" kills this process/g;
	ok($down && @killed > 0, "a worker is killed at $point, pass $pass, and the server goes down");
	$hits{$point}{kill}++ if $down && @killed > 0;
	recover_and_check($node, "killed at $point");
}

sub error_round
{
	my ($node, $point) = @_;
	my $pass = some_pass($point);
	my $since = $node->sql('SELECT clock_timestamp()');
	let_go($node, "$point:error:$pass");
	my $raised = wait_writing($node, $point, sub {
		return $node->sql("SELECT count(*) FROM streamx.failures WHERE message = 'crash point \"$point\"' AND at >= '$since'") > 0;
	});
	ok($raised, "an error is raised at $point, pass $pass");
	$hits{$point}{error}++ if $raised;
	$node->set('streamx.crash_point', '');
	$node->reload;
	ok(wait_batches($node, 2), "every query goes on after an error at $point");
	is(StreamCheck::all_differences($node), '', "error at $point: the sinks are right while the queries go on");
	$node->stop('immediate');
	recover_and_check($node, "stopped at once after an error at $point");
}

sub random_round
{
	my ($node) = @_;
	my $how = int(rand(4));
	let_go($node, '');
	ok(wait_batches($node, 1 + int(rand($long ? 40 : 10))), 'every query goes on');
	sleep rand(0.5);
	if ($how == 0) { $node->kill9; }
	elsif ($how == 1) { $node->stop('immediate'); }
	elsif ($how == 2) { $node->stop('fast'); }
	else
	{
		my $pid = $node->sql("SELECT pid FROM pg_stat_activity WHERE backend_type ~ 'streamx' ORDER BY random() LIMIT 1");
		ok($pid && kill(9, $pid) && $node->wait_down(20), 'a killed worker takes the server down');
	}
	recover_and_check($node, ('kill -9 of the postmaster', 'an immediate stop', 'a fast stop', 'kill -9 of a worker')[$how]);
}

# Goes through all points or none, then on until there are enough batches.
sub matrix
{
	my ($label, $all_points, $batches, $conf, %options) = @_;
	my $begin = time;
	my $node = SxCluster->new($label, conf => [ 'restart_after_crash = off', 'streamx.enabled = off', 'max_connections = 40', @$conf ]);
	$node->start;
	StreamCheck::set_up($node, %options);
	StreamCheck::set_up_outside($node, %options);
	StreamCheck::start_all($node);
	$node->sql('SELECT write_rows(30000)');
	my @writers = map { $node->background('CALL write_for_a_while(300, 0.05)') } 1 .. 2;

	for my $point ($all_points ? @points : ())
	{
		next if $point eq 'spill' && !$options{state_memory};	# memory is never short
		kill_round($node, $point);
		error_round($node, $point);
	}
	random_round($node) for 1 .. ($all_points ? 3 : 1);
	random_round($node) while StreamCheck::batches($node) < $batches;

	let_go($node, '');
	$node->stop_background($_) for @writers;
	is(StreamCheck::final_differences($node), '', "$label: at the end each sink equals the batch answer");
	cmp_ok(StreamCheck::batches($node), '>=', $batches, "$label: every query had so many batches");
	diag(sprintf('%s: at least %d batches of each query, %d rows, %d s', $label, StreamCheck::batches($node),
			$node->sql('SELECT count(*) FROM ref'), time - $begin));
	$node->remove;
}

# Several short lives rather than a long one: checks take longer the more rows there are.
my $least = $ENV{CONFIGS} ? 0 : $long ? 5 : 1;
if ($long)
{
	my %wanted = map { $_ => 1 } split(' ', $ENV{CONFIGS} || 'rocksdb table rocksdb-4MB table-4MB');
	for my $store ('rocksdb', 'table')
	{
		for (1 .. ($wanted{"$store-4MB"} ? 3 : 0))
		{
			matrix("$store-4MB", 1, 1000, ['synchronous_commit = off'], state_store => $store, state_memory => '4MB');
		}
		matrix($store, 1, 1000, [], state_store => $store) for 1 .. ($wanted{$store} ? 2 : 0);
	}
}
else
{
	matrix('rocksdb-4MB', 1, 40, ['synchronous_commit = off'], state_store => 'rocksdb', state_memory => '4MB');
	matrix('table-4MB', 0, 20, [], state_store => 'table', state_memory => '4MB');
}
diag(sprintf('%-20s %5s %5s', 'times hit by', 'kill', 'error'));
for my $point (@points)
{
	my ($kill, $error) = map { $hits{$point}{$_} || 0 } 'kill', 'error';
	diag(sprintf('%-20s %5d %5d', $point, $kill, $error));
	next unless $least;
	cmp_ok($kill, '>=', $least, "$point was hit by kill, $least times or more");
	cmp_ok($error, '>=', $least, "$point was hit by error, $least times or more");
}
done_testing();
