# Queries in append and update mode, with writers going on, are killed at every
# crash point, by a raised error, with the postmaster, by immediate stops. After
# every restart, before the first new batch, each sink equals the batch query over
# the rows below its committed offsets; at the end it equals the batch answer.
#
# The short form goes once through the points; SX_CRASH_LONG=1 goes five times, and
# on until 1,000 batches, on both stores, with plenty and with little memory.
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
my %points = map { $_ => 1 } `grep -rhoE 'SX_CRASH_POINT\\("[^"]+"\\)' "$FindBin::Bin/../../src"` =~ /"([^"]+)"/g;
my @points = sort keys %points;
ok(@points > 0, 'the code has crash points: ' . join(', ', @points));

my %hits;

# Starts the server with queries held back, checks, lets them go.
sub recover_and_check
{
	my ($node, $what) = @_;
	$node->set('streamx.crash_point', '');
	$node->set('streamx.enabled', 'off');
	$node->start;
	my $differences = join('; ', grep { $_ ne '' } StreamCheck::all_differences($node), StreamCheck::outside_differences($node));
	is($differences, '', "$what: each sink equals the batch query below its offsets, before the first new batch");
	return $differences eq '';
}

sub let_go
{
	my ($node, $point) = @_;
	$node->set('streamx.crash_point', $point);
	$node->set('streamx.enabled', 'on');
	$node->reload;
}

sub wait_batches
{
	my ($node, $more) = @_;
	my $from = StreamCheck::batches($node);
	return $node->poll("SELECT coalesce(sum(batch + 1), 0) >= $from + $more FROM upto", 't', 60);
}

# One round: the server runs held back when it begins and when it ends.
sub kill_round
{
	my ($node, $point) = @_;
	my $pass = 1 + int(rand(4));
	let_go($node, "$point:kill:$pass");
	if (!$node->wait_down(12))
	{
		$node->stop('immediate');
		recover_and_check($node, "$point not reached, stopped at once instead");
		return 0;
	}
	$hits{"$point by kill"}++;
	return recover_and_check($node, "killed at $point, pass $pass");
}

sub error_round
{
	my ($node, $point) = @_;
	my $pass = 1 + int(rand(4));
	my $raised = sub { return scalar(() = SxCluster::slurp($node->{log}) =~ /crash point "\Q$point\E"/g) };
	my $before = $raised->();
	let_go($node, "$point:error:$pass");
	my $reached = 0;
	for (1 .. 100)
	{
		last if $reached = $raised->() > $before;
		sleep 0.1;
	}
	$hits{"$point by error"}++ if $reached;
	$node->set('streamx.crash_point', '');
	$node->reload;
	ok(wait_batches($node, 6), "the queries go on after an error at $point" . ($reached ? '' : ' (not reached)'));
	is(StreamCheck::all_differences($node), '', "error at $point, pass $pass: the sinks are right while the queries go on");
	$node->stop('immediate');
	recover_and_check($node, "stopped at once after an error at $point");
}

sub random_round
{
	my ($node) = @_;
	let_go($node, '');
	wait_batches($node, 1 + int(rand(10)));
	sleep rand(0.5);
	my $how = int(rand(4));
	if ($how == 0) { $node->kill9; }
	elsif ($how == 1) { $node->stop('immediate'); }
	elsif ($how == 2) { $node->stop('fast'); }
	else
	{
		my $pid = $node->sql("SELECT pid FROM pg_stat_activity WHERE backend_type ~ 'streamx' ORDER BY random() LIMIT 1");
		kill 9, $pid if $pid;
		$node->wait_down(20);
	}
	recover_and_check($node, ('kill -9 of the postmaster', 'an immediate stop', 'a fast stop', 'kill -9 of a worker')[$how]);
}

sub matrix
{
	my ($label, $times, $batches, $conf, %options) = @_;
	my $node = SxCluster->new($label, conf => [ 'restart_after_crash = off', 'streamx.enabled = off', 'max_connections = 40', @$conf ]);
	$node->start;
	StreamCheck::set_up($node, %options);
	StreamCheck::set_up_outside($node, %options);
	StreamCheck::start_all($node);
	$node->sql('SELECT write_rows(30000)');
	my @writers = map { $node->background('CALL write_for_a_while(300, 0.05)') } 1 .. 2;

	for my $time (1 .. $times)
	{
		for my $point (@points)
		{
			kill_round($node, $point);
			error_round($node, $point);
		}
		random_round($node) for 1 .. 3;
	}
	random_round($node) while StreamCheck::batches($node) < $batches;

	let_go($node, '');
	$node->stop_background($_) for @writers;
	is(StreamCheck::final_differences($node), '', "$label: at the end each sink equals the batch answer");
	note("$label: " . StreamCheck::batches($node) . ' batches, ' . $node->sql('SELECT count(*) FROM ref') . ' rows');
	$node->remove;
}

if ($long)
{
	for my $store ('rocksdb', 'table')
	{
		matrix("$store, plenty of memory", 5, 1000, [], state_store => $store);
		matrix("$store, 4 MB, asynchronous commit", 5, 1000, ['synchronous_commit = off'],
			state_store => $store, state_memory => '4MB');
	}
	for my $point (@points)
	{
		cmp_ok($hits{"$point by $_"} || 0, '>=', 5, "$point was hit at least five times by $_") for 'kill', 'error';
	}
}
else
{
	matrix('rocksdb, 4 MB', 1, 100, ['synchronous_commit = off'], state_store => 'rocksdb', state_memory => '4MB');
	matrix('table', 0, 60, [], state_store => 'table', state_memory => '4MB');
}
note("$_: $hits{$_}") for sort keys %hits;
done_testing();
