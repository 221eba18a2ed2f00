# kafka_sink.pl
#		Results go into a topic of Kafka once, whatever dies: the query's worker, the
#		server, the broker, or its right to write. On a real broker; faults that one
#		cannot be asked for are in kafka_faults.pl.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use KafkaBroker;
use SxCluster;
use Test::More;
use Time::HiRes qw(time sleep);

my $kafka = KafkaBroker->new;
my $node = SxCluster->new('kafka_sink');
$node->start;
$node->sql('CREATE EXTENSION streamx');
$node->sql("CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '" . $kafka->address . "')");
$node->sql("SELECT create_stream('s', 'n int, ts timestamptz')");
my $next = 0;
my $topics = 0;
my $topic;

# A new query into a new topic
sub create
{
	my (%options) = @_;
	my $query = delete $options{query} || 'SELECT n FROM s';
	my $mode = delete $options{output_mode} || 'append';
	my $json = join ', ', map { "\"$_\": \"$options{$_}\"" } sort keys %options;
	$topic = 't' . ++$topics;
	$kafka->create_topic($topic, 4);
	$query =~ s/'/''/g;
	$node->sql("CREATE FOREIGN TABLE $topic (key text, value text) SERVER broker OPTIONS (topic '$topic')");
	$node->sql("SELECT create_query('q', '$query', sink => '$topic', output_mode => '$mode',
		options => '{\"starting_offsets\": \"latest\"" . ($json ? ", $json" : '') . "}'); SELECT start_query('q')");
	$node->sql("SELECT process_all_available('q', '60 s')");
}

sub insert
{
	my ($n) = @_;
	$node->poll("INSERT INTO s SELECT i, now() FROM generate_series($next + 1, $next + $n) i
		WHERE NOT EXISTS (SELECT FROM s WHERE n > $next); SELECT true") or die 'cannot insert';
	$next += $n;
}

sub all_of { my ($n) = @_; insert($n) if $n; return $node->poll("SELECT process_all_available('q', '60 s') IS NOT NULL"); }

# The numbers in the topic, sorted
sub rows { return join ' ', sort { $a <=> $b } map { /"n":(\d+)/g } $kafka->values_of($topic); }
sub group { return 'streamx-' . $node->sql("SELECT incarnation FROM streamx.query WHERE name = 'q'"); }
sub mark { my %c = $kafka->committed(group(), $topic); return ($c{0}[0] // 0) - 1; }
sub drop { $node->sql("SELECT drop_query('q')"); }
sub deaths { my $n = () = SxCluster::slurp($node->{log}) =~ /was terminated by signal 9/g; return $n; }
sub wait_for_state { my ($s) = @_; return $node->poll("SELECT state = '$s' FROM streamx.queries WHERE name = 'q'"); }

# ---- every point of the protocol, by error and by kill -9

my ($has_crash_points) = $node->try_sql('SHOW streamx.crash_point');
SKIP:
{
	skip 'built without crash points', 29 if $has_crash_points != 0;
	for my $action ('error', 'kill')
	{
		for my $point ('after-sink-write', 'before-commit', 'after-commit', 'publish', 'produced', 'marked', 'kafka-committed', 'published')
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
			all_of(1);
			is(rows(), join(' ', $first .. $next), "$point:$action: every row is in the topic once");
			is($node->sql("SELECT count(*) > 0 FROM streamx.failures WHERE message LIKE '%$point%' OR detail LIKE '%$point%'"), 't',
				"$point: the failure is written down")
			  if $action eq 'error';
			drop();
		}
	}

	# CASE-30: killed before the topic has the first batch, within its transaction, before
	# that is known here, and after
	for my $point ('after-read', 'produced', 'marked', 'kafka-committed', 'published')
	{
		create();
		# a worker that starts now is sure to know the point
		$node->sql("SELECT stop_query('q')");
		$node->set('streamx.crash_point', "$point:kill:1");
		$node->reload;
		$node->poll("SELECT current_setting('streamx.crash_point') = '$point:kill:1'");
		$node->sql("SELECT start_query('q')");
		my $deaths = deaths();
		insert(3);
		for (1 .. 100) { last if deaths() > $deaths; sleep 0.1; }
		$node->set('streamx.crash_point', '');
		$node->reload;
		sleep 0.2;
		all_of(0);
		is((deaths() > $deaths) . ' ' . rows(), join(' ', 1, $next - 2 .. $next), "CASE-30: killed at $point: three rows");
		drop();
	}
}

# ---- the mark

create();
all_of(3);
is($node->sql('SELECT count(*) FROM streamx.intent'), 0, 'what is published is noted');
is(mark(), $node->sql("SELECT batch_id FROM streamx.queries WHERE name = 'q'"), 'the mark is the last batch');
my %committed = $kafka->committed(group(), $topic);
like($committed{0}[1], qr/"batch":\d+,"token":"[0-9a-f-]+","timeline":1,"run":"[0-9a-f-]{36}","at":\d+/, 'and says who set it');

# ---- the broker is stopped and started

my $first = $next - 2;
$kafka->kill9;
insert(2);
sleep 3;
like($node->sql("SELECT state FROM streamx.queries WHERE name = 'q'"), qr/running|sink_blocked/, 'without a broker the query goes on');
my $begin = time;
ok($node->sql("SELECT stop_query('q', '20 s')"), 'stop works while the broker is away');
cmp_ok(time - $begin, '<', 3, 'at once');
$node->sql("SELECT start_query('q')");
ok($node->poll("SELECT count(*) > 0 FROM streamx.failures WHERE query = 'q' AND sqlstate LIKE '08%'"), 'a start without the broker fails, and is tried again');
$begin = time;
ok($node->sql("SELECT stop_query('q', '20 s')"), 'stop works while it starts without a broker');
cmp_ok(time - $begin, '<', 3, 'at once');
$node->sql("SELECT start_query('q')");
$kafka->start;
all_of(1);
is(rows(), join(' ', $first .. $next), 'once it is back every row is there once');
drop();

# ---- a sink that is away blocks the query at max_pending, and undoes nothing

create(max_pending => 2);
$first = $next + 1;
all_of(1);
$kafka->stop;
for (1 .. 4)
{
	insert(1);
	$node->try_sql("SELECT process_all_available('q', '500 ms')");
}
ok(wait_for_state('sink_blocked'), 'without a broker max_pending batches go on');
is($node->sql('SELECT count(DISTINCT batch) FROM streamx.intent'), 2, 'no more');
ok($node->poll("SELECT waits_for LIKE 'sink: %' FROM streamx.queries WHERE name = 'q'"), 'the view says that the sink is waited for');
my $pid = $node->sql("SELECT pid FROM streamx.queries WHERE name = 'q'");
sleep 6; # longer than a query without rows waits for the next look
my $ticks = SxCluster::ticks($pid);
sleep 3;
cmp_ok(SxCluster::ticks($pid) - $ticks, '<', 15, 'the worker sleeps meanwhile');
$kafka->start;
all_of(0);
is(rows(), join(' ', $first .. $next), 'then all batches arrive once');
is($node->sql('SELECT count(*) FROM streamx.intent'), 0, 'and the outbox is empty');

# ---- PostgreSQL went back

my $copy = $node->base_backup('restored');
all_of(4);
my $before = rows();
$copy->append_conf("streamx.enabled = on");
$copy->start;
ok($copy->poll("SELECT state = 'sink_ahead' FROM streamx.queries WHERE name = 'q'"), 'a restored copy finds the mark ahead and stops');
all_of(1);
is(rows(), "$before $next", 'the primary is not fenced and goes on alone');
$copy->sql("INSERT INTO s SELECT 1000000 + i, now() FROM generate_series(1, 3) i");
ok($copy->poll("SELECT state = 'sink_ahead' FROM streamx.queries WHERE name = 'q'"), 'the copy stays stopped');
is(rows(), "$before $next", 'and writes nothing');
$copy->stop;

$copy->append_conf("streamx.external_sinks = muted");
$copy->start;
$copy->sql("SELECT start_query('q')");
$copy->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(rows(), "$before $next", 'muted it runs, and writes nothing');
$copy->stop;

# ---- a copy that is level with the primary takes its place: one of them writes, never both

$before = rows();
my $twin = $node->base_backup('twin');
$twin->start;
ok($twin->poll("SELECT state = 'running' FROM streamx.queries WHERE name = 'q'"), 'a copy that is level takes over');
insert(1);
ok($node->poll("SELECT state = 'failed' FROM streamx.queries WHERE name = 'q'"), 'the fenced one fails for good');
like($node->sql("SELECT last_error FROM streamx.queries WHERE name = 'q'"), qr/another process publishes/, 'and says why');
is(rows(), $before, 'it wrote nothing more');
$twin->sql("INSERT INTO s SELECT 2000000, now()");
$twin->poll("SELECT process_all_available('q', '60 s') IS NOT NULL");
is(rows(), "$before 2000000", 'the other one writes');
$twin->stop;
$node->sql("SELECT start_query('q')");
ok(wait_for_state('sink_ahead'), 'the old one, started again, sees that it was overtaken');
$node->sql("SELECT start_query('q', on_rewind => 'new_incarnation')");
all_of(0);
is(rows(), join(' ', split(/ /, $before), $next, 2000000), 'by decision it publishes under a new identity what the other could not know');
drop();

# ---- a new query of an old name skips nothing (CASE-31)

create();
$first = $next + 1;
all_of(2);
$node->sql("SELECT drop_query('q')");
$node->sql("SELECT create_query('q', 'SELECT n FROM s', sink => '$topic'); SELECT start_query('q')");
all_of(0);
is(rows(), join(' ', sort { $a <=> $b } $first .. $next, 1 .. $next), 'old and new rows are all there');
drop();

# ---- a topic that isn't there

$node->sql("CREATE FOREIGN TABLE nowhere (key text, value text) SERVER broker OPTIONS (topic 'nowhere')");
$node->sql("SELECT create_query('q', 'SELECT n FROM s', sink => 'nowhere'); SELECT start_query('q')");
ok($node->poll("SELECT state IN ('failed', 'retrying') AND hint LIKE '%Create the topic%' FROM streamx.queries WHERE name = 'q'"),
	'an unknown topic is an error with a hint');
$kafka->create_topic('nowhere', 1);
$node->sql("SELECT start_query('q')");
$topic = 'nowhere';
all_of(0);
is(rows(), join(' ', 1 .. $next), 'and once it is made all rows are there');
drop();

# ---- what only the topic would refuse is refused before the commit

$kafka->create_topic('small', 1, 'max.message.bytes=2000');
$node->sql("SELECT create_stream('sizes', 'n int')");
$node->sql("CREATE FOREIGN TABLE small (key text, value text) SERVER broker OPTIONS (topic 'small')");
$node->sql("SELECT create_query('q', 'SELECT CASE WHEN n > 0 THEN ''k'' END AS key, repeat(''x'', abs(n)) AS value FROM sizes', sink => 'small',
	options => '{\"on_error\": \"quarantine\"}'); SELECT start_query('q')");
my $processed = sub { $node->sql("SELECT process_all_available('q', '60 s')"); };
my $lengths = sub { return join ' ', map { length } $kafka->values_of('small'); };
$node->sql('INSERT INTO sizes SELECT 900 FROM generate_series(1, 50)');
$processed->();
is($lengths->(), join(' ', (900) x 50), 'more rows than the topic takes at once go in several batches');
$node->sql('INSERT INTO sizes VALUES (1), (5000), (2)');
$processed->();
is($lengths->(), join(' ', (900) x 50, 1, 2), 'a record that is too large for the topic is not handed over');
like($node->sql("SELECT message || ' ' || coalesce(data::text, '') FROM streamx.quarantine"), qr/too large for topic "small".*5000/, 'but put aside');
$node->sql("SELECT drop_query('q')");
$node->sql("SELECT create_query('q', 'SELECT CASE WHEN n > 0 THEN ''k'' END AS key, repeat(''x'', abs(n)) AS value FROM sizes', sink => 'small',
	options => '{\"starting_offsets\": \"latest\"}'); SELECT start_query('q')");
$processed->();
$node->sql('INSERT INTO sizes VALUES (3), (5000), (4)');
ok(wait_for_state('failed'), 'without the quarantine it fails the query');
my ($message, $needs) = $node->sql("SELECT message || ' ' || detail || ' ' || hint FROM streamx.failures WHERE query = 'q' ORDER BY at DESC LIMIT 1") =~ /(.*needs (\d+) .*)/;
like($message, qr/Row 2, with key "k".*takes 2000.*max\.message\.bytes/, 'which says which row, the limit, and what to do');
is($lengths->(), join(' ', (900) x 50, 1, 2), 'and nothing of its batch is in the topic');
$kafka->set_topic('small', 'max.message.bytes=6000');
$node->sql("SELECT start_query('q')");
$processed->();
my $fits = 5000 - ($needs - 6000);
$node->sql("INSERT INTO sizes VALUES ($fits)");
$processed->();
is($lengths->(), join(' ', (900) x 50, 1, 2, 3, 5000, 4, $fits), 'with a higher limit all arrive; one of exactly its size does');
$node->sql("INSERT INTO sizes VALUES ($fits + 1)");
ok(wait_for_state('failed'), 'one byte more is refused');
$kafka->set_topic('small', 'max.message.bytes=7000');
$node->sql("SELECT start_query('q')");
$processed->();
$kafka->set_topic('small', 'max.message.bytes=8000');
$node->sql('INSERT INTO sizes VALUES (-7500)');
$processed->();
is($lengths->(), join(' ', (900) x 50, 1, 2, 3, 5000, 4, $fits, $fits + 1, 7500), 'a limit that was raised meanwhile is asked for before a row is refused');
drop();

# ---- the topic says what the state says, of a query that never gives the same answer twice

$node->sql("CREATE TABLE rates (n int, rate numeric); INSERT INTO rates SELECT i, i FROM generate_series(0, 9) i");
$kafka->create_topic('drawn', 4);
$node->sql("CREATE FOREIGN TABLE drawn (k int, total numeric, n bigint) SERVER broker OPTIONS (topic 'drawn', format 'json', key_columns 'k')");
$node->sql("SELECT create_query('q', 'SELECT k, sum(x)::numeric AS total, count(*) AS n FROM (
	SELECT s.n % 10 AS k, r.rate + round(random()::numeric, 6) + round(extract(epoch FROM now()), 3) AS x
	FROM s JOIN rates r ON r.n = s.n % 10) d GROUP BY k', sink => 'drawn', output_mode => 'update'); SELECT start_query('q')");
my $changer = $node->background('UPDATE rates SET rate = rate + 1');
for my $i (1 .. 6)
{
	insert(50);
	$node->try_sql("SELECT process_all_available('q', '2 s')");
	$node->kill9 if $i == 2;
	$node->start if $i == 2;
	$kafka->kill9 if $i == 4;
	$kafka->start if $i == 4;
}
$node->stop_background($changer);
all_of(0);
my %last;
for my $record ($kafka->consume('drawn'))
{
	$last{ $record->{key} } = "$1 $2" if $record->{value} =~ /"total":([\d.]+),"n":(\d+)/;
}
my %lines = map { $_->{value} => 1 } $kafka->consume('drawn');
# A later batch builds on the total that an earlier one told: the chain of totals never goes back.
my %seen;
my $monotonic = 1;
for my $record ($kafka->consume('drawn'))
{
	my ($k, $total, $n) = $record->{value} =~ /"k":(\d+),"total":([\d.]+),"n":(\d+)/;
	$monotonic = 0 if $seen{$k} && ($seen{$k}[1] >= $n || $seen{$k}[0] >= $total);
	$seen{$k} = [ $total, $n ];
}
ok($monotonic, 'no total was told twice or taken back');
is(join(',', map { (split / /, $last{$_})[1] } 0 .. 9), join(',', map { int($next / 10) + ($_ >= 1 && $_ <= $next % 10 ? 1 : 0) } 0 .. 9),
	'every row is counted once');
# The state's own word: one more row for each key continues from the totals of the topic.
$node->sql("UPDATE rates SET rate = 0");
my %at = %last;
insert(10);
all_of(0);
%last = ();
for my $record ($kafka->consume('drawn'))
{
	$last{ $record->{key} } = $1 if $record->{value} =~ /"total":([\d.]+)/;
}
my $now = $node->sql('SELECT extract(epoch FROM now())');
my $off = grep { my $step = $last{$_} - (split / /, $at{$_})[0]; abs($step - $now) > 120 } 0 .. 9;
is($off, 0, 'the state goes on from what the topic says');
drop();

done_testing();
