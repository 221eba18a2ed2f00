# kafka_faults.pl
#		A broker that hangs, is cut off, answers late or not at all, refuses, or gives
#		up a transaction: a query that reads from it and one that writes to it say so,
#		stop at once all the same, and lose and double nothing.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use IO::Handle;
use IO::Socket::INET;
use KafkaBroker;
use SxCluster;
use TcpProxy;
use Test::More;
use Time::HiRes qw(time sleep);

# The workers reach the broker by the proxy, also after they have read who it is; the
# tools reach it directly.
my $port;
for (1 .. 50)
{
	my $try = 30000 + 3 * int(rand 900);
	next if grep { IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $try + $_) } 0 .. 2;
	$port = $try;
	last;
}
my $proxy = TcpProxy->new($port + 2, undef, kafka => 1);
my $kafka = KafkaBroker->new(port => $port, properties => [
	"listeners=PLAINTEXT://127.0.0.1:$port,PROXIED://127.0.0.1:" . ($port + 2) . ',CONTROLLER://127.0.0.1:' . ($port + 1),
	"advertised.listeners=PLAINTEXT://127.0.0.1:$port,PROXIED://127.0.0.1:" . $proxy->port,
	'listener.security.protocol.map=PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT',
	'transaction.abort.timed.out.transaction.cleanup.interval.ms=500' ]);
my $node = SxCluster->new('kafka_faults');
$node->start;
$node->sql('CREATE EXTENSION streamx');
$node->sql("CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '127.0.0.1:" . $proxy->port . "')");
$kafka->create_topic('taken', 2);
$kafka->create_topic('given', 2);
$kafka->create_topic('inserted', 2);
$node->sql("SELECT create_stream('s', 'n int')");
$node->sql("CREATE FOREIGN TABLE taken (n int) SERVER broker OPTIONS (topic 'taken', format 'json', starting_offsets 'earliest', discovery_interval '1 s')");
$node->sql("CREATE FOREIGN TABLE given (n int) SERVER broker OPTIONS (topic 'given', format 'json', \"kafka.transaction.timeout.ms\" '4000')");
$node->sql("CREATE FOREIGN TABLE inserted (n int) SERVER broker OPTIONS (topic 'inserted', format 'json', \"kafka.transaction.timeout.ms\" '4000')");
$node->sql("SELECT start_query('reader', 'SELECT n FROM taken', sink => 'taken_out')");
$node->sql("SELECT start_query('writer', 'SELECT n FROM s', sink => 'given')");
my @queries = ('reader', 'writer');
my $sent = 0;

# Rows for both queries; the topic gets its own directly.
sub send_rows
{
	my ($n) = @_;
	$kafka->produce('taken', map { "{\"n\":$_}" } $sent + 1 .. $sent + $n);
	$node->sql("INSERT INTO s SELECT generate_series($sent + 1, $sent + $n); INSERT INTO inserted SELECT generate_series($sent + 1, $sent + $n)");
	$sent += $n;
}

sub numbers { return join ' ', sort { $a <=> $b } @_; }

sub arrived
{
	my ($what) = @_;
	my $wanted = numbers(1 .. $sent);
	for my $query (@queries)
	{
		ok($node->poll("SELECT process_all_available('$query', '60 s') IS NOT NULL", 't', 90), "$what: $query has come to the end");
	}
	is($node->sql("SELECT string_agg(n::text, ' ' ORDER BY n) FROM taken_out"), $wanted, "$what: every row was read once");
	is(numbers(map { /"n":(\d+)/ } $kafka->values_of('given')), $wanted, "$what: every row was written once");
	ok($node->poll("SELECT sum(rows) = 0 FROM streamx.outbox"), "$what: the outbox is empty");
	is(numbers(map { /"n":(\d+)/ } $kafka->values_of('inserted')), $wanted, "$what: every row that was inserted is there once");
}

# Within a second, or what a small machine under load makes of it
sub stops
{
	my ($what) = @_;
	for my $query (@queries)
	{
		my $begin = time;
		is(($node->try_sql("SELECT stop_query('$query', '20 s')"))[1], 't', "$what: $query stops");
		cmp_ok(time - $begin, '<', 3, "$what: at once");
	}
}

sub start_both { $node->sql("SELECT start_query('$_')") for @queries; }

sub server_stops
{
	my ($what) = @_;
	my $begin = time;
	ok($node->stop, "$what: the server stops");
	cmp_ok(time - $begin, '<', 3, "$what: at once");
	$node->start;
}

sub says
{
	my ($what, $query, $condition) = @_;
	ok($node->poll("SELECT $condition FROM streamx.queries WHERE name = '$query'", 't', 30), $what)
	  or diag($node->sql("SELECT q FROM streamx.queries q WHERE name = '$query'"));
}

my $knows = "(state IN ('retrying', 'sink_blocked') OR waits_for LIKE 'sink: %')";

send_rows(10);
arrived('at first');

# ---- silent, cut off, slow: in the middle, at a stop, at a start, and when the server stops

for my $mode ('hang', 'cut', 'deaf', '400')
{
	$proxy->be($mode);
	send_rows(10);
	if ($mode ne '400')
	{
		says("$mode: the view says what is wrong with the output", 'writer', $knows);
		says("$mode: and with the input", 'reader', "state = 'retrying' AND last_error IS NOT NULL AND hint IS NOT NULL");
	}
	else
	{
		sleep 1;
	}
	stops($mode);
	start_both();
	sleep 1;
	stops("$mode, while it starts");
	start_both();
	sleep 0.5;
	server_stops($mode);
	$proxy->be('pass');
	start_both() if $node->sql("SELECT count(*) FROM streamx.queries WHERE state = 'stopped'") > 0;
	arrived($mode);
}

# ---- the answer to a commit is lost

for my $i (1 .. 3)
{
	$proxy->be('deaf');
	$node->sql("INSERT INTO s VALUES ($sent + 1); INSERT INTO inserted VALUES ($sent + 1)");
	$kafka->produce('taken', '{"n":' . ++$sent . '}');
	sleep 0.3 * $i;
	$proxy->be('pass');
	arrived("answers lost for $i");
}

# ---- a transaction that the brokers gave up, as its producer was away too long

$proxy->be('hang');
send_rows(5);
sleep 7;
stops('transaction given up');
start_both();
$proxy->be('pass');
arrived('transaction given up');
$proxy->be('hang');
send_rows(5);
sleep 7;
$proxy->be('pass');
arrived('transaction given up, and the producer goes on');

# ---- answers of the broker that say what they should not: whatever it did, the mark tells

# Only the query that writes
sub written
{
	my ($what) = @_;
	my $wanted = numbers(1 .. $sent);
	for (1 .. 20)
	{
		# what retries could not cure in time is a person's to start again
		$node->try_sql("SELECT start_query('writer')") if $node->sql("SELECT state IN ('failed', 'stopped') FROM streamx.queries WHERE name = 'writer'") eq 't';
		last if ($node->try_sql("SELECT process_all_available('writer', '20 s')"))[0] == 0;
		sleep 0.3;
	}
	is(numbers(map { /"n":(\d+)/ } $kafka->values_of('given')), $wanted, "$what: every row was written once");
}

sub insert_rows
{
	my ($n) = @_;
	$node->sql("INSERT INTO s SELECT generate_series($sent + 1, $sent + $n); INSERT INTO inserted SELECT generate_series($sent + 1, $sent + $n)");
	$kafka->produce('taken', map { "{\"n\":$_}" } $sent + 1 .. $sent + $n);
	$sent += $n;
}

# key of the request in Kafka's protocol, error, how often; at a start or while it runs
my @answers = (
	[ 'produce: not the leader', 0, 6, 2 ], [ 'produce: not enough replicas', 0, 19, 2 ], [ 'produce: timeout', 0, 7, 1 ],
	[ 'produce: storage error', 0, 56, 1 ], [ 'produce: out of order', 0, 45, 1 ], [ 'produce: unknown producer', 0, 59, 1 ],
	[ 'produce: epoch', 0, 47, 1 ], [ 'produce: too large', 0, 10, 1 ],
	[ 'partition: not the coordinator', 24, 16, 1 ], [ 'partition: concurrent', 24, 51, 3 ], [ 'partition: producer forgotten', 24, 49, 1 ],
	[ 'partition: epoch', 24, 47, 1 ], [ 'mark: coordinator loads', 28, 14, 2 ], [ 'mark: group moved', 28, 16, 1 ], [ 'mark: epoch', 28, 47, 1 ],
	[ 'offsets: coordinator away', 25, 15, 1 ], [ 'commit: timeout', 26, 7, 1 ], [ 'commit: not the coordinator', 26, 16, 1 ],
	[ 'commit: state', 26, 48, 1 ], [ 'commit: fenced', 26, 90, 1 ], [ 'commit: epoch', 26, 47, 1 ],
	[ 'start: coordinator loads', 22, 14, 2, 'start' ], [ 'start: concurrent', 22, 51, 2, 'start' ], [ 'start: no coordinator', 10, 15, 2, 'start' ],
	[ 'start: mark unstable', 9, 88, 2, 'start' ]);
for my $case (@answers)
{
	my ($what, $key, $error, $times, $at_start) = @$case;
	$node->sql("SELECT stop_query('writer', '20 s')") if $at_start;
	$proxy->be("error $key $error $times");
	insert_rows(3);
	$node->sql("SELECT start_query('writer')") if $at_start;
	for (1 .. 100) { last if $proxy->left == 0; sleep 0.1; }
	is($proxy->left, 0, "$what: was answered so");
	written($what);
}

# Those that last: somebody has to act, and the view says why
for my $case ([ 'no right to the topic', 0, 29, 'ACL' ], [ 'no right to the group', 28, 30, 'ACL' ],
	[ 'no right to the transactional id', 22, 53, 'ACL', 'start' ], [ 'record refused', 0, 87, 'Look at the record' ])
{
	my ($what, $key, $error, $word, $at_start) = @$case;
	$node->sql("SELECT stop_query('writer', '20 s')") if $at_start;
	$proxy->be("error $key $error 100000");
	insert_rows(3);
	$node->sql("SELECT start_query('writer')") if $at_start;
	says("$what: the view says so", 'writer', "hint ~ '$word'");
	$proxy->be('pass');
	$node->sql("SELECT stop_query('writer', '20 s'); SELECT start_query('writer')");	# at once, not when it would look again
	written($what);
}
$proxy->be('pass');
arrived('answers that were wrong');

# ---- somebody takes the transactional id, and sets no mark

my $id = 'streamx-' . $node->sql("SELECT system_identifier || '-' || incarnation || '-0-0' FROM pg_control_system(), streamx.query WHERE name = 'writer'");
$kafka->create_topic('elsewhere', 1);
for (1 .. 2)
{
	$kafka->produce_with({ transaction => $id }, 'elsewhere', 'x');
	send_rows(5);
	arrived('fenced by one who sets no mark');
}

# ---- the broker dies with both

$kafka->kill9;
$node->sql("INSERT INTO s SELECT generate_series($sent + 1, $sent + 5); INSERT INTO inserted SELECT generate_series($sent + 1, $sent + 5)");
says('broker lost: the view says so', 'writer', $knows);
stops('broker lost');
start_both();
$kafka->start;
$kafka->produce('taken', map { "{\"n\":$_}" } $sent + 1 .. $sent + 5);
$sent += 5;
arrived('broker lost');

# ---- rows that the topic refuses, since its limit sank after it was asked: waiting may cure it

$kafka->create_topic('narrow', 1);
$node->sql("CREATE FOREIGN TABLE narrow (t text) SERVER broker OPTIONS (topic 'narrow', format 'json')");
$node->sql("SELECT create_stream('w', 't text')");
$node->sql("SELECT start_query('wide', 'SELECT t FROM w', sink => 'narrow')");
$node->sql("INSERT INTO w VALUES ('fits')");
ok($node->poll("SELECT process_all_available('wide', '30 s') IS NOT NULL"), 'a row that fits is taken');
$kafka->set_topic('narrow', 'max.message.bytes=500');
$node->sql("INSERT INTO w SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i");
says('refused: the view says why', 'wide', "waits_for ILIKE '%sink: %'");
like($node->sql("SELECT message || coalesce(detail, '') FROM streamx.failures WHERE query = 'wide' ORDER BY at DESC LIMIT 1"), qr/narrow.*(too large|size)/i,
	'and the list of failures');
@queries = ('wide');
stops('refused');
is(scalar($kafka->values_of('narrow')), 1, 'nothing more is in the topic');
$kafka->set_topic('narrow', 'max.message.bytes=1000000');
$node->sql("SELECT start_query('wide')");
ok($node->poll("SELECT process_all_available('wide', '30 s') IS NOT NULL"), 'with a higher limit it is taken');
is(scalar($kafka->values_of('narrow')), 2, 'once');


# ---- errors that a broker does not give when asked for them: librdkafka's mock cluster

SKIP:
{
	skip 'no module streamx_kafka_test', 1
	  if $node->sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'streamx_kafka_test'") == 0;
	$node->sql('CREATE EXTENSION streamx_kafka_test');

	# It lives in this session.
	my $base = SxCluster::base_dir();
	open my $session, '|-', $node->psql_command or die "psql: $!";
	$session->autoflush(1);
	my $step = 0;
	my $mock = sub {
		my ($sql) = @_;
		my $out = "$base/mock." . ++$step;
		print $session "\\o $out.new\n$sql;\n\\o\n\\! mv $out.new $out\n";
		for (1 .. 200) { last if -e $out; sleep 0.05; }
		my $answer = SxCluster::slurp($out);
		chomp $answer;
		return $answer;
	};
	my $address = $mock->('SELECT kafka_mock_start(2)');
	$mock->("SELECT kafka_mock_topic('m', 2)");
	$node->sql("CREATE SERVER mock FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '$address')");
	$node->sql("CREATE FOREIGN TABLE mocked (n int) SERVER mock OPTIONS (topic 'm', format 'json', starting_offsets 'earliest', discovery_interval '1 s')");
	$node->sql("SELECT start_query('mocked', 'SELECT n FROM mocked', sink => 'mocked_out')");
	@queries = ('mocked');
	my $n = 0;
	my $produce = sub {
		my $tool = dirname(__FILE__) . '/../harness/kafkatool';
		$kafka->must(join('', map { "{\"n\":$_}\n" } $n + 1 .. $n + 5), $tool, '-b', $address, 'produce', '-t', 'm');
		$n += 5;
	};
	my $all = sub {
		my ($what) = @_;
		ok($node->poll("SELECT string_agg(n::text, ' ' ORDER BY n) FROM mocked_out", join(' ', 1 .. $n), 60), "$what: every row was read once");
	};
	$produce->();
	$all->('mock cluster');

	# keys of the requests in Kafka's protocol, and errors
	for my $case ([ 'fetch: not the leader', 1, 6, 6 ], [ 'fetch: storage error', 1, 56 ], [ 'fetch: timeout', 1, 7, 7 ],
		[ 'fetch: leader epoch', 1, 74, 76 ], [ 'offsets: no leader', 2, 5, 6 ], [ 'offsets: timeout', 2, 7 ])
	{
		my ($what, $api, @errors) = @$case;
		$mock->("SELECT kafka_mock_fail($api, " . join(', ', @errors) . ')');
		$produce->();
		$all->($what);
	}

	$mock->('SELECT kafka_mock_delay(1, 700), kafka_mock_delay(2, 700)');
	$produce->();
	stops('slow mock');
	start_both();
	sleep 0.5;
	stops('slow mock, while it starts');
	start_both();
	$all->('slow mock');
	$mock->('SELECT kafka_mock_delay(1, 0), kafka_mock_delay(2, 0)');

	$produce->();
	$mock->('SELECT kafka_mock_down(1)');
	$mock->('SELECT kafka_mock_down(2)');
	says('brokers down: the view says so', 'mocked', "state = 'retrying' AND hint IS NOT NULL");
	stops('brokers down');
	start_both();
	$mock->('SELECT kafka_mock_up(1)');
	$mock->('SELECT kafka_mock_up(2)');
	$all->('brokers up again');
	$node->sql("SELECT stop_query('mocked')");
	close $session;
}

$node->stop;
done_testing();
