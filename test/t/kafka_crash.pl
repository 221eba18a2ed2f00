# Keyed events from four partitions of a real broker go through queries in append
# and update mode, into tables and into topics, while workers, the postmaster and the
# broker are killed, stopped and started. At the end each table equals the batch query
# over the same topic, which is read anew by a plain SELECT, and a consumer that reads
# what is committed sees each result once in the topics: those of the tables.
#
# The short form has 40,000 events; SX_CRASH_LONG=1 has 500,000 and more rounds.
use strict;
use warnings;

use FindBin;
use Test::More;
use Time::HiRes qw(sleep time);

use lib $FindBin::Bin;
use SxCluster;
use KafkaBroker;

my $long = $ENV{SX_CRASH_LONG};
my $events = $long ? 500_000 : 40_000;
my $rounds = $long ? 6 : 1;
my $seed = $ENV{SX_SEED} || time ^ $$;
srand($seed);
diag("seed $seed");

my $kafka = KafkaBroker->new;
my $node = SxCluster->new('kafka_crash', conf => [ 'restart_after_crash = off', 'max_connections = 40', 'streamx.batch_rows = 3000' ]);
$node->start;
$node->sql('CREATE EXTENSION streamx');
my $address = $kafka->address;
$kafka->create_topic('events', 4);
$node->sql("CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '$address')");
$node->sql(q{CREATE FOREIGN TABLE events (id int, k int, v int, ts timestamptz OPTIONS (watermark '5 seconds'),
	part int OPTIONS (metadata 'partition'), off bigint OPTIONS (metadata 'offset'))
	SERVER broker OPTIONS (topic 'events', format 'json', epoch_unit 'milliseconds', starting_offsets 'earliest', discovery_interval '1 s')});

$kafka->create_topic($_, 4) for 'relayed', 'told';
$node->sql("CREATE FOREIGN TABLE relayed_out (id int, k int, v int, part int, off bigint) SERVER broker OPTIONS (topic 'relayed', format 'json')");
$node->sql("CREATE FOREIGN TABLE told_out (k int, n bigint, total bigint, last int) SERVER broker OPTIONS (topic 'told', format 'json', key_columns 'k')");

my %queries = (
	copied => [ 'append', 'SELECT id, k, v, part, off FROM events' ],
	summed => [ 'update', 'SELECT k, count(*) AS n, sum(v) AS total, max(id) AS last FROM events GROUP BY k' ],
);
# The same into topics
$queries{relayed} = $queries{copied};
$queries{told} = $queries{summed};
my %is_topic = (relayed => 1, told => 1);
for my $name (sort keys %queries)
{
	$node->sql("SELECT start_query('$name', \$q\$$queries{$name}[1]\$q\$, sink => '${name}_out', output_mode => '$queries{$name}[0]')");
}

# In the background, in bursts; a broker that is away makes it try a burst again. A
# burst that failed may be in the topic all the same: the topic is what counts.
my $done = SxCluster::base_dir() . '/produced';
my $producer = fork() // die "fork: $!";
if ($producer == 0)
{
	my $burst = $events / 40;
	for my $i (0 .. 39)
	{
		my @records = map {
			{ key => 'k' . $_ % 997, value => sprintf('{"id":%d,"k":%d,"v":%d,"ts":%d}', $_, $_ % 997, $_ % 101, $_) }
		} $i * $burst .. ($i + 1) * $burst - 1;
		until (eval { $kafka->produce('events', @records); 1 }) { sleep 1; }
		sleep 0.2;
	}
	open my $f, '>', $done;
	close $f;
	POSIX::_exit(0);
}

sub worker_pid
{
	return (split /\n/, $node->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'streamx query' ORDER BY random()"))[0];
}

sub go_on
{
	my ($what) = @_;
	$node->start unless $node->is_up;
	ok($node->poll("SELECT bool_and(state IN ('running', 'starting')) FROM streamx.queries", 't', 90), "$what: all queries run again");
}

# Those of a batch, and of its publication (in the short form two of them), in builds
# that have them.
sub crash_points
{
	my ($rc) = $node->try_sql('SHOW streamx.crash_point');
	my @publishing = sort { rand() <=> 0.5 } qw(publish produced marked kafka-committed published);
	return $rc == 0 ? (qw(after-read after-sink-write before-commit after-commit), $long ? @publishing : @publishing[ 0, 1 ]) : ();
}

for my $round (1 .. $rounds)
{
	last if $round > 1 && -e $done;
	sleep 0.5 + rand;
	my $pid = worker_pid();
	kill 9, $pid if $pid;
	ok($node->wait_down(30), 'a killed worker takes the server down');
	go_on('worker killed in mid-batch');

	sleep 0.5 + rand;
	$kafka->stop;
	sleep 1 + rand 2;
	$kafka->start;
	go_on('broker stopped and started');

	sleep rand;
	$node->kill9;
	go_on('kill -9 of the postmaster');

	for my $point (crash_points())
	{
		last if $long && -e $done;	# without events no point is reached
		$node->set('streamx.crash_point', "$point:kill:" . (1 + int(rand(3))));
		$node->reload;
		my $down = $node->wait_down(30);
		$node->set('streamx.crash_point', '');
		$node->stop('immediate') unless $down;
		ok($down || -e $done, "killed at $point");
		go_on("killed at $point");
	}

	sleep rand;
	$kafka->kill9;
	$node->stop('immediate');
	$kafka->start;
	go_on('broker and server killed together');
}
waitpid $producer, 0;
ok(-e $done, 'all events are written');

for my $name (sort keys %queries)
{
	ok($node->poll("SELECT process_all_available('$name', '120 s') IS NOT NULL", 't', 120), "$name: has come to the end");

	# A broker that was away for long gave up the transaction that was open: 40001.
	is($node->sql("SELECT count(*) FROM streamx.failures WHERE query = '$name' AND sqlstate NOT LIKE '08%' AND sqlstate NOT LIKE '57%'"
		. ($is_topic{$name} ? " AND sqlstate <> '40001'" : '')), '0', "$name: it failed of nothing but the broker");
	next if $is_topic{$name};
	my $columns = $name eq 'copied' ? 'id, k, v, part, off' : 'k, n, total, last';
	my $differences = $node->sql("WITH answer AS MATERIALIZED ($queries{$name}[1])
		SELECT count(*) FROM ((SELECT $columns FROM answer EXCEPT ALL SELECT $columns FROM ${name}_out)
			UNION ALL (SELECT $columns FROM ${name}_out EXCEPT ALL SELECT $columns FROM answer)) d");
	is($differences, '0', "$name: the table equals the batch answer");
}
cmp_ok($node->sql('SELECT count(DISTINCT id) FROM copied_out'), '==', $events, 'every event came');

# ---- the topics

# Lines without the names of JSON
sub lines { return map { join ' ', /:(-?\d+)/g } @_; }

my @relayed = lines($kafka->values_of('relayed', seconds => 120));
my @copied = split /\n/, $node->sql("SELECT concat_ws(' ', id, k, v, part, off) FROM copied_out");
is(scalar(@relayed), scalar(@copied), 'relayed: as many results as in the table');
ok(join("\n", sort @relayed) eq join("\n", sort @copied), 'relayed: the same ones, each once');

# All of a key are in one partition, in order: none was told again or taken back.
my (%told, $disorder);
for my $line (lines($kafka->values_of('told', seconds => 120)))
{
	my ($k, $n) = split / /, $line;
	$disorder = "$line after $told{$k}" if $told{$k} && (split / /, $told{$k})[1] >= $n;
	$told{$k} = $line;
}
is($disorder, undef, 'told: each key has its results once, in order');
is(join("\n", sort values %told), join("\n", sort split /\n/, $node->sql("SELECT concat_ws(' ', k, n, total, last) FROM summed_out")),
	'told: the last ones are those of the table');
$node->stop;
done_testing();
