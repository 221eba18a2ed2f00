# kafka_security.pl
#		TLS and SASL against a real broker; what goes wrong says so, and says no secret.
use strict;
use warnings;
use MIME::Base64 qw(encode_base64url);
use Test::More;
use Time::HiRes qw(time);
use KafkaBroker;
use SxCluster;

my $password = 's3cr3t!';
my $kafka = KafkaBroker->new(secure => 1, users => [ "alice:$password", 'bob:other' ]);
$kafka->create_topic('safe', 2);
$kafka->produce('safe', { key => 'k', value => 'one' }, { value => 'two', headers => [ [ 'h', 'x' ] ] });

# Everything that a server can be asked to write down.
my $node = SxCluster->new('secure', preload => 'streamx,streamx_syntax', conf => [
	'log_min_messages = debug1', 'log_min_error_statement = debug5', 'log_error_verbosity = verbose',
	'streamx.max_failures_in_a_row = 2' ]);
$node->start;
$node->sql('CREATE EXTENSION streamx; CREATE EXTENSION streamx_kafka_test; CREATE ROLE plain LOGIN; GRANT pg_read_all_stats TO plain;');
my $version = $node->sql('SELECT kafka_library_version()');

sub literal { my ($text) = @_; $text =~ s/'/''/g; return "'$text'"; }
sub options { my (%o) = @_; return join ', ', map { "\"$_\" " . literal($o{$_}) } sort keys %o; }

# What was said to the user so far, beside what is in the log.
my $said = '';

# Connects to a listener and lists the topics: (SQLSTATE or 'ok', all that was said).
sub connects
{
	my ($address, $server, $mapping) = @_;
	my $start = time;
	my ($rc, $out, $err) = $node->try_sql("\\set VERBOSITY verbose\n"
		. "BEGIN; CREATE SCHEMA topics;\n"
		. 'CREATE SERVER b FOREIGN DATA WRAPPER streamx_kafka OPTIONS (' . options(bootstrap_servers => $address, %$server) . ");\n"
		. ($mapping ? 'CREATE USER MAPPING FOR postgres SERVER b OPTIONS (' . options(%$mapping) . ");\n" : '')
		. "IMPORT FOREIGN SCHEMA x LIMIT TO (safe) FROM SERVER b INTO topics;\n"
		. "SELECT count(*) FROM pg_class WHERE relname = 'safe'; ROLLBACK;");
	$said .= $err;
	my $took = sprintf '%.1f s', time - $start;
	return ('ok', "$out in $took") if $rc == 0 && $out eq '1';
	return (($err =~ /ERROR:  (\w{5}):/)[0] // "nothing ($out)", "$err in $took");
}

sub connects_ok
{
	my ($name, @args) = @_;
	my ($state, $text) = connects(@args);
	is($state, 'ok', $name) or diag($text);
}

sub fails_with
{
	my ($name, $wanted, $pattern, @args) = @_;
	my ($state, $text) = connects(@args);
	is($state, $wanted, "$name: SQLSTATE $wanted") or diag($text);
	like($text, $pattern, "$name: says why") or diag($text);
	unlike($text, qr/\Q$password\E/, "$name: not the password");
}

my ($ca, $certificate, $key, $protected) = map { $kafka->tls($_) } qw(ca.pem client.crt client.key client.protected.key);
my %ssl = (security_protocol => 'SSL', ssl_ca_pem => $ca);
my %sasl_ssl = (security_protocol => 'SASL_SSL', ssl_ca_pem => $ca);
my %alice = (user => 'alice', password => $password);

connects_ok('without anything', $kafka->address, {});
connects_ok('TLS with the authority as PEM text', $kafka->address('ssl'), \%ssl);
connects_ok('TLS with a certificate of the client', $kafka->address('ssl'), \%ssl,
	{ ssl_certificate_pem => $certificate, ssl_key_pem => $key });
connects_ok('TLS with a key that has a password', $kafka->address('ssl'), \%ssl,
	{ ssl_certificate_pem => $certificate, ssl_key_pem => $protected, ssl_key_password => 'opensesame' });
connects_ok('TLS by the words of Java', $kafka->address('ssl'),
	{ 'kafka.security.protocol' => 'SSL', 'kafka.ssl.truststore.certificates' => $ca },
	{ 'kafka.ssl.keystore.certificate.chain' => $certificate, 'kafka.ssl.keystore.key' => $key });
connects_ok('SASL PLAIN with TLS', $kafka->address('sasl_ssl'), { %sasl_ssl, sasl_mechanism => 'PLAIN' }, \%alice);
connects_ok('SASL PLAIN with the line of JAAS', $kafka->address('sasl_plaintext'),
	{ 'kafka.security.protocol' => 'SASL_PLAINTEXT', 'kafka.sasl.mechanism' => 'PLAIN' },
	{ 'kafka.sasl.jaas.config' => qq{org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="$password";} });

my $claims = '{"sub":"alice","iat":' . int(time - 10) . ',"exp":' . int(time + 600) . '}';
my $token = join '.', encode_base64url('{"alg":"none"}'), encode_base64url($claims), '';
connects_ok('SASL OAUTHBEARER with a token', $kafka->address('sasl_ssl'),
	{ %sasl_ssl, sasl_mechanism => 'OAUTHBEARER' }, { sasl_oauthbearer_token => $token });
my $old = join '.', encode_base64url('{"alg":"none"}'), encode_base64url('{"sub":"alice","iat":1000,"exp":2000}'), '';
fails_with('a token of yesterday', '28000', qr/the token in the user mapping has expired/, $kafka->address('sasl_ssl'),
	{ %sasl_ssl, sasl_mechanism => 'OAUTHBEARER' }, { sasl_oauthbearer_token => $old });
fails_with('no token', '28000', qr/no token for Kafka brokers.*sasl_oauthbearer_token/s, $kafka->address('sasl_ssl'),
	{ %sasl_ssl, sasl_mechanism => 'OAUTHBEARER' });

# SCRAM. A library before 2.6.1 cannot do it with Kafka 4, and says so.
for my $mechanism ('SCRAM-SHA-256', 'SCRAM-SHA-512')
{
	my @args = ($kafka->address('sasl_ssl'), { %sasl_ssl, sasl_mechanism => $mechanism }, \%alice);
	if ($version >= 0x02060100) { connects_ok("$mechanism with TLS", @args); next; }
	fails_with("$mechanism with this library and Kafka 4", '28000', qr/HINT:.*cannot do SCRAM with brokers of Kafka 4, 2\.6\.1 and newer can/, @args);
}

# ---- what goes wrong
my $start = time;
fails_with('a wrong password', '28000', qr/Authentication failed.*HINT:  Check user and password/s, $kafka->address('sasl_ssl'),
	{ %sasl_ssl, sasl_mechanism => 'PLAIN' }, { user => 'alice', password => "not-$password" });
cmp_ok(time - $start, '<', 15, 'and it does not take the time of a broker that is away');
fails_with('no user at all', '28000', qr/DETAIL:  librdkafka: /, $kafka->address('sasl_ssl'), { %sasl_ssl, sasl_mechanism => 'PLAIN' }, { user => 'nobody', password => $password });
fails_with('the wrong authority', '28000', qr/HINT:.*ssl_ca_pem/, $kafka->address('ssl'), { %ssl, ssl_ca_pem => $certificate });
fails_with('no authority', '28000', qr/HINT:.*ssl_ca_pem/, $kafka->address('ssl'), { security_protocol => 'SSL' });
fails_with('a key without its password', 'HV00L', qr/could not make a Kafka client/, $kafka->address('ssl'), \%ssl,
	{ ssl_certificate_pem => $certificate, ssl_key_pem => $protected, ssl_key_password => $password });
fails_with('nobody listens', '08006', qr/Connection refused.*HINT:  Check that the brokers run/s, '127.0.0.1:1', {});
fails_with('a mistyped option', 'HV00D', qr/invalid Kafka option "pasword"/, $kafka->address('sasl_ssl'), { %sasl_ssl, sasl_mechanism => 'PLAIN' }, { user => 'alice', pasword => $password });

# ---- SCRAM with a broker that takes it from any library
if ($version < 0x02060100)
{
	$kafka->stop;
	my $old_kafka = KafkaBroker->new(secure => 1, version => '3.9.1', users => [ "alice:$password" ]);
	$old_kafka->create_topic('safe', 2);
	%sasl_ssl = (security_protocol => 'SASL_SSL', ssl_ca_pem => $old_kafka->tls('ca.pem'));
	for my $mechanism ('SCRAM-SHA-256', 'SCRAM-SHA-512')
	{
		connects_ok("$mechanism with TLS", $old_kafka->address('sasl_ssl'), { %sasl_ssl, sasl_mechanism => $mechanism }, \%alice);
	}
	fails_with('SCRAM with a wrong password', '28000', qr/HINT:  Check user and password/, $old_kafka->address('sasl_ssl'),
		{ %sasl_ssl, sasl_mechanism => 'SCRAM-SHA-512' }, { user => 'alice', password => "not-$password" });
	$old_kafka->stop;
	$kafka->start;
}

# ---- a query through TLS and SASL
%sasl_ssl = (security_protocol => 'SASL_SSL', ssl_ca_pem => $ca);
$node->sql('CREATE SERVER b FOREIGN DATA WRAPPER streamx_kafka OPTIONS ('
	. options(bootstrap_servers => $kafka->address('sasl_ssl'), %sasl_ssl, sasl_mechanism => 'PLAIN') . ');'
	. 'CREATE USER MAPPING FOR postgres SERVER b OPTIONS (' . options(%alice) . ');'
	. "CREATE FOREIGN TABLE safe (value text, key text, headers jsonb) SERVER b OPTIONS (topic 'safe', format 'raw', starting_offsets 'earliest');"
	. "CREATE FOREIGN TABLE nowhere (value text) SERVER b OPTIONS (topic 'no-such-topic', format 'raw', starting_offsets 'earliest');");
is($node->sql('SELECT string_agg(value, \' \' ORDER BY value) FROM safe'), 'one two', 'a topic is read through TLS and SASL');
$node->sql("SELECT start_query(name => 'safe', query => 'SELECT value FROM safe', sink => 'copy')");
ok($node->poll('SELECT count(*) = 2 FROM copy'), 'and by a query');

# the password is changed under it: the query fails, and goes on when it is mended
$node->sql("SELECT stop_query('safe')");
$node->sql("ALTER USER MAPPING FOR postgres SERVER b OPTIONS (SET password 'wrong-$password')");
$node->sql("SELECT start_query('safe')");
ok($node->poll("SELECT state = 'failed' AND last_error LIKE '%could not %' FROM streamx.queries"), 'with a wrong password the query fails after some attempts')
	or diag($node->sql('SELECT state, last_error FROM streamx.queries'));
is($node->sql("SELECT DISTINCT sqlstate FROM streamx.failures"), '28000', 'by its SQLSTATE');
like($node->sql('SELECT hint FROM streamx.queries'), qr/^Check user and password/, 'with a hint');
$node->sql('ALTER USER MAPPING FOR postgres SERVER b OPTIONS (SET password ' . literal($password) . ')');
$kafka->produce('safe', 'three');
$node->sql("SELECT start_query('safe')");
ok($node->poll('SELECT count(*) = 3 FROM copy'), 'mended and started it goes on where it was');

# the same for a query that writes, and for rows of SQL
$kafka->create_topic($_, 1) for 'written', 'inserted';
$node->sql("SELECT create_stream('s', 'value text')");
$node->sql("CREATE FOREIGN TABLE $_ (value text) SERVER b OPTIONS (topic '$_')") for 'written', 'inserted';
$node->sql("ALTER USER MAPPING FOR postgres SERVER b OPTIONS (SET password 'wrong-$password')");
$node->sql("SELECT start_query('writer', 'SELECT value FROM s', sink => 'written')");
$node->sql("INSERT INTO s VALUES ('one'); INSERT INTO inserted VALUES ('one')");
ok($node->poll("SELECT state = 'failed' AND hint LIKE 'Check user and password%' FROM streamx.queries WHERE name = 'writer'"), 'with a wrong password a query that writes fails, with a hint')
	or diag($node->sql('SELECT q FROM streamx.queries q'));
ok($node->poll("SELECT last_error LIKE '%could not %' FROM streamx.outbox"), 'and inserted rows wait');
$node->sql('ALTER USER MAPPING FOR postgres SERVER b OPTIONS (SET password ' . literal($password) . ')');
$node->sql("SELECT start_query('writer')");
ok($node->poll("SELECT process_all_available('writer', '30 s') IS NOT NULL"), 'mended and started it goes on');
ok($node->poll('SELECT rows = 0 FROM streamx.outbox', 't', 120), 'as do inserted rows, by themselves');
is(join(' ', map { $kafka->values_of($_) } 'written', 'inserted'), 'one one', 'nothing was lost, nothing is there twice');
$node->sql("SELECT drop_query('writer')");

# the topic does not exist
my ($rc, undef, $err) = $node->try_sql("\\set VERBOSITY verbose\nSELECT * FROM nowhere");
$said .= $err;
like($err, qr/HV00R.*"?no-such-topic"?.*HINT:.*Create the topic/s, 'an unknown topic is an error with a hint');

# the broker goes and comes
$kafka->kill9;
$kafka->start;
$kafka->produce('safe', 'four');
ok($node->poll('SELECT count(*) = 4 FROM copy'), 'a broker that was killed and came back: nothing is lost, nothing twice');
$kafka->stop;
($rc, undef, $err) = $node->try_sql("\\set VERBOSITY verbose\nSELECT count(*) FROM safe");
$said .= $err;
like($err, qr/08006.*HINT:  Check that the brokers run/s, 'a SELECT while the broker is away says so');
$node->sql("SELECT stop_query('safe')");
$node->sql("SELECT start_query('safe')");
ok($node->poll("SELECT state = 'retrying' AND last_error IS NOT NULL FROM streamx.queries"), 'a start while the broker is away waits for it');
$kafka->start;
$kafka->produce('safe', 'five');
ok($node->poll('SELECT count(*) = 5 FROM copy'), 'and goes on when it is there');
$node->sql("SELECT stop_query('safe')");

# ---- CASE-51: the password is found nowhere
$node->try_sql('CREATE USER MAPPING FOR postgres SERVER b OPTIONS (' . options(%alice) . ')');	# exists
$node->try_sql('CREATE USER MAPPING FOR postgres SERVER mistyped OPTIONS (' . options(%alice) . ')');
$node->try_sql('CREATE USER MAPPING FOR plain SERVER b OPTIONS (' . options(%alice) . ')', user => 'plain');	# no right to
my @line = grep { length > 40 } split /\n/, $key;
unlike($said, qr/\Q$password\E|\Q$line[3]\E|\Q$token\E/, 'no secret in what was said to the user');
my $log = SxCluster::slurp($node->{log});
cmp_ok(length $log, '>', 10000, 'the log has much to say');
unlike($log, qr/\Q$password\E/, 'the password is not in the log');
unlike($log, qr/\Q$line[3]\E/, 'nor is the key');
unlike($log, qr/\Q$token\E/, 'nor is the token');
for my $what ('pg_user_mappings', 'pg_foreign_server', 'pg_foreign_table', 'pg_stat_activity', 'information_schema.user_mapping_options',
	map { "streamx.$_" } qw(queries progress sources failures state_operators quarantine))
{
	my (undef, $out, $error) = $node->try_sql("SELECT * FROM $what", user => 'plain');
	unlike("$out$error", qr/\Q$password\E/, "an ordinary user does not find it in $what");
}
my $all = $node->sql('SELECT (SELECT coalesce(string_agg(q::text, chr(10)), \'\') FROM streamx.queries q) || (SELECT coalesce(string_agg(f::text, chr(10)), \'\') FROM streamx.failures f) || (SELECT coalesce(string_agg(p::text, chr(10)), \'\') FROM streamx.progress p)');
unlike($all, qr/\Q$password\E/, 'nor does a superuser in the views of streamx');
$node->sql('GRANT USAGE ON SCHEMA streamx TO plain; GRANT SELECT ON copy TO plain; CREATE SCHEMA own AUTHORIZATION plain');
my $dump = SxCluster::base_dir() . '/dump.sql';
SxCluster::run_quietly($dump, "$node->{bin}/pg_dump", '-h', $node->{dir}, '-p', $node->{port}, '-U', 'plain', '-s', '-n', 'own', 'postgres');
SxCluster::run_quietly($dump, "$node->{bin}/pg_dump", '-h', $node->{dir}, '-p', $node->{port}, '-U', 'plain', '-s', 'postgres');
unlike(SxCluster::slurp($dump), qr/\Q$password\E/, 'nor is it in the dump of an ordinary user');
done_testing();
