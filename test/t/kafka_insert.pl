# kafka_insert.pl
#		INSERT and COPY into a topic of Kafka: published if and only if the transaction
#		commits, once, in the order of a session's commits, whatever dies meanwhile.
use strict;
use warnings;

use File::Basename;
use lib dirname(__FILE__);
use KafkaBroker;
use SxCluster;
use Test::More;
use Time::HiRes qw(time sleep);

my $kafka = KafkaBroker->shared;
my $node = SxCluster->new('kafka_insert', conf => ['max_prepared_transactions = 5']);
$node->start;
$node->sql('CREATE EXTENSION streamx');
$node->sql('CREATE TABLE sent (topic text, k int, PRIMARY KEY (topic, k))');
$node->sql("CREATE SERVER broker FOREIGN DATA WRAPPER streamx_kafka OPTIONS (bootstrap_servers '" . $kafka->address . "')");
my $prefix = "i$$";
my $number = 0;
my $topic;

sub stream
{
	$topic = $prefix . '_' . ++$number;
	$kafka->create_topic($topic, $_[0] || 1);
	$node->sql("CREATE FOREIGN TABLE $topic (k int, v text NOT NULL) SERVER broker OPTIONS (topic '$topic', format 'json', key_columns 'k')");
}

# Once, also if the server dies between its commit and its answer
sub insert_once
{
	my ($k) = @_;
	$node->poll("WITH new AS (INSERT INTO sent VALUES ('$topic', $k) ON CONFLICT DO NOTHING RETURNING k)
		INSERT INTO $topic SELECT k, 'x' FROM new; SELECT true") or die 'cannot insert';
}

# All that is committed has arrived
sub settled
{
	return $node->poll("SELECT coalesce(sum(rows), 0) = 0 FROM streamx.outbox WHERE stream = '$topic'::regclass", 't', 60);
}

# So that the next row becomes another batch
sub pause
{
	for (1 .. 7)
	{
		sleep 0.1;
		my ($rc, $out) = $node->try_sql("SELECT coalesce(sum(rows), 0) = 0 FROM streamx.outbox WHERE stream = '$topic'::regclass");
		last if $rc != 0 || $out eq 't';
	}
}

sub keys_in_order { return join ' ', map { $_->{key} } $kafka->consume($topic); }

# ---- if and only if

stream();
$node->sql("INSERT INTO $topic VALUES (1, 'a'), (2, 'b')");
$node->sql("BEGIN; INSERT INTO $topic VALUES (3, 'no'); ROLLBACK");
$node->sql("BEGIN; INSERT INTO $topic VALUES (4, 'c'); SAVEPOINT p; INSERT INTO $topic VALUES (5, 'no'); ROLLBACK TO p; INSERT INTO $topic VALUES (6, 'd'); COMMIT");
$node->sql("BEGIN; INSERT INTO $topic VALUES (7, 'e'); PREPARE TRANSACTION 'p'");
$node->sql("INSERT INTO $topic VALUES (8, 'f')");
$node->sql("COPY $topic FROM STDIN;\n9\tg\n10\th\n\\.\n");
settled();
is(keys_in_order(), '1 2 4 6 8 9 10', 'what is committed is there in order, what was rolled back is not');
$node->sql("COMMIT PREPARED 'p'");
ok(do { my $end = time + 10; sleep 0.2 until keys_in_order() eq '1 2 4 6 8 9 10 7' || time > $end; keys_in_order() eq '1 2 4 6 8 9 10 7' },
	'a prepared transaction is there once it is committed');
is(join(' ', ($kafka->values_of($topic))[0, 2]), '{"k":1,"v":"a"} {"k":4,"v":"c"}', 'as JSON');

# ---- what cannot be written is refused in the statement

like(($node->try_sql("INSERT INTO $topic VALUES (1, NULL)"))[2], qr/violates not-null constraint/, 'NOT NULL holds');
like(($node->try_sql("INSERT INTO $topic VALUES (1, repeat('x', 2000000))"))[2], qr/too large for Kafka/, 'a record that is too large is refused');
$node->sql("CREATE FOREIGN TABLE raw_$topic (key text, value text, topic text, partition int, headers jsonb) SERVER broker OPTIONS (mark_topic '$topic')");
like(($node->try_sql("INSERT INTO raw_$topic (value) VALUES ('x')"))[2], qr/has no topic/, 'a NULL topic is refused');
like(($node->try_sql("INSERT INTO raw_$topic (value, topic, headers) VALUES ('x', '$topic', '{}')"))[2], qr/headers .* are not valid/, 'headers of another shape are refused');
like(($node->try_sql("INSERT INTO raw_$topic (value, topic) VALUES ('x', 'a b')"))[2], qr/cannot be the name of a topic/, 'an impossible topic is refused');
$node->sql("INSERT INTO raw_$topic VALUES ('k', 'v', '$topic', 0, '[{\"key\": \"h\", \"value\": \"w\"}]'), ('gone', NULL, '$topic', NULL, NULL)");
$node->poll("SELECT sum(rows) = 0 FROM streamx.outbox WHERE stream = 'raw_$topic'::regclass");
my @last = ($kafka->consume($topic))[ -2, -1 ];
is($last[0]{headers}[0][1], 'w', 'headers arrive');
is($last[1]{value}, undef, 'a NULL value is a tombstone');
$node->sql("CREATE ROLE weak LOGIN");
like(($node->try_sql("INSERT INTO $topic VALUES (1, 'x')", user => 'weak'))[2], qr/permission denied/, 'INSERT is a right');
$node->sql("GRANT INSERT ON $topic TO weak");
$node->sql("INSERT INTO $topic VALUES (77, 'weak')", user => 'weak');
settled();
like(keys_in_order(), qr/ 77$/, 'that is enough');

# ---- what only the topic would refuse

my $small = "small_$topic";
$kafka->create_topic($_, 1, 'max.message.bytes=2000') for $small, "other_$small";
$node->sql("CREATE FOREIGN TABLE $small (key text, value text) SERVER broker OPTIONS (topic '$small')");
my $error = sub { return ($node->try_sql(@_))[2]; };
like($error->("INSERT INTO $small VALUES ('a', 'x'), ('b', repeat('x', 3000))"), qr/too large for topic "$small".*Row 2, with key "b": its record needs \d+ bytes, the topic takes 2000.*max\.message\.bytes/s,
	'a record that is too large for the topic is refused, before anything was published');
$node->sql("INSERT INTO $small SELECT 'c', repeat('x', 1000) FROM generate_series(1, 20)");
ok($node->poll("SELECT max_bytes = 2000 FROM streamx.kafka_publication WHERE stream = '$small'::regclass"), 'the publisher writes the limit down');
ok($node->poll("SELECT sum(rows) = 0 FROM streamx.outbox WHERE stream = '$small'::regclass"), 'many small records are more than the topic takes at once, and arrive');
like($error->("INSERT INTO $small VALUES ('d', repeat('x', 3000))"), qr/too large for topic/, 'and is refused by what is written down');
like($error->("COPY $small FROM STDIN;\ne\t" . ('x' x 3000) . "\n\\.\n"), qr/too large for topic/, 'COPY, too');
like($error->("INSERT INTO raw_$topic (value, topic) VALUES (repeat('x', 3000), 'other_$small')"), qr/too large for topic "other_$small"/, 'and where rows name their topics');
$kafka->set_topic($small, 'max.message.bytes=4000');
$node->sql("INSERT INTO $small VALUES ('f', repeat('x', 3000))");
ok($node->poll("SELECT sum(rows) = 0 FROM streamx.outbox WHERE stream = '$small'::regclass"), 'a limit that was raised is asked for before a row is refused');
is(join(' ', map { length } $kafka->values_of($small)), join(' ', (1000) x 20, 3000), 'what was not refused is there');

# ---- a topic that is not there

$node->sql("CREATE FOREIGN TABLE missing_$topic (key text, value text) SERVER broker OPTIONS (topic 'missing_$topic'); INSERT INTO missing_$topic VALUES ('a', 'x')");
ok($node->poll("SELECT last_error LIKE '%missing_$topic%' FROM streamx.outbox WHERE stream = 'missing_$topic'::regclass"), 'rows for an unknown topic wait, and the outbox says why');
$kafka->create_topic("missing_$topic");
ok($node->poll("SELECT rows = 0 FROM streamx.outbox WHERE stream = 'missing_$topic'::regclass"), 'once it is made they are published');
is(join(' ', $kafka->values_of("missing_$topic")), 'x', 'once');

# ---- crash points of the publisher

my ($has_crash_points) = $node->try_sql('SHOW streamx.crash_point');
SKIP:
{
	skip 'built without crash points', 16 if $has_crash_points != 0;
	for my $action ('error', 'kill')
	{
		for my $point ('assign', 'assigned', 'publisher-publish', 'produced', 'marked', 'kafka-committed', 'publisher-published')
		{
			stream();
			$node->set('streamx.crash_point', "$point:$action:2");
			$node->reload;
			sleep 0.2;
			for my $i (1 .. 3)
			{
				insert_once($i);
				pause();
			}
			$node->set('streamx.crash_point', '');
			$node->reload; # by the postmaster: a server that dies again and again takes no SQL
			sleep 0.2;
			insert_once(4);
			settled();
			is(keys_in_order(), '1 2 3 4', "$point:$action: every row is in the topic once, in order");
		}
	}
}

# ---- much at once, and from many sessions

stream(4);
$node->sql("INSERT INTO $topic SELECT i, repeat('x', 100) FROM generate_series(1, 100000) i");
settled();
my @keys = map { $_->{key} } $kafka->consume($topic);
my %distinct = map { $_ => 1 } @keys;
is(scalar(@keys) . ' ' . scalar(keys %distinct), '100000 100000', 'a large INSERT arrives whole, once');

stream(1);
my @writers = map
{
	my $w = $_;
	my $pid = fork();
	if ($pid == 0)
	{
		$node->try_sql(join '', map { "INSERT INTO $topic VALUES ($w, '$_');\n" } 1 .. 50);
		POSIX::_exit(0);
	}
	$pid;
} 1 .. 4;
waitpid $_, 0 for @writers;
settled();
my %order;
for my $record ($kafka->consume($topic))
{
	push @{ $order{ $record->{key} } }, $1 if $record->{value} =~ /"v":"(\d+)"/;
}
is(join(';', map { join ',', @{ $order{$_} } } 1 .. 4), join(';', (join ',', 1 .. 50) x 4), 'each session\'s rows come in the order of its commits');

# The scheduler, which has nothing to do, comes and goes meanwhile.
for (1 .. 3)
{
	sleep 1;
	$node->sql("INSERT INTO $topic VALUES (5, 'once more')");
	settled();
}
is($node->sql("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'streamx publisher'"), 1, 'one process publishes');

# ---- switched off and muted

$node->sql("ALTER SYSTEM SET streamx.external_sinks = 'off'; SELECT pg_reload_conf()");
sleep 0.5;
like(($node->try_sql("INSERT INTO $topic VALUES (1, 'x')"))[2], qr/switched off/, 'off: INSERT is refused');
$node->sql("ALTER SYSTEM SET streamx.external_sinks = 'muted'; SELECT pg_reload_conf()");
sleep 0.5;
$node->sql("INSERT INTO $topic VALUES (1, 'muted')");
$node->sql("ALTER SYSTEM RESET streamx.external_sinks; SELECT pg_reload_conf()");
sleep 0.5;
settled();
unlike(join(' ', $kafka->values_of($topic)), qr/muted/, 'muted: INSERT publishes nothing');

# ---- PostgreSQL went back

my $copy = $node->base_backup('restored');
$node->sql("INSERT INTO $topic VALUES (9, 'later')");
settled();
my $before = keys_in_order();
$copy->start;
$copy->sql("INSERT INTO $topic VALUES (5, 'of the copy')");
ok($copy->poll("SELECT state = 'sink_ahead' FROM streamx.outbox WHERE stream = '$topic'::regclass"), 'a restored copy finds the mark ahead and stops');
$node->sql("INSERT INTO $topic VALUES (6, 'x')");
settled();
is(keys_in_order(), "$before 6", 'and writes nothing; the primary goes on');
$copy->sql("SELECT resume_publishing('$topic', 'new_incarnation')");
$copy->poll("SELECT sum(rows) = 0 FROM streamx.outbox WHERE stream = '$topic'::regclass");
is(keys_in_order(), "$before 6 5", 'by decision it publishes what waits');

done_testing();
