# outbox.pl
#		A sink outside PostgreSQL gets every batch once: it dies at every point of
#		the protocol, is away, was restored, or is not to be written at all.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use SxCluster;
use Test::More;
use Time::HiRes qw(time sleep);

my $node = SxCluster->new('outbox');
$node->start;
$node->sql('CREATE EXTENSION streamx');
my $out = "$node->{dir}/out";
mkdir $out;
chown((getpwnam('postgres'))[ 2, 3 ], $out) if $> == 0;

$node->sql("SELECT create_stream('s', 'n int, ts timestamptz')");
my $next = 0;

sub create
{
	my (%options) = @_;
	my $json = join ', ', map { "\"$_\": \"$options{$_}\"" } sort keys %options;
	$json = ", $json" if $json;
	unlink glob "$out/*";
	$node->sql("SELECT create_query('q', 'SELECT n FROM s', sink => 'directory',
		options => '{\"directory\": \"$out\", \"starting_offsets\": \"latest\"$json}'); SELECT start_query('q')");
	$node->sql("SELECT process_all_available('q', '60 s')");
}

# n more rows, once, even if the server is in a crash restart
sub insert
{
	my ($n) = @_;
	$node->poll("INSERT INTO s SELECT i, now() FROM generate_series($next + 1, $next + $n) i
		WHERE NOT EXISTS (SELECT FROM s WHERE n > $next); SELECT true") or die 'cannot insert';
	$next += $n;
}

# All rows of all files, sorted.
sub rows
{
	return join ' ', sort { $a <=> $b } map { /"n":(\d+)/g } map { SxCluster::slurp($_) } glob "$out/*.jsonl";
}

sub files { return scalar(my @f = glob "$out/*.jsonl"); }
sub mark { my ($f) = glob "$out/*.mark"; return SxCluster::slurp($f) + 0; }
sub state { return $node->sql("SELECT state FROM streamx.queries WHERE name = 'q'"); }
sub drop { $node->sql("SELECT drop_query('q')"); }

sub wait_for_state
{
	my ($state) = @_;
	return $node->poll("SELECT state = '$state' FROM streamx.queries WHERE name = 'q'");
}

# ---- every point of the protocol, by error and by kill -9

my ($has_crash_points) = $node->try_sql('SHOW streamx.crash_point');
SKIP:
{
	skip 'built without crash points', 18 if $has_crash_points != 0;
	for my $action ('error', 'kill')
	{
		for my $point ('after-sink-write', 'before-commit', 'after-commit', 'publish', 'published-unmarked', 'published')
		{
			create();
			my $first = $next + 1;
			$node->set('streamx.crash_point', "$point:$action:2");
			$node->reload;
			sleep 0.2;
			for (1 .. 3)
			{
				insert(2);
				$node->try_sql("SELECT process_all_available('q', '2 s')");
			}
			$node->set('streamx.crash_point', '');
			$node->reload; # by the postmaster: a server that dies again and again takes no SQL
			sleep 0.2;
			insert(1);
			$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
			is(rows(), join(' ', $first .. $next), "$point:$action: every row is in the directory once");
			is($node->sql("SELECT count(*) > 0 FROM streamx.failures WHERE message = 'crash point \"$point\"'"), 't', "$point: the failure is written down")
			  if $action eq 'error';
			drop();
		}
	}
}

# ---- the sink is away

create(max_pending => 2);
my $first = $next + 1;
chmod 0500, $out;
rename $out, "$out.away";
for (1 .. 4)
{
	insert(1);
	$node->try_sql("SELECT process_all_available('q', '300 ms')");
}
ok(wait_for_state('sink_blocked'), 'a sink that is away blocks the query');
like($node->sql("SELECT waits_for FROM streamx.queries WHERE name = 'q'"), qr/^sink: could not create file/, 'the view says why');
is($node->sql('SELECT count(DISTINCT batch) FROM streamx.intent'), 2, 'as many batches as allowed went on');
my $pid = $node->sql("SELECT pid FROM streamx.queries WHERE name = 'q'");
sleep 6; # longer than a query without rows waits for the next look
my $ticks = SxCluster::ticks($pid);
sleep 3;
cmp_ok(SxCluster::ticks($pid) - $ticks, '<', 15, 'the worker sleeps meanwhile');
ok($node->sql("SELECT stop_query('q')"), 'stop works while it is blocked');
$node->sql("SELECT start_query('q')");
rename "$out.away", $out;
chmod 0755, $out;
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(rows(), join(' ', $first .. $next), 'once it is back every row arrives once, in all its batches');
is($node->sql('SELECT count(*) FROM streamx.intent'), 0, 'and the outbox is empty');

# ---- PostgreSQL went back: the mark is ahead

$node->sql("SELECT stop_query('q')");
my $before = rows();
my ($mark_file) = glob "$out/*.mark";
open my $f, '>', $mark_file;
print $f "1000\n";
close $f;
insert(1);
$node->sql("SELECT start_query('q')");
ok(wait_for_state('sink_ahead'), 'a mark ahead of the checkpoint stops the query');
is(rows(), $before, 'nothing is written');
$node->try_sql("SELECT start_query('q')");
ok(wait_for_state('sink_ahead'), 'again without a decision, it stops again');
$node->sql("SELECT start_query('q', on_rewind => 'continue_after_sink')");
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(rows(), "$before $next", 'continue_after_sink: what is new is written');
is(mark(), 1001, 'behind what the sink had');
is($node->sql("SELECT batch_id FROM streamx.queries WHERE name = 'q'"), 1001, 'batch ids go on there');
$node->sql("SELECT stop_query('q'); SELECT start_query('q')");
insert(1);
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(mark(), 1002, 'and it needs the decision no more');

# ---- the sink lost its mark

$node->sql("SELECT stop_query('q')");
unlink $mark_file;
$node->sql("SELECT start_query('q')");
ok(wait_for_state('sink_unknown'), 'a mark that is gone stops the query');
$node->sql("SELECT start_query('q', on_rewind => 'continue_after_sink')");
insert(1);
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is($node->sql("SELECT on_rewind IS NULL FROM streamx.query WHERE name = 'q'"), 't', 'a decision to go on without it is good for once');
$node->sql("SELECT stop_query('q'); SELECT start_query('q')");
insert(1);
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is($node->sql("SELECT state FROM streamx.queries WHERE name = 'q'"), 'running', 'and is not asked for again');

$node->sql("SELECT stop_query('q')");
unlink $mark_file;
insert(1);
$node->sql("SELECT start_query('q')");
ok(wait_for_state('sink_unknown'), 'a mark that should be there and is not stops the query');
$before = rows();
$node->sql("SELECT start_query('q', on_rewind => 'new_incarnation')");
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(rows(), "$before $next", 'new_incarnation: what is new is written');
my @marks = glob "$out/*.mark";
is(scalar(@marks), 1, 'under a new mark');
isnt($marks[0], $mark_file, 'of a new incarnation');
drop();

# ---- clones

create();
$node->sql("ALTER SYSTEM SET streamx.external_sinks = 'muted'");
$node->restart;
insert(3);
$node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(rows(), '', 'muted: it runs and writes nothing');
$node->sql("ALTER SYSTEM SET streamx.external_sinks = 'off'");
$node->restart;
ok($node->poll("SELECT state <> 'running' FROM streamx.queries WHERE name = 'q'"), 'off: it does not start');
is(rows(), '', 'and writes nothing');

done_testing();
