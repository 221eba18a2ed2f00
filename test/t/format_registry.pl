# A schema registry: schemas by id, passwords, errors, and one that is away. The
# registry is a few lines of Perl here.
use strict;
use warnings;

use FindBin;
use lib $FindBin::Bin;
use IO::Socket::INET;
use JSON::PP;
use MIME::Base64 qw(encode_base64);
use SxCluster;
use Test::More;

my %schemas = (
	1 => '{"type":"record","name":"r","fields":[{"name":"id","type":"long"},{"name":"name","type":["null","string"]}]}',
	2 => '{"type":"record","name":"r","fields":[{"name":"name","type":"string"},{"name":"id","type":"int"},{"name":"more","type":"double"}]}',
	3 => 'not a schema');
my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 10, ReuseAddr => 1) or die "no socket: $!";
my $port = $listener->sockport;
my $log = SxCluster::base_dir() . "/registry.$$";

sub answer
{
	my ($client, $status, $body) = @_;
	print $client "HTTP/1.1 $status X\r\nContent-Type: application/json\r\nContent-Length: " . length($body) . "\r\nConnection: close\r\n\r\n$body";
}

sub serve
{
	my ($client) = @_;
	my $request = <$client> // return;
	my ($length, $authorization) = (0, '');
	while (defined(my $line = <$client>))
	{
		last if $line =~ /^\r?\n$/;
		$length = $1 if $line =~ /^Content-Length: (\d+)/i;
		$authorization = $1 if $line =~ /^Authorization: Basic (\S+)/i;
	}
	read($client, my $body, $length) if $length;
	open my $f, '>>', $log;
	print $f $request;
	close $f;
	return answer($client, 401, '{"error_code":40101,"message":"Unauthorized"}')
		if $request =~ m{/secret/} && $authorization ne encode_base64('me:s3cr3t!', '');
	$request =~ s{/secret}{};
	if ($request =~ m{^POST /subjects/([^/]+)/versions})
	{
		$schemas{7} = decode_json($body)->{schema};
		return answer($client, 200, '{"id":7}');
	}
	return answer($client, 500, '{}') if $request =~ m{/schemas/ids/500 };
	return answer($client, 200, 'hello') if $request =~ m{/schemas/ids/8 };
	return answer($client, 200, encode_json({ schema => $schemas{$1} })) if $request =~ m{/schemas/ids/(\d+) } && $schemas{$1};
	return answer($client, 404, '{"error_code":40403,"message":"Schema not found"}');
}

my $server = fork() // die "fork: $!";
if ($server == 0)
{
	while (my $client = $listener->accept)
	{
		serve($client);
		close $client;
	}
	exit 0;
}
close $listener;

my $node = SxCluster->new('registry');
$node->start;
$node->sql('CREATE EXTENSION streamx; CREATE EXTENSION streamx_format_test; CREATE TYPE row_type AS (id bigint, name text);');

sub rows
{
	my ($options, @records) = @_;
	my $array = join ',', map { "'\\x$_'::bytea" } @records;
	my ($status, $out, $err) = $node->try_sql("SELECT string_agg(row_text || ' ' || coalesce(error, 'good'), E'\\n' ORDER BY record) FROM format_decode('avro', ARRAY[$array], NULL::row_type, ARRAY[$options])");
	return $status == 0 ? $out : $err;
}

my $url = "'schema_registry_url', 'http://127.0.0.1:$port/'";
is(rows($url, '00000000010e0206616263', '00000000020678797a100000000000000000', '00000000011000'), "(7,abc) good\n(8,xyz) good\n(8,) good", 'each record is read by the schema that it was written with');
is(rows($url, ('00000000011000') x 50) =~ tr/\n//, 49, 'many records of one schema');
open my $f, '<', $log;
my @requests = <$f>;
close $f;
is(scalar(grep { m{/schemas/ids/1 } } @requests), 2, 'a decoder fetches a schema once');
is(rows($url, '000000000910'), '(,) schema 9 is not in the registry', 'a schema that is not there: the record is malformed');
like(rows($url, '000000000310'), qr/^\(,\) the schema is not valid JSON/, 'one that is none, too');
is(rows($url, '0100000001'), '(,) the record does not begin with the id of a schema', 'and a record without an id');
is(rows($url, '000000'), '(,) the record does not begin with the id of a schema', 'or shorter than that');

# What says nothing of the record is no malformed record, but waits.
like(rows($url, '00000001f410'), qr/cannot decode.*HTTP status 500/s, 'an error of the registry stops the decoder');
like(rows($url, '000000000810'), qr/cannot decode.*something else than a schema/s, 'an answer that is none does, too');

# Passwords.
my $secret = "'schema_registry_url', 'http://127.0.0.1:$port/secret'";
is(rows("$secret, 'schema_registry_user', 'me', 'schema_registry_password', 's3cr3t!'", '00000000011000'), '(8,) good', 'user and password are sent');
my $refused = rows("$secret, 'schema_registry_user', 'me', 'schema_registry_password', 's3cr3t?'", '00000000011000');
like($refused, qr/refuses user and password/, 'a wrong one is refused');
unlike($refused, qr/s3cr3t/, 'and appears in no error');

# Writing.
is($node->sql("SELECT format_encode('avro', ROW(7, 'abc')::row_type, ARRAY[$url, 'schema_registry_subject', 'a topic-value'])"), '\x0000000007020e0206616263', 'a registered schema\'s id stands before what is written');
is(rows($url, '0000000007020e0206616263'), '(7,abc) good', 'which reads it');
my (undef, undef, $error) = $node->try_sql("SELECT format_encode('avro', ROW(7, 'abc')::row_type, ARRAY[$url])");
like($error, qr/schema_registry_subject/, 'the subject has to be said');

# Away.
kill 'TERM', $server;
waitpid $server, 0;
my $since = time;
(undef, undef, $error) = $node->try_sql("SELECT format_encode('avro', ROW(7, 'abc')::row_type, ARRAY[$url, 'schema_registry_subject', 's'])");
like($error, qr/cannot register the Avro schema.*Could ?n.t connect/s, 'a registry that is away');
cmp_ok(time - $since, '<', 20, 'does not hold up for long');
$node->stop;
done_testing();
